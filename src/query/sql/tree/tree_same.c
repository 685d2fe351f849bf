/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether two relations compute the same rows: a view or a WITH query that is used twice. */
#include "query/sql/tree/tree.h"
#include "query/sql/value/value.h"

#include <string.h>

/* What comparing has found out: map[column of b] is the column of a, or -1. */
struct same_map {
	int *map;
};

static bool same_type(struct sql_type a, struct sql_type b)
{
	return a.kind == b.kind && a.precision == b.precision && a.scale == b.scale &&
	       a.length == b.length;
}

static bool same_constant(const struct sql_expr *a, const struct sql_expr *b)
{
	if (a->value.null || b->value.null)
		return a->value.null == b->value.null;
	if (a->type.kind == SQL_INTERVAL)
		return a->value.months == b->value.months && a->value.days == b->value.days;
	return sql_value_compare(a->type, &a->value, b->type, &b->value) == 0;
}

static bool same_expr(const struct same_map *m, const struct sql_expr *a, const struct sql_expr *b)
{
	if (!a || !b)
		return a == b;
	if (a->kind != b->kind || a->count != b->count || !same_type(a->type, b->type))
		return false;
	if (a->kind == SQL_COLUMN && m->map[b->column] != a->column)
		return false;
	if (a->kind == SQL_CONST && !same_constant(a, b))
		return false;
	if (a->kind == SQL_CALL && a->op != b->op)
		return false;
	for (unsigned i = 0; i < a->count; i++) {
		if (!same_expr(m, a->args[i], b->args[i]))
			return false;
	}
	return true;
}

static bool same_columns(const struct same_map *m, unsigned count, const int *a, const int *b)
{
	for (unsigned i = 0; i < count; i++) {
		if (m->map[b[i]] != a[i])
			return false;
	}
	return true;
}

static bool same_aggregate(const struct same_map *m, const struct sql_rel *a,
			   const struct sql_rel *b)
{
	if (a->agg.key_count != b->agg.key_count || a->agg.agg_count != b->agg.agg_count ||
	    a->agg.determinant_count != b->agg.determinant_count ||
	    a->agg.grouped != b->agg.grouped ||
	    !same_columns(m, a->agg.key_count, a->columns, b->columns))
		return false;
	for (unsigned i = 0; i < a->agg.agg_count; i++) {
		const struct sql_agg *x = &a->agg.aggs[i], *y = &b->agg.aggs[i];

		if (x->op != y->op || x->distinct != y->distinct || !same_expr(m, x->arg, y->arg))
			return false;
	}
	return true;
}

static bool same_sort(const struct same_map *m, const struct sql_rel *a, const struct sql_rel *b)
{
	if (a->sort.key_count != b->sort.key_count)
		return false;
	for (unsigned i = 0; i < a->sort.key_count; i++) {
		const struct sql_sort_key *x = &a->sort.keys[i], *y = &b->sort.keys[i];

		if (m->map[y->column] != x->column || x->descending != y->descending ||
		    x->nulls_first != y->nulls_first)
			return false;
	}
	return true;
}

static bool same_exprs(const struct same_map *m, size_t count, struct sql_expr **a,
		       struct sql_expr **b)
{
	for (size_t i = 0; i < count; i++) {
		if (!same_expr(m, a[i], b[i]))
			return false;
	}
	return true;
}

static bool same_own(const struct same_map *m, const struct sql_rel *a, const struct sql_rel *b)
{
	switch (a->kind) {
	case SQL_SCAN:
		return a->scan.table == b->scan.table &&
		       !memcmp(a->scan.ordinals, b->scan.ordinals, a->width * sizeof(unsigned));
	case SQL_FILTER:
		return same_expr(m, a->predicate, b->predicate);
	case SQL_PROJECT:
		return same_exprs(m, a->width, a->exprs, b->exprs);
	case SQL_JOIN:
		return a->join.kind == b->join.kind &&
		       same_expr(m, a->join.condition, b->join.condition) &&
		       same_expr(m, a->join.null_condition, b->join.null_condition);
	case SQL_AGGREGATE:
		return same_aggregate(m, a, b);
	case SQL_SORT:
		return same_sort(m, a, b);
	case SQL_LIMIT:
		return a->limit.count == b->limit.count && a->limit.offset == b->limit.offset;
	case SQL_UNION:
		return same_columns(m, a->width, a->set.left_columns, b->set.left_columns) &&
		       same_columns(m, a->width, a->set.right_columns, b->set.right_columns);
	case SQL_VALUES:
		return a->values.row_count == b->values.row_count &&
		       same_exprs(m, (size_t)a->width * a->values.row_count, a->values.cells,
				  b->values.cells);
	}
	return false;
}

static bool same_tree(const struct same_map *m, const struct sql_rel *a, const struct sql_rel *b)
{
	if (!a || !b)
		return a == b;
	if (a->kind != b->kind || a->width != b->width || !same_tree(m, a->left, b->left) ||
	    !same_tree(m, a->right, b->right) || !same_own(m, a, b))
		return false;
	for (unsigned i = 0; i < a->width; i++)
		m->map[b->columns[i]] = a->columns[i];
	return true;
}

bool sql_rel_same(const struct sql_query *query, const struct sql_rel *a, const struct sql_rel *b,
		  int *map)
{
	struct same_map m = {.map = map};

	for (unsigned i = 0; i < query->column_count; i++)
		map[i] = -1;
	return same_tree(&m, a, b);
}
