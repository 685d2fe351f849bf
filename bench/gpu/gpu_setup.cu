/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_setup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- the GPU ---- */

int gpu_setup_open(struct gpu_setup *setup)
{
	int devices = 0, rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	rc = fth_gpu_check(cudaGetDeviceCount(&devices), "looking for a GPU");
	if (rc == 0 && devices == 0)
		rc = fth_fail(EOPNOTSUPP, "no GPU found");
	TRY(rc, cudaGetDeviceProperties(&setup->gpu, 0));
	for (unsigned t = 0; t < GPU_TILES; t++) {
		TRY(rc, cudaStreamCreateWithFlags(&setup->streams[t], cudaStreamNonBlocking));
		TRY(rc, cudaEventCreateWithFlags(&setup->events[t], cudaEventDisableTiming));
	}
	TRY(rc, cudaEventCreate(&setup->begin));
	TRY(rc, cudaEventCreate(&setup->end));
	setup->stream = setup->streams[0];
	return rc;
}

static void destroy_events(struct gpu_setup *setup)
{
	for (unsigned t = 0; t < GPU_TILES; t++) {
		if (setup->streams[t])
			(void)cudaStreamDestroy(setup->streams[t]);
		if (setup->events[t])
			(void)cudaEventDestroy(setup->events[t]);
	}
	if (setup->begin)
		(void)cudaEventDestroy(setup->begin);
	if (setup->end)
		(void)cudaEventDestroy(setup->end);
}

int gpu_setup_close(struct gpu_setup *setup)
{
	int rc = gpu_setup_close_drive(setup), closed;

	/* A controller that does not end: cudaFree() would wait for it, for ever. */
	if (rc == -ETIME)
		return rc;
	closed = fth_gpu_work_close(setup->work);
	/* What fails from here on fails because the GPU has, and that was told. */
	while (setup->memories > 0) {
		setup->memories--;
		if (setup->memory[setup->memories].host)
			(void)cudaFreeHost(setup->memory[setup->memories].at);
		else
			(void)cudaFree(setup->memory[setup->memories].at);
	}
	destroy_events(setup);
	if (setup->medium.pinned)
		(void)cudaHostUnregister(setup->medium.host);
	if (setup->medium.host)
		(void)munmap(setup->medium.host, setup->medium.bytes);
	*setup = gpu_setup();
	return rc < 0 ? rc : closed;
}

int gpu_run(gpu_run_function *run, const struct gpu_settings *s, struct gpu_report *report)
{
	struct gpu_setup setup = {};
	struct fth_gpu_kept kept;
	int rc = gpu_setup_open(&setup), closed;

	if (rc == 0) {
		gpu_name(report, setup.gpu.name);
		rc = run(s, &setup, report);
	}
	kept = fth_gpu_keep(rc);
	closed = gpu_setup_close(&setup);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}

/* ---- memory ---- */

int gpu_setup_map(struct gpu_setup *setup, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return fth_fail(errno, "cannot allocate %zu bytes of host memory", bytes);
	setup->medium.host = (char *)at;
	setup->medium.bytes = bytes;
	(void)madvise(at, bytes, MADV_HUGEPAGE); /* a wish */
	return 0;
}

int gpu_setup_pin(struct gpu_setup *setup)
{
	struct gpu_medium *m = &setup->medium;
	uint64_t begin = fth_now_ns();
	int rc = fth_gpu_check(cudaHostRegister(m->host, m->bytes, cudaHostRegisterMapped),
			       "pinning memory");

	if (rc < 0)
		return rc;
	m->pinned = true;
	m->seconds = (double)(fth_now_ns() - begin) * 1e-9;
	return fth_gpu_check(cudaHostGetDevicePointer((void **)&m->mapped, m->host, 0),
			     "its GPU address");
}

int gpu_setup_alloc_bytes(struct gpu_setup *setup, void **at, size_t bytes, bool host)
{
	int rc;

	if (setup->memories == GPU_MEMORY_MAX)
		return fth_fail(ENOMEM, "more than %d memory allocations", GPU_MEMORY_MAX);
	rc = fth_gpu_check(host ? cudaMallocHost(at, bytes) : cudaMalloc(at, bytes),
			   "taking memory");
	if (rc < 0)
		return rc;
	setup->memory[setup->memories].at = *at;
	setup->memory[setup->memories++].host = host;
	return 0;
}

/* ---- drives and caches ---- */

int gpu_setup_drive(struct gpu_setup *setup, uint64_t queues, uint64_t warps)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	opts.bytes = setup->medium.bytes;
	opts.memory = setup->medium.host;
	opts.queues = (uint32_t)queues;
	opts.warps = (uint32_t)warps;
	return fth_gpu_drive_open(&opts, &setup->drive);
}

int gpu_setup_cache(struct gpu_setup *setup, uint64_t bytes, uint64_t line,
		    struct fth_gpu_cache **cache)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	unsigned i = setup->caches[0] ? 1 : 0;
	int rc;

	opts.bytes = bytes;
	opts.line = (uint32_t)line;
	rc = fth_gpu_cache_open(setup->drive, &opts, &setup->caches[i]);
	*cache = setup->caches[i];
	return rc;
}

int gpu_setup_close_caches(struct gpu_setup *setup)
{
	int rc = 0;

	for (unsigned i = 0; i < GPU_CACHES_MAX; i++) {
		int closed = fth_gpu_cache_close(setup->caches[i]);

		rc = rc < 0 ? rc : closed;
		setup->caches[i] = NULL;
	}
	return rc;
}

int gpu_setup_close_drive(struct gpu_setup *setup)
{
	int rc = gpu_setup_close_caches(setup), closed = fth_gpu_drive_close(setup->drive);

	setup->drive = NULL;
	return rc < 0 && closed != -ETIME ? rc : closed;
}

int gpu_setup_work(struct gpu_setup *setup, const struct gpu_settings *s)
{
	struct fth_gpu_work_options opts = FTH_GPU_WORK_OPTIONS_INIT;

	opts.blocks = (uint32_t)s->blocks;
	opts.ahead = (uint32_t)s->ahead;
	return fth_gpu_work_open(&opts, &setup->work);
}

int gpu_setup_source(struct fth_gpu_cache *cache, uint64_t offset, uint64_t count, bool readonly,
		     struct fth_gpu_source *out)
{
	struct fth_gpu_array_options opts = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct fth_gpu_array_base array;
	int rc;

	opts.offset = offset;
	opts.count = count;
	opts.readonly = readonly;
	rc = fth_gpu_cache_array(cache, 8, &opts, &array);
	if (rc == 0)
		*out = fth_gpu_source_cached(&array);
	return rc;
}

/* ---- time ---- */

int gpu_setup_elapsed(struct gpu_setup *setup, double *seconds)
{
	float ms = 0;
	int rc = 0;

	TRY(rc, cudaEventRecord(setup->end, setup->stream));
	TRY(rc, cudaEventSynchronize(setup->end));
	TRY(rc, cudaEventElapsedTime(&ms, setup->begin, setup->end));
	*seconds = ms * 1e-3;
	return rc;
}

int gpu_setup_finish(struct gpu_setup *setup)
{
	int rc = 0;

	for (unsigned t = 0; t < GPU_TILES; t++)
		TRY(rc, cudaStreamSynchronize(setup->streams[t]));
	return rc;
}

int gpu_timed(const std::function<int()> &call, double *seconds)
{
	uint64_t begin = fth_now_ns();
	int rc = call();

	*seconds = (double)(fth_now_ns() - begin) * 1e-9;
	return rc;
}

int gpu_rounds(const struct gpu_settings *s, unsigned ways, double *medians,
	       const std::function<int(unsigned way, unsigned round, double *value)> &run)
{
	double values[GPU_WAYS_MAX][GPU_ROUNDS_MAX];
	int rc = 0;

	for (unsigned r = 0; rc == 0 && r < s->rounds; r++)
		for (unsigned way = 0; rc == 0 && way < ways; way++) {
			rc = gpu_stopped();
			DO(rc, run(way, r, &values[way][r]));
		}
	for (unsigned way = 0; rc == 0 && way < ways; way++)
		medians[way] = fth_median(values[way], (unsigned)s->rounds);
	return rc;
}
