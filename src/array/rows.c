/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows: records of any number of elements, many at once, copied between lines and a buffer. Each
 * row becomes the lines it lies in; all rows that share a line share its visit, and adjacent lines
 * come in one request.
 *
 * Lines that one row covers completely are overwritten without a fetch, in a pass of their own,
 * since a visit has one mode. A line belongs to the same pass for all occurrences of a row, and a
 * batch keeps the order of the list within a line: so the last occurrence wins.
 */
#include "internal.h"

#include <stdlib.h>

struct rows_call {
	struct fth_array *array;
	const struct fth_rows *rows;
	const uint64_t *indices;
	size_t n;
	union {
		uint8_t *out;
		const uint8_t *values;
	};
	bool covered;	 /* collect only lines that one row covers; else only the others */
	bool all;	 /* collect both kinds */
	size_t next;	 /* row to be collected next */
	uint64_t inside; /* and the line of it; 0: its first */
	uint64_t hits;	 /* pieces beside the first of each line visited */
	struct fth_batch batch;
};

static uint64_t row_first(const struct fth_rows *rows, uint64_t index)
{
	return rows->first + index * rows->elements;
}

/* ---- what is done with the pieces of a line ---- */

/* The part of row k in a line: its address in the frame, in the buffer, and its bytes. */
static uint64_t piece_of(const struct rows_call *call, uint64_t line, size_t k, uint64_t *in_line,
			 uint64_t *in_buffer)
{
	const struct fth_array *array = call->array;
	uint64_t begin = fth_array_line_first(array, line), end = fth_array_line_end(array, line);
	uint64_t row = row_first(call->rows, call->indices[k]);
	uint64_t first = row > begin ? row : begin, last = row + call->rows->elements;

	last = last < end ? last : end;
	*in_line = (first - begin) << array->shift;
	*in_buffer = (k * call->rows->elements + (first - row)) << array->shift;
	return (last - first) << array->shift;
}

static void touch_row_later(const struct rows_call *call, size_t which)
{
	uint64_t k;

	if (call->array->words && fth_batch_later(&call->batch, which, &k))
		fth_array_touch(call->array, row_first(call->rows, call->indices[k]));
}

static int take_rows(void *context, size_t which, uint8_t *data)
{
	struct rows_call *call = context;
	const struct fth_batch *batch = &call->batch;
	size_t size = fth_array_size(call->array);
	uint64_t at, to, bytes;

	touch_row_later(call, which);
	for (uint32_t p = batch->starts[which]; p < batch->starts[which + 1]; p++) {
		bytes = piece_of(call, batch->lines[which], batch->base + batch->order[p], &at,
				 &to);
		fth_array_copy_out(call->out + to, data + at, bytes, size);
	}
	return 0;
}

static int put_rows(void *context, size_t which, uint8_t *data)
{
	struct rows_call *call = context;
	const struct fth_batch *batch = &call->batch;
	size_t size = fth_array_size(call->array);
	uint64_t at, from, bytes;

	touch_row_later(call, which);
	for (uint32_t p = batch->starts[which]; p < batch->starts[which + 1]; p++) {
		bytes = piece_of(call, batch->lines[which], batch->base + batch->order[p], &at,
				 &from);
		fth_array_copy_in(data + at, call->values + from, bytes, size);
	}
	return 0;
}

/* ---- collecting ---- */

static bool is_covered(const struct fth_array *array, uint64_t line, uint64_t first, uint64_t end)
{
	return fth_array_line_first(array, line) >= first &&
	       fth_array_line_end(array, line) <= end &&
	       fth_array_line_mode(array, line, FTH_CACHE_OVERWRITE) == FTH_CACHE_OVERWRITE;
}

/* Collect the lines of row `next`, as many as there is room for. False: it was not all. */
static bool collect_row(struct rows_call *call)
{
	uint64_t first = row_first(call->rows, call->indices[call->next]);
	uint64_t end = first + call->rows->elements;
	uint64_t line = fth_array_line_of(call->array, first);
	uint64_t last = fth_array_line_of(call->array, end - 1);

	if (call->inside)
		line = call->inside;
	for (; line <= last; line++) {
		if (!call->all && is_covered(call->array, line, first, end) != call->covered)
			continue;
		if (!fth_batch_has_room(&call->batch, call->next)) {
			call->inside = line;
			return false;
		}
		fth_batch_add(&call->batch, line, call->next);
	}
	call->inside = 0;
	return true;
}

static int visit_rows(struct rows_call *call, enum fth_cache_mode mode, fth_cache_visit_fn fn)
{
	int rc = 0;

	call->next = 0;
	call->inside = 0;
	while (rc == 0 && call->next < call->n) {
		fth_batch_clear(&call->batch, call->next);
		while (call->next < call->n && collect_row(call))
			call->next++;
		rc = fth_batch_visit(&call->batch, call->array, mode, fn, call);
		call->hits += call->batch.count - call->batch.line_count;
	}
	return rc;
}

/* ---- the calls ---- */

static int check_rows(const struct fth_array *array, const struct fth_rows *rows,
		      const uint64_t *indices, size_t n)
{
	uint64_t elements;

	if (rows->elements == 0 || __builtin_mul_overflow(rows->count, rows->elements, &elements))
		return fth_fail(EINVAL, "array: %llu rows of %llu elements",
				(unsigned long long)rows->count,
				(unsigned long long)rows->elements);
	if (rows->first > array->count || elements > array->count - rows->first)
		return fth_array_check(array, rows->first, elements);
	for (size_t k = 0; k < n; k++)
		if (indices[k] >= rows->count)
			return fth_fail(
				ERANGE, "array: row %llu is out of range: there are %llu rows",
				(unsigned long long)indices[k], (unsigned long long)rows->count);
	return 0;
}

static int begin_rows(struct rows_call *call, struct fth_array *array, const struct fth_rows *rows,
		      const uint64_t *indices, size_t n)
{
	uint64_t pieces;
	int rc = check_rows(array, rows, indices, n);

	if (rc < 0)
		return rc;
	call->array = array;
	call->rows = rows;
	call->indices = indices;
	call->n = n;
	call->hits = 0;
	/* A row may begin and end in the middle of a line. */
	if (__builtin_mul_overflow(n, 2 + (rows->elements >> array->per_line), &pieces))
		pieces = UINT64_MAX;
	fth_batch_init(&call->batch, pieces);
	return 0;
}

static void end_rows(struct rows_call *call)
{
	struct fth_cache *cache = call->array->cache;

	fth_batch_release(&call->batch);
	if (call->hits)
		fth_cache_count_hits(cache, call->hits);
	fth_cache_wanted(cache, (call->n * call->rows->elements) << call->array->shift);
}

int fth_array_gather_rows(struct fth_array *array, const struct fth_rows *rows,
			  const uint64_t *indices, size_t n, void *out)
{
	struct rows_call call;
	int rc = begin_rows(&call, array, rows, indices, n);

	if (rc < 0)
		return rc;
	call.out = out;
	call.all = true;
	call.covered = false;
	rc = visit_rows(&call, FTH_CACHE_READ, take_rows);
	end_rows(&call);
	return rc;
}

int fth_array_scatter_rows(struct fth_array *array, const struct fth_rows *rows,
			   const uint64_t *indices, size_t n, const void *values)
{
	struct rows_call call;
	int rc = begin_rows(&call, array, rows, indices, n);

	if (rc < 0)
		return rc;
	call.values = values;
	call.all = call.covered = false;
	rc = visit_rows(&call, FTH_CACHE_WRITE, put_rows);
	call.covered = true;
	if (rc == 0 && rows->elements >> array->per_line)
		rc = visit_rows(&call, FTH_CACHE_OVERWRITE, put_rows);
	end_rows(&call);
	return rc;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Adjacent lines share a request, so the lines are sorted; a part of the list at a time. */
#define PREFETCH_PART 4096

void fth_array_prefetch_rows(struct fth_array *array, const struct fth_rows *rows,
			     const uint64_t *indices, size_t n)
{
	uint64_t limit = fth_cache_prefetch_limit(array->cache);
	uint64_t lines[PREFETCH_PART];
	size_t k = 0, count;

	if (check_rows(array, rows, NULL, 0) < 0) {
		fth_error_clear();
		return;
	}
	while (k < n && limit > 0) {
		for (count = 0; k < n && count < PREFETCH_PART && count < limit; k++) {
			uint64_t first = row_first(rows, indices[k]), line, last;

			if (indices[k] >= rows->count)
				continue;
			line = fth_array_line_of(array, first);
			last = fth_array_line_of(array, first + rows->elements - 1);
			for (; line <= last && count < PREFETCH_PART && count < limit; line++)
				lines[count++] = line;
		}
		qsort(lines, count, sizeof(*lines), by_number);
		fth_cache_prefetch_lines(array->range, lines, count);
		limit -= count;
	}
}
