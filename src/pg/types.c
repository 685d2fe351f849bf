/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/types.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t pg_type_of(const struct fth_query_column *c, int32_t *typmod)
{
	*typmod = -1;
	switch (c->type) {
	case FTH_TABLE_BOOL:
		return PG_BOOL;
	case FTH_TABLE_INT32:
		return PG_INT4;
	case FTH_TABLE_INT64:
		return PG_INT8;
	case FTH_TABLE_DATE:
		return PG_DATE;
	case FTH_TABLE_DOUBLE:
		return PG_FLOAT8;
	case FTH_TABLE_DECIMAL:
		/* The 38 digits of an expression are our limit, no property of its type. */
		if (c->precision > 0 && c->precision < 38)
			*typmod = (int32_t)((c->precision << 16 | c->scale) + 4);
		return PG_NUMERIC;
	case FTH_TABLE_CHAR:
		if (c->length > 0)
			*typmod = (int32_t)c->length + 4;
		return PG_BPCHAR;
	default:
		if (c->length == 0)
			return PG_TEXT;
		*typmod = (int32_t)c->length + 4;
		return PG_VARCHAR;
	}
}

int pg_type_size(uint32_t oid)
{
	switch (oid) {
	case PG_BOOL:
	case PG_CHAR:
		return 1;
	case PG_INT2:
		return 2;
	case PG_INT4:
	case PG_OID:
	case PG_XID:
	case PG_FLOAT4:
	case PG_DATE:
	case PG_REGPROC:
	case PG_REGCLASS:
	case PG_REGTYPE:
	case PG_REGNAMESPACE:
	case PG_VOID:
		return 4;
	case PG_INT8:
	case PG_FLOAT8:
	case PG_TIMESTAMP:
	case PG_TIMESTAMPTZ:
		return 8;
	case PG_INTERVAL:
		return 16;
	case PG_NAME:
		return 64;
	default:
		return -1;
	}
}

enum fth_table_type pg_parameter_type(uint32_t oid)
{
	switch (oid) {
	case PG_BOOL:
		return FTH_TABLE_BOOL;
	case PG_INT2:
	case PG_INT4:
		return FTH_TABLE_INT32;
	case PG_INT8:
	case PG_OID:
		return FTH_TABLE_INT64;
	case PG_FLOAT4:
	case PG_FLOAT8:
		return FTH_TABLE_DOUBLE;
	case PG_NUMERIC:
		return FTH_TABLE_DECIMAL;
	case PG_DATE:
		return FTH_TABLE_DATE;
	case PG_TEXT:
	case PG_NAME:
		return FTH_TABLE_VARCHAR;
	default:
		/* varchar is what drivers say of any string: its use decides, as for a literal */
		return 0;
	}
}

uint32_t pg_parameter_oid(enum fth_table_type type)
{
	struct fth_query_column column = {.type = type};
	int32_t typmod;

	if (type == 0 || type == FTH_TABLE_CHAR)
		return PG_TEXT;
	return pg_type_of(&column, &typmod);
}

uint32_t pg_element_type(uint32_t oid)
{
	switch (oid) {
	case PG_CHAR_ARRAY:
		return PG_CHAR;
	case PG_NAME_ARRAY:
		return PG_NAME;
	case PG_INT2VECTOR:
	case PG_INT2_ARRAY:
		return PG_INT2;
	case PG_INT4_ARRAY:
		return PG_INT4;
	case PG_INT8_ARRAY:
		return PG_INT8;
	case PG_TEXT_ARRAY:
	case PG_ACLITEM_ARRAY:
		return PG_TEXT;
	case PG_VARCHAR_ARRAY:
		return PG_VARCHAR;
	case PG_OIDVECTOR:
	case PG_OID_ARRAY:
		return PG_OID;
	default:
		return 0;
	}
}

/* ---- values of clients ---- */

static char *format_text(const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

static char *date_text(int64_t days)
{
	unsigned year, month, day;

	if (days < -1000000 || days > 10000000)
		return NULL;
	fth_table_date_split((int32_t)days, &year, &month, &day);
	return format_text("%04u-%02u-%02u", year, month, day);
}

static char *double_text(uint64_t bits, bool narrow)
{
	double value;
	float small;
	uint32_t low = (uint32_t)bits;

	if (narrow) {
		memcpy(&small, &low, sizeof(small));
		return format_text("%.9g", (double)small);
	}
	memcpy(&value, &bits, sizeof(value));
	return format_text("%.17g", value);
}

/* Microseconds since 2000-01-01; a time of day other than midnight follows the date. */
static char *timestamp_text(int64_t us)
{
	int64_t day_us = INT64_C(86400000000), days = us / day_us, rest = us % day_us;
	char *date, *text;

	if (rest < 0) {
		rest += day_us;
		days--;
	}
	date = date_text(days + PG_EPOCH_DAYS);
	if (!date || rest == 0)
		return date;
	text = format_text("%s %02d:%02d:%02d.%06d", date, (int)(rest / 3600000000),
			   (int)(rest / 60000000 % 60), (int)(rest / 1000000 % 60),
			   (int)(rest % 1000000));
	free(date);
	return text;
}

/* numeric: count of digits to base 10000, weight of the first, sign, digits after the point. */
static char *numeric_text(const char *b, size_t n)
{
	int count, weight, sign, scale;
	size_t room, at = 0;
	char *text;

	if (n < 8)
		return NULL;
	count = (int16_t)pg_be16(b);
	weight = (int16_t)pg_be16(b + 2);
	sign = pg_be16(b + 4);
	scale = pg_be16(b + 6);
	if (count < 0 || count > 1000 || weight < -1000 || weight > 1000 || scale > 1000 ||
	    n != 8 + 2 * (size_t)count || (sign != 0 && sign != 0x4000))
		return NULL;
	room = 32 + 4 * (size_t)(weight > 0 ? weight + 1 : 1) + (size_t)scale + 4;
	text = malloc(room);
	if (!text)
		return NULL;
	if (sign)
		text[at++] = '-';
	if (weight < 0)
		text[at++] = '0';
	for (int i = 0; i <= weight; i++)
		at += (size_t)snprintf(text + at, room - at, i == 0 ? "%d" : "%04d",
				       i < count ? pg_be16(b + 8 + 2 * i) % 10000 : 0);
	if (scale > 0) {
		size_t point = at;

		text[at++] = '.';
		for (int i = weight + 1; at < point + 1 + (size_t)scale; i++)
			at += (size_t)snprintf(text + at, room - at, "%04d",
					       i >= 0 && i < count ? pg_be16(b + 8 + 2 * i) % 10000
								   : 0);
		at = point + 1 + (size_t)scale;
	}
	text[at] = '\0';
	return text;
}

static int array_in(uint32_t element, const char *bytes, size_t n, char **out);

static char *binary_text(uint32_t oid, const char *b, size_t n)
{
	switch (oid) {
	case PG_BOOL:
		return n == 1 ? strdup(*b ? "t" : "f") : NULL;
	case PG_INT2:
		return n == 2 ? format_text("%d", (int16_t)pg_be16(b)) : NULL;
	case PG_INT4:
		return n == 4 ? format_text("%" PRId32, (int32_t)pg_be32(b)) : NULL;
	case PG_OID:
	case PG_XID:
	case PG_REGCLASS:
	case PG_REGTYPE:
		return n == 4 ? format_text("%" PRIu32, pg_be32(b)) : NULL;
	case PG_INT8:
		return n == 8 ? format_text("%" PRId64, (int64_t)pg_be64(b)) : NULL;
	case PG_FLOAT4:
		return n == 4 ? double_text(pg_be32(b), true) : NULL;
	case PG_FLOAT8:
		return n == 8 ? double_text(pg_be64(b), false) : NULL;
	case PG_DATE:
		return n == 4 ? date_text((int64_t)(int32_t)pg_be32(b) + PG_EPOCH_DAYS) : NULL;
	case PG_TIMESTAMP:
	case PG_TIMESTAMPTZ:
		return n == 8 ? timestamp_text((int64_t)pg_be64(b)) : NULL;
	case PG_NUMERIC:
		return numeric_text(b, n);
	default:
		return memchr(b, 0, n) ? NULL : strndup(b, n);
	}
}

/* Drivers send dates with a time zone, and midnight: 2024-02-29 00:00:00+00. */
static void cut_time(char *date)
{
	const char *rest = date + 10;

	if (strlen(date) <= 10 || strspn(date, "0123456789-") < 10)
		return;
	rest += strspn(rest, " ");
	if (strncmp(rest, "00:00:00", 8) == 0)
		rest += 8;
	rest += strspn(rest, " ");
	if (*rest == '+' || *rest == '-')
		rest += 1 + strspn(rest + 1, "0123456789:");
	if (!*rest)
		date[10] = '\0';
}

int pg_value_in(uint32_t oid, bool binary, const char *bytes, size_t n, char **out)
{
	uint32_t element = pg_element_type(oid);

	*out = NULL;
	if (binary && element)
		return array_in(element, bytes, n, out);
	if (!binary && memchr(bytes, 0, n))
		return -EINVAL;
	*out = binary ? binary_text(oid, bytes, n) : strndup(bytes, n);
	if (*out && oid == PG_DATE)
		cut_time(*out);
	return *out ? 0 : -EINVAL;
}

/* An array of one dimension, as {"a","b"}. */
static int array_in(uint32_t element, const char *b, size_t n, char **out)
{
	const char *end = b + n;
	size_t length;
	FILE *to;
	int32_t count;
	int rc = 0;

	if (n < 12 || pg_be32(b) > 1 || (pg_be32(b) == 1 && n < 20))
		return -EINVAL;
	count = pg_be32(b) == 0 ? 0 : (int32_t)pg_be32(b + 12);
	b += pg_be32(b) == 0 ? 12 : 20;
	to = open_memstream(out, &length);
	if (!to)
		return -ENOMEM;
	fputc('{', to);
	for (int32_t i = 0; i < count && rc == 0; i++) {
		int32_t size;
		char *text = NULL;

		if (end - b < 4) {
			rc = -EINVAL;
			break;
		}
		size = (int32_t)pg_be32(b);
		b += 4;
		if (i > 0)
			fputc(',', to);
		if (size < 0) {
			fputs("NULL", to);
			continue;
		}
		rc = end - b < size ? -EINVAL : pg_value_in(element, true, b, (size_t)size, &text);
		fputc('"', to);
		for (const char *c = text; c && *c; c++) {
			if (*c == '"' || *c == '\\')
				fputc('\\', to);
			fputc(*c, to);
		}
		fputc('"', to);
		free(text);
		b += size;
	}
	fputc('}', to);
	if (fclose(to) != 0 && rc == 0)
		rc = -ENOMEM;
	if (rc < 0) {
		free(*out);
		*out = NULL;
	}
	return rc;
}

/* ---- values for clients ---- */

void pg_numeric_out(struct pg_wire *w, const char *text, size_t n)
{
	int digits[40] = {0}, count = 0, whole = 0, scale = 0, weight, first = 0;
	bool negative = n > 0 && *text == '-';
	const char *from = text + negative, *end = text + n, *point;

	point = memchr(from, '.', (size_t)(end - from));
	whole = (int)((point ? point : end) - from);
	scale = point ? (int)(end - point - 1) : 0;
	weight = (whole + 3) / 4 - 1;
	/* Digit i of the whole part is at place (whole - 1 - i) from the point. */
	for (int i = 0; i < whole; i++) {
		int place = whole - 1 - i, group = weight - place / 4;

		digits[group] = digits[group] * 10 + (from[i] - '0');
	}
	count = weight + 1;
	for (int i = 0; i < scale && count < 40; i++) {
		if (i % 4 == 0)
			count++;
		digits[count - 1] = digits[count - 1] * 10 + (point[1 + i] - '0');
		if (i == scale - 1)
			for (int j = i % 4; j < 3; j++)
				digits[count - 1] *= 10;
	}
	while (count > first && digits[count - 1] == 0)
		count--;
	while (first < count && digits[first] == 0)
		first++;
	weight = count > first ? weight - first : 0;
	pg_put_i32(w, 8 + 2 * (count - first));
	pg_put_i16(w, count - first);
	pg_put_i16(w, weight);
	pg_put_i16(w, negative && count > first ? 0x4000 : 0);
	pg_put_i16(w, scale);
	for (int i = first; i < count; i++)
		pg_put_i16(w, digits[i]);
}

static void put_double(struct pg_wire *w, double value)
{
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pg_put_i32(w, 8);
	pg_put_i64(w, bits);
}

/* The next element of {a,"b"} or of a vector "1 2"; false after the last. */
static bool next_element(const char **at, const char *end, char *to, size_t room, bool *null)
{
	bool quoted = false;
	size_t n = 0;

	while (*at < end && (**at == '{' || **at == ',' || **at == ' '))
		(*at)++;
	if (*at >= end || **at == '}')
		return false;
	if (**at == '"') {
		quoted = true;
		(*at)++;
	}
	while (*at < end && (quoted ? **at != '"' : !strchr(",} ", **at))) {
		if (**at == '\\' && *at + 1 < end)
			(*at)++;
		if (n + 1 < room)
			to[n++] = **at;
		(*at)++;
	}
	if (quoted)
		(*at)++;
	to[n] = '\0';
	*null = !quoted && strcmp(to, "NULL") == 0;
	return true;
}

static void put_array(struct pg_wire *w, uint32_t oid, uint32_t element, const char *text, size_t n)
{
	const char *at = text, *end = text + n;
	int count = 0, nulls = 0, base = oid == PG_INT2VECTOR || oid == PG_OIDVECTOR ? 0 : 1;
	char *item = malloc(n + 1);
	size_t length_at = w->out_length;
	bool null;

	if (!item) {
		w->failed = -ENOMEM;
		return;
	}
	while (next_element(&at, end, item, n + 1, &null)) {
		count++;
		nulls |= null;
	}
	pg_put_i32(w, 0);
	pg_put_i32(w, count > 0);
	pg_put_i32(w, nulls);
	pg_put_i32(w, (int32_t)element);
	if (count > 0) {
		pg_put_i32(w, count);
		pg_put_i32(w, base);
	}
	at = text;
	while (next_element(&at, end, item, n + 1, &null)) {
		if (null)
			pg_put_i32(w, -1);
		else
			pg_value_out(w, element, true, item, strlen(item));
	}
	free(item);
	if (w->failed == 0) {
		uint32_t size = (uint32_t)(w->out_length - length_at - 4);

		for (int i = 0; i < 4; i++)
			w->out[length_at + (size_t)i] = (char)(size >> (24 - 8 * i));
	}
}

static void put_binary(struct pg_wire *w, uint32_t oid, const char *text, size_t n)
{
	unsigned year, month, day;
	int32_t days = 0;

	switch (oid) {
	case PG_BOOL:
		pg_put_i32(w, 1);
		pg_put_u8(w, *text == 't');
		return;
	case PG_INT2:
		pg_put_i32(w, 2);
		pg_put_i16(w, atoi(text));
		return;
	case PG_INT4:
	case PG_OID:
	case PG_XID:
		pg_put_i32(w, 4);
		pg_put_i32(w, (int32_t)strtoll(text, NULL, 10));
		return;
	case PG_INT8:
		pg_put_i32(w, 8);
		pg_put_i64(w, strtoll(text, NULL, 10));
		return;
	case PG_FLOAT8:
		put_double(w, strtod(text, NULL));
		return;
	case PG_DATE:
		if (sscanf(text, "%u-%u-%u", &year, &month, &day) == 3)
			fth_table_date_days(year, month, day, &days);
		pg_put_i32(w, 4);
		pg_put_i32(w, days - PG_EPOCH_DAYS);
		return;
	case PG_NUMERIC:
		pg_numeric_out(w, text, n);
		return;
	default:
		pg_put_i32(w, (int32_t)n);
		pg_put_bytes(w, text, n);
	}
}

void pg_value_out(struct pg_wire *w, uint32_t oid, bool binary, const char *text, size_t n)
{
	uint32_t element = pg_element_type(oid);

	if (binary && element) {
		put_array(w, oid, element, text, n);
	} else if (binary) {
		put_binary(w, oid, text, n);
	} else {
		pg_put_i32(w, (int32_t)n);
		pg_put_bytes(w, text, n);
	}
}
