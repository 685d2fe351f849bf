/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels that share a queue pair: one that is not reaped holds no command id that another one
 * needs, whatever its requests come to.
 */
#include "fth_test.h"

#include "fathom/dev.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SOON fth_deadline_ns(200000000000u) /* a test that waits that long has found its bug */

/* Requests that are submitted and left alone. */
struct left {
	struct fth_dev_chan *chan;
	unsigned n;
	uint64_t bytes;
	struct fth_dev_req reqs[64];
	char *bufs[64];
};

static void leave(struct left *left, struct fth_dev *dev, enum fth_dev_op op, unsigned n,
		  uint64_t bytes)
{
	struct fth_dev_req *list[64];

	left->n = n;
	left->bytes = bytes;
	assert_ok(fth_dev_chan_open(dev, 64, &left->chan));
	for (unsigned i = 0; i < n; i++) {
		left->bufs[i] = malloc(bytes);
		memset(left->bufs[i], (int)i + 1, bytes);
		fth_dev_req_init(&left->reqs[i], op, left->bufs[i], bytes, i * bytes);
		list[i] = &left->reqs[i];
	}
	assert_int_equal(fth_dev_submit(left->chan, list, n), n);
}

static void collect_left(struct left *left, int expect)
{
	struct fth_dev_req *done[64];

	assert_int_equal(fth_dev_reap(left->chan, done, 64, left->n, SOON), left->n);
	for (unsigned i = 0; i < left->n; i++) {
		assert_int_equal(left->reqs[i].result, expect);
		free(left->bufs[i]);
	}
	fth_dev_chan_close(left->chan);
}

static void a_flush_beside_reads_that_nobody_reaps(void **state)
{
	struct fth_dev *dev;
	struct left left;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:4M)?depth=8&queues=1", &dev));
	leave(&left, dev, FTH_DEV_READ, 32, 512);
	assert_ok(fth_dev_flush(dev, SOON));
	assert_ok(fth_dev_flush(dev, SOON));
	collect_left(&left, 0);
	fth_dev_close(dev);
}

/* Requests of many commands, through bounce chunks: what is left of them is issued by the owner. */
static void long_requests_go_on_when_their_owner_comes_back(void **state)
{
	struct fth_dev *dev;
	struct left left;
	char *buf = malloc(200000 / 512 * 512);

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:16M)?depth=4&queues=1&mdts=1", &dev));
	leave(&left, dev, FTH_DEV_WRITE, 16, 199680);
	for (unsigned i = 0; i < 10; i++) {
		assert_ok(fth_dev_zero(dev, 65536, 15u << 20, SOON));
		assert_ok(fth_dev_flush(dev, SOON));
	}
	collect_left(&left, 0);
	for (unsigned i = 0; i < 16; i++) {
		assert_ok(fth_dev_read(dev, buf, 199680, i * 199680, SOON));
		assert_int_equal(buf[0], i + 1);
		assert_int_equal(buf[199679], i + 1);
	}
	free(buf);
	fth_dev_close(dev);
}

static void a_flush_beside_reads_that_failed(void **state)
{
	struct fth_dev *dev;
	struct left left;

	(void)state;
	assert_ok(
		fth_dev_open("softnvme(fault(mem:64M)?kind=read&every=1)?depth=64&queues=1", &dev));
	leave(&left, dev, FTH_DEV_READ, 64, 4096);
	assert_ok(fth_dev_flush(dev, SOON));
	collect_left(&left, -ENODATA);
	fth_dev_close(dev);
}

/* A command that is not reaped has its time all the same, and a channel that waits notices it. */
static void a_command_that_nobody_waits_for_times_out(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev_req flush, *r = &flush, *done;
	struct fth_dev *dev;
	struct left left;

	(void)state;
	assert_ok(fth_dev_open("softnvme(delay(mem:4M)?read_us=3000000)"
			       "?depth=8&queues=1&timeout_ms=1000",
			       &dev));
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	leave(&left, dev, FTH_DEV_READ, 7, 512); /* all ids */
	fth_dev_req_init(&flush, FTH_DEV_FLUSH, NULL, 0, 0);
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, SOON), 1);
	assert_int_equal(flush.result, -ETIMEDOUT);
	/*
	 * The other channel has not looked yet, and does not keep the controller from recovering.
	 */
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, SOON), 1);
	assert_int_equal(flush.result, 0);
	collect_left(&left, -ETIMEDOUT);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* ---- many threads on one queue pair, some of which stop looking ---- */

#define THREADS 4
#define ROUNDS	300

static struct fth_dev *shared;

static void *work(void *arg)
{
	unsigned number = *(unsigned *)arg;
	struct fth_dev_req reqs[8], *list[8], *done[8];
	struct fth_dev_chan *chan;
	static char bufs[THREADS][8][8192];

	assert_ok(fth_dev_chan_open(shared, 8, &chan));
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < 8; i++) {
			uint64_t at = ((uint64_t)number * 8 + i) * 8192;

			memset(bufs[number][i], (int)(round + number + i), 8192);
			fth_dev_req_init(&reqs[i], round % 2 ? FTH_DEV_READ : FTH_DEV_WRITE,
					 bufs[number][i], 8192, at);
			if (round % 2)
				memset(bufs[number][i], 0, 8192);
			list[i] = &reqs[i];
		}
		assert_int_equal(fth_dev_submit(chan, list, 8), 8);
		/* Something else first: a blocking call, while our requests are left alone. */
		if (round % 10 == number)
			assert_ok(fth_dev_flush(shared, SOON));
		assert_int_equal(fth_dev_reap(chan, done, 8, 8, SOON), 8);
		for (unsigned i = 0; i < 8; i++) {
			assert_int_equal(reqs[i].result, 0);
			if (round % 2)
				assert_int_equal(bufs[number][i][8191],
						 (char)(round - 1 + number + i));
		}
	}
	fth_dev_chan_close(chan);
	return NULL;
}

static void threads_share_one_queue_pair(void **state)
{
	unsigned numbers[THREADS];
	pthread_t threads[THREADS];
	struct left left;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:4M)?depth=8&queues=1&mdts=1", &shared));
	leave(&left, shared, FTH_DEV_READ, 32, 8192);
	for (unsigned i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	collect_left(&left, 0);
	fth_dev_close(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flush_beside_reads_that_nobody_reaps),
		cmocka_unit_test(long_requests_go_on_when_their_owner_comes_back),
		cmocka_unit_test(a_flush_beside_reads_that_failed),
		cmocka_unit_test(a_command_that_nobody_waits_for_times_out),
		cmocka_unit_test(threads_share_one_queue_pair),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
