/* SPDX-License-Identifier: BSD-2-Clause */
/* The windows of an NVMe device through the interface that all devices share. */
#include "fth_test.h"

#include "fathom/dev/window.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

static void kinds_and_guarantees(void **state)
{
	struct fth_dev_window *any, *pmr, *cmb;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:1M)?pmr=64K&cmb=8K", &dev));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_POWER, &any));
	assert_int_equal(fth_dev_window_info(any)->kind, FTH_DEV_WINDOW_PMR);
	assert_int_equal(fth_dev_window_info(any)->guarantee, FTH_DEV_WINDOW_POWER);
	assert_int_equal(fth_dev_window_info(any)->flags, FTH_DEV_WINDOW_EMULATED);
	assert_int_equal(fth_dev_window_info(any)->size, 65536);
	assert_non_null(strstr(fth_dev_window_text(any), "power loss"));
	assert_int_equal(fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_POWER, &pmr),
			 -EBUSY);
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_CMB, FTH_DEV_WINDOW_VOLATILE, &cmb));
	assert_int_equal(fth_dev_window_info(cmb)->guarantee, FTH_DEV_WINDOW_VOLATILE);
	assert_ok(fth_dev_window_store(cmb, 8190, "ab", 2));
	assert_ok(fth_dev_window_persist(cmb, 0, 8192, FTH_DEV_TIMEOUT)); /* and promises nothing */
	assert_ok(fth_dev_window_check(cmb));
	fth_dev_window_close(cmb);
	assert_int_equal(fth_dev_window_open(dev, FTH_DEV_WINDOW_CMB, FTH_DEV_WINDOW_EXIT, &cmb),
			 -EOPNOTSUPP);
	/* A refusal leaves it closed. */
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_CMB, FTH_DEV_WINDOW_VOLATILE, &cmb));
	fth_dev_window_close(cmb);
	fth_dev_window_close(any);
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_FILE, FTH_DEV_WINDOW_VOLATILE, &cmb),
		-EOPNOTSUPP);
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_MEMORY, FTH_DEV_WINDOW_VOLATILE, &cmb),
		-EOPNOTSUPP);
	fth_dev_close(dev);
}

static void any_is_the_cmb_where_there_is_no_more(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:1M)?cmb=8K", &dev));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window));
	assert_int_equal(fth_dev_window_info(window)->kind, FTH_DEV_WINDOW_CMB);
	fth_dev_window_close(window);
	fth_dev_close(dev);
	assert_ok(fth_dev_open("softnvme(mem:1M)", &dev));
	assert_int_equal(
		fth_dev_window_open(dev, FTH_DEV_WINDOW_ANY, FTH_DEV_WINDOW_VOLATILE, &window),
		-EOPNOTSUPP);
	fth_dev_close(dev);
}

static void loads_and_stores(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;
	char found[16];

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:1M)?pmr=64K", &dev));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_POWER, &window));
	assert_ok(fth_dev_window_store(window, 1001, "0123456789", 10));
	assert_memory_equal((char *)fth_dev_window_info(window)->base + 1001, "0123456789", 10);
	assert_ok(fth_dev_window_load(window, 1003, found, 4));
	assert_memory_equal(found, "2345", 4);
	assert_ok(fth_dev_window_persist(window, 1001, 10, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_window_check(window));
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

/* A keeper that is slow ends a persist at its deadline, and the window says so from then on. */
static void persist_has_a_deadline(void **state)
{
	struct fth_dev_window *window;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:1M)?pmr=64K&pmr_dev="
			       "delay%28mem:64K%29%3Fwrite_us=1500000%26flush_us=1500000",
			       &dev));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_POWER, &window));
	assert_ok(
		fth_dev_window_persist(window, 0, 64, fth_deadline_ns(1000000))); /* nothing new */
	assert_ok(fth_dev_window_store(window, 0, "a", 1));
	assert_int_equal(fth_dev_window_persist(window, 0, 1, fth_deadline_ns(1000000)),
			 -ETIMEDOUT);
	assert_int_equal(fth_dev_window_check(window), -EIO);
	fth_dev_window_close(window);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_and_guarantees),
		cmocka_unit_test(any_is_the_cmb_where_there_is_no_more),
		cmocka_unit_test(loads_and_stores),
		cmocka_unit_test(persist_has_a_deadline),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
