/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The generators of the GAP benchmark suite (S. Beamer, K. Asanovic, D. Patterson, 2015): R-MAT
 * (D. Chakrabarti et al., SDM 2004) with the parameters of Graph500, and uniformly random. For
 * hosts and GPUs.
 *
 * Instead of one stream of random numbers per block of edges each edge has its own place in one
 * stream (SplitMix64 can jump), so that any thread can make any edge.
 */
#ifndef FTH_GRAPH_GEN_EDGE_H
#define FTH_GRAPH_GEN_EDGE_H

#include "graph/build/gen.h"

#include "fathom/base/rng.h"

#define FTH_GRAPH_GEN_STEP \
	0x9e3779b97f4a7c15u /* by which a draw of fth_rng_next() moves its state */

/* A, A + B, A + B + C as shares of 2^32. */
#define FTH_GRAPH_GEN_A	  ((uint32_t)(0.57 * 4294967296.0))
#define FTH_GRAPH_GEN_AB  ((uint32_t)(0.76 * 4294967296.0))
#define FTH_GRAPH_GEN_ABC ((uint32_t)(0.95 * 4294967296.0))

/* The new name of a vertex: a bijection of [0, 2^scale). */
FTH_HD uint32_t fth_graph_gen_rename_(const struct fth_graph_gen *gen, uint32_t vertex)
{
	unsigned shift = gen->scale / 2 + 1;
	uint64_t x = vertex;

	/* Multiplying by an odd number and folding high bits onto low ones can both be undone. */
	for (int i = 0; i < 3; i++) {
		x = x * gen->odd[i] + (gen->odd[i] >> 32);
		x &= gen->mask;
		x ^= x >> shift;
	}
	return (uint32_t)x;
}

/* One bit of each end: which quarter of the matrix. */
FTH_HD void fth_graph_gen_quarter_(uint32_t draw, uint32_t *from, uint32_t *to)
{
	*from = *from << 1 | (draw >= FTH_GRAPH_GEN_AB);
	*to = *to << 1 |
	      ((draw >= FTH_GRAPH_GEN_A && draw < FTH_GRAPH_GEN_AB) || draw >= FTH_GRAPH_GEN_ABC);
}

FTH_HD void fth_graph_gen_kronecker_(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from,
				     uint32_t *to)
{
	unsigned draws = (gen->scale + 1) / 2, bits = gen->scale;
	struct fth_rng rng = {gen->seed + e * draws * FTH_GRAPH_GEN_STEP};
	uint32_t u = 0, v = 0;

	while (bits > 0) {
		uint64_t draw = fth_rng_next(&rng);

		fth_graph_gen_quarter_((uint32_t)draw, &u, &v);
		if (--bits == 0)
			break;
		fth_graph_gen_quarter_((uint32_t)(draw >> 32), &u, &v);
		bits--;
	}
	*from = fth_graph_gen_rename_(gen, u);
	*to = fth_graph_gen_rename_(gen, v);
}

FTH_HD void fth_graph_gen_uniform_(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from,
				   uint32_t *to)
{
	struct fth_rng rng = {gen->seed + e * FTH_GRAPH_GEN_STEP};
	uint64_t draw = fth_rng_next(&rng);

	*from = (uint32_t)(draw & gen->mask);
	*to = (uint32_t)(draw >> 32 & gen->mask);
}

FTH_HD void fth_graph_gen_edge_(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from,
				uint32_t *to)
{
	if (gen->kind == FTH_GRAPH_KRONECKER)
		fth_graph_gen_kronecker_(gen, e, from, to);
	else
		fth_graph_gen_uniform_(gen, e, from, to);
}

FTH_HD uint32_t fth_graph_gen_weight_(uint64_t seed, uint32_t from, uint32_t to)
{
	uint64_t low = from < to ? from : to, high = from < to ? to : from;

	return (uint32_t)(fth_mix64(fth_mix64(seed ^ 0x77) + (high << 32 | low)) % 255) + 1;
}

#endif
