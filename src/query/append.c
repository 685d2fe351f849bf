/* SPDX-License-Identifier: BSD-2-Clause */
/* INSERT and COPY: rows become one batch of the table, all of them or none. */
#include "query/query.h"
#include "query/exec/estimate.h"
#include "query/spill/result_rows.h"
#include "table/write/writer.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE 512u /* rows: their text is copied, and is to take little memory */

bool append_same_columns(const struct fth_table_schema *a, const struct fth_table_schema *b)
{
	if (a->columns != b->columns)
		return false;
	for (uint32_t i = 0; i < a->columns; i++) {
		const struct fth_table_column *x = &a->column[i], *y = &b->column[i];

		if (strcmp(x->name, y->name) != 0 || x->type != y->type ||
		    x->precision != y->precision || x->scale != y->scale ||
		    x->length != y->length || x->not_null != y->not_null)
			return false;
	}
	return true;
}

/* The statement was compiled for a table that another process may have replaced since. */
static int check_writer(struct statement *s, struct fth_table_writer *writer)
{
	struct fth_table *compiled = catalog_table(s->catalog, s->sql->table);

	if (append_same_columns(fth_table_schema(compiled), fth_table_writer_schema(writer)))
		return 0;
	return fth_fail(EBUSY, "table \"%s\" was replaced by one with other columns", s->sql->name);
}

static void close_writer(struct statement *s, struct fth_table_writer *writer)
{
	fth_table_writer_close(writer);
	fth_qmem_discharge(s->mem, s->writer_bytes);
	s->writer_bytes = 0;
}

/*
 * The writer's part of the free memory: half beside a query, or less if the query needs more; most
 * without a query.
 */
static uint64_t writer_memory(struct statement *s, const struct task_set *query)
{
	const struct fth_table *table = catalog_table(s->catalog, s->sql->table);
	uint64_t least = writer_least(fth_table_schema(table)), free = fth_qmem_available(s->mem);
	uint64_t needed = query ? 2 * estimate_least(query, 0) : 0;
	uint64_t half = free / 2, left = free > needed ? free - needed : 0;

	if (!query)
		return free - free / 8;
	half = half < left ? half : left;
	least = least < free / 2 ? least : free / 2;
	return half > least ? half : least;
}

/* The writer allocates by itself, within memory that is charged for it before. */
static int open_writer(struct statement *s, const struct task_set *query,
		       struct fth_table_writer **out)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	char budget[64];
	int rc = name_reserved(s->sql->name);

	*out = NULL;
	if (rc < 0)
		return rc;
	options.threads = s->query->db->threads;
	options.memory = writer_memory(s, query);
	rc = fth_qmem_charge(s->mem, options.memory);
	if (rc < 0)
		return rc;
	s->writer_bytes = options.memory;
	rc = fth_table_writer_open(s->query->db->tables, s->sql->name, &options, out);
	if (rc == 0)
		rc = check_writer(s, *out);
	snprintf(budget, sizeof(budget), "of a budget of %llu KiB",
		 (unsigned long long)(s->query->db->budget >> 10));
	if (rc == -ENOMEM)
		fth_fail_in(rc, budget);
	if (rc < 0)
		close_writer(s, *out);
	return rc;
}

static int commit(struct statement *s, struct fth_table_writer *writer)
{
	int rc = statement_canceled(s);

	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	if (rc == 0)
		s->query->report.rows = fth_table_writer_rows(writer);
	return rc;
}

/* ---- transactions ---- */

/* The writer of the transaction, which the first statement that appends opens. */
static int join_transaction(struct statement *s, struct fth_table_writer **out)
{
	struct query_transaction *t = &s->query->transaction;
	const struct fth_table *table = catalog_table(s->catalog, s->sql->table);
	uint64_t least = writer_least(fth_table_schema(table));
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	int rc = name_reserved(s->sql->name);

	*out = t->writer;
	if (t->writer && strcmp(t->table, s->sql->name) != 0)
		return fth_fail(EOPNOTSUPP,
				"a transaction can append to one table: it has rows for \"%s\"",
				t->table);
	if (rc < 0 || t->writer)
		return rc < 0 ? rc : check_writer(s, t->writer);
	/* It stays open between statements, which need the rest. */
	options.memory = s->query->db->budget / 8;
	if (options.memory < least)
		options.memory = least;
	options.threads = s->query->db->threads;
	t->table = strdup(s->sql->name);
	if (!t->table)
		return -ENOMEM;
	rc = fth_qmem_charge(s->query->db->mem, options.memory);
	if (rc == 0) {
		t->bytes = options.memory;
		rc = fth_table_writer_open(s->query->db->tables, s->sql->name, &options, out);
		t->writer = *out;
	}
	if (rc == 0)
		rc = check_writer(s, *out);
	if (rc < 0 && !t->writer)
		transaction_release(s->query);
	return rc;
}

void transaction_release(struct fth_query *query)
{
	struct query_transaction *t = &query->transaction;

	fth_table_writer_close(t->writer);
	fth_qmem_discharge(query->db->mem, t->bytes);
	free(t->table);
	*t = (struct query_transaction){.open = t->open};
}

int fth_query_begin(struct fth_query *query)
{
	if (query->transaction.open)
		return fth_fail(EINVAL, "query: there is a transaction already");
	query->transaction.open = true;
	return 0;
}

int fth_query_commit(struct fth_query *query)
{
	struct query_transaction *t = &query->transaction;
	int rc = 0;

	if (t->failed)
		rc = fth_fail(EINVAL, "a statement of the transaction failed after it had rows");
	else if (t->writer)
		rc = fth_table_writer_commit(t->writer);
	transaction_release(query);
	t->open = false;
	return rc;
}

void fth_query_rollback(struct fth_query *query)
{
	transaction_release(query);
	query->transaction.open = false;
}

/* The writer of an INSERT or COPY, before it has rows, and after. */
static int begin_append(struct statement *s, const struct task_set *query,
			struct fth_table_writer **out, uint64_t *before)
{
	int rc = s->query->transaction.open ? join_transaction(s, out) : open_writer(s, query, out);

	*before = rc == 0 ? fth_table_writer_rows(*out) : 0;
	return rc;
}

static int end_append(struct statement *s, struct fth_table_writer *writer, uint64_t before, int rc)
{
	struct query_transaction *t = &s->query->transaction;

	if (t->open) {
		t->failed |= rc < 0 && fth_table_writer_rows(writer) > before;
		s->query->report.rows = rc == 0 ? fth_table_writer_rows(writer) - before : 0;
		return rc;
	}
	if (rc == 0)
		rc = commit(s, writer);
	close_writer(s, writer);
	return rc;
}

/* ---- INSERT ---- */

/* One column of the rows, with memory for a slice. */
struct insertion_column {
	enum fth_table_kind kind;
	void *values; /* or offsets */
	uint8_t *nulls;
};

/* Rows on their way from vectors of the engine to those of the writer. */
struct insertion {
	struct statement *statement;
	struct fth_table_writer *writer;
	const struct fth_table_schema *schema;
	struct insertion_column *buffers;
	struct fth_table_vector *columns;
	struct fth_arena arena; /* of the text of one slice */
	uint16_t selected[FTH_BATCH + 64];
	/* the slice: rows of a batch that are appended at a time */
	const uint16_t *rows;
	unsigned n;
};

static size_t value_bytes(enum fth_table_kind kind)
{
	return kind == FTH_TABLE_KIND_STRING ? sizeof(uint32_t)
	       : kind == FTH_TABLE_KIND_WIDE ? sizeof(struct fth_table_wide)
					     : sizeof(int64_t);
}

/* Buffers of all columns; null in all rows until a column gets values. */
static int open_buffers(struct insertion *in)
{
	struct fth_arena *arena = &in->statement->arena;
	unsigned n = in->schema->columns;

	in->buffers = fth_arena_alloc(arena, n * sizeof(*in->buffers), 64);
	in->columns = fth_arena_alloc(arena, n * sizeof(*in->columns), 64);
	if (!in->buffers || !in->columns)
		return -ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		struct insertion_column *b = &in->buffers[i];
		size_t bytes;

		b->kind = fth_table_kind(&in->schema->column[i]);
		bytes = (SLICE + 1) * value_bytes(b->kind);
		b->values = fth_arena_alloc(arena, bytes, 64);
		b->nulls = fth_arena_alloc(arena, SLICE, 64);
		if (!b->values || !b->nulls)
			return -ENOMEM;
		memset(b->values, 0, bytes);
		memset(b->nulls, 1, SLICE);
		in->columns[i] = (struct fth_table_vector){b->values, b->values, "", b->nulls};
	}
	return 0;
}

static int64_t int_of(const struct fth_vec *v, unsigned row)
{
	return v->type == FTH_BITS ? fth_bit(v->data, row) : (int64_t)fth_vec_int(v, row);
}

static struct fth_table_wide wide_of(const struct fth_vec *v, unsigned row)
{
	fth_i128 value = fth_vec_int(v, row);

	return (struct fth_table_wide){(uint64_t)value, (int64_t)(value >> 64)};
}

static void fill_numbers(const struct insertion *in, enum fth_table_kind kind,
			 const struct fth_vec *v, const uint8_t *nulls, void *values)
{
	for (unsigned i = 0; i < in->n; i++) {
		unsigned row = in->rows[i];

		if (kind == FTH_TABLE_KIND_DOUBLE)
			((double *)values)[i] = nulls[i] ? 0 : ((const double *)v->data)[row];
		else if (kind == FTH_TABLE_KIND_WIDE)
			((struct fth_table_wide *)values)[i] =
				nulls[i] ? (struct fth_table_wide){0, 0} : wide_of(v, row);
		else
			((int64_t *)values)[i] = nulls[i] ? 0 : int_of(v, row);
	}
}

static int fill_strings(struct insertion *in, const struct fth_vec *v, const uint8_t *nulls,
			uint32_t *offsets, const char **bytes)
{
	uint64_t total = 0;
	char *to;

	for (unsigned i = 0; i < in->n; i++)
		total += nulls[i] ? 0 : rows_text(v, in->rows[i]).len;
	if (total > UINT32_MAX)
		return fth_fail(EOPNOTSUPP, "a batch of %u rows has more than 4 GiB of text",
				in->n);
	to = fth_arena_alloc(&in->arena, total + 1, 1);
	if (!to)
		return -ENOMEM;
	*bytes = to;
	total = 0;
	for (unsigned i = 0; i < in->n; i++) {
		struct fth_str s = rows_text(v, in->rows[i]);

		offsets[i] = (uint32_t)total;
		if (nulls[i])
			continue;
		memcpy(to + total, s.data, s.len);
		total += s.len;
	}
	offsets[in->n] = (uint32_t)total;
	return 0;
}

static int fill_column(struct insertion *in, unsigned column, const struct fth_vec *v)
{
	const struct insertion_column *to = &in->buffers[column];

	for (unsigned i = 0; i < in->n; i++)
		to->nulls[i] = v->nulls && fth_bit(v->nulls, in->rows[i]);
	if (to->kind == FTH_TABLE_KIND_STRING)
		return fill_strings(in, v, to->nulls, to->values, &in->columns[column].bytes);
	fill_numbers(in, to->kind, v, to->nulls, to->values);
	return 0;
}

static int insert_slice(struct insertion *in, const struct fth_vec *columns)
{
	const struct sql_statement *sql = in->statement->sql;
	int rc = 0;

	fth_arena_init(&in->arena, in->statement->mem, 1 << 14);
	for (unsigned i = 0; i < sql->target_count && rc == 0; i++)
		rc = fill_column(in, sql->targets[i], &columns[i]);
	if (rc == 0)
		rc = fth_table_writer_append(in->writer, in->columns, in->n);
	fth_arena_release(&in->arena);
	return rc;
}

static int insert_rows(void *user, const struct fth_vec *columns, const struct fth_sel *sel)
{
	struct insertion *in = user;
	unsigned n = fth_bits_rows(sel->bits, sel->n, in->selected);
	int rc = statement_canceled(in->statement);

	for (unsigned from = 0; from < n && rc == 0; from += SLICE) {
		in->rows = in->selected + from;
		in->n = n - from < SLICE ? n - from : SLICE;
		rc = insert_slice(in, columns);
	}
	return rc;
}

int statement_insert(struct statement *s)
{
	struct insertion *in;
	uint64_t before;
	int rc = statement_plan(s);

	if (rc < 0)
		return rc;
	in = fth_arena_alloc(&s->arena, sizeof(*in), 64);
	if (!in)
		return -ENOMEM;
	in->statement = s;
	rc = begin_append(s, &s->set, &in->writer, &before);
	if (rc < 0)
		return rc;
	in->schema = fth_table_writer_schema(in->writer);
	rc = open_buffers(in);
	if (rc == 0)
		rc = statement_exec(s, insert_rows, in, NULL);
	return end_append(s, in->writer, before, rc);
}

/* ---- COPY ---- */

static bool is_true(const char *value)
{
	return *value == '\0' || strcasecmp(value, "true") == 0 || strcasecmp(value, "on") == 0 ||
	       strcmp(value, "1") == 0;
}

static int one_character(const struct sql_option *option, char *to)
{
	if (strcmp(option->value, "\\t") == 0)
		*to = '\t';
	else if (strlen(option->value) == 1)
		*to = option->value[0];
	else
		return fth_fail(EINVAL, "COPY: %s \"%s\" must be a single character", option->name,
				option->value);
	return 0;
}

static int take_format(const struct sql_option *option, struct fth_table_text *text)
{
	static const struct fth_table_text csv = FTH_TABLE_TEXT_CSV, plain = FTH_TABLE_TEXT_BAR;

	if (strcasecmp(option->value, "csv") == 0) {
		*text = csv;
	} else if (strcasecmp(option->value, "text") == 0) {
		*text = plain;
		text->delimiter = '\t';
		text->null = "\\N";
	} else {
		return fth_fail(EOPNOTSUPP, "COPY: format \"%s\" is not supported; use csv or text",
				option->value);
	}
	return 0;
}

static int take_option(const struct sql_option *option, struct fth_table_text *text)
{
	if (strcmp(option->name, "format") == 0)
		return 0;
	if (strcmp(option->name, "delimiter") == 0)
		return one_character(option, &text->delimiter);
	if (strcmp(option->name, "quote") == 0)
		return one_character(option, &text->quote);
	if (strcmp(option->name, "header") == 0)
		text->header = strcasecmp(option->value, "match") == 0 ? FTH_TABLE_HEADER_NAMES
			       : is_true(option->value)		       ? FTH_TABLE_HEADER_SKIP
								       : FTH_TABLE_HEADER_NONE;
	else if (strcmp(option->name, "null") == 0)
		text->null = option->value;
	else
		return fth_fail(EOPNOTSUPP, "COPY: option \"%s\" is not supported", option->name);
	return 0;
}

/* The format first, since it changes what the others have as default. */
static int copy_layout(const struct sql_statement *sql, struct fth_table_text *text)
{
	int rc = take_format(&(struct sql_option){"format", "text"}, text);

	for (unsigned i = 0; i < sql->option_count && rc == 0; i++)
		if (strcmp(sql->options[i].name, "format") == 0)
			rc = take_format(&sql->options[i], text);
	for (unsigned i = 0; i < sql->option_count && rc == 0; i++)
		rc = take_option(&sql->options[i], text);
	return rc;
}

static int check_copy(const struct sql_statement *sql)
{
	bool whole = sql->target_count == sql->table->column_count;

	for (unsigned i = 0; i < sql->target_count; i++)
		whole &= sql->targets[i] == i;
	if (!whole)
		return fth_fail(EOPNOTSUPP,
				"COPY: the column list must name all columns, in table order");
	if (!sql->file)
		return fth_fail(EOPNOTSUPP, "COPY FROM STDIN is not supported");
	return 0;
}

static int watch(uint64_t done, uint64_t total, void *user)
{
	(void)done;
	(void)total;
	return statement_canceled(user) < 0;
}

int statement_copy(struct statement *s)
{
	struct fth_table_writer *writer;
	struct fth_table_text text;
	uint64_t before;
	int rc = check_copy(s->sql);

	if (rc == 0)
		rc = copy_layout(s->sql, &text);
	if (rc == 0)
		rc = begin_append(s, NULL, &writer, &before);
	if (rc < 0)
		return rc;
	rc = fth_table_load(writer, &s->sql->file, 1, &text, watch, s);
	return end_append(s, writer, before, rc);
}
