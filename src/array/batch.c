/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of lines to be brought in together, with bounded memory and no allocation per element.
 *
 * They are sorted, which costs about 10 ns each: without it a list in random order would meet lines
 * that it is itself fetching, and neighbours would not be seen as such.
 */
#include "internal.h"

#include <stdlib.h>

#define RADIX_BITS 11
#define RADIX	   (1u << RADIX_BITS)

/* ---- memory ---- */

static void use_heap(struct fth_batch *batch, uint32_t capacity)
{
	batch->heap =
		malloc(capacity * (2 * sizeof(uint64_t) + 3 * sizeof(uint32_t)) + sizeof(uint32_t));
	if (!batch->heap)
		return;
	batch->keys = batch->heap;
	batch->spare = batch->keys + capacity;
	batch->positions = (uint32_t *)(batch->spare + capacity);
	batch->order = batch->positions + capacity;
	batch->starts = batch->order + capacity;
	batch->capacity = capacity;
}

void fth_batch_init(struct fth_batch *batch, uint64_t want)
{
	batch->heap = NULL;
	batch->keys = batch->small_keys;
	batch->spare = NULL;
	batch->positions = batch->small_positions;
	batch->order = batch->small_order;
	batch->starts = batch->small_starts;
	batch->capacity = FTH_BATCH_SMALL;
	/* Without memory it goes on in smaller steps. */
	if (want > FTH_BATCH_SMALL)
		use_heap(batch, want < FTH_BATCH_LARGE ? (uint32_t)want : FTH_BATCH_LARGE);
	fth_batch_clear(batch, 0);
}

void fth_batch_release(struct fth_batch *batch)
{
	free(batch->heap);
}

/* ---- order ---- */

static void sort_few(uint64_t *keys, uint32_t n)
{
	static const uint32_t gaps[] = {57, 23, 10, 4, 1};

	for (unsigned g = 0; g < sizeof(gaps) / sizeof(gaps[0]); g++)
		for (uint32_t i = gaps[g]; i < n; i++) {
			uint64_t key = keys[i];
			uint32_t j = i;

			for (; j >= gaps[g] && keys[j - gaps[g]] > key; j -= gaps[g])
				keys[j] = keys[j - gaps[g]];
			keys[j] = key;
		}
}

/* One pass of a radix sort, by the RADIX_BITS from `shift` on. */
static void sort_pass(const uint64_t *from, uint64_t *to, uint32_t n, unsigned shift)
{
	uint32_t at[RADIX] = {0}, sum = 0;

	for (uint32_t i = 0; i < n; i++)
		at[from[i] >> shift & (RADIX - 1)]++;
	for (uint32_t digit = 0; digit < RADIX; digit++) {
		uint32_t count = at[digit];

		at[digit] = sum;
		sum += count;
	}
	for (uint32_t i = 0; i < n; i++)
		to[at[from[i] >> shift & (RADIX - 1)]++] = from[i];
}

static void sort(struct fth_batch *batch)
{
	if (batch->count <= FTH_BATCH_SMALL) {
		sort_few(batch->keys, batch->count);
		return;
	}
	/* The lowest bits are in order already: that is how the keys were made. */
	for (unsigned shift = FTH_BATCH_BITS; shift < 64 && batch->varying >> shift;
	     shift += RADIX_BITS) {
		uint64_t *to = batch->spare;

		sort_pass(batch->keys, to, batch->count, shift);
		batch->spare = batch->keys;
		batch->keys = to;
	}
}

/* From sorted keys to lines and who wants them. lines[] takes the place of keys[], not ahead. */
static void group(struct fth_batch *batch)
{
	uint32_t lines = 0;

	for (uint32_t s = 0; s < batch->count; s++) {
		uint64_t key = batch->keys[s], line = key >> FTH_BATCH_BITS;

		batch->order[s] = batch->positions[key & (FTH_BATCH_LARGE - 1)];
		if (lines > 0 && batch->lines[lines - 1] == line)
			continue;
		batch->starts[lines] = s;
		batch->lines[lines++] = line;
	}
	batch->starts[lines] = batch->count;
	batch->line_count = lines;
}

int fth_batch_visit(struct fth_batch *batch, struct fth_array *array, enum fth_cache_mode mode,
		    fth_cache_visit_fn fn, void *context)
{
	if (batch->count == 0)
		return 0;
	if (!batch->sorted)
		sort(batch);
	group(batch);
	return fth_cache_visit(array->range, mode, batch->lines, batch->line_count, fn, context);
}
