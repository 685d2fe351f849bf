/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scene: SQL inside 16 MiB. Tables of TPC-H are generated, written as text and loaded. Three queries run with 16 MiB and, where it is
 * installed, in sqlite3 with a page cache of 16 MiB (and that of the kernel), and the answers are compared. Then all 22 queries of
 * TPC-H run in 16 MiB and again in plenty of memory, and both answers must agree.
 */
#include "demo.h"

#include "cli.h"

#include "workloads/tpch/tpch.h"
#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/query.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCALE	   0.05
#define LEAST	   0.002
#define BUDGET	   (UINT64_C(16) << 20)
#define PLENTY	   (UINT64_C(512) << 20)
#define ANSWER_MAX 4096u

/* Pricing summary, local revenue and lost discounts: like queries 1, 3 and 6 of TPC-H, in SQL that both understand. */
static const char *const questions[] = {
	"select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), "
	"sum(l_extendedprice * (1 - l_discount)), count(*) from lineitem "
	"where l_shipdate <= '1998-09-02' group by l_returnflag, l_linestatus order by 1, 2",
	"select o_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue "
	"from customer, orders, lineitem where c_mktsegment = 'BUILDING' "
	"and c_custkey = o_custkey and l_orderkey = o_orderkey "
	"and o_orderdate < '1995-03-15' and l_shipdate > '1995-03-15' "
	"group by o_orderkey order by revenue desc, o_orderkey limit 10",
	"select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= '1994-01-01' "
	"and l_shipdate < '1995-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24",
};

#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

struct sql_demo {
	struct demo *demo;
	char folder[DEMO_PATH_MAX];
	struct fth_query_db *db;
	struct fth_query *query;
	uint64_t lines; /* of the tables */
	uint64_t most;	/* memory of any query */
	uint64_t wall_ns;
	unsigned right;
	char answer[QUESTIONS][ANSWER_MAX]; /* of ours, columns by | */
	unsigned different;		    /* answers of sqlite3 */
};

/* ---- the tables ---- */

struct text_file {
	FILE *file;
};

static int write_block(void *context, const struct fth_tpch_block *block)
{
	struct text_file *t = context;

	return fwrite(block->text, 1, block->length, t->file) == block->length
		       ? 0
		       : fth_fail(errno, "cannot write a table: %s", strerror(errno));
}

static int write_table(struct sql_demo *d, const struct fth_tpch *tpch, enum fth_tpch_table table,
		       const char *path)
{
	struct fth_tpch_write_options options = FTH_TPCH_WRITE_OPTIONS_INIT;
	struct text_file t = {fopen(path, "w")};
	struct fth_tpch_totals totals;
	int rc;

	if (t.file == NULL)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	options.block = write_block;
	options.in_order = true;
	options.context = &t;
	rc = fth_tpch_write(tpch, table, &options, &totals);
	if (fclose(t.file) != 0 && rc == 0)
		rc = fth_fail(errno, "%s: %s", path, strerror(errno));
	if (rc == 0)
		d->lines += totals.rows;
	return rc;
}

/* CREATE TABLE with the columns that the generator knows of. */
static int create_table(struct sql_demo *d, enum fth_tpch_table table)
{
	static const char *const types[] = {
		[FTH_TPCH_KEY] = "bigint",
		[FTH_TPCH_INTEGER] = "int",
		[FTH_TPCH_DECIMAL] = "decimal(15,2)",
		[FTH_TPCH_DATE] = "date",
		[FTH_TPCH_CHAR] = "char",
		[FTH_TPCH_VARCHAR] = "varchar",
	};
	char sql[4096];
	unsigned count;
	const struct fth_tpch_column *columns = fth_tpch_columns(table, &count);
	int at = snprintf(sql, sizeof(sql), "create table %s (", fth_tpch_table_name(table));

	for (unsigned i = 0; i < count; i++) {
		const struct fth_tpch_column *c = &columns[i];
		char width[16] = "";

		if (c->type >= FTH_TPCH_CHAR)
			snprintf(width, sizeof(width), "(%u)", c->width);
		at += snprintf(sql + at, sizeof(sql) - (size_t)at, "%s%s %s%s not null",
			       i == 0 ? "" : ", ", c->name, types[c->type], width);
	}
	snprintf(sql + at, sizeof(sql) - (size_t)at, ")");
	return fth_query_run(d->query, sql, NULL, NULL);
}

static int load_table(struct sql_demo *d, const struct fth_tpch *tpch, enum fth_tpch_table table)
{
	const char *name = fth_tpch_table_name(table);
	char path[DEMO_PATH_MAX + 32], sql[DEMO_PATH_MAX + 128];
	int rc;

	snprintf(path, sizeof(path), "%s/%s.tbl", d->folder, name);
	snprintf(sql, sizeof(sql), "copy %s from '%s' with (delimiter '|')", name, path);
	rc = write_table(d, tpch, table, path);
	if (rc == 0)
		rc = create_table(d, table);
	if (rc == 0)
		rc = fth_query_run(d->query, sql, NULL, NULL);
	return rc;
}

static int load_tables(struct sql_demo *d)
{
	struct fth_tpch *tpch;
	int rc = fth_tpch_open(d->demo->smallest ? LEAST : SCALE, &tpch);

	for (int t = 0; t < FTH_TPCH_TABLES && rc == 0 && !fth_cli_stopped(); t++) {
		fth_cli_progress("loading tables", (uint64_t)t, FTH_TPCH_TABLES);
		rc = load_table(d, tpch, (enum fth_tpch_table)t);
	}
	if (rc == 0 && fth_cli_stopped())
		rc = -ECANCELED;
	fth_tpch_close(tpch);
	return rc;
}

/* ---- the queries ---- */

/* A sum of checksums: rows of equal sort key may come in any order. */
static int add_rows(const struct fth_query_batch *batch, void *user)
{
	uint64_t *sum = user;

	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		uint64_t of_row = 0;

		for (unsigned c = 0; c < fth_query_columns(batch); c++) {
			char text[512];
			size_t length = fth_query_text(batch, row, c, text, sizeof(text));

			of_row = fth_checksum(text,
					      length < sizeof(text) ? length : sizeof(text) - 1,
					      of_row + c);
		}
		*sum += of_row;
	}
	return fth_cli_stopped() ? -ECANCELED : 0;
}

/* The answers of one open database. */
static int ask_all(struct sql_demo *d, uint64_t sums[FTH_TPCH_QUERIES], bool counts)
{
	int rc = 0;

	for (unsigned n = 1; n <= FTH_TPCH_QUERIES && rc == 0; n++) {
		const struct fth_query_report *report = fth_query_report(d->query);

		sums[n - 1] = 0;
		rc = fth_query_run(d->query, fth_tpch_query(n), add_rows, &sums[n - 1]);
		if (!counts || rc < 0)
			continue;
		d->most = report->memory > d->most ? report->memory : d->most;
		d->wall_ns += report->wall_ns;
	}
	return rc;
}

static void close_db(struct sql_demo *d)
{
	fth_query_free(d->query);
	fth_query_close(d->db);
	d->query = NULL;
	d->db = NULL;
}

static int open_db(struct sql_demo *d, uint64_t budget)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	char where[DEMO_PATH_MAX + 32];
	int rc;

	snprintf(where, sizeof(where), "%s/db", d->folder);
	options.budget = budget;
	options.create = true;
	rc = fth_query_open(where, &options, &d->db);
	return rc < 0 ? rc : fth_query_new(d->db, &d->query);
}

static int run_queries(struct sql_demo *d)
{
	uint64_t small[FTH_TPCH_QUERIES], large[FTH_TPCH_QUERIES];
	int rc = ask_all(d, small, true);

	close_db(d);
	if (rc == 0)
		rc = open_db(d, PLENTY);
	if (rc == 0)
		rc = ask_all(d, large, false);
	for (unsigned i = 0; i < FTH_TPCH_QUERIES && rc == 0; i++)
		d->right += small[i] == large[i];
	return rc;
}

/* ---- three questions ---- */

static int keep_answer(const struct fth_query_batch *batch, void *user)
{
	char *answer = user;

	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		for (unsigned c = 0; c < fth_query_columns(batch); c++) {
			size_t used = strlen(answer);
			char text[128];

			fth_query_text(batch, row, c, text, sizeof(text));
			snprintf(answer + used, ANSWER_MAX - used, "%s%s", c > 0 ? "|" : "", text);
		}
		strncat(answer, "\n", ANSWER_MAX - strlen(answer) - 1);
	}
	return 0;
}

static int ask_ours(struct sql_demo *d, double *seconds)
{
	int rc = 0;

	for (unsigned i = 0; i < QUESTIONS && rc == 0; i++) {
		rc = fth_query_run(d->query, questions[i], keep_answer, d->answer[i]);
		if (rc == 0)
			*seconds += (double)fth_query_report(d->query)->wall_ns / 1e9;
	}
	return rc;
}

/* Equal, or equal as numbers: sqlite3 calculates with doubles. */
static bool same_value(const char *a, size_t length, const char *b, size_t other)
{
	double x, y;

	if (length == other && memcmp(a, b, length) == 0)
		return true;
	x = strtod(a, NULL);
	y = strtod(b, NULL);
	return x != 0 && fabs(x - y) < 1e-9 * fabs(x);
}

static bool same_answer(const char *a, const char *b)
{
	while (*a && *b) {
		size_t length = strcspn(a, "|\n"), other = strcspn(b, "|\n");

		if (!same_value(a, length, b, other) || a[length] != b[other])
			return false;
		a += length + (a[length] != '\0');
		b += other + (b[other] != '\0');
	}
	return *a == *b;
}

/* ---- sqlite3 ---- */

/* Run it with a script; what it prints goes to `answer`. */
static int run_sqlite(struct sql_demo *d, const char *script, char answer[ANSWER_MAX])
{
	char db[DEMO_PATH_MAX + 16], command[DEMO_PATH_MAX + 32], path[DEMO_PATH_MAX + 16];
	char *argv[] = {"sqlite3", "-batch", db, command, NULL};
	size_t used = 0;
	int pipes[2], status = 0;
	ssize_t n = 1;
	pid_t pid;
	FILE *file;

	snprintf(db, sizeof(db), "%s/sqlite", d->folder);
	snprintf(path, sizeof(path), "%s/script", d->folder);
	snprintf(command, sizeof(command), ".read '%s'", path);
	file = fopen(path, "w");
	if (!file || fputs(script, file) < 0 || fclose(file) != 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return fth_fail(errno, "pipe: %s", strerror(errno));
	pid = demo_start(argv, pipes[1]);
	close(pipes[1]);
	while (pid > 0 && n > 0 && used + 1 < ANSWER_MAX) {
		n = read(pipes[0], answer + used, ANSWER_MAX - 1 - used);
		used += n > 0 ? (size_t)n : 0;
	}
	close(pipes[0]);
	answer[used] = '\0';
	if (fth_cli_stopped()) {
		demo_kill(&pid);
		return -EINTR;
	}
	if (pid > 0)
		waitpid(pid, &status, 0);
	return pid > 0 && status == 0 ? 0 : fth_fail(ENOTSUP, "sqlite3 failed");
}

static int load_sqlite(struct sql_demo *d)
{
	static const enum fth_tpch_table tables[] = {FTH_TPCH_CUSTOMER, FTH_TPCH_ORDERS,
						     FTH_TPCH_LINEITEM};
	char script[8192] = "pragma journal_mode=off;\npragma synchronous=off;\n.separator |\n";
	char answer[ANSWER_MAX];

	for (unsigned i = 0; i < 3; i++) {
		const char *name = fth_tpch_table_name(tables[i]);
		unsigned count;
		const struct fth_tpch_column *columns = fth_tpch_columns(tables[i], &count);
		size_t at = strlen(script);

		at += (size_t)snprintf(script + at, sizeof(script) - at, "create table %s(", name);
		for (unsigned c = 0; c < count; c++)
			at += (size_t)snprintf(script + at, sizeof(script) - at, "%s%s %s",
					       c > 0 ? ", " : "", columns[c].name,
					       columns[c].type <= FTH_TPCH_DECIMAL ? "numeric"
										   : "text");
		snprintf(script + at, sizeof(script) - at, ");\n.import '%s/%s.tbl' %s\n",
			 d->folder, name, name);
	}
	return run_sqlite(d, script, answer);
}

static int ask_sqlite(struct sql_demo *d, double *seconds)
{
	int rc;

	fth_cli_progress("loading tables into sqlite3", 1, 2);
	rc = load_sqlite(d);
	for (unsigned i = 0; i < QUESTIONS && rc == 0; i++) {
		char script[2048], answer[ANSWER_MAX];
		uint64_t start = fth_now_ns();

		snprintf(script, sizeof(script), "pragma cache_size=-16384;\n%s;\n", questions[i]);
		rc = run_sqlite(d, script, answer);
		*seconds += (double)(fth_now_ns() - start) / 1e9;
		d->different += rc == 0 && !same_answer(d->answer[i], answer);
	}
	return rc;
}

/* ---- the scene ---- */

static int run_scene(struct sql_demo *d)
{
	struct demo_row rows[] = {
		{.name = "Fathom, budget of 16 MiB", .ours = true},
		{.name = "sqlite3, page cache of 16 MiB"},
	};
	int rc;

	rc = ask_ours(d, &rows[0].value);
	if (!demo_has_program("sqlite3"))
		rows[1].note = "missing: apt install sqlite3";
	else if (rc == 0)
		rc = ask_sqlite(d, &rows[1].value);
	if (rc == -ENOTSUP) {
		rows[1] = (struct demo_row){.name = rows[1].name, .note = "failed"};
		rc = 0;
	}
	if (rc < 0)
		return rc;
	demo_bars(d->demo, "three queries: scan, join, filter", DEMO_SECONDS, rows, 2);
	rc = run_queries(d);
	if (rc == 0)
		demo_say(d->demo,
			 "\n   All 22 queries of TPC-H in the same budget: %.2f s, at most %.1f "
			 "MiB.",
			 (double)d->wall_ns / 1e9, (double)d->most / 1048576);
	return rc;
}

int demo_scene_query(struct demo *demo)
{
	struct sql_demo d = {.demo = demo};
	unsigned wrong = 0;
	int rc = demo_make_folder(d.folder);

	if (rc < 0)
		return rc;
	rc = open_db(&d, BUDGET);
	if (rc == 0)
		rc = load_tables(&d);
	demo_begin(demo, "query", "SQL inside a memory budget",
		   "   %.1f million rows of TPC-H in columns on flash; a query allocates at most\n"
		   "   16 MiB in all.",
		   (double)d.lines / 1e6);
	if (rc == 0)
		rc = run_scene(&d);
	close_db(&d);
	if (rc == 0)
		wrong = d.different + (FTH_TPCH_QUERIES - d.right) + (d.most > BUDGET);
	demo_end(demo, QUESTIONS + FTH_TPCH_QUERIES, "answers", wrong);
	demo_remove_folder(d.folder);
	return rc < 0 ? rc : wrong > 0;
}
