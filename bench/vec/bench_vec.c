/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench vec: filters, expressions and group-by like those of TPC-H Q1 and Q6, by the query engine's
 * interpreted vector programs, against plain loops in C over the same columns (vec_plain.c). One thread.
 */
#include "app_options.h"
#include "cli.h"
#include "json.h"
#include "common/report.h"
#include "common/rounds.h"
#include "vec_plain.h"

#include "query/keys/group_table.h"
#include "query/vec/agg.h"
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

struct q1_sums {
	int64_t quantity[VEC_GROUPS], price[VEC_GROUPS], discount[VEC_GROUPS],
		discounted[VEC_GROUPS], charge[VEC_GROUPS];
	uint64_t count[VEC_GROUPS];
};

static int q1_batch(struct bench *b, const struct fth_key *key, struct fth_groups *table,
		    struct fth_vec *v, unsigned n, struct q1_sums *s)
{
	static struct fth_agg_groups groups;
	static struct fth_sel sel;
	static uint64_t keys[FTH_BATCH];
	static uint32_t numbers[FTH_BATCH];
	struct fth_vec values[2];
	int rc;

	fth_sel_all(&sel, n);
	rc = fth_prog_filter(b->run_filter1, v, &sel);
	if (rc == 0)
		rc = fth_prog_exec(b->run_values1, v, n, sel.bits, values);
	if (rc == 0)
		rc = fth_key_pack64(key, v + FLAG, n, sel.bits, keys);
	if (rc == 0)
		rc = fth_groups_find(table, keys, n, sel.bits, numbers, NULL);
	if (rc < 0)
		return rc;
	fth_agg_groups(&groups, n, sel.bits, numbers, table->count);
	fth_agg_group_count(&groups, NULL, s->count);
	fth_agg_group_sum_i64(&groups, &v[QUANTITY], s->quantity);
	fth_agg_group_sum_i64(&groups, &v[PRICE], s->price);
	fth_agg_group_sum_i64(&groups, &v[DISCOUNT], s->discount);
	fth_agg_group_sum_i64(&groups, &values[0], s->discounted);
	fth_agg_group_sum_i64(&groups, &values[1], s->charge);
	return 0;
}

static void q1_result(const struct fth_key *key, const struct fth_groups *table,
		      const struct q1_sums *s, struct vec_group *out)
{
	memset(out, 0, VEC_GROUPS * sizeof(*out));
	for (uint32_t g = 0; g < table->count; g++) {
		fth_i128 flag = 0, state = 0;

		fth_key_int(key, fth_groups_key(table, g), 0, &flag);
		fth_key_int(key, fth_groups_key(table, g), 1, &state);
		out[flag * 2 + state] =
			(struct vec_group){s->count[g],	   s->quantity[g],   s->price[g],
					   s->discount[g], s->discounted[g], s->charge[g]};
	}
}

static int run_q1(struct bench *b, struct vec_group *out)
{
	const struct fth_key_column columns[2] = {{.min = 0, .max = 2}, {.min = 0, .max = 1}};
	struct fth_groups table;
	struct fth_key key;
	struct q1_sums sums = {0};
	int rc = fth_key_init(&key, columns, 2);

	if (rc == 0)
		rc = fth_groups_init(&table, b->mem, &key);
	if (rc < 0)
		return rc;
	for (size_t at = 0; at < b->rows && rc == 0; at += FTH_BATCH) {
		struct fth_vec v[COLUMNS];

		batch_at(&b->data, at, v);
		rc = q1_batch(b, &key, &table, v,
			      (unsigned)(b->rows - at < FTH_BATCH ? b->rows - at : FTH_BATCH),
			      &sums);
	}
	q1_result(&key, &table, &sums, out);
	fth_groups_release(&table);
	return rc;
}

static int run_q6(struct bench *b, int64_t *out)
{
	static struct fth_sel sel;
	fth_i128 sum = 0;
	uint64_t count = 0;

	for (size_t at = 0; at < b->rows; at += FTH_BATCH) {
		unsigned n = (unsigned)(b->rows - at < FTH_BATCH ? b->rows - at : FTH_BATCH);
		struct fth_vec v[COLUMNS], value;
		int rc;

		batch_at(&b->data, at, v);
		fth_sel_all(&sel, n);
		rc = fth_prog_filter(b->run_filter6, v, &sel);
		if (rc == 0)
			rc = fth_prog_exec(b->run_value6, v, n, sel.bits, &value);
		if (rc < 0)
			return rc;
		fth_agg_sum(&value, n, sel.bits, true, &sum, &count);
	}
	*out = (int64_t)sum;
	return 0;
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
