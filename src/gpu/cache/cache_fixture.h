/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of caches in GPU memory share: a drive full of known numbers, a cache, an array.
 */
#ifndef FTH_GPU_CACHE_FIXTURE_H
#define FTH_GPU_CACHE_FIXTURE_H

#include "fathom/gpu/array.h"
#include "gpu/drive/medium_fixture.h"

struct bed_opts {
	uint64_t bytes; /* of each SSD */
	uint64_t cache;
	uint32_t line;
	uint32_t ssds;
	uint32_t timeout_ms;
	bool replicated;
	const struct fth_dev_model *model;
	uint32_t block = 512; /* of the drive */
};

struct report {
	unsigned long long wrong; /* elements that were not what they should be */
	unsigned long long failed;
	int rc; /* of one that failed */
	unsigned long long sum;
};

struct bed {
	struct bed_opts opts;
	struct bed_medium medium;
	struct fth_gpu_drive *drive; /* its drive */
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint64_t> a; /* uint64_t, all of the drive */
	cudaStream_t stream;
	struct report *report; /* in GPU memory */
	uint64_t *scratch;     /* there as well, 1 MiB */
};

static inline struct bed_opts bed_defaults(void)
{
	struct bed_opts opts = {4u << 20, 256u << 10, 4096, 1, 10000, false, NULL};

	return opts;
}

/* Element i before anyone changed it. */
FTH_HD uint64_t bed_value(uint64_t i)
{
	return fth_mix64(i + 1);
}

/* Where the medium has element i, on SSD `ssd` if there are replicas. */
static inline uint64_t *bed_on_medium(const struct bed *bed, uint64_t i, uint32_t ssd)
{
	uint64_t line = i * 8 / bed->opts.line, offset = i * 8 % bed->opts.line;

	if (!bed->opts.replicated) {
		ssd = (uint32_t)(line % bed->opts.ssds);
		line /= bed->opts.ssds;
	}
	return (uint64_t *)(bed_medium_at(&bed->medium, ssd) + line * bed->opts.line + offset);
}

/* What the host changed on the medium is there; and what the drive changed is seen. */
static inline void bed_push(struct bed *bed)
{
	bed_medium_push(&bed->medium);
}

static inline void bed_pull(struct bed *bed)
{
	bed_medium_pull(&bed->medium);
}

static inline struct bed bed_open(const struct bed_opts *opts)
{
	struct fth_gpu_drive_options drive = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_cache_options cache = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct bed bed = {};

	bed.opts = *opts;
	drive.bytes = opts->bytes;
	drive.ssds = opts->ssds;
	drive.queues = 4 * opts->ssds;
	drive.entries = 128;
	drive.model = opts->model;
	drive.block = opts->block;
	cache.bytes = opts->cache;
	cache.line = opts->line;
	cache.timeout_ms = opts->timeout_ms;
	array.replicated = opts->replicated;
	array.readonly = opts->replicated;
	CHECK(cudaStreamCreateWithFlags(&bed.stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&bed.report, sizeof(*bed.report)));
	CHECK(cudaMalloc((void **)&bed.scratch, 1u << 20));
	bed.medium = bed_medium_open(&drive);
	bed.drive = bed.medium.drive;
	OK(fth_gpu_cache_open(bed.drive, &cache, &bed.cache));
	OK(fth_gpu_array_open(bed.cache, &array, &bed.a));
	MUST(bed.a.count == opts->bytes / 8 * (opts->replicated ? 1 : opts->ssds));
	for (uint64_t i = 0; i < bed.a.count; i++)
		for (uint32_t ssd = 0; ssd < (opts->replicated ? opts->ssds : 1); ssd++)
			*bed_on_medium(&bed, i, ssd) = bed_value(i);
	bed_push(&bed);
	return bed;
}

static inline void bed_close(struct bed *bed)
{
	OK(fth_gpu_cache_close(bed->cache));
	bed_medium_close(&bed->medium);
	CHECK(cudaFree(bed->report));
	CHECK(cudaFree(bed->scratch));
	CHECK(cudaStreamDestroy(bed->stream));
}

static inline void bed_clear(struct bed *bed)
{
	CHECK(cudaMemsetAsync(bed->report, 0, sizeof(*bed->report), bed->stream));
}

/* What the kernel that was launched since bed_clear() told. */
static inline struct report bed_finish(struct bed *bed)
{
	struct report report;

	CHECK(cudaGetLastError());
	CHECK(cudaMemcpyAsync(&report, bed->report, sizeof(report), cudaMemcpyDeviceToHost,
			      bed->stream));
	CHECK(cudaStreamSynchronize(bed->stream));
	return report;
}

#define BED_ALL_WELL(report)                                                                  \
	do {                                                                                  \
		if ((report).wrong || (report).failed)                                        \
			fprintf(stderr, "%llu wrong, %llu failed, with %d\n", (report).wrong, \
				(report).failed, (report).rc);                                \
		MUST((report).wrong == 0 && (report).failed == 0);                            \
	} while (0)

static __device__ __forceinline__ void bed_tell(struct report *report, int rc, bool right)
{
	if (rc < 0) {
		atomicAdd(&report->failed, 1);
		report->rc = rc;
	} else if (!right) {
		atomicAdd(&report->wrong, 1);
	}
}

static __device__ __forceinline__ uint64_t bed_thread(void)
{
	return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* `times` elements by each thread, anywhere. */
__global__ static void __launch_bounds__(256, 6)
	bed_read_random(fth_gpu_array<uint64_t> a, uint32_t times, uint64_t seed,
			struct report *report)
{
	struct fth_rng rng = {seed + bed_thread()};

	for (uint32_t k = 0; k < times; k++) {
		uint64_t i = fth_rng_below(&rng, a.count), v = 0;
		int rc = fth_gpu_get(a, i, &v);

		bed_tell(report, rc, v == bed_value(i));
	}
}

/* Every element. */
__global__ static void __launch_bounds__(256, 6)
	bed_read_all(fth_gpu_array<uint64_t> a, struct report *report)
{
	for (uint64_t i = bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x) {
		uint64_t v = 0;
		int rc = fth_gpu_get(a, i, &v);

		bed_tell(report, rc, v == bed_value(i));
	}
}

#endif
