/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What kernels do with 64 rows at a time, for each instruction set: comparisons to a word of bits,
 * and words of bits to vectors. The portable forms are at the end and fill what a set leaves out.
 */
#ifndef FTH_QUERY_KERN_WORDS_H
#define FTH_QUERY_KERN_WORDS_H

#include "query/vec/vec.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* ---- AVX-512 ---- */

#if defined(__AVX512BW__) && defined(__AVX512VBMI2__)
#define WORDS_CMP(T, bits, name)                                                           \
	static inline uint64_t words_const_##name##_##T(const T *a, T c)                   \
	{                                                                                  \
		__m512i x = _mm512_set1_epi##bits(c);                                      \
		uint64_t w = 0;                                                            \
                                                                                           \
		for (unsigned g = 0; g < 64; g += 512 / bits)                              \
			w |= (uint64_t)_mm512_cmp##name##_epi##bits##_mask(                \
				     _mm512_loadu_si512(a + g), x)                         \
			     << g;                                                         \
		return w;                                                                  \
	}                                                                                  \
	static inline uint64_t words_vec_##name##_##T(const T *a, const T *b)              \
	{                                                                                  \
		uint64_t w = 0;                                                            \
                                                                                           \
		for (unsigned g = 0; g < 64; g += 512 / bits)                              \
			w |= (uint64_t)_mm512_cmp##name##_epi##bits##_mask(                \
				     _mm512_loadu_si512(a + g), _mm512_loadu_si512(b + g)) \
			     << g;                                                         \
		return w;                                                                  \
	}
#define WORDS_CMPS(T, bits)    \
	WORDS_CMP(T, bits, eq) \
	WORDS_CMP(T, bits, lt) \
	WORDS_CMP(T, bits, gt)
WORDS_CMPS(int8_t, 8)
WORDS_CMPS(int16_t, 16)
WORDS_CMPS(int32_t, 32)
WORDS_CMPS(int64_t, 64)

#define WORDS_BLEND(T, bits, M)                                                                    \
	static inline void words_blend_##T(T *dst, uint64_t w, const T *a, const T *b)             \
	{                                                                                          \
		for (unsigned g = 0; g < 64; g += 512 / bits)                                      \
			_mm512_storeu_si512(dst + g,                                               \
					    _mm512_mask_loadu_epi##bits(_mm512_loadu_si512(b + g), \
									(M)(w >> g), a + g));      \
	}
WORDS_BLEND(int8_t, 8, __mmask64)
WORDS_BLEND(int16_t, 16, __mmask32)
WORDS_BLEND(int32_t, 32, __mmask16)
WORDS_BLEND(int64_t, 64, __mmask8)
#define HAVE_WORDS_BLEND

/* Wraps, which _mm512_reduce_add_epi64() must not. */
static inline uint64_t words_total(__m512i x)
{
	uint64_t part[8], sum = 0;

	_mm512_storeu_si512(part, x);
	for (unsigned i = 0; i < 8; i++)
		sum += part[i];
	return sum;
}

/* Bytes as unsigned ones with 128 added, whose sums of eight the processor makes at once. */
static inline uint64_t words_sum_int8_t(const int8_t *a, const uint64_t *mask, unsigned words)
{
	const __m512i bias = _mm512_set1_epi8((char)0x80);
	__m512i sum = _mm512_setzero_si512();
	uint64_t rows = 0;

	for (unsigned i = 0; i < words; i++) {
		__m512i x = _mm512_xor_si512(_mm512_loadu_si512(a + 64 * i), bias);

		x = _mm512_maskz_mov_epi8(mask[i], x);
		sum = _mm512_add_epi64(sum, _mm512_sad_epu8(x, _mm512_setzero_si512()));
		rows += (uint64_t)__builtin_popcountll(mask[i]);
	}
	return words_total(sum) - 128 * rows;
}

/* At most 128 words' pairs go into each 32-bit sum, 2 * 2^15 * 128 = 2^23. */
static inline uint64_t words_sum_int16_t(const int16_t *a, const uint64_t *mask, unsigned words)
{
	const __m512i ones = _mm512_set1_epi16(1);
	__m512i sum = _mm512_setzero_si512();

	for (unsigned i = 0; i < words; i++)
		for (unsigned g = 0; g < 64; g += 32) {
			__m512i x =
				_mm512_maskz_loadu_epi16((__mmask32)(mask[i] >> g), a + 64 * i + g);

			sum = _mm512_add_epi32(sum, _mm512_madd_epi16(x, ones));
		}
	return words_total(
		_mm512_add_epi64(_mm512_cvtepi32_epi64(_mm512_castsi512_si256(sum)),
				 _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(sum, 1))));
}

static inline uint64_t words_sum_int32_t(const int32_t *a, const uint64_t *mask, unsigned words)
{
	__m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();

	for (unsigned i = 0; i < words; i++)
		for (unsigned g = 0; g < 64; g += 16) {
			__m512i x =
				_mm512_maskz_loadu_epi32((__mmask16)(mask[i] >> g), a + 64 * i + g);

			/* The high half of each pair as it is, the low half shifted up and down. */
			odd = _mm512_add_epi64(odd, _mm512_srai_epi64(x, 32));
			even = _mm512_add_epi64(even,
						_mm512_srai_epi64(_mm512_slli_epi64(x, 32), 32));
		}
	return words_total(_mm512_add_epi64(even, odd));
}

static inline uint64_t words_sum_int64_t(const int64_t *a, const uint64_t *mask, unsigned words)
{
	__m512i s0 = _mm512_setzero_si512(), s1 = s0;

	for (unsigned i = 0; i < words; i++)
		for (unsigned g = 0; g < 64; g += 16) {
			s0 = _mm512_add_epi64(s0, _mm512_maskz_loadu_epi64((__mmask8)(mask[i] >> g),
									   a + 64 * i + g));
			s1 = _mm512_add_epi64(
				s1, _mm512_maskz_loadu_epi64((__mmask8)(mask[i] >> (g + 8)),
							     a + 64 * i + g + 8));
		}
	return words_total(_mm512_add_epi64(s0, s1));
}
#define HAVE_WORDS_SUM

static inline unsigned words_rows(uint16_t *out, uint64_t w, unsigned first)
{
	static const uint16_t iota[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
					  11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
					  22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
	__m512i at = _mm512_add_epi16(_mm512_loadu_si512(iota), _mm512_set1_epi16((short)first));
	unsigned low = (unsigned)__builtin_popcount((uint32_t)w);

	_mm512_storeu_si512(out, _mm512_maskz_compress_epi16((__mmask32)w, at));
	at = _mm512_add_epi16(at, _mm512_set1_epi16(32));
	_mm512_storeu_si512(out + low, _mm512_maskz_compress_epi16((__mmask32)(w >> 32), at));
	return low + (unsigned)__builtin_popcount((uint32_t)(w >> 32));
}
#define HAVE_WORDS_ROWS

#define FIND_BYTES 64
static inline uint64_t words_find(const char *first, const char *last, char f, char l)
{
	return _mm512_mask_cmpeq_epi8_mask(
		_mm512_cmpeq_epi8_mask(_mm512_loadu_si512(first), _mm512_set1_epi8(f)),
		_mm512_loadu_si512(last), _mm512_set1_epi8(l));
}

/* Bits of a set: bit (a[i] + add), for a[i] in [lo, hi]; `add` is exact modulo 2^32 there. */
static inline uint64_t words_member(__m512i a, int32_t add, int32_t lo, int32_t hi,
				    const uint64_t *set)
{
	__mmask16 in = _mm512_mask_cmple_epi32_mask(
		_mm512_cmpge_epi32_mask(a, _mm512_set1_epi32(lo)), a, _mm512_set1_epi32(hi));
	__m512i at = _mm512_add_epi32(a, _mm512_set1_epi32(add));
	__m512i words = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), in,
						    _mm512_srli_epi32(at, 5), set, 4);
	__m512i bit = _mm512_sllv_epi32(_mm512_set1_epi32(1),
					_mm512_and_si512(at, _mm512_set1_epi32(31)));

	return _mm512_test_epi32_mask(words, bit);
}
#define WORDS_MEMBER(T, load)                                                                    \
	static inline uint64_t words_member_##T(const T *a, int32_t add, int32_t lo, int32_t hi, \
						const uint64_t *set)                             \
	{                                                                                        \
		uint64_t w = 0;                                                                  \
                                                                                                 \
		for (unsigned g = 0; g < 64; g += 16)                                            \
			w |= words_member(load(a + g), add, lo, hi, set) << g;                   \
		return w;                                                                        \
	}
#define LOAD_8(p)  _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define LOAD_16(p) _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)(p)))
WORDS_MEMBER(int8_t, LOAD_8)
WORDS_MEMBER(int16_t, LOAD_16)
WORDS_MEMBER(int32_t, _mm512_loadu_si512)
#define HAVE_WORDS_MEMBER

static inline uint64_t words_filter(const uint64_t *keys, uint64_t factor, unsigned shift,
				    const uint64_t *set)
{
	uint64_t w = 0;

	for (unsigned g = 0; g < 64; g += 8) {
		__m512i at = _mm512_mullo_epi64(_mm512_loadu_si512(keys + g),
						_mm512_set1_epi64((int64_t)factor));
		__m512i words, bit;

		at = _mm512_srl_epi64(at, _mm_cvtsi32_si128((int)shift));
		words = _mm512_i64gather_epi64(_mm512_srli_epi64(at, 6), set, 8);
		bit = _mm512_sllv_epi64(_mm512_set1_epi64(1),
					_mm512_and_si512(at, _mm512_set1_epi64(63)));
		w |= (uint64_t)_mm512_test_epi64_mask(words, bit) << g;
	}
	return w;
}
#define HAVE_WORDS_FILTER

/* ---- AVX2 ---- */

#elif defined(__AVX2__)
static inline __m256i load256(const void *p)
{
	return _mm256_loadu_si256(p);
}

#define MASK_8(x, g)  ((uint64_t)(uint32_t)_mm256_movemask_epi8(x) << (g))
#define MASK_32(x, g) ((uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(x)) << (g))
#define MASK_64(x, g) ((uint64_t)(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(x)) << (g))
/* Every second bit of the bytes' mask. */
#define MASK_16(x, g) ((uint64_t)_pext_u32((uint32_t)_mm256_movemask_epi8(x), 0x55555555u) << (g))

#define CMP_eq(bits, a, b) _mm256_cmpeq_epi##bits(a, b)
#define CMP_gt(bits, a, b) _mm256_cmpgt_epi##bits(a, b)
#define CMP_lt(bits, a, b) _mm256_cmpgt_epi##bits(b, a)
#define SET1_8(c)	   _mm256_set1_epi8(c)
#define SET1_16(c)	   _mm256_set1_epi16(c)
#define SET1_32(c)	   _mm256_set1_epi32(c)
#define SET1_64(c)	   _mm256_set1_epi64x(c)

#define WORDS_CMP(T, bits, name)                                                               \
	static inline uint64_t words_const_##name##_##T(const T *a, T c)                       \
	{                                                                                      \
		__m256i x = SET1_##bits(c);                                                    \
		uint64_t w = 0;                                                                \
                                                                                               \
		for (unsigned g = 0; g < 64; g += 256 / bits)                                  \
			w |= MASK_##bits(CMP_##name(bits, load256(a + g), x), g);              \
		return w;                                                                      \
	}                                                                                      \
	static inline uint64_t words_vec_##name##_##T(const T *a, const T *b)                  \
	{                                                                                      \
		uint64_t w = 0;                                                                \
                                                                                               \
		for (unsigned g = 0; g < 64; g += 256 / bits)                                  \
			w |= MASK_##bits(CMP_##name(bits, load256(a + g), load256(b + g)), g); \
		return w;                                                                      \
	}
#define WORDS_CMPS(T, bits)    \
	WORDS_CMP(T, bits, eq) \
	WORDS_CMP(T, bits, lt) \
	WORDS_CMP(T, bits, gt)
WORDS_CMPS(int8_t, 8)
WORDS_CMPS(int16_t, 16)
WORDS_CMPS(int32_t, 32)
WORDS_CMPS(int64_t, 64)

#define FIND_BYTES 32
static inline uint64_t words_find(const char *first, const char *last, char f, char l)
{
	__m256i a = _mm256_cmpeq_epi8(load256(first), _mm256_set1_epi8(f));
	__m256i b = _mm256_cmpeq_epi8(load256(last), _mm256_set1_epi8(l));

	return (uint32_t)_mm256_movemask_epi8(_mm256_and_si256(a, b));
}

/* Bits of a set: bit (a[i] + add), for a[i] in [lo, hi]; `add` is exact modulo 2^32 there. */
static inline uint64_t words_member(__m256i a, int32_t add, int32_t lo, int32_t hi,
				    const uint64_t *set)
{
	__m256i out = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(lo), a),
				      _mm256_cmpgt_epi32(a, _mm256_set1_epi32(hi)));
	__m256i at = _mm256_andnot_si256(out, _mm256_add_epi32(a, _mm256_set1_epi32(add)));
	__m256i words = _mm256_i32gather_epi32((const int *)set, _mm256_srli_epi32(at, 5), 4);
	__m256i shift = _mm256_andnot_si256(at, _mm256_set1_epi32(31));

	return MASK_32(_mm256_andnot_si256(out, _mm256_sllv_epi32(words, shift)), 0);
}
#define WORDS_MEMBER(T, load)                                                                    \
	static inline uint64_t words_member_##T(const T *a, int32_t add, int32_t lo, int32_t hi, \
						const uint64_t *set)                             \
	{                                                                                        \
		uint64_t w = 0;                                                                  \
                                                                                                 \
		for (unsigned g = 0; g < 64; g += 8)                                             \
			w |= words_member(load(a + g), add, lo, hi, set) << g;                   \
		return w;                                                                        \
	}
#define LOAD_8(p)  _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
#define LOAD_16(p) _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(p)))
WORDS_MEMBER(int8_t, LOAD_8)
WORDS_MEMBER(int16_t, LOAD_16)
WORDS_MEMBER(int32_t, load256)
#define HAVE_WORDS_MEMBER

/* ---- any processor ---- */

#else
#define WORDS_CMP(T, name, op)                                                \
	static inline uint64_t words_const_##name##_##T(const T *a, T c)      \
	{                                                                     \
		uint64_t w = 0;                                               \
                                                                              \
		for (unsigned i = 0; i < 64; i++)                             \
			w |= (uint64_t)(a[i] op c) << i;                      \
		return w;                                                     \
	}                                                                     \
	static inline uint64_t words_vec_##name##_##T(const T *a, const T *b) \
	{                                                                     \
		uint64_t w = 0;                                               \
                                                                              \
		for (unsigned i = 0; i < 64; i++)                             \
			w |= (uint64_t)(a[i] op b[i]) << i;                   \
		return w;                                                     \
	}
#define WORDS_CMPS(T)        \
	WORDS_CMP(T, eq, ==) \
	WORDS_CMP(T, lt, <)  \
	WORDS_CMP(T, gt, >)
WORDS_CMPS(int8_t)
WORDS_CMPS(int16_t)
WORDS_CMPS(int32_t)
WORDS_CMPS(int64_t)

#define FIND_BYTES 16
static inline uint64_t words_find(const char *first, const char *last, char f, char l)
{
	uint64_t w = 0;

	for (unsigned i = 0; i < FIND_BYTES; i++)
		w |= (uint64_t)(first[i] == f && last[i] == l) << i;
	return w;
}
#endif

/* ---- what a set left out ---- */

#define WORDS_BLEND_ANY(T)                                                             \
	static inline void words_blend_##T(T *dst, uint64_t w, const T *a, const T *b) \
	{                                                                              \
		for (unsigned i = 0; i < 64; i++)                                      \
			dst[i] = w >> i & 1 ? a[i] : b[i];                             \
	}
#ifndef HAVE_WORDS_BLEND
WORDS_BLEND_ANY(int8_t)
WORDS_BLEND_ANY(int16_t)
WORDS_BLEND_ANY(int32_t)
WORDS_BLEND_ANY(int64_t)
#endif
WORDS_BLEND_ANY(fth_i128)

#ifndef HAVE_WORDS_SUM
#define WORDS_SUM(T)                                                                           \
	static inline uint64_t words_sum_##T(const T *a, const uint64_t *mask, unsigned words) \
	{                                                                                      \
		uint64_t sum = 0;                                                              \
                                                                                               \
		for (unsigned i = 0; i < words; i++, a += 64) {                                \
			uint64_t w = mask[i];                                                  \
                                                                                               \
			if (w == ~(uint64_t)0) {                                               \
				for (unsigned j = 0; j < 64; j++)                              \
					sum += (uint64_t)(int64_t)a[j];                        \
			} else if (w) {                                                        \
				for (unsigned j = 0; j < 64; j++)                              \
					sum += (uint64_t)(int64_t)a[j] & -(w >> j & 1);        \
			}                                                                      \
		}                                                                              \
		return sum;                                                                    \
	}
WORDS_SUM(int8_t)
WORDS_SUM(int16_t)
WORDS_SUM(int32_t)
WORDS_SUM(int64_t)
#endif

#ifndef HAVE_WORDS_MEMBER
#define WORDS_MEMBER(T)                                                                          \
	static inline uint64_t words_member_##T(const T *a, int32_t add, int32_t lo, int32_t hi, \
						const uint64_t *set)                             \
	{                                                                                        \
		uint64_t w = 0;                                                                  \
                                                                                                 \
		for (unsigned i = 0; i < 64; i++) {                                              \
			bool in = a[i] >= lo && a[i] <= hi;                                      \
			uint32_t at = in ? (uint32_t)a[i] + (uint32_t)add : 0;                   \
                                                                                                 \
			w |= (set[at / 64] >> at % 64 & in) << i;                                \
		}                                                                                \
		return w;                                                                        \
	}
WORDS_MEMBER(int8_t)
WORDS_MEMBER(int16_t)
WORDS_MEMBER(int32_t)
#endif

#ifndef HAVE_WORDS_FILTER
static inline uint64_t words_filter(const uint64_t *keys, uint64_t factor, unsigned shift,
				    const uint64_t *set)
{
	uint64_t w = 0;

	for (unsigned i = 0; i < 64; i++) {
		uint64_t at = (keys[i] * factor) >> shift;

		w |= (set[at / 64] >> at % 64 & 1) << i;
	}
	return w;
}
#endif

#ifndef HAVE_WORDS_ROWS
static inline unsigned words_rows(uint16_t *out, uint64_t w, unsigned first)
{
	unsigned count = 0;

	for (; w; w &= w - 1)
		out[count++] = (uint16_t)(first + (unsigned)__builtin_ctzll(w));
	return count;
}
#endif

#endif
