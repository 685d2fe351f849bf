/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Durability: what was changed is written, then the device is flushed, then the log is trimmed.
 *
 * Which pages were changed is in their words. A bit for each FLAT_GROUP pages says whether any of
 * them may have been, so that a sync looks at few words if few pages were changed.
 *
 *  1. The bit of a group is set after a page of it becomes DIRTY, and before the store to that
 *     page.
 *  2. Only a sync clears bits, before it looks at the words, and under sync_lock. It sets the bit
 *     again for pages that it could not write.
 *  3. A sync that finds sync_lock taken looks at all words: bits that the other one cleared may be
 *     of pages that it is still writing, and the locks of those pages make this one wait for them.
 */
#include "flat/flat_internal.h"
#include "flat/durable/persist_log.h"
#include "flat/paging/race.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>

void sync_note_dirty(struct fth_flat *flat, uint64_t page)
{
	uint64_t group = page / FLAT_GROUP;

	/*
	 * release: a sync that clears the bit sees the word; always written, since a sync may be
	 * clearing it
	 */
	__atomic_fetch_or(&flat->dirty_groups[group / 64], (uint64_t)1 << (group % 64),
			  __ATOMIC_RELEASE);
}

/*
 * The first page at or after `page` whose group may have changed pages; clears its bit if it is
 * looked at from its start.
 */
static uint64_t next_changed(struct fth_flat *flat, uint64_t page, uint64_t end, bool clear)
{
	while (page < end) {
		uint64_t group = page / FLAT_GROUP, *bits = &flat->dirty_groups[group / 64];
		uint64_t left = __atomic_load_n(bits, __ATOMIC_ACQUIRE) >> (group % 64);
		uint64_t skip = left ? (uint64_t)__builtin_ctzll(left) : 64 - group % 64;

		if (skip == 0) {
			bool whole = page % FLAT_GROUP == 0 &&
				     (end - page >= FLAT_GROUP || end == flat->pages);

			if (clear && whole) /* acquire: see sync_note_dirty() */
				__atomic_fetch_and(bits, ~((uint64_t)1 << (group % 64)),
						   __ATOMIC_ACQUIRE);
			return page;
		}
		page = (group + skip) * FLAT_GROUP;
	}
	return end;
}

/* Lock a page if it is DIRTY and has `bits`, and stop stores to it. */
static bool take_dirty(struct fth_flat *flat, uint64_t page, uint32_t bits)
{
	uint32_t *word = &flat->words[page];

	bits |= WORD_DIRTY;
	if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bits) != bits)
		return false;
	word_lock(word);
	if ((word_get(word) & WORD_DIRTY) &&
	    (word_state(word) != WORD_DRAM || map_forbid_stores(&flat->map, page) == 0))
		return true;
	if (word_get(word) & WORD_DIRTY) /* stores to it go on: the next sync tries again */
		sync_note_dirty(flat, page);
	word_unlock(word);
	return false;
}

static void give_back(struct fth_flat *flat, uint64_t page, int result)
{
	uint32_t *word = &flat->words[page];

	if (result == 0)
		word_set(word, WORD_DIRTY, 0);
	else
		sync_note_dirty(flat, page);
	if (result != 0 && word_state(word) == WORD_DRAM)
		(void)map_allow_stores(&flat->map, page);
	word_unlock(word);
}

/* How a sync finds pages that were changed. */
enum finding {
	FIND_ALL,   /* by looking at all words */
	FIND_KEEP,  /* by the bits of groups */
	FIND_CLEAR, /* the same, and the bits are cleared; under sync_lock */
};

/* Write up to FLAT_DEPTH pages of [*next, end), in ascending order; sets *next. */
static int write_some(struct fth_flat *flat, uint64_t *next, uint64_t end, uint32_t bits,
		      enum finding how, uint64_t deadline)
{
	uint64_t pages[FLAT_DEPTH];
	void *memory[FLAT_DEPTH];
	int results[FLAT_DEPTH], rc = 0;
	unsigned n = 0;
	sigset_t before;

	fault_block_signals(&before);
	while (n < FLAT_DEPTH) {
		if (how != FIND_ALL && *next % FLAT_GROUP == 0)
			*next = next_changed(flat, *next, end, how == FIND_CLEAR);
		if (*next >= end)
			break;
		if (take_dirty(flat, *next, bits)) {
			pages[n] = *next;
			memory[n++] = move_find(flat, *next);
		}
		++*next;
	}
	FLAT_READS_BEGIN();
	if (n > 0)
		rc = io_many(flat, FTH_DEV_WRITE, pages, memory, n, results, deadline);
	FLAT_READS_END();
	for (unsigned i = 0; i < n; i++)
		give_back(flat, pages[i], results[i]);
	fault_restore_signals(&before);
	return rc;
}

int sync_pages(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits,
	       uint64_t deadline)
{
	bool locked = futex_try_lock(&flat->sync_lock);
	enum finding how = !locked ? FIND_ALL : bits ? FIND_KEEP : FIND_CLEAR;
	int rc = 0;

	while (first < end) { /* all of them, also after an error */
		int one = write_some(flat, &first, end, bits, how, deadline);

		rc = rc ? rc : one;
	}
	if (locked)
		futex_unlock(&flat->sync_lock);
	return rc;
}

static int write_and_flush(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits,
			   uint64_t deadline)
{
	int rc = sync_pages(flat, first, end, bits, deadline);

	return rc < 0 ? rc : fth_dev_flush(flat->dev, deadline);
}

static int sync_with_log(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits,
			 uint64_t deadline)
{
	struct log_mark mark;
	int rc = log_lock(flat->log, deadline);

	if (rc < 0)
		return rc;
	mark = log_mark(flat->log);
	rc = write_and_flush(flat, first, end, bits, deadline);
	if (rc == 0 && log_holds_records(flat->log))
		rc = log_trim(flat->log, &mark, deadline);
	log_unlock(flat->log);
	return rc;
}

int sync_all(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits, uint64_t deadline)
{
	sigset_t before;
	int rc;

	if (!flat->log)
		return write_and_flush(flat, first, end, bits, deadline);
	fault_block_signals(&before); /* no handler of the program runs while the log is locked */
	rc = sync_with_log(flat, first, end, bits, deadline);
	fault_restore_signals(&before);
	return rc;
}

int fth_flat_sync(struct fth_flat *flat, uint64_t deadline)
{
	int rc = registry_check_owner(flat);

	if (rc < 0 || flat->options.readonly)
		return rc;
	if (deadline == FTH_DEV_TIMEOUT)
		deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	return sync_all(flat, 0, flat->pages, 0, deadline);
}
