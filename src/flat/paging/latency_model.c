/* SPDX-License-Identifier: BSD-2-Clause */
#include "flat/flat_internal.h"

#include "fathom/hd/wait.h"

void latency_set(struct fth_flat *flat, const struct flat_latency_model *model)
{
	flat->model = model ? *model : (struct flat_latency_model){0};
	flat->model.used = model;
}

uint64_t latency_start(const struct fth_flat *flat)
{
	return flat->model.used ? fth_now_ns() : 0;
}

void latency_wait(uint64_t start, uint32_t ns)
{
	if (start && ns)
		while (fth_now_ns() - start < ns)
			fth_cpu_relax();
}
