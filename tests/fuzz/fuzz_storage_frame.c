/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the storage protocol from the other side: headers are accepted or refused, and rows of
 * a frame are damaged or inside it and in the ranges of their slots.
 *
 * Input: a header, then the payload of a frame with rows of five columns.
 */
#include "query/remote/wire_batch.h"
#include "query/remote/wire.h"
#include "query/spill/result_rows.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct task_slot slots[] = {
	{.type = {.kind = FTH_T_INT32}, .lo = -100, .hi = 1000, .nullable = true},
	{.type = {.kind = FTH_T_DECIMAL, .scale = 2}, .lo = 1, .hi = 0, .nullable = true},
	{.type = {.kind = FTH_T_TEXT}, .lo = 1, .hi = 0, .nullable = true},
	{.type = {.kind = FTH_T_DOUBLE}, .lo = 1, .hi = 0},
	{.type = {.kind = FTH_T_BOOL}, .lo = 1, .hi = 0},
};

static void look_at(const struct fth_vec *columns, int n, const uint8_t *data, size_t size)
{
	for (int i = 0; i < n; i++) {
		struct fth_str s = rows_text(&columns[2], (unsigned)i);
		bool null = columns[0].nulls != NULL && fth_bit(columns[0].nulls, (unsigned)i);
		fth_i128 x = fth_vec_int(&columns[0], (unsigned)i);

		if (!null && (x < slots[0].lo || x > slots[0].hi))
			abort();
		if (s.len > 0 && ((const uint8_t *)s.data < data ||
				  (const uint8_t *)s.data + s.len > data + size))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fth_qmem *mem;
	static struct batch *batch;
	const struct fth_vec *columns;
	struct wire_frame frame;
	struct wire_in in;
	int n;

	if (mem == NULL) {
		mem = fth_qmem_new(8u << 20);
		if (mem == NULL || batch_open(mem, slots, 5, &batch) < 0)
			abort();
	}
	if (size < WIRE_HEADER)
		return 0;
	if (wire_header(data, WIRE_PAYLOAD_MAX, &frame) == 0 && frame.length == size - WIRE_HEADER)
		(void)wire_verify(data, data + WIRE_HEADER, frame.length);
	in = (struct wire_in){data + WIRE_HEADER, size - WIRE_HEADER, 0, false};
	n = batch_get(batch, &in, &columns);
	if (n > (int)FTH_BATCH)
		abort();
	if (n > 0)
		look_at(columns, n, data, size);
	return 0;
}
