/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groupers and sorters of several threads that spill into one scratch file at the same time: every
 * group and every row comes back, whichever thread wrote beside it. If the file is full, threads
 * end with -ENOSPC and give back its space.
 */
#include "fth_test.h"

#include "query/group/grouper.h"
#include "query/spill/sorter.h"
#include "query/vec/vec.h"

#include <errno.h>

#define THREADS 4u
#define BATCHES 24u

static const struct task_slot number = {.type = {.kind = FTH_T_INT64}, .lo = 1, .hi = 0};

struct work {
	pthread_t thread;
	struct fth_qmem *mem;
	struct scratch *scratch;
	bool sorts;
	int rc;
	uint64_t rows, sum;
	bool in_order;
};

/* All different, in no order. */
static void fill_numbers(int64_t *numbers, unsigned batch)
{
	for (uint64_t i = 0; i < FTH_BATCH; i++)
		numbers[i] = (int64_t)((batch * FTH_BATCH + i) * 0x9e3779b97f4a7c15u >> 8);
}

static uint64_t expected_sum(void)
{
	int64_t numbers[FTH_BATCH];
	uint64_t sum = 0;

	for (unsigned b = 0; b < BATCHES; b++) {
		fill_numbers(numbers, b);
		for (unsigned i = 0; i < FTH_BATCH; i++)
			sum += (uint64_t)numbers[i];
	}
	return sum;
}

static void take_rows(struct work *w, const struct fth_vec *v, unsigned n)
{
	const int64_t *x = v->data;

	for (unsigned i = 0; i < n; i++) {
		w->in_order &= i == 0 || x[i - 1] < x[i];
		w->sum += (uint64_t)x[i];
	}
	w->rows += n;
}

static int sort_all(struct work *w)
{
	static const struct task_order order = {0};
	const struct task_slot slots[2] = {number, number};
	struct sorter_spec spec = {.column_count = 1,
				   .order_count = 1,
				   .columns = slots,
				   .order = &order,
				   .limit = UINT64_MAX,
				   .memory = 1 << 20};
	int64_t numbers[FTH_BATCH];
	struct fth_vec v = {.type = FTH_I64, .data = numbers}, *vecs[2] = {&v, &v};
	const struct fth_vec *columns;
	struct sorted *sorted = NULL;
	struct sorter *s;
	struct fth_sel sel;
	int n = 1, rc = sorter_open(w->mem, &spec, w->scratch, &s);

	for (unsigned b = 0; b < BATCHES && rc == 0; b++) {
		fill_numbers(numbers, b);
		fth_sel_all(&sel, FTH_BATCH);
		rc = sorter_add(s, vecs, &sel);
	}
	if (rc == 0)
		rc = sorted_open(w->mem, &s, 1, &sorted);
	else
		sorter_close(s);
	while (rc == 0 && (n = sorted_next(sorted, &columns)) > 0)
		take_rows(w, columns, (unsigned)n);
	sorted_close(sorted);
	return rc < 0 ? rc : n;
}

static int group_all(struct work *w)
{
	struct task_aggregate count = {.op = TASK_COUNT_ROWS, .slot = TASK_NONE, .result = number};
	struct grouper_spec spec = {.key_count = 1,
				    .keys = &number,
				    .aggregate_count = 1,
				    .aggregates = &count,
				    .slots = &number,
				    .memory = 1 << 20};
	int64_t numbers[FTH_BATCH];
	struct fth_vec v = {.type = FTH_I64, .data = numbers}, *keys = &v, *args = NULL, out[2];
	struct group_store *store = NULL;
	struct grouper *g = NULL;
	struct fth_sel sel;
	int n = 1, rc = group_store_open(w->mem, w->scratch, &store);

	if (rc == 0)
		rc = grouper_open(w->mem, &spec, &g);
	if (rc == 0)
		grouper_use(g, store);
	for (unsigned b = 0; b < BATCHES && rc == 0; b++) {
		fill_numbers(numbers, b);
		fth_sel_all(&sel, FTH_BATCH);
		rc = grouper_add(g, &keys, &args, &sel);
	}
	if (rc == 0)
		rc = group_store_finish(store, &g, 1, false);
	else
		grouper_close(g);
	w->in_order = true;
	while (rc == 0 && (n = group_store_next(store, out)) > 0) {
		take_rows(w, out, (unsigned)n);
		w->in_order = true; /* groups have no order */
	}
	group_store_close(store);
	return rc < 0 ? rc : n;
}

static void *run_work(void *user)
{
	struct work *w = user;

	w->in_order = true;
	w->rc = w->sorts ? sort_all(w) : group_all(w);
	return NULL;
}

static void run_threads(struct scratch *scratch, struct fth_qmem *mem, struct work *work)
{
	for (unsigned i = 0; i < THREADS; i++) {
		work[i] = (struct work){.mem = mem, .scratch = scratch, .sorts = i % 2 == 0};
		assert_int_equal(pthread_create(&work[i].thread, NULL, run_work, &work[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(work[i].thread, NULL);
}

static void threads_share_a_scratch_file(void **state)
{
	struct fth_qmem *mem = fth_qmem_new(64 << 20);
	struct work work[THREADS];
	struct scratch scratch;
	uint64_t sum = expected_sum();

	(void)state;
	scratch_init(&scratch, mem, NULL, (uint64_t)256 << 20);
	run_threads(&scratch, mem, work);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_ok(work[i].rc);
		assert_int_equal(work[i].rows, BATCHES * FTH_BATCH);
		assert_int_equal(work[i].sum, sum);
		assert_true(work[i].in_order);
	}
	assert_true(scratch_written(&scratch) > 0);
	assert_int_equal(spill_file_blocks(scratch.spill), 0);
	scratch_release(&scratch);
	assert_int_equal(fth_qmem_close(mem), 0);
}

/*
 * The file is too small for any of the sorts, also if threads run one after the other: they end with
 * -ENOSPC, groupers may, and all space comes back.
 */
static void threads_fill_a_scratch_file(void **state)
{
	struct fth_qmem *mem = fth_qmem_new(64 << 20);
	struct work work[THREADS];
	struct scratch scratch;
	unsigned failed = 0;

	(void)state;
	scratch_init(&scratch, mem, NULL, 512 << 10);
	run_threads(&scratch, mem, work);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_true(work[i].rc == 0 || work[i].rc == -ENOSPC);
		failed += work[i].sorts && work[i].rc < 0;
	}
	assert_int_equal(failed, THREADS / 2);
	assert_int_equal(spill_file_blocks(scratch.spill), 0);
	scratch_release(&scratch);
	assert_int_equal(fth_qmem_close(mem), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_share_a_scratch_file),
		cmocka_unit_test(threads_fill_a_scratch_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
