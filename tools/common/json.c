/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strings are taken to be UTF-8 and written through; only what JSON (RFC 8259, section 7) says must
 * be escaped is. Bytes that are no UTF-8 become U+FFFD, since file names and tables may hold any.
 */
#include "json.h"

#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void fth_json_text(FILE *out, const char *text, size_t length)
{
	const char *s = text, *end = text + length;

	putc('"', out);
	while (s < end) {
		unsigned n = utf8_length(s, (size_t)(end - s));
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (c == '\t')
			fputs("\\t", out);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else if (n == 0)
			fputs("\\ufffd", out);
		else
			fwrite(s, 1, n, out);
		s += n ? n : 1;
	}
	putc('"', out);
}

static void write_string(FILE *out, const char *text)
{
	fth_json_text(out, text, strlen(text));
}

/* What stands before a value: a comma, and its key. */
static void lead(struct fth_json *j, const char *key)
{
	assert(j->depth > 0);
	assert((!key) == (j->close[j->depth - 1] == ']'));
	if (j->comma)
		putc(',', j->out);
	j->comma = true;
	if (key) {
		write_string(j->out, key);
		putc(':', j->out);
	}
}

static void open_nested(struct fth_json *j, char open, char close)
{
	assert(j->depth < FTH_JSON_NESTING_MAX);
	putc(open, j->out);
	j->close[j->depth++] = close;
	j->comma = false;
}

void fth_json_begin(struct fth_json *j, FILE *out)
{
	*j = (struct fth_json){.out = out};
	open_nested(j, '{', '}');
}

void fth_json_string(struct fth_json *j, const char *key, const char *value)
{
	lead(j, key);
	if (value)
		write_string(j->out, value);
	else
		fputs("null", j->out);
}

void fth_json_u64(struct fth_json *j, const char *key, uint64_t value)
{
	lead(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void fth_json_i64(struct fth_json *j, const char *key, int64_t value)
{
	lead(j, key);
	fprintf(j->out, "%" PRId64, value);
}

/* The shortest of the usual forms that reads back as the same number. */
static void write_double(FILE *out, double value)
{
	char text[40];

	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, out);
}

void fth_json_double(struct fth_json *j, const char *key, double value)
{
	lead(j, key);
	if (isfinite(value))
		write_double(j->out, value);
	else
		fputs("null", j->out);
}

void fth_json_digits(struct fth_json *j, const char *key, const char *digits)
{
	lead(j, key);
	fputs(digits, j->out);
}

void fth_json_bool(struct fth_json *j, const char *key, bool value)
{
	lead(j, key);
	fputs(value ? "true" : "false", j->out);
}

void fth_json_object(struct fth_json *j, const char *key)
{
	lead(j, key);
	open_nested(j, '{', '}');
}

void fth_json_array(struct fth_json *j, const char *key)
{
	lead(j, key);
	open_nested(j, '[', ']');
}

void fth_json_end(struct fth_json *j)
{
	assert(j->depth > 0);
	putc(j->close[--j->depth], j->out);
	j->comma = true;
}

void fth_json_finish(struct fth_json *j)
{
	while (j->depth > 0)
		fth_json_end(j);
	putc('\n', j->out);
	fflush(j->out);
}
