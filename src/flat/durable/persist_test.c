/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent ranges: guarantees, errors, the log, many threads. persist_crash_test.c has the power
 * losses.
 */
#include "flat/test/flat_main_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/dev/fault.h"
#include "fathom/dev/window.h"
#include "fathom/dev/wrap.h"
#include "fathom/flat.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096u
#define BUDGET (64u * PAGE)
#define LOG    (64u << 10)

#ifdef __SANITIZE_THREAD__
/*
 * softnvme() allocates memory for requests: in a fault that is safe, as no allocation of this test
 * is interrupted by one.
 */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}
#endif

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		_exit(99);
}

/* cmocka installs handlers of its own for each test. */
static void take_signals(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGBUS, &action, NULL);
}

static struct fth_flat *open_log(struct fth_dev *dev, uint64_t log)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.log = log;
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	take_signals();
	return flat;
}

static int open_error(struct fth_dev *dev, uint64_t log, enum fth_flat_window window, bool readonly)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;
	int rc;

	options.log = log;
	options.window = window;
	options.readonly = readonly;
	rc = fth_flat_open_dev(dev, BUDGET, &options, &flat);
	if (rc == 0)
		fth_flat_discard(flat);
	return rc;
}

/* ---- guarantees ---- */

static void guarantee_is(const char *uri, uint64_t log, enum fth_flat_guarantee wanted)
{
	struct fth_dev *dev;
	struct fth_flat *flat;
	uint64_t *base;

	assert_ok(fth_dev_open(uri, &dev));
	flat = open_log(dev, log);
	base = fth_flat_base(flat);
	assert_int_equal(fth_flat_persistent(flat, base, 100), wanted);
	base[1] = 5;
	assert_int_equal(fth_flat_persist(&base[1], 8), wanted);
	assert_int_equal(fth_flat_persist(&base[1], 0), wanted);
	assert_ok(fth_flat_close(flat));
	fth_dev_close(dev);
}

static void the_call_says_what_survives(void **unused)
{
	char path[] = "/tmp/fathom_persist_XXXXXX", uri[100];
	int fd = mkstemp(path);

	(void)unused;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2 << 20), 0);
	guarantee_is("mem:2M", 0, FTH_FLAT_SURVIVES_NOTHING);
	guarantee_is("mem:2M", LOG, FTH_FLAT_SURVIVES_NOTHING);
	guarantee_is("softnvme(mem:2M)?pmr=1M", 0, FTH_FLAT_SURVIVES_WINDOW);
	guarantee_is("softnvme(mem:2M)?pmr=1M", LOG, FTH_FLAT_SURVIVES_NOTHING);
	guarantee_is("softnvme(mem:2M)?cmb=1M", 0, FTH_FLAT_SURVIVES_NOTHING);
	snprintf(uri, sizeof(uri), "file:%s", path);
	guarantee_is(uri, 0, FTH_FLAT_SURVIVES_FLUSH);
	guarantee_is(uri, LOG, FTH_FLAT_SURVIVES_FLUSH);
	snprintf(uri, sizeof(uri), "file:/dev/shm/fathom_persist_%d?create=on&size=2M",
		 (int)getpid());
	guarantee_is(uri, LOG, FTH_FLAT_SURVIVES_EXIT);
	snprintf(uri, sizeof(uri), "/dev/shm/fathom_persist_%d", (int)getpid());
	unlink(uri);
	unlink(path);
	close(fd);
	assert_string_equal(fth_flat_guarantee_name(FTH_FLAT_SURVIVES_WINDOW), "power, by window");
	assert_string_equal(fth_flat_guarantee_name(FTH_FLAT_GUARANTEES), "unknown");
}

/* ---- errors ---- */

static void errors_are_clear(void **unused)
{
	struct fth_flat *flat;
	struct fth_dev *dev;
	char *base;
	pid_t child;
	int status;

	(void)unused;
	assert_ok(fth_dev_open("mem:2M", &dev));
	assert_int_equal(open_error(dev, 4096, FTH_FLAT_WINDOW_AUTO, false), -EINVAL);
	assert_int_equal(open_error(dev, LOG + 1, FTH_FLAT_WINDOW_AUTO, false), -EINVAL);
	assert_int_equal(open_error(dev, 2 << 20, FTH_FLAT_WINDOW_AUTO, false), -EINVAL);
	assert_int_equal(open_error(dev, 0, FTH_FLAT_WINDOW_ON, false), -EOPNOTSUPP);
	assert_int_equal(open_error(dev, 0, FTH_FLAT_WINDOW_COUNT, false), -EINVAL);
	flat = open_log(dev, LOG);
	base = fth_flat_base(flat);
	assert_int_equal(fth_flat_size(flat), (2u << 20) - LOG);
	assert_int_equal(fth_flat_persist(&status, 4), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "not in an open region"));
	assert_int_equal(fth_flat_persist(base, 4), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "not marked"));
	assert_true(fth_flat_persistent(flat, base + PAGE, PAGE) >= 0);
	assert_true(fth_flat_persist(base + PAGE, PAGE) >= 0);
	assert_int_equal(fth_flat_persist(base + PAGE, PAGE + 1), -EINVAL);
	assert_int_equal(fth_flat_persist(base + PAGE, fth_flat_size(flat)), -ERANGE);
	assert_int_equal(fth_flat_persistent(flat, base, fth_flat_size(flat) + 1), -ERANGE);
	assert_int_equal(fth_flat_persistent(flat, &status, 4), -ERANGE);
	child = fork();
	if (child == 0)
		_exit(fth_flat_persist(base + PAGE, 4) == -EPERM ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_ok(fth_flat_close(flat));
	{
		struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;

		options.readonly = true;
		assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
		assert_int_equal(fth_flat_persistent(flat, fth_flat_base(flat), 4), -EROFS);
		assert_int_equal(fth_flat_persist(fth_flat_base(flat), 4), -EROFS);
		fth_flat_discard(flat);
	}
	fth_dev_close(dev);
}

/* ---- the log ---- */

/* What was persisted is there after a discard; what was only stored is not. */
static void what_was_persisted_outlives_a_discard(void **unused)
{
	const char *uris[] = {"mem:2M", "softnvme(mem:2M)?pmr=1M"};

	(void)unused;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_flat *flat;
		struct fth_dev *dev;
		uint64_t *base;

		assert_ok(fth_dev_open(uris[i], &dev));
		flat = open_log(dev, i ? 0 : LOG);
		base = fth_flat_base(flat);
		assert_true(fth_flat_persistent(flat, base, 1 << 20) >= 0);
		base[3] = 33;
		base[4] = 44;
		memset((char *)base + 2 * PAGE - 10, 7, 20); /* in two pages */
		assert_true(fth_flat_persist(&base[3], 8) >= 0);
		assert_true(fth_flat_persist((char *)base + 2 * PAGE - 10, 20) >= 0);
		base[3] = 34;
		assert_true(fth_flat_persist(&base[3], 8) >= 0);
		fth_flat_discard(flat);

		/* not without the log, nor without writing */
		if (i == 0) {
			assert_int_equal(open_error(dev, 0, FTH_FLAT_WINDOW_AUTO, false), -EBUSY);
			assert_int_equal(open_error(dev, 2 * LOG, FTH_FLAT_WINDOW_AUTO, false),
					 -EINVAL);
			assert_int_equal(open_error(dev, LOG, FTH_FLAT_WINDOW_AUTO, true), -EROFS);
		} else {
			assert_int_equal(open_error(dev, 0, FTH_FLAT_WINDOW_OFF, false), -EROFS);
			assert_int_equal(open_error(dev, 0, FTH_FLAT_WINDOW_AUTO, true), -EROFS);
		}
		flat = open_log(dev, i ? 0 : LOG);
		base = fth_flat_base(flat);
		assert_int_equal(base[3], 34);
		assert_int_equal(base[4], 0);
		for (unsigned k = 0; k < 20; k++)
			assert_int_equal(((char *)base)[2 * PAGE - 10 + k], 7);
		assert_ok(fth_flat_close(flat));
		/* empty: all of these are allowed */
		assert_ok(open_error(dev, i ? 0 : LOG, FTH_FLAT_WINDOW_AUTO, true));
		assert_ok(open_error(dev, 0, FTH_FLAT_WINDOW_OFF, false));
		fth_dev_close(dev);
	}
}

/* A record is not replayed over what a later sync wrote. */
static void a_sync_outlives_older_records(void **unused)
{
	struct fth_flat *flat;
	struct fth_dev *dev;
	uint64_t *base;

	(void)unused;
	assert_ok(fth_dev_open("mem:2M", &dev));
	flat = open_log(dev, LOG);
	base = fth_flat_base(flat);
	assert_true(fth_flat_persistent(flat, base, PAGE) >= 0);
	base[0] = 1;
	assert_true(fth_flat_persist(base, 8) >= 0);
	base[0] = 2;
	assert_ok(fth_flat_sync(flat, FTH_DEV_TIMEOUT));
	fth_flat_discard(flat);
	flat = open_log(dev, LOG);
	base = fth_flat_base(flat);
	assert_int_equal(base[0], 2);
	assert_ok(fth_flat_close(flat));
	fth_dev_close(dev);
}

/*
 * Evicted between persist and the next access: what comes back has the logged bytes. The log wraps
 * many times.
 */
static void pages_with_records_are_not_read_stale(void **unused)
{
	const char *uris[] = {"mem:4M", "softnvme(mem:4M)?pmr=64K"};

	(void)unused;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_rng rng = {3};
		uint64_t *shadow = calloc(512, sizeof(*shadow));
		struct fth_flat *flat;
		struct fth_dev *dev;
		char *base;

		assert_ok(fth_dev_open(uris[i], &dev));
		flat = open_log(dev, i ? 0 : LOG);
		base = fth_flat_base(flat);
		assert_true(fth_flat_persistent(flat, base, 512 * PAGE) >= 0);
		for (unsigned k = 0; k < 6000; k++) {
			uint64_t page = fth_rng_below(&rng, 512);
			uint64_t *at = (uint64_t *)(base + page * PAGE + page % 500 * 8);

			assert_int_equal(*at, shadow[page]);
			shadow[page] = *at = k + 1;
			assert_true(fth_flat_persist(at, 8) >= 0);
			if (k % 100 == 0)
				assert_ok(fth_flat_advise(flat, base + page * PAGE, PAGE,
							  FTH_FLAT_COLD));
		}
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_CHECKPOINTS) > 2);
		assert_int_equal(fth_flat_stat(flat, FTH_FLAT_STAT_PERSISTS), 6000);
		fth_flat_discard(flat);
		flat = open_log(dev, i ? 0 : LOG);
		base = fth_flat_base(flat);
		for (uint64_t page = 0; page < 512; page++)
			assert_int_equal(*(uint64_t *)(base + page * PAGE + page % 500 * 8),
					 shadow[page]);
		assert_ok(fth_flat_close(flat));
		fth_dev_close(dev);
		free(shadow);
	}
}

/* Longer than a record, than a batch, and than the log. */
static void long_ranges_are_persisted_in_pieces(void **unused)
{
	struct fth_rng rng = {8};
	struct fth_flat *flat;
	struct fth_dev *dev;
	char *base, *copy = malloc(1 << 20);

	(void)unused;
	for (unsigned i = 0; i < 1 << 20; i++)
		copy[i] = (char)fth_rng_next(&rng);
	assert_ok(fth_dev_open("mem:2M?block=4096", &dev));
	flat = open_log(dev, LOG);
	base = fth_flat_base(flat);
	assert_true(fth_flat_persistent(flat, base, 1 << 20) >= 0);
	assert_ok(fth_flat_store(flat, base, copy, 1 << 20));
	assert_true(fth_flat_persist(base + 1, (1 << 20) - 1) >= 0);
	fth_flat_discard(flat);
	flat = open_log(dev, LOG);
	base = fth_flat_base(flat);
	assert_memory_equal(base + 1, copy + 1, (1 << 20) - 1);
	assert_ok(fth_flat_close(flat));
	fth_dev_close(dev);
	free(copy);
}

/* A log that is no log of this region. */
static void logs_of_others_are_left_alone(void **unused)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_dev_window *window;
	struct fth_flat *flat;
	struct fth_dev *dev;
	char *base, word[8] = {0};

	(void)unused;
	assert_ok(fth_dev_open("softnvme(mem:4M)?pmr=64K", &dev));
	/* the user's own data in the window */
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_POWER, &window));
	assert_ok(fth_dev_window_store(window, 100, "precious", 8));
	fth_dev_window_close(window);
	flat = open_log(dev, 0);
	base = fth_flat_base(flat);
	assert_int_equal(fth_flat_persistent(flat, base, 8), FTH_FLAT_SURVIVES_NOTHING);
	assert_ok(fth_flat_close(flat));
	assert_ok(fth_dev_window_open(dev, FTH_DEV_WINDOW_PMR, FTH_DEV_WINDOW_POWER, &window));
	assert_ok(fth_dev_window_load(window, 100, word, 8));
	assert_memory_equal(word, "precious", 8);
	fth_dev_window_close(window);
	/* on request it is overwritten */
	options.window = FTH_FLAT_WINDOW_ON;
	options.length = 1 << 20;
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	base = fth_flat_base(flat);
	assert_int_equal(fth_flat_persistent(flat, base, 8), FTH_FLAT_SURVIVES_WINDOW);
	base[0] = 9;
	assert_int_equal(fth_flat_persist(base, 1), FTH_FLAT_SURVIVES_WINDOW);
	fth_flat_discard(flat);
	/* changes of that region are not lost by opening another */
	options.offset = 2 << 20;
	assert_int_equal(fth_flat_open_dev(dev, BUDGET, &options, &flat), -EBUSY);
	options.offset = 0;
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	assert_int_equal(*(char *)fth_flat_base(flat), 9);
	assert_ok(fth_flat_close(flat));
	options.offset = 2 << 20;
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	assert_ok(fth_flat_close(flat));
	fth_dev_close(dev);
}

/* ---- the window as SSD-cache ---- */

static void the_window_is_the_ssd_cache(void **unused)
{
	const char *uris[] = {"softnvme(mem:4M)?pmr=512K", "softnvme(mem:4M)?cmb=512K"};

	(void)unused;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_rng rng = {5};
		uint64_t shadow[1024] = {0};
		struct fth_flat *flat;
		struct fth_dev *dev;
		char *base;

		assert_ok(fth_dev_open(uris[i], &dev));
		flat = open_log(dev, 0);
		base = fth_flat_base(flat);
		for (unsigned k = 0; k < 30000; k++) {
			uint64_t page = fth_rng_below(&rng, fth_rng_below(&rng, 2) ? 1024 : 80);
			uint64_t *at = (uint64_t *)(base + page * PAGE + 64);

			assert_int_equal(*at, shadow[page]);
			shadow[page] = *at = k;
		}
		/* all of the budget is DRAM: the SSD-cache is not the host's */
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_DRAM) > BUDGET / PAGE / 8 * 7);
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_CACHED) >= 80);
		assert_ok(fth_flat_set_budget(flat, BUDGET / 2));
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_DRAM) <= BUDGET / 2 / PAGE);
		assert_ok(fth_flat_close(flat));
		flat = open_log(dev, 0);
		base = fth_flat_base(flat);
		for (uint64_t page = 0; page < 1024; page++)
			assert_int_equal(*(uint64_t *)(base + page * PAGE + 64), shadow[page]);
		assert_ok(fth_flat_close(flat));
		fth_dev_close(dev);
	}
}

/* ---- many threads ---- */

#define THREADS 8u
#define EACH	200u

struct crowd {
	struct fth_flat *flat;
	uint64_t *base;
	unsigned done, errors; /* atomic */
	uint64_t acknowledged[THREADS];
	bool may_fail;
};

struct member {
	struct crowd *crowd;
	unsigned index;
};

/* The threads' words share pages. */
static uint64_t *word_of(const struct crowd *crowd, unsigned index, unsigned k)
{
	return crowd->base + (uint64_t)k % 16 * (PAGE / 8) + index * 3;
}

static void *persist_many(void *arg)
{
	struct member *m = arg;

	for (unsigned k = 0; k < EACH; k++) {
		uint64_t *at = word_of(m->crowd, m->index, k);
		int rc;

		__atomic_store_n(at, k + 1, __ATOMIC_RELAXED);
		rc = fth_flat_persist(at, 8);
		if (rc >= 0)
			m->crowd->acknowledged[m->index] = k + 1;
		else
			__atomic_fetch_add(&m->crowd->errors, 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&m->crowd->done, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void run_crowd(struct crowd *crowd)
{
	struct member members[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		members[i] = (struct member){crowd, i};
		assert_int_equal(pthread_create(&threads[i], NULL, persist_many, &members[i]), 0);
	}
	while (__atomic_load_n(&crowd->done, __ATOMIC_RELAXED) < THREADS) {
		int rc = fth_flat_sync(crowd->flat, FTH_DEV_TIMEOUT);

		assert_true(rc == 0 || crowd->may_fail);
		(void)fth_flat_advise(crowd->flat, crowd->base, 16 * PAGE, FTH_FLAT_COLD);
		usleep(1000);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void check_crowd(const struct crowd *crowd)
{
	for (unsigned i = 0; i < THREADS; i++)
		for (unsigned k = 0; k < 16; k++) {
			uint64_t last = crowd->acknowledged[i], found = *word_of(crowd, i, k);
			/* the newest acknowledged number of this word */
			uint64_t least = last <= k ? 0 : last - (last - 1 - k) % 16;

			assert_true(found >= least && found <= EACH);
		}
}

static void threads_share_writes(void **unused)
{
	const char *uris[] = {"crash(delay(mem:2M)?flush_us=300)", "softnvme(mem:2M)?pmr=256K"};

	(void)unused;
	for (unsigned i = 0; i < 2; i++) {
		struct crowd crowd = {0};
		struct fth_dev *dev;

		assert_ok(fth_dev_open(uris[i], &dev));
		crowd.flat = open_log(dev, i ? 0 : LOG);
		crowd.base = fth_flat_base(crowd.flat);
		assert_true(fth_flat_persistent(crowd.flat, crowd.base, 16 * PAGE) >= 0);
		run_crowd(&crowd);
		assert_int_equal(crowd.errors, 0);
		if (i == 0) /* group commit */
			assert_true(fth_flat_stat(crowd.flat, FTH_FLAT_STAT_LOG_WRITES) <
				    THREADS * EACH / 2);
		fth_flat_discard(crowd.flat);
		if (i == 0) {
			assert_ok(fth_dev_crash_power_loss(dev, 5));
			assert_ok(fth_dev_crash_restart(dev));
		}
		crowd.flat = open_log(dev, i ? 0 : LOG);
		crowd.base = fth_flat_base(crowd.flat);
		for (unsigned t = 0; t < THREADS; t++)
			for (unsigned k = 0; k < 16; k++)
				assert_true(*word_of(&crowd, t, k) > EACH - 16);
		assert_ok(fth_flat_close(crowd.flat));
		fth_dev_close(dev);
	}
}

/*
 * Some writes and flushes fail: their callers get the error, and what other callers persisted
 * survives a power loss.
 */
static void a_failing_device_breaks_no_promise(void **unused)
{
	unsigned errors = 0;

	(void)unused;
	for (unsigned round = 0; round < 6; round++) {
		struct crowd crowd = {.may_fail = true};
		struct fth_dev *dev;
		char uri[120];

		snprintf(uri, sizeof(uri), "fault(crash(mem:2M))?kind=%s&rate=%s&seed=%u",
			 round % 2 ? "write" : "flush", "0.03", round + 1);
		assert_ok(fth_dev_open(uri, &dev));
		{
			struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;

			options.log = LOG;
			if (fth_flat_open_dev(dev, BUDGET, &options, &crowd.flat) < 0) {
				fth_dev_close(dev);
				continue;
			}
			take_signals();
		}
		crowd.base = fth_flat_base(crowd.flat);
		assert_true(fth_flat_persistent(crowd.flat, crowd.base, 16 * PAGE) >= 0);
		run_crowd(&crowd);
		errors += crowd.errors;
		fth_flat_discard(crowd.flat);
		assert_ok(fth_dev_crash_power_loss(fth_dev_inner(dev), round));
		assert_ok(fth_dev_crash_restart(fth_dev_inner(dev)));
		crowd.flat = open_log(fth_dev_inner(dev), LOG);
		crowd.base = fth_flat_base(crowd.flat);
		check_crowd(&crowd);
		assert_ok(fth_flat_close(crowd.flat));
		fth_dev_close(dev);
	}
	assert_true(errors > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_call_says_what_survives),
		cmocka_unit_test(errors_are_clear),
		cmocka_unit_test(what_was_persisted_outlives_a_discard),
		cmocka_unit_test(a_sync_outlives_older_records),
		cmocka_unit_test(pages_with_records_are_not_read_stale),
		cmocka_unit_test(long_ranges_are_persisted_in_pieces),
		cmocka_unit_test(logs_of_others_are_left_alone),
		cmocka_unit_test(the_window_is_the_ssd_cache),
		cmocka_unit_test(threads_share_writes),
		cmocka_unit_test(a_failing_device_breaks_no_promise),
	};

	return FLAT_RUN(tests);
}
