/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Belady's OPT (1966): what goes is the line that is used again last, or never. It needs the
 * future, so it is no policy but the limit of them all.
 *
 * A heap holds the lines of the cache, ordered by their next use. Entries are not removed when a
 * line is used before it goes: the line gets a new entry, and the old one is known to be stale by
 * its time, which no longer is the line's next use.
 */
#include "policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT32_MAX

struct entry {
	uint32_t next; /* position in the trace */
	uint32_t line;
};

struct opt {
	const struct fth_policy_trace *trace;
	uint32_t *next_of_access; /* where the line of an access comes again */
	uint32_t *next_of_line;	  /* 0: not in the cache */
	struct entry *heap;	  /* the latest next use first */
	size_t heaped;
	uint32_t used;
};

static void push(struct opt *o, struct entry entry)
{
	size_t at = o->heaped++;

	while (at && o->heap[(at - 1) / 2].next < entry.next) {
		o->heap[at] = o->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	o->heap[at] = entry;
}

static struct entry pop(struct opt *o)
{
	struct entry top = o->heap[0], last = o->heap[--o->heaped];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < o->heaped) {
		if (child + 1 < o->heaped && o->heap[child + 1].next > o->heap[child].next)
			child++;
		if (o->heap[child].next <= last.next)
			break;
		o->heap[at] = o->heap[child];
		at = child;
	}
	o->heap[at] = last;
	return top;
}

static void look_ahead(struct opt *o)
{
	const struct fth_policy_trace *trace = o->trace;

	memset(o->next_of_line, 0xff, trace->universe * sizeof(*o->next_of_line));
	for (size_t i = trace->n; i-- > 0;) {
		o->next_of_access[i] = o->next_of_line[trace->lines[i]];
		o->next_of_line[trace->lines[i]] = (uint32_t)i;
	}
	memset(o->next_of_line, 0, trace->universe * sizeof(*o->next_of_line));
}

static void evict_last_used(struct opt *o)
{
	struct entry entry;

	do
		entry = pop(o);
	while (o->next_of_line[entry.line] != entry.next);
	o->next_of_line[entry.line] = 0;
	o->used--;
}

static int64_t count_hits(struct opt *o)
{
	int64_t hits = 0;

	look_ahead(o);
	for (size_t i = 0; i < o->trace->n; i++) {
		uint32_t line = o->trace->lines[i], next = o->next_of_access[i];

		if (o->next_of_line[line]) {
			hits++;
			o->used--;
		} else if (o->used == o->trace->frames) {
			evict_last_used(o);
		}
		o->used++;
		o->next_of_line[line] = next;
		push(o, (struct entry){next, line});
	}
	return hits;
}

int64_t fth_policy_run_opt(const struct fth_policy *policy, const struct fth_policy_trace *trace)
{
	struct opt o = {.trace = trace};
	int64_t hits = -ENOMEM;

	(void)policy;
	o.next_of_access = malloc(trace->n * sizeof(*o.next_of_access) + 1);
	o.next_of_line = malloc(trace->universe * sizeof(*o.next_of_line) + 1);
	o.heap = malloc(trace->n * sizeof(*o.heap) + 1);
	if (o.next_of_access && o.next_of_line && o.heap)
		hits = count_hits(&o);
	free(o.next_of_access);
	free(o.next_of_line);
	free(o.heap);
	return hits;
}
