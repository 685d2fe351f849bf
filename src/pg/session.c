/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection: its messages, one after the other. */
#include "pg/session.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int pg_ready(struct pg_session *s)
{
	pg_put_begin(&s->wire, 'Z');
	pg_put_u8(&s->wire, (uint8_t)s->status);
	(void)pg_put_end(&s->wire);
	return pg_flush(&s->wire);
}

int pg_settle(struct pg_session *s)
{
	int rc;

	if (!s->implicit)
		return 0;
	s->implicit = false;
	rc = fth_query_commit(s->query);
	if (rc < 0)
		pg_error(s, pg_sqlstate(rc, fth_error_text(rc)), "%s", fth_error_text(rc));
	return rc < 0 ? -1 : 0;
}

/* ---- simple queries ---- */

/* One statement of a simple query. */
static int run_one(struct pg_session *s, const char *text)
{
	struct pg_prepared *p = calloc(1, sizeof(*p));
	struct pg_portal *portal = NULL;
	int rc = -1;

	if (p) {
		p->users = 1;
		p->name = strdup("");
		p->text = strdup(text);
	}
	if (p && p->name && p->text) {
		p->kind = pg_kind_of(s, text);
		portal = pg_new_portal(s, "", p);
	}
	if (!portal) {
		pg_error(s, "53200", "out of memory");
		pg_release_prepared(p);
		return -1;
	}
	rc = pg_execute(s, portal, 0, true);
	pg_drop_portal(s, portal);
	pg_release_prepared(p);
	return rc;
}

int pg_run_simple(struct pg_session *s, const char *text)
{
	size_t at = 0, next, begin, length;
	unsigned count = 0;
	int rc = 0;

	while (rc == 0 && (next = fth_query_split(text, at, &begin, &length)) != 0) {
		char *one = strndup(text + begin, length);

		if (one)
			rc = run_one(s, one);
		else
			pg_error(s, "53200", "out of memory");
		rc = one ? rc : -1;
		free(one);
		at = next;
		count++;
	}
	if (count == 0)
		(void)pg_put_empty(&s->wire, 'I');
	return rc;
}

static int take_query(struct pg_session *s, struct pg_message *m)
{
	const char *text = pg_get_string(m);
	struct pg_portal *unnamed = pg_find_portal(s, "");
	char *copy;

	if (m->bad)
		return -EPROTO;
	if (unnamed)
		pg_drop_portal(s, unnamed);
	copy = strdup(text); /* COPY FROM STDIN reads messages meanwhile */
	if (!copy)
		pg_error(s, "53200", "out of memory");
	else
		(void)pg_run_simple(s, copy);
	free(copy);
	return pg_ready(s);
}

/* ---- extended queries ---- */

static bool refused(struct pg_session *s, const char *text)
{
	char word[16];

	if (s->status != 'E')
		return false;
	pg_first_word(text, word, sizeof(word));
	if (strcmp(word, "ROLLBACK") == 0 || strcmp(word, "COMMIT") == 0 ||
	    strcmp(word, "ABORT") == 0 || strcmp(word, "END") == 0 || !*word)
		return false;
	pg_error(s, "25P02",
		 "current transaction is aborted, commands ignored until end of transaction block");
	return true;
}

static int take_parse(struct pg_session *s, struct pg_message *m)
{
	const char *name = pg_get_string(m), *text = pg_get_string(m);
	int count = pg_get_i16(m) & 0xffff;
	struct pg_prepared *p;
	uint32_t *types;

	if (m->bad || (size_t)(m->end - m->at) < (size_t)count * 4)
		return -EPROTO;
	if (*name && pg_find_prepared(s, name)) {
		pg_error(s, "42P05", "prepared statement \"%s\" already exists", name);
		return -1;
	}
	if (refused(s, text))
		return -1;
	types = calloc((size_t)count + 1, sizeof(*types));
	if (!types) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	for (int i = 0; i < count; i++)
		types[i] = (uint32_t)pg_get_i32(m);
	if (!*name)
		pg_drop_prepared(s, "");
	if (pg_prepare(s, name, text, (unsigned)count, types, &p) < 0) {
		free(types);
		return -1;
	}
	free(types);
	p->next = s->prepared;
	s->prepared = p;
	return pg_put_empty(&s->wire, '1') < 0 ? -1 : 0;
}

/* Values of parameters. 0; -1 after an error was sent; -EPROTO. */
static int take_values(struct pg_session *s, struct pg_message *m, struct pg_portal *portal)
{
	const struct pg_prepared *p = portal->prepared;
	int format_count = pg_get_i16(m) & 0xffff, count;
	const char *formats = pg_get_bytes(m, (size_t)format_count * 2);

	count = pg_get_i16(m) & 0xffff;
	if (m->bad)
		return -EPROTO;
	if ((unsigned)count != p->param_count || (format_count > 1 && format_count != count)) {
		pg_error(s, "08P01",
			 "bind message supplies %d parameters, but prepared statement \"%s\" "
			 "requires %u",
			 count, p->name, p->param_count);
		return -1;
	}
	for (int i = 0; i < count; i++) {
		int32_t n = pg_get_i32(m);
		const char *bytes = n < 0 ? NULL : pg_get_bytes(m, (size_t)n);
		bool binary =
			format_count > 0 && pg_be16(formats + 2 * (format_count == 1 ? 0 : i)) == 1;

		if (m->bad || n < -1)
			return -EPROTO;
		if (n >= 0 && pg_value_in(p->params[i], binary, bytes, (size_t)n,
					  &portal->values[i].text) < 0) {
			pg_error(s, "22P03", "parameter $%d is no value of its type, %u", i + 1,
				 p->params[i]);
			return -1;
		}
	}
	return 0;
}

static int take_formats(struct pg_session *s, struct pg_message *m, struct pg_portal *portal)
{
	int count = pg_get_i16(m) & 0xffff;

	if (m->bad)
		return -EPROTO;
	if (count > 1 && (unsigned)count != portal->prepared->column_count) {
		pg_error(s, "08P01", "bind message has %d result formats but query has %u columns",
			 count, portal->prepared->column_count);
		return -1;
	}
	portal->formats = calloc((size_t)count + 1, sizeof(*portal->formats));
	if (!portal->formats) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	portal->format_count = (unsigned)count;
	for (int i = 0; i < count; i++)
		portal->formats[i] = (int16_t)pg_get_i16(m);
	return m->bad ? -EPROTO : 0;
}

static int take_bind(struct pg_session *s, struct pg_message *m)
{
	const char *name = pg_get_string(m), *from = pg_get_string(m);
	struct pg_portal *portal = m->bad ? NULL : pg_find_portal(s, name);
	struct pg_prepared *p = m->bad ? NULL : pg_find_prepared(s, from);
	int rc;

	if (m->bad)
		return -EPROTO;
	if (!p) {
		pg_error(s, "26000", "prepared statement \"%s\" does not exist", from);
		return -1;
	}
	if (portal && *name) {
		pg_error(s, "42P03", "cursor \"%s\" already exists", name);
		return -1;
	}
	if (refused(s, p->text))
		return -1;
	if (portal)
		pg_drop_portal(s, portal);
	portal = pg_new_portal(s, name, p);
	if (!portal) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	rc = take_values(s, m, portal);
	if (rc == 0)
		rc = take_formats(s, m, portal);
	if (rc < 0) {
		pg_drop_portal(s, portal);
		return rc;
	}
	return pg_put_empty(&s->wire, '2') < 0 ? -1 : 0;
}

static int put_described(struct pg_session *s, const struct pg_prepared *p, const int16_t *formats,
			 unsigned format_count)
{
	if (!p->has_rows)
		return pg_put_empty(&s->wire, 'n');
	return pg_put_columns(&s->wire, p->columns, p->column_count, formats, format_count);
}

static int take_describe(struct pg_session *s, struct pg_message *m)
{
	char what = (char)pg_get_u8(m);
	const char *name = pg_get_string(m);
	struct pg_portal *portal;
	struct pg_prepared *p;

	if (m->bad || (what != 'S' && what != 'P'))
		return -EPROTO;
	if (what == 'P') {
		portal = pg_find_portal(s, name);
		if (portal)
			return put_described(s, portal->prepared, portal->formats,
					     portal->format_count) < 0
				       ? -1
				       : 0;
		pg_error(s, "34000", "portal \"%s\" does not exist", name);
		return -1;
	}
	p = pg_find_prepared(s, name);
	if (!p) {
		pg_error(s, "26000", "prepared statement \"%s\" does not exist", name);
		return -1;
	}
	pg_put_begin(&s->wire, 't');
	pg_put_i16(&s->wire, (int)p->param_count);
	for (unsigned i = 0; i < p->param_count; i++)
		pg_put_i32(&s->wire, (int32_t)p->params[i]);
	(void)pg_put_end(&s->wire);
	return put_described(s, p, NULL, 0) < 0 ? -1 : 0;
}

static int take_execute(struct pg_session *s, struct pg_message *m)
{
	const char *name = pg_get_string(m);
	int32_t most = pg_get_i32(m);
	struct pg_portal *portal = m->bad ? NULL : pg_find_portal(s, name);

	if (m->bad)
		return -EPROTO;
	if (!portal) {
		pg_error(s, "34000", "portal \"%s\" does not exist", name);
		return -1;
	}
	return pg_execute(s, portal, most > 0 ? (uint64_t)most : 0, false);
}

static int take_close(struct pg_session *s, struct pg_message *m)
{
	char what = (char)pg_get_u8(m);
	const char *name = pg_get_string(m);
	struct pg_portal *portal;

	if (m->bad || (what != 'S' && what != 'P'))
		return -EPROTO;
	portal = what == 'P' ? pg_find_portal(s, name) : NULL;
	if (what == 'S')
		pg_drop_prepared(s, name);
	else if (portal)
		pg_drop_portal(s, portal);
	return pg_put_empty(&s->wire, '3') < 0 ? -1 : 0;
}

static int take_sync(struct pg_session *s)
{
	s->skip = false;
	(void)pg_settle(s);
	if (s->status == 'I')
		pg_drop_portals(s, false);
	return pg_ready(s);
}

/* ---- the loop ---- */

/*
 * 0; -1: an error was sent, and messages until Sync are skipped; another negative errno: the end.
 */
static int take_message(struct pg_session *s, struct pg_message *m)
{
	switch (m->type) {
	case 'P':
		return take_parse(s, m);
	case 'B':
		return take_bind(s, m);
	case 'D':
		return take_describe(s, m);
	case 'E':
		return take_execute(s, m);
	case 'C':
		return take_close(s, m);
	case 'H':
		return pg_flush(&s->wire);
	case 'd': /* of a COPY that has failed */
	case 'c':
	case 'f':
		return 0;
	default:
		return -EPROTO;
	}
}

static int serve_one(struct pg_session *s)
{
	struct pg_message m;
	int rc = pg_read_message(&s->wire, PG_MESSAGE_MAX, false, &m);

	if (rc < 0)
		return rc;
	if (m.type == 'X')
		return -ECONNRESET;
	if (m.type == 'S')
		return take_sync(s);
	if (s->skip)
		return 0;
	if (m.type == 'Q')
		return take_query(s, &m);
	rc = take_message(s, &m);
	if (rc == -1) {
		s->skip = true;
		if (s->implicit) { /* the statements before the error are undone */
			s->implicit = false;
			fth_query_rollback(s->query);
		}
		rc = pg_flush(&s->wire); /* a client may wait for the error before it syncs */
	}
	return rc < 0 ? rc : s->wire.failed;
}

void pg_serve(struct pg_session *s)
{
	int rc = pg_startup(s);

	if (rc == 0)
		pg_log(s->server, "connect", "user %s, database %s", s->user, s->database);
	while (rc == 0)
		rc = serve_one(s);
	if (rc == -EPROTO) {
		pg_log(s->server, "bad message", "%s", s->user);
		s->logged_in = false;
		pg_error(s, "08P01", "invalid message from the client");
	}
	(void)pg_flush(&s->wire);
	pg_drop_portals(s, true);
	pg_drop_prepared(s, NULL);
	pg_free_settings(s);
	fth_query_rollback(s->query);
}
