/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/wrap/memory.h"

#include <string.h>
#include <sys/mman.h>

#define SMALLEST 64u
#define SMALL	 65536u /* larger blocks are mapped each */
#define CHUNK	 ((size_t)1 << 20)
#define PAGE	 4096u

static void *map_bytes(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* The list of blocks that can hold that many bytes; *size is theirs. */
static unsigned class_of(size_t bytes, size_t *size)
{
	unsigned class = 0;

	for (*size = SMALLEST; *size < bytes; *size *= 2)
		class ++;
	return class;
}

/*
 * A block that was never used, from the first chunk. Each chunk begins with a pointer to the next.
 */
static void *cut_block(struct fth_dev_memory *memory, size_t size)
{
	size_t align = size < PAGE ? size : PAGE;
	size_t at = (memory->used + align - 1) / align * align;
	void *chunk = memory->chunks;

	if (!chunk || at + size > CHUNK) {
		chunk = map_bytes(CHUNK);
		if (!chunk)
			return NULL;
		memcpy(chunk, &memory->chunks, sizeof(void *));
		memory->chunks = chunk;
		at = align > sizeof(void *) ? align : sizeof(void *);
	}
	memory->used = at + size;
	return (char *)chunk + at;
}

void *fth_dev_memory_take(struct fth_dev_memory *memory, size_t bytes)
{
	unsigned class;
	size_t size;
	void *block;

	if (bytes > SMALL)
		return map_bytes(whole_pages(bytes));
	class = class_of(bytes, &size);
	block = memory->free[class];
	if (!block)
		return cut_block(memory, size);
	memcpy(&memory->free[class], block, sizeof(void *));
	return block;
}

void fth_dev_memory_give(struct fth_dev_memory *memory, void *block, size_t bytes)
{
	unsigned class;
	size_t size;

	if (!block)
		return;
	if (bytes > SMALL) {
		munmap(block, whole_pages(bytes));
		return;
	}
	class = class_of(bytes, &size);
	memcpy(block, &memory->free[class], sizeof(void *));
	memory->free[class] = block;
}

void fth_dev_memory_release(struct fth_dev_memory *memory)
{
	while (memory->chunks) {
		void *chunk = memory->chunks;

		memcpy(&memory->chunks, chunk, sizeof(void *));
		munmap(chunk, CHUNK);
	}
	memset(memory, 0, sizeof(*memory));
}
