/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache that holds all of an array, against the same bytes in plain memory, both on huge pages
 * where there are any. Element i holds a number that follows from i, and both sides add up what
 * they read: the sums must be equal.
 */
#include "cache_parts.h"

#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#define HUGE_PAGE ((uint64_t)2 << 20)
#define GATHER	  1024u /* elements */
#define CHUNK	  4096u /* elements written at once while filling */

typedef FTH_ARRAY(uint64_t) u64_array;

struct hot {
	struct fth_bench_hot *bench;
	uint64_t *plain;
	uint64_t n;
	struct fth_cache *cache;
	u64_array array;
};

static uint64_t value_of(uint64_t i)
{
	return fth_mix64(i + 1);
}

/* ---- the loops: not inlined, so that neither sees the other's data ---- */

static __attribute__((noinline)) uint64_t sum_plain(const uint64_t *plain, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += plain[i];
	return sum;
}

/* Line by line: the cursor hands out what is in memory, and a plain loop goes over it. */
static __attribute__((noinline)) int sum_spans(const struct hot *hot, uint64_t *sum_out)
{
	FTH_CURSOR(uint64_t) cursor;
	uint64_t sum = 0, n, count = hot->n;
	int rc = 0;

	fth_start(&cursor, hot->array, FTH_CACHE_READ);
	for (uint64_t i = 0; i < count && rc == 0; i += n) {
		const uint64_t *at = fth_at_span(&cursor, i, &n, &rc);

		for (uint64_t k = 0; k < n; k++)
			sum += at[k];
	}
	fth_cursor_close(&cursor.base);
	*sum_out = sum;
	return rc;
}

/* Element by element. */
static __attribute__((noinline)) int sum_elements(const struct hot *hot, uint64_t *sum_out)
{
	FTH_CURSOR(uint64_t) cursor;
	uint64_t sum = 0, value, count = hot->n;
	int rc = 0;

	fth_start(&cursor, hot->array, FTH_CACHE_READ);
	for (uint64_t i = 0; i < count; i++) {
		rc = fth_cursor_get(&cursor, i, &value);
		if (rc < 0)
			break;
		sum += value;
	}
	fth_cursor_close(&cursor.base);
	*sum_out = sum;
	return rc;
}

static __attribute__((noinline)) uint64_t random_plain(const uint64_t *plain, uint64_t n,
						       uint64_t gets, uint64_t seed)
{
	struct fth_rng rng = {seed};
	uint64_t sum = 0;

	for (uint64_t k = 0; k < gets; k++)
		sum += plain[fth_rng_below(&rng, n)];
	return sum;
}

static __attribute__((noinline)) int random_gets(struct hot *hot, uint64_t gets, uint64_t seed,
						 uint64_t *sum_out)
{
	const u64_array array = hot->array;
	struct fth_rng rng = {seed};
	uint64_t sum = 0, value, n = fth_count(array);

	for (uint64_t k = 0; k < gets; k++) {
		int rc = fth_get(array, fth_rng_below(&rng, n), &value);

		if (rc < 0)
			return rc;
		sum += value;
	}
	*sum_out = sum;
	return 0;
}

/* The same elements, some at a time. */
static __attribute__((noinline)) int random_gathers(struct hot *hot, uint64_t gets, uint64_t seed,
						    uint64_t *sum_out)
{
	uint64_t indices[GATHER], values[GATHER], sum = 0, n;
	struct fth_rng rng = {seed};
	int rc = 0;

	for (uint64_t k = 0; k < gets && rc == 0; k += n) {
		n = gets - k < GATHER ? gets - k : GATHER;
		for (uint64_t j = 0; j < n; j++)
			indices[j] = fth_rng_below(&rng, hot->n);
		rc = fth_gather(hot->array, indices, n, values);
		for (uint64_t j = 0; j < n && rc == 0; j++)
			sum += values[j];
	}
	*sum_out = sum;
	return rc;
}

/* ---- rounds ---- */

static int compare(const char *what, uint64_t ours, uint64_t peer)
{
	if (ours == peer)
		return 0;
	return fth_fail(EILSEQ, "%s: the sums differ, %016llx and %016llx", what,
			(unsigned long long)ours, (unsigned long long)peer);
}

static int cursor_round(struct hot *hot, int (*sum)(const struct hot *, uint64_t *),
			struct fth_rounds *rounds)
{
	uint64_t start = fth_now_ns(), middle, end, ours, peer, bytes = hot->n * 8;
	int rc = sum(hot, &ours);

	middle = fth_now_ns();
	peer = sum_plain(hot->plain, hot->n);
	end = fth_now_ns();
	fth_rounds_add(rounds, (double)bytes / (double)(middle - start),
		       (double)bytes / (double)(end - middle));
	return rc < 0 ? rc : compare("cursor", ours, peer);
}

static int random_round(struct hot *hot, uint64_t seed,
			int (*get)(struct hot *, uint64_t, uint64_t, uint64_t *),
			struct fth_rounds *rounds)
{
	uint64_t start = fth_now_ns(), middle, end, ours, peer, gets = hot->bench->gets;
	int rc = get(hot, gets, seed, &ours);

	middle = fth_now_ns();
	peer = random_plain(hot->plain, hot->n, gets, seed);
	end = fth_now_ns();
	fth_rounds_add(rounds, (double)gets * 1e3 / (double)(middle - start),
		       (double)gets * 1e3 / (double)(end - middle));
	return rc < 0 ? rc : compare("random gets", ours, peer);
}

static int measure(struct hot *hot)
{
	struct fth_bench_hot *bench = hot->bench;
	uint64_t hits = fth_cache_stat(hot->cache, FTH_CACHE_HITS);
	uint64_t misses = fth_cache_stat(hot->cache, FTH_CACHE_MISSES);
	int rc = 0;

	for (uint64_t i = 0; i < bench->rounds && rc == 0; i++) {
		fth_cli_progress("hot", i, bench->rounds);
		rc = fth_cli_stopped() ? -EINTR : random_round(hot, i, random_gets, &bench->random);
		if (rc == 0)
			rc = random_round(hot, i, random_gathers, &bench->gather);
	}
	bench->hits = fth_cache_stat(hot->cache, FTH_CACHE_HITS) - hits;
	bench->misses = fth_cache_stat(hot->cache, FTH_CACHE_MISSES) - misses;
	for (uint64_t i = 0; i < bench->rounds && rc == 0; i++)
		rc = fth_cli_stopped() ? -EINTR : cursor_round(hot, sum_spans, &bench->cursor);
	for (uint64_t i = 0; i < bench->rounds && rc == 0; i++)
		rc = fth_cli_stopped() ? -EINTR : cursor_round(hot, sum_elements, &bench->element);
	fth_cli_progress_end();
	if (rc == 0 && (bench->misses || bench->hits != 2 * bench->rounds * bench->gets))
		rc = fth_fail(EILSEQ, "%llu hits and %llu misses were counted for %llu gets",
			      (unsigned long long)bench->hits, (unsigned long long)bench->misses,
			      (unsigned long long)(2 * bench->rounds * bench->gets));
	return rc;
}

/* ---- set up ---- */

static int fill(struct hot *hot)
{
	uint64_t chunk[CHUNK];
	int rc = 0;

	for (uint64_t at = 0; at < hot->n && rc == 0; at += CHUNK) {
		uint64_t n = hot->n - at < CHUNK ? hot->n - at : CHUNK;

		for (uint64_t k = 0; k < n; k++)
			hot->plain[at + k] = chunk[k] = value_of(at + k);
		rc = fth_cli_stopped() ? -EINTR : fth_write(hot->array, at, n, chunk);
	}
	return rc < 0 ? rc : fth_array_flush(hot->array.base, 0, FTH_ARRAY_ALL);
}

/* A line becomes hot when it is used again. */
static int warm_up(struct hot *hot)
{
	uint64_t sum;
	int rc = sum_spans(hot, &sum);

	return rc < 0 ? rc : sum_spans(hot, &sum);
}

static int open_cache(struct hot *hot)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	char uri[64];
	int rc;

	options.line = (uint32_t)hot->bench->line;
	/* A little more than the data, so that nothing has to go. */
	options.memory = hot->bench->size + hot->bench->size / 64 + 64 * options.line;
	rc = fth_cache_open(&options, &hot->cache);
	if (rc < 0)
		return rc;
	snprintf(uri, sizeof(uri), "mem:%llu", (unsigned long long)hot->bench->size);
	return fth_open(&hot->array, hot->cache, uri, NULL);
}

static uint64_t *plain_memory(uint64_t size)
{
	void *memory = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t at = (uintptr_t)memory;

	if (memory == MAP_FAILED)
		return NULL;
	at = (at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	/* Only a matter of speed, and the cache asks for them as well. */
	madvise((void *)at, size, MADV_HUGEPAGE);
	/* The rest of the mapping goes with the process. */
	return (uint64_t *)at;
}

int fth_bench_cache_hot(struct fth_bench_hot *bench)
{
	struct hot hot = {.bench = bench, .n = bench->size / sizeof(uint64_t)};
	int rc, end;

	hot.plain = plain_memory(bench->size);
	if (!hot.plain)
		return -ENOMEM;
	rc = open_cache(&hot);
	if (rc == 0)
		rc = fill(&hot);
	if (rc == 0)
		rc = warm_up(&hot);
	if (rc == 0)
		rc = measure(&hot);
	end = fth_array_finish(&hot.array.base);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&hot.cache);
	munmap(hot.plain, bench->size);
	return rc < 0 ? rc : end;
}
