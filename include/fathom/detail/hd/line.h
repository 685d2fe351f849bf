/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The word of a cache line, for host and device.
 *
 * One 64-bit word holds everything about a line: its state, its reference count, its place. State
 * and reference count are those of Qureshi's BaM dissertation (6.4 and Table 6.1): they never
 * overlap, so one fetch-add that cannot fail takes a reference, and its result is the state that
 * the line was in.
 *
 *	63..46  45..38    37     36    35..6  5..4   3     2     1    0
 *	count   version WRITING DIRTY  frame   0   AHEAD BUSY  VALID HOT
 *
 *	VALID BUSY
 *	  0    0   not in the cache
 *	  0    1   being fetched
 *	  1    0   in the cache, in this frame
 *
 *	DIRTY	 the frame holds changes that the medium does not have yet
 *	WRITING	 a write of the frame to the medium is in flight; DIRTY was cleared before it
 *		 began, so DIRTY beside WRITING means: changed again since
 *	frame	 while VALID: a number that the cache understands, a frame or its place.
 *		 Otherwise: the errno of the latest failed fetch, or 0
 *	version	 while VALID: the frame's generation; it differs each time the frame gets another
 *		 line, so that a reader without a reference notices a replacement.
 *		 Otherwise: the turn, a count of failed fetches
 *	HOT	 used since the replacement policy last examined it; set with a reference on a VALID
 *		line, and cleared with it, so HOT implies VALID, and neither BUSY nor AHEAD
 *	AHEAD	 prefetched: the first use does not make it HOT
 *
 * Unlike BaM's, a line is never "being evicted": since the word holds everything, one
 * compare-and-swap takes a clean, unreferenced line out, and fails if a reference came in between.
 *
 * A failed fetch increments the turn. A waiter remembers the turn in which it began to wait: if the
 * turn has changed, its fetch has failed, and the word holds an errno. The error is not a state of
 * the line: a thread that finds the line neither VALID nor BUSY starts another fetch, regardless of
 * earlier failures and of waiters that have not seen them yet.
 *
 * Who may change what
 * 1. Any thread may add to the count, and subtracts it again. A line whose count is not 0 keeps its
 *    frame.
 * 2. The thread that sets BUSY on a line that is neither VALID nor BUSY owns the fetch. Until it
 *    clears BUSY other threads change nothing but the count.
 * 3. DIRTY is set after the bytes were changed and before the reference is dropped. (Set before,
 *    a write-back could clear it and miss the bytes.)
 * 4. The thread that changes DIRTY into WRITING owns the write-back, and holds a reference while it
 *    runs. So one write of a line at most is in flight, and writes of one line stay in order.
 * 5. Eviction is the compare-and-swap of a word that is VALID, clean, not WRITING, with count 0.
 */
#ifndef FATHOM_HD_LINE_H
#define FATHOM_HD_LINE_H

#include "fathom/hd/atomic.h"

/*
 * The six lowest bits of a word that is HOT are known, and its frame is next to them. So its lower
 * half, taken as a number, is the frame's place in units of 8 bytes, plus a constant, where the
 * cache counts its frames' places in units of 512 bytes and is not too large (array/inline.h).
 */
#define FTH_LINE_HOT	 ((uint64_t)1 << 0)
#define FTH_LINE_VALID	 ((uint64_t)1 << 1)
#define FTH_LINE_BUSY	 ((uint64_t)1 << 2)
#define FTH_LINE_AHEAD	 ((uint64_t)1 << 3)
#define FTH_LINE_DIRTY	 ((uint64_t)1 << 36)
#define FTH_LINE_WRITING ((uint64_t)1 << 37)

#define FTH_LINE_FRAME_SHIFT   6
#define FTH_LINE_FRAME_BITS    30
#define FTH_LINE_VERSION_SHIFT 38
#define FTH_LINE_VERSION_BITS  8
#define FTH_LINE_COUNT_SHIFT   46
#define FTH_LINE_COUNT_BITS    18

#define FTH_LINE_ONE	    ((uint64_t)1 << FTH_LINE_COUNT_SHIFT) /* one reference */
#define FTH_LINE_FRAME_MASK ((((uint64_t)1 << FTH_LINE_FRAME_BITS) - 1) << FTH_LINE_FRAME_SHIFT)
#define FTH_LINE_VERSION_MASK \
	((((uint64_t)1 << FTH_LINE_VERSION_BITS) - 1) << FTH_LINE_VERSION_SHIFT)

/* What must be the same before and after a read without a reference. */
#define FTH_LINE_PLACE_MASK \
	(FTH_LINE_VALID | FTH_LINE_BUSY | FTH_LINE_VERSION_MASK | FTH_LINE_FRAME_MASK)

/* Above this count no more references are given: far below where it would run over. */
#define FTH_LINE_COUNT_LIMIT ((uint32_t)1 << (FTH_LINE_COUNT_BITS - 1))

#define FTH_LINE_FRAMES_MAX (((uint64_t)1 << FTH_LINE_FRAME_BITS) - 1)

FTH_HD uint32_t fth_line_count(uint64_t word)
{
	return (uint32_t)(word >> FTH_LINE_COUNT_SHIFT);
}

FTH_HD uint32_t fth_line_frame(uint64_t word)
{
	return (uint32_t)((word & FTH_LINE_FRAME_MASK) >> FTH_LINE_FRAME_SHIFT);
}

/* In the cache, for anyone to use. */
FTH_HD bool fth_line_ready(uint64_t word)
{
	return (word & FTH_LINE_VALID) != 0;
}

/* Of a line that is not VALID: the errno of its latest failed fetch, or 0. */
FTH_HD int fth_line_error(uint64_t word)
{
	return word & FTH_LINE_VALID ? 0 : (int)fth_line_frame(word);
}

/* Of a line that is not VALID: a count of failed fetches, modulo 256. */
FTH_HD uint32_t fth_line_turn(uint64_t word)
{
	return (uint32_t)((word & FTH_LINE_VERSION_MASK) >> FTH_LINE_VERSION_SHIFT);
}

/*
 * With a reference held since the line was BUSY in this turn: has that fetch failed? It has not if
 * the line is in the cache, which a later fetch may have brought.
 */
FTH_HD bool fth_line_failed(uint64_t word, uint32_t turn)
{
	return !(word & FTH_LINE_VALID) && fth_line_turn(word) != turn;
}

/* Take n references. acquire: reads of the line's data are not moved before it. */
FTH_HD uint64_t fth_line_ref(uint64_t *word, uint32_t n)
{
	return fth_add_acquire_dev64(word, n * FTH_LINE_ONE);
}

/* Drop n references. release: accesses to the data are done before it shows. Returns the word
 * from before. */
FTH_HD uint64_t fth_line_unref(uint64_t *word, uint32_t n)
{
	return fth_add_release_dev64(word, (uint64_t)0 - n * FTH_LINE_ONE);
}

/* Drop one reference after changing the data. Returns whether the line was clean before. */
FTH_HD bool fth_line_unref_dirty(uint64_t *word)
{
	uint64_t old = fth_load_relaxed_dev64(word);

	/* release: whoever clears DIRTY after this sees the changed bytes (rule 3). */
	while (!fth_cas_release_dev64(word, &old, (old | FTH_LINE_DIRTY) - FTH_LINE_ONE))
		;
	return !(old & FTH_LINE_DIRTY);
}

/*
 * Drop one reference after changing the data, if the line is DIRTY already. False: it is clean, and
 * nothing was done.
 */
FTH_HD bool fth_line_unref_still_dirty(uint64_t *word)
{
	uint64_t old = fth_load_relaxed_dev64(word);

	/* release: as above. The swap writes DIRTY anew, so no write-back can miss the change. */
	while (old & FTH_LINE_DIRTY)
		if (fth_cas_release_dev64(word, &old, old - FTH_LINE_ONE))
			return true;
	return false;
}

/* With a reference held, after a look at the word: note that the line was used. */
FTH_HD void fth_line_use(uint64_t *word, uint64_t seen)
{
	if (seen & FTH_LINE_AHEAD)
		fth_and_relaxed_dev64(word, ~FTH_LINE_AHEAD);
	else if (!(seen & FTH_LINE_HOT))
		fth_or_relaxed_dev64(word, FTH_LINE_HOT);
}

/*
 * With a reference held: try to own the fetch of a line that is not in the cache. Returns the word
 * from before; the caller owns the fetch if that was neither VALID nor BUSY.
 */
FTH_HD uint64_t fth_line_try_own(uint64_t *word)
{
	/* acquire: if the line has just come, its data is read after this. */
	uint64_t old = fth_load_acquire_dev64(word);

	/* acquire: what the owner does happens after the previous owner's work on the line. */
	while (!(old & (FTH_LINE_VALID | FTH_LINE_BUSY)))
		if (fth_cas_acquire_dev64(word, &old, old | FTH_LINE_BUSY))
			return old;
	return old;
}

/*
 * The owner ends its fetch: clear BUSY and replace frame, version and all lower bits, which nobody
 * else changes while BUSY (rule 2), by one addition that leaves the count alone.
 */
FTH_HD void fth_line_end_fetch_(uint64_t *word, uint64_t bits)
{
	/* relaxed: these bits were last written by a thread that this one has acquired from. */
	uint64_t old = fth_load_relaxed_dev64(word) & (FTH_LINE_FRAME_MASK | FTH_LINE_VERSION_MASK);

	/* release: the data is visible to a thread that sees VALID. */
	fth_add_release_dev64(word, bits - old - FTH_LINE_BUSY);
}

/* The owner has filled the frame: let everyone in. `extra`: DIRTY, HOT, AHEAD. */
FTH_HD void fth_line_publish(uint64_t *word, uint32_t frame, uint32_t version, uint64_t extra)
{
	fth_line_end_fetch_(word, FTH_LINE_VALID | extra |
					  ((uint64_t)frame << FTH_LINE_FRAME_SHIFT) |
					  (((uint64_t)version << FTH_LINE_VERSION_SHIFT) &
					   FTH_LINE_VERSION_MASK));
}

/* The fetch failed: all threads that wait for it will see this errno, or that of a later one. */
FTH_HD void fth_line_fail(uint64_t *word, int error)
{
	uint64_t turn = fth_line_turn(fth_load_relaxed_dev64(word)) + 1;

	fth_line_end_fetch_(word,
			    ((uint64_t)error << FTH_LINE_FRAME_SHIFT) |
				    ((turn << FTH_LINE_VERSION_SHIFT) & FTH_LINE_VERSION_MASK));
}

/* The owner steps back without a result: waiters look the line up anew. */
FTH_HD void fth_line_disown(uint64_t *word)
{
	fth_add_release_dev64(word, (uint64_t)0 - FTH_LINE_BUSY);
}

FTH_HD bool fth_line_evictable(uint64_t word)
{
	return (word & (FTH_LINE_VALID | FTH_LINE_DIRTY | FTH_LINE_WRITING)) == FTH_LINE_VALID &&
	       !fth_line_count(word);
}

/*
 * After a line was taken out, before its frame is refilled: the refill must not show before the
 * word's change does, to readers without a reference. On x86 the swap has seen to it.
 */
FTH_HD void fth_line_evicted(void)
{
#if defined(__CUDA_ARCH__)
	__threadfence();
#elif !defined(__x86_64__)
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Take out a line that was seen as evictable, or that is to be discarded. True: its frame is the
 * caller's. */
FTH_HD bool fth_line_evict(uint64_t *word, uint64_t seen)
{
	/* acquire: those who used the frame have done with it. */
	if (!fth_cas_acquire_dev64(word, &seen, 0))
		return false;
	fth_line_evicted();
	return true;
}

/* Try to own the write-back of a dirty line, with a reference. False: it is clean, or WRITING. */
FTH_HD bool fth_line_start_write(uint64_t *word)
{
	uint64_t old = fth_load_relaxed_dev64(word);

	do {
		if ((old & (FTH_LINE_VALID | FTH_LINE_DIRTY | FTH_LINE_WRITING)) !=
		    (FTH_LINE_VALID | FTH_LINE_DIRTY))
			return false;
		/* acquire: the bytes that came with DIRTY are read after this. */
	} while (!fth_cas_acquire_dev64(word, &old,
					(old & ~FTH_LINE_DIRTY) + FTH_LINE_WRITING + FTH_LINE_ONE));
	return true;
}

/*
 * The write has ended; drops the reference. `ok` false: what it should have written is still to
 * be written. Returns whether the line is dirty now and was not marked so by anyone else.
 */
FTH_HD bool fth_line_end_write(uint64_t *word, bool ok)
{
	uint64_t old = fth_load_relaxed_dev64(word), now;

	do {
		now = old - FTH_LINE_WRITING - FTH_LINE_ONE;
		if (!ok)
			now |= FTH_LINE_DIRTY;
		/* release: the frame was read before it may be another line's. */
	} while (!fth_cas_release_dev64(word, &old, now));
	return !ok && !(old & FTH_LINE_DIRTY);
}

/*
 * Reading without a reference, where the data is only looked at: load the word, the data, the
 * word again; the data is the line's if PLACE did not change.
 *
 *	w = fth_load_acquire_dev64(word);
 *	if (fth_line_ready(w)) {
 *		v = fth_load_acquire_dev64(frame + n);	in frame fth_line_frame(w)
 *		if (fth_line_same_place(w, fth_load_relaxed_dev64(word)))
 *			return v;
 *	}
 *	...take a reference
 *
 * The first acquire keeps the data's load after the word's; the data's own acquire keeps the
 * second look after it. The version wraps after 256 refills of one frame: a reader would have to
 * sleep through all of them, between two neighbouring loads, and wake up with its own line back
 * in that frame for the 256th time exactly.
 */
FTH_HD bool fth_line_same_place(uint64_t before, uint64_t after)
{
	return ((before ^ after) & FTH_LINE_PLACE_MASK) == 0;
}

#endif
