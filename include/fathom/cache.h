/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache: lines of devices kept in memory, brought in by whoever misses them.
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
 * A line is what is fetched, kept and written back as one: 512 bytes to 64 KiB, the same for the
 * whole cache. A range is part of a device, seen as lines 0, 1, 2 and so on. A frame is memory that
 * holds one line. There is at most one copy of a line, and one fetch of it however many want it.
 *
 * Threads: everything may be called by any thread at any time, except closing what another thread
 * is using. The thread that misses issues the request itself, on a channel it borrows for the call;
 * one background thread writes changed lines back. A pinned line stays where it is. Whoever pins
 * many lines at once and waits for more may find all frames pinned; that wait ends by its deadline.
 *
 * What a flush that returned 0 covers is durable. Anything else that was changed may or may not
 * survive a crash, block by block. A write-back that fails is tried again; flush and close report
 * the error, and the line stays in memory, dirty.
 *
 * A line that is being written back while its owner changes it may reach the medium half changed;
 * it is written again before any flush that began after the change returns.
 */
#ifndef FATHOM_CACHE_H
#define FATHOM_CACHE_H

#include "fathom/base/decls.h"
#include "fathom/base/stats.h"
#include "fathom/dev.h"
#include "fathom/hd/line.h"

FTH_BEGIN_DECLS

struct fth_cache;
struct fth_cache_range;

#define FTH_CACHE_LINE_MIN 512u
#define FTH_CACHE_LINE_MAX 65536u

/* Which line goes when another needs its frame. Figures in doc/results.md. */
enum fth_cache_policy {
	FTH_CACHE_DEFAULT, /* the one that measured best: TRIAL */
	FTH_CACHE_FIFO,	   /* BaM's clock: the next one that is not in use */
	FTH_CACHE_CLOCK,   /* the next one not used since the hand last passed */
	FTH_CACHE_TRIAL,   /* a clock, and new lines must be used again soon to stay */
	FTH_CACHE_POLICY_COUNT
};

/* Start from FTH_CACHE_OPTIONS_INIT; 0 in any field but size means its default. */
struct fth_cache_options {
	size_t size;	 /* of this structure */
	uint64_t memory; /* bytes of lines kept; default 64 MiB. At least 4 lines, below 512 GiB. */
	uint32_t line;	 /* bytes; a power of two; default 4096 */
	uint32_t depth;	 /* requests one call keeps in flight; default 128 */
	uint32_t dirty_percent; /* of all frames that may be dirty; default 50 */
	enum fth_cache_policy policy;
	bool compact;	     /* metadata that scales with memory, not with the data */
	uint64_t timeout_ns; /* of calls that take no deadline; default 30 s */
};

#define FTH_CACHE_OPTIONS_INIT                                                            \
	{                                                                                 \
		sizeof(struct fth_cache_options), 0, 0, 0, 0, FTH_CACHE_DEFAULT, false, 0 \
	}

/* Open a cache. -EINVAL with a text for options that cannot be, -ENOMEM. */
int fth_cache_open(const struct fth_cache_options *options, struct fth_cache **out);

/*
 * Flush everything, then free it, ranges included. Returns the first error; the cache is then still
 * open, with all its ranges and changes, and the caller may close it again, or discard it. Errors:
 * the device's, -ETIMEDOUT, -EBUSY if lines are pinned. Accepts NULL.
 */
int fth_cache_close(struct fth_cache *cache);

/* The same without writing anything: changes that were not flushed are lost. Fails with -EBUSY or,
 * while a device has not ended its requests, -ETIMEDOUT. */
int fth_cache_discard(struct fth_cache *cache);

/*
 * Close, or discard if that fails, for programs that end. Returns what closing returned. Sets
 * *cache to NULL, unless discarding failed as well: then the cache still uses its devices, which
 * must not be closed.
 */
int fth_cache_finish(struct fth_cache **cache);

uint32_t fth_cache_line_size(const struct fth_cache *cache);

/* ---- ranges ---- */

#define FTH_CACHE_TO_END   UINT64_MAX
#define FTH_CACHE_READONLY 1u /* pins other than FTH_CACHE_READ fail with -EROFS */

/*
 * Cache `length` bytes of a device from `offset` on. Both are multiples of the device's block,
 * which must divide the line size; the last line may be shorter than the others. The device must
 * outlive the range. Ranges of one device must not overlap unless all are read-only: -EEXIST.
 */
int fth_cache_add(struct fth_cache *cache, struct fth_dev *dev, uint64_t offset, uint64_t length,
		  unsigned flags, struct fth_cache_range **out);

/* Flush the range and forget it; if that fails it stays. Accepts NULL. */
int fth_cache_remove(struct fth_cache_range *range);
/* The same without writing anything. */
int fth_cache_discard_range(struct fth_cache_range *range);

struct fth_cache *fth_cache_of(const struct fth_cache_range *range);
struct fth_dev *fth_cache_dev(const struct fth_cache_range *range);
uint64_t fth_cache_lines(const struct fth_cache_range *range);
uint64_t fth_cache_bytes(const struct fth_cache_range *range);
bool fth_cache_readonly(const struct fth_cache_range *range);

/* ---- single lines ---- */

enum fth_cache_mode {
	FTH_CACHE_READ,	    /* the caller only looks */
	FTH_CACHE_WRITE,    /* the caller changes some bytes */
	FTH_CACHE_OVERWRITE /* the caller sets every byte: nothing is fetched. A pin of a line that
			       was not in the cache is alone with it, and its bytes are undefined */
};

/* A line held in memory. The fields are the caller's to read, not to change. */
struct fth_cache_pin {
	uint8_t *data;
	uint64_t *word;
	struct fth_cache_range *range;
	uint64_t line;
	enum fth_cache_mode mode;
	bool fresh; /* overwriting a line nobody else can see before unpin */
};

/* As a deadline: the cache's timeout, counted from when there is something to wait for. */
#define FTH_CACHE_TIMEOUT 0u

/*
 * Pin one line, fetching it if need be. Errors: -ERANGE beyond the end, -EROFS, the device's error
 * for a failed fetch (every waiter gets it; the next pin tries anew), -ETIMEDOUT by the deadline,
 * -ENOBUFS by the deadline when it was frames that were missing.
 */
int fth_cache_pin(struct fth_cache_range *range, uint64_t line, enum fth_cache_mode mode,
		  uint64_t deadline, struct fth_cache_pin *out);

/*
 * Let go. Lines pinned for writing count as changed if `changed`. A fresh overwrite that is let go
 * unchanged is taken back: the line is not in the cache. Never blocks for longer than it takes to
 * write one batch of lines back, and that only while more lines are dirty than may be.
 */
void fth_cache_unpin(struct fth_cache_pin *pin, bool changed);

/* ---- many lines: all misses in flight together ---- */

/*
 * Called for each line of a visit, once it is in memory, in any order, by the visiting thread,
 * which holds a reference on it. `which` is the position in the list. Must not call into the
 * cache. A negative result ends the visit, which returns it.
 */
typedef int (*fth_cache_visit_fn)(void *context, size_t which, uint8_t *data);

/*
 * Bring in the lines of a list, up to the cache's depth at once, and call `fn` for each as it
 * arrives. Missing neighbours (consecutive in the list and on the device) become one request. The
 * list may name a line twice. Lines visited for writing count as changed if fn returned 0.
 * Returns the first error; lines not yet called for by then are not. As many frames as requests in
 * flight are held, fewer if there are not so many.
 */
int fth_cache_visit(struct fth_cache_range *range, enum fth_cache_mode mode, const uint64_t *lines,
		    size_t n, fth_cache_visit_fn fn, void *context);

/* ---- hints, flushes ---- */

/*
 * Start fetching lines that are not there, and return without waiting. A hint: what does not fit
 * into the depth or finds no frame at once is left out, and so are errors. Returns how many fetches
 * were started.
 */
uint64_t fth_cache_prefetch(struct fth_cache_range *range, uint64_t first, uint64_t count);

/*
 * Write back what is dirty of [first, first + count) (clipped to the range), then flush the
 * device: all changes that were unpinned before the call are durable when it returns 0. Returns
 * the first error; then what was dirty is dirty still, and another flush tries again.
 */
int fth_cache_flush(struct fth_cache_range *range, uint64_t first, uint64_t count);

/* All ranges. Each device is flushed once, after all writes to it. */
int fth_cache_flush_all(struct fth_cache *cache);

/* Write back, without flushing the device, and then drop lines that nobody uses. */
int fth_cache_evict(struct fth_cache_range *range, uint64_t first, uint64_t count);

/* ---- statistics ---- */

enum fth_cache_stat {
	FTH_CACHE_HITS,
	FTH_CACHE_MISSES,     /* lines fetched or overwritten because they were not there */
	FTH_CACHE_MERGED,     /* misses that joined a fetch already under way */
	FTH_CACHE_PREFETCHES, /* lines whose fetch a prefetch began */
	FTH_CACHE_EVICTIONS,
	FTH_CACHE_WRITE_BACKS,	 /* lines */
	FTH_CACHE_BYTES_READ,	 /* from devices */
	FTH_CACHE_BYTES_WRITTEN, /* to devices */
	FTH_CACHE_BYTES_WANTED,	 /* what callers asked for; counted by fth_cache_wanted() */
	FTH_CACHE_READ_REQUESTS,
	FTH_CACHE_WRITE_REQUESTS,
	FTH_CACHE_ERRORS, /* lines whose fetch or write-back failed */
	FTH_CACHE_STAT_COUNT
};

/* Since the cache was opened. Any thread. Hits of lines read without a reference are included. */
uint64_t fth_cache_stat(const struct fth_cache *cache, enum fth_cache_stat which);
const char *fth_cache_stat_name(enum fth_cache_stat which);

/* Layers above count what their callers asked for: amplification is bytes read over this. */
void fth_cache_wanted(struct fth_cache *cache, uint64_t bytes);
/* Layers above that hit without a pin count here, many at once. */
void fth_cache_count_hits(struct fth_cache *cache, uint64_t hits);

/* What the cache takes beside the lines themselves. */
struct fth_cache_footprint {
	uint64_t frames;      /* how many lines fit */
	uint64_t data_bytes;  /* memory for them */
	uint64_t frame_bytes; /* metadata that scales with the frames */
	uint64_t line_bytes;  /* metadata that scales with the lines of all ranges; 0 if compact */
	uint64_t lines;	      /* of all ranges */
	uint64_t dirty;	      /* frames, at this moment */
};
void fth_cache_footprint(const struct fth_cache *cache, struct fth_cache_footprint *out);

const char *fth_cache_policy_name(enum fth_cache_policy policy);
/* 0 or -EINVAL with a text that lists the names. */
int fth_cache_policy_parse(const char *name, enum fth_cache_policy *out);

/* ---- reading hot lines without a reference, for the layers above ---- */

/*
 * Where a range's words and frames are, fixed for the range's life. words is NULL in a compact
 * cache: pin there. How to read: fathom/hd/line.h, fth_line_same_place().
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
