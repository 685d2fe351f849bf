/* SPDX-License-Identifier: BSD-2-Clause */
/* Arenas: pieces of chunks that are charged to an account and released together. */
#include "query/mem/qmem.h"

struct fth_arena_chunk {
	struct fth_arena_chunk *next;
	size_t size; /* of all of it, this header included */
};

/* The first piece of a chunk starts on a full alignment. */
#define HEADER FTH_QMEM_ALIGN

void fth_arena_init(struct fth_arena *a, struct fth_qmem *mem, size_t chunk_size)
{
	*a = (struct fth_arena){.mem = mem, .chunk_size = chunk_size};
}

static struct fth_arena_chunk *add_chunk(struct fth_arena *a, size_t piece)
{
	size_t size = piece + HEADER > a->chunk_size ? piece + HEADER : a->chunk_size;
	struct fth_arena_chunk *chunk = fth_qmem_alloc(a->mem, size);

	if (!chunk)
		return NULL;
	chunk->size = size;
	chunk->next = a->chunks;
	a->chunks = chunk;
	a->used = HEADER;
	return chunk;
}

void *fth_arena_alloc(struct fth_arena *a, size_t size, size_t align)
{
	struct fth_arena_chunk *chunk = a->chunks;
	size_t at = (a->used + align - 1) / align * align;

	if (size > SIZE_MAX / 4)
		return NULL;
	if (!chunk || at + size > chunk->size) {
		chunk = add_chunk(a, size);
		if (!chunk)
			return NULL;
		at = HEADER;
	}
	a->used = at + size;
	return (char *)chunk + at;
}

static void drop_chunks(struct fth_arena *a, struct fth_arena_chunk *keep)
{
	struct fth_arena_chunk *chunk = a->chunks;

	while (chunk) {
		struct fth_arena_chunk *next = chunk->next;

		if (chunk != keep)
			fth_qmem_free(a->mem, chunk, chunk->size);
		chunk = next;
	}
	a->chunks = keep;
	a->used = HEADER;
	if (keep)
		keep->next = NULL;
}

void fth_arena_reset(struct fth_arena *a)
{
	drop_chunks(a, a->chunks);
}

void fth_arena_release(struct fth_arena *a)
{
	drop_chunks(a, NULL);
}
