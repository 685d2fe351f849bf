/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two sides of `fathom bench gpufile` share: gpufile.cu is ours, gpufile_peer.cu the
 * peer's.
 */
#ifndef FTH_BENCH_GPUFILE_INTERNAL_H
#define FTH_BENCH_GPUFILE_INTERNAL_H

#include "gpufile_host.h"
#include "gpu/gpu_setup.h"

#include "workloads/gpu_lines.h"

#define GPUFILE_LINE	4096u
#define GPUFILE_BUFFERS 2 /* of each thread of the peer */

/* In GPU memory, cleared before a run. */
struct gpufile_report {
	struct work_state work; /* chunks of lines, and errors */
	unsigned long long wrong;
	unsigned long long rounds; /* of all warps; each is a block for each of 32 lanes */
};

/* A thread of the peer: its way to the device, and from there to the GPU. */
struct gpufile_lane {
	struct gpufile_mover mover;
	char *pinned[GPUFILE_BUFFERS]; /* in setup.medium */
	char *gpu[GPUFILE_BUFFERS];
	cudaStream_t streams[GPUFILE_BUFFERS];
};

struct gpufile {
	const struct gpu_settings *s;
	struct gpu_setup *setup; /* its medium is the peer's pinned memory */
	struct fth_dev *dev;	 /* the drive's */
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint64_t> array;
	char *data; /* of GPU memory: two blocks of 4096 bytes for each thread */
	struct gpufile_report *report;
	uint64_t size, cache_bytes;
	uint32_t request; /* bytes that the peer reads at once, when sequential */
	uint64_t next;	  /* piece: fresh ones for every run */
	uint32_t writes;  /* runs that have written: each has its own stamp */
	struct gpufile_lane *lanes;
	bool mapped; /* the pinned memory is known to the device */
};

/* Bytes of each buffer of the peer. */
static inline uint64_t gpufile_tile(const struct gpufile *b)
{
	return b->s->batch * GPUFILE_LINE;
}

/* ---- the peer ---- */

/* GPU memory and streams. After a failure too, gpufile_peer_close() is needed. */
int gpufile_peer_open(struct gpufile *b);

/* Once b->dev is there. */
int gpufile_peer_start(struct gpufile *b);

/* While b->dev is still there. */
void gpufile_peer_close(struct gpufile *b);

/* n pieces to the GPU by the host's threads, or written and read back first. Not yet judged. */
int gpufile_peer_run(struct gpufile *b, const struct gpufile_order *order, uint64_t n, bool write);

#endif
