/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The word of a cache line, for host and device.
 *
 * One 64-bit word says everything about a line: its state, who uses it, where it is. State and
 * reference count are those of Qureshi's BaM dissertation (6.4 and Table 6.1): the two never
 * overlap, so a reference is taken with one fetch-add that cannot fail, and the value that comes
 * back says in what state the line was.
 *
 *	63..46  45..38    37     36    35..6  5..4   3     2     1    0
 *	count   version WRITING DIRTY  frame   0   AHEAD BUSY  VALID HOT
 *
 *	VALID BUSY
 *	  0    0   not in the cache; frame is 0, or an errno: the fetch failed, and those who
 *	           waited for it are being told
 *	  0    1   being brought in; frame is 0
 *	  1    0   in the cache, in this frame
 *
 *	DIRTY	 the frame holds something that the medium does not, or not yet
 *	WRITING	 a write of the frame to the medium is in flight; DIRTY was cleared before it
 *		 began, so DIRTY beside WRITING means: changed again since
 *	frame	 a number that the cache understands: which frame, or where it is
 *	HOT	 used since replacement last looked; set with a reference on a VALID line, and
 *		 gone with it, so HOT implies VALID, and neither BUSY nor AHEAD
 *	AHEAD	 brought in before anyone wanted it: the first use does not make it HOT
 *	version	 the frame's generation; differs each time the frame gets another line, so that
 *		 a reader without a reference notices when the line was replaced under it
 *
 * Unlike BaM's, a line is never "being evicted": since the word holds everything, one
 * compare-and-swap takes a clean, unreferenced line out, and fails if anyone came in between.
 *
 * Who may change what
 * 1. Anyone may add to the count, and takes it away again. A line whose count is not 0 keeps its
 *    frame.
 * 2. Whoever sets BUSY and found the line neither VALID nor BUSY owns the fetch. Until it clears
 *    BUSY nobody else changes anything but the count.
 * 3. DIRTY is set after the bytes were changed and before the reference is dropped. (Set before,
 *    a write-back could clear it and miss the bytes.)
 * 4. Whoever changes DIRTY into WRITING owns the write-back, and holds a reference while it runs.
 *    So there is one write of a line in flight at most, and writes of one line stay in order.
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
#define FTH_LINE_COUNT_MASK ((((uint64_t)1 << FTH_LINE_COUNT_BITS) - 1) << FTH_LINE_COUNT_SHIFT)
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

/* The errno of a fetch that failed and whose waiters have not all been told; else 0. */
FTH_HD int fth_line_error(uint64_t word)
{
	return word & (FTH_LINE_VALID | FTH_LINE_BUSY) ? 0 : (int)fth_line_frame(word);
}

/* Take a reference. acquire: reads of the line's data are not moved before it. */
FTH_HD uint64_t fth_line_ref(uint64_t *word, uint32_t n)
{
	return fth_add_acquire_dev64(word, n * FTH_LINE_ONE);
}

/*
 * Drop n references. release: accesses to the data are done before it shows. Returns the word
 * from before. The last one to leave a failed line makes it fetchable again.
 */
FTH_HD uint64_t fth_line_unref(uint64_t *word, uint32_t n)
{
	uint64_t old = fth_add_acqrel_dev64(word, (uint64_t)0 - n * FTH_LINE_ONE);
	uint64_t now = old - n * FTH_LINE_ONE;

	/* Someone else's reference, or a new fetch, makes the swap fail: then it is theirs. */
	if (fth_line_error(now) && !fth_line_count(now))
		fth_cas_acqrel_dev64(word, &now, 0);
	return old;
}

/* Drop one reference after changing the data; says whether the line was clean before. */
FTH_HD bool fth_line_unref_dirty(uint64_t *word)
{
	uint64_t old = fth_load_relaxed_dev64(word);

	/* release: whoever clears DIRTY after this sees the changed bytes (rule 3). */
	while (!fth_cas_release_dev64(word, &old, (old | FTH_LINE_DIRTY) - FTH_LINE_ONE))
		;
	return !(old & FTH_LINE_DIRTY);
}

/* With a reference held, after a look at the word: the line has been used. */
FTH_HD void fth_line_use(uint64_t *word, uint64_t seen)
{
	if (seen & FTH_LINE_AHEAD)
		fth_and_relaxed_dev64(word, ~FTH_LINE_AHEAD);
	else if (!(seen & FTH_LINE_HOT))
		fth_or_relaxed_dev64(word, FTH_LINE_HOT);
}

/* Mark dirty and keep the reference; says whether the line was clean before. */
FTH_HD bool fth_line_mark_dirty(uint64_t *word)
{
	return !(fth_or_acqrel_dev64(word, FTH_LINE_DIRTY) & FTH_LINE_DIRTY);
}

/*
 * With a reference held: try to own the fetch of a line that is not there. Returns the word from
 * before; the fetch is owned if that was neither VALID nor BUSY nor failed.
 */
FTH_HD uint64_t fth_line_try_own(uint64_t *word)
{
	/* acquire: if the line has just come, its data is read after this. */
	uint64_t old = fth_load_acquire_dev64(word);

	/* acquire: what the owner does happens after the previous owner's work on the line. */
	while (!(old & (FTH_LINE_VALID | FTH_LINE_BUSY)) && !fth_line_error(old))
		if (fth_cas_acquire_dev64(word, &old, old | FTH_LINE_BUSY))
			return old;
	return old;
}

/* The owner has filled the frame: let everyone in. `extra`: DIRTY, HOT, AHEAD. */
FTH_HD void fth_line_publish(uint64_t *word, uint32_t frame, uint32_t version, uint64_t extra)
{
	uint64_t bits = FTH_LINE_VALID | extra | ((uint64_t)frame << FTH_LINE_FRAME_SHIFT) |
			(((uint64_t)version << FTH_LINE_VERSION_SHIFT) & FTH_LINE_VERSION_MASK);

	/*
	 * All these bits are 0 while BUSY (rule 2), so adding sets them and the count stays.
	 * release: the data is visible to whoever sees VALID.
	 */
	fth_add_release_dev64(word, bits - FTH_LINE_BUSY);
}

/* The owner could not: everyone who holds a reference will see this error, and drop it. */
FTH_HD void fth_line_fail(uint64_t *word, int error)
{
	fth_add_release_dev64(word, ((uint64_t)error << FTH_LINE_FRAME_SHIFT) - FTH_LINE_BUSY);
}

/* The owner steps back without having tried: the line is as it was, someone else may own it. */
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

/* Take out a line that was seen as evictable. True: its frame is the caller's. */
FTH_HD bool fth_line_evict(uint64_t *word, uint64_t seen)
{
	/* acquire: those who used the frame have done with it. */
	if (!fth_cas_acquire_dev64(word, &seen, 0))
		return false;
	fth_line_evicted();
	return true;
}

/* Try to own the write-back of a dirty line, with a reference. Returns false if it is not to do. */
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
 *		v = (an atomic load with acquire, inside frame fth_line_frame(w));
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
