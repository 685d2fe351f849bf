/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The chunks of the log in their order, found without an index.
 *
 * The header of a chunk says where the log ended before it, so from the newest chunk a chain of
 * links leads back to the oldest one.
 *
 * 1. Each chunk has the number after that of the chunk that its link leads to. A number is used
 *    again only after what a crash left under it was zeroed (recover.c).
 * 2. Where the link of the newest chunks leads to a chunk that is not there, of which nothing is
 *    known to have been durable (watermark.c), a crash took that one before it was flushed: the log
 *    ends before it, and what lies behind it is no part of the log. Else, or if it cannot be read,
 *    it is damage: the chain begins behind it. It begins there as well, and nothing is damaged, if
 *    the place may have been overwritten or zeroed since: chunks up to `flight` numbers behind the
 *    newest one may have been opened.
 * 3. What a chain of chunks without a gap says of a key is right: the last change of the key is the
 *    last in the chain, or older than all of it. Then the item is older too, and is forgotten. A
 *    delete that the ring has overwritten brings nothing back: the item that it deleted lay before
 *    it. An item that is written again when its chunk is reclaimed is the latest of its key, and a
 *    later change lies behind it. A flush_all is repeated at the beginning of each chunk.
 */
#include "kv/kv_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX

struct link {
	uint64_t number; /* of the chunk in this place; NONE: there is none */
	uint64_t before; /* as in its header */
	bool unreadable;
};

static int read_links(struct fth_kv *kv, struct link *links, struct kv_watermark *mark)
{
	struct kv_chunk_header h;
	uint8_t *block;
	int rc = 0;

	if (posix_memalign((void **)&block, 4096, 4096) != 0)
		return -ENOMEM;
	for (uint64_t i = 0; i < kv->super.chunks && rc == 0; i++) {
		uint64_t holes = 0;

		rc = kv_read_with_holes(kv, block, kv->block,
					kv_log_offset(kv, i * kv->super.chunk), &holes);
		if (rc < 0)
			break;
		memcpy(&h, block, sizeof(h));
		links[i] = (struct link){.number = NONE, .unreadable = holes};
		if (kv_chunk_good(kv, &h) && h.number % kv->super.chunks == i) {
			links[i] = (struct link){.number = h.number, .before = h.before};
			kv_watermark_header(mark, &h);
		}
		kv->recovery.unreadable += holes;
	}
	free(block);
	return rc;
}

static uint64_t highest_below(const struct fth_kv *kv, const struct link *links, uint64_t limit)
{
	uint64_t highest = NONE;

	for (uint64_t i = 0; i < kv->super.chunks; i++)
		if (links[i].number < limit && (highest == NONE || links[i].number > highest))
			highest = links[i].number;
	return highest;
}

/*
 * Follow the links from `tip`. False: it is behind the end of the log, which is before *missing.
 * The numbers are filled in from the newest to the oldest.
 */
static bool follow(const struct fth_kv *kv, const struct link *links, uint64_t tip,
		   uint64_t durable, struct kv_chain *chain, uint64_t *missing)
{
	uint64_t chunks = kv->super.chunks, flight = kv->super.flight, n = tip;

	chain->count = 0;
	chain->broken = false;
	for (;;) {
		uint64_t before = links[n % chunks].before;
		uint64_t previous = before ? (before - 1) / kv->super.chunk : NONE;

		chain->numbers[chain->count++] = n;
		if (previous >= n || previous + chunks <= tip)
			return true; /* nothing is before it, or that is overwritten */
		if (links[previous % chunks].number != previous) {
			*missing = previous;
			/* Its place may have been written, and not flushed, when a crash came. */
			chain->broken = previous + chunks > chain->newest + flight;
			return durable > previous * kv->super.chunk ||
			       links[previous % chunks].unreadable;
		}
		n = previous;
	}
}

static void reverse(struct kv_chain *chain)
{
	for (uint64_t i = 0; i < chain->count / 2; i++) {
		uint64_t *a = &chain->numbers[i], *b = &chain->numbers[chain->count - 1 - i];
		uint64_t swap = *a;

		*a = *b;
		*b = swap;
	}
}

int kv_chain_find(struct fth_kv *kv, uint8_t *chunk, struct kv_watermark *mark,
		  struct kv_chain *chain)
{
	uint64_t chunks = kv->super.chunks, tip;
	struct link *links = calloc(chunks, sizeof(*links));
	int rc;

	*chain = (struct kv_chain){.numbers = calloc(chunks, sizeof(uint64_t)), .newest = NONE};
	rc = links && chain->numbers ? read_links(kv, links, mark) : -ENOMEM;
	if (rc == 0) {
		chain->newest = highest_below(kv, links, NONE);
		/* Chunks behind the newest one may have lost their headers. */
		rc = kv_watermark_scan(kv, chain->newest == NONE ? 0 : chain->newest,
				       kv->super.flight, chunk, mark);
	}
	if (rc == 0) {
		tip = chain->newest;
		while (tip != NONE && !follow(kv, links, tip, mark->position, chain, &tip))
			tip = highest_below(kv, links, tip);
		if (tip == NONE)
			chain->count = 0;
		reverse(chain);
	}
	free(links);
	return rc;
}

void kv_chain_release(struct kv_chain *chain)
{
	free(chain->numbers);
}
