/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench tpch generate, query and schema: the tables of TPC-H and its queries as text. The
 * benchmark itself is bench_tpch.py.
 */
#include "app_options.h"
#include "common/script.h"
#include "complete.h"
#include "output.h"
#include "tpch_tables.h"

#include "workloads/tpch/tpch.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define POLL_MS	    100 /* between two looks at whether to stop */
#define THREADS_MAX 1024

/* ---- generate ---- */

struct made {
	struct fth_tpch_totals totals;
	double seconds;
};

struct gen {
	double scale;
	const char *table_name; /* NULL: all of them */
	const char *folder;	/* NULL: standard output */
	const char *db;		/* tables instead of text */
	uint64_t threads;
	bool force;
	enum fth_tpch_table first, last;
	struct fth_tpch *tpch;
	struct made made[FTH_TPCH_TABLES];
};

/* A table under way. */
struct target {
	const char *name; /* of the table */
	const char *path; /* for messages */
	int fd;
	size_t piece; /* the most bytes of one write() */
};

static int show_progress(void *context, uint64_t units, uint64_t total)
{
	const struct target *target = context;

	fth_cli_progress(target->name, units, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int write_failed(const struct target *target)
{
	return fth_fail(errno, "%s: %s", target->path, strerror(errno));
}

static int write_block(void *context, const struct fth_tpch_block *block)
{
	const struct target *target = context;
	size_t done = 0;

	while (done < block->length) {
		ssize_t n = pwrite(target->fd, block->text + done, block->length - done,
				   (off_t)(block->offset + done));

		if (n < 0 && errno != EINTR)
			return write_failed(target);
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

/* Wait until standard output takes more. A reader that has stopped reading is no reason to hang. */
static int await_room(const struct target *target)
{
	struct pollfd poll_fd = {.fd = target->fd, .events = POLLOUT};
	int n = 0;

	while (n == 0 || (n < 0 && errno == EINTR)) {
		if (fth_cli_stopped())
			return -EINTR;
		n = poll(&poll_fd, 1, POLL_MS);
	}
	return n < 0 ? write_failed(target) : 0;
}

static int print_block(void *context, const struct fth_tpch_block *block)
{
	const struct target *target = context;
	size_t done = 0;
	int rc = 0;

	while (done < block->length && rc == 0) {
		size_t left = block->length - done;
		ssize_t n = 0;

		rc = await_room(target);
		if (rc == 0)
			n = write(target->fd, block->text + done,
				  left < target->piece ? left : target->piece);
		if (n < 0 && errno != EINTR)
			rc = write_failed(target);
		if (n > 0)
			done += (size_t)n;
	}
	return rc;
}

static int make_table(struct gen *gen, enum fth_tpch_table table, struct target *target)
{
	struct fth_tpch_write_options options = {0};

	options.threads = (unsigned)gen->threads;
	options.in_order = !gen->folder;
	options.block = gen->folder ? write_block : print_block;
	options.progress = show_progress;
	options.context = target;
	return fth_tpch_write(gen->tpch, table, &options, &gen->made[table].totals);
}

static int make_file(struct gen *gen, enum fth_tpch_table table, struct target *target)
{
	struct fth_output out = {.force = gen->force};
	int rc = fth_output_open_file(&out, target->path, &target->fd);

	if (rc < 0)
		fth_fail_in(rc, target->path);
	else
		rc = make_table(gen, table, target);
	if (target->fd >= 0)
		close(target->fd);
	return fth_output_close(&out, rc < 0 ? 0 : gen->made[table].totals.bytes, rc);
}

static int make_stdout(struct gen *gen, enum fth_tpch_table table, struct target *target)
{
	struct stat st;
	bool regular = fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode);

	target->fd = STDOUT_FILENO;
	target->piece = regular ? SIZE_MAX : PIPE_BUF; /* which a pipe takes without blocking */
	return make_table(gen, table, target);
}

static int table_path(const struct gen *gen, enum fth_tpch_table table, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%s.tbl", gen->folder, fth_tpch_table_name(table));

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int make_one(struct gen *gen, enum fth_tpch_table table)
{
	struct target target = {.name = fth_tpch_table_name(table), .fd = -1};
	uint64_t begin = fth_now_ns();
	char path[PATH_MAX] = "standard output";
	int rc = gen->folder ? table_path(gen, table, path) : 0;

	target.path = path;
	if (rc == 0 && gen->db)
		rc = fth_tpch_make_in_db(gen->tpch, table, gen->db, (unsigned)gen->threads,
					 show_progress, &target, &gen->made[table].totals);
	else if (rc == 0)
		rc = gen->folder ? make_file(gen, table, &target)
				 : make_stdout(gen, table, &target);
	fth_cli_progress_end();
	gen->made[table].seconds = (double)(fth_now_ns() - begin) / 1e9;
	return rc;
}

/* Make the folder if it is not there, and see that no table is, before anything is written. */
static int prepare_folder(const struct gen *gen)
{
	char path[PATH_MAX];
	struct stat st;
	int rc = 0;

	if (mkdir(gen->folder, 0777) < 0 && errno != EEXIST)
		return fth_fail(errno, "%s: %s", gen->folder, strerror(errno));
	for (unsigned t = gen->first; t <= gen->last && rc == 0; t++) {
		rc = table_path(gen, t, path);
		if (rc == 0 && !gen->force && stat(path, &st) == 0)
			rc = fth_fail(EEXIST, "%s exists; --force replaces it", path);
	}
	return rc;
}

static int make_all(struct gen *gen)
{
	int rc = gen->folder ? prepare_folder(gen) : 0;

	if (rc == 0)
		rc = fth_tpch_open(gen->scale, &gen->tpch);
	for (unsigned t = gen->first; t <= gen->last && rc == 0; t++)
		rc = make_one(gen, t);
	fth_tpch_close(gen->tpch);
	return rc;
}

static struct made sum_of(const struct gen *gen)
{
	struct made sum = {0};

	for (unsigned t = gen->first; t <= gen->last; t++) {
		sum.totals.rows += gen->made[t].totals.rows;
		sum.totals.bytes += gen->made[t].totals.bytes;
		sum.seconds += gen->made[t].seconds;
	}
	return sum;
}

static void print_made(const char *name, const struct made *made)
{
	char bytes[FTH_CLI_BYTES_MAX];

	printf("%-9s %14llu rows %12s %9.2f s\n", name, (unsigned long long)made->totals.rows,
	       fth_cli_bytes(bytes, made->totals.bytes), made->seconds);
}

static void json_made(struct fth_json *j, const struct made *made)
{
	fth_json_u64(j, "rows", made->totals.rows);
	fth_json_u64(j, "bytes", made->totals.bytes);
	fth_json_double(j, "seconds", made->seconds);
}

static void print_gen(const struct gen *gen)
{
	struct made sum = sum_of(gen);
	struct fth_json j;

	if (!fth_cli_json()) {
		for (unsigned t = gen->first; t <= gen->last; t++)
			print_made(fth_tpch_table_name(t), &gen->made[t]);
		if (gen->first != gen->last)
			print_made("all", &sum);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_double(&j, "scale", gen->scale);
	fth_json_string(&j, "output", gen->db ? gen->db : gen->folder);
	fth_json_array(&j, "tables");
	for (unsigned t = gen->first; t <= gen->last; t++) {
		fth_json_object(&j, NULL);
		fth_json_string(&j, "table", fth_tpch_table_name(t));
		json_made(&j, &gen->made[t]);
		fth_json_end(&j);
	}
	fth_json_end(&j);
	json_made(&j, &sum);
	fth_json_finish(&j);
}

/* Which tables go where; complains about what does not go together. */
static bool plan(struct gen *gen)
{
	gen->last = FTH_TPCH_TABLES - 1;
	if (gen->table_name) {
		int rc = fth_tpch_find_table(gen->table_name, &gen->first);

		if (rc < 0)
			fth_cli_error("%s", fth_error_text(rc));
		gen->last = gen->first;
		if (rc < 0)
			return false;
	}
	if (gen->db && (gen->folder || gen->force))
		fth_cli_error("--db excludes --output and --force");
	else if (gen->db)
		return true;
	else if (!gen->folder && !gen->table_name)
		fth_cli_error("--output DIR or --db DB is required; only a single --table can go "
			      "to standard output");
	else if (!gen->folder && fth_cli_json())
		fth_cli_error("--json requires --output: both would write to standard output");
	else
		return true;
	return false;
}

static int run_generate(int argc, char **argv)
{
	struct gen gen = {.scale = 1};
	const struct fth_cli_option options[] = {
		{"sf", FTH_CLI_DOUBLE, &gen.scale, 0, 0,
		 "scale factor, a multiple of 0.001; 1 makes 1 GB"},
		{"table", FTH_CLI_STRING, &gen.table_name, 0, 0, "only this one"},
		{"output", FTH_CLI_STRING, &gen.folder, 0, 0, "folder for TABLE.tbl"},
		{"db", FTH_CLI_STRING, &gen.db, 0, 0, "database for tables instead of text"},
		{"threads", FTH_CLI_U64, &gen.threads, 0, THREADS_MAX, "0: one per CPU"},
		FTH_CLI_FORCE(&gen.force, "replace files"),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench tpch generate [options]",
		.text = "Make the tables of the TPC-H benchmark, byte for byte as the reference\n"
			"generator (version 2.14) makes them. They go to TABLE.tbl in the folder\n"
			"--output, which is made if needed; a single --table goes to standard\n"
			"output without it. With --db they become new tables of a database, a\n"
			"directory or 'vol(URI,...)', as `fathom sql load` would make them.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!plan(&gen))
		return FTH_EXIT_USAGE;
	rc = make_all(&gen);
	if (rc == 0 && (gen.folder || gen.db))
		print_gen(&gen);
	return fth_app_exit("bench tpch generate", rc);
}

static const struct fth_command generate_command = {
	.name = "generate",
	.summary = "make the tables, as the reference generator does",
	.run = run_generate,
};

/* ---- query ---- */

static int run_query(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "bench tpch query NUMBER",
		.text = "Print query 1 to 22 of TPC-H as SQL, with the substitution values that "
			"the\n"
			"specification gives for validation.",
		.min_args = 1,
		.max_args = 1,
	};
	char **args, *end;
	int status = fth_cli_parse(&usage, argc, argv, &args);
	const char *text;
	unsigned long number;
	struct fth_json j;

	if (status != FTH_CLI_GO_ON)
		return status;
	number = strtoul(args[0], &end, 10);
	text = *end || number > FTH_TPCH_QUERIES ? NULL : fth_tpch_query((unsigned)number);
	if (!text) {
		fth_cli_error("query %s: expected a number from 1 to %d", args[0],
			      FTH_TPCH_QUERIES);
		return FTH_EXIT_USAGE;
	}
	if (!fth_cli_json()) {
		fputs(text, stdout);
		return FTH_EXIT_OK;
	}
	fth_json_begin(&j, stdout);
	fth_json_u64(&j, "query", number);
	fth_json_string(&j, "sql", text);
	fth_json_finish(&j);
	return FTH_EXIT_OK;
}

static const struct fth_command query_command = {
	.name = "query",
	.summary = "print one of the 22 queries",
	.run = run_query,
};

/* ---- schema ---- */

static void print_create(enum fth_tpch_table table)
{
	unsigned count;
	const struct fth_tpch_column *columns = fth_tpch_columns(table, &count);
	char type[FTH_TPCH_TYPE_TEXT];

	printf("create table %s (\n", fth_tpch_table_name(table));
	for (unsigned i = 0; i < count; i++)
		printf("\t%s %s not null%s\n", columns[i].name,
		       fth_tpch_type_text(&columns[i], type), i + 1 < count ? "," : "");
	printf(");\n");
}

static int run_schema(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "bench tpch schema",
		.text = "Print the statements in SQL that create the tables.",
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	for (unsigned t = 0; t < FTH_TPCH_TABLES; t++)
		print_create(t);
	return FTH_EXIT_OK;
}

static const struct fth_command schema_command = {
	.name = "schema",
	.summary = "print the statements that create the tables",
	.run = run_schema,
};

/* ---- the benchmark ---- */

static const struct fth_command *const commands[] = {
	&generate_command,
	&query_command,
	&schema_command,
	NULL,
};

/* These commands, or the benchmark itself, which needs SQL. */
static int run(int argc, char **argv)
{
#ifdef FTH_SQL
	if (argc < 2 || !fth_cli_find(commands, argv[1])) {
		if (fth_complete_word() && argc < 2)
			fth_complete_command(commands);
		fflush(stdout);
		return bench_script_run(argc, argv);
	}
#endif
	return fth_cli_dispatch("fathom bench tpch", commands, argc, argv);
}

const struct fth_command fth_bench_tpch = {
	.name = "tpch",
	.summary = "the queries of TPC-H in little memory, against DuckDB or PostgreSQL",
	.run = run,
};
