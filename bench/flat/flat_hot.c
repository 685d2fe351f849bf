/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random updates of pages that are in DRAM, in a region and in plain memory: a region must cost
 * nothing then.
 */
#include "flat_rows.h"

#include "cli.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#define HOT_SIZE (32u << 20)
#define UPDATES	 20000000u

static int update_all(uint64_t *words, uint64_t n, uint64_t seed, uint64_t updates)
{
	struct fth_rng rng = {seed};

	for (uint64_t i = 0; i < updates; i++) {
		words[fth_rng_below(&rng, n)] ^= i;
		if (i % 65536 == 0 && fth_cli_stopped())
			return -EINTR;
	}
	return 0;
}

/* Updates per second; the same updates once more leave zeroes. */
static int measure(uint64_t *words, uint64_t seed, uint64_t updates, double *rate)
{
	uint64_t n = HOT_SIZE / sizeof(*words), start, left = 0;
	int rc;

	for (uint64_t i = 0; i < n; i += 512) /* all pages are there, and may be stored to */
		words[i] = 0;
	start = fth_now_ns();
	rc = update_all(words, n, seed, updates);
	*rate = (double)updates * 1e9 / (double)(fth_now_ns() - start);
	if (rc == 0)
		rc = update_all(words, n, seed, updates);
	for (uint64_t i = 0; i < n && rc == 0; i++)
		left |= words[i];
	return rc == 0 && left ? fth_fail(EIO, "hot: wrong values") : rc;
}

static int measure_flat(uint64_t seed, uint64_t updates, double *rate)
{
	struct fth_flat *flat;
	char uri[40];
	int rc;

	snprintf(uri, sizeof(uri), "mem:%u", HOT_SIZE);
	rc = fth_flat_open(uri, 2 * (uint64_t)HOT_SIZE, NULL, &flat);
	if (rc < 0)
		return rc;
	rc = fth_flat_advise(flat, fth_flat_base(flat), HOT_SIZE, FTH_FLAT_HOT);
	if (rc == 0)
		rc = measure(fth_flat_base(flat), seed, updates, rate);
	fth_flat_discard(flat);
	return rc;
}

/* Plain memory in small pages, as those of a region are. */
static int measure_plain(uint64_t seed, uint64_t updates, double *rate)
{
	uint64_t *words =
		mmap(NULL, HOT_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc;

	if (words == MAP_FAILED)
		return -ENOMEM;
	(void)madvise(words, HOT_SIZE, MADV_NOHUGEPAGE);
	rc = measure(words, seed, updates, rate);
	munmap(words, HOT_SIZE);
	return rc;
}

int flat_hot_rows(struct flat_bench *b)
{
	static const char *const sides[FLAT_SIDES] = {"ours", "memory"};
	struct flat_row *row = flat_row_add(b, "hot", "updates, all pages in DRAM", sides);
	uint64_t updates = b->smallest ? UPDATES / 100 : UPDATES;
	int rc = row ? 0 : -ENOMEM;

	for (uint64_t round = 0; round < b->rounds && rc == 0; round++) {
		rc = measure_flat(b->seed + round, updates, &row->rate[0][round]);
		if (rc == 0)
			rc = measure_plain(b->seed + round, updates, &row->rate[1][round]);
	}
	return rc;
}
