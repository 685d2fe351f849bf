/* SPDX-License-Identifier: BSD-2-Clause */
/* Expressions of catalog queries, row by row. All values are text with a type. */
#include "pg/catalog/catalog.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STEPS_MAX 20000000u /* expressions of one statement: some seconds */

struct cat_value cat_text(const char *text)
{
	return (struct cat_value){text, PG_TEXT};
}

struct cat_value cat_number(struct cat *c, uint32_t oid, long long n)
{
	return (struct cat_value){sql_format(c->ctx, "%lld", n), oid};
}

struct cat_value cat_bool(bool truth)
{
	return (struct cat_value){truth ? "t" : "f", PG_BOOL};
}

static struct cat_value null_of(uint32_t oid)
{
	return (struct cat_value){NULL, oid};
}

bool cat_true(struct cat_value v)
{
	return v.text && (*v.text == 't' || *v.text == '1' || *v.text == 'T');
}

static bool is_number(const char *text)
{
	char *end;

	if (!isdigit((unsigned char)*text) && *text != '-' && *text != '.')
		return false;
	strtod(text, &end);
	return end != text && *end == '\0';
}

static bool is_text_type(uint32_t oid)
{
	return oid == PG_TEXT || oid == PG_NAME || oid == PG_VARCHAR || oid == PG_BPCHAR ||
	       oid == PG_CHAR;
}

int cat_compare(struct cat_value a, struct cat_value b)
{
	if (!a.text || !b.text)
		return !a.text - !b.text; /* NULLs last */
	if (!(is_text_type(a.oid) && is_text_type(b.oid)) && is_number(a.text) &&
	    is_number(b.text)) {
		double x = strtod(a.text, NULL), y = strtod(b.text, NULL);

		return x < y ? -1 : x > y;
	}
	if (a.oid == PG_BOOL || b.oid == PG_BOOL)
		return (int)cat_true(a) - (int)cat_true(b);
	return strcmp(a.text, b.text);
}

const char *cat_string(struct cat *c, const PgQuery__Node *node)
{
	if (!node || node->node_case != PG_QUERY__NODE__NODE_STRING)
		sql_unsupported(c->ctx, -1, "this form of a name in a query of catalogs");
	return node->string->sval;
}

/* ---- arrays ---- */

unsigned cat_elements(struct cat *c, const char *text, struct cat_value **out, uint32_t oid)
{
	size_t n = strlen(text), count = 0;
	struct cat_value *items = SQL_ARRAY(c->ctx, struct cat_value, n + 1);
	const char *at = text;

	while (*at) {
		char *item = sql_alloc(c->ctx, n + 1);
		size_t length = 0;
		bool quoted;

		while (*at == '{' || *at == ',' || *at == ' ')
			at++;
		if (!*at || *at == '}')
			break;
		quoted = *at == '"';
		at += quoted;
		while (*at && (quoted ? *at != '"' : !strchr(",} ", *at))) {
			if (*at == '\\' && at[1])
				at++;
			item[length++] = *at++;
		}
		at += quoted && *at;
		items[count++] = !quoted && strcasecmp(item, "null") == 0
					 ? null_of(oid)
					 : (struct cat_value){item, oid};
	}
	*out = items;
	return (unsigned)count;
}

struct cat_value cat_array(struct cat *c, unsigned n, const struct cat_value *items, uint32_t oid)
{
	size_t room = 3;
	char *text, *at;

	for (unsigned i = 0; i < n; i++)
		room += items[i].text ? 2 * strlen(items[i].text) + 3 : 5;
	at = text = sql_alloc(c->ctx, room);
	*at++ = '{';
	for (unsigned i = 0; i < n; i++) {
		const char *item = items[i].text;
		bool quoted = item && (!*item || strpbrk(item, "{},\"\\ ") ||
				       strcasecmp(item, "null") == 0);

		if (i > 0)
			*at++ = ',';
		if (!item) {
			at = stpcpy(at, "NULL");
			continue;
		}
		if (quoted)
			*at++ = '"';
		for (; *item; item++) {
			if (*item == '"' || *item == '\\')
				*at++ = '\\';
			*at++ = *item;
		}
		if (quoted)
			*at++ = '"';
	}
	*at++ = '}';
	return (struct cat_value){text, oid};
}

static uint32_t array_of(uint32_t oid)
{
	switch (oid) {
	case PG_INT2:
		return PG_INT2_ARRAY;
	case PG_INT4:
		return PG_INT4_ARRAY;
	case PG_OID:
		return PG_OID_ARRAY;
	case PG_NAME:
		return PG_NAME_ARRAY;
	default:
		return PG_TEXT_ARRAY;
	}
}

/* ---- names ---- */

static bool find_in(const struct cat_item *item, const char *table, const char *name,
		    struct cat_value *out)
{
	if (table && strcmp(table, item->alias) != 0)
		return false;
	for (unsigned i = 0; i < item->rel->width; i++) {
		if (strcmp(item->rel->columns[i].name, name) != 0)
			continue;
		*out = null_of(item->rel->columns[i].oid);
		if (item->row >= 0)
			out->text = item->rel->cells[(size_t)item->row * item->rel->width + i].text;
		return true;
	}
	/* A function in FROM with one column: its alias names the column. */
	if (!table && strcmp(item->alias, name) == 0 && item->rel->width == 1) {
		*out = null_of(item->rel->columns[0].oid);
		if (item->row >= 0)
			out->text = item->rel->cells[item->row].text;
		return true;
	}
	return false;
}

static struct cat_value eval_column(struct cat *c, struct cat_scope *scope,
				    const PgQuery__ColumnRef *ref)
{
	const char *name = cat_string(c, ref->fields[ref->n_fields - 1]);
	const char *table =
		ref->n_fields > 1 ? cat_string(c, ref->fields[ref->n_fields - 2]) : NULL;
	struct cat_value v;

	for (struct cat_scope *s = scope; s; s = s->outer)
		for (unsigned i = 0; i < s->count; i++)
			if (find_in(&s->items[i], table, name, &v))
				return v;
	if (table)
		sql_wrong(c->ctx, ref->location, "column \"%s.%s\" does not exist", table, name);
	sql_wrong(c->ctx, ref->location, "column \"%s\" does not exist", name);
}

/* ---- operators ---- */

static bool match_regex(struct cat *c, const char *text, const char *pattern, bool fold)
{
	regex_t compiled;
	int found;

	if (strncmp(pattern, "(?i)", 4) == 0) {
		pattern += 4;
		fold = true;
	}
	if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB | (fold ? REG_ICASE : 0)) != 0)
		sql_wrong(c->ctx, -1, "invalid regular expression: %.100s", pattern);
	found = regexec(&compiled, text, 0, NULL, 0);
	regfree(&compiled);
	return found == 0;
}

static bool match_like(const char *text, const char *pattern, bool fold)
{
	for (; *pattern; pattern++, text++) {
		if (*pattern == '%') {
			while (*pattern == '%')
				pattern++;
			if (!*pattern)
				return true;
			for (; *text; text++)
				if (match_like(text, pattern, fold))
					return true;
			return match_like(text, pattern, fold);
		}
		if (!*text)
			return false;
		if (*pattern == '_')
			continue;
		if (*pattern == '\\' && pattern[1])
			pattern++;
		if (fold ? tolower((unsigned char)*text) != tolower((unsigned char)*pattern)
			 : *text != *pattern)
			return false;
	}
	return !*text;
}

static struct cat_value arithmetic(struct cat *c, char op, struct cat_value a, struct cat_value b,
				   int at)
{
	long long x = strtoll(a.text, NULL, 10), y = strtoll(b.text, NULL, 10), r;
	uint32_t oid = a.oid == PG_INT8 || b.oid == PG_INT8 ? PG_INT8 : PG_INT4;

	if ((op == '/' || op == '%') && y == 0)
		sql_wrong(c->ctx, at, "division by zero");
	if ((op == '/' || op == '%') && y == -1) {
		y = 1;
		x = op == '/' ? (long long)(0 - (unsigned long long)x) : 0;
	}
	r = op == '+'	? (long long)((unsigned long long)x + (unsigned long long)y)
	    : op == '-' ? (long long)((unsigned long long)x - (unsigned long long)y)
	    : op == '*' ? (long long)((unsigned long long)x * (unsigned long long)y)
	    : op == '/' ? x / y
			: x % y;
	return cat_number(c, oid, r);
}

static struct cat_value apply(struct cat *c, const char *op, struct cat_value a, struct cat_value b,
			      int at)
{
	static const char *const comparisons[] = {"=", "<>", "!=", "<", "<=", ">", ">="};
	int order;

	if (!a.text || !b.text)
		return null_of(strcmp(op, "||") == 0 ? PG_TEXT : PG_BOOL);
	for (int i = 0; i < 7; i++) {
		if (strcmp(op, comparisons[i]) != 0)
			continue;
		order = cat_compare(a, b);
		return cat_bool(i == 0	 ? order == 0
				: i <= 2 ? order != 0
				: i == 3 ? order < 0
				: i == 4 ? order <= 0
				: i == 5 ? order > 0
					 : order >= 0);
	}
	if (strcmp(op, "||") == 0)
		return cat_text(sql_format(c->ctx, "%s%s", a.text, b.text));
	if (strcmp(op, "~") == 0 || strcmp(op, "~*") == 0)
		return cat_bool(match_regex(c, a.text, b.text, op[1] == '*'));
	if (strcmp(op, "!~") == 0 || strcmp(op, "!~*") == 0)
		return cat_bool(!match_regex(c, a.text, b.text, op[2] == '*'));
	if (strcmp(op, "~~") == 0 || strcmp(op, "~~*") == 0)
		return cat_bool(match_like(a.text, b.text, op[2] == '*'));
	if (strcmp(op, "!~~") == 0 || strcmp(op, "!~~*") == 0)
		return cat_bool(!match_like(a.text, b.text, op[3] == '*'));
	if (strlen(op) == 1 && strchr("+-*/%", *op))
		return arithmetic(c, *op, a, b, at);
	if (strcmp(op, "&") == 0)
		return cat_number(c, PG_INT4,
				  strtoll(a.text, NULL, 10) & strtoll(b.text, NULL, 10));
	if (strcmp(op, "@>") == 0 || strcmp(op, "<@") == 0) {
		struct cat_value *all, *some;
		bool left = *op == '@';
		unsigned n = cat_elements(c, left ? a.text : b.text, &all, PG_TEXT);
		unsigned m = cat_elements(c, left ? b.text : a.text, &some, PG_TEXT);

		for (unsigned i = 0; i < m; i++) {
			unsigned j = 0;

			while (j < n &&
			       (!all[j].text || !some[i].text || strcmp(all[j].text, some[i].text)))
				j++;
			if (j == n)
				return cat_bool(false);
		}
		return cat_bool(true);
	}
	sql_unsupported(c->ctx, at, "operator %s in a query of catalogs", op);
}

/* x op ANY (values), or ALL. */
static struct cat_value any_of(struct cat *c, const char *op, struct cat_value x, unsigned n,
			       const struct cat_value *items, bool all, int at)
{
	bool null = false;

	for (unsigned i = 0; i < n; i++) {
		struct cat_value one = apply(c, op, x, items[i], at);

		null |= !one.text;
		if (one.text && cat_true(one) != all)
			return cat_bool(!all);
	}
	return null ? null_of(PG_BOOL) : cat_bool(all);
}

static struct cat_value negate(struct cat_value v)
{
	return v.text ? cat_bool(!cat_true(v)) : v;
}

static struct cat_value eval_in(struct cat *c, struct cat_scope *scope, const PgQuery__AExpr *x,
				struct cat_value a)
{
	const PgQuery__List *list = x->rexpr->list;
	struct cat_value *items = SQL_ARRAY(c->ctx, struct cat_value, list->n_items + 1), v;

	for (size_t i = 0; i < list->n_items; i++)
		items[i] = cat_eval(c, scope, list->items[i]);
	v = any_of(c, "=", a, (unsigned)list->n_items, items, false, x->location);
	return strcmp(cat_string(c, x->name[0]), "<>") == 0 ? negate(v) : v;
}

static struct cat_value eval_a_expr(struct cat *c, struct cat_scope *scope, const PgQuery__AExpr *x)
{
	const char *op = cat_string(c, x->name[x->n_name - 1]);
	struct cat_value a = x->lexpr ? cat_eval(c, scope, x->lexpr)
				      : (struct cat_value){"0", PG_INT4},
			 b;
	struct cat_value *items;
	unsigned n;

	switch (x->kind) {
	case PG_QUERY__A__EXPR__KIND__AEXPR_IN:
		return eval_in(c, scope, x, a);
	case PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN:
	case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_BETWEEN:
		b = apply(c, ">=", a, cat_eval(c, scope, x->rexpr->list->items[0]), x->location);
		if (cat_true(b))
			b = apply(c, "<=", a, cat_eval(c, scope, x->rexpr->list->items[1]),
				  x->location);
		return x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_BETWEEN ? b : negate(b);
	default:
		break;
	}
	b = cat_eval(c, scope, x->rexpr);
	switch (x->kind) {
	case PG_QUERY__A__EXPR__KIND__AEXPR_OP:
	case PG_QUERY__A__EXPR__KIND__AEXPR_LIKE:
	case PG_QUERY__A__EXPR__KIND__AEXPR_ILIKE:
		return apply(c, op, a, b, x->location);
	case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ANY:
	case PG_QUERY__A__EXPR__KIND__AEXPR_OP_ALL:
		if (!b.text)
			return null_of(PG_BOOL);
		n = cat_elements(c, b.text, &items, pg_element_type(b.oid));
		return any_of(c, op, a, n, items, x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_OP_ALL,
			      x->location);
	case PG_QUERY__A__EXPR__KIND__AEXPR_DISTINCT:
		return cat_bool(cat_compare(a, b) != 0);
	case PG_QUERY__A__EXPR__KIND__AEXPR_NOT_DISTINCT:
		return cat_bool(cat_compare(a, b) == 0);
	case PG_QUERY__A__EXPR__KIND__AEXPR_NULLIF:
		return a.text && b.text && cat_compare(a, b) == 0 ? null_of(a.oid) : a;
	default:
		sql_unsupported(c->ctx, x->location, "this operator in a query of catalogs");
	}
}

static struct cat_value eval_logic(struct cat *c, struct cat_scope *scope,
				   const PgQuery__BoolExpr *x)
{
	bool is_or = x->boolop == PG_QUERY__BOOL_EXPR_TYPE__OR_EXPR, null = false;

	if (x->boolop == PG_QUERY__BOOL_EXPR_TYPE__NOT_EXPR)
		return negate(cat_eval(c, scope, x->args[0]));
	for (size_t i = 0; i < x->n_args; i++) {
		struct cat_value v = cat_eval(c, scope, x->args[i]);

		if (v.text && cat_true(v) == is_or)
			return cat_bool(is_or);
		null |= !v.text;
	}
	return null ? null_of(PG_BOOL) : cat_bool(!is_or);
}

/* ---- casts ---- */

static uint32_t type_named(struct cat *c, const PgQuery__TypeName *name)
{
	const char *text = cat_string(c, name->names[name->n_names - 1]);
	uint32_t oid = cat_type_oid(text);

	if (oid == 0)
		sql_wrong(c->ctx, name->location, "type \"%s\" does not exist", text);
	return name->n_array_bounds > 0 ? array_of(oid) : oid;
}

static struct cat_value eval_cast(struct cat *c, struct cat_scope *scope,
				  const PgQuery__TypeCast *x)
{
	struct cat_value v = cat_eval(c, scope, x->arg);
	uint32_t oid = type_named(c, x->type_name);
	const char *text;

	if (!v.text)
		return null_of(oid);
	switch (oid) {
	case PG_REGCLASS: /* kept as its number */
		if (is_number(v.text))
			return (struct cat_value){v.text, oid};
		text = cat_relation_oid(c, v.text);
		if (!text)
			sql_wrong(c->ctx, x->location, "table \"%s\" does not exist", v.text);
		return (struct cat_value){text, oid};
	case PG_REGTYPE:
		return is_number(v.text) ? (struct cat_value){v.text, oid}
					 : cat_number(c, oid, cat_type_oid(v.text));
	case PG_REGNAMESPACE:
		if (!is_number(v.text))
			v.text = strcmp(v.text, "pg_catalog") == 0 ? "11" : "2200";
		return (struct cat_value){v.text, oid};
	case PG_BOOL:
		return cat_bool(cat_true(v) || strcasecmp(v.text, "yes") == 0 ||
				strcasecmp(v.text, "on") == 0);
	case PG_TEXT:
	case PG_VARCHAR:
		if (v.oid == PG_REGCLASS && (text = cat_relation_name(c, v.text)))
			return (struct cat_value){text, oid};
		if (v.oid == PG_REGTYPE)
			return (struct cat_value){
				cat_type_name(c, (uint32_t)strtoul(v.text, NULL, 10), -1), oid};
		if (v.oid == PG_BOOL)
			return (struct cat_value){cat_true(v) ? "true" : "false", oid};
		return (struct cat_value){v.text, oid};
	default:
		return (struct cat_value){v.text, oid};
	}
}

/* ---- the rest ---- */

static struct cat_value eval_const(struct cat *c, const PgQuery__AConst *x)
{
	if (x->isnull)
		return null_of(PG_TEXT);
	switch (x->val_case) {
	case PG_QUERY__A__CONST__VAL_IVAL:
		return cat_number(c, PG_INT4, x->ival->ival);
	case PG_QUERY__A__CONST__VAL_FVAL:
		return (struct cat_value){x->fval->fval, PG_NUMERIC};
	case PG_QUERY__A__CONST__VAL_BOOLVAL:
		return cat_bool(x->boolval->boolval);
	case PG_QUERY__A__CONST__VAL_SVAL:
		return cat_text(x->sval->sval);
	default:
		sql_unsupported(c->ctx, x->location, "this constant in a query of catalogs");
	}
}

static struct cat_value eval_case(struct cat *c, struct cat_scope *scope,
				  const PgQuery__CaseExpr *x)
{
	struct cat_value value = x->arg ? cat_eval(c, scope, x->arg) : null_of(PG_TEXT);

	for (size_t i = 0; i < x->n_args; i++) {
		const PgQuery__CaseWhen *when = x->args[i]->case_when;
		struct cat_value test = cat_eval(c, scope, when->expr);

		if (x->arg)
			test = apply(c, "=", value, test, when->location);
		if (cat_true(test))
			return cat_eval(c, scope, when->result);
	}
	return x->defresult ? cat_eval(c, scope, x->defresult) : null_of(PG_TEXT);
}

static struct cat_value eval_sublink(struct cat *c, struct cat_scope *scope,
				     const PgQuery__SubLink *x)
{
	struct cat_rel *rel = cat_select(c, scope, x->subselect->select_stmt);
	struct cat_value *items = SQL_ARRAY(c->ctx, struct cat_value, rel->count + 1);

	for (unsigned i = 0; i < rel->count; i++)
		items[i] = rel->cells[(size_t)i * rel->width];
	switch (x->sub_link_type) {
	case PG_QUERY__SUB_LINK_TYPE__EXISTS_SUBLINK:
		return cat_bool(rel->count > 0);
	case PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK:
		if (rel->count > 1)
			sql_wrong(c->ctx, x->location,
				  "more than one row returned by a subquery used as an expression");
		return rel->count == 1 ? items[0] : null_of(rel->columns[0].oid);
	case PG_QUERY__SUB_LINK_TYPE__ARRAY_SUBLINK:
		return cat_array(c, rel->count, items, array_of(rel->columns[0].oid));
	case PG_QUERY__SUB_LINK_TYPE__ANY_SUBLINK:
	case PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK:
		return any_of(
			c, x->n_oper_name ? cat_string(c, x->oper_name[x->n_oper_name - 1]) : "=",
			cat_eval(c, scope, x->testexpr), rel->count, items,
			x->sub_link_type == PG_QUERY__SUB_LINK_TYPE__ALL_SUBLINK, x->location);
	default:
		sql_unsupported(c->ctx, x->location, "this subquery in a query of catalogs");
	}
}

static struct cat_value eval_subscript(struct cat *c, struct cat_scope *scope,
				       const PgQuery__AIndirection *x)
{
	struct cat_value v = cat_eval(c, scope, x->arg), index, *items;
	unsigned n;
	long at;

	if (x->n_indirection != 1 || x->indirection[0]->node_case != PG_QUERY__NODE__NODE_A_INDICES)
		return v; /* a field of what is one value here */
	index = cat_eval(c, scope, x->indirection[0]->a_indices->uidx);
	if (!v.text || !index.text)
		return null_of(PG_TEXT);
	n = cat_elements(c, v.text, &items,
			 pg_element_type(v.oid) ? pg_element_type(v.oid) : PG_TEXT);
	at = strtol(index.text, NULL, 10) -
	     (v.oid == PG_INT2VECTOR || v.oid == PG_OIDVECTOR ? 0 : 1);
	return at >= 0 && at < (long)n ? items[at] : null_of(PG_TEXT);
}

static struct cat_value eval_value_function(struct cat *c, const PgQuery__SQLValueFunction *x)
{
	switch (x->op) {
	case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_CATALOG:
		return (struct cat_value){c->session->database, PG_NAME};
	case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_SCHEMA:
		return (struct cat_value){"public", PG_NAME};
	case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_ROLE:
	case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_USER:
	case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_USER:
	case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_SESSION_USER:
		return (struct cat_value){c->session->user, PG_NAME};
	default:
		return cat_call(c, NULL,
				x->op == PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_DATE
					? "current_date"
					: "now",
				NULL, 0, NULL);
	}
}

static struct cat_value eval_call(struct cat *c, struct cat_scope *scope,
				  const PgQuery__FuncCall *call)
{
	const char *name = cat_string(c, call->funcname[call->n_funcname - 1]);
	struct cat_value args[16];

	if (call->n_args > 16)
		sql_unsupported(c->ctx, call->location, "a function with %zu arguments",
				call->n_args);
	if (call->over || cat_is_aggregate(name))
		return cat_call(c, scope, name, call, 0, NULL);
	for (size_t i = 0; i < call->n_args; i++)
		args[i] = cat_eval(c, scope, call->args[i]);
	return cat_call(c, scope, name, call, (unsigned)call->n_args, args);
}

static struct cat_value eval_param(struct cat *c, const PgQuery__ParamRef *ref)
{
	const struct pg_portal *p = c->portal;
	unsigned i = (unsigned)ref->number - 1;

	if (ref->number < 1 || i >= FTH_QUERY_PARAMETERS_MAX ||
	    (p && i >= p->prepared->param_count))
		sql_wrong(c->ctx, ref->location, "there is no parameter $%d", ref->number);
	if (!p)
		return null_of(PG_TEXT);
	return (struct cat_value){p->values[i].text,
				  p->prepared->params[i] ? p->prepared->params[i] : PG_TEXT};
}

static struct cat_value eval_items(struct cat *c, struct cat_scope *scope,
				   const PgQuery__AArrayExpr *x)
{
	struct cat_value *items = SQL_ARRAY(c->ctx, struct cat_value, x->n_elements + 1);

	for (size_t i = 0; i < x->n_elements; i++)
		items[i] = cat_eval(c, scope, x->elements[i]);
	return cat_array(c, (unsigned)x->n_elements, items,
			 array_of(x->n_elements ? items[0].oid : PG_TEXT));
}

struct cat_value cat_eval(struct cat *c, struct cat_scope *scope, const PgQuery__Node *node)
{
	struct cat_value v;

	if (++c->steps > STEPS_MAX)
		sql_wrong(c->ctx, -1, "the query of catalogs takes more than %u steps", STEPS_MAX);
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_A_CONST:
		return eval_const(c, node->a_const);
	case PG_QUERY__NODE__NODE_COLUMN_REF:
		return eval_column(c, scope, node->column_ref);
	case PG_QUERY__NODE__NODE_A_EXPR:
		return eval_a_expr(c, scope, node->a_expr);
	case PG_QUERY__NODE__NODE_BOOL_EXPR:
		return eval_logic(c, scope, node->bool_expr);
	case PG_QUERY__NODE__NODE_CASE_EXPR:
		return eval_case(c, scope, node->case_expr);
	case PG_QUERY__NODE__NODE_COALESCE_EXPR:
		v = null_of(PG_TEXT);
		for (size_t i = 0; i < node->coalesce_expr->n_args && !v.text; i++)
			v = cat_eval(c, scope, node->coalesce_expr->args[i]);
		return v;
	case PG_QUERY__NODE__NODE_NULL_TEST:
		v = cat_eval(c, scope, node->null_test->arg);
		return cat_bool(!v.text == (node->null_test->nulltesttype ==
					    PG_QUERY__NULL_TEST_TYPE__IS_NULL));
	case PG_QUERY__NODE__NODE_BOOLEAN_TEST:
		v = cat_eval(c, scope, node->boolean_test->arg);
		switch (node->boolean_test->booltesttype) {
		case PG_QUERY__BOOL_TEST_TYPE__IS_TRUE:
			return cat_bool(cat_true(v));
		case PG_QUERY__BOOL_TEST_TYPE__IS_NOT_TRUE:
			return cat_bool(!cat_true(v));
		case PG_QUERY__BOOL_TEST_TYPE__IS_FALSE:
			return cat_bool(v.text && !cat_true(v));
		case PG_QUERY__BOOL_TEST_TYPE__IS_NOT_FALSE:
			return cat_bool(!v.text || cat_true(v));
		default:
			return cat_bool(!v.text);
		}
	case PG_QUERY__NODE__NODE_TYPE_CAST:
		return eval_cast(c, scope, node->type_cast);
	case PG_QUERY__NODE__NODE_SUB_LINK:
		return eval_sublink(c, scope, node->sub_link);
	case PG_QUERY__NODE__NODE_FUNC_CALL:
		return eval_call(c, scope, node->func_call);
	case PG_QUERY__NODE__NODE_A_INDIRECTION:
		return eval_subscript(c, scope, node->a_indirection);
	case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:
		return cat_eval(c, scope, node->collate_clause->arg);
	case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
		return eval_value_function(c, node->sqlvalue_function);
	case PG_QUERY__NODE__NODE_A_ARRAY_EXPR:
		return eval_items(c, scope, node->a_array_expr);
	case PG_QUERY__NODE__NODE_PARAM_REF:
		return eval_param(c, node->param_ref);
	default:
		sql_unsupported(c->ctx, -1, "this expression in a query of catalogs");
	}
}

uint32_t cat_type_of(struct cat *c, struct cat_scope *scope, const PgQuery__Node *node)
{
	const PgQuery__FuncCall *call;
	const char *name;

	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_COLUMN_REF:
		return eval_column(c, scope, node->column_ref).oid;
	case PG_QUERY__NODE__NODE_A_CONST:
		return eval_const(c, node->a_const).oid;
	case PG_QUERY__NODE__NODE_TYPE_CAST:
		return type_named(c, node->type_cast->type_name);
	case PG_QUERY__NODE__NODE_BOOL_EXPR:
	case PG_QUERY__NODE__NODE_NULL_TEST:
	case PG_QUERY__NODE__NODE_BOOLEAN_TEST:
		return PG_BOOL;
	case PG_QUERY__NODE__NODE_SUB_LINK:
		if (node->sub_link->sub_link_type == PG_QUERY__SUB_LINK_TYPE__ARRAY_SUBLINK)
			return PG_TEXT_ARRAY;
		return node->sub_link->sub_link_type == PG_QUERY__SUB_LINK_TYPE__EXPR_SUBLINK
			       ? PG_TEXT
			       : PG_BOOL;
	case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:
		return cat_type_of(c, scope, node->collate_clause->arg);
	case PG_QUERY__NODE__NODE_COALESCE_EXPR:
		return cat_type_of(c, scope, node->coalesce_expr->args[0]);
	case PG_QUERY__NODE__NODE_CASE_EXPR:
		return cat_type_of(c, scope, node->case_expr->args[0]->case_when->result);
	case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
		return PG_NAME;
	case PG_QUERY__NODE__NODE_FUNC_CALL:
		call = node->func_call;
		name = cat_string(c, call->funcname[call->n_funcname - 1]);
		if ((strcmp(name, "max") == 0 || strcmp(name, "min") == 0) && call->n_args == 1)
			return cat_type_of(c, scope, call->args[0]);
		return cat_function_type(name);
	case PG_QUERY__NODE__NODE_A_EXPR:
		name = cat_string(c, node->a_expr->name[node->a_expr->n_name - 1]);
		if (strcmp(name, "||") == 0)
			return PG_TEXT;
		return strchr("+-*/%", *name) && !name[1] ? PG_INT4 : PG_BOOL;
	default:
		return PG_TEXT;
	}
}
