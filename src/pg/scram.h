/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, and the passwords that it is made with. A
 * password is kept as PostgreSQL keeps it: SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey.
 */
#ifndef PG_SCRAM_H
#define PG_SCRAM_H

#include "pg/sha256.h"

#include <stdbool.h>

#define SCRAM_SALT_MAX 64u

struct scram_secret {
	unsigned iterations;
	unsigned salt_length;
	uint8_t salt[SCRAM_SALT_MAX];
	uint8_t stored_key[SHA256_BYTES], server_key[SHA256_BYTES];
};

struct pg_password {
	char user[64];
	struct scram_secret secret;
};

struct pg_passwords {
	struct pg_password *entries;
	unsigned count;
	struct scram_secret
		mock; /* for users that do not exist, so that nothing tells them apart */
};

/* Lines user:password or user:SCRAM-SHA-256$... of a file. 0 or a negative errno with a text. */
int pg_passwords_load(struct pg_passwords *p, const char *path);
void pg_passwords_release(struct pg_passwords *p);
/* The secret of a user, or the mock and *known false. */
const struct scram_secret *pg_password_of(const struct pg_passwords *p, const char *user,
					  bool *known);

/* An exchange. */
struct scram {
	const struct scram_secret *secret;
	char nonce[128];      /* the client's and the server's */
	char first_bare[512]; /* of the client */
	char server_first[512];
	char header[64]; /* the client's GS2 header */
};

/* The client's first message; writes the answer to server_first. 0 or -EINVAL. */
int scram_first(struct scram *s, const struct scram_secret *secret, const char *message);
/*
 * The client's final message; writes the answer, at most 64 bytes. 0; -EINVAL: it is malformed;
 * -EACCES: the password is wrong.
 */
int scram_final(struct scram *s, const char *message, char answer[64]);

#endif
