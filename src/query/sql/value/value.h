/* SPDX-License-Identifier: BSD-2-Clause */
/* Values: their text, order and scale. Nothing here allocates. */
#ifndef QUERY_SQL_VALUE_H
#define QUERY_SQL_VALUE_H

#include "query/sql/type.h"

#define SQL_VALUE_TEXT 64 /* bytes that the text of any value but a string takes */

/* days plus an interval: months first, clamping the day. False if the result is out of range. */
bool sql_date_add(int32_t days, int32_t months, int32_t add_days, int32_t *result);

/*
 * Reads text as a value of type. For a decimal with precision 0 the type is filled in from the
 * text. Returns NULL, or the reason why not: "invalid input syntax" and the like.
 */
const char *sql_value_parse(const char *text, size_t length, struct sql_type *type,
			    struct sql_value *value);

/* Reads an interval of years, months, weeks and days; unit is that of a number alone, or NULL. */
const char *sql_interval_parse(const char *text, size_t length, const char *unit,
			       struct sql_value *value);

/* Writes a value that is neither NULL nor a string; returns the length. */
size_t sql_value_print(struct sql_type type, const struct sql_value *value,
		       char to[SQL_VALUE_TEXT]);

/*
 * Compares two values of one kind that are not NULL: < 0, 0, > 0. Scales may differ. NaN is
 * largest.
 */
int sql_value_compare(struct sql_type a_type, const struct sql_value *a, struct sql_type b_type,
		      const struct sql_value *b);

/* Multiplies by 10^(to - from), rounding half away from zero; false if it does not fit. */
bool sql_rescale(fth_i128 value, int from, int to, fth_i128 *result);

#endif
