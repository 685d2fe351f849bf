/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGBUS and SIGSEGV: handlers, signals that are no faults, and the signals that are blocked while
 * a thread holds locks of pages.
 */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sigaction old_bus, old_segv;
static bool installed; /* set before the first region is registered */

/* ---- signals that were sent ---- */

/*
 * By kill(), pthread_kill() or sigqueue(): the program's, and no faults. Its handler must not run
 * while this thread holds locks of pages, so such a signal waits until there are none, and is sent
 * once more.
 */
static __thread struct {
	unsigned locks; /* of fault_enter(), nested */
	bool counted;	/* by the fork barrier */
	unsigned n;
	siginfo_t late[2]; /* SIGBUS, SIGSEGV: as the kernel, one of each */
} own __attribute__((tls_model("initial-exec")));

bool fault_was_sent(const siginfo_t *info)
{
	return info->si_code <= 0;
}

bool fault_defer(const siginfo_t *info)
{
	if (own.locks == 0)
		return false;
	for (unsigned i = 0; i < own.n; i++)
		if (own.late[i].si_signo == info->si_signo)
			return true;
	if (own.n < 2)
		own.late[own.n++] = *info;
	return true;
}

void fault_send_again(const siginfo_t *info)
{
	(void)syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), info->si_signo, info);
}

/* ---- threads that hold locks of pages ---- */

void fault_enter(void)
{
	if (own.locks++ == 0)
		own.counted = fork_barrier_enter();
}

static void drop_locks(void)
{
	if (--own.locks > 0 || !own.counted)
		return;
	own.counted = false;
	fork_barrier_exit();
}

static void send_late(void)
{
	while (own.locks == 0 && own.n > 0)
		fault_send_again(&own.late[--own.n]);
}

void fault_leave(void)
{
	drop_locks();
	send_late();
}

/* ---- handlers ---- */

/* The handler that was there before, with the signal mask that it would have found. */
static void pass_on(const struct sigaction *old, int sig, siginfo_t *info, ucontext_t *context)
{
	struct sigaction fatal = {.sa_handler = SIG_DFL};
	sigset_t mask = context->uc_sigmask;

	if (!(old->sa_flags & SA_SIGINFO) && old->sa_handler == SIG_IGN && fault_was_sent(info))
		return;
	if (!(old->sa_flags & SA_SIGINFO) &&
	    (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN)) {
		sigaction(sig, &fatal, NULL); /* the fault comes again, and ends the process */
		if (fault_was_sent(info))
			fault_send_again(info);
		return;
	}
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&old->sa_mask, i) == 1)
			sigaddset(&mask, i);
	if (!(old->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (old->sa_flags & SA_SIGINFO)
		old->sa_sigaction(sig, info, context);
	else
		old->sa_handler(sig);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	if (fault_was_sent(info) && fault_defer(info))
		return;
	if (fault_try(sig, info, context) <= 0)
		pass_on(sig == SIGBUS ? &old_bus : &old_segv, sig, info, context);
}

static void all_but_faults(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGBUS);
	sigdelset(set, SIGSEGV);
}

/* The old action is known before ours is in force. */
static int install_one(int sig, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction now;

	if (sigaction(sig, NULL, &now) < 0)
		return fth_fail(errno, "flat: sigaction: %s", strerror(errno));
	if (now.sa_sigaction ==
	    on_signal) /* another thread was here when this process was forked */
		return 0;
	*old = now;
	return sigaction(sig, action, NULL) < 0
		       ? fth_fail(errno, "flat: sigaction: %s", strerror(errno))
		       : 0;
}

int fault_install(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER};
	int rc;

	if (installed)
		return 0;
	fault_prepare();
	all_but_faults(&action.sa_mask);
	rc = install_one(SIGBUS, &action, &old_bus);
	action.sa_flags |= SA_ONSTACK; /* a stack overflow of the program ends up here too */
	if (rc == 0)
		rc = install_one(SIGSEGV, &action, &old_segv);
	installed = rc == 0; /* and never removed: others may have chained theirs to it */
	return rc;
}

void fault_block_signals(sigset_t *before_it)
{
	sigset_t set;

	all_but_faults(&set);
	pthread_sigmask(SIG_BLOCK, &set, before_it);
	fault_enter();
}

void fault_restore_signals(const sigset_t *before_it)
{
	/* first: a handler of the program that waited runs now, and may not come back */
	drop_locks();
	pthread_sigmask(SIG_SETMASK, before_it, NULL);
	send_late();
}
