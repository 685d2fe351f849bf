/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_table.h"

#include "cli.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY   8192u /* rows between two looks at the clock and at signals */
#define NPY_ALIGN    64u
#define NPY_HEAD     10u /* bytes before the text of the header */
#define NPY_TEXT_MAX 512u

/* ---- the largest rows: a heap, the worst of those chosen on top ---- */

struct candidate {
	double key;
	uint64_t row;
};

static bool is_worse(const struct candidate *a, const struct candidate *b)
{
	return a->key < b->key || (a->key == b->key && a->row > b->row);
}

static void sift_down(struct candidate *heap, uint64_t n, uint64_t at)
{
	struct candidate moved = heap[at];

	for (;;) {
		uint64_t child = 2 * at + 1;

		if (child + 1 < n && is_worse(&heap[child + 1], &heap[child]))
			child++;
		if (child >= n || !is_worse(&heap[child], &moved))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

static double key_of(const struct graph_table *table, const union graph_value *values)
{
	const union graph_value *value = &values[table->order];

	return table->kinds[table->order] == GRAPH_REAL ? value->real : (double)value->integer;
}

/* Fills heap[0 .. n); returns how many there are. */
static uint64_t choose(const struct graph_table *table, struct candidate *heap, uint64_t n)
{
	union graph_value values[GRAPH_COLUMNS_MAX];
	uint64_t count = 0;

	for (uint64_t i = 0; i < table->rows; i++) {
		struct candidate c = {.row = i};

		if (!table->row(table, i, values))
			continue;
		c.key = key_of(table, values);
		if (count < n) {
			heap[count++] = c;
			for (uint64_t at = count / 2; count == n && at-- > 0;)
				sift_down(heap, n, at);
		} else if (is_worse(&heap[0], &c)) {
			heap[0] = c;
			sift_down(heap, n, 0);
		}
	}
	return count;
}

static int better_first(const void *a, const void *b)
{
	return is_worse(a, b) ? 1 : -1;
}

int graph_table_top(const struct graph_table *table, uint64_t n, struct graph_top *top)
{
	struct candidate *heap;

	if (n > table->rows)
		n = table->rows;
	heap = malloc(n * sizeof(*heap) + 1);
	*top = (struct graph_top){.rows = malloc(n * sizeof(*top->rows) + 1)};
	if (!heap || !top->rows) {
		free(heap);
		return -ENOMEM;
	}
	top->count = n ? choose(table, heap, n) : 0;
	qsort(heap, top->count, sizeof(*heap), better_first);
	for (uint64_t i = 0; i < top->count; i++)
		top->rows[i] = heap[i].row;
	free(heap);
	return 0;
}

/* ---- rows in order ---- */

static uint64_t row_count(const struct graph_table *table, const struct graph_top *top)
{
	return top ? top->count : table->rows;
}

static int look(uint64_t done, uint64_t total)
{
	if (done % LOOK_EVERY != 0)
		return 0;
	fth_cli_progress("writing the result", done, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

static int write_failed(void)
{
	/* An earlier write failed if it is 0. */
	return errno ? fth_fail(errno, "cannot write the result: %s", strerror(errno))
		     : fth_fail(EIO, "cannot write the result");
}

/* What a vertex is called: its length, or a negative errno. "" for none. */
static int name_of(const struct graph_table *table, int64_t vertex,
		   char text[FTH_GRAPH_LABEL_MAX + 1])
{
	text[0] = '\0';
	return vertex < 0 ? 0
			  : fth_graph_label(table->graph, (uint64_t)vertex, text,
					    FTH_GRAPH_LABEL_MAX + 1);
}

/* ---- text ---- */

static int text_value(const struct graph_table *table, unsigned c, const union graph_value *value,
		      FILE *out)
{
	char text[FTH_GRAPH_LABEL_MAX + 1];
	int rc = 0;

	if (table->kinds[c] == GRAPH_VERTEX)
		rc = name_of(table, value->integer, text);
	else if (table->kinds[c] == GRAPH_REAL)
		snprintf(text, sizeof(text), "%.12g", value->real);
	else
		snprintf(text, sizeof(text), "%lld", (long long)value->integer);
	if (rc < 0)
		return rc;
	if (c > 0)
		putc('\t', out);
	fputs(text, out);
	return 0;
}

static int text_row(const struct graph_table *table, uint64_t i, FILE *out)
{
	union graph_value values[GRAPH_COLUMNS_MAX];
	int rc = 0;

	if (!table->row(table, i, values))
		return 0;
	errno = 0;
	for (unsigned c = 0; c < table->columns && rc == 0; c++)
		rc = text_value(table, c, &values[c], out);
	if (rc < 0)
		return rc;
	return putc('\n', out) == EOF || ferror(out) ? write_failed() : 0;
}

int graph_table_text(const struct graph_table *table, const struct graph_top *top, FILE *out)
{
	uint64_t count = row_count(table, top);
	int rc = 0;

	for (unsigned c = 0; c < table->columns; c++)
		fprintf(out, "%s%s", c ? "\t" : "", table->names[c]);
	putc('\n', out);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		rc = text_row(table, top ? top->rows[i] : i, out);
		if (rc == 0)
			rc = look(i, count);
	}
	errno = 0;
	if (rc == 0 && (fflush(out) != 0 || ferror(out)))
		rc = write_failed();
	return rc;
}

/* ---- numpy ---- */

/* Vertices as bytes of this length; 0: as numbers. */
static uint32_t name_bytes(const struct graph_table *table)
{
	const struct fth_graph_info *info = fth_graph_info(table->graph);

	return info->labels && !info->labels_numeric ? info->label_max : 0;
}

/* The first column that is written: a vertex that is the index is not. */
static unsigned first_column(const struct graph_table *table, const struct graph_top *top)
{
	return table->every_vertex && !top && !fth_graph_info(table->graph)->labels ? 1 : 0;
}

static void describe_type(const struct graph_table *table, unsigned c, char text[16])
{
	uint32_t bytes = table->kinds[c] == GRAPH_VERTEX ? name_bytes(table) : 0;

	if (bytes)
		snprintf(text, 16, "|S%u", bytes);
	else
		snprintf(text, 16, "%s", table->kinds[c] == GRAPH_REAL ? "<f8" : "<i8");
}

/* The header of format version 1.0: a Python dictionary, padded with blanks. */
static void npy_header(const struct graph_table *table, unsigned first, uint64_t rows, FILE *out)
{
	char text[NPY_TEXT_MAX], type[16];
	size_t n = 0, length;

	n += (size_t)snprintf(text, sizeof(text), "{'descr': ");
	if (table->columns - first == 1) {
		describe_type(table, first, type);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "'%s'", type);
	} else {
		for (unsigned c = first; c < table->columns; c++) {
			describe_type(table, c, type);
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s('%s', '%s')",
					      c == first ? "[" : ", ", table->names[c], type);
		}
		n += (size_t)snprintf(text + n, sizeof(text) - n, "]");
	}
	n += (size_t)snprintf(text + n, sizeof(text) - n,
			      ", 'fortran_order': False, 'shape': (%llu,), }",
			      (unsigned long long)rows);
	length = (NPY_HEAD + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN - NPY_HEAD;
	fprintf(out, "\x93NUMPY%c%c%c%c", 1, 0, (int)(length & 255), (int)(length >> 8));
	fprintf(out, "%-*s\n", (int)length - 1, text);
}

static int npy_vertex(const struct graph_table *table, int64_t vertex, uint32_t bytes, FILE *out)
{
	char text[FTH_GRAPH_LABEL_MAX + 1] = {0};
	int rc = name_of(table, vertex, text);

	if (rc < 0)
		return rc;
	if (!bytes) {
		int64_t number = rc ? strtoll(text, NULL, 10) : -1;

		fwrite(&number, sizeof(number), 1, out);
		return 0;
	}
	memset(text + rc, 0, sizeof(text) - (size_t)rc);
	fwrite(text, 1, bytes, out);
	return 0;
}

/* A row without a result has -1, where text has no line. */
static int npy_row(const struct graph_table *table, unsigned first, uint64_t i, FILE *out)
{
	union graph_value values[GRAPH_COLUMNS_MAX];
	uint32_t bytes = name_bytes(table);
	int rc = 0;

	table->row(table, i, values);
	errno = 0;
	for (unsigned c = first; c < table->columns && rc == 0; c++) {
		if (table->kinds[c] == GRAPH_VERTEX)
			rc = npy_vertex(table, values[c].integer, bytes, out);
		else
			fwrite(&values[c], sizeof(values[c]), 1, out);
	}
	return rc == 0 && ferror(out) ? write_failed() : rc;
}

int graph_table_npy(const struct graph_table *table, const struct graph_top *top, FILE *out)
{
	uint64_t count = row_count(table, top);
	unsigned first = first_column(table, top);
	int rc = 0;

	npy_header(table, first, count, out);
	for (uint64_t i = 0; i < count && rc == 0; i++) {
		rc = npy_row(table, first, top ? top->rows[i] : i, out);
		if (rc == 0)
			rc = look(i, count);
	}
	errno = 0;
	if (rc == 0 && (fflush(out) != 0 || ferror(out)))
		rc = write_failed();
	return rc;
}

/* ---- JSON ---- */

static int json_row(const struct graph_table *table, uint64_t i, struct fth_json *j)
{
	union graph_value values[GRAPH_COLUMNS_MAX];
	char text[FTH_GRAPH_LABEL_MAX + 1];
	int rc = 0;

	if (!table->row(table, i, values))
		return 0;
	fth_json_object(j, NULL);
	for (unsigned c = 0; c < table->columns && rc >= 0; c++) {
		if (table->kinds[c] == GRAPH_REAL) {
			fth_json_double(j, table->names[c], values[c].real);
		} else if (table->kinds[c] == GRAPH_INTEGER) {
			fth_json_i64(j, table->names[c], values[c].integer);
		} else {
			rc = name_of(table, values[c].integer, text);
			if (rc > 0 && !name_bytes(table))
				fth_json_digits(j, table->names[c], text);
			else if (rc >= 0)
				fth_json_string(j, table->names[c], rc ? text : NULL);
		}
	}
	fth_json_end(j);
	return rc < 0 ? rc : 0;
}

int graph_table_json(const struct graph_table *table, const struct graph_top *top,
		     struct fth_json *j)
{
	int rc = 0;

	fth_json_array(j, "top");
	for (uint64_t i = 0; i < top->count && rc == 0; i++)
		rc = json_row(table, top->rows[i], j);
	fth_json_end(j);
	return rc;
}
