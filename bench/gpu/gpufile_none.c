/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom bench gpufile` in a tool that was built without CUDA. */
#include "gpufile.h"

#include "fathom/base/error.h"

#include <errno.h>

int gpufile_open(const struct gpufile_setup *setup, struct gpufile **bench)
{
	(void)setup;
	(void)bench;
	return fth_fail(EOPNOTSUPP, "built without CUDA");
}

int gpufile_start(struct gpufile *bench, const char *uri)
{
	(void)bench;
	(void)uri;
	return -EOPNOTSUPP;
}

void gpufile_close(struct gpufile *bench)
{
	(void)bench;
}

void gpufile_info(const struct gpufile *bench, struct gpufile_info *info)
{
	(void)bench;
	*info = (struct gpufile_info){.gpu = "none"};
}

bool gpufile_can(const struct gpufile *bench, enum gpufile_case what)
{
	(void)bench;
	(void)what;
	return false;
}

int gpufile_run(struct gpufile *bench, enum gpufile_case what, struct gpufile_round *round)
{
	(void)bench;
	(void)what;
	(void)round;
	return -EOPNOTSUPP;
}
