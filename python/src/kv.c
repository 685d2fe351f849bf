/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key-value cache. Keys and values are bytes; what they mean is up to the Python side, which
 * keeps the kind of a value in its flags.
 *
 * A worker of the library belongs to one call at a time: free ones wait in a list, which the GIL
 * guards. Operations that are complete when they are submitted, as gets of items in memory are, do
 * not release the GIL.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "fathom/hd/wait.h"
#include "fathom/kv.h"

#define WORKERS_MAX 16	/* free ones that are kept */
#define BATCH	    128 /* operations of one call in flight */

struct kv_object {
	PyObject ob_base;
	struct core_handle handle;
	struct fth_kv *kv;
	struct fth_kv_worker *workers[WORKERS_MAX];
	unsigned free;
};

static PyTypeObject *kv_type;

static PyObject *kv_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"flash", "memory", "persistence", "value_max", "items", NULL};
	struct fth_kv_options options = FTH_KV_OPTIONS_INIT;
	unsigned long long memory, items = 0;
	unsigned value_max = 0;
	struct kv_object *self;
	const char *flash;
	int persistence, rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "zKi|IK", names, &flash, &memory,
					 &persistence, &value_max, &items))
		return NULL;
	self = core_alloc(type);
	if (!self)
		return NULL;
	options.flash = flash;
	options.memory = memory;
	options.persistence = (enum fth_kv_persistence)persistence;
	options.value_max = value_max;
	options.items = items;
	CORE_UNLOCKED(rc = fth_kv_open(&options, &self->kv));
	if (rc < 0) {
		core_raise(rc);
		Py_DECREF(self);
		return NULL;
	}
	core_handle_open(&self->handle, "cache");
	return (PyObject *)self;
}

static int kv_finish(struct kv_object *self)
{
	int rc;

	while (self->free)
		fth_kv_worker_close(self->workers[--self->free]);
	CORE_UNLOCKED(rc = fth_kv_close(self->kv));
	self->kv = NULL;
	return rc;
}

static PyObject *kv_close(PyObject *object, PyObject *none)
{
	struct kv_object *self = (struct kv_object *)object;
	int turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	return core_none(kv_finish(self));
}

static void kv_dealloc(PyObject *object)
{
	struct kv_object *self = (struct kv_object *)object;
	PyObject *type, *value, *trace;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0) {
		int rc;

		PyErr_Fetch(&type, &value, &trace);
		rc = kv_finish(self);
		if (rc < 0) {
			core_raise(rc);
			PyErr_WriteUnraisable((PyObject *)kv_type);
		}
		PyErr_Restore(type, value, trace);
	}
	core_free(object);
}

/* ---- operations ---- */

static struct fth_kv_worker *worker_take(struct kv_object *self)
{
	struct fth_kv_worker *worker;
	int rc;

	if (!core_handle_begin(&self->handle))
		return NULL;
	if (self->free)
		return self->workers[--self->free];
	rc = fth_kv_worker_open(self->kv, &worker);
	if (rc == 0)
		return worker;
	core_handle_end(&self->handle);
	core_raise(rc);
	return NULL;
}

static void worker_give(struct kv_object *self, struct fth_kv_worker *worker)
{
	if (self->free < WORKERS_MAX)
		self->workers[self->free++] = worker;
	else
		CORE_UNLOCKED(fth_kv_worker_close(worker));
	core_handle_end(&self->handle);
}

static bool op_key(struct fth_kv_op *op, PyObject *key)
{
	char *bytes;
	Py_ssize_t length;

	if (PyBytes_AsStringAndSize(key, &bytes, &length) < 0)
		return false;
	op->key = bytes;
	op->key_length = (uint32_t)length;
	return true;
}

static bool op_value(struct fth_kv_op *op, PyObject *value)
{
	char *bytes;
	Py_ssize_t length;

	if (PyBytes_AsStringAndSize(value, &bytes, &length) < 0)
		return false;
	if (length > UINT32_MAX)
		length = UINT32_MAX; /* more than any limit: refused as too long */
	op->value = bytes;
	op->value_length = (uint32_t)length;
	return true;
}

/* Submit operations and wait for all of them. Each has its result. */
static int do_all(struct fth_kv_worker *worker, struct fth_kv_op *ops, size_t n)
{
	struct fth_kv_op *done[BATCH];
	size_t submitted = 0, complete = 0;
	int rc;

	while (complete < n) {
		while (submitted < n && submitted - complete < BATCH) {
			rc = fth_kv_submit(worker, &ops[submitted]);
			if (rc == -EAGAIN && submitted > complete)
				break;
			if (rc < 0)
				ops[submitted].result = rc;
			complete += rc != 0;
			submitted++;
		}
		if (submitted == complete)
			continue;
		rc = fth_kv_reap(worker, done, BATCH, 1, FTH_NEVER);
		if (rc < 0)
			return rc;
		complete += (size_t)rc;
	}
	return 0;
}

/* One operation; its result. */
static int do_one(struct fth_kv_worker *worker, struct fth_kv_op *op)
{
	struct fth_kv_op *done;
	int rc = fth_kv_submit(worker, op);

	if (rc == 1)
		return op->result;
	if (rc == 0)
		CORE_UNLOCKED(rc = fth_kv_reap(worker, &done, 1, 1, FTH_NEVER));
	return rc < 0 ? rc : op->result;
}

/* None, or a tuple of value and flags. */
static PyObject *item_of(struct fth_kv_worker *worker, struct fth_kv_op *op)
{
	PyObject *result;

	if (op->result == -ENOENT)
		Py_RETURN_NONE;
	if (op->result < 0)
		return core_raise(op->result);
	result = Py_BuildValue("(y#I)", op->data, (Py_ssize_t)op->length, op->item_flags);
	fth_kv_release(worker, op);
	return result;
}

static PyObject *kv_get(PyObject *object, PyObject *key)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	struct kv_object *self = (struct kv_object *)object;
	struct fth_kv_worker *worker;
	PyObject *result;

	if (!op_key(&op, key) || !(worker = worker_take(self)))
		return NULL;
	op.result = do_one(worker, &op);
	result = item_of(worker, &op);
	worker_give(self, worker);
	return result;
}

static PyObject *kv_get_many(PyObject *object, PyObject *keys)
{
	struct kv_object *self = (struct kv_object *)object;
	struct fth_kv_worker *worker;
	Py_ssize_t n = PyList_Size(keys);
	struct fth_kv_op *ops;
	PyObject *list = NULL;
	int rc;

	if (n < 0)
		return NULL;
	ops = calloc((size_t)n + 1, sizeof(*ops));
	if (!ops)
		return PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n; i++) {
		ops[i].verb = FTH_KV_GET;
		if (!op_key(&ops[i], PyList_GetItem(keys, i))) {
			free(ops);
			return NULL;
		}
	}
	worker = worker_take(self);
	if (worker) {
		fth_kv_worker_batch(worker, true);
		CORE_UNLOCKED(rc = do_all(worker, ops, (size_t)n));
		fth_kv_worker_batch(worker, false);
		list = rc < 0 ? core_raise(rc) : PyList_New(n);
		for (Py_ssize_t i = 0; i < n; i++) {
			PyObject *item = list ? item_of(worker, &ops[i]) : NULL;

			if (list && (!item || PyList_SetItem(list, i, item) < 0))
				Py_CLEAR(list);
			fth_kv_release(worker, &ops[i]);
		}
		worker_give(self, worker);
	}
	free(ops);
	return list;
}

/* store(verb, key, value, flags, expires): the result, 0 or a positive errno that is an answer. */
static PyObject *kv_store(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
	struct kv_object *self = (struct kv_object *)object;
	struct fth_kv_op op = {0};
	struct fth_kv_worker *worker;
	int rc;

	if (!core_arguments("store", n, 5) || !op_key(&op, args[1]) || !op_value(&op, args[2]))
		return NULL;
	op.verb = (enum fth_kv_verb)PyLong_AsLong(args[0]);
	op.flags = (uint32_t)PyLong_AsUnsignedLong(args[3]);
	op.expires = (uint32_t)PyLong_AsUnsignedLong(args[4]);
	if (PyErr_Occurred() || !(worker = worker_take(self)))
		return NULL;
	rc = do_one(worker, &op);
	fth_kv_release(worker, &op);
	worker_give(self, worker);
	if (rc == -ENOENT || rc == -EEXIST)
		return PyLong_FromLong(-rc);
	return rc < 0 ? core_raise(rc) : PyLong_FromLong(0);
}

/* set_many(keys, values, flags, expires): lists of the same length. */
static PyObject *kv_set_many(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
	struct kv_object *self = (struct kv_object *)object;
	struct fth_kv_worker *worker;
	struct fth_kv_op *ops;
	uint64_t expires;
	Py_ssize_t n;
	int rc = 0;

	if (!core_arguments("set_many", count, 4) || !core_u64(args[3], &expires) ||
	    (n = PyList_Size(args[0])) < 0)
		return NULL;
	ops = calloc((size_t)n + 1, sizeof(*ops));
	if (!ops)
		return PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
		PyObject *value = PyList_GetItem(args[1], i), *flags = PyList_GetItem(args[2], i);

		ops[i].verb = FTH_KV_SET;
		ops[i].expires = (uint32_t)expires;
		if (value && flags && op_key(&ops[i], PyList_GetItem(args[0], i)) &&
		    op_value(&ops[i], value))
			ops[i].flags = (uint32_t)PyLong_AsUnsignedLong(flags);
	}
	worker = PyErr_Occurred() ? NULL : worker_take(self);
	if (worker) {
		CORE_UNLOCKED(rc = do_all(worker, ops, (size_t)n));
		for (Py_ssize_t i = 0; i < n && rc == 0; i++)
			rc = ops[i].result;
		worker_give(self, worker);
		if (rc < 0)
			core_raise(rc);
	}
	free(ops);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *kv_checkpoint(PyObject *object, PyObject *none)
{
	struct kv_object *self = (struct kv_object *)object;
	int rc;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_kv_checkpoint(self->kv, FTH_NEVER));
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

static PyObject *kv_stats(PyObject *object, PyObject *none)
{
	struct kv_object *self = (struct kv_object *)object;
	struct fth_kv_usage u;
	PyObject *dict;
	int rc = 0;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	fth_kv_usage(self->kv, &u);
	dict = PyDict_New();
	for (int i = 0; dict && rc == 0 && i < FTH_KV_STAT_COUNT; i++)
		rc = put(dict, fth_kv_stat_name(i), fth_kv_stat(self->kv, i));
	if (dict && rc == 0 &&
	    (put(dict, "items", u.items) < 0 || put(dict, "index_bytes", u.index_bytes) < 0 ||
	     put(dict, "memory_bytes", u.memory_bytes) < 0 ||
	     put(dict, "flash_used", u.flash_used) < 0))
		rc = -1;
	core_handle_end(&self->handle);
	if (rc < 0)
		Py_CLEAR(dict);
	return dict;
}

static PyMethodDef methods[] = {
	CORE_NOARGS("close", kv_close, "close()\n--\n\nMake everything durable and close."),
	CORE_NOARGS("checkpoint", kv_checkpoint, "checkpoint()\n--\n\nWrite the index."),
	CORE_NOARGS("stats", kv_stats, "stats()\n--\n\nCounters and sizes, as a dict."),
	{"get", kv_get, METH_O, "get(key)\n--\n\nNone, or value and flags."},
	{"get_many", kv_get_many, METH_O, "get_many(keys)\n--\n\nThe same for a list of keys."},
	CORE_FAST("store", kv_store,
		  "store(verb, key, value, flags, expires)\n--\n\n0, or ENOENT or EEXIST."),
	CORE_FAST("set_many", kv_set_many,
		  "set_many(keys, values, flags, expires)\n--\n\nStore all items of lists."),
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Kv(flash, memory, persistence, value_max=0, items=0)\n--\n\n"
		    "A key-value cache of bytes."},
	{Py_tp_new, kv_new},
	{Py_tp_dealloc, kv_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Kv",
	.basicsize = sizeof(struct kv_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int core_add_kv(PyObject *module)
{
	static const struct {
		const char *name;
		int value;
	} verbs[] = {{"KV_SET", FTH_KV_SET},
		     {"KV_ADD", FTH_KV_ADD},
		     {"KV_DELETE", FTH_KV_DELETE},
		     {"KV_TOUCH", FTH_KV_TOUCH},
		     {"KV_CLEAR", FTH_KV_FLUSH_ALL}};

	kv_type = core_add_type(module, &spec);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (PyModule_AddIntConstant(module, verbs[i].name, verbs[i].value) < 0)
			return -1;
	return kv_type ? 0 : -1;
}
