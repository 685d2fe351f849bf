/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Before main(): the region is opened, in the process that `fathom flat run` started and in what it
 * becomes by exec(), and in no other. Settings and errors go through the memfd that the environment
 * names.
 */
#include "flat/flat_internal.h"
#include "flat/preload/heap.h"
#include "flat/preload/run.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK_MOST (1u << 20)
#define FDS_MOST   960 /* below the limit of 1024 that many programs have */
#define FDS_ROOM   128
#define PUBLISH_NS UINT64_C(20000000)

struct run run = {.min_alloc = RUN_NEVER};
static uint32_t publishing;

void publish_forked(void)
{
	publishing = 0;
}

void run_publish(bool now)
{
	static uint64_t last;
	uint64_t time = fth_now_ns();

	if ((!now && time - __atomic_load_n(&last, __ATOMIC_RELAXED) < PUBLISH_NS) ||
	    !futex_try_lock(&publishing))
		return;
	for (int i = 0; i < FTH_FLAT_STAT_COUNT && i < RUN_STATS; i++)
		__atomic_store_n(&run.shared->flat[i],
				 fth_flat_stat(run.flat, (enum fth_flat_stat)i), __ATOMIC_RELAXED);
	__atomic_store_n(&last, time, __ATOMIC_RELAXED);
	futex_unlock(&publishing);
}

/* ---- settings ---- */

/* Is this process meant? A child of it has the same environment. */
static bool find_settings(void)
{
	const char *path = getenv(RUN_VARIABLE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	struct run_shared *shared;

	if (fd < 0)
		return false;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (shared == MAP_FAILED)
		return false;
	if (shared->magic != RUN_MAGIC || shared->pid != getpid()) {
		munmap(shared, sizeof(*shared));
		return false;
	}
	run.shared = shared;
	return true;
}

__attribute__((noreturn)) static void fail(int rc)
{
	snprintf(run.shared->failure, sizeof(run.shared->failure), "%s", fth_error_text(rc));
	__atomic_store_n(&run.shared->state, RUN_FAILED, __ATOMIC_RELEASE);
	_exit(1);
}

/* ---- descriptors: high ones, out of the program's way ---- */

static int first_fd(void)
{
	struct rlimit limit = {.rlim_cur = 1024};

	(void)getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < 2 * FDS_ROOM)
		return (int)limit.rlim_cur / 2;
	return limit.rlim_cur - FDS_ROOM < FDS_MOST ? (int)limit.rlim_cur - FDS_ROOM : FDS_MOST;
}

/* Occupy all free numbers below `end`; they are marked in `taken`. */
static void fill_fds(int end, uint64_t taken[FDS_MOST / 64 + 1])
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = null;

	while (fd >= 0 && fd < end) {
		taken[fd / 64] |= (uint64_t)1 << (fd % 64);
		fd = fcntl(null, F_DUPFD_CLOEXEC, 0);
	}
	if (fd >= end)
		close(fd);
}

static void empty_fds(int end, const uint64_t taken[FDS_MOST / 64 + 1])
{
	for (int fd = 0; fd < end; fd++)
		if (taken[fd / 64] >> (fd % 64) & 1)
			close(fd);
}

/* The first number at or after `fd` that is not open. */
static int end_of_fds(int fd)
{
	while (fcntl(fd, F_GETFD) >= 0)
		fd++;
	return fd;
}

/* ---- the region ---- */

static int open_region(void)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	uint64_t taken[FDS_MOST / 64 + 1] = {0};
	int rc, memfd;

	options.page = run.shared->page;
	options.policy = (enum fth_flat_policy)run.shared->policy;
	if (run.shared->fork_memory[0]) /* the file is longer, see flat/fork.h */
		options.length = run.shared->size;
	run.fds = first_fd();
	fill_fds(run.fds, taken);
	/* `fathom flat stat` looks for it */
	memfd = open(getenv(RUN_VARIABLE), O_RDWR | O_CLOEXEC);
	rc = memfd < 0 ? -errno
		       : fth_flat_open(run.shared->uri, run.shared->dram, &options, &run.flat);
	if (rc == 0)
		rc = child_open();
	run.fds_end = end_of_fds(run.fds);
	empty_fds(run.fds, taken);
	return rc;
}

static int start(void)
{
	int rc;

	run.pid = getpid();
	signals_note();
	(void)run_set_mask(run_set_mask(~RUN_FAULTS) & ~RUN_FAULTS);
	rc = open_region();
	if (rc < 0)
		return rc;
	run.page = run.flat->map.page;
	run.start = (uintptr_t)fth_flat_base(run.flat);
	run.end = run.start + fth_flat_size(run.flat) / run.page * run.page;
	run.chunk = run.shared->dram / 16 < CHUNK_MOST ? run.shared->dram / 16 : CHUNK_MOST;
	if (run.chunk > run.page)
		run.chunk -= run.chunk % run.page; /* as O_DIRECT needs it */
	rc = heap_open();
	if (rc == 0)
		rc = calls_open();
	if (rc == 0)
		rc = signals_take(dispatch_call);
	if (rc < 0)
		return rc;
	__atomic_store_n(&run.shared->state, RUN_GOES_ON, __ATOMIC_RELEASE);
	__atomic_store_n(&run.active, true, __ATOMIC_RELAXED);
	run.min_alloc = run.shared->min_alloc;
	rc = dispatch_enable();
	return rc < 0 ? fth_fail(-rc, "cannot enable syscall user dispatch: %s", strerror(-rc)) : 0;
}

__attribute__((constructor)) static void start_run(void)
{
	int saved = errno, rc;

	if (find_settings()) {
		rc = start();
		if (rc < 0)
			fail(rc);
	}
	errno = saved;
}

__attribute__((destructor)) static void end_run(void)
{
	if (run_active())
		run_publish(true);
}
