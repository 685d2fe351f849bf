/* SPDX-License-Identifier: BSD-2-Clause */
/* SHA-256, HMAC and PBKDF2 with it (FIPS 180-4, RFC 2104, RFC 8018), and base64. */
#ifndef PG_SHA256_H
#define PG_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u

struct sha256 {
	uint32_t state[8];
	uint64_t length;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);
void sha256_of(const void *bytes, size_t n, uint8_t out[SHA256_BYTES]);
void hmac_sha256(const void *key, size_t key_length, const void *text, size_t n,
		 uint8_t out[SHA256_BYTES]);
void pbkdf2_sha256(const char *password, const void *salt, size_t salt_length, unsigned iterations,
		   uint8_t out[SHA256_BYTES]);

/* Writes 4 * ((n + 2) / 3) characters and a zero; returns their number. */
size_t base64_encode(const void *bytes, size_t n, char *to);
/* Returns the number of bytes, or -1 if the text is none or has more than room. */
int base64_decode(const char *text, size_t n, void *to, size_t room);

#endif
