/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/copy_rows.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_MAX (256u << 20) /* bytes of one row */

static int drain(void *user, const char *bytes, size_t n)
{
	struct pg_copy_rows *r = user;

	return n == 0 ? 0 : r->feed(r->user, bytes, n);
}

void pg_copy_rows_init(struct pg_copy_rows *r, const struct pg_copy_out *how,
		       const struct pg_column *columns, unsigned count,
		       int (*feed)(void *user, const char *bytes, size_t n), void *user)
{
	*r = (struct pg_copy_rows){
		.how = how, .columns = columns, .column_count = count, .feed = feed, .user = user};
	pg_wire_init(&r->out, -1, 0);
	r->out.drain = drain;
	r->out.user = r;
}

void pg_copy_rows_release(struct pg_copy_rows *r)
{
	pg_wire_release(&r->out);
	free(r->in);
}

static int wrong(struct pg_copy_rows *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int wrong(struct pg_copy_rows *r, const char *format, ...)
{
	va_list args;
	int n = snprintf(r->error, sizeof(r->error),
			 "COPY, line %llu: ", (unsigned long long)r->row + 1);

	va_start(args, format);
	vsnprintf(r->error + n, sizeof(r->error) - (size_t)n, format, args);
	va_end(args);
	return -EINVAL;
}

static int flush_rows(struct pg_copy_rows *r)
{
	return r->out.out_length >= PG_OUTPUT_FLUSH ? pg_flush(&r->out) : r->out.failed;
}

static void put_quoted(struct pg_copy_rows *r, const char *text, size_t n, char quote)
{
	pg_put_u8(&r->out, (uint8_t)quote);
	for (size_t i = 0; i < n; i++) {
		if (text[i] == quote)
			pg_put_u8(&r->out, (uint8_t)quote);
		pg_put_u8(&r->out, (uint8_t)text[i]);
	}
	pg_put_u8(&r->out, (uint8_t)quote);
}

int pg_copy_rows_begin(struct pg_copy_rows *r)
{
	bool csv = r->how->format == PG_COPY_CSV;

	for (unsigned i = 0; i < r->column_count; i++) {
		if (i > 0)
			pg_put_u8(&r->out, (uint8_t)(csv ? r->how->delimiter : ','));
		put_quoted(r, r->columns[i].name, strlen(r->columns[i].name),
			   csv ? r->how->quote : '"');
	}
	pg_put_u8(&r->out, '\n');
	return flush_rows(r);
}

/* ---- text ---- */

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo the escapes of a field in place. Returns its new length. */
static size_t unescape(char *text, size_t n)
{
	static const char from[] = "bfnrtv", to[] = "\b\f\n\r\t\v";
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const char *special;

		if (text[i] != '\\' || i + 1 == n) {
			text[at++] = text[i];
			continue;
		}
		i++;
		special = text[i] ? strchr(from, text[i]) : NULL;
		if (special) {
			text[at++] = to[special - from];
		} else if (text[i] == 'x' && i + 1 < n && hex(text[i + 1]) >= 0) {
			int value = hex(text[++i]);

			if (i + 1 < n && hex(text[i + 1]) >= 0)
				value = value * 16 + hex(text[++i]);
			text[at++] = (char)value;
		} else if (text[i] >= '0' && text[i] <= '7') {
			int value = text[i] - '0';

			for (int k = 0;
			     k < 2 && i + 1 < n && text[i + 1] >= '0' && text[i + 1] <= '7'; k++)
				value = value * 8 + (text[++i] - '0');
			text[at++] = (char)value;
		} else {
			text[at++] = text[i];
		}
	}
	return at;
}

/* A line without its end, as CSV. */
static int text_row(struct pg_copy_rows *r, char *line, size_t n)
{
	size_t null = strlen(r->how->null), at = 0;
	unsigned fields = 0;

	for (;;) {
		size_t from = at, length;

		while (at < n && line[at] != r->how->delimiter)
			at += line[at] == '\\' && at + 1 < n ? 2 : 1;
		length = at - from;
		if (fields++ > 0)
			pg_put_u8(&r->out, ',');
		if (fields > r->column_count)
			return wrong(r, "extra data after last expected column");
		if (length != null || memcmp(line + from, r->how->null, null) != 0)
			put_quoted(r, line + from, unescape(line + from, length), '"');
		if (at >= n)
			break;
		at++;
	}
	if (fields < r->column_count)
		return wrong(r, "missing data for column \"%s\"", r->columns[fields].name);
	pg_put_u8(&r->out, '\n');
	r->row++;
	return flush_rows(r);
}

/* The length of the first line with its end; 0: it is not complete. Escaped newlines are data. */
static size_t line_length(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\\')
			i++;
		else if (text[i] == '\n')
			return i + 1;
	}
	return 0;
}

static int text_rows(struct pg_copy_rows *r, size_t *used, bool last)
{
	int rc = 0;

	while (rc == 0 && *used < r->in_length && !r->ended) {
		char *line = r->in + *used;
		size_t left = r->in_length - *used, length = line_length(line, left), n;

		if (length == 0 && !last)
			return 0;
		n = length == 0 ? left : length - 1;
		if (n > 0 && line[n - 1] == '\r')
			n--;
		if (n == 2 && memcmp(line, "\\.", 2) == 0)
			r->ended = true;
		else if (r->how->header && !r->started)
			r->started = true;
		else
			rc = text_row(r, line, n);
		*used += length == 0 ? left : length;
	}
	if (r->ended)
		*used = r->in_length;
	return rc;
}

/* ---- CSV: passed on as it is, without the client's header ---- */

static int csv_rows(struct pg_copy_rows *r, size_t *used)
{
	size_t from = 0;

	if (r->how->header && !r->started) {
		for (size_t i = 0; i < r->in_length && !r->started; i++) {
			r->quoted ^= r->in[i] == r->how->quote;
			if (r->in[i] == '\n' && !r->quoted) {
				r->started = true;
				from = i + 1;
			}
		}
		if (!r->started) {
			r->quoted = false; /* looked at again with the next bytes */
			return 0;
		}
	}
	pg_put_bytes(&r->out, r->in + from, r->in_length - from);
	*used = r->in_length;
	return flush_rows(r);
}

/* ---- binary ---- */

/* One row; *used grows by its bytes, or not if it is not complete. */
static int binary_row(struct pg_copy_rows *r, size_t *used)
{
	const char *at = r->in + *used, *end = r->in + r->in_length;
	unsigned count;

	if (end - at < 2)
		return 0;
	count = pg_be16(at);
	at += 2;
	if (count == 0xffff) {
		r->ended = true;
		*used = r->in_length;
		return 0;
	}
	if (count != r->column_count)
		return wrong(r, "row field count is %u, expected %u", count, r->column_count);
	/* Whole? */
	for (unsigned i = 0; i < count; i++) {
		int32_t n = end - at < 4 ? 0 : (int32_t)pg_be32(at);

		if (end - at < 4 || (n > 0 && end - at - 4 < n))
			return 0;
		at += 4 + (n > 0 ? n : 0);
	}
	at = r->in + *used + 2;
	for (unsigned i = 0; i < count; i++) {
		int32_t n = (int32_t)pg_be32(at);
		char *text;

		at += 4;
		if (i > 0)
			pg_put_u8(&r->out, ',');
		if (n < 0)
			continue;
		if (pg_value_in(r->columns[i].oid, true, at, (size_t)n, &text) < 0)
			return wrong(r, "column \"%s\": incorrect binary data format",
				     r->columns[i].name);
		put_quoted(r, text, strlen(text), '"');
		free(text);
		at += n;
	}
	pg_put_u8(&r->out, '\n');
	r->row++;
	*used = (size_t)(at - r->in);
	return flush_rows(r);
}

static int binary_rows(struct pg_copy_rows *r, size_t *used)
{
	static const char signature[11] = "PGCOPY\n\377\r\n";
	size_t before;
	int rc;

	if (!r->started) {
		size_t extension;

		if (r->in_length < 19)
			return 0;
		if (memcmp(r->in, signature, 11) != 0)
			return wrong(r, "COPY file signature not recognized");
		extension = pg_be32(r->in + 15);
		if (extension > 65536)
			return wrong(r, "invalid COPY file header");
		if (r->in_length < 19 + extension)
			return 0;
		r->started = true;
		*used = 19 + extension;
	}
	do {
		before = *used;
		rc = r->ended ? 0 : binary_row(r, used);
	} while (rc == 0 && *used > before);
	return rc;
}

/* ---- all ---- */

static int take_rows(struct pg_copy_rows *r, bool last)
{
	size_t used = 0;
	int rc;

	if (r->how->format == PG_COPY_CSV)
		rc = csv_rows(r, &used);
	else if (r->how->format == PG_COPY_BINARY)
		rc = binary_rows(r, &used);
	else
		rc = text_rows(r, &used, last);
	if (used > 0)
		memmove(r->in, r->in + used, r->in_length - used);
	r->in_length -= used;
	return rc;
}

int pg_copy_rows_add(struct pg_copy_rows *r, const char *bytes, size_t n)
{
	size_t room = r->in_room ? r->in_room : 65536;

	if (r->ended)
		return 0;
	if (r->in_length + n > ROW_MAX)
		return wrong(r, "a row has more than %u bytes", ROW_MAX);
	while (room < r->in_length + n)
		room *= 2;
	if (room != r->in_room) {
		char *in = realloc(r->in, room);

		if (!in)
			return -ENOMEM;
		r->in = in;
		r->in_room = room;
	}
	memcpy(r->in + r->in_length, bytes, n);
	r->in_length += n;
	return take_rows(r, false);
}

int pg_copy_rows_end(struct pg_copy_rows *r)
{
	int rc = r->in_length > 0 ? take_rows(r, true) : 0;

	if (rc == 0 && r->how->format == PG_COPY_BINARY && (r->in_length > 0 || !r->started))
		return wrong(r, "unexpected end of the binary data");
	return rc < 0 ? rc : pg_flush(&r->out);
}
