/* SPDX-License-Identifier: BSD-2-Clause */
/* The manifest with the groups of a batch, and with facts about all rows. */
#include "table/facts/distinct_estimate.h"
#include "table/write/writer.h"

#include <errno.h>
#include <string.h>

static int add_groups(struct fth_table_writer *w)
{
	struct manifest *m = &w->manifest;
	uint32_t before = m->groups, after = before + w->numbers, columns = m->schema.columns;
	struct fth_table_group *group = manifest_alloc(m, after * sizeof(*group));
	struct fth_table_chunk *chunk = manifest_alloc(m, (size_t)after * columns * sizeof(*chunk));

	if (!group || !chunk) {
		manifest_free(m, group, after * sizeof(*group));
		manifest_free(m, chunk, (size_t)after * columns * sizeof(*chunk));
		return -ENOMEM;
	}
	memcpy(group, m->group, before * sizeof(*group));
	for (uint32_t c = 0; c < columns; c++)
		memcpy(chunk + (size_t)c * after, m->chunk + (size_t)c * before,
		       before * sizeof(*chunk));
	for (uint32_t i = 0; i < w->numbers; i++) {
		const struct written_group *in = &w->written[i];

		group[before + i] = (struct fth_table_group){m->rows, in->rows, in->file};
		m->rows += in->rows;
		for (uint32_t c = 0; c < columns; c++)
			chunk[(size_t)c * after + before + i] = in->chunk[c];
	}
	manifest_free(m, m->group, before * sizeof(*group));
	manifest_free(m, m->chunk, (size_t)before * columns * sizeof(*chunk));
	m->group = group;
	m->chunk = chunk;
	m->groups = after;
	return 0;
}

static int add_files(struct fth_table_writer *w)
{
	struct manifest *m = &w->manifest;
	uint32_t files = w->output->ops->files(w->output);
	uint64_t *bytes = manifest_alloc(m, files * sizeof(*bytes));

	if (!bytes)
		return -ENOMEM;
	for (uint32_t i = 0; i < files; i++)
		bytes[i] = w->output->ops->file_bytes(w->output, i);
	for (uint32_t i = 0; i < m->files && i < files; i++)
		bytes[i] = bytes[i] ? bytes[i] : m->file_bytes[i];
	manifest_free(m, m->file_bytes, m->files * sizeof(*bytes));
	m->file_bytes = bytes;
	m->files = files;
	m->end = files ? bytes[files - 1] : 0;
	return 0;
}

static void drop_dictionary(struct manifest *m, struct column_state *state)
{
	if (!state->dict_offsets)
		return;
	manifest_free(m, state->dict_bytes, state->dict_offsets[state->facts.dictionary]);
	manifest_free(m, state->dict_offsets,
		      ((size_t)state->facts.dictionary + 1) * sizeof(uint32_t));
	state->dict_bytes = NULL;
	state->dict_offsets = NULL;
	state->facts.dictionary = 0;
}

static int set_dictionary(struct manifest *m, struct column_state *state, const struct dict *dict)
{
	size_t n = ((size_t)dict->count + 1) * sizeof(uint32_t);
	uint32_t *offsets = manifest_alloc(m, n);
	char *bytes = offsets ? manifest_alloc(m, dict->offsets[dict->count]) : NULL;

	if (!offsets || !bytes) {
		manifest_free(m, offsets, n);
		return -ENOMEM;
	}
	memcpy(offsets, dict->offsets, n);
	if (offsets[dict->count])
		memcpy(bytes, dict->bytes, offsets[dict->count]);
	drop_dictionary(m, state);
	state->dict_offsets = offsets;
	state->dict_bytes = bytes;
	state->facts.dictionary = dict->count;
	return 0;
}

static int finish_dictionary(struct manifest *m, struct column_state *state,
			     struct writer_column *column)
{
	struct dict *dict = &column->dict.dict;
	int rc;

	if (!column->dict.on || dict->count == 0)
		return 0;
	rc = set_dictionary(m, state, dict);
	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < dict->count; i++)
		sketch_add(state->sketch, string_hash(dict->bytes + dict->offsets[i],
						      dict->offsets[i + 1] - dict->offsets[i]));
	state->facts.flags |= column->all_codes ? FTH_TABLE_ALL_CODES : 0;
	if (dict_ordered(dict->offsets, dict->bytes, dict->count))
		state->facts.flags |= FTH_TABLE_ORDERED_CODES;
	return 0;
}

static int finish_column(struct fth_table_writer *w, uint32_t c)
{
	struct manifest *m = &w->manifest;
	struct column_state *state = &m->column[c];
	struct fth_table_facts *facts = &state->facts;
	int rc =
		prover_finish(&w->column[c].prover, fth_table_kind(&m->schema.column[c]), m, state);

	if (rc == 0)
		rc = finish_dictionary(m, state, &w->column[c]);
	if (rc < 0 || (facts->flags & FTH_TABLE_DISTINCT))
		return rc;
	if (facts->flags & FTH_TABLE_ALL_CODES) {
		facts->distinct = facts->dictionary;
		facts->flags |= FTH_TABLE_DISTINCT;
		return 0;
	}
	facts->distinct = sketch_estimate(state->sketch);
	if (facts->distinct > m->rows - facts->nulls)
		facts->distinct = m->rows - facts->nulls;
	return 0;
}

int writer_finish(struct fth_table_writer *w)
{
	int rc = add_groups(w);

	if (rc == 0)
		rc = add_files(w);
	for (uint32_t c = 0; rc == 0 && c < w->manifest.schema.columns; c++)
		rc = finish_column(w, c);
	w->manifest.version++;
	w->manifest.cut_by = w->cut_by;
	return rc;
}
