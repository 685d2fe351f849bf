/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What each verb does, for items in memory and on flash, and when many threads use the same keys.
 */
#include "kv/test/kv_fixture.h"

#include "fathom/dev/driver.h"

#include <pthread.h>

static struct fth_kv_op text_op(enum fth_kv_verb verb, const char *text)
{
	return (struct fth_kv_op){
		.verb = verb, .value = text, .value_length = (uint32_t)strlen(text)};
}

static void expect_text(struct box *box, unsigned i, const char *text)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};

	assert_ok(box_do(box, &op, i));
	assert_int_equal(op.length, strlen(text));
	assert_memory_equal(op.data, text, op.length);
	fth_kv_release(box->worker, &op);
}

static int count(struct box *box, enum fth_kv_verb verb, unsigned i, uint64_t delta)
{
	struct fth_kv_op op = {.verb = verb, .delta = delta};
	int rc = box_do(box, &op, i);

	fth_kv_release(box->worker, &op);
	return rc;
}

/* Between the steps items go to flash, or stay in memory. */
static void step(struct box *box, bool flash)
{
	if (flash)
		push_out(box);
}

static void check_verbs(struct box *box, bool flash)
{
	struct fth_kv_op op = text_op(FTH_KV_SET, "one");
	uint64_t cas;

	assert_ok(box_do(box, &op, 1));
	cas = op.item_cas;
	step(box, flash);
	op = text_op(FTH_KV_SET, "two");
	op.cas = cas + 1;
	assert_int_equal(box_do(box, &op, 1), -EBUSY);
	op.cas = cas;
	assert_ok(box_do(box, &op, 1));
	assert_true(op.item_cas > cas);
	step(box, flash);
	assert_ok(box_text(box, FTH_KV_APPEND, 1, " and"));
	step(box, flash);
	assert_ok(box_text(box, FTH_KV_PREPEND, 1, "number "));
	step(box, flash);
	expect_text(box, 1, "number two and");
	assert_int_equal(count(box, FTH_KV_INCREMENT, 1, 1), -EDOM);
	assert_int_equal(box_text(box, FTH_KV_ADD, 1, "x"), -EEXIST);
	step(box, flash);
	assert_ok(box_text(box, FTH_KV_REPLACE, 1, "10"));
	step(box, flash);
	assert_ok(count(box, FTH_KV_DECREMENT, 1, 1));
	expect_text(box, 1, "9 "); /* keeps its length */
	step(box, flash);
	assert_ok(count(box, FTH_KV_INCREMENT, 1, UINT64_MAX - 8));
	expect_text(box, 1, "0 ");
	step(box, flash);
	assert_ok(count(box, FTH_KV_DECREMENT, 1, 5));
	expect_text(box, 1, "0 ");
	step(box, flash);
	op = (struct fth_kv_op){.verb = FTH_KV_TOUCH, .expires = UINT32_MAX};
	assert_ok(box_do(box, &op, 1));
	assert_int_equal(op.item_expires, UINT32_MAX);
	fth_kv_release(box->worker, &op);
	step(box, flash);
	op = (struct fth_kv_op){.verb = FTH_KV_TOUCH, .expires = 1};
	assert_ok(box_do(box, &op, 1));
	fth_kv_release(box->worker, &op);
	assert_int_equal(box_delete(box, 1), -ENOENT); /* it has expired */
	assert_ok(box_text(box, FTH_KV_ADD, 1, "new"));
	step(box, flash);
	assert_ok(box_delete(box, 1));
	assert_int_equal(box_delete(box, 1), -ENOENT);
	assert_int_equal(box_text(box, FTH_KV_REPLACE, 1, "x"), -ENOENT);
	assert_int_equal(box_text(box, FTH_KV_APPEND, 1, "x"), -ENOENT);
	assert_int_equal(count(box, FTH_KV_INCREMENT, 1, 1), -ENOENT);
	assert_ok(box_text(box, FTH_KV_SET, 1, ""));
	step(box, flash);
	expect_text(box, 1, "");
	assert_ok(box_delete(box, 1));
}

static void expect_state(struct box *box, unsigned i, unsigned item_state, uint32_t expires)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};

	assert_ok(box_do(box, &op, i));
	assert_int_equal(op.item_state, item_state);
	assert_int_equal(op.item_expires, expires);
	fth_kv_release(box->worker, &op);
}

static int claim(struct box *box, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_CLAIM};
	int rc = box_do(box, &op, i);

	if (rc == 0)
		assert_true(op.item_state & FTH_KV_ITEM_CLAIMED);
	fth_kv_release(box->worker, &op);
	return rc;
}

/* Stale items, and tokens. */
static void check_states(struct box *box, bool flash)
{
	const unsigned stale = FTH_KV_ITEM_STALE, claimed = FTH_KV_ITEM_CLAIMED;
	struct fth_kv_op op = text_op(FTH_KV_SET, "one");
	uint64_t cas;

	op.expires = UINT32_MAX;
	assert_ok(box_do(box, &op, 2));
	cas = op.item_cas;
	step(box, flash);
	op = (struct fth_kv_op){.verb = FTH_KV_INVALIDATE, .options = FTH_KV_KEEP_EXPIRES};
	assert_ok(box_do(box, &op, 2));
	assert_true(op.item_cas > cas);
	step(box, flash);
	expect_state(box, 2, stale, UINT32_MAX);
	expect_text(box, 2, "one");
	assert_ok(claim(box, 2));
	step(box, flash);
	assert_int_equal(claim(box, 2), -EALREADY);
	expect_state(box, 2, stale | claimed, UINT32_MAX);
	/* With the number from before it was stale: a value, and still stale. */
	op = text_op(FTH_KV_SET, "two");
	op.cas = cas;
	assert_int_equal(box_do(box, &op, 2), -EBUSY);
	op.options = FTH_KV_STORE_STALE;
	assert_ok(box_do(box, &op, 2));
	step(box, flash);
	expect_state(box, 2, stale | claimed, UINT32_MAX);
	expect_text(box, 2, "two");
	op.cas = op.item_cas + 1000;
	assert_int_equal(box_do(box, &op, 2), -EBUSY);
	op = (struct fth_kv_op){.verb = FTH_KV_INVALIDATE};
	assert_ok(box_do(box, &op, 2));
	step(box, flash);
	expect_state(box, 2, stale, 0);
	op = (struct fth_kv_op){.verb = FTH_KV_TOUCH, .expires = UINT32_MAX};
	assert_ok(box_do(box, &op, 2));
	fth_kv_release(box->worker, &op);
	expect_state(box, 2, stale, UINT32_MAX);
	assert_ok(box_text(box, FTH_KV_SET, 2, "new"));
	expect_state(box, 2, 0, 0);
	assert_ok(box_delete(box, 2));
	assert_int_equal(claim(box, 2), -ENOENT);
	op = text_op(FTH_KV_ADD, "");
	op.options = FTH_KV_STORE_CLAIMED;
	assert_ok(box_do(box, &op, 2));
	step(box, flash);
	expect_state(box, 2, claimed, 0);
	assert_int_equal(claim(box, 2), -EALREADY);
	assert_ok(box_delete(box, 2));
}

static void verbs(void **state)
{
	struct fth_kv_options o = small_options();
	struct box box;

	(void)state;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++)
		for (unsigned flash = 0; flash < 2; flash++) {
			o.flash = "mem:64M";
			o.persistence = p;
			box_open(&box, &o, NULL);
			check_verbs(&box, flash);
			check_states(&box, flash);
			assert_ok(box_close(&box));
		}
}

/* Hot items are written again when their chunk goes; deleted and changed ones never come back. */
static void readmission_keeps_hot_items(void **state)
{
	struct fth_kv_options o = small_options();
	unsigned kept = 0;
	struct box box;

	(void)state;
	o.flash = "mem:2M";
	o.readmit = 50;
	o.buffers = 6;
	o.memory = 512 << 10;
	box_open(&box, &o, NULL);
	for (unsigned i = 0; i < 60; i++)
		assert_ok(box_set(&box, i, 1));
	for (unsigned i = 0; i < 60; i++)
		assert_int_equal(box_get(&box, i), 1); /* hot */
	for (unsigned i = 0; i < 1900; i++) {	       /* more than the log holds */
		unsigned key = i % 60;

		assert_ok(box_set(&box, 1000 + i, 1));
		if (i < 600 || i >= 660)
			continue;
		if (key % 3 == 1)
			assert_ok(box_delete(&box, key));
		else if (key % 3 == 2)
			assert_ok(box_set(&box, key, 2));
	}
	for (unsigned i = 0; i < 60; i++) {
		uint32_t got = box_get(&box, i);

		assert_true(got == 0 || got == (i % 3 == 0 ? 1 : 2));
		assert_true(i % 3 != 1 || got == 0);
	}
	for (unsigned i = 0; i < 60; i += 3)
		kept += box_get(&box, i) == 1;
	assert_int_not_equal(box_stat(&box, FTH_KV_STAT_READMITTED), 0);
	assert_int_not_equal(box_stat(&box, FTH_KV_STAT_REWRITTEN_BYTES), 0);
	assert_true(kept > 10);
	assert_ok(box_close(&box));
}

/* ---- what goes to flash ---- */

static void admission_is_for_items_that_were_read(void **state)
{
	struct fth_kv_options o = small_options();
	uint64_t rejected, evicted;
	struct box box;

	(void)state;
	o.flash = "mem:64M";
	o.admit = 25;
	box_open(&box, &o, NULL);
	for (unsigned round = 0; round < 4; round++)
		push_out(&box);
	rejected = box_stat(&box, FTH_KV_STAT_REJECTED);
	evicted = box_stat(&box, FTH_KV_STAT_EVICTED);
	assert_true(rejected > evicted * 65 / 100 && rejected < evicted * 85 / 100);
	/* One that is read goes to flash. */
	for (unsigned i = 0; i < 20; i++) {
		assert_ok(box_set(&box, i, 1));
		assert_int_equal(box_get(&box, i), 1);
	}
	push_out(&box);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(box_get(&box, i), 1);
	assert_ok(box_close(&box));
	o.persistence = FTH_KV_WRITE_BACK;
	assert_int_equal(box_try(&box, &o, NULL), -EINVAL);
}

static void a_write_budget_is_kept(void **state)
{
	struct fth_kv_options o = small_options();
	uint64_t written;
	struct box box;

	(void)state;
	o.flash = "mem:64M";
	o.daily_bytes = 24 << 20; /* a megabyte in an hour, and at once */
	box_open(&box, &o, NULL);
	for (unsigned round = 0; round < 3; round++)
		push_out(&box);
	written = box_stat(&box, FTH_KV_STAT_LOG_BYTES);
	assert_int_not_equal(box_stat(&box, FTH_KV_STAT_OVER_BUDGET), 0);
	assert_true(written > 900 << 10 && written < 1200 << 10);
	assert_ok(box_close(&box));
}

/* ---- threads ---- */

#define THREADS	 4u
#define COUNTERS 8u
#define ROUNDS	 1500u

struct thread {
	struct box box;
	struct fth_rng rng;
	uint64_t added[COUNTERS];
	unsigned number;
};

static uint64_t read_counter(struct box *box, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	char text[32] = "";

	assert_ok(box_do(box, &op, i));
	assert_true(op.length < sizeof(text));
	memcpy(text, op.data, op.length);
	fth_kv_release(box->worker, &op);
	return strtoull(text, NULL, 10);
}

/* Counters only grow, for each reader; other items push them to flash and back. */
static void *count_on(void *context)
{
	struct thread *t = context;
	uint64_t seen[COUNTERS] = {0};

	for (unsigned n = 0; n < ROUNDS; n++) {
		unsigned i = (unsigned)fth_rng_below(&t->rng, COUNTERS);
		uint64_t delta = fth_rng_below(&t->rng, 1000), now;

		switch (fth_rng_below(&t->rng, 4)) {
		case 0:
			assert_ok(count(&t->box, FTH_KV_INCREMENT, i, delta));
			t->added[i] += delta;
			break;
		case 1:
			now = read_counter(&t->box, i);
			assert_true(now >= seen[i]);
			seen[i] = now;
			break;
		default:
			assert_ok(box_set(&t->box, 100 + (unsigned)fth_rng_below(&t->rng, 3000),
					  n + 1));
		}
	}
	return NULL;
}

static void check_counters(enum fth_kv_persistence persistence)
{
	struct fth_kv_options o = small_options();
	struct thread *t = calloc(THREADS, sizeof(*t));
	pthread_t thread[THREADS];
	struct box box;

	o.flash = "mem:128M"; /* nothing is reclaimed */
	o.memory = 1 << 20;
	o.persistence = persistence;
	box_open(&box, &o, NULL);
	for (unsigned i = 0; i < COUNTERS; i++)
		assert_ok(box_text(&box, FTH_KV_SET, i, "0"));
	for (unsigned n = 0; n < THREADS; n++) {
		t[n].box.kv = box.kv;
		t[n].rng.state = n;
		assert_ok(fth_kv_worker_open(box.kv, &t[n].box.worker));
		assert_int_equal(pthread_create(&thread[n], NULL, count_on, &t[n]), 0);
	}
	for (unsigned n = 0; n < THREADS; n++) {
		pthread_join(thread[n], NULL);
		fth_kv_worker_close(t[n].box.worker);
	}
	for (unsigned i = 0; i < COUNTERS; i++) {
		uint64_t sum = 0;

		for (unsigned n = 0; n < THREADS; n++)
			sum += t[n].added[i];
		assert_true(read_counter(&box, i) == sum);
	}
	assert_ok(box_close(&box));
	free(t);
}

static void counters_of_many_threads(void **state)
{
	(void)state;
	check_counters(FTH_KV_VOLATILE);
	check_counters(FTH_KV_WRITE_BACK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verbs),
		cmocka_unit_test(readmission_keeps_hot_items),
		cmocka_unit_test(admission_is_for_items_that_were_read),
		cmocka_unit_test(a_write_budget_is_kept),
		cmocka_unit_test(counters_of_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
