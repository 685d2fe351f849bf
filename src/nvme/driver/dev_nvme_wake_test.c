/* SPDX-License-Identifier: BSD-2-Clause */
/* The descriptor of a channel: it wakes for every reason there is, and not without one for long. */
#include "fth_test.h"

#include "fathom/dev.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LONG_MS 20000 /* a test that waits that long has found its bug */

static struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static struct fth_dev_chan *open_chan(struct fth_dev *dev, unsigned depth)
{
	struct fth_dev_chan *chan;

	assert_ok(fth_dev_chan_open(dev, depth, &chan));
	return chan;
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, timeout_ms);

	assert_true(n >= 0);
	return n == 1;
}

/*
 * Nothing is left to reap. The descriptor may be readable all the same, as when an interrupt comes
 * behind the completion that it is for, which was found by a look: but not for long.
 */
static void becomes_quiet(struct fth_dev_chan *chan, int fd)
{
	struct fth_dev_req *done;

	for (unsigned i = 0; i < 100; i++) {
		if (!readable(fd, 0))
			return;
		assert_int_equal(fth_dev_reap(chan, &done, 1, 0, 0), 0);
	}
	fail_msg("the descriptor stays readable");
}

/* A descriptor that has settled: the first look may be without need. */
static int settled_fd(struct fth_dev_chan *chan)
{
	int fd = fth_dev_chan_fd(chan);

	assert_true(fd >= 3);
	becomes_quiet(chan, fd);
	return fd;
}

static void submit_one(struct fth_dev_chan *chan, struct fth_dev_req *req, enum fth_dev_op op,
		       void *buf, uint64_t length, uint64_t offset)
{
	fth_dev_req_init(req, op, buf, length, offset);
	assert_int_equal(fth_dev_submit(chan, &req, 1), 1);
}

/* Sleep on the descriptor, look without waiting, until n requests have come back. */
static void sleep_until_done(struct fth_dev_chan *chan, int fd, unsigned n)
{
	struct fth_dev_req *done[64];

	while (n > 0) {
		int rc;

		assert_true(readable(fd, LONG_MS));
		rc = fth_dev_reap(chan, done, 64, 0, 0);
		assert_ok(rc);
		n -= (unsigned)rc;
	}
	becomes_quiet(chan, fd);
}

static void completions_wake(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:1M)?queues=2");
	struct fth_dev_chan *chan = open_chan(dev, 4);
	struct fth_dev_req req;
	char buf[4096];
	int fd;

	(void)state;
	/* Also those of a channel that was used before anybody asked. */
	submit_one(chan, &req, FTH_DEV_READ, buf, sizeof(buf), 0);
	fd = fth_dev_chan_fd(chan);
	assert_int_equal(fth_dev_chan_fd(chan), fd);
	sleep_until_done(chan, fd, 1);
	for (unsigned i = 0; i < 200; i++) {
		submit_one(chan, &req, i % 3 ? FTH_DEV_WRITE : FTH_DEV_READ, buf, sizeof(buf), 0);
		sleep_until_done(chan, fd, 1);
	}
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void what_was_not_handed_back_keeps_it_readable(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:1M)?queues=1");
	struct fth_dev_chan *chan = open_chan(dev, 8);
	struct fth_dev_req reqs[8], *done[2];
	static char bufs[8][512];
	int fd = settled_fd(chan);

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		submit_one(chan, &reqs[i], FTH_DEV_READ, bufs[i], 512, i * 512);
	for (unsigned i = 0; i < 8; i++) {
		assert_true(readable(fd, LONG_MS));
		assert_int_equal(fth_dev_reap(chan, done, 1, 1, fth_deadline_ns(20000000000u)), 1);
	}
	becomes_quiet(chan, fd);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* A request of many commands, with one id: each step needs a wake-up of its own. */
static void long_requests_advance_by_wake_ups(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:4M)?queues=1&depth=2&mdts=1");
	struct fth_dev_chan *chan = open_chan(dev, 2);
	struct fth_dev_req req;
	char *buf = malloc(1u << 20);
	int fd = settled_fd(chan);

	(void)state;
	memset(buf, 7, 1u << 20);
	submit_one(chan, &req, FTH_DEV_WRITE, buf, 1u << 20, 0);
	sleep_until_done(chan, fd, 1);
	assert_int_equal(req.result, 0);
	memset(buf, 0, 1u << 20);
	submit_one(chan, &req, FTH_DEV_READ, buf, 1u << 20, 0);
	sleep_until_done(chan, fd, 1);
	assert_int_equal(buf[(1u << 20) - 1], 7);
	free(buf);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* Another channel reaps our completion, and the interrupt with it. */
static void deliveries_by_other_channels_wake(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:1M)?queues=1");
	struct fth_dev_chan *first = open_chan(dev, 4), *second = open_chan(dev, 4);
	struct fth_dev_req a, b, *done;
	char buf[2][512];
	int fa = settled_fd(first), fb = settled_fd(second);

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		submit_one(first, &a, FTH_DEV_READ, buf[0], 512, 0);
		submit_one(second, &b, FTH_DEV_READ, buf[1], 512, 512);
		assert_int_equal(fth_dev_reap(second, &done, 1, 1, FTH_NEVER), 1);
		sleep_until_done(first, fa, 1);
		/* An idle channel is not woken for ever by what others do. */
		submit_one(first, &a, FTH_DEV_READ, buf[0], 512, 0);
		assert_true(readable(fa, LONG_MS));
		becomes_quiet(second, fb);
		sleep_until_done(first, fa, 1);
	}
	fth_dev_chan_close(first);
	/* A closed channel leaves the others theirs. */
	submit_one(second, &b, FTH_DEV_READ, buf[1], 512, 0);
	sleep_until_done(second, fb, 1);
	fth_dev_chan_close(second);
	fth_dev_close(dev);
}

/*
 * The other channel also reads the interrupt away: what is left to wake us is its delivery. The
 * controller has one thread and completes in order, so both are reaped when the second is back.
 */
static void deliveries_are_signalled(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:1M)?queues=1");
	struct fth_dev_chan *first = open_chan(dev, 4), *second = open_chan(dev, 4);
	struct fth_dev_req a, b, *done;
	char buf[2][512];
	int fa = settled_fd(first), fb = settled_fd(second);

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		submit_one(first, &a, FTH_DEV_READ, buf[0], 512, 0);
		submit_one(second, &b, FTH_DEV_READ, buf[1], 512, 512);
		assert_int_equal(fth_dev_reap(second, &done, 1, 1, FTH_NEVER), 1);
		becomes_quiet(second, fb);
		assert_true(readable(fa, 0));
		sleep_until_done(first, fa, 1);
	}
	fth_dev_chan_close(first);
	fth_dev_chan_close(second);
	fth_dev_close(dev);
}

/* What arrived before anybody asked for a descriptor is there for the first look. */
static void a_new_descriptor_is_readable_if_there_is_something(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:1M)?queues=1");
	struct fth_dev_chan *first = open_chan(dev, 4), *second = open_chan(dev, 4);
	struct fth_dev_req a, b, *done;
	char buf[2][512];
	int fd;

	(void)state;
	submit_one(first, &a, FTH_DEV_READ, buf[0], 512, 0);
	submit_one(second, &b, FTH_DEV_READ, buf[1], 512, 512);
	assert_int_equal(fth_dev_reap(second, &done, 1, 1, FTH_NEVER), 1); /* reaps both */
	fd = fth_dev_chan_fd(first);
	assert_true(readable(fd, 0));
	sleep_until_done(first, fd, 1);
	fth_dev_chan_close(first);
	fth_dev_chan_close(second);
	fth_dev_close(dev);
}

/* The channel that has the only id reads the interrupt away, and has to tell of the free id. */
static void a_free_id_is_signalled(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(mem:1M)?queues=1&depth=2");
	struct fth_dev_chan *holder = open_chan(dev, 1), *waiter = open_chan(dev, 1);
	struct fth_dev_req hold, flush, *done;
	char buf[512];
	int fh = settled_fd(holder), fw = settled_fd(waiter);

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		submit_one(holder, &hold, FTH_DEV_READ, buf, 512, 0);
		submit_one(waiter, &flush, FTH_DEV_FLUSH, NULL, 0, 0);
		assert_int_equal(fth_dev_reap(holder, &done, 1, 1, FTH_NEVER), 1);
		becomes_quiet(holder, fh);
		assert_true(readable(fw, 0));
		sleep_until_done(waiter, fw, 1);
	}
	fth_dev_chan_close(holder);
	fth_dev_chan_close(waiter);
	fth_dev_close(dev);
}

/* The only id is another channel's, which nobody reaps: its end lets us go on. */
static void a_free_id_wakes(void **state)
{
	struct fth_dev *dev = open_dev("softnvme(delay(mem:1M)?read_us=3000)?queues=1&depth=2");
	struct fth_dev_chan *holder = open_chan(dev, 1), *waiter = open_chan(dev, 4);
	struct fth_dev_req hold, reqs[4], *done;
	static char bufs[5][512];
	int fd = settled_fd(waiter);

	(void)state;
	for (unsigned round = 0; round < 5; round++) {
		submit_one(holder, &hold, FTH_DEV_READ, bufs[4], 512, 0);
		for (unsigned i = 0; i < 4; i++)
			submit_one(waiter, &reqs[i], FTH_DEV_FLUSH, NULL, 0, 0);
		sleep_until_done(waiter, fd, 4);
		assert_int_equal(fth_dev_reap(holder, &done, 1, 1, FTH_NEVER), 1);
	}
	fth_dev_chan_close(holder);
	fth_dev_chan_close(waiter);
	fth_dev_close(dev);
}

/* A command that is never answered is no reason to sleep for ever. */
static void timeouts_wake(void **state)
{
	struct fth_dev *dev =
		open_dev("softnvme(delay(mem:1M)?read_us=3000000)?queues=2&timeout_ms=1000");
	struct fth_dev_chan *chan = open_chan(dev, 4);
	struct fth_dev_req req;
	char buf[512];
	int fd = settled_fd(chan);

	(void)state;
	submit_one(chan, &req, FTH_DEV_READ, buf, 512, 0);
	sleep_until_done(chan, fd, 1);
	assert_int_equal(req.result, -ETIMEDOUT);
	submit_one(chan, &req, FTH_DEV_FLUSH, NULL, 0, 0);
	sleep_until_done(chan, fd, 1);
	assert_int_equal(req.result, 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* ---- threads that sleep in epoll, several to a queue pair ---- */

#define THREADS 3
#define TOTAL	2000
#define DEPTH	4

static struct fth_dev *shared;

static void *sleeper(void *arg)
{
	struct fth_dev_chan *chan = open_chan(shared, DEPTH);
	struct fth_dev_req reqs[DEPTH], *done[DEPTH];
	static char bufs[THREADS][DEPTH][4096];
	unsigned number = *(unsigned *)arg, submitted = 0, completed = 0;
	int epoll = epoll_create1(EPOLL_CLOEXEC), fd = fth_dev_chan_fd(chan);
	struct epoll_event event = {.events = EPOLLIN};

	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	for (; submitted < DEPTH; submitted++)
		submit_one(chan, &reqs[submitted], FTH_DEV_READ, bufs[number][submitted], 4096,
			   4096 * (uint64_t)submitted);
	while (completed < TOTAL) {
		int n;

		assert_int_equal(epoll_wait(epoll, &event, 1, LONG_MS), 1);
		n = fth_dev_reap(chan, done, DEPTH, 0, 0);
		assert_ok(n);
		completed += (unsigned)n;
		for (int i = 0; i < n && submitted < TOTAL; i++, submitted++)
			assert_int_equal(fth_dev_submit(chan, &done[i], 1), 1);
	}
	close(epoll);
	fth_dev_chan_close(chan);
	return NULL;
}

static void threads_sleep_on_shared_queue_pairs(void **state)
{
	static const char *const uris[] = {"softnvme(mem:1M)?queues=1&depth=4",
					   "softnvme(mem:1M)?queues=2"};

	(void)state;
	for (unsigned u = 0; u < 2; u++) {
		unsigned numbers[THREADS];
		pthread_t threads[THREADS];

		shared = open_dev(uris[u]);
		for (unsigned i = 0; i < THREADS; i++) {
			numbers[i] = i;
			assert_int_equal(pthread_create(&threads[i], NULL, sleeper, &numbers[i]),
					 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		fth_dev_close(shared);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completions_wake),
		cmocka_unit_test(what_was_not_handed_back_keeps_it_readable),
		cmocka_unit_test(long_requests_advance_by_wake_ups),
		cmocka_unit_test(deliveries_by_other_channels_wake),
		cmocka_unit_test(deliveries_are_signalled),
		cmocka_unit_test(a_new_descriptor_is_readable_if_there_is_something),
		cmocka_unit_test(a_free_id_is_signalled),
		cmocka_unit_test(a_free_id_wakes),
		cmocka_unit_test(timeouts_wake),
		cmocka_unit_test(threads_sleep_on_shared_queue_pairs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
