/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered buffers. The device has one table of mapped memory; each channel's ring has a table
 * of registered buffers with the same slots. A channel follows the device's table lazily: it
 * looks at a generation number with every submit, and registers a region when a request first
 * comes from it. So mapping costs nothing in channels that do not use the memory, and a channel
 * that lies idle holds the pages of unmapped memory until its next submit or its end.
 *
 * Registering may fail (most often because of RLIMIT_MEMLOCK). That costs speed only: the
 * request is done from plain memory, and the region is not tried again on this channel.
 */
#include "dev/file/dev_file.h"

#include "fathom/base/error.h"
#include "fathom/hd/atomic.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the device's table; under map_lock ---- */

static unsigned free_slots(const struct dev_file *file)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FILE_REGIONS; i++)
		n += file->regions[i].id == 0;
	return n;
}

/* Large memory becomes several regions, since the kernel limits the size of one. */
static void add_regions(struct dev_file *file, uintptr_t base, size_t map_len)
{
	uint64_t id = ++file->next_id;
	size_t left = map_len;

	for (unsigned i = 0; i < FILE_REGIONS && left > 0; i++) {
		size_t len = left < FILE_REGION_BYTES ? left : FILE_REGION_BYTES;

		if (file->regions[i].id)
			continue;
		file->regions[i] = (struct file_region){
			.base = base,
			.len = len,
			.map_len = map_len,
			.first = left == map_len,
			.id = id,
		};
		base += len;
		left -= len;
	}
}

/* release: a channel that sees the new number and takes the lock sees the new table. */
static void table_changed(struct dev_file *file)
{
	fth_store_release_dev64(&file->map_generation, file->map_generation + 1);
}

int dev_file_map(struct fth_dev *dev, void *addr, size_t len)
{
	struct dev_file *file = (struct dev_file *)dev;
	size_t pieces = (len - 1) / FILE_REGION_BYTES + 1;
	int rc = 0;

	if (len > UINTPTR_MAX - (uintptr_t)addr)
		return fth_fail(EINVAL, "mapped memory wraps around the end of the address space");
	pthread_mutex_lock(&file->map_lock);
	if (pieces > free_slots(file)) {
		rc = fth_fail(ENOSPC, "at most %d regions of memory can be mapped", FILE_REGIONS);
	} else {
		add_regions(file, (uintptr_t)addr, len);
		table_changed(file);
	}
	pthread_mutex_unlock(&file->map_lock);
	return rc;
}

/* The id under which exactly this memory was mapped, or 0. */
static uint64_t find_id(const struct dev_file *file, uintptr_t base, size_t map_len)
{
	for (unsigned i = 0; i < FILE_REGIONS; i++) {
		const struct file_region *region = &file->regions[i];

		if (region->first && region->base == base && region->map_len == map_len)
			return region->id;
	}
	return 0;
}

int dev_file_unmap(struct fth_dev *dev, void *addr, size_t len)
{
	struct dev_file *file = (struct dev_file *)dev;
	uint64_t id;

	pthread_mutex_lock(&file->map_lock);
	id = find_id(file, (uintptr_t)addr, len);
	for (unsigned i = 0; id && i < FILE_REGIONS; i++)
		if (file->regions[i].id == id)
			file->regions[i] = (struct file_region){0};
	if (id)
		table_changed(file);
	pthread_mutex_unlock(&file->map_lock);
	return id ? 0 : fth_fail(EINVAL, "%zu bytes at %p were not mapped", len, addr);
}

/* ---- a channel's table ---- */

void chan_ring_map_init(struct chan_ring *chan)
{
	struct dev_file *file = chan_file_dev(&chan->file);

	chan->has_buffer_slots =
		file->fixed && io_uring_register_buffers_sparse(&chan->ring, FILE_REGIONS) == 0;
}

static int by_address(const void *a, const void *b)
{
	const struct chan_region *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

static void copy_regions(struct chan_map *map, struct dev_file *file)
{
	pthread_mutex_lock(&file->map_lock);
	map->generation = file->map_generation;
	map->count = 0;
	map->last_hit = 0;
	for (unsigned i = 0; i < FILE_REGIONS; i++) {
		const struct file_region *region = &file->regions[i];

		if (region->id)
			map->regions[map->count++] = (struct chan_region){
				.base = region->base,
				.len = region->len,
				.id = region->id,
				.slot = i,
			};
	}
	pthread_mutex_unlock(&file->map_lock);
	qsort(map->regions, map->count, sizeof(map->regions[0]), by_address);
}

static int set_slot(struct chan_ring *chan, unsigned slot, uintptr_t base, size_t len)
{
	struct iovec iov = {.iov_base = (void *)base, .iov_len = len};
	__u64 tag = 0;

	return io_uring_register_buffers_update_tag(&chan->ring, slot, &iov, &tag, 1);
}

/* Let go of what the device has unmapped, so that its pages become free. */
static void drop_stale_slots(struct chan_ring *chan)
{
	uint64_t now[FILE_REGIONS] = {0};
	struct chan_map *map = &chan->map;

	for (unsigned i = 0; i < map->count; i++)
		now[map->regions[i].slot] = map->regions[i].id;
	for (unsigned i = 0; i < FILE_REGIONS; i++) {
		if (map->slots[i].id == 0 || map->slots[i].id == now[i])
			continue;
		/* If this fails the pages stay, but by invariant 4 nobody uses them. */
		if (map->slots[i].usable)
			(void)set_slot(chan, i, 0, 0);
		map->slots[i].id = 0;
	}
}

void chan_ring_map_sync(struct chan_ring *chan)
{
	struct dev_file *file = chan_file_dev(&chan->file);

	/* acquire: what the mapping thread did to the memory before is visible as well. */
	if (chan->map.generation == fth_load_acquire_dev64(&file->map_generation) ||
	    !chan->has_buffer_slots)
		return;
	copy_regions(&chan->map, file);
	drop_stale_slots(chan);
}

static bool holds(const struct chan_region *region, uintptr_t base, size_t len)
{
	return base - region->base < region->len && len <= region->len - (base - region->base);
}

/* The index of the last region that begins at or before base, or -1. */
static int find_region(const struct chan_map *map, uintptr_t base)
{
	int low = 0, high = (int)map->count; /* the answer + 1 is in [low, high] */

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (map->regions[middle].base <= base)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/* Register the region unless that was done, or tried, before. */
static bool usable(struct chan_ring *chan, const struct chan_region *region)
{
	struct chan_map *map = &chan->map;

	if (map->slots[region->slot].id != region->id) {
		map->slots[region->slot].id = region->id;
		map->slots[region->slot].usable =
			set_slot(chan, region->slot, region->base, region->len) == 1;
	}
	return map->slots[region->slot].usable;
}

int chan_ring_map_slot(struct chan_ring *chan, const void *base, size_t len)
{
	struct chan_map *map = &chan->map;
	unsigned at = map->last_hit;

	if (map->count == 0)
		return -1;
	if (!holds(&map->regions[at], (uintptr_t)base, len)) {
		int found = find_region(map, (uintptr_t)base);

		if (found < 0 || !holds(&map->regions[found], (uintptr_t)base, len))
			return -1;
		at = (unsigned)found;
		map->last_hit = at;
	}
	return usable(chan, &map->regions[at]) ? (int)map->regions[at].slot : -1;
}
