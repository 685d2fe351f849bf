/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/build/text.h"

#include "base/utf8.h"

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
#define QUOTE		'"'

/* ---- lines ---- */

struct reader {
	const struct fth_graph_import *what;
	char line[LINE_BYTES_MAX + 1]; /* without its end */
	char *at;
	uint64_t number;
	int delimiter; /* 0: none */
	/*
	 * The line that is being read: at the start of a field, inside quotes, right behind them.
	 */
	bool fresh, inside, closed;
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

/* A delimiter that is not inside quotes becomes a separator. Quotes begin where a field does. */
static int mark_delimiter(struct reader *r, int c)
{
	bool opens = c == QUOTE && (r->fresh || r->closed);

	r->closed = r->inside && c == QUOTE;
	if (r->inside) {
		r->inside = c != QUOTE;
		return c;
	}
	r->inside = opens;
	r->fresh = c == r->delimiter || (r->fresh && isspace(c));
	return c == r->delimiter ? SEPARATOR : c;
}

static void start_line(struct reader *r)
{
	r->fresh = true;
	r->inside = r->closed = false;
}

/* The next line: 1, or 0 at the end of the file, or a negative errno. */
static int next_line(struct reader *r)
{
	size_t n = 0;
	int c;

	errno = 0;
	r->number++;
	start_line(r);
	while ((c = getc_unlocked(r->what->in)) != EOF && c != '\n') {
		if (c == '\0')
			return bad(r, "a zero byte: not a text file");
		if (n == LINE_BYTES_MAX)
			return bad(r, "the line is longer than 65536 bytes");
		r->line[n++] = (char)(r->delimiter ? mark_delimiter(r, c) : c);
		if (r->number == 1 && n == strlen(BYTE_ORDER_MARK) &&
		    memcmp(r->line, BYTE_ORDER_MARK, n) == 0) {
			n = 0;
			start_line(r);
		}
	}
	r->line[n] = '\0';
	r->at = r->line;
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
	char *start;
	int rc;

	do {
		rc = next_line(r);
		start = r->at;
	} while (rc > 0 && (at_end(r) || *r->at == '#' || *r->at == '%'));
	r->at = start;
	return rc;
}

/* ---- fields ---- */

/* A field in quotes, without them, and with a zero behind it. */
static int take_quoted(struct reader *r, char **field, size_t *length)
{
	char *from = r->at + 1, *to = from;

	for (*field = to; *from != QUOTE || from[1] == QUOTE; from++) {
		if (!*from)
			return bad(r, "a quote is not closed");
		from += *from == QUOTE;
		*to++ = *from;
	}
	*length = (size_t)(to - *field);
	*to = '\0';
	r->at = from + 1;
	if (*r->at && !isspace((unsigned char)*r->at))
		return bad(r, "unexpected text after a quoted field");
	return 0;
}

/*
 * The next field: a word, or in quotes; with_blanks: up to the delimiter if there is one. Empty at
 * the end of the line.
 */
static int take_field(struct reader *r, bool with_blanks, char **field, size_t *length)
{
	size_t n = 0;

	skip_blanks(r);
	if (*r->at == QUOTE)
		return take_quoted(r, field, length);
	with_blanks = with_blanks && r->delimiter;
	while (r->at[n] &&
	       (with_blanks ? r->at[n] != SEPARATOR : !isspace((unsigned char)r->at[n])))
		n++;
	*field = r->at;
	r->at += n;
	while (n > 0 && isspace((unsigned char)(*field)[n - 1]))
		n--;
	*length = n;
	return 0;
}

/* A whole number up to max. */
static int take_number(struct reader *r, uint64_t max, const char *what, uint64_t *out)
{
	uint64_t value = 0;
	size_t length, i;
	char *field;
	int rc = take_field(r, false, &field, &length);

	for (i = 0; rc == 0 && i < length && isdigit((unsigned char)field[i]); i++) {
		unsigned digit = (unsigned)(field[i] - '0');

		if (digit > max || value > (max - digit) / 10)
			return fth_fail(EINVAL, "line %llu: the number exceeds %llu%s",
					(unsigned long long)r->number, (unsigned long long)max,
					max >= FTH_GRAPH_VERTICES_MAX - 1 ? "; " RELABEL_HINT : "");
		value = value * 10 + digit;
	}
	*out = value;
	if (rc == 0 && (length == 0 || i < length))
		rc = bad(r, what);
	return rc;
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
	char *field, *end;
	size_t length;
	double value;
	int rc = check_field(r, 2);

	if (rc < 0)
		return rc;
	if (at_end(r))
		return r->weights_needed ? bad(r, "expected a weight") : 0;
	rc = take_field(r, false, &field, &length);
	if (rc < 0)
		return rc;
	value = strtod(field, &end);
	if (length == 0 || end != field + length)
		return bad(r, r->weights_needed ? "expected a weight"
						: "expected a weight or the end of the line");
	return r->what->weighted ? round_weight(r, value, out) : 0;
}

/* A name. The line stays as it is until the edge was handed out. */
static int take_label(struct reader *r, const char **label, uint32_t *length)
{
	char *field;
	size_t n;
	int rc = take_field(r, true, &field, &n);

	if (rc < 0)
		return rc;
	if (n == 0)
		return bad(r, "expected a vertex name");
	if (n > FTH_GRAPH_LABEL_MAX)
		return bad(r, "the vertex name is longer than 1000 bytes");
	/* Results are lines of text with a tab between fields. */
	for (size_t i = 0; i < n; i++)
		if (iscntrl((unsigned char)field[i]))
			return bad(r, "a control character in a vertex name");
	*label = field;
	*length = (uint32_t)n;
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

/* The edge of a line that was read. */
static int tell_edge(struct reader *r, fth_graph_text_fn fn, void *context)
{
	struct fth_graph_text_edge edge;
	int rc = take_edge(r, &edge);

	return rc < 0 ? rc : fn(context, &edge);
}

static int read_edges(struct reader *r, uint64_t most, fth_graph_text_fn fn, void *context)
{
	uint64_t count = 0;
	int rc;

	while ((rc = next_content(r)) > 0) {
		if (most && count == most)
			return bad(r, "more entries than the header states");
		rc = tell_edge(r, fn, context);
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

/* ---- edge lists ---- */

/* An edge of the first line that may name columns, until another line decides. */
struct held_edge {
	struct fth_graph_text_edge edge;
	char label[2][FTH_GRAPH_LABEL_MAX];
	uint64_t line;
};

static bool ends_word(const struct reader *r, char c, bool quoted)
{
	if (quoted)
		return c == QUOTE;
	return r->delimiter && r->what->relabel ? c == SEPARATOR : isspace((unsigned char)c);
}

/* Do so many fields of a line begin with letters? The line is not changed. */
static bool has_words(const struct reader *r, int fields)
{
	const char *at = r->at;

	for (int field = 0; field < fields; field++) {
		bool quoted;

		while (isspace((unsigned char)*at))
			at++;
		quoted = *at == QUOTE;
		at += quoted;
		if (!isalpha((unsigned char)*at) && *at != '_' &&
		    !(*at && utf8_length(at, strlen(at)) > 1))
			return false;
		while (*at && !ends_word(r, *at, quoted))
			at++;
		at += quoted && *at;
		if (*at && !isspace((unsigned char)*at))
			return false;
	}
	return true;
}

/* Is it a usual name of a column of edges? */
static bool names_column(const char *label, size_t length)
{
	static const char *const usual[] = {
		"from",	     "to",	    "source",	"target",   "src",	  "dst",
		"dest",	     "destination", "from_id",	"to_id",    "fromid",	  "toid",
		"from_node", "to_node",	    "fromnode", "tonode",   "fromnodeid", "tonodeid",
		"source_id", "target_id",   "sourceid", "targetid", "node1",	  "node2",
		"node_1",    "node_2",	    "vertex1",	"vertex2",
	};

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		if (strlen(usual[i]) == length && strncasecmp(usual[i], label, length) == 0)
			return true;
	return false;
}

static bool is_number(const char *label, size_t length)
{
	return strspn(label, "0123456789") >= length;
}

/*
 * The first line, which has words. 1: it names columns. 0: it may, if all other lines have numbers,
 * and is held. Or an error, of an edge.
 */
static int look_at_names(struct reader *r, struct held_edge *held)
{
	struct fth_graph_text_edge *edge = &held->edge;
	bool no_edge = !r->what->relabel || (r->weights_here && has_words(r, 3));
	int rc = no_edge ? 1 : take_edge(r, edge);

	if (rc != 0)
		return rc;
	if (names_column(edge->label[0], edge->length[0]) &&
	    names_column(edge->label[1], edge->length[1]))
		return 1;
	for (int end = 0; end < 2; end++) {
		memcpy(held->label[end], edge->label[end], edge->length[end]);
		edge->label[end] = held->label[end];
	}
	held->line = r->number;
	return 0;
}

/*
 * Lines behind one that is held, up to the first that has a word, or to the end: they decide what
 * it is.
 */
static int read_held(struct reader *r, struct held_edge *held, uint64_t *names,
		     fth_graph_text_fn fn, void *context)
{
	struct fth_graph_text_edge edge;
	bool any = false;
	int rc;

	while ((rc = next_content(r)) > 0) {
		rc = take_edge(r, &edge);
		if (rc < 0)
			return rc;
		if (!is_number(edge.label[0], edge.length[0]) ||
		    !is_number(edge.label[1], edge.length[1])) {
			rc = fn(context, &held->edge);
			return rc < 0 ? rc : fn(context, &edge);
		}
		rc = fn(context, &edge);
		if (rc < 0)
			return rc;
		any = true;
	}
	if (rc < 0 || !any)
		return rc < 0 ? rc : fn(context, &held->edge);
	*names = held->line;
	return 0;
}

static int read_list(struct reader *r, uint64_t *names, fth_graph_text_fn fn, void *context)
{
	struct held_edge held;
	int rc = next_content(r);

	if (rc <= 0)
		return rc;
	if (has_words(r, 2)) {
		rc = look_at_names(r, &held);
		if (rc == 0)
			rc = read_held(r, &held, names, fn, context);
		else if (rc > 0)
			*names = r->number;
	} else {
		rc = tell_edge(r, fn, context);
	}
	return rc < 0 ? rc : read_edges(r, 0, fn, context);
}

/* ---- either ---- */

static int read_either(struct reader *r, struct fth_graph_text_header *header, fth_graph_text_fn fn,
		       void *context)
{
	int rc;

	if (r->what->format == FTH_GRAPH_MATRIX_MARKET)
		return read_matrix(r, header, fn, context);
	if (r->what->header == FTH_GRAPH_HEADER_DETECT)
		return read_list(r, &header->names, fn, context);
	rc = r->what->header == FTH_GRAPH_HEADER_SKIP ? next_line(r) : 1;
	return rc > 0 ? read_edges(r, 0, fn, context) : rc;
}

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
	rc = read_either(r, header, fn, context);
	free(r);
	return rc;
}
