/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that were caught, by SIGSYS. One that does not use the region is made by the program
 * itself, at a direct site, with all registers and with its own signal mask: it can block, be
 * interrupted and restarted, and make children. One that does is made here. Those that would take
 * from us what we need (handlers, masks, descriptors) are carried out as far as they concern the
 * program.
 */
#include "flat/preload/run.h"

#include <errno.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

/* Newer than some headers. */
#ifndef SYS_USER_DISPATCH
#define SYS_USER_DISPATCH 2
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#define PR_SET_SYSCALL_USER_DISPATCH_ 59
#define NOT_HERE		      LONG_MIN /* no result: the program makes the call */

struct caught {
	ucontext_t *context;
	long nr, a[6];
	run_mask *mask; /* of the program, as it will be when the handler returns */
};

static void read_call(struct caught *c, void *context)
{
	const greg_t *r;

	c->context = context;
	c->mask = (run_mask *)&c->context->uc_sigmask;
	r = c->context->uc_mcontext.gregs;
	c->nr = r[REG_RAX];
	c->a[0] = r[REG_RDI];
	c->a[1] = r[REG_RSI];
	c->a[2] = r[REG_RDX];
	c->a[3] = r[REG_R10];
	c->a[4] = r[REG_R8];
	c->a[5] = r[REG_R9];
}

/* ---- masks for the time of a call ---- */

/*
 * Such a mask is in force also while a handler of the program runs, so it must not block our
 * signals. `pair`: the argument points to a pointer and a size.
 */
static long with_mask(struct caught *c, int argument, bool pair)
{
	struct {
		uintptr_t at;
		size_t size;
	} where = {(uintptr_t)c->a[argument], sizeof(run_mask)};
	run_mask mask;

	if (!where.at || (pair && calls_get(&where, where.at, sizeof(where)) < 0) || !where.at ||
	    calls_get(&mask, where.at, sizeof(mask)) < 0 ||
	    (!(mask & RUN_FAULTS) && !run_touches(where.at, sizeof(mask))))
		return NOT_HERE;
	mask &= ~RUN_FAULTS;
	where.at = (uintptr_t)&mask;
	c->a[argument] = pair ? (long)(uintptr_t)&where : (long)(uintptr_t)&mask;
	return calls_do(c->nr, c->a, *c->mask);
}

/* ---- descriptors ---- */

static bool is_our_fd(long fd)
{
	return fd >= run.fds && fd < run.fds_end;
}

static long close_range_around(const long a[6])
{
	unsigned first = (unsigned)a[0], last = (unsigned)a[1];
	unsigned ours = (unsigned)run.fds, end = (unsigned)run.fds_end;
	long rc = 0;

	if (first >= end || last < ours || first > last)
		return NOT_HERE;
	if (first < ours)
		rc = direct_call(SYS_close_range, first, ours - 1, a[2], 0, 0, 0);
	if (rc == 0 && last >= end)
		rc = direct_call(SYS_close_range, end, last, a[2], 0, 0, 0);
	return rc;
}

/* ---- children ---- */

static enum direct_kind kind_of_clone(const struct caught *c)
{
	uint64_t flags = (uint64_t)c->a[0];

	if (c->nr == SYS_fork)
		return DIRECT_FORK;
	if (c->nr == SYS_vfork)
		return DIRECT_SHARE;
	if (c->nr == SYS_clone3 && calls_get(&flags, (uintptr_t)c->a[0], sizeof(flags)) < 0)
		return DIRECT_PLAIN;
	if (!(flags & CLONE_VM))
		return DIRECT_FORK;
	/* others would use thread-local memory at the same time as this thread */
	return (flags & (CLONE_SETTLS | CLONE_VFORK)) ? DIRECT_SHARE : DIRECT_PLAIN;
}

#define CLONE3_STACK_AT 40 /* in struct clone_args */

/* The stack of a thread that is made may be memory of the region. */
static void take_out_stack(const struct caught *c)
{
	uint64_t stack = c->nr == SYS_clone && c->a[1] ? (uint64_t)c->a[1] - 1 : 0;

	if (c->nr == SYS_clone3)
		(void)calls_get(&stack, (uintptr_t)c->a[0] + CLONE3_STACK_AT, sizeof(stack));
	if (stack)
		(void)memory_leave_around((uintptr_t)stack);
}

/* ---- one call ---- */

static long protect(const long a[6])
{
	if (a[2] == (PROT_READ | PROT_WRITE) && memory_is_plain((uintptr_t)a[0], (size_t)a[1]))
		return 0; /* that is what it is */
	if (memory_leave((uintptr_t)a[0], (size_t)a[1], true) < 0)
		return -ENOMEM;
	return NOT_HERE;
}

/* What concerns us; NOT_HERE for everything else. */
static long carry_out(struct caught *c)
{
	const long *a = c->a;

	switch (c->nr) {
	case SYS_rt_sigaction:
		return signals_action((int)a[0], (uintptr_t)a[1], (uintptr_t)a[2], (size_t)a[3]);
	case SYS_rt_sigprocmask:
		return signals_mask(c->mask, (int)a[0], (uintptr_t)a[1], (uintptr_t)a[2],
				    (size_t)a[3]);
	case SYS_sigaltstack:
		return signals_stack(&c->context->uc_stack, (uintptr_t)a[0], (uintptr_t)a[1]);
	case SYS_rt_sigsuspend:
		return with_mask(c, 0, false);
	case SYS_ppoll:
		return with_mask(c, 3, false);
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return with_mask(c, 4, false);
	case SYS_pselect6:
		return with_mask(c, 5, true);
	case SYS_mmap:
		return a[3] & MAP_FIXED ? memory_map(a, false) : NOT_HERE;
	case SYS_munmap:
		return run_touches((uintptr_t)a[0], (uint64_t)a[1])
			       ? memory_unmap((uintptr_t)a[0], (size_t)a[1])
			       : NOT_HERE;
	case SYS_mremap:
		return run_touches((uintptr_t)a[0], 1) || (a[3] & MREMAP_FIXED) ? memory_remap(a)
										: NOT_HERE;
	case SYS_madvise:
		return run_touches((uintptr_t)a[0], (uint64_t)a[1])
			       ? memory_advise((uintptr_t)a[0], (size_t)a[1], (int)a[2])
			       : NOT_HERE;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		return protect(a);
	case SYS_shmat:
		return memory_attach((int)a[0], (uintptr_t)a[1], (int)a[2]) < 0 ? -ENOMEM
										: NOT_HERE;
	case SYS_shmdt:
		return run_touches((uintptr_t)a[0], 1) ? memory_detach((uintptr_t)a[0]) : NOT_HERE;
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_mseal:
		return memory_leave((uintptr_t)a[0], (size_t)a[1], true) < 0 ? -ENOMEM : NOT_HERE;
	case SYS_mlockall: /* the region cannot be locked: that is what it is for */
		return -ENOMEM;
	case SYS_msync:
		return run_touches((uintptr_t)a[0], (uint64_t)a[1])
			       ? memory_sync((uintptr_t)a[0], (size_t)a[1], (int)a[2])
			       : NOT_HERE;
	case SYS_io_setup: /* the kernel would use buffers after the call */
	case SYS_io_uring_setup:
	/* it may be advice on this process, and pages would go unnoticed */
	case SYS_process_madvise:
		return -ENOSYS;
	case SYS_prctl:
		return a[0] == PR_SET_SYSCALL_USER_DISPATCH_ ? -EINVAL : NOT_HERE;
	case SYS_close:
		return is_our_fd(a[0]) ? -EBADF : NOT_HERE;
	case SYS_dup2:
	case SYS_dup3:
		return is_our_fd(a[1]) ? -EBADF : NOT_HERE;
	case SYS_close_range:
		return close_range_around(a);
	default:
		return NOT_HERE;
	}
}

/* Calls for which the arguments are no buffers. */
static bool takes_no_buffer(long nr)
{
	switch (nr) {
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
	case SYS_rt_sigreturn:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_mmap:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_munlock:
	case SYS_madvise:
	case SYS_shmat:
	case SYS_shmdt:
	case SYS_remap_file_pages:
	case SYS_mseal:
	case SYS_brk:
	case SYS_set_robust_list:
	case SYS_set_tid_address:
	case SYS_rseq:
		return true;
	default:
		return false;
	}
}

static bool makes_child(long nr)
{
	return nr == SYS_clone || nr == SYS_clone3 || nr == SYS_fork || nr == SYS_vfork;
}

static bool is_fork(const struct caught *c)
{
	return makes_child(c->nr) && kind_of_clone(c) == DIRECT_FORK;
}

/* The program makes the call itself when the handler returns. Returns false if no site is left. */
static bool send_to_site(struct caught *c)
{
	greg_t *rip = &c->context->uc_mcontext.gregs[REG_RIP];
	uintptr_t site =
		direct_site(makes_child(c->nr) ? kind_of_clone(c) : DIRECT_PLAIN, (uintptr_t)*rip);

	if (site)
		*rip = (greg_t)site;
	return site != 0;
}

static void handle_call(struct caught *c)
{
	long rc = carry_out(c);

	if (c->nr == SYS_clone || c->nr == SYS_clone3)
		take_out_stack(c);
	if (rc == NOT_HERE && is_fork(c) && child_can_have_region(c->nr, c->a))
		rc = child_make(c->nr, c->a);
	if (rc == NOT_HERE && (c->nr == SYS_exit_group || c->nr == SYS_execve))
		run_publish(true);
	if (rc == NOT_HERE && (takes_no_buffer(c->nr) || !calls_touch(c->nr, c->a)) &&
	    send_to_site(c))
		return;
	if (rc == NOT_HERE)
		rc = calls_do(c->nr, c->a, *c->mask);
	c->context->uc_mcontext.gregs[REG_RAX] = rc;
}

void dispatch_call(int sig, siginfo_t *info, void *context)
{
	int saved = errno;
	struct caught c;

	if (info->si_code != SYS_USER_DISPATCH) {
		if (info->si_code <= 0)
			signals_sent(sig, info, context);
		else
			signals_deliver(sig, info, context);
		return;
	}
	(void)run_work();
	run_count(RUN_CALLS, 1);
	read_call(&c, context);
	handle_call(&c);
	dispatch_selector = DISPATCH_BLOCK;
	run_rested();
	errno = saved;
}
