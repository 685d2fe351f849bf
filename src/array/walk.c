/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spans, many at once, without copying. Each span becomes the lines it lies in; sorted spans that
 * share a line share its visit, and lines that follow each other come in one request.
 */
#include "internal.h"

struct walk {
	struct fth_array *array;
	const struct fth_span *spans;
	size_t n;
	fth_array_piece_fn fn;
	void *context;
	uint64_t hits;	 /* pieces beside the first of each line visited */
	size_t next;	 /* span to be collected next */
	uint64_t inside; /* and the line of it; 0: its first */
	uint64_t wanted; /* elements */
	struct fth_batch batch;
};

static int hand_out(void *context, size_t which, uint8_t *data)
{
	struct walk *walk = context;
	const struct fth_array *array = walk->array;
	const struct fth_batch *batch = &walk->batch;
	uint64_t line = batch->lines[which], begin = fth_array_line_first(array, line);
	uint64_t end = fth_array_line_end(array, line);
	uint64_t later;
	int rc = 0;

	if (array->words && fth_batch_later(batch, which, &later))
		fth_array_touch(array, walk->spans[later].first);
	for (uint32_t p = batch->starts[which]; p < batch->starts[which + 1] && rc >= 0; p++) {
		size_t k = batch->base + batch->order[p];
		uint64_t first = walk->spans[k].first, last = first + walk->spans[k].count;

		first = first > begin ? first : begin;
		last = last < end ? last : end;
		rc = walk->fn(walk->context, k, first, data + ((first - begin) << array->shift),
			      last - first);
	}
	return rc < 0 ? rc : 0;
}

/* Collect the lines of span `next`, as many as there is room for. False: it was not all. */
static bool collect_span(struct walk *walk)
{
	const struct fth_span *span = &walk->spans[walk->next];
	uint64_t line, last;

	if (span->count == 0)
		return true;
	line = fth_array_line_of(walk->array, span->first);
	last = fth_array_line_of(walk->array, span->first + span->count - 1);
	if (walk->inside)
		line = walk->inside;
	for (; line <= last; line++) {
		if (!fth_batch_has_room(&walk->batch, walk->next)) {
			walk->inside = line;
			return false;
		}
		fth_batch_add(&walk->batch, line, walk->next);
	}
	walk->inside = 0;
	walk->wanted += span->count;
	return true;
}

static int visit_some(struct walk *walk)
{
	int rc;

	fth_batch_clear(&walk->batch, walk->next);
	while (walk->next < walk->n && collect_span(walk))
		walk->next++;
	rc = fth_batch_visit(&walk->batch, walk->array, FTH_CACHE_READ, hand_out, walk);
	walk->hits += walk->batch.count - walk->batch.line_count;
	return rc;
}

/* Room for how many pieces is worth having? Also checks the spans. */
static int count_pieces(const struct fth_array *array, const struct fth_span *spans, size_t n,
			uint64_t *pieces)
{
	*pieces = 0;
	for (size_t k = 0; k < n; k++) {
		if (spans[k].first > array->count || spans[k].count > array->count - spans[k].first)
			return fth_array_check(array, spans[k].first, spans[k].count);
		*pieces += 1 + (spans[k].count >> array->per_line);
	}
	/* A span may begin and end in the middle of a line. */
	*pieces += n;
	return 0;
}

int fth_array_walk(struct fth_array *array, const struct fth_span *spans, size_t n,
		   fth_array_piece_fn fn, void *context)
{
	struct walk walk;
	uint64_t pieces;
	int rc = count_pieces(array, spans, n, &pieces);

	if (rc < 0)
		return rc;
	walk.array = array;
	walk.spans = spans;
	walk.n = n;
	walk.fn = fn;
	walk.context = context;
	walk.next = 0;
	walk.inside = walk.wanted = walk.hits = 0;
	fth_batch_init(&walk.batch, pieces);
	while (rc == 0 && walk.next < n)
		rc = visit_some(&walk);
	fth_batch_release(&walk.batch);
	if (walk.hits)
		fth_cache_count_hits(array->cache, walk.hits);
	fth_cache_wanted(array->cache, walk.wanted << array->shift);
	return rc;
}
