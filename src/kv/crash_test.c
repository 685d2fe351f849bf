/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses. A cache runs on a device that loses its power at a random operation; what was written
 * and not flushed survives, vanishes or is torn. The cache is opened again on what is left, and each
 * key must have the value of its last acknowledged change, or of one that was under way then; never
 * anything else. FTH_LONG_TESTS=1 runs many more.
 */
#include "fathom/kv.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/hd/wait.h"

#include "fth_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS	  60u
#define VALUE_MAX 3000u
#define RENEW	  16u /* losses after which all keys are written anew */

/* Version 0 stands for "not there". */
struct key {
	uint32_t acknowledged;
	uint32_t pending; /* a change that failed or was cut off; or the same */
};

struct run {
	struct fth_rng rng;
	struct fth_dev *dev;
	struct fth_kv *kv;
	struct fth_kv_worker *worker;
	struct key keys[KEYS];
	uint32_t version;
	uint64_t losses, unclean, replayed;
};

static void fill_value(unsigned i, uint32_t version, uint32_t length, uint8_t *value)
{
	struct fth_rng rng = {(uint64_t)i << 32 | version};

	for (uint32_t at = 0; at < length; at++)
		value[at] = (uint8_t)fth_rng_next(&rng);
}

static uint32_t length_of(unsigned i, uint32_t version)
{
	struct fth_rng rng = {(uint64_t)version << 20 | i};

	return (uint32_t)fth_rng_below(&rng, VALUE_MAX);
}

static int do_op(struct run *r, struct fth_kv_op *op, unsigned i)
{
	char key[16];
	int rc;

	op->key_length = (uint32_t)snprintf(key, sizeof(key), "k%u", i);
	op->key = key;
	rc = fth_kv_do(r->worker, op, fth_deadline_ns(20000000000u));
	assert_int_not_equal(rc, -ETIMEDOUT);
	return rc;
}

/* What a key has now must be one of the two. */
static void check(struct run *r, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	struct key *k = &r->keys[i];
	uint8_t value[VALUE_MAX];
	uint32_t version = 0;
	int rc = do_op(r, &op, i);

	assert_true(rc == 0 || rc == -ENOENT);
	if (rc == 0) {
		version = op.item_flags;
		assert_int_equal(op.length, length_of(i, version));
		fill_value(i, version, op.length, value);
		assert_memory_equal(op.data, value, op.length);
		fth_kv_release(r->worker, &op);
	}
	if (version != k->acknowledged && version != k->pending)
		fail_msg("key %u has version %u, not %u or %u", i, version, k->acknowledged,
			 k->pending);
	k->acknowledged = k->pending = version;
}

/* False: it was not acknowledged. */
static bool change(struct run *r, unsigned i)
{
	bool remove = fth_rng_below(&r->rng, 5) == 0;
	uint32_t version = remove ? 0 : ++r->version;
	uint8_t value[VALUE_MAX];
	struct fth_kv_op op = {
		.verb = remove ? FTH_KV_DELETE : FTH_KV_SET, .value = value, .flags = version};
	int rc;

	if (!remove) {
		op.value_length = length_of(i, version);
		fill_value(i, version, op.value_length, value);
	}
	rc = do_op(r, &op, i);
	r->keys[i].pending = version;
	if (rc == 0 || (remove && rc == -ENOENT))
		r->keys[i].acknowledged = version;
	fth_kv_release(r->worker, &op);
	return r->keys[i].acknowledged == version;
}

static int open_kv(struct run *r)
{
	struct fth_kv_options o = FTH_KV_OPTIONS_INIT;
	struct fth_kv_recovery recovery;
	int rc;

	o.memory = 512 << 10;
	o.value_max = 4096;
	o.chunk = 65536;
	o.buffers = 3;
	o.items = 2 * KEYS;
	o.persistence = FTH_KV_WRITE_THROUGH;
	rc = fth_kv_open_dev(&o, r->dev, &r->kv);
	if (rc < 0)
		return rc;
	fth_kv_recovery(r->kv, &recovery);
	r->unclean += recovery.found && !recovery.clean;
	r->replayed += recovery.chunks_read;
	assert_ok(fth_kv_worker_open(r->kv, &r->worker));
	return 0;
}

/* Run until the power goes, then come back. */
static void one_loss(struct run *r)
{
	uint64_t at = 1 + fth_rng_below(&r->rng, 60), seed = fth_rng_next(&r->rng);
	int rc;

	assert_ok(fth_dev_crash_at(r->dev, at, seed));
	rc = open_kv(r); /* may be where it goes */
	if (rc == 0) {
		bool good = true;

		for (unsigned i = 0; i < 600 && good; i++)
			if (fth_rng_below(&r->rng, 30) == 0)
				good = fth_kv_checkpoint(r->kv, fth_deadline_ns(5000000000u)) == 0;
			else
				good = change(r, (unsigned)fth_rng_below(&r->rng, KEYS));
		fth_kv_worker_close(r->worker);
		(void)fth_kv_close(r->kv);
	}
	if (fth_dev_crash_powered(r->dev))
		assert_ok(fth_dev_crash_power_loss(r->dev, seed));
	assert_ok(fth_dev_crash_restart(r->dev));
	assert_ok(fth_dev_crash_at(r->dev, 0, 0));
	r->losses++;
	assert_ok(open_kv(r));
	for (unsigned i = 0; i < KEYS; i++)
		check(r, i);
	/* The log is a ring: what is not written again goes some time. */
	for (unsigned i = 0; i < KEYS && r->losses % RENEW == 0; i++)
		assert_true(change(r, i));
	fth_kv_worker_close(r->worker);
	/* Closed in good order, or only abandoned by the next power loss. */
	assert_ok(fth_kv_close(r->kv));
}

static void what_was_acknowledged_survives(void **state)
{
	struct run *r = calloc(1, sizeof(*r));
	unsigned rounds = getenv("FTH_LONG_TESTS") ? 10000 : 150;

	(void)state;
	r->rng.state = 11;
	/* Long enough that nothing is reclaimed that was written a few losses ago. */
	assert_ok(fth_dev_open("crash(mem:64M)", &r->dev));
	for (unsigned i = 0; i < rounds; i++)
		one_loss(r);
	print_message("%llu losses, %llu times found unclean, %llu chunks replayed, version %u\n",
		      (unsigned long long)r->losses, (unsigned long long)r->unclean,
		      (unsigned long long)r->replayed, r->version);
	fth_dev_close(r->dev);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_acknowledged_survives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
