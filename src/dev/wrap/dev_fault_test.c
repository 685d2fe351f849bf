/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "dev/testkit/dev_narrow.h"

#include "fathom/dev/fault.h"
#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SECTOR 512

static struct fth_dev *open_fault(const char *options)
{
	struct fth_dev *dev;
	char uri[256];

	snprintf(uri, sizeof(uri), "fault(mem:1M)%s", options);
	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static struct fth_dev_fault_counts counts_of(struct fth_dev *dev)
{
	struct fth_dev_fault_counts counts;

	assert_ok(fth_dev_fault_counts(dev, &counts));
	return counts;
}

static int write_sector(struct fth_dev *dev, unsigned sector, char byte)
{
	char buf[SECTOR];

	memset(buf, byte, sizeof(buf));
	return fth_dev_write(dev, buf, sizeof(buf), (uint64_t)sector * SECTOR, FTH_DEV_TIMEOUT);
}

static char first_byte(struct fth_dev *dev, unsigned sector)
{
	char buf[SECTOR];

	assert_ok(fth_dev_read(dev, buf, sizeof(buf), (uint64_t)sector * SECTOR, FTH_DEV_TIMEOUT));
	return buf[0];
}

/* Write n sectors, one after the other; bit i of the result: write i + 1 failed. */
static uint64_t failing_writes(struct fth_dev *dev, unsigned n, int error)
{
	uint64_t failed = 0;

	for (unsigned i = 0; i < n; i++) {
		int rc = write_sector(dev, i, 'x');

		assert_true(rc == 0 || rc == -error);
		failed |= (uint64_t)(rc < 0) << i;
	}
	return failed;
}

static void the_nth_operation_fails_and_no_other(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth <= 20; nth++) {
		struct fth_dev *dev;
		char options[64];

		snprintf(options, sizeof(options), "?kind=write&nth=%u", nth);
		dev = open_fault(options);
		assert_true(failing_writes(dev, 40, EIO) == (uint64_t)1 << (nth - 1));
		assert_int_equal(first_byte(dev, nth - 1), 0); /* was not done */
		assert_int_equal(first_byte(dev, nth), 'x');
		assert_int_equal(counts_of(dev).matched, 40);
		assert_int_equal(counts_of(dev).injected, 1);
		assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 1);
		fth_dev_close(dev);
	}
}

static void every_nth_operation_can_fail(void **state)
{
	struct fth_dev *dev = open_fault("?every=5&error=ENOSPC");

	(void)state;
	assert_true(failing_writes(dev, 15, ENOSPC) == (1 << 4 | 1 << 9 | 1 << 14));
	fth_dev_close(dev);
	dev = open_fault("?nth=2&every=5");
	assert_true(failing_writes(dev, 15, EIO) == (1 << 1 | 1 << 6 | 1 << 11));
	fth_dev_close(dev);
	dev = open_fault("?every=1&count=3");
	assert_true(failing_writes(dev, 15, EIO) == 7);
	fth_dev_close(dev);
}

static void only_the_chosen_kinds_are_counted(void **state)
{
	struct fth_dev *dev = open_fault("?kind=flush,zero&nth=2&error=EROFS");

	(void)state;
	assert_ok(write_sector(dev, 0, 'a'));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_discard(dev, SECTOR, SECTOR, FTH_DEV_TIMEOUT));
	assert_int_equal(first_byte(dev, 0), 'a');
	assert_int_equal(fth_dev_zero(dev, SECTOR, 0, FTH_DEV_TIMEOUT), -EROFS);
	assert_int_equal(first_byte(dev, 0), 'a');
	assert_ok(fth_dev_zero(dev, SECTOR, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(counts_of(dev).matched, 3);
	fth_dev_close(dev);
}

static void only_the_range_is_touched(void **state)
{
	struct fth_dev *dev = open_fault("?every=1&from=4K&to=8K&error=ENODATA");
	char buf[4 * SECTOR];

	(void)state;
	assert_true(failing_writes(dev, 24, ENODATA) == 0xff00);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT)); /* has no range, so it is not in this one */
	/* One byte inside is enough. */
	assert_ok(fth_dev_read(dev, buf, sizeof(buf), 4096 - sizeof(buf), FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_read(dev, buf, sizeof(buf), 4096 - SECTOR, FTH_DEV_TIMEOUT),
			 -ENODATA);
	assert_int_equal(fth_dev_read(dev, buf, sizeof(buf), 8192 - SECTOR, FTH_DEV_TIMEOUT),
			 -ENODATA);
	assert_ok(fth_dev_read(dev, buf, sizeof(buf), 8192, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

static uint64_t failed_of_10000(const char *options, uint64_t *first_64)
{
	struct fth_dev *dev = open_fault(options);
	uint64_t failed;

	*first_64 = failing_writes(dev, 64, EIO);
	for (unsigned i = 64; i < 10000; i++)
		(void)write_sector(dev, i % 2048, 'x');
	failed = counts_of(dev).injected;
	fth_dev_close(dev);
	return failed;
}

static void a_share_of_operations_fails(void **state)
{
	uint64_t which, again, other;
	uint64_t failed = failed_of_10000("?rate=0.1&seed=7", &which);

	(void)state;
	assert_in_range(failed, 800, 1200); /* more than six standard deviations to each side */
	assert_true(failed_of_10000("?rate=0.1&seed=7", &again) == failed);
	assert_true(which == again);
	(void)failed_of_10000("?rate=0.1&seed=8", &other);
	assert_true(which != other);
	assert_int_equal(failed_of_10000("?rate=0", &which), 0);
	assert_int_equal(failed_of_10000("?rate=1", &which), 10000);
}

static void a_late_fault_is_done_first(void **state)
{
	struct fth_dev *dev = open_fault("?kind=write&nth=1&mode=late");

	(void)state;
	assert_int_equal(write_sector(dev, 3, 'l'), -EIO);
	assert_int_equal(first_byte(dev, 3), 'l');
	fth_dev_close(dev);
}

static void a_torn_write_leaves_a_prefix(void **state)
{
	struct fth_dev *dev = open_fault("?kind=write,zero&every=1&mode=torn&seed=3");
	static char old[8 * SECTOR], new[8 * SECTOR], got[8 * SECTOR];
	struct iovec pieces[3] = {
		{new, 3 * SECTOR}, {new + 3 * SECTOR, SECTOR}, {new + 4 * SECTOR, 4 * SECTOR}};
	unsigned seen = 0;

	(void)state;
	memset(old, 'o', sizeof(old));
	for (unsigned i = 0; i < sizeof(new); i++)
		new[i] = (char)(i / SECTOR + 1);
	for (unsigned round = 0; round < 200; round++) {
		struct fth_dev_req req, *r = &req, *done;
		struct fth_dev_chan *chan;
		unsigned prefix = 0;

		assert_ok(
			fth_dev_write(fth_dev_inner(dev), old, sizeof(old), 4096, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_chan_open(dev, 1, &chan));
		fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, sizeof(new), 4096);
		req.iov = pieces;
		req.iov_count = 3;
		assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
		assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
		assert_ptr_equal(done, &req);
		assert_int_equal(req.result, -EIO);
		fth_dev_chan_close(chan);
		assert_ok(fth_dev_read(dev, got, sizeof(got), 4096, FTH_DEV_TIMEOUT));
		while (prefix < 8 && got[prefix * SECTOR] != 'o')
			prefix++;
		assert_in_range(prefix, 0, 7);
		assert_memory_equal(got, new, prefix * SECTOR);
		assert_memory_equal(got + prefix * SECTOR, old, sizeof(old) - prefix * SECTOR);
		seen |= 1u << prefix;
	}
	assert_int_equal(seen, 0xff);
	assert_int_equal(fth_dev_zero(dev, SECTOR, 0, FTH_DEV_TIMEOUT), -EIO);
	fth_dev_close(dev);
}

static void a_held_request_does_not_hold_up_others(void **state)
{
	struct fth_dev *dev = open_fault("?kind=write&nth=1&mode=timeout&hold_ms=60");
	struct fth_dev_req reqs[4], *list[4], *done[4];
	struct fth_dev_chan *chan;
	static char buf[SECTOR];
	uint64_t start;
	int n;

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	for (unsigned i = 0; i < 4; i++) {
		fth_dev_req_init(&reqs[i], FTH_DEV_WRITE, buf, SECTOR, i * SECTOR);
		list[i] = &reqs[i];
	}
	start = fth_now_ns();
	assert_int_equal(fth_dev_submit(chan, list, 4), 4);
	assert_int_equal(fth_dev_reap(chan, done, 3, 3, FTH_NEVER), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_ptr_not_equal(done[i], &reqs[0]);
		assert_int_equal(done[i]->result, 0);
	}
	/* A deadline before its end is kept, and the request stays in flight. */
	n = fth_dev_reap(chan, done, 4, 1, start + 1000000);
	if (n == -ETIME) { /* as ever, unless this machine was asleep for so long */
		assert_int_equal(fth_dev_chan_in_flight(chan), 1);
		n = fth_dev_reap(chan, done, 4, 1, FTH_NEVER);
	}
	assert_int_equal(n, 1);
	assert_true(fth_now_ns() >= start + 60000000);
	assert_ptr_equal(done[0], &reqs[0]);
	assert_int_equal(reqs[0].result, -ETIMEDOUT);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void closing_waits_for_held_requests(void **state)
{
	struct fth_dev *dev = open_fault("?every=1&mode=timeout&hold_ms=20");
	struct fth_dev_req req, *r = &req;
	struct fth_dev_chan *chan;
	uint64_t start = fth_now_ns();

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	fth_dev_req_init(&req, FTH_DEV_FLUSH, NULL, 0, 0);
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	fth_dev_chan_close(chan);
	assert_true(fth_now_ns() >= start + 20000000);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 1);
	fth_dev_close(dev);
}

static void plans_change_at_run_time(void **state)
{
	struct fth_dev *dev = open_fault("");
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT, got;

	(void)state;
	assert_true(failing_writes(dev, 10, EIO) == 0);
	assert_int_equal(counts_of(dev).matched, 0);

	plan.nth = 4;
	plan.error = ENXIO;
	assert_ok(fth_dev_fault_set(dev, &plan));
	assert_ok(fth_dev_fault_get(dev, &got));
	assert_int_equal(got.nth, 4);
	assert_true(failing_writes(dev, 2, ENXIO) == 0);
	assert_ok(fth_dev_fault_disarm(dev));
	assert_true(failing_writes(dev, 10, ENXIO) == 0);
	assert_ok(fth_dev_fault_arm(dev));
	assert_true(failing_writes(dev, 10, ENXIO) == 2);
	assert_int_equal(counts_of(dev).injected, 1);

	plan.error = -5;
	assert_int_equal(fth_dev_fault_set(dev, &plan), -EINVAL);
	plan.error = EIO;
	plan.size = 3;
	assert_int_equal(fth_dev_fault_set(dev, &plan), -EINVAL);
	fth_dev_close(dev);
}

static void other_devices_are_refused(void **state)
{
	struct fth_dev_fault_counts counts;
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("delay(fault(mem:1M))", &dev));
	assert_int_equal(fth_dev_fault_set(dev, &plan), -EINVAL);
	assert_int_equal(fth_dev_fault_get(dev, &plan), -EINVAL);
	assert_int_equal(fth_dev_fault_arm(dev), -EINVAL);
	assert_int_equal(fth_dev_fault_disarm(dev), -EINVAL);
	assert_int_equal(fth_dev_fault_counts(dev, &counts), -EINVAL);
	assert_ok(fth_dev_fault_set(fth_dev_inner(dev), &plan));
	assert_null(fth_dev_inner(fth_dev_inner(fth_dev_inner(dev))));
	fth_dev_close(dev);
}

static void bad_options_are_refused(void **state)
{
	static const char *const bad[] = {
		"kind=read",	     "nth=0",	      "every=0",	"rate=1.5",
		"nth=1&kind=reed",   "nth=1&kind=",   "nth=1&error=EX", "nth=1&mode=maybe",
		"nth=1&from=2&to=2", "nth=1&other=1", "from=1M",	"nth=1&kind=read,",
	};
	struct fth_dev *dev;
	char uri[128];

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(uri, sizeof(uri), "fault(mem:1M)?%s", bad[i]);
		if (fth_dev_open(uri, &dev) != -EINVAL)
			fail_msg("\"%s\" was opened", uri);
		assert_null(dev);
	}
}

/* The device inside has room for two: the rest must wait, and late faults must not be lost. */
static void a_narrow_device_inside_loses_nothing(void **state)
{
	struct fth_dev_req reqs[32], *list[32], *done[32];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	static char buf[SECTOR];
	unsigned failed = 0;
	int got = 0;

	(void)state;
	assert_ok(fth_dev_open("fault(narrow(mem:1M))?every=3&mode=late", &dev));
	assert_ok(fth_dev_chan_open(dev, 32, &chan));
	for (unsigned i = 0; i < 32; i++) {
		fth_dev_req_init(&reqs[i], FTH_DEV_WRITE, buf, SECTOR, i * SECTOR);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, 32), 32);
	while (got < 32) {
		int n = fth_dev_reap(chan, done + got, 32 - (unsigned)got, 1, FTH_NEVER);

		assert_ok(n);
		got += n;
	}
	for (unsigned i = 0; i < 32; i++) {
		assert_int_equal(reqs[i].result, i % 3 == 2 ? -EIO : 0);
		failed += reqs[i].result != 0;
	}
	assert_int_equal(failed, 10);
	assert_int_equal(fth_dev_stat(fth_dev_inner(dev), FTH_DEV_STAT_WRITES), 32);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

#define THREADS 4
#define EACH	500

static void *hammer(void *arg)
{
	struct fth_dev_req req, *r = &req, *done;
	struct fth_dev_chan *chan;
	char buf[SECTOR] = {0};
	uintptr_t failed = 0;

	if (fth_dev_chan_open(arg, 1, &chan) < 0)
		return NULL;
	for (unsigned i = 0; i < EACH; i++) {
		fth_dev_req_init(&req, FTH_DEV_READ, buf, SECTOR, 0);
		if (fth_dev_submit(chan, &r, 1) != 1 ||
		    fth_dev_reap(chan, &done, 1, 1, FTH_NEVER) != 1)
			break;
		failed += req.result == -EIO;
	}
	fth_dev_chan_close(chan);
	return (void *)failed;
}

static void threads_share_one_count(void **state)
{
	struct fth_dev *dev = open_fault("?every=7");
	pthread_t threads[THREADS];
	uintptr_t failed = 0;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, dev), 0);
	for (unsigned i = 0; i < THREADS; i++) {
		void *mine;

		pthread_join(threads[i], &mine);
		failed += (uintptr_t)mine;
	}
	assert_int_equal(failed, THREADS * EACH / 7);
	assert_int_equal(counts_of(dev).matched, THREADS * EACH);
	assert_int_equal(counts_of(dev).injected, failed);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_operation_fails_and_no_other),
		cmocka_unit_test(every_nth_operation_can_fail),
		cmocka_unit_test(only_the_chosen_kinds_are_counted),
		cmocka_unit_test(only_the_range_is_touched),
		cmocka_unit_test(a_share_of_operations_fails),
		cmocka_unit_test(a_late_fault_is_done_first),
		cmocka_unit_test(a_torn_write_leaves_a_prefix),
		cmocka_unit_test(a_held_request_does_not_hold_up_others),
		cmocka_unit_test(closing_waits_for_held_requests),
		cmocka_unit_test(plans_change_at_run_time),
		cmocka_unit_test(other_devices_are_refused),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(a_narrow_device_inside_loses_nothing),
		cmocka_unit_test(threads_share_one_count),
	};
	if (fth_dev_scheme_register(&fth_dev_scheme_narrow) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
