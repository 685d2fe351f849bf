/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/exec/gathered_rows.h"

#include <errno.h>

int gathered_init(struct gathered_rows *g, struct runner *r)
{
	size_t slots = r->task->slot_count;

	g->count = 0;
	g->values = fth_arena_alloc(&r->arena, slots * sizeof(void *) + 1, 16);
	g->nulls = fth_arena_alloc(&r->arena, slots * sizeof(uint64_t *) + 1, 16);
	g->frame.vecs = fth_arena_alloc(&r->arena, slots * sizeof(*g->frame.vecs) + 1, 16);
	g->frame.have = fth_arena_alloc(&r->arena, slots + 1, 1);
	if (g->values)
		memset(g->values, 0, slots * sizeof(void *));
	if (g->nulls)
		memset(g->nulls, 0, slots * sizeof(uint64_t *));
	if (g->frame.have)
		memset(g->frame.have, 0, slots);
	return g->values && g->nulls && g->frame.vecs && g->frame.have ? 0 : -ENOMEM;
}

static void copy_bits(uint64_t *to, unsigned at, const uint64_t *from, const uint16_t *rows,
		      unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t bit = from && fth_bit(from, rows[i]);

		to[(at + i) / 64] &= ~((uint64_t)1 << (at + i) % 64);
		to[(at + i) / 64] |= bit << (at + i) % 64;
	}
}

void gathered_copy(struct gathered_rows *g, unsigned slot, const struct fth_vec *from,
		   const uint16_t *rows, unsigned n)
{
	const struct fth_vec *to = &g->frame.vecs[slot];

	copy_bits(g->nulls[slot], g->count, from->nulls, rows, n);
	if (from->type == FTH_BITS) {
		copy_bits(g->values[slot], g->count, from->data, rows, n);
	} else if (to->type == from->type && (to->type >= FTH_I128 || to->base == from->base)) {
		fth_vec_gather(from->type,
			       (char *)g->values[slot] + g->count * fth_phys_width(from->type),
			       from->data, rows, n);
	} else {
		for (unsigned i = 0; i < n; i++)
			((int64_t *)g->values[slot])[g->count + i] =
				(int64_t)fth_vec_int(from, rows[i]);
	}
}

void gathered_clear_nulls(struct gathered_rows *g, unsigned slot)
{
	memset(g->nulls[slot], 0, fth_bits_words(g->count) * sizeof(uint64_t));
}
