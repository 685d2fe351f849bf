/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The external sort: buffers, runs, and when to merge. merge.c merges.
 *
 * 1. A buffer belongs to its worker until finish().
 * 2. Runs lie in one temporary file that has no name; `tail` is where the next one goes. A worker
 *    reserves its place under the lock and writes outside it.
 * 3. What is left in the buffers at the end is merged from there, so that what fits into memory
 *    never goes to a file.
 */
#include "graph/build/sort.h"

#include "graph/build/merge.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGIT_BITS  11
#define DIGITS	    (1u << DIGIT_BITS)
#define PASSES	    6 /* of 11 bits cover 64 */
#define READ_MIN    65536u
#define READ_MAX    (4u << 20)
#define FAN_IN_MAX  1024u
#define RECORDS_MIN 1024u

struct fth_edge_sort {
	uint64_t memory;
	unsigned workers, words;
	const char *directory;
	struct fth_edge_buffer *buffers;
	pthread_mutex_t lock; /* fd, tail, runs */
	int fd;
	uint64_t tail;
	struct fth_edge_run *runs;
	unsigned run_count, run_capacity;
	uint64_t records, files;
	struct fth_edge_merge merge;
};

/* ---- in memory ---- */

static void count_digits(const uint64_t *records, uint64_t n, unsigned words,
			 uint64_t counts[PASSES][DIGITS])
{
	memset(counts, 0, sizeof(uint64_t) * PASSES * DIGITS);
	for (uint64_t i = 0; i < n; i++)
		for (unsigned p = 0; p < PASSES; p++)
			counts[p][records[i * words] >> (p * DIGIT_BITS) & (DIGITS - 1)]++;
}

/* Move all records by one digit, stably. `at` becomes where each digit's records go. */
static inline void move_by_digit(const uint64_t *from, uint64_t *to, uint64_t n, unsigned words,
				 unsigned shift, uint64_t *at)
{
	uint64_t sum = 0;

	for (unsigned d = 0; d < DIGITS; d++) {
		uint64_t count = at[d];

		at[d] = sum;
		sum += count;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t place = at[from[i * words] >> shift & (DIGITS - 1)]++ * words;

		to[place] = from[i * words];
		if (words == 2)
			to[place + 1] = from[i * words + 1];
	}
}

static bool one_digit_only(const uint64_t *counts, uint64_t n)
{
	for (unsigned d = 0; d < DIGITS; d++)
		if (counts[d])
			return counts[d] == n;
	return true;
}

/* Radix sort, least digit first; digits that are the same in all records cost nothing. */
static int sort_buffer(struct fth_edge_buffer *buffer)
{
	uint64_t n = buffer->used, (*counts)[DIGITS] = malloc(sizeof(uint64_t) * PASSES * DIGITS);

	if (!counts)
		return -ENOMEM;
	count_digits(buffer->records, n, buffer->words, counts);
	for (unsigned p = 0; p < PASSES; p++) {
		uint64_t *swap = buffer->records;

		if (one_digit_only(counts[p], n))
			continue;
		/* Two calls, so that the compiler makes one for each constant. */
		if (buffer->words == 1)
			move_by_digit(buffer->records, buffer->spare, n, 1, p * DIGIT_BITS,
				      counts[p]);
		else
			move_by_digit(buffer->records, buffer->spare, n, 2, p * DIGIT_BITS,
				      counts[p]);
		buffer->records = buffer->spare;
		buffer->spare = swap;
	}
	free(counts);
	return 0;
}

/* ---- runs ---- */

static int open_file(struct fth_edge_sort *sort)
{
	if (sort->fd < 0)
		sort->fd = fth_edge_file_open(sort->directory);
	return sort->fd < 0 ? sort->fd : 0;
}

static int add_run(struct fth_edge_sort *sort, const struct fth_edge_run *run)
{
	if (sort->run_count == sort->run_capacity) {
		unsigned capacity = sort->run_capacity ? 2 * sort->run_capacity : 64;
		struct fth_edge_run *runs = realloc(sort->runs, capacity * sizeof(*runs));

		if (!runs)
			return -ENOMEM;
		sort->runs = runs;
		sort->run_capacity = capacity;
	}
	sort->runs[sort->run_count++] = *run;
	return 0;
}

/* A place in the file for so many records. */
static int reserve(struct fth_edge_sort *sort, uint64_t records, uint64_t *at)
{
	struct fth_edge_run run = {NULL, 0, records};
	int rc;

	pthread_mutex_lock(&sort->lock);
	run.at = sort->tail;
	rc = open_file(sort);
	if (rc == 0)
		rc = add_run(sort, &run);
	if (rc == 0) {
		sort->tail += records * 8 * sort->words;
		sort->files++;
		*at = run.at;
	}
	pthread_mutex_unlock(&sort->lock);
	return rc;
}

int fth_edge_buffer_spill(struct fth_edge_buffer *buffer)
{
	uint64_t at, bytes = buffer->used * 8 * buffer->words;
	int rc = sort_buffer(buffer);

	if (rc == 0)
		rc = reserve(buffer->sort, buffer->used, &at);
	if (rc == 0)
		rc = fth_edge_file_write(buffer->sort->fd, buffer->records, bytes, at);
	buffer->used = 0;
	return rc;
}

/* ---- merging, until few enough runs are left for one merge ---- */

/* Where a merged run is collected before it is written. */
struct output {
	uint64_t *records;
	uint64_t used, capacity, at, total;
};

static int output_flush(struct fth_edge_sort *sort, struct output *out)
{
	uint64_t bytes = out->used * 8 * sort->words;
	int rc = fth_edge_file_write(sort->fd, out->records, bytes, out->at);

	out->at += bytes;
	out->total += out->used;
	out->used = 0;
	return rc;
}

static int copy_merged(struct fth_edge_sort *sort, const struct fth_graph_job *job,
		       struct fth_edge_merge *merge, struct output *out)
{
	uint64_t key;
	uint32_t weight;
	int rc;

	while ((rc = fth_edge_merge_next(merge, &key, &weight)) > 0) {
		if (out->used == out->capacity) {
			rc = output_flush(sort, out);
			if (rc == 0 && job->progress)
				rc = job->progress(job->context, "merging edges", out->total,
						   sort->records);
			if (rc < 0)
				return rc;
		}
		out->records[out->used * sort->words] = key;
		if (sort->words == 2)
			out->records[out->used * 2 + 1] = weight;
		out->used++;
	}
	return rc < 0 ? rc : output_flush(sort, out);
}

/* The first `count` runs become one at the end of the file, and give their room back. */
static int merge_some(struct fth_edge_sort *sort, const struct fth_graph_job *job, unsigned count,
		      size_t buffer_bytes)
{
	struct fth_edge_run run = {NULL, sort->tail, 0};
	struct output out = {.at = sort->tail, .capacity = buffer_bytes / (8 * sort->words)};
	struct fth_edge_merge merge;
	int rc =
		fth_edge_merge_open(&merge, sort->fd, sort->words, sort->runs, count, buffer_bytes);

	if (rc < 0)
		return rc;
	out.records = malloc(buffer_bytes);
	rc = out.records ? copy_merged(sort, job, &merge, &out) : -ENOMEM;
	fth_edge_merge_close(&merge);
	free(out.records);
	if (rc < 0)
		return rc;
	/* Only a matter of disk space: where the file system cannot, it takes more. */
	for (unsigned i = 0; i < count; i++)
		(void)!fallocate(sort->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)sort->runs[i].at,
				 (off_t)(sort->runs[i].records * 8 * sort->words));
	memmove(sort->runs, sort->runs + count, (sort->run_count - count) * sizeof(*sort->runs));
	sort->run_count -= count;
	run.records = out.total;
	sort->tail = out.at;
	sort->files++;
	return add_run(sort, &run);
}

static size_t read_size(const struct fth_edge_sort *sort, unsigned runs)
{
	uint64_t size = sort->memory / 2 / (runs + 1) / 4096 * 4096;

	if (size > READ_MAX)
		size = READ_MAX;
	return size < READ_MIN ? READ_MIN : size;
}

static int merge_until_few(struct fth_edge_sort *sort, const struct fth_graph_job *job)
{
	uint64_t fan_in = sort->memory / 2 / READ_MIN - 1;
	int rc = 0;

	if (fan_in > FAN_IN_MAX)
		fan_in = FAN_IN_MAX;
	while (rc == 0 && sort->run_count > fan_in)
		rc = merge_some(sort, job, (unsigned)fan_in, READ_MIN);
	return rc;
}

/* What is left in a buffer becomes a run in memory. */
static int keep_buffer(struct fth_edge_sort *sort, struct fth_edge_buffer *buffer)
{
	struct fth_edge_run run = {NULL, 0, buffer->used};
	int rc = sort_buffer(buffer);

	run.memory = buffer->records;
	free(buffer->spare);
	buffer->spare = NULL;
	if (rc < 0 || buffer->used == 0)
		return rc;
	return add_run(sort, &run);
}

int fth_edge_sort_finish(struct fth_edge_sort *sort, const struct fth_graph_job *job)
{
	unsigned in_file;
	int rc = 0;

	for (unsigned i = 0; i < sort->run_count; i++)
		sort->records += sort->runs[i].records;
	for (unsigned w = 0; w < sort->workers; w++)
		sort->records += sort->buffers[w].used;
	rc = merge_until_few(sort, job);
	in_file = sort->run_count;
	for (unsigned w = 0; w < sort->workers && rc == 0; w++)
		rc = keep_buffer(sort, &sort->buffers[w]);
	if (rc < 0)
		return rc;
	return fth_edge_merge_open(&sort->merge, sort->fd, sort->words, sort->runs, sort->run_count,
				   read_size(sort, in_file));
}

int fth_edge_sort_next(struct fth_edge_sort *sort, uint64_t *key, uint32_t *weight)
{
	return fth_edge_merge_next(&sort->merge, key, weight);
}

uint64_t fth_edge_sort_records(const struct fth_edge_sort *sort)
{
	return sort->records;
}

uint64_t fth_edge_sort_runs(const struct fth_edge_sort *sort)
{
	return sort->files;
}

/* ---- life ---- */

struct fth_edge_buffer *fth_edge_sort_buffer(struct fth_edge_sort *sort, unsigned w)
{
	return &sort->buffers[w];
}

static int make_buffers(struct fth_edge_sort *sort)
{
	uint64_t capacity = sort->memory / (2 * 8 * sort->words * sort->workers);

	if (capacity < RECORDS_MIN)
		capacity = RECORDS_MIN;
	for (unsigned w = 0; w < sort->workers; w++) {
		struct fth_edge_buffer *buffer = &sort->buffers[w];

		buffer->sort = sort;
		buffer->words = sort->words;
		buffer->capacity = capacity;
		buffer->records = malloc(capacity * 8 * sort->words);
		buffer->spare = malloc(capacity * 8 * sort->words);
		if (!buffer->records || !buffer->spare)
			return -ENOMEM;
	}
	return 0;
}

int fth_edge_sort_new(uint64_t memory, unsigned workers, bool weighted, const char *directory,
		      struct fth_edge_sort **out)
{
	struct fth_edge_sort *sort = calloc(1, sizeof(*sort));
	int rc;

	*out = NULL;
	if (memory < FTH_EDGE_SORT_MEMORY_MIN) {
		free(sort);
		return fth_fail(EINVAL, "sorting needs at least 1 MiB of memory");
	}
	if (!sort)
		return -ENOMEM;
	sort->memory = memory;
	sort->workers = workers;
	sort->words = weighted ? 2 : 1;
	sort->directory = directory;
	sort->fd = -1;
	pthread_mutex_init(&sort->lock, NULL);
	sort->buffers = calloc(workers, sizeof(*sort->buffers));
	rc = sort->buffers ? make_buffers(sort) : -ENOMEM;
	if (rc < 0)
		fth_edge_sort_free(sort);
	else
		*out = sort;
	return rc;
}

void fth_edge_sort_free(struct fth_edge_sort *sort)
{
	if (!sort)
		return;
	fth_edge_merge_close(&sort->merge);
	for (unsigned w = 0; sort->buffers && w < sort->workers; w++) {
		free(sort->buffers[w].records);
		free(sort->buffers[w].spare);
	}
	free(sort->buffers);
	free(sort->runs);
	if (sort->fd >= 0)
		close(sort->fd);
	pthread_mutex_destroy(&sort->lock);
	free(sort);
}
