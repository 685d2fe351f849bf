/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's side of a cache in GPU memory. Its kernels are in cache_flush.cu; what other kernels
 * do to it, in include/fathom/gpu/{frames,lines,array}.h.
 *
 * While a drive on GPU blocks runs nothing is allocated or freed: what needs that stops it for a
 * moment.
 */
#include "cache.h"
#include "base/options.h"

#include "cache_layout.h"
#include "base/cuda_error.h"
#include "fathom/hd/wait.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAP_NS	    20000
#define ALIGN	    ((uint64_t)FTH_GPU_LINE_MAX)
#define AHEAD_SHARE 8u

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

/* ---- the stream ---- */

/* Wait with an end: what is launched here ends by the cache's timeout, if the GPU is well. */
static int finish(struct fth_gpu_cache *cache, const char *what)
{
	uint64_t deadline = fth_deadline_ns(3000000ull * cache->opts.timeout_ms);
	struct timespec nap = {0, NAP_NS};

	for (;;) {
		cudaError_t err = cudaStreamQuery(cache->stream);

		if (err != cudaErrorNotReady)
			return fth_gpu_check(err, what);
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIME, "%s: timed out waiting for the GPU", what);
		nanosleep(&nap, NULL);
	}
}

/* Copy between the stage and GPU memory. */
static int copy(struct fth_gpu_cache *cache, void *to, const void *from, size_t bytes,
		enum cudaMemcpyKind kind)
{
	int rc = fth_gpu_check(cudaMemcpyAsync(to, from, bytes, kind, cache->stream),
			       "copying the cache's state");

	return rc < 0 ? rc : finish(cache, "copying the cache's state");
}

static int put_state(struct fth_gpu_cache *cache, size_t from, size_t bytes)
{
	return copy(cache, (char *)cache->state + from, (char *)&cache->stage->state + from, bytes,
		    cudaMemcpyHostToDevice);
}

static int get_state(struct fth_gpu_cache *cache, size_t from, size_t bytes)
{
	return copy(cache, (char *)&cache->stage->state + from, (char *)cache->state + from, bytes,
		    cudaMemcpyDeviceToHost);
}

/* ---- stopping the drive for a while ---- */

static int pause_drive(struct fth_gpu_drive *drive, bool *was_running)
{
	*was_running = drive->running && drive->ops->keeps_gpu;
	return *was_running ? fth_gpu_drive_stop(drive) : 0;
}

static int resume_drive(struct fth_gpu_drive *drive, bool was_running)
{
	return was_running ? fth_gpu_drive_start(drive) : 0;
}

/* ---- opening ---- */

static int check_opts(const struct fth_gpu_drive *drive, const struct fth_gpu_cache_options *o)
{
	struct fth_gpu_view view = fth_gpu_drive_view(drive);
	int rc = fth_options_check("gpu cache", o->size, sizeof(*o));

	if (rc == 0)
		rc = fth_gpu_layout_check_line(&view, o->line);
	if (rc < 0)
		return rc;
	if (o->bytes / o->line < 1 || o->bytes / o->line > FTH_LINE_FRAMES_MAX)
		return fth_fail(EINVAL, "gpu cache: bytes %llu hold %llu lines, expected 1 to %llu",
				(unsigned long long)o->bytes,
				(unsigned long long)(o->bytes / o->line),
				(unsigned long long)FTH_LINE_FRAMES_MAX);
	if (o->timeout_ms == 0)
		return fth_fail(EINVAL, "gpu cache: timeout_ms is 0");
	return 0;
}

static int alloc_gpu(struct fth_gpu_cache *cache, void **to, size_t bytes, int value)
{
	int rc = fth_gpu_check(cudaMalloc(to, bytes), "GPU memory for the cache");

	if (rc < 0)
		return rc;
	rc = fth_gpu_check(cudaMemsetAsync(*to, value, bytes, cache->stream),
			   "clearing GPU memory");
	if (rc < 0) {
		(void)cudaFree(*to);
		*to = NULL;
	}
	return rc;
}

static void describe(struct fth_gpu_cache *cache, uint32_t frames)
{
	struct fth_gpu_cache_state *state = &cache->stage->state;
	struct fth_gpu_view view = fth_gpu_drive_view(cache->drive);

	fth_gpu_layout_set_lines(state, &view, cache->opts.line);
	state->frames = frames;
	/* An eighth behind the hand: what was changed is written while reads leave the bus idle. */
	state->ahead = frames - frames / AHEAD_SHARE;
	state->timeout_ns = cache->opts.timeout_ms * 1000000ull;
}

/* The drive is stopped. Frames start as FREE: all bits set, as their tags. */
static int set_up(struct fth_gpu_cache *cache)
{
	uint32_t frames = (uint32_t)(cache->opts.bytes / cache->opts.line);
	struct fth_gpu_cache_state *state;
	void *at = NULL;
	int rc = fth_gpu_cache_load_kernels();

	if (rc == 0)
		rc = fth_gpu_check(cudaStreamCreateWithFlags(&cache->stream, cudaStreamNonBlocking),
				   "a stream");
	if (rc == 0)
		rc = fth_gpu_check(cudaMallocHost(&at, sizeof(*cache->stage)), "pinned memory");
	if (rc < 0)
		return rc;
	cache->stage = (struct fth_gpu_cache_stage *)memset(at, 0, sizeof(*cache->stage));
	state = &cache->stage->state;
	describe(cache, frames);
	rc = alloc_gpu(cache, (void **)&cache->state, sizeof(*state) + sizeof(int32_t), 0);
	if (rc == 0)
		rc = alloc_gpu(cache, &cache->data, (size_t)frames * cache->opts.line + ALIGN, 0);
	/* A line lies in whole pages of NVMe, two at most. */
	state->data = (uint8_t *)(((uint64_t)cache->data + ALIGN - 1) / ALIGN * ALIGN);
	if (rc == 0)
		rc = alloc_gpu(cache, (void **)&state->tags, frames * sizeof(uint64_t), 0xff);
	cache->flush_rc = (int32_t *)(cache->state + 1);
	cache->metadata = sizeof(*state) + frames * sizeof(uint64_t);
	return rc < 0 ? rc : put_state(cache, 0, sizeof(*state));
}

/* The drive is stopped. All of it, and the first error. */
static int release(struct fth_gpu_cache *cache)
{
	int rc = 0;

	for (uint32_t i = 0; i < cache->arrays; i++)
		rc = first_error(rc, fth_gpu_check(cudaFree(cache->words[i]), "freeing words"));
	rc = first_error(rc, fth_gpu_check(cudaFree(cache->data), "freeing GPU memory"));
	if (cache->stage) {
		rc = first_error(rc, fth_gpu_check(cudaFree(cache->stage->state.tags), "freeing"));
		rc = first_error(rc, fth_gpu_check(cudaFreeHost(cache->stage), "freeing"));
	}
	rc = first_error(rc, fth_gpu_check(cudaFree(cache->state), "freeing GPU memory"));
	if (cache->stream)
		rc = first_error(rc, fth_gpu_check(cudaStreamDestroy(cache->stream), "a stream"));
	free(cache);
	return rc;
}

/* Opening failed with rc, which is returned with its text. */
static int give_up(struct fth_gpu_cache *cache, bool was_running, int rc)
{
	struct fth_gpu_kept kept = fth_gpu_keep(rc);
	struct fth_gpu_drive *drive = cache->drive;

	/* A controller that can not be stopped keeps all from being freed. */
	if (!drive->running || !drive->ops->keeps_gpu) {
		(void)release(cache);
		(void)resume_drive(drive, was_running);
	}
	return fth_gpu_tell(&kept);
}

int fth_gpu_cache_open(struct fth_gpu_drive *drive, const struct fth_gpu_cache_options *opts,
		       struct fth_gpu_cache **out)
{
	struct fth_gpu_cache *cache;
	bool running;
	int rc = check_opts(drive, opts);

	if (rc < 0)
		return rc;
	cache = (struct fth_gpu_cache *)calloc(1, sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	cache->drive = drive;
	cache->opts = *opts;
	rc = pause_drive(drive, &running);
	if (rc < 0) {
		free(cache);
		return rc;
	}
	rc = set_up(cache);
	if (rc == 0)
		rc = resume_drive(drive, running);
	if (rc < 0)
		return give_up(cache, running, rc);
	*out = cache;
	return 0;
}

/* ---- arrays ---- */

/* The drive is stopped. */
static int add_range(struct fth_gpu_cache *cache, const struct fth_gpu_array_options *o,
		     uint64_t bytes)
{
	uint32_t n = cache->arrays;
	struct fth_gpu_range *range = &cache->stage->state.ranges[n];
	int rc;

	cache->lines[n] = (bytes + cache->opts.line - 1) / cache->opts.line;
	rc = alloc_gpu(cache, &cache->words[n], cache->lines[n] * sizeof(uint64_t), 0);
	if (rc < 0)
		return rc;
	range->words = (uint64_t *)cache->words[n];
	range->lines = cache->lines[n];
	range->first_block = fth_gpu_layout_first_block(&cache->stage->state, o);
	range->readonly = o->readonly;
	range->replicated = o->replicated;
	cache->arrays++;
	cache->metadata += cache->lines[n] * sizeof(uint64_t);
	return put_state(cache, (size_t)((char *)range - (char *)&cache->stage->state),
			 sizeof(*range));
}

int fth_gpu_cache_array(struct fth_gpu_cache *cache, size_t element,
			const struct fth_gpu_array_options *opts, struct fth_gpu_array_base *out)
{
	static const struct fth_gpu_array_options plain = FTH_GPU_ARRAY_OPTIONS_INIT;
	const struct fth_gpu_array_options *o = opts ? opts : &plain;
	struct fth_gpu_cache_state *state = &cache->stage->state;
	int rc = fth_gpu_layout_check_array(state, element, o);
	bool running;

	if (rc == 0 && cache->arrays == FTH_GPU_ARRAYS_MAX)
		rc = fth_fail(ENOSPC, "gpu cache: more than %u arrays", FTH_GPU_ARRAYS_MAX);
	if (rc < 0)
		return rc;
	memset(out, 0, sizeof(*out));
	out->count = o->count ? o->count : fth_gpu_layout_room(state, o) / element;
	rc = pause_drive(cache->drive, &running);
	if (rc < 0)
		return rc;
	rc = add_range(cache, o, out->count * element);
	rc = first_error(rc, resume_drive(cache->drive, running));
	if (rc < 0)
		return rc;
	out->range = cache->arrays - 1;
	out->words = (uint64_t *)cache->words[out->range];
	out->data = state->data;
	out->cache = cache->state;
	out->line_shift = state->line_shift;
	while ((1u << out->element_shift) < element)
		out->element_shift++;
	out->readonly = o->readonly;
	return 0;
}

/* ---- flushing and emptying ---- */

/* Lines written so far. By the drive's stream: kernels may be running on ours. */
static int count_written(struct fth_gpu_cache *cache, uint64_t *lines)
{
	struct fth_gpu_drive *drive = cache->drive;
	struct fth_gpu_cache_state *state = &cache->stage->state;
	int rc = fth_gpu_check(cudaMemcpyAsync(state->stats, cache->state->stats,
					       sizeof(state->stats), cudaMemcpyDeviceToHost,
					       drive->side_stream),
			       "reading GPU memory");

	if (rc == 0)
		rc = fth_gpu_drive_finish(drive->side_stream, fth_gpu_drive_deadline(drive),
					  "reading GPU memory");
	*lines = 0;
	for (uint32_t i = 0; rc == 0 && i < FTH_GPU_STAT_SHARDS; i++)
		*lines += state->stats[i][FTH_GPU_WRITE_BACKS];
	return rc;
}

/* A cache may be larger than what its drive writes in any fixed time: wait while it does. */
static int finish_flush(struct fth_gpu_cache *cache)
{
	uint64_t before = 0, lines = 0;
	int rc = finish(cache, "flushing");

	while (rc == -ETIME && count_written(cache, &lines) == 0 && lines != before) {
		before = lines;
		rc = finish(cache, "flushing");
	}
	return rc;
}

int fth_gpu_cache_flush(struct fth_gpu_cache *cache)
{
	int32_t *told = &cache->stage->flush_rc;
	int rc;

	*told = 0;
	rc = copy(cache, cache->flush_rc, told, sizeof(*told), cudaMemcpyHostToDevice);
	if (rc == 0)
		rc = fth_gpu_check(
			fth_gpu_cache_launch_flush(cache->state, cache->flush_rc, cache->stream),
			"launching the flush");
	if (rc == 0)
		rc = finish_flush(cache);
	if (rc == 0)
		rc = copy(cache, told, cache->flush_rc, sizeof(*told), cudaMemcpyDeviceToHost);
	if (rc < 0)
		return rc;
	return *told < 0 ? fth_fail(-*told, "gpu cache: writing back dirty lines failed") : 0;
}

/* All words and frames as they were at first. */
static int forget(struct fth_gpu_cache *cache)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < cache->arrays; i++)
		rc = fth_gpu_check(cudaMemsetAsync(cache->words[i], 0,
						   cache->lines[i] * sizeof(uint64_t),
						   cache->stream),
				   "emptying");
	if (rc == 0)
		rc = fth_gpu_check(fth_gpu_cache_launch_reset(cache->state, cache->stream),
				   "emptying");
	return rc < 0 ? rc : finish(cache, "emptying");
}

int fth_gpu_cache_empty(struct fth_gpu_cache *cache)
{
	struct fth_gpu_cache_stats stats;
	bool running = false;
	int rc = fth_gpu_cache_flush(cache);

	if (rc == 0)
		rc = fth_gpu_cache_stats(cache, &stats);
	/*
	 * A drive that may still come to frames (invariant 9 of frames.h) ends its commands first.
	 */
	if (rc == 0 && stats.count[FTH_GPU_LOST_FRAMES])
		rc = pause_drive(cache->drive, &running);
	if (rc < 0)
		return rc;
	rc = forget(cache);
	return first_error(rc, resume_drive(cache->drive, running));
}

/* ---- asking ---- */

int fth_gpu_cache_stats(struct fth_gpu_cache *cache, struct fth_gpu_cache_stats *stats)
{
	const struct fth_gpu_cache_state *state = &cache->stage->state;
	int rc =
		get_state(cache, offsetof(struct fth_gpu_cache_state, stats), sizeof(state->stats));

	memset(stats, 0, sizeof(*stats));
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < FTH_GPU_STAT_SHARDS; i++)
		for (uint32_t s = 0; s < FTH_GPU_STAT_COUNT; s++)
			stats->count[s] += state->stats[i][s];
	stats->bytes_read = stats->count[FTH_GPU_READS] * cache->opts.line;
	stats->bytes_written = stats->count[FTH_GPU_WRITE_BACKS] * cache->opts.line;
	return 0;
}

int fth_gpu_cache_failure(struct fth_gpu_cache *cache, struct fth_gpu_failure *failure)
{
	size_t at = offsetof(struct fth_gpu_cache_state, failure);
	int rc = get_state(cache, at, sizeof(*failure));

	*failure = cache->stage->state.failure;
	if (rc < 0 || !failure->taken)
		return rc;
	memset(&cache->stage->state.failure, 0, sizeof(*failure));
	rc = put_state(cache, at, sizeof(*failure));
	return rc < 0 ? rc : 1;
}

uint64_t fth_gpu_cache_metadata(const struct fth_gpu_cache *cache)
{
	return cache->metadata;
}

int fth_gpu_cache_close(struct fth_gpu_cache *cache)
{
	struct fth_gpu_drive *drive;
	bool running;
	int rc, stopped;

	if (!cache)
		return 0;
	drive = cache->drive;
	rc = fth_gpu_cache_flush(cache);
	stopped = pause_drive(drive, &running);
	/* A GPU that does not come to an end still uses all of it: better lost than freed. */
	if (stopped == -ETIME)
		return stopped;
	rc = first_error(rc, stopped);
	rc = first_error(rc, release(cache));
	return first_error(rc, resume_drive(drive, running));
}
