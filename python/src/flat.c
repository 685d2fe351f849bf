/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flat regions: the bytes of a file as memory, through the buffer protocol. Arrays made of it keep
 * the object, and so the region, alive; close() refuses while there are any.
 */
#include "core.h"

#include <stddef.h>
#include <structmember.h>

#include "fathom/flat.h"

struct flat_object {
	PyObject ob_base;
	struct core_handle handle; /* buffers that were given out are calls in progress */
	struct fth_flat *flat;
	int readonly;
	PyObject *weak_references;
};

static PyTypeObject *flat_type;

static PyObject *flat_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"uri", "memory", "readonly", NULL};
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct flat_object *self;
	unsigned long long memory;
	const char *uri;
	int readonly, rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sKp", names, &uri, &memory, &readonly))
		return NULL;
	self = core_alloc(type);
	if (!self)
		return NULL;
	self->readonly = readonly;
	options.readonly = readonly;
	CORE_UNLOCKED(rc = fth_flat_open(uri, memory, &options, &self->flat));
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	core_handle_open(&self->handle, "region");
	return (PyObject *)self;
}

static PyObject *flat_close(PyObject *object, PyObject *none)
{
	struct flat_object *self = (struct flat_object *)object;
	int rc, turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	CORE_UNLOCKED(rc = fth_flat_close(self->flat));
	if (rc < 0)
		self->handle.open = true;
	return core_none(rc);
}

static void flat_dealloc(PyObject *object)
{
	struct flat_object *self = (struct flat_object *)object;
	PyObject *type, *value, *trace;
	int rc;

	if (self->weak_references)
		PyObject_ClearWeakRefs(object);
	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0) {
		PyErr_Fetch(&type, &value, &trace);
		CORE_UNLOCKED(rc = fth_flat_close(self->flat));
		if (rc < 0) {
			core_raise(rc);
			PyErr_WriteUnraisable((PyObject *)flat_type);
			fth_flat_discard(self->flat);
		}
		PyErr_Restore(type, value, trace);
	}
	core_free(object);
}

static PyObject *flat_sync(PyObject *object, PyObject *none)
{
	struct flat_object *self = (struct flat_object *)object;
	int rc;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_flat_sync(self->flat, FTH_DEV_TIMEOUT));
	core_handle_end(&self->handle);
	return core_none(rc);
}

static PyObject *flat_stats(PyObject *object, PyObject *none)
{
	struct flat_object *self = (struct flat_object *)object;
	PyObject *dict;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	dict = PyDict_New();
	for (int i = 0; dict && i < FTH_FLAT_STAT_COUNT; i++) {
		PyObject *n = PyLong_FromUnsignedLongLong(fth_flat_stat(self->flat, i));

		if (!n || PyDict_SetItemString(dict, fth_flat_stat_name(i), n) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(n);
	}
	core_handle_end(&self->handle);
	return dict;
}

static int flat_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
	struct flat_object *self = (struct flat_object *)object;

	if (!core_handle_begin(&self->handle)) {
		view->obj = NULL;
		return -1;
	}
	if (PyBuffer_FillInfo(view, object, fth_flat_base(self->flat),
			      (Py_ssize_t)fth_flat_size(self->flat), self->readonly, flags) == 0)
		return 0;
	core_handle_end(&self->handle);
	return -1;
}

static void flat_releasebuffer(PyObject *object, Py_buffer *view)
{
	(void)view;
	core_handle_end(&((struct flat_object *)object)->handle);
}

static PyMethodDef methods[] = {
	CORE_NOARGS("close", flat_close, "close()\n--\n\nMake stores durable and close."),
	CORE_NOARGS("sync", flat_sync, "sync()\n--\n\nMake all stores durable."),
	CORE_NOARGS("stats", flat_stats, "stats()\n--\n\nCounters, as a dict."),
	{NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
	{"__weaklistoffset__", T_PYSSIZET, offsetof(struct flat_object, weak_references), READONLY,
	 NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Flat(uri, memory, readonly)\n--\n\nThe bytes of a device as memory."},
	{Py_tp_new, flat_new},
	{Py_tp_dealloc, flat_dealloc},
	{Py_tp_methods, methods},
	{Py_tp_members, members},
	{Py_bf_getbuffer, flat_getbuffer},
	{Py_bf_releasebuffer, flat_releasebuffer},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Flat",
	.basicsize = sizeof(struct flat_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int core_add_flat(PyObject *module)
{
	flat_type = core_add_type(module, &spec);
	return flat_type ? 0 : -1;
}
