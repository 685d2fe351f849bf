/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom sql stat and check. */
#include "commands.h"
#include "json.h"
#include "table_source.h"

#include "fathom/base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Parse the arguments DB NAME, open the table and call fn, which returns the exit status. */
static int with_table(const struct fth_cli_usage *usage, int argc, char **argv,
		      int (*fn)(struct fth_table *table))
{
	struct fth_table_db *db;
	struct fth_table *table;
	char **args;
	int status = fth_cli_parse(usage, argc, argv, &args);

	if (status == FTH_CLI_GO_ON)
		status = fth_table_source_open(args[0], args[1], &db, &table);
	if (status != FTH_CLI_GO_ON)
		return status;
	status = fn(table);
	fth_table_close(table);
	fth_table_db_close(db);
	return status;
}

/* ---- stat ---- */

static const struct {
	uint32_t flag;
	const char *name;
} flag_names[] = {
	{FTH_TABLE_NO_NULLS, "no-nulls"},
	{FTH_TABLE_SORTED, "sorted"},
	{FTH_TABLE_STRICT, "strict"},
	{FTH_TABLE_CLUSTERED, "clustered"},
	{FTH_TABLE_UNIQUE, "unique"},
	{FTH_TABLE_DENSE, "dense"},
	{FTH_TABLE_WHOLE_RUNS, "whole-runs"},
	{FTH_TABLE_ALL_CODES, "all-codes"},
	{FTH_TABLE_ORDERED_CODES, "ordered-codes"},
};
#define FLAGS (sizeof(flag_names) / sizeof(*flag_names))

/* Encodings of a column: how many groups have each. */
struct encodings {
	uint32_t groups[FTH_TABLE_BLOCKS + 1];
};

static struct encodings count_encodings(const struct fth_table *table, uint32_t column)
{
	struct encodings e = {{0}};

	for (uint32_t g = 0; g < fth_table_groups(table); g++)
		e.groups[fth_table_chunk(table, column, g)->encoding]++;
	return e;
}

/* "packed", or "packed+runs" where groups differ. */
static const char *encodings_text(const struct fth_table *table, uint32_t column, char text[64])
{
	struct encodings e = count_encodings(table, column);
	int n = 0;

	text[0] = 0;
	for (unsigned i = FTH_TABLE_PACKED; i <= FTH_TABLE_BLOCKS; i++)
		if (e.groups[i])
			n += snprintf(text + n, 64 - (size_t)n, "%s%s", n ? "+" : "",
				      fth_table_encoding_name((enum fth_table_encoding)i));
	return text;
}

static double bits_per_value(const struct fth_table *table, uint32_t column)
{
	uint64_t rows = fth_table_rows(table);

	return rows ? (double)fth_table_facts(table, column)->bytes * 8 / (double)rows : 0;
}

/* The smallest or largest value as text; "" for strings, of which only a key is known. */
static const char *value_text(const struct fth_table_column *column, int64_t value, char text[64])
{
	unsigned year, month, day;
	int64_t power = 1;

	text[0] = 0;
	if (fth_table_kind(column) == FTH_TABLE_KIND_DOUBLE) {
		snprintf(text, 64, "%g", fth_table_double_of_key(value));
	} else if (column->type == FTH_TABLE_DATE) {
		fth_table_date_split((int32_t)value, &year, &month, &day);
		snprintf(text, 64, "%04u-%02u-%02u", year, month, day);
	} else if (fth_table_kind(column) == FTH_TABLE_KIND_INT && column->scale) {
		uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

		for (unsigned i = 0; i < column->scale; i++)
			power *= 10;
		snprintf(text, 64, "%s%" PRIu64 ".%0*" PRIu64, value < 0 ? "-" : "",
			 size / (uint64_t)power, (int)(column->scale % 19), size % (uint64_t)power);
	} else if (fth_table_kind(column) != FTH_TABLE_KIND_STRING) {
		snprintf(text, 64, "%" PRId64, value);
	}
	return text;
}

static void print_flags(uint32_t flags)
{
	for (size_t i = 0; i < FLAGS; i++)
		if (flags & flag_names[i].flag)
			printf(" %s", flag_names[i].name);
}

static void print_column(const struct fth_table *table, uint32_t c)
{
	const struct fth_table_column *column = &fth_table_schema(table)->column[c];
	const struct fth_table_facts *f = fth_table_facts(table, c);
	char type[FTH_TABLE_TYPE_TEXT], encodings[64], bytes[FTH_CLI_BYTES_MAX], min[64], max[64];

	printf("%-16s %-14s %-13s %10s %7.2f bits ", column->name,
	       fth_table_type_text(column, type), encodings_text(table, c, encodings),
	       fth_cli_bytes(bytes, f->bytes), bits_per_value(table, c));
	printf(" %s%" PRIu64 " distinct", f->flags & FTH_TABLE_DISTINCT ? "" : "~", f->distinct);
	if (f->nulls)
		printf(", %" PRIu64 " nulls", f->nulls);
	if (f->min <= f->max && fth_table_kind(column) != FTH_TABLE_KIND_STRING)
		printf(", %s to %s", value_text(column, f->min, min),
		       value_text(column, f->max, max));
	if (fth_table_kind(column) == FTH_TABLE_KIND_STRING)
		printf(", up to %u bytes", f->max_length);
	if (f->max_run > 1)
		printf(", runs up to %" PRIu64, f->max_run);
	printf(",");
	print_flags(f->flags);
	printf("\n");
}

static void print_table(const struct fth_table *table)
{
	char bytes[FTH_CLI_BYTES_MAX], memory[FTH_CLI_BYTES_MAX];

	printf("sql     %s, version %" PRIu64 "\n", fth_table_name(table),
	       fth_table_version(table));
	printf("rows      %" PRIu64 " in %u groups\n", fth_table_rows(table),
	       fth_table_groups(table));
	printf("space     %s; metadata in memory %s\n",
	       fth_cli_bytes(bytes, fth_table_bytes(table)),
	       fth_cli_bytes(memory, fth_table_memory_used(table)));
	for (uint32_t c = 0; c < fth_table_schema(table)->columns; c++)
		print_column(table, c);
}

static void json_column(struct fth_json *j, const struct fth_table *table, uint32_t c)
{
	const struct fth_table_column *column = &fth_table_schema(table)->column[c];
	const struct fth_table_facts *f = fth_table_facts(table, c);
	struct encodings e = count_encodings(table, c);
	char type[FTH_TABLE_TYPE_TEXT], text[64];

	fth_json_object(j, NULL);
	fth_json_string(j, "name", column->name);
	fth_json_string(j, "type", fth_table_type_text(column, type));
	fth_json_bool(j, "not_null", column->not_null);
	fth_json_object(j, "encodings");
	for (unsigned i = FTH_TABLE_PACKED; i <= FTH_TABLE_BLOCKS; i++)
		if (e.groups[i])
			fth_json_u64(j, fth_table_encoding_name((enum fth_table_encoding)i),
				     e.groups[i]);
	fth_json_end(j);
	fth_json_u64(j, "bytes", f->bytes);
	fth_json_double(j, "bits_per_value", bits_per_value(table, c));
	fth_json_u64(j, "distinct", f->distinct);
	fth_json_bool(j, "distinct_exact", f->flags & FTH_TABLE_DISTINCT);
	fth_json_u64(j, "nulls", f->nulls);
	if (f->min <= f->max && fth_table_kind(column) != FTH_TABLE_KIND_STRING) {
		fth_json_string(j, "min", value_text(column, f->min, text));
		fth_json_string(j, "max", value_text(column, f->max, text));
	}
	fth_json_u64(j, "max_run", f->max_run);
	fth_json_u64(j, "max_length", f->max_length);
	fth_json_u64(j, "string_bytes", f->string_bytes);
	fth_json_u64(j, "dictionary", f->dictionary);
	fth_json_array(j, "facts");
	for (size_t i = 0; i < FLAGS; i++)
		if (f->flags & flag_names[i].flag)
			fth_json_string(j, NULL, flag_names[i].name);
	fth_json_end(j);
	fth_json_end(j);
}

static void print_table_json(const struct fth_table *table)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_string(&j, "table", fth_table_name(table));
	fth_json_u64(&j, "version", fth_table_version(table));
	fth_json_u64(&j, "rows", fth_table_rows(table));
	fth_json_u64(&j, "groups", fth_table_groups(table));
	fth_json_u64(&j, "bytes", fth_table_bytes(table));
	fth_json_u64(&j, "memory", fth_table_memory_used(table));
	fth_json_array(&j, "columns");
	for (uint32_t c = 0; c < fth_table_schema(table)->columns; c++)
		json_column(&j, table, c);
	fth_json_finish(&j);
}

static int stat_table(struct fth_table *table)
{
	if (fth_cli_json())
		print_table_json(table);
	else
		print_table(table);
	return FTH_EXIT_OK;
}

static int run_stat(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "sql stat DB NAME",
		.text = "Print how the columns of a table are stored and what is proved about "
			"them.\n"
			"~ before a number of distinct values: it is an "
			"estimate.\n" FTH_TABLE_DB_SYNTAX,
		.min_args = 2,
		.max_args = 2,
	};

	return with_table(&usage, argc, argv, stat_table);
}

const struct fth_command fth_cmd_sql_stat = {
	.name = "stat", .summary = "print how columns are stored", .run = run_stat};

/* ---- check ---- */

static int report(const char *text, void *user)
{
	struct fth_json *j = user;

	if (j)
		fth_json_string(j, NULL, text);
	else
		printf("%s\n", text);
	return fth_cli_stopped();
}

static int progress(uint64_t done, uint64_t total, void *user)
{
	(void)user;
	fth_cli_progress("check", done, total);
	return fth_cli_stopped();
}

static int check_table(struct fth_table *table)
{
	struct fth_json j;
	int rc;

	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		fth_json_string(&j, "table", fth_table_name(table));
		fth_json_array(&j, "findings");
	}
	rc = fth_table_check(table, report, progress, fth_cli_json() ? &j : NULL);
	fth_cli_progress_end();
	if (fth_cli_json())
		fth_json_finish(&j);
	if (rc < 0)
		return fth_table_complain(fth_table_name(table), rc);
	if (!fth_cli_json())
		printf("%s: %" PRIu64 " rows, %d findings\n", fth_table_name(table),
		       fth_table_rows(table), rc);
	return rc ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

static int run_check(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "sql check DB NAME",
		.text = "Read and verify every page of a table, its statistics and all facts. "
			"Needs 8 bytes\n"
			"of memory for each row. Exit status 1 if anything is "
			"wrong.\n" FTH_TABLE_DB_SYNTAX,
		.min_args = 2,
		.max_args = 2,
	};

	return with_table(&usage, argc, argv, check_table);
}

const struct fth_command fth_cmd_sql_check = {
	.name = "check", .summary = "verify pages, statistics and facts", .run = run_check};
