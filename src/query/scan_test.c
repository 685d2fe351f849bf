/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What scans read and what they leave out; reads that fail, damaged chunks, queries that are
 * canceled.
 */
#include "table/test/table_fixture.h"

#include "fathom/vol.h"
#include "query/db_catalog.h"
#include "query/plan/plan.h"
#include "query/sql/sql.h"
#include "query/exec/exec.h"
#include "query/spill/result_rows.h"

#include <fcntl.h>

#define GROUPS	   20u
#define GROUP_ROWS 1000u
#define ROWS	   (GROUPS * GROUP_ROWS)

/*
 * t: k and s ascending; price = k / 100; mix has all of 0 to 99 but 50 in each group, and 50 in
 * group 3 alone; part is null in all groups but 5; comment is text in blocks.
 */
static const char columns[] = "k int not null, price decimal(10,2) not null, mix int not null, "
			      "part int, s varchar(10) not null, comment varchar(100) not null";

struct text_column {
	uint32_t offsets[ROWS + 1];
	char bytes[ROWS * 100];
};

static void fill_table(struct fth_table_db *db)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	static int64_t k[ROWS], mix[ROWS], part[ROWS];
	static uint8_t nulls[ROWS];
	static struct text_column s, comment;
	const struct fth_table_vector vectors[] = {
		{.values = k},
		{.values = k},
		{.values = mix},
		{.values = part, .nulls = nulls},
		{.offsets = s.offsets, .bytes = s.bytes},
		{.offsets = comment.offsets, .bytes = comment.bytes},
	};
	struct fth_rng rng = {1};
	struct fth_table_writer *writer;

	for (uint32_t i = 0; i < ROWS; i++) {
		uint32_t group = i / GROUP_ROWS;

		k[i] = i;
		mix[i] = i % 100 == 50 ? (group == 3 ? 50 : 51) : i % 100;
		part[i] = i;
		nulls[i] = group != 5;
		s.offsets[i + 1] =
			s.offsets[i] + (uint32_t)sprintf(s.bytes + s.offsets[i], "key%05u", i);
		comment.offsets[i + 1] =
			comment.offsets[i] +
			(uint32_t)sprintf(comment.bytes + comment.offsets[i],
					  "%016llx%016llx%016llx%u",
					  (unsigned long long)fth_rng_next(&rng),
					  (unsigned long long)fth_rng_next(&rng),
					  (unsigned long long)fth_rng_next(&rng), i);
	}
	options.group_rows = GROUP_ROWS;
	assert_ok(fth_table_writer_open(db, "t", &options, &writer));
	assert_ok(fth_table_writer_append(writer, vectors, ROWS));
	assert_ok(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
}

static void open_table(struct table_fixture *f)
{
	fixture_open(f);
	fixture_create(f, "t", columns);
	fill_table(f->db);
}

struct answer {
	int64_t first; /* of the first row and column */
	uint64_t rows;
	struct exec_stats total;
	uint64_t memory; /* the most that was in use */
};

static int take_rows(void *user, const struct fth_vec *vecs, const struct fth_sel *sel)
{
	struct answer *a = user;

	for (unsigned i = 0; i < sel->n; i++) {
		if (!fth_bit(sel->bits, i))
			continue;
		if (a->rows++ == 0 && vecs[0].type <= FTH_I128)
			a->first = (int64_t)fth_vec_int(&vecs[0], i);
	}
	return 0;
}

static void add_up(struct answer *a, const struct exec_stats *stats, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		a->total.rows += stats[i].rows;
		a->total.bytes += stats[i].bytes;
		a->total.chunks += stats[i].chunks;
		a->total.groups_read += stats[i].groups_read;
		a->total.groups_skipped += stats[i].groups_skipped;
		a->total.chunks_skipped += stats[i].chunks_skipped;
	}
}

/* Run a query; returns 0 or its error. Everything that was allocated is given back. */
static int ask_in(struct fth_table_db *db, uint64_t budget, const char *sql, unsigned threads,
		  const atomic_bool *cancel, struct answer *a)
{
	struct fth_qmem *mem = fth_qmem_new(budget);
	struct exec_options options = {.mem = mem, .threads = threads, .cancel = cancel};
	struct plan_options plan = {.mem = mem, .open = catalog_table};
	struct exec_stats stats[16] = {{0}};
	struct sql_statement *statement = NULL;
	struct fth_arena arena = {0};
	struct catalog *catalog;
	struct task_set set;
	int rc;

	memset(a, 0, sizeof(*a));
	assert_ok(catalog_new(db, mem, &catalog));
	plan.self = catalog;
	fth_arena_init(&arena, mem, 1 << 14);
	rc = sql_compile(catalog_sql(catalog), sql, NULL, &statement, NULL);
	if (rc < 0 && catalog_error(catalog) < 0)
		rc = catalog_error(catalog);
	if (rc == 0)
		rc = plan_query(&statement->query, &plan, &arena, &set);
	if (rc == 0) {
		assert_true(set.task_count <= 16);
		rc = exec_run(&set, &options, take_rows, a, stats);
		add_up(a, stats, set.task_count);
	}
	a->memory = fth_qmem_peak(mem);
	sql_free(statement);
	fth_arena_release(&arena);
	catalog_free(catalog);
	assert_int_equal(fth_qmem_close(mem), 0);
	return rc;
}

static int ask(struct fth_table_db *db, const char *sql, unsigned threads,
	       const atomic_bool *cancel, struct answer *a)
{
	return ask_in(db, 64 << 20, sql, threads, cancel, a);
}

/* count(*) of a predicate, and the groups that are read for it. */
static void expect_groups(struct table_fixture *f, const char *predicate, int64_t count,
			  uint64_t groups)
{
	struct answer a;
	char sql[256];

	snprintf(sql, sizeof(sql), "select count(*) from t where %s", predicate);
	for (unsigned threads = 1; threads <= 2; threads++) {
		assert_ok(ask(f->db, sql, threads, NULL, &a));
		if (a.first != count || a.total.groups_read != groups ||
		    a.total.groups_skipped != GROUPS - groups)
			fail_msg("%s: %lld rows in %llu groups, %llu skipped", predicate,
				 (long long)a.first, (unsigned long long)a.total.groups_read,
				 (unsigned long long)a.total.groups_skipped);
	}
}

static void groups_without_rows_are_not_read(void **state)
{
	struct table_fixture f;

	(void)state;
	open_table(&f);
	expect_groups(&f, "k between 5000 and 5999", 1000, 1);
	expect_groups(&f, "k >= 4999 and k < 6001", 1002, 3);
	expect_groups(&f, "k = 7 or k = 19999", 2, 2);
	expect_groups(&f, "k in (3, 1003, 1004)", 3, 2);
	expect_groups(&f, "not (k < 19000)", 1000, 1);
	expect_groups(&f, "not (k < 19000 or k > 19500)", 501, 1);
	expect_groups(&f, "1000 > k", 1000, 1);
	expect_groups(&f, "k < 0", 0, 0);
	expect_groups(&f, "k <> 7", 19999, GROUPS);
	expect_groups(&f, "price = 100.005", 0, 1);
	expect_groups(&f, "price >= 199", 100, 1);
	expect_groups(&f, "price < 10.0", 1000, 1);
	expect_groups(&f, "s >= 'key19'", 1000, 1);
	expect_groups(&f, "s = 'key00007'", 1, 1);
	expect_groups(&f, "s = 'key00007x'", 0, 1);
	expect_groups(&f, "s < 'key00007'", 7, 1);
	expect_groups(&f, "part > 0", 1000, 1);
	expect_groups(&f, "part is not null", 1000, 1);
	expect_groups(&f, "part is null", 19000, 19);
	expect_groups(&f, "mix = 50", 10, GROUPS);
	expect_groups(&f, "k < mix", 1, 1);
	expect_groups(&f, "k + 0 = 7", 1, GROUPS);
	fixture_close(&f);
}

/* Keys of an earlier task leave out row groups as well. */
static void groups_without_keys_are_not_read(void **state)
{
	struct table_fixture f;
	struct answer a;

	(void)state;
	open_table(&f);
	assert_ok(ask(f.db,
		      "select count(*) from t where k in (select y.k from t y where y.mix = 50)", 2,
		      NULL, &a));
	assert_int_equal(a.first, 10);
	assert_int_equal(a.total.groups_read, GROUPS + 1);
	assert_int_equal(a.total.groups_skipped, GROUPS - 1);
	/* An anti join keeps rows without a match, so that nothing can be left out. */
	assert_ok(
		ask(f.db,
		    "select count(*) from t where k not in (select y.k from t y where y.mix = 50)",
		    2, NULL, &a));
	assert_int_equal(a.first, ROWS - 10);
	assert_int_equal(a.total.groups_skipped, 0);
	fixture_close(&f);
}

static uint64_t column_bytes(struct table_fixture *f, const char *name)
{
	struct fth_table *table;
	uint64_t bytes;

	assert_ok(fth_table_open(f->db, "t", NULL, &table));
	bytes = fth_table_facts(table, fth_table_schema_find(fth_table_schema(table), name))->bytes;
	fth_table_close(table);
	return bytes;
}

static void columns_of_masked_groups_are_not_read(void **state)
{
	struct table_fixture f;
	struct answer a;
	uint64_t mix, comment;

	(void)state;
	open_table(&f);
	mix = column_bytes(&f, "mix");
	comment = column_bytes(&f, "comment");
	assert_ok(ask(f.db, "select sum(length(comment)) from t where mix = 50", 1, NULL, &a));
	assert_int_equal(a.total.groups_read, GROUPS);
	assert_int_equal(a.total.chunks, GROUPS + 1);
	assert_int_equal(a.total.chunks_skipped, GROUPS - 1);
	assert_true(a.total.bytes < mix + comment / 8);
	/* Nothing can be left out: each chunk is read once. */
	assert_ok(ask(f.db, "select sum(length(comment)) from t where mix <> 50", 2, NULL, &a));
	assert_int_equal(a.total.chunks, 2 * GROUPS);
	assert_int_equal(a.total.chunks_skipped, 0);
	assert_int_equal(a.total.bytes, mix + comment);
	fixture_close(&f);
}

static void text_of_few_rows_is_fetched(void **state)
{
	struct table_fixture f;
	struct answer a;

	(void)state;
	open_table(&f);
	assert_ok(ask(f.db, "select k, comment from t order by mix desc, k desc limit 3", 2, NULL,
		      &a));
	assert_int_equal(a.rows, 3);
	assert_int_equal(a.first, 19999);
	assert_true(a.total.bytes <
		    column_bytes(&f, "mix") + column_bytes(&f, "k") + column_bytes(&f, "comment"));
	fixture_close(&f);
}

#define WANTED 50000 /* rows, in which each key below 25000 comes twice */

static void open_wanted(struct table_fixture *f)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (int i = 0; i < WANTED; i++)
		fprintf(out, "%d\n", i * 7919 % 25000);
	fclose(out);
	fixture_fill(f, "wanted", "key int not null", text);
	free(text);
}

/* Rows in random order need the text of another table: it is read once, not batch by batch. */
static void joined_text_that_fits_is_read_once(void **state)
{
	struct table_fixture f;
	struct answer a, all;
	uint64_t once;

	(void)state;
	open_table(&f);
	open_wanted(&f);
	once = column_bytes(&f, "comment") + column_bytes(&f, "k") + 4 * WANTED;
	assert_ok(ask(f.db, "select sum(length(comment)) from t", 1, NULL, &all));
	for (unsigned threads = 1; threads <= 2; threads++) {
		assert_ok(ask(f.db, "select sum(length(comment)) from wanted join t on key = k",
			      threads, NULL, &a));
		assert_int_equal(a.first, 2 * all.first);
		assert_true(a.total.bytes <= once);
		assert_ok(ask(f.db,
			      "select sum(n) from (select comment, count(*) n from wanted left "
			      "join t on key = k group by comment) g",
			      threads, NULL, &a));
		assert_int_equal(a.first, WANTED);
		assert_true(a.total.bytes <= once);
		assert_ok(ask(f.db,
			      "select count(*) from (select comment from wanted left join t on "
			      "key = k) g where comment is null",
			      threads, NULL, &a));
		assert_int_equal(a.first, WANTED - 2 * ROWS);
		/* It does not fit: the answer is the same. */
		assert_ok(ask_in(f.db, 4 << 20,
				 "select sum(length(comment)) from wanted join t on key = k",
				 threads, NULL, &a));
		assert_int_equal(a.first, 2 * all.first);
	}
	fixture_close(&f);
}

/* Values in order: each replaces the one before, whose memory is used again. */
static void greatest_text_of_sorted_rows(void **state)
{
	const int rows = 80000;
	struct table_fixture f;
	struct answer a;
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	fixture_open(&f);
	for (int i = 0; i < rows; i++)
		fprintf(out, "%d,%05d%0*d\n", i % 3, i, 200, i);
	fclose(out);
	fixture_fill(&f, "lines", "g int not null, line varchar(300) not null", text);
	free(text);
	assert_ok(ask(f.db, "select cast(substring(max(line) from 1 for 5) as int) from lines", 1,
		      NULL, &a));
	assert_int_equal(a.first, rows - 1);
	assert_true(a.memory < length / 2);
	assert_ok(ask(f.db,
		      "select sum(cast(substring(x from 1 for 5) as int)) from (select g, "
		      "max(line) x from lines group by g) y",
		      1, NULL, &a));
	assert_int_equal(a.first, 3 * rows - 6);
	assert_true(a.memory < length / 2);
	fixture_close(&f);
}

/* Of a nested structure only the keys that are left are built. */
static void keys_before_structures(void **state)
{
	struct table_fixture f;
	struct answer a;

	(void)state;
	open_table(&f);
	assert_ok(ask(f.db,
		      "select count(*), sum(part), sum(price) from t x where mix = 50 and exists "
		      "(select * from t y where y.k = x.k and y.price >= 0)",
		      1, NULL, &a));
	assert_int_equal(a.first, 10);
	assert_true(a.total.rows < 50);
	/* One row in a hundred, with nulls and text. */
	assert_ok(ask(f.db,
		      "select count(part) + count(s) from t x where mix = 51 and exists "
		      "(select * from t y where y.k = x.k and y.price >= 0)",
		      2, NULL, &a));
	assert_int_equal(a.first, 390 + 20);
	/* Nearly all rows are left. */
	assert_ok(ask(f.db,
		      "select count(part) from t x where mix <> 51 and exists "
		      "(select * from t y where y.k = x.k and y.price >= 0)",
		      2, NULL, &a));
	assert_int_equal(a.first, 980);
	fixture_close(&f);
}

static void canceled_queries_end(void **state)
{
	atomic_bool cancel = true;
	struct table_fixture f;
	struct answer a;

	(void)state;
	open_table(&f);
	assert_int_equal(ask(f.db, "select sum(mix) from t", 2, &cancel, &a), -ECANCELED);
	fixture_close(&f);
}

/* ---- storage that fails ---- */

struct volume {
	char path[64], uri[128];
};

static void make_volume(struct volume *v)
{
	const char *uris[] = {v->uri};
	struct fth_table_schema schema;
	struct fth_table_db *db;
	char name[256];

	snprintf(v->path, sizeof(v->path), "/tmp/fathom-scan-vol-XXXXXX");
	assert_non_null(mkdtemp(v->path));
	snprintf(v->uri, sizeof(v->uri), "file:%s/disk?create=on&size=32M", v->path);
	assert_ok(fth_vol_format_uris(uris, 1, NULL));
	snprintf(v->uri, sizeof(v->uri), "file:%s/disk", v->path);
	snprintf(name, sizeof(name), "vol(%s)", v->uri);
	assert_ok(fth_table_db_open(name, 0, &db));
	assert_ok(fth_table_schema_parse(&schema, columns));
	assert_ok(fth_table_create(db, "t", &schema));
	fth_table_schema_release(&schema);
	fill_table(db);
	fth_table_db_close(db);
}

/* All reads from the nth on fail, for all n until it is none. */
static void fail_every_read(const struct volume *v, const char *sql, unsigned threads)
{
	unsigned failed = 0, named = 0;
	bool passed = false;
	struct answer a;

	for (unsigned nth = 1; !passed; nth++) {
		struct fth_table_db *db;
		char name[256];
		int rc;

		snprintf(name, sizeof(name), "vol(fault(%s)?kind=read&nth=%u&every=1)", v->uri,
			 nth);
		if (fth_table_db_open(name, 0, &db) < 0)
			continue; /* the read of a label or the catalog */
		rc = ask(db, sql, threads, NULL, &a);
		named += rc < 0 && strstr(fth_error_text(rc), "table t, column ");
		fth_table_db_close(db);
		assert_true(rc == 0 || rc == -EIO || rc == -EBADMSG);
		passed = rc == 0;
		failed += rc < 0;
	}
	assert_true(failed > GROUPS);
	assert_true(named >= GROUPS);
}

static void failed_reads_end_the_query(void **state)
{
	struct volume v;

	(void)state;
	make_volume(&v);
	fail_every_read(&v, "select sum(length(comment)) from t where mix <> 50", 1);
	fail_every_read(&v, "select k, comment from t order by mix desc, k desc limit 3", 2);
	nftw(v.path, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static void damaged_chunks_are_named(void **state)
{
	struct fth_table *table;
	struct table_fixture f;
	struct answer a;
	char path[128];
	uint64_t at;
	int fd, rc;

	(void)state;
	open_table(&f);
	assert_ok(fth_table_open(f.db, "t", NULL, &table));
	at = fth_table_chunk(table, 2, 7)->offset + 80;
	fth_table_close(table);
	snprintf(path, sizeof(path), "%s/t/data", f.path);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "damage", 6, (off_t)at), 6);
	close(fd);
	rc = ask(f.db, "select sum(mix) from t", 2, NULL, &a);
	assert_int_equal(rc, -EBADMSG);
	assert_non_null(strstr(fth_error_text(rc), "mix"));
	assert_non_null(strstr(fth_error_text(rc), "7"));
	assert_ok(ask(f.db, "select sum(k) from t", 2, NULL, &a));
	fixture_close(&f);
}

/* A limit without an order: rows of the result, and row groups that are read for them at most. */
static const struct {
	const char *sql;
	uint64_t rows, groups;
	int64_t first;
} limits[] = {
	{"select k from t limit 10", 10, 1, 0},
	{"select k, comment from t limit 1", 1, 1, 0},
	{"select k from t limit 0", 0, 0, 0},
	{"select k from t limit 0 offset 5", 0, 0, 0},
	{"select count(*) from (select k from t limit 0) x", 1, 0, 0},
	/* The second round has four groups. */
	{"select 7 from t limit 10 offset 995", 10, 5, 7},
	{"select 7 from t limit 4000", 4000, 5, 7},
	{"select k from t where k + 0 >= 4000 limit 3", 3, 5, 4000},
	{"select 7 from t limit 20000", ROWS, GROUPS, 7},
	{"select 7 from t limit 30000", ROWS, GROUPS, 7},
	{"select 7 from t limit 9223372036854775807 offset 9223372036854775807", 0, GROUPS, 0},
	{"select count(*) from (select k from t limit 1500) x", 1, 5, 1500},
	{"select count(*) from t where k in (select k from t limit 3)", 1, 2, 3},
	{"select k from t union all select mix from t limit 7", 7, 2, 0},
	{"select k + 1 from (select k from t union all select mix from t union all select k from "
	 "t) x "
	 "limit 3 offset 2",
	 3, 3, 3},
	/* One side is read as a whole. */
	{"select 7 from t a join t b on a.mix = b.mix limit 5", 5, GROUPS + 1, 7},
	{"select 7 from t a, t b limit 5", 5, GROUPS + 1, 7},
	{"select 7 from t a, t b where a.mix = b.k and a.s > b.comment limit 5", 5, GROUPS + 1, 7},
	/* The error is in a row group that nobody reads. */
	{"select k / (k - 15000) from t limit 10", 10, 1, 0},
};

static void limits_end_scans(void **state)
{
	struct table_fixture f;

	(void)state;
	open_table(&f);
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		for (unsigned threads = 1; threads <= 3; threads++) {
			struct answer a;

			assert_ok(ask(f.db, limits[i].sql, threads, NULL, &a));
			if (a.rows != limits[i].rows || a.first != limits[i].first ||
			    a.total.groups_read > limits[i].groups)
				fail_msg("%s, %u threads: %llu rows, the first %lld, %llu groups",
					 limits[i].sql, threads, (unsigned long long)a.rows,
					 (long long)a.first,
					 (unsigned long long)a.total.groups_read);
			/*
			 * Nothing was read ahead: the chunks of one group, and the text of one row.
			 */
			if (limits[i].groups <= 1)
				assert_in_range(a.total.chunks, limits[i].groups,
						2 * limits[i].groups);
		}
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_without_rows_are_not_read),
		cmocka_unit_test(groups_without_keys_are_not_read),
		cmocka_unit_test(columns_of_masked_groups_are_not_read),
		cmocka_unit_test(text_of_few_rows_is_fetched),
		cmocka_unit_test(joined_text_that_fits_is_read_once),
		cmocka_unit_test(greatest_text_of_sorted_rows),
		cmocka_unit_test(keys_before_structures),
		cmocka_unit_test(limits_end_scans),
		cmocka_unit_test(canceled_queries_end),
		cmocka_unit_test(failed_reads_end_the_query),
		cmocka_unit_test(damaged_chunks_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
