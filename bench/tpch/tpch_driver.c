/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-bench driver tpch: our side of `fathom bench tpch` and of `fathom bench spill`. Runs a
 * query of TPC-H, or the one in a file, in a process whose memory is limited, writes its rows to a
 * file, and prints what each run took as a line of JSON.
 *
 * Unless --soft is given, the address space of the process is limited (RLIMIT_AS) to what it had
 * before the database was opened, a stack for each thread, and the budget; the engine is told an
 * eighth less, since the SQL parser and the C library need memory as well.
 */
#include "app_options.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/query.h"
#include "workloads/tpch/tpch.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define RESERVE(budget) ((budget) / 8) /* for what the engine's budget does not cover */
#define STACK_DEFAULT	(UINT64_C(8) << 20)
#define RUNS_MAX	2 /* the first one, and a warm one */
#define QUERY_MAX	(1 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_LIMIT false /* sanitizers reserve terabytes */
#else
#define CAN_LIMIT true
#endif

/* What a run took, as the kernel counts it for the whole process. */
struct figures {
	double cpu, wall;	/* seconds */
	uint64_t read, written; /* bytes, from and to storage; those written are spilled */
	uint64_t rss;		/* the most resident memory of the process so far */
};

struct driver {
	const char *database, *answer, *file;
	uint64_t query, runs, budget, threads;
	bool soft;
	struct figures took[RUNS_MAX];
	uint64_t charged; /* bytes, the most that the engine counted at a time */
	uint64_t rows, digest;
};

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

static int limit_memory(const struct driver *d)
{
	uint64_t bytes = address_space() + d->threads * stack_bytes() + d->budget;
	struct rlimit limit = {bytes, bytes};

	/* Else the C library reserves 64 MiB of addresses for each thread that allocates. */
	mallopt(M_ARENA_MAX, 1);
	return setrlimit(RLIMIT_AS, &limit) < 0 ? -errno : 0;
}

/* ---- figures ---- */

/* The number in the line that begins with `name` in a file of /proc/self; 0 if there is none. */
static uint64_t proc_number(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	unsigned long long n = 0;
	char line[160];

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, name, strlen(name)) == 0)
			n = strtoull(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return n;
}

static void figures_now(struct figures *out)
{
	struct rusage used;

	*out = (struct figures){0};
	getrusage(RUSAGE_SELF, &used);
	out->read = proc_number("/proc/self/io", "read_bytes:");
	out->written = proc_number("/proc/self/io", "write_bytes:");
	out->cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		   (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	/* ru_maxrss would include the program that started this one. */
	out->rss = proc_number("/proc/self/status", "VmHWM:") << 10;
	out->wall = (double)fth_now_ns() / 1e9;
}

static void figures_since(struct figures *out, const struct figures *from)
{
	figures_now(out);
	out->cpu -= from->cpu;
	out->wall -= from->wall;
	out->read -= from->read;
	out->written -= from->written;
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

/* The sum of the checksums of the lines, which does not depend on their order. */
static int digest_answer(struct driver *d)
{
	FILE *file = fopen(d->answer, "re");
	size_t size = 0;
	char *line = NULL;
	ssize_t n;

	if (!file)
		return fth_fail(errno, "%s: %s", d->answer, strerror(errno));
	while ((n = getline(&line, &size, file)) > 0) {
		d->digest += fth_checksum(line, (size_t)n - (line[n - 1] == '\n'), 0);
		d->rows++;
	}
	free(line);
	fclose(file);
	return 0;
}

/* ---- runs ---- */

static int run_once(struct fth_query *query, const char *sql, FILE *answer, struct figures *took)
{
	struct figures before;
	int rc;

	figures_now(&before);
	rc = fth_query_run(query, sql, take_rows, answer);
	figures_since(took, &before);
	return rc;
}

static int run_all(struct driver *d, struct fth_query_db *db, const char *sql, FILE *answer)
{
	struct fth_query *query;
	int rc = fth_query_new(db, &query);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < d->runs && rc == 0; i++) {
		rc = run_once(query, sql, i == 0 ? answer : NULL, &d->took[i]);
		d->charged = fth_query_report(query)->memory;
	}
	fth_query_free(query);
	return rc;
}

/* The statement in d->file, in a static buffer. */
static int read_query(const struct driver *d, const char **sql)
{
	static char text[QUERY_MAX];
	FILE *file = fopen(d->file, "re");
	size_t length;
	int rc;

	if (!file)
		return fth_fail(errno, "%s: %s", d->file, strerror(errno));
	length = fread(text, 1, sizeof(text) - 1, file);
	rc = ferror(file) ? fth_fail(EIO, "%s: cannot read it", d->file)
	     : feof(file) ? 0
			  : fth_fail(E2BIG, "%s: longer than %d bytes", d->file, QUERY_MAX - 2);
	fclose(file);
	text[length] = '\0';
	*sql = text;
	return rc;
}

static int be_engine(struct driver *d, const char *sql)
{
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	FILE *answer = fopen(d->answer, "we");
	bool hard = CAN_LIMIT && !d->soft;
	struct fth_query_db *db;
	int rc;

	if (!answer)
		return fth_fail(errno, "%s: %s", d->answer, strerror(errno));
	options.budget = hard ? d->budget - RESERVE(d->budget) : d->budget;
	options.threads = (unsigned)d->threads;
	options.readonly = true;
	rc = hard ? limit_memory(d) : 0;
	if (rc == 0)
		rc = fth_query_open(d->database, &options, &db);
	if (rc == 0) {
		rc = run_all(d, db, sql, answer);
		fth_query_close(db);
	}
	if (fclose(answer) != 0 && rc == 0)
		rc = fth_fail(errno, "%s: %s", d->answer, strerror(errno));
	return rc;
}

static void print_result(const struct driver *d)
{
	char digest[24];
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_u64(&j, "charged_bytes", d->charged);
	fth_json_u64(&j, "rows", d->rows);
	snprintf(digest, sizeof(digest), "0x%016llx", (unsigned long long)d->digest);
	fth_json_string(&j, "digest", digest);
	fth_json_array(&j, "runs");
	for (unsigned i = 0; i < d->runs; i++) {
		fth_json_object(&j, NULL);
		fth_json_double(&j, "cpu_s", d->took[i].cpu);
		fth_json_double(&j, "wall_s", d->took[i].wall);
		fth_json_u64(&j, "read_bytes", d->took[i].read);
		fth_json_u64(&j, "spilled_bytes", d->took[i].written);
		fth_json_u64(&j, "peak_rss_bytes", d->took[i].rss);
		fth_json_end(&j);
	}
	fth_json_finish(&j);
}

static int run(int argc, char **argv)
{
	struct driver d = {.query = 1, .runs = RUNS_MAX, .budget = FTH_QUERY_BUDGET, .threads = 1};
	const char *sql;
	const struct fth_cli_option options[] = {
		{"database", FTH_CLI_STRING, &d.database, 0, 0, "folder with the tables"},
		{"answer", FTH_CLI_STRING, &d.answer, 0, 0, "file for the rows"},
		{"query", FTH_CLI_U64, &d.query, 1, FTH_TPCH_QUERIES, "its number"},
		{"file", FTH_CLI_STRING, &d.file, 0, 0, "with a query to run instead"},
		{"runs", FTH_CLI_U64, &d.runs, 1, RUNS_MAX, "of the query"},
		{"budget", FTH_CLI_SIZE, &d.budget, FTH_QUERY_BUDGET_MIN, (uint64_t)1 << 44,
		 "memory"},
		{"threads", FTH_CLI_U64, &d.threads, 1, 256, "threads"},
		{"soft", FTH_CLI_FLAG, &d.soft, 0, 0, "the engine alone keeps the budget"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench driver tpch [options]",
		.text = "Run a query in a limited address space.",
		.options = options,
	};
	char **args;
	int rc = fth_cli_parse(&usage, argc, argv, &args);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	if (!d.database || !d.answer) {
		fth_cli_error("--database and --answer are required");
		return FTH_EXIT_USAGE;
	}
	sql = fth_tpch_query((unsigned)d.query);
	rc = d.file ? read_query(&d, &sql) : 0;
	if (rc == 0)
		rc = be_engine(&d, sql);
	if (rc == 0)
		rc = digest_answer(&d);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return FTH_EXIT_FAILED;
	}
	print_result(&d);
	return FTH_EXIT_OK;
}

const struct fth_command fth_driver_tpch = {
	.name = "tpch",
	.summary = "our side of the benchmarks tpch and spill",
	.run = run,
};
