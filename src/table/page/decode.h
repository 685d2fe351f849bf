/* SPDX-License-Identifier: BSD-2-Clause */
/* A whole chunk, read and decoded: for dump, check and tests. */
#ifndef TABLE_DECODE_H
#define TABLE_DECODE_H

#include "fathom/table/read.h"

#include <stdint.h>

struct decoded {
	enum fth_table_kind kind;
	uint32_t rows;
	int64_t *ints; /* also keys of doubles */
	struct fth_table_wide *wides;
	uint32_t *offsets;
	char *bytes;
	uint64_t *nulls; /* a bitmap */
};

/* 0 or a negative errno; end with decoded_release() in any case. */
int decode_chunk(struct fth_table *table, uint32_t column, uint32_t group, struct decoded *out);
void decoded_release(struct decoded *d);

static inline int decoded_null(const struct decoded *d, uint32_t row)
{
	return (int)(d->nulls[row / 64] >> row % 64 & 1);
}

#endif
