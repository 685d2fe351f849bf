/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of volumes share: a few devices, a volume on them, data that can be checked. */
#ifndef FTH_VOL_FIXTURE_H
#define FTH_VOL_FIXTURE_H

#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/dev/fault.h"
#include "fathom/vol.h"

#include "vol/catalog/label.h"
#include "vol/vol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RACK_MAX 8

struct rack {
	struct fth_dev *devs[RACK_MAX];
	unsigned count;
	struct fth_vol *vol;
};

static inline void rack_init(struct rack *rack, const char *uri, unsigned count)
{
	memset(rack, 0, sizeof(*rack));
	for (; rack->count < count; rack->count++)
		assert_ok(fth_dev_open(uri, &rack->devs[rack->count]));
}

static inline void rack_open(struct rack *rack)
{
	assert_ok(fth_vol_open(rack->devs, rack->count, 0, &rack->vol));
}

static inline void rack_close(struct rack *rack)
{
	fth_vol_close(rack->vol);
	rack->vol = NULL;
}

static inline void rack_reopen(struct rack *rack)
{
	rack_close(rack);
	rack_open(rack);
}

static inline void rack_release(struct rack *rack)
{
	rack_close(rack);
	for (unsigned i = 0; i < rack->count; i++)
		fth_dev_close(rack->devs[i]);
}

/* A formatted and open volume. */
static inline void rack_format(struct rack *rack, const char *uri, unsigned count)
{
	rack_init(rack, uri, count);
	assert_ok(fth_vol_format(rack->devs, count, NULL));
	rack_open(rack);
}

static inline struct fth_vol_object_options shape(uint32_t unit, uint32_t replicas, uint32_t width)
{
	struct fth_vol_object_options o = FTH_VOL_OBJECT_OPTIONS_INIT;

	o.unit = unit;
	o.replicas = replicas;
	o.width = width;
	return o;
}

static inline struct fth_dev *open_object(struct fth_vol *vol, const char *name)
{
	struct fth_dev *dev;

	assert_ok(fth_vol_object_open(vol, name, 0, &dev));
	return dev;
}

/* Bytes that depend on where they are and on a seed. */
static inline void fill(char *buf, uint64_t length, uint64_t offset, uint64_t seed)
{
	for (uint64_t i = 0; i < length; i += 8) {
		uint64_t word = fth_mix64(seed * 1000003 + offset + i);

		memcpy(buf + i, &word, length - i < 8 ? length - i : 8);
	}
}

static inline void write_all(struct fth_dev *dev, uint64_t seed)
{
	uint64_t size = fth_dev_info(dev)->size;
	char *buf = malloc(size);

	assert_non_null(buf);
	fill(buf, size, 0, seed);
	assert_ok(fth_dev_write(dev, buf, size, 0, FTH_DEV_TIMEOUT));
	free(buf);
}

static inline bool holds(struct fth_dev *dev, uint64_t seed)
{
	uint64_t size = fth_dev_info(dev)->size;
	char *want = malloc(size), *got = malloc(size);
	bool same;

	assert_true(want && got);
	fill(want, size, 0, seed);
	assert_ok(fth_dev_read(dev, got, size, 0, FTH_DEV_TIMEOUT));
	same = memcmp(want, got, size) == 0;
	free(want);
	free(got);
	return same;
}

/* ---- findings ---- */

struct findings {
	unsigned kinds[FTH_VOL_F_KINDS], serious_kinds[FTH_VOL_F_KINDS], serious, repaired;
	char text[FTH_ERROR_TEXT_MAX]; /* of the last serious one */
};

static inline int note_finding(const struct fth_vol_finding *finding, void *user)
{
	struct findings *f = user;

	assert_true(finding->kind < FTH_VOL_F_KINDS);
	f->kinds[finding->kind]++;
	f->repaired += finding->repaired;
	if (!finding->harmless && !finding->repaired) {
		f->serious++;
		f->serious_kinds[finding->kind]++;
		snprintf(f->text, sizeof(f->text), "%s: %s", fth_vol_finding_name(finding->kind),
			 finding->text);
	}
	return 0;
}

static inline struct findings check(const struct rack *rack, unsigned flags)
{
	struct findings f = {0};
	int rc = fth_vol_check(rack->devs, rack->count, flags, note_finding, NULL, &f);

	assert_ok(rc);
	assert_int_equal(rc, f.serious);
	return f;
}

static inline void assert_sound(const struct rack *rack, unsigned flags)
{
	struct findings f = check(rack, flags);

	if (f.serious)
		fail_msg("%u findings, the last: %s", f.serious, f.text);
}

/* ---- faults ---- */

/* Fail the nth operation of these kinds from now on, once (or, with every = 1, all of them). */
static inline void fail_on(struct fth_dev *dev, uint32_t kinds, uint64_t nth, uint64_t every)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.nth = nth;
	plan.every = every;
	assert_ok(fth_dev_fault_set(dev, &plan));
}

/* Wait until the worker of the volume has nothing to do: repairs that were noted are done. */
static inline void wait_for_worker(struct fth_vol *vol)
{
	struct vol_worker *worker = &vol->worker;

	pthread_mutex_lock(&worker->lock);
	while (worker->started && worker->busy)
		pthread_cond_wait(&worker->idle, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
}

#endif
