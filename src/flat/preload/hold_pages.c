/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/preload/calls.h"
#include "flat/preload/heap.h"

#include "fathom/flat.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NESTED	     8 /* calls of a thread, each interrupted by a handler that makes the next */
#define ANY_BYTES    4096u /* what a pointer points to, if nothing else is known */
#define HOLD_WAIT_NS UINT64_C(50000000)
#define LONG_WAITS   200	  /* such waits, where nothing else helps */
#define COPIES	     (256u << 10) /* addresses for copies of a thread, for each nested call */
#define COPIES_KEPT  (32u << 10)  /* of them memory that stays after a call */

static __thread struct {
	unsigned depth;
	struct calls_record records[NESTED];
} own __attribute__((tls_model("initial-exec")));

/* A thread that was cancelled in a call, or left it, ends. */
static pthread_key_t end_key;

/* ---- records ---- */

static void release(struct calls_record *record)
{
	while (record->held_count > 0) {
		const struct calls_range *range = &record->held[--record->held_count];

		if (run_active()) /* not in a child of fork() */
			fth_flat_release(run.flat, (void *)range->at, range->length);
	}
	while (record->large_count > 0) {
		const struct calls_range *range = &record->large[--record->large_count];

		(void)munmap((void *)range->at, range->length);
	}
	if (record->referenced)
		(void)madvise(record->copies, COPIES, MADV_DONTNEED);
	else if (record->copied > COPIES_KEPT)
		(void)madvise(record->copies + COPIES_KEPT, record->copied - COPIES_KEPT,
			      MADV_DONTNEED);
	record->copied = 0;
	record->referenced = false;
}

static void end_thread(void *unused)
{
	struct run_before before = run_enter();

	(void)unused;
	while (own.depth > 0)
		release(&own.records[--own.depth]);
	for (unsigned i = 0; i < NESTED; i++)
		if (own.records[i].copies) {
			(void)munmap(own.records[i].copies, COPIES);
			own.records[i].copies = NULL;
		}
	run_leave(before);
}

int calls_open(void)
{
	return -pthread_key_create(&end_key, end_thread);
}

/* No page is held in the child. Threads of the parent are not here. */
void calls_forked(void)
{
	for (unsigned i = 0; i < NESTED; i++)
		own.records[i].held_count = 0;
}

/* A call whose frame is not below this one on its stack is over. */
static bool is_abandoned(const struct calls_record *record, uintptr_t sp)
{
	bool now = signals_on_stack(sp), then = signals_on_stack(record->sp);

	return now == then ? record->sp <= sp : then;
}

struct calls_record *calls_begin(void)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
	struct calls_record *record;

	if (!pthread_getspecific(end_key))
		(void)pthread_setspecific(end_key, &own); /* an early key: it needs no memory */
	while (own.depth > 0 && is_abandoned(&own.records[own.depth - 1], sp))
		release(&own.records[--own.depth]);
	if (own.depth == NESTED)
		return NULL;
	record = &own.records[own.depth++];
	record->sp = sp;
	return record;
}

void calls_end(struct calls_record *record)
{
	release(record);
	own.depth = (unsigned)(record - own.records);
}

/* ---- memory for copies ---- */

static void *map_room(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void *calls_room(struct calls_record *record, size_t bytes)
{
	void *at;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes >= 4096) /* as O_DIRECT needs it */
		record->copied = (record->copied + 4095) & ~(size_t)4095;
	if (record->copied < COPIES && bytes <= COPIES - record->copied) {
		if (!record->copies)
			record->copies = map_room(COPIES);
		if (!record->copies)
			return NULL;
		at = record->copies + record->copied;
		record->copied += bytes;
		return at;
	}
	at = record->large_count < CALLS_LARGE ? map_room(bytes) : NULL;
	if (at)
		record->large[record->large_count++] = (struct calls_range){(uintptr_t)at, bytes};
	return at;
}

/* ---- holds ---- */

/* Others hold all that may be held: wait for them, not long. */
static int hold_range(const struct calls_range *range, bool write)
{
	uint64_t deadline = fth_deadline_ns(HOLD_WAIT_NS);
	struct fth_backoff backoff = {0};
	int rc;

	for (;;) {
		rc = fth_flat_hold(run.flat, (void *)range->at, range->length, write);
		if (rc != -ENOMEM && rc != -EBUSY)
			return rc < 0 ? -EFAULT : 0;
		if (fth_now_ns() >= deadline)
			return -EBUSY;
		fth_backoff_pause(&backoff);
	}
}

int calls_hold(struct calls_record *record, uintptr_t at, uint64_t length, bool write)
{
	uintptr_t end = length > run.end - at ? run.end : at + length;
	uint64_t page, last;
	int rc;

	if (!run_touches(at, length))
		return 0;
	if (at < run.start)
		at = run.start;
	page = (at - run.start) / run.page;
	last = (end - run.start + run.page - 1) / run.page;
	while (page < last) {
		uint64_t from = heap_foreign(page, last, false),
			 to = heap_foreign(from, last, true);
		struct calls_range one = {run.start + from * run.page, (to - from) * run.page};

		if (from == to)
			break;
		if (record->held_count == CALLS_HOLDS)
			return -EBUSY;
		rc = hold_range(&one, write);
		if (rc < 0 && heap_foreign(from, to, true) < to)
			continue; /* some have left the region meanwhile */
		if (rc < 0)
			return rc;
		record->held[record->held_count++] = one;
		page = to;
	}
	return 0;
}

int calls_hold_arguments(struct calls_record *record, const long a[6], int but)
{
	int rc = 0;

	for (int i = 0; i < 6 && rc == 0; i++) {
		if (i == but || !run_touches((uintptr_t)a[i], 1))
			continue;
		for (unsigned try = 0; try == 0 || (rc == -EBUSY && try < LONG_WAITS); try++)
			rc = calls_hold(record, (uintptr_t)a[i], ANY_BYTES, true);
	}
	return rc < 0 ? -EFAULT : 0;
}

/* ---- the call ---- */

long calls_kernel(long nr, const long a[6], run_mask mask)
{
	long rc;

	dispatch_selector = DISPATCH_BLOCK;
	(void)run_set_mask(mask);
	run_rested();
	rc = direct_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	(void)run_set_mask(~RUN_FAULTS);
	dispatch_selector = DISPATCH_ALLOW;
	return rc;
}
