/* SPDX-License-Identifier: BSD-2-Clause */
/* What the common part of every device refuses, and how it opens. */
#include "fth_test.h"

#include "fathom/dev/driver.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

static void bad_uris_are_refused(void **state)
{
	static const char *const bad[] = {
		"mem:",		  "mem:x",	     "mem:0",	    "mem:100",
		"mem:1M?block=3", "mem:1M?blok=512", "mem(mem:1M)", "nosuch:1",
	};
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (fth_dev_open(bad[i], &dev) != -EINVAL)
			fail_msg("\"%s\" was opened", bad[i]);
		assert_null(dev);
	}
}

static int try_submit(struct fth_dev_chan *chan, struct fth_dev_req *req)
{
	return fth_dev_submit(chan, &req, 1);
}

static void bad_requests_do_not_reach_the_medium(void **state)
{
	static char buf[8192];
	struct iovec pieces[2] = {{buf, 512}, {buf + 512, 512}};
	struct fth_dev_req req;
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:64K", &dev));
	assert_ok(fth_dev_chan_open(dev, 4, &chan));

	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 100, 0);
	assert_int_equal(try_submit(chan, &req), -EINVAL);
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 512, 100);
	assert_int_equal(try_submit(chan, &req), -EINVAL);
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 0, 0);
	assert_int_equal(try_submit(chan, &req), -EINVAL);
	fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, 512, 0);
	assert_int_equal(try_submit(chan, &req), -EINVAL);
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 512, 65536);
	assert_int_equal(try_submit(chan, &req), -ERANGE);
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 1024, 65536 - 512);
	assert_int_equal(try_submit(chan, &req), -ERANGE);
	fth_dev_req_init(&req, FTH_DEV_DISCARD, NULL, 512, UINT64_MAX - 511);
	assert_int_equal(try_submit(chan, &req), -ERANGE);
	fth_dev_req_init(&req, FTH_DEV_OP_COUNT, buf, 512, 0);
	assert_int_equal(try_submit(chan, &req), -EINVAL);

	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 1024, 0);
	req.iov = pieces;
	req.iov_count = 1; /* too little */
	assert_int_equal(try_submit(chan, &req), -EINVAL);
	req.iov_count = 2;
	req.length = 512; /* too much */
	assert_int_equal(try_submit(chan, &req), -EINVAL);
	req.iov_count = 0;
	assert_int_equal(try_submit(chan, &req), -EINVAL);

	assert_int_equal(fth_dev_chan_in_flight(chan), 0);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_WRITES), 0);
	fth_dev_chan_close(chan);
	assert_int_equal(fth_dev_chan_open(dev, 0, &chan), -EINVAL);
	fth_dev_close(dev);
}

static void a_batch_stops_at_its_first_bad_request(void **state)
{
	static char buf[4096];
	struct fth_dev_req reqs[4], *list[4], *done[4];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:64K", &dev));
	assert_ok(fth_dev_chan_open(dev, 3, &chan));
	for (unsigned i = 0; i < 4; i++) {
		fth_dev_req_init(&reqs[i], FTH_DEV_WRITE, buf, 512, i * 512);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, 4), 3); /* depth */
	assert_int_equal(fth_dev_submit(chan, list + 3, 1), -EAGAIN);
	assert_int_equal(fth_dev_reap(chan, done, 4, 4, FTH_NEVER), 3);
	reqs[2].offset = 1;
	assert_int_equal(fth_dev_submit(chan, list, 4), 2);
	assert_int_equal(fth_dev_submit(chan, list + 2, 2), -EINVAL);
	assert_int_equal(fth_dev_reap(chan, done, 4, 0, 0), 2);
	assert_int_equal(fth_dev_reap(chan, done, 4, 1, FTH_NEVER), 0); /* nothing in flight */
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static int open_nothing(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	(void)uri;
	(void)inner;
	(void)out;
	return fth_fail(ENODEV, "nothing here");
}

static void schemes_can_be_added(void **state)
{
	static const struct fth_dev_scheme mine = {.name = "mine", .open = open_nothing};
	static const struct fth_dev_scheme again = {.name = "mem", .open = open_nothing};
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_scheme_register(&mine));
	assert_int_equal(fth_dev_scheme_register(&mine), -EEXIST);
	assert_int_equal(fth_dev_scheme_register(&again), -EEXIST);
	assert_int_equal(fth_dev_open("mine:x", &dev), -ENODEV);
	assert_string_equal(fth_error_text(-ENODEV), "nothing here");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_uris_are_refused),
		cmocka_unit_test(bad_requests_do_not_reach_the_medium),
		cmocka_unit_test(a_batch_stops_at_its_first_bad_request),
		cmocka_unit_test(schemes_can_be_added),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
