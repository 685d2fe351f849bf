/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What uniqueness makes needless: group keys that others determine are carried along; a DISTINCT of
 * distinct rows goes away, and so does one below a semi join; a single join whose right side has at
 * most one match is a left join; NOT IN without NULLs is a plain anti join.
 */
#include "query/sql/rewrite/rewrite.h"

#include <string.h>

/* Keys that we would rather keep: narrow ones. */
static int key_width(struct sql_type type)
{
	switch (type.kind) {
	case SQL_BOOL:
	case SQL_INT32:
	case SQL_DATE:
		return 1;
	case SQL_INT64:
	case SQL_DOUBLE:
		return 2;
	case SQL_DECIMAL:
		return 3;
	default:
		return 4;
	}
}

static bool determined_without(struct sql_ctx *ctx, const struct sql_facts *facts,
			       const struct sql_rel *rel, const bool *kept, unsigned without)
{
	struct sql_set set = {0};

	for (unsigned i = 0; i < rel->agg.key_count; i++) {
		if (kept[i] && i != without)
			sql_set_add(ctx, &set, rel->columns[i]);
	}
	sql_close(ctx, facts, &set);
	return sql_set_has(&set, rel->columns[without]);
}

/* Leaves out one key after the other, the widest first, that the remaining ones determine. */
static void reduce_keys(struct sql_ctx *ctx, struct sql_rel *rel, const struct sql_facts *facts)
{
	unsigned n = rel->agg.key_count, at = 0;
	bool *kept = SQL_ARRAY(ctx, bool, n);
	int *columns = SQL_ARRAY(ctx, int, n);

	for (unsigned i = 0; i < n; i++)
		kept[i] = true;
	for (int width = 4; width >= 1; width--) {
		for (unsigned i = n; i-- > 0;) {
			if (key_width(ctx->columns[rel->columns[i]].type) == width &&
			    determined_without(ctx, facts, rel, kept, i))
				kept[i] = false;
		}
	}
	for (int keep = 1; keep >= 0; keep--) {
		for (unsigned i = 0; i < n; i++) {
			if (kept[i] == (keep == 1))
				columns[at++] = rel->columns[i];
		}
		if (keep)
			rel->agg.determinant_count = at;
	}
	memcpy(rel->columns, columns, n * sizeof(int));
}

static struct sql_rel *reduce_aggregate(struct sql_ctx *ctx, struct sql_rel *rel)
{
	struct sql_facts facts = {{0}};
	struct sql_set keys = {0};

	sql_collect_facts(ctx, rel->left, &facts);
	reduce_keys(ctx, rel, &facts);
	if (rel->agg.agg_count || !rel->agg.grouped)
		return rel;
	for (unsigned i = 0; i < rel->agg.key_count; i++)
		sql_set_add(ctx, &keys, rel->columns[i]);
	sql_close(ctx, &facts, &keys);
	return sql_unique(ctx, rel->left, &keys) ? rel->left : rel;
}

static struct sql_rel *without_distinct(struct sql_rel *rel)
{
	while ((rel->kind == SQL_AGGREGATE && rel->agg.agg_count == 0 && rel->agg.grouped) ||
	       rel->kind == SQL_SORT)
		rel = rel->left;
	return rel;
}

static struct sql_rel *reduce_join(struct sql_ctx *ctx, struct sql_rel *rel)
{
	if (rel->join.kind == SQL_SEMI || rel->join.kind == SQL_ANTI)
		rel->right = without_distinct(rel->right);
	if (rel->join.null_condition && !rel->join.null_condition->nullable) {
		rel->join.condition = sql_and(ctx, rel->join.condition, rel->join.null_condition);
		rel->join.null_condition = NULL;
	}
	if (rel->join.kind == SQL_SINGLE && sql_one_match(ctx, rel))
		rel->join.kind = SQL_LEFT_OUTER;
	return rel;
}

struct sql_rel *sql_reduce(struct sql_ctx *ctx, struct sql_rel *rel)
{
	sql_enter(ctx, -1);
	if (rel->left)
		rel->left = sql_reduce(ctx, rel->left);
	if (rel->right)
		rel->right = sql_reduce(ctx, rel->right);
	if (rel->kind == SQL_AGGREGATE)
		rel = reduce_aggregate(ctx, rel);
	else if (rel->kind == SQL_JOIN)
		rel = reduce_join(ctx, rel);
	sql_leave(ctx);
	return rel;
}
