/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GPU threads write and read blocks through a queue pair of the driver; the controller is the
 * software one, on the CPU. Every block is checked on the GPU. Compiled wherever nvcc is; skipped
 * (77) where there is no GPU to run on.
 */
#include "gpu_map.h"

#include "cuda_fixture.h"
#include "fathom/base/rng.h"
#include "nvme/ctrl.h"
#include "nvme/soft.h"
#include "must_fixture.h"

#define THREADS	 256u
#define ROUNDS	 20u
#define BLOCK	 512u
#define PATIENCE 20000000000ull /* ns: a hang ends as a failure, not as a dead GPU */

struct counts {
	uint32_t errors, wrong, done;
	int last_error;
};

__device__ static int transfer(struct fth_nvme_qp *qp, uint8_t opcode, uint32_t block,
			       uint64_t iova, uint32_t hint)
{
	struct fth_nvme_sqe sqe = {};
	struct fth_nvme_done done;

	sqe.opcode = opcode;
	sqe.nsid = 1;
	sqe.prp1 = iova;
	sqe.cdw10 = block;
	return fth_nvme_qp_exec(qp, &sqe, hint, fth_deadline_ns(PATIENCE), &done, NULL);
}

/* Each thread has blocks of its own, and a page of its own in host memory. */
__global__ static void work(struct fth_nvme_qp *qp, uint32_t *pages, uint64_t iova,
			    struct counts *counts)
{
	uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
	volatile uint32_t *page = pages + me * (FTH_NVME_PAGE_SIZE / 4);

	iova += (uint64_t)me * FTH_NVME_PAGE_SIZE;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t block = me * ROUNDS + round;
		int rc;

		for (uint32_t i = 0; i < BLOCK / 4; i++)
			page[i] = (uint32_t)fth_mix64((uint64_t)block << 32 | i);
		__threadfence_system();
		rc = transfer(qp, FTH_NVME_WRITE, block, iova, me * 32);
		for (uint32_t i = 0; i < BLOCK / 4; i++)
			page[i] = 0;
		__threadfence_system();
		if (rc == 0)
			rc = transfer(qp, FTH_NVME_READ, block, iova, me * 32);
		if (rc < 0) {
			atomicAdd(&counts->errors, 1);
			counts->last_error = rc;
			continue;
		}
		for (uint32_t i = 0; i < BLOCK / 4; i++)
			if (page[i] != (uint32_t)fth_mix64((uint64_t)block << 32 | i))
				atomicAdd(&counts->wrong, 1);
		atomicAdd(&counts->done, 1);
	}
}

static struct fth_nvme *open_driver(struct fth_dev **medium)
{
	struct fth_nvme_ctrl_options ctrl_opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_nvme_options opts = FTH_NVME_OPTIONS_INIT;
	struct fth_nvme_transport *transport;
	struct fth_nvme_ctrl *ctrl;
	struct fth_nvme *nvme;

	opts.queues = 1;
	opts.entries = 64;
	OK(fth_dev_open("mem:8M", medium));
	OK(fth_nvme_ctrl_new(*medium, &ctrl_opts, &ctrl));
	OK(fth_nvme_soft_new(ctrl, &transport));
	OK(fth_nvme_open(transport, &opts, &nvme));
	return nvme;
}

static struct counts run(struct fth_nvme_qp *qp, uint32_t threads,
			 const struct fth_nvme_gpu_range *pages, uint64_t iova)
{
	uint32_t per_block = threads < 64 ? threads : 64, blocks = threads / per_block;
	struct counts *device, host = {};

	CHECK(cudaMalloc((void **)&device, sizeof(*device)));
	CHECK(cudaMemset(device, 0, sizeof(*device)));
	work<<<blocks, per_block>>>(qp, (uint32_t *)pages->device, iova, device);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&host, device, sizeof(host), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(device));
	return host;
}

static int judge(const struct counts *counts)
{
	printf("%u blocks written and read, %u errors (%d), %u wrong words\n", counts->done,
	       counts->errors, counts->last_error, counts->wrong);
	return counts->done == THREADS * ROUNDS && counts->errors == 0 && counts->wrong == 0 ? 0
											     : 1;
}

int main(void)
{
	struct fth_nvme_gpu_range pages;
	struct fth_nvme_gpu_qp gpu;
	struct fth_nvme_dma dma;
	struct fth_dev *medium;
	struct fth_nvme *nvme;
	struct counts counts;
	int rc;

	skip_without_gpu();
	nvme = open_driver(&medium);
	OK(fth_nvme_dma_alloc(nvme, THREADS * FTH_NVME_PAGE_SIZE, &dma));
	OK(fth_nvme_gpu_map(dma.ptr, dma.len, false, &pages));
	OK(fth_nvme_gpu_qp_open(fth_nvme_qp(nvme, 0), false, &gpu));
	counts = run(gpu.device, THREADS, &pages, dma.iova);
	rc = judge(&counts);

	/* A cancelled queue pair ends waits at once, with the error it was given. */
	OK(fth_nvme_gpu_qp_cancel(&gpu, ENODEV));
	counts = run(gpu.device, 1, &pages, dma.iova);
	if (counts.errors != ROUNDS || counts.last_error != -ENODEV)
		rc = 1;
	OK(fth_nvme_gpu_qp_close(&gpu));
	OK(fth_nvme_gpu_unmap(&pages));
	fth_nvme_dma_free(nvme, &dma);
	fth_nvme_close(nvme);
	fth_dev_close(medium);
	return rc;
}
