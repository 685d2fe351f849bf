/* SPDX-License-Identifier: BSD-2-Clause */
/* Expressions: constants folded, common conjuncts taken out of ORs, tests that are decided. */
#include "query/sql/rewrite/rewrite.h"
#include "query/sql/bind/typing.h"
#include "query/sql/value/value.h"

#include <string.h>

static bool contains(const struct sql_list *list, const struct sql_expr *e)
{
	for (unsigned i = 0; i < list->count; i++) {
		if (sql_equal(list->items[i], e))
			return true;
	}
	return false;
}

/* (a and b) or (a and c) is a and (b or c). */
static struct sql_expr *factor_or(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_list *branches = SQL_ARRAY(ctx, struct sql_list, e->count);
	struct sql_list common = {0}, rest = {0};

	for (unsigned i = 0; i < e->count; i++)
		sql_conjuncts(ctx, e->args[i], &branches[i]);
	for (unsigned i = 0; i < branches[0].count; i++) {
		bool everywhere = true;

		for (unsigned j = 1; everywhere && j < e->count; j++)
			everywhere = contains(&branches[j], branches[0].items[i]);
		if (everywhere)
			sql_list_add(ctx, &common, branches[0].items[i]);
	}
	if (common.count == 0)
		return e;
	for (unsigned i = 0; i < e->count; i++) {
		struct sql_list left = {0};
		struct sql_expr *branch;

		for (unsigned j = 0; j < branches[i].count; j++) {
			if (!contains(&common, branches[i].items[j]))
				sql_list_add(ctx, &left, branches[i].items[j]);
		}
		branch = sql_and_list(ctx, &left);
		sql_list_add(ctx, &rest, branch ? branch : sql_bool(ctx, true));
	}
	sql_list_add(ctx, &common, sql_or_list(ctx, &rest));
	e = sql_and_list(ctx, &common);
	return e ? e : sql_bool(ctx, true);
}

/* x = 1 or x = 2 is x in (1, 2), for constants. */
static struct sql_expr *or_to_in(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_expr **args = SQL_ARRAY(ctx, struct sql_expr *, e->count + 1);

	for (unsigned i = 0; i < e->count; i++) {
		struct sql_expr *part = e->args[i];

		if (!sql_is_call(part, SQL_EQ) || !sql_is_const(part->args[1]) ||
		    part->args[1]->value.null || !sql_equal(part->args[0], e->args[0]->args[0]))
			return e;
		args[0] = part->args[0];
		args[i + 1] = part->args[1];
	}
	return sql_call(ctx, SQL_IN, SQL_TYPE_BOOL, e->count + 1, args, e->at);
}

static struct sql_expr *simplify_or(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_list parts = {0};

	for (unsigned i = 0; i < e->count; i++)
		sql_list_add(ctx, &parts, e->args[i]);
	e = sql_or_list(ctx, &parts);
	if (sql_is_call(e, SQL_OR))
		e = factor_or(ctx, e);
	return sql_is_call(e, SQL_OR) ? or_to_in(ctx, e) : e;
}

/* CASE: branches that cannot be, and all after one that always is. */
static struct sql_expr *simplify_case(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_expr **args = SQL_ARRAY(ctx, struct sql_expr *, e->count);
	unsigned n = 0;

	for (unsigned i = 0; i + 1 < e->count; i += 2) {
		if (sql_is_false_or_null(e->args[i]))
			continue;
		if (sql_is_true(e->args[i])) {
			args[n++] = e->args[i + 1];
			goto done;
		}
		args[n++] = e->args[i];
		args[n++] = e->args[i + 1];
	}
	args[n++] = e->args[e->count - 1];
done:
	return n == 1 ? args[0] : sql_case_expr(ctx, e->type, n, args, e->at);
}

/* COALESCE: NULLs drop out; what follows something that is never NULL is not reached. */
static struct sql_expr *simplify_coalesce(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_expr **args = SQL_ARRAY(ctx, struct sql_expr *, e->count);
	unsigned n = 0;

	for (unsigned i = 0; i < e->count; i++) {
		if (sql_is_const(e->args[i]) && e->args[i]->value.null)
			continue;
		args[n++] = e->args[i];
		if (sql_is_const(e->args[i]))
			break;
	}
	if (n == 0)
		return sql_null(ctx, e->type);
	if (n == 1)
		return args[0];
	return sql_call(ctx, SQL_COALESCE, e->type, n, args, e->at);
}

static struct sql_expr *null_argument(struct sql_ctx *ctx, struct sql_expr *e)
{
	for (unsigned i = 0; i < e->count; i++) {
		if (sql_is_const(e->args[i]) && e->args[i]->value.null)
			return sql_null(ctx, e->type);
	}
	return e;
}

static struct sql_expr *simplify_call(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_list parts = {0};

	switch (e->op) {
	case SQL_AND:
		for (unsigned i = 0; i < e->count; i++)
			sql_list_add(ctx, &parts, e->args[i]);
		e = sql_and_list(ctx, &parts);
		return e ? e : sql_bool(ctx, true);
	case SQL_OR:
		return simplify_or(ctx, e);
	case SQL_NOT:
		return sql_negate(ctx, e->args[0]);
	case SQL_COALESCE:
		return simplify_coalesce(ctx, e);
	case SQL_EQ:
	case SQL_NE:
	case SQL_LT:
	case SQL_LE:
	case SQL_GT:
	case SQL_GE:
		if (sql_is_const(e->args[0]) && !sql_is_const(e->args[1])) {
			struct sql_expr *swapped[] = {e->args[1], e->args[0]};

			e = sql_call(ctx, sql_swapped(e->op), e->type, 2, swapped, e->at);
		}
		return null_argument(ctx, e);
	case SQL_LIKE:
	case SQL_CONCAT:
		return null_argument(ctx, e);
	default:
		return e;
	}
}

struct sql_expr *sql_simplify(struct sql_ctx *ctx, struct sql_expr *e)
{
	struct sql_expr *copy;

	if (e->count == 0)
		return e;
	sql_enter(ctx, -1);
	copy = sql_alloc(ctx, sizeof(*copy));
	*copy = *e;
	copy->args = SQL_ARRAY(ctx, struct sql_expr *, e->count);
	for (unsigned i = 0; i < e->count; i++)
		copy->args[i] = sql_simplify(ctx, e->args[i]);
	sql_leave(ctx);
	copy = sql_fold(ctx, copy);
	if (copy->kind == SQL_CALL)
		return simplify_call(ctx, copy);
	return copy->kind == SQL_CASE ? simplify_case(ctx, copy) : copy;
}

static void simplify_optional(struct sql_ctx *ctx, struct sql_expr **e)
{
	if (*e)
		*e = sql_simplify(ctx, *e);
	if (*e && sql_is_true(*e))
		*e = NULL;
}

void sql_simplify_tree(struct sql_ctx *ctx, struct sql_rel *rel)
{
	sql_enter(ctx, -1);
	switch (rel->kind) {
	case SQL_FILTER:
		rel->predicate = sql_simplify(ctx, rel->predicate);
		break;
	case SQL_PROJECT:
		for (unsigned i = 0; i < rel->width; i++)
			rel->exprs[i] = sql_simplify(ctx, rel->exprs[i]);
		break;
	case SQL_JOIN:
		simplify_optional(ctx, &rel->join.condition);
		if (rel->join.null_condition)
			rel->join.null_condition = sql_simplify(ctx, rel->join.null_condition);
		break;
	case SQL_AGGREGATE:
		for (unsigned i = 0; i < rel->agg.agg_count; i++) {
			if (rel->agg.aggs[i].arg)
				rel->agg.aggs[i].arg = sql_simplify(ctx, rel->agg.aggs[i].arg);
		}
		break;
	default:
		break;
	}
	if (rel->left)
		sql_simplify_tree(ctx, rel->left);
	if (rel->right)
		sql_simplify_tree(ctx, rel->right);
	sql_leave(ctx);
}

/* Whether e is NULL when all columns of set are. */
static bool is_strict(const struct sql_expr *e, const struct sql_set *set)
{
	if (e->kind == SQL_COLUMN)
		return sql_set_has(set, e->column);
	if (e->kind == SQL_CAST)
		return is_strict(e->args[0], set);
	if (e->kind != SQL_CALL)
		return false;
	switch (e->op) {
	case SQL_AND:
	case SQL_OR:
	case SQL_IS_NULL:
	case SQL_IS_NOT_NULL:
	case SQL_IS_DISTINCT:
	case SQL_IS_NOT_DISTINCT:
	case SQL_COALESCE:
	case SQL_GREATEST:
	case SQL_LEAST:
		return false;
	case SQL_IN:
	case SQL_NULLIF:
		return is_strict(e->args[0], set);
	default:
		break;
	}
	for (unsigned i = 0; i < e->count; i++) {
		if (is_strict(e->args[i], set))
			return true;
	}
	return false;
}

bool sql_rejects_nulls(const struct sql_expr *e, const struct sql_set *set)
{
	if (sql_is_call(e, SQL_AND) || sql_is_call(e, SQL_OR)) {
		bool any = e->op == SQL_AND;

		for (unsigned i = 0; i < e->count; i++) {
			if (sql_rejects_nulls(e->args[i], set) == any)
				return any;
		}
		return !any;
	}
	if (sql_is_call(e, SQL_IS_NOT_NULL))
		return is_strict(e->args[0], set);
	return is_strict(e, set);
}
