/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which pages are in DRAM, oldest first. Accesses to them leave no trace, so the oldest goes to the SSD-cache,
 * where its next access is seen. A page that leaves DRAM otherwise stays in the ring until it is the oldest.
 */
#include <errno.h>
#include <stdlib.h>

#include "flat/flat_internal.h"

#include "fathom/base/error.h"

#define RING_SPARE 64

int ring_open(struct flat_ring *ring, uint64_t limit)
{
	ring->limit = limit;
	ring->room = 2 * limit + RING_SPARE;
	ring->pages = malloc(ring->room * sizeof(*ring->pages));
	return ring->pages ? 0
			   : fth_fail(ENOMEM, "flat: no memory for %llu pages",
				      (unsigned long long)limit);
}

void ring_close(struct flat_ring *ring)
{
	free(ring->pages);
}

bool ring_reserve(struct flat_ring *ring)
{
	uint64_t taken = __atomic_load_n(&ring->taken, __ATOMIC_RELAXED);

	do {
		if (taken >= __atomic_load_n(&ring->limit, __ATOMIC_RELAXED))
			return false;
	} while (!__atomic_compare_exchange_n(&ring->taken, &taken, taken + 1, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void ring_unreserve(struct flat_ring *ring)
{
	__atomic_fetch_sub(&ring->taken, 1, __ATOMIC_RELAXED);
}

static uint64_t take_first(struct flat_ring *ring)
{
	uint64_t page = ring->pages[ring->head];

	ring->head = (ring->head + 1) % ring->room;
	ring->used--;
	return page;
}

static void append(struct flat_ring *ring, uint64_t page)
{
	ring->pages[(ring->head + ring->used) % ring->room] = page;
	ring->used++;
}

/* Pages in DRAM and those with a place fill at most half the room: the others have left. */
static void compact(struct fth_flat *flat)
{
	struct flat_ring *ring = &flat->ring;

	for (uint64_t n = ring->used; n > 0; n--) {
		uint64_t page = take_first(ring);

		if (word_state(&flat->words[page]) == WORD_DRAM)
			append(ring, page);
	}
}

void ring_push(struct fth_flat *flat, uint64_t page)
{
	struct flat_ring *ring = &flat->ring;

	word_lock(&ring->lock);
	if (ring->used == ring->room)
		compact(flat);
	append(ring, page);
	word_unlock(&ring->lock);
}

uint64_t ring_pop(struct flat_ring *ring)
{
	uint64_t page = FLAT_NONE;

	word_lock(&ring->lock);
	if (ring->used > 0)
		page = take_first(ring);
	word_unlock(&ring->lock);
	return page;
}

/* Room first, so that the limit can grow. */
int ring_set_limit(struct flat_ring *ring, uint64_t limit)
{
	uint64_t room = 2 * limit + RING_SPARE, *pages;

	word_lock(&ring->lock);
	if (room > ring->room) {
		pages = malloc(room * sizeof(*pages));
		if (!pages) {
			word_unlock(&ring->lock);
			return fth_fail(ENOMEM, "flat: no memory for %llu pages",
					(unsigned long long)limit);
		}
		for (uint64_t i = 0; i < ring->used; i++)
			pages[i] = ring->pages[(ring->head + i) % ring->room];
		free(ring->pages);
		ring->pages = pages;
		ring->room = room;
		ring->head = 0;
	}
	__atomic_store_n(&ring->limit, limit, __ATOMIC_RELAXED);
	word_unlock(&ring->lock);
	return 0;
}
