/* SPDX-License-Identifier: BSD-2-Clause */
/* Key sets, packed arrays, maps, composite keys, groups and runs against simple models, and built by threads. */
#include "fth_test.h"

#include "query/keys/distinct.h"
#include "query/keys/group_table.h"
#include "query/keys/multimap.h"
#include "query/keys/runs.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct fth_qmem *mem;

static int open_mem(void **state)
{
	(void)state;
	mem = fth_qmem_new((uint64_t)1 << 31);
	return mem ? 0 : -1;
}

static int close_mem(void **state)
{
	(void)state;
	return fth_qmem_close(mem) == 0 ? 0 : -1;
}

static unsigned random_rows(struct fth_rng *rng, unsigned n, uint64_t *rows)
{
	unsigned how = (unsigned)fth_rng_below(rng, 4);

	fth_bits_fill(rows, n);
	for (unsigned i = 0; i < n && how > 0; i++)
		if (fth_rng_below(rng, 4) < how)
			rows[i / 64] &= ~((uint64_t)1 << i % 64);
	return fth_bits_count(rows, n);
}

/* ---- key sets ---- */

static void a_key_set_knows_members_and_ranks(void **state)
{
	static const int64_t mins[] = {0, -1000, INT64_MAX - 5000, INT64_MIN};
	struct fth_rng rng = {1};

	(void)state;
	for (unsigned round = 0; round < 40; round++) {
		int64_t min = mins[round % 4], max = min + 1 + (int64_t)fth_rng_below(&rng, 4999);
		unsigned span = (unsigned)(max - min) + 1, rank = 0, n = 1000;
		uint64_t rows[16], hits[16], again[16] = {0}, outside = 0, at = 0;
		bool *model = calloc(span, 1);
		int64_t keys[1000], listed[100];
		uint32_t ranks[1000];
		struct fth_keyset s;

		assert_ok(fth_keyset_init(&s, mem, min, max));
		for (unsigned i = 0; i < n; i++)
			keys[i] = min + (int64_t)fth_rng_below(&rng, span);
		random_rows(&rng, n, rows);
		fth_keyset_add(&s, keys, n, rows, &outside, again);
		for (unsigned i = 0; i < n; i++) {
			if (!fth_bit(rows, i))
				continue;
			assert_int_equal(fth_bit(again, i), model[keys[i] - min]);
			model[keys[i] - min] = true;
		}
		assert_int_equal(outside, 0);
		assert_ok(fth_keyset_seal(&s));
		assert_true(fth_qmem_used(mem) <= fth_keyset_bound(min, max, true));
		for (unsigned i = 0; i < span; i++) {
			assert_int_equal(fth_keyset_has(&s, min + i), model[i]);
			assert_int_equal(fth_keyset_rank(&s, min + i), rank);
			rank += model[i];
		}
		assert_int_equal(s.count, rank);
		assert_int_equal(fth_keyset_count(&s), rank);
		if (min > INT64_MIN)
			assert_false(fth_keyset_has(&s, min - 1));
		if (max < INT64_MAX)
			assert_false(fth_keyset_has(&s, max + 1));
		for (unsigned i = 0; i < n; i += 3)
			keys[i] = (int64_t)fth_rng_next(&rng);
		random_rows(&rng, n, rows);
		fth_keyset_probe(&s, keys, n, rows, hits);
		fth_keyset_ranks(&s, keys, n, hits, ranks);
		for (unsigned i = 0; i < n; i++) {
			bool in = keys[i] >= min && keys[i] <= max && model[keys[i] - min];

			assert_int_equal(fth_bit(hits, i), in && fth_bit(rows, i));
			if (fth_bit(hits, i))
				assert_int_equal(ranks[i], fth_keyset_rank(&s, keys[i]));
		}
		rank = 0;
		for (unsigned got; (got = fth_keyset_next(&s, &at, listed, 100)) > 0;)
			for (unsigned i = 0; i < got; i++)
				assert_int_equal(fth_keyset_rank(&s, listed[i]), rank++);
		assert_int_equal(rank, s.count);
		fth_keyset_release(&s);
		free(model);
	}
	assert_true(fth_keyset_bound(INT64_MIN, INT64_MAX, true) == UINT64_MAX);
}

static void packed_values_are_those_put_there(void **state)
{
	struct fth_rng rng = {2};

	(void)state;
	for (unsigned width = 0; width <= 64; width++) {
		uint64_t span = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
		int64_t min = (int64_t)(fth_rng_next(&rng) & ~span),
			max = (int64_t)((uint64_t)min + span);
		int64_t values[500], got[500];
		uint64_t rows[8];
		uint32_t slots[500];
		struct fth_packed p;

		assert_int_equal(fth_packed_width(min, max), width);
		assert_ok(fth_packed_init(&p, mem, 500, min, max));
		assert_true(fth_qmem_used(mem) <= fth_packed_bound(500, min, max));
		for (unsigned i = 0; i < 500; i++) {
			slots[i] = (i * 7) % 500;
			values[i] = (int64_t)((uint64_t)min + (fth_rng_next(&rng) & span));
		}
		fth_bits_fill(rows, 500);
		fth_packed_scatter(&p, slots, values, 500, rows);
		fth_packed_gather(&p, slots, 500, rows, got);
		assert_memory_equal(got, values, sizeof(values));
		for (unsigned i = 0; i < 500; i++)
			assert_true(fth_packed_get(&p, slots[i]) == values[i]);
		fth_packed_release(&p);
	}
}

/* ---- maps ---- */

static int64_t key_number(uint64_t i, const struct fth_map_facts *f, enum fth_map_kind kind)
{
	if (kind == FTH_MAP_HASH)
		return i == 0 ? 0 : (int64_t)fth_mix64(i);
	return f->min + (int64_t)(i * 3);
}

static void a_map_finds_its_keys_and_payload(void **state)
{
	struct fth_map_facts facts = {
		.count = 5000, .min = -7000, .max = 20000, .payload_bits = 13};
	struct fth_rng rng = {3};

	(void)state;
	for (unsigned kind = 0; kind < FTH_MAP_KINDS; kind++) {
		struct fth_map m;
		struct fth_packed payload;
		uint64_t rows[FTH_BATCH_WORDS], hits[FTH_BATCH_WORDS];
		static int64_t keys[FTH_BATCH], values[FTH_BATCH];
		static uint32_t slots[FTH_BATCH];

		assert_ok(fth_map_init(&m, mem, kind, &facts));
		assert_ok(fth_packed_init(&payload, mem, m.slots, 0, 8191));
		for (unsigned pass = 0; pass < 2; pass++) {
			for (uint64_t first = 0; first < 5000; first += 1000) {
				for (unsigned i = 0; i < 1000; i++) {
					keys[i] = key_number(first + i, &facts, kind);
					values[i] = (int64_t)(first + i);
				}
				fth_bits_fill(rows, 1000);
				if (pass == 0) {
					assert_ok(fth_map_add(&m, keys, 1000, rows));
					continue;
				}
				fth_map_find(&m, keys, 1000, rows, hits, slots);
				assert_memory_equal(hits, rows, fth_bits_words(1000) * 8);
				fth_packed_scatter(&payload, slots, values, 1000, hits);
			}
			if (pass == 0)
				assert_ok(fth_map_seal(&m, true));
		}
		assert_int_equal(fth_map_count(&m), 5000);
		assert_true(fth_qmem_used(mem) <= fth_map_cost(kind, &facts).bytes);
		for (unsigned i = 0; i < FTH_BATCH; i++) { /* half of them strangers */
			uint64_t number = fth_rng_below(&rng, 10000);

			values[i] = (int64_t)number;
			keys[i] = number < 5000 ? key_number(number, &facts, kind)
						: -8000 - (int64_t)number;
		}
		random_rows(&rng, FTH_BATCH, rows);
		fth_map_find(&m, keys, FTH_BATCH, rows, hits, slots);
		for (unsigned i = 0; i < FTH_BATCH; i++) {
			assert_int_equal(fth_bit(hits, i), fth_bit(rows, i) && values[i] < 5000);
			if (fth_bit(hits, i))
				assert_true(fth_packed_get(&payload, slots[i]) == values[i]);
		}
		fth_map_probe(&m, keys, FTH_BATCH, rows, rows);
		assert_memory_equal(rows, hits, sizeof(hits));
		fth_packed_release(&payload);
		fth_map_release(&m);
	}
}

static void a_map_refuses_what_it_was_not_made_for(void **state)
{
	struct fth_map_facts facts = {.count = 2, .min = 0, .max = 99};
	int64_t keys[3] = {1, 2, 3}, outside[1] = {100}, twice[2] = {5, 5};
	uint64_t three = 7, one = 1, two = 3;
	struct fth_map m;

	(void)state;
	assert_ok(fth_map_init(&m, mem, FTH_MAP_HASH, &facts));
	assert_int_equal(fth_map_add(&m, keys, 3, &three), -ENOSPC);
	fth_map_release(&m);
	assert_ok(fth_map_init(&m, mem, FTH_MAP_RANKED, &facts));
	assert_int_equal(fth_map_add(&m, outside, 1, &one), -ERANGE);
	assert_ok(fth_map_add(&m, twice, 2, &two));
	assert_int_equal(fth_map_seal(&m, true), -EEXIST);
	assert_ok(fth_map_seal(&m, false));
	fth_map_release(&m);
}

static void the_choice_follows_count_range_and_memory(void **state)
{
	struct fth_map_facts dense = {1000000, 1, 1000000, 20}, holes = {1000000, 1, 60000000, 20};
	struct fth_map_facts sparse = {1000, INT64_MIN, INT64_MAX, 20};
	struct fth_map_choice c;

	(void)state;
	c = fth_map_choose(&dense, 64 << 20);
	assert_int_equal(c.kind, FTH_MAP_DENSE);
	assert_true(c.bytes < 3 << 20);
	c = fth_map_choose(&holes, 64 << 20);
	assert_int_equal(c.kind, FTH_MAP_RANKED);
	assert_true(c.bytes < 12 << 20 && c.slots == 1000000);
	assert_int_equal(fth_map_choose(&sparse, 64 << 20).kind, FTH_MAP_HASH);
	c = fth_map_choose(&holes, 1 << 20);
	assert_true(c.bytes > 1 << 20);
}

/* ---- threads ---- */

struct build {
	struct fth_map *map;
	struct fth_multimap *multi;
	struct fth_packed *payload;
	struct fth_map_facts facts;
	enum fth_map_kind kind;
	unsigned thread, step;
};

#define THREADS 4
#define SHARE	4000u

static void *build_share(void *arg)
{
	struct build *b = arg;
	int64_t keys[500], values[500];
	uint32_t slots[500], numbers[500];
	uint64_t rows[8], hits[8];

	fth_bits_fill(rows, 500);
	for (unsigned first = 0; first < SHARE; first += 500) {
		for (unsigned i = 0; i < 500; i++) {
			uint64_t number = (first + i) * THREADS + b->thread;

			if (b->multi) /* four threads have values for each key */
				number = first + i;
			keys[i] = key_number(number, &b->facts, b->kind);
			values[i] = (int64_t)number;
			numbers[i] = (uint32_t)(number * THREADS + b->thread);
		}
		if (b->step == 0) {
			assert_int_equal(fth_map_add(b->map, keys, 500, rows), 0);
		} else if (b->step == 1 && b->payload) {
			fth_map_find(b->map, keys, 500, rows, hits, slots);
			fth_packed_scatter(b->payload, slots, values, 500, hits);
		} else if (b->step == 1) {
			fth_multimap_count(b->multi, keys, 500, rows);
		} else {
			fth_multimap_put(b->multi, keys, numbers, 500, rows);
		}
	}
	return NULL;
}

static void run_step(const struct build *proto, unsigned step)
{
	struct build all[THREADS];
	pthread_t threads[THREADS];

	for (unsigned t = 0; t < THREADS; t++) {
		all[t] = *proto;
		all[t].thread = t;
		all[t].step = step;
		assert_int_equal(pthread_create(&threads[t], NULL, build_share, &all[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
}

static void threads_build_a_map_together(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < FTH_MAP_KINDS; kind++) {
		struct fth_map_facts facts = {THREADS * SHARE, -5, 3 * THREADS * SHARE, 14};
		struct fth_packed payload;
		struct fth_map m;
		struct build proto = {.map = &m, .payload = &payload, .facts = facts, .kind = kind};

		assert_ok(fth_map_init(&m, mem, kind, &facts));
		assert_ok(fth_packed_init(&payload, mem, m.slots, 0, 16383));
		run_step(&proto, 0);
		assert_ok(fth_map_seal(&m, true));
		run_step(&proto, 1);
		assert_int_equal(fth_map_count(&m), THREADS * SHARE);
		for (uint64_t i = 0; i < THREADS * SHARE; i++) {
			int64_t key = key_number(i, &facts, kind);
			uint64_t one = 1, hit;
			uint32_t slot;

			fth_map_find(&m, &key, 1, &one, &hit, &slot);
			assert_true(hit == 1 && fth_packed_get(&payload, slot) == (int64_t)i);
		}
		fth_packed_release(&payload);
		fth_map_release(&m);
	}
}

static void threads_build_a_multimap_together(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < FTH_MAP_KINDS; kind++) {
		struct fth_map_facts facts = {SHARE, -5, 3 * SHARE, 0};
		struct fth_multimap m;
		struct build proto = {.map = &m.map, .multi = &m, .facts = facts, .kind = kind};

		assert_ok(fth_multimap_init(&m, mem, kind, &facts));
		run_step(&proto, 0);
		assert_ok(fth_multimap_seal_keys(&m));
		run_step(&proto, 1);
		assert_ok(fth_multimap_seal_counts(&m));
		run_step(&proto, 2);
		assert_int_equal(m.rows, THREADS * SHARE);
		assert_true(fth_qmem_used(mem) <= fth_multimap_bound(kind, &facts, m.rows));
		for (uint64_t i = 0; i < SHARE; i++) {
			int64_t key = key_number(i, &facts, kind);
			uint64_t one = 1, hit, seen = 0;
			const uint32_t *values;
			uint32_t slot;

			fth_map_find(&m.map, &key, 1, &one, &hit, &slot);
			assert_int_equal(hit, 1);
			assert_int_equal(fth_multimap_values(&m, slot, &values), THREADS);
			for (unsigned t = 0; t < THREADS; t++) {
				assert_int_equal(values[t] / THREADS, i);
				seen |= (uint64_t)1 << values[t] % THREADS;
			}
			assert_int_equal(seen, 15);
		}
		fth_multimap_release(&m);
	}
}

/* ---- composite keys and groups ---- */

static void composite_keys_come_apart_again(void **state)
{
	static const int64_t spans[][3] = {{3, 100, 1000000},
					   {1, 1, 1},
					   {1 << 20, INT64_MAX / 2, 10},
					   {INT64_MAX / 2, INT64_MAX / 2, INT64_MAX / 2}};
	static const enum fth_key_form forms[] = {FTH_KEY_64, FTH_KEY_64, FTH_KEY_128,
						  FTH_KEY_BYTES};
	struct fth_rng rng = {4};

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct fth_key_column columns[3] = {{0}};
		struct fth_key k;
		struct fth_vec vecs[3];
		struct fth_arena arena;
		int64_t data[3][200];
		uint64_t nulls[4] = {0}, rows[4], packed[200];
		fth_u128 wide[200];
		struct fth_str bytes[200];

		fth_arena_init(&arena, mem, 4096);
		for (unsigned c = 0; c < 3; c++) {
			columns[c].min = (fth_i128)(c + 1) * -17;
			columns[c].max = columns[c].min + spans[round][c] - 1;
			columns[c].nullable = c == 1;
			vecs[c] = (struct fth_vec){
				.type = FTH_I64, .data = data[c], .nulls = c == 1 ? nulls : NULL};
			for (unsigned i = 0; i < 200; i++)
				data[c][i] =
					(int64_t)columns[c].min +
					(int64_t)fth_rng_below(&rng, (uint64_t)spans[round][c]);
		}
		for (unsigned i = 0; i < 200; i += 5)
			fth_bit_set(nulls, i);
		fth_bits_fill(rows, 200);
		assert_ok(fth_key_init(&k, columns, 3));
		assert_int_equal(k.form, forms[round]);
		if (k.form == FTH_KEY_64)
			assert_ok(fth_key_pack64(&k, vecs, 200, rows, packed));
		else if (k.form == FTH_KEY_128)
			assert_ok(fth_key_pack128(&k, vecs, 200, rows, wide));
		else
			assert_ok(fth_key_encode(&k, vecs, 200, rows, &arena, bytes));
		for (unsigned i = 0; i < 200; i++)
			for (unsigned c = 0; c < 3; c++) {
				fth_i128 value = 0;
				struct fth_str text;
				bool there =
					k.form == FTH_KEY_BYTES
						? fth_key_decode(&k, bytes[i], c, &value, &text)
						: fth_key_int(&k,
							      k.form == FTH_KEY_64 ? packed[i]
										   : wide[i],
							      c, &value);

				assert_int_equal(there, !(c == 1 && fth_bit(nulls, i)));
				assert_true(!there || value == data[c][i]);
			}
		data[0][7] = (int64_t)columns[0].max + 1;
		if (k.form == FTH_KEY_64)
			assert_int_equal(fth_key_pack64(&k, vecs, 200, rows, packed), -ERANGE);
		fth_arena_release(&arena);
	}
}

/* Numbers in the order of first appearance, found again, and merged. */
static void check_groups(const struct fth_key *k, const void *keys, const unsigned *number,
			 unsigned n, unsigned distinct)
{
	uint64_t rows[FTH_BATCH_WORDS], left[FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH], of_number[FTH_BATCH], numbers[FTH_BATCH];
	struct fth_groups g, other;

	memset(of_number, 0xff, sizeof(of_number));
	assert_ok(fth_groups_init(&g, mem, k));
	assert_ok(fth_groups_init(&other, mem, k));
	fth_bits_fill(rows, n);
	for (unsigned pass = 0; pass < 2; pass++) {
		assert_ok(fth_groups_find(&g, keys, n, rows, groups, left));
		assert_int_equal(g.count, distinct);
		for (unsigned i = 0; i < n; i++) {
			if (of_number[number[i]] == UINT32_MAX)
				of_number[number[i]] = groups[i];
			assert_int_equal(groups[i], of_number[number[i]]);
		}
	}
	if (k->form == FTH_KEY_64)
		for (unsigned i = 0; i < n; i++)
			assert_true(fth_groups_key(&g, groups[i]) == ((const uint64_t *)keys)[i]);
	memset(rows, 0x55, sizeof(rows));
	for (unsigned w = fth_bits_words(n); w-- > n / 64;)
		rows[w] &= ((uint64_t)1 << n % 64) - 1;
	assert_ok(fth_groups_find(&other, keys, n, rows, numbers, NULL));
	assert_ok(fth_groups_merge(&other, &g, numbers));
	assert_int_equal(other.count, distinct);
	assert_ok(fth_groups_merge(&g, &other, numbers));
	assert_int_equal(g.count, distinct);
	fth_groups_release(&g);
	fth_groups_release(&other);
}

static void groups_are_numbered_as_they_come(void **state)
{
	static const unsigned counts[] = {1, 5, 300, 2500};
	static uint64_t narrow[FTH_BATCH];
	static fth_u128 wide[FTH_BATCH];
	static struct fth_str text[FTH_BATCH];
	static char texts[FTH_BATCH][16];
	struct fth_rng rng = {5};

	(void)state;
	for (unsigned c = 0; c < 4; c++) {
		struct fth_key direct = {.form = FTH_KEY_64, .bits = 12},
			       adaptive = {.form = FTH_KEY_64, .bits = 15},
			       k64 = {.form = FTH_KEY_64, .bits = 64},
			       k128 = {.form = FTH_KEY_128, .bits = 100},
			       bytes = {.form = FTH_KEY_BYTES};
		static unsigned number[FTH_BATCH];
		bool seen[2500] = {false};
		unsigned n = 3000, distinct = 0;

		for (unsigned i = 0; i < n; i++) {
			number[i] = (unsigned)fth_rng_below(&rng, counts[c]);
			distinct += !seen[number[i]];
			seen[number[i]] = true;
			narrow[i] = number[i];
			wide[i] = (fth_u128)number[i] << 64 | 7;
			text[i] = (struct fth_str){texts[i], 0, 0};
			text[i].len = (uint32_t)sprintf(texts[i], "key %u", number[i]);
		}
		check_groups(&direct, narrow, number, n, distinct);
		check_groups(&adaptive, narrow, number, n, distinct);
		check_groups(&k64, narrow, number, n, distinct);
		check_groups(&k128, wide, number, n, distinct);
		check_groups(&bytes, text, number, n, distinct);
	}
}

/* In a small account some rows find no group; those that did keep theirs. */
static void groups_report_what_did_not_fit(void **state)
{
	struct fth_qmem *small = fth_qmem_child(mem, "groups", 16384);
	struct fth_key k64 = {.form = FTH_KEY_64, .bits = 64};
	static uint64_t keys[FTH_BATCH], rows[FTH_BATCH_WORDS], left[FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH];
	struct fth_groups g;

	(void)state;
	for (unsigned i = 0; i < FTH_BATCH; i++)
		keys[i] = i;
	fth_bits_fill(rows, FTH_BATCH);
	assert_ok(fth_groups_init(&g, small, &k64));
	assert_int_equal(fth_groups_find(&g, keys, FTH_BATCH, rows, groups, left), -ENOMEM);
	assert_true(g.count >= 256 && g.count < FTH_BATCH);
	assert_true(fth_groups_bound(&k64, g.count) <= 16384);
	assert_int_equal(fth_bits_count(left, FTH_BATCH), FTH_BATCH - g.count);
	for (unsigned i = 0; i < FTH_BATCH; i++)
		if (!fth_bit(left, i))
			assert_int_equal(groups[i], i);
	fth_groups_release(&g);
	assert_int_equal(fth_qmem_close(small), 0);
}

/* A hash table of a small domain becomes direct when that is hardly larger: numbers stay. */
static void groups_become_direct(void **state)
{
	struct fth_key key = {.form = FTH_KEY_64, .bits = 17};
	static uint64_t keys[FTH_BATCH], rows[FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH];
	struct fth_groups g, other;
	bool reserved = false;

	(void)state;
	fth_bits_fill(rows, FTH_BATCH);
	do {
		assert_ok(fth_groups_init(&g, mem, &key));
		assert_false(g.direct);
		for (unsigned batch = 0; batch < 16; batch++) {
			for (unsigned i = 0; i < FTH_BATCH; i++)
				keys[i] = (batch * FTH_BATCH + i) * 48271u % (1u << 17);
			if (reserved)
				assert_ok(fth_groups_reserve(&g, FTH_BATCH));
			assert_ok(fth_groups_find(&g, keys, FTH_BATCH, rows, groups, NULL));
			for (unsigned i = 0; i < FTH_BATCH; i++)
				assert_int_equal(groups[i], batch * FTH_BATCH + i);
		}
		assert_true(g.direct);
		assert_true(fth_groups_bound(&key, g.count) >= 4u << 17);
		assert_ok(fth_groups_init_hashed(&other, mem, &key));
		for (unsigned batch = 0; batch < 16; batch++) {
			assert_ok(fth_groups_reserve_append(&other, FTH_BATCH));
			fth_groups_append(&other, (uint64_t *)g.keys + batch * FTH_BATCH,
					  FTH_BATCH);
		}
		assert_ok(fth_groups_enter(&other));
		assert_false(other.direct);
		assert_ok(fth_groups_find(&other, keys, FTH_BATCH, rows, groups, NULL));
		assert_int_equal(groups[7], 15 * FTH_BATCH + 7);
		fth_groups_clear(&g);
		assert_ok(fth_groups_find(&g, keys + 5, 1, rows, groups, NULL));
		assert_int_equal(groups[0], 0);
		fth_groups_release(&g);
		fth_groups_release(&other);
		reserved = !reserved;
	} while (reserved);
}

static void every_failing_charge_leaves_a_good_table(void **state)
{
	struct fth_key bytes = {.form = FTH_KEY_BYTES};
	static struct fth_str text[2000];
	static char texts[2000][16];
	static uint32_t groups[2000];
	uint64_t rows[32], left[32];
	bool done = false;

	(void)state;
	for (unsigned i = 0; i < 2000; i++)
		text[i] = (struct fth_str){texts[i], (uint32_t)sprintf(texts[i], "%u", i), 0};
	fth_bits_fill(rows, 2000);
	for (unsigned n = 1; !done; n++) {
		struct fth_groups g;
		int rc;

		fth_qmem_fail_nth(mem, n);
		rc = fth_groups_init(&g, mem, &bytes);
		if (rc == 0) {
			rc = fth_groups_find(&g, text, 2000, rows, groups, left);
			done = fth_qmem_fail_pending(mem);
			fth_qmem_fail_nth(mem, 0);
			assert_ok(fth_groups_find(&g, text, 2000, rows, groups, left));
			for (unsigned i = 0; i < 2000; i++)
				assert_true(fth_str_of(texts[i]).len ==
					    fth_groups_bytes(&g, groups[i]).len);
			assert_int_equal(g.count, 2000);
			fth_groups_release(&g);
		}
		assert_int_equal(fth_qmem_used(mem), 0);
	}
}

static void runs_go_on_over_batches(void **state)
{
	int64_t first[6] = {5, 5, 7, 7, 8, 9}, second[3] = {9, 9, 2}, keys[6];
	uint64_t some = 0x37, all = 7, none = 0; /* without the 7 and the 8 between */
	struct fth_runs r = {0};
	uint32_t runs[6];
	bool continues;

	(void)state;
	assert_int_equal(fth_runs_next(&r, first, 6, &some, runs, keys, &continues), 4);
	assert_false(continues);
	assert_true(keys[0] == 5 && keys[1] == 7 && keys[2] == 8 && keys[3] == 9);
	assert_true(runs[0] == 0 && runs[1] == 0 && runs[2] == 1 && runs[4] == 2 && runs[5] == 3);
	assert_int_equal(fth_runs_next(&r, second, 3, &none, runs, keys, &continues), 0);
	assert_int_equal(fth_runs_next(&r, second, 3, &all, runs, keys, &continues), 2);
	assert_true(continues && runs[0] == 0 && runs[1] == 0 && runs[2] == 1);
}

/* ---- distinct numbers ---- */

static int compare_wide(const void *a, const void *b)
{
	fth_u128 x = *(const fth_u128 *)a, y = *(const fth_u128 *)b;

	return x < y ? -1 : x > y;
}

/* Batches of numbers of more and more bits, with the least and the greatest among them. */
static void a_set_tells_which_numbers_are_new(void **state)
{
	static fth_u128 numbers[FTH_BATCH], all[40 * FTH_BATCH];
	uint64_t rows[FTH_BATCH_WORDS], fresh[FTH_BATCH_WORDS], at = 0;
	struct fth_rng rng = {5};
	struct fth_distinct d;
	unsigned bits = 9, count = 0, listed = 0, n;

	(void)state;
	assert_ok(fth_distinct_init(&d, mem, bits));
	for (unsigned round = 0; round < 40; round++, bits += 3) {
		for (unsigned i = 0; i < FTH_BATCH; i++) {
			fth_u128 x = (fth_u128)fth_rng_next(&rng) << 64 | fth_rng_next(&rng);

			numbers[i] = x & (((fth_u128)1 << bits) - 1);
			numbers[i] = i == 7 ? 0 : i == 9 ? ((fth_u128)1 << bits) - 1 : numbers[i];
		}
		random_rows(&rng, FTH_BATCH, rows);
		assert_ok(fth_distinct_reserve(&d, bits, FTH_BATCH));
		fth_distinct_add(&d, numbers, FTH_BATCH, rows, fresh);
		for (unsigned i = 0; i < FTH_BATCH; i++) {
			bool known = count > 0 && bsearch(&numbers[i], all, listed, sizeof(*all),
							  compare_wide) != NULL;

			for (unsigned k = listed; k < count && !known; k++)
				known = all[k] == numbers[i];
			assert_int_equal(fth_bit(fresh, i), fth_bit(rows, i) && !known);
			if (fth_bit(fresh, i))
				all[count++] = numbers[i];
		}
		qsort(all, count, sizeof(*all), compare_wide);
		listed = count;
		assert_int_equal(d.count, count);
	}
	listed = 0;
	while ((n = fth_distinct_next(&d, &at, numbers, 1000)) > 0)
		for (unsigned i = 0; i < n; i++, listed++)
			assert_non_null(
				bsearch(&numbers[i], all, count, sizeof(*all), compare_wide));
	assert_int_equal(listed, count);
	fth_distinct_clear(&d);
	at = 0;
	assert_int_equal(fth_distinct_next(&d, &at, numbers, 1000), 0);
	fth_distinct_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_set_knows_members_and_ranks),
		cmocka_unit_test(packed_values_are_those_put_there),
		cmocka_unit_test(a_map_finds_its_keys_and_payload),
		cmocka_unit_test(a_map_refuses_what_it_was_not_made_for),
		cmocka_unit_test(the_choice_follows_count_range_and_memory),
		cmocka_unit_test(threads_build_a_map_together),
		cmocka_unit_test(threads_build_a_multimap_together),
		cmocka_unit_test(composite_keys_come_apart_again),
		cmocka_unit_test(groups_are_numbered_as_they_come),
		cmocka_unit_test(groups_report_what_did_not_fit),
		cmocka_unit_test(groups_become_direct),
		cmocka_unit_test(every_failing_charge_leaves_a_good_table),
		cmocka_unit_test(a_set_tells_which_numbers_are_new),
		cmocka_unit_test(runs_go_on_over_batches),
	};
	return cmocka_run_group_tests(tests, open_mem, close_mem);
}
