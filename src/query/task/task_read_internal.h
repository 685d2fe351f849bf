/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the reader of task text: task_read.c reads tasks, task_read_expr.c expressions and
 * constants, task_read_slot.c slots and types. Errors are sticky: after the first one the present
 * word is LEX_END, so that every loop ends, and what functions return does not matter.
 */
#ifndef FTH_QUERY_TASK_READ_INTERNAL_H
#define FTH_QUERY_TASK_READ_INTERNAL_H

#include "query/task/task_lex.h"
#include "query/task/task_read.h"

#define READ_TASKS_MAX	1024u
#define READ_SLOTS_MAX	4096u
#define READ_LIST_MAX	256u /* columns, keys, aggregates */
#define READ_VALUES_MAX 65536u
#define READ_ROWS_MAX	1e15	 /* that a task expects */
#define READ_DEPTH_MAX	500u	 /* of an expression */
#define READ_ARGS_MAX	1048576u /* of a call: as many as a statement of 1 MiB can list */

struct reader {
	const struct task_read *how;
	struct fth_arena *arena;
	struct lex lex;
	struct lex_token token, ahead; /* the present word and the next */
	int error;
	/* the set so far */
	struct task *tasks;
	unsigned task_count, task_room;
	double *rows; /* of each task's result, at most */
	/* the task that is read */
	struct task *task;
	unsigned slot_room, step_room;
	bool used[READ_SLOTS_MAX];  /* slots that are made once already */
	bool there[READ_SLOTS_MAX]; /* slots that have a value at this place */
	double rows_most;
	unsigned depth;
};

/* ---- task_read.c ---- */

void reader_fail(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An error that has a text already gets the place; others, such as -ENOMEM, are kept. */
void reader_error(struct reader *r, int rc);
void reader_next(struct reader *r);
bool reader_at(const struct reader *r, const char *word); /* the present word is this one */
bool reader_skip(struct reader *r, const char *word);	  /* likewise, and goes on behind it */
void reader_expect(struct reader *r, const char *words);  /* one or more, with blanks between */
uint64_t reader_number(struct reader *r, uint64_t most);
/* A word or a quoted name, or the text of a string, with a terminator. */
char *reader_name(struct reader *r);
struct fth_str reader_string(struct reader *r);
void *reader_alloc(struct reader *r, size_t size); /* zeroed; NULL after an error */
void *reader_grow(struct reader *r, void *array, unsigned count, unsigned *room, size_t size);

/* ---- task_read_slot.c ---- */

/* A slot where it gets its value: what the text says. */
struct made {
	unsigned slot;
	const char *name;
	bool has_facts;
	struct task_slot facts;
};
bool read_type(struct reader *r, struct fth_type *out); /* false: the present word is no type */
void read_facts(struct reader *r, struct made *made);
struct made read_made(struct reader *r);
/* Make the slot, of which `proved` is known; or combine facts without making a slot. */
void settle(struct reader *r, const struct made *made, const struct task_slot *proved);
struct task_slot combine(struct reader *r, const struct made *made, const struct task_slot *proved);
unsigned read_slot(struct reader *r);
unsigned read_slots(struct reader *r, unsigned **out);

/* ---- task_read_expr.c ---- */

struct fth_expr *read_expr(struct reader *r);
struct fth_expr *read_constant(struct reader *r);

#endif
