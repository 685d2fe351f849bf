/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorting by normalised keys: the columns of ORDER BY as bytes whose order, compared by memcmp(),
 * is the order of rows. A record is a key and a payload that is carried along. Records that do not
 * fit into memory are sorted and spilled as runs, and the runs are merged.
 *
 *	sort_init(&sort, mem, spill);
 *	sort_add(&sort, key, key_len, payload, payload_len);	... for each row
 *	sort_finish(&sort);
 *	while ((rc = sort_next(&sort, &record)) > 0) ...
 *	sort_release(&sort);
 *
 * Records with equal keys come out in any order. One thread at a time.
 */
#ifndef FTH_QUERY_SORT_H
#define FTH_QUERY_SORT_H

#include "query/spill/spill_file.h"
#include "query/vec/vec.h"

/* A column of ORDER BY. */
struct sort_column {
	bool text, is_double; /* else an integer */
	bool descending, nulls_first;
};

/*
 * Append the normalised bytes of row i to out, which has *room left; -ENOBUFS if they do not fit.
 */
int sort_encode(const struct sort_column *column, const struct fth_vec *v, unsigned i,
		uint8_t **out, size_t *room);

struct sort_record {
	const uint8_t *key;
	uint32_t key_len;
	const uint8_t *payload;
	uint32_t payload_len;
};

struct sort_item;
struct sort_run;

struct sort {
	struct fth_qmem *mem;
	struct spill_file *spill; /* NULL: everything must fit */
	struct fth_arena bytes;
	struct sort_item *items;
	uint32_t count, room, at;
	struct sort_run *runs; /* sorted streams, and while merging a heap of them */
	uint32_t nruns, run_room, live;
	uint8_t *scratch;
	bool finished, merging;
};

void sort_init(struct sort *s, struct fth_qmem *mem, struct spill_file *spill);
/* Returns 0, -ENOMEM without a spill, or an error of the spill. */
int sort_add(struct sort *s, const void *key, uint32_t key_len, const void *payload,
	     uint32_t payload_len);
int sort_finish(struct sort *s);
/* Returns 1 and a record, valid until the next call; 0 at the end; or an error. */
int sort_next(struct sort *s, struct sort_record *out);
/* Read from the start again, after finish. Returns 0 or an error; then it can only be released. */
int sort_rewind(struct sort *s);
/* Also after an error, and in any state. */
void sort_release(struct sort *s);

/* ---- the first k ---- */

struct topk_item;

/* Zero-initialise, then init. Keeps the k least keys. */
struct topk {
	struct fth_qmem *mem;
	uint32_t k, count;
	struct topk_item *items; /* a heap, the greatest first; sorted after finish */
	uint32_t at;
	bool has_first;
	fth_i128 first; /* of the first column, of the greatest key kept */
	bool finished;
};

/* The memory for k records of at most `record` bytes of key and payload each. */
uint64_t topk_bound(uint32_t k, uint32_t record);
int topk_init(struct topk *t, struct fth_qmem *mem, uint32_t k);
void topk_release(struct topk *t);
/* `first`: the value of the first column, if it is an integer that is not null, else NULL. */
int topk_add(struct topk *t, const void *key, uint32_t key_len, const void *payload,
	     uint32_t payload_len, const fth_i128 *first);
/* Whether a record with this key would be among the first so far. */
bool topk_takes(const struct topk *t, const void *key, uint32_t key_len);
/*
 * Drop rows from the selection that cannot be among the first k: integers of the first column that
 * lie behind that of the greatest key kept. Null rows stay. A no-op until k rows are there.
 */
void topk_filter(const struct topk *t, const struct sort_column *column,
		 const struct fth_vec *first, struct fth_sel *sel);
void topk_finish(struct topk *t);
/* 1 and the next record in order, or 0; and from the start again. */
int topk_next(struct topk *t, struct sort_record *out);
void topk_rewind(struct topk *t);

#endif
