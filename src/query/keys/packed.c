/* SPDX-License-Identifier: BSD-2-Clause */
/* Packed arrays. */
#include "query/keys/packed.h"
#include "query/keys/bit_rows.h"

#include "fathom/hd/atomic.h"

#include <errno.h>

unsigned fth_packed_width(int64_t min, int64_t max)
{
	uint64_t span = (uint64_t)max - (uint64_t)min;

	return span == 0 ? 0 : 64 - (unsigned)__builtin_clzll(span);
}

/* One word more, so that a value can be read with the word after it. */
static uint64_t packed_bytes(uint64_t count, unsigned width)
{
	return (count * width / 64 + 2) * sizeof(uint64_t);
}

uint64_t fth_packed_bound(uint64_t count, int64_t min, int64_t max)
{
	return fth_qmem_cost(packed_bytes(count, fth_packed_width(min, max)));
}

int fth_packed_init(struct fth_packed *p, struct fth_qmem *mem, uint64_t count, int64_t min,
		    int64_t max)
{
	*p = (struct fth_packed){
		.mem = mem, .count = count, .min = min, .width = fth_packed_width(min, max)};
	p->words = fth_qmem_zalloc(mem, packed_bytes(count, p->width));
	return p->words ? 0 : -ENOMEM;
}

void fth_packed_release(struct fth_packed *p)
{
	fth_qmem_free(p->mem, p->words, packed_bytes(p->count, p->width));
	p->words = NULL;
}

/* Relaxed: each bit is set by one thread, and readers look after the threads were joined. */
static void add_bits(struct fth_packed *p, uint64_t slot, uint64_t x)
{
	uint64_t bit = slot * p->width, at = bit / 64, shift = bit % 64;

	fth_or_relaxed_dev64(&p->words[at], x << shift);
	if (shift + p->width > 64)
		fth_or_relaxed_dev64(&p->words[at + 1], x >> (64 - shift));
}

void fth_packed_scatter(struct fth_packed *p, const uint32_t *slots, const int64_t *values,
			unsigned n, const uint64_t *rows)
{
	if (p->width == 0)
		return;
	FTH_FOR_ROWS(rows, n, i)
	{
		uint64_t x = (uint64_t)values[i] - (uint64_t)p->min;

		if (x)
			add_bits(p, slots[i], x);
	}
}

void fth_packed_gather(const struct fth_packed *p, const uint32_t *slots, unsigned n,
		       const uint64_t *rows, int64_t *values)
{
	FTH_FOR_ROWS(rows, n, i)
	values[i] = fth_packed_get(p, slots[i]);
}
