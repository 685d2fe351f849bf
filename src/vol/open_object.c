/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing objects. Siblings: channel.c moves the data, replicas.c handles devices that
 * fail, objects.c changes the catalog.
 *
 *	          open for writing: commit                  close: flush, commit
 *	in sync ---------------------------> unsynced, ours ---------------------> in sync
 *	                                          | crash
 *	                                          v
 *	                                    unsynced: reads from the first good replica; stays so
 *	                                    until fth_vol_check() with FTH_VOL_REPAIR
 */
#include "vol/open_object.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vol_entry *vol_entry_of(const struct fth_vol *vol, uint64_t id)
{
	for (unsigned i = 0; i < vol->cat.count; i++)
		if (vol->cat.entries[i]->id == id)
			return vol->cat.entries[i];
	return NULL;
}

struct vol_object *vol_object_find(const struct fth_vol *vol, uint64_t id)
{
	for (struct vol_object *obj = vol->objects; obj; obj = obj->next)
		if (obj->entry->id == id)
			return obj;
	return NULL;
}

/* ---- struct vol_object ---- */

static void object_free(struct vol_object *obj)
{
	pthread_mutex_destroy(&obj->repair_lock);
	vol_entry_free(obj->entry);
	free(obj->first_row);
	free(obj);
}

static void look_at_devices(struct vol_object *obj)
{
	struct fth_vol *vol = obj->vol;

	obj->max_piece = UINT64_MAX;
	for (unsigned s = 0; s < vol_strands(obj->entry); s++)
		obj->used |= (uint64_t)1 << vol_strand_device(obj->entry, s, vol->count);
	for (unsigned i = 0; i < vol->count; i++) {
		const struct vol_member *member = &vol->members[i];
		uint64_t most;

		/* relaxed: failures that are not counted yet concern flushes still in flight */
		obj->flush_seen[i] = fth_load_relaxed_dev32(&member->flush_failures);
		if (!(obj->used >> i & 1) || !member->dev)
			continue;
		most = fth_dev_info(member->dev)->max_length / vol->space.block * vol->space.block;
		if (most < obj->max_piece)
			obj->max_piece = most;
	}
}

int vol_object_new(struct fth_vol *vol, struct vol_entry *entry, bool pending,
		   struct vol_object **out)
{
	struct vol_object *obj = calloc(1, sizeof(*obj));
	uint64_t row = 0;

	if (!obj) {
		vol_entry_free(entry);
		return -ENOMEM;
	}
	pthread_mutex_init(&obj->repair_lock, NULL);
	obj->vol = vol;
	obj->entry = entry;
	obj->pending = pending;
	obj->unit_shift = (unsigned)__builtin_ctz(entry->unit);
	obj->stale = entry->stale | vol->missing;
	obj->unsynced = entry->flags & VOL_OBJECT_UNSYNCED;
	obj->first_row = calloc(entry->segments + 1, sizeof(obj->first_row[0]));
	if (!obj->first_row) {
		object_free(obj);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < entry->segments; i++) {
		obj->first_row[i] = row;
		row += entry->rows[i];
	}
	look_at_devices(obj);
	pthread_mutex_lock(&vol->lock);
	obj->next = vol->objects;
	vol->objects = obj;
	pthread_mutex_unlock(&vol->lock);
	*out = obj;
	return 0;
}

void vol_object_drop(struct vol_object *obj)
{
	struct vol_object **link = &obj->vol->objects;

	pthread_mutex_lock(&obj->vol->lock);
	while (*link != obj)
		link = &(*link)->next;
	*link = obj->next;
	pthread_mutex_unlock(&obj->vol->lock);
	object_free(obj);
}

/* ---- marks in the catalog ---- */

/* Say in the catalog that the replicas may differ, or that they do not. Under vol->update. */
static int set_unsynced(struct vol_object *obj, bool unsynced)
{
	struct vol_entry *now = vol_entry_of(obj->vol, obj->entry->id), *changed;
	int rc;

	changed = vol_entry_clone(now);
	if (!changed)
		return -ENOMEM;
	changed->flags =
		unsynced ? now->flags | VOL_OBJECT_UNSYNCED : now->flags & ~VOL_OBJECT_UNSYNCED;
	rc = vol_replace_entry(obj->vol, now, changed);
	if (rc == 0)
		obj->marked = unsynced;
	return rc;
}

static int begin_writing(struct vol_object *obj)
{
	int rc = vol_writable(obj->vol);

	if (rc < 0 || obj->entry->replicas == 1)
		return rc;
	/* Now, and not when it is needed: then there would be no way to refuse. */
	rc = vol_worker_start(&obj->vol->worker);
	if (rc < 0 || obj->marked || obj->pending || fth_load_relaxed_dev32(&obj->unsynced))
		return rc;
	return set_unsynced(obj, true);
}

/* Flush all good replicas; the first error. */
static int flush_replicas(struct vol_object *obj)
{
	uint64_t to = obj->used & ~fth_load_relaxed_dev64(&obj->stale);
	int rc = vol_lost_flushes(obj) ? -EIO : 0;

	for (unsigned i = 0; rc == 0 && i < obj->vol->count; i++)
		if (to >> i & 1)
			rc = vol_flush_member(obj->vol, i);
	return rc;
}

/* The last writer leaves: replicas that are the same, durably, may be called so again. */
static void end_writing(struct vol_object *obj)
{
	if (!obj->marked || obj->pending || fth_load_relaxed_dev32(&obj->unsynced))
		return;
	/* relaxed: its channels are closed, and their threads were here before or told us */
	if (fth_load_relaxed_dev32(&obj->written) && flush_replicas(obj) < 0)
		return;
	/* When this fails the mark stays, and costs some speed until the volume is repaired. */
	(void)set_unsynced(obj, false);
}

/* ---- struct vol_dev ---- */

static void object_close(struct fth_dev *base)
{
	struct vol_dev *dev = (struct vol_dev *)base;
	struct vol_object *obj = dev->obj;
	struct fth_vol *vol = obj->vol;

	if (!dev->readonly && obj->entry->replicas > 1) {
		/* relaxed: see end_writing() */
		if (fth_load_relaxed_dev32(&obj->repair_count) > 0)
			vol_worker_repair(obj);
		vol_worker_withdraw(obj);
	}
	pthread_mutex_lock(&vol->update);
	if (!dev->readonly && --obj->write_opens == 0)
		end_writing(obj);
	if (--obj->opens == 0)
		vol_object_drop(obj);
	pthread_mutex_unlock(&vol->update);
	if (dev->owns_volume)
		fth_vol_close(vol);
	free(dev);
}

static int object_unmap(struct fth_dev *base, void *addr, size_t len)
{
	struct vol_object *obj = ((struct vol_dev *)base)->obj;
	int rc = 0;

	for (unsigned i = 0; i < obj->vol->count; i++) {
		struct fth_dev *dev = obj->vol->members[i].dev;
		int one = obj->used >> i & 1 && dev ? fth_dev_unmap(dev, addr, len) : 0;

		rc = rc == 0 ? one : rc;
	}
	return rc;
}

/* On all devices or on none. */
static int object_map(struct fth_dev *base, void *addr, size_t len)
{
	struct vol_object *obj = ((struct vol_dev *)base)->obj;

	for (unsigned i = 0; i < obj->vol->count; i++) {
		struct fth_dev *dev = obj->vol->members[i].dev;
		int rc = obj->used >> i & 1 && dev ? fth_dev_map(dev, addr, len) : 0;

		if (rc == 0)
			continue;
		while (i-- > 0)
			if (obj->used >> i & 1 && obj->vol->members[i].dev)
				(void)fth_dev_unmap(obj->vol->members[i].dev, addr, len);
		return rc;
	}
	return 0;
}

const struct fth_dev_ops vol_object_ops = {
	.close = object_close,
	.chan_open = vol_chan_open,
	.chan_close = vol_chan_close,
	.submit = vol_chan_submit,
	.reap = vol_chan_reap,
	.chan_fd = vol_chan_fd,
	.chan_prepare = vol_chan_prepare,
	.map = object_map,
	.unmap = object_unmap,
};

/* What to say of several devices: the engine that all of them have, else "mixed". */
static const char *join_engines(const char *joined, const char *engine)
{
	if (!engine || (joined && strcmp(joined, engine) != 0))
		return "mixed";
	return engine;
}

static void fill_info(const struct vol_object *obj, struct fth_dev_info *info)
{
	uint32_t block = obj->vol->space.block;

	*info = (struct fth_dev_info){
		.size = (obj->entry->size + block - 1) / block * block,
		.block = block,
		.align = 1,
		.max_iov = VOL_PIECES_MAX,
		.max_length = (uint64_t)1 << 30,
		.has_fua = true,
	};
	for (unsigned i = 0; i < obj->vol->count; i++) {
		const struct fth_dev_info *member;

		if (!(obj->used >> i & 1) || !obj->vol->members[i].dev)
			continue;
		member = fth_dev_info(obj->vol->members[i].dev);
		info->engine = join_engines(info->engine, member->engine);
		if (member->keeps > info->keeps)
			info->keeps = member->keeps;
		if (member->align > info->align)
			info->align = member->align;
		if (member->max_iov < info->max_iov)
			info->max_iov = member->max_iov;
		info->has_fua = info->has_fua && member->has_fua;
	}
}

/* Under vol->update. The device is not adopted yet. */
static int make_dev(struct vol_object *obj, bool readonly, struct vol_dev **out)
{
	struct vol_dev *dev = calloc(1, sizeof(*dev));
	int rc = dev ? 0 : -ENOMEM;

	if (rc == 0 && !readonly)
		rc = begin_writing(obj);
	if (rc < 0) {
		free(dev);
		return rc;
	}
	dev->dev.ops = &vol_object_ops;
	dev->obj = obj;
	dev->readonly = readonly;
	fill_info(obj, &dev->dev.info);
	obj->opens++;
	obj->write_opens += !readonly;
	*out = dev;
	return 0;
}

/* Give a new device its common part, and a name for messages. */
static int adopt(struct vol_dev *dev, const char *name, struct fth_dev **out)
{
	char uri[FTH_VOL_UUID_TEXT + FTH_VOL_NAME_MAX + 16], uuid[FTH_VOL_UUID_TEXT];
	int rc;

	snprintf(uri, sizeof(uri), "vol:%s/%.*s",
		 fth_vol_uuid_text(dev->obj->vol->space.uuid, uuid), (int)FTH_VOL_NAME_MAX, name);
	rc = fth_dev_adopt(&dev->dev, uri);
	if (rc == 0)
		*out = &dev->dev;
	return rc;
}

static int open_object(struct fth_vol *vol, const char *name, bool readonly, struct vol_dev **out)
{
	struct vol_entry *entry = vol_catalog_find(&vol->cat, name, NULL);
	struct vol_object *obj;
	int rc = 0;

	if (!entry)
		return fth_fail(ENOENT, "object \"%s\" does not exist", name);
	if (!vol_entry_survives(entry, entry->stale | vol->missing, vol->count))
		return fth_fail(ENODEV,
				"parts of \"%s\" are only on devices that are missing or out of "
				"date for it",
				name);
	obj = vol_object_find(vol, entry->id);
	if (obj && obj->resizing)
		return fth_fail(EBUSY, "\"%s\" is being resized", name);
	if (!obj) {
		entry = vol_entry_clone(entry);
		rc = entry ? vol_object_new(vol, entry, false, &obj) : -ENOMEM;
	}
	if (rc == 0)
		rc = make_dev(obj, readonly, out);
	if (rc < 0 && obj && obj->opens == 0)
		vol_object_drop(obj);
	return rc;
}

int vol_object_dev(struct fth_vol *vol, const char *name, unsigned flags, struct vol_dev **out)
{
	int rc;

	pthread_mutex_lock(&vol->update);
	rc = open_object(vol, name, flags & FTH_VOL_READONLY || vol->readonly, out);
	pthread_mutex_unlock(&vol->update);
	return rc;
}

int fth_vol_object_open(struct fth_vol *vol, const char *name, unsigned flags, struct fth_dev **out)
{
	struct vol_dev *dev;
	int rc = vol_object_dev(vol, name, flags, &dev);

	*out = NULL;
	return rc < 0 ? rc : adopt(dev, name, out);
}

/* ---- objects that appear with their data ---- */

/* Under vol->update. */
static int new_pending(struct fth_vol *vol, const char *name, uint64_t size,
		       const struct fth_vol_object_options *options, struct vol_object **out)
{
	struct vol_entry *entry;
	int rc = vol_writable(vol);

	if (rc == 0)
		rc = vol_make_entry(vol, name, size, options, &entry);
	if (rc < 0)
		return rc;
	/* The id is spent even if the object never appears: two that are new shall differ. */
	vol->cat.next_id++;
	rc = vol_object_new(vol, entry, true, out);
	if (rc == 0)
		(*out)->replace = options->replace;
	return rc;
}

int vol_pending_new(struct fth_vol *vol, const char *name, uint64_t size,
		    const struct fth_vol_object_options *options, struct vol_object **out)
{
	struct vol_object *obj;
	int rc;

	pthread_mutex_lock(&vol->update);
	rc = new_pending(vol, name, size, options, &obj);
	pthread_mutex_unlock(&vol->update);
	if (rc < 0)
		return rc;
	/* Replicas that hold different leftovers would read differently. */
	if (options->zero || (obj->entry->replicas > 1 && !options->whole))
		rc = vol_zero_rows(vol, obj->entry, 0);
	if (rc < 0) {
		pthread_mutex_lock(&vol->update);
		vol_object_drop(obj);
		pthread_mutex_unlock(&vol->update);
		return rc;
	}
	*out = obj;
	return 0;
}

int fth_vol_object_new(struct fth_vol *vol, const char *name, uint64_t size,
		       const struct fth_vol_object_options *options, struct fth_dev **out)
{
	struct fth_vol_object_options defaults = FTH_VOL_OBJECT_OPTIONS_INIT;
	struct vol_object *obj;
	struct vol_dev *dev;
	int rc;

	*out = NULL;
	options = options ? options : &defaults;
	rc = fth_options_check("vol", options->size, sizeof(*options));
	if (rc == 0)
		rc = vol_pending_new(vol, name, size, options, &obj);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&vol->update);
	rc = make_dev(obj, false, &dev);
	if (rc < 0)
		vol_object_drop(obj);
	pthread_mutex_unlock(&vol->update);
	return rc < 0 ? rc : adopt(dev, name, out);
}

int vol_pending_commit(struct vol_object *obj, bool open)
{
	struct fth_vol *vol = obj->vol;
	struct vol_entry *old = vol_catalog_find(&vol->cat, obj->entry->name, NULL), *entry;
	int rc;

	if (!obj->pending)
		return fth_fail(EALREADY, "\"%s\" is already committed", obj->entry->name);
	if (old && !obj->replace)
		return fth_fail(EEXIST, "object \"%s\" already exists", old->name);
	if (old && vol_object_find(vol, old->id))
		return fth_fail(EBUSY, "\"%s\" is open", old->name);
	entry = vol_entry_clone(obj->entry);
	if (!entry)
		return -ENOMEM;
	if (open && entry->replicas > 1) /* for writing */
		entry->flags |= VOL_OBJECT_UNSYNCED;
	rc = vol_replace_entry(vol, old, entry);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&vol->lock);
	obj->pending = false;
	pthread_mutex_unlock(&vol->lock);
	obj->marked = open && obj->entry->replicas > 1;
	return 0;
}

int fth_vol_object_commit(struct fth_dev *base)
{
	struct vol_dev *dev = (struct vol_dev *)base;
	int rc;

	if (base->ops != &vol_object_ops)
		return fth_fail(EINVAL, "%s is not an object of a volume", fth_dev_uri(base));
	rc = fth_dev_flush(base, FTH_DEV_TIMEOUT);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&dev->obj->vol->update);
	rc = vol_pending_commit(dev->obj, true);
	pthread_mutex_unlock(&dev->obj->vol->update);
	return rc;
}
