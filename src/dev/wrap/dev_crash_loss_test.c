/* SPDX-License-Identifier: BSD-2-Clause */
/* What may be left, and what must be, when the crash device loses its power. */
#include "dev/wrap/dev_crash_fixture.h"

#include "fathom/base/rng.h"

#include <pthread.h>

/* ---- power loss ---- */

/* What a sector may hold: the value that is sure, or any written since the last flush. */
#define SECTORS	    48
#define PENDING_MAX 64

struct expectation {
	uint64_t values[PENDING_MAX]; /* [0] is the durable one, the last is the newest */
	unsigned count;
	bool any; /* discarded, not written since */
	bool any_durable;
};

static void expect(struct expectation *e, uint64_t value)
{
	assert_true(e->count < PENDING_MAX);
	e->values[e->count++] = value;
	e->any = false;
}

static void settle(struct expectation *e)
{
	e->values[0] = e->values[e->count - 1];
	e->count = 1;
	e->any_durable = e->any;
}

static void check_newest(struct fth_dev *dev, const struct expectation *all, unsigned sector)
{
	const struct expectation *e = &all[sector];

	if (!e->any)
		assert_int_equal(get(dev, sector), e->values[e->count - 1]);
}

/* After the crash a sector is one of what it may be; from now on it is that. */
static void check_survivor(struct fth_dev *dev, struct expectation *e, unsigned sector)
{
	uint64_t value = get(dev, sector);
	bool found = e->any || e->any_durable;

	for (unsigned i = 0; i < e->count; i++)
		found = found || e->values[i] == value;
	if (!found)
		fail_msg("sector %u holds %llu, which it may not", sector,
			 (unsigned long long)value);
	e->values[0] = value;
	e->count = 1;
	e->any = e->any_durable = false;
}

/* One random operation. -ENODEV when the power went with it. */
static int random_operation(struct fth_dev *dev, struct expectation *all, struct fth_rng *rng,
			    uint64_t value)
{
	unsigned sector = (unsigned)fth_rng_below(rng, SECTORS);
	unsigned n = 1 + (unsigned)fth_rng_below(rng, 8);
	uint64_t kind = fth_rng_below(rng, 20);
	int rc;

	if (n > SECTORS - sector)
		n = SECTORS - sector;
	if (kind == 0) {
		rc = fth_dev_flush(dev, FTH_DEV_TIMEOUT);
		for (unsigned i = 0; rc == 0 && i < SECTORS; i++)
			settle(&all[i]);
		return rc;
	}
	if (kind == 1) {
		check_newest(dev, all, sector);
		return 0;
	}
	if (kind == 2)
		rc = fth_dev_discard(dev, n * SECTOR, sector * SECTOR, FTH_DEV_TIMEOUT);
	else if (kind == 3)
		rc = fth_dev_zero(dev, n * SECTOR, sector * SECTOR, FTH_DEV_TIMEOUT);
	else if (kind == 4)
		rc = put_through(dev, sector, n, value);
	else
		rc = put(dev, sector, n, value);
	/* Without power or not: what was submitted may be there afterwards. */
	for (unsigned i = sector; i < sector + n; i++) {
		expect(&all[i], kind == 3 ? 0 : value);
		all[i].any = kind == 2;
		if (kind == 2)
			all[i].any_durable = true; /* until the next flush */
		if (kind == 4 && rc == 0)
			settle(&all[i]);
	}
	return rc;
}

static void walk_crash_points(const char *uri, unsigned points, uint64_t seed)
{
	struct fth_dev *dev = open_dev(uri);
	static struct expectation all[SECTORS];
	struct fth_rng rng = {seed};
	uint64_t value = 1;

	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < SECTORS; i++)
		all[i].count = 1;
	for (unsigned point = 0; point < points; point++) {
		int rc = 0;

		assert_ok(fth_dev_crash_at(dev, 1 + fth_rng_below(&rng, 24), point));
		for (unsigned step = 0; rc == 0; step++)
			rc = random_operation(dev, all, &rng, value++);
		assert_int_equal(rc, -ENODEV);
		assert_false(fth_dev_crash_powered(dev));
		assert_int_equal(fth_dev_flush(dev, FTH_DEV_TIMEOUT), -ENODEV);
		assert_ok(fth_dev_crash_restart(dev));
		for (unsigned i = 0; i < SECTORS; i++)
			check_survivor(dev, &all[i], i);
	}
	assert_int_equal(counts_of(dev).crashes, points);
	/* Each of the three outcomes is drawn about as often; a low limit leaves few to draw for.
	 */
	assert_true(counts_of(dev).survived > points / 8);
	assert_true(counts_of(dev).vanished > points / 8);
	assert_true(counts_of(dev).torn > points / 8);
	fth_dev_close(dev);
}

static void no_crash_point_breaks_a_promise(void **state)
{
	(void)state;
	walk_crash_points("crash(mem:24K)", 8000, 1);
	walk_crash_points("crash(mem:24K)?limit=4K", 1500, 2);
	walk_crash_points("crash(fault(mem:24K))", 1000, 3);
}

/* Bytes of the whole device after a fixed script and one power loss. */
static void crash_image(uint64_t seed, uint64_t *image)
{
	struct fth_dev *dev = open_dev("crash(mem:24K)");

	for (unsigned i = 0; i < 40; i++)
		assert_ok(put(dev, (i * 7) % 40, 8, i + 1));
	crash_and_restart(dev, seed);
	assert_ok(fth_dev_read(dev, image, SECTORS * SECTOR, 0, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

static void the_same_seed_gives_the_same_contents(void **state)
{
	static uint64_t first[SECTORS * WORDS], again[SECTORS * WORDS], other[SECTORS * WORDS];

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		crash_image(seed, first);
		crash_image(seed, again);
		crash_image(seed + 1000, other);
		assert_memory_equal(first, again, sizeof(first));
		assert_memory_not_equal(first, other, sizeof(first));
	}
}

static void overlapping_writes_land_in_any_order(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:24K)");
	unsigned seen[4] = {0};

	(void)state;
	for (unsigned seed = 0; seed < 300; seed++) {
		assert_ok(put(dev, 0, 1, 1));
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		assert_ok(put(dev, 0, 1, 2));
		assert_ok(put(dev, 0, 1, 3));
		crash_and_restart(dev, seed);
		assert_in_range(get(dev, 0), 1, 3);
		seen[get(dev, 0)]++;
	}
	for (unsigned i = 1; i < 4; i++)
		assert_true(seen[i] > 30);
	fth_dev_close(dev);
}

static void writes_tear_at_sectors_only(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K?block=4096)");
	unsigned patterns = 0, torn = 0;

	(void)state;
	for (unsigned seed = 0; seed < 200; seed++) {
		uint64_t buf[8 * WORDS];
		unsigned new = 0;

		assert_ok(put(dev, 8, 8, 1));
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		assert_ok(put(dev, 8, 8, 2));
		crash_and_restart(dev, seed);
		assert_ok(fth_dev_read(dev, buf, sizeof(buf), 8 * SECTOR, FTH_DEV_TIMEOUT));
		for (unsigned i = 0; i < 8 * WORDS; i++) {
			assert_in_range(buf[i], 1, 2);
			assert_int_equal(buf[i], buf[i / WORDS * WORDS]);
		}
		for (unsigned i = 0; i < 8; i++)
			new |= (unsigned)(buf[i * WORDS] - 1) << i;
		torn += new != 0 && new != 0xff;
		patterns |= new;
	}
	assert_in_range(torn, 30, 110);
	assert_int_equal(patterns, 0xff);
	fth_dev_close(dev);
}

static void requests_in_flight_fail(void **state)
{
	struct fth_dev *dev = open_dev("crash(delay(mem:64K)?read_us=2000)");
	struct fth_dev_req reqs[3], *list[3], *done[3];
	struct fth_dev_chan *chan;
	uint64_t bufs[2][WORDS];

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 8, &chan));
	stamp(bufs[0], 1, 9);
	fth_dev_req_init(&reqs[0], FTH_DEV_WRITE, bufs[0], SECTOR, 0);
	fth_dev_req_init(&reqs[1], FTH_DEV_READ, bufs[1], SECTOR, SECTOR);
	fth_dev_req_init(&reqs[2], FTH_DEV_FLUSH, NULL, 0, 0);
	for (unsigned i = 0; i < 3; i++)
		list[i] = &reqs[i];
	assert_int_equal(fth_dev_submit(chan, list, 3), 3);
	assert_ok(fth_dev_crash_power_loss(dev, 1));
	assert_int_equal(fth_dev_crash_power_loss(dev, 1), -ENODEV);
	assert_ok(fth_dev_crash_restart(dev));
	/* They were in flight then, so they fail now, though the power is back. */
	assert_int_equal(fth_dev_reap(chan, done, 3, 3, FTH_NEVER), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(reqs[i].result, -ENODEV);
	assert_int_equal(fth_dev_crash_restart(dev), -EALREADY);
	assert_int_equal(fth_dev_submit(chan, list, 3), 3);
	assert_int_equal(fth_dev_reap(chan, done, 3, 3, FTH_NEVER), 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(reqs[i].result, 0);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* How often a write survives a crash when a flush was done after it: reaped before, or after. */
static unsigned surviving(bool reap_first)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)");
	struct fth_dev_req req, *r = &req, *done;
	struct fth_dev_chan *chan;
	unsigned survived = 0;
	uint64_t buf[WORDS];

	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	for (unsigned seed = 1; seed <= 100; seed++) {
		stamp(buf, 1, seed);
		fth_dev_req_init(&req, FTH_DEV_WRITE, buf, SECTOR, 0);
		assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
		if (reap_first)
			assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		if (!reap_first)
			assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
		assert_int_equal(req.result, 0);
		crash_and_restart(dev, seed);
		survived += get(dev, 0) == seed;
	}
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
	return survived;
}

static void a_flush_covers_only_what_had_completed(void **state)
{
	(void)state;
	assert_int_equal(surviving(true), 100);
	assert_in_range(surviving(false), 20, 80);
}

/* Of two that overlap in flight either may win, but it must not change once both are done. */
static void overlapping_writes_in_flight_settle(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)");
	struct fth_dev_chan *slow, *fast;
	struct fth_dev_req first, second, *r = &first, *done;
	uint64_t a[2 * WORDS], b[2 * WORDS], seen;

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 1, &slow));
	assert_ok(fth_dev_chan_open(dev, 1, &fast));
	stamp(a, 2, 1);
	stamp(b, 2, 2);
	fth_dev_req_init(&first, FTH_DEV_WRITE, a, sizeof(a), 0);
	fth_dev_req_init(&second, FTH_DEV_WRITE, b, sizeof(b), SECTOR);
	assert_int_equal(fth_dev_submit(slow, &r, 1), 1);
	r = &second;
	assert_int_equal(fth_dev_submit(fast, &r, 1), 1);
	assert_int_equal(fth_dev_reap(fast, &done, 1, 1, FTH_NEVER), 1);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_reap(slow, &done, 1, 1, FTH_NEVER), 1);
	seen = get(dev, 1);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(get(dev, 1), seen);
	assert_int_equal(get(dev, 0), 1);
	assert_int_equal(get(dev, 2), 2);
	fth_dev_chan_close(slow);
	fth_dev_chan_close(fast);
	fth_dev_close(dev);
}

/*
 * Of 200 writes of two devices that were not flushed, those with FUA are all there, and not all the
 * others.
 */
static void a_durable_write_takes_no_other_with_it(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:400K)"),
		       *lying = open_dev("crash(mem:400K)?lie=on");
	unsigned others = 0, lied = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		assert_ok(put(dev, 2 * i, 1, i + 1));
		assert_ok(put_through(dev, 2 * i + 1, 1, i + 1));
		assert_ok(put_through(lying, 2 * i, 1, i + 1));
	}
	assert_int_equal(counts_of(dev).pending, 200);
	crash_and_restart(dev, 1);
	crash_and_restart(lying, 1);
	for (unsigned i = 0; i < 200; i++) {
		others += get(dev, 2 * i) == i + 1;
		lied += get(lying, 2 * i) == i + 1;
		assert_int_equal(get(dev, 2 * i + 1), i + 1);
	}
	assert_in_range(others, 50, 150);
	assert_in_range(lied, 50, 150);
	fth_dev_close(lying);
	fth_dev_close(dev);
}

/* Until reap has returned it, a write with FUA can be lost as any other. */
static void a_durable_write_in_flight_can_be_lost(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:24K)");
	uint64_t buf[WORDS];
	unsigned lost = 0;

	(void)state;
	stamp(buf, 1, 7);
	for (unsigned seed = 0; seed < 60; seed++) {
		struct fth_dev_req req, *done, *r = &req;
		struct fth_dev_chan *chan;

		assert_ok(put_through(dev, 3, 1, 5));
		assert_ok(fth_dev_chan_open(dev, 1, &chan));
		fth_dev_req_init(&req, FTH_DEV_WRITE, buf, SECTOR, 3 * SECTOR);
		req.flags = FTH_DEV_FUA;
		assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
		assert_ok(fth_dev_crash_power_loss(dev, seed));
		assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_DEV_TIMEOUT), 1);
		assert_int_equal(req.result, -ENODEV);
		fth_dev_chan_close(chan);
		assert_ok(fth_dev_crash_restart(dev));
		assert_true(get(dev, 3) == 5 || get(dev, 3) == 7);
		lost += get(dev, 3) == 5;
	}
	assert_in_range(lost, 10, 50);
	fth_dev_close(dev);
}

static void a_lying_drive_loses_what_it_flushed(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)?lie=on");
	unsigned lost = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 100; seed++) {
		assert_ok(put(dev, 0, 1, seed));
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		crash_and_restart(dev, seed);
		lost += get(dev, 0) != seed;
	}
	assert_in_range(lost, 20, 80);
	fth_dev_close(dev);
}

static void the_uri_can_name_the_crash_point(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)?crash_at=3&seed=5");

	(void)state;
	assert_ok(put(dev, 0, 1, 1));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_int_equal(get(dev, 0), 1); /* reads are not counted */
	assert_int_equal(put(dev, 1, 1, 1), -ENODEV);
	assert_int_equal(put(dev, 1, 1, 1), -ENODEV);
	assert_int_equal(counts_of(dev).operations, 3);
	assert_ok(fth_dev_crash_restart(dev));
	for (unsigned i = 0; i < 20; i++)
		assert_ok(put(dev, 1, 1, 1)); /* only once */
	fth_dev_close(dev);
}

/* ---- threads ---- */

#define THREADS 4

struct writer {
	struct fth_dev *dev;
	unsigned sector;
	uint64_t tried, durable;
	int error;
};

static int do_one(struct fth_dev_chan *chan, enum fth_dev_op op, uint64_t *buf, unsigned sector)
{
	struct fth_dev_req req, *r = &req, *done;
	int rc;

	fth_dev_req_init(&req, op, buf, SECTOR, (uint64_t)sector * SECTOR);
	rc = fth_dev_submit(chan, &r, 1);
	if (rc == 1)
		rc = fth_dev_reap(chan, &done, 1, 1, FTH_NEVER);
	return rc == 1 ? req.result : -EPROTO;
}

/* Write 1, 2, 3, ... each made durable, until the power goes. */
static void *write_until_dark(void *arg)
{
	struct writer *w = arg;
	struct fth_dev_chan *chan;
	uint64_t buf[WORDS];
	int rc = fth_dev_chan_open(w->dev, 2, &chan);

	while (rc == 0) {
		stamp(buf, 1, ++w->tried);
		rc = do_one(chan, FTH_DEV_WRITE, buf, w->sector);
		if (rc == 0)
			rc = do_one(chan, FTH_DEV_FLUSH, NULL, 0);
		if (rc == 0)
			w->durable = w->tried;
	}
	w->error = rc;
	fth_dev_chan_close(chan);
	return NULL;
}

static void every_thread_keeps_what_it_flushed(void **state)
{
	struct fth_dev *dev = open_dev("crash(mem:64K)");

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct writer writers[THREADS];
		pthread_t threads[THREADS];

		assert_ok(fth_dev_zero(dev, THREADS * SECTOR, 0, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
		for (unsigned i = 0; i < THREADS; i++) {
			writers[i] = (struct writer){.dev = dev, .sector = i};
			assert_int_equal(
				pthread_create(&threads[i], NULL, write_until_dark, &writers[i]),
				0);
		}
		if (round % 2) {
			assert_ok(fth_dev_crash_at(dev, 100, round));
		} else {
			sched_yield();
			assert_ok(fth_dev_crash_power_loss(dev, round));
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_ok(fth_dev_crash_restart(dev));
		for (unsigned i = 0; i < THREADS; i++) {
			assert_int_equal(writers[i].error, -ENODEV);
			assert_in_range(get(dev, i), writers[i].durable, writers[i].tried);
		}
	}
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_crash_point_breaks_a_promise),
		cmocka_unit_test(the_same_seed_gives_the_same_contents),
		cmocka_unit_test(overlapping_writes_land_in_any_order),
		cmocka_unit_test(writes_tear_at_sectors_only),
		cmocka_unit_test(requests_in_flight_fail),
		cmocka_unit_test(a_flush_covers_only_what_had_completed),
		cmocka_unit_test(overlapping_writes_in_flight_settle),
		cmocka_unit_test(a_durable_write_takes_no_other_with_it),
		cmocka_unit_test(a_durable_write_in_flight_can_be_lost),
		cmocka_unit_test(a_lying_drive_loses_what_it_flushed),
		cmocka_unit_test(the_uri_can_name_the_crash_point),
		cmocka_unit_test(every_thread_keeps_what_it_flushed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
