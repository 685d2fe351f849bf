/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(). If the region is on a scratch file of our own, the child has it as of the fork
 * (flat/fork.h); otherwise, or if the copy fails, the child has no region, and an access to it ends
 * the child with a message.
 *
 * The call is made in the handler of SIGSYS, while no other thread is in the library: the child
 * returns from the handler, on its copy of the stack, as its parent does. Locks are taken in this
 * order: actions of signals, heap, fork barrier.
 */
#include "flat/flat_internal.h"
#include "flat/preload/run.h"
#include "flat/preload/heap.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSE_BARRIER_NS UINT64_C(60000000000)
/* Of struct clone_args, as 64-bit words. */
#define CLONE3_WORDS 11
#define CLONE3_STACK 5

static struct flat_fork family;

/*
 * This thread makes a process that shares its table of descriptors (CLONE_FILES): what is closed
 * there is closed here.
 */
static __thread bool shares_files __attribute__((tls_model("initial-exec")));

/* The child's own figures: those of its parent are its parent's. */
static struct run_shared figures;

int child_open(void)
{
	int shared, file, rc;

	if (!run.shared->fork_memory[0])
		return 0;
	shared = open(run.shared->fork_memory, O_RDWR | O_CLOEXEC);
	file = open(run.shared->fork_file, O_RDWR | O_CLOEXEC | O_DIRECT);
	if (file < 0) /* file systems in memory have no such thing */
		file = open(run.shared->fork_file, O_RDWR | O_CLOEXEC);
	if (shared < 0 || file < 0)
		return fth_fail(errno, "cannot open the scratch file again: %s", strerror(errno));
	rc = fork_open(run.flat, &family, shared, file, run.flat->pages * FORK_FACTOR);
	if (rc < 0)
		return fth_fail(-rc, "cannot prepare the region for fork(): %s", strerror(-rc));
	fork_barrier_use();
	return 0;
}

/*
 * In a child without a region. Its addresses stay taken, so that nothing else comes to lie there,
 * and an access is explained. No vector registers: those of the program may still be in use.
 */
__attribute__((target("general-regs-only"))) void direct_forked(void)
{
	__atomic_store_n(&run.active, false, __ATOMIC_RELAXED);
	run.min_alloc = RUN_NEVER;
	(void)direct_call(SYS_mmap, (long)run.start, (long)(run.end - run.start), PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	/* the parent's: it, and its next child, would live as long as this child */
	if (run.flat && run.flat->fork && !shares_files) {
		(void)direct_call(SYS_close, run.flat->fork->slot_fd, 0, 0, 0, 0, 0);
		(void)direct_call(SYS_close, run.flat->fork->spare_fd, 0, 0, 0, 0, 0);
		(void)direct_call(SYS_close, run.flat->fork->child_fd, 0, 0, 0, 0, 0);
	}
}

bool child_can_have_region(long nr, const long a[6])
{
	uint64_t words[CLONE3_WORDS] = {0};

	shares_files = false;
	if (!run.flat->fork || run_borrowed())
		return false;
	if (nr == SYS_fork)
		return true;
	if (nr == SYS_clone && (a[0] & CLONE_FILES)) {
		shares_files = true;
		return false;
	}
	if (nr == SYS_clone)
		return a[1] == 0 && !run_touches((uintptr_t)a[2], 1) &&
		       !run_touches((uintptr_t)a[3], 1);
	if (nr != SYS_clone3 || run_touches((uintptr_t)a[0], 1) ||
	    calls_get(words, (uintptr_t)a[0], sizeof(uint64_t) * 8) < 0)
		return false;
	shares_files = words[0] & CLONE_FILES;
	return words[CLONE3_STACK] == 0 && !shares_files;
}

static void begin_child(uint64_t end, bool has_region)
{
	run.pid = (int)direct_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	memcpy(&figures, run.shared, sizeof(figures));
	run.shared = &figures;
	figures.errors_said = 0;
	figures.pid = run.pid;
	publish_forked();
	calls_forked();
	fork_barrier_forked();
	if (!has_region || fork_become(run.flat, end) < 0 || dispatch_enable() < 0)
		direct_forked();
	dispatch_selector = DISPATCH_ALLOW; /* until the handler returns */
}

/* The numbers of our descriptors may be above a limit that the program has set since. */
static void lift_limit(struct rlimit *before)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, before) < 0) {
		before->rlim_max = 0;
		return;
	}
	most = (struct rlimit){.rlim_cur = before->rlim_max, .rlim_max = before->rlim_max};
	if (before->rlim_cur < (rlim_t)run.fds_end)
		(void)setrlimit(RLIMIT_NOFILE, &most);
}

static void restore_limit(const struct rlimit *before)
{
	if (before->rlim_max > 0 && before->rlim_cur < (rlim_t)run.fds_end)
		(void)setrlimit(RLIMIT_NOFILE, before);
}

long child_make(long nr, const long a[6])
{
	struct rlimit limit;
	bool quiet, has_region;
	uint64_t end;
	long rc;

	signals_freeze();
	end = heap_freeze();
	quiet = fork_barrier_close(fth_deadline_ns(CLOSE_BARRIER_NS));
	lift_limit(&limit);
	has_region = quiet && fork_begin(run.flat, end) == 0;
	rc = direct_call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (rc == 0)
		begin_child(end, has_region);
	else if (has_region)
		fork_end(run.flat);
	restore_limit(&limit); /* of each of the two */
	if (quiet)
		fork_barrier_open();
	heap_thaw();
	signals_thaw();
	return rc;
}
