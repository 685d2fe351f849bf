/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A graph on a device:
 *
 *	0		header, in a section of its own
 *	offsets_at	vertices + 1 times 8 bytes: where each vertex's neighbours begin
 *	label_index_at	vertices + 1 times 8 bytes, if it has labels: where each label begins
 *	label_text_at	label_bytes bytes: the labels, in ascending order, one after the other
 *	edges_at	edges times 4 bytes: the neighbours, sorted within each vertex
 *	weights_at	edges times 4 bytes, if it is weighted
 *
 * Sections begin at multiples of FTH_GRAPH_SECTION and in this order, so that any line size of the
 * cache divides where they begin. Between two there may be unused room. Numbers are little-endian.
 */
#ifndef FTH_GRAPH_FORMAT_H
#define FTH_GRAPH_FORMAT_H

#include "fathom/graph.h"

#include <stddef.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the medium is little-endian");

#define FTH_GRAPH_SECTION 65536u
#define FTH_GRAPH_MAGIC	  "FTHGRAPH"
#define FTH_GRAPH_VERSION 1u

#define FTH_GRAPH_UNDIRECTED 1u
#define FTH_GRAPH_WEIGHTED   2u
#define FTH_GRAPH_LABELLED   4u

struct fth_graph_header {
	uint8_t magic[8];
	uint32_t version;
	uint32_t flags;
	uint64_t vertices;
	uint64_t edges;
	uint32_t id_bytes;     /* of a neighbour: 4 */
	uint32_t weight_bytes; /* 0 or 4 */
	uint64_t offsets_at;
	uint64_t edges_at;
	uint64_t weights_at; /* 0 if there are none */
	uint64_t bytes;
	uint64_t data_sum; /* sum of fth_graph_piece_sum() of all pieces of all sections */
	char made_by[FTH_GRAPH_NAME_MAX];
	uint64_t checksum; /* of all before it */
	/* What follows counts if the graph has labels; it is zero otherwise. */
	uint64_t label_index_at;
	uint64_t label_text_at;
	uint64_t label_bytes;
	uint32_t label_max;	 /* bytes of the longest */
	uint32_t labels_numeric; /* 1: all are numbers, as fth_graph_label_prefix() knows them */
	uint64_t label_checksum; /* of these five */
};
_Static_assert(sizeof(struct fth_graph_header) == 224, "the medium's layout");
_Static_assert(offsetof(struct fth_graph_header, checksum) == 176, "the medium's layout");

static inline uint64_t fth_graph_align(uint64_t bytes)
{
	return (bytes + FTH_GRAPH_SECTION - 1) / FTH_GRAPH_SECTION * FTH_GRAPH_SECTION;
}

/*
 * Where sections lie when there may be up to edges_max edges. Sets all but counts of edges;
 * vertices, flags and label_bytes are set before.
 */
void fth_graph_lay_out(struct fth_graph_info *info, uint64_t edges_max);

void fth_graph_encode(const struct fth_graph_info *info, struct fth_graph_header *out);

/* 0 or -EBADMSG with a text. device_bytes: how large the device is that it was read from. */
int fth_graph_decode(const struct fth_graph_header *header, uint64_t device_bytes,
		     struct fth_graph_info *out);

/* The checksums of a header whose fields are set: for tests that write one of their own. */
void fth_graph_seal(struct fth_graph_header *header);

/* Of a whole piece of FTH_GRAPH_SECTION bytes at `at`. */
uint64_t fth_graph_piece_sum(const void *piece, uint64_t at);

#endif
