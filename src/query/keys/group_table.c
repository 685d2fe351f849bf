/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group tables. Keys lie in an array by group number, and the table holds numbers: so it is small,
 * is made anew from the keys when it grows, and the keys come out in order.
 */
#include "query/keys/group_table.h"
#include "query/keys/bit_rows.h"

#include "scalar/text.h"

#include "fathom/base/rng.h"

#include <errno.h>

#define FIRST_ROOM   64u
#define CACHED_SLOTS 16384u /* a table of more is not in the cache of the core */

static size_t key_width(const struct group_table *g)
{
	return g->form == FTH_KEY_64 ? 8 : 16;
}

static int alloc_table(struct group_table *g)
{
	g->slots = g->direct ? (uint32_t)g->domain : 2 * FIRST_ROOM;
	g->table = fth_qmem_zalloc(g->mem, g->slots * sizeof(*g->table));
	return g->table ? 0 : -ENOMEM;
}

static int init_groups(struct group_table *g, struct fth_qmem *mem, const struct composite_key *key,
		       bool hashed)
{
	*g = (struct group_table){.mem = mem, .form = key->form, .room = FIRST_ROOM};
	fth_arena_init(&g->bytes, mem, 16384);
	if (key->form == FTH_KEY_64 && key->bits < 32 && !hashed)
		g->domain = (uint64_t)1 << key->bits;
	g->direct = g->domain > 0 && g->domain <= FTH_GROUP_DIRECT;
	g->keys = fth_qmem_alloc(mem, g->room * key_width(g));
	if (g->form == FTH_KEY_BYTES)
		g->hashes = fth_qmem_alloc(mem, g->room * sizeof(*g->hashes));
	g->hash_room = g->room;
	if (alloc_table(g) == 0 && g->keys && (g->hashes || g->form != FTH_KEY_BYTES))
		return 0;
	group_table_release(g);
	return -ENOMEM;
}

int group_table_init(struct group_table *g, struct fth_qmem *mem, const struct composite_key *key)
{
	return init_groups(g, mem, key, false);
}

int group_table_init_hashed(struct group_table *g, struct fth_qmem *mem,
			    const struct composite_key *key)
{
	return init_groups(g, mem, key, true);
}

void group_table_release(struct group_table *g)
{
	fth_qmem_free(g->mem, g->table, g->slots * sizeof(*g->table));
	fth_qmem_free(g->mem, g->keys, g->room * key_width(g));
	fth_qmem_free(g->mem, g->hashes, g->hash_room * sizeof(*g->hashes));
	g->table = NULL;
	g->keys = NULL;
	g->hashes = NULL;
	fth_arena_release(&g->bytes);
}

/* ---- growing ---- */

static uint64_t hash_wide(fth_u128 key)
{
	return fth_mix64((uint64_t)key ^ fth_mix64((uint64_t)(key >> 64) + 0x9e3779b97f4a7c15u));
}

static uint64_t hash_of(const struct group_table *g, uint32_t group)
{
	if (g->form == FTH_KEY_64)
		return fth_mix64(((const uint64_t *)g->keys)[group]);
	return g->form == FTH_KEY_128 ? hash_wide(((const fth_u128 *)g->keys)[group])
				      : g->hashes[group];
}

static void enter_groups(struct group_table *g, uint32_t from)
{
	uint32_t mask = g->slots - 1;

	for (uint32_t i = from; i < g->count && g->direct; i++)
		g->table[((const uint64_t *)g->keys)[i]] = i + 1;
	for (uint32_t i = from; i < g->count && !g->direct; i++) {
		uint32_t at = (uint32_t)hash_of(g, i) & mask;

		while (g->table[at])
			at = (at + 1) & mask;
		g->table[at] = i + 1;
	}
	g->entered = g->count;
}

static int grow_table(struct group_table *g, uint32_t slots)
{
	bool direct = g->domain > 0 && g->domain <= 2 * (uint64_t)slots;
	uint32_t *table;

	if (direct)
		slots = (uint32_t)g->domain;
	table = fth_qmem_zalloc(g->mem, slots * sizeof(*table));
	if (!table)
		return -ENOMEM;
	g->direct = direct;
	fth_qmem_free(g->mem, g->table, g->slots * sizeof(*table));
	g->table = table;
	g->slots = slots;
	enter_groups(g, 0);
	return 0;
}

static int grow_keys(struct group_table *g, uint32_t room)
{
	size_t width = key_width(g);
	void *keys;
	uint64_t *hashes;

	if (g->form == FTH_KEY_BYTES && g->hash_room < room) {
		hashes = fth_qmem_realloc(g->mem, g->hashes, g->hash_room * sizeof(*hashes),
					  room * sizeof(*hashes));
		if (!hashes)
			return -ENOMEM;
		g->hashes = hashes;
		g->hash_room = room;
	}
	keys = fth_qmem_realloc(g->mem, g->keys, g->room * width, room * width);
	if (!keys)
		return -ENOMEM;
	g->keys = keys;
	g->room = room;
	return 0;
}

int group_table_reserve_append(struct group_table *g, uint32_t more)
{
	uint64_t wanted = (uint64_t)g->count + more, room = g->room;

	if (wanted > (uint32_t)1 << 30)
		return -ENOMEM;
	while (room < wanted)
		room *= 2;
	return room > g->room ? grow_keys(g, (uint32_t)room) : 0;
}

int group_table_reserve(struct group_table *g, uint32_t more)
{
	uint64_t wanted = (uint64_t)g->count + more, slots = g->slots;

	/* A direct table cannot have more groups than its domain. */
	if (g->direct && wanted > g->domain)
		more = (uint32_t)(g->domain - g->count);
	if (group_table_reserve_append(g, more) < 0)
		return -ENOMEM;
	while (!g->direct && slots < 2 * wanted)
		slots *= 2;
	return slots > g->slots ? grow_table(g, (uint32_t)slots) : 0;
}

/* Room for one more group. */
static int make_room(struct group_table *g)
{
	bool full = g->count == g->room || (!g->direct && 2 * (uint64_t)(g->count + 1) > g->slots);

	return full ? group_table_reserve(g, 1) : 0;
}

void group_table_append(struct group_table *g, const uint64_t *keys, uint32_t n)
{
	memcpy((uint64_t *)g->keys + g->count, keys, n * sizeof(*keys));
	g->count += n;
}

int group_table_enter(struct group_table *g)
{
	int rc = group_table_reserve(g, 0);

	if (rc == 0 && g->entered < g->count)
		enter_groups(g, g->entered);
	return rc;
}

void group_table_clear(struct group_table *g)
{
	if (g->direct && g->entered < g->slots / 16) {
		for (uint32_t i = 0; i < g->entered; i++)
			g->table[((const uint64_t *)g->keys)[i]] = 0;
	} else if (g->entered > 0) {
		memset(g->table, 0, g->slots * sizeof(*g->table));
	}
	g->count = g->entered = 0;
	fth_arena_reset(&g->bytes);
}

/* ---- finding ---- */

static int find_direct(struct group_table *g, uint64_t key, uint32_t *group)
{
	uint32_t *place = &g->table[key];

	if (*place == 0) {
		if (make_room(g) < 0)
			return -ENOMEM;
		((uint64_t *)g->keys)[g->count] = key;
		*place = g->entered = ++g->count;
	}
	*group = *place - 1;
	return 0;
}

#define DEFINE_FIND(name, K, HASH, DIRECT)                                                \
	static int name(struct group_table *g, K key, uint32_t *group)                    \
	{                                                                                 \
		uint32_t mask = g->slots - 1, at = (uint32_t)HASH(key) & mask;            \
                                                                                          \
		for (; g->table[at]; at = (at + 1) & mask)                                \
			if (((const K *)g->keys)[g->table[at] - 1] == key) {              \
				*group = g->table[at] - 1;                                \
				return 0;                                                 \
			}                                                                 \
		if (make_room(g) < 0)                                                     \
			return -ENOMEM;                                                   \
		if (g->direct) /* it has become so */                                     \
			return DIRECT;                                                    \
		mask = g->slots - 1; /* it may have grown */                              \
		for (at = (uint32_t)HASH(key) & mask; g->table[at]; at = (at + 1) & mask) \
			;                                                                 \
		((K *)g->keys)[g->count] = key;                                           \
		g->table[at] = g->entered = ++g->count;                                   \
		*group = g->count - 1;                                                    \
		return 0;                                                                 \
	}

DEFINE_FIND(find_64, uint64_t, fth_mix64, find_direct(g, key, group))
DEFINE_FIND(find_128, fth_u128, hash_wide, -EINVAL)

static int add_bytes(struct group_table *g, struct fth_str key, uint64_t hash, uint32_t *group)
{
	uint32_t mask, at;
	char *copy;

	if (make_room(g) < 0)
		return -ENOMEM;
	copy = fth_arena_alloc(&g->bytes, key.len + 1, 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, key.data, key.len);
	mask = g->slots - 1;
	for (at = (uint32_t)hash & mask; g->table[at]; at = (at + 1) & mask)
		;
	((struct fth_str *)g->keys)[g->count] = (struct fth_str){copy, key.len, 0};
	g->hashes[g->count] = hash;
	g->table[at] = g->entered = ++g->count;
	*group = g->count - 1;
	return 0;
}

static int find_bytes(struct group_table *g, struct fth_str key, uint32_t *group)
{
	uint64_t hash = fth_str_hash(key);
	uint32_t mask = g->slots - 1;

	for (uint32_t at = (uint32_t)hash & mask; g->table[at]; at = (at + 1) & mask) {
		uint32_t i = g->table[at] - 1;

		if (g->hashes[i] == hash &&
		    fth_str_equal(((const struct fth_str *)g->keys)[i], key)) {
			*group = i;
			return 0;
		}
	}
	return add_bytes(g, key, hash, group);
}

static int find_one(struct group_table *g, const void *keys, uint64_t i, uint32_t *group)
{
	if (g->direct)
		return find_direct(g, ((const uint64_t *)keys)[i], group);
	if (g->form == FTH_KEY_64)
		return find_64(g, ((const uint64_t *)keys)[i], group);
	if (g->form == FTH_KEY_128)
		return find_128(g, ((const fth_u128 *)keys)[i], group);
	return find_bytes(g, ((const struct fth_str *)keys)[i], group);
}

/*
 * All rows of a batch in a small domain; bits of `fresh` are selected rows whose key is new. Keys
 * of rows that are not selected may be anything: the mask keeps them inside the table.
 */
static bool look_up_direct(const struct group_table *g, const uint64_t *keys, unsigned n,
			   const uint64_t *rows, uint32_t *groups, uint64_t *fresh)
{
	uint64_t mask = g->domain - 1, any = 0;

	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		unsigned end = n - w * 64 < 64 ? n - w * 64 : 64;
		uint64_t missing = 0;

		for (unsigned j = 0; j < end; j++) {
			uint32_t place = g->table[keys[w * 64 + j] & mask];

			missing |= (uint64_t)(place == 0) << j;
			groups[w * 64 + j] = place - 1;
		}
		fresh[w] = missing & rows[w];
		any |= fresh[w];
	}
	return any != 0;
}

/*
 * Rows of a word: first the places of their keys are fetched, then the keys that are there, so that
 * the waits for memory overlap.
 */
static void prefetch_64(const struct group_table *g, const uint64_t *keys, uint64_t rows)
{
	uint32_t mask = g->slots - 1, at[64];
	unsigned n = 0;

	for (uint64_t bits = rows; bits; bits &= bits - 1) {
		at[n] = (uint32_t)fth_mix64(keys[__builtin_ctzll(bits)]) & mask;
		__builtin_prefetch(&g->table[at[n++]]);
	}
	for (unsigned i = 0; i < n; i++) {
		uint32_t place = g->table[at[i]];

		__builtin_prefetch((const uint64_t *)g->keys + place - (place != 0));
	}
}

static int find_rows_64(struct group_table *g, const uint64_t *keys, unsigned n,
			const uint64_t *rows, uint32_t *groups, uint64_t *left)
{
	int rc = 0;

	for (unsigned w = 0; w < fth_bits_words(n); w++) {
		if (!g->direct && g->slots > CACHED_SLOTS)
			prefetch_64(g, keys + w * 64, rows[w]);
		for (uint64_t bits = rows[w]; bits; bits &= bits - 1) {
			unsigned i = w * 64 + (unsigned)__builtin_ctzll(bits);

			if ((g->direct ? find_direct(g, keys[i], &groups[i])
				       : find_64(g, keys[i], &groups[i])) == 0)
				continue;
			rc = -ENOMEM;
			if (left)
				fth_bit_set(left, i);
		}
	}
	return rc;
}

int group_table_find(struct group_table *g, const void *keys, unsigned n, const uint64_t *rows,
		     uint32_t *groups, uint64_t *left)
{
	uint64_t fresh[FTH_BATCH_WORDS];
	int rc = 0;

	if (left)
		memset(left, 0, fth_bits_words(n) * sizeof(*left));
	if (g->direct) {
		if (!look_up_direct(g, keys, n, rows, groups, fresh))
			return 0;
		rows = fresh;
	} else if (g->form == FTH_KEY_64) {
		return find_rows_64(g, keys, n, rows, groups, left);
	}
	FTH_FOR_ROWS(rows, n, i)
	{
		if (find_one(g, keys, i, &groups[i]) == 0)
			continue;
		rc = -ENOMEM;
		if (left)
			fth_bit_set(left, (unsigned)i);
	}
	return rc;
}
