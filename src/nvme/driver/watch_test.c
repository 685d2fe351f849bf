/* SPDX-License-Identifier: BSD-2-Clause */
/* Controllers that leave, fall ill, do not stop, or interrupt: the software one, with a shim. */
#include "fth_test.h"

#include "fathom/hd/wait.h"
#include "nvme/ctrl.h"
#include "nvme/soft.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* ---- a shim between the driver and the software controller ---- */

enum look { WELL, GONE, FATAL, NOT_READY, STUCK };

struct shim {
	struct fth_nvme_transport base;
	struct fth_nvme_transport *inner;
	struct fth_dev *medium;
	uint32_t look;	   /* enum look; changes while other threads read */
	uint32_t unwanted; /* the system wants it back */
	bool hurried;	   /* promises to stop within half a second: CAP.TO is 0 */
	unsigned resets, waits;
};

static struct fth_nvme_transport *inner_of(struct fth_nvme_transport *t)
{
	return ((struct shim *)t)->inner;
}

static void set_look(struct shim *shim, enum look look)
{
	fth_store_release_dev32(&shim->look, look);
}

static uint32_t shim_read32(struct fth_nvme_transport *t, uint32_t offset)
{
	uint32_t value = inner_of(t)->ops->read32(inner_of(t), offset);
	enum look look = (enum look)fth_load_acquire_dev32(&((struct shim *)t)->look);

	if (look == GONE)
		return UINT32_MAX;
	if (offset != FTH_NVME_REG_CSTS)
		return value;
	if (look == FATAL)
		return value | FTH_NVME_CSTS_FATAL;
	if (look == NOT_READY)
		return value & ~FTH_NVME_CSTS_READY;
	return look == STUCK ? value | FTH_NVME_CSTS_READY : value;
}

static uint64_t shim_read64(struct fth_nvme_transport *t, uint32_t offset)
{
	uint64_t value = inner_of(t)->ops->read64(inner_of(t), offset);

	if (offset == FTH_NVME_REG_CAP && ((struct shim *)t)->hurried)
		value &= ~((uint64_t)0xff << FTH_NVME_CAP_TIMEOUT_SHIFT);
	return value;
}

/* Disabling cures a fatal status, and one that was disabled behind our back. */
static void shim_write32(struct fth_nvme_transport *t, uint32_t offset, uint32_t value)
{
	struct shim *shim = (struct shim *)t;

	if (fth_load_acquire_dev32(&shim->look) == GONE)
		return;
	if (offset == FTH_NVME_REG_CC && !(value & FTH_NVME_CC_ENABLE) && shim->look != STUCK)
		set_look(shim, WELL);
	inner_of(t)->ops->write32(inner_of(t), offset, value);
}

static void shim_write64(struct fth_nvme_transport *t, uint32_t offset, uint64_t value)
{
	inner_of(t)->ops->write64(inner_of(t), offset, value);
}

static int shim_map(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t *iova)
{
	return inner_of(t)->ops->map(inner_of(t), addr, len, iova);
}

static void shim_unmap(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t iova)
{
	inner_of(t)->ops->unmap(inner_of(t), addr, len, iova);
}

static int shim_alive(struct fth_nvme_transport *t)
{
	return fth_load_acquire_dev32(&((struct shim *)t)->unwanted) ? -ENODEV : 0;
}

static int shim_reset(struct fth_nvme_transport *t)
{
	struct shim *shim = (struct shim *)t;

	shim->resets++;
	set_look(shim, WELL);
	return 0;
}

static int shim_wait(struct fth_nvme_transport *t, unsigned vector, uint64_t deadline)
{
	const struct timespec moment = {0, 20000};

	(void)deadline;
	assert_in_range(vector, 1, t->vectors - 1);
	((struct shim *)t)->waits++;
	nanosleep(&moment, NULL);
	return 0;
}

static void shim_close(struct fth_nvme_transport *t)
{
	inner_of(t)->ops->close(inner_of(t));
	fth_dev_close(((struct shim *)t)->medium);
}

static const struct fth_nvme_transport_ops shim_ops = {
	.read32 = shim_read32,
	.read64 = shim_read64,
	.write32 = shim_write32,
	.write64 = shim_write64,
	.map = shim_map,
	.unmap = shim_unmap,
	.alive = shim_alive,
	.reset = shim_reset,
	.wait = shim_wait,
	.close = shim_close,
};

/* ---- shim(URI), a device on it ---- */

static struct shim shim;
static struct fth_nvme_options opts;

static int open_shim(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct fth_nvme_ctrl_options ctrl_opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_ctrl *ctrl;
	struct fth_nvme *nvme;
	int rc;

	assert_ok(fth_uri_finish(uri));
	assert_ok(fth_nvme_ctrl_new(inner, &ctrl_opts, &ctrl));
	assert_ok(fth_nvme_soft_new(ctrl, &shim.inner));
	shim.base.ops = &shim_ops;
	shim.base.doorbells = shim.inner->doorbells;
	rc = fth_nvme_open(&shim.base, &opts, &nvme);
	if (rc < 0) {
		shim.inner->ops->close(shim.inner);
		return rc;
	}
	assert_ok(fth_nvme_dev_new(nvme, out));
	shim.medium = inner;
	return 0;
}

static const struct fth_dev_scheme scheme = {.name = "shim", .wrapper = true, .open = open_shim};

/* A command may take an hour here: a test that waits that long has found its bug. */
static int prepare(void **state)
{
	(void)state;
	memset(&shim, 0, sizeof(shim));
	opts = (struct fth_nvme_options)FTH_NVME_OPTIONS_INIT;
	opts.queues = 2;
	opts.timeout_ns = 3600000000000u;
	return 0;
}

/* Writes to this medium take a second: whatever ends them sooner is not their completion. */
#define SLOW "shim(delay(mem:1M)?write_us=1000000)"

#define N 8
static struct fth_dev_req reqs[N];
static char bufs[N][4096];

static int submit_all(struct fth_dev_chan *chan)
{
	struct fth_dev_req *list[N];

	for (unsigned i = 0; i < N; i++) {
		fth_dev_req_init(&reqs[i], FTH_DEV_WRITE, bufs[i], sizeof(bufs[i]), i * 4096);
		list[i] = &reqs[i];
	}
	return fth_dev_submit(chan, list, N);
}

static void reap_all(struct fth_dev_chan *chan, int expect)
{
	struct fth_dev_req *done[N];

	assert_int_equal(fth_dev_reap(chan, done, N, N, FTH_NEVER), N);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(reqs[i].result, expect);
}

static void open_slow(struct fth_dev **dev, struct fth_dev_chan **chan)
{
	assert_ok(fth_dev_open(SLOW, dev));
	assert_ok(fth_dev_chan_open(*dev, N, chan));
}

/* ---- leaving ---- */

static void a_drive_that_is_gone_ends_every_wait_for_good(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	(void)state;
	open_slow(&dev, &chan);
	assert_int_equal(submit_all(chan), N);
	set_look(&shim, GONE);
	reap_all(chan, -ENODEV);
	assert_int_equal(submit_all(chan), -ENODEV);
	/* Something is there again: nobody knows whether it is the same. */
	set_look(&shim, WELL);
	assert_int_equal(submit_all(chan), -ENODEV);
	/* One that is gone does not touch memory any more. */
	shim.inner->ops->write32(shim.inner, FTH_NVME_REG_CC, 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void a_drive_that_the_system_wants_back_is_let_go(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	(void)state;
	open_slow(&dev, &chan);
	assert_int_equal(submit_all(chan), N);
	fth_store_release_dev32(&shim.unwanted, 1);
	reap_all(chan, -ENODEV);
	assert_int_equal(submit_all(chan), -ENODEV);
	/* It was there: it was disabled before the waits ended. */
	assert_int_equal(shim.inner->ops->read32(shim.inner, FTH_NVME_REG_CC) & FTH_NVME_CC_ENABLE,
			 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* Also a caller who never waits, but asks again and again, gets its error. */
static void polling_without_waiting_notices_as_well(void **state)
{
	struct fth_dev_req *done[N];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	int n = 0;

	(void)state;
	open_slow(&dev, &chan);
	assert_int_equal(submit_all(chan), N);
	fth_store_release_dev32(&shim.unwanted, 1);
	while (n < N) {
		int rc = fth_dev_reap(chan, done, N, 0, 0);

		assert_ok(rc);
		n += rc;
	}
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(reqs[i].result, -ENODEV);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* A disabled controller answers no admin command. */
static void admin_commands_end_too(void **state)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_GET_FEATURES,
				       .cdw10 = FTH_NVME_FEAT_QUEUES};
	struct fth_nvme *nvme;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("shim(mem:1M)", &dev));
	nvme = fth_nvme_of_dev(dev);
	assert_ok(fth_nvme_admin(nvme, &command, NULL));
	set_look(&shim, GONE);
	shim.inner->ops->write32(shim.inner, FTH_NVME_REG_CC, 0);
	assert_int_equal(fth_nvme_admin(nvme, &command, NULL), -ENODEV);
	assert_int_equal(fth_nvme_recover(nvme), -ENODEV);
	fth_dev_close(dev);
}

/* One that leaves while it is being brought back is gone for good, too. */
static void leaving_during_a_recovery_is_for_good(void **state)
{
	struct fth_nvme *nvme;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("shim(mem:1M)", &dev));
	nvme = fth_nvme_of_dev(dev);
	fth_nvme_fail(nvme, EIO);
	set_look(&shim, GONE);
	assert_int_equal(fth_nvme_recover(nvme), -ENODEV);
	set_look(&shim, WELL);
	assert_int_equal(fth_nvme_recover(nvme), -ENODEV);
	fth_dev_close(dev);
}

/* ---- illness ---- */

static void illness_is_cured_by_a_reset(enum look look)
{
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	open_slow(&dev, &chan);
	assert_int_equal(submit_all(chan), N);
	set_look(&shim, look);
	reap_all(chan, -EIO);
	assert_int_equal(submit_all(chan), N);
	reap_all(chan, 0);
	assert_int_equal(shim.resets, 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void a_fatal_status_resets_the_controller(void **state)
{
	(void)state;
	illness_is_cured_by_a_reset(FATAL);
}

static void a_controller_that_others_disabled_is_reset(void **state)
{
	(void)state;
	illness_is_cured_by_a_reset(NOT_READY);
}

static void one_that_does_not_stop_is_reset_from_outside(void **state)
{
	struct fth_dev_req *done[N];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	(void)state;
	shim.hurried = true;
	assert_ok(fth_dev_open("shim(mem:1M)", &dev));
	assert_ok(fth_dev_chan_open(dev, N, &chan));
	assert_int_equal(submit_all(chan), N);
	set_look(&shim, STUCK);
	fth_nvme_fail(fth_nvme_of_dev(dev), EIO);
	assert_int_equal(shim.resets, 1);
	/* Some were done before. */
	assert_int_equal(fth_dev_reap(chan, done, N, N, FTH_NEVER), N);
	for (unsigned i = 0; i < N; i++)
		assert_true(reqs[i].result == 0 || reqs[i].result == -EIO);
	assert_int_equal(submit_all(chan), N);
	reap_all(chan, 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* ---- interrupts, doorbells ---- */

static void waits_sleep_where_there_are_interrupts(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	(void)state;
	shim.base.vectors = 3;
	shim.base.sleeps = true;
	open_slow(&dev, &chan);
	assert_int_equal(submit_all(chan), N);
	reap_all(chan, 0);
	assert_true(shim.waits > 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void no_doorbell_beyond_the_bar(void **state)
{
	struct fth_dev *dev;

	(void)state;
	opts.queues = 8;
	shim.base.doorbell_bytes = 4 * 8; /* the admin queue and three pairs */
	assert_ok(fth_dev_open("shim(mem:1M)", &dev));
	assert_int_equal(fth_nvme_info(fth_nvme_of_dev(dev))->queues, 3);
	fth_dev_close(dev);
	shim.base.doorbell_bytes = 15;
	assert_int_equal(fth_dev_open("shim(mem:1M)", &dev), -EOPNOTSUPP);
}

static int setup(void **state)
{
	(void)state;
	return fth_dev_scheme_register(&scheme);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_drive_that_is_gone_ends_every_wait_for_good, prepare),
		cmocka_unit_test_setup(a_drive_that_the_system_wants_back_is_let_go, prepare),
		cmocka_unit_test_setup(polling_without_waiting_notices_as_well, prepare),
		cmocka_unit_test_setup(admin_commands_end_too, prepare),
		cmocka_unit_test_setup(leaving_during_a_recovery_is_for_good, prepare),
		cmocka_unit_test_setup(a_fatal_status_resets_the_controller, prepare),
		cmocka_unit_test_setup(a_controller_that_others_disabled_is_reset, prepare),
		cmocka_unit_test_setup(one_that_does_not_stop_is_reset_from_outside, prepare),
		cmocka_unit_test_setup(waits_sleep_where_there_are_interrupts, prepare),
		cmocka_unit_test_setup(no_doorbell_beyond_the_bar, prepare),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
