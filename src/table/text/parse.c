/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/text/parse.h"

#include "base/utf8.h"
#include "scalar/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- memory ---- */

static bool is_number(const struct parse_column *column)
{
	return column->column->type == FTH_TABLE_INT32 || column->column->type == FTH_TABLE_INT64 ||
	       (column->column->type == FTH_TABLE_DECIMAL && column->kind == FTH_TABLE_KIND_INT);
}

int text_parser_init(struct parser *p, const struct fth_table_schema *schema,
		     const struct fth_table_text *text)
{
	*p = (struct parser){.schema = schema, .text = text};
	p->null_length = text->null ? strlen(text->null) : 0;
	p->ends[(unsigned char)text->delimiter] = p->ends['\n'] = p->ends['\r'] = true;
	p->column = calloc(schema->columns, sizeof(*p->column));
	p->vector = calloc(schema->columns, sizeof(*p->vector));
	p->order = calloc(schema->columns, sizeof(*p->order));
	if (!p->column || !p->vector || !p->order) {
		text_parser_release(p);
		return -ENOMEM;
	}
	p->fields = schema->columns;
	for (uint32_t c = 0; c < schema->columns; c++) {
		p->order[c] = c;
		p->column[c].column = &schema->column[c];
		p->column[c].kind = fth_table_kind(&schema->column[c]);
		p->column[c].limits = value_limits(&schema->column[c]);
		/* The text of a null is looked for first, unless no number can be taken for it. */
		p->column[c].number = is_number(&p->column[c]) && p->null_length == 0;
	}
	return 0;
}

static void release_column(struct parse_column *column)
{
	free(column->values);
	free(column->offsets);
	free(column->bytes);
	free(column->nulls);
}

void text_parser_release(struct parser *p)
{
	for (uint32_t c = 0; p->column && c < p->schema->columns; c++)
		release_column(&p->column[c]);
	free(p->column);
	free(p->vector);
	free(p->order);
	free(p->scratch);
	*p = (struct parser){0};
}

static int reserve_column(struct parse_column *column, uint32_t rows, size_t length)
{
	size_t size = column->kind == FTH_TABLE_KIND_WIDE ? sizeof(struct fth_table_wide) : 8;

	free(column->nulls);
	column->nulls = malloc(rows);
	if (column->kind == FTH_TABLE_KIND_STRING) {
		free(column->offsets);
		free(column->bytes);
		column->offsets = malloc(((size_t)rows + 1) * sizeof(uint32_t));
		column->bytes = malloc(length + 1);
		return column->nulls && column->offsets && column->bytes ? 0 : -ENOMEM;
	}
	free(column->values);
	column->values = malloc(rows * size);
	return column->nulls && column->values ? 0 : -ENOMEM;
}

/* Room for `rows` rows of `length` bytes. The text of a column is never longer than all of it. */
static int reserve(struct parser *p, uint32_t rows, size_t length)
{
	int rc = 0;

	if (rows > p->row_room || length > p->text_room) {
		p->row_room = rows > p->row_room ? rows + rows / 8 : p->row_room;
		p->text_room = length > p->text_room ? length : p->text_room;
		for (uint32_t c = 0; rc == 0 && c < p->schema->columns; c++)
			rc = reserve_column(&p->column[c], p->row_room, p->text_room);
		free(p->scratch);
		p->scratch = malloc(p->text_room + 1);
		if (rc < 0 || !p->scratch) {
			p->row_room = 0;
			return -ENOMEM;
		}
	}
	for (uint32_t c = 0; c < p->schema->columns; c++) {
		p->column[c].used = 0;
		p->column[c].any_nulls = false;
		if (p->column[c].offsets)
			p->column[c].offsets[0] = 0;
	}
	return 0;
}

void text_parser_fields(struct parser *p, const uint32_t *order, uint32_t fields)
{
	memcpy(p->order, order, fields * sizeof(*order));
	p->fields = fields;
}

/* ---- fields ---- */

#define SHORT_TEXT 64u

/* A field without quotes: [at, end). *next is the character that ended it. */
struct field {
	const char *at, *end, *next;
	bool quoted;
};

/* At most 60 bytes of a field for a message, on one line and in whole characters. */
static const char *shorten(const struct field *f, char out[SHORT_TEXT])
{
	size_t n = (size_t)(f->end - f->at), at = 0;

	while (at < n && at + utf8_length(f->at + at, n - at) <= 60)
		at += utf8_length(f->at + at, n - at);
	for (size_t i = 0; i < at; i++)
		out[i] = (unsigned char)f->at[i] < 0x20 || f->at[i] == 0x7f ? '?' : f->at[i];
	snprintf(out + at, SHORT_TEXT - at, "%s", at < n ? "..." : "");
	return out;
}

static int complain(struct parser *p, const struct parse_column *column, const char *what)
{
	snprintf(p->error, sizeof(p->error), "%s: %s", column->column->name, what);
	return -EINVAL;
}

/* 0 if the field is text. */
static int check_text(struct parser *p, const struct parse_column *column, const struct field *f)
{
	size_t n = (size_t)(f->end - f->at);
	char text[UTF8_COMPLAINT];

	if (utf8_text(f->at, n) == n)
		return 0;
	return complain(p, column, utf8_complaint(f->at, n, text));
}

static int bad_field(struct parser *p, const struct parse_column *column, const struct field *f,
		     const char *what)
{
	char type[FTH_TABLE_TYPE_TEXT], text[SHORT_TEXT];
	int rc = check_text(p, column, f);

	if (rc < 0)
		return rc;
	snprintf(p->error, sizeof(p->error), "%s: \"%s\" %s %s", column->column->name,
		 shorten(f, text), what, fth_table_type_text(column->column, type));
	return -EINVAL;
}

/* A field that begins with a quote, into p->scratch if it has quotes inside. */
static int quoted_field(struct parser *p, const struct parse_column *column, const char *at,
			const char *limit, struct field *f)
{
	char quote = p->text->quote, *to = p->scratch;
	const char *from = ++at;
	bool doubled = false;

	for (;;) {
		const char *end = memchr(at, quote, (size_t)(limit - at));

		if (!end)
			return complain(p, column, "unterminated quoted field");
		if (end + 1 < limit && end[1] == quote) {
			memcpy(to, from, (size_t)(end + 1 - from));
			to += end + 1 - from;
			at = from = end + 2;
			doubled = true;
			continue;
		}
		memcpy(to, from, doubled ? (size_t)(end - from) : 0);
		to += doubled ? end - from : 0;
		*f = doubled ? (struct field){p->scratch, to, end + 1, true}
			     : (struct field){from, end, end + 1, true};
		if (!p->ends[(unsigned char)*f->next])
			return complain(p, column, "unexpected text after a quoted field");
		return 0;
	}
}

static int find_field(struct parser *p, const struct parse_column *column, const char *at,
		      const char *limit, struct field *f)
{
	const char *end = at;

	if (p->text->quote && *at == p->text->quote && at < limit)
		return quoted_field(p, column, at, limit, f);
	while (!p->ends[(unsigned char)*end] || (*end == '\r' && end[1] != '\n'))
		end++;
	if (p->text->quote && memchr(at, p->text->quote, (size_t)(end - at)))
		return complain(p, column, "a quote inside an unquoted field");
	*f = (struct field){at, end, end, false};
	return 0;
}

/* ---- values ---- */

static bool is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

/* Digits, at most 38 of them; false if there are none or more. */
static bool take_digits(const char **at, const char *end, fth_u128 *value, unsigned *digits)
{
	const char *from = *at;
	uint64_t low = 0;

	while (*at < end && is_digit(**at) && *at - from < 18)
		low = low * 10 + (uint64_t)(*(*at)++ - '0');
	*value = low;
	*digits = (unsigned)(*at - from);
	while (*at < end && is_digit(**at)) {
		/* Zeroes in front count for nothing. */
		*digits = *value ? *digits + 1 : 1;
		if (*digits > 38)
			return false;
		*value = *value * 10 + (unsigned)(*(*at)++ - '0');
	}
	return true;
}

/* [+-]digits[.digits], scaled. NULL, or what is wrong with it. */
static const char *parse_decimal(const struct field *f, unsigned scale, fth_u128 *value,
				 bool *negative)
{
	const char *at = f->at;
	unsigned digits, behind = 0;

	*negative = at < f->end && *at == '-';
	at += at < f->end && (*at == '-' || *at == '+');
	if (at == f->end || (!is_digit(*at) && *at != '.'))
		return "is not a valid";
	if (!take_digits(&at, f->end, value, &digits))
		return "is out of range for";
	if (at < f->end && *at == '.') {
		at++;
		if (digits == 0 && (at == f->end || !is_digit(*at)))
			return "is not a valid";
		for (; at < f->end && is_digit(*at); at++) {
			if (behind == scale) {
				if (*at != '0')
					return "has too many digits after the decimal point for";
				continue;
			}
			if (*value > ~(fth_u128)0 / 10 - 10)
				return "is out of range for";
			*value = *value * 10 + (unsigned)(*at - '0');
			behind++;
		}
	}
	for (; behind < scale; behind++) {
		if (*value > ~(fth_u128)0 / 10)
			return "is out of range for";
		*value *= 10;
	}
	return at == f->end ? NULL : "is not a valid";
}

static int parse_int(struct parser *p, struct parse_column *column, const struct field *f,
		     int64_t *out)
{
	fth_u128 value;
	bool negative;
	const char *fault = parse_decimal(f, column->column->scale, &value, &negative);
	int64_t result;

	if (fault)
		return bad_field(p, column, f, fault);
	if (value > (fth_u128)INT64_MAX + negative)
		return bad_field(p, column, f, "is out of range for");
	result = negative ? (int64_t)(0 - (uint64_t)value) : (int64_t)value;
	if (result < column->limits.min || result > column->limits.max)
		return bad_field(p, column, f, "is out of range for");
	*out = result;
	return 0;
}

static int parse_wide(struct parser *p, struct parse_column *column, const struct field *f,
		      struct fth_table_wide *out)
{
	fth_u128 value;
	bool negative;
	const char *fault = parse_decimal(f, column->column->scale, &value, &negative);

	if (fault)
		return bad_field(p, column, f, fault);
	if (negative)
		value = -value;
	*out = (struct fth_table_wide){(uint64_t)value, (int64_t)(uint64_t)(value >> 64)};
	/* Of a number above 2^127 the sign would be wrong. */
	if ((out->high < 0) != (negative && value != 0) ||
	    !value_wide_fits(out, column->column->precision))
		return bad_field(p, column, f, "is out of range for");
	return 0;
}

static int parse_date(struct parser *p, struct parse_column *column, const struct field *f,
		      int64_t *out)
{
	const char *s = f->at;
	int32_t days;

	if (f->end - s == 10 && s[4] == '-' && s[7] == '-' && is_digit(s[0]) && is_digit(s[1]) &&
	    is_digit(s[2]) && is_digit(s[3]) && is_digit(s[5]) && is_digit(s[6]) &&
	    is_digit(s[8]) && is_digit(s[9]) &&
	    fth_table_date_days((unsigned)((s[0] - '0') * 1000 + (s[1] - '0') * 100 +
					   (s[2] - '0') * 10 + (s[3] - '0')),
				(unsigned)((s[5] - '0') * 10 + (s[6] - '0')),
				(unsigned)((s[8] - '0') * 10 + (s[9] - '0')), &days) == 0) {
		*out = days;
		return 0;
	}
	return bad_field(p, column, f, "is not a valid");
}

static int parse_bool(struct parser *p, struct parse_column *column, const struct field *f,
		      int64_t *out)
{
	static const char *const words[] = {"false", "true", "f",   "t",   "0",
					    "1",     "no",   "yes", "off", "on"};
	size_t n = (size_t)(f->end - f->at);

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strlen(words[i]) == n && strncasecmp(f->at, words[i], n) == 0) {
			*out = i % 2;
			return 0;
		}
	}
	return bad_field(p, column, f, "is not a valid");
}

static int parse_double(struct parser *p, struct parse_column *column, const struct field *f,
			double *out)
{
	char copy[400], *end;
	size_t n = (size_t)(f->end - f->at);

	if (n == 0 || n >= sizeof(copy) || isspace((unsigned char)*f->at))
		return bad_field(p, column, f, "is not a valid");
	memcpy(copy, f->at, n);
	copy[n] = 0;
	*out = strtod(copy, &end);
	return end == copy + n ? 0 : bad_field(p, column, f, "is not a valid");
}

static int take_string(struct parser *p, struct parse_column *column, const struct field *f)
{
	size_t n = (size_t)(f->end - f->at);
	uint32_t limit = column->column->length;
	int rc;

	while (column->column->type == FTH_TABLE_CHAR && n && f->at[n - 1] == ' ')
		n--;
	if (n > FTH_TABLE_STRING_MAX ||
	    (limit && n > limit && fth_str_chars((struct fth_str){f->at, (uint32_t)n, 0}) > limit))
		return bad_field(p, column, f, "is too long for");
	rc = check_text(p, column, f);
	if (rc < 0)
		return rc;
	memcpy(column->bytes + column->used, f->at, n);
	column->used += (uint32_t)n;
	return 0;
}

static int take_value(struct parser *p, struct parse_column *column, const struct field *f)
{
	int64_t *ints = column->values;

	switch (column->column->type) {
	case FTH_TABLE_BOOL:
		return parse_bool(p, column, f, &ints[p->rows]);
	case FTH_TABLE_DATE:
		return parse_date(p, column, f, &ints[p->rows]);
	case FTH_TABLE_DOUBLE:
		return parse_double(p, column, f, (double *)column->values + p->rows);
	case FTH_TABLE_CHAR:
	case FTH_TABLE_VARCHAR:
		return take_string(p, column, f);
	default:
		break;
	}
	if (column->kind == FTH_TABLE_KIND_WIDE)
		return parse_wide(p, column, f, (struct fth_table_wide *)column->values + p->rows);
	return parse_int(p, column, f, &ints[p->rows]);
}

/* ---- nulls ---- */

static bool is_null(const struct parser *p, const struct field *f)
{
	return p->text->null && !f->quoted && (size_t)(f->end - f->at) == p->null_length &&
	       memcmp(f->at, p->text->null, p->null_length) == 0;
}

static int take_null(struct parser *p, struct parse_column *column)
{
	if (column->column->not_null)
		return complain(p, column, "null in a NOT NULL column");
	if (!column->any_nulls)
		memset(column->nulls, 0, p->rows);
	column->any_nulls = true;
	column->nulls[p->rows] = 1;
	if (column->kind == FTH_TABLE_KIND_WIDE)
		((struct fth_table_wide *)column->values)[p->rows] = (struct fth_table_wide){0};
	else if (column->kind != FTH_TABLE_KIND_STRING)
		((int64_t *)column->values)[p->rows] = 0;
	return 0;
}

/* ---- lines ---- */

/*
 * A short number without a quote, which is most of what there is: NULL if it is anything else. It
 * has at most 18 digits, and ends as a field does.
 */
static const char *quick_number(const struct parser *p, const struct parse_column *column,
				const char *at, int64_t *out)
{
	unsigned scale = column->column->scale;
	bool negative = *at == '-';
	const char *from = at += negative;
	int64_t value = 0;

	while (is_digit(*at))
		value = (int64_t)((uint64_t)value * 10 + (uint64_t)(*at++ - '0'));
	if (at == from)
		return NULL;
	if (*at == '.' && scale) {
		const char *point = at++;

		while (is_digit(*at))
			value = (int64_t)((uint64_t)value * 10 + (uint64_t)(*at++ - '0'));
		if (at - point - 1 != (ptrdiff_t)scale)
			return NULL;
	} else if (scale) {
		return NULL;
	}
	if (at - from > 18 || !p->ends[(unsigned char)*at])
		return NULL;
	value = negative ? -value : value;
	if (value < column->limits.min || value > column->limits.max)
		return NULL;
	*out = value;
	return at;
}

static int any_field(struct parser *p, struct parse_column *column, const char *at,
		     const char *limit, const char **next)
{
	struct field f;
	int rc = find_field(p, column, at, limit, &f);

	if (rc < 0)
		return rc;
	*next = f.next;
	if (is_null(p, &f))
		return take_null(p, column);
	if (column->any_nulls)
		column->nulls[p->rows] = 0;
	return take_value(p, column, &f);
}

static int wrong_count(struct parser *p, const char *what, uint32_t n)
{
	snprintf(p->error, sizeof(p->error), "%s%u fields, expected %u", what, n, p->fields);
	return -EINVAL;
}

static bool at_line_end(const char *at)
{
	return *at == '\n' || (*at == '\r' && at[1] == '\n');
}

/* One row; *at moves to the newline that ends it. */
static int parse_row(struct parser *p, const char **at, const char *limit)
{
	uint32_t fields = p->fields;
	char delimiter = p->text->delimiter;

	for (uint32_t i = 0; i < fields; i++) {
		struct parse_column *column = &p->column[p->order[i]];
		const char *next = NULL;
		int rc;

		if (column->number) {
			next = quick_number(p, column, *at, (int64_t *)column->values + p->rows);
			if (next && column->any_nulls)
				column->nulls[p->rows] = 0;
		}
		if (!next && (rc = any_field(p, column, *at, limit, &next)) < 0)
			return rc;
		if (column->offsets)
			column->offsets[p->rows + 1] = column->used;
		*at = next;
		if (i + 1 == fields)
			break;
		if (**at != delimiter)
			return wrong_count(p, "", i + 1);
		(*at)++;
	}
	/* A delimiter at the end is allowed. */
	if (**at == delimiter && at_line_end(*at + 1))
		(*at)++;
	if (!at_line_end(*at))
		return wrong_count(p, "more than ", fields);
	*at += **at == '\r';
	return 0;
}

static uint32_t count_lines(const char *text, size_t length)
{
	uint32_t n = 0;

	for (size_t i = 0; i < length; i++)
		n += text[i] == '\n';
	return n;
}

/* Columns that no field belongs to. */
static void fill_absent(struct parser *p)
{
	bool present[FTH_TABLE_COLUMNS_MAX] = {false};
	size_t size;

	for (uint32_t i = 0; i < p->fields; i++)
		present[p->order[i]] = true;
	for (uint32_t c = 0; c < p->schema->columns; c++) {
		struct parse_column *column = &p->column[c];

		if (present[c])
			continue;
		size = column->kind == FTH_TABLE_KIND_WIDE ? sizeof(struct fth_table_wide) : 8;
		column->any_nulls = true;
		memset(column->nulls, 1, p->rows);
		if (column->offsets)
			memset(column->offsets, 0, ((size_t)p->rows + 1) * sizeof(uint32_t));
		else
			memset(column->values, 0, p->rows * size);
	}
}

static void set_vectors(struct parser *p)
{
	for (uint32_t c = 0; c < p->schema->columns; c++) {
		const struct parse_column *column = &p->column[c];

		p->vector[c] = (struct fth_table_vector){
			.values = column->values,
			.offsets = column->offsets,
			.bytes = column->bytes,
			.nulls = column->any_nulls ? column->nulls : NULL,
		};
	}
}

int text_parser_run(struct parser *p, const char *text, size_t length)
{
	const char *at = text, *limit = text + length;
	int rc = reserve(p, count_lines(text, length) + 1, length);

	p->rows = 0;
	p->lines = 0;
	while (rc == 0 && at < limit) {
		const char *line = at;

		if (at_line_end(at) && p->fields > 1) {
			at += 1 + (*at == '\r');
			p->lines++;
			continue;
		}
		rc = parse_row(p, &at, limit);
		if (rc < 0)
			return rc;
		p->rows++;
		at++;
		/* A quoted field may have newlines. */
		p->lines += p->text->quote ? count_lines(line, (size_t)(at - line)) : 1;
	}
	if (p->fields < p->schema->columns)
		fill_absent(p);
	set_vectors(p);
	return rc;
}

/* ---- headers ---- */

static int bad_header(struct parser *p, const char *format, const char *name)
{
	snprintf(p->error, sizeof(p->error), format, name);
	return -EINVAL;
}

/* The column that a field of a header names. */
static int find_column(struct parser *p, const struct field *f, const bool *named, uint32_t *out)
{
	size_t n = (size_t)(f->end - f->at);
	char text[SHORT_TEXT], bad[UTF8_COMPLAINT], name[FTH_TABLE_NAME_MAX + 1];
	uint32_t column;

	if (utf8_text(f->at, n) < n)
		return bad_header(p, "the header has an %s", utf8_complaint(f->at, n, bad));
	if (n == 0)
		return bad_header(p, "a field of the header has no name%s", "");
	snprintf(name, sizeof(name), "%.*s", (int)n, f->at);
	column = n < sizeof(name) ? fth_table_schema_find(p->schema, name) : FTH_TABLE_NO_COLUMN;
	if (column == FTH_TABLE_NO_COLUMN)
		return bad_header(p, "the header names \"%s\", which is no column of the table",
				  shorten(f, text));
	if (named[column])
		return bad_header(p, "the header names column %s twice", name);
	*out = column;
	return 0;
}

static int check_absent(struct parser *p, const bool *named)
{
	for (uint32_t c = 0; c < p->schema->columns; c++)
		if (!named[c] && p->schema->column[c].not_null)
			return bad_header(p, "the header lacks column %s, which is NOT NULL",
					  p->schema->column[c].name);
	return 0;
}

int text_parser_header(struct parser *p, const char *text, size_t length, uint32_t *order,
		       uint32_t *fields)
{
	static const struct fth_table_column header = {.name = "header"};
	const struct parse_column of_header = {.column = &header};
	const char *at = text, *limit = text + length;
	bool named[FTH_TABLE_COLUMNS_MAX] = {false};
	struct field f;
	int rc = reserve(p, 1, length);

	*fields = 0;
	while (rc == 0) {
		rc = find_field(p, &of_header, at, limit, &f);
		/* A delimiter at the end is allowed. */
		if (rc == 0 && *fields && !f.quoted && f.at == f.end && at_line_end(f.next))
			break;
		if (rc == 0)
			rc = find_column(p, &f, named, &order[*fields]);
		if (rc < 0)
			break;
		named[order[(*fields)++]] = true;
		if (*f.next != p->text->delimiter)
			break;
		at = f.next + 1;
	}
	if (rc == 0 && !at_line_end(f.next))
		rc = complain(p, &of_header, "unexpected text after a quoted field");
	return rc < 0 ? rc : check_absent(p, named);
}

/* ---- records ---- */

size_t parse_whole(const struct fth_table_text *text, const char *bytes, size_t length)
{
	const char *end;
	size_t whole = 0;
	bool inside = false;

	if (!text->quote || !memchr(bytes, text->quote, length)) {
		end = memrchr(bytes, '\n', length);
		return end ? (size_t)(end - bytes) + 1 : 0;
	}
	for (size_t i = 0; i < length; i++) {
		inside ^= bytes[i] == text->quote;
		if (bytes[i] == '\n' && !inside)
			whole = i + 1;
	}
	return whole;
}
