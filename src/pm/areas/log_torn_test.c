/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a crash leaves of an entry, word by word, and what damage leaves of a log: torn entries are
 * dropped and nothing else is; damage is reported, and nothing is written. The salt is fixed, so
 * that these tests give the same result each time.
 */
#include "pm/areas/log_internal.h"
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/pm/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (128u << 10)

struct bed {
	uint8_t *memory;
	struct fth_pm_view pm;
	struct fth_pm_control control;
	struct fth_pm_log *log;
};

static void bed_open(struct bed *bed, struct fth_pm_log_header *header)
{
	memset(bed, 0, sizeof(*bed));
	bed->memory = aligned_alloc(4096, BYTES);
	assert_non_null(bed->memory);
	memset(bed->memory, 0, BYTES);
	bed->pm = (struct fth_pm_view){.base = bed->memory,
				       .size = BYTES,
				       .control = &bed->control,
				       .mode = FTH_PM_MODE_FENCE,
				       .timeout_ns = 1000000000};
	header->salt = 4711;
	assert_ok(pm_log_make(&bed->pm, 0, header));
	assert_ok(pm_log_open_view(&bed->pm, 0, &bed->log));
}

static void bed_close(struct bed *bed)
{
	fth_pm_log_close(bed->log);
	free(bed->memory);
}

static struct fth_pm_log_header hcl_header(uint32_t entry_bytes, uint32_t entries)
{
	struct fth_pm_log_shape shape = {1, 32, entry_bytes, entries};
	struct fth_pm_log_header h = {.kind = FTH_PM_LOG_HCL,
				      .bytes = fth_pm_log_hcl_bytes(&shape),
				      .blocks = 1,
				      .threads = 32,
				      .entry_bytes = entry_bytes,
				      .entries = entries};

	return h;
}

static struct fth_pm_log_header conv_header(uint32_t partitions, uint32_t bytes)
{
	struct fth_pm_log_header h = {.kind = FTH_PM_LOG_CONV,
				      .bytes = fth_pm_log_conv_bytes(partitions, bytes),
				      .partitions = partitions,
				      .partition_bytes = bytes};

	return h;
}

static void insert_random(struct fth_pm_log *log, uint32_t part, uint32_t bytes, uint64_t seed)
{
	struct fth_rng rng = {seed};
	uint64_t data[64];

	for (unsigned i = 0; i < 64; i++)
		data[i] = fth_rng_next(&rng);
	assert_ok(fth_pm_log_insert(log, part, data, bytes));
}

/* ---- torn entries ---- */

/*
 * Between two images of the memory, `words` of `width` bytes may each be old or new. For all such
 * mixtures, or very many of them, the part has `before` entries, or one more if nothing is torn.
 */
struct tear {
	struct bed *bed;
	uint8_t *old, *new;
	uint32_t width, part, before;
	uint32_t words, at[64];
	uint64_t states;
};

static void find_words(struct tear *t)
{
	t->words = 0;
	for (uint32_t at = 0; at < BYTES; at += t->width) {
		if (memcmp(t->old + at, t->new + at, t->width) == 0)
			continue;
		assert_true(t->words < 64);
		t->at[t->words++] = at;
	}
}

static void check_mixture(struct tear *t, uint64_t subset)
{
	struct fth_pm_log_view view = fth_pm_log_view(t->bed->log);
	uint64_t all = ((uint64_t)1 << t->words) - 1;

	for (uint32_t i = 0; i < t->words; i++)
		memcpy(t->bed->memory + t->at[i], (subset >> i & 1 ? t->new : t->old) + t->at[i],
		       t->width);
	if (view.kind == FTH_PM_LOG_HCL)
		assert_ok(fth_pm_hcl_scan(&view, t->part));
	else
		assert_ok(fth_pm_conv_scan(&view, t->part));
	assert_int_equal(fth_pm_log_count_hd(&view, t->part),
			 subset == all ? t->before + 1 : t->before);
	t->states++;
}

static void try_mixtures(struct tear *t)
{
	struct fth_rng rng = {5};

	find_words(t);
	assert_true(t->words > 1);
	if (t->words <= 17) {
		for (uint64_t subset = 0; subset < (uint64_t)1 << t->words; subset++)
			check_mixture(t, subset);
		return;
	}
	for (uint32_t prefix = 0; prefix <= t->words; prefix++)
		check_mixture(t, ((uint64_t)1 << prefix) - 1);
	for (uint32_t i = 0; i < t->words; i++)
		check_mixture(t, (((uint64_t)1 << t->words) - 1) & ~((uint64_t)1 << i));
	for (unsigned i = 0; i < 20000; i++)
		check_mixture(t, fth_rng_below(&rng, ((uint64_t)1 << t->words) - 1));
}

/* Insert an entry of `bytes`, which may tear, when the part has `before`. */
static uint64_t tear_entry(struct bed *bed, uint32_t part, uint32_t bytes, uint32_t width,
			   uint64_t seed)
{
	struct tear t = {.bed = bed, .width = width, .part = part};

	t.before = fth_pm_log_count(bed->log, part);
	t.old = malloc(BYTES);
	t.new = malloc(BYTES);
	memcpy(t.old, bed->memory, BYTES);
	insert_random(bed->log, part, bytes, seed);
	memcpy(t.new, bed->memory, BYTES);
	try_mixtures(&t);
	memcpy(bed->memory, t.new, BYTES);
	assert_ok(fth_pm_log_rescan(bed->log));
	free(t.old);
	free(t.new);
	return t.states;
}

static void test_torn_hcl(void **state)
{
	static const uint32_t sizes[] = {4, 16, 32, 64, 128};
	uint64_t states = 0;

	(void)state;
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct fth_pm_log_header header = hcl_header(sizes[s], 4);
		struct bed bed;

		bed_open(&bed, &header);
		/*
		 * Over zeroes; behind an entry; over an entry that was removed; over one of another
		 * epoch.
		 */
		states += tear_entry(&bed, 5, sizes[s], 4, 1);
		states += tear_entry(&bed, 5, sizes[s], 4, 2);
		assert_ok(fth_pm_log_remove(bed.log, 5));
		states += tear_entry(&bed, 5, sizes[s], 4, 3);
		assert_ok(fth_pm_log_clear(bed.log));
		states += tear_entry(&bed, 5, sizes[s], 4, 4);
		states += tear_entry(&bed, 5, sizes[s], 8, 5);
		bed_close(&bed);
	}
	print_message("%llu states\n", (unsigned long long)states);
	assert_true(states > 500000);
}

static void test_torn_conv(void **state)
{
	struct fth_pm_log_header header = conv_header(4, 4096);
	uint64_t states = 0;
	struct bed bed;

	(void)state;
	bed_open(&bed, &header);
	for (uint32_t bytes = 1; bytes < 120; bytes += 3) {
		states += tear_entry(&bed, 2, bytes, 8, bytes);
		states += tear_entry(&bed, 2, bytes + 5, 4, bytes + 1);
		assert_ok(fth_pm_log_remove(bed.log, 2));
		states += tear_entry(&bed, 2, bytes / 2 + 8, 8, bytes + 2);
		assert_ok(fth_pm_log_clear(bed.log));
		states += tear_entry(&bed, 2, bytes, 8, bytes + 3);
		assert_ok(fth_pm_log_clear(bed.log));
	}
	print_message("%llu states\n", (unsigned long long)states);
	assert_true(states > 100000);
	bed_close(&bed);
}

/* An entry whose epoch is another is never taken, whatever its payload. */
static void test_stale(void **state)
{
	struct fth_pm_log_header header = hcl_header(8, 1);
	struct bed bed;

	(void)state;
	bed_open(&bed, &header);
	for (unsigned round = 0; round < 2000; round++) {
		struct fth_pm_log_view view;

		for (uint32_t part = 0; part < 32; part++)
			insert_random(bed.log, part, 8, round % 3);
		assert_ok(fth_pm_log_clear(bed.log));
		view = fth_pm_log_view(bed.log);
		for (uint32_t part = 0; part < 32; part++) {
			assert_ok(fth_pm_hcl_scan(&view, part));
			assert_int_equal(view.counts[part], 0);
		}
	}
	bed_close(&bed);
}

/* ---- damage ---- */

/* Opening fails so, or succeeds for 0, and writes nothing. */
static void check_open(struct bed *bed, uint64_t size, int expected)
{
	uint8_t *before = malloc(BYTES);
	struct fth_pm_view pm = bed->pm;
	struct fth_pm_log *log;
	int rc;

	pm.size = size;
	memcpy(before, bed->memory, BYTES);
	rc = pm_log_open_view(&pm, 0, &log);
	assert_int_equal(rc, expected);
	assert_memory_equal(before, bed->memory, BYTES);
	fth_pm_log_close(log);
	free(before);
}

static void check_header_damage(struct fth_pm_log_header *header)
{
	struct bed bed;

	bed_open(&bed, header);
	insert_random(bed.log, 1, 16, 1);
	for (uint32_t bit = 0; bit < 8 * sizeof(*header); bit++) {
		bed.memory[bit / 8] ^= (uint8_t)(1 << bit % 8);
		check_open(&bed, BYTES, -EBADMSG);
		bed.memory[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	check_open(&bed, BYTES, 0);
	check_open(&bed, header->bytes, 0);
	check_open(&bed, header->bytes - 1, -EBADMSG);
	check_open(&bed, 4096, -EBADMSG);
	check_open(&bed, 4095, -ERANGE);
	check_open(&bed, 0, -ERANGE);
	bed_close(&bed);
}

static void test_damaged_header(void **state)
{
	struct fth_pm_log_header hcl = hcl_header(16, 2), conv = conv_header(3, 512);

	(void)state;
	check_header_damage(&hcl);
	check_header_damage(&conv);
}

/* A header with a right checksum, whose shape is not possible. */
static void test_hostile_header(void **state)
{
	struct fth_pm_log_header header = hcl_header(16, 2), *h;
	struct bed bed;

	(void)state;
	bed_open(&bed, &header);
	h = (struct fth_pm_log_header *)(void *)bed.memory;
	for (unsigned field = 0; field < 6; field++) {
		*h = header;
		if (field == 0)
			h->blocks = UINT32_MAX;
		else if (field == 1)
			h->entries = UINT32_MAX;
		else if (field == 2)
			h->kind = 3;
		else if (field == 3)
			h->bytes += 4096;
		else if (field == 4)
			h->entry_bytes = 0;
		else
			h->kind = FTH_PM_LOG_CONV;
		h->check = pm_log_header_sum(h);
		check_open(&bed, BYTES, -EBADMSG);
	}
	*h = conv_header(3, 512);
	h->magic = FTH_PM_LOG_MAGIC;
	h->version = FTH_PM_LOG_VERSION;
	h->partition_bytes = (uint64_t)1 << 32 | 512;
	h->check = pm_log_header_sum(h);
	check_open(&bed, BYTES, -EBADMSG);
	bed_close(&bed);
}

static void test_damaged_entries(void **state)
{
	struct fth_pm_log_header header = hcl_header(16, 3);
	struct fth_pm_log_view view;
	struct bed bed;
	uint8_t *chunk;

	(void)state;
	bed_open(&bed, &header);
	for (uint64_t i = 0; i < 3; i++)
		insert_random(bed.log, 9, 16, i);
	view = fth_pm_log_view(bed.log);
	/* An older entry: reported. The newest: it may have been torn, so it is dropped. */
	for (uint32_t slot = 0; slot < 3; slot++)
		for (uint32_t bit = 0; bit < 32 * 5; bit++) {
			chunk = (uint8_t *)(fth_pm_hcl_slot(&view, 9, slot) + bit / 32 * 32);
			chunk[bit % 32 / 8] ^= (uint8_t)(1 << bit % 8);
			check_open(&bed, BYTES, slot < 2 ? -EBADMSG : 0);
			chunk[bit % 32 / 8] ^= (uint8_t)(1 << bit % 8);
		}
	/* One that was read before: reading it again says so. */
	*(uint8_t *)fth_pm_hcl_slot(&view, 9, 1) ^= 1;
	assert_int_equal(fth_pm_hcl_read(&view, 9, 1, (uint32_t[4]){0}, 16), -EBADMSG);
	bed_close(&bed);
}

static void test_damaged_partition(void **state)
{
	struct fth_pm_log_header header = conv_header(3, 512);
	uint32_t first = FTH_PM_LOG_DATA + 512 + FTH_PM_CONV_FIRST;
	struct bed bed;

	(void)state;
	bed_open(&bed, &header);
	for (uint64_t i = 0; i < 3; i++)
		insert_random(bed.log, 1, 24, i);
	/* Not the lengths: they say where the next entry is. */
	for (uint32_t entry = 0; entry < 3; entry++)
		for (uint32_t bit = 32; bit < 256; bit++) {
			uint8_t *byte = bed.memory + first + entry * 32 + bit / 8;

			*byte ^= (uint8_t)(1 << bit % 8);
			check_open(&bed, BYTES, entry < 2 ? -EBADMSG : 0);
			*byte ^= (uint8_t)(1 << bit % 8);
		}
	bed_close(&bed);
}

/* The epochs, bit by bit. */
static void test_damaged_epochs(void **state)
{
	struct fth_pm_log_header hcl = hcl_header(16, 3), conv = conv_header(3, 512);
	struct bed bed;

	(void)state;
	bed_open(&bed, &hcl);
	for (uint32_t bit = 0; bit < 64; bit++) {
		bed.memory[FTH_PM_LOG_EPOCH + bit / 8] ^= (uint8_t)(1 << bit % 8);
		check_open(&bed, BYTES, -EBADMSG);
		bed.memory[FTH_PM_LOG_EPOCH + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	bed_close(&bed);
	bed_open(&bed, &conv);
	for (uint32_t bit = 0; bit < 64; bit++) {
		bed.memory[FTH_PM_LOG_DATA + 1024 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		check_open(&bed, BYTES, -EBADMSG);
		bed.memory[FTH_PM_LOG_DATA + 1024 + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	bed_close(&bed);
}

/* Partitions full of anything: no length leads outside. */
static void test_garbage(void **state)
{
	struct fth_pm_log_header conv = conv_header(3, 512);
	struct fth_rng rng = {9};
	struct bed bed;

	(void)state;
	bed_open(&bed, &conv);
	for (unsigned round = 0; round < 2000; round++) {
		for (uint32_t at = FTH_PM_CONV_FIRST; at < 512; at += 8) {
			uint64_t word = fth_rng_next(&rng);

			if (round % 2)
				word = (word & ~(uint64_t)UINT32_MAX) | word % 600;
			memcpy(bed.memory + FTH_PM_LOG_DATA + 512 + at, &word, 8);
		}
		assert_ok(fth_pm_log_rescan(bed.log));
		assert_int_equal(fth_pm_log_count(bed.log, 1), 0);
	}
	bed_close(&bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_torn_hcl),
		cmocka_unit_test(test_torn_conv),
		cmocka_unit_test(test_stale),
		cmocka_unit_test(test_damaged_header),
		cmocka_unit_test(test_hostile_header),
		cmocka_unit_test(test_damaged_entries),
		cmocka_unit_test(test_damaged_epochs),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_damaged_partition),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
