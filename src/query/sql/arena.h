/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is freed all at once, with a limit. One thread at a time. */
#ifndef QUERY_SQL_ARENA_H
#define QUERY_SQL_ARENA_H

#include <stddef.h>

struct sql_arena;

/* An arena of at most `limit` bytes; NULL if memory is short. */
struct sql_arena *sql_arena_new(size_t limit);
void sql_arena_free(struct sql_arena *arena);

/* Zeroed bytes, aligned for any value; NULL if memory is short or the limit is reached. */
void *sql_arena_alloc(struct sql_arena *arena, size_t size);

/* Bytes that the arena has taken. */
size_t sql_arena_size(const struct sql_arena *arena);

#endif
