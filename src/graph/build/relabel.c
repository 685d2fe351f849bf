/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 1. Every name, and every weight, has a place: 4 times the number of its edge, plus FROM, TO or
 *    WEIGHT.
 * 2. Names are sorted, each with its place. Equal ones follow each other: the number of a name is
 *    how many others came before.
 * 3. Numbers, and weights, are sorted by place, which brings them back into the order of the edges.
 *    For that an edge sort does: its key is the place, its weight the number.
 */
#include "graph/build/relabel.h"

#include "graph/build/sort.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FROM, TO, WEIGHT, PLACES = 4 };

#define TELL_EVERY ((uint64_t)1 << 16)

struct fth_relabel {
	bool weighted;
	const struct fth_graph_job *job;
	uint64_t edges, next_edge;
	struct fth_label_sort *names;
	struct fth_edge_sort *numbers;
	struct fth_label_list labels;
};

/* The name that was numbered last. */
struct current {
	uint64_t count; /* different names so far */
	char text[FTH_GRAPH_LABEL_MAX];
	uint32_t length;
};

int fth_relabel_new(uint64_t memory, const char *directory, bool weighted,
		    const struct fth_graph_job *job, struct fth_relabel **out)
{
	struct fth_relabel *relabel = calloc(1, sizeof(*relabel));
	uint64_t quarter = memory / 4;
	int rc;

	*out = relabel;
	if (!relabel)
		return -ENOMEM;
	if (quarter < FTH_EDGE_SORT_MEMORY_MIN)
		quarter = FTH_EDGE_SORT_MEMORY_MIN;
	relabel->weighted = weighted;
	relabel->job = job;
	rc = fth_label_list_init(&relabel->labels, directory);
	if (rc == 0)
		rc = fth_label_sort_new(memory / 2, directory, &relabel->names);
	if (rc == 0)
		rc = fth_edge_sort_new(quarter, 1, true, directory, &relabel->numbers);
	return rc;
}

void fth_relabel_free(struct fth_relabel *relabel)
{
	if (!relabel)
		return;
	fth_label_sort_free(relabel->names);
	fth_edge_sort_free(relabel->numbers);
	fth_label_list_release(&relabel->labels);
	free(relabel);
}

static int add_number(struct fth_relabel *relabel, uint64_t place, uint32_t number)
{
	return fth_edge_add(fth_edge_sort_buffer(relabel->numbers, 0), place, number);
}

int fth_relabel_add(struct fth_relabel *relabel, const struct fth_graph_text_edge *edge)
{
	uint64_t place = relabel->edges++ * PLACES;
	int rc = fth_label_sort_add(relabel->names, edge->label[0], edge->length[0], place + FROM);

	if (rc == 0)
		rc = fth_label_sort_add(relabel->names, edge->label[1], edge->length[1],
					place + TO);
	if (rc == 0 && relabel->weighted)
		rc = add_number(relabel, place + WEIGHT, edge->weight);
	return rc;
}

static bool is_same(const struct current *current, const struct fth_label *label)
{
	return current->count > 0 && current->length == label->length &&
	       memcmp(current->text, label->text, label->length) == 0;
}

static int begin_name(struct fth_relabel *relabel, struct current *current,
		      const struct fth_label *label, struct fth_graph_info *info)
{
	if (current->count == FTH_GRAPH_VERTICES_MAX)
		return fth_fail(EINVAL, "more than %llu distinct vertex names",
				(unsigned long long)FTH_GRAPH_VERTICES_MAX);
	current->count++;
	memcpy(current->text, label->text, label->length);
	current->length = label->length;
	info->label_bytes += label->length;
	if (label->length > info->label_max)
		info->label_max = label->length;
	info->labels_numeric = info->labels_numeric && label->prefix < FTH_GRAPH_LABEL_WORDS;
	return fth_label_list_add(&relabel->labels, label->text, label->length);
}

static int number_all(struct fth_relabel *relabel, struct fth_graph_info *info)
{
	const struct fth_graph_job *job = relabel->job;
	struct current current = {0};
	struct fth_label label;
	uint64_t place, done = 0;
	int rc;

	while ((rc = fth_label_sort_next(relabel->names, &label, &place)) > 0) {
		rc = is_same(&current, &label) ? 0 : begin_name(relabel, &current, &label, info);
		if (rc == 0)
			rc = add_number(relabel, place, (uint32_t)(current.count - 1));
		if (rc == 0 && ++done % TELL_EVERY == 0 && job->progress)
			rc = job->progress(job->context, "numbering names", done,
					   2 * relabel->edges);
		if (rc < 0)
			break;
	}
	return rc;
}

int fth_relabel_number(struct fth_relabel *relabel, struct fth_graph_info *info)
{
	int rc = fth_label_sort_finish(relabel->names, relabel->job);

	info->labels = info->labels_numeric = true;
	if (rc == 0)
		rc = number_all(relabel, info);
	fth_label_sort_free(relabel->names);
	relabel->names = NULL;
	return rc == 0 ? fth_edge_sort_finish(relabel->numbers, relabel->job) : rc;
}

/* The number at the next place, which has to be this one. */
static int take_number(struct fth_relabel *relabel, uint64_t place, uint32_t *out)
{
	uint64_t found = 0;
	int rc = fth_edge_sort_next(relabel->numbers, &found, out);

	if (rc < 0)
		return rc;
	return rc > 0 && found == place ? 0 : fth_fail(EIO, "a temporary file is damaged");
}

int fth_relabel_next(struct fth_relabel *relabel, struct fth_graph_text_edge *edge)
{
	uint64_t place = relabel->next_edge * PLACES;
	int rc;

	if (relabel->next_edge == relabel->edges)
		return 0;
	relabel->next_edge++;
	*edge = (struct fth_graph_text_edge){0};
	rc = take_number(relabel, place + FROM, &edge->from);
	if (rc == 0)
		rc = take_number(relabel, place + TO, &edge->to);
	if (rc == 0 && relabel->weighted)
		rc = take_number(relabel, place + WEIGHT, &edge->weight);
	return rc < 0 ? rc : 1;
}

struct fth_label_list *fth_relabel_labels(struct fth_relabel *relabel)
{
	return relabel ? &relabel->labels : NULL;
}
