/* SPDX-License-Identifier: BSD-2-Clause */
/* Results for the caller: batches of rows, read value by value. */
#include "query/query.h"
#include "query/spill/result_rows.h"
#include "scalar/calendar.h"
#include "scalar/calendar.h"
#include "scalar/num.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- values ---- */

unsigned fth_query_columns(const struct fth_query_batch *b)
{
	return b->column_count;
}

const struct fth_query_column *fth_query_column(const struct fth_query_batch *b, unsigned column)
{
	return &b->columns[column];
}

unsigned fth_query_rows(const struct fth_query_batch *b)
{
	return b->row_count;
}

bool fth_query_null(const struct fth_query_batch *b, unsigned row, unsigned column)
{
	const uint64_t *nulls = b->vectors[column].nulls;

	return nulls && fth_bit(nulls, b->rows[row]);
}

static fth_i128 integer_at(const struct fth_query_batch *b, unsigned row, unsigned column)
{
	const struct fth_vec *v = &b->vectors[column];

	if (v->type == FTH_BITS)
		return fth_bit(v->data, b->rows[row]);
	return fth_vec_int(v, b->rows[row]);
}

int64_t fth_query_int(const struct fth_query_batch *b, unsigned row, unsigned column)
{
	return (int64_t)integer_at(b, row, column);
}

struct fth_table_wide fth_query_wide(const struct fth_query_batch *b, unsigned row, unsigned column)
{
	fth_i128 value = integer_at(b, row, column);

	return (struct fth_table_wide){(uint64_t)value, (int64_t)(value >> 64)};
}

double fth_query_double(const struct fth_query_batch *b, unsigned row, unsigned column)
{
	return ((const double *)b->vectors[column].data)[b->rows[row]];
}

const char *fth_query_string(const struct fth_query_batch *b, unsigned row, unsigned column,
			     size_t *length)
{
	struct fth_str s = rows_text(&b->vectors[column], b->rows[row]);

	*length = s.len;
	return s.data;
}

/* ---- text ---- */

static unsigned print_value(const struct fth_query_batch *b, unsigned row, unsigned column,
			    char text[FTH_NUM_TEXT])
{
	const struct fth_query_column *c = &b->columns[column];

	switch (c->type) {
	case FTH_TABLE_BOOL:
		text[0] = integer_at(b, row, column) != 0 ? 't' : 'f';
		return 1;
	case FTH_TABLE_DOUBLE:
		return fth_f64_text(fth_query_double(b, row, column), text);
	case FTH_TABLE_DATE:
		return fth_date_text((int32_t)fth_query_int(b, row, column), text);
	default:
		return fth_dec_text(integer_at(b, row, column), c->scale, text);
	}
}

size_t fth_query_text(const struct fth_query_batch *b, unsigned row, unsigned column, char *to,
		      size_t size)
{
	enum fth_table_type type = b->columns[column].type;
	char own[FTH_NUM_TEXT];
	const char *text = own;
	size_t length = 0, copied;

	if (fth_query_null(b, row, column))
		length = 0;
	else if (type == FTH_TABLE_CHAR || type == FTH_TABLE_VARCHAR)
		text = fth_query_string(b, row, column, &length);
	else
		length = print_value(b, row, column, own);
	if (size == 0)
		return length;
	copied = length < size ? length : size - 1;
	memcpy(to, text, copied);
	to[copied] = '\0';
	return length;
}

/* ---- batches ---- */

static struct fth_query_column describe(const char *name, struct fth_type type)
{
	static const enum fth_table_type types[FTH_T_COUNT] = {
		[FTH_T_BOOL] = FTH_TABLE_BOOL,	  [FTH_T_INT32] = FTH_TABLE_INT32,
		[FTH_T_INT64] = FTH_TABLE_INT64,  [FTH_T_DECIMAL] = FTH_TABLE_DECIMAL,
		[FTH_T_DATE] = FTH_TABLE_DATE,	  [FTH_T_DOUBLE] = FTH_TABLE_DOUBLE,
		[FTH_T_TEXT] = FTH_TABLE_VARCHAR, [FTH_T_CHAR] = FTH_TABLE_CHAR,
	};
	bool decimal = type.kind == FTH_T_DECIMAL;

	return (struct fth_query_column){name, types[type.kind], decimal ? type.precision : 0,
					 decimal ? type.scale : 0, type.length};
}

static int batch_new(struct statement *s, unsigned columns, struct fth_query_batch **out)
{
	struct fth_query_batch *b = fth_arena_alloc(&s->arena, sizeof(*b), 64);

	*out = b;
	if (!b)
		return -ENOMEM;
	b->statement = s;
	b->column_count = columns;
	b->row_count = 0;
	b->vectors = NULL;
	b->columns = fth_arena_alloc(&s->arena, (columns + 1) * sizeof(*b->columns), 64);
	return b->columns ? 0 : -ENOMEM;
}

static int hand_over(struct fth_query_batch *b)
{
	struct statement *s = b->statement;
	int rc = s->rows ? s->rows(b, s->user) : 0;

	s->query->report.rows += b->row_count;
	return rc;
}

static int emit_rows(void *user, const struct fth_vec *columns, const struct fth_sel *sel)
{
	struct fth_query_batch *b = user;
	int rc = statement_canceled(b->statement);

	if (rc < 0)
		return rc;
	b->vectors = columns;
	b->row_count = fth_bits_rows(sel->bits, sel->n, b->rows);
	return b->row_count == 0 ? 0 : hand_over(b);
}

int statement_rows(struct statement *s)
{
	const struct task *last = &s->set.tasks[s->set.task_count - 1];
	struct fth_query_batch *b;
	int rc = batch_new(s, last->result_count, &b);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < last->result_count; i++)
		b->columns[i] = describe(s->set.names[i], last->result[i].type);
	rc = hand_over(b);
	return rc < 0 ? rc : statement_exec(s, emit_rows, b, NULL);
}

int statement_columns(struct statement *s)
{
	const struct sql_query *query = &s->sql->query;
	enum fth_query_kind kind = s->query->report.kind;
	struct fth_query_batch *b;
	int rc;

	if (kind != FTH_QUERY_SELECT && kind != FTH_QUERY_EXPLAIN)
		return 0;
	rc = batch_new(s, kind == FTH_QUERY_SELECT ? query->output_count : 1, &b);
	if (rc < 0)
		return rc;
	b->columns[0] = describe("plan", fth_type(FTH_T_TEXT));
	for (unsigned i = 0; kind == FTH_QUERY_SELECT && i < query->output_count; i++) {
		struct sql_type type = query->columns[query->outputs[i]].type;
		bool decimal = type.kind == SQL_DECIMAL;

		b->columns[i] = (struct fth_query_column){
			query->output_names[i], (enum fth_table_type)type.kind,
			decimal ? (unsigned)type.precision : 0, decimal ? (unsigned)type.scale : 0,
			sql_is_string(type.kind) ? (uint32_t)type.length : 0};
	}
	return hand_over(b);
}

/* Up to a batch of lines, from *at on. */
static unsigned take_lines(const char **at, struct fth_str *lines)
{
	unsigned n = 0;

	while (**at != '\0' && n < FTH_BATCH) {
		size_t length = strcspn(*at, "\n");

		lines[n++] = (struct fth_str){*at, (uint32_t)length, 0};
		*at += length + ((*at)[length] == '\n');
	}
	return n;
}

int statement_lines(struct statement *s, const char *name, const char *text)
{
	struct fth_str *lines = fth_arena_alloc(&s->arena, FTH_BATCH * sizeof(*lines), 64);
	struct fth_vec vector = {.type = FTH_STR, .data = lines};
	struct fth_query_batch *b;
	int rc = lines ? batch_new(s, 1, &b) : -ENOMEM;

	if (rc < 0)
		return rc;
	b->columns[0] = describe(name, fth_type(FTH_T_TEXT));
	b->vectors = &vector;
	for (unsigned i = 0; i < FTH_BATCH; i++)
		b->rows[i] = (uint16_t)i;
	rc = hand_over(b);
	while (rc == 0 && (b->row_count = take_lines(&text, lines)) > 0)
		rc = hand_over(b);
	return rc;
}
