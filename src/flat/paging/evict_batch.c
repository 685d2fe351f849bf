/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages leave DRAM, the oldest first, several at a time: one request of the device for all that
 * have to be written, and one system call to unmap all.
 *
 *  1. The pages are locked, by trying. Each gets a slot of the SSD-cache: an empty one, or that of
 *     a page that is evicted, which is locked too. If no slot is free, the page goes to flash:
 *     waiting for slots while holding some could be a deadlock.
 *  2. Stores to them are stopped by write protection.
 *  3. Evicted pages that were changed are written, and so are changed pages that go to flash. A
 *     page whose write failed stays.
 *  4. The bytes of the others are copied to their slots, and they are unmapped.
 */
#include "flat/flat_internal.h"
#include "flat/paging/race.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define WRITE_TRIES 4  /* batches of which no page could leave, before the access fails */
#define AGAIN_MAX   64 /* pages in a row that stay although they are the oldest */

struct leaving {
	uint64_t page;
	struct flat_slot *slot; /* of the SSD-cache, if it goes there */
	uint64_t evicted;	/* the page that has that slot until then; FLAT_NONE: none */
	bool streaming;
	enum word_state to;
	int result;
};

struct batch {
	struct leaving list[FLAT_DOWN_MAX];
	unsigned n;
};

/* The next page to go that is neither locked nor held, now locked; FLAT_NONE if there is none. */
static uint64_t take_oldest(struct fth_flat *flat, bool *streaming)
{
	uint64_t tries = 2 * flat->ring.staying.room;
	unsigned again = 0;

	while (tries-- > 0) {
		uint64_t page = ring_pop(flat, streaming);
		uint32_t *word = &flat->words[page];

		if (page == FLAT_NONE)
			break;
		if (!word_try_lock(word)) {
			ring_push(flat, page, *streaming);
			sched_yield();
			continue;
		}
		if (word_state(word) == WORD_DRAM) {
			bool held = word_get(word) & WORD_HOLDS;

			if (!held &&
			    (*streaming || again++ == AGAIN_MAX || !readmission_skip(flat, page)))
				return page;
			ring_push(flat, page, false);
		}
		word_unlock(word);
	}
	return FLAT_NONE;
}

int move_oldest_out(struct fth_flat *flat)
{
	bool streaming;
	uint64_t page = take_oldest(flat, &streaming);
	int rc;

	if (page == FLAT_NONE)
		return -EBUSY;
	rc = move_out(flat, page);
	if (rc < 0)
		ring_push(flat, page, streaming);
	word_unlock(&flat->words[page]);
	return rc;
}

static bool is_dirty(const struct fth_flat *flat, uint64_t page)
{
	return word_get(&flat->words[page]) & WORD_DIRTY;
}

/* Step 1. A page that was streaming and is clean needs no slot: it is not used again soon. */
static void choose_place(struct fth_flat *flat, struct leaving *l)
{
	l->to = WORD_FLASH;
	l->evicted = FLAT_NONE;
	if (l->streaming && !is_dirty(flat, l->page))
		return;
	l->slot = directory_enter(flat, l->page, &l->evicted);
	if (l->slot)
		l->to = WORD_CACHED;
}

/* Steps 1 and 2. */
static void collect_oldest(struct fth_flat *flat, struct batch *batch, unsigned most)
{
	while (batch->n < most) {
		struct leaving *l = &batch->list[batch->n];

		l->page = take_oldest(flat, &l->streaming);
		if (l->page == FLAT_NONE)
			return;
		choose_place(flat, l);
		l->result = move_stop_stores(flat, l->page);
		batch->n++;
	}
}

/* The page that has to be written before this one can leave, and its bytes; FLAT_NONE if none. */
static uint64_t to_write(const struct fth_flat *flat, const struct leaving *l, void **memory)
{
	uint64_t page = l->to == WORD_FLASH ? l->page : l->evicted;

	if (l->result != 0 || page == FLAT_NONE || !is_dirty(flat, page))
		return FLAT_NONE;
	*memory = page == l->page ? map_at(&flat->map, page)
				  : directory_frame(&flat->directory, l->slot);
	return page;
}

/* Step 3. */
static void write_batch(struct fth_flat *flat, struct batch *batch)
{
	uint64_t pages[FLAT_DOWN_MAX], start = latency_start(&flat->model);
	struct leaving *of[FLAT_DOWN_MAX];
	void *memory[FLAT_DOWN_MAX];
	int results[FLAT_DOWN_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < batch->n; i++) {
		pages[n] = to_write(flat, &batch->list[i], &memory[n]);
		if (pages[n] != FLAT_NONE)
			of[n++] = &batch->list[i];
	}
	if (n == 0)
		return;
	FLAT_READS_BEGIN();
	(void)io_many(flat, FTH_DEV_WRITE, pages, memory, n, results,
		      fth_deadline_ns(FLAT_TIMEOUT));
	FLAT_READS_END();
	latency_wait(start, n * flat->model.stack_write_ns);
	for (unsigned i = 0; i < n; i++) {
		of[i]->result = results[i];
		if (results[i] == 0)
			word_set(&flat->words[pages[i]], WORD_DIRTY, 0);
	}
}

/* Step 4, before the page is unmapped: its bytes are in its slot. */
static void copy_down(struct fth_flat *flat, struct leaving *l)
{
	if (l->evicted != FLAT_NONE) {
		if (l->result == 0)
			move_give_slot(flat, l->evicted, l->slot, l->page);
		else /* the next try finds another */
			(void)directory_touch(&flat->directory, l->slot);
		word_unlock(&flat->words[l->evicted]);
	}
	if (l->result < 0 || l->to != WORD_CACHED)
		return;
	FLAT_READS_BEGIN();
	memcpy(directory_frame(&flat->directory, l->slot), map_at(&flat->map, l->page),
	       flat->map.page);
	FLAT_READS_END();
}

/* It stays, since a write failed or it could not be unmapped. */
static void stay(struct fth_flat *flat, const struct leaving *l)
{
	if (l->to == WORD_CACHED && (l->result == 0 || l->evicted == FLAT_NONE))
		directory_remove(&flat->directory, l->slot);
	if (is_dirty(flat, l->page))
		(void)map_allow_stores(&flat->map, l->page);
	ring_push(flat, l->page, l->streaming);
	word_unlock(&flat->words[l->page]);
}

static void leave(struct fth_flat *flat, const struct leaving *l)
{
	word_set(&flat->words[l->page], WORD_STATE, l->to);
	readmission_left(flat, l->page);
	if (l->to == WORD_FLASH)
		readmission_gone(flat, l->page);
	ring_unreserve(&flat->ring);
	flat_count(flat, l->to == WORD_CACHED ? FTH_FLAT_STAT_DEMOTIONS : FTH_FLAT_STAT_EVICTIONS);
	if (l->to == WORD_CACHED && is_dirty(flat, l->page))
		mover_note_dirty(flat);
	word_unlock(&flat->words[l->page]);
}

/* Step 4. Returns how many left. */
static unsigned unmap_batch(struct fth_flat *flat, struct batch *batch)
{
	uint64_t pages[FLAT_DOWN_MAX];
	unsigned n = 0, taken, seen = 0;

	for (unsigned i = 0; i < batch->n; i++) {
		copy_down(flat, &batch->list[i]);
		if (batch->list[i].result == 0)
			pages[n++] = batch->list[i].page;
	}
	taken = map_take_many(&flat->map, pages, n);
	for (unsigned i = 0; i < batch->n; i++) {
		struct leaving *l = &batch->list[i];

		if (l->result == 0 && seen++ < taken)
			leave(flat, l);
		else
			stay(flat, l);
	}
	return taken;
}

static int first_error(const struct batch *batch)
{
	for (unsigned i = 0; i < batch->n; i++)
		if (batch->list[i].result < 0)
			return batch->list[i].result;
	return -ENOMEM;
}

int move_oldest_down(struct fth_flat *flat, unsigned n)
{
	int rc = -EBUSY;

	for (unsigned tries = 0; tries < WRITE_TRIES; tries++) {
		struct batch batch = {.n = 0};

		collect_oldest(flat, &batch, n < FLAT_DOWN_MAX ? n : FLAT_DOWN_MAX);
		if (batch.n == 0)
			return rc;
		write_batch(flat, &batch);
		if (unmap_batch(flat, &batch) > 0)
			return 0;
		rc = first_error(&batch);
	}
	return rc;
}
