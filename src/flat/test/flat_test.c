/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions: bytes are those of the device, whatever moves; errors, holds, the budget, signals.
 * mover_test.c has pages that move in the background.
 */
#include "flat/test/flat_fixture.h"

#include "fathom/base/rng.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void every_policy_keeps_the_data(void **unused)
{
	(void)unused;
	for (int policy = FTH_FLAT_DEFAULT; policy < FTH_FLAT_POLICY_COUNT; policy++) {
		struct fth_flat *flat = open_region("mem:2M", BUDGET, (enum fth_flat_policy)policy);
		uint64_t *words = fth_flat_base(flat), n = fth_flat_size(flat) / 8;
		uint64_t *shadow = calloc(n, 8);
		struct fth_rng rng = {(uint64_t)policy + 1};

		assert_int_equal(n, (2u << 20) / 8);
		for (unsigned i = 0; i < 8000; i++) {
			uint64_t at = fth_rng_below(&rng, fth_rng_below(&rng, 2) ? n : n / 16);

			switch (fth_rng_below(&rng, 4)) {
			case 0:
				words[at] = shadow[at] = i;
				break;
			case 1:
				words[at] += 7;
				shadow[at] += 7;
				break;
			case 2:
				((uint8_t *)words)[at * 8 + 3] = (uint8_t)i;
				((uint8_t *)shadow)[at * 8 + 3] = (uint8_t)i;
				break;
			default:
				assert_true(words[at] == shadow[at]);
			}
		}
		check_memory(flat, BUDGET);
		assert_int_equal(memcmp(words, shadow, n * 8), 0); /* a vector at a time */
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_MISSES) > 0);
		assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_EVICTIONS) > 0);
		if (policy == FTH_FLAT_NEVER && fth_flat_emulates())
			assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_STORES) > 0);
		free(shadow);
		assert_ok(fth_flat_close(flat));
	}
}

/*
 * Forgotten pages are zero, in whatever state they were, and need no read; what is stored there
 * then is kept.
 */
static void discarded_pages_are_zero(void **unused)
{
	(void)unused;
	for (int policy = FTH_FLAT_COUNTERS; policy < FTH_FLAT_POLICY_COUNT; policy++) {
		struct fth_flat *flat = open_region("mem:2M", BUDGET, (enum fth_flat_policy)policy);
		uint8_t *bytes = fth_flat_base(flat);
		uint64_t pages = flat->pages, misses;
		struct fth_rng rng = {(uint64_t)policy + 1};

		memset(bytes, 0xee, fth_flat_size(flat));
		for (unsigned i = 0; i < 2000; i++) /* some in DRAM, some in the SSD-cache */
			assert_int_equal(bytes[fth_rng_below(&rng, pages * PAGE)], 0xee);
		discard_pages(flat, 0, pages);
		while (fth_flat_stat(flat, FTH_FLAT_STAT_PAGES_DRAM) > 0) /* on their way there */
			discard_pages(flat, 0, pages);
		check_memory(flat, 0);
		misses = fth_flat_stat(flat, FTH_FLAT_STAT_MISSES);
		for (uint64_t i = 0; i < pages * PAGE; i += 8)
			assert_int_equal(*(uint64_t *)(bytes + i), 0);
		assert_int_equal(fth_flat_stat(flat, FTH_FLAT_STAT_MISSES), misses);
		for (uint64_t page = 0; page < pages; page += 2)
			bytes[page * PAGE + 17] = (uint8_t)page;
		assert_ok(fth_flat_sync(flat, FTH_DEV_TIMEOUT));
		assert_ok(fth_flat_advise(flat, bytes, fth_flat_size(flat), FTH_FLAT_COLD));
		for (uint64_t page = 0; page < pages; page++)
			assert_int_equal(bytes[page * PAGE + 17], page % 2 ? 0 : (uint8_t)page);
		fth_flat_discard(flat);
	}
}

static void larger_pages_and_odd_sizes(void **unused)
{
	static const uint32_t pages[] = {4096, 16384, 65536};

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
		struct fth_flat *flat;
		uint8_t *bytes;
		uint64_t size;

		options.page = pages[i];
		options.offset = pages[i];
		options.length = 200 * (uint64_t)pages[i] + 512;
		assert_ok(fth_flat_open("mem:64M", 64 * (uint64_t)pages[i], &options, &flat));
		take_signals();
		bytes = fth_flat_base(flat);
		size = fth_flat_size(flat);
		assert_int_equal(size, options.length);
		assert_int_equal((uintptr_t)bytes % pages[i], 0);
		for (uint64_t at = 0; at < size; at += 511)
			bytes[at] = (uint8_t)(at * 31);
		bytes[size - 1] = 77;
		assert_ok(fth_flat_sync(flat, FTH_DEV_TIMEOUT));
		for (uint64_t at = 0; at < size - 1; at += 511)
			assert_int_equal(bytes[at], (uint8_t)(at * 31));
		assert_int_equal(bytes[size - 1], 77);
		assert_ok(fth_flat_close(flat));
	}
}

static void instructions_that_cross_pages(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", BUDGET, FTH_FLAT_COUNTERS);
	uint8_t *bytes = fth_flat_base(flat), *plain = malloc(2u << 20);
	struct fth_rng rng = {5};

	(void)unused;
	memset(plain, 0, 2u << 20);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t at = (1 + fth_rng_below(&rng, 500)) * PAGE - fth_rng_below(&rng, 64);
		uint64_t from = fth_rng_below(&rng, (2u << 20) - 20000),
			 length = fth_rng_below(&rng, 9000);
		uint64_t value = fth_rng_next(&rng);

		memcpy(bytes + at, &value, sizeof(value));
		memcpy(plain + at, &value, sizeof(value));
		__asm__ volatile("" ::: "memory");
		if (i % 8 == 0) { /* both operands in the region, and overlapping now and then */
			memmove(bytes + from, bytes + at, length < 2u << 20 ? length % 4096 : 0);
			memmove(plain + from, plain + at, length % 4096);
		}
		if (i % 16 == 0) {
			memset(bytes + from, (int)i, length);
			memset(plain + from, (int)i, length);
		}
		if (i % 64 == 0)
			assert_int_equal(memcmp(bytes + from, plain + from, length), 0);
	}
	assert_int_equal(memcmp(bytes, plain, 2u << 20), 0);
	free(plain);
	assert_ok(fth_flat_close(flat));
}

/* ---- threads ---- */

#define THREADS 8
#define WORDS	(8u * 512) /* per thread; one in eight words of 512 pages */

struct worker {
	struct fth_flat *flat;
	uint64_t *words, *shared, *shadow;
	unsigned number, rounds;
	uint64_t added;
};

static void *work(void *raw)
{
	struct worker *w = raw;
	struct fth_rng rng = {w->number + 100};

	for (unsigned i = 0; i < w->rounds; i++) {
		uint64_t slot = fth_rng_below(&rng, WORDS), *at = &w->words[slot * 64 + w->number];

		switch (fth_rng_below(&rng, 5)) {
		case 0:
			*at = w->shadow[slot] = fth_rng_next(&rng);
			break;
		case 1:
			*at += slot;
			w->shadow[slot] += slot;
			break;
		case 2:
			__atomic_fetch_add(&w->shared[fth_rng_below(&rng, 64) * 512], 3,
					   __ATOMIC_RELAXED);
			w->added += 3;
			break;
		case 3:
			if (fth_flat_load(w->flat, at, &(uint64_t){0}, 8) < 0)
				abort();
			break;
		default:
			if (*(volatile uint64_t *)at != w->shadow[slot])
				abort();
		}
	}
	return NULL;
}

static void threads_lose_nothing(void **unused)
{
	struct fth_flat *flat = open_region("mem:4M", 256 * PAGE, FTH_FLAT_COUNTERS);
	uint64_t *words = fth_flat_base(flat), sum = 0, added = 0;
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	(void)unused;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.flat = flat,
					     .words = words,
					     .shared = words + (3u << 20) / 8 + 8,
					     .shadow = calloc(WORDS, 8),
					     .number = i,
					     .rounds = getenv("FTH_LONG_TESTS") ? 300000 : 4000};
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 20; i++) { /* pages move, are written and dropped meanwhile */
		assert_ok(fth_flat_sync(flat, FTH_DEV_TIMEOUT));
		assert_ok(fth_flat_set_budget(flat, (i % 2 ? 256 : 128) * PAGE));
		check_memory(flat, (i % 2 ? 256 : 128) * PAGE);
		assert_ok(fth_flat_advise(flat, words + i * 4096, 64 * PAGE,
					  (enum fth_flat_advice)(i % 3)));
		usleep(2000);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		for (unsigned slot = 0; slot < WORDS; slot++)
			assert_true(words[slot * 64 + i] == workers[i].shadow[slot]);
		added += workers[i].added;
		free(workers[i].shadow);
	}
	for (unsigned i = 0; i < 64; i++)
		sum += words[(3u << 20) / 8 + 8 + i * 512];
	assert_true(sum == added);
	assert_ok(fth_flat_close(flat));
}

/* The same on a device that fails: an access that raised SIGBUS was not done, and is repeated. */
static void *work_on_failing_device(void *raw)
{
	struct worker *w = raw;
	struct fth_rng rng = {w->number + 200};
	volatile unsigned i = 0;

	for (; i < w->rounds; i = i + 1) {
		uint64_t slot = fth_rng_below(&rng, WORDS), value = fth_rng_next(&rng);
		volatile uint64_t *at = &w->words[slot * 64 + w->number];
		uint64_t *shared = &w->shared[fth_rng_below(&rng, 64) * 512];

		(void)sigsetjmp(jump, 1); /* each try begins here */
		switch (i % 3) {
		case 0:
			*at = value;
			w->shadow[slot] = value;
			break;
		case 1:
			__atomic_fetch_add(shared, 3, __ATOMIC_RELAXED);
			w->added += 3;
			break;
		default:
			if (*at != w->shadow[slot])
				abort();
		}
	}
	return NULL;
}

/* A page that goes and comes back, by advice, keeps one place in the ring, however often. */
static void coming_and_going_does_not_fill_the_ring(void **unused)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;
	char *base;

	(void)unused;
	options.policy = FTH_FLAT_ALWAYS;
	options.foreground = true;
	assert_ok(fth_flat_open("mem:16M", 64 * PAGE, &options, &flat));
	base = fth_flat_base(flat);
	assert_ok(fth_flat_advise(flat, base, 40 * PAGE, FTH_FLAT_HOT));
	for (unsigned i = 0; i < 400;
	     i++) { /* those that come back are in DRAM when the ring is full */
		uint64_t first = i < 20 ? 40 : 100, pages = i < 20 ? 6 : 1;

		assert_ok(fth_flat_advise(flat, base + first * PAGE, pages * PAGE, FTH_FLAT_COLD));
		assert_ok(fth_flat_advise(flat, base + first * PAGE, pages * PAGE, FTH_FLAT_HOT));
	}
	assert_ok(fth_flat_set_budget(flat, 33 * PAGE)); /* -EBUSY: pages were lost from the ring */
	assert_ok(fth_flat_set_budget(flat, 80 * PAGE));
	fth_flat_discard(flat);
}

static void failing_io_loses_nothing(void **unused)
{
	struct fth_flat *flat =
		open_region("fault(mem:4M)?kind=read,write&rate=0.05&count=2000&seed=7", 256 * PAGE,
			    FTH_FLAT_COUNTERS);
	uint64_t *words = fth_flat_base(flat), sum = 0, added = 0, word;
	struct worker workers[THREADS];
	pthread_t threads[THREADS];

	(void)unused;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.flat = flat,
					     .words = words,
					     .shared = words + (3u << 20) / 8 + 8,
					     .shadow = calloc(WORDS, 8),
					     .number = i,
					     .rounds = getenv("FTH_LONG_TESTS") ? 300000 : 4000};
		assert_int_equal(
			pthread_create(&threads[i], NULL, work_on_failing_device, &workers[i]), 0);
	}
	for (unsigned i = 0; i < 20; i++) { /* each of these may fail, too */
		(void)fth_flat_sync(flat, FTH_DEV_TIMEOUT);
		(void)fth_flat_set_budget(flat, (i % 2 ? 256 : 128) * PAGE);
		(void)fth_flat_advise(flat, words + i * 4096, 64 * PAGE,
				      (enum fth_flat_advice)(i % 3));
		usleep(2000);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	while (fth_flat_sync(flat, FTH_DEV_TIMEOUT) < 0)
		;
	for (unsigned i = 0; i < THREADS; i++) {
		for (unsigned slot = 0; slot < WORDS; slot++) {
			while (fth_flat_load(flat, &words[slot * 64 + i], &word, 8) < 0)
				;
			assert_true(word == workers[i].shadow[slot]);
		}
		added += workers[i].added;
		free(workers[i].shadow);
	}
	for (unsigned i = 0; i < 64; i++) {
		while (fth_flat_load(flat, &words[(3u << 20) / 8 + 8 + i * 512], &word, 8) < 0)
			;
		sum += word;
	}
	assert_true(sum == added);
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_ERRORS) > 0);
	while (fth_flat_close(flat) < 0)
		;
}

/* ---- durability ---- */

static void synced_bytes_are_on_the_device(void **unused)
{
	char path[] = "/tmp/flat_test.XXXXXX", uri[80];
	int fd = mkstemp(path);
	struct fth_flat *flat;
	uint32_t *words;

	(void)unused;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4u << 20), 0);
	close(fd);
	snprintf(uri, sizeof(uri), "file:%s", path);
	flat = open_region(uri, BUDGET, FTH_FLAT_COUNTERS);
	words = fth_flat_base(flat);
	for (uint32_t i = 0; i < 1u << 20; i += 128)
		words[i] = i + 1;
	assert_ok(fth_flat_sync(flat, FTH_DEV_TIMEOUT));
	words[0] = 99; /* not synced, and discarded */
	fth_flat_discard(flat);
	flat = open_region(uri, BUDGET, FTH_FLAT_COUNTERS);
	words = fth_flat_base(flat);
	for (uint32_t i = 128; i < 1u << 20; i += 128)
		assert_int_equal(words[i], i + 1);
	assert_true(words[0] == 1 || words[0] == 99);
	words[5] = 1234;
	assert_ok(fth_flat_close(flat)); /* close syncs */
	flat = open_region(uri, BUDGET, FTH_FLAT_COUNTERS);
	assert_int_equal(((uint32_t *)fth_flat_base(flat))[5], 1234);
	assert_ok(fth_flat_close(flat));
	unlink(path);
}

static uint64_t writes_of_sync(struct fth_flat *flat)
{
	uint64_t before = fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS);

	assert_ok(fth_flat_sync(flat, FTH_DEV_TIMEOUT));
	return fth_flat_stat(flat, FTH_FLAT_STAT_WRITE_BACKS) - before;
}

/* First and last pages of groups, in DRAM and in the SSD-cache. */
static void a_sync_writes_changed_pages_only(void **unused)
{
	static const uint64_t pages[] = {0, FLAT_GROUP - 1, FLAT_GROUP, 9 * FLAT_GROUP + 7, 16383};
	struct fth_flat *flat;
	uint8_t *bytes;

	(void)unused;
	for (int policy = FTH_FLAT_ALWAYS; policy <= FTH_FLAT_NEVER; policy++) {
		flat = open_region("mem:64M", BUDGET, (enum fth_flat_policy)policy);
		bytes = fth_flat_base(flat);
		for (unsigned round = 0; round < 3; round++) {
			for (unsigned i = 0; i < 5; i++)
				bytes[pages[i] * PAGE] += 3;
			assert_int_equal(writes_of_sync(flat), 5);
			assert_int_equal(writes_of_sync(flat), 0);
		}
		assert_ok(fth_flat_close(flat));
	}
	/*
	 * another sync has begun and cleared the bit of the group, and may not have written the
	 * page yet
	 */
	flat = open_region("mem:8M", BUDGET, FTH_FLAT_ALWAYS);
	bytes = fth_flat_base(flat);
	bytes[5 * PAGE] = 1;
	assert_true(futex_try_lock(&flat->sync_lock));
	flat->dirty_groups[0] = 0;
	assert_int_equal(writes_of_sync(flat), 1);
	futex_unlock(&flat->sync_lock);
	assert_ok(fth_flat_close(flat));
	/* what could not be written is written by the next one */
	flat = open_region("fault(mem:8M)?kind=write&nth=1&count=1", BUDGET, FTH_FLAT_ALWAYS);
	bytes = fth_flat_base(flat);
	bytes[700 * PAGE] = 1;
	assert_true(fth_flat_sync(flat, FTH_DEV_TIMEOUT) < 0);
	assert_int_equal(writes_of_sync(flat), 1);
	assert_ok(fth_flat_close(flat));
}

/*
 * Threads that sync at the same time: each finds its bytes on the device afterwards. The bytes are
 * there as soon as a write is submitted, so this cannot see a sync that returns before the write of
 * another one has completed (sync.c, 3): the test above does.
 */
struct syncer {
	struct fth_flat *flat;
	struct fth_dev *dev;
	uint64_t page;
};

static void *store_and_sync(void *raw)
{
	struct syncer *s = raw;
	uint64_t *words = (uint64_t *)((uint8_t *)fth_flat_base(s->flat) + s->page * PAGE);
	uint64_t *copy = aligned_alloc(PAGE, PAGE);

	for (uint64_t i = 1; i <= 100; i++) {
		words[3] = i;
		if (fth_flat_sync(s->flat, FTH_DEV_TIMEOUT) < 0 ||
		    fth_dev_read(s->dev, copy, PAGE, s->page * PAGE, FTH_DEV_TIMEOUT) < 0 ||
		    copy[3] != i) {
			free(copy);
			return raw;
		}
	}
	free(copy);
	return NULL;
}

static void syncs_at_the_same_time(void **unused)
{
	struct syncer syncers[4];
	pthread_t threads[4];
	struct fth_flat *flat;
	struct fth_dev *dev;
	void *wrong;

	(void)unused;
	assert_ok(fth_dev_open("mem:16M", &dev));
	assert_ok(fth_flat_open_dev(dev, BUDGET, NULL, &flat));
	take_signals();
	for (unsigned i = 0; i < 4; i++) {
		syncers[i] =
			(struct syncer){.flat = flat, .dev = dev, .page = i / 2 * 1000 + i % 2};
		assert_int_equal(pthread_create(&threads[i], NULL, store_and_sync, &syncers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &wrong), 0);
		assert_null(wrong);
	}
	assert_ok(fth_flat_close(flat));
	fth_dev_close(dev);
}

/* ---- errors ---- */

static void a_failed_read_is_a_bus_error_of_that_page(void **unused)
{
	struct fth_flat *flat = open_region("fault(mem:2M)?kind=read&from=40960&to=45056&rate=1",
					    BUDGET, FTH_FLAT_COUNTERS);
	volatile uint8_t *bytes = fth_flat_base(flat);
	uint8_t buffer[8];

	(void)unused;
	bus_errors = 0;
	if (sigsetjmp(jump, 1) == 0) {
		(void)bytes[40960 + 17];
		fail_msg("no signal");
	}
	assert_int_equal(bus_errors, 1);
	assert_int_equal(bytes[36864], 0);
	assert_int_equal(bytes[45056], 0);
	assert_int_equal(fth_flat_load(flat, (uint8_t *)fth_flat_base(flat) + 40960, buffer, 8),
			 -EIO);
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_ERRORS) >= 2);
	assert_ok(fth_flat_close(flat));
}

static void failed_writes_lose_nothing(void **unused)
{
	struct fth_flat *flat =
		open_region("fault(mem:2M)?kind=write&nth=1&count=40", BUDGET, FTH_FLAT_COUNTERS);
	uint64_t *words = fth_flat_base(flat);
	unsigned changed = 0;

	(void)unused;
	for (unsigned i = 0; i < 500; i++) {
		if (sigsetjmp(jump, 1) == 0) {
			words[i * 512] = i + 1;
			changed = i + 1;
		} else {
			break; /* no room, since nothing can be written */
		}
	}
	while (fth_flat_sync(flat, FTH_DEV_TIMEOUT) < 0)
		;
	for (unsigned i = 0; i < changed; i++)
		assert_int_equal(words[i * 512], i + 1);
	assert_true(fth_flat_stat(flat, FTH_FLAT_STAT_ERRORS) > 0);
	assert_ok(fth_flat_close(flat));
}

static void wild_pointers_are_not_ours(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", BUDGET, FTH_FLAT_COUNTERS);

	(void)unused;
	bus_errors = 0;
	if (sigsetjmp(jump, 1) == 0)
		*(volatile int *)(uintptr_t)(bus_errors + 16) = 1;
	assert_int_equal(bus_errors, 1);
	assert_ok(fth_flat_close(flat));
}

static void a_read_only_region(void **unused)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;
	volatile uint8_t *bytes;

	(void)unused;
	options.readonly = true;
	assert_ok(fth_flat_open("mem:2M", BUDGET, &options, &flat));
	take_signals();
	bytes = fth_flat_base(flat);
	assert_int_equal(bytes[8192], 0);
	bus_errors = 0;
	if (sigsetjmp(jump, 1) == 0)
		bytes[8192] = 1;
	assert_int_equal(bus_errors, 1);
	assert_int_equal(fth_flat_store(flat, (void *)bytes, "x", 1), -EROFS);
	assert_ok(fth_flat_close(flat));
}

/* ---- system calls ---- */

static void buffers_of_system_calls(void **unused)
{
	struct fth_flat *flat = open_region("mem:2M", BUDGET, FTH_FLAT_COUNTERS);
	uint8_t *bytes = fth_flat_base(flat);
	int ends[2];

	(void)unused;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], bytes + 100 * PAGE, 100), -1);
	assert_int_equal(errno, EFAULT);
	memset(bytes + 5000, 'x', 6000);
	assert_ok(fth_flat_hold(flat, bytes + 5000, 6000, false));
	assert_int_equal(write(ends[1], bytes + 5000, 6000), 6000);
	fth_flat_release(flat, bytes + 5000, 6000);
	assert_ok(fth_flat_hold(flat, bytes + 900000, 6000, true));
	for (unsigned i = 0; i < 400; i++) /* everything else moves */
		bytes[(4 + i % 200) * PAGE]++;
	assert_int_equal(read(ends[0], bytes + 900000, 6000), 6000);
	fth_flat_release(flat, bytes + 900000, 6000);
	for (unsigned i = 0; i < 6000; i++)
		assert_int_equal(bytes[900000 + i], bytes[5000 + i]);
	assert_int_equal(fth_flat_hold(flat, bytes, 1u << 20, false), -ENOMEM);
	assert_int_equal(fth_flat_hold(flat, bytes, 3u << 20, false), -ERANGE);
	check_memory(flat, BUDGET);
	close(ends[0]);
	close(ends[1]);
	assert_ok(fth_flat_close(flat));
}

/* ---- copies ---- */

static void gather_and_scatter(void **unused)
{
	struct fth_flat *flat = open_region("mem:8M", 512 * PAGE, FTH_FLAT_COUNTERS);
	uint8_t *bytes = fth_flat_base(flat);
	struct fth_rng rng = {3};
	void *at[1000];
	uint64_t in[1000], out[1000], one;

	(void)unused;
	for (unsigned i = 0; i < 1000; i++) {
		at[i] = bytes + (uint64_t)i * 8000 + fth_rng_below(&rng, 7000);
		in[i] = fth_rng_next(&rng);
	}
	assert_ok(fth_flat_scatter(flat, at, 1000, 8, in));
	assert_ok(fth_flat_gather(flat, (const void *const *)at, 1000, 8, out));
	assert_memory_equal(in, out, sizeof(in));
	for (unsigned i = 0; i < 1000; i += 7) {
		memcpy(&one, at[i], 8);
		assert_true(one == in[i]);
	}
	at[3] = bytes + (8u << 20) - 4;
	assert_int_equal(fth_flat_gather(flat, (const void *const *)at, 1000, 8, out), -ERANGE);
	check_memory(flat, 512 * PAGE);
	assert_ok(fth_flat_close(flat));
}

static void bad_options_are_refused(void **unused)
{
	struct fth_flat_options options = FTH_FLAT_OPTIONS_INIT;
	struct fth_flat *flat;

	(void)unused;
	assert_int_equal(fth_flat_open("mem:2M", 1000, NULL, &flat), -EINVAL);
	assert_null(flat);
	options.page = 5000;
	assert_int_equal(fth_flat_open("mem:2M", BUDGET, &options, &flat), -EINVAL);
	options.page = 0;
	options.offset = 1;
	assert_int_equal(fth_flat_open("mem:2M", BUDGET, &options, &flat), -EINVAL);
	options.offset = 0;
	options.length = 3u << 20;
	assert_int_equal(fth_flat_open("mem:2M", BUDGET, &options, &flat), -EINVAL);
	options.length = 0;
	options.cache = BUDGET;
	assert_int_equal(fth_flat_open("mem:2M", BUDGET, &options, &flat), -EINVAL);
	options.cache = 0;
	options.size = 8;
	assert_int_equal(fth_flat_open("mem:2M", BUDGET, &options, &flat), -EINVAL);
	assert_int_equal(fth_flat_open("file:/nowhere/at/all", BUDGET, NULL, &flat), -ENOENT);
	assert_ok(fth_flat_close(NULL));
	fth_flat_discard(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coming_and_going_does_not_fill_the_ring),
		cmocka_unit_test(every_policy_keeps_the_data),
		cmocka_unit_test(discarded_pages_are_zero),
		cmocka_unit_test(larger_pages_and_odd_sizes),
		cmocka_unit_test(instructions_that_cross_pages),
		cmocka_unit_test(threads_lose_nothing),
		cmocka_unit_test(failing_io_loses_nothing),
		cmocka_unit_test(synced_bytes_are_on_the_device),
		cmocka_unit_test(a_sync_writes_changed_pages_only),
		cmocka_unit_test(syncs_at_the_same_time),
		cmocka_unit_test(a_failed_read_is_a_bus_error_of_that_page),
		cmocka_unit_test(failed_writes_lose_nothing),
		cmocka_unit_test(wild_pointers_are_not_ours),
		cmocka_unit_test(a_read_only_region),
		cmocka_unit_test(buffers_of_system_calls),
		cmocka_unit_test(gather_and_scatter),
		cmocka_unit_test(bad_options_are_refused),
	};

	return FLAT_RUN(tests);
}
