/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loops over vectors, compiled for several instruction sets (kern_base.c, kern_avx2.c,
 * kern_avx512.c, from one body, kern_body.h) and chosen once at run time. All sets give the same
 * results, bit for bit.
 *
 * Integer arithmetic wraps. Arguments need no alignment; outputs may be inputs of the same width.
 * Bitmaps that kernels write have clear bits after n in the last word.
 */
#ifndef FTH_QUERY_KERN_H
#define FTH_QUERY_KERN_H

#include "query/vec/vec.h"

/* Integer types that kernels work on: FTH_I8 to FTH_I64. */
#define FTH_KERN_TYPES 4

enum fth_kern_cmp { FTH_KERN_EQ, FTH_KERN_LT, FTH_KERN_GT, FTH_KERN_CMPS };
enum fth_kern_arith { FTH_KERN_ADD, FTH_KERN_SUB, FTH_KERN_MUL, FTH_KERN_ARITHS };

struct fth_kern {
	const char *name;
	/* Bit i of out: a[i] cmp c, or a[i] cmp b[i]; xor flip, which is 0 or all ones. */
	void (*cmp_const[FTH_KERN_TYPES][FTH_KERN_CMPS])(uint64_t *out, const void *a, int64_t c,
							 unsigned n, uint64_t flip);
	void (*cmp_vec[FTH_KERN_TYPES][FTH_KERN_CMPS])(uint64_t *out, const void *a, const void *b,
						       unsigned n, uint64_t flip);
	/* Bit i of out: lo <= a[i] <= hi. */
	void (*between[FTH_KERN_TYPES])(uint64_t *out, const void *a, int64_t lo, int64_t hi,
					unsigned n);
	void (*arith_vec[FTH_KERN_TYPES][FTH_KERN_ARITHS])(void *dst, const void *a, const void *b,
							   unsigned n);
	void (*arith_const[FTH_KERN_TYPES][FTH_KERN_ARITHS])(void *dst, const void *a, int64_t c,
							     unsigned n);
	/* dst[i] = c - a[i]. */
	void (*from_const[FTH_KERN_TYPES])(void *dst, const void *a, int64_t c, unsigned n);
	/* The product in the next wider type; by type of the factors, FTH_I8 to FTH_I32. */
	void (*mul_wide_vec[3])(void *dst, const void *a, const void *b, unsigned n);
	void (*mul_wide_const[3])(void *dst, const void *a, int64_t c, unsigned n);
	/* dst[i] = src[i] + add; [type of dst][type of src]. */
	void (*convert[FTH_KERN_TYPES][FTH_KERN_TYPES])(void *dst, const void *src, int64_t add,
							unsigned n);
	/* dst[i] = bit i of mask ? a[i] : b[i]; by width: 1, 2, 4, 8, 16 bytes. */
	void (*blend[5])(void *dst, const uint64_t *mask, const void *a, const void *b, unsigned n);
	/* The sum of a[i] where bit i of mask is set. The sum of FTH_I64 wraps. */
	int64_t (*sum[FTH_KERN_TYPES])(const void *a, const uint64_t *mask, unsigned n);
	/* Set bits among the first n. */
	unsigned (*count)(const uint64_t *bits, unsigned n);
	/*
	 * ranks[i] = set bits before bit keys[i] - min, for rows in `hits`; before[b] is how many
	 * there are before block b of 2 words.
	 */
	void (*ranks)(const uint64_t *bits, const uint32_t *before, int64_t min,
		      const int64_t *keys, unsigned n, const uint64_t *hits, uint32_t *ranks);
	/* The positions of set bits; out has room for 64 more than there are. Returns how many. */
	unsigned (*rows)(const uint64_t *bits, unsigned n, uint16_t *out);
	/* dst[j] = src[rows[j]]; by width. */
	void (*gather[5])(void *dst, const void *src, const uint16_t *rows, unsigned count);
	/*
	 * Bit i of out: bit (a[i] + add) of set, of `size` <= 2^32 bits; 0 beyond. FTH_I8 to
	 * FTH_I32.
	 */
	void (*member[3])(uint64_t *out, const void *a, int64_t add, const uint64_t *set,
			  uint64_t size, unsigned n);
	/* Bit i of out: bit (keys[i] * factor) >> shift of set. */
	void (*filter)(uint64_t *out, const uint64_t *keys, uint64_t factor, unsigned shift,
		       const uint64_t *set, unsigned n);
	/* The first place of needle (len >= 1) in [at, end), or NULL. */
	const char *(*find)(const char *at, const char *end, const char *needle, size_t len);
	/* Years, months and days of the month of dates in [-719468, 2^30], all FTH_I32; NULL if not
	 * wanted. */
	void (*civil)(const int32_t *days, unsigned n, int32_t *year, int32_t *month, int32_t *day);
	/*
	 * groups[i] == g for each g < ngroups <= 8, where mask is set: masks[g * FTH_BATCH_WORDS].
	 */
	void (*group_masks)(const uint32_t *groups, const uint64_t *mask, unsigned n,
			    unsigned ngroups, uint64_t *masks);
};

/*
 * The set in use: the best that this processor has. FATHOM_SIMD=base|avx2|avx512 chooses a lesser
 * one.
 */
const struct fth_kern *fth_kern(void);
/* Set i, for tests; NULL if there are no more. The first one is portable. */
const struct fth_kern *fth_kern_at(unsigned i);
/* For tests: use this one from now on; NULL: the best. */
void fth_kern_use(const struct fth_kern *k);

extern const struct fth_kern fth_kern_base, fth_kern_avx2, fth_kern_avx512;

#endif
