/* SPDX-License-Identifier: BSD-2-Clause */
#include "tpch_answer.h"

#include "fathom/base/checksum.h"
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
		return fth_fail(EIO, "cannot read %s", path);
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

/* ---- digests ---- */

#define QUERIES 22

static const struct {
	double scale;
	uint64_t digests[QUERIES];
} known[] = {
	{0.01, {0x951fc603b3ea2ffd, 0x41584bfaa7cce415, 0x758a15540d59bdb5, 0x44474ee3a2608701,
		0x451a864e8ff3ec45, 0x96d8bcafd05f9dd7, 0xbc9a8f2c518f24fb, 0x24759ee7a3401f4b,
		0x8cdbe2e06071d96d, 0x7da3fa1a7cc6d369, 0x42ec91bbeb93ce2f, 0x3024cd09ccd9b256,
		0x72bd462d3a05fdc8, 0xce49974aff00f600, 0x21a0955946e5d246, 0xed5d4b22f008aaea,
		0x2d06800538d394c2, 0xecd6fabe0c2e6cd3, 0x7b9874ded36944ae, 0xbe7996631281becd,
		0xa8d958c4e3f71d28, 0x3c2352fa33d26d32}},
	{1, {0x23731dbe4d443d82, 0x780eebff8c5529bd, 0x62c30a43fc82b95e, 0x61ea93ecdb2b5f88,
	     0x29161f4ba85ecee3, 0x7b850113b0917ccb, 0x5b12539958952566, 0x457a48ccd45cde99,
	     0x8d87ceaa93db0c0c, 0xf452af6c0b300f4e, 0x7dcd4ebf8664745d, 0x8d53726f78f8f19d,
	     0xa4ee170e499935c4, 0x8044522849be7bf1, 0x0e178e1dd7284e02, 0x99dca94aaba57777,
	     0x72bb7468eb3daa66, 0x1d2dfd243306b7e5, 0xbee6fed5fae4c507, 0xa0f66335121eed81,
	     0xc56834e380ef1a76, 0x0ce726243924e4a6}},
	{10,
	 {0x3cbb6182626f513f,
	  0x171cc5e80db18d63,
	  0x78add547a0f49e69,
	  0xed1de8eb8511057b,
	  0x0408d12bcfc6880d,
	  0xb74dd8dd8c7ab3ed,
	  0xa509221abab2a4aa,
	  0xb821f0081cdbf65c,
	  0x19857786c9ec9c25,
	  0x3949b0aa26f82f0e,
	  0,
	  0xf2b4f1bdb979c966,
	  0xab5107c0429919ef,
	  0x408636a9415a89fc,
	  0xe125abeaac181a1d,
	  0x5489a170ff83dfea,
	  0xfe8a4cfe145d4348,
	  0xf03fb8df78c1c3af,
	  0x4dd184a477a47469,
	  0xdc97619cd330adbd,
	  0xdec39ce925e408b1,
	  0x9f66157b00c1acfc}},
};

static const uint64_t *digests_of(double scale)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].scale == scale)
			return known[i].digests;
	return NULL;
}

bool tpch_answer_known(double scale)
{
	return digests_of(scale) != NULL;
}

int tpch_answer_verify(const char *got, double scale, unsigned query)
{
	const uint64_t *digests = digests_of(scale);
	struct answer a = {0};
	uint64_t sum = 0;
	int rc = read_answer(&a, got, 0);

	/* A sum does not depend on the order of rows. */
	for (size_t i = 0; i < a.count && rc == 0; i++)
		sum += fth_checksum(a.rows[i], strlen(a.rows[i]), 0);
	if (rc == 0 && sum != digests[query - 1])
		rc = fth_fail(EBADMSG, "%zu rows with digest 0x%016llx, expected 0x%016llx",
			      a.count, (unsigned long long)sum,
			      (unsigned long long)digests[query - 1]);
	release_answer(&a);
	return rc;
}
