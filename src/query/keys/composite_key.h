/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several columns as one key: packed into 64 or 128 bits where the ranges allow, else encoded as
 * bytes that are equal if and only if all columns are. Nulls are equal to each other, as in GROUP
 * BY.
 */
#ifndef FTH_QUERY_COMPOSITE_KEY_H
#define FTH_QUERY_COMPOSITE_KEY_H

#include "query/mem/qmem.h"
#include "query/vec/vec.h"

#define FTH_KEY_COLUMNS 32

enum composite_key_form { FTH_KEY_64, FTH_KEY_128, FTH_KEY_BYTES };

struct composite_key_column {
	bool text;
	bool nullable;
	fth_i128 min, max; /* of integers; all of 128 bits means FTH_KEY_BYTES */
	unsigned bits, shift;
};

struct composite_key {
	enum composite_key_form form;
	unsigned count;
	unsigned bits; /* of all columns together; beyond 128 for FTH_KEY_BYTES */
	struct composite_key_column columns[FTH_KEY_COLUMNS];
};

/*
 * Chooses the form. The caller sets text, nullable, min and max. -EINVAL if there are too many
 * columns.
 */
int composite_key_init(struct composite_key *k, const struct composite_key_column *columns,
		       unsigned count);

/* Keys of selected rows. A value out of its range gives -ERANGE. */
int composite_key_pack64(const struct composite_key *k, const struct fth_vec *vecs, unsigned n,
			 const uint64_t *rows, uint64_t *keys);
int composite_key_pack128(const struct composite_key *k, const struct fth_vec *vecs, unsigned n,
			  const uint64_t *rows, fth_u128 *keys);
/* Bytes from the arena. */
int composite_key_encode(const struct composite_key *k, const struct fth_vec *vecs, unsigned n,
			 const uint64_t *rows, struct fth_arena *arena, struct fth_str *keys);

/* One column of a packed or encoded key; false: null. Text points into the key. */
bool composite_key_int(const struct composite_key *k, fth_u128 key, unsigned column,
		       fth_i128 *value);
bool composite_key_decode(const struct composite_key *k, struct fth_str key, unsigned column,
			  fth_i128 *value, struct fth_str *text);

#endif
