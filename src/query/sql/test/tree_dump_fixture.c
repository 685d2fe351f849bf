/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree as text: one relation a line, inputs indented below. Columns are name#number. */
#include "query/sql/test/tree_fixture.h"

#include "query/sql/sql_arena.h"
#include "query/sql/value/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct dump {
	const struct sql_query *query;
	struct sql_arena *arena;
	char *text;
	size_t length, room;
	bool failed;
};

static void put_bytes(struct dump *d, const char *bytes, size_t n)
{
	if (d->length + n + 1 > d->room) {
		size_t room = (d->length + n + 1) * 2 + 256;
		char *text = sql_arena_alloc(d->arena, room);

		if (!text) {
			d->failed = true;
			return;
		}
		if (d->length)
			memcpy(text, d->text, d->length);
		d->text = text;
		d->room = room;
	}
	memcpy(d->text + d->length, bytes, n);
	d->length += n;
	d->text[d->length] = '\0';
}

static void put(struct dump *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct dump *d, const char *format, ...)
{
	va_list args;
	char text[256];

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_bytes(d, text, strlen(text));
}

static void put_column(struct dump *d, int column)
{
	const char *name =
		(unsigned)column < d->query->column_count ? d->query->columns[column].name : "?";

	put(d, "%.100s#%d", name, column);
}

static void put_columns(struct dump *d, unsigned count, const int *columns)
{
	for (unsigned i = 0; i < count; i++) {
		put(d, i ? ", " : "");
		put_column(d, columns[i]);
	}
}

static void put_constant(struct dump *d, const struct sql_expr *e)
{
	char text[SQL_VALUE_TEXT];

	if (e->value.null) {
		put(d, "null");
	} else if (sql_is_string(e->type.kind) || e->type.kind == SQL_UNKNOWN) {
		put(d, "'");
		put_bytes(d, e->value.text, e->value.length);
		put(d, "'");
	} else if (e->type.kind == SQL_BOOL) {
		put(d, e->value.integer ? "true" : "false");
	} else {
		sql_value_print(e->type, &e->value, text);
		put(d, "%s", text);
	}
}

static void put_expr(struct dump *d, const struct sql_expr *e);

static void put_list(struct dump *d, const struct sql_expr *e, unsigned from, const char *between)
{
	for (unsigned i = from; i < e->count; i++) {
		put(d, "%s", i > from ? between : "");
		put_expr(d, e->args[i]);
	}
}

static void put_call(struct dump *d, const struct sql_expr *e)
{
	const char *name = sql_op_name(e->op);
	char infix[32];

	if (e->op == SQL_IS_NULL || e->op == SQL_IS_NOT_NULL) {
		put_expr(d, e->args[0]);
		put(d, " %s", name);
	} else if (e->op == SQL_IN) {
		put_expr(d, e->args[0]);
		put(d, " in (");
		put_list(d, e, 1, ", ");
		put(d, ")");
	} else if (e->op == SQL_LIKE) {
		put_expr(d, e->args[0]);
		put(d, " like ");
		put_expr(d, e->args[1]);
	} else if (e->op == SQL_AND || e->op == SQL_OR || e->op == SQL_CONCAT ||
		   (e->op >= SQL_EQ && e->op <= SQL_IS_NOT_DISTINCT) ||
		   (e->op >= SQL_ADD && e->op <= SQL_MOD)) {
		snprintf(infix, sizeof(infix), " %s ", name);
		put(d, "(");
		put_list(d, e, 0, infix);
		put(d, ")");
	} else {
		put(d, "%s(", name);
		put_list(d, e, 0, ", ");
		put(d, ")");
	}
}

static void put_case(struct dump *d, const struct sql_expr *e)
{
	put(d, "case");
	for (unsigned i = 0; i + 1 < e->count; i += 2) {
		put(d, " when ");
		put_expr(d, e->args[i]);
		put(d, " then ");
		put_expr(d, e->args[i + 1]);
	}
	put(d, " else ");
	put_expr(d, e->args[e->count - 1]);
	put(d, " end");
}

static void put_expr(struct dump *d, const struct sql_expr *e)
{
	char type[40];

	switch (e->kind) {
	case SQL_COLUMN:
		put_column(d, e->column);
		break;
	case SQL_CONST:
		put_constant(d, e);
		break;
	case SQL_CALL:
		put_call(d, e);
		break;
	case SQL_CASE:
		put_case(d, e);
		break;
	case SQL_CAST:
		put(d, "cast(");
		put_expr(d, e->args[0]);
		put(d, " as %s)", sql_type_name(e->type, type));
		break;
	case SQL_SUBQUERY:
		put(d, "(subquery)");
		break;
	}
}

static void put_join(struct dump *d, const struct sql_rel *rel)
{
	static const char *const kinds[] = {[SQL_INNER] = "inner",
					    [SQL_LEFT_OUTER] = "left",
					    [SQL_SEMI] = "semi",
					    [SQL_ANTI] = "anti",
					    [SQL_SINGLE] = "single"};

	put(d, "%s join", kinds[rel->join.kind]);
	if (rel->join.condition) {
		put(d, " on ");
		put_expr(d, rel->join.condition);
	}
	if (rel->join.null_condition) {
		put(d, " true or null ");
		put_expr(d, rel->join.null_condition);
	}
}

static void put_aggregate(struct dump *d, const struct sql_rel *rel)
{
	static const char *const ops[] = {"count(*)", "count", "sum", "avg", "min", "max"};
	unsigned determinants = rel->agg.determinant_count;

	put(d, rel->agg.agg_count || !rel->agg.key_count ? "aggregate" : "distinct");
	if (rel->agg.key_count) {
		put(d, " by ");
		put_columns(d, determinants, rel->columns);
	}
	if (rel->agg.key_count > determinants) {
		put(d, " carrying ");
		put_columns(d, rel->agg.key_count - determinants, rel->columns + determinants);
	}
	put(d, rel->agg.agg_count ? ": " : "");
	for (unsigned i = 0; i < rel->agg.agg_count; i++) {
		const struct sql_agg *agg = &rel->agg.aggs[i];

		put(d, "%s", i ? ", " : "");
		put_column(d, agg->column);
		put(d, " = %s", ops[agg->op]);
		if (agg->arg) {
			put(d, agg->distinct ? "(distinct " : "(");
			put_expr(d, agg->arg);
			put(d, ")");
		}
	}
}

static void put_project(struct dump *d, const struct sql_rel *rel)
{
	put(d, "project ");
	for (unsigned i = 0; i < rel->width; i++) {
		const struct sql_expr *e = rel->exprs[i];

		put(d, "%s", i ? ", " : "");
		put_column(d, rel->columns[i]);
		if (e->kind == SQL_COLUMN && e->column == rel->columns[i])
			continue;
		put(d, " = ");
		put_expr(d, e);
	}
}

static void put_sort(struct dump *d, const struct sql_rel *rel)
{
	put(d, "sort by ");
	for (unsigned i = 0; i < rel->sort.key_count; i++) {
		const struct sql_sort_key *key = &rel->sort.keys[i];

		put(d, "%s", i ? ", " : "");
		put_column(d, key->column);
		put(d, key->descending ? " desc" : "");
		if (key->nulls_first != key->descending)
			put(d, key->nulls_first ? " nulls first" : " nulls last");
	}
}

static void put_values(struct dump *d, const struct sql_rel *rel)
{
	put(d, "values %u row%s: ", rel->values.row_count, rel->values.row_count == 1 ? "" : "s");
	put_columns(d, rel->width, rel->columns);
	for (unsigned i = 0; i < rel->values.row_count && i < 3 && rel->width; i++) {
		put(d, " (");
		for (unsigned j = 0; j < rel->width; j++) {
			put(d, "%s", j ? ", " : "");
			put_expr(d, rel->values.cells[i * rel->width + j]);
		}
		put(d, ")");
	}
	if (rel->values.row_count > 3 && rel->width)
		put(d, " ...");
}

static void put_rel(struct dump *d, const struct sql_rel *rel)
{
	switch (rel->kind) {
	case SQL_SCAN:
		put(d, "scan %.100s: ", rel->scan.table->name);
		put_columns(d, rel->width, rel->columns);
		break;
	case SQL_FILTER:
		put(d, "filter ");
		put_expr(d, rel->predicate);
		break;
	case SQL_PROJECT:
		put_project(d, rel);
		break;
	case SQL_JOIN:
		put_join(d, rel);
		break;
	case SQL_AGGREGATE:
		put_aggregate(d, rel);
		break;
	case SQL_SORT:
		put_sort(d, rel);
		break;
	case SQL_LIMIT:
		if (rel->limit.count >= 0)
			put(d, "limit %lld", (long long)rel->limit.count);
		if (rel->limit.offset)
			put(d, "%soffset %lld", rel->limit.count >= 0 ? " " : "",
			    (long long)rel->limit.offset);
		break;
	case SQL_UNION:
		put(d, "union all: ");
		put_columns(d, rel->width, rel->columns);
		break;
	case SQL_VALUES:
		put_values(d, rel);
		break;
	}
}

static void put_tree(struct dump *d, const struct sql_rel *rel, unsigned indent)
{
	for (unsigned i = 0; i < indent; i++)
		put(d, "  ");
	put_rel(d, rel);
	put(d, "\n");
	if (rel->left)
		put_tree(d, rel->left, indent + 1);
	if (rel->right)
		put_tree(d, rel->right, indent + 1);
}

const char *sql_tree_dump(const struct sql_query *query, struct sql_arena *arena)
{
	struct dump d = {.query = query, .arena = arena};

	put(&d, "result ");
	for (unsigned i = 0; i < query->output_count; i++) {
		char type[40];

		put(&d, "%s%.100s: ", i ? ", " : "", query->output_names[i]);
		put_column(&d, query->outputs[i]);
		put(&d, " %s", sql_type_name(query->columns[query->outputs[i]].type, type));
	}
	put(&d, "\n");
	put_tree(&d, query->root, 1);
	return d.failed ? NULL : d.text;
}
