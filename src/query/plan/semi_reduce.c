/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Semi-join reduction: rows that cannot find a partner are removed before they are grouped or built
 * into a structure. In a block of inner joins that changes no result.
 */
#include "query/plan/plan_internal.h"

static struct sql_expr *column_of(struct planner *p, int column)
{
	struct sql_expr *e = plan_alloc(p, sizeof(*e));

	if (e)
		*e = (struct sql_expr){.kind = SQL_COLUMN,
				       .type = p->query->columns[column].type,
				       .nullable = true,
				       .at = -1,
				       .column = column};
	return e;
}

static struct sql_expr *equality(struct planner *p, int a, int b)
{
	struct sql_expr *e = plan_alloc(p, sizeof(*e));
	struct sql_expr **args = plan_alloc(p, 2 * sizeof(struct sql_expr *));

	if (!e || !args)
		return NULL;
	args[0] = column_of(p, a);
	args[1] = column_of(p, b);
	*e = (struct sql_expr){.kind = SQL_CALL,
			       .type = {.kind = SQL_BOOL},
			       .nullable = true,
			       .at = -1,
			       .op = SQL_EQ,
			       .count = 2,
			       .args = args};
	return p->error != 0 ? NULL : e;
}

static const struct sql_rel *semi_join(struct planner *p, const struct sql_rel *rel, int key,
				       const struct sql_rel *by, int by_key)
{
	struct sql_rel *semi = plan_alloc(p, sizeof(*semi));

	if (!semi)
		return rel;
	*semi = (struct sql_rel){.kind = SQL_JOIN,
				 .left = (struct sql_rel *)rel,
				 .right = (struct sql_rel *)by,
				 .width = rel->width,
				 .columns = rel->columns,
				 .join = {.kind = SQL_SEMI}};
	semi->join.condition = equality(p, key, by_key);
	return p->error != 0 ? rel : semi;
}

static bool is_key_of(const struct sql_rel *aggregate, int column)
{
	for (unsigned i = 0; i < aggregate->agg.determinant_count; i++)
		if (aggregate->columns[i] == column)
			return true;
	return false;
}

const struct sql_rel *plan_reduce(struct planner *p, const struct sql_rel *rel, int key,
				  const struct sql_rel *by, int by_key)
{
	const struct sql_rel *below;
	struct sql_rel *copy;

	switch (rel->kind) {
	case SQL_SCAN:
	case SQL_JOIN:
		return semi_join(p, rel, key, by, by_key);
	case SQL_AGGREGATE:
		if (!is_key_of(rel, key))
			return rel;
		break;
	case SQL_FILTER:
		/* The rows of a table are filtered first. */
		if (rel->left->kind == SQL_SCAN || rel->left->kind == SQL_JOIN)
			return semi_join(p, rel, key, by, by_key);
		break;
	case SQL_PROJECT:
		if (!rel_has(rel->left, key))
			return rel;
		break;
	default:
		return rel;
	}
	below = plan_reduce(p, rel->left, key, by, by_key);
	copy = below == rel->left ? NULL : plan_alloc(p, sizeof(*copy));
	if (!copy)
		return rel;
	*copy = *rel;
	copy->left = (struct sql_rel *)below;
	return copy;
}
