/* SPDX-License-Identifier: BSD-2-Clause */
/* Persistent memory: a log of entries of bytes, and checkpoints of buffers. */
#include "core.h"

#include <stdlib.h>

#include "fathom/pm.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"

static PyTypeObject *log_type, *checkpoint_type;

static int map_memory(const char *name, uint64_t bytes, struct fth_pm **out)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;

	options.flags = FTH_PM_CREATE;
	return fth_pm_map(name, bytes, &options, out);
}

/* ---- logs ---- */

struct log_object {
	PyObject ob_base;
	struct core_handle handle;
	struct fth_pm *pm;
	struct fth_pm_log *log;
	uint32_t room; /* bytes of the partition: no entry is longer */
};

/* `bytes` of a new log; one that exists keeps its size. */
static int log_open(struct log_object *self, const char *name, uint32_t bytes)
{
	struct fth_pm_log_info info;
	int rc = map_memory(name, 0, &self->pm);

	/* A size of 0 takes that of existing memory, and cannot create it. */
	if (rc == -ENOENT || rc == -EINVAL)
		rc = map_memory(name, fth_pm_log_conv_bytes(1, bytes), &self->pm);
	if (rc < 0)
		return rc;
	rc = fth_pm_log_open(self->pm, 0, &self->log);
	if (rc == -ENOENT)
		rc = fth_pm_log_create_conv(self->pm, 0, 1, bytes, &self->log);
	if (rc < 0) {
		fth_pm_unmap(self->pm);
		return rc;
	}
	fth_pm_log_info(self->log, &info);
	self->room = info.partition_bytes;
	return 0;
}

static PyObject *log_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"name", "bytes", NULL};
	struct log_object *self;
	const char *name;
	unsigned bytes;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sI", names, &name, &bytes))
		return NULL;
	self = core_alloc(type);
	if (!self)
		return NULL;
	CORE_UNLOCKED(rc = log_open(self, name, bytes));
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	core_handle_open(&self->handle, "log");
	return (PyObject *)self;
}

static int log_finish(struct log_object *self)
{
	int rc;

	fth_pm_log_close(self->log);
	CORE_UNLOCKED(rc = fth_pm_unmap(self->pm));
	return rc;
}

static PyObject *log_close(PyObject *object, PyObject *none)
{
	struct log_object *self = (struct log_object *)object;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	return core_none(log_finish(self));
}

static void log_dealloc(PyObject *object)
{
	struct log_object *self = (struct log_object *)object;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0)
		log_finish(self);
	core_free(object);
}

static PyObject *log_append(PyObject *object, PyObject *data)
{
	struct log_object *self = (struct log_object *)object;
	Py_buffer memory;
	int rc;

	if (!core_buffer(data, false, UINT64_MAX, &memory))
		return NULL;
	if (!core_handle_begin(&self->handle)) {
		PyBuffer_Release(&memory);
		return NULL;
	}
	if ((uint64_t)memory.len > self->room)
		rc = fth_fail(ENOSPC, "an entry of %zd bytes does not fit a log of %u", memory.len,
			      self->room);
	else
		CORE_UNLOCKED(
			rc = fth_pm_log_insert(self->log, 0, memory.buf, (uint32_t)memory.len));
	core_handle_end(&self->handle);
	PyBuffer_Release(&memory);
	return core_none(rc);
}

/* read(cursor): None at the end, or the entry and the next cursor. */
static PyObject *log_read(PyObject *object, PyObject *at)
{
	struct log_object *self = (struct log_object *)object;
	PyObject *result = NULL;
	uint64_t cursor;
	int64_t n;
	char *buffer;

	if (!core_u64(at, &cursor) || !core_handle_begin(&self->handle))
		return NULL;
	buffer = malloc(self->room);
	n = buffer ? fth_pm_log_read(self->log, 0, &cursor, buffer, self->room) : -ENOMEM;
	core_handle_end(&self->handle);
	if (n >= 0)
		result = Py_BuildValue("(y#K)", buffer, (Py_ssize_t)n, (unsigned long long)cursor);
	else if (n == -ENOENT)
		result = Py_BuildValue("");
	else
		core_raise((int)n);
	free(buffer);
	return result;
}

static PyObject *log_clear(PyObject *object, PyObject *none)
{
	struct log_object *self = (struct log_object *)object;
	int rc;

	(void)none;
	/* The library wants no other call on the log meanwhile. */
	if (!core_handle_begin(&self->handle))
		return NULL;
	if (self->handle.users > 1)
		rc = fth_fail(EBUSY, "another thread uses the log");
	else
		rc = fth_pm_log_clear(self->log);
	core_handle_end(&self->handle);
	return core_none(rc);
}

static PyObject *log_count(PyObject *object, PyObject *none)
{
	struct log_object *self = (struct log_object *)object;
	uint32_t n;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	n = fth_pm_log_count(self->log, 0);
	core_handle_end(&self->handle);
	return PyLong_FromUnsignedLong(n);
}

/* ---- checkpoints ---- */

struct checkpoint_object {
	PyObject ob_base;
	struct core_handle handle;
	struct fth_pm *pm;
	struct fth_pm_checkpoint *cp;
	Py_buffer *buffers; /* held while the checkpoint is open */
	Py_ssize_t n;
};

static void checkpoint_release(struct checkpoint_object *self)
{
	fth_pm_checkpoint_close(self->cp);
	if (self->pm)
		CORE_UNLOCKED(fth_pm_unmap(self->pm));
	for (Py_ssize_t i = 0; i < self->n; i++)
		PyBuffer_Release(&self->buffers[i]);
	free(self->buffers);
	self->cp = NULL;
	self->pm = NULL;
	self->buffers = NULL;
	self->n = 0;
}

static bool take_buffers(struct checkpoint_object *self, PyObject *list)
{
	Py_ssize_t n = PyList_Size(list);

	if (n < 0)
		return false;
	self->buffers = calloc((size_t)n + 1, sizeof(*self->buffers));
	if (!self->buffers) {
		PyErr_NoMemory();
		return false;
	}
	while (self->n < n) {
		if (!core_buffer(PyList_GetItem(list, self->n), true, UINT64_MAX,
				 &self->buffers[self->n]))
			return false;
		self->n++;
	}
	return true;
}

static int checkpoint_open(struct checkpoint_object *self, const char *name)
{
	struct fth_pm_checkpoint_shape shape = {.groups = 1, .buffers = (uint32_t)self->n};
	uint64_t bytes;
	int rc;

	for (Py_ssize_t i = 0; i < self->n; i++)
		shape.bytes += ((uint64_t)self->buffers[i].len + 4095) / 4096 * 4096;
	bytes = fth_pm_checkpoint_bytes(&shape);
	if (!bytes)
		return fth_fail(EINVAL, "no checkpoint has %zd buffers of %llu bytes together",
				self->n, (unsigned long long)shape.bytes);
	rc = map_memory(name, bytes, &self->pm);
	if (rc == 0)
		rc = fth_pm_checkpoint_open_or_create(self->pm, 0, &shape, &self->cp);
	for (Py_ssize_t i = 0; i < self->n && rc == 0; i++)
		rc = fth_pm_checkpoint_register(self->cp, 0, self->buffers[i].buf,
						(uint64_t)self->buffers[i].len);
	return rc;
}

static PyObject *checkpoint_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"name", "buffers", NULL};
	struct checkpoint_object *self;
	const char *name;
	PyObject *list;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO", names, &name, &list))
		return NULL;
	self = core_alloc(type);
	if (!self)
		return NULL;
	core_handle_open(&self->handle, "checkpoint");
	if (!take_buffers(self, list)) {
		Py_DECREF(self);
		return NULL;
	}
	CORE_UNLOCKED(rc = checkpoint_open(self, name));
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static PyObject *checkpoint_close(PyObject *object, PyObject *none)
{
	struct checkpoint_object *self = (struct checkpoint_object *)object;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn > 0)
		checkpoint_release(self);
	Py_RETURN_NONE;
}

static void checkpoint_dealloc(PyObject *object)
{
	struct checkpoint_object *self = (struct checkpoint_object *)object;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0)
		checkpoint_release(self);
	core_free(object);
}

/* One thread at a time. */
static bool checkpoint_begin(struct checkpoint_object *self)
{
	if (!core_handle_begin(&self->handle))
		return false;
	if (self->handle.users == 1)
		return true;
	core_handle_end(&self->handle);
	core_raise(fth_fail(EBUSY, "another thread uses the checkpoint"));
	return false;
}

static PyObject *checkpoint_save(PyObject *object, PyObject *none)
{
	struct checkpoint_object *self = (struct checkpoint_object *)object;
	int rc;

	(void)none;
	if (!checkpoint_begin(self))
		return NULL;
	CORE_UNLOCKED(rc = fth_pm_checkpoint_save(self->cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL));
	core_handle_end(&self->handle);
	return core_none(rc);
}

static PyObject *checkpoint_restore(PyObject *object, PyObject *none)
{
	struct checkpoint_object *self = (struct checkpoint_object *)object;
	int rc;

	(void)none;
	if (!checkpoint_begin(self))
		return NULL;
	CORE_UNLOCKED(rc = fth_pm_checkpoint_restore(self->cp, 0));
	core_handle_end(&self->handle);
	if (rc == -ENODATA)
		Py_RETURN_FALSE;
	if (rc < 0)
		return core_raise(rc);
	Py_RETURN_TRUE;
}

static PyObject *checkpoint_version(PyObject *object, PyObject *none)
{
	struct checkpoint_object *self = (struct checkpoint_object *)object;
	uint64_t version;

	(void)none;
	if (!checkpoint_begin(self))
		return NULL;
	version = fth_pm_checkpoint_version(self->cp, 0);
	core_handle_end(&self->handle);
	return PyLong_FromUnsignedLongLong(version);
}

/* ---- the types ---- */

static PyMethodDef log_methods[] = {
	CORE_NOARGS("close", log_close, "close()\n--\n\nClose the log; its entries stay."),
	{"append", log_append, METH_O, "append(data)\n--\n\nAdd an entry, durably."},
	{"read", log_read, METH_O, "read(cursor)\n--\n\nNone, or the entry and the next cursor."},
	CORE_NOARGS("clear", log_clear, "clear()\n--\n\nRemove all entries."),
	CORE_NOARGS("count", log_count, "count()\n--\n\nThe number of entries."),
	{NULL, NULL, 0, NULL},
};

static PyType_Slot log_slots[] = {
	{Py_tp_doc, "Log(name, bytes)\n--\n\nEntries of bytes in persistent memory."},
	{Py_tp_new, log_new},
	{Py_tp_dealloc, log_dealloc},
	{Py_tp_methods, log_methods},
	{0, NULL},
};

static PyType_Spec log_spec = {
	.name = "fathom._core.Log",
	.basicsize = sizeof(struct log_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = log_slots,
};

static PyMethodDef checkpoint_methods[] = {
	CORE_NOARGS("close", checkpoint_close, "close()\n--\n\nClose, without saving."),
	CORE_NOARGS("save", checkpoint_save, "save()\n--\n\nSave the buffers."),
	CORE_NOARGS("restore", checkpoint_restore,
		    "restore()\n--\n\nFill the buffers; False if nothing was saved."),
	CORE_NOARGS("version", checkpoint_version, "version()\n--\n\nThe number of saves ever."),
	{NULL, NULL, 0, NULL},
};

static PyType_Slot checkpoint_slots[] = {
	{Py_tp_doc, "Checkpoint(name, buffers)\n--\n\nBuffers that are saved together."},
	{Py_tp_new, checkpoint_new},
	{Py_tp_dealloc, checkpoint_dealloc},
	{Py_tp_methods, checkpoint_methods},
	{0, NULL},
};

static PyType_Spec checkpoint_spec = {
	.name = "fathom._core.Checkpoint",
	.basicsize = sizeof(struct checkpoint_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = checkpoint_slots,
};

int core_add_pm(PyObject *module)
{
	log_type = core_add_type(module, &log_spec);
	checkpoint_type = log_type ? core_add_type(module, &checkpoint_spec) : NULL;
	return checkpoint_type ? 0 : -1;
}
