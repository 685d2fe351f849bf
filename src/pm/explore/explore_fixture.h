/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests that explore crashes share: memory, and seeds. */
#ifndef FATHOM_SRC_PM_EXPLORE_EXPLORE_FIXTURE_H
#define FATHOM_SRC_PM_EXPLORE_EXPLORE_FIXTURE_H

#include "fth_test.h"

#include <stdlib.h>

#include "pm/explore/explore.h"
#include "pm/pm_internal.h"

#define BYTES (192u << 10)

static uint64_t total, seed; /* other operations for each seed */

static bool long_tests(void)
{
	return getenv("FTH_LONG_TESTS") != NULL;
}

static struct fth_pm *map_memory(void *memory, uint64_t bytes, uint32_t flags)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	options.flags = flags;
	assert_ok(pm_map_memory(memory, bytes, &options, &pm));
	return pm;
}

static void create_memory(void *memory)
{
	fth_pm_unmap(map_memory(memory, BYTES, FTH_PM_CREATE));
}

static void explore_subject(const struct explore *subject)
{
	for (seed = 0; seed < (long_tests() ? 8 : 2); seed++)
		total += explore(subject);
}

#endif
