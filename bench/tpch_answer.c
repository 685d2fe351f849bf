/* SPDX-License-Identifier: BSD-2-Clause */
#include "tpch_answer.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-9

/* ---- files ---- */

struct answer {
	char *text;
	char **rows; /* into text; terminated */
	size_t count;
};

static void release_answer(struct answer *a)
{
	free(a->text);
	free(a->rows);
}

static int read_text(struct answer *a, const char *path)
{
	FILE *file = fopen(path, "re");
	size_t size = 0;
	ssize_t n;

	if (!file)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	n = getdelim(&a->text, &size, '\0', file);
	if (n < 0 && ferror(file)) {
		fclose(file);
		return fth_fail(EIO, "%s: cannot be read", path);
	}
	fclose(file);
	if (n < 0 && a->text)
		a->text[0] = '\0'; /* an empty file */
	return a->text ? 0 : -ENOMEM;
}

static int read_answer(struct answer *a, const char *path, unsigned skip)
{
	size_t lines = 1;
	char *at, *end;
	int rc = read_text(a, path);

	if (rc < 0)
		return rc;
	for (at = a->text; *at; at++)
		lines += *at == '\n';
	a->rows = calloc(lines, sizeof(*a->rows));
	if (!a->rows)
		return -ENOMEM;
	for (at = a->text; *at; at = end) {
		end = at + strcspn(at, "\n");
		if (*end)
			*end++ = '\0';
		if (skip)
			skip--;
		else
			a->rows[a->count++] = at;
	}
	return 0;
}

/* ---- rows ---- */

static bool is_number(const char *field, size_t length, double *out)
{
	char text[64], *end;

	if (length == 0 || length >= sizeof(text))
		return false;
	memcpy(text, field, length);
	text[length] = '\0';
	*out = strtod(text, &end);
	return *end == '\0' && isfinite(*out);
}

static bool same_field(const char *a, size_t a_length, const char *b, size_t b_length)
{
	double x, y;

	while (a_length && a[a_length - 1] == ' ')
		a_length--;
	while (b_length && b[b_length - 1] == ' ')
		b_length--;
	if (a_length == b_length && memcmp(a, b, a_length) == 0)
		return true;
	return is_number(a, a_length, &x) && is_number(b, b_length, &y) &&
	       fabs(x - y) <= TOLERANCE * fmax(fabs(x), fabs(y));
}

static bool same_row(const char *a, const char *b)
{
	for (;;) {
		size_t a_length = strcspn(a, "|"), b_length = strcspn(b, "|");

		if (!same_field(a, a_length, b, b_length))
			return false;
		a += a_length;
		b += b_length;
		if (!*a || !*b)
			return *a == *b;
		a++;
		b++;
	}
}

/*
 * Order rows by the bytes of the first field that differs, so that rows of both files which count as equal get the same
 * place.
 */
static int compare_rows(const void *left, const void *right)
{
	const char *a = *(char *const *)left, *b = *(char *const *)right;

	while (*a && *b) {
		size_t a_length = strcspn(a, "|"), b_length = strcspn(b, "|");
		size_t shorter = a_length < b_length ? a_length : b_length;
		int order;

		if (!same_field(a, a_length, b, b_length)) {
			order = memcmp(a, b, shorter);
			return order ? order : a_length < b_length ? -1 : 1;
		}
		a += a_length + (a[a_length] == '|');
		b += b_length + (b[b_length] == '|');
	}
	return (*a != '\0') - (*b != '\0');
}

static int differ(const struct answer *got, const struct answer *expected, size_t row)
{
	return fth_fail(EBADMSG, "row %zu is %.100s, expected %.100s", row + 1, got->rows[row],
			expected->rows[row]);
}

static int same_rows(struct answer *got, struct answer *expected)
{
	size_t row = 0;

	if (got->count != expected->count)
		return fth_fail(EBADMSG, "%zu rows, expected %zu", got->count, expected->count);
	while (row < got->count && same_row(got->rows[row], expected->rows[row]))
		row++;
	if (row == got->count)
		return 0;
	qsort(got->rows, got->count, sizeof(*got->rows), compare_rows);
	qsort(expected->rows, expected->count, sizeof(*expected->rows), compare_rows);
	for (row = 0; row < got->count; row++)
		if (!same_row(got->rows[row], expected->rows[row]))
			return differ(got, expected, row);
	return 0;
}

int tpch_answer_compare(const char *got, const char *expected, unsigned skip)
{
	struct answer a = {0}, b = {0};
	int rc = read_answer(&a, got, 0);

	if (rc == 0)
		rc = read_answer(&b, expected, skip);
	if (rc == 0)
		rc = same_rows(&a, &b);
	release_answer(&a);
	release_answer(&b);
	return rc;
}
