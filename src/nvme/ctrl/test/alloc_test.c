/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that runs out: the Nth allocation fails, for N = 1, 2, ... until all goes well. Nothing
 * may be lost, which the build with the address sanitizer sees.
 */
#include "fth_test.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include <errno.h>
#include <stdlib.h>

static unsigned countdown; /* 0: none fails */

static bool fails(void)
{
	return countdown > 0 && --countdown == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __real_aligned_alloc(align, size);
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
	return fails() ? ENOMEM : __real_posix_memalign(out, align, size);
}

static void a_controller_is_made_whole_or_not_at_all(void **state)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_ctrl *ctrl = NULL;
	struct fth_dev *dev;
	unsigned n = 0;
	int rc;

	(void)state;
	opts.threads = 0;
	opts.depth = 4;
	assert_ok(fth_dev_open("mem:64K", &dev));
	do {
		countdown = ++n;
		rc = fth_nvme_ctrl_new(dev, &opts, &ctrl);
		assert_true(rc == 0 || rc == -ENOMEM);
		assert_true((rc == 0) == (ctrl != NULL));
	} while (rc < 0 && n < 1000);
	assert_true(countdown > 0); /* fewer allocations than that: none failed */
	countdown = 0;
	assert_true(n > 8);
	fth_nvme_ctrl_free(ctrl);
	fth_dev_close(dev);
}

static void a_failed_grant_changes_nothing(void **state)
{
	struct host host;
	char *page;

	(void)state;
	host_up(&host, "mem:64K", 4);
	page = host_pages(&host, 1);
	countdown = 1;
	assert_int_equal(fth_nvme_ctrl_grant(host.ctrl, page, HOST_PAGE, 0), -ENOMEM);
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, page, HOST_PAGE, 0));
	host_down(&host);
}

static void a_queue_without_memory_is_not_made(void **state)
{
	struct host host;

	(void)state;
	host_up(&host, "mem:64K", 4);
	assert_int_equal(host_create_cq(&host, 2, 4), FTH_NVME_SUCCESS);
	countdown = 1;
	assert_int_equal(host_create_sq(&host, 2, 2, 4), FTH_NVME_INTERNAL_ERROR);
	assert_int_equal(host_create_sq(&host, 2, 2, 4), FTH_NVME_SUCCESS);
	host_down(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_controller_is_made_whole_or_not_at_all),
		cmocka_unit_test(a_failed_grant_changes_nothing),
		cmocka_unit_test(a_queue_without_memory_is_not_made),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
