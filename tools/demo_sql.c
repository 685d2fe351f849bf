/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fourth part of `fathom demo`: the 22 queries of TPC-H inside 16 MiB. Tables are generated, written as text and
 * loaded by SQL; each query runs in 16 MiB and again in plenty of memory, and both answers must agree. Of one
 * query the plan is shown before it runs.
 */
#include "demo.h"

#include "cli.h"

#include "fathom/apps/tpch.h"
#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/query.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALE	   0.01
#define BUDGET	   (UINT64_C(16) << 20)
#define PLENTY	   (UINT64_C(512) << 20)
#define SHOWN	   3u /* the query whose plan is printed */
#define PATH_BYTES 512

struct sql_demo {
	struct fth_json *json; /* NULL: text */
	char folder[PATH_BYTES];
	struct fth_query_db *db;
	struct fth_query *query;
	uint64_t lines; /* of the tables */
	uint64_t most;	/* memory of any query */
	uint64_t read, rows, wall_ns;
	unsigned right;
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
	char path[PATH_BYTES + 32], sql[PATH_BYTES + 128];
	int rc;

	snprintf(path, sizeof(path), "%s/%s.tbl", d->folder, name);
	snprintf(sql, sizeof(sql), "copy %s from '%s' with (delimiter '|')", name, path);
	rc = write_table(d, tpch, table, path);
	if (rc == 0)
		rc = create_table(d, table);
	if (rc == 0)
		rc = fth_query_run(d->query, sql, NULL, NULL);
	remove(path);
	return rc;
}

static int load_tables(struct sql_demo *d)
{
	struct fth_tpch *tpch;
	int rc = fth_tpch_open(SCALE, &tpch);

	for (int t = 0; t < FTH_TPCH_TABLES && rc == 0 && !fth_cli_stopped(); t++)
		rc = load_table(d, tpch, (enum fth_tpch_table)t);
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

static int print_plan(const struct fth_query_batch *batch, void *user)
{
	(void)user;
	for (unsigned row = 0; row < fth_query_rows(batch); row++) {
		char line[256];

		fth_query_text(batch, row, 0, line, sizeof(line));
		printf("  %.100s\n", line);
	}
	return 0;
}

static int explain(struct sql_demo *d, unsigned number)
{
	char sql[4096];

	if (d->json != NULL)
		return 0;
	snprintf(sql, sizeof(sql), "explain %s", fth_tpch_query(number));
	printf("\nQuery %u, before it runs:\n", number);
	return fth_query_run(d->query, sql, print_plan, NULL);
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
		d->rows += report->rows;
		d->read += report->bytes;
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
	char where[PATH_BYTES + 32];
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
	int rc = open_db(d, BUDGET);

	if (rc == 0)
		rc = load_tables(d);
	if (rc == 0)
		rc = explain(d, SHOWN);
	if (rc == 0)
		rc = ask_all(d, small, true);
	close_db(d);
	if (rc == 0)
		rc = open_db(d, PLENTY);
	if (rc == 0)
		rc = ask_all(d, large, false);
	close_db(d);
	for (unsigned i = 0; i < FTH_TPCH_QUERIES && rc == 0; i++)
		d->right += small[i] == large[i];
	return rc;
}

/* ---- what is said ---- */

static void print_end(const struct sql_demo *d)
{
	if (d->json != NULL) {
		fth_json_object(d->json, "sql");
		fth_json_u64(d->json, "budget", BUDGET);
		fth_json_u64(d->json, "memory", d->most);
		fth_json_u64(d->json, "table_rows", d->lines);
		fth_json_u64(d->json, "rows", d->rows);
		fth_json_u64(d->json, "bytes_read", d->read);
		fth_json_double(d->json, "seconds", (double)d->wall_ns / 1e9);
		fth_json_u64(d->json, "right", d->right);
		fth_json_end(d->json);
		return;
	}
	printf("\nSQL: the 22 queries of TPC-H over %llu rows, in a budget of 16 MiB: %.2f s,\n"
	       "%.1f MiB read, at most %.1f MiB of memory at a time. %u of 22 answers are those\n"
	       "of plenty of memory.\n",
	       (unsigned long long)d->lines, (double)d->wall_ns / 1e9, (double)d->read / 1048576,
	       (double)d->most / 1048576, d->right);
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *place)
{
	(void)stat;
	(void)type;
	(void)place;
	return remove(path);
}

int demo_sql(struct fth_json *j)
{
	struct sql_demo d = {.json = j};
	const char *base = getenv("TMPDIR");
	int rc;

	snprintf(d.folder, sizeof(d.folder), "%s/fathom-demo-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(d.folder))
		return fth_fail(errno, "%s: %s", d.folder, strerror(errno));
	rc = run_queries(&d);
	if (rc == 0)
		print_end(&d);
	nftw(d.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return rc < 0 ? rc : d.right != FTH_TPCH_QUERIES || d.most > BUDGET;
}
