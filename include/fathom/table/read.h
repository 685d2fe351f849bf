/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading tables: snapshots, metadata and pages.
 *
 * A snapshot knows every chunk's place, size and statistics, so that planning needs no I/O. A query
 * engine reads chunks itself, with its own channels and buffers:
 *
 *	const struct fth_table_chunk *chunk = fth_table_chunk(table, column, group);
 *	struct fth_dev *dev = fth_table_dev(table, fth_table_group(table, group)->file);
 *	... read chunk->bytes at chunk->offset into image ...
 *	rc = fth_table_page_open(&page, table, column, group, image);
 *	rc = fth_table_page_ints(&page, from, to, values, 4);
 *
 * A chunk begins at any multiple of 64 bytes: round its range out to blocks of the device. Groups
 * are counted from 0 and so are the rows of a group. [from, to) is a range of rows of the page's
 * group; all functions that take one return -ERANGE if it is not inside. Ranges that begin and end
 * at multiples of FTH_TABLE_BLOCK_ROWS (or at the last row) are decoded fastest.
 */
#ifndef FATHOM_TABLE_READ_H
#define FATHOM_TABLE_READ_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"
#include "fathom/table/db.h"
#include "fathom/table/schema.h"

FTH_BEGIN_DECLS

struct fth_table;

#define FTH_TABLE_BLOCK_ROWS 1024u

/* ---- snapshots ---- */

/* The allocator of a snapshot. alloc returns NULL if out of memory. */
struct fth_table_memory {
	void *(*alloc)(void *user, size_t bytes);
	void (*release)(void *user, void *memory, size_t bytes);
	void *user;
};

/*
 * Open a snapshot of a table. memory NULL uses malloc(). Everything that the snapshot keeps comes
 * from there: about 40 bytes for each chunk, and the dictionaries. Blocks. Returns 0 or a negative
 * errno: -ENOENT, -EBADMSG if the manifest is damaged, -ENOMEM; *out is NULL then.
 */
int fth_table_open(struct fth_table_db *db, const char *name, const struct fth_table_memory *memory,
		   struct fth_table **out);

/* Close the snapshot. No channel on its devices may be open. Accepts NULL. */
void fth_table_close(struct fth_table *table);

/* The functions below look at memory only, may be called by any thread and cannot fail. */
const char *fth_table_name(const struct fth_table *table);
const struct fth_table_schema *fth_table_schema(const struct fth_table *table);
uint64_t fth_table_rows(const struct fth_table *table);
uint32_t fth_table_groups(const struct fth_table *table);
uint64_t fth_table_version(const struct fth_table *table); /* grows with every batch */
uint64_t fth_table_bytes(const struct fth_table *table);   /* on all devices, garbage included */
size_t fth_table_memory_used(const struct fth_table *table);

/* A file of a table, by the number that its row groups name: the device to read from. */
struct fth_dev *fth_table_dev(const struct fth_table *table, uint32_t file);

struct fth_table_group {
	uint64_t first; /* row number of its first row in the table */
	uint32_t rows;	/* 1 to FTH_TABLE_GROUP_ROWS */
	uint32_t file;
};
/* A group, by number, below fth_table_groups(). */
const struct fth_table_group *fth_table_group(const struct fth_table *table, uint32_t group);

/* The numbers are stored: never change them. */
enum fth_table_encoding {
	FTH_TABLE_PACKED = 1, /* frame of reference: base + factor * packed */
	FTH_TABLE_RUNS = 2,   /* run-length; values and lengths are packed */
	FTH_TABLE_DELTA = 3,  /* differences, packed, with an anchor for each block */
	FTH_TABLE_WIDE = 4,   /* 16 bytes each */
	FTH_TABLE_CODES = 5,  /* codes of the column's dictionary, packed */
	FTH_TABLE_LOCAL = 6,  /* codes of a dictionary inside the chunk, packed */
	FTH_TABLE_BLOCKS = 7, /* text in blocks, LZ4 or plain */
};
const char *fth_table_encoding_name(enum fth_table_encoding encoding);

struct fth_table_chunk {
	/*
	 * Of the values that are not null: integers as they are; keys of doubles and strings; wide
	 * decimals clamped to int64_t. If all are null min is INT64_MAX and max INT64_MIN.
	 */
	int64_t min, max;
	uint64_t offset; /* on the device */
	uint32_t bytes;
	uint32_t head; /* the bytes that fth_table_page_open() needs, all but text blocks */
	uint32_t nulls;
	uint8_t encoding; /* enum fth_table_encoding */
	uint8_t width;	  /* bits of a packed value */
	uint8_t unused[2];
};
/* The chunk of a column in a group. */
const struct fth_table_chunk *fth_table_chunk(const struct fth_table *table, uint32_t column,
					      uint32_t group);

/* ---- facts ---- */

/*
 * Facts: properties of a column that are known to hold for the whole table. A fact that is not set
 * may still hold. All but FTH_TABLE_ALL_CODES and the ordered dictionary hold only for columns
 * without nulls.
 */
#define FTH_TABLE_NO_NULLS	1u  /* no value is null */
#define FTH_TABLE_SORTED	2u  /* each value is at least the one before */
#define FTH_TABLE_STRICT	4u  /* each value is larger than the one before */
#define FTH_TABLE_CLUSTERED	8u  /* equal values are adjacent */
#define FTH_TABLE_UNIQUE	16u /* no value exists twice */
#define FTH_TABLE_DENSE		32u /* integers: every value from min to max exists */
#define FTH_TABLE_DISTINCT	64u /* `distinct` is exact, otherwise an estimate */
#define FTH_TABLE_WHOLE_RUNS	128u /* a clustered column: no run of equal values is in two groups */
#define FTH_TABLE_ALL_CODES	256u /* every chunk has encoding FTH_TABLE_CODES */
#define FTH_TABLE_ORDERED_CODES 512u /* the dictionary is in ascending order */

/* The facts of a column. */
struct fth_table_facts {
	uint32_t flags;
	uint32_t max_length; /* strings: bytes of the longest */
	int64_t min, max;    /* as struct fth_table_chunk */
	uint64_t nulls;
	uint64_t distinct;     /* values that are not null */
	uint64_t max_run;      /* a clustered column: most rows with one value; otherwise 0 */
	uint64_t string_bytes; /* sum of lengths */
	uint64_t bytes;	       /* stored */
	uint32_t dictionary;   /* values in the dictionary; 0: none */
};
/* The facts of a column, valid as long as the table is open. Any thread; cannot fail. */
const struct fth_table_facts *fth_table_facts(const struct fth_table *table, uint32_t column);

/*
 * The dictionary of a string column: value i is the bytes from offsets[i] to offsets[i + 1]. NULLs
 * for a column without one. Codes do not change when rows are appended; new values are added at the
 * end.
 */
struct fth_table_strings {
	const uint32_t *offsets;
	const char *bytes;
	uint32_t count;
};
void fth_table_dictionary(const struct fth_table *table, uint32_t column,
			  struct fth_table_strings *out);

/* ---- pages ---- */

/* Part of a page: integers, base + factor * packed. Not to be touched. */
struct fth_table_sequence {
	const unsigned char *packed, *anchors; /* anchors: of differences, else NULL */
	uint32_t count;
	uint32_t width; /* bits */
	int64_t base;
	uint64_t factor;
};

/*
 * A chunk in memory, verified. Lives on the caller's stack; the functions below never allocate. The
 * image stays the caller's and must not change or go while the page is used. Any number of threads
 * may use one page at a time. Not to be touched.
 */
struct fth_table_page {
	const struct fth_table *table;
	const struct fth_table_chunk *chunk;
	uint32_t column, group;
	uint32_t rows;
	uint32_t count;				   /* values of the dictionary, or text blocks */
	const unsigned char *nulls;		   /* a bitmap; NULL: none, or all */
	struct fth_table_sequence values, lengths; /* lengths: of runs or strings */
	const unsigned char *index;		   /* of runs, by block of rows; of text blocks */
	const unsigned char *string_offsets;
	const char *string_bytes;
};

/*
 * Verify an image of chunk->head bytes (chunk->bytes for all chunks but text blocks): its checksum,
 * and that every offset in it is inside. Costs one pass over the image. Returns 0 or -EBADMSG, with
 * a text that names table, column, group and what is wrong.
 */
int fth_table_page_open(struct fth_table_page *page, const struct fth_table *table, uint32_t column,
			uint32_t group, const void *image);

/* Bit i of bits[]: row from + i is null. Unused bits of the last word are 0. */
int fth_table_page_nulls(const struct fth_table_page *page, uint32_t from, uint32_t to,
			 uint64_t *bits);

/*
 * Integers of columns of kind INT (and keys of kind DOUBLE) into signed integers of `size` bytes,
 * 1, 2, 4 or 8. Nulls have any value between the chunk's min and max, or 0 if all are null. Returns
 * -ERANGE as well if min or max of the chunk do not fit the size.
 */
int fth_table_page_ints(const struct fth_table_page *page, uint32_t from, uint32_t to, void *values,
			unsigned size);

/*
 * Doubles, of columns of kind DOUBLE (else -ENOTSUP); 128-bit integers, of columns of kind WIDE or
 * INT. Nulls have any value.
 */
int fth_table_page_doubles(const struct fth_table_page *page, uint32_t from, uint32_t to,
			   double *values);
int fth_table_page_wides(const struct fth_table_page *page, uint32_t from, uint32_t to,
			 struct fth_table_wide *values); /* also of kind INT */

/*
 * Codes of FTH_TABLE_CODES and FTH_TABLE_LOCAL, into unsigned integers of `size` bytes, 1, 2 or 4;
 * -ERANGE if the dictionary has more values than fit. Nulls have any valid code.
 */
int fth_table_page_codes(const struct fth_table_page *page, uint32_t from, uint32_t to, void *codes,
			 unsigned size);
/* The dictionary of FTH_TABLE_LOCAL, inside the image, ascending; empty for other encodings. */
void fth_table_page_dictionary(const struct fth_table_page *page, struct fth_table_strings *out);

/*
 * One value at `row` of the group, for gathers: of kind INT and DOUBLE (its key). No check of the
 * range beyond an assertion. Slower than a range for FTH_TABLE_DELTA and FTH_TABLE_RUNS.
 */
int64_t fth_table_page_int_at(const struct fth_table_page *page, uint32_t row);

/*
 * Text blocks, FTH_TABLE_BLOCKS. A block holds the strings of consecutive rows, about 256 KiB of
 * text and at least one row, and is verified and unpacked by itself: read the head first, then only
 * the blocks that hold rows of interest.
 */
struct fth_table_block {
	uint32_t first, rows; /* rows of the group */
	uint32_t at, stored;  /* byte range inside the chunk */
	uint32_t text;	      /* bytes when unpacked */
};
/*
 * The number of text blocks; block number `block` (0, or -ERANGE); the number of the block that
 * holds `row`.
 */
uint32_t fth_table_page_block_count(const struct fth_table_page *page);
int fth_table_page_block(const struct fth_table_page *page, uint32_t block,
			 struct fth_table_block *out);
uint32_t fth_table_page_block_of(const struct fth_table_page *page, uint32_t row);

/*
 * Unpack a block. stored points to its bytes; text has room for block.text bytes, offsets for
 * block.rows + 1. String i of the block is text[offsets[i]] to text[offsets[i + 1]]. offsets or
 * text may be NULL if not wanted. Returns 0 or -EBADMSG with a text.
 */
int fth_table_page_unpack(const struct fth_table_page *page, uint32_t block, const void *stored,
			  char *text, uint32_t *offsets);

/* ---- simple reading ---- */

/*
 * Read and verify the whole chunk, into *image, allocated with the snapshot's memory; release it
 * with fth_table_page_free(). Blocks. For tools and tests. Returns 0 or a negative errno.
 */
int fth_table_page_read(struct fth_table_page *page, struct fth_table *table, uint32_t column,
			uint32_t group, void **image);
void fth_table_page_free(struct fth_table *table, uint32_t column, uint32_t group, void *image);

FTH_END_DECLS
#endif
