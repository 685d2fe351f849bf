/* SPDX-License-Identifier: BSD-2-Clause */
/* The driver against controllers that do not come up, identify data that lies, and timeouts. */
#include "fth_test.h"

#include "fathom/dev/driver.h"
#include "fathom/hd/wait.h"
#include "nvme/driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- bring-up against registers played by hand ---- */

enum fault { STUCK_READY, NEVER_READY, FATAL, GONE, NO_NVM, BIG_PAGES, SILENT };

struct fake_transport {
	struct fth_nvme_transport base;
	enum fault fault;
	uint32_t cc;
	int mapped; /* ranges */
	uint32_t doorbells[64];
};

static struct fake_transport *fake_of(struct fth_nvme_transport *t)
{
	return (struct fake_transport *)t;
}

static uint32_t fake_read32(struct fth_nvme_transport *t, uint32_t offset)
{
	struct fake_transport *fake = fake_of(t);
	bool enabled = fake->cc & FTH_NVME_CC_ENABLE;

	if (fake->fault == GONE)
		return UINT32_MAX;
	if (offset != FTH_NVME_REG_CSTS)
		return offset == FTH_NVME_REG_CC ? fake->cc : 0;
	if (fake->fault == FATAL && enabled)
		return FTH_NVME_CSTS_FATAL;
	if (fake->fault == STUCK_READY)
		return FTH_NVME_CSTS_READY;
	return enabled && fake->fault != NEVER_READY ? FTH_NVME_CSTS_READY : 0;
}

/* CAP with a timeout of 500 ms: the unit of zero. */
static uint64_t fake_read64(struct fth_nvme_transport *t, uint32_t offset)
{
	uint64_t cap = 63 | FTH_NVME_CAP_CSS_NVM;

	(void)offset;
	switch (fake_of(t)->fault) {
	case GONE:
		return UINT64_MAX;
	case NO_NVM:
		return 63;
	case BIG_PAGES:
		return cap | 1ull << 48;
	default:
		return cap;
	}
}

static void fake_write32(struct fth_nvme_transport *t, uint32_t offset, uint32_t value)
{
	if (offset == FTH_NVME_REG_CC)
		fake_of(t)->cc = value;
}

static void fake_write64(struct fth_nvme_transport *t, uint32_t offset, uint64_t value)
{
	(void)t;
	(void)offset;
	(void)value;
}

static int fake_map(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t *iova)
{
	(void)len;
	*iova = (uintptr_t)addr;
	fake_of(t)->mapped++;
	return 0;
}

static void fake_unmap(struct fth_nvme_transport *t, void *addr, size_t len, uint64_t iova)
{
	(void)addr;
	(void)len;
	(void)iova;
	fake_of(t)->mapped--;
}

static const struct fth_nvme_transport_ops fake_ops = {
	.read32 = fake_read32,
	.read64 = fake_read64,
	.write32 = fake_write32,
	.write64 = fake_write64,
	.map = fake_map,
	.unmap = fake_unmap,
};

static void a_controller_that_does_not_come_up_is_an_error(void **state)
{
	static const struct {
		enum fault fault;
		int rc;
	} cases[] = {
		{STUCK_READY, -ETIMEDOUT}, {NEVER_READY, -ETIMEDOUT}, {FATAL, -EIO},
		{GONE, -ENODEV},	   {NO_NVM, -EOPNOTSUPP},     {BIG_PAGES, -EOPNOTSUPP},
		{SILENT, -ETIME},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fake_transport fake = {.base = {.ops = &fake_ops}, .fault = cases[i].fault};
		struct fth_nvme_options opts = FTH_NVME_OPTIONS_INIT;
		struct fth_nvme *nvme;

		fake.base.doorbells = (char *)fake.doorbells;
		opts.timeout_ns = 1000000;
		assert_int_equal(fth_nvme_open(&fake.base, &opts, &nvme), cases[i].rc);
		assert_null(nvme);
		assert_int_equal(fake.mapped, 0);
		assert_int_equal(fake.cc & FTH_NVME_CC_ENABLE, 0);
	}
}

static void options_are_checked(void **state)
{
	struct fake_transport fake = {.base = {.ops = &fake_ops}, .fault = SILENT};
	struct fth_nvme_options good = FTH_NVME_OPTIONS_INIT, bad;
	struct fth_nvme *nvme;

	(void)state;
	bad = good;
	bad.entries = 100;
	assert_int_equal(fth_nvme_open(&fake.base, &bad, &nvme), -EINVAL);
	bad = good;
	bad.nsid = 0;
	assert_int_equal(fth_nvme_open(&fake.base, &bad, &nvme), -EINVAL);
	bad = good;
	bad.size = 4;
	assert_int_equal(fth_nvme_open(&fake.base, &bad, &nvme), -EINVAL);
	bad = good;
	bad.timeout_ns = 0;
	assert_int_equal(fth_nvme_open(&fake.base, &bad, &nvme), -EINVAL);
}

/* ---- identify ---- */

static struct fth_nvme_id_ctrl ctrl;
static struct fth_nvme_id_ns ns;
static struct fth_nvme_info info;

static void good_identify(void)
{
	memset(&ctrl, 0, sizeof(ctrl));
	memset(&ns, 0, sizeof(ns));
	memset(ctrl.sn, ' ', sizeof(ctrl.sn));
	memcpy(ctrl.sn, "S1\x01", 3);
	ctrl.sqes = 0x66;
	ctrl.cqes = 0x44;
	ctrl.mdts = 5;
	ns.nsze = 1000;
	ns.lbaf[0].data_shift = 12;
}

static void identify_is_read(void **state)
{
	(void)state;
	good_identify();
	assert_ok(fth_nvme_parse_identify(&ctrl, &ns, &info));
	assert_string_equal(info.serial, "S1?");
	assert_int_equal(info.blocks, 1000);
	assert_int_equal(info.lba_shift, 12);
	assert_int_equal(info.max_transfer, 32 * 4096);
	ctrl.mdts = 0;
	assert_ok(fth_nvme_parse_identify(&ctrl, &ns, &info));
	assert_int_equal(info.max_transfer, 2u << 20);
	ctrl.mdts = 255;
	assert_ok(fth_nvme_parse_identify(&ctrl, &ns, &info));
	assert_int_equal(info.max_transfer, 2u << 20);
}

static void identify_is_not_believed(void **state)
{
	(void)state;
	good_identify();
	ns.nsze = 0;
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -ENODEV);
	good_identify();
	ns.flbas = 1; /* of one format */
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EINVAL);
	good_identify();
	ns.lbaf[0].metadata = 8;
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EOPNOTSUPP);
	good_identify();
	ns.lbaf[0].data_shift = 8;
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EOPNOTSUPP);
	good_identify();
	ns.lbaf[0].data_shift = 200;
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EOPNOTSUPP);
	good_identify();
	ns.nsze = UINT64_MAX / 4096 + 1;
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EINVAL);
	good_identify();
	ns.lbaf[0].data_shift = 16;
	ctrl.mdts = 3; /* 32 KiB per command, and blocks of 64 KiB */
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EOPNOTSUPP);
	ctrl.mdts = 4;
	assert_ok(fth_nvme_parse_identify(&ctrl, &ns, &info));
	good_identify();
	ctrl.sqes = 0x55;
	assert_int_equal(fth_nvme_parse_identify(&ctrl, &ns, &info), -EOPNOTSUPP);
}

/* ---- timeouts ---- */

/* The medium sits on one write for longer than a command may take. */
static void a_timeout_resets_the_controller_and_the_device_goes_on(void **state)
{
	enum { N = 8 };
	struct fth_dev_req reqs[N], *list[N], *done[N];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	unsigned timed_out = 0;
	char *buf;

	(void)state;
	assert_ok(fth_dev_open("softnvme(fault(mem:1M)?kind=write&nth=3&mode=timeout&hold_ms=2000)"
			       "?queues=1&timeout_ms=1000",
			       &dev));
	assert_ok(fth_dev_chan_open(dev, N, &chan));
	buf = fth_dev_buf_alloc(dev, N * 4096);
	for (unsigned i = 0; i < N; i++) {
		memset(buf + i * 4096, (int)i + 1, 4096);
		fth_dev_req_init(&reqs[i], FTH_DEV_WRITE, buf + i * 4096, 4096, i * 4096);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, N), N);
	assert_int_equal(fth_dev_reap(chan, done, N, N, fth_deadline_ns(200000000000u)), N);
	for (unsigned i = 0; i < N; i++) {
		assert_true(reqs[i].result == 0 || reqs[i].result == -ETIMEDOUT);
		timed_out += reqs[i].result == -ETIMEDOUT;
	}
	assert_int_equal(reqs[2].result, -ETIMEDOUT);
	assert_true(timed_out >= 1);

	/* the same again: the controller has come back */
	assert_int_equal(fth_dev_submit(chan, list, N), N);
	assert_int_equal(fth_dev_reap(chan, done, N, N, fth_deadline_ns(200000000000u)), N);
	memset(buf, 0, N * 4096);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(reqs[i].result, 0);
	assert_ok(fth_dev_read(dev, buf, N * 4096, 0, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(buf[i * 4096 + 4095], i + 1);
	fth_dev_buf_free(dev, buf, N * 4096);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* Threads that share the queue pairs all get errors, none hangs, and all can go on. */
#define THREADS 4
#define ROUNDS	300

static struct fth_dev *shared;
static uint32_t failures, hopeless;

static void *hammer(void *arg)
{
	uint64_t offset = (uintptr_t)arg * 4096;
	struct fth_dev_chan *chan;
	static char bufs[THREADS][4096];
	unsigned good = 0;

	if (fth_dev_chan_open(shared, 1, &chan) < 0)
		return NULL;
	for (unsigned i = 0; good < ROUNDS && i < 1000 * ROUNDS; i++) {
		struct fth_dev_req req, *r = &req, *done;

		fth_dev_req_init(&req, FTH_DEV_WRITE, bufs[offset / 4096], 4096, offset);
		if (fth_dev_submit(chan, &r, 1) == 1 &&
		    fth_dev_reap(chan, &done, 1, 1, FTH_NEVER) == 1 && req.result == 0) {
			good++;
			continue;
		}
		fth_add_relaxed_dev32(&failures, 1);
		sched_yield();
	}
	if (good < ROUNDS)
		fth_add_relaxed_dev32(&hopeless, 1);
	fth_dev_chan_close(chan);
	return NULL;
}

static void threads_survive_resets(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	assert_ok(
		fth_dev_open("softnvme(fault(mem:1M)?kind=write&every=400&mode=timeout&hold_ms=200)"
			     "?queues=2&timeout_ms=50",
			     &shared));
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(hopeless, 0);
	assert_true(failures > 0);
	fth_dev_close(shared);
}

static void media_errors_become_errnos(void **state)
{
	struct fth_dev *dev;
	char buf[4096] = {0};

	(void)state;
	assert_ok(fth_dev_open("softnvme(fault(mem:1M)?from=64K&to=128K&every=1)", &dev));
	assert_int_equal(fth_dev_read(dev, buf, 4096, 65536, FTH_DEV_TIMEOUT), -ENODATA);
	assert_int_equal(fth_dev_write(dev, buf, 4096, 65536, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_dev_write(dev, buf, 4096, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 2);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_controller_that_does_not_come_up_is_an_error),
		cmocka_unit_test(options_are_checked),
		cmocka_unit_test(identify_is_read),
		cmocka_unit_test(identify_is_not_believed),
		cmocka_unit_test(a_timeout_resets_the_controller_and_the_device_goes_on),
		cmocka_unit_test(threads_survive_resets),
		cmocka_unit_test(media_errors_become_errnos),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
