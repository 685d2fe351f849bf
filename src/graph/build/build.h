/* SPDX-License-Identifier: BSD-2-Clause */
/* From sorted edges to a graph on a device: what generating and importing share. */
#ifndef FTH_GRAPH_BUILD_H
#define FTH_GRAPH_BUILD_H

#include "graph/label/label.h"
#include "graph/build/sort.h"
#include "graph/team.h"

/* How much a sort may take, the default put in. */
uint64_t fth_graph_build_memory(const struct fth_graph_build *build);

/*
 * Merge all that the sort has got and write it. info says what is known: vertices, flags, made_by.
 * seed: of weights that no edge has brought along; not looked at if they were. labels: NULL if the
 * graph has none.
 */
int fth_graph_build_from(struct fth_edge_sort *sort, bool sort_has_weights, uint64_t seed,
			 struct fth_label_list *labels, const struct fth_graph_build *build,
			 const struct fth_graph_job *job, struct fth_graph_info *info);

#endif
