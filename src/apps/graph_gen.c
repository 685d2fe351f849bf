/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The generators of the GAP benchmark suite (S. Beamer, K. Asanovic, D. Patterson, 2015): R-MAT
 * (D. Chakrabarti et al., SDM 2004) with the parameters of Graph500, and uniformly random.
 *
 * Instead of one stream of random numbers per block of edges each edge has its own place in one
 * stream (SplitMix64 can jump), so that any thread can make any edge.
 */
#include "apps/graph_gen.h"

#include "fathom/base/rng.h"

#define STREAM_STEP 0x9e3779b97f4a7c15u /* by which a draw of fth_rng_next() moves its state */

/* A, A + B, A + B + C as shares of 2^32. */
#define UP_TO_A	  ((uint32_t)(0.57 * 4294967296.0))
#define UP_TO_AB  ((uint32_t)(0.76 * 4294967296.0))
#define UP_TO_ABC ((uint32_t)(0.95 * 4294967296.0))

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

uint32_t fth_graph_gen_rename(const struct fth_graph_gen *gen, uint32_t vertex)
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
static inline void choose_quarter(uint32_t draw, uint32_t *from, uint32_t *to)
{
	*from = *from << 1 | (draw >= UP_TO_AB);
	*to = *to << 1 | ((draw >= UP_TO_A && draw < UP_TO_AB) || draw >= UP_TO_ABC);
}

static void kronecker(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from, uint32_t *to)
{
	unsigned draws = (gen->scale + 1) / 2, bits = gen->scale;
	struct fth_rng rng = {gen->seed + e * draws * STREAM_STEP};
	uint32_t u = 0, v = 0;

	while (bits > 0) {
		uint64_t draw = fth_rng_next(&rng);

		choose_quarter((uint32_t)draw, &u, &v);
		if (--bits == 0)
			break;
		choose_quarter((uint32_t)(draw >> 32), &u, &v);
		bits--;
	}
	*from = fth_graph_gen_rename(gen, u);
	*to = fth_graph_gen_rename(gen, v);
}

static void uniform(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from, uint32_t *to)
{
	struct fth_rng rng = {gen->seed + e * STREAM_STEP};
	uint64_t draw = fth_rng_next(&rng);

	*from = (uint32_t)(draw & gen->mask);
	*to = (uint32_t)(draw >> 32 & gen->mask);
}

void fth_graph_gen_edge(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from, uint32_t *to)
{
	if (gen->kind == FTH_GRAPH_KRONECKER)
		kronecker(gen, e, from, to);
	else
		uniform(gen, e, from, to);
}

uint32_t fth_graph_gen_weight(uint64_t seed, uint32_t from, uint32_t to)
{
	uint64_t low = from < to ? from : to, high = from < to ? to : from;

	return (uint32_t)(fth_mix64(fth_mix64(seed ^ 0x77) + (high << 32 | low)) % 255) + 1;
}
