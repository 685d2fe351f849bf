/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arithmetic of rings, for host and device.
 *
 * A ring of 2^shift entries is walked with a ticket: a 32-bit number that only grows (and wraps
 * at 2^32, which every ring size divides). A ticket names one use of one entry:
 *
 *	position = ticket mod size	where in the ring
 *	turn     = ticket / size	which use of that position
 *
 * Tickets are compared by their difference, never by <, so wrap-around needs no special case.
 * As in NVMe, a ring of N entries holds at most N - 1, so that head == tail means empty.
 */
#ifndef FATHOM_HD_RING_H
#define FATHOM_HD_RING_H

#include "fathom/hd/atomic.h"

FTH_HD uint32_t fth_ring_size(uint32_t shift)
{
	return (uint32_t)1 << shift;
}

FTH_HD uint32_t fth_ring_mask(uint32_t shift)
{
	return fth_ring_size(shift) - 1;
}

FTH_HD uint32_t fth_ring_position(uint32_t ticket, uint32_t shift)
{
	return ticket & fth_ring_mask(shift);
}

FTH_HD uint32_t fth_ring_turn(uint32_t ticket, uint32_t shift)
{
	return ticket >> shift;
}

/*
 * The phase bit an NVMe completion carries on this ticket's turn: rings start zeroed, so the
 * first turn (0) writes 1, the next 0, and so on.
 */
FTH_HD uint32_t fth_ring_phase(uint32_t ticket, uint32_t shift)
{
	return (fth_ring_turn(ticket, shift) & 1) ^ 1;
}

/* How many entries lie in [head, tail). */
FTH_HD uint32_t fth_ring_used(uint32_t head, uint32_t tail)
{
	return tail - head;
}

/*
 * Turn a position that the other side reports into a ticket: the first ticket at or after
 * `ticket` that lies on `position`.
 */
FTH_HD uint32_t fth_ring_advance_to(uint32_t ticket, uint32_t position, uint32_t shift)
{
	return ticket + ((position - ticket) & fth_ring_mask(shift));
}

/* True when `a` is before `b`; right as long as they are less than 2^31 apart. */
FTH_HD bool fth_ring_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#endif
