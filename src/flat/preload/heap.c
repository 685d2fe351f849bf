/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/preload/heap.h"
#include "flat/flat_internal.h"
#include "flat/preload/run.h"
#include "flat/preload/spans.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALIGNED_FROM \
	(2u          \
	 << 20) /* allocations of this size begin at a multiple of it, as allocators above us like it */

#define LEAVE_MANY 64u /* pages that leave the region together */

static struct {
	uint32_t lock;
	struct spans spans;
	uint32_t virgin;     /* pages from here on were never allocated */
	uint64_t foreigners; /* pages that are donated, or about to be */
	uint64_t leaves;
} heap;

int heap_open(void)
{
	return spans_open(&heap.spans, (uint32_t)run.flat->pages);
}

/* ---- pages ---- */

static struct run_before lock_heap(void)
{
	struct run_before before = run_enter();

	futex_lock(&heap.lock);
	return before;
}

static void unlock_heap(struct run_before before)
{
	futex_unlock(&heap.lock);
	run_leave(before);
}

/* The caller is in the library already. */
uint64_t heap_freeze(void)
{
	futex_lock(&heap.lock);
	return heap.virgin;
}

void heap_thaw(void)
{
	futex_unlock(&heap.lock);
}

static uint64_t pages_of(size_t bytes)
{
	return bytes > run.end - run.start ? UINT32_MAX : (bytes + run.page - 1) / run.page;
}

static uint32_t page_at(uintptr_t at)
{
	return (uint32_t)((at - run.start) / run.page);
}

static void *address_of(uint64_t page)
{
	return (void *)(run.start + page * run.page);
}

static void count_bytes(void)
{
	uint64_t bytes = (uint64_t)heap.spans.used_pages * run.page;
	uint64_t *counts = run.shared->counts;

	__atomic_store_n(&counts[RUN_BYTES], bytes, __ATOMIC_RELAXED);
	if (bytes > counts[RUN_BYTES_MOST])
		__atomic_store_n(&counts[RUN_BYTES_MOST], bytes, __ATOMIC_RELAXED);
}

/* Pages that are allocated for the first time are zero, whatever the device holds. */
static void use_virgins(uint32_t end)
{
	if (end > heap.virgin) {
		discard_pages(run.flat, heap.virgin, end);
		heap.virgin = end;
	}
}

/* ---- foreign pages ---- */

uint64_t heap_leaves(void)
{
	return __atomic_load_n(&heap.leaves, __ATOMIC_RELAXED);
}

uint64_t heap_foreign(uint64_t page, uint64_t end, bool foreign)
{
	if (__atomic_load_n(&heap.foreigners, __ATOMIC_RELAXED) == 0)
		return foreign ? end : page;
	while (page < end && word_is_donated(&run.flat->words[page]) != foreign)
		page++;
	return page;
}

/* Pages that are no longer allocated belong to the region again, and are zero. */
static void drop_pages(uint64_t page, uint64_t end)
{
	while (page < end) {
		uint64_t foreign = heap_foreign(page, end, true),
			 behind = heap_foreign(foreign, end, false);

		discard_pages(run.flat, page, foreign);
		if (foreign < behind && donate_end(run.flat, foreign, behind) == 0)
			__atomic_fetch_sub(&heap.foreigners, behind - foreign, __ATOMIC_RELAXED);
		page = behind;
	}
}

/* ---- allocations ---- */

void *heap_alloc(size_t bytes, size_t align, enum heap_kind kind)
{
	uint64_t pages = pages_of(bytes ? bytes : 1);
	uint32_t first = SPANS_NONE, unit = 1;
	struct run_before before;

	if (align < ALIGNED_FROM && bytes >= ALIGNED_FROM)
		align = ALIGNED_FROM;
	if (align > run.page)
		unit = (uint32_t)(align / run.page);
	before = lock_heap();
	if (pages < UINT32_MAX && align <= run.end - run.start)
		first = spans_alloc(&heap.spans, (uint32_t)pages, unit,
				    (uint32_t)(run.start / run.page % unit));
	if (first != SPANS_NONE) {
		use_virgins(first + (uint32_t)pages);
		spans_mark(&heap.spans, first, kind);
		run_count(RUN_ALLOCATIONS, 1);
		count_bytes();
	} else {
		run_count(RUN_FULL, 1);
	}
	run_publish(false);
	unlock_heap(before);
	return first == SPANS_NONE ? NULL : address_of(first);
}

/* No lock: only the owner of an allocation changes it. */
size_t heap_length(const void *at, enum heap_kind kind)
{
	uint32_t first = page_at((uintptr_t)at);

	if (((uintptr_t)at - run.start) % run.page ||
	    spans_marked(&heap.spans, first) != (uint32_t)kind)
		return 0;
	return (size_t)spans_length(&heap.spans, first) * run.page;
}

uintptr_t heap_around(uintptr_t at, size_t *length)
{
	struct run_before before = lock_heap();
	uint32_t first = spans_find(&heap.spans, page_at(at));

	*length = first == SPANS_NONE ? 0 : (size_t)spans_length(&heap.spans, first) * run.page;
	unlock_heap(before);
	return *length ? (uintptr_t)address_of(first) : 0;
}

void heap_free(void *at)
{
	uint32_t first = page_at((uintptr_t)at), pages;
	struct run_before before = lock_heap();

	pages = spans_length(&heap.spans, first);
	if (pages) {
		drop_pages(first, (uint64_t)first + pages);
		spans_free(&heap.spans, first);
		count_bytes();
	}
	unlock_heap(before);
}

bool heap_resize(void *at, size_t bytes)
{
	uint64_t pages = pages_of(bytes ? bytes : 1);
	uint32_t first = page_at((uintptr_t)at), old;
	struct run_before before = lock_heap();
	bool done = false;

	old = spans_length(&heap.spans, first);
	if (old && pages < UINT32_MAX) {
		done = spans_grow(&heap.spans, first, (uint32_t)pages);
		if (done && pages < old) {
			spans_cut(&heap.spans, first, (uint32_t)pages);
			drop_pages(first + pages, (uint64_t)first + old);
			spans_free(&heap.spans, first + (uint32_t)pages);
		} else if (done) {
			use_virgins(first + (uint32_t)pages);
		}
		count_bytes();
	}
	unlock_heap(before);
	return done;
}

void heap_unmap(uintptr_t at, size_t length)
{
	uint32_t page = page_at(at), end = page + (uint32_t)pages_of(length);
	struct run_before before = lock_heap();

	while (page < end) {
		uint32_t first = spans_find(&heap.spans, page), pages;

		if (first == SPANS_NONE) {
			page++;
			continue;
		}
		pages = heap.spans.nodes[first].pages;
		if (first < page) { /* the front stays */
			spans_cut(&heap.spans, first, page - first);
			pages -= page - first;
		}
		if (pages > end - page) { /* the back stays */
			spans_cut(&heap.spans, page, end - page);
			pages = end - page;
		}
		drop_pages(page, (uint64_t)page + pages);
		spans_free(&heap.spans, page);
		page += pages;
	}
	count_bytes();
	unlock_heap(before);
}

void heap_clear(uintptr_t at, size_t length)
{
	uint64_t page = page_at(at), end = page + pages_of(length);
	struct run_before before = lock_heap();

	while (page < end) {
		uint64_t foreign = heap_foreign(page, end, true),
			 behind = heap_foreign(foreign, end, false);

		discard_pages(run.flat, page, foreign);
		if (foreign < behind)
			(void)madvise(address_of(foreign), (behind - foreign) * run.page,
				      MADV_DONTNEED);
		page = behind;
	}
	unlock_heap(before);
}

static bool are_all(uintptr_t at, size_t length, bool foreign)
{
	uint64_t page = page_at(at), end = page + pages_of(length);
	struct run_before before = lock_heap();
	bool all = heap_foreign(page, end, !foreign) == end;

	unlock_heap(before);
	return all;
}

bool heap_has_left(uintptr_t at, size_t length)
{
	return are_all(at, length, true);
}

bool heap_has_all(uintptr_t at, size_t length)
{
	return are_all(at, length, false);
}

int heap_advise_left(uintptr_t at, size_t length, int advice)
{
	uint64_t page = page_at(at), end = page + pages_of(length);
	struct run_before before = lock_heap();
	int rc = 0;

	while (page < end && rc == 0) {
		uint64_t foreign = heap_foreign(page, end, true);

		page = heap_foreign(foreign, end, false);
		if (foreign < page &&
		    madvise(address_of(foreign), (page - foreign) * run.page, advice) < 0)
			rc = -errno;
	}
	unlock_heap(before);
	return rc;
}

/*
 * New memory for pages from `first` on, in one piece: the kernel joins neighbours only if they come
 * from neighbours.
 */
static void drop_memory(uint8_t *memory, uint64_t first, uint64_t page, uint64_t end)
{
	if (page < end)
		(void)munmap(memory + (page - first) * run.page, (end - page) * run.page);
}

int heap_leave(uintptr_t at, size_t length, bool keep)
{
	uint64_t page = page_at(at), end = page + pages_of(length), first = page;
	struct run_before before = lock_heap();
	uint8_t *memory = mmap(NULL, (end - page) * run.page, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int rc = memory == MAP_FAILED ? -ENOMEM : 0;

	while (page < end && rc == 0) {
		uint64_t from = heap_foreign(page, end, false), to;

		drop_memory(memory, first, page, from);
		page = from;
		to = heap_foreign(from, end - from < LEAVE_MANY ? end : from + LEAVE_MANY, true);
		if (from == to)
			break;
		/* before they are foreign: see heap_foreign() */
		__atomic_fetch_add(&heap.foreigners, to - from, __ATOMIC_RELAXED);
		rc = donate_pages(run.flat, from, to, keep, memory + (from - first) * run.page);
		if (rc < 0)
			__atomic_fetch_sub(&heap.foreigners, to - from, __ATOMIC_RELAXED);
		else
			run_count(RUN_LEFT, (to - from) * run.page);
		__atomic_fetch_add(&heap.leaves, 1, __ATOMIC_RELAXED);
		if (rc == 0 || rc == -ETIMEDOUT)
			page = to; /* moved; or lost, since a read may still arrive there */
	}
	if (memory != MAP_FAILED)
		drop_memory(memory, first, page, end);
	unlock_heap(before);
	return rc < 0 ? -ENOMEM : 0;
}
