/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions and fork(): a child has none of its parent's, may open its own, and disturbs nobody. */
#include "flat/flat_internal.h"
#include "flat/test/flat_main_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/flat.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE   4096u
#define SIZE   (2u << 20)
#define PAGES  (SIZE / PAGE)
#define BUDGET (64u * PAGE)

/* ---- signals: cmocka installs handlers for each test, after the library's ---- */

static __thread sigjmp_buf jump;

static void on_any(int sig, siginfo_t *info, void *context)
{
	if (!fth_flat_fault(sig, info, context))
		siglongjmp(jump, 1);
}

static void take_signals(void)
{
	struct sigaction action = {.sa_sigaction = on_any, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

/* ---- children ---- */

/* How a child is made. Handlers of pthread_atfork() run in the first case only. */
enum way { BY_FORK, BY_CLONE, WAYS };

static pid_t make_child(enum way way)
{
	pid_t child = way == BY_FORK ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	assert_true(child >= 0);
	if (child == 0 && sigsetjmp(jump, 1) != 0)
		_exit(99);
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* one that waits for ever ends with the test */
	return child;
}

static int status_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}

static struct fth_flat *open_region(struct fth_dev *dev, enum fth_flat_policy policy)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	options.policy = policy;
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	take_signals();
	return flat;
}

/*
 * In a child: a region of its own keeps what is stored there, in memory and on the device. Returns
 * 0, or a number that says what is wrong.
 */
static int use_own_region(const char *uri, unsigned accesses)
{
	static uint8_t shadow[SIZE], bytes[PAGE];
	struct fth_rng rng = {accesses};
	struct fth_flat *flat;
	struct fth_dev *dev;
	volatile uint8_t *at;

	if (fth_dev_open(uri, &dev) < 0 || fth_flat_open_dev(dev, BUDGET, NULL, &flat) < 0)
		return 1;
	at = fth_flat_base(flat);
	for (unsigned i = 0; i < accesses; i++) {
		uint64_t offset = fth_rng_below(&rng, SIZE);

		if (at[offset] != shadow[offset])
			return 2;
		at[offset] = shadow[offset] = (uint8_t)fth_rng_next(&rng);
	}
	if (fth_flat_close(flat) < 0)
		return 3;
	for (unsigned page = 0; page < PAGES; page++) {
		if (fth_dev_read(dev, bytes, PAGE, (uint64_t)page * PAGE, FTH_DEV_TIMEOUT) < 0)
			return 4;
		if (memcmp(bytes, shadow + (size_t)page * PAGE, PAGE) != 0)
			return 5;
	}
	fth_dev_close(dev);
	return 0;
}

static void a_child_with_a_region_of_its_own(void **unused)
{
	static uint8_t byte[PAGE];

	(void)unused;
	for (int way = 0; way < WAYS; way++)
		for (int policy = FTH_FLAT_COUNTERS; policy < FTH_FLAT_POLICY_COUNT; policy++) {
			volatile uint8_t *at;
			struct fth_flat *flat;
			struct fth_dev *dev;
			pid_t child;

			assert_ok(fth_dev_open("mem:2M", &dev));
			flat = open_region(dev, (enum fth_flat_policy)policy);
			at = fth_flat_base(flat);
			for (unsigned page = 0; page < PAGES; page += 3)
				at[page * PAGE] = 1;
			child = make_child((enum way)way);
			if (child == 0)
				_exit(use_own_region("mem:2M", 3000));
			assert_int_equal(status_of(child), 0);
			for (unsigned page = 0; page < PAGES; page++) {
				assert_int_equal(at[page * PAGE], page % 3 == 0);
				assert_int_equal(at[page * PAGE + 1], 0);
				at[page * PAGE + 1] = (uint8_t)page;
			}
			assert_ok(fth_flat_close(flat));
			for (unsigned page = 0; page < PAGES; page++) {
				assert_ok(fth_dev_read(dev, byte, PAGE, (uint64_t)page * PAGE,
						       FTH_DEV_TIMEOUT));
				assert_int_equal(byte[0], page % 3 == 0);
				assert_int_equal(byte[1], (uint8_t)page);
			}
			fth_dev_close(dev);
		}
}

/* ---- a parent with threads ---- */

static bool stop_threads; /* atomic */

/* Each counts in bytes of its own in all pages, so pages move all the time. */
struct counter {
	pthread_t thread;
	volatile uint8_t *at;
	uint8_t counts[PAGES];
};

static void *count_in_pages(void *raw)
{
	struct counter *counter = raw;
	struct fth_rng rng = {(uintptr_t)counter};

	while (!__atomic_load_n(&stop_threads, __ATOMIC_RELAXED)) {
		uint64_t page = fth_rng_below(&rng, PAGES);

		counter->at[page * PAGE]++;
		counter->counts[page]++;
	}
	return NULL;
}

/* A new file of 2 MiB. */
static void name_file(char uri[64], unsigned number)
{
	snprintf(uri, 64, "file:/dev/shm/fathom_fork_%d_%u?create=on&size=2M", (int)getpid(),
		 number);
}

static void remove_file(unsigned number)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/shm/fathom_fork_%d_%u", (int)getpid(), number);
	unlink(path);
}

/* Takes all locks of the process that are needed to open and close a region. */
static void *open_and_close(void *number)
{
	char uri[64];

	name_file(uri, *(unsigned *)number);
	while (!__atomic_load_n(&stop_threads, __ATOMIC_RELAXED)) {
		struct fth_flat *flat;

		assert_ok(fth_flat_open(uri, BUDGET, NULL, &flat));
		*(volatile uint8_t *)fth_flat_base(flat) = 1;
		for (int i = 0; i < FTH_FLAT_STAT_COUNT; i++)
			(void)fth_flat_stat(flat, (enum fth_flat_stat)i);
		assert_ok(fth_flat_close(flat));
	}
	remove_file(*(unsigned *)number);
	return NULL;
}

static int use_file(void)
{
	char uri[64];
	int rc;

	name_file(uri, 0);
	rc = use_own_region(uri, 100);
	remove_file(0);
	return rc;
}

/*
 * A child that waits for ever for a lock of a thread that it does not have is ended by the time
 * limit of the test.
 */
static void children_of_busy_threads_do_not_wait(void **unused)
{
	static struct counter counters[2];
	struct fth_flat *flat;
	struct fth_dev *dev;
	volatile uint8_t *at;
	pthread_t openers[2];
	unsigned numbers[2] = {1, 2};

	(void)unused;
	assert_ok(fth_dev_open("mem:2M", &dev));
	flat = open_region(dev, FTH_FLAT_COUNTERS);
	at = fth_flat_base(flat);
	for (unsigned i = 0; i < 2; i++) {
		counters[i].at = at + i;
		assert_int_equal(
			pthread_create(&counters[i].thread, NULL, count_in_pages, &counters[i]), 0);
		assert_int_equal(pthread_create(&openers[i], NULL, open_and_close, &numbers[i]), 0);
	}
	for (unsigned i = 0; i < 100; i++) {
		pid_t child = make_child(BY_FORK);

		if (child == 0)
			_exit(use_file());
		assert_int_equal(status_of(child), 0);
	}
	__atomic_store_n(&stop_threads, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(openers[i], NULL);
		pthread_join(counters[i].thread, NULL);
		for (unsigned page = 0; page < PAGES; page++)
			assert_int_equal(at[page * PAGE + i], counters[i].counts[page]);
	}
	assert_ok(fth_flat_close(flat));
	fth_dev_close(dev);
}

/* ---- the parent's region in a child ---- */

/* Does this access end the process with a message? In a child. */
static bool is_explained(volatile uint8_t *at)
{
	char text[300] = "";
	int ends[2], saved = dup(2);

	if (pipe(ends) < 0 || dup2(ends[1], 2) < 0)
		return false;
	if (sigsetjmp(jump, 1) == 0) {
		*at = 2;
		return false;
	}
	dup2(saved, 2);
	close(ends[1]);
	return read(ends[0], text, sizeof(text) - 1) > 0 && strstr(text, "child of fork()");
}

/*
 * Its addresses are nobody else's: not even those of a region of the child, or of a file that it
 * maps.
 */
static int use_parents_addresses(uint8_t *at)
{
	struct fth_flat *flat;
	uint8_t *own;

	if (!is_explained(at))
		return 1;
	if (fth_flat_open("mem:2M", BUDGET, NULL, &flat) < 0)
		return 2;
	take_signals();
	own = fth_flat_base(flat);
	if (own < at + SIZE && at < own + SIZE)
		return 3;
	if (!is_explained(at) || !is_explained(at + SIZE - 1))
		return 4;
	own[0] = 1;
	return fth_flat_close(flat) < 0 ? 5 : 0;
}

static void a_child_is_stopped_with_a_message(void **unused)
{
	(void)unused;
	for (int way = 0; way < WAYS; way++) {
		struct fth_flat *flat;
		struct fth_dev *dev;
		volatile uint8_t *bytes;
		pid_t child;

		assert_ok(fth_dev_open("mem:2M", &dev));
		flat = open_region(dev, FTH_FLAT_COUNTERS);
		bytes = fth_flat_base(flat);
		bytes[0] = 1;
		child = make_child((enum way)way);
		if (child == 0)
			_exit(use_parents_addresses(fth_flat_base(flat)));
		assert_int_equal(status_of(child), 0);
		assert_int_equal(bytes[0], 1);
		child = make_child((enum way)way);
		if (child == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		assert_int_equal(status_of(child), 0);
		assert_ok(fth_flat_close(flat));
		fth_dev_close(dev);
	}
}

static int call_on_parents_region(struct fth_flat *flat)
{
	uint8_t *at = fth_flat_base(flat), byte = 3;
	void *list[] = {at};

	if (fth_flat_sync(flat, FTH_DEV_TIMEOUT) != -EPERM ||
	    !strstr(fth_error_text(-EPERM), "child of fork()"))
		return 1;
	if (fth_flat_load(flat, at, &byte, 1) != -EPERM ||
	    fth_flat_store(flat, at, &byte, 1) != -EPERM ||
	    fth_flat_gather(flat, (const void *const *)list, 1, 1, &byte) != -EPERM ||
	    fth_flat_scatter(flat, list, 1, 1, &byte) != -EPERM)
		return 2;
	if (fth_flat_advise(flat, at, PAGE, FTH_FLAT_COLD) != -EPERM ||
	    fth_flat_hold(flat, at, PAGE, true) != -EPERM ||
	    fth_flat_set_budget(flat, 2 * BUDGET) != -EPERM)
		return 3;
	if (fth_flat_persistent(flat, at, PAGE) != -EPERM || fth_flat_persist(at, 1) != -EPERM)
		return 4;
	fth_flat_release(flat, at, PAGE);
	(void)fth_flat_stat(flat, FTH_FLAT_STAT_LOG_BYTES);
	if (fth_flat_close(flat) != -EPERM)
		return 5;
	fth_flat_discard(flat);
	return 0;
}

/* The second time with a region of its own, so that it is not merely a process without any. */
static int call_twice(struct fth_flat *flat)
{
	struct fth_flat *own;
	int rc = call_on_parents_region(flat);

	if (rc == 0)
		rc = fth_flat_open("mem:2M", BUDGET, NULL, &own) < 0 ? 10 : 0;
	if (rc == 0)
		rc = call_on_parents_region(flat);
	return rc == 0 && fth_flat_close(own) < 0 ? 11 : rc;
}

static void calls_on_the_parents_region_are_refused(void **unused)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	static uint8_t page[PAGE];
	struct fth_flat *flat;
	struct fth_dev *dev;
	uint8_t *at;
	pid_t child;

	(void)unused;
	options.log = 64u << 10;
	assert_ok(fth_dev_open("mem:4M", &dev));
	assert_ok(fth_flat_open_dev(dev, BUDGET, &options, &flat));
	take_signals();
	at = fth_flat_base(flat);
	assert_true(fth_flat_persistent(flat, at, PAGE) >= 0);
	at[0] = 1;
	child = make_child(BY_FORK);
	if (child == 0)
		_exit(call_twice(flat));
	assert_int_equal(status_of(child), 0);
	at[1] = 2;
	assert_true(fth_flat_persist(at, 2) >= 0);
	assert_ok(fth_flat_close(flat));
	assert_ok(fth_dev_read(dev, page, PAGE, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(page[0], 1);
	assert_int_equal(page[1], 2);
	fth_dev_close(dev);
}

/* More regions than the list of addresses has room for, in a family. */
static void descendants_with_many_regions(void **unused)
{
	enum { MANY = 40 };
	struct fth_flat *flats[MANY];
	pid_t child;

	(void)unused;
	for (unsigned i = 0; i < MANY; i++)
		assert_ok(fth_flat_open("mem:512K", BUDGET, NULL, &flats[i]));
	take_signals();
	child = make_child(BY_FORK);
	if (child == 0) {
		struct fth_flat *own[MANY];
		int rc = 0;

		for (unsigned i = 0; i < MANY && rc == 0; i++)
			rc = fth_flat_open("mem:512K", BUDGET, NULL, &own[i]);
		for (unsigned i = 0; i < MANY && rc == 0; i++)
			((volatile uint8_t *)fth_flat_base(own[i]))[i] = 1;
		child = rc == 0 ? make_child(BY_FORK) : -1;
		if (child == 0)
			_exit(use_own_region("mem:2M", 3000));
		_exit(rc < 0 ? 1 : status_of(child));
	}
	assert_int_equal(status_of(child), 0);
	for (unsigned i = 0; i < MANY; i++)
		assert_ok(fth_flat_close(flats[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_with_a_region_of_its_own),
		cmocka_unit_test(children_of_busy_threads_do_not_wait),
		cmocka_unit_test(a_child_is_stopped_with_a_message),
		cmocka_unit_test(calls_on_the_parents_region_are_refused),
		cmocka_unit_test(descendants_with_many_regions),
	};

#ifdef __SANITIZE_ADDRESS__
	printf("skipped: the locks of AddressSanitizer are not free in a child of fork()\n");
	return 77;
#endif
	return FLAT_RUN(tests);
}
