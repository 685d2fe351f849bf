/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages whose contents nobody needs any more. They are zero from then on, without being written:
 * their word says FRESH, and the device is not asked for them (page_io.c) until they have been
 * written.
 */
#include "flat/flat_internal.h"

#include <string.h>
#include <sys/mman.h>

#define DISCARD_MANY 64u

/* Release the memory of pages in DRAM [first, end), which are locked and neither held. */
static void leave_dram(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	if (first == end)
		return;
	(void)madvise(map_at(&flat->map, first), (end - first) * flat->map.page, MADV_DONTNEED);
	for (; first < end; first++) {
		ring_unreserve(&flat->ring);
		word_set(&flat->words[first], WORD_STATE | WORD_DIRTY | WORD_COUNT,
			 WORD_FLASH | WORD_FRESH);
	}
}

/* Returns false if the page stays in DRAM, since a system call uses it. */
static bool discard_one(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];

	switch (word_state(word)) {
	case WORD_CACHED:
		directory_remove(&flat->directory, directory_find(&flat->directory, page));
		word_set(word, WORD_STATE | WORD_DIRTY | WORD_COUNT | WORD_ASKED | WORD_MOVING,
			 WORD_FLASH | WORD_FRESH);
		return false;
	case WORD_FLASH:
		word_set(word, WORD_COUNT, WORD_FRESH);
		return false;
	case WORD_DRAM:
		if (!(word_get(word) & WORD_HOLDS))
			return true;
		if (move_allow_store(flat, page) == 0)
			memset(map_at(&flat->map, page), 0, flat->map.page);
		return false;
	default:
		return false; /* BROKEN: unusable until close */
	}
}

static void discard_some(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	uint64_t from = first; /* of a run of pages in DRAM */

	for (uint64_t page = first; page < end; page++)
		word_lock(&flat->words[page]);
	for (uint64_t page = first; page < end; page++) {
		if (discard_one(flat, page))
			continue;
		leave_dram(flat, from, page);
		from = page + 1;
	}
	leave_dram(flat, from, end);
	for (uint64_t page = first; page < end; page++)
		word_unlock(&flat->words[page]);
}

void discard_pages(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	sigset_t before;

	for (; first < end; first += DISCARD_MANY) {
		fault_block_signals(&before);
		discard_some(flat, first, end - first < DISCARD_MANY ? end : first + DISCARD_MANY);
		fault_restore_signals(&before);
	}
}
