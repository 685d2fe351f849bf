/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Maps by rank. Rows that wait in chunks take several times the memory of the finished map. So a
 * map whose chunks would not fit is made in two runs over its rows: the first one sets a bit for
 * each key, and the second one writes each record to the place that the rank of its key gives.
 * Where that does not fit either, the map holds as many keys as do, and the others are left for the
 * next part.
 */
#include "query/join/index_build_internal.h"

#include <errno.h>

#define WORTH_TIMES 2.0	  /* chunks take so many times the memory of the map */
#define FILL	    0.95  /* of the room */
#define BITMAP_PART 0.5	  /* of the room, at most, is the bitmap */
#define CHUNK_KEYS  1024u /* fewer are no part */
#define SPARE	    32768 /* bytes of the room for what is small */

/* The bytes of a map of the numbers [from, last] with so many rows. */
static double bytes_of(const struct build *b, uint64_t from, uint64_t last, double rows)
{
	return (double)build_bitmap_bytes(b, from, last) + rows * b->pack.stride + SPARE;
}

bool rank_chosen(const struct build *b, uint64_t from, uint64_t last, double rows, double chunks)
{
	const struct index_spec *s = &b->index->spec;

	return s->twice && s->kind == INDEX_MAP && s->room != UINT64_MAX && last >= from &&
	       b->strings <= BUILD_STRINGS_MAX && build_bitmap_bytes(b, from, last) != UINT64_MAX &&
	       chunks > (double)s->room && bytes_of(b, from, last, rows) * WORTH_TIMES < chunks;
}

double rank_need(const struct build *b, double rows)
{
	return bytes_of(b, 0, b->index->numbering.last, rows) / FILL;
}

int rank_open(struct build *b, uint64_t last)
{
	struct index *x = b->index;
	double all = (double)build_bitmap_bytes(b, x->from, last);
	double room = (double)x->spec.room * BITMAP_PART;
	int rc;

	/* All keys, if they can be counted: there may be fewer than are expected. */
	if (all > room)
		last = x->from + (uint64_t)((double)(last - x->from) * (room / all));
	rc = build_init_bitmap(b, x->from, last);
	if (rc < 0) {
		index_forget(x);
		return rc;
	}
	b->ranked = b->counting = true;
	if (last < x->numbering.last)
		b->to = last;
	return 0;
}

/* The largest number such that at most so many keys of the set are not above it. */
static uint64_t number_at(const struct key_bitmap *s, uint64_t keys)
{
	uint64_t lo = 0, hi = s->nbits; /* rank(lo) <= keys < rank(hi) */

	while (hi - lo > 1) {
		uint64_t middle = lo + (hi - lo) / 2;

		if (key_bitmap_rank(s, s->min + (int64_t)middle) <= keys)
			lo = middle;
		else
			hi = middle;
	}
	return (uint64_t)s->min + lo - 1;
}

static void clear_above(struct key_bitmap *s, uint64_t last)
{
	for (uint64_t at = last + 1 - (uint64_t)s->min; at < s->nbits; at++) {
		if (at % 64 == 0) {
			memset(&s->bits[at / 64], 0, ((s->nbits + 63) / 64 - at / 64) * 8);
			return;
		}
		s->bits[at / 64] &= ~((uint64_t)1 << at % 64);
	}
}

static int open_records(struct build *b, uint64_t keys)
{
	struct index *x = b->index;
	uint64_t room = keys + (keys == 0);

	x->records = fth_qmem_alloc(b->own, room * x->pack.stride + PACK_PAD);
	if (!x->records)
		return -ENOMEM;
	x->record_room = room;
	x->slots = keys;
	/* Rows without a match are gathered from the first one. */
	memset(x->records, 0, x->pack.stride + PACK_PAD);
	return 0;
}

int build_second(struct build *b)
{
	struct index *x = b->index;
	uint64_t keys;
	int rc;

	if (!b->counting)
		return 0;
	b->counting = false;
	rc = key_bitmap_seal(&x->keys);
	if (rc < 0)
		return -ENOMEM;
	keys = x->keys.count;
	while (open_records(b, keys) < 0) {
		if (keys < CHUNK_KEYS)
			return -ENOMEM;
		keys -= keys / 8;
	}
	if (keys < x->keys.count) {
		uint64_t last = number_at(&x->keys, keys);

		clear_above(&x->keys, last);
		b->to = last;
	}
	return 1;
}
