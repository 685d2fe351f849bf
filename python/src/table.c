/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows from memory into a table: a Writer appends batches of columns, and commits them all. */
#include "query.h"

#include <stdlib.h>

#include "fathom/table/write.h"

struct writer_object {
	PyObject ob_base;
	struct core_handle handle;
	PyObject *engine;
	struct fth_table_writer *writer;
};

static PyTypeObject *writer_type;

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"engine", "table", "memory", NULL};
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	struct engine_object *engine;
	struct writer_object *self;
	unsigned long long memory;
	PyObject *holder;
	const char *table;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OsK", names, &holder, &table, &memory) ||
	    !(engine = core_engine_begin(holder)))
		return NULL;
	self = core_alloc(type);
	if (!self) {
		core_handle_end(&engine->handle);
		return NULL;
	}
	options.memory = memory;
	CORE_UNLOCKED(rc = fth_table_writer_open(fth_query_tables(engine->db), table, &options,
						 &self->writer));
	if (rc < 0) {
		core_handle_end(&engine->handle);
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	Py_INCREF(holder);
	self->engine = holder;
	core_handle_open(&self->handle, "writer");
	return (PyObject *)self;
}

static void writer_release(struct writer_object *self)
{
	CORE_UNLOCKED(fth_table_writer_close(self->writer));
	core_handle_end(&((struct engine_object *)self->engine)->handle);
}

static PyObject *writer_close(PyObject *object, PyObject *none)
{
	struct writer_object *self = (struct writer_object *)object;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn > 0)
		writer_release(self);
	Py_RETURN_NONE;
}

static void writer_dealloc(PyObject *object)
{
	struct writer_object *self = (struct writer_object *)object;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0)
		writer_release(self);
	Py_XDECREF(self->engine);
	core_free(object);
}

/* One thread at a time. */
static bool writer_begin(struct writer_object *self)
{
	if (!core_handle_begin(&self->handle))
		return false;
	if (self->handle.users == 1)
		return true;
	core_handle_end(&self->handle);
	core_raise(fth_fail(EBUSY, "another thread uses this writer"));
	return false;
}

static char kind_of(const struct fth_table_column *column)
{
	switch (column->type) {
	case FTH_TABLE_DOUBLE:
		return 'd';
	case FTH_TABLE_CHAR:
	case FTH_TABLE_VARCHAR:
		return 's';
	case FTH_TABLE_DECIMAL:
		return column->precision > 18 ? 'w' : 'n';
	case FTH_TABLE_DATE:
		return 'D';
	case FTH_TABLE_BOOL:
		return '?';
	default:
		return 'l';
	}
}

static PyObject *writer_columns(PyObject *object, PyObject *none)
{
	struct writer_object *self = (struct writer_object *)object;
	const struct fth_table_schema *schema;
	PyObject *list;

	(void)none;
	if (!writer_begin(self))
		return NULL;
	schema = fth_table_writer_schema(self->writer);
	list = PyList_New(0);
	for (uint32_t i = 0; list && i < schema->columns; i++) {
		const struct fth_table_column *c = &schema->column[i];
		PyObject *item = Py_BuildValue("(sCi)", c->name, kind_of(c), (int)c->scale);

		if (!item || PyList_Append(list, item) < 0)
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	core_handle_end(&self->handle);
	return list;
}

/* ---- appending ---- */

/* The memory of one column: values, offsets, bytes and nulls; those that are not there are NULL. */
struct vector_memory {
	Py_buffer buffers[4];
	bool held[4];
};

static bool vector_get(PyObject *tuple, const struct fth_table_column *column, uint32_t rows,
		       struct vector_memory *memory, struct fth_table_vector *out)
{
	char kind = kind_of(column);
	uint64_t bytes[4] = {8 * (uint64_t)rows, 4 * ((uint64_t)rows + 1), UINT64_MAX, rows};

	if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != 4 || kind == 'w') {
		PyErr_Format(PyExc_TypeError, "column %s cannot be filled from memory",
			     column->name);
		return false;
	}
	for (unsigned i = 0; i < 4; i++) {
		PyObject *part = PyTuple_GetItem(tuple, i);

		if (!part)
			return false;
		if (part == Py_None)
			continue;
		if (!core_buffer(part, false, bytes[i], &memory->buffers[i]))
			return false;
		memory->held[i] = true;
	}
	if (kind == 's' ? !memory->held[1] || !memory->held[2] : !memory->held[0]) {
		PyErr_Format(PyExc_TypeError, "column %s has no values", column->name);
		return false;
	}
	out->values = memory->held[0] ? memory->buffers[0].buf : NULL;
	out->offsets = memory->held[1] ? memory->buffers[1].buf : NULL;
	out->bytes = memory->held[2] ? memory->buffers[2].buf : NULL;
	out->nulls = memory->held[3] ? memory->buffers[3].buf : NULL;
	if (kind == 's')
		for (uint32_t i = 0; i < rows; i++)
			if (out->offsets[i] > out->offsets[i + 1] ||
			    out->offsets[i + 1] > (uint64_t)memory->buffers[2].len) {
				PyErr_Format(PyExc_ValueError, "offsets of column %s",
					     column->name);
				return false;
			}
	return true;
}

static void vectors_release(struct vector_memory *memory, uint32_t n)
{
	for (uint32_t i = 0; memory && i < n; i++)
		for (unsigned k = 0; k < 4; k++)
			if (memory[i].held[k])
				PyBuffer_Release(&memory[i].buffers[k]);
	free(memory);
}

static PyObject *append_rows(struct writer_object *self, uint32_t rows, PyObject *list)
{
	const struct fth_table_schema *schema = fth_table_writer_schema(self->writer);
	struct vector_memory *memory = calloc(schema->columns, sizeof(*memory));
	struct fth_table_vector *vectors = calloc(schema->columns, sizeof(*vectors));
	bool good = memory && vectors;
	int rc = 0;

	if (!good)
		PyErr_NoMemory();
	if (good && PyList_Size(list) != (Py_ssize_t)schema->columns) {
		PyErr_Format(PyExc_ValueError, "the table has %u columns, not %zd", schema->columns,
			     PyList_Size(list));
		good = false;
	}
	for (uint32_t i = 0; good && i < schema->columns; i++)
		good = vector_get(PyList_GetItem(list, (Py_ssize_t)i), &schema->column[i], rows,
				  &memory[i], &vectors[i]);
	if (good)
		CORE_UNLOCKED(rc = fth_table_writer_append(self->writer, vectors, rows));
	vectors_release(memory, schema->columns);
	free(vectors);
	return good ? core_none(rc) : NULL;
}

static PyObject *writer_append(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
	struct writer_object *self = (struct writer_object *)object;
	PyObject *result;
	uint64_t rows;

	if (!core_arguments("append", n, 2) || !core_u64(args[0], &rows))
		return NULL;
	if (rows > UINT32_MAX || !PyList_Check(args[1]))
		return PyErr_Format(PyExc_ValueError, "append(rows, list of columns)");
	if (!writer_begin(self))
		return NULL;
	result = append_rows(self, (uint32_t)rows, args[1]);
	core_handle_end(&self->handle);
	return result;
}

static PyObject *writer_commit(PyObject *object, PyObject *none)
{
	struct writer_object *self = (struct writer_object *)object;
	int rc;

	(void)none;
	if (!writer_begin(self))
		return NULL;
	CORE_UNLOCKED(rc = fth_table_writer_commit(self->writer));
	core_handle_end(&self->handle);
	return core_none(rc);
}

static PyMethodDef methods[] = {
	CORE_NOARGS("close", writer_close, "close()\n--\n\nEnd; rows not committed are lost."),
	CORE_NOARGS("columns", writer_columns, "columns()\n--\n\nTuples of name, kind and scale."),
	CORE_FAST("append", writer_append,
		  "append(rows, columns)\n--\n\n"
		  "Append rows; each column is (values, offsets, bytes, nulls)."),
	CORE_NOARGS("commit", writer_commit, "commit()\n--\n\nMake the rows durable and visible."),
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Writer(engine, table, memory)\n--\n\nAppends rows to a table."},
	{Py_tp_new, writer_new},
	{Py_tp_dealloc, writer_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Writer",
	.basicsize = sizeof(struct writer_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int core_add_table(PyObject *module)
{
	writer_type = core_add_type(module, &spec);
	return writer_type ? 0 : -1;
}
