/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warps of CPU threads (warp_fixture.h) use a service: its rings, its slots, the real software
 * controller on real devices. What kernels write is on the device and what the device has is
 * read, errors come with their status, and a device that holds commands harms nobody. Runs where
 * there is no GPU.
 */
#include "warp_fixture.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/gpu/flush.h"
#include "fathom/gpu/runs.h"
#include "service.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

#define WARPS	 3u
#define QUEUES	 2u
#define PATIENCE 20000000000ull
#define BYTES	 (1u << 20)

/* How warps use it. */
struct shape {
	uint32_t entries, slot, blocks, lanes, rounds;
};

struct bed {
	struct fth_gpu_service *service;
	struct fth_nvme_qp *qps;
	void *memory[QUEUES];
	struct fth_gpu_view view;
	const struct shape *shape;
	struct fth_gpu_cache_state *cache;
	char *pages; /* 8 KiB for each lane of each warp: what would be GPU memory */
	uint64_t patience;
	uint32_t wrong;
	int expected; /* what lanes must be told */
};

struct client {
	struct bed *bed;
	uint32_t number;
	pthread_t thread;
	void (*body)(struct client *me, uint32_t lane);
};

static uint64_t word_of(uint64_t block, uint32_t i)
{
	return fth_mix64(block + 1) + i;
}

/* ---- the test bed ---- */

/* The other half of the queue pairs, as a GPU would make it. */
static void make_queues(struct bed *bed)
{
	struct fth_gpu_service *s = bed->service;

	for (uint32_t q = 0; q < s->queues; q++) {
		struct fth_nvme_qp_setup setup;

		fth_gpu_service_setup(s, q, &setup);
		setup.memory = bed->memory[q];
		setup.far = true;
		assert_int_equal(fth_nvme_qp_init(&bed->qps[q], &setup), 0);
	}
}

static struct bed *open_bed(const char *uri, const struct shape *shape)
{
	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;
	struct bed *bed = (struct bed *)calloc(1, sizeof(*bed));
	struct fth_gpu_service *s;

	opts.queues = QUEUES;
	opts.entries = shape->entries;
	opts.slot = shape->slot;
	opts.threads = 1;
	if (fth_gpu_service_open(uri, &opts, &bed->service) < 0) {
		print_message("%s\n", fth_error_text(0));
		free(bed);
		return NULL;
	}
	s = bed->service;
	bed->shape = shape;
	bed->patience = PATIENCE;
	bed->qps = (struct fth_nvme_qp *)aligned_alloc(64, QUEUES * sizeof(*bed->qps));
	for (uint32_t q = 0; q < s->queues; q++)
		bed->memory[q] = aligned_alloc(
			64, (fth_nvme_qp_memory(s->shift, s->ids) + 63) / 64 * 64);
	bed->pages = (char *)aligned_alloc(8192, WARPS * 32 * 8192);
	make_queues(bed);
	bed->view.qps = bed->qps;
	bed->view.blocks = s->bytes / 512;
	bed->view.queues = s->queues;
	bed->view.ssds = 1;
	bed->view.bounce = (uint8_t *)s->bounce.ptr;
	bed->view.bounce_bus = s->bounce.iova;
	bed->view.bounce_slot = s->slot;
	return bed;
}

static void close_bed(struct bed *bed)
{
	assert_int_equal(fth_gpu_service_stop(bed->service, fth_deadline_ns(PATIENCE)), 0);
	fth_gpu_service_close(bed->service);
	for (uint32_t q = 0; q < QUEUES; q++)
		free(bed->memory[q]);
	free(bed->qps);
	free(bed->pages);
	free(bed);
}

static void *client_thread(void *arg)
{
	fixture_run_warp(
		[](void *arg, uint32_t lane) {
			struct client *me = (struct client *)arg;

			fixture_number_warp(me->number);
			me->body(me, lane);
		},
		arg);
	return NULL;
}

static void run(struct bed *bed, uint32_t warps, void (*body)(struct client *me, uint32_t lane))
{
	struct client clients[WARPS];

	bed->wrong = 0;
	for (uint32_t i = 0; i < warps; i++) {
		clients[i] = {bed, i, 0, body};
		assert_int_equal(
			pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]), 0);
	}
	for (uint32_t i = 0; i < warps; i++)
		pthread_join(clients[i].thread, NULL);
	assert_int_equal(bed->wrong, 0);
}

static void must(struct bed *bed, bool right, const char *what)
{
	if (right)
		return;
	if (fth_add_relaxed_dev32(&bed->wrong, 1) == 0)
		print_message("wrong: %s\n", what);
}

/* All ids are free, and nothing is under way. */
static void check_end(const struct bed *bed)
{
	for (uint32_t q = 0; q < bed->view.queues; q++) {
		const struct fth_nvme_qp *qp = &bed->qps[q];
		uint32_t ids = 0;

		for (uint32_t w = 0; w < (qp->ids + 31) / 32; w++)
			ids += (uint32_t)__builtin_popcount(qp->free_ids[w].bits);
		assert_int_equal(ids, qp->ids);
		assert_int_equal(qp->ticket, qp->cq_head);
		assert_int_equal(qp->ring_lock + qp->drain_lock + qp->failed + qp->waiters, 0);
	}
}

static int transfer(struct client *me, const struct fth_nvme_warp *warp, uint8_t opcode,
		    uint64_t first, void *memory, bool want)
{
	struct fth_gpu_io io = {};

	io.opcode = opcode;
	io.first = first;
	io.blocks = me->bed->shape->blocks;
	io.memory = memory;
	return fth_gpu_io(&me->bed->view, me->number % me->bed->view.queues, warp, want, &io,
			  me->number, fth_deadline_ns(me->bed->patience));
}

static char *page_of(struct client *me, uint32_t lane)
{
	return me->bed->pages + (me->number * 32 + lane) * 8192;
}

/* ---- reading and writing ---- */

static void write_and_read(struct client *me, uint32_t lane)
{
	const struct shape *s = me->bed->shape;
	uint64_t *words = (uint64_t *)page_of(me, lane);
	struct fth_nvme_warp warp;

	if (!(s->lanes & 1u << lane))
		return;
	warp = fth_nvme_warp_of(s->lanes);
	for (uint32_t round = 0; round < s->rounds; round++) {
		uint64_t first = ((round * WARPS + me->number) * 32 + lane) * s->blocks;
		bool want = fth_mix64(first) % 4 != 0;

		for (uint32_t i = 0; i < s->blocks * 64; i++)
			words[i] = word_of(first + i / 64, i % 64);
		must(me->bed, transfer(me, &warp, FTH_NVME_WRITE, first, words, want) == 0,
		     "writing");
		memset(words, 0, s->blocks * 512);
		must(me->bed, transfer(me, &warp, FTH_NVME_READ, first, words, want) == 0,
		     "reading");
		for (uint32_t i = 0; want && i < s->blocks * 64; i++)
			must(me->bed, words[i] == word_of(first + i / 64, i % 64), "a word");
		must(me->bed, transfer(me, &warp, FTH_NVME_FLUSH, 0, NULL, lane == warp.leader) == 0,
		     "flushing");
	}
}

/* Blocks on the device are those that were written, and the rest is as it was. */
static void check_device(struct bed *bed)
{
	const struct shape *s = bed->shape;
	uint64_t words[64];

	for (uint64_t block = 0; block < BYTES / 512; block++) {
		uint64_t thread = block / s->blocks, first = thread * s->blocks;
		bool written = thread < 32 * WARPS * s->rounds && (s->lanes >> thread % 32 & 1) &&
			       fth_mix64(first) % 4 != 0;

		assert_int_equal(fth_dev_read(bed->service->dev, words, 512, block * 512), 0);
		for (uint32_t i = 0; i < 64; i++)
			assert_int_equal(words[i], written ? word_of(block, i) : 0);
	}
}

static void try_shape(const char *uri, const struct shape *shape)
{
	struct bed *bed = open_bed(uri, shape);
	struct fth_gpu_drive_stats stats = {};
	uint64_t tickets = 0;

	assert_non_null(bed);
	run(bed, WARPS, write_and_read);
	check_end(bed);
	check_device(bed);
	fth_gpu_service_stats(bed->service, &stats);
	for (uint32_t q = 0; q < bed->view.queues; q++)
		tickets += bed->qps[q].ticket;
	assert_int_equal(stats.commands, tickets);
	assert_int_equal(stats.blocks_read, stats.blocks_written);
	assert_int_equal(stats.errors, 0);
	/* Flushes of the kernel have reached the device. */
	assert_true(stats.flushes > 0);
	assert_int_equal(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_FLUSHES), stats.flushes);
	close_bed(bed);
}

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
		try_shape("mem:1M", &s);
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
	try_shape(uri, &shape);
	unlink(path);
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

#define LINES 64u
#define LINE  1024u

static void make_cache(struct bed *bed, uint32_t frames)
{
	struct fth_gpu_cache_state *cache =
		(struct fth_gpu_cache_state *)aligned_alloc(128, sizeof(*cache));

	memset(cache, 0, sizeof(*cache));
	cache->data = (uint8_t *)aligned_alloc(8192, (frames + 7) / 8 * 8 * LINE);
	cache->tags = (uint64_t *)malloc(frames * 8);
	memset(cache->tags, 0xff, frames * 8);
	cache->frames = frames;
	cache->line_shift = 10;
	cache->blocks_per_line = LINE / 512;
	cache->ahead = frames / 4;
	cache->timeout_ns = PATIENCE;
	cache->drive = bed->view;
	cache->ranges[0].words = (uint64_t *)calloc(LINES, 8);
	cache->ranges[0].lines = LINES;
	bed->cache = cache;
}

static void free_cache(struct bed *bed)
{
	free(bed->cache->data);
	free(bed->cache->tags);
	free(bed->cache->ranges[0].words);
	free(bed->cache);
}

static void fill_device(struct bed *bed)
{
	uint64_t words[64];

	for (uint64_t block = 0; block < LINES * LINE / 512; block++) {
		for (uint32_t i = 0; i < 64; i++)
			words[i] = word_of(block, i);
		assert_int_equal(fth_dev_write(bed->service->dev, words, 512, block * 512), 0);
	}
}

static void add_and_read(struct client *me, uint32_t lane)
{
	struct fth_rng rng = {me->number * 32 + lane};

	for (uint32_t k = 0; k < me->bed->shape->rounds; k++) {
		uint64_t i = fth_rng_below(&rng, LINES * LINE / 8) & ~(uint64_t)1;
		struct fth_gpu_value v =
			fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_ADD, 8, 1, 0);

		must(me->bed, v.rc == 0, "adding");
		v = fth_gpu_access_(me->bed->cache, 0, (i + 1) * 8, FTH_GPU_OP_GET, 8, 0, 0);
		must(me->bed, v.rc == 0 && v.bits == word_of((i + 1) / 64, (i + 1) % 64),
		     "its neighbour");
	}
}

static void flush(struct client *me, uint32_t lane)
{
	(void)lane;
	must(me->bed, fth_gpu_flush_part(me->bed->cache, me->number, WARPS) == 0, "flushing");
	if (me->number == 0)
		must(me->bed, fth_gpu_flush_drive(me->bed->cache) == 0, "flushing the drive");
}

static void try_cache(uint32_t frames)
{
	static const struct shape shape = {16, LINE, 1, ~0u, 4};
	struct bed *bed = open_bed("mem:1M", &shape);
	uint64_t words[64], added = 0;

	assert_non_null(bed);
	fill_device(bed);
	make_cache(bed, frames);
	run(bed, WARPS, add_and_read);
	run(bed, WARPS, flush);
	check_end(bed);
	for (uint64_t block = 0; block < LINES * LINE / 512; block++) {
		assert_int_equal(fth_dev_read(bed->service->dev, words, 512, block * 512), 0);
		for (uint32_t i = 0; i < 64; i++)
			added += words[i] - word_of(block, i);
	}
	assert_int_equal(added, WARPS * 32 * shape.rounds);
	assert_true(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_FLUSHES) > 0);
	free_cache(bed);
	close_bed(bed);
}

static void test_cache(void **state)
{
	(void)state;
	try_cache(9);
	try_cache(3);
}

/* ---- what goes wrong ---- */

static void ask_wrongly(struct client *me, uint32_t lane)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint64_t end = me->bed->view.blocks;
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done;
	struct fth_gpu_io io = {};
	int rc = transfer(me, &warp, FTH_NVME_READ, lane % 2 ? end : lane, page_of(me, lane), true);

	must(me->bed, rc == (lane % 2 ? -ERANGE : 0), "a block beyond the device");
	rc = transfer(me, &warp, FTH_NVME_WRITE, UINT64_MAX, page_of(me, lane), true);
	must(me->bed, rc == -ERANGE, "the last block of all");
	io.opcode = FTH_NVME_READ;
	io.blocks = lane % 2 ? 2 : 1;
	io.memory = page_of(me, lane);
	rc = fth_gpu_io(&me->bed->view, 0, &warp, true, &io, 0, fth_deadline_ns(PATIENCE));
	must(me->bed, rc == (lane % 2 ? -EINVAL : 0), "longer than a slot");
	/* Memory that was not granted: neither read nor written. */
	memset(page_of(me, lane), 0x5a, 512);
	command.opcode = lane % 2 ? FTH_NVME_READ : FTH_NVME_WRITE;
	command.nsid = 1;
	command.prp1 = (uint64_t)page_of(me, lane);
	command.cdw10 = lane;
	rc = fth_nvme_warp_exec(me->bed->qps, &warp, true, &command, 0, fth_deadline_ns(PATIENCE),
				&done, NULL);
	must(me->bed, rc == -EFAULT, "memory of others");
	must(me->bed, page_of(me, lane)[17] == 0x5a, "memory of others, unharmed");
}

static void test_refused(void **state)
{
	static const struct shape shape = {64, 512, 1, ~0u, 1};
	struct bed *bed = open_bed("mem:1M", &shape);
	struct fth_gpu_drive_stats stats = {};

	(void)state;
	assert_non_null(bed);
	run(bed, 1, ask_wrongly);
	check_end(bed);
	fth_gpu_service_stats(bed->service, &stats);
	assert_int_equal(stats.errors, 16 + 32 + 32);
	close_bed(bed);
}

static void read_faulty(struct client *me, uint32_t lane)
{
	struct fth_gpu_value v = fth_gpu_access_(me->bed->cache, 0, (uint64_t)lane * LINE,
						 FTH_GPU_OP_GET, 8, 0, 0);

	must(me->bed, lane == 5 ? v.rc == -ENODATA : v.rc == 0, "a line and its status");
	must(me->bed, lane == 5 || v.bits == word_of(lane * 2, 0), "other lines");
}

/* The device fails one line: its status comes, and no other line is the worse for it. */
static void test_fault(void **state)
{
	static const struct shape shape = {64, LINE, 1, ~0u, 1};
	struct bed *bed = open_bed("fault(mem:1M)?kind=read&from=5120&to=6144&every=1", &shape);
	const struct fth_gpu_failure *failure;

	(void)state;
	assert_non_null(bed);
	fill_device(bed);
	make_cache(bed, 40);
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
 * The device holds commands for longer than kernels wait, and than a stop does: all are told in
 * time, and slots are not used again before the device has let go.
 */
static void test_stuck(void **state)
{
	static const struct shape shape = {64, 512, 1, ~0u, 1};
	struct bed *bed = open_bed("fault(mem:1M)?nth=1&every=1&count=32&mode=timeout&hold_ms=400",
				   &shape);
	int rc;

	(void)state;
	assert_non_null(bed);
	bed->patience = 20000000;
	bed->expected = -ETIME;
	run(bed, 1, expect);
	for (uint32_t w = 0; w < (bed->qps[0].ids + 31) / 32; w++)
		assert_int_equal(bed->qps[0].free_ids[w].bits, 0); /* all 32 are held */
	assert_int_equal(fth_gpu_service_stop(bed->service, fth_deadline_ns(1000000)), -ETIME);
	do
		rc = fth_gpu_service_stop(bed->service, fth_deadline_ns(100000000));
	while (rc == -ETIME);
	assert_int_equal(rc, 0);
	/* It starts again, and all is well. */
	assert_int_equal(fth_gpu_service_start(bed->service), 0);
	make_queues(bed);
	bed->patience = PATIENCE;
	bed->expected = 0;
	run(bed, 1, expect);
	check_end(bed);
	close_bed(bed);
}

/* Late answers give ids back, with nobody waiting for them. */
static void test_late(void **state)
{
	static const struct shape shape = {64, 512, 1, ~0u, 1};
	struct bed *bed = open_bed("fault(mem:1M)?nth=1&every=1&count=20&mode=timeout&hold_ms=100",
				   &shape);
	uint64_t deadline = fth_deadline_ns(PATIENCE);

	(void)state;
	assert_non_null(bed);
	bed->patience = 10000000;
	bed->expected = -ETIME;
	bed->shape = &shape;
	run(bed, 1, [](struct client *me, uint32_t lane) {
		struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
		int rc = transfer(me, &warp, FTH_NVME_READ, lane, page_of(me, lane), lane < 20);

		must(me->bed, rc == (lane < 20 ? -ETIME : 0), "told in time");
	});
	while (bed->qps[0].cq_head != bed->qps[0].ticket && fth_now_ns() < deadline)
		if (!fth_nvme_qp_poll(&bed->qps[0]))
			usleep(1000);
	check_end(bed);
	close_bed(bed);
}

/* Element 0 is set, one line is flushed; lane 0 tells what the flush said. */
static void set_and_flush(struct client *me, uint32_t lane)
{
	struct fth_gpu_value v =
		fth_gpu_access_(me->bed->cache, 0, lane * 8, FTH_GPU_OP_ADD, 8, 1, 0);

	must(me->bed, v.rc == 0, "adding");
	must(me->bed, fth_gpu_flush_part(me->bed->cache, 0, 1) == me->bed->expected, "the flush");
}

/*
 * A write that was left behind may still happen, with data that has been changed since: the line
 * is never written again after it, and who flushes is told.
 */
static void test_lost_write(void **state)
{
	static const struct shape shape = {64, LINE, 1, ~0u, 1};
	struct bed *bed = open_bed("delay(mem:1M)?write_us=300000", &shape);

	(void)state;
	assert_non_null(bed);
	make_cache(bed, 8);
	bed->cache->timeout_ns = 20000000;
	bed->expected = -ETIME;
	run(bed, 1, set_and_flush);
	assert_true(bed->cache->failure.write && bed->cache->failure.error == -ETIME);
	usleep(400000);
	bed->expected = -ETIMEDOUT;
	run(bed, 1, set_and_flush);
	assert_int_equal(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_WRITES), 1);
	free_cache(bed);
	close_bed(bed);
}

static int open_error(const char *uri, struct fth_gpu_drive_opts opts)
{
	struct fth_gpu_service *service = NULL;

	opts.entries = 16;
	return fth_gpu_service_open(uri, &opts, &service);
}

static void test_options(void **state)
{
	const struct fth_gpu_drive_opts good = FTH_GPU_DRIVE_OPTS_INIT;
	struct fth_gpu_drive_opts o = good;

	(void)state;
	assert_int_equal(open_error("nothing:1M", o), -EINVAL);
	assert_int_equal(open_error("file:/nowhere/at/all", o), -ENOENT);
	assert_int_equal(open_error("mem:1M?block=4096", o), -EOPNOTSUPP);
	assert_non_null(strstr(fth_error_text(-EOPNOTSUPP), "4096"));
	assert_int_equal(open_error("softnvme(mem:1M)?lba=4096", o), -EOPNOTSUPP);
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_io),	cmocka_unit_test(test_file),
		cmocka_unit_test(test_nvme),	cmocka_unit_test(test_cache),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_fault),
		cmocka_unit_test(test_stuck),	cmocka_unit_test(test_late),
		cmocka_unit_test(test_lost_write), cmocka_unit_test(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
