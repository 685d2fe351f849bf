/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is stored. All numbers are little-endian. src/table/README.md describes how the parts lie.
 */
#ifndef TABLE_FORMAT_H
#define TABLE_FORMAT_H

#include "fathom/table/read.h"
#include "fathom/table/schema.h"

#include <stdint.h>

#define CHUNK_MAGIC	 0x4b4e4843u	     /* "CHNK" */
#define MANIFEST_MAGIC	 0x314c42544d485446u /* "FTHMTBL1" */
#define CHUNK_ALIGN	 64u		     /* chunks begin at multiples of it */
#define BATCH_ALIGN	 4096u		     /* batches begin and end at multiples of it */
#define CHUNK_SEED	 0x6368756e6b000000u
#define BLOCK_SEED	 0x626c6f636b000000u
#define MANIFEST_SEED	 0x6d616e6966657374u
#define BLOCK_TEXT	 (256u << 10) /* bytes of text in a block, as a rule */
#define DICT_BYTES_MAX	 (512u << 10)
#define SKETCH_REGISTERS 1024u

/*
 * A sequence of integers: this header, then an anchor (int64_t) for each block of 1024 values if
 * `delta`, then packed blocks at a multiple of 8. Value = base + factor * packed; with delta the
 * first value of a block is its anchor, and each later one is the one before + base + packed.
 */
struct sequence_header {
	uint32_t count;
	uint8_t width;
	uint8_t delta;
	uint8_t unused[2];
	int64_t base;
	uint64_t factor;
};
_Static_assert(sizeof(struct sequence_header) == 24, "stored");

/*
 * The head of a chunk: this header; a bitmap of nulls if some but not all rows are null, in words
 * of 64 bits; then by encoding
 *
 *	PACKED, DELTA, CODES	sequence of values
 *	RUNS		sequence of values, sequence of lengths, struct run_index for each 1024 rows
 *	WIDE		struct fth_table_wide for each row
 *	LOCAL		sequence of codes, count + 1 offsets (uint32_t), bytes
 *	BLOCKS		sequence of lengths, `count` struct block_entry; behind the head the blocks
 *
 * Every part begins at a multiple of 8.
 */
struct chunk_header {
	uint64_t checksum; /* of the rest of the head; the seed has table, column and offset */
	uint32_t magic;
	uint32_t head; /* bytes */
	uint32_t rows;
	uint32_t nulls;
	uint32_t count;
	uint8_t encoding;
	uint8_t unused[3];
};
_Static_assert(sizeof(struct chunk_header) == 32, "stored");

/* The run that holds the first row of a block of 1024 rows, and how many of its rows are before. */
struct run_index {
	uint32_t run;
	uint32_t before;
};
_Static_assert(sizeof(struct run_index) == 8, "stored");

/* A block of text. It is plain if stored == text. */
struct block_entry {
	uint64_t checksum; /* of what is stored */
	uint32_t first;	   /* row */
	uint32_t at;	   /* from the beginning of the chunk */
	uint32_t stored, text;
};
_Static_assert(sizeof(struct block_entry) == 24, "stored");

_Static_assert(sizeof(struct fth_table_chunk) == 40, "stored in manifests");
_Static_assert(sizeof(struct fth_table_wide) == 16, "stored");

static inline uint64_t align_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* The seed of a chunk's checksum: a chunk in another place or of another table does not verify. */
static inline uint64_t chunk_seed(uint64_t table_id, uint32_t column, uint64_t offset)
{
	return CHUNK_SEED ^ table_id ^ (uint64_t)column << 48 ^ offset;
}

#endif
