/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a table of groups to arrays over the domain of their key. Nothing changes before all memory
 * is there; so the table goes on if it is not.
 */
#include "query/group/group_internal.h"

#include <errno.h>

#define ROOM_LEFT (64u << 10)

/* The bytes of a group in the arrays. */
static size_t state_bytes(const struct group_states *s)
{
	size_t bytes = group_counts_width(&s->rows);

	for (unsigned i = 0; i < s->count; i++)
		bytes += s->states[i].width + group_counts_width(&s->states[i].seen);
	return bytes;
}

static bool any_distinct(const struct group_states *s)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->states[i].distinct)
			return true;
	return false;
}

uint64_t grouper_table_bytes(const struct grouper *g, uint64_t groups)
{
	uint64_t room = g->key.groups.room;

	while (room < groups)
		room *= 2;
	return room * (state_bytes(&g->states) + sizeof(uint64_t) + 2 * sizeof(uint32_t));
}

size_t grouper_array_width(const struct grouper *g)
{
	size_t count_rows = !g->states.rows.counts ? sizeof(uint16_t) : 0;

	return state_bytes(&g->states) + count_rows;
}

static uint64_t array_bytes(const struct grouper *g)
{
	return g->key.domain * (uint64_t)grouper_array_width(g);
}

/*
 * Arrays are better if they take no more than the table for `wanted` groups would; or if they fit
 * while the table would not if all keys came. They have to be made then before the table has taken
 * their place.
 */
static bool is_better(const struct grouper *g, uint64_t wanted)
{
	uint64_t bytes = array_bytes(g);

	if (bytes <= grouper_table_bytes(g, wanted))
		return true;
	return g->spec.memory > 0 && grouper_table_bytes(g, g->key.domain) > g->spec.memory &&
	       bytes + ROOM_LEFT <= fth_qmem_available(g->mem);
}

/* ---- moving ---- */

/* The arrays of one state, or the counts of rows. */
struct moved {
	void *values;
	struct group_counts counts;
};

static int alloc_counts(struct grouper *g, struct group_counts *to, const struct group_counts *from)
{
	*to = *from;
	to->room = g->key.domain;
	to->counts = fth_qmem_alloc(g->mem, to->room * group_counts_width(from));
	return to->counts ? 0 : -ENOMEM;
}

static int alloc_moved(struct grouper *g, struct moved *to)
{
	struct group_states *s = &g->states;
	int rc = alloc_counts(g, &to[s->count].counts, &s->rows);

	for (unsigned i = 0; i < s->count && rc == 0; i++) {
		const struct group_state *state = &s->states[i];

		if (state->width > 0) {
			to[i].values = fth_qmem_alloc(g->mem, (size_t)g->key.domain * state->width);
			rc = to[i].values ? 0 : -ENOMEM;
		}
		if (rc == 0 && state->seen.counts)
			rc = alloc_counts(g, &to[i].counts, &state->seen);
	}
	return rc;
}

static void free_moved(struct grouper *g, struct moved *m, const uint32_t *rooms)
{
	struct group_states *s = &g->states;

	for (unsigned i = 0; i <= s->count; i++) {
		group_counts_release(&m[i].counts, g->mem);
		if (i < s->count)
			fth_qmem_free(g->mem, m[i].values, (size_t)rooms[i] * s->states[i].width);
	}
}

static void swap_counts(struct group_counts *a, struct group_counts *b)
{
	struct group_counts c = *a;

	*a = *b;
	*b = c;
}

static void swap_arrays(struct grouper *g, struct moved *m, uint32_t *rooms)
{
	struct group_states *s = &g->states;

	for (unsigned i = 0; i < s->count; i++) {
		struct group_state *state = &s->states[i];
		void *values = state->values;
		uint32_t room = state->value_room;

		state->values = m[i].values;
		state->value_room = state->values ? g->key.domain : 0;
		m[i].values = values;
		rooms[i] = room;
		swap_counts(&state->seen, &m[i].counts);
	}
	swap_counts(&s->rows, &m[s->count].counts);
	s->room = g->key.domain;
}

/* Values of groups to the places of their keys. */
static void scatter(void *to, const void *from, size_t width, const uint64_t *keys, uint32_t count)
{
	for (uint32_t i = 0; i < count && width == 2; i++)
		((uint16_t *)to)[keys[i]] = ((const uint16_t *)from)[i];
	for (uint32_t i = 0; i < count && width == 8; i++)
		((uint64_t *)to)[keys[i]] = ((const uint64_t *)from)[i];
	for (uint32_t i = 0; i < count && width != 2 && width != 8; i++)
		memcpy((char *)to + keys[i] * width, (const char *)from + i * width, width);
}

static void scatter_counts(struct group_counts *to, const struct group_counts *from,
			   const uint64_t *keys, uint32_t count)
{
	if (!from->counts)
		return;
	scatter(to->counts, from->counts, group_counts_width(from), keys, count);
	to->most = from->most;
}

static void scatter_all(struct grouper *g, const struct moved *from)
{
	struct group_states *s = &g->states;
	const uint64_t *keys = g->key.groups.keys;
	uint32_t count = g->key.groups.count;

	for (unsigned i = 0; i < s->count; i++) {
		struct group_state *state = &s->states[i];

		if (state->width > 0)
			scatter(state->values, from[i].values, state->width, keys, count);
		scatter_counts(&state->seen, &from[i].counts, keys, count);
	}
	scatter_counts(&s->rows, &from[s->count].counts, keys, count);
}

/*
 * If no state needed it, rows are counted from now on: at least one for each group that is there.
 */
static int count_rows(struct grouper *g)
{
	struct group_counts *rows = &g->states.rows;
	uint16_t *counts;

	if (rows->counts)
		return 0;
	if (group_counts_init(rows, g->mem) < 0 ||
	    group_counts_grow(rows, g->mem, g->states.room) < 0) {
		group_counts_release(rows, g->mem);
		return -ENOMEM;
	}
	counts = rows->counts;
	for (uint32_t i = 0; i < g->states.started; i++)
		counts[i] = 1;
	rows->most = 1;
	return 0;
}

static int become_array(struct grouper *g)
{
	struct group_states *s = &g->states;
	size_t moved_bytes = (s->count + 1) * sizeof(struct moved);
	size_t room_bytes = (s->count + 1) * sizeof(uint32_t);
	struct moved *m = fth_qmem_zalloc(g->mem, moved_bytes);
	uint32_t *rooms = fth_qmem_alloc(g->mem, room_bytes);
	int rc = !m || !rooms ? -ENOMEM : count_rows(g);

	for (unsigned i = 0; i <= s->count && rooms; i++)
		rooms[i] = g->key.domain;
	if (rc == 0)
		rc = alloc_moved(g, m);
	if (rc == 0) {
		swap_arrays(g, m, rooms);
		s->started = 0;
		group_states_start(s, g->key.domain);
		scatter_all(g, m);
		group_table_release(&g->key.groups);
		g->key.groups = (struct group_table){0};
		g->key.array = true;
	}
	if (m && rooms)
		free_moved(g, m, rooms);
	fth_qmem_free(g->mem, rooms, room_bytes);
	fth_qmem_free(g->mem, m, moved_bytes);
	return rc;
}

void grouper_may_become_array(struct grouper *g, uint32_t more)
{
	struct group_table *groups = &g->key.groups;
	uint64_t wanted = (uint64_t)groups->count + more;

	if (g->key.array || g->key.domain == 0 || wanted <= groups->room ||
	    groups->count <= FTH_AGG_FEW || any_distinct(&g->states) || !is_better(g, wanted))
		return;
	/* Without the memory for it the table goes on, and this is not tried again. */
	if (become_array(g) < 0)
		g->key.domain = 0;
}

int grouper_take_range(struct grouper *g, uint64_t base, uint32_t width)
{
	int rc;

	if (g->key.array && g->key.domain == width) {
		g->key.base = base;
		grouper_reset(g);
		return 0;
	}
	rc = grouper_renew(g);
	if (rc < 0)
		return rc;
	g->key.domain = width;
	if (array_bytes(g) + ROOM_LEFT > fth_qmem_available(g->mem) || become_array(g) < 0)
		g->key.domain = 0;
	else
		g->key.base = base;
	return 0;
}
