/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a fault plan says, to the byte: which operations a range touches, which numbers are hit,
 * and where a torn write stops. dev_fault_test.c has what the device makes of it.
 */
#include "fth_test.h"

#include "dev/wrap/fault_plan.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>

#define NUMBERS 4000u /* so many that each possible stop is drawn */
#define SECTOR	512u

static struct fth_dev_fault_plan new_plan(void)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	return plan;
}

static struct fth_dev_req request(enum fth_dev_op op, uint64_t offset, uint64_t length)
{
	struct fth_dev_req req;

	fth_dev_req_init(&req, op, NULL, length, offset);
	return req;
}

/* ---- which operations ---- */

static bool touches(uint64_t from, uint64_t to, uint64_t offset, uint64_t length)
{
	struct fth_dev_fault_plan plan = new_plan();
	bool all = true, any = false;

	plan.from = from;
	plan.to = to;
	for (unsigned op = 0; op < FTH_DEV_OP_COUNT; op++) {
		struct fth_dev_req req = request((enum fth_dev_op)op, offset, length);
		bool is = fth_fault_plan_matches(&plan, &req);

		if (op == FTH_DEV_FLUSH)
			continue;
		all = all && is;
		any = any || is;
	}
	assert_true(all == any); /* every kind alike */
	return all;
}

static void a_range_is_touched_from_its_first_byte_to_its_last(void **state)
{
	(void)state;
	/* [4096, 8192) */
	assert_false(touches(4096, 8192, 0, 512));
	assert_false(touches(4096, 8192, 3584, 512)); /* ends at from */
	assert_true(touches(4096, 8192, 3584, 513));
	assert_true(touches(4096, 8192, 4096, 512)); /* begins at from */
	assert_true(touches(4096, 8192, 4095, 2));
	assert_true(touches(4096, 8192, 5000, 1));   /* inside */
	assert_true(touches(4096, 8192, 0, 65536));  /* around */
	assert_true(touches(4096, 8192, 7680, 512)); /* ends at to */
	assert_true(touches(4096, 8192, 8191, 1));
	assert_true(touches(4096, 8192, 8191, 512));
	assert_false(touches(4096, 8192, 8192, 512)); /* begins at to */
	assert_false(touches(4096, 8192, 8193, 512));
	/* One byte. */
	assert_false(touches(1, 2, 0, 1));
	assert_true(touches(1, 2, 1, 1));
	assert_false(touches(1, 2, 2, 1));
	/* From the start, and to the end. */
	assert_true(touches(0, 1, 0, 512));
	assert_false(touches(0, 512, 512, 512));
	assert_true(touches(UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - 512, 512));
	assert_false(touches(UINT64_MAX - 1, UINT64_MAX, UINT64_MAX - 513, 512));
}

static void a_flush_matches_only_without_a_range(void **state)
{
	struct fth_dev_req flush = request(FTH_DEV_FLUSH, 0, 0);
	struct fth_dev_fault_plan plan = new_plan();

	(void)state;
	assert_true(fth_fault_plan_matches(&plan, &flush));
	plan.from = 1;
	assert_false(fth_fault_plan_matches(&plan, &flush));
	plan.from = 0;
	plan.to = UINT64_MAX - 1;
	assert_false(fth_fault_plan_matches(&plan, &flush));
}

static void only_the_kinds_that_are_named_match(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < FTH_DEV_OP_COUNT; kind++)
		for (unsigned op = 0; op < FTH_DEV_OP_COUNT; op++) {
			struct fth_dev_fault_plan plan = new_plan();
			struct fth_dev_req req = request((enum fth_dev_op)op, 0, 512);

			plan.kinds = 1u << kind;
			assert_int_equal(fth_fault_plan_matches(&plan, &req), op == kind);
		}
}

/* ---- when ---- */

/* The first 12 numbers as bits: bit i is number i + 1. */
static unsigned hits(uint64_t nth, uint64_t every)
{
	struct fth_dev_fault_plan plan = new_plan();
	unsigned bits = 0;

	plan.nth = nth;
	plan.every = every;
	for (unsigned i = 0; i < 12; i++)
		bits |= (unsigned)fth_fault_plan_hits(&plan, i + 1) << i;
	return bits;
}

static void numbers_are_hit_as_the_options_say(void **state)
{
	(void)state;
	assert_int_equal(hits(0, 0), 0);
	assert_int_equal(hits(1, 0), 0x001);
	assert_int_equal(hits(5, 0), 0x010);
	assert_int_equal(hits(0, 1), 0xfff);
	assert_int_equal(hits(0, 4), 0x888);
	assert_int_equal(hits(1, 4), 0x111);
	assert_int_equal(hits(6, 4), 0x220);
	assert_int_equal(hits(2, 1), 0xffe);
	assert_int_equal(hits(13, 1), 0);
}

static void a_rate_of_0_hits_none_and_of_1_all(void **state)
{
	struct fth_dev_fault_plan plan = new_plan();
	unsigned half = 0;

	(void)state;
	for (unsigned i = 1; i <= NUMBERS; i++) {
		plan.rate = 0;
		assert_false(fth_fault_plan_hits(&plan, i));
		plan.rate = 1;
		assert_true(fth_fault_plan_hits(&plan, i));
		plan.rate = 0.5;
		half += fth_fault_plan_hits(&plan, i);
	}
	assert_in_range(half, NUMBERS * 2 / 5, NUMBERS * 3 / 5);
}

static int check_range(uint64_t from, uint64_t to)
{
	struct fth_dev_fault_plan plan = new_plan();

	plan.from = from;
	plan.to = to;
	return fth_fault_plan_check(&plan);
}

static void a_range_holds_at_least_one_byte(void **state)
{
	(void)state;
	assert_ok(check_range(0, 1));
	assert_ok(check_range(511, 512));
	assert_int_equal(check_range(512, 512), -EINVAL);
	assert_int_equal(check_range(513, 512), -EINVAL);
	assert_int_equal(check_range(0, 0), -EINVAL);
}

static void a_plan_has_kinds_an_error_and_a_mode(void **state)
{
	struct fth_dev_fault_plan plan = new_plan();

	(void)state;
	assert_ok(fth_fault_plan_check(&plan));
	plan.kinds = 0;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan.kinds = FTH_DEV_FAULT_ALL_KINDS + 1;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan = new_plan();
	plan.error = 0;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan.error = 1;
	assert_ok(fth_fault_plan_check(&plan));
	plan.error = 4095;
	assert_ok(fth_fault_plan_check(&plan));
	plan.error = 4096;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan = new_plan();
	plan.mode = FTH_DEV_FAULT_TIMEOUT;
	assert_ok(fth_fault_plan_check(&plan));
	plan.mode = (enum fth_dev_fault_mode)(FTH_DEV_FAULT_TIMEOUT + 1);
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan = new_plan();
	plan.rate = 1.001;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan.rate = -0.001;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
	plan = new_plan();
	plan.size--;
	assert_int_equal(fth_fault_plan_check(&plan), -EINVAL);
}

/* ---- where a torn write stops ---- */

/* All stops that are drawn for a write are exactly these, each of them at least once. */
static void expect_stops(uint64_t offset, uint64_t length, uint32_t block, const uint64_t *want,
			 unsigned n)
{
	struct fth_dev_req req = request(FTH_DEV_WRITE, offset, length);
	struct fth_dev_fault_plan plan = new_plan();
	unsigned seen[16] = {0};

	plan.mode = FTH_DEV_FAULT_TORN;
	for (unsigned number = 1; number <= NUMBERS; number++) {
		uint64_t stop = fth_fault_plan_prefix(&plan, number, &req, block);
		unsigned i = 0;

		while (i < n && want[i] != stop)
			i++;
		if (i == n)
			fail_msg("%u bytes at %u in blocks of %u: stopped after %u",
				 (unsigned)length, (unsigned)offset, block, (unsigned)stop);
		seen[i]++;
	}
	/* And about equally often. */
	for (unsigned i = 0; i < n; i++)
		assert_in_range(seen[i], NUMBERS / n / 2, NUMBERS / n * 3 / 2);
}

#define EXPECT_STOPS(offset, length, block, ...)                            \
	do {                                                                \
		static const uint64_t want_[] = {__VA_ARGS__};              \
		expect_stops(offset, length, block, want_,                  \
			     (unsigned)(sizeof(want_) / sizeof(want_[0]))); \
	} while (0)

static void a_torn_write_stops_at_sectors_before_its_end(void **state)
{
	(void)state;
	/* Of one sector nothing is written. */
	EXPECT_STOPS(0, 512, 512, 0);
	EXPECT_STOPS(512, 512, 512, 0);
	EXPECT_STOPS(1536, 512, 512, 0);
	EXPECT_STOPS(0, 1024, 512, 0, 512);
	EXPECT_STOPS(512, 1024, 512, 0, 512);
	EXPECT_STOPS(0, 2048, 512, 0, 512, 1024, 1536);
	EXPECT_STOPS(7 * 512, 2048, 512, 0, 512, 1024, 1536);
}

static void a_torn_write_of_bytes_stops_at_sectors_of_the_device(void **state)
{
	(void)state;
	EXPECT_STOPS(0, 1, 1, 0);
	EXPECT_STOPS(0, 511, 1, 0);
	EXPECT_STOPS(0, 512, 1, 0);
	EXPECT_STOPS(0, 513, 1, 0, 512);
	EXPECT_STOPS(1, 511, 1, 0); /* ends at a boundary */
	EXPECT_STOPS(1, 512, 1, 0, 511);
	EXPECT_STOPS(511, 1, 1, 0);
	EXPECT_STOPS(511, 2, 1, 0, 1);
	EXPECT_STOPS(511, 514, 1, 0, 1, 513);
	EXPECT_STOPS(100, 1436, 1, 0, 412, 924); /* ends at 1536 */
	EXPECT_STOPS(100, 1437, 1, 0, 412, 924, 1436);
}

static void a_torn_write_of_large_blocks_stops_at_blocks(void **state)
{
	(void)state;
	EXPECT_STOPS(0, 4096, 4096, 0);
	EXPECT_STOPS(4096, 4096, 4096, 0);
	EXPECT_STOPS(0, 8192, 4096, 0, 4096);
	EXPECT_STOPS(4096, 12288, 4096, 0, 4096, 8192);
	EXPECT_STOPS(0, 2048, 1024, 0, 1024);
}

/* ---- on a device ---- */

static struct fth_dev *open_fault(const char *uri)
{
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	return dev;
}

static void only_what_touches_the_range_fails(void **state)
{
	struct fth_dev *dev = open_fault("fault(mem:64K)?from=4K&to=8K&every=1");
	static char buf[65536];

	(void)state;
	assert_ok(fth_dev_write(dev, buf, 4096, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_write(dev, buf, 512, 4096, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(fth_dev_read(dev, buf, 512, 8192 - 512, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_dev_read(dev, buf, 512, 8192, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_zero(dev, 512, 4096 - 512, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_zero(dev, 1024, 4096 - 512, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_dev_discard(dev, 65536 - 8192, 8192, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_discard(dev, 1024, 8192 - 512, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_close(dev);
}

/* One write of three pieces of two sectors, on zeroes. Returns how many sectors were written. */
static unsigned tear_once(struct fth_dev *dev, struct fth_dev_chan *chan)
{
	static char pieces[3][2 * SECTOR], got[8 * SECTOR];
	struct iovec iov[3];
	struct fth_dev_req req = request(FTH_DEV_WRITE, SECTOR, sizeof(pieces)), *r = &req, *done;
	unsigned written = 0;

	for (unsigned i = 0; i < 3; i++) {
		memset(pieces[i], (int)(2 * i + 1), SECTOR);
		memset(pieces[i] + SECTOR, (int)(2 * i + 2), SECTOR);
		iov[i] = (struct iovec){pieces[i], sizeof(pieces[i])};
	}
	req.iov = iov;
	req.iov_count = 3;
	assert_ok(fth_dev_zero(dev, sizeof(got), 0, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	assert_int_equal(req.result, -EIO);
	assert_ok(fth_dev_read(dev, got, sizeof(got), 0, FTH_DEV_TIMEOUT));
	while (written < 6 && got[(written + 1) * SECTOR] != 0)
		written++;
	for (unsigned i = 0; i < sizeof(got); i++) {
		unsigned sector = i / SECTOR;

		assert_int_equal(got[i], sector >= 1 && sector <= written ? (int)sector : 0);
	}
	return written;
}

static void a_torn_write_is_a_prefix_of_all_its_pieces(void **state)
{
	struct fth_dev *dev = open_fault("fault(mem:64K)?kind=write&every=1&mode=torn");
	unsigned seen[7] = {0};
	struct fth_dev_chan *chan;

	(void)state;
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	for (unsigned i = 0; i < 200; i++)
		seen[tear_once(dev, chan)]++;
	for (unsigned i = 0; i < 6; i++)
		assert_true(seen[i] > 0);
	assert_int_equal(seen[6], 0); /* never all of it */
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_range_is_touched_from_its_first_byte_to_its_last),
		cmocka_unit_test(a_flush_matches_only_without_a_range),
		cmocka_unit_test(only_the_kinds_that_are_named_match),
		cmocka_unit_test(numbers_are_hit_as_the_options_say),
		cmocka_unit_test(a_rate_of_0_hits_none_and_of_1_all),
		cmocka_unit_test(a_range_holds_at_least_one_byte),
		cmocka_unit_test(a_plan_has_kinds_an_error_and_a_mode),
		cmocka_unit_test(a_torn_write_stops_at_sectors_before_its_end),
		cmocka_unit_test(a_torn_write_of_bytes_stops_at_sectors_of_the_device),
		cmocka_unit_test(a_torn_write_of_large_blocks_stops_at_blocks),
		cmocka_unit_test(only_what_touches_the_range_fails),
		cmocka_unit_test(a_torn_write_is_a_prefix_of_all_its_pieces),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
