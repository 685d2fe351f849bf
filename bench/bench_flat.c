/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom bench flat: random access by plain pointers to memory of which a part fits into DRAM, against always paging in, with the
 * same code on the same device. The device is memory; the latencies of FlatFlash's Table 2 are emulated on both
 * sides, since a disk would hide every difference in mechanism.
 */
#include "app_options.h"
#include "cli.h"
#include "json.h"
#include "median.h"
#include "report.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/flat.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define STRIDE 8u /* words between those that are used: a line of the processor's cache */

enum pattern { GUPS, READ, SKEWED, CHASE, SCAN, PATTERNS };

static const struct {
	const char *name, *text;
} patterns[PATTERNS] = {
	{"gups", "updates, uniform"},		{"read", "loads, uniform"},
	{"skewed", "updates, 90 % to a tenth"}, {"chase", "loads, each decides on the next"},
	{"scan", "loads, one after the other"},
};

enum side { OURS, PAPER, PAGING, SIDES };

static const enum fth_flat_policy policies[SIDES] = {FTH_FLAT_COUNTERS, FTH_FLAT_PAPER,
						     FTH_FLAT_ALWAYS};

struct bench {
	uint64_t size, times, ops, rounds, seed;
	bool smallest, no_model;
	double rates[PATTERNS][SIDES][FTH_ROUNDS_MAX];
	uint64_t moved[PATTERNS][SIDES];   /* pages promoted, last round */
	uint64_t written[PATTERNS][SIDES]; /* pages written to the device, last round */
};

static int parse(struct bench *b, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"size", FTH_CLI_SIZE, &b->size, 1 << 20, (uint64_t)1 << 40, "of the region"},
		{"times", FTH_CLI_U64, &b->times, 2, 1024, "the region is larger than its budget"},
		{"ops", FTH_CLI_U64, &b->ops, 1000, (uint64_t)1 << 40, "accesses per run"},
		{"seed", FTH_CLI_U64, &b->seed, 0, UINT64_MAX, "of all random choices"},
		{"no-model", FTH_CLI_FLAG, &b->no_model, 0, 0, "no emulated latencies"},
		FTH_BENCH_ROUNDS(&b->rounds),
		FTH_BENCH_SMALLEST(&b->smallest),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "bench flat [options]",
		.text = "Plain pointers into a region larger than its memory: our policy, "
			"FlatFlash's, and\n"
			"always paging in, with the latencies of FlatFlash's Table 2. Runs "
			"alternate;\n"
			"medians are compared. Every value is checked.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args);

	if (status != FTH_CLI_GO_ON)
		return status;
	if (b->smallest) {
		b->size = 4 << 20;
		b->ops = 4000;
		b->rounds = 1;
	}
	return FTH_CLI_GO_ON;
}

/* ---- accesses ---- */

struct table {
	uint64_t *words, n; /* n: of those used */
	struct fth_rng rng;
	uint64_t at, wrong;
};

static uint64_t initial(uint64_t i)
{
	return fth_mix64(i + 1);
}

/* For CHASE: a linear congruence; its period is n if n is a power of two. */
static uint64_t next_of(const struct table *t, uint64_t i)
{
	return (i * 5 + 12345) % t->n;
}

static uint64_t *word(const struct table *t, uint64_t i)
{
	return &t->words[i * STRIDE];
}

/* Volatile: each access is one instruction, as in a program whose compiler knows nothing of them. */
static void update(struct table *t, uint64_t i, uint64_t value)
{
	*(volatile uint64_t *)word(t, i) ^= value;
}

static void look(struct table *t, uint64_t i)
{
	t->wrong += *(volatile uint64_t *)word(t, i) != initial(i);
}

static void access_once(struct table *t, enum pattern pattern, uint64_t k)
{
	switch (pattern) {
	case GUPS:
		update(t, fth_rng_below(&t->rng, t->n), k);
		break;
	case READ:
		look(t, fth_rng_below(&t->rng, t->n));
		break;
	case SKEWED:
		update(t, fth_rng_below(&t->rng, fth_rng_below(&t->rng, 10) ? t->n / 10 : t->n), k);
		break;
	case CHASE:
		t->wrong += *(volatile uint64_t *)word(t, t->at) != next_of(t, t->at);
		t->at = next_of(t, t->at);
		break;
	default:
		look(t, t->at++ % t->n);
	}
}

static int access_many(struct table *t, enum pattern pattern, uint64_t from, uint64_t to)
{
	for (uint64_t k = from; k < to; k++) {
		access_once(t, pattern, k);
		if (k % 1024 == 0 && fth_cli_stopped())
			return -EINTR;
	}
	return 0;
}

static int fill(struct table *t, enum pattern pattern)
{
	for (uint64_t i = 0; i < t->n; i++) {
		*word(t, i) = pattern == CHASE ? next_of(t, i) : initial(i);
		if (i % 4096 == 0 && fth_cli_stopped())
			return -EINTR;
	}
	return 0;
}

/* The same updates once more cancel the first. */
static int verify(struct table *t, enum pattern pattern, uint64_t seed, uint64_t ops)
{
	int rc = 0;

	if (pattern == GUPS || pattern == SKEWED) {
		t->rng.state = seed;
		rc = access_many(t, pattern, 0, ops);
	}
	for (uint64_t i = 0; i < t->n && rc == 0; i++)
		t->wrong += *word(t, i) != (pattern == CHASE ? next_of(t, i) : initial(i));
	if (rc == 0 && t->wrong)
		return fth_fail(EIO, "%s: %" PRIu64 " wrong values", patterns[pattern].name,
				t->wrong);
	return rc;
}

/* ---- one run ---- */

static int measure(struct bench *b, enum pattern pattern, enum side side, uint64_t round)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct table t = {.n = b->size / sizeof(uint64_t) / STRIDE};
	uint64_t seed = b->seed + round * 97 + (uint64_t)pattern, warm = b->ops / 2, start,
		 promoted, written;
	struct fth_flat *flat;
	char uri[40];
	int rc;

	options.policy = policies[side];
	snprintf(uri, sizeof(uri), "mem:%" PRIu64, b->size);
	rc = fth_flat_open(uri, b->size / b->times, &options, &flat);
	if (rc < 0)
		return rc;
	t.words = fth_flat_base(flat);
	t.rng.state = seed;
	rc = fill(&t, pattern);
	if (rc == 0 && !b->no_model) { /* filling is not measured */
		fth_flat_set_model(flat, &(struct fth_flat_model)FTH_FLAT_MODEL_PAPER);
	}
	if (rc == 0)
		rc = access_many(&t, pattern, 0, warm);
	promoted = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS);
	written = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS);
	start = fth_now_ns();
	if (rc == 0)
		rc = access_many(&t, pattern, warm, warm + b->ops);
	b->rates[pattern][side][round] = (double)b->ops * 1e9 / (double)(fth_now_ns() - start);
	b->moved[pattern][side] = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS) - promoted;
	b->written[pattern][side] = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS) - written;
	fth_flat_set_model(flat, &(struct fth_flat_model){0});
	if (rc == 0)
		rc = verify(&t, pattern, seed, warm + b->ops);
	fth_flat_discard(flat);
	return rc;
}

static int measure_all(struct bench *b)
{
	int rc = 0;

	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (unsigned p = 0; p < PATTERNS && rc == 0; p++)
			for (unsigned s = 0; s < SIDES && rc == 0; s++) {
				fth_cli_progress("flat", (round * PATTERNS + p) * SIDES + s,
						 b->rounds * PATTERNS * SIDES);
				rc = measure(b, (enum pattern)p, (enum side)s, round);
			}
	fth_cli_progress_end();
	return rc;
}

/* ---- results ---- */

static double rate(const struct bench *b, unsigned pattern, unsigned side)
{
	return fth_median(b->rates[pattern][side], (unsigned)b->rounds);
}

static void print_table(const struct bench *b)
{
	printf("%-8s %-32s %10s %10s %10s %8s %8s\n", "pattern", "", "ours/s", "paper/s",
	       "paging/s", "/ paging", "/ paper");
	for (unsigned p = 0; p < PATTERNS; p++)
		printf("%-8s %-32s %10.0f %10.0f %10.0f %8.2f %8.2f\n", patterns[p].name,
		       patterns[p].text, rate(b, p, OURS), rate(b, p, PAPER), rate(b, p, PAGING),
		       rate(b, p, OURS) / rate(b, p, PAGING), rate(b, p, OURS) / rate(b, p, PAPER));
}

static void print_json(const struct bench *b)
{
	struct fth_json j;

	fth_bench_json(&j, "flat", rate(b, GUPS, OURS), rate(b, GUPS, PAGING),
		       rate(b, GUPS, OURS) / rate(b, GUPS, PAGING));
	fth_json_string(&j, "peer_name", "always paging in");
	fth_json_string(&j, "unit", "accesses/s");
	fth_json_u64(&j, "size", b->size);
	fth_json_u64(&j, "times", b->times);
	fth_json_u64(&j, "ops", b->ops);
	fth_json_u64(&j, "rounds", b->rounds);
	fth_json_bool(&j, "model", !b->no_model);
	fth_json_bool(&j, "emulates", fth_flat_emulates());
	fth_json_object(&j, "patterns");
	for (unsigned p = 0; p < PATTERNS; p++) {
		fth_json_object(&j, patterns[p].name);
		fth_json_double(&j, "ours", rate(b, p, OURS));
		fth_json_double(&j, "paper", rate(b, p, PAPER));
		fth_json_double(&j, "paging", rate(b, p, PAGING));
		fth_json_double(&j, "ratio", rate(b, p, OURS) / rate(b, p, PAGING));
		fth_json_u64(&j, "pages_moved", b->moved[p][OURS]);
		fth_json_u64(&j, "pages_moved_paging", b->moved[p][PAGING]);
		fth_json_u64(&j, "pages_written", b->written[p][OURS]);
		fth_json_u64(&j, "pages_written_paging", b->written[p][PAGING]);
		fth_json_end(&j);
	}
	fth_json_end(&j);
	fth_json_finish(&j);
}

static int run(int argc, char **argv)
{
	static struct bench b = {
		.size = 256u << 20, .times = 4, .ops = 200000, .rounds = 3, .seed = 1};
	int rc = parse(&b, argc, argv);

	if (rc != FTH_CLI_GO_ON)
		return rc;
	rc = measure_all(&b);
	if (rc == 0 && !fth_cli_json())
		print_table(&b);
	if (rc == 0)
		print_json(&b);
	return fth_app_exit_or_skip("bench flat", rc, rc == -ENOTSUP);
}

const struct fth_command fth_bench_flat = {
	.name = "flat",
	.summary = "plain pointers over DRAM and flash, against paging",
	.run = run,
};
