/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A change that is refused leaves no old value behind: too long a value, no memory, a log that has
 * failed. With persistence not after a restart either, unless the log has failed.
 */
#include "kv/test/kv_fixture.h"

#include "fathom/dev/fault.h"

#define KIND(op) (1u << (op))
#define LARGE	 3500u /* bytes of values that fill the memory */
#define HELD	 400u  /* more of them than the memory has room for */

static struct fth_kv_options options_for(enum fth_kv_persistence persistence)
{
	struct fth_kv_options o = small_options();

	o.persistence = persistence;
	return o;
}

static void reopen(struct box *box, const struct fth_kv_options *o, struct fth_dev *dev)
{
	assert_ok(box_close(box));
	box_open(box, o, dev);
}

static int store_bytes(struct box *box, unsigned i, uint32_t bytes, uint64_t cas)
{
	static const uint8_t value[8192];
	struct fth_kv_op op = {
		.verb = FTH_KV_SET, .value = value, .value_length = bytes, .cas = cas};

	return box_do(box, &op, i);
}

static bool exists(struct box *box, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	int rc = box_do(box, &op, i);

	assert_true(rc == 0 || rc == -ENOENT);
	fth_kv_release(box->worker, &op);
	return rc == 0;
}

/* ---- too long ---- */

static void check_too_long(enum fth_kv_persistence persistence, bool on_flash)
{
	struct fth_dev *dev = open_dev("mem:32M");
	struct fth_kv_options o = options_for(persistence);
	struct box box;

	box_open(&box, &o, dev);
	assert_ok(box_set(&box, 1, 1));
	assert_ok(box_set(&box, 2, 1));
	if (on_flash)
		push_out(&box);
	assert_int_equal(store_bytes(&box, 1, o.value_max + 1, 0), -EMSGSIZE);
	assert_false(exists(&box, 1));
	assert_int_equal(store_bytes(&box, 3, o.value_max + 1, 0), -EMSGSIZE);
	/* One with a condition is not about the value that is there. */
	assert_int_equal(store_bytes(&box, 2, o.value_max + 1, 77), -EMSGSIZE);
	assert_true(exists(&box, 2));
	if (persistence != FTH_KV_VOLATILE) {
		reopen(&box, &o, dev);
		assert_false(exists(&box, 1));
		assert_true(exists(&box, 2));
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void too_long_a_value_removes_the_old_one(void **state)
{
	(void)state;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_THROUGH; p++)
		for (unsigned on_flash = 0; on_flash < 2; on_flash++)
			check_too_long(p, on_flash);
}

/* ---- no memory ---- */

/*
 * Items of one size fill the memory, and readers hold all of them: there is no page for another
 * size.
 */
static void check_no_memory(enum fth_kv_persistence persistence)
{
	struct fth_dev *dev = open_dev("mem:32M");
	struct fth_kv_options o = options_for(persistence);
	struct fth_kv_op *held = calloc(HELD, sizeof(*held));
	char(*keys)[16] = calloc(HELD, sizeof(*keys));
	unsigned count = 0;
	struct box box;

	assert_non_null(held);
	assert_non_null(keys);
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < HELD && store_bytes(&box, i, LARGE, 0) == 0; i++) {
		struct fth_kv_op *op = &held[count++];

		*op = (struct fth_kv_op){.verb = FTH_KV_GET, .key = keys[i]};
		op->key_length = (uint32_t)snprintf(keys[i], sizeof(keys[i]), "k%u", i);
		assert_ok(fth_kv_do(box.worker, op, KV_SECONDS(20)));
	}
	assert_true(count > 10 && count < HELD);
	assert_int_equal(store_bytes(&box, 1, 10, 0), -ENOMEM);
	assert_false(exists(&box, 1));
	assert_true(exists(&box, 2));
	for (unsigned i = 0; i < count; i++)
		fth_kv_release(box.worker, &held[i]);
	if (persistence != FTH_KV_VOLATILE) {
		reopen(&box, &o, dev);
		assert_false(exists(&box, 1));
		assert_true(exists(&box, 2));
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
	free(keys);
	free(held);
}

static void no_memory_removes_the_old_one(void **state)
{
	(void)state;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_THROUGH; p++)
		check_no_memory(p);
}

/* ---- a log that has failed ---- */

static void fail_writes(struct box *box, struct fth_dev *dev, uint32_t kinds)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(dev, &plan));
	assert_int_equal(box_set(box, 0, 2), -EIO);
}

static void check_failed_log(uint32_t kinds, bool on_flash)
{
	static const enum fth_kv_verb verbs[] = {FTH_KV_SET,	 FTH_KV_REPLACE, FTH_KV_APPEND,
						 FTH_KV_PREPEND, FTH_KV_DELETE,	 FTH_KV_INVALIDATE};
	struct fth_dev *dev = open_dev("fault(mem:32M)");
	struct fth_kv_options o = options_for(FTH_KV_WRITE_THROUGH);
	struct fth_kv_op op;
	struct box box;

	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 10; i++)
		assert_ok(box_text(&box, FTH_KV_SET, i, "1"));
	if (on_flash)
		push_out(&box);
	fail_writes(&box, dev, kinds);
	for (unsigned v = 0; v < sizeof(verbs) / sizeof(verbs[0]); v++) {
		assert_int_equal(box_text(&box, verbs[v], 1 + v, "2"), -EIO);
		assert_false(exists(&box, 1 + v));
	}
	op = (struct fth_kv_op){.verb = FTH_KV_INCREMENT, .delta = 1};
	assert_int_equal(box_do(&box, &op, 7), -EIO);
	assert_false(exists(&box, 7));
	/* Its value is the same, and nothing was to be replaced. */
	op = (struct fth_kv_op){.verb = FTH_KV_TOUCH};
	assert_int_equal(box_do(&box, &op, 8), -EIO);
	assert_true(exists(&box, 8));
	assert_int_equal(box_text(&box, FTH_KV_ADD, 9, "2"), -EEXIST);
	assert_true(exists(&box, 9));
	assert_true(box_close(&box) < 0);
	/* The reply was an error: what was acknowledged before is there, or nothing. */
	assert_ok(fth_dev_fault_disarm(dev));
	box_open(&box, &o, dev);
	assert_true(exists(&box, 8));
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_failed_log_serves_no_old_value(void **state)
{
	(void)state;
	for (unsigned on_flash = 0; on_flash < 2; on_flash++) {
		check_failed_log(KIND(FTH_DEV_WRITE), on_flash);
		check_failed_log(KIND(FTH_DEV_FLUSH), on_flash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_long_a_value_removes_the_old_one),
		cmocka_unit_test(no_memory_removes_the_old_one),
		cmocka_unit_test(a_failed_log_serves_no_old_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
