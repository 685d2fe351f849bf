/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of several batches, gathered into the vectors of one frame. */
#ifndef FTH_QUERY_GATHERED_ROWS_H
#define FTH_QUERY_GATHERED_ROWS_H

#include "query/exec/runner.h"

/* The owner allocates the buffers values[slot] and nulls[slot], and describes them in the frame. */
struct gathered_rows {
	unsigned count; /* rows so far */
	struct frame frame;
	void **values; /* by slot */
	uint64_t **nulls;
};

/* Arrays by slot, in the arena of the runner, without buffers. Returns 0 or -ENOMEM. */
int gathered_init(struct gathered_rows *g, struct runner *r);
/*
 * Copy rows[0..n) of a vector behind the gathered values of a slot. The vector of the slot has the
 * type and base of `from`, or has 64-bit integers of base 0 where `from` has narrower ones. The
 * caller adds n to the count.
 */
void gathered_copy(struct gathered_rows *g, unsigned slot, const struct fth_vec *from,
		   const uint16_t *rows, unsigned n);
/* No gathered value of the slot is null. */
void gathered_clear_nulls(struct gathered_rows *g, unsigned slot);

#endif
