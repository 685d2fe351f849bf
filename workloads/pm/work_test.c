/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every workload, stopped wherever it can be, ends with the result of a run that was not. This file
 * is compiled with FTH_PM_STOP, and so are the sources that it runs.
 */
#include "workloads/pm/work.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fth_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[128], file[128];

/* Smaller than the tool's defaults, so that there can be many runs. */
static struct fth_pmw_options small(const struct fth_pmw_workload *workload)
{
	static const struct {
		const char *name;
		uint64_t items, steps, every;
	} sizes[] = {
		{"kvs", 300, 6, 0},	{"kvs95", 2000, 4, 0}, {"insert", 100, 6, 0},
		{"update", 2000, 6, 0}, {"cfd", 256, 40, 10},  {"bfs", 24, 200, 0},
		{"prefix", 2048, 2, 0},
	};
	struct fth_pmw_options options = FTH_PMW_OPTIONS_INIT;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (strcmp(sizes[i].name, fth_pmw_name(workload)) == 0) {
			options.items = sizes[i].items;
			options.steps = sizes[i].steps;
			options.every = sizes[i].every;
		}
	options.memory = memory;
	options.threads = 1;
	return options;
}

static int run(const struct fth_pmw_workload *workload, const struct fth_pmw_options *options,
	       struct fth_pmw_result *result)
{
	int rc = fth_pmw_run(workload, options, result);

	if (rc < 0 && rc != -ECANCELED)
		fprintf(stderr, "%s: %s\n", fth_pmw_name(workload), fth_error_text(rc));
	return rc;
}

static uint64_t digest_of(const struct fth_pmw_workload *workload,
			  const struct fth_pmw_options *options)
{
	struct fth_pmw_result result;

	fth_pm_remove(options->memory);
	assert_int_equal(run(workload, options, &result), 0);
	assert_int_equal(result.resumed, 0);
	return result.digest;
}

static void every_workload_has_the_same_result_twice(void **state)
{
	(void)state;
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = small(w);
		uint64_t first = digest_of(w, &options);

		options.threads = 4;
		assert_int_equal(digest_of(w, &options), first);
		options.seed = 2;
		assert_int_not_equal(digest_of(w, &options), first);
	}
}

#ifndef __SANITIZE_THREAD__
static void a_complete_run_is_not_done_again(void **state)
{
	(void)state;
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = small(w);
		struct fth_pmw_result result;
		uint64_t first = digest_of(w, &options);

		assert_int_equal(run(w, &options, &result), 0);
		assert_int_equal(result.digest, first);
		assert_int_equal(result.undone, 0);
	}
}

static void another_size_is_refused(void **state)
{
	const struct fth_pmw_workload *w = fth_pmw_find("bfs");
	struct fth_pmw_options options = small(w);
	struct fth_pmw_result result;

	(void)state;
	digest_of(w, &options);
	options.seed = 3;
	assert_int_equal(fth_pmw_run(w, &options, &result), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "different workload"));
}

static void stopped_between_steps_it_goes_on(void **state)
{
	(void)state;
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = small(w);
		struct fth_pmw_result result;
		uint64_t right = digest_of(w, &options);
		int rc, runs = 0;

		fth_pm_remove(memory);
		options.stop_steps = options.every ? options.every : 1;
		do {
			rc = run(w, &options, &result);
			assert_true(rc == 0 || rc == -ECANCELED);
			assert_true(++runs < 1000);
			if (strcmp(fth_pmw_name(w), "prefix") ==
			    0) /* its pieces know, not its steps */
				options.stop_steps = 0;
		} while (rc < 0);
		assert_true(runs > 1);
		assert_int_equal(result.digest, right);
	}
}

/* In a child that dies at this fence; true if it lived to the end. */
static bool survives(const struct fth_pmw_workload *workload, struct fth_pmw_options options,
		     uint64_t fence)
{
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct fth_pmw_result result;

		signal(SIGILL, SIG_DFL);
		signal(SIGTRAP, SIG_DFL);
		options.stop_fences = fence;
		_exit(run(workload, &options, &result) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
	return WIFEXITED(status);
}

/* The number of fences of a whole run. */
static uint64_t count_fences(const struct fth_pmw_workload *workload,
			     const struct fth_pmw_options *options)
{
	uint64_t low = 1, high = 1;

	fth_pm_remove(options->memory);
	while (!survives(workload, *options, high)) {
		fth_pm_remove(options->memory);
		low = high;
		high *= 2;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;

		fth_pm_remove(options->memory);
		*(survives(workload, *options, middle) ? &high : &low) = middle;
	}
	return low;
}

/* Die at one fence, and at another one of the recovery, and finish. */
static void die_twice(const struct fth_pmw_workload *workload,
		      const struct fth_pmw_options *options, uint64_t first, uint64_t second,
		      uint64_t right)
{
	struct fth_pmw_result result;

	fth_pm_remove(options->memory);
	survives(workload, *options, first);
	if (second)
		survives(workload, *options, second);
	assert_int_equal(run(workload, options, &result), 0);
	if (result.digest != right)
		fail_msg("%s, killed at fence %llu, then %llu: another result",
			 fth_pmw_name(workload), (unsigned long long)first,
			 (unsigned long long)second);
}

static void killed_at_fences(const char *where, uint64_t deaths)
{
	struct fth_rng rng = {4711};

	snprintf(memory, sizeof(memory), "%s", where);
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = small(w);
		uint64_t right = digest_of(w, &options), fences = count_fences(w, &options);

		assert_true(fences > 2);
		for (uint64_t i = 0; i < deaths; i++) {
			uint64_t first =
				deaths >= fences ? i % fences + 1 : 1 + fth_rng_below(&rng, fences);

			die_twice(w, &options, first, i % 2 ? 1 + fth_rng_below(&rng, 40) : 0,
				  right);
		}
	}
	fth_pm_remove(memory);
}

static uint64_t deaths(void)
{
	return getenv("FTH_LONG_TESTS") ? 1000 : 6;
}

/* All stores before the death survive. */
static void killed_at_a_fence_in_shared_memory(void **state)
{
	char where[64];

	(void)state;
	snprintf(where, sizeof(where), "shm:fathom-work-test-%d", (int)getpid());
	killed_at_fences(where, deaths());
}

/* What was not persisted is lost. */
static void killed_at_a_fence_in_drained_memory(void **state)
{
	char where[192];

	(void)state;
	snprintf(where, sizeof(where), "file:%s?create=on&size=8M", file);
	killed_at_fences(where, deaths());
	unlink(file);
}

static void persisted_by_the_cpu_it_is_the_same(void **state)
{
	(void)state;
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		struct fth_pmw_options options = small(w);
		uint64_t right = digest_of(w, &options);

		fth_pm_remove(memory);
		options.style = FTH_PMW_ASSISTED_MAP;
		assert_int_equal(digest_of(w, &options), right);
		options.style = FTH_PMW_ASSISTED_FILE;
		options.file = file;
		assert_int_equal(digest_of(w, &options), right);
		unlink(file);
		fth_pm_remove(memory);
	}
}

#endif

static int set_up(void **state)
{
	(void)state;
	snprintf(memory, sizeof(memory), "shm:fathom-work-test-%d", (int)getpid());
	/* In memory where that is possible: there are thousands of flushes. */
	snprintf(file, sizeof(file), "%s/fathom-work-test-file-%d",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	snprintf(memory, sizeof(memory), "shm:fathom-work-test-%d", (int)getpid());
	fth_pm_remove(memory);
	unlink(file);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_workload_has_the_same_result_twice),
#ifndef __SANITIZE_THREAD__ /* all below runs one thread, in many processes */
		cmocka_unit_test(a_complete_run_is_not_done_again),
		cmocka_unit_test(another_size_is_refused),
		cmocka_unit_test(stopped_between_steps_it_goes_on),
		cmocka_unit_test(persisted_by_the_cpu_it_is_the_same),
		cmocka_unit_test(killed_at_a_fence_in_shared_memory),
		cmocka_unit_test(killed_at_a_fence_in_drained_memory),
#endif
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
