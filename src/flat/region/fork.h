/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions that a child of fork() has too, as of the fork. All processes that come from one keep
 * their pages in blocks of one file; a block is as long as a page. Each process has its own table
 * of the blocks of its pages.
 *
 *  1. A block that more than one process uses is never written. A process that changes such a page
 *     writes it to another block (redirect on write), so that nothing is copied.
 *  2. users[block] has a bit for each process that uses it. A process sets its own bits when it
 *     claims a block, and those of a child before the fork. It clears only its own. So a block of
 *     which a process is the only user stays that way until it forks itself.
 *  3. A process lives while its slot is locked: byte `slot` of the shared memory's file, by a lock
 *     of the open file description that the process inherits or makes. The kernel releases it
 *     however the process ends. Bits of processes that do not live count for nothing.
 *  4. Page p of the process that began (slot 0) is at home in block p, and only that process claims
 *     that block. All claim blocks behind the region.
 *  5. If the file system is full, the process that began gives up its descendants: their bits in
 *     `revoked` are set, and blocks that they share with it are overwritten. A descendant looks at
 *     its bit after each read, and stops if it is set.
 *
 * Who forks closes the fork barrier first: no page is locked and no request is on its way then.
 */
#ifndef FATHOM_SRC_FLAT_REGION_FORK_H
#define FATHOM_SRC_FLAT_REGION_FORK_H

#include <stdbool.h>
#include <stdint.h>

struct fth_flat;

#define FORK_SLOTS  64u
#define FORK_FACTOR 4u /* blocks of the file for each page of the region */

/* In a file that all processes map. All atomic. */
struct fork_shared {
	uint64_t revoked;
	uint64_t forks;	     /* so far */
	uint64_t home_end;   /* home blocks from here on were never shared */
	uint64_t claims_end; /* blocks from here on were never claimed */
	uint64_t next;	     /* block to look at next */
	uint64_t users[];
};

static inline uint64_t fork_shared_bytes(uint64_t blocks)
{
	return sizeof(struct fork_shared) + blocks * sizeof(uint64_t);
}

struct flat_fork {
	struct fork_shared *shared;
	uint64_t blocks;
	int file;	  /* that has the blocks */
	int slot_fd;	  /* the open file description that locks the slot */
	unsigned slot;	  /* 0: the process that began */
	uint32_t *places; /* block of each page; 0: at home */
	uint64_t live;	  /* slots of processes that lived at live_at, after live_forks forks */
	uint64_t live_at, live_forks;
	uint32_t live_lock; /* guards these three */
	int child_fd;	    /* while a child is made */
	int spare_fd;	    /* for the next one; -1: none */
	unsigned child_slot;
};

/*
 * The region's children have it too, from now on. `shared` is a descriptor of the shared memory;
 * `file` one of the file that the region's device is, of `blocks` pages. Both stay open. Returns 0
 * or a negative errno.
 */
int fork_open(struct fth_flat *flat, struct flat_fork *fork, int shared, int file, uint64_t blocks);

/*
 * Before the fork, with the fork barrier closed: a slot for the child, which uses all blocks of
 * pages [0, end) then. Returns 0 or a negative errno: then the child cannot have the region.
 */
int fork_begin(struct fth_flat *flat, uint64_t end);
/* After it, in the parent, whether there is a child or not. */
void fork_end(struct fth_flat *flat);
/* After it, in the child. Returns 0 or a negative errno. */
int fork_become(struct fth_flat *flat, uint64_t end);

/* ---- for page_io.c; the page is locked ---- */
/* Where a page is. */
uint64_t fork_place(const struct fth_flat *flat, uint64_t page);
/* Where it has to be written; FLAT_NONE if no block is free. */
uint64_t fork_target(struct fth_flat *flat, uint64_t page);
/* It was written there, or not. */
void fork_settle(struct fth_flat *flat, uint64_t page, uint64_t target, bool written);
/* The file system is full. True if it is worth trying again, since others have been given up. */
bool fork_give_up(struct fth_flat *flat);
/*
 * In a child: transfers without the device. Returns 0 or a negative errno; -ESTALE if this process
 * was given up.
 */
bool fork_is_child(const struct fth_flat *flat);
int fork_read(struct fth_flat *flat, uint64_t block, void *to);
int fork_write(struct fth_flat *flat, uint64_t block, const void *from);

#endif
