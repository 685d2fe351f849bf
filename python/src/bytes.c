/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the C library as a Python object: numpy makes arrays of it without copying. */
#include "core.h"

#include <stdlib.h>

struct bytes_object {
	PyObject ob_base;
	void *memory;
	size_t bytes;
};

static PyTypeObject *bytes_type;

PyObject *core_bytes_new(void *memory, size_t bytes)
{
	struct bytes_object *self = core_alloc(bytes_type);

	if (!self) {
		free(memory);
		return NULL;
	}
	self->memory = memory;
	self->bytes = bytes;
	return (PyObject *)self;
}

static int bytes_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
	static char nothing;
	struct bytes_object *b = (struct bytes_object *)self;

	return PyBuffer_FillInfo(view, self, b->memory ? b->memory : &nothing, (Py_ssize_t)b->bytes,
				 0, flags);
}

static void bytes_dealloc(PyObject *self)
{
	free(((struct bytes_object *)self)->memory);
	core_free(self);
}

static PyType_Slot slots[] = {
	{Py_tp_doc, "Memory of a result."},
	{Py_tp_dealloc, bytes_dealloc},
	{Py_bf_getbuffer, bytes_getbuffer},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Bytes",
	.basicsize = sizeof(struct bytes_object),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

int core_add_bytes(PyObject *module)
{
	bytes_type = core_add_type(module, &spec);
	return bytes_type ? 0 : -1;
}
