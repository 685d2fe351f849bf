/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/cgroup.h"

#include "fth_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LIMIT (16u << 20)

static int doubled(void *context, void *result)
{
	*(int *)result = 2 * *(int *)context;
	return 0;
}

static void the_result_of_a_child_reaches_its_parent(void **state)
{
	int in = 21, out = 0;
	struct fth_cgroup_job job = {
		.memory = LIMIT,
		.fn = doubled,
		.context = &in,
		.result = &out,
		.result_size = sizeof(out),
	};

	(void)state;
	assert_ok(fth_cgroup_run(&job, NULL));
	assert_int_equal(out, 42);
}

static int failing(void *context, void *result)
{
	(void)context;
	(void)result;
	return fth_fail(EDOM, "as told");
}

static void an_error_of_a_child_reaches_its_parent_with_its_text(void **state)
{
	struct fth_cgroup_job job = {.memory = LIMIT, .fn = failing};

	(void)state;
	assert_int_equal(fth_cgroup_run(&job, NULL), -EDOM);
	assert_string_equal(fth_error_text(-EDOM), "as told");
}

static int greedy(void *context, void *result)
{
	size_t size = 4 * LIMIT;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	(void)context;
	(void)result;
	if (memory == MAP_FAILED)
		return -ENOMEM;
	for (size_t i = 0; i < size; i += 4096)
		memory[i] = 1;
	return 0;
}

static void a_child_that_takes_more_memory_than_it_may_is_an_error(void **state)
{
	struct fth_cgroup_job job = {.memory = LIMIT, .fn = greedy};

	(void)state;
	assert_int_equal(fth_cgroup_run(&job, NULL), -ENOMEM);
}

static int sleeping(void *context, void *result)
{
	(void)context;
	(void)result;
	for (;;)
		pause(); /* ends when the parent kills it */
	return 0;
}

static bool always(void)
{
	return true;
}

static void a_child_can_be_stopped(void **state)
{
	struct fth_cgroup_job job = {.memory = LIMIT, .fn = sleeping, .stopped = always};

	(void)state;
	assert_int_equal(fth_cgroup_run(&job, NULL), -EINTR);
}

/* Reads a file four times as large as the group, twice: the second time it is not there. */
static int read_twice(void *context, void *result)
{
	char block[65536];
	FILE *file = fopen(context, "re");

	(void)result;
	if (!file)
		return -errno;
	for (int pass = 0; pass < 2; pass++) {
		rewind(file);
		while (fread(block, 1, sizeof(block), file) == sizeof(block))
			;
	}
	fclose(file);
	return 0;
}

static void make_file(const char *path, size_t size)
{
	char block[65536];
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	memset(block, 7, sizeof(block));
	for (size_t i = 0; i < size; i += sizeof(block))
		assert_int_equal(fwrite(block, 1, sizeof(block), file), sizeof(block));
	assert_int_equal(fclose(file), 0);
	assert_ok(fth_cgroup_drop_pages(path));
}

static void the_page_cache_of_a_child_is_limited_too(void **state)
{
	const char *folder = getenv("TMPDIR");
	char path[256];
	struct fth_cgroup_job job = {.memory = LIMIT, .fn = read_twice, .context = path};
	struct fth_cgroup_usage usage;

	(void)state;
	snprintf(path, sizeof(path), "%s/fathom-cgroup-%ld", folder ? folder : "/tmp",
		 (long)getpid());
	make_file(path, 4 * LIMIT);
	assert_ok(fth_cgroup_run(&job, &usage));
	unlink(path);
	if (usage.bytes_read == 0)
		skip(); /* the file lives in memory, or the kernel does not count */
	assert_in_range(usage.bytes_read, 4 * LIMIT + 1, 16 * LIMIT);
	assert_in_range(usage.peak, 0, LIMIT);
}

static bool can_run(void)
{
	int rc = fth_cgroup_available();

	if (rc < 0)
		printf("skipped: %s\n", fth_error_text(rc));
	return rc == 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_result_of_a_child_reaches_its_parent),
		cmocka_unit_test(an_error_of_a_child_reaches_its_parent_with_its_text),
		cmocka_unit_test(a_child_that_takes_more_memory_than_it_may_is_an_error),
		cmocka_unit_test(a_child_can_be_stopped),
		cmocka_unit_test(the_page_cache_of_a_child_is_limited_too),
	};

	return can_run() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
