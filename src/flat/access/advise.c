/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages moved on request: advice, holds, the budget. */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>

static int check_range(const struct fth_flat *flat, const void *at, uint64_t length, bool store,
		       uint64_t *first, uint64_t *end)
{
	uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)flat->map.user);

	*first = offset / flat->map.page;
	*end = length ? (offset + length - 1) / flat->map.page + 1 : *first;
	return flat_check_bytes(flat, at, length, store);
}

/* To CACHED at least; to DRAM if `up`. The page is locked. */
static int bring(struct fth_flat *flat, uint64_t page, bool up, bool store)
{
	uint32_t *word = &flat->words[page];
	struct flat_slot *slot = NULL;
	int rc = 0;

	if (word_state(word) == WORD_FLASH || word_state(word) == WORD_BROKEN)
		rc = move_in(flat, page, &slot);
	if (rc == 0 && up && word_state(word) == WORD_CACHED)
		rc = move_up(flat, page, slot ? slot : directory_find(&flat->directory, page),
			     store, false);
	return rc == 0 && store ? move_allow_store(flat, page) : rc;
}

static int advise_page(struct fth_flat *flat, uint64_t page, enum fth_flat_advice advice)
{
	uint32_t *word = &flat->words[page];
	sigset_t before;
	int rc = 0;

	fault_block_signals(&before);
	word_lock(word);
	if (advice != FTH_FLAT_COLD)
		rc = bring(flat, page, advice == FTH_FLAT_HOT, false);
	else if ((word_state(word) == WORD_CACHED || word_state(word) == WORD_DRAM) &&
		 !(word_get(word) & WORD_HOLDS))
		rc = move_out(flat, page);
	word_unlock(word);
	fault_restore_signals(&before);
	return rc;
}

int fth_flat_advise(struct fth_flat *flat, void *at, uint64_t length, enum fth_flat_advice advice)
{
	uint64_t first, end, room;
	sigset_t before;
	int rc = check_range(flat, at, length, false, &first, &end);

	if (rc == 0 && (unsigned)advice > FTH_FLAT_RANDOM)
		rc = fth_fail(EINVAL, "flat: unknown advice %d", (int)advice);
	if (rc < 0)
		return rc;
	if (advice == FTH_FLAT_SEQUENTIAL || advice == FTH_FLAT_RANDOM) {
		fault_block_signals(&before);
		stream_advise(flat, first, end, advice == FTH_FLAT_SEQUENTIAL);
		fault_restore_signals(&before);
		return 0;
	}
	/* more than that would only push out what was brought in before */
	room = advice == FTH_FLAT_HOT ? flat->ring.limit
				      : flat->directory.sets * flat->directory.ways / 2;
	if (advice != FTH_FLAT_COLD && end - first > room)
		end = first + room;
	while (first < end && rc == 0)
		rc = advise_page(flat, first++, advice);
	return rc == -EBUSY && advice == FTH_FLAT_HOT ? 0 : rc;
}

/* ---- holds ---- */

static int hold_page(struct fth_flat *flat, uint64_t page, bool store)
{
	uint32_t *word = &flat->words[page], holds;
	int rc;

	word_lock(word);
	holds = word_get(word) & WORD_HOLDS;
	rc = holds == WORD_HOLDS ? -EBUSY : 0;
	if (rc == 0 && !holds &&
	    __atomic_add_fetch(&flat->held, 1, __ATOMIC_RELAXED) > flat->ring.limit / 2)
		rc = -ENOMEM;
	else if (rc == 0)
		rc = bring(flat, page, true, store);
	if (rc == 0)
		word_set(word, WORD_HOLDS, holds + (1u << WORD_HOLDS_SHIFT));
	else if (!holds)
		__atomic_fetch_sub(&flat->held, 1, __ATOMIC_RELAXED);
	word_unlock(word);
	return rc;
}

static void release_page(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page], holds;

	word_lock(word);
	holds = word_get(word) & WORD_HOLDS;
	if (holds) {
		word_set(word, WORD_HOLDS, holds - (1u << WORD_HOLDS_SHIFT));
		if (holds == 1u << WORD_HOLDS_SHIFT)
			__atomic_fetch_sub(&flat->held, 1, __ATOMIC_RELAXED);
	}
	word_unlock(word);
}

int fth_flat_hold(struct fth_flat *flat, void *at, uint64_t length, bool write)
{
	uint64_t first, end, page;
	int rc = check_range(flat, at, length, write, &first, &end);
	sigset_t before;

	fault_block_signals(&before);
	for (page = first; rc == 0 && page < end; page++) {
		rc = hold_page(flat, page, write);
		if (rc < 0)
			while (page-- > first)
				release_page(flat, page);
	}
	fault_restore_signals(&before);
	if (rc == -ENOMEM)
		return fth_fail(
			ENOMEM,
			"flat: holding %llu bytes would take more than half of the DRAM budget",
			(unsigned long long)length);
	return rc;
}

void fth_flat_release(struct fth_flat *flat, void *at, uint64_t length)
{
	uint64_t first, end;
	sigset_t before;

	if (check_range(flat, at, length, false, &first, &end) < 0)
		return;
	fault_block_signals(&before);
	while (first < end)
		release_page(flat, first++);
	fault_restore_signals(&before);
}

/* ---- the budget ---- */

int fth_flat_set_budget(struct fth_flat *flat, uint64_t budget)
{
	uint64_t cached = flat->window_slots ? 0 : flat->directory.sets * flat->directory.ways,
		 pages = budget / flat->map.page;
	sigset_t before;
	int rc = registry_check_owner(flat);

	if (rc < 0)
		return rc;
	if (pages < cached + FLAT_WAYS)
		return fth_fail(EINVAL,
				"flat: budget %llu is below the minimum of %llu bytes, the "
				"SSD-Cache and %u pages",
				(unsigned long long)budget,
				(unsigned long long)((cached + FLAT_WAYS) * flat->map.page),
				FLAT_WAYS);
	fault_block_signals(&before);
	rc = ring_set_limit(&flat->ring, pages - cached);
	fault_restore_signals(&before);
	while (rc == 0 && __atomic_load_n(&flat->ring.taken, __ATOMIC_RELAXED) > flat->ring.limit) {
		fault_block_signals(&before);
		rc = move_oldest_out(flat);
		fault_restore_signals(&before);
	}
	if (rc == 0)
		__atomic_store_n(&flat->budget, pages, __ATOMIC_RELAXED);
	return rc;
}
