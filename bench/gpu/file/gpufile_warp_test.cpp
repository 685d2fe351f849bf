/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a warp of `fathom bench gpufile` does (gpufile_warp.h), on CPU threads, with the service
 * that a GPU would use: every block and line is found right, and what is not right is noticed.
 */
#include "gpu/drive/service_warp_fixture.h"

#include "gpufile_host.h"
#include "gpufile_warp.h"

#include <errno.h>

#define STAMP	   7u
#define PLAY_LINES 64u

static struct gpufile_order order;
static uint64_t wrong; /* bits, of all lanes */
static int failed;

static void set_order(uint32_t bytes, bool random)
{
	order = {};
	order.mask = BYTES / bytes - 1;
	while (gpufile_bytes(&order) < bytes)
		order.shift++;
	order.stamp = STAMP;
	order.random = random;
}

static struct bed *open_filled(const char *uri, const struct shape *shape)
{
	const struct gpufile_watch nobody = {};
	struct bed *bed = open_bed(uri, shape);

	assert_non_null(bed);
	set_order(4096, false);
	assert_int_equal(gpufile_fill(bed->service->dev, &order, 1, &nobody), 0);
	wrong = 0;
	failed = 0;
	return bed;
}

static void note(uint64_t bits, int rc)
{
	if (bits)
		__atomic_fetch_or(&wrong, bits, __ATOMIC_RELAXED);
	if (rc < 0)
		__atomic_store_n(&failed, rc, __ATOMIC_RELAXED);
}

static struct gpufile_share share_of(struct client *me)
{
	struct gpufile_share share = {};

	share.view = me->bed->view;
	share.order = order;
	/* A page of the bed is twice what a lane needs. */
	share.from = page_of(me, 0);
	share.to = page_of(me, 16);
	share.queue = me->number % me->bed->view.queues;
	share.hint = me->number;
	share.deadline = fth_deadline_ns(PATIENCE);
	return share;
}

/* ---- blocks ---- */

static void read_blocks(struct client *me, uint32_t)
{
	struct gpufile_share share = share_of(me);
	uint64_t bits = 0;

	for (uint32_t round = 0; round < me->bed->shape->rounds; round++) {
		uint64_t c = (round * WARPS + me->number) * 32;

		note(0, gpufile_read(&share, c, share.queue, &bits));
	}
	note(bits, 0);
}

static void write_blocks(struct client *me, uint32_t)
{
	struct gpufile_share share = share_of(me);
	uint64_t bits = 0;

	share.order.stamp++;
	note(0, gpufile_write_read(&share, me->number * 32, &bits));
	note(bits, 0);
}

static void try_reading(const char *uri, uint32_t bytes)
{
	static const struct shape shape = {64, 4096, 1, ~0u, 2};
	struct bed *bed = open_filled(uri, &shape);
	struct fth_gpu_drive_stats stats = {};

	set_order(bytes, true);
	run(bed, WARPS, read_blocks);
	check_end(bed);
	assert_int_equal(failed, 0);
	assert_int_equal(wrong, 0);
	fth_gpu_service_stats(bed->service, &stats);
	assert_int_equal(stats.commands, WARPS * 32 * shape.rounds);
	assert_int_equal(stats.blocks_read * block_of(bed), stats.commands * bytes);
	/* Other data than there is. */
	order.stamp++;
	run(bed, WARPS, read_blocks);
	assert_int_equal(failed, 0);
	assert_int_not_equal(wrong, 0);
	close_bed(bed);
}

static void test_reading(void **)
{
	try_reading("mem:1M", 512);
	try_reading("mem:1M", 4096);
	try_reading("mem:1M?block=4096", 4096);
}

/* One byte of the device is changed: some lane sees it. */
static void test_one_byte(void **)
{
	static const struct shape shape = {64, 4096, 1, ~0u, 2};
	struct bed *bed = open_filled("mem:1M", &shape);
	char sector[512];
	uint64_t at;

	set_order(4096, true);
	at = gpufile_piece(&order, 40) * 4096 + 512 * 5;
	assert_int_equal(fth_dev_read(bed->service->dev, sector, 512, at, FTH_DEV_TIMEOUT), 0);
	sector[511] ^= 1;
	assert_int_equal(fth_dev_write(bed->service->dev, sector, 512, at, FTH_DEV_TIMEOUT), 0);
	run(bed, WARPS, read_blocks);
	assert_int_equal(failed, 0);
	assert_true(wrong == (uint64_t)1 << 56);
	close_bed(bed);
}

static void test_writing(void **)
{
	static const struct shape shape = {64, 4096, 1, ~0u, 1};
	struct bed *bed = open_filled("mem:1M", &shape);
	char block[4096];

	set_order(4096, true);
	run(bed, WARPS, write_blocks);
	check_end(bed);
	assert_int_equal(failed, 0);
	assert_int_equal(wrong, 0);
	/* All of it is on the device, and the rest is as it was. */
	for (uint64_t c = 0; c <= order.mask; c++) {
		order.stamp = c < WARPS * 32 ? STAMP + 1 : STAMP;
		assert_int_equal(fth_dev_read(bed->service->dev, block, sizeof(block),
					      gpufile_piece(&order, c) * sizeof(block), FTH_DEV_TIMEOUT),
				 0);
		assert_true(gpufile_matches(&order, c, 1, block));
	}
	close_bed(bed);
}

static void test_failing(void **)
{
	static const struct shape shape = {64, 4096, 1, ~0u, 1};
	struct bed *bed = open_filled("fault(mem:1M)?kind=read&nth=50&every=1", &shape);

	set_order(4096, true);
	run(bed, WARPS, read_blocks);
	assert_int_equal(failed, -ENODATA);
	close_bed(bed);
}

/* ---- lines ---- */

static fth_gpu_array<uint64_t> array_of(const struct bed *bed)
{
	fth_gpu_array<uint64_t> a = {};

	a.words = bed->cache->ranges[0].words;
	a.data = bed->cache->data;
	a.count = (uint64_t)PLAY_LINES * 4096 / 8;
	a.cache = bed->cache;
	a.line_shift = bed->cache->line_shift;
	a.readonly = 1;
	return a;
}

static void look_at_lines(struct client *me, uint32_t)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	uint64_t bits = 0;

	/* All warps come to the same few frames. */
	for (uint64_t c = me->number; c < PLAY_LINES; c += 2)
		note(0, gpufile_look(a, gpufile_piece(&order, c) % PLAY_LINES, order.stamp, &bits));
	note(bits, gpufile_look(a, PLAY_LINES, order.stamp, &bits) == -ERANGE ? 0 : -EIO);
}

static void test_lines(void **)
{
	static const struct shape shape = {64, 4096, 1, ~0u, 1};
	struct bed *bed = open_filled("mem:1M", &shape);

	make_cache(bed, 8, 4096, 0);
	for (int random = 0; random < 2; random++) {
		set_order(4096, random);
		run(bed, WARPS, look_at_lines);
		assert_int_equal(failed, 0);
		assert_int_equal(wrong, 0);
	}
	check_end(bed);
	order.stamp++;
	run(bed, WARPS, look_at_lines);
	assert_int_equal(failed, 0);
	assert_int_not_equal(wrong, 0);
	free_cache(bed);
	close_bed(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reading),	 cmocka_unit_test(test_one_byte),
		cmocka_unit_test(test_writing),	 cmocka_unit_test(test_failing),
		cmocka_unit_test(test_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
