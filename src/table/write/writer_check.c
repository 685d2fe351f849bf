/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/write/writer.h"

#include "table/value.h"

#include "base/utf8.h"
#include "scalar/text.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

static int bad_value(const struct fth_table_column *column, uint64_t row, const char *what)
{
	char type[FTH_TABLE_TYPE_TEXT];

	return fth_fail(EINVAL, "row %llu, column %s: %s %s", (unsigned long long)row, column->name,
			what, fth_table_type_text(column, type));
}

static int check_ints(const struct fth_table_column *column, const struct fth_table_vector *in,
		      uint32_t rows, uint64_t first)
{
	const int64_t *values = in->values;
	struct value_limits limits = value_limits(column);
	uint32_t outside = 0;

	for (uint32_t i = 0; i < rows; i++)
		outside += values[i] < limits.min || values[i] > limits.max;
	for (uint32_t i = 0; outside && i < rows; i++)
		if ((values[i] < limits.min || values[i] > limits.max) &&
		    !(in->nulls && in->nulls[i]))
			return bad_value(column, first + i, "a value is out of range for");
	return 0;
}

static int check_wides(const struct fth_table_column *column, const struct fth_table_vector *in,
		       uint32_t rows, uint64_t first)
{
	const struct fth_table_wide *values = in->values;

	for (uint32_t i = 0; i < rows; i++)
		if (!(in->nulls && in->nulls[i]) && !value_wide_fits(&values[i], column->precision))
			return bad_value(column, first + i, "a value is out of range for");
	return 0;
}

static int bad_text(const struct fth_table_column *column, uint64_t row, const char *bytes,
		    uint32_t n)
{
	char text[UTF8_COMPLAINT];

	return fth_fail(EINVAL, "row %llu, column %s: %s", (unsigned long long)row, column->name,
			utf8_complaint(bytes, n, text));
}

static int check_strings(const struct fth_table_column *column, const struct fth_table_vector *in,
			 uint32_t rows, uint64_t first)
{
	uint32_t limit = column->length ? column->length : FTH_TABLE_STRING_MAX;
	uint32_t from = rows ? in->offsets[0] : 0, to = rows ? in->offsets[rows] : 0;
	bool ascii = from == to || (from < to && utf8_ascii(in->bytes + from, to - from));

	for (uint32_t i = 0; i < rows; i++) {
		const char *bytes = in->bytes + in->offsets[i];
		uint32_t n = in->offsets[i + 1] - in->offsets[i];

		if (in->offsets[i + 1] < in->offsets[i])
			return bad_value(column, first + i, "descending offsets in a vector of");
		if (in->nulls && in->nulls[i])
			continue;
		if (!ascii && utf8_text(bytes, n) < n)
			return bad_text(column, first + i, bytes, n);
		if (n <= limit)
			continue;
		while (column->type == FTH_TABLE_CHAR && n && bytes[n - 1] == ' ')
			n--;
		if (n > FTH_TABLE_STRING_MAX ||
		    fth_str_chars((struct fth_str){bytes, n, 0}) > limit)
			return bad_value(column, first + i, "a string is too long for");
	}
	return 0;
}

static int check_column(const struct fth_table_column *column, const struct fth_table_vector *in,
			uint32_t rows, uint64_t first)
{
	if (in->nulls && column->not_null) {
		const uint8_t *null = memchr(in->nulls, 1, rows);

		for (uint32_t i = 0; !null && i < rows; i++)
			null = in->nulls[i] ? &in->nulls[i] : NULL;
		if (null)
			return bad_value(column, first + (uint64_t)(null - in->nulls),
					 "null in a NOT NULL column of type");
	}
	switch (fth_table_kind(column)) {
	case FTH_TABLE_KIND_STRING:
		return check_strings(column, in, rows, first);
	case FTH_TABLE_KIND_WIDE:
		return check_wides(column, in, rows, first);
	case FTH_TABLE_KIND_INT:
		return check_ints(column, in, rows, first);
	default:
		return 0;
	}
}

int writer_check(const struct fth_table_schema *schema, const struct fth_table_vector *columns,
		 uint32_t rows, uint64_t first)
{
	int rc = 0;

	for (uint32_t c = 0; rc == 0 && c < schema->columns; c++)
		rc = check_column(&schema->column[c], &columns[c], rows, first);
	return rc;
}
