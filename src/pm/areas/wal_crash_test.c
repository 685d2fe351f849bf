/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses of the device behind a write-ahead log on drained memory. Threads append, wait for
 * some of their entries, and one of them trims. After the power is back, the log opens, the entries
 * that were waited for are there, those of each thread in order and without a gap, and nothing is
 * there that was never appended, or was lost before. FTH_LONG_TESTS runs thousands of losses.
 */
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/pm/wal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BYTES	 (160u << 10)
#define CAPACITY (20u << 10)
#define THREADS	 4u
#define WORDS	 50u /* of the largest entry */

struct run {
	struct fth_dev *dev;
	struct fth_pm *pm;
	struct fth_pm_wal *wal;
	uint64_t life;		    /* losses so far: entries say in which one they were appended */
	uint64_t appended[THREADS]; /* entries in this life */
	uint64_t waited[THREADS];   /* the number of the newest one that is certain */
	uint64_t trimmed;	    /* entries with numbers below it are gone for certain */
	uint64_t trimming;	    /* and below this one perhaps */
	uint64_t waits, lost;
	bool early; /* broken on purpose: entries count as waited for before the wait */
};

struct worker {
	struct run *run;
	uint64_t number;
	struct fth_rng rng;
};

static unsigned losses(void)
{
	return getenv("FTH_LONG_TESTS") ? 5000 : 80;
}

/* ---- threads ---- */

/* Remove the older half. */
static int trim_half(struct run *r, struct fth_rng *rng)
{
	struct fth_pm_wal_info info;
	uint64_t cursor = 0, entry[WORDS];
	int rc;

	fth_pm_wal_info(r->wal, &info);
	if (info.used < CAPACITY / 2 && fth_rng_below(rng, 4))
		return 0;
	for (uint64_t n = 0; n < (info.entries + 1) / 2; n++)
		if (fth_pm_wal_read(r->wal, &cursor, entry, sizeof(entry)) < 0)
			break;
	if (cursor == 0)
		return 0;
	r->trimming = cursor;
	rc = fth_pm_wal_trim(r->wal, cursor);
	if (rc == 0)
		r->trimmed = cursor;
	return rc;
}

static void *append_entries(void *arg)
{
	struct worker *w = arg;
	struct run *r = w->run;
	uint64_t *appended = &r->appended[w->number];

	for (int rc = 0; rc == 0 || rc == -ENOSPC;) {
		uint64_t entry[WORDS] = {w->number, r->life, *appended}, number;
		uint32_t bytes = 24 + 8 * (uint32_t)fth_rng_below(&w->rng, WORDS - 3);

		for (unsigned i = 3; i < bytes / 8; i++)
			entry[i] = fth_mix64(entry[2] + i);
		rc = fth_pm_wal_append(r->wal, entry, bytes, &number);
		if (rc == 0)
			++*appended;
		if (rc == 0 && r->early)
			r->waited[w->number] = number;
		if (rc == 0 && fth_rng_below(&w->rng, 3) == 0) {
			rc = fth_pm_wal_wait(r->wal, number);
			if (rc == 0)
				r->waited[w->number] = number;
			__atomic_add_fetch(&r->waits, rc == 0, __ATOMIC_RELAXED);
		}
		if (w->number == 0 && (rc == 0 || rc == -ENOSPC))
			rc = trim_half(r, &w->rng);
	}
	return NULL;
}

/* ---- what is left ---- */

static void check_payload(const uint64_t *entry, int64_t bytes)
{
	assert_true(bytes >= 24 && bytes % 8 == 0 && entry[0] < THREADS);
	for (unsigned i = 3; i < bytes / 8; i++)
		assert_int_equal(entry[i], fth_mix64(entry[2] + i));
}

static void check_log(struct run *r)
{
	uint64_t next[THREADS], life = 0, cursor = 0, entry[WORDS];
	struct fth_pm_wal_info info;
	int64_t bytes;

	fth_pm_wal_info(r->wal, &info);
	assert_in_range(info.oldest, r->trimmed,
			r->trimming > r->trimmed ? r->trimming : r->trimmed);
	memset(next, 0xff, sizeof(next));
	while ((bytes = fth_pm_wal_read(r->wal, &cursor, entry, sizeof(entry))) >= 0) {
		uint64_t t = entry[0];

		check_payload(entry, bytes);
		assert_true(entry[1] >= life && entry[1] <= r->life);
		if (entry[1] > life)
			memset(next, 0xff, sizeof(next));
		life = entry[1];
		assert_true(next[t] == UINT64_MAX || entry[2] == next[t]);
		next[t] = entry[2] + 1;
		assert_true(life < r->life || next[t] <= r->appended[t]);
	}
	assert_int_equal(bytes, -ENOENT);
	assert_int_equal(cursor == 0 ? info.next : cursor, info.next);
	/* The log has no gap: an entry that is missing was trimmed, or is behind the end. */
	for (unsigned t = 0; t < THREADS; t++)
		r->lost += r->waited[t] >= info.next;
}

static void open_log(struct run *r)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;

	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map_dev(r->dev, BYTES - 4096, &options, &r->pm));
	assert_ok(fth_pm_wal_open_or_create(r->pm, 4096, CAPACITY, &r->wal));
}

static void lose_power(struct run *r, struct fth_rng *rng)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	assert_ok(fth_dev_crash_at(r->dev, 1 + fth_rng_below(rng, 60), fth_rng_next(rng)));
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] =
			(struct worker){.run = r, .number = i, .rng = {.state = fth_rng_next(rng)}};
		assert_int_equal(pthread_create(&threads[i], NULL, append_entries, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fth_pm_wal_close(r->wal);
	assert_true(fth_pm_unmap(r->pm) < 0);
	assert_ok(fth_dev_crash_restart(r->dev));
}

/* Returns how many threads missed entries that they had waited for. */
static uint64_t lose_entries(const char *uri, bool early)
{
	struct fth_rng rng = {.state = 3};
	struct run r = {.early = early};

	assert_ok(fth_dev_open(uri, &r.dev));
	open_log(&r);
	for (unsigned n = 0; n < losses(); n++) {
		struct fth_pm_wal_info info;

		r.life = n + 1;
		fth_pm_wal_info(r.wal, &info);
		r.trimmed = info.oldest;
		r.trimming = 0;
		memset(r.appended, 0, sizeof(r.appended));
		memset(r.waited, 0, sizeof(r.waited));
		lose_power(&r, &rng);
		open_log(&r);
		check_log(&r);
	}
	assert_true(r.waits > losses());
	fth_pm_wal_close(r.wal);
	fth_pm_unmap(r.pm);
	fth_dev_close(r.dev);
	return r.lost;
}

static void nothing_waited_for_is_lost(void **unused)
{
	(void)unused;
	assert_int_equal(lose_entries("crash(mem:160K)", false), 0);
	assert_int_equal(lose_entries("crash(mem:160K)?fua=off", false), 0);
}

static void a_missing_wait_is_found(void **unused)
{
	(void)unused;
	assert_true(lose_entries("crash(mem:160K)", true) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_waited_for_is_lost),
		cmocka_unit_test(a_missing_wait_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
