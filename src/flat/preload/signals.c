/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGBUS, SIGSEGV and SIGSYS are ours. What the program asks for them is noted here and carried out
 * when such a signal is not of the region: its handler runs with the mask and on the stack that it
 * would have had. All other signals are the kernel's, with a direct restorer, and with masks
 * that leave faults unblocked.
 */
#include "flat/flat_internal.h"
#include "flat/preload/run.h"
#include "flat/preload/heap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SA_RESTORER_ 0x04000000ul
#define SIGNALS	     65

/* Of the program; under the lock. Only the entries of our three are used. */
static struct run_action actions[SIGNALS];
static uint32_t lock;

/* What of RUN_FAULTS this thread of the program has blocked, as far as it knows. */
static __thread run_mask blocked __attribute__((tls_model("initial-exec")));
static __thread stack_t own_stack __attribute__((tls_model("initial-exec")));

static bool is_ours(int sig)
{
	return sig >= 1 && sig < SIGNALS && (RUN_BIT(sig) & RUN_FAULTS);
}

static long set_action(int sig, const struct run_action *action, struct run_action *old)
{
	return direct_call(SYS_rt_sigaction, sig, (long)(uintptr_t)action, (long)(uintptr_t)old,
			   sizeof(run_mask), 0, 0);
}

/* ---- the region's ---- */

static void say_error(int rc)
{
	char text[200];
	int length;

	if (__atomic_exchange_n(&run.shared->errors_said, 1, __ATOMIC_RELAXED))
		return;
	if (rc == -ESTALE)
		length = snprintf(
			text, sizeof(text),
			"fathom: flat run: the disk of the scratch file is full: a child of "
			"fork() is stopped so that its parent can go on\n");
	else
		length = snprintf(text, sizeof(text),
				  "fathom: flat run: cannot read or write a page of %.100s: %s\n",
				  run.shared->uri, strerror(-rc));
	(void)direct_call(SYS_write, STDERR_FILENO, (long)(uintptr_t)text, length, 0, 0, 0);
}

/*
 * A fault on a page that has left the region: of the access before it left, which is to be tried
 * again, or of what the program has there now. The latter comes again, at the same address and with
 * nothing having left meanwhile.
 */
static bool is_of_foreign_page(int sig, uintptr_t address)
{
	static __thread struct {
		uintptr_t address;
		uint64_t leaves;
	} last __attribute__((tls_model("initial-exec")));
	uint64_t page = (address - run.start) / run.page, leaves = heap_leaves();
	bool again = last.address == address && last.leaves == leaves;

	if (sig != SIGBUS || !run_active() || !run_touches(address, 1) ||
	    heap_foreign(page, page + 1, true) != page)
		return false;
	last.address = address;
	last.leaves = leaves;
	return again;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uint8_t before;
	int rc = 0;

	if (fault_was_sent(info)) {
		signals_sent(sig, info, context);
		return;
	}
	before = run_work();
	if (!is_of_foreign_page(sig, (uintptr_t)info->si_addr))
		rc = fault_try(sig, info, context);
	if (rc < 0)
		say_error(rc);
	if (run_active())
		run_publish(rc <= 0);
	dispatch_selector = before;
	run_rested();
	if (rc <= 0)
		signals_deliver(sig, info, context);
}

static int take(int sig, void (*handler)(int, siginfo_t *, void *), unsigned long flags)
{
	struct run_action action = {
		.handler = (void (*)(int))(void *)handler,
		.flags = SA_SIGINFO | SA_NODEFER | SA_RESTORER_ | flags,
		.restorer = direct_restorer,
		.mask = ~RUN_FAULTS,
	};

	return (int)set_action(sig, &action, NULL);
}

void signals_note(void)
{
	static const int ours[] = {SIGBUS, SIGSEGV, SIGSYS};

	for (unsigned i = 0; i < 3; i++)
		(void)set_action(ours[i], NULL, &actions[ours[i]]);
}

int signals_take(void (*on_call)(int, siginfo_t *, void *))
{
	int rc = take(SIGBUS, on_fault, 0);

	if (rc == 0)
		rc = take(SIGSEGV, on_fault, SA_ONSTACK); /* after an overflow of the stack too */
	if (rc == 0)
		rc = take(SIGSYS, on_call, 0);
	return rc;
}

/* ---- the program's ---- */

/* It ends the process, as the kernel would have done. */
static void die(int sig, const siginfo_t *info)
{
	struct run_action fatal = {
		.handler = SIG_DFL, .flags = SA_RESTORER_, .restorer = direct_restorer};

	run_publish(true);
	(void)set_action(sig, &fatal, NULL);
	if (info->si_code <= 0) /* sent; a fault comes again by itself */
		(void)direct_call(SYS_tgkill, getpid(), direct_call(SYS_gettid, 0, 0, 0, 0, 0, 0),
				  sig, 0, 0, 0);
}

static struct run_action take_action(int sig)
{
	struct run_before before = run_enter();
	struct run_action action;

	futex_lock(&lock);
	action = actions[sig];
	if (action.flags & SA_RESETHAND)
		actions[sig].handler = SIG_DFL;
	futex_unlock(&lock);
	run_leave(before);
	return action;
}

void signals_freeze(void)
{
	futex_lock(&lock);
}

void signals_thaw(void)
{
	futex_unlock(&lock);
}

void signals_deliver(int sig, siginfo_t *info, void *raw)
{
	struct run_action action = take_action(sig);
	ucontext_t *context = raw;
	run_mask *mask = (run_mask *)&context->uc_sigmask;

	if (action.handler == SIG_IGN && info->si_code <= 0)
		return;
	if (action.handler == SIG_DFL || action.handler == SIG_IGN) {
		die(sig, info);
		return;
	}
	(void)run_set_mask((*mask | action.mask | (action.flags & SA_NODEFER ? 0 : RUN_BIT(sig))) &
			   ~RUN_FAULTS);
	dispatch_selector = DISPATCH_BLOCK;
	if (action.flags & SA_SIGINFO)
		((void (*)(int, siginfo_t *, void *))(void *)action.handler)(sig, info, context);
	else
		action.handler(sig);
	*mask &= ~RUN_FAULTS;
}

/* ---- those that are sent ---- */

/* As the kernel, one of each. */
static __thread struct {
	unsigned n;
	siginfo_t info[3];
} late __attribute__((tls_model("initial-exec")));
__thread bool signals_late, run_own_thread;

static void keep_late(const siginfo_t *info)
{
	for (unsigned i = 0; i < late.n; i++)
		if (late.info[i].si_signo == info->si_signo)
			return;
	if (late.n < 3)
		late.info[late.n++] = *info;
	signals_late |= !(blocked & RUN_BIT(info->si_signo));
}

void signals_flush(void)
{
	siginfo_t ready[3];
	unsigned n = 0, kept = 0;

	for (unsigned i = 0; i < late.n; i++) {
		if (blocked & RUN_BIT(late.info[i].si_signo))
			late.info[kept++] = late.info[i];
		else
			ready[n++] = late.info[i];
	}
	late.n = kept;
	signals_late = false;
	for (unsigned i = 0; i < n; i++)
		(void)direct_call(SYS_rt_tgsigqueueinfo, direct_call(SYS_getpid, 0, 0, 0, 0, 0, 0),
				  direct_call(SYS_gettid, 0, 0, 0, 0, 0, 0), ready[i].si_signo,
				  (long)(uintptr_t)&ready[i], 0, 0);
}

void signals_sent(int sig, siginfo_t *info, void *raw)
{
	ucontext_t *context = raw;

	if (dispatch_selector == DISPATCH_ALLOW &&
	    !run_own_thread) { /* for the program's threads */
		*(run_mask *)&context->uc_sigmask |= RUN_FAULTS;
		(void)run_set_mask(~(run_mask)0);
		(void)direct_call(SYS_rt_sigqueueinfo, direct_call(SYS_getpid, 0, 0, 0, 0, 0, 0),
				  sig, (long)(uintptr_t)info, 0, 0, 0);
	} else if (dispatch_selector == DISPATCH_ALLOW || (blocked & RUN_BIT(sig))) {
		keep_late(info);
	} else {
		signals_deliver(sig, info, context);
	}
}

long signals_action(int sig, uintptr_t set, uintptr_t old, size_t size)
{
	struct run_action wanted = {0}, before;
	long rc = 0;

	if (size != sizeof(run_mask) || (set && calls_get(&wanted, set, sizeof(wanted)) < 0))
		return size != sizeof(run_mask) ? -EINVAL : -EFAULT;
	if (is_ours(sig)) {
		futex_lock(&lock);
		before = actions[sig];
		if (set && !run_borrowed()) /* such a child becomes another program soon */
			actions[sig] = wanted;
		futex_unlock(&lock);
	} else {
		wanted.flags |= SA_RESTORER_;
		wanted.restorer = direct_restorer;
		wanted.mask &= ~RUN_FAULTS;
		rc = set_action(sig, set ? &wanted : NULL, &before);
	}
	if (rc == 0 && old && calls_put(old, &before, sizeof(before)) < 0)
		rc = -EFAULT;
	return rc;
}

long signals_mask(run_mask *mask, int how, uintptr_t set, uintptr_t old, size_t size)
{
	run_mask now = *mask | blocked, wanted;

	if (size != sizeof(run_mask))
		return -EINVAL;
	if (set) {
		if (calls_get(&wanted, set, sizeof(wanted)) < 0)
			return -EFAULT;
		if (how == SIG_BLOCK)
			wanted = now | wanted;
		else if (how == SIG_UNBLOCK)
			wanted = now & ~wanted;
		else if (how != SIG_SETMASK)
			return -EINVAL;
		if (!run_borrowed()) {
			blocked = wanted & RUN_FAULTS;
			signals_late = late.n > 0;
		}
		*mask = wanted & ~RUN_FAULTS;
	}
	return old && calls_put(old, &now, sizeof(now)) < 0 ? -EFAULT : 0;
}

/* Returning from the handler sets the stack that is in its frame: `current`. */
long signals_stack(stack_t *current, uintptr_t set, uintptr_t old)
{
	stack_t wanted, before;
	long rc;

	if (set && calls_get(&wanted, set, sizeof(wanted)) < 0)
		return -EFAULT;
	/* the kernel cannot bring its pages in when a signal comes */
	if (set && !(wanted.ss_flags & SS_DISABLE) &&
	    memory_leave((uintptr_t)wanted.ss_sp, wanted.ss_size, true) < 0)
		return -ENOMEM;
	rc = direct_call(SYS_sigaltstack, set ? (long)(uintptr_t)&wanted : 0,
			 (long)(uintptr_t)&before, 0, 0, 0, 0);
	if (rc < 0)
		return rc;
	if (set) {
		*current = wanted;
		own_stack = wanted;
	}
	return old && calls_put(old, &before, sizeof(before)) < 0 ? -EFAULT : 0;
}

bool signals_on_stack(uintptr_t sp)
{
	return !(own_stack.ss_flags & SS_DISABLE) &&
	       sp - (uintptr_t)own_stack.ss_sp < own_stack.ss_size;
}
