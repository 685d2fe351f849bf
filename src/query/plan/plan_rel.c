/* SPDX-License-Identifier: BSD-2-Clause */
/* Relations of the tree, but for joins and aggregates. */
#include "query/plan/plan_internal.h"

#include <errno.h>
#include <string.h>

#define FETCH_ROWS \
	100000.0 /* wide columns of more rows are carried through a sort, not fetched after it */

static struct pipe *plan_filter(struct planner *p, const struct sql_rel *rel)
{
	const struct sql_expr **parts;
	unsigned n = expr_conjuncts(p, rel->predicate, &parts);
	struct pipe *pipe = plan_rel(p, rel->left);

	for (unsigned i = 0; i < n && pipe; i++)
		if (pipe_select(p, pipe, parts[i]) < 0)
			return NULL;
	return pipe;
}

static struct pipe *plan_project(struct planner *p, const struct sql_rel *rel)
{
	struct pipe *pipe = plan_rel(p, rel->left);

	for (unsigned i = 0; i < rel->width && pipe; i++) {
		const struct sql_expr *e = rel->exprs[i];
		struct binding b = {.column = rel->columns[i]};

		if (e->kind == SQL_COLUMN && e->column == rel->columns[i])
			continue;
		b.slot = pipe_compute(p, pipe, e);
		if (p->error != 0 || pipe_bind(p, pipe, &b) < 0)
			return NULL;
	}
	return pipe;
}

/* ---- sort and limit ---- */

static int add_order(struct planner *p, struct pipe *pipe, const struct sql_rel *sort)
{
	struct task_reduce *r = &pipe->task->reduce;

	r->order_count = sort ? sort->sort.key_count : 0;
	r->order = plan_alloc(p, (r->order_count + 1) * sizeof(*r->order));
	for (unsigned i = 0; i < r->order_count && p->error == 0; i++) {
		const struct sql_sort_key *k = &sort->sort.keys[i];

		r->order[i] = (struct task_order){pipe_slot(p, pipe, k->column), k->descending,
						  k->nulls_first};
	}
	return p->error;
}

/* No more rows than a limit allows; a sort keeps those before the offset too. */
static void limit_rows(struct pipe *pipe, int64_t count, int64_t offset)
{
	double most = (double)count + (double)offset;

	if (count >= 0 && pipe->rows > most)
		pipe->rows = pipe->rows_most = most;
}

static struct pipe *plan_sorted(struct planner *p, const struct sql_rel *rel,
				const struct sql_rel *sort, const struct sql_rel *limit)
{
	struct pipe *pipe = plan_rel(p, sort ? sort->left : limit->left), *next;
	struct task_reduce *r;
	struct cargo cargo;
	uint32_t task;

	if (!pipe || add_order(p, pipe, sort) < 0)
		return NULL;
	for (unsigned i = 0; i < rel->width && !limit && pipe->rows > FETCH_ROWS; i++)
		pipe_slot(p, pipe, rel->columns[i]);
	if (pipe_pack(p, pipe, rel->columns, rel->width, &cargo) < 0)
		return NULL;
	r = &pipe->task->reduce;
	r->kind = TASK_SORT;
	r->column_count = cargo.slot_count;
	r->columns = cargo.slots;
	if (limit) {
		r->offset = (uint64_t)limit->limit.offset;
		r->limit = limit->limit.count < 0 ? UINT64_MAX : (uint64_t)limit->limit.count;
		limit_rows(pipe, limit->limit.count, limit->limit.offset);
	}
	task = pipe_close(p, pipe);
	next = task == TASK_NONE ? NULL : pipe_of_results(p, &task, 1, cargo.in, cargo.count);
	if (next) {
		next->rows = pipe->rows;
		next->rows_most = pipe->rows_most;
		if (limit)
			limit_rows(next, limit->limit.count, 0);
	}
	return next;
}

/* ---- union and values ---- */

/* The pipe's task, closed, with these columns as slots in order. */
static uint32_t close_as(struct planner *p, struct pipe *pipe, const int *columns, unsigned count)
{
	struct task_reduce *r;
	unsigned *slots = plan_alloc(p, (count + 1) * sizeof(*slots));

	for (unsigned i = 0; i < count && p->error == 0; i++)
		slots[i] = pipe_slot(p, pipe, columns[i]);
	if (p->error != 0)
		return TASK_NONE;
	r = &pipe->task->reduce;
	r->kind = TASK_OUTPUT;
	r->column_count = count;
	r->columns = slots;
	return pipe_close(p, pipe);
}

/* The result slots of both tasks get the ranges and nullability that hold for rows of either. */
static void join_ranges(struct task *a, struct task *b)
{
	for (unsigned i = 0; i < a->result_count; i++) {
		struct task_slot *x = &a->result[i], *y = &b->result[i];
		bool known = x->lo <= x->hi && y->lo <= y->hi;

		x->nullable = y->nullable = x->nullable || y->nullable;
		x->lo = y->lo = !known ? 1 : x->lo < y->lo ? x->lo : y->lo;
		x->hi = y->hi = !known ? 0 : x->hi > y->hi ? x->hi : y->hi;
		x->strings = y->strings = 0;
	}
}

static struct pipe *plan_union(struct planner *p, const struct sql_rel *rel)
{
	struct pipe *left = plan_rel(p, rel->left), *right, *pipe;
	struct binding *bindings = plan_alloc(p, (rel->width + 1) * sizeof(*bindings));
	uint32_t tasks[2];

	if (!left || !bindings)
		return NULL;
	tasks[0] = close_as(p, left, rel->set.left_columns, rel->width);
	right = p->error != 0 ? NULL : plan_rel(p, rel->right);
	if (!right)
		return NULL;
	tasks[1] = close_as(p, right, rel->set.right_columns, rel->width);
	if (p->error != 0)
		return NULL;
	join_ranges(p->tasks[tasks[0]], p->tasks[tasks[1]]);
	for (unsigned i = 0; i < rel->width; i++)
		bindings[i] = (struct binding){.column = rel->columns[i], .slot = i};
	pipe = pipe_of_results(p, tasks, 2, bindings, rel->width);
	if (pipe) {
		pipe->rows = left->rows + right->rows;
		pipe->rows_most = left->rows_most + right->rows_most;
	}
	return pipe;
}

static struct pipe *plan_values(struct planner *p, const struct sql_rel *rel)
{
	struct pipe *pipe = pipe_new(p, "values");
	unsigned n = rel->values.row_count * rel->width;
	struct fth_expr **cells = plan_alloc(p, (n + 1) * sizeof(struct fth_expr *));
	struct task_source_column *columns = plan_alloc(p, (rel->width + 1) * sizeof(*columns));

	if (!pipe || !cells || !columns)
		return NULL;
	for (unsigned i = 0; i < n && p->error == 0; i++)
		cells[i] = plan_expr(p, pipe, rel->values.cells[i]);
	for (unsigned i = 0; i < rel->width && p->error == 0; i++) {
		struct task_slot slot = {.type = plan_type(p->query->columns[rel->columns[i]].type),
					 .nullable = true,
					 .lo = 1,
					 .hi = 0,
					 .name = "value"};
		struct binding b = {.column = rel->columns[i],
				    .slot = pipe_add_slot(p, pipe, &slot)};

		columns[i] = (struct task_source_column){i, b.slot};
		pipe_bind(p, pipe, &b);
	}
	pipe->task->source.kind = TASK_VALUES;
	pipe->task->source.column_count = rel->width;
	pipe->task->source.columns = columns;
	pipe->task->source.value_rows = rel->values.row_count;
	pipe->task->source.values = cells;
	pipe->rows = pipe->rows_most = rel->values.row_count;
	return p->error != 0 ? NULL : pipe;
}

static bool is_block(const struct sql_rel *rel)
{
	if (rel->kind == SQL_FILTER)
		return is_block(rel->left);
	return rel->kind == SQL_JOIN &&
	       (rel->join.kind == SQL_INNER ||
		((rel->join.kind == SQL_SEMI || rel->join.kind == SQL_ANTI) &&
		 is_block(rel->left)));
}

struct pipe *plan_rel(struct planner *p, const struct sql_rel *rel)
{
	if (p->error != 0)
		return NULL;
	switch (rel->kind) {
	case SQL_SCAN:
		return pipe_of_table(p, rel);
	case SQL_FILTER:
		return is_block(rel) ? plan_inner(p, rel) : plan_filter(p, rel);
	case SQL_PROJECT:
		return plan_project(p, rel);
	case SQL_JOIN:
		return is_block(rel) ? plan_inner(p, rel) : plan_outer(p, rel);
	case SQL_AGGREGATE:
		return plan_aggregate(p, rel);
	case SQL_SORT:
		return plan_sorted(p, rel, rel, NULL);
	case SQL_LIMIT:
		return plan_sorted(p, rel, rel->left->kind == SQL_SORT ? rel->left : NULL, rel);
	case SQL_UNION:
		return plan_union(p, rel);
	case SQL_VALUES:
		return plan_values(p, rel);
	}
	plan_fail(p, -EINVAL);
	return NULL;
}
