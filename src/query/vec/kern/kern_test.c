/* SPDX-License-Identifier: BSD-2-Clause */
/* Every kernel of every set against one line of plain C, on random, extreme and short vectors. */
#include "fth_test.h"

#include "query/vec/kern/kern.h"

#include "fathom/base/rng.h"

#include <stdlib.h>

static const unsigned lengths[] = {0, 1, 3, 63, 64, 65, 127, 200, 1000, 4095, 4096};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static _Alignas(64) unsigned char in_a[FTH_BATCH * 16], in_b[FTH_BATCH * 16], out[FTH_BATCH * 16];
static uint64_t mask[FTH_BATCH_WORDS], bits[FTH_BATCH_WORDS + 1];

static int64_t get(const void *p, unsigned type, unsigned i)
{
	struct fth_vec v = {.type = type, .data = p};

	return (int64_t)fth_vec_int(&v, i);
}

static void put(void *p, unsigned type, unsigned i, int64_t x)
{
	memcpy((char *)p + (i << type), &x, (size_t)1 << type);
}

static int64_t truncated(unsigned type, uint64_t x)
{
	unsigned shift = 64 - (8u << type);

	return (int64_t)(x << shift) >> shift;
}

static int64_t random_value(struct fth_rng *rng, unsigned type)
{
	static const int64_t extreme[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, 0,
					  -1,	     1,		INT32_MAX,     INT32_MIN,
					  INT16_MAX, INT16_MIN, 127,	       -128};

	switch (fth_rng_below(rng, 4)) {
	case 0:
		return truncated(type, (uint64_t)extreme[fth_rng_below(rng, 12)]);
	case 1:
		return truncated(type, fth_rng_next(rng));
	default:
		return (int64_t)fth_rng_below(rng, 7) - 3;
	}
}

static void fill(struct fth_rng *rng, unsigned type, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		put(in_a, type, i, random_value(rng, type));
		put(in_b, type, i, random_value(rng, type));
	}
	memset(mask, 0, sizeof(mask));
	for (unsigned i = 0; i < n; i++)
		if (fth_rng_below(rng, 8) < (i / 256 % 3) * 4)
			fth_bit_set(mask, i);
}

static bool compare(unsigned op, int64_t a, int64_t b)
{
	return op == FTH_KERN_EQ ? a == b : op == FTH_KERN_LT ? a < b : a > b;
}

static void no_bits_beyond(unsigned n)
{
	if (n % 64)
		assert_true(bits[n / 64] >> n % 64 == 0);
}

static void check_compare(const struct fth_kern *k, struct fth_rng *rng, unsigned t, unsigned n)
{
	int64_t c = random_value(rng, t), hi = random_value(rng, t);

	for (unsigned op = 0; op < FTH_KERN_CMPS; op++)
		for (unsigned flip = 0; flip < 2; flip++) {
			k->cmp_const[t][op](bits, in_a, c, n, flip ? ~(uint64_t)0 : 0);
			for (unsigned i = 0; i < n; i++)
				assert_int_equal(fth_bit(bits, i),
						 compare(op, get(in_a, t, i), c) ^ flip);
			no_bits_beyond(n);
			k->cmp_vec[t][op](bits, in_a, in_b, n, flip ? ~(uint64_t)0 : 0);
			for (unsigned i = 0; i < n; i++)
				assert_int_equal(fth_bit(bits, i),
						 compare(op, get(in_a, t, i), get(in_b, t, i)) ^
							 flip);
			no_bits_beyond(n);
		}
	k->between[t](bits, in_a, c, hi, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(fth_bit(bits, i), get(in_a, t, i) >= c && get(in_a, t, i) <= hi);
	no_bits_beyond(n);
}

static uint64_t arith(unsigned op, int64_t a, int64_t b)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;

	return op == FTH_KERN_ADD ? x + y : op == FTH_KERN_SUB ? x - y : x * y;
}

static void check_arith(const struct fth_kern *k, struct fth_rng *rng, unsigned t, unsigned n)
{
	int64_t c = random_value(rng, t);

	for (unsigned op = 0; op < FTH_KERN_ARITHS; op++) {
		k->arith_vec[t][op](out, in_a, in_b, n);
		for (unsigned i = 0; i < n; i++)
			assert_true(get(out, t, i) ==
				    truncated(t, arith(op, get(in_a, t, i), get(in_b, t, i))));
		k->arith_const[t][op](out, in_a, c, n);
		for (unsigned i = 0; i < n; i++)
			assert_true(get(out, t, i) == truncated(t, arith(op, get(in_a, t, i), c)));
	}
	k->from_const[t](out, in_a, c, n);
	for (unsigned i = 0; i < n; i++)
		assert_true(get(out, t, i) ==
			    truncated(t, arith(FTH_KERN_SUB, c, get(in_a, t, i))));
	if (t == FTH_I64)
		return;
	k->mul_wide_vec[t](out, in_a, in_b, n);
	for (unsigned i = 0; i < n; i++)
		assert_true(get(out, t + 1, i) == get(in_a, t, i) * get(in_b, t, i));
	k->mul_wide_const[t](out, in_a, c, n);
	for (unsigned i = 0; i < n; i++)
		assert_true(get(out, t + 1, i) == get(in_a, t, i) * c);
}

static void check_moves(const struct fth_kern *k, struct fth_rng *rng, unsigned t, unsigned n)
{
	uint16_t rows[FTH_BATCH + 64];
	unsigned count = k->rows(mask, n, rows), at = 0;
	int64_t add = random_value(rng, FTH_I64);

	for (unsigned i = 0; i < n; i++)
		if (fth_bit(mask, i))
			assert_int_equal(rows[at++], i);
	assert_int_equal(at, count);
	k->gather[t](out, in_a, rows, count);
	for (unsigned i = 0; i < count; i++)
		assert_true(get(out, t, i) == get(in_a, t, rows[i]));
	k->blend[t](out, mask, in_a, in_b, n);
	for (unsigned i = 0; i < n; i++)
		assert_true(get(out, t, i) == get(fth_bit(mask, i) ? in_a : in_b, t, i));
	for (unsigned d = 0; d < FTH_KERN_TYPES; d++) {
		k->convert[d][t](out, in_a, add, n);
		for (unsigned i = 0; i < n; i++)
			assert_true(get(out, d, i) ==
				    truncated(d, (uint64_t)get(in_a, t, i) + (uint64_t)add));
	}
}

static void check_sums(const struct fth_kern *k, unsigned t, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++) {
		if (fth_bit(mask, i))
			sum += (uint64_t)get(in_a, t, i);
	}
	assert_true(k->sum[t](in_a, mask, n) == (int64_t)sum);
}

static void every_set_agrees_with_plain_c(void **state)
{
	const struct fth_kern *k;
	struct fth_rng rng = {1};

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned t = 0; t < FTH_KERN_TYPES; t++)
			for (unsigned l = 0; l < LENGTHS; l++) {
				fill(&rng, t, lengths[l]);
				check_compare(k, &rng, t, lengths[l]);
				check_arith(k, &rng, t, lengths[l]);
				check_moves(k, &rng, t, lengths[l]);
				check_sums(k, t, lengths[l]);
			}
}

static void extreme_sums_do_not_overflow(void **state)
{
	const struct fth_kern *k;

	(void)state;
	fth_bits_fill(mask, FTH_BATCH);
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned t = 0; t < FTH_I64; t++) {
			int64_t low = -((int64_t)1 << ((8 << t) - 1));

			for (unsigned i = 0; i < FTH_BATCH; i++)
				put(in_a, t, i, low);
			assert_true(k->sum[t](in_a, mask, FTH_BATCH) == low * FTH_BATCH);
			for (unsigned i = 0; i < FTH_BATCH; i++)
				put(in_a, t, i, -low - 1);
			assert_true(k->sum[t](in_a, mask, FTH_BATCH) == (-low - 1) * FTH_BATCH);
		}
}

static void wide_values_are_blended_and_gathered(void **state)
{
	const struct fth_kern *k;
	struct fth_rng rng = {3};
	const fth_i128 *a = (const void *)in_a, *b = (const void *)in_b, *o = (const void *)out;

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned l = 0; l < LENGTHS; l++) {
			uint16_t rows[FTH_BATCH + 64];
			unsigned n = lengths[l], count;

			for (unsigned i = 0; i < 4 * FTH_BATCH; i++) {
				put(in_a, FTH_I32, i, (int64_t)fth_rng_next(&rng));
				put(in_b, FTH_I32, i, (int64_t)fth_rng_next(&rng));
			}
			memset(mask, 0, sizeof(mask));
			for (unsigned i = 0; i < n; i += 1 + (unsigned)fth_rng_below(&rng, 4))
				fth_bit_set(mask, i);
			k->blend[4](out, mask, a, b, n);
			for (unsigned i = 0; i < n; i++)
				assert_true(o[i] == (fth_bit(mask, i) ? a[i] : b[i]));
			count = k->rows(mask, n, rows);
			k->gather[4](out, a, rows, count);
			for (unsigned i = 0; i < count; i++)
				assert_true(o[i] == a[rows[i]]);
		}
}

static void codes_are_tested_against_a_set(void **state)
{
	const struct fth_kern *k;
	struct fth_rng rng = {5};
	uint64_t set[40];

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned t = 0; t < 3; t++)
			for (unsigned l = 0; l < LENGTHS; l++) {
				unsigned n = lengths[l],
					 size = 1 + (unsigned)fth_rng_below(&rng, 2500);
				int64_t add = (int64_t)fth_rng_below(&rng, 300);

				for (unsigned i = 0; i < 40; i++)
					set[i] = fth_rng_next(&rng);
				fill(&rng, t, n);
				k->member[t](bits, in_a, add, set, size, n);
				for (unsigned i = 0; i < n; i++) {
					uint64_t code = (uint64_t)(get(in_a, t, i) + add);

					assert_int_equal(fth_bit(bits, i),
							 code < size &&
								 fth_bit(set, (unsigned)code));
				}
				no_bits_beyond(n);
			}
}

static void values_at_the_ends_of_their_type_are_tested_against_a_set(void **state)
{
	static const int32_t values[] = {INT32_MIN, INT32_MIN + 1, -1,	     0,
					 1,	    INT32_MAX - 1, INT32_MAX};
	static const int64_t adds[] = {0,
				       1,
				       -1,
				       INT32_MAX,
				       INT32_MIN,
				       (int64_t)1 << 31,
				       (int64_t)1 << 32,
				       -((int64_t)1 << 32),
				       INT64_MIN,
				       INT64_MAX};
	static const uint64_t set[] = {~(uint64_t)0, ~(uint64_t)0};
	const struct fth_kern *k;
	int32_t a[64];

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned d = 0; d < sizeof(adds) / sizeof(adds[0]); d++) {
			for (unsigned i = 0; i < 64; i++)
				a[i] = values[i % 7];
			k->member[FTH_I32](bits, a, adds[d], set, 100, 64);
			for (unsigned i = 0; i < 64; i++)
				assert_int_equal(fth_bit(bits, i),
						 (uint64_t)a[i] + (uint64_t)adds[d] < 100);
		}
}

static void hashes_are_tested_against_a_set(void **state)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	const struct fth_kern *k;
	struct fth_rng rng = {6};
	uint64_t set[16], keys[FTH_BATCH];

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		set[i] = fth_rng_next(&rng);
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned l = 0; l < LENGTHS; l++) {
			unsigned n = lengths[l];

			for (unsigned i = 0; i < n; i++)
				keys[i] = fth_rng_next(&rng);
			k->filter(bits, keys, factor, 54, set, n);
			for (unsigned i = 0; i < n; i++)
				assert_int_equal(fth_bit(bits, i),
						 fth_bit(set, (unsigned)(keys[i] * factor >> 54)));
			no_bits_beyond(n);
		}
}

static void a_needle_is_found_where_memmem_finds_it(void **state)
{
	const struct fth_kern *k;
	struct fth_rng rng = {7};

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned round = 0; round < 3000; round++) {
			size_t len = fth_rng_below(&rng, 300), m = 1 + fth_rng_below(&rng, 6);
			char *hay = malloc(len + 1), needle[8];

			for (size_t i = 0; i < len; i++)
				hay[i] = (char)('a' + fth_rng_below(&rng, 3));
			for (size_t i = 0; i < m; i++)
				needle[i] = (char)('a' + fth_rng_below(&rng, 3));
			assert_ptr_equal(k->find(hay, hay + len, needle, m),
					 memmem(hay, len, needle, m));
			free(hay);
		}
}

/* Day by day, with the calendar's own rules. */
static void dates_become_years_months_and_days(void **state)
{
	static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	const struct fth_kern *k;

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++) {
		int y = 1, m = 1, d = 1;

		for (int32_t day = -719162; day < 200000; day += 1000) {
			int32_t days[1000], year[1000], month[1000], dom[1000];

			for (int i = 0; i < 1000; i++)
				days[i] = day + i;
			k->civil(days, 1000, year, month, dom);
			for (int i = 0; i < 1000; i++) {
				bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

				assert_true(year[i] == y && month[i] == m && dom[i] == d);
				if (++d > month_days[m - 1] + (m == 2 && leap)) {
					d = 1;
					if (++m > 12) {
						m = 1;
						y++;
					}
				}
			}
		}
		k->civil((int32_t[]){0}, 1, NULL, NULL, NULL);
	}
}

static void groups_are_split_into_masks(void **state)
{
	static uint64_t masks[8 * FTH_BATCH_WORDS];
	static uint32_t groups[FTH_BATCH];
	const struct fth_kern *k;
	struct fth_rng rng = {9};

	(void)state;
	for (unsigned s = 0; (k = fth_kern_at(s)); s++)
		for (unsigned l = 0; l < LENGTHS; l++) {
			unsigned n = lengths[l];

			fill(&rng, FTH_I8, n);
			for (unsigned i = 0; i < n; i++)
				groups[i] = (uint32_t)fth_rng_below(&rng, 7);
			k->group_masks(groups, mask, n, 7, masks);
			for (unsigned i = 0; i < n; i++)
				for (unsigned g = 0; g < 7; g++)
					assert_int_equal(fth_bit(masks + g * FTH_BATCH_WORDS, i),
							 fth_bit(mask, i) && groups[i] == g);
		}
}

static void selections_follow_their_bits(void **state)
{
	struct fth_sel *s = malloc(sizeof(*s));
	struct fth_rng rng = {11};

	(void)state;
	for (unsigned l = 0; l < LENGTHS; l++) {
		uint64_t a[FTH_BATCH_WORDS], b[FTH_BATCH_WORDS], back[FTH_BATCH_WORDS];
		const uint16_t *rows;
		unsigned count = 0, n = lengths[l];

		for (unsigned i = 0; i < FTH_BATCH_WORDS; i++) {
			a[i] = fth_rng_next(&rng);
			b[i] = fth_rng_next(&rng);
		}
		fth_sel_all(s, n);
		assert_int_equal(s->count, n);
		fth_sel_and(s, a);
		fth_sel_and_not(s, b);
		rows = fth_sel_rows(s);
		for (unsigned i = 0; i < n; i++)
			if (fth_bit(a, i) && !fth_bit(b, i))
				assert_int_equal(rows[count++], i);
		assert_int_equal(count, s->count);
		assert_int_equal(count, fth_bits_count(s->bits, n));
		memset(back, 0, sizeof(back));
		for (unsigned i = 0; i < count; i++)
			fth_bit_set(back, rows[i]);
		assert_memory_equal(back, s->bits, fth_bits_words(n) * 8);
		fth_bits_gather(back, a, rows, count);
		for (unsigned i = 0; i < count; i++)
			assert_true(fth_bit(back, i));
	}
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_set_agrees_with_plain_c),
		cmocka_unit_test(extreme_sums_do_not_overflow),
		cmocka_unit_test(wide_values_are_blended_and_gathered),
		cmocka_unit_test(codes_are_tested_against_a_set),
		cmocka_unit_test(values_at_the_ends_of_their_type_are_tested_against_a_set),
		cmocka_unit_test(hashes_are_tested_against_a_set),
		cmocka_unit_test(a_needle_is_found_where_memmem_finds_it),
		cmocka_unit_test(dates_become_years_months_and_days),
		cmocka_unit_test(groups_are_split_into_masks),
		cmocka_unit_test(selections_follow_their_bits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
