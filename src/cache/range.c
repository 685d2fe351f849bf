/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges.
 *
 * Others find a range by the number in a frame's tag. A range is removed in steps, each of which
 * may fail and is then undone, so that the range is as before, though empty:
 *
 *	emptied		its lines are written, or discarded, and dropped
 *	hidden		cache->ranges has it no more: nobody finds it. Its number stays taken.
 *	left		threads that had found it before are through: those that turn the hand or go
 *			through all frames (loans, tables), and those that flush all ranges
 *			(holders)
 *	idle		if it is the last one of its device: no request is in flight
 *	gone		its number is free, the device's channels are closed, it is freed
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
		return fth_fail(EINVAL,
				"cache: line size %u is not a multiple of the device's block of %u",
				cache->line_size, info->block);
	if (offset % info->block || length % info->block)
		return fth_fail(EINVAL,
				"cache: range of %llu bytes at %llu: both must be multiples of the "
				"device's block of %u",
				(unsigned long long)length, (unsigned long long)offset,
				info->block);
	if (length == 0)
		return fth_fail(EINVAL, "cache: range of 0 bytes at %llu",
				(unsigned long long)offset);
	if (offset > info->size || length > info->size - offset)
		return fth_fail(ERANGE, "cache: range of %llu bytes at %llu: the device has %llu",
				(unsigned long long)length, (unsigned long long)offset,
				(unsigned long long)info->size);
	if (length >> cache->line_shift >= CACHE_LINES_MAX)
		return fth_fail(EINVAL, "cache: range of %llu bytes: more than 2^%d lines of %u",
				(unsigned long long)length, CACHE_TAG_SHIFT, cache->line_size);
	return 0;
}

static bool overlap(const struct fth_cache_range *a, const struct fth_cache_range *b)
{
	return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* With cache->lock held: take a free number, unless the range overlaps another. */
static int take_number(struct fth_cache *cache, const struct fth_dev *dev,
		       struct fth_cache_range *range)
{
	int number = -ENOSPC;

	for (uint32_t i = CACHE_RANGES_MAX; i-- > 0;) {
		const struct fth_cache_range *other = cache->taken[i];

		if (!other)
			number = (int)i;
		else if (other->dev == dev && !(other->readonly && range->readonly) &&
			 overlap(other, range))
			return fth_fail(EEXIST,
					"cache: bytes %llu to %llu of the device are in "
					"another range",
					(unsigned long long)range->offset,
					(unsigned long long)(range->offset + range->bytes));
	}
	if (number < 0)
		return fth_fail(ENOSPC, "cache: all %d ranges are in use", CACHE_RANGES_MAX);
	range->number = (uint32_t)number;
	cache->taken[number] = range;
	return 0;
}

static void set_visible(struct fth_cache_range *range, bool visible)
{
	struct fth_cache *cache = range->cache;

	pthread_mutex_lock(&cache->lock);
	/* release: the range is complete before it is found there. */
	__atomic_store_n(&cache->ranges[range->number], visible ? range : NULL, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&cache->lock);
}

static void free_number(struct fth_cache_range *range)
{
	pthread_mutex_lock(&range->cache->lock);
	range->cache->taken[range->number] = NULL;
	pthread_mutex_unlock(&range->cache->lock);
}

/* Give a range its number and its device, and let it be found. */
static int enter(struct fth_cache *cache, struct fth_cache_range *range)
{
	int rc;

	pthread_mutex_lock(&cache->lock);
	rc = take_number(cache, range->dev, range);
	if (rc == 0 && !range->readonly) {
		rc = cache_worker_start(cache);
		if (rc < 0)
			cache->taken[range->number] = NULL;
	}
	pthread_mutex_unlock(&cache->lock);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&cache->setup);
	range->device = cache_device_get(cache, range->dev);
	pthread_mutex_unlock(&cache->setup);
	if (!range->device) {
		free_number(range);
		return -ENOMEM;
	}
	set_visible(range, true);
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
	range->dev = dev;
	range->offset = offset;
	range->bytes = length;
	range->lines = (length + cache->line_size - 1) >> cache->line_shift;
	range->readonly = flags & FTH_CACHE_READONLY;
	if (!cache->frame_words)
		rc = make_table(range);
	if (rc == 0)
		rc = enter(cache, range);
	if (rc < 0)
		range_free(range);
	else
		*out = range;
	return rc;
}

/* ---- removing ---- */

struct fth_cache_range **cache_ranges_hold(struct fth_cache *cache, uint32_t *n)
{
	struct fth_cache_range **held = malloc(CACHE_RANGES_MAX * sizeof(*held));

	*n = 0;
	if (!held)
		return NULL;
	pthread_mutex_lock(&cache->lock);
	for (uint32_t i = 0; i < CACHE_RANGES_MAX; i++)
		if (cache->ranges[i]) {
			/* relaxed: the lock orders it before the range is hidden. */
			fth_add_relaxed_dev32(&cache->ranges[i]->holders, 1);
			held[(*n)++] = cache->ranges[i];
		}
	pthread_mutex_unlock(&cache->lock);
	return held;
}

void cache_range_put(struct fth_cache_range *range)
{
	/* release: all that was done with the range comes before it is freed. */
	fth_add_release_dev32(&range->holders, (uint32_t)-1);
}

static int wait_for_holders(struct fth_cache_range *range, uint64_t deadline)
{
	struct fth_backoff backoff = {0};

	/* acquire: pairs with cache_range_put(). */
	while (fth_load_acquire_dev32(&range->holders))
		if (cache_pause_expired(&backoff, deadline))
			return fth_fail(
				ETIMEDOUT,
				"cache: timed out while another thread is flushing the range");
	return 0;
}

/* Wait until nobody can be looking at a range that is hidden, and its device is done with it. */
static int wait_until_left(struct fth_cache_range *range, uint64_t deadline)
{
	struct fth_cache *cache = range->cache;
	int rc = wait_for_holders(range, deadline);
	bool last;

	if (rc == 0)
		rc = cache_loans_quiesce(cache, deadline);
	if (rc < 0)
		return rc;
	/* Its readers go through memory, and wait for nothing. */
	pthread_rwlock_wrlock(&cache->tables);
	pthread_rwlock_unlock(&cache->tables);
	pthread_mutex_lock(&cache->setup);
	last = cache_device_last(range->device);
	pthread_mutex_unlock(&cache->setup);
	return last ? cache_device_settle(range->device, deadline) : 0;
}

/* Take an empty range out of the cache and free it; if that fails it is as before. */
static int take_away(struct fth_cache_range *range, uint64_t deadline)
{
	struct fth_cache *cache = range->cache;
	int rc;

	set_visible(range, false);
	rc = wait_until_left(range, deadline);
	if (rc < 0) {
		set_visible(range, true);
		return rc;
	}
	pthread_mutex_lock(&cache->setup);
	cache_device_put(range->device);
	pthread_mutex_unlock(&cache->setup);
	free_number(range);
	range_free(range);
	return 0;
}

int fth_cache_remove(struct fth_cache_range *range)
{
	uint64_t deadline;
	int rc;

	if (!range)
		return 0;
	rc = fth_cache_flush(range, 0, range->lines);
	if (rc < 0)
		return rc;
	deadline = fth_deadline_ns(range->cache->timeout_ns);
	rc = cache_empty_range(range, false, deadline);
	return rc < 0 ? rc : take_away(range, deadline);
}

int fth_cache_discard_range(struct fth_cache_range *range)
{
	uint64_t deadline;
	int rc;

	if (!range)
		return 0;
	deadline = fth_deadline_ns(range->cache->timeout_ns);
	fth_store_relaxed_dev32(&range->discard, 1);
	rc = cache_empty_range(range, true, deadline);
	if (rc == 0)
		rc = take_away(range, deadline);
	if (rc < 0)
		fth_store_relaxed_dev32(&range->discard, 0);
	return rc;
}

void cache_range_release(struct fth_cache_range *range)
{
	cache_device_put(range->device);
	range_free(range);
}

struct fth_cache *fth_cache_of(const struct fth_cache_range *range)
{
	return range->cache;
}

struct fth_dev *fth_cache_dev(const struct fth_cache_range *range)
{
	return range->dev;
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
