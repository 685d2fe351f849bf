/* SPDX-License-Identifier: BSD-2-Clause */
/* The structure, shared by building (index_build.c) and looking up (index.c). */
#ifndef FTH_QUERY_INDEX_INTERNAL_H
#define FTH_QUERY_INDEX_INTERNAL_H

#include "query/keys/key_bitmap.h"
#include "query/join/index.h"
#include "query/join/record_pack.h"

#define INDEX_FREE UINT32_MAX

enum index_form {
	/* Of the numbers; the slot of a key is its number minus the least (direct), or its rank. */
	INDEX_BITMAP,
	INDEX_HASH, /* of the numbers; slots in the order in which keys came */
};

/*
 * Constant once it is built. Slot s has the records [start[s], start[s + 1]) if there is a start[],
 * otherwise record s.
 */
struct index {
	struct fth_qmem *mem;	 /* of everything in it ... */
	struct fth_qmem *parent; /* ... but this */
	bool limited;		 /* mem is an account of its own */
	struct index_spec spec;
	struct numbering numbering;
	uint64_t from, to;
	enum index_form form;
	bool direct;
	struct key_bitmap keys; /* bitmap: of the numbers */
	uint32_t *heads;	/* hash: slots by home, or INDEX_FREE */
	unsigned head_bits;
	/*
	 * hash: a bit for each number's hash, of which most are clear; or NULL. Most misses end
	 * here.
	 */
	uint64_t *filter;
	unsigned filter_bits;
	uint64_t *numbers; /* hash: by slot */
	uint64_t number_room;
	uint64_t slots, slot_room;
	uint32_t *start; /* of slot_room + 1 */
	char *records;
	uint64_t rows, record_room;
	struct pack pack; /* the payload; if keys are hashed, the keys before it */
	unsigned first_payload;
	struct pack_field *fields;
	bool has_text;
	struct pool pool;
	const struct fth_dict *dict;
	struct rows *list; /* or NULL */
	bool any, nulls;   /* a row was appended; one with a null key */
};

/* The high bits of a product by the golden ratio; numbers are sparse, not adversarial. */
#define INDEX_FACTOR UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t index_home(const struct index *x, uint64_t number)
{
	return (number * INDEX_FACTOR) >> (64 - x->head_bits);
}

/* Release keys, table and records; rows that are to be finished otherwise stay with the build. */
void index_forget(struct index *x);

#endif
