/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocking calls: deadlines, calls at the same time, requests that do not end. Most of it on a
 * device that answers when the test lets it (dev_gate.h), so that no test depends on its speed.
 */
#include "fth_test.h"

#include "dev/blocking.h"
#include "dev/testkit/dev_gate.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SIZE	  (8u << 20)
#define BLOCK	  512u
#define SOON_NS	  10000000u
#define SLOTS_MAX 32u
#define IDLE_MAX  4u
#define CHUNK	  (1u << 20)

/* ---- memory that runs out ---- */

static uint32_t countdown; /* 0: none fails */

static bool fails(void)
{
	uint32_t now = fth_load_relaxed_dev32(&countdown);

	while (now > 0)
		if (fth_cas_acqrel_dev32(&countdown, &now, now - 1))
			return now == 1;
	return false;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
	return fails() ? ENOMEM : __real_posix_memalign(out, align, size);
}

/* ---- calls of other threads ---- */

struct caller {
	struct fth_dev *dev;
	enum fth_dev_op op;
	uint64_t offset;
	uint64_t deadline;
	char buf[BLOCK];
	int rc;
	pthread_t thread;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;

	if (c->op == FTH_DEV_READ)
		c->rc = fth_dev_read(c->dev, c->buf, BLOCK, c->offset, c->deadline);
	else if (c->op == FTH_DEV_WRITE)
		c->rc = fth_dev_write(c->dev, c->buf, BLOCK, c->offset, c->deadline);
	else
		c->rc = fth_dev_flush(c->dev, c->deadline);
	return NULL;
}

static void caller_start(struct caller *c, struct fth_dev *dev, enum fth_dev_op op, uint64_t offset)
{
	*c = (struct caller){.dev = dev, .op = op, .offset = offset, .deadline = FTH_NEVER};
	memset(c->buf, 'a' + (int)(offset / BLOCK % 26), BLOCK);
	assert_int_equal(pthread_create(&c->thread, NULL, caller_main, c), 0);
}

static int caller_join(struct caller *c)
{
	pthread_join(c->thread, NULL);
	return c->rc;
}

static struct fth_dev *open_gate(void)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open("gate:8M", &dev));
	return dev;
}

static uint64_t soon(void)
{
	return fth_deadline_ns(SOON_NS);
}

static void nap(void)
{
	struct timespec ts = {.tv_nsec = 20000000};

	nanosleep(&ts, NULL);
}

static unsigned submitted(struct fth_dev *dev)
{
	struct fth_gate_counts counts;

	fth_gate_counts(dev, &counts);
	return counts.submitted;
}

/*
 * A call that times out while the gate holds its request. On a busy machine the deadline can pass
 * before there is a request: then once more.
 */
#define assert_held(dev, call)                              \
	do {                                                \
		unsigned before_ = submitted(dev);          \
                                                            \
		do                                          \
			assert_int_equal(call, -ETIMEDOUT); \
		while (submitted(dev) == before_);          \
	} while (0)

/* ---- at the same time ---- */

static void calls_at_the_same_time_do_not_wait_for_each_other(void **state)
{
	struct fth_dev *dev = open_gate();
	struct caller read, write, flush;

	(void)state;
	fth_gate_set(dev, false);
	caller_start(&read, dev, FTH_DEV_READ, 0);
	caller_start(&write, dev, FTH_DEV_WRITE, BLOCK);
	caller_start(&flush, dev, FTH_DEV_FLUSH, 0);
	assert_true(fth_gate_wait(dev, 3));
	fth_gate_set(dev, true);
	assert_ok(caller_join(&read));
	assert_ok(caller_join(&write));
	assert_ok(caller_join(&flush));
	fth_dev_close(dev);
}

static void more_calls_than_slots_take_turns(void **state)
{
	static struct caller callers[2 * SLOTS_MAX];
	struct fth_dev *dev = open_gate();
	struct fth_gate_counts counts;

	(void)state;
	fth_gate_set(dev, false);
	for (unsigned i = 0; i < 2 * SLOTS_MAX; i++)
		caller_start(&callers[i], dev, FTH_DEV_WRITE, i * BLOCK);
	assert_true(fth_gate_wait(dev, SLOTS_MAX));
	fth_gate_set(dev, true);
	for (unsigned i = 0; i < 2 * SLOTS_MAX; i++)
		assert_ok(caller_join(&callers[i]));
	fth_gate_counts(dev, &counts);
	assert_int_equal(counts.submitted, 2 * SLOTS_MAX);
	assert_int_equal(counts.channels_max, SLOTS_MAX);
	assert_int_equal(counts.channels, IDLE_MAX);
	fth_dev_close(dev);
}

static void one_caller_uses_one_channel(void **state)
{
	struct fth_dev *dev = open_gate();
	struct fth_gate_counts counts;
	char buf[BLOCK] = {0};

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		assert_ok(fth_dev_write(dev, buf, BLOCK, i * BLOCK, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_flush(dev, FTH_NEVER));
	}
	fth_gate_counts(dev, &counts);
	assert_int_equal(counts.channels_max, 1);
	fth_dev_close(dev);
}

/* ---- out of time ---- */

static void a_call_ends_at_its_deadline(void **state)
{
	struct fth_dev *dev = open_gate();
	char buf[BLOCK], want[BLOCK];

	(void)state;
	memset(buf, 0x5a, sizeof(buf));
	memset(want, 0x5a, sizeof(want));
	fth_gate_set(dev, false);
	assert_held(dev, fth_dev_read(dev, buf, BLOCK, 0, soon()));
	assert_non_null(strstr(fth_error_text(-ETIMEDOUT), "gate:8M: read of 512 bytes at 0"));
	assert_held(dev, fth_dev_write(dev, buf, BLOCK, 4 * BLOCK, soon()));
	assert_held(dev, fth_dev_flush(dev, soon()));
	assert_held(dev, fth_dev_discard(dev, BLOCK, 5 * BLOCK, soon()));
	assert_held(dev, fth_dev_zero(dev, BLOCK, 6 * BLOCK, soon()));
	assert_int_equal(submitted(dev), 5);
	/* The late answers go nowhere near the caller's memory. */
	fth_gate_set(dev, true);
	assert_ok(fth_blocking_settle(dev, fth_deadline_ns(FTH_DEV_TIMEOUT_NS)));
	assert_memory_equal(buf, want, BLOCK);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_READS), 1);
	assert_ok(fth_dev_read(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT));
	assert_memory_not_equal(buf, want, BLOCK);
	fth_dev_close(dev);
}

static void a_write_that_is_late_has_the_data_of_its_call(void **state)
{
	struct fth_dev *dev = open_gate();
	char buf[BLOCK], got[BLOCK];

	(void)state;
	memset(buf, 1, sizeof(buf));
	fth_gate_set(dev, false);
	assert_held(dev, fth_dev_write(dev, buf, BLOCK, 0, soon()));
	memset(buf, 2, sizeof(buf));
	fth_gate_set(dev, true);
	assert_ok(fth_dev_read(dev, got, BLOCK, 0, FTH_DEV_TIMEOUT));
	memset(buf, 1, sizeof(buf));
	assert_memory_equal(got, buf, BLOCK);
	fth_dev_close(dev);
}

static void after_its_deadline_a_call_starts_nothing(void **state)
{
	struct fth_dev *dev = open_gate();
	char buf[BLOCK] = {0};

	(void)state;
	assert_int_equal(fth_dev_write(dev, buf, BLOCK, 0, 1), -ETIMEDOUT);
	assert_int_equal(fth_dev_flush(dev, fth_now_ns()), -ETIMEDOUT);
	assert_int_equal(submitted(dev), 0);
	fth_dev_close(dev);
}

/* A write that timed out must not land on top of a later one. */
static void a_late_write_does_not_overtake_a_newer_one(void **state)
{
	struct fth_dev *dev = open_gate();
	char old[3 * BLOCK], new[3 * BLOCK], got[3 * BLOCK];

	(void)state;
	memset(old, 1, sizeof(old));
	memset(new, 2, sizeof(new));
	fth_gate_set(dev, false);
	assert_held(dev, fth_dev_write(dev, old, 2 * BLOCK, BLOCK, soon()));
	/* Touching it at either end, reading it: not submitted. */
	assert_int_equal(fth_dev_write(dev, new, 2 * BLOCK, 0, soon()), -ETIMEDOUT);
	assert_int_equal(fth_dev_zero(dev, BLOCK, 2 * BLOCK, soon()), -ETIMEDOUT);
	assert_int_equal(fth_dev_read(dev, got, BLOCK, BLOCK, soon()), -ETIMEDOUT);
	assert_int_equal(submitted(dev), 1);
	/* Beside it at either end: submitted. */
	assert_held(dev, fth_dev_read(dev, got, BLOCK, 0, soon()));
	assert_held(dev, fth_dev_read(dev, got, BLOCK, 3 * BLOCK, soon()));
	assert_held(dev, fth_dev_flush(dev, soon()));
	assert_int_equal(submitted(dev), 4);
	/* A read that is parked keeps nobody from writing. */
	assert_held(dev, fth_dev_write(dev, new, BLOCK, 3 * BLOCK, soon()));
	assert_int_equal(submitted(dev), 5);
	fth_gate_set(dev, true);
	assert_ok(fth_dev_write(dev, new, sizeof(new), 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, got, sizeof(got), 0, FTH_DEV_TIMEOUT));
	assert_memory_equal(got, new, sizeof(new));
	fth_dev_close(dev);
}

static void parked_slots_are_bounded_and_come_back(void **state)
{
	struct fth_dev *dev = open_gate();
	struct fth_gate_counts counts;
	char buf[BLOCK] = {0};

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		fth_gate_set(dev, false);
		for (unsigned i = 0; i < SLOTS_MAX + 3; i++)
			assert_int_equal(
				fth_dev_write(dev, buf, BLOCK, i * BLOCK, fth_deadline_ns(2000000)),
				-ETIMEDOUT);
		fth_gate_counts(dev, &counts);
		assert_in_range(counts.channels_max, 1, SLOTS_MAX);
		assert_in_range(counts.in_flight, 1, SLOTS_MAX);
		fth_gate_set(dev, true);
		for (unsigned i = 0; i < SLOTS_MAX + 3; i++)
			assert_ok(fth_dev_write(dev, buf, BLOCK, i * BLOCK, FTH_DEV_TIMEOUT));
		fth_gate_counts(dev, &counts);
		assert_int_equal(counts.in_flight, 0);
		assert_in_range(counts.channels, 1, IDLE_MAX);
	}
	fth_dev_close(dev);
}

/* A call that waits for a slot takes one that was parked while it waited. */
static void a_waiting_call_takes_a_parked_slot_that_ended(void **state)
{
	struct fth_dev *dev = open_gate();
	struct caller first, second;

	(void)state;
	fth_gate_limit(dev, 1);
	fth_gate_set(dev, false);
	caller_start(&first, dev, FTH_DEV_READ, 0);
	assert_true(fth_gate_wait(dev, 1));
	caller_start(&second, dev, FTH_DEV_READ, BLOCK);
	fth_gate_set(dev, true);
	assert_ok(caller_join(&first));
	assert_ok(caller_join(&second));

	fth_gate_set(dev, false);
	assert_held(dev, fth_dev_read(dev, first.buf, BLOCK, 0, soon()));
	caller_start(&second, dev, FTH_DEV_READ, BLOCK);
	nap(); /* so that it waits, most likely */
	fth_gate_set(dev, true);
	assert_ok(caller_join(&second));
	fth_dev_close(dev);
}

/* As assert_held(), of a device that is no gate. */
static void read_until_held(struct fth_dev *dev, char *buf)
{
	do
		assert_int_equal(fth_dev_read(dev, buf, BLOCK, 0, soon()), -ETIMEDOUT);
	while (fth_blocking_settle(dev, fth_now_ns()) == 0);
}

static void a_slow_device_is_closed_after_its_last_answer(void **state)
{
	char buf[BLOCK], want[BLOCK];
	struct fth_dev *dev;

	(void)state;
	memset(buf, 0x5a, sizeof(buf));
	memset(want, 0x5a, sizeof(want));
	assert_ok(fth_dev_open("delay(mem:1M)?read_us=400000", &dev));
	read_until_held(dev, buf);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT)); /* has its own latency */
	fth_dev_close(dev);
	assert_memory_equal(buf, want, BLOCK);
}

static void a_request_that_the_device_holds_times_out(void **state)
{
	struct fth_dev *dev;
	char buf[BLOCK];

	(void)state;
	assert_ok(fth_dev_open("fault(mem:1M)?kind=read&nth=1&mode=timeout&hold_ms=400", &dev));
	read_until_held(dev, buf);
	assert_non_null(strstr(fth_error_text(-ETIMEDOUT), "deadline"));
	/* Beside the one that is held. */
	assert_ok(fth_dev_read(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_ok(fth_blocking_settle(dev, fth_deadline_ns(FTH_DEV_TIMEOUT_NS)));
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 1);
	fth_dev_close(dev);
}

static void *open_later(void *dev)
{
	nap();
	fth_gate_set(dev, true);
	return NULL;
}

static void close_waits_for_what_is_in_flight(void **state)
{
	struct fth_dev *dev = open_gate();
	char buf[BLOCK] = {0};
	pthread_t thread;

	(void)state;
	fth_gate_set(dev, false);
	for (unsigned i = 0; i < 10; i++)
		assert_held(dev, fth_dev_write(dev, buf, BLOCK, i * BLOCK, soon()));
	assert_int_equal(fth_blocking_settle(dev, soon()), -ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, open_later, dev), 0);
	assert_ok(fth_blocking_settle(dev, fth_deadline_ns(FTH_DEV_TIMEOUT_NS)));
	pthread_join(thread, NULL);
	fth_dev_close(dev);
}

/* ---- devices short of something ---- */

static void a_device_with_one_channel_serves_all_callers(void **state)
{
	static struct caller callers[8];
	struct fth_dev *dev = open_gate();
	struct fth_gate_counts counts;

	(void)state;
	fth_gate_limit(dev, 1);
	for (unsigned i = 0; i < 8; i++)
		caller_start(&callers[i], dev, FTH_DEV_WRITE, i * BLOCK);
	for (unsigned i = 0; i < 8; i++)
		assert_ok(caller_join(&callers[i]));
	fth_gate_counts(dev, &counts);
	assert_int_equal(counts.submitted, 8);
	fth_dev_close(dev);
}

static void a_device_without_channels_says_so(void **state)
{
	static struct caller callers[8];
	struct fth_dev *dev = open_gate();

	(void)state;
	fth_gate_limit(dev, 0);
	assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -EMFILE);
	for (unsigned i = 0; i < 8; i++)
		caller_start(&callers[i], dev, FTH_DEV_WRITE, i * BLOCK);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(caller_join(&callers[i]), -EMFILE);
	fth_gate_limit(dev, 1);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

static void a_full_device_is_tried_again(void **state)
{
	struct fth_dev *dev = open_gate();
	char buf[BLOCK] = {0};

	(void)state;
	fth_gate_refuse(dev, 5);
	assert_ok(fth_dev_write(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT));
	fth_gate_refuse(dev, 1000000000);
	assert_int_equal(fth_dev_write(dev, buf, BLOCK, 0, soon()), -ETIMEDOUT);
	assert_int_equal(submitted(dev), 1);
	fth_gate_refuse(dev, 0);
	assert_ok(fth_dev_write(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

static int use_once(void)
{
	struct fth_dev *dev;
	char buf[BLOCK];
	int rc;

	memset(buf, 7, sizeof(buf));
	rc = fth_dev_open("gate:8M", &dev);
	if (rc < 0)
		return rc;
	rc = fth_dev_write(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_dev_read(dev, buf, BLOCK, 0, FTH_DEV_TIMEOUT);
	if (rc == 0)
		assert_int_equal(buf[BLOCK - 1], 7);
	fth_dev_close(dev);
	return rc;
}

static void an_allocation_that_fails_is_an_error_and_no_leak(void **state)
{
	uint32_t n = 0;
	int rc;

	(void)state;
	do {
		fth_store_release_dev32(&countdown, ++n);
		rc = use_once();
		assert_true(rc == 0 || rc == -ENOMEM);
	} while (fth_load_acquire_dev32(&countdown) == 0 && n < 100);
	fth_store_release_dev32(&countdown, 0);
	assert_ok(rc);
	assert_in_range(n, 6, 99);
}

/* ---- long transfers ---- */

static void long_transfers_go_in_chunks(void **state)
{
	static char from[SIZE + 1], to[SIZE + 1];
	const uint64_t length = 3 * CHUNK + 5 * BLOCK;
	struct fth_dev *dev = open_gate();
	struct fth_gate_counts counts;

	(void)state;
	for (uint64_t i = 0; i < length; i++)
		from[i + 1] = (char)(i * 7 + i / 4096);
	assert_ok(fth_dev_write(dev, from + 1, length, BLOCK, FTH_DEV_TIMEOUT));
	fth_gate_counts(dev, &counts);
	assert_int_equal(counts.submitted, 4);
	assert_int_equal(counts.longest, CHUNK);
	assert_ok(fth_dev_read(dev, to + 1, length, BLOCK, FTH_DEV_TIMEOUT));
	assert_memory_equal(from, to, length + 1);
	assert_int_equal(to[length + 1], 0);
	/* A zero of any length is one request. */
	assert_ok(fth_dev_zero(dev, SIZE, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(submitted(dev), 9);
	fth_dev_close(dev);
}

static void a_long_write_stops_at_its_deadline(void **state)
{
	static char buf[3 * CHUNK];
	struct fth_dev *dev = open_gate();

	(void)state;
	fth_gate_set(dev, false);
	assert_held(dev, fth_dev_write(dev, buf, sizeof(buf), 0, soon()));
	assert_int_equal(submitted(dev), 1);
	/* What is parked is the first chunk: the others are free. */
	assert_held(dev, fth_dev_write(dev, buf, BLOCK, CHUNK, soon()));
	assert_int_equal(submitted(dev), 2);
	assert_int_equal(fth_dev_write(dev, buf, BLOCK, CHUNK - BLOCK, soon()), -ETIMEDOUT);
	assert_int_equal(submitted(dev), 2);
	fth_gate_set(dev, true);
	fth_dev_close(dev);
}

static void bad_ranges_are_refused(void **state)
{
	struct fth_dev *dev = open_gate();
	char buf[BLOCK];

	(void)state;
	assert_int_equal(fth_dev_read(dev, buf, 0, 0, FTH_DEV_TIMEOUT), -EINVAL);
	assert_int_equal(fth_dev_read(dev, buf, BLOCK, 1, FTH_DEV_TIMEOUT), -EINVAL);
	assert_int_equal(fth_dev_read(dev, buf, BLOCK, SIZE, FTH_DEV_TIMEOUT), -ERANGE);
	assert_int_equal(fth_dev_zero(dev, BLOCK, SIZE, FTH_DEV_TIMEOUT), -ERANGE);
	assert_int_equal(fth_dev_discard(dev, 1, 0, FTH_DEV_TIMEOUT), -EINVAL);
	assert_int_equal(submitted(dev), 0);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_at_the_same_time_do_not_wait_for_each_other),
		cmocka_unit_test(more_calls_than_slots_take_turns),
		cmocka_unit_test(one_caller_uses_one_channel),
		cmocka_unit_test(a_call_ends_at_its_deadline),
		cmocka_unit_test(a_write_that_is_late_has_the_data_of_its_call),
		cmocka_unit_test(after_its_deadline_a_call_starts_nothing),
		cmocka_unit_test(a_late_write_does_not_overtake_a_newer_one),
		cmocka_unit_test(parked_slots_are_bounded_and_come_back),
		cmocka_unit_test(a_waiting_call_takes_a_parked_slot_that_ended),
		cmocka_unit_test(a_slow_device_is_closed_after_its_last_answer),
		cmocka_unit_test(a_request_that_the_device_holds_times_out),
		cmocka_unit_test(close_waits_for_what_is_in_flight),
		cmocka_unit_test(a_device_with_one_channel_serves_all_callers),
		cmocka_unit_test(a_device_without_channels_says_so),
		cmocka_unit_test(a_full_device_is_tried_again),
		cmocka_unit_test(an_allocation_that_fails_is_an_error_and_no_leak),
		cmocka_unit_test(long_transfers_go_in_chunks),
		cmocka_unit_test(a_long_write_stops_at_its_deadline),
		cmocka_unit_test(bad_ranges_are_refused),
	};
	if (fth_dev_scheme_register(&fth_dev_scheme_gate) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
