/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transitions of a page between states. The caller holds the lock of the page; other pages that
 * have to make room are locked with a try-lock, never by waiting.
 */
#include "flat/flat_internal.h"
#include "flat/paging/race.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define DOWN_MANY   8u
#define DOWN_SHARE  64u
#define WRITE_TRIES 4 /* victims whose write may fail before the access fails */

uint8_t *move_find(struct fth_flat *flat, uint64_t page)
{
	return word_state(&flat->words[page]) == WORD_DRAM
		       ? map_at(&flat->map, page)
		       : directory_frame(&flat->directory, directory_find(&flat->directory, page));
}

/* First, and then stores are allowed: another thread that stores, and syncs, must find it so. */
static void set_dirty(struct fth_flat *flat, uint64_t page)
{
	word_set(&flat->words[page], WORD_DIRTY, WORD_DIRTY);
	sync_note_dirty(flat, page);
}

int move_allow_store(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];
	int rc = 0;

	if (word_get(word) & WORD_DIRTY)
		return 0;
	set_dirty(flat, page);
	if (word_state(word) == WORD_DRAM)
		rc = map_allow_stores(&flat->map, page);
	if (rc < 0) {
		word_set(word, WORD_DIRTY, 0);
		return rc;
	}
	if (word_state(word) == WORD_CACHED)
		mover_note_dirty(flat);
	return 0;
}

int move_stop_stores(struct fth_flat *flat, uint64_t page)
{
	bool writable = word_get(&flat->words[page]) & WORD_DIRTY;

	return writable ? map_forbid_stores(&flat->map, page) : 0;
}

/* Write a page that was changed; its bytes are at `from`. */
static int clean(struct fth_flat *flat, uint64_t page, const uint8_t *from)
{
	uint64_t start = latency_start(&flat->model);
	int rc;

	if (!(word_get(&flat->words[page]) & WORD_DIRTY))
		return 0;
	FLAT_READS_BEGIN();
	rc = io_write(flat, page, from);
	FLAT_READS_END();
	latency_wait(start, flat->model.stack_write_ns);
	if (rc == 0)
		word_set(&flat->words[page], WORD_DIRTY, 0);
	return rc;
}

void move_give_slot(struct fth_flat *flat, uint64_t old, struct flat_slot *slot, uint64_t page)
{
	word_set(&flat->words[old], WORD_STATE | WORD_ASKED | WORD_MOVING, WORD_FLASH);
	readmission_gone(flat, old);
	directory_replace(&flat->directory, slot, page);
	flat_count(flat, FTH_FLAT_STAT_EVICTIONS);
}

/* Write `old`, which is locked, if it was changed, and give its slot to `page`. */
static int take_slot(struct fth_flat *flat, uint64_t old, struct flat_slot *slot, uint64_t page)
{
	int rc;

	if (word_get(&flat->words[old]) & WORD_DIRTY)
		mover_ask_clean(flat);
	rc = clean(flat, old, directory_frame(&flat->directory, slot));
	if (rc < 0) { /* the next try finds another */
		(void)directory_touch(&flat->directory, slot);
		return rc;
	}
	move_give_slot(flat, old, slot, page);
	return 0;
}

int move_find_slot(struct fth_flat *flat, uint64_t page, bool wait, struct flat_slot **slot)
{
	uint64_t deadline = fth_deadline_ns(FLAT_TIMEOUT);
	unsigned tries = 0;

	for (;;) {
		uint64_t old;
		int rc;

		*slot = directory_enter(flat, page, &old);
		if (!*slot) {
			if (!wait || fth_now_ns() >= deadline)
				return -EBUSY;
			sched_yield();
			continue;
		}
		if (old == FLAT_NONE)
			return 0;
		rc = take_slot(flat, old, *slot, page);
		word_unlock(&flat->words[old]);
		if (rc == 0 || ++tries == WRITE_TRIES)
			return rc;
	}
}

void move_in_end(struct fth_flat *flat, uint64_t page, struct flat_slot *slot, int result)
{
	if (result == 0)
		word_set(&flat->words[page], WORD_STATE, WORD_CACHED);
	else if (word_state(&flat->words[page]) !=
		 WORD_BROKEN) /* else its frame may still be written to */
		directory_remove(&flat->directory, slot);
}

int move_in(struct fth_flat *flat, uint64_t page, struct flat_slot **slot)
{
	uint64_t start;
	int rc;

	if (word_state(&flat->words[page]) == WORD_BROKEN)
		return -ETIMEDOUT;
	rc = move_find_slot(flat, page, true, slot);
	if (rc < 0)
		return rc;
	start = latency_start(&flat->model);
	rc = io_read(flat, page, directory_frame(&flat->directory, *slot));
	latency_wait(start, flat->model.stack_read_ns);
	move_in_end(flat, page, *slot, rc);
	return rc;
}

/*
 * Pages that leave DRAM together when it is full: their release costs less than that of each alone.
 */
static unsigned down_many(const struct fth_flat *flat)
{
	uint64_t many = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED) / DOWN_SHARE;

	return many < 1 ? 1 : many < DOWN_MANY ? (unsigned)many : DOWN_MANY;
}

/* A place in DRAM. */
static int take_place(struct fth_flat *flat)
{
	int rc;

	while (!ring_reserve(&flat->ring)) {
		rc = move_oldest_down(flat, down_many(flat));
		if (rc < 0)
			return rc;
	}
	mover_keep_room(flat);
	return 0;
}

int move_up_from(struct fth_flat *flat, uint64_t page, struct flat_slot *slot, const void *copy,
		 bool streaming)
{
	uint32_t *word = &flat->words[page];
	bool writable = word_get(word) & WORD_DIRTY;
	uint64_t start = latency_start(&flat->model);
	int rc = map_put(&flat->map, page, copy, writable);

	if (rc < 0)
		return rc;
	latency_wait(start, flat->model.map_ns);
	if (slot)
		directory_remove(&flat->directory, slot);
	word_set(word, WORD_STATE | WORD_ASKED | WORD_MOVING, WORD_DRAM);
	if (!streaming)
		readmission_enter(flat, page);
	ring_push(flat, page, streaming);
	flat_count(flat, FTH_FLAT_STAT_PROMOTIONS);
	return 0;
}

int move_up(struct fth_flat *flat, uint64_t page, struct flat_slot *slot, bool store,
	    bool streaming)
{
	uint64_t start = latency_start(&flat->model);
	int rc = take_place(flat);

	if (rc < 0)
		return rc;
	latency_wait(start, flat->model.promote_ns);
	if (store)
		set_dirty(flat, page);
	rc = move_up_from(flat, page, slot, directory_frame(&flat->directory, slot), streaming);
	if (rc < 0)
		ring_unreserve(&flat->ring);
	return rc;
}

int move_as_wanted(struct fth_flat *flat, uint64_t page, struct flat_slot **slot, bool miss,
		   bool store, bool stream_now)
{
	struct stream_ahead ahead;
	enum policy_wish wish = policy_wants(flat, page, *slot, miss, &ahead);
	bool now = wish == POLICY_FILL || (wish == POLICY_UP_STREAMING && stream_now);
	int rc;

	if (ahead.pages > 0)
		mover_ahead(flat, &ahead);
	if (wish == POLICY_STAY || (!now && mover_ask_up(flat, page)))
		return 0;
	rc = move_up(flat, page, *slot, store, wish == POLICY_UP_STREAMING);
	if (rc == 0)
		*slot = NULL;
	return rc == -EBUSY ? 0 : rc; /* without a place in DRAM it is used where it is */
}

int move_fresh(struct fth_flat *flat, uint64_t page, bool store)
{
	static uint8_t zeroes[FTH_FLAT_PAGE_MAX];
	int rc = take_place(flat);

	if (rc < 0)
		return rc;
	if (store)
		set_dirty(flat, page);
	rc = map_put(&flat->map, page, zeroes, store);
	if (rc < 0) {
		word_set(&flat->words[page], WORD_DIRTY, 0);
		ring_unreserve(&flat->ring);
		return rc;
	}
	word_set(&flat->words[page], WORD_STATE | WORD_DIRTY, WORD_DRAM | (store ? WORD_DIRTY : 0));
	readmission_enter(flat, page);
	ring_push(flat, page, false);
	flat_count(flat, FTH_FLAT_STAT_PROMOTIONS);
	return 0;
}

/* The page has a place in DRAM; its bytes come to `buffer`. */
static int read_straight(struct fth_flat *flat, uint64_t page, bool store, uint8_t *buffer,
			 uint64_t start)
{
	const struct flat_latency_model *model = &flat->model;
	int rc = io_read(flat, page, buffer);

	if (rc < 0)
		return rc;
	latency_wait(start, model->stack_read_ns + model->promote_ns);
	if (store)
		set_dirty(flat, page);
	rc = move_up_from(flat, page, NULL, buffer, false);
	if (rc < 0)
		word_set(&flat->words[page], WORD_DIRTY, 0);
	return rc;
}

int move_straight(struct fth_flat *flat, uint64_t page, bool store)
{
	uint64_t start = latency_start(&flat->model);
	struct flat_slot *slot;
	uint8_t *buffer;
	int rc;

	if (word_state(&flat->words[page]) == WORD_BROKEN)
		return -ETIMEDOUT;
	buffer = io_take_buffer(flat);
	if (!buffer) {
		rc = move_in(flat, page, &slot);
		return rc < 0 ? rc : move_up(flat, page, slot, store, false);
	}
	rc = take_place(flat);
	if (rc == 0) {
		rc = read_straight(flat, page, store, buffer, start);
		if (rc < 0)
			ring_unreserve(&flat->ring);
	}
	if (word_state(&flat->words[page]) != WORD_BROKEN) /* else it may still be written to */
		io_give_buffer(flat, buffer);
	return rc;
}

int move_out(struct fth_flat *flat, uint64_t page)
{
	bool dram = word_state(&flat->words[page]) == WORD_DRAM;
	struct flat_slot *slot = dram ? NULL : directory_find(&flat->directory, page);
	int rc = dram ? move_stop_stores(flat, page) : 0;

	if (rc == 0)
		rc = clean(flat, page,
			   dram ? map_at(&flat->map, page)
				: directory_frame(&flat->directory, slot));
	if (rc == 0 && dram)
		rc = map_take(&flat->map, page);
	if (rc < 0) {
		if (dram && (word_get(&flat->words[page]) & WORD_DIRTY))
			(void)map_allow_stores(&flat->map, page);
		return rc;
	}
	if (dram)
		ring_unreserve(&flat->ring);
	else
		directory_remove(&flat->directory, slot);
	word_set(&flat->words[page], WORD_STATE | WORD_ASKED | WORD_MOVING, WORD_FLASH);
	return 0;
}
