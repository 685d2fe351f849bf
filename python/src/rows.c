/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rows of an array in a file: the bytes of `count` rows of one size behind a header.
 *
 * The elements of the library's array are as large as row and header allow, since elements of up to
 * 8 bytes are copied word by word and larger ones with memcpy().
 */
#include "core.h"

#include <stdlib.h>

#include "fathom/array.h"

/* Between two looks for signals: Ctrl-C ends a call after so many bytes. */
#define STEP_BYTES (UINT64_C(16) << 20)

struct rows_object {
	PyObject ob_base;
	struct core_handle handle;
	PyObject *cache; /* a call on it is in progress while the array is open */
	struct fth_array *array;
	struct fth_rows rows;
	uint64_t row_bytes;
};

static PyTypeObject *rows_type;

/* ---- opening, closing ---- */

static uint64_t element_of(uint64_t first, uint64_t row_bytes)
{
	uint64_t bits = first | row_bytes | 512;

	return bits & -bits;
}

static int open_array(struct rows_object *self, struct fth_cache *cache, const char *uri,
		      uint64_t first, int readonly)
{
	struct fth_array_options options = FTH_ARRAY_OPTIONS_INIT;
	uint64_t element = element_of(first, self->row_bytes);
	int rc;

	self->rows.first = first / element;
	self->rows.elements = self->row_bytes / element;
	if (__builtin_mul_overflow(self->rows.count, self->rows.elements, &options.count) ||
	    __builtin_add_overflow(options.count, self->rows.first, &options.count))
		return fth_fail(EOVERFLOW, "%llu rows of %llu bytes",
				(unsigned long long)self->rows.count,
				(unsigned long long)self->row_bytes);
	options.readonly = readonly;
	options.lock = true;
	CORE_UNLOCKED(rc = fth_array_open(cache, uri, element, &options, &self->array));
	return rc;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"cache", "uri", "first", "row_bytes", "count", "readonly", NULL};
	unsigned long long first, row_bytes, count;
	struct rows_object *self;
	struct fth_cache *cache;
	PyObject *holder;
	const char *uri;
	int readonly, rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OsKKKp", names, &holder, &uri, &first,
					 &row_bytes, &count, &readonly))
		return NULL;
	if (row_bytes == 0 || count == 0)
		return PyErr_Format(PyExc_ValueError, "no rows");
	cache = core_cache_begin(holder);
	if (!cache)
		return NULL;
	self = core_alloc(type);
	if (!self) {
		core_cache_end(holder);
		return NULL;
	}
	self->row_bytes = row_bytes;
	self->rows.count = count;
	rc = open_array(self, cache, uri, first, readonly);
	if (rc < 0) {
		core_raise(rc);
		core_cache_end(holder);
		Py_DECREF(self);
		return NULL;
	}
	Py_INCREF(holder);
	self->cache = holder;
	core_handle_open(&self->handle, "array");
	return (PyObject *)self;
}

static PyObject *rows_close(PyObject *object, PyObject *none)
{
	struct rows_object *self = (struct rows_object *)object;
	int rc, turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	CORE_UNLOCKED(rc = fth_array_close(self->array));
	if (rc < 0) {
		self->handle.open = true; /* with all its changes; close() may be tried again */
		return core_raise(rc);
	}
	self->array = NULL;
	core_cache_end(self->cache);
	Py_RETURN_NONE;
}

/* Close without writing: for files that are about to be removed. */
static PyObject *rows_discard(PyObject *object, PyObject *none)
{
	struct rows_object *self = (struct rows_object *)object;
	int rc, turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	CORE_UNLOCKED(rc = fth_array_discard(self->array));
	if (rc < 0) {
		self->handle.open = true;
		return core_raise(rc);
	}
	self->array = NULL;
	core_cache_end(self->cache);
	Py_RETURN_NONE;
}

static void finish_array(struct rows_object *self)
{
	PyObject *type, *value, *trace;
	int rc;

	PyErr_Fetch(&type, &value, &trace);
	CORE_UNLOCKED(rc = fth_array_finish(&self->array));
	if (!self->array)
		core_cache_end(self->cache);
	if (rc < 0) {
		core_raise(rc);
		PyErr_WriteUnraisable((PyObject *)rows_type);
	}
	PyErr_Restore(type, value, trace);
}

static void rows_dealloc(PyObject *object)
{
	struct rows_object *self = (struct rows_object *)object;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0)
		finish_array(self);
	Py_XDECREF(self->cache);
	core_free(object);
}

/* ---- one row ---- */

static int64_t row_of(const struct rows_object *self, PyObject *object)
{
	int64_t i = PyLong_AsLongLong(object);

	if (i == -1 && PyErr_Occurred()) {
		if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
			PyErr_Clear();
			PyErr_Format(PyExc_IndexError, "row %R is out of range", object);
		}
		return -1;
	}
	if (i < 0)
		i += (int64_t)self->rows.count;
	if (i >= 0 && (uint64_t)i < self->rows.count)
		return i;
	PyErr_Format(PyExc_IndexError, "row %R is out of range: the array has %llu rows", object,
		     (unsigned long long)self->rows.count);
	return -1;
}

static PyObject *rows_get(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
	struct rows_object *self = (struct rows_object *)object;
	Py_buffer out;
	int64_t i;
	int rc;

	if (!core_arguments("get", n, 2) || (i = row_of(self, args[0])) < 0 ||
	    !core_buffer(args[1], true, self->row_bytes, &out))
		return NULL;
	if (!core_handle_begin(&self->handle)) {
		PyBuffer_Release(&out);
		return NULL;
	}
	CORE_UNLOCKED(rc = fth_array_read(self->array,
					  self->rows.first + (uint64_t)i * self->rows.elements,
					  self->rows.elements, out.buf));
	core_handle_end(&self->handle);
	PyBuffer_Release(&out);
	return core_none(rc);
}

/* ---- consecutive rows ---- */

static PyObject *run_of_rows(struct rows_object *self, PyObject *const *args, bool write)
{
	uint64_t first, n, at, end, step = STEP_BYTES, element;
	Py_buffer memory;
	int rc = 0;

	if (!core_u64(args[0], &first) || !core_u64(args[1], &n))
		return NULL;
	if (first > self->rows.count || n > self->rows.count - first)
		return PyErr_Format(PyExc_IndexError, "rows are out of range");
	if (!core_buffer(args[2], !write, n * self->row_bytes, &memory))
		return NULL;
	if (!core_handle_begin(&self->handle)) {
		PyBuffer_Release(&memory);
		return NULL;
	}
	element = fth_array_element(self->array);
	first = self->rows.first + first * self->rows.elements;
	end = n * self->rows.elements;
	step /= element;
	for (at = 0; at < end && rc == 0; at += step) {
		uint64_t count = end - at < step ? end - at : step;
		uint8_t *piece = (uint8_t *)memory.buf + at * element;

		CORE_UNLOCKED(rc = write ? fth_array_write(self->array, first + at, count, piece)
					 : fth_array_read(self->array, first + at, count, piece));
		if (rc == 0 && PyErr_CheckSignals() < 0)
			break;
	}
	core_handle_end(&self->handle);
	PyBuffer_Release(&memory);
	if (PyErr_Occurred())
		return NULL;
	return core_none(rc);
}

static PyObject *rows_read(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	return core_arguments("read", n, 3) ? run_of_rows((struct rows_object *)self, args, false)
					    : NULL;
}

static PyObject *rows_write(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	return core_arguments("write", n, 3) ? run_of_rows((struct rows_object *)self, args, true)
					     : NULL;
}

/* ---- rows anywhere ---- */

/*
 * Indices as the library wants them: in range, and none negative. They are a copy, since another
 * thread may change the caller's while the GIL is released.
 */
struct ids {
	uint64_t *list;
	size_t n;
};

static bool ids_fail(const struct rows_object *self, int64_t i)
{
	PyErr_Format(PyExc_IndexError, "row %lld is out of range: the array has %llu rows",
		     (long long)i, (unsigned long long)self->rows.count);
	return false;
}

static bool ids_copy(const struct rows_object *self, const int64_t *given, struct ids *ids)
{
	int64_t count = (int64_t)self->rows.count, least = 0, most = -1;

	for (size_t k = 0; k < ids->n; k++) {
		int64_t i = given[k];

		least = i < least ? i : least;
		most = i > most ? i : most;
		ids->list[k] = (uint64_t)(i < 0 ? i + count : i);
	}
	if (most >= count)
		return ids_fail(self, most);
	return least >= -count || ids_fail(self, least);
}

static bool ids_get(const struct rows_object *self, PyObject *object, struct ids *ids)
{
	Py_buffer memory;
	bool good = false;

	if (!core_buffer(object, false, UINT64_MAX, &memory))
		return false;
	ids->n = (size_t)memory.len / sizeof(int64_t);
	ids->list = PyMem_Malloc(ids->n * sizeof(*ids->list) + 1);
	if (!ids->list)
		PyErr_NoMemory();
	else if (memory.itemsize != sizeof(int64_t) || (uintptr_t)memory.buf % 8)
		PyErr_Format(PyExc_ValueError, "row numbers must be int64");
	else
		good = ids_copy(self, memory.buf, ids);
	PyBuffer_Release(&memory);
	if (!good)
		PyMem_Free(ids->list);
	return good;
}

static void ids_release(struct ids *ids)
{
	PyMem_Free(ids->list);
}

enum many_kind { GATHER, SCATTER };

static int many_part(struct rows_object *self, const struct ids *ids, uint8_t *memory, size_t k,
		     size_t n, enum many_kind kind)
{
	uint8_t *at = memory + k * self->row_bytes;

	if (kind == GATHER)
		return fth_array_gather_rows(self->array, &self->rows, ids->list + k, n, at);
	return fth_array_scatter_rows(self->array, &self->rows, ids->list + k, n, at);
}

static int many_rows(struct rows_object *self, const struct ids *ids, uint8_t *memory,
		     enum many_kind kind)
{
	size_t step = STEP_BYTES / self->row_bytes, k, n;
	int rc = 0;

	if (step == 0)
		step = 1;
	for (k = 0; k < ids->n && rc == 0; k += n) {
		n = ids->n - k < step ? ids->n - k : step;
		CORE_UNLOCKED(rc = many_part(self, ids, memory, k, n, kind));
		if (rc == 0 && PyErr_CheckSignals() < 0)
			break;
	}
	return rc;
}

static PyObject *many(struct rows_object *self, PyObject *const *args, enum many_kind kind)
{
	Py_buffer memory;
	struct ids ids;
	int rc;

	if (!ids_get(self, args[0], &ids))
		return NULL;
	if (!core_buffer(args[1], kind == GATHER, ids.n * self->row_bytes, &memory)) {
		ids_release(&ids);
		return NULL;
	}
	if (core_handle_begin(&self->handle)) {
		rc = many_rows(self, &ids, memory.buf, kind);
		core_handle_end(&self->handle);
		if (rc < 0)
			core_raise(rc);
	}
	PyBuffer_Release(&memory);
	ids_release(&ids);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *rows_gather(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	return core_arguments("gather", n, 2) ? many((struct rows_object *)self, args, GATHER)
					      : NULL;
}

static PyObject *rows_scatter(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	return core_arguments("scatter", n, 2) ? many((struct rows_object *)self, args, SCATTER)
					       : NULL;
}

static PyObject *rows_prefetch(PyObject *object, PyObject *list)
{
	struct rows_object *self = (struct rows_object *)object;
	struct ids ids;

	if (!ids_get(self, list, &ids))
		return NULL;
	if (core_handle_begin(&self->handle)) {
		CORE_UNLOCKED(fth_array_prefetch_rows(self->array, &self->rows, ids.list, ids.n));
		core_handle_end(&self->handle);
	}
	ids_release(&ids);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *rows_flush(PyObject *object, PyObject *none)
{
	struct rows_object *self = (struct rows_object *)object;
	int rc;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_array_flush(self->array, 0, FTH_ARRAY_ALL));
	core_handle_end(&self->handle);
	return core_none(rc);
}

static PyMethodDef methods[] = {
	CORE_NOARGS("close", rows_close, "close()\n--\n\nFlush, then close."),
	CORE_NOARGS("discard", rows_discard, "discard()\n--\n\nClose without writing."),
	CORE_NOARGS("flush", rows_flush, "flush()\n--\n\nMake all changes durable."),
	CORE_FAST("get", rows_get, "get(i, out)\n--\n\nCopy row i into a buffer."),
	CORE_FAST("read", rows_read, "read(first, n, out)\n--\n\nCopy n rows into a buffer."),
	CORE_FAST("write", rows_write, "write(first, n, values)\n--\n\nSet n rows."),
	CORE_FAST("gather", rows_gather, "gather(ids, out)\n--\n\nCopy rows into a buffer."),
	CORE_FAST("scatter", rows_scatter, "scatter(ids, values)\n--\n\nSet rows."),
	{"prefetch", rows_prefetch, METH_O, "prefetch(ids)\n--\n\nStart to read rows."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Rows(cache, uri, first, row_bytes, count, readonly)\n--\n\n"
		    "Rows of an array in a file, as bytes."},
	{Py_tp_new, rows_new},
	{Py_tp_dealloc, rows_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Rows",
	.basicsize = sizeof(struct rows_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int core_add_rows(PyObject *module)
{
	rows_type = core_add_type(module, &spec);
	return rows_type ? 0 : -1;
}
