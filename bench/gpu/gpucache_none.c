/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom bench gpucache` in a tool that was built without CUDA. */
#include "gpucache.h"

#include "fathom/base/error.h"

#include <errno.h>

int gpucache_open(const struct gpucache_setup *setup, struct gpucache **bench)
{
	(void)setup;
	(void)bench;
	return fth_fail(EOPNOTSUPP, "built without CUDA");
}

void gpucache_close(struct gpucache *bench)
{
	(void)bench;
}

const char *gpucache_gpu(const struct gpucache *bench)
{
	(void)bench;
	return "none";
}

int gpucache_registers(enum gpucache_kernel kernel)
{
	(void)kernel;
	return 0;
}

int gpucache_hot(struct gpucache *bench, uint32_t line, struct gpucache_hot *result)
{
	(void)bench;
	(void)line;
	(void)result;
	return -EOPNOTSUPP;
}

int gpucache_cold(struct gpucache *bench, uint32_t line, struct gpucache_cold *result)
{
	(void)bench;
	(void)line;
	(void)result;
	return -EOPNOTSUPP;
}
