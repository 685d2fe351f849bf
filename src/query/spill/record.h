/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows as bytes, for spill files and sorts: each value in the width of its column, text with its
 * length.
 */
#ifndef FTH_QUERY_RECORD_H
#define FTH_QUERY_RECORD_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

struct record_field {
	enum fth_phys type;
	bool nullable; /* a byte says whether the value is null */
};

/*
 * The bytes of row i. The vectors may have other integer types, frames of reference and
 * dictionaries.
 */
size_t record_size(const struct record_field *fields, unsigned count,
		   const struct fth_vec *const *columns, unsigned i);
/* Write them; returns the end. */
char *record_write(const struct record_field *fields, unsigned count,
		   const struct fth_vec *const *columns, unsigned i, char *out);

/* Up to FTH_BATCH records as columns again. */
struct record_batch {
	struct fth_qmem *mem;
	const struct record_field *fields;
	unsigned count, n;
	struct fth_vec *columns; /* valid until the batch is reset */
	void **values;
	uint64_t **nulls;
	struct fth_arena text;
	size_t text_bytes; /* of all texts in it */
};

/* The fields must outlive it. Returns 0 or -ENOMEM; release accepts a zeroed batch. */
int record_batch_init(struct record_batch *b, struct fth_qmem *mem,
		      const struct record_field *fields, unsigned count);
void record_batch_release(struct record_batch *b);
void record_batch_reset(struct record_batch *b);
/* Add a record; texts are copied. Returns 0, -ENOMEM, or -EILSEQ if it is not of these fields. */
int record_batch_add(struct record_batch *b, const char *record, size_t size);

#endif
