/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Labels: the names that a text gives to vertices.
 *
 *	label.c		their order, and those of an open graph
 *	label_list.c	a list in a temporary file
 *	label_sort.c	an external sort
 *	relabel.c	from edges between names to edges between numbers
 */
#ifndef FTH_GRAPH_LABEL_H
#define FTH_GRAPH_LABEL_H

#include "fathom/graph.h"

/* ---- order ---- */

/*
 * What labels are compared by first: the value of a number, which is one below
 * FTH_GRAPH_LABEL_WORDS; otherwise that and the first 63 bits of the text. A number is written in
 * decimal without leading zeros, so that it is equal to another one only if the texts are.
 */
#define FTH_GRAPH_LABEL_WORDS (UINT64_C(1) << 63)
uint64_t fth_graph_label_prefix(const char *text, size_t length);
/* The prefix of a text that is no number, or of a part of one. */
uint64_t fth_graph_word_prefix(const char *text, size_t length);

struct fth_label {
	uint64_t prefix;
	const char *text;
	uint32_t length;
};

/* Negative, 0 or positive. */
int fth_label_compare(const struct fth_label *a, const struct fth_label *b);

/* ---- a list in a temporary file: added to, then read from its start any number of times ---- */

struct fth_label_list {
	const char *directory;
	int fd; /* -1 before the first write */
	uint8_t *buffer;
	size_t used, position; /* bytes of the buffer */
	uint64_t tail, at;     /* bytes of the file: all, and those before the buffer */
	bool reading;
};

int fth_label_list_init(struct fth_label_list *list, const char *directory);
int fth_label_list_add(struct fth_label_list *list, const char *text, uint32_t length);
int fth_label_list_rewind(struct fth_label_list *list);
/* The next label, valid until the next call: 1, or 0 at the end, or a negative errno. */
int fth_label_list_next(struct fth_label_list *list, const char **text, uint32_t *length);
void fth_label_list_release(struct fth_label_list *list);

/* ---- an external sort: labels, each with a number that says where it was ---- */

struct fth_label_sort;

#define FTH_LABEL_SORT_MEMORY_MIN ((uint64_t)512 << 10)

/* `memory` bounds all buffers together. */
int fth_label_sort_new(uint64_t memory, const char *directory, struct fth_label_sort **out);
void fth_label_sort_free(struct fth_label_sort *sort);
/* length is at most FTH_GRAPH_LABEL_MAX. */
int fth_label_sort_add(struct fth_label_sort *sort, const char *text, uint32_t length,
		       uint64_t place);
/* All are in: get ready to merge. An error of job->progress ends it. */
int fth_label_sort_finish(struct fth_label_sort *sort, const struct fth_graph_job *job);
/* The next one, equal ones included; valid until the next call. 1, or 0 at the end, or an error. */
int fth_label_sort_next(struct fth_label_sort *sort, struct fth_label *label, uint64_t *place);
/* How many runs went to the file, those of earlier merges included. */
uint64_t fth_label_sort_runs(const struct fth_label_sort *sort);

#endif
