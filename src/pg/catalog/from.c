/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FROM and WHERE over catalogs: joins by nested loops, with conditions of WHERE applied as soon as
 * the relations that they name are joined.
 */
#include "pg/catalog/block.h"

#include <string.h>

void cat_set_rows(struct block *b, unsigned width, const int *rows)
{
	for (unsigned i = 0; i < width; i++)
		b->items[i].row = rows[i];
}

static void add_tuple(struct cat *c, struct cat_tuples *t, unsigned width, const int *rows)
{
	if (t->count == t->room) {
		unsigned room = t->room ? t->room * 2 : 64;
		int *more = SQL_ARRAY(c->ctx, int, (size_t)room *(width ? width : 1));

		if (t->count > 0)
			memcpy(more, t->rows, (size_t)t->count * width * sizeof(*more));
		t->rows = more;
		t->room = room;
	}
	if (width > 0)
		memcpy(t->rows + (size_t)t->count * width, rows, width * sizeof(*rows));
	t->count++;
}

static void copy_rows(int *to, const int *from, unsigned tuple, unsigned width)
{
	if (width > 0)
		memcpy(to, from + (size_t)tuple * width, width * sizeof(*to));
}

/* ---- FROM ---- */

static struct cat_rel *find_relation(struct cat *c, const PgQuery__RangeVar *var)
{
	const char *schema = var->schemaname && *var->schemaname ? var->schemaname : NULL;
	struct cat_rel *rel;

	for (struct cat_with *w = c->withs; w && !schema; w = w->next)
		if (strcmp(w->name, var->relname) == 0)
			return w->rel;
	rel = cat_relation(c, schema, var->relname);
	if (!rel)
		sql_wrong(c->ctx, var->location, "table \"%s\" does not exist among the catalogs",
			  var->relname);
	return rel;
}

struct cat_rel *cat_renamed(struct cat *c, struct cat_rel *rel, const PgQuery__Alias *alias)
{
	struct cat_rel *copy;

	if (!alias || alias->n_colnames == 0)
		return rel;
	copy = sql_alloc(c->ctx, sizeof(*copy));
	*copy = *rel;
	copy->columns = SQL_ARRAY(c->ctx, struct cat_column, rel->width + 1);
	for (unsigned i = 0; i < rel->width; i++) {
		copy->columns[i] = rel->columns[i];
		if (i < alias->n_colnames)
			copy->columns[i].name = cat_string(c, alias->colnames[i]);
	}
	return copy;
}

static const PgQuery__FuncCall *function_of(const PgQuery__RangeFunction *f)
{
	const PgQuery__Node *first = f->n_functions == 1 ? f->functions[0] : NULL;

	if (first && first->node_case == PG_QUERY__NODE__NODE_LIST && first->list->n_items > 0)
		first = first->list->items[0];
	return first && first->node_case == PG_QUERY__NODE__NODE_FUNC_CALL ? first->func_call
									   : NULL;
}

/* The rows of an item, which may depend on those of items before it. */
static struct cat_rel *item_rows(struct block *b, const PgQuery__Node *node)
{
	struct cat *c = b->c;
	const PgQuery__FuncCall *call;
	struct cat_value args[16], one;
	struct cat_rel *rel;
	const char *name;

	if (node->node_case == PG_QUERY__NODE__NODE_RANGE_VAR)
		return cat_renamed(c, find_relation(c, node->range_var), node->range_var->alias);
	if (node->node_case == PG_QUERY__NODE__NODE_RANGE_SUBSELECT)
		return cat_renamed(
			c, cat_select(c, &b->scope, node->range_subselect->subquery->select_stmt),
			node->range_subselect->alias);
	call = node->node_case == PG_QUERY__NODE__NODE_RANGE_FUNCTION
		       ? function_of(node->range_function)
		       : NULL;
	if (!call || call->n_args > 16)
		sql_unsupported(c->ctx, -1, "this form of FROM in a query of catalogs");
	name = cat_string(c, call->funcname[call->n_funcname - 1]);
	for (size_t i = 0; i < call->n_args; i++)
		args[i] = cat_eval(c, &b->scope, call->args[i]);
	rel = cat_rows_of(c, name, (unsigned)call->n_args, args);
	if (!rel) {
		one = cat_call(c, &b->scope, name, call, (unsigned)call->n_args, args);
		rel = cat_new(c, 1, &name);
		rel->columns[0].oid = one.oid;
		*cat_add(c, rel) = one;
	}
	if (node->range_function->ordinality) {
		struct cat_rel *wide = cat_new(c, rel->width + 1, NULL);

		memcpy(wide->columns, rel->columns, rel->width * sizeof(*rel->columns));
		wide->columns[rel->width] = (struct cat_column){"ordinality", PG_INT8};
		for (unsigned i = 0; i < rel->count; i++) {
			struct cat_value *row = cat_add(c, wide);

			memcpy(row, rel->cells + (size_t)i * rel->width, rel->width * sizeof(*row));
			row[rel->width] = cat_number(c, PG_INT8, i + 1);
		}
		rel = wide;
	}
	return cat_renamed(c, rel, node->range_function->alias);
}

static const char *alias_of(struct cat *c, const PgQuery__Node *node)
{
	const PgQuery__Alias *alias = NULL;
	const PgQuery__FuncCall *call;

	if (node->node_case == PG_QUERY__NODE__NODE_RANGE_VAR)
		alias = node->range_var->alias;
	else if (node->node_case == PG_QUERY__NODE__NODE_RANGE_SUBSELECT)
		alias = node->range_subselect->alias;
	else
		alias = node->range_function->alias;
	if (alias)
		return alias->aliasname;
	if (node->node_case == PG_QUERY__NODE__NODE_RANGE_VAR)
		return node->range_var->relname;
	call = node->node_case == PG_QUERY__NODE__NODE_RANGE_FUNCTION
		       ? function_of(node->range_function)
		       : NULL;
	return call ? cat_string(c, call->funcname[call->n_funcname - 1]) : "";
}

/* Whether all columns that an expression names are in the items so far, or around the block. */
static bool resolves(struct block *b, const ProtobufCMessage *m);

static bool column_resolves(struct block *b, const PgQuery__ColumnRef *ref)
{
	const PgQuery__Node *last = ref->fields[ref->n_fields - 1];
	const char *table = NULL;

	if (last->node_case != PG_QUERY__NODE__NODE_STRING)
		return false;
	if (ref->n_fields > 1 &&
	    ref->fields[ref->n_fields - 2]->node_case == PG_QUERY__NODE__NODE_STRING)
		table = ref->fields[ref->n_fields - 2]->string->sval;
	for (const struct cat_scope *s = &b->scope; s; s = s->outer)
		for (unsigned i = 0; i < s->count; i++) {
			if (table && strcmp(table, s->items[i].alias) != 0)
				continue;
			for (unsigned k = 0; k < s->items[i].rel->width; k++)
				if (strcmp(s->items[i].rel->columns[k].name, last->string->sval) ==
				    0)
					return true;
		}
	return false;
}

static bool resolves(struct block *b, const ProtobufCMessage *m)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;

	if (d == &pg_query__sub_link__descriptor)
		return false; /* at the end, when everything is there */
	if (d == &pg_query__column_ref__descriptor)
		return column_resolves(b, (const PgQuery__ColumnRef *)m);
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		const char *at = (const char *)m + f->offset;

		if (f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(const size_t *)((const char *)m + f->quantifier_offset);
			ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)at;

			for (size_t k = 0; k < n; k++)
				if (!resolves(b, items[k]))
					return false;
		} else if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
			if (*(const uint32_t *)((const char *)m + f->quantifier_offset) == f->id &&
			    !resolves(b, *(ProtobufCMessage *const *)at))
				return false;
		} else if (*(ProtobufCMessage *const *)at &&
			   !resolves(b, *(ProtobufCMessage *const *)at)) {
			return false;
		}
	}
	return true;
}

static void take_conditions(struct block *b, const PgQuery__Node *node, struct sql_list *list)
{
	if (!node)
		return;
	if (node->node_case == PG_QUERY__NODE__NODE_BOOL_EXPR &&
	    node->bool_expr->boolop == PG_QUERY__BOOL_EXPR_TYPE__AND_EXPR) {
		for (size_t i = 0; i < node->bool_expr->n_args; i++)
			take_conditions(b, node->bool_expr->args[i], list);
		return;
	}
	sql_list_add(b->c->ctx, list, (void *)(uintptr_t)node);
}

static struct cat_value value_in(const struct cat_item *item, const char *name, bool *found)
{
	for (unsigned i = 0; i < item->rel->width; i++) {
		if (strcmp(item->rel->columns[i].name, name) != 0)
			continue;
		*found = true;
		return item->row < 0 ? (struct cat_value){NULL, PG_TEXT}
				     : item->rel->cells[(size_t)item->row * item->rel->width + i];
	}
	*found = false;
	return (struct cat_value){NULL, PG_TEXT};
}

/* The columns of USING are equal in the last item and the first before it that has them. */
static bool using_holds(struct block *b)
{
	unsigned last = b->scope.count - 1;

	for (unsigned i = 0; i < b->using_count; i++) {
		const char *name = cat_string(b->c, b->using[i]);
		bool found = false, own;
		struct cat_value left = {NULL, PG_TEXT},
				 right = value_in(&b->items[last], name, &own);

		for (unsigned k = 0; k < last && !found; k++)
			left = value_in(&b->items[k], name, &found);
		if (!found || !own)
			sql_wrong(b->c->ctx, -1, "USING: column \"%s\" does not exist", name);
		if (!left.text || !right.text || cat_compare(left, right) != 0)
			return false;
	}
	return true;
}

static bool holds(struct block *b, const struct sql_list *conditions)
{
	if (b->using_count > 0 && !using_holds(b))
		return false;
	for (unsigned i = 0; i < conditions->count; i++)
		if (!cat_true(cat_eval(b->c, &b->scope, conditions->items[i])))
			return false;
	return true;
}

static void join(struct block *b, const PgQuery__Node *node, PgQuery__JoinType type,
		 const struct sql_list *quals);

/* Conditions of WHERE that can be decided now; last: all of them. */
static void apply_where(struct block *b, bool last)
{
	struct sql_list now = {0};
	struct cat_tuples kept = {0};
	unsigned width = b->scope.count;

	for (unsigned i = 0; i < b->condition_count; i++) {
		const PgQuery__Node *node = b->conditions[i];

		if (!node || !(last || resolves(b, &node->base)))
			continue;
		sql_list_add(b->c->ctx, &now, (void *)(uintptr_t)node);
		b->conditions[i] = NULL;
	}
	if (now.count == 0)
		return;
	for (unsigned i = 0; i < b->tuples.count; i++) {
		cat_set_rows(b, width, b->tuples.rows + (size_t)i * width);
		if (holds(b, &now))
			add_tuple(b->c, &kept, width, b->tuples.rows + (size_t)i * width);
	}
	b->tuples = kept;
}

static void join_tree(struct block *b, const PgQuery__JoinExpr *x)
{
	struct sql_list quals = {0};

	if (x->larg->node_case == PG_QUERY__NODE__NODE_JOIN_EXPR)
		join_tree(b, x->larg->join_expr);
	else
		join(b, x->larg, PG_QUERY__JOIN_TYPE__JOIN_INNER, &quals);
	quals = (struct sql_list){0};
	take_conditions(b, x->quals, &quals);
	if (x->is_natural ||
	    (x->n_using_clause > 0 && x->rarg->node_case == PG_QUERY__NODE__NODE_JOIN_EXPR))
		sql_unsupported(b->c->ctx, -1, "this join in a query of catalogs");
	b->using_count = (unsigned)x->n_using_clause;
	b->using = x->using_clause;
	join(b, x->rarg, x->jointype, &quals);
	b->using_count = 0;
}

/* (a join b): its rows by themselves, then all combinations. */
static void join_nested(struct block *b, const PgQuery__JoinExpr *x, bool left,
			const struct sql_list *quals)
{
	struct cat *c = b->c;
	unsigned before = b->scope.count, width;
	struct cat_tuples old = b->tuples, new = {0}, right;
	int *rows = SQL_ARRAY(c->ctx, int, ITEMS_MAX);

	for (unsigned i = 0; i < before; i++)
		rows[i] = -1;
	b->tuples = (struct cat_tuples){0};
	add_tuple(c, &b->tuples, before, rows);
	join_tree(b, x);
	width = b->scope.count;
	right = b->tuples;
	for (unsigned i = 0; i < old.count; i++) {
		bool matched = false;

		if (before > 0)
			memcpy(rows, old.rows + (size_t)i * before, before * sizeof(*rows));
		for (unsigned k = 0; k < right.count; k++) {
			memcpy(rows + before, right.rows + (size_t)k * width + before,
			       (width - before) * sizeof(*rows));
			cat_set_rows(b, width, rows);
			if (!holds(b, quals))
				continue;
			matched = true;
			add_tuple(c, &new, width, rows);
		}
		for (unsigned k = before; k < width; k++)
			rows[k] = -1;
		if (left && !matched)
			add_tuple(c, &new, width, rows);
	}
	b->tuples = new;
}

/* Join an item, or the joins in parentheses, to the rows so far. */
static void join(struct block *b, const PgQuery__Node *node, PgQuery__JoinType type,
		 const struct sql_list *quals)
{
	struct cat *c = b->c;
	unsigned before = b->scope.count;
	struct cat_tuples old = b->tuples, new = {0};
	bool left = type == PG_QUERY__JOIN_TYPE__JOIN_LEFT;
	bool dependent = node->node_case != PG_QUERY__NODE__NODE_RANGE_VAR;
	int *rows;

	if (type != PG_QUERY__JOIN_TYPE__JOIN_INNER && !left)
		sql_unsupported(c->ctx, -1, "this join in a query of catalogs");
	if (before == ITEMS_MAX)
		sql_wrong(c->ctx, -1, "more than %d tables", ITEMS_MAX);
	if (node->node_case == PG_QUERY__NODE__NODE_JOIN_EXPR) {
		join_nested(b, node->join_expr, left, quals);
		return;
	}
	rows = SQL_ARRAY(c->ctx, int, before + 1);
	for (unsigned i = 0; i < before; i++)
		b->items[i].row = -1;
	b->items[before] = (struct cat_item){alias_of(c, node), item_rows(b, node), -1};
	for (unsigned i = 0; i < old.count; i++) {
		struct cat_rel *rel = b->items[before].rel;
		unsigned from = 0, to = rel->count;
		bool matched = false;

		if (dependent && before > 0) {
			struct cat_rel *own;

			b->scope.count = before;
			cat_set_rows(b, before, old.rows + (size_t)i * before);
			own = item_rows(b, node);
			if (i == 0)
				rel->count = 0;
			from = rel->count;
			for (unsigned k = 0; k < own->count; k++)
				memcpy(cat_add(c, rel), own->cells + (size_t)k * own->width,
				       own->width * sizeof(*own->cells));
			to = rel->count;
		}
		b->scope.count = before + 1;
		for (unsigned k = from; k < to; k++) {
			copy_rows(rows, old.rows, i, before);
			rows[before] = (int)k;
			cat_set_rows(b, before + 1, rows);
			if (!holds(b, quals))
				continue;
			matched = true;
			add_tuple(c, &new, before + 1, rows);
		}
		if (left && !matched) {
			copy_rows(rows, old.rows, i, before);
			rows[before] = -1;
			add_tuple(c, &new, before + 1, rows);
		}
	}
	b->scope.count = before + 1;
	b->tuples = new;
}

void cat_from(struct block *b, const PgQuery__SelectStmt *s)
{
	struct sql_list list = {0}, none = {0};

	take_conditions(b, s->where_clause, &list);
	b->condition_count = list.count;
	b->conditions = (const PgQuery__Node **)list.items;
	add_tuple(b->c, &b->tuples, 0, NULL);
	for (size_t i = 0; i < s->n_from_clause; i++) {
		const PgQuery__Node *node = s->from_clause[i];

		if (node->node_case == PG_QUERY__NODE__NODE_JOIN_EXPR)
			join_tree(b, node->join_expr);
		else
			join(b, node, PG_QUERY__JOIN_TYPE__JOIN_INNER, &none);
		apply_where(b, false);
	}
	apply_where(b, true);
}
