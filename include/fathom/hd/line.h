/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state word of a cache line, for host and device.
 *
 * One 32-bit word holds the line's state in its three highest bits and its reference count in
 * the other 29 (Qureshi, BaM dissertation, 6.4 and Table 6.1). Because the two never overlap, a
 * reference is taken with one fetch-add that cannot fail, and the value that comes back says in
 * what state the line was.
 *
 *	valid busy dirty
 *	  0    0    0	not in the cache
 *	  0    1    x	being brought in; dirty: its next eviction must write it back
 *	  1    0    x	in the cache
 *	  1    1    x	being evicted; dirty: and written back first
 *
 * Whoever sets BUSY and found it unset owns the transition, and alone may clear it again.
 */
#ifndef FATHOM_HD_LINE_H
#define FATHOM_HD_LINE_H

#include "fathom/hd/atomic.h"

#define FTH_LINE_VALID	    ((uint32_t)1 << 31)
#define FTH_LINE_BUSY	    ((uint32_t)1 << 30)
#define FTH_LINE_DIRTY	    ((uint32_t)1 << 29)
#define FTH_LINE_COUNT_MASK (FTH_LINE_DIRTY - 1)

FTH_HD uint32_t fth_line_count(uint32_t word)
{
	return word & FTH_LINE_COUNT_MASK;
}

/* Readable now: valid, and nobody is moving it. */
FTH_HD bool fth_line_ready(uint32_t word)
{
	return (word & (FTH_LINE_VALID | FTH_LINE_BUSY)) == FTH_LINE_VALID;
}

/* Add n references. acquire: later reads of the line's data are not moved before it. */
FTH_HD uint32_t fth_line_ref(uint32_t *word, uint32_t n)
{
	return fth_add_acqrel_dev32(word, n);
}

/* Drop n references. release: earlier accesses to the line's data are done before it shows. */
FTH_HD uint32_t fth_line_unref(uint32_t *word, uint32_t n)
{
	return fth_add_acqrel_dev32(word, (uint32_t)0 - n);
}

/* Try to own the line's next transition. Returns the word from before; not BUSY there: owned. */
FTH_HD uint32_t fth_line_try_own(uint32_t *word)
{
	return fth_or_acqrel_dev32(word, FTH_LINE_BUSY);
}

/* The owner gives the line up, adding and removing state bits in one step with BUSY. */
FTH_HD void fth_line_disown(uint32_t *word, uint32_t set, uint32_t clear)
{
	uint32_t old = fth_load_relaxed_dev32(word);

	/* release: the data the owner brought in is visible to whoever sees the new state. */
	while (!fth_cas_acqrel_dev32(word, &old, (old | set) & ~(clear | FTH_LINE_BUSY)))
		;
}

FTH_HD void fth_line_mark_dirty(uint32_t *word)
{
	if (!(fth_load_relaxed_dev32(word) & FTH_LINE_DIRTY))
		fth_or_acqrel_dev32(word, FTH_LINE_DIRTY);
}

/*
 * Try to own a line for eviction: it must be valid, unreferenced and not in transition, both
 * before and at the moment BUSY is set. A reference that slips in between is seen in the word
 * that the fetch-or returns, and the attempt is taken back.
 */
FTH_HD bool fth_line_try_evict(uint32_t *word)
{
	uint32_t old = fth_load_relaxed_dev32(word);

	if (!fth_line_ready(old) || fth_line_count(old))
		return false;
	old = fth_line_try_own(word);
	if (old & FTH_LINE_BUSY)
		return false;
	if (fth_line_ready(old) && !fth_line_count(old))
		return true;
	fth_line_disown(word, 0, 0);
	return false;
}

#endif
