/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts by group: 16 bits each, until the next batch might make one of them larger than that. */
#include "query/group/group_internal.h"

#include <errno.h>

static size_t count_width(const struct group_counts *c)
{
	return c->wide ? sizeof(uint64_t) : sizeof(uint16_t);
}

int group_counts_init(struct group_counts *c, struct fth_qmem *mem)
{
	*c = (struct group_counts){.counts = fth_qmem_alloc(mem, sizeof(uint16_t)), .room = 1};
	return c->counts ? 0 : -ENOMEM;
}

void group_counts_release(struct group_counts *c, struct fth_qmem *mem)
{
	fth_qmem_free(mem, c->counts, c->room * count_width(c));
	*c = (struct group_counts){0};
}

size_t group_counts_width(const struct group_counts *c)
{
	return c->counts ? count_width(c) : 0;
}

int group_counts_grow(struct group_counts *c, struct fth_qmem *mem, uint32_t room)
{
	void *larger;

	if (!c->counts || c->room >= room)
		return 0;
	larger = fth_qmem_realloc(mem, c->counts, c->room * count_width(c), room * count_width(c));
	if (!larger)
		return -ENOMEM;
	c->counts = larger;
	c->room = room;
	return 0;
}

void group_counts_start(struct group_counts *c, uint32_t from, uint32_t to)
{
	size_t width = count_width(c);

	if (c->counts)
		memset((char *)c->counts + from * width, 0, (to - from) * width);
	if (from == 0)
		c->most = 0;
}

int group_counts_widen(struct group_counts *c, struct fth_qmem *mem, uint32_t count, uint64_t more)
{
	const uint16_t *narrow = c->counts;
	uint64_t *wide;

	if (!c->counts || c->wide || (more <= UINT16_MAX && c->most + more <= UINT16_MAX))
		return 0;
	wide = fth_qmem_alloc(mem, c->room * sizeof(*wide));
	if (!wide)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		wide[i] = narrow[i];
	fth_qmem_free(mem, c->counts, c->room * sizeof(*narrow));
	c->counts = wide;
	c->wide = true;
	return 0;
}

static void raise_most(struct group_counts *c, uint64_t count)
{
	c->most = count > c->most ? count : c->most;
}

static void count_runs(struct group_counts *c, const struct group_runs *runs)
{
	uint16_t *narrow = (uint16_t *)c->counts + runs->first;
	uint64_t *wide = (uint64_t *)c->counts + runs->first, most = 0;

	for (unsigned r = 0; r < runs->count && c->wide; r++)
		wide[r] += (uint64_t)(runs->starts[r + 1] - runs->starts[r]);
	for (unsigned r = 0; r < runs->count && !c->wide; r++) {
		narrow[r] = (uint16_t)(narrow[r] + (runs->starts[r + 1] - runs->starts[r]));
		most = narrow[r] > most ? narrow[r] : most;
	}
	raise_most(c, most);
}

void group_counts_add(struct group_counts *c, const struct group_batch *b, const struct fth_vec *v)
{
	if (b->runs && (!v || !v->nulls))
		count_runs(c, b->runs);
	else if (c->wide)
		fth_agg_group_count(&b->groups, v, c->counts);
	else
		raise_most(c, fth_agg_group_count_u16(&b->groups, v, c->counts));
}

void group_counts_merge(struct group_counts *c, const uint64_t *from, unsigned n,
			const uint32_t *numbers)
{
	uint16_t *narrow = c->counts;
	uint64_t *wide = c->counts, most = 0;

	for (unsigned i = 0; i < n && c->wide; i++)
		wide[numbers[i]] += from ? from[i] : 1;
	for (unsigned i = 0; i < n && !c->wide; i++) {
		narrow[numbers[i]] = (uint16_t)(narrow[numbers[i]] + (from ? from[i] : 1));
		most = narrow[numbers[i]] > most ? narrow[numbers[i]] : most;
	}
	raise_most(c, most);
}

void group_counts_get(const struct group_counts *c, uint32_t first, unsigned n,
		      const uint16_t *list, uint64_t *out)
{
	const uint16_t *narrow = (const uint16_t *)c->counts + first;
	const uint64_t *wide = (const uint64_t *)c->counts + first;

	for (unsigned i = 0; i < n && c->wide; i++)
		out[i] = wide[list ? list[i] : i];
	for (unsigned i = 0; i < n && !c->wide; i++)
		out[i] = narrow[list ? list[i] : i];
}

unsigned group_counts_list(const struct group_counts *c, uint32_t first, unsigned n, uint16_t *list)
{
	const uint16_t *narrow = (const uint16_t *)c->counts + first;
	const uint64_t *wide = (const uint64_t *)c->counts + first;
	unsigned count = 0;

	for (unsigned i = 0; i < n && c->wide; i++) {
		list[count] = (uint16_t)i;
		count += wide[i] > 0;
	}
	for (unsigned i = 0; i < n && !c->wide; i++) {
		list[count] = (uint16_t)i;
		count += narrow[i] > 0;
	}
	return count;
}
