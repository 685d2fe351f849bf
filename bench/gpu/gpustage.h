/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the engines of gpustream.h share: host memory as the medium of a drive, tiles in GPU memory
 * for peers, streams, and the order in which all of it comes and goes: GPU memory is taken before
 * the drive starts, and given back after it has ended.
 */
#ifndef FTH_BENCH_GPUSTAGE_H
#define FTH_BENCH_GPUSTAGE_H

#include "gpu_common.h"
#include "gpustream.h"

#include "apps/micro/gpu_work.h"
#include "fathom/base/error.h"

#define GPUSTAGE_TILES 3

struct gpustage {
	struct gpustream_setup setup;
	struct gpu_pinned medium;
	struct fth_gpu_work *work;
	struct fth_gpu_drive *drive;
	char *tiles[GPUSTAGE_TILES];
	cudaStream_t streams[GPUSTAGE_TILES];
	cudaEvent_t events[GPUSTAGE_TILES];
};

/* A GPU, and host memory that is not pinned yet: fill it with several threads. */
int gpustage_open(const struct gpustream_setup *setup, size_t bytes, char gpu[GPUSTREAM_NAME],
		  struct gpustage *stage);

/* Pin it, take the tiles, each of so many bytes, and start. */
int gpustage_start(struct gpustage *stage, size_t tile);

/* Accepts one that did not open, or not all of it. */
void gpustage_close(struct gpustage *stage);

/* -EINTR if the user wants it to end. */
int gpustage_stopped(const struct gpustage *stage);

int gpustage_cache(struct gpustage *stage, struct fth_gpu_cache **cache);

/* Array of `count` elements of 8 bytes, `offset` bytes into the medium. */
int gpustage_array(struct fth_gpu_cache *cache, uint64_t offset, uint64_t count, bool readonly,
		   struct fth_gpu_source *out);

/* Wait for all streams of tiles. */
int gpustage_finish(struct gpustage *stage);

#endif
