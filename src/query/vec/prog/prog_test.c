/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs against an interpreter that takes trees literally, on random trees over all types, with
 * every set of kernels; and the promises about types, errors and memory one by one. FTH_LONG_TESTS
 * runs many more.
 */
#include "fth_test.h"

#include "prog_fixture.h"

#include "query/vec/kern/kern.h"
#include "query/vec/prog/prog.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct fth_qmem *mem;

static int open_mem(void **state)
{
	(void)state;
	mem = fth_qmem_new((uint64_t)1 << 32);
	return mem ? 0 : -1;
}

static int close_mem(void **state)
{
	(void)state;
	return fth_qmem_close(mem) == 0 ? 0 : -1;
}

static bool same_value(const struct fth_vec *v, unsigned i, const struct fix_value *want)
{
	struct fth_str s;
	double f;

	if (v->nulls && fth_bit(v->nulls, i))
		return want->null;
	if (want->null)
		return false;
	switch (v->type) {
	case FTH_BITS:
		return fth_bit(v->data, i) == (want->i != 0);
	case FTH_F64:
		f = ((const double *)v->data)[i];
		return f == want->f || (f != f && want->f != want->f);
	case FTH_STR:
		s = ((const struct fth_str *)v->data)[i];
		return s.len == want->len && memcmp(s.data, want->s, s.len) == 0;
	default:
		return fth_vec_int(v, i) == want->i;
	}
}

static void show(const struct fth_expr *e)
{
	if (e->kind == FTH_EXPR_COLUMN) {
		fprintf(stderr, "c%u", e->column);
	} else if (e->kind == FTH_EXPR_CONST) {
		fprintf(stderr,
			e->is_null		    ? "null"
			: fth_type_is_text(e->type) ? "'%s'"
						    : "",
			e->s.data);
		if (!e->is_null && !fth_type_is_text(e->type))
			fprintf(stderr, "%lld/%u|%g", (long long)e->i, e->type.scale, e->f);
	} else {
		fprintf(stderr, "%s:%s%u(", fth_op_name(e->op), fth_type_name(e->type),
			e->type.scale);
		for (unsigned i = 0; i < e->nargs; i++) {
			show(e->args[i]);
			fprintf(stderr, i + 1 < e->nargs ? ", " : ")");
		}
	}
}

struct trial {
	struct fix_batch batch;
	struct fth_expr *e;
	struct fix_value *want;
	uint64_t good[FTH_BATCH_WORDS];
	bool null_const;
	uint64_t seed;
};

static void wrong(const struct trial *t, unsigned row, const char *what)
{
	fprintf(stderr, "seed %llu, row %u: ", (unsigned long long)t->seed, row);
	show(t->e);
	fprintf(stderr, "\n");
	fail_msg("%s", what);
}

/* All rows without an error at once; then each of a few rows that have one, alone. */
static void check_rows(struct trial *t, struct fth_prog_run *run)
{
	struct fth_vec out;
	unsigned tried = 0;
	int rc = fth_prog_exec(run, t->batch.vecs, t->batch.n, t->good, &out);

	if (rc < 0)
		wrong(t, 0, fth_error_text(rc));
	for (unsigned i = 0; i < t->batch.n; i++)
		if (fth_bit(t->good, i) && !same_value(&out, i, &t->want[i]))
			wrong(t, i, "a value differs");
	for (unsigned i = 0; i < t->batch.n && tried < 3; i++) {
		uint64_t one[FTH_BATCH_WORDS] = {0};

		if (fth_bit(t->good, i))
			continue;
		fth_bit_set(one, i);
		rc = fth_prog_exec(run, t->batch.vecs, t->batch.n, one, &out);
		if (rc >= 0 && !t->null_const)
			wrong(t, i, "an error did not surface");
		tried++;
	}
}

static void run_trial(uint64_t seed, unsigned depth)
{
	static const unsigned sizes[] = {1, 5, 63, 64, 65, 130};
	struct trial t = {.seed = seed};
	struct fth_rng rng = {seed};
	struct fth_arena arena;
	struct fth_prog *prog;
	struct fth_prog_run *run;
	const struct fth_prog_out *out;

	fth_arena_init(&arena, mem, 16384);
	fix_batch_make(&t.batch, &rng, sizes[fth_rng_below(&rng, 6)]);
	t.e = fix_expr(&arena, &rng, &t.batch, fth_rng_below(&rng, FTH_T_CHAR), depth,
		       &t.null_const);
	t.want = calloc(t.batch.n, sizeof(*t.want));
	for (unsigned i = 0; i < t.batch.n; i++) {
		fix_eval(t.e, &t.batch, i, &t.want[i]);
		if (!t.want[i].error)
			fth_bit_set(t.good, i);
	}
	assert_ok(fth_prog_compile(mem, &t.e, 1, &prog));
	assert_ok(fth_prog_run_new(prog, mem, &run));
	out = fth_prog_output(prog, 0);
	for (unsigned i = 0; i < t.batch.n; i++)
		if (fth_bit(t.good, i) && !t.want[i].null && out->type <= FTH_I128 &&
		    (t.want[i].i < out->lo || t.want[i].i > out->hi))
			wrong(&t, i, "a value is out of the range that was proved");
	check_rows(&t, run);
	check_rows(&t, run); /* the second batch finds tables and registers in use */
	fth_prog_run_free(run);
	fth_prog_free(prog);
	free(t.want);
	fix_batch_free(&t.batch);
	fth_arena_release(&arena);
}

static void random_trees_give_the_interpreters_answers(void **state)
{
	uint64_t rounds = getenv("FTH_LONG_TESTS") ? 1000000 : 12000;
	const struct fth_kern *k;

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++) {
		fth_kern_use(k);
		for (uint64_t i = 0; i < rounds / (s ? 3 : 1); i++)
			run_trial(i + s * 1000000007, 1 + (unsigned)(i % 4));
	}
	fth_kern_use(NULL);
}

/* ---- promises ---- */

struct small {
	struct fth_arena a;
	struct fth_prog *prog;
	struct fth_prog_run *run;
};

static void small_open(struct small *s)
{
	fth_arena_init(&s->a, mem, 4096);
	s->prog = NULL;
	s->run = NULL;
}

static void small_compile(struct small *s, struct fth_expr *e)
{
	assert_non_null(e);
	assert_ok(fth_prog_compile(mem, &e, 1, &s->prog));
	assert_ok(fth_prog_run_new(s->prog, mem, &s->run));
}

static void small_close(struct small *s)
{
	fth_prog_run_free(s->run);
	fth_prog_free(s->prog);
	fth_arena_release(&s->a);
}

static struct fth_expr *price_of(struct fth_arena *a)
{
	return fth_expr_column(a, 0, fth_type_decimal(15, 2), 90000, 10495000, false);
}

static struct fth_expr *discount_of(struct fth_arena *a)
{
	return fth_expr_column(a, 1, fth_type_decimal(15, 2), 0, 10, false);
}

/* price * (1 - discount) of TPC-H: 100 - d in 8 bits, the product in 32. */
static void ranges_choose_narrow_types(void **state)
{
	struct small s;
	struct fth_expr *one, *rest, *e;
	int32_t price[3] = {90000, 10495000, 12345};
	int8_t discount[3] = {0, 10, 7};
	struct fth_vec columns[2] = {{.type = FTH_I32, .data = price},
				     {.type = FTH_I8, .data = discount}};
	struct fth_vec out;

	(void)state;
	small_open(&s);
	one = fth_expr_int(&s.a, fth_type(FTH_T_INT32), 1);
	rest = fth_expr_call2(&s.a, FTH_OP_SUB, one, discount_of(&s.a));
	e = fth_expr_call2(&s.a, FTH_OP_MUL, price_of(&s.a), rest);
	assert_int_equal(rest->type.scale, 2);
	assert_int_equal(e->type.scale, 4);
	small_compile(&s, e);
	assert_int_equal(fth_prog_output(s.prog, 0)->type, FTH_I32);
	assert_true(fth_prog_output(s.prog, 0)->hi == 1049500000);
	assert_ok(fth_prog_exec(s.run, columns, 3, NULL, &out));
	assert_true(fth_vec_int(&out, 0) == 9000000);
	assert_true(fth_vec_int(&out, 1) == (fth_i128)10495000 * 90);
	assert_true(fth_vec_int(&out, 2) == 12345 * 93);
	small_close(&s);
}

static void a_subexpression_is_computed_once(void **state)
{
	struct small s;
	struct fth_expr *x, *y, *roots[2];
	unsigned once;

	(void)state;
	small_open(&s);
	x = fth_expr_call2(&s.a, FTH_OP_MUL, price_of(&s.a), discount_of(&s.a));
	y = fth_expr_call2(&s.a, FTH_OP_MUL, price_of(&s.a), discount_of(&s.a));
	small_compile(&s, x);
	once = fth_prog_length(s.prog);
	fth_prog_run_free(s.run);
	fth_prog_free(s.prog);
	roots[0] = x;
	roots[1] = y;
	assert_ok(fth_prog_compile(mem, roots, 2, &s.prog));
	s.run = NULL;
	assert_int_equal(fth_prog_length(s.prog), once);
	small_close(&s);
}

static void constants_are_folded_and_their_errors_kept(void **state)
{
	struct small s;
	struct fth_expr *two, *zero, *e, *c;
	struct fth_vec out;
	uint64_t none = 0;

	(void)state;
	small_open(&s);
	two = fth_expr_int(&s.a, fth_type(FTH_T_INT32), 2);
	e = fth_expr_call2(&s.a, FTH_OP_MUL, two, fth_expr_call2(&s.a, FTH_OP_ADD, two, two));
	small_compile(&s, e);
	assert_int_equal(fth_prog_length(s.prog), 1);
	assert_int_equal(fth_prog_output(s.prog, 0)->type, FTH_I8);
	assert_ok(fth_prog_exec(s.run, NULL, 7, NULL, &out));
	assert_true(fth_vec_int(&out, 6) == 8);
	small_close(&s);

	small_open(&s);
	two = fth_expr_int(&s.a, fth_type(FTH_T_INT32), 2);
	zero = fth_expr_int(&s.a, fth_type(FTH_T_INT32), 0);
	c = fth_expr_any(&s.a, 0, fth_type(FTH_T_INT32), false);
	e = fth_expr_call2(&s.a, FTH_OP_ADD, c, fth_expr_call2(&s.a, FTH_OP_DIV, two, zero));
	small_compile(&s, e);
	{
		struct fth_vec column = {.type = FTH_I32, .data = (int32_t[]){5}};

		assert_ok(fth_prog_exec(s.run, &column, 1, &none, &out));
		assert_int_equal(fth_prog_exec(s.run, &column, 1, NULL, &out), -EDOM);
		assert_string_equal(fth_error_text(-EDOM), "division by zero");
	}
	small_close(&s);
}

static void an_overflow_counts_for_selected_rows_only(void **state)
{
	struct small s;
	struct fth_expr *c;
	int32_t data[2] = {INT32_MAX, 1};
	struct fth_vec column = {.type = FTH_I32, .data = data}, out;
	uint64_t second = 2;

	(void)state;
	small_open(&s);
	c = fth_expr_any(&s.a, 0, fth_type(FTH_T_INT32), false);
	small_compile(&s, fth_expr_call2(&s.a, FTH_OP_ADD, c,
					 fth_expr_int(&s.a, fth_type(FTH_T_INT32), 1)));
	assert_ok(fth_prog_exec(s.run, &column, 2, &second, &out));
	assert_true(fth_vec_int(&out, 1) == 2);
	assert_int_equal(fth_prog_exec(s.run, &column, 2, NULL, &out), -ERANGE);
	assert_string_equal(fth_error_text(-ERANGE), "integer out of range");
	small_close(&s);
}

static void a_filter_keeps_what_is_true(void **state)
{
	struct small s;
	struct fth_expr *c;
	struct fth_sel *sel = malloc(sizeof(*sel));
	int8_t data[5] = {1, 2, 3, 4, 5};
	uint64_t nulls = 1 << 3;
	struct fth_vec column = {.type = FTH_I8, .data = data, .nulls = &nulls, .base = 100};

	(void)state;
	small_open(&s);
	c = fth_expr_column(&s.a, 0, fth_type(FTH_T_INT32), 100, 200, true);
	small_compile(&s, fth_expr_call2(&s.a, FTH_OP_GE, c,
					 fth_expr_int(&s.a, fth_type(FTH_T_INT32), 102)));
	fth_sel_all(sel, 5);
	assert_ok(fth_prog_filter(s.run, &column, sel));
	assert_int_equal(sel->bits[0], 0x16);
	assert_int_equal(sel->count, 3);
	free(sel);
	small_close(&s);
}

static void a_program_keeps_to_its_bound(void **state)
{
	struct fth_qmem *m = fth_qmem_child(mem, "run", FTH_QMEM_NO_LIMIT);
	struct small s;

	(void)state;
	small_open(&s);
	small_compile(&s, fth_expr_call2(&s.a, FTH_OP_MUL, price_of(&s.a), discount_of(&s.a)));
	fth_prog_run_free(s.run);
	assert_ok(fth_prog_run_new(s.prog, m, &s.run));
	assert_true(fth_qmem_used(m) <= fth_prog_run_bound(s.prog));
	fth_prog_run_free(s.run);
	s.run = NULL;
	assert_int_equal(fth_qmem_close(m), 0);
	small_close(&s);
}

static void wrong_types_and_patterns_are_refused(void **state)
{
	struct small s;
	struct fth_expr *text, *one, *e;

	(void)state;
	small_open(&s);
	text = fth_expr_any(&s.a, 0, fth_type(FTH_T_TEXT), false);
	one = fth_expr_int(&s.a, fth_type(FTH_T_INT32), 1);
	assert_null(fth_expr_call2(&s.a, FTH_OP_ADD, text, one));
	assert_string_equal(fth_error_text(-EINVAL),
			    "+ does not take 2 arguments of these types (text, integer)");
	assert_null(fth_expr_cast(&s.a, fth_expr_any(&s.a, 0, fth_type(FTH_T_DATE), false),
				  fth_type(FTH_T_INT32)));
	e = fth_expr_call2(&s.a, FTH_OP_LIKE, text,
			   fth_expr_text(&s.a, fth_type(FTH_T_TEXT), fth_str_of("a\\")));
	assert_int_equal(fth_prog_compile(mem, &e, 1, &s.prog), -EINVAL);
	assert_null(s.prog);
	small_close(&s);
}

/* Every charge in compiling and running fails once, and nothing is left behind. */
static void memory_that_runs_out_leaves_nothing(void **state)
{
	struct fix_batch batch;
	struct fth_rng rng = {42};
	struct fth_arena arena;

	(void)state;
	fix_batch_make(&batch, &rng, 50);
	for (unsigned round = 0; round < 40; round++) {
		struct fth_qmem *m = fth_qmem_child(mem, "trial", FTH_QMEM_NO_LIMIT);
		bool null_const = false, done = false;
		struct fth_expr *e;

		fth_arena_init(&arena, mem, 16384);
		e = fix_expr(&arena, &rng, &batch, FTH_T_BOOL + round % 7, 3, &null_const);
		for (uint64_t n = 1; !done && n < 1000; n++) {
			struct fth_prog *prog = NULL;
			struct fth_prog_run *run = NULL;
			struct fth_vec out;
			int rc;

			fth_qmem_fail_nth(m, n);
			rc = fth_prog_compile(m, &e, 1, &prog);
			if (rc == 0)
				rc = fth_prog_run_new(prog, m, &run);
			if (rc == 0)
				rc = fth_prog_exec(run, batch.vecs, batch.n, NULL, &out);
			done = fth_qmem_fail_pending(m);
			assert_true(done || rc == -ENOMEM);
			fth_qmem_fail_nth(m, 0);
			fth_prog_run_free(run);
			fth_prog_free(prog);
			assert_int_equal(fth_qmem_used(m), 0);
		}
		assert_true(done);
		fth_arena_release(&arena);
		assert_int_equal(fth_qmem_close(m), 0);
	}
	fix_batch_free(&batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_trees_give_the_interpreters_answers),
		cmocka_unit_test(ranges_choose_narrow_types),
		cmocka_unit_test(a_subexpression_is_computed_once),
		cmocka_unit_test(constants_are_folded_and_their_errors_kept),
		cmocka_unit_test(an_overflow_counts_for_selected_rows_only),
		cmocka_unit_test(a_filter_keeps_what_is_true),
		cmocka_unit_test(a_program_keeps_to_its_bound),
		cmocka_unit_test(wrong_types_and_patterns_are_refused),
		cmocka_unit_test(memory_that_runs_out_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, open_mem, close_mem);
}
