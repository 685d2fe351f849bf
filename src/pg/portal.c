/* SPDX-License-Identifier: BSD-2-Clause */
/* Portals: a prepared statement with values for its parameters, run at once or row by row. */
#include "pg/catalog/catalog.h"
#include "pg/session.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pg_portal *pg_find_portal(struct pg_session *s, const char *name)
{
	struct pg_portal *p = s->portals;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	return p;
}

struct pg_portal *pg_new_portal(struct pg_session *s, const char *name, struct pg_prepared *p)
{
	struct pg_portal *portal = calloc(1, sizeof(*portal));

	if (portal)
		portal->name = strdup(name);
	if (!portal || !portal->name) {
		free(portal);
		return NULL;
	}
	portal->values = calloc(p->param_count + 1, sizeof(*portal->values));
	if (!portal->values) {
		free(portal->name);
		free(portal);
		return NULL;
	}
	portal->prepared = p;
	p->users++;
	portal->next = s->portals;
	s->portals = portal;
	return portal;
}

static void free_portal(struct pg_portal *portal)
{
	for (unsigned i = 0; i < portal->prepared->param_count; i++)
		free(portal->values[i].text);
	free(portal->values);
	free(portal->formats);
	pg_spool_free(portal->spool);
	pg_release_prepared(portal->prepared);
	free(portal->name);
	free(portal);
}

void pg_drop_portal(struct pg_session *s, struct pg_portal *portal)
{
	struct pg_portal **at = &s->portals;

	while (*at && *at != portal)
		at = &(*at)->next;
	if (*at) {
		*at = portal->next;
		free_portal(portal);
	}
}

void pg_drop_portals(struct pg_session *s, bool all)
{
	struct pg_portal **at = &s->portals;

	while (*at) {
		struct pg_portal *portal = *at;

		if (portal->kept && !all) {
			at = &portal->next;
			continue;
		}
		*at = portal->next;
		free_portal(portal);
	}
}

int pg_complete(struct pg_session *s, const char *format, ...)
{
	char tag[96];
	va_list args;

	va_start(args, format);
	vsnprintf(tag, sizeof(tag), format, args);
	va_end(args);
	pg_put_begin(&s->wire, 'C');
	pg_put_string(&s->wire, tag);
	return pg_put_end(&s->wire) < 0 ? -1 : 0;
}

/* ---- running ---- */

/* The values of the parameters for the engine; NULL if memory is short. */
static struct fth_query_parameter *engine_values(const struct pg_portal *portal)
{
	const struct pg_prepared *p = portal->prepared;
	struct fth_query_parameter *values = calloc(p->param_count + 1, sizeof(*values));

	for (unsigned i = 0; values && i < p->param_count; i++)
		values[i] = (struct fth_query_parameter){pg_parameter_type(p->params[i]),
							 portal->values[i].text};
	return values;
}

int pg_run_engine(struct pg_session *s, const struct pg_portal *portal, struct pg_rows *rows)
{
	const struct pg_prepared *p = portal->prepared;
	struct fth_query_parameter *values = engine_values(portal);
	const char *reason;
	int rc;

	if (!values) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	pg_watch_begin(s);
	rc = fth_query_run_with(s->query, p->text, values, p->param_count, pg_take_batch, rows);
	reason = pg_watch_end(s);
	free(values);
	if (rc == 0 || s->wire.failed < 0)
		return rc < 0 ? -1 : 0;
	if (rc == -ECANCELED && reason)
		pg_error(s, "57014", "%s", reason);
	else
		pg_error_of(s, p->text, rc);
	return -1;
}

static int complete_engine(struct pg_session *s, uint64_t rows)
{
	static const char *const tags[] = {
		[FTH_QUERY_EXPLAIN] = "EXPLAIN",       [FTH_QUERY_CREATE_TABLE] = "CREATE TABLE",
		[FTH_QUERY_DROP_TABLE] = "DROP TABLE", [FTH_QUERY_CREATE_VIEW] = "CREATE VIEW",
		[FTH_QUERY_DROP_VIEW] = "DROP VIEW",
	};
	const struct fth_query_report *report = fth_query_report(s->query);

	switch (report->kind) {
	case FTH_QUERY_SELECT:
		return pg_complete(s, "SELECT %llu", (unsigned long long)rows);
	case FTH_QUERY_INSERT:
		s->appended += report->rows;
		return pg_complete(s, "INSERT 0 %llu", (unsigned long long)report->rows);
	case FTH_QUERY_COPY:
		return pg_complete(s, "COPY %llu", (unsigned long long)report->rows);
	default:
		if (report->kind >= FTH_QUERY_CREATE_TABLE && s->status != 'I') {
			s->changed = true;
			pg_notice(s, "WARNING", "01000",
				  "%s takes effect at once: ROLLBACK does not undo it",
				  tags[report->kind]);
		}
		return pg_complete(s, "%s", tags[report->kind]);
	}
}

/*
 * INSERTs that a client sends together, before it asks for their result by Sync, are one batch: a
 * batch for each row would be slow. Another statement ends the batch.
 */
static int begin_implicit(struct pg_session *s, const struct pg_prepared *p)
{
	char word[8], next = pg_next_type(&s->wire);

	if (s->status != 'I')
		return 0;
	if (strcmp(pg_first_word(p->text, word, sizeof(word)), "INSERT") != 0)
		return pg_settle(s);
	if (!s->implicit && next != 0 && next != 'S' && next != 'Q' &&
	    fth_query_begin(s->query) == 0)
		s->implicit = true;
	return 0;
}

static int execute_engine(struct pg_session *s, struct pg_portal *portal, bool describe)
{
	struct pg_rows rows = {.session = s,
			       .wire = &s->wire,
			       .describe = describe,
			       .formats = portal->formats,
			       .format_count = portal->format_count};

	if (begin_implicit(s, portal->prepared) < 0 || pg_run_engine(s, portal, &rows) < 0)
		return -1;
	portal->done = true;
	return complete_engine(s, rows.count);
}

/* Rows of catalogs, to the client or to a spool. */
static int run_catalog(struct pg_session *s, const struct pg_portal *portal, struct pg_wire *w,
		       bool describe, uint64_t *rows)
{
	struct pg_column *columns;
	unsigned count;

	if (pg_catalog_run(s, portal->prepared->text, portal, &columns, &count, w, describe,
			   portal->formats, portal->format_count, rows) < 0)
		return -1;
	pg_free_columns(columns, count);
	return 0;
}

static int execute_catalog(struct pg_session *s, struct pg_portal *portal, bool describe)
{
	uint64_t rows = 0;

	if (pg_settle(s) < 0 || run_catalog(s, portal, &s->wire, describe, &rows) < 0)
		return -1;
	portal->done = true;
	return pg_complete(s, "SELECT %llu", (unsigned long long)rows);
}

int pg_fill_spool(struct pg_session *s, struct pg_portal *portal)
{
	struct pg_rows rows = {
		.session = s, .formats = portal->formats, .format_count = portal->format_count};
	int rc = pg_spool_new(s->server, &portal->spool);

	if (rc < 0) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	rows.wire = pg_spool_wire(portal->spool);
	if (pg_settle(s) < 0)
		rc = -1;
	else if (portal->prepared->kind == PG_CATALOG)
		rc = run_catalog(s, portal, rows.wire, false, &rows.count);
	else
		rc = pg_run_engine(s, portal, &rows);
	if (rc == 0 && pg_spool_seal(portal->spool) < 0) {
		rc = pg_spool_wire(portal->spool)->failed;
		pg_error(s, pg_sqlstate(rc, ""), "%s", fth_error_text(rc));
	}
	if (rc < 0) {
		pg_spool_free(portal->spool);
		portal->spool = NULL;
		return -1;
	}
	return 0;
}

/* Rows of the spool. */
static int execute_spool(struct pg_session *s, struct pg_portal *portal, uint64_t most)
{
	uint64_t sent;
	bool more;
	int rc;

	if (!portal->spool && pg_fill_spool(s, portal) < 0)
		return -1;
	rc = pg_spool_send(portal->spool, &s->wire, most, &sent, &more);
	if (rc < 0) {
		if (s->wire.failed == 0)
			pg_error(s, pg_sqlstate(rc, ""), "%s", fth_error_text(rc));
		return -1;
	}
	if (more)
		return pg_put_empty(&s->wire, 's') < 0 ? -1 : 0;
	portal->done = true;
	return pg_complete(s, "SELECT %llu", (unsigned long long)sent);
}

int pg_execute(struct pg_session *s, struct pg_portal *portal, uint64_t most, bool describe)
{
	struct pg_prepared *p = portal->prepared;

	if (p->kind == PG_EMPTY)
		return pg_put_empty(&s->wire, 'I') < 0 ? -1 : 0;
	if (p->kind == PG_UTILITY)
		return pg_settle(s) < 0 ? -1 : pg_utility(s, p->text, portal, describe);
	if (s->status == 'E') {
		pg_error(s, "25P02",
			 "current transaction is aborted, commands ignored until end of "
			 "transaction block");
		return -1;
	}
	if (portal->done && p->has_rows)
		return pg_complete(s, "SELECT 0");
	if (p->kind == PG_CATALOG && most == 0 && !portal->spool)
		return execute_catalog(s, portal, describe);
	if (p->has_rows && (most > 0 || portal->spool))
		return execute_spool(s, portal, most);
	return execute_engine(s, portal, describe);
}
