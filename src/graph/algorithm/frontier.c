/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/algorithm/frontier.h"

#include <stdlib.h>
#include <string.h>

/* Sorting a queue of more takes longer than looking through the bitmap. */
#define QUEUE_SHARE 4096
#define QUEUE_MIN   64

static uint64_t words(const struct fth_frontier *frontier)
{
	return (frontier->vertices + 63) / 64;
}

int fth_frontier_init(struct fth_frontier *frontier, uint64_t vertices)
{
	*frontier = (struct fth_frontier){.vertices = vertices};
	frontier->queue_max = vertices / QUEUE_SHARE + QUEUE_MIN;
	frontier->bits = fth_graph_alloc_zeroed(words(frontier), 8);
	frontier->queue = malloc(frontier->queue_max * sizeof(*frontier->queue));
	return frontier->bits && frontier->queue ? 0 : -ENOMEM;
}

void fth_frontier_release(struct fth_frontier *frontier)
{
	free(frontier->bits);
	free(frontier->queue);
	*frontier = (struct fth_frontier){0};
}

uint64_t fth_frontier_bytes(const struct fth_frontier *frontier)
{
	return words(frontier) * 8 + frontier->queue_max * sizeof(*frontier->queue);
}

/* ---- filling ---- */

void fth_feeder_flush(struct fth_feeder *feeder, struct fth_frontier *frontier)
{
	/* relaxed: gives each thread its own part of the queue; the team's end publishes it. */
	uint64_t at = fth_add_relaxed_dev64(&frontier->count, feeder->count);

	if (at + feeder->count <= frontier->queue_max)
		memcpy(frontier->queue + at, feeder->vertices, feeder->count * sizeof(uint32_t));
	feeder->count = 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

void fth_frontier_seal(struct fth_frontier *frontier)
{
	frontier->next = 0;
	if (fth_frontier_sparse(frontier))
		qsort(frontier->queue, frontier->count, sizeof(uint32_t), by_number);
}

/* ---- taking ---- */

static size_t take_queued(struct fth_frontier *frontier, uint32_t *out, size_t max)
{
	uint64_t first = fth_graph_team_take(&frontier->next, max, frontier->count);
	uint64_t left = frontier->count - first;
	size_t n = left < max ? left : max;

	memcpy(out, frontier->queue + first, n * sizeof(*out));
	return n;
}

/* Who is in among `max` vertices from `first` on; both are multiples of 64. */
static size_t list_bits(const struct fth_frontier *frontier, uint64_t first, size_t max,
			uint32_t *out)
{
	uint64_t end = (first + max) / 64, all = words(frontier);
	size_t n = 0;

	for (uint64_t w = first / 64; w < end && w < all; w++)
		for (uint64_t bits = frontier->bits[w]; bits; bits &= bits - 1)
			out[n++] = (uint32_t)(w * 64 + (unsigned)__builtin_ctzll(bits));
	return n;
}

size_t fth_frontier_take(struct fth_frontier *frontier, uint32_t *out, size_t max)
{
	uint64_t first;
	size_t n = 0;

	if (fth_frontier_sparse(frontier))
		return take_queued(frontier, out, max);
	max = max / 64 * 64;
	while (n == 0) {
		first = fth_graph_team_take(&frontier->next, max, frontier->vertices);
		if (first == frontier->vertices)
			break;
		if (frontier->backward)
			first = (frontier->vertices - 1) / max * max - first;
		n = list_bits(frontier, first, max, out);
	}
	return n;
}

void fth_frontier_progress(const struct fth_frontier *frontier, uint64_t *done, uint64_t *total)
{
	*total = fth_frontier_sparse(frontier) ? frontier->count : frontier->vertices;
	*done = fth_load_relaxed_dev64(&frontier->next);
	if (*done > *total)
		*done = *total;
}

/* ---- the set as a whole ---- */

void fth_frontier_clear(struct fth_frontier *frontier)
{
	if (!fth_frontier_sparse(frontier))
		memset(frontier->bits, 0, words(frontier) * 8);
	else
		for (uint64_t i = 0; i < frontier->count; i++)
			frontier->bits[frontier->queue[i] / 64] = 0;
	frontier->count = 0;
	frontier->next = 0;
}
