/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers the names of vertices, in a bounded amount of memory.
 *
 * Edges between names are added; their names are sorted, numbered in that order and listed; then
 * the same edges come out between numbers, in the order in which they were added.
 */
#ifndef FTH_GRAPH_RELABEL_H
#define FTH_GRAPH_RELABEL_H

#include "graph/label/label.h"
#include "graph/build/text.h"

struct fth_relabel;

/* It takes three quarters of `memory`, and a quarter once names are numbered. */
int fth_relabel_new(uint64_t memory, const char *directory, bool weighted,
		    const struct fth_graph_job *job, struct fth_relabel **out);
void fth_relabel_free(struct fth_relabel *relabel);

int fth_relabel_add(struct fth_relabel *relabel, const struct fth_graph_text_edge *edge);

/* All edges are in. Sets what info says about labels. */
int fth_relabel_number(struct fth_relabel *relabel, struct fth_graph_info *info);

/* The next edge: from, to and weight. 1, or 0 at the end, or a negative errno. */
int fth_relabel_next(struct fth_relabel *relabel, struct fth_graph_text_edge *edge);

/* The names, in the order of their numbers; NULL for NULL. */
struct fth_label_list *fth_relabel_labels(struct fth_relabel *relabel);

#endif
