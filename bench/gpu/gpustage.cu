/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpustage.h"

#include <string.h>

int gpustage_open(const struct gpustream_setup *setup, size_t bytes, char gpu[GPUSTREAM_NAME],
		  struct gpustage *stage)
{
	struct cudaDeviceProp properties;
	int rc;

	memset(stage, 0, sizeof(*stage));
	stage->setup = *setup;
	rc = gpu_find(&properties);
	if (rc < 0)
		return rc;
	strncpy(gpu, properties.name, GPUSTREAM_NAME - 1);
	return gpu_map(&stage->medium, bytes);
}

static int open_work(struct gpustage *stage)
{
	struct fth_gpu_work_opts opts = FTH_GPU_WORK_OPTS_INIT;

	opts.blocks = stage->setup.blocks;
	opts.ahead = stage->setup.ahead;
	return fth_gpu_work_open(&opts, &stage->work);
}

int gpustage_start(struct gpustage *stage, size_t tile)
{
	struct fth_gpu_drive_opts opts = FTH_GPU_DRIVE_OPTS_INIT;
	int rc = gpu_pin(&stage->medium);

	for (unsigned t = 0; t < GPUSTAGE_TILES; t++) {
		TRY(rc, cudaMalloc((void **)&stage->tiles[t], tile));
		TRY(rc, cudaStreamCreateWithFlags(&stage->streams[t], cudaStreamNonBlocking));
		TRY(rc, cudaEventCreateWithFlags(&stage->events[t], cudaEventDisableTiming));
	}
	if (rc == 0)
		rc = open_work(stage);
	if (rc < 0)
		return rc;
	opts.bytes = stage->medium.bytes;
	opts.memory = stage->medium.host;
	opts.queues = stage->setup.queues;
	return fth_gpu_drive_open(&opts, &stage->drive);
}

void gpustage_close(struct gpustage *stage)
{
	/* What fails here fails because the GPU has; the results were told before. */
	(void)fth_gpu_drive_close(stage->drive);
	(void)fth_gpu_work_close(stage->work);
	for (unsigned t = 0; t < GPUSTAGE_TILES; t++) {
		(void)cudaFree(stage->tiles[t]);
		if (stage->streams[t])
			(void)cudaStreamDestroy(stage->streams[t]);
		if (stage->events[t])
			(void)cudaEventDestroy(stage->events[t]);
	}
	gpu_unpin(&stage->medium);
	memset(stage, 0, sizeof(*stage));
}

int gpustage_stopped(const struct gpustage *stage)
{
	return stage->setup.stopped && stage->setup.stopped() ? -EINTR : 0;
}

int gpustage_cache(struct gpustage *stage, struct fth_gpu_cache **cache)
{
	struct fth_gpu_cache_opts opts = FTH_GPU_CACHE_OPTS_INIT;

	opts.bytes = stage->setup.cache;
	opts.line = stage->setup.line;
	return fth_gpu_cache_open(stage->drive, &opts, cache);
}

int gpustage_array(struct fth_gpu_cache *cache, uint64_t offset, uint64_t count, bool readonly,
		   struct fth_gpu_source *out)
{
	struct fth_gpu_array_opts opts = FTH_GPU_ARRAY_OPTS_INIT;
	struct fth_gpu_array array;
	int rc;

	opts.offset = offset;
	opts.count = count;
	opts.readonly = readonly;
	rc = fth_gpu_cache_array(cache, 8, &opts, &array);
	if (rc == 0)
		*out = fth_gpu_source_cached(&array);
	return rc;
}

int gpustage_finish(struct gpustage *stage)
{
	int rc = 0;

	for (unsigned t = 0; t < GPUSTAGE_TILES; t++)
		TRY(rc, cudaStreamSynchronize(stage->streams[t]));
	return rc;
}
