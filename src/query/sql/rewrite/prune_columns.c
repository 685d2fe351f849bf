/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Columns that nothing uses go away, and with them projections that compute nothing, aggregates
 * that nobody reads, and left joins that neither add rows nor are looked at.
 */
#include "query/sql/rewrite/rewrite.h"

#include <string.h>

static void add_expr(struct sql_ctx *ctx, const struct sql_expr *e, struct sql_set *set)
{
	if (e)
		sql_expr_columns(ctx, e, set);
}

/* Keeps the output columns that are needed; `also` is an array that runs beside them, or NULL. */
static void keep_needed(struct sql_rel *rel, const struct sql_set *needed, unsigned *ordinals,
			struct sql_expr **exprs)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rel->width; i++) {
		if (!sql_set_has(needed, rel->columns[i]))
			continue;
		if (ordinals)
			ordinals[n] = ordinals[i];
		if (exprs)
			exprs[n] = exprs[i];
		rel->columns[n++] = rel->columns[i];
	}
	rel->width = n;
}

static bool passes_all(const struct sql_rel *rel)
{
	for (unsigned i = 0; i < rel->width; i++) {
		if (rel->exprs[i]->kind != SQL_COLUMN || rel->exprs[i]->column != rel->columns[i])
			return false;
	}
	return true;
}

/* A projection above a projection is one, unless that would compute something twice. */
static void merge_projects(struct sql_ctx *ctx, struct sql_rel *rel)
{
	while (rel->left->kind == SQL_PROJECT) {
		struct sql_rel *below = rel->left;
		struct sql_binding binding = {
			.count = below->width, .columns = below->columns, .exprs = below->exprs};
		unsigned *uses = SQL_ARRAY(ctx, unsigned, ctx->column_count);

		for (unsigned i = 0; i < rel->width; i++) {
			struct sql_set used = {0};

			sql_expr_columns(ctx, rel->exprs[i], &used);
			for (unsigned j = 0; j < below->width; j++)
				uses[below->columns[j]] += sql_set_has(&used, below->columns[j]);
		}
		for (unsigned j = 0; j < below->width; j++) {
			if (uses[below->columns[j]] > 1 && below->exprs[j]->count)
				return;
		}
		for (unsigned i = 0; i < rel->width; i++)
			rel->exprs[i] =
				sql_simplify(ctx, sql_substitute(ctx, rel->exprs[i], &binding));
		rel->left = below->left;
	}
}

static struct sql_rel *prune_project(struct sql_ctx *ctx, struct sql_rel *rel,
				     const struct sql_set *needed)
{
	struct sql_set below = {0};

	keep_needed(rel, needed, NULL, rel->exprs);
	merge_projects(ctx, rel);
	for (unsigned i = 0; i < rel->width; i++)
		add_expr(ctx, rel->exprs[i], &below);
	rel->left = sql_prune(ctx, rel->left, &below);
	return passes_all(rel) ? rel->left : rel;
}

static struct sql_rel *prune_aggregate(struct sql_ctx *ctx, struct sql_rel *rel,
				       const struct sql_set *needed)
{
	struct sql_set below = {0};
	struct sql_agg *aggs = SQL_ARRAY(ctx, struct sql_agg, rel->agg.agg_count);
	unsigned n = 0, width = 0, keys = rel->agg.key_count;

	for (unsigned i = 0; i < rel->agg.agg_count; i++) {
		if (sql_set_has(needed, rel->agg.aggs[i].column))
			aggs[n++] = rel->agg.aggs[i];
	}
	/* keys that are only carried may go */
	for (unsigned i = 0; i < keys; i++) {
		if (i < rel->agg.determinant_count || sql_set_has(needed, rel->columns[i])) {
			sql_set_add(ctx, &below, rel->columns[i]);
			rel->columns[width++] = rel->columns[i];
		}
	}
	rel->agg.key_count = width;
	rel->agg.agg_count = n;
	rel->agg.aggs = aggs;
	for (unsigned i = 0; i < n; i++) {
		rel->columns[width++] = aggs[i].column;
		add_expr(ctx, aggs[i].arg, &below);
	}
	rel->width = width;
	rel->left = sql_prune(ctx, rel->left, &below);
	return rel;
}

/* A left join that adds neither rows nor columns. */
static bool needless(struct sql_ctx *ctx, const struct sql_rel *rel, const struct sql_set *needed)
{
	struct sql_set right = {0};

	if (rel->join.kind != SQL_LEFT_OUTER)
		return false;
	sql_set_add_outputs(ctx, &right, rel->right);
	return !sql_set_meets(&right, needed) && sql_one_match(ctx, rel);
}

static struct sql_rel *prune_join(struct sql_ctx *ctx, struct sql_rel *rel,
				  const struct sql_set *needed)
{
	struct sql_set below = {0};

	if (needless(ctx, rel, needed))
		return sql_prune(ctx, rel->left, needed);
	sql_set_join(ctx, &below, needed);
	add_expr(ctx, rel->join.condition, &below);
	add_expr(ctx, rel->join.null_condition, &below);
	keep_needed(rel, needed, NULL, NULL);
	rel->left = sql_prune(ctx, rel->left, &below);
	rel->right = sql_prune(ctx, rel->right, &below);
	return rel;
}

static struct sql_rel *prune_union(struct sql_ctx *ctx, struct sql_rel *rel,
				   const struct sql_set *needed)
{
	struct sql_set left = {0}, right = {0};
	unsigned n = 0;

	for (unsigned i = 0; i < rel->width; i++) {
		if (!sql_set_has(needed, rel->columns[i]))
			continue;
		rel->columns[n] = rel->columns[i];
		rel->set.left_columns[n] = rel->set.left_columns[i];
		rel->set.right_columns[n] = rel->set.right_columns[i];
		sql_set_add(ctx, &left, rel->set.left_columns[n]);
		sql_set_add(ctx, &right, rel->set.right_columns[n]);
		n++;
	}
	rel->width = n;
	rel->left = sql_prune(ctx, rel->left, &left);
	rel->right = sql_prune(ctx, rel->right, &right);
	return rel;
}

static struct sql_rel *prune_values(struct sql_ctx *ctx, struct sql_rel *rel,
				    const struct sql_set *needed)
{
	unsigned n = 0, kept = 0, width = rel->width;
	struct sql_expr **cells =
		SQL_ARRAY(ctx, struct sql_expr *, (size_t)width * rel->values.row_count);

	for (unsigned i = 0; i < width * rel->values.row_count; i++) {
		if (sql_set_has(needed, rel->columns[i % width]))
			cells[n++] = rel->values.cells[i];
	}
	for (unsigned i = 0; i < width; i++) {
		if (sql_set_has(needed, rel->columns[i]))
			rel->columns[kept++] = rel->columns[i];
	}
	rel->width = kept;
	rel->values.cells = cells;
	return rel;
}

static struct sql_rel *prune_rel(struct sql_ctx *ctx, struct sql_rel *rel,
				 const struct sql_set *needed)
{
	struct sql_set below = {0};

	switch (rel->kind) {
	case SQL_SCAN:
		keep_needed(rel, needed, rel->scan.ordinals, NULL);
		return rel;
	case SQL_PROJECT:
		return prune_project(ctx, rel, needed);
	case SQL_JOIN:
		return prune_join(ctx, rel, needed);
	case SQL_AGGREGATE:
		return prune_aggregate(ctx, rel, needed);
	case SQL_UNION:
		return prune_union(ctx, rel, needed);
	case SQL_VALUES:
		return prune_values(ctx, rel, needed);
	case SQL_FILTER:
		sql_set_join(ctx, &below, needed);
		add_expr(ctx, rel->predicate, &below);
		break;
	case SQL_SORT:
		sql_set_join(ctx, &below, needed);
		for (unsigned i = 0; i < rel->sort.key_count; i++)
			sql_set_add(ctx, &below, rel->sort.keys[i].column);
		break;
	case SQL_LIMIT:
		sql_set_join(ctx, &below, needed);
		break;
	}
	keep_needed(rel, needed, NULL, NULL);
	rel->left = sql_prune(ctx, rel->left, &below);
	return rel;
}

struct sql_rel *sql_prune(struct sql_ctx *ctx, struct sql_rel *rel, const struct sql_set *needed)
{
	sql_enter(ctx, -1);
	rel = prune_rel(ctx, rel, needed);
	sql_leave(ctx);
	return rel;
}
