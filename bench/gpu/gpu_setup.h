/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the benchmarks of GPU threads stand on: the GPU, pinned host memory as the medium of a
 * drive, GPU memory, streams, a clock, a drive, caches on it. Whatever is taken here is given back
 * by gpu_setup_close(), in the right order, however far a benchmark came: caches, then the drive,
 * then memory, since no memory can be freed while the controller of a drive runs.
 */
#ifndef FTH_BENCH_GPU_RIG_H
#define FTH_BENCH_GPU_RIG_H

#include "gpu_data.h"
#include "gpu_driver.h"
#include "common/median.h"

#include "workloads/micro/gpu_work.h"
#include "base/cuda_error.h"

#include "fathom/hd/wait.h"

#include <functional>

/* Go on only while nothing has failed. */
#define TRY(rc, call)                                      \
	do {                                               \
		if ((rc) == 0)                             \
			(rc) = fth_gpu_check(call, #call); \
	} while (0)

/* The same for calls that return a negative errno. */
#define DO(rc, call)                   \
	do {                           \
		if ((rc) == 0)         \
			(rc) = (call); \
	} while (0)

#define GPU_TILES      3 /* buffers, streams and events of peers that copy ahead */
#define GPU_MEMORY_MAX 160
#define GPU_CACHES_MAX 2
#define GPU_WAYS_MAX   16

/* Memory of the host that kernels reach. */
struct gpu_medium {
	char *host;
	char *mapped; /* as kernels see it */
	size_t bytes;
	bool pinned;
	double seconds; /* that pinning took */
};

struct gpu_setup {
	struct cudaDeviceProp gpu;
	struct gpu_medium medium;
	cudaStream_t stream, streams[GPU_TILES]; /* the first of them is `stream` */
	cudaEvent_t begin, end, events[GPU_TILES];
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *caches[GPU_CACHES_MAX];
	struct fth_gpu_work *work;
	unsigned memories;
	struct {
		void *at;
		bool host;
	} memory[GPU_MEMORY_MAX];
};

/*
 * Zeroed before. A GPU, streams and events; -EOPNOTSUPP where there is none. All kernels are
 * loaded: that can not be done while a drive's controller runs.
 */
int gpu_setup_open(struct gpu_setup *setup);
int gpu_setup_close(struct gpu_setup *setup);

/* Host memory as the medium, and pin it: what CPU threads fill is filled between the two. */
int gpu_setup_map(struct gpu_setup *setup, size_t bytes);
int gpu_setup_pin(struct gpu_setup *setup);

/* GPU memory, or pinned host memory, until the setup is closed. */
int gpu_setup_alloc_bytes(struct gpu_setup *setup, void **at, size_t bytes, bool host);

template <typename T> static int gpu_setup_alloc(struct gpu_setup *setup, T **at, size_t count)
{
	return gpu_setup_alloc_bytes(setup, (void **)at, count * sizeof(T), false);
}

template <typename T> static int gpu_setup_alloc_host(struct gpu_setup *setup, T **at, size_t count)
{
	return gpu_setup_alloc_bytes(setup, (void **)at, count * sizeof(T), true);
}

/*
 * A drive on the medium with so many queue pairs; `warps` of its controller for each, 0: its
 * choice. Take all memory before.
 */
int gpu_setup_drive(struct gpu_setup *setup, uint64_t queues, uint64_t warps);

/* A cache on the drive. */
int gpu_setup_cache(struct gpu_setup *setup, uint64_t bytes, uint64_t line,
		    struct fth_gpu_cache **cache);

/* Close what is open of these: before others are opened. */
int gpu_setup_close_caches(struct gpu_setup *setup);
int gpu_setup_close_drive(struct gpu_setup *setup);

/* setup->work, with the settings' blocks and ahead. */
int gpu_setup_work(struct gpu_setup *setup, const struct gpu_settings *s);

/* An array of elements of 8 bytes, `offset` bytes into the medium, for setup->work. */
int gpu_setup_source(struct fth_gpu_cache *cache, uint64_t offset, uint64_t count, bool readonly,
		     struct fth_gpu_source *out);

/* Wait for what was launched on the stream since `begin` was recorded, and say how long it took. */
int gpu_setup_elapsed(struct gpu_setup *setup, double *seconds);

/* Wait for all streams of tiles. */
int gpu_setup_finish(struct gpu_setup *setup);

/*
 * `run` measures way 0, 1, ... in turn, as often as the settings say; medians of what it says.
 * -EINTR when the user wants it to end.
 */
int gpu_rounds(const struct gpu_settings *s, unsigned ways, double *medians,
	       const std::function<int(unsigned way, unsigned round, double *value)> &run);

/* The same of a call, by the clock of the CPU. */
int gpu_timed(const std::function<int()> &call, double *seconds);

/*
 * Random blocks of 512 and of 4096 bytes a second that are read with no queue, with memory of its
 * own, which is given back.
 */
int gpublock_limits(uint64_t medium, uint64_t data, double rates[2]);

#endif
