/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each operation with its Nth allocation failing, N = 1, 2, ... until it passes clean: it happens
 * or it does not, its space comes back, and the volume is usable afterwards. With ASan nothing
 * leaks.
 */
#include "vol/vol_fixture.h"

#define SIZE 40960u

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);

static _Thread_local unsigned countdown; /* 0: none fails */

static bool fails(void)
{
	return countdown > 0 && --countdown == 0;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
	return fails() ? ENOMEM : __real_posix_memalign(out, align, size);
}

static const struct fth_vol_object_options two = {sizeof(two), 4096, 2, 0, false, false, false};

static int do_create(struct fth_vol *vol)
{
	return fth_vol_create(vol, "new", SIZE, &two);
}

static int do_new(struct fth_vol *vol)
{
	struct fth_dev *dev;
	int rc = fth_vol_object_new(vol, "new", SIZE, &two, &dev);

	if (rc < 0) {
		assert_null(dev);
		return rc;
	}
	rc = fth_vol_object_commit(dev);
	fth_dev_close(dev);
	return rc;
}

static int do_open(struct fth_vol *vol)
{
	struct fth_dev_chan *chan = NULL;
	struct fth_dev *dev;
	int rc = fth_vol_object_open(vol, "old", 0, &dev);

	if (rc < 0) {
		assert_null(dev);
		return rc;
	}
	rc = fth_dev_chan_open(dev, 4, &chan);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
	return rc;
}

static int do_remove(struct fth_vol *vol)
{
	return fth_vol_remove(vol, "old");
}

static int do_rename(struct fth_vol *vol)
{
	return fth_vol_rename(vol, "old", "plain", true);
}

static int do_grow(struct fth_vol *vol)
{
	return fth_vol_resize(vol, "old", 3 * SIZE, true);
}

static int do_shrink(struct fth_vol *vol)
{
	return fth_vol_resize(vol, "old", 100, false);
}

static int ignore(const struct fth_vol_object_info *info, void *user)
{
	(void)info;
	(void)user;
	return 0;
}

static int do_list(struct fth_vol *vol)
{
	return fth_vol_list(vol, ignore, NULL);
}

static int (*const operations[])(struct fth_vol *) = {
	do_create, do_new, do_open, do_remove, do_rename, do_grow, do_shrink, do_list,
};

static int add_name(const struct fth_vol_object_info *info, void *user)
{
	char line[64];

	snprintf(line, sizeof(line), "%.20s=%llu ", info->name, (unsigned long long)info->size);
	strcat(user, line);
	return 0;
}

static void prepare(struct rack *rack)
{
	rack_format(rack, "mem:512K", 2);
	assert_ok(fth_vol_create(rack->vol, "old", SIZE + 100, &two));
	assert_ok(fth_vol_create(rack->vol, "plain", SIZE, NULL));
}

/* False: nothing failed any more. */
static bool fail_nth(unsigned which, unsigned nth)
{
	char before[256] = "", after[256] = "";
	struct fth_vol_info was, is;
	struct rack rack;
	bool injected;
	int rc;

	prepare(&rack);
	assert_ok(fth_vol_list(rack.vol, add_name, before));
	fth_vol_info(rack.vol, &was);
	countdown = nth;
	rc = operations[which](rack.vol);
	injected = countdown == 0;
	countdown = 0;
	if (!injected)
		assert_ok(rc);
	assert_ok(fth_vol_list(rack.vol, add_name, after));
	fth_vol_info(rack.vol, &is);
	if (rc < 0) {
		if (rc != -ENOMEM)
			fail_msg("operation %u, allocation %u: %d", which, nth, rc);
		assert_string_equal(before, after);
		assert_int_equal(was.free, is.free);
	}
	/* Life goes on: nothing is open, and nothing is reserved. */
	assert_ok(fth_vol_create(rack.vol, "another", 1000, NULL));
	if (strstr(after, "old"))
		assert_ok(fth_vol_remove(rack.vol, "old"));
	rack_reopen(&rack);
	rack_close(&rack);
	assert_sound(&rack, FTH_VOL_CHECK_DATA);
	rack_release(&rack);
	return injected;
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		unsigned nth = 1;

		while (fail_nth(i, nth))
			nth++;
		assert_true(nth > 1);
	}
}

static void every_allocation_of_opening_and_checking_may_fail(void **state)
{
	struct rack rack;
	bool injected = true;

	(void)state;
	prepare(&rack);
	rack_close(&rack);
	for (unsigned nth = 1; injected; nth++) {
		int rc;

		countdown = nth;
		rc = fth_vol_open(rack.devs, 2, 0, &rack.vol);
		injected = countdown == 0;
		countdown = 0;
		assert_int_equal(rc == 0, rack.vol != NULL);
		if (!injected)
			assert_ok(rc);
		rack_close(&rack);
	}
	injected = true;
	for (unsigned nth = 1; injected; nth++) {
		int rc;

		countdown = nth;
		rc = fth_vol_check(rack.devs, 2, FTH_VOL_CHECK_DATA, NULL, NULL, NULL);
		injected = countdown == 0;
		countdown = 0;
		if (!injected)
			assert_int_equal(rc, 0);
	}
	rack_release(&rack);
}

/* A new object whose zeroing fails leaves no trace. */
static void a_new_object_that_fails_leaves_no_trace(void **state)
{
	struct fth_vol_info was, is;
	struct fth_vol_object_info info;
	struct fth_dev *dev;
	struct rack rack;

	(void)state;
	rack_format(&rack, "fault(mem:512K)", 2);
	fth_vol_info(rack.vol, &was);
	for (unsigned i = 0; i < 2; i++) {
		fail_on(rack.devs[i], 1u << FTH_DEV_ZERO, 1, 0);
		assert_int_equal(fth_vol_object_new(rack.vol, "x", SIZE, &two, &dev), -EIO);
		assert_null(dev);
		fail_on(rack.devs[i], 1u << FTH_DEV_ZERO, 1, 0);
		assert_int_equal(fth_vol_create(rack.vol, "x", SIZE, &two), -EIO);
		assert_int_equal(fth_vol_stat(rack.vol, "x", &info), -ENOENT);
		fth_vol_info(rack.vol, &is);
		assert_int_equal(was.free, is.free);
	}
	assert_ok(fth_vol_object_new(rack.vol, "x", was.free / 2, &two, &dev));
	fth_vol_info(rack.vol, &is);
	assert_int_equal(is.free, 0);
	assert_int_equal(fth_vol_create(rack.vol, "y", 1, &two), -ENOSPC);
	fth_dev_close(dev);
	fth_vol_info(rack.vol, &is);
	assert_int_equal(was.free, is.free);
	rack_release(&rack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(every_allocation_of_opening_and_checking_may_fail),
		cmocka_unit_test(a_new_object_that_fails_leaves_no_trace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
