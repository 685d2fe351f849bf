/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of a graph: what is in it, and whether it can be true. */
#include "graph/format.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_SEED 0x6772617068686472u /* "graphhdr" */
#define LABEL_SEED  0x67726170686c6162u /* "graphlab" */
#define PIECE_SEED  0x6772617068706365u /* "graphpce" */
/* Far above any device, far below what could overflow. */
#define BYTES_MAX ((uint64_t)1 << 60)

void fth_graph_lay_out(struct fth_graph_info *info, uint64_t edges_max)
{
	uint64_t index = fth_graph_align((info->vertices + 1) * 8), end;

	info->offsets_at = FTH_GRAPH_SECTION;
	end = info->offsets_at + index;
	info->label_index_at = info->labels ? end : 0;
	info->label_text_at = info->labels ? end + index : 0;
	if (info->labels)
		end = info->label_text_at + fth_graph_align(info->label_bytes);
	info->edges_at = end;
	end = info->edges_at + fth_graph_align(edges_max * 4);
	info->weights_at = info->weighted ? end : 0;
	info->bytes = info->weighted ? end + fth_graph_align(edges_max * 4) : end;
}

static uint64_t header_sum(const struct fth_graph_header *header)
{
	return fth_checksum(header, offsetof(struct fth_graph_header, checksum), HEADER_SEED);
}

static uint64_t label_sum(const struct fth_graph_header *header)
{
	return fth_checksum(&header->label_index_at,
			    offsetof(struct fth_graph_header, label_checksum) -
				    offsetof(struct fth_graph_header, label_index_at),
			    LABEL_SEED);
}

void fth_graph_seal(struct fth_graph_header *header)
{
	header->checksum = header_sum(header);
	if (header->flags & FTH_GRAPH_LABELLED)
		header->label_checksum = label_sum(header);
}

uint64_t fth_graph_piece_sum(const void *piece, uint64_t at)
{
	return fth_checksum(piece, FTH_GRAPH_SECTION, PIECE_SEED ^ at);
}

void fth_graph_encode(const struct fth_graph_info *info, struct fth_graph_header *out)
{
	*out = (struct fth_graph_header){
		.version = FTH_GRAPH_VERSION,
		.flags = (info->undirected ? FTH_GRAPH_UNDIRECTED : 0) |
			 (info->weighted ? FTH_GRAPH_WEIGHTED : 0) |
			 (info->labels ? FTH_GRAPH_LABELLED : 0),
		.vertices = info->vertices,
		.edges = info->edges,
		.id_bytes = 4,
		.weight_bytes = info->weighted ? 4 : 0,
		.offsets_at = info->offsets_at,
		.edges_at = info->edges_at,
		.weights_at = info->weights_at,
		.bytes = info->bytes,
		.data_sum = info->data_sum,
		.label_index_at = info->label_index_at,
		.label_text_at = info->label_text_at,
		.label_bytes = info->label_bytes,
		.label_max = info->label_max,
		.labels_numeric = info->labels_numeric,
	};
	memcpy(out->magic, FTH_GRAPH_MAGIC, sizeof(out->magic));
	memcpy(out->made_by, info->made_by, sizeof(out->made_by));
	fth_graph_seal(out);
}

/* Is this a header, and one of ours? */
static int check_kind(const struct fth_graph_header *header)
{
	if (memcmp(header->magic, FTH_GRAPH_MAGIC, sizeof(header->magic)) != 0)
		return fth_fail(EBADMSG, "not a graph file: wrong magic number");
	if (header->version != FTH_GRAPH_VERSION)
		return fth_fail(EBADMSG, "the graph has version %u, expected %u", header->version,
				FTH_GRAPH_VERSION);
	if (header->checksum != header_sum(header))
		return fth_fail(EBADMSG, "the header of the graph is damaged");
	if (header->flags & ~(FTH_GRAPH_UNDIRECTED | FTH_GRAPH_WEIGHTED | FTH_GRAPH_LABELLED))
		return fth_fail(EBADMSG, "the graph has unknown flags 0x%x", header->flags);
	if (header->flags & FTH_GRAPH_LABELLED && header->label_checksum != label_sum(header))
		return fth_fail(EBADMSG, "the label header of the graph is damaged");
	if (header->id_bytes != 4 ||
	    header->weight_bytes != (header->flags & FTH_GRAPH_WEIGHTED ? 4 : 0))
		return fth_fail(EBADMSG,
				"the graph has vertex numbers of %u bytes and weights of %u, which "
				"is not supported",
				header->id_bytes, header->weight_bytes);
	return 0;
}

static int check_counts(const struct fth_graph_header *header)
{
	if (header->vertices < 1 || header->vertices > FTH_GRAPH_VERTICES_MAX)
		return fth_fail(EBADMSG, "the graph has an invalid number of vertices, %llu",
				(unsigned long long)header->vertices);
	if (header->edges > BYTES_MAX / 4)
		return fth_fail(EBADMSG, "the graph has an invalid number of edges, %llu",
				(unsigned long long)header->edges);
	if (header->flags & FTH_GRAPH_LABELLED &&
	    (header->label_max > FTH_GRAPH_LABEL_MAX || header->labels_numeric > 1 ||
	     header->label_bytes / FTH_GRAPH_LABEL_MAX > header->vertices))
		return fth_fail(
			EBADMSG,
			"the graph has an invalid label section: %llu bytes, longest label %u",
			(unsigned long long)header->label_bytes, header->label_max);
	return 0;
}

/* A section lies after `from`, where a section may begin, and ends at *end or before `bytes`. */
static bool section_fits(uint64_t from, uint64_t at, uint64_t length, uint64_t bytes, uint64_t *end)
{
	*end = at + length;
	return at % FTH_GRAPH_SECTION == 0 && at >= from && at <= bytes && length <= bytes - at;
}

static int check_places(const struct fth_graph_header *header, uint64_t device_bytes)
{
	uint64_t end = FTH_GRAPH_SECTION, list = fth_graph_align(header->edges * 4);
	uint64_t index = fth_graph_align((header->vertices + 1) * 8);
	bool fit = header->bytes <= BYTES_MAX && header->bytes % FTH_GRAPH_SECTION == 0;

	fit = fit && section_fits(end, header->offsets_at, index, header->bytes, &end);
	if (header->flags & FTH_GRAPH_LABELLED) {
		fit = fit && section_fits(end, header->label_index_at, index, header->bytes, &end);
		fit = fit &&
		      section_fits(end, header->label_text_at, fth_graph_align(header->label_bytes),
				   header->bytes, &end);
	}
	fit = fit && section_fits(end, header->edges_at, list, header->bytes, &end);
	if (header->flags & FTH_GRAPH_WEIGHTED)
		fit = fit && section_fits(end, header->weights_at, list, header->bytes, &end);
	if (!fit)
		return fth_fail(EBADMSG, "the sections of the graph overlap or are out of order");
	if (header->bytes > device_bytes)
		return fth_fail(
			EBADMSG, "the graph has %llu bytes, the device only %llu: it is truncated",
			(unsigned long long)header->bytes, (unsigned long long)device_bytes);
	return 0;
}

int fth_graph_decode(const struct fth_graph_header *header, uint64_t device_bytes,
		     struct fth_graph_info *out)
{
	int rc = check_kind(header);

	if (rc == 0)
		rc = check_counts(header);
	if (rc == 0)
		rc = check_places(header, device_bytes);
	if (rc < 0)
		return rc;
	*out = (struct fth_graph_info){
		.vertices = header->vertices,
		.edges = header->edges,
		.undirected = header->flags & FTH_GRAPH_UNDIRECTED,
		.weighted = header->flags & FTH_GRAPH_WEIGHTED,
		.offsets_at = header->offsets_at,
		.edges_at = header->edges_at,
		.weights_at = header->weights_at,
		.bytes = header->bytes,
		.data_sum = header->data_sum,
		.labels = header->flags & FTH_GRAPH_LABELLED,
	};
	if (out->labels) {
		out->label_index_at = header->label_index_at;
		out->label_text_at = header->label_text_at;
		out->label_bytes = header->label_bytes;
		out->label_max = header->label_max;
		out->labels_numeric = header->labels_numeric;
	}
	memcpy(out->made_by, header->made_by, sizeof(out->made_by) - 1);
	return 0;
}

int fth_graph_read_info(struct fth_dev *dev, struct fth_graph_info *out)
{
	uint64_t size = fth_dev_info(dev)->size, length = FTH_GRAPH_SECTION;
	struct fth_graph_header *header;
	int rc;

	if (size < length)
		return fth_fail(EBADMSG, "%llu bytes are too small for a graph",
				(unsigned long long)size);
	header = malloc(length);
	if (!header)
		return -ENOMEM;
	rc = fth_dev_read(dev, header, length, 0, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = fth_graph_decode(header, size, out);
	free(header);
	return rc;
}

/* ---- the data ---- */

#define CHECK_STEP (16u * FTH_GRAPH_SECTION)

/* Add up the pieces of [at, at + length). */
static int sum_section(struct fth_dev *dev, uint8_t *buf, uint64_t at, uint64_t length,
		       uint64_t *sum)
{
	uint64_t end = at + fth_graph_align(length);
	int rc = 0;

	while (rc == 0 && at < end) {
		uint64_t step = end - at < CHECK_STEP ? end - at : CHECK_STEP;

		rc = fth_dev_read(dev, buf, step, at, FTH_DEV_TIMEOUT);
		for (uint64_t i = 0; rc == 0 && i < step; i += FTH_GRAPH_SECTION)
			*sum += fth_graph_piece_sum(buf + i, at + i);
		at += step;
	}
	return rc;
}

static int tell(const struct fth_graph_job *job, uint64_t done, uint64_t total)
{
	return job && job->progress ? job->progress(job->context, "checking", done, total) : 0;
}

/* In steps, to be able to stop. */
static int sum_all(struct fth_dev *dev, const struct fth_graph_info *info,
		   const struct fth_graph_job *job, uint64_t *sum)
{
	uint64_t index = (info->vertices + 1) * 8;
	const uint64_t sections[5][2] = {
		{info->offsets_at, index},
		{info->label_index_at, info->labels ? index : 0},
		{info->label_text_at, info->labels ? info->label_bytes : 0},
		{info->edges_at, info->edges * 4},
		{info->weights_at, info->weighted ? info->edges * 4 : 0}};
	uint8_t *buf = fth_dev_buf_alloc(dev, CHECK_STEP);
	int rc = buf ? 0 : -ENOMEM;

	for (int s = 0; s < 5 && rc == 0; s++) {
		uint64_t at = sections[s][0], end = at + sections[s][1], step = 16 * CHECK_STEP;

		for (; rc == 0 && at < end; at += step) {
			rc = tell(job, at, info->bytes);
			if (rc == 0)
				rc = sum_section(dev, buf, at, end - at < step ? end - at : step,
						 sum);
		}
	}
	if (buf)
		fth_dev_buf_free(dev, buf, CHECK_STEP);
	return rc;
}

int fth_graph_check_data(struct fth_dev *dev, const struct fth_graph_job *job)
{
	struct fth_graph_info info;
	uint64_t sum = 0;
	int rc = fth_graph_read_info(dev, &info);

	if (rc == 0)
		rc = sum_all(dev, &info, job, &sum);
	if (rc < 0)
		return rc;
	return sum == info.data_sum
		       ? 0
		       : fth_fail(EBADMSG, "the graph is damaged: the checksum does not match");
}
