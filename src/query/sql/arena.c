/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/sql/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE 16384u
#define ALIGN	   16u

struct arena_chunk {
	struct arena_chunk *next;
	size_t size;
	_Alignas(16) unsigned char bytes[];
};

struct sql_arena {
	struct arena_chunk *chunks;
	size_t used; /* of the first chunk */
	size_t taken, limit;
};

struct sql_arena *sql_arena_new(size_t limit)
{
	struct sql_arena *arena = calloc(1, sizeof(*arena));

	if (arena)
		arena->limit = limit;
	return arena;
}

void sql_arena_free(struct sql_arena *arena)
{
	if (!arena)
		return;
	while (arena->chunks) {
		struct arena_chunk *chunk = arena->chunks;

		arena->chunks = chunk->next;
		free(chunk);
	}
	free(arena);
}

static int add_chunk(struct sql_arena *arena, size_t size)
{
	size_t whole = sizeof(struct arena_chunk) + (size > CHUNK_SIZE ? size : CHUNK_SIZE);
	struct arena_chunk *chunk;

	if (whole > arena->limit - arena->taken)
		return -1;
	chunk = calloc(1, whole);
	if (!chunk)
		return -1;
	chunk->size = whole - sizeof(*chunk);
	chunk->next = arena->chunks;
	arena->chunks = chunk;
	arena->taken += whole;
	arena->used = 0;
	return 0;
}

void *sql_arena_alloc(struct sql_arena *arena, size_t size)
{
	void *at;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (!arena->chunks || arena->chunks->size - arena->used < size) {
		if (arena->limit < arena->taken || add_chunk(arena, size) < 0)
			return NULL;
	}
	at = arena->chunks->bytes + arena->used;
	arena->used += size;
	return at;
}

size_t sql_arena_size(const struct sql_arena *arena)
{
	return arena->taken;
}
