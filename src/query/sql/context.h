/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the front end share while a statement is compiled.
 *
 * Errors leave by longjmp() to sql_compile(), which frees the arena: everything that is allocated
 * on the way is in the arena, so nothing has to be undone, and functions return what they made
 * instead of a status. Code that holds anything else (the parser's result) must not call these
 * functions meanwhile.
 */
#ifndef QUERY_SQL_CONTEXT_H
#define QUERY_SQL_CONTEXT_H

#include "query/sql/sql_arena.h"
#include "query/sql/sql.h"
#include "query/sql/tree/tree.h"

#include <setjmp.h>

/* Limits that keep the work for a hostile text small. */
#define SQL_DEPTH_MAX	400    /* levels of expressions, subqueries and views */
#define SQL_TABLES_MAX	256    /* tables in a query, those of views included */
#define SQL_SELECTS_MAX 1000   /* selects likewise */
#define SQL_LIST_MAX	1664   /* entries of a select list and its like, as in PostgreSQL */
#define SQL_STACK_LEFT	98304u /* bytes of stack that recursion leaves alone */

struct sql_ctx {
	jmp_buf trap;
	int rc;
	struct sql_error error;
	struct sql_arena *arena;
	const struct sql_catalog *catalog;
	const char *text;	   /* that positions refer to */
	const char *view;	   /* the view whose text it is, or NULL */
	struct sql_params *params; /* or NULL */
	unsigned depth;
	const char *stack_low; /* recursion must not go below */
	unsigned table_count, select_count;
	unsigned column_count, column_room;
	struct sql_column *columns;
};

/* A subquery in an expression; its operands are the expression's args. */
enum sql_subquery_kind {
	SQL_SUB_SCALAR,
	SQL_SUB_EXISTS,
	SQL_SUB_ANY, /* args[i] op column i, for some row */
	SQL_SUB_ALL, /* for all rows */
};

struct sql_subquery {
	enum sql_subquery_kind kind;
	struct sql_rel *rel;
	unsigned width; /* of its result */
	int *outputs;	/* its result columns */
	enum sql_op op; /* ANY, ALL */
};

/* The statement is wrong, or not supported; `at` is where, or -1. They do not return. */
_Noreturn void sql_wrong(struct sql_ctx *ctx, int at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void sql_unsupported(struct sql_ctx *ctx, int at, const char *what, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void sql_no_memory(struct sql_ctx *ctx);

/* Bytes of stack that the calling thread has left; 1 MiB if that cannot be found out. */
size_t sql_stack_left(void);

/* Counts a level of recursion; fails if there are too many. Leave what was entered. */
void sql_enter(struct sql_ctx *ctx, int at);
void sql_leave(struct sql_ctx *ctx);

void *sql_alloc(struct sql_ctx *ctx, size_t size);
char *sql_copy(struct sql_ctx *ctx, const char *text);
char *sql_format(struct sql_ctx *ctx, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
#define SQL_ARRAY(ctx, type, n) ((type *)sql_alloc(ctx, (size_t)(n) * sizeof(type)))

/* A list of pointers that grows. */
struct sql_list {
	unsigned count, room;
	void **items;
};
void sql_list_add(struct sql_ctx *ctx, struct sql_list *list, void *item);

/* A set of column numbers. */
struct sql_set {
	unsigned words;
	uint64_t *bits;
};
void sql_set_add(struct sql_ctx *ctx, struct sql_set *set, int column);
void sql_set_clear(struct sql_set *set);
void sql_set_remove(struct sql_set *set, int column);
bool sql_set_has(const struct sql_set *set, int column);
bool sql_set_within(const struct sql_set *part, const struct sql_set *whole);
bool sql_set_meets(const struct sql_set *a, const struct sql_set *b);
bool sql_set_empty(const struct sql_set *set);
void sql_set_join(struct sql_ctx *ctx, struct sql_set *set, const struct sql_set *more);
void sql_set_add_outputs(struct sql_ctx *ctx, struct sql_set *set, const struct sql_rel *rel);

/* A new column of the query. */
int sql_new_column(struct sql_ctx *ctx, const char *name, struct sql_type type, bool nullable);

#endif
