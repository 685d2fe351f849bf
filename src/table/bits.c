/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/bits.h"

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
 * Unpack with 64-bit shifts, which carry bits over from the next lane; the masks remove them. A value that
 * begins at bit s of its element has its low bits there, and the rest, if any, in the next row.
 */
#define DEFINE_UNPACK(name, attributes)                                                    \
	attributes static void name(const unsigned char *packed, unsigned width, void *to) \
	{                                                                                  \
		unsigned element = bits_size(width) * 8;                                   \
		unsigned char *out = to;                                                   \
		for (unsigned i = 0; i < element; i++, out += ROW) {                       \
			unsigned bit = i * width, row = bit / element, s = bit % element;  \
			unsigned low = element - s < width ? element - s : width;          \
			uint64_t in[WORDS], next[WORDS], value[WORDS];                     \
			uint64_t mask = mask_all(low, element);                            \
			memcpy(in, packed + (size_t)row * ROW, ROW);                       \
			for (unsigned w = 0; w < WORDS; w++)                               \
				value[w] = in[w] >> s & mask;                              \
			if (low < width) {                                                 \
				mask = mask_all(width - low, element);                     \
				memcpy(next, packed + (size_t)(row + 1) * ROW, ROW);       \
				for (unsigned w = 0; w < WORDS; w++)                       \
					value[w] |= (next[w] & mask) << low;               \
			}                                                                  \
			memcpy(out, value, ROW);                                           \
		}                                                                          \
	}

DEFINE_UNPACK(unpack_portable, )
#if defined(__x86_64__)
DEFINE_UNPACK(unpack_avx2, __attribute__((target("avx2"))))
#endif

void bits_unpack(const unsigned char *packed, unsigned width, void *to)
{
	if (width == 0) {
		memset(to, 0, BITS_BLOCK);
		return;
	}
	if (width == bits_size(width) * 8) {
		memcpy(to, packed, (size_t)BITS_BLOCK / 8 * width);
		return;
	}
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2")) {
		unpack_avx2(packed, width, to);
		return;
	}
#endif
	unpack_portable(packed, width, to);
}

/* Put or get the element of one lane and row, of 1, 2, 4 or 8 bytes. */
static uint64_t element_get(const unsigned char *packed, unsigned row, unsigned lane, unsigned size)
{
	uint64_t value = 0;

	memcpy(&value, packed + (size_t)row * ROW + (size_t)lane * size, size);
	return value;
}

static void element_or(unsigned char *packed, unsigned row, unsigned lane, unsigned size,
		       uint64_t bits)
{
	uint64_t value = element_get(packed, row, lane, size) | bits;

	memcpy(packed + (size_t)row * ROW + (size_t)lane * size, &value, size);
}

void bits_pack(const uint64_t values[BITS_BLOCK], unsigned width, unsigned char *to)
{
	unsigned size = bits_size(width), element = size * 8, lanes = BITS_BLOCK / element;

	memset(to, 0, (size_t)ROW * width);
	if (width == 0)
		return;
	for (unsigned i = 0; i < element; i++) {
		unsigned bit = i * width, row = bit / element, s = bit % element;

		for (unsigned lane = 0; lane < lanes; lane++) {
			uint64_t value = values[i * lanes + lane];

			element_or(to, row, lane, size, value << s);
			if (s + width > element)
				element_or(to, row + 1, lane, size, value >> (element - s));
		}
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
