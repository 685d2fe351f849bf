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
