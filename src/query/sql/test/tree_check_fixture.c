/* SPDX-License-Identifier: BSD-2-Clause */
/* The invariants of tree.h, checked. */
#include "query/sql/test/tree_fixture.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The columns that an input offers, by number. */
static bool *visible_columns(const struct sql_query *query, const struct sql_rel *a,
			     const struct sql_rel *b)
{
	bool *set = calloc(query->column_count + 1, sizeof(*set));

	for (unsigned i = 0; set && a && i < a->width; i++)
		set[a->columns[i]] = true;
	for (unsigned i = 0; set && b && i < b->width; i++)
		set[b->columns[i]] = true;
	return set;
}

static int check_logic(const struct sql_expr *e)
{
	if (e->op != SQL_AND && e->op != SQL_OR)
		return 0;
	if (e->count < 2)
		return fth_fail(EINVAL, "%s has %u arguments", sql_op_name(e->op), e->count);
	for (unsigned i = 0; i < e->count; i++) {
		if (e->args[i]->kind == SQL_CALL && e->args[i]->op == e->op)
			return fth_fail(EINVAL, "%s is nested in %s", sql_op_name(e->op),
					sql_op_name(e->op));
	}
	return 0;
}

static int check_kinds(const struct sql_expr *e)
{
	if (e->kind != SQL_CALL ||
	    !((e->op >= SQL_EQ && e->op <= SQL_IN) || (e->op >= SQL_ADD && e->op <= SQL_MOD)))
		return 0;
	for (unsigned i = 1; i < e->count; i++) {
		enum sql_kind a = e->args[0]->type.kind, b = e->args[i]->type.kind;

		if (a != b)
			return fth_fail(EINVAL, "arguments of %s have kinds %d and %d",
					sql_op_name(e->op), a, b);
		if (e->op == SQL_IN && e->args[i]->kind != SQL_CONST)
			return fth_fail(EINVAL, "entry %u of an IN list is not a constant", i);
	}
	return 0;
}

static int check_expr(const struct sql_query *query, const bool *visible, const struct sql_expr *e)
{
	int rc = 0;

	if (e->kind == SQL_SUBQUERY)
		return fth_fail(EINVAL, "a subquery was not unnested");
	if (e->type.kind == SQL_UNKNOWN)
		return fth_fail(EINVAL, "an expression has an unknown type");
	if (e->kind == SQL_COLUMN) {
		if ((unsigned)e->column >= query->column_count || !visible[e->column])
			return fth_fail(EINVAL, "column #%d (%s) is not visible here", e->column,
					query->columns[e->column].name);
		if (e->type.kind != query->columns[e->column].type.kind)
			return fth_fail(EINVAL, "column #%d has another type here", e->column);
	}
	if (e->kind == SQL_CALL)
		rc = check_logic(e);
	if (rc == 0)
		rc = check_kinds(e);
	for (unsigned i = 0; rc == 0 && i < e->count; i++)
		rc = check_expr(query, visible, e->args[i]);
	return rc;
}

static int check_optional(const struct sql_query *query, const bool *visible,
			  const struct sql_expr *e)
{
	if (e && e->type.kind != SQL_BOOL)
		return fth_fail(EINVAL, "a condition is not boolean");
	return e ? check_expr(query, visible, e) : 0;
}

static int check_own(const struct sql_query *query, const bool *visible, const struct sql_rel *rel)
{
	int rc = 0;

	switch (rel->kind) {
	case SQL_FILTER:
		return check_optional(query, visible, rel->predicate);
	case SQL_PROJECT:
		for (unsigned i = 0; rc == 0 && i < rel->width; i++)
			rc = check_expr(query, visible, rel->exprs[i]);
		return rc;
	case SQL_JOIN:
		rc = check_optional(query, visible, rel->join.condition);
		return rc ? rc : check_optional(query, visible, rel->join.null_condition);
	case SQL_AGGREGATE:
		if (rel->width != rel->agg.key_count + rel->agg.agg_count ||
		    rel->agg.determinant_count > rel->agg.key_count)
			return fth_fail(EINVAL, "an aggregate has a wrong number of columns");
		for (unsigned i = 0; i < rel->agg.key_count; i++) {
			if (!visible[rel->columns[i]])
				return fth_fail(EINVAL, "key #%d is not visible", rel->columns[i]);
		}
		for (unsigned i = 0; rc == 0 && i < rel->agg.agg_count; i++) {
			if (rel->columns[rel->agg.key_count + i] != rel->agg.aggs[i].column)
				return fth_fail(
					EINVAL,
					"the output columns of an aggregate are out of order");
			if (rel->agg.aggs[i].arg)
				rc = check_expr(query, visible, rel->agg.aggs[i].arg);
		}
		return rc;
	case SQL_SORT:
		for (unsigned i = 0; i < rel->sort.key_count; i++) {
			if (!visible[rel->sort.keys[i].column])
				return fth_fail(EINVAL, "sort key #%d is not visible",
						rel->sort.keys[i].column);
		}
		return 0;
	case SQL_UNION:
		for (unsigned i = 0; i < rel->width; i++) {
			if (!visible[rel->set.left_columns[i]] ||
			    !visible[rel->set.right_columns[i]])
				return fth_fail(EINVAL, "a union's column is not visible");
		}
		return 0;
	case SQL_VALUES:
		for (unsigned i = 0; rc == 0 && i < rel->width * rel->values.row_count; i++)
			rc = check_expr(query, visible, rel->values.cells[i]);
		return rc;
	default:
		return 0;
	}
}

/* Columns that a relation only passes on are those of its input. */
static int check_passed(const bool *visible, const struct sql_rel *rel)
{
	if (rel->kind != SQL_FILTER && rel->kind != SQL_SORT && rel->kind != SQL_LIMIT &&
	    rel->kind != SQL_JOIN)
		return 0;
	for (unsigned i = 0; i < rel->width; i++) {
		if (!visible[rel->columns[i]])
			return fth_fail(EINVAL, "output column #%d is not a column of the input",
					rel->columns[i]);
	}
	return 0;
}

static int check_rel(const struct sql_query *query, const struct sql_rel *rel)
{
	bool *visible = visible_columns(query, rel->left, rel->right);
	int rc;

	if (!visible)
		return -ENOMEM;
	rc = check_own(query, visible, rel);
	if (rc == 0)
		rc = check_passed(visible, rel);
	free(visible);
	if (rc == 0 && rel->left)
		rc = check_rel(query, rel->left);
	if (rc == 0 && rel->right)
		rc = check_rel(query, rel->right);
	return rc;
}

int sql_tree_check(const struct sql_query *query)
{
	for (unsigned i = 0; i < query->output_count; i++) {
		bool found = false;

		for (unsigned j = 0; j < query->root->width; j++)
			found |= query->root->columns[j] == query->outputs[i];
		if (!found)
			return fth_fail(EINVAL, "output #%d is not a column of the root",
					query->outputs[i]);
	}
	return check_rel(query, query->root);
}
