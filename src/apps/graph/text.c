/* SPDX-License-Identifier: BSD-2-Clause */
#include "apps/graph/text.h"

#include "fathom/base/error.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINE_BYTES_MAX	65536u
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* which some programs write before UTF-8 */
#define RELABEL_HINT	"relabel accepts any names"
#define SEPARATOR	'\v' /* stands for the delimiter in a line; isspace() knows it as a blank */

/* ---- lines ---- */

struct reader {
	const struct fth_graph_import *what;
	char line[LINE_BYTES_MAX + 1]; /* without its end */
	const char *at;
	uint64_t number;
	int delimiter;	     /* 0: none */
	bool weights_here;   /* lines have a weight, wanted or not */
	bool weights_needed; /* and must have it */
	bool one_based;
	uint64_t vertices_max;
};

static int bad(const struct reader *r, const char *what)
{
	return fth_fail(EINVAL, "line %llu: %s", (unsigned long long)r->number, what);
}

static int read_failed(const struct reader *r)
{
	int err = errno ? errno : EIO;

	return fth_fail(err, "cannot read on after line %llu: %s", (unsigned long long)r->number,
			strerror(err));
}

/* The next line: 1, or 0 at the end of the file, or a negative errno. */
static int next_line(struct reader *r)
{
	size_t n = 0;
	int c;

	errno = 0;
	r->number++;
	while ((c = getc_unlocked(r->what->in)) != EOF && c != '\n') {
		if (c == '\0')
			return bad(r, "a zero byte: not a text file");
		if (n == LINE_BYTES_MAX)
			return bad(r, "the line is longer than 65536 bytes");
		r->line[n++] = (char)(c == r->delimiter ? SEPARATOR : c);
	}
	r->line[n] = '\0';
	r->at = r->line;
	if (r->number == 1 && strncmp(r->at, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0)
		r->at += strlen(BYTE_ORDER_MARK);
	if (c != EOF || n > 0)
		return ferror(r->what->in) ? read_failed(r) : 1;
	r->number--;
	return ferror(r->what->in) ? read_failed(r) : 0;
}

static void skip_blanks(struct reader *r)
{
	while (isspace((unsigned char)*r->at))
		r->at++;
}

static bool at_end(struct reader *r)
{
	skip_blanks(r);
	return *r->at == '\0';
}

/* The next line that is neither empty nor a comment, from its start on; as next_line(). */
static int next_content(struct reader *r)
{
	const char *start;
	int rc;

	do {
		rc = next_line(r);
		start = r->at;
	} while (rc > 0 && (at_end(r) || *r->at == '#' || *r->at == '%'));
	r->at = start;
	return rc;
}

/* A whole number up to max, followed by a blank or the end. */
static int take_number(struct reader *r, uint64_t max, const char *what, uint64_t *out)
{
	uint64_t value = 0;

	skip_blanks(r);
	if (!isdigit((unsigned char)*r->at))
		return bad(r, what);
	for (; isdigit((unsigned char)*r->at); r->at++) {
		unsigned digit = (unsigned)(*r->at - '0');

		if (digit > max || value > (max - digit) / 10)
			return fth_fail(EINVAL, "line %llu: the number exceeds %llu%s",
					(unsigned long long)r->number, (unsigned long long)max,
					max >= FTH_GRAPH_VERTICES_MAX - 1 ? "; " RELABEL_HINT : "");
		value = value * 10 + digit;
	}
	if (*r->at && !isspace((unsigned char)*r->at))
		return bad(r, what);
	*out = value;
	return 0;
}

/* ---- edges ---- */

/* Two delimiters with nothing between them: the fields after them would be taken for others. */
static int check_field(struct reader *r, int field)
{
	int most = field > 0, found = 0;

	for (; isspace((unsigned char)*r->at); r->at++)
		found += r->delimiter && *r->at == SEPARATOR;
	return found > most && *r->at ? bad(r, "an empty field") : 0;
}

static int take_vertex(struct reader *r, uint32_t *out)
{
	uint64_t value, most = r->vertices_max - 1 + r->one_based;
	int rc = take_number(r, most, "expected a vertex number; " RELABEL_HINT, &value);

	if (rc < 0)
		return rc;
	if (r->one_based && value == 0)
		return bad(r, "vertex 0 in a file whose first vertex is 1");
	*out = (uint32_t)(value - r->one_based);
	return 0;
}

static int round_weight(struct reader *r, double value, uint32_t *out)
{
	double scale = r->what->scale_weights;
	double whole = rint(value * (scale > 0 ? scale : 1));

	if (!isfinite(value))
		return bad(r, "the weight is not a number");
	if (value < 0)
		return bad(r, "the weight is negative");
	if (!(scale > 0) && whole != value)
		return bad(r, "the weight is not an integer; scale weights to round them");
	if (whole >= (double)UINT32_MAX)
		return bad(r, "the weight is too large");
	*out = (uint32_t)whole;
	return 0;
}

static int take_weight(struct reader *r, uint32_t *out)
{
	char *end;
	double value;
	int rc = check_field(r, 2);

	if (rc < 0)
		return rc;
	if (at_end(r))
		return r->weights_needed ? bad(r, "expected a weight") : 0;
	value = strtod(r->at, &end);
	if (end == r->at || (*end && !isspace((unsigned char)*end)))
		return bad(r, r->weights_needed ? "expected a weight"
						: "expected a weight or the end of the line");
	r->at = end;
	return r->what->weighted ? round_weight(r, value, out) : 0;
}

/* A word. The line stays as it is until the edge was handed out. */
static int take_label(struct reader *r, const char **label, uint32_t *length)
{
	size_t n = 0;

	skip_blanks(r);
	*label = r->at;
	while (r->at[n] && !isspace((unsigned char)r->at[n]))
		n++;
	if (n == 0)
		return bad(r, "expected a vertex name");
	if (n > FTH_GRAPH_LABEL_MAX)
		return bad(r, "the vertex name is longer than 1000 bytes");
	*length = (uint32_t)n;
	r->at += n;
	return 0;
}

static int take_end(struct reader *r, struct fth_graph_text_edge *edge, int end)
{
	int rc = check_field(r, end);

	if (rc < 0)
		return rc;
	if (r->what->relabel)
		return take_label(r, &edge->label[end], &edge->length[end]);
	return take_vertex(r, end ? &edge->to : &edge->from);
}

static int take_edge(struct reader *r, struct fth_graph_text_edge *edge)
{
	int rc;

	*edge = (struct fth_graph_text_edge){0};
	rc = take_end(r, edge, 0);
	if (rc == 0)
		rc = take_end(r, edge, 1);
	if (rc == 0 && r->weights_here)
		rc = take_weight(r, &edge->weight);
	if (rc == 0 && !at_end(r))
		rc = bad(r, "unexpected text after the edge");
	return rc;
}

static int read_edges(struct reader *r, uint64_t most, fth_graph_text_fn fn, void *context)
{
	struct fth_graph_text_edge edge;
	uint64_t count = 0;
	int rc;

	while ((rc = next_content(r)) > 0) {
		if (most && count == most)
			return bad(r, "more entries than the header states");
		rc = take_edge(r, &edge);
		if (rc == 0)
			rc = fn(context, &edge);
		if (rc < 0)
			return rc;
		count++;
	}
	if (rc == 0 && count < most)
		return fth_fail(EINVAL,
				"line %llu: unexpected end of file after %llu of %llu entries",
				(unsigned long long)r->number, (unsigned long long)count,
				(unsigned long long)most);
	return rc;
}

/* ---- Matrix Market ---- */

struct banner {
	char object[32], format[32], field[32], symmetry[32];
};

static int check_banner(struct reader *r, const struct banner *b,
			struct fth_graph_text_header *header)
{
	if (strcasecmp(b->object, "matrix") != 0 || strcasecmp(b->format, "coordinate") != 0)
		return bad(r, "only \"matrix coordinate\" is supported");
	r->weights_here = strcasecmp(b->field, "pattern") != 0;
	if (r->weights_here && strcasecmp(b->field, "integer") != 0 &&
	    strcasecmp(b->field, "real") != 0)
		return bad(r, "the field must be pattern, integer or real");
	if (!r->weights_here && r->what->weighted)
		return bad(r, "weights were requested, but a pattern matrix has none");
	r->weights_needed = r->weights_here;
	header->symmetric = strcasecmp(b->symmetry, "symmetric") == 0;
	if (!header->symmetric && strcasecmp(b->symmetry, "general") != 0)
		return bad(r, "the symmetry must be general or symmetric");
	return 0;
}

static int read_banner(struct reader *r, struct fth_graph_text_header *header)
{
	struct banner b;
	int rc = next_line(r);

	if (rc < 0)
		return rc;
	if (rc == 0 || sscanf(r->line, "%%%%MatrixMarket %31s %31s %31s %31s", b.object, b.format,
			      b.field, b.symmetry) != 4)
		return bad(r, "expected a Matrix Market header: %%MatrixMarket and four words");
	return check_banner(r, &b, header);
}

static int read_sizes(struct reader *r, struct fth_graph_text_header *header)
{
	uint64_t rows, columns;
	int rc = next_content(r);

	if (rc == 0)
		rc = bad(r, "expected the numbers of rows, columns and entries");
	if (rc > 0)
		rc = take_number(r, FTH_GRAPH_VERTICES_MAX, "expected the number of rows", &rows);
	if (rc == 0)
		rc = take_number(r, FTH_GRAPH_VERTICES_MAX, "expected the number of columns",
				 &columns);
	if (rc == 0)
		rc = take_number(r, UINT64_MAX / 64, "expected the number of entries",
				 &header->edges);
	if (rc < 0)
		return rc;
	if (!at_end(r))
		return bad(r, "unexpected text after the number of entries");
	header->vertices = rows > columns ? rows : columns;
	if (header->vertices == 0)
		return bad(r, "the matrix has no rows");
	r->vertices_max = header->vertices;
	return 0;
}

static int read_matrix(struct reader *r, struct fth_graph_text_header *header, fth_graph_text_fn fn,
		       void *context)
{
	int rc = read_banner(r, header);

	r->one_based = true;
	if (rc == 0)
		rc = read_sizes(r, header);
	if (rc < 0)
		return rc;
	if (header->edges > 0)
		return read_edges(r, header->edges, fn, context);
	rc = next_content(r);
	return rc > 0 ? bad(r, "more entries than the header states") : rc;
}

/* ---- either ---- */

int fth_graph_text_read(const struct fth_graph_import *what, struct fth_graph_text_header *header,
			fth_graph_text_fn fn, void *context)
{
	struct reader *r = calloc(1, sizeof(*r));
	int rc;

	*header = (struct fth_graph_text_header){0};
	if (!r)
		return -ENOMEM;
	r->what = what;
	r->weights_here = true;
	r->weights_needed = what->weighted;
	r->one_based = what->one_based;
	r->vertices_max = FTH_GRAPH_VERTICES_MAX;
	/* A blank is one anyway, and as many as there are. */
	r->delimiter = isspace((unsigned char)what->delimiter) ? 0 : (unsigned char)what->delimiter;
	if (what->format == FTH_GRAPH_MATRIX_MARKET)
		rc = read_matrix(r, header, fn, context);
	else if (!what->header || (rc = next_line(r)) > 0)
		rc = read_edges(r, 0, fn, context);
	free(r);
	return rc;
}
