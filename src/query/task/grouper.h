/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grouping: from batches of rows to groups with aggregates. One thread's; those of several threads are
 * merged.
 */
#ifndef FTH_QUERY_GROUPER_H
#define FTH_QUERY_GROUPER_H

#include "query/task/task.h"

struct grouper;

struct grouper_spec {
	unsigned key_count;
	const struct task_slot *keys;
	unsigned aggregate_count;
	const struct task_aggregate *aggregates;
	const struct task_slot *slots; /* of the task: those of the aggregates' arguments */
	bool runs;		       /* rows come in runs of equal keys, as a rule */
};

/* The spec must outlive it. Returns 0, -ENOMEM, or -EOPNOTSUPP for too many keys. */
int grouper_open(struct fth_qmem *mem, const struct grouper_spec *spec, struct grouper **out);
void grouper_close(struct grouper *g); /* accepts NULL */

/* Add the selected rows; args[i] is the argument of aggregate i, NULL for count(*). */
int grouper_add(struct grouper *g, struct fth_vec *const *keys, struct fth_vec *const *args,
		const struct fth_sel *sel);
/* Add the groups of another one, whose buffers are used. */
int grouper_merge(struct grouper *g, struct grouper *other);

uint32_t grouper_count(const struct grouper *g);
/* Make a group if there is none: an aggregate over no rows. Only without keys. */
int grouper_one(struct grouper *g);

/*
 * Groups from `first` on as a batch: columns[] gets the keys, then the results. Vectors are valid until the
 * next call that is not this one, and until the next batch. Returns their number, at most FTH_BATCH, or a
 * negative errno: -ERANGE for a sum that does not fit its type.
 */
int grouper_batch(struct grouper *g, uint32_t first, struct fth_vec *columns);

/* Forget all groups, keep the memory. */
void grouper_reset(struct grouper *g);

#endif
