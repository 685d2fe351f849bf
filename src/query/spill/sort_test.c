/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorting, top-k and spill files against simple models; with little memory, failing devices and
 * full ones.
 */
#include "fth_test.h"

#include "query/spill/sort.h"
#include "scalar/text.h"

#include "fathom/base/rng.h"
#include "fathom/dev/fault.h"

#include <errno.h>
#include <math.h>
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

/* ---- keys ---- */

static int encode_pair(const struct sort_column *c, const struct fth_vec *v)
{
	uint8_t bytes[2][200], *at[2] = {bytes[0], bytes[1]};
	size_t room[2] = {200, 200}, len[2];
	int rc;

	for (unsigned i = 0; i < 2; i++) {
		assert_ok(sort_encode(c, v, i, &at[i], &room[i]));
		len[i] = (size_t)(at[i] - bytes[i]);
	}
	rc = memcmp(bytes[0], bytes[1], len[0] < len[1] ? len[0] : len[1]);
	return rc ? rc : (len[0] > len[1]) - (len[0] < len[1]);
}

static int sign(int x)
{
	return (x > 0) - (x < 0);
}

static void normalised_keys_are_in_the_order_of_values(void **state)
{
	static const double doubles[] = {-INFINITY, -1e300, -1, -0.0, 0, 1e-300, 5, INFINITY, NAN};
	struct fth_rng rng = {1};

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		struct sort_column c = {.descending = round % 2};
		int32_t x[2] = {(int32_t)fth_rng_next(&rng), (int32_t)fth_rng_next(&rng)};
		fth_i128 w[2] = {(fth_i128)x[0] * x[1] * x[1], (fth_i128)x[1] * 12345678901234567};
		unsigned d0 = (unsigned)fth_rng_below(&rng, 9),
			 d1 = (unsigned)fth_rng_below(&rng, 9);
		double f[2] = {doubles[d0], doubles[d1]};
		char text[2][6];
		struct fth_str s[2];
		struct fth_vec v = {.type = FTH_I32, .data = x};
		int flip = c.descending ? -1 : 1;

		x[1] = round % 5 ? x[1] : x[0];
		assert_int_equal(sign(encode_pair(&c, &v)), flip * ((x[0] > x[1]) - (x[0] < x[1])));
		v = (struct fth_vec){.type = FTH_I128, .data = w};
		assert_int_equal(sign(encode_pair(&c, &v)), flip * ((w[0] > w[1]) - (w[0] < w[1])));
		for (unsigned i = 0; i < 2; i++) {
			s[i] = (struct fth_str){text[i], (uint32_t)fth_rng_below(&rng, 6), 0};
			for (unsigned j = 0; j < s[i].len; j++)
				text[i][j] = (char)(fth_rng_below(&rng, 3) * 127);
		}
		c.text = true;
		v = (struct fth_vec){.type = FTH_STR, .data = s};
		assert_int_equal(sign(encode_pair(&c, &v)), flip * sign(fth_str_cmp(s[0], s[1])));
		c.text = false;
		c.is_double = true;
		v = (struct fth_vec){.type = FTH_F64, .data = f};
		d0 = d0 == 3 ? 4 : d0; /* -0 = 0 */
		d1 = d1 == 3 ? 4 : d1;
		assert_int_equal(sign(encode_pair(&c, &v)), flip * ((d0 > d1) - (d0 < d1)));
	}
}

static void nulls_are_first_or_last(void **state)
{
	uint64_t second = 2;
	int8_t x[2] = {-128, 5};
	struct fth_vec v = {.type = FTH_I8, .data = x, .nulls = &second};
	uint8_t tiny[4], *at = tiny;
	size_t room = 4;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct sort_column c = {.descending = i & 1, .nulls_first = i & 2};

		assert_int_equal(sign(encode_pair(&c, &v)), c.nulls_first ? 1 : -1);
		assert_int_equal(sort_encode(&c, &v, 0, &at, &room), -ENOBUFS);
		at = tiny;
		room = 4;
	}
}

/* ---- sorting ---- */

#define RECORDS 20000u

/* Key: 4 random bytes and sometimes more; payload: the key again and a number, to be checked. */
static int add_records(struct sort *s, unsigned n)
{
	struct fth_rng rng = {7};

	for (unsigned i = 0; i < n; i++) {
		uint8_t key[20];
		uint32_t len = 4 + (uint32_t)fth_rng_below(&rng, 16), payload[2];
		int rc;

		for (unsigned j = 0; j < len; j++)
			key[j] = (uint8_t)(fth_rng_below(&rng, i % 2 ? 256 : 3));
		payload[0] = i;
		payload[1] = key[0] + key[len - 1] * 256u;
		rc = sort_add(s, key, len, payload, sizeof(payload));
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int check_order(struct sort *s, unsigned n)
{
	uint8_t last[20] = {0};
	bool *seen = calloc(n, 1);
	struct sort_record r;
	uint32_t last_len = 0, payload[2];
	unsigned count = 0;
	int rc;

	while ((rc = sort_next(s, &r)) > 0) {
		int order = memcmp(last, r.key, last_len < r.key_len ? last_len : r.key_len);

		assert_true(order < 0 || (order == 0 && last_len <= r.key_len));
		assert_int_equal(r.payload_len, sizeof(payload));
		memcpy(payload, r.payload, sizeof(payload));
		assert_true(payload[0] < n && !seen[payload[0]]);
		seen[payload[0]] = true;
		assert_int_equal(payload[1], r.key[0] + r.key[r.key_len - 1] * 256u);
		memcpy(last, r.key, r.key_len);
		last_len = r.key_len;
		count++;
	}
	free(seen);
	if (rc == 0)
		assert_int_equal(count, n);
	return rc;
}

static int sort_all(struct fth_qmem *m, struct spill_file *spill, unsigned n)
{
	struct sort s;
	int rc;

	sort_init(&s, m, spill);
	rc = add_records(&s, n);
	if (rc == 0)
		rc = sort_finish(&s);
	if (rc == 0)
		rc = check_order(&s, n);
	sort_release(&s);
	return rc;
}

static void records_come_out_in_order(void **state)
{
	static const unsigned counts[] = {0, 1, 2, 24, 25, 26, 1000, RECORDS};

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		assert_ok(sort_all(mem, NULL, counts[i]));
}

static void a_sort_without_memory_spills(void **state)
{
	struct fth_dev *dev;
	static const unsigned kib[] = {900, 750, 600};

	(void)state;
	assert_ok(fth_dev_open("mem:64M", &dev));
	for (unsigned i = 0; i < 3; i++) {
		struct fth_qmem *small = fth_qmem_child(mem, "sort", kib[i] * 1024);
		struct spill_file *spill;

		assert_ok(spill_file_open(small, dev, FTH_SPILL_BLOCK, &spill));
		assert_int_equal(sort_all(small, NULL, RECORDS), -ENOMEM);
		assert_ok(sort_all(small, spill, RECORDS));
		assert_true(spill_file_written(spill) > 0);
		assert_int_equal(spill_file_blocks(spill), 0);
		assert_true(fth_qmem_peak(small) <= kib[i] * 1024);
		spill_file_close(spill);
		assert_int_equal(fth_qmem_close(small), 0);
	}
	fth_dev_close(dev);
}

/* Each write and read fails once: a clean error, every block and every byte given back. */
static void device_faults_are_clean_errors(void **state)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_dev_fault_counts counts;
	struct fth_dev *dev;
	bool done = false;

	(void)state;
	assert_ok(fth_dev_open("fault(mem:64M)", &dev));
	plan.kinds = 1u << FTH_DEV_READ | 1u << FTH_DEV_WRITE;
	for (unsigned n = 1; !done; n++) {
		struct fth_qmem *small = fth_qmem_child(mem, "sort", 700 * 1024);
		struct spill_file *spill;
		int rc;

		plan.nth = n;
		assert_ok(spill_file_open(small, dev, FTH_SPILL_BLOCK, &spill));
		assert_ok(fth_dev_fault_set(dev, &plan));
		rc = sort_all(small, spill, RECORDS);
		assert_ok(fth_dev_fault_counts(dev, &counts));
		done = counts.injected == 0;
		assert_int_equal(rc, done ? 0 : -EIO);
		assert_int_equal(spill_file_blocks(spill), 0);
		spill_file_close(spill);
		assert_int_equal(fth_qmem_close(small), 0);
	}
	fth_dev_close(dev);
}

static void allocations_that_fail_leave_nothing(void **state)
{
	struct fth_dev *dev;
	bool done = false;

	(void)state;
	assert_ok(fth_dev_open("mem:64M", &dev));
	for (unsigned n = 1; !done; n++) {
		struct fth_qmem *small = fth_qmem_child(mem, "sort", 700 * 1024);
		struct spill_file *spill;
		int rc;

		fth_qmem_fail_nth(mem, n);
		rc = spill_file_open(small, dev, FTH_SPILL_BLOCK, &spill);
		if (rc == 0) {
			rc = sort_all(small, spill, RECORDS / 2);
			assert_int_equal(spill_file_blocks(spill), 0);
		}
		done = fth_qmem_fail_pending(mem);
		fth_qmem_fail_nth(mem, 0);
		assert_true(rc == 0 || (!done && rc == -ENOMEM));
		spill_file_close(spill);
		assert_int_equal(fth_qmem_close(small), 0);
	}
	fth_dev_close(dev);
}

static void a_full_device_is_a_clean_error(void **state)
{
	struct fth_qmem *small = fth_qmem_child(mem, "sort", 700 * 1024);
	struct spill_file *spill;

	(void)state;
	assert_ok(spill_file_open_folder(small, getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
					 300 << 10, &spill));
	assert_int_equal(sort_all(small, spill, RECORDS), -ENOSPC);
	assert_string_equal(fth_error_text(-ENOSPC),
			    "spill: all 303104 bytes of scratch space are in use");
	assert_int_equal(spill_file_blocks(spill), 0);
	spill_file_close(spill);
	assert_int_equal(spill_file_open_folder(small, "/nonexistent", 1 << 20, &spill), -ENOENT);
	assert_int_equal(fth_qmem_close(small), 0);
}

/* ---- streams ---- */

static void a_changed_block_is_noticed(void **state)
{
	struct fth_dev *dev;
	struct spill_file *spill;
	struct spill_stream *s;
	struct spill_reader *r;
	static char block[FTH_SPILL_BLOCK];
	const void *record;
	uint32_t size;

	(void)state;
	assert_ok(fth_dev_open("mem:1M", &dev));
	assert_ok(spill_file_open(mem, dev, FTH_SPILL_BLOCK, &spill));
	assert_ok(spill_stream_open(spill, &s));
	for (unsigned i = 0; i < 100000; i++)
		assert_ok(spill_stream_append(s, &i, sizeof(i)));
	assert_ok(spill_stream_finish(s));
	for (unsigned pass = 0; pass < 2; pass++) {
		unsigned i = 0;

		assert_ok(spill_reader_open(s, &r));
		while (spill_reader_next(r, &record, &size) > 0) {
			assert_int_equal(size, sizeof(i));
			assert_memory_equal(record, &i, sizeof(i));
			i++;
		}
		assert_int_equal(i, 100000);
		spill_reader_close(r);
	}
	/* The second block over the first: a good block in the wrong place. */
	assert_ok(fth_dev_read(dev, block, FTH_SPILL_BLOCK, FTH_SPILL_BLOCK, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(dev, block, FTH_SPILL_BLOCK, 0, FTH_DEV_TIMEOUT));
	assert_ok(spill_reader_open(s, &r));
	assert_int_equal(spill_reader_next(r, &record, &size), -EILSEQ);
	spill_reader_close(r);
	spill_stream_drop(s);
	assert_ok(spill_stream_open(spill, &s));
	assert_int_equal(spill_stream_append(s, block, FTH_SPILL_RECORD + 1), -EMSGSIZE);
	spill_stream_drop(s);
	spill_stream_drop(NULL);
	spill_reader_close(NULL);
	spill_file_close(spill);
	spill_file_close(NULL);
	fth_dev_close(dev);
}

/* Records of all lengths around that of a block, which lie in up to four of them. */
static void records_may_be_longer_than_a_block(void **state)
{
	static char text[4 * FTH_SPILL_BLOCK_MIN];
	struct fth_dev *dev;
	struct spill_file *spill;
	struct spill_stream *s;
	struct spill_reader *r;
	const void *record;
	uint32_t size;

	(void)state;
	assert_ok(fth_dev_open("mem:16M", &dev));
	assert_ok(spill_file_open(mem, dev, FTH_SPILL_BLOCK_MIN, &spill));
	assert_int_equal(spill_file_block(spill), FTH_SPILL_BLOCK_MIN);
	assert_ok(spill_stream_open(spill, &s));
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7 + i / 251);
	for (uint32_t i = 0; i < 600; i++)
		assert_ok(spill_stream_append(s, text + i, i * i % (sizeof(text) - 600)));
	assert_ok(spill_stream_finish(s));
	assert_ok(spill_reader_open(s, &r));
	for (uint32_t i = 0; i < 600; i++) {
		assert_int_equal(spill_reader_next(r, &record, &size), 1);
		assert_int_equal(size, i * i % (sizeof(text) - 600));
		assert_memory_equal(record, text + i, size);
	}
	assert_int_equal(spill_reader_next(r, &record, &size), 0);
	spill_reader_close(r);
	spill_stream_drop(s);
	assert_int_equal(spill_file_blocks(spill), 0);
	spill_file_close(spill);
	fth_dev_close(dev);
}

/* ---- top-k ---- */

static int compare_i32(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static void check_topk(struct fth_rng *rng, unsigned k, bool descending)
{
	struct sort_column column = {.descending = descending};
	static int32_t all[5 * 1000], batch[1000];
	struct fth_sel *sel = malloc(sizeof(*sel));
	struct sort_record r;
	struct topk t;
	unsigned dropped = 0;

	assert_ok(topk_init(&t, mem, k));
	for (unsigned b = 0; b < 5; b++) {
		struct fth_vec v = {.type = FTH_I32, .data = batch, .base = 1000};

		for (unsigned i = 0; i < 1000; i++) {
			batch[i] = (int32_t)fth_rng_below(rng, 3000) - 1500;
			all[b * 1000 + i] = batch[i] + 1000;
		}
		fth_sel_all(sel, 1000);
		topk_filter(&t, &column, &v, sel);
		dropped += 1000 - sel->count;
		for (unsigned i = 0; i < 1000; i++) {
			uint8_t key[16], *at = key;
			size_t room = sizeof(key);
			fth_i128 first = fth_vec_int(&v, i);
			int32_t payload = (int32_t)first;

			if (!fth_bit(sel->bits, i))
				continue;
			assert_ok(sort_encode(&column, &v, i, &at, &room));
			assert_ok(topk_add(&t, key, (uint32_t)(at - key), &payload, 4, &first));
		}
	}
	assert_true(k == 0 || k > 3000 || dropped > 0);
	assert_true(fth_qmem_used(mem) <= topk_bound(k, 16));
	qsort(all, 5000, sizeof(all[0]), compare_i32);
	topk_finish(&t);
	for (unsigned i = 0; i < k && i < 5000; i++) {
		int32_t got;

		assert_int_equal(topk_next(&t, &r), 1);
		memcpy(&got, r.payload, 4);
		assert_int_equal(got, all[descending ? 4999 - i : i]);
	}
	assert_int_equal(topk_next(&t, &r), 0);
	topk_release(&t);
	free(sel);
}

static void the_first_k_are_kept(void **state)
{
	static const unsigned ks[] = {0, 1, 10, 100, 4999, 6000};
	struct fth_rng rng = {3};

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		check_topk(&rng, ks[i], false);
		check_topk(&rng, ks[i], true);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(normalised_keys_are_in_the_order_of_values),
		cmocka_unit_test(nulls_are_first_or_last),
		cmocka_unit_test(records_come_out_in_order),
		cmocka_unit_test(a_sort_without_memory_spills),
		cmocka_unit_test(device_faults_are_clean_errors),
		cmocka_unit_test(allocations_that_fail_leave_nothing),
		cmocka_unit_test(a_full_device_is_a_clean_error),
		cmocka_unit_test(a_changed_block_is_noticed),
		cmocka_unit_test(records_may_be_longer_than_a_block),
		cmocka_unit_test(the_first_k_are_kept),
	};
	return cmocka_run_group_tests(tests, open_mem, close_mem);
}
