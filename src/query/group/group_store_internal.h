/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a store of groups: group_store.c has the store and records, group_part.c blocks. */
#ifndef FTH_QUERY_GROUP_STORE_INTERNAL_H
#define FTH_QUERY_GROUP_STORE_INTERNAL_H

#include "query/group/group_block.h"
#include "query/group/group_internal.h"

#define GROUP_HASHED	16u /* parts by hash */
#define GROUP_HASH_BITS 4u
#define GROUP_LEVELS	12u
#define GROUP_FIELDS	(FTH_KEY_COLUMNS + 2 * GROUP_STATES + 1)
/* Kinds of records and blocks. */
#define GROUP_WIDE     0x80000000u /* sums have 128 bits */
#define GROUP_BLOCK    0x40000000u
#define GROUP_ROWS     0x20000000u /* a block of rows, not of groups */
#define GROUP_RESOLVED 0x10000000u /* counts and sums of distinct values */

struct group_parts {
	struct spill_stream *streams[GROUP_PARTS]; /* NULL: nothing was written */
	uint64_t items[GROUP_PARTS];		   /* rows and groups in blocks */
	unsigned level;
};

/* A part that is still to be read. */
struct group_pending {
	struct spill_stream *stream;
	unsigned level;
	bool own; /* of a deeper level */
	unsigned part;
};

struct group_store {
	struct fth_qmem *mem;
	struct scratch *scratch;
	pthread_mutex_t lock;
	struct group_parts top, values; /* values: of distinct aggregates */
	struct group_parting by;	/* of the first level */
	bool in_blocks;
	bool spilled;
	uint64_t added; /* rows that the spilled groups stand for */
	char *buffer;	/* for a record, or a block that is read */
	size_t buffer_room;
	struct group_blocks *blocks; /* for groups */
	/* after finish */
	struct grouper *g;
	uint32_t at; /* the next group of the grouper */
	struct group_pending pending[GROUP_PARTS + GROUP_LEVELS * GROUP_HASHED];
	unsigned pending_count;
};

int group_part_stream(struct group_store *s, struct group_parts *p, unsigned part,
		      struct spill_stream **out);
/* Room in s->buffer. Returns 0 or -ENOMEM. */
int group_store_room(struct group_store *s, size_t size);
/* The physical type of a state's values in a file. */
enum fth_phys group_state_type(const struct group_state *s, bool wide);
bool group_sums_are_wide(const struct grouper *g);

/* ---- blocks ---- */

/*
 * With the first grouper that is emptied: whether its groups are written in blocks, and in which
 * parts.
 */
void group_part_begin(struct group_store *s, const struct grouper *g);
/* Write all groups. Its buffers for what comes out are open. */
int group_part_write(struct group_store *s, struct group_parts *parts, struct grouper *g);
/* Whether the grouper, which is full, would gain nothing from grouping more rows. */
bool group_part_wants_rows(const struct group_store *s, const struct grouper *g);
/* Before the blocks of a part are added to the grouper of the store. */
int group_part_prepare(struct group_store *s, const struct group_pending *from);
/* Parse a block, which must stay as long as it is used. */
int group_part_parse(const struct grouper *g, const char *bytes, size_t size,
		     struct group_block *out);
/* Add n rows or groups of a block from `first` on, a multiple of 64. */
int group_part_add(struct grouper *g, const struct group_block *b, unsigned first, unsigned n,
		   struct group_partial *partial);

#endif
