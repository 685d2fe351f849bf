/* SPDX-License-Identifier: BSD-2-Clause */
/* Logs for kernels: their volatile state is in GPU memory, and kernels find the entries. */
#include "pm/gpu/gpu_internal.h"

#include <stdlib.h>

#define SCAN_THREADS 256u
#define SCAN_BLOCKS  1024u
#define NO_PART	     0xffffffffu

struct fth_gpu_pm_log {
	struct fth_pm_log_view host; /* at the host's addresses, without volatile state */
	struct fth_pm_log_view view; /* for kernels */
	void *state;		     /* GPU memory: counts, or partitions */
	uint64_t state_bytes;
	uint32_t *bad; /* GPU memory: the first part that a kernel failed at */
	int *rc;       /* GPU memory: with what */
};

/* ---- kernels ---- */

__device__ static void tell_failure(uint32_t part, int rc, uint32_t *bad, int *result)
{
	if (rc < 0 && atomicMin(bad, part) > part)
		*result = rc;
}

__global__ static void find_entries(struct fth_pm_log_view log, uint32_t *bad, int *result)
{
	uint32_t step = gridDim.x * blockDim.x;

	for (uint64_t part = blockIdx.x * blockDim.x + threadIdx.x; part < log.parts; part += step)
		tell_failure((uint32_t)part,
			     log.kind == FTH_PM_LOG_HCL ? fth_pm_hcl_scan(&log, (uint32_t)part)
							: fth_pm_conv_scan(&log, (uint32_t)part),
			     bad, result);
}

__global__ static void clear_partitions(struct fth_pm_log_view log, uint32_t *bad, int *result)
{
	uint32_t step = gridDim.x * blockDim.x;

	for (uint64_t part = blockIdx.x * blockDim.x + threadIdx.x; part < log.parts; part += step)
		tell_failure((uint32_t)part, fth_pm_conv_clear(&log, (uint32_t)part), bad, result);
}

typedef void log_kernel(struct fth_pm_log_view log, uint32_t *bad, int *result);

/* Run it for all parts; *bad is the first that failed, NO_PART for none. */
static int run_log_kernel(struct fth_gpu_pm_log *log, log_kernel *kernel, uint32_t *bad)
{
	uint32_t none = NO_PART, blocks = (log->view.parts + SCAN_THREADS - 1) / SCAN_THREADS;
	int rc, result = 0;

	*bad = NO_PART;
	rc = fth_gpu_check(cudaMemcpy(log->bad, &none, sizeof(none), cudaMemcpyHostToDevice),
			   "a kernel's result");
	if (rc < 0)
		return rc;
	if (blocks > SCAN_BLOCKS)
		blocks = SCAN_BLOCKS;
	kernel<<<blocks, SCAN_THREADS>>>(log->view, log->bad, log->rc);
	rc = fth_gpu_check(cudaGetLastError(), "a kernel's launch");
	if (rc == 0)
		rc = fth_gpu_check(cudaMemcpy(bad, log->bad, sizeof(*bad), cudaMemcpyDeviceToHost),
				   "a kernel on a log");
	if (rc == 0 && *bad != NO_PART)
		rc = fth_gpu_check(
			cudaMemcpy(&result, log->rc, sizeof(result), cudaMemcpyDeviceToHost),
			"a kernel's result");
	return rc < 0 ? rc : result;
}

/* ---- opening ---- */

static int allocate_state(struct fth_gpu_pm_log *log)
{
	struct fth_pm_log_view *view = &log->view;
	bool hcl = view->kind == FTH_PM_LOG_HCL;
	int rc;

	log->state_bytes = (uint64_t)view->parts *
			   (hcl ? sizeof(view->counts[0]) : sizeof(view->partitions[0]));
	rc = fth_gpu_check(cudaMalloc(&log->state, log->state_bytes), "GPU memory");
	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc((void **)&log->bad, sizeof(*log->bad)), "GPU memory");
	if (rc == 0)
		rc = fth_gpu_check(cudaMalloc((void **)&log->rc, sizeof(*log->rc)), "GPU memory");
	if (rc == 0)
		rc = fth_gpu_check(cudaMemset(log->state, 0, log->state_bytes), "GPU memory");
	view->counts = hcl ? (uint32_t *)log->state : NULL;
	view->partitions = hcl ? NULL : (struct fth_pm_conv_part *)log->state;
	return rc;
}

static int scan_log(struct fth_gpu_pm_log *log)
{
	uint32_t bad;
	int rc = run_log_kernel(log, find_entries, &bad);

	if (bad == NO_PART)
		return rc;
	return fth_fail(EBADMSG, "log: the entries of %s %u are damaged",
			log->view.kind == FTH_PM_LOG_HCL ? "thread" : "partition", bad);
}

int fth_gpu_pm_log_open(struct fth_gpu_pm *gpu, uint64_t offset, struct fth_gpu_pm_log **out)
{
	struct fth_gpu_pm_log *log = (struct fth_gpu_pm_log *)calloc(1, sizeof(*log));
	struct fth_pm_log_header header;
	struct fth_gpu_kept kept;
	int rc;

	*out = NULL;
	if (!log)
		return -ENOMEM;
	rc = fth_pm_log_header_read(&gpu->pm->view, offset, &header);
	if (rc == 0)
		rc = fth_pm_log_view_of(&gpu->pm->view, offset, &header, &log->host);
	if (rc == 0) {
		log->view = log->host;
		log->view.pm = gpu->view;
		log->view.data = (uint8_t *)fth_gpu_pm_address(gpu, log->host.data);
		rc = allocate_state(log);
	}
	if (rc == 0)
		rc = scan_log(log);
	if (rc < 0) {
		kept = fth_gpu_keep(rc);
		(void)fth_gpu_pm_log_close(log);
		return fth_gpu_tell(&kept);
	}
	*out = log;
	return 0;
}

int fth_gpu_pm_log_close(struct fth_gpu_pm_log *log)
{
	int rc, next;

	if (!log)
		return 0;
	rc = fth_gpu_check(cudaFree(log->state), "GPU memory");
	next = fth_gpu_check(cudaFree(log->bad), "GPU memory");
	rc = rc < 0 ? rc : next;
	next = fth_gpu_check(cudaFree(log->rc), "GPU memory");
	free(log);
	return rc < 0 ? rc : next;
}

struct fth_pm_log_view fth_gpu_pm_log_view(const struct fth_gpu_pm_log *log)
{
	return log->view;
}

/* ---- clearing ---- */

int fth_gpu_pm_log_clear(struct fth_gpu_pm_log *log)
{
	uint32_t bad;
	int rc;

	if (log->view.kind == FTH_PM_LOG_CONV)
		return run_log_kernel(log, clear_partitions, &bad);
	rc = fth_pm_log_next_epoch(&log->host);
	if (rc < 0)
		return rc;
	log->view.epoch = log->host.epoch;
	return fth_gpu_check(cudaMemset(log->state, 0, log->state_bytes), "GPU memory");
}
