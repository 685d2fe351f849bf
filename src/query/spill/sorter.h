/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorting the rows of a task. Each thread has a sorter; then one of them gives the rows of all in
 * order. With a small limit a sorter keeps only the first rows; otherwise what does not fit into
 * memory is spilled.
 */
#ifndef FTH_QUERY_SORTER_H
#define FTH_QUERY_SORTER_H

#include "query/spill/scratch.h"
#include "query/task/task.h"

/* With so few rows wanted a sorter keeps only these. */
#define SORTER_TOP_ROWS 65536u

struct sorter;
struct sorted;

struct sorter_spec {
	unsigned column_count, order_count;
	const struct task_slot *columns; /* of the rows, then of the order */
	const struct task_order *order;
	uint64_t offset, limit;
	uint64_t memory; /* at most, of this sorter */
};

/* The spec's arrays must outlive the sorter. Returns 0 or -ENOMEM. */
int sorter_open(struct fth_qmem *mem, const struct sorter_spec *spec, struct scratch *scratch,
		struct sorter **out);
void sorter_close(struct sorter *s); /* accepts NULL */
/*
 * Add the selected rows, of which some may be dropped from the selection; columns[i] is the vector
 * of column i. Returns 0, -ENOMEM, or the error of the spill file.
 */
int sorter_add(struct sorter *s, struct fth_vec *const *columns, struct fth_sel *sel);

/* Takes over the sorters, at least one, also if it fails. */
int sorted_open(struct fth_qmem *mem, struct sorter **sorters, unsigned count, struct sorted **out);
void sorted_close(struct sorted *s); /* accepts NULL */
/*
 * The next rows in order, between offset and limit: their number, at most FTH_BATCH, 0 at the end,
 * or a negative errno. columns[] is valid until the next call.
 */
int sorted_next(struct sorted *s, const struct fth_vec **columns);
/* Read from the start again. Returns 0 or a negative errno. */
int sorted_rewind(struct sorted *s);

#endif
