/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packed arrays: values in [min, max] with as many bits each as that takes. A map's payload lies in such
 * arrays, indexed by rank or slot.
 */
#ifndef FTH_QUERY_PACKED_H
#define FTH_QUERY_PACKED_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

struct fth_packed {
	struct fth_qmem *mem;
	uint64_t count;
	int64_t min;
	unsigned width; /* bits, 0 to 64 */
	uint64_t *words;
};

/* Bits of a value in [min, max]. */
unsigned fth_packed_width(int64_t min, int64_t max);
uint64_t fth_packed_bound(uint64_t count, int64_t min, int64_t max);

/* All values start as min. Returns 0 or -ENOMEM. */
int fth_packed_init(struct fth_packed *p, struct fth_qmem *mem, uint64_t count, int64_t min,
		    int64_t max);
void fth_packed_release(struct fth_packed *p);

/*
 * Set the values at slots[i] of selected rows. Each slot may be set once, since bits are only added; threads
 * may do so together.
 */
void fth_packed_scatter(struct fth_packed *p, const uint32_t *slots, const int64_t *values,
			unsigned n, const uint64_t *rows);
/* values[i] = value at slots[i], of selected rows. */
void fth_packed_gather(const struct fth_packed *p, const uint32_t *slots, unsigned n,
		       const uint64_t *rows, int64_t *values);

static inline int64_t fth_packed_get(const struct fth_packed *p, uint64_t i)
{
	uint64_t bit = i * p->width, at = bit / 64, shift = bit % 64, x;

	if (p->width == 0)
		return p->min;
	x = p->words[at] >> shift;
	if (shift + p->width > 64)
		x |= p->words[at + 1] << (64 - shift);
	if (p->width < 64)
		x &= ((uint64_t)1 << p->width) - 1;
	return (int64_t)(x + (uint64_t)p->min);
}

#endif
