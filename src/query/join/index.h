/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures to look rows up in: sets, maps and multimaps.
 *
 * The keys of a row become a number (key_number.h). Numbers that lie close together are a bitmap
 * with rank, and the payload of a key is the packed record (record_pack.h) at its rank; numbers
 * that are sparse are in a hash table. A key with several rows has its records side by side.
 *
 * A structure may hold only a range of the numbers, because more does not fit its memory. Then the
 * rows that are looked up belong to one such part each, and are looked up once for every part.
 *
 * If not even the rows of one number fit, or all rows match because there is no key, the part is a
 * *list* of these rows, most of them in the scratch file. A batch that is looked up is paired with
 * all rows of the list before the next one comes, so it does not matter to left, semi and anti
 * joins that the list is never in memory as a whole.
 */
#ifndef FTH_QUERY_INDEX_H
#define FTH_QUERY_INDEX_H

#include "query/join/key_number.h"
#include "query/spill/result_rows.h"

struct index;
struct index_scratch; /* of one thread */

enum index_kind {
	INDEX_SET,	/* keys alone */
	INDEX_MAP,	/* a key has one row; a second one is an error */
	INDEX_MULTIMAP, /* a key has any number of rows */
};

struct index_spec {
	enum index_kind kind;
	unsigned key_count; /* 0: every row of the structure matches */
	unsigned column_count;
	const struct task_slot *columns; /* the keys, then the payload; must outlive the index */
	uint64_t from, to;		 /* the range of numbers to hold, at most */
	uint64_t room; /* bytes that it may take, also while it is built; UINT64_MAX: any */
	double rows;   /* expected */
	bool list;     /* a list of the rows with number `from`, of a multimap */
	struct scratch *scratch; /* for lists; NULL: there are none */
	bool alone;		 /* one thread fills it */
	bool twice;		 /* rows can be appended once more, if the room is limited */
};

void index_free(struct index *index); /* accepts NULL */
/* The numbers that it holds: [from, to]. */
uint64_t index_from(const struct index *index);
uint64_t index_to(const struct index *index);
/* As many parts of this one's size have all numbers, about; 1: it is no part. Accepts NULL: 1. */
double index_parts(const struct index *index);
unsigned index_key_count(const struct index *index);
/*
 * Whether a key in [lo, hi] may be there; true for structures with several keys or other types than
 * integers.
 */
bool index_meets(const struct index *index, int64_t lo, int64_t hi);
/* The bytes of a structure whose room is limited; 0 for others. */
uint64_t index_bytes(const struct index *index);

/* Whether any row was appended, in whatever part; whether one of them had a null key. */
bool index_has_rows(const struct index *index);
bool index_has_nulls(const struct index *index);
/* The rows of a list: keys, then payload. NULL: the structure is none. */
struct rows *index_list(const struct index *index);
/*
 * Whether row i of a list's columns has the keys of a row; the number of the row is that of the
 * list.
 */
bool index_list_same(const struct index *index, const struct fth_vec *columns, unsigned i,
		     struct fth_vec *const *keys, unsigned row);

int index_scratch_open(struct fth_qmem *mem, struct index_scratch **out);
void index_scratch_close(struct index_scratch *s);

/* Where the matches of each row of a batch are: [first, first + count) of the records. */
struct index_matches {
	uint64_t hits[FTH_BATCH_WORDS]; /* rows that have a match */
	uint32_t first[FTH_BATCH];	/* 0 for rows without */
	uint32_t count[FTH_BATCH];	/* of a multimap; 0 for rows without */
};

/*
 * Look up the selected rows; keys[i] is the vector of key i. A null key has no match. Rows that
 * belong to another part of the structure are removed from the selection. With hits_only, first and
 * count are not set. If keys were hashed, count may include records of other keys: see
 * index_same().
 */
void index_find(const struct index *index, struct index_scratch *s, struct fth_vec *const *keys,
		struct fth_sel *sel, bool hits_only, struct index_matches *out);
/* Whether a record has the keys of a row; always true if keys were not hashed. */
bool index_same(const struct index *index, struct fth_vec *const *keys, unsigned row,
		uint32_t record);

/*
 * Payload column i at the records places[], as a vector in values[] and nulls[]. rows: NULL for all
 * of the n places, or the only ones that are wanted. Rows of `missing`, if it is not NULL, are
 * null.
 */
void index_gather(const struct index *index, unsigned column, const uint32_t *places, unsigned n,
		  const uint16_t *rows, unsigned count, const uint64_t *missing,
		  struct fth_vec *out, void *values, uint64_t *nulls);

#endif
