/* SPDX-License-Identifier: BSD-2-Clause */
/* What the cache's tests share: a device, a cache on it, and bytes that say where they belong. */
#ifndef FATHOM_CACHE_FIXTURE_H
#define FATHOM_CACHE_FIXTURE_H

#include "fathom/base/rng.h"
#include "fathom/cache.h"
#include "fathom/hd/wait.h"

#include <stdlib.h>

#define CACHE_SECOND 1000000000u

struct cache_fixture {
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_cache_range *range;
	uint32_t line;
};

/* What byte-sized counter k of the device holds at first. */
static inline uint64_t cache_stamp(uint64_t k)
{
	return fth_mix64(k + 1);
}

/* Fill a device with stamps, 8 bytes each. */
static inline void cache_fixture_stamp(struct fth_dev *dev)
{
	uint64_t bytes = fth_dev_info(dev)->size, *words = malloc(bytes);

	assert_non_null(words);
	for (uint64_t i = 0; i < bytes / 8; i++)
		words[i] = cache_stamp(i);
	assert_int_equal(fth_dev_write(dev, words, bytes, 0, FTH_DEV_TIMEOUT), 0);
	free(words);
}

/* A stamped device and a cache of `frames` lines over all of it. */
static inline void cache_fixture_open(struct cache_fixture *f, const char *uri,
				      struct fth_cache_options options, uint32_t frames)
{
	f->line = options.line ? options.line : 4096;
	options.memory = (uint64_t)frames * f->line;
	assert_int_equal(fth_dev_open(uri, &f->dev), 0);
	cache_fixture_stamp(f->dev);
	assert_int_equal(fth_cache_open(&options, &f->cache), 0);
	assert_int_equal(fth_cache_add(f->cache, f->dev, 0, FTH_CACHE_TO_END, 0, &f->range), 0);
}

static inline void cache_fixture_close(struct cache_fixture *f)
{
	assert_int_equal(fth_cache_close(f->cache), 0);
	fth_dev_close(f->dev);
}

/* Read 8-byte word k through the cache. */
static inline int cache_fixture_get(struct cache_fixture *f, uint64_t k, uint64_t *out)
{
	struct fth_cache_pin pin;
	int rc = fth_cache_pin(f->range, k * 8 / f->line, FTH_CACHE_READ,
			       fth_deadline_ns(10ull * CACHE_SECOND), &pin);

	if (rc < 0)
		return rc;
	*out = *(uint64_t *)(pin.data + k * 8 % f->line);
	fth_cache_unpin(&pin, false);
	return 0;
}

static inline int cache_fixture_set(struct cache_fixture *f, uint64_t k, uint64_t value)
{
	struct fth_cache_pin pin;
	int rc = fth_cache_pin(f->range, k * 8 / f->line, FTH_CACHE_WRITE,
			       fth_deadline_ns(10ull * CACHE_SECOND), &pin);

	if (rc < 0)
		return rc;
	*(uint64_t *)(pin.data + k * 8 % f->line) = value;
	fth_cache_unpin(&pin, true);
	return 0;
}

#endif
