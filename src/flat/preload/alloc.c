/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * malloc() and its family: large allocations come from the region, all others from the allocator
 * that the program would have used, which is found by dlsym(RTLD_NEXT). In a child of fork()
 * without a region all do; freeing memory of the region has no effect there.
 */
#include "flat/preload/heap.h"
#include "flat/preload/run.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EARLY_BYTES 65536u

static struct {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	size_t (*malloc_usable_size)(void *);
} next;

/* dlsym() may allocate before it has told us where: such memory is never freed. */
static _Alignas(64) char early[EARLY_BYTES];
static size_t early_used;
static __thread bool finding __attribute__((tls_model("initial-exec")));

static void *early_alloc(size_t bytes)
{
	size_t at = __atomic_fetch_add(&early_used, (bytes + 63) & ~(size_t)63, __ATOMIC_RELAXED);

	return at + bytes <= EARLY_BYTES ? early + at : NULL;
}

static bool is_early(const void *at)
{
	return (uintptr_t)at - (uintptr_t)early < EARLY_BYTES;
}

static void find_next(void)
{
	finding = true;
#define FIND(name) *(void **)&next.name = dlsym(RTLD_NEXT, #name)
	FIND(free);
	FIND(calloc);
	FIND(realloc);
	FIND(posix_memalign);
	FIND(aligned_alloc);
	FIND(memalign);
	FIND(malloc_usable_size);
	FIND(malloc);
#undef FIND
	finding = false;
}

/* Returns false while they are looked for. */
static bool have_next(void)
{
	if (__builtin_expect(__atomic_load_n(&next.malloc, __ATOMIC_ACQUIRE) != NULL, 1))
		return true;
	if (finding)
		return false;
	find_next();
	return next.malloc != NULL;
}

/*
 * Bytes of an allocation of ours; 0 for those of the next allocator, which may have its memory in
 * the region too.
 */
static size_t length_in_region(const void *at)
{
	return run_touches((uintptr_t)at, 1) ? heap_length(at, HEAP_MALLOC) : 0;
}

static void *from_region(size_t bytes, size_t align)
{
	void *at = heap_alloc(bytes, align, HEAP_MALLOC);

	if (!at)
		errno = ENOMEM;
	return at;
}

static bool is_large(size_t bytes)
{
	return bytes >= run.min_alloc && run_program();
}

RUN_EXPORT void *malloc(size_t bytes)
{
	if (is_large(bytes))
		return from_region(bytes, 16);
	return have_next() ? next.malloc(bytes) : early_alloc(bytes);
}

RUN_EXPORT void *calloc(size_t n, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(n, bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	if (is_large(all))
		return from_region(all, 16);
	return have_next() ? next.calloc(n, bytes) : early_alloc(all);
}

RUN_EXPORT void free(void *at)
{
	int saved = errno;

	if (!at || is_early(at))
		return;
	if (length_in_region(at) == 0) {
		if (have_next())
			next.free(at);
	} else if (run_active()) {
		heap_free(at);
	}
	errno = saved;
}

/* From the region or into it: a copy. */
static void *move_to(void *at, size_t bytes)
{
	size_t old = length_in_region(at);
	void *to = malloc(bytes);

	if (!to)
		return NULL;
	if (old == 0)
		old = next.malloc_usable_size(at);
	memcpy(to, at, old < bytes ? old : bytes);
	free(at);
	return to;
}

RUN_EXPORT void *realloc(void *at, size_t bytes)
{
	if (!at)
		return malloc(bytes);
	if (is_early(at)) {
		void *to = malloc(bytes);
		size_t room = EARLY_BYTES - (size_t)((char *)at - early);

		return to ? memcpy(to, at, bytes < room ? bytes : room) : NULL;
	}
	if (length_in_region(at) == 0) {
		/* one that is large already stays with the allocator that has it */
		if (!is_large(bytes) || next.malloc_usable_size(at) >= bytes)
			return have_next() ? next.realloc(at, bytes) : NULL;
		return move_to(at, bytes);
	}
	if (bytes == 0) {
		free(at);
		return NULL;
	}
	if (is_large(bytes) && heap_resize(at, bytes))
		return at;
	return move_to(at, bytes);
}

RUN_EXPORT int posix_memalign(void **out, size_t align, size_t bytes)
{
	if (!is_large(bytes))
		return have_next() ? next.posix_memalign(out, align, bytes) : ENOMEM;
	if (align < sizeof(void *) || (align & (align - 1)))
		return EINVAL;
	*out = heap_alloc(bytes, align, HEAP_MALLOC);
	return *out ? 0 : ENOMEM;
}

RUN_EXPORT void *aligned_alloc(size_t align, size_t bytes)
{
	if (is_large(bytes) && align && !(align & (align - 1)))
		return from_region(bytes, align);
	return have_next() ? next.aligned_alloc(align, bytes) : NULL;
}

RUN_EXPORT void *memalign(size_t align, size_t bytes)
{
	if (is_large(bytes) && align && !(align & (align - 1)))
		return from_region(bytes, align);
	return have_next() ? next.memalign(align, bytes) : NULL;
}

RUN_EXPORT void *valloc(size_t bytes)
{
	return memalign((size_t)sysconf(_SC_PAGESIZE), bytes);
}

RUN_EXPORT void *pvalloc(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return memalign(page, (bytes + page - 1) & ~(page - 1));
}

RUN_EXPORT size_t malloc_usable_size(void *at)
{
	size_t bytes;

	if (!at || is_early(at))
		return 0;
	bytes = length_in_region(at);
	if (bytes)
		return bytes;
	return have_next() ? next.malloc_usable_size(at) : 0;
}
