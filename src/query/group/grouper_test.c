/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups against a model that adds row by row: keys and arguments of all types, in little memory
 * and in plenty, of one grouper and of several; allocations that fail, and a scratch file that is
 * full.
 */
#include "fth_test.h"

#include "query/group/grouper.h"
#include "query/spill/result_rows.h"
#include "scalar/num.h"
#include "scalar/text.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { INT, TEXT, REAL, WIDE, BOOL, SLOTS };

#define ROWS	   FTH_BATCH
#define AGGREGATES 14u
#define PLAIN	   11u /* those that are not distinct */
#define TEXTS	   6u  /* from here on two of texts */
#define FIXED	   (PLAIN - 2)

static struct task_slot slots[SLOTS] = {
	[INT] = {.type = {.kind = FTH_T_INT32}, .nullable = true, .lo = -1000, .hi = 1000000},
	[TEXT] = {.type = {.kind = FTH_T_TEXT}, .nullable = true, .lo = 1, .hi = 0},
	[REAL] = {.type = {.kind = FTH_T_DOUBLE}, .nullable = true, .lo = 1, .hi = 0},
	[WIDE] = {.type = {.kind = FTH_T_DECIMAL, .precision = 38, .scale = 2}, .lo = 1, .hi = 0},
	[BOOL] = {.type = {.kind = FTH_T_BOOL}, .nullable = true, .lo = 1, .hi = 0},
};

static const struct task_slot big = {
	.type = {.kind = FTH_T_INT64}, .nullable = true, .lo = 0, .hi = INT64_MAX};

static struct task_aggregate aggregates[AGGREGATES] = {
	{.op = TASK_COUNT_ROWS, .slot = TASK_NONE},
	{.op = TASK_COUNT, .slot = INT},
	{.op = TASK_SUM, .slot = INT},
	{.op = TASK_MIN, .slot = INT},
	{.op = TASK_MAX, .slot = WIDE},
	{.op = TASK_SUM, .slot = WIDE},
	{.op = TASK_MIN, .slot = TEXT},
	{.op = TASK_MAX, .slot = TEXT},
	{.op = TASK_MAX, .slot = REAL},
	{.op = TASK_MIN, .slot = REAL},
	{.op = TASK_SUM, .slot = REAL},
	{.op = TASK_COUNT, .slot = TEXT, .distinct = true},
	{.op = TASK_SUM, .slot = INT, .distinct = true},
	{.op = TASK_COUNT, .slot = BOOL, .distinct = true},
};

static struct task_aggregate fixed[FIXED]; /* those that are neither distinct nor of texts */

static void describe_results(void)
{
	for (unsigned i = 0; i < AGGREGATES; i++) {
		struct task_aggregate *a = &aggregates[i];

		if (a->op == TASK_COUNT || a->op == TASK_COUNT_ROWS || a->slot == INT) {
			a->result = big;
			a->result.lo = 1;
			a->result.hi = 0;
			if (a->op == TASK_MIN)
				a->result = slots[INT];
		} else {
			a->result = slots[a->slot];
			a->result.nullable = true;
		}
	}
	for (unsigned i = 0; i < FIXED; i++)
		fixed[i] = aggregates[i < TEXTS ? i : i + 2];
}

/* ---- batches ---- */

struct batch {
	struct fth_vec vecs[SLOTS];
	_Alignas(64) int32_t ints[ROWS];
	_Alignas(64) struct fth_str texts[ROWS];
	_Alignas(64) uint8_t codes[ROWS];
	_Alignas(64) double reals[ROWS];
	_Alignas(64) fth_i128 wides[ROWS];
	uint64_t bits[FTH_BATCH_WORDS], nulls[SLOTS][FTH_BATCH_WORDS];
	char bytes[ROWS][12];
	struct fth_dict dict;
	struct fth_sel sel;
};

static void fill_batch(struct batch *b, struct fth_rng *rng, unsigned keys, unsigned number)
{
	bool dict = fth_rng_below(rng, 2) == 0;
	unsigned density = (unsigned)fth_rng_below(rng, 3);

	memset(b, 0, sizeof(*b));
	fth_sel_all(&b->sel, ROWS);
	for (unsigned i = 0; i < ROWS; i++) {
		b->ints[i] = (int32_t)fth_rng_below(rng, keys) - 500;
		b->texts[i].data = b->bytes[i];
		b->texts[i].len = (uint32_t)sprintf(b->bytes[i], "t%u",
						    (unsigned)fth_rng_below(rng, keys / 3 + 1));
		b->codes[i] = (uint8_t)fth_rng_below(rng, 40);
		b->reals[i] = (double)fth_rng_below(rng, 200) / 8 - 3;
		b->wides[i] = ((fth_i128)fth_rng_below(rng, 100) - 50) *
			      ((fth_i128)1 << fth_rng_below(rng, 90));
		if (fth_rng_below(rng, 2))
			fth_bit_set(b->bits, i);
		for (unsigned s = 0; s < SLOTS; s++)
			if (slots[s].nullable && fth_rng_below(rng, 10) == 0)
				fth_bit_set(b->nulls[s], i);
		if ((density == 1 && fth_rng_below(rng, 50) != 0) ||
		    (density == 2 && fth_rng_below(rng, 5) == 0))
			b->sel.bits[i / 64] &= ~((uint64_t)1 << i % 64);
	}
	b->sel.count = fth_bits_count(b->sel.bits, ROWS);
	b->dict = (struct fth_dict){.id = number + 1, .count = 40, .entries = b->texts};
	b->vecs[INT] = (struct fth_vec){.type = FTH_I32, .data = b->ints, .base = 17};
	b->vecs[TEXT] = dict ? (struct fth_vec){.type = FTH_I8, .data = b->codes, .dict = &b->dict}
			     : (struct fth_vec){.type = FTH_STR, .data = b->texts};
	b->vecs[REAL] = (struct fth_vec){.type = FTH_F64, .data = b->reals};
	b->vecs[WIDE] = (struct fth_vec){.type = FTH_I128, .data = b->wides};
	b->vecs[BOOL] = (struct fth_vec){.type = FTH_BITS, .data = b->bits};
	for (unsigned s = 0; s < SLOTS; s++)
		b->vecs[s].nulls = slots[s].nullable ? b->nulls[s] : NULL;
}

/* ---- the model: text of keys and results, one line for each group ---- */

struct model_group {
	char key[96];
	uint64_t rows, ints, texts;
	fth_i128 sum, min, wide_sum, wide_max, distinct_sum;
	bool has_real;
	double real_min, real_max, real_sum;
	struct fth_str text_min, text_max;
	uint64_t distinct_texts, bools;
};

struct seen_pair {
	char *text;
	struct seen_pair *next;
};

#define BUCKETS 65536u

struct model {
	struct model_group *groups;
	unsigned count, room;
	uint32_t table[BUCKETS * 4];
	struct seen_pair *pairs[BUCKETS];
};

static void print_value(char *out, size_t room, unsigned slot, const struct fth_vec *v, unsigned i)
{
	char text[FTH_NUM_TEXT];

	if (v->nulls && fth_bit(v->nulls, i)) {
		snprintf(out, room, "null");
	} else if (slot == TEXT) {
		struct fth_str s = rows_text(v, i);

		snprintf(out, room, "%.*s", (int)s.len, s.data);
	} else if (slot == REAL) {
		snprintf(out, room, "%.17g", ((const double *)v->data)[i]);
	} else if (slot == BOOL) {
		snprintf(out, room, "%d", fth_bit(v->data, i));
	} else {
		unsigned n = fth_dec_text(fth_vec_int(v, i), 0, text);

		snprintf(out, room, "%.*s", (int)n, text);
	}
}

static void print_key(char *out, size_t room, const unsigned *keys, unsigned count,
		      const struct fth_vec *const *vecs, unsigned i)
{
	size_t at = 0;

	out[0] = 0;
	for (unsigned k = 0; k < count; k++) {
		print_value(out + at, room - at, keys[k], vecs[k], i);
		at += strlen(out + at);
		out[at++] = '|';
		out[at] = 0;
	}
}

static uint32_t hash_text(const char *text)
{
	return (uint32_t)fth_str_hash(fth_str_of(text));
}

static struct model_group *model_find(struct model *m, const char *key)
{
	uint32_t at = hash_text(key) % (BUCKETS * 4);

	for (; m->table[at]; at = (at + 1) % (BUCKETS * 4))
		if (strcmp(m->groups[m->table[at] - 1].key, key) == 0)
			return &m->groups[m->table[at] - 1];
	if (m->count == m->room) {
		m->room = m->room ? 2 * m->room : 64;
		m->groups = realloc(m->groups, m->room * sizeof(*m->groups));
		assert_non_null(m->groups);
	}
	m->table[at] = ++m->count;
	memset(&m->groups[m->count - 1], 0, sizeof(*m->groups));
	snprintf(m->groups[m->count - 1].key, sizeof(m->groups[0].key), "%s", key);
	return &m->groups[m->count - 1];
}

static bool model_first(struct model *m, unsigned aggregate, const char *key, const char *value)
{
	char text[160];
	struct seen_pair *p;
	uint32_t at;

	snprintf(text, sizeof(text), "%u %s %s", aggregate, key, value);
	at = hash_text(text) % BUCKETS;
	for (p = m->pairs[at]; p; p = p->next)
		if (strcmp(p->text, text) == 0)
			return false;
	p = malloc(sizeof(*p));
	assert_non_null(p);
	p->text = strdup(text);
	p->next = m->pairs[at];
	m->pairs[at] = p;
	return true;
}

static void model_text(struct fth_str *kept, struct fth_str s, bool min)
{
	char *copy;

	if (kept->data && (min ? fth_str_cmp(s, *kept) >= 0 : fth_str_cmp(s, *kept) <= 0))
		return;
	copy = malloc(s.len + 1);
	assert_non_null(copy);
	memcpy(copy, s.data, s.len);
	free((char *)kept->data);
	*kept = (struct fth_str){copy, s.len, 0};
}

static void model_row(struct model *m, const struct batch *b, const char *key, unsigned i)
{
	struct model_group *g = model_find(m, key);
	char value[40];

	g->wide_max = g->rows == 0 || b->wides[i] > g->wide_max ? b->wides[i] : g->wide_max;
	g->wide_sum += b->wides[i];
	g->rows++;
	if (!fth_bit(b->nulls[INT], i)) {
		fth_i128 x = fth_vec_int(&b->vecs[INT], i);

		g->min = g->ints == 0 || x < g->min ? x : g->min;
		g->sum += x;
		g->ints++;
		print_value(value, sizeof(value), INT, &b->vecs[INT], i);
		if (model_first(m, 12, key, value))
			g->distinct_sum += x;
	}
	if (!fth_bit(b->nulls[TEXT], i)) {
		model_text(&g->text_min, rows_text(&b->vecs[TEXT], i), true);
		model_text(&g->text_max, rows_text(&b->vecs[TEXT], i), false);
		print_value(value, sizeof(value), TEXT, &b->vecs[TEXT], i);
		g->distinct_texts += model_first(m, 11, key, value);
	}
	if (!fth_bit(b->nulls[REAL], i)) {
		double x = b->reals[i];

		g->real_min = !g->has_real || x < g->real_min ? x : g->real_min;
		g->real_max = !g->has_real || x > g->real_max ? x : g->real_max;
		g->real_sum += x; /* eighths: exact */
		g->has_real = true;
	}
	if (!fth_bit(b->nulls[BOOL], i))
		g->bools |= 1u << fth_bit(b->bits, i);
}

static void model_free(struct model *m)
{
	for (unsigned i = 0; i < m->count; i++) {
		free((char *)m->groups[i].text_min.data);
		free((char *)m->groups[i].text_max.data);
	}
	for (unsigned i = 0; i < BUCKETS; i++)
		while (m->pairs[i]) {
			struct seen_pair *next = m->pairs[i]->next;

			free(m->pairs[i]->text);
			free(m->pairs[i]);
			m->pairs[i] = next;
		}
	free(m->groups);
	free(m);
}

/* ---- comparing ---- */

static bool valid(const struct fth_vec *v, unsigned i)
{
	return !(v->nulls && fth_bit(v->nulls, i));
}

static void check_int(const struct fth_vec *v, unsigned i, bool there, fth_i128 want)
{
	assert_int_equal(valid(v, i), there);
	if (there)
		assert_true(fth_vec_int(v, i) == want);
}

static void check_real(const struct fth_vec *v, unsigned i, bool there, double want)
{
	assert_int_equal(valid(v, i), there);
	if (there)
		assert_true(((const double *)v->data)[i] == want);
}

static void check_text(const struct fth_vec *v, unsigned i, struct fth_str want)
{
	assert_int_equal(valid(v, i), !!want.data);
	if (want.data)
		assert_true(fth_str_equal(((const struct fth_str *)v->data)[i], want));
}

static void check_fixed(const struct model_group *g, const struct fth_vec *v, unsigned i)
{
	check_int(&v[0], i, true, g->rows);
	check_int(&v[1], i, true, g->ints);
	check_int(&v[2], i, g->ints > 0, g->sum);
	check_int(&v[3], i, g->ints > 0, g->min);
	check_int(&v[4], i, g->rows > 0, g->wide_max);
	check_int(&v[5], i, g->rows > 0, g->wide_sum);
	check_real(&v[TEXTS], i, g->has_real, g->real_max);
	check_real(&v[TEXTS + 1], i, g->has_real, g->real_min);
	check_real(&v[TEXTS + 2], i, g->has_real, g->real_sum);
}

static void check_group(const struct model_group *g, const struct fth_vec *v, unsigned i,
			bool distinct)
{
	struct fth_vec plain[FIXED];

	for (unsigned k = 0; k < FIXED; k++)
		plain[k] = v[k < TEXTS ? k : k + 2];
	check_fixed(g, plain, i);
	check_text(&v[6], i, g->text_min);
	check_text(&v[7], i, g->text_max);
	if (!distinct)
		return;
	check_int(&v[11], i, true, g->distinct_texts);
	check_int(&v[12], i, g->ints > 0, g->distinct_sum);
	check_int(&v[13], i, true, __builtin_popcountll(g->bools));
}

/* ---- running ---- */

struct trial {
	unsigned key_count, keys[3];
	unsigned groupers, batches, values; /* keys are among so many */
	uint64_t memory, limit;		    /* of each grouper; of the scratch file */
	bool runs, no_model;
	bool dense; /* the key has a small range, and no aggregate is distinct */
	bool fixed; /* the aggregates are of fixed width */
	/* This many groupers get a progress of one hundredth of the input. */
	unsigned progress;
};

static struct fth_qmem *mem;

static int open_all(struct trial *t, struct scratch *scratch, struct group_store **store,
		    struct grouper **groupers, unsigned *opened)
{
	struct task_slot keys[3];
	struct grouper_spec spec = {.key_count = t->key_count,
				    .keys = keys,
				    .aggregate_count = t->fixed	  ? FIXED
						       : t->dense ? PLAIN
								  : AGGREGATES,
				    .aggregates = t->fixed ? fixed : aggregates,
				    .slots = slots,
				    .runs = t->runs,
				    .memory = t->memory};
	int rc = group_store_open(mem, scratch, store);

	for (unsigned i = 0; i < t->key_count; i++)
		keys[i] = slots[t->keys[i]];
	if (t->dense) {
		keys[0].lo = 17 - 500;
		keys[0].hi = keys[0].lo + t->values - 1;
	}
	for (*opened = 0; *opened < t->groupers && rc == 0; *opened += rc == 0) {
		rc = grouper_open(mem, &spec, &groupers[*opened]);
		if (rc == 0)
			grouper_use(groupers[*opened], *store);
		if (rc == 0 && *opened < t->progress)
			grouper_progress(groupers[*opened], 1, 100);
	}
	return rc;
}

static int add_all(struct trial *t, struct grouper **groupers, struct model *m)
{
	struct batch *b = aligned_alloc(64, sizeof(*b));
	struct fth_rng rng = {t->values + t->key_count};
	int rc = 0;

	assert_non_null(b);
	for (unsigned n = 0; n < t->batches && rc == 0; n++) {
		struct fth_vec *keys[3], *args[AGGREGATES];

		fill_batch(b, &rng, t->values, n);
		for (unsigned k = 0; k < t->key_count; k++)
			keys[k] = &b->vecs[t->keys[k]];
		for (unsigned a = 0; a < AGGREGATES; a++)
			args[a] = aggregates[a].slot == TASK_NONE ? NULL
								  : &b->vecs[aggregates[a].slot];
		for (unsigned a = TEXTS; a < FIXED && t->fixed; a++)
			args[a] = args[a + 2];
		for (unsigned i = 0; i < ROWS && m; i++) {
			char key[96];

			if (!fth_bit(b->sel.bits, i))
				continue;
			print_key(key, sizeof(key), t->keys, t->key_count,
				  (const struct fth_vec *const *)keys, i);
			model_row(m, b, key, i);
		}
		rc = grouper_add(groupers[n % t->groupers], keys, args, &b->sel);
	}
	free(b);
	return rc;
}

static int read_all(struct trial *t, struct group_store *store, struct model *m)
{
	struct fth_vec columns[3 + AGGREGATES];
	unsigned found = 0;
	int n;

	group_store_rewind(store);
	while ((n = group_store_next(store, columns)) > 0)
		for (unsigned i = 0; i < (unsigned)n && m; i++, found++) {
			const struct fth_vec *keys[3] = {&columns[0], &columns[1], &columns[2]};
			unsigned count = m->count;
			char key[96];

			print_key(key, sizeof(key), t->keys, t->key_count, keys, i);
			if (t->fixed)
				check_fixed(model_find(m, key), columns + t->key_count, i);
			else
				check_group(model_find(m, key), columns + t->key_count, i,
					    !t->dense);
			assert_int_equal(m->count, count); /* no other group */
		}
	if (n == 0 && m)
		assert_int_equal(found, m->count);
	return n;
}

/* Returns what failed first, or 0; *spilled tells whether something was. */
static int run_trial(struct trial *t, bool *spilled)
{
	struct model *m = t->no_model ? NULL : calloc(1, sizeof(*m));
	struct grouper *groupers[4] = {0};
	struct group_store *store = NULL;
	struct scratch scratch;
	unsigned opened = 0;
	int rc;

	scratch_init(&scratch, mem, NULL, t->limit);
	rc = open_all(t, &scratch, &store, groupers, &opened);
	if (rc == 0)
		rc = add_all(t, groupers, m);
	if (rc == 0) {
		rc = group_store_finish(store, groupers, t->groupers, t->key_count == 0);
		opened = 0;
	}
	/* It can be read more than once. */
	for (unsigned i = 0; i < 2 && rc == 0; i++)
		rc = read_all(t, store, m);
	if (spilled)
		*spilled = store && group_store_spilled(store);
	for (unsigned i = 0; i < opened; i++)
		grouper_close(groupers[i]);
	group_store_close(store);
	if (scratch.spill)
		assert_int_equal(spill_file_blocks(scratch.spill), 0);
	scratch_release(&scratch);
	if (m)
		model_free(m);
	return rc;
}

static int open_mem(void **state)
{
	(void)state;
	describe_results();
	mem = fth_qmem_new((uint64_t)1 << 30);
	return mem ? 0 : -1;
}

static int close_mem(void **state)
{
	(void)state;
	return fth_qmem_close(mem) == 0 ? 0 : -1;
}

/* Every choice of keys, by one grouper and by three. */
static void groups_are_as_the_model_says(void **state)
{
	static const unsigned keys[][3] = {{INT},  {TEXT},	{REAL},	     {BOOL},
					   {WIDE}, {INT, BOOL}, {TEXT, INT}, {WIDE, TEXT, REAL}};

	(void)state;
	for (unsigned k = 0; k < 9; k++)
		for (unsigned groupers = 1; groupers <= 3; groupers += 2)
			for (unsigned values = 3; values <= 3000; values *= 30) {
				struct trial t = {.key_count = k == 0	? 0
							       : k < 6	? 1
							       : k == 8 ? 3
									: 2,
						  .groupers = groupers,
						  .batches = 6,
						  .values = values,
						  .runs = k == 1};
				bool spilled;

				memcpy(t.keys, keys[k == 0 ? 0 : k - 1], sizeof(t.keys));
				assert_ok(run_trial(&t, &spilled));
				assert_false(spilled);
			}
}

/*
 * Keys of a small domain, most of which come: arrays instead of tables, for one grouper or for
 * several.
 */
static void groups_over_a_small_domain(void **state)
{
	static const uint64_t shares[] = {0, 2 << 20};

	(void)state;
	for (unsigned s = 0; s < 2; s++)
		for (unsigned groupers = 1; groupers <= 3; groupers += 2)
			for (unsigned keys = 1; keys <= 2; keys++) {
				struct trial t = {.key_count = keys,
						  .keys = {INT, BOOL},
						  .groupers = groupers,
						  .batches = 16,
						  .values = 20000,
						  .memory = shares[s],
						  .dense = true};
				bool spilled;

				assert_ok(run_trial(&t, &spilled));
				assert_int_equal(spilled, shares[s] > 0);
			}
}

/* More rows in a group than 16 bits count. */
static void counts_grow(void **state)
{
	struct trial t = {
		.key_count = 1, .keys = {BOOL}, .groupers = 2, .batches = 96, .values = 3};

	(void)state;
	assert_ok(run_trial(&t, NULL));
	t.groupers = 1;
	assert_ok(run_trial(&t, NULL));
}

/* Small shares of memory: the groups are spilled, parted, some of them twice, and the same. */
static void what_does_not_fit_is_spilled(void **state)
{
	static const uint64_t shares[] = {3 << 18, 1 << 20, 3 << 20};

	(void)state;
	for (unsigned s = 0; s < 3; s++)
		for (unsigned groupers = 1; groupers <= 4; groupers += groupers) {
			struct trial t = {.key_count = 2,
					  .keys = {TEXT, INT},
					  .groupers = groupers,
					  .batches = 12,
					  .values = 30000,
					  .memory = shares[s]};
			bool spilled;

			assert_ok(run_trial(&t, &spilled));
			assert_true(spilled || shares[s] > 1 << 20);
			/* One group, whose distinct values do not fit. */
			t.key_count = 0;
			t.batches = 40;
			t.values = 100000;
			t.memory /= 3;
			assert_ok(run_trial(&t, &spilled));
			assert_true(spilled || shares[s] > 1 << 20);
		}
}

/*
 * Shares that hold less than a batch of distinct values: they are added in smaller slices, and the
 * work ends.
 */
static void a_share_smaller_than_a_batch_of_values(void **state)
{
	unsigned right = 0;

	(void)state;
	for (uint64_t share = 64 << 10; share <= 192 << 10; share += 16 << 10) {
		struct trial t = {.groupers = 1, .batches = 12, .values = 100000, .memory = share};
		int rc = run_trial(&t, NULL);

		assert_true(rc == 0 || rc == -ENOMEM);
		right += rc == 0;
	}
	assert_true(right > 0);
}

/*
 * Keys and states of fixed width are spilled in blocks: ranges of keys if their arrays fit, else
 * parts by hash; groups if many rows belong to each, else rows; rows from the start on if a grouper
 * expects too many groups.
 */
static void fixed_widths_are_spilled_in_blocks(void **state)
{
	static const uint64_t shares[] = {3 << 18, 5 << 19};
	static const unsigned values[] = {6000, 100000};

	(void)state;
	for (unsigned s = 0; s < 2; s++)
		for (unsigned v = 0; v < 2; v++)
			for (unsigned i = 0; i < (v == 0 ? 4u : 8u); i++) {
				struct trial t = {.key_count = 1 + i % 2,
						  .keys = {INT, BOOL},
						  .groupers = i & 2 ? 3 : 1,
						  .batches = 30,
						  .values = values[v],
						  .memory = shares[s],
						  .dense = i & 4,
						  .fixed = true,
						  .progress = s};
				bool spilled;

				assert_ok(run_trial(&t, &spilled));
				assert_true(spilled || v == 0);
			}
}

/* The trial fails clean, wherever it runs out of memory, or is right. */
static void fail_each_allocation(struct trial t)
{
	unsigned good = 0, bad = 0;
	bool pending = false;

	t.no_model = true;
	for (unsigned n = 1; !pending; n += n < 60 ? 1 : n / 8) {
		int rc;

		fth_qmem_fail_nth(mem, n);
		rc = run_trial(&t, NULL);
		pending = fth_qmem_fail_pending(mem);
		fth_qmem_fail_nth(mem, 0);
		assert_true(rc == 0 || rc == -ENOMEM);
		good += rc == 0;
		bad += rc != 0;
		assert_int_equal(fth_qmem_used(mem), 0);
	}
	assert_true(good > 0);
	assert_true(bad > 0);
	t.no_model = false;
	for (unsigned n = 150; n < 4000; n += 900) {
		int rc;

		fth_qmem_fail_nth(mem, n);
		rc = run_trial(&t, NULL); /* right if it does not fail */
		fth_qmem_fail_nth(mem, 0);
		assert_true(rc == 0 || rc == -ENOMEM);
	}
}

static void every_allocation_may_fail(void **state)
{
	struct trial t = {.key_count = 2,
			  .keys = {TEXT, INT},
			  .groupers = 2,
			  .batches = 4,
			  .values = 20000,
			  .memory = 1 << 20};
	struct trial dense = {.key_count = 1,
			      .keys = {INT},
			      .groupers = 1,
			      .batches = 8,
			      .values = 20000,
			      .dense = true};

	struct trial blocks = {.key_count = 1,
			       .keys = {INT},
			       .groupers = 2,
			       .batches = 12,
			       .values = 60000,
			       .memory = 1 << 20,
			       .dense = true,
			       .fixed = true};

	(void)state;
	fail_each_allocation(t);
	fail_each_allocation(dense);
	fail_each_allocation(blocks);
	t.key_count = 0;
	t.memory = 1 << 18;
	fail_each_allocation(t);
}

static void a_full_scratch_file_is_a_clean_error(void **state)
{
	struct trial t = {.key_count = 1,
			  .keys = {INT},
			  .groupers = 2,
			  .batches = 12,
			  .values = 40000,
			  .memory = 1 << 20,
			  .no_model = true};
	int rc = -ENOSPC;

	(void)state;
	for (t.limit = 256 << 10; rc < 0; t.limit *= 2) {
		rc = run_trial(&t, NULL);
		if (rc != 0)
			assert_int_equal(rc, -ENOSPC);
		assert_int_equal(fth_qmem_used(mem), 0);
	}
	assert_true(t.limit > 512 << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_are_as_the_model_says),
		cmocka_unit_test(groups_over_a_small_domain),
		cmocka_unit_test(counts_grow),
		cmocka_unit_test(what_does_not_fit_is_spilled),
		cmocka_unit_test(a_share_smaller_than_a_batch_of_values),
		cmocka_unit_test(fixed_widths_are_spilled_in_blocks),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(a_full_scratch_file_is_a_clean_error),
	};

	return cmocka_run_group_tests(tests, open_mem, close_mem);
}
