/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/build/writer.h"

#include "graph/format.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER	   (1u << 20) /* whole pieces; what is written at once */
#define TELL_EVERY ((uint64_t)1 << 16)

/* ---- sections ---- */

static int section_write(struct fth_graph_writer *writer, struct fth_graph_section *section)
{
	uint64_t length = fth_graph_align(section->used);
	int rc;

	if (length == 0)
		return 0;
	memset(section->buf + section->used, 0, length - section->used);
	for (uint64_t i = 0; i < length; i += FTH_GRAPH_SECTION)
		writer->sum += fth_graph_piece_sum(section->buf + i, section->at + i);
	rc = fth_dev_write(writer->dev, section->buf, length, section->at, FTH_DEV_TIMEOUT);
	section->at += length;
	section->used = 0;
	return rc;
}

static inline int section_put(struct fth_graph_writer *writer, struct fth_graph_section *section,
			      const void *value, size_t size)
{
	memcpy(section->buf + section->used, value, size);
	section->used += size;
	return section->used == BUFFER ? section_write(writer, section) : 0;
}

static int section_open(struct fth_graph_writer *writer, struct fth_graph_section *section,
			uint64_t at)
{
	section->at = at;
	section->buf = fth_dev_buf_alloc(writer->dev, BUFFER);
	return section->buf ? 0 : -ENOMEM;
}

static void section_close(struct fth_graph_writer *writer, struct fth_graph_section *section)
{
	if (section->buf)
		fth_dev_buf_free(writer->dev, section->buf, BUFFER);
	section->buf = NULL;
}

/* ---- the graph ---- */

/* All zeroes, where a header could be. */
static int remove_header(struct fth_graph_writer *writer)
{
	memset(writer->edges.buf, 0, FTH_GRAPH_SECTION);
	return fth_dev_write(writer->dev, writer->edges.buf, FTH_GRAPH_SECTION, 0, FTH_DEV_TIMEOUT);
}

int fth_graph_writer_open(struct fth_graph_writer *writer, struct fth_dev *dev,
			  const struct fth_graph_job *job, struct fth_graph_info *info)
{
	const struct fth_dev_info *device = fth_dev_info(dev);
	int rc;

	*writer = (struct fth_graph_writer){.dev = dev, .info = info, .job = job};
	if (FTH_GRAPH_SECTION % device->block != 0)
		return fth_fail(EINVAL,
				"the device has blocks of %u bytes; a graph needs a block size "
				"that divides %u",
				device->block, FTH_GRAPH_SECTION);
	if (info->bytes > device->size)
		return fth_fail(ENOSPC,
				"the graph does not fit: it needs up to %llu bytes, the device has "
				"%llu",
				(unsigned long long)info->bytes, (unsigned long long)device->size);
	info->edges = 0;
	rc = section_open(writer, &writer->offsets, info->offsets_at);
	if (rc == 0)
		rc = section_open(writer, &writer->edges, info->edges_at);
	if (rc == 0 && info->weighted)
		rc = section_open(writer, &writer->weights, info->weights_at);
	return rc == 0 ? remove_header(writer) : rc;
}

/* One pass over the list for the index, or for the text. */
static int write_labels(struct fth_graph_writer *writer, struct fth_label_list *labels, bool text)
{
	const char *label;
	uint64_t at = 0;
	uint32_t length;
	int rc = fth_label_list_rewind(labels);

	while (rc >= 0 && (rc = fth_label_list_next(labels, &label, &length)) > 0) {
		for (uint32_t i = 0; text && rc >= 0 && i < length; i++)
			rc = section_put(writer, &writer->labels, label + i, 1);
		if (!text)
			rc = section_put(writer, &writer->labels, &at, 8);
		at += length;
	}
	if (rc == 0 && !text)
		rc = section_put(writer, &writer->labels, &at, 8);
	return rc == 0 ? section_write(writer, &writer->labels) : rc;
}

int fth_graph_writer_add_labels(struct fth_graph_writer *writer, struct fth_label_list *labels)
{
	int rc = section_open(writer, &writer->labels, writer->info->label_index_at);

	if (rc == 0)
		rc = write_labels(writer, labels, false);
	writer->labels.at = writer->info->label_text_at;
	return rc == 0 ? write_labels(writer, labels, true) : rc;
}

/* A graph may have many vertices and few edges, so this can take long by itself. */
static int tell_vertices(const struct fth_graph_writer *writer)
{
	const struct fth_graph_job *job = writer->job;

	if (writer->next_vertex % TELL_EVERY != 0 || !job->progress)
		return 0;
	return job->progress(job->context, "writing vertices", writer->next_vertex,
			     writer->info->vertices);
}

/* Where the neighbours of all vertices up to `vertex` begin: here, where there are none yet. */
static int begin_vertices(struct fth_graph_writer *writer, uint64_t vertex)
{
	int rc = 0;

	for (; rc == 0 && writer->next_vertex <= vertex; writer->next_vertex++) {
		rc = section_put(writer, &writer->offsets, &writer->info->edges, 8);
		if (rc == 0)
			rc = tell_vertices(writer);
	}
	return rc;
}

int fth_graph_writer_add(struct fth_graph_writer *writer, uint32_t from, uint32_t to,
			 uint32_t weight)
{
	int rc = begin_vertices(writer, from);

	if (rc == 0)
		rc = section_put(writer, &writer->edges, &to, 4);
	if (rc == 0 && writer->info->weighted)
		rc = section_put(writer, &writer->weights, &weight, 4);
	writer->info->edges++;
	return rc;
}

static int write_header(struct fth_graph_writer *writer)
{
	struct fth_graph_info *info = writer->info;
	struct fth_graph_header header;

	info->bytes = info->weighted ? writer->weights.at : writer->edges.at;
	info->data_sum = writer->sum;
	fth_graph_encode(info, &header);
	memset(writer->edges.buf, 0, FTH_GRAPH_SECTION);
	memcpy(writer->edges.buf, &header, sizeof(header));
	return fth_dev_write(writer->dev, writer->edges.buf, FTH_GRAPH_SECTION, 0, FTH_DEV_TIMEOUT);
}

int fth_graph_writer_finish(struct fth_graph_writer *writer)
{
	int rc = begin_vertices(writer, writer->info->vertices);

	if (rc == 0)
		rc = section_write(writer, &writer->offsets);
	if (rc == 0)
		rc = section_write(writer, &writer->edges);
	if (rc == 0 && writer->info->weighted)
		rc = section_write(writer, &writer->weights);
	if (rc == 0)
		rc = fth_dev_flush(writer->dev, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = write_header(writer);
	return rc < 0 ? rc : fth_dev_flush(writer->dev, FTH_DEV_TIMEOUT);
}

void fth_graph_writer_close(struct fth_graph_writer *writer)
{
	section_close(writer, &writer->offsets);
	section_close(writer, &writer->edges);
	section_close(writer, &writer->weights);
	section_close(writer, &writer->labels);
}
