/* SPDX-License-Identifier: BSD-2-Clause */
/* The crash device while the power is on, and its control; dev_crash_loss_test.c has the rest. */
#include "dev/wrap/dev_crash_fixture.h"

#include "dev/testkit/dev_gate.h"
#include "dev/wrap/dev_wrap.h"

#include "fathom/dev/fault.h"

#include <stdlib.h>

/* ---- what is pending ---- */

static void reads_see_what_is_pending(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)");
	uint64_t buf[8 * WORDS];

	(void)state;
	assert_ok(put(fth_dev_inner(dev), 0, 8, 1));
	assert_ok(put(dev, 2, 2, 5));
	assert_ok(put(dev, 3, 1, 6));
	assert_ok(fth_dev_zero(dev, SECTOR, 6 * SECTOR, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < 8; i++) {
		static const uint64_t want[8] = {1, 1, 5, 6, 1, 1, 0, 1};

		assert_int_equal(buf[i * WORDS], want[i]);
		assert_int_equal(get(dev, i), want[i]);
		assert_int_equal(get(fth_dev_inner(dev), i), 1);
	}
	assert_int_equal(counts_of(dev).pending, 3);
	assert_true(counts_of(dev).pending_bytes >= 3 * SECTOR);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(counts_of(dev).pending, 0);
	assert_int_equal(counts_of(dev).pending_bytes, 0);
	assert_int_equal(get(fth_dev_inner(dev), 3), 6);
	assert_int_equal(get(fth_dev_inner(dev), 6), 0);
	fth_dev_close(dev);
}

static void pending_data_lands_in_every_piece(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)");
	static uint64_t parts[3][4 * WORDS];
	struct iovec iov[3] = {{parts[0], SECTOR}, {parts[1], 4 * SECTOR}, {parts[2], 3 * SECTOR}};
	static const uint64_t want[8] = {1, 9, 9, 1, 1, 8, 1, 7};
	struct fth_dev_req req, *r = &req, *done;
	struct fth_dev_chan *chan;

	(void)state;
	assert_ok(put(fth_dev_inner(dev), 0, 8, 1));
	assert_ok(put(dev, 1, 2, 9));
	assert_ok(put(dev, 5, 1, 8));
	assert_ok(put(dev, 7, 1, 7));
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	fth_dev_req_init(&req, FTH_DEV_READ, NULL, 8 * SECTOR, 0);
	req.iov = iov;
	req.iov_count = 3;
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	assert_int_equal(req.result, 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(i < 1	 ? parts[0][0]
				 : i < 5 ? parts[1][(i - 1) * WORDS]
					 : parts[2][(i - 5) * WORDS],
				 want[i]);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* The flush moves the pending sector inside while the read is there already. */
static void a_read_keeps_what_was_pending(void **state)
{
	struct fth_dev *dev = open_dev("crash(delay(mem:64K)?read_us=3000)");
	uint64_t buf[2 * WORDS];
	struct fth_dev_req req, *r = &req, *done;
	struct fth_dev_chan *chan;

	(void)state;
	assert_ok(put(dev, 1, 1, 4));
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	fth_dev_req_init(&req, FTH_DEV_READ, buf, sizeof(buf), 0);
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	assert_int_equal(buf[0], 0);
	assert_int_equal(buf[WORDS], 4);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* spy(URI) passes everything on, and looks at the first sector of the device inside at the end. */
static uint64_t spied;

static void spy_done(struct fth_wrap_chan *chan, struct fth_dev_req *req)
{
	fth_wrap_hold(chan, req, FTH_WRAP_NOW);
}

static int spy_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	return fth_wrap_chan_new(dev, depth, spy_done, out);
}

static int spy_submit(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n)
{
	fth_wrap_pass((struct fth_wrap_chan *)chan, reqs, n);
	return (int)n;
}

static void spy_close(struct fth_dev *dev)
{
	struct fth_dev *inner = ((struct fth_wrap_dev *)dev)->inner;

	spied = get(inner, 0);
	fth_dev_close(inner);
	free(dev);
}

static const struct fth_dev_ops spy_ops = {
	.close = spy_close,
	.chan_open = spy_chan_open,
	.chan_close = fth_wrap_chan_close,
	.submit = spy_submit,
	.reap = fth_wrap_reap,
	.map = fth_wrap_map,
	.unmap = fth_wrap_unmap,
};

static int spy_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct fth_wrap_dev *spy = calloc(1, sizeof(*spy));

	(void)uri;
	if (!spy)
		return -ENOMEM;
	spy->inner = inner;
	spy->dev.ops = &spy_ops;
	spy->dev.info = *fth_dev_info(inner);
	*out = &spy->dev;
	return 0;
}

static const struct fth_dev_scheme spy_scheme = {.name = "spy", .wrapper = true, .open = spy_open};

static void closing_writes_back_without_a_flush(void **state)
{
	struct fth_dev *dev = open_dev("crash(spy(mem:64K))");

	(void)state;
	assert_ok(put(dev, 0, 1, 3));
	fth_dev_close(dev);
	assert_int_equal(spied, 3);
	/* What a power loss took is not written back by closing. */
	dev = open_dev("crash(spy(mem:64K))?crash_at=1&seed=2");
	assert_int_equal(put(dev, 0, 1, 4), -ENODEV);
	assert_int_equal(counts_of(dev).vanished, 1);
	fth_dev_close(dev);
	assert_int_equal(spied, 0);
}

static void a_flush_goes_all_the_way(void **state)
{
	struct fth_dev *dev = open_dev("crash(crash(mem:64K))");

	(void)state;
	assert_ok(put(dev, 1, 1, 3));
	assert_int_equal(counts_of(fth_dev_inner(dev)).pending, 0);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(counts_of(dev).pending, 0);
	assert_int_equal(counts_of(fth_dev_inner(dev)).operations, 2);
	assert_int_equal(counts_of(fth_dev_inner(dev)).pending, 0);
	/* So do survivors: the inner one must not lose what the outer one found on the medium. */
	assert_ok(put(dev, 1, 1, 4));
	crash_and_restart(dev, 1);
	assert_int_equal(counts_of(fth_dev_inner(dev)).pending, 0);
	fth_dev_close(dev);
}

static void the_limit_writes_back_the_oldest(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:1M)?limit=16K");

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		assert_ok(put(dev, i, 1, i + 1));
	assert_true(counts_of(dev).pending_bytes <= 16384);
	assert_true(counts_of(dev).pending > 10);
	assert_int_equal(counts_of(dev).pending + counts_of(dev).written_back, 100);
	assert_int_equal(get(fth_dev_inner(dev), 0), 1);
	assert_int_equal(get(fth_dev_inner(dev), 99), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(get(dev, i), i + 1);
	/* One that is larger than the limit is kept all the same. */
	assert_ok(put(dev, 0, 64, 7));
	assert_int_equal(counts_of(dev).pending, 1);
	fth_dev_close(dev);
}

static void large_zeroes_go_through(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64M)");

	(void)state;
	assert_ok(put(dev, 5, 1, 1));
	assert_ok(fth_dev_zero(dev, 32 << 20, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(counts_of(dev).pending, 0);
	assert_int_equal(counts_of(dev).written_back, 1);
	assert_int_equal(get(dev, 5), 0);
	assert_ok(put(dev, 5, 1, 2));
	assert_ok(fth_dev_discard(dev, 32 << 20, 32 << 20, FTH_DEV_TIMEOUT));
	assert_int_equal(get(dev, 5), 2);
	fth_dev_close(dev);
}

static void thousands_of_writes_can_be_pending(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:4M)");

	(void)state;
	for (unsigned i = 0; i < 8192; i++)
		assert_ok(put(dev, (i * 31) % 8192, 1, i + 1));
	for (unsigned i = 0; i < 8192; i++)
		assert_int_equal(get(dev, (i * 31) % 8192), i + 1);
	assert_int_equal(counts_of(dev).pending, 8192);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < 8192; i++)
		assert_int_equal(get(fth_dev_inner(dev), (i * 31) % 8192), i + 1);
	fth_dev_close(dev);
}

/* ---- errors of the device inside ---- */

static void a_failed_flush_keeps_what_is_pending(void **state)
{
	struct fth_dev *dev = open_dev("crash(fault(mem:64K))");
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_ok(put(dev, i, 1, i + 1));
	plan.nth = 3;
	assert_ok(fth_dev_fault_set(fth_dev_inner(dev), &plan));
	assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(counts_of(dev).pending, 2);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(get(dev, i), i + 1);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	crash_and_restart(dev, 1);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(get(dev, i), i + 1);
	fth_dev_close(dev);
}

static void unknown_contents_are_not_handed_out(void **state)
{
	struct fth_dev *dev = open_dev("crash(fault(mem:64K))");
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	(void)state;
	assert_ok(put(dev, 0, 1, 1));
	plan.every = 1;
	assert_ok(fth_dev_fault_set(fth_dev_inner(dev), &plan));
	assert_int_equal(fth_dev_crash_power_loss(dev, 1), -EIO);
	assert_int_equal(fth_dev_crash_restart(dev), -EIO);
	assert_false(fth_dev_crash_powered(dev));
	fth_dev_close(dev);
}

/* ---- a device inside that does not answer ---- */

static unsigned submitted_inside(struct fth_dev *dev)
{
	struct fth_gate_counts counts;

	fth_gate_counts(fth_dev_inner(dev), &counts);
	return counts.submitted;
}

static void *flush_once(void *dev)
{
	return (void *)(intptr_t)fth_dev_flush(dev, FTH_DEV_TIMEOUT);
}

static void operations_end_though_the_device_inside_does_not_answer(void **state)
{
	struct fth_dev *dev = open_dev("crash(gate:64K)?timeout_ms=20&limit=8K");
	pthread_t threads[4];
	unsigned before;

	(void)state;
	assert_ok(put(dev, 0, 4, 1));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_gate_set(fth_dev_inner(dev), false);
	assert_ok(put(dev, 0, 2, 2)); /* goes into the log */
	assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -ETIMEDOUT);
	before = submitted_inside(dev);
	/* From now on nobody waits; what needs the device fails, what does not goes on. */
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, flush_once, dev), 0);
	for (unsigned i = 0; i < 4; i++) {
		void *rc;

		pthread_join(threads[i], &rc);
		assert_int_equal((intptr_t)rc, -ETIMEDOUT);
	}
	assert_int_equal(put(dev, 8, 16, 4), -ETIMEDOUT); /* has to make room */
	assert_ok(put(dev, 1, 1, 3));
	assert_int_equal(get(dev, 0), 2);
	assert_int_equal(get(dev, 1), 3);
	assert_int_equal(submitted_inside(dev), before);
	/* The late write lands before the newer one. */
	fth_gate_set(fth_dev_inner(dev), true);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(get(fth_dev_inner(dev), 0), 2);
	assert_int_equal(get(fth_dev_inner(dev), 1), 3);
	assert_int_equal(get(fth_dev_inner(dev), 2), 1);
	fth_dev_close(dev);
}

static void a_power_loss_ends_though_the_device_inside_does_not_answer(void **state)
{
	struct fth_dev *dev = open_dev("crash(gate:64K)?timeout_ms=20");

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		assert_ok(put(dev, i, 1, 1));
	fth_gate_set(fth_dev_inner(dev), false);
	assert_int_equal(fth_dev_crash_power_loss(dev, 1), -ETIMEDOUT);
	fth_gate_set(fth_dev_inner(dev), true);
	assert_int_equal(fth_dev_crash_restart(dev), -ETIMEDOUT); /* the contents are unknown */
	fth_dev_close(dev);
}

static void other_devices_are_refused(void **state)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:64K?block=1))");
	struct fth_dev_crash_counts counts;

	(void)state;
	assert_int_equal(fth_dev_info(dev)->block, 512);
	assert_int_equal(fth_dev_crash_power_loss(dev, 0), -EINVAL);
	assert_int_equal(fth_dev_crash_restart(dev), -EINVAL);
	assert_int_equal(fth_dev_crash_at(dev, 1, 1), -EINVAL);
	assert_int_equal(fth_dev_crash_counts(dev, &counts), -EINVAL);
	assert_false(fth_dev_crash_powered(dev));
	assert_true(fth_dev_crash_powered(fth_dev_inner(dev)));
	fth_dev_close(dev);
	assert_int_equal(fth_dev_open("crash(mem:100?block=1)", &dev), -EINVAL);
	assert_int_equal(fth_dev_open("crash(mem:64K)?crash_at=0", &dev), -EINVAL);
	assert_int_equal(fth_dev_open("crash(mem:64K)?lie=maybe", &dev), -EINVAL);
	assert_int_equal(fth_dev_open("crash(mem:64K)?sed=1", &dev), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_see_what_is_pending),
		cmocka_unit_test(pending_data_lands_in_every_piece),
		cmocka_unit_test(a_read_keeps_what_was_pending),
		cmocka_unit_test(closing_writes_back_without_a_flush),
		cmocka_unit_test(a_flush_goes_all_the_way),
		cmocka_unit_test(the_limit_writes_back_the_oldest),
		cmocka_unit_test(large_zeroes_go_through),
		cmocka_unit_test(thousands_of_writes_can_be_pending),
		cmocka_unit_test(a_failed_flush_keeps_what_is_pending),
		cmocka_unit_test(unknown_contents_are_not_handed_out),
		cmocka_unit_test(operations_end_though_the_device_inside_does_not_answer),
		cmocka_unit_test(a_power_loss_ends_though_the_device_inside_does_not_answer),
		cmocka_unit_test(other_devices_are_refused),
	};
	if (fth_dev_scheme_register(&spy_scheme) < 0 ||
	    fth_dev_scheme_register(&fth_dev_scheme_gate) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
