/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A page from one state to another. The caller holds the lock of the page; other pages that have to make room are locked by
 * trying, never by waiting.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "flat/flat_internal.h"
#include "flat/race.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#define DOWN_MANY   8u
#define DOWN_SHARE  64u
#define WRITE_TRIES 4 /* victims whose write may fail before the access fails */

uint8_t *move_find(struct fth_flat *flat, uint64_t page)
{
	return word_state(&flat->words[page]) == WORD_DRAM
		       ? map_at(&flat->map, page)
		       : directory_frame(&flat->directory, page);
}

int move_allow_store(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];
	int rc = 0;

	if (word_get(word) & WORD_DIRTY)
		return 0;
	if (word_state(word) == WORD_DRAM)
		rc = map_allow_stores(&flat->map, page);
	if (rc == 0)
		word_set(word, WORD_DIRTY, WORD_DIRTY);
	return rc;
}

/* Stores of the program to a page in DRAM fault from now on, and wait for its lock. */
static int stop_stores(struct fth_flat *flat, uint64_t page)
{
	bool writable = word_get(&flat->words[page]) & WORD_DIRTY;

	return writable ? map_forbid_stores(&flat->map, page) : 0;
}

static int clean(struct fth_flat *flat, uint64_t page)
{
	uint64_t start = flat->options.model.stack_write_ns ? fth_now_ns() : 0;
	int rc;

	if (!(word_get(&flat->words[page]) & WORD_DIRTY))
		return 0;
	FLAT_READS_BEGIN();
	rc = io_write(flat, page, move_find(flat, page));
	FLAT_READS_END();
	fault_delay(start, flat->options.model.stack_write_ns);
	if (rc == 0)
		word_set(&flat->words[page], WORD_DIRTY, 0);
	return rc;
}

/* Evict `old`, which is locked, and give its slot to `page`. */
static int take_slot(struct fth_flat *flat, uint64_t old, uint64_t page)
{
	int rc;

	if (word_get(&flat->words[old]) & WORD_DIRTY)
		mover_ask_clean(flat);
	rc = clean(flat, old);

	if (rc < 0) { /* the next try finds another */
		(void)directory_touch(&flat->directory, old);
		return rc;
	}
	word_set(&flat->words[old], WORD_STATE | WORD_ASKED | WORD_MOVING, WORD_FLASH);
	policy_evicted(flat, directory_replace(&flat->directory, old, page));
	flat_count(flat, FTH_FLAT_STAT_EVICTIONS);
	return 0;
}

/* A slot in the SSD-cache. -EBUSY if all pages of the set are locked, at once or, if it may wait, after a while. */
static int find_slot(struct fth_flat *flat, uint64_t page, bool wait)
{
	uint64_t deadline = fth_deadline_ns(FLAT_TIMEOUT);
	unsigned tries = 0;

	for (;;) {
		uint64_t old = directory_enter(flat, page);
		int rc;

		if (old == FLAT_NONE)
			return 0;
		if (old == DIRECTORY_BUSY) {
			if (!wait || fth_now_ns() >= deadline)
				return -EBUSY;
			sched_yield();
			continue;
		}
		rc = take_slot(flat, old, page);
		word_unlock(&flat->words[old]);
		if (rc == 0 || ++tries == WRITE_TRIES)
			return rc;
	}
}

int move_in_begin(struct fth_flat *flat, uint64_t page)
{
	return find_slot(flat, page, true);
}

int move_in_try(struct fth_flat *flat, uint64_t page)
{
	return find_slot(flat, page, false);
}

void move_in_end(struct fth_flat *flat, uint64_t page, int result)
{
	if (result == 0)
		word_set(&flat->words[page], WORD_STATE, WORD_CACHED);
	else if (word_state(&flat->words[page]) !=
		 WORD_BROKEN) /* else its frame may still be written to */
		directory_remove(&flat->directory, page);
}

int move_in(struct fth_flat *flat, uint64_t page)
{
	uint64_t start = 0;
	int rc;

	if (word_state(&flat->words[page]) == WORD_BROKEN)
		return -ETIMEDOUT;
	rc = move_in_begin(flat, page);
	if (rc < 0)
		return rc;
	if (flat->options.model.stack_read_ns)
		start = fth_now_ns();
	rc = io_read(flat, page, directory_frame(&flat->directory, page));
	fault_delay(start, flat->options.model.stack_read_ns);
	move_in_end(flat, page, rc);
	return rc;
}

/* Pages that leave DRAM together when it is full: their release costs less than that of each alone. */
static unsigned down_many(const struct fth_flat *flat)
{
	uint64_t many = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED) / DOWN_SHARE;

	return many < 1 ? 1 : many < DOWN_MANY ? (unsigned)many : DOWN_MANY;
}

int move_up_from(struct fth_flat *flat, uint64_t page, const void *copy, bool passing)
{
	uint32_t *word = &flat->words[page];
	bool writable = word_get(word) & WORD_DIRTY;
	uint64_t start = flat->options.model.map_ns ? fth_now_ns() : 0;
	int rc = map_put(&flat->map, page, copy, writable);

	if (rc < 0)
		return rc;
	fault_delay(start, flat->options.model.map_ns);
	directory_remove(&flat->directory, page);
	word_set(word, WORD_STATE | WORD_ASKED | WORD_MOVING, WORD_DRAM);
	ring_push(flat, page, passing);
	flat_count(flat, FTH_FLAT_STAT_PROMOTIONS);
	return 0;
}

int move_up(struct fth_flat *flat, uint64_t page, bool store, bool passing)
{
	uint32_t *word = &flat->words[page];
	uint64_t start = flat->options.model.promote_ns ? fth_now_ns() : 0;
	int rc;

	while (!ring_reserve(&flat->ring)) {
		rc = move_oldest_down(flat, down_many(flat));
		if (rc < 0)
			return rc;
	}
	fault_delay(start, flat->options.model.promote_ns);
	if (store)
		word_set(word, WORD_DIRTY, WORD_DIRTY);
	rc = move_up_from(flat, page, directory_frame(&flat->directory, page), passing);
	if (rc < 0)
		ring_unreserve(&flat->ring);
	return rc;
}

int move_fresh(struct fth_flat *flat, uint64_t page, bool store)
{
	static uint8_t zeroes[FTH_FLAT_PAGE_MAX];
	int rc;

	while (!ring_reserve(&flat->ring)) {
		rc = move_oldest_down(flat, down_many(flat));
		if (rc < 0)
			return rc;
	}
	rc = map_put(&flat->map, page, zeroes, store);
	if (rc < 0) {
		ring_unreserve(&flat->ring);
		return rc;
	}
	word_set(&flat->words[page], WORD_STATE | WORD_DIRTY, WORD_DRAM | (store ? WORD_DIRTY : 0));
	ring_push(flat, page, false);
	flat_count(flat, FTH_FLAT_STAT_PROMOTIONS);
	return 0;
}

int move_out(struct fth_flat *flat, uint64_t page)
{
	bool dram = word_state(&flat->words[page]) == WORD_DRAM;
	int rc = dram ? stop_stores(flat, page) : 0;

	if (rc == 0)
		rc = clean(flat, page);
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
		directory_remove(&flat->directory, page);
	word_set(&flat->words[page], WORD_STATE | WORD_ASKED | WORD_MOVING, WORD_FLASH);
	return 0;
}

/* ---- out of DRAM ---- */

/*
 * What is done before a page leaves DRAM: its bytes are in the SSD-cache or on the device afterwards, and stores are stopped. A page
 * that was passing and is clean needs nothing. Where no slot is free, it goes to flash: the caller may have the slot of
 * another page, and threads that wait for slots while they have one would wait for each other.
 */
static int leave_begin(struct fth_flat *flat, uint64_t page, bool passing, enum word_state *to)
{
	int rc;

	*to = WORD_FLASH;
	if (passing && !(word_get(&flat->words[page]) & WORD_DIRTY))
		return 0;
	rc = find_slot(flat, page, false);
	if (rc == 0)
		*to = WORD_CACHED;
	else if (rc != -EBUSY)
		return rc;
	rc = stop_stores(flat, page);
	if (rc == 0 && *to == WORD_CACHED) {
		FLAT_READS_BEGIN();
		memcpy(directory_frame(&flat->directory, page), map_at(&flat->map, page),
		       flat->map.page);
		FLAT_READS_END();
		return 0;
	}
	return rc < 0 ? rc : clean(flat, page);
}

/* It stays. */
static void leave_undo(struct fth_flat *flat, uint64_t page, enum word_state to)
{
	if (to == WORD_CACHED)
		directory_remove(&flat->directory, page);
	if (word_get(&flat->words[page]) & WORD_DIRTY)
		(void)map_allow_stores(&flat->map, page);
}

static void leave_end(struct fth_flat *flat, uint64_t page, enum word_state to)
{
	word_set(&flat->words[page], WORD_STATE, to);
	ring_unreserve(&flat->ring);
	flat_count(flat, to == WORD_CACHED ? FTH_FLAT_STAT_DEMOTIONS : FTH_FLAT_STAT_EVICTIONS);
}

/* The next page to go that is neither locked nor held, now locked; FLAT_NONE if there is none. */
static uint64_t take_oldest(struct fth_flat *flat, bool *passing)
{
	uint64_t tries = 2 * flat->ring.staying.room;

	while (tries-- > 0) {
		uint64_t page = ring_pop(flat, passing);
		uint32_t *word = &flat->words[page];

		if (page == FLAT_NONE)
			break;
		if (!word_try_lock(word)) {
			ring_push(flat, page, *passing);
			sched_yield();
			continue;
		}
		if (word_state(word) == WORD_DRAM) {
			if (!(word_get(word) & WORD_HOLDS))
				return page;
			ring_push(flat, page, false);
		}
		word_unlock(word);
	}
	return FLAT_NONE;
}

int move_oldest_out(struct fth_flat *flat)
{
	bool passing;
	uint64_t page = take_oldest(flat, &passing);
	int rc;

	if (page == FLAT_NONE)
		return -EBUSY;
	rc = move_out(flat, page);
	if (rc < 0)
		ring_push(flat, page, passing);
	word_unlock(&flat->words[page]);
	return rc;
}

/* Pages that are to leave DRAM together, all locked. */
struct leaving {
	uint64_t pages[FLAT_DOWN_MAX];
	enum word_state to[FLAT_DOWN_MAX];
	unsigned n;
};

static int collect_leaving(struct fth_flat *flat, struct leaving *leaving, unsigned most)
{
	int rc = 0;

	while (leaving->n < most && rc == 0) {
		bool passing;
		uint64_t page = take_oldest(flat, &passing);
		enum word_state *to = &leaving->to[leaving->n];

		if (page == FLAT_NONE)
			return -EBUSY;
		rc = leave_begin(flat, page, passing, to);
		if (rc == 0) {
			leaving->pages[leaving->n++] = page;
			continue;
		}
		leave_undo(flat, page, *to);
		ring_push(flat, page, passing);
		word_unlock(&flat->words[page]);
	}
	return rc;
}

int move_oldest_down(struct fth_flat *flat, unsigned n)
{
	struct leaving leaving = {.n = 0};
	int rc = collect_leaving(flat, &leaving, n < FLAT_DOWN_MAX ? n : FLAT_DOWN_MAX);
	unsigned taken;

	if (leaving.n == 0)
		return rc;
	taken = map_take_many(&flat->map, leaving.pages, leaving.n);
	for (unsigned i = 0; i < leaving.n; i++) {
		if (i < taken) {
			leave_end(flat, leaving.pages[i], leaving.to[i]);
		} else {
			leave_undo(flat, leaving.pages[i], leaving.to[i]);
			ring_push(flat, leaving.pages[i], false);
		}
		word_unlock(&flat->words[leaving.pages[i]]);
	}
	return taken > 0 ? 0 : -ENOMEM;
}
