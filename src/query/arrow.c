/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of a result as Arrow arrays: types and memory. arrow_stream.c makes a stream of them. */
#include "query/arrow.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- schemas ---- */

static void release_schema(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++) {
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
		free(schema->children[i]);
	}
	free(schema->children);
	free((char *)schema->format);
	free((char *)schema->name);
	schema->release = NULL;
}

static char *format_of(const struct fth_query_column *c)
{
	static const char *const formats[] = {
		[FTH_TABLE_BOOL] = "b",	  [FTH_TABLE_INT32] = "i",  [FTH_TABLE_INT64] = "l",
		[FTH_TABLE_DATE] = "tdD", [FTH_TABLE_DOUBLE] = "g", [FTH_TABLE_CHAR] = "u",
		[FTH_TABLE_VARCHAR] = "u"};
	char text[32];

	if (c->type != FTH_TABLE_DECIMAL)
		return strdup(formats[c->type]);
	snprintf(text, sizeof(text), "d:%u,%u", c->precision == 0 ? 38 : c->precision, c->scale);
	return strdup(text);
}

static int fill_schema(struct ArrowSchema *schema, char *format, const char *name,
		       unsigned children)
{
	memset(schema, 0, sizeof(*schema));
	schema->format = format;
	schema->name = strdup(name);
	schema->release = release_schema;
	schema->children = calloc(children + 1, sizeof(struct ArrowSchema *));
	return !format || !schema->name || !schema->children ? -ENOMEM : 0;
}

int arrow_schema(const struct fth_query_column *columns, unsigned count, struct ArrowSchema *out)
{
	int rc = fill_schema(out, strdup("+s"), "", count);

	for (unsigned i = 0; i < count && rc == 0; i++) {
		struct ArrowSchema *child = calloc(1, sizeof(*child));

		if (!child) {
			rc = -ENOMEM;
			break;
		}
		out->children[out->n_children++] = child;
		rc = fill_schema(child, format_of(&columns[i]), columns[i].name, 0);
		child->flags = ARROW_FLAG_NULLABLE;
	}
	if (rc < 0)
		out->release(out);
	return rc;
}

/* ---- arrays ---- */

static void release_array(struct ArrowArray *array)
{
	for (int64_t i = 0; i < array->n_buffers; i++)
		free((void *)array->buffers[i]);
	for (int64_t i = 0; i < array->n_children; i++) {
		if (array->children[i]->release)
			array->children[i]->release(array->children[i]);
		free(array->children[i]);
	}
	free(array->buffers);
	free(array->children);
	array->release = NULL;
}

static int new_array(struct ArrowArray *array, int64_t length, unsigned buffers, unsigned children)
{
	memset(array, 0, sizeof(*array));
	array->length = length;
	array->n_buffers = buffers;
	array->release = release_array;
	array->buffers = calloc(buffers + 1, sizeof(void *));
	array->children = calloc(children + 1, sizeof(struct ArrowArray *));
	if (array->buffers && array->children)
		return 0;
	array->n_buffers = array->buffers ? buffers : 0;
	return -ENOMEM;
}

/* Buffer i of so many bytes, zeroed. */
static void *new_buffer(struct ArrowArray *array, unsigned i, size_t bytes)
{
	void *buffer = calloc(bytes / 64 + 1, 64);

	array->buffers[i] = buffer;
	return buffer;
}

/* Arrow's bit says that a value is there. */
static int fill_validity(const struct fth_query_batch *b, unsigned column, struct ArrowArray *array)
{
	unsigned rows = fth_query_rows(b);
	uint8_t *bits = new_buffer(array, 0, rows / 8 + 1);

	if (!bits)
		return -ENOMEM;
	for (unsigned i = 0; i < rows; i++) {
		if (fth_query_null(b, i, column))
			array->null_count++;
		else
			bits[i / 8] |= (uint8_t)(1u << i % 8);
	}
	return 0;
}

static void fill_value(const struct fth_query_batch *b, enum fth_table_type type, unsigned i,
		       unsigned column, void *values)
{
	struct fth_table_wide wide;

	switch (type) {
	case FTH_TABLE_BOOL:
		((uint8_t *)values)[i / 8] |= (uint8_t)(fth_query_int(b, i, column) << i % 8);
		break;
	case FTH_TABLE_INT64:
		((int64_t *)values)[i] = fth_query_int(b, i, column);
		break;
	case FTH_TABLE_DECIMAL:
		wide = fth_query_wide(b, i, column);
		memcpy((char *)values + (size_t)i * 16, &wide, 16);
		break;
	case FTH_TABLE_DOUBLE:
		((double *)values)[i] = fth_query_double(b, i, column);
		break;
	default:
		((int32_t *)values)[i] = (int32_t)fth_query_int(b, i, column);
	}
}

static int fill_values(const struct fth_query_batch *b, unsigned column, struct ArrowArray *array)
{
	enum fth_table_type type = fth_query_column(b, column)->type;
	unsigned rows = fth_query_rows(b);
	void *values = new_buffer(array, 1, (size_t)rows * 16);

	if (!values)
		return -ENOMEM;
	for (unsigned i = 0; i < rows; i++)
		if (!fth_query_null(b, i, column))
			fill_value(b, type, i, column, values);
	return 0;
}

static int fill_strings(const struct fth_query_batch *b, unsigned column, struct ArrowArray *array)
{
	unsigned rows = fth_query_rows(b);
	int32_t *offsets = new_buffer(array, 1, (rows + 1) * sizeof(*offsets));
	size_t total = 0, length;
	char *bytes;

	for (unsigned i = 0; i < rows && offsets; i++) {
		if (!fth_query_null(b, i, column)) {
			(void)fth_query_string(b, i, column, &length);
			total += length;
		}
		if (total > INT32_MAX)
			return fth_fail(E2BIG, "column %s has more than 2 GiB of text in %u rows",
					fth_query_column(b, column)->name, rows);
		offsets[i + 1] = (int32_t)total;
	}
	bytes = new_buffer(array, 2, total);
	if (!offsets || !bytes)
		return -ENOMEM;
	for (unsigned i = 0; i < rows; i++) {
		if (fth_query_null(b, i, column))
			continue;
		memcpy(bytes + offsets[i], fth_query_string(b, i, column, &length),
		       (size_t)(offsets[i + 1] - offsets[i]));
	}
	return 0;
}

static int fill_column(const struct fth_query_batch *b, unsigned column, struct ArrowArray *array)
{
	enum fth_table_type type = fth_query_column(b, column)->type;
	bool text = type == FTH_TABLE_CHAR || type == FTH_TABLE_VARCHAR;
	int rc = new_array(array, fth_query_rows(b), text ? 3 : 2, 0);

	if (rc == 0)
		rc = fill_validity(b, column, array);
	if (rc == 0)
		rc = text ? fill_strings(b, column, array) : fill_values(b, column, array);
	return rc;
}

int arrow_array(const struct fth_query_batch *b, struct ArrowArray *out)
{
	unsigned count = fth_query_columns(b);
	int rc = new_array(out, fth_query_rows(b), 1, count);

	for (unsigned i = 0; i < count && rc == 0; i++) {
		struct ArrowArray *child = calloc(1, sizeof(*child));

		if (!child) {
			rc = -ENOMEM;
			break;
		}
		out->children[out->n_children++] = child;
		rc = fill_column(b, i, child);
	}
	if (rc < 0)
		out->release(out);
	return rc;
}
