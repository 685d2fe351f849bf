/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which pages of a region are in use: spans of pages, used or free. A span is found by its first
 * page. Not thread-safe; it calls nothing but mmap(), when it is opened.
 *
 * The bookkeeping is outside the region, 16 bytes for each page of it; only that of first and last
 * pages of spans is ever touched.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_SPANS_H
#define FATHOM_SRC_FLAT_PRELOAD_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#define SPANS_NONE UINT32_MAX
#define SPANS_BINS 256u

#define SPANS_USED 1u
#define SPANS_HEAD 2u

struct spans_node {
	uint32_t pages; /* at the first and the last page of a span; 0 elsewhere */
	uint32_t flags; /* the same: SPANS_USED; SPANS_HEAD at the first */
	uint32_t next,
		before; /* of free spans, at the first page: in the list of their bin; of used ones: -, mark */
};

struct spans {
	struct spans_node *nodes;
	uint32_t pages;
	uint32_t used_pages;
	uint32_t bins[SPANS_BINS]; /* first span, or SPANS_NONE */
	uint64_t filled[SPANS_BINS / 64];
};

/* One free span of `pages` pages. Returns 0 or -ENOMEM. */
int spans_open(struct spans *spans, uint32_t pages);
void spans_close(struct spans *spans);

/*
 * A used span whose first page + `phase` is a multiple of `align`, a power of two; SPANS_NONE if
 * there is none. `phase` is the number of pages that the region's first page lies behind a
 * multiple.
 */
uint32_t spans_alloc(struct spans *spans, uint32_t pages, uint32_t align, uint32_t phase);

/*
 * The used span that has this page; SPANS_NONE if it is free. Takes as long as the span is long, if
 * it is in its middle.
 */
uint32_t spans_find(const struct spans *spans, uint32_t page);

/* Pages of the used span that begins at `first`; 0 if none does. */
uint32_t spans_length(const struct spans *spans, uint32_t first);

/* A mark of the used span that begins at `first`, for the caller; cutting copies it. */
static inline void spans_mark(struct spans *spans, uint32_t first, uint32_t mark)
{
	spans->nodes[first].before = mark;
}

static inline uint32_t spans_marked(const struct spans *spans, uint32_t first)
{
	return spans->nodes[first].before;
}

void spans_free(struct spans *spans, uint32_t first);

/* Cut a used span in two used ones; `pages` of it stay at the front. */
void spans_cut(struct spans *spans, uint32_t first, uint32_t pages);

/* Make a used span longer where the pages behind it are free; false if they are not. */
bool spans_grow(struct spans *spans, uint32_t first, uint32_t pages);

#endif
