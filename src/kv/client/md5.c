/* SPDX-License-Identifier: BSD-2-Clause */
/* MD5 as RFC 1321 describes it; not for secrets. The ring of servers is made with it. */
#include "kv/client/hash_ring.h"

#include <string.h>

static const uint32_t sines[64] = {
	0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
	0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
	0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
	0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
	0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
	0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
	0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
	0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
	0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
	0xeb86d391,
};
static const uint8_t turns[4][4] = {
	{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x << n | x >> (32 - n);
}

/* The function of a round, and which word step i takes. */
static uint32_t mix(unsigned i, uint32_t b, uint32_t c, uint32_t d, unsigned *word)
{
	switch (i / 16) {
	case 0:
		*word = i;
		return (b & c) | (~b & d);
	case 1:
		*word = (5 * i + 1) % 16;
		return (d & b) | (~d & c);
	case 2:
		*word = (3 * i + 5) % 16;
		return b ^ c ^ d;
	default:
		*word = 7 * i % 16;
		return c ^ (b | ~d);
	}
}

static void md5_block(uint32_t state[4], const uint8_t *block)
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3], words[16];

	for (unsigned i = 0; i < 16; i++)
		words[i] = (uint32_t)block[4 * i] | (uint32_t)block[4 * i + 1] << 8 |
			   (uint32_t)block[4 * i + 2] << 16 | (uint32_t)block[4 * i + 3] << 24;
	for (unsigned i = 0; i < 64; i++) {
		unsigned word;
		uint32_t f = mix(i, b, c, d, &word) + a + sines[i] + words[word];

		a = d;
		d = c;
		c = b;
		b += rotate(f, turns[i / 16][i % 4]);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

void kvc_md5(const void *data, size_t length, uint8_t digest[16])
{
	uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
	const uint8_t *at = data;
	size_t left = length;
	uint8_t last[128] = {0};
	uint64_t bits = (uint64_t)length * 8;

	for (; left >= 64; left -= 64, at += 64)
		md5_block(state, at);
	if (left)
		memcpy(last, at, left);
	last[left] = 0x80;
	left = left < 56 ? 64 : 128; /* with the length behind it */
	for (unsigned i = 0; i < 8; i++)
		last[left - 8 + i] = (uint8_t)(bits >> 8 * i);
	md5_block(state, last);
	if (left == 128)
		md5_block(state, last + 64);
	for (unsigned i = 0; i < 16; i++)
		digest[i] = (uint8_t)(state[i / 4] >> 8 * (i % 4));
}
