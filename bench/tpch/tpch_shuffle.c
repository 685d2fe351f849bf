/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two passes: each line goes to a part chosen at random, then each part is shuffled in memory and appended. As a
 * line's part and its place in the part are both random and independent, every order is equally likely.
 */
#include "tpch_shuffle.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_BYTES (16u << 20)
#define PARTS_MAX  512u

struct shuffle {
	const char *to;
	uint64_t state; /* of the random numbers */
	unsigned count;
	FILE *parts[PARTS_MAX];
};

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t next_random(struct shuffle *s)
{
	uint64_t z = s->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t random_below(struct shuffle *s, uint64_t n)
{
	return (uint64_t)((unsigned __int128)next_random(s) * n >> 64);
}

static int failed(const char *path)
{
	return fth_fail(errno, "%s: %s", path, strerror(errno));
}

/* A file of its own for each part, without a name. */
static int open_parts(struct shuffle *s, FILE *in)
{
	struct stat st;

	if (fstat(fileno(in), &st) < 0)
		return -errno;
	s->count = (unsigned)((uint64_t)st.st_size / PART_BYTES) + 1;
	if (s->count > PARTS_MAX)
		s->count = PARTS_MAX;
	for (unsigned i = 0; i < s->count; i++) {
		char path[PATH_MAX];
		int fd = snprintf(path, sizeof(path), "%s.part-XXXXXX", s->to) < PATH_MAX
				 ? mkstemp(path)
				 : -1;

		if (fd < 0)
			return failed(s->to);
		unlink(path);
		s->parts[i] = fdopen(fd, "r+");
		if (!s->parts[i]) {
			close(fd);
			return -ENOMEM;
		}
	}
	return 0;
}

static int scatter(struct shuffle *s, FILE *in)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = getline(&line, &size, in)) > 0)
		if (fwrite(line, 1, (size_t)n, s->parts[random_below(s, s->count)]) != (size_t)n)
			rc = failed(s->to);
	if (rc == 0 && ferror(in))
		rc = failed("the text");
	free(line);
	return rc;
}

/* ---- one part ---- */

static char *read_part(FILE *part, size_t *length)
{
	long size = fseek(part, 0, SEEK_END) < 0 ? -1 : ftell(part);
	char *text = size < 0 ? NULL : malloc((size_t)size + 1);

	rewind(part);
	if (text && fread(text, 1, (size_t)size, part) != (size_t)size) {
		free(text);
		return NULL;
	}
	*length = (size_t)size;
	return text;
}

static const char **lines_of(const char *text, size_t length, size_t *count)
{
	const char **lines, *at;
	size_t n = 0;

	for (at = text; at < text + length; at++)
		n += *at == '\n';
	lines = calloc(n + 1, sizeof(*lines));
	*count = n;
	for (at = text, n = 0; lines && n < *count; n++) {
		lines[n] = at;
		at = memchr(at, '\n', (size_t)(text + length - at));
		at++;
	}
	return lines;
}

static int gather_part(struct shuffle *s, FILE *part, FILE *out)
{
	size_t length, count = 0;
	char *text = read_part(part, &length);
	const char **lines = text ? lines_of(text, length, &count) : NULL;
	int rc;

	for (size_t i = count; i > 1; i--) {
		size_t other = (size_t)random_below(s, i);
		const char *line = lines[i - 1];

		lines[i - 1] = lines[other];
		lines[other] = line;
	}
	for (size_t i = 0; i < count; i++)
		fwrite(lines[i], 1, strcspn(lines[i], "\n") + 1, out);
	rc = !lines ? -ENOMEM : ferror(out) ? fth_fail(EIO, "cannot write %s", s->to) : 0;
	free(lines);
	free(text);
	return rc;
}

static int gather(struct shuffle *s)
{
	char path[PATH_MAX];
	FILE *out;
	int rc = 0;

	if (snprintf(path, sizeof(path), "%s.partial", s->to) >= PATH_MAX)
		return -ENAMETOOLONG;
	out = fopen(path, "we");
	if (!out)
		return failed(path);
	for (unsigned i = 0; i < s->count && rc == 0; i++) {
		rc = gather_part(s, s->parts[i], out);
		fclose(s->parts[i]); /* frees its space */
		s->parts[i] = NULL;
	}
	if (fclose(out) != 0 && rc == 0)
		rc = failed(path);
	if (rc == 0 && rename(path, s->to) < 0)
		rc = failed(s->to);
	if (rc < 0)
		unlink(path);
	return rc;
}

int tpch_shuffle_lines(const char *from, const char *to, uint64_t seed)
{
	struct shuffle s = {.to = to, .state = seed};
	FILE *in = fopen(from, "re");
	int rc = in ? open_parts(&s, in) : failed(from);

	if (rc == 0)
		rc = scatter(&s, in);
	if (rc == 0)
		rc = gather(&s);
	for (unsigned i = 0; i < PARTS_MAX; i++)
		if (s.parts[i])
			fclose(s.parts[i]);
	if (in)
		fclose(in);
	return rc;
}
