/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is freed all at once, with a limit. One thread at a time. */
#ifndef QUERY_SQL_ARENA_H
#define QUERY_SQL_ARENA_H

#include <stddef.h>

struct sql_arena;

/*
 * Charges bytes before the arena takes them, or gives -bytes back; a failure is that of the
 * allocation.
 */
typedef int sql_charge_fn(void *user, ptrdiff_t bytes);

/* An arena of at most `limit` bytes; NULL if memory is short. */
struct sql_arena *sql_arena_new(size_t limit);
void sql_arena_free(struct sql_arena *arena);

/* Zeroed bytes, aligned for any value; NULL if memory is short or the limit is reached. */
void *sql_arena_alloc(struct sql_arena *arena, size_t size);

/* Frees a large allocation at once; a small one stays until the arena is freed. */
void sql_arena_drop(struct sql_arena *arena, void *pointer);

/* Has `charge`, which may be NULL, called for all that the arena takes from now on. */
void sql_arena_charge(struct sql_arena *arena, sql_charge_fn *charge, void *user);

/* Frees everything that was allocated since sql_arena_mark() returned `mark`. */
struct sql_arena_mark {
	const void *chunk;
	size_t used;
};
struct sql_arena_mark sql_arena_mark(const struct sql_arena *arena);
void sql_arena_reset(struct sql_arena *arena, struct sql_arena_mark mark);

/* Bytes that the arena has taken. */
size_t sql_arena_size(const struct sql_arena *arena);

#endif
