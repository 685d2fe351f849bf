/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of gen_edge.h as calls, for the CPU. */
#include "graph/build/gen_edge.h"

void fth_graph_gen_init(struct fth_graph_gen *gen, enum fth_graph_kind kind, unsigned scale,
			uint64_t seed)
{
	struct fth_rng rng = {seed};

	gen->kind = kind;
	gen->scale = scale;
	gen->mask = ((uint64_t)1 << scale) - 1;
	gen->seed = fth_rng_next(&rng);
	for (int i = 0; i < 3; i++)
		gen->odd[i] = fth_rng_next(&rng) | 1;
}

void fth_graph_gen_edge(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from, uint32_t *to)
{
	fth_graph_gen_edge_(gen, e, from, to);
}

uint32_t fth_graph_gen_weight(uint64_t seed, uint32_t from, uint32_t to)
{
	return fth_graph_gen_weight_(seed, from, to);
}
