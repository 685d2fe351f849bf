/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Vectors: at most FTH_BATCH values of one column, in the narrowest physical type that holds them,
 * with a bitmap of nulls. Bitmaps are arrays of 64-bit words; row i is bit i % 64 of word i / 64.
 *
 * Nobody owns a struct fth_vec: it points at memory of whoever decoded or computed the values,
 * which stays valid until its producer is used again.
 */
#ifndef FTH_QUERY_VEC_H
#define FTH_QUERY_VEC_H

#include "scalar/scalar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FTH_BATCH	4096u
#define FTH_BATCH_WORDS (FTH_BATCH / 64)

/* Physical types. The integers come first, in order of width. */
enum fth_phys {
	FTH_I8,
	FTH_I16,
	FTH_I32,
	FTH_I64,
	FTH_I128,
	FTH_F64,
	FTH_STR,  /* struct fth_str */
	FTH_BITS, /* bool: a bitmap */
	FTH_PHYS_COUNT
};

/* Bytes of a value; 0 for FTH_BITS. */
static inline unsigned fth_phys_width(enum fth_phys type)
{
	static const uint8_t width[FTH_PHYS_COUNT] = {1, 2, 4, 8, 16, 8, 16, 0};

	return width[type];
}

/* The narrowest integer type for values in [lo, hi]. */
enum fth_phys fth_phys_for(fth_i128 lo, fth_i128 hi);

/*
 * The distinct values of a column, or of a part of it. Two with the same id hold the same entries.
 */
struct fth_dict {
	uint64_t id; /* not 0 */
	uint32_t count;
	const struct fth_str *entries;
};

/* An id for a new dictionary, unique in the process. */
uint64_t fth_dict_next_id(void);

/*
 * Row i of an integer type has the value base + data[i]: values that are stored with a frame of
 * reference stay narrow. With a dictionary, base + data[i] is the code of row i. A null row may
 * hold any integer; its string must be readable.
 */
struct fth_vec {
	enum fth_phys type;
	const void *data;
	const uint64_t *nulls; /* bit set: null. NULL: no nulls */
	int64_t base;
	const struct fth_dict *dict;
	/*
	 * FTH_STR: the rows' bytes lie in this block, in the order of rows, without overlap. A
	 * search then runs over the block as a whole. NULL if that is not so.
	 */
	const char *block;
	size_t block_len;
};

/* ---- bitmaps ---- */

static inline unsigned fth_bits_words(unsigned n)
{
	return (n + 63) / 64;
}

static inline bool fth_bit(const uint64_t *bits, unsigned i)
{
	return bits[i / 64] >> i % 64 & 1;
}

static inline void fth_bit_set(uint64_t *bits, unsigned i)
{
	bits[i / 64] |= (uint64_t)1 << i % 64;
}

/* Bits 0 to n - 1 set, the rest of the last word clear. */
void fth_bits_fill(uint64_t *bits, unsigned n);
unsigned fth_bits_count(const uint64_t *bits, unsigned n);
/* Bits n and above of the last word must be clear in all arguments of these two. */
bool fth_bits_any(const uint64_t *bits, unsigned n);
/* The rows of a bitmap as a list, in order; returns how many. `rows` has room for n + 64. */
unsigned fth_bits_rows(const uint64_t *bits, unsigned n, uint16_t *rows);

/*
 * A selection: some rows of a batch. The bitmap always holds; the list is made when it is asked for
 * and few rows are left (fth_sel_sparse()), and stays valid until the bitmap changes.
 */
struct fth_sel {
	unsigned n;	/* rows of the batch */
	unsigned count; /* selected */
	bool has_rows;
	uint64_t bits[FTH_BATCH_WORDS];
	uint16_t rows[FTH_BATCH + 64];
};

void fth_sel_all(struct fth_sel *s, unsigned n);
/* s = s and bits; bits beyond n are ignored. */
void fth_sel_and(struct fth_sel *s, const uint64_t *bits);
void fth_sel_and_not(struct fth_sel *s, const uint64_t *bits);
/* Few rows are left: a list of them is cheaper to walk than the vectors. */
static inline bool fth_sel_sparse(const struct fth_sel *s)
{
	return s->count < s->n / 16;
}
const uint16_t *fth_sel_rows(struct fth_sel *s);

/* ---- values ---- */

/* Row i of an integer vector, its base added. */
fth_i128 fth_vec_int(const struct fth_vec *v, unsigned i);

/* dst[j] = src[rows[j]], of values of the type; not FTH_BITS. */
void fth_vec_gather(enum fth_phys type, void *dst, const void *src, const uint16_t *rows,
		    unsigned count);
/* Bit j of dst = bit rows[j] of src. */
void fth_bits_gather(uint64_t *dst, const uint64_t *src, const uint16_t *rows, unsigned count);

/* Rows of an integer vector as 64-bit values, base added; FTH_I128 must fit. */
void fth_vec_to_i64(int64_t *dst, const struct fth_vec *v, unsigned n);

#endif
