/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a warp of `fathom bench gpufile` does: read, or write and read back, a block for each of its
 * lanes, or look at a line of a cache; and check every byte of it. All 32 lanes call together.
 * gpufile_warp_test.cpp plays it on CPU threads, gpufile_kernels.h makes kernels of it.
 */
#ifndef FTH_BENCH_GPUFILE_WARP_H
#define FTH_BENCH_GPUFILE_WARP_H

#include "gpu/gpu_data.h"

#include "fathom/gpu/io.h"
#include "fathom/gpu/look.h"

/* ---- sectors, sixteen bytes of each per lane ---- */

/* This lane's bytes of a sector, and what they should be: bits that differ. */
FTH_WARP uint64_t gpufile_bytes_wrong(uint4 v, uint64_t sector, uint32_t stamp)
{
	uint64_t i = sector * GPU_SECTOR_WORDS + 2 * fth_warp_lane();

	return ((v.x | (uint64_t)v.y << 32) ^ gpu_word(i, stamp)) |
	       ((v.z | (uint64_t)v.w << 32) ^ gpu_word(i + 1, stamp));
}

/* The same for a sector in memory. */
FTH_WARP uint64_t gpufile_sector_wrong(const char *at, uint64_t sector, uint32_t stamp)
{
	return gpufile_bytes_wrong(((const uint4 *)(const void *)at)[fth_warp_lane()], sector,
				   stamp);
}

FTH_WARP void gpufile_sector_fill(char *at, uint64_t sector, uint32_t stamp)
{
	uint64_t i = sector * GPU_SECTOR_WORDS + 2 * fth_warp_lane();
	uint64_t a = gpu_word(i, stamp), b = gpu_word(i + 1, stamp);

	((uint4 *)(void *)at)[fth_warp_lane()] =
		make_uint4((uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b, (uint32_t)(b >> 32));
}

/* The same for n sectors that belong together. */
FTH_WARP uint64_t gpufile_run_wrong(const char *at, uint64_t sector, uint32_t n, uint32_t stamp)
{
	uint64_t wrong = 0;

	for (uint32_t s = 0; s < n; s++)
		wrong |= gpufile_sector_wrong(at + s * GPU_SECTOR, sector + s, stamp);
	return wrong;
}

/* ---- blocks ---- */

/* A warp's share of a run. */
struct gpufile_share {
	struct fth_gpu_view view;
	struct gpufile_order order;
	char *from, *to; /* 32 pieces each, one for each lane; only `to` is read into */
	uint32_t queue, hint;
	uint64_t deadline;
};

/* A lane's piece of those from c on, by way of a queue pair. */
FTH_WARP int gpufile_transfer(const struct gpufile_share *share, uint64_t c, uint8_t opcode,
			      uint32_t queue, char *memory)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint32_t lane = fth_warp_lane(), bytes = gpufile_bytes(&share->order);
	struct fth_gpu_io io = {};

	io.opcode = opcode;
	io.blocks = bytes >> share->view.block_shift;
	io.first = gpufile_piece(&share->order, c + lane) * io.blocks;
	io.memory = memory + (uint64_t)lane * bytes;
	return fth_gpu_io(&share->view, queue, &warp, true, &io, share->hint, share->deadline);
}

/* Read a piece for each lane. 0 or an error, per lane; *wrong gets bits that were not right. */
FTH_WARP int gpufile_read(const struct gpufile_share *share, uint64_t c, uint32_t queue,
			  uint64_t *wrong)
{
	int rc = gpufile_transfer(share, c, FTH_NVME_READ, queue, share->to);

	/* Lanes look at what others of them have copied. */
	__syncwarp(~0u);
	for (uint32_t l = 0; l < 32; l++)
		*wrong |=
			gpufile_run_wrong(share->to + (uint64_t)l * gpufile_bytes(&share->order),
					  gpufile_piece(&share->order, c + l) << share->order.shift,
					  1u << share->order.shift, share->order.stamp);
	/* Nobody begins to overwrite it before all have looked. */
	__syncwarp(~0u);
	return rc;
}

/* Write a piece for each lane, and read it back by way of the next queue pair. */
FTH_WARP int gpufile_write_read(const struct gpufile_share *share, uint64_t c, uint64_t *wrong)
{
	int rc;

	for (uint32_t s = 0; s < 32u << share->order.shift; s++)
		gpufile_sector_fill(share->from + (uint64_t)s * GPU_SECTOR,
				    gpufile_sector(&share->order, c, s), share->order.stamp);
	__syncwarp(~0u);
	rc = gpufile_transfer(share, c, FTH_NVME_WRITE, share->queue, share->from);
	if (__any_sync(~0u, rc < 0))
		return rc;
	return gpufile_read(share, c, (share->queue + 1) % share->view.queues, wrong);
}

/* ---- lines ---- */

/* Look at a line, brought in if it is not there. 0 or an error, the same in all lanes. */
FTH_WARP int gpufile_look(const fth_gpu_array<uint64_t> &a, uint64_t line, uint32_t stamp,
			  uint64_t *wrong)
{
	uint32_t sectors = (1u << a.line_shift) / GPU_SECTOR;
	struct fth_gpu_look look = fth_gpu_look_open();
	int rc = 0;
	const uint64_t *data = fth_gpu_look_line(a, &look, line, &rc);

	while (data) {
		const uint4 *at = (const uint4 *)(const void *)data + fth_warp_lane();
		uint64_t mine = 0;

		for (uint32_t s = 0; s < sectors; s++)
			mine |= gpufile_bytes_wrong(
				fth_gpu_look_load(at + s * GPU_SECTOR / sizeof(*at)),
				line * sectors + s, stamp);
		if (fth_gpu_look_good(a, look)) {
			fth_gpu_look_close(a, &look);
			*wrong |= mine;
			return 0;
		}
		data = fth_gpu_look_hold(a, &look, &rc);
	}
	return rc;
}

#endif
