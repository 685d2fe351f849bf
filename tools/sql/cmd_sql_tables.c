/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom sql create, ls, rm: tables of columns. Siblings: cmd_sql_text.c loads and dumps,
 * cmd_sql_stat.c shows what is stored and checks it, table_source.c has what they share.
 */
#include "commands.h"
#include "json.h"
#include "table_source.h"

#include "query/reserved.h"

#include "fathom/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- create ---- */

static int create(const char *db_name, const char *name, const char *columns)
{
	struct fth_table_schema schema;
	struct fth_table_db *db;
	int rc = fth_table_schema_parse(&schema, columns);

	if (rc < 0)
		return fth_table_complain(name, rc);
	rc = name_reserved(name);
	if (rc == 0)
		rc = fth_table_db_open(db_name, FTH_TABLE_DB_CREATE, &db);
	if (rc == 0) {
		rc = fth_table_create(db, name, &schema);
		fth_table_db_close(db);
	}
	fth_table_schema_release(&schema);
	return rc < 0 ? fth_table_complain(name, rc) : FTH_EXIT_OK;
}

static int run_create(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "sql create DB NAME COLUMNS",
		.text = "Make a new, empty table. COLUMNS is a list as in SQL:\n"
			"\"id bigint not null, price decimal(15,2), day date, note varchar(80)\"\n"
			"and may end with \"cluster by (id)\". Types: bool, int32, int64, "
			"decimal(p,s),\n"
			"date, double, char(n), varchar(n), text.\n" FTH_TABLE_DB_SYNTAX,
		.min_args = 3,
		.max_args = 3,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	return status != FTH_CLI_GO_ON ? status : create(args[0], args[1], args[2]);
}

static const struct fth_command create_command = {
	.name = "create", .summary = "make a new table", .run = run_create};

/* ---- ls ---- */

struct listing {
	struct fth_table_db *db;
	struct fth_json *j; /* NULL: text */
};

static int list_table(const char *name, void *user)
{
	struct listing *listing = user;
	char bytes[FTH_CLI_BYTES_MAX];
	struct fth_table *table;
	int rc = fth_table_open(listing->db, name, NULL, &table);

	if (rc < 0) {
		fth_cli_error("%s: %s", name, fth_error_text(rc));
		return rc;
	}
	if (listing->j) {
		fth_json_object(listing->j, NULL);
		fth_json_string(listing->j, "name", name);
		fth_json_u64(listing->j, "rows", fth_table_rows(table));
		fth_json_u64(listing->j, "columns", fth_table_schema(table)->columns);
		fth_json_u64(listing->j, "bytes", fth_table_bytes(table));
		fth_json_end(listing->j);
	} else {
		printf("%14llu rows  %3u columns  %10s  %s\n",
		       (unsigned long long)fth_table_rows(table), fth_table_schema(table)->columns,
		       fth_cli_bytes(bytes, fth_table_bytes(table)), name);
	}
	fth_table_close(table);
	return 0;
}

static int run_ls(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "sql ls DB",
		.text = "List the tables of a database: rows, columns, bytes, "
			"name.\n" FTH_TABLE_DB_SYNTAX,
		.min_args = 1,
		.max_args = 1,
	};
	struct listing listing = {0};
	struct fth_json j;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_table_db_open(args[0], FTH_TABLE_DB_READONLY, &listing.db);
	if (rc < 0)
		return fth_table_complain(args[0], rc);
	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		fth_json_array(&j, "tables");
		listing.j = &j;
	}
	rc = fth_table_list(listing.db, list_table, &listing);
	if (listing.j)
		fth_json_finish(&j);
	fth_table_db_close(listing.db);
	return rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static const struct fth_command ls_command = {
	.name = "ls", .summary = "list the tables of a database", .run = run_ls};

/* ---- rm ---- */

static int run_rm(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "sql rm DB NAME...",
		.text = "Remove tables, one after the other.\n" FTH_TABLE_DB_SYNTAX,
		.min_args = 2,
		.max_args = 1000000,
	};
	struct fth_table_db *db;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	rc = fth_table_db_open(args[0], 0, &db);
	if (rc < 0)
		return fth_table_complain(args[0], rc);
	status = FTH_EXIT_OK;
	for (char **name = args + 1; *name && status == FTH_EXIT_OK; name++) {
		rc = name_reserved(*name);
		if (rc == 0)
			rc = fth_table_remove(db, *name);
		if (rc < 0)
			status = fth_table_complain(*name, rc);
	}
	fth_table_db_close(db);
	return status;
}

static const struct fth_command rm_command = {
	.name = "rm", .summary = "remove tables", .run = run_rm};

/* ---- the commands ---- */

const struct fth_command *const fth_sql_commands[] = {
	&fth_cmd_sql_check, &create_command,
	&fth_cmd_sql_dump,  &fth_cmd_sql_load,
	&ls_command,	    &rm_command,
#ifdef FTH_SQL
	&fth_cmd_sql_serve, &fth_cmd_sql_serve_tasks,
#endif
	&fth_cmd_sql_stat,  NULL,
};

#ifndef FTH_SQL
static int run(int argc, char **argv)
{
	return fth_cli_dispatch_text("fathom sql", "This build has tables, but cannot run SQL.",
				     fth_sql_commands, argc, argv);
}

const struct fth_command fth_cmd_sql = {
	.name = "sql",
	.summary = "column-store tables: create, load, inspect, check",
	.run = run,
};
#endif
