/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/page/bits.h"

#include <string.h>

#define ROW   128u		       /* bytes: 1024 bits */
#define WORDS (ROW / sizeof(uint64_t)) /* of a row */

/* `bits` low bits in every element of `element` bits of a word. */
static uint64_t mask_all(unsigned bits, unsigned element)
{
	uint64_t one = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
	uint64_t all = 0;

	for (unsigned at = 0; at < 64; at += element)
		all |= one << at;
	return all;
}

/*
 * Unpack into elements of BITS bits and add `base` to each. A value that begins at bit s of its
 * element has its low bits there, and the rest, if any, in the next row. The compiler's vectors
 * become whatever the instruction set has.
 */
#define VECTOR_BYTES 32u
#define DEFINE_UNPACK(BITS, ISA, attributes)                                                      \
	attributes static void unpack##BITS##_##ISA(const unsigned char *packed, unsigned width,  \
						    uint64_t base, unsigned char *to)             \
	{                                                                                         \
		typedef uint##BITS##_t lanes __attribute__((vector_size(VECTOR_BYTES)));          \
		const uint##BITS##_t mask = (uint##BITS##_t)(~(uint64_t)0 >> (64 - width));       \
		const lanes masks = (lanes){0} + mask, bases = (lanes){0} + (uint##BITS##_t)base; \
		for (unsigned i = 0; i < BITS; i++, to += ROW) {                                  \
			unsigned bit = i * width, s = bit % BITS;                                 \
			const unsigned char *from = packed + (size_t)(bit / BITS) * ROW;          \
			for (unsigned at = 0; at < ROW; at += VECTOR_BYTES) {                     \
				lanes value, rest;                                                \
				memcpy(&value, from + at, sizeof(value));                         \
				value >>= s;                                                      \
				if (s + width > BITS) {                                           \
					memcpy(&rest, from + ROW + at, sizeof(rest));             \
					value |= rest << (BITS - s);                              \
				}                                                                 \
				value = (value & masks) + bases;                                  \
				memcpy(to + at, &value, sizeof(value));                           \
			}                                                                         \
		}                                                                                 \
	}
#define DEFINE_UNPACKS(ISA, attributes)    \
	DEFINE_UNPACK(8, ISA, attributes)  \
	DEFINE_UNPACK(16, ISA, attributes) \
	DEFINE_UNPACK(32, ISA, attributes) \
	DEFINE_UNPACK(64, ISA, attributes)

typedef void unpack_function(const unsigned char *packed, unsigned width, uint64_t base,
			     unsigned char *to);
#define UNPACKS(ISA)                                                          \
	{                                                                     \
		unpack8_##ISA, unpack16_##ISA, unpack32_##ISA, unpack64_##ISA \
	}

DEFINE_UNPACKS(portable, )
static unpack_function *const unpacks_portable[] = UNPACKS(portable);
#if defined(__x86_64__)
DEFINE_UNPACKS(avx2, __attribute__((target("avx2"))))
static unpack_function *const unpacks_avx2[] = UNPACKS(avx2);
#endif

void bits_unpack(const unsigned char *packed, unsigned width, uint64_t base, void *to)
{
	unsigned size = bits_size(width);
	unpack_function *const *unpacks = unpacks_portable;

	if (width == 0) {
		memset(to, (int)(base & 0xff), BITS_BLOCK);
		return;
	}
	if (width == size * 8 && base == 0) {
		memcpy(to, packed, (size_t)BITS_BLOCK / 8 * width);
		return;
	}
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		unpacks = unpacks_avx2;
#endif
	unpacks[__builtin_ctz(size)](packed, width, base, to);
}

/* The element of one lane and row, of 1, 2, 4 or 8 bytes. */
static uint64_t element_get(const unsigned char *packed, unsigned row, unsigned lane, unsigned size)
{
	uint64_t value = 0;

	memcpy(&value, packed + (size_t)row * ROW + (size_t)lane * size, size);
	return value;
}

#define DEFINE_NARROW(TYPE)                                                             \
	static void narrow_##TYPE(const uint64_t values[BITS_BLOCK], unsigned char *to) \
	{                                                                               \
		TYPE out[BITS_BLOCK];                                                   \
		for (unsigned i = 0; i < BITS_BLOCK; i++)                               \
			out[i] = (TYPE)values[i];                                       \
		memcpy(to, out, sizeof(out));                                           \
	}
DEFINE_NARROW(uint8_t)
DEFINE_NARROW(uint16_t)
DEFINE_NARROW(uint32_t)

/* All values as elements of `size` bytes. */
static void narrow_block(const uint64_t values[BITS_BLOCK], unsigned size, unsigned char *to)
{
	switch (size) {
	case 1:
		narrow_uint8_t(values, to);
		break;
	case 2:
		narrow_uint16_t(values, to);
		break;
	case 4:
		narrow_uint32_t(values, to);
		break;
	default:
		memcpy(to, values, BITS_BLOCK * sizeof(*values));
	}
}

/* Add bits to a row: those of `mask` of each element, moved up by `shift`. */
static void row_or(unsigned char *row, const uint64_t in[WORDS], unsigned down, uint64_t mask,
		   unsigned up)
{
	uint64_t out[WORDS];

	memcpy(out, row, ROW);
	for (unsigned w = 0; w < WORDS; w++)
		out[w] |= (in[w] >> down & mask) << up;
	memcpy(row, out, ROW);
}

void bits_pack(const uint64_t values[BITS_BLOCK], unsigned width, unsigned char *to)
{
	unsigned element = bits_size(width) * 8;
	unsigned char elements[BITS_BLOCK * 8];
	uint64_t in[WORDS];

	memset(to, 0, (size_t)ROW * width);
	if (width == 0)
		return;
	narrow_block(values, bits_size(width), elements);
	/*
	 * The reverse of unpacking: low bits at their place, the rest at the bottom of the next
	 * row.
	 */
	for (unsigned i = 0; i < element; i++) {
		unsigned bit = i * width, row = bit / element, s = bit % element;
		unsigned low = element - s < width ? element - s : width;

		memcpy(in, elements + (size_t)i * ROW, ROW);
		row_or(to + (size_t)row * ROW, in, 0, mask_all(low, element), s);
		if (low < width)
			row_or(to + (size_t)(row + 1) * ROW, in, low,
			       mask_all(width - low, element), 0);
	}
}

uint64_t bits_at(const unsigned char *packed, unsigned width, uint32_t i)
{
	unsigned size = bits_size(width), element = size * 8, lanes = BITS_BLOCK / element;
	unsigned lane = i % lanes, bit = i / lanes * width, row = bit / element, s = bit % element;
	uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1, value;

	if (width == 0)
		return 0;
	value = element_get(packed, row, lane, size) >> s;
	if (s + width > element)
		value |= element_get(packed, row + 1, lane, size) << (element - s);
	return value & mask;
}
