/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The public interface: options, statements and their reports, views, batches that do not arrive;
 * queries of many threads in one budget; cancellation; the Nth allocation that fails.
 */
#include "fathom/base/error.h"
#include "fathom/query.h"
#include "table/test/table_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

struct db {
	char path[64];
	struct fth_query_db *db;
	struct fth_query *query;
};

static void db_reopen(struct db *d, uint64_t budget)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;

	options.budget = budget;
	options.threads = 2;
	options.create = true;
	assert_ok(fth_query_open(d->path, &options, &d->db));
	assert_ok(fth_query_new(d->db, &d->query));
}

static void db_open(struct db *d, uint64_t budget)
{
	snprintf(d->path, sizeof(d->path), "/tmp/fathom-query-XXXXXX");
	assert_non_null(mkdtemp(d->path));
	db_reopen(d, budget);
}

static void db_leave(struct db *d)
{
	fth_query_free(d->query);
	fth_query_close(d->db);
}

static void db_close(struct db *d)
{
	db_leave(d);
	nftw(d->path, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static int collect(const struct fth_query_batch *batch, void *user)
{
	FILE *out = user;

	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		for (unsigned c = 0; c < fth_query_columns(batch); c++) {
			char text[128];

			fth_query_text(batch, row, c, text, sizeof(text));
			fprintf(out, "%s%s", c == 0 ? "" : "|",
				fth_query_null(batch, row, c) ? "null" : text);
		}
		fputs(" ", out);
	}
	return 0;
}

/* Rows as text, or NULL with *rc. */
static char *ask_in(struct fth_query *query, const char *sql, int *rc)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	*rc = fth_query_run(query, sql, collect, out);
	fclose(out);
	if (*rc == 0)
		return text;
	free(text);
	return NULL;
}

static void expect(struct db *d, const char *sql, const char *want)
{
	int rc;
	char *got = ask_in(d->query, sql, &rc);

	if (!got)
		fail_msg("%s: %s", sql, fth_error_text(rc));
	assert_string_equal(got, want);
	free(got);
}

static void expect_error(struct db *d, const char *sql, int error, const char *text)
{
	int rc = fth_query_run(d->query, sql, NULL, NULL);

	if (rc != error || !strstr(fth_error_text(rc), text))
		fail_msg("%s: %d, %s", sql, rc, fth_error_text(rc));
}

/* ---- statements ---- */

static void options_are_checked(void **state)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	struct fth_query_db *db = (void *)1;

	(void)state;
	options.size--;
	assert_int_equal(fth_query_open("/tmp", &options, &db), -EINVAL);
	assert_null(db);
	options.size++;
	options.budget = FTH_QUERY_BUDGET_MIN - 1;
	assert_int_equal(fth_query_open("/tmp", &options, &db), -EINVAL);
	options.budget = 0;
	options.create = options.readonly = true;
	assert_int_equal(fth_query_open("/tmp", &options, &db), -EINVAL);
	assert_int_equal(fth_query_open("/nonexistent/db", NULL, &db), -ENOENT);
	fth_query_close(NULL);
	fth_query_free(NULL);
}

static void statements_and_reports(void **state)
{
	const struct fth_query_report *report;
	struct db d;

	(void)state;
	db_open(&d, 0);
	report = fth_query_report(d.query);
	expect(&d, "create table t (a int not null, s varchar(10), g bool, n decimal(20,3))", "");
	assert_int_equal(report->kind, FTH_QUERY_CREATE_TABLE);
	expect(&d,
	       "insert into t values (1, 'x', true, 1.5), (2, null, false, -12345678901234567.125)",
	       "");
	assert_int_equal(report->kind, FTH_QUERY_INSERT);
	assert_int_equal(report->rows, 2);
	expect(&d, "insert into t (a) select a + 10 from t", "");
	expect(&d, "select * from t order by a;",
	       "1|x|t|1.500 2|null|f|-12345678901234567.125 11|null|null|null 12|null|null|null ");
	assert_int_equal(report->kind, FTH_QUERY_SELECT);
	assert_int_equal(report->rows, 4);
	assert_true(report->memory > 0 && report->bytes > 0 && report->wall_ns > 0);
	expect_error(&d, "select a,\n  b from t", -EINVAL, "\"b\"");
	assert_int_equal(report->line, 2);
	assert_int_equal(report->column, 3);
	expect_error(&d, "insert into t (s) values ('y')", -EINVAL, "a");
	expect_error(&d, "insert into t values (1, 'longer than ten', null, null)", -EINVAL, "");
	expect_error(&d, "delete from t", -EOPNOTSUPP, "DELETE");
	expect_error(&d, "create table t (a int)", -EEXIST, "already exists");
	expect_error(&d, "create table fathom_x (a int)", -EINVAL, "reserved");
	expect_error(&d, "copy t from '/nonexistent/file'", -ENOENT, "/nonexistent/file");
	expect_error(&d, "", -EINVAL, "");
	expect(&d, "select count(*) from t", "4 ");
	db_close(&d);
}

static int count_view(const char *name, const char *text, void *user)
{
	unsigned *n = user;

	assert_non_null(strstr(text, "select"));
	assert_true(name[0] == 'v');
	++*n;
	return 0;
}

static int name_columns(const struct fth_query_batch *batch, void *user)
{
	for (unsigned c = 0; c < fth_query_columns(batch); c++)
		fprintf(user, "%s:%d ", fth_query_column(batch, c)->name,
			(int)fth_query_column(batch, c)->type);
	return 0;
}

/* Columns and the types of parameters, "name:type ... | type ...". */
static void expect_described(struct db *d, const char *sql, const char *want)
{
	struct fth_query_parameter parameters[4] = {0};
	unsigned count = 0;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int rc = fth_query_describe(d->query, sql, parameters, 4, &count, name_columns, out);

	fputs("|", out);
	for (unsigned i = 0; i < count; i++)
		fprintf(out, " %d", (int)parameters[i].type);
	fclose(out);
	if (rc < 0)
		fail_msg("%s: %s", sql, fth_error_text(rc));
	assert_string_equal(text, want);
	free(text);
}

static void parameters(void **state)
{
	struct fth_query_parameter given[] = {{0, "2"}, {FTH_TABLE_VARCHAR, "x'y"}, {0, NULL}};
	struct db d;
	char *text = NULL;
	size_t length;
	FILE *out;

	(void)state;
	db_open(&d, 0);
	expect(&d, "create table t (a int not null, s varchar(10), n decimal(20,3), d date)", "");
	expect_described(&d, "select a, $2 from t where n > $1 and d = $3",
			 "a:2 ?column?:8 | 5 8 4");
	expect_described(&d, "select $1::bigint + 1, count(*) from t limit $2",
			 "?column?:3 count:3 | 3 3");
	expect_described(&d, "insert into t values ($1, $2, $3, $4)", "| 2 8 5 4");
	expect_described(&d, "explain select a from t where a = $1", "plan:8 | 2");
	expect_described(&d, "select a from t where a in ($1, 7) and $1 < 9", "a:2 | 2");
	assert_ok(fth_query_run_with(d.query, "insert into t values ($1, $2, $3, null)", given, 3,
				     NULL, NULL));
	out = open_memstream(&text, &length);
	assert_ok(fth_query_run_with(d.query, "select a + $1, s, $3 from t where s = $2", given, 3,
				     collect, out));
	fclose(out);
	assert_string_equal(text, "4|x'y|null ");
	free(text);
	given[0].text = "two";
	assert_int_equal(
		fth_query_run_with(d.query, "select a from t where a = $1", given, 1, NULL, NULL),
		-EINVAL);
	assert_int_equal(fth_query_run_with(d.query, "select $2", given, 1, NULL, NULL), -EINVAL);
	assert_int_equal(fth_query_run_with(d.query, "select $0", given, 1, NULL, NULL), -EINVAL);
	given[0].type = 99;
	assert_int_equal(fth_query_run_with(d.query, "select 1", given, 1, NULL, NULL), -EINVAL);
	expect_error(&d, "select $1", -EOPNOTSUPP, "parameter");
	expect_error(&d, "create view v as select $1 as x", -EOPNOTSUPP, "parameter");
	db_close(&d);
}

static void transactions(void **state)
{
	struct fth_query *other;
	struct db d;
	int rc;
	char *text;

	(void)state;
	db_open(&d, 0);
	assert_ok(fth_query_new(d.db, &other));
	expect(&d, "create table t (a int)", "");
	expect(&d, "create table u (a int)", "");
	assert_ok(fth_query_begin(d.query));
	assert_int_equal(fth_query_begin(d.query), -EINVAL);
	expect(&d, "insert into t values (1), (2)", "");
	assert_int_equal(fth_query_report(d.query)->rows, 2);
	expect(&d, "insert into t values (3)", "");
	assert_int_equal(fth_query_report(d.query)->rows, 1);
	expect_error(&d, "select count(*) from t", -EOPNOTSUPP, "rows of this transaction");
	expect_error(&d, "insert into u values (1)", -EOPNOTSUPP, "one table");
	expect(&d, "select count(*) from u", "0 ");
	text = ask_in(other, "select count(*) from t", &rc);
	assert_string_equal(text, "0 ");
	free(text);
	assert_ok(fth_query_commit(d.query));
	expect(&d, "select count(*), sum(a) from t", "3|6 ");
	/* Discarded. */
	assert_ok(fth_query_begin(d.query));
	expect(&d, "insert into t values (7)", "");
	fth_query_rollback(d.query);
	/* A statement that fails leaves the rows of others, unless it had appended some. */
	assert_ok(fth_query_begin(d.query));
	expect(&d, "insert into t values (8)", "");
	expect_error(&d, "insert into t select 1 / (a - 3) from t", -EDOM, "division");
	assert_ok(fth_query_commit(d.query));
	expect(&d, "select count(*), sum(a) from t", "4|14 ");
	expect(&d, "create table w (a int)", "");
	expect(&d, "insert into w values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)", "");
	expect(&d, "insert into w select a + 10 from w", "");
	expect(&d, "insert into u select x.a * 400 + y.a * 20 + z.a from w x, w y, w z order by 1",
	       "");
	assert_ok(fth_query_begin(d.query));
	expect_error(&d, "insert into t select 1 / (a - 7999) from u", -EDOM, "division");
	assert_int_equal(fth_query_commit(d.query), -EINVAL);
	expect(&d, "select count(*), sum(a) from t", "4|14 ");
	/* Left open. */
	assert_ok(fth_query_begin(d.query));
	expect(&d, "insert into t values (9)", "");
	fth_query_free(other);
	db_leave(&d);
	db_reopen(&d, 0);
	expect(&d, "select count(*), sum(a) from t", "4|14 ");
	db_close(&d);
}

static void views(void **state)
{
	struct db d;
	unsigned n = 0;

	(void)state;
	db_open(&d, 0);
	expect(&d, "create table t (a int)", "");
	expect(&d, "insert into t values (1), (2), (3)", "");
	expect(&d, "create view v1 as select a * 2 as b from t", "");
	expect(&d, "create view v2 as select b + 1 as c from v1 where b > 2", "");
	expect_error(&d, "create view v1 as select 1", -EEXIST, "already exists");
	expect_error(&d, "insert into fathom_views values (9, 'v3', 'select 1')", -EINVAL,
		     "is reserved");
	expect_error(&d, "copy fathom_views from '/dev/null'", -EINVAL, "is reserved");
	expect(&d, "select c from v2 order by c", "5 7 ");
	expect(&d, "create or replace view v1 as select a * 10 as b from t", "");
	db_leave(&d);
	db_reopen(&d, 0);
	expect(&d, "select c from v2 order by c", "11 21 31 ");
	assert_ok(fth_query_views(d.db, count_view, &n));
	assert_int_equal(n, 2);
	expect(&d, "drop view v2", "");
	expect_error(&d, "select * from v2", -EINVAL, "does not exist");
	expect_error(&d, "drop view v2", -ENOENT, "does not exist");
	expect(&d, "drop view if exists v2", "");
	db_close(&d);
}

static int refuse(const struct fth_query_batch *batch, void *user)
{
	unsigned *calls = user;

	(void)batch;
	++*calls;
	return -EXDEV;
}

static void a_callback_ends_the_query(void **state)
{
	unsigned calls = 0;
	struct db d;

	(void)state;
	db_open(&d, 0);
	assert_int_equal(fth_query_run(d.query, "select 1", refuse, &calls), -EXDEV);
	assert_int_equal(calls, 1);
	expect(&d, "select 1", "1 ");
	db_close(&d);
}

/* ---- many threads, one budget ---- */

#define ASKERS 4u
#define NINE   "(values (0), (1), (2), (3), (4), (5), (6), (7), (8))"

static const char *const questions[][2] = {
	{"select count(*), sum(a) from big", "20000|199990000 "},
	{"select count(*) from big x, big y where x.b = y.a", "20000 "},
	{"select b % 7, count(*) from big group by 1 order by 1 limit 2", "0|2858 1|2857 "},
	{"select a from big order by b desc, a limit 2", "19999 19998 "},
};

struct asker {
	pthread_t thread;
	struct fth_query_db *db;
	unsigned number, turns;
	atomic_uint *wrong, *refused;
};

static void *ask_again_and_again(void *self)
{
	struct asker *a = self;
	struct fth_query *query;

	if (fth_query_new(a->db, &query) < 0)
		return NULL;
	for (unsigned i = 0; i < a->turns; i++) {
		const char *const *q = questions[(i + a->number) % 4];
		int rc;
		char *got = ask_in(query, q[0], &rc);

		if (!got && rc == -ENOMEM)
			atomic_fetch_add(a->refused, 1);
		else if (!got || strcmp(got, q[1]) != 0)
			atomic_fetch_add(a->wrong, 1);
		free(got);
	}
	fth_query_free(query);
	return NULL;
}

static void fill_big(struct db *d)
{
	expect(d, "create table big (a int not null, b int not null)", "");
	expect(d,
	       "insert into big select n, n from (select a.x + b.x * 9 + c.x * 81 + d.x * 729 + "
	       "e.x * 6561 as n from " NINE " a(x), " NINE " b(x), " NINE " c(x), " NINE
	       " d(x), (values (0), (1), (2), (3)) e(x)) v "
	       "where n < 20000",
	       "");
}

static void run_askers(struct db *d, unsigned turns, unsigned *wrong, unsigned *refused)
{
	struct asker askers[ASKERS];
	atomic_uint bad = 0, none = 0;

	for (unsigned i = 0; i < ASKERS; i++) {
		askers[i] = (struct asker){
			.db = d->db, .number = i, .turns = turns, .wrong = &bad, .refused = &none};
		assert_int_equal(
			pthread_create(&askers[i].thread, NULL, ask_again_and_again, &askers[i]),
			0);
	}
	for (unsigned i = 0; i < ASKERS; i++)
		pthread_join(askers[i].thread, NULL);
	*wrong = bad;
	*refused = none;
}

/*
 * Each answer is right; in a small budget a query may be refused, and alone each of them fits
 * again.
 */
static void queries_share_a_budget(void **state)
{
	unsigned wrong, refused;
	struct db d;

	(void)state;
	db_open(&d, 0);
	fill_big(&d);
	run_askers(&d, 8, &wrong, &refused);
	assert_int_equal(wrong, 0);
	assert_int_equal(refused, 0);
	db_leave(&d);
	db_reopen(&d, 6 << 20);
	run_askers(&d, 8, &wrong, &refused);
	assert_int_equal(wrong, 0);
	for (unsigned i = 0; i < 4; i++)
		expect(&d, questions[i][0], questions[i][1]);
	db_close(&d);
}

/* ---- cancellation ---- */

static void *run_endless(void *query)
{
	static const char sql[] =
		"select count(*) from " NINE " a(x), " NINE " b(x), " NINE " c(x), " NINE
		" d(x), " NINE " e(x), " NINE " f(x), " NINE " g(x), " NINE " h(x), " NINE
		" i(x), " NINE " j(x), " NINE " k(x), " NINE " l(x), " NINE " m(x)";

	return (void *)(intptr_t)fth_query_run(query, sql, NULL, NULL);
}

static void a_query_is_canceled(void **state)
{
	pthread_t thread;
	void *result = NULL;
	struct db d;

	(void)state;
	db_open(&d, 0);
	fth_query_cancel(d.query); /* does nothing */
	assert_int_equal(pthread_create(&thread, NULL, run_endless, d.query), 0);
	/* The first may come before the statement begins. */
	do {
		fth_query_cancel(d.query);
		usleep(1000);
	} while (pthread_tryjoin_np(thread, &result) != 0);
	assert_int_equal((intptr_t)result, -ECANCELED);
	expect(&d, "select 2", "2 ");
	db_close(&d);
}

/* ---- budgets ---- */

/*
 * From too little to enough: each statement fails with a text or gives its answer, and the next one
 * works.
 */
static void every_budget(void **state)
{
	struct db d;

	(void)state;
	db_open(&d, 0);
	fill_big(&d);
	for (uint64_t budget = FTH_QUERY_BUDGET_MIN; budget <= 8 << 20; budget += 300 << 10) {
		db_leave(&d);
		db_reopen(&d, budget);
		for (unsigned i = 0; i < 4; i++) {
			int rc;
			char *got = ask_in(d.query, questions[i][0], &rc);

			if (!got)
				assert_int_equal(rc, -ENOMEM);
			else
				assert_string_equal(got, questions[i][1]);
			assert_true(fth_query_report(d.query)->memory <= budget);
			free(got);
		}
	}
	db_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(statements_and_reports),
		cmocka_unit_test(parameters),
		cmocka_unit_test(transactions),
		cmocka_unit_test(views),
		cmocka_unit_test(a_callback_ends_the_query),
		cmocka_unit_test(queries_share_a_budget),
		cmocka_unit_test(a_query_is_canceled),
		cmocka_unit_test(every_budget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
