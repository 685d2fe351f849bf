/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a cache, its options and statistics. cache_internal.h lists the other files.
 */
#include "cache_internal.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)
/*
 * Devices learn of the memory slab by slab, as frames come into use: one that pins what it knows
 * does not pin, and have zeroed, what holds nothing yet. Whole huge pages; not too many, since the
 * tables of devices are short (io_uring: 256 buffers in dev/file), and several caches share them.
 */
#define SLAB_BYTES (16u << 20)
#define SLABS_MAX  64u

_Static_assert(FTH_CACHE_LINE_MIN == 1u << CACHE_PLACE_SHIFT, "a frame's place is a whole number");

static const char *const stat_names[FTH_CACHE_STAT_COUNT] = {
	"hits",		"misses",	 "merged_misses",  "prefetches",
	"evictions",	"write_backs",	 "bytes_read",	   "bytes_written",
	"bytes_wanted", "read_requests", "write_requests", "errors",
};

static bool power_of_two(uint64_t n)
{
	return n && (n & (n - 1)) == 0;
}

static void set_defaults(struct fth_cache_options *o)
{
	o->memory = o->memory ? o->memory : 64u << 20;
	o->line = o->line ? o->line : 4096;
	o->depth = o->depth ? o->depth : 128;
	o->dirty_percent = o->dirty_percent ? o->dirty_percent : 50;
	o->timeout_ns = o->timeout_ns ? o->timeout_ns : 30000000000u;
	if (o->policy == FTH_CACHE_DEFAULT)
		o->policy = FTH_CACHE_TRIAL;
}

static int check_options(const struct fth_cache_options *o)
{
	if (!power_of_two(o->line) || o->line < FTH_CACHE_LINE_MIN || o->line > FTH_CACHE_LINE_MAX)
		return fth_fail(EINVAL, "cache: line size %u is not a power of two from %u to %u",
				o->line, FTH_CACHE_LINE_MIN, FTH_CACHE_LINE_MAX);
	if (o->memory / o->line < 4)
		return fth_fail(EINVAL, "cache: memory of %llu bytes is less than 4 lines of %u",
				(unsigned long long)o->memory, o->line);
	/* Frames are found by their place in units of the shortest line. */
	if (o->memory / FTH_CACHE_LINE_MIN > FTH_LINE_FRAMES_MAX)
		return fth_fail(EINVAL, "cache: memory of %llu bytes is more than %llu",
				(unsigned long long)o->memory,
				(unsigned long long)(FTH_LINE_FRAMES_MAX * FTH_CACHE_LINE_MIN));
	if (o->depth > 4096)
		return fth_fail(EINVAL, "cache: depth %u is more than 4096", o->depth);
	if (o->dirty_percent > 100)
		return fth_fail(EINVAL, "cache: dirty_percent %u is more than 100",
				o->dirty_percent);
	if ((unsigned)o->policy >= FTH_CACHE_POLICY_COUNT)
		return fth_fail(EINVAL, "cache: unknown policy %d", (int)o->policy);
	return 0;
}

static void set_sizes(struct fth_cache *cache, const struct fth_cache_options *o)
{
	cache->line_size = o->line;
	cache->line_shift = (uint32_t)__builtin_ctz(o->line);
	cache->frame_count = (uint32_t)(o->memory / o->line);
	cache->data_bytes = ((size_t)cache->frame_count << cache->line_shift) + 4095;
	cache->data_bytes &= ~(size_t)4095;
	cache->slab_frames = SLAB_BYTES >> cache->line_shift;
	while (((uint64_t)cache->slab_frames << cache->line_shift) * SLABS_MAX < cache->data_bytes)
		cache->slab_frames *= 2;
	cache->epoch = 1;
	cache->depth = o->depth;
	cache->dirty_high = (uint32_t)((uint64_t)cache->frame_count * o->dirty_percent / 100);
	if (cache->dirty_high == 0)
		cache->dirty_high = 1;
	cache->dirty_low = cache->dirty_high / 2;
	cache->policy = o->policy;
	cache->timeout_ns = o->timeout_ns;
}

/* Aligned to huge pages, which the system is asked for: lines are used at random. */
static int map_frames(struct fth_cache *cache)
{
	size_t slack = cache->data_bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
	uint8_t *at = mmap(NULL, cache->data_bytes + slack, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (at == MAP_FAILED)
		return fth_fail(ENOMEM, "cache: no memory for frames of %zu bytes",
				cache->data_bytes);
	before = slack ? (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE : 0;
	if (before)
		munmap(at, before);
	if (slack > before)
		munmap(at + before + cache->data_bytes, slack - before);
	cache->data = at + before;
	if (slack)
		madvise(cache->data, cache->data_bytes, MADV_HUGEPAGE);
	return 0;
}

static int make_frames(struct fth_cache *cache)
{
	cache->frames = calloc(cache->frame_count, sizeof(*cache->frames));
	cache->stats = fth_stats_new(CACHE_PEEKS + CACHE_PEEK_SIZES);
	if (!cache->frames || !cache->stats)
		return -ENOMEM;
	for (uint32_t f = 0; f < cache->frame_count; f++)
		cache->frames[f].tag = CACHE_NO_TAG;
	return map_frames(cache);
}

static void init_locks(struct fth_cache *cache)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&cache->setup, NULL);
	pthread_mutex_init(&cache->lock, NULL);
	pthread_rwlock_init(&cache->tables, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cache->work, &attr);
	pthread_cond_init(&cache->cleaned, &attr);
	pthread_condattr_destroy(&attr);
}

static void cache_free(struct fth_cache *cache)
{
	cache_devices_release(cache);
	cache_dir_release(cache);
	/* Before the frames: their address is what the counters of peeks are known by. */
	fth_stats_free(cache->stats);
	if (cache->data)
		munmap(cache->data, cache->data_bytes);
	free(cache->worker_lines);
	free(cache->trial);
	free(cache->frames);
	pthread_cond_destroy(&cache->work);
	pthread_cond_destroy(&cache->cleaned);
	pthread_rwlock_destroy(&cache->tables);
	pthread_mutex_destroy(&cache->lock);
	pthread_mutex_destroy(&cache->setup);
	free(cache);
}

int fth_cache_open(const struct fth_cache_options *options, struct fth_cache **out)
{
	struct fth_cache_options o = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache *cache;
	int rc = options ? fth_options_check("cache", options->size, sizeof(o)) : 0;

	*out = NULL;
	if (rc < 0)
		return rc;
	if (options)
		o = *options;
	set_defaults(&o);
	rc = check_options(&o);
	if (rc < 0)
		return rc;
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	init_locks(cache);
	set_sizes(cache, &o);
	rc = make_frames(cache);
	if (rc == 0)
		rc = cache_policy_init(cache);
	if (rc == 0)
		rc = cache_dir_init(cache, o.compact);
	if (rc < 0)
		cache_free(cache);
	else
		*out = cache;
	return rc;
}

/* Empty all ranges and wait for all devices. Whatever fails, every range is still there. */
static int empty_all(struct fth_cache *cache, bool discard)
{
	uint64_t deadline = fth_deadline_ns(cache->timeout_ns);
	int rc = 0;

	for (uint32_t i = 0; i < CACHE_RANGES_MAX && rc == 0; i++)
		if (cache->taken[i])
			rc = cache_empty_range(cache->taken[i], discard, deadline);
	for (struct cache_device *device = NULL;
	     rc == 0 && (device = cache_device_next(cache, device));)
		rc = cache_device_settle(device, deadline);
	return rc;
}

/* Have the worker leave all changes alone, or not. */
static void mark_all(struct fth_cache *cache, uint32_t discard)
{
	for (uint32_t i = 0; i < CACHE_RANGES_MAX; i++)
		if (cache->taken[i])
			fth_store_relaxed_dev32(&cache->taken[i]->discard, discard);
}

/* All ranges are empty, and nothing is in flight. */
static void close_empty(struct fth_cache *cache)
{
	cache_worker_stop(cache);
	for (uint32_t i = 0; i < CACHE_RANGES_MAX; i++)
		if (cache->taken[i])
			cache_range_release(cache->taken[i]);
	cache_free(cache);
}

int fth_cache_close(struct fth_cache *cache)
{
	int rc;

	if (!cache)
		return 0;
	rc = fth_cache_flush_all(cache);
	if (rc == 0)
		rc = empty_all(cache, false);
	if (rc == 0)
		close_empty(cache);
	return rc;
}

int fth_cache_discard(struct fth_cache *cache)
{
	int rc;

	if (!cache)
		return 0;
	mark_all(cache, 1);
	rc = empty_all(cache, true);
	if (rc == 0)
		close_empty(cache);
	else
		mark_all(cache, 0);
	return rc;
}

int fth_cache_finish(struct fth_cache **cache)
{
	int rc = fth_cache_close(*cache);

	if (rc == 0 || fth_cache_discard(*cache) == 0)
		*cache = NULL;
	return rc;
}

uint32_t fth_cache_line_size(const struct fth_cache *cache)
{
	return cache->line_size;
}

uint64_t fth_cache_stat(const struct fth_cache *cache, enum fth_cache_stat which)
{
	uint64_t sum = fth_stats_read(cache->stats, which);

	for (unsigned shift = 0; shift < CACHE_PEEK_SIZES; shift++) {
		uint64_t peeks = fth_stats_read(cache->stats, CACHE_PEEKS + shift);

		sum += which == FTH_CACHE_HITS ? peeks : 0;
		sum += which == FTH_CACHE_BYTES_WANTED ? peeks << shift : 0;
	}
	return sum;
}

const char *fth_cache_stat_name(enum fth_cache_stat which)
{
	return (unsigned)which < FTH_CACHE_STAT_COUNT ? stat_names[which] : "?";
}

void fth_cache_wanted(struct fth_cache *cache, uint64_t bytes)
{
	cache_count(cache, FTH_CACHE_BYTES_WANTED, bytes);
}

void fth_cache_count_hits(struct fth_cache *cache, uint64_t hits)
{
	cache_count(cache, FTH_CACHE_HITS, hits);
}

void fth_cache_footprint(const struct fth_cache *cache, struct fth_cache_footprint *out)
{
	pthread_rwlock_t *tables = (pthread_rwlock_t *)&cache->tables;

	memset(out, 0, sizeof(*out));
	out->frames = cache->frame_count;
	out->data_bytes = cache->data_bytes;
	out->frame_bytes = (uint64_t)cache->frame_count * sizeof(*cache->frames) +
			   (uint64_t)cache->trial_count * sizeof(*cache->trial) +
			   cache_dir_bytes(cache);
	out->dirty = fth_load_relaxed_dev32(&cache->dirty);
	pthread_rwlock_rdlock(tables);
	for (uint32_t i = 0; i < CACHE_RANGES_MAX; i++) {
		const struct fth_cache_range *range =
			cache_range_of_tag(cache, (uint64_t)i << CACHE_TAG_SHIFT);

		if (!range)
			continue;
		out->lines += range->lines;
		if (range->words)
			out->line_bytes += range->lines * sizeof(*range->words);
	}
	pthread_rwlock_unlock(tables);
}
