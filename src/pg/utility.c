/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statements about the session: transactions, settings, cursors, prepared statements, COPY. They
 * are parsed by PostgreSQL's grammar as all others are.
 */
#include "pg/copy.h"
#include "pg/session.h"
#include "pg/tree.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- transactions ---- */

static void drop_savepoints(struct pg_session *s, const struct pg_savepoint *until)
{
	while (s->savepoints && s->savepoints != until) {
		struct pg_savepoint *next = s->savepoints->next;

		free(s->savepoints->name);
		free(s->savepoints);
		s->savepoints = next;
	}
}

void pg_end_transaction(struct pg_session *s)
{
	drop_savepoints(s, NULL);
	pg_drop_portals(s, false);
	s->status = 'I';
	s->changed = false;
	s->appended = 0;
}

static int begin_transaction(struct pg_session *s)
{
	if (s->status != 'I') {
		pg_notice(s, "WARNING", "25001", "there is already a transaction in progress");
	} else {
		(void)fth_query_begin(s->query);
		s->status = 'T';
	}
	return pg_complete(s, "BEGIN");
}

static int commit_transaction(struct pg_session *s)
{
	bool failed = s->status == 'E';
	int rc = 0;

	if (s->status == 'I')
		pg_notice(s, "WARNING", "25P01", "there is no transaction in progress");
	else if (failed)
		fth_query_rollback(s->query);
	else
		rc = fth_query_commit(s->query);
	for (struct pg_portal *p = s->portals; p && !failed && rc == 0; p = p->next)
		p->kept = p->hold;
	pg_end_transaction(s);
	if (rc < 0) {
		pg_error(s, pg_sqlstate(rc, fth_error_text(rc)), "%s", fth_error_text(rc));
		return -1;
	}
	return pg_complete(s, failed ? "ROLLBACK" : "COMMIT");
}

static int rollback_transaction(struct pg_session *s)
{
	if (s->status == 'I')
		pg_notice(s, "WARNING", "25P01", "there is no transaction in progress");
	else if (s->changed)
		pg_notice(s, "WARNING", "01000",
			  "tables and views that the transaction created or dropped stay so");
	fth_query_rollback(s->query);
	pg_end_transaction(s);
	return pg_complete(s, "ROLLBACK");
}

static int make_savepoint(struct pg_session *s, const char *name)
{
	struct pg_savepoint *point;

	if (s->status == 'I') {
		pg_error(s, "25P01", "SAVEPOINT can only be used in transaction blocks");
		return -1;
	}
	point = calloc(1, sizeof(*point));
	if (point)
		point->name = strdup(name);
	if (!point || !point->name) {
		free(point);
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	point->appended = s->appended;
	point->next = s->savepoints;
	s->savepoints = point;
	return pg_complete(s, "SAVEPOINT");
}

static int use_savepoint(struct pg_session *s, const char *name, bool rollback)
{
	struct pg_savepoint *point = s->savepoints;

	while (point && strcmp(point->name, name) != 0)
		point = point->next;
	if (!point) {
		pg_error(s, "3B001", "savepoint \"%s\" does not exist", name);
		return -1;
	}
	if (!rollback) {
		drop_savepoints(s, point->next);
		return pg_complete(s, "RELEASE");
	}
	if (s->appended != point->appended) {
		pg_error(
			s, "0A000",
			"rows that were inserted after savepoint \"%s\" cannot be discarded alone; "
			"roll back the transaction",
			name);
		return -1;
	}
	drop_savepoints(s, point);
	s->status = 'T';
	return pg_complete(s, "ROLLBACK");
}

static int run_transaction(struct pg_session *s, const PgQuery__TransactionStmt *t)
{
	switch (t->kind) {
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_BEGIN:
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_START:
		return begin_transaction(s);
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_COMMIT:
		return commit_transaction(s);
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_ROLLBACK:
		return rollback_transaction(s);
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_SAVEPOINT:
		return make_savepoint(s, t->savepoint_name);
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_RELEASE:
		return use_savepoint(s, t->savepoint_name, false);
	case PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_ROLLBACK_TO:
		return use_savepoint(s, t->savepoint_name, true);
	default:
		pg_error(s, "0A000", "two-phase commit is not supported");
		return -1;
	}
}

/* ---- settings ---- */

/* The value of SET, as text: several are joined with commas. */
static char *set_value(const PgQuery__VariableSetStmt *set)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	for (size_t i = 0; i < set->n_args; i++) {
		const PgQuery__AConst *c = set->args[i]->node_case == PG_QUERY__NODE__NODE_A_CONST
						   ? set->args[i]->a_const
						   : NULL;

		fputs(i > 0 ? ", " : "", out);
		if (!c)
			continue;
		if (c->val_case == PG_QUERY__A__CONST__VAL_SVAL)
			fputs(c->sval->sval, out);
		else if (c->val_case == PG_QUERY__A__CONST__VAL_IVAL)
			fprintf(out, "%d", c->ival->ival);
		else if (c->val_case == PG_QUERY__A__CONST__VAL_FVAL)
			fputs(c->fval->fval, out);
		else if (c->val_case == PG_QUERY__A__CONST__VAL_BOOLVAL)
			fputs(c->boolval->boolval ? "on" : "off", out);
	}
	return fclose(out) == 0 ? text : (free(text), NULL);
}

static int run_set(struct pg_session *s, const PgQuery__VariableSetStmt *set)
{
	bool reset = set->kind == PG_QUERY__VARIABLE_SET_KIND__VAR_RESET;
	char *value;
	int rc;

	switch (set->kind) {
	case PG_QUERY__VARIABLE_SET_KIND__VAR_RESET_ALL:
		pg_reset_all(s);
		return pg_complete(s, "RESET");
	case PG_QUERY__VARIABLE_SET_KIND__VAR_RESET:
	case PG_QUERY__VARIABLE_SET_KIND__VAR_SET_DEFAULT:
		rc = pg_set(s, set->name, NULL);
		break;
	case PG_QUERY__VARIABLE_SET_KIND__VAR_SET_MULTI:
		rc = 0; /* SET TRANSACTION: every statement reads one state, whatever the level */
		break;
	case PG_QUERY__VARIABLE_SET_KIND__VAR_SET_CURRENT:
		rc = 0;
		break;
	default:
		value = set_value(set);
		if (!value)
			pg_error(s, "53200", "out of memory");
		rc = value ? pg_set(s, set->name, value) : -1;
		free(value);
	}
	return rc < 0 ? -1 : pg_complete(s, reset ? "RESET" : "SET");
}

static void put_cells(struct pg_session *s, const char *const *cells, unsigned n)
{
	pg_put_begin(&s->wire, 'D');
	pg_put_i16(&s->wire, (int)n);
	for (unsigned i = 0; i < n; i++)
		pg_value_out(&s->wire, PG_TEXT, false, cells[i], strlen(cells[i]));
	(void)pg_put_end(&s->wire);
}

static void put_setting(void *user, const char *name, const char *value)
{
	const char *cells[3] = {name, value, ""};

	put_cells(user, cells, 3);
}

/* TRANSACTION ISOLATION LEVEL and TIME ZONE come with names of their own. */
static const char *shown_name(const char *name)
{
	return strcasecmp(name, "timezone") == 0 ? "TimeZone" : name;
}

static int run_show(struct pg_session *s, const char *name)
{
	const char *value;

	if (strcasecmp(name, "all") == 0) {
		pg_visit_settings(s, put_setting, s);
		return pg_complete(s, "SHOW");
	}
	value = pg_setting(s, name);
	if (!value) {
		pg_error(s, "42704", "unrecognized configuration parameter \"%s\"", name);
		return -1;
	}
	put_cells(s, &value, 1);
	return pg_complete(s, "SHOW");
}

/* ---- cursors ---- */

static int run_declare(struct pg_session *s, const PgQuery__DeclareCursorStmt *d, const char *text,
		       const struct pg_portal *portal)
{
	bool hold = d->options & 0x0020; /* CURSOR_OPT_HOLD */
	const char *query = pg_text_behind(text, PG_QUERY__TOKEN__FOR);
	struct pg_portal *cursor;
	struct pg_prepared *p;
	unsigned given = portal->prepared->param_count;

	if (s->status == 'I' && !hold) {
		pg_error(s, "25P01", "DECLARE CURSOR can only be used in transaction blocks");
		return -1;
	}
	if (pg_find_portal(s, d->portalname)) {
		pg_error(s, "42P03", "cursor \"%s\" already exists", d->portalname);
		return -1;
	}
	if (!query || pg_prepare(s, "", query, given, portal->prepared->params, &p) < 0)
		return -1;
	cursor = p->has_rows ? pg_new_portal(s, d->portalname, p) : NULL;
	pg_release_prepared(p);
	if (!cursor) {
		pg_error(s, "42P11", "cursor \"%s\" needs a query", d->portalname);
		return -1;
	}
	for (unsigned i = 0; i < given && i < p->param_count; i++)
		if (portal->values[i].text)
			cursor->values[i].text = strdup(portal->values[i].text);
	cursor->cursor = true;
	cursor->hold = hold;
	cursor->kept = hold && s->status == 'I';
	/* The rows are those of now, also if others change the tables before they are fetched. */
	if (pg_fill_spool(s, cursor) < 0) {
		pg_drop_portal(s, cursor);
		return -1;
	}
	return pg_complete(s, "DECLARE CURSOR");
}

static struct pg_portal *need_cursor(struct pg_session *s, const char *name)
{
	struct pg_portal *cursor = pg_find_portal(s, name);

	if (cursor && cursor->cursor)
		return cursor;
	pg_error(s, "34000", "cursor \"%s\" does not exist", name);
	return NULL;
}

static int run_fetch(struct pg_session *s, const PgQuery__FetchStmt *f, bool describe)
{
	struct pg_portal *cursor = need_cursor(s, f->portalname);
	const struct pg_prepared *p = cursor ? cursor->prepared : NULL;
	uint64_t most = f->how_many >= INT32_MAX ? 0 : (uint64_t)f->how_many, sent = 0;
	bool more;
	int rc = 0;

	if (!cursor)
		return -1;
	if (f->direction != PG_QUERY__FETCH_DIRECTION__FETCH_FORWARD || f->how_many < 0) {
		pg_error(s, "55000", "cursor can only scan forward");
		return -1;
	}
	if (describe && !f->ismove)
		rc = pg_put_columns(&s->wire, p->columns, p->column_count, NULL, 0);
	if (rc == 0 && f->how_many != 0)
		rc = pg_spool_send(cursor->spool, f->ismove ? NULL : &s->wire, most, &sent, &more);
	if (rc < 0) {
		if (s->wire.failed == 0)
			pg_error(s, pg_sqlstate(rc, ""), "%s", fth_error_text(rc));
		return -1;
	}
	return pg_complete(s, "%s %llu", f->ismove ? "MOVE" : "FETCH", (unsigned long long)sent);
}

static void close_cursors(struct pg_session *s)
{
	struct pg_portal *next;

	for (struct pg_portal *cursor = s->portals; cursor; cursor = next) {
		next = cursor->next;
		if (cursor->cursor)
			pg_drop_portal(s, cursor);
	}
}

static int run_close(struct pg_session *s, const char *name)
{
	struct pg_portal *cursor;

	if (!name || !*name) {
		close_cursors(s);
		return pg_complete(s, "CLOSE CURSOR ALL");
	}
	cursor = need_cursor(s, name);
	if (!cursor)
		return -1;
	pg_drop_portal(s, cursor);
	return pg_complete(s, "CLOSE CURSOR");
}

/* ---- prepared statements and the rest of the session ---- */

static int run_deallocate(struct pg_session *s, const char *name)
{
	if (!name || !*name) {
		pg_drop_prepared(s, NULL);
		return pg_complete(s, "DEALLOCATE ALL");
	}
	if (!pg_find_prepared(s, name)) {
		pg_error(s, "26000", "prepared statement \"%s\" does not exist", name);
		return -1;
	}
	pg_drop_prepared(s, name);
	return pg_complete(s, "DEALLOCATE");
}

static int run_discard(struct pg_session *s, const PgQuery__DiscardStmt *d)
{
	if (d->target != PG_QUERY__DISCARD_MODE__DISCARD_ALL)
		return pg_complete(s, "DISCARD");
	if (s->status != 'I') {
		pg_error(s, "25001", "DISCARD ALL cannot run inside a transaction block");
		return -1;
	}
	close_cursors(s);
	pg_drop_prepared(s, NULL);
	pg_reset_all(s);
	return pg_complete(s, "DISCARD ALL");
}

/* ---- COPY ---- */

static const char *option_text(const PgQuery__DefElem *option, char number[16])
{
	if (!option->arg)
		return "true";
	switch (option->arg->node_case) {
	case PG_QUERY__NODE__NODE_STRING:
		return option->arg->string->sval;
	case PG_QUERY__NODE__NODE_INTEGER:
		snprintf(number, 16, "%d", option->arg->integer->ival);
		return number;
	case PG_QUERY__NODE__NODE_BOOLEAN:
		return option->arg->boolean->boolval ? "true" : "false";
	case PG_QUERY__NODE__NODE_TYPE_NAME:
		return option->arg->type_name->names[option->arg->type_name->n_names - 1]
			->string->sval;
	default:
		return "true";
	}
}

static bool is_true(const char *value)
{
	return strcasecmp(value, "true") == 0 || strcasecmp(value, "on") == 0 ||
	       strcmp(value, "1") == 0 || strcasecmp(value, "match") == 0;
}

static int take_option(struct pg_session *s, const char *name, const char *value,
		       struct pg_copy_out *how)
{
	bool one = strlen(value) == 1;

	if (strcmp(name, "format") == 0 || strcmp(name, "freeze") == 0)
		return 0;
	if (strcmp(name, "delimiter") == 0 && one)
		how->delimiter = *value;
	else if (strcmp(name, "quote") == 0 && one)
		how->quote = *value;
	else if (strcmp(name, "escape") == 0 && one && *value == how->quote)
		return 0;
	else if (strcmp(name, "header") == 0)
		how->header = is_true(value);
	else if (strcmp(name, "null") == 0 && strlen(value) < sizeof(how->null))
		strcpy(how->null, value);
	else if (strcmp(name, "encoding") == 0 && strncasecmp(value, "utf", 3) == 0)
		return 0;
	else {
		pg_error(s, "0A000", "COPY: option %s with the value \"%s\" is not supported", name,
			 value);
		return -1;
	}
	return 0;
}

static int copy_options(struct pg_session *s, const PgQuery__CopyStmt *copy,
			struct pg_copy_out *how)
{
	char number[16];

	*how = (struct pg_copy_out){PG_COPY_TEXT, '\t', '"', false, "\\N"};
	for (size_t i = 0; i < copy->n_options; i++) {
		const PgQuery__DefElem *option = copy->options[i]->def_elem;
		const char *value = option_text(option, number);

		if (strcmp(option->defname, "format") != 0)
			continue;
		if (strcasecmp(value, "csv") == 0)
			*how = (struct pg_copy_out){PG_COPY_CSV, ',', '"', false, ""};
		else if (strcasecmp(value, "binary") == 0)
			how->format = PG_COPY_BINARY;
		else if (strcasecmp(value, "text") != 0) {
			pg_error(s, "22023", "COPY format \"%s\" not recognized", value);
			return -1;
		}
	}
	for (size_t i = 0; i < copy->n_options; i++) {
		const PgQuery__DefElem *option = copy->options[i]->def_elem;

		if (take_option(s, option->defname, option_text(option, number), how) < 0)
			return -1;
	}
	return 0;
}

/* A quoted name. */
static void put_name(FILE *out, const char *name)
{
	fputc('"', out);
	for (; *name; name++) {
		if (*name == '"')
			fputc('"', out);
		fputc(*name, out);
	}
	fputc('"', out);
}

/* Names of columns, separated by commas; "" for none. */
static char *column_list(const PgQuery__CopyStmt *copy)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	for (size_t i = 0; i < copy->n_attlist; i++) {
		fputs(i > 0 ? "," : "", out);
		put_name(out, copy->attlist[i]->string->sval);
	}
	return fclose(out) == 0 ? text : (free(text), NULL);
}

static char *copied_query(const PgQuery__CopyStmt *copy, const char *text)
{
	char *query = NULL, *columns;
	size_t length;
	FILE *out;

	if (!copy->relation)
		return pg_text_in_parentheses(text);
	columns = column_list(copy);
	out = columns ? open_memstream(&query, &length) : NULL;
	if (!out) {
		free(columns);
		return NULL;
	}
	fprintf(out, "select %s from ", *columns ? columns : "*");
	put_name(out, copy->relation->relname);
	free(columns);
	return fclose(out) == 0 ? query : (free(query), NULL);
}

static int copy_out(struct pg_session *s, const PgQuery__CopyStmt *copy, const char *text,
		    const struct pg_copy_out *how)
{
	struct pg_rows rows = {.session = s, .wire = &s->wire, .copy = how};
	char *query = copied_query(copy, text);
	struct pg_portal *portal = NULL;
	struct pg_prepared *p;
	int rc;

	if (!query) {
		pg_error(s, "53200", "out of memory");
		return -1;
	}
	rc = pg_prepare(s, "", query, 0, NULL, &p);
	free(query);
	if (rc < 0)
		return -1;
	if (p->has_rows)
		portal = pg_new_portal(s, "copy to", p);
	pg_release_prepared(p);
	if (!portal) {
		pg_error(s, "0A000", "COPY needs a query that returns rows");
		return -1;
	}
	rc = pg_run_engine(s, portal, &rows);
	pg_drop_portal(s, portal);
	if (rc < 0)
		return -1;
	if (how->format == PG_COPY_BINARY) {
		pg_put_begin(&s->wire, 'd');
		pg_put_i16(&s->wire, -1);
		(void)pg_put_end(&s->wire);
	}
	(void)pg_put_empty(&s->wire, 'c');
	return pg_complete(s, "COPY %llu", (unsigned long long)rows.count);
}

static int run_copy(struct pg_session *s, const PgQuery__CopyStmt *copy, const char *text)
{
	struct pg_copy_out how;
	char *columns;
	int rc;

	if (copy->is_program || (copy->filename && *copy->filename)) {
		pg_error(s, "42501",
			 "COPY reads and writes no files of the server; use STDIN and STDOUT, or "
			 "\\copy in psql");
		return -1;
	}
	if (copy_options(s, copy, &how) < 0)
		return -1;
	if (!copy->is_from)
		return copy_out(s, copy, text, &how);
	if (copy->where_clause) {
		pg_error(s, "0A000", "COPY ... WHERE is not supported");
		return -1;
	}
	columns = column_list(copy);
	rc = columns ? pg_copy_in(s, copy->relation->relname, columns, &how) : -1;
	if (!columns)
		pg_error(s, "53200", "out of memory");
	free(columns);
	return rc;
}

/* ---- all of them ---- */

static int parse(struct pg_session *s, const char *text, struct pg_tree *tree)
{
	struct sql_error error;
	int rc = pg_tree_parse(tree, text, &error);

	if (rc < 0) {
		pg_error_at(s, pg_sqlstate(rc, error.text),
			    error.at < 0 ? 0 : (unsigned)error.at + 1, error.text);
		pg_tree_free(tree);
		return -1;
	}
	return 0;
}

static int text_columns(struct pg_column **columns, unsigned *count, const char *const *names,
			unsigned n)
{
	*columns = calloc(n + 1, sizeof(**columns));
	*count = n;
	for (unsigned i = 0; *columns && i < n; i++) {
		(*columns)[i] = (struct pg_column){strdup(names[i]), PG_TEXT, -1, 0, 0};
		if (!(*columns)[i].name) {
			pg_free_columns(*columns, n);
			*columns = NULL;
		}
	}
	return *columns ? 0 : -ENOMEM;
}

static int copy_columns(const struct pg_prepared *p, struct pg_column **columns, unsigned *count)
{
	*columns = calloc(p->column_count + 1, sizeof(**columns));
	*count = p->column_count;
	for (unsigned i = 0; *columns && i < p->column_count; i++) {
		(*columns)[i] = p->columns[i];
		(*columns)[i].name = strdup(p->columns[i].name);
		if (!(*columns)[i].name) {
			pg_free_columns(*columns, p->column_count);
			*columns = NULL;
		}
	}
	return *columns ? 0 : -ENOMEM;
}

int pg_utility_columns(struct pg_session *s, const char *text, struct pg_column **columns,
		       unsigned *count)
{
	static const char *const all[] = {"name", "setting", "description"};
	struct pg_portal *cursor;
	struct pg_tree tree;
	const char *name;
	int rc = 0;

	*columns = NULL;
	*count = 0;
	if (parse(s, text, &tree) < 0)
		return -1;
	if (tree.node && tree.node->node_case == PG_QUERY__NODE__NODE_VARIABLE_SHOW_STMT) {
		name = shown_name(tree.node->variable_show_stmt->name);
		if (strcasecmp(name, "all") == 0)
			rc = text_columns(columns, count, all, 3);
		else
			rc = text_columns(columns, count, &name, 1);
	} else if (tree.node && tree.node->node_case == PG_QUERY__NODE__NODE_FETCH_STMT &&
		   !tree.node->fetch_stmt->ismove) {
		cursor = pg_find_portal(s, tree.node->fetch_stmt->portalname);
		if (cursor && cursor->cursor)
			rc = copy_columns(cursor->prepared, columns, count);
	}
	pg_tree_free(&tree);
	if (rc < 0)
		pg_error(s, "53200", "out of memory");
	return rc < 0 ? -1 : 0;
}

/* What a statement in a failed transaction may be: its end. */
static bool ends_transaction(const PgQuery__Node *node)
{
	PgQuery__TransactionStmtKind kind;

	if (node->node_case != PG_QUERY__NODE__NODE_TRANSACTION_STMT)
		return false;
	kind = node->transaction_stmt->kind;
	return kind == PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_COMMIT ||
	       kind == PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_ROLLBACK ||
	       kind == PG_QUERY__TRANSACTION_STMT_KIND__TRANS_STMT_ROLLBACK_TO;
}

static int run_node(struct pg_session *s, const PgQuery__Node *node, const char *text,
		    const struct pg_portal *portal, bool describe)
{
	struct pg_column *columns;
	unsigned count;

	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_TRANSACTION_STMT:
		return run_transaction(s, node->transaction_stmt);
	case PG_QUERY__NODE__NODE_VARIABLE_SET_STMT:
		return run_set(s, node->variable_set_stmt);
	case PG_QUERY__NODE__NODE_VARIABLE_SHOW_STMT:
		if (describe && pg_utility_columns(s, text, &columns, &count) == 0) {
			(void)pg_put_columns(&s->wire, columns, count, NULL, 0);
			pg_free_columns(columns, count);
		}
		return run_show(s, node->variable_show_stmt->name);
	case PG_QUERY__NODE__NODE_DECLARE_CURSOR_STMT:
		return run_declare(s, node->declare_cursor_stmt, text, portal);
	case PG_QUERY__NODE__NODE_FETCH_STMT:
		return run_fetch(s, node->fetch_stmt, describe);
	case PG_QUERY__NODE__NODE_CLOSE_PORTAL_STMT:
		return run_close(s, node->close_portal_stmt->portalname);
	case PG_QUERY__NODE__NODE_DEALLOCATE_STMT:
		return run_deallocate(s, node->deallocate_stmt->name);
	case PG_QUERY__NODE__NODE_DISCARD_STMT:
		return run_discard(s, node->discard_stmt);
	case PG_QUERY__NODE__NODE_COPY_STMT:
		return run_copy(s, node->copy_stmt, text);
	case PG_QUERY__NODE__NODE_UNLISTEN_STMT:
		return pg_complete(s, "UNLISTEN");
	case PG_QUERY__NODE__NODE_VACUUM_STMT: /* facts about columns are kept as rows arrive */
		return pg_complete(s, node->vacuum_stmt->is_vacuumcmd ? "VACUUM" : "ANALYZE");
	case PG_QUERY__NODE__NODE_CHECK_POINT_STMT: /* what is committed is durable */
		return pg_complete(s, "CHECKPOINT");
	default:
		pg_error(s, "0A000", "%.*s is not supported", (int)strcspn(text, " \t\r\n;"), text);
		return -1;
	}
}

int pg_utility(struct pg_session *s, const char *text, const struct pg_portal *portal,
	       bool describe)
{
	struct pg_tree tree;
	int rc;

	if (parse(s, text, &tree) < 0)
		return -1;
	if (!tree.node) {
		rc = pg_put_empty(&s->wire, 'I') < 0 ? -1 : 0;
	} else if (s->status == 'E' && !ends_transaction(tree.node)) {
		pg_error(s, "25P02",
			 "current transaction is aborted, commands ignored until end of "
			 "transaction block");
		rc = -1;
	} else {
		rc = run_node(s, tree.node, text, portal, describe);
	}
	pg_tree_free(&tree);
	return rc;
}
