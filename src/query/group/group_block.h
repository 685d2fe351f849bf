/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks: rows or groups as columns of fixed width, with their packed keys, for the spill files of
 * groups. A batch is divided among parts by key, and each part gets one block.
 *
 * A block is a header, the column of keys (of 32 or 64 bits), and the other columns. A column is a
 * header with its physical type and frame of reference, the values as they were in memory, and its
 * nulls if it may have any. All of them begin at a multiple of BLOCK_ALIGN bytes.
 */
#ifndef FTH_QUERY_GROUP_BLOCK_H
#define FTH_QUERY_GROUP_BLOCK_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

#define GROUP_PARTS	    64u /* at most */
#define GROUP_BLOCK_COLUMNS 513u

/* Which part a key belongs to. */
struct group_parting {
	unsigned parts;
	bool ranged; /* part i has the keys [i << shift, (i + 1) << shift); else by their hash */
	unsigned shift, mask;
};

/* Blocks that were made of one batch; part i is empty if its two ends are equal. */
struct group_blocks {
	struct fth_qmem *mem;
	char *bytes;
	size_t room;
	size_t ends[GROUP_PARTS + 1]; /* block i lies in [ends[i], ends[i + 1]) */
	uint32_t counts[GROUP_PARTS]; /* its rows or groups */
	uint16_t order[FTH_BATCH];    /* rows, part by part */
	uint8_t parts[FTH_BATCH];
};

/* A block that was read. */
struct group_block {
	uint32_t kind;
	unsigned n, count; /* rows or groups; columns without the keys */
	struct fth_vec keys;
	struct fth_vec columns[GROUP_BLOCK_COLUMNS];
};

/* Returns 0 or -ENOMEM. Release accepts NULL. */
int group_blocks_new(struct fth_qmem *mem, struct group_blocks **out);
void group_blocks_free(struct group_blocks *b);
/*
 * Make blocks of `n` of the rows of a batch: those in list[], or the first n if it is NULL. Columns
 * are of integers or doubles. wide_keys: keys have up to 64 bits, else 32. Returns 0 or -ENOMEM.
 */
int group_blocks_make(struct group_blocks *b, const struct group_parting *by, uint32_t kind,
		      const uint64_t *keys, bool wide_keys, const uint16_t *list, unsigned n,
		      const struct fth_vec *columns, unsigned count);
/*
 * The columns of a block, which point into `bytes`, aligned to 16. Returns 0, or -EILSEQ if it is
 * not one block with `count` columns.
 */
int group_block_read(const char *bytes, size_t size, unsigned count, struct group_block *out);

#endif
