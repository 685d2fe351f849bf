/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queries: a select, VALUES, and the two sides of a set operation (bind_set.c). The relations of a
 * select, from below: FROM, filter (WHERE), projection (computed group keys), aggregate, filter
 * (HAVING), projection (select list and sort keys), aggregate (DISTINCT), sort, limit. With
 * GROUPING SETS all of it up to the projection is bound once for each set, and the rows are united.
 */
#include "query/sql/bind/bind_grouping.h"
#include "query/sql/bind/bind_query.h"
#include "query/sql/bind/typing.h"

#include <string.h>

struct select_item {
	struct sql_expr *expr;
	const char *name;
	int column;
};

/* A select that is being bound. */
struct select_state {
	struct sql_ctx *ctx;
	const PgQuery__SelectStmt *select;
	struct sql_scope scope;
	struct sql_rel *rel;
	struct sql_list items;	/* struct select_item: the select list, then hidden sort keys */
	unsigned visible;	/* items of the select list */
	struct sql_list groups; /* struct sql_expr: the keys of GROUP BY */
	struct sql_sets sets;
	uint64_t set; /* the one that is bound */
	struct sql_expr *having;
	unsigned sort_count;
	unsigned *sort_items; /* the item that each ORDER BY key is */
	bool keep_unknown;
};

static const char *item_name(const PgQuery__Node *node)
{
	const PgQuery__FuncCall *call = node->func_call;

	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_COLUMN_REF: {
		const PgQuery__Node *last =
			node->column_ref->fields[node->column_ref->n_fields - 1];

		return last->node_case == PG_QUERY__NODE__NODE_STRING ? last->string->sval
								      : "?column?";
	}
	case PG_QUERY__NODE__NODE_FUNC_CALL:
		return call->n_funcname && call->funcname[call->n_funcname - 1]->node_case ==
						   PG_QUERY__NODE__NODE_STRING
			       ? call->funcname[call->n_funcname - 1]->string->sval
			       : "?column?";
	case PG_QUERY__NODE__NODE_CASE_EXPR:
		return "case";
	case PG_QUERY__NODE__NODE_COALESCE_EXPR:
		return "coalesce";
	case PG_QUERY__NODE__NODE_TYPE_CAST:
		return node->type_cast->arg ? item_name(node->type_cast->arg) : "?column?";
	default:
		return "?column?";
	}
}

static void add_item(struct select_state *s, struct sql_expr *e, const char *name)
{
	struct select_item *item = sql_alloc(s->ctx, sizeof(*item));

	sql_check_value(s->ctx, e);
	if (s->items.count == SQL_LIST_MAX)
		sql_wrong(s->ctx, e->at, "the select list has more than %d entries", SQL_LIST_MAX);
	*item = (struct select_item){
		.expr = s->keep_unknown ? e : sql_settle(s->ctx, e), .name = name, .column = -1};
	sql_list_add(s->ctx, &s->items, item);
}

static struct select_item *item_at(struct select_state *s, unsigned i)
{
	return s->items.items[i];
}

/* * and t.* */
static void add_star(struct select_state *s, const PgQuery__ColumnRef *ref)
{
	const char *table = NULL;
	bool any = false;

	if (ref->n_fields > 2)
		sql_unsupported(s->ctx, ref->location, "a column name with a schema");
	if (ref->n_fields == 2)
		table = sql_node_string(s->ctx, ref->fields[0]);
	for (unsigned i = 0; i < s->scope.columns.count; i++) {
		const struct sql_scope_column *entry = s->scope.columns.items[i];
		struct sql_expr *e;

		if (table ? !entry->table || strcmp(entry->table, table) != 0 : entry->hidden)
			continue;
		any = true;
		e = sql_column_expr(s->ctx, entry->column, ref->location);
		e->nullable = entry->nullable;
		add_item(s, e, entry->name);
	}
	if (!any && table)
		sql_wrong(s->ctx, ref->location, "table or alias \"%s\" is not in the FROM clause",
			  table);
	if (!any)
		sql_wrong(s->ctx, ref->location, "SELECT * needs a FROM clause");
}

static void bind_select_list(struct select_state *s)
{
	s->scope.aggregates_allowed = true;
	s->scope.clause = "the select list";
	for (size_t i = 0; i < s->select->n_target_list; i++) {
		const PgQuery__ResTarget *target = s->select->target_list[i]->res_target;
		const PgQuery__Node *value = target->val;
		const char *name = target->name && *target->name ? target->name : NULL;

		if (value->node_case == PG_QUERY__NODE__NODE_COLUMN_REF) {
			const PgQuery__ColumnRef *ref = value->column_ref;

			if (ref->fields[ref->n_fields - 1]->node_case ==
			    PG_QUERY__NODE__NODE_A_STAR) {
				add_star(s, ref);
				continue;
			}
		}
		add_item(s, sql_bind_expr(s->ctx, &s->scope, value),
			 name ? name : item_name(value));
	}
	s->visible = s->items.count;
}

/* The item that an integer constant means, or -1. */
static int item_by_ordinal(struct select_state *s, const PgQuery__Node *node, const char *clause)
{
	const PgQuery__AConst *c = node->a_const;

	if (node->node_case != PG_QUERY__NODE__NODE_A_CONST)
		return -1;
	if (c->isnull || c->val_case != PG_QUERY__A__CONST__VAL_IVAL)
		sql_wrong(s->ctx, c->location,
			  "a constant in %s must be the position of a column, such as 1", clause);
	if (c->ival->ival < 1 || (unsigned)c->ival->ival > s->visible)
		sql_wrong(s->ctx, c->location, "%s position %d is outside the select list", clause,
			  c->ival->ival);
	return c->ival->ival - 1;
}

/* The item whose name a bare column reference is, or -1. */
static int item_by_name(struct select_state *s, const PgQuery__Node *node, const char *clause)
{
	const char *name;
	int found = -1;

	if (node->node_case != PG_QUERY__NODE__NODE_COLUMN_REF || node->column_ref->n_fields != 1 ||
	    node->column_ref->fields[0]->node_case != PG_QUERY__NODE__NODE_STRING)
		return -1;
	name = node->column_ref->fields[0]->string->sval;
	for (unsigned i = 0; i < s->visible; i++) {
		if (strcmp(item_at(s, i)->name, name) != 0)
			continue;
		if (found >= 0 &&
		    !sql_equal(item_at(s, (unsigned)found)->expr, item_at(s, i)->expr))
			sql_wrong(s->ctx, node->column_ref->location, "%s \"%s\" is ambiguous",
				  clause, name);
		if (found < 0)
			found = (int)i;
	}
	return found;
}

static bool in_scope(const struct sql_scope *scope, const char *name)
{
	for (unsigned i = 0; i < scope->columns.count; i++) {
		const struct sql_scope_column *entry = scope->columns.items[i];

		if (!entry->hidden && !strcmp(entry->name, name))
			return true;
	}
	return false;
}

/* GROUP BY: a position; a column of FROM; a name of the select list; an expression. */
static struct sql_expr *bind_group(struct select_state *s, const PgQuery__Node *node)
{
	int item = item_by_ordinal(s, node, "GROUP BY");

	if (item < 0 &&
	    !(node->node_case == PG_QUERY__NODE__NODE_COLUMN_REF &&
	      node->column_ref->n_fields == 1 &&
	      in_scope(&s->scope, sql_node_string(s->ctx, node->column_ref->fields[0]))))
		item = item_by_name(s, node, "GROUP BY");
	if (item >= 0)
		return item_at(s, (unsigned)item)->expr;
	return sql_settle(s->ctx, sql_bind_expr(s->ctx, &s->scope, node));
}

static bool uses_agg(struct select_state *s, const struct sql_expr *e)
{
	struct sql_set used = {0};

	sql_expr_columns(s->ctx, e, &used);
	for (unsigned i = 0; i < s->scope.aggs.count; i++) {
		if (sql_set_has(&used, ((struct sql_agg *)s->scope.aggs.items[i])->column))
			return true;
	}
	return false;
}

struct select_keys {
	struct sql_group_keys base;
	struct select_state *s;
};

/* The number of a key; equal ones are one. */
static unsigned add_group(struct sql_group_keys *base, const PgQuery__Node *node)
{
	struct select_state *s = ((struct select_keys *)base)->s;
	struct sql_expr *e = bind_group(s, node);

	if (uses_agg(s, e))
		sql_wrong(s->ctx, e->at, "an aggregate is not allowed in GROUP BY");
	if (sql_has_subquery(e))
		sql_unsupported(s->ctx, e->at, "a subquery in GROUP BY");
	for (unsigned j = 0; j < s->groups.count; j++) {
		if (sql_equal(s->groups.items[j], e))
			return j;
	}
	sql_list_add(s->ctx, &s->groups, e);
	return s->groups.count - 1;
}

static void bind_groups(struct select_state *s)
{
	struct select_keys keys = {.base = {.add = add_group}, .s = s};

	s->scope.aggregates_allowed = false;
	s->scope.clause = "GROUP BY";
	if (s->select->group_distinct)
		sql_unsupported(s->ctx, -1, "GROUP BY DISTINCT");
	sql_bind_sets(s->ctx, &keys.base, s->select, &s->sets);
	if (s->sets.any && s->groups.count > SQL_SET_KEYS_MAX)
		sql_unsupported(s->ctx, -1, "GROUPING SETS, ROLLUP or CUBE of more than %d keys",
				SQL_SET_KEYS_MAX);
	s->set = s->sets.sets[0];
}

/* ORDER BY: a position; a name of the select list; an expression. */
static unsigned bind_sort_key(struct select_state *s, const PgQuery__Node *node)
{
	int item = item_by_ordinal(s, node, "ORDER BY");
	struct sql_expr *e;

	if (item < 0)
		item = item_by_name(s, node, "ORDER BY");
	if (item >= 0)
		return (unsigned)item;
	e = sql_settle(s->ctx, sql_bind_expr(s->ctx, &s->scope, node));
	for (unsigned i = 0; i < s->items.count; i++) {
		if (sql_equal(item_at(s, i)->expr, e))
			return i;
	}
	if (s->select->n_distinct_clause)
		sql_wrong(s->ctx, sql_node_location(node),
			  "with SELECT DISTINCT, ORDER BY expressions must appear in the select "
			  "list");
	add_item(s, e, "sort");
	return s->items.count - 1;
}

static void bind_sort_keys(struct select_state *s)
{
	s->scope.aggregates_allowed = true;
	s->scope.clause = "ORDER BY";
	s->sort_count = (unsigned)s->select->n_sort_clause;
	s->sort_items = SQL_ARRAY(s->ctx, unsigned, s->sort_count);
	for (unsigned i = 0; i < s->sort_count; i++)
		s->sort_items[i] = bind_sort_key(s, s->select->sort_clause[i]->sort_by->node);
}

/* Group keys as columns: those that are expressions get a number, and a projection below. */
struct group_keys {
	struct select_state *s;
	unsigned count;
	int *columns; /* for each group */
	struct sql_set allowed;
};

/* Whether key i is one of the set that is bound. */
static bool in_set(const struct select_state *s, unsigned i)
{
	return !s->sets.any || (s->set >> i & 1);
}

/* The value of e if it is a GROUPING(...), or NULL. */
static struct sql_expr *replace_grouping(const struct select_state *s, const struct sql_expr *e)
{
	for (unsigned i = 0; e->kind == SQL_COLUMN && i < s->scope.groupings.count; i++) {
		const struct sql_grouping_call *call = s->scope.groupings.items[i];

		if (call->column == e->column)
			return sql_grouping_value(s->ctx, call, &s->groups, &s->sets, s->set);
	}
	return NULL;
}

/* Keys that are not in the set are NULL. */
static struct sql_expr *replace_group(struct sql_ctx *ctx, void *arg, struct sql_expr *e)
{
	const struct group_keys *keys = arg;

	for (unsigned i = 0; i < keys->count; i++) {
		struct sql_expr *key = keys->s->groups.items[i];

		if (!in_set(keys->s, i) && sql_equal(key, e))
			return sql_null(ctx, e->type);
		if (key->kind != SQL_COLUMN && sql_equal(key, e)) {
			struct sql_expr *column = sql_column_expr(ctx, keys->columns[i], e->at);

			column->nullable = e->nullable;
			return column;
		}
	}
	return replace_grouping(keys->s, e);
}

/*
 * Whether column is determined by group keys: its table has a key without NULLs among them. The
 * columns of a scan are numbered in order.
 */
static bool determined(const struct sql_ctx *ctx, const struct sql_set *keys, int column)
{
	const struct sql_column *info = &ctx->columns[column];
	int first = column - (int)info->ordinal;

	for (unsigned i = 0; info->table && i < info->table->key_count; i++) {
		const struct sql_table_key *key = &info->table->keys[i];
		bool all = true;

		for (unsigned j = 0; j < key->count; j++)
			all &= sql_set_has(keys, first + (int)key->ordinals[j]) &&
			       !info->table->columns[key->ordinals[j]].nullable;
		if (all)
			return true;
	}
	return false;
}

static const struct sql_expr *find_column(struct sql_ctx *ctx, const struct sql_expr *e, int column)
{
	if (e->kind == SQL_COLUMN && e->column == column)
		return e;
	for (unsigned i = 0; i < e->count; i++) {
		const struct sql_expr *found = find_column(ctx, e->args[i], column);

		if (found)
			return found;
	}
	return NULL;
}

/* Checks an expression above the aggregate; columns that keys determine become keys. */
static void check_grouped(struct group_keys *keys, const struct sql_set *inputs,
			  const struct sql_expr *e, struct sql_list *carried)
{
	struct sql_ctx *ctx = keys->s->ctx;
	struct sql_set used = {0};

	sql_expr_columns(ctx, e, &used);
	for (unsigned column = 0; column < ctx->column_count; column++) {
		const struct sql_expr *where;

		if (!sql_set_has(&used, (int)column) || !sql_set_has(inputs, (int)column) ||
		    sql_set_has(&keys->allowed, (int)column))
			continue;
		if (!keys->s->sets.any && determined(ctx, &keys->allowed, (int)column)) {
			sql_set_add(ctx, &keys->allowed, (int)column);
			sql_list_add(ctx, carried, sql_column_expr(ctx, (int)column, -1));
			continue;
		}
		where = find_column(ctx, e, (int)column);
		sql_wrong(ctx, where ? where->at : e->at,
			  "column \"%s\" must appear in GROUP BY or in an aggregate",
			  ctx->columns[column].name);
	}
}

/* The projection below the aggregate, if a key is computed. */
static void project_keys(struct select_state *s, struct group_keys *keys)
{
	unsigned n = s->rel->width, computed = 0;
	struct sql_expr **exprs = SQL_ARRAY(s->ctx, struct sql_expr *, n + keys->count);
	int *columns = SQL_ARRAY(s->ctx, int, n + keys->count);

	for (unsigned i = 0; i < n; i++) {
		columns[i] = s->rel->columns[i];
		exprs[i] = sql_column_expr(s->ctx, columns[i], -1);
	}
	for (unsigned i = 0; i < keys->count; i++) {
		struct sql_expr *key = s->groups.items[i];

		keys->columns[i] = key->column;
		if (key->kind == SQL_COLUMN && sql_outputs(s->rel, key->column))
			continue;
		keys->columns[i] = sql_new_column(s->ctx, "key", key->type, key->nullable);
		columns[n + computed] = keys->columns[i];
		exprs[n + computed++] = key;
	}
	if (computed)
		s->rel = sql_project(s->ctx, s->rel, n + computed, columns, exprs);
}

static struct sql_rel *make_aggregate(struct select_state *s, const struct group_keys *keys,
				      const struct sql_list *carried)
{
	unsigned count = 0, key_count, agg_count = s->scope.aggs.count;
	int *columns = SQL_ARRAY(s->ctx, int, keys->count);
	struct sql_rel *rel;

	for (unsigned i = 0; i < keys->count; i++) {
		if (in_set(s, i))
			columns[count++] = keys->columns[i];
	}
	key_count = count + carried->count;
	rel = sql_new_rel(s->ctx, SQL_AGGREGATE, s->rel, NULL, key_count + agg_count);
	memcpy(rel->columns, columns, count * sizeof(int));
	for (unsigned i = 0; i < carried->count; i++)
		rel->columns[count + i] = ((struct sql_expr *)carried->items[i])->column;
	rel->agg.key_count = key_count;
	rel->agg.determinant_count = count;
	rel->agg.grouped = s->select->n_group_clause > 0 && (!s->sets.any || s->set);
	rel->agg.agg_count = agg_count;
	rel->agg.aggs = SQL_ARRAY(s->ctx, struct sql_agg, agg_count);
	for (unsigned i = 0; i < agg_count; i++) {
		rel->agg.aggs[i] = *(struct sql_agg *)s->scope.aggs.items[i];
		rel->columns[key_count + i] = rel->agg.aggs[i].column;
	}
	return rel;
}

static void add_grouping(struct select_state *s)
{
	struct group_keys keys = {.s = s, .count = s->groups.count};
	struct sql_list carried = {0};
	struct sql_set inputs = {0};

	if (!s->select->n_group_clause && !s->scope.aggs.count && !s->select->having_clause &&
	    !s->scope.groupings.count)
		return;
	sql_set_add_outputs(s->ctx, &inputs, s->rel);
	keys.columns = SQL_ARRAY(s->ctx, int, keys.count);
	project_keys(s, &keys);
	for (unsigned i = 0; i < keys.count; i++)
		sql_set_add(s->ctx, &keys.allowed, keys.columns[i]);
	for (unsigned i = 0; i < s->items.count; i++) {
		struct select_item *item = item_at(s, i);

		item->expr = sql_expr_map(s->ctx, item->expr, replace_group, &keys);
		check_grouped(&keys, &inputs, item->expr, &carried);
	}
	if (s->having) {
		s->having = sql_expr_map(s->ctx, s->having, replace_group, &keys);
		check_grouped(&keys, &inputs, s->having, &carried);
	}
	s->rel = sql_filter(s->ctx, make_aggregate(s, &keys, &carried), s->having);
}

/* The projection of all items; equal ones share a column. */
static void project_items(struct select_state *s)
{
	struct sql_expr **exprs = SQL_ARRAY(s->ctx, struct sql_expr *, s->items.count);
	int *columns = SQL_ARRAY(s->ctx, int, s->items.count);
	unsigned n = 0;

	for (unsigned i = 0; i < s->items.count; i++) {
		struct select_item *item = item_at(s, i);
		struct sql_expr *e = item->expr;

		for (unsigned j = 0; j < i && item->column < 0; j++) {
			if (e->type.kind != SQL_UNKNOWN && sql_equal(item_at(s, j)->expr, e))
				item->column = item_at(s, j)->column;
		}
		if (item->column >= 0)
			continue;
		item->column = e->kind == SQL_COLUMN && sql_outputs(s->rel, e->column)
				       ? e->column
				       : sql_new_column(s->ctx, item->name, e->type, e->nullable);
		columns[n] = item->column;
		exprs[n++] = e;
	}
	s->rel = sql_project(s->ctx, s->rel, n, columns, exprs);
}

static bool sort_descends(const PgQuery__SortBy *by)
{
	return by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_DESC;
}

struct sql_rel *sql_bind_sort(struct sql_ctx *ctx, struct sql_rel *rel,
			      const PgQuery__SelectStmt *select, const int *columns)
{
	unsigned n = (unsigned)select->n_sort_clause;
	struct sql_rel *sort;

	if (n == 0)
		return rel;
	sort = sql_new_rel(ctx, SQL_SORT, rel, NULL, rel->width);
	memcpy(sort->columns, rel->columns, rel->width * sizeof(int));
	sort->sort.keys = SQL_ARRAY(ctx, struct sql_sort_key, n);
	for (unsigned i = 0; i < n; i++) {
		const PgQuery__SortBy *by = select->sort_clause[i]->sort_by;
		struct sql_sort_key *key = &sort->sort.keys[sort->sort.key_count];
		bool again = false;

		if (by->sortby_dir == PG_QUERY__SORT_BY_DIR__SORTBY_USING)
			sql_unsupported(ctx, by->location, "ORDER BY ... USING");
		for (unsigned j = 0; j < sort->sort.key_count; j++)
			again |= sort->sort.keys[j].column == columns[i];
		if (again)
			continue;
		key->column = columns[i];
		key->descending = sort_descends(by);
		key->nulls_first =
			by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_DEFAULT
				? key->descending
				: by->sortby_nulls == PG_QUERY__SORT_BY_NULLS__SORTBY_NULLS_FIRST;
		sort->sort.key_count++;
	}
	return sort;
}

/* The number that LIMIT or OFFSET says; missing and NULL are `none`. */
static int64_t bind_count(struct sql_ctx *ctx, const PgQuery__Node *node, const char *clause,
			  int64_t none)
{
	struct sql_scope empty = {.clause = clause};
	struct sql_expr *e;

	if (!node)
		return none;
	e = sql_coerce(ctx, sql_bind_expr(ctx, &empty, node), SQL_TYPE_INT64, clause);
	if (!sql_is_const(e))
		sql_unsupported(ctx, sql_node_location(node),
				"%s with an expression that is not constant", clause);
	if (e->value.null)
		return none;
	if (e->value.integer < 0)
		sql_wrong(ctx, sql_node_location(node), "%s must not be negative", clause);
	return (int64_t)e->value.integer;
}

struct sql_rel *sql_bind_limit(struct sql_ctx *ctx, struct sql_rel *rel,
			       const PgQuery__SelectStmt *select)
{
	int64_t count = bind_count(ctx, select->limit_count, "LIMIT", -1);
	int64_t offset = bind_count(ctx, select->limit_offset, "OFFSET", 0);
	struct sql_rel *limit;

	if (select->limit_option == PG_QUERY__LIMIT_OPTION__LIMIT_OPTION_WITH_TIES)
		sql_unsupported(ctx, -1, "FETCH ... WITH TIES");
	if (count < 0 && offset == 0)
		return rel;
	limit = sql_new_rel(ctx, SQL_LIMIT, rel, NULL, rel->width);
	memcpy(limit->columns, rel->columns, rel->width * sizeof(int));
	limit->limit.count = count;
	limit->limit.offset = offset;
	return limit;
}

static void check_select(struct sql_ctx *ctx, const PgQuery__SelectStmt *select)
{
	if (select->into_clause)
		sql_unsupported(ctx, -1, "SELECT INTO");
	if (select->n_window_clause)
		sql_unsupported(ctx, -1, "WINDOW");
	if (select->n_group_clause > SQL_LIST_MAX || select->n_sort_clause > SQL_LIST_MAX)
		sql_wrong(ctx, -1, "GROUP BY and ORDER BY have at most %d entries", SQL_LIST_MAX);
	if (select->n_locking_clause)
		sql_unsupported(ctx, -1, "FOR UPDATE or FOR SHARE");
	/* plain DISTINCT is a list of one empty node */
	if (select->n_distinct_clause &&
	    select->distinct_clause[0]->node_case != PG_QUERY__NODE__NODE__NOT_SET)
		sql_unsupported(ctx, sql_node_location(select->distinct_clause[0]), "DISTINCT ON");
}

static struct sql_bound finish_select(struct select_state *s)
{
	struct sql_ctx *ctx = s->ctx;
	int *sort_columns = SQL_ARRAY(ctx, int, s->sort_count);
	struct sql_bound bound = {.count = s->visible};

	if (s->select->n_distinct_clause)
		s->rel = sql_distinct(ctx, s->rel);
	for (unsigned i = 0; i < s->sort_count; i++)
		sort_columns[i] = item_at(s, s->sort_items[i])->column;
	s->rel = sql_bind_sort(ctx, s->rel, s->select, sort_columns);
	bound.rel = sql_bind_limit(ctx, s->rel, s->select);
	bound.columns = SQL_ARRAY(ctx, int, bound.count);
	bound.names = SQL_ARRAY(ctx, const char *, bound.count);
	for (unsigned i = 0; i < bound.count; i++) {
		bound.columns[i] = item_at(s, i)->column;
		bound.names[i] = item_at(s, i)->name;
	}
	return bound;
}

/* Everything but the relations above WHERE. */
static void bind_clauses(struct select_state *s)
{
	const PgQuery__SelectStmt *select = s->select;
	struct sql_ctx *ctx = s->ctx;

	s->rel = sql_bind_from(ctx, &s->scope, select);
	if (select->where_clause) {
		s->scope.clause = "WHERE";
		s->rel = sql_filter(
			ctx, s->rel,
			sql_condition(ctx, sql_bind_expr(ctx, &s->scope, select->where_clause),
				      "WHERE"));
	}
	bind_select_list(s);
	bind_groups(s);
	if (select->having_clause) {
		s->scope.aggregates_allowed = true;
		s->scope.clause = "HAVING";
		s->having = sql_condition(ctx, sql_bind_expr(ctx, &s->scope, select->having_clause),
					  "HAVING");
	}
	bind_sort_keys(s);
}

/* The items of one grouping set, as columns of their own. */
static int *project_set(struct select_state *s)
{
	struct sql_expr **exprs = SQL_ARRAY(s->ctx, struct sql_expr *, s->items.count);
	int *columns = SQL_ARRAY(s->ctx, int, s->items.count);

	add_grouping(s);
	for (unsigned i = 0; i < s->items.count; i++) {
		exprs[i] = item_at(s, i)->expr;
		columns[i] = sql_new_column(s->ctx, item_at(s, i)->name, exprs[i]->type, true);
	}
	s->rel = sql_project(s->ctx, s->rel, s->items.count, columns, exprs);
	return columns;
}

/* The rows of all grouping sets. */
static void unite_sets(struct select_state *s, const struct select_state *start)
{
	unsigned width = s->items.count;
	int *columns = project_set(s);

	for (unsigned i = 1; i < s->sets.count; i++) {
		struct select_state next = *start;
		struct sql_rel *both;

		if (++s->ctx->select_count > SQL_SELECTS_MAX)
			sql_wrong(s->ctx, -1,
				  "the statement has more than %d SELECTs, including those of "
				  "grouping sets",
				  SQL_SELECTS_MAX);
		bind_clauses(&next);
		next.set = next.sets.sets[i];
		both = sql_new_rel(s->ctx, SQL_UNION, s->rel, NULL, width);
		both->set.left_columns = columns;
		both->set.right_columns = project_set(&next);
		both->right = next.rel;
		for (unsigned j = 0; j < width; j++)
			both->columns[j] = sql_new_column(s->ctx, item_at(s, j)->name,
							  s->ctx->columns[columns[j]].type, true);
		columns = sql_copy_columns(s->ctx, width, both->columns);
		s->rel = both;
	}
	for (unsigned j = 0; j < width; j++)
		item_at(s, j)->column = columns[j];
}

static struct sql_bound bind_plain_select(struct sql_ctx *ctx, const struct sql_scope *parent,
					  const struct sql_cte *ctes,
					  const PgQuery__SelectStmt *select, bool keep_unknown)
{
	struct select_state s = {.ctx = ctx,
				 .select = select,
				 .scope = {.parent = parent, .ctes = ctes},
				 .keep_unknown = keep_unknown};
	struct select_state start = s;

	check_select(ctx, select);
	bind_clauses(&s);
	if (s.sets.any) {
		unite_sets(&s, &start);
	} else {
		add_grouping(&s);
		project_items(&s);
	}
	return finish_select(&s);
}

static void check_cte(struct sql_ctx *ctx, const PgQuery__WithClause *with, size_t i)
{
	const PgQuery__CommonTableExpr *node = with->ctes[i]->common_table_expr;

	if (node->ctequery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
		sql_unsupported(ctx, node->location, "INSERT, UPDATE or DELETE in WITH (\"%s\")",
				node->ctename);
	for (size_t j = 0; j < i; j++) {
		if (!strcmp(with->ctes[j]->common_table_expr->ctename, node->ctename))
			sql_wrong(ctx, node->location, "WITH has two queries named \"%s\"",
				  node->ctename);
	}
}

/* WITH: each query sees those before it. */
static const struct sql_cte *add_ctes(struct sql_ctx *ctx, const PgQuery__WithClause *with,
				      const struct sql_scope *parent, const struct sql_cte *ctes)
{
	if (!with)
		return ctes;
	if (with->recursive)
		sql_unsupported(ctx, with->location, "WITH RECURSIVE");
	for (size_t i = 0; i < with->n_ctes; i++) {
		struct sql_cte *cte = sql_alloc(ctx, sizeof(*cte));

		check_cte(ctx, with, i);
		cte->node = with->ctes[i]->common_table_expr;
		cte->name = cte->node->ctename;
		cte->parent = parent;
		cte->visible = cte->next = ctes;
		cte->used = sql_alloc(ctx, sizeof(*cte->used));
		ctes = cte;
	}
	return ctes;
}

/*
 * A WITH query that nothing uses must be correct all the same. The last one goes first: it may use
 * those before it.
 */
static void check_unused(struct sql_ctx *ctx, const struct sql_cte *ctes,
			 const struct sql_cte *outer)
{
	for (; ctes != outer; ctes = ctes->next) {
		if (!*ctes->used)
			sql_bind_cte(ctx, ctes);
	}
}

struct sql_bound sql_bind_query(struct sql_ctx *ctx, const struct sql_scope *parent,
				const struct sql_cte *ctes, const PgQuery__SelectStmt *select,
				bool keep_unknown)
{
	const struct sql_cte *outer = ctes;
	struct sql_bound bound;

	if (++ctx->select_count > SQL_SELECTS_MAX)
		sql_wrong(ctx, -1,
			  "the statement has more than %d SELECTs, including those of views",
			  SQL_SELECTS_MAX);
	sql_enter(ctx, -1);
	ctes = add_ctes(ctx, select->with_clause, parent, outer);
	if (select->op != PG_QUERY__SET_OPERATION__SETOP_NONE &&
	    select->op != PG_QUERY__SET_OPERATION__SET_OPERATION_UNDEFINED)
		bound = sql_bind_set(ctx, parent, ctes, select);
	else if (select->n_values_lists)
		bound = sql_bind_values(ctx, parent, ctes, select);
	else
		bound = bind_plain_select(ctx, parent, ctes, select, keep_unknown);
	check_unused(ctx, ctes, outer);
	sql_leave(ctx);
	return bound;
}

struct sql_bound sql_bind_select(struct sql_ctx *ctx, const struct sql_scope *parent,
				 const struct sql_cte *ctes, const PgQuery__SelectStmt *select)
{
	struct sql_bound bound = sql_bind_query(ctx, parent, ctes, select, false);

	for (unsigned i = 0; i < bound.count; i++) {
		if (ctx->columns[bound.columns[i]].type.kind == SQL_UNKNOWN)
			sql_retype(ctx, bound.rel, bound.columns[i], SQL_TYPE_TEXT);
	}
	return bound;
}
