/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/sql/sql_arena.h"

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
	sql_charge_fn *charge;
	void *user;
};

struct sql_arena *sql_arena_new(size_t limit)
{
	struct sql_arena *arena = calloc(1, sizeof(*arena));

	if (arena)
		arena->limit = limit;
	return arena;
}

/* Frees the chunk that *at points to. */
static void free_chunk(struct sql_arena *arena, struct arena_chunk **at)
{
	struct arena_chunk *chunk = *at;
	size_t whole = sizeof(*chunk) + chunk->size;

	*at = chunk->next;
	arena->taken -= whole;
	free(chunk);
	if (arena->charge)
		arena->charge(arena->user, -(ptrdiff_t)whole);
}

void sql_arena_free(struct sql_arena *arena)
{
	while (arena && arena->chunks)
		free_chunk(arena, &arena->chunks);
	free(arena);
}

void sql_arena_drop(struct sql_arena *arena, void *pointer)
{
	struct arena_chunk **at = &arena->chunks;

	/* what is larger than a chunk has one of its own */
	while (*at && ((*at)->size <= CHUNK_SIZE || (*at)->bytes != pointer))
		at = &(*at)->next;
	if (!*at)
		return;
	free_chunk(arena, at);
	if (at == &arena->chunks && *at)
		arena->used = (*at)->size;
}

void sql_arena_charge(struct sql_arena *arena, sql_charge_fn *charge, void *user)
{
	arena->charge = charge;
	arena->user = user;
}

struct sql_arena_mark sql_arena_mark(const struct sql_arena *arena)
{
	return (struct sql_arena_mark){arena->chunks, arena->used};
}

void sql_arena_reset(struct sql_arena *arena, struct sql_arena_mark mark)
{
	size_t used = arena->used;

	while (arena->chunks != mark.chunk) {
		free_chunk(arena, &arena->chunks);
		used = arena->chunks ? arena->chunks->size : 0;
	}
	if (arena->chunks)
		memset(arena->chunks->bytes + mark.used, 0, used - mark.used);
	arena->used = mark.used;
}

static int add_chunk(struct sql_arena *arena, size_t size)
{
	size_t whole = sizeof(struct arena_chunk) + (size > CHUNK_SIZE ? size : CHUNK_SIZE);
	struct arena_chunk *chunk;

	if (whole > arena->limit - arena->taken)
		return -1;
	if (arena->charge && arena->charge(arena->user, (ptrdiff_t)whole) < 0)
		return -1;
	chunk = calloc(1, whole);
	if (!chunk) {
		if (arena->charge)
			arena->charge(arena->user, -(ptrdiff_t)whole);
		return -1;
	}
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
