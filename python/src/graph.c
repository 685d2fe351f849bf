/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Graphs: built from arrays of edges or from text, and the algorithms of the library on them.
 *
 * The library builds graphs from text. Arrays become a stream that prints their edges as they are
 * read, so that nothing but the arrays themselves is in memory.
 */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fathom/graph.h"

struct graph_object {
	PyObject ob_base;
	struct core_handle handle;
	PyObject *cache; /* a call on it is in progress while the graph is open */
	struct fth_graph *graph;
};

static PyTypeObject *graph_type;

/* Called in the thread of the call, which has released the GIL: Ctrl-C ends the work. */
static int look_for_signals(void *context, const char *what, uint64_t done, uint64_t total)
{
	PyGILState_STATE state = PyGILState_Ensure();
	int rc = PyErr_CheckSignals();

	(void)context, (void)what, (void)done, (void)total;
	PyGILState_Release(state);
	return rc < 0 ? -ECANCELED : 0;
}

/* An exception of a signal handler, if there is one, else that of the error. */
static PyObject *graph_raise(int rc)
{
	return PyErr_Occurred() ? NULL : core_raise(rc);
}

/* ---- edges in memory as text ---- */

struct edges {
	const int64_t *from, *to;
	const double *weights; /* may be NULL */
	size_t n, next;
	char line[96]; /* what was printed and not read yet */
	size_t length, used;
};

static size_t print_number(char *to, uint64_t value)
{
	char digits[20];
	size_t n = 0, length;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (length = n; n; n--)
		*to++ = digits[n - 1];
	return length;
}

static void print_edge(struct edges *e)
{
	char *at = e->line;

	at += print_number(at, (uint64_t)e->from[e->next]);
	*at++ = ' ';
	at += print_number(at, (uint64_t)e->to[e->next]);
	if (e->weights)
		at += snprintf(at, 40, " %.17g", e->weights[e->next]);
	*at++ = '\n';
	e->length = (size_t)(at - e->line);
	e->used = 0;
	e->next++;
}

static ssize_t read_edges(void *cookie, char *buffer, size_t size)
{
	struct edges *e = cookie;
	size_t done = 0;

	while (done < size) {
		size_t n = e->length - e->used;

		if (n == 0) {
			if (e->next == e->n)
				break;
			print_edge(e);
			continue;
		}
		n = n < size - done ? n : size - done;
		memcpy(buffer + done, e->line + e->used, n);
		e->used += n;
		done += n;
	}
	return (ssize_t)done;
}

/* ---- building ---- */

struct target {
	const char *path; /* escaped, as in a URI */
	struct fth_dev *dev;
};

static int open_target(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct target *target = context;
	char *uri;
	int rc;

	if (asprintf(&uri, "file:%s?create=on&size=%llu", target->path,
		     (unsigned long long)((bytes + 4095) / 4096 * 4096)) < 0)
		return -ENOMEM;
	rc = fth_dev_open(uri, &target->dev);
	free(uri);
	*out = target->dev;
	return rc;
}

static int build(const struct fth_graph_import *what, const char *path, uint64_t memory,
		 const char *scratch, struct fth_graph_info *info)
{
	struct fth_graph_job job = {.progress = look_for_signals};
	struct target target = {.path = path};
	struct fth_graph_build options = {
		.memory = memory, .directory = scratch, .open = open_target, .context = &target};
	int rc = fth_graph_import(what, &options, &job, info);

	fth_dev_close(target.dev);
	return rc;
}

static PyObject *counts_of(const struct fth_graph_info *info)
{
	return Py_BuildValue("(KKK)", (unsigned long long)info->vertices,
			     (unsigned long long)info->edges, (unsigned long long)info->bytes);
}

/* build_graph(path, from, to, weights, vertices, undirected, reversed, memory, scratch) */
static PyObject *build_graph(PyObject *self, PyObject *args)
{
	struct fth_graph_import what = {.format = FTH_GRAPH_EDGE_LIST,
					.header = FTH_GRAPH_HEADER_NONE};
	unsigned long long vertices, memory;
	PyObject *objects[3], *result = NULL;
	int undirected, reversed, rc = 0, held = 0;
	struct fth_graph_info info;
	const char *path, *scratch;
	Py_buffer buffers[3];
	struct edges edges = {0};

	(void)self;
	if (!PyArg_ParseTuple(args, "sOOOKppKs", &path, &objects[0], &objects[1], &objects[2],
			      &vertices, &undirected, &reversed, &memory, &scratch))
		return NULL;
	while (held < 3 && (held < 2 || objects[2] != Py_None) &&
	       core_buffer(objects[held], false, held ? (uint64_t)buffers[0].len : UINT64_MAX,
			   &buffers[held]))
		held++;
	if (!PyErr_Occurred()) {
		edges.from = buffers[0].buf;
		edges.to = buffers[1].buf;
		edges.weights = held == 3 ? buffers[2].buf : NULL;
		edges.n = (size_t)buffers[0].len / 8;
		what.undirected = undirected;
		what.reversed = reversed;
		what.vertices = vertices;
		what.weighted = edges.weights != NULL;
		what.in = fopencookie(&edges, "r", (cookie_io_functions_t){.read = read_edges});
		if (what.in) {
			CORE_UNLOCKED(rc = build(&what, path, memory, scratch, &info));
			fclose(what.in);
			result = rc < 0 ? graph_raise(rc) : counts_of(&info);
		} else {
			PyErr_NoMemory();
		}
	}
	while (held)
		PyBuffer_Release(&buffers[--held]);
	return result;
}

/* import_graph(path, text, matrix_market, delimiter, relabel, undirected, weighted, memory,
 * scratch): `text` is the descriptor of an open file. */
static PyObject *import_graph(PyObject *self, PyObject *args)
{
	struct fth_graph_import what = {0};
	int market, relabel, undirected, weighted, fd, rc;
	const char *path, *delimiter, *scratch;
	unsigned long long memory;
	struct fth_graph_info info;

	(void)self;
	if (!PyArg_ParseTuple(args, "sipspppKs", &path, &fd, &market, &delimiter, &relabel,
			      &undirected, &weighted, &memory, &scratch))
		return NULL;
	what.format = market ? FTH_GRAPH_MATRIX_MARKET : FTH_GRAPH_EDGE_LIST;
	what.delimiter = delimiter[0];
	what.relabel = relabel;
	what.undirected = undirected;
	what.weighted = weighted;
	fd = dup(fd);
	what.in = fd < 0 ? NULL : fdopen(fd, "r");
	if (!what.in) {
		PyErr_SetFromErrno(PyExc_OSError);
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	CORE_UNLOCKED(rc = build(&what, path, memory, scratch, &info));
	fclose(what.in);
	return rc < 0 ? graph_raise(rc) : counts_of(&info);
}

/* ---- opening, closing ---- */

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"cache", "uri", NULL};
	struct graph_object *self;
	struct fth_cache *cache;
	PyObject *holder;
	const char *uri;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Os", names, &holder, &uri) ||
	    !(cache = core_cache_begin(holder)))
		return NULL;
	self = core_alloc(type);
	if (!self) {
		core_cache_end(holder);
		return NULL;
	}
	CORE_UNLOCKED(rc = fth_graph_open(cache, uri, NULL, &self->graph));
	if (rc < 0) {
		core_raise(rc);
		core_cache_end(holder);
		Py_DECREF(self);
		return NULL;
	}
	Py_INCREF(holder);
	self->cache = holder;
	core_handle_open(&self->handle, "graph");
	return (PyObject *)self;
}

static PyObject *graph_close(PyObject *object, PyObject *none)
{
	struct graph_object *self = (struct graph_object *)object;
	int rc, turn = core_handle_close(&self->handle);

	(void)none;
	if (turn < 0)
		return NULL;
	if (turn == 0)
		Py_RETURN_NONE;
	CORE_UNLOCKED(rc = fth_graph_close(self->graph));
	if (rc < 0)
		self->handle.open = true;
	else
		core_cache_end(self->cache);
	return core_none(rc);
}

static void graph_dealloc(PyObject *object)
{
	struct graph_object *self = (struct graph_object *)object;
	int rc = -1;

	self->handle.users = 0;
	if (core_handle_close(&self->handle) > 0) {
		CORE_UNLOCKED(rc = fth_graph_close(self->graph));
		if (rc == 0)
			core_cache_end(self->cache);
	}
	Py_XDECREF(self->cache);
	core_free(object);
}

/* ---- algorithms ---- */

/* A copy of a result for numpy. */
static PyObject *copy_of(const void *values, uint64_t n, size_t width)
{
	void *memory = malloc(n * width + 1);

	if (!memory)
		return PyErr_NoMemory();
	memcpy(memory, values, n * width);
	return core_bytes_new(memory, n * width);
}

static const struct fth_graph_job job = {.progress = look_for_signals};

static PyObject *graph_pagerank(PyObject *object, PyObject *args)
{
	struct fth_graph_pagerank_options options = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	struct graph_object *self = (struct graph_object *)object;
	struct fth_graph_pagerank out = {0};
	PyObject *result;
	int rc;

	if (!PyArg_ParseTuple(args, "Idd", &options.iterations, &options.tolerance,
			      &options.damping) ||
	    !core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_pagerank(self->graph, &options, &job, &out));
	result = rc < 0 ? graph_raise(rc)
			: copy_of(out.rank, fth_graph_info(self->graph)->vertices, 8);
	if (rc == 0)
		fth_graph_pagerank_release(&out);
	core_handle_end(&self->handle);
	return result;
}

static PyObject *graph_bfs(PyObject *object, PyObject *source)
{
	struct graph_object *self = (struct graph_object *)object;
	struct fth_graph_bfs out = {0};
	PyObject *result;
	uint64_t from;
	int rc;

	if (!core_u64(source, &from) || !core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_bfs(self->graph, from, &job, &out));
	result = rc < 0 ? graph_raise(rc)
			: copy_of(out.parent, fth_graph_info(self->graph)->vertices, 4);
	if (rc == 0)
		fth_graph_bfs_release(&out);
	core_handle_end(&self->handle);
	return result;
}

static PyObject *graph_components(PyObject *object, PyObject *none)
{
	struct graph_object *self = (struct graph_object *)object;
	struct fth_graph_cc out = {0};
	PyObject *result;
	int rc;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_cc(self->graph, &job, &out));
	result = rc < 0 ? graph_raise(rc)
			: copy_of(out.label, fth_graph_info(self->graph)->vertices, 4);
	if (rc == 0)
		fth_graph_cc_release(&out);
	core_handle_end(&self->handle);
	return result;
}

static PyObject *graph_sssp(PyObject *object, PyObject *source)
{
	struct graph_object *self = (struct graph_object *)object;
	struct fth_graph_sssp out = {0};
	PyObject *result;
	uint64_t from;
	int rc;

	if (!core_u64(source, &from) || !core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_sssp(self->graph, from, 0, &job, &out));
	result = rc < 0 ? graph_raise(rc)
			: copy_of(out.distance, fth_graph_info(self->graph)->vertices, 8);
	if (rc == 0)
		fth_graph_sssp_release(&out);
	core_handle_end(&self->handle);
	return result;
}

/* ---- vertices ---- */

static PyObject *graph_label(PyObject *object, PyObject *vertex)
{
	struct graph_object *self = (struct graph_object *)object;
	char text[FTH_GRAPH_LABEL_MAX + 1];
	uint64_t v;
	int rc;

	if (!core_u64(vertex, &v) || !core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_label(self->graph, v, text, sizeof(text)));
	core_handle_end(&self->handle);
	return rc < 0 ? core_raise(rc) : PyUnicode_DecodeUTF8(text, rc, "surrogateescape");
}

static PyObject *graph_find(PyObject *object, PyObject *label)
{
	struct graph_object *self = (struct graph_object *)object;
	const char *text = PyUnicode_AsUTF8AndSize(label, NULL);
	uint64_t v;
	int rc;

	if (!text || !core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_find(self->graph, text, &v));
	core_handle_end(&self->handle);
	return rc < 0 ? core_raise(rc) : PyLong_FromUnsignedLongLong(v);
}

static PyObject *graph_degree(PyObject *object, PyObject *vertex)
{
	struct graph_object *self = (struct graph_object *)object;
	uint64_t v, n;
	int rc;

	if (!core_u64(vertex, &v) || !core_handle_begin(&self->handle))
		return NULL;
	CORE_UNLOCKED(rc = fth_graph_degree(self->graph, v, &n));
	core_handle_end(&self->handle);
	return rc < 0 ? core_raise(rc) : PyLong_FromUnsignedLongLong(n);
}

/* Vertices, edges, whether undirected, weighted, with labels. */
static PyObject *graph_info(PyObject *object, PyObject *none)
{
	struct graph_object *self = (struct graph_object *)object;
	const struct fth_graph_info *info;
	PyObject *result;

	(void)none;
	if (!core_handle_begin(&self->handle))
		return NULL;
	info = fth_graph_info(self->graph);
	result = Py_BuildValue("(KKNNN)", (unsigned long long)info->vertices,
			       (unsigned long long)info->edges, PyBool_FromLong(info->undirected),
			       PyBool_FromLong(info->weighted), PyBool_FromLong(info->labels));
	core_handle_end(&self->handle);
	return result;
}

static PyMethodDef methods[] = {
	CORE_NOARGS("close", graph_close, "close()\n--\n\nClose the graph."),
	CORE_NOARGS("info", graph_info,
		    "info()\n--\n\nVertices, edges, undirected, weighted, with labels."),
	{"pagerank", graph_pagerank, METH_VARARGS,
	 "pagerank(iterations, tolerance, damping)\n--\n\nA double for each vertex."},
	{"bfs", graph_bfs, METH_O, "bfs(source)\n--\n\nThe parent of each vertex, uint32."},
	CORE_NOARGS("components", graph_components,
		    "components()\n--\n\nThe least vertex of the component of each, uint32."),
	{"sssp", graph_sssp, METH_O, "sssp(source)\n--\n\nThe distance of each vertex, uint64."},
	{"label", graph_label, METH_O, "label(vertex)\n--\n\nThe name of a vertex."},
	{"find", graph_find, METH_O, "find(label)\n--\n\nThe vertex of a name."},
	{"degree", graph_degree, METH_O, "degree(vertex)\n--\n\nThe number of neighbours."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "Graph(cache, uri)\n--\n\nA graph on a device."},
	{Py_tp_new, graph_new},
	{Py_tp_dealloc, graph_dealloc},
	{Py_tp_methods, methods},
	{0, NULL},
};

static PyType_Spec spec = {
	.name = "fathom._core.Graph",
	.basicsize = sizeof(struct graph_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

static PyMethodDef functions[] = {
	{"build_graph", build_graph, METH_VARARGS, "Build a graph from arrays of edges."},
	{"import_graph", import_graph, METH_VARARGS, "Build a graph from text."},
	{NULL, NULL, 0, NULL},
};

int core_add_graph(PyObject *module)
{
	graph_type = core_add_type(module, &spec);
	return graph_type ? PyModule_AddFunctions(module, functions) : -1;
}
