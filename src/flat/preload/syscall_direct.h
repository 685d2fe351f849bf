/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that are not dispatched to us. Syscall user dispatch (prctl
 * PR_SET_SYSCALL_USER_DISPATCH) raises SIGSYS for every system call of a thread, except from one
 * range of addresses. The direct range is that one.
 *
 * It holds: direct_call(), for our own calls; the restorer of signal handlers; and sites. A site is
 * a system call instruction and a jump back to where the program made the call. The handler of
 * SIGSYS lets the program go on at a site with all its registers, so that clone(), vfork(),
 * rt_sigreturn() and calls that block behave as if they had not been caught.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_SYSCALL_DIRECT_H
#define FATHOM_SRC_FLAT_PRELOAD_SYSCALL_DIRECT_H

#include <stdint.h>

#define DISPATCH_ALLOW 0
#define DISPATCH_BLOCK 1

/*
 * DISPATCH_BLOCK: system calls of this thread outside the direct range raise SIGSYS. DISPATCH_ALLOW
 * in threads of the library, and in others while the library works there; all signals but faults
 * are blocked then.
 */
extern __thread volatile uint8_t dispatch_selector
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The result of the kernel: a negative errno after an error. */
__attribute__((visibility("hidden"))) long direct_call(long nr, long a, long b, long c, long d,
						       long e, long f);

/* The restorer of signal handlers. Its bytes are those that unwinders look for. */
__attribute__((visibility("hidden"))) void direct_restorer(void);

/* Begin to dispatch the calls of this thread. Returns 0 or a negative errno. */
int dispatch_enable(void);

/* What becomes of a child that a call at a site makes. */
enum direct_kind {
	DIRECT_PLAIN, /* no child */
	DIRECT_FORK,  /* a process with a copy of the memory: direct_forked() is called there */
	/* a thread, or a process that borrows the memory (vfork): its calls are caught too */
	DIRECT_SHARE,
	DIRECT_KINDS
};

/*
 * The address of the site whose jump leads to `back`; 0 if all sites of this kind are in use. Any
 * thread, also in signal handlers.
 */
uintptr_t direct_site(enum direct_kind kind, uintptr_t back);

/* Called in the child of a fork; defined elsewhere. */
__attribute__((visibility("hidden"))) void direct_forked(void);

#endif
