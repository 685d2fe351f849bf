/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A drive served by CPU threads, or an NVMe drive: service.c has it, and here the GPU is shown the
 * rings, doorbells and slots, and given its own half of the queue pairs.
 *
 * 1. CUDA is called by the drive's owner only; the threads of the service know nothing of it.
 * 2. What CUDA knows is taken from it before the service frees it; but a GPU that has failed keeps
 *    nothing from being freed.
 * 3. The memory of kernels is never the drive's: waits may be ended before the controller is.
 */
#include "drive.h"

#include "base/cuda_error.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 32u
#define PAGE	4096u

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

/* ---- what the GPU sees ---- */

/*
 * Make memory (`io` false: rings, slots) or registers (`io` true: the doorbells of a mapped BAR)
 * reachable by the GPU, in whole pages; range->device stands for `addr` itself. -EOPNOTSUPP if the
 * GPU, its driver or the IOMMU does not support it.
 */
static int map_range(void *addr, size_t len, bool io, struct drive_range *range)
{
	uintptr_t first = (uintptr_t)addr / PAGE * PAGE;
	uintptr_t end = ((uintptr_t)addr + len + PAGE - 1) / PAGE * PAGE;
	unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
	void *device = NULL;
	int rc;

	if (io)
		flags |= cudaHostRegisterIoMemory;
	rc = fth_gpu_check(cudaHostRegister((void *)first, end - first, flags),
			   io ? "registering doorbells" : "registering memory");
	if (rc < 0)
		return rc;
	rc = fth_gpu_check(cudaHostGetDevicePointer(&device, (void *)first, 0),
			   "a pointer for the GPU");
	if (rc < 0) {
		(void)cudaHostUnregister((void *)first);
		return rc;
	}
	range->host = (void *)first;
	range->len = end - first;
	range->device = (char *)device + ((uintptr_t)addr - first);
	return 0;
}

/* Accepts a zeroed range. */
static int unmap_range(struct drive_range *range)
{
	int rc = 0;

	if (range->host)
		rc = fth_gpu_check(cudaHostUnregister(range->host), "unregistering");
	memset(range, 0, sizeof(*range));
	return rc;
}

static int map(struct fth_gpu_drive *drive, void *at, size_t bytes, bool io)
{
	struct drive_range *range = &drive->ranges[drive->range_count];
	int rc = map_range(at, bytes, io, range);

	if (rc == 0)
		drive->range_count++;
	return rc;
}

/* Where the GPU sees an address of memory that was mapped. */
static void *seen(const struct fth_gpu_drive *drive, const void *at)
{
	for (uint32_t i = 0; i < drive->range_count; i++) {
		const struct drive_range *range = &drive->ranges[i];
		uintptr_t first = (uintptr_t)range->host, page = (uintptr_t)at / PAGE * PAGE;

		/* range->device stands for what was asked for, which is in the first page. */
		if (page >= first && page < first + range->len)
			return (char *)((uintptr_t)range->device / PAGE * PAGE) +
			       ((uintptr_t)at - first);
	}
	return NULL;
}

/* All doorbells at once: several are in one page, and CUDA takes a page once. */
static int map_doorbells(struct fth_gpu_drive *drive)
{
	struct fth_gpu_service *s = drive->service;
	struct fth_nvme_qp_setup first, last;

	fth_gpu_service_setup(s, 0, &first);
	fth_gpu_service_setup(s, s->queues - 1, &last);
	return map(drive, first.sq_doorbell,
		   (size_t)((char *)(last.cq_doorbell + 1) - (char *)first.sq_doorbell), !s->ctrl);
}

static int map_all(struct fth_gpu_drive *drive)
{
	struct fth_gpu_service *s = drive->service;
	int rc = map_doorbells(drive);

	for (uint32_t q = 0; rc == 0 && q < s->queues; q++) {
		struct fth_nvme_qp_setup setup;

		fth_gpu_service_setup(s, q, &setup);
		rc = map(drive, setup.sq, sizeof(struct fth_nvme_sqe) << setup.sq_shift, false);
		if (rc == 0)
			rc = map(drive, setup.cq, sizeof(struct fth_nvme_cqe) << setup.cq_shift,
				 false);
	}
	if (rc == 0)
		rc = map_range(s->bounce.ptr, s->bounce.len, false, &drive->slots);
	return rc;
}

int fth_gpu_drive_release_service(struct fth_gpu_drive *drive)
{
	int rc = unmap_range(&drive->slots);

	for (uint32_t i = 0; i < drive->range_count; i++)
		rc = first_error(rc, unmap_range(&drive->ranges[i]));
	free(drive->ranges);
	fth_gpu_service_close(drive->service);
	return rc;
}

/* ---- queue pairs ---- */

__global__ static void make_queues(struct fth_nvme_qp *qps, const struct fth_nvme_qp_setup *setups,
				   uint32_t queues)
{
	uint32_t q = blockIdx.x * blockDim.x + threadIdx.x;

	if (q < queues)
		fth_nvme_qp_init(&qps[q], &setups[q]); /* can not fail: the driver did the same */
}

static int start(struct fth_gpu_drive *drive)
{
	struct fth_gpu_arena *a = &drive->arena;
	uint32_t queues = drive->opts.queues;
	int rc = fth_gpu_service_start(drive->service);

	if (rc == 0)
		rc = fth_gpu_check(cudaMemsetAsync(a->base, 0, a->bytes, drive->side_stream),
				   "clearing queue pairs");
	if (rc < 0)
		return rc;
	for (uint32_t q = 0; q < queues; q++) {
		struct fth_nvme_qp_setup *setup = &drive->stage->setups[q];

		fth_gpu_service_setup(drive->service, q, setup);
		setup->sq = seen(drive, setup->sq);
		setup->cq = seen(drive, setup->cq);
		setup->sq_doorbell = (uint32_t *)seen(drive, setup->sq_doorbell);
		setup->cq_doorbell = (uint32_t *)seen(drive, setup->cq_doorbell);
		setup->memory = a->memory + q * a->memory_each;
		setup->far = true;
	}
	make_queues<<<(queues + THREADS - 1) / THREADS, THREADS, 0, drive->side_stream>>>(
		a->qps, drive->stage->setups, queues);
	rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");
	return rc < 0 ? rc
		      : fth_gpu_drive_finish(drive->side_stream, fth_gpu_drive_deadline(drive),
					     "making queue pairs on the GPU");
}

static int stop(struct fth_gpu_drive *drive)
{
	/* Invariant 3. Whatever CUDA says: the service is stopped even so. */
	int rc = fth_gpu_drive_cancel(drive);
	int stopped = fth_gpu_service_stop(drive->service, fth_gpu_drive_deadline(drive));

	return stopped < 0 ? stopped : rc;
}

static void stats(const struct fth_gpu_drive *drive, struct fth_gpu_drive_stats *stats)
{
	fth_gpu_service_stats(drive->service, stats);
	/* A drive tells nobody: what was put is what is known. */
	for (uint32_t q = 0; !drive->service->ctrl && q < drive->opts.queues; q++)
		stats->commands += drive->stage->qps[q].ticket;
}

static const struct fth_gpu_drive_ops by_service = {false, start, stop, stats};

/* ---- opening ---- */

static int set_up(struct fth_gpu_drive *drive)
{
	struct fth_gpu_service *s = drive->service;
	int rc = fth_gpu_check(cudaGetDevice(&drive->device), "finding the GPU");

	drive->opts.queues = s->queues;
	drive->opts.bytes = s->blocks << s->block_shift;
	drive->block_shift = s->block_shift;
	drive->shift = s->shift;
	drive->ids = s->ids;
	drive->ranges =
		(struct drive_range *)calloc(2 * (size_t)s->queues + 1, sizeof(drive->ranges[0]));
	if (rc == 0 && !drive->ranges)
		rc = -ENOMEM;
	if (rc == 0)
		rc = fth_gpu_drive_make_streams(drive);
	if (rc == 0)
		rc = fth_gpu_drive_alloc_arena(drive);
	if (rc == 0)
		rc = map_all(drive);
	return rc < 0 ? rc : fth_gpu_drive_start(drive);
}

int fth_gpu_drive_open_service(const char *uri, const struct fth_gpu_drive_options *opts,
			       struct fth_gpu_drive **out)
{
	struct fth_gpu_drive *drive = (struct fth_gpu_drive *)calloc(1, sizeof(*drive));
	int rc;

	if (!drive)
		return -ENOMEM;
	drive->ops = &by_service;
	drive->opts = *opts;
	drive->opts.medium = FTH_GPU_MEDIUM_NONE;
	rc = fth_gpu_service_open(uri, opts, &drive->service);
	if (rc < 0) {
		/* CUDA has nothing to release, and would put its own text in place of this one. */
		free(drive);
		return rc;
	}
	rc = set_up(drive);
	if (rc < 0)
		return fth_gpu_drive_give_up(drive, rc);
	*out = drive;
	return 0;
}
