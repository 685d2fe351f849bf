/* SPDX-License-Identifier: BSD-2-Clause */
#include "workloads/pm/machine.h"

#include "workloads/pm/all_kernels.h"
#include "fathom/pm/gpu.h"
#include "base/cuda_error.h"

#include <new>

#define BLOCK 128u /* threads: four warps, each with an item of its own */

struct gpu {
	struct pmw_machine machine;
	cudaStream_t stream;
	struct fth_gpu_pm *pm;
	struct fth_gpu_pm_log *log;
	unsigned blocks; /* that fill the GPU */
};

#define GRID(number, function, parameters)                                                      \
	static __global__ void grid_##number(struct parameters p, uint64_t items)               \
	{                                                                                       \
		uint64_t warp = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32;         \
		uint64_t warps = (uint64_t)gridDim.x * blockDim.x / 32;                         \
                                                                                                \
		for (uint64_t item = warp; item < items; item += warps)                         \
			function(&p, item, threadIdx.x % 32);                                   \
	}                                                                                       \
	static void launch_##number(struct gpu *gpu, const void *p, uint64_t items)             \
	{                                                                                       \
		uint64_t wanted = (items + BLOCK / 32 - 1) / (BLOCK / 32);                      \
		unsigned blocks = wanted < gpu->blocks ? (unsigned)wanted : gpu->blocks;        \
                                                                                                \
		grid_##number<<<blocks, BLOCK, 0, gpu->stream>>>(*(const struct parameters *)p, \
								 items);                        \
	}
PMW_KERNELS(GRID)

typedef void (*launch_fn)(struct gpu *gpu, const void *p, uint64_t items);
static const launch_fn launches[] = {
#define ENTRY(number, function, parameters) launch_##number,
	PMW_KERNELS(ENTRY)};

static int allocate(struct pmw_machine *machine, uint64_t bytes, void **memory)
{
	struct gpu *gpu = (struct gpu *)machine;
	int rc = fth_gpu_check(cudaMalloc(memory, bytes), "allocating GPU memory");

	if (rc == 0)
		rc = fth_gpu_check(cudaMemsetAsync(*memory, 0, bytes, gpu->stream),
				   "clearing GPU memory");
	return rc;
}

static void release(struct pmw_machine *machine, void *memory)
{
	(void)machine;
	(void)cudaFree(memory);
}

static int upload(struct pmw_machine *machine, void *to, const void *from, uint64_t bytes)
{
	struct gpu *gpu = (struct gpu *)machine;
	int rc = fth_gpu_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu->stream),
			       "copying to the GPU");

	return rc ? rc : fth_gpu_check(cudaStreamSynchronize(gpu->stream), "copying to the GPU");
}

static int download(struct pmw_machine *machine, void *to, const void *from, uint64_t bytes)
{
	struct gpu *gpu = (struct gpu *)machine;
	int rc = fth_gpu_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, gpu->stream),
			       "copying from the GPU");

	return rc ? rc : fth_gpu_check(cudaStreamSynchronize(gpu->stream), "copying from the GPU");
}

static int launch_kernel(struct pmw_machine *machine, enum pmw_kernel kernel,
			 const void *parameters, uint64_t items)
{
	struct gpu *gpu = (struct gpu *)machine;
	int rc;

	if (items == 0)
		return 0;
	launches[kernel](gpu, parameters, items);
	rc = fth_gpu_check(cudaGetLastError(), "launching a kernel");
	return rc ? rc : fth_gpu_check(cudaStreamSynchronize(gpu->stream), "running a kernel");
}

static int attach(struct pmw_machine *machine, struct fth_pm *pm, struct fth_pm_view *view)
{
	struct gpu *gpu = (struct gpu *)machine;
	int rc = fth_gpu_pm_register(pm, &gpu->pm);

	if (rc == 0)
		*view = fth_gpu_pm_view(gpu->pm);
	return rc;
}

static void detach(struct pmw_machine *machine)
{
	struct gpu *gpu = (struct gpu *)machine;

	(void)fth_gpu_pm_log_close(gpu->log);
	(void)fth_gpu_pm_unregister(gpu->pm);
	gpu->log = NULL;
	gpu->pm = NULL;
}

static int log_open(struct pmw_machine *machine, uint64_t offset)
{
	struct gpu *gpu = (struct gpu *)machine;

	return fth_gpu_pm_log_open(gpu->pm, offset, &gpu->log);
}

static struct fth_pm_log_view log_view(struct pmw_machine *machine)
{
	return fth_gpu_pm_log_view(((struct gpu *)machine)->log);
}

static int log_clear(struct pmw_machine *machine)
{
	return fth_gpu_pm_log_clear(((struct gpu *)machine)->log);
}

static int save(struct pmw_machine *machine, struct fth_pm_checkpoint *checkpoint, uint32_t flags)
{
	struct gpu *gpu = (struct gpu *)machine;

	return fth_gpu_pm_checkpoint_save(checkpoint, 0, flags, gpu->stream);
}

static int restore(struct pmw_machine *machine, struct fth_pm_checkpoint *checkpoint)
{
	struct gpu *gpu = (struct gpu *)machine;

	return fth_gpu_pm_checkpoint_restore(checkpoint, 0, gpu->stream);
}

static void close_machine(struct pmw_machine *machine)
{
	struct gpu *gpu = (struct gpu *)machine;

	(void)cudaStreamDestroy(gpu->stream);
	delete gpu;
}

static const struct pmw_machine_ops gpu_ops = {
	"gpu",	allocate, release,  upload,    download, launch_kernel, attach,
	detach, log_open, log_view, log_clear, save,	 restore,	close_machine,
};

int pmw_machine_gpu(struct pmw_machine **machine)
{
	struct gpu *gpu = new (std::nothrow) struct gpu();
	int device = 0, processors = 0, rc;

	if (!gpu)
		return fth_fail(ENOMEM, "no memory for a machine");
	gpu->machine.ops = &gpu_ops;
	rc = fth_gpu_check(cudaGetDevice(&device), "finding the GPU");
	if (rc == 0)
		rc = fth_gpu_check(
			cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
			"asking the GPU");
	if (rc == 0)
		rc = fth_gpu_check(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking),
				   "making a stream");
	gpu->blocks = (unsigned)processors * 16;
	if (rc < 0) {
		delete gpu;
		return rc;
	}
	*machine = &gpu->machine;
	return 0;
}
