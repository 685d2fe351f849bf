/* SPDX-License-Identifier: BSD-2-Clause */
/* Cursors, text and threads. That the text is right, tests/tools/tpch_tool_test.sh knows. */
#include "workloads/tpch/tpch.h"

#include "prose.h"

#include "fth_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Making one takes a while, so all tests share them. */
static struct fth_tpch *tiny, *vast; /* scale factors 0.002 and 30,000 */

static int open_both(void **state)
{
	(void)state;
	return fth_tpch_open(0.002, &tiny) < 0 || fth_tpch_open(30000, &vast) < 0;
}

static int close_both(void **state)
{
	(void)state;
	fth_tpch_close(tiny);
	fth_tpch_close(vast);
	return 0;
}

/* ---- opening ---- */

static void scale_factors_are_checked(void **state)
{
	static const double wrong[] = {0, -1, 0.0005, 0.0015, 100000.001, 1e300, 0.0 / 0.0};
	struct fth_tpch *tpch = NULL;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(fth_tpch_open(wrong[i], &tpch), -EINVAL);
		assert_non_null(strstr(fth_error_text(-EINVAL), "multiple of 0.001"));
	}
	assert_null(tpch);
	fth_tpch_close(NULL);
	fth_tpch_cursor_close(NULL);
}

static void tables_grow_with_the_scale_factor(void **state)
{
	static const uint64_t rows[] = {5, 25, 20, 300, 400, 400, 3000, 3000};

	(void)state;
	for (unsigned t = 0; t < FTH_TPCH_TABLES; t++)
		assert_int_equal(fth_tpch_units(tiny, t), rows[t]);
	assert_int_equal(fth_tpch_units(vast, FTH_TPCH_ORDERS), UINT64_C(45000000000));
	assert_int_equal(fth_tpch_units(vast, FTH_TPCH_REGION), 5);
}

static void tables_and_columns_have_names(void **state)
{
	enum fth_tpch_table table;
	unsigned count;

	(void)state;
	for (unsigned t = 0; t < FTH_TPCH_TABLES; t++) {
		assert_ok(fth_tpch_find_table(fth_tpch_table_name(t), &table));
		assert_int_equal(table, t);
	}
	assert_int_equal(fth_tpch_find_table("lineitems", &table), -EINVAL);
	assert_string_equal(fth_tpch_columns(FTH_TPCH_LINEITEM, &count)[15].name, "l_comment");
	assert_int_equal(count, 16);
}

static void there_are_22_queries(void **state)
{
	(void)state;
	assert_null(fth_tpch_query(0));
	assert_null(fth_tpch_query(FTH_TPCH_QUERIES + 1));
	for (unsigned i = 1; i <= FTH_TPCH_QUERIES; i++)
		assert_string_equal(strrchr(fth_tpch_query(i), ';'), ";\n");
}

/* ---- the text of comments ---- */

static void any_piece_of_the_text_is_the_same_by_any_way(void **state)
{
	char piece[TPCH_COMMENT_MAX], other[TPCH_COMMENT_MAX];
	struct tpch_prose *prose;
	uint32_t at[] = {0, 1000, 123456789, TPCH_PROSE_LENGTH - 3 * TPCH_COMMENT_MAX};

	(void)state;
	assert_ok(tpch_prose_new(&prose));
	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		for (uint32_t more = 0; more <= 2 * TPCH_COMMENT_MAX; more++) {
			uint32_t length = 1 + more % (TPCH_COMMENT_MAX / 2), skip = more % 90;

			tpch_prose_copy(prose, at[i] + more, TPCH_COMMENT_MAX, piece);
			tpch_prose_copy(prose, at[i] + more + skip, length, other);
			assert_memory_equal(piece + skip, other, length);
		}
	tpch_prose_free(prose);
}

/* ---- cursors ---- */

static size_t next_line(const struct fth_tpch *tpch, enum fth_tpch_table table,
			struct fth_tpch_cursor *cursor, char line[FTH_TPCH_LINE_MAX])
{
	union fth_tpch_row row;

	return fth_tpch_next(cursor, &row) ? fth_tpch_format(tpch, table, &row, line) : 0;
}

/* The rows of [first, first + count) are those that a cursor from 0 on comes to there. */
static void compare_cursors(const struct fth_tpch *tpch, enum fth_tpch_table table, uint64_t first,
			    uint64_t count)
{
	char line[FTH_TPCH_LINE_MAX], other[FTH_TPCH_LINE_MAX];
	struct fth_tpch_cursor *all, *head, *part;
	size_t length;

	assert_ok(fth_tpch_cursor_open(tpch, table, 0, first + count, &all));
	assert_ok(fth_tpch_cursor_open(tpch, table, 0, first, &head));
	assert_ok(fth_tpch_cursor_open(tpch, table, first, count, &part));
	while (next_line(tpch, table, head, other))
		next_line(tpch, table, all, line);
	do {
		length = next_line(tpch, table, all, line);
		assert_int_equal(next_line(tpch, table, part, other), length);
		assert_memory_equal(line, other, length);
	} while (length);
	fth_tpch_cursor_close(all);
	fth_tpch_cursor_close(head);
	fth_tpch_cursor_close(part);
}

static void cursors_begin_anywhere(void **state)
{
	(void)state;
	for (unsigned t = 0; t < FTH_TPCH_TABLES; t++) {
		compare_cursors(tiny, t, 1, 1);
		compare_cursors(tiny, t, 3, UINT64_MAX / 2);
		compare_cursors(tiny, t, 17, 100);
		compare_cursors(vast, t, 201, 10);
	}
}

static void cursors_end_with_the_table(void **state)
{
	struct fth_tpch_cursor *cursor;
	union fth_tpch_row row;
	unsigned rows = 0;

	(void)state;
	assert_ok(fth_tpch_cursor_open(tiny, FTH_TPCH_NATION, 20, UINT64_MAX, &cursor));
	while (fth_tpch_next(cursor, &row))
		rows++;
	assert_int_equal(rows, 5);
	assert_false(fth_tpch_next(cursor, &row));
	fth_tpch_cursor_close(cursor);
	assert_ok(fth_tpch_cursor_open(tiny, FTH_TPCH_NATION, 1000, 1, &cursor));
	assert_false(fth_tpch_next(cursor, &row));
	fth_tpch_cursor_close(cursor);
}

static void orders_fit_their_lines(void **state)
{
	struct fth_tpch_cursor *orders, *lines;
	union fth_tpch_row order, line;
	bool more;

	(void)state;
	assert_ok(fth_tpch_cursor_open(tiny, FTH_TPCH_ORDERS, 0, 3000, &orders));
	assert_ok(fth_tpch_cursor_open(tiny, FTH_TPCH_LINEITEM, 0, 3000, &lines));
	more = fth_tpch_next(lines, &line);
	while (fth_tpch_next(orders, &order)) {
		int64_t total = 0;

		for (; more && line.lineitem.orderkey == order.orders.orderkey;
		     more = fth_tpch_next(lines, &line)) {
			const struct fth_tpch_lineitem *l = &line.lineitem;

			total +=
				l->extendedprice * (100 - l->discount) / 100 * (100 + l->tax) / 100;
			assert_in_range(l->shipdate - order.orders.orderdate, 1, 121);
			assert_in_range(l->receiptdate - l->shipdate, 1, 30);
		}
		assert_int_equal(total, order.orders.totalprice);
	}
	assert_false(more);
	fth_tpch_cursor_close(orders);
	fth_tpch_cursor_close(lines);
}

static void keys_can_have_more_than_32_bits(void **state)
{
	struct fth_tpch_cursor *cursor;
	union fth_tpch_row row;
	int64_t largest = 0;

	(void)state;
	assert_ok(fth_tpch_cursor_open(vast, FTH_TPCH_LINEITEM, 0, 1000, &cursor));
	while (fth_tpch_next(cursor, &row)) {
		assert_in_range(row.lineitem.partkey, 1, INT64_C(6000000000));
		assert_in_range(row.lineitem.suppkey, 1, 300000000);
		if (row.lineitem.partkey > largest)
			largest = row.lineitem.partkey;
	}
	assert_true(largest > UINT32_MAX);
	fth_tpch_cursor_close(cursor);
}

static void values_are_those_of_the_text(void **state)
{
	static const char expected[] = "1|goldenrod lavender spring chocolate lace|Manufacturer#1|"
				       "Brand#13|PROMO BURNISHED COPPER|7|JUMBO PKG|901.00|"
				       "ly. slyly ironi\n";
	char line[FTH_TPCH_LINE_MAX];
	struct fth_tpch_cursor *cursor;
	union fth_tpch_row row;

	(void)state;
	assert_ok(fth_tpch_cursor_open(tiny, FTH_TPCH_PART, 0, 1, &cursor));
	assert_true(fth_tpch_next(cursor, &row));
	assert_int_equal(row.part.retailprice, 90100);
	assert_int_equal(row.part.size, 7);
	assert_int_equal(row.part.container.length, strlen("JUMBO PKG"));
	assert_int_equal(fth_tpch_format(tiny, FTH_TPCH_PART, &row, line), sizeof(expected) - 1);
	assert_memory_equal(line, expected, sizeof(expected) - 1);
	fth_tpch_cursor_close(cursor);
}

/* ---- whole tables ---- */

struct sink {
	pthread_mutex_t lock;
	char *text;
	uint64_t room, end, blocks, fail_at;
	bool in_order;
};

static int sink_block(void *context, const struct fth_tpch_block *block)
{
	struct sink *sink = context;
	uint64_t end = block->offset + block->length;
	int rc = 0;

	pthread_mutex_lock(&sink->lock);
	if (++sink->blocks == sink->fail_at)
		rc = fth_fail(ENOSPC, "the sink is full");
	else if (end > sink->room || (sink->in_order && block->offset != sink->end))
		rc = fth_fail(EILSEQ, "a block is out of place");
	if (rc == 0)
		memcpy(sink->text + block->offset, block->text, block->length);
	if (end > sink->end)
		sink->end = end;
	pthread_mutex_unlock(&sink->lock);
	return rc;
}

static int write_table(const struct fth_tpch *tpch, enum fth_tpch_table table, unsigned threads,
		       struct sink *sink, struct fth_tpch_totals *totals)
{
	struct fth_tpch_write_options options = {0};

	pthread_mutex_init(&sink->lock, NULL);
	sink->room = 4 << 20;
	sink->text = calloc(1, sink->room);
	assert_non_null(sink->text);
	options.threads = threads;
	options.block = sink_block;
	options.in_order = sink->in_order;
	options.context = sink;
	return fth_tpch_write(tpch, table, &options, totals);
}

static void sink_release(struct sink *sink)
{
	pthread_mutex_destroy(&sink->lock);
	free(sink->text);
}

/* What a cursor gives, as text. */
static void expect_table(enum fth_tpch_table table, const char *text, uint64_t length)
{
	struct fth_tpch_cursor *cursor;
	char line[FTH_TPCH_LINE_MAX];
	uint64_t at = 0;
	size_t n;

	assert_ok(fth_tpch_cursor_open(tiny, table, 0, UINT64_MAX, &cursor));
	for (; (n = next_line(tiny, table, cursor, line)); at += n) {
		assert_true(at + n <= length);
		assert_memory_equal(text + at, line, n);
	}
	assert_int_equal(at, length);
	fth_tpch_cursor_close(cursor);
}

static void the_text_does_not_depend_on_threads(void **state)
{
	static const unsigned threads[] = {1, 2, 5, 0};

	(void)state;
	for (unsigned t = 0; t < FTH_TPCH_TABLES; t++)
		for (unsigned i = 0; i < 4; i++) {
			struct sink sink = {.in_order = i % 2};
			struct fth_tpch_totals totals;

			assert_ok(write_table(tiny, t, threads[i], &sink, &totals));
			assert_int_equal(totals.bytes, sink.end);
			expect_table(t, sink.text, totals.bytes);
			sink_release(&sink);
		}
}

static void the_first_error_ends_the_write(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct sink sink = {.in_order = i % 2, .fail_at = 2 + i};
		struct fth_tpch_totals totals;

		/* Of a table of 23 TB. */
		assert_int_equal(write_table(vast, FTH_TPCH_LINEITEM, 1 + i, &sink, &totals),
				 -ENOSPC);
		assert_string_equal(fth_error_text(-ENOSPC), "the sink is full");
		sink_release(&sink);
	}
}

static int accept_block(void *context, const struct fth_tpch_block *block)
{
	(void)context;
	(void)block;
	return 0;
}

static int stop_soon(void *context, uint64_t units, uint64_t total)
{
	unsigned *calls = context;

	assert_true(units <= total);
	return ++*calls == 3 ? -EINTR : 0;
}

static void progress_can_end_the_write(void **state)
{
	struct fth_tpch_write_options options = {0};
	struct fth_tpch_totals totals;
	unsigned calls = 0;

	(void)state;
	options.threads = 3;
	options.block = accept_block;
	options.progress = stop_soon;
	options.context = &calls;
	assert_int_equal(fth_tpch_write(vast, FTH_TPCH_ORDERS, &options, &totals), -EINTR);
	assert_int_equal(calls, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scale_factors_are_checked),
		cmocka_unit_test(tables_grow_with_the_scale_factor),
		cmocka_unit_test(tables_and_columns_have_names),
		cmocka_unit_test(there_are_22_queries),
		cmocka_unit_test(any_piece_of_the_text_is_the_same_by_any_way),
		cmocka_unit_test(cursors_begin_anywhere),
		cmocka_unit_test(cursors_end_with_the_table),
		cmocka_unit_test(orders_fit_their_lines),
		cmocka_unit_test(keys_can_have_more_than_32_bits),
		cmocka_unit_test(values_are_those_of_the_text),
		cmocka_unit_test(the_text_does_not_depend_on_threads),
		cmocka_unit_test(the_first_error_ends_the_write),
		cmocka_unit_test(progress_can_end_the_write),
	};

	return cmocka_run_group_tests(tests, open_both, close_both);
}
