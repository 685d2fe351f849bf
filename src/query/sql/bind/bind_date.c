/* SPDX-License-Identifier: BSD-2-Clause */
/* EXTRACT, date_part and date_trunc. */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"
#include "scalar/calendar.h"

#include <string.h>
#include <strings.h>

/* How EXTRACT computes a field: by an operator, or by SQL_DATE_PART with a part. */
struct field {
	const char *name;
	enum sql_op op;
	enum fth_date_part part;
	int digits;
};

static const struct field fields[] = {
	{"year", SQL_YEAR, 0, 7},
	{"quarter", SQL_QUARTER, 0, 1},
	{"month", SQL_MONTH, 0, 2},
	{"day", SQL_DAY, 0, 2},
	{"dow", SQL_DATE_PART, FTH_DATE_DOW, 1},
	{"isodow", SQL_DATE_PART, FTH_DATE_ISODOW, 1},
	{"doy", SQL_DATE_PART, FTH_DATE_DOY, 3},
	{"week", SQL_DATE_PART, FTH_DATE_WEEK, 2},
	{"isoyear", SQL_DATE_PART, FTH_DATE_ISOYEAR, 7},
	{"decade", SQL_DATE_PART, FTH_DATE_DECADE, 7},
	{"century", SQL_DATE_PART, FTH_DATE_CENTURY, 7},
	{"millennium", SQL_DATE_PART, FTH_DATE_MILLENNIUM, 7},
	{"julian", SQL_DATE_PART, FTH_DATE_JULIAN, 10},
	{"epoch", SQL_DATE_PART, FTH_DATE_JULIAN, 10},
};

static const struct {
	const char *name;
	enum fth_date_part part; /* FTH_DATE_PARTS: a date is its first day already */
} units[] = {
	{"day", FTH_DATE_PARTS},
	{"week", FTH_DATE_FIRST_OF_WEEK},
	{"month", FTH_DATE_FIRST_OF_MONTH},
	{"quarter", FTH_DATE_FIRST_OF_QUARTER},
	{"year", FTH_DATE_FIRST_OF_YEAR},
	{"decade", FTH_DATE_FIRST_OF_DECADE},
	{"century", FTH_DATE_FIRST_OF_CENTURY},
	{"millennium", FTH_DATE_FIRST_OF_MILLENNIUM},
};

static bool names(const struct sql_value *value, const char *name)
{
	return strlen(name) == value->length && !strncasecmp(name, value->text, value->length);
}

/* The constant that names a field. */
static const struct sql_value *field_name(struct sql_ctx *ctx, const char *function, size_t n,
					  struct sql_expr **args, int at)
{
	if (n != 2 || args[0]->kind != SQL_CONST || args[0]->value.null ||
	    (args[0]->type.kind != SQL_UNKNOWN && !sql_is_string(args[0]->type.kind)))
		sql_wrong(ctx, at, "%s takes a field name and a date", function);
	args[0] = sql_settle(ctx, args[0]);
	return &args[0]->value;
}

static struct sql_expr *part_of(struct sql_ctx *ctx, enum sql_op op, enum fth_date_part part,
				struct sql_type type, struct sql_expr *date, int at)
{
	struct sql_expr *args[2] = {date, sql_integer(ctx, SQL_TYPE_INT32, part)};

	return sql_fold(ctx, sql_call(ctx, op, type, 2, args, at));
}

/* Seconds from 1970-01-01, whose day is 2440588 of the Julian calendar. */
static struct sql_expr *seconds(struct sql_ctx *ctx, struct sql_expr *days, int at)
{
	days = sql_arithmetic(ctx, SQL_SUB, days, sql_integer(ctx, SQL_TYPE_INT32, 2440588), at);
	return sql_arithmetic(ctx, SQL_MUL, days, sql_integer(ctx, SQL_TYPE_INT32, 86400), at);
}

/* EXTRACT(field FROM date) is decimal, date_part('field', date) double. */
static struct sql_expr *bind_part(struct sql_ctx *ctx, const char *name, size_t n,
				  struct sql_expr **args, int at)
{
	const struct sql_value *field = field_name(ctx, name, n, args, at);
	struct sql_type type = {.kind = SQL_DECIMAL};
	struct sql_expr *e;

	e = sql_coerce(ctx, args[1], (struct sql_type){.kind = SQL_DATE}, "the source of EXTRACT");
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		if (!names(field, fields[i].name))
			continue;
		type.precision = fields[i].digits;
		if (fields[i].op == SQL_DATE_PART)
			e = part_of(ctx, SQL_DATE_PART, fields[i].part, type, e, at);
		else
			e = sql_fold(ctx, sql_call(ctx, fields[i].op, type, 1, &e, at));
		if (!strcmp(fields[i].name, "epoch"))
			e = seconds(ctx, e, at);
		if (!strcmp(name, "date_part"))
			e = sql_cast(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, at);
		return e;
	}
	sql_unsupported(ctx, at, "EXTRACT of \"%.*s\"",
			field->length < 40 ? (int)field->length : 40, field->text);
}

static struct sql_expr *bind_date_trunc(struct sql_ctx *ctx, size_t n, struct sql_expr **args,
					int at)
{
	const struct sql_value *unit = field_name(ctx, "date_trunc", n, args, at);
	struct sql_type date = {.kind = SQL_DATE};
	struct sql_expr *e = sql_coerce(ctx, args[1], date, "the source of date_trunc");

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!names(unit, units[i].name))
			continue;
		return units[i].part == FTH_DATE_PARTS
			       ? e
			       : part_of(ctx, SQL_DATE_TRUNC, units[i].part, date, e, at);
	}
	sql_unsupported(ctx, at, "date_trunc to \"%.*s\"",
			unit->length < 40 ? (int)unit->length : 40, unit->text);
}

struct sql_expr *sql_bind_date_function(struct sql_ctx *ctx, const char *name, size_t n,
					struct sql_expr **args, int at)
{
	if (!strcmp(name, "extract") || !strcmp(name, "date_part"))
		return bind_part(ctx, name, n, args, at);
	if (!strcmp(name, "date_trunc"))
		return bind_date_trunc(ctx, n, args, at);
	return NULL;
}
