/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which pages are in DRAM, oldest first. Accesses to them leave no trace, so the oldest goes to the
 * SSD-cache, where its next access is seen. A page that leaves DRAM otherwise stays in its queue
 * until it is the oldest, and has no second entry if it comes back before (WORD_QUEUED).
 *
 * Pages that a thread uses one after the other have a queue of their own. They are used once, as a
 * rule, and go first while they are more than an eighth of all: a scan does not push out what is
 * used often.
 */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>

#define RING_SPARE    64
#define PASSING_SHARE 8

static int queue_open(struct flat_queue *queue, uint64_t limit)
{
	queue->room = 2 * limit + RING_SPARE;
	queue->pages = malloc(queue->room * sizeof(*queue->pages));
	return queue->pages ? 0
			    : fth_fail(ENOMEM, "flat: no memory for %llu pages",
				       (unsigned long long)limit);
}

int ring_open(struct flat_ring *ring, uint64_t limit)
{
	int rc = queue_open(&ring->staying, limit);

	ring->limit = limit;
	return rc < 0 ? rc : queue_open(&ring->streaming, limit);
}

void ring_close(struct flat_ring *ring)
{
	free(ring->staying.pages);
	free(ring->streaming.pages);
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

static uint64_t take_first(struct flat_queue *queue)
{
	uint64_t page = queue->pages[queue->head];

	queue->head = (queue->head + 1) % queue->room;
	queue->used--;
	return page;
}

static void append(struct flat_queue *queue, uint64_t page)
{
	queue->pages[(queue->head + queue->used) % queue->room] = page;
	queue->used++;
}

/* Under the ring's lock: whether the page had an entry. */
static bool set_queued(struct fth_flat *flat, uint64_t page)
{
	return __atomic_fetch_or(&flat->words[page], WORD_QUEUED, __ATOMIC_RELAXED) & WORD_QUEUED;
}

static void clear_queued(struct fth_flat *flat, uint64_t page)
{
	__atomic_fetch_and(&flat->words[page], ~WORD_QUEUED, __ATOMIC_RELAXED);
}

/*
 * Pages in DRAM and those with a place fill at most half the room, each with one entry: the others
 * have left.
 */
static void compact(struct fth_flat *flat, struct flat_queue *queue)
{
	for (uint64_t n = queue->used; n > 0; n--) {
		uint64_t page = take_first(queue);

		if (word_state(&flat->words[page]) == WORD_DRAM)
			append(queue, page);
		else
			clear_queued(flat, page);
	}
}

void ring_push(struct fth_flat *flat, uint64_t page, bool streaming)
{
	struct flat_ring *ring = &flat->ring;
	struct flat_queue *queue = streaming ? &ring->streaming : &ring->staying;

	futex_lock(&ring->lock);
	if (!set_queued(flat, page)) {
		if (queue->used == queue->room)
			compact(flat, queue);
		append(queue, page);
	}
	futex_unlock(&ring->lock);
}

uint64_t ring_pop(struct fth_flat *flat, bool *streaming)
{
	struct flat_ring *ring = &flat->ring;
	uint64_t page = FLAT_NONE;

	futex_lock(&ring->lock);
	*streaming =
		ring->streaming.used > 0 &&
		(ring->streaming.used > ring->limit / PASSING_SHARE || ring->staying.used == 0);
	if (*streaming)
		page = take_first(&ring->streaming);
	else if (ring->staying.used > 0)
		page = take_first(&ring->staying);
	if (page != FLAT_NONE)
		clear_queued(flat, page);
	futex_unlock(&ring->lock);
	return page;
}

static int queue_grow(struct flat_queue *queue, uint64_t limit)
{
	uint64_t room = 2 * limit + RING_SPARE, *pages;

	if (room <= queue->room)
		return 0;
	pages = malloc(room * sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	for (uint64_t i = 0; i < queue->used; i++)
		pages[i] = queue->pages[(queue->head + i) % queue->room];
	free(queue->pages);
	queue->pages = pages;
	queue->room = room;
	queue->head = 0;
	return 0;
}

/* Room first, so that the limit can grow. */
int ring_set_limit(struct flat_ring *ring, uint64_t limit)
{
	int rc;

	futex_lock(&ring->lock);
	rc = queue_grow(&ring->staying, limit);
	if (rc == 0)
		rc = queue_grow(&ring->streaming, limit);
	if (rc == 0)
		__atomic_store_n(&ring->limit, limit, __ATOMIC_RELAXED);
	futex_unlock(&ring->lock);
	return rc == 0 ? 0
		       : fth_fail(ENOMEM, "flat: no memory for %llu pages",
				  (unsigned long long)limit);
}
