/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom bench gpugraph` in a tool that was built without CUDA. */
#include "gpugraph.h"

#include "fathom/base/error.h"

#include <errno.h>

int gpugraph_open(const struct gpugraph_setup *setup, struct gpugraph **bench)
{
	(void)setup;
	(void)bench;
	return fth_fail(EOPNOTSUPP, "built without CUDA");
}

void gpugraph_close(struct gpugraph *bench)
{
	(void)bench;
}

const char *gpugraph_gpu(const struct gpugraph *bench)
{
	(void)bench;
	return "none";
}

int gpugraph_make(struct gpugraph *bench, enum gpugraph_kind kind)
{
	(void)bench;
	(void)kind;
	return -EOPNOTSUPP;
}

uint64_t gpugraph_edges(const struct gpugraph *bench)
{
	(void)bench;
	return 0;
}

int gpugraph_run(struct gpugraph *bench, enum gpugraph_algorithm algorithm,
		 struct gpugraph_result *result)
{
	(void)bench;
	(void)algorithm;
	(void)result;
	return -EOPNOTSUPP;
}

int gpugraph_registers(enum gpugraph_algorithm algorithm)
{
	(void)algorithm;
	return 0;
}
