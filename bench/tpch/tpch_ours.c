/* SPDX-License-Identifier: BSD-2-Clause */
#include "tpch_ours.h"

#include "fathom/query.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RESERVE(budget) ((budget) / 8) /* for what the engine's budget does not cover */
#define STACK_DEFAULT	(UINT64_C(8) << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_LIMIT false /* sanitizers reserve terabytes */
#else
#define CAN_LIMIT true
#endif

/* ---- the limit ---- */

static uint64_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (file && fscanf(file, "%llu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t stack_bytes(void)
{
	struct rlimit stack;

	return getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY
		       ? stack.rlim_cur
		       : STACK_DEFAULT;
}

static int limit_memory(const struct tpch_ours *ours)
{
	uint64_t bytes = address_space() + ours->threads * stack_bytes() + ours->budget;
	struct rlimit limit = {bytes, bytes};

	/* Else the C library reserves 64 MiB of addresses for each thread that allocates. */
	mallopt(M_ARENA_MAX, 1);
	return setrlimit(RLIMIT_AS, &limit) < 0 ? -errno : 0;
}

/* ---- rows ---- */

static void print_value(FILE *out, const struct fth_query_batch *batch, unsigned row,
			unsigned column)
{
	enum fth_table_type type = fth_query_column(batch, column)->type;
	char text[FTH_QUERY_TEXT_MAX];
	size_t length;

	if (fth_query_null(batch, row, column))
		return;
	if (type == FTH_TABLE_CHAR || type == FTH_TABLE_VARCHAR) {
		const char *bytes = fth_query_string(batch, row, column, &length);

		fwrite(bytes, 1, length, out);
		return;
	}
	fth_query_text(batch, row, column, text, sizeof(text));
	fputs(text, out);
}

/* user: a FILE, or NULL to drop the rows. */
static int take_rows(const struct fth_query_batch *batch, void *user)
{
	unsigned columns = fth_query_columns(batch), rows = user ? fth_query_rows(batch) : 0;

	for (unsigned row = 0; row < rows; row++)
		for (unsigned column = 0; column < columns; column++) {
			print_value(user, batch, row, column);
			fputc(column + 1 < columns ? '|' : '\n', user);
		}
	return 0;
}

/* ---- in the child ---- */

static int run_once(struct fth_query *query, const char *sql, FILE *answer,
		    struct tpch_figures *took)
{
	struct tpch_figures before;
	int rc;

	tpch_figures_now(&before);
	rc = fth_query_run(query, sql, take_rows, answer);
	tpch_figures_since(took, &before);
	return rc;
}

static int run_all(const struct tpch_ours *ours, struct fth_query_db *db, FILE *answer,
		   struct tpch_ours_result *out)
{
	struct fth_query *query;
	int rc = fth_query_new(db, &query);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < TPCH_RUNS && rc == 0; i++) {
		rc = run_once(query, ours->sql, i == 0 ? answer : NULL, &out->took[i]);
		out->charged = fth_query_report(query)->memory;
	}
	fth_query_free(query);
	return rc;
}

static int be_engine(void *context, void *result)
{
	const struct tpch_ours *ours = context;
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	FILE *answer = fopen(ours->answer, "we");
	bool hard = CAN_LIMIT && !ours->soft;
	struct fth_query_db *db;
	int rc;

	if (!answer)
		return fth_fail(errno, "%s: %s", ours->answer, strerror(errno));
	options.budget = hard ? ours->budget - RESERVE(ours->budget) : ours->budget;
	options.threads = (unsigned)ours->threads;
	options.readonly = true;
	rc = hard ? limit_memory(ours) : 0;
	if (rc == 0)
		rc = fth_query_open(ours->database, &options, &db);
	if (rc == 0) {
		rc = run_all(ours, db, answer, result);
		fth_query_close(db);
	}
	if (fclose(answer) != 0 && rc == 0)
		rc = fth_fail(errno, "%s: %s", ours->answer, strerror(errno));
	return rc;
}

int tpch_ours_run(const struct tpch_ours *ours, struct tpch_ours_result *out)
{
	return tpch_in_child(be_engine, (void *)ours, out, sizeof(*out));
}
