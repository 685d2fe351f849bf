/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: options, opening and closing, the budget, statistics. */
#include "flat/flat_internal.h"
#include "base/options.h"
#include "flat/durable/persist_log.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BUDGET_MIN 64u /* pages */
#define CACHE_MIN  16u

static const char *const stat_names[FTH_FLAT_STAT_COUNT] = {
	"faults",     "loads",	   "stores",	 "refused",	 "misses",
	"promotions", "demotions", "evictions",	 "write_backs",	 "first_writes",
	"errors",     "persists",  "log_bytes",	 "log_writes",	 "checkpoints",
	"background", "ahead",	   "pages_dram", "pages_cached",
};

static const char *const policy_names[FTH_FLAT_POLICY_COUNT] = {"default", "counters", "paper",
								"always", "never"};

static int check_page(struct fth_flat_options *o)
{
	if (o->page == 0)
		o->page = FTH_FLAT_PAGE_MIN;
	if ((o->page & (o->page - 1)) || o->page < FTH_FLAT_PAGE_MIN || o->page > FTH_FLAT_PAGE_MAX)
		return fth_fail(EINVAL, "flat: page size %u is not a power of two from %u to %u",
				o->page, FTH_FLAT_PAGE_MIN, FTH_FLAT_PAGE_MAX);
	if ((unsigned)o->policy >= FTH_FLAT_POLICY_COUNT)
		return fth_fail(EINVAL, "flat: unknown policy %d", (int)o->policy);
	if (o->policy == FTH_FLAT_DEFAULT)
		o->policy = FTH_FLAT_COUNTERS;
	if ((unsigned)o->window >= FTH_FLAT_WINDOW_COUNT)
		return fth_fail(EINVAL, "flat: unknown window mode %d", (int)o->window);
	if (o->offset % o->page)
		return fth_fail(EINVAL, "flat: offset %llu is not a multiple of the page size %u",
				(unsigned long long)o->offset, o->page);
	return 0;
}

/* The log is at the end of the region, behind its last page. */
static int take_log(struct fth_flat *flat)
{
	struct fth_flat_options *o = &flat->options;

	if (o->log && (o->log < LOG_SIZE_MIN || o->log > LOG_SIZE_MAX || o->log % LOG_SLOT ||
		       fth_dev_info(flat->dev)->block > LOG_SLOT))
		return fth_fail(EINVAL,
				"flat: log size %llu is not a multiple of %u between %u and %llu, "
				"or the device has blocks larger than %u bytes",
				(unsigned long long)o->log, LOG_SLOT, LOG_SIZE_MIN,
				(unsigned long long)LOG_SIZE_MAX, LOG_SLOT);
	if (o->log && (o->log >= flat->size || (flat->size - o->log) % o->page))
		return fth_fail(EINVAL,
				"flat: a length of %llu without its log of %llu bytes is not a "
				"multiple of the page size %u",
				(unsigned long long)flat->size, (unsigned long long)o->log,
				o->page);
	flat->size -= o->log;
	flat->pages = (flat->size + o->page - 1) / o->page;
	return 0;
}

/* The region against the device. */
static int check_range(struct fth_flat *flat)
{
	const struct fth_dev_info *info = fth_dev_info(flat->dev);
	struct fth_flat_options *o = &flat->options;

	if (o->page % info->block)
		return fth_fail(
			EINVAL,
			"flat: page size %u is not a multiple of the device's block size %u",
			o->page, info->block);
	if (o->page > info->max_length)
		return fth_fail(
			EINVAL,
			"flat: page size %u exceeds the device's maximum request of %llu bytes",
			o->page, (unsigned long long)info->max_length);
	if (o->offset >= info->size || o->length > info->size - o->offset)
		return fth_fail(EINVAL,
				"flat: %llu bytes at offset %llu exceed the device of %llu bytes",
				(unsigned long long)o->length, (unsigned long long)o->offset,
				(unsigned long long)info->size);
	if (o->length == 0)
		o->length = info->size - o->offset;
	if (o->length % info->block)
		return fth_fail(EINVAL,
				"flat: length %llu is not a multiple of the device's block size %u",
				(unsigned long long)o->length, info->block);
	flat->size = o->length;
	return take_log(flat);
}

/* How the budget is split: the SSD-cache, whole sets of it, and DRAM. */
static int split_budget(const struct fth_flat *flat, uint64_t budget, uint64_t *cache,
			uint64_t *dram)
{
	uint64_t pages = budget / flat->options.page,
		 wanted = flat->options.cache / flat->options.page;

	if (pages < BUDGET_MIN)
		return fth_fail(EINVAL,
				"flat: budget %llu is below the minimum of %u pages of %u bytes",
				(unsigned long long)budget, BUDGET_MIN, flat->options.page);
	if (flat->window_slots) { /* no memory of the host */
		if (wanted >= FLAT_WAYS && wanted < flat->window_slots)
			*cache = wanted - wanted % FLAT_WAYS;
		else
			*cache = flat->window_slots;
		*dram = pages;
		return 0;
	}
	if (wanted == 0)
		wanted = pages / 8;
	if (wanted < CACHE_MIN)
		wanted = CACHE_MIN;
	wanted -= wanted % FLAT_WAYS;
	if (wanted > pages - CACHE_MIN)
		return fth_fail(EINVAL,
				"flat: an SSD-Cache of %llu bytes leaves fewer than %u pages of "
				"the budget of %llu bytes",
				(unsigned long long)flat->options.cache, CACHE_MIN,
				(unsigned long long)budget);
	*cache = wanted;
	*dram = pages - wanted;
	return 0;
}

static int open_words(struct fth_flat *flat)
{
	void *at = mmap(NULL, flat->pages * sizeof(*flat->words), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return fth_fail(ENOMEM, "flat: no memory for the page table of %llu pages",
				(unsigned long long)flat->pages);
	flat->words = at;
	flat->dirty_groups = calloc(flat->pages / FLAT_GROUP / 64 + 1, sizeof(uint64_t));
	return flat->dirty_groups ? 0 : fth_fail(ENOMEM, "flat: no memory for a region");
}

static int open_parts(struct fth_flat *flat, uint64_t budget)
{
	uint64_t cache = 0, dram = 0;
	int rc = check_range(flat);

	if (rc == 0)
		rc = window_open(flat);
	if (rc == 0)
		rc = split_budget(flat, budget, &cache, &dram);
	if (rc < 0)
		return rc;
	flat->budget = dram + (flat->window_slots ? 0 : cache);
	flat->stats = fth_stats_new(FTH_FLAT_STAT_PAGES_DRAM);
	rc = flat->stats ? open_words(flat) : -ENOMEM;
	if (rc == 0)
		rc = readmission_open(flat);
	if (rc == 0)
		rc = directory_open(&flat->directory, cache, flat->options.page,
				    window_frames(flat));
	if (rc == 0)
		rc = ring_open(&flat->ring, dram);
	if (rc == 0)
		rc = io_open(flat);
	if (rc == 0)
		rc = map_open(&flat->map, flat->pages * flat->options.page, flat->options.page,
			      flat->options.readonly);
	policy_open(flat);
	if (rc == 0)
		rc = persist_open(flat);
	if (rc == 0)
		rc = stream_open(flat);
	if (rc == 0)
		rc = mover_open(flat);
	return rc < 0 ? rc : registry_add(flat);
}

static void release(struct fth_flat *flat)
{
	registry_remove(flat);
	mover_stop(flat);
	io_close(flat); /* waits for requests that timed out: they use the memory */
	persist_close(flat);
	mover_close(flat);
	map_close(&flat->map);
	ring_close(&flat->ring);
	stream_close(flat);
	directory_close(&flat->directory);
	if (flat->words)
		munmap(flat->words, flat->pages * sizeof(*flat->words));
	free(flat->dirty_groups);
	readmission_close(flat);
	fth_stats_free(flat->stats);
	window_close(flat);
	if (flat->owns_dev)
		fth_dev_close(flat->dev);
	free(flat);
}

/* On `uri`, or on `dev` if that is NULL. */
static int open_region(const char *uri, struct fth_dev *dev, uint64_t budget,
		       const struct fth_flat_options *options, struct fth_flat **out)
{
	struct fth_flat *flat;
	int rc = options ? fth_options_check("flat", options->size, sizeof(*options)) : 0;

	*out = NULL;
	if (rc < 0)
		return rc;
	registry_forked();
	flat = calloc(1, sizeof(*flat));
	if (!flat)
		return fth_fail(ENOMEM, "flat: no memory for a region");
	flat->map.faults = flat->map.self = -1;
	flat->dev = dev;
	flat->owns_dev = uri != NULL;
	flat->options = options ? *options : (struct fth_flat_options)FTH_FLAT_OPTIONS_INIT;
	rc = check_page(&flat->options);
	if (rc == 0 && uri)
		rc = fth_dev_open_flags(uri, flat->options.readonly ? FTH_DEV_READONLY : 0,
					&flat->dev);
	if (rc == 0)
		rc = open_parts(flat, budget);
	if (rc < 0) {
		release(flat);
		return rc;
	}
	*out = flat;
	return 0;
}

int fth_flat_open(const char *uri, uint64_t budget, const struct fth_flat_options *options,
		  struct fth_flat **out)
{
	return open_region(uri, NULL, budget, options, out);
}

int fth_flat_open_dev(struct fth_dev *dev, uint64_t budget, const struct fth_flat_options *options,
		      struct fth_flat **out)
{
	return open_region(NULL, dev, budget, options, out);
}

int fth_flat_close(struct fth_flat *flat)
{
	int rc;

	if (!flat)
		return 0;
	rc = fth_flat_sync(flat, FTH_DEV_TIMEOUT);
	if (rc == 0)
		release(flat);
	return rc;
}

void fth_flat_discard(struct fth_flat *flat)
{
	if (flat && registry_check_owner(flat) == 0)
		release(flat);
}

void *fth_flat_base(const struct fth_flat *flat)
{
	return flat->map.user;
}

uint64_t fth_flat_size(const struct fth_flat *flat)
{
	return flat->size;
}

uint64_t fth_flat_stat(const struct fth_flat *flat, enum fth_flat_stat which)
{
	if (which == FTH_FLAT_STAT_PAGES_DRAM)
		return __atomic_load_n(&flat->ring.taken, __ATOMIC_RELAXED);
	if (which == FTH_FLAT_STAT_PAGES_CACHED)
		return __atomic_load_n(&flat->directory.used, __ATOMIC_RELAXED);
	if (which == FTH_FLAT_STAT_LOG_BYTES || which == FTH_FLAT_STAT_LOG_WRITES)
		return persist_stat(flat, which);
	return (unsigned)which < FTH_FLAT_STAT_COUNT ? fth_stats_read(flat->stats, which) : 0;
}

const char *fth_flat_stat_name(enum fth_flat_stat which)
{
	return (unsigned)which < FTH_FLAT_STAT_COUNT ? stat_names[which] : "unknown";
}

const char *fth_flat_policy_name(enum fth_flat_policy policy)
{
	return (unsigned)policy < FTH_FLAT_POLICY_COUNT ? policy_names[policy] : "unknown";
}

void latency_set(struct fth_flat *flat, const struct flat_latency_model *model)
{
	flat->model = model ? *model : (struct flat_latency_model){0};
	flat->model.used = model;
}
