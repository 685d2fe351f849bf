/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/facts/facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop_all(struct prover *p)
{
	p->sorted = p->clustered = p->whole_runs = false;
	keyset_free(p->seen);
	p->seen = NULL;
}

static int take_string(struct prover *p, const char *bytes, uint32_t length)
{
	if (length > p->last_room) {
		char *grown = realloc(p->last_string, length);

		if (!grown)
			return -ENOMEM;
		p->last_string = grown;
		p->last_room = length;
	}
	if (length)
		memcpy(p->last_string, bytes, length);
	p->last_length = length;
	return 0;
}

/* What is known about the rows of earlier batches. */
static int take_old(struct prover *p, enum fth_table_kind kind, const struct column_state *state)
{
	const struct fth_table_facts *facts = &state->facts;

	p->sorted = facts->flags & FTH_TABLE_SORTED;
	p->clustered = facts->flags & FTH_TABLE_CLUSTERED;
	p->whole_runs = facts->flags & FTH_TABLE_WHOLE_RUNS;
	p->any = p->old = true;
	p->last = state->last;
	p->runs = state->runs;
	p->run = state->last_run;
	p->max_run = facts->max_run;
	p->old_min = facts->min;
	p->old_max = facts->max;
	if (kind != FTH_TABLE_KIND_STRING)
		return 0;
	if (!state->last_string)
		drop_all(p);
	return take_string(p, state->last_string, (uint32_t)state->text_last);
}

int prover_init(struct prover *p, enum fth_table_kind kind, const struct column_state *state,
		uint64_t rows, size_t memory, size_t *spare)
{
	int rc = 0;

	*p = (struct prover){.sorted = true, .clustered = true, .whole_runs = true};
	if (rows)
		rc = take_old(p, kind, state);
	if (kind == FTH_TABLE_KIND_WIDE)
		drop_all(p);
	if (rc < 0)
		return rc;
	if (!p->clustered || kind == FTH_TABLE_KIND_STRING) {
		*spare += memory;
		return 0;
	}
	p->seen = keyset_new(memory, spare);
	return p->seen ? 0 : -ENOMEM;
}

void prover_release(struct prover *p)
{
	keyset_free(p->seen);
	free(p->last_string);
	*p = (struct prover){0};
}

/* A value that differs from the one before begins a run. */
static void begin_run(struct prover *p, int64_t value)
{
	bool ascends = !p->any || value > p->last;
	int fresh = p->seen ? keyset_add(p->seen, value) : -1;

	if (fresh < 0) {
		keyset_free(p->seen);
		p->seen = NULL;
	}
	p->sorted &= ascends;
	/*
	 * A sorted column has no value twice. In another one this must be new, and none of the old.
	 */
	if (!p->sorted && (fresh != 1 || (p->old && value >= p->old_min && value <= p->old_max)))
		p->clustered = false;
	p->runs++;
	p->run = 0;
}

static void feed_ints(struct prover *p, const int64_t *values, uint32_t rows)
{
	if (p->any && p->last == values[0])
		p->whole_runs = false;
	for (uint32_t i = 0; i < rows && p->clustered; i++) {
		if (!p->any || values[i] != p->last)
			begin_run(p, values[i]);
		p->any = true;
		p->last = values[i];
		p->run++;
		p->max_run = p->run > p->max_run ? p->run : p->max_run;
	}
	if (!p->clustered)
		drop_all(p);
}

static int compare_strings(const char *a, uint32_t n, const char *b, uint32_t m)
{
	uint32_t common = n < m ? n : m;
	int order = common ? memcmp(a, b, common) : 0;

	return order ? order : (n > m) - (n < m);
}

static int feed_strings(struct prover *p, const struct group_column *column, uint32_t rows)
{
	const char *before = p->last_string;
	uint32_t length = p->last_length;

	for (uint32_t i = 0; i < rows; i++) {
		const char *now = column->bytes + column->offsets[i];
		uint32_t n = column->offsets[i + 1] - column->offsets[i];
		int order = p->any ? compare_strings(before, length, now, n) : -1;

		if (order > 0) {
			drop_all(p);
			return 0;
		}
		if (order == 0 && i == 0)
			p->whole_runs = false;
		p->runs += order != 0;
		p->run = order ? 1 : p->run + 1;
		p->max_run = p->run > p->max_run ? p->run : p->max_run;
		p->any = true;
		before = now;
		length = n;
	}
	return take_string(p, before, length);
}

int prover_feed(struct prover *p, const struct group_column *column, uint32_t rows)
{
	if (column->nulls)
		drop_all(p);
	if (!p->clustered || rows == 0)
		return 0;
	if (column->kind == FTH_TABLE_KIND_STRING)
		return feed_strings(p, column, rows);
	feed_ints(p, column->ints, rows);
	return 0;
}

static int keep_last_string(const struct prover *p, struct manifest *m, struct column_state *state)
{
	manifest_free(m, state->last_string, state->text_last);
	state->last_string = NULL;
	state->text_last = 0;
	if (!p->sorted || !p->any)
		return 0;
	state->last_string = manifest_alloc(m, p->last_length);
	if (!state->last_string)
		return -ENOMEM;
	if (p->last_length)
		memcpy(state->last_string, p->last_string, p->last_length);
	state->text_last = p->last_length;
	return 0;
}

int prover_finish(const struct prover *p, enum fth_table_kind kind, struct manifest *m,
		  struct column_state *state)
{
	struct fth_table_facts *facts = &state->facts;
	uint32_t flags = facts->nulls ? 0 : FTH_TABLE_NO_NULLS;

	state->last = p->last;
	state->runs = p->clustered ? p->runs : 0;
	state->last_run = p->clustered ? p->run : 0;
	facts->max_run = p->clustered ? p->max_run : 0;
	if (p->clustered) {
		flags |= FTH_TABLE_CLUSTERED | FTH_TABLE_DISTINCT;
		flags |= p->sorted ? FTH_TABLE_SORTED : 0;
		flags |= p->max_run <= 1 ? FTH_TABLE_UNIQUE : 0;
		flags |= p->sorted && p->max_run <= 1 ? FTH_TABLE_STRICT : 0;
		flags |= p->whole_runs ? FTH_TABLE_WHOLE_RUNS : 0;
		if (kind == FTH_TABLE_KIND_INT && p->any &&
		    (uint64_t)facts->max - (uint64_t)facts->min == p->runs - 1)
			flags |= FTH_TABLE_DENSE;
		facts->distinct = p->runs;
	}
	facts->flags = flags;
	return kind == FTH_TABLE_KIND_STRING ? keep_last_string(p, m, state) : 0;
}
