/* SPDX-License-Identifier: BSD-2-Clause */
/* SELECT over catalogs: the select list, groups, row_number(), UNION, WITH, ORDER BY, LIMIT. */
#include "pg/catalog/block.h"

#include <stdlib.h>
#include <string.h>

/* ---- the select list ---- */

struct output {
	const char *name;
	const PgQuery__Node *node; /* NULL: a column of an item */
	unsigned item, column;
};

static const char *output_name(struct cat *c, const PgQuery__Node *node)
{
	switch (node->node_case) {
	case PG_QUERY__NODE__NODE_COLUMN_REF:
		return cat_string(c, node->column_ref->fields[node->column_ref->n_fields - 1]);
	case PG_QUERY__NODE__NODE_FUNC_CALL:
		return cat_string(c, node->func_call->funcname[node->func_call->n_funcname - 1]);
	case PG_QUERY__NODE__NODE_TYPE_CAST:
		return output_name(c, node->type_cast->arg);
	case PG_QUERY__NODE__NODE_CASE_EXPR:
		return "case";
	case PG_QUERY__NODE__NODE_COALESCE_EXPR:
		return "coalesce";
	case PG_QUERY__NODE__NODE_SQLVALUE_FUNCTION:
		switch (node->sqlvalue_function->op) {
		case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_CATALOG:
			return "current_catalog";
		case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_CURRENT_SCHEMA:
			return "current_schema";
		case PG_QUERY__SQLVALUE_FUNCTION_OP__SVFOP_SESSION_USER:
			return "session_user";
		default:
			return "current_user";
		}
	case PG_QUERY__NODE__NODE_A_INDIRECTION:
		return output_name(c, node->a_indirection->arg);
	case PG_QUERY__NODE__NODE_COLLATE_CLAUSE:
		return output_name(c, node->collate_clause->arg);
	default:
		return "?column?";
	}
}

static unsigned expand_list(struct block *b, const PgQuery__SelectStmt *s, struct output *out)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->n_target_list; i++) {
		const PgQuery__ResTarget *t = s->target_list[i]->res_target;
		const PgQuery__ColumnRef *ref = t->val->node_case == PG_QUERY__NODE__NODE_COLUMN_REF
							? t->val->column_ref
							: NULL;
		const char *table = NULL;

		if (!ref ||
		    ref->fields[ref->n_fields - 1]->node_case != PG_QUERY__NODE__NODE_A_STAR) {
			out[n++] = (struct output){t->name && *t->name ? t->name
								       : output_name(b->c, t->val),
						   t->val, 0, 0};
			continue;
		}
		if (ref->n_fields > 1)
			table = cat_string(b->c, ref->fields[ref->n_fields - 2]);
		for (unsigned k = 0; k < b->scope.count; k++) {
			if (table && strcmp(table, b->items[k].alias) != 0)
				continue;
			for (unsigned m = 0; m < b->items[k].rel->width && n < SQL_LIST_MAX; m++)
				out[n++] = (struct output){b->items[k].rel->columns[m].name, NULL,
							   k, m};
		}
	}
	return n;
}

static struct cat_value output_value(struct block *b, const struct output *o)
{
	const struct cat_item *item = &b->items[o->item];

	if (o->node)
		return cat_eval(b->c, &b->scope, o->node);
	if (item->row < 0)
		return (struct cat_value){NULL, item->rel->columns[o->column].oid};
	return item->rel->cells[(size_t)item->row * item->rel->width + o->column];
}

/* Whether an expression has an aggregate, or a window function if `window`. */
static const PgQuery__FuncCall *find_call(const ProtobufCMessage *m, bool window)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;
	const PgQuery__FuncCall *found = NULL;

	if (d == &pg_query__sub_link__descriptor)
		return NULL;
	if (d == &pg_query__func_call__descriptor) {
		const PgQuery__FuncCall *call = (const PgQuery__FuncCall *)m;
		const char *name = call->funcname[call->n_funcname - 1]->string->sval;

		if (window ? call->over != NULL : !call->over && cat_is_aggregate(name))
			return call;
	}
	for (unsigned i = 0; i < d->n_fields && !found; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		const char *at = (const char *)m + f->offset;

		if (f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(const size_t *)((const char *)m + f->quantifier_offset);
			ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)at;

			for (size_t k = 0; k < n && !found; k++)
				found = find_call(items[k], window);
		} else if (!(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) ||
			   *(const uint32_t *)((const char *)m + f->quantifier_offset) == f->id) {
			if (*(ProtobufCMessage *const *)at)
				found = find_call(*(ProtobufCMessage *const *)at, window);
		}
	}
	return found;
}

/* ---- sorting ---- */

struct keyed {
	unsigned row;
	unsigned keys;
	const struct cat_value *values;
	const bool *descending;
};

static int by_keys(const void *x, const void *y)
{
	const struct keyed *a = x, *b = y;

	for (unsigned i = 0; i < a->keys; i++) {
		int order = cat_compare(a->values[i], b->values[i]);

		if (order != 0)
			return a->descending[i] ? -order : order;
	}
	return a->row < b->row ? -1 : a->row > b->row;
}

/* Row numbers of row_number() OVER (PARTITION BY ... ORDER BY ...), by tuple. */
static unsigned *number_rows(struct block *b, const PgQuery__FuncCall *call)
{
	const PgQuery__WindowDef *w = call->over;
	unsigned parts = (unsigned)w->n_partition_clause,
		 keys = parts + (unsigned)w->n_order_clause;
	unsigned n = b->tuples.count, width = b->scope.count, number = 0;
	struct keyed *sorted = SQL_ARRAY(b->c->ctx, struct keyed, n + 1);
	bool *descending = SQL_ARRAY(b->c->ctx, bool, keys + 1);
	unsigned *numbers = SQL_ARRAY(b->c->ctx, unsigned, n + 1);

	for (unsigned i = 0; i < n; i++) {
		struct cat_value *values = SQL_ARRAY(b->c->ctx, struct cat_value, keys + 1);

		cat_set_rows(b, width, b->tuples.rows + (size_t)i * width);
		for (unsigned k = 0; k < keys; k++)
			values[k] = cat_eval(b->c, &b->scope,
					     k < parts ? w->partition_clause[k]
						       : w->order_clause[k - parts]->sort_by->node);
		sorted[i] = (struct keyed){i, keys, values, descending};
	}
	qsort(sorted, n, sizeof(*sorted), by_keys);
	for (unsigned i = 0; i < n; i++) {
		bool same = i > 0;

		for (unsigned k = 0; k < parts && same; k++)
			same = cat_compare(sorted[i].values[k], sorted[i - 1].values[k]) == 0;
		number = same ? number + 1 : 1;
		numbers[sorted[i].row] = number;
	}
	return numbers;
}

/* ---- a block as a whole ---- */

/* What ORDER BY names: a position or a name of the select list, or an expression. */
static int output_of(const struct output *out, unsigned n, const PgQuery__Node *node)
{
	const PgQuery__ColumnRef *ref;

	if (node->node_case == PG_QUERY__NODE__NODE_A_CONST &&
	    node->a_const->val_case == PG_QUERY__A__CONST__VAL_IVAL)
		return node->a_const->ival->ival >= 1 && (unsigned)node->a_const->ival->ival <= n
			       ? node->a_const->ival->ival - 1
			       : -1;
	if (node->node_case != PG_QUERY__NODE__NODE_COLUMN_REF)
		return -1;
	ref = node->column_ref;
	for (unsigned i = 0; ref->n_fields == 1 && i < n; i++)
		if (ref->fields[0]->node_case == PG_QUERY__NODE__NODE_STRING &&
		    strcmp(out[i].name, ref->fields[0]->string->sval) == 0)
			return (int)i;
	return -1;
}

struct result {
	struct cat_rel *rel;
	unsigned keys;
	bool *descending;
	struct sql_list sorted; /* struct keyed */
};

static void emit_row(struct block *b, struct result *r, const PgQuery__SelectStmt *s,
		     const struct output *out, unsigned n)
{
	unsigned row = r->rel->count;
	struct cat_value *values = SQL_ARRAY(b->c->ctx, struct cat_value, n + 1);
	struct keyed *keyed = sql_alloc(b->c->ctx, sizeof(*keyed));
	struct cat_value *keys = SQL_ARRAY(b->c->ctx, struct cat_value, r->keys + 1);

	for (unsigned i = 0; i < n; i++)
		values[i] = output_value(b, &out[i]);
	for (unsigned k = 0; k < r->keys; k++) {
		const PgQuery__Node *node = s->sort_clause[k]->sort_by->node;
		int o = output_of(out, n, node);

		keys[k] = o >= 0 ? values[o] : cat_eval(b->c, &b->scope, node);
	}
	memcpy(cat_add(b->c, r->rel), values, n * sizeof(*values));
	*keyed = (struct keyed){row, r->keys, keys, r->descending};
	sql_list_add(b->c->ctx, &r->sorted, keyed);
}

static bool same_keys(const struct cat_value *a, const struct cat_value *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (cat_compare(a[i], b[i]) != 0)
			return false;
	return true;
}

static void emit_groups(struct block *b, struct result *r, const PgQuery__SelectStmt *s,
			const struct output *out, unsigned n)
{
	unsigned keys = (unsigned)s->n_group_clause, count = b->tuples.count,
		 width = b->scope.count;
	struct cat_value **values = SQL_ARRAY(b->c->ctx, struct cat_value *, count + 1);
	bool *used = SQL_ARRAY(b->c->ctx, bool, count + 1);

	for (unsigned i = 0; i < count; i++) {
		values[i] = SQL_ARRAY(b->c->ctx, struct cat_value, keys + 1);
		cat_set_rows(b, width, b->tuples.rows + (size_t)i * width);
		for (unsigned k = 0; k < keys; k++) {
			int o = output_of(out, n, s->group_clause[k]);

			values[i][k] = o >= 0 && out[o].node
					       ? output_value(b, &out[o])
					       : cat_eval(b->c, &b->scope, s->group_clause[k]);
		}
	}
	for (unsigned i = 0; i < count || (i == 0 && keys == 0); i++) {
		unsigned *members = SQL_ARRAY(b->c->ctx, unsigned, count + 1);
		struct cat_group group = {.tuples = members, .all = &b->tuples};

		if (i < count && used[i])
			continue;
		for (unsigned k = i; k < count; k++)
			if (!used[k] && same_keys(values[i], values[k], keys)) {
				used[k] = true;
				members[group.count++] = k;
			}
		if (i < count)
			cat_set_rows(b, width, b->tuples.rows + (size_t)i * width);
		b->scope.group = &group;
		if (!s->having_clause || cat_true(cat_eval(b->c, &b->scope, s->having_clause)))
			emit_row(b, r, s, out, n);
		b->scope.group = NULL;
		if (count == 0)
			break;
	}
}

static void emit_tuples(struct block *b, struct result *r, const PgQuery__SelectStmt *s,
			const struct output *out, unsigned n, const PgQuery__FuncCall *window)
{
	unsigned *numbers = window ? number_rows(b, window) : NULL, width = b->scope.count;

	for (unsigned i = 0; i < b->tuples.count; i++) {
		struct cat_group group = {.window = true, .number = numbers ? numbers[i] : 0};

		cat_set_rows(b, width, b->tuples.rows + (size_t)i * width);
		b->scope.group = numbers ? &group : NULL;
		emit_row(b, r, s, out, n);
		b->scope.group = NULL;
	}
}

static long limit_of(struct cat *c, struct cat_scope *scope, const PgQuery__Node *node, long none)
{
	struct cat_value v = node ? cat_eval(c, scope, node) : (struct cat_value){NULL, PG_INT8};

	return v.text ? strtol(v.text, NULL, 10) : none;
}

static struct cat_rel *finish(struct cat *c, struct cat_scope *outer, const PgQuery__SelectStmt *s,
			      struct result *r)
{
	long limit = limit_of(c, outer, s->limit_count, -1),
	     offset = limit_of(c, outer, s->limit_offset, 0);
	struct keyed *sorted = SQL_ARRAY(c->ctx, struct keyed, r->sorted.count + 1);
	struct cat_rel *out = sql_alloc(c->ctx, sizeof(*out));

	*out = (struct cat_rel){.width = r->rel->width, .columns = r->rel->columns};
	for (unsigned i = 0; i < r->sorted.count; i++)
		sorted[i] = *(struct keyed *)r->sorted.items[i];
	if (r->keys > 0)
		qsort(sorted, r->sorted.count, sizeof(*sorted), by_keys);
	for (unsigned i = 0; i < r->sorted.count; i++) {
		const struct cat_value *row = r->rel->cells + (size_t)sorted[i].row * r->rel->width;
		bool again = false;

		for (unsigned k = 0; s->n_distinct_clause > 0 && k < out->count && !again; k++)
			again = same_keys(out->cells + (size_t)k * out->width, row, out->width);
		if (again)
			continue;
		if (offset > 0) {
			offset--;
			continue;
		}
		if (limit >= 0 && out->count >= (unsigned long)limit)
			break;
		memcpy(cat_add(c, out), row, out->width * sizeof(*row));
	}
	return out;
}

static struct result new_result(struct cat *c, const PgQuery__SelectStmt *s)
{
	struct result r = {.keys = (unsigned)s->n_sort_clause};

	r.descending = SQL_ARRAY(c->ctx, bool, r.keys + 1);
	for (unsigned i = 0; i < r.keys; i++)
		r.descending[i] = s->sort_clause[i]->sort_by->sortby_dir ==
				  PG_QUERY__SORT_BY_DIR__SORTBY_DESC;
	return r;
}

static struct cat_rel *select_values(struct cat *c, struct cat_scope *outer,
				     const PgQuery__SelectStmt *s)
{
	unsigned width = (unsigned)s->values_lists[0]->list->n_items;
	struct cat_rel *rel = cat_new(c, width, NULL);

	for (unsigned i = 0; i < width; i++) {
		rel->columns[i].name = sql_format(c->ctx, "column%u", i + 1);
		rel->columns[i].oid = cat_type_of(c, outer, s->values_lists[0]->list->items[i]);
	}
	for (size_t i = 0; i < s->n_values_lists; i++) {
		struct cat_value *row = cat_add(c, rel);

		for (unsigned k = 0; k < width && k < s->values_lists[i]->list->n_items; k++)
			row[k] = cat_eval(c, outer, s->values_lists[i]->list->items[k]);
	}
	return rel;
}

/* UNION, with ORDER BY of positions and names. */
static struct cat_rel *select_set(struct cat *c, struct cat_scope *outer,
				  const PgQuery__SelectStmt *s)
{
	struct cat_rel *a = cat_select(c, outer, s->larg), *b = cat_select(c, outer, s->rarg);
	struct result r = new_result(c, s);
	struct block block = {.c = c};
	struct output out[64];
	PgQuery__Node none = PG_QUERY__NODE__INIT, *distinct = &none;
	PgQuery__SelectStmt copy = *s;

	if (s->op != PG_QUERY__SET_OPERATION__SETOP_UNION || a->width != b->width || a->width > 64)
		sql_unsupported(c->ctx, -1, "this set operation in a query of catalogs");
	r.rel = cat_new(c, a->width, NULL);
	memcpy(r.rel->columns, a->columns, a->width * sizeof(*a->columns));
	block.scope = (struct cat_scope){outer, 1, block.items, NULL};
	for (unsigned i = 0; i < a->width; i++)
		out[i] = (struct output){a->columns[i].name, NULL, 0, i};
	for (int side = 0; side < 2; side++) {
		block.items[0] = (struct cat_item){"", side == 0 ? a : b, 0};
		for (unsigned i = 0; i < block.items[0].rel->count; i++) {
			block.items[0].row = (int)i;
			emit_row(&block, &r, s, out, a->width);
		}
	}
	copy.n_distinct_clause = s->all ? 0 : 1;
	copy.distinct_clause = &distinct;
	return finish(c, outer, &copy, &r);
}

static void take_withs(struct cat *c, struct cat_scope *outer, const PgQuery__WithClause *with)
{
	for (size_t i = 0; with && i < with->n_ctes; i++) {
		const PgQuery__CommonTableExpr *x = with->ctes[i]->common_table_expr;
		struct cat_with *w = sql_alloc(c->ctx, sizeof(*w));
		PgQuery__Alias alias = PG_QUERY__ALIAS__INIT;

		if (with->recursive || x->ctequery->node_case != PG_QUERY__NODE__NODE_SELECT_STMT)
			sql_unsupported(c->ctx, x->location, "this WITH in a query of catalogs");
		alias.n_colnames = x->n_aliascolnames;
		alias.colnames = x->aliascolnames;
		w->name = x->ctename;
		w->rel = cat_renamed(c, cat_select(c, outer, x->ctequery->select_stmt), &alias);
		w->next = c->withs;
		c->withs = w;
	}
}

struct cat_rel *cat_select(struct cat *c, struct cat_scope *outer, const PgQuery__SelectStmt *s)
{
	struct cat_with *before = c->withs;
	const PgQuery__FuncCall *window = NULL;
	bool grouped = s->n_group_clause > 0 || s->having_clause;
	struct output *out;
	struct result r;
	struct block *b;
	unsigned n;

	sql_enter(c->ctx, -1);
	take_withs(c, outer, s->with_clause);
	if (s->n_values_lists > 0 || s->op != PG_QUERY__SET_OPERATION__SETOP_NONE) {
		struct cat_rel *rel = s->n_values_lists > 0 ? select_values(c, outer, s)
							    : select_set(c, outer, s);

		c->withs = before;
		sql_leave(c->ctx);
		return rel;
	}
	b = sql_alloc(c->ctx, sizeof(*b));
	b->c = c;
	b->scope = (struct cat_scope){outer, 0, b->items, NULL};
	cat_from(b, s);
	out = SQL_ARRAY(c->ctx, struct output, SQL_LIST_MAX + s->n_target_list);
	n = expand_list(b, s, out);
	r = new_result(c, s);
	r.rel = cat_new(c, n, NULL);
	for (unsigned i = 0; i < n; i++) {
		r.rel->columns[i].name = out[i].name;
		r.rel->columns[i].oid =
			out[i].node ? cat_type_of(c, &b->scope, out[i].node)
				    : b->items[out[i].item].rel->columns[out[i].column].oid;
		if (out[i].node) {
			grouped |= find_call(&out[i].node->base, false) != NULL;
			window = window ? window : find_call(&out[i].node->base, true);
		}
	}
	if (grouped)
		emit_groups(b, &r, s, out, n);
	else
		emit_tuples(b, &r, s, out, n, window);
	c->withs = before;
	sql_leave(c->ctx);
	return finish(c, outer, s, &r);
}
