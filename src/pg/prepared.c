/* SPDX-License-Identifier: BSD-2-Clause */
/* Prepared statements: what kind they are, the types of their parameters, their columns. */
#include "pg/catalog/catalog.h"
#include "pg/session.h"

#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *pg_first_word(const char *text, char *to, size_t room)
{
	size_t begin, length, n = 0;

	*to = '\0';
	if (fth_query_split(text, 0, &begin, &length) == 0)
		return to;
	while (length > 0 && (text[begin] == '(' || isspace((unsigned char)text[begin]))) {
		begin++;
		length--;
	}
	while (n + 1 < room && n < length && isalpha((unsigned char)text[begin + n])) {
		to[n] = (char)toupper((unsigned char)text[begin + n]);
		n++;
	}
	to[n] = '\0';
	if (n == 0 && length > 0)
		strcpy(to, "?");
	return to;
}

enum pg_kind pg_kind_of(struct pg_session *s, const char *text)
{
	static const char *const utility[] = {
		"ABORT",   "ANALYZE", "ANALYSE",  "BEGIN",	"CHECKPOINT", "CLOSE",
		"COMMIT",  "COPY",    "DECLARE",  "DEALLOCATE", "DISCARD",    "END",
		"EXECUTE", "FETCH",   "LISTEN",	  "LOCK",	"MOVE",	      "NOTIFY",
		"PREPARE", "RELEASE", "RESET",	  "ROLLBACK",	"SAVEPOINT",  "SET",
		"SHOW",	   "START",   "UNLISTEN", "VACUUM"};
	char word[16];

	pg_first_word(text, word, sizeof(word));
	if (!*word)
		return PG_EMPTY;
	for (size_t i = 0; i < sizeof(utility) / sizeof(utility[0]); i++)
		if (strcmp(utility[i], word) == 0)
			return PG_UTILITY;
	/* Clients ask for catalogs by these names, and for functions without a table. */
	if ((strcmp(word, "SELECT") == 0 || strcmp(word, "WITH") == 0) &&
	    (strcasestr(text, "pg_") || strcasestr(text, "information_schema") ||
	     !strcasestr(text, "from")) &&
	    pg_is_catalog(s, text))
		return PG_CATALOG;
	return PG_ENGINE;
}

void pg_release_prepared(struct pg_prepared *p)
{
	if (!p || --p->users > 0)
		return;
	pg_free_columns(p->columns, p->column_count);
	free(p->params);
	free(p->name);
	free(p->text);
	free(p);
}

struct pg_prepared *pg_find_prepared(struct pg_session *s, const char *name)
{
	struct pg_prepared *p = s->prepared;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	return p;
}

void pg_drop_prepared(struct pg_session *s, const char *name)
{
	struct pg_prepared **at = &s->prepared;

	while (*at) {
		struct pg_prepared *p = *at;

		if (name && strcmp(p->name, name) != 0) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		pg_release_prepared(p);
	}
}

/* The largest number behind a $ in the text: at least as many parameters as it has. */
static unsigned count_dollars(const char *text)
{
	unsigned most = 0;

	for (const char *c = strchr(text, '$'); c; c = strchr(c + 1, '$')) {
		unsigned long n = isdigit((unsigned char)c[1]) ? strtoul(c + 1, NULL, 10) : 0;

		if (n > most && n <= FTH_QUERY_PARAMETERS_MAX)
			most = (unsigned)n;
	}
	return most;
}

static int take_columns(const struct fth_query_batch *batch, void *user)
{
	struct pg_prepared *p = user;

	p->has_rows = true;
	return pg_take_columns(batch, &p->columns, &p->column_count);
}

/* Types of parameters and columns, by the engine. */
static int describe_by_engine(struct pg_session *s, struct pg_prepared *p, unsigned given)
{
	unsigned room = count_dollars(p->text), count = 0;
	struct fth_query_parameter *parameters;
	uint32_t *types;
	int rc;

	if (room < given)
		room = given;
	parameters = calloc(room + 1, sizeof(*parameters));
	types = realloc(p->params, (room + 1) * sizeof(*types));
	if (types)
		p->params = types;
	if (!parameters || !types) {
		free(parameters);
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	for (unsigned i = 0; i < room; i++) {
		if (i >= given)
			types[i] = 0;
		parameters[i].type = pg_parameter_type(types[i]);
	}
	rc = fth_query_describe(s->query, p->text, parameters, room, &count, take_columns, p);
	for (unsigned i = 0; i < room; i++)
		if (types[i] == 0 || types[i] == PG_UNKNOWN)
			types[i] = pg_parameter_oid(parameters[i].type);
	p->param_count = count > given ? count : given;
	free(parameters);
	if (rc < 0)
		pg_error_of(s, p->text, rc);
	return rc < 0 ? -1 : 0;
}

static int describe(struct pg_session *s, struct pg_prepared *p, unsigned given)
{
	unsigned room = count_dollars(p->text);

	switch (p->kind) {
	case PG_ENGINE:
		return describe_by_engine(s, p, given);
	case PG_CATALOG:
	case PG_UTILITY:
		/* Parameters of DECLARE ... FOR a query: text, unless the client says more. */
		if (room > given) {
			uint32_t *types = realloc(p->params, room * sizeof(*types));

			if (!types) {
				pg_error(s, "53200", "out of memory");
				return -1;
			}
			for (unsigned i = given; i < room; i++)
				types[i] = p->kind == PG_CATALOG ? PG_TEXT : PG_UNKNOWN;
			p->params = types;
			p->param_count = room;
		}
		if (p->kind == PG_CATALOG) {
			p->has_rows = true;
			return pg_catalog_run(s, p->text, NULL, &p->columns, &p->column_count, NULL,
					      false, NULL, 0, NULL);
		}
		if (pg_utility_columns(s, p->text, &p->columns, &p->column_count) < 0)
			return -1;
		p->has_rows = p->columns != NULL;
		return 0;
	default:
		return 0;
	}
}

int pg_prepare(struct pg_session *s, const char *name, const char *text, unsigned count,
	       const uint32_t *types, struct pg_prepared **out)
{
	struct pg_prepared *p = calloc(1, sizeof(*p));
	size_t begin, length;
	int rc;

	*out = NULL;
	if (p) {
		p->users = 1;
		p->name = strdup(name);
		p->text = strdup(text);
		p->params = malloc((count + 1) * sizeof(*p->params));
	}
	if (!p || !p->name || !p->text || !p->params) {
		pg_release_prepared(p);
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	if (count > 0)
		memcpy(p->params, types, count * sizeof(*types));
	p->param_count = count;
	p->kind = pg_kind_of(s, text);
	if (p->kind != PG_EMPTY &&
	    fth_query_split(text, fth_query_split(text, 0, &begin, &length), &begin, &length) > 0) {
		pg_error(s, "42601", "cannot insert multiple commands into a prepared statement");
		rc = -1;
	} else {
		rc = describe(s, p, count);
	}
	if (rc < 0) {
		pg_release_prepared(p);
		return -1;
	}
	*out = p;
	return 0;
}
