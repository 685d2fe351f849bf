/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses that the program sees. They are anonymous memory registered with userfaultfd: only
 * pages that were put there are there, and an access to any other page raises SIGBUS.
 */
#ifndef FATHOM_SRC_FLAT_REGION_MAP_H
#define FATHOM_SRC_FLAT_REGION_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct flat_map {
	uint8_t *user;
	uint64_t size, page; /* bytes; size is a multiple of page */
	void *reserved;	     /* user is aligned in it */
	uint64_t reserved_size;
	int faults;	/* userfaultfd */
	bool inherited; /* a child of fork() gets a copy of the memory */
	int self; /* descriptor of this process, for advice on many ranges at once; -1: none */
};

/* Returns 0 or a negative errno; -ENOTSUP if the kernel has no userfaultfd, or an older one. */
int map_open(struct flat_map *map, uint64_t size, uint64_t page, bool readonly);
void map_close(struct flat_map *map);

/* A copy of the bytes at `from` becomes the page. Unless it is writable, the first store faults. */
int map_put(struct flat_map *map, uint64_t page, const void *from, bool writable);
/*
 * The same for `count` pages in a row, none of them writable; returns how many are there, or the
 * error of the first.
 */
int map_put_many(struct flat_map *map, uint64_t page, const void *from, unsigned count);
int map_allow_stores(struct flat_map *map, uint64_t page);
int map_forbid_stores(struct flat_map *map, uint64_t page);

/*
 * Pages whose addresses were mapped otherwise meanwhile belong to the region again, without memory.
 */
int map_renew(struct flat_map *map, uint64_t page, uint64_t pages);

/* Children of fork() get a copy of the memory from now on. */
int map_inherit(struct flat_map *map);
/* In such a child: nothing of it is watched yet. */
int map_forked(struct flat_map *map);
int map_watch(struct flat_map *map, uint64_t page, uint64_t pages);
/* Stores to those pages of the range that are there fault. */
int map_forbid_many(struct flat_map *map, uint64_t page, uint64_t pages);

/* Release the memory of a page. */
int map_take(struct flat_map *map, uint64_t page);
/*
 * The same for any pages, up to MAP_TAKE_MAX. Returns how many of them, the first ones, were
 * released.
 */
#define MAP_TAKE_MAX 64u
unsigned map_take_many(struct flat_map *map, const uint64_t *pages, unsigned n);

static inline uint8_t *map_at(const struct flat_map *map, uint64_t page)
{
	return map->user + page * map->page;
}

#endif
