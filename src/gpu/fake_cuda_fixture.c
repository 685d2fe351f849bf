/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake_cuda_fixture.h"

#include "fathom/base/error.h"
#include "gpu/drive/ctrl.h"

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STREAMS 64u

struct fake_cuda fake_cuda;

struct CUstream_st {
	const struct fth_gpu_ctrl_control *control; /* of the controller that runs on it */
	bool launched;				    /* another kernel */
};

static struct CUstream_st streams[STREAMS];
static const char *controller; /* the host's name of its kernel */
static cudaError_t last;
static struct {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
} call;

void fake_cuda_reset(unsigned fail_at)
{
	fake_cuda = (struct fake_cuda){.fail_at = fail_at};
	memset(streams, 0, sizeof(streams));
	last = cudaSuccess;
}

bool fake_cuda_clean(void)
{
	return !(fake_cuda.memory | fake_cuda.pinned | fake_cuda.registered | fake_cuda.streams |
		 fake_cuda.controllers | fake_cuda.hangs);
}

/* ---- failing ---- */

static cudaError_t tell(cudaError_t err)
{
	if (err != cudaSuccess)
		last = err;
	return err;
}

static bool now(void)
{
	return ++fake_cuda.calls == fake_cuda.fail_at;
}

/* For want of something: other calls work. */
static cudaError_t may_lack(cudaError_t what)
{
	bool fails = now();

	return tell(fake_cuda.dead ? cudaErrorIllegalAddress : fails ? what : cudaSuccess);
}

/* Because the GPU has failed, and its kernels with it. */
static cudaError_t may_die(void)
{
	if (now()) {
		fake_cuda.dead = true;
		fake_cuda.controllers = 0;
	}
	return tell(fake_cuda.dead ? cudaErrorIllegalAddress : cudaSuccess);
}

static void waits_for_all(void)
{
	fake_cuda.hangs += fake_cuda.controllers;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t err = last;

	last = fake_cuda.dead ? cudaErrorIllegalAddress : cudaSuccess;
	return err;
}

const char *cudaGetErrorString(cudaError_t err)
{
	return err == cudaErrorIllegalAddress ? "the GPU has failed" : "that failed";
}

/* ---- memory ---- */

static cudaError_t take(void **to, size_t bytes, unsigned *count)
{
	cudaError_t err = may_lack(cudaErrorMemoryAllocation);

	waits_for_all();
	if (err != cudaSuccess)
		return err;
	*to = malloc(bytes ? bytes : 1);
	*count += *to != NULL;
	return *to ? cudaSuccess : tell(cudaErrorMemoryAllocation);
}

/* Errors that come from elsewhere are told here as well, and it is released even so. */
static cudaError_t give(void *at, unsigned *count)
{
	if (!at)
		return tell(fake_cuda.dead ? cudaErrorIllegalAddress : cudaSuccess);
	waits_for_all();
	free(at);
	--*count;
	return may_die();
}

cudaError_t cudaMalloc(void **to, size_t bytes)
{
	return take(to, bytes, &fake_cuda.memory);
}

cudaError_t cudaFree(void *at)
{
	return give(at, &fake_cuda.memory);
}

cudaError_t cudaMallocHost(void **to, size_t bytes)
{
	return take(to, bytes, &fake_cuda.pinned);
}

cudaError_t cudaFreeHost(void *at)
{
	return give(at, &fake_cuda.pinned);
}

cudaError_t cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
	cudaError_t err = may_lack(cudaErrorMemoryAllocation);

	(void)at;
	(void)bytes;
	(void)flags;
	waits_for_all();
	fake_cuda.registered += err == cudaSuccess;
	return err;
}

cudaError_t cudaHostUnregister(void *at)
{
	(void)at;
	waits_for_all();
	fake_cuda.registered--;
	return may_die();
}

cudaError_t cudaHostGetDevicePointer(void **device, void *at, unsigned flags)
{
	cudaError_t err = may_lack(cudaErrorInvalidValue);

	(void)flags;
	if (err == cudaSuccess)
		*device = at;
	return err;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	(void)kind;
	(void)stream;
	memcpy(to, from, bytes);
	return may_die();
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
	fake_cuda.hangs += fake_cuda.full;
	return cudaMemcpyAsync(to, from, bytes, kind, NULL);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			      size_t width, size_t height, enum cudaMemcpyKind kind,
			      cudaStream_t stream)
{
	(void)kind;
	(void)stream;
	for (size_t y = 0; y < height; y++)
		memcpy((char *)to + y * to_pitch, (const char *)from + y * from_pitch, width);
	return may_die();
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
	(void)stream;
	memset(at, value, bytes);
	return may_die();
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
	fake_cuda.hangs += fake_cuda.full;
	return cudaMemsetAsync(at, value, bytes, NULL);
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
	cudaError_t err = may_lack(cudaErrorMemoryAllocation);

	(void)flags;
	if (err != cudaSuccess)
		return err;
	*stream = &streams[fake_cuda.streams++ % STREAMS];
	**stream = (struct CUstream_st){NULL, false};
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	(void)stream;
	fake_cuda.streams--;
	return may_die();
}

/* Is there something on it that has not ended? */
static bool busy(cudaStream_t stream)
{
	if (!stream) /* the default one: nothing of what runs here is on it */
		return fake_cuda.full;
	stream->launched = stream->launched && fake_cuda.slow && fake_cuda.slow();
	if (fake_cuda.full || stream->launched)
		return true;
	if (!stream->control || fake_cuda.dead)
		return false;
	if (!stream->control->stop || fake_cuda.never_ends)
		return true;
	stream->control = NULL;
	fake_cuda.controllers--;
	return false;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	cudaError_t err = may_die();

	return err == cudaSuccess && busy(stream) ? cudaErrorNotReady : err;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	fake_cuda.hangs += busy(stream);
	return may_die();
}

/* ---- the GPU ---- */

cudaError_t cudaGetDevice(int *device)
{
	*device = 0;
	return may_lack(cudaErrorNoDevice);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device)
{
	(void)which;
	(void)device;
	*value = 16;
	return may_lack(cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel,
								   int threads, size_t shared,
								   unsigned flags)
{
	(void)kernel;
	(void)threads;
	(void)shared;
	(void)flags;
	*blocks = 2;
	return may_lack(cudaErrorInvalidValue);
}

/* ---- kernels ---- */

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
	(void)kernel;
	memset(attributes, 0, sizeof(*attributes));
	return may_lack(cudaErrorInvalidDeviceFunction);
}

static void start_controller(const struct fth_gpu_ctrl *ctrl, cudaStream_t stream)
{
	ctrl->control->up = fake_cuda.never_up ? 0 : ctrl->queue_count * ctrl->warps;
	stream->control = ctrl->control;
	fake_cuda.controllers++;
	fake_cuda.starts++;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args, size_t shared,
			     cudaStream_t stream)
{
	cudaError_t err = may_lack(cudaErrorLaunchOutOfResources);

	(void)grid;
	(void)block;
	(void)shared;
	if (err == cudaSuccess && kernel == controller)
		start_controller(args[0], stream);
	else if (err == cudaSuccess && stream)
		stream->launched = true;
	return err;
}

/* What compiled kernels call; nvcc's own headers declare it. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *name);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
			       size_t shared, cudaStream_t stream);
void **__cudaRegisterFatBinary(void *binary);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *size);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
		       size_t size, int constant, int global);

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
	call.grid = grid;
	call.block = block;
	call.shared = shared;
	call.stream = stream;
	return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	*grid = call.grid;
	*block = call.block;
	*shared = call.shared;
	*(cudaStream_t *)stream = call.stream;
	return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *name)
{
	*kernel = (cudaKernel_t)name;
	return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
			       size_t shared, cudaStream_t stream)
{
	return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}

void **__cudaRegisterFatBinary(void *binary)
{
	static void *handle;

	(void)binary;
	return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
	(void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid, int *size)
{
	(void)handle;
	(void)device;
	(void)limit;
	(void)tid;
	(void)bid;
	(void)block;
	(void)grid;
	(void)size;
	if (strstr(name, "3run12fth_gpu_ctrl"))
		controller = host;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
		       size_t size, int constant, int global)
{
	(void)handle;
	(void)host;
	(void)device;
	(void)name;
	(void)ext;
	(void)size;
	(void)constant;
	(void)global;
}

/* ---- for tests ---- */

void fake_cuda_fail_each(int (*use)(void), unsigned closing)
{
	unsigned n = 0, all;
	int rc;

	fake_cuda_reset(0);
	assert_int_equal(use(), 0);
	all = fake_cuda.calls;
	do {
		fake_cuda_reset(++n);
		rc = use();
		if (!fake_cuda_clean())
			fail_msg("call %u of CUDA: %s; %u pieces of memory, %u pinned, %u streams, "
				 "%u hangs",
				 n, fth_error_text(rc), fake_cuda.memory, fake_cuda.pinned,
				 fake_cuda.streams, fake_cuda.hangs);
		if (n <= all - closing)
			assert_true(rc < 0);
	} while (n < all);
}
