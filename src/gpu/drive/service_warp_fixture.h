/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Warps of CPU threads (warp_fixture.h) on a service, for tests: its rings, its slots, the real
 * software controller on a real device of any block size; and a cache on it.
 */
#ifndef FTH_GPU_SERVICE_WARP_FIXTURE_H
#define FTH_GPU_SERVICE_WARP_FIXTURE_H

#include "gpu/warp_fixture.h"

#include "gpu/cache/cache_layout.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/gpu/flush.h"
#include "fathom/detail/gpu/runs.h"
#include "service.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

#define WARPS	 3u
#define QUEUES	 2u
#define PATIENCE 200000000000ull
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
	uint64_t elements; /* of its array */
	char *pages;	   /* 8 KiB for each lane of each warp: what would be GPU memory */
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

/* Word i of a block. */
static inline uint64_t word_of(uint64_t block, uint32_t i)
{
	return fth_mix64(block + 1) + i;
}

/* Bytes of the drive's blocks. */
static inline uint32_t block_of(const struct bed *bed)
{
	return 1u << bed->view.block_shift;
}

/* ---- the test bed ---- */

/* The other half of the queue pairs, as a GPU would make it. */
static inline void make_queues(struct bed *bed)
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

static inline struct bed *open_bed(const char *uri, const struct shape *shape)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
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
		bed->memory[q] =
			aligned_alloc(64, (fth_nvme_qp_memory(s->shift, s->ids) + 63) / 64 * 64);
	bed->pages = (char *)aligned_alloc(8192, WARPS * 32 * 8192);
	make_queues(bed);
	bed->view.qps = bed->qps;
	bed->view.blocks = s->blocks;
	bed->view.block_shift = s->block_shift;
	bed->view.queues = s->queues;
	bed->view.ssds = 1;
	bed->view.bounce = (uint8_t *)s->bounce.ptr;
	bed->view.bounce_bus = s->bounce.iova;
	bed->view.bounce_slot = s->slot;
	return bed;
}

static inline void close_bed(struct bed *bed)
{
	assert_int_equal(fth_gpu_service_stop(bed->service, fth_deadline_ns(PATIENCE)), 0);
	fth_gpu_service_close(bed->service);
	for (uint32_t q = 0; q < QUEUES; q++)
		free(bed->memory[q]);
	free(bed->qps);
	free(bed->pages);
	free(bed);
}

static inline void run(struct bed *bed, uint32_t warps,
		       void (*body)(struct client *me, uint32_t lane))
{
	struct client clients[WARPS];

	bed->wrong = 0;
	for (uint32_t i = 0; i < warps; i++) {
		clients[i] = {bed, i, 0, body};
		assert_int_equal(pthread_create(&clients[i].thread, NULL,
						fixture_client_thread<struct client>, &clients[i]),
				 0);
	}
	for (uint32_t i = 0; i < warps; i++)
		pthread_join(clients[i].thread, NULL);
	assert_int_equal(bed->wrong, 0);
}

static inline void must(struct bed *bed, bool right, const char *what)
{
	if (right)
		return;
	if (fth_add_relaxed_dev32(&bed->wrong, 1) == 0)
		print_message("wrong: %s\n", what);
}

/* All ids are free, and nothing is under way. */
static inline void check_end(const struct bed *bed)
{
	for (uint32_t q = 0; q < bed->view.queues; q++) {
		const struct fth_nvme_qp *qp = &bed->qps[q];
		uint32_t ids = 0;

		for (uint32_t w = 0; w < (qp->ids + 31) / 32; w++)
			ids += (uint32_t)__builtin_popcount(qp->free_ids[w].bits);
		assert_int_equal(ids, qp->ids);
		assert_int_equal(qp->ticket, qp->cq_head);
		assert_int_equal(qp->ring_lock + qp->reap_lock + qp->failed + qp->waiters, 0);
	}
}

static inline int transfer(struct client *me, const struct fth_nvme_warp *warp, uint8_t opcode,
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

static inline char *page_of(struct client *me, uint32_t lane)
{
	return me->bed->pages + (me->number * 32 + lane) * 8192;
}

/* ---- reading and writing ---- */

static inline void write_and_read(struct client *me, uint32_t lane)
{
	const struct shape *s = me->bed->shape;
	uint64_t *words = (uint64_t *)page_of(me, lane);
	uint32_t each = block_of(me->bed) / 8;
	struct fth_nvme_warp warp;

	if (!(s->lanes & 1u << lane))
		return;
	warp = fth_nvme_warp_of(s->lanes);
	for (uint32_t round = 0; round < s->rounds; round++) {
		uint64_t first = ((round * WARPS + me->number) * 32 + lane) * s->blocks;
		bool want = fth_mix64(first) % 4 != 0;

		for (uint32_t i = 0; i < s->blocks * each; i++)
			words[i] = word_of(first + i / each, i % each);
		must(me->bed, transfer(me, &warp, FTH_NVME_WRITE, first, words, want) == 0,
		     "writing");
		memset(words, 0, s->blocks * each * 8);
		must(me->bed, transfer(me, &warp, FTH_NVME_READ, first, words, want) == 0,
		     "reading");
		for (uint32_t i = 0; want && i < s->blocks * each; i++)
			must(me->bed, words[i] == word_of(first + i / each, i % each), "a word");
		must(me->bed,
		     transfer(me, &warp, FTH_NVME_FLUSH, 0, NULL, lane == warp.leader) == 0,
		     "flushing");
	}
}

/* Blocks on the device are those that were written, and the rest is as it was. */
static inline void check_device(struct bed *bed)
{
	const struct shape *s = bed->shape;
	uint64_t words[FTH_GPU_BLOCK_MAX / 8];
	uint32_t bytes = block_of(bed);

	for (uint64_t block = 0; block < BYTES / bytes; block++) {
		uint64_t thread = block / s->blocks, first = thread * s->blocks;
		bool written = thread < 32 * WARPS * s->rounds && (s->lanes >> thread % 32 & 1) &&
			       fth_mix64(first) % 4 != 0;

		assert_int_equal(fth_dev_read(bed->service->dev, words, bytes, block * bytes,
					      FTH_DEV_TIMEOUT),
				 0);
		for (uint32_t i = 0; i < bytes / 8; i++)
			assert_int_equal(words[i], written ? word_of(block, i) : 0);
	}
}

/* All of it on a device, whose drive must have such blocks. */
static inline void try_shape(const char *uri, const struct shape *shape, uint32_t block)
{
	struct bed *bed = open_bed(uri, shape);
	struct fth_gpu_drive_stats stats = {};
	uint64_t tickets = 0;

	assert_non_null(bed);
	assert_int_equal(block_of(bed), block);
	assert_int_equal(bed->view.blocks, BYTES / block);
	run(bed, WARPS, write_and_read);
	check_end(bed);
	check_device(bed);
	fth_gpu_service_stats(bed->service, &stats);
	for (uint32_t q = 0; q < bed->view.queues; q++)
		tickets += bed->qps[q].ticket;
	assert_int_equal(stats.commands, tickets);
	assert_int_equal(stats.blocks_read, stats.blocks_written);
	assert_int_equal(stats.blocks_written * block,
			 fth_dev_stat(bed->service->dev, FTH_DEV_STAT_BYTES_WRITTEN));
	assert_int_equal(stats.errors, 0);
	/* Flushes of the kernel have reached the device. */
	assert_true(stats.flushes > 0);
	assert_int_equal(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_FLUSHES), stats.flushes);
	close_bed(bed);
}

/* ---- a cache on it ---- */

#define LINES 64u /* of the array */

/* Element i of the array before anyone changed it. */
static inline uint64_t value_of(uint64_t i)
{
	return word_of(i / 64, i % 64);
}

/* Bytes of the array: to the end of the device at most. */
static inline uint64_t array_bytes(const struct bed *bed, uint32_t line, uint64_t offset)
{
	uint64_t room = (bed->view.blocks << bed->view.block_shift) - offset;

	return room < LINES * line ? room : LINES * line;
}

/* With one array, as the host would describe it. */
static inline void make_cache(struct bed *bed, uint32_t frames, uint32_t line, uint64_t offset)
{
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct fth_gpu_cache_state *cache =
		(struct fth_gpu_cache_state *)aligned_alloc(128, sizeof(*cache));

	array.offset = offset;
	array.count = bed->elements = array_bytes(bed, line, offset) / 8;
	memset(cache, 0, sizeof(*cache));
	assert_int_equal(fth_gpu_layout_check_line(&bed->view, line), 0);
	fth_gpu_layout_set_lines(cache, &bed->view, line);
	assert_int_equal(fth_gpu_layout_check_array(cache, 8, &array), 0);
	cache->ranges[0].first_block = fth_gpu_layout_first_block(cache, &array);
	cache->data = (uint8_t *)aligned_alloc(8192, (size_t)(frames + 15) / 16 * 16 * line);
	cache->tags = (uint64_t *)malloc(frames * 8);
	memset(cache->tags, 0xff, frames * 8);
	cache->frames = frames;
	cache->ahead = frames / 4;
	cache->timeout_ns = PATIENCE;
	cache->ranges[0].words = (uint64_t *)calloc(LINES, 8);
	cache->ranges[0].lines = LINES;
	bed->cache = cache;
}

static inline void free_cache(struct bed *bed)
{
	free(bed->cache->data);
	free(bed->cache->tags);
	free(bed->cache->ranges[0].words);
	free(bed->cache);
}

/* The array as it is on the device. */
static inline void fill_array(struct bed *bed, uint32_t line, uint64_t offset)
{
	uint64_t bytes = array_bytes(bed, line, offset), *words = (uint64_t *)malloc(bytes);

	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = value_of(i);
	assert_int_equal(fth_dev_write(bed->service->dev, words, bytes, offset, FTH_DEV_TIMEOUT),
			 0);
	free(words);
}

static inline void add_and_read(struct client *me, uint32_t lane)
{
	struct fth_rng rng = {me->number * 32 + lane};
	uint64_t elements = me->bed->elements;

	for (uint32_t k = 0; k < me->bed->shape->rounds; k++) {
		/* The end too. */
		uint64_t i =
			(k ? fth_rng_below(&rng, elements) : elements - 1 - lane) & ~(uint64_t)1;
		struct fth_gpu_value v =
			fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_ADD, 8, 1, 0);

		must(me->bed, v.rc == 0, "adding");
		v = fth_gpu_access_(me->bed->cache, 0, (i + 1) * 8, FTH_GPU_OP_GET, 8, 0, 0);
		must(me->bed, v.rc == 0 && v.bits == value_of(i + 1), "its neighbour");
	}
}

static inline void flush(struct client *me, uint32_t lane)
{
	(void)lane;
	must(me->bed, fth_gpu_flush_part(me->bed->cache, me->number, WARPS) == 0, "flushing");
	if (me->number == 0)
		must(me->bed, fth_gpu_flush_drive(me->bed->cache) == 0, "flushing the drive");
}

/* What is there before the array stays as it is. */
static inline void check_before(struct bed *bed, uint64_t offset)
{
	uint8_t *bytes = (uint8_t *)malloc(offset + 1);

	bytes[offset] = 0;
	if (offset)
		assert_int_equal(fth_dev_read(bed->service->dev, bytes, offset, 0, FTH_DEV_TIMEOUT),
				 0);
	for (uint64_t i = 0; i < offset; i++)
		assert_int_equal(bytes[i], 0);
	free(bytes);
}

/* Warps change an array at `offset` of a device through a cache; it is all there afterwards. */
static inline void try_cache(const char *uri, uint32_t line, uint32_t frames, uint64_t offset)
{
	const struct shape shape = {16, line, 1, ~0u, 4};
	uint64_t *words = (uint64_t *)malloc(LINES * line), added = 0;
	struct bed *bed = open_bed(uri, &shape);

	assert_non_null(bed);
	fill_array(bed, line, offset);
	make_cache(bed, frames, line, offset);
	run(bed, WARPS, add_and_read);
	run(bed, WARPS, flush);
	check_end(bed);
	assert_int_equal(
		fth_dev_read(bed->service->dev, words, bed->elements * 8, offset, FTH_DEV_TIMEOUT),
		0);
	for (uint64_t i = 0; i < bed->elements; i++)
		added += words[i] - value_of(i);
	assert_int_equal(added, WARPS * 32 * shape.rounds);
	check_before(bed, offset);
	assert_true(fth_dev_stat(bed->service->dev, FTH_DEV_STAT_FLUSHES) > 0);
	free(words);
	free_cache(bed);
	close_bed(bed);
}

/* ---- what is refused ---- */

static inline void ask_wrongly(struct client *me, uint32_t lane)
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
	io.blocks = 1u << (32 - me->bed->view.block_shift);
	rc = fth_gpu_io(&me->bed->view, 0, &warp, true, &io, 0, fth_deadline_ns(PATIENCE));
	must(me->bed, rc == -EINVAL, "as many bytes as 32 bits do not hold");
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

/* A drive whose slots hold one block. */
static inline void try_refused(const char *uri, uint32_t block)
{
	const struct shape shape = {64, block, 1, ~0u, 1};
	struct bed *bed = open_bed(uri, &shape);
	struct fth_gpu_drive_stats stats = {};

	assert_non_null(bed);
	assert_int_equal(block_of(bed), block);
	run(bed, 1, ask_wrongly);
	check_end(bed);
	fth_gpu_service_stats(bed->service, &stats);
	assert_int_equal(stats.errors, 16 + 32 + 32);
	close_bed(bed);
}

#endif
