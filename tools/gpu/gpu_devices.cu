/* SPDX-License-Identifier: BSD-2-Clause */
/* Which GPUs there are, and what of Fathom they can run. */
#include "gpu_engine.h"

#include "base/cuda_error.h"

#include <stdio.h>
#include <string.h>

/* Stands for all kernels of this build: they are compiled for the same processors. */
static __global__ void some_kernel(void)
{
}

static bool attribute(enum cudaDeviceAttr which, int device)
{
	int value = 0;

	if (cudaDeviceGetAttribute(&value, which, device) == cudaSuccess)
		return value != 0;
	(void)cudaGetLastError(); /* an attribute that the driver does not know is one it lacks */
	return false;
}

static void describe_code(struct gpu_engine_device *d)
{
	struct cudaFuncAttributes found;

	d->code = cudaFuncGetAttributes(&found, (const void *)some_kernel) == cudaSuccess;
	(void)cudaGetLastError();
}

static int describe(int device, struct gpu_engine_device *d)
{
	struct cudaDeviceProp gpu;
	size_t free_memory = 0, memory = 0;
	int rc = fth_gpu_check(cudaGetDeviceProperties(&gpu, device), "asking what the GPU is");

	if (rc == 0)
		rc = fth_gpu_check(cudaSetDevice(device), "using the GPU");
	if (rc == 0)
		rc = fth_gpu_check(cudaMemGetInfo(&free_memory, &memory), "asking for its memory");
	if (rc < 0)
		return rc;
	snprintf(d->name, sizeof(d->name), "%s", gpu.name);
	snprintf(d->pci, sizeof(d->pci), "%04x:%02x:%02x.0", (unsigned)gpu.pciDomainID,
		 (unsigned)gpu.pciBusID, (unsigned)gpu.pciDeviceID);
	d->major = gpu.major;
	d->minor = gpu.minor;
	d->memory = memory;
	d->free_memory = free_memory;
	d->processors = (unsigned)gpu.multiProcessorCount;
	d->threads = d->processors * (unsigned)gpu.maxThreadsPerMultiProcessor;
	d->maps_host = attribute(cudaDevAttrCanMapHostMemory, device) &&
		       attribute(cudaDevAttrHostRegisterSupported, device);
	d->gpudirect = attribute(cudaDevAttrGPUDirectRDMASupported, device);
	describe_code(d);
	return 0;
}

int gpu_engine_devices(struct gpu_engine_device devices[GPU_ENGINE_DEVICES_MAX])
{
	int n = 0, rc = fth_gpu_check(cudaGetDeviceCount(&n), "looking for a GPU");

	if (rc == 0 && n == 0)
		rc = fth_fail(EOPNOTSUPP, "no GPU found");
	if (n > GPU_ENGINE_DEVICES_MAX)
		n = GPU_ENGINE_DEVICES_MAX;
	memset(devices, 0, GPU_ENGINE_DEVICES_MAX * sizeof(devices[0]));
	for (int i = 0; rc == 0 && i < n; i++)
		rc = describe(i, &devices[i]);
	return rc < 0 ? rc : n;
}
