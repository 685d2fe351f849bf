/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Structures to look rows up in: sets, maps and multimaps over the rows of a result.
 *
 * Several keys, or one, become a 64-bit number: packed side by side if their ranges need no more than 64 bits
 * together, otherwise a hash, and then a match is verified against the rows themselves.
 */
#ifndef FTH_QUERY_INDEX_H
#define FTH_QUERY_INDEX_H

#include "query/task/rows.h"

struct index;
struct index_scratch; /* of one thread */

struct index_spec {
	unsigned key_count;
	const struct task_slot *keys; /* their ranges, in the build and in every probe */
	unsigned column_count;	      /* of the rows: the keys, then the payload */
	const struct task_slot *columns;
	bool unique; /* a second row with a key is an error */
};

/*
 * Build over rows, which become part of the index and are freed with it; also after an error. Rows with a
 * null key must not be among them. Returns 0, -ENOMEM, or -EEXIST with a text.
 */
int index_build(struct fth_qmem *mem, const struct index_spec *spec, struct rows *rows,
		struct index **out);
void index_free(struct index *index); /* accepts NULL */

int index_scratch_open(struct fth_qmem *mem, struct index_scratch **out);
void index_scratch_close(struct index_scratch *s);

#define INDEX_NONE UINT32_MAX

/*
 * For each selected row the first match, or INDEX_NONE; then index_next() gives the others, one by one.
 * keys[i] is the vector of key i. Rows with a null key have no match.
 */
void index_find(const struct index *index, struct index_scratch *s, struct fth_vec *const *keys,
		const struct fth_sel *sel, uint32_t *first);
uint32_t index_next(const struct index *index, struct fth_vec *const *keys, unsigned row,
		    uint32_t match);

/* All rows: the first and the next, or INDEX_NONE. */
uint32_t index_row_first(const struct index *index);
uint32_t index_row_next(const struct index *index, uint32_t row);

/*
 * Values of a column of the rows at matches[0..n) as a vector, in values[] and nulls[]. Where a match is
 * INDEX_NONE the value is null.
 */
void index_gather(const struct index *index, unsigned column, const uint32_t *matches, unsigned n,
		  struct fth_vec *out, void *values, uint64_t *nulls);

#endif
