/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls that are not dispatched to us. Syscall user dispatch (prctl
 * PR_SET_SYSCALL_USER_DISPATCH) raises SIGSYS for every system call of a thread, except from one
 * range of addresses. The gate is that range.
 *
 * It holds: gate_call(), for our own calls; the restorer of signal handlers; and sites. A site is a
 * system call instruction and a jump back to where the program made the call. The handler of SIGSYS
 * lets the program go on at a site with all its registers, so that clone(), vfork(), rt_sigreturn()
 * and calls that block behave as if they had not been caught.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_SYSCALL_GATE_H
#define FATHOM_SRC_FLAT_PRELOAD_SYSCALL_GATE_H

#include <stdint.h>

#define GATE_ALLOW 0
#define GATE_BLOCK 1

/*
 * GATE_BLOCK: system calls of this thread outside the gate raise SIGSYS. GATE_ALLOW in threads of
 * the library, and in others while the library works there; all signals but faults are blocked
 * then.
 */
extern __thread volatile uint8_t gate_selector
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* The result of the kernel: a negative errno after an error. */
__attribute__((visibility("hidden"))) long gate_call(long nr, long a, long b, long c, long d,
						     long e, long f);

/* The restorer of signal handlers. Its bytes are those that unwinders look for. */
__attribute__((visibility("hidden"))) void gate_restorer(void);

/* Begin to dispatch the calls of this thread. Returns 0 or a negative errno. */
int gate_enable(void);

/* What becomes of a child that a call at a site makes. */
enum gate_kind {
	GATE_PLAIN, /* no child */
	GATE_FORK,  /* a process with a copy of the memory: gate_forked() is called there */
	GATE_SHARE, /* a thread, or a process that borrows the memory (vfork): its calls are caught too */
	GATE_KINDS
};

/*
 * The address of the site whose jump leads to `back`; 0 if all sites of this kind are in use. Any
 * thread, also in signal handlers.
 */
uintptr_t gate_site(enum gate_kind kind, uintptr_t back);

/* Called in the child of a fork; defined elsewhere. */
__attribute__((visibility("hidden"))) void gate_forked(void);

#endif
