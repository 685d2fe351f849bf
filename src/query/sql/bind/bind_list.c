/* SPDX-License-Identifier: BSD-2-Clause */
/* LIKE, and comparisons with each of several values: IN, ANY and ALL of an array. */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* x IN (constants): the first type decides for all. args[0] is x. */
static struct sql_expr *in_constants(struct sql_ctx *ctx, unsigned n, struct sql_expr **args,
				     int at)
{
	struct sql_type type = {.kind = SQL_UNKNOWN};

	if (n == 2)
		return sql_compare(ctx, SQL_EQ, args[0], args[1], at);
	for (unsigned i = 0; i < n; i++)
		type = sql_common_type(ctx, type, args[i]->type, "IN", args[i]->at);
	if (type.kind == SQL_UNKNOWN)
		type = SQL_TYPE_TEXT;
	for (unsigned i = 0; i < n; i++)
		args[i] = sql_compared(ctx, args[i], type, "IN");
	return sql_fold(ctx, sql_call(ctx, SQL_IN, SQL_TYPE_BOOL, n, args, at));
}

struct sql_expr *sql_in_list(struct sql_ctx *ctx, struct sql_expr *value, unsigned count,
			     struct sql_expr **items, int at)
{
	struct sql_expr **args = SQL_ARRAY(ctx, struct sql_expr *, count + 1);
	struct sql_list parts = {0};
	unsigned n = 1;

	args[0] = value;
	for (unsigned i = 0; i < count; i++) {
		if (sql_is_const(items[i]))
			args[n++] = items[i];
		else
			sql_list_add(ctx, &parts, sql_compare(ctx, SQL_EQ, value, items[i], at));
	}
	if (n > 1)
		sql_list_add(ctx, &parts, in_constants(ctx, n, args, at));
	return sql_or_list(ctx, &parts);
}

/* ---- arrays ---- */

/* The elements of an array. */
struct elements {
	bool null; /* the array itself is */
	struct sql_list items;
};

/* One element of the text of an array, which ends at `,` or `}`. */
static struct sql_expr *read_element(struct sql_ctx *ctx, const char **at, int place)
{
	struct sql_value value = {0};
	char *text = sql_alloc(ctx, strlen(*at) + 1);
	const char *p = *at;
	size_t n = 0, kept = 0;
	bool quoted = false, was_quoted = false;

	while (isspace((unsigned char)*p))
		p++;
	for (; *p && (quoted || (*p != ',' && *p != '}')); p++) {
		if (*p == '"') {
			quoted = !quoted;
			was_quoted = true;
			kept = n;
			continue;
		}
		if (!quoted && *p == '{')
			sql_unsupported(ctx, place, "an array of arrays");
		if (*p == '\\' && p[1])
			kept = n + 1, p++;
		else if (quoted || !isspace((unsigned char)*p))
			kept = n + 1;
		text[n++] = *p;
	}
	*at = p;
	text[kept] = '\0';
	value.null = !was_quoted && !strcasecmp(text, "null");
	if (kept == 0 && !was_quoted)
		sql_wrong(ctx, place, "malformed array literal: an element is empty");
	if (!value.null) {
		value.text = text;
		value.length = kept;
	}
	return sql_constant(ctx, (struct sql_type){.kind = SQL_UNKNOWN}, value, place);
}

static void read_array(struct sql_ctx *ctx, const char *text, int place, struct elements *e)
{
	while (isspace((unsigned char)*text))
		text++;
	if (*text++ != '{')
		sql_wrong(ctx, place, "malformed array literal: it does not begin with {");
	while (isspace((unsigned char)*text))
		text++;
	while (*text && *text != '}') {
		sql_list_add(ctx, &e->items, read_element(ctx, &text, place));
		if (*text == ',' && *++text == '}')
			sql_wrong(ctx, place, "malformed array literal: an element is empty");
	}
	if (*text++ != '}')
		sql_wrong(ctx, place, "malformed array literal: it does not end with }");
	while (isspace((unsigned char)*text))
		text++;
	if (*text)
		sql_wrong(ctx, place, "malformed array literal: text after }");
}

static void bind_elements(struct sql_ctx *ctx, struct sql_scope *scope, const PgQuery__Node *node,
			  struct elements *e)
{
	const PgQuery__AConst *c = node->a_const;

	if (node->node_case == PG_QUERY__NODE__NODE_A_ARRAY_EXPR) {
		for (size_t i = 0; i < node->a_array_expr->n_elements; i++)
			sql_list_add(ctx, &e->items,
				     sql_bind_expr(ctx, scope, node->a_array_expr->elements[i]));
		if (e->items.count)
			sql_unify(ctx, e->items.count, (struct sql_expr **)e->items.items, "ARRAY");
		return;
	}
	if (node->node_case != PG_QUERY__NODE__NODE_A_CONST ||
	    (!c->isnull && c->val_case != PG_QUERY__A__CONST__VAL_SVAL))
		sql_unsupported(ctx, sql_node_location(node),
				"ANY or ALL of an array that is not ARRAY[...] or a literal");
	e->null = c->isnull;
	if (!e->null)
		read_array(ctx, c->sval->sval, c->location, e);
}

/* ARRAY[...], 'text', and either of them as an array of a type. */
static void bind_array(struct sql_ctx *ctx, struct sql_scope *scope, const PgQuery__Node *node,
		       struct elements *e)
{
	PgQuery__TypeName name;
	struct sql_type type;

	if (node->node_case != PG_QUERY__NODE__NODE_TYPE_CAST) {
		bind_elements(ctx, scope, node, e);
		if (node->node_case == PG_QUERY__NODE__NODE_A_ARRAY_EXPR && e->items.count == 0)
			sql_wrong(ctx, sql_node_location(node),
				  "the type of an empty array is not known; write ARRAY[]::int[]");
		return;
	}
	name = *node->type_cast->type_name;
	if (name.n_array_bounds != 1)
		sql_unsupported(ctx, node->type_cast->location,
				"ANY or ALL of a value that is not an array of one dimension");
	name.n_array_bounds = 0;
	type = sql_bind_type(ctx, &name);
	bind_elements(ctx, scope, node->type_cast->arg, e);
	for (unsigned i = 0; i < e->items.count; i++)
		e->items.items[i] =
			sql_cast(ctx, e->items.items[i], type, node->type_cast->location);
}

struct sql_expr *sql_bind_any_array(struct sql_ctx *ctx, struct sql_scope *scope,
				    const PgQuery__AExpr *x)
{
	bool all = x->kind == PG_QUERY__A__EXPR__KIND__AEXPR_OP_ALL, mixed;
	enum sql_op op = sql_comparison_op(sql_operator_name(ctx, x->n_name, x->name, x->location));
	struct sql_expr *value = sql_bind_expr(ctx, scope, x->lexpr), *in;
	struct elements e = {0};
	struct sql_list parts = {0};

	if (op == SQL_OP_COUNT)
		sql_unsupported(ctx, x->location, "this operator before ANY or ALL");
	bind_array(ctx, scope, x->rexpr, &e);
	if (e.null)
		return sql_null(ctx, SQL_TYPE_BOOL);
	if (e.items.count == 0)
		return sql_bool(ctx, all);
	/* the list of IN takes its type from the value, an array has its own: char and text differ */
	mixed = value->type.kind != ((struct sql_expr *)e.items.items[0])->type.kind &&
		value->type.kind == SQL_CHAR;
	if (op == (all ? SQL_NE : SQL_EQ) && !mixed) {
		in = sql_in_list(ctx, value, e.items.count, (struct sql_expr **)e.items.items,
				 x->location);
		return all ? sql_negate(ctx, in) : in;
	}
	for (unsigned i = 0; i < e.items.count; i++)
		sql_list_add(ctx, &parts,
			     sql_compare(ctx, op, value, e.items.items[i], x->location));
	in = all ? sql_and_list(ctx, &parts) : sql_or_list(ctx, &parts);
	return in ? in : sql_bool(ctx, true);
}

/* ---- LIKE ---- */

/* ILIKE is LIKE of lower case, pattern and all; a char(n) keeps its blanks. */
static void ignore_case(struct sql_ctx *ctx, struct sql_expr **args)
{
	struct sql_value blank = {.text = " ", .length = 1};
	struct sql_expr *padded[3] = {args[0], NULL, NULL};

	if (!args[2]->value.null && args[2]->value.length == 1 &&
	    isalpha((unsigned char)args[2]->value.text[0]))
		sql_unsupported(ctx, args[2]->at, "ILIKE with a letter as its ESCAPE");
	if (args[0]->type.kind == SQL_CHAR && args[0]->type.length > 0) {
		padded[1] = sql_integer(ctx, SQL_TYPE_INT32, args[0]->type.length);
		padded[2] = sql_constant(ctx, SQL_TYPE_TEXT, blank, -1);
		args[0] = sql_fold(ctx,
				   sql_call(ctx, SQL_RPAD, SQL_TYPE_TEXT, 3, padded, args[0]->at));
	}
	for (unsigned i = 0; i < 2; i++)
		args[i] = sql_fold(ctx, sql_call1(ctx, SQL_LOWER, SQL_TYPE_TEXT, args[i]));
}

/* The pattern's escape character: that of like_escape(pattern, character), else a backslash. */
struct sql_expr *sql_bind_like(struct sql_ctx *ctx, struct sql_scope *scope,
			       const PgQuery__AExpr *x)
{
	const PgQuery__Node *pattern = x->rexpr;
	const char *name = sql_operator_name(ctx, x->n_name, x->name, x->location);
	struct sql_expr *args[3], *e;
	bool escape = pattern->node_case == PG_QUERY__NODE__NODE_FUNC_CALL &&
		      pattern->func_call->n_args == 2 && pattern->func_call->n_funcname == 2 &&
		      !strcmp(sql_node_string(ctx, pattern->func_call->funcname[1]), "like_escape");

	args[0] = sql_settle(ctx, sql_bind_expr(ctx, scope, x->lexpr));
	if (escape) {
		args[1] = sql_bind_expr(ctx, scope, pattern->func_call->args[0]);
		args[2] = sql_settle(ctx, sql_bind_expr(ctx, scope, pattern->func_call->args[1]));
	} else {
		struct sql_value backslash = {.text = "\\", .length = 1};

		args[1] = sql_bind_expr(ctx, scope, pattern);
		args[2] = sql_constant(ctx, SQL_TYPE_TEXT, backslash, -1);
	}
	args[1] = sql_settle(ctx, args[1]);
	for (int i = 0; i < 3; i++) {
		if (!sql_is_string(args[i]->type.kind))
			sql_wrong(ctx, x->location, "LIKE needs text operands");
	}
	if (!sql_is_const(args[1]))
		sql_unsupported(ctx, args[1]->at, "a LIKE pattern that is not a constant");
	if (!sql_is_const(args[2]))
		sql_unsupported(ctx, args[2]->at, "an ESCAPE that is not a constant");
	if (!args[2]->value.null && args[2]->value.length > 1)
		sql_wrong(ctx, args[2]->at, "an escape string must be one ASCII character");
	if (name[strlen(name) - 1] == '*')
		ignore_case(ctx, args);
	e = sql_fold(ctx, sql_call(ctx, SQL_LIKE, SQL_TYPE_BOOL, 3, args, x->location));
	return name[0] == '!' ? sql_negate(ctx, e) : e;
}
