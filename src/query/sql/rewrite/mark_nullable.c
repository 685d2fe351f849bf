/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which expressions can be NULL where they stand. A column can be if it is where it is made, or
 * above an outer join on whose right side it is; a filter that rejects its NULLs ends that.
 */
#include "query/sql/rewrite/rewrite.h"

struct annotation {
	const struct sql_set *nullable;
};

static struct sql_expr *annotate_column(struct sql_ctx *ctx, void *arg, struct sql_expr *e)
{
	const struct annotation *a = arg;
	bool nullable;
	struct sql_expr *copy;

	if (e->kind != SQL_COLUMN)
		return NULL;
	nullable = sql_set_has(a->nullable, e->column);
	if (nullable == e->nullable)
		return NULL;
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = *e;
	copy->nullable = nullable;
	return copy;
}

/* CASE and casts: sql_expr_map() sees to calls. */
static void settle_nullable(struct sql_expr *e)
{
	for (unsigned i = 0; i < e->count; i++)
		settle_nullable(e->args[i]);
	if (e->kind == SQL_CAST) {
		e->nullable = e->args[0]->nullable;
	} else if (e->kind == SQL_CASE) {
		e->nullable = e->args[e->count - 1]->nullable;
		for (unsigned i = 1; i < e->count; i += 2)
			e->nullable |= e->args[i]->nullable;
	}
}

static struct sql_expr *annotate_expr(struct sql_ctx *ctx, struct sql_expr *e,
				      const struct sql_set *nullable)
{
	struct annotation a = {.nullable = nullable};

	if (!e)
		return NULL;
	e = sql_expr_map(ctx, e, annotate_column, &a);
	settle_nullable(e);
	/* once more, now that casts and CASE inside calls are known */
	return sql_expr_map(ctx, e, annotate_column, &a);
}

static void annotate_tree(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_set *nullable);

/* A filter's columns that cannot be NULL above it. */
static void drop_rejected(struct sql_ctx *ctx, const struct sql_rel *rel,
			  struct sql_expr *predicate, struct sql_set *nullable)
{
	struct sql_list conjuncts = {0};

	sql_conjuncts(ctx, predicate, &conjuncts);
	for (unsigned i = 0; i < rel->width; i++) {
		struct sql_set one = {0};

		if (!sql_set_has(nullable, rel->columns[i]))
			continue;
		sql_set_add(ctx, &one, rel->columns[i]);
		for (unsigned j = 0; j < conjuncts.count; j++) {
			if (sql_rejects_nulls(conjuncts.items[j], &one)) {
				sql_set_remove(nullable, rel->columns[i]);
				break;
			}
		}
	}
}

static void annotate_join(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_set *nullable)
{
	struct sql_set right = {0}, both = {0};

	annotate_tree(ctx, rel->left, nullable);
	annotate_tree(ctx, rel->right, &right);
	sql_set_join(ctx, &both, nullable);
	sql_set_join(ctx, &both, &right);
	rel->join.condition = annotate_expr(ctx, rel->join.condition, &both);
	rel->join.null_condition = annotate_expr(ctx, rel->join.null_condition, &both);
	if (rel->join.kind == SQL_LEFT_OUTER || rel->join.kind == SQL_SINGLE)
		sql_set_add_outputs(ctx, &right, rel->right);
	if (rel->join.kind != SQL_SEMI && rel->join.kind != SQL_ANTI)
		sql_set_join(ctx, nullable, &right);
	if (rel->join.kind == SQL_INNER || rel->join.kind == SQL_SEMI)
		drop_rejected(ctx, rel, rel->join.condition, nullable);
}

static void annotate_union(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_set *nullable)
{
	struct sql_set sides[2] = {{0}, {0}};

	annotate_tree(ctx, rel->left, &sides[0]);
	annotate_tree(ctx, rel->right, &sides[1]);
	for (unsigned i = 0; i < rel->width; i++) {
		if (sql_set_has(&sides[0], rel->set.left_columns[i]) ||
		    sql_set_has(&sides[1], rel->set.right_columns[i]))
			sql_set_add(ctx, nullable, rel->columns[i]);
	}
}

static void annotate_aggregate(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_set *nullable)
{
	for (unsigned i = 0; i < rel->agg.agg_count; i++) {
		struct sql_agg *agg = &rel->agg.aggs[i];

		agg->arg = annotate_expr(ctx, agg->arg, nullable);
		if (agg->op != SQL_COUNT && agg->op != SQL_COUNT_ROWS &&
		    (!rel->agg.grouped || agg->arg->nullable))
			sql_set_add(ctx, nullable, agg->column);
	}
}

static void annotate_project(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_set *nullable)
{
	struct sql_set out = {0};

	for (unsigned i = 0; i < rel->width; i++) {
		rel->exprs[i] = annotate_expr(ctx, rel->exprs[i], nullable);
		if (rel->exprs[i]->nullable)
			sql_set_add(ctx, &out, rel->columns[i]);
	}
	*nullable = out;
}

/* Adds the columns of rel that can be NULL. */
static void annotate_tree(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_set *nullable)
{
	sql_enter(ctx, -1);
	if (rel->kind == SQL_JOIN)
		annotate_join(ctx, rel, nullable);
	else if (rel->kind == SQL_UNION)
		annotate_union(ctx, rel, nullable);
	else if (rel->left)
		annotate_tree(ctx, rel->left, nullable);
	switch (rel->kind) {
	case SQL_SCAN:
		for (unsigned i = 0; i < rel->width; i++) {
			if (rel->scan.table->columns[rel->scan.ordinals[i]].nullable)
				sql_set_add(ctx, nullable, rel->columns[i]);
		}
		break;
	case SQL_FILTER:
		rel->predicate = annotate_expr(ctx, rel->predicate, nullable);
		drop_rejected(ctx, rel, rel->predicate, nullable);
		break;
	case SQL_PROJECT:
		annotate_project(ctx, rel, nullable);
		break;
	case SQL_AGGREGATE:
		annotate_aggregate(ctx, rel, nullable);
		break;
	case SQL_VALUES:
		for (unsigned i = 0; i < rel->width * rel->values.row_count; i++) {
			if (rel->values.cells[i]->nullable)
				sql_set_add(ctx, nullable, rel->columns[i % rel->width]);
		}
		break;
	default:
		break;
	}
	for (unsigned i = 0; i < rel->width; i++) {
		if (rel->kind != SQL_FILTER && rel->kind != SQL_JOIN)
			ctx->columns[rel->columns[i]].nullable =
				sql_set_has(nullable, rel->columns[i]);
	}
	sql_leave(ctx);
}

void sql_annotate(struct sql_ctx *ctx, struct sql_rel *rel)
{
	struct sql_set nullable = {0};

	annotate_tree(ctx, rel, &nullable);
}
