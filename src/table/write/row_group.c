/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/write/row_group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_FIRST (64u << 10) /* bytes that a column of strings begins with */

struct group *group_new(const struct fth_table_schema *schema, uint32_t rows, uint64_t text)
{
	struct group *group =
		calloc(1, sizeof(*group) + schema->columns * sizeof(group->column[0]));

	if (!group)
		return NULL;
	group->row_max = rows;
	group->text_max = text;
	group->columns = schema->columns;
	for (uint32_t c = 0; c < schema->columns; c++) {
		struct group_column *column = &group->column[c];

		column->kind = fth_table_kind(&schema->column[c]);
		column->trim = schema->column[c].type == FTH_TABLE_CHAR;
		column->null = malloc(rows);
		if (column->kind == FTH_TABLE_KIND_STRING)
			column->offsets = malloc(((size_t)rows + 1) * sizeof(uint32_t));
		else if (column->kind == FTH_TABLE_KIND_WIDE)
			column->wides = malloc(rows * sizeof(struct fth_table_wide));
		else
			column->ints = malloc(rows * sizeof(int64_t));
		if (!column->null || !column->ints) {
			group_free(group);
			return NULL;
		}
	}
	group_clear(group);
	return group;
}

void group_free(struct group *group)
{
	if (!group)
		return;
	for (uint32_t c = 0; c < group->columns; c++) {
		free(group->column[c].null);
		free(group->column[c].ints); /* whichever of the union it is */
		free(group->column[c].bytes);
	}
	free(group);
}

void group_clear(struct group *group)
{
	group->rows = 0;
	group->next = NULL;
	for (uint32_t c = 0; c < group->columns; c++) {
		group->column[c].nulls = 0;
		if (group->column[c].kind == FTH_TABLE_KIND_STRING)
			group->column[c].offsets[0] = 0;
	}
}

/* The rows of one string column that fit. At least one if the group is empty. */
static uint32_t string_room(const struct group *group, const struct group_column *column,
			    const struct fth_table_vector *in, uint32_t from, uint32_t n)
{
	uint32_t used = column->offsets[group->rows], left = GROUP_TEXT_MAX - used, low = 0;
	uint32_t high = n;

	if (used == 0 && n > 0)
		low = 1;
	while (low < high) { /* the largest count whose text fits */
		uint32_t middle = low + (high - low + 1) / 2;

		if (in->offsets[from + middle] - in->offsets[from] <= left)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Bytes of all strings of n rows. */
static uint64_t text_of(const struct group *group, const struct fth_table_vector *columns,
			uint32_t from, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t c = 0; c < group->columns; c++)
		if (group->column[c].kind == FTH_TABLE_KIND_STRING)
			bytes += columns[c].offsets[from + n] - columns[c].offsets[from];
	return bytes;
}

static uint64_t text_used(const struct group *group)
{
	uint64_t bytes = 0;

	for (uint32_t c = 0; c < group->columns; c++)
		if (group->column[c].kind == FTH_TABLE_KIND_STRING)
			bytes += group->column[c].offsets[group->rows];
	return bytes;
}

/* The rows whose text fits beside that of the group. At least one if the group is empty. */
static uint32_t text_room(const struct group *group, const struct fth_table_vector *columns,
			  uint32_t from, uint32_t n)
{
	uint64_t used = text_used(group),
		 left = used < group->text_max ? group->text_max - used : 0;
	uint32_t low = group->rows == 0, high = n;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (text_of(group, columns, from, middle) <= left)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

uint32_t group_room(const struct group *group, const struct fth_table_vector *columns,
		    uint32_t from, uint32_t rows)
{
	uint32_t n = group->row_max - group->rows < rows ? group->row_max - group->rows : rows;

	for (uint32_t c = 0; n && c < group->columns; c++)
		if (group->column[c].kind == FTH_TABLE_KIND_STRING)
			n = string_room(group, &group->column[c], &columns[c], from, n);
	return n ? text_room(group, columns, from, n) : 0;
}

static int reserve_text(struct group_column *column, uint32_t bytes)
{
	uint32_t room = column->room ? column->room : TEXT_FIRST;
	char *grown;

	if (bytes <= column->room)
		return 0;
	while (room < bytes)
		room *= 2;
	grown = realloc(column->bytes, room);
	if (!grown)
		return -ENOMEM;
	column->bytes = grown;
	column->room = room;
	return 0;
}

/* Whether any string has to be changed: nulls become empty, and blanks at the end go. */
static bool needs_change(const struct group_column *column, const struct fth_table_vector *in,
			 uint32_t from, uint32_t n)
{
	const uint32_t *o = in->offsets;

	if (in->nulls)
		return true;
	for (uint32_t i = from; column->trim && i < from + n; i++)
		if (o[i + 1] > o[i] && in->bytes[o[i + 1] - 1] == ' ')
			return true;
	return false;
}

/* Copy strings one by one, changed. The text is not longer than it was. */
static int append_changed(struct group_column *column, uint32_t rows,
			  const struct fth_table_vector *in, uint32_t from, uint32_t n)
{
	uint32_t used = column->offsets[rows];
	int rc = reserve_text(column, used + (in->offsets[from + n] - in->offsets[from]));

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		const char *text = in->bytes + in->offsets[from + i];
		uint32_t length = in->offsets[from + i + 1] - in->offsets[from + i];

		if (in->nulls && in->nulls[from + i])
			length = 0;
		while (column->trim && length && text[length - 1] == ' ')
			length--;
		if (length)
			memcpy(column->bytes + used, text, length);
		used += length;
		column->offsets[rows + i + 1] = used;
	}
	return rc;
}

static int append_strings(struct group_column *column, uint32_t rows, const uint32_t *offsets,
			  const char *bytes, uint32_t n)
{
	uint32_t used = column->offsets[rows], length = offsets[n] - offsets[0];
	int rc = reserve_text(column, used + length);

	if (rc < 0)
		return rc;
	if (length)
		memcpy(column->bytes + used, bytes + offsets[0], length);
	for (uint32_t i = 0; i < n; i++)
		column->offsets[rows + i + 1] = used + (offsets[i + 1] - offsets[0]);
	return 0;
}

static void append_nulls(struct group_column *column, uint32_t rows, const uint8_t *null,
			 uint32_t n)
{
	if (!null && !column->nulls)
		return;
	if (!column->nulls)
		memset(column->null, 0, rows);
	for (uint32_t i = 0; i < n; i++) {
		column->null[rows + i] = null && null[i];
		column->nulls += null && null[i];
	}
}

static int append_column(struct group_column *column, uint32_t rows,
			 const struct fth_table_vector *in, uint32_t from, uint32_t n)
{
	const double *doubles = in->values;

	append_nulls(column, rows, in->nulls ? in->nulls + from : NULL, n);
	switch (column->kind) {
	case FTH_TABLE_KIND_STRING:
		return needs_change(column, in, from, n)
			       ? append_changed(column, rows, in, from, n)
			       : append_strings(column, rows, in->offsets + from, in->bytes, n);
	case FTH_TABLE_KIND_WIDE:
		memcpy(column->wides + rows, (const struct fth_table_wide *)in->values + from,
		       n * sizeof(struct fth_table_wide));
		return 0;
	case FTH_TABLE_KIND_DOUBLE:
		for (uint32_t i = 0; i < n; i++)
			column->ints[rows + i] = fth_table_double_key(doubles[from + i]);
		return 0;
	default:
		memcpy(column->ints + rows, (const int64_t *)in->values + from,
		       n * sizeof(int64_t));
		return 0;
	}
}

int group_append(struct group *group, const struct fth_table_vector *columns, uint32_t from,
		 uint32_t n)
{
	int rc = 0;

	for (uint32_t c = 0; rc == 0 && c < group->columns; c++)
		rc = append_column(&group->column[c], group->rows, &columns[c], from, n);
	if (rc == 0)
		group->rows += n;
	return rc;
}

static int move_rows(struct group_column *from, uint32_t at, uint32_t n, struct group_column *to)
{
	switch (from->kind) {
	case FTH_TABLE_KIND_STRING:
		return append_strings(to, 0, from->offsets + at, from->bytes, n);
	case FTH_TABLE_KIND_WIDE:
		memcpy(to->wides, from->wides + at, n * sizeof(*to->wides));
		return 0;
	default:
		memcpy(to->ints, from->ints + at, n * sizeof(*to->ints));
		return 0;
	}
}

int group_split(struct group *group, uint32_t at, struct group *rest)
{
	uint32_t n = group->rows - at;

	for (uint32_t c = 0; c < group->columns; c++) {
		struct group_column *from = &group->column[c], *to = &rest->column[c];
		int rc = move_rows(from, at, n, to);

		if (rc < 0)
			return rc;
		to->nulls = 0;
		for (uint32_t i = 0; from->nulls && i < n; i++) {
			to->null[i] = from->null[at + i];
			to->nulls += to->null[i];
		}
		from->nulls -= to->nulls;
	}
	rest->rows = n;
	group->rows = at;
	return 0;
}

bool group_equal_before(const struct group_column *column, uint32_t i)
{
	const uint32_t *o = column->offsets;

	switch (column->kind) {
	case FTH_TABLE_KIND_STRING:
		return o[i + 1] - o[i] == o[i] - o[i - 1] &&
		       memcmp(column->bytes + o[i], column->bytes + o[i - 1], o[i + 1] - o[i]) == 0;
	case FTH_TABLE_KIND_WIDE:
		return memcmp(&column->wides[i], &column->wides[i - 1], sizeof(*column->wides)) ==
		       0;
	default:
		return column->ints[i] == column->ints[i - 1];
	}
}
