/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the crash device share: sectors that hold one number each. */
#ifndef FTH_DEV_CRASH_FIXTURE_H
#define FTH_DEV_CRASH_FIXTURE_H

#include "fth_test.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

#define SECTOR 512
#define WORDS  (SECTOR / sizeof(uint64_t))

static inline struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static inline struct fth_dev_crash_counts counts_of(struct fth_dev *dev)
{
	struct fth_dev_crash_counts counts;

	assert_ok(fth_dev_crash_counts(dev, &counts));
	return counts;
}

/* A stamp fills a sector with one number, so that a tear inside it would show. */
static inline void stamp(uint64_t *buf, unsigned sectors, uint64_t value)
{
	for (unsigned i = 0; i < sectors * WORDS; i++)
		buf[i] = value;
}

static inline int put(struct fth_dev *dev, unsigned sector, unsigned sectors, uint64_t value)
{
	uint64_t buf[64 * WORDS];

	stamp(buf, sectors, value);
	return fth_dev_write(dev, buf, (uint64_t)sectors * SECTOR, (uint64_t)sector * SECTOR,
			     FTH_DEV_TIMEOUT);
}

/* As put(), but durable when it returns 0. */
static inline int put_through(struct fth_dev *dev, unsigned sector, unsigned sectors,
			      uint64_t value)
{
	struct fth_dev_req req, *done = NULL, *r = &req;
	struct fth_dev_chan *chan;
	uint64_t buf[64 * WORDS];

	stamp(buf, sectors, value);
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, (uint64_t)sectors * SECTOR,
			 (uint64_t)sector * SECTOR);
	req.flags = FTH_DEV_FUA;
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_DEV_TIMEOUT), 1);
	fth_dev_chan_close(chan);
	return req.result;
}

static inline uint64_t get(struct fth_dev *dev, unsigned sector)
{
	uint64_t buf[WORDS];

	assert_ok(fth_dev_read(dev, buf, SECTOR, (uint64_t)sector * SECTOR, FTH_DEV_TIMEOUT));
	for (unsigned i = 1; i < WORDS; i++)
		assert_true(buf[i] == buf[0]);
	return buf[0];
}

static inline void crash_and_restart(struct fth_dev *dev, uint64_t seed)
{
	assert_ok(fth_dev_crash_power_loss(dev, seed));
	assert_false(fth_dev_crash_powered(dev));
	assert_ok(fth_dev_crash_restart(dev));
	assert_true(fth_dev_crash_powered(dev));
}

#endif
