/* SPDX-License-Identifier: BSD-2-Clause */
/* From a chunk in memory to vectors: one decoder for each column of a source and thread. */
#ifndef FTH_QUERY_DECODE_H
#define FTH_QUERY_DECODE_H

#include "fathom/table.h"
#include "query/mem/qmem.h"
#include "query/vec/prog/expression.h"

struct decoder;

/* `type` is that of the slot. Returns 0 or -ENOMEM. */
int decoder_open(struct fth_qmem *mem, const struct fth_table *table, unsigned column,
		 struct fth_type type, struct decoder **out);
void decoder_close(struct decoder *d); /* accepts NULL */

/* The memory of a decoder, without text that is unpacked. */
uint64_t decoder_memory(const struct fth_table *table, unsigned column);
/* The memory that a decoder is expected to take beyond that: text of a batch, in blocks. */
uint64_t decoder_growth(const struct fth_table *table, unsigned column);

/*
 * Rows from to before `to` of the page's group, at most FTH_BATCH. image is the whole chunk. The
 * vector is valid until the next call. Returns 0, -ENOMEM, or -EBADMSG with a text.
 */
int decoder_run(struct decoder *d, const struct fth_table_page *page, const unsigned char *image,
		uint32_t from, uint32_t to, struct fth_vec *out);

#endif
