/* SPDX-License-Identifier: BSD-2-Clause */
/* Function calls, aggregates, type names, and the words for what is not supported. */
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
	case PG_QUERY__NODE__NODE_GROUPING_FUNC:
		return "GROUPING()";
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

static const struct sql_agg *find_agg(const struct sql_scope *scope, const struct sql_agg *agg)
{
	for (unsigned i = 0; i < scope->aggs.count; i++) {
		const struct sql_agg *other = scope->aggs.items[i];

		if (other->op == agg->op && other->distinct == agg->distinct &&
		    (agg->arg ? other->arg && sql_equal(other->arg, agg->arg) : !other->arg))
			return other;
	}
	return NULL;
}

/* With FILTER (WHERE c) the argument is CASE WHEN c THEN arg END. */
static void filter_agg(struct sql_ctx *ctx, struct sql_scope *scope, const PgQuery__FuncCall *call,
		       struct sql_agg *agg)
{
	struct sql_expr *args[3];

	if (!call->agg_filter)
		return;
	args[0] = sql_condition(ctx, sql_bind_expr(ctx, scope, call->agg_filter), "FILTER");
	if (agg->op == SQL_COUNT_ROWS) {
		agg->op = SQL_COUNT;
		agg->arg = sql_integer(ctx, SQL_TYPE_INT32, 1);
	}
	args[1] = agg->arg;
	args[2] = sql_null(ctx, agg->arg->type);
	agg->arg = sql_case_expr(ctx, agg->arg->type, 3, args, call->location);
}

/* All columns of an aggregate's argument belong to the select that it stands in. */
static void check_agg_columns(struct sql_ctx *ctx, const struct sql_scope *scope,
			      const struct sql_agg *agg, int at)
{
	struct sql_set used = {0}, own = {0};

	if (!agg->arg)
		return;
	sql_expr_columns(ctx, agg->arg, &used);
	for (unsigned i = 0; i < scope->columns.count; i++)
		sql_set_add(ctx, &own,
			    ((struct sql_scope_column *)scope->columns.items[i])->column);
	if (!sql_set_within(&used, &own))
		sql_unsupported(ctx, at, "an aggregate over columns of an outer query");
}

static void bind_agg_arg(struct sql_ctx *ctx, struct sql_scope *scope,
			 const PgQuery__FuncCall *call, struct sql_agg *agg)
{
	if (call->agg_star) {
		if (agg->op != SQL_COUNT)
			sql_wrong(ctx, call->location, "only count accepts *");
		agg->op = SQL_COUNT_ROWS;
	} else {
		if (call->n_args != 1)
			sql_wrong(ctx, call->location, "an aggregate takes one argument");
		agg->arg = sql_settle(ctx, sql_bind_expr(ctx, scope, call->args[0]));
	}
	agg->distinct = call->agg_distinct;
	filter_agg(ctx, scope, call, agg);
	/* min and max see the same with and without duplicates */
	if (agg->op == SQL_MIN || agg->op == SQL_MAX)
		agg->distinct = false;
}

static struct sql_expr *bind_aggregate(struct sql_ctx *ctx, struct sql_scope *scope,
				       enum sql_agg_op op, const char *name,
				       const PgQuery__FuncCall *call)
{
	struct sql_agg agg = {.op = op}, *copy;
	const struct sql_agg *same;
	struct sql_type type;

	if (scope->in_aggregate)
		sql_wrong(ctx, call->location, "aggregate calls cannot be nested");
	if (!scope->aggregates_allowed)
		sql_wrong(ctx, call->location, "aggregate %s is not allowed in %s", name,
			  scope->clause ? scope->clause : "this clause");
	if (call->n_agg_order || call->agg_within_group)
		sql_unsupported(ctx, call->location, "ORDER BY inside an aggregate");
	scope->in_aggregate = true;
	bind_agg_arg(ctx, scope, call, &agg);
	scope->in_aggregate = false;
	check_agg_columns(ctx, scope, &agg, call->location);
	same = find_agg(scope, &agg);
	if (same)
		return sql_column_expr(ctx, same->column, call->location);
	type = sql_agg_type(ctx, agg.op, agg.arg ? agg.arg->type : SQL_TYPE_INT64, call->location);
	agg.column = sql_new_column(ctx, name, type, type.kind != SQL_INT64 || op != SQL_COUNT);
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = agg;
	sql_list_add(ctx, &scope->aggs, copy);
	return sql_column_expr(ctx, agg.column, call->location);
}

/* What the arguments of a function must be: t text, i int32, d date, n number. */
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

/* EXTRACT(field FROM date) is decimal, date_part('field', date) double. */
static struct sql_expr *bind_date_part(struct sql_ctx *ctx, const char *name, size_t n,
				       struct sql_expr **args, int at)
{
	static const struct {
		const char *name;
		enum sql_op op;
		int digits;
	} parts[] = {{"year", SQL_YEAR, 7},
		     {"quarter", SQL_QUARTER, 1},
		     {"month", SQL_MONTH, 2},
		     {"day", SQL_DAY, 2}};
	struct sql_type type = {.kind = SQL_DECIMAL};
	struct sql_expr *e;

	if (n != 2 || args[0]->kind != SQL_CONST || args[0]->type.kind != SQL_UNKNOWN ||
	    args[0]->value.null)
		sql_wrong(ctx, at, "%s takes a field name and a date", name);
	e = sql_coerce(ctx, args[1], (struct sql_type){.kind = SQL_DATE}, "the source of EXTRACT");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strlen(parts[i].name) != args[0]->value.length ||
		    strncasecmp(parts[i].name, args[0]->value.text, args[0]->value.length) != 0)
			continue;
		type.precision = parts[i].digits;
		e = sql_fold(ctx, sql_call(ctx, parts[i].op, type, 1, &e, at));
		if (!strcmp(name, "date_part"))
			e = sql_cast(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, at);
		return e;
	}
	sql_unsupported(ctx, at, "EXTRACT of \"%.*s\"",
			args[0]->value.length < 40 ? (int)args[0]->value.length : 40,
			args[0]->value.text);
}

static struct sql_expr *number_argument(struct sql_ctx *ctx, const char *name, struct sql_expr *e)
{
	char type[40];

	if (e->type.kind == SQL_UNKNOWN)
		e = sql_coerce(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, name);
	if (!sql_is_number(e->type.kind))
		sql_wrong(ctx, e->at, "%s does not take %s", name, sql_type_name(e->type, type));
	return e;
}

static struct sql_expr *bind_round(struct sql_ctx *ctx, size_t n, struct sql_expr **args, int at)
{
	struct sql_expr *e = number_argument(ctx, "round", args[0]), *both[2];
	struct sql_type type = e->type;
	int64_t digits = 0;

	if (n == 2) {
		struct sql_expr *count =
			sql_coerce(ctx, args[1], SQL_TYPE_INT32, "the digits of round");

		if (!sql_is_const(count) || count->value.null)
			sql_unsupported(ctx, at, "round with digits that are not a constant");
		digits = (int64_t)count->value.integer;
		if (digits < -SQL_PRECISION_MAX || digits > SQL_PRECISION_MAX)
			sql_wrong(ctx, at, "round: digits %lld is not between %d and %d",
				  (long long)digits, -SQL_PRECISION_MAX, SQL_PRECISION_MAX);
		if (type.kind == SQL_DOUBLE)
			sql_wrong(ctx, at, "round of a double does not take a number of digits");
	}
	if (type.kind == SQL_INT32 || type.kind == SQL_INT64) {
		type = (struct sql_type){.kind = SQL_DECIMAL,
					 .precision = type.kind == SQL_INT32 ? 10 : 19};
		e = sql_cast(ctx, e, type, at);
		if (n == 1) {
			type.kind = SQL_DOUBLE; /* round(integer) is round(double precision) */
			e = sql_cast(ctx, e, type, at);
		}
	}
	if (type.kind == SQL_DECIMAL) {
		int whole = type.precision - type.scale + 1;

		type.scale = digits < 0 ? 0 : (int)digits;
		type.precision = whole + type.scale > SQL_PRECISION_MAX ? SQL_PRECISION_MAX
									: whole + type.scale;
	}
	both[0] = e;
	both[1] = sql_integer(ctx, SQL_TYPE_INT32, digits);
	return sql_fold(ctx, sql_call(ctx, SQL_ROUND, type, 2, both, at));
}

/* abs, floor, ceil, round, mod. */
static struct sql_expr *bind_numeric(struct sql_ctx *ctx, const char *name, size_t n,
				     struct sql_expr **args, int at)
{
	struct sql_expr *e;
	struct sql_type type;

	if (!strcmp(name, "mod") && n == 2)
		return sql_arithmetic(ctx, SQL_MOD, args[0], args[1], at);
	if (!strcmp(name, "round") && (n == 1 || n == 2))
		return bind_round(ctx, n, args, at);
	if (n != 1)
		return NULL;
	if (!strcmp(name, "abs")) {
		e = number_argument(ctx, name, args[0]);
		return sql_fold(ctx, sql_call(ctx, SQL_ABS, e->type, 1, &e, at));
	}
	if (strcmp(name, "floor") && strcmp(name, "ceil") && strcmp(name, "ceiling"))
		return NULL;
	e = number_argument(ctx, name, args[0]);
	if (e->type.kind == SQL_INT32 || e->type.kind == SQL_INT64)
		e = sql_cast(ctx, e, (struct sql_type){.kind = SQL_DOUBLE}, at);
	type = e->type;
	if (type.kind == SQL_DECIMAL) {
		type.precision = type.precision - type.scale + 1;
		type.scale = 0;
	}
	return sql_fold(ctx, sql_call(ctx, name[0] == 'f' ? SQL_FLOOR : SQL_CEIL, type, 1, &e, at));
}

static _Noreturn void unknown_function(struct sql_ctx *ctx, const char *name, int at)
{
	struct sql_suggestion s = {.wanted = name};
	static const char *const others[] = {
		"count", "sum", "avg", "min",	    "max",	"extract", "round",    "floor",
		"ceil",	 "abs", "mod", "date_part", "coalesce", "nullif",  "greatest", "least"};

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
	static const char *const aggregates[] = {
		[SQL_COUNT_ROWS] = "", [SQL_COUNT] = "count", [SQL_SUM] = "sum",
		[SQL_AVG] = "avg",     [SQL_MIN] = "min",     [SQL_MAX] = "max"};
	struct sql_expr **args, *e;
	const char *name;

	check_call(ctx, call);
	name = sql_node_string(ctx, call->funcname[call->n_funcname - 1]);
	for (unsigned op = SQL_COUNT; op <= SQL_MAX; op++) {
		if (!strcmp(aggregates[op], name))
			return bind_aggregate(ctx, scope, op, name, call);
	}
	if (call->agg_star || call->agg_distinct || call->n_agg_order || call->agg_filter)
		sql_unsupported(ctx, call->location, "aggregate %s", name);
	args = SQL_ARRAY(ctx, struct sql_expr *, call->n_args);
	for (size_t i = 0; i < call->n_args; i++)
		args[i] = sql_bind_expr(ctx, scope, call->args[i]);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (!strcmp(functions[i].name, name))
			return bind_plain(ctx, &functions[i], call->n_args, args, call->location);
	}
	if (!strcmp(name, "extract") || !strcmp(name, "date_part"))
		return bind_date_part(ctx, name, call->n_args, args, call->location);
	e = bind_numeric(ctx, name, call->n_args, args, call->location);
	if (!e)
		unknown_function(ctx, name, call->location);
	return e;
}
