/* SPDX-License-Identifier: BSD-2-Clause */
/* The first messages of a connection: TLS, cancel requests, the password, settings. */
#include "pg/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define REQUEST_CANCEL 80877102
#define REQUEST_TLS    80877103
#define REQUEST_GSS    80877104
#define PROTOCOL_3     196608
#define LOGIN_BYTES    4096u /* of a message before the password is known */

static int answer_tls(struct pg_session *s, bool *asked)
{
	int rc;

	if (!s->server->tls || *asked)
		return pg_put_raw(&s->wire, "N", 1);
	*asked = true;
	/* Bytes behind the request would be taken for encrypted ones: somebody put them there. */
	if (pg_input_waits(&s->wire))
		return -EPROTO;
	rc = pg_put_raw(&s->wire, "S", 1);
	return rc < 0 ? rc : pg_start_tls(&s->wire, s->server->tls);
}

/* user, database and settings. 0, or -1 after an error was sent. */
static int take_options(struct pg_session *s, struct pg_message *m)
{
	while (m->at < m->end && *m->at) {
		const char *name = pg_get_string(m), *value = pg_get_string(m);

		if (m->bad)
			break;
		if (strcmp(name, "user") == 0)
			snprintf(s->user, sizeof(s->user), "%s", value);
		else if (strcmp(name, "database") == 0)
			snprintf(s->database, sizeof(s->database), "%s", value);
		else if (strcmp(name, "replication") == 0)
			continue;
		else if (strcmp(name, "options") == 0 || strncmp(name, "_pq_.", 5) == 0)
			continue;
		else if (pg_set(s, name, value) < 0)
			return -1;
	}
	if (m->bad || !*s->user) {
		pg_error(s, "28000", "no PostgreSQL user name specified in startup packet");
		return -1;
	}
	if (!*s->database)
		snprintf(s->database, sizeof(s->database), "%s", s->user);
	return 0;
}

/* ---- passwords ---- */

static int put_auth(struct pg_session *s, int32_t code, const char *text)
{
	pg_put_begin(&s->wire, 'R');
	pg_put_i32(&s->wire, code);
	if (code == 10) {
		pg_put_string(&s->wire, text);
		pg_put_u8(&s->wire, 0);
	} else if (text) {
		pg_put_bytes(&s->wire, text, strlen(text));
	}
	(void)pg_put_end(&s->wire);
	return pg_flush(&s->wire);
}

/* The next message of the client, which must be of type p; text is its rest, a C string. */
static int read_password(struct pg_session *s, struct pg_message *m)
{
	int rc = pg_read_message(&s->wire, LOGIN_BYTES, true, m);

	return rc < 0 ? rc : m->type == 'p' ? 0 : -EPROTO;
}

static char *rest_of(struct pg_message *m, int32_t n)
{
	const char *bytes = n < 0 ? NULL : pg_get_bytes(m, (size_t)n);

	return bytes && !memchr(bytes, 0, (size_t)n) ? strndup(bytes, (size_t)n) : NULL;
}

/* 0, -EACCES, or the error of the connection. */
static int authenticate(struct pg_session *s)
{
	struct scram scram;
	struct pg_message m;
	char answer[64], *text;
	bool known;
	const struct scram_secret *secret = pg_password_of(&s->server->passwords, s->user, &known);
	int rc = put_auth(s, 10, "SCRAM-SHA-256");

	if (rc == 0)
		rc = read_password(s, &m);
	if (rc < 0)
		return rc;
	if (strcmp(pg_get_string(&m), "SCRAM-SHA-256") != 0)
		return -EACCES;
	text = rest_of(&m, pg_get_i32(&m));
	rc = text ? scram_first(&scram, secret, text) : -EPROTO;
	free(text);
	if (rc == 0)
		rc = put_auth(s, 11, scram.server_first);
	if (rc == 0)
		rc = read_password(s, &m);
	if (rc < 0)
		return rc == -EINVAL ? -EACCES : rc;
	text = rest_of(&m, (int32_t)(m.end - m.at));
	rc = text ? scram_final(&scram, text, answer) : -EPROTO;
	free(text);
	if (rc < 0 || !known)
		return rc == 0 || rc == -EINVAL ? -EACCES : rc;
	return put_auth(s, 12, answer);
}

/* ---- the whole ---- */

static int log_in(struct pg_session *s, struct pg_message *m, uint32_t version)
{
	int rc = take_options(s, m);

	if (rc < 0)
		return 1;
	if (version != PROTOCOL_3) { /* a newer minor version: offer the one that we have */
		pg_put_begin(&s->wire, 'v');
		pg_put_i32(&s->wire, PROTOCOL_3);
		pg_put_i32(&s->wire, 0);
		(void)pg_put_end(&s->wire);
	}
	rc = s->server->has_passwords ? authenticate(s) : 0;
	if (rc == -EACCES) {
		pg_log(s->server, "denied", "user %s", s->user);
		pg_error(s, "28P01", "password authentication failed for user \"%s\"", s->user);
		return 1;
	}
	if (rc < 0)
		return rc;
	(void)put_auth(s, 0, NULL);
	s->logged_in = true;
	(void)pg_put_settings(s);
	pg_put_begin(&s->wire, 'K');
	pg_put_i32(&s->wire, (int32_t)s->pid);
	pg_put_i32(&s->wire, (int32_t)s->secret);
	(void)pg_put_end(&s->wire);
	return pg_ready(s);
}

int pg_startup(struct pg_session *s)
{
	struct pg_message m;
	bool tls_asked = false, gss_asked = false;

	for (unsigned round = 0; round < 4; round++) {
		int rc = pg_read_startup(&s->wire, &m);
		uint32_t version = rc < 0 ? 0 : (uint32_t)pg_get_i32(&m);

		if (rc < 0)
			return rc;
		if (version == REQUEST_CANCEL) {
			uint32_t pid = (uint32_t)pg_get_i32(&m), secret = (uint32_t)pg_get_i32(&m);

			if (!m.bad)
				pg_cancel(s->server, pid, secret);
			return 1;
		}
		if (version == REQUEST_TLS) {
			rc = answer_tls(s, &tls_asked);
		} else if (version == REQUEST_GSS && !gss_asked) {
			gss_asked = true;
			rc = pg_put_raw(&s->wire, "N", 1);
		} else if (version >> 16 == 3) {
			return log_in(s, &m, version);
		} else {
			pg_error(s, "08P01", "unsupported frontend protocol %u.%u", version >> 16,
				 version & 0xffff);
			return 1;
		}
		if (rc < 0)
			return rc;
	}
	return -EPROTO;
}
