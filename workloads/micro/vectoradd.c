/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * c = a + b, line by line: a line of each input and one of the output are pinned at a time, and the
 * sum is made where the lines lie, without a copy. Each thread has a stretch of the elements and
 * keeps `ahead` of each input on its way; the cache writes c in the background meanwhile.
 */
#include "workloads/micro/vectoradd.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include "base/team.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE	    8192u /* elements filled or checked at once */
#define AHEAD_SHARE 16u	  /* each input's part of the cache that is on its way */
#define AHEAD_MAX   (4u << 20)

struct job {
	struct fth_array *a, *b, *c;
	unsigned threads;
	uint64_t per_line; /* elements */
	uint64_t ahead;	   /* elements, whole lines */
	bool (*stopped)(void);
	uint64_t seed;
	unsigned which;
	uint64_t *wrong; /* by thread */
};

static bool stopped(const struct job *job)
{
	return job->stopped && job->stopped();
}

/* ---- adding ---- */

struct pins {
	struct fth_array_pin a, b, c;
};

static int pin_all(const struct job *job, uint64_t i, struct pins *pins)
{
	int rc = fth_array_pin(job->a, i, FTH_CACHE_READ, &pins->a);

	if (rc < 0)
		return rc;
	rc = fth_array_pin(job->b, i, FTH_CACHE_READ, &pins->b);
	if (rc == 0) {
		rc = fth_array_pin(job->c, i, FTH_CACHE_OVERWRITE, &pins->c);
		if (rc == 0)
			return 0;
		fth_array_unpin(&pins->b, false);
	}
	fth_array_unpin(&pins->a, false);
	return rc;
}

static void add(double *restrict c, const double *restrict a, const double *restrict b, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		c[i] = a[i] + b[i];
}

/* Add the line that begins with element i. */
static int add_line(const struct job *job, uint64_t i)
{
	struct pins pins;
	int rc = pin_all(job, i, &pins);

	if (rc < 0)
		return rc;
	add(pins.c.data, pins.a.data, pins.b.data, pins.c.count);
	fth_array_unpin(&pins.c, true);
	fth_array_unpin(&pins.b, false);
	fth_array_unpin(&pins.a, false);
	return 0;
}

/*
 * Keep [i, i + ahead) of both inputs on the way. In halves, so that neighbouring lines come in few
 * requests. Returns how far it has asked for.
 */
static uint64_t look_ahead(const struct job *job, uint64_t i, uint64_t asked, uint64_t end)
{
	uint64_t to = i + job->ahead < end ? i + job->ahead : end;

	if (asked < i)
		asked = i;
	if (to <= asked || (to - asked < job->ahead / 2 && to < end))
		return asked;
	fth_array_prefetch(job->a, asked, to - asked);
	fth_array_prefetch(job->b, asked, to - asked);
	return to;
}

static int add_part(void *context, unsigned thread)
{
	const struct job *job = context;
	uint64_t i, end, asked = 0;
	int rc = 0;

	fth_team_part(fth_array_count(job->c), job->per_line, job->threads, thread, &i, &end);
	for (; i < end && rc == 0; i += job->per_line) {
		asked = look_ahead(job, i, asked, end);
		rc = stopped(job) ? -EINTR : add_line(job, i);
	}
	return rc;
}

/* ---- options ---- */

static int check_arrays(const struct fth_array *a, const struct fth_array *b,
			const struct fth_array *c)
{
	uint32_t line = fth_cache_line_size(fth_array_cache(c));

	if (fth_array_count(a) != fth_array_count(c) || fth_array_count(b) != fth_array_count(c))
		return fth_fail(EINVAL, "the arrays differ in length: %llu, %llu and %llu",
				(unsigned long long)fth_array_count(a),
				(unsigned long long)fth_array_count(b),
				(unsigned long long)fth_array_count(c));
	if (fth_array_element(a) != sizeof(double) || fth_array_element(b) != sizeof(double) ||
	    fth_array_element(c) != sizeof(double))
		return fth_fail(EINVAL, "the elements must have 8 bytes");
	if (fth_cache_line_size(fth_array_cache(a)) != line ||
	    fth_cache_line_size(fth_array_cache(b)) != line)
		return fth_fail(EINVAL, "the arrays differ in line size");
	return 0;
}

/*
 * Half of the cache may be dirty lines of c. What is on its way shall fit beside them with room to
 * spare, or lines would have to go before they were used.
 */
static uint64_t default_ahead(struct fth_array *array, unsigned threads)
{
	struct fth_cache_footprint footprint;
	uint64_t ahead;

	fth_cache_footprint(fth_array_cache(array), &footprint);
	ahead = footprint.data_bytes / AHEAD_SHARE / threads;
	return ahead < AHEAD_MAX ? ahead : AHEAD_MAX;
}

static void settle(struct job *job, struct fth_array *array,
		   const struct fth_vectoradd_options *options)
{
	uint64_t line = fth_cache_line_size(fth_array_cache(array)), ahead = 0;

	job->threads = 1;
	if (options) {
		job->threads = options->threads ? options->threads : 1;
		job->stopped = options->stopped;
		ahead = options->ahead;
	}
	if (!ahead)
		ahead = default_ahead(array, job->threads);
	job->per_line = line / sizeof(double);
	job->ahead = (ahead < line ? line : ahead / line * line) / sizeof(double);
}

int fth_vectoradd_run(struct fth_array *a, struct fth_array *b, struct fth_array *c,
		      const struct fth_vectoradd_options *options)
{
	struct job job = {.a = a, .b = b, .c = c};
	int rc = check_arrays(a, b, c);

	if (rc < 0)
		return rc;
	settle(&job, c, options);
	rc = fth_team_run(job.threads, add_part, &job);
	return rc < 0 ? rc : fth_array_flush(c, 0, FTH_ARRAY_ALL);
}

/* ---- inputs ---- */

double fth_vectoradd_value(uint64_t seed, unsigned which, uint64_t i)
{
	return (double)(fth_mix64((seed << 1 | which) ^ i * 0x9e3779b97f4a7c15u) >> 40);
}

static int fill_part(void *context, unsigned thread)
{
	const struct job *job = context;
	double values[PIECE];
	uint64_t at, end;
	int rc = 0;

	fth_team_part(fth_array_count(job->c), PIECE, job->threads, thread, &at, &end);
	for (; at < end && rc == 0; at += PIECE) {
		uint64_t n = end - at < PIECE ? end - at : PIECE;

		for (uint64_t i = 0; i < n; i++)
			values[i] = fth_vectoradd_value(job->seed, job->which, at + i);
		rc = stopped(job) ? -EINTR : fth_array_write(job->c, at, n, values);
	}
	return rc;
}

int fth_vectoradd_fill(struct fth_array *array, uint64_t seed, unsigned which,
		       const struct fth_vectoradd_options *options)
{
	struct job job = {.c = array, .seed = seed, .which = which};
	int rc;

	settle(&job, array, options);
	rc = fth_team_run(job.threads, fill_part, &job);
	return rc < 0 ? rc : fth_array_flush(array, 0, FTH_ARRAY_ALL);
}

static int check_part(void *context, unsigned thread)
{
	const struct job *job = context;
	double values[PIECE];
	uint64_t at, end;
	int rc = 0;

	fth_team_part(fth_array_count(job->c), PIECE, job->threads, thread, &at, &end);
	for (; at < end && rc == 0; at += PIECE) {
		uint64_t n = end - at < PIECE ? end - at : PIECE;

		rc = stopped(job) ? -EINTR : fth_array_read(job->c, at, n, values);
		for (uint64_t i = 0; i < n && rc == 0; i++)
			job->wrong[thread] +=
				values[i] != fth_vectoradd_value(job->seed, 0, at + i) +
						     fth_vectoradd_value(job->seed, 1, at + i);
	}
	return rc;
}

int fth_vectoradd_check(struct fth_array *c, uint64_t seed,
			const struct fth_vectoradd_options *options, uint64_t *wrong)
{
	struct job job = {.c = c, .seed = seed};
	int rc;

	*wrong = 0;
	settle(&job, c, options);
	job.wrong = calloc(job.threads, sizeof(*job.wrong));
	if (!job.wrong)
		return -ENOMEM;
	rc = fth_team_run(job.threads, check_part, &job);
	for (unsigned i = 0; i < job.threads; i++)
		*wrong += job.wrong[i];
	free(job.wrong);
	return rc;
}
