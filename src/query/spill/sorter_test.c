/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorted rows against qsort(): by numbers, text and doubles, with nulls, offset and limit, of
 * several sorters, in little memory; allocations that fail, and a scratch file that is full.
 */
#include "fth_test.h"

#include "query/spill/result_rows.h"
#include "query/spill/sorter.h"
#include "scalar/text.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Columns: a number, a text; then the order: text descending with nulls first, double, number. */
static struct task_slot columns[5] = {
	{.type = {.kind = FTH_T_INT64}, .lo = 1, .hi = 0},
	{.type = {.kind = FTH_T_TEXT}, .nullable = true, .lo = 1, .hi = 0},
	{.type = {.kind = FTH_T_TEXT}, .nullable = true, .lo = 1, .hi = 0},
	{.type = {.kind = FTH_T_DOUBLE}, .lo = 1, .hi = 0},
	{.type = {.kind = FTH_T_INT64}, .lo = 1, .hi = 0},
};
static const struct task_order by_text[] = {{.descending = true, .nulls_first = true}, {0}, {0}};
static const struct task_order by_number[] = {{.descending = true}};

static struct fth_qmem *mem;

struct row {
	int64_t number;
	char text[12];
	bool null;
	double real;
};

static int compare_text(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int c;

	if (x->null != y->null)
		return x->null ? -1 : 1;
	c = x->null ? 0 : strcmp(y->text, x->text);
	if (c == 0)
		c = (x->real > y->real) - (x->real < y->real);
	return c != 0 ? c : (x->number > y->number) - (x->number < y->number);
}

static int compare_number(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->number < y->number) - (x->number > y->number);
}

/* Numbers are all different, so that there is one right order. */
static struct row *make_rows(unsigned n)
{
	struct row *rows = calloc(n, sizeof(*rows));
	struct fth_rng rng = {n};

	assert_non_null(rows);
	for (unsigned i = 0; i < n; i++) {
		rows[i].number = (int64_t)(i * 7919u % 1000003u) - 1000;
		rows[i].null = fth_rng_below(&rng, 20) == 0;
		rows[i].real = (double)fth_rng_below(&rng, 5) - 2.5;
		sprintf(rows[i].text, "%u", (unsigned)fth_rng_below(&rng, 300));
	}
	return rows;
}

struct trial {
	unsigned rows, sorters;
	bool text;
	uint64_t offset, limit, memory, scratch;
};

static int add_rows(const struct trial *t, const struct row *rows, struct sorter **sorters)
{
	static int64_t numbers[FTH_BATCH];
	static double reals[FTH_BATCH];
	static struct fth_str texts[FTH_BATCH];
	static uint64_t nulls[FTH_BATCH_WORDS];
	struct fth_vec number = {.type = FTH_I64, .data = numbers},
		       text = {.type = FTH_STR, .data = texts, .nulls = nulls},
		       real = {.type = FTH_F64, .data = reals};
	struct fth_vec *by_text_vecs[] = {&number, &text, &text, &real, &number},
		       *by_number_vecs[] = {&number, &text, &number};
	static struct fth_sel sel;
	int rc = 0;

	for (unsigned first = 0; first < t->rows && rc == 0; first += FTH_BATCH) {
		unsigned n = t->rows - first < FTH_BATCH ? t->rows - first : FTH_BATCH;

		memset(nulls, 0, sizeof(nulls));
		for (unsigned i = 0; i < n; i++) {
			numbers[i] = rows[first + i].number;
			reals[i] = rows[first + i].real;
			texts[i] = fth_str_of(rows[first + i].text);
			if (rows[first + i].null)
				fth_bit_set(nulls, i);
		}
		fth_sel_all(&sel, n);
		rc = sorter_add(sorters[first / FTH_BATCH % t->sorters],
				t->text ? by_text_vecs : by_number_vecs, &sel);
	}
	return rc;
}

static void check_rows(const struct trial *t, const struct row *rows, const struct fth_vec *v,
		       unsigned n, uint64_t at)
{
	for (unsigned i = 0; i < n; i++) {
		const struct row *r = &rows[t->offset + at + i];

		assert_int_equal(fth_vec_int(&v[0], i), r->number);
		assert_int_equal(fth_bit(v[1].nulls, i), r->null);
		if (!r->null)
			assert_true(fth_str_equal(((const struct fth_str *)v[1].data)[i],
						  fth_str_of(r->text)));
	}
}

static int run_trial(const struct trial *t)
{
	struct row *rows = make_rows(t->rows);
	struct sorter_spec spec = {.column_count = 2,
				   .order_count = t->text ? 3 : 1,
				   .columns = columns,
				   .order = t->text ? by_text : by_number,
				   .offset = t->offset,
				   .limit = t->limit,
				   .memory = t->memory};
	struct task_slot few[3] = {columns[0], columns[1], columns[0]};
	struct sorter *sorters[4] = {0};
	struct sorted *sorted = NULL;
	const struct fth_vec *v;
	struct scratch scratch;
	uint64_t got = 0, want;
	int rc = 0, n = 0;

	if (!t->text)
		spec.columns = few;
	scratch_init(&scratch, mem, NULL, t->scratch);
	for (unsigned i = 0; i < t->sorters && rc == 0; i++)
		rc = sorter_open(mem, &spec, &scratch, &sorters[i]);
	if (rc == 0)
		rc = add_rows(t, rows, sorters);
	if (rc == 0) {
		rc = sorted_open(mem, sorters, t->sorters, &sorted);
		memset(sorters, 0, sizeof(sorters));
	}
	qsort(rows, t->rows, sizeof(*rows), t->text ? compare_text : compare_number);
	/* From the start, once more after one batch, and to the end. */
	for (unsigned pass = 0; pass < 3 && rc == 0; pass++) {
		rc = pass == 0 ? 0 : sorted_rewind(sorted);
		got = 0;
		while (rc == 0 && (n = sorted_next(sorted, &v)) > 0) {
			check_rows(t, rows, v, (unsigned)n, got);
			got += (unsigned)n;
			if (pass == 1)
				break;
		}
		rc = n < 0 ? n : rc;
	}
	want = t->rows <= t->offset		? 0
	       : t->rows - t->offset < t->limit ? t->rows - t->offset
						: t->limit;
	if (rc == 0)
		assert_int_equal(got, want);
	sorted_close(sorted);
	for (unsigned i = 0; i < 4; i++)
		sorter_close(sorters[i]);
	if (scratch.spill)
		assert_int_equal(spill_file_blocks(scratch.spill), 0);
	scratch_release(&scratch);
	free(rows);
	assert_int_equal(fth_qmem_used(mem), 0);
	return rc;
}

static int open_mem(void **state)
{
	(void)state;
	mem = fth_qmem_new((uint64_t)1 << 30);
	return mem ? 0 : -1;
}

static int close_mem(void **state)
{
	(void)state;
	return fth_qmem_close(mem) == 0 ? 0 : -1;
}

static void rows_come_in_order(void **state)
{
	static const uint64_t limits[][2] = {{0, UINT64_MAX},	   {0, 0},	{0, 10}, {7, 5000},
					     {100000, UINT64_MAX}, {25000, 100}};
	static const uint64_t shares[] = {0, 256 << 10, 2 << 20};

	(void)state;
	for (unsigned l = 0; l < 6; l++)
		for (unsigned s = 0; s < 3; s++)
			for (unsigned sorters = 1; sorters <= 4; sorters *= 2) {
				struct trial t = {.rows = 30000,
						  .sorters = sorters,
						  .text = (l + s) % 2 == 0,
						  .offset = limits[l][0],
						  .limit = limits[l][1],
						  .memory = shares[s]};

				assert_ok(run_trial(&t));
			}
	assert_ok(run_trial(&(struct trial){.sorters = 2, .limit = UINT64_MAX}));
}

static void every_allocation_may_fail(void **state)
{
	struct trial t = {.rows = 12000, .sorters = 2, .text = true, .limit = UINT64_MAX};
	bool pending = false;
	unsigned bad = 0;

	(void)state;
	t.memory = 256 << 10;
	for (unsigned n = 1; !pending; n += n < 40 ? 1 : n / 8) {
		int rc;

		fth_qmem_fail_nth(mem, n);
		rc = run_trial(&t);
		pending = fth_qmem_fail_pending(mem);
		fth_qmem_fail_nth(mem, 0);
		if (rc != 0)
			assert_int_equal(rc, -ENOMEM);
		bad += rc != 0;
	}
	assert_true(bad > 0);
}

static void a_full_scratch_file_is_a_clean_error(void **state)
{
	struct trial t = {.rows = 60000, .sorters = 2, .limit = UINT64_MAX};
	int rc = -ENOSPC;

	(void)state;
	t.memory = 256 << 10;
	for (t.scratch = 256 << 10; rc < 0; t.scratch *= 2) {
		rc = run_trial(&t);
		if (rc != 0)
			assert_int_equal(rc, -ENOSPC);
	}
	assert_true(t.scratch > 512 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_come_in_order),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(a_full_scratch_file_is_a_clean_error),
	};

	return cmocka_run_group_tests(tests, open_mem, close_mem);
}
