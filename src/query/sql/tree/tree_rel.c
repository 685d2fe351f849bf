/* SPDX-License-Identifier: BSD-2-Clause */
/* Relations: making, walking, cloning. */
#include "query/sql/tree/tree_build.h"

#include <string.h>

static void *duplicate(struct sql_ctx *ctx, const void *from, size_t size)
{
	void *to = sql_alloc(ctx, size);

	if (size)
		memcpy(to, from, size);
	return to;
}

int *sql_copy_columns(struct sql_ctx *ctx, unsigned count, const int *columns)
{
	return duplicate(ctx, columns, count * sizeof(int));
}

struct sql_rel *sql_new_rel(struct sql_ctx *ctx, enum sql_rel_kind kind, struct sql_rel *left,
			    struct sql_rel *right, unsigned width)
{
	struct sql_rel *rel = sql_alloc(ctx, sizeof(*rel));

	rel->kind = kind;
	rel->left = left;
	rel->right = right;
	rel->width = width;
	rel->columns = SQL_ARRAY(ctx, int, width);
	return rel;
}

struct sql_rel *sql_filter(struct sql_ctx *ctx, struct sql_rel *input, struct sql_expr *predicate)
{
	struct sql_rel *rel;

	if (!predicate || sql_is_true(predicate))
		return input;
	if (input->kind == SQL_FILTER) {
		predicate = sql_and(ctx, input->predicate, predicate);
		input = input->left;
	}
	rel = sql_new_rel(ctx, SQL_FILTER, input, NULL, input->width);
	memcpy(rel->columns, input->columns, input->width * sizeof(int));
	rel->predicate = predicate;
	return rel;
}

struct sql_rel *sql_join_rel(struct sql_ctx *ctx, enum sql_join_kind kind, struct sql_rel *left,
			     struct sql_rel *right, struct sql_expr *condition)
{
	bool both = kind != SQL_SEMI && kind != SQL_ANTI;
	struct sql_rel *rel =
		sql_new_rel(ctx, SQL_JOIN, left, right, left->width + (both ? right->width : 0));

	memcpy(rel->columns, left->columns, left->width * sizeof(int));
	if (both)
		memcpy(rel->columns + left->width, right->columns, right->width * sizeof(int));
	rel->join.kind = kind;
	rel->join.condition = condition && sql_is_true(condition) ? NULL : condition;
	return rel;
}

struct sql_rel *sql_project(struct sql_ctx *ctx, struct sql_rel *input, unsigned width,
			    const int *columns, struct sql_expr **exprs)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_PROJECT, input, NULL, width);

	memcpy(rel->columns, columns, width * sizeof(int));
	rel->exprs = SQL_ARRAY(ctx, struct sql_expr *, width);
	memcpy(rel->exprs, exprs, width * sizeof(*exprs));
	return rel;
}

struct sql_rel *sql_one_row(struct sql_ctx *ctx)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_VALUES, NULL, NULL, 0);

	rel->values.row_count = 1;
	return rel;
}

struct sql_rel *sql_no_rows(struct sql_ctx *ctx, unsigned width, const int *columns)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_VALUES, NULL, NULL, width);

	memcpy(rel->columns, columns, width * sizeof(int));
	return rel;
}

struct sql_rel *sql_distinct(struct sql_ctx *ctx, struct sql_rel *input)
{
	struct sql_rel *rel = sql_new_rel(ctx, SQL_AGGREGATE, input, NULL, input->width);

	memcpy(rel->columns, input->columns, input->width * sizeof(int));
	rel->agg.key_count = rel->agg.determinant_count = input->width;
	rel->agg.grouped = true;
	return rel;
}

bool sql_outputs(const struct sql_rel *rel, int column)
{
	for (unsigned i = 0; i < rel->width; i++) {
		if (rel->columns[i] == column)
			return true;
	}
	return false;
}

static void map_list(struct sql_ctx *ctx, unsigned count, struct sql_expr **exprs,
		     sql_replace_fn *replace, void *arg)
{
	for (unsigned i = 0; i < count; i++)
		exprs[i] = sql_expr_map(ctx, exprs[i], replace, arg);
}

static void map_optional(struct sql_ctx *ctx, struct sql_expr **e, sql_replace_fn *replace,
			 void *arg)
{
	if (*e)
		*e = sql_expr_map(ctx, *e, replace, arg);
}

/* The expressions of rel itself. */
static void map_own(struct sql_ctx *ctx, struct sql_rel *rel, sql_replace_fn *replace, void *arg)
{
	switch (rel->kind) {
	case SQL_FILTER:
		rel->predicate = sql_expr_map(ctx, rel->predicate, replace, arg);
		break;
	case SQL_PROJECT:
		map_list(ctx, rel->width, rel->exprs, replace, arg);
		break;
	case SQL_JOIN:
		map_optional(ctx, &rel->join.condition, replace, arg);
		map_optional(ctx, &rel->join.null_condition, replace, arg);
		break;
	case SQL_AGGREGATE:
		for (unsigned i = 0; i < rel->agg.agg_count; i++)
			map_optional(ctx, &rel->agg.aggs[i].arg, replace, arg);
		break;
	case SQL_VALUES:
		map_list(ctx, rel->width * rel->values.row_count, rel->values.cells, replace, arg);
		break;
	default:
		break;
	}
}

void sql_rel_map(struct sql_ctx *ctx, struct sql_rel *rel, sql_replace_fn *replace, void *arg)
{
	sql_enter(ctx, -1);
	map_own(ctx, rel, replace, arg);
	if (rel->left)
		sql_rel_map(ctx, rel->left, replace, arg);
	if (rel->right)
		sql_rel_map(ctx, rel->right, replace, arg);
	sql_leave(ctx);
}

/* Adds the columns that expressions of the tree use, and those that relations make. */
struct column_use {
	struct sql_set used, made;
};

static void collect_expr(struct sql_ctx *ctx, const struct sql_expr *e, struct column_use *use)
{
	if (e)
		sql_expr_columns(ctx, e, &use->used);
}

static void collect_own(struct sql_ctx *ctx, const struct sql_rel *rel, struct column_use *use)
{
	switch (rel->kind) {
	case SQL_FILTER:
		collect_expr(ctx, rel->predicate, use);
		break;
	case SQL_PROJECT:
		for (unsigned i = 0; i < rel->width; i++)
			collect_expr(ctx, rel->exprs[i], use);
		break;
	case SQL_JOIN:
		collect_expr(ctx, rel->join.condition, use);
		collect_expr(ctx, rel->join.null_condition, use);
		break;
	case SQL_AGGREGATE:
		for (unsigned i = 0; i < rel->agg.agg_count; i++)
			collect_expr(ctx, rel->agg.aggs[i].arg, use);
		break;
	case SQL_VALUES:
		for (unsigned i = 0; i < rel->width * rel->values.row_count; i++)
			collect_expr(ctx, rel->values.cells[i], use);
		break;
	default:
		break;
	}
}

static void collect_columns(struct sql_ctx *ctx, const struct sql_rel *rel, struct column_use *use)
{
	sql_enter(ctx, -1);
	collect_own(ctx, rel, use);
	/*
	 * A plain column of a projection is not made by it; if it is free, it is so below as well.
	 */
	for (unsigned i = 0; i < rel->width; i++) {
		bool passed = rel->kind == SQL_PROJECT && rel->exprs[i]->kind == SQL_COLUMN &&
			      rel->exprs[i]->column == rel->columns[i];

		if (!passed)
			sql_set_add(ctx, &use->made, rel->columns[i]);
	}
	if (rel->left)
		collect_columns(ctx, rel->left, use);
	if (rel->right)
		collect_columns(ctx, rel->right, use);
	sql_leave(ctx);
}

void sql_free_columns(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_set *set)
{
	struct column_use use = {{0}, {0}};

	collect_columns(ctx, rel, &use);
	for (unsigned i = 0; i < use.used.words && i < use.made.words; i++)
		use.used.bits[i] &= ~use.made.bits[i];
	sql_set_join(ctx, set, &use.used);
}

struct renumbering {
	unsigned count;
	int *to; /* by old number; -1: stays */
};

static int renumbered(const struct renumbering *map, int column)
{
	return (unsigned)column < map->count && map->to[column] >= 0 ? map->to[column] : column;
}

static void renumber(const struct renumbering *map, unsigned count, int *columns)
{
	for (unsigned i = 0; i < count; i++)
		columns[i] = renumbered(map, columns[i]);
}

static struct sql_expr *replace_renumbered(struct sql_ctx *ctx, void *arg, struct sql_expr *e)
{
	const struct renumbering *map = arg;
	struct sql_expr *copy;

	if (e->kind != SQL_COLUMN || renumbered(map, e->column) == e->column)
		return NULL;
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = *e;
	copy->column = renumbered(map, e->column);
	return copy;
}

/* The arrays of a copied relation become its own. */
static void own_arrays(struct sql_ctx *ctx, struct sql_rel *rel, const struct renumbering *map)
{
	size_t cells;

	rel->columns = duplicate(ctx, rel->columns, rel->width * sizeof(int));
	renumber(map, rel->width, rel->columns);
	switch (rel->kind) {
	case SQL_SCAN:
		rel->scan.ordinals = duplicate(ctx, rel->scan.ordinals,
					       rel->width * sizeof(*rel->scan.ordinals));
		break;
	case SQL_PROJECT:
		rel->exprs = duplicate(ctx, rel->exprs, rel->width * sizeof(*rel->exprs));
		break;
	case SQL_AGGREGATE:
		rel->agg.aggs =
			duplicate(ctx, rel->agg.aggs, rel->agg.agg_count * sizeof(*rel->agg.aggs));
		for (unsigned i = 0; i < rel->agg.agg_count; i++)
			renumber(map, 1, &rel->agg.aggs[i].column);
		break;
	case SQL_SORT:
		rel->sort.keys = duplicate(ctx, rel->sort.keys,
					   rel->sort.key_count * sizeof(*rel->sort.keys));
		for (unsigned i = 0; i < rel->sort.key_count; i++)
			renumber(map, 1, &rel->sort.keys[i].column);
		break;
	case SQL_UNION:
		rel->set.left_columns =
			duplicate(ctx, rel->set.left_columns, rel->width * sizeof(int));
		rel->set.right_columns =
			duplicate(ctx, rel->set.right_columns, rel->width * sizeof(int));
		renumber(map, rel->width, rel->set.left_columns);
		renumber(map, rel->width, rel->set.right_columns);
		break;
	case SQL_VALUES:
		cells = (size_t)rel->width * rel->values.row_count;
		rel->values.cells =
			duplicate(ctx, rel->values.cells, cells * sizeof(struct sql_expr *));
		break;
	default:
		break;
	}
}

static struct sql_rel *clone_tree(struct sql_ctx *ctx, const struct sql_rel *rel,
				  struct renumbering *map)
{
	struct sql_rel *copy = duplicate(ctx, rel, sizeof(*rel));

	sql_enter(ctx, -1);
	own_arrays(ctx, copy, map);
	map_own(ctx, copy, replace_renumbered, map);
	if (rel->left)
		copy->left = clone_tree(ctx, rel->left, map);
	if (rel->right)
		copy->right = clone_tree(ctx, rel->right, map);
	sql_leave(ctx);
	return copy;
}

struct sql_rel *sql_clone(struct sql_ctx *ctx, const struct sql_rel *rel, unsigned count,
			  int *columns)
{
	struct column_use use = {{0}, {0}};
	struct renumbering map;
	struct sql_rel *copy;

	collect_columns(ctx, rel, &use);
	map.count = ctx->column_count;
	map.to = SQL_ARRAY(ctx, int, map.count);
	for (unsigned i = 0; i < map.count; i++) {
		map.to[i] = -1;
		if (sql_set_has(&use.made, (int)i)) {
			struct sql_column column = ctx->columns[i];

			map.to[i] = sql_new_column(ctx, column.name, column.type, column.nullable);
			ctx->columns[map.to[i]].table = column.table;
			ctx->columns[map.to[i]].ordinal = column.ordinal;
		}
	}
	copy = clone_tree(ctx, rel, &map);
	renumber(&map, count, columns);
	return copy;
}
