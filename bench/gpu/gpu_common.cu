/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_common.h"

#include "fathom/hd/wait.h"

#include <stdlib.h>
#include <sys/mman.h>

int gpu_find(struct cudaDeviceProp *gpu)
{
	int devices = 0, rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	rc = fth_gpu_check(cudaGetDeviceCount(&devices), "looking for a GPU");
	if (rc < 0)
		return rc;
	if (devices == 0)
		return fth_fail(EOPNOTSUPP, "there is no GPU here");
	return fth_gpu_check(cudaGetDeviceProperties(gpu, 0), "asking what the GPU is");
}

int gpu_map(struct gpu_pinned *p, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return fth_fail(errno, "%zu bytes of host memory", bytes);
	p->host = (char *)at;
	p->bytes = bytes;
	(void)madvise(at, bytes, MADV_HUGEPAGE); /* a wish */
	return 0;
}

int gpu_pin(struct gpu_pinned *p)
{
	uint64_t begin = fth_now_ns();
	int rc = fth_gpu_check(cudaHostRegister(p->host, p->bytes, cudaHostRegisterMapped),
			       "pinning memory");

	if (rc < 0)
		return rc;
	p->registered = true;
	p->seconds = (double)(fth_now_ns() - begin) * 1e-9;
	return fth_gpu_check(cudaHostGetDevicePointer((void **)&p->mapped, p->host, 0),
			     "its GPU address");
}

void gpu_unpin(struct gpu_pinned *p)
{
	/* What fails here fails because the GPU has; the results were told before. */
	if (p->registered)
		(void)cudaHostUnregister(p->host);
	if (p->host)
		(void)munmap(p->host, p->bytes);
}

int gpu_rig_open(struct gpu_rig *rig, size_t medium)
{
	int rc = gpu_find(&rig->gpu);

	if (rc == 0)
		rc = gpu_map(&rig->medium, medium);
	if (rc == 0)
		rc = gpu_pin(&rig->medium);
	TRY(rc, cudaStreamCreateWithFlags(&rig->stream, cudaStreamNonBlocking));
	TRY(rc, cudaEventCreate(&rig->begin));
	TRY(rc, cudaEventCreate(&rig->end));
	return rc;
}

void gpu_rig_close(struct gpu_rig *rig)
{
	/* What fails here fails because the GPU has; the results were told before. */
	if (rig->end)
		(void)cudaEventDestroy(rig->end);
	if (rig->begin)
		(void)cudaEventDestroy(rig->begin);
	if (rig->stream)
		(void)cudaStreamDestroy(rig->stream);
	gpu_unpin(&rig->medium);
}

int gpu_rig_elapsed(struct gpu_rig *rig, double *seconds)
{
	float ms = 0;
	int rc = 0;

	TRY(rc, cudaEventRecord(rig->end, rig->stream));
	TRY(rc, cudaEventSynchronize(rig->end));
	TRY(rc, cudaEventElapsedTime(&ms, rig->begin, rig->end));
	*seconds = ms * 1e-3;
	return rc;
}
