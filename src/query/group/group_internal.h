/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of a grouper: group_key.c gives rows the numbers of their groups, group_state.c keeps
 * the aggregates by number, grouper.c drives both. Groups have one of two forms:
 *
 *	table	groups are numbered in the order in which their keys come; a table finds the number
 *		of a key
 *	array	the packed key is the number, and the arrays of states have room for the whole
 *		domain of the key, or for a range of it when a spilled part is read. There is no
 *		table and no array of keys; a group whose count of rows is 0 is not there.
 *
 * All begin as tables. When one has to grow and the arrays over the domain would not take more
 * memory than what it would become, it is turned into arrays (group_array.c).
 *
 * Rows of a batch are processed column by column: first the numbers of all rows, then one loop for
 * each aggregate. A batch in which few rows are selected, and every batch of runs, is made dense
 * before.
 *
 * Invariants:
 *  1. Everything that can run out of memory comes before the first change that cannot be repeated:
 *     room for groups, states and pairs is reserved, texts are kept (repeating that changes
 *     nothing), then values are added. So a batch that returned -ENOMEM can be added again.
 *  2. State arrays have room for all groups that the batch could make; groups [0, started) have
 *     start values.
 *  3. Groups in the form of an array have neither texts in their key nor distinct aggregates, and
 *     count rows.
 *  4. Counts are of 16 bits until one of them might not fit after the next batch. Sums are of 64
 *     bits until the number of rows times the largest value might not fit; then all of a grouper
 *     are widened to 128 bits.
 */
#ifndef FTH_QUERY_GROUP_INTERNAL_H
#define FTH_QUERY_GROUP_INTERNAL_H

#include "query/keys/distinct.h"
#include "query/keys/group_table.h"
#include "query/group/grouper.h"
#include "query/vec/agg.h"

#define GROUP_STATES 256u /* aggregates, at most */

/* ---- texts as numbers ---- */

/* The texts of a column, numbered in the order in which they come. */
struct group_words {
	struct fth_qmem *mem;
	struct group_table texts;
	uint64_t dict;	 /* id of the dictionary whose codes are translated */
	uint32_t *codes; /* by code: number + 1, or 0 */
	uint32_t code_room;
	int32_t *numbers; /* of the rows of a batch */
};

int group_words_init(struct group_words *w, struct fth_qmem *mem);
void group_words_release(struct group_words *w);
void group_words_clear(struct group_words *w);
/* Numbers of the selected texts, as a vector of `w`. Returns 0 or -ENOMEM. */
int group_words_number(struct group_words *w, const struct fth_vec *v, unsigned n,
		       const uint64_t *rows, struct fth_vec *out);

/* ---- keys ---- */

/*
 * A run of rows with equal keys in a batch: it begins at starts[i] and ends where the next begins.
 */
struct group_runs {
	unsigned count;
	uint32_t first; /* group of run 0 */
	uint16_t starts[FTH_BATCH + 65];
};

struct group_key {
	struct fth_qmem *mem;
	unsigned count;
	const struct task_slot *slots;
	struct composite_key key;   /* texts are their numbers here */
	struct group_words **words; /* by column; NULL: no text */
	unsigned *bits;		    /* by column: of numbers of texts */
	struct group_table groups;
	bool array;	 /* the key less `base` is the number; `groups` is empty */
	uint32_t domain; /* of keys, if it may become an array; or 0 */
	uint32_t whole;	 /* the same, unless the array is one for a range of keys from `base` on */
	uint64_t base;
	bool ordered;  /* keys came in order so far, so that runs need no table */
	uint64_t last; /* key of the last row */
	struct fth_arena encoded;
	struct fth_vec *vecs;
	int64_t **ints; /* by column: a batch of doubles or bools as integers */
	fth_u128 *keys; /* of a batch; or uint64_t, or struct fth_str */
	size_t key_bytes;
	struct fth_qmem *out_mem;
	void **out; /* by column: values of a batch of groups */
	uint64_t (*nulls)[FTH_BATCH_WORDS];
};

int group_key_init(struct group_key *k, struct fth_qmem *mem, const struct task_slot *slots,
		   unsigned count, bool runs);
void group_key_release(struct group_key *k);
void group_key_clear(struct group_key *k, bool runs);
/*
 * Group numbers of the selected rows, of which there are `count`. runs->count is not 0 if the rows
 * are in runs; then all rows are selected. Returns 0 or -ENOMEM, and then the groups are as they
 * were.
 */
int group_key_number(struct group_key *k, struct fth_vec *const *vecs, unsigned n,
		     const uint64_t *rows, unsigned count, uint32_t *numbers,
		     struct group_runs *runs);
/* The packed keys of selected rows, in k->keys. Returns 0 or -ENOMEM. */
int group_key_pack(struct group_key *k, struct fth_vec *const *vecs, unsigned n,
		   const uint64_t *rows);
/*
 * Group numbers of n keys that a grouper with the same key of integers has packed. Returns 0,
 * -ENOMEM, or -EILSEQ for a key that is out of the range of an array.
 */
int group_key_number_packed(struct group_key *k, const struct fth_vec *keys, unsigned n,
			    const uint64_t *rows, uint32_t *numbers);
/* Groups so far; of an array the whole domain. */
uint32_t group_key_count(const struct group_key *k);
/*
 * Buffers for what comes out, from an account that is not that of the groups. Before the first
 * batch.
 */
int group_key_open_out(struct group_key *k, struct fth_qmem *mem);
/* Key columns of groups [first, first + n), or of n groups in list[], counted from `first`. */
void group_key_batch(struct group_key *k, uint32_t first, unsigned n, const uint16_t *list,
		     struct fth_vec *out);
/* Key columns of these groups. */
void group_key_gather(struct group_key *k, const uint32_t *groups, unsigned n, struct fth_vec *out);
/*
 * A value of the column as an integer: doubles by their order, bools as 0 and 1. `room` has n
 * values.
 */
struct fth_vec group_as_int(const struct task_slot *slot, const struct fth_vec *v, unsigned n,
			    int64_t *room);
struct composite_key_column group_key_column(const struct task_slot *slot);

/* ---- counts ---- */

struct group_counts {
	void *counts; /* by group: uint16_t, or uint64_t if `wide`. NULL: they are not needed */
	bool wide;
	uint32_t room;
	uint64_t most; /* none is greater; not kept if `wide` */
};

/* ---- aggregates ---- */

enum group_state_kind {
	GROUP_COUNT, /* only counted */
	GROUP_SUM,   /* int64_t or fth_i128 */
	GROUP_MIN,   /* int64_t or fth_i128, by the range of values */
	GROUP_MAX,
	GROUP_ANY, /* the physical type of the result, bools as bytes */
	GROUP_SUM_REAL,
	GROUP_MIN_REAL,
	GROUP_MAX_REAL,
	GROUP_MIN_TEXT,
	GROUP_MAX_TEXT,
	GROUP_ANY_TEXT,
};

struct group_state {
	enum group_state_kind kind;
	const struct task_aggregate *aggregate;
	const struct task_slot *arg; /* NULL for count(*) */
	bool wide;		     /* 128 bits */
	fth_u128 most;		     /* greatest absolute value of a sum's argument */
	void *values;		     /* by group */
	unsigned width;
	uint32_t value_room;
	struct group_counts seen; /* values that are not null. None: as many as rows */
	/*
	 * distinct: pairs of group and value that have come, as one number: the value is in its low
	 * bits
	 */
	bool distinct;
	fth_i128 value_min;
	unsigned value_bits;
	struct distinct_set pairs;
	struct group_words *words;
	void *out; /* values of a batch of results */
	size_t out_width;
	/* of a batch of groups that are read */
	uint64_t *seen_out;
	void *values_out; /* of an array: values side by side */
	size_t values_out_bytes;
	uint64_t nulls[FTH_BATCH_WORDS];
};

/* A batch with the groups of its rows. */
struct group_batch {
	unsigned n, count;
	const uint64_t *rows; /* `count` of them */
	const uint32_t *numbers;
	const struct group_runs *runs; /* NULL: not in runs */
	struct fth_agg_groups groups;
};

/* A batch of values of 128 bits, as texts of their bytes. */
struct group_wide {
	fth_i128 values[FTH_BATCH];
	struct fth_str texts[FTH_BATCH];
};

struct group_states {
	struct fth_qmem *mem, *out_mem;
	unsigned count;
	struct group_state *states;
	struct group_counts rows;
	bool keeps_rows; /* for the sake of a state; an array counts rows in any case */
	uint64_t *rows_out;
	uint32_t room; /* of all arrays, at least */
	uint32_t started;
	uint64_t added; /* rows so far */
	struct fth_arena text;
	uint64_t live_text, dead_text; /* bytes of it that states use; that they used before */
	/* of a batch */
	int64_t *ints;
	int64_t *sums;
	fth_u128 *pairs;
	struct group_wide *wide; /* of distinct values of 128 bits; or NULL */
	uint64_t fresh[FTH_BATCH_WORDS];
};

/* Functions that may need memory return 0 or -ENOMEM. */
int group_counts_init(struct group_counts *c, struct fth_qmem *mem);
void group_counts_release(struct group_counts *c, struct fth_qmem *mem);
size_t group_counts_width(const struct group_counts *c);
int group_counts_grow(struct group_counts *c, struct fth_qmem *mem, uint32_t room);
void group_counts_start(struct group_counts *c, uint32_t from, uint32_t to);
/* Make the counts of `count` groups wide if one of them may grow by `more` to what does not fit. */
int group_counts_widen(struct group_counts *c, struct fth_qmem *mem, uint32_t count, uint64_t more);
/* Count the rows of a batch, or those in which v is not null. */
void group_counts_add(struct group_counts *c, const struct group_batch *b, const struct fth_vec *v);
/* NULL: one for each. */
void group_counts_merge(struct group_counts *c, const uint64_t *from, unsigned n,
			const uint32_t *numbers);
/* Counts of n groups from `first` on, or of those in list[]. */
void group_counts_get(const struct group_counts *c, uint32_t first, unsigned n,
		      const uint16_t *list, uint64_t *out);
/* Which of n groups from `first` on have a count; list[] has room for n. Returns how many. */
unsigned group_counts_list(const struct group_counts *c, uint32_t first, unsigned n,
			   uint16_t *list);

/* Buffers for batches come from out_mem. */
int group_states_init(struct group_states *s, struct fth_qmem *mem, struct fth_qmem *out_mem,
		      const struct task_aggregate *aggregates, unsigned count,
		      const struct task_slot *slots, bool keyed);
void group_states_release(struct group_states *s);
void group_states_clear(struct group_states *s);
/* Room for so many groups. */
int group_states_reserve(struct group_states *s, uint64_t groups);
/* Start values for groups up to `count`. */
void group_states_start(struct group_states *s, uint32_t count);
/* Everything that can fail with -ENOMEM for the rows of a batch. It may be called again. */
int group_states_prepare(struct group_states *s, struct fth_vec *const *args,
			 const struct group_batch *b);
/* Add the values. Returns 0, or -ERANGE with a text. */
int group_states_add(struct group_states *s, struct fth_vec *const *args,
		     const struct group_batch *b);

/* Groups with their states, as columns: of another grouper, or read from a spill file. */
struct group_partial {
	unsigned n;
	uint64_t added; /* rows that the states stand for, at most */
	bool distinct;	/* the states of distinct aggregates, and no others; or none of them */
	const uint64_t *rows;
	struct {
		const void *values;
		bool wide;
		const uint64_t *seen;
	} states[GROUP_STATES];
};

/* Sums have 128 bits from now on if those of so many rows may need them. */
int group_widen_sums(struct group_states *s, uint64_t rows);
/*
 * Copy a text for a state, instead of the one at *to, if that has one. Texts of all states may move.
 */
int group_keep_text(struct group_states *s, struct fth_str *to, struct fth_str text);
/* No state has a text any more. */
void group_forget_texts(struct group_states *s);
int group_states_merge(struct group_states *s, const struct group_partial *from,
		       const uint32_t *numbers);
/* Values of distinct aggregate i: value j belongs to group numbers[j]. */
int group_states_merge_values(struct group_states *s, unsigned i, const struct fth_vec *values,
			      unsigned n, const uint32_t *numbers);
/*
 * The next values of distinct aggregate i from *at on, and their groups. Returns how many, 0 at the
 * end.
 */
unsigned group_states_values(struct group_states *s, unsigned i, uint64_t *at,
			     struct fth_vec *values, uint32_t *groups);
int group_states_open_out(struct group_states *s, bool array);
/* States of n groups from `first` on, or of those in list[]. Valid until the next call. */
void group_states_view(struct group_states *s, uint32_t first, unsigned n, const uint16_t *list,
		       struct group_partial *out);
/* Results of groups in a view. Returns 0 or -ERANGE with a text. */
int group_states_batch(struct group_states *s, const struct group_partial *from,
		       struct fth_vec *out);

/* ---- groupers ---- */

/* Selected rows of a column, side by side. */
struct group_dense {
	struct fth_vec vec;
	void *values;
	size_t bytes;
	uint64_t *nulls;
};

struct grouper {
	struct fth_qmem *parent, *mem; /* mem: its own account */
	struct grouper_spec spec;
	struct task_slot *key_slots;
	struct group_store *store; /* or NULL */
	struct group_key key;
	struct group_states states;
	/* of a batch */
	uint32_t *numbers;
	uint16_t *list;
	struct group_runs runs;
	uint64_t all[FTH_BATCH_WORDS];
	struct group_batch batch;
	struct group_dense *dense; /* by column: keys, then arguments */
	struct fth_vec **columns;
	struct group_partial *view;	/* for results; or NULL */
	uint32_t progress, progress_of; /* progress_of 0: unknown */
	/* not NULL: rows are no longer grouped here but go to the store, in these blocks */
	struct group_blocks *blocks;
};

bool grouper_is_empty(const struct grouper *g);
/* Buffers for keys and results. */
int grouper_open_out(struct grouper *g);
/*
 * The next groups from *at on, which moves on: their keys and states, valid until the next call.
 * Returns their number, 0 at the end. The buffers must be open.
 */
unsigned grouper_view(struct grouper *g, uint32_t *at, struct fth_vec *keys,
		      struct group_partial *out);
/*
 * Turn a table that has to grow for `more` groups into an array, if that is not larger and there is
 * room for it.
 */
void grouper_may_become_array(struct grouper *g, uint32_t more);
/*
 * Forget all groups and take those with packed keys from `base` on, `width` of them, from now on:
 * as an array, if there is memory for it. Returns 0 or -ENOMEM; then it can only be closed.
 */
int grouper_take_range(struct grouper *g, uint64_t base, uint32_t width);
/* The bytes of a table and its arrays with so many groups. */
uint64_t grouper_table_bytes(const struct grouper *g, uint64_t groups);
/* The bytes of a group in an array. */
size_t grouper_array_width(const struct grouper *g);
/* Add groups of key columns and their states. numbers[] gets their numbers here. */
int grouper_merge_batch(struct grouper *g, struct fth_vec *const *keys,
			const struct group_partial *from, uint32_t *numbers);
/* The same with packed keys, all[] has n bits then; and rows with packed keys. */
int grouper_merge_packed(struct grouper *g, const struct fth_vec *keys,
			 const struct group_partial *from);
int grouper_add_packed(struct grouper *g, const struct fth_vec *keys, struct fth_vec *const *args,
		       unsigned n);
/* Add values of distinct aggregate i to groups of key columns. */
int grouper_merge_values(struct grouper *g, struct fth_vec *const *keys, unsigned i,
			 const struct fth_vec *values, unsigned n);
/* Forget all groups and give back the memory. Returns 0 or -ENOMEM; then it can only be closed. */
int grouper_renew(struct grouper *g);
/*
 * Empty the grouper into its store. If that had hardly fewer groups than rows, the grouper gets
 * blocks, and rows are to be given to the store from then on.
 */
int group_store_take(struct group_store *s, struct grouper *g);
/*
 * Whether a table with room for `more` groups would have to grow, and is expected to end up larger
 * than the memory.
 */
bool group_part_is_due(const struct grouper *g, unsigned more);
/* The selected rows of a grouper that has blocks. After an error the store can only be closed. */
int group_store_add_rows(struct group_store *s, struct grouper *g, struct fth_vec *const *keys,
			 struct fth_vec *const *args, const struct fth_sel *sel);

#endif
