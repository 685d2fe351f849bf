/* SPDX-License-Identifier: BSD-2-Clause */
/* A CUDA error as our errors are: a negative errno and a text. */
#ifndef FTH_BASE_CUDA_ERROR_H
#define FTH_BASE_CUDA_ERROR_H

#include "fathom/base/error.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <stdio.h>

static inline int fth_gpu_errno(cudaError_t err)
{
	switch (err) {
	case cudaErrorMemoryAllocation:
		return ENOMEM;
	case cudaErrorHostMemoryAlreadyRegistered:
		return EBUSY;
	case cudaErrorInvalidValue:
		return EINVAL;
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorNotSupported:
	case cudaErrorNotPermitted:
		return EOPNOTSUPP;
	default:
		return EIO;
	}
}

static inline int fth_gpu_check(cudaError_t err, const char *what)
{
	if (err == cudaSuccess)
		return 0;
	/* The error stays with the thread otherwise, and the next launch would report it. */
	(void)cudaGetLastError();
	return fth_fail(fth_gpu_errno(err), "%s: %s", what, cudaGetErrorString(err));
}

/* An error and its text, kept while what is left is cleaned up, which may fail with another. */
struct fth_gpu_kept {
	int rc;
	char text[FTH_ERROR_TEXT_MAX];
};

static inline struct fth_gpu_kept fth_gpu_keep(int rc)
{
	struct fth_gpu_kept kept = {rc, ""};

	snprintf(kept.text, sizeof(kept.text), "%s", fth_error_text(rc));
	return kept;
}

static inline int fth_gpu_tell(const struct fth_gpu_kept *kept)
{
	return kept->rc < 0 ? fth_fail(-kept->rc, "%s", kept->text) : 0;
}

#endif
