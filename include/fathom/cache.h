/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache: lines of devices in memory, fetched by the threads that miss them.
 *
 *	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
 *	struct fth_cache *cache;
 *	struct fth_cache_range *range;
 *	struct fth_cache_pin pin;
 *
 *	options.memory = 256 << 20;
 *	fth_cache_open(&options, &cache);
 *	fth_cache_add(cache, dev, 0, FTH_CACHE_TO_END, 0, &range);
 *	fth_cache_pin(range, line, FTH_CACHE_READ, fth_deadline_ns(1000000000), &pin);
 *	... pin.data[0 .. line size) ...
 *	fth_cache_unpin(&pin, false);
 *
 * A line is the unit of fetch, caching and write-back: 512 bytes to 64 KiB, the same for the whole
 * cache. A range is part of a device, divided into lines 0, 1, 2 and so on. A frame is memory that
 * holds one line. There is at most one copy of a line, and at most one fetch of it in flight.
 *
 * Threads: any thread may call any function at any time, except that nothing may be closed while
 * another thread uses it. The thread that misses a line issues the request itself, on a channel
 * that it borrows for the call; one background thread writes changed lines back. A pinned line
 * stays in its frame. A thread that pins many lines and waits for more may find all frames pinned;
 * that wait ends at its deadline.
 *
 * Waiting: calls with a deadline end at that deadline. Other calls fail with -ETIMEDOUT when
 * nothing that they wait for has completed within the cache's timeout: they may take longer in
 * total, as long as the device completes requests. No lock is held while a device is waited for.
 *
 * Errors: a failed fetch fails the calls that waited for it; the next call starts another fetch. A
 * failed write-back leaves the line in memory, dirty; it is tried again, and flush and close return
 * the error. If a request for several lines fails, each line is tried alone.
 *
 * Durability: changes that a flush which returned 0 covers are durable. Other changes may or may
 * not survive a crash, block by block. A line that is changed while it is written back may reach
 * the medium half changed; it is written again before any flush that began after the change
 * returns.
 */
#ifndef FATHOM_CACHE_H
#define FATHOM_CACHE_H

#include "fathom/base/decls.h"
#include "fathom/base/stats.h"
#include "fathom/dev.h"
#include "fathom/detail/hd/line.h"

FTH_BEGIN_DECLS

struct fth_cache;
struct fth_cache_range;

#define FTH_CACHE_LINE_MIN 512u
#define FTH_CACHE_LINE_MAX 65536u

/* Which line is replaced when another needs its frame. doc/results.md compares them. */
enum fth_cache_policy {
	FTH_CACHE_DEFAULT, /* TRIAL, which measured best */
	FTH_CACHE_FIFO,	   /* BaM's clock: the next line that is not referenced */
	FTH_CACHE_CLOCK,   /* the next line not used since the clock's hand last passed */
	FTH_CACHE_TRIAL,   /* a clock for lines that are used again soon after their fetch */
	FTH_CACHE_POLICY_COUNT
};

/* Initialise with FTH_CACHE_OPTIONS_INIT; 0 in any field but size selects its default. */
struct fth_cache_options {
	size_t size;	 /* of this structure */
	uint64_t memory; /* bytes of frames; default 64 MiB; at least 4 lines, less than 512 GiB */
	uint32_t line;	 /* bytes; a power of two; default 4096 */
	uint32_t depth;	 /* requests that one call keeps in flight, at most 4096; default 128 */
	uint32_t dirty_percent; /* of all frames that may be dirty; default 50 */
	enum fth_cache_policy policy;
	bool compact;	     /* metadata proportional to the cache's memory, not to the data */
	uint64_t timeout_ns; /* of calls without a deadline; default 30 s */
};

#define FTH_CACHE_OPTIONS_INIT                                                            \
	{                                                                                 \
		sizeof(struct fth_cache_options), 0, 0, 0, 0, FTH_CACHE_DEFAULT, false, 0 \
	}

/*
 * Open a cache. options may be NULL for the defaults. The caller closes it. Memory is taken from
 * the system, and made known to devices, as frames come into use. -EINVAL for invalid options,
 * -ENOMEM.
 */
int fth_cache_open(const struct fth_cache_options *options, struct fth_cache **out);

/*
 * Flush all ranges, then free the cache with its ranges. If that fails the cache is still open and
 * usable, with all ranges and changes; the caller may close it again, or discard it. Arrays must be
 * closed before their cache. Blocks. Returns 0 or the first error: the device's, -ETIMEDOUT, -EBUSY
 * if lines are pinned. Accepts NULL.
 */
int fth_cache_close(struct fth_cache *cache);

/*
 * Free the cache without writing anything: changes that were not flushed may be lost. If that fails
 * the cache is still open and usable. -EBUSY if lines are pinned, -ETIMEDOUT if a device has not
 * completed requests that are in flight from the cache's memory. Accepts NULL.
 */
int fth_cache_discard(struct fth_cache *cache);

/*
 * Close, or discard if closing fails: for programs that end. Returns the result of closing. Sets
 * *cache to NULL, unless discarding failed as well: then the cache is still open, and the caller
 * must not close its devices.
 */
int fth_cache_finish(struct fth_cache **cache);

/* Bytes of a line. Any thread. */
uint32_t fth_cache_line_size(const struct fth_cache *cache);

/* ---- ranges ---- */

#define FTH_CACHE_TO_END   UINT64_MAX
#define FTH_CACHE_READONLY 1u /* pins other than FTH_CACHE_READ fail with -EROFS */

/*
 * Cache `length` bytes of a device from `offset` on. Both are multiples of the device's block,
 * which must divide the line size; the last line may be shorter. The caller keeps the device open
 * until the range is removed. -EEXIST if the range overlaps another one of the device, unless both
 * are read-only; -EINVAL, -ERANGE, -ENOSPC (more than 4096 ranges), -ENOMEM.
 */
int fth_cache_add(struct fth_cache *cache, struct fth_dev *dev, uint64_t offset, uint64_t length,
		  unsigned flags, struct fth_cache_range **out);

/*
 * Flush a range, then remove it from its cache. If that fails the range is still there and usable.
 * Blocks. Errors as those of fth_cache_close(). Accepts NULL.
 */
int fth_cache_remove(struct fth_cache_range *range);
/* Remove a range without writing anything. Errors as those of fth_cache_discard(). Accepts NULL. */
int fth_cache_discard_range(struct fth_cache_range *range);

/* The cache and the device of a range; its size in lines and in bytes; whether it is read-only. Any
 * thread. */
struct fth_cache *fth_cache_of(const struct fth_cache_range *range);
struct fth_dev *fth_cache_dev(const struct fth_cache_range *range);
uint64_t fth_cache_lines(const struct fth_cache_range *range);
uint64_t fth_cache_bytes(const struct fth_cache_range *range);
bool fth_cache_readonly(const struct fth_cache_range *range);

/* ---- single lines ---- */

enum fth_cache_mode {
	FTH_CACHE_READ,	    /* the caller reads */
	FTH_CACHE_WRITE,    /* the caller changes some bytes */
	FTH_CACHE_OVERWRITE /* the caller sets every byte: nothing is fetched. The bytes of a line
			       that was not in the cache are undefined, and no other thread can pin
			       it before this one unpins it */
};

/* A pinned line. The caller reads the fields and does not change them. */
struct fth_cache_pin {
	uint8_t *data;
	uint64_t *word;
	struct fth_cache_range *range;
	uint64_t line;
	enum fth_cache_mode mode;
	bool fresh; /* FTH_CACHE_OVERWRITE of a line that was not in the cache */
};

/* As a deadline: the cache's timeout, from the moment when the call has to wait. */
#define FTH_CACHE_TIMEOUT 0u

/*
 * Pin one line, and fetch it if it is not in the cache. The caller unpins it. Blocks until the
 * deadline at most. -ERANGE beyond the end of the range, -EROFS, the device's error if the fetch
 * failed, -ETIMEDOUT at the deadline, -ENOBUFS at the deadline if all frames are in use.
 */
int fth_cache_pin(struct fth_cache_range *range, uint64_t line, enum fth_cache_mode mode,
		  uint64_t deadline, struct fth_cache_pin *out);

/*
 * Unpin a line. `changed`: its bytes were changed; ignored for FTH_CACHE_READ. A fresh pin that is
 * unpinned unchanged leaves the line out of the cache. If more than dirty_percent of the frames are
 * dirty, the call waits until one batch of lines is written, at most for the cache's timeout.
 */
void fth_cache_unpin(struct fth_cache_pin *pin, bool changed);

/* ---- many lines: all misses in flight together ---- */

/*
 * Called by the visiting thread for each line of a visit, in any order, once the line is in memory.
 * The thread holds a reference on the line meanwhile. `which` is the position in the list. The
 * function must not call into the cache. A negative result ends the visit, which returns it.
 */
typedef int (*fth_cache_visit_fn)(void *context, size_t which, uint8_t *data);

/*
 * Call fn for each line of a list, and fetch those that are missing, with up to the cache's depth
 * of requests in flight. Missing lines that are consecutive in the list and on the device share a
 * request. A line may be listed more than once. Lines visited for writing count as changed if fn
 * returned 0. Blocks. Returns the first error; fn is not called any more after it.
 */
int fth_cache_visit(struct fth_cache_range *range, enum fth_cache_mode mode, const uint64_t *lines,
		    size_t n, fth_cache_visit_fn fn, void *context);

/* ---- hints, flushes ---- */

/*
 * Start to fetch the lines of [first, first + count) that are not in the cache, and return without
 * waiting. A hint: if no request or frame is free for a line, it is skipped, and errors are
 * ignored. Returns the number of fetches that were started.
 */
uint64_t fth_cache_prefetch(struct fth_cache_range *range, uint64_t first, uint64_t count);
/*
 * The same for a list of lines. Lines that are consecutive in the list and on the device share a
 * request; a line may be listed more than once. Lines beyond the end are ignored.
 */
uint64_t fth_cache_prefetch_lines(struct fth_cache_range *range, const uint64_t *lines, size_t n);

/*
 * Write back the dirty lines of [first, first + count), clipped to the range, then flush the
 * device: all changes that were unpinned before the call are durable when it returns 0. Blocks.
 * Returns the first error; lines that could not be written stay dirty, and another flush tries
 * again.
 */
int fth_cache_flush(struct fth_cache_range *range, uint64_t first, uint64_t count);

/* The same for all ranges. Each device is flushed once, after all writes to it. */
int fth_cache_flush_all(struct fth_cache *cache);

/*
 * Write back the dirty lines of [first, first + count), without a flush of the device, then drop
 * the lines that are not in use. Blocks. Returns the first error.
 */
int fth_cache_evict(struct fth_cache_range *range, uint64_t first, uint64_t count);

/* ---- statistics ---- */

enum fth_cache_stat {
	FTH_CACHE_HITS,
	FTH_CACHE_MISSES,     /* lines fetched, or overwritten without a fetch */
	FTH_CACHE_MERGED,     /* misses that waited for a fetch by another thread */
	FTH_CACHE_PREFETCHES, /* lines whose fetch a prefetch started */
	FTH_CACHE_EVICTIONS,
	FTH_CACHE_WRITE_BACKS,	 /* lines */
	FTH_CACHE_BYTES_READ,	 /* from devices */
	FTH_CACHE_BYTES_WRITTEN, /* to devices */
	FTH_CACHE_BYTES_WANTED,	 /* by callers; counted by fth_cache_wanted() */
	FTH_CACHE_READ_REQUESTS,
	FTH_CACHE_WRITE_REQUESTS,
	FTH_CACHE_ERRORS, /* lines whose fetch or write-back failed */
	FTH_CACHE_STAT_COUNT
};

/*
 * The value of a counter since the cache was opened, and its name. HITS include reads without a
 * pin. Any thread.
 */
uint64_t fth_cache_stat(const struct fth_cache *cache, enum fth_cache_stat which);
const char *fth_cache_stat_name(enum fth_cache_stat which);

/* For the layers above: count bytes that callers requested. Read amplification is
 * FTH_CACHE_BYTES_READ over FTH_CACHE_BYTES_WANTED. */
void fth_cache_wanted(struct fth_cache *cache, uint64_t bytes);
/* For the layers above: count hits that were made without a pin. */
void fth_cache_count_hits(struct fth_cache *cache, uint64_t hits);

struct fth_cache_footprint {
	uint64_t frames;      /* lines that fit */
	uint64_t data_bytes;  /* memory for them; reserved, and used as frames come into use */
	uint64_t frame_bytes; /* metadata proportional to the frames */
	uint64_t line_bytes;  /* metadata proportional to the lines of all ranges; 0 if compact */
	uint64_t lines;	      /* of all ranges */
	uint64_t dirty;	      /* lines, now */
};
/* The memory that the cache uses now. Any thread. */
void fth_cache_footprint(const struct fth_cache *cache, struct fth_cache_footprint *out);

/*
 * How many prefetched lines may wait to be used, all threads together, before the first of them are
 * replaced: all frames, or those of the trial ring. Any thread.
 */
uint64_t fth_cache_prefetch_limit(const struct fth_cache *cache);

/* The name of a policy: "fifo", for example. */
const char *fth_cache_policy_name(enum fth_cache_policy policy);
/* The policy of that name. Returns 0, or -EINVAL with an error text that lists the names. */
int fth_cache_policy_parse(const char *name, enum fth_cache_policy *out);

/* ---- reading hot lines without a reference, for the layers above ---- */

/*
 * Where a range's words and frames are, fixed for the range's life. words is NULL in a compact
 * cache: pin there. How to read: fathom/detail/hd/line.h, fth_line_same_place().
 */
struct fth_cache_view {
	uint64_t *words; /* one per line */
	uint8_t *frames; /* a word's frame is at frames + FTH_CACHE_LINE_MIN * its number */
	uint32_t line_shift;
	uint32_t peeks; /* the counter in stats of reads of 1 byte; those of 2, 4 and 8 follow */
	uint64_t bytes; /* of the range */
	/* Where such reads are counted, one add for each; they are hits, and bytes wanted. */
	struct fth_stats *stats;
};
void fth_cache_view(const struct fth_cache_range *range, struct fth_cache_view *out);

FTH_END_DECLS
#endif
