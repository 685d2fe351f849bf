/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache for GPU memory on CPU threads, for tests: SSDs that warps of the controller serve, a few
 * frames, one array on them, and warps that use it.
 */
#ifndef FTH_GPU_CACHE_WARP_FIXTURE_H
#define FTH_GPU_CACHE_WARP_FIXTURE_H

#include "gpu/warp_fixture.h"

#include "gpu/drive/ctrl_work.h"
#include "fathom/base/rng.h"
#include "fathom/gpu/flush.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

#define SSDS_MAX    2
#define CLIENTS_MAX 3
#define SHIFT	    6
#define LINES	    64u /* of the array */

struct shape {
	uint32_t frames, line, clients, ssds, rounds;
	bool replicated;
	uint32_t block_shift = 9;
};

/* One SSD: a queue pair and a warp of the controller. */
struct side {
	struct bed *bed;
	struct fth_gpu_ctrl ctrl;
	struct fth_gpu_ctrl_queue queue;
	struct fth_gpu_ctrl_ssd ssd;
	struct fth_gpu_ctrl_control control;
	struct fth_gpu_ctrl_count count;
	struct shared shared;
	uint32_t doorbells[64];
	void *rings[3];
	pthread_t thread;
};

struct bed {
	const struct shape *shape;
	struct fth_nvme_qp *qps;
	struct side sides[SSDS_MAX];
	struct fth_gpu_cache_state *cache;
	uint64_t elements;
	uint32_t wrong, errors;
	int last;
};

struct client {
	struct bed *bed;
	uint32_t number;
	pthread_t thread;
	void (*body)(struct client *me, uint32_t lane);
};

static inline uint64_t value_of(uint64_t i)
{
	return fth_mix64(i + 1);
}

static inline uint64_t *on_medium(const struct bed *bed, uint64_t i, uint32_t ssd)
{
	const struct shape *s = bed->shape;
	uint64_t line = i * 8 / s->line, at = i * 8 % s->line;

	if (!s->replicated) {
		ssd = (uint32_t)(line % s->ssds);
		line /= s->ssds;
	}
	return (uint64_t *)(bed->sides[ssd].ssd.medium + line * s->line + at);
}

/* ---- the test bed ---- */

static inline void ctrl_lane(void *arg, uint32_t lane)
{
	struct side *side = (struct side *)arg;
	struct worker w = {};

	w.ctrl = &side->ctrl;
	w.queue = side->queue;
	w.ssd = &side->ssd;
	w.shared = &side->shared;
	w.lane = lane;
	work(&w);
}

static inline void *ctrl_thread(void *arg)
{
	fixture_run_warp(ctrl_lane, arg);
	return NULL;
}

static inline void make_side(struct bed *bed, uint32_t n)
{
	struct fth_nvme_qp_setup setup = {};
	struct side *side = &bed->sides[n];
	uint32_t ids = fth_nvme_qp_ids_max(SHIFT, SHIFT);
	uint64_t bytes = (uint64_t)LINES * bed->shape->line;

	side->bed = bed;
	side->rings[0] = setup.sq = aligned_alloc(4096, 64 << SHIFT);
	side->rings[1] = setup.cq = aligned_alloc(4096, 4096);
	side->rings[2] = setup.memory =
		aligned_alloc(64, (fth_nvme_qp_memory(SHIFT, ids) + 63) / 64 * 64);
	memset(setup.cq, 0, 4096);
	setup.sq_doorbell = &side->doorbells[0];
	setup.cq_doorbell = &side->doorbells[32];
	setup.sq_shift = setup.cq_shift = SHIFT;
	setup.ids = ids;
	setup.qid = n + 1;
	assert_int_equal(fth_nvme_qp_init(&bed->qps[n], &setup), 0);
	side->queue = {bed->qps[n].sq,
		       bed->qps[n].cq,
		       setup.sq_doorbell,
		       setup.cq_doorbell,
		       SHIFT,
		       SHIFT,
		       n + 1,
		       n};
	side->ssd.medium = (char *)calloc(1, bytes);
	side->ssd.blocks = bytes >> bed->shape->block_shift;
	side->ctrl.queues = &side->queue;
	side->ctrl.ssds = &side->ssd;
	side->ctrl.control = &side->control;
	side->ctrl.counts = &side->count;
	side->ctrl.queue_count = 1;
	side->ctrl.warps = 1;
	side->ctrl.batch = 8;
	side->ctrl.block_shift = bed->shape->block_shift;
	assert_int_equal(pthread_create(&side->thread, NULL, ctrl_thread, side), 0);
}

static inline void make_cache(struct bed *bed)
{
	const struct shape *s = bed->shape;
	struct fth_gpu_cache_state *cache =
		(struct fth_gpu_cache_state *)aligned_alloc(128, sizeof(*cache));

	memset(cache, 0, sizeof(*cache));
	cache->data = (uint8_t *)aligned_alloc(8192, (size_t)s->frames * 8192);
	cache->tags = (uint64_t *)malloc(s->frames * 8);
	memset(cache->tags, 0xff, s->frames * 8);
	cache->frames = s->frames;
	while (1u << cache->line_shift < s->line)
		cache->line_shift++;
	cache->blocks_per_line = s->line >> s->block_shift;
	cache->ahead = s->frames / 4;
	cache->timeout_ns = 200000000000ull;
	cache->drive.qps = bed->qps;
	cache->drive.block_shift = s->block_shift;
	cache->drive.blocks = (uint64_t)LINES * s->line >> s->block_shift;
	cache->drive.queues = cache->drive.ssds = s->ssds;
	cache->ranges[0].words = (uint64_t *)calloc(LINES, 8);
	cache->ranges[0].lines = LINES;
	cache->ranges[0].replicated = s->replicated;
	bed->cache = cache;
}

static inline struct bed *make_bed(const struct shape *s)
{
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));

	memset(bed, 0, sizeof(*bed));
	bed->shape = s;
	bed->qps = (struct fth_nvme_qp *)aligned_alloc(64, SSDS_MAX * sizeof(*bed->qps));
	bed->elements = LINES * s->line / 8;
	for (uint32_t n = 0; n < s->ssds; n++)
		make_side(bed, n);
	make_cache(bed);
	for (uint64_t i = 0; i < bed->elements; i++)
		for (uint32_t n = 0; n < (s->replicated ? s->ssds : 1); n++)
			*on_medium(bed, i, n) = value_of(i);
	return bed;
}

static inline void run_clients(struct bed *bed, void (*body)(struct client *me, uint32_t lane))
{
	struct client clients[CLIENTS_MAX];

	for (uint32_t i = 0; i < bed->shape->clients; i++) {
		clients[i] = {bed, i, 0, body};
		assert_int_equal(pthread_create(&clients[i].thread, NULL,
						fixture_client_thread<struct client>, &clients[i]),
				 0);
	}
	for (uint32_t i = 0; i < bed->shape->clients; i++)
		pthread_join(clients[i].thread, NULL);
}

static inline uint64_t count_of(const struct bed *bed, enum fth_gpu_stat which)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < FTH_GPU_STAT_SHARDS; i++)
		all += bed->cache->stats[i][which];
	return all;
}

/* Nothing is left over: no references, no fetch, no write under way, and each frame has one line.
 */
static inline void check_words(const struct bed *bed)
{
	uint32_t seen = 0;

	for (uint32_t l = 0; l < LINES; l++) {
		uint64_t word = bed->cache->ranges[0].words[l];
		uint32_t f = fth_line_frame(word);

		assert_int_equal(fth_line_count(word), 0);
		assert_false(word & (FTH_LINE_BUSY | FTH_LINE_WRITING));
		if (!fth_line_ready(word))
			continue;
		assert_true(f < bed->cache->frames);
		assert_int_equal(bed->cache->tags[f], fth_gpu_tag_(0, fth_gpu_version_(word), l));
		seen++;
	}
	assert_true(seen <= bed->cache->frames);
}

static inline void release_bed(struct bed *bed)
{
	for (uint32_t n = 0; n < bed->shape->ssds; n++) {
		struct side *side = &bed->sides[n];

		fth_store_release_dev32(&side->control.stop, 1);
		pthread_join(side->thread, NULL);
		for (uint32_t i = 0; i < 3; i++)
			free(side->rings[i]);
		free(side->ssd.medium);
	}
	free(bed->cache->data);
	free(bed->cache->tags);
	free(bed->cache->ranges[0].words);
	free(bed->cache);
	free(bed->qps);
	free(bed);
}

static inline void note(struct bed *bed, int rc, bool right)
{
	if (rc < 0) {
		fth_add_relaxed_dev32(&bed->errors, 1);
		bed->last = rc;
	} else if (!right) {
		fth_add_relaxed_dev32(&bed->wrong, 1);
	}
}

static inline void all_well(const struct bed *bed)
{
	if (bed->errors)
		print_message("%u errors, the last %d\n", bed->errors, bed->last);
	assert_int_equal(bed->errors, 0);
	assert_int_equal(bed->wrong, 0);
	check_words(bed);
}

/* The array of the bed, as kernels get it. */
static inline fth_gpu_array<uint64_t> array_of(const struct bed *bed)
{
	fth_gpu_array<uint64_t> a = {};

	a.words = bed->cache->ranges[0].words;
	a.data = bed->cache->data;
	a.count = bed->elements;
	a.cache = bed->cache;
	a.line_shift = bed->cache->line_shift;
	return a;
}

/* A body: this client's part of a flush. */
static inline void flush(struct client *me, uint32_t lane)
{
	(void)lane;
	note(me->bed, fth_gpu_flush_part(me->bed->cache, me->number, me->bed->shape->clients),
	     true);
	if (me->number == 0)
		note(me->bed, fth_gpu_flush_drive(me->bed->cache), true);
}

#endif
