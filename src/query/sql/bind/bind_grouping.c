/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GROUPING SETS, ROLLUP and CUBE as lists of sets of keys. The entries of GROUP BY are multiplied:
 * each set of one is united with each set of the next. bind_select.c binds the select once for each
 * set, and unites the rows.
 */
#include "query/sql/bind/bind_grouping.h"

#include <string.h>

static void add_set(struct sql_ctx *ctx, struct sql_sets *to, uint64_t set, int at)
{
	if (to->count == SQL_SETS_MAX)
		sql_wrong(ctx, at, "GROUP BY has more than %d grouping sets", SQL_SETS_MAX);
	if (to->count == to->room) {
		uint64_t *larger;

		to->room = to->room ? 2 * to->room : 8;
		larger = SQL_ARRAY(ctx, uint64_t, to->room);
		if (to->count)
			memcpy(larger, to->sets, to->count * sizeof(*larger));
		to->sets = larger;
	}
	to->sets[to->count++] = set;
}

/* One expression, or several in parentheses. */
static uint64_t keys_of(struct sql_ctx *ctx, struct sql_group_keys *keys, const PgQuery__Node *node)
{
	uint64_t set = 0;

	if (node->node_case != PG_QUERY__NODE__NODE_ROW_EXPR) {
		unsigned key = keys->add(keys, node);

		return key < 64 ? (uint64_t)1 << key : 0;
	}
	for (size_t i = 0; i < node->row_expr->n_args; i++)
		set |= keys_of(ctx, keys, node->row_expr->args[i]);
	return set;
}

static void add_rollup(struct sql_ctx *ctx, struct sql_group_keys *keys,
		       const PgQuery__GroupingSet *node, struct sql_sets *to)
{
	uint64_t *parts = SQL_ARRAY(ctx, uint64_t, node->n_content), set = 0;

	for (size_t i = 0; i < node->n_content; i++)
		parts[i] = keys_of(ctx, keys, node->content[i]);
	for (size_t n = node->n_content + 1; n-- > 0;) {
		set = 0;
		for (size_t i = 0; i < n; i++)
			set |= parts[i];
		add_set(ctx, to, set, node->location);
	}
}

static void add_cube(struct sql_ctx *ctx, struct sql_group_keys *keys,
		     const PgQuery__GroupingSet *node, struct sql_sets *to)
{
	uint64_t parts[SQL_CUBE_MAX];
	size_t n = node->n_content;

	if (n > SQL_CUBE_MAX)
		sql_wrong(ctx, node->location, "CUBE has %zu elements, the limit is %d", n,
			  SQL_CUBE_MAX);
	for (size_t i = 0; i < n; i++)
		parts[i] = keys_of(ctx, keys, node->content[i]);
	for (unsigned chosen = 1u << n; chosen-- > 0;) {
		uint64_t set = 0;

		for (size_t i = 0; i < n; i++)
			set |= chosen >> i & 1 ? parts[i] : 0;
		add_set(ctx, to, set, node->location);
	}
}

/* The sets of one entry of GROUP BY. */
static void add_entry(struct sql_ctx *ctx, struct sql_group_keys *keys, const PgQuery__Node *node,
		      struct sql_sets *to)
{
	const PgQuery__GroupingSet *sets = node->grouping_set;

	if (node->node_case != PG_QUERY__NODE__NODE_GROUPING_SET) {
		add_set(ctx, to, keys_of(ctx, keys, node), sql_node_location(node));
		return;
	}
	to->any = true;
	sql_enter(ctx, sets->location);
	switch (sets->kind) {
	case PG_QUERY__GROUPING_SET_KIND__GROUPING_SET_EMPTY:
		add_set(ctx, to, 0, sets->location);
		break;
	case PG_QUERY__GROUPING_SET_KIND__GROUPING_SET_ROLLUP:
		add_rollup(ctx, keys, sets, to);
		break;
	case PG_QUERY__GROUPING_SET_KIND__GROUPING_SET_CUBE:
		add_cube(ctx, keys, sets, to);
		break;
	default:
		for (size_t i = 0; i < sets->n_content; i++)
			add_entry(ctx, keys, sets->content[i], to);
	}
	sql_leave(ctx);
}

void sql_bind_sets(struct sql_ctx *ctx, struct sql_group_keys *keys,
		   const PgQuery__SelectStmt *select, struct sql_sets *out)
{
	struct sql_sets all = {0};

	add_set(ctx, &all, 0, -1);
	for (size_t i = 0; i < select->n_group_clause; i++) {
		struct sql_sets entry = {.any = all.any}, product = {0};

		add_entry(ctx, keys, select->group_clause[i], &entry);
		for (unsigned a = 0; a < all.count; a++) {
			for (unsigned b = 0; b < entry.count; b++)
				add_set(ctx, &product, all.sets[a] | entry.sets[b],
					sql_node_location(select->group_clause[i]));
		}
		all = product;
		all.any = entry.any;
	}
	*out = all;
}

/* GROUPING(a, b) is a column until the set is known. */
struct sql_expr *sql_bind_grouping(struct sql_ctx *ctx, struct sql_scope *scope,
				   const PgQuery__GroupingFunc *node)
{
	struct sql_grouping_call *call = sql_alloc(ctx, sizeof(*call));

	if (!scope->aggregates_allowed || scope->in_aggregate)
		sql_wrong(ctx, node->location, "GROUPING is not allowed in %s",
			  scope->in_aggregate ? "an aggregate"
			  : scope->clause     ? scope->clause
					      : "this clause");
	if (node->n_args > 31)
		sql_wrong(ctx, node->location, "GROUPING has %zu arguments, the limit is 31",
			  node->n_args);
	call->count = (unsigned)node->n_args;
	call->at = node->location;
	call->args = SQL_ARRAY(ctx, struct sql_expr *, call->count);
	for (unsigned i = 0; i < call->count; i++)
		call->args[i] = sql_settle(ctx, sql_bind_expr(ctx, scope, node->args[i]));
	call->column = sql_new_column(ctx, "grouping", SQL_TYPE_INT32, false);
	sql_list_add(ctx, &scope->groupings, call);
	return sql_column_expr(ctx, call->column, node->location);
}

struct sql_expr *sql_grouping_value(struct sql_ctx *ctx, const struct sql_grouping_call *call,
				    const struct sql_list *keys, const struct sql_sets *sets,
				    uint64_t set)
{
	int64_t value = 0;

	for (unsigned i = 0; i < call->count; i++) {
		unsigned key = 0;

		while (key < keys->count && !sql_equal(keys->items[key], call->args[i]))
			key++;
		if (key == keys->count)
			sql_wrong(ctx, call->at, "arguments of GROUPING must be keys of GROUP BY");
		value = value << 1 | (sets->any && !(set >> key & 1));
	}
	return sql_integer(ctx, SQL_TYPE_INT32, value);
}
