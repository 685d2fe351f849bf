/* SPDX-License-Identifier: BSD-2-Clause */
/* CUB throws where the runtime fails; here that is an error as any other. */
#ifndef FTH_BENCH_GPU_CUB_ERROR_H
#define FTH_BENCH_GPU_CUB_ERROR_H

#include "gpu_setup.h"

#include <exception>

template <typename Call> static int gpu_cub(const Call &call)
{
	try {
		return fth_gpu_check(call(), "CUB");
	} catch (const std::exception &error) {
		return fth_fail(EIO, "CUB: %s", error.what());
	}
}

/* Go on only while nothing has failed. */
#define TRY_CUB(rc, call) DO(rc, gpu_cub([&] { return call; }))

#endif
