/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs of elements: copied line by line, all lines on their way together. A line that is set from
 * its first byte to its last is not fetched; only the two at the ends may have to be.
 */
#include "internal.h"

#define FEW 8 /* elements that are tried one by one, without a reference, before anything else */

struct run {
	struct fth_array *array;
	uint64_t first, end; /* elements */
	/* What happens to a part of a line: `bytes` at `frame`, which are the run's from `at` on.
	 */
	void (*part)(const struct run *run, uint8_t *frame, uint64_t at, uint64_t bytes);
	uint8_t *out;	       /* to read into */
	const uint8_t *values; /* to write, or the one to fill with */
	struct fth_batch batch;
};

/* ---- parts ---- */

static void read_part(const struct run *run, uint8_t *frame, uint64_t at, uint64_t bytes)
{
	fth_array_copy_out(run->out + at, frame, bytes, fth_array_size(run->array));
}

static void write_part(const struct run *run, uint8_t *frame, uint64_t at, uint64_t bytes)
{
	fth_array_copy_in(frame, run->values + at, bytes, fth_array_size(run->array));
}

static void fill_part(const struct run *run, uint8_t *frame, uint64_t at, uint64_t bytes)
{
	(void)at;
	fth_array_copy_fill(frame, run->values, bytes, fth_array_size(run->array));
}

/* ---- lines ---- */

/* Do the part of the run that is in this line. */
static void do_line(const struct run *run, uint64_t line, uint8_t *data)
{
	const struct fth_array *array = run->array;
	uint64_t first = fth_array_line_first(array, line), end = fth_array_line_end(array, line);

	first = first > run->first ? first : run->first;
	end = end < run->end ? end : run->end;
	run->part(run, data + fth_array_offset_of(array, first),
		  (first - run->first) << array->shift, (end - first) << array->shift);
}

static int visited(void *context, size_t which, uint8_t *data)
{
	struct run *run = context;

	do_line(run, run->batch.lines[which], data);
	return 0;
}

static int visit_lines(struct run *run, uint64_t line, uint64_t end, enum fth_cache_mode mode)
{
	int rc = 0;

	fth_batch_init(&run->batch, end - line);
	while (rc == 0 && line < end) {
		fth_batch_clear(&run->batch, line);
		for (; line < end && fth_batch_has_room(&run->batch, line); line++)
			fth_batch_add(&run->batch, line, line);
		rc = fth_batch_visit(&run->batch, run->array, mode, visited, run);
	}
	fth_batch_release(&run->batch);
	return rc;
}

static int pin_line(struct run *run, uint64_t line, enum fth_cache_mode mode)
{
	struct fth_cache_pin pin;
	int rc = fth_array_pin_line(run->array, line, mode, &pin);

	if (rc < 0)
		return rc;
	do_line(run, line, pin.data);
	fth_cache_unpin(&pin, mode != FTH_CACHE_READ);
	return 0;
}

/* ---- reading ---- */

static int read_run(struct run *run)
{
	uint64_t line = fth_array_line_of(run->array, run->first);
	uint64_t last = fth_array_line_of(run->array, run->end - 1);

	if (line == last)
		return pin_line(run, line, FTH_CACHE_READ);
	return visit_lines(run, line, last + 1, FTH_CACHE_READ);
}

/* True if all were hot, and are in out now. */
static bool peek_few(const struct fth_array *array, uint64_t first, uint64_t n, uint8_t *out)
{
	size_t size = fth_array_size(array);
	uint64_t value;

	if (n > FEW || first >= array->peekable)
		return false;
	for (uint64_t k = 0; k < n; k++) {
		if (!fth_array_peek(array, first + k, size, &value))
			return false;
		fth_array_store_value(out + k * size, value, size);
	}
	fth_stats_count(array->look.peeks, n);
	return true;
}

int fth_array_read(struct fth_array *array, uint64_t first, uint64_t n, void *out)
{
	struct run run;
	int rc = fth_array_check(array, first, n);

	if (rc < 0 || n == 0)
		return rc;
	if (peek_few(array, first, n, out))
		return 0;
	run.array = array;
	run.first = first;
	run.end = first + n;
	run.part = read_part;
	run.out = out;
	run.values = NULL;
	rc = read_run(&run);
	if (rc == 0)
		fth_cache_wanted(array->cache, n << array->shift);
	return rc;
}

/* ---- writing ---- */

/* Is every byte of the line one of the run's? */
static bool covers(const struct run *run, uint64_t line)
{
	const struct fth_array *array = run->array;

	return fth_array_line_first(array, line) >= run->first &&
	       fth_array_line_end(array, line) <= run->end &&
	       fth_array_line_mode(array, line, FTH_CACHE_OVERWRITE) == FTH_CACHE_OVERWRITE;
}

/* The lines at the ends that are not covered, both on their way at once. */
static int write_ends(struct run *run, uint64_t line, uint64_t last)
{
	int rc;

	fth_batch_init(&run->batch, 2);
	if (!covers(run, line))
		fth_batch_add(&run->batch, line, 0);
	if (!covers(run, last))
		fth_batch_add(&run->batch, last, 0);
	rc = fth_batch_visit(&run->batch, run->array, FTH_CACHE_WRITE, visited, run);
	fth_batch_release(&run->batch);
	return rc;
}

static int write_run(struct run *run)
{
	uint64_t line = fth_array_line_of(run->array, run->first);
	uint64_t last = fth_array_line_of(run->array, run->end - 1);
	int rc;

	if (line == last)
		return pin_line(run, line,
				covers(run, line) ? FTH_CACHE_OVERWRITE : FTH_CACHE_WRITE);
	rc = write_ends(run, line, last);
	if (rc < 0)
		return rc;
	return visit_lines(run, line + !covers(run, line), last + covers(run, last),
			   FTH_CACHE_OVERWRITE);
}

static int change(struct fth_array *array, uint64_t first, uint64_t n, const void *values,
		  void (*part)(const struct run *, uint8_t *, uint64_t, uint64_t))
{
	struct run run;
	int rc = fth_array_check(array, first, n);

	if (rc < 0 || n == 0)
		return rc;
	run.array = array;
	run.first = first;
	run.end = first + n;
	run.part = part;
	run.out = NULL;
	run.values = values;
	rc = write_run(&run);
	if (rc == 0)
		fth_cache_wanted(array->cache, n << array->shift);
	return rc;
}

int fth_array_write(struct fth_array *array, uint64_t first, uint64_t n, const void *values)
{
	return change(array, first, n, values, write_part);
}

int fth_array_fill(struct fth_array *array, uint64_t first, uint64_t n, const void *value)
{
	return change(array, first, n, value, fill_part);
}

/* ---- flushes, hints ---- */

int fth_array_flush(struct fth_array *array, uint64_t first, uint64_t n)
{
	uint64_t line;
	int rc;

	if (n == FTH_ARRAY_ALL && first <= array->count)
		n = array->count - first;
	rc = fth_array_check(array, first, n);
	if (rc < 0 || n == 0)
		return rc;
	line = fth_array_line_of(array, first);
	return fth_cache_flush(array->range, line,
			       fth_array_line_of(array, first + n - 1) - line + 1);
}

void fth_array_prefetch(struct fth_array *array, uint64_t first, uint64_t n)
{
	uint64_t line;

	if (first >= array->count || n == 0)
		return;
	if (n > array->count - first)
		n = array->count - first;
	line = fth_array_line_of(array, first);
	fth_cache_prefetch(array->range, line, fth_array_line_of(array, first + n - 1) - line + 1);
}
