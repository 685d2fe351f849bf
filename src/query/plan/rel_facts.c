/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts of relations: which columns are unique, how many rows there may be. */
#include "query/plan/plan_internal.h"

#include <math.h>

#define CONJUNCTS_MAX 256u

bool rel_has(const struct sql_rel *rel, int column)
{
	for (unsigned i = 0; i < rel->width; i++)
		if (rel->columns[i] == column)
			return true;
	return false;
}

bool expr_within(const struct sql_expr *e, const struct sql_rel *rel)
{
	if (e->kind == SQL_COLUMN)
		return rel_has(rel, e->column);
	for (unsigned i = 0; i < e->count; i++)
		if (!expr_within(e->args[i], rel))
			return false;
	return true;
}

unsigned expr_conjuncts(struct planner *p, const struct sql_expr *expr,
			const struct sql_expr ***out)
{
	if (!expr) {
		*out = NULL;
		return 0;
	}
	if (expr->kind == SQL_CALL && expr->op == SQL_AND) {
		*out = (const struct sql_expr **)expr->args;
		return expr->count;
	}
	*out = plan_alloc(p, sizeof(**out));
	if (!*out)
		return 0;
	(*out)[0] = expr;
	return 1;
}

/* ---- equalities of a join ---- */

static struct sql_expr *call_of(struct planner *p, enum sql_op op, struct sql_type type,
				const struct sql_expr *a, const struct sql_expr *b)
{
	struct sql_expr *e = plan_alloc(p, sizeof(*e));
	struct sql_expr **args = plan_alloc(p, 2 * sizeof(*args));

	if (!e || !args)
		return NULL;
	args[0] = (struct sql_expr *)a;
	args[1] = (struct sql_expr *)b;
	*e = (struct sql_expr){.kind = SQL_CALL,
			       .type = type,
			       .at = -1,
			       .op = op,
			       .count = b ? 2 : 1,
			       .args = args};
	return e;
}

/* The value, or 0 or the empty string where it is null. */
static struct sql_expr *without_null(struct planner *p, const struct sql_expr *e)
{
	struct sql_expr *zero = plan_alloc(p, sizeof(*zero));

	if (!zero)
		return NULL;
	*zero = (struct sql_expr){.kind = SQL_CONST, .type = e->type, .at = -1};
	if (sql_is_string(e->type.kind))
		zero->value.text = "";
	return call_of(p, SQL_COALESCE, e->type, e, zero);
}

/*
 * l IS NOT DISTINCT FROM r as equalities, which can be keys. If one side is never null it is l = r.
 * Otherwise both have to be null or not, and to be equal with nulls replaced. Returns how many
 * there are.
 */
static unsigned equalities_of(struct planner *p, const struct sql_expr *e,
			      const struct sql_expr **out)
{
	const struct sql_type boolean = {.kind = SQL_BOOL};
	const struct sql_expr *l = e->args[0], *r = e->args[1];

	if (!l->nullable || !r->nullable) {
		struct sql_expr *equal = call_of(p, SQL_EQ, boolean, l, r);

		if (equal)
			equal->nullable = l->nullable || r->nullable;
		out[0] = equal;
		return 1;
	}
	out[0] = call_of(p, SQL_EQ, boolean, without_null(p, l), without_null(p, r));
	out[1] = call_of(p, SQL_EQ, boolean, call_of(p, SQL_IS_NULL, boolean, l, NULL),
			 call_of(p, SQL_IS_NULL, boolean, r, NULL));
	return 2;
}

unsigned join_conjuncts(struct planner *p, const struct sql_expr *expr,
			const struct sql_expr ***out)
{
	const struct sql_expr **parts;
	unsigned n = expr_conjuncts(p, expr, &parts), count = 0;

	*out = plan_alloc(p, (2 * n + 1) * sizeof(**out));
	for (unsigned i = 0; i < n && *out; i++) {
		if (parts[i]->kind == SQL_CALL && parts[i]->op == SQL_IS_NOT_DISTINCT)
			count += equalities_of(p, parts[i], *out + count);
		else
			(*out)[count++] = parts[i];
	}
	return p->error != 0 ? 0 : count;
}

static struct fth_table *table_of(struct planner *p, int column)
{
	const struct sql_column *c = &p->query->columns[column];

	return c->table ? p->options->open(p->options->self, c->table) : NULL;
}

const struct fth_table_facts *column_facts(struct planner *p, int column)
{
	struct fth_table *table = table_of(p, column);

	return table ? fth_table_facts(table, p->query->columns[column].ordinal) : NULL;
}

/* ---- uniqueness ---- */

static bool contains(const int *columns, unsigned count, int column)
{
	for (unsigned i = 0; i < count; i++)
		if (columns[i] == column)
			return true;
	return false;
}

static int column_at(const struct sql_rel *scan, unsigned ordinal)
{
	for (unsigned i = 0; i < scan->width; i++)
		if (scan->scan.ordinals[i] == ordinal)
			return scan->columns[i];
	return -1;
}

static bool scan_unique(const struct sql_rel *rel, const int *columns, unsigned count)
{
	const struct sql_table *t = rel->scan.table;

	for (unsigned k = 0; k < t->key_count; k++) {
		unsigned found = 0;

		while (found < t->keys[k].count &&
		       contains(columns, count, column_at(rel, t->keys[k].ordinals[found])))
			found++;
		if (found == t->keys[k].count)
			return true;
	}
	return false;
}

/* Of an equality between plain columns of both sides, the one of the right side; or -1. */
static int right_key(const struct sql_expr *e, const struct sql_rel *right)
{
	if (e->kind != SQL_CALL || e->op != SQL_EQ)
		return -1;
	for (unsigned i = 0; i < 2; i++)
		if (e->args[i]->kind == SQL_COLUMN && rel_has(right, e->args[i]->column) &&
		    !rel_has(right,
			     e->args[1 - i]->kind == SQL_COLUMN ? e->args[1 - i]->column : -1))
			return e->args[i]->column;
	return -1;
}

/* Each row of the left side has at most one match. */
static bool matches_once(const struct sql_rel *join)
{
	const struct sql_expr *c = join->join.condition;
	int keys[CONJUNCTS_MAX] = {0};
	unsigned n = 0;

	if (!c)
		return rel_unique(join->right, keys, 0);
	if (c->kind != SQL_CALL || c->op != SQL_AND) {
		keys[n] = right_key(c, join->right);
		n += keys[n] >= 0;
	} else {
		for (unsigned i = 0; i < c->count && n < CONJUNCTS_MAX; i++) {
			keys[n] = right_key(c->args[i], join->right);
			n += keys[n] >= 0;
		}
	}
	return rel_unique(join->right, keys, n);
}

static bool join_unique(const struct sql_rel *rel, const int *columns, unsigned count)
{
	enum sql_join_kind kind = rel->join.kind;

	if (kind == SQL_SEMI || kind == SQL_ANTI || kind == SQL_SINGLE)
		return rel_unique(rel->left, columns, count);
	return rel_unique(rel->left, columns, count) && matches_once(rel);
}

bool rel_unique(const struct sql_rel *rel, const int *columns, unsigned count)
{
	switch (rel->kind) {
	case SQL_SCAN:
		return scan_unique(rel, columns, count);
	case SQL_FILTER:
	case SQL_SORT:
	case SQL_PROJECT:
		return rel_unique(rel->left, columns, count);
	case SQL_LIMIT:
		return rel->limit.count == 1 || rel_unique(rel->left, columns, count);
	case SQL_JOIN:
		return join_unique(rel, columns, count);
	case SQL_AGGREGATE:
		for (unsigned i = 0; i < rel->agg.determinant_count; i++)
			if (!contains(columns, count, rel->columns[i]))
				return false;
		return true;
	case SQL_VALUES:
		return rel->values.row_count <= 1;
	default:
		return false;
	}
}

/* ---- rows ---- */

static double distinct_of(struct planner *p, const struct sql_expr *e, double otherwise)
{
	const struct fth_table_facts *f = e->kind == SQL_COLUMN ? column_facts(p, e->column) : NULL;

	return f && f->distinct > 0 ? (double)f->distinct : otherwise;
}

/* The part of [min, max] below a constant. */
static double part_below(struct planner *p, const struct sql_expr *column,
			 const struct sql_expr *constant)
{
	const struct fth_table_facts *f =
		column->kind == SQL_COLUMN ? column_facts(p, column->column) : NULL;
	double part;

	if (!f || constant->kind != SQL_CONST || constant->value.null ||
	    sql_is_string(constant->type.kind) || constant->type.kind == SQL_DOUBLE ||
	    f->max <= f->min)
		return 1.0 / 3;
	part = (double)constant->value.integer * pow(10, column->type.scale - constant->type.scale);
	part = (part - (double)f->min) / ((double)f->max - (double)f->min);
	return part < 0 ? 0 : part > 1 ? 1 : part;
}

static double compare_selectivity(struct planner *p, const struct sql_expr *e)
{
	switch (e->op) {
	case SQL_EQ:
		return 1 / distinct_of(p, e->args[0], distinct_of(p, e->args[1], 10));
	case SQL_NE:
		return 1 - 1 / distinct_of(p, e->args[0], 10);
	case SQL_LT:
	case SQL_LE:
		return part_below(p, e->args[0], e->args[1]);
	default:
		return 1 - part_below(p, e->args[0], e->args[1]);
	}
}

double expr_selectivity(struct planner *p, const struct sql_expr *e)
{
	double s;

	if (e->kind != SQL_CALL)
		return 0.5;
	switch (e->op) {
	case SQL_AND:
		s = 1;
		for (unsigned i = 0; i < e->count; i++)
			s *= expr_selectivity(p, e->args[i]);
		return s;
	case SQL_OR:
		s = 1;
		for (unsigned i = 0; i < e->count; i++)
			s *= 1 - expr_selectivity(p, e->args[i]);
		return 1 - s;
	case SQL_NOT:
		return 1 - expr_selectivity(p, e->args[0]);
	case SQL_EQ:
	case SQL_NE:
	case SQL_LT:
	case SQL_LE:
	case SQL_GT:
	case SQL_GE:
		return compare_selectivity(p, e);
	case SQL_IN:
		s = (double)(e->count - 1) / distinct_of(p, e->args[0], 10);
		return s > 1 ? 1 : s;
	case SQL_LIKE:
		return 0.1;
	case SQL_IS_NULL:
		return 0.05;
	default:
		return 0.5;
	}
}

/* The equalities of a join's condition with a plain column of the right side; returns how many. */
static unsigned equal_columns(const struct sql_rel *join, const struct sql_expr **left,
			      const struct sql_expr **right, unsigned room)
{
	const struct sql_expr *c = join->join.condition;
	unsigned n = !c ? 0 : c->kind == SQL_CALL && c->op == SQL_AND ? c->count : 1;
	unsigned found = 0;

	for (unsigned i = 0; i < n && found < room; i++) {
		const struct sql_expr *e = c->kind == SQL_CALL && c->op == SQL_AND ? c->args[i] : c;
		int key = right_key(e, join->right);

		if (key < 0)
			continue;
		right[found] =
			e->args[e->args[0]->kind == SQL_COLUMN && e->args[0]->column == key ? 0
											    : 1];
		left[found] = e->args[right[found] == e->args[0] ? 1 : 0];
		found++;
	}
	return found;
}

#define KEYS_MAX 8u

double semi_part(struct planner *p, const struct sql_rel *semi)
{
	const struct sql_expr *left[KEYS_MAX], *right[KEYS_MAX];
	unsigned n = equal_columns(semi, left, right, KEYS_MAX);
	double domain = 1, part;

	for (unsigned i = 0; i < n; i++)
		domain *= distinct_of(p, right[i], 0);
	if (n == 0 || domain <= 0)
		return 0.5;
	part = rel_rows(p, semi->right) / domain;
	part = part > 0.9 ? 0.9 : part;
	return semi->join.kind == SQL_SEMI ? part : 1 - part;
}

bool semi_sorted(struct planner *p, const struct sql_rel *semi)
{
	const struct sql_expr *left[KEYS_MAX], *right[KEYS_MAX];
	unsigned n = equal_columns(semi, left, right, KEYS_MAX);
	struct join_key keys[KEYS_MAX];

	for (unsigned i = 0; i < n; i++)
		keys[i] = (struct join_key){left[i], right[i]};
	return keys_sorted(p, keys, n);
}

static bool is_semi_join(const struct sql_rel *rel)
{
	return rel->kind == SQL_JOIN && (rel->join.kind == SQL_SEMI || rel->join.kind == SQL_ANTI);
}

double base_rows(struct planner *p, const struct sql_rel *rel)
{
	if (rel->kind == SQL_FILTER || rel->kind == SQL_PROJECT || is_semi_join(rel))
		return base_rows(p, rel->left);
	return rel_rows(p, rel);
}

double input_rows(struct planner *p, const struct sql_rel *rel)
{
	if (rel->kind == SQL_FILTER || rel->kind == SQL_PROJECT || rel->kind == SQL_AGGREGATE)
		return input_rows(p, rel->left);
	return rel_rows(p, rel);
}

static double join_rows(struct planner *p, const struct sql_rel *rel)
{
	double left = rel_rows(p, rel->left), right = rel_rows(p, rel->right);

	if (rel->join.kind == SQL_SEMI || rel->join.kind == SQL_ANTI)
		return left * semi_part(p, rel);
	if (rel->join.kind == SQL_SINGLE || matches_once(rel))
		return left;
	if (!rel->join.condition)
		return left * right;
	return left > right ? left : right;
}

double rel_rows(struct planner *p, const struct sql_rel *rel)
{
	double rows;

	switch (rel->kind) {
	case SQL_SCAN:
		return rel->scan.table->rows < 0 ? 1000 : (double)rel->scan.table->rows;
	case SQL_FILTER:
		return rel_rows(p, rel->left) * expr_selectivity(p, rel->predicate);
	case SQL_JOIN:
		return join_rows(p, rel);
	case SQL_AGGREGATE:
		return rel->agg.key_count == 0 ? 1 : rel_rows(p, rel->left) / 3;
	case SQL_LIMIT:
		rows = rel_rows(p, rel->left);
		return rel->limit.count >= 0 && (double)rel->limit.count < rows
			       ? (double)rel->limit.count
			       : rows;
	case SQL_UNION:
		return rel_rows(p, rel->left) + rel_rows(p, rel->right);
	case SQL_VALUES:
		return rel->values.row_count;
	default:
		return rel_rows(p, rel->left);
	}
}
