/* SPDX-License-Identifier: BSD-2-Clause */
/* The manifest in memory, and as a blob. */
#include "table/place/manifest.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static void *plain_alloc(void *user, size_t bytes)
{
	(void)user;
	return malloc(bytes);
}

static void plain_release(void *user, void *memory, size_t bytes)
{
	(void)user;
	(void)bytes;
	free(memory);
}

const struct fth_table_memory table_malloc = {plain_alloc, plain_release, NULL};

void *manifest_alloc(struct manifest *m, size_t bytes)
{
	void *memory = m->memory->alloc(m->memory->user, bytes ? bytes : 1);

	if (memory) {
		memset(memory, 0, bytes);
		m->used += bytes;
	}
	return memory;
}

void manifest_free(struct manifest *m, void *memory, size_t bytes)
{
	if (!memory)
		return;
	m->used -= bytes;
	m->memory->release(m->memory->user, memory, bytes ? bytes : 1);
}

static void release_column(struct manifest *m, struct column_state *column)
{
	manifest_free(m, column->last_string, column->text_last);
	manifest_free(m, column->sketch, SKETCH_REGISTERS);
	manifest_free(m, column->dict_bytes,
		      column->dict_offsets ? column->dict_offsets[column->facts.dictionary] : 0);
	manifest_free(m, column->dict_offsets,
		      ((size_t)column->facts.dictionary + 1) * sizeof(uint32_t));
}

void manifest_release(struct manifest *m)
{
	if (!m->memory)
		return;
	for (uint32_t c = 0; m->column && c < m->schema.columns; c++)
		release_column(m, &m->column[c]);
	manifest_free(m, m->column, m->schema.columns * sizeof(*m->column));
	manifest_free(m, m->chunk, (size_t)m->schema.columns * m->groups * sizeof(*m->chunk));
	manifest_free(m, m->group, m->groups * sizeof(*m->group));
	manifest_free(m, m->file_bytes, m->files * sizeof(*m->file_bytes));
	manifest_free(m, m->schema.column, m->schema.columns * sizeof(*m->schema.column));
	*m = (struct manifest){0};
}

int manifest_init(struct manifest *m, const struct fth_table_schema *schema, uint64_t id,
		  const struct fth_table_memory *memory)
{
	size_t bytes = schema->columns * sizeof(*schema->column);

	*m = (struct manifest){.memory = memory, .id = id, .cut_by = schema->cluster_by};
	m->schema.columns = schema->columns;
	m->schema.cluster_by = schema->cluster_by;
	m->schema.column = manifest_alloc(m, bytes);
	m->column = manifest_alloc(m, schema->columns * sizeof(*m->column));
	m->group = manifest_alloc(m, 0);
	m->chunk = manifest_alloc(m, 0);
	m->file_bytes = manifest_alloc(m, 0);
	if (!m->schema.column || !m->column || !m->group || !m->chunk || !m->file_bytes)
		goto no_memory;
	memcpy(m->schema.column, schema->column, bytes);
	for (uint32_t c = 0; c < schema->columns; c++) {
		m->column[c].facts.min = INT64_MAX;
		m->column[c].facts.max = INT64_MIN;
		m->column[c].sketch = manifest_alloc(m, SKETCH_REGISTERS);
		if (!m->column[c].sketch)
			goto no_memory;
	}
	return 0;
no_memory:
	manifest_release(m);
	return -ENOMEM;
}

/* ---- as a blob ---- */

/* The blob: this, then its parts in the order of write_parts(). */
struct blob_header {
	uint64_t magic;
	uint64_t checksum; /* of what follows this field */
	uint64_t bytes;
	uint64_t id, version, rows, end;
	uint32_t columns, cluster_by, cut_by, files, groups, unused;
};
_Static_assert(sizeof(struct blob_header) == 80, "stored");

struct blob_column {
	char name[FTH_TABLE_NAME_MAX + 1];
	uint8_t type, precision, scale, not_null;
	uint32_t length;
	uint32_t flags, max_length;
	int64_t min, max;
	uint64_t nulls, distinct, max_run, string_bytes, bytes;
	uint64_t runs, last_run;
	int64_t last;
	uint32_t dictionary, dict_bytes;
	uint32_t last_bytes;  /* of the last string */
	uint32_t last_string; /* 1: there is one */
};
_Static_assert(sizeof(struct blob_column) == 176, "stored");

struct writing {
	char *bytes;
	size_t length, room;
	bool failed;
};

static void put_bytes(struct writing *w, const void *data, size_t n)
{
	if (w->length + n > w->room && !w->failed) {
		size_t room = (w->length + n) * 2;
		char *grown = realloc(w->bytes, room);

		w->failed = !grown;
		w->bytes = grown ? grown : w->bytes;
		w->room = grown ? room : w->room;
	}
	if (w->failed)
		return;
	if (n)
		memcpy(w->bytes + w->length, data, n);
	w->length += n;
}

static void put_column(struct writing *w, const struct fth_table_column *column,
		       const struct column_state *state)
{
	const struct fth_table_facts *facts = &state->facts;
	struct blob_column out = {
		.type = (uint8_t)column->type,
		.precision = column->precision,
		.scale = column->scale,
		.not_null = column->not_null,
		.length = column->length,
		.flags = facts->flags,
		.max_length = facts->max_length,
		.min = facts->min,
		.max = facts->max,
		.nulls = facts->nulls,
		.distinct = facts->distinct,
		.max_run = facts->max_run,
		.string_bytes = facts->string_bytes,
		.bytes = facts->bytes,
		.runs = state->runs,
		.last_run = state->last_run,
		.last = state->last,
		.dictionary = facts->dictionary,
		.dict_bytes = facts->dictionary ? state->dict_offsets[facts->dictionary] : 0,
		.last_bytes = (uint32_t)state->text_last,
		.last_string = state->last_string != NULL,
	};

	memcpy(out.name, column->name, sizeof(out.name));
	put_bytes(w, &out, sizeof(out));
}

static void put_variable(struct writing *w, const struct column_state *state)
{
	uint32_t n = state->facts.dictionary;

	if (n) {
		put_bytes(w, state->dict_offsets, ((size_t)n + 1) * sizeof(uint32_t));
		put_bytes(w, state->dict_bytes, state->dict_offsets[n]);
	}
	if (state->last_string)
		put_bytes(w, state->last_string, state->text_last);
	put_bytes(w, state->sketch, SKETCH_REGISTERS);
}

static void write_parts(struct writing *w, const struct manifest *m)
{
	for (uint32_t c = 0; c < m->schema.columns; c++)
		put_column(w, &m->schema.column[c], &m->column[c]);
	put_bytes(w, m->file_bytes, m->files * sizeof(*m->file_bytes));
	put_bytes(w, m->group, m->groups * sizeof(*m->group));
	put_bytes(w, m->chunk, (size_t)m->schema.columns * m->groups * sizeof(*m->chunk));
	for (uint32_t c = 0; c < m->schema.columns; c++)
		put_variable(w, &m->column[c]);
}

static uint64_t blob_checksum(const char *blob, size_t bytes)
{
	size_t skip = offsetof(struct blob_header, bytes);

	return fth_checksum(blob + skip, bytes - skip, MANIFEST_SEED);
}

int manifest_write(const struct manifest *m, void **blob, size_t *bytes)
{
	struct blob_header header = {
		.magic = MANIFEST_MAGIC,
		.id = m->id,
		.version = m->version,
		.rows = m->rows,
		.end = m->end,
		.columns = m->schema.columns,
		.cluster_by = m->schema.cluster_by,
		.cut_by = m->cut_by,
		.files = m->files,
		.groups = m->groups,
	};
	struct writing w = {0};

	put_bytes(&w, &header, sizeof(header));
	write_parts(&w, m);
	if (w.failed) {
		free(w.bytes);
		return -ENOMEM;
	}
	header.bytes = w.length;
	memcpy(w.bytes, &header, sizeof(header));
	header.checksum = blob_checksum(w.bytes, w.length);
	memcpy(w.bytes, &header, sizeof(header));
	*blob = w.bytes;
	*bytes = w.length;
	return 0;
}

/* ---- from a blob ---- */

struct reading {
	const char *at;
	size_t left;
	struct manifest *m;
};

static int damaged(const char *what)
{
	return fth_fail(EBADMSG, "manifest: %s", what);
}

/* n elements of `size` bytes, copied into memory of the manifest. */
static int take_array(struct reading *r, uint64_t n, size_t size, void *out)
{
	void *memory;

	if (n > r->left / size)
		return damaged("it is cut off");
	memory = manifest_alloc(r->m, n * size);
	if (!memory)
		return -ENOMEM;
	memcpy(memory, r->at, n * size);
	r->at += n * size;
	r->left -= n * size;
	memcpy(out, &memory, sizeof(memory));
	return 0;
}

static void set_column(const struct blob_column *in, struct fth_table_column *column,
		       struct column_state *state)
{
	struct fth_table_facts *facts = &state->facts;

	memcpy(column->name, in->name, sizeof(column->name));
	column->type = (enum fth_table_type)in->type;
	column->precision = in->precision;
	column->scale = in->scale;
	column->not_null = in->not_null;
	column->length = in->length;
	facts->flags = in->flags;
	facts->max_length = in->max_length;
	facts->min = in->min;
	facts->max = in->max;
	facts->nulls = in->nulls;
	facts->distinct = in->distinct;
	facts->max_run = in->max_run;
	facts->string_bytes = in->string_bytes;
	facts->bytes = in->bytes;
	state->runs = in->runs;
	state->last_run = in->last_run;
	state->last = in->last;
}

static int check_dictionary(const struct column_state *state, uint32_t n, uint32_t bytes)
{
	for (uint32_t i = 0; i < n; i++)
		if (state->dict_offsets[i] > state->dict_offsets[i + 1])
			return damaged("the offsets of a dictionary do not ascend");
	if (state->dict_offsets[0] != 0 || state->dict_offsets[n] != bytes)
		return damaged("the offsets of a dictionary do not fit its bytes");
	return 0;
}

static int read_dictionary(struct reading *r, const struct blob_column *in,
			   struct column_state *state)
{
	uint32_t *offsets;
	int rc = take_array(r, (uint64_t)in->dictionary + 1, sizeof(uint32_t), &offsets);

	if (rc < 0)
		return rc;
	state->dict_offsets = offsets;
	rc = check_dictionary(state, in->dictionary, in->dict_bytes);
	if (rc < 0) {
		manifest_free(r->m, offsets, ((size_t)in->dictionary + 1) * sizeof(uint32_t));
		state->dict_offsets = NULL;
		return rc;
	}
	state->facts.dictionary = in->dictionary;
	return take_array(r, in->dict_bytes, 1, &state->dict_bytes);
}

static int read_variable(struct reading *r, const struct blob_column *in, bool sketches,
			 struct column_state *state)
{
	int rc = in->dictionary ? read_dictionary(r, in, state) : 0;

	if (rc == 0 && in->last_string) {
		rc = take_array(r, in->last_bytes, 1, &state->last_string);
		state->text_last = rc == 0 ? in->last_bytes : 0;
	}
	if (rc == 0 && sketches)
		return take_array(r, SKETCH_REGISTERS, 1, &state->sketch);
	if (rc == 0 && r->left < SKETCH_REGISTERS)
		return damaged("it is cut off");
	r->at += rc == 0 ? SKETCH_REGISTERS : 0;
	r->left -= rc == 0 ? SKETCH_REGISTERS : 0;
	return rc;
}

static int check_group(const struct manifest *m, uint32_t g, uint64_t first)
{
	const struct fth_table_group *group = &m->group[g];

	if (group->rows == 0 || group->rows > FTH_TABLE_GROUP_ROWS || group->first != first)
		return damaged("the rows of a group do not follow those of the one before");
	if (group->file >= m->files)
		return damaged("a group is in no file");
	for (uint32_t c = 0; c < m->schema.columns; c++) {
		const struct fth_table_chunk *chunk = &m->chunk[(size_t)c * m->groups + g];
		uint64_t file = m->file_bytes[group->file];

		if (chunk->offset % CHUNK_ALIGN || chunk->offset > file ||
		    chunk->bytes > file - chunk->offset || chunk->head > chunk->bytes ||
		    chunk->head < sizeof(struct chunk_header))
			return damaged("a chunk is outside its file");
		if (chunk->encoding < FTH_TABLE_PACKED || chunk->encoding > FTH_TABLE_BLOCKS ||
		    chunk->nulls > group->rows)
			return damaged("a chunk is invalid");
	}
	return 0;
}

static int check_groups(const struct manifest *m)
{
	uint64_t first = 0;
	int rc = 0;

	for (uint32_t g = 0; rc == 0 && g < m->groups; g++) {
		rc = check_group(m, g, first);
		first += m->group[g].rows;
	}
	return rc == 0 && first != m->rows ? damaged("the number of rows is wrong") : rc;
}

static int read_parts(struct reading *r, const struct blob_header *header, bool sketches)
{
	struct manifest *m = r->m;
	const char *columns = r->at;
	size_t bytes = header->columns * sizeof(struct blob_column);
	struct blob_column in;
	int rc;

	if (header->columns > FTH_TABLE_COLUMNS_MAX || bytes > r->left)
		return damaged("it is cut off");
	m->schema.column = manifest_alloc(m, header->columns * sizeof(*m->schema.column));
	m->column = manifest_alloc(m, header->columns * sizeof(*m->column));
	m->schema.columns = header->columns;
	if (!m->schema.column || !m->column)
		return -ENOMEM;
	for (uint32_t c = 0; c < header->columns; c++) {
		memcpy(&in, columns + c * sizeof(in), sizeof(in));
		set_column(&in, &m->schema.column[c], &m->column[c]);
	}
	r->at += bytes;
	r->left -= bytes;
	rc = fth_table_schema_check(&m->schema);
	if (rc < 0)
		return rc == -EINVAL ? damaged("its schema is invalid") : rc;
	rc = take_array(r, header->files, sizeof(*m->file_bytes), &m->file_bytes);
	m->files = rc == 0 ? header->files : 0;
	if (rc == 0)
		rc = take_array(r, header->groups, sizeof(*m->group), &m->group);
	m->groups = rc == 0 ? header->groups : 0;
	if (rc == 0)
		rc = take_array(r, (uint64_t)header->groups * header->columns, sizeof(*m->chunk),
				&m->chunk);
	for (uint32_t c = 0; rc == 0 && c < header->columns; c++) {
		memcpy(&in, columns + c * sizeof(in), sizeof(in));
		rc = read_variable(r, &in, sketches, &m->column[c]);
	}
	return rc < 0 ? rc : check_groups(m);
}

static int check_header(const struct blob_header *header, const void *blob, size_t bytes)
{
	if (header->magic != MANIFEST_MAGIC)
		return damaged("it is none, or of another version");
	if (header->bytes != bytes)
		return damaged("it is cut off");
	if (header->checksum != blob_checksum(blob, bytes))
		return damaged("its checksum is wrong");
	if (header->cut_by != FTH_TABLE_NO_COLUMN && header->cut_by >= header->columns)
		return damaged("it is clustered by no column");
	return 0;
}

int manifest_read(struct manifest *m, const void *blob, size_t bytes, bool sketches,
		  const struct fth_table_memory *memory)
{
	struct blob_header header;
	struct reading r = {(const char *)blob + sizeof(header), 0, m};
	int rc;

	*m = (struct manifest){0};
	if (bytes < sizeof(header))
		return damaged("it is cut off");
	memcpy(&header, blob, sizeof(header));
	rc = check_header(&header, blob, bytes);
	if (rc < 0)
		return rc;
	r.left = bytes - sizeof(header);
	*m = (struct manifest){
		.memory = memory,
		.id = header.id,
		.version = header.version,
		.rows = header.rows,
		.end = header.end,
		.cut_by = header.cut_by,
		.schema.cluster_by = header.cluster_by,
	};
	rc = read_parts(&r, &header, sketches);
	if (rc < 0)
		manifest_release(m);
	return rc;
}
