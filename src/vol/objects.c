/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changing the catalog: create, remove, rename, resize; and looking at it. Each change is one
 * commit: it happens, durably, or it does not.
 */
#include "vol/open_object.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ZERO_STEP ((uint64_t)64 << 20)

/* ---- making ---- */

static int check_shape(const struct fth_vol *vol, const struct vol_entry *shape)
{
	if (shape->unit & (shape->unit - 1) || shape->unit < vol->space.block ||
	    shape->unit > FTH_VOL_UNIT_MAX)
		return fth_fail(EINVAL, "stripe unit %u is not a power of two between %u and %u",
				shape->unit, vol->space.block, FTH_VOL_UNIT_MAX);
	if (shape->replicas > vol->count)
		return fth_fail(EINVAL, "%u replicas exceed the number of devices, %u",
				shape->replicas, vol->count);
	if (shape->width > vol->count)
		return fth_fail(EINVAL, "width %u exceeds the number of devices, %u", shape->width,
				vol->count);
	return 0;
}

/* Find room, if need be beginning on another device. */
static int place(struct fth_vol *vol, struct vol_entry *entry)
{
	uint64_t rows = vol_rows_needed(entry, entry->size);
	int rc = -ENOSPC;

	for (unsigned i = 0; rc == -ENOSPC && i < vol->count; i++) {
		entry->first = (uint32_t)((entry->id + i) % vol->count);
		entry->segments = 0;
		rc = vol_allocate(vol, entry, rows);
	}
	return rc;
}

int vol_make_entry(struct fth_vol *vol, const char *name, uint64_t size,
		   const struct fth_vol_object_options *options, struct vol_entry **out)
{
	const struct vol_label *label = &vol->defaults;
	struct vol_entry shape = {0}, *entry;
	int rc = vol_name_check(name, strlen(name));

	if (rc < 0)
		return rc;
	shape.unit = options->unit ? options->unit : label->unit;
	shape.replicas = options->replicas ? options->replicas : label->replicas;
	shape.width = options->width ? options->width : vol->count;
	rc = check_shape(vol, &shape);
	if (rc < 0)
		return rc;
	if (vol_catalog_find(&vol->cat, name, NULL) && !options->replace)
		return fth_fail(EEXIST, "object \"%s\" already exists", name);
	entry = vol_entry_new(shape.width, shape.replicas, 0);
	if (!entry)
		return -ENOMEM;
	memcpy(entry->name, name, strlen(name) + 1);
	entry->unit = shape.unit;
	entry->size = size;
	entry->id = vol->cat.next_id;
	rc = place(vol, entry);
	if (rc < 0) {
		vol_entry_free(entry);
		return rc;
	}
	*out = entry;
	return 0;
}

/*
 * A write that timed out may still happen, when its space holds something else: after that nothing
 * is written any more until the volume is opened anew.
 */
static int fail_if_hung(struct fth_vol *vol, int rc)
{
	if (rc == -ETIMEDOUT)
		/* relaxed: see vol_failed() */
		fth_store_relaxed_dev32(&vol->failed, ETIMEDOUT);
	return rc;
}

/* Zero a range of a device, in steps that each have a deadline of their own. */
static int zero_member(struct fth_vol *vol, unsigned i, uint64_t length, uint64_t offset)
{
	int rc = 0;

	for (uint64_t n; rc == 0 && length > 0; length -= n, offset += n) {
		n = length < ZERO_STEP ? length : ZERO_STEP;
		rc = fth_dev_zero(vol->members[i].dev, n, offset, FTH_DEV_TIMEOUT);
	}
	return fail_if_hung(vol, rc);
}

/* Zero the strands of `entry` from a row on, and make that durable. */
int vol_zero_rows(struct fth_vol *vol, const struct vol_entry *entry, uint64_t from_row)
{
	unsigned strands = vol_strands(entry);
	uint64_t row = 0;
	int rc = 0;

	for (unsigned i = 0; i < entry->segments; row += entry->rows[i++]) {
		uint64_t skip = from_row > row ? from_row - row : 0;

		if (skip >= entry->rows[i])
			continue;
		for (unsigned s = 0; rc == 0 && s < strands; s++)
			rc = zero_member(vol, vol_strand_device(entry, s, vol->count),
					 (entry->rows[i] - skip) * entry->unit,
					 entry->at[(size_t)i * strands + s] + skip * entry->unit);
	}
	for (unsigned i = 0; rc == 0 && i < vol->count; i++)
		rc = vol_flush_member(vol, i);
	return rc;
}

int fth_vol_create(struct fth_vol *vol, const char *name, uint64_t size,
		   const struct fth_vol_object_options *options)
{
	struct fth_vol_object_options o = FTH_VOL_OBJECT_OPTIONS_INIT;
	struct vol_object *obj;
	int rc = options ? fth_options_check("vol", options->size, sizeof(o)) : 0;

	if (rc < 0)
		return rc;
	if (options)
		o = *options;
	o.whole = false; /* nobody writes it before it appears */
	rc = vol_pending_new(vol, name, size, &o, &obj);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&vol->update);
	rc = vol_pending_commit(obj, false);
	vol_object_drop(obj);
	pthread_mutex_unlock(&vol->update);
	return rc;
}

/* ---- changing ---- */

/* The entry called name, for a change. */
static int find_to_change(struct fth_vol *vol, const char *name, bool closed,
			  struct vol_entry **out)
{
	int rc = vol_writable(vol);

	if (rc < 0)
		return rc;
	*out = vol_catalog_find(&vol->cat, name, NULL);
	if (!*out)
		return fth_fail(ENOENT, "object \"%s\" does not exist", name);
	if (closed && vol_object_find(vol, (*out)->id))
		return fth_fail(EBUSY, "\"%s\" is open", name);
	return 0;
}

int fth_vol_remove(struct fth_vol *vol, const char *name)
{
	struct vol_entry *entry;
	int rc;

	pthread_mutex_lock(&vol->update);
	rc = find_to_change(vol, name, true, &entry);
	if (rc == 0)
		rc = vol_replace_entry(vol, entry, NULL);
	pthread_mutex_unlock(&vol->update);
	return rc;
}

/* One commit that drops `over` (or NULL) and gives `entry` another name. */
static int rename_over(struct fth_vol *vol, struct vol_entry *entry, struct vol_entry *over,
		       const char *to)
{
	struct vol_object *obj = vol_object_find(vol, entry->id);
	struct vol_entry *changed = vol_entry_clone(entry);
	struct vol_catalog without, next;
	int rc;

	if (!changed)
		return -ENOMEM;
	memset(changed->name, 0, sizeof(changed->name));
	memcpy(changed->name, to, strlen(to) + 1);
	rc = vol_catalog_change(&vol->cat, over, NULL, &without);
	if (rc == 0) {
		rc = vol_catalog_change(&without, entry, changed, &next);
		vol_catalog_forget(&without);
	}
	if (rc == 0)
		rc = vol_commit(vol, &next);
	if (rc < 0) {
		vol_entry_free(changed);
		return rc;
	}
	vol_entry_free(entry);
	vol_entry_free(over);
	if (obj)
		memcpy(obj->entry->name, changed->name, sizeof(changed->name));
	return 0;
}

static int rename_locked(struct fth_vol *vol, const char *from, const char *to, bool replace)
{
	struct vol_entry *entry, *over;
	int rc = vol_name_check(to, strlen(to));

	if (rc == 0)
		rc = find_to_change(vol, from, false, &entry);
	if (rc < 0 || strcmp(from, to) == 0)
		return rc;
	over = vol_catalog_find(&vol->cat, to, NULL);
	if (over && !replace)
		return fth_fail(EEXIST, "object \"%s\" already exists", to);
	if (over && vol_object_find(vol, over->id))
		return fth_fail(EBUSY, "\"%s\" is open", to);
	return rename_over(vol, entry, over, to);
}

int fth_vol_rename(struct fth_vol *vol, const char *from, const char *to, bool replace)
{
	int rc;

	pthread_mutex_lock(&vol->update);
	rc = rename_locked(vol, from, to, replace);
	pthread_mutex_unlock(&vol->update);
	return rc;
}

static void cut_rows(struct vol_entry *entry, uint64_t rows)
{
	unsigned kept = 0;

	for (; kept < entry->segments && rows > 0; kept++) {
		if (entry->rows[kept] > rows)
			entry->rows[kept] = rows;
		rows -= entry->rows[kept];
	}
	entry->segments = kept;
}

/* Where strand s of an entry, one of the column of `offset`, has the byte at `offset`. */
static uint64_t strand_at(const struct vol_entry *entry, uint64_t offset, unsigned s)
{
	uint64_t row = offset / ((uint64_t)entry->unit * entry->width);
	unsigned i = 0;

	for (; row >= entry->rows[i]; i++)
		row -= entry->rows[i];
	return entry->at[(size_t)i * vol_strands(entry) + s] + row * entry->unit +
	       offset % entry->unit;
}

static unsigned first_strand(const struct vol_entry *entry, uint64_t offset)
{
	return (unsigned)(offset / entry->unit % entry->width) * entry->replicas;
}

static struct fth_dev *strand_dev(const struct fth_vol *vol, const struct vol_entry *entry,
				  unsigned s)
{
	return vol->members[vol_strand_device(entry, s, vol->count)].dev;
}

static bool is_stale(const struct fth_vol *vol, const struct vol_entry *entry, unsigned s)
{
	return entry->stale >> vol_strand_device(entry, s, vol->count) & 1;
}

/* Read a block from the first good replica that can give it. */
static int read_block(const struct fth_vol *vol, const struct vol_entry *entry, uint64_t offset,
		      char *buf)
{
	unsigned s = first_strand(entry, offset);
	int rc = -EIO;

	for (unsigned r = 0; rc < 0 && r < entry->replicas; r++, s++)
		if (!is_stale(vol, entry, s))
			rc = fth_dev_read(strand_dev(vol, entry, s), buf, vol->space.block,
					  strand_at(entry, offset, s), FTH_DEV_TIMEOUT);
	return rc;
}

/*
 * Zero the rest of the block that byte `size` lies in, on all good replicas. The bytes before it
 * are written again as they are, so that a power loss in the middle changes none of them.
 */
static int zero_rest_of_block(struct fth_vol *vol, const struct vol_entry *entry, uint64_t size)
{
	_Alignas(VOL_BLOCK_MAX) char buf[VOL_BLOCK_MAX];
	uint64_t kept = size % vol->space.block, at = size - kept;
	unsigned s = first_strand(entry, at);
	int rc = read_block(vol, entry, at, buf);

	memset(buf + kept, 0, vol->space.block - kept);
	for (unsigned r = 0; rc == 0 && r < entry->replicas; r++, s++)
		if (!is_stale(vol, entry, s))
			rc = fth_dev_write(strand_dev(vol, entry, s), buf, vol->space.block,
					   strand_at(entry, at, s), FTH_DEV_TIMEOUT);
	return fail_if_hung(vol, rc);
}

/*
 * Zero what an object gains inside the rows that it has, behind its last block: [from, to) of it,
 * on all replicas. These bytes can not be read before the commit.
 */
static int zero_tail(struct fth_vol *vol, const struct vol_entry *entry, uint64_t from, uint64_t to)
{
	int rc = 0;

	while (rc == 0 && from < to) {
		uint64_t n = entry->unit - from % entry->unit;
		unsigned s = first_strand(entry, from);

		for (unsigned r = 0; rc == 0 && r < entry->replicas; r++, s++)
			rc = zero_member(vol, vol_strand_device(entry, s, vol->count), n,
					 strand_at(entry, from, s));
		from += n;
	}
	return rc;
}

/* Zero what `entry`, which has its space, has more than `old` bytes in `held` rows. */
static int zero_growth(struct fth_vol *vol, const struct vol_entry *entry, uint64_t old,
		       uint64_t held)
{
	uint64_t block = vol->space.block, end = held * entry->unit * entry->width;
	int rc = 0;

	if (old % block)
		rc = zero_rest_of_block(vol, entry, old);
	if (rc == 0)
		rc = zero_tail(vol, entry, (old + block - 1) / block * block,
			       entry->size < end ? entry->size : end);
	return rc < 0 ? rc : vol_zero_rows(vol, entry, held);
}

/*
 * Before its last block is written in place: replicas that a power loss leaves different are
 * known to be. Puts another entry into the catalog.
 */
static int mark_unsynced(struct fth_vol *vol, struct vol_entry **entry)
{
	struct vol_entry *marked = vol_entry_clone(*entry);
	int rc;

	if (!marked)
		return -ENOMEM;
	marked->flags |= VOL_OBJECT_UNSYNCED;
	rc = vol_replace_entry(vol, *entry, marked);
	if (rc == 0)
		*entry = marked;
	return rc;
}

static int shrink(struct fth_vol *vol, struct vol_entry *entry, uint64_t size)
{
	struct vol_entry *changed = vol_entry_clone(entry);

	if (!changed)
		return -ENOMEM;
	cut_rows(changed, vol_rows_needed(changed, size));
	changed->size = size;
	return vol_replace_entry(vol, entry, changed);
}

/* Give an object the space it needs, in `*out`, which keeps others out meanwhile. */
static int begin_growth(struct fth_vol *vol, struct vol_entry *entry, uint64_t size,
			struct vol_object **out)
{
	uint32_t flags = entry->flags;
	struct vol_entry *changed;
	int rc = 0;

	if (entry->size % vol->space.block && entry->replicas > 1)
		rc = mark_unsynced(vol, &entry);
	if (rc < 0)
		return rc;
	changed = vol_entry_clone(entry);
	if (!changed)
		return -ENOMEM;
	changed->size = size;
	changed->flags = flags;
	rc = vol_allocate(vol, changed, vol_rows_needed(changed, size));
	if (rc < 0) {
		vol_entry_free(changed);
		return rc;
	}
	rc = vol_object_new(vol, changed, true, out);
	if (rc == 0)
		(*out)->resizing = true;
	return rc;
}

static int end_growth(struct fth_vol *vol, struct vol_object *obj, int rc)
{
	struct vol_entry *changed = rc == 0 ? vol_entry_clone(obj->entry) : NULL;
	struct vol_entry *now = vol_entry_of(vol, obj->entry->id);

	vol_object_drop(obj);
	if (rc < 0)
		return rc;
	return changed ? vol_replace_entry(vol, now, changed) : -ENOMEM;
}

int fth_vol_resize(struct fth_vol *vol, const char *name, uint64_t size, bool zero)
{
	struct vol_object *obj = NULL;
	struct vol_entry *entry;
	uint64_t old = 0, held = 0;
	int rc;

	pthread_mutex_lock(&vol->update);
	rc = find_to_change(vol, name, true, &entry);
	if (rc == 0 && size < entry->size) {
		rc = shrink(vol, entry, size);
	} else if (rc == 0 && size > entry->size) {
		old = entry->size;
		held = vol_rows_held(entry);
		zero = zero || entry->replicas > 1;
		rc = begin_growth(vol, entry, size, &obj);
	}
	pthread_mutex_unlock(&vol->update);
	if (rc < 0 || !obj)
		return rc;
	/* It can take long, and needs nothing but space that is the object's own. */
	if (zero)
		rc = zero_growth(vol, obj->entry, old, held);
	pthread_mutex_lock(&vol->update);
	rc = end_growth(vol, obj, rc);
	pthread_mutex_unlock(&vol->update);
	return rc;
}

/* ---- looking ---- */

void vol_describe(const struct fth_vol *vol, const struct vol_entry *entry,
		  struct fth_vol_object_info *info)
{
	const struct vol_object *obj = vol_object_find(vol, entry->id);

	memset(info, 0, sizeof(*info));
	memcpy(info->name, entry->name, sizeof(info->name));
	info->id = entry->id;
	info->size = entry->size;
	info->unit = entry->unit;
	info->replicas = entry->replicas;
	info->width = entry->width;
	info->segments = entry->segments;
	info->stale = entry->stale;
	info->open = obj != NULL;
	info->unsynced =
		obj ? fth_load_relaxed_dev32(&obj->unsynced) : entry->flags & VOL_OBJECT_UNSYNCED;
	for (unsigned i = 0; i < entry->segments; i++)
		info->allocated += vol_rows_bytes(entry, entry->rows[i]) * vol_strands(entry);
}

int fth_vol_stat(struct fth_vol *vol, const char *name, struct fth_vol_object_info *info)
{
	struct vol_entry *entry;
	int rc = 0;

	pthread_mutex_lock(&vol->lock);
	entry = vol_catalog_find(&vol->cat, name, NULL);
	if (entry)
		vol_describe(vol, entry, info);
	else
		rc = fth_fail(ENOENT, "object \"%s\" does not exist", name);
	pthread_mutex_unlock(&vol->lock);
	return rc;
}

int fth_vol_list(struct fth_vol *vol,
		 int (*visit)(const struct fth_vol_object_info *info, void *user), void *user)
{
	struct fth_vol_object_info *all;
	unsigned n;
	int rc = 0;

	pthread_mutex_lock(&vol->lock);
	n = vol->cat.count;
	all = calloc(n + 1, sizeof(*all));
	for (unsigned i = 0; all && i < n; i++)
		vol_describe(vol, vol->cat.entries[i], &all[i]);
	pthread_mutex_unlock(&vol->lock);
	if (!all)
		return -ENOMEM;
	for (unsigned i = 0; rc == 0 && i < n; i++)
		rc = visit(&all[i], user);
	free(all);
	return rc;
}
