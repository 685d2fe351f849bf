/* SPDX-License-Identifier: BSD-2-Clause */
/* Reaping does not wait for the catalog, nor for repairs; and what it waits for wakes it. */
#include "vol/channel/channel.h"
#include "vol/vol_fixture.h"

#include "dev/testkit/dev_gate.h"
#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#include <poll.h>

#define BLOCK	   512u
#define WRITES	   (1u << FTH_DEV_WRITE)
#define DATA_START (VOL_AREA + VOL_SLOTS * VOL_SLOT_MIN)

/*
 * Three devices that answer while their gates are open, and an object with a replica on devices 1
 * and 2. Device 0 has nothing but the catalog.
 */
struct scene {
	struct rack rack;
	struct fth_dev *dev;
	struct fth_dev_chan *chan;
	char buf[4][BLOCK];
	struct fth_dev_req reqs[4];
};

static void scene_init(struct scene *s)
{
	struct fth_vol_object_options o = shape(4096, 2, 1);

	rack_format(&s->rack, "fault(gate:1M)", 3);
	assert_ok(fth_vol_create(s->rack.vol, "x", 16384, &o));
	s->dev = open_object(s->rack.vol, "x");
	write_all(s->dev, 1);
	assert_ok(fth_dev_chan_open(s->dev, 4, &s->chan));
}

static void scene_release(struct scene *s)
{
	fth_dev_chan_close(s->chan);
	fth_dev_close(s->dev);
	rack_release(&s->rack);
}

static void set_gate(struct scene *s, unsigned i, bool open)
{
	fth_gate_set(fth_dev_inner(s->rack.devs[i]), open);
}

static void submit(struct scene *s, unsigned i, enum fth_dev_op op, uint64_t offset)
{
	struct fth_dev_req *req = &s->reqs[i];

	fill(s->buf[i], BLOCK, offset, 9);
	fth_dev_req_init(req, op, s->buf[i], op == FTH_DEV_FLUSH ? 0 : BLOCK, offset);
	assert_int_equal(fth_dev_submit(s->chan, &req, 1), 1);
}

static int reap_now(struct scene *s)
{
	struct fth_dev_req *done[4];

	return fth_dev_reap(s->chan, done, 4, 0, 0);
}

static void reap_one(struct scene *s, unsigned expected, int result)
{
	struct fth_dev_req *done;

	assert_int_equal(fth_dev_reap(s->chan, &done, 1, 1, FTH_NEVER), 1);
	assert_ptr_equal(done, &s->reqs[expected]);
	assert_int_equal(done->result, result);
}

/* A write that one device did not take waits for the commit; reap with deadline 0 does not. */
static void reap_does_not_wait_for_the_catalog(void **state)
{
	static const enum fth_dev_op ops[] = {FTH_DEV_WRITE, FTH_DEV_FLUSH};
	struct fth_vol_object_info info;

	(void)state;
	for (unsigned k = 0; k < 2; k++) {
		struct scene s;

		scene_init(&s);
		fail_on(s.rack.devs[1], 1u << ops[k], 1, 0);
		set_gate(&s, 0, false);
		submit(&s, 0, ops[k], 0);
		for (unsigned i = 0; i < 1000; i++)
			assert_int_equal(reap_now(&s), 0);
		/*
		 * The worker is at it; reads go on meanwhile, and are not of the device that
		 * failed.
		 */
		assert_true(fth_gate_wait(fth_dev_inner(s.rack.devs[0]), 1));
		submit(&s, 1, FTH_DEV_READ, 4096);
		reap_one(&s, 1, 0);
		assert_int_equal(fth_dev_reap(s.chan, &(struct fth_dev_req *){NULL}, 1, 1,
					      fth_deadline_ns(1000000)),
				 -ETIME);
		assert_ok(fth_vol_stat(s.rack.vol, "x", &info));
		assert_int_equal(info.stale, 0);
		set_gate(&s, 0, true);
		reap_one(&s, 0, 0);
		assert_ok(fth_vol_stat(s.rack.vol, "x", &info));
		assert_int_equal(info.stale, 1u << 1);
		scene_release(&s);
	}
}

/* A block is being written back: reads go on, changes of the object wait, reap does not. */
static void reap_does_not_wait_for_repairs(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	char want[BLOCK];
	struct scene s;

	(void)state;
	scene_init(&s);
	plan.kinds = 1u << FTH_DEV_READ;
	plan.from = DATA_START;
	plan.to = plan.from + 4096;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(s.rack.devs[1], &plan));
	set_gate(&s, 1, false);
	/* Until it was the turn of device 1, and its block has to be repaired. */
	for (unsigned i = 0; i < 2; i++) {
		submit(&s, 0, FTH_DEV_READ, 4096 * i + BLOCK * i);
		if (i == 0)
			reap_one(&s, 0, 0);
	}
	reap_one(&s, 0, 0);
	assert_true(fth_gate_wait(fth_dev_inner(s.rack.devs[1]), 1));
	submit(&s, 1, FTH_DEV_WRITE, 8192);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(reap_now(&s), 0);
	set_gate(&s, 1, true);
	reap_one(&s, 1, 0);
	wait_for_worker(s.rack.vol);
	assert_true(fth_vol_counter(s.rack.vol, FTH_VOL_REPAIRS) > 0);
	assert_ok(fth_dev_fault_disarm(s.rack.devs[1]));
	assert_ok(fth_dev_read(s.dev, s.buf[0], BLOCK, 8192, FTH_DEV_TIMEOUT));
	fill(want, BLOCK, 8192, 9);
	assert_memory_equal(s.buf[0], want, BLOCK);
	scene_release(&s);
}

static void *grow(void *arg)
{
	struct scene *s = arg;

	/* The answer is a pointer, so that the thread can give it. */
	return fth_vol_resize(s->rack.vol, "y", 65536, true) == 0 ? s : NULL;
}

/* While an object grows, its name is busy and others can look; nothing waits for the zeroing. */
static void zeroing_holds_no_lock(void **state)
{
	struct fth_vol_object_options o = shape(4096, 1, 1);
	struct fth_vol_object_info info;
	struct fth_dev *dev;
	struct scene s;
	pthread_t thread;
	const unsigned device = 2; /* the object has the id 2, and lies on that one */
	void *grown;
	int rc;

	(void)state;
	scene_init(&s);
	assert_ok(fth_vol_create(s.rack.vol, "y", 4096, &o));
	set_gate(&s, device, false);
	assert_int_equal(pthread_create(&thread, NULL, grow, &s), 0);
	assert_true(fth_gate_wait(fth_dev_inner(s.rack.devs[device]), 1));
	assert_ok(fth_vol_stat(s.rack.vol, "y", &info));
	assert_int_equal(info.size, 4096);
	rc = fth_vol_object_open(s.rack.vol, "y", 0, &dev);
	assert_int_equal(rc, -EBUSY);
	assert_non_null(strstr(fth_error_text(rc), "is being resized"));
	assert_int_equal(fth_vol_remove(s.rack.vol, "y"), -EBUSY);
	assert_int_equal(fth_vol_resize(s.rack.vol, "y", 1, false), -EBUSY);
	set_gate(&s, device, true);
	pthread_join(thread, &grown);
	assert_ptr_equal(grown, &s);
	assert_ok(fth_vol_stat(s.rack.vol, "y", &info));
	assert_int_equal(info.size, 65536);
	assert_ok(fth_vol_object_open(s.rack.vol, "y", 0, &dev));
	fth_dev_close(dev);
	scene_release(&s);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) == 1;
}

/* The descriptor tells of what the worker finished, and of requests that reap had no room for. */
static void the_descriptor_tells_what_devices_do_not(void **state)
{
	struct fth_vol_object_options o = shape(4096, 2, 0);
	struct fth_dev_req *done;
	struct rack rack;
	struct scene s;
	int fd;

	(void)state;
	rack_format(&rack, "fault(mem:1M)", 2);
	assert_ok(fth_vol_create(rack.vol, "x", 16384, &o));
	s.rack = rack;
	s.dev = open_object(rack.vol, "x");
	assert_ok(fth_dev_chan_open(s.dev, 4, &s.chan));
	fd = fth_dev_chan_fd(s.chan);
	if (fd == -EOPNOTSUPP) {
		scene_release(&s);
		skip(); /* the devices have none */
	}
	assert_true(fd > 2);
	assert_int_equal(fth_dev_chan_fd(s.chan), fd);
	assert_false(is_readable(fd, 0));
	fail_on(rack.devs[1], WRITES, 1, 0);
	submit(&s, 0, FTH_DEV_WRITE, 0);
	/* First of the parts, then of the worker; nothing is left between. */
	for (int n = 0; n == 0;) {
		assert_true(is_readable(fd, 20000));
		n = fth_dev_reap(s.chan, &done, 1, 0, 0);
		assert_true(n >= 0);
	}
	assert_int_equal(done->result, 0);
	assert_int_equal(reap_now(&s), 0);
	assert_false(is_readable(fd, 0));
	for (unsigned i = 0; i < 3; i++)
		submit(&s, i, FTH_DEV_READ, 4096 * i);
	for (unsigned i = 0; i < 3;) {
		int n;

		assert_true(is_readable(fd, 20000));
		n = fth_dev_reap(s.chan, &done, 1, 0, 0);
		assert_true(n >= 0);
		i += (unsigned)n;
	}
	assert_int_equal(reap_now(&s), 0);
	assert_false(is_readable(fd, 0));
	scene_release(&s);
}

/* Many writers on as many channels while a device fails for good: all are answered. */
static void all_writers_are_answered(void **state)
{
	struct fth_vol_object_options o = shape(4096, 2, 0);
	struct fth_dev_chan *chans[8];
	struct fth_dev_req reqs[8][4];
	static char buf[BLOCK];
	struct rack rack;
	struct fth_dev *dev;

	(void)state;
	rack_format(&rack, "fault(mem:1M)", 2);
	assert_ok(fth_vol_create(rack.vol, "x", 16384, &o));
	dev = open_object(rack.vol, "x");
	fail_on(rack.devs[0], WRITES, 1, 1);
	for (unsigned i = 0; i < 8; i++) {
		assert_ok(fth_dev_chan_open(dev, 4, &chans[i]));
		for (unsigned k = 0; k < 4; k++) {
			struct fth_dev_req *req = &reqs[i][k];

			fth_dev_req_init(req, FTH_DEV_WRITE, buf, BLOCK, BLOCK * (4 * i + k));
			assert_int_equal(fth_dev_submit(chans[i], &req, 1), 1);
		}
	}
	for (unsigned i = 0; i < 8; i++) {
		struct fth_dev_req *done[4];

		if (i % 2 == 0) /* the others leave it to the end of the channel */
			assert_int_equal(fth_dev_reap(chans[i], done, 4, 4, FTH_NEVER), 4);
		for (unsigned k = 0; i % 2 == 0 && k < 4; k++)
			assert_int_equal(done[k]->result, 0);
		fth_dev_chan_close(chans[i]);
	}
	fth_dev_close(dev);
	rack_release(&rack);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reap_does_not_wait_for_the_catalog),
		cmocka_unit_test(reap_does_not_wait_for_repairs),
		cmocka_unit_test(zeroing_holds_no_lock),
		cmocka_unit_test(the_descriptor_tells_what_devices_do_not),
		cmocka_unit_test(all_writers_are_answered),
	};

	if (fth_dev_scheme_register(&fth_dev_scheme_gate) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
