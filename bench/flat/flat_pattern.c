/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Accesses by plain pointers to memory of which a part fits into DRAM: our policy, FlatFlash's,
 * always paging in, and paging in by the kernel's block path. The device is memory and the
 * latencies of FlatFlash's Table 2 are emulated on all sides, since a disk would hide every
 * difference in mechanism. The last side takes in addition what flat_stack.c measured.
 */
#include "flat_rows.h"

#include "cli.h"
#include "flat/paging/latency_model.h"
#include "kv_load_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STRIDE	       8u /* words between those that are used: a line of the processor's cache */
#define WORDS_PER_PAGE (4096u / sizeof(uint64_t) / STRIDE) /* of those */
#define ZIPF	       0.99
#define SMALLER	       4u /* the budget of the last pattern is so many times smaller */

enum pattern { GUPS, READ, SKEWED, SKEWED_WIDER, ZIPFIAN, CHASE, SCAN, GUPS_SMALLER, PATTERNS };

static const struct {
	const char *name, *text;
} patterns[PATTERNS] = {
	{"gups", "updates, uniform"},
	{"read", "loads, uniform"},
	{"skewed", "updates, 90 % to a tenth"},
	{"skewed_wider", "updates, 90 % to a fifth"},
	{"zipf", "updates, zipf of 0.99"},
	{"chase", "loads, each decides on the next"},
	{"scan", "loads, one after the other"},
	{"gups_smaller", "updates, uniform, a quarter of that memory"},
};

enum side { OURS, PAPER, PAGING, STACK };

static const enum fth_flat_policy policies[FLAT_SIDES] = {FTH_FLAT_COUNTERS, FTH_FLAT_PAPER,
							  FTH_FLAT_ALWAYS, FTH_FLAT_ALWAYS};

/* ---- accesses ---- */

struct table {
	uint64_t *words, n; /* n: of those used */
	struct fth_rng rng;
	struct kv_zipf zipf; /* of pages */
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

/*
 * Volatile: each access is one instruction, as in a program whose compiler knows nothing of them.
 */
static void update(struct table *t, uint64_t i, uint64_t value)
{
	*(volatile uint64_t *)word(t, i) ^= value;
}

static void look(struct table *t, uint64_t i)
{
	t->wrong += *(volatile uint64_t *)word(t, i) != initial(i);
}

static uint64_t pick_zipf(struct table *t)
{
	return kv_zipf_pick(&t->zipf, &t->rng) * WORDS_PER_PAGE +
	       fth_rng_below(&t->rng, WORDS_PER_PAGE);
}

static void access_once(struct table *t, enum pattern pattern, uint64_t k)
{
	switch (pattern) {
	case GUPS:
	case GUPS_SMALLER:
		update(t, fth_rng_below(&t->rng, t->n), k);
		break;
	case READ:
		look(t, fth_rng_below(&t->rng, t->n));
		break;
	case SKEWED:
		update(t, fth_rng_below(&t->rng, fth_rng_below(&t->rng, 10) ? t->n / 10 : t->n), k);
		break;
	case SKEWED_WIDER:
		update(t, fth_rng_below(&t->rng, fth_rng_below(&t->rng, 10) ? t->n / 5 : t->n), k);
		break;
	case ZIPFIAN:
		update(t, pick_zipf(t), k);
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

	if (pattern != READ && pattern != CHASE && pattern != SCAN) {
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

static struct flat_latency_model model_of(const struct flat_bench *b, enum side side)
{
	struct flat_latency_model model = FLAT_LATENCY_PAPER;

	if (b->no_model)
		model = (struct flat_latency_model){0};
	if (side == STACK) {
		model.stack_read_ns = (uint32_t)b->stack_read_ns;
		model.stack_write_ns = (uint32_t)b->stack_write_ns;
	}
	return model;
}

static int open_region(const struct flat_bench *b, enum pattern pattern, enum side side,
		       struct fth_flat **out)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	uint64_t budget = b->size / b->times;
	char uri[40];

	options.policy = policies[side];
	options.foreground = b->foreground || policies[side] == FTH_FLAT_ALWAYS;
	snprintf(uri, sizeof(uri), "mem:%" PRIu64, b->size);
	return fth_flat_open(uri, pattern == GUPS_SMALLER ? budget / SMALLER : budget, &options,
			     out);
}

/* After filling and warming up, which are not measured. */
static int measure_accesses(const struct flat_bench *b, struct fth_flat *flat, struct table *t,
			    enum pattern pattern, struct flat_row *row, enum side side,
			    uint64_t round)
{
	uint64_t warm = b->ops / 2, moved, written, start;
	int rc = access_many(t, pattern, 0, warm);

	moved = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS);
	written = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS);
	start = fth_now_ns();
	if (rc == 0)
		rc = access_many(t, pattern, warm, warm + b->ops);
	row->rate[side][round] = (double)b->ops * 1e9 / (double)(fth_now_ns() - start);
	row->moved[side] = fth_flat_stat(flat, FTH_FLAT_STAT_PROMOTIONS) - moved;
	row->written[side] = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS) - written;
	return rc;
}

static int measure(const struct flat_bench *b, enum pattern pattern, struct flat_row *row,
		   enum side side, uint64_t round)
{
	struct table t = {.n = b->size / sizeof(uint64_t) / STRIDE};
	uint64_t seed = b->seed + round * 97 + (uint64_t)pattern;
	struct flat_latency_model model = model_of(b, side);
	struct fth_flat *flat;
	int rc = open_region(b, pattern, side, &flat);

	if (rc < 0)
		return rc;
	t.words = fth_flat_base(flat);
	t.rng.state = seed;
	if (pattern == ZIPFIAN)
		kv_zipf_init(&t.zipf, t.n / WORDS_PER_PAGE, ZIPF);
	rc = fill(&t, pattern);
	latency_set(flat, &model);
	if (rc == 0)
		rc = measure_accesses(b, flat, &t, pattern, row, side, round);
	latency_set(flat, NULL);
	if (rc == 0)
		rc = verify(&t, pattern, seed, b->ops / 2 + b->ops);
	fth_flat_discard(flat);
	return rc;
}

bool flat_is_pattern(const char *name)
{
	for (unsigned p = 0; p < PATTERNS; p++)
		if (strcmp(name, patterns[p].name) == 0)
			return true;
	return false;
}

int flat_pattern_rows(struct flat_bench *b)
{
	static const char *const sides[FLAT_SIDES] = {"ours", "paper", "paging", "kernel_path"};
	static const char *const no_stack[FLAT_SIDES] = {"ours", "paper", "paging"};
	struct flat_row *rows[PATTERNS] = {NULL};
	int stack = flat_stack_measure(b), rc = 0;

	if (stack == -ENOTSUP)
		fth_cli_error("skipping the kernel's block path: %s", fth_error_text(stack));
	else if (stack < 0)
		return stack;
	for (unsigned p = 0; p < PATTERNS; p++) {
		if (b->only && strcmp(b->only, "pattern") != 0 &&
		    strcmp(b->only, patterns[p].name) != 0)
			continue;
		rows[p] = flat_row_add(b, patterns[p].name, patterns[p].text,
				       stack == 0 ? sides : no_stack);
		if (!rows[p])
			return -ENOMEM;
	}
	for (uint64_t round = 0; round < b->rounds && rc == 0; round++)
		for (unsigned p = 0; p < PATTERNS && rc == 0; p++)
			for (unsigned s = 0;
			     s < FLAT_SIDES && rows[p] && rows[p]->side[s] && rc == 0; s++) {
				fth_cli_progress("patterns",
						 (round * PATTERNS + p) * FLAT_SIDES + s,
						 b->rounds * PATTERNS * FLAT_SIDES);
				rc = measure(b, (enum pattern)p, rows[p], (enum side)s, round);
			}
	fth_cli_progress_end();
	return rc;
}
