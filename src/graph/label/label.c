/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/label/label.h"

#include "graph/format.h"
#include "graph/graph_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_STEP (8u << 20)

/* ---- order ---- */

/* A decimal number below FTH_GRAPH_LABEL_WORDS, as snprintf() would write it. */
static bool read_number(const char *text, size_t length, uint64_t *out)
{
	uint64_t value = 0;

	if (length == 0 || length > 19 || (text[0] == '0' && length > 1))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		value = value * 10 + (unsigned)(text[i] - '0'); /* 19 digits fit 64 bits */
	}
	*out = value;
	return value < FTH_GRAPH_LABEL_WORDS;
}

uint64_t fth_graph_word_prefix(const char *text, size_t length)
{
	uint64_t prefix = 0;

	for (size_t i = 0; i < 8; i++)
		prefix = prefix << 8 | (i < length ? (unsigned char)text[i] : 0);
	return FTH_GRAPH_LABEL_WORDS | prefix >> 1;
}

uint64_t fth_graph_label_prefix(const char *text, size_t length)
{
	uint64_t number;

	return read_number(text, length, &number) ? number : fth_graph_word_prefix(text, length);
}

int fth_label_compare(const struct fth_label *a, const struct fth_label *b)
{
	uint32_t shorter = a->length < b->length ? a->length : b->length;
	int order;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	if (a->prefix < FTH_GRAPH_LABEL_WORDS)
		return 0;
	order = memcmp(a->text, b->text, shorter);
	if (order != 0)
		return order;
	return a->length < b->length ? -1 : a->length > b->length;
}

/* ---- of an open graph ---- */

static int no_vertex(const char *name)
{
	return fth_fail(ENOENT, "no vertex has the label %s", name);
}

static int bad_labels(uint64_t vertex)
{
	return fth_fail(EBADMSG, "the graph is damaged: the label of vertex %llu is invalid",
			(unsigned long long)vertex);
}

static int read_label(struct fth_graph *graph, uint64_t vertex, char *text, size_t size)
{
	uint64_t ends[2], length;
	int rc = 0;

	if (graph->labels)
		memcpy(ends, graph->labels_at + vertex, sizeof(ends));
	else
		rc = fth_array_read(graph->label_index, vertex, 2, ends);
	if (rc < 0)
		return rc;
	length = ends[1] - ends[0];
	if (ends[0] > ends[1] || ends[1] > graph->info.label_bytes ||
	    length > graph->info.label_max || length == 0)
		return bad_labels(vertex);
	if (length >= size)
		return fth_fail(ENAMETOOLONG, "the label of vertex %llu has %llu bytes",
				(unsigned long long)vertex, (unsigned long long)length);
	if (graph->labels)
		memcpy(text, graph->labels + ends[0], length);
	else
		rc = fth_array_read(graph->label_text, ends[0], length, text);
	text[rc < 0 ? 0 : length] = '\0';
	if (rc == 0 && memchr(text, '\0', length))
		return bad_labels(vertex);
	return rc < 0 ? rc : (int)length;
}

int fth_graph_label(struct fth_graph *graph, uint64_t vertex, char *text, size_t size)
{
	int length;

	if (vertex >= graph->info.vertices)
		return fth_fail(ERANGE, "vertex %llu does not exist: the graph has %llu vertices",
				(unsigned long long)vertex,
				(unsigned long long)graph->info.vertices);
	if (graph->info.labels)
		return read_label(graph, vertex, text, size);
	length = snprintf(text, size, "%llu", (unsigned long long)vertex);
	return (size_t)length < size ? length : -ENAMETOOLONG;
}

/* Past the cache: they are read once and kept. */
static int load_section(struct fth_graph *graph, uint64_t at, uint64_t bytes, void **out)
{
	uint64_t size = fth_graph_align(bytes), done = 0;
	char *memory = aligned_alloc(4096, size ? size : 4096);
	int rc = 0;

	*out = memory;
	if (!memory)
		return -ENOMEM;
	while (rc == 0 && done < size) {
		uint64_t step = size - done < LOAD_STEP ? size - done : LOAD_STEP;

		rc = fth_dev_read(graph->dev, memory + done, step, at + done, FTH_DEV_TIMEOUT);
		done += step;
	}
	return rc;
}

int fth_graph_load_labels(struct fth_graph *graph)
{
	const struct fth_graph_info *info = &graph->info;
	void *index = NULL, *text = NULL;
	int rc;

	if (!info->labels || graph->labels)
		return 0;
	rc = load_section(graph, info->label_index_at, (info->vertices + 1) * 8, &index);
	if (rc == 0)
		rc = load_section(graph, info->label_text_at, info->label_bytes, &text);
	if (rc < 0) {
		free(index);
		free(text);
		return rc;
	}
	graph->labels_at = index;
	graph->labels = text;
	return 0;
}

/* Labels ascend with vertices. */
static int search(struct fth_graph *graph, const struct fth_label *wanted, uint64_t *out)
{
	uint64_t low = 0, high = graph->info.vertices;
	char text[FTH_GRAPH_LABEL_MAX + 1];

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		struct fth_label label = {.text = text};
		int rc = read_label(graph, middle, text, sizeof(text)), order;

		if (rc < 0)
			return rc;
		label.length = (uint32_t)rc;
		label.prefix = fth_graph_label_prefix(text, label.length);
		order = fth_label_compare(wanted, &label);
		*out = middle;
		if (order == 0)
			return 0;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return no_vertex(wanted->text);
}

int fth_graph_find(struct fth_graph *graph, const char *label, uint64_t *out)
{
	size_t length = strlen(label);
	struct fth_label wanted = {fth_graph_label_prefix(label, length), label, 0};

	if (!graph->info.labels) {
		*out = wanted.prefix;
		return wanted.prefix < graph->info.vertices
			       ? 0
			       : fth_fail(ENOENT,
					  "vertex %s does not exist: vertices are 0 to %llu", label,
					  (unsigned long long)graph->info.vertices - 1);
	}
	if (length > FTH_GRAPH_LABEL_MAX)
		return no_vertex(label);
	wanted.length = (uint32_t)length;
	return search(graph, &wanted, out);
}
