/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UNION, INTERSECT, EXCEPT and VALUES. INTERSECT is a semi join and EXCEPT an anti join of distinct
 * rows, in which NULL is a value like others.
 */
#include "query/sql/bind/bind_query.h"
#include "query/sql/bind/typing.h"

#include <string.h>

static struct sql_expr *retyped(struct sql_ctx *ctx, struct sql_expr *e, struct sql_type type)
{
	e = sql_coerce(ctx, e, type, "a literal");
	return sql_is_string(type.kind) ? e : sql_fold(ctx, sql_cast_expr(ctx, e, type));
}

static void retype_project(struct sql_ctx *ctx, struct sql_rel *rel, int column,
			   struct sql_type type)
{
	for (unsigned i = 0; i < rel->width; i++) {
		struct sql_expr *e = rel->exprs[i];

		if (rel->columns[i] != column)
			continue;
		if (e->kind == SQL_COLUMN && e->type.kind == SQL_UNKNOWN) {
			sql_retype(ctx, rel->left, e->column, type);
			rel->exprs[i] = sql_column_expr(ctx, e->column, e->at);
		} else {
			rel->exprs[i] = retyped(ctx, e, type);
		}
	}
}

void sql_retype(struct sql_ctx *ctx, struct sql_rel *rel, int column, struct sql_type type)
{
	if (!rel || !sql_outputs(rel, column))
		return;
	sql_enter(ctx, -1);
	switch (rel->kind) {
	case SQL_PROJECT:
		retype_project(ctx, rel, column, type);
		break;
	case SQL_VALUES:
		for (unsigned i = 0; i < rel->width * rel->values.row_count; i++) {
			if (rel->columns[i % rel->width] == column)
				rel->values.cells[i] = retyped(ctx, rel->values.cells[i], type);
		}
		break;
	case SQL_UNION:
		for (unsigned i = 0; i < rel->width; i++) {
			if (rel->columns[i] == column) {
				sql_retype(ctx, rel->left, rel->set.left_columns[i], type);
				sql_retype(ctx, rel->right, rel->set.right_columns[i], type);
			}
		}
		break;
	default:
		sql_retype(ctx, rel->left, column, type);
		sql_retype(ctx, rel->right, column, type);
	}
	ctx->columns[column].type = type;
	sql_leave(ctx);
}

/* The types of both sides become equal, column by column. */
static struct sql_type *match_sides(struct sql_ctx *ctx, struct sql_bound *a, struct sql_bound *b,
				    const char *what)
{
	struct sql_type *types = SQL_ARRAY(ctx, struct sql_type, a->count);
	struct sql_bound *sides[] = {a, b};

	for (unsigned i = 0; i < a->count; i++) {
		types[i] = sql_common_type(ctx, ctx->columns[a->columns[i]].type,
					   ctx->columns[b->columns[i]].type, what, -1);
		if (types[i].kind == SQL_UNKNOWN)
			types[i] = SQL_TYPE_TEXT;
	}
	for (int side = 0; side < 2; side++) {
		struct sql_bound *bound = sides[side];
		struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, bound->count);
		int *columns = SQL_ARRAY(ctx, int, bound->count);

		for (unsigned i = 0; i < bound->count; i++) {
			int column = bound->columns[i];

			if (ctx->columns[column].type.kind == SQL_UNKNOWN)
				sql_retype(ctx, bound->rel, column, types[i]);
			exprs[i] = sql_cast_expr(ctx, sql_column_expr(ctx, column, -1), types[i]);
			columns[i] =
				sql_new_column(ctx, bound->names[i], types[i], exprs[i]->nullable);
		}
		bound->rel = sql_project(ctx, bound->rel, bound->count, columns, exprs);
		bound->columns = columns;
	}
	return types;
}

static struct sql_rel *make_union(struct sql_ctx *ctx, const struct sql_bound *a,
				  const struct sql_bound *b, const struct sql_type *types)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_UNION, a->rel, b->rel, a->count);

	rel->set.left_columns = sql_copy_columns(ctx, a->count, a->columns);
	rel->set.right_columns = sql_copy_columns(ctx, a->count, b->columns);
	for (unsigned i = 0; i < a->count; i++)
		rel->columns[i] = sql_new_column(ctx, a->names[i], types[i],
						 ctx->columns[a->columns[i]].nullable ||
							 ctx->columns[b->columns[i]].nullable);
	return rel;
}

static struct sql_rel *make_set_join(struct sql_ctx *ctx, enum sql_join_kind kind,
				     const struct sql_bound *a, const struct sql_bound *b)
{
	struct sql_expr *condition = NULL;

	for (unsigned i = 0; i < a->count; i++)
		condition = sql_and(ctx, condition,
				    sql_call2(ctx, SQL_IS_NOT_DISTINCT, SQL_TYPE_BOOL,
					      sql_column_expr(ctx, a->columns[i], -1),
					      sql_column_expr(ctx, b->columns[i], -1)));
	return sql_join_rel(ctx, kind, sql_distinct(ctx, a->rel), b->rel, condition);
}

/* ORDER BY of a set operation or VALUES: positions and names of the result only. */
static struct sql_rel *sort_result(struct sql_ctx *ctx, struct sql_rel *rel,
				   const struct sql_bound *bound, const PgQuery__SelectStmt *select)
{
	int *columns = SQL_ARRAY(ctx, int, select->n_sort_clause);

	for (size_t i = 0; i < select->n_sort_clause; i++) {
		const PgQuery__Node *node = select->sort_clause[i]->sort_by->node;
		int found = -1;

		if (node->node_case == PG_QUERY__NODE__NODE_A_CONST && !node->a_const->isnull &&
		    node->a_const->val_case == PG_QUERY__A__CONST__VAL_IVAL)
			found = node->a_const->ival->ival - 1;
		for (unsigned j = 0; found < 0 && j < bound->count; j++) {
			if (node->node_case == PG_QUERY__NODE__NODE_COLUMN_REF &&
			    node->column_ref->n_fields == 1 &&
			    !strcmp(sql_node_string(ctx, node->column_ref->fields[0]),
				    bound->names[j]))
				found = (int)j;
		}
		if (found < 0 || (unsigned)found >= bound->count)
			sql_wrong(ctx, sql_node_location(node),
				  "ORDER BY of a set operation accepts only names and positions of "
				  "result columns");
		columns[i] = bound->columns[found];
	}
	return sql_bind_sort(ctx, rel, select, columns);
}

static struct sql_bound finish_set(struct sql_ctx *ctx, struct sql_bound bound,
				   const PgQuery__SelectStmt *select)
{
	if (select->n_locking_clause)
		sql_unsupported(ctx, -1, "FOR UPDATE or FOR SHARE");
	bound.rel = sort_result(ctx, bound.rel, &bound, select);
	bound.rel = sql_bind_limit(ctx, bound.rel, select);
	return bound;
}

struct sql_bound sql_bind_set(struct sql_ctx *ctx, const struct sql_scope *parent,
			      const struct sql_cte *ctes, const PgQuery__SelectStmt *select)
{
	static const char *const names[] = {"", "", "UNION", "INTERSECT", "EXCEPT"};
	bool is_union = select->op == PG_QUERY__SET_OPERATION__SETOP_UNION;
	struct sql_bound a = sql_bind_query(ctx, parent, ctes, select->larg, true);
	struct sql_bound b = sql_bind_query(ctx, parent, ctes, select->rarg, true);
	const char *name = select->op <= 4 ? names[select->op] : "";
	struct sql_bound bound = {.count = a.count, .names = a.names};
	struct sql_type *types;

	if (select->all && !is_union)
		sql_unsupported(ctx, -1, "%s ALL", name);
	if (a.count != b.count)
		sql_wrong(ctx, -1, "%s: the two queries have %u and %u columns", name, a.count,
			  b.count);
	types = match_sides(ctx, &a, &b, name);
	if (is_union) {
		bound.rel = make_union(ctx, &a, &b, types);
		bound.columns = sql_copy_columns(ctx, bound.count, bound.rel->columns);
		if (!select->all)
			bound.rel = sql_distinct(ctx, bound.rel);
	} else {
		bound.rel = make_set_join(ctx,
					  select->op == PG_QUERY__SET_OPERATION__SETOP_INTERSECT
						  ? SQL_SEMI
						  : SQL_ANTI,
					  &a, &b);
		bound.columns = a.columns;
	}
	return finish_set(ctx, bound, select);
}

static struct sql_expr *bind_cell(struct sql_ctx *ctx, struct sql_scope *scope,
				  const PgQuery__Node *node)
{
	struct sql_expr *e = sql_bind_expr(ctx, scope, node);

	sql_check_value(ctx, e);
	return e;
}

/* Whether all cells of a row are computed from nothing else. */
static bool is_plain_row(struct sql_ctx *ctx, const struct sql_rel *values, unsigned row)
{
	for (unsigned i = 0; i < values->width; i++) {
		const struct sql_expr *e = values->values.cells[row * values->width + i];
		struct sql_set used = {0};

		sql_expr_columns(ctx, e, &used);
		if (sql_has_subquery(e) || !sql_set_empty(&used))
			return false;
	}
	return true;
}

/* Rows `from` to `to` of VALUES as a relation: one row with subqueries, or plain rows. */
static struct sql_bound part_of_values(struct sql_ctx *ctx, const struct sql_rel *values,
				       unsigned from, unsigned to, bool plain)
{
	unsigned width = values->width;
	struct sql_bound part = {.count = width, .columns = SQL_ARRAY(ctx, int, width)};
	struct sql_expr **cells = values->values.cells + (size_t)from * width;

	for (unsigned i = 0; i < width; i++) {
		const struct sql_column column = ctx->columns[values->columns[i]];

		part.columns[i] = sql_new_column(ctx, column.name, column.type, true);
	}
	if (!plain) {
		part.rel = sql_project(ctx, sql_one_row(ctx), width, part.columns, cells);
		return part;
	}
	part.rel = sql_new_rel(ctx, SQL_VALUES, NULL, NULL, width);
	memcpy(part.rel->columns, part.columns, width * sizeof(int));
	part.rel->values.row_count = to - from;
	part.rel->values.cells = cells;
	return part;
}

/* VALUES with subqueries or columns of outer queries is the union of its rows. */
static struct sql_rel *split_values(struct sql_ctx *ctx, struct sql_rel *values)
{
	unsigned rows = values->values.row_count, width = values->width;
	struct sql_type *types = SQL_ARRAY(ctx, struct sql_type, width);
	struct sql_bound all = {0};

	for (unsigned i = 0; i < width; i++)
		types[i] = ctx->columns[values->columns[i]].type;
	for (unsigned from = 0, to; from < rows; from = to) {
		bool plain = is_plain_row(ctx, values, from);
		struct sql_bound part;

		for (to = from + 1; plain && to < rows && is_plain_row(ctx, values, to); to++)
			;
		if (plain && from == 0 && to == rows)
			return values;
		part = part_of_values(ctx, values, from, to, plain);
		part.names = SQL_ARRAY(ctx, const char *, width);
		for (unsigned i = 0; i < width; i++)
			part.names[i] = ctx->columns[values->columns[i]].name;
		if (all.rel) {
			all.rel = make_union(ctx, &all, &part, types);
			all.columns = sql_copy_columns(ctx, width, all.rel->columns);
		} else {
			all = part;
		}
	}
	return all.rel;
}

static void unify_cells(struct sql_ctx *ctx, struct sql_rel *rel, unsigned column)
{
	unsigned rows = rel->values.row_count;
	struct sql_expr **cells = SQL_ARRAY(ctx, struct sql_expr *, rows);
	struct sql_type type = {.kind = SQL_UNKNOWN};

	for (unsigned i = 0; i < rows; i++) {
		cells[i] = rel->values.cells[i * rel->width + column];
		type = sql_common_type(ctx, type, cells[i]->type, "VALUES", cells[i]->at);
	}
	/* literals without a type may still get one from outside */
	if (type.kind != SQL_UNKNOWN)
		type = sql_unify(ctx, rows, cells, "VALUES");
	for (unsigned i = 0; i < rows; i++)
		rel->values.cells[i * rel->width + column] = cells[i];
	rel->columns[column] =
		sql_new_column(ctx, sql_format(ctx, "column%u", column + 1), type, true);
}

struct sql_bound sql_bind_values(struct sql_ctx *ctx, const struct sql_scope *parent,
				 const struct sql_cte *ctes, const PgQuery__SelectStmt *select)
{
	struct sql_scope scope = {.parent = parent, .ctes = ctes, .clause = "VALUES"};
	unsigned rows = (unsigned)select->n_values_lists;
	unsigned width = (unsigned)select->values_lists[0]->list->n_items;
	struct sql_rel *rel = sql_new_rel(ctx, SQL_VALUES, NULL, NULL, width);
	struct sql_bound bound = {.rel = rel, .count = width};

	rel->values.row_count = rows;
	rel->values.cells = SQL_ARRAY(ctx, struct sql_expr *, (size_t)rows * width);
	for (unsigned i = 0; i < rows; i++) {
		const PgQuery__List *row = select->values_lists[i]->list;

		if (row->n_items != width)
			sql_wrong(ctx, -1, "VALUES: row %u has %zu values, the first has %u", i + 1,
				  row->n_items, width);
		for (unsigned j = 0; j < width; j++)
			rel->values.cells[i * width + j] = bind_cell(ctx, &scope, row->items[j]);
	}
	bound.names = SQL_ARRAY(ctx, const char *, width);
	for (unsigned j = 0; j < width; j++) {
		unify_cells(ctx, rel, j);
		bound.names[j] = ctx->columns[rel->columns[j]].name;
	}
	bound.rel = rel = split_values(ctx, rel);
	bound.columns = sql_copy_columns(ctx, width, rel->columns);
	return finish_set(ctx, bound, select);
}
