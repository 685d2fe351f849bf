/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Offline access to a persistent cache (fathom/kv.h): reads and checks the cache on a device that
 * no server uses. Never writes.
 *
 *	int print_key(const struct fth_kv_image_item *item, void *user)
 *	{
 *		printf("%.*s\n", (int)item->key_length, (const char *)item->key);
 *		return 0;
 *	}
 *
 *	struct fth_kv_image_visit visit = FTH_KV_IMAGE_VISIT_INIT;
 *	struct fth_kv_image *image;
 *
 *	visit.item = print_key;
 *	if (fth_kv_image_open("file:/data/kv", &image) == 0)
 *		fth_kv_image_walk(image, &visit, NULL);
 *	fth_kv_image_close(image);
 *
 * The index is that which fth_kv_open() would find: the last checkpoint, then the log behind it.
 */
#ifndef FATHOM_KV_IMAGE_H
#define FATHOM_KV_IMAGE_H

#include "fathom/kv.h"

FTH_BEGIN_DECLS

struct fth_kv_image;

/*
 * Open the cache on a device, for reading only. Files are opened without permission to write, and
 * create= has no effect. Several may read one cache. Blocks. Returns 0 or a negative errno: -EBUSY
 * if a server or another cache uses it, -ENODATA if there is no cache or one without persistence,
 * -EBADMSG if the device holds something else, -EPROTONOSUPPORT if it holds a cache in another
 * version of the format. If the index is damaged, it is rebuilt in memory.
 */
int fth_kv_image_open(const char *uri, struct fth_kv_image **out);
/*
 * The same on a device that is open already, and stays open. Keeping others out of it is the
 * caller's task.
 */
int fth_kv_image_open_dev(struct fth_dev *dev, struct fth_kv_image **out);

/* Close the image. Accepts NULL. */
void fth_kv_image_close(struct fth_kv_image *image);

/* Valid during the call that it is passed to. */
struct fth_kv_image_item {
	const void *key, *value;
	uint32_t key_length, value_length;
	uint32_t flags;
	uint32_t expires; /* seconds since 1970; 0: never */
	uint32_t stored;  /* when it was stored, seconds since 1970 */
	uint64_t cas;
	uint32_t state; /* enum fth_kv_item_state */
};

/*
 * What walking calls; each may be NULL, and ends the walk by returning non-zero. Start from
 * FTH_KV_IMAGE_VISIT_INIT.
 */
struct fth_kv_image_visit {
	size_t size; /* of this structure */
	int (*item)(const struct fth_kv_image_item *item, void *user);
	/* harmless: a crash may leave it, and nothing is lost by it */
	int (*finding)(const char *text, bool harmless, void *user);
	int (*progress)(uint64_t done, uint64_t total, void *user); /* in bytes */
	void *user;
};

#define FTH_KV_IMAGE_VISIT_INIT                                           \
	{                                                                 \
		sizeof(struct fth_kv_image_visit), NULL, NULL, NULL, NULL \
	}

struct fth_kv_image_counts {
	uint64_t chunks;     /* of the log, that are there */
	uint64_t items;	     /* live: these were visited */
	uint64_t expired;    /* items of the index that have expired, or were flushed */
	uint64_t superseded; /* items in the log that were changed or deleted later */
	uint64_t deletes;    /* delete records (tombstones) in the log */
	uint64_t open_ends;  /* chunks that end in what a crash left of a write, or in old data */
	/* Damage. */
	uint64_t bad_records; /* places in the log where records do not verify */
	uint64_t bad_chunks;  /* that are missing, unreadable, or whose header does not verify */
	uint64_t lost_items;  /* of the index, whose record is not whole: a get is a miss */
	uint64_t forgotten;   /* 1: a gap in the log made recovery drop all older items */
	uint64_t bad_index;   /* 1: the index does not verify; it is rebuilt from the log */
};

/*
 * Read the whole log from the oldest chunk to the newest, verify every checksum and compare it with
 * the index. Live items are visited in the order in which they were stored. Nothing else may use
 * the image meanwhile. counts may be NULL. Blocks. Returns the number of findings that are not
 * harmless, or a negative errno: -ECANCELED if a function of `visit` returned non-zero, -EINVAL for
 * another visit->size.
 */
int fth_kv_image_walk(struct fth_kv_image *image, const struct fth_kv_image_visit *visit,
		      struct fth_kv_image_counts *counts);

/* What opening found, as fth_kv_recovery(). */
void fth_kv_image_recovery(const struct fth_kv_image *image, struct fth_kv_recovery *out);

FTH_END_DECLS

#endif
