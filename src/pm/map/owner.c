/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which process mapped the memory. A child of fork() has the objects, but not the threads that use
 * the device, and two processes on one channel would take each other's completions: so devices, and
 * the volatile state of logs and transactions, belong to the process that mapped the memory.
 */
#include "pm/pm_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/*
 * Forks between this process and the first one that mapped memory. Changes in a new child only,
 * before it has a second thread.
 */
static unsigned forks;

static void count_fork(void)
{
	forks++;
}

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, count_fork);
}

void pm_process_note(struct fth_pm *pm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pm->forks = forks;
	pm->pid = (long)getpid();
}

bool pm_process_is_other(const struct fth_pm *pm)
{
	return pm->forks != forks;
}

int pm_process_check(const struct fth_pm *pm)
{
	if (!pm_process_is_other(pm))
		return 0;
	return fth_fail(EPERM,
			"%s was mapped by process %ld before fork(), process %ld may only read it",
			pm->name, pm->pid, (long)getpid());
}
