/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mmap() and its family. Allocators such as jemalloc, and Python's, get their memory by private anonymous mappings: large ones are
 * made in the region. Calls for mappings in the region are carried out here, and never by the kernel, except for uses
 * that are not plain memory: a range that the program protects, locks or maps something over leaves the region.
 */
#include "flat/preload/run.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "flat/preload/heap.h"

#include "fathom/flat.h"

#define PLAIN_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS)
#define ALSO_PLAIN  (MAP_NORESERVE | MAP_POPULATE)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define STACK_MOST ((uintptr_t)64 << 20) /* of an allocation that has stacks in it */
#define MREMAP_ALL (MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)

/* The part of a range that is in the region. */
static bool clip(uintptr_t *at, size_t *length)
{
	uintptr_t end = *at + *length;

	if (!run_active() || !run_touches(*at, *length))
		return false;
	if (*at < run.start)
		*at = run.start;
	if (end > run.end || end < *at)
		end = run.end;
	*length = end - *at;
	return true;
}

static long kernel(long nr, const long a[6])
{
	return gate_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int memory_leave(uintptr_t at, size_t length, bool keep)
{
	return clip(&at, &length) ? heap_leave(at & ~(run.page - 1), length + at % run.page, keep)
				  : 0;
}

int memory_leave_around(uintptr_t at)
{
	uintptr_t first, end;
	size_t length;

	if (!run_active() || !run_touches(at, 1))
		return 0;
	first = heap_around(at, &length);
	if (!first)
		return 0;
	end = first + length;
	if (at - first > STACK_MOST)
		first = (at - STACK_MOST) & ~(run.page - 1);
	if (end - at > STACK_MOST)
		end = at + STACK_MOST;
	return heap_leave(first, end - first, true);
}

long memory_map(const long a[6], bool ours)
{
	size_t length = (size_t)a[1];
	int flags = (int)a[3];
	void *at;

	if (flags & MAP_FIXED) {
		if (memory_leave((uintptr_t)a[0], length, false) < 0)
			return -ENOMEM;
		return kernel(SYS_mmap, a);
	}
	if (!ours || length < run.min_alloc || a[2] != (PROT_READ | PROT_WRITE) ||
	    (flags & ~ALSO_PLAIN) != PLAIN_FLAGS)
		return kernel(SYS_mmap, a);
	at = heap_alloc(length, run.page, HEAP_MAPPING);
	return at ? (long)(uintptr_t)at : -ENOMEM;
}

long memory_unmap(uintptr_t at, size_t length)
{
	uintptr_t inside = at;
	size_t n = length;

	if (!clip(&inside, &n))
		return gate_call(SYS_munmap, (long)at, (long)length, 0, 0, 0, 0);
	if (at % run.page || length == 0)
		return -EINVAL;
	heap_unmap(inside, n);
	if (at < inside)
		(void)gate_call(SYS_munmap, (long)at, (long)(inside - at), 0, 0, 0, 0);
	if (inside + n < at + length)
		(void)gate_call(SYS_munmap, (long)(inside + n), (long)(at + length - inside - n), 0,
				0, 0, 0);
	return 0;
}

/*
 * A mapping moves to an address that the program chose (MREMAP_FIXED), which is ordinary memory then; or its contents move and it stays,
 * empty (MREMAP_DONTUNMAP).
 */
static long move_mapping(uintptr_t at, size_t old, size_t new, int flags, uintptr_t wanted)
{
	const long fixed[6] = {
		(long)wanted, (long)new, PROT_READ | PROT_WRITE, PLAIN_FLAGS | MAP_FIXED, -1, 0};
	long to;

	if (!(flags & MREMAP_MAYMOVE) || ((flags & MREMAP_DONTUNMAP) && old != new))
		return -EINVAL;
	if ((flags & MREMAP_FIXED) &&
	    (wanted % run.page || (wanted < at + old && at < wanted + new)))
		return -EINVAL;
	if (flags & MREMAP_FIXED)
		to = memory_map(fixed, false);
	else
		to = (long)(uintptr_t)heap_alloc(new, run.page, HEAP_MAPPING);
	if (to <= 0)
		return to ? to : -ENOMEM;
	memcpy((void *)to, (void *)at, old < new ? old : new);
	if (flags & MREMAP_DONTUNMAP)
		heap_clear(at, old);
	else
		heap_unmap(at, old);
	return to;
}

long memory_remap(const long a[6])
{
	uintptr_t at = (uintptr_t)a[0];
	size_t old = (size_t)a[1], new = (size_t)a[2];
	void *to;

	if (!run_active() || !run_touches(at, old ? old : 1)) {
		if (run_active() && (a[3] & MREMAP_FIXED) &&
		    memory_leave((uintptr_t)a[4], new, false) < 0)
			return -ENOMEM;
		return kernel(SYS_mremap, a);
	}
	if (at % run.page || new == 0 || old == 0 || (a[3] & ~(long)MREMAP_ALL))
		return -EINVAL;
	if (a[3] & (MREMAP_FIXED | MREMAP_DONTUNMAP))
		return move_mapping(at, old, new, (int)a[3], (uintptr_t)a[4]);
	if (new <= old) {
		if ((new + run.page - 1) / run.page < (old + run.page - 1) / run.page)
			heap_unmap(at + (new + run.page - 1) / run.page * run.page,
				   old - (new + run.page - 1) / run.page * run.page);
		return (long)at;
	}
	if (heap_length((void *)at, HEAP_MAPPING) == (old + run.page - 1) / run.page * run.page &&
	    heap_resize((void *)at, new))
		return (long)at;
	to = a[3] & MREMAP_MAYMOVE ? heap_alloc(new, run.page, HEAP_MAPPING) : NULL;
	if (!to)
		return -ENOMEM;
	memcpy(to, (void *)at, old);
	heap_unmap(at, old);
	return (long)(uintptr_t)to;
}

long memory_advise(uintptr_t at, size_t length, int advice)
{
	uintptr_t inside = at;
	size_t n = length;

	if (!clip(&inside, &n))
		return gate_call(SYS_madvise, (long)at, (long)length, advice, 0, 0, 0);
	if (at % run.page)
		return -EINVAL;
	if (advice == MADV_WIPEONFORK || advice == MADV_DONTFORK) {
		if (memory_leave(inside, n, true) < 0)
			return -ENOMEM;
		return gate_call(SYS_madvise, (long)at, (long)length, advice, 0, 0, 0);
	}
	if (advice == MADV_KEEPONFORK || advice == MADV_DOFORK)
		return heap_advise_left(inside, n, advice);
	if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE)
		heap_clear(inside, n);
	return 0; /* what is left is about huge pages and speed */
}
