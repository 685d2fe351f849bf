/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the extension module fathom._core share: errors, handles, buffers.
 *
 *	core.c		the module, errors, handles
 *	bytes.c		memory that results are handed over in
 *	cache.c		the cache of arrays
 *	rows.c		rows of an array
 *	query.c		databases and results of statements
 *	convert.c	values of results
 *	table.c		rows from memory into tables
 *	kv.c		the key-value cache
 *	graph.c		graphs
 *	pm.c		logs and checkpoints
 *	flat.c		flat regions
 *
 * The module keeps to the stable ABI of Python 3.11, and uses public headers of the library only.
 * It knows memory, numbers and names; the Python files beside it know numpy's types and shapes.
 *
 * Every call that may block releases the GIL. An object is used by several threads at once as the
 * library allows; handle.users counts the calls in progress, and close() refuses while there are
 * any. All fields of objects are guarded by the GIL.
 */
#ifndef FATHOM_PYTHON_CORE_H
#define FATHOM_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "fathom/base/error.h"

/* ---- errors ---- */

/* Raise fathom.Error, or a subclass of it, for a negative errno of this thread's latest call, with
 * the library's text. Returns NULL. An interrupted call becomes what the signal handler raised. */
PyObject *core_raise(int rc);
/* None for rc >= 0, else core_raise(). */
PyObject *core_none(int rc);

/* ---- handles ---- */

struct core_handle {
	const char *what;    /* "array", for messages */
	unsigned generation; /* of the process: the children of fork() have a later one */
	unsigned users;	     /* calls in progress */
	bool open;
};

/* The handle of a new object of the library. */
void core_handle_open(struct core_handle *handle, const char *what);
/* Begin a call: false, with an exception, if the object is closed or belongs to the parent. */
bool core_handle_begin(struct core_handle *handle);
void core_handle_end(struct core_handle *handle);
/*
 * Begin to close: 1 if the caller has to close the object, 0 if there is nothing to close (closed
 * already, or the parent's), -1 with an exception if other threads use it.
 */
int core_handle_close(struct core_handle *handle);

/* A call without the GIL. */
#define CORE_UNLOCKED(call)                                     \
	do {                                                    \
		PyThreadState *unlocked_ = PyEval_SaveThread(); \
		call;                                           \
		PyEval_RestoreThread(unlocked_);                \
	} while (0)

/* ---- types ---- */

/* Make a type, and add it to the module under the last part of its name. NULL with an exception. */
PyTypeObject *core_add_type(PyObject *module, PyType_Spec *spec);
/* Free the memory of an object of such a type: the end of its dealloc. */
void core_free(PyObject *self);
/* A zeroed object of a type. */
void *core_alloc(PyTypeObject *type);

typedef PyObject *(*core_fast_fn)(PyObject *self, PyObject *const *args, Py_ssize_t n);
#define CORE_FAST(name, fn, doc)                                            \
	{                                                                   \
		name, (PyCFunction)(void (*)(void))(fn), METH_FASTCALL, doc \
	}
#define CORE_NOARGS(name, fn, doc)         \
	{                                  \
		name, fn, METH_NOARGS, doc \
	}

/* False, with an exception, unless a call has n arguments. */
bool core_arguments(const char *name, Py_ssize_t n, Py_ssize_t expected);
bool core_u64(PyObject *object, uint64_t *out);

/*
 * Contiguous memory of an object: `bytes` of it, or any number if bytes is UINT64_MAX. False with
 * an exception. Ends with PyBuffer_Release().
 */
bool core_buffer(PyObject *object, bool writable, uint64_t bytes, Py_buffer *out);

/*
 * Memory from malloc() as an object with the buffer protocol, which frees it. Takes the memory over
 * also when it fails.
 */
PyObject *core_bytes_new(void *memory, size_t bytes);

/* ---- the types ---- */

extern PyTypeObject *core_cache_type;
struct fth_cache;
/* The library's cache in a Cache object, with a call begun; NULL with an exception. */
struct fth_cache *core_cache_begin(PyObject *cache);
void core_cache_end(PyObject *cache);

int core_add_bytes(PyObject *module);
int core_add_cache(PyObject *module);
int core_add_rows(PyObject *module);
int core_add_query(PyObject *module); /* these two where the library has SQL */
int core_add_table(PyObject *module);
int core_add_kv(PyObject *module);
int core_add_graph(PyObject *module);
int core_add_pm(PyObject *module);
int core_add_flat(PyObject *module);

#endif
