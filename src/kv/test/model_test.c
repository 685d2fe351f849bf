/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache against a plain table: random operations on few keys, with little memory and a short
 * log, so that items are evicted, promoted, reclaimed and overwritten all the time. A value tells
 * its key and its version; what a get returns must be the latest version, or, where a cache may
 * forget, nothing. With persistence the cache is closed and opened in between, and may forget
 * nothing that still fits into the log.
 */
#include "fathom/kv.h"

#include "fathom/base/rng.h"
#include "fathom/dev/driver.h"
#include "fathom/hd/wait.h"

#include "fth_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS	  2000u
#define VALUE_MAX 6000u

struct model {
	struct fth_kv *kv;
	struct fth_kv_worker *worker;
	struct fth_rng rng;
	unsigned space; /* models with different ones have different keys */
	bool exact;	/* nothing may be forgotten */
	uint64_t hits, misses;
	uint32_t version[KEYS]; /* 0: it is not there */
	uint32_t length[KEYS];
	uint64_t cas[KEYS];
};

static uint32_t key_of(unsigned space, unsigned i, char *key)
{
	return (uint32_t)snprintf(key, 64, "key-%u-%u-%.*s", space, i, (int)(i % 23),
				  "abcdefghijklmnopqrstuvwxyz");
}

static void fill_value(unsigned i, uint32_t version, uint32_t length, uint8_t *value)
{
	struct fth_rng rng = {(uint64_t)i << 32 | version};

	for (uint32_t at = 0; at < length; at += 8) {
		uint64_t word = fth_rng_next(&rng);

		memcpy(value + at, &word, length - at < 8 ? length - at : 8);
	}
}

static int do_op(struct model *m, struct fth_kv_op *op, unsigned i)
{
	static __thread char key[64];

	op->key_length = key_of(m->space, i, key);
	op->key = key;
	return fth_kv_do(m->worker, op, fth_deadline_ns(20000000000u));
}

static void check_get(struct model *m, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	uint8_t expected[VALUE_MAX];
	int rc = do_op(m, &op, i);

	if (rc == -ENOENT) {
		assert_false(m->exact && m->version[i]);
		m->misses++;
		return;
	}
	assert_ok(rc);
	assert_int_not_equal(m->version[i], 0);
	assert_int_equal(op.length, m->length[i]);
	assert_int_equal(op.item_flags, m->version[i]);
	assert_true(op.item_cas == m->cas[i]);
	fill_value(i, m->version[i], m->length[i], expected);
	assert_memory_equal(op.data, expected, op.length);
	m->hits++;
	fth_kv_release(m->worker, &op);
}

static void set(struct model *m, unsigned i, enum fth_kv_verb verb, uint64_t cas)
{
	uint8_t value[VALUE_MAX];
	uint32_t length =
		(uint32_t)fth_rng_below(&m->rng, fth_rng_below(&m->rng, 4) ? 300 : VALUE_MAX);
	uint32_t version = (uint32_t)fth_rng_below(&m->rng, UINT32_MAX - 1) + 1;
	struct fth_kv_op op = {
		.verb = verb, .value = value, .value_length = length, .flags = version, .cas = cas};
	int rc;

	fill_value(i, version, length, value);
	rc = do_op(m, &op, i);
	if (rc == 0) {
		if (verb == FTH_KV_ADD)
			assert_true(!m->exact || m->version[i] == 0);
		m->version[i] = version;
		m->length[i] = length;
		m->cas[i] = op.item_cas;
	} else if (verb == FTH_KV_ADD) {
		assert_int_equal(rc, -EEXIST);
		assert_int_not_equal(m->version[i], 0);
	} else if (rc == -ENOENT) {
		assert_true(verb == FTH_KV_REPLACE || cas);
		assert_false(m->exact && m->version[i]);
	} else {
		assert_int_equal(rc, -EBUSY);
		assert_true(cas && cas != m->cas[i]);
	}
	fth_kv_release(m->worker, &op);
}

static void delete (struct model *m, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_DELETE};
	int rc = do_op(m, &op, i);

	assert_true(rc == 0 || (rc == -ENOENT && !(m->exact && m->version[i])));
	assert_false(rc == 0 && m->version[i] == 0);
	m->version[i] = 0;
}

static void one(struct model *m)
{
	unsigned i = (unsigned)fth_rng_below(&m->rng, fth_rng_below(&m->rng, 3) ? KEYS : KEYS / 20);

	switch (fth_rng_below(&m->rng, 12)) {
	case 0:
	case 1:
	case 2:
	case 3:
		set(m, i, FTH_KV_SET, 0);
		break;
	case 4:
		set(m, i, fth_rng_below(&m->rng, 2) ? FTH_KV_ADD : FTH_KV_REPLACE, 0);
		break;
	case 5:
		set(m, i, FTH_KV_SET, m->cas[i] + fth_rng_below(&m->rng, 2));
		break;
	case 6:
		delete (m, i);
		break;
	default:
		check_get(m, i);
	}
}

static void open_model(struct model *m, const struct fth_kv_options *options)
{
	assert_ok(fth_kv_open(options, &m->kv));
	assert_ok(fth_kv_worker_open(m->kv, &m->worker));
}

static void close_model(struct model *m)
{
	fth_kv_worker_close(m->worker);
	assert_ok(fth_kv_close(m->kv));
}

static void print(const struct model *m)
{
	print_message("%llu hits, %llu misses", (unsigned long long)m->hits,
		      (unsigned long long)m->misses);
	for (unsigned i = 0; i < FTH_KV_STAT_COUNT; i++)
		print_message(", %s %llu", fth_kv_stat_name(i),
			      (unsigned long long)fth_kv_stat(m->kv, i));
	print_message("\n");
}

static struct fth_kv_options small(const char *flash)
{
	struct fth_kv_options o = FTH_KV_OPTIONS_INIT;

	o.flash = flash;
	o.memory = 512 << 10;
	o.value_max = 8192;
	o.chunk = 65536;
	o.buffers = 3;
	o.items = KEYS;
	return o;
}

static void run_model(const struct fth_kv_options *options, bool exact, unsigned ops)
{
	struct model *m = calloc(1, sizeof(*m));

	m->rng.state = 42;
	m->exact = exact;
	open_model(m, options);
	for (unsigned i = 0; i < ops; i++)
		one(m);
	for (unsigned i = 0; i < KEYS; i++)
		check_get(m, i);
	print(m);
	close_model(m);
	free(m);
}

static void memory_alone(void **state)
{
	struct fth_kv_options o = small(NULL);

	(void)state;
	run_model(&o, false, 100000);
}

static void a_long_log(void **state)
{
	struct fth_kv_options o = small("mem:1G");

	(void)state;
	run_model(&o, true, 100000);
}

static void a_short_log(void **state)
{
	struct fth_kv_options o = small("mem:2M");

	(void)state;
	run_model(&o, false, 100000);
}

static void a_short_log_that_keeps_hot_items(void **state)
{
	struct fth_kv_options o = small("mem:2M");

	(void)state;
	o.readmit = 50;
	run_model(&o, false, 100000);
}

/* Chunks are read again for their hot items after the index has given them up. */
static void a_small_index_that_keeps_hot_items(void **state)
{
	struct fth_kv_options o = small("mem:2M");

	(void)state;
	o.items = KEYS / 4;
	o.readmit = 50;
	run_model(&o, false, 100000);
}

static void a_small_index(void **state)
{
	struct fth_kv_options o = small("mem:64M");

	(void)state;
	o.items = KEYS / 2;
	run_model(&o, false, 100000);
}

/* items: of the index in each round; with fewer than KEYS it may forget. */
static void run_persistent(enum fth_kv_persistence persistence, unsigned ops, const uint64_t *items)
{
	char path[] = "/tmp/fathom-kv-XXXXXX", uri[128];
	struct fth_kv_options o = small(uri);
	struct model *m = calloc(1, sizeof(*m));
	struct fth_kv_recovery recovery;

	close(mkstemp(path));
	assert_ok(truncate(path, 256 << 20));
	snprintf(uri, sizeof(uri), "file:%s?direct=off", path);
	m->rng.state = 7;
	m->exact = !items;
	o.persistence = persistence;
	o.window_ms = 1;
	for (unsigned round = 0; round < 5; round++) {
		o.items = items ? items[round] : KEYS;
		open_model(m, &o);
		fth_kv_recovery(m->kv, &recovery);
		assert_int_equal(recovery.found, round > 0);
		assert_int_equal(recovery.clean, round > 0);
		for (unsigned i = 0; i < KEYS; i++)
			check_get(m, i);
		for (unsigned i = 0; i < ops; i++) {
			one(m);
			if (i % (ops / 3) == ops / 6)
				assert_ok(fth_kv_checkpoint(m->kv, FTH_NEVER));
		}
		if (round == 4)
			print(m);
		close_model(m);
	}
	unlink(path);
	free(m);
}

static void write_back_keeps_all_over_a_restart(void **state)
{
	(void)state;
	run_persistent(FTH_KV_WRITE_BACK, 4000, NULL);
}

static void write_through_keeps_all_over_a_restart(void **state)
{
	(void)state;
	run_persistent(FTH_KV_WRITE_THROUGH, 600, NULL);
}

/* It gets smaller and larger with restarts. */
static void a_small_index_over_restarts(void **state)
{
	static const uint64_t items[] = {KEYS / 4, KEYS, KEYS / 16, KEYS / 2, 40};

	(void)state;
	run_persistent(FTH_KV_WRITE_BACK, 6000, items);
}

/* ---- threads ---- */

static void *run_thread(void *context)
{
	struct model *m = context;

	for (unsigned i = 0; i < 20000; i++)
		one(m);
	return NULL;
}

#define THREADS 4u

/* Each thread has keys of its own, in one cache that is too small for all of them. */
static void threads_share_a_cache(void **state)
{
	struct fth_kv_options o = small("mem:8M");
	struct model *m[THREADS];
	pthread_t thread[THREADS];

	(void)state;
	o.items = KEYS * THREADS / 2;
	for (unsigned t = 0; t < THREADS; t++) {
		m[t] = calloc(1, sizeof(*m[t]));
		m[t]->rng.state = t;
		m[t]->space = t;
		if (t == 0)
			assert_ok(fth_kv_open(&o, &m[0]->kv));
		m[t]->kv = m[0]->kv;
		assert_ok(fth_kv_worker_open(m[0]->kv, &m[t]->worker));
	}
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&thread[t], NULL, run_thread, m[t]), 0);
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(thread[t], NULL);
	print(m[0]);
	for (unsigned t = 0; t < THREADS; t++)
		fth_kv_worker_close(m[t]->worker);
	assert_ok(fth_kv_close(m[0]->kv));
	for (unsigned t = 0; t < THREADS; t++)
		free(m[t]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_alone),
		cmocka_unit_test(a_long_log),
		cmocka_unit_test(a_short_log),
		cmocka_unit_test(a_short_log_that_keeps_hot_items),
		cmocka_unit_test(a_small_index),
		cmocka_unit_test(a_small_index_that_keeps_hot_items),
		cmocka_unit_test(write_back_keeps_all_over_a_restart),
		cmocka_unit_test(write_through_keeps_all_over_a_restart),
		cmocka_unit_test(a_small_index_over_restarts),
		cmocka_unit_test(threads_share_a_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
