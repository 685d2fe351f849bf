/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warps of CPU threads (warp_fixture.h) use a service: its rings, its slots, the real software
 * controller on real devices. What kernels write is on the device and what the device has is
 * read, errors come with their status, and a device that holds commands harms nobody. Runs where
 * there is no GPU.
 */
#include "service_warp_fixture.h"

extern "C" {
#include "dev/testkit/dev_gate.h"
}

#include <stdio.h>
#include <unistd.h>

#define LINE 1024u

static void test_io(void **state)
{
	static const struct shape shapes[] = {
		/* entries slot blocks lanes rounds */
		{64, 512, 1, ~0u, 3},	      {2, 8192, 16, 0x000000f1u, 1},
		{16, 4096, 8, 0xaaaaaaaau, 2}, {128, 1024, 2, ~0u, 2},
		{64, 0, 3, 0x80300f01u, 2},
	};

	(void)state;
	for (const struct shape &s : shapes)
		try_shape("mem:1M", &s, 512);
}

static void test_file(void **state)
{
	static const struct shape shape = {64, 4096, 4, ~0u, 2};
	char path[] = "/tmp/fathom_service_XXXXXX", uri[96];
	int fd = mkstemp(path);
	struct bed *bed;

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, BYTES) == 0);
	close(fd);
	snprintf(uri, sizeof(uri), "file:%s?direct=off", path);
	bed = open_bed(uri, &shape);
	if (!bed) {
		unlink(path);
		skip(); /* a machine that does not allow io_uring */
	}
	close_bed(bed);
	try_shape(uri, &shape, 512);
	unlink(path);
}

static void read_shrunk(struct client *me, uint32_t lane)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint64_t half = me->bed->view.blocks / 2;
	int rc = transfer(me, &warp, FTH_NVME_READ, lane + (lane % 2 ? half : 0), page_of(me, lane),
			  true);

	must(me->bed, lane % 2 ? rc < 0 : rc == 0, "what the file still has, and what not");
}

/* A file that becomes shorter under a drive: errors, and no data that is not there. */
static void test_shrunk(void **state)
{
	static const struct shape shape = {64, 4096, 1, ~0u, 1};
	char path[] = "/tmp/fathom_service_XXXXXX", uri[96];
	int fd = mkstemp(path);
	struct bed *bed;

	(void)state;
	assert_true(fd >= 0 && ftruncate(fd, BYTES) == 0);
	snprintf(uri, sizeof(uri), "file:%s?direct=off", path);
	bed = open_bed(uri, &shape);
	unlink(path);
	if (!bed) {
		close(fd);
		skip();
	}
	assert_int_equal(ftruncate(fd, BYTES / 2), 0);
	close(fd);
	run(bed, 1, read_shrunk);
	check_end(bed);
	close_bed(bed);
}

static void flush_fails(struct client *me, uint32_t lane)
{
	(void)lane;
	must(me->bed, fth_gpu_flush_drive(me->bed->cache) < 0, "a flush that fails");
	must(me->bed, fth_gpu_flush_drive(me->bed->cache) == 0, "and one that does not");
}

/* Something that is an NVMe drive needs no other one around it. */
static void test_nvme(void **state)
{
	static const struct shape shape = {64, 4096, 4, ~0u, 2};
	struct bed *bed = open_bed("softnvme(mem:1M)?queues=1&depth=32", &shape);

	(void)state;
	assert_non_null(bed);
	assert_true(bed->service->of_dev);
	assert_int_equal(bed->view.queues, 1);
	assert_int_equal(bed->service->ids, 31);
	run(bed, WARPS, write_and_read);
	check_end(bed);
	close_bed(bed);
}

/* ---- the cache on it ---- */

static void test_cache(void **state)
{
	(void)state;
	try_cache("mem:1M", LINE, 9, 0);
	try_cache("mem:1M", LINE, 3, 512);
	/* To the end of the device, which is within a line. */
	try_cache("mem:1M", LINE, 3, BYTES - 63 * LINE - 512);
}

/* ---- what goes wrong ---- */

static void test_flush_fault(void **state)
{
	static const struct shape shape = {64, LINE, 1, ~0u, 1};
	struct bed *bed = open_bed("fault(mem:1M)?kind=flush&nth=1", &shape);

	(void)state;
	assert_non_null(bed);
	make_cache(bed, 4, LINE, 0);
	run(bed, 1, flush_fails);
	check_end(bed);
	free_cache(bed);
	close_bed(bed);
}

static void test_refused(void **state)
{
	(void)state;
	try_refused("mem:1M", 512);
}

static void read_faulty(struct client *me, uint32_t lane)
{
	struct fth_gpu_value v = fth_gpu_access_(me->bed->cache, 0, (uint64_t)lane * LINE,
						 FTH_GPU_OP_GET, 8, 0, 0);

	must(me->bed, lane == 5 ? v.rc == -ENODATA : v.rc == 0, "a line and its status");
	must(me->bed, lane == 5 || v.bits == value_of(lane * LINE / 8), "other lines");
}

/* The device fails one line: its status comes, and no other line is the worse for it. */
static void test_fault(void **state)
{
	static const struct shape shape = {64, LINE, 1, ~0u, 1};
	struct bed *bed = open_bed("fault(mem:1M)?kind=read&from=5120&to=6144&every=1", &shape);
	const struct fth_gpu_failure *failure;

	(void)state;
	assert_non_null(bed);
	fill_array(bed, LINE, 0);
	make_cache(bed, 40, LINE, 0);
	run(bed, 1, read_faulty);
	failure = &bed->cache->failure;
	assert_true(failure->taken && failure->line == 5 && !failure->write);
	assert_int_equal(failure->error, -ENODATA);
	assert_int_equal(fth_nvme_status_errno(failure->status), -ENODATA);
	free_cache(bed);
	close_bed(bed);
}

static void expect(struct client *me, uint32_t lane)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	char *page = page_of(me, lane);
	int rc;

	memset(page, 0x11, 512);
	rc = transfer(me, &warp, FTH_NVME_READ, lane, page, true);
	must(me->bed, rc == me->bed->expected, "what was expected");
	/* Of what was left behind nothing comes to our memory. */
	must(me->bed, page[100] == (rc < 0 ? 0x11 : 0), "the memory");
}

/*
 * The device answers nothing until the gate opens, which is longer than kernels wait, and than a
 * stop does: every lane gets -ETIME, and slots are not used again before the device has let go.
 */
static void test_stuck(void **state)
{
	static const struct shape shape = {64, 512, 1, ~0u, 1};
	struct bed *bed = open_bed("gate:1M", &shape);

	(void)state;
	assert_non_null(bed);
	fth_gate_set(bed->service->dev, false);
	bed->patience = 20000000;
	bed->expected = -ETIME;
	run(bed, 1, expect);
	for (uint32_t w = 0; w < (bed->qps[0].ids + 31) / 32; w++)
		assert_int_equal(bed->qps[0].free_ids[w].bits, 0); /* all 32 are held */
	/* A controller that stops before it has fetched the commands has nothing to wait for. */
	assert_true(fth_gate_wait(bed->service->dev, 32));
	assert_int_equal(fth_gpu_service_stop(bed->service, fth_deadline_ns(1000000)), -ETIME);
	fth_gate_set(bed->service->dev, true);
	assert_int_equal(fth_gpu_service_stop(bed->service, fth_deadline_ns(PATIENCE)), 0);
	/* It starts again, and all is well. */
	assert_int_equal(fth_gpu_service_start(bed->service), 0);
	make_queues(bed);
	bed->patience = PATIENCE;
	bed->expected = 0;
	run(bed, 1, expect);
	check_end(bed);
	close_bed(bed);
}

/* Late answers give ids back, although no lane waits for them. */
static void test_late(void **state)
{
	static const struct shape shape = {64, 512, 1, ~0u, 1};
	struct bed *bed = open_bed("gate:1M", &shape);
	uint64_t deadline = fth_deadline_ns(PATIENCE);

	(void)state;
	assert_non_null(bed);
	fth_gate_set(bed->service->dev, false);
	bed->patience = 10000000;
	run(bed, 1, [](struct client *me, uint32_t lane) {
		struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
		int rc = transfer(me, &warp, FTH_NVME_READ, lane, page_of(me, lane), lane < 20);

		must(me->bed, rc == (lane < 20 ? -ETIME : 0), "told in time");
	});
	fth_gate_set(bed->service->dev, true);
	while (bed->qps[0].cq_head != bed->qps[0].ticket && fth_now_ns() < deadline)
		if (!fth_nvme_qp_poll(&bed->qps[0]))
			usleep(1000);
	check_end(bed);
	close_bed(bed);
}

/* One line is made dirty, in the frame that the hand comes to. */
static void dirty_line(struct client *me, uint32_t lane)
{
	uint64_t line = me->bed->cache->hand / 32;
	struct fth_gpu_value v = fth_gpu_access_(me->bed->cache, 0, line * LINE + lane * 8,
						 FTH_GPU_OP_ADD, 8, 1, 0);

	must(me->bed, v.rc == 0, "adding");
}

static void flush_all(struct client *me, uint32_t lane)
{
	(void)lane;
	must(me->bed, fth_gpu_flush_part(me->bed->cache, 0, 1) == me->bed->expected, "the flush");
}

/*
 * Flush while the device answers nothing, which ends with -ETIME; then let it execute the n writes
 * that it holds. The short timeout stays: what is flushed again waits for it.
 */
static void lose_writes(struct bed *bed, unsigned n)
{
	struct fth_dev *dev = bed->service->dev;
	uint64_t deadline = fth_deadline_ns(PATIENCE);
	struct fth_gate_counts counts;

	fth_gate_set(dev, false);
	bed->cache->timeout_ns = 10000000;
	bed->expected = -ETIME;
	run(bed, 1, flush_all);
	assert_true(fth_gate_wait(dev, n));
	fth_gate_set(dev, true);
	do {
		usleep(1000);
		fth_gate_counts(dev, &counts);
	} while (counts.in_flight && fth_now_ns() < deadline);
	assert_int_equal(counts.in_flight, 0);
}

/*
 * A write that was left behind may still happen, with data that has been changed since: the line
 * is never written again after it, and who flushes is told.
 */
static void test_lost_write(void **state)
{
	static const struct shape shape = {64, LINE, 1, ~0u, 1};
	struct bed *bed = open_bed("gate:1M", &shape);

	(void)state;
	assert_non_null(bed);
	make_cache(bed, 8, LINE, 0);
	run(bed, 1, dirty_line); /* reads the line */
	lose_writes(bed, 1);
	assert_true(bed->cache->failure.write && bed->cache->failure.error == -ETIME);
	bed->expected = -ETIMEDOUT;
	run(bed, 1, dirty_line);
	run(bed, 1, flush_all);
	assert_int_equal(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_WRITES), 1);
	free_cache(bed);
	close_bed(bed);
}

/* A device that answers nothing is not asked for line after line: the flush has an end. */
static void test_dead_flush(void **state)
{
	static const struct shape shape = {64, LINE, 1, ~0u, 1};
	struct bed *bed = open_bed("gate:1M", &shape);
	uint64_t lost = 0;

	(void)state;
	assert_non_null(bed);
	make_cache(bed, 32 * 6, LINE, 0);
	for (uint32_t i = 0; i < 6; i++) {
		bed->cache->hand = 32 * i; /* each in frames that are flushed together */
		run(bed, 1, dirty_line);
	}
	lose_writes(bed, 2);
	assert_int_equal(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_WRITES), 2);
	for (uint32_t i = 0; i < FTH_GPU_STAT_SHARDS; i++)
		lost += bed->cache->stats[i][FTH_GPU_LOST_FRAMES];
	assert_int_equal(lost, 2);
	free_cache(bed);
	close_bed(bed);
}

static int open_error(const char *uri, struct fth_gpu_drive_options opts)
{
	struct fth_gpu_service *service = NULL;

	opts.entries = 16;
	return fth_gpu_service_open(uri, &opts, &service);
}

static void test_options(void **state)
{
	const struct fth_gpu_drive_options good = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_drive_options o = good;

	(void)state;
	assert_int_equal(open_error("nothing:1M", o), -EINVAL);
	assert_int_equal(open_error("file:/nowhere/at/all", o), -ENOENT);
	o.ssds = 2;
	assert_int_equal(open_error("mem:1M", o), -EINVAL);
	o = good;
	o.slot = 1000;
	assert_int_equal(open_error("mem:1M", o), -EINVAL);
	o = good;
	o.warps = 3;
	assert_int_equal(open_error("mem:1M", o), -EINVAL);
	o = good;
	o.model = fth_dev_models();
	assert_int_equal(open_error("mem:1M", o), -EINVAL);
	for (uint32_t i = 0; i < 2; i++) {
		o = good;
		o.queues = i * (FTH_GPU_QUEUES_MAX + 1);
		assert_int_equal(open_error("mem:1M", o), -EINVAL);
		assert_int_equal(open_error("softnvme(mem:1M)", o), -EINVAL);
	}
	o = good;
	o.timeout_ms = 0;
	assert_int_equal(open_error("mem:1M", o), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_io),	cmocka_unit_test(test_file),
		cmocka_unit_test(test_nvme),	cmocka_unit_test(test_cache),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_fault),
		cmocka_unit_test(test_stuck),	cmocka_unit_test(test_late),
		cmocka_unit_test(test_lost_write), cmocka_unit_test(test_dead_flush),
		cmocka_unit_test(test_options),	cmocka_unit_test(test_shrunk),
		cmocka_unit_test(test_flush_fault),
	};

	if (fth_dev_scheme_register(&fth_dev_scheme_gate) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
