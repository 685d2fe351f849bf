/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table Tasks: the output of the planner, which the executor runs.
 *
 * A task is one pipeline: rows come from a source, pass the steps in order and end in the reducer,
 * whose result later tasks read or look rows up in. After S. Xu, *Computing Big-Data Applications
 * Near Flash*, dissertation, MIT, 2021, chapters 6 to 8; new are look-ups as steps, so that a chain
 * of joins is one pipeline, results that later tasks group again, and key ranges (below).
 *
 * Values flow through a task in slots: columns of the source, payload of look-ups, computed values.
 * The columns of an expression (fth_expr.column) are slots of its task. A slot has its value from
 * the step on that makes it.
 *
 * Invariants of a task set (task_check() verifies them):
 *
 *  1. A task reads only results of tasks with smaller numbers.
 *  2. Each slot is assigned once: by the source, by a payload of a look-up or by a compute step;
 *     and no step uses it before that.
 *  3. A range [lo, hi] holds for every value of the slot that is not null, in rows that reach it.
 *     The executor relies on it for types and sizes: a wrong range is a wrong result.
 *  4. Keys of a look-up have the types and order of the keys that the structure was built with.
 *  5. A nested task (`nested`) builds a structure and is used by exactly one look-up, that of its
 *     parent.
 *
 * Key ranges are one mechanism for two things. The build of a structure can be restricted to the
 * rows whose first key is in [a, b]:
 *
 *  - Nested: source tables of parent and nested task are both sorted by the key. For each row group
 *    of the parent the thread builds a structure of its own from those row groups of the nested
 *    task's table whose ranges meet that of the parent's group, uses it and drops it. Memory for
 *    one row group is enough.
 *  - Passes: a structure that does not fit is built for one range after the other. The task that
 *    looks up runs once for each, on the rows whose key is in the range; its reducer continues from
 *    pass to pass.
 */
#ifndef FTH_QUERY_TASK_H
#define FTH_QUERY_TASK_H

#include "fathom/table.h"
#include "query/vec/prog/expression.h"

#define TASK_NONE UINT32_MAX

struct task_slot {
	struct fth_type type;
	bool nullable;
	fth_i128 lo, hi;  /* integer-like types; lo > hi: nothing is known */
	uint32_t strings; /* text: the most different ones, 0 if not known. Not in the text form */
	const char *name; /* for people */
};

/* ---- source ---- */

enum task_source_kind {
	TASK_TABLE,  /* a snapshot of a table */
	TASK_ROWS,   /* results of earlier tasks: rows, groups or sorted rows */
	TASK_VALUES, /* rows of constants; one row without columns is SELECT 1 */
	TASK_GIVEN,  /* rows that the caller of the executor has, from elsewhere */
};

struct task_source_column {
	unsigned column; /* of the table or of the result */
	unsigned slot;
};

struct task_source {
	enum task_source_kind kind;
	struct fth_table *table;
	/*
	 * ROWS: one after the other; their results have the same types. Rows of a single sorted
	 * input keep their order up to the reducer.
	 */
	unsigned input_count;
	uint32_t *inputs;
	unsigned column_count;
	struct task_source_column *columns;
	uint32_t row_slot;	  /* TABLE: gets the row's number in the table; or TASK_NONE */
	unsigned value_rows;	  /* VALUES */
	struct fth_expr **values; /* VALUES: constants, row by row, one for each of columns[] */
};

/* ---- steps ---- */

enum task_step_kind {
	TASK_SELECT,  /* keep rows for which the predicate is true */
	TASK_COMPUTE, /* a slot from others */
	TASK_LOOKUP,  /* match rows with those of a structure */
	TASK_FETCH,   /* read columns of a table at given row numbers */
	TASK_RUNS,    /* group rows whose keys are adjacent */
};

enum task_aggregate_op {
	TASK_COUNT_ROWS,
	TASK_COUNT, /* of values that are not null */
	TASK_SUM,
	TASK_AVG,
	TASK_MIN,
	TASK_MAX,
	TASK_ANY, /* the value of any row: for columns that depend on the keys */
};

struct task_aggregate {
	enum task_aggregate_op op;
	bool distinct;
	uint32_t slot; /* TASK_NONE for TASK_COUNT_ROWS */
	struct task_slot result;
};

enum task_match {
	TASK_SEMI,   /* keep rows with a match */
	TASK_ANTI,   /* keep rows without */
	TASK_INNER,  /* once for each match */
	TASK_LEFT,   /* likewise; without a match once, with a null payload */
	TASK_SINGLE, /* likewise; more than one match is an error */
};

/* A null key matches nothing, unless the look-up is null-aware. */
struct task_lookup {
	uint32_t task; /* that built the set, map, multimap or group table */
	enum task_match match;
	unsigned key_count; /* 0: every row of the structure matches */
	unsigned *keys;	    /* slots */
	unsigned payload_count;
	unsigned *payload; /* columns of the result, which become ... */
	unsigned *slots;   /* ... these slots */
	/* A match counts only if this is true, over all slots and the payload. Or NULL. */
	struct fth_expr *condition;
	/*
	 * NOT IN: an ANTI look-up with one key, no condition and a structure that is not nested. A
	 * null key of either side matches every row of the other.
	 */
	bool null_aware;
};

struct task_fetch {
	struct fth_table *table;
	unsigned row_slot; /* null where there is no row: the columns are null then */
	unsigned column_count;
	struct task_source_column *columns;
};

/*
 * Group the rows of each row group of the source by keys of which the first is a column of the
 * source with whole runs in its row groups: all rows of a group of rows with equal keys come from
 * one row group, and the result is final when that is done. After this step only the slots that it
 * makes are there.
 */
struct task_runs {
	unsigned key_count;
	unsigned *keys;	     /* slots, which become ... */
	unsigned *key_slots; /* ... these */
	unsigned aggregate_count;
	struct task_aggregate *aggregates;
	unsigned *slots; /* of the aggregates' results */
};

struct task_step {
	enum task_step_kind kind;
	double rows; /* that are expected to reach it; 0: not known. Not in the text form */
	union {
		struct fth_expr *predicate;
		struct {
			unsigned slot;
			struct fth_expr *value;
		} compute;
		struct task_lookup lookup;
		struct task_fetch fetch;
		struct task_runs runs;
	};
};

/* ---- reducer ---- */

enum task_reduce_kind {
	TASK_OUTPUT,   /* rows, in any order */
	TASK_GROUP,    /* groups with aggregates; without keys one group */
	TASK_SORT,     /* rows in order; with a limit only the first ones are kept (top-k) */
	TASK_SET,      /* keys */
	TASK_MAP,      /* unique keys with their payload; a second row with a key is an error */
	TASK_MULTIMAP, /* keys, each with the payload of many rows */
};

struct task_order {
	unsigned slot;
	bool descending, nulls_first;
};

/*
 * The result's columns are: for OUTPUT and SORT the slots in columns[]; for GROUP the keys, then
 * the aggregates; for MAP and MULTIMAP the payload in columns[] (keys are not among them unless
 * listed). Rows with a null in a key are left out of SET, MAP and MULTIMAP, and are groups as
 * others in GROUP.
 */
struct task_reduce {
	enum task_reduce_kind kind;
	unsigned key_count;
	unsigned *keys; /* slots */
	unsigned column_count;
	unsigned *columns; /* slots */
	unsigned aggregate_count;
	struct task_aggregate *aggregates;
	bool grouped; /* GROUP without keys: no rows give no group */
	unsigned order_count;
	struct task_order *order;
	uint64_t offset, limit; /* UINT64_MAX: no limit */
};

/* ---- tasks ---- */

/* Expectations and bounds of the planner; EXPLAIN shows them, EXPLAIN ANALYZE compares. */
struct task_estimate {
	double source_rows, rows; /* read; that reach the reducer */
	double rows_most;	  /* of the result; infinite if nothing is known */
	uint64_t bytes;		  /* to be read from the device, at most */
	uint64_t memory; /* of the result and of what the task needs while it runs, at most */
	uint64_t spill;	 /* expected */
	unsigned passes; /* 1 or more */
};

struct task {
	const char *name;
	struct task_source source;
	unsigned slot_count;
	struct task_slot *slots;
	unsigned step_count;
	struct task_step *steps;
	struct task_reduce reduce;
	unsigned result_count; /* the result's columns */
	struct task_slot *result;
	bool nested;
	uint32_t parent;	/* of a nested task: the task that looks up in it */
	unsigned parent_column; /* of the parent's table, sorted: its range in a row group ... */
	unsigned key_column;	/* ... restricts this sorted column of this task's table */
	struct task_estimate estimate;
	/*
	 * The task is run again on demand: its result is released after this task. TASK_NONE: the
	 * last.
	 */
	uint32_t last_user;
};

struct task_set {
	unsigned task_count;
	struct task *tasks; /* the last one gives the result */
	unsigned output_count;
	const char **names; /* of the result's columns */
};

/* Whether the result is a structure that later tasks look rows up in. */
static inline bool task_builds_structure(const struct task *t)
{
	return t->reduce.kind == TASK_SET || t->reduce.kind == TASK_MAP ||
	       t->reduce.kind == TASK_MULTIMAP;
}

/* 0, or -EINVAL with a text that names the task and the first invariant that does not hold. */
int task_check(const struct task_set *set);

#endif
