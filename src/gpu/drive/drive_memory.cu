/* SPDX-License-Identifier: BSD-2-Clause */
#include "drive.h"

#include "base/cuda_error.h"

#include <string.h>
#include <sys/mman.h>

#define LINE 128u /* of the GPU's caches */
#define PAGE 4096u

/* The next piece of an arena: counts while there is no base. */
static char *piece(char *base, size_t *at, size_t bytes, size_t align)
{
	size_t from = (*at + align - 1) / align * align;

	*at = from + bytes;
	return base + from;
}

size_t fth_gpu_arena_lay_out(struct fth_gpu_arena *a, const struct fth_gpu_drive *drive, char *base)
{
	size_t queues = drive->opts.queues, warps = queues * drive->opts.warps, at = 0;
	size_t sq = (queues * sizeof(struct fth_nvme_sqe)) << drive->shift;
	size_t cq = (queues * sizeof(struct fth_nvme_cqe)) << drive->shift;

	/* Rings of a service are in host memory. */
	if (drive->service)
		sq = cq = 0;
	a->base = base;
	a->memory_each = (fth_nvme_qp_memory(drive->shift, drive->ids) + LINE - 1) / LINE * LINE;
	a->qps = (struct fth_nvme_qp *)piece(base, &at, queues * sizeof(a->qps[0]), LINE);
	a->order = (struct fth_gpu_order *)piece(base, &at, sizeof(a->order[0]), LINE);
	a->queues =
		(struct fth_gpu_ctrl_queue *)piece(base, &at, queues * sizeof(a->queues[0]), LINE);
	a->ssds = (struct fth_gpu_ctrl_ssd *)piece(base, &at, drive->opts.ssds * sizeof(a->ssds[0]),
						   LINE);
	a->control = (struct fth_gpu_ctrl_control *)piece(base, &at, sizeof(a->control[0]), LINE);
	a->counts =
		(struct fth_gpu_ctrl_count *)piece(base, &at, warps * sizeof(a->counts[0]), LINE);
	a->late = (uint32_t *)piece(base, &at, warps * sizeof(a->late[0]), LINE);
	a->doorbells = piece(base, &at, queues * 2 * LINE, LINE);
	a->memory = piece(base, &at, queues * a->memory_each, LINE);
	a->sq = piece(base, &at, sq, PAGE);
	a->cq = piece(base, &at, cq, PAGE);
	a->bytes = at;
	return at;
}

int fth_gpu_drive_alloc_arena(struct fth_gpu_drive *drive)
{
	struct fth_gpu_arena *arena = &drive->arena;
	size_t bytes = fth_gpu_arena_lay_out(arena, drive, NULL);
	void *base = NULL, *stage = NULL;
	int rc;

	arena->base = NULL;
	rc = fth_gpu_check(cudaMalloc(&base, bytes), "GPU memory for queue pairs");
	if (rc < 0)
		return rc;
	fth_gpu_arena_lay_out(arena, drive, (char *)base);
	rc = fth_gpu_check(cudaMallocHost(&stage, sizeof(*drive->stage)), "pinned memory");
	if (rc < 0)
		return rc;
	memset(stage, 0, sizeof(*drive->stage));
	drive->stage = (struct fth_gpu_stage *)stage;
	return 0;
}

/*
 * Mapped by us and only registered with CUDA, so that it outlives a GPU that has failed. Large
 * pages where there are: fewer to fault in and to pin.
 */
static int alloc_host(struct fth_gpu_drive *drive, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *mapped;
	int rc;

	if (at == MAP_FAILED)
		return fth_fail(errno, "cannot map %zu bytes of host memory: %s", bytes,
				strerror(errno));
	drive->host = (char *)at;
	drive->host_bytes = bytes;
	(void)madvise(at, bytes, MADV_HUGEPAGE); /* a wish; small pages work as well */
	rc = fth_gpu_check(
		cudaHostRegister(at, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable),
		"pinning the medium");
	if (rc < 0)
		return rc;
	drive->registered = true;
	rc = fth_gpu_check(cudaHostGetDevicePointer(&mapped, at, 0), "a pointer for the GPU");
	drive->mapped = rc < 0 ? NULL : (char *)mapped;
	return rc;
}

/* The caller's memory, pinned by the caller. */
static int use_memory(struct fth_gpu_drive *drive)
{
	void *mapped = drive->opts.memory;
	int rc = 0;

	if (drive->opts.medium == FTH_GPU_MEDIUM_HOST)
		rc = fth_gpu_check(cudaHostGetDevicePointer(&mapped, drive->opts.memory, 0),
				   "a pointer for the GPU");
	drive->mapped = rc < 0 ? NULL : (char *)mapped;
	return rc;
}

int fth_gpu_drive_alloc_medium(struct fth_gpu_drive *drive)
{
	size_t bytes = drive->opts.bytes * drive->opts.ssds;
	void *at = NULL;
	int rc;

	if (drive->opts.memory && drive->opts.medium != FTH_GPU_MEDIUM_NONE)
		return use_memory(drive);
	switch (drive->opts.medium) {
	case FTH_GPU_MEDIUM_NONE:
		return 0;
	case FTH_GPU_MEDIUM_HOST:
		return alloc_host(drive, bytes);
	default:
		rc = fth_gpu_check(cudaMalloc(&at, bytes), "GPU memory for the medium");
		if (rc < 0)
			return rc;
		drive->mapped = (char *)at;
		return fth_gpu_check(cudaMemsetAsync(at, 0, bytes, drive->side_stream),
				     "clearing the medium");
	}
}

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

int fth_gpu_drive_release(struct fth_gpu_drive *drive)
{
	int rc = fth_gpu_check(cudaFree(drive->arena.base), "freeing GPU memory");

	rc = first_error(rc, fth_gpu_drive_release_service(drive));
	if (drive->stage)
		rc = first_error(rc, fth_gpu_check(cudaFreeHost(drive->stage), "freeing"));
	if (drive->registered)
		rc = first_error(rc, fth_gpu_check(cudaHostUnregister(drive->host), "unpinning"));
	else if (drive->opts.medium == FTH_GPU_MEDIUM_DEVICE && !drive->opts.memory)
		rc = first_error(rc, fth_gpu_check(cudaFree(drive->mapped), "freeing GPU memory"));
	/* Whatever CUDA says: after a failure of the GPU the memory is the host's all the same. */
	if (drive->host && munmap(drive->host, drive->host_bytes) < 0)
		rc = first_error(rc, fth_fail(errno, "unmapping the medium: %s", strerror(errno)));
	if (drive->run_stream)
		rc = first_error(rc, fth_gpu_check(cudaStreamDestroy(drive->run_stream), "stream"));
	if (drive->side_stream)
		rc = first_error(rc,
				 fth_gpu_check(cudaStreamDestroy(drive->side_stream), "stream"));
	return rc;
}
