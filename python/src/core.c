/* SPDX-License-Identifier: BSD-2-Clause */
#include "core.h"

#include <pthread.h>
#include <string.h>

#include "fathom/base/uri.h"
#include "fathom/base/version.h"

/* ---- errors ---- */

static PyObject *error_type;

/* Errors that Python has a class for are of that class too: `except FileNotFoundError` works. */
static struct {
	int number;
	const char *name;
	PyObject **base;
	PyObject *type;
} special[] = {
	{ENOENT, "fathom.NotFoundError", &PyExc_FileNotFoundError, NULL},
	{EEXIST, "fathom.ExistsError", &PyExc_FileExistsError, NULL},
	{EACCES, "fathom.AccessError", &PyExc_PermissionError, NULL},
	{EPERM, "fathom.NotPermittedError", &PyExc_PermissionError, NULL},
	{EISDIR, "fathom.DirectoryError", &PyExc_IsADirectoryError, NULL},
	{ETIMEDOUT, "fathom.TimedOutError", &PyExc_TimeoutError, NULL},
	{ENOMEM, "fathom.NoMemoryError", &PyExc_MemoryError, NULL},
};
#define SPECIAL_COUNT (sizeof(special) / sizeof(*special))

static PyObject *type_of_error(int number)
{
	for (size_t i = 0; i < SPECIAL_COUNT; i++)
		if (special[i].number == number)
			return special[i].type;
	return error_type;
}

PyObject *core_raise(int rc)
{
	const char *text = fth_error_text(rc);
	PyObject *type, *message, *value;

	if ((rc == -ECANCELED || rc == -EINTR) && PyErr_CheckSignals() < 0)
		return NULL;
	type = type_of_error(-rc);
	message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	if (!message)
		return NULL;
	value = PyObject_CallFunction(type, "iO", -rc, message);
	Py_DECREF(message);
	if (value)
		PyErr_SetObject(type, value);
	Py_XDECREF(value);
	return NULL;
}

PyObject *core_none(int rc)
{
	if (rc < 0)
		return core_raise(rc);
	Py_RETURN_NONE;
}

static int add_errors(PyObject *module)
{
	error_type = PyErr_NewExceptionWithDoc("fathom.Error",
					       "An error of Fathom: errno has the number, strerror "
					       "the text. Errors for which Python\n"
					       "has a class, FileNotFoundError and MemoryError for "
					       "example, are of that class too.",
					       PyExc_OSError, NULL);
	if (!error_type || PyModule_AddObjectRef(module, "Error", error_type) < 0)
		return -1;
	for (size_t i = 0; i < SPECIAL_COUNT; i++) {
		PyObject *bases = PyTuple_Pack(2, error_type, *special[i].base);

		if (bases)
			special[i].type = PyErr_NewException(special[i].name, bases, NULL);
		Py_XDECREF(bases);
		if (!special[i].type ||
		    PyModule_AddObjectRef(module, strrchr(special[i].name, '.') + 1,
					  special[i].type) < 0)
			return -1;
	}
	return 0;
}

/* ---- handles ---- */

static unsigned generation = 1;

static void in_child(void)
{
	generation++;
}

void core_handle_open(struct core_handle *handle, const char *what)
{
	handle->what = what;
	handle->generation = generation;
	handle->users = 0;
	handle->open = true;
}

bool core_handle_begin(struct core_handle *handle)
{
	if (!handle->open) {
		PyErr_Format(PyExc_ValueError, "the %s is closed",
			     handle->what ? handle->what : "object");
		return false;
	}
	if (handle->generation != generation) {
		core_raise(fth_fail(EPERM,
				    "the %s was opened before fork(): open it in the child process",
				    handle->what));
		return false;
	}
	handle->users++;
	return true;
}

void core_handle_end(struct core_handle *handle)
{
	handle->users--;
}

int core_handle_close(struct core_handle *handle)
{
	if (!handle->open)
		return 0;
	if (handle->generation != generation) {
		handle->open = false; /* it is the parent's; its memory here is left alone */
		return 0;
	}
	if (handle->users) {
		core_raise(fth_fail(
			EBUSY, "the %s is in use by another thread, or by what was opened in it",
			handle->what));
		return -1;
	}
	handle->open = false;
	return 1;
}

/* ---- types, arguments ---- */

PyTypeObject *core_add_type(PyObject *module, PyType_Spec *spec)
{
	PyObject *type = PyType_FromSpec(spec);

	if (!type)
		return NULL;
	if (PyModule_AddObjectRef(module, strrchr(spec->name, '.') + 1, type) < 0) {
		Py_DECREF(type);
		return NULL;
	}
	return (PyTypeObject *)type;
}

void *core_alloc(PyTypeObject *type)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);

	return alloc(type, 0);
}

void core_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	release(self);
	Py_DECREF(type);
}

bool core_arguments(const char *name, Py_ssize_t n, Py_ssize_t expected)
{
	if (n == expected)
		return true;
	PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", name, expected, n);
	return false;
}

bool core_u64(PyObject *object, uint64_t *out)
{
	*out = PyLong_AsUnsignedLongLong(object);
	return *out != UINT64_MAX || !PyErr_Occurred();
}

bool core_buffer(PyObject *object, bool writable, uint64_t bytes, Py_buffer *out)
{
	int flags = PyBUF_ANY_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);

	if (PyObject_GetBuffer(object, out, flags) < 0)
		return false;
	if (bytes == UINT64_MAX || (uint64_t)out->len == bytes)
		return true;
	PyErr_Format(PyExc_ValueError, "the buffer has %zd bytes, not %llu", out->len,
		     (unsigned long long)bytes);
	PyBuffer_Release(out);
	return false;
}

/* ---- the module ---- */

static PyObject *parse_size(PyObject *self, PyObject *text)
{
	const char *s = PyUnicode_AsUTF8AndSize(text, NULL);
	uint64_t bytes;

	(void)self;
	if (!s)
		return NULL;
	if (fth_parse_size(s, &bytes) < 0)
		return PyErr_Format(PyExc_ValueError, "%R is no size: 512, 64K, 1.5G", text);
	return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *escape(PyObject *self, PyObject *text)
{
	Py_ssize_t length;
	const char *s = PyUnicode_AsUTF8AndSize(text, &length);
	PyObject *result;
	char *to;
	int rc;

	(void)self;
	if (!s)
		return NULL;
	if (strlen(s) != (size_t)length)
		return PyErr_Format(PyExc_ValueError, "embedded null character");
	to = PyMem_Malloc(3 * (size_t)length + 1);
	if (!to)
		return PyErr_NoMemory();
	rc = fth_uri_escape(s, to, 3 * (size_t)length + 1);
	result = rc < 0 ? core_raise(rc) : PyUnicode_FromString(to);
	PyMem_Free(to);
	return result;
}

static PyMethodDef functions[] = {
	{"parse_size", parse_size, METH_O,
	 "parse_size(text)\n--\n\nBytes of a size such as 64K or 1.5G."},
	{"escape", escape, METH_O, "escape(path)\n--\n\nA path as part of a device URI."},
	{NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "fathom._core",
	.m_doc = "Objects of the C library. Use the package fathom instead.",
	.m_size = -1,
	.m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void)
{
	static int (*const parts[])(PyObject *) = {
		add_errors,	core_add_bytes, core_add_cache, core_add_rows,
		core_add_kv,	core_add_graph, core_add_pm,	core_add_flat,
#ifdef FTH_SQL
		core_add_query, core_add_table,
#endif
	};
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i](module) < 0)
			goto fail;
	if (PyModule_AddStringConstant(module, "version", FTH_VERSION_STRING) < 0)
		goto fail;
	pthread_atfork(NULL, NULL, in_child);
	return module;
fail:
	Py_DECREF(module);
	return NULL;
}
