/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses of the device behind drained memory. Threads store numbers that only grow and
 * persist them; and a bank makes transactions. After the power is back, nothing that a persist
 * acknowledged is missing, nothing is there that was never stored, and no transaction is there in
 * part. FTH_LONG_TESTS runs thousands of losses.
 */
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/pm/tx.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BYTES	(640u << 10)
#define THREADS 3u
#define WORDS	300u /* of a thread; they share pages */
#define STEP	67u  /* words from one to the next */

struct run {
	struct fth_dev *dev;
	struct fth_pm *pm;
	uint64_t persisted[THREADS][WORDS]; /* at least that is durable */
	uint64_t stored[THREADS][WORDS];    /* and nothing above that was ever stored */
	uint64_t persists, errors;
};

struct worker {
	struct run *run;
	unsigned number;
	struct fth_rng rng;
};

static unsigned losses(void)
{
	return getenv("FTH_LONG_TESTS") ? 5000 : 60;
}

static struct fth_pm *map_again(struct fth_dev *dev)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map_dev(dev, BYTES - 4096, &options, &pm));
	return pm;
}

static uint64_t *word(const struct run *r, unsigned thread, unsigned i)
{
	return (uint64_t *)fth_pm_base(r->pm) + (i * THREADS + thread) * STEP;
}

static void *store_words(void *arg)
{
	struct worker *w = arg;
	struct run *r = w->run;
	unsigned t = w->number;

	for (;;) {
		unsigned first = (unsigned)fth_rng_below(&w->rng, WORDS - 4), rc;

		for (unsigned i = first; i < first + 4; i++) {
			r->stored[t][i]++;
			*word(r, t, i) = r->stored[t][i];
		}
		if (fth_rng_below(&w->rng, 3))
			continue;
		rc = (unsigned)fth_pm_persist(
			r->pm, word(r, t, first),
			(uint64_t)((char *)word(r, t, first + 3) - (char *)word(r, t, first)) + 8);
		if (rc != 0) {
			__atomic_add_fetch(&r->errors, 1, __ATOMIC_RELAXED);
			return NULL;
		}
		for (unsigned i = first; i < first + 4; i++)
			r->persisted[t][i] = r->stored[t][i];
		__atomic_add_fetch(&r->persists, 1, __ATOMIC_RELAXED);
	}
}

static void check_words(struct run *r)
{
	for (unsigned t = 0; t < THREADS; t++)
		for (unsigned i = 0; i < WORDS; i++) {
			uint64_t found = *word(r, t, i);

			if (found < r->persisted[t][i] || found > r->stored[t][i])
				fail_msg("word %u of thread %u is %llu, not %llu to %llu", i, t,
					 (unsigned long long)found,
					 (unsigned long long)r->persisted[t][i],
					 (unsigned long long)r->stored[t][i]);
			r->persisted[t][i] = r->stored[t][i] = found;
		}
}

static void lose_words(const char *uri)
{
	static struct run r;
	struct fth_rng rng = {.state = 3};

	memset(&r, 0, sizeof(r));
	assert_ok(fth_dev_open(uri, &r.dev));
	for (unsigned n = 0; n < losses(); n++) {
		struct worker workers[THREADS];
		pthread_t threads[THREADS];

		r.pm = map_again(r.dev);
		check_words(&r);
		assert_ok(fth_dev_crash_at(r.dev, 1 + fth_rng_below(&rng, 60), fth_rng_next(&rng)));
		for (unsigned i = 0; i < THREADS; i++) {
			workers[i] = (struct worker){
				.run = &r, .number = i, .rng = {.state = fth_rng_next(&rng)}};
			assert_int_equal(
				pthread_create(&threads[i], NULL, store_words, &workers[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_true(fth_pm_unmap(r.pm) < 0);
		assert_ok(fth_dev_crash_restart(r.dev));
	}
	fth_dev_close(r.dev);
	assert_true(r.persists > losses());
	assert_int_equal(r.errors, (uint64_t)losses() * THREADS);
}

static void nothing_persisted_is_lost(void **unused)
{
	(void)unused;
	lose_words("crash(mem:640K)");
	lose_words("crash(mem:640K)?fua=off");
}

/* ---- transactions ---- */

#define ACCOUNTS 40u
#define START	 1000u

struct bank {
	uint64_t balance[ACCOUNTS * 100]; /* far from each other */
	uint64_t done;
};

static void open_bank(struct fth_pm *pm, struct bank **bank, struct fth_pm_tx **tx, bool fresh)
{
	uint64_t area = (sizeof(**bank) + 4095) / 4096 * 4096;

	*bank = fth_pm_base(pm);
	if (!fresh) {
		assert_ok(fth_pm_tx_open(pm, area, tx));
		return;
	}
	for (unsigned i = 0; i < ACCOUNTS; i++)
		(*bank)->balance[i * 100] = START;
	assert_ok(fth_pm_persist(pm, *bank, sizeof(**bank)));
	assert_ok(fth_pm_tx_create(pm, area, 1, 1024, tx));
}

/* Transfers until an error. Returns the transactions that were acknowledged. */
static uint64_t transfer(struct fth_pm_tx *tx, struct bank *bank, struct fth_rng *rng)
{
	for (;;) {
		uint64_t *from = &bank->balance[fth_rng_below(rng, ACCOUNTS) * 100];
		uint64_t *to = &bank->balance[fth_rng_below(rng, ACCOUNTS) * 100];
		struct fth_pm_range ranges[] = {{from, 8}, {to, 8}, {&bank->done, 8}};
		uint64_t before = bank->done;

		assert_ok(fth_pm_tx_begin(tx, 0));
		if (fth_pm_tx_add_all(tx, 0, ranges, 3) < 0)
			return before;
		*from -= 3;
		*to += 3;
		bank->done++;
		if (fth_pm_tx_commit(tx, 0) < 0)
			return before;
	}
}

static void lose_transactions(const char *uri)
{
	struct fth_rng rng = {.state = 5};
	struct fth_dev *dev;
	uint64_t acknowledged = 0;

	assert_ok(fth_dev_open(uri, &dev));
	for (unsigned n = 0; n < losses(); n++) {
		struct fth_pm *pm = map_again(dev);
		struct fth_pm_tx *tx;
		struct bank *bank;
		uint64_t sum = 0;

		open_bank(pm, &bank, &tx, n == 0);
		for (unsigned i = 0; i < ACCOUNTS; i++)
			sum += bank->balance[i * 100];
		assert_int_equal(sum, ACCOUNTS * START);
		assert_in_range(bank->done, acknowledged, acknowledged + 1);
		assert_ok(fth_dev_crash_at(dev, 1 + fth_rng_below(&rng, 40), fth_rng_next(&rng)));
		acknowledged = transfer(tx, bank, &rng);
		fth_pm_tx_close(tx);
		fth_pm_unmap(pm);
		assert_ok(fth_dev_crash_restart(dev));
	}
	fth_dev_close(dev);
	assert_true(acknowledged > losses());
}

static void no_transaction_is_there_in_part(void **unused)
{
	(void)unused;
	lose_transactions("crash(mem:640K)");
	lose_transactions("crash(mem:640K)?fua=off");
}

static void flip_on_device(struct fth_dev *dev, uint64_t at, unsigned bit)
{
	uint8_t page[4096];

	assert_ok(fth_dev_read(dev, page, sizeof(page), at / 4096 * 4096, FTH_DEV_TIMEOUT));
	page[at % 4096] ^= (uint8_t)(1u << bit);
	assert_ok(fth_dev_write(dev, page, sizeof(page), at / 4096 * 4096, FTH_DEV_TIMEOUT));
}

/*
 * The program ends inside a transaction, of which a changed range is on the device. A bit of its
 * undo entry flips there.
 */
static void damaged_undo_entries_are_found(void **unused)
{
	uint64_t entry = FTH_PM_HEADER + (sizeof(struct bank) + 4095) / 4096 * 4096 + 64 + 64;
	struct fth_pm_tx *tx;
	struct fth_dev *dev;
	struct bank *bank;
	struct fth_pm *pm;

	(void)unused;
	assert_ok(fth_dev_open("mem:640K", &dev));
	pm = map_again(dev);
	open_bank(pm, &bank, &tx, true);
	assert_ok(fth_pm_tx_begin(tx, 0));
	assert_ok(fth_pm_tx_add(tx, 0, bank->balance, 8));
	bank->balance[0] = 1;
	assert_ok(fth_pm_persist(pm, bank->balance, 8));
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_unmap(pm));
	for (unsigned byte = 0; byte < 40 + 8; byte++) {
		flip_on_device(dev, entry + byte, byte % 8);
		pm = map_again(dev);
		bank = fth_pm_base(pm);
		assert_int_equal(fth_pm_tx_open(pm, entry - FTH_PM_HEADER - 128, &tx), -EBADMSG);
		assert_int_equal(bank->balance[0], 1);
		assert_ok(fth_pm_unmap(pm));
		flip_on_device(dev, entry + byte, byte % 8);
	}
	pm = map_again(dev);
	open_bank(pm, &bank, &tx, false);
	assert_int_equal(fth_pm_tx_rolled_back(tx), 1);
	assert_int_equal(bank->balance[0], START);
	fth_pm_tx_close(tx);
	assert_ok(fth_pm_unmap(pm));
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_persisted_is_lost),
		cmocka_unit_test(no_transaction_is_there_in_part),
		cmocka_unit_test(damaged_undo_entries_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
