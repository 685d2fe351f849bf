/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of file: channels: what completes without the kernel shows there too. The conformance
 * suite checks the rest.
 */
#include "dev/file/dev_file_fixture.h"

#include <poll.h>
#include <sys/resource.h>

#define UNIT	   4096u
#define FILE_BYTES (64u * UNIT)
#define COUNT	   8u

static struct fth_dev *dev;
static struct fth_dev_chan *chan;
static char *buf;
static struct fth_dev_req reqs[COUNT], *list[COUNT], *done[COUNT];

static void set_up(const char *options)
{
	make_file(0, FILE_BYTES);
	assert_ok(open_a(0, options, &dev));
	assert_ok(fth_dev_chan_open(dev, COUNT, &chan));
	buf = fth_dev_buf_alloc(dev, COUNT * UNIT);
}

static void tear_down(void)
{
	fth_dev_chan_close(chan);
	fth_dev_buf_free(dev, buf, COUNT * UNIT);
	fth_dev_close(dev);
}

static void submit(enum fth_dev_op op)
{
	for (unsigned i = 0; i < COUNT; i++) {
		fth_dev_req_init(&reqs[i], op, buf + i * UNIT, UNIT, i * UNIT);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, COUNT), COUNT);
}

static bool is_readable(int ms)
{
	struct pollfd p = {.fd = fth_dev_chan_fd(chan), .events = POLLIN};

	assert_true(p.fd >= 3);
	return poll(&p, 1, ms) == 1;
}

/* Reap one at a time, driven by the descriptor. */
static void reap_all(int result)
{
	unsigned n = 0;

	while (n < COUNT) {
		int got;

		assert_true(is_readable(30000));
		got = fth_dev_reap(chan, done, 1, 0, 0);
		assert_in_range(got, 0, 1);
		if (got == 1)
			assert_int_equal(done[0]->result, result);
		n += (unsigned)got;
	}
	assert_false(is_readable(0));
	assert_int_equal(fth_dev_chan_in_flight(chan), 0);
}

static void refused_requests_show(void **state)
{
	(void)state;
	set_up("?readonly=on");
	assert_false(is_readable(0));
	submit(FTH_DEV_WRITE);
	assert_true(is_readable(0));
	reap_all(-EROFS);
	tear_down();
}

static void transfers_inside_submit_show(void **state)
{
	static const char *const ways[] = {"?inline=on", "?inline=on&direct=off", "?direct=off"};

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		set_up(ways[i]);
		assert_false(is_readable(0));
		submit(FTH_DEV_WRITE);
		reap_all(0);
		submit(FTH_DEV_READ);
		reap_all(0);
		tear_down();
	}
}

static void flushes_that_wait_for_another_show(void **state)
{
	(void)state;
	set_up("");
	submit(FTH_DEV_FLUSH);
	reap_all(0);
	tear_down();
}

static void a_descriptor_can_be_asked_for_late(void **state)
{
	(void)state;
	set_up("?inline=on");
	submit(FTH_DEV_READ);
	assert_int_equal(fth_dev_reap(chan, done, 3, 3, FTH_NEVER), 3);
	assert_true(is_readable(30000));
	assert_int_equal(fth_dev_reap(chan, done, COUNT, COUNT - 3, FTH_NEVER), COUNT - 3);
	assert_false(is_readable(0));
	tear_down();
}

static unsigned lowest_free(void)
{
	int fd = dup(0);

	close(fd);
	return (unsigned)fd;
}

static void nobody_pays_who_does_not_ask(void **state)
{
	struct rlimit all, few;
	unsigned before, after;

	(void)state;
	set_up("");
	before = lowest_free();
	submit(FTH_DEV_READ);
	assert_int_equal(fth_dev_reap(chan, done, COUNT, COUNT, FTH_NEVER), COUNT);
	after = lowest_free();
	assert_int_equal(after, before);

	/* No descriptor left: an error, and the channel goes on. */
	getrlimit(RLIMIT_NOFILE, &all);
	few = all;
	few.rlim_cur = before;
	setrlimit(RLIMIT_NOFILE, &few);
	assert_int_equal(fth_dev_chan_fd(chan), -EMFILE);
	setrlimit(RLIMIT_NOFILE, &all);
	assert_int_equal(lowest_free(), before);
	submit(FTH_DEV_READ);
	reap_all(0);
	tear_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_requests_show),
		cmocka_unit_test(transfers_inside_submit_show),
		cmocka_unit_test(flushes_that_wait_for_another_show),
		cmocka_unit_test(a_descriptor_can_be_asked_for_late),
		cmocka_unit_test(nobody_pays_who_does_not_ask),
	};
	return run_with_each_engine(tests);
}
