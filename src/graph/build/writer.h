/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a graph whose edges come sorted. */
#ifndef FTH_GRAPH_WRITER_H
#define FTH_GRAPH_WRITER_H

#include "graph/label/label.h"

/* A part of the device that is filled from its start to its end. */
struct fth_graph_section {
	uint8_t *buf;
	uint64_t used;
	uint64_t at; /* where buf goes */
};

struct fth_graph_writer {
	struct fth_dev *dev;
	struct fth_graph_info *info;
	const struct fth_graph_job *job;
	struct fth_graph_section offsets, edges, weights, labels;
	uint64_t next_vertex; /* its offset is not written yet */
	uint64_t sum;
};

/*
 * info says what is known before: vertices, flags, made_by, where the sections lie and how many
 * bytes they take at most. Edges and data_sum are set as they become known. job->progress is called
 * for vertices; its error ends the call. A device that is too small, or whose blocks are too large,
 * is refused before anything is written; otherwise a graph on the device is removed. Call
 * fth_graph_writer_close() in any case.
 */
int fth_graph_writer_open(struct fth_graph_writer *writer, struct fth_dev *dev,
			  const struct fth_graph_job *job, struct fth_graph_info *info);
/* Labels, before the first edge: info->vertices of them, from a list that was rewound. */
int fth_graph_writer_add_labels(struct fth_graph_writer *writer, struct fth_label_list *labels);
/* Edges come in order of (from, to). */
int fth_graph_writer_add(struct fth_graph_writer *writer, uint32_t from, uint32_t to,
			 uint32_t weight);
/* Write the rest, then, once that is durable, the header. */
int fth_graph_writer_finish(struct fth_graph_writer *writer);
void fth_graph_writer_close(struct fth_graph_writer *writer);

#endif
