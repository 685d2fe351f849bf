/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench vec: filters, expressions and group-by like those of TPC-H Q1 and Q6, by the vector
 * programs and the grouper that queries run, against plain loops in C over the same columns
 * (vec_plain.c). One thread.
 */
#include "app_options.h"
#include "cli.h"
#include "json.h"
#include "common/report.h"
#include "common/rounds.h"
#include "vec_plain.h"

#include "query/group/grouper.h"
#include "query/vec/kern/kern.h"
#include "query/vec/prog/prog.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>

#define FROM  8766 /* 1994-01-01 */
#define TO    9131
#define UNTIL 10471 /* 1998-09-02 */

enum { SHIP, QUANTITY, DISCOUNT, TAX, FLAG, STATE, PRICE, COLUMNS };

struct bench {
	uint64_t rows, rounds, seed;
	bool smallest;
	struct fth_qmem *mem;
	struct vec_columns data;
	struct fth_prog *filter1, *values1, *filter6, *value6;
	struct fth_prog_run *run_filter1, *run_values1, *run_filter6, *run_value6;
	struct fth_rounds q1, q6;
};

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"rows", FTH_CLI_SIZE, &b->rows, 1, (uint64_t)1 << 31, "of the made-up table"},
		FTH_BENCH_ROUNDS(&b->rounds),
		{"seed", FTH_CLI_U64, &b->seed, 0, UINT64_MAX, "of the data"},
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench vec [options]",
		.text = "Rows a second of the filters, sums and groups of TPC-H Q1 and Q6 over\n"
			"made-up columns in memory: interpreted vector programs against a plain\n"
			"loop in C for each query. One thread. Runs alternate; medians are\n"
			"compared. Every result is checked.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status == FTH_CLI_GO_ON && b->smallest) {
		b->rows = 100000;
		b->rounds = 1;
	}
	return status;
}

/* ---- data ---- */

static int make_data(struct bench *b)
{
	struct vec_columns *c = &b->data;
	struct fth_rng rng = {b->seed};

	c->rows = b->rows;
	c->ship = fth_qmem_alloc(b->mem, b->rows * sizeof(*c->ship));
	c->quantity = fth_qmem_alloc(b->mem, b->rows);
	c->discount = fth_qmem_alloc(b->mem, b->rows);
	c->tax = fth_qmem_alloc(b->mem, b->rows);
	c->flag = fth_qmem_alloc(b->mem, b->rows);
	c->state = fth_qmem_alloc(b->mem, b->rows);
	c->price = fth_qmem_alloc(b->mem, b->rows * sizeof(*c->price));
	if (!c->ship || !c->quantity || !c->discount || !c->tax || !c->flag || !c->state ||
	    !c->price)
		return -ENOMEM;
	for (size_t i = 0; i < b->rows; i++) {
		c->ship[i] = (int16_t)fth_rng_below(&rng, 2526);
		c->quantity[i] = (int8_t)(1 + fth_rng_below(&rng, 50));
		c->discount[i] = (int8_t)fth_rng_below(&rng, 11);
		c->tax[i] = (int8_t)fth_rng_below(&rng, 9);
		/* As in TPC-H: late rows are open and not returned. */
		c->state[i] = c->ship[i] > 1263;
		c->flag[i] = (int8_t)(c->state[i] ? 1 : 2 * fth_rng_below(&rng, 2));
		c->price[i] = (int32_t)(90000 + fth_rng_below(&rng, 10405001));
	}
	return 0;
}

static void free_data(struct bench *b)
{
	struct vec_columns *c = &b->data;

	fth_qmem_free(b->mem, c->ship, b->rows * sizeof(*c->ship));
	fth_qmem_free(b->mem, c->quantity, b->rows);
	fth_qmem_free(b->mem, c->discount, b->rows);
	fth_qmem_free(b->mem, c->tax, b->rows);
	fth_qmem_free(b->mem, c->flag, b->rows);
	fth_qmem_free(b->mem, c->state, b->rows);
	fth_qmem_free(b->mem, c->price, b->rows * sizeof(*c->price));
}

/* ---- programs ---- */

static struct fth_expr *column(struct fth_arena *a, unsigned number)
{
	static const struct {
		struct fth_type type;
		int32_t lo, hi;
	} facts[COLUMNS] = {
		[SHIP] = {{.kind = FTH_T_DATE}, 8036, 10561},
		[QUANTITY] = {{.kind = FTH_T_INT32}, 1, 50},
		[DISCOUNT] = {{FTH_T_DECIMAL, 15, 2, 0}, 0, 10},
		[TAX] = {{FTH_T_DECIMAL, 15, 2, 0}, 0, 8},
		[FLAG] = {{.kind = FTH_T_INT32}, 0, 2},
		[STATE] = {{.kind = FTH_T_INT32}, 0, 1},
		[PRICE] = {{FTH_T_DECIMAL, 15, 2, 0}, 90000, 10495000},
	};

	return fth_expr_column(a, number, facts[number].type, facts[number].lo, facts[number].hi,
			       false);
}

static struct fth_expr *number(struct fth_arena *a, enum fth_tkind kind, int64_t value)
{
	return fth_expr_int(a, kind == FTH_T_DECIMAL ? fth_type_decimal(15, 2) : fth_type(kind),
			    value);
}

static int compile(struct bench *b, struct fth_expr **roots, unsigned n, struct fth_prog **prog,
		   struct fth_prog_run **run)
{
	int rc = fth_prog_compile(b->mem, roots, n, prog);

	return rc < 0 ? rc : fth_prog_run_new(*prog, b->mem, run);
}

static int compile_q1(struct bench *b, struct fth_arena *a)
{
	struct fth_expr *one = number(a, FTH_T_INT32, 1), *values[2], *filter;
	int rc;

	filter = fth_expr_call2(a, FTH_OP_LE, column(a, SHIP), number(a, FTH_T_DATE, UNTIL));
	values[0] = fth_expr_call2(a, FTH_OP_MUL, column(a, PRICE),
				   fth_expr_call2(a, FTH_OP_SUB, one, column(a, DISCOUNT)));
	values[1] = fth_expr_call2(a, FTH_OP_MUL, values[0],
				   fth_expr_call2(a, FTH_OP_ADD, one, column(a, TAX)));
	if (!filter || !values[1])
		return -ENOMEM;
	rc = compile(b, &filter, 1, &b->filter1, &b->run_filter1);
	return rc < 0 ? rc : compile(b, values, 2, &b->values1, &b->run_values1);
}

static int compile_q6(struct bench *b, struct fth_arena *a)
{
	struct fth_expr *dates, *discount, *both, *filter, *value;
	int rc;

	dates = fth_expr_call2(
		a, FTH_OP_AND,
		fth_expr_call2(a, FTH_OP_GE, column(a, SHIP), number(a, FTH_T_DATE, FROM)),
		fth_expr_call2(a, FTH_OP_LT, column(a, SHIP), number(a, FTH_T_DATE, TO)));
	discount = fth_expr_call3(a, FTH_OP_BETWEEN, column(a, DISCOUNT),
				  number(a, FTH_T_DECIMAL, 5), number(a, FTH_T_DECIMAL, 7));
	both = fth_expr_call2(a, FTH_OP_AND, dates, discount);
	filter = fth_expr_call2(
		a, FTH_OP_AND, both,
		fth_expr_call2(a, FTH_OP_LT, column(a, QUANTITY), number(a, FTH_T_INT32, 24)));
	value = fth_expr_call2(a, FTH_OP_MUL, column(a, PRICE), column(a, DISCOUNT));
	if (!filter || !value)
		return -ENOMEM;
	rc = compile(b, &filter, 1, &b->filter6, &b->run_filter6);
	return rc < 0 ? rc : compile(b, &value, 1, &b->value6, &b->run_value6);
}

static int compile_all(struct bench *b)
{
	struct fth_arena a;
	int rc;

	fth_arena_init(&a, b->mem, 16384);
	rc = compile_q1(b, &a);
	if (rc == 0)
		rc = compile_q6(b, &a);
	fth_arena_release(&a);
	return rc;
}

static void free_programs(struct bench *b)
{
	fth_prog_run_free(b->run_filter1);
	fth_prog_run_free(b->run_values1);
	fth_prog_run_free(b->run_filter6);
	fth_prog_run_free(b->run_value6);
	fth_prog_free(b->filter1);
	fth_prog_free(b->values1);
	fth_prog_free(b->filter6);
	fth_prog_free(b->value6);
}

/* ---- ours ---- */

static void batch_at(const struct vec_columns *c, size_t at, struct fth_vec *v)
{
	memset(v, 0, COLUMNS * sizeof(*v));
	v[SHIP] = (struct fth_vec){.type = FTH_I16, .data = c->ship + at, .base = VEC_SHIP_BASE};
	v[QUANTITY] = (struct fth_vec){.type = FTH_I8, .data = c->quantity + at};
	v[DISCOUNT] = (struct fth_vec){.type = FTH_I8, .data = c->discount + at};
	v[TAX] = (struct fth_vec){.type = FTH_I8, .data = c->tax + at};
	v[FLAG] = (struct fth_vec){.type = FTH_I8, .data = c->flag + at};
	v[STATE] = (struct fth_vec){.type = FTH_I8, .data = c->state + at};
	v[PRICE] = (struct fth_vec){.type = FTH_I32, .data = c->price + at};
}

/* ---- groups ---- */

/* The slots that aggregates add up: columns first, then what programs compute. */
enum { DISCOUNTED = COLUMNS, CHARGE, REVENUE, SLOTS };

static const struct task_slot slots[SLOTS] = {
	[QUANTITY] = {.type = {.kind = FTH_T_INT32}, .lo = 1, .hi = 50},
	[DISCOUNT] = {.type = {FTH_T_DECIMAL, 15, 2, 0}, .lo = 0, .hi = 10},
	[FLAG] = {.type = {.kind = FTH_T_INT32}, .lo = 0, .hi = 2},
	[STATE] = {.type = {.kind = FTH_T_INT32}, .lo = 0, .hi = 1},
	[PRICE] = {.type = {FTH_T_DECIMAL, 15, 2, 0}, .lo = 90000, .hi = 10495000},
	[DISCOUNTED] = {.type = {FTH_T_DECIMAL, 38, 4, 0}, .lo = 0, .hi = 1049500000},
	[CHARGE] = {.type = {FTH_T_DECIMAL, 38, 6, 0}, .lo = 0, .hi = 113346000000},
	[REVENUE] = {.type = {FTH_T_DECIMAL, 38, 4, 0}, .lo = 0, .hi = 104950000},
};

#define SUM(SLOT)                                          \
	{                                                  \
		.op = TASK_SUM, .slot = SLOT, .result = {  \
			.type = {FTH_T_DECIMAL, 38, 0, 0}, \
			.lo = 1,                           \
			.hi = 0                            \
		}                                          \
	}

static const struct task_aggregate aggregates1[] = {
	{.op = TASK_COUNT_ROWS,
	 .slot = TASK_NONE,
	 .result = {.type = {.kind = FTH_T_INT64}, .lo = 1}},
	SUM(QUANTITY),
	SUM(PRICE),
	SUM(DISCOUNT),
	SUM(DISCOUNTED),
	SUM(CHARGE),
};
static const struct task_aggregate aggregates6[] = {SUM(REVENUE)};

#define Q1_RESULTS (sizeof(aggregates1) / sizeof(*aggregates1))

static int q1_batch(struct bench *b, struct grouper *grouper, struct fth_vec *v, unsigned n)
{
	static struct fth_sel sel;
	struct fth_vec values[2];
	struct fth_vec *keys[] = {&v[FLAG], &v[STATE]};
	struct fth_vec *args[] = {NULL,		&v[QUANTITY], &v[PRICE],
				  &v[DISCOUNT], &values[0],   &values[1]};
	int rc;

	fth_sel_all(&sel, n);
	rc = fth_prog_filter(b->run_filter1, v, &sel);
	if (rc == 0)
		rc = fth_prog_exec(b->run_values1, v, n, sel.bits, values);
	return rc < 0 ? rc : grouper_add(grouper, keys, args, &sel);
}

static int q1_result(struct grouper *grouper, struct vec_group *out)
{
	struct fth_vec c[2 + Q1_RESULTS];
	uint32_t at = 0;
	int n;

	memset(out, 0, VEC_GROUPS * sizeof(*out));
	while ((n = grouper_batch(grouper, &at, c)) > 0)
		for (unsigned i = 0; i < (unsigned)n; i++) {
			unsigned group =
				(unsigned)(fth_vec_int(&c[0], i) * 2 + fth_vec_int(&c[1], i));

			out[group] = (struct vec_group){
				(uint64_t)fth_vec_int(&c[2], i), (int64_t)fth_vec_int(&c[3], i),
				(int64_t)fth_vec_int(&c[4], i),	 (int64_t)fth_vec_int(&c[5], i),
				(int64_t)fth_vec_int(&c[6], i),	 (int64_t)fth_vec_int(&c[7], i)};
		}
	return n;
}

static unsigned batch_rows(const struct bench *b, size_t at)
{
	return (unsigned)(b->rows - at < FTH_BATCH ? b->rows - at : FTH_BATCH);
}

static int run_q1(struct bench *b, struct vec_group *out)
{
	const struct task_slot keys[] = {slots[FLAG], slots[STATE]};
	const struct grouper_spec spec = {.key_count = 2,
					  .keys = keys,
					  .aggregate_count = Q1_RESULTS,
					  .aggregates = aggregates1,
					  .slots = slots};
	struct grouper *grouper;
	int rc = grouper_open(b->mem, &spec, &grouper);

	if (rc < 0)
		return rc;
	for (size_t at = 0; at < b->rows && rc == 0; at += FTH_BATCH) {
		struct fth_vec v[COLUMNS];

		batch_at(&b->data, at, v);
		rc = q1_batch(b, grouper, v, batch_rows(b, at));
	}
	if (rc == 0)
		rc = q1_result(grouper, out);
	grouper_close(grouper);
	return rc;
}

static int q6_batch(struct bench *b, struct grouper *grouper, struct fth_vec *v, unsigned n)
{
	static struct fth_sel sel;
	struct fth_vec value, *args[] = {&value};
	int rc;

	fth_sel_all(&sel, n);
	rc = fth_prog_filter(b->run_filter6, v, &sel);
	if (rc == 0)
		rc = fth_prog_exec(b->run_value6, v, n, sel.bits, &value);
	return rc < 0 ? rc : grouper_add(grouper, NULL, args, &sel);
}

static int run_q6(struct bench *b, int64_t *out)
{
	const struct grouper_spec spec = {
		.aggregate_count = 1, .aggregates = aggregates6, .slots = slots};
	struct fth_vec result;
	struct grouper *grouper;
	uint32_t from = 0;
	int rc = grouper_open(b->mem, &spec, &grouper);

	if (rc < 0)
		return rc;
	for (size_t at = 0; at < b->rows && rc == 0; at += FTH_BATCH) {
		struct fth_vec v[COLUMNS];

		batch_at(&b->data, at, v);
		rc = q6_batch(b, grouper, v, batch_rows(b, at));
	}
	if (rc == 0)
		rc = grouper_batch(grouper, &from, &result);
	*out = rc > 0 ? (int64_t)fth_vec_int(&result, 0) : 0;
	grouper_close(grouper);
	return rc < 0 ? rc : 0;
}

/* ---- measuring ---- */

static double rate(const struct bench *b, uint64_t began)
{
	return (double)b->rows * 1e9 / (double)(fth_now_ns() - began + 1);
}

static int round_q1(struct bench *b)
{
	struct vec_group ours[VEC_GROUPS], plain[VEC_GROUPS];
	uint64_t began = fth_now_ns();
	double our_rate, plain_rate;
	int rc = run_q1(b, ours);

	our_rate = rate(b, began);
	if (rc < 0)
		return rc;
	began = fth_now_ns();
	vec_plain_q1(&b->data, UNTIL, plain);
	plain_rate = rate(b, began);
	fth_rounds_add(&b->q1, our_rate, plain_rate);
	return memcmp(ours, plain, sizeof(ours)) ? fth_fail(EIO, "Q1: the sums differ") : 0;
}

static int round_q6(struct bench *b)
{
	uint64_t began = fth_now_ns();
	double our_rate, plain_rate;
	int64_t ours, plain;
	int rc = run_q6(b, &ours);

	our_rate = rate(b, began);
	if (rc < 0)
		return rc;
	began = fth_now_ns();
	plain = vec_plain_q6(&b->data, FROM, TO, 5, 7, 24);
	plain_rate = rate(b, began);
	fth_rounds_add(&b->q6, our_rate, plain_rate);
	return ours != plain ? fth_fail(EIO, "Q6: the sums differ") : 0;
}

static int measure(struct bench *b)
{
	int rc = make_data(b);

	if (rc == 0)
		rc = compile_all(b);
	for (unsigned i = 0; i < b->rounds && rc == 0; i++) {
		fth_cli_progress("rounds", i, b->rounds);
		rc = round_q1(b);
		if (rc == 0)
			rc = round_q6(b);
		if (rc == 0 && fth_cli_stopped())
			rc = -EINTR;
	}
	fth_cli_progress_end();
	return rc;
}

static void report(const struct bench *b)
{
	double q1 = fth_rounds_ratio(&b->q1), q6 = fth_rounds_ratio(&b->q6);
	const struct fth_rounds *worst = q1 < q6 ? &b->q1 : &b->q6;
	struct fth_json j;

	if (!fth_cli_json()) {
		printf("Q1: %.0f million rows a second, plain loop %.0f, ratio %.2f\n",
		       fth_rounds_ours(&b->q1) / 1e6, fth_rounds_peer(&b->q1) / 1e6, q1);
		printf("Q6: %.0f million rows a second, plain loop %.0f, ratio %.2f\n",
		       fth_rounds_ours(&b->q6) / 1e6, fth_rounds_peer(&b->q6) / 1e6, q6);
	}
	fth_bench_json(&j, "vec", fth_rounds_ours(worst), fth_rounds_peer(worst),
		       fth_rounds_ratio(worst));
	fth_json_u64(&j, "rows", b->rows);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_u64(&j, "seed", b->seed);
	fth_json_string(&j, "simd", fth_kern()->name);
	fth_rounds_json(&j, "q1", &b->q1);
	fth_rounds_json(&j, "q6", &b->q6);
	fth_json_finish(&j);
}

static int execute(struct bench *b)
{
	int rc;

	b->mem = fth_qmem_new(UINT64_MAX);
	if (!b->mem)
		return -ENOMEM;
	rc = measure(b);
	if (rc == 0)
		report(b);
	free_programs(b);
	free_data(b);
	fth_qmem_close(b->mem);
	return rc;
}

static int run(int argc, char **argv)
{
	struct bench b = {.rows = 16 << 20, .rounds = 5, .seed = 1};
	int status = parse(&b, argc, argv);

	return status != FTH_CLI_GO_ON ? status : fth_app_exit("bench vec", execute(&b));
}

const struct fth_command fth_bench_vec = {
	.name = "vec",
	.summary = "vector programs of the query engine, against plain loops",
	.run = run,
};
