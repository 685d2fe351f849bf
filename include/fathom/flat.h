/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plain pointers over DRAM and flash.
 *
 *	struct fth_flat *flat;
 *	uint64_t *table;
 *
 *	fth_flat_open("file:/data/table", 256u << 20, NULL, &flat);
 *	table = fth_flat_base(flat);
 *	table[i] += 1;
 *	fth_flat_sync(flat, FTH_DEV_TIMEOUT);
 *	fth_flat_close(flat);
 *
 * A region is a range of addresses that shows the bytes of a device. Each page of it is on flash,
 * in the SSD-cache, or in DRAM (FlatFlash, Abulila et al., ASPLOS 2019). A load or store of a page
 * in DRAM is an ordinary memory access. An access to any other page raises SIGBUS inside the
 * library: the page is read into the SSD-cache if it is not there, and the instruction is executed
 * on it without mapping the page. A page that is accessed often enough moves to DRAM. The program
 * sees only the difference in latency.
 *
 * The SSD-cache is memory of the host that stands in for the memory of an SSD. The budget covers
 * both: the region never holds more memory than that, plus 6 bytes per page of the region for
 * bookkeeping.
 *
 * Stores are durable after fth_flat_sync(), and may become durable before it, in any order. Stores
 * to a range marked by fth_flat_persistent() are durable after fth_flat_persist(), byte by byte:
 * the call stores a few cache lines to the byte-addressable window of the device, or makes one
 * write to a log.
 *
 * Signals: the library installs handlers for SIGBUS and SIGSEGV when the first region is opened,
 * and passes faults that are not its own to the handlers that were installed before. A program that
 * installs a handler later calls fth_flat_fault() in it first. Do not block SIGBUS in a thread that
 * uses a region. A device error raises SIGBUS in the program, as with mmap(); other pages stay
 * usable.
 *
 * System calls cannot use a page that is not in DRAM: they fail with EFAULT. Hold the buffer with
 * fth_flat_hold() during the call.
 *
 * After fork() the child cannot use the region: its addresses stay reserved, an access ends the
 * child with a message, calls on the region return -EPERM, and fth_flat_discard() and
 * fth_flat_release() do nothing. The child can open regions of its own. fork() followed by exec()
 * works.
 *
 * Linux with userfaultfd() is required (kernel 5.19 or later; as an unprivileged user too). Without
 * it open returns -ENOTSUP.
 */
#ifndef FATHOM_FLAT_H
#define FATHOM_FLAT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

struct fth_flat;

#define FTH_FLAT_PAGE_MIN 4096u
#define FTH_FLAT_PAGE_MAX (2u << 20)

/* When a page moves from flash or the SSD-cache to DRAM. */
enum fth_flat_policy {
	FTH_FLAT_DEFAULT, /* COUNTERS */
	/*
	 * accesses are counted per page, also while it is on flash; the threshold follows the
	 * benefit
	 */
	FTH_FLAT_COUNTERS,
	/* Algorithm 1 of the paper: counters in the SSD-cache, adaptive threshold */
	FTH_FLAT_PAPER,
	FTH_FLAT_ALWAYS, /* at the first access: demand paging */
	FTH_FLAT_NEVER,	 /* only where an instruction cannot be executed otherwise */
	FTH_FLAT_POLICY_COUNT
};

/*
 * Whether the byte-addressable window of the device is used (fathom/dev/window.h; PMR or CMB of an
 * NVMe drive).
 */
enum fth_flat_window {
	/*
	 * If the drive has one that is free, and that is empty or holds the log of this region: a
	 * PMR for the log of persistent ranges, unless options.log is set; and as SSD-cache, where
	 * it is ordinary memory (no FTH_DEV_WINDOW_IO_MEMORY: a BAR is read eight bytes at a time,
	 * which makes moving a page slower than reading it from flash).
	 */
	FTH_FLAT_WINDOW_AUTO,
	FTH_FLAT_WINDOW_OFF,
	/* open fails without it; overwrites what it holds, but no log with changes in it */
	FTH_FLAT_WINDOW_ON,
	FTH_FLAT_WINDOW_COUNT
};

struct fth_flat_options {
	size_t size;	 /* sizeof(struct fth_flat_options) */
	uint64_t offset; /* of the region on the device; a multiple of page */
	uint64_t length; /* of the region; 0: to the end of the device */
	uint32_t page;	 /* a power of two from FTH_FLAT_PAGE_MIN to FTH_FLAT_PAGE_MAX; 0: 4096 */
	uint64_t cache;	 /* bytes of the budget for the SSD-cache; 0: an eighth of it */
	enum fth_flat_policy policy;
	bool readonly; /* stores raise SIGSEGV */
	/* no background thread: pages are moved by the threads that access them */
	bool foreground;
	/*
	 * Bytes of the log of persistent ranges, taken from the end of the region, 64 KiB to 1 GiB;
	 * 0: none. A device with such a log must be opened with the same offset, length and log.
	 */
	uint64_t log;
	enum fth_flat_window window;
};
#define FTH_FLAT_OPTIONS_INIT                           \
	{                                               \
		.size = sizeof(struct fth_flat_options) \
	}

/*
 * Open a region on the device with this URI. `budget` is the most memory in bytes that the region
 * holds, at least 64 pages. options may be NULL. Thread-safe. Blocks. Returns 0; -EINVAL for
 * invalid options; -ENOTSUP without userfaultfd; -EMFILE if 64 regions are open; or the error of
 * the device. After an error *out is NULL.
 */
int fth_flat_open(const char *uri, uint64_t budget, const struct fth_flat_options *options,
		  struct fth_flat **out);

/*
 * The same on an open device, which the caller closes after the region. While the region is open,
 * nothing else may access its part of the device.
 */
int fth_flat_open_dev(struct fth_dev *dev, uint64_t budget, const struct fth_flat_options *options,
		      struct fth_flat **out);

/*
 * Write what was changed, as fth_flat_sync(), and close the region. No other call on it and no
 * access to it may be in progress. Returns 0, or the error of the sync: the region then stays open,
 * and the program can try again or call fth_flat_discard(). Accepts NULL.
 */
int fth_flat_close(struct fth_flat *flat);

/* Close the region without writing what was changed since the last sync. Accepts NULL. */
void fth_flat_discard(struct fth_flat *flat);

/* The first byte, aligned to a page of the region, and the number of bytes. Any thread. */
void *fth_flat_base(const struct fth_flat *flat);
uint64_t fth_flat_size(const struct fth_flat *flat);

/*
 * Make all stores that happened before the call durable. Stores of other threads during the call
 * may or may not be included, each page as a whole. Waits until `deadline` at the latest (as
 * fth_dev_flush()). Any thread. Returns 0 or the error of the device; the pages that were not
 * written are still in memory then, and the next sync writes them.
 */
int fth_flat_sync(struct fth_flat *flat, uint64_t deadline);

/* ---- durability byte by byte ---- */

/* What data survives after fth_flat_persist() has returned. */
enum fth_flat_guarantee {
	FTH_FLAT_SURVIVES_NOTHING, /* the device is memory of this process */
	FTH_FLAT_SURVIVES_EXIT,	   /* the end of the process: the device is a file in memory */
	FTH_FLAT_SURVIVES_FLUSH,   /* a power loss, by a write and a flush of the device */
	FTH_FLAT_SURVIVES_WINDOW,  /* a power loss, by stores to the window of the device */
	FTH_FLAT_GUARANTEES
};

/*
 * Mark the pages of [at, at + length) as persistent until the region is closed. Marks are not kept
 * on the device: a program marks its ranges after each open. Marked pages move between flash,
 * SSD-cache and DRAM as all others do; a copy in DRAM costs no guarantee, since fth_flat_persist()
 * does not rely on where a page is. Any thread. Does not block. Returns the guarantee, of enum
 * fth_flat_guarantee; -ERANGE outside the region; -EROFS for a read-only region.
 */
int fth_flat_persistent(struct fth_flat *flat, void *at, uint64_t length);

/*
 * Make the stores to [at, at + length) that happened before the call durable; the range is in one
 * region, and marked. Other stores may become durable too. How:
 *
 *	window	the bytes are stored to a log in the window, flushed, fenced and read back
 *	log	they are written to the log on the device, which is flushed. Threads that persist at
 *		the same time share one write and one flush.
 *	neither	their pages are written in place, and the device is flushed
 *
 * With a log, up to 4096 bytes are atomic (less if the log is shorter than 64 KiB): after a crash
 * all or none of their changes are there. Longer ranges are cut into such pieces, in ascending
 * order. Persists that do not run at the same time become durable in their order. The log is
 * replayed by the next fth_flat_open(). When it is full, the call also writes the changed pages of
 * persistent ranges in place; so does every fth_flat_sync().
 *
 * Any thread; no signal handler. Blocks, for 30 seconds at most. Returns the guarantee, of enum
 * fth_flat_guarantee; -EINVAL if the memory is in no region or not marked; -ERANGE beyond the
 * region's end; -EROFS; -EPERM in a child of fork(); or the error of the device: the bytes are in
 * memory then, and the call can be repeated.
 */
int fth_flat_persist(const void *at, uint64_t length);

/* "nothing", "exit", "power, by flush", "power, by window"; "unknown" for other values. */
const char *fth_flat_guarantee_name(enum fth_flat_guarantee guarantee);

enum fth_flat_advice {
	FTH_FLAT_WILL_NEED, /* read it into the SSD-cache, as far as it fits */
	FTH_FLAT_HOT,	    /* move it to DRAM, as far as it fits */
	FTH_FLAT_COLD,	    /* write it if changed, and release its memory */
	/* it is used one page after the other: read ahead from the first one on */
	FTH_FLAT_SEQUENTIAL,
	FTH_FLAT_RANDOM /* it is not: never read ahead */
};

/*
 * Move the pages of [at, at + length). Blocks while it reads and writes. FTH_FLAT_SEQUENTIAL and
 * FTH_FLAT_RANDOM move nothing; they apply to later accesses. The region remembers the last 16 of
 * them; where they overlap, the latest applies. Any thread. Returns 0; -ERANGE outside the region;
 * -EINVAL for unknown advice; or the error of the device.
 */
int fth_flat_advise(struct fth_flat *flat, void *at, uint64_t length, enum fth_flat_advice advice);

/*
 * Move the pages of [at, at + length) to DRAM and keep them there until fth_flat_release() is
 * called for the same range: for buffers of system calls. `write`: the system call writes to the
 * buffer. Holds of a range nest, up to 63 times. Any thread. Blocks while it reads. Returns 0;
 * -ERANGE; -ENOMEM if more than half of the budget would be held; -EBUSY if a page is held 63
 * times; or the error of the device. After an error nothing is held.
 */
int fth_flat_hold(struct fth_flat *flat, void *at, uint64_t length, bool write);
void fth_flat_release(struct fth_flat *flat, void *at, uint64_t length);

/*
 * Change the budget. Lowering it writes and releases memory before it returns. Any thread. Returns
 * 0; -EINVAL below 64 pages; or the error of the device: the region may hold more than the budget
 * then.
 */
int fth_flat_set_budget(struct fth_flat *flat, uint64_t budget);

/*
 * Copy between the region and a buffer without a fault, for programs that know what they access.
 * `at` is an address in the region. Each aligned word of 8 bytes is copied as a whole. Any thread.
 * Returns 0, -ERANGE, -EROFS or the error of the device; after an error some bytes may have been
 * copied.
 */
int fth_flat_load(struct fth_flat *flat, const void *at, void *to, uint64_t length);
int fth_flat_store(struct fth_flat *flat, void *at, const void *from, uint64_t length);

/*
 * Load n items of `width` bytes from addresses in the region to `to`, contiguously, or store them:
 * pages on flash are read together, as many at once as the SSD-cache and the device allow. Returns
 * as fth_flat_load().
 */
int fth_flat_gather(struct fth_flat *flat, const void *const *at, uint64_t n, uint32_t width,
		    void *to);
int fth_flat_scatter(struct fth_flat *flat, void *const *at, uint64_t n, uint32_t width,
		     const void *from);

/*
 * For signal handlers of the program: handles a SIGBUS or SIGSEGV of a region. Returns true if the
 * program can continue; false if the signal is not the library's, or reports an error of a device.
 */
bool fth_flat_fault(int sig, siginfo_t *info, void *context);

enum fth_flat_stat {
	FTH_FLAT_STAT_FAULTS,	    /* signals handled */
	FTH_FLAT_STAT_LOADS,	    /* instructions executed on a page in the SSD-cache */
	FTH_FLAT_STAT_STORES,	    /* the same, if they store */
	FTH_FLAT_STAT_REFUSED,	    /* instructions without emulation; their page moved to DRAM */
	FTH_FLAT_STAT_MISSES,	    /* pages read from the device */
	FTH_FLAT_STAT_PROMOTIONS,   /* pages moved to DRAM */
	FTH_FLAT_STAT_DEMOTIONS,    /* pages moved from DRAM to the SSD-cache */
	FTH_FLAT_STAT_EVICTIONS,    /* pages dropped from the SSD-cache */
	FTH_FLAT_STAT_WRITE_BACKS,  /* pages written to the device */
	FTH_FLAT_STAT_FIRST_WRITES, /* faults of the first store to a clean page in DRAM */
	FTH_FLAT_STAT_ERRORS,	    /* failed reads and writes of pages */
	FTH_FLAT_STAT_PERSISTS,	    /* calls of fth_flat_persist() */
	FTH_FLAT_STAT_LOG_BYTES,    /* appended to the log: records, without padding */
	FTH_FLAT_STAT_LOG_WRITES,   /* writes and flushes of it, or barriers in the window */
	FTH_FLAT_STAT_CHECKPOINTS,  /* of the log, because it was full */
	FTH_FLAT_STAT_BACKGROUND, /* pages moved to DRAM by the region's thread; among PROMOTIONS */
	FTH_FLAT_STAT_AHEAD,	  /* pages read ahead of a stream, into DRAM */
	FTH_FLAT_STAT_PAGES_DRAM, /* now */
	FTH_FLAT_STAT_PAGES_CACHED, /* now */
	FTH_FLAT_STAT_COUNT
};

/*
 * The value of a statistic since the region was opened; the names of statistics and policies. Any
 * thread.
 */
uint64_t fth_flat_stat(const struct fth_flat *flat, enum fth_flat_stat which);
const char *fth_flat_stat_name(enum fth_flat_stat which);
const char *fth_flat_policy_name(enum fth_flat_policy policy);

/*
 * Returns true if this machine can emulate instructions on pages outside DRAM (x86-64); false if
 * every accessed page moves to DRAM. Any thread.
 */
bool fth_flat_emulates(void);

FTH_END_DECLS
#endif
