/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests that run on a GPU begin with. */
#ifndef FTH_CUDA_FIXTURE_H
#define FTH_CUDA_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>

#define SKIPPED 77

#define CHECK(call)                                                                   \
	do {                                                                          \
		cudaError_t err_ = (call);                                            \
		if (err_ != cudaSuccess) {                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				cudaGetErrorString(err_));                            \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

static inline void skip_without_gpu(void)
{
	int devices = 0;

	/* Before CUDA starts: a kernel can not be loaded while the controller runs. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
		printf("skipped: no GPU here\n");
		exit(SKIPPED);
	}
}

#endif
