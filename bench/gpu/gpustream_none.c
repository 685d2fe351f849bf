/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom bench gputaxi`, `gpuvector` and `gpupattern` in a tool that was built without CUDA. */
#include "gpustream.h"

#include "fathom/base/error.h"

#include <errno.h>

static int none(void)
{
	return fth_fail(EOPNOTSUPP, "built without CUDA");
}

int gputaxi_run(const struct gputaxi_setup *setup, struct gputaxi_result *result)
{
	(void)setup;
	(void)result;
	return none();
}

int gpuvector_run(const struct gpuvector_setup *setup, struct gpuvector_result *result)
{
	(void)setup;
	(void)result;
	return none();
}

int gpupattern_run(const struct gpupattern_setup *setup, struct gpupattern_result *result)
{
	(void)setup;
	(void)result;
	return none();
}
