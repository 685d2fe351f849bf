/* SPDX-License-Identifier: BSD-2-Clause */
#include "gpu_setup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- the GPU ---- */

int gpu_rig_open(struct gpu_rig *rig)
{
	int devices = 0, rc;

	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	rc = fth_gpu_check(cudaGetDeviceCount(&devices), "looking for a GPU");
	if (rc == 0 && devices == 0)
		rc = fth_fail(EOPNOTSUPP, "no GPU found");
	TRY(rc, cudaGetDeviceProperties(&rig->gpu, 0));
	for (unsigned t = 0; t < GPU_TILES; t++) {
		TRY(rc, cudaStreamCreateWithFlags(&rig->streams[t], cudaStreamNonBlocking));
		TRY(rc, cudaEventCreateWithFlags(&rig->events[t], cudaEventDisableTiming));
	}
	TRY(rc, cudaEventCreate(&rig->begin));
	TRY(rc, cudaEventCreate(&rig->end));
	rig->stream = rig->streams[0];
	return rc;
}

static void destroy_events(struct gpu_rig *rig)
{
	for (unsigned t = 0; t < GPU_TILES; t++) {
		if (rig->streams[t])
			(void)cudaStreamDestroy(rig->streams[t]);
		if (rig->events[t])
			(void)cudaEventDestroy(rig->events[t]);
	}
	if (rig->begin)
		(void)cudaEventDestroy(rig->begin);
	if (rig->end)
		(void)cudaEventDestroy(rig->end);
}

int gpu_rig_close(struct gpu_rig *rig)
{
	int rc = gpu_rig_close_drive(rig), closed;

	/* A controller that does not end: cudaFree() would wait for it, for ever. */
	if (rc == -ETIME)
		return rc;
	closed = fth_gpu_work_close(rig->work);
	/* What fails from here on fails because the GPU has, and that was told. */
	while (rig->memories > 0) {
		rig->memories--;
		if (rig->memory[rig->memories].host)
			(void)cudaFreeHost(rig->memory[rig->memories].at);
		else
			(void)cudaFree(rig->memory[rig->memories].at);
	}
	destroy_events(rig);
	if (rig->medium.pinned)
		(void)cudaHostUnregister(rig->medium.host);
	if (rig->medium.host)
		(void)munmap(rig->medium.host, rig->medium.bytes);
	*rig = gpu_rig();
	return rc < 0 ? rc : closed;
}

int gpu_run(gpu_run_function *run, const struct gpu_settings *s, struct gpu_report *report)
{
	struct gpu_rig rig = {};
	struct fth_gpu_kept kept;
	int rc = gpu_rig_open(&rig), closed;

	if (rc == 0) {
		gpu_name(report, rig.gpu.name);
		rc = run(s, &rig, report);
	}
	kept = fth_gpu_keep(rc);
	closed = gpu_rig_close(&rig);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}

/* ---- memory ---- */

int gpu_rig_map(struct gpu_rig *rig, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return fth_fail(errno, "cannot allocate %zu bytes of host memory", bytes);
	rig->medium.host = (char *)at;
	rig->medium.bytes = bytes;
	(void)madvise(at, bytes, MADV_HUGEPAGE); /* a wish */
	return 0;
}

int gpu_rig_pin(struct gpu_rig *rig)
{
	struct gpu_medium *m = &rig->medium;
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

int gpu_rig_alloc_bytes(struct gpu_rig *rig, void **at, size_t bytes, bool host)
{
	int rc;

	if (rig->memories == GPU_MEMORY_MAX)
		return fth_fail(ENOMEM, "more than %d memory allocations", GPU_MEMORY_MAX);
	rc = fth_gpu_check(host ? cudaMallocHost(at, bytes) : cudaMalloc(at, bytes),
			   "taking memory");
	if (rc < 0)
		return rc;
	rig->memory[rig->memories].at = *at;
	rig->memory[rig->memories++].host = host;
	return 0;
}

/* ---- drives and caches ---- */

int gpu_rig_drive(struct gpu_rig *rig, uint64_t queues, uint64_t warps)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	opts.bytes = rig->medium.bytes;
	opts.memory = rig->medium.host;
	opts.queues = (uint32_t)queues;
	opts.warps = (uint32_t)warps;
	return fth_gpu_drive_open(&opts, &rig->drive);
}

int gpu_rig_cache(struct gpu_rig *rig, uint64_t bytes, uint64_t line, struct fth_gpu_cache **cache)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	unsigned i = rig->caches[0] ? 1 : 0;
	int rc;

	opts.bytes = bytes;
	opts.line = (uint32_t)line;
	rc = fth_gpu_cache_open(rig->drive, &opts, &rig->caches[i]);
	*cache = rig->caches[i];
	return rc;
}

int gpu_rig_close_caches(struct gpu_rig *rig)
{
	int rc = 0;

	for (unsigned i = 0; i < GPU_CACHES_MAX; i++) {
		int closed = fth_gpu_cache_close(rig->caches[i]);

		rc = rc < 0 ? rc : closed;
		rig->caches[i] = NULL;
	}
	return rc;
}

int gpu_rig_close_drive(struct gpu_rig *rig)
{
	int rc = gpu_rig_close_caches(rig), closed = fth_gpu_drive_close(rig->drive);

	rig->drive = NULL;
	return rc < 0 && closed != -ETIME ? rc : closed;
}

int gpu_rig_work(struct gpu_rig *rig, const struct gpu_settings *s)
{
	struct fth_gpu_work_options opts = FTH_GPU_WORK_OPTIONS_INIT;

	opts.blocks = (uint32_t)s->blocks;
	opts.ahead = (uint32_t)s->ahead;
	return fth_gpu_work_open(&opts, &rig->work);
}

int gpu_rig_source(struct fth_gpu_cache *cache, uint64_t offset, uint64_t count, bool readonly,
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

int gpu_rig_finish(struct gpu_rig *rig)
{
	int rc = 0;

	for (unsigned t = 0; t < GPU_TILES; t++)
		TRY(rc, cudaStreamSynchronize(rig->streams[t]));
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
