/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A taxi query through caches: a scan with long lines, all of them on their way together, and a
 * gather with short ones of the values that the scan found to be needed.
 *
 * Two caches, since one line size can not suit both: what is selected is spread thinly, so that the
 * bytes read for it grow with the line, while a scan in short lines would pay for each. The second
 * is compact: it would otherwise need memory for every line of five columns to hold few.
 *
 * Columns 1 to q are one array (they lie at equal distances on the device): the values of all of
 * them for many trips are one gather. Where the trips lie so dense that reading all between them
 * costs less than a request for each, the same array is read in the long lines of the scan.
 */
#include "answer.h"
#include "base/team.h"

#include "fathom/array.h"
#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>

#define MEMORY	     (32u << 20)
#define SCAN_LINE    65536u
#define LINE	     512u
#define REQUEST_COST 4096u /* NVMe drives: some GB/s over some 100,000 to 1,500,000 requests */
#define LINES_LEAST  64u   /* of each cache */
#define STRETCH	     ((uint64_t)1 << 20) /* rows scanned between two gathers */
#define AHEAD	     ((uint64_t)1 << 17) /* rows of the next stretch brought in during a gather */
#define GATHER	     4096u		 /* trips whose values are gathered at once */

struct job {
	const struct fth_taxi_table *table;
	const struct fth_taxi_query *query;
	struct fth_taxi_options options; /* with defaults filled in */
	struct fth_cache *scan_cache, *cache;
	struct fth_array *miles;  /* the column that is scanned */
	struct fth_array *values; /* columns 1 to q, one after the other; NULL for Q0 */
	struct fth_array *dense;  /* the same, in long lines */
	uint64_t next;		  /* atomic: the stretch that nobody has taken yet */
	struct taxi_tally *tallies;
};

/* One thread's. */
struct share {
	struct job *job;
	struct taxi_tally tally;
	uint64_t *rows; /* selected in the present stretch; room for all of it */
	uint64_t count;
	uint64_t indices[GATHER * FTH_TAXI_COLUMNS];
	double values[GATHER * FTH_TAXI_COLUMNS];
};

/* ---- scan ---- */

static int select_rows(void *context, size_t which, uint64_t first, const void *elements,
		       uint64_t n)
{
	struct share *share = context;
	const double *miles = elements, bound = share->job->query->miles;

	(void)which;
	for (uint64_t i = 0; i < n; i++) {
		if (!(miles[i] >= bound))
			continue;
		share->rows[share->count++] = first + i;
		taxi_sum_add(&share->tally.columns[FTH_TAXI_DISTANCE], miles[i]);
	}
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Lines arrive in any order; neighbours among the values share requests if rows are in theirs. */
static void sort_rows(struct share *share)
{
	for (uint64_t i = 1; i < share->count; i++)
		if (share->rows[i - 1] > share->rows[i]) {
			qsort(share->rows, share->count, sizeof(uint64_t), compare_rows);
			return;
		}
}

/* ---- gather ---- */

/* Is it cheaper to read everything between these rows, which are in order? */
static bool is_dense(const struct job *job, const uint64_t *rows, uint64_t n)
{
	uint64_t span = (rows[n - 1] - rows[0]) * sizeof(double) + job->options.scan_line;

	return n * (job->options.line + job->options.request_cost) > span;
}

static int gather_some(struct share *share, const uint64_t *rows, uint64_t n)
{
	unsigned q = share->job->query->query;
	uint64_t stride = share->job->table->stride / sizeof(double);
	struct fth_array *from =
		is_dense(share->job, rows, n) ? share->job->dense : share->job->values;
	int rc;

	for (unsigned c = 0; c < q; c++)
		for (uint64_t i = 0; i < n; i++)
			share->indices[c * n + i] = c * stride + rows[i];
	rc = fth_array_gather(from, share->indices, q * n, share->values);
	if (rc < 0)
		return rc;
	for (unsigned c = 0; c < q; c++)
		for (uint64_t i = 0; i < n; i++)
			taxi_sum_add(&share->tally.columns[1 + c], share->values[c * n + i]);
	return 0;
}

static int gather(struct share *share)
{
	int rc = 0;

	share->tally.trips += share->count;
	if (!share->job->values)
		return 0;
	sort_rows(share);
	for (uint64_t at = 0; at < share->count && rc == 0; at += GATHER) {
		uint64_t n = share->count - at;

		rc = gather_some(share, share->rows + at, n < GATHER ? n : GATHER);
	}
	return rc;
}

/* ---- a thread ---- */

/* The next stretch that nobody has; its rows are 0 behind the end. */
static struct fth_span take_stretch(struct job *job)
{
	/* relaxed: nothing else hangs on it; each number goes to one thread. */
	uint64_t first = fth_add_relaxed_dev64(&job->next, STRETCH), left;

	if (first >= job->table->rows)
		return (struct fth_span){0};
	left = job->table->rows - first;
	return (struct fth_span){first, left < STRETCH ? left : STRETCH};
}

static int scan_and_gather(struct share *share)
{
	struct job *job = share->job;
	struct fth_span span = take_stretch(job);
	int rc = 0;

	while (span.count && rc == 0) {
		struct fth_span next;

		if (job->options.stopped && job->options.stopped())
			return -EINTR;
		share->count = 0;
		rc = fth_array_walk(job->miles, &span, 1, select_rows, share);
		if (rc < 0)
			return rc;
		next = take_stretch(job);
		if (next.count)
			fth_array_prefetch(job->miles, next.first,
					   next.count < AHEAD ? next.count : AHEAD);
		rc = gather(share);
		span = next;
	}
	return rc;
}

static int work(void *context, unsigned thread)
{
	struct job *job = context;
	struct share *share = calloc(1, sizeof(*share));
	int rc = -ENOMEM;

	if (!share)
		return rc;
	share->job = job;
	/* Touched only as far as trips are selected. */
	share->rows = malloc(STRETCH * sizeof(*share->rows));
	if (share->rows)
		rc = scan_and_gather(share);
	job->tallies[thread] = share->tally;
	free(share->rows);
	free(share);
	return rc;
}

/* ---- caches and arrays ---- */

static void settle_options(struct job *job, struct fth_dev *dev,
			   const struct fth_taxi_options *options)
{
	uint32_t block = fth_dev_info(dev)->block;

	if (options)
		job->options = *options;
	if (!job->options.threads)
		job->options.threads = 1;
	if (!job->options.memory)
		job->options.memory = MEMORY;
	if (!job->options.scan_line)
		job->options.scan_line = SCAN_LINE;
	if (!job->options.line)
		job->options.line = block > LINE ? block : LINE;
	if (!job->options.request_cost)
		job->options.request_cost = REQUEST_COST;
}

static int open_cache(uint64_t memory, uint32_t line, bool compact, enum fth_cache_policy policy,
		      struct fth_cache **out)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.memory = memory < LINES_LEAST * line ? LINES_LEAST * line : memory;
	options.line = line;
	options.compact = compact;
	options.policy = policy;
	return fth_cache_open(&options, out);
}

static int open_all(struct job *job, struct fth_dev *dev)
{
	const struct fth_taxi_options *how = &job->options;
	struct fth_array_options miles = {
		.size = sizeof(struct fth_array_options),
		.offset = fth_taxi_offset(job->table, FTH_TAXI_DISTANCE),
		.count = job->table->rows,
		.readonly = true,
	};
	struct fth_array_options values = {
		.size = sizeof(struct fth_array_options),
		.offset = fth_taxi_offset(job->table, FTH_TAXI_TOTAL),
		.count = job->query->query * (job->table->stride / sizeof(double)),
		.readonly = true,
	};
	int rc;

	/* Nothing that was scanned comes again: the plain clock is as good as any there. */
	rc = open_cache(how->memory / 2, how->scan_line, false, FTH_CACHE_FIFO, &job->scan_cache);
	if (rc == 0)
		rc = fth_array_open_dev(job->scan_cache, dev, sizeof(double), &miles, &job->miles);
	if (rc < 0 || !job->query->query)
		return rc;
	rc = fth_array_open_dev(job->scan_cache, dev, sizeof(double), &values, &job->dense);
	if (rc == 0)
		rc = open_cache(how->memory / 2, how->line, true, how->policy, &job->cache);
	if (rc == 0)
		rc = fth_array_open_dev(job->cache, dev, sizeof(double), &values, &job->values);
	return rc;
}

static int close_all(struct job *job, int rc)
{
	int closed[] = {
		fth_array_finish(&job->values),	    fth_array_finish(&job->dense),
		fth_array_finish(&job->miles),	    fth_cache_finish(&job->cache),
		fth_cache_finish(&job->scan_cache),
	};

	for (unsigned i = 0; i < sizeof(closed) / sizeof(closed[0]) && rc == 0; i++)
		rc = closed[i];
	return rc;
}

static void count(const struct fth_cache *cache, struct fth_taxi_answer *out)
{
	if (!cache)
		return;
	out->bytes_read += fth_cache_stat(cache, FTH_CACHE_BYTES_READ);
	out->requests += fth_cache_stat(cache, FTH_CACHE_READ_REQUESTS);
	out->hits += fth_cache_stat(cache, FTH_CACHE_HITS);
	out->misses += fth_cache_stat(cache, FTH_CACHE_MISSES);
}

static void collect(const struct job *job, struct fth_taxi_answer *out)
{
	struct taxi_tally tally = {0};

	for (unsigned i = 0; i < job->options.threads; i++)
		taxi_tally_add(&tally, &job->tallies[i]);
	taxi_answer_set(out, job->query, job->table, &tally);
	count(job->scan_cache, out);
	count(job->cache, out);
}

int fth_taxi_run(struct fth_dev *dev, const struct fth_taxi_table *table,
		 const struct fth_taxi_query *query, const struct fth_taxi_options *options,
		 struct fth_taxi_answer *out)
{
	struct job job = {.table = table, .query = query};
	uint64_t begin = fth_now_ns();
	int rc = taxi_query_check(query);

	*out = (struct fth_taxi_answer){0};
	if (rc < 0 || table->rows == 0)
		return rc;
	settle_options(&job, dev, options);
	job.tallies = calloc(job.options.threads, sizeof(*job.tallies));
	if (!job.tallies)
		return -ENOMEM;
	rc = open_all(&job, dev);
	if (rc == 0)
		rc = fth_team_run(job.options.threads, work, &job);
	if (rc == 0)
		collect(&job, out);
	rc = close_all(&job, rc);
	free(job.tallies);
	out->ns = fth_now_ns() - begin;
	return rc;
}
