/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Storage that fails, or is full, and queries that are canceled while they use temporary space:
 * every operator that spills ends with the error, and gives back its memory and all blocks. A device
 * that loses or damages a write and reports success gives an error, never a wrong answer.
 * FTH_LONG_TESTS fails every operation of the device and tries every size of it, not a few of them,
 * and each with one thread and with two.
 */
#include "table/test/table_fixture.h"

#include "dev/wrap/dev_wrap.h"
#include "fathom/dev/fault.h"
#include "query/db_catalog.h"
#include "query/plan/plan.h"
#include "query/sql/sql.h"
#include "query/exec/exec.h"

#define ROWS	   50000u
#define GROUP_ROWS 4096u
#define BUDGET	   (3u << 20)
#define DEVICE	   "mem:32M"
/*
 * Points of failure for a query and a kind of failure. ThreadSanitizer makes queries twenty times
 * slower.
 */
#ifdef __SANITIZE_THREAD__
#define POINTS 1u
#else
#define POINTS 4u
#endif

/*
 * k: all different, sparse; one: the same in nine of ten rows; g: 50 values; d: 20 digits; s: text,
 * all different.
 */
static const char columns[] = "k bigint not null, one int not null, g int not null, "
			      "d decimal(38,0) not null, s varchar(48) not null";

struct spilling {
	const char *name, *sql;
};

static const struct spilling queries[] = {
	{"groups in blocks", "select count(*), sum(n), sum(m), max(x) from (select k, count(*) n, "
			     "sum(g) m, max(d) x from t group by k) z"},
	{"groups in records", "select count(*), max(m), sum(n) from (select s, min(k) m, count(*) "
			      "n from t group by s) z"},
	{"distinct values of many groups",
	 "select g, count(distinct s), count(distinct d), sum(distinct d) from t group by g"},
	{"distinct values of one group",
	 "select count(distinct d), sum(distinct d), count(distinct s) from t"},
	{"distinct rows", "select count(*), min(s) from (select distinct d, s from t) z"},
	{"sort", "select k, s from t order by s, k"},
	{"rows of a result",
	 "select count(*), min(s), max(s) from (select s from t union all select s from t) z"},
	{"rows of one key",
	 "select count(*), count(b.k), max(b.s), max(b.d) from t a left join t b "
	 "on a.one = b.one and b.k > a.k where a.k < 1000000"},
	{"rows without a key", "select count(*), count(b.k), max(b.s), max(b.d) from t a left join "
			       "t b on b.k > a.k where a.k < 500000"},
	{"rows held before parts",
	 "select count(*), count(b.k), sum(b.g), max(b.d), max(a.s) from t a left join t b on a.d "
	 "= b.d where a.g < 12 and length(a.s) > 5"},
	{"groups over a join in parts",
	 "select count(*), sum(z.n), sum(z.m), min(c.s) from (select a.s, count(*) n, sum(b.k) m "
	 "from t a join t b on a.d = b.d group by a.s) z join t c on z.s = c.s where z.n >= 1"},
};
#define QUERIES (sizeof(queries) / sizeof(queries[0]))

/* ---- a device that cancels the query, or lies, at one of its operations ---- */

enum lie {
	LIE_LOST, /* nothing is written */
	LIE_TORN, /* the second half of the bytes is not */
	LIE_FLIP, /* one bit is another */
	LIES,
};

struct hook_dev {
	struct fth_wrap_dev wrap;
	_Atomic uint64_t count; /* reads and writes */
	uint64_t at;		/* the one that cancels; 0: none */
	atomic_bool canceled;
	_Atomic uint64_t blocks; /* written and not discarded since, in bytes */
	_Atomic uint64_t writes;
	uint64_t lie_at; /* the write that is not done as reported; 0: none */
	enum lie lie;
};

/* Whether the write is reported as done without the device inside. */
static bool tell_lie(struct hook_dev *hook, struct fth_dev_req *req)
{
	char *bytes = req->iov[0].iov_base;
	size_t length = req->iov[0].iov_len;

	if (hook->lie == LIE_TORN)
		memset(bytes + length / 2, 0, length - length / 2);
	else if (hook->lie == LIE_FLIP)
		bytes[0] ^= 4;
	req->result = 0;
	return hook->lie == LIE_LOST;
}

/* Count the request. Whether it goes to the device inside. */
static bool note_request(struct hook_dev *hook, struct fth_dev_req *req)
{
	if (req->op == FTH_DEV_DISCARD) {
		hook->blocks -= req->length;
		return true;
	}
	if (++hook->count == hook->at)
		hook->canceled = true;
	if (req->op != FTH_DEV_WRITE)
		return true;
	hook->blocks += req->length;
	return ++hook->writes != hook->lie_at || !tell_lie(hook, req);
}

static int hook_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct hook_dev *hook = (struct hook_dev *)base->dev;
	struct fth_wrap_chan *chan = (struct fth_wrap_chan *)base;

	for (unsigned i = 0; i < n; i++)
		if (note_request(hook, reqs[i]))
			fth_wrap_pass(chan, &reqs[i], 1);
		else
			fth_wrap_hold(chan, reqs[i], FTH_WRAP_NOW);
	return (int)n;
}

static void hook_inner_done(struct fth_wrap_chan *chan, struct fth_dev_req *req)
{
	fth_wrap_hold(chan, req, FTH_WRAP_NOW);
}

static int hook_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	return fth_wrap_chan_new(dev, depth, hook_inner_done, out);
}

static void hook_close(struct fth_dev *dev)
{
	fth_dev_close(((struct hook_dev *)dev)->wrap.inner);
	free(dev);
}

static struct hook_dev *open_hook(const char *uri)
{
	static const struct fth_dev_ops ops = {
		.close = hook_close,
		.chan_open = hook_chan_open,
		.chan_close = fth_wrap_chan_close,
		.submit = hook_submit,
		.reap = fth_wrap_reap,
		.chan_fd = fth_wrap_chan_fd,
		.map = fth_wrap_map,
		.unmap = fth_wrap_unmap,
	};
	struct hook_dev *hook = calloc(1, sizeof(*hook));

	assert_non_null(hook);
	assert_ok(fth_dev_open(uri, &hook->wrap.inner));
	hook->wrap.dev.ops = &ops;
	hook->wrap.dev.info = *fth_dev_info(hook->wrap.inner);
	assert_ok(fth_dev_adopt(&hook->wrap.dev, "hook"));
	return hook;
}

/* ---- the table ---- */

static void fill_table(struct fth_table_db *db)
{
	static int64_t k[ROWS], one[ROWS], g[ROWS];
	static fth_i128 d[ROWS];
	static uint32_t offsets[ROWS + 1];
	static char bytes[ROWS * 48];
	const struct fth_table_vector vectors[] = {
		{.values = k},
		{.values = one},
		{.values = g},
		{.values = d},
		{.offsets = offsets, .bytes = bytes},
	};
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	struct fth_rng rng = {1};
	struct fth_table_writer *writer;

	for (uint32_t i = 0; i < ROWS; i++) {
		uint64_t r = fth_rng_next(&rng);

		k[i] = (int64_t)((uint64_t)i * 7919 % ROWS * 100003);
		one[i] = i % 10 == 0 ? (int64_t)(r % 1000) : 1;
		g[i] = (int64_t)(r % 50);
		d[i] = ((fth_i128)(r >> 2) << 4) + i % 16;
		offsets[i + 1] =
			offsets[i] + (uint32_t)sprintf(bytes + offsets[i], "%016llx%016llx%06u",
						       (unsigned long long)r,
						       (unsigned long long)~r, i);
	}
	options.group_rows = GROUP_ROWS;
	options.fact_memory = 1 << 16; /* k is not known to be unique: groups by it are made */
	assert_ok(fth_table_writer_open(db, "t", &options, &writer));
	assert_ok(fth_table_writer_append(writer, vectors, ROWS));
	assert_ok(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
}

static int open_table(void **state)
{
	static struct table_fixture f;

	fixture_open(&f);
	fixture_create(&f, "t", columns);
	fill_table(f.db);
	*state = &f;
	return 0;
}

static int close_table(void **state)
{
	fixture_close(*state);
	return 0;
}

/* ---- queries ---- */

struct answer {
	uint64_t rows, sum; /* a sum over all values, in no order */
	uint64_t spilled;
	uint64_t probed; /* bytes that the task with the join read */
};

static int take_rows(void *user, const struct fth_vec *vecs, const struct fth_sel *sel)
{
	struct answer *a = user;

	for (unsigned i = 0; i < sel->n; i++) {
		if (!fth_bit(sel->bits, i))
			continue;
		a->rows++;
		if (vecs[0].type <= FTH_I128)
			a->sum += (uint64_t)fth_vec_int(&vecs[0], i) * 0x9e3779b97f4a7c15u;
		if (vecs[1].type <= FTH_I128)
			a->sum += (uint64_t)fth_vec_int(&vecs[1], i) * 0xbf58476d1ce4e5b9u;
	}
	return 0;
}

static bool looks_up(const struct task *t)
{
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP)
			return true;
	return false;
}

/* Run a query with so much memory, which must be free again, and with it every stream. */
static int ask_within(uint64_t budget, struct table_fixture *f, const char *sql, unsigned threads,
		      struct fth_dev *dev, const atomic_bool *cancel, struct answer *a)
{
	struct fth_qmem *mem = fth_qmem_new(budget);
	struct exec_options options = {
		.mem = mem, .threads = threads, .cancel = cancel, .scratch_dev = dev};
	struct plan_options plan = {.mem = mem, .open = catalog_table};
	struct exec_stats stats[16] = {{0}};
	struct sql_statement *statement = NULL;
	struct fth_arena arena = {0};
	struct catalog *catalog;
	struct task_set set;
	int rc;

	memset(a, 0, sizeof(*a));
	assert_ok(catalog_new(f->db, mem, &catalog));
	plan.self = catalog;
	fth_arena_init(&arena, mem, 1 << 14);
	assert_ok(sql_compile(catalog_sql(catalog), sql, NULL, &statement, NULL));
	assert_ok(plan_query(&statement->query, &plan, &arena, &set));
	assert_true(set.task_count <= 16);
	rc = exec_run(&set, &options, take_rows, a, stats);
	for (unsigned i = 0; i < set.task_count; i++) {
		a->spilled += stats[i].spilled;
		a->probed += looks_up(&set.tasks[i]) ? stats[i].bytes : 0;
	}
	sql_free(statement);
	fth_arena_release(&arena);
	catalog_free(catalog);
	assert_int_equal(fth_qmem_close(mem), 0);
	return rc;
}

/* Likewise, with temporary space on a device. */
static int ask(struct table_fixture *f, const char *sql, unsigned threads, struct fth_dev *dev,
	       const atomic_bool *cancel, struct answer *a)
{
	return ask_within(BUDGET, f, sql, threads, dev, cancel, a);
}

/* The right answer, which must not be had without temporary space. */
static void ask_first(struct table_fixture *f, const struct spilling *q, unsigned threads,
		      struct fth_dev *dev, struct answer *a)
{
	int rc = ask(f, q->sql, threads, dev, NULL, a);

	if (rc < 0 || a->spilled == 0)
		fail_msg("%s, %u threads: %d (%s), %llu bytes spilled", q->name, threads, rc,
			 rc < 0 ? fth_error_text(rc) : "", (unsigned long long)a->spilled);
}

static void check_answer(const struct spilling *q, const struct answer *a,
			 const struct answer *right)
{
	if (a->rows != right->rows || a->sum != right->sum)
		fail_msg("%s: %llu rows, expected %llu", q->name, (unsigned long long)a->rows,
			 (unsigned long long)right->rows);
}

/* The next of the numbers from 1 to `of` at which something fails. */
static uint64_t next_point(uint64_t at, uint64_t of)
{
	uint64_t step = getenv("FTH_LONG_TESTS") ? 1 : of / POINTS;

	return at + (step == 0 ? 1 : step);
}

/*
 * A short run takes one number of threads for each query, and every other query under
 * ThreadSanitizer.
 */
static bool is_tried(unsigned query, unsigned threads)
{
#ifdef __SANITIZE_THREAD__
	if (threads == 1)
		return false;
#endif
	return getenv("FTH_LONG_TESTS") || query % 2 + 1 == threads;
}

/* ---- failures ---- */

static void fail_operations(struct table_fixture *f, const struct spilling *q, unsigned threads,
			    enum fth_dev_op op, const struct fth_dev_fault_plan *how)
{
	struct hook_dev *hook = open_hook("fault(" DEVICE ")");
	struct fth_dev *fault = hook->wrap.inner;
	struct fth_dev_fault_plan plan = *how;
	struct fth_dev_fault_counts counts;
	struct answer right, a;
	uint64_t operations;

	plan.kinds = 1u << op;
	plan.nth = UINT64_MAX;
	assert_ok(fth_dev_fault_set(fault, &plan));
	ask_first(f, q, threads, &hook->wrap.dev, &right);
	assert_ok(fth_dev_fault_counts(fault, &counts));
	operations = counts.matched;
	assert_true(operations > 0);
	plan.every = 1;
	for (uint64_t nth = 1; nth <= operations; nth = next_point(nth, operations)) {
		int rc;

		plan.nth = nth;
		assert_ok(fth_dev_fault_set(fault, &plan));
		hook->blocks = 0;
		rc = ask(f, q->sql, threads, &hook->wrap.dev, NULL, &a);
		assert_ok(fth_dev_fault_counts(fault, &counts));
		/* Threads may share the work in another way, with fewer operations. */
		if (rc == 0 && counts.injected == 0)
			check_answer(q, &a, &right);
		else if (rc != -plan.error)
			fail_msg("%s, %u threads, operation %d number %llu of %llu: %d (%s)",
				 q->name, threads, (int)op, (unsigned long long)nth,
				 (unsigned long long)operations, rc,
				 rc < 0 ? fth_error_text(rc) : "");
		if (hook->blocks != 0)
			fail_msg("%s: %llu bytes were not given back", q->name,
				 (unsigned long long)hook->blocks);
	}
	fth_dev_close(&hook->wrap.dev);
}

static void fail_all(struct table_fixture *f, enum fth_dev_op op,
		     const struct fth_dev_fault_plan *how)
{
	for (unsigned i = 0; i < QUERIES; i++)
		for (unsigned threads = 1; threads <= 2; threads++)
			if (is_tried(i, threads))
				fail_operations(f, &queries[i], threads, op, how);
}

static void failed_writes_end_the_query(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	fail_all(*state, FTH_DEV_WRITE, &plan);
	plan.mode = FTH_DEV_FAULT_TORN;
	plan.error = ENOSPC;
	fail_all(*state, FTH_DEV_WRITE, &plan);
}

static void failed_reads_end_the_query(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	fail_all(*state, FTH_DEV_READ, &plan);
}

/* A failed discard frees the block too. */
static void failed_discards_do_not_matter(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct hook_dev *hook = open_hook("fault(" DEVICE ")");
	struct answer right, a;

	plan.kinds = 1u << FTH_DEV_DISCARD;
	plan.every = 1;
	for (unsigned i = 0; i < QUERIES; i++) {
		assert_ok(fth_dev_fault_disarm(hook->wrap.inner));
		ask_first(*state, &queries[i], 2, &hook->wrap.dev, &right);
		assert_ok(fth_dev_fault_set(hook->wrap.inner, &plan));
		assert_ok(ask(*state, queries[i].sql, 2, &hook->wrap.dev, NULL, &a));
		check_answer(&queries[i], &a, &right);
	}
	fth_dev_close(&hook->wrap.dev);
}

/*
 * Each write in turn is not done as the device says. The device is new each time: an old one has
 * the blocks of the last run. Returns how often the query noticed.
 */
static uint64_t damage_writes(struct table_fixture *f, const struct spilling *q, unsigned threads,
			      enum lie lie)
{
	struct hook_dev *hook = open_hook(DEVICE);
	uint64_t writes, noticed = 0;
	struct answer right, a;

	ask_first(f, q, threads, &hook->wrap.dev, &right);
	writes = hook->writes;
	fth_dev_close(&hook->wrap.dev);
	for (uint64_t nth = 1; nth <= writes; nth = next_point(nth, writes)) {
		int rc;

		hook = open_hook(DEVICE);
		hook->lie = lie;
		hook->lie_at = nth;
		rc = ask(f, q->sql, threads, &hook->wrap.dev, NULL, &a);
		/* A block that nobody reads again may be anything. */
		if (rc == 0)
			check_answer(q, &a, &right);
		else if (rc != -EILSEQ)
			fail_msg("%s, %u threads, write %llu of %llu: %d (%s)", q->name, threads,
				 (unsigned long long)nth, (unsigned long long)writes, rc,
				 fth_error_text(rc));
		noticed += rc < 0;
		assert_int_equal(hook->blocks, 0);
		fth_dev_close(&hook->wrap.dev);
	}
	return noticed;
}

static void damaged_writes_are_noticed(void **state)
{
	for (enum lie lie = 0; lie < LIES; lie++) {
		uint64_t noticed = 0;

		for (unsigned i = 0; i < QUERIES; i++)
			for (unsigned threads = 1; threads <= 2; threads++)
				if (is_tried(i + lie, threads))
					noticed += damage_writes(*state, &queries[i], threads, lie);
		assert_true(noticed > 0);
	}
}

/* ---- too little space ---- */

static void fill_devices(struct table_fixture *f, const struct spilling *q, unsigned threads)
{
	uint64_t kib = 16, need, full = 0;
	struct answer right, a;
	bool fits = false;
	char uri[64];
	struct hook_dev *hook = open_hook(DEVICE);

	ask_first(f, q, threads, &hook->wrap.dev, &right);
	fth_dev_close(&hook->wrap.dev);
	need = right.spilled >> 10;
	while (!fits) {
		int rc;

		snprintf(uri, sizeof(uri), "mem:%lluK", (unsigned long long)kib);
		hook = open_hook(uri);
		rc = ask(f, q->sql, threads, &hook->wrap.dev, NULL, &a);
		assert_int_equal(hook->blocks, 0);
		fth_dev_close(&hook->wrap.dev);
		if (rc == 0)
			check_answer(q, &a, &right);
		else if (rc != -ENOSPC)
			fail_msg("%s, %u threads, %llu KiB: %d (%s)", q->name, threads,
				 (unsigned long long)kib, rc, fth_error_text(rc));
		fits = rc == 0;
		full += rc < 0;
		kib += getenv("FTH_LONG_TESTS") || need / POINTS < 16 ? 16
								      : need / POINTS / 16 * 16;
	}
	assert_true(full > 0);
}

static void too_little_space_is_a_clean_error(void **state)
{
	for (unsigned i = 0; i < QUERIES; i++)
		for (unsigned threads = 1; threads <= 2; threads++)
			if (is_tried(i + 1, threads))
				fill_devices(*state, &queries[i], threads);
}

/* ---- cancel ---- */

static void cancel_operations(struct table_fixture *f, const struct spilling *q, unsigned threads)
{
	struct hook_dev *hook = open_hook(DEVICE);
	struct answer right, a;
	uint64_t operations;

	ask_first(f, q, threads, &hook->wrap.dev, &right);
	operations = hook->count;
	for (uint64_t nth = 1; nth <= operations; nth = next_point(nth, operations)) {
		int rc;

		hook->at = nth;
		hook->count = 0;
		hook->canceled = false;
		assert_int_equal(hook->blocks, 0);
		rc = ask(f, q->sql, threads, &hook->wrap.dev, &hook->canceled, &a);
		/* The last operations may have nothing behind them that looks. */
		if (rc == 0 && (!hook->canceled || nth + threads > operations))
			check_answer(q, &a, &right);
		else if (rc != -ECANCELED)
			fail_msg("%s, %u threads, canceled at %llu of %llu: %d (%s)", q->name,
				 threads, (unsigned long long)nth, (unsigned long long)operations,
				 rc, rc < 0 ? fth_error_text(rc) : "");
		/* Each thread may have been about to start one more. */
		if (rc < 0 && hook->count > nth + threads)
			fail_msg("%s: %llu more operations", q->name,
				 (unsigned long long)(hook->count - nth));
	}
	assert_int_equal(hook->blocks, 0);
	fth_dev_close(&hook->wrap.dev);
}

static void canceled_queries_end(void **state)
{
	for (unsigned i = 0; i < QUERIES; i++)
		for (unsigned threads = 1; threads <= 2; threads++)
			if (is_tried(i + 1, threads))
				cancel_operations(*state, &queries[i], threads);
}

/* A table whose rows look up in parts is read once, as with enough memory. */
static void held_rows_save_reading(void **state)
{
	const char *sql = NULL;
	struct answer much, little;

	for (unsigned i = 0; i < QUERIES; i++)
		if (strcmp(queries[i].name, "rows held before parts") == 0)
			sql = queries[i].sql;
	assert_non_null(sql);
	assert_ok(ask_within(64u << 20, *state, sql, 2, NULL, NULL, &much));
	assert_ok(ask(*state, sql, 2, NULL, NULL, &little));
	assert_int_equal(much.spilled, 0);
	assert_true(little.spilled > 0);
	assert_true(much.rows == little.rows && much.sum == little.sum);
	assert_true(much.probed > 0 && little.probed == much.probed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_writes_end_the_query),
		cmocka_unit_test(failed_reads_end_the_query),
		cmocka_unit_test(failed_discards_do_not_matter),
		cmocka_unit_test(damaged_writes_are_noticed),
		cmocka_unit_test(too_little_space_is_a_clean_error),
		cmocka_unit_test(canceled_queries_end),
		cmocka_unit_test(held_rows_save_reading),
	};

	return cmocka_run_group_tests(tests, open_table, close_table);
}
