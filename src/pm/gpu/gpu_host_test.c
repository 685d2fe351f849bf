/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the host does with CUDA for persistent memory, on a stand-in for it: every call is made to
 * fail in turn; the caller gets each error, and no resource leaks. Needs no GPU.
 */
#include "fth_test.h"

#include "gpu/fake_cuda_fixture.h"

#include "fathom/base/error.h"
#include "fathom/pm/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES	      (4u << 20)
#define CONV_AT	      (2u << 20)
#define CHECKPOINT_AT (3u << 20)

static char shm_name[64], file_name[128];

static struct fth_pm *map_pm(const char *name)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map(name, BYTES, &options, &pm));
	return pm;
}

static void make_logs(struct fth_pm *pm)
{
	struct fth_pm_checkpoint_shape area = {1, 1, 8192};
	struct fth_pm_log_shape shape = {4, 64, 16, 4};
	struct fth_pm_checkpoint *cp;
	struct fth_pm_log *log;

	assert_ok(fth_pm_log_create_hcl(pm, 0, &shape, &log));
	fth_pm_log_close(log);
	assert_ok(fth_pm_log_create_conv(pm, CONV_AT, 8, 1024, &log));
	fth_pm_log_close(log);
	assert_ok(fth_pm_checkpoint_create(pm, CHECKPOINT_AT, &area, &cp));
	fth_pm_checkpoint_close(cp);
}

/* A save and a restore, whose kernels do nothing. */
static int use_checkpoint(struct fth_pm *pm)
{
	static uint64_t buffer[1024];
	struct fth_pm_checkpoint *cp;
	int rc;

	assert_ok(fth_pm_checkpoint_open(pm, CHECKPOINT_AT, &cp));
	assert_ok(fth_pm_checkpoint_register(cp, 0, buffer, sizeof(buffer)));
	rc = fth_gpu_pm_checkpoint_save(cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL, NULL);
	if (rc == 0)
		rc = fth_gpu_pm_checkpoint_restore(cp, 0, NULL);
	fth_pm_checkpoint_close(cp);
	return rc;
}

/* All that there is, once; the first error. Releases everything. */
static int use_all(struct fth_pm *pm)
{
	struct fth_gpu_pm_log *hcl = NULL, *conv = NULL;
	struct fth_gpu_pm *gpu;
	int rc = fth_gpu_pm_register(pm, &gpu), closed;

	if (rc < 0)
		return rc;
	rc = fth_gpu_pm_log_open(gpu, 0, &hcl);
	if (rc == 0)
		rc = fth_gpu_pm_log_open(gpu, CONV_AT, &conv);
	if (rc == 0)
		rc = fth_gpu_pm_log_clear(hcl);
	if (rc == 0)
		rc = fth_gpu_pm_log_clear(conv);
	if (rc == 0)
		rc = use_checkpoint(pm);
	closed = fth_gpu_pm_log_close(hcl);
	rc = rc < 0 ? rc : closed;
	closed = fth_gpu_pm_log_close(conv);
	rc = rc < 0 ? rc : closed;
	closed = fth_gpu_pm_unregister(gpu);
	return rc < 0 ? rc : closed;
}

static void fail_in_turn(const char *name)
{
	struct fth_pm *pm = map_pm(name);
	unsigned n = 0;
	int rc;

	make_logs(pm);
	do {
		fake_cuda_reset(++n);
		rc = use_all(pm);
		assert_true(rc == 0 || strlen(fth_error_text(rc)) > 0);
		assert_int_equal(rc < 0, n <= fake_cuda.calls);
		assert_true(fake_cuda_clean());
	} while (rc < 0);
	assert_true(n > 15);
	assert_ok(fth_pm_unmap(pm));
	assert_ok(fth_pm_remove(name));
}

static void test_failures(void **state)
{
	(void)state;
	fail_in_turn(shm_name);
	fail_in_turn(file_name);
}

/* Addresses are those of the same bytes; the mirror is not the host's object. */
static void test_view(void **state)
{
	struct fth_pm *pm = map_pm(file_name);
	struct fth_pm_view host = fth_pm_view(pm), view;
	struct fth_gpu_pm *gpu;

	(void)state;
	fake_cuda_reset(0);
	assert_ok(fth_gpu_pm_register(pm, &gpu));
	view = fth_gpu_pm_view(gpu);
	assert_ptr_equal(view.base, host.base); /* the stand-in's addresses are the host's */
	assert_ptr_equal(view.marks, host.marks);
	assert_ptr_equal(view.coarse, host.coarse);
	assert_ptr_equal(view.control, host.control);
	assert_int_equal(view.mode, FTH_PM_MODE_WRITE_BACK);
	assert_ptr_not_equal(view.host, host.host);
	assert_ptr_equal(fth_gpu_pm_address(gpu, host.base + 100), host.base + 100);
	assert_ok(fth_gpu_pm_unregister(gpu));
	assert_ok(fth_gpu_pm_unregister(NULL));
	assert_ok(fth_gpu_pm_log_close(NULL));
	assert_true(fake_cuda_clean());
	assert_ok(fth_pm_unmap(pm));
	assert_ok(fth_pm_remove(file_name));
}

static void test_refused(void **state)
{
	struct fth_gpu_pm_log *log;
	struct fth_gpu_pm *gpu;
	struct fth_pm *pm;

	(void)state;
	fake_cuda_reset(0);
	pm = map_pm(shm_name);
	assert_ok(fth_gpu_pm_register(pm, &gpu));
	assert_int_equal(fth_gpu_pm_log_open(gpu, 0, &log), -ENOENT);
	assert_int_equal(fth_gpu_pm_log_open(gpu, 100, &log), -EINVAL);
	assert_int_equal(fth_gpu_pm_log_open(gpu, 2 * BYTES, &log), -ERANGE);
	assert_null(log);
	assert_ok(fth_gpu_pm_unregister(gpu));
	make_logs(pm);
	assert_int_equal(use_checkpoint(pm), -EINVAL); /* not registered any more */
	/* As a driver that does not pin pages of a file. */
	fake_cuda_reset(1);
	assert_int_equal(fth_gpu_pm_register(pm, &gpu), -ENOMEM);
	assert_null(gpu);
	assert_non_null(strstr(fth_error_text(-ENOMEM), shm_name));
	assert_true(fake_cuda_clean());
	assert_ok(fth_pm_unmap(pm));
	assert_ok(fth_pm_remove(shm_name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_view),
		cmocka_unit_test(test_refused),
	};

	snprintf(shm_name, sizeof(shm_name), "shm:fathom_gpu_host_%d", (int)getpid());
	snprintf(file_name, sizeof(file_name), "file:/tmp/fathom_gpu_host_%d?direct=off",
		 (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
