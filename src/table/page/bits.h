/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packing of unsigned integers of 0 to 64 bits, in blocks of 1024.
 *
 * The layout is that of FastLanes (Afroozeh and Boncz, "The FastLanes Compression Layout", VLDB
 * 2023), without its reordering of rows. A block of width w is unpacked into elements of T bits,
 * the smallest of 8, 16, 32 and 64 that is at least w. It is w rows of 1024 bits; a row is 1024 / T
 * lanes of T bits. Value i belongs to lane i % (1024 / T). A lane holds its T values one after the
 * other, from the lowest bit on. So one shift and mask of a whole row gives 1024 / T values in
 * their order, whatever the width of the processor's vectors is.
 */
#ifndef TABLE_BITS_H
#define TABLE_BITS_H

#include <stddef.h>
#include <stdint.h>

#define BITS_BLOCK 1024u

/* Bytes of an unpacked value of `width` bits: 1, 2, 4 or 8. */
static inline unsigned bits_size(unsigned width)
{
	return width <= 8 ? 1 : width <= 16 ? 2 : width <= 32 ? 4 : 8;
}

/* The bits that `value` needs. */
static inline unsigned bits_width(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

/* Bytes of n packed values. */
static inline uint64_t bits_bytes(uint64_t n, unsigned width)
{
	return (n + BITS_BLOCK - 1) / BITS_BLOCK * (BITS_BLOCK / 8) * width;
}

/* Pack one block. All values are below 2^width. to has 128 * width bytes. */
void bits_pack(const uint64_t values[BITS_BLOCK], unsigned width, unsigned char *to);

/*
 * Unpack one block into elements of bits_size(width) bytes and add `base` to each, modulo their
 * size.
 */
void bits_unpack(const unsigned char *packed, unsigned width, uint64_t base, void *to);

/* Value i of a block. */
uint64_t bits_at(const unsigned char *packed, unsigned width, uint32_t i);

#endif
