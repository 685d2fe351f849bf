/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that fails, is slow or never answers, at each point. No wrong value, no wait without an
 * end; with persistence nothing that was acknowledged is lost.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/dev/crash.h"
#include "fathom/dev/driver.h"
#include "fathom/dev/fault.h"
#include "fathom/dev/wrap.h"

#include "dev/file/dev_file.h"
#include "kv/kv_internal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIND(op) (1u << (op))

static struct fth_dev_fault_plan plan_of(uint32_t kinds)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.every = 1;
	return plan;
}

static void arm(struct fth_dev *dev, const struct fth_dev_fault_plan *plan)
{
	assert_ok(fth_dev_fault_set(dev, plan));
}

/* ---- reads ---- */

/* A change of an item that can not be read now must not leave the old one behind. */
static void check_no_old_value(enum fth_kv_persistence persistence, enum fth_kv_verb verb)
{
	struct fth_dev *dev = open_dev("fault(mem:32M)");
	struct fth_dev_fault_plan plan = plan_of(KIND(FTH_DEV_READ));
	struct fth_kv_options o = small_options();
	struct box box;
	int rc;

	o.persistence = persistence;
	box_open(&box, &o, dev);
	assert_ok(box_set(&box, 1, 1));
	push_out(&box);
	arm(dev, &plan);
	rc = verb == FTH_KV_DELETE ? box_delete(&box, 1) : box_store(&box, verb, 1, 2);
	assert_ok(rc);
	assert_ok(fth_dev_fault_disarm(dev));
	if (verb != FTH_KV_DELETE) {
		assert_int_equal(box_get(&box, 1), 2);
		assert_ok(box_delete(&box, 1));
	}
	assert_int_equal(box_get(&box, 1), 0);
	assert_ok(box_close(&box));
	if (persistence != FTH_KV_VOLATILE) {
		box_open(&box, &o, dev);
		assert_int_equal(box_get(&box, 1), 0);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

static void a_failed_read_brings_back_no_old_value(void **state)
{
	(void)state;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++) {
		check_no_old_value(p, FTH_KV_SET);
		check_no_old_value(p, FTH_KV_ADD);
		check_no_old_value(p, FTH_KV_DELETE);
	}
}

#define MANY 900u

/* More reads than the channel takes, and none comes back in time. */
static void reads_that_hang_are_misses(void **state)
{
	struct fth_dev *dev = open_dev("fault(mem:32M)");
	struct fth_dev_fault_plan plan = plan_of(KIND(FTH_DEV_READ));
	struct fth_kv_options o = small_options();
	struct fth_kv_op *ops = calloc(MANY, sizeof(*ops)), *done[64];
	char(*keys)[16] = calloc(MANY, sizeof(*keys));
	unsigned complete = 0, flight = 0;
	struct box box;

	(void)state;
	o.timeout_ns = 50000000;
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < MANY; i++)
		assert_ok(box_set(&box, i, 1));
	push_out(&box);
	plan.mode = FTH_DEV_FAULT_TIMEOUT;
	plan.hold_ns = 1500000000;
	arm(dev, &plan);
	for (unsigned i = 0; i < MANY; i++) {
		int rc;

		ops[i] = (struct fth_kv_op){.verb = FTH_KV_GET, .key = keys[i]};
		ops[i].key_length = (uint32_t)snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		rc = fth_kv_submit(box.worker, &ops[i]);
		assert_ok(rc);
		flight += rc == 0;
		if (rc == 1)
			fth_kv_release(box.worker, &ops[i]);
	}
	assert_true(flight > 300);
	while (complete < flight) {
		int n = fth_kv_reap(box.worker, done, 64, 1, fth_deadline_ns(1000000000));

		assert_ok(n); /* before any of the device's requests has come back */
		assert_int_not_equal(n, 0);
		for (int i = 0; i < n; i++) {
			assert_int_equal(done[i]->result, -ENOENT);
			fth_kv_release(box.worker, done[i]);
		}
		complete += (unsigned)n;
	}
	assert_true(box_stat(&box, FTH_KV_STAT_READ_ERRORS) >= flight);
	assert_ok(fth_dev_fault_disarm(dev));
	fth_kv_worker_close(box.worker);
	/* Once they have come back all is as before. */
	assert_ok(fth_kv_worker_open(box.kv, &box.worker));
	assert_int_equal(box_get(&box, 1), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(ops);
	free(keys);
}

/* Start gets of k0 to k<MANY - 1> that go to the device together. How many are in flight. */
static unsigned submit_batch(struct box *box, struct fth_kv_op *ops, char (*keys)[16])
{
	unsigned flight = 0;

	fth_kv_worker_batch(box->worker, true);
	for (unsigned i = 0; i < MANY; i++) {
		int rc;

		ops[i] = (struct fth_kv_op){.verb = FTH_KV_GET, .key = keys[i]};
		ops[i].key_length = (uint32_t)snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		rc = fth_kv_submit(box->worker, &ops[i]);
		assert_ok(rc);
		flight += rc == 0;
		if (rc == 1)
			fth_kv_release(box->worker, &ops[i]);
	}
	return flight;
}

static void check_batched_value(const struct fth_kv_op *op, const struct fth_kv_op *ops)
{
	uint8_t value[KV_VALUE_MAX];
	unsigned i = (unsigned)(op - ops);

	assert_int_equal(op->item_flags, 1);
	assert_int_equal(op->length, value_length(i, 1));
	fill_value(i, 1, op->length, value);
	assert_memory_equal(op->data, value, op->length);
}

/* Some reads of a batch fail: these are misses, and the others have their values. */
static void check_batch(unsigned every, enum fth_dev_fault_mode mode)
{
	struct fth_dev *dev = open_dev("fault(mem:32M)");
	struct fth_dev_fault_plan plan = plan_of(KIND(FTH_DEV_READ));
	struct fth_kv_options o = small_options();
	struct fth_kv_op *ops = calloc(MANY, sizeof(*ops)), *done[64];
	char(*keys)[16] = calloc(MANY, sizeof(*keys));
	unsigned complete = 0, flight, hits = 0;
	struct box box;

	o.timeout_ns = mode == FTH_DEV_FAULT_TIMEOUT ? 200000000 : 20000000000u;
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < MANY; i++)
		assert_ok(box_set(&box, i, 1));
	push_out(&box);
	plan.every = every;
	plan.mode = mode;
	plan.hold_ns = 500000000;
	if (every)
		arm(dev, &plan);
	flight = submit_batch(&box, ops, keys);
	assert_true(flight > 300);
	while (complete < flight) {
		int n = fth_kv_reap(box.worker, done, 64, 1, fth_deadline_ns(20000000000u));

		assert_ok(n);
		assert_int_not_equal(n, 0);
		for (int i = 0; i < n; i++) {
			assert_true(done[i]->result == 0 || done[i]->result == -ENOENT);
			hits += done[i]->result == 0;
			if (done[i]->result == 0)
				check_batched_value(done[i], ops);
			fth_kv_release(box.worker, done[i]);
		}
		complete += (unsigned)n;
	}
	assert_true(every ? hits < flight : hits == flight);
	/* A slow machine may have none in 0.2 s. */
	assert_true(hits > 0 || mode == FTH_DEV_FAULT_TIMEOUT);
	/* Those that were never reaped go with their worker. */
	assert_true(submit_batch(&box, ops, keys) > 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(ops);
	free(keys);
}

static bool is_readable(struct fth_kv_worker *worker)
{
	struct pollfd fd = {.fd = fth_kv_worker_fd(worker), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

/* A reap returns a part of the reads that have ended, and the descriptor tells of the others. */
static void a_batch_is_collected_in_parts(void **state)
{
	struct fth_dev *dev = open_dev("mem:32M");
	struct fth_kv_options o = small_options();
	struct fth_kv_op *ops = calloc(MANY, sizeof(*ops)), **done = calloc(MANY, sizeof(*done));
	char(*keys)[16] = calloc(MANY, sizeof(*keys));
	unsigned flight, most = 0, complete = 0;
	struct box box;

	(void)state;
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < MANY; i++)
		assert_ok(box_set(&box, i, 1));
	push_out(&box);
	flight = submit_batch(&box, ops, keys);
	assert_true(flight > 300);
	while (complete < flight) {
		int n = fth_kv_reap(box.worker, done, MANY, 0, 0);

		assert_ok(n);
		assert_true(n > 0 || complete == 0); /* they ended when they were submitted */
		for (int i = 0; i < n; i++) {
			check_batched_value(done[i], ops);
			fth_kv_release(box.worker, done[i]);
		}
		complete += (unsigned)n;
		most = (unsigned)n > most ? (unsigned)n : most;
		assert_true(complete == flight || is_readable(box.worker));
	}
	assert_true(most <= flight / 2 + 1);
	assert_false(is_readable(box.worker));
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(ops);
	free(done);
	free(keys);
}

static void reads_go_to_the_device_together(void **state)
{
	(void)state;
	check_batch(0, FTH_DEV_FAULT_FAIL);
	check_batch(7, FTH_DEV_FAULT_FAIL);
	check_batch(50, FTH_DEV_FAULT_TIMEOUT);
}

/* ---- writes ---- */

/* Sets go on without flash while it hangs, and with it when it has come back. */
static void writes_that_hang_do_not_stop_a_cache(void **state)
{
	struct fth_dev *dev = open_dev("fault(mem:32M)");
	struct fth_dev_fault_plan plan = plan_of(KIND(FTH_DEV_WRITE));
	struct fth_kv_options o = small_options();
	struct box box;

	(void)state;
	o.timeout_ns = 20000000;
	box_open(&box, &o, dev);
	plan.mode = FTH_DEV_FAULT_TIMEOUT;
	plan.hold_ns = 1500000000;
	plan.count = 3;
	arm(dev, &plan);
	for (unsigned round = 0; round < 3; round++)
		push_out(&box);
	assert_int_not_equal(box_stat(&box, FTH_KV_STAT_DROPPED), 0);
	while (box_stat(&box, FTH_KV_STAT_CHUNK_BYTES) == 0)
		push_out(&box);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* Later changes are refused: after a hole in the log they would be lost. */
static void writes_that_hang_fail_the_log(void **state)
{
	struct fth_dev *dev = open_dev("fault(mem:32M)");
	struct fth_dev_fault_plan plan = plan_of(KIND(FTH_DEV_WRITE));
	struct fth_kv_options o = small_options();
	struct box box;

	(void)state;
	o.timeout_ns = 20000000;
	o.persistence = FTH_KV_WRITE_THROUGH;
	box_open(&box, &o, dev);
	assert_ok(box_set(&box, 1, 1));
	plan.mode = FTH_DEV_FAULT_TIMEOUT;
	plan.hold_ns = 700000000;
	plan.count = 1;
	arm(dev, &plan);
	assert_int_equal(box_set(&box, 1, 2), -EIO);
	assert_int_equal(box_set(&box, 2, 1), -EIO);
	assert_int_equal(fth_kv_checkpoint(box.kv, KV_SECONDS(5)), -ETIMEDOUT);
	assert_true(box_get(&box, 1) != 0);
	(void)box_close(&box);
	assert_ok(fth_dev_fault_disarm(dev));
	box_open(&box, &o, dev);
	assert_true(box_get(&box, 1) != 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

#define BATCH 12u

/*
 * Changes that are in flight together: one commit covers several, and chunks become full between.
 */
static void set_batch(struct box *box, unsigned first, uint32_t version, uint32_t *acked,
		      uint32_t *tried)
{
	static uint8_t values[BATCH][KV_VALUE_MAX];
	struct fth_kv_op ops[BATCH], *done;
	char keys[BATCH][16];

	for (unsigned i = 0; i < BATCH; i++) {
		struct fth_kv_op *op = &ops[i];
		unsigned key = first + i;
		int rc;

		*op = (struct fth_kv_op){.verb = FTH_KV_SET, .key = keys[i], .value = values[i]};
		op->key_length = (uint32_t)snprintf(keys[i], sizeof(keys[i]), "k%u", key);
		op->flags = version;
		op->value_length = value_length(key, version);
		fill_value(key, version, op->value_length, values[i]);
		tried[key] = version;
		rc = fth_kv_submit(box->worker, op);
		assert_ok(rc);
	}
	while (fth_kv_reap(box->worker, &done, 1, 1, KV_SECONDS(20)) == 1)
		;
	for (unsigned i = 0; i < BATCH; i++) {
		if (ops[i].result != -EIO)
			assert_ok(ops[i].result);
		if (ops[i].result == 0)
			acked[first + i] = version;
	}
}

/* A change that failed has taken effect or not, or has removed the item. */
static bool allowed(uint32_t got, uint32_t acked, uint32_t tried)
{
	return got == acked || (tried > acked && (got == 0 || (got > acked && got <= tried)));
}

/*
 * Errors of writes and flushes, then a power loss: what was acknowledged is there, and a change
 * that failed has taken effect or not. A chunk that could not be written must not hide those behind
 * it.
 */
static void check_errors(uint64_t seed, bool flushes)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:16M))"), *inner = fth_dev_inner(dev);
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_kv_options o = small_options();
	uint32_t acked[50] = {0}, tried[50] = {0}, version = 0;
	struct fth_rng rng = {seed};
	struct box box;

	o.persistence = FTH_KV_WRITE_THROUGH;
	o.memory = 4 << 20; /* operations in flight have pages of many size classes */
	plan.kinds = KIND(FTH_DEV_WRITE) | (flushes ? KIND(FTH_DEV_FLUSH) : 0);
	plan.rate = 0.1;
	plan.seed = seed;
	box_open(&box, &o, dev);
	arm(dev, &plan);
	for (unsigned n = 0; n < 60; n++)
		set_batch(&box, (unsigned)fth_rng_below(&rng, 50 - BATCH), ++version, acked, tried);
	fth_kv_worker_close(box.worker);
	(void)fth_kv_close(box.kv);
	assert_ok(fth_dev_fault_disarm(dev));
	assert_ok(fth_dev_crash_power_loss(inner, seed));
	assert_ok(fth_dev_crash_restart(inner));
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 50; i++) {
		uint32_t got = box_get(&box, i);

		if (!allowed(got, acked[i], tried[i]))
			fail_msg("seed %llu: key %u has version %u, acknowledged %u, tried %u",
				 (unsigned long long)seed, i, got, acked[i], tried[i]);
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void errors_and_a_power_loss_lose_nothing(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 30; seed++)
		check_errors(seed, seed % 2);
}

/* ---- a log that goes on ---- */

static bool log_failed(struct box *box)
{
	struct fth_kv_usage usage;

	fth_kv_usage(box->kv, &usage);
	return usage.log_failed;
}

static void wait_for_log(struct box *box)
{
	for (unsigned n = 0; n < 60000 && log_failed(box); n++)
		usleep(1000);
	assert_false(log_failed(box));
}

/*
 * All items but those of a refused change are there when the device works again, and after a crash.
 */
static void check_going_on(uint32_t kinds, enum fth_kv_persistence persistence, bool no_index)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:16M))"), *inner = fth_dev_inner(dev);
	struct fth_dev_fault_plan plan = plan_of(kinds);
	struct fth_kv_options o = small_options();
	struct kv_super super;
	struct box box;
	uint64_t at;

	o.persistence = persistence;
	o.window_ms = 1;
	o.memory = 16 << 20; /* nothing leaves it */
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 50; i++)
		assert_ok(box_set(&box, i, 1));
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	arm(dev, &plan);
	/* Acknowledged by write-back: it stays, and is durable when the device works again. */
	if (persistence == FTH_KV_WRITE_BACK)
		assert_ok(box_set(&box, 20, 2));
	for (uint32_t version = 2; box_set(&box, 0, version) == 0; version++)
		; /* write-back notices it late */
	assert_true(log_failed(&box));
	assert_int_equal(box_set(&box, 5, 2), -EIO);
	assert_int_equal(box_delete(&box, 6), -EIO);
	assert_int_equal(box_get(&box, 5), 0);
	assert_int_equal(box_get(&box, 6), 0);
	assert_int_equal(box_get(&box, 7), 1);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_int_equal(box_stat(&box, FTH_KV_STAT_LOG_FAILURES), 1);
	assert_int_equal(box_stat(&box, FTH_KV_STAT_LOG_RESTARTS), 1);
	assert_int_equal(box_get(&box, 20), persistence == FTH_KV_WRITE_BACK ? 2 : 1);
	assert_ok(box_set(&box, 8, 3));
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	assert_ok(box_set(&box, 9, 3));
	assert_ok(box_set(&box, 10, 3));
	while (persistence == FTH_KV_WRITE_BACK && box_set(&box, 11, 3) == 0 &&
	       box_stat(&box, FTH_KV_STAT_COMMITS) < 100)
		usleep(1000);
	assert_ok(fth_dev_crash_power_loss(inner, 1));
	fth_kv_worker_close(box.worker);
	(void)fth_kv_close(box.kv);
	assert_ok(fth_dev_crash_restart(inner));
	if (no_index) {
		assert_int_equal(find_super(inner, &super, &at), 2);
		for (unsigned older = 0; older < 2; older++)
			flip(inner, index_area(&super, older) + 4096 + 700);
	}
	box_open(&box, &o, dev);
	assert_int_equal(box_get(&box, 5), 0);
	assert_int_equal(box_get(&box, 6), 0);
	for (unsigned i = 8; i < 11; i++)
		assert_int_equal(box_get(&box, i), 3);
	assert_int_equal(box_get(&box, 7), no_index ? 0 : 1);
	if (persistence == FTH_KV_WRITE_BACK && (!no_index || kinds == KIND(FTH_DEV_FLUSH)))
		assert_int_equal(box_get(&box, 20), 2);
	else
		assert_int_equal(box_get(&box, 20), no_index ? 0 : 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_log_goes_on_when_the_device_works(void **state)
{
	(void)state;
	for (unsigned no_index = 0; no_index < 2; no_index++)
		for (unsigned p = FTH_KV_WRITE_BACK; p <= FTH_KV_WRITE_THROUGH; p++) {
			check_going_on(KIND(FTH_DEV_WRITE), p, no_index);
			check_going_on(KIND(FTH_DEV_FLUSH), p, no_index);
		}
}

/* A file keeps the error of a failed flush; the cache knows what it may have lost, and goes on. */
static void a_file_is_forgiven_a_failed_flush(void **state)
{
	char path[] = "/tmp/fathom-kv-XXXXXX", uri[128];
	struct fth_kv_options o = small_options();
	struct dev_file *file;
	struct box box;

	(void)state;
	close(mkstemp(path));
	assert_ok(truncate(path, 16 << 20));
	snprintf(uri, sizeof(uri), "file:%s?direct=off", path);
	o.flash = uri;
	o.persistence = FTH_KV_WRITE_THROUGH;
	box_open(&box, &o, NULL);
	assert_ok(box_set(&box, 1, 1));
	assert_ok(box_set(&box, 2, 1));
	file = (struct dev_file *)box.kv->dev;
	fth_store_relaxed_dev32(&file->flush_error, EIO);
	assert_int_equal(box_set(&box, 1, 2), -EIO);
	wait_for_log(&box);
	assert_ok(box_set(&box, 3, 1));
	assert_ok(box_close(&box));
	box_open(&box, &o, NULL);
	assert_true(box_get(&box, 1) != 1);
	assert_int_equal(box_get(&box, 2), 1);
	assert_int_equal(box_get(&box, 3), 1);
	assert_ok(box_close(&box));
	unlink(path);
}

/* The device fails and works again, several times, and then the power goes. */
static void check_often(uint64_t seed)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:16M))"), *inner = fth_dev_inner(dev);
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_kv_options o = small_options();
	uint32_t acked[50] = {0}, tried[50] = {0}, version = 0;
	struct fth_rng rng = {seed};
	struct box box;

	o.persistence = FTH_KV_WRITE_THROUGH;
	o.memory = 4 << 20;
	plan.rate = 0.3;
	box_open(&box, &o, dev);
	for (unsigned round = 0; round < 4; round++) {
		plan.kinds = KIND(round % 2 ? FTH_DEV_WRITE : FTH_DEV_FLUSH);
		plan.seed = seed * 10 + round;
		arm(dev, &plan);
		for (unsigned n = 0; n < 20; n++)
			set_batch(&box, (unsigned)fth_rng_below(&rng, 50 - BATCH), ++version, acked,
				  tried);
		assert_ok(fth_dev_fault_disarm(dev));
		wait_for_log(&box);
		set_batch(&box, (unsigned)fth_rng_below(&rng, 50 - BATCH), ++version, acked, tried);
		for (unsigned i = 0; i < 50; i++)
			assert_true(allowed(box_get(&box, i), acked[i], tried[i]));
	}
	assert_ok(fth_dev_crash_power_loss(inner, seed));
	fth_kv_worker_close(box.worker);
	(void)fth_kv_close(box.kv);
	assert_ok(fth_dev_crash_restart(inner));
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 50; i++)
		assert_true(allowed(box_get(&box, i), acked[i], tried[i]));
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void failures_that_come_and_go_bring_back_nothing_old(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 8; seed++)
		check_often(seed);
}

/* ---- opening ---- */

/* The Nth operation of opening fails; opened again, all is there. */
static void check_open_faults(bool clean)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:16M))"), *inner = fth_dev_inner(dev);
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_kv_options o = small_options();
	struct box box;
	int rc;

	o.persistence = FTH_KV_WRITE_THROUGH;
	for (uint64_t nth = 1;; nth++) { /* formatting */
		plan.nth = nth;
		arm(dev, &plan);
		rc = box_try(&box, &o, dev);
		if (rc == 0)
			break;
		assert_int_equal(rc, -EIO);
	}
	assert_ok(fth_dev_fault_disarm(dev));
	for (unsigned i = 0; i < 100; i++)
		assert_ok(box_set(&box, i, i + 1));
	for (uint64_t nth = 1;; nth++) {
		if (clean)
			assert_ok(box_close(&box));
		else {
			fth_kv_worker_close(box.worker);
			assert_ok(fth_dev_crash_power_loss(inner, nth));
			(void)fth_kv_close(box.kv);
			assert_ok(fth_dev_crash_restart(inner));
		}
		plan.nth = nth;
		plan.mode = nth % 3 == 0 ? FTH_DEV_FAULT_TORN : FTH_DEV_FAULT_FAIL;
		arm(dev, &plan);
		rc = box_try(&box, &o, dev);
		assert_ok(fth_dev_fault_disarm(dev));
		if (rc < 0)
			assert_int_equal(rc, -EIO);
		if (rc < 0)
			box_open(&box, &o, dev);
		for (unsigned i = 0; i < 100; i++)
			assert_int_equal(box_get(&box, i), i + 1);
		if (rc == 0 && nth > 10)
			break;
		/* The log is a ring. */
		for (unsigned i = 0; i < 100; i++)
			assert_ok(box_set(&box, i, i + 1));
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void opening_fails_at_each_point(void **state)
{
	(void)state;
	check_open_faults(true);
	check_open_faults(false);
}

/* ---- descriptors ---- */

static void waiting_needs_no_descriptor(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:32M)?read_us=2000");
	struct rlimit limit, none;
	struct fth_kv_options o = small_options();
	struct box box;
	int fd;

	(void)state;
	box_open(&box, &o, dev);
	assert_ok(box_set(&box, 1, 1));
	push_out(&box);
	fth_kv_worker_close(box.worker); /* the next one has not waited yet */
	assert_ok(fth_kv_worker_open(box.kv, &box.worker));
	assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	fd = open("/dev/null", O_RDONLY);
	none.rlim_cur = (rlim_t)fd;
	close(fd);
	assert_ok(setrlimit(RLIMIT_NOFILE, &none));
	assert_int_equal(box_get(&box, 1), 1);
	assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* A worker is closed with operations in every state. */
static void workers_close_with_operations_in_flight(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:32M)?read_us=3000&write_us=20000&flush_us=20000");
	struct fth_kv_options o = small_options();
	struct fth_kv_op *ops = calloc(MANY, sizeof(*ops));
	char(*keys)[16] = calloc(MANY, sizeof(*keys));
	static const uint8_t value[KV_VALUE_MAX];
	struct box box;

	(void)state;
	o.persistence = FTH_KV_WRITE_THROUGH;
	box_open(&box, &o, dev);
	for (unsigned round = 0; round < 3; round++) {
		unsigned flight = 0;

		for (unsigned i = 0; i < MANY; i++) {
			ops[i] = (struct fth_kv_op){.verb = i % 2 ? FTH_KV_SET : FTH_KV_GET,
						    .key = keys[i],
						    .value = value,
						    .value_length = i % 2 ? 2000 : 0};
			ops[i].key_length =
				(uint32_t)snprintf(keys[i], sizeof(keys[i]), "k%u", i * 7 % MANY);
			int rc = fth_kv_submit(box.worker, &ops[i]);

			assert_ok(rc);
			flight += rc == 0;
			if (rc == 1)
				fth_kv_release(box.worker, &ops[i]);
		}
		assert_true(flight > 100);
		fth_kv_worker_close(box.worker);
		assert_ok(fth_kv_worker_open(box.kv, &box.worker));
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(ops);
	free(keys);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_read_brings_back_no_old_value),
		cmocka_unit_test(reads_that_hang_are_misses),
		cmocka_unit_test(reads_go_to_the_device_together),
		cmocka_unit_test(a_batch_is_collected_in_parts),
		cmocka_unit_test(writes_that_hang_do_not_stop_a_cache),
		cmocka_unit_test(writes_that_hang_fail_the_log),
		cmocka_unit_test(errors_and_a_power_loss_lose_nothing),
		cmocka_unit_test(a_log_goes_on_when_the_device_works),
		cmocka_unit_test(a_file_is_forgiven_a_failed_flush),
		cmocka_unit_test(failures_that_come_and_go_bring_back_nothing_old),
		cmocka_unit_test(opening_fails_at_each_point),
		cmocka_unit_test(waiting_needs_no_descriptor),
		cmocka_unit_test(workers_close_with_operations_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
