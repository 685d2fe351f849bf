/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * gpu_sum URI [BYTES]: the sum of a device's 64-bit numbers, added up by threads of a GPU, through
 * BYTES of its memory (default 64 MiB) that the device may be much larger than. Lines of 4096 bytes
 * are read whole: what follows the last one of the device is not added.
 *
 *	nvcc -arch=native -O2 gpu_sum.cu $(pkg-config --cflags --libs fathom-cuda)
 *	./a.out file:/data/numbers
 *
 * Exits with 77 where there is no GPU.
 */
#include <fathom/base.h>
#include <fathom/gpu/array.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct result {
	unsigned long long sum;
	int error; /* of one of the threads */
};

__global__ static void __launch_bounds__(256, 6)
	add_up(fth_gpu_array<uint64_t> numbers, struct result *result)
{
	uint64_t step = (uint64_t)gridDim.x * blockDim.x, v = 0;
	unsigned long long sum = 0;
	int rc = 0;

	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < numbers.count; i += step) {
		rc = fth_gpu_get(numbers, i, &v);
		if (rc < 0)
			break; /* each of the others might wait for its timeout as well */
		sum += v;
	}
	if (rc < 0)
		result->error = rc;
	atomicAdd(&result->sum, sum);
}

/* CUDA's errors as Fathom's. */
static int from_cuda(cudaError_t err)
{
	return err == cudaSuccess ? 0 : fth_fail(EIO, "%s", cudaGetErrorString(err));
}

static int run(struct fth_gpu_cache *cache, cudaStream_t stream, struct result *on_gpu,
	       struct result *result)
{
	struct fth_gpu_array_options opts = FTH_GPU_ARRAY_OPTIONS_INIT;
	fth_gpu_array<uint64_t> numbers;
	int rc;

	opts.readonly = true;
	rc = fth_gpu_array_open(cache, &opts, &numbers);
	if (rc == 0)
		rc = from_cuda(cudaMemsetAsync(on_gpu, 0, sizeof(*on_gpu), stream));
	if (rc < 0)
		return rc;
	add_up<<<264, 256, 0, stream>>>(numbers, on_gpu);
	rc = from_cuda(cudaGetLastError());
	if (rc == 0)
		rc = from_cuda(cudaMemcpyAsync(result, on_gpu, sizeof(*result),
					       cudaMemcpyDeviceToHost, stream));
	if (rc == 0)
		rc = from_cuda(cudaStreamSynchronize(stream));
	return rc < 0 ? rc : result->error;
}

static void complain(const char *uri, int rc)
{
	if (rc < 0)
		fprintf(stderr, "gpu_sum: %s: %s\n", uri, fth_error_text(rc));
}

static int sum_of(const char *uri, uint64_t bytes, struct result *result)
{
	struct fth_gpu_drive_options drive_opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_cache_options cache_opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_drive *drive = NULL;
	struct fth_gpu_cache *cache = NULL;
	struct result *on_gpu = NULL;
	cudaStream_t stream = NULL;
	int rc, closed;

	/* A stream of our own, and all memory before the drive: see fathom/gpu.h. */
	rc = from_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	if (rc == 0)
		rc = from_cuda(cudaMalloc((void **)&on_gpu, sizeof(*on_gpu)));
	drive_opts.queues = 8;
	if (rc == 0)
		rc = fth_gpu_drive_open_uri(uri, &drive_opts, &drive);
	cache_opts.bytes = bytes;
	if (rc == 0)
		rc = fth_gpu_cache_open(drive, &cache_opts, &cache);
	if (rc == 0)
		rc = run(cache, stream, on_gpu, result);
	complain(uri, rc);
	closed = fth_gpu_cache_close(cache);
	complain(uri, closed);
	rc = rc < 0 ? rc : closed;
	closed = fth_gpu_drive_close(drive);
	complain(uri, closed);
	if (closed == 0) {
		(void)cudaFree(on_gpu);
		(void)cudaStreamDestroy(stream);
	}
	return rc < 0 ? rc : closed;
}

int main(int argc, char **argv)
{
	uint64_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 64u << 20;
	struct result result;
	int gpus = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: gpu_sum URI [BYTES]\n");
		return 2;
	}
	/* Kernels are loaded now, and not while a drive's controller runs. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
		fprintf(stderr, "gpu_sum: there is no GPU here\n");
		return 77;
	}
	if (sum_of(argv[1], bytes, &result) < 0)
		return 1;
	printf("%llu\n", result.sum);
	return 0;
}
