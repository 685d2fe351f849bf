/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs for GPU threads: gpu_map.h says what for and what is untested. */
#include "gpu_map.h"

#include "base/cuda_error.h"

#include <cstring>

#define PAGE 4096u

/* ---- ranges ---- */

int fth_nvme_gpu_map(void *addr, size_t len, bool io, struct fth_nvme_gpu_range *range)
{
	uintptr_t first = (uintptr_t)addr / PAGE * PAGE;
	uintptr_t end = ((uintptr_t)addr + len + PAGE - 1) / PAGE * PAGE;
	unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
	void *device = NULL;
	int rc;

	memset(range, 0, sizeof(*range));
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

int fth_nvme_gpu_unmap(struct fth_nvme_gpu_range *range)
{
	int rc = 0;

	if (range->host)
		rc = fth_gpu_check(cudaHostUnregister(range->host), "unregistering");
	memset(range, 0, sizeof(*range));
	return rc;
}

/* ---- queue pairs ---- */

__global__ static void init_qp(struct fth_nvme_qp *qp, struct fth_nvme_qp_setup setup, int *rc)
{
	*rc = fth_nvme_qp_init(qp, &setup);
}

__global__ static void cancel_qp(struct fth_nvme_qp *qp, uint32_t err)
{
	fth_nvme_qp_cancel(qp, err);
}

/* Both doorbells of a queue pair: one page, or two where the stride is large. */
static int map_doorbells(const struct fth_nvme_qp *qp, bool io, struct fth_nvme_gpu_qp *gpu,
			 struct fth_nvme_qp_setup *setup)
{
	size_t apart = (size_t)((char *)qp->cq_doorbell - (char *)qp->sq_doorbell);
	int rc = fth_nvme_gpu_map(qp->sq_doorbell, apart + sizeof(uint32_t), io, &gpu->doorbells);

	setup->sq_doorbell = (uint32_t *)gpu->doorbells.device;
	setup->cq_doorbell = (uint32_t *)((char *)gpu->doorbells.device + apart);
	return rc;
}

static int map_rings(const struct fth_nvme_qp *qp, struct fth_nvme_gpu_qp *gpu,
		     struct fth_nvme_qp_setup *setup)
{
	int rc = fth_nvme_gpu_map(qp->sq, sizeof(qp->sq[0]) << qp->sq_shift, false, &gpu->sq);

	if (rc == 0)
		rc = fth_nvme_gpu_map(qp->cq, sizeof(qp->cq[0]) << qp->cq_shift, false, &gpu->cq);
	setup->sq = gpu->sq.device;
	setup->cq = gpu->cq.device;
	return rc;
}

/* What only the GPU's threads touch lies in its own memory. */
static int make_state(struct fth_nvme_gpu_qp *gpu, struct fth_nvme_qp_setup *setup)
{
	size_t bytes = fth_nvme_qp_memory(setup->sq_shift, setup->ids);
	int *device_rc = NULL, result = 0;
	int rc = fth_gpu_check(cudaMalloc((void **)&gpu->device, sizeof(*gpu->device)),
			       "GPU memory");

	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc(&gpu->memory, bytes), "GPU memory");
	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc((void **)&device_rc, sizeof(*device_rc)),
				   "GPU memory");
	if (rc < 0)
		return rc;
	setup->memory = gpu->memory;
	init_qp<<<1, 1>>>(gpu->device, *setup, device_rc);
	rc = fth_gpu_check(cudaGetLastError(), "a kernel's launch");
	if (rc == 0)
		rc = fth_gpu_check(
			cudaMemcpy(&result, device_rc, sizeof(result), cudaMemcpyDeviceToHost),
			"making a queue pair on the GPU");
	(void)cudaFree(device_rc);
	return rc < 0 ? rc : result;
}

int fth_nvme_gpu_qp_open(const struct fth_nvme_qp *qp, bool io, struct fth_nvme_gpu_qp *gpu)
{
	struct fth_nvme_qp_setup setup = {};
	int rc;

	memset(gpu, 0, sizeof(*gpu));
	setup.sq_shift = qp->sq_shift;
	setup.cq_shift = qp->cq_shift;
	setup.ids = qp->ids;
	setup.qid = qp->qid;
	rc = map_doorbells(qp, io, gpu, &setup);
	if (rc == 0)
		rc = map_rings(qp, gpu, &setup);
	if (rc == 0)
		rc = make_state(gpu, &setup);
	if (rc < 0)
		(void)fth_nvme_gpu_qp_close(gpu);
	return rc;
}

int fth_nvme_gpu_qp_cancel(struct fth_nvme_gpu_qp *gpu, int err)
{
	cudaStream_t stream;
	/* A stream of its own: the kernels that wait never leave theirs. */
	int rc = fth_gpu_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
			       "a stream");

	if (rc < 0)
		return rc;
	cancel_qp<<<1, 1, 0, stream>>>(gpu->device, (uint32_t)err);
	rc = fth_gpu_check(cudaGetLastError(), "a kernel's launch");
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(stream), "cancelling on the GPU");
	(void)cudaStreamDestroy(stream);
	return rc;
}

static int first_error(int rc, int next)
{
	return rc < 0 ? rc : next;
}

int fth_nvme_gpu_qp_close(struct fth_nvme_gpu_qp *gpu)
{
	int rc = fth_gpu_check(cudaFree(gpu->device), "freeing GPU memory");

	rc = first_error(rc, fth_gpu_check(cudaFree(gpu->memory), "freeing GPU memory"));
	rc = first_error(rc, fth_nvme_gpu_unmap(&gpu->doorbells));
	rc = first_error(rc, fth_nvme_gpu_unmap(&gpu->sq));
	rc = first_error(rc, fth_nvme_gpu_unmap(&gpu->cq));
	memset(gpu, 0, sizeof(*gpu));
	return rc;
}
