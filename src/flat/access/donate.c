/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses that are donated: ordinary memory, or whatever the program maps there, lies at them.
 * The word of such a page is DONATED, and no other part of the library touches it. Bytes and
 * addresses change hands while the pages are locked and stores to them are stopped, and the new
 * memory appears with its contents, in one step: a thread that stores meanwhile faults, waits for
 * the lock, and finds the new memory when it tries again. So no store is lost.
 */
#include "flat/flat_internal.h"
#include "flat/paging/race.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void unlock_pages(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	for (; first < end; first++)
		word_unlock(&flat->words[first]);
}

/* Lock them all once none is held. */
static int lock_unheld(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	uint64_t deadline = fth_deadline_ns(FLAT_TIMEOUT);
	struct fth_backoff backoff = {0};

	for (;;) {
		bool held = false;

		for (uint64_t page = first; page < end; page++) {
			word_lock(&flat->words[page]);
			held |= word_get(&flat->words[page]) & WORD_HOLDS;
		}
		if (!held)
			return 0;
		unlock_pages(flat, first, end);
		if (fth_now_ns() >= deadline)
			return -EBUSY;
		fth_backoff_pause(&backoff);
	}
}

/* Stop stores to a page that is locked, and copy its bytes. `to` is zero. */
static int copy_page(struct fth_flat *flat, uint64_t page, uint8_t *to)
{
	uint32_t word = word_get(&flat->words[page]);
	int rc = 0;

	switch (word_state(&flat->words[page])) {
	case WORD_DRAM:
		if (word & WORD_DIRTY)
			rc = map_forbid_stores(&flat->map, page);
		/* fall through */
	case WORD_CACHED:
		FLAT_READS_BEGIN();
		if (rc == 0)
			memcpy(to, move_find(flat, page), flat->map.page);
		FLAT_READS_END();
		return rc;
	case WORD_FLASH:
		return word & WORD_FRESH ? 0 : io_read(flat, page, to);
	default:
		return -EIO;
	}
}

static void undo_copy(struct fth_flat *flat, uint64_t page)
{
	if (word_state(&flat->words[page]) == WORD_DRAM &&
	    (word_get(&flat->words[page]) & WORD_DIRTY))
		(void)map_allow_stores(&flat->map, page);
}

static void set_donated(struct fth_flat *flat, uint64_t page)
{
	uint32_t *word = &flat->words[page];

	if (word_state(word) == WORD_DRAM)
		ring_unreserve(&flat->ring);
	else if (word_state(word) == WORD_CACHED)
		directory_remove(&flat->directory, directory_find(&flat->directory, page));
	word_set(word, WORD_STATE | WORD_DIRTY | WORD_COUNT | WORD_ASKED | WORD_MOVING,
		 WORD_DONATED);
}

/* All pages are locked; `memory` is as long as they are, and zero. */
static int exchange(struct fth_flat *flat, uint64_t first, uint64_t end, bool keep, uint8_t *memory)
{
	uint64_t size = (end - first) * flat->map.page;
	int rc = 0;

	for (uint64_t page = first; page < end && rc == 0 && keep; page++)
		rc = copy_page(flat, page, memory + (page - first) * flat->map.page);
	if (rc == 0 && mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
			      map_at(&flat->map, first)) == MAP_FAILED)
		rc = -ENOMEM;
	for (uint64_t page = first; page < end; page++) {
		if (rc == 0)
			set_donated(flat, page);
		else
			undo_copy(flat, page);
	}
	return rc;
}

int donate_pages(struct fth_flat *flat, uint64_t first, uint64_t end, bool keep, uint8_t *memory)
{
	sigset_t before;
	int rc;

	fault_block_signals(&before);
	rc = lock_unheld(flat, first, end);
	if (rc == 0) {
		rc = exchange(flat, first, end, keep, memory);
		unlock_pages(flat, first, end);
	}
	fault_restore_signals(&before);
	return rc;
}

int donate_end(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	sigset_t before;
	int rc;

	fault_block_signals(&before);
	for (uint64_t page = first; page < end; page++)
		word_lock(&flat->words[page]);
	rc = map_renew(&flat->map, first, end - first);
	for (uint64_t page = first; page < end; page++) {
		if (rc == 0)
			word_set(&flat->words[page], WORD_STATE, WORD_FLASH | WORD_FRESH);
		word_unlock(&flat->words[page]);
	}
	fault_restore_signals(&before);
	return rc;
}
