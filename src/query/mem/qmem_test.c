/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accounts never hold more than the budget, give everything back, and lose nothing between threads.
 */
#include "fth_test.h"

#include "query/mem/qmem.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define MIB (1u << 20)

static void the_budget_is_a_ceiling(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB),
			*q = fth_qmem_child(root, "query", FTH_QMEM_NO_LIMIT);
	char *a, *b;

	(void)state;
	a = fth_qmem_alloc(q, MIB / 2);
	assert_non_null(a);
	memset(a, 1, MIB / 2);
	assert_null(fth_qmem_alloc(q, MIB / 2));
	assert_string_equal(fth_error_text(-ENOMEM),
			    "query memory: query needs 524288 more bytes, 524288 are in use");
	b = fth_qmem_alloc(q, MIB / 4);
	assert_non_null(b);
	assert_true(fth_qmem_used(q) >= 3 * MIB / 4);
	assert_true(fth_qmem_peak(root) <= MIB);
	assert_null(fth_qmem_alloc(q, SIZE_MAX - 10));
	fth_qmem_free(q, a, MIB / 2);
	fth_qmem_free(q, b, MIB / 4);
	fth_qmem_free(q, NULL, 7);
	assert_int_equal(fth_qmem_close(q), 0);
	assert_int_equal(fth_qmem_used(root), 0);
	assert_int_equal(fth_qmem_close(root), 0);
	assert_int_equal(fth_qmem_close(NULL), 0);
}

static void a_leak_is_reported(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB), *q = fth_qmem_child(root, "query", MIB);
	void *p = fth_qmem_alloc(q, 100);

	(void)state;
	assert_non_null(p);
	fth_qmem_discharge(q, 0);
	assert_ok(fth_qmem_charge(q, 1000));
	fth_qmem_free(q, p, 100);
	assert_int_equal(fth_qmem_close(q), 1000);
	assert_int_equal(fth_qmem_close(root), 0);
}

static void a_child_keeps_to_its_limit(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB), *q = fth_qmem_child(root, "sort", 100000);

	(void)state;
	assert_int_equal(fth_qmem_available(q), 100000);
	assert_ok(fth_qmem_charge(q, 100000));
	assert_int_equal(fth_qmem_charge(q, 1), -ENOMEM);
	assert_int_equal(fth_qmem_available(q), 0);
	fth_qmem_discharge(q, 100000);
	assert_int_equal(fth_qmem_close(q), 0);
	assert_int_equal(fth_qmem_close(root), 0);
}

static void a_reservation_cannot_be_taken_by_others(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB);
	struct fth_qmem *a = fth_qmem_child(root, "a", MIB), *b = fth_qmem_child(root, "b", MIB);
	uint64_t rest;

	(void)state;
	assert_ok(fth_qmem_reserve(a, MIB / 2));
	assert_int_equal(fth_qmem_reserve(b, MIB / 2 + 1), -ENOMEM);
	rest = fth_qmem_available(b);
	assert_true(rest < MIB / 2 && rest > MIB / 2 - 1000);
	assert_ok(fth_qmem_charge(b, rest));
	assert_int_equal(fth_qmem_charge(b, 1), -ENOMEM);
	for (unsigned i = 0; i < 8; i++)
		assert_ok(fth_qmem_charge(a, MIB / 16));
	assert_int_equal(fth_qmem_charge(a, 1), -ENOMEM);
	for (unsigned i = 0; i < 8; i++)
		fth_qmem_discharge(a, MIB / 16);
	assert_int_equal(fth_qmem_charge(b, 1), -ENOMEM);
	fth_qmem_discharge(b, rest);
	assert_int_equal(fth_qmem_close(a), 0);
	assert_int_equal(fth_qmem_close(b), 0);
	assert_int_equal(fth_qmem_close(root), 0);
}

/* Each of many accounts may keep slack, but none of it is lost to the others. */
static void slack_is_collected_before_a_charge_fails(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB), *all[16];
	uint64_t rest;

	(void)state;
	for (unsigned i = 0; i < 16; i++) {
		all[i] = fth_qmem_child(root, "child", MIB);
		assert_non_null(all[i]);
		assert_ok(fth_qmem_charge(all[i], 8));
		fth_qmem_discharge(all[i], 8);
	}
	rest = fth_qmem_available(all[3]);
	assert_true(rest > MIB - 10000);
	assert_ok(fth_qmem_charge(all[3], rest));
	fth_qmem_discharge(all[3], rest);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(fth_qmem_close(all[i]), 0);
	assert_int_equal(fth_qmem_close(root), 0);
}

static void realloc_keeps_the_bytes(void **state)
{
	static const size_t sizes[] = {10, 5000, 600000, 3000000, 700000, 400, 300000, 0};
	struct fth_qmem *root = fth_qmem_new(16 * MIB);
	size_t old = 0;
	unsigned char *p = NULL;

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t common = old < sizes[i] ? old : sizes[i];

		p = fth_qmem_realloc(root, p, old, sizes[i]);
		assert_non_null(p);
		assert_int_equal((uintptr_t)p % FTH_QMEM_ALIGN, 0);
		for (size_t j = 0; j < common; j++)
			assert_int_equal(p[j], j % 251);
		old = sizes[i];
		for (size_t j = 0; j < old; j++)
			p[j] = (unsigned char)(j % 251);
	}
	assert_null(fth_qmem_realloc(root, p, old, 17 * MIB));
	fth_qmem_free(root, p, old);
	p = fth_qmem_zalloc(root, 999);
	for (unsigned i = 0; i < 999; i++)
		assert_int_equal(p[i], 0);
	fth_qmem_free(root, p, 999);
	assert_int_equal(fth_qmem_close(root), 0);
}

static void an_arena_gives_everything_back(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB);
	struct fth_arena a = {0};

	(void)state;
	fth_arena_release(&a);
	fth_arena_init(&a, root, 4096);
	for (unsigned round = 0; round < 3; round++) {
		unsigned char *last = NULL;

		for (unsigned i = 1; i < 300; i++) {
			size_t align = (size_t)1 << i % 7;
			unsigned char *p = fth_arena_alloc(&a, i, align);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % align, 0);
			memset(p, (int)i, i);
			if (last)
				assert_int_equal(last[i - 2], (i - 1) % 256);
			last = p;
		}
		assert_non_null(fth_arena_alloc(&a, 50000, 8));
		fth_arena_reset(&a);
	}
	assert_null(fth_arena_alloc(&a, 2 * MIB, 8));
	fth_arena_release(&a);
	fth_arena_release(&a);
	assert_int_equal(fth_qmem_close(root), 0);
}

static void the_nth_charge_fails_once(void **state)
{
	struct fth_qmem *root = fth_qmem_new(MIB);

	(void)state;
	fth_qmem_fail_nth(root, 2);
	assert_ok(fth_qmem_charge(root, 1));
	assert_true(fth_qmem_fail_pending(root));
	assert_int_equal(fth_qmem_charge(root, 1), -ENOMEM);
	assert_false(fth_qmem_fail_pending(root));
	assert_ok(fth_qmem_charge(root, 1));
	fth_qmem_discharge(root, 2);
	assert_int_equal(fth_qmem_close(root), 0);
}

struct worker {
	struct fth_qmem *parent;
	uint64_t seed;
};

static void *charge_at_random(void *arg)
{
	struct worker *w = arg;
	struct fth_rng rng = {w->seed};
	struct fth_qmem *m = fth_qmem_child(w->parent, "thread", FTH_QMEM_NO_LIMIT);
	uint64_t held[32] = {0};

	assert_non_null(m);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned at = (unsigned)fth_rng_below(&rng, 32);
		uint64_t size = fth_rng_below(&rng, i % 8 ? 4000 : 200000);

		if (held[at]) {
			fth_qmem_discharge(m, held[at]);
			held[at] = 0;
		} else if (fth_qmem_charge(m, size) == 0) {
			held[at] = size;
		}
		assert_true(fth_qmem_used(w->parent) <= 2 * MIB);
	}
	for (unsigned i = 0; i < 32; i++)
		fth_qmem_discharge(m, held[i]);
	assert_int_equal(fth_qmem_close(m), 0);
	return NULL;
}

static void threads_share_a_budget(void **state)
{
	struct fth_qmem *root = fth_qmem_new(2 * MIB);
	struct fth_qmem *query = fth_qmem_child(root, "query", FTH_QMEM_NO_LIMIT);
	struct worker workers[4];
	pthread_t threads[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		workers[i] = (struct worker){query, i};
		assert_int_equal(pthread_create(&threads[i], NULL, charge_at_random, &workers[i]),
				 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_true(fth_qmem_peak(root) <= 2 * MIB);
	assert_true(fth_qmem_peak(root) > MIB);
	assert_int_equal(fth_qmem_close(query), 0);
	assert_int_equal(fth_qmem_close(root), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_budget_is_a_ceiling),
		cmocka_unit_test(a_leak_is_reported),
		cmocka_unit_test(a_child_keeps_to_its_limit),
		cmocka_unit_test(a_reservation_cannot_be_taken_by_others),
		cmocka_unit_test(slack_is_collected_before_a_charge_fails),
		cmocka_unit_test(realloc_keeps_the_bytes),
		cmocka_unit_test(an_arena_gives_everything_back),
		cmocka_unit_test(the_nth_charge_fails_once),
		cmocka_unit_test(threads_share_a_budget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
