/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent memory for GPUs: registering it. Siblings: gpu_log.cu has logs, gpu_checkpoint.cu
 * checkpoints of GPU memory.
 */
#include "pm/gpu/gpu_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- ranges ---- */

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + FTH_PM_PAGE - 1) / FTH_PM_PAGE * FTH_PM_PAGE;
}

static int pin_range(struct pm_gpu_range *range, void *host, uint64_t bytes, unsigned flags)
{
	void *device = NULL;
	int rc = fth_gpu_check(cudaHostRegister(host, bytes, flags), "registering it with CUDA");

	if (rc < 0)
		return rc;
	range->host = (uint8_t *)host;
	range->bytes = bytes;
	rc = fth_gpu_check(cudaHostGetDevicePointer(&device, host, 0), "its address for the GPU");
	range->device = (uint8_t *)device;
	return rc;
}

static int unpin_range(struct pm_gpu_range *range)
{
	int rc = 0;

	if (range->host)
		rc = fth_gpu_check(cudaHostUnregister(range->host), "unregistering it");
	memset(range, 0, sizeof(*range));
	return rc;
}

static void *to_device(const struct pm_gpu_range *range, const void *host)
{
	return range->device + ((const uint8_t *)host - range->host);
}

/* ---- registering ---- */

/* Why CUDA does not take the memory: what a user can do about it. */
static int explain(const struct fth_pm *pm, int rc)
{
	struct fth_gpu_kept kept = fth_gpu_keep(rc);

	if (rc == -EINVAL && fth_pm_kind(pm) == FTH_PM_KIND_PMEM)
		return fth_fail(EOPNOTSUPP,
				"%s: CUDA cannot pin a file mapping (%s); use shm: or a device URI",
				fth_pm_name(pm), kept.text);
	return fth_fail_in(fth_gpu_tell(&kept), fth_pm_name(pm));
}

static int pin_memory(struct fth_gpu_pm *gpu)
{
	unsigned flags = cudaHostRegisterPortable | cudaHostRegisterMapped;
	const struct fth_pm_view *view = &gpu->pm->view;

	if (gpu->pm->readonly)
		flags |= cudaHostRegisterReadOnly;
	return pin_range(&gpu->memory, view->base - FTH_PM_HEADER,
			 whole_pages(view->size + FTH_PM_HEADER), flags);
}

/* The control block, and the marks behind it. */
static int pin_control(struct fth_gpu_pm *gpu)
{
	return pin_range(&gpu->control, gpu->pm->view.control, fth_pm_control_bytes(gpu->pm),
			 cudaHostRegisterPortable | cudaHostRegisterMapped);
}

static int make_mirror(struct fth_gpu_pm *gpu)
{
	int rc = fth_gpu_check(cudaMalloc((void **)&gpu->mirror, sizeof(*gpu->mirror)),
			       "GPU memory");

	return rc < 0 ? rc
		      : fth_gpu_check(cudaMemset(gpu->mirror, 0, sizeof(*gpu->mirror)),
				      "GPU memory");
}

static void make_view(struct fth_gpu_pm *gpu)
{
	struct fth_pm_view *view = &gpu->view;

	*view = gpu->pm->view;
	view->base = (uint8_t *)to_device(&gpu->memory, view->base);
	if (view->mode == FTH_PM_MODE_WRITE_BACK) {
		view->marks = (uint8_t *)to_device(&gpu->control, view->marks);
		view->coarse = (uint8_t *)to_device(&gpu->control, view->coarse);
	}
	view->control = (struct fth_pm_control *)to_device(&gpu->control, view->control);
	view->host = gpu->mirror;
}

int fth_gpu_pm_register(struct fth_pm *pm, struct fth_gpu_pm **out)
{
	struct fth_gpu_pm *gpu;
	struct fth_gpu_kept kept;
	int rc;

	*out = NULL;
	if (pm->view.mode == FTH_PM_MODE_WINDOW)
		return fth_fail(
			EOPNOTSUPP,
			"%s: a GPU cannot persist into a device's window; use shm: or a device URI",
			fth_pm_name(pm));
	gpu = (struct fth_gpu_pm *)calloc(1, sizeof(*gpu));
	if (!gpu)
		return -ENOMEM;
	gpu->pm = pm;
	pthread_mutex_init(&gpu->lock, NULL);
	rc = pin_memory(gpu);
	if (rc < 0)
		rc = explain(pm, rc);
	if (rc == 0)
		rc = pin_control(gpu);
	if (rc == 0)
		rc = make_mirror(gpu);
	if (rc == 0 && !pm->readonly)
		rc = fth_pm_serve(pm);
	if (rc < 0) {
		kept = fth_gpu_keep(rc);
		(void)fth_gpu_pm_unregister(gpu);
		return fth_gpu_tell(&kept);
	}
	make_view(gpu);
	pm->gpu = gpu;
	*out = gpu;
	return 0;
}

int fth_gpu_pm_unregister(struct fth_gpu_pm *gpu)
{
	int rc, next;

	if (!gpu)
		return 0;
	if (gpu->pm->gpu == gpu)
		gpu->pm->gpu = NULL;
	rc = fth_gpu_check(cudaFree(gpu->mirror), "GPU memory");
	next = pm_gpu_scratch_free(gpu);
	rc = rc < 0 ? rc : next;
	next = unpin_range(&gpu->control);
	rc = rc < 0 ? rc : next;
	next = unpin_range(&gpu->memory);
	pthread_mutex_destroy(&gpu->lock);
	free(gpu);
	return rc < 0 ? rc : next;
}

/* ---- asking ---- */

struct fth_pm_view fth_gpu_pm_view(const struct fth_gpu_pm *gpu)
{
	return gpu->view;
}

void *fth_gpu_pm_address(const struct fth_gpu_pm *gpu, const void *host)
{
	return to_device(&gpu->memory, host);
}
