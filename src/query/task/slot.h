/* SPDX-License-Identifier: BSD-2-Clause */
/* Type, nullability and range of slots, as the tables and the steps before prove them. */
#ifndef FTH_QUERY_SLOT_H
#define FTH_QUERY_SLOT_H

#include "query/task/task.h"

/* A column of a table; the row numbers of a table. */
struct task_slot task_slot_of_column(const struct fth_table *table, unsigned column);
struct task_slot task_slot_of_row(const struct fth_table *table);

/*
 * Type, nullability and range of an expression. Returns 0, -ENOMEM or the error of a constant in
 * it.
 */
int task_slot_of_expr(struct fth_qmem *mem, struct fth_expr *expr, struct task_slot *out);

/*
 * The result of an aggregate over at most `rows` values (infinite if nothing is known) of the slot
 * `arg`, which is NULL for TASK_COUNT_ROWS. Returns 0, or -EINVAL with a text if the aggregate does
 * not take the type.
 */
int task_slot_of_aggregate(enum task_aggregate_op op, const struct task_slot *arg, double rows,
			   struct task_slot *out);

/* The types are equal but for the number of digits and the length. */
bool task_same_type(struct fth_type a, struct fth_type b);

/* Fill the description of a task's result from slots and reducer. Returns 0 or -ENOMEM. */
int task_describe_result(struct fth_arena *arena, struct task *task);
/* Fill last_user of all tasks: results are released when no later task needs them. */
void task_set_last_users(struct task_set *set);

/* The most memory that the strings of a column take in a structure, with their records. */
uint64_t task_text_memory(const struct fth_table *table, unsigned column);
/* The same for a structure's payload that comes from the task's table, without dictionaries. */
uint64_t task_payload_text(const struct task *t);

#endif
