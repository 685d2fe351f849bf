/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs from elsewhere: text that is imported, and headers of devices. The first byte says which;
 * the rest is the text or the header. Seeds: made by seeds_graph.py.
 */
#include "graph/format.h"
#include "graph/build/text.h"

#include "fuzz_input.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	struct fth_graph_text_header header;
	uint64_t edges;
	bool weighted, relabel;
};

static int look(void *context, const struct fth_graph_text_edge *edge)
{
	struct seen *seen = context;

	seen->edges++;
	if (seen->relabel) {
		for (int end = 0; end < 2; end++)
			require(edge->length[end] > 0 && edge->length[end] <= FTH_GRAPH_LABEL_MAX &&
					strlen(edge->label[end]) >= edge->length[end],
				"a name is a word");
		return 0;
	}
	require(edge->from < FTH_GRAPH_VERTICES_MAX && edge->to < FTH_GRAPH_VERTICES_MAX,
		"a vertex fits");
	if (seen->header.vertices)
		require(edge->from < seen->header.vertices && edge->to < seen->header.vertices,
			"a vertex is one of the matrix");
	require(seen->weighted || edge->weight == 0, "no weight is made up");
	return 0;
}

static void check_text(uint8_t how, uint8_t *text, size_t size)
{
	struct fth_graph_import what = {
		.format = how & 1 ? FTH_GRAPH_MATRIX_MARKET : FTH_GRAPH_EDGE_LIST,
		.one_based = how & 2,
		.weighted = how & 4,
		.scale_weights = how & 8 ? 10 : 0,
		.relabel = how & 16 && !(how & 3),
		.delimiter = how & 32 && !(how & 1) ? ',' : 0,
	};
	struct seen seen = {.weighted = what.weighted, .relabel = what.relabel};
	int rc;

	what.in = fmemopen(text, size, "r");
	if (!what.in)
		return;
	rc = fth_graph_text_read(&what, &seen.header, look, &seen);
	require(rc <= 0, "0 or an error");
	if (rc == 0 && what.format == FTH_GRAPH_MATRIX_MARKET)
		require(seen.edges == seen.header.edges, "as many entries as promised");
	fclose(what.in);
}

/* `repair`: with the right checksum, as one who means harm would have it. */
static void check_header(bool repair, const uint8_t *data, size_t size)
{
	struct fth_graph_header header = {0};
	struct fth_graph_info info;
	const uint64_t bytes = (uint64_t)1 << 30;

	memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
	if (repair)
		fth_graph_seal(&header);
	if (fth_graph_decode(&header, bytes, &info) < 0)
		return;
	require(info.bytes <= bytes, "it lies on the device");
	require(info.offsets_at + (info.vertices + 1) * 8 <= info.edges_at, "offsets fit");
	if (info.labels) {
		require(info.label_index_at + (info.vertices + 1) * 8 <= info.label_text_at,
			"the index of labels fits");
		require(info.label_text_at + info.label_bytes <= info.edges_at, "labels fit");
	}
	require(info.edges_at + info.edges * 4 <= (info.weighted ? info.weights_at : info.bytes),
		"edges fit");
	require(!info.weighted || info.weights_at + info.edges * 4 <= info.bytes, "weights fit");
	require(memchr(info.made_by, '\0', sizeof(info.made_by)) != NULL, "its name ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (size < 2)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 0x80)
		check_header(data[0] & 1, copy, size - 1);
	else
		check_text(data[0], copy, size - 1);
	free(copy);
	return 0;
}
