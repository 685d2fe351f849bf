/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests of the engine share: one cache, one worker, and items that tell their key and version.
 */
#ifndef FTH_KV_FIXTURE_H
#define FTH_KV_FIXTURE_H

#include "fathom/kv.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/hd/wait.h"

#include "fth_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KV_VALUE_MAX  3000u
#define KV_SECONDS(s) fth_deadline_ns((s)*UINT64_C(1000000000))

struct box {
	struct fth_kv *kv;
	struct fth_kv_worker *worker;
};

static inline struct fth_kv_options small_options(void)
{
	struct fth_kv_options o = FTH_KV_OPTIONS_INIT;

	o.memory = 512 << 10;
	o.value_max = 4096;
	o.chunk = 65536;
	o.buffers = 3;
	o.items = 4000;
	return o;
}

static inline struct fth_kv_options write_through(void)
{
	struct fth_kv_options o = small_options();

	o.persistence = FTH_KV_WRITE_THROUGH;
	return o;
}

static inline struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static inline int box_try(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev)
{
	int rc = dev ? fth_kv_open_dev(o, dev, &box->kv) : fth_kv_open(o, &box->kv);

	box->worker = NULL;
	if (rc < 0)
		return rc;
	rc = fth_kv_worker_open(box->kv, &box->worker);
	if (rc < 0) {
		(void)fth_kv_close(box->kv);
		box->kv = NULL;
	}
	return rc;
}

static inline void box_open(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev)
{
	assert_ok(box_try(box, o, dev));
}

static inline int box_close(struct box *box)
{
	fth_kv_worker_close(box->worker);
	return fth_kv_close(box->kv);
}

/* The power of a crash device goes; the cache is closed, and the device has what is left. */
static inline void lose_power_and_close(struct box *box, struct fth_dev *crash, uint64_t seed)
{
	assert_ok(fth_dev_crash_power_loss(crash, seed));
	fth_kv_worker_close(box->worker);
	(void)fth_kv_close(box->kv);
	assert_ok(fth_dev_crash_restart(crash));
}

/* The power goes; the cache is opened again on what is left. */
static inline void lose_power(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev,
			      uint64_t seed)
{
	lose_power_and_close(box, dev, seed);
	box_open(box, o, dev);
}

static inline int flush_all(struct box *box, uint32_t when)
{
	struct fth_kv_op op = {.verb = FTH_KV_FLUSH_ALL, .expires = when};

	return fth_kv_do(box->worker, &op, KV_SECONDS(20));
}

static inline struct fth_kv_recovery recovery_of(const struct box *box)
{
	struct fth_kv_recovery recovery;

	fth_kv_recovery(box->kv, &recovery);
	return recovery;
}

static inline uint32_t value_length(unsigned i, uint32_t version)
{
	struct fth_rng rng = {(uint64_t)version << 20 | i};

	return (uint32_t)fth_rng_below(&rng, KV_VALUE_MAX);
}

static inline void fill_value(unsigned i, uint32_t version, uint32_t length, uint8_t *value)
{
	struct fth_rng rng = {(uint64_t)i << 32 | version};

	for (uint32_t at = 0; at < length; at++)
		value[at] = (uint8_t)fth_rng_next(&rng);
}

/* Any verb; the key is "k<i>". The caller releases it. */
static inline int box_do(struct box *box, struct fth_kv_op *op, unsigned i)
{
	static __thread char key[16];
	int rc;

	op->key_length = (uint32_t)snprintf(key, sizeof(key), "k%u", i);
	op->key = key;
	rc = fth_kv_do(box->worker, op, KV_SECONDS(20));
	assert_int_not_equal(rc, -ETIMEDOUT);
	return rc;
}

static inline int box_store(struct box *box, enum fth_kv_verb verb, unsigned i, uint32_t version)
{
	uint8_t value[KV_VALUE_MAX];
	struct fth_kv_op op = {.verb = verb, .value = value, .flags = version};

	op.value_length = value_length(i, version);
	fill_value(i, version, op.value_length, value);
	return box_do(box, &op, i);
}

static inline int box_set(struct box *box, unsigned i, uint32_t version)
{
	return box_store(box, FTH_KV_SET, i, version);
}

static inline int box_text(struct box *box, enum fth_kv_verb verb, unsigned i, const char *text)
{
	struct fth_kv_op op = {.verb = verb, .value = text, .value_length = (uint32_t)strlen(text)};

	return box_do(box, &op, i);
}

static inline int box_delete(struct box *box, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_DELETE};

	return box_do(box, &op, i);
}

/* The version of an item, whose value must be the one that belongs to it; 0: it is not there. */
static inline uint32_t box_get(struct box *box, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	uint8_t value[KV_VALUE_MAX];
	uint32_t version = 0;
	int rc = box_do(box, &op, i);

	assert_true(rc == 0 || rc == -ENOENT);
	if (rc == 0) {
		version = op.item_flags;
		assert_int_not_equal(version, 0);
		assert_int_equal(op.length, value_length(i, version));
		fill_value(i, version, op.length, value);
		assert_memory_equal(op.data, value, op.length);
	}
	fth_kv_release(box->worker, &op);
	return version;
}

/* Items with other keys, until what was in memory before is on flash. */
static inline void push_out(struct box *box)
{
	for (unsigned i = 0; i < 2000; i++) {
		int rc = box_set(box, 1000000 + i, 1);

		assert_true(rc == 0 || rc == -EIO);
	}
}

static inline uint64_t box_stat(const struct box *box, enum fth_kv_stat which)
{
	return fth_kv_stat(box->kv, which);
}

/* The second commit from now on has begun after all that was changed before. */
static inline void wait_durable(struct box *box)
{
	for (unsigned n = 0; n < 2; n++) {
		uint64_t commits = box_stat(box, FTH_KV_STAT_COMMITS);

		assert_ok(box_set(box, 900000 + n, 1));
		while (box_stat(box, FTH_KV_STAT_COMMITS) == commits)
			usleep(1000);
	}
}

#endif
