/* SPDX-License-Identifier: BSD-2-Clause */
/* Edges by number: each is a function of the seed and its number alone. */
#ifndef FTH_GRAPH_GEN_H
#define FTH_GRAPH_GEN_H

#include "fathom/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fth_graph_gen {
	enum fth_graph_kind kind;
	unsigned scale;
	uint64_t seed;
	uint64_t mask;	 /* vertices - 1 */
	uint64_t odd[3]; /* of the renaming */
};

void fth_graph_gen_init(struct fth_graph_gen *gen, enum fth_graph_kind kind, unsigned scale,
			uint64_t seed);

/* Edge number e. */
void fth_graph_gen_edge(const struct fth_graph_gen *gen, uint64_t e, uint32_t *from, uint32_t *to);

/* The weight of an edge, 1 to 255, the same in both directions. */
uint32_t fth_graph_gen_weight(uint64_t seed, uint32_t from, uint32_t to);

#ifdef __cplusplus
}
#endif
#endif
