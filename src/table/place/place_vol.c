/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables in a volume, as objects:
 *
 *	table/NAME/manifest	replaced with one update of the catalog
 *	table/NAME/ID-FILE	chunks; ID is the table's, FILE counts from 0
 *
 * 1. Files that a manifest refers to are never written again. A batch makes new ones, of growing
 *    size; the last one is cut to what is used.
 * 2. The manifest is replaced only after all files it refers to are flushed.
 * 3. A file that no manifest refers to belongs to the table's writer. Without a writer it is left
 *    over from one that was interrupted, or of a removed table, and goes when the volume is next
 *    opened for writing or the table is next written, unless a snapshot has it open.
 *
 * A volume is open for writing in one process at most, so that a list of writers is lock enough.
 */
#include "table/format.h"
#include "table/place/manifest.h"
#include "table/place/names.h"
#include "table/place/place.h"

#include "fathom/base/error.h"
#include "fathom/vol.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX	   "table/"
#define NEW_FILES  64u
#define FIRST_SIZE ((uint64_t)1 << 20)
#define LAST_SIZE  ((uint64_t)16 << 30)

struct vol_place {
	struct place base;
	struct fth_vol *vol;
	pthread_mutex_t lock; /* of the list of writers, and while a manifest is open or replaced */
	struct vol_output *writers;
};

struct vol_file {
	struct fth_dev *dev;
	uint64_t size, used;
};

struct vol_output {
	struct output base;
	struct vol_place *place;
	struct vol_output *next;
	char name[FTH_TABLE_NAME_MAX + 1];
	uint64_t id;
	uint32_t first; /* files of earlier batches */
	uint32_t count; /* files of this one */
	bool committed;
	struct vol_file file[NEW_FILES];
};

static struct vol_place *vol_place(struct place *place)
{
	return (struct vol_place *)(void *)place;
}

static struct vol_output *vol_output(struct output *output)
{
	return (struct vol_output *)(void *)output;
}

static void manifest_name(const char *name, char out[FTH_VOL_NAME_MAX + 1])
{
	snprintf(out, FTH_VOL_NAME_MAX + 1, PREFIX "%s/manifest", name);
}

static void file_name(const char *name, uint64_t id, uint32_t file, char out[FTH_VOL_NAME_MAX + 1])
{
	snprintf(out, FTH_VOL_NAME_MAX + 1, PREFIX "%s/%016" PRIx64 "-%06" PRIu32, name, id, file);
}

/* ---- manifests ---- */

/* Read `bytes` bytes of a device, which need not be whole blocks. */
static int read_bytes(struct fth_dev *dev, char *to, size_t bytes)
{
	uint32_t block = fth_dev_info(dev)->block;
	size_t whole = bytes / block * block;
	char *last;
	int rc = whole ? fth_dev_read(dev, to, whole, 0, FTH_DEV_TIMEOUT) : 0;

	if (rc < 0 || whole == bytes)
		return rc;
	last = malloc(block);
	if (!last)
		return -ENOMEM;
	rc = fth_dev_read(dev, last, block, whole, FTH_DEV_TIMEOUT);
	if (rc == 0)
		memcpy(to + whole, last, bytes - whole);
	free(last);
	return rc;
}

static int read_object(struct vol_place *place, const char *object,
		       const struct fth_table_memory *memory, struct blob *blob)
{
	struct fth_vol_object_info info;
	struct fth_dev *dev;
	int rc = fth_vol_stat(place->vol, object, &info);

	if (rc == 0)
		rc = fth_vol_object_open(place->vol, object, FTH_VOL_READONLY, &dev);
	if (rc < 0)
		return rc;
	blob->length = info.size;
	blob->bytes = memory->alloc(memory->user, blob->length + 1);
	rc = blob->bytes ? read_bytes(dev, blob->bytes, blob->length) : -ENOMEM;
	fth_dev_close(dev);
	if (rc < 0 && blob->bytes)
		memory->release(memory->user, blob->bytes, blob->length + 1);
	return rc;
}

static int read_manifest(struct vol_place *place, const char *name,
			 const struct fth_table_memory *memory, struct blob *manifest)
{
	char object[FTH_VOL_NAME_MAX + 1];
	int rc;

	manifest_name(name, object);
	pthread_mutex_lock(&place->lock);
	rc = read_object(place, object, memory, manifest);
	pthread_mutex_unlock(&place->lock);
	return rc == -ENOENT ? fth_fail(ENOENT, "%s: no such table in the volume", name) : rc;
}

static int write_blob(struct fth_dev *dev, const struct blob *blob)
{
	uint64_t bytes = fth_dev_info(dev)->size;
	char *padded = calloc(1, bytes);
	int rc;

	if (!padded)
		return -ENOMEM;
	memcpy(padded, blob->bytes, blob->length);
	rc = fth_dev_write(dev, padded, bytes, 0, FTH_DEV_TIMEOUT);
	free(padded);
	return rc;
}

/* Put a manifest in place, or replace it, with one update of the catalog. */
static int write_manifest(struct vol_place *place, const char *name, const struct blob *manifest,
			  bool replace)
{
	struct fth_vol_object_options options = FTH_VOL_OBJECT_OPTIONS_INIT;
	char object[FTH_VOL_NAME_MAX + 1];
	struct fth_dev *dev;
	int rc;

	options.whole = true;
	options.replace = replace;
	manifest_name(name, object);
	rc = fth_vol_object_new(place->vol, object, manifest->length, &options, &dev);
	if (rc < 0)
		return rc;
	rc = write_blob(dev, manifest);
	pthread_mutex_lock(&place->lock);
	if (rc == 0)
		rc = fth_vol_object_commit(dev);
	pthread_mutex_unlock(&place->lock);
	fth_dev_close(dev);
	return rc;
}

/* ---- what is left over ---- */

struct leftovers {
	struct vol_place *place;
	const char *only; /* of this table; NULL: of all */
	uint64_t id;	  /* with `only`: files before `files` stay */
	uint32_t files;
};

static bool has_writer(struct vol_place *place, const char *name)
{
	bool found = false;

	pthread_mutex_lock(&place->lock);
	for (struct vol_output *o = place->writers; o; o = o->next)
		found |= strcmp(o->name, name) == 0;
	pthread_mutex_unlock(&place->lock);
	return found;
}

/* What the manifest of a table says about its files; 0 of them if there is no table. */
static int files_of(struct vol_place *place, const char *name, uint64_t *id, uint32_t *files)
{
	struct manifest m;
	struct blob blob;
	int rc = read_manifest(place, name, &table_malloc, &blob);

	*files = 0;
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	rc = manifest_read(&m, blob.bytes, blob.length, false, &table_malloc);
	free(blob.bytes);
	if (rc < 0)
		return rc;
	*id = m.id;
	*files = m.files;
	manifest_release(&m);
	return 0;
}

static int visit_leftover(const struct fth_vol_object_info *info, void *user)
{
	const struct leftovers *l = user;
	char name[FTH_TABLE_NAME_MAX + 1];
	uint64_t id, known = l->id;
	uint32_t file, files = l->files;

	if (sscanf(info->name, PREFIX "%63[a-z0-9_]/%16" SCNx64 "-%6" SCNu32, name, &id, &file) !=
	    3)
		return 0;
	if (l->only ? strcmp(l->only, name) != 0 : has_writer(l->place, name))
		return 0;
	/* A manifest that cannot be read keeps its files. */
	if (!l->only && files_of(l->place, name, &known, &files) < 0)
		return 0;
	if (files && id == known && file < files)
		return 0;
	/* A snapshot may have it open: then it goes another time. */
	fth_vol_remove(l->place->vol, info->name);
	return 0;
}

static void remove_leftovers(struct vol_place *place, const char *only, uint64_t id, uint32_t files)
{
	struct leftovers l = {place, only, id, files};

	fth_vol_list(place->vol, visit_leftover, &l);
}

/* ---- the place ---- */

static void vol_close(struct place *place)
{
	fth_vol_close(vol_place(place)->vol);
	pthread_mutex_destroy(&vol_place(place)->lock);
	free(place);
}

struct listing {
	int (*visit)(const char *name, void *user);
	void *user;
};

static int list_object(const struct fth_vol_object_info *info, void *user)
{
	struct listing *listing = user;
	char name[FTH_TABLE_NAME_MAX + 1];
	int end = 0;

	if (sscanf(info->name, PREFIX "%63[a-z0-9_]/manifest%n", name, &end) != 1 || end == 0 ||
	    info->name[end] || !table_name_valid(name))
		return 0;
	return listing->visit(name, listing->user);
}

static int vol_list(struct place *place, int (*visit)(const char *name, void *user), void *user)
{
	struct listing listing = {visit, user};

	return fth_vol_list(vol_place(place)->vol, list_object, &listing);
}

static int vol_create(struct place *place, const char *name, const struct blob *manifest)
{
	int rc = write_manifest(vol_place(place), name, manifest, false);

	return rc == -EEXIST ? fth_fail(EEXIST, "%s: the table already exists", name) : rc;
}

static int vol_remove(struct place *place, const char *name)
{
	char object[FTH_VOL_NAME_MAX + 1];
	int rc;

	if (has_writer(vol_place(place), name))
		return fth_fail(EBUSY, "%s: a writer has the table open", name);
	manifest_name(name, object);
	pthread_mutex_lock(&vol_place(place)->lock);
	rc = fth_vol_remove(vol_place(place)->vol, object);
	pthread_mutex_unlock(&vol_place(place)->lock);
	if (rc < 0)
		return rc == -ENOENT ? fth_fail(ENOENT, "%s: no such table in the volume", name)
				     : rc;
	remove_leftovers(vol_place(place), name, 0, 0);
	return 0;
}

static int vol_read(struct place *place, const char *name, const struct fth_table_memory *memory,
		    struct blob *manifest)
{
	return read_manifest(vol_place(place), name, memory, manifest);
}

static int vol_open_file(struct place *place, const char *name, uint64_t id, uint32_t file,
			 uint64_t bytes, struct fth_dev **out)
{
	char object[FTH_VOL_NAME_MAX + 1];
	int rc;

	file_name(name, id, file, object);
	rc = fth_vol_object_open(vol_place(place)->vol, object, FTH_VOL_READONLY, out);
	if (rc == 0 && fth_dev_info(*out)->size < bytes) {
		rc = fth_fail(EBADMSG, "%s has %llu bytes, the manifest needs %llu", object,
			      (unsigned long long)fth_dev_info(*out)->size,
			      (unsigned long long)bytes);
		fth_dev_close(*out);
		*out = NULL;
	}
	return rc;
}

/* ---- writing ---- */

static int output_read(struct output *output, struct blob *manifest)
{
	return read_manifest(vol_output(output)->place, vol_output(output)->name, &table_malloc,
			     manifest);
}

static int output_begin(struct output *output, uint64_t id, uint32_t files, uint64_t end)
{
	struct vol_output *o = vol_output(output);

	(void)end;
	o->id = id;
	o->first = files;
	remove_leftovers(o->place, o->name, id, files);
	return 0;
}

/* One more file, of `size` bytes or, if the volume is nearly full, fewer: at least `bytes`. */
static int add_file(struct vol_output *o, uint64_t size, uint64_t bytes)
{
	char object[FTH_VOL_NAME_MAX + 1];
	struct vol_file *file = &o->file[o->count];
	int rc;

	if (o->count == NEW_FILES)
		return fth_fail(EFBIG, "%s: a batch has more than %u files", o->name, NEW_FILES);
	file_name(o->name, o->id, o->first + o->count, object);
	size = size < bytes ? bytes : size;
	while ((rc = fth_vol_create(o->place->vol, object, size, NULL)) == -ENOSPC && size > bytes)
		size = size / 2 < bytes ? bytes : size / 2;
	if (rc < 0)
		return fth_fail_in(rc, o->name);
	*file = (struct vol_file){.size = size};
	o->count++;
	return fth_vol_object_open(o->place->vol, object, 0, &file->dev);
}

static int output_reserve(struct output *output, uint64_t bytes, uint32_t *file, uint64_t *offset)
{
	struct vol_output *o = vol_output(output);
	struct vol_file *last = o->count ? &o->file[o->count - 1] : NULL;
	int rc;

	if (!last || last->size - last->used < bytes) {
		uint64_t size = last ? last->size * 2 : FIRST_SIZE;

		rc = add_file(o, size < LAST_SIZE ? size : LAST_SIZE, bytes);
		if (rc < 0)
			return rc;
		last = &o->file[o->count - 1];
	}
	*file = o->first + o->count - 1;
	*offset = last->used;
	last->used += bytes;
	return 0;
}

static int output_write(struct output *output, uint32_t file, const void *data, uint64_t bytes,
			uint64_t offset)
{
	struct vol_output *o = vol_output(output);
	int rc = fth_dev_write(o->file[file - o->first].dev, data, bytes, offset, FTH_DEV_TIMEOUT);

	return rc < 0 ? fth_fail_in(rc, o->name) : 0;
}

static uint32_t output_files(struct output *output)
{
	return vol_output(output)->first + vol_output(output)->count;
}

static uint64_t output_file_bytes(struct output *output, uint32_t file)
{
	struct vol_output *o = vol_output(output);

	return file < o->first ? 0 : o->file[file - o->first].used;
}

/* Flush and close the files of this batch, and cut the last one. */
static int finish_files(struct vol_output *o)
{
	char object[FTH_VOL_NAME_MAX + 1];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < o->count; i++) {
		struct vol_file *file = &o->file[i];

		rc = fth_dev_flush(file->dev, FTH_DEV_TIMEOUT);
		if (rc < 0)
			break;
		fth_dev_close(file->dev);
		file->dev = NULL;
		file_name(o->name, o->id, o->first + i, object);
		if (file->used < file->size)
			rc = fth_vol_resize(o->place->vol, object, file->used, false);
	}
	return rc;
}

static int output_commit(struct output *output, const struct blob *manifest)
{
	struct vol_output *o = vol_output(output);
	int rc = finish_files(o);

	if (rc == 0)
		rc = write_manifest(o->place, o->name, manifest, true);
	o->committed = rc == 0;
	return rc < 0 ? fth_fail_in(rc, o->name) : 0;
}

static void output_close(struct output *output)
{
	struct vol_output *o = vol_output(output), **link = &o->place->writers;
	uint64_t id;
	uint32_t files;

	for (uint32_t i = 0; i < o->count; i++)
		fth_dev_close(o->file[i].dev);
	/* After a failed commit the manifest on the medium says which files are the table's. */
	if (!o->committed && o->count && files_of(o->place, o->name, &id, &files) == 0)
		remove_leftovers(o->place, o->name, id, files);
	pthread_mutex_lock(&o->place->lock);
	while (*link != o)
		link = &(*link)->next;
	*link = o->next;
	pthread_mutex_unlock(&o->place->lock);
	free(o);
}

static const struct output_ops output_ops = {
	.read = output_read,
	.begin = output_begin,
	.reserve = output_reserve,
	.write = output_write,
	.files = output_files,
	.file_bytes = output_file_bytes,
	.commit = output_commit,
	.close = output_close,
};

static int vol_open_output(struct place *place, const char *name, struct output **out)
{
	struct vol_place *s = vol_place(place);
	struct vol_output *o = calloc(1, sizeof(*o));
	bool busy = false;

	if (!o)
		return -ENOMEM;
	o->base.ops = &output_ops;
	o->place = s;
	snprintf(o->name, sizeof(o->name), "%s", name);
	pthread_mutex_lock(&s->lock);
	for (struct vol_output *other = s->writers; other; other = other->next)
		busy |= strcmp(other->name, name) == 0;
	if (!busy) {
		o->next = s->writers;
		s->writers = o;
	}
	pthread_mutex_unlock(&s->lock);
	if (busy) {
		free(o);
		return fth_fail(EBUSY, "%s: another writer has the table open", name);
	}
	*out = &o->base;
	return 0;
}

static const struct place_ops place_ops = {
	.close = vol_close,
	.list = vol_list,
	.create = vol_create,
	.remove = vol_remove,
	.read = vol_read,
	.open_file = vol_open_file,
	.open_output = vol_open_output,
};

int place_vol_open(const char *uris, unsigned flags, struct place **out)
{
	struct vol_place *place = calloc(1, sizeof(*place));
	bool readonly = flags & FTH_TABLE_DB_READONLY;
	const char **list;
	unsigned n;
	int rc;

	if (!place)
		return -ENOMEM;
	rc = fth_vol_split_uris(uris, &list, &n);
	if (rc == 0) {
		rc = fth_vol_open_uris(list, n, readonly ? FTH_VOL_READONLY : 0, &place->vol);
		free(list);
	}
	if (rc < 0) {
		free(place);
		return rc;
	}
	pthread_mutex_init(&place->lock, NULL);
	place->base.ops = &place_ops;
	place->base.readonly = readonly;
	if (!readonly)
		remove_leftovers(place, NULL, 0, 0);
	*out = &place->base;
	return 0;
}
