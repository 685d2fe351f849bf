/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two-level segregated fit (Masmano et al., TLSF, ECRTS 2004) over pages: free spans are in bins by
 * size, eight bins from one power of two to the next, and a bitmap tells which bins have any. A
 * span of a bin that is large enough is taken, and the rest of it goes back.
 *
 * Invariants
 * 1. Every page belongs to one span. The nodes of the first and the last page of a span have its
 *    size.
 * 2. No two free spans are neighbours.
 * 3. A free span is in the list of bin_of(its size), and a bit of `filled` is set exactly if the
 *    list is not empty.
 */
#include "flat/preload/spans.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_BITS 3u /* bins from one power of two to the next: 8 */
#define FIRST_MASK ((1u << FIRST_BITS) - 1)

static void set_span(struct spans *spans, uint32_t first, uint32_t pages, uint32_t flags)
{
	struct spans_node *head = &spans->nodes[first], *tail = &spans->nodes[first + pages - 1];

	head->pages = tail->pages = pages;
	tail->flags = flags;
	head->flags = flags | SPANS_HEAD; /* after that, since they may be one */
}

/* The page is inside a span from now on. */
static void clear_node(struct spans *spans, uint32_t page)
{
	spans->nodes[page].pages = 0;
	spans->nodes[page].flags = 0;
}

int spans_open(struct spans *spans, uint32_t pages)
{
	void *at = mmap(NULL, (uint64_t)pages * sizeof(*spans->nodes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -ENOMEM;
	*spans = (struct spans){.nodes = at, .pages = pages, .used_pages = pages};
	memset(spans->bins, 0xff, sizeof(spans->bins));
	set_span(spans, 0, pages, SPANS_USED);
	spans_free(spans, 0);
	return 0;
}

void spans_close(struct spans *spans)
{
	if (spans->nodes)
		munmap(spans->nodes, (uint64_t)spans->pages * sizeof(*spans->nodes));
	spans->nodes = NULL;
}

/* ---- bins ---- */

static unsigned bin_of(uint32_t pages)
{
	unsigned top;

	if (pages <= FIRST_MASK)
		return pages;
	top = 31u - (unsigned)__builtin_clz(pages);
	return ((top - FIRST_BITS + 1) << FIRST_BITS) +
	       ((pages >> (top - FIRST_BITS)) & FIRST_MASK);
}

/* The first bin all of whose spans have at least so many pages. */
static unsigned bin_for(uint32_t pages)
{
	unsigned bin = bin_of(pages), top;

	if (pages <= FIRST_MASK)
		return bin;
	top = 31u - (unsigned)__builtin_clz(pages);
	return bin + ((pages & ((1u << (top - FIRST_BITS)) - 1)) != 0);
}

static void enter_bin(struct spans *spans, uint32_t first)
{
	unsigned bin = bin_of(spans->nodes[first].pages);
	uint32_t head = spans->bins[bin];

	spans->nodes[first].next = head;
	spans->nodes[first].before = SPANS_NONE;
	if (head != SPANS_NONE)
		spans->nodes[head].before = first;
	spans->bins[bin] = first;
	spans->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static void leave_bin(struct spans *spans, uint32_t first)
{
	unsigned bin = bin_of(spans->nodes[first].pages);
	uint32_t next = spans->nodes[first].next, before = spans->nodes[first].before;

	if (next != SPANS_NONE)
		spans->nodes[next].before = before;
	if (before != SPANS_NONE)
		spans->nodes[before].next = next;
	else
		spans->bins[bin] = next;
	if (spans->bins[bin] == SPANS_NONE)
		spans->filled[bin / 64] &= ~((uint64_t)1 << (bin % 64));
}

static uint32_t first_filled(const struct spans *spans, unsigned bin)
{
	for (unsigned word = bin / 64; word < SPANS_BINS / 64; word++) {
		uint64_t bits = spans->filled[word];

		if (word == bin / 64)
			bits &= ~(uint64_t)0 << (bin % 64);
		if (bits)
			return spans->bins[word * 64 + (unsigned)__builtin_ctzll(bits)];
	}
	return SPANS_NONE;
}

/*
 * Any free span that has so many pages: first from bins where all have, then from the bin below,
 * where some may.
 */
static uint32_t find_free(const struct spans *spans, uint32_t pages)
{
	uint32_t found = first_filled(spans, bin_for(pages));

	if (found == SPANS_NONE)
		for (found = spans->bins[bin_of(pages)];
		     found != SPANS_NONE && spans->nodes[found].pages < pages;)
			found = spans->nodes[found].next;
	return found;
}

/* ---- spans ---- */

/* Make [at, at + pages) of the free span at `first` a used one; what is left stays free. */
static void use_part(struct spans *spans, uint32_t first, uint32_t at, uint32_t pages)
{
	uint32_t all = spans->nodes[first].pages, front = at - first, back = all - front - pages;

	leave_bin(spans, first);
	clear_node(spans, first);
	clear_node(spans, first + all - 1);
	set_span(spans, at, pages, SPANS_USED);
	if (front) {
		set_span(spans, first, front, 0);
		enter_bin(spans, first);
	}
	if (back) {
		set_span(spans, at + pages, back, 0);
		enter_bin(spans, at + pages);
	}
	spans->used_pages += pages;
}

uint32_t spans_alloc(struct spans *spans, uint32_t pages, uint32_t align, uint32_t phase)
{
	uint64_t wanted = (uint64_t)pages + align - 1;
	uint32_t first, at;

	if (pages == 0 || wanted > spans->pages)
		return SPANS_NONE;
	first = find_free(spans, (uint32_t)wanted);
	if (first == SPANS_NONE)
		return SPANS_NONE;
	at = ((first + phase + align - 1) & ~(align - 1)) - phase;
	use_part(spans, first, at, pages);
	return at;
}

uint32_t spans_find(const struct spans *spans, uint32_t page)
{
	const struct spans_node *node = &spans->nodes[page];

	if (node->pages && !(node->flags & SPANS_HEAD))
		page -= node->pages - 1;
	while (!(spans->nodes[page].flags & SPANS_HEAD))
		page--;
	return spans->nodes[page].flags & SPANS_USED ? page : SPANS_NONE;
}

uint32_t spans_length(const struct spans *spans, uint32_t first)
{
	const struct spans_node *node = &spans->nodes[first];

	return node->flags == (SPANS_USED | SPANS_HEAD) ? node->pages : 0;
}

void spans_free(struct spans *spans, uint32_t first)
{
	uint32_t pages = spans->nodes[first].pages, end = first + pages;

	spans->used_pages -= pages;
	if (first > 0 && !(spans->nodes[first - 1].flags & SPANS_USED)) {
		uint32_t before = spans->nodes[first - 1].pages;

		leave_bin(spans, first - before);
		clear_node(spans, first - 1);
		clear_node(spans, first);
		first -= before;
		pages += before;
	}
	if (end < spans->pages && !(spans->nodes[end].flags & SPANS_USED)) {
		uint32_t behind = spans->nodes[end].pages;

		leave_bin(spans, end);
		clear_node(spans, end - 1);
		clear_node(spans, end);
		pages += behind;
	}
	set_span(spans, first, pages, 0);
	enter_bin(spans, first);
}

void spans_cut(struct spans *spans, uint32_t first, uint32_t pages)
{
	uint32_t all = spans->nodes[first].pages;

	if (pages == 0 || pages >= all)
		return;
	set_span(spans, first, pages, SPANS_USED);
	set_span(spans, first + pages, all - pages, SPANS_USED);
	spans_mark(spans, first + pages, spans_marked(spans, first));
}

bool spans_grow(struct spans *spans, uint32_t first, uint32_t pages)
{
	uint32_t old = spans->nodes[first].pages, end = first + old, more;

	if (pages <= old)
		return true;
	more = pages - old;
	if (end >= spans->pages || (spans->nodes[end].flags & SPANS_USED) ||
	    spans->nodes[end].pages < more)
		return false;
	use_part(spans, end, end, more);
	clear_node(spans, end - 1);
	clear_node(spans, end);
	set_span(spans, first, pages, SPANS_USED);
	return true;
}
