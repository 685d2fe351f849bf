/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache on a device, read and checked while nobody uses it.
 *
 * 1. Nothing is written: the device is open for reading only, and kv_recover_read() stops before
 *    the checkpoint that makes a cache usable.
 * 2. An item is live if an entry of the index names the place of its record. Entries whose record
 *    was found are marked by their hot bits, which mean nothing here; those without a mark are
 *    lost.
 * 3. That chunk n was written is known from the header of n + 1, which says where n ends, from the
 *    index of a cache that was closed in good order, or because it was durable (watermark.c). The
 *    same tells damage at the end of a chunk from what a crash leaves there.
 * 4. Behind a record that does not verify the next one is searched for, because the index may name
 *    it. Checksums are seeded with the position, so none is found by accident.
 */
#include "fathom/kv/image.h"

#include "fathom/base/error.h"

#include "kv/kv_internal.h"

#include "dev/lock.h"

#include "base/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fth_kv_image {
	struct fth_kv *kv;
	struct kv_recovered log;
};

/* ---- opening ---- */

/* The device is open, and locked if need be. */
static int open_image(struct fth_kv_image *image)
{
	struct fth_kv *kv = image->kv;
	uint64_t begin = fth_now_ns();
	int rc = kv_media_find(kv);

	if (rc == 0)
		rc = kv_index_init(kv, 0);
	if (rc < 0)
		return rc;
	kv->recovery.found = true;
	rc = kv_recover_read(kv, &image->log);
	kv->recovery.elapsed_ns = fth_now_ns() - begin;
	return rc;
}

static int open_on(const char *uri, struct fth_dev *dev, struct fth_kv_image **out)
{
	struct fth_kv_image *image = calloc(1, sizeof(*image));
	struct fth_kv *kv = calloc(1, sizeof(*kv));
	int rc = 0;

	*out = NULL;
	if (!image || !kv) {
		free(image);
		free(kv);
		return -ENOMEM;
	}
	image->kv = kv;
	kv->lock = -1;
	kv->dev = dev;
	kv->owns_dev = !dev;
	rc = kv_init(kv);
	if (rc == 0 && !dev)
		rc = fth_dev_open_flags(uri, FTH_DEV_READONLY, &kv->dev);
	if (rc == 0 && !dev)
		rc = fth_dev_lock_uri(uri, false, &kv->lock);
	if (rc == 0)
		rc = open_image(image);
	if (rc < 0)
		fth_kv_image_close(image);
	else
		*out = image;
	return rc;
}

int fth_kv_image_open(const char *uri, struct fth_kv_image **out)
{
	return open_on(uri, NULL, out);
}

int fth_kv_image_open_dev(struct fth_dev *dev, struct fth_kv_image **out)
{
	return open_on(NULL, dev, out);
}

void fth_kv_image_close(struct fth_kv_image *image)
{
	if (!image)
		return;
	kv_free(image->kv);
	free(image);
}

void fth_kv_image_recovery(const struct fth_kv_image *image, struct fth_kv_recovery *out)
{
	*out = image->kv->recovery;
}

/* ---- walking ---- */

/* A chunk in memory. */
struct view {
	uint8_t *data;
	uint64_t number;
	bool readable;
	bool there;	 /* its header has this number */
	uint64_t before; /* as in the header: a position */
};

struct walk {
	struct fth_kv_image *image;
	struct fth_kv *kv;
	struct fth_kv_image_visit visit;
	struct fth_kv_image_counts counts;
	int damage;
};

__attribute__((format(printf, 3, 4))) static int find(struct walk *w, bool harmless,
						      const char *format, ...)
{
	char text[FTH_ERROR_TEXT_MAX + 64];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!harmless && w->damage < INT32_MAX)
		w->damage++;
	return w->visit.finding && w->visit.finding(text, harmless, w->visit.user) ? -ECANCELED : 0;
}

static int read_view(struct walk *w, struct view *v, uint64_t number)
{
	struct fth_kv *kv = w->kv;
	struct kv_chunk_header h;
	int rc;

	v->number = number;
	v->readable = v->there = false;
	v->before = 0;
	if (number >= w->image->log.end)
		return 0;
	rc = fth_dev_read(kv->dev, v->data, kv->super.chunk,
			  kv_log_offset(kv, number * kv->super.chunk), FTH_DEV_TIMEOUT);
	if (rc < 0) {
		w->counts.bad_chunks++;
		return find(w, false, "chunk %llu cannot be read: %s", (unsigned long long)number,
			    fth_error_text(rc));
	}
	memcpy(&h, v->data, sizeof(h));
	v->readable = true;
	v->there = kv_chunk_good(kv, &h) && h.number == number;
	if (v->there)
		v->before = h.before;
	return 0;
}

/* Where the records of a chunk end; 0: nobody knows. `next` is the chunk behind it. */
static uint64_t known_end(const struct walk *w, const struct view *v, const struct view *next)
{
	uint64_t head = w->image->log.head, chunk = w->kv->super.chunk;

	if (next->there && next->before && (next->before - 1) / chunk == v->number)
		return next->before - v->number * chunk;
	return head && head / chunk == v->number ? head % chunk : 0;
}

/* All before this offset of the chunk was durable; 0: that is not known of any of it. */
static uint64_t known_durable(const struct walk *w, const struct view *v)
{
	uint64_t chunk = w->kv->super.chunk, begin = v->number * chunk;
	uint64_t durable = w->image->log.durable;

	if (durable <= begin || w->image->log.head)
		return 0;
	return durable - begin < chunk ? durable - begin : 0;
}

static bool is_good(const struct walk *w, const struct view *v, uint64_t at)
{
	const struct kv_record *r = (const struct kv_record *)(const void *)(v->data + at);
	uint64_t chunk = w->kv->super.chunk;

	return at + sizeof(*r) <= chunk &&
	       kv_record_good(w->kv, r, chunk - at, v->number * chunk + at);
}

static int visit_item(struct walk *w, const struct kv_record *r)
{
	const struct fth_kv_image_item item = {
		.key = kv_record_key(r),
		.value = kv_record_value(r),
		.key_length = r->key_length,
		.value_length = r->value_length,
		.flags = r->flags,
		.expires = r->expires,
		.stored = r->stored,
		.cas = r->cas,
		.state = r->state,
	};

	w->counts.items++;
	return w->visit.item && w->visit.item(&item, w->visit.user) ? -ECANCELED : 0;
}

static int take_item(struct walk *w, const struct kv_record *r, uint64_t position, bool counts)
{
	struct kv_entry *e;
	struct kv_key_id id;

	kv_key_id(w->kv, kv_record_key(r), r->key_length, &id);
	e = kv_find_place(w->kv, &id, position / KV_UNIT);
	if (!e) {
		w->counts.superseded += counts;
		return 0;
	}
	e->traits |= KV_HOT_MASK;
	if (kv_dead(w->kv, r)) {
		w->counts.expired++;
		return 0;
	}
	return visit_item(w, r);
}

/* From `at`, where nothing verifies, to the next record or to `limit`. */
static uint64_t next_good(const struct walk *w, const struct view *v, uint64_t at, uint64_t limit)
{
	do
		at += KV_UNIT;
	while (at < limit && !is_good(w, v, at));
	return at < limit ? at : limit;
}

static int bad_place(struct walk *w, const struct view *v, uint64_t from, uint64_t to)
{
	w->counts.bad_records++;
	return find(
		w, false,
		"chunk %llu: no record verifies in bytes %llu to %llu, at %llu of the device",
		(unsigned long long)v->number, (unsigned long long)from, (unsigned long long)to,
		(unsigned long long)kv_log_offset(w->kv, v->number * w->kv->super.chunk + from));
}

/*
 * All records of a chunk that verify. All before `end`, or else before `durable`, must. written: it
 * is known to be a chunk of the log; else what the index does not name means nothing.
 */
static int walk_records(struct walk *w, const struct view *v, uint64_t end, uint64_t durable,
			bool written)
{
	uint64_t chunk = w->kv->super.chunk, at = sizeof(struct kv_chunk_header);
	uint64_t limit = end ? end : chunk, must = end ? end : durable;
	bool open_end = false;
	int rc = 0;

	while (at < limit && rc == 0) {
		const struct kv_record *r = (const struct kv_record *)(const void *)(v->data + at);
		uint64_t from = at;

		if (is_good(w, v, at)) {
			if (r->type == KV_ITEM && r->key_length)
				rc = take_item(w, r, v->number * chunk + at, written);
			w->counts.deletes += written && r->type == KV_GONE;
			at += kv_round(kv_record_bytes(r));
			continue;
		}
		open_end |= r->type != 0;
		at = next_good(w, v, at, limit);
		if (from < must)
			rc = bad_place(w, v, from, at);
	}
	w->counts.open_ends += written && !end && open_end;
	return rc;
}

static int walk_chunk(struct walk *w, const struct view *v, const struct view *next)
{
	uint64_t end = known_end(w, v, next), durable = known_durable(w, v);
	int rc = 0;

	if (!v->readable)
		return 0;
	w->counts.chunks += v->there;
	if (!v->there && (end || durable)) {
		w->counts.bad_chunks++;
		rc = find(w, false,
			  "chunk %llu is missing: its header, at %llu of the device, does not "
			  "verify",
			  (unsigned long long)v->number,
			  (unsigned long long)kv_log_offset(w->kv, v->number * w->kv->super.chunk));
	}
	/* Of a chunk that is not there only a few records may be left: the rest is one damage. */
	return rc < 0 ? rc
		      : walk_records(w, v, v->there ? end : 0, v->there ? durable : 0, v->there);
}

static int walk_log(struct walk *w, struct view *v, struct view *next)
{
	uint64_t chunk = w->kv->super.chunk, first = w->kv->log.tail / chunk;
	uint64_t end = w->image->log.end;
	int rc = first < end ? read_view(w, v, first) : 0;

	for (uint64_t n = first; n < end && rc == 0; n++) {
		struct view swap = *v;

		rc = read_view(w, next, n + 1);
		if (rc == 0)
			rc = walk_chunk(w, v, next);
		*v = *next;
		*next = swap;
		if (rc == 0 && w->visit.progress &&
		    w->visit.progress((n + 1 - first) * chunk, (end - first) * chunk,
				      w->visit.user))
			rc = -ECANCELED;
	}
	return rc;
}

/* ---- the index and the superblock ---- */

static void clear_marks(struct fth_kv *kv)
{
	for (uint32_t b = 0; b < kv->bucket_count; b++)
		for (unsigned i = 0; i < KV_WAYS; i++)
			kv->buckets[b].way[i].traits &= ~KV_HOT_MASK;
}

static int find_lost(struct walk *w)
{
	struct fth_kv *kv = w->kv;
	int rc = 0;

	for (uint32_t b = 0; b < kv->bucket_count && rc == 0; b++)
		for (unsigned i = 0; i < KV_WAYS && rc == 0; i++) {
			const struct kv_entry *e = &kv->buckets[b].way[i];
			uint64_t position = kv_position(kv, kv_place(e));

			if (kv_kind(e) != KV_FLASH || e->traits & KV_HOT_MASK)
				continue;
			w->counts.lost_items++;
			rc = find(w, false,
				  "an item is lost: the index has it in chunk %llu, at %llu of the "
				  "device, where no record of its key verifies",
				  (unsigned long long)(position / kv->super.chunk),
				  (unsigned long long)kv_log_offset(kv, position));
		}
	return rc;
}

static int check_supers(struct walk *w)
{
	struct kv_super *super = malloc(sizeof(*super));
	int rc = super ? 0 : -ENOMEM;

	for (unsigned copy = 0; copy < 2 && rc == 0; copy++) {
		int bad = fth_dev_read(w->kv->dev, super, sizeof(*super), copy ? KV_SUPER_AGAIN : 0,
				       FTH_DEV_TIMEOUT);

		if (bad < 0 || !kv_super_good(super))
			rc = find(w, true,
				  "copy %u of the superblock does not verify; the other "
				  "one counts",
				  copy);
	}
	free(super);
	return rc;
}

static int check_index(struct walk *w)
{
	if (!w->kv->recovery.index_damaged)
		return 0;
	w->counts.bad_index = 1;
	return find(w, false, "%s: it is rebuilt from the log when the cache is opened",
		    w->image->log.damage);
}

static int check_recovery(struct walk *w)
{
	if (!w->kv->recovery.damaged_chunks)
		return 0;
	w->counts.forgotten = 1;
	return find(w, false,
		    "a part of the log is missing behind the last checkpoint: items older "
		    "than that are dropped when the cache is opened");
}

int fth_kv_image_walk(struct fth_kv_image *image, const struct fth_kv_image_visit *visit,
		      struct fth_kv_image_counts *counts)
{
	struct walk w = {.image = image, .kv = image->kv};
	struct view views[2] = {{0}};
	uint64_t chunk = image->kv->super.chunk;
	int rc = fth_options_check("kv visit", visit->size, sizeof(*visit));

	if (rc < 0)
		return rc;
	w.visit = *visit;
	for (unsigned i = 0; i < 2; i++)
		if (posix_memalign((void **)&views[i].data, 4096, chunk) != 0) {
			views[i].data = NULL;
			rc = -ENOMEM;
		}
	clear_marks(image->kv);
	if (rc == 0)
		rc = check_supers(&w);
	if (rc == 0)
		rc = check_index(&w);
	if (rc == 0)
		rc = walk_log(&w, &views[0], &views[1]);
	if (rc == 0)
		rc = check_recovery(&w);
	if (rc == 0)
		rc = find_lost(&w);
	free(views[0].data);
	free(views[1].data);
	if (counts)
		*counts = w.counts;
	return rc < 0 ? rc : w.damage;
}
