/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mmap() and its family. Allocators such as jemalloc, and Python's, get their memory by private
 * anonymous mappings: large ones are made in the region. Calls for mappings in the region are
 * carried out here, and never by the kernel, except for uses that are not plain memory: a range
 * that the program protects, locks or maps something over leaves the region.
 */
#include "flat/preload/run.h"
#include "flat/preload/heap.h"

#include "fathom/flat.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#define PLAIN_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS)
#define ALSO_PLAIN  (MAP_NORESERVE | MAP_POPULATE)

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#define PAGE	   ((size_t)4096)	 /* of the system */
#define ADDRESSES  ((size_t)1 << 47)	 /* of a process */
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
	return direct_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static size_t whole_pages(size_t bytes)
{
	return bytes > ADDRESSES ? bytes : (bytes + PAGE - 1) & ~(PAGE - 1);
}

/*
 * A page of the region may be longer than one of the system: then the range has neighbours in it,
 * which keep their contents.
 */
int memory_leave(uintptr_t at, size_t length, bool keep)
{
	length = whole_pages(length);
	if (!clip(&at, &length))
		return 0;
	keep |= at % run.page || (at + length) % run.page;
	return heap_leave(at & ~(run.page - 1), length + at % run.page, keep);
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

bool memory_is_plain(uintptr_t at, size_t length)
{
	return at >= run.start && at < run.end && length <= run.end - at &&
	       heap_has_all(at, length);
}

long memory_sync(uintptr_t at, size_t length, int flags)
{
	uintptr_t inside = at;
	size_t n = length;

	if (clip(&inside, &n) && !heap_has_left(inside, n))
		return 0;
	return direct_call(SYS_msync, (long)at, (long)length, flags, 0, 0, 0);
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

/* Whole pages of the region. What is behind the end of an allocation is nobody's. */
static void unmap_inside(uintptr_t at, uintptr_t end)
{
	size_t length = 0;
	uintptr_t first = end % run.page ? heap_around(end, &length) : 0;

	if (first + length > ((end + run.page - 1) & ~(run.page - 1)))
		end &= ~(run.page - 1);
	at = (at + run.page - 1) & ~(run.page - 1);
	if (at < end)
		heap_unmap(at, end - at);
}

long memory_unmap(uintptr_t at, size_t length)
{
	uintptr_t inside = at;
	size_t n = length = whole_pages(length);

	if (!clip(&inside, &n))
		return direct_call(SYS_munmap, (long)at, (long)length, 0, 0, 0, 0);
	if (at % PAGE || length == 0)
		return -EINVAL;
	unmap_inside(inside, inside + n);
	if (at < inside)
		(void)direct_call(SYS_munmap, (long)at, (long)(inside - at), 0, 0, 0, 0);
	if (inside + n < at + length)
		(void)direct_call(SYS_munmap, (long)(inside + n), (long)(at + length - inside - n),
				  0, 0, 0, 0);
	return 0;
}

/* ---- contents that are dropped ---- */

/* A part of a page of the region, or of one that has left it. */
static void clear_part(uintptr_t at, uintptr_t end)
{
	if (at >= end)
		return;
	if (heap_has_left(at & ~(run.page - 1), 1))
		(void)direct_call(SYS_madvise, (long)at, (long)(end - at), MADV_DONTNEED, 0, 0, 0);
	else
		memset((void *)at, 0, end - at);
}

static void clear_inside(uintptr_t at, uintptr_t end)
{
	uintptr_t first = (at + run.page - 1) & ~(run.page - 1), last = end & ~(run.page - 1);

	if (first > last) {
		clear_part(at, end);
		return;
	}
	clear_part(at, first);
	if (first < last)
		heap_clear(first, last - first);
	clear_part(last, end);
}

/* ---- segments of shared memory ---- */

/* With its contents: the kernel may still refuse. */
int memory_attach(int id, uintptr_t at, int flags)
{
	struct shmid_ds segment;

	if (flags & SHM_RND)
		at &= ~(PAGE - 1);
	if (!(flags & SHM_REMAP) || at % PAGE ||
	    direct_call(SYS_shmctl, id, IPC_STAT, (long)(uintptr_t)&segment, 0, 0, 0) < 0)
		return 0;
	return memory_leave(at, segment.shm_segsz, true);
}

/*
 * Reserve addresses from `at` on where nothing is mapped; returns their end. What another thread
 * maps there meanwhile stays.
 */
static uintptr_t reserve_gap(uintptr_t at, uintptr_t end)
{
	size_t step = end - at;

	while (step >= PAGE) {
		if (direct_call(SYS_mmap, (long)at, (long)step, PROT_NONE,
				PLAIN_FLAGS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
				0) == (long)at)
			at += step;
		else
			step = step / 2 & ~(PAGE - 1);
		step = step < end - at ? step : end - at;
	}
	return at;
}

/* The addresses belong to the region again. */
long memory_detach(uintptr_t at)
{
	long rc = direct_call(SYS_shmdt, (long)at, 0, 0, 0, 0, 0);
	uintptr_t end;

	if (rc < 0)
		return rc;
	end = run.start +
	      heap_foreign((at - run.start) / run.page, (run.end - run.start) / run.page, false) *
		      run.page;
	end = reserve_gap(at, end) & ~(run.page - 1);
	at = (at + run.page - 1) & ~(run.page - 1);
	if (at < end)
		heap_unmap(at, end - at);
	return 0;
}

/* ---- mappings that move ---- */

struct remap {
	uintptr_t at, wanted;
	size_t old, new; /* in whole pages of the system: so is what the kernel moves */
	int flags;
};

/* What the kernel refuses before it does anything. */
static int check_remap(const struct remap *r)
{
	if (r->at % run.page || r->new == 0 || r->old == 0 || (r->flags & ~MREMAP_ALL))
		return -EINVAL;
	if (r->old > run.end - r->at)
		return -EFAULT;
	if (r->new > ADDRESSES)
		return -ENOMEM;
	if (!(r->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)))
		return 0;
	if (!(r->flags & MREMAP_MAYMOVE) || ((r->flags & MREMAP_DONTUNMAP) && r->old != r->new))
		return -EINVAL;
	if ((r->flags & MREMAP_FIXED) &&
	    (r->wanted % PAGE || r->wanted > ADDRESSES - r->new ||
	     (r->wanted < r->at + r->old && r->at < r->wanted + r->new)))
		return -EINVAL;
	return 0;
}

/*
 * A mapping moves to an address that the program chose (MREMAP_FIXED), which is ordinary memory
 * then; or its contents move and it stays, empty (MREMAP_DONTUNMAP).
 */
static long move_mapping(const struct remap *r)
{
	const long fixed[6] = {(long)r->wanted,		(long)r->new, PROT_READ | PROT_WRITE,
			       PLAIN_FLAGS | MAP_FIXED, -1,	      0};
	long to;

	if (r->flags & MREMAP_FIXED)
		to = memory_map(fixed, false);
	else
		to = (long)(uintptr_t)heap_alloc(r->new, run.page, HEAP_MAPPING);
	if (to <= 0)
		return to ? to : -ENOMEM;
	memcpy((void *)to, (void *)r->at, r->old < r->new ? r->old : r->new);
	if (r->flags & MREMAP_DONTUNMAP)
		clear_inside(r->at, r->at + r->old);
	else
		unmap_inside(r->at, r->at + r->old);
	return to;
}

/*
 * The same for what is not the region's any more: a file that the program mapped there, or memory
 * that it protected. The kernel moves it as it is, and its addresses belong to the region again.
 */
static long move_left(const struct remap *r)
{
	long to;

	if ((r->flags & MREMAP_FIXED) && memory_leave(r->wanted, r->new, false) < 0)
		return -ENOMEM;
	to = direct_call(SYS_mremap, (long)r->at, (long)r->old, (long)r->new, r->flags,
			 (long)r->wanted, 0);
	if (to > 0 && to != (long)r->at && !(r->flags & MREMAP_DONTUNMAP))
		unmap_inside(r->at, r->at + r->old);
	return to;
}

static long change_length(const struct remap *r)
{
	void *to;

	if (r->new <= r->old) {
		size_t kept = (r->new + run.page - 1) / run.page * run.page;

		if (kept < (r->old + run.page - 1) / run.page * run.page)
			unmap_inside(r->at + kept, r->at + r->old);
		return (long)r->at;
	}
	if (heap_length((void *)r->at, HEAP_MAPPING) ==
		    (r->old + run.page - 1) / run.page * run.page &&
	    heap_resize((void *)r->at, r->new))
		return (long)r->at;
	to = r->flags & MREMAP_MAYMOVE ? heap_alloc(r->new, run.page, HEAP_MAPPING) : NULL;
	if (!to)
		return -ENOMEM;
	memcpy(to, (void *)r->at, r->old);
	unmap_inside(r->at, r->at + r->old);
	return (long)(uintptr_t)to;
}

long memory_remap(const long a[6])
{
	struct remap r = {.at = (uintptr_t)a[0],
			  .wanted = (uintptr_t)a[4],
			  .old = whole_pages((size_t)a[1]),
			  .new = whole_pages((size_t)a[2]),
			  .flags = (int)a[3]};
	bool moves = r.flags & (MREMAP_FIXED | MREMAP_DONTUNMAP);
	long rc;

	if (!run_active() || !run_touches(r.at, r.old ? r.old : 1)) {
		if (run_active() && (r.flags & MREMAP_FIXED) &&
		    memory_leave(r.wanted, r.new, false) < 0)
			return -ENOMEM;
		return kernel(SYS_mremap, a);
	}
	rc = check_remap(&r);
	if (rc < 0)
		return rc;
	if ((moves || r.new > r.old) && heap_has_left(r.at, r.old)) {
		rc = move_left(&r);
		if (rc != -EFAULT) /* it is in pieces: they left one by one */
			return rc;
	}
	return moves ? move_mapping(&r) : change_length(&r);
}

/* ---- advice ---- */

long memory_advise(uintptr_t at, size_t length, int advice)
{
	uintptr_t inside = at;
	size_t n = length;

	if (!clip(&inside, &n))
		return direct_call(SYS_madvise, (long)at, (long)length, advice, 0, 0, 0);
	if (at % PAGE)
		return -EINVAL;
	n = whole_pages(n);
	if (heap_has_left(inside, n)) /* as the program made it: a file, perhaps */
		return direct_call(SYS_madvise, (long)at, (long)length, advice, 0, 0, 0);
	if (advice == MADV_WIPEONFORK || advice == MADV_DONTFORK || advice == MADV_GUARD_INSTALL) {
		if (memory_leave(inside, n, true) < 0)
			return -ENOMEM;
		return direct_call(SYS_madvise, (long)at, (long)length, advice, 0, 0, 0);
	}
	if (advice == MADV_KEEPONFORK || advice == MADV_DOFORK)
		return heap_advise_left(inside, n, advice);
	if (advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE ||
	    advice == MADV_REMOVE)
		clear_inside(inside, inside + n);
	return 0; /* what is left is about huge pages and speed */
}
