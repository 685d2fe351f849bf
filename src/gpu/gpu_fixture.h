/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of GPU drives share: checks that end the test, and stamped blocks. */
#ifndef FTH_GPU_FIXTURE_H
#define FTH_GPU_FIXTURE_H

#include "fathom/base/rng.h"
#include "fathom/gpu/io.h"
#include "must_fixture.h"

#define SKIPPED	    77
#define PATIENCE_NS 20000000000ull /* a hang ends as a failure, not as a dead GPU */

#define CHECK(call)                                                                   \
	do {                                                                          \
		cudaError_t err_ = (call);                                            \
		if (err_ != cudaSuccess) {                                            \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				cudaGetErrorString(err_));                            \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

/* Word i of a block: every word differs, tells where it belongs, and is not 0. */
FTH_HD uint64_t fixture_word(uint32_t ssd, uint64_t block, uint32_t i)
{
	return fth_mix64(((uint64_t)ssd << 48 ^ block) + 1) + i;
}

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
