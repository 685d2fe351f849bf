/* SPDX-License-Identifier: BSD-2-Clause */
/* Nothing here asks for an upper bound on time: a busy machine may be late, never early. */
#include "fth_test.h"

#include "dev/testkit/dev_narrow.h"

#include "fathom/dev/delay.h"
#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define SECTOR 512
#define MS     1000000u

static struct fth_dev *open_dev(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static uint64_t time_of(struct fth_dev *dev, enum fth_dev_op op)
{
	static char buf[SECTOR];
	uint64_t start = fth_now_ns();

	switch (op) {
	case FTH_DEV_READ:
		assert_ok(fth_dev_read(dev, buf, SECTOR, 0, FTH_DEV_TIMEOUT));
		break;
	case FTH_DEV_WRITE:
		assert_ok(fth_dev_write(dev, buf, SECTOR, 0, FTH_DEV_TIMEOUT));
		break;
	case FTH_DEV_FLUSH:
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		break;
	case FTH_DEV_DISCARD:
		assert_ok(fth_dev_discard(dev, SECTOR, 0, FTH_DEV_TIMEOUT));
		break;
	default:
		assert_ok(fth_dev_zero(dev, SECTOR, 0, FTH_DEV_TIMEOUT));
	}
	return fth_now_ns() - start;
}

static void each_kind_has_its_latency(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:1M)?read_us=3000&write_us=5000&flush_us=7000.5");

	(void)state;
	assert_true(time_of(dev, FTH_DEV_READ) >= 3 * MS);
	assert_true(time_of(dev, FTH_DEV_WRITE) >= 5 * MS);
	assert_true(time_of(dev, FTH_DEV_DISCARD) >= 5 * MS);
	assert_true(time_of(dev, FTH_DEV_ZERO) >= 5 * MS);
	assert_true(time_of(dev, FTH_DEV_FLUSH) >= 7000500);
	fth_dev_close(dev);
}

static void submit_n_reads(struct fth_dev_chan *chan, struct fth_dev_req *reqs, unsigned n,
			   uint64_t length)
{
	static char buf[65536];

	for (unsigned i = 0; i < n; i++) {
		struct fth_dev_req *r = &reqs[i];

		fth_dev_req_init(r, FTH_DEV_READ, buf, length, 0);
		assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	}
}

static void latencies_run_together(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:1M)?read_us=50000");
	struct fth_dev_req reqs[16], *done[32];
	struct fth_dev_chan *chan;
	uint64_t start = fth_now_ns();
	int n;

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 16, &chan));
	submit_n_reads(chan, reqs, 16, SECTOR);
	n = fth_dev_reap(chan, done, 16, 0, 0);
	/* None yet, or so late that this machine must have been asleep. */
	assert_true(n == 0 || fth_now_ns() >= start + 50 * MS);
	n += fth_dev_reap(chan, done + n, 16, 16, FTH_NEVER);
	assert_int_equal(n, 16);
	assert_true(fth_now_ns() >= start + 50 * MS);
	for (unsigned i = 0; i < 16; i++)
		assert_ptr_equal(done[i], &reqs[i]); /* equal latencies keep the order */
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void a_deadline_ends_the_wait_early(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:1M)?read_us=200000");
	struct fth_dev_req req, *done;
	struct fth_dev_chan *chan;
	uint64_t deadline;

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	submit_n_reads(chan, &req, 1, SECTOR);
	deadline = fth_deadline_ns(2 * MS);
	if (fth_dev_reap(chan, &done, 1, 1, deadline) == -ETIME) {
		assert_true(fth_now_ns() >= deadline);
		assert_int_equal(fth_dev_chan_in_flight(chan), 1);
		assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	}
	assert_ptr_equal(done, &req);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static uint64_t time_of_reads(const char *uri, unsigned n, uint64_t length)
{
	struct fth_dev *dev = open_dev(uri);
	struct fth_dev_req reqs[64], *done[64];
	struct fth_dev_chan *chan;
	uint64_t start;

	assert_ok(fth_dev_chan_open(dev, 64, &chan));
	start = fth_now_ns();
	submit_n_reads(chan, reqs, n, length);
	assert_int_equal(fth_dev_reap(chan, done, n, n, FTH_NEVER), n);
	start = fth_now_ns() - start;
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
	return start;
}

static void the_rate_is_capped(void **state)
{
	(void)state;
	/* The first starts at once, the others 1 ms after each other; then comes the latency. */
	assert_true(time_of_reads("delay(mem:1M)?read_iops=1000", 11, SECTOR) >= 10 * MS);
	assert_true(time_of_reads("delay(mem:1M)?read_iops=1000&read_us=4000", 11, 4096) >=
		    14 * MS);
	/* 64 KiB count as sixteen times 4 KiB. */
	assert_true(time_of_reads("delay(mem:1M)?read_iops=4000", 3, 65536) >= 8 * MS);
}

static void *read_ten(void *arg)
{
	struct fth_dev_req reqs[10], *done[10];
	struct fth_dev_chan *chan;
	static char buf[4][SECTOR];
	static uint32_t next;
	char *mine = buf[fth_add_relaxed_dev32(&next, 1) % 4];

	if (fth_dev_chan_open(arg, 10, &chan) < 0)
		return NULL;
	for (unsigned i = 0; i < 10; i++) {
		struct fth_dev_req *r = &reqs[i];

		fth_dev_req_init(r, FTH_DEV_READ, mine, SECTOR, 0);
		if (fth_dev_submit(chan, &r, 1) != 1)
			return NULL;
	}
	if (fth_dev_reap(chan, done, 10, 10, FTH_NEVER) != 10)
		arg = NULL;
	fth_dev_chan_close(chan);
	return arg;
}

static void channels_share_the_rate(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:1M)?read_iops=2000&jitter=0.5&read_us=10");
	uint64_t start = fth_now_ns();
	pthread_t threads[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_ten, dev), 0);
	for (unsigned i = 0; i < 4; i++) {
		void *ok;

		pthread_join(threads[i], &ok);
		assert_non_null(ok);
	}
	assert_true(fth_now_ns() - start >= 39 * MS / 2);
	fth_dev_close(dev);
}

static void a_tail_is_added(void **state)
{
	struct fth_dev *dev = open_dev("delay(mem:1M)?read_us=100&tail_p=1&tail_us=3000");

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		assert_true(time_of(dev, FTH_DEV_READ) >= 3100000);
	fth_dev_close(dev);
}

static void any_uri_takes_a_model(void **state)
{
	struct fth_dev *dev = open_dev("mem:1M?block=4096&model=980pro");
	char buf[4096];

	(void)state;
	assert_int_equal(fth_dev_info(dev)->block, 4096);
	assert_non_null(fth_dev_inner(dev));
	for (unsigned i = 0; i < 4; i++) {
		uint64_t start = fth_now_ns();

		assert_ok(fth_dev_read(dev, buf, sizeof(buf), 0, FTH_DEV_TIMEOUT));
		assert_true(fth_now_ns() - start >= 100000);
	}
	assert_string_equal(fth_dev_uri(dev), "mem:1M?block=4096&model=980pro");
	fth_dev_close(dev);
	dev = open_dev("fault(mem:1M)?model=zssd");
	assert_non_null(fth_dev_inner(fth_dev_inner(dev)));
	fth_dev_close(dev);
	dev = open_dev("delay(mem:1M)?model=p5800x&read_us=50");
	assert_null(fth_dev_inner(fth_dev_inner(dev)));
	fth_dev_close(dev);
}

static void bad_options_are_refused(void **state)
{
	static const char *const bad[] = {
		"delay(mem:1M)?model=abacus",
		"mem:1M?model=abacus",
		"delay(mem:1M)?read_us=-1",
		"delay(mem:1M)?tail_p=2",
		"delay(mem:1M)?read_iops=1e3",
		"mem:1M?model=p5800x&blok=1",
		"delay:1M",
	};
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (fth_dev_open(bad[i], &dev) != -EINVAL)
			fail_msg("\"%s\" was opened", bad[i]);
		assert_null(dev);
	}
}

static uint64_t cost(const struct fth_dev_speed *speed, uint64_t length)
{
	return fth_dev_speed_cost(speed, length);
}

static void the_cost_follows_the_published_rates(void **state)
{
	const uint64_t second = 1000000000u * (uint64_t)FTH_DEV_COST_PER_NS;
	const struct fth_dev_model *m = fth_dev_model("p5800x");
	const struct fth_dev_speed none = {0};

	(void)state;
	/* Requests per second, to a thousandth. */
	assert_in_range(second / cost(&m->read, 512), 5095000, 5100000);
	assert_in_range(second / cost(&m->read, 4096), 1499000, 1500000);
	assert_in_range(second / cost(&m->write, 512), 999000, 1000000);
	assert_in_range(second / cost(&m->write, 65536), 93600, 93750);
	assert_int_equal(cost(&m->read, 1), cost(&m->read, 512));
	/* Half-way between the sizes it is half-way between the costs. */
	assert_in_range(2 * cost(&m->read, 2304), cost(&m->read, 512) + cost(&m->read, 4096) - 2,
			cost(&m->read, 512) + cost(&m->read, 4096) + 2);
	assert_in_range(cost(&m->read, 8192), 2 * cost(&m->read, 4096) - 1,
			2 * cost(&m->read, 4096) + 1);
	/* A page is cheaper than a sector for this one's writes. */
	assert_true(cost(&m->write, 4096) < cost(&m->write, 512));
	assert_int_equal(cost(&none, 4096), 0);
}

static void models_have_the_published_figures(void **state)
{
	unsigned n = 0;

	(void)state;
	for (const struct fth_dev_model *m = fth_dev_models(); m->name; m++, n++) {
		assert_ptr_equal(fth_dev_model(m->name), m);
		assert_non_null(m->drive);
		assert_non_null(m->source);
		assert_true(m->read.latency_ns > 0 && m->write.latency_ns > 0);
	}
	assert_int_equal(n, 4);
	assert_null(fth_dev_model("abacus"));
	assert_int_equal(fth_dev_model("pm1735")->read.iops_512, 1100000);
	assert_int_equal(fth_dev_model("pm1735")->read.iops_4k, 1600000);
	assert_int_equal(fth_dev_model("980pro")->write.iops_4k, 172000);
	assert_int_equal(fth_dev_model("zssd")->write.latency_ns, 16000);
	assert_int_equal(fth_dev_window_model("flatflash")->line_read_ns, 4800);
	assert_int_equal(fth_dev_window_model("flatflash")->line_write_ns, 600);
	assert_int_equal(fth_dev_window_model("flatflash")->promote_page_ns, 12100);
	assert_int_equal(fth_dev_window_model("flatflash")->pte_update_ns, 1400);
	assert_int_equal(fth_dev_window_model("flatflash")->table_walk_ns, 700);
	assert_null(fth_dev_window_model("zebra"));
}

static void a_narrow_device_inside_is_served_in_turns(void **state)
{
	(void)state;
	assert_true(time_of_reads("delay(narrow(mem:1M))?read_us=2000", 40, SECTOR) >= 2 * MS);
	assert_true(time_of_reads("delay(narrow(delay(mem:1M)?read_us=500))", 20, SECTOR) >=
		    5 * MS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_its_latency),
		cmocka_unit_test(latencies_run_together),
		cmocka_unit_test(a_deadline_ends_the_wait_early),
		cmocka_unit_test(the_rate_is_capped),
		cmocka_unit_test(channels_share_the_rate),
		cmocka_unit_test(a_tail_is_added),
		cmocka_unit_test(any_uri_takes_a_model),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(the_cost_follows_the_published_rates),
		cmocka_unit_test(models_have_the_published_figures),
		cmocka_unit_test(a_narrow_device_inside_is_served_in_turns),
	};
	if (fth_dev_scheme_register(&fth_dev_scheme_narrow) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
