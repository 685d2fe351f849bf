/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Function calls, type names, and the words for what is not supported. bind_agg.c has aggregates,
 * bind_number.c functions of numbers, bind_date.c those of dates.
 */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"

#include <string.h>
#include <strings.h>

int sql_node_location(const PgQuery__Node *node)
{
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_A_CONST:
		return node->a_const->location;
	case PG_QUERY__NODE__NODE_COLUMN_REF:
		return node->column_ref->location;
	case PG_QUERY__NODE__NODE_A_EXPR:
		return node->a_expr->location;
	case PG_QUERY__NODE__NODE_BOOL_EXPR:
		return node->bool_expr->location;
	case PG_QUERY__NODE__NODE_CASE_EXPR:
		return node->case_expr->location;
	case PG_QUERY__NODE__NODE_FUNC_CALL:
		return node->func_call->location;
	case PG_QUERY__NODE__NODE_SUB_LINK:
		return node->sub_link->location;
	case PG_QUERY__NODE__NODE_TYPE_CAST:
		return node->type_cast->location;
	case PG_QUERY__NODE__NODE_ROW_EXPR:
		return node->row_expr->location;
	case PG_QUERY__NODE__NODE_GROUPING_SET:
		return node->grouping_set->location;
	case PG_QUERY__NODE__NODE_A_ARRAY_EXPR:
		return node->a_array_expr->location;
	case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:
		return node->collate_clause->location;
	case PG_QUERY__NODE__NODE_PARAM_REF:
		return node->param_ref->location;
	case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
		return node->sqlvalue_function->location;
	case PG_QUERY__NODE__NODE_RANGE_VAR:
		return node->range_var->location;
	default:
		return -1;
	}
}

const char *sql_node_name(const PgQuery__Node *node)
{
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_ROW_EXPR:
		return "a row value here";
	case PG_QUERY__NODE__NODE_GROUPING_SET:
		return "GROUPING SETS, ROLLUP or CUBE";
	case PG_QUERY__NODE__NODE_A_ARRAY_EXPR:
		return "an array";
	case PG_QUERY__NODE__NODE_A_INDIRECTION:
		return "a subscript or field selection";
	case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:
		return "COLLATE";
	case PG_QUERY__NODE__NODE_PARAM_REF:
		return "a parameter ($1)";
	case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
		return "current_date and related functions";
	case PG_QUERY__NODE__NODE_SET_TO_DEFAULT:
		return "DEFAULT";
	case PG_QUERY__NODE__NODE_XML_EXPR:
		return "XML";
	case PG_QUERY__NODE__NODE_RANGE_FUNCTION:
		return "a function in FROM";
	case PG_QUERY__NODE__NODE_RANGE_TABLE_SAMPLE:
		return "TABLESAMPLE";
	case PG_QUERY__NODE__NODE_UPDATE_STMT:
		return "UPDATE";
	case PG_QUERY__NODE__NODE_DELETE_STMT:
		return "DELETE";
	case PG_QUERY__NODE__NODE_MERGE_STMT:
		return "MERGE";
	case PG_QUERY__NODE__NODE_INDEX_STMT:
		return "CREATE INDEX";
	case PG_QUERY__NODE__NODE_ALTER_TABLE_STMT:
		return "ALTER TABLE";
	case PG_QUERY__NODE__NODE_CREATE_TABLE_AS_STMT:
		return "CREATE TABLE AS";
	case PG_QUERY__NODE__NODE_TRUNCATE_STMT:
		return "TRUNCATE";
	case PG_QUERY__NODE__NODE_TRANSACTION_STMT:
		return "BEGIN, COMMIT or ROLLBACK";
	case PG_QUERY__NODE__NODE_VARIABLE_SET_STMT:
		return "SET";
	case PG_QUERY__NODE__NODE_VARIABLE_SHOW_STMT:
		return "SHOW";
	case PG_QUERY__NODE__NODE_RENAME_STMT:
		return "RENAME";
	default:
		return "this construct";
	}
}

static int type_modifier(struct sql_ctx *ctx, const PgQuery__TypeName *name, size_t i)
{
	const PgQuery__Node *node = name->typmods[i];

	if (node->node_case != PG_QUERY__NODE__NODE_A_CONST ||
	    node->a_const->val_case != PG_QUERY__A__CONST__VAL_IVAL)
		sql_wrong(ctx, name->location, "a type modifier must be an integer");
	return node->a_const->ival->ival;
}

static void decimal_modifiers(struct sql_ctx *ctx, const PgQuery__TypeName *name,
			      struct sql_type *type)
{
	if (name->n_typmods == 0)
		return;
	type->precision = type_modifier(ctx, name, 0);
	type->scale = name->n_typmods > 1 ? type_modifier(ctx, name, 1) : 0;
	if (type->precision < 1 || type->precision > SQL_PRECISION_MAX)
		sql_wrong(ctx, name->location, "decimal precision %d is not between 1 and %d",
			  type->precision, SQL_PRECISION_MAX);
	if (type->scale < 0 || type->scale > type->precision)
		sql_wrong(ctx, name->location,
			  "decimal scale %d is not between 0 and the precision %d", type->scale,
			  type->precision);
}

struct sql_type sql_bind_type(struct sql_ctx *ctx, const PgQuery__TypeName *name)
{
	static const struct {
		const char *name;
		enum sql_kind kind;
	} kinds[] = {
		{"bool", SQL_BOOL},	 {"int2", SQL_INT32},	     {"int4", SQL_INT32},
		{"int8", SQL_INT64},	 {"numeric", SQL_DECIMAL},   {"date", SQL_DATE},
		{"bpchar", SQL_CHAR},	 {"varchar", SQL_VARCHAR},   {"text", SQL_VARCHAR},
		{"float8", SQL_DOUBLE},	 {"interval", SQL_INTERVAL}, {"decimal", SQL_DECIMAL},
		{"integer", SQL_INT32},	 {"bigint", SQL_INT64},	     {"double", SQL_DOUBLE},
		{"string", SQL_VARCHAR},
	};
	struct sql_type type = {0};
	const char *text;
	size_t i;

	if (name->n_names == 0 || name->n_array_bounds || name->setof || name->pct_type)
		sql_unsupported(ctx, name->location, "this type");
	text = sql_node_string(ctx, name->names[name->n_names - 1]);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!strcmp(kinds[i].name, text))
			break;
	}
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		sql_unsupported(ctx, name->location, "type %s", text);
	type.kind = kinds[i].kind;
	if (type.kind == SQL_DECIMAL)
		decimal_modifiers(ctx, name, &type);
	if (sql_is_string(type.kind) && name->n_typmods) {
		type.length = type_modifier(ctx, name, 0);
		if (type.length < 1 || type.length > 10485760)
			sql_wrong(ctx, name->location,
				  "character length %d is not between 1 and 10485760", type.length);
	}
	return type;
}

/* What the arguments of a function must be: t text, i int32. */
struct function {
	const char *name;
	const char *args; /* lower case; those after | may be missing */
	enum sql_op op;
	enum sql_kind result;
};

static const struct function functions[] = {
	{"upper", "t", SQL_UPPER, SQL_VARCHAR},
	{"lower", "t", SQL_LOWER, SQL_VARCHAR},
	{"length", "t", SQL_LENGTH, SQL_INT32},
	{"char_length", "t", SQL_LENGTH, SQL_INT32},
	{"character_length", "t", SQL_LENGTH, SQL_INT32},
	{"substring", "ti|i", SQL_SUBSTRING, SQL_VARCHAR},
	{"substr", "ti|i", SQL_SUBSTRING, SQL_VARCHAR},
	{"btrim", "t|t", SQL_TRIM, SQL_VARCHAR},
	{"ltrim", "t|t", SQL_LTRIM, SQL_VARCHAR},
	{"rtrim", "t|t", SQL_RTRIM, SQL_VARCHAR},
	{"position", "tt", SQL_POSITION, SQL_INT32},
	{"strpos", "tt", SQL_POSITION, SQL_INT32},
	{"left", "ti", SQL_LEFT, SQL_VARCHAR},
	{"right", "ti", SQL_RIGHT, SQL_VARCHAR},
	{"replace", "ttt", SQL_REPLACE, SQL_VARCHAR},
	{"lpad", "ti|t", SQL_LPAD, SQL_VARCHAR},
	{"rpad", "ti|t", SQL_RPAD, SQL_VARCHAR},
	{"repeat", "ti", SQL_REPEAT, SQL_VARCHAR},
	{"reverse", "t", SQL_REVERSE, SQL_VARCHAR},
	{"starts_with", "tt", SQL_STARTS_WITH, SQL_BOOL},
};

static struct sql_expr *bind_argument(struct sql_ctx *ctx, struct sql_expr *e, char kind,
				      const char *name)
{
	char what[80] = "an argument of ";

	strncat(what, name, 40);
	if (kind == 'i')
		return sql_coerce(ctx, e, SQL_TYPE_INT32, what);
	return sql_coerce(ctx, e, SQL_TYPE_TEXT, what);
}

static struct sql_expr *bind_plain(struct sql_ctx *ctx, const struct function *f, size_t n,
				   struct sql_expr **args, int at)
{
	struct sql_expr *all[3];
	size_t most = 0, least = 0, i = 0;

	for (const char *c = f->args; *c; c++)
		most += *c != '|';
	least = strchr(f->args, '|') ? (size_t)(strchr(f->args, '|') - f->args) : most;
	if (n < least || n > most)
		sql_wrong(ctx, at, "%s takes %zu arguments, not %zu", f->name, least, n);
	for (const char *c = f->args; *c && i < n; c++) {
		if (*c == '|')
			continue;
		all[i] = bind_argument(ctx, args[i], *c, f->name);
		i++;
	}
	if (n < most && f->op != SQL_SUBSTRING) {
		struct sql_value blank = {.text = " ", .length = 1};

		all[n++] = sql_constant(ctx, SQL_TYPE_TEXT, blank, -1);
	}
	return sql_fold(ctx, sql_call(ctx, f->op, (struct sql_type){.kind = f->result}, (unsigned)n,
				      all, at));
}

/*
 * An argument of concat as its text for people: a bool is t or f, and a char(n) has its blanks.
 */
static struct sql_expr *shown(struct sql_ctx *ctx, struct sql_expr *e)
{
	static const char *const truths[] = {"t", "f"};
	struct sql_expr *args[3];

	e = sql_settle(ctx, e);
	sql_check_value(ctx, e);
	if (e->type.kind == SQL_CHAR && e->type.length > 0) {
		args[0] = e;
		args[1] = sql_integer(ctx, SQL_TYPE_INT32, e->type.length);
		args[2] = sql_constant(ctx, SQL_TYPE_TEXT,
				       (struct sql_value){.text = " ", .length = 1}, -1);
		return sql_fold(ctx, sql_call(ctx, SQL_RPAD, SQL_TYPE_TEXT, 3, args, e->at));
	}
	if (e->type.kind == SQL_BOOL) {
		struct sql_expr *choice[5] = {e, NULL, sql_negate(ctx, e), NULL,
					      sql_null(ctx, SQL_TYPE_TEXT)};

		for (unsigned i = 0; i < 2; i++)
			choice[2 * i + 1] = sql_constant(
				ctx, SQL_TYPE_TEXT,
				(struct sql_value){.text = truths[i], .length = 1}, -1);
		return sql_fold(ctx, sql_case_expr(ctx, SQL_TYPE_TEXT, 5, choice, e->at));
	}
	return sql_is_string(e->type.kind) ? e : sql_cast(ctx, e, SQL_TYPE_TEXT, e->at);
}

static struct sql_expr *join_texts(struct sql_ctx *ctx, struct sql_expr *a, struct sql_expr *b,
				   int at)
{
	struct sql_expr *args[2] = {a, b};

	return sql_fold(ctx, sql_call(ctx, SQL_CONCAT, SQL_TYPE_TEXT, 2, args, at));
}

/*
 * concat passes over NULLs: coalesce(a, '') || coalesce(b, ''). concat_ws puts its separator in
 * front of each argument that is not NULL, and removes the first one.
 */
static struct sql_expr *bind_concat(struct sql_ctx *ctx, const char *name, size_t n,
				    struct sql_expr **args, int at)
{
	struct sql_expr *empty =
		sql_constant(ctx, SQL_TYPE_TEXT, (struct sql_value){.text = ""}, -1);
	struct sql_expr *all = empty, *separator = NULL, *from;
	size_t first = !strcmp(name, "concat_ws");

	if (n <= first)
		sql_wrong(ctx, at, "%s takes %zu arguments or more, not %zu", name, first + 1, n);
	if (first)
		separator = sql_coerce(ctx, args[0], SQL_TYPE_TEXT, "the separator of concat_ws");
	for (size_t i = first; i < n; i++) {
		struct sql_expr *e = shown(ctx, args[i]), *both[2];

		if (separator)
			e = join_texts(ctx, separator, e, at);
		both[0] = e;
		both[1] = empty;
		e = sql_fold(ctx, sql_call(ctx, SQL_COALESCE, SQL_TYPE_TEXT, 2, both, at));
		all = i == first ? e : join_texts(ctx, all, e, at);
	}
	if (!separator)
		return all;
	from = sql_fold(ctx, sql_call1(ctx, SQL_LENGTH, SQL_TYPE_INT32, separator));
	from = sql_arithmetic(ctx, SQL_ADD, from, sql_integer(ctx, SQL_TYPE_INT32, 1), at);
	return sql_fold(ctx, sql_call2(ctx, SQL_SUBSTRING, SQL_TYPE_TEXT, all, from));
}

static _Noreturn void unknown_function(struct sql_ctx *ctx, const char *name, int at)
{
	struct sql_suggestion s = {.wanted = name};
	static const char *const others[] = {
		"extract",  "round",  "floor",	  "ceil",  "abs",    "mod",	  "trunc",
		"sign",	    "sqrt",   "exp",	  "ln",	   "log10",  "power",	  "date_part",
		"coalesce", "nullif", "greatest", "least", "concat", "concat_ws", "date_trunc"};

	sql_suggest_aggregates(&s);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		sql_suggest(&s, functions[i].name);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		sql_suggest(&s, others[i]);
	if (s.best)
		sql_wrong(ctx, at, "function \"%s\" does not exist%s", name,
			  sql_suggested(ctx, &s));
	sql_unsupported(ctx, at, "function %s", name);
}

static void check_call(struct sql_ctx *ctx, const PgQuery__FuncCall *call)
{
	if (call->over)
		sql_unsupported(ctx, call->location, "a window function (OVER)");
	if (call->func_variadic)
		sql_unsupported(ctx, call->location, "VARIADIC");
	if (call->n_funcname == 0 || call->n_funcname > 2)
		sql_unsupported(ctx, call->location, "this function");
	if (call->n_funcname == 2 &&
	    strcmp(sql_node_string(ctx, call->funcname[0]), "pg_catalog") != 0)
		sql_unsupported(ctx, call->location, "a function with a schema");
}

struct sql_expr *sql_bind_function(struct sql_ctx *ctx, struct sql_scope *scope,
				   const PgQuery__FuncCall *call)
{
	struct sql_expr **args, *e;
	const char *name;

	check_call(ctx, call);
	name = sql_node_string(ctx, call->funcname[call->n_funcname - 1]);
	e = sql_bind_aggregate(ctx, scope, name, call);
	if (e)
		return e;
	if (call->agg_star || call->agg_distinct || call->n_agg_order || call->agg_filter)
		sql_unsupported(ctx, call->location, "aggregate %s", name);
	args = SQL_ARRAY(ctx, struct sql_expr *, call->n_args);
	for (size_t i = 0; i < call->n_args; i++)
		args[i] = sql_bind_expr(ctx, scope, call->args[i]);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (!strcmp(functions[i].name, name))
			return bind_plain(ctx, &functions[i], call->n_args, args, call->location);
	}
	if (!strcmp(name, "concat") || !strcmp(name, "concat_ws"))
		return bind_concat(ctx, name, call->n_args, args, call->location);
	e = sql_bind_date_function(ctx, name, call->n_args, args, call->location);
	if (!e)
		e = sql_bind_numeric(ctx, name, call->n_args, args, call->location);
	if (!e)
		unknown_function(ctx, name, call->location);
	return e;
}
