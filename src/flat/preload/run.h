/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library that `fathom flat run` preloads into a program.
 *
 *	start.c		opens the region before the program's main()
 *	child.c		fork()
 *	spans.c, heap.c	which pages of it are allocated
 *	alloc.c		malloc() and its family
 *	mappings.c	mmap() and its family
 *	syscall_direct_x86.c  system calls that are not caught
 *	dispatch.c	system calls that are
 *	calls.c		system calls whose buffers are in the region, with user_copy.c, exec.c,
 *			hold_pages.c, small_args.c, vectors.c
 *	wrappers.c	the common calls, without a signal
 *	signals.c	the program's own handlers, masks and stacks for signals
 *	run_shared.h	statistics
 *
 * Invariants
 *  1. Nothing here allocates memory by malloc() after start: a fault may come while the program's
 *     allocator holds its locks.
 *  2. A thread whose selector is DISPATCH_ALLOW has all signals blocked but those of faults, or is
 *     in a handler that has: a handler of the program never runs with DISPATCH_ALLOW.
 *  3. SIGBUS, SIGSEGV and SIGSYS are never blocked, and their handlers are ours. What the program
 *     asked for instead is in signals.c.
 *  4. A page is either in the region or foreign: ordinary memory that took its place. Foreign pages
 *     are never passed to `flat`.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_RUN_H
#define FATHOM_SRC_FLAT_PRELOAD_RUN_H

#include "flat/preload/syscall_direct.h"
#include "flat/preload/run_shared.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_EXPORT __attribute__((visibility("default")))
#define RUN_NEVER  SIZE_MAX

struct run {
	bool active; /* atomic: a region is open in this process */
	struct fth_flat *flat;
	int pid; /* of the process that opened it */
	uintptr_t start,
		end; /* addresses of the region; stay after a fork, when it is not active */
	uint64_t page;
	uint64_t chunk;	  /* bytes of a buffer that are held at a time */
	size_t min_alloc; /* RUN_NEVER: no region */
	int fds, fds_end; /* descriptors of the library: [fds, fds_end) */
	struct run_shared *shared;
};

extern struct run run;

static inline bool run_active(void)
{
	return __atomic_load_n(&run.active, __ATOMIC_RELAXED);
}

/* Is it the program that calls, and not the library? */
static inline bool run_program(void)
{
	return run_active() && dispatch_selector == DISPATCH_BLOCK;
}

/* Is this a child that borrows the memory of the program until it becomes another (vfork)? */
static inline bool run_borrowed(void)
{
	return direct_call(39 /* getpid */, 0, 0, 0, 0, 0, 0) != run.pid;
}

/* Does any byte of [at, at + length) belong to the region? */
static inline bool run_touches(uintptr_t at, uint64_t length)
{
	return at < run.end && length > 0 && (at >= run.start || length > run.start - at);
}

static inline void run_count(enum run_count which, uint64_t n)
{
	__atomic_fetch_add(&run.shared->counts[which], n, __ATOMIC_RELAXED);
}

/*
 * Copy the statistics of the region to where others see them, if that is some time ago, or `now`.
 */
void run_publish(bool now);

/* ---- child.c ---- */
/* Children of fork() have the region too, if the launcher says so. After the region was opened. */
int child_open(void);
/*
 * Can this call, which makes a process with a copy of the memory, be made here? Else the child has
 * no region.
 */
bool child_can_have_region(long nr, const long a[6]);
/* Make it. Returns twice, as fork(). */
long child_make(long nr, const long a[6]);
/* Called in the child, by the file that has the lock or the records. */
void publish_forked(void);
void calls_forked(void);

/* ---- signals.c ---- */

/* As the kernel has them. */
typedef uint64_t run_mask;
struct run_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	run_mask mask;
};

#define RUN_BIT(sig) ((run_mask)1 << ((sig)-1))
#define RUN_FAULTS   (RUN_BIT(SIGBUS) | RUN_BIT(SIGSEGV) | RUN_BIT(SIGSYS))

static inline run_mask run_set_mask(run_mask mask)
{
	run_mask before = 0;

	(void)direct_call(14 /* rt_sigprocmask */, SIG_SETMASK, (long)(uintptr_t)&mask,
			  (long)(uintptr_t)&before, sizeof(mask), 0, 0);
	return before;
}

/* Signals that were sent while the library worked in this thread. */
extern __thread bool signals_late __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* The program goes on: send them again. */
void signals_flush(void);
/* Is this a thread of the program? */
extern __thread bool run_own_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline uint8_t run_work(void)
{
	uint8_t before = dispatch_selector;

	run_own_thread |= before == DISPATCH_BLOCK;
	dispatch_selector = DISPATCH_ALLOW;
	return before;
}

/* After the selector and the mask of the program are there again. */
static inline void run_rested(void)
{
	if (dispatch_selector == DISPATCH_BLOCK && __builtin_expect(signals_late, 0))
		signals_flush();
}

/* The library works in between; may be nested. */
struct run_before {
	run_mask mask;
	uint8_t selector;
};

static inline struct run_before run_enter(void)
{
	run_mask mask = run_set_mask(~RUN_FAULTS);

	return (struct run_before){.mask = mask, .selector = run_work()};
}

static inline void run_leave(struct run_before before)
{
	dispatch_selector = before.selector;
	(void)run_set_mask(before.mask);
	run_rested();
}

/* Note what the program has for our signals; before they are taken over. */
void signals_note(void);
/* Take over the handlers of faults and system calls. */
int signals_take(void (*on_call)(int, siginfo_t *, void *));
/* What the program asks for; results are the kernel's. The pointers are those of the program. */
long signals_action(int sig, uintptr_t set, uintptr_t old, size_t size);
long signals_mask(run_mask *mask, int how, uintptr_t set, uintptr_t old, size_t size);
long signals_stack(stack_t *current, uintptr_t set, uintptr_t old);
/* A signal that was raised and is not ours reaches the program as it asked for it. */
void signals_deliver(int sig, siginfo_t *info, void *context);
/* The same for one that was sent: at once, or when the library does not work in this thread. */
void signals_sent(int sig, siginfo_t *info, void *context);
/* Nobody changes what the program asked for in between. */
void signals_freeze(void);
void signals_thaw(void);
/* Is this address on the stack for signals of this thread? */
bool signals_on_stack(uintptr_t sp);

/* ---- calls.c and its helpers, see calls.h ---- */

/* Returns 0 or a negative errno. */
int calls_open(void);
/*
 * Does the call use memory of the region? Where it does not, the kernel can do it alone.
 */
bool calls_touch(long nr, const long a[6]);
/*
 * Do a system call whose buffers are in the region. The library works (run_enter()); the call
 * itself is made with the signal mask `mask`. Returns what the kernel returned.
 */
long calls_do(long nr, const long a[6], run_mask mask);
/* Copies between our memory and the program's, which may be wrong. Returns 0 or -EFAULT. */
int calls_get(void *to, uintptr_t from, size_t length);
int calls_put(uintptr_t to, const void *from, size_t length);

/* ---- mappings.c: results are the kernel's ---- */
long memory_map(const long a[6], bool ours);
long memory_unmap(uintptr_t at, size_t length);
long memory_remap(const long a[6]);
/*
 * shmat() is about to attach a segment there: what of the range is in the region leaves it. Returns
 * 0 or a negative errno.
 */
int memory_attach(int id, uintptr_t at, int flags);
/* shmdt(), for an address of the region. */
long memory_detach(uintptr_t at);
long memory_advise(uintptr_t at, size_t length, int advice);
long memory_sync(uintptr_t at, size_t length, int flags);
/* Is all of the range memory of the region, and nothing that has left it? */
bool memory_is_plain(uintptr_t at, size_t length);
/* The range is to be protected or locked: what of it is in the region leaves it. */
int memory_leave(uintptr_t at, size_t length, bool keep);
/*
 * The same for the allocation that has this address, up to 64 MiB to both sides: a stack. The
 * kernel stores the frame of a signal there, also that of a fault.
 */
int memory_leave_around(uintptr_t at);

/* ---- dispatch.c ---- */
void dispatch_call(int sig, siginfo_t *info, void *context);

#endif
