/* SPDX-License-Identifier: BSD-2-Clause */
/* Relations of the reference interpreter; tables and statements are in reference_db_fixture.c. */
#include "query/sql/test/reference_fixture.h"

#include "query/sql/value/eval.h"
#include "query/sql/value/value.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct ref_exec {
	struct ref_db *db;
	const struct sql_query *query;
	struct sql_arena *arena;
};

/* Where the columns of rows are, by number; b's follow a's. */
static int *slots_of(struct ref_exec *x, const struct ref_rows *a, const struct ref_rows *b)
{
	int *slots = sql_arena_alloc(x->arena, (x->query->column_count + 1) * sizeof(int));

	if (!slots)
		return NULL;
	for (unsigned i = 0; i < x->query->column_count; i++)
		slots[i] = -1;
	for (unsigned i = 0; i < a->width; i++)
		slots[a->columns[i]] = (int)i;
	for (unsigned i = 0; b && i < b->width; i++)
		slots[b->columns[i]] = (int)(a->width + i);
	return slots;
}

static struct sql_value *row_at(const struct ref_rows *rows, size_t i)
{
	return rows->cells + i * rows->width;
}

/* A new row at the end, not filled in. */
static struct sql_value *add_row(struct ref_exec *x, struct ref_rows *rows)
{
	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 64;
		struct sql_value *cells = sql_arena_alloc(
			x->arena, room * (rows->width ? rows->width : 1) * sizeof(*cells));

		if (!cells)
			return NULL;
		if (rows->count)
			memcpy(cells, rows->cells, rows->count * rows->width * sizeof(*cells));
		rows->cells = cells;
		rows->room = room;
	}
	return row_at(rows, rows->count++);
}

static int eval_failed(const struct sql_env *env, int rc)
{
	return env->error ? fth_fail(-rc, "%s", env->error) : rc;
}

static int eval_truth(struct sql_env *env, const struct sql_expr *e, bool null_counts, bool *truth)
{
	struct sql_value value;
	int rc;

	*truth = true;
	if (!e)
		return 0;
	rc = sql_eval(env, e, &value);
	if (rc < 0)
		return eval_failed(env, rc);
	*truth = value.null ? null_counts : value.integer != 0;
	return 0;
}

static int run_rel(struct ref_exec *x, const struct sql_rel *rel, struct ref_rows *out);

static int run_scan(struct ref_exec *x, const struct sql_rel *rel, struct ref_rows *out)
{
	const struct ref_rows *from = &ref_find(x->db, rel->scan.table->name)->rows;

	for (size_t i = 0; i < from->count; i++) {
		struct sql_value *row = add_row(x, out);

		if (!row)
			return -ENOMEM;
		for (unsigned j = 0; j < rel->width; j++)
			row[j] = row_at(from, i)[rel->scan.ordinals[j]];
	}
	return 0;
}

/* Appends a copy of the columns that out has. */
static int pass_row(struct ref_exec *x, const struct ref_rows *in, size_t i, const int *slots,
		    struct ref_rows *out)
{
	struct sql_value *row = add_row(x, out);

	if (!row)
		return -ENOMEM;
	for (unsigned j = 0; j < out->width; j++)
		row[j] = row_at(in, i)[slots[out->columns[j]]];
	return 0;
}

static int run_filter(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *in,
		      struct ref_rows *out)
{
	struct sql_env env = {.arena = x->arena, .slots = slots_of(x, in, NULL)};
	bool truth;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < in->count; i++) {
		env.row = row_at(in, i);
		rc = eval_truth(&env, rel->predicate, false, &truth);
		if (rc == 0 && truth)
			rc = pass_row(x, in, i, env.slots, out);
	}
	return rc;
}

static int run_project(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *in,
		       struct ref_rows *out)
{
	struct sql_env env = {.arena = x->arena, .slots = slots_of(x, in, NULL)};

	for (size_t i = 0; i < in->count; i++) {
		struct sql_value *row = add_row(x, out);

		if (!row)
			return -ENOMEM;
		env.row = row_at(in, i);
		for (unsigned j = 0; j < rel->width; j++) {
			int rc = sql_eval(&env, rel->exprs[j], &row[j]);

			if (rc < 0)
				return eval_failed(&env, rc);
		}
	}
	return 0;
}

/* A hash that equal values share, whatever their scale. */
static uint64_t hash_value(struct sql_type type, const struct sql_value *value, uint64_t seed)
{
	fth_i128 integer = value->integer;
	int scale = type.kind == SQL_DECIMAL ? type.scale : 0;
	double zero = 0;

	if (value->null)
		return fth_checksum("", 0, seed + 1);
	if (sql_is_string(type.kind))
		return fth_checksum(value->text, value->length, seed);
	if (type.kind == SQL_DOUBLE)
		return fth_checksum(value->real == 0 ? &zero : &value->real, sizeof(double), seed);
	while (scale && integer % 10 == 0) {
		integer /= 10;
		scale--;
	}
	return fth_checksum(&integer, sizeof(integer), seed);
}

/* Equalities of a join: rows that match have the same hash of the two sides. */
struct join_keys {
	unsigned count;
	const struct sql_expr **left, **right;
};

static bool only_columns(const struct sql_expr *e, const int *slots, unsigned low, unsigned high)
{
	if (e->kind == SQL_COLUMN)
		return (unsigned)slots[e->column] >= low && (unsigned)slots[e->column] < high;
	for (unsigned i = 0; i < e->count; i++) {
		if (!only_columns(e->args[i], slots, low, high))
			return false;
	}
	return true;
}

static bool has_column(const struct sql_expr *e)
{
	if (e->kind == SQL_COLUMN)
		return true;
	for (unsigned i = 0; i < e->count; i++) {
		if (has_column(e->args[i]))
			return true;
	}
	return false;
}

static void find_keys(const struct sql_expr *e, const int *slots, unsigned middle, unsigned end,
		      struct join_keys *keys)
{
	if (e->kind == SQL_CALL && e->op == SQL_AND) {
		for (unsigned i = 0; i < e->count; i++)
			find_keys(e->args[i], slots, middle, end, keys);
		return;
	}
	if (e->kind != SQL_CALL || (e->op != SQL_EQ && e->op != SQL_IS_NOT_DISTINCT) ||
	    !has_column(e->args[0]) || !has_column(e->args[1]) || keys->count == 16)
		return;
	for (int side = 0; side < 2; side++) {
		if (only_columns(e->args[side], slots, 0, middle) &&
		    only_columns(e->args[1 - side], slots, middle, end)) {
			keys->left[keys->count] = e->args[side];
			keys->right[keys->count++] = e->args[1 - side];
			return;
		}
	}
}

static int hash_keys(struct sql_env *env, unsigned count, const struct sql_expr **keys,
		     uint64_t *hash)
{
	*hash = 7;
	for (unsigned i = 0; i < count; i++) {
		struct sql_value value;
		int rc = sql_eval(env, keys[i], &value);

		if (rc < 0)
			return eval_failed(env, rc);
		*hash = hash_value(keys[i]->type, &value, *hash);
	}
	return 0;
}

struct join_run {
	struct ref_exec *x;
	const struct sql_rel *rel;
	const struct ref_rows *left, *right;
	struct ref_rows *out;
	struct sql_env env;
	struct sql_value *both; /* one row of each side */
	struct join_keys keys;
	size_t *first, *next; /* chains of right rows by hash; +1, 0 ends */
	uint64_t *hashes;
	size_t buckets;
};

static int build_chains(struct join_run *j)
{
	j->buckets = 1;
	while (j->buckets < j->right->count * 2)
		j->buckets *= 2;
	j->first = sql_arena_alloc(j->x->arena, j->buckets * sizeof(size_t));
	j->next = sql_arena_alloc(j->x->arena, (j->right->count + 1) * sizeof(size_t));
	j->hashes = sql_arena_alloc(j->x->arena, (j->right->count + 1) * sizeof(uint64_t));
	if (!j->first || !j->next || !j->hashes)
		return -ENOMEM;
	for (size_t i = j->right->count; i-- > 0;) {
		int rc;

		memcpy(j->both + j->left->width, row_at(j->right, i),
		       j->right->width * sizeof(*j->both));
		rc = hash_keys(&j->env, j->keys.count, j->keys.right, &j->hashes[i]);
		if (rc < 0)
			return rc;
		j->next[i] = j->first[j->hashes[i] & (j->buckets - 1)];
		j->first[j->hashes[i] & (j->buckets - 1)] = i + 1;
	}
	return 0;
}

static int emit_joined(struct join_run *j)
{
	struct sql_value *row = add_row(j->x, j->out);

	if (!row)
		return -ENOMEM;
	for (unsigned i = 0; i < j->out->width; i++)
		row[i] = j->both[j->env.slots[j->out->columns[i]]];
	return 0;
}

static int join_row(struct join_run *j)
{
	enum sql_join_kind kind = j->rel->join.kind;
	bool found = false, truth;
	uint64_t hash;
	int rc = hash_keys(&j->env, j->keys.count, j->keys.left, &hash);

	if (rc < 0)
		return rc;
	for (size_t i = j->first[hash & (j->buckets - 1)]; i; i = j->next[i - 1]) {
		if (j->hashes[i - 1] != hash)
			continue;
		memcpy(j->both + j->left->width, row_at(j->right, i - 1),
		       j->right->width * sizeof(*j->both));
		rc = eval_truth(&j->env, j->rel->join.condition, false, &truth);
		if (rc == 0 && truth)
			rc = eval_truth(&j->env, j->rel->join.null_condition, true, &truth);
		if (rc < 0)
			return rc;
		if (!truth)
			continue;
		if (found && kind == SQL_SINGLE)
			return fth_fail(
				EINVAL,
				"more than one row returned by a subquery used as an expression");
		found = true;
		if (kind == SQL_SEMI || kind == SQL_ANTI)
			break;
		rc = emit_joined(j);
		if (rc < 0)
			return rc;
	}
	/* A semi join passes rows with a match; anti, left and single joins those without. */
	if (kind == SQL_INNER || (kind == SQL_SEMI) != found)
		return 0;
	for (unsigned i = 0; i < j->right->width; i++)
		j->both[j->left->width + i] = (struct sql_value){.null = true};
	return emit_joined(j);
}

static int run_join(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *left,
		    const struct ref_rows *right, struct ref_rows *out)
{
	const struct sql_expr *sides[2][16];
	struct join_run j = {.x = x, .rel = rel, .left = left, .right = right, .out = out};
	int rc;

	j.env = (struct sql_env){.arena = x->arena, .slots = slots_of(x, left, right)};
	j.both = sql_arena_alloc(x->arena, (left->width + right->width + 1) * sizeof(*j.both));
	if (!j.env.slots || !j.both)
		return -ENOMEM;
	j.env.row = j.both;
	j.keys = (struct join_keys){.left = sides[0], .right = sides[1]};
	if (rel->join.condition)
		find_keys(rel->join.condition, j.env.slots, left->width, left->width + right->width,
			  &j.keys);
	rc = build_chains(&j);
	for (size_t i = 0; rc == 0 && i < left->count; i++) {
		memcpy(j.both, row_at(left, i), left->width * sizeof(*j.both));
		rc = join_row(&j);
	}
	return rc;
}

/* One aggregate of one group. */
struct ref_agg {
	int64_t count;
	fth_i128 sum;
	double real;
	struct sql_value best;
	size_t value_count, value_room;
	struct sql_value *values; /* DISTINCT: all of them until the end */
};

struct group_run {
	struct ref_exec *x;
	const struct sql_rel *rel;
	const int *slots;
	size_t count, room;
	const struct sql_value **keys; /* the first row of each group */
	struct ref_agg *aggs;	       /* agg_count for each group */
	uint64_t *hashes;
	size_t *first, *next, buckets;
};

static int accumulate(struct sql_env *env, const struct sql_agg *agg, struct ref_agg *to,
		      const struct sql_value *value)
{
	struct sql_type type = agg->arg ? agg->arg->type : (struct sql_type){.kind = SQL_INT64};
	int order;

	to->count++;
	switch (agg->op) {
	case SQL_SUM:
	case SQL_AVG:
		if (type.kind == SQL_DOUBLE)
			to->real += value->real;
		else if (__builtin_add_overflow(to->sum, value->integer, &to->sum))
			return fth_fail(ERANGE, "numeric value out of range");
		return 0;
	case SQL_MIN:
	case SQL_MAX:
		order = to->count == 1 ? 0 : sql_value_compare(type, value, type, &to->best);
		if (to->count == 1 || (agg->op == SQL_MIN ? order < 0 : order > 0))
			to->best = *value;
		return 0;
	default:
		(void)env;
		return 0;
	}
}

static int keep_distinct(struct ref_exec *x, struct ref_agg *to, const struct sql_value *value)
{
	if (to->value_count == to->value_room) {
		size_t room = to->value_room ? to->value_room * 2 : 4;
		struct sql_value *values = sql_arena_alloc(x->arena, room * sizeof(*values));

		if (!values)
			return -ENOMEM;
		if (to->value_count)
			memcpy(values, to->values, to->value_count * sizeof(*values));
		to->values = values;
		to->value_room = room;
	}
	to->values[to->value_count++] = *value;
	return 0;
}

static int order_values(const void *a, const void *b, void *type)
{
	return sql_value_compare(*(struct sql_type *)type, a, *(struct sql_type *)type, b);
}

static int finish_agg(struct ref_exec *x, const struct sql_agg *agg, struct ref_agg *from,
		      struct sql_value *value)
{
	struct sql_env env = {.arena = x->arena};
	struct sql_type result = x->query->columns[agg->column].type;
	struct sql_type type = agg->arg ? agg->arg->type : result;
	int rc = 0;

	if (agg->distinct && from->value_count) {
		qsort_r(from->values, from->value_count, sizeof(*from->values), order_values,
			&type);
		for (size_t i = 0; rc == 0 && i < from->value_count; i++) {
			if (i == 0 || order_values(&from->values[i - 1], &from->values[i], &type))
				rc = accumulate(&env, agg, from, &from->values[i]);
		}
	}
	memset(value, 0, sizeof(*value));
	value->null = from->count == 0;
	if (agg->op == SQL_COUNT || agg->op == SQL_COUNT_ROWS) {
		value->null = false;
		value->integer = from->count;
	} else if (agg->op == SQL_MIN || agg->op == SQL_MAX) {
		if (from->count)
			*value = from->best;
	} else if (type.kind == SQL_DOUBLE) {
		value->real = agg->op == SQL_AVG ? from->real / (double)from->count : from->real;
	} else if (agg->op == SQL_SUM) {
		value->integer = from->sum;
		if (result.kind == SQL_INT64 && (from->sum < INT64_MIN || from->sum > INT64_MAX))
			return fth_fail(ERANGE, "bigint out of range");
	} else if (from->count) {
		int scale = type.kind == SQL_DECIMAL ? type.scale : 0;

		rc = sql_eval_divide(&env, from->sum, scale, from->count, 0, result.scale,
				     &value->integer);
		if (rc < 0)
			return eval_failed(&env, rc);
	}
	return rc;
}

static bool same_group(const struct group_run *g, const struct sql_value *a,
		       const struct sql_value *b)
{
	for (unsigned i = 0; i < g->rel->agg.key_count; i++) {
		int column = g->rel->columns[i], slot = g->slots[column];
		struct sql_type type = g->x->query->columns[column].type;

		if (a[slot].null != b[slot].null ||
		    (!a[slot].null && sql_value_compare(type, &a[slot], type, &b[slot])))
			return false;
	}
	return true;
}

static int grow_groups(struct group_run *g)
{
	size_t room = g->room ? g->room * 2 : 64, n = g->rel->agg.agg_count + 1;
	const struct sql_value **keys = sql_arena_alloc(g->x->arena, room * sizeof(*keys));
	struct ref_agg *aggs = sql_arena_alloc(g->x->arena, room * n * sizeof(*aggs));
	uint64_t *hashes = sql_arena_alloc(g->x->arena, room * sizeof(*hashes));
	size_t *next = sql_arena_alloc(g->x->arena, room * sizeof(*next));

	g->buckets = room * 2;
	g->first = sql_arena_alloc(g->x->arena, g->buckets * sizeof(size_t));
	if (!keys || !aggs || !hashes || !next || !g->first)
		return -ENOMEM;
	if (g->count) {
		memcpy(keys, g->keys, g->count * sizeof(*keys));
		memcpy(aggs, g->aggs, g->count * n * sizeof(*aggs));
		memcpy(hashes, g->hashes, g->count * sizeof(*hashes));
	}
	g->keys = keys;
	g->aggs = aggs;
	g->hashes = hashes;
	g->next = next;
	g->room = room;
	for (size_t i = 0; i < g->count; i++) {
		g->next[i] = g->first[hashes[i] & (g->buckets - 1)];
		g->first[hashes[i] & (g->buckets - 1)] = i + 1;
	}
	return 0;
}

/* The group of a row; SIZE_MAX if memory is short. */
static size_t find_group(struct group_run *g, const struct sql_value *row)
{
	uint64_t hash = 3;

	for (unsigned i = 0; i < g->rel->agg.key_count; i++) {
		int column = g->rel->columns[i];

		hash = hash_value(g->x->query->columns[column].type, &row[g->slots[column]], hash);
	}
	if (g->room) {
		for (size_t i = g->first[hash & (g->buckets - 1)]; i; i = g->next[i - 1]) {
			if (g->hashes[i - 1] == hash && same_group(g, g->keys[i - 1], row))
				return i - 1;
		}
	}
	if (g->count == g->room && grow_groups(g) < 0)
		return SIZE_MAX;
	g->keys[g->count] = row;
	g->hashes[g->count] = hash;
	g->next[g->count] = g->first[hash & (g->buckets - 1)];
	g->first[hash & (g->buckets - 1)] = g->count + 1;
	return g->count++;
}

static int add_to_group(struct group_run *g, struct sql_env *env, size_t group)
{
	for (unsigned i = 0; i < g->rel->agg.agg_count; i++) {
		const struct sql_agg *agg = &g->rel->agg.aggs[i];
		struct ref_agg *to = &g->aggs[group * (g->rel->agg.agg_count + 1) + i];
		struct sql_value value = {0};
		int rc = agg->arg ? sql_eval(env, agg->arg, &value) : 0;

		if (rc < 0)
			return eval_failed(env, rc);
		if (value.null)
			continue;
		rc = agg->distinct ? keep_distinct(g->x, to, &value)
				   : accumulate(env, agg, to, &value);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int run_aggregate(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *in,
			 struct ref_rows *out)
{
	struct group_run g = {.x = x, .rel = rel, .slots = slots_of(x, in, NULL)};
	struct sql_env env = {.arena = x->arena, .slots = g.slots};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < in->count; i++) {
		size_t group = find_group(&g, row_at(in, i));

		if (group == SIZE_MAX)
			return -ENOMEM;
		env.row = row_at(in, i);
		rc = add_to_group(&g, &env, group);
	}
	if (rc == 0 && g.count == 0 && !rel->agg.grouped && rel->agg.key_count == 0) {
		if (grow_groups(&g) < 0)
			return -ENOMEM;
		g.count = 1;
	}
	for (size_t i = 0; rc == 0 && i < g.count; i++) {
		struct sql_value *row = add_row(x, out);

		if (!row)
			return -ENOMEM;
		for (unsigned k = 0; k < rel->agg.key_count; k++)
			row[k] = g.keys[i][g.slots[rel->columns[k]]];
		for (unsigned a = 0; rc == 0 && a < rel->agg.agg_count; a++)
			rc = finish_agg(x, &rel->agg.aggs[a],
					&g.aggs[i * (rel->agg.agg_count + 1) + a],
					&row[rel->agg.key_count + a]);
	}
	return rc;
}

struct sort_run {
	const struct sql_rel *rel;
	const struct sql_column *columns;
	const int *slots;
};

/* Rows by pointer; equal ones stay in order. */
static int order_rows(const void *a, const void *b, void *arg)
{
	const struct sort_run *s = arg;
	const struct sql_value *left = *(const struct sql_value *const *)a;
	const struct sql_value *right = *(const struct sql_value *const *)b;

	for (unsigned i = 0; i < s->rel->sort.key_count; i++) {
		const struct sql_sort_key *key = &s->rel->sort.keys[i];
		const struct sql_value *l = &left[s->slots[key->column]];
		const struct sql_value *r = &right[s->slots[key->column]];
		struct sql_type type = s->columns[key->column].type;
		int order;

		if (l->null || r->null) {
			if (l->null != r->null)
				return l->null == key->nulls_first ? -1 : 1;
			continue;
		}
		order = sql_value_compare(type, l, type, r);
		if (order)
			return (order < 0) != key->descending ? -1 : 1;
	}
	return left < right ? -1 : left > right;
}

static int run_sort(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *in,
		    struct ref_rows *out)
{
	struct sort_run s = {
		.rel = rel, .columns = x->query->columns, .slots = slots_of(x, in, NULL)};
	const struct sql_value **rows = sql_arena_alloc(x->arena, (in->count + 1) * sizeof(*rows));
	int rc = 0;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < in->count; i++)
		rows[i] = row_at(in, i);
	qsort_r(rows, in->count, sizeof(*rows), order_rows, &s);
	for (size_t i = 0; rc == 0 && i < in->count; i++)
		rc = pass_row(x, in, in->width ? (size_t)(rows[i] - in->cells) / in->width : i,
			      s.slots, out);
	return rc;
}

static int run_limit(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *in,
		     struct ref_rows *out)
{
	const int *slots = slots_of(x, in, NULL);
	int rc = 0;

	for (size_t i = (size_t)rel->limit.offset; rc == 0 && i < in->count; i++) {
		if (rel->limit.count >= 0 && out->count == (size_t)rel->limit.count)
			break;
		rc = pass_row(x, in, i, slots, out);
	}
	return rc;
}

static int run_union(struct ref_exec *x, const struct sql_rel *rel, const struct ref_rows *left,
		     const struct ref_rows *right, struct ref_rows *out)
{
	const struct ref_rows *sides[] = {left, right};

	for (int side = 0; side < 2; side++) {
		const int *slots = slots_of(x, sides[side], NULL);
		const int *from = side ? rel->set.right_columns : rel->set.left_columns;

		for (size_t i = 0; i < sides[side]->count; i++) {
			struct sql_value *row = add_row(x, out);

			if (!row)
				return -ENOMEM;
			for (unsigned j = 0; j < rel->width; j++)
				row[j] = row_at(sides[side], i)[slots[from[j]]];
		}
	}
	return 0;
}

static int run_values(struct ref_exec *x, const struct sql_rel *rel, struct ref_rows *out)
{
	struct sql_env env = {.arena = x->arena};

	for (unsigned i = 0; i < rel->values.row_count; i++) {
		struct sql_value *row = add_row(x, out);

		if (!row)
			return -ENOMEM;
		for (unsigned j = 0; j < rel->width; j++) {
			int rc = sql_eval(&env, rel->values.cells[i * rel->width + j], &row[j]);

			if (rc < 0)
				return eval_failed(&env, rc);
		}
	}
	return 0;
}

static int run_rel(struct ref_exec *x, const struct sql_rel *rel, struct ref_rows *out)
{
	struct ref_rows left = {0}, right = {0};
	int rc = 0;

	*out = (struct ref_rows){.width = rel->width, .columns = rel->columns};
	if (rel->left)
		rc = run_rel(x, rel->left, &left);
	if (rc == 0 && rel->right)
		rc = run_rel(x, rel->right, &right);
	if (rc < 0)
		return rc;
	switch (rel->kind) {
	case SQL_SCAN:
		return run_scan(x, rel, out);
	case SQL_FILTER:
		return run_filter(x, rel, &left, out);
	case SQL_PROJECT:
		return run_project(x, rel, &left, out);
	case SQL_JOIN:
		return run_join(x, rel, &left, &right, out);
	case SQL_AGGREGATE:
		return run_aggregate(x, rel, &left, out);
	case SQL_SORT:
		return run_sort(x, rel, &left, out);
	case SQL_LIMIT:
		return run_limit(x, rel, &left, out);
	case SQL_UNION:
		return run_union(x, rel, &left, &right, out);
	case SQL_VALUES:
		return run_values(x, rel, out);
	}
	return -EINVAL;
}

int ref_query(struct ref_db *db, const struct sql_query *query, struct sql_arena *arena,
	      struct ref_rows *rows)
{
	struct ref_exec x = {.db = db, .query = query, .arena = arena};
	struct ref_rows all;
	int *slots, rc = run_rel(&x, query->root, &all);

	if (rc < 0)
		return rc;
	*rows = (struct ref_rows){.width = query->output_count, .columns = query->outputs};
	slots = slots_of(&x, &all, NULL);
	for (size_t i = 0; rc == 0 && i < all.count; i++)
		rc = pass_row(&x, &all, i, slots, rows);
	return rc;
}
