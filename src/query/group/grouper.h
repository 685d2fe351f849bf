/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grouping: from batches of rows to groups with aggregates. One thread's; those of several threads
 * are merged.
 */
#ifndef FTH_QUERY_GROUPER_H
#define FTH_QUERY_GROUPER_H

#include "query/spill/scratch.h"
#include "query/task/task.h"

struct grouper;
struct group_store;

struct grouper_spec {
	unsigned key_count;
	const struct task_slot *keys;
	unsigned aggregate_count;
	const struct task_aggregate *aggregates;
	const struct task_slot *slots; /* of the task: those of the aggregates' arguments */
	bool runs;		       /* rows come in runs of equal keys, as a rule */
	uint64_t memory; /* at most, of this grouper; 0: no limit but that of its account */
};

/*
 * The spec is copied; the task must outlive the grouper. Returns 0, -ENOMEM, or -EOPNOTSUPP for too
 * many keys.
 */
int grouper_open(struct fth_qmem *mem, const struct grouper_spec *spec, struct grouper **out);
void grouper_close(struct grouper *g); /* accepts NULL */

/* Add the selected rows; args[i] is the argument of aggregate i, NULL for count(*). */
int grouper_add(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		const struct fth_sel *sel);
/*
 * Of `of` parts of the input, about `done` have been added: for a guess at the rows that are to
 * come.
 */
void grouper_progress(struct grouper *g, uint32_t done, uint32_t of);
/* Add the groups of another one, whose buffers are used. */
int grouper_merge(struct grouper *g, struct grouper *other);

/* Groups; more than there are if most keys of a small domain have come. */
uint32_t grouper_count(const struct grouper *g);
/* Make a group if there is none: an aggregate over no rows. Only without keys. */
int grouper_one(struct grouper *g);

/*
 * The next groups as a batch, from *at on, which is 0 at first and moves on: columns[] gets the
 * keys, then the results. Vectors are valid until the next call of any function. Returns their
 * number, at most FTH_BATCH, 0 at the end, or a negative errno: -ERANGE for a sum that does not fit
 * its type.
 */
int grouper_batch(struct grouper *g, uint32_t *at, struct fth_vec *columns);

/* Forget all groups, keep the memory. */
void grouper_reset(struct grouper *g);

/* ---- the groups of several threads ---- */

/*
 * A store takes what does not fit into the groupers of a task: groups and their states so far, as
 * records in partitions by key. Then it is the task's result, which is read in batches, one
 * partition after the other.
 */
int group_store_open(struct fth_qmem *mem, struct scratch *scratch, struct group_store **out);
/* Closes the groupers that it took over. Accepts NULL. */
void group_store_close(struct group_store *s);
/* A grouper that has no room left empties itself into the store. Before rows are added. */
void grouper_use(struct grouper *g, struct group_store *s);
/*
 * All rows were added: takes over the groupers, at least one, also if it fails. `one`: without any
 * row there is one group.
 */
int group_store_finish(struct group_store *s, struct grouper **groupers, unsigned count, bool one);
/* Read from the start. */
void group_store_rewind(struct group_store *s);
/* As grouper_batch(): returns the number of groups, 0 at the end, or a negative errno. */
int group_store_next(struct group_store *s, struct fth_vec *columns);
/*
 * After finish: the grouper, empty, and the store as it was when it was opened. Returns 0 or
 * -ENOMEM.
 */
int group_store_recycle(struct group_store *s, struct grouper **out);
/* Whether anything was spilled. */
bool group_store_spilled(const struct group_store *s);

#endif
