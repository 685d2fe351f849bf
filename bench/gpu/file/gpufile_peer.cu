/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peer of `fathom bench gpufile`: a program that has no GPU threads to reach storage by. It
 * knows what the kernel is going to need; its CPU threads read that into pinned memory, each with
 * its own channel, and the copy engine moves one buffer while the next is being read.
 */
#include "gpufile_internal.h"
#include "gpufile_warp.h"

#include "base/team.h"

#include <stdlib.h>

#define CHECK_BLOCKS  64u
#define CHECK_THREADS 256u

struct peer_run {
	struct gpufile *bench;
	const struct gpufile_order *order;
	uint64_t n;
};

/* ---- kernels: a warp for each sector ---- */

static __device__ uint64_t first_sector(void)
{
	return ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;
}

static __device__ uint64_t sector_step(void)
{
	return (uint64_t)gridDim.x * blockDim.x / 32;
}

static __global__ void check_pieces(struct gpufile_order order, uint64_t c, uint64_t n,
				    const char *data, struct gpufile_report *report)
{
	uint64_t wrong = 0;

	for (uint64_t s = first_sector(); s < n << order.shift; s += sector_step())
		wrong |= gpufile_sector_wrong(data + s * GPU_SECTOR, gpufile_sector(&order, c, s),
					      order.stamp);
	if (wrong)
		atomicAdd(&report->wrong, 1);
}

static __global__ void fill_pieces(struct gpufile_order order, uint64_t c, uint64_t n, char *data)
{
	for (uint64_t s = first_sector(); s < n << order.shift; s += sector_step())
		gpufile_sector_fill(data + s * GPU_SECTOR, gpufile_sector(&order, c, s),
				    order.stamp);
}

/* ---- a thread of it ---- */

/* What is in buffer k of the host goes to the GPU, and is looked at there. */
static int hand_over(const struct peer_run *run, struct gpufile_lane *lane, unsigned k,
		     cudaStream_t stream, uint64_t c, uint64_t n)
{
	int rc = 0;

	TRY(rc, cudaMemcpyAsync(lane->gpu[k], lane->pinned[k], n * gpufile_bytes(run->order),
				cudaMemcpyHostToDevice, stream));
	if (rc < 0)
		return rc;
	check_pieces<<<CHECK_BLOCKS, CHECK_THREADS, 0, stream>>>(*run->order, c, n, lane->gpu[k],
								 run->bench->report);
	TRY(rc, cudaGetLastError());
	return rc;
}

/* Two buffers take turns; one is read into once what it held before is on the GPU. */
static int read_batch(const struct peer_run *run, struct gpufile_lane *lane, unsigned turn,
		      uint64_t c, uint64_t n)
{
	unsigned k = turn % GPUFILE_BUFFERS;
	int rc = 0;

	TRY(rc, cudaStreamSynchronize(lane->streams[k]));
	if (rc == 0)
		rc = gpufile_move(&lane->mover, FTH_DEV_READ, run->order, c, n, lane->pinned[k]);
	return rc < 0 ? rc : hand_over(run, lane, k, lane->streams[k], c, n);
}

/* What the GPU made is written from one buffer, and read back into the other. */
static int write_batch(const struct peer_run *run, struct gpufile_lane *lane, unsigned turn,
		       uint64_t c, uint64_t n)
{
	cudaStream_t stream = lane->streams[0];
	int rc = 0;

	(void)turn;
	fill_pieces<<<CHECK_BLOCKS, CHECK_THREADS, 0, stream>>>(*run->order, c, n, lane->gpu[0]);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaMemcpyAsync(lane->pinned[0], lane->gpu[0], n * gpufile_bytes(run->order),
				cudaMemcpyDeviceToHost, stream));
	TRY(rc, cudaStreamSynchronize(stream));
	if (rc == 0)
		rc = gpufile_move(&lane->mover, FTH_DEV_WRITE, run->order, c, n, lane->pinned[0]);
	if (rc == 0)
		rc = gpufile_move(&lane->mover, FTH_DEV_READ, run->order, c, n, lane->pinned[1]);
	return rc < 0 ? rc : hand_over(run, lane, 1, stream, c, n);
}

static int finish(struct gpufile_lane *lane)
{
	int rc = 0;

	for (unsigned k = 0; k < GPUFILE_BUFFERS; k++) {
		int other =
			fth_gpu_check(cudaStreamSynchronize(lane->streams[k]), "ending a stream");

		rc = rc < 0 ? rc : other;
	}
	return rc;
}

/* This thread's part of all pieces, a batch, or a tile of them, at a time. */
template <int (*BATCH)(const struct peer_run *, struct gpufile_lane *, unsigned, uint64_t,
		       uint64_t)>
static int move_part(void *context, unsigned thread)
{
	const struct peer_run *run = (const struct peer_run *)context;
	struct gpufile *b = run->bench;
	uint64_t each = gpufile_tile(b) / gpufile_bytes(run->order), at, end;
	int rc = 0, finished;

	if (run->order->random && each > b->s->batch)
		each = b->s->batch;
	fth_team_part(run->n, 1, (unsigned)b->s->cpu_threads, thread, &at, &end);
	for (unsigned turn = 0; rc == 0 && at < end; at += each, turn++) {
		rc = gpu_stopped();
		if (rc == 0)
			rc = BATCH(run, &b->lanes[thread], turn, at,
				   end - at < each ? end - at : each);
	}
	/* Also after a failure: nothing of it may be under way when others use the buffers. */
	finished = finish(&b->lanes[thread]);
	return rc < 0 ? rc : finished;
}

int gpufile_peer_run(struct gpufile *b, const struct gpufile_order *order, uint64_t n, bool write)
{
	struct peer_run run = {b, order, n};

	return fth_team_run((unsigned)b->s->cpu_threads,
			    write ? move_part<write_batch> : move_part<read_batch>, &run);
}

/* ---- life ---- */

static int open_lane(struct gpufile *b, struct gpufile_lane *lane, char *pinned)
{
	int rc = 0;

	for (unsigned k = 0; k < GPUFILE_BUFFERS; k++) {
		lane->pinned[k] = pinned + k * gpufile_tile(b);
		DO(rc, gpu_setup_alloc(b->setup, &lane->gpu[k], gpufile_tile(b)));
		TRY(rc, cudaStreamCreateWithFlags(&lane->streams[k], cudaStreamNonBlocking));
	}
	return rc;
}

int gpufile_peer_open(struct gpufile *b)
{
	int rc = 0;

	b->lanes = (struct gpufile_lane *)calloc(b->s->cpu_threads, sizeof(*b->lanes));
	if (!b->lanes)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < b->s->cpu_threads; i++)
		rc = open_lane(b, &b->lanes[i],
			       b->setup->medium.host + i * GPUFILE_BUFFERS * gpufile_tile(b));
	return rc;
}

int gpufile_peer_start(struct gpufile *b)
{
	int rc = 0;

	/* A matter of speed only; not every device takes so much. */
	b->mapped = fth_dev_map(b->dev, b->setup->medium.host, b->setup->medium.bytes) == 0;
	for (uint32_t i = 0; rc == 0 && i < b->s->cpu_threads; i++)
		rc = gpufile_mover_open(b->dev, (unsigned)b->s->depth, &b->lanes[i].mover);
	return rc;
}

void gpufile_peer_close(struct gpufile *b)
{
	/* What fails here fails because the GPU has; the results were told before. */
	for (uint32_t i = 0; b->lanes && i < b->s->cpu_threads; i++) {
		struct gpufile_lane *lane = &b->lanes[i];

		gpufile_mover_close(&lane->mover);
		for (unsigned k = 0; k < GPUFILE_BUFFERS; k++)
			if (lane->streams[k])
				(void)cudaStreamDestroy(lane->streams[k]);
	}
	if (b->mapped)
		(void)fth_dev_unmap(b->dev, b->setup->medium.host, b->setup->medium.bytes);
	free(b->lanes);
	b->lanes = NULL;
}
