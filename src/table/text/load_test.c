/* SPDX-License-Identifier: BSD-2-Clause */
/* Text in and out: layouts, messages, and round trips. */
#include "table/test/table_fixture.h"

static const struct fth_table_text csv = FTH_TABLE_TEXT_CSV, bar = FTH_TABLE_TEXT_BAR;

/* Load a text into a new table t, of the columns; returns the error. */
static int load_text(struct table_fixture *f, const char *columns,
		     const struct fth_table_text *layout, const char *text, size_t length)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	char path[128];
	const char *const paths[] = {path};
	struct fth_table_writer *writer;
	FILE *file;
	int rc;

	snprintf(path, sizeof(path), "%s/input", f->path);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	fclose(file);
	fth_table_remove(f->db, "t");
	fixture_create(f, "t", columns);
	options.threads = 3;
	assert_ok(fth_table_writer_open(f->db, "t", &options, &writer));
	rc = fth_table_load(writer, paths, 1, layout, NULL, NULL);
	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	fth_table_writer_close(writer);
	return rc;
}

static char *dump_text(struct table_fixture *f, const struct fth_table_text *layout, size_t *length)
{
	struct fth_table *table;
	char *text;
	FILE *out = open_memstream(&text, length);

	assert_ok(fth_table_open(f->db, "t", NULL, &table));
	assert_int_equal(fth_table_check(table, fixture_say, NULL, NULL), 0);
	assert_ok(fth_table_dump(table, layout, out));
	fclose(out);
	fth_table_close(table);
	return text;
}

/* What is loaded and dumped again, as CSV. */
static void expect(struct table_fixture *f, const char *columns,
		   const struct fth_table_text *layout, const char *in, const char *out)
{
	size_t length;
	char *text;

	assert_ok(load_text(f, columns, layout, in, strlen(in)));
	text = dump_text(f, &csv, &length);
	assert_string_equal(text, out);
	free(text);
}

static void expect_error(struct table_fixture *f, const char *columns,
			 const struct fth_table_text *layout, const char *in, const char *message)
{
	struct fth_table *table;
	int rc = load_text(f, columns, layout, in, strlen(in));
	const char *text = fth_error_text(rc);

	assert_int_equal(rc, -EINVAL);
	if (!strstr(text, message))
		fail_msg("\"%s\" is not in \"%s\"", message, text);
	assert_ok(fth_table_open(f->db, "t", NULL, &table));
	assert_int_equal(fth_table_rows(table), 0);
	fth_table_close(table);
}

static void layouts_are_read(void **state)
{
	struct fth_table_text skip = csv, tab = bar;
	struct table_fixture f;

	(void)state;
	skip.header = FTH_TABLE_HEADER_SKIP;
	tab.delimiter = '\t';
	tab.null = "\\N";
	fixture_open(&f);
	expect(&f, "a int, b text", &bar, "1|x\n2|y|\n-3|", "1,x\n2,y\n-3,\"\"\n");
	expect(&f, "a int, b text", &csv, "1,x\r\n2,\"y, \"\"z\"\"\n!\"\n\n,\n3,\"\"",
	       "1,x\n2,\"y, \"\"z\"\"\n!\"\n,\n3,\"\"\n");
	expect(&f, "a int, b text", &skip, "\"a\n,\"\"\",b\n7,8\n", "7,8\n");
	expect(&f, "a int, b text", &csv,
	       "\xef\xbb\xbf"
	       "1,x\n",
	       "1,x\n");
	expect(&f, "a text", &csv, "\xef\xbb\xbf\"x\"\n\xef\xbb\xbfy\n", "x\n\xef\xbb\xbfy\n");
	expect(&f, "a int, b text", &skip, "\xef\xbb\xbfhead\n7,8\n", "7,8\n");
	expect(&f, "a int, b text", &tab, "\\N\tx\n5\t\\N\n", ",x\n5,\n");
	expect(&f, "a text", &bar, "x\n\ny\n", "x\n\"\"\ny\n");
	expect(&f, "a bool, b date, c double, d decimal(4,2), e decimal(30,3), f char(4)", &csv,
	       "true,2000-02-29,1.5,1.5,-123456789012345678901.5,ab  "
	       "\nF,0001-01-01,-1e300,-.25,7,\n",
	       "t,2000-02-29,1.5,1.50,-123456789012345678901.500,ab\nf,0001-01-01,-1e+300,-0.25,7."
	       "000,\n");
	expect(&f, "a bigint, b decimal(18,0)", &bar,
	       "9223372036854775807|999999999999999999\n-9223372036854775808|-999999999999999999\n"
	       "+0000000000000000000000012|1.000\n",
	       "9223372036854775807,999999999999999999\n-9223372036854775808,-"
	       "999999999999999999\n12,1\n");
	expect(&f, "a int", &bar, "", "");
	fixture_close(&f);
}

static void a_header_names_the_columns(void **state)
{
	static const char columns[] = "a int not null, b text, c decimal(30,2), d date";
	struct fth_table_text names = csv, bars = bar;
	struct table_fixture f;

	(void)state;
	names.header = bars.header = FTH_TABLE_HEADER_NAMES;
	fixture_open(&f);
	expect(&f, columns, &names, "a,b,c,d\n1,x,2.5,2000-01-01\n", "1,x,2.50,2000-01-01\n");
	expect(&f, columns, &names, "d,A,\"B\",c\r\n2000-01-01,1,x,2.5\r\n",
	       "1,x,2.50,2000-01-01\n");
	expect(&f, columns, &bars, "c|a|\n2.5|1|\n3|7\n", "1,,2.50,\n7,,3.00,\n");
	/* Columns that it does not name are null, in each file and each block. */
	expect(&f, columns, &names, "\xef\xbb\xbf\"a\"\n1\n2", "1,,,\n2,,,\n");
	expect(&f, "a int, b text", &names, "b\n\nx\n", ",\n,x\n");
	expect(&f, columns, &names, "a,b", "");
	expect(&f, columns, &names, "", "");
	expect_error(&f, columns, &names, "a,e\n1,2\n",
		     "input:1: the header names \"e\", which is no column of the table");
	expect_error(&f, columns, &names, "a, b\n1,2\n", "the header names \" b\", which is no");
	expect_error(&f, columns, &names, "1,x,2.5,2000-01-01\n",
		     "the header names \"1\", which is");
	expect_error(&f, columns, &names, "a,b,A\n1,2,3\n", "the header names column A twice");
	expect_error(&f, columns, &names, "b,c\n2,3\n",
		     "input:1: the header lacks column a, which is NOT NULL");
	expect_error(&f, columns, &names, "a,,b\n1,2,3\n", "a field of the header has no name");
	expect_error(&f, columns, &names, "\na\n1\n", "a field of the header has no name");
	expect_error(&f, columns, &names, "a,\"b\n1,2\n", "header: unterminated quoted field");
	expect_error(&f, columns, &names, "a,\"b\"\rx\n", "header: unexpected text after a quoted");
	expect_error(
		&f, columns, &names, "a,\xff\n1,2\n",
		"input:1: the header has an invalid byte sequence for encoding \"UTF8\": 0xff");
	/* Fields are counted by the header, and lines with it. */
	expect_error(&f, columns, &names, "b,a\n2,1\n2\n", "input:3: 1 fields, expected 2");
	expect_error(&f, columns, &names, "b,a\n2,1,3\n",
		     "input:2: more than 2 fields, expected 2");
	expect_error(&f, columns, &names, "b,a\n2,x\n", "input:2: a: \"x\" is not a valid int32");
	fixture_close(&f);
}

/* Many blocks, by several threads, with columns in another order and one missing. */
static void a_header_holds_for_all_blocks(void **state)
{
	struct fth_table_text names = csv;
	struct table_fixture f;
	size_t length, out_length, want_length;
	char *text, *out, *want;
	FILE *in = open_memstream(&text, &length), *wanted = open_memstream(&want, &want_length);

	(void)state;
	names.header = FTH_TABLE_HEADER_NAMES;
	fputs("c,a\n", in);
	for (unsigned i = 0; i < 700000; i++) {
		fprintf(in, "row %u,%u\n", i, i);
		fprintf(wanted, "%u,,row %u\n", i, i);
	}
	fclose(in);
	fclose(wanted);
	fixture_open(&f);
	assert_ok(load_text(&f, "a int, b date, c text", &names, text, length));
	out = dump_text(&f, &csv, &out_length);
	assert_int_equal(out_length, want_length);
	assert_memory_equal(out, want, want_length);
	free(out);
	free(want);
	free(text);
	fixture_close(&f);
}

/* What is loaded is UTF-8 without zero bytes; what is not is named with line and column. */
static void only_text_is_loaded(void **state)
{
	static const char *const bad[] = {
		"\xff", "\x80", "\xc0\x80", "\xe4", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xef\xbb"};
	static const char binary[] = "1,\0\n";
	struct table_fixture f;
	char text[64];

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		snprintf(text, sizeof(text), "1,fine \xc3\xa4\xf0\x9f\x98\x80\n2,it is %s\n",
			 bad[i]);
		expect_error(&f, "a int, b text", &csv, text,
			     "input:2: b: invalid byte sequence for encoding \"UTF8\": 0x");
		expect_error(&f, "a int, b char(80)", &csv, text, "input:2: b: invalid byte");
	}
	expect_error(&f, "a int", &bar, "1\n\xe4\xff\n",
		     "input:2: a: invalid byte sequence for "
		     "encoding \"UTF8\": 0xe4 0xff");
	assert_int_equal(load_text(&f, "a int, b text", &csv, binary, sizeof(binary) - 1), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "input:1: b: invalid byte sequence for "
							"encoding \"UTF8\": 0x00"));
	/* A message has whole characters, and one line. */
	expect_error(&f, "a int", &bar, "\tx\x01\n", "\"?x?\" is not a valid int32");
	expect_error(&f, "a int", &bar,
		     "12345678901234567890123456789012345678901234567890123456789\xc3\xa4\n",
		     "\"12345678901234567890123456789012345678901234567890123456789...\" is out of "
		     "range");
	fixture_close(&f);
}

/*
 * Compressed text is recognised by its contents. Without its end, wherever that is cut off, nothing
 * is loaded.
 */
static void compressed_text_is_unpacked(void **state)
{
	static const unsigned char gzip[] = {
		0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x33, 0xd4, 0xa9, 0xe0,
		0x32, 0xd2, 0xa9, 0xe4, 0x02, 0x00, 0x60, 0xec, 0xc4, 0xfc, 0x08, 0x00, 0x00, 0x00};
	static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x08, 0x41,
					     0x00, 0x00, 0x31, 0x2c, 0x78, 0x0a, 0x32,
					     0x2c, 0x79, 0x0a, 0xb3, 0x91, 0x63, 0x31};
	static const struct {
		const char *bytes;
		size_t length;
	} packed[] = {{(const char *)gzip, sizeof(gzip)}, {(const char *)zstd, sizeof(zstd)}};
	struct table_fixture f;
	size_t length;
	char *text;

	(void)state;
	fixture_open(&f);
	for (size_t i = 0; i < 2; i++) {
		int rc = load_text(&f, "a int, b text", &csv, packed[i].bytes, packed[i].length);

		if (rc == -EOPNOTSUPP)
			continue; /* built without the library */
		assert_ok(rc);
		text = dump_text(&f, &csv, &length);
		assert_string_equal(text, "1,x\n2,y\n");
		free(text);
		for (size_t n = 1; n < packed[i].length; n++) {
			rc = load_text(&f, "a int, b text", &csv, packed[i].bytes, n);
			assert_int_equal(rc, n < (i ? 4 : 2) ? -EINVAL : -EILSEQ);
		}
		assert_non_null(strstr(fth_error_text(-EILSEQ), "its end is missing"));
		text = dump_text(&f, &csv, &length);
		assert_string_equal(text, "");
		free(text);
	}
	assert_int_equal(load_text(&f, "a text", &csv, "BZh91AY&SY", 10), -EOPNOTSUPP);
	expect(&f, "a text", &csv, "BZh9 is a name\n", "BZh9 is a name\n");
	fixture_close(&f);
}

static void bad_input_is_named_with_its_line(void **state)
{
	struct table_fixture f;

	(void)state;
	fixture_open(&f);
	expect_error(&f, "a int, b text", &bar, "1|x\n2|y\n3\n", "input:3: 1 fields, expected 2");
	expect_error(&f, "a int, b text", &bar, "1|x|y\n", "input:1: more than 2 fields");
	expect_error(&f, "a int", &bar, "1\nx2\n", "input:2: a: \"x2\" is not a valid int32");
	expect_error(&f, "a int", &bar, "1\n\n2\n", "input:2: a: \"\" is not a valid int32");
	expect_error(&f, "a int", &bar, "2147483648\n",
		     "input:1: a: \"2147483648\" is out of range for int32");
	expect_error(&f, "a bigint", &bar, "9223372036854775808\n", "is out of range for int64");
	expect_error(&f, "a bigint", &bar, "99999999999999999999999999999999999999999\n",
		     "is out of range for int64");
	expect_error(&f, "a decimal(5,2)", &bar, "1000.00\n", "is out of range for decimal(5,2)");
	expect_error(&f, "a decimal(5,2)", &bar, "1.001\n",
		     "too many digits after the decimal point");
	expect_error(&f, "a decimal(38,2)", &bar, "99999999999999999999999999999999999999\n",
		     "is out of range");
	expect_error(&f, "a date", &bar, "1999-02-29\n", "\"1999-02-29\" is not a valid date");
	expect_error(&f, "a double", &bar, "1.5x\n", "is not a valid double");
	expect_error(&f, "a varchar(3)", &bar, "abc\nabcd\n",
		     "input:2: a: \"abcd\" is too long for varchar(3)");
	expect_error(&f, "a int not null, b int", &csv, "1,2\n,2\n",
		     "input:2: a: null in a NOT NULL column");
	expect_error(&f, "a text, b text", &csv, "\"x\ny\",1\nz,\"q\"r\n",
		     "input:3: b: unexpected text after");
	expect_error(&f, "a text, b text", &csv, "x,\"yz\n", "unterminated quoted field");
	expect_error(&f, "a text, b text", &csv, "x\"y,z\n", "a quote inside an unquoted field");
	fixture_close(&f);
}

static void utf8_is_counted_by_characters(void **state)
{
	struct table_fixture f;

	(void)state;
	fixture_open(&f);
	expect(&f, "a varchar(3)", &bar, "\xc3\xa4\xc3\xb6\xc3\xbc\n",
	       "\xc3\xa4\xc3\xb6\xc3\xbc\n");
	expect_error(&f, "a varchar(2)", &bar, "\xc3\xa4\xc3\xb6\xc3\xbc\n", "is too long");
	fixture_close(&f);
}

/*
 * Many blocks, long lines among them: what comes out is what went in, and lines are counted over
 * blocks.
 */
static void large_files_come_back(void **state)
{
	struct fth_rng rng = {9};
	struct table_fixture f;
	size_t length, out_length;
	char *text, *out;
	FILE *in;

	(void)state;
	fixture_open(&f);
	in = open_memstream(&text, &length);
	for (unsigned i = 0; i < 120000; i++) {
		unsigned n = i % 50000 == 7 ? 3000000 : (unsigned)fth_rng_below(&rng, 60);

		fprintf(in, "%u,%u.%02u,\"", i, (unsigned)fth_rng_below(&rng, 100000), i % 100);
		for (unsigned k = 0; k < n; k++)
			fputc("ab\n,c "[k % 6], in);
		fputs("x,\"\n", in);
	}
	fclose(in);
	assert_ok(load_text(&f, "a int, b decimal(9,2), c text", &csv, text, length));
	out = dump_text(&f, &csv, &out_length);
	assert_int_equal(out_length, length);
	assert_memory_equal(out, text, length);
	free(out);
	/* An error in the last line. */
	text[length - 1] = 'x';
	assert_int_equal(load_text(&f, "a int, b decimal(9,2), c text", &csv, text, length),
			 -EINVAL);
	free(text);
	fixture_close(&f);
}

static void lines_are_counted_over_blocks(void **state)
{
	struct table_fixture f;
	size_t length;
	char *text;
	FILE *in = open_memstream(&text, &length);

	(void)state;
	for (unsigned i = 0; i < 1000000; i++)
		fprintf(in, "%u|7\n", i);
	fputs("oops|7\n", in);
	fclose(in);
	fixture_open(&f);
	expect_error(&f, "a int, b int", &bar, text,
		     "input:1000001: a: \"oops\" is not a valid int32");
	free(text);
	fixture_close(&f);
}

static int stop_soon(uint64_t done, uint64_t total, void *user)
{
	(void)done;
	(void)total;
	(void)user;
	return 1;
}

/*
 * Of one column an empty line is a row wherever it is: at the end of a file, and of what is read at
 * once.
 */
static void empty_lines_of_one_column_are_rows(void **state)
{
	static char lines[6 << 20];
	struct table_fixture f;
	size_t length;
	char *text;

	(void)state;
	fixture_open(&f);
	expect(&f, "s varchar(9)", &csv, "a\n\n\"\"\nb\n\n", "a\n\n\"\"\nb\n\n");
	expect(&f, "s varchar(9)", &csv, "\r\n", "\n");
	expect(&f, "s varchar(9)", &csv, "\n\nc", "\n\nc\n");
	expect(&f, "s varchar(9)", &csv, "", "");
	memset(lines, '\n', sizeof(lines));
	assert_ok(load_text(&f, "s varchar(9)", &csv, lines, sizeof(lines)));
	text = dump_text(&f, &csv, &length);
	assert_int_equal(length, sizeof(lines));
	free(text);
	fixture_close(&f);
}

static void a_load_can_be_stopped(void **state)
{
	struct fth_table_writer *writer;
	struct table_fixture f;
	char path[128];
	const char *const paths[] = {path}, *const missing[] = {"/nonexistent"};

	(void)state;
	fixture_open(&f);
	assert_ok(load_text(&f, "a int", &bar, "1\n", 2));
	snprintf(path, sizeof(path), "%s/input", f.path);
	assert_ok(fth_table_writer_open(f.db, "t", NULL, &writer));
	assert_int_equal(fth_table_load(writer, paths, 1, &bar, stop_soon, NULL), -ECANCELED);
	assert_int_equal(fth_table_writer_commit(writer), -ECANCELED);
	fth_table_writer_close(writer);
	assert_ok(fth_table_writer_open(f.db, "t", NULL, &writer));
	assert_int_equal(fth_table_load(writer, missing, 1, &bar, NULL, NULL), -ENOENT);
	fth_table_writer_close(writer);
	fixture_close(&f);
}

static void values_outside_their_type_are_refused(void **state)
{
	static const int64_t large[] = {0, 1, (int64_t)1 << 31};
	static const uint8_t nulls[] = {0, 1, 0};
	const struct fth_table_vector vector = {.values = large},
				      with_null = {.values = large, .nulls = nulls};
	static const uint32_t whole[] = {0, 3, 4, 5}, halves[] = {0, 2, 3};
	struct fth_table_vector strings = {
		.offsets = whole, .bytes = "x\xc3\xa4\xffy", .nulls = nulls};
	struct fth_table_writer *writer;
	struct table_fixture f;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "t", "a int not null");
	assert_ok(fth_table_writer_open(f.db, "t", NULL, &writer));
	assert_ok(fth_table_writer_append(writer, &vector, 2));
	assert_int_equal(fth_table_writer_append(writer, &vector, 3), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL), "row 4, column a"));
	assert_int_equal(fth_table_writer_commit(writer), -EINVAL);
	fth_table_writer_close(writer);
	assert_ok(fth_table_writer_open(f.db, "t", NULL, &writer));
	assert_int_equal(fth_table_writer_append(writer, &with_null, 2), -EINVAL);
	fth_table_writer_close(writer);
	fixture_create(&f, "s", "a text");
	assert_ok(fth_table_writer_open(f.db, "s", NULL, &writer));
	assert_ok(fth_table_writer_append(writer, &strings, 3));
	/* Two halves of a character are none. */
	strings.offsets = halves;
	strings.nulls = NULL;
	assert_int_equal(fth_table_writer_append(writer, &strings, 2), -EINVAL);
	assert_non_null(strstr(fth_error_text(-EINVAL),
			       "row 3, column a: invalid byte sequence for "
			       "encoding \"UTF8\": 0xc3"));
	fth_table_writer_close(writer);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_are_read),
		cmocka_unit_test(a_header_names_the_columns),
		cmocka_unit_test(a_header_holds_for_all_blocks),
		cmocka_unit_test(only_text_is_loaded),
		cmocka_unit_test(compressed_text_is_unpacked),
		cmocka_unit_test(bad_input_is_named_with_its_line),
		cmocka_unit_test(utf8_is_counted_by_characters),
		cmocka_unit_test(large_files_come_back),
		cmocka_unit_test(lines_are_counted_over_blocks),
		cmocka_unit_test(empty_lines_of_one_column_are_rows),
		cmocka_unit_test(a_load_can_be_stopped),
		cmocka_unit_test(values_outside_their_type_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
