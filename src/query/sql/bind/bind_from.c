/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The FROM clause: tables, views, subqueries and joins become relations, their columns enter the
 * scope.
 */
#include "query/sql/bind/bind.h"
#include "query/sql/bind/typing.h"

#include <string.h>

static struct sql_rel *bind_item(struct sql_ctx *ctx, struct sql_scope *scope,
				 const PgQuery__Node *node);

static _Noreturn void no_such_table(struct sql_ctx *ctx, const struct sql_scope *scope,
				    const PgQuery__RangeVar *var)
{
	struct sql_suggestion s = {.wanted = var->relname};
	const char *name;

	for (const struct sql_cte *cte = scope ? scope->ctes : NULL; cte; cte = cte->next)
		sql_suggest(&s, cte->name);
	for (unsigned i = 0; (name = ctx->catalog->name(ctx->catalog->self, i)); i++)
		sql_suggest(&s, sql_copy(ctx, name));
	sql_wrong(ctx, var->location, "table \"%s\" does not exist%s", var->relname,
		  sql_suggested(ctx, &s));
}

static void check_range(struct sql_ctx *ctx, const PgQuery__RangeVar *var)
{
	if ((var->catalogname && *var->catalogname) ||
	    (var->schemaname && *var->schemaname && strcmp(var->schemaname, "public") != 0))
		sql_unsupported(ctx, var->location, "schema \"%s\"", var->schemaname);
}

const struct sql_table *sql_find_table(struct sql_ctx *ctx, const PgQuery__RangeVar *var)
{
	const struct sql_table *table;

	check_range(ctx, var);
	table = ctx->catalog->table(ctx->catalog->self, var->relname);
	if (!table)
		no_such_table(ctx, NULL, var);
	return table;
}

/* The name of column i: the alias' own list first. */
static const char *column_name(struct sql_ctx *ctx, const PgQuery__Alias *alias, unsigned i,
			       const char *name)
{
	return alias && i < alias->n_colnames ? sql_node_string(ctx, alias->colnames[i]) : name;
}

static void check_alias(struct sql_ctx *ctx, const PgQuery__Alias *alias, unsigned count, int at)
{
	if (alias && alias->n_colnames > count)
		sql_wrong(ctx, at, "alias \"%s\" lists %zu column names for %u columns",
			  alias->aliasname, alias->n_colnames, count);
}

static void check_unique_alias(struct sql_ctx *ctx, const struct sql_scope *scope,
			       const char *table, int at)
{
	for (unsigned i = 0; i < scope->columns.count; i++) {
		const struct sql_scope_column *entry = scope->columns.items[i];

		if (entry->table && !strcmp(entry->table, table))
			sql_wrong(ctx, at,
				  "table name \"%s\" is used more than once; give one an alias",
				  table);
	}
}

static struct sql_rel *bind_table(struct sql_ctx *ctx, struct sql_scope *scope,
				  const struct sql_table *table, const PgQuery__Alias *alias,
				  int at)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_SCAN, NULL, NULL, table->column_count);
	const char *label = alias ? alias->aliasname : table->name;

	if (++ctx->table_count > SQL_TABLES_MAX)
		sql_wrong(ctx, at, "the query reads more than %d tables", SQL_TABLES_MAX);
	check_alias(ctx, alias, table->column_count, at);
	check_unique_alias(ctx, scope, label, at);
	rel->scan.table = table;
	rel->scan.ordinals = SQL_ARRAY(ctx, unsigned, table->column_count);
	for (unsigned i = 0; i < table->column_count; i++) {
		const struct sql_table_column *from = &table->columns[i];
		int column = sql_new_column(ctx, from->name, from->type, from->nullable);

		ctx->columns[column].table = table;
		ctx->columns[column].ordinal = i;
		rel->columns[i] = column;
		rel->scan.ordinals[i] = i;
		sql_scope_add(ctx, scope, label, column_name(ctx, alias, i, from->name), column,
			      from->nullable);
	}
	return rel;
}

static struct sql_rel *add_bound(struct sql_ctx *ctx, struct sql_scope *scope,
				 struct sql_bound bound, const char *label,
				 const PgQuery__Alias *alias, int at)
{
	check_alias(ctx, alias, bound.count, at);
	if (label)
		check_unique_alias(ctx, scope, label, at);
	for (unsigned i = 0; i < bound.count; i++)
		sql_scope_add(ctx, scope, label, column_name(ctx, alias, i, bound.names[i]),
			      bound.columns[i], ctx->columns[bound.columns[i]].nullable);
	return bound.rel;
}

/* A view: its text is parsed and bound as if it stood here. */
static struct sql_rel *bind_view(struct sql_ctx *ctx, struct sql_scope *scope, const char *text,
				 const PgQuery__RangeVar *var)
{
	const char *outer_text = ctx->text, *outer_view = ctx->view;
	const PgQuery__ParseResult *parsed;
	struct sql_bound bound;

	sql_enter(ctx, var->location);
	ctx->text = text;
	ctx->view = var->relname;
	parsed = sql_parse(ctx, text);
	if (parsed->n_stmts != 1 ||
	    parsed->stmts[0]->stmt->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		sql_wrong(ctx, -1, "the definition of the view is not a single query");
	bound = sql_bind_select(ctx, NULL, NULL, parsed->stmts[0]->stmt->select_stmt);
	ctx->text = outer_text;
	ctx->view = outer_view;
	sql_leave(ctx);
	return add_bound(ctx, scope, bound, var->alias ? var->alias->aliasname : var->relname,
			 var->alias, var->location);
}

static const struct sql_cte *find_cte(const struct sql_scope *scope, const char *name)
{
	for (const struct sql_cte *cte = scope->ctes; cte; cte = cte->next) {
		if (!strcmp(cte->name, name))
			return cte;
	}
	return NULL;
}

/* Each use of a WITH query is bound anew, so that its columns are its own. */
struct sql_bound sql_bind_cte(struct sql_ctx *ctx, const struct sql_cte *cte)
{
	const PgQuery__CommonTableExpr *node = cte->node;
	struct sql_bound bound;

	*cte->used = true;
	sql_enter(ctx, node->location);
	bound = sql_bind_select(ctx, cte->parent, cte->visible, node->ctequery->select_stmt);
	sql_leave(ctx);
	if (node->n_aliascolnames > bound.count)
		sql_wrong(ctx, node->location,
			  "WITH query \"%s\" has %u columns but lists %zu column names", cte->name,
			  bound.count, node->n_aliascolnames);
	for (size_t i = 0; i < node->n_aliascolnames; i++)
		bound.names[i] = sql_node_string(ctx, node->aliascolnames[i]);
	return bound;
}

static struct sql_rel *bind_range(struct sql_ctx *ctx, struct sql_scope *scope,
				  const PgQuery__RangeVar *var)
{
	const struct sql_cte *cte = find_cte(scope, var->relname);
	const struct sql_table *table;
	const char *view;

	check_range(ctx, var);
	if (cte)
		return add_bound(ctx, scope, sql_bind_cte(ctx, cte),
				 var->alias ? var->alias->aliasname : var->relname, var->alias,
				 var->location);
	table = ctx->catalog->table(ctx->catalog->self, var->relname);
	if (table)
		return bind_table(ctx, scope, table, var->alias, var->location);
	view = ctx->catalog->view(ctx->catalog->self, var->relname);
	if (!view)
		no_such_table(ctx, scope, var);
	return bind_view(ctx, scope, view, var);
}

/* Subqueries and joins in FROM have no place of their own: that of what stands first in them. */
static int item_location(const PgQuery__Node *node)
{
	const PgQuery__SelectStmt *select;

	if (node->node_case == PG_QUERY__NODE__NODE_JOIN_EXPR)
		return item_location(node->join_expr->larg);
	if (node->node_case == PG_QUERY__NODE__NODE_RANGE_TABLE_SAMPLE)
		return node->range_table_sample->location;
	if (node->node_case != PG_QUERY__NODE__NODE_RANGE_SUBSELECT ||
	    node->range_subselect->subquery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		return sql_node_location(node);
	select = node->range_subselect->subquery->select_stmt;
	if (select->n_target_list > 0)
		return select->target_list[0]->res_target->location;
	if (select->n_values_lists > 0 && select->values_lists[0]->list->n_items > 0)
		return sql_node_location(select->values_lists[0]->list->items[0]);
	return -1;
}

static struct sql_rel *bind_derived(struct sql_ctx *ctx, struct sql_scope *scope,
				    const PgQuery__Node *node)
{
	const PgQuery__RangeSubselect *sub = node->range_subselect;
	struct sql_bound bound;

	if (sub->lateral)
		sql_unsupported(ctx, item_location(node), "LATERAL");
	if (sub->subquery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		sql_unsupported(ctx, -1, "this subquery in FROM");
	bound = sql_bind_select(ctx, scope->parent, scope->ctes, sub->subquery->select_stmt);
	return add_bound(ctx, scope, bound, sub->alias ? sub->alias->aliasname : NULL, sub->alias,
			 -1);
}

/* The one column of this name among entries [from, to) of the scope. */
static struct sql_scope_column *using_column(struct sql_ctx *ctx, struct sql_scope *scope,
					     unsigned from, unsigned to, const char *name)
{
	struct sql_scope_column *found = NULL;

	for (unsigned i = from; i < to; i++) {
		struct sql_scope_column *entry = scope->columns.items[i];

		if (entry->hidden || strcmp(entry->name, name) != 0)
			continue;
		if (found)
			sql_wrong(ctx, -1, "USING: column \"%s\" is ambiguous", name);
		found = entry;
	}
	return found;
}

/* ---- USING and NATURAL ---- */

/* Two columns that a join makes one: `*` shows it once, in front. */
struct merged {
	const char *name;
	struct sql_scope_column *left, *right;
};

static void add_merged(struct sql_ctx *ctx, struct sql_scope *scope, unsigned from, unsigned middle,
		       const char *name, struct sql_list *merged)
{
	struct merged *m = sql_alloc(ctx, sizeof(*m));

	for (unsigned i = 0; i < merged->count; i++) {
		if (!strcmp(((struct merged *)merged->items[i])->name, name))
			sql_wrong(ctx, -1, "USING: column \"%s\" is listed twice", name);
	}
	m->name = name;
	m->left = using_column(ctx, scope, from, middle, name);
	m->right = using_column(ctx, scope, middle, scope->columns.count, name);
	if (!m->left || !m->right)
		sql_wrong(ctx, -1, "USING: column \"%s\" is not on both sides of the join", name);
	sql_list_add(ctx, merged, m);
}

static bool has_column(const struct sql_scope *scope, unsigned from, unsigned to, const char *name)
{
	for (unsigned i = from; i < to; i++) {
		const struct sql_scope_column *entry = scope->columns.items[i];

		if (!entry->hidden && !strcmp(entry->name, name))
			return true;
	}
	return false;
}

static void find_merged(struct sql_ctx *ctx, struct sql_scope *scope, const PgQuery__JoinExpr *join,
			unsigned from, unsigned middle, struct sql_list *merged)
{
	for (size_t i = 0; i < join->n_using_clause; i++)
		add_merged(ctx, scope, from, middle, sql_node_string(ctx, join->using_clause[i]),
			   merged);
	for (unsigned i = from; join->is_natural && i < middle; i++) {
		const struct sql_scope_column *entry = scope->columns.items[i];

		if (!entry->hidden && has_column(scope, middle, scope->columns.count, entry->name))
			add_merged(ctx, scope, from, middle, entry->name, merged);
	}
}

static struct sql_expr *scope_expr(struct sql_ctx *ctx, const struct sql_scope_column *entry)
{
	struct sql_expr *e = sql_column_expr(ctx, entry->column, -1);

	e->nullable = entry->nullable;
	return e;
}

/* The value of a merged column: that of the side whose rows are all there, in the type of both. */
static struct sql_expr *merged_expr(struct sql_ctx *ctx, const struct merged *m,
				    PgQuery__JoinType kind)
{
	struct sql_expr *args[2] = {scope_expr(ctx, m->left), scope_expr(ctx, m->right)};
	struct sql_type type = sql_common_type(ctx, args[0]->type, args[1]->type, "USING", -1);

	for (int side = 0; side < 2; side++) {
		if (args[side]->type.kind != type.kind)
			args[side] = sql_cast_expr(ctx, args[side], type);
	}
	if (kind == PG_QUERY__JOIN_TYPE__JOIN_FULL) {
		sql_unify(ctx, 2, args, "USING");
		return sql_call(ctx, SQL_COALESCE, args[0]->type, 2, args, -1);
	}
	if (kind == PG_QUERY__JOIN_TYPE__JOIN_INNER)
		return args[args[0]->kind != SQL_COLUMN && args[1]->kind == SQL_COLUMN];
	return args[kind == PG_QUERY__JOIN_TYPE__JOIN_RIGHT];
}

/*
 * Puts an entry for each merged column in front of those of the join, and hides the two that it
 * stands for.
 */
static struct sql_rel *merge_columns(struct sql_ctx *ctx, struct sql_scope *scope,
				     PgQuery__JoinType kind, unsigned from,
				     const struct sql_list *merged, struct sql_rel *rel)
{
	unsigned n = rel->width, room = n + merged->count, old = scope->columns.count;
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, room);
	int *columns = SQL_ARRAY(ctx, int, room);
	void **items;

	for (unsigned i = 0; i < n; i++) {
		columns[i] = rel->columns[i];
		exprs[i] = sql_column_expr(ctx, columns[i], -1);
	}
	for (unsigned i = 0; i < merged->count; i++) {
		struct merged *m = merged->items[i];
		struct sql_expr *e = merged_expr(ctx, m, kind);
		int column = e->kind == SQL_COLUMN
				     ? e->column
				     : sql_new_column(ctx, m->name, e->type, e->nullable);

		if (e->kind != SQL_COLUMN) {
			columns[n] = column;
			exprs[n++] = e;
		}
		m->left->hidden = m->right->hidden = true;
		sql_scope_add(ctx, scope, NULL, m->name, column, e->nullable);
	}
	items = SQL_ARRAY(ctx, void *, scope->columns.count);
	memcpy(items, scope->columns.items, scope->columns.count * sizeof(*items));
	memcpy(scope->columns.items + from, items + old, merged->count * sizeof(*items));
	memcpy(scope->columns.items + from + merged->count, items + from,
	       (old - from) * sizeof(*items));
	return n > rel->width ? sql_project(ctx, rel, n, columns, exprs) : rel;
}

/* The condition of a join sees its own two sides, and the queries around. */
static struct sql_expr *join_condition(struct sql_ctx *ctx, struct sql_scope *scope,
				       const PgQuery__JoinExpr *join, unsigned from,
				       unsigned middle, struct sql_list *merged)
{
	struct sql_expr *condition = NULL;
	struct sql_scope inner;

	find_merged(ctx, scope, join, from, middle, merged);
	for (unsigned i = 0; i < merged->count; i++) {
		const struct merged *m = merged->items[i];

		condition = sql_and(ctx, condition,
				    sql_compare(ctx, SQL_EQ, scope_expr(ctx, m->left),
						scope_expr(ctx, m->right), -1));
	}
	if (!join->quals)
		return condition;
	inner = *scope;
	inner.columns.items += from;
	inner.columns.count -= from;
	inner.columns.room = inner.columns.count;
	inner.clause = "JOIN ... ON";
	return sql_condition(ctx, sql_bind_expr(ctx, &inner, join->quals), "ON");
}

static void make_nullable(struct sql_scope *scope, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		((struct sql_scope_column *)scope->columns.items[i])->nullable = true;
}

/* ---- FULL JOIN ---- */

/*
 * The columns of the join as new ones: those before `middle` NULL if `padded`. Entries of the scope
 * say which they are.
 */
static struct sql_rel *full_side(struct sql_ctx *ctx, const struct sql_scope *scope, unsigned from,
				 unsigned middle, bool padded, struct sql_rel *rel)
{
	unsigned n = scope->columns.count - from;
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, n);
	int *columns = SQL_ARRAY(ctx, int, n);

	for (unsigned i = 0; i < n; i++) {
		const struct sql_scope_column *entry = scope->columns.items[from + i];
		struct sql_type type = ctx->columns[entry->column].type;

		exprs[i] = padded && from + i < middle ? sql_null(ctx, type)
						       : sql_column_expr(ctx, entry->column, -1);
		exprs[i]->nullable = true;
		columns[i] = sql_new_column(ctx, entry->name, type, true);
	}
	return sql_project(ctx, rel, n, columns, exprs);
}

static struct sql_rel *union_all(struct sql_ctx *ctx, struct sql_rel *a, struct sql_rel *b)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_UNION, a, b, a->width);

	rel->set.left_columns = sql_copy_columns(ctx, a->width, a->columns);
	rel->set.right_columns = sql_copy_columns(ctx, a->width, b->columns);
	for (unsigned i = 0; i < a->width; i++) {
		const struct sql_column *column = &ctx->columns[a->columns[i]];

		rel->columns[i] = sql_new_column(ctx, column->name, column->type, true);
	}
	return rel;
}

/*
 * A FULL JOIN is the left join and, after it, the rows of the right side without a match. For these
 * both sides are bound a second time, so that their columns are their own. The scope's entries
 * become the columns of the union.
 */
static struct sql_rel *full_join(struct sql_ctx *ctx, struct sql_scope *scope,
				 const PgQuery__JoinExpr *join, unsigned from, unsigned middle,
				 struct sql_rel *matched)
{
	struct sql_scope again = *scope;
	struct sql_list merged = {0};
	struct sql_rel *left, *right, *rel;
	struct sql_expr *condition;

	again.columns = (struct sql_list){0};
	for (unsigned i = 0; i < from; i++)
		sql_list_add(ctx, &again.columns, scope->columns.items[i]);
	left = bind_item(ctx, &again, join->larg);
	right = bind_item(ctx, &again, join->rarg);
	condition = join_condition(ctx, &again, join, from, middle, &merged);
	if (condition && sql_has_subquery(condition))
		sql_unsupported(ctx, condition->at, "a subquery in the ON of a FULL JOIN");
	matched = full_side(ctx, scope, from, middle, false, matched);
	rel = sql_join_rel(ctx, SQL_ANTI, right, left, condition);
	rel = full_side(ctx, &again, from, middle, true, rel);
	return union_all(ctx, matched, rel);
}

static struct sql_rel *bind_full(struct sql_ctx *ctx, struct sql_scope *scope,
				 const PgQuery__JoinExpr *join, unsigned from, unsigned middle,
				 struct sql_rel *matched)
{
	struct sql_rel *rel = full_join(ctx, scope, join, from, middle, matched);

	for (unsigned i = 0; i < rel->width; i++) {
		struct sql_scope_column *entry = scope->columns.items[from + i];

		entry->column = rel->columns[i];
		entry->nullable = true;
	}
	return rel;
}

static struct sql_rel *join_sides(struct sql_ctx *ctx, struct sql_scope *scope,
				  const PgQuery__JoinExpr *join, unsigned from,
				  struct sql_list *merged)
{
	struct sql_rel *left = bind_item(ctx, scope, join->larg), *right;
	unsigned middle = scope->columns.count;
	struct sql_expr *condition;

	right = bind_item(ctx, scope, join->rarg);
	condition = join_condition(ctx, scope, join, from, middle, merged);
	switch (join->jointype) {
	case PG_QUERY__JOIN_TYPE__JOIN_INNER:
		return sql_join_rel(ctx, SQL_INNER, left, right, condition);
	case PG_QUERY__JOIN_TYPE__JOIN_LEFT:
		make_nullable(scope, middle, scope->columns.count);
		return sql_join_rel(ctx, SQL_LEFT_OUTER, left, right, condition);
	case PG_QUERY__JOIN_TYPE__JOIN_RIGHT:
		make_nullable(scope, from, middle);
		return sql_join_rel(ctx, SQL_LEFT_OUTER, right, left, condition);
	case PG_QUERY__JOIN_TYPE__JOIN_FULL:
		return bind_full(ctx, scope, join, from, middle,
				 sql_join_rel(ctx, SQL_LEFT_OUTER, left, right, condition));
	default:
		sql_unsupported(ctx, -1, "this kind of join");
	}
}

static struct sql_rel *bind_join(struct sql_ctx *ctx, struct sql_scope *scope,
				 const PgQuery__JoinExpr *join)
{
	unsigned from = scope->columns.count;
	struct sql_list merged = {0};
	struct sql_rel *rel;

	if (join->alias || join->join_using_alias)
		sql_unsupported(ctx, item_location(join->larg), "an alias of a join");
	rel = join_sides(ctx, scope, join, from, &merged);
	return merged.count ? merge_columns(ctx, scope, join->jointype, from, &merged, rel) : rel;
}

static struct sql_rel *bind_item(struct sql_ctx *ctx, struct sql_scope *scope,
				 const PgQuery__Node *node)
{
	struct sql_rel *rel;

	sql_enter(ctx, -1);
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_RANGE_VAR:
		rel = bind_range(ctx, scope, node->range_var);
		break;
	case PG_QUERY__NODE__NODE_RANGE_SUBSELECT:
		rel = bind_derived(ctx, scope, node);
		break;
	case PG_QUERY__NODE__NODE_JOIN_EXPR:
		rel = bind_join(ctx, scope, node->join_expr);
		break;
	default:
		sql_unsupported(ctx, item_location(node), "%s", sql_node_name(node));
	}
	sql_leave(ctx);
	return rel;
}

struct sql_rel *sql_bind_from(struct sql_ctx *ctx, struct sql_scope *scope,
			      const PgQuery__SelectStmt *select)
{
	struct sql_rel *rel = NULL;

	for (size_t i = 0; i < select->n_from_clause; i++) {
		struct sql_rel *next = bind_item(ctx, scope, select->from_clause[i]);

		rel = rel ? sql_join_rel(ctx, SQL_INNER, rel, next, NULL) : next;
	}
	return rel ? rel : sql_one_row(ctx);
}
