/* SPDX-License-Identifier: BSD-2-Clause */
/* A row as a line of text, column by column as the tables of columns in tpch.c say. */
#include "tpch_internal.h"

#include <string.h>

/* Digits are made from the last to the first, in the end of a buffer. */
#define DIGITS 20

static char *put_unsigned(char *out, uint64_t value)
{
	char digits[DIGITS], *first = digits + DIGITS;

	do {
		*--first = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	memcpy(out, first, (size_t)(digits + DIGITS - first));
	return out + (digits + DIGITS - first);
}

static char *put_integer(char *out, int64_t value)
{
	if (value < 0) {
		*out++ = '-';
		value = -value;
	}
	return put_unsigned(out, (uint64_t)value);
}

static char *put_hundredths(char *out, int64_t value)
{
	if (value < 0) {
		*out++ = '-';
		value = -value;
	}
	out = put_unsigned(out, (uint64_t)value / 100);
	out[0] = '.';
	out[1] = (char)('0' + value / 10 % 10);
	out[2] = (char)('0' + value % 10);
	return out + 3;
}

static char *put_number(char *out, const struct fth_tpch *tpch,
			const struct fth_tpch_column *column, int64_t value)
{
	if (column->places)
		return put_hundredths(out, value);
	if (column->type != FTH_TPCH_DATE)
		return put_integer(out, value);
	memcpy(out, tpch->days[value - TPCH_FIRST_DAY], 10);
	return out + 10;
}

size_t fth_tpch_format(const struct fth_tpch *tpch, enum fth_tpch_table table,
		       const union fth_tpch_row *row, char line[FTH_TPCH_LINE_MAX])
{
	unsigned count;
	const struct fth_tpch_column *column = fth_tpch_columns(table, &count);
	char *out = line;

	for (unsigned i = 0; i < count; i++, column++) {
		const char *value = (const char *)row + column->offset;

		if (column->width) {
			const struct fth_tpch_text *text = (const void *)value;

			memcpy(out, text->data, text->length);
			out += text->length;
		} else {
			out = put_number(out, tpch, column, *(const int64_t *)(const void *)value);
		}
		*out++ = '|';
	}
	out[-1] = '\n';
	return (size_t)(out - line);
}
