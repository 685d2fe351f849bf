/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gathering elements that are not in the cache, against the load of `fathom bench dev` on the same
 * device at the same depth. The device holds stamped blocks (stamp.h): the word at the beginning of
 * a sector is its block's address, and that is what is gathered and checked.
 *
 * The data is many times the cache, but now and then an element is there already. Only blocks that
 * were brought in count as ours.
 */
#include "cache_parts.h"

#include "cli.h"
#include "dev/dev_load.h"
#include "common/stamp.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH_SHARE	16 /* of the depth is reaped and submitted at once, as bench dev does */
#define WORDS_IN_BLOCK	(FTH_STAMP_BLOCK / 8)
#define WORDS_IN_SECTOR (FTH_STAMP_SECTOR / 8)

struct miss {
	struct fth_bench_miss *bench;
	struct fth_dev_load load;
	struct fth_cache *cache;
	FTH_ARRAY(uint64_t) array;
	struct fth_rng rng;
	uint64_t *indices, *values;
};

/* ---- the peer ---- */

static int judge(struct miss *miss, int rc, const struct fth_dev_load_result *result)
{
	if (rc < 0)
		return rc;
	if (fth_cli_stopped())
		return -EINTR;
	if (result->wrong || result->errors)
		return fth_fail(EILSEQ, "of %llu blocks, %llu have wrong data and %llu failed",
				(unsigned long long)result->done, (unsigned long long)result->wrong,
				(unsigned long long)result->errors);
	miss->bench->checked += result->done;
	return 0;
}

static int run_peer(struct miss *miss, double *rate)
{
	struct fth_dev_load_kind kind = {.depth = (unsigned)miss->bench->depth};
	struct fth_dev_load_result result;
	int rc;

	kind.batch = kind.depth >= BATCH_SHARE ? kind.depth / BATCH_SHARE : 1;
	rc = fth_dev_load_run(&miss->load, &kind, (uint64_t)(miss->bench->seconds * 1e9), &result);
	*rate = (double)result.done * 1e9 / (double)result.ns;
	return judge(miss, rc, &result);
}

/* ---- ours ---- */

static int gather_once(struct miss *miss)
{
	struct fth_bench_miss *bench = miss->bench;
	int rc;

	for (uint64_t k = 0; k < bench->batch; k++) {
		uint64_t random = fth_rng_next(&miss->rng);
		uint64_t sector = random % FTH_STAMP_SECTORS;

		miss->indices[k] = fth_rng_below(&miss->rng, miss->load.blocks) * WORDS_IN_BLOCK +
				   sector * WORDS_IN_SECTOR;
		miss->values[k] = UINT64_MAX;
	}
	rc = fth_gather(miss->array, miss->indices, bench->batch, miss->values);
	for (uint64_t k = 0; k < bench->batch && rc == 0; k++)
		if (miss->values[k] != miss->indices[k] / WORDS_IN_BLOCK * FTH_STAMP_BLOCK)
			rc = fth_fail(EILSEQ, "element %llu holds %016llx",
				      (unsigned long long)miss->indices[k],
				      (unsigned long long)miss->values[k]);
	bench->checked += bench->batch;
	return rc;
}

static int run_ours(struct miss *miss, double *rate)
{
	uint64_t before = fth_cache_stat(miss->cache, FTH_CACHE_MISSES), start = fth_now_ns(), ns;
	int rc = 0;

	do {
		rc = fth_cli_stopped() ? -EINTR : gather_once(miss);
		ns = fth_now_ns() - start;
	} while (rc == 0 && (double)ns < miss->bench->seconds * 1e9);
	*rate = (double)(fth_cache_stat(miss->cache, FTH_CACHE_MISSES) - before) * 1e9 / (double)ns;
	return rc;
}

static int measure(struct miss *miss)
{
	struct fth_bench_miss *bench = miss->bench;
	double ours, peer;
	int rc = 0;

	for (uint64_t i = 0; i < bench->rounds && rc == 0; i++) {
		fth_cli_progress("misses", i, bench->rounds);
		rc = run_ours(miss, &ours);
		if (rc == 0)
			rc = run_peer(miss, &peer);
		if (rc == 0)
			fth_rounds_add(&bench->lines, ours, peer);
	}
	fth_cli_progress_end();
	bench->hits = fth_cache_stat(miss->cache, FTH_CACHE_HITS);
	bench->misses = fth_cache_stat(miss->cache, FTH_CACHE_MISSES);
	bench->requests = fth_cache_stat(miss->cache, FTH_CACHE_READ_REQUESTS);
	bench->evictions = fth_cache_stat(miss->cache, FTH_CACHE_EVICTIONS);
	return rc;
}

/* ---- set up ---- */

static int open_device(struct miss *miss)
{
	struct fth_bench_miss *bench = miss->bench;
	struct fth_dev_load_result result;
	int rc = fth_dev_open(bench->uri, &miss->load.dev);

	if (rc < 0)
		return rc;
	bench->size = fth_dev_info(miss->load.dev)->size;
	miss->load.blocks = bench->size / FTH_STAMP_BLOCK;
	miss->load.generations = calloc(miss->load.blocks, sizeof(uint32_t));
	if (!miss->load.generations)
		return -ENOMEM;
	rc = fth_dev_load_fill(&miss->load, &result);
	return judge(miss, rc, &result);
}

static int open_array(struct miss *miss)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_array_options readonly = {.size = sizeof(struct fth_array_options),
					     .readonly = true};
	int rc;

	options.memory = miss->bench->memory;
	options.line = FTH_STAMP_BLOCK;
	options.depth = (uint32_t)miss->bench->depth;
	miss->indices = malloc(miss->bench->batch * sizeof(uint64_t));
	miss->values = malloc(miss->bench->batch * sizeof(uint64_t));
	if (!miss->indices || !miss->values)
		return -ENOMEM;
	rc = fth_cache_open(&options, &miss->cache);
	if (rc < 0)
		return rc;
	return fth_array_open_dev(miss->cache, miss->load.dev, sizeof(uint64_t), &readonly,
				  &miss->array.base);
}

int fth_bench_cache_miss(struct fth_bench_miss *bench)
{
	struct miss miss = {.bench = bench};
	int rc = open_device(&miss), end;

	if (rc == 0)
		rc = open_array(&miss);
	if (rc == 0)
		rc = measure(&miss);
	end = fth_array_finish(&miss.array.base);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&miss.cache);
	if (!miss.cache)
		fth_dev_close(miss.load.dev);
	free(miss.load.generations);
	free(miss.indices);
	free(miss.values);
	return rc < 0 ? rc : end;
}
