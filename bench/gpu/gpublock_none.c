/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom bench gpublock` in a tool that was built without CUDA. */
#include "gpublock.h"

#include "fathom/base/error.h"

#include <errno.h>

int gpublock_open(const struct gpublock_setup *setup, struct gpublock **bench)
{
	(void)setup;
	(void)bench;
	return fth_fail(EOPNOTSUPP, "built without CUDA");
}

void gpublock_close(struct gpublock *bench)
{
	(void)bench;
}

const char *gpublock_gpu(const struct gpublock *bench)
{
	(void)bench;
	return "none";
}

double gpublock_pin_seconds(const struct gpublock *bench)
{
	(void)bench;
	return 0;
}

int gpublock_raw(struct gpublock *bench, uint32_t block, bool write, double *rate)
{
	(void)bench;
	(void)block;
	(void)write;
	(void)rate;
	return -EOPNOTSUPP;
}

int gpublock_run(struct gpublock *bench, const struct gpublock_point *point,
		 struct gpublock_result *result)
{
	(void)bench;
	(void)point;
	(void)result;
	return -EOPNOTSUPP;
}
