/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache that arrays and graphs share: a fixed amount of memory. */
#include "core.h"

#include "fathom/cache.h"

struct cache_object {
	PyObject ob_base;
	struct core_handle handle;
	struct fth_cache *cache;
};

PyTypeObject *core_cache_type;

static PyObject *cache_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"memory", "line", "compact", "depth", NULL};
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	unsigned long long memory;
	unsigned line = 4096, depth = 0;
	int compact = 1, rc;
	struct cache_object *self;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K|IpI", names, &memory, &line, &compact,
					 &depth))
		return NULL;
	self = core_alloc(type);
	if (!self)
		return NULL;
	options.memory = memory;
	options.line = line;
	options.compact = compact;
	options.depth = depth;
	CORE_UNLOCKED(rc = fth_cache_open(&options, &self->cache));
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	core_handle_open(&self->handle, "cache");
	return (PyObject *)self;
}

struct fth_cache *core_cache_begin(PyObject *cache)
{
	struct cache_object *self = (struct cache_object *)cache;

	if (!PyObject_TypeCheck(cache, core_cache_type)) {
		PyErr_Format(PyExc_TypeError, "expected a Cache, not %R", cache);
		return NULL;
	}
	return core_handle_begin(&self->handle) ? self->cache : NULL;
}

void core_cache_end(PyObject *cache)
{
	core_handle_end(&((struct cache_object *)cache)->handle);
}

/* Flush and free; arrays hold references, so they are closed or this is their close() of all. */
static PyObject *cache_close(PyObject *object, PyObject *none)
{
	struct cache_object *self = (struct cache_object *)object;
	int rc, turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	CORE_UNLOCKED(rc = fth_cache_finish(&self->cache));
	return core_none(rc);
}

static void cache_dealloc(PyObject *object)
{
	struct cache_object *self = (struct cache_object *)object;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0) {
		CORE_UNLOCKED(fth_cache_finish(&self->cache));
	}
	core_free(object);
}

static PyObject *cache_flush(PyObject *object, PyObject *none)
{
	struct cache_object *self = (struct cache_object *)object;
	int rc;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_cache_flush_all(self->cache));
	core_handle_end(&self->handle);
	return core_none(rc);
}

static int put(PyObject *dict, const char *name, uint64_t value)
{
	PyObject *number = PyLong_FromUnsignedLongLong(value);
	int rc = number ? PyDict_SetItemString(dict, name, number) : -1;

	Py_XDECREF(number);
	return rc;
}

static PyObject *cache_stats(PyObject *object, PyObject *none)
{
	struct cache_object *self = (struct cache_object *)object;
	struct fth_cache_footprint f;
	PyObject *dict;
	int rc = 0;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	dict = PyDict_New();
	for (int i = 0; dict && rc == 0 && i < FTH_CACHE_STAT_COUNT; i++)
		rc = put(dict, fth_cache_stat_name(i), fth_cache_stat(self->cache, i));
	fth_cache_footprint(self->cache, &f);
	if (dict && rc == 0 &&
	    (put(dict, "frames", f.frames) < 0 || put(dict, "data_bytes", f.data_bytes) < 0 ||
	     put(dict, "metadata_bytes", f.frame_bytes + f.line_bytes) < 0 ||
	     put(dict, "dirty", f.dirty) < 0))
		rc = -1;
	core_handle_end(&self->handle);
	if (rc < 0)
		Py_CLEAR(dict);
	return dict;
}

static PyMethodDef methods[] = {
	CORE_NOARGS("close", cache_close, "close()\n--\n\nFlush and free the cache."),
	CORE_NOARGS("flush", cache_flush, "flush()\n--\n\nMake all changes durable."),
	CORE_NOARGS("stats", cache_stats, "stats()\n--\n\nCounters and memory, as a dict."),
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Cache(memory, line=4096, compact=True, depth=0)\n--\n\n"
		    "Memory for the lines of arrays and graphs."},
	{Py_tp_new, cache_new},
	{Py_tp_dealloc, cache_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Cache",
	.basicsize = sizeof(struct cache_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int core_add_cache(PyObject *module)
{
	core_cache_type = core_add_type(module, &spec);
	return core_cache_type ? 0 : -1;
}
