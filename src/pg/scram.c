/* SPDX-License-Identifier: BSD-2-Clause */
#include "pg/scram.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ITERATIONS 4096u
#define LINE_MAX_  512u
#define USERS_MAX  1024u

/* ---- passwords ---- */

static void derive_keys(struct scram_secret *secret, const uint8_t salted[SHA256_BYTES])
{
	uint8_t client[SHA256_BYTES];

	hmac_sha256(salted, SHA256_BYTES, "Client Key", 10, client);
	sha256_of(client, SHA256_BYTES, secret->stored_key);
	hmac_sha256(salted, SHA256_BYTES, "Server Key", 10, secret->server_key);
}

static int fill_random(void *to, size_t n)
{
	return getrandom(to, n, 0) == (ssize_t)n ? 0 : -EIO;
}

static int make_secret(struct scram_secret *secret, const char *password)
{
	uint8_t salted[SHA256_BYTES];

	secret->iterations = ITERATIONS;
	secret->salt_length = 16;
	if (fill_random(secret->salt, 16) < 0)
		return fth_fail(EIO, "no random numbers for the salt of a password");
	pbkdf2_sha256(password, secret->salt, 16, ITERATIONS, salted);
	derive_keys(secret, salted);
	return 0;
}

/* SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey, behind the first $. */
static int read_secret(struct scram_secret *secret, const char *text)
{
	const char *salt = strchr(text, ':'), *stored = salt ? strchr(salt, '$') : NULL;
	const char *server = stored ? strchr(stored, ':') : NULL;
	int length;

	if (!server)
		return -EINVAL;
	secret->iterations = (unsigned)strtoul(text, NULL, 10);
	length = base64_decode(salt + 1, (size_t)(stored - salt - 1), secret->salt, SCRAM_SALT_MAX);
	if (length <= 0 || secret->iterations == 0 || secret->iterations > 10000000)
		return -EINVAL;
	secret->salt_length = (unsigned)length;
	if (base64_decode(stored + 1, (size_t)(server - stored - 1), secret->stored_key,
			  SHA256_BYTES) != SHA256_BYTES ||
	    base64_decode(server + 1, strlen(server + 1), secret->server_key, SHA256_BYTES) !=
		    SHA256_BYTES)
		return -EINVAL;
	return 0;
}

static int add_line(struct pg_passwords *p, const char *path, unsigned number, char *line)
{
	static const char scheme[] = "SCRAM-SHA-256$";
	struct pg_password *entries, *entry;
	char *colon;
	int rc;

	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return 0;
	colon = strchr(line, ':');
	if (!colon || colon == line || !colon[1] || colon - line >= 64)
		return fth_fail(EINVAL, "%s: line %u is not user:password", path, number);
	if (p->count == USERS_MAX)
		return fth_fail(EINVAL, "%s: more than %u users", path, USERS_MAX);
	entries = realloc(p->entries, (p->count + 1) * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	p->entries = entries;
	entry = &entries[p->count];
	memset(entry, 0, sizeof(*entry));
	memcpy(entry->user, line, (size_t)(colon - line));
	if (strncmp(colon + 1, scheme, strlen(scheme)) == 0)
		rc = read_secret(&entry->secret, colon + 1 + strlen(scheme));
	else
		rc = make_secret(&entry->secret, colon + 1);
	if (rc == -EINVAL)
		return fth_fail(EINVAL, "%s: line %u has a secret that is malformed", path, number);
	p->count += rc == 0;
	return rc;
}

int pg_passwords_load(struct pg_passwords *p, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[LINE_MAX_ + 1], mock[33] = "";
	unsigned number = 0;
	int rc = 0;

	*p = (struct pg_passwords){0};
	if (!file)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	while (rc == 0 && fgets(line, sizeof(line), file)) {
		number++;
		if (strlen(line) == LINE_MAX_)
			rc = fth_fail(EINVAL, "%s: line %u has more than %u bytes", path, number,
				      LINE_MAX_ - 1);
		else
			rc = add_line(p, path, number, line);
	}
	if (rc == 0 && ferror(file))
		rc = fth_fail(EIO, "%s: cannot read it", path);
	fclose(file);
	explicit_bzero(line, sizeof(line));
	if (rc == 0 && p->count == 0)
		rc = fth_fail(EINVAL, "%s: no users", path);
	if (rc == 0)
		rc = fill_random(mock, 32);
	for (int i = 0; i < 32; i++)
		mock[i] = (char)(mock[i] | 1);
	if (rc == 0)
		rc = make_secret(&p->mock, mock);
	if (rc < 0)
		pg_passwords_release(p);
	return rc;
}

void pg_passwords_release(struct pg_passwords *p)
{
	if (p->entries)
		explicit_bzero(p->entries, p->count * sizeof(*p->entries));
	free(p->entries);
	*p = (struct pg_passwords){0};
}

const struct scram_secret *pg_password_of(const struct pg_passwords *p, const char *user,
					  bool *known)
{
	for (unsigned i = 0; i < p->count; i++) {
		*known = true;
		if (strcmp(p->entries[i].user, user) == 0)
			return &p->entries[i].secret;
	}
	*known = false;
	return &p->mock;
}

/* ---- the exchange ---- */

/* The value of attribute `name` in "n=...,r=...", up to a comma; NULL: it is not there. */
static const char *attribute(const char *message, char name, size_t *length)
{
	while (message && *message) {
		if (message[0] == name && message[1] == '=') {
			*length = strcspn(message + 2, ",");
			return message + 2;
		}
		message = strchr(message, ',');
		message = message ? message + 1 : NULL;
	}
	return NULL;
}

int scram_first(struct scram *s, const struct scram_secret *secret, const char *message)
{
	const char *bare, *nonce;
	char salt[SCRAM_SALT_MAX * 2], own[25];
	uint8_t random[18];
	size_t length;

	s->secret = secret;
	/* n: no channel binding; y: the client could; p=: it wants it, and we offer none */
	if ((*message != 'n' && *message != 'y') || message[1] != ',')
		return -EINVAL;
	bare = strchr(message + 2, ',');
	if (!bare || (size_t)(bare + 1 - message) >= sizeof(s->header))
		return -EINVAL;
	bare++;
	memcpy(s->header, message, (size_t)(bare - message));
	s->header[bare - message] = '\0';
	nonce = attribute(bare, 'r', &length);
	if (!nonce || length == 0 || length > 100 || strlen(bare) >= sizeof(s->first_bare))
		return -EINVAL;
	strcpy(s->first_bare, bare);
	if (fill_random(random, sizeof(random)) < 0)
		return -EINVAL;
	base64_encode(random, sizeof(random), own);
	snprintf(s->nonce, sizeof(s->nonce), "%.*s%s", (int)length, nonce, own);
	base64_encode(secret->salt, secret->salt_length, salt);
	snprintf(s->server_first, sizeof(s->server_first), "r=%s,s=%s,i=%u", s->nonce, salt,
		 secret->iterations);
	return 0;
}

int scram_final(struct scram *s, const char *message, char answer[64])
{
	uint8_t proof[SHA256_BYTES], signature[SHA256_BYTES], key[SHA256_BYTES], header[64];
	const char *nonce, *binding, *at = strstr(message, ",p=");
	size_t nonce_length, binding_length;
	char *text = NULL;
	int n, length, different = 0;

	nonce = attribute(message, 'r', &nonce_length);
	binding = attribute(message, 'c', &binding_length);
	if (!at || !nonce || !binding || nonce_length != strlen(s->nonce) ||
	    memcmp(nonce, s->nonce, nonce_length) != 0)
		return -EINVAL;
	n = base64_decode(binding, binding_length, header, sizeof(header));
	if (n != (int)strlen(s->header) || memcmp(header, s->header, (size_t)n) != 0)
		return -EINVAL;
	if (base64_decode(at + 3, strcspn(at + 3, ","), proof, sizeof(proof)) != SHA256_BYTES)
		return -EINVAL;
	length = asprintf(&text, "%s,%s,%.*s", s->first_bare, s->server_first, (int)(at - message),
			  message);
	if (length < 0)
		return -EINVAL;
	hmac_sha256(s->secret->stored_key, SHA256_BYTES, text, (size_t)length, signature);
	for (unsigned i = 0; i < SHA256_BYTES; i++)
		key[i] = proof[i] ^ signature[i];
	sha256_of(key, SHA256_BYTES, key);
	/* All bytes are compared, so that the time tells nothing. */
	for (unsigned i = 0; i < SHA256_BYTES; i++)
		different |= key[i] ^ s->secret->stored_key[i];
	hmac_sha256(s->secret->server_key, SHA256_BYTES, text, (size_t)length, signature);
	free(text);
	strcpy(answer, "v=");
	base64_encode(signature, SHA256_BYTES, answer + 2);
	return different ? -EACCES : 0;
}
