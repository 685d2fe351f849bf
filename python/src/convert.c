/* SPDX-License-Identifier: BSD-2-Clause */
/* Values of Arrow batches as Python objects, and as columns for numpy. */
#include "query.h"

#include <stdlib.h>
#include <string.h>

/* Days from 0001-01-01, which is 1 in Python, to 1970-01-01. */
#define EPOCH 719163

static PyObject *from_ordinal, *decimal;

static bool find_classes(void)
{
	PyObject *module;

	if (decimal)
		return true;
	module = PyImport_ImportModule("datetime");
	if (module) {
		PyObject *date = PyObject_GetAttrString(module, "date");

		from_ordinal = date ? PyObject_GetAttrString(date, "fromordinal") : NULL;
		Py_XDECREF(date);
		Py_DECREF(module);
	}
	module = from_ordinal ? PyImport_ImportModule("decimal") : NULL;
	if (module)
		decimal = PyObject_GetAttrString(module, "Decimal");
	Py_XDECREF(module);
	return decimal != NULL;
}

static bool bit(const uint8_t *bits, int64_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

static bool is_null(const struct ArrowArray *column, int64_t row)
{
	return column->null_count && column->buffers[0] && !bit(column->buffers[0], row);
}

/* Digits behind the point, from "d:P,S". */
static unsigned scale_of(const char *format)
{
	const char *comma = strchr(format, ',');

	return comma ? (unsigned)atoi(comma + 1) : 0;
}

/* ---- single values ---- */

static PyObject *decimal_of(__int128 value, unsigned scale)
{
	char text[64], *at = text + sizeof(text);
	unsigned __int128 rest = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
	unsigned digits = 0;

	*--at = '\0';
	do {
		if (digits == scale && scale)
			*--at = '.';
		*--at = (char)('0' + (int)(rest % 10));
		rest /= 10;
		digits++;
	} while (rest || digits <= scale);
	if (value < 0)
		*--at = '-';
	return PyObject_CallFunction(decimal, "s", at);
}

static PyObject *value_of(const char *format, const struct ArrowArray *column, int64_t row)
{
	const void *values = column->buffers[1];

	switch (format[0]) {
	case 'b':
		return PyBool_FromLong(bit(values, row));
	case 'i':
		return PyLong_FromLong(((const int32_t *)values)[row]);
	case 'l':
		return PyLong_FromLongLong(((const int64_t *)values)[row]);
	case 'g':
		return PyFloat_FromDouble(((const double *)values)[row]);
	case 't':
		return PyObject_CallFunction(from_ordinal, "i",
					     ((const int32_t *)values)[row] + EPOCH);
	case 'd':
		return decimal_of(((const __int128 *)values)[row], scale_of(format));
	default: {
		const int32_t *offsets = values;

		return PyUnicode_DecodeUTF8((const char *)column->buffers[2] + offsets[row],
					    offsets[row + 1] - offsets[row], "surrogateescape");
	}
	}
}

static PyObject *object_of(const struct ArrowSchema *schema, const struct ArrowArray *column,
			   int64_t row)
{
	if (is_null(column, row))
		Py_RETURN_NONE;
	return value_of(schema->format, column, row);
}

PyObject *core_rows_of_batch(const struct ArrowSchema *schema, const struct ArrowArray *batch)
{
	PyObject *list = find_classes() ? PyList_New((Py_ssize_t)batch->length) : NULL;

	for (int64_t row = 0; list && row < batch->length; row++) {
		PyObject *tuple = PyTuple_New((Py_ssize_t)schema->n_children);

		for (int64_t c = 0; tuple && c < schema->n_children; c++) {
			PyObject *value = object_of(schema->children[c], batch->children[c], row);

			if (!value || PyTuple_SetItem(tuple, (Py_ssize_t)c, value) < 0)
				Py_CLEAR(tuple);
		}
		if (!tuple || PyList_SetItem(list, (Py_ssize_t)row, tuple) < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* ---- columns ---- */

struct column {
	char kind;
	unsigned scale;
	size_t width; /* bytes of a value; 0: text */
	uint8_t *values;
	uint8_t *nulls; /* NULL until there is one */
	PyObject *texts;
};

struct columns {
	struct column *list;
	size_t n, rows, room;
};

static void column_init(struct column *column, const char *format)
{
	static const struct {
		char format, kind;
		size_t width;
	} kinds[] = {{'b', '?', 1}, {'i', 'i', 4}, {'l', 'l', 8},
		     {'g', 'd', 8}, {'t', 'D', 8}, {'d', 'd', 8}};

	memset(column, 0, sizeof(*column));
	column->kind = 's';
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (kinds[i].format == format[0]) {
			column->kind = kinds[i].kind;
			column->width = kinds[i].width;
		}
	column->scale = scale_of(format);
}

static void columns_release(struct columns *columns)
{
	for (size_t i = 0; i < columns->n; i++) {
		free(columns->list[i].values);
		free(columns->list[i].nulls);
		Py_XDECREF(columns->list[i].texts);
	}
	free(columns->list);
}

static bool resize(uint8_t **memory, size_t bytes)
{
	uint8_t *larger = realloc(*memory, bytes ? bytes : 1);

	if (!larger)
		return false;
	*memory = larger;
	return true;
}

/* Room for so many rows. Large memory moves without a copy. */
static bool columns_resize(struct columns *columns, size_t room)
{
	for (size_t i = 0; i < columns->n; i++) {
		struct column *c = &columns->list[i];

		if ((c->width && !resize(&c->values, room * c->width)) ||
		    (c->nulls && !resize(&c->nulls, room)))
			return false;
	}
	columns->room = room;
	return true;
}

static void copy_decimals(double *to, const __int128 *from, size_t n, unsigned scale)
{
	long double power = 1;

	for (unsigned i = 0; i < scale; i++)
		power *= 10;
	for (size_t i = 0; i < n; i++)
		to[i] = (double)((long double)from[i] / power);
}

static void copy_values(struct column *c, const struct ArrowArray *from, size_t at, size_t n,
			char format)
{
	const void *values = from->buffers[1];
	uint8_t *to = c->values + at * c->width;

	switch (format) {
	case 'b':
		for (size_t i = 0; i < n; i++)
			to[i] = bit(values, (int64_t)i);
		break;
	case 't':
		for (size_t i = 0; i < n; i++)
			((int64_t *)(void *)to)[i] = ((const int32_t *)values)[i];
		break;
	case 'd':
		copy_decimals((double *)(void *)to, values, n, c->scale);
		break;
	default:
		memcpy(to, values, n * c->width);
	}
}

static bool append_texts(struct column *c, const struct ArrowSchema *schema,
			 const struct ArrowArray *from, size_t n)
{
	if (!c->texts)
		c->texts = PyList_New(0);
	for (size_t i = 0; c->texts && i < n; i++) {
		PyObject *text = object_of(schema, from, (int64_t)i);

		if (!text || PyList_Append(c->texts, text) < 0) {
			Py_XDECREF(text);
			return false;
		}
		Py_DECREF(text);
	}
	return c->texts != NULL;
}

static bool note_nulls(struct columns *columns, struct column *c, const struct ArrowArray *from,
		       size_t n)
{
	if (!c->nulls && from->null_count) {
		c->nulls = calloc(columns->room, 1);
		if (!c->nulls)
			return false;
	}
	for (size_t i = 0; c->nulls && i < n; i++)
		c->nulls[columns->rows + i] = is_null(from, (int64_t)i);
	return true;
}

/* Append a batch. False: out of memory, or an exception of Python. */
static bool columns_add(struct columns *columns, const struct stream_object *stream)
{
	const struct ArrowArray *batch = &stream->batch;
	size_t n = (size_t)batch->length;

	if (columns->rows + n > columns->room &&
	    !columns_resize(columns, (columns->rows + n) * 3 / 2))
		return false;
	for (size_t i = 0; i < columns->n; i++) {
		const struct ArrowSchema *schema = stream->schema.children[i];
		struct column *c = &columns->list[i];

		if (c->width)
			copy_values(c, batch->children[i], columns->rows, n, schema->format[0]);
		else if (!append_texts(c, schema, batch->children[i], n))
			return false;
		if (c->width && !note_nulls(columns, c, batch->children[i], n))
			return false;
	}
	columns->rows += n;
	return true;
}

/* The memory goes to the objects. */
static PyObject *column_result(struct column *c, size_t rows)
{
	PyObject *values, *nulls = Py_None;

	if (!c->width && !c->texts)
		c->texts = PyList_New(0);
	values = c->texts;
	if (c->width) {
		values = core_bytes_new(c->values, rows * c->width);
		c->values = NULL;
	}
	Py_INCREF(nulls);
	if (c->nulls && values) {
		Py_DECREF(nulls);
		nulls = core_bytes_new(c->nulls, rows);
		c->nulls = NULL;
	}
	c->texts = NULL;
	return values && nulls ? Py_BuildValue("(CNN)", c->kind, values, nulls) : NULL;
}

static PyObject *columns_result(struct columns *columns)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < columns->n; i++) {
		PyObject *tuple = column_result(&columns->list[i], columns->rows);

		if (!tuple || PyList_Append(list, tuple) < 0)
			Py_CLEAR(list);
		Py_XDECREF(tuple);
	}
	return list;
}

PyObject *core_columns_of_stream(struct stream_object *self, uint64_t most)
{
	struct columns columns = {.n = (size_t)self->schema.n_children};
	PyObject *list = NULL;
	bool fits = true;
	int rc = 0;

	columns.list = calloc(columns.n + 1, sizeof(*columns.list));
	if (!columns.list || !find_classes())
		fits = false;
	for (size_t i = 0; fits && i < columns.n; i++)
		column_init(&columns.list[i], self->schema.children[i]->format);
	while (fits && columns.rows < most && (rc = core_stream_next(self)) > 0)
		fits = columns_add(&columns, self);
	if (fits && rc >= 0 && columns_resize(&columns, columns.rows))
		list = columns_result(&columns);
	if (!list && !PyErr_Occurred())
		PyErr_NoMemory();
	if (columns.list)
		columns_release(&columns);
	return list;
}
