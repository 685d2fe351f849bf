/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph/build/text.h"

#include "fth_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* What was read, as text: "0-1:5 2-0:0 ". */
struct got {
	char text[512];
	size_t used;
};

static int collect(void *context, const struct fth_graph_text_edge *edge)
{
	struct got *got = context;

	if (edge->label[0])
		got->used += (size_t)snprintf(got->text + got->used, sizeof(got->text) - got->used,
					      "%.*s-%.*s:%u ", (int)edge->length[0], edge->label[0],
					      (int)edge->length[1], edge->label[1], edge->weight);
	else
		got->used += (size_t)snprintf(got->text + got->used, sizeof(got->text) - got->used,
					      "%u-%u:%u ", edge->from, edge->to, edge->weight);
	return 0;
}

static struct fth_graph_text_header header;

static int read_text(struct fth_graph_import what, const char *text, struct got *got)
{
	int rc;

	*got = (struct got){0};
	what.in = fmemopen((void *)(uintptr_t)text, strlen(text) + !*text, "r");
	assert_non_null(what.in);
	rc = fth_graph_text_read(&what, &header, collect, got);
	fclose(what.in);
	return rc;
}

static void assert_reads(struct fth_graph_import what, const char *text, const char *wanted)
{
	struct got got;

	assert_ok(read_text(what, text, &got));
	assert_string_equal(got.text, wanted);
}

static void assert_refused(struct fth_graph_import what, const char *text, const char *reason)
{
	struct got got;
	int rc = read_text(what, text, &got);

	assert_int_equal(rc, -EINVAL);
	if (!strstr(fth_error_text(rc), reason))
		fail_msg("\"%s\" does not say \"%s\"", fth_error_text(rc), reason);
}

static const struct fth_graph_import list = {.format = FTH_GRAPH_EDGE_LIST};
static const struct fth_graph_import weighted = {.weighted = true};
static const struct fth_graph_import matrix = {.format = FTH_GRAPH_MATRIX_MARKET};
static const struct fth_graph_import weighted_matrix = {.format = FTH_GRAPH_MATRIX_MARKET,
							.weighted = true};

static void edge_lists_are_read(void **state)
{
	(void)state;
	assert_reads(list, "# a comment\n0 1\n\n  2\t0  \r\n% another\n3 3", "0-1:0 2-0:0 3-3:0 ");
	assert_reads(list, "1 2 7.5\n", "1-2:0 ");
	assert_reads(weighted, "1 2 7\n2 1 0\n", "1-2:7 2-1:0 ");
	assert_reads((struct fth_graph_import){.one_based = true}, "1 4294967295\n",
		     "0-4294967294:0 ");
	assert_reads((struct fth_graph_import){.weighted = true, .scale_weights = 10}, "0 1 0.26\n",
		     "0-1:3 ");
}

static void other_delimiters_and_headers_are_read(void **state)
{
	const struct fth_graph_import csv = {.delimiter = ',', .header = FTH_GRAPH_HEADER_SKIP};

	(void)state;
	assert_reads(csv, "from,to,weight\n0,1,5\r\n 2 , 3 \n", "0-1:0 2-3:0 ");
	assert_reads(csv, "from,to\n", "");
	assert_refused(csv, "from,to\n0,1\n0;1\n", "line 3: expected a vertex number");
	assert_reads(csv, "from,to\n0,1,\n,,\n", "0-1:0 ");
	assert_refused(csv, "from,to,weight\n1,,7\n", "line 2: an empty field");
	assert_refused(csv, "from,to,weight\n ,4,5\n", "line 2: an empty field");
	assert_refused(csv, "from,to,x,weight\n1,2,,5\n", "line 2: an empty field");
	assert_refused(list, "0,1\n", "line 1: expected a vertex number");
	assert_reads(list,
		     "\xef\xbb\xbf"
		     "0 1\n1 2\n",
		     "0-1:0 1-2:0 ");
	assert_refused(list,
		       "0 1\n\xef\xbb\xbf"
		       "1 2\n",
		       "line 2: ");
	assert_refused(list, "0 1 x\n", "line 1: expected a weight or the end of the line");
}

static void a_header_is_found(void **state)
{
	const struct fth_graph_import csv = {.delimiter = ','};
	const struct fth_graph_import names = {.relabel = true},
				      named_csv = {.relabel = true, .delimiter = ','};

	(void)state;
	assert_reads(list, "# c\n\nfrom to\n0 1\n", "0-1:0 ");
	assert_int_equal(header.names, 3);
	assert_reads(csv, "\"Source node\",Target,weight\n0,1,5\n", "0-1:0 ");
	assert_int_equal(header.names, 1);
	assert_reads(list, "0 1\n", "0-1:0 ");
	assert_int_equal(header.names, 0);
	assert_refused(list, "0 to\n", "line 1: expected a vertex number");
	assert_refused(list, "from 0\n0 1\n", "line 1: expected a vertex number");
	assert_refused(list, "0 1\nfrom to\n", "line 2: expected a vertex number");
	assert_refused(list, "bob alice\ncarol bob\n", "line 2: expected a vertex number");
	assert_refused(list, "\x89PNG x\n", "line 1: expected a vertex number");
	assert_refused((struct fth_graph_import){.header = FTH_GRAPH_HEADER_NONE}, "from to\n0 1\n",
		       "line 1: expected a vertex number");

	/* Names: by what they are, by a weight that is none, or since all others are numbers. */
	assert_reads(names, "Source\tTARGET\nbob alice\n", "bob-alice:0 ");
	assert_int_equal(header.names, 1);
	assert_reads(named_csv, "who,whom,how often\nbob,alice,3\n", "bob-alice:0 ");
	assert_int_equal(header.names, 1);
	assert_reads(names, "\nwho whom\n1 2\n2 3 7\n", "1-2:0 2-3:0 ");
	assert_int_equal(header.names, 2);
	assert_reads(names, "bob alice\ncarol dave\n", "bob-alice:0 carol-dave:0 ");
	assert_int_equal(header.names, 0);
	assert_reads(names, "bob alice\n1 2\n3 dave\n4 5\n", "1-2:0 bob-alice:0 3-dave:0 4-5:0 ");
	assert_int_equal(header.names, 0);
	assert_reads(names, "bob alice\n", "bob-alice:0 ");
	assert_reads(names, "bob 1\n2 3\n", "bob-1:0 2-3:0 ");
	assert_refused(names, "bob alice 3x\n1 2\n", "line 1: expected a weight");
	assert_refused(names, "bob alice 3\n1 2 x\n", "line 2: expected a weight");
	assert_reads((struct fth_graph_import){.relabel = true, .header = FTH_GRAPH_HEADER_NONE},
		     "source target\n1 2\n", "source-target:0 1-2:0 ");
	assert_int_equal(header.names, 0);
}

static void fields_may_be_quoted(void **state)
{
	const struct fth_graph_import names = {.relabel = true},
				      csv = {.relabel = true, .delimiter = ','};
	const struct fth_graph_import weights = {.delimiter = ',', .weighted = true};

	(void)state;
	assert_reads(names, "\"New York\" \"Los Angeles\" 3\n\"a \"\"b\"\"\" c\n",
		     "New York-Los Angeles:0 a \"b\"-c:0 ");
	assert_reads(csv, "\"York, New\" , \"x\"\n\"\"\",\"\"\",d\ne,\"#\"\n",
		     "York, New-x:0 \",\"-d:0 e-#:0 ");
	assert_reads(csv,
		     "\xef\xbb\xbf\"a,b\",c\n"
		     "f,g\n",
		     "a,b-c:0 f-g:0 ");
	/* With a delimiter only that separates names, and a quote inside one is a character. */
	assert_reads(csv, " New York , Los Angeles ,3\nx 5\"y,z\n",
		     "New York-Los Angeles:0 x 5\"y-z:0 ");
	assert_refused(csv, "a b\n", "line 1: expected a vertex name");
	assert_reads(weights, "\"1\",\"2\",\"7\"\n", "1-2:7 ");
	assert_refused(names, "x \"a b\n", "line 1: a quote is not closed");
	assert_refused(names, "x \"a\"b\n", "line 1: unexpected text after a quoted field");
	assert_refused(names, "x \"\"\n", "line 1: expected a vertex name");
	assert_refused(names, "x \"a\tb\"\n", "line 1: a control character in a vertex name");
	assert_refused(weights, "1,2,\"\"\n", "line 1: expected a weight");
	assert_refused(list, "0 \"\"\n", "line 1: expected a vertex number");
}

static void what_is_wrong_with_an_edge_list_is_told_by_line(void **state)
{
	(void)state;
	assert_refused(list, "0 1\n0 x\n", "line 2: expected a vertex number");
	assert_refused(list, "\n\n5\n", "line 3: expected a vertex number");
	assert_refused(list, "0 -1\n", "line 1: ");
	assert_refused(list, "0 1x\n", "line 1: ");
	assert_refused(list, "0 1 2 3\n", "line 1: unexpected text after the edge");
	assert_refused(list, "0 4294967295\n", "line 1: the number exceeds 4294967294");
	assert_refused(list, "0 99999999999999999999999\n", "the number exceeds");
	assert_refused((struct fth_graph_import){.one_based = true}, "0 1\n", "vertex 0");
	assert_refused(weighted, "0 1\n", "line 1: expected a weight");
	assert_refused(weighted, "0 1 -2\n", "negative");
	assert_refused(weighted, "0 1 0.5\n", "not an integer");
	assert_refused(weighted, "0 1 nan\n", "not a number");
	assert_refused(weighted, "0 1 1e10\n", "too large");
}

static void matrices_are_read(void **state)
{
	(void)state;
	assert_reads(matrix,
		     "%%MatrixMarket matrix coordinate pattern general\n% c\n3 4 2\n1 4\n3 1\n",
		     "0-3:0 2-0:0 ");
	assert_int_equal(header.vertices, 4);
	assert_int_equal(header.edges, 2);
	assert_false(header.symmetric);
	assert_reads(weighted_matrix,
		     "%%MatrixMarket matrix coordinate integer symmetric\n2 2 1\n2 1 9\n",
		     "1-0:9 ");
	assert_true(header.symmetric);
	assert_reads(matrix, "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 0.25\n",
		     "1-0:0 ");
	assert_reads(matrix, "%%MatrixMarket matrix coordinate pattern general\n7 7 0\n", "");
}

static void what_is_wrong_with_a_matrix_is_told_by_line(void **state)
{
	(void)state;
	assert_refused(matrix, "1 2\n", "line 1: expected a Matrix Market header");
	assert_refused(matrix, "%%MatrixMarket matrix array real general\n", "line 1: only");
	assert_refused(matrix, "%%MatrixMarket matrix coordinate complex general\n", "the field");
	assert_refused(matrix, "%%MatrixMarket matrix coordinate real hermitian\n", "the symmetry");
	assert_refused(weighted_matrix, "%%MatrixMarket matrix coordinate pattern general\n1 1 0\n",
		       "a pattern matrix has none");
	assert_refused(matrix, "%%MatrixMarket matrix coordinate real general\n",
		       "expected the numbers of rows");
	assert_refused(matrix, "%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n",
		       "line 3: the number exceeds 2");
	assert_refused(matrix, "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n2 1\n",
		       "after 1 of 2 entries");
	assert_refused(matrix,
		       "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n1 1\n",
		       "line 4: more entries");
	assert_refused(matrix, "%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1\n",
		       "line 3: expected a weight");
}

static void a_zero_byte_is_no_text(void **state)
{
	char text[] = "0 1\n0\0 1\n";
	struct fth_graph_import what = list;
	struct got got = {0};

	(void)state;
	what.in = fmemopen(text, sizeof(text) - 1, "r");
	assert_int_equal(fth_graph_text_read(&what, &header, collect, &got), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "line 2"));
	fclose(what.in);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edge_lists_are_read),
		cmocka_unit_test(other_delimiters_and_headers_are_read),
		cmocka_unit_test(a_header_is_found),
		cmocka_unit_test(fields_may_be_quoted),
		cmocka_unit_test(what_is_wrong_with_an_edge_list_is_told_by_line),
		cmocka_unit_test(matrices_are_read),
		cmocka_unit_test(what_is_wrong_with_a_matrix_is_told_by_line),
		cmocka_unit_test(a_zero_byte_is_no_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
