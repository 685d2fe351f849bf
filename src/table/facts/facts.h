/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Proves facts about a column, from its values in the order of rows.
 *
 * 1. A fact holds for all rows seen so far, those of earlier batches included, or is dropped for
 *    good.
 * 2. Rows of earlier batches are known by what the manifest says about them: facts, smallest,
 *    largest and last value. A value between the smallest and largest old one may be there already:
 *    the column is not clustered any more, unless it continues a sorted order.
 * 3. Values of this batch are in a keyset. If that is full only a sorted column stays clustered.
 *    Columns that have none, or need it no longer, leave their memory to the others.
 */
#ifndef TABLE_FACTS_H
#define TABLE_FACTS_H

#include "table/write/row_group.h"
#include "table/facts/keyset.h"
#include "table/place/manifest.h"

#include <stdbool.h>
#include <stdint.h>

struct prover {
	bool sorted, clustered, whole_runs;
	bool any; /* a value was seen, and `last` is valid */
	int64_t last;
	char *last_string;
	uint32_t last_length, last_room;
	uint64_t runs, run, max_run; /* run: rows of the present one */
	bool old;		     /* earlier batches have rows, from old_min to old_max */
	int64_t old_min, old_max;
	struct keyset *seen; /* NULL: none, or full */
};

/* state and rows are those of earlier batches. memory and spare: see keyset_new(). -ENOMEM. */
int prover_init(struct prover *p, enum fth_table_kind kind, const struct column_state *state,
		uint64_t rows, size_t memory, size_t *spare);
void prover_release(struct prover *p);

/* Look at the next group. -ENOMEM. */
int prover_feed(struct prover *p, const struct group_column *column, uint32_t rows);

/* Set the flags, runs and distinct values that are proved. The rest of the facts is up to date. */
int prover_finish(const struct prover *p, enum fth_table_kind kind, struct manifest *m,
		  struct column_state *state);

#endif
