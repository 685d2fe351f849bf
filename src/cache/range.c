/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges.
 *
 * Others find a range by the number in a frame's tag. So a range that is removed is first emptied,
 * then its number is taken back, and its table is freed when nobody can still be looking at it:
 * threads that turn the hand hold a lane meanwhile, and those that go through all frames hold
 * cache->tables for reading.
 */
#include "cache_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static size_t table_bytes(const struct fth_cache_range *range)
{
	return (size_t)range->lines * sizeof(*range->words);
}

/* Zeroed by the system, page by page as it is used. */
static int make_table(struct fth_cache_range *range)
{
	void *table = mmap(NULL, table_bytes(range), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (table == MAP_FAILED)
		return -ENOMEM;
	if (table_bytes(range) >= (2u << 20))
		madvise(table, table_bytes(range), MADV_HUGEPAGE);
	range->words = table;
	return 0;
}

static int check_place(const struct fth_cache *cache, const struct fth_dev_info *info,
		       uint64_t offset, uint64_t length)
{
	if (cache->line_size % info->block)
		return fth_fail(EINVAL, "lines of %u bytes on a device with blocks of %u",
				cache->line_size, info->block);
	if (offset % info->block || length % info->block)
		return fth_fail(EINVAL, "a range must begin and end on blocks of %u bytes",
				info->block);
	if (length == 0)
		return fth_fail(EINVAL, "a range must not be empty");
	if (offset > info->size || length > info->size - offset)
		return fth_fail(ERANGE, "the device has %llu bytes: no %llu from %llu on",
				(unsigned long long)info->size, (unsigned long long)length,
				(unsigned long long)offset);
	if (length >> cache->line_shift >= CACHE_LINES_MAX)
		return fth_fail(EINVAL, "too many lines");
	return 0;
}

/* With cache->lock held: a free number, or an error if the range may not be. */
static int find_number(struct fth_cache *cache, const struct fth_dev *dev,
		       const struct fth_cache_range *wanted)
{
	int number = -ENOSPC;

	for (uint32_t i = CACHE_RANGES_MAX; i-- > 0;) {
		const struct fth_cache_range *other = cache->ranges[i];

		if (!other) {
			number = (int)i;
			continue;
		}
		if (cache_port_dev(other->port) != dev || (other->readonly && wanted->readonly))
			continue;
		if (other->offset < wanted->offset + wanted->bytes &&
		    wanted->offset < other->offset + other->bytes)
			return fth_fail(EEXIST, "another range of the cache has part of it");
	}
	return number < 0 ? fth_fail(ENOSPC, "a cache has at most %d ranges", CACHE_RANGES_MAX)
			  : number;
}

/* With cache->lock held. */
static int enter(struct fth_cache *cache, struct fth_dev *dev, struct fth_cache_range *range)
{
	int rc = find_number(cache, dev, range);

	if (rc < 0)
		return rc;
	range->number = (uint32_t)rc;
	if (!range->readonly) {
		rc = cache_worker_start(cache);
		if (rc < 0)
			return rc;
	}
	range->port = cache_port_get(cache, dev);
	if (!range->port)
		return -ENOMEM;
	/* release: the range is complete before it is found there. */
	__atomic_store_n(&cache->ranges[range->number], range, __ATOMIC_RELEASE);
	return 0;
}

static void range_free(struct fth_cache_range *range)
{
	if (range->words)
		munmap(range->words, table_bytes(range));
	free(range);
}

int fth_cache_add(struct fth_cache *cache, struct fth_dev *dev, uint64_t offset, uint64_t length,
		  unsigned flags, struct fth_cache_range **out)
{
	const struct fth_dev_info *info = fth_dev_info(dev);
	struct fth_cache_range *range;
	int rc;

	*out = NULL;
	if (length == FTH_CACHE_TO_END && offset <= info->size)
		length = info->size - offset;
	rc = check_place(cache, info, offset, length);
	if (rc < 0)
		return rc;
	range = calloc(1, sizeof(*range));
	if (!range)
		return -ENOMEM;
	range->cache = cache;
	range->offset = offset;
	range->bytes = length;
	range->lines = (length + cache->line_size - 1) >> cache->line_shift;
	range->readonly = flags & FTH_CACHE_READONLY;
	if (!cache->frame_words)
		rc = make_table(range);
	if (rc == 0) {
		pthread_mutex_lock(&cache->lock);
		rc = enter(cache, dev, range);
		pthread_mutex_unlock(&cache->lock);
	}
	if (rc < 0)
		range_free(range);
	else
		*out = range;
	return rc;
}

int fth_cache_remove(struct fth_cache_range *range)
{
	struct fth_cache *cache;
	uint64_t deadline;
	int rc;

	if (!range)
		return 0;
	cache = range->cache;
	deadline = fth_deadline_ns(cache->timeout_ns);
	rc = fth_cache_flush(range, 0, range->lines);
	if (rc == 0)
		rc = cache_empty_range(range, deadline);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&cache->lock);
	__atomic_store_n(&cache->ranges[range->number], NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&cache->lock);
	rc = cache_lanes_quiesce(cache, FTH_NEVER); /* ends: each borrower has its own deadline */
	pthread_rwlock_wrlock(&cache->tables);
	pthread_rwlock_unlock(&cache->tables);
	pthread_mutex_lock(&cache->lock);
	cache_port_put(range->port);
	pthread_mutex_unlock(&cache->lock);
	range_free(range);
	return rc;
}

void cache_range_discard(struct fth_cache_range *range)
{
	cache_port_put(range->port);
	range_free(range);
}

struct fth_cache *fth_cache_of(const struct fth_cache_range *range)
{
	return range->cache;
}

struct fth_dev *fth_cache_dev(const struct fth_cache_range *range)
{
	return cache_port_dev(range->port);
}

uint64_t fth_cache_lines(const struct fth_cache_range *range)
{
	return range->lines;
}

uint64_t fth_cache_bytes(const struct fth_cache_range *range)
{
	return range->bytes;
}

bool fth_cache_readonly(const struct fth_cache_range *range)
{
	return range->readonly;
}

void fth_cache_view(const struct fth_cache_range *range, struct fth_cache_view *out)
{
	out->words = range->words;
	out->frames = range->cache->data;
	out->line_shift = range->cache->line_shift;
	out->bytes = range->bytes;
	out->stats = range->cache->stats;
	out->peeks = CACHE_PEEKS;
}
