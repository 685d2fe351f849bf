/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packed records: the columns of a row side by side, each with as many bits as its range needs.
 * Text is the number of a string in a pool. A record is a whole number of bytes, so that threads
 * may write neighbours.
 *
 * A field of up to 57 bits begins at any bit, a wider one at a byte: one load of 8 bytes has all of
 * it. So arrays of records end with PACK_PAD more bytes.
 */
#ifndef FTH_QUERY_RECORD_PACK_H
#define FTH_QUERY_RECORD_PACK_H

#include "query/join/string_pool.h"
#include "query/task/task.h"

#define PACK_PAD 16u

enum pack_kind { PACK_INT, PACK_WIDE, PACK_DOUBLE, PACK_BOOL, PACK_TEXT };

struct pack_field {
	enum pack_kind kind;
	enum fth_phys out; /* of gathered values */
	bool nullable;
	unsigned null_bit;
	unsigned bit, width;
	int64_t lo; /* PACK_INT: is subtracted */
};

struct pack {
	unsigned count;
	struct pack_field *fields;
	unsigned stride; /* bytes of a record; 0 if there is nothing in it */
	unsigned text_bits;
};

/*
 * Lay out records of `count` columns; `fields` has room for them. text_bits: of a string's number.
 */
void pack_init(struct pack *p, struct pack_field *fields, const struct task_slot *columns,
	       unsigned count, unsigned text_bits);

/* One thread's translation of dictionary codes of a column to numbers of strings. */
struct pack_codes {
	uint64_t dict; /* id */
	uint32_t *numbers;
	uint32_t room;
};
void pack_codes_release(struct pack_codes *c, struct fth_qmem *mem);

/*
 * Put the values of rows[0..count) into records[0..count), which are zeroes in this field. work has
 * room for FTH_BATCH. Returns 0, or -ENOMEM from the pool.
 */
int pack_put(const struct pack *p, unsigned field, const struct fth_vec *v, unsigned n,
	     const uint16_t *rows, unsigned count, char *records, struct pool *pool,
	     struct pack_codes *codes, int64_t *work);

/* Copy a record of n rows from one layout to another one that differs in text_bits. */
void pack_convert(const struct pack *from, const char *record, const struct pack *to, char *out);

/*
 * values[i] = the field of record places[i]; nulls[] likewise. rows: NULL for all i < n, or the
 * only ones that are wanted, `count` of them. All places must be records.
 */
void pack_gather(const struct pack *p, unsigned field, const char *records, const uint32_t *places,
		 unsigned n, const uint16_t *rows, unsigned count, void *values, uint64_t *nulls);

/* Whether a field of a record equals row i of a vector, in which it is not null. */
bool pack_equals(const struct pack *p, unsigned field, const struct task_slot *slot,
		 const char *record, const struct fth_dict *dict, const struct fth_vec *v,
		 unsigned i);

/* Copy one record. */
void pack_copy(char *to, const char *from, unsigned stride);

#endif
