/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernels as a GPU runs them, with contexts that play the lanes: each workload has the result
 * that it has on the CPU.
 */
#include "gpu/warp_fixture.h"

#include "workloads/pm/all_kernels.h"
#include "workloads/pm/machine.h"
#include "workloads/pm/work.h"
#include "fathom/base/error.h"

extern "C" {
#include "fth_test.h"
}

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a machine of warps ---- */

struct grid {
	const void *parameters;
	uint64_t items;
	void (*kernel)(const void *parameters, uint64_t item, uint32_t lane);
};

#define CALL(number, function, parameters)                                            \
	static void call_##number(const void *p, uint64_t item, uint32_t lane)        \
	{                                                                             \
		function((const struct parameters *)p, item, lane);                   \
	}
PMW_KERNELS(CALL)

static void (*const calls[])(const void *parameters, uint64_t item, uint32_t lane) = {
#define ENTRY(number, function, parameters) call_##number,
	PMW_KERNELS(ENTRY)};

static void run_lane(void *arg, uint32_t lane)
{
	struct grid *grid = (struct grid *)arg;

	for (uint64_t item = 0; item < grid->items; item++)
		grid->kernel(grid->parameters, item, lane);
}

static int launch_warps(struct pmw_machine *machine, enum pmw_kernel kernel, const void *parameters, uint64_t items)
{
	struct grid grid = {parameters, items, calls[kernel]};

	(void)machine;
	fixture_run_warp(run_lane, &grid);
	return 0;
}

/* All but the launch is the CPU's. */
static struct pmw_machine_ops warp_ops;

static int open_warps(struct pmw_machine **machine)
{
	int rc = pmw_machine_cpu(1, machine);

	if (rc == 0) {
		warp_ops = *(*machine)->ops;
		warp_ops.launch = launch_warps;
		(*machine)->ops = &warp_ops;
	}
	return rc;
}

/* ---- tests ---- */

static char memory[64];

static struct fth_pmw_options tiny(const struct fth_pmw_workload *workload)
{
	static const struct {
		const char *name;
		uint64_t items, steps, every;
	} sizes[] = {
		{"kvs", 100, 3, 0},    {"kvs95", 300, 2, 0},	{"insert", 70, 2, 0},  {"update", 900, 3, 0},
		{"cfd", 64, 40, 20},   {"bfs", 12, 100, 0},	{"prefix", 1024, 2, 0},
	};
	struct fth_pmw_options options = FTH_PMW_OPTIONS_INIT;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (strcmp(sizes[i].name, fth_pmw_name(workload)) == 0) {
			options.items = sizes[i].items;
			options.steps = sizes[i].steps;
			options.every = sizes[i].every;
		}
	options.memory = memory;
	return options;
}

static uint64_t digest_of(const struct fth_pmw_workload *workload, const struct fth_pmw_options *options)
{
	struct fth_pmw_result result;
	int rc = fth_pmw_run(workload, options, &result);

	if (rc < 0)
		fail_msg("%s: %s", fth_pmw_name(workload), fth_error_text(rc));
	return result.digest;
}

static void warps_have_the_result_of_threads(void **state)
{
	(void)state;
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = tiny(w);
		uint64_t threads, warps;

		fth_pm_remove(memory);
		threads = digest_of(w, &options);
		fth_pm_remove(memory);
		options.machine = open_warps;
		warps = digest_of(w, &options);
		fth_pm_remove(memory);
		assert_int_equal(threads, warps);
	}
}

/* What threads have begun, warps finish. */
static void warps_go_on_where_threads_stopped(void **state)
{
	(void)state;
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = tiny(w);
		struct fth_pmw_result result;
		uint64_t right;
		int rc;

		fth_pm_remove(memory);
		right = digest_of(w, &options);
		fth_pm_remove(memory);
		if (fth_pmw_kind(w) == FTH_PMW_TRANSACTIONAL)
			options.stop_before_end = true;
		else
			options.stop_steps = options.every ? options.every : 1;
		rc = fth_pmw_run(w, &options, &result);
		assert_int_equal(rc, -ECANCELED);
		options.stop_before_end = false;
		options.stop_steps = 0;
		options.machine = open_warps;
		assert_int_equal(digest_of(w, &options), right);
		fth_pm_remove(memory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(warps_have_the_result_of_threads),
		cmocka_unit_test(warps_go_on_where_threads_stopped),
	};

	snprintf(memory, sizeof(memory), "shm:fathom-warp-test-%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
