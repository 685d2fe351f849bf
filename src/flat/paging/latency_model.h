/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of another machine, for benchmarks: with it each access to the SSD-cache, each promotion
 * and each mapping takes at least as long as there. A device with latencies (delay()) cannot do
 * that: an instruction on a frame, and the update of a page table, are no requests of the device.
 * All zero, as in every region of a user: none.
 */
#ifndef FATHOM_SRC_FLAT_PAGING_LATENCY_MODEL_H
#define FATHOM_SRC_FLAT_PAGING_LATENCY_MODEL_H

#include "fathom/hd/wait.h"

#include <stdbool.h>
#include <stdint.h>

struct fth_flat;

/* Nanoseconds. */
struct flat_latency_model {
	uint32_t load_ns, store_ns; /* of a page in the SSD-cache */
	uint32_t promote_ns;	    /* copy of a page to DRAM */
	uint32_t map_ns;	    /* update of the page table, and of the TLB */
	/* software between the program and the device, for each page read and written */
	uint32_t stack_read_ns, stack_write_ns;
	bool used; /* set by latency_set() */
};

/* Table 2 of FlatFlash. */
#define FLAT_LATENCY_PAPER                                                                  \
	{                                                                                   \
		.load_ns = 4800, .store_ns = 600, .promote_ns = 12100, .map_ns = 1400 + 700 \
	}

/* NULL: none. No other thread may use the region during the call. */
void latency_set(struct fth_flat *flat, const struct flat_latency_model *model);

/* When something begins that takes time in the model; 0 without one. */
static inline uint64_t latency_start(const struct flat_latency_model *model)
{
	return model->used ? fth_now_ns() : 0;
}

/* Spin until `ns` have passed since `start`; not if either is 0. */
static inline void latency_wait(uint64_t start, uint32_t ns)
{
	if (start && ns)
		while (fth_now_ns() - start < ns)
			fth_cpu_relax();
}

#endif
