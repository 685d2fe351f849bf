/* SPDX-License-Identifier: BSD-2-Clause */
/* GUPS over an array: threads that each do a stretch of one sequence, a batch at a time. */
#include "workloads/micro/gups.h"

#include "fathom/base/error.h"

#include "base/team.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH_MAX 1024u /* what HPCC allows a process to look ahead */
#define PIECE	  8192u /* words filled or checked at once */

/* ---- the sequence ---- */

/* Product in GF(2)[x] modulo x^64 + x^2 + x + 1. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
	uint64_t product = 0;

	for (; b; b >>= 1) {
		if (b & 1)
			product ^= a;
		a = fth_gups_next(a);
	}
	return product;
}

uint64_t fth_gups_nth(uint64_t n)
{
	uint64_t result = 1, power = 2; /* x to the power of 0, and of 1 */

	for (; n; n >>= 1) {
		if (n & 1)
			result = multiply(result, power);
		power = multiply(power, power);
	}
	return result;
}

/* ---- options ---- */

static uint64_t largest_power(uint64_t n)
{
	return n ? (uint64_t)1 << (63 - __builtin_clzll(n)) : 0;
}

int fth_gups_settle(const struct fth_array *table, const struct fth_gups_options *options,
		    struct fth_gups_options *out)
{
	uint64_t count = fth_array_count(table);

	*out = options ? *options : (struct fth_gups_options){0};
	if (fth_array_element(table) != sizeof(uint64_t))
		return fth_fail(EINVAL, "the table must have 8-byte words");
	if (!out->words)
		out->words = largest_power(count);
	if (!out->words || out->words > count || out->words != largest_power(out->words))
		return fth_fail(
			EINVAL, "a table of %llu words: expected a power of two, at most %llu",
			(unsigned long long)out->words, (unsigned long long)largest_power(count));
	if (!out->updates)
		out->updates = 4 * out->words;
	if (!out->threads)
		out->threads = 1;
	if (!out->batch || out->batch > BATCH_MAX)
		out->batch = BATCH_MAX;
	return 0;
}

/* ---- the work of a thread ---- */

struct job {
	struct fth_array *table;
	struct fth_gups_options options;
	uint64_t *wrong; /* by thread, for the check */
};

static bool stopped(const struct job *job)
{
	return job->options.stopped && job->options.stopped();
}

static int update_part(void *context, unsigned thread)
{
	const struct job *job = context;
	uint64_t indices[BATCH_MAX], values[BATCH_MAX], first, end, r;
	int rc = 0;

	fth_team_part(job->options.updates, 1, job->options.threads, thread, &first, &end);
	r = fth_gups_nth(job->options.first + first);
	while (first < end && rc == 0) {
		uint64_t n = end - first < job->options.batch ? end - first : job->options.batch;

		for (uint64_t i = 0; i < n; i++, r = fth_gups_next(r)) {
			indices[i] = r & (job->options.words - 1);
			values[i] = r;
		}
		rc = stopped(job) ? -EINTR : fth_array_xor64_many(job->table, indices, n, values);
		first += n;
	}
	return rc;
}

static int fill_part(void *context, unsigned thread)
{
	const struct job *job = context;
	uint64_t first, end, values[PIECE];
	int rc = 0;

	fth_team_part(job->options.words, PIECE, job->options.threads, thread, &first, &end);
	for (; first < end && rc == 0; first += PIECE) {
		uint64_t n = end - first < PIECE ? end - first : PIECE;

		for (uint64_t i = 0; i < n; i++)
			values[i] = first + i;
		rc = stopped(job) ? -EINTR : fth_array_write(job->table, first, n, values);
	}
	return rc;
}

static int check_part(void *context, unsigned thread)
{
	const struct job *job = context;
	uint64_t first, end, values[PIECE];
	int rc = 0;

	fth_team_part(job->options.words, PIECE, job->options.threads, thread, &first, &end);
	for (; first < end && rc == 0; first += PIECE) {
		uint64_t n = end - first < PIECE ? end - first : PIECE;

		rc = stopped(job) ? -EINTR : fth_array_read(job->table, first, n, values);
		for (uint64_t i = 0; i < n && rc == 0; i++)
			job->wrong[thread] += values[i] != first + i;
	}
	return rc;
}

/* ---- all of them ---- */

int fth_gups_fill(struct fth_array *table, const struct fth_gups_options *options)
{
	struct job job = {.table = table};
	int rc = fth_gups_settle(table, options, &job.options);

	if (rc == 0)
		rc = fth_team_run(job.options.threads, fill_part, &job);
	return rc < 0 ? rc : fth_array_flush(table, 0, FTH_ARRAY_ALL);
}

int fth_gups_run(struct fth_array *table, const struct fth_gups_options *options)
{
	struct job job = {.table = table};
	int rc = fth_gups_settle(table, options, &job.options);

	if (rc == 0)
		rc = fth_team_run(job.options.threads, update_part, &job);
	return rc < 0 ? rc : fth_array_flush(table, 0, FTH_ARRAY_ALL);
}

int fth_gups_check(struct fth_array *table, const struct fth_gups_options *options, uint64_t *wrong)
{
	struct job job = {.table = table};
	int rc = fth_gups_settle(table, options, &job.options);

	*wrong = 0;
	if (rc < 0)
		return rc;
	job.wrong = calloc(job.options.threads, sizeof(*job.wrong));
	if (!job.wrong)
		return -ENOMEM;
	rc = fth_team_run(job.options.threads, check_part, &job);
	for (unsigned i = 0; i < job.options.threads; i++)
		*wrong += job.wrong[i];
	free(job.wrong);
	return rc;
}
