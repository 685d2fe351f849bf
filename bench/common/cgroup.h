/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Run a function in a child process that may use only so much memory, page cache included: what a
 * peer that lets the kernel page is given when ours has a cache of that size.
 *
 *	static int peer(void *context, void *result) { ... }
 *
 *	struct fth_cgroup_job job = {.memory = 64 << 20, .fn = peer, .context = &in,
 *				     .result = &out, .result_size = sizeof(out)};
 *	struct fth_cgroup_usage usage;
 *
 *	rc = fth_cgroup_run(&job, &usage);
 *
 * The memory controller of either version of cgroups does; it needs the right to make a group,
 * which as a rule means root.
 */
#ifndef FTH_BENCH_CGROUP_H
#define FTH_BENCH_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fth_cgroup_job {
	uint64_t memory; /* bytes: the process's own, its page tables and the page cache it fills */
	/* Runs in the child; the parent's memory is there, as a copy. Returns 0 or a negative errno
	 * with an error text, both of which reach the caller. */
	int (*fn)(void *context, void *result);
	void *context;
	void *result; /* of the caller; what fn writes to its `result` ends up here */
	size_t result_size;
	bool swap;	       /* the kernel may swap it out */
	bool (*stopped)(void); /* ends the wait and the child: fth_cli_stopped; NULL for never */
};

/* What the kernel counted of the child. */
struct fth_cgroup_usage {
	uint64_t bytes_read;	/* from storage, by page faults and read-ahead as well */
	uint64_t bytes_written; /* pages made dirty, and direct writes */
	uint64_t major_faults;
	uint64_t peak; /* bytes of memory; 0 where the kernel does not say */
};

/*
 * 0, or fn's error, or -EINTR when it was stopped, -ENOMEM when the kernel killed it for memory,
 * -ENOTSUP with a reason when there is no such group to be had here. usage may be NULL. Call while
 * the process has one thread, as with any fork().
 */
int fth_cgroup_run(const struct fth_cgroup_job *job, struct fth_cgroup_usage *usage);

/* 0, or -ENOTSUP with a reason: can fth_cgroup_run() work here? */
int fth_cgroup_available(void);

/*
 * Write a file out and drop it from the page cache, so that the next to read it pays for it: pages
 * that are there are charged to whoever brought them in, not to a child that finds them.
 */
int fth_cgroup_drop_pages(const char *path);

#endif
