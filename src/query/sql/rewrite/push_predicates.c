/* SPDX-License-Identifier: BSD-2-Clause */
/* Predicates move down to where their columns come from; inner joins are in inner_joins.c. */
#include "query/sql/rewrite/rewrite.h"
#include "query/sql/value/value.h"

#include <string.h>

static bool uses_only(struct sql_ctx *ctx, const struct sql_expr *e, const struct sql_set *columns)
{
	struct sql_set used = {0};

	sql_expr_columns(ctx, e, &used);
	return sql_set_within(&used, columns);
}

/* Takes out of list what uses only columns. */
static struct sql_list take_within(struct sql_ctx *ctx, struct sql_list *list,
				   const struct sql_set *columns)
{
	struct sql_list taken = {0}, rest = {0};

	for (unsigned i = 0; i < list->count; i++)
		sql_list_add(ctx, uses_only(ctx, list->items[i], columns) ? &taken : &rest,
			     list->items[i]);
	*list = rest;
	return taken;
}

static struct sql_rel *push_project(struct sql_ctx *ctx, struct sql_rel *rel,
				    struct sql_list *predicates)
{
	struct sql_binding binding = {
		.count = rel->width, .columns = rel->columns, .exprs = rel->exprs};
	struct sql_list below = {0};

	for (unsigned i = 0; i < predicates->count; i++)
		sql_conjuncts(
			ctx, sql_simplify(ctx, sql_substitute(ctx, predicates->items[i], &binding)),
			&below);
	rel->left = sql_push(ctx, rel->left, &below);
	return rel;
}

static struct sql_rel *push_aggregate(struct sql_ctx *ctx, struct sql_rel *rel,
				      struct sql_list *predicates)
{
	struct sql_list below = {0};
	struct sql_set keys = {0};

	for (unsigned i = 0; i < rel->agg.key_count; i++)
		sql_set_add(ctx, &keys, rel->columns[i]);
	if (rel->agg.grouped)
		below = take_within(ctx, predicates, &keys);
	rel->left = sql_push(ctx, rel->left, &below);
	return sql_filter(ctx, rel, sql_and_list(ctx, predicates));
}

static struct sql_rel *push_union(struct sql_ctx *ctx, struct sql_rel *rel,
				  struct sql_list *predicates)
{
	struct sql_expr **exprs = SQL_ARRAY(ctx, struct sql_expr *, rel->width);
	struct sql_binding binding = {.count = rel->width, .columns = rel->columns, .exprs = exprs};
	struct sql_rel **sides[] = {&rel->left, &rel->right};
	const int *columns[] = {rel->set.left_columns, rel->set.right_columns};

	for (int side = 0; side < 2; side++) {
		struct sql_list below = {0};

		for (unsigned i = 0; i < rel->width; i++)
			exprs[i] = sql_column_expr(ctx, columns[side][i], -1);
		for (unsigned i = 0; i < predicates->count; i++)
			sql_list_add(ctx, &below,
				     sql_substitute(ctx, predicates->items[i], &binding));
		*sides[side] = sql_push(ctx, *sides[side], &below);
	}
	return rel;
}

/* Left, single, semi and anti joins. */
static struct sql_rel *push_outer(struct sql_ctx *ctx, struct sql_rel *rel,
				  struct sql_list *predicates)
{
	struct sql_set left = {0}, right = {0};
	struct sql_list conditions = {0}, to_left, to_right, more;

	sql_set_add_outputs(ctx, &left, rel->left);
	sql_set_add_outputs(ctx, &right, rel->right);
	if (rel->join.kind == SQL_LEFT_OUTER) {
		for (unsigned i = 0; i < predicates->count; i++) {
			if (sql_rejects_nulls(predicates->items[i], &right)) {
				rel->join.kind = SQL_INNER;
				return sql_push_inner(ctx, rel, predicates);
			}
		}
	}
	to_left = take_within(ctx, predicates, &left);
	sql_conjuncts(ctx, rel->join.condition, &conditions);
	/* A condition on the right side alone decides which of its rows take part. */
	to_right = take_within(ctx, &conditions, &right);
	if (rel->join.kind == SQL_SEMI) {
		more = take_within(ctx, &conditions, &left);
		for (unsigned i = 0; i < more.count; i++)
			sql_list_add(ctx, &to_left, more.items[i]);
	}
	rel = sql_join_rel(ctx, rel->join.kind, sql_push(ctx, rel->left, &to_left),
			   sql_push(ctx, rel->right, &to_right), sql_and_list(ctx, &conditions));
	return sql_filter(ctx, rel, sql_and_list(ctx, predicates));
}

static struct sql_rel *push_join(struct sql_ctx *ctx, struct sql_rel *rel,
				 struct sql_list *predicates)
{
	struct sql_expr *null_condition = rel->join.null_condition;
	struct sql_rel *pushed;

	if (rel->join.kind == SQL_INNER)
		return sql_push_inner(ctx, rel, predicates);
	pushed = push_outer(ctx, rel, predicates);
	/* an anti join: the filter above, if any, is of conditions that nothing could take */
	if (null_condition) {
		struct sql_rel *join = pushed->kind == SQL_FILTER ? pushed->left : pushed;

		join->join.null_condition = null_condition;
	}
	return pushed;
}

static bool has_false(const struct sql_list *predicates)
{
	for (unsigned i = 0; i < predicates->count; i++) {
		if (sql_is_false_or_null(predicates->items[i]))
			return true;
	}
	return false;
}

/* Whether a value can be op_a than a and op_b than b, where `order` is a compared with b. */
static bool can_both_hold(enum sql_op op_a, enum sql_op op_b, int order)
{
	bool low_a = op_a == SQL_GT || op_a == SQL_GE, high_a = op_a == SQL_LT || op_a == SQL_LE;
	bool low_b = op_b == SQL_GT || op_b == SQL_GE, high_b = op_b == SQL_LT || op_b == SQL_LE;

	if (op_a == SQL_EQ)
		low_a = high_a = true;
	if (op_b == SQL_EQ)
		low_b = high_b = true;
	if (low_a && high_b && order > 0)
		return false;
	if (high_a && low_b && order < 0)
		return false;
	if (order == 0 && (low_a || high_a) && (low_b || high_b) &&
	    (low_a != low_b || op_a == SQL_EQ || op_b == SQL_EQ)) {
		bool strict_a = op_a == SQL_LT || op_a == SQL_GT;
		bool strict_b = op_b == SQL_LT || op_b == SQL_GT;

		return !strict_a && !strict_b;
	}
	return !(order == 0 &&
		 ((op_a == SQL_EQ && op_b == SQL_NE) || (op_a == SQL_NE && op_b == SQL_EQ)));
}

static bool is_bound(const struct sql_expr *e)
{
	return sql_is_comparison(e) && e->args[0]->kind == SQL_COLUMN && sql_is_const(e->args[1]) &&
	       !e->args[1]->value.null;
}

/* Whether two conjuncts bound a column so that nothing is left. */
static bool contradict(const struct sql_list *conjuncts)
{
	for (unsigned i = 0; i < conjuncts->count; i++) {
		const struct sql_expr *a = conjuncts->items[i];

		for (unsigned j = 0; is_bound(a) && j < i; j++) {
			const struct sql_expr *b = conjuncts->items[j];

			if (is_bound(b) && a->args[0]->column == b->args[0]->column &&
			    !can_both_hold(a->op, b->op,
					   sql_value_compare(a->args[1]->type, &a->args[1]->value,
							     b->args[1]->type, &b->args[1]->value)))
				return true;
		}
	}
	return false;
}

/* A branch of a union with no more rows than the limit above the union wants. */
static struct sql_rel *limit_branch(struct sql_ctx *ctx, struct sql_rel *rel, int64_t count)
{
	struct sql_rel *limit;

	if (rel->kind == SQL_LIMIT && rel->limit.count >= 0 && rel->limit.count <= count)
		return rel;
	limit = sql_new_rel(ctx, SQL_LIMIT, rel, NULL, rel->width);
	memcpy(limit->columns, rel->columns, rel->width * sizeof(int));
	limit->limit.count = count;
	return limit;
}

/* Each branch of a union below the limit is made by itself, so each must know when to stop. */
static void limit_union(struct sql_ctx *ctx, const struct sql_rel *limit)
{
	struct sql_rel *rel = limit->left;
	int64_t count;

	while (rel->kind == SQL_PROJECT)
		rel = rel->left;
	if (rel->kind != SQL_UNION || limit->limit.count < 0 ||
	    __builtin_add_overflow(limit->limit.count, limit->limit.offset, &count))
		return;
	rel->left = limit_branch(ctx, rel->left, count);
	rel->right = limit_branch(ctx, rel->right, count);
}

static struct sql_rel *push_limit(struct sql_ctx *ctx, struct sql_rel *rel,
				  struct sql_list *predicates)
{
	struct sql_list none = {0};

	if (rel->limit.count == 0)
		return sql_no_rows(ctx, rel->width, rel->columns);
	limit_union(ctx, rel);
	rel->left = sql_push(ctx, rel->left, &none);
	return sql_filter(ctx, rel, sql_and_list(ctx, predicates));
}

static struct sql_rel *push_into(struct sql_ctx *ctx, struct sql_rel *rel,
				 struct sql_list *predicates)
{
	switch (rel->kind) {
	case SQL_FILTER:
		sql_conjuncts(ctx, sql_simplify(ctx, rel->predicate), predicates);
		return sql_push(ctx, rel->left, predicates);
	case SQL_PROJECT:
		return push_project(ctx, rel, predicates);
	case SQL_JOIN:
		return push_join(ctx, rel, predicates);
	case SQL_AGGREGATE:
		return push_aggregate(ctx, rel, predicates);
	case SQL_UNION:
		return push_union(ctx, rel, predicates);
	case SQL_SORT:
		rel->left = sql_push(ctx, rel->left, predicates);
		return rel;
	case SQL_LIMIT:
		return push_limit(ctx, rel, predicates);
	default:
		return sql_filter(ctx, rel, sql_and_list(ctx, predicates));
	}
}

struct sql_rel *sql_push(struct sql_ctx *ctx, struct sql_rel *rel, struct sql_list *predicates)
{
	struct sql_rel *pushed;

	if (has_false(predicates) || contradict(predicates))
		return sql_no_rows(ctx, rel->width, rel->columns);
	sql_enter(ctx, -1);
	pushed = push_into(ctx, rel, predicates);
	sql_leave(ctx);
	return pushed;
}
