/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's part of `fathom bench gpufile`: pieces go where the order says, and errors come back.
 */
#include "gpufile_host.h"

#include "fth_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (1u << 20)

static const struct gpufile_watch nobody;

static struct gpufile_order order_of(uint32_t shift, bool random, uint64_t first)
{
	return (struct gpufile_order){.first = first,
				      .mask = BYTES / (GPU_SECTOR << shift) - 1,
				      .shift = shift,
				      .stamp = 7,
				      .random = random};
}

static struct fth_dev *open_filled(const char *uri, unsigned threads)
{
	struct gpufile_order all = order_of(4, false, 0);
	struct fth_dev *dev;

	assert_ok(fth_dev_open(uri, &dev));
	assert_ok(gpufile_fill(dev, &all, threads, &nobody));
	return dev;
}

/* ---- orders ---- */

static void each_piece_comes_once(void **state)
{
	(void)state;
	for (uint32_t shift = 0; shift <= 8; shift++) {
		for (int random = 0; random < 2; random++) {
			struct gpufile_order order = order_of(shift, random, 12345);
			uint8_t *seen = calloc(order.mask + 1, 1);
			uint64_t moved = 0;

			for (uint64_t c = 0; c <= order.mask; c++) {
				uint64_t piece = gpufile_piece(&order, c);

				assert_true(piece <= order.mask);
				assert_int_equal(seen[piece]++, 0);
				moved += piece != ((order.first + c) & order.mask);
			}
			assert_true(random ? moved > order.mask / 2 : moved == 0);
			free(seen);
		}
	}
}

static void sectors_are_those_of_pieces(void **state)
{
	struct gpufile_order order = order_of(3, true, 99);

	(void)state;
	for (uint64_t s = 0; s < 64; s++)
		assert_int_equal(gpufile_sector(&order, 5, s),
				 gpufile_piece(&order, 5 + s / 8) * 8 + s % 8);
}

/* ---- data ---- */

static void a_fill_is_the_same_by_any_number_of_threads(void **state)
{
	char *buf = malloc(BYTES);

	(void)state;
	for (unsigned threads = 1; threads <= 3; threads++) {
		struct fth_dev *dev = open_filled("mem:1M", threads);
		struct gpufile_order all = order_of(0, false, 0);

		assert_ok(fth_dev_read(dev, buf, BYTES, 0, FTH_DEV_TIMEOUT));
		assert_true(gpufile_matches(&all, 0, all.mask + 1, buf));
		buf[BYTES - 1] ^= 1;
		assert_false(gpufile_matches(&all, 0, all.mask + 1, buf));
		all.stamp++;
		buf[BYTES - 1] ^= 1;
		assert_false(gpufile_matches(&all, 0, all.mask + 1, buf));
		fth_dev_close(dev);
	}
	free(buf);
}

/* ---- moving ---- */

static void read_all(struct fth_dev *dev, unsigned depth, uint32_t shift, bool random)
{
	struct gpufile_order order = order_of(shift, random, 31);
	uint64_t n = order.mask + 1, part = n / 3;
	struct gpufile_mover mover = {0};
	char *buf = malloc(BYTES);

	memset(buf, 0, BYTES);
	assert_ok(gpufile_mover_open(dev, depth, &mover));
	assert_ok(gpufile_move(&mover, FTH_DEV_READ, &order, 0, part, buf));
	assert_ok(gpufile_move(&mover, FTH_DEV_READ, &order, part, n - part,
			       buf + part * gpufile_bytes(&order)));
	assert_int_equal(fth_dev_chan_in_flight(mover.chan), 0);
	assert_true(gpufile_matches(&order, 0, n, buf));
	assert_ok(gpufile_move(&mover, FTH_DEV_READ, &order, 0, 0, NULL));
	gpufile_mover_close(&mover);
	gpufile_mover_close(&mover);
	free(buf);
}

static void all_is_read_at_any_depth(void **state)
{
	static const unsigned depths[] = {1, 2, 17, 256};
	struct fth_dev *dev = open_filled("mem:1M", 2);

	(void)state;
	for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		read_all(dev, depths[i], 0, true);
		read_all(dev, depths[i], 3, true);
		read_all(dev, depths[i], 8, false);
	}
	fth_dev_close(dev);
}

static void what_is_written_is_read(void **state)
{
	struct fth_dev *dev = open_filled("mem:1M", 1);
	struct gpufile_order order = order_of(3, true, 3), old = order;
	struct gpufile_mover mover = {0};
	char *buf = malloc(BYTES);

	(void)state;
	order.stamp++;
	assert_ok(gpufile_mover_open(dev, 16, &mover));
	gpufile_stamp(&order, 10, 50, buf);
	assert_ok(gpufile_move(&mover, FTH_DEV_WRITE, &order, 10, 50, buf));
	memset(buf, 0, BYTES);
	assert_ok(gpufile_move(&mover, FTH_DEV_READ, &order, 10, 50, buf));
	assert_true(gpufile_matches(&order, 10, 50, buf));
	/* And nothing else. */
	assert_ok(gpufile_move(&mover, FTH_DEV_READ, &old, 60, 100, buf));
	assert_true(gpufile_matches(&old, 60, 100, buf));
	gpufile_mover_close(&mover);
	fth_dev_close(dev);
	free(buf);
}

/* ---- what goes wrong ---- */

static void an_error_comes_back_and_nothing_is_in_flight(void **state)
{
	struct fth_dev *dev = open_filled("fault(mem:1M)?kind=read&nth=40", 1);
	struct gpufile_order order = order_of(3, true, 0);
	struct gpufile_mover mover = {0};
	char *buf = malloc(BYTES);

	(void)state;
	assert_ok(gpufile_mover_open(dev, 16, &mover));
	assert_true(gpufile_move(&mover, FTH_DEV_READ, &order, 0, 256, buf) < 0);
	assert_int_equal(fth_dev_chan_in_flight(mover.chan), 0);
	gpufile_mover_close(&mover);
	fth_dev_close(dev);
	free(buf);
}

static void pieces_beyond_the_device_are_refused(void **state)
{
	struct gpufile_order order = order_of(3, false, 0);
	struct gpufile_mover mover = {0};
	struct fth_dev *dev;
	char *buf = malloc(BYTES);

	(void)state;
	assert_ok(fth_dev_open("mem:512K", &dev));
	assert_ok(gpufile_mover_open(dev, 16, &mover));
	assert_int_equal(gpufile_move(&mover, FTH_DEV_READ, &order, 0, 256, buf), -ERANGE);
	gpufile_mover_close(&mover);
	fth_dev_close(dev);
	free(buf);
}

static bool stop_at_once(void)
{
	return true;
}

static uint64_t told;

static void note_progress(uint64_t done, uint64_t total)
{
	assert_true(done < total);
	told++;
}

static void a_fill_can_be_watched_and_stopped(void **state)
{
	const struct gpufile_watch watched = {.progress = note_progress};
	const struct gpufile_watch stopped = {.stopped = stop_at_once};
	struct gpufile_order all = order_of(4, false, 0);
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:1M", &dev));
	assert_ok(gpufile_fill(dev, &all, 1, &watched));
	assert_int_equal(told, 1);
	assert_int_equal(gpufile_fill(dev, &all, 2, &stopped), -EINTR);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_piece_comes_once),
		cmocka_unit_test(sectors_are_those_of_pieces),
		cmocka_unit_test(a_fill_is_the_same_by_any_number_of_threads),
		cmocka_unit_test(all_is_read_at_any_depth),
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(an_error_comes_back_and_nothing_is_in_flight),
		cmocka_unit_test(pieces_beyond_the_device_are_refused),
		cmocka_unit_test(a_fill_can_be_watched_and_stopped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
