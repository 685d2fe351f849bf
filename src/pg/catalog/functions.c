/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions of catalog queries. */
#include "pg/catalog/catalog.h"

#include "fathom/base/version.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const struct cat_value null_text = {NULL, PG_TEXT};

/* Functions with the same answer for all arguments; NULL: null. */
static const struct {
	const char *name, *value;
	uint32_t oid;
} plain[] = {
	{"pg_table_is_visible", "t", PG_BOOL},
	{"pg_type_is_visible", "t", PG_BOOL},
	{"pg_function_is_visible", "t", PG_BOOL},
	{"pg_collation_is_visible", "t", PG_BOOL},
	{"pg_opclass_is_visible", "t", PG_BOOL},
	{"pg_operator_is_visible", "t", PG_BOOL},
	{"has_table_privilege", "t", PG_BOOL},
	{"has_schema_privilege", "t", PG_BOOL},
	{"has_database_privilege", "t", PG_BOOL},
	{"has_column_privilege", "t", PG_BOOL},
	{"has_any_column_privilege", "t", PG_BOOL},
	{"has_function_privilege", "t", PG_BOOL},
	{"pg_has_role", "t", PG_BOOL},
	{"pg_is_in_recovery", "f", PG_BOOL},
	{"pg_is_other_temp_schema", "f", PG_BOOL},
	{"pg_my_temp_schema", "0", PG_OID},
	{"pg_relation_is_publishable", "f", PG_BOOL},
	{"row_security_active", "f", PG_BOOL},
	{"pg_advisory_unlock_all", "", PG_VOID},
	{"obj_description", NULL, PG_TEXT},
	{"col_description", NULL, PG_TEXT},
	{"shobj_description", NULL, PG_TEXT},
	{"pg_get_expr", NULL, PG_TEXT},
	{"pg_get_constraintdef", NULL, PG_TEXT},
	{"pg_get_indexdef", NULL, PG_TEXT},
	{"pg_get_serial_sequence", NULL, PG_TEXT},
	{"pg_get_statisticsobjdef_columns", NULL, PG_TEXT},
	{"pg_tablespace_location", "", PG_TEXT},
	{"pg_encoding_to_char", "UTF8", PG_NAME},
	{"pg_char_to_encoding", "6", PG_INT4},
	{"pg_client_encoding", "UTF8", PG_NAME},
	{"getdatabaseencoding", "UTF8", PG_NAME},
	{"current_schema", "public", PG_NAME},
	{"inet_server_addr", NULL, PG_TEXT},
	{"inet_server_port", NULL, PG_INT4},
	{"pg_postmaster_start_time", NULL, PG_TIMESTAMPTZ},
	{"txid_current", "1", PG_INT8},
};

static const struct {
	const char *name;
	uint32_t oid;
} typed[] = {
	{"count", PG_INT8},
	{"row_number", PG_INT8},
	{"sum", PG_INT8},
	{"bool_or", PG_BOOL},
	{"bool_and", PG_BOOL},
	{"array_agg", PG_TEXT_ARRAY},
	{"length", PG_INT4},
	{"array_length", PG_INT4},
	{"array_upper", PG_INT4},
	{"array_lower", PG_INT4},
	{"cardinality", PG_INT4},
	{"pg_backend_pid", PG_INT4},
	{"pg_table_size", PG_INT8},
	{"pg_total_relation_size", PG_INT8},
	{"pg_relation_size", PG_INT8},
	{"pg_database_size", PG_INT8},
	{"current_schemas", PG_NAME_ARRAY},
	{"current_database", PG_NAME},
	{"pg_get_userbyid", PG_NAME},
	{"current_user", PG_NAME},
	{"to_regclass", PG_REGCLASS},
	{"to_regtype", PG_REGTYPE},
	{"mod", PG_INT4},
	{"abs", PG_INT4},
};

uint32_t cat_function_type(const char *name)
{
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(plain[i].name, name) == 0)
			return plain[i].oid;
	for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++)
		if (strcmp(typed[i].name, name) == 0)
			return typed[i].oid;
	return PG_TEXT;
}

bool cat_is_aggregate(const char *name)
{
	static const char *const names[] = {"count",   "max",	   "min",	"sum",
					    "bool_or", "bool_and", "array_agg", "string_agg"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* ---- aggregates ---- */

struct sorted {
	struct cat_value value, key;
};

static int by_key(const void *a, const void *b)
{
	return cat_compare(((const struct sorted *)a)->key, ((const struct sorted *)b)->key);
}

static struct cat_value join_values(struct cat *c, const struct sorted *s, unsigned n,
				    const char *separator)
{
	size_t room = 1;
	char *text, *at;

	for (unsigned i = 0; i < n; i++)
		room += strlen(s[i].value.text) + strlen(separator);
	at = text = sql_alloc(c->ctx, room);
	for (unsigned i = 0; i < n; i++)
		at = stpcpy(stpcpy(at, i > 0 ? separator : ""), s[i].value.text);
	return cat_text(text);
}

static struct cat_value fold(struct cat *c, const char *name, const struct sorted *s, unsigned n)
{
	struct cat_value best = null_text;
	long long sum = 0;

	for (unsigned i = 0; i < n; i++) {
		struct cat_value v = s[i].value;
		int order = best.text ? cat_compare(v, best) : 0;

		sum += strtoll(v.text, NULL, 10);
		if (!best.text || (strcmp(name, "max") == 0 && order > 0) ||
		    (strcmp(name, "min") == 0 && order < 0) ||
		    (strcmp(name, "bool_or") == 0 && cat_true(v)) ||
		    (strcmp(name, "bool_and") == 0 && !cat_true(v)))
			best = v;
	}
	return strcmp(name, "sum") == 0 && best.text ? cat_number(c, PG_INT8, sum) : best;
}

static struct cat_value aggregate(struct cat *c, struct cat_scope *scope, const char *name,
				  const PgQuery__FuncCall *call)
{
	const struct cat_group *group = scope ? scope->group : NULL;
	bool listed = strcmp(name, "array_agg") == 0;
	struct sorted *items;
	struct cat_value *values;
	unsigned n = 0;
	const char *separator = "";

	if (!group)
		sql_wrong(c->ctx, call->location, "aggregate %s is not allowed here", name);
	items = SQL_ARRAY(c->ctx, struct sorted, group->count + 1);
	scope->group = NULL;
	for (unsigned i = 0; i < group->count; i++) {
		struct cat_value v = cat_bool(true);

		for (unsigned k = 0; k < scope->count; k++)
			scope->items[k].row =
				group->all->rows[(size_t)group->tuples[i] * scope->count + k];
		if (call->agg_filter && !cat_true(cat_eval(c, scope, call->agg_filter)))
			continue;
		if (call->n_args > 0)
			v = cat_eval(c, scope, call->args[0]);
		if (call->n_args > 1)
			separator = cat_eval(c, scope, call->args[1]).text;
		if (!v.text && !listed)
			continue;
		items[n++] = (struct sorted){
			v, call->n_agg_order ? cat_eval(c, scope, call->agg_order[0]->sort_by->node)
					     : null_text};
	}
	scope->group = group;
	if (call->n_agg_order || call->agg_distinct) {
		for (unsigned i = 0; call->agg_distinct && i < n; i++)
			items[i].key = items[i].value;
		qsort(items, n, sizeof(*items), by_key);
	}
	if (call->agg_distinct) {
		unsigned kept = 0;

		for (unsigned i = 0; i < n; i++)
			if (i == 0 || by_key(&items[i - 1], &items[i]) != 0)
				items[kept++] = items[i];
		n = kept;
	}
	if (strcmp(name, "count") == 0)
		return cat_number(c, PG_INT8, n);
	if (strcmp(name, "string_agg") == 0)
		return n ? join_values(c, items, n, separator ? separator : "") : null_text;
	if (!listed)
		return fold(c, name, items, n);
	values = SQL_ARRAY(c->ctx, struct cat_value, n + 1);
	for (unsigned i = 0; i < n; i++)
		values[i] = items[i].value;
	return n ? cat_array(c, n, values, PG_TEXT_ARRAY) : null_text;
}

/* ---- functions of rows ---- */

static struct cat_value quote_ident(struct cat *c, const char *text)
{
	bool bare = islower((unsigned char)*text) || *text == '_';

	for (const char *p = text; *p; p++)
		bare &= islower((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '_';
	return cat_text(bare ? text : sql_format(c->ctx, "\"%s\"", text));
}

static struct cat_value session_call(struct cat *c, const char *name, unsigned n,
				     const struct cat_value *args, bool *found)
{
	const char *text;
	time_t now;
	struct tm tm;

	*found = true;
	if (strcmp(name, "version") == 0)
		return cat_text(
			sql_format(c->ctx, "PostgreSQL %s (Fathom %s)", PG_VERSION, fth_version()));
	if (strcmp(name, "current_database") == 0 || strcmp(name, "current_catalog") == 0)
		return (struct cat_value){c->session->database, PG_NAME};
	if (strcmp(name, "pg_get_userbyid") == 0)
		return (struct cat_value){c->session->user, PG_NAME};
	if (strcmp(name, "pg_backend_pid") == 0)
		return cat_number(c, PG_INT4, c->session->pid);
	if (strcmp(name, "current_schemas") == 0)
		return (struct cat_value){
			n && cat_true(args[0]) ? "{pg_catalog,public}" : "{public}", PG_NAME_ARRAY};
	if (strcmp(name, "current_setting") == 0 && n >= 1 && args[0].text) {
		text = pg_setting(c->session, args[0].text);
		if (!text && n == 1)
			sql_wrong(c->ctx, -1, "unrecognized configuration parameter \"%s\"",
				  args[0].text);
		return cat_text(text);
	}
	if (strcmp(name, "set_config") == 0 && n == 3 && args[0].text) {
		if (pg_setting(c->session, args[0].text) == NULL && !strchr(args[0].text, '.'))
			sql_wrong(c->ctx, -1, "unrecognized configuration parameter \"%s\"",
				  args[0].text);
		(void)pg_set(c->session, args[0].text, args[1].text);
		return args[1];
	}
	if (strcmp(name, "now") == 0 || strcmp(name, "current_date") == 0) {
		char to[40];

		now = time(NULL);
		gmtime_r(&now, &tm);
		strftime(to, sizeof(to), *name == 'n' ? "%Y-%m-%d %H:%M:%S+00" : "%Y-%m-%d", &tm);
		return (struct cat_value){sql_copy(c->ctx, to), *name == 'n' ? PG_TEXT : PG_DATE};
	}
	*found = false;
	return null_text;
}

static struct cat_value object_call(struct cat *c, const char *name, unsigned n,
				    const struct cat_value *args, bool *found)
{
	struct cat_value *items;
	const char *text = n > 0 ? args[0].text : NULL;
	unsigned count;

	*found = true;
	if (strcmp(name, "format_type") == 0)
		return cat_text(
			text ? cat_type_name(c, (uint32_t)strtoul(text, NULL, 10),
					     n > 1 && args[1].text ? atoi(args[1].text) : -1)
			     : NULL);
	if (strcmp(name, "pg_get_viewdef") == 0)
		return cat_text(text ? cat_view_text(c, text) : NULL);
	if (strcmp(name, "to_regclass") == 0)
		return (struct cat_value){text ? cat_relation_oid(c, text) : NULL, PG_REGCLASS};
	if (strcmp(name, "to_regtype") == 0)
		return text && cat_type_oid(text) ? cat_number(c, PG_REGTYPE, cat_type_oid(text))
						  : null_text;
	if (strcmp(name, "pg_table_size") == 0 || strcmp(name, "pg_relation_size") == 0 ||
	    strcmp(name, "pg_total_relation_size") == 0 || strcmp(name, "pg_database_size") == 0)
		return (struct cat_value){NULL, PG_INT8}; /* not known here */
	if (strcmp(name, "pg_size_pretty") == 0)
		return cat_text(text ? sql_format(c->ctx, "%s bytes", text) : NULL);
	if (strcmp(name, "array_to_string") == 0 && n >= 2) {
		struct sorted *sorted;

		if (!text || !args[1].text)
			return null_text;
		count = cat_elements(c, text, &items, PG_TEXT);
		sorted = SQL_ARRAY(c->ctx, struct sorted, count + 1);
		n = 0;
		for (unsigned i = 0; i < count; i++)
			if (items[i].text)
				sorted[n++].value = items[i];
		return join_values(c, sorted, n, args[1].text);
	}
	if (strcmp(name, "array_length") == 0 || strcmp(name, "array_upper") == 0 ||
	    strcmp(name, "cardinality") == 0)
		return text ? cat_number(c, PG_INT4, cat_elements(c, text, &items, PG_TEXT))
			    : (struct cat_value){NULL, PG_INT4};
	if (strcmp(name, "array_lower") == 0)
		return (struct cat_value){"1", PG_INT4};
	*found = false;
	return null_text;
}

static struct cat_value text_call(struct cat *c, const char *name, unsigned n,
				  const struct cat_value *args, bool *found)
{
	const char *text = n > 0 ? args[0].text : NULL;
	char *copy;

	*found = true;
	if (strcmp(name, "concat") == 0) {
		copy = sql_copy(c->ctx, "");
		for (unsigned i = 0; i < n; i++)
			if (args[i].text)
				copy = sql_format(c->ctx, "%s%s", copy, args[i].text);
		return cat_text(copy);
	}
	if (n > 0 && !text) {
		*found = cat_function_type(name) != PG_TEXT ||
			 strstr(" upper lower length quote_ident "
				"substring substr replace split_part "
				"btrim rtrim ltrim abs quote_literal",
				name);
		return null_text;
	}
	if ((strcmp(name, "upper") == 0 || strcmp(name, "lower") == 0) && n == 1) {
		copy = sql_copy(c->ctx, text);
		for (char *p = copy; *p; p++)
			*p = (char)(*name == 'u' ? toupper((unsigned char)*p)
						 : tolower((unsigned char)*p));
		return cat_text(copy);
	}
	if (strcmp(name, "length") == 0 && n == 1)
		return cat_number(c, PG_INT4, (long long)strlen(text));
	if (strcmp(name, "quote_ident") == 0)
		return quote_ident(c, text);
	if (strcmp(name, "quote_literal") == 0)
		return cat_text(sql_format(c->ctx, "'%s'", text));
	if ((strcmp(name, "substring") == 0 || strcmp(name, "substr") == 0) && n >= 2 &&
	    args[1].text) {
		long from = strtol(args[1].text, NULL, 10) - 1, length = (long)strlen(text);
		long take = n > 2 && args[2].text ? strtol(args[2].text, NULL, 10) : length;

		from = from < 0 ? 0 : from > length ? length : from;
		take = take < 0 ? 0 : take > length - from ? length - from : take;
		return cat_text(sql_format(c->ctx, "%.*s", (int)take, text + from));
	}
	if ((strcmp(name, "btrim") == 0 || strcmp(name, "rtrim") == 0 ||
	     strcmp(name, "ltrim") == 0) &&
	    n == 1) {
		copy = sql_copy(c->ctx, text);
		while (*name != 'l' && *copy && copy[strlen(copy) - 1] == ' ')
			copy[strlen(copy) - 1] = '\0';
		while (*name != 'r' && *copy == ' ')
			copy++;
		return cat_text(copy);
	}
	if (strcmp(name, "abs") == 0)
		return cat_number(c, PG_INT4, llabs(strtoll(text, NULL, 10)));
	*found = false;
	return null_text;
}

struct cat_value cat_call(struct cat *c, struct cat_scope *scope, const char *name,
			  const PgQuery__FuncCall *call, unsigned n, const struct cat_value *args)
{
	struct cat_value v;
	bool found;

	if (call && call->over) {
		if (strcmp(name, "row_number") != 0 || !scope || !scope->group ||
		    !scope->group->window)
			sql_unsupported(c->ctx, call->location, "window function %s here", name);
		return cat_number(c, PG_INT8, scope->group->number);
	}
	if (call && cat_is_aggregate(name))
		return aggregate(c, scope, name, call);
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (strcmp(plain[i].name, name) == 0)
			return (struct cat_value){plain[i].value, plain[i].oid};
	v = session_call(c, name, n, args, &found);
	if (!found)
		v = object_call(c, name, n, args, &found);
	if (!found)
		v = text_call(c, name, n, args, &found);
	if (!found)
		sql_wrong(c->ctx, call ? call->location : -1, "function \"%s\" does not exist",
			  name);
	return v;
}

/* ---- functions in FROM ---- */

struct cat_rel *cat_rows_of(struct cat *c, const char *name, unsigned n,
			    const struct cat_value *args)
{
	static const char *const pair[] = {"x", "n"}, *const word[] = {"word", "catcode",
								       "barelabel", "catdesc",
								       "baredesc"};
	bool expand = strcmp(name, "_pg_expandarray") == 0;
	struct cat_value *items, *row;
	struct cat_rel *rel;
	unsigned count;

	if (strcmp(name, "generate_series") == 0 || strcmp(name, "generate_subscripts") == 0) {
		long long from = 1, to = 0;

		rel = cat_new(c, 1, &name);
		rel->columns[0].oid = PG_INT4;
		if (strcmp(name, "generate_subscripts") == 0) {
			if (n > 0 && args[0].text)
				to = cat_elements(c, args[0].text, &items, PG_TEXT);
		} else if (n >= 2 && args[0].text && args[1].text) {
			from = strtoll(args[0].text, NULL, 10);
			to = strtoll(args[1].text, NULL, 10);
		}
		for (; from <= to; from++) {
			if (++c->steps > 1000000)
				sql_wrong(c->ctx, -1, "%s has more than 1000000 rows", name);
			*cat_add(c, rel) = cat_number(c, PG_INT4, from);
		}
		return rel;
	}
	if (strcmp(name, "unnest") == 0 || expand) {
		rel = cat_new(c, expand ? 2 : 1, expand ? pair : &name);
		count = n > 0 && args[0].text ? cat_elements(c, args[0].text, &items,
							     pg_element_type(args[0].oid))
					      : 0;
		for (unsigned i = 0; i < count; i++) {
			row = cat_add(c, rel);
			row[0] = items[i];
			if (expand)
				row[1] = cat_number(c, PG_INT4, i + 1);
		}
		return rel;
	}
	if (strcmp(name, "pg_get_keywords") == 0)
		return cat_new(c, 5, word);
	return NULL;
}
