/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of channels: who pays for them, what they cost, and what happens when none is left.
 * That they wake a sleeper is for the conformance suite.
 */
#include "fth_test.h"

#include "dev/testkit/dev_gate.h"
#include "dev/testkit/dev_narrow.h"
#include "dev/wake.h"

#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#define DEEP "delay(fault(crash(fault(delay(fault(crash(narrow(fault(mem:1M)))))))))"

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* ---- the parts ---- */

static void a_flag_is_readable_while_it_is_set(void **state)
{
	struct fth_wake wake = FTH_WAKE_NONE;

	(void)state;
	fth_wake_set(&wake, true); /* does not exist: nothing happens */
	assert_true(fth_wake_open(&wake) >= 3);
	assert_int_equal(fth_wake_open(&wake), wake.fd);
	assert_false(is_readable(wake.fd));
	for (unsigned i = 0; i < 3; i++) {
		fth_wake_set(&wake, true);
		fth_wake_set(&wake, true);
		assert_true(is_readable(wake.fd));
		fth_wake_set(&wake, false);
		fth_wake_set(&wake, false);
		assert_false(is_readable(wake.fd));
	}
	fth_wake_set(&wake, true);
	fth_wake_close(&wake);
	assert_int_equal(wake.fd, -1);
	assert_ok(fth_wake_open(&wake));
	assert_false(is_readable(wake.fd)); /* a new one is not set */
	fth_wake_set(&wake, true);
	assert_true(is_readable(wake.fd));
	fth_wake_close(&wake);
	fth_wake_close(&wake);
}

static void a_timer_is_readable_from_its_time_on(void **state)
{
	struct fth_wake_timer timer = FTH_WAKE_NONE;

	(void)state;
	fth_wake_timer_set(&timer, FTH_WAKE_TIMER_NOW);
	assert_true(fth_wake_timer_open(&timer) >= 3);
	assert_false(is_readable(timer.fd));
	fth_wake_timer_set(&timer, fth_deadline_ns(3600000000000u));
	assert_false(is_readable(timer.fd));
	for (unsigned i = 0; i < 3; i++) {
		fth_wake_timer_set(&timer, FTH_WAKE_TIMER_NOW);
		assert_true(is_readable(timer.fd));
		fth_wake_timer_set(&timer, FTH_WAKE_TIMER_OFF);
		assert_false(is_readable(timer.fd));
		fth_wake_timer_set(&timer, fth_now_ns());
		assert_true(is_readable(timer.fd));
		fth_wake_timer_set(&timer, fth_deadline_ns(3600000000000u));
		assert_false(is_readable(timer.fd));
	}
	fth_wake_timer_set(&timer, FTH_WAKE_TIMER_NOW);
	fth_wake_timer_close(&timer);
	assert_int_equal(timer.fd, -1);
	assert_ok(fth_wake_timer_open(&timer));
	fth_wake_timer_set(&timer, FTH_WAKE_TIMER_NOW);
	assert_true(is_readable(timer.fd));
	fth_wake_timer_close(&timer);
	fth_wake_timer_close(&timer);
}

/* ---- channels ---- */

static void channels_that_nobody_asks_have_none(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	unsigned before;

	(void)state;
	assert_ok(fth_dev_open(DEEP, &dev));
	before = count_fds();
	assert_ok(fth_dev_chan_open(dev, 8, &chan));
	assert_int_equal(count_fds(), before);
	assert_ok(fth_dev_chan_fd(chan));
	assert_true(count_fds() > before);
	fth_dev_chan_close(chan);
	assert_int_equal(count_fds(), before);
	fth_dev_close(dev);
}

/* The lowest descriptor that is free, and with it all above, is not to be had. */
static void limit_fds(unsigned more, struct rlimit *saved)
{
	struct rlimit limit;
	int next = fth_wake_set_new();

	assert_ok(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, saved), 0);
	limit = *saved;
	limit.rlim_cur = (rlim_t)next + more;
	assert_int_equal(close(next), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void without_descriptors_nothing_is_lost(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	unsigned before, n = 0;
	int rc;

	(void)state;
	assert_ok(fth_dev_open(DEEP, &dev));
	before = count_fds();
	do {
		struct rlimit saved;

		assert_ok(fth_dev_chan_open(dev, 8, &chan));
		limit_fds(n++, &saved);
		rc = fth_dev_chan_fd(chan);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
		assert_true(rc == -EMFILE || rc >= 3);
		/* Once there are some again, the same channel gets one. */
		assert_ok(fth_dev_chan_fd(chan));
		fth_dev_chan_close(chan);
		assert_int_equal(count_fds(), before);
	} while (rc < 0 && n < 50);
	assert_in_range(n, 5, 49);
	fth_dev_close(dev);
}

/* A held request: quiet until its time, which here never comes. */
static void a_held_request_is_not_readable_before_its_time(void **state)
{
	struct fth_dev_req reqs[2], *list[2] = {&reqs[0], &reqs[1]}, *done[2];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	char buf[1024];
	int fd;

	(void)state;
	assert_ok(fth_dev_open("fault(mem:1M)?kind=read&nth=2&mode=timeout&hold_ms=1000", &dev));
	assert_ok(fth_dev_chan_open(dev, 2, &chan));
	fd = fth_dev_chan_fd(chan);
	assert_ok(fd);
	fth_dev_req_init(&reqs[0], FTH_DEV_READ, buf, 512, 0);
	fth_dev_req_init(&reqs[1], FTH_DEV_READ, buf + 512, 512, 512);
	assert_int_equal(fth_dev_submit(chan, list, 2), 2);
	assert_true(is_readable(fd));
	assert_int_equal(fth_dev_reap(chan, done, 2, 0, 0), 1);
	assert_ptr_equal(done[0], &reqs[0]);
	if (is_readable(fd)) /* only when this machine took a second for the lines above */
		assert_int_equal(fth_dev_reap(chan, done, 2, 0, 0), 1);
	else
		assert_int_equal(fth_dev_reap(chan, done, 2, 1, FTH_NEVER), 1);
	assert_int_equal(reqs[1].result, -ETIMEDOUT);
	assert_false(is_readable(fd));
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* ---- a device inside that is full, or fails ---- */

static void a_full_device_inside_is_tried_again_by_poll_alone(void **state)
{
	struct fth_dev_req reqs[4], *list[4], *done[4];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	static char buf[2048];
	int fd, n, got = 0;

	(void)state;
	assert_ok(fth_dev_open("fault(gate:1M)", &dev));
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	fd = fth_dev_chan_fd(chan);
	assert_ok(fd);
	for (unsigned i = 0; i < 4; i++) {
		fth_dev_req_init(&reqs[i], FTH_DEV_READ, buf + i * 512, 512, i * 512);
		list[i] = &reqs[i];
	}
	fth_gate_refuse(fth_dev_inner(dev), 3); /* with nothing of ours in flight inside */
	assert_int_equal(fth_dev_submit(chan, list, 4), 4);
	while (got < 4) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_int_equal(poll(&p, 1, 20000), 1);
		n = fth_dev_reap(chan, done, 4, 0, 0);
		assert_ok(n);
		got += n;
	}
	assert_false(is_readable(fd));
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void a_channel_that_the_device_inside_refuses_is_refused(void **state)
{
	static const char *const uris[] = {"fault(gate:1M)", "delay(gate:1M)", "crash(gate:1M)"};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fth_dev_chan *chan;
		struct fth_dev *dev;

		assert_ok(fth_dev_open(uris[i], &dev));
		fth_gate_limit(fth_dev_inner(dev), 0);
		assert_int_equal(fth_dev_chan_open(dev, 4, &chan), -EMFILE);
		assert_null(chan);
		assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -EMFILE);
		fth_gate_limit(fth_dev_inner(dev), 1);
		assert_ok(fth_dev_chan_open(dev, 4, &chan));
		fth_dev_chan_close(chan);
		fth_dev_close(dev);
	}
}

static void an_error_of_reap_comes_out_of_a_wrapper(void **state)
{
	struct fth_dev_req req, *r = &req, *done;
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	char buf[512];

	(void)state;
	assert_ok(fth_dev_open("delay(gate:1M)", &dev));
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	fth_dev_req_init(&req, FTH_DEV_READ, buf, 512, 0);
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	fth_gate_break(fth_dev_inner(dev), -ENODEV);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), -ENODEV);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1); /* it stayed in flight */
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flag_is_readable_while_it_is_set),
		cmocka_unit_test(a_timer_is_readable_from_its_time_on),
		cmocka_unit_test(channels_that_nobody_asks_have_none),
		cmocka_unit_test(without_descriptors_nothing_is_lost),
		cmocka_unit_test(a_held_request_is_not_readable_before_its_time),
		cmocka_unit_test(a_full_device_inside_is_tried_again_by_poll_alone),
		cmocka_unit_test(a_channel_that_the_device_inside_refuses_is_refused),
		cmocka_unit_test(an_error_of_reap_comes_out_of_a_wrapper),
	};
	if (fth_dev_scheme_register(&fth_dev_scheme_narrow) < 0 ||
	    fth_dev_scheme_register(&fth_dev_scheme_gate) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
