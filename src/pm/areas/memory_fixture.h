/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of areas share: memory that is mapped again and again. */
#ifndef FATHOM_SRC_PM_AREAS_MEMORY_FIXTURE_H
#define FATHOM_SRC_PM_AREAS_MEMORY_FIXTURE_H

#include "pm/pm_internal.h"
#include "fth_test.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_BYTES (512u << 10)

static uint8_t *memory;

static struct fth_pm *map_again(void)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	options.flags = FTH_PM_CREATE;
	assert_ok(pm_map_memory(memory, MEMORY_BYTES, &options, &pm));
	return pm;
}

static int setup(void **unused)
{
	(void)unused;
	memory = aligned_alloc(4096, MEMORY_BYTES);
	memset(memory, 0, MEMORY_BYTES);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	free(memory);
	return 0;
}

#endif
