/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of regions share: opening one, and its signals.
 */
#ifndef FATHOM_SRC_FLAT_TEST_FLAT_FIXTURE_H
#define FATHOM_SRC_FLAT_TEST_FLAT_FIXTURE_H

#include "flat/test/flat_main_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#include "flat/flat_internal.h"

#define PAGE   4096u
#define BUDGET (64u * PAGE)

/* ---- signals: cmocka installs handlers for each test, after the library's ---- */

static __thread sigjmp_buf jump __attribute__((unused));
static __thread volatile sig_atomic_t bus_errors __attribute__((unused));

static inline void on_bus(int sig)
{
	(void)sig;
	bus_errors++;
	siglongjmp(jump, 1);
}

/* The program's own handler, as an instance of one that was installed later. */
static inline void on_any(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		on_bus(sig);
}

static inline void take_signals(void)
{
	struct sigaction action = {.sa_sigaction = on_any, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

static inline struct fth_flat *open_region(const char *uri, uint64_t budget,
					   enum fth_flat_policy policy)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.policy = policy;
	assert_ok(fth_flat_open(uri, budget, &options, &flat));
	take_signals();
	return flat;
}

/* Memory that the region holds never exceeds its budget. */
static inline void check_memory(const struct fth_flat *flat, uint64_t budget)
{
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_DRAM) +
			    fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_CACHED) <=
		    budget / PAGE);
}

#endif
