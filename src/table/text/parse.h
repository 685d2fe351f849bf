/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsing blocks of delimited text into column vectors. */
#ifndef TABLE_PARSE_H
#define TABLE_PARSE_H

#include "table/value.h"

#include "fathom/table/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARSE_PADDING 64u /* bytes behind a text that may be looked at */
#define PARSE_TEXT    200u

struct parse_column {
	const struct fth_table_column *column;
	enum fth_table_kind kind;
	bool number; /* of kind INT, written with digits */
	struct value_limits limits;
	void *values;	   /* int64_t, double or struct fth_table_wide */
	uint32_t *offsets; /* strings */
	char *bytes;
	uint8_t *nulls;
	uint32_t used;	/* of bytes */
	bool any_nulls; /* nulls is filled up to the present row */
};

/* One thread's memory for rows. */
struct parser {
	const struct fth_table_schema *schema;
	const struct fth_table_text *text;
	uint32_t *order; /* the columns of the fields of a line */
	uint32_t fields;
	size_t null_length;
	bool ends[256]; /* characters that end an unquoted field */
	struct parse_column *column;
	struct fth_table_vector *vector;
	uint32_t rows, row_room;
	size_t text_room;
	char *scratch; /* a quoted field without its quotes */
	/* The first error: line counted from 0, and what is wrong. */
	uint64_t lines;
	char error[PARSE_TEXT];
};

/* -ENOMEM. The schema and text stay the caller's. */
int text_parser_init(struct parser *p, const struct fth_table_schema *schema,
		     const struct fth_table_text *text);
void text_parser_release(struct parser *p);

/*
 * Which columns the fields of a line belong to; the others are null. By default all columns, in
 * their order.
 */
void text_parser_fields(struct parser *p, const uint32_t *order, uint32_t fields);

/*
 * The columns that a header names: into order, which has room for one entry per column of the
 * schema, and *fields. It is the line [text, text + length), and text[length] a newline, followed
 * by PARSE_PADDING readable bytes. -EINVAL: p->error. -ENOMEM.
 */
int text_parser_header(struct parser *p, const char *text, size_t length, uint32_t *order,
		       uint32_t *fields);

/*
 * Parse whole lines: text[length] is a newline, followed by PARSE_PADDING readable bytes. It ends
 * the last line unless text ends with a newline. p->vector and p->rows are the result; p->lines is
 * the number of lines. -EINVAL: p->error, and p->lines is the line it is in. -ENOMEM.
 */
int text_parser_run(struct parser *p, const char *text, size_t length);

/* The length of the records that are complete in a text that begins with one; 0: none. */
size_t parse_whole(const struct fth_table_text *text, const char *bytes, size_t length);

#endif
