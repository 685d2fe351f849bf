/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows in frames. A column is: kind (1 byte), whether there are nulls (1), then the bitmap of
 * nulls; integers as base (16 bytes), width (1) and offsets from the base of that many bytes;
 * doubles; a bitmap for booleans; for text its lengths as integers and the bytes.
 */
#ifndef FTH_QUERY_WIRE_BATCH_H
#define FTH_QUERY_WIRE_BATCH_H

#include "query/remote/wire.h"
#include "query/task/task.h"

/*
 * Append the rows rows[0..n) of the columns to a frame: their number and the columns. Text of more
 * than WIRE_PAYLOAD_MAX bytes sets out->error to -EMSGSIZE; the caller tries again with fewer rows.
 */
void batch_put(struct wire_out *out, const struct fth_vec *columns, const struct task_slot *slots,
	       unsigned count, const uint16_t *rows, unsigned n);

/* Columns that are read from frames, one after the other. */
struct batch;
/* Returns 0 or -ENOMEM. */
int batch_open(struct fth_qmem *mem, const struct task_slot *slots, unsigned count,
	       struct batch **out);
void batch_close(struct batch *b); /* accepts NULL */
/*
 * Read the rows of a frame. The columns are valid until the next call; text lies in the frame.
 * Returns their number, or -EBADMSG with a text if the frame is damaged or a value is not in the
 * range of its slot.
 */
int batch_get(struct batch *b, struct wire_in *in, const struct fth_vec **columns);

#endif
