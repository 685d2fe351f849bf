/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups that a query asks for twice are made once. A WITH query or a view that is named twice has
 * been planned twice; where that gave two equal tasks from a table to groups, the readers of the
 * second one read the first one's result. Two tasks are equal if their texts are: the text form of
 * a task says all that it does.
 */
#include "query/plan/plan_internal.h"
#include "query/task/task_show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A reader of groups begins at the start, so that there may be several, one after the other. */
static bool may_share(const struct task *t)
{
	return !t->nested && t->source.kind == TASK_TABLE && t->reduce.kind == TASK_GROUP;
}

static bool looks_alike(const struct task *a, const struct task *b)
{
	return may_share(a) && may_share(b) && a->source.table == b->source.table &&
	       a->source.column_count == b->source.column_count && a->step_count == b->step_count &&
	       a->reduce.key_count == b->reduce.key_count &&
	       a->reduce.aggregate_count == b->reduce.aggregate_count &&
	       a->reduce.grouped == b->reduce.grouped;
}

/* The text of a task behind its number; malloc()ed, or NULL. */
static char *text_of(const struct task_set *set, unsigned number)
{
	size_t length;
	char *text = NULL, *colon;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	task_show_task(out, set, number);
	if (fclose(out) != 0 || !(colon = strchr(text, ':'))) {
		free(text);
		return NULL;
	}
	memmove(text, colon, strlen(colon) + 1);
	return text;
}

static bool are_equal(const struct task_set *set, unsigned a, unsigned b)
{
	char *one = text_of(set, a), *other = text_of(set, b);
	bool equal = one && other && strcmp(one, other) == 0;

	free(one);
	free(other);
	return equal;
}

static unsigned first_equal(const struct task_set *set, unsigned number)
{
	for (unsigned t = 0; t < number; t++)
		if (looks_alike(&set->tasks[t], &set->tasks[number]) && are_equal(set, t, number))
			return t;
	return number;
}

static void *copy_of(struct planner *p, const void *array, unsigned count, size_t size)
{
	void *copy = plan_alloc(p, (count + 1) * size);

	if (copy && count > 0)
		memcpy(copy, array, count * size);
	return copy;
}

/* The task with other numbers for those that it refers to. Tasks may have arrays in common. */
static int renumber(struct planner *p, struct task *t, const uint32_t *numbers)
{
	t->steps = copy_of(p, t->steps, t->step_count, sizeof(*t->steps));
	t->source.inputs =
		copy_of(p, t->source.inputs, t->source.input_count, sizeof(*t->source.inputs));
	if (p->error != 0)
		return p->error;
	for (unsigned i = 0; i < t->step_count; i++)
		if (t->steps[i].kind == TASK_LOOKUP)
			t->steps[i].lookup.task = numbers[t->steps[i].lookup.task];
	for (unsigned i = 0; i < t->source.input_count; i++)
		t->source.inputs[i] = numbers[t->source.inputs[i]];
	if (t->nested)
		t->parent = numbers[t->parent];
	return 0;
}

int plan_share(struct planner *p, struct task_set *set)
{
	uint32_t *numbers = plan_alloc(p, (set->task_count + 1) * sizeof(*numbers));
	unsigned n = 0;

	for (unsigned t = 0; t < set->task_count && numbers; t++) {
		unsigned same = first_equal(set, t);

		numbers[t] = same < t ? numbers[same] : n++;
	}
	if (!numbers || n == set->task_count)
		return p->error;
	for (unsigned t = 0; t < set->task_count; t++)
		if (renumber(p, &set->tasks[t], numbers) < 0)
			return p->error;
	n = 0;
	for (unsigned t = 0; t < set->task_count; t++)
		if (numbers[t] == n)
			set->tasks[n++] = set->tasks[t];
	set->task_count = n;
	return 0;
}
