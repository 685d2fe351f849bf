/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom sql load and dump. */
#include "commands.h"
#include "json.h"
#include "table_source.h"

#include "query/reserved.h"

#include "fathom/base/error.h"

#include <stdio.h>

/* ---- load ---- */

static int show_progress(uint64_t done, uint64_t total, void *user)
{
	(void)user;
	fth_cli_progress("load", done, total);
	return fth_cli_stopped();
}

static void print_loaded(const char *name, uint64_t rows)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		printf("%s: %llu rows loaded\n", name, (unsigned long long)rows);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "table", name);
	fth_json_u64(&j, "rows", rows);
	fth_json_finish(&j);
}

/* All files are one batch. */
static int load(struct fth_table_db *db, char **args, const struct fth_table_text *text,
		const struct fth_table_write_options *options)
{
	struct fth_table_writer *writer;
	unsigned n = 0;
	int rc = name_reserved(args[0]);

	if (rc == 0)
		rc = fth_table_writer_open(db, args[0], options, &writer);
	if (rc < 0)
		return fth_table_complain(args[0], rc);
	while (args[1 + n])
		n++;
	rc = fth_table_load(writer, (const char *const *)args + 1, n, text, show_progress, NULL);
	fth_cli_progress_end();
	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	if (rc < 0) {
		/* The text is this thread's latest: nothing may fail in between. */
		int status = fth_table_complain(args[0], rc);

		fth_table_writer_close(writer);
		return status;
	}
	print_loaded(args[0], fth_table_writer_rows(writer));
	fth_table_writer_close(writer);
	return FTH_EXIT_OK;
}

static int run_load(int argc, char **argv)
{
	struct fth_table_write_options how = FTH_TABLE_WRITE_OPTIONS_INIT;
	struct fth_table_layout layout = {0};
	uint64_t threads = 0, compression = 0, memory = 0;
	const struct fth_cli_option options[] = {
		FTH_TABLE_LAYOUT_OPTIONS(layout),
		{"skip-header", FTH_CLI_FLAG, &layout.skip_header, 0, 0,
		 "ignore the first line of each file"},
		{"threads", FTH_CLI_U64, &threads, 0, 1024, "threads; 0: one for each processor"},
		{"compression", FTH_CLI_U64, &compression, 0, 12,
		 "of text: 1 fast, up to 12 small; 0: the default, 2"},
		{"memory", FTH_CLI_SIZE, &memory, 0, (uint64_t)1 << 44,
		 "bytes to load with; 0: 256M for each thread"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "sql load DB NAME FILE...",
		.text = "Append the rows of text files to a table, all of them or none. - is "
			"standard\n"
			"input. Files of TPC-H need no option. Columns are in the order of the "
			"table, unless\n"
			"--header says that the first line names them. gzip and zstd are "
			"unpacked.\n" FTH_TABLE_DB_SYNTAX,
		.options = options,
		.min_args = 3,
		.max_args = 1000000,
	};
	struct fth_table_text text;
	struct fth_table_db *db;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!fth_table_layout_text(&layout, &text))
		return FTH_EXIT_USAGE;
	how.threads = (unsigned)threads;
	how.compression = (unsigned)compression;
	how.memory = memory;
	rc = fth_table_db_open(args[0], 0, &db);
	if (rc < 0)
		return fth_table_complain(args[0], rc);
	status = load(db, args + 1, &text, &how);
	fth_table_db_close(db);
	return status;
}

const struct fth_command fth_cmd_sql_load = {
	.name = "load", .summary = "append the rows of text files", .run = run_load};

/* ---- dump ---- */

static int run_dump(int argc, char **argv)
{
	struct fth_table_layout layout = {0};
	const struct fth_cli_option options[] = {
		FTH_TABLE_LAYOUT_OPTIONS(layout),
		{"trailing", FTH_CLI_FLAG, &layout.trailing, 0, 0,
		 "a delimiter at the end of each line"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "sql dump DB NAME",
		.text = "Write all rows of a table as text.\n" FTH_TABLE_DB_SYNTAX,
		.options = options,
		.min_args = 2,
		.max_args = 2,
	};
	struct fth_table_text text;
	struct fth_table_db *db;
	struct fth_table *table;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!fth_table_layout_text(&layout, &text))
		return FTH_EXIT_USAGE;
	status = fth_table_source_open(args[0], args[1], &db, &table);
	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_table_dump(table, &text, stdout);
	status = rc < 0 ? fth_table_complain(args[1], rc) : FTH_EXIT_OK;
	fth_table_close(table);
	fth_table_db_close(db);
	return status;
}

const struct fth_command fth_cmd_sql_dump = {
	.name = "dump", .summary = "write all rows as text", .run = run_dump};
