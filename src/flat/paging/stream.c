/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that are used one after the other. A table holds, for pages on which a fault would continue
 * a stream, that stream: the page behind the last one, and the page of what was read ahead that was
 * left unmapped to tell how far the program is. Streams of all threads are in one table, so that a
 * program can read several arrays side by side and access others at random in between. Only pages
 * that come from flash begin a stream. Under the lock of the policy.
 */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>

#define STREAMS	     1024u
#define ESTABLISHED  3u /* pages in a row */
#define AHEAD_MIN    4u
#define WINDOW_SHARE 32u
/*
 * Misses of other pages until a stream is over. Random accesses to a few hundred pages, of which
 * some are on flash, would look like streams otherwise.
 */
#define PATIENCE_NEW 8u
#define PATIENCE     64u

int stream_open(struct fth_flat *flat)
{
	flat->streams = malloc(STREAMS * sizeof(*flat->streams));
	if (!flat->streams)
		return fth_fail(ENOMEM, "flat: no memory for streams");
	for (unsigned i = 0; i < STREAMS; i++)
		flat->streams[i].next = FLAT_NONE;
	return 0;
}

void stream_close(struct fth_flat *flat)
{
	free(flat->streams);
}

static struct flat_stream *slot_of(struct fth_flat *flat, uint64_t page)
{
	return &flat->streams[fth_mix64(page) % STREAMS];
}

static void expect(struct fth_flat *flat, struct flat_stream stream, uint64_t next)
{
	stream.next = next;
	stream.at = flat->stream_misses;
	*slot_of(flat, next) = stream;
}

uint64_t stream_tripwire(uint64_t first, uint64_t pages)
{
	return first + pages / 2;
}

static bool is_expected(const struct fth_flat *flat, const struct flat_stream *stream,
			uint64_t page)
{
	uint64_t age = flat->stream_misses - stream->at;

	return stream->next == page && age <= (stream->run < ESTABLISHED ? PATIENCE_NEW : PATIENCE);
}

/* The page that was used last, once more? */
static bool is_last(const struct fth_flat *flat, struct flat_stream *behind, uint64_t page)
{
	return is_expected(flat, behind, page + 1) && behind->run >= ESTABLISHED;
}

void stream_advise(struct fth_flat *flat, uint64_t first, uint64_t end, bool sequential)
{
	futex_lock(&flat->policy.lock);
	flat->habits[flat->habit_count++ % FLAT_HABITS] =
		(struct flat_habit){.first = first, .end = end, .sequential = sequential};
	futex_unlock(&flat->policy.lock);
}

/* What was told about a page last, or NULL. */
static const struct flat_habit *habit_of(const struct fth_flat *flat, uint64_t page)
{
	uint64_t n = flat->habit_count;

	for (uint64_t i = 0; i < FLAT_HABITS && i < n; i++) {
		const struct flat_habit *habit = &flat->habits[(n - 1 - i) % FLAT_HABITS];

		if (page >= habit->first && page < habit->end)
			return habit;
	}
	return NULL;
}

/* A few streams' pages fit into the part of DRAM that is theirs (ring.c). */
static uint64_t window_max(const struct fth_flat *flat)
{
	uint64_t most = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED) / WINDOW_SHARE;

	return most < FLAT_AHEAD_MAX ? most : FLAT_AHEAD_MAX;
}

bool stream_note(struct fth_flat *flat, uint64_t page, bool miss, struct stream_ahead *ahead)
{
	struct flat_stream stream = *slot_of(flat, page), *behind = slot_of(flat, page + 1);

	const struct flat_habit *habit = habit_of(flat, page);

	ahead->pages = 0;
	flat->stream_misses += miss;
	if (habit && !habit->sequential)
		return false;
	if (habit && miss && stream.next != page)
		stream = (struct flat_stream){.next = page,
					      .at = flat->stream_misses,
					      .end = page,
					      .run = ESTABLISHED,
					      .window = AHEAD_MIN};
	if (!is_expected(flat, &stream, page)) {
		if (is_last(flat, behind, page))
			return true;
		if (miss)
			expect(flat, (struct flat_stream){.end = page, .window = AHEAD_MIN},
			       page + 1);
		return false;
	}
	if (!miss && stream.run < ESTABLISHED)
		return false;
	stream.run++;
	if (stream.end < page)
		stream.end = page;
	if (miss) /* what was asked for has not come */
		stream.end = page;
	if (stream.run >= ESTABLISHED && stream.end - page < stream.window / 2) {
		/* half of what was read ahead is used: time for more */
		*ahead = (struct stream_ahead){
			.first = stream.end + 1, .pages = stream.window, .now = miss};
		stream.end += stream.window;
		if (2 * stream.window <= window_max(flat))
			stream.window *= 2;
		expect(flat, stream, ahead->first);
		expect(flat, stream, stream.end + 1);
		expect(flat, stream, stream_tripwire(ahead->first, ahead->pages));
	}
	expect(flat, stream, page + 1);
	return stream.run >= ESTABLISHED;
}
