/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The body of a set of kernels: each kern_*.c includes it once, with KERN_SET and KERN_NAME
 * defined, and is compiled for its instruction set. Plain loops are left to the compiler. What
 * turns lanes into bits and bits into lanes is written out for AVX2 and AVX-512 (kern_words.h).
 */
#include "query/vec/kern/kern.h"
#include "query/vec/kern/kern_words.h"

/*
 * Wrapping arithmetic in the unsigned type of the same width. int promotion is harmless up to 16
 * bits, except for products of 16 bits, which are made in 32.
 */
#define U_int8_t  uint32_t
#define U_int16_t uint32_t
#define U_int32_t uint32_t
#define U_int64_t uint64_t
#define U(T)	  U_##T

/* ---- comparisons ---- */

#define DEFINE_CMP(T, name, op)                                                                   \
	static void cmp_const_##name##_##T(uint64_t *out, const void *a_, int64_t c_, unsigned n, \
					   uint64_t flip)                                         \
	{                                                                                         \
		const T *a = a_, c = (T)c_;                                                       \
		unsigned i = 0;                                                                   \
                                                                                                  \
		for (; i + 64 <= n; i += 64)                                                      \
			out[i / 64] = words_const_##name##_##T(a + i, c) ^ flip;                  \
		if (i < n) {                                                                      \
			uint64_t w = 0;                                                           \
                                                                                                  \
			for (unsigned j = i; j < n; j++)                                          \
				w |= (uint64_t)(a[j] op c) << (j - i);                            \
			out[i / 64] = (w ^ flip) & (((uint64_t)1 << (n - i)) - 1);                \
		}                                                                                 \
	}                                                                                         \
	static void cmp_vec_##name##_##T(uint64_t *out, const void *a_, const void *b_,           \
					 unsigned n, uint64_t flip)                               \
	{                                                                                         \
		const T *a = a_, *b = b_;                                                         \
		unsigned i = 0;                                                                   \
                                                                                                  \
		for (; i + 64 <= n; i += 64)                                                      \
			out[i / 64] = words_vec_##name##_##T(a + i, b + i) ^ flip;                \
		if (i < n) {                                                                      \
			uint64_t w = 0;                                                           \
                                                                                                  \
			for (unsigned j = i; j < n; j++)                                          \
				w |= (uint64_t)(a[j] op b[j]) << (j - i);                         \
			out[i / 64] = (w ^ flip) & (((uint64_t)1 << (n - i)) - 1);                \
		}                                                                                 \
	}

#define DEFINE_BETWEEN(T)                                                                         \
	static void between_##T(uint64_t *out, const void *a_, int64_t lo_, int64_t hi_,          \
				unsigned n)                                                       \
	{                                                                                         \
		const T *a = a_, lo = (T)lo_, hi = (T)hi_;                                        \
		unsigned i = 0;                                                                   \
                                                                                                  \
		for (; i + 64 <= n; i += 64)                                                      \
			out[i / 64] =                                                             \
				~(words_const_lt_##T(a + i, lo) | words_const_gt_##T(a + i, hi)); \
		if (i < n) {                                                                      \
			uint64_t w = 0;                                                           \
                                                                                                  \
			for (unsigned j = i; j < n; j++)                                          \
				w |= (uint64_t)(a[j] >= lo && a[j] <= hi) << (j - i);             \
			out[i / 64] = w;                                                          \
		}                                                                                 \
	}

/* ---- arithmetic ---- */

#define DEFINE_ARITH(T, name, op)                                                                  \
	static void arith_vec_##name##_##T(void *dst_, const void *a_, const void *b_, unsigned n) \
	{                                                                                          \
		const T *a = a_, *b = b_;                                                          \
		T *dst = dst_;                                                                     \
                                                                                                   \
		for (unsigned i = 0; i < n; i++)                                                   \
			dst[i] = (T)((U(T))a[i] op(U(T)) b[i]);                                    \
	}                                                                                          \
	static void arith_const_##name##_##T(void *dst_, const void *a_, int64_t c, unsigned n)    \
	{                                                                                          \
		const T *a = a_;                                                                   \
		T *dst = dst_;                                                                     \
                                                                                                   \
		for (unsigned i = 0; i < n; i++)                                                   \
			dst[i] = (T)((U(T))a[i] op(U(T)) c);                                       \
	}

#define DEFINE_FROM_CONST(T)                                                          \
	static void from_const_##T(void *dst_, const void *a_, int64_t c, unsigned n) \
	{                                                                             \
		const T *a = a_;                                                      \
		T *dst = dst_;                                                        \
                                                                                      \
		for (unsigned i = 0; i < n; i++)                                      \
			dst[i] = (T)((U(T))c - (U(T))a[i]);                           \
	}

#define DEFINE_MUL_WIDE(T, W)                                                                \
	static void mul_wide_vec_##T(void *dst_, const void *a_, const void *b_, unsigned n) \
	{                                                                                    \
		const T *a = a_, *b = b_;                                                    \
		W *dst = dst_;                                                               \
                                                                                             \
		for (unsigned i = 0; i < n; i++)                                             \
			dst[i] = (W)((W)a[i] * (W)b[i]);                                     \
	}                                                                                    \
	static void mul_wide_const_##T(void *dst_, const void *a_, int64_t c_, unsigned n)   \
	{                                                                                    \
		const T *a = a_, c = (T)c_;                                                  \
		W *dst = dst_;                                                               \
                                                                                             \
		for (unsigned i = 0; i < n; i++)                                             \
			dst[i] = (W)((W)a[i] * (W)c);                                        \
	}

#define DEFINE_CONVERT(D, S)                                                                 \
	static void convert_##D##_##S(void *dst_, const void *src_, int64_t add, unsigned n) \
	{                                                                                    \
		const S *src = src_;                                                         \
		D *dst = dst_;                                                               \
		U(D) plus = (U(D))add;                                                       \
                                                                                             \
		for (unsigned i = 0; i < n; i++)                                             \
			dst[i] = (D)((U(D))src[i] + plus);                                   \
	}

#define DEFINE_CONVERTS(D)         \
	DEFINE_CONVERT(D, int8_t)  \
	DEFINE_CONVERT(D, int16_t) \
	DEFINE_CONVERT(D, int32_t) \
	DEFINE_CONVERT(D, int64_t)

/* ---- bits and vectors ---- */

#define DEFINE_BLEND(T)                                                                         \
	static void blend_##T(void *dst_, const uint64_t *mask, const void *a_, const void *b_, \
			      unsigned n)                                                       \
	{                                                                                       \
		const T *a = a_, *b = b_;                                                       \
		T *dst = dst_;                                                                  \
		unsigned i = 0;                                                                 \
                                                                                                \
		for (; i + 64 <= n; i += 64)                                                    \
			words_blend_##T(dst + i, mask[i / 64], a + i, b + i);                   \
		for (; i < n; i++)                                                              \
			dst[i] = mask[i / 64] >> i % 64 & 1 ? a[i] : b[i];                      \
	}

#define DEFINE_GATHER(T)                                                                           \
	static void gather_##T(void *dst_, const void *src_, const uint16_t *rows, unsigned count) \
	{                                                                                          \
		const T *src = src_;                                                               \
		T *dst = dst_;                                                                     \
                                                                                                   \
		for (unsigned i = 0; i < count; i++)                                               \
			dst[i] = src[rows[i]];                                                     \
	}

/* A mask's word for the last rows of a vector never has bits beyond its end. */
#define DEFINE_SUM(T)                                                            \
	static int64_t sum_##T(const void *a_, const uint64_t *mask, unsigned n) \
	{                                                                        \
		const T *a = a_;                                                 \
		uint64_t sum = 0;                                                \
		unsigned i = 0;                                                  \
                                                                                 \
		sum = words_sum_##T(a, mask, n / 64);                            \
		for (i = n / 64 * 64; i < n; i++)                                \
			sum += (uint64_t)a[i] & -(mask[i / 64] >> i % 64 & 1);   \
		return (int64_t)sum;                                             \
	}

/* Where a[i] has to be for a[i] + add to be in [0, size); false if it never is. */
static bool member_range(int64_t add, uint64_t size, int32_t *lo, int32_t *hi)
{
	fth_i128 from = -(fth_i128)add, to = from + size - 1;

	*lo = from < INT32_MIN ? INT32_MIN : from > INT32_MAX ? INT32_MAX : (int32_t)from;
	*hi = to < INT32_MIN ? INT32_MIN : to > INT32_MAX ? INT32_MAX : (int32_t)to;
	return size > 0 && from <= INT32_MAX && to >= INT32_MIN;
}

#define DEFINE_MEMBER(T)                                                                        \
	static void member_##T(uint64_t *out, const void *a_, int64_t add, const uint64_t *set, \
			       uint64_t size, unsigned n)                                       \
	{                                                                                       \
		const T *a = a_;                                                                \
		int32_t lo, hi;                                                                 \
		unsigned i = 0;                                                                 \
		uint64_t w = 0;                                                                 \
                                                                                                \
		if (!member_range(add, size, &lo, &hi)) {                                       \
			memset(out, 0, (n + 63) / 64 * sizeof(*out));                           \
			return;                                                                 \
		}                                                                               \
		for (; i + 64 <= n; i += 64)                                                    \
			out[i / 64] = words_member_##T(a + i, (int32_t)add, lo, hi, set);       \
		for (unsigned j = i; j < n; j++) {                                              \
			uint64_t at = (uint64_t)a[j] + (uint64_t)add;                           \
                                                                                                \
			if (at < size)                                                          \
				w |= (set[at / 64] >> at % 64 & 1) << (j - i);                  \
		}                                                                               \
		if (i < n)                                                                      \
			out[i / 64] = w;                                                        \
	}

#define DEFINE_ALL(T)           \
	DEFINE_CMP(T, eq, ==)   \
	DEFINE_CMP(T, lt, <)    \
	DEFINE_CMP(T, gt, >)    \
	DEFINE_BETWEEN(T)       \
	DEFINE_ARITH(T, add, +) \
	DEFINE_ARITH(T, sub, -) \
	DEFINE_ARITH(T, mul, *) \
	DEFINE_FROM_CONST(T)    \
	DEFINE_CONVERTS(T)      \
	DEFINE_BLEND(T)         \
	DEFINE_GATHER(T)        \
	DEFINE_SUM(T)

DEFINE_ALL(int8_t)
DEFINE_ALL(int16_t)
DEFINE_ALL(int32_t)
DEFINE_ALL(int64_t)
DEFINE_MUL_WIDE(int8_t, int16_t)
DEFINE_MUL_WIDE(int16_t, int32_t)
DEFINE_MUL_WIDE(int32_t, int64_t)
DEFINE_BLEND(fth_i128)
DEFINE_GATHER(fth_i128)
DEFINE_MEMBER(int8_t)
DEFINE_MEMBER(int16_t)
DEFINE_MEMBER(int32_t)

static unsigned kern_count(const uint64_t *bits, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n / 64; i++)
		count += (unsigned)__builtin_popcountll(bits[i]);
	if (n % 64)
		count += (unsigned)__builtin_popcountll(bits[n / 64] << (64 - n % 64));
	return count;
}

/* The first word of the block counts only if the bit is in the second one. */
static inline uint32_t rank_of(const uint64_t *bits, const uint32_t *before, uint64_t at)
{
	uint64_t word = at / 64;
	unsigned first = (unsigned)__builtin_popcountll(bits[word & ~(uint64_t)1]);

	return before[word / 2] + (first & -(unsigned)(word & 1)) +
	       (unsigned)__builtin_popcountll(bits[word] & (((uint64_t)1 << at % 64) - 1));
}

static void kern_ranks(const uint64_t *bits, const uint32_t *before, int64_t min,
		       const int64_t *keys, unsigned n, const uint64_t *hits, uint32_t *ranks)
{
	for (unsigned i = 0; i < n; i += 64)
		for (uint64_t w = hits[i / 64]; w; w &= w - 1) {
			unsigned row = i + (unsigned)__builtin_ctzll(w);

			ranks[row] = rank_of(bits, before, (uint64_t)keys[row] - (uint64_t)min);
		}
}

static void kern_filter(uint64_t *out, const uint64_t *keys, uint64_t factor, unsigned shift,
			const uint64_t *set, unsigned n)
{
	unsigned i = 0;
	uint64_t w = 0;

	for (; i + 64 <= n; i += 64)
		out[i / 64] = words_filter(keys + i, factor, shift, set);
	for (unsigned j = i; j < n; j++) {
		uint64_t at = (keys[j] * factor) >> shift;

		w |= (set[at / 64] >> at % 64 & 1) << (j - i);
	}
	if (i < n)
		out[i / 64] = w;
}

static unsigned kern_rows(const uint64_t *bits, unsigned n, uint16_t *out)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i += 64)
		count += words_rows(out + count, bits[i / 64], i);
	return count;
}

/*
 * The needle's first and last byte are looked for together, 32 or 64 places at a time, and only
 * there the whole needle is compared (W. Mula, "SIMD-friendly algorithms for substring searching",
 * 2018).
 */
static const char *kern_find(const char *at, const char *end, const char *needle, size_t len)
{
	size_t left = (size_t)(end - at);

	if (left < len)
		return NULL;
	left -= len - 1; /* places where it can begin */
	for (; left >= FIND_BYTES; left -= FIND_BYTES, at += FIND_BYTES) {
		uint64_t hits = words_find(at, at + len - 1, needle[0], needle[len - 1]);

		for (; hits; hits &= hits - 1) {
			const char *hit = at + __builtin_ctzll(hits);

			if (len <= 2 || memcmp(hit + 1, needle + 1, len - 2) == 0)
				return hit;
		}
	}
	for (; left > 0; left--, at++)
		if (at[0] == needle[0] && memcmp(at, needle, len) == 0)
			return at;
	return NULL;
}

/*
 * Days to the civil calendar by H. Hinnant, "chrono-compatible low-level date algorithms" (2013),
 * in 32 bits: eras of 400 years from 0000-03-01.
 */
static void kern_civil(const int32_t *days, unsigned n, int32_t *year, int32_t *month, int32_t *day)
{
	for (unsigned i = 0; i < n; i++) {
		uint32_t z = (uint32_t)days[i] + 719468u;
		uint32_t era = z / 146097u, doe = z - era * 146097u;
		uint32_t yoe = (doe - doe / 1460u + doe / 36524u - doe / 146096u) / 365u;
		uint32_t doy = doe - (365u * yoe + yoe / 4u - yoe / 100u);
		uint32_t mp = (5u * doy + 2u) / 153u;
		uint32_t m = mp < 10u ? mp + 3u : mp - 9u;

		if (year)
			year[i] = (int32_t)(yoe + era * 400u + (m <= 2u));
		if (month)
			month[i] = (int32_t)m;
		if (day)
			day[i] = (int32_t)(doy - (153u * mp + 2u) / 5u + 1u);
	}
}

static void kern_group_masks(const uint32_t *groups, const uint64_t *mask, unsigned n,
			     unsigned ngroups, uint64_t *masks)
{
	for (unsigned g = 0; g < ngroups; g++) {
		uint64_t *out = masks + g * FTH_BATCH_WORDS;

		cmp_const_eq_int32_t(out, groups, (int64_t)g, n, 0);
		for (unsigned i = 0; i < (n + 63) / 64; i++)
			out[i] &= mask[i];
	}
}

#define ALL4(prefix)                                                              \
	{                                                                         \
		prefix##int8_t, prefix##int16_t, prefix##int32_t, prefix##int64_t \
	}
#define OPS3(prefix, a, b, c, T)                                  \
	{                                                         \
		prefix##a##_##T, prefix##b##_##T, prefix##c##_##T \
	}
#define ALL4X3(prefix, a, b, c)                                                        \
	{                                                                              \
		OPS3(prefix, a, b, c, int8_t), OPS3(prefix, a, b, c, int16_t),         \
			OPS3(prefix, a, b, c, int32_t), OPS3(prefix, a, b, c, int64_t) \
	}

const struct fth_kern KERN_SET = {
	.name = KERN_NAME,
	.cmp_const = ALL4X3(cmp_const_, eq, lt, gt),
	.cmp_vec = ALL4X3(cmp_vec_, eq, lt, gt),
	.between = ALL4(between_),
	.arith_vec = ALL4X3(arith_vec_, add, sub, mul),
	.arith_const = ALL4X3(arith_const_, add, sub, mul),
	.from_const = ALL4(from_const_),
	.mul_wide_vec = {mul_wide_vec_int8_t, mul_wide_vec_int16_t, mul_wide_vec_int32_t},
	.mul_wide_const = {mul_wide_const_int8_t, mul_wide_const_int16_t, mul_wide_const_int32_t},
	.convert = {ALL4(convert_int8_t_), ALL4(convert_int16_t_), ALL4(convert_int32_t_),
		    ALL4(convert_int64_t_)},
	.blend = {blend_int8_t, blend_int16_t, blend_int32_t, blend_int64_t, blend_fth_i128},
	.sum = ALL4(sum_),
	.count = kern_count,
	.ranks = kern_ranks,
	.filter = kern_filter,
	.rows = kern_rows,
	.gather = {gather_int8_t, gather_int16_t, gather_int32_t, gather_int64_t, gather_fth_i128},
	.member = {member_int8_t, member_int16_t, member_int32_t},
	.find = kern_find,
	.civil = kern_civil,
	.group_masks = kern_group_masks,
};
