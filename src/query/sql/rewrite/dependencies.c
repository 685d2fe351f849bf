/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functional dependencies: rules "these columns determine those" that hold for the rows of a
 * relation. They come from keys of tables, equalities, aggregates and projections. NULL counts as a
 * value.
 */
#include "query/sql/rewrite/rewrite.h"

struct sql_rule {
	struct sql_set from, to;
};

static struct sql_rule *add_rule(struct sql_ctx *ctx, struct sql_facts *facts)
{
	struct sql_rule *rule = sql_alloc(ctx, sizeof(*rule));

	sql_list_add(ctx, &facts->rules, rule);
	return rule;
}

/* The output column of a scan that reads this ordinal, or -1. */
static int scan_column(const struct sql_rel *scan, unsigned ordinal)
{
	for (unsigned i = 0; i < scan->width; i++) {
		if (scan->scan.ordinals[i] == ordinal)
			return scan->columns[i];
	}
	return -1;
}

/* Whether the key is there and without NULLs; *set gets its columns. */
static bool usable_key(struct sql_ctx *ctx, const struct sql_rel *scan,
		       const struct sql_table_key *key, struct sql_set *set)
{
	for (unsigned i = 0; i < key->count; i++) {
		int column = scan_column(scan, key->ordinals[i]);

		if (column < 0 || scan->scan.table->columns[key->ordinals[i]].nullable)
			return false;
		sql_set_add(ctx, set, column);
	}
	return key->count > 0;
}

static void scan_facts(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_facts *facts)
{
	for (unsigned i = 0; i < rel->scan.table->key_count; i++) {
		struct sql_set key = {0};
		struct sql_rule *rule;

		if (!usable_key(ctx, rel, &rel->scan.table->keys[i], &key))
			continue;
		rule = add_rule(ctx, facts);
		rule->from = key;
		sql_set_add_outputs(ctx, &rule->to, rel);
	}
}

/* a = b: each determines the other. a = constant: nothing is needed to know a. */
static void equality_facts(struct sql_ctx *ctx, struct sql_expr *predicate, struct sql_facts *facts)
{
	struct sql_list conjuncts = {0};

	sql_conjuncts(ctx, predicate, &conjuncts);
	for (unsigned i = 0; i < conjuncts.count; i++) {
		struct sql_expr *e = conjuncts.items[i];

		if (!sql_is_call(e, SQL_EQ) && !sql_is_call(e, SQL_IS_NOT_DISTINCT))
			continue;
		for (int side = 0; side < 2; side++) {
			struct sql_rule *rule;

			if (e->args[side]->kind != SQL_COLUMN)
				continue;
			rule = add_rule(ctx, facts);
			sql_expr_columns(ctx, e->args[1 - side], &rule->from);
			sql_set_add(ctx, &rule->to, e->args[side]->column);
		}
	}
}

static void own_facts(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_facts *facts)
{
	struct sql_rule *rule;

	switch (rel->kind) {
	case SQL_SCAN:
		scan_facts(ctx, rel, facts);
		break;
	case SQL_FILTER:
		equality_facts(ctx, rel->predicate, facts);
		break;
	case SQL_PROJECT:
		for (unsigned i = 0; i < rel->width; i++) {
			rule = add_rule(ctx, facts);
			sql_expr_columns(ctx, rel->exprs[i], &rule->from);
			sql_set_add(ctx, &rule->to, rel->columns[i]);
		}
		break;
	case SQL_JOIN:
		/* the condition of an outer join does not hold for rows without a match */
		if (rel->join.kind == SQL_INNER)
			equality_facts(ctx, rel->join.condition, facts);
		break;
	case SQL_AGGREGATE:
		rule = add_rule(ctx, facts);
		for (unsigned i = 0; i < rel->agg.determinant_count; i++)
			sql_set_add(ctx, &rule->from, rel->columns[i]);
		sql_set_add_outputs(ctx, &rule->to, rel);
		break;
	default:
		break;
	}
}

/*
 * Rules about columns that rel does not show hold as well: they are facts about the row that each
 * output row comes from. Not so below an aggregate or a union, or on the side of a semi join that
 * is only looked at. On the right side of an outer join a constant is not one, it may be NULL; and
 * what is computed from a NULL there is not what the row without a match has.
 */
static void collect(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_facts *facts,
		    bool outer)
{
	struct sql_facts own = {{0}};
	bool computes = rel->kind == SQL_PROJECT || rel->kind == SQL_AGGREGATE;

	if (!outer || !computes)
		own_facts(ctx, rel, &own);
	for (unsigned i = 0; i < own.rules.count; i++) {
		struct sql_rule *rule = own.rules.items[i];

		if (!outer || !sql_set_empty(&rule->from))
			sql_list_add(ctx, &facts->rules, rule);
	}
	if (rel->kind == SQL_AGGREGATE || rel->kind == SQL_UNION)
		return;
	if (rel->left)
		collect(ctx, rel->left, facts, outer);
	if (rel->kind == SQL_JOIN && rel->join.kind == SQL_INNER)
		collect(ctx, rel->right, facts, outer);
	else if (rel->kind == SQL_JOIN &&
		 (rel->join.kind == SQL_LEFT_OUTER || rel->join.kind == SQL_SINGLE))
		collect(ctx, rel->right, facts, true);
}

void sql_collect_facts(struct sql_ctx *ctx, const struct sql_rel *rel, struct sql_facts *facts)
{
	collect(ctx, rel, facts, false);
}

void sql_close(struct sql_ctx *ctx, const struct sql_facts *facts, struct sql_set *set)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (unsigned i = 0; i < facts->rules.count; i++) {
			const struct sql_rule *rule = facts->rules.items[i];

			if (sql_set_within(&rule->from, set) && !sql_set_within(&rule->to, set)) {
				sql_set_join(ctx, set, &rule->to);
				changed = true;
			}
		}
	}
}

static bool scan_unique(const struct sql_rel *rel, const struct sql_set *closed)
{
	for (unsigned i = 0; i < rel->scan.table->key_count; i++) {
		const struct sql_table_key *key = &rel->scan.table->keys[i];
		bool all = key->count > 0;

		for (unsigned j = 0; all && j < key->count; j++) {
			int column = scan_column(rel, key->ordinals[j]);

			all = column >= 0 && sql_set_has(closed, column) &&
			      !rel->scan.table->columns[key->ordinals[j]].nullable;
		}
		if (all)
			return true;
	}
	return false;
}

bool sql_one_match(struct sql_ctx *ctx, const struct sql_rel *join)
{
	struct sql_list conjuncts = {0};
	struct sql_facts facts = {{0}};
	struct sql_set right = {0}, fixed = {0};

	sql_set_add_outputs(ctx, &right, join->right);
	sql_conjuncts(ctx, join->join.condition, &conjuncts);
	/* the columns of the right side that are equal to something of the left */
	for (unsigned i = 0; i < conjuncts.count; i++) {
		struct sql_expr *e = conjuncts.items[i];

		if (!sql_is_call(e, SQL_EQ) && !sql_is_call(e, SQL_IS_NOT_DISTINCT))
			continue;
		for (int side = 0; side < 2; side++) {
			struct sql_set other = {0};

			sql_expr_columns(ctx, e->args[1 - side], &other);
			if (e->args[side]->kind == SQL_COLUMN && !sql_set_meets(&other, &right))
				sql_set_add(ctx, &fixed, e->args[side]->column);
		}
	}
	sql_collect_facts(ctx, join->right, &facts);
	sql_close(ctx, &facts, &fixed);
	return sql_unique(ctx, join->right, &fixed);
}

static bool join_unique(struct sql_ctx *ctx, const struct sql_rel *rel,
			const struct sql_set *closed)
{
	if (!sql_unique(ctx, rel->left, closed))
		return false;
	if (rel->join.kind == SQL_INNER || rel->join.kind == SQL_LEFT_OUTER)
		return sql_unique(ctx, rel->right, closed) || sql_one_match(ctx, rel);
	return true;
}

bool sql_unique(struct sql_ctx *ctx, const struct sql_rel *rel, const struct sql_set *closed)
{
	switch (rel->kind) {
	case SQL_SCAN:
		return scan_unique(rel, closed);
	case SQL_JOIN:
		return join_unique(ctx, rel, closed);
	case SQL_AGGREGATE:
		for (unsigned i = 0; i < rel->agg.determinant_count; i++) {
			if (!sql_set_has(closed, rel->columns[i]))
				return false;
		}
		return true;
	case SQL_VALUES:
		return rel->values.row_count <= 1;
	case SQL_UNION:
		return false;
	case SQL_LIMIT:
		return (rel->limit.count >= 0 && rel->limit.count <= 1) ||
		       sql_unique(ctx, rel->left, closed);
	default:
		return sql_unique(ctx, rel->left, closed);
	}
}
