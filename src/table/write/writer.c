/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Appending to a table. Rows are collected into groups here, in order; what is proved about columns
 * is proved here too, because it depends on the order. Siblings: writer_check.c verifies values,
 * writer_pool.c has the threads that encode and write groups, writer_commit.c makes the new
 * manifest.
 */
#include "table/write/writer.h"

#include "base/options.h"
#include "table/place/db.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_COMPRESSION 2
#define DEFAULT_FACT_MEMORY ((uint64_t)64 << 20)
#define DICT_VALUE_BYTES    32u /* of a dictionary, for each of its values */
/* A dictionary that any column gets, however few rows it has. */
#define SMALL_VALUES 256u
#define SMALL_BYTES  (32u << 10)
/* A column that looks clustered has runs of at most this many rows. */
#define CLUSTER_RUN_MAX 4096u

/* ---- opening ---- */

static int load_dictionary(struct writer_column *column, const struct column_state *state)
{
	uint32_t code;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < state->facts.dictionary; i++)
		rc = dict_add(&column->dict.dict, state->dict_bytes + state->dict_offsets[i],
			      state->dict_offsets[i + 1] - state->dict_offsets[i], &code);
	column->dict.on = state->facts.dictionary > 0;
	return rc;
}

/* A dictionary of earlier batches stays, however large it is. */
static void init_dictionary(const struct fth_table_writer *w, struct dict *dict,
			    const struct column_state *state)
{
	uint32_t old = state->facts.dictionary, bytes = old ? state->dict_offsets[old] : 0;
	uint32_t values = w->dict_bytes / DICT_VALUE_BYTES;

	dict_init(dict, old > values ? old : values, bytes > w->dict_bytes ? bytes : w->dict_bytes);
}

static int init_columns(struct fth_table_writer *w)
{
	struct manifest *m = &w->manifest;
	int rc = 0;

	w->column = calloc(m->schema.columns, sizeof(*w->column));
	if (!w->column)
		return -ENOMEM;
	for (uint32_t c = 0; c < m->schema.columns; c++) {
		struct writer_column *column = &w->column[c];

		pthread_rwlock_init(&column->dict.lock, NULL);
		init_dictionary(w, &column->dict.dict, &m->column[c]);
		column->all_codes =
			m->rows == 0 || (m->column[c].facts.flags & FTH_TABLE_ALL_CODES);
	}
	for (uint32_t c = 0; rc == 0 && c < m->schema.columns; c++) {
		rc = prover_init(&w->column[c].prover, fth_table_kind(&m->schema.column[c]),
				 &m->column[c], m->rows, w->fact_memory, &w->fact_spare);
		if (rc == 0)
			rc = load_dictionary(&w->column[c], &m->column[c]);
	}
	return rc;
}

static int read_old(struct fth_table_writer *w, const char *name)
{
	struct blob blob;
	int rc = w->output->ops->read(w->output, &blob);

	if (rc < 0)
		return fth_fail_in(rc, name);
	rc = manifest_read(&w->manifest, blob.bytes, blob.length, true, &table_malloc);
	free(blob.bytes);
	if (rc < 0)
		return fth_fail_in(rc, name);
	return w->output->ops->begin(w->output, w->manifest.id, w->manifest.files, w->manifest.end);
}

static int check_options(const struct fth_table_write_options *o)
{
	if (o->threads > 1024)
		return fth_fail(EINVAL, "table: options.threads is %u, the maximum is 1024",
				o->threads);
	if (o->group_rows > FTH_TABLE_GROUP_ROWS)
		return fth_fail(EINVAL, "table: options.group_rows is %u, the maximum is %u",
				o->group_rows, FTH_TABLE_GROUP_ROWS);
	if (o->compression > 12)
		return fth_fail(EINVAL, "table: options.compression is %u, expected 1 to 12",
				o->compression);
	return 0;
}

static void take_options(struct fth_table_writer *w, const struct fth_table_write_options *o)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	w->threads = o->threads ? o->threads : processors > 0 ? (unsigned)processors : 1;
	w->group_rows = o->group_rows ? o->group_rows : FTH_TABLE_GROUP_ROWS;
	w->compression = o->plain ? 0 : o->compression ? o->compression : DEFAULT_COMPRESSION;
}

static int open_writer(struct fth_table_writer *w, struct fth_table_db *db, const char *name,
		       const struct fth_table_write_options *options)
{
	int rc = db->place->ops->open_output(db->place, name, &w->output);

	if (rc == 0)
		rc = read_old(w, name);
	if (rc < 0)
		return rc;
	w->cut_by = w->manifest.cut_by;
	w->declared = w->manifest.schema.cluster_by != FTH_TABLE_NO_COLUMN;
	/* Later batches keep to what the first one decided. */
	w->decided = w->manifest.rows > 0;
	rc = writer_plan(w, name, options->memory,
			 options->fact_memory ? options->fact_memory : DEFAULT_FACT_MEMORY);
	if (rc == 0)
		rc = init_columns(w);
	if (rc == 0)
		rc = writer_take_group(w, &w->filling);
	return rc < 0 ? rc : writer_start(w);
}

int fth_table_writer_open(struct fth_table_db *db, const char *name,
			  const struct fth_table_write_options *options,
			  struct fth_table_writer **out)
{
	static const struct fth_table_write_options defaults = FTH_TABLE_WRITE_OPTIONS_INIT;
	char lower[FTH_TABLE_NAME_MAX + 1];
	struct fth_table_writer *w;
	int rc;

	*out = NULL;
	options = options ? options : &defaults;
	rc = fth_options_check("table", options->size, sizeof(*options));
	if (rc == 0)
		rc = check_options(options);
	if (rc == 0)
		rc = db_name(name, lower);
	if (rc == 0 && db->place->readonly)
		rc = fth_fail(EROFS, "the database is open read-only");
	if (rc < 0)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_cond_init(&w->idle, NULL);
	w->queue_end = &w->queue;
	take_options(w, options);
	rc = open_writer(w, db, lower, options);
	if (rc < 0) {
		fth_table_writer_close(w);
		return rc;
	}
	*out = w;
	return 0;
}

const struct fth_table_schema *fth_table_writer_schema(const struct fth_table_writer *writer)
{
	return &writer->manifest.schema;
}

uint64_t fth_table_writer_rows(const struct fth_table_writer *writer)
{
	return writer->rows;
}

/* ---- what the first group tells ---- */

/* Ascending, with runs that are neither single rows nor long. */
static bool looks_clustered(const struct group_column *column, uint32_t rows)
{
	uint32_t run = 1, longest = 1;

	if (column->nulls ||
	    (column->kind != FTH_TABLE_KIND_INT && column->kind != FTH_TABLE_KIND_DOUBLE))
		return false;
	for (uint32_t i = 1; i < rows; i++) {
		if (column->ints[i] < column->ints[i - 1])
			return false;
		run = column->ints[i] == column->ints[i - 1] ? run + 1 : 1;
		longest = run > longest ? run : longest;
	}
	return longest > 1 && longest <= CLUSTER_RUN_MAX;
}

/* A dictionary if there are few different strings: sorted, as long as no others come. */
static int decide_dictionary(struct shared_dict *shared, const struct group_column *column,
			     uint32_t rows)
{
	struct dict *dict = &shared->dict;
	uint32_t code, few = rows / 4 > SMALL_VALUES ? rows / 4 : SMALL_VALUES;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < rows && dict->count <= few; i++)
		if (!(column->nulls && column->null[i]))
			rc = dict_add(dict, column->bytes ? column->bytes + column->offsets[i] : "",
				      column->offsets[i + 1] - column->offsets[i], &code);
	if (rc < 0 && rc != -ENOSPC)
		return rc;
	shared->on = rc == 0 && dict->count > 0 && dict->count <= few &&
		     (dict->count <= rows / 4 || dict->offsets[dict->count] <= SMALL_BYTES);
	if (!shared->on)
		dict_clear(dict);
	return shared->on ? dict_sort(dict, NULL) : 0;
}

static int decide(struct fth_table_writer *w, const struct group *group)
{
	int rc = 0;

	w->decided = true;
	for (uint32_t c = 0; rc == 0 && c < group->columns; c++) {
		const struct group_column *column = &group->column[c];

		if (w->cut_by == FTH_TABLE_NO_COLUMN && looks_clustered(column, group->rows))
			w->cut_by = c;
		if (column->kind == FTH_TABLE_KIND_STRING)
			rc = decide_dictionary(&w->column[c].dict, column, group->rows);
	}
	return rc;
}

/* ---- appending ---- */

/* Where to cut a full group: where the last run of equal keys begins, or at its end. */
static uint32_t find_cut(const struct fth_table_writer *w, const struct group *group)
{
	uint32_t at = group->rows - 1, lost;
	const struct group_column *key;

	if (w->cut_by == FTH_TABLE_NO_COLUMN)
		return group->rows;
	key = &group->column[w->cut_by];
	if (key->nulls)
		return group->rows;
	while (at > 0 && group_equal_before(key, at))
		at--;
	lost = group->rows - at;
	if (at == 0 || (!w->declared && lost > group->rows / 8))
		return group->rows;
	return at;
}

/* Send the group that is being filled to the threads, all of it or up to the cut. */
static int send_group(struct fth_table_writer *w, bool last)
{
	struct group *group = w->filling, *rest;
	uint32_t cut;
	int rc = w->decided ? 0 : decide(w, group);

	if (rc < 0)
		return rc;
	cut = last ? group->rows : find_cut(w, group);
	rc = writer_take_group(w, &rest);
	if (rc < 0)
		return rc;
	rc = group_split(group, cut, rest);
	for (uint32_t c = 0; rc == 0 && c < group->columns; c++)
		rc = prover_feed(&w->column[c].prover, &group->column[c], cut);
	if (rc < 0) {
		group_free(rest);
		return rc;
	}
	w->filling = rest;
	return writer_push(w, group);
}

static int append_rows(struct fth_table_writer *w, const struct fth_table_vector *columns,
		       uint32_t rows)
{
	uint32_t from = 0;
	int rc = 0;

	while (rc == 0 && from < rows) {
		uint32_t n = group_room(w->filling, columns, from, rows - from);

		if (n == 0) {
			rc = send_group(w, false);
			continue;
		}
		rc = group_append(w->filling, columns, from, n);
		from += n;
	}
	return rc;
}

int fth_table_writer_append(struct fth_table_writer *w, const struct fth_table_vector *columns,
			    uint32_t rows)
{
	int rc = writer_failed(w);

	if (rc == 0 && w->committed)
		rc = fth_fail(EINVAL, "the batch is already committed");
	if (rc == 0)
		rc = writer_check(&w->manifest.schema, columns, rows, w->rows);
	if (rc == 0)
		rc = append_rows(w, columns, rows);
	if (rc < 0)
		return writer_fail(w, rc);
	w->rows += rows;
	return 0;
}

/* ---- ending ---- */

static int write_manifest(struct fth_table_writer *w)
{
	struct blob blob;
	int rc = writer_finish(w);

	if (rc == 0)
		rc = manifest_write(&w->manifest, &blob.bytes, &blob.length);
	if (rc < 0)
		return rc;
	rc = w->output->ops->commit(w->output, &blob);
	free(blob.bytes);
	return rc;
}

int fth_table_writer_commit(struct fth_table_writer *w)
{
	int rc = writer_failed(w);

	if (rc == 0 && w->committed)
		rc = fth_fail(EINVAL, "the batch is already committed");
	if (rc == 0 && w->filling->rows)
		rc = send_group(w, true);
	if (rc == 0)
		rc = writer_drain(w);
	w->committed = true;
	if (rc == 0 && w->rows)
		rc = write_manifest(w);
	return rc < 0 ? writer_fail(w, rc) : 0;
}

static void free_groups(struct group *group)
{
	while (group) {
		struct group *next = group->next;

		group_free(group);
		group = next;
	}
}

void fth_table_writer_close(struct fth_table_writer *w)
{
	if (!w)
		return;
	writer_stop(w);
	group_free(w->filling);
	free_groups(w->queue);
	free_groups(w->free);
	for (uint32_t i = 0; i < w->numbers && i < w->written_room; i++)
		free(w->written[i].chunk);
	free(w->written);
	for (uint32_t c = 0; w->column && c < w->manifest.schema.columns; c++) {
		prover_release(&w->column[c].prover);
		dict_release(&w->column[c].dict.dict);
		pthread_rwlock_destroy(&w->column[c].dict.lock);
	}
	free(w->column);
	manifest_release(&w->manifest);
	if (w->output)
		w->output->ops->close(w->output);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->idle);
	free(w);
}
