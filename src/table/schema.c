/* SPDX-License-Identifier: BSD-2-Clause */
#include "fathom/table/schema.h"

#include "table/place/names.h"

#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum fth_table_kind fth_table_kind(const struct fth_table_column *column)
{
	switch (column->type) {
	case FTH_TABLE_DOUBLE:
		return FTH_TABLE_KIND_DOUBLE;
	case FTH_TABLE_CHAR:
	case FTH_TABLE_VARCHAR:
		return FTH_TABLE_KIND_STRING;
	case FTH_TABLE_DECIMAL:
		return column->precision > 18 ? FTH_TABLE_KIND_WIDE : FTH_TABLE_KIND_INT;
	default:
		return FTH_TABLE_KIND_INT;
	}
}

const char *fth_table_type_text(const struct fth_table_column *column,
				char text[FTH_TABLE_TYPE_TEXT])
{
	static const char *const names[] = {"?",       "bool",	 "int32", "int64",  "date",
					    "decimal", "double", "char",  "varchar"};

	if (column->type == FTH_TABLE_DECIMAL)
		snprintf(text, FTH_TABLE_TYPE_TEXT, "decimal(%u,%u)", column->precision,
			 column->scale);
	else if (column->length)
		snprintf(text, FTH_TABLE_TYPE_TEXT, "%s(%u)", names[column->type], column->length);
	else
		snprintf(text, FTH_TABLE_TYPE_TEXT, "%s", names[column->type]);
	return text;
}

void fth_table_schema_release(struct fth_table_schema *schema)
{
	free(schema->column);
	*schema = (struct fth_table_schema){.cluster_by = FTH_TABLE_NO_COLUMN};
}

uint32_t fth_table_schema_find(const struct fth_table_schema *schema, const char *name)
{
	for (uint32_t i = 0; i < schema->columns; i++)
		if (strcasecmp(schema->column[i].name, name) == 0)
			return i;
	return FTH_TABLE_NO_COLUMN;
}

/* ---- checking ---- */

bool table_name_valid(const char *name)
{
	size_t n = strnlen(name, FTH_TABLE_NAME_MAX + 1);

	if (n == 0 || n > FTH_TABLE_NAME_MAX || isdigit((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return false;
	return true;
}

static int check_column(const struct fth_table_column *column)
{
	bool string = column->type == FTH_TABLE_CHAR || column->type == FTH_TABLE_VARCHAR;

	if (!memchr(column->name, 0, sizeof(column->name)) || !table_name_valid(column->name))
		return fth_fail(
			EINVAL,
			"\"%.63s\" is not a column name: expected a letter or _, then up to 62 "
			"letters, digits and _",
			column->name);
	if ((unsigned)column->type < FTH_TABLE_BOOL || (unsigned)column->type > FTH_TABLE_VARCHAR)
		return fth_fail(EINVAL, "%s: unknown type %u", column->name,
				(unsigned)column->type);
	if (column->type == FTH_TABLE_DECIMAL &&
	    (column->precision < 1 || column->precision > 38 || column->scale > column->precision))
		return fth_fail(EINVAL,
				"%s: decimal(%u,%u): expected a precision of 1 to 38 and a scale "
				"of at most the precision",
				column->name, column->precision, column->scale);
	if (column->type == FTH_TABLE_CHAR && column->length == 0)
		return fth_fail(EINVAL, "%s: char needs a length", column->name);
	if ((!string && column->length) || column->length > FTH_TABLE_STRING_MAX)
		return fth_fail(EINVAL, "%s: length %u exceeds the limit of %u", column->name,
				column->length, string ? FTH_TABLE_STRING_MAX : 0);
	return 0;
}

int fth_table_schema_check(const struct fth_table_schema *schema)
{
	if (schema->columns == 0 || schema->columns > FTH_TABLE_COLUMNS_MAX)
		return fth_fail(EINVAL, "%u columns: expected 1 to %u", schema->columns,
				FTH_TABLE_COLUMNS_MAX);
	for (uint32_t i = 0; i < schema->columns; i++) {
		int rc = check_column(&schema->column[i]);

		if (rc < 0)
			return rc;
		if (fth_table_schema_find(schema, schema->column[i].name) != i)
			return fth_fail(EINVAL, "%s: duplicate column name",
					schema->column[i].name);
	}
	if (schema->cluster_by != FTH_TABLE_NO_COLUMN && schema->cluster_by >= schema->columns)
		return fth_fail(EINVAL, "cluster_by is %u, but the table has %u columns",
				schema->cluster_by, schema->columns);
	return 0;
}

/* ---- parsing ---- */

/* The next word (letters, digits, _), number or other character of a text. */
struct words {
	const char *at;
	char word[FTH_TABLE_NAME_MAX + 2]; /* longer ones are cut, and no valid name then */
};

static const char *next_word(struct words *w)
{
	size_t n = 0;

	while (isspace((unsigned char)*w->at))
		w->at++;
	if (isalnum((unsigned char)*w->at) || *w->at == '_') {
		while (isalnum((unsigned char)*w->at) || *w->at == '_') {
			if (n < sizeof(w->word) - 1)
				w->word[n++] = *w->at;
			w->at++;
		}
	} else if (*w->at) {
		w->word[n++] = *w->at++;
	}
	w->word[n] = 0;
	return w->word;
}

static bool take_word(struct words *w, const char *expected)
{
	struct words before = *w;

	if (strcasecmp(next_word(w), expected) == 0)
		return true;
	*w = before;
	return false;
}

static int take_number(struct words *w, const struct fth_table_column *column, uint64_t max,
		       uint32_t *out)
{
	const char *word = next_word(w);
	char *end;
	unsigned long long value = strtoull(word, &end, 10);

	if (!isdigit((unsigned char)*word) || *end || value > max)
		return fth_fail(EINVAL, "%s: \"%s\" is not a number from 0 to %llu", column->name,
				word, (unsigned long long)max);
	*out = (uint32_t)value;
	return 0;
}

static int expect_word(struct words *w, const char *what, const char *expected)
{
	if (take_word(w, expected))
		return 0;
	return fth_fail(EINVAL, "%s: expected \"%s\" at \"%.20s\"", what, expected, w->at);
}

static const struct {
	const char *name;
	enum fth_table_type type;
} type_names[] = {
	{"bool", FTH_TABLE_BOOL},	{"boolean", FTH_TABLE_BOOL},
	{"int", FTH_TABLE_INT32},	{"int4", FTH_TABLE_INT32},
	{"int32", FTH_TABLE_INT32},	{"integer", FTH_TABLE_INT32},
	{"bigint", FTH_TABLE_INT64},	{"int8", FTH_TABLE_INT64},
	{"int64", FTH_TABLE_INT64},	{"date", FTH_TABLE_DATE},
	{"decimal", FTH_TABLE_DECIMAL}, {"numeric", FTH_TABLE_DECIMAL},
	{"double", FTH_TABLE_DOUBLE},	{"float8", FTH_TABLE_DOUBLE},
	{"char", FTH_TABLE_CHAR},	{"varchar", FTH_TABLE_VARCHAR},
	{"text", FTH_TABLE_VARCHAR},
};

static int find_type(const char *word, struct fth_table_column *column)
{
	for (size_t i = 0; i < sizeof(type_names) / sizeof(*type_names); i++) {
		if (strcasecmp(word, type_names[i].name) == 0) {
			column->type = type_names[i].type;
			return 0;
		}
	}
	return fth_fail(EINVAL, "%s: unknown type \"%s\"", column->name, word);
}

static int parse_decimal(struct words *w, struct fth_table_column *column)
{
	uint32_t precision = 18, scale = 0;
	int rc = 0;

	if (take_word(w, "(")) {
		rc = take_number(w, column, 38, &precision);
		if (rc == 0 && take_word(w, ","))
			rc = take_number(w, column, 38, &scale);
		if (rc == 0)
			rc = expect_word(w, column->name, ")");
	}
	column->precision = (uint8_t)precision;
	column->scale = (uint8_t)scale;
	return rc;
}

static int parse_length(struct words *w, struct fth_table_column *column)
{
	int rc;

	if (!take_word(w, "(")) {
		column->length = column->type == FTH_TABLE_CHAR;
		return 0;
	}
	rc = take_number(w, column, FTH_TABLE_STRING_MAX, &column->length);
	if (rc == 0 && column->length == 0)
		rc = fth_fail(EINVAL, "%s: length is 0", column->name);
	return rc < 0 ? rc : expect_word(w, column->name, ")");
}

static int parse_type(struct words *w, struct fth_table_column *column)
{
	int rc = find_type(next_word(w), column);

	if (rc < 0)
		return rc;
	if (column->type == FTH_TABLE_DOUBLE)
		take_word(w, "precision");
	if (column->type == FTH_TABLE_DECIMAL)
		return parse_decimal(w, column);
	if (column->type == FTH_TABLE_CHAR || column->type == FTH_TABLE_VARCHAR)
		return parse_length(w, column);
	return 0;
}

static int parse_column(struct words *w, struct fth_table_schema *schema)
{
	struct fth_table_column *grown, column = {0};
	const char *word = next_word(w);
	int rc;

	if (!table_name_valid(word))
		return fth_fail(EINVAL, "\"%s\" is not a column name", word);
	memcpy(column.name, word, strlen(word) + 1);
	rc = parse_type(w, &column);
	if (rc == 0 && take_word(w, "not")) {
		rc = expect_word(w, column.name, "null");
		column.not_null = true;
	}
	if (rc < 0)
		return rc;
	grown = reallocarray(schema->column, schema->columns + 1, sizeof(column));
	if (!grown)
		return -ENOMEM;
	schema->column = grown;
	schema->column[schema->columns++] = column;
	return 0;
}

static int parse_cluster(struct words *w, struct fth_table_schema *schema)
{
	int rc = expect_word(w, "cluster", "by");

	if (rc == 0)
		rc = expect_word(w, "cluster by", "(");
	if (rc < 0)
		return rc;
	schema->cluster_by = fth_table_schema_find(schema, next_word(w));
	if (schema->cluster_by == FTH_TABLE_NO_COLUMN)
		return fth_fail(EINVAL, "cluster by (%s): no such column", w->word);
	return expect_word(w, "cluster by", ")");
}

static int parse_columns(struct words *w, struct fth_table_schema *schema)
{
	int rc;

	do {
		rc = parse_column(w, schema);
	} while (rc == 0 && take_word(w, ","));
	if (rc == 0 && take_word(w, "cluster"))
		rc = parse_cluster(w, schema);
	if (rc == 0 && *next_word(w))
		rc = fth_fail(EINVAL, "unexpected \"%s\"", w->word);
	return rc;
}

int fth_table_schema_parse(struct fth_table_schema *schema, const char *text)
{
	struct words w = {.at = text};
	int rc;

	*schema = (struct fth_table_schema){.cluster_by = FTH_TABLE_NO_COLUMN};
	rc = parse_columns(&w, schema);
	if (rc == 0)
		rc = fth_table_schema_check(schema);
	if (rc < 0)
		fth_table_schema_release(schema);
	return rc;
}
