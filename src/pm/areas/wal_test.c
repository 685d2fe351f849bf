/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Write-ahead logs: appending, waiting, reading, trimming, opening again; several threads; what is
 * refused; and damage.
 */
#include "pm/areas/wal_internal.h"

#include "fth_test.h"

#include "fathom/base/error.h"
#include "fathom/pm/area.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES	 (256u << 10)
#define WAL_AT	 8192u
#define CAPACITY 4096u

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

/* Entry n has n * 7 % 150 bytes. */
static uint32_t fill_entry(uint8_t *out, uint64_t n)
{
	uint32_t bytes = n * 7 % 150;

	for (uint32_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)fth_mix64(n * 1000 + i);
	return bytes;
}

static uint64_t append_entry(struct fth_pm_wal *wal, uint64_t n)
{
	uint8_t entry[160];
	uint32_t bytes = fill_entry(entry, n);
	uint64_t number = 0;

	assert_ok(fth_pm_wal_append(wal, entry, bytes, &number));
	assert_ok(fth_pm_wal_wait(wal, number));
	return number;
}

/* The log has the entries [from, to), and no others. */
static void check_entries(struct fth_pm_wal *wal, uint64_t from, uint64_t to)
{
	uint8_t expected[160], found[160];
	struct fth_pm_wal_info info;
	uint64_t cursor = 0;

	fth_pm_wal_info(wal, &info);
	assert_int_equal(info.entries, to - from);
	for (uint64_t n = from; n < to; n++) {
		uint32_t bytes = fill_entry(expected, n);

		assert_int_equal(fth_pm_wal_read(wal, &cursor, found, sizeof(found)), bytes);
		assert_memory_equal(found, expected, bytes);
	}
	assert_int_equal(fth_pm_wal_read(wal, &cursor, found, sizeof(found)), -ENOENT);
	assert_int_equal(from == to ? info.next : cursor, info.next);
}

static struct fth_pm_wal *reopen(struct fth_pm *pm, struct fth_pm_wal *wal)
{
	fth_pm_wal_close(wal);
	assert_ok(fth_pm_wal_open(pm, WAL_AT, &wal));
	return wal;
}

/* ---- the ring ---- */

static void entries_are_found_again(void **state)
{
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	uint64_t numbers[600], oldest = 0;
	struct fth_pm_wal *wal;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	check_entries(wal, 0, 0);
	/* Ten rounds of the ring; entries go over its end at many places. */
	for (uint64_t n = 0; n < 600; n++) {
		numbers[n] = append_entry(wal, n);
		assert_true(n == 0 || numbers[n] > numbers[n - 1]);
		if (n % 7 == 6)
			wal = reopen(pm, wal);
		if (n - oldest == 20) {
			oldest += 1 + n % 20;
			assert_ok(fth_pm_wal_trim(wal, numbers[oldest]));
		}
		check_entries(wal, oldest, n + 1);
	}
	wal = reopen(pm, wal);
	check_entries(wal, oldest, 600);
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

static void a_full_log_is_trimmed(void **state)
{
	struct fth_pm_wal_info info;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;
	uint8_t entry[CAPACITY] = {1};
	uint64_t number = 7, cursor = 0;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	assert_int_equal(fth_pm_wal_append(wal, entry, CAPACITY - 15, &number), -EINVAL);
	assert_int_equal(fth_pm_wal_append(wal, entry, UINT32_MAX, &number), -EINVAL);
	assert_int_equal(number, 7);
	for (unsigned round = 0; round < 3; round++) {
		assert_ok(fth_pm_wal_append(wal, entry, CAPACITY - 16, &number));
		assert_int_equal(fth_pm_wal_append(wal, NULL, 0, NULL), -ENOSPC);
		wal = reopen(pm, wal);
		fth_pm_wal_info(wal, &info);
		assert_int_equal(info.used, CAPACITY);
		assert_int_equal(info.oldest, number);
		assert_ok(fth_pm_wal_trim(wal, info.next));
		assert_int_equal(fth_pm_wal_read(wal, &cursor, entry, sizeof(entry)), -ENOENT);
		assert_int_equal(fth_pm_wal_read(wal, &number, entry, sizeof(entry)), -ESTALE);
		assert_ok(fth_pm_wal_append(wal, NULL, 0, NULL)); /* shifts the next round */
		fth_pm_wal_info(wal, &info);
		assert_int_equal(info.entries, 1);
		assert_ok(fth_pm_wal_trim(wal, info.next));
	}
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

static void what_does_not_exist_is_refused(void **state)
{
	struct fth_pm_wal_info info;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;
	uint64_t first, cursor;
	uint8_t small[4];

	(void)state;
	assert_int_equal(fth_pm_wal_bytes(0), 0);
	assert_int_equal(fth_pm_wal_bytes(4097), 0);
	assert_int_equal(fth_pm_wal_bytes(((uint64_t)16 << 30) + 4096), 0);
	assert_int_equal(fth_pm_wal_bytes(8192), 12288);
	assert_int_equal(fth_pm_wal_open(pm, WAL_AT, &wal), -ENOENT);
	assert_null(wal);
	assert_int_equal(fth_pm_wal_create(pm, WAL_AT, 100, &wal), -EINVAL);
	assert_int_equal(fth_pm_wal_create(pm, 100, CAPACITY, &wal), -EINVAL);
	assert_int_equal(fth_pm_wal_create(pm, WAL_AT, BYTES, &wal), -ERANGE);
	assert_ok(fth_pm_wal_open_or_create(pm, WAL_AT, CAPACITY, &wal));
	append_entry(wal, 1);
	fth_pm_wal_close(wal);
	assert_int_equal(fth_pm_wal_open_or_create(pm, WAL_AT, 2 * CAPACITY, &wal), -EINVAL);
	assert_ok(fth_pm_wal_open_or_create(pm, WAL_AT, CAPACITY, &wal));
	append_entry(wal, 2);
	check_entries(wal, 1, 3);
	fth_pm_wal_info(wal, &info);
	first = info.oldest;
	assert_int_equal(fth_pm_wal_wait(wal, info.next), -EINVAL);
	assert_int_equal(fth_pm_wal_trim(wal, info.next + 8), -EINVAL);
	assert_int_equal(fth_pm_wal_trim(wal, first + 8), -EINVAL);
	assert_ok(fth_pm_wal_trim(wal, first));
	assert_ok(fth_pm_wal_trim(wal, 0));
	cursor = first;
	assert_int_equal(fth_pm_wal_read(wal, &cursor, small, sizeof(small)), -EMSGSIZE);
	assert_int_equal(cursor, first);
	cursor = first + 8;
	assert_int_equal(fth_pm_wal_read(wal, &cursor, small, sizeof(small)), -EBADMSG);
	cursor = first + 3;
	assert_int_equal(fth_pm_wal_read(wal, &cursor, small, sizeof(small)), -EBADMSG);
	cursor = 8;
	assert_int_equal(fth_pm_wal_read(wal, &cursor, small, sizeof(small)), -ESTALE);
	check_entries(wal, 1, 3);
	/* A log and a wal at the same place. */
	fth_pm_wal_close(wal);
	fth_pm_wal_close(NULL);
	assert_int_equal(fth_pm_wal_open(pm, 0, &wal), -ENOENT);
	assert_int_equal(fth_pm_wal_open(pm, BYTES, &wal), -ERANGE);
	end_pm(pm, memory);
}

/* ---- entries that were not waited for ---- */

/* As on drained memory: append and wait are apart. */
static void a_wait_covers_all_before(void **state)
{
	struct fth_pm_wal_info info;
	uint64_t numbers[3], cursor = 0;
	uint8_t entry[64] = {3};
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	wal->deferred = true;
	for (unsigned i = 0; i < 3; i++)
		assert_ok(fth_pm_wal_append(wal, entry, sizeof(entry), &numbers[i]));
	fth_pm_wal_info(wal, &info);
	assert_int_equal(info.durable, numbers[0]);
	assert_int_equal(fth_pm_wal_read(wal, &cursor, entry, sizeof(entry)), -ENOENT);
	assert_ok(fth_pm_wal_wait(wal, numbers[1]));
	fth_pm_wal_info(wal, &info);
	assert_int_equal(info.durable, info.next);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(fth_pm_wal_read(wal, &cursor, entry, sizeof(entry)), 64);
	/* A trim waits too. */
	assert_ok(fth_pm_wal_append(wal, entry, sizeof(entry), &numbers[0]));
	assert_ok(fth_pm_wal_trim(wal, numbers[1]));
	fth_pm_wal_info(wal, &info);
	assert_int_equal(info.durable, info.next);
	assert_int_equal(info.entries, 3);
	/* A trim of entries that nobody waited for. */
	assert_ok(fth_pm_wal_append(wal, entry, sizeof(entry), &numbers[0]));
	fth_pm_wal_info(wal, &info);
	assert_ok(fth_pm_wal_trim(wal, info.next));
	wal = reopen(pm, wal);
	check_entries(wal, 0, 0);
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

/* ---- sessions ---- */

/*
 * Two entries are appended without a wait, and a crash tears the first. The second must not be
 * read after that, not even when the same first entry is appended again.
 */
static void torn_entries_hide_later_ones(void **state)
{
	uint64_t first, second;
	uint8_t *torn;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	wal->deferred = true;
	append_entry(wal, 10);
	first = append_entry(wal, 11);
	wal->durable = first; /* as if the wait had not returned */
	second = append_entry(wal, 12);
	append_entry(wal, 13);
	torn = wal->area + WAL_DATA + (first + 16) % CAPACITY;
	*torn ^= 1;
	/* Entry 13 was stored when 11 was persistent: that is damage. */
	fth_pm_wal_close(wal);
	assert_int_equal(fth_pm_wal_open(pm, WAL_AT, &wal), -EBADMSG);
	/* Without it, nothing says that 11 was persistent. */
	*(uint64_t *)(void *)((uint8_t *)fth_pm_base(pm) + WAL_AT + WAL_DATA +
			      (second + 16 + (12 * 7 % 150 + 7) / 8 * 8) % CAPACITY) ^= 1;
	assert_ok(fth_pm_wal_open(pm, WAL_AT, &wal));
	check_entries(wal, 10, 11);
	assert_int_equal(append_entry(wal, 11), first);
	check_entries(wal, 10, 12);
	wal = reopen(pm, wal);
	check_entries(wal, 10, 12);
	assert_int_equal(append_entry(wal, 12), second);
	wal = reopen(pm, wal);
	check_entries(wal, 10, 13);
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

static void sessions_end(void **state)
{
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	append_entry(wal, 0);
	assert_ok(pm_wal_put_record(wal, wal->head, WAL_SESSION_MAX));
	fth_pm_wal_close(wal);
	assert_int_equal(fth_pm_wal_open(pm, WAL_AT, &wal), -EOVERFLOW);
	assert_ok(pm_wal_open_view(&pm->view, WAL_AT, false, &wal));
	check_entries(wal, 0, 1);
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

/* ---- damage ---- */

static int count_area(const struct fth_pm_area *area, void *user)
{
	if (area->offset == WAL_AT) {
		assert_int_equal(area->kind, FTH_PM_AREA_WAL);
		*(int64_t *)user = area->damage ? area->damage : (int64_t)area->items;
	}
	return 0;
}

/* Every bit of entries that a later one shows to have been persistent; the newest may be dropped. */
static void damage_is_found(void **state)
{
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;
	uint64_t last = 0, start;
	int64_t found;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	start = wal->tail;
	for (uint64_t n = 1; n < 12; n++)
		last = append_entry(wal, n);
	fth_pm_wal_close(wal);
	assert_ok(fth_pm_areas(pm, count_area, &found));
	assert_int_equal(found, 11);
	for (uint64_t at = start; at < last + 16 + 77; at++)
		for (unsigned bit = 0; bit < 8; bit += 3) {
			uint8_t *byte = pm->view.base + WAL_AT + WAL_DATA + at % CAPACITY;
			uint8_t before = *byte;

			*byte ^= (uint8_t)(1u << bit);
			assert_ok(fth_pm_areas(pm, count_area, &found));
			assert_int_equal(found, at < last ? -EBADMSG : 10);
			*byte = before;
		}
	for (uint64_t at = 8; at < sizeof(struct wal_header); at++) {
		pm->view.base[WAL_AT + at] ^= 4;
		assert_int_equal(fth_pm_wal_open(pm, WAL_AT, &wal), -EBADMSG);
		assert_non_null(strstr(fth_error_text(-EBADMSG), "wal"));
		pm->view.base[WAL_AT + at] ^= 4;
	}
	/* One record is enough; without either nothing is known. */
	for (unsigned slot = 1; slot < 3; slot++) {
		pm->view.base[WAL_AT + slot * WAL_RECORD] ^= 1;
		assert_ok(fth_pm_areas(pm, count_area, &found));
		assert_int_equal(found, slot == 1 ? 11 : -EBADMSG);
	}
	end_pm(pm, memory);
}

/* Rings full of anything: no length leads outside, and nothing takes long. */
static void garbage_is_no_entry(void **state)
{
	struct fth_rng rng = {9};
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	struct fth_pm_wal *wal;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	for (unsigned round = 0; round < 500; round++) {
		for (uint32_t at = 0; at < CAPACITY; at += 8) {
			uint64_t word = fth_rng_next(&rng);

			if (round % 2)
				word %= 600;
			memcpy(pm->view.base + WAL_AT + WAL_DATA + at, &word, 8);
		}
		wal = reopen(pm, wal);
		check_entries(wal, 0, 0);
	}
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

/* ---- threads ---- */

#define THREADS	   4u
#define PER_THREAD 3000u

struct bed {
	struct fth_pm_wal *wal;
	uint64_t consumed; /* entries */
	uint32_t wrong, ended;
};

struct producer {
	struct bed *bed;
	uint32_t number;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	uint64_t entry[4] = {p->number}, number, last = 0;

	for (uint64_t i = 0; i < PER_THREAD; i++) {
		int rc = 0;

		entry[1] = i;
		entry[2] = fth_mix64(i);
		/* Entries of 16 to 32 bytes; every third is waited for. */
		do {
			rc = fth_pm_wal_append(p->bed->wal, entry, 16 + (uint32_t)(i % 3) * 8,
					       &number);
			if (rc == -ENOSPC)
				sched_yield();
		} while (rc == -ENOSPC);
		if (rc == 0 && i % 3 == 0)
			rc = fth_pm_wal_wait(p->bed->wal, number);
		if (rc != 0 || number <= last)
			__atomic_add_fetch(&p->bed->wrong, 1, __ATOMIC_RELAXED);
		last = number;
	}
	if (fth_pm_wal_wait(p->bed->wal, number))
		__atomic_add_fetch(&p->bed->wrong, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&p->bed->ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Reads all entries, those of each thread in order, and trims now and then. */
static void *consume(void *arg)
{
	uint64_t next[THREADS] = {0}, cursor = 0, entry[4];
	struct bed *bed = arg;

	while (bed->consumed < THREADS * PER_THREAD) {
		int64_t n = fth_pm_wal_read(bed->wal, &cursor, entry, sizeof(entry));

		if (n == -ENOENT) {
			/* A full log whose last entries nobody has waited for. */
			if (cursor && fth_pm_wal_trim(bed->wal, cursor) < 0)
				bed->wrong++;
			sched_yield();
			continue;
		}
		if (n < 16 || entry[0] >= THREADS || entry[1] != next[entry[0]]++ ||
		    (n >= 24 && entry[2] != fth_mix64(entry[1])))
			bed->wrong++;
		if (++bed->consumed % 50 == 0 && fth_pm_wal_trim(bed->wal, cursor) < 0)
			bed->wrong++;
	}
	return NULL;
}

/* Another reader, which may be overtaken by the trims. */
static void *look_around(void *arg)
{
	struct bed *bed = arg;
	uint64_t cursor = 0, entry[4];

	while (__atomic_load_n(&bed->ended, __ATOMIC_ACQUIRE) < THREADS) {
		int64_t n = fth_pm_wal_read(bed->wal, &cursor, entry, sizeof(entry));

		if (n == -ESTALE)
			cursor = 0;
		else if (n >= 0 ? entry[0] >= THREADS : n != -ENOENT)
			__atomic_add_fetch(&bed->wrong, 1, __ATOMIC_RELAXED);
		if (n == -ENOENT)
			sched_yield();
	}
	return NULL;
}

static void run_threads(struct fth_pm *pm)
{
	struct producer producers[THREADS];
	pthread_t threads[THREADS + 2];
	struct bed bed = {0};

	assert_ok(fth_pm_wal_create(pm, WAL_AT, 2 * CAPACITY, &bed.wal));
	for (uint32_t i = 0; i < THREADS; i++) {
		producers[i] = (struct producer){&bed, i};
		assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
	}
	assert_int_equal(pthread_create(&threads[THREADS], NULL, consume, &bed), 0);
	assert_int_equal(pthread_create(&threads[THREADS + 1], NULL, look_around, &bed), 0);
	for (unsigned i = 0; i < THREADS + 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(bed.wrong, 0);
	assert_int_equal(bed.consumed, THREADS * PER_THREAD);
	fth_pm_wal_close(bed.wal);
}

static void threads_share_a_log(void **state)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);

	(void)state;
	run_threads(pm);
	end_pm(pm, memory);
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map("mem:1M", BYTES, &options, &pm));
	run_threads(pm);
	assert_ok(fth_pm_unmap(pm));
}

/* ---- processes ---- */

static void children_only_read(void **state)
{
	uint8_t entry[160];
	uint64_t cursor = 0, number;
	struct fth_pm_wal *wal, *other;
	void *memory;
	struct fth_pm *pm = new_pm(&memory);
	int status;
	pid_t pid;

	(void)state;
	assert_ok(fth_pm_wal_create(pm, WAL_AT, CAPACITY, &wal));
	number = append_entry(wal, 5);
	pthread_mutex_lock(&wal->lock); /* a thread that appends while another one forks */
	pid = fork();
	if (pid == 0) {
		int bad = fth_pm_wal_append(wal, entry, 1, NULL) != -EPERM;

		bad |= fth_pm_wal_wait(wal, number) != 0; /* needs nothing */
		bad |= fth_pm_wal_wait(wal, number + 1000) != -EPERM;
		bad |= fth_pm_wal_trim(wal, number) != -EPERM;
		bad |= fth_pm_wal_open(pm, WAL_AT, &other) != -EPERM;
		bad |= fth_pm_wal_create(pm, WAL_AT, CAPACITY, &other) != -EPERM;
		bad |= fth_pm_wal_read(wal, &cursor, entry, sizeof(entry)) != 35;
		cursor = number + 8;
		bad |= fth_pm_wal_read(wal, &cursor, entry, sizeof(entry)) != -EBADMSG;
		_exit(bad);
	}
	pthread_mutex_unlock(&wal->lock);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	check_entries(wal, 5, 6);
	fth_pm_wal_close(wal);
	end_pm(pm, memory);
}

static void read_only_memory_is_read(void **state)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	char path[64], name[80];
	struct fth_pm_wal *wal;
	struct fth_pm *pm;
	uint64_t number;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/fathom-wal-test-%d", (int)getpid());
	snprintf(name, sizeof(name), "file:%s", path);
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map(name, 1u << 20, &options, &pm));
	assert_ok(fth_pm_wal_create(pm, 0, 65536, &wal));
	number = append_entry(wal, 1);
	fth_pm_wal_close(wal);
	assert_ok(fth_pm_unmap(pm));
	options.flags = FTH_PM_READ_ONLY;
	assert_ok(fth_pm_map(name, 0, &options, &pm));
	assert_int_equal(fth_pm_wal_create(pm, 0, 65536, &wal), -EROFS);
	assert_ok(fth_pm_wal_open(pm, 0, &wal));
	check_entries(wal, 1, 2);
	assert_int_equal(fth_pm_wal_append(wal, &number, 8, NULL), -EROFS);
	assert_int_equal(fth_pm_wal_trim(wal, number), -EROFS);
	assert_ok(fth_pm_wal_wait(wal, number));
	fth_pm_wal_close(wal);
	assert_ok(fth_pm_unmap(pm));
	assert_ok(fth_pm_remove(name));
}

/* A device that fails: the wait says so, and so do later calls. */
static void errors_of_the_device_stay(void **state)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;
	uint64_t number = 0, last = 0;
	struct fth_pm_wal *wal;
	struct fth_pm *pm;
	int rc = 0;

	(void)state;
	options.flags = FTH_PM_CREATE;
	assert_ok(fth_pm_map("fault(mem:1M)?kind=write&nth=40", BYTES, &options, &pm));
	assert_ok(fth_pm_wal_create(pm, 0, 65536, &wal));
	for (unsigned i = 0; i < 100 && rc == 0; i++) {
		last = number;
		assert_ok(fth_pm_wal_append(wal, &i, sizeof(i), &number));
		rc = fth_pm_wal_wait(wal, number);
	}
	assert_int_equal(rc, -EIO);
	assert_int_equal(fth_pm_wal_wait(wal, number), -EIO);
	assert_ok(fth_pm_wal_wait(wal, last));
	assert_int_equal(fth_pm_wal_append(wal, &rc, sizeof(rc), &number), -EIO);
	assert_int_equal(fth_pm_wal_trim(wal, last), -EIO);
	fth_pm_wal_close(wal);
	assert_int_equal(fth_pm_unmap(pm), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_found_again),
		cmocka_unit_test(a_full_log_is_trimmed),
		cmocka_unit_test(what_does_not_exist_is_refused),
		cmocka_unit_test(a_wait_covers_all_before),
		cmocka_unit_test(torn_entries_hide_later_ones),
		cmocka_unit_test(sessions_end),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(garbage_is_no_entry),
		cmocka_unit_test(threads_share_a_log),
		cmocka_unit_test(children_only_read),
		cmocka_unit_test(read_only_memory_is_read),
		cmocka_unit_test(errors_of_the_device_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
