/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Elements anywhere, many at once. What is hot is read on the way through the list; the rest is
 * collected, line by line, and brought in together: this is how one thread reaches the depth that
 * a device needs.
 */
#include "internal.h"

#define AHEAD 32 /* elements between asking for one and reading it */

/* One call, and the part of it that is being visited. */
struct many {
	struct fth_array *array;
	const uint64_t *indices;
	size_t n;
	union {
		uint8_t *out;
		const uint8_t *values;
	};
	uint64_t hits; /* beside those that the cache counts, one for each line visited */
	struct fth_batch batch;
};

static int check_indices(const struct fth_array *array, const uint64_t *indices, size_t n)
{
	uint64_t largest = 0;

	for (size_t k = 0; k < n; k++)
		largest = indices[k] > largest ? indices[k] : largest;
	return n == 0 || largest < array->count ? 0 : fth_array_out_of_range(array, largest);
}

/* ---- what is done with the elements of a line that is there ---- */

/* A line is being visited: make the one that comes a little later ready for it. */
static void touch_later(const struct many *many, size_t which)
{
	uint64_t k;

	if (many->array->words && fth_batch_later(&many->batch, which, &k))
		fth_array_touch(many->array, many->indices[k]);
}

static int take_elements(void *context, size_t which, uint8_t *data)
{
	struct many *many = context;
	const struct fth_batch *batch = &many->batch;
	size_t size = fth_array_size(many->array);

	for (uint32_t p = batch->starts[which]; p < batch->starts[which + 1]; p++) {
		uint64_t k = batch->base + batch->order[p];

		fth_array_copy_out(many->out + (k << many->array->shift),
				   data + fth_array_offset_of(many->array, many->indices[k]), size,
				   size);
	}
	return 0;
}

static int put_elements(void *context, size_t which, uint8_t *data)
{
	struct many *many = context;
	const struct fth_batch *batch = &many->batch;
	size_t size = fth_array_size(many->array);

	touch_later(many, which);
	for (uint32_t p = batch->starts[which]; p < batch->starts[which + 1]; p++) {
		uint64_t k = batch->base + batch->order[p];

		fth_array_copy_in(data + fth_array_offset_of(many->array, many->indices[k]),
				  many->values + (k << many->array->shift), size, size);
	}
	return 0;
}

static int xor_elements(void *context, size_t which, uint8_t *data)
{
	struct many *many = context;
	const struct fth_batch *batch = &many->batch;

	touch_later(many, which);
	for (uint32_t p = batch->starts[which]; p < batch->starts[which + 1]; p++) {
		uint64_t k = batch->base + batch->order[p];
		uint8_t *at = data + fth_array_offset_of(many->array, many->indices[k]);

		__atomic_fetch_xor((uint64_t *)(void *)at,
				   fth_array_load_value(many->values + k * 8, 8), __ATOMIC_SEQ_CST);
	}
	return 0;
}

/* ---- collecting ---- */

/* Collect from position k on, whatever is hot: the lines have to be visited. */
static size_t collect_all(struct many *many, size_t k)
{
	struct fth_batch *batch = &many->batch;

	for (; k < many->n && fth_batch_has_room(batch, k); k++)
		fth_batch_add(batch, fth_array_line_of(many->array, many->indices[k]), k);
	return k;
}

/* Read what is hot from position k on, and collect what is not. */
static inline __attribute__((always_inline)) size_t collect_cold(struct many *many, size_t k,
								 size_t size)
{
	struct fth_batch *batch = &many->batch;
	const struct fth_array *array = many->array;
	uint64_t hits = 0;

	for (; k < many->n; k++) {
		uint64_t i = many->indices[k], value;

		if (k + AHEAD < many->n)
			fth_array_touch(array, many->indices[k + AHEAD]);
		if (fth_array_peek(array, i, size, &value)) {
			fth_array_store_value(many->out + k * size, value, size);
			hits++;
			continue;
		}
		if (!fth_batch_has_room(batch, k))
			break;
		fth_batch_add(batch, fth_array_line_of(array, i), k);
	}
	many->hits += hits;
	return k;
}

static size_t collect_to_read(struct many *many, size_t k)
{
	if (!many->array->peekable)
		return collect_all(many, k);
	switch (many->array->shift) {
	case 0:
		return collect_cold(many, k, 1);
	case 1:
		return collect_cold(many, k, 2);
	case 2:
		return collect_cold(many, k, 4);
	case 3:
		return collect_cold(many, k, 8);
	default:
		return collect_all(many, k);
	}
}

static int visit_all(struct many *many, enum fth_cache_mode mode, fth_cache_visit_fn fn)
{
	struct fth_batch *batch = &many->batch;
	size_t k = 0;
	int rc = check_indices(many->array, many->indices, many->n);

	if (rc < 0)
		return rc;
	fth_batch_init(batch, many->n);
	while (rc == 0 && k < many->n) {
		fth_batch_clear(batch, k);
		k = mode == FTH_CACHE_READ ? collect_to_read(many, k) : collect_all(many, k);
		rc = fth_batch_visit(batch, many->array, mode, fn, many);
		many->hits += batch->count - batch->line_count;
	}
	fth_batch_release(batch);
	if (many->hits)
		fth_cache_count_hits(many->array->cache, many->hits);
	fth_cache_wanted(many->array->cache, (uint64_t)k << many->array->shift);
	return rc;
}

/* ---- the calls ---- */

int fth_array_gather(struct fth_array *array, const uint64_t *indices, size_t n, void *out)
{
	struct many many;

	many.array = array;
	many.indices = indices;
	many.n = n;
	many.out = out;
	many.hits = 0;
	return visit_all(&many, FTH_CACHE_READ, take_elements);
}

int fth_array_scatter(struct fth_array *array, const uint64_t *indices, size_t n,
		      const void *values)
{
	struct many many;

	many.array = array;
	many.indices = indices;
	many.n = n;
	many.values = values;
	many.hits = 0;
	return visit_all(&many, FTH_CACHE_WRITE, put_elements);
}

int fth_array_xor64_many(struct fth_array *array, const uint64_t *indices, size_t n,
			 const uint64_t *values)
{
	struct many many;
	int rc = fth_array_check_size(array, sizeof(*values));

	if (rc < 0)
		return rc;
	many.array = array;
	many.indices = indices;
	many.n = n;
	many.values = (const uint8_t *)values;
	many.hits = 0;
	return visit_all(&many, FTH_CACHE_WRITE, xor_elements);
}
