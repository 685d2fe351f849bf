/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/sha256.h"

#include <string.h>

static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2};

static uint32_t turn(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void mix_block(struct sha256 *s, const uint8_t *b)
{
	uint32_t w[64], v[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)b[4 * i] << 24 | (uint32_t)b[4 * i + 1] << 16 |
		       (uint32_t)b[4 * i + 2] << 8 | b[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];

		w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] +
		       (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
	}
	memcpy(v, s->state, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t e = v[4], a = v[0];
		uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
			       ((e & v[5]) ^ (~e & v[6])) + constants[i] + w[i];
		uint32_t two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) +
			       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += one;
		v[0] = one + two;
	}
	for (int i = 0; i < 8; i++)
		s->state[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
	*s = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
				       0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *bytes, size_t n)
{
	const uint8_t *from = bytes;

	while (n > 0) {
		size_t used = s->length % 64, part = 64 - used < n ? 64 - used : n;

		memcpy(s->block + used, from, part);
		s->length += part;
		from += part;
		n -= part;
		if (s->length % 64 == 0)
			mix_block(s, s->block);
	}
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
	static const uint8_t padding[64] = {0x80};
	uint64_t bits = s->length * 8;
	uint8_t length[8];

	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, padding, 1 + (119 - s->length % 64) % 64);
	sha256_add(s, length, 8);
	for (int i = 0; i < 32; i++)
		out[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_of(const void *bytes, size_t n, uint8_t out[SHA256_BYTES])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, bytes, n);
	sha256_end(&s, out);
}

/* The inner and the outer hash of HMAC, after the key. */
static void hmac_keys(struct sha256 pads[2], const void *key, size_t n)
{
	uint8_t block[64] = {0}, pad[64];

	if (n > sizeof(block))
		sha256_of(key, n, block);
	else
		memcpy(block, key, n);
	for (int p = 0; p < 2; p++) {
		for (int i = 0; i < 64; i++)
			pad[i] = block[i] ^ (p == 0 ? 0x36 : 0x5c);
		sha256_init(&pads[p]);
		sha256_add(&pads[p], pad, sizeof(pad));
	}
}

static void hmac_end(struct sha256 inner, struct sha256 outer, const void *text, size_t n,
		     uint8_t out[SHA256_BYTES])
{
	sha256_add(&inner, text, n);
	sha256_end(&inner, out);
	sha256_add(&outer, out, SHA256_BYTES);
	sha256_end(&outer, out);
}

void hmac_sha256(const void *key, size_t key_length, const void *text, size_t n,
		 uint8_t out[SHA256_BYTES])
{
	struct sha256 pads[2];

	hmac_keys(pads, key, key_length);
	hmac_end(pads[0], pads[1], text, n, out);
}

void pbkdf2_sha256(const char *password, const void *salt, size_t salt_length, unsigned iterations,
		   uint8_t out[SHA256_BYTES])
{
	static const uint8_t first[4] = {0, 0, 0, 1};
	struct sha256 pads[2], inner;
	uint8_t round[SHA256_BYTES];

	hmac_keys(pads, password, strlen(password));
	inner = pads[0];
	sha256_add(&inner, salt, salt_length);
	hmac_end(inner, pads[1], first, sizeof(first), round);
	memcpy(out, round, sizeof(round));
	for (unsigned i = 1; i < iterations; i++) {
		hmac_end(pads[0], pads[1], round, sizeof(round), round);
		for (unsigned j = 0; j < SHA256_BYTES; j++)
			out[j] ^= round[j];
	}
}

/* ---- base64 ---- */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *bytes, size_t n, char *to)
{
	const uint8_t *b = bytes;
	char *at = to;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t x = (uint32_t)b[i] << 16;

		x |= i + 1 < n ? (uint32_t)b[i + 1] << 8 : 0;
		x |= i + 2 < n ? b[i + 2] : 0;
		*at++ = letters[x >> 18];
		*at++ = letters[x >> 12 & 63];
		*at++ = i + 1 < n ? letters[x >> 6 & 63] : '=';
		*at++ = i + 2 < n ? letters[x & 63] : '=';
	}
	*at = '\0';
	return (size_t)(at - to);
}

int base64_decode(const char *text, size_t n, void *to, size_t room)
{
	uint8_t *out = to;
	uint32_t x = 0;
	size_t length = 0;

	if (n % 4 != 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const char *letter = text[i] == '\0' ? NULL : strchr(letters, text[i]);
		unsigned padding = text[i] == '=' && i + 2 >= n;

		if (!letter && !padding)
			return -1;
		if (padding && i + 2 == n && text[n - 1] != '=')
			return -1;
		x = x << 6 | (padding ? 0 : (uint32_t)(letter - letters));
		if (i % 4 != 3)
			continue;
		for (unsigned j = 0; j < 3; j++) {
			unsigned missing =
				i + 1 == n ? (text[n - 1] == '=') + (text[n - 2] == '=') : 0;

			if (j + missing >= 3)
				break;
			if (length == room)
				return -1;
			out[length++] = (uint8_t)(x >> (16 - 8 * j));
		}
	}
	return (int)length;
}
