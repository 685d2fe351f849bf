/* SPDX-License-Identifier: BSD-2-Clause */
/* Durability: what was changed is written, then the device is flushed, then the log is trimmed. */
#include "flat/log.h"

#include <errno.h>

#include "flat/flat_internal.h"
#include "flat/race.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

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
	word_unlock(word);
	return false;
}

static void give_back(struct fth_flat *flat, uint64_t page, int result)
{
	uint32_t *word = &flat->words[page];

	if (result == 0)
		word_set(word, WORD_DIRTY, 0);
	else if (word_state(word) == WORD_DRAM)
		(void)map_allow_stores(&flat->map, page);
	word_unlock(word);
}

/* Write up to FLAT_DEPTH pages of [*next, end), in ascending order; sets *next. */
static int write_some(struct fth_flat *flat, uint64_t *next, uint64_t end, uint32_t bits,
		      uint64_t deadline)
{
	uint64_t pages[FLAT_DEPTH];
	void *memory[FLAT_DEPTH];
	int results[FLAT_DEPTH], rc = 0;
	unsigned n = 0;
	sigset_t before;

	fault_quiet(&before);
	while (*next < end && n < FLAT_DEPTH) {
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
	fault_loud(&before);
	return rc;
}

int sync_pages(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits,
	       uint64_t deadline)
{
	int rc = 0;

	while (first < end) { /* all of them, also after an error */
		int one = write_some(flat, &first, end, bits, deadline);

		rc = rc ? rc : one;
	}
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
	fault_quiet(&before); /* no handler of the program runs while the log is locked */
	rc = sync_with_log(flat, first, end, bits, deadline);
	fault_loud(&before);
	return rc;
}

int fth_flat_sync(struct fth_flat *flat, uint64_t deadline)
{
	if (flat->options.readonly)
		return 0;
	if (deadline == FTH_DEV_TIMEOUT)
		deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	return sync_all(flat, 0, flat->pages, 0, deadline);
}
