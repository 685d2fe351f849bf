/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How far the log is known to have been durable.
 *
 * Records that were written and not flushed may be lost in a crash, also while later ones survive.
 * So a record that does not verify may be the end of the log, or damage to what was acknowledged.
 * Headers of chunks and pads tell the two apart: each says up to which position all was durable
 * when it was written. That stays true whatever becomes of the rest, so the highest such position
 * counts, wherever it is found: behind the gap, or in a chunk whose header is lost. Positions that
 * were durable are not assigned again.
 */
#include "kv/kv_internal.h"

static void raise_mark(struct kv_watermark *mark, uint64_t durable, uint64_t number)
{
	if (durable > mark->position)
		mark->position = durable;
	if (number >= mark->chunks)
		mark->chunks = number + 1;
}

void kv_watermark_header(struct kv_watermark *mark, const struct kv_chunk_header *h)
{
	raise_mark(mark, h->durable, h->number);
}

static void scan_chunk(const struct fth_kv *kv, uint64_t number, const uint8_t *chunk,
		       struct kv_watermark *mark)
{
	const struct kv_chunk_header *h = (const struct kv_chunk_header *)(const void *)chunk;
	uint64_t bytes = kv->super.chunk;

	/* A log that wrapped around has a later number in the same place. */
	if (kv_chunk_good(kv, h) && h->number % kv->super.chunks == number % kv->super.chunks)
		kv_watermark_header(mark, h);
	for (uint64_t at = sizeof(*h); at + sizeof(struct kv_record) <= bytes; at += KV_UNIT) {
		const struct kv_record *r = (const struct kv_record *)(const void *)(chunk + at);
		uint64_t position = number * bytes + at;

		if (r->type == KV_PAD && r->key_length == 0 && r->cas <= position &&
		    kv_record_good(kv, r, bytes - at, position))
			raise_mark(mark, r->cas, number);
	}
}

/*
 * The place of chunk `number` has an older one: nothing of the new one is durable, its header
 * neither.
 */
static bool is_older(const struct fth_kv *kv, uint64_t number, const uint8_t *block)
{
	const struct kv_chunk_header *h = (const struct kv_chunk_header *)(const void *)block;

	return kv_chunk_good(kv, h) && h->number < number;
}

int kv_watermark_scan(struct fth_kv *kv, uint64_t number, uint64_t count, uint8_t *chunk,
		      struct kv_watermark *mark)
{
	uint64_t bytes = kv->super.chunk, holes = 0;
	int rc = 0;

	if (count > kv->super.chunks)
		count = kv->super.chunks;
	for (uint64_t n = number; n < number + count && rc == 0; n++) {
		rc = kv_read_with_holes(kv, chunk, kv->block, kv_log_offset(kv, n * bytes), &holes);
		if (rc == 0 && is_older(kv, n, chunk))
			continue;
		if (rc == 0)
			rc = kv_read_with_holes(kv, chunk, bytes, kv_log_offset(kv, n * bytes),
						&holes);
		if (rc == 0)
			scan_chunk(kv, n, chunk, mark);
	}
	return rc;
}
