/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Databases (Engine) and results of statements (Stream).
 *
 * A result is an Arrow stream of the library: the statement runs in a thread of the stream while
 * rows are taken from it. A stream keeps its engine open.
 *
 * Ctrl-C: while the main thread waits for a statement, the handler of SIGINT cancels it and then
 * calls Python's, so that the wait ends.
 */
#include "query.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <structmember.h>
#include <string.h>
#include <unistd.h>

static PyTypeObject *engine_type, *stream_type;

/* ---- Ctrl-C ---- */

static struct fth_query *volatile waited_for;
static struct sigaction of_python;

static void cancel_and_pass_on(int number, siginfo_t *info, void *context)
{
	struct fth_query *query = waited_for;

	if (query)
		fth_query_cancel(query);
	if (of_python.sa_flags & SA_SIGINFO)
		of_python.sa_sigaction(number, info, context);
	else if (of_python.sa_handler != SIG_IGN && of_python.sa_handler != SIG_DFL)
		of_python.sa_handler(number);
}

/* True if the handler is ours from now on. Only the main thread handles signals in Python. */
static bool listen_begin(struct fth_query *query)
{
	struct sigaction ours = {.sa_flags = SA_SIGINFO};

	if (getpid() != gettid() || sigaction(SIGINT, NULL, &of_python) < 0 ||
	    of_python.sa_handler == SIG_IGN || of_python.sa_handler == SIG_DFL)
		return false;
	ours.sa_sigaction = cancel_and_pass_on;
	ours.sa_mask = of_python.sa_mask;
	waited_for = query;
	return sigaction(SIGINT, &ours, NULL) == 0;
}

static void listen_end(bool listening)
{
	if (listening)
		sigaction(SIGINT, &of_python, NULL);
	waited_for = NULL;
}

/* ---- engines ---- */

static PyObject *engine_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"where", "memory", "threads", "create", "readonly", NULL};
	struct fth_query_options options = FTH_QUERY_OPTIONS_INIT;
	unsigned long long memory;
	struct engine_object *self;
	unsigned threads = 0;
	int create = 0, readonly = 0, rc;
	const char *where;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sK|Ipp", names, &where, &memory, &threads,
					 &create, &readonly))
		return NULL;
	self = core_alloc(type);
	if (!self)
		return NULL;
	options.budget = memory;
	options.threads = threads;
	options.create = create;
	options.readonly = readonly;
	CORE_UNLOCKED(rc = fth_query_open(where, &options, &self->db));
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	core_handle_open(&self->handle, "database");
	return (PyObject *)self;
}

struct engine_object *core_engine_begin(PyObject *object)
{
	struct engine_object *self = (struct engine_object *)object;

	if (!PyObject_TypeCheck(object, engine_type)) {
		PyErr_Format(PyExc_TypeError, "expected an Engine, not %R", object);
		return NULL;
	}
	return core_handle_begin(&self->handle) ? self : NULL;
}

static PyObject *engine_close(PyObject *object, PyObject *none)
{
	struct engine_object *self = (struct engine_object *)object;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn > 0)
		CORE_UNLOCKED(fth_query_close(self->db));
	Py_RETURN_NONE;
}

static void engine_dealloc(PyObject *object)
{
	struct engine_object *self = (struct engine_object *)object;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0)
		CORE_UNLOCKED(fth_query_close(self->db));
	core_free(object);
}

static int add_name(const char *name, void *user)
{
	PyObject *text = PyUnicode_FromString(name);
	int rc = text ? PyList_Append(user, text) : -1;

	Py_XDECREF(text);
	return rc < 0 ? 1 : 0;
}

static PyObject *engine_tables(PyObject *object, PyObject *none)
{
	struct engine_object *self = (struct engine_object *)object;
	PyObject *list = PyList_New(0);
	int rc;

	(void)none;
	if (!list || !core_handle_begin(&self->handle)) {
		Py_XDECREF(list);
		return NULL;
	}
	rc = fth_table_list(fth_query_tables(self->db), add_name, list);
	core_handle_end(&self->handle);
	if (rc == 0)
		return list;
	Py_DECREF(list);
	return rc < 0 ? core_raise(rc) : NULL;
}

/* Run a statement whose rows do not matter. */
static PyObject *engine_run(PyObject *object, PyObject *text)
{
	struct engine_object *self = (struct engine_object *)object;
	const char *sql = PyUnicode_AsUTF8AndSize(text, NULL);
	struct fth_query *query;
	uint64_t rows = 0;
	bool listening;
	int rc;

	if (!sql || !core_handle_begin(&self->handle))
		return NULL;
	rc = fth_query_new(self->db, &query);
	if (rc == 0) {
		listening = listen_begin(query);
		CORE_UNLOCKED(rc = fth_query_run(query, sql, NULL, NULL));
		listen_end(listening);
		rows = fth_query_report(query)->rows;
		fth_query_free(query);
	}
	core_handle_end(&self->handle);
	return rc < 0 ? core_raise(rc) : PyLong_FromUnsignedLongLong(rows);
}

/* ---- streams ---- */

static void stream_release(struct stream_object *self)
{
	struct ArrowSchema *schema = &self->schema;

	if (schema->release)
		schema->release(schema);
	if (self->batch.release)
		self->batch.release(&self->batch);
	if (self->stream.release)
		CORE_UNLOCKED(self->stream.release(&self->stream));
	if (self->query) {
		fth_query_free(self->query);
		core_handle_end(&((struct engine_object *)self->engine)->handle);
	}
	self->query = NULL;
}

static int stream_open(struct stream_object *self, const char *sql)
{
	struct engine_object *engine = (struct engine_object *)self->engine;
	bool listening;
	int rc = fth_query_new(engine->db, &self->query);

	if (rc < 0) {
		core_handle_end(&engine->handle);
		return rc;
	}
	listening = listen_begin(self->query);
	CORE_UNLOCKED(rc = fth_query_arrow(self->query, sql, &self->stream));
	listen_end(listening);
	if (rc == 0)
		rc = -self->stream.get_schema(&self->stream, &self->schema);
	return rc;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"engine", "sql", NULL};
	struct stream_object *self;
	PyObject *engine;
	const char *sql;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Os", names, &engine, &sql) ||
	    !core_engine_begin(engine))
		return NULL;
	self = core_alloc(type);
	if (!self) {
		core_handle_end(&((struct engine_object *)engine)->handle);
		return NULL;
	}
	Py_INCREF(engine);
	self->engine = engine;
	core_handle_open(&self->handle, "result");
	rc = stream_open(self, sql);
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static PyObject *stream_close(PyObject *object, PyObject *none)
{
	struct stream_object *self = (struct stream_object *)object;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn > 0)
		stream_release(self);
	Py_RETURN_NONE;
}

static void stream_dealloc(PyObject *object)
{
	struct stream_object *self = (struct stream_object *)object;

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0)
		stream_release(self);
	Py_XDECREF(self->engine);
	core_free(object);
}

/* Rows come one call after the other. */
static bool stream_begin(struct stream_object *self)
{
	if (!core_handle_begin(&self->handle))
		return false;
	if (self->handle.users == 1)
		return true;
	core_handle_end(&self->handle);
	core_raise(fth_fail(EBUSY, "another thread reads this result"));
	return false;
}

static PyObject *stream_columns(PyObject *object, PyObject *none)
{
	struct stream_object *self = (struct stream_object *)object;
	PyObject *list;

	(void)none;
	if (!stream_begin(self))
		return NULL;
	list = PyList_New(0);
	for (int64_t i = 0; list && i < self->schema.n_children; i++) {
		const struct ArrowSchema *column = self->schema.children[i];
		PyObject *pair = Py_BuildValue("(ss)", column->name, column->format);

		if (!pair || PyList_Append(list, pair) < 0)
			Py_CLEAR(list);
		Py_XDECREF(pair);
	}
	core_handle_end(&self->handle);
	return list;
}

int core_stream_next(struct stream_object *self)
{
	struct ArrowArray *batch = &self->batch;
	bool listening;
	int rc;

	if (batch->release)
		batch->release(batch);
	batch->release = NULL;
	listening = listen_begin(self->query);
	CORE_UNLOCKED(rc = self->stream.get_next(&self->stream, batch));
	listen_end(listening);
	if (rc) {
		const char *text = self->stream.get_last_error(&self->stream);

		core_raise(fth_fail(rc, "%s", text ? text : strerror(rc)));
		return -1;
	}
	return batch->release ? 1 : 0;
}

static PyObject *stream_rows(PyObject *object, PyObject *none)
{
	struct stream_object *self = (struct stream_object *)object;
	PyObject *list = NULL;
	int rc;

	(void)none;
	if (!stream_begin(self))
		return NULL;
	rc = core_stream_next(self);
	if (rc >= 0)
		list = rc == 0 ? PyList_New(0) : core_rows_of_batch(&self->schema, &self->batch);
	core_handle_end(&self->handle);
	return list;
}

static PyObject *stream_fetch(PyObject *object, PyObject *number)
{
	struct stream_object *self = (struct stream_object *)object;
	PyObject *list;
	uint64_t most;

	if (!core_u64(number, &most) || !stream_begin(self))
		return NULL;
	list = core_columns_of_stream(self, most);
	core_handle_end(&self->handle);
	return list;
}

/* ---- capsules ---- */

/* A stream for another library: that of the query, which owns the query and its engine. */
struct exported {
	struct ArrowArrayStream inner;
	struct fth_query *query;
	PyObject *engine;
};

static int exported_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	struct exported *e = stream->private_data;

	return e->inner.get_schema(&e->inner, out);
}

static int exported_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct exported *e = stream->private_data;

	return e->inner.get_next(&e->inner, out);
}

static const char *exported_error(struct ArrowArrayStream *stream)
{
	struct exported *e = stream->private_data;

	return e->inner.get_last_error(&e->inner);
}

/* With or without the GIL, in any thread. */
static void exported_release(struct ArrowArrayStream *stream)
{
	struct exported *e = stream->private_data;
	PyGILState_STATE state;

	e->inner.release(&e->inner);
	fth_query_free(e->query);
	state = PyGILState_Ensure();
	core_handle_end(&((struct engine_object *)e->engine)->handle);
	Py_DECREF(e->engine);
	PyGILState_Release(state);
	free(e);
	stream->release = NULL;
}

static void release_capsule(PyObject *capsule)
{
	struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");

	if (stream->release)
		stream->release(stream);
	free(stream);
}

static PyObject *stream_capsule(PyObject *object, PyObject *none)
{
	struct stream_object *self = (struct stream_object *)object;
	struct ArrowArrayStream *stream;
	struct exported *e;
	PyObject *capsule = NULL;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		return PyErr_Format(PyExc_ValueError, "the result is closed");
	stream = calloc(1, sizeof(*stream));
	e = calloc(1, sizeof(*e));
	if (stream && e)
		capsule = PyCapsule_New(stream, "arrow_array_stream", release_capsule);
	if (!capsule) {
		free(stream);
		free(e);
		self->handle.open = true;
		return PyErr_Occurred() ? NULL : PyErr_NoMemory();
	}
	*e = (struct exported){self->stream, self->query, self->engine};
	*stream = (struct ArrowArrayStream){exported_schema, exported_next, exported_error,
					    exported_release, e};
	self->stream.release = NULL;
	self->query = NULL;
	Py_INCREF(self->engine);
	stream_release(self);
	return capsule;
}

/* ---- the types ---- */

static PyMethodDef engine_methods[] = {
	CORE_NOARGS("close", engine_close, "close()\n--\n\nClose the database."),
	CORE_NOARGS("tables", engine_tables, "tables()\n--\n\nThe names of the tables."),
	{"run", engine_run, METH_O,
	 "run(sql)\n--\n\nRun a statement, and return the number of its rows."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot engine_slots[] = {
	{Py_tp_doc, "Engine(where, memory, threads=0, create=False, readonly=False)\n--\n\n"
		    "Tables and SQL, inside an amount of memory."},
	{Py_tp_new, engine_new},
	{Py_tp_dealloc, engine_dealloc},
	{Py_tp_methods, engine_methods},
	{0, NULL},
};

static PyType_Spec engine_spec = {
	.name = "fathom._core.Engine",
	.basicsize = sizeof(struct engine_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = engine_slots,
};

static PyMethodDef stream_methods[] = {
	CORE_NOARGS("close", stream_close, "close()\n--\n\nEnd the statement."),
	CORE_NOARGS("columns", stream_columns, "columns()\n--\n\nPairs of name and Arrow format."),
	CORE_NOARGS("rows", stream_rows, "rows()\n--\n\nSome rows as tuples; empty at the end."),
	{"fetch", stream_fetch, METH_O,
	 "fetch(most)\n--\n\nRows until there are that many: (kind, values, nulls) by column."},
	CORE_NOARGS(
		"capsule", stream_capsule,
		"capsule()\n--\n\nThe rest of the rows as an Arrow stream; closes this object."),
	{NULL, NULL, 0, NULL},
};

static PyMemberDef stream_members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct stream_object, weak_references),
	 READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot stream_slots[] = {
	{Py_tp_doc, "Stream(engine, sql)\n--\n\nThe rows of a statement."},
	{Py_tp_new, stream_new},
	{Py_tp_dealloc, stream_dealloc},
	{Py_tp_methods, stream_methods},
	{Py_tp_members, stream_members},
	{0, NULL},
};

static PyType_Spec stream_spec = {
	.name = "fathom._core.Stream",
	.basicsize = sizeof(struct stream_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = stream_slots,
};

int core_add_query(PyObject *module)
{
	engine_type = core_add_type(module, &engine_spec);
	stream_type = engine_type ? core_add_type(module, &stream_spec) : NULL;
	return stream_type ? 0 : -1;
}
