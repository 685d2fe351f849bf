/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots. */
#include "table/table.h"

#include "table/place/db.h"

#include "fathom/base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A snapshot is opened again if the table was replaced by another one meanwhile. */
#define TRIES 16

static void *table_alloc(struct fth_table *table, size_t bytes)
{
	void *memory = table->memory.alloc(table->memory.user, bytes);

	if (memory)
		memset(memory, 0, bytes);
	return memory;
}

static int read_manifest(struct fth_table *table, struct place *place, struct manifest *m)
{
	struct blob blob;
	int rc = place->ops->read(place, table->name, &table->memory, &blob);

	if (rc < 0)
		return rc;
	rc = manifest_read(m, blob.bytes, blob.length, false, &table->memory);
	table->memory.release(table->memory.user, blob.bytes, blob.length + 1);
	return rc < 0 ? fth_fail_in(rc, table->name) : 0;
}

static void close_files(struct fth_table *table)
{
	for (uint32_t i = 0; table->dev && i < table->manifest.files; i++)
		fth_dev_close(table->dev[i]);
	if (table->dev)
		table->memory.release(table->memory.user, table->dev,
				      (table->manifest.files + 1) * sizeof(struct fth_dev *));
	table->dev = NULL;
}

static int open_files(struct fth_table *table, struct place *place)
{
	struct manifest *m = &table->manifest;
	int rc = 0;

	table->dev = table_alloc(table, (m->files + 1) * sizeof(struct fth_dev *));
	if (!table->dev)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < m->files; i++)
		rc = place->ops->open_file(place, table->name, m->id, i, m->file_bytes[i],
					   &table->dev[i]);
	return rc;
}

/* 1 if the files that were opened may be those of another table of this name. */
static int was_replaced(struct fth_table *table, struct place *place)
{
	struct manifest now;
	int rc = read_manifest(table, place, &now);
	uint64_t id = now.id;

	if (rc < 0)
		return rc;
	manifest_release(&now);
	return id != table->manifest.id;
}

static int open_snapshot(struct fth_table *table, struct place *place)
{
	int rc = read_manifest(table, place, &table->manifest);

	if (rc == 0)
		rc = open_files(table, place);
	if (rc == 0 && table->manifest.files)
		rc = was_replaced(table, place);
	return rc;
}

int fth_table_open(struct fth_table_db *db, const char *name, const struct fth_table_memory *memory,
		   struct fth_table **out)
{
	struct fth_table *table;
	char lower[FTH_TABLE_NAME_MAX + 1];
	int rc = db_name(name, lower);

	*out = NULL;
	if (rc < 0)
		return rc;
	memory = memory ? memory : &table_malloc;
	table = memory->alloc(memory->user, sizeof(*table));
	if (!table)
		return -ENOMEM;
	memset(table, 0, sizeof(*table));
	table->memory = *memory;
	snprintf(table->name, sizeof(table->name), "%s", lower);
	rc = 1;
	for (int i = 0; rc == 1 && i < TRIES; i++) {
		close_files(table);
		manifest_release(&table->manifest);
		rc = open_snapshot(table, db->place);
	}
	if (rc == 1)
		rc = fth_fail(EBUSY,
			      "%s: the table was replaced several times while it was being opened",
			      lower);
	if (rc < 0) {
		fth_table_close(table);
		return rc;
	}
	*out = table;
	return 0;
}

void fth_table_close(struct fth_table *table)
{
	struct fth_table_memory memory;

	if (!table)
		return;
	memory = table->memory;
	close_files(table);
	manifest_release(&table->manifest);
	memory.release(memory.user, table, sizeof(*table));
}

/* ---- what it knows ---- */

const char *fth_table_name(const struct fth_table *table)
{
	return table->name;
}

const struct fth_table_schema *fth_table_schema(const struct fth_table *table)
{
	return &table->manifest.schema;
}

uint64_t fth_table_rows(const struct fth_table *table)
{
	return table->manifest.rows;
}

uint32_t fth_table_groups(const struct fth_table *table)
{
	return table->manifest.groups;
}

uint64_t fth_table_version(const struct fth_table *table)
{
	return table->manifest.version;
}

uint64_t fth_table_bytes(const struct fth_table *table)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < table->manifest.files; i++)
		bytes += table->manifest.file_bytes[i];
	return bytes;
}

size_t fth_table_memory_used(const struct fth_table *table)
{
	return table->manifest.used + sizeof(*table) +
	       (table->manifest.files + 1) * sizeof(struct fth_dev *);
}

struct fth_dev *fth_table_dev(const struct fth_table *table, uint32_t file)
{
	assert(file < table->manifest.files);
	return table->dev[file];
}

const struct fth_table_group *fth_table_group(const struct fth_table *table, uint32_t group)
{
	assert(group < table->manifest.groups);
	return &table->manifest.group[group];
}

const struct fth_table_chunk *fth_table_chunk(const struct fth_table *table, uint32_t column,
					      uint32_t group)
{
	assert(group < table->manifest.groups && column < table->manifest.schema.columns);
	return &table->manifest.chunk[(size_t)column * table->manifest.groups + group];
}

const struct fth_table_facts *fth_table_facts(const struct fth_table *table, uint32_t column)
{
	assert(column < table->manifest.schema.columns);
	return &table->manifest.column[column].facts;
}

void fth_table_dictionary(const struct fth_table *table, uint32_t column,
			  struct fth_table_strings *out)
{
	const struct column_state *state = &table->manifest.column[column];

	*out = (struct fth_table_strings){state->dict_offsets, state->dict_bytes,
					  state->facts.dictionary};
}

const char *fth_table_encoding_name(enum fth_table_encoding encoding)
{
	static const char *const names[] = {"none", "packed", "runs",  "delta",
					    "wide", "codes",  "local", "blocks"};

	return (unsigned)encoding <= FTH_TABLE_BLOCKS ? names[encoding] : "unknown";
}

/* ---- simple reading ---- */

/* The range of a chunk on its device, rounded out to blocks. */
static void chunk_range(const struct fth_table *table, uint32_t column, uint32_t group,
			uint64_t *from, uint64_t *bytes)
{
	const struct fth_table_chunk *chunk = fth_table_chunk(table, column, group);
	uint64_t block =
		fth_dev_info(fth_table_dev(table, fth_table_group(table, group)->file))->block;

	*from = chunk->offset / block * block;
	*bytes = align_up(chunk->offset + chunk->bytes, block) - *from;
}

void fth_table_page_free(struct fth_table *table, uint32_t column, uint32_t group, void *image)
{
	uint64_t from, bytes;

	if (!image)
		return;
	chunk_range(table, column, group, &from, &bytes);
	table->memory.release(table->memory.user, image, bytes + CHUNK_ALIGN);
}

int fth_table_page_read(struct fth_table_page *page, struct fth_table *table, uint32_t column,
			uint32_t group, void **image)
{
	const struct fth_table_chunk *chunk = fth_table_chunk(table, column, group);
	struct fth_dev *dev = fth_table_dev(table, fth_table_group(table, group)->file);
	uint64_t from, bytes;
	char *memory;
	int rc;

	*image = NULL;
	chunk_range(table, column, group, &from, &bytes);
	memory = table->memory.alloc(table->memory.user, bytes + CHUNK_ALIGN);
	if (!memory)
		return -ENOMEM;
	rc = fth_dev_read(dev, memory, bytes, from, FTH_DEV_TIMEOUT);
	if (rc == 0) {
		/* The page begins at its own allocation, so that the memory is found again. */
		memmove(memory, memory + (chunk->offset - from), chunk->bytes);
		rc = fth_table_page_open(page, table, column, group, memory);
	}
	*image = memory;
	if (rc < 0) {
		fth_table_page_free(table, column, group, memory);
		*image = NULL;
	}
	return rc;
}
