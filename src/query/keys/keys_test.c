/* SPDX-License-Identifier: BSD-2-Clause */
/* Key sets, composite keys, tables of groups and sets of numbers against simple models. */
#include "fth_test.h"

#include "query/keys/distinct.h"
#include "query/keys/group_table.h"
#include "query/keys/key_bitmap.h"

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
		uint64_t rows[16], hits[16], again[16] = {0}, outside = 0;
		bool *model = calloc(span, 1);
		int64_t keys[1000];
		uint32_t ranks[1000];
		struct key_bitmap s;

		assert_ok(key_bitmap_init(&s, mem, min, max));
		for (unsigned i = 0; i < n; i++)
			keys[i] = min + (int64_t)fth_rng_below(&rng, span);
		random_rows(&rng, n, rows);
		key_bitmap_add(&s, keys, n, rows, &outside, again);
		for (unsigned i = 0; i < n; i++) {
			if (!fth_bit(rows, i))
				continue;
			assert_int_equal(fth_bit(again, i), model[keys[i] - min]);
			model[keys[i] - min] = true;
		}
		assert_int_equal(outside, 0);
		assert_ok(key_bitmap_seal(&s));
		assert_true(fth_qmem_used(mem) <= key_bitmap_bound(min, max, true));
		for (unsigned i = 0; i < span; i++) {
			assert_int_equal(key_bitmap_has(&s, min + i), model[i]);
			assert_int_equal(key_bitmap_rank(&s, min + i), rank);
			rank += model[i];
		}
		assert_int_equal(s.count, rank);
		assert_int_equal(key_bitmap_count(&s), rank);
		if (min > INT64_MIN)
			assert_false(key_bitmap_has(&s, min - 1));
		if (max < INT64_MAX)
			assert_false(key_bitmap_has(&s, max + 1));
		for (unsigned i = 0; i < n; i += 3)
			keys[i] = (int64_t)fth_rng_next(&rng);
		random_rows(&rng, n, rows);
		key_bitmap_probe(&s, keys, n, rows, hits);
		key_bitmap_ranks(&s, keys, n, hits, ranks);
		for (unsigned i = 0; i < n; i++) {
			bool in = keys[i] >= min && keys[i] <= max && model[keys[i] - min];

			assert_int_equal(fth_bit(hits, i), in && fth_bit(rows, i));
			if (fth_bit(hits, i))
				assert_int_equal(ranks[i], key_bitmap_rank(&s, keys[i]));
		}
		key_bitmap_release(&s);
		free(model);
	}
	assert_true(key_bitmap_bound(INT64_MIN, INT64_MAX, true) == UINT64_MAX);
}

#define THREADS 4u
#define SHARE	4000u

struct adder {
	struct key_bitmap *set;
	unsigned thread;
};

/* Every second number of the range, each by two threads. */
static int64_t number_of(unsigned thread, unsigned i)
{
	return -5 + 2 * (int64_t)(i * (THREADS / 2) + thread % (THREADS / 2));
}

static void *add_share(void *arg)
{
	struct adder *a = arg;
	uint64_t rows[8], outside = 0;
	int64_t keys[500];

	fth_bits_fill(rows, 500);
	for (unsigned first = 0; first < SHARE; first += 500) {
		for (unsigned i = 0; i < 500; i++)
			keys[i] = number_of(a->thread, first + i);
		key_bitmap_add(a->set, keys, 500, rows, &outside, NULL);
	}
	assert_int_equal(outside, 0);
	return NULL;
}

static void threads_fill_a_key_set_together(void **state)
{
	int64_t last = number_of(THREADS / 2 - 1, SHARE - 1);
	struct adder adders[THREADS];
	pthread_t threads[THREADS];
	struct key_bitmap s;
	uint32_t rank = 0;

	(void)state;
	assert_ok(key_bitmap_init(&s, mem, -5, last));
	for (unsigned t = 0; t < THREADS; t++) {
		adders[t] = (struct adder){&s, t};
		assert_int_equal(pthread_create(&threads[t], NULL, add_share, &adders[t]), 0);
	}
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	assert_ok(key_bitmap_seal(&s));
	assert_int_equal(s.count, THREADS / 2 * SHARE);
	for (int64_t key = -5; key <= last; key++) {
		assert_int_equal(key_bitmap_has(&s, key), (key + 5) % 2 == 0);
		assert_int_equal(key_bitmap_rank(&s, key), rank);
		rank += key_bitmap_has(&s, key);
	}
	key_bitmap_release(&s);
}

/* ---- composite keys and groups ---- */

static void composite_keys_come_apart_again(void **state)
{
	static const int64_t spans[][3] = {{3, 100, 1000000},
					   {1, 1, 1},
					   {1 << 20, INT64_MAX / 2, 10},
					   {INT64_MAX / 2, INT64_MAX / 2, INT64_MAX / 2}};
	static const enum composite_key_form forms[] = {FTH_KEY_64, FTH_KEY_64, FTH_KEY_128,
							FTH_KEY_BYTES};
	struct fth_rng rng = {4};

	(void)state;
	for (unsigned round = 0; round < 4; round++) {
		struct composite_key_column columns[3] = {{0}};
		struct composite_key k;
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
		assert_ok(composite_key_init(&k, columns, 3));
		assert_int_equal(k.form, forms[round]);
		if (k.form == FTH_KEY_64)
			assert_ok(composite_key_pack64(&k, vecs, 200, rows, packed));
		else if (k.form == FTH_KEY_128)
			assert_ok(composite_key_pack128(&k, vecs, 200, rows, wide));
		else
			assert_ok(composite_key_encode(&k, vecs, 200, rows, &arena, bytes));
		for (unsigned i = 0; i < 200; i++)
			for (unsigned c = 0; c < 3; c++) {
				fth_i128 value = 0;
				struct fth_str text;
				bool there =
					k.form == FTH_KEY_BYTES
						? composite_key_decode(&k, bytes[i], c, &value,
								       &text)
						: composite_key_int(&k,
								    k.form == FTH_KEY_64 ? packed[i]
											 : wide[i],
								    c, &value);

				assert_int_equal(there, !(c == 1 && fth_bit(nulls, i)));
				assert_true(!there || value == data[c][i]);
			}
		data[0][7] = (int64_t)columns[0].max + 1;
		if (k.form == FTH_KEY_64)
			assert_int_equal(composite_key_pack64(&k, vecs, 200, rows, packed),
					 -ERANGE);
		fth_arena_release(&arena);
	}
}

/* Numbers in the order of first appearance, and found again. */
static void check_groups(const struct composite_key *k, const void *keys, const unsigned *number,
			 unsigned n, unsigned distinct)
{
	uint64_t rows[FTH_BATCH_WORDS], left[FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH], of_number[FTH_BATCH];
	struct group_table g;

	memset(of_number, 0xff, sizeof(of_number));
	assert_ok(group_table_init(&g, mem, k));
	fth_bits_fill(rows, n);
	for (unsigned pass = 0; pass < 2; pass++) {
		assert_ok(group_table_find(&g, keys, n, rows, groups, left));
		assert_int_equal(g.count, distinct);
		for (unsigned i = 0; i < n; i++) {
			if (of_number[number[i]] == UINT32_MAX)
				of_number[number[i]] = groups[i];
			assert_int_equal(groups[i], of_number[number[i]]);
		}
	}
	if (k->form == FTH_KEY_64)
		for (unsigned i = 0; i < n; i++)
			assert_true(group_table_key(&g, groups[i]) == ((const uint64_t *)keys)[i]);
	group_table_release(&g);
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
		struct composite_key direct = {.form = FTH_KEY_64, .bits = 12},
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
	struct composite_key k64 = {.form = FTH_KEY_64, .bits = 64};
	static uint64_t keys[FTH_BATCH], rows[FTH_BATCH_WORDS], left[FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH];
	struct group_table g;

	(void)state;
	for (unsigned i = 0; i < FTH_BATCH; i++)
		keys[i] = i;
	fth_bits_fill(rows, FTH_BATCH);
	assert_ok(group_table_init(&g, small, &k64));
	assert_int_equal(group_table_find(&g, keys, FTH_BATCH, rows, groups, left), -ENOMEM);
	assert_true(g.count >= 256 && g.count < FTH_BATCH);
	assert_true(fth_qmem_used(small) <= 16384);
	assert_int_equal(fth_bits_count(left, FTH_BATCH), FTH_BATCH - g.count);
	for (unsigned i = 0; i < FTH_BATCH; i++)
		if (!fth_bit(left, i))
			assert_int_equal(groups[i], i);
	group_table_release(&g);
	assert_int_equal(fth_qmem_close(small), 0);
}

/* A hash table of a small domain becomes direct when that is hardly larger: numbers stay. */
static void groups_become_direct(void **state)
{
	struct composite_key key = {.form = FTH_KEY_64, .bits = 17};
	static uint64_t keys[FTH_BATCH], rows[FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH];
	struct group_table g, other;
	bool reserved = false;

	(void)state;
	fth_bits_fill(rows, FTH_BATCH);
	do {
		assert_ok(group_table_init(&g, mem, &key));
		assert_false(g.direct);
		for (unsigned batch = 0; batch < 16; batch++) {
			for (unsigned i = 0; i < FTH_BATCH; i++)
				keys[i] = (batch * FTH_BATCH + i) * 48271u % (1u << 17);
			if (reserved)
				assert_ok(group_table_reserve(&g, FTH_BATCH));
			assert_ok(group_table_find(&g, keys, FTH_BATCH, rows, groups, NULL));
			for (unsigned i = 0; i < FTH_BATCH; i++)
				assert_int_equal(groups[i], batch * FTH_BATCH + i);
		}
		assert_true(g.direct);
		assert_ok(group_table_init_hashed(&other, mem, &key));
		for (unsigned batch = 0; batch < 16; batch++) {
			assert_ok(group_table_reserve_append(&other, FTH_BATCH));
			group_table_append(&other, (uint64_t *)g.keys + batch * FTH_BATCH,
					   FTH_BATCH);
		}
		assert_ok(group_table_enter(&other));
		assert_false(other.direct);
		assert_ok(group_table_find(&other, keys, FTH_BATCH, rows, groups, NULL));
		assert_int_equal(groups[7], 15 * FTH_BATCH + 7);
		group_table_clear(&g);
		assert_ok(group_table_find(&g, keys + 5, 1, rows, groups, NULL));
		assert_int_equal(groups[0], 0);
		group_table_release(&g);
		group_table_release(&other);
		reserved = !reserved;
	} while (reserved);
}

static void every_failing_charge_leaves_a_good_table(void **state)
{
	struct composite_key bytes = {.form = FTH_KEY_BYTES};
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
		struct group_table g;
		int rc;

		fth_qmem_fail_nth(mem, n);
		rc = group_table_init(&g, mem, &bytes);
		if (rc == 0) {
			rc = group_table_find(&g, text, 2000, rows, groups, left);
			done = fth_qmem_fail_pending(mem);
			fth_qmem_fail_nth(mem, 0);
			assert_ok(group_table_find(&g, text, 2000, rows, groups, left));
			for (unsigned i = 0; i < 2000; i++)
				assert_true(fth_str_of(texts[i]).len ==
					    group_table_bytes(&g, groups[i]).len);
			assert_int_equal(g.count, 2000);
			group_table_release(&g);
		}
		assert_int_equal(fth_qmem_used(mem), 0);
	}
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
	struct distinct_set d;
	unsigned bits = 9, count = 0, listed = 0, n;

	(void)state;
	assert_ok(distinct_set_init(&d, mem, bits));
	for (unsigned round = 0; round < 40; round++, bits += 3) {
		for (unsigned i = 0; i < FTH_BATCH; i++) {
			fth_u128 x = (fth_u128)fth_rng_next(&rng) << 64 | fth_rng_next(&rng);

			numbers[i] = x & (((fth_u128)1 << bits) - 1);
			numbers[i] = i == 7 ? 0 : i == 9 ? ((fth_u128)1 << bits) - 1 : numbers[i];
		}
		random_rows(&rng, FTH_BATCH, rows);
		assert_ok(distinct_set_reserve(&d, bits, FTH_BATCH));
		distinct_set_add(&d, numbers, FTH_BATCH, rows, fresh);
		for (unsigned i = 0; i < FTH_BATCH; i++) {
			bool known = count > 0 &&
				     bsearch(&numbers[i], all, listed, sizeof(*all), compare_wide);

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
	while ((n = distinct_set_next(&d, &at, numbers, 1000)) > 0)
		for (unsigned i = 0; i < n; i++, listed++)
			assert_non_null(
				bsearch(&numbers[i], all, count, sizeof(*all), compare_wide));
	assert_int_equal(listed, count);
	distinct_set_clear(&d);
	at = 0;
	assert_int_equal(distinct_set_next(&d, &at, numbers, 1000), 0);
	distinct_set_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_set_knows_members_and_ranks),
		cmocka_unit_test(threads_fill_a_key_set_together),
		cmocka_unit_test(composite_keys_come_apart_again),
		cmocka_unit_test(groups_are_numbered_as_they_come),
		cmocka_unit_test(groups_report_what_did_not_fit),
		cmocka_unit_test(groups_become_direct),
		cmocka_unit_test(every_failing_charge_leaves_a_good_table),
		cmocka_unit_test(a_set_tells_which_numbers_are_new),
	};
	return cmocka_run_group_tests(tests, open_mem, close_mem);
}
