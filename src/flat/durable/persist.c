/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Durability byte by byte (FlatFlash, section 3.5). The bytes go to the log, wherever their page
 * is; pages are written in place when the log is full, and by every sync.
 *
 * Invariants
 *  1. A page with records in the log is DIRTY, or was written in place since: so no page is read
 *     back without what was logged, and writing all DIRTY pages of persistent ranges and a flush
 *     make every record superfluous.
 *  2. A record never outlives a sync that began after it: replaying it would bring back older bytes
 *     than the sync wrote. So a sync that finds records ends with a header that no longer has them.
 */
#include "flat/flat_internal.h"
#include "flat/durable/persist_log.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const guarantee_names[FTH_FLAT_GUARANTEES] = {
	"nothing", "exit", "power, by flush", "power, by window"};

const char *fth_flat_guarantee_name(enum fth_flat_guarantee guarantee)
{
	return (unsigned)guarantee < FTH_FLAT_GUARANTEES ? guarantee_names[guarantee] : "unknown";
}

static enum fth_flat_guarantee guarantee_of(const struct fth_flat *flat)
{
	if (flat->log && flat->log->window)
		return FTH_FLAT_SURVIVES_WINDOW;
	switch (fth_dev_info(flat->dev)->keeps) {
	case FTH_DEV_KEEPS_POWER:
		return FTH_FLAT_SURVIVES_FLUSH;
	case FTH_DEV_KEEPS_EXIT:
		return FTH_FLAT_SURVIVES_EXIT;
	default:
		return FTH_FLAT_SURVIVES_NOTHING;
	}
}

/* ---- marks ---- */

static void widen_marks(struct fth_flat *flat, uint64_t first, uint64_t end)
{
	uint64_t old = __atomic_load_n(&flat->marked_first, __ATOMIC_RELAXED);

	while (first < old && !__atomic_compare_exchange_n(&flat->marked_first, &old, first, true,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	old = __atomic_load_n(&flat->marked_end, __ATOMIC_RELAXED);
	while (end > old && !__atomic_compare_exchange_n(&flat->marked_end, &old, end, true,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

int fth_flat_persistent(struct fth_flat *flat, void *at, uint64_t length)
{
	uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)flat->map.user);
	uint64_t first = offset / flat->map.page,
		 end = (offset + length + flat->map.page - 1) / flat->map.page;
	int rc = flat_check_bytes(flat, at, length, true);
	sigset_t before;

	if (rc < 0)
		return rc;
	if (length > 0)
		widen_marks(flat, first,
			    end); /* before the marks: a checkpoint looks between these */
	fault_block_signals(&before);
	for (uint64_t page = first; length > 0 && page < end; page++) {
		word_lock(&flat->words[page]);
		word_set(&flat->words[page], WORD_PERSIST, WORD_PERSIST);
		word_unlock(&flat->words[page]);
	}
	fault_restore_signals(&before);
	return guarantee_of(flat);
}

/* ---- one piece: bytes of up to two pages ---- */

struct piece {
	uint64_t at, length;
	uint64_t pages[2];
	unsigned n;
};

static struct piece cut_piece(const struct fth_flat *flat, uint64_t at, uint64_t length)
{
	uint64_t most = log_piece(flat->log);
	struct piece piece = {.at = at, .length = length < most ? length : most, .n = 1};

	piece.pages[0] = at / flat->map.page;
	piece.pages[1] = (at + piece.length - 1) / flat->map.page;
	if (piece.pages[1] != piece.pages[0])
		piece.n = 2;
	return piece;
}

static int bring_in(struct fth_flat *flat, uint64_t page)
{
	enum word_state state = word_state(&flat->words[page]);
	struct flat_slot *slot;

	return state == WORD_CACHED || state == WORD_DRAM ? 0 : move_in(flat, page, &slot);
}

/* Its pages are locked and in memory. */
static int log_piece_bytes(struct fth_flat *flat, const struct piece *piece, uint64_t *position)
{
	uint64_t inside = piece->at % flat->map.page;
	struct log_part parts[2] = {
		{.from = move_find(flat, piece->pages[0]) + inside, .length = piece->length}};

	if (piece->n == 2) {
		parts[0].length = flat->map.page - inside;
		parts[1] = (struct log_part){.from = move_find(flat, piece->pages[1]),
					     .length = piece->length - parts[0].length};
	}
	return log_append(flat->log, piece->at, parts, piece->n, position);
}

static int append_piece(struct fth_flat *flat, const struct piece *piece, uint64_t *position)
{
	sigset_t before;
	int rc = 0;

	fault_block_signals(&before);
	for (unsigned i = 0; i < piece->n; i++)
		word_lock(&flat->words[piece->pages[i]]);
	for (unsigned i = 0; i < piece->n && rc == 0; i++)
		rc = bring_in(flat, piece->pages[i]);
	if (rc == 0)
		rc = log_piece_bytes(flat, piece, position);
	for (unsigned i = 0; i < piece->n; i++)
		word_unlock(&flat->words[piece->pages[i]]);
	fault_restore_signals(&before);
	return rc;
}

static int checkpoint(struct fth_flat *flat, uint64_t deadline)
{
	flat_count(flat, FTH_FLAT_STAT_CHECKPOINTS);
	return sync_all(flat, __atomic_load_n(&flat->marked_first, __ATOMIC_RELAXED),
			__atomic_load_n(&flat->marked_end, __ATOMIC_RELAXED), WORD_PERSIST,
			deadline);
}

/* Append it, and make room where there is none. */
static int put_piece(struct fth_flat *flat, const struct piece *piece, uint64_t *position,
		     uint64_t deadline)
{
	for (;;) {
		int rc = append_piece(flat, piece, position);

		if (rc == -ENOSPC)
			rc = checkpoint(flat, deadline);
		else if (rc == -EAGAIN)
			rc = log_commit(flat->log, log_head(flat->log), deadline);
		else
			return rc;
		if (rc < 0)
			return rc;
		if (fth_now_ns() >= deadline)
			return -ETIMEDOUT;
	}
}

/* ---- persist ---- */

static int persist_in_log(struct fth_flat *flat, uint64_t at, uint64_t length, uint64_t deadline)
{
	uint64_t position = 0;
	int rc = 0;

	while (length > 0 && rc == 0) {
		struct piece piece = cut_piece(flat, at, length);

		rc = put_piece(flat, &piece, &position, deadline);
		at += piece.length;
		length -= piece.length;
	}
	if (rc == 0)
		rc = log_commit(flat->log, position, deadline);
	return rc;
}

static int persist_in_place(struct fth_flat *flat, uint64_t at, uint64_t length, uint64_t deadline)
{
	uint64_t page = flat->map.page;
	int rc = sync_pages(flat, at / page, (at + length - 1) / page + 1, 0, deadline);

	return rc < 0 ? rc : fth_dev_flush(flat->dev, deadline);
}

static int check_marks(const struct fth_flat *flat, uint64_t at, uint64_t length)
{
	uint64_t page = at / flat->map.page, last = (at + length - 1) / flat->map.page;

	for (; page <= last; page++)
		if (!(__atomic_load_n(&flat->words[page], __ATOMIC_RELAXED) & WORD_PERSIST))
			return fth_fail(EINVAL,
					"flat: the page at offset %llu was not marked by "
					"fth_flat_persistent()",
					(unsigned long long)(page * flat->map.page));
	return 0;
}

int fth_flat_persist(const void *at, uint64_t length)
{
	struct fth_flat *flat = registry_find((uintptr_t)at);
	uint64_t offset, deadline = fth_deadline_ns(FTH_DEV_TIMEOUT_NS);
	sigset_t before;
	int rc;

	if (!flat && registry_is_parents((uintptr_t)at))
		return registry_refuse();
	if (!flat)
		return fth_fail(EINVAL, "flat: address %p is not in an open region", at);
	rc = flat_check_bytes(flat, at, length, true);
	if (rc < 0 || length == 0)
		return rc < 0 ? rc : (int)guarantee_of(flat);
	offset = (uint64_t)((uintptr_t)at - (uintptr_t)flat->map.user);
	rc = check_marks(flat, offset, length);
	if (rc < 0)
		return rc;
	flat_count(flat, FTH_FLAT_STAT_PERSISTS);
	fault_block_signals(&before); /* while the log is locked, too */
	rc = flat->log ? persist_in_log(flat, offset, length, deadline)
		       : persist_in_place(flat, offset, length, deadline);
	fault_restore_signals(&before);
	return rc < 0 ? rc : (int)guarantee_of(flat);
}

/* ---- opening and closing ---- */

int persist_open(struct fth_flat *flat)
{
	struct fth_flat_options *o = &flat->options;
	int rc = 0;

	flat->marked_first = UINT64_MAX;
	if (flat->window_log)
		rc = recover_open(flat, true, 0, flat->window_log, &flat->log);
	if (rc < 0 || !o->log)
		return rc < 0 ? rc : recover_guard(flat);
	if (flat->log) { /* what was in it is in place */
		log_close(flat->log);
		free(flat->log);
		flat->log = NULL;
	}
	return recover_open(flat, false, o->offset + flat->size, o->log, &flat->log);
}

uint64_t persist_stat(const struct fth_flat *flat, enum fth_flat_stat which)
{
	uint64_t count;

	if (!flat->log || registry_check_owner(flat) < 0) /* a child: the lock may never be free */
		return 0;
	pthread_mutex_lock(&flat->log->lock);
	count = which == FTH_FLAT_STAT_LOG_BYTES ? flat->log->bytes : flat->log->commits;
	pthread_mutex_unlock(&flat->log->lock);
	return count;
}

void persist_close(struct fth_flat *flat)
{
	if (flat->log)
		log_close(flat->log);
	free(flat->log);
}
