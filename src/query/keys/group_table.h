/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Group tables: from key to group number, 0, 1, 2, ... in the order in which keys come. States of
 * aggregates are arrays indexed by group number. A table belongs to one thread.
 *
 *	direct	an array over the domain of a 64-bit key, for small domains
 *	64, 128	hash tables of packed keys
 *	bytes	a hash table of encoded keys
 *
 * A table grows until its account refuses. Then the rows that found no group are reported, and the
 * operator writes them elsewhere; groups that are there keep working. Packed keys find their groups
 * without fail if room for them was reserved.
 */
#ifndef FTH_QUERY_GROUP_TABLE_H
#define FTH_QUERY_GROUP_TABLE_H

#include "query/keys/composite_key.h"

/*
 * Domains up to this are direct from the start, larger ones when the hash table is nearly as large.
 */
#define FTH_GROUP_DIRECT ((uint64_t)1 << 14)

struct group_table {
	struct fth_qmem *mem;
	enum composite_key_form form;
	bool direct;
	uint64_t domain; /* 0: none, or it may not be direct */
	uint32_t count;	 /* groups */
	uint32_t room;	 /* of keys */
	uint32_t hash_room;
	uint32_t slots;	  /* of the table; a power of two */
	uint32_t *table;  /* group + 1; 0: free. direct: by key */
	uint32_t entered; /* groups that are in the table: all, or those before the appended ones */
	void *keys;	  /* by group */
	uint64_t *hashes; /* by group; bytes only */
	struct fth_arena bytes;
};

int group_table_init(struct group_table *g, struct fth_qmem *mem, const struct composite_key *key);
/* Never a direct array. */
int group_table_init_hashed(struct group_table *g, struct fth_qmem *mem,
			    const struct composite_key *key);
void group_table_release(struct group_table *g);

/*
 * Group numbers of selected rows; new keys get new numbers. keys: uint64_t, fth_u128 or struct
 * fth_str, by the key's form; encoded ones are copied. Returns 0, or -ENOMEM: then `left` has the
 * rows that found no group, and all other rows have theirs.
 */
int group_table_find(struct group_table *g, const void *keys, unsigned n, const uint64_t *rows,
		     uint32_t *groups, uint64_t *left);
/* Room for so many groups more. Returns 0 or -ENOMEM with nothing lost. */
int group_table_reserve(struct group_table *g, uint32_t more);
/*
 * Groups of keys that are known to be new, without a place in the table; the key has 64 bits.
 * Nothing can be found until they are entered. Room must have been reserved, with reserve_append()
 * if nothing but that is done.
 */
void group_table_append(struct group_table *g, const uint64_t *keys, uint32_t n);
int group_table_reserve_append(struct group_table *g, uint32_t more);
int group_table_enter(struct group_table *g);
/* Forget the groups and keep the memory. */
void group_table_clear(struct group_table *g);

static inline fth_u128 group_table_key(const struct group_table *g, uint32_t group)
{
	return g->form == FTH_KEY_64 ? ((const uint64_t *)g->keys)[group]
				     : ((const fth_u128 *)g->keys)[group];
}

static inline struct fth_str group_table_bytes(const struct group_table *g, uint32_t group)
{
	return ((const struct fth_str *)g->keys)[group];
}

#endif
