/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between calls.c and its helpers.
 *
 *	calls.c		which call has which buffers; calls with one buffer
 *	vectors.c	calls with vectors of buffers, and messages
 *	small_args.c	calls that wait, and point to small things: times, addresses, masks
 *	exec.c		strings of a new program
 *	hold_pages.c	memory of the region for the time of a call
 *	user_copy.c	the program's memory, which may be wrong
 *
 * A call has the memory of the region in one of two ways:
 *  1. Held: the pages are in DRAM and stay there. For calls that do not wait for anybody: regular
 *     files and disks.
 *  2. Copied: the kernel uses memory outside the region, and bytes are copied before or after. For
 *     calls that may wait for another thread, process or machine. They take no DRAM from others,
 *     however many of them there are and however long they wait.
 */
#ifndef FATHOM_SRC_FLAT_PRELOAD_CALLS_H
#define FATHOM_SRC_FLAT_PRELOAD_CALLS_H

#include "flat/preload/run.h"

#include <sys/uio.h>

#define CALLS_HELD_VECTORS 32	 /* parts of a vector that are held at once */
#define CALLS_HOLDS	   40	 /* ranges of a call */
#define CALLS_LARGE	   6	 /* large copies of a call */
#define CALLS_STREAM	   65536 /* bytes that are copied at a time, to be written to a stream */
#define CALLS_WHOLE \
	((uint64_t)64 << 20) /* the longest message that is copied whole; longer ones are cut */

struct calls_range {
	uintptr_t at;
	uint64_t length;
};

/*
 * What a call has; ended by calls_end(). A handler of the program may interrupt a call that blocks,
 * and leave it by longjmp(). Then the record stays, with the stack pointer at which it began; the
 * next call of the thread finds and releases it.
 */
struct calls_record {
	uintptr_t sp;
	unsigned held_count, large_count;
	struct calls_range held[CALLS_HOLDS], large[CALLS_LARGE];
	/* memory for copies: stays with the thread */
	uint8_t *copies;
	size_t copied;
	bool referenced; /* the kernel may use the copies after the call (MSG_ZEROCOPY) */
};

/* ---- hold_pages.c ---- */
/* NULL if too many calls of this thread are interrupted. */
struct calls_record *calls_begin(void);
void calls_end(struct calls_record *record);
/*
 * Hold what of [at, at + length) is in the region. Returns 0, -EFAULT as the kernel for memory that
 * it cannot get, or -EBUSY if others hold so much that it has to be copied.
 */
int calls_hold(struct calls_record *record, uintptr_t at, uint64_t length, bool write);
/*
 * Hold what the arguments point to, in case they are pointers; not argument `but`. Returns 0 or
 * -EFAULT.
 */
int calls_hold_arguments(struct calls_record *record, const long a[6], int but);
/*
 * Memory outside the region, for the time of the call; NULL if there is none. Its contents are
 * undefined.
 */
void *calls_room(struct calls_record *record, size_t bytes);
/* The call, as the program would make it. */
long calls_kernel(long nr, const long a[6], run_mask mask);

/* ---- calls.c ---- */
/* When another call goes on behind what a call has done. */
enum calls_more {
	CALLS_NEVER,	/* less than asked for is as good */
	CALLS_ALWAYS,	/* until all is done */
	CALLS_IN_FILES, /* regular files: all that is there is read at once */
	CALLS_IF_ASKED, /* MSG_WAITALL */
};
bool calls_go_on(enum calls_more more, const long a[6], bool socket);
/* Does this descriptor never wait for anybody, as regular files and disks? */
bool calls_is_file(long fd);
/*
 * Calls with these flags are not cut: another one would see the same bytes again, or count as one
 * more. Nor are messages with control data, which may come with any of their bytes.
 */
#define CALLS_UNCUT (MSG_PEEK | MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)
/* How many of `total` bytes are copied and passed to the kernel at a time. */
uint64_t calls_part(long fd, uint64_t total, bool writes, bool uncut);

/* ---- vectors.c ---- */
bool vectors_has(long nr);
bool vectors_touch(long nr, const long a[6]);
long vectors_do(long nr, const long a[6], run_mask mask);

/* ---- small_args.c ---- */
/* Small things that a call points to, copied; at most one an argument. */
struct small {
	unsigned n;
	struct {
		uintptr_t theirs;
		uint8_t *ours, *before;
		size_t bytes;
	} copies[6];
};
bool small_has(long nr);
/*
 * Copy those that are in the region, and set the arguments to the copies. Returns 0 or a negative
 * errno.
 */
int small_take(struct calls_record *record, long nr, long a[6], struct small *small);
/* The same for `bytes` at *argument. */
int small_copy(struct calls_record *record, size_t bytes, long *argument, struct small *small);
/* Copy back the bytes that the kernel has changed. Returns 0 or -EFAULT. */
int small_give_back(const struct small *small);
long small_do(long nr, const long a[6], run_mask mask);

/* ---- exec.c ---- */
bool exec_touches(long nr, const long a[6]);
long exec_do(long nr, const long a[6], run_mask mask);

#endif
