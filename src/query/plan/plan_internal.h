/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pipe is a task that is still open: rows come out of its source and of the steps so far.
 * Relations become pipes from the leaves up. Filters, projections and joins add steps to the pipe
 * of their (left) input; what needs all rows at once (an aggregate, a sort, the build side of a
 * join) closes the pipe with a reducer, and what follows begins a new one.
 *
 * A binding says where a column of the query is in a pipe: in a slot, or deferred, which means that
 * the pipe carries the number of a table's row instead and the column is fetched when something
 * needs it. Wide strings travel deferred through joins, groups and sorts.
 */
#ifndef FTH_QUERY_PLAN_INTERNAL_H
#define FTH_QUERY_PLAN_INTERNAL_H

#include "query/plan/plan.h"

#define NESTED_ROWS 4096.0 /* a structure for fewer rows is built once, for all row groups */

struct planner {
	const struct sql_query *query;
	const struct plan_options *options;
	struct fth_arena *arena;
	struct task **tasks; /* closed, in order */
	unsigned task_count, task_room;
	uint64_t carried; /* bytes of text that maps hold: carried_text.c */
	int error;	  /* the first; what fails returns NULL or this */
};

struct binding {
	int column;	   /* of the query */
	uint32_t slot;	   /* TASK_NONE: deferred */
	uint32_t row_slot; /* deferred: holds the row number, null where there is no row */
	struct fth_table *table;
	unsigned ordinal;
};

struct pipe {
	struct task *task;
	unsigned slot_room, step_room, column_room;
	struct binding *bindings;
	unsigned binding_count, binding_room;
	const struct sql_rel *scan; /* the source, if it is a table */
	double rows;		    /* expected here */
	bool multiplied;	    /* a look-up may have given several rows for one */
	double rows_most;	    /* cannot be exceeded; infinite if nothing is known */
	/*
	 * A task that made a set of the values that keys_slot had in some step before; or
	 * TASK_NONE.
	 */
	uint32_t keys_task, keys_slot;
};

/* ---- plan.c ---- */

void *plan_alloc(struct planner *p, size_t size); /* zeroed; NULL and p->error */
/* Room for one more element; returns the array, moved if need be, or NULL. */
void *plan_grow(struct planner *p, void *array, unsigned count, unsigned *room, size_t size);
int plan_fail(struct planner *p, int rc);

/* ---- pipe.c ---- */

struct pipe *pipe_new(struct planner *p, const char *name);
struct pipe *pipe_of_table(struct planner *p, const struct sql_rel *scan);
/* A pipe over the results of closed tasks. bindings[i] says what column i of the result is. */
struct pipe *pipe_of_results(struct planner *p, const uint32_t *tasks, unsigned count,
			     const struct binding *bindings, unsigned binding_count);

uint32_t pipe_add_slot(struct planner *p, struct pipe *pipe, const struct task_slot *slot);
struct task_step *pipe_add_step(struct planner *p, struct pipe *pipe, enum task_step_kind kind);
int pipe_bind(struct planner *p, struct pipe *pipe, const struct binding *binding);
struct binding *pipe_find(struct pipe *pipe, int column);

/* The slot of a column; fetches it if it was deferred. TASK_NONE and p->error on failure. */
uint32_t pipe_slot(struct planner *p, struct pipe *pipe, int column);
/* The slot of an expression: that of its column, or a new one that a step computes. */
uint32_t pipe_compute(struct planner *p, struct pipe *pipe, const struct sql_expr *expr);
int pipe_select(struct planner *p, struct pipe *pipe, const struct sql_expr *predicate);

/*
 * The slots that carry a set of columns out of a pipe, with one slot for the row number of deferred
 * ones. in[i] tells how column i is found among carried[]: its slot is then an index into
 * carried[].
 */
struct cargo {
	unsigned slot_count, slot_room;
	unsigned *slots;
	unsigned count;
	struct binding *in;
};
int pipe_pack(struct planner *p, struct pipe *pipe, const int *columns, unsigned count,
	      struct cargo *cargo);

/* Close the pipe: its task becomes the next in order. Returns its number, or TASK_NONE. */
uint32_t pipe_close(struct planner *p, struct pipe *pipe);

/* ---- carried_text.c ---- */

/*
 * Instead of a fetch of a deferred column of text: look it up in a map of the whole column. Returns
 * false, and adds nothing, if few rows need it or if it does not fit. `slot` describes the column;
 * *out is its slot in the pipe, or TASK_NONE with p->error.
 */
bool plan_carry_text(struct planner *p, struct pipe *pipe, const struct binding *b,
		     const struct task_slot *slot, uint32_t *out);

/* ---- plan_expr.c ---- */

struct fth_type plan_type(struct sql_type type);
/*
 * The expression over the pipe's slots, which may fetch columns first. NULL and p->error on
 * failure.
 */
struct fth_expr *plan_expr(struct planner *p, struct pipe *pipe, const struct sql_expr *expr);
/* Type, nullability and range of an expression. */
int plan_range(struct planner *p, struct fth_expr *expr, struct task_slot *slot);

/* ---- plan_rel.c, inner_join.c, outer_join.c, plan_group.c, plan_lookup.c, wanted_keys.c ---- */

struct pipe *plan_rel(struct planner *p, const struct sql_rel *rel);
/* A block of inner joins, with filters, semi and anti joins above. */
struct pipe *plan_inner(struct planner *p, const struct sql_rel *rel);
/* One left, semi, anti or single join; of a pipe with the rows of its left side. */
struct pipe *plan_outer(struct planner *p, const struct sql_rel *rel);
int plan_outer_on(struct planner *p, struct pipe *probe, const struct sql_rel *rel);
struct pipe *plan_aggregate(struct planner *p, const struct sql_rel *rel);
/* An aggregate over a left join, as a look-up of groups; NULL, without an error, if it is none. */
struct pipe *plan_eager(struct planner *p, const struct sql_rel *rel);

/* One equality of a join: an expression of the probing side, one of the build side. */
struct join_key {
	const struct sql_expr *probe, *build;
};
struct join_spec {
	enum task_match match;
	unsigned key_count;
	const struct join_key *keys;
	unsigned payload_count;
	const int *payload;		  /* columns of the build side that are wanted */
	const struct sql_expr *condition; /* on matches; or NULL */
	bool unique;			  /* the build side has at most one row for each key */
	bool null_aware;		  /* NOT IN: see task_lookup */
};
/* One side of a key: both are compared as they are, so decimals get one scale. */
const struct sql_expr *plan_key(struct planner *p, const struct sql_expr *side,
				const struct sql_expr *other);
/* Close `build` as a structure and look it up from `probe`. */
int plan_lookup(struct planner *p, struct pipe *probe, struct pipe *build,
		const struct join_spec *spec);

/*
 * The relation with only those rows whose column `key` is among the values of column by_key of
 * `by`; the rows are removed below aggregates by the key. Returns the relation itself where that is
 * not possible.
 */
const struct sql_rel *plan_reduce(struct planner *p, const struct sql_rel *rel, int key,
				  const struct sql_rel *by, int by_key);

/*
 * Remove rows of `build` whose key no row of `probe` has, if that is worth it: see wanted_keys.c.
 */
int plan_wanted_keys(struct planner *p, struct pipe *probe, struct pipe *build,
		     const struct join_key *key);

/* Both sides of a key are sorted columns of tables, for one of the keys. */
bool keys_sorted(struct planner *p, const struct join_key *keys, unsigned count);
/* Make the build a nested task if both sides are sorted by a key. */
void plan_nest(struct planner *p, const struct pipe *probe, const struct pipe *build,
	       const struct join_key *keys, unsigned key_count);

/*
 * Group the rows of a pipe. keys are slots. Returns the pipe that goes on, in which the keys are
 * key_slots[] and the results slots[].
 */
struct grouping {
	unsigned key_count;
	unsigned *keys;
	unsigned aggregate_count;
	struct task_aggregate *aggregates;
	bool grouped;
	uint32_t *key_slots, *slots; /* set */
};
struct pipe *plan_group(struct planner *p, struct pipe *pipe, struct grouping *g);
/* Whether equal values of a slot are adjacent and in one row group of the source. */
bool slot_has_runs(const struct pipe *pipe, uint32_t slot);
/* An aggregate of the tree over a pipe. */
void plan_aggregate_from(struct planner *p, struct pipe *pipe, const struct sql_agg *a,
			 struct task_aggregate *out);
/* The result of an aggregate over a slot of the pipe. */
struct task_aggregate plan_aggregate_of(const struct pipe *pipe, enum task_aggregate_op op,
					bool distinct, uint32_t slot, struct fth_type type);

/* ---- shared_tasks.c ---- */

/* Equal tasks from a table to groups become one. Returns 0 or an error. */
int plan_share(struct planner *p, struct task_set *set);

/* ---- rel_facts.c ---- */

/* No two rows of the relation agree in all of these columns. */
bool rel_unique(const struct sql_rel *rel, const int *columns, unsigned count);
double rel_rows(struct planner *p, const struct sql_rel *rel);
/* Without its filters, semi and anti joins; before an aggregate. */
double base_rows(struct planner *p, const struct sql_rel *rel);
double input_rows(struct planner *p, const struct sql_rel *rel);
/*
 * The part of its left rows that a semi or anti join keeps; whether a key of both sides is sorted.
 */
double semi_part(struct planner *p, const struct sql_rel *semi);
bool semi_sorted(struct planner *p, const struct sql_rel *semi);
/* The part of rows for which a predicate is true. */
double expr_selectivity(struct planner *p, const struct sql_expr *predicate);
bool rel_has(const struct sql_rel *rel, int column);
/* Whether every column of the expression comes from the relation. */
bool expr_within(const struct sql_expr *expr, const struct sql_rel *rel);
/* The top-level conjuncts of an expression; returns how many, into an array of the arena. */
unsigned expr_conjuncts(struct planner *p, const struct sql_expr *expr,
			const struct sql_expr ***out);
/* The conjuncts of a join's condition, IS NOT DISTINCT FROM as equalities. */
unsigned join_conjuncts(struct planner *p, const struct sql_expr *expr,
			const struct sql_expr ***out);
/* The facts of a plain column of a table, or NULL; *ordinal is set. */
const struct fth_table_facts *column_facts(struct planner *p, int column);

#endif
