/* SPDX-License-Identifier: BSD-2-Clause */
/* Databases and results: what query.c, convert.c and table.c share. */
#ifndef FATHOM_PYTHON_QUERY_H
#define FATHOM_PYTHON_QUERY_H

#include "core.h"

#include "fathom/query.h"
#include "fathom/query/arrow.h"

struct engine_object {
	PyObject ob_base;
	struct core_handle handle; /* streams and writers are calls in progress */
	struct fth_query_db *db;
};

struct stream_object {
	PyObject ob_base;
	struct core_handle handle;
	PyObject *engine;
	struct fth_query *query; /* NULL: handed over or released */
	struct ArrowArrayStream stream;
	struct ArrowSchema schema;
	struct ArrowArray batch; /* the latest */
	PyObject *weak_references;
};

/* An Engine with a call begun, which core_handle_end() ends; NULL with an exception. */
struct engine_object *core_engine_begin(PyObject *object);

/* The next batch of a stream, in self->batch: 1; 0 at the end; -1 with an exception. */
int core_stream_next(struct stream_object *self);

/* A batch as a list of tuples. */
PyObject *core_rows_of_batch(const struct ArrowSchema *schema, const struct ArrowArray *batch);

/*
 * The rest of a stream by columns, or some rows once there are `most` of them: a list with a tuple
 * (kind, values, nulls) for each. kind is one character: ? boolean, i int32, l int64, D date, d
 * double, s text. values is a Bytes object (dates are int64), or a list of str and None for text.
 * nulls is a Bytes object with a byte for each row, or None if no value is null. Decimals are
 * doubles.
 */
PyObject *core_columns_of_stream(struct stream_object *self, uint64_t most);

#endif
