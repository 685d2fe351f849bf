/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorting by normalised keys: the columns of ORDER BY as bytes whose order, compared by memcmp(),
 * is the order of rows. A record is a key and a payload that is carried along. Records that do not
 * fit into memory are sorted and spilled as runs, and the runs are merged.
 *
 *	fth_sort_init(&sort, mem, spill);
 *	fth_sort_add(&sort, key, key_len, payload, payload_len);	... for each row
 *	fth_sort_finish(&sort);
 *	while ((rc = fth_sort_next(&sort, &record)) > 0) ...
 *	fth_sort_release(&sort);
 *
 * Records with equal keys come out in any order. One thread at a time.
 */
#ifndef FTH_QUERY_SORT_H
#define FTH_QUERY_SORT_H

#include "query/spill/spill_file.h"
#include "query/vec/vec.h"

/* A column of ORDER BY. */
struct fth_sort_column {
	bool text, is_double; /* else an integer */
	bool descending, nulls_first;
};

/*
 * Append the normalised bytes of row i to out, which has *room left; -ENOBUFS if they do not fit.
 */
int fth_sort_encode(const struct fth_sort_column *column, const struct fth_vec *v, unsigned i,
		    uint8_t **out, size_t *room);

struct fth_sort_record {
	const uint8_t *key;
	uint32_t key_len;
	const uint8_t *payload;
	uint32_t payload_len;
};

struct sort_item;
struct sort_run;

struct fth_sort {
	struct fth_qmem *mem;
	struct fth_spill *spill; /* NULL: everything must fit */
	struct fth_arena bytes;
	struct sort_item *items;
	uint32_t count, room, at;
	struct sort_run *runs; /* sorted streams, and while merging a heap of them */
	uint32_t nruns, run_room, live;
	uint8_t *scratch;
	bool finished, merging;
};

void fth_sort_init(struct fth_sort *s, struct fth_qmem *mem, struct fth_spill *spill);
/* Returns 0, -ENOMEM without a spill, or an error of the spill. */
int fth_sort_add(struct fth_sort *s, const void *key, uint32_t key_len, const void *payload,
		 uint32_t payload_len);
int fth_sort_finish(struct fth_sort *s);
/* Returns 1 and a record, valid until the next call; 0 at the end; or an error. */
int fth_sort_next(struct fth_sort *s, struct fth_sort_record *out);
/* Read from the start again, after finish. Returns 0 or an error; then it can only be released. */
int fth_sort_rewind(struct fth_sort *s);
/* Also after an error, and in any state. */
void fth_sort_release(struct fth_sort *s);

/* ---- the first k ---- */

struct topk_item;

/* Zero-initialise, then init. Keeps the k least keys. */
struct fth_topk {
	struct fth_qmem *mem;
	uint32_t k, count;
	struct topk_item *items; /* a heap, the greatest first; sorted after finish */
	uint32_t at;
	bool has_first;
	fth_i128 first; /* of the first column, of the greatest key kept */
	bool finished;
};

/* The memory for k records of at most `record` bytes of key and payload each. */
uint64_t fth_topk_bound(uint32_t k, uint32_t record);
int fth_topk_init(struct fth_topk *t, struct fth_qmem *mem, uint32_t k);
void fth_topk_release(struct fth_topk *t);
/* `first`: the value of the first column, if it is an integer that is not null, else NULL. */
int fth_topk_add(struct fth_topk *t, const void *key, uint32_t key_len, const void *payload,
		 uint32_t payload_len, const fth_i128 *first);
/* Whether a record with this key would be among the first so far. */
bool fth_topk_takes(const struct fth_topk *t, const void *key, uint32_t key_len);
/*
 * Drop rows from the selection that cannot be among the first k: integers of the first column that
 * lie behind that of the greatest key kept. Null rows stay. A no-op until k rows are there.
 */
void fth_topk_filter(const struct fth_topk *t, const struct fth_sort_column *column,
		     const struct fth_vec *first, struct fth_sel *sel);
void fth_topk_finish(struct fth_topk *t);
/* 1 and the next record in order, or 0; and from the start again. */
int fth_topk_next(struct fth_topk *t, struct fth_sort_record *out);
void fth_topk_rewind(struct fth_topk *t);

#endif
