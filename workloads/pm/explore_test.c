/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every state of persistent memory that a crash of a workload, or of its recovery, could leave, as
 * far as there is time: the workload goes on from it, and ends with the right result. Compiled with
 * FTH_PM_TRACE.
 */
#include "workloads/pm/work.h"

#include "fathom/base/error.h"
#include "fth_test.h"
#include "pm/explore/explore.h"
#include "pm/pm_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct subject {
	const char *name;
	uint64_t items, steps, every;
} subjects[] = {
	{"kvs", 24, 3, 0},   {"kvs95", 60, 2, 0}, {"insert", 33, 3, 0},	  {"update", 400, 3, 0},
	{"cfd", 64, 30, 10}, {"bfs", 5, 40, 0},	  {"prefix", 1024, 2, 0},
};
#define LONG_FACTOR 20 /* the long version takes minutes */
#define SUBJECTS    (sizeof(subjects) / sizeof(subjects[0]))

static const struct fth_pmw_workload *workload;
static struct fth_pmw_options options;
static uint64_t bytes, right, found;

static int run_on(void *memory)
{
	struct fth_pm_options how = FTH_PM_OPTIONS_INIT;
	struct fth_pmw_options work = options;
	struct fth_pmw_result result;
	int rc;

	how.flags = FTH_PM_CREATE;
	rc = pm_map_memory(memory, bytes, &how, &work.pm);
	if (rc == 0)
		rc = fth_pmw_run(workload, &work, &result);
	fth_pm_unmap(work.pm);
	found = result.digest;
	return rc;
}

static void run_first(void *memory)
{
	assert_ok(run_on(memory));
}

static const char *check(void *memory, uint64_t note)
{
	(void)memory;
	(void)note;
	return found == right ? NULL : "the result differs from that of a run without a crash";
}

static void choose(const struct subject *subject)
{
	struct fth_pmw_options init = FTH_PMW_OPTIONS_INIT;
	void *memory;

	workload = fth_pmw_find(subject->name);
	assert_non_null(workload);
	options = init;
	options.threads = 1;
	options.items = subject->items;
	options.steps = subject->steps;
	options.every = subject->every;
	bytes = fth_pmw_bytes(workload, &options) + FTH_PM_HEADER;
	memory = aligned_alloc(4096, bytes);
	assert_non_null(memory);
	memset(memory, 0, bytes);
	run_first(memory);
	right = found;
	free(memory);
}

static void crashes_anywhere(void **state)
{
	uint64_t total = 0;

	(void)state;
	for (size_t i = 0; i < SUBJECTS; i++) {
		struct explore subject = {
			.name = subjects[i].name,
			.run = run_first,
			.recover = run_on,
			.check = check,
			.states = 24,
			.recovery_states = 3,
			.recovery_every = 20,
			.long_factor = LONG_FACTOR,
			.long_recovery_factor = 1,
		};

		choose(&subjects[i]);
		subject.bytes = bytes;
		total += explore(&subject);
	}
	printf("%llu states\n", (unsigned long long)total);
	assert_true(total > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(crashes_anywhere)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
