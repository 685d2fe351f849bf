/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logs: inserting, reading, removing, clearing, opening again; several threads; and what is
 * refused.
 */
#include "pm/areas/log_internal.h"
#include "fth_test.h"
#include "pm/pm_internal.h"

#include "fathom/base/rng.h"
#include "fathom/pm/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES	  (1u << 20)
#define LOG_AT	  8192u
#define ENTRY	  24u
#define SLOTS	  3u
#define PARTITION 1024u

static const struct fth_pm_log_shape shape = {
	.blocks = 3, .threads = 40, .entry_bytes = ENTRY, .entries = SLOTS};

static struct fth_pm *new_pm(void **memory)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	options.flags = FTH_PM_CREATE;
	*memory = aligned_alloc(4096, BYTES);
	assert_non_null(*memory);
	memset(*memory, 0, BYTES);
	assert_ok(pm_map_memory(*memory, BYTES, &options, &pm));
	return pm;
}

static void end_pm(struct fth_pm *pm, void *memory)
{
	assert_ok(fth_pm_unmap(pm));
	free(memory);
}

/* Byte i of entry n of a part. */
static void fill_entry(unsigned char *out, uint32_t bytes, uint32_t part, uint32_t n)
{
	struct fth_rng rng = {(uint64_t)part << 32 | n};

	for (uint32_t i = 0; i < bytes; i++)
		out[i] = (unsigned char)fth_rng_next(&rng);
}

/* A part has these entries, from n on, and no others. */
static void check_part(struct fth_pm_log *log, uint32_t part, uint32_t n, uint32_t count,
		       uint32_t bytes)
{
	unsigned char expected[PARTITION], found[PARTITION];
	uint64_t cursor = 0;

	assert_int_equal(fth_pm_log_count(log, part), count);
	for (uint32_t i = 0; i < count; i++) {
		fill_entry(expected, bytes, part, n + i);
		assert_int_equal(fth_pm_log_read(log, part, &cursor, found, sizeof(found)), bytes);
		assert_memory_equal(found, expected, bytes);
	}
	assert_int_equal(fth_pm_log_read(log, part, &cursor, found, sizeof(found)), -ENOENT);
}

static struct fth_pm_log *reopen(struct fth_pm *pm, struct fth_pm_log *log)
{
	fth_pm_log_close(log);
	assert_ok(fth_pm_log_open(pm, LOG_AT, &log));
	return log;
}

static void insert_entries(struct fth_pm_log *log, uint32_t part, uint32_t n, uint32_t count,
			   uint32_t bytes)
{
	unsigned char entry[PARTITION];

	for (uint32_t i = 0; i < count; i++) {
		fill_entry(entry, bytes, part, n + i);
		assert_ok(fth_pm_log_insert(log, part, entry, bytes));
	}
}

/* ---- sizes ---- */

static void test_sizes(void **state)
{
	struct fth_pm_log_shape s = shape;

	(void)state;
	/* 3 blocks of 2 warps, 3 slots of 7 stripes */
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 4096 + (6 * 3 * 7 * 128 + 4095) / 4096 * 4096);
	assert_int_equal(fth_pm_log_conv_bytes(8, 1024), 4096 + 8192);
	assert_int_equal(fth_pm_log_conv_bytes(8, 1000), 0);
	assert_int_equal(fth_pm_log_conv_bytes(8, 128), 0);
	assert_int_equal(fth_pm_log_conv_bytes(0, 1024), 0);
	assert_int_equal(fth_pm_log_conv_bytes(1, (1u << 30) + 128), 0);
	s.threads = 1025;
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
	s = shape, s.threads = 0;
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
	s = shape, s.entry_bytes = 6;
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
	s = shape, s.entry_bytes = 4100;
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
	s = shape, s.blocks = 0;
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
	s = shape, s.entries = 0;
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
	s = (struct fth_pm_log_shape){1u << 20, 1024, 4096, UINT32_MAX};
	assert_int_equal(fth_pm_log_hcl_bytes(&s), 0);
}

/* ---- HCL ---- */

static void test_hcl(void **state)
{
	unsigned char entry[ENTRY];
	struct fth_pm_log_info info;
	struct fth_pm_log *log;
	uint64_t cursor = 0;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);

	(void)state;
	assert_ok(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &log));
	fth_pm_log_info(log, &info);
	assert_int_equal(info.kind, FTH_PM_LOG_HCL);
	assert_int_equal(info.parts, 3 * 64);
	assert_int_equal(info.shape.threads, 40);
	assert_int_equal(info.entries, 0);
	assert_int_equal(info.bytes, fth_pm_log_hcl_bytes(&shape));
	for (uint32_t part = 0; part < info.parts; part++)
		insert_entries(log, part, 0, part % (SLOTS + 1), ENTRY);
	for (int again = 0; again < 2; again++, log = reopen(pm, log))
		for (uint32_t part = 0; part < info.parts; part++)
			check_part(log, part, 0, part % (SLOTS + 1), ENTRY);
	fill_entry(entry, ENTRY, 3, SLOTS);
	assert_int_equal(fth_pm_log_insert(log, 3, entry, ENTRY), -ENOSPC);
	assert_int_equal(fth_pm_log_insert(log, 0, entry, ENTRY - 4), -EINVAL);
	assert_int_equal(fth_pm_log_insert(log, info.parts, entry, ENTRY), -EINVAL);
	assert_int_equal(fth_pm_log_read(log, 3, &cursor, entry, ENTRY - 1), -EMSGSIZE);
	assert_int_equal(fth_pm_log_remove(log, 0), -ENOENT);
	assert_int_equal(fth_pm_log_remove(log, info.parts), -EINVAL);
	assert_ok(fth_pm_log_remove(log, 3));
	check_part(log, 3, 0, 2, ENTRY);
	log = reopen(pm, log);
	check_part(log, 3, 0, 2, ENTRY);
	check_part(log, 2, 0, 2, ENTRY);
	assert_ok(fth_pm_log_remove(log, 3));
	assert_ok(fth_pm_log_remove(log, 3));
	log = reopen(pm, log);
	check_part(log, 3, 0, 0, ENTRY);
	insert_entries(log, 3, 5, SLOTS, ENTRY);
	log = reopen(pm, log);
	check_part(log, 3, 5, SLOTS, ENTRY);
	fth_pm_log_close(log);
	end_pm(pm, memory);
}

/* ---- conventional ---- */

static void test_conv(void **state)
{
	unsigned char entry[PARTITION];
	struct fth_pm_log_info info;
	struct fth_pm_log *log;
	uint64_t cursor = 0;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);

	(void)state;
	assert_ok(fth_pm_log_create_conv(pm, LOG_AT, 40, PARTITION, &log));
	for (uint32_t part = 0; part < 40; part++)
		insert_entries(log, part, 0, 3, part);
	for (int again = 0; again < 2; again++, log = reopen(pm, log))
		for (uint32_t part = 0; part < 40; part++)
			check_part(log, part, 0, 3, part);
	fth_pm_log_info(log, &info);
	assert_int_equal(info.kind, FTH_PM_LOG_CONV);
	assert_int_equal(info.entries, 120);
	assert_int_equal(info.partition_bytes, PARTITION);
	assert_int_equal(fth_pm_log_insert(log, 40, entry, 8), -EINVAL);
	assert_int_equal(fth_pm_log_insert(log, 39, entry, PARTITION - 128 - 7), -EINVAL);
	assert_int_equal(fth_pm_log_insert(log, 39, entry, PARTITION - 128 - 8), -ENOSPC);
	assert_int_equal(fth_pm_log_read(log, 39, &cursor, entry, 38), -EMSGSIZE);
	assert_ok(fth_pm_log_remove(log, 7));
	check_part(log, 7, 0, 2, 7);
	log = reopen(pm, log);
	check_part(log, 7, 0, 2, 7);
	assert_ok(fth_pm_log_remove(log, 7));
	assert_ok(fth_pm_log_remove(log, 7));
	assert_int_equal(fth_pm_log_remove(log, 7), -ENOENT);
	insert_entries(log, 7, 10, 20, 7); /* other entries over the remains of these */
	log = reopen(pm, log);
	check_part(log, 7, 10, 20, 7);
	for (int i = 0; i < 20; i++)
		assert_ok(fth_pm_log_remove(log, 7));
	log = reopen(pm, log);
	check_part(log, 7, 0, 0, 7);
	check_part(log, 8, 0, 3, 8);
	insert_entries(log, 7, 0, 1, PARTITION - 128 - 8); /* fills it */
	assert_int_equal(fth_pm_log_insert(log, 7, entry, 0), -ENOSPC);
	log = reopen(pm, log);
	check_part(log, 7, 0, 1, PARTITION - 128 - 8);
	fth_pm_log_close(log);
	end_pm(pm, memory);
}

/* ---- clearing ---- */

static void check_clear(struct fth_pm *pm, struct fth_pm_log *log, uint32_t parts, uint32_t bytes)
{
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t part = 0; part < parts; part++)
			insert_entries(log, part, 10 * round, SLOTS - round, bytes);
		log = reopen(pm, log);
		for (uint32_t part = 0; part < parts; part++)
			check_part(log, part, 10 * round, SLOTS - round, bytes);
		assert_ok(fth_pm_log_clear(log));
		for (int again = 0; again < 2; again++, log = reopen(pm, log))
			for (uint32_t part = 0; part < parts; part++)
				check_part(log, part, 0, 0, bytes);
	}
	fth_pm_log_close(log);
}

static void test_clear(void **state)
{
	struct fth_pm_log *log;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);

	(void)state;
	assert_ok(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &log));
	check_clear(pm, log, 3 * 64, ENTRY);
	assert_ok(fth_pm_log_create_conv(pm, LOG_AT, 5, PARTITION, &log));
	check_clear(pm, log, 5, 33);
	end_pm(pm, memory);
}

/*
 * Epochs end, and begin with 1 again: entries that were made in epoch 1 long ago do not come back.
 */
static void test_last_epoch(void **state)
{
	struct fth_pm_log_view view;
	struct fth_pm_log *log;
	uint64_t *word;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);

	(void)state;
	assert_ok(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &log));
	insert_entries(log, 9, 0, SLOTS, ENTRY);
	view = fth_pm_log_view(log);
	assert_ok(pm_log_set_epoch(&view, FTH_PM_LOG_EPOCH_MAX));
	log = reopen(pm, log);
	check_part(log, 9, 0, 0, ENTRY);
	assert_ok(fth_pm_log_clear(log));
	assert_int_equal(fth_pm_log_view(log).epoch, 1);
	log = reopen(pm, log);
	check_part(log, 9, 0, 0, ENTRY);
	fth_pm_log_close(log);

	assert_ok(fth_pm_log_create_conv(pm, LOG_AT, 5, PARTITION, &log));
	insert_entries(log, 3, 0, SLOTS, 50);
	view = fth_pm_log_view(log);
	word = (uint64_t *)(void *)fth_pm_conv_at(&view, 3, 0);
	*word = fth_pm_log_epoch_word(FTH_PM_LOG_EPOCH_MAX, view.salt, 3);
	log = reopen(pm, log);
	check_part(log, 3, 0, 0, 50);
	assert_ok(fth_pm_log_clear(log));
	assert_int_equal(fth_pm_log_view(log).partitions[3].epoch, 1);
	log = reopen(pm, log);
	check_part(log, 3, 0, 0, 50);
	fth_pm_log_close(log);
	end_pm(pm, memory);
}

/* ---- where logs may lie ---- */

static void test_places(void **state)
{
	struct fth_pm_log_shape large = {64, 1024, 64, 4};
	struct fth_pm_log *log, *other;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	uint64_t conv_at = LOG_AT + fth_pm_log_hcl_bytes(&shape);

	(void)state;
	assert_int_equal(fth_pm_log_create_hcl(pm, 100, &shape, &log), -EINVAL);
	assert_int_equal(fth_pm_log_create_hcl(pm, 0, &large, &log), -ERANGE);
	assert_int_equal(fth_pm_log_create_hcl(pm, BYTES * 4, &shape, &log), -ERANGE);
	assert_int_equal(fth_pm_log_create_conv(pm, 0, 3, 100, &log), -EINVAL);
	assert_null(log);
	assert_int_equal(fth_pm_log_open(pm, 0, &log), -ENOENT);
	assert_int_equal(fth_pm_log_open(pm, 8, &log), -EINVAL);
	assert_int_equal(fth_pm_log_open(pm, BYTES, &log), -ERANGE);
	/* Two of them, side by side. */
	assert_ok(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &log));
	assert_ok(fth_pm_log_create_conv(pm, conv_at, 10, PARTITION, &other));
	for (uint32_t part = 0; part < 3 * 64; part++)
		insert_entries(log, part, 0, SLOTS, ENTRY);
	for (uint32_t part = 0; part < 10; part++)
		insert_entries(other, part, 0, 5, 100);
	for (uint32_t part = 0; part < 10; part++)
		check_part(other, part, 0, 5, 100);
	log = reopen(pm, log);
	for (uint32_t part = 0; part < 3 * 64; part++)
		check_part(log, part, 0, SLOTS, ENTRY);
	fth_pm_log_close(log);
	fth_pm_log_close(other);
	fth_pm_log_close(NULL);
	end_pm(pm, memory);
}

/*
 * A log that is there is opened, a damaged one stays as it is, and only where none was created one
 * is.
 */
static void test_open_or_create(void **state)
{
	struct fth_pm_log_shape taller = shape;
	struct fth_pm_log *log;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	uint64_t conv_at = LOG_AT + fth_pm_log_hcl_bytes(&shape), *magic;
	uint8_t *before = malloc(BYTES);

	(void)state;
	for (unsigned run = 0; run < 2; run++) {
		assert_ok(fth_pm_log_open_or_create_hcl(pm, LOG_AT, &shape, &log));
		check_part(log, 7, 0, run, ENTRY);
		insert_entries(log, 7, run, 1, ENTRY);
		fth_pm_log_close(log);
		assert_ok(fth_pm_log_open_or_create_conv(pm, conv_at, 3, PARTITION, &log));
		check_part(log, 2, 0, run, 100);
		insert_entries(log, 2, run, 1, 100);
		fth_pm_log_close(log);
	}
	taller.entries++;
	memcpy(before, memory, BYTES);
	assert_int_equal(fth_pm_log_open_or_create_hcl(pm, LOG_AT, &taller, &log), -EINVAL);
	assert_int_equal(fth_pm_log_open_or_create_hcl(pm, conv_at, &shape, &log), -EINVAL);
	assert_int_equal(fth_pm_log_open_or_create_conv(pm, conv_at, 4, PARTITION, &log), -EINVAL);
	assert_null(log);
	magic = (uint64_t *)(void *)((uint8_t *)fth_pm_base(pm) + LOG_AT);
	for (unsigned bit = 0; bit < 64; bit++) {
		*magic ^= UINT64_C(1) << bit;
		assert_int_equal(fth_pm_log_open(pm, LOG_AT, &log), -EBADMSG);
		assert_int_equal(fth_pm_log_open_or_create_hcl(pm, LOG_AT, &shape, &log), -EBADMSG);
		*magic ^= UINT64_C(1) << bit;
	}
	/* Zeroes in place of the magic number only. */
	*magic = 0;
	assert_int_equal(fth_pm_log_open_or_create_hcl(pm, LOG_AT, &shape, &log), -EBADMSG);
	*magic = FTH_PM_LOG_MAGIC;
	assert_memory_equal(before, memory, BYTES);
	free(before);
	end_pm(pm, memory);
}

/* Memory that has a name: another mapping finds the log. */
static void test_named(void **state)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	unsigned char entry[ENTRY] = {0};
	struct fth_pm_log *log;
	struct fth_pm *pm;
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "shm:fathom_log_test_%d", (int)getpid());
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map(name, BYTES, &options, &pm));
	assert_ok(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &log));
	insert_entries(log, 77, 0, 2, ENTRY);
	fth_pm_log_close(log);
	assert_ok(fth_pm_unmap(pm));
	options.flags = FTH_PM_READ_ONLY;
	assert_ok(fth_pm_map(name, 0, &options, &pm));
	assert_ok(fth_pm_log_open(pm, LOG_AT, &log));
	check_part(log, 77, 0, 2, ENTRY);
	assert_int_equal(fth_pm_log_insert(log, 77, entry, ENTRY), -EROFS);
	assert_int_equal(fth_pm_log_remove(log, 77), -EROFS);
	assert_int_equal(fth_pm_log_clear(log), -EROFS);
	fth_pm_log_close(log);
	assert_int_equal(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &log), -EROFS);
	assert_ok(fth_pm_unmap(pm));
	assert_ok(fth_pm_remove(name));
}

/* ---- threads ---- */

#define THREADS 4u
#define EACH	200u

struct worker {
	struct fth_pm_log *conv, *hcl;
	uint32_t number;
};

/* Two threads share a partition; of the HCL log each has its own threads. */
static void *work(void *arg)
{
	struct worker *me = arg;
	uint32_t entry[2] = {me->number, 0};
	unsigned char wide[ENTRY];

	for (; entry[1] < EACH; entry[1]++)
		assert_ok(fth_pm_log_insert(me->conv, me->number / 2, entry, sizeof(entry)));
	for (uint32_t part = me->number; part < 3 * 64; part += THREADS) {
		fill_entry(wide, ENTRY, part, 0);
		assert_ok(fth_pm_log_insert(me->hcl, part, wide, ENTRY));
		fill_entry(wide, ENTRY, part, 1);
		assert_ok(fth_pm_log_insert(me->hcl, part, wide, ENTRY));
		assert_ok(fth_pm_log_remove(me->hcl, part));
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	struct fth_pm_log *hcl, *conv;
	uint32_t next[THREADS] = {0}, entry[2];
	void *memory;
	struct fth_pm *pm = new_pm(&memory);

	(void)state;
	assert_ok(fth_pm_log_create_hcl(pm, LOG_AT, &shape, &hcl));
	assert_ok(
		fth_pm_log_create_conv(pm, LOG_AT + fth_pm_log_hcl_bytes(&shape), 2, 16384, &conv));
	for (uint32_t t = 0; t < THREADS; t++) {
		workers[t] = (struct worker){conv, hcl, t};
		assert_int_equal(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_join(threads[t], NULL), 0);
	assert_ok(fth_pm_log_rescan(conv));
	assert_ok(fth_pm_log_rescan(hcl));
	for (uint32_t part = 0; part < 3 * 64; part++)
		check_part(hcl, part, 0, 1, ENTRY);
	for (uint32_t part = 0; part < 2; part++) {
		uint64_t cursor = 0;

		assert_int_equal(fth_pm_log_count(conv, part), 2 * EACH);
		for (uint32_t i = 0; i < 2 * EACH; i++) {
			assert_int_equal(fth_pm_log_read(conv, part, &cursor, entry, 8), 8);
			assert_int_equal(entry[0] / 2, part);
			assert_int_equal(entry[1], next[entry[0]]++);
		}
	}
	fth_pm_log_close(hcl);
	fth_pm_log_close(conv);
	end_pm(pm, memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	       cmocka_unit_test(test_hcl),
		cmocka_unit_test(test_conv),	       cmocka_unit_test(test_clear),
		cmocka_unit_test(test_last_epoch),     cmocka_unit_test(test_places),
		cmocka_unit_test(test_open_or_create), cmocka_unit_test(test_named),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
