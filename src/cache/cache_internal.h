/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the cache. README.md describes how the parts work together and who owns what.
 *
 *	cache.c		opening, closing, options, statistics
 *	range.c		ranges, and their removal
 *	dir.c		from a line to its word: a table, or a hash in a compact cache
 *	frame.c		free frames
 *	policy.c	which line is evicted if no frame is free
 *	loan.c		channels that threads borrow, requests, and those left in flight
 *	miss.c		misses: finding a frame, waiting, completing a fetch
 *	visit.c		visits: many misses at once
 *	pin.c		pins
 *	prefetch.c	misses without a waiter
 *	write_back.c	writing dirty lines: in batches, sorted and merged
 *	flush.c		flush, evict, and emptying a range
 *	worker.c	the background thread
 */
#ifndef FATHOM_CACHE_INTERNAL_H
#define FATHOM_CACHE_INTERNAL_H

#include "fathom/base/stats.h"
#include "fathom/cache.h"
#include "fathom/hd/wait.h"

#include <pthread.h>

#define CACHE_RANGES_MAX 4096
/* Counters behind those of enum fth_cache_stat: reads without a reference of 1, 2, 4, 8 bytes. */
#define CACHE_PEEKS	 FTH_CACHE_STAT_COUNT
#define CACHE_PEEK_SIZES 4u
#define CACHE_NO_FRAME	 UINT32_MAX
/* A tag names a line of any range: the range's number above, the line's below. */
#define CACHE_TAG_SHIFT 48
#define CACHE_NO_TAG	UINT64_MAX
#define CACHE_LINES_MAX ((uint64_t)1 << CACHE_TAG_SHIFT)
/* The most one request moves, where its lines are neighbours. */
#define CACHE_MERGE_BYTES 131072u
#define CACHE_MERGE_MAX	  64u

/* What is known about a frame. The word that names it belongs to its line. */
struct cache_frame {
	uint64_t tag;	  /* the line in it, or CACHE_NO_TAG; a hint until the word confirms it */
	uint32_t version; /* counts its lines; changed by whoever holds the frame for itself */
	uint32_t trial;	  /* policy.c: its line is on trial */
	uint32_t next;	  /* next free frame, or next in the hash chain of a compact cache */
};

struct cache_device; /* loan.c */

struct fth_cache_range {
	struct fth_cache *cache;
	struct fth_dev *dev;
	struct cache_device *device;
	uint64_t *words; /* NULL in a compact cache */
	uint64_t offset; /* of line 0 in the device */
	uint64_t bytes;
	uint64_t lines;
	uint32_t number; /* in cache->ranges */
	bool readonly;
	/* Atomic. */
	uint32_t holders; /* threads that use it without being its user: flush_all */
	uint32_t discard; /* its changes are being discarded: the worker leaves them alone */
};

struct fth_cache {
	/* Fixed when opened. */
	uint32_t line_shift;
	uint32_t line_size;
	uint32_t frame_count;
	uint32_t depth;
	uint32_t merge; /* lines per request at most */
	uint32_t dirty_high, dirty_low;
	enum fth_cache_policy policy;
	uint32_t *trial; /* policy.c: a ring of frames */
	uint32_t trial_count;
	uint32_t line_limit; /* lines that one call has in flight at most */
	uint64_t timeout_ns;
	uint8_t *data; /* all frames */
	size_t data_bytes;
	uint32_t slab_frames; /* devices learn of the memory in slabs of so many; a power of two */
	struct cache_frame *frames;
	struct fth_stats *stats;

	/* The directory of a compact cache; dir.c. */
	uint64_t *frame_words;
	uint32_t *heads;
	uint32_t head_mask;

	/* Shared and atomic. */
	uint64_t hand; /* policy.c */
	uint64_t trial_ticket;
	uint64_t free_head;   /* frame.c: a stack */
	uint32_t fresh;	      /* frame.c: frames from here on were never used */
	uint32_t dirty;	      /* words with DIRTY set, or about to be */
	uint32_t kicked;      /* worker.c: someone waits for clean frames */
	uint32_t write_error; /* errno of the latest write-back if it failed, else 0 */

	uint64_t epoch; /* loan.c: raised when a range has been hidden */

	/* Atomic pointers: the range of each number as tags lead to it; NULL while it is hidden. */
	struct fth_cache_range *ranges[CACHE_RANGES_MAX];

	/*
	 * None of these is held across I/O. setup comes before lock; lock before that of a
	 * cache_device.
	 *	setup	cache_devices, and what their devices know of the memory
	 *	lock	the two arrays of ranges, the worker's state
	 *	tables	read: threads that go through frames or ranges without a loan
	 */
	pthread_mutex_t setup;
	pthread_mutex_t lock;
	pthread_rwlock_t tables;
	struct fth_cache_range *taken[CACHE_RANGES_MAX]; /* numbers in use, also of hidden ranges */
	struct cache_device *devices;

	pthread_t worker;
	bool worker_runs, worker_stop;
	struct cache_dirty *worker_lines; /* what it is writing */
	pthread_cond_t work;		  /* for the worker */
	pthread_cond_t cleaned;		  /* a batch was written */
	uint64_t batches;
};

static inline uint64_t cache_tag(const struct fth_cache_range *range, uint64_t line)
{
	return (uint64_t)range->number << CACHE_TAG_SHIFT | line;
}

static inline uint8_t *cache_frame_data(const struct fth_cache *cache, uint32_t frame)
{
	return cache->data + ((uint64_t)frame << cache->line_shift);
}

/* ---- slabs ---- */

static inline size_t cache_slab_size(const struct fth_cache *cache)
{
	return (size_t)cache->slab_frames << cache->line_shift;
}

static inline uint8_t *cache_slab(const struct fth_cache *cache, uint32_t slab)
{
	return cache->data + slab * cache_slab_size(cache);
}

/* The last one may be shorter. */
static inline size_t cache_slab_bytes(const struct fth_cache *cache, uint32_t slab)
{
	size_t left = cache->data_bytes - slab * cache_slab_size(cache);

	return left < cache_slab_size(cache) ? left : cache_slab_size(cache);
}

/* Slabs that have a frame which was used. */
static inline uint32_t cache_slabs_in_use(const struct fth_cache *cache)
{
	uint32_t fresh = fth_load_relaxed_dev32(&cache->fresh);

	if (fresh > cache->frame_count)
		fresh = cache->frame_count;
	return (uint32_t)(((uint64_t)fresh + cache->slab_frames - 1) / cache->slab_frames);
}

/*
 * A word's frame field holds the frame's place in units of the shortest line, so that readers
 * without a reference find it in all caches alike.
 */
#define CACHE_PLACE_SHIFT 9

static inline uint32_t cache_place_of_frame(const struct fth_cache *cache, uint32_t frame)
{
	return frame << (cache->line_shift - CACHE_PLACE_SHIFT);
}

/* The frame of a word that is VALID. */
static inline uint32_t cache_frame_of_word(const struct fth_cache *cache, uint64_t word)
{
	return fth_line_frame(word) >> (cache->line_shift - CACHE_PLACE_SHIFT);
}

/* Bytes of a line: all but the last one of a range are whole. */
static inline uint32_t cache_line_bytes(const struct fth_cache_range *range, uint64_t line)
{
	uint64_t left = range->bytes - (line << range->cache->line_shift);

	return left < range->cache->line_size ? (uint32_t)left : range->cache->line_size;
}

static inline uint64_t cache_line_offset(const struct fth_cache_range *range, uint64_t line)
{
	return range->offset + (line << range->cache->line_shift);
}

/*
 * Requests that are submitted together, and collected together. More at once cost fewer calls, but
 * the device must not run dry while the thread deals with what it has collected.
 */
static inline uint32_t cache_batch(const struct fth_cache *cache)
{
	return cache->depth / 16 + 1;
}

static inline void cache_count(const struct fth_cache *cache, enum fth_cache_stat which, uint64_t n)
{
	fth_stats_add(cache->stats, which, n);
}

/* The range of a tag, NULL if it has been removed. */
struct fth_cache_range *cache_range_of_tag(const struct fth_cache *cache, uint64_t tag);

/* ---- range.c ---- */

/* All ranges, each held until cache_range_put(); *n of them, to be freed. NULL without memory. */
struct fth_cache_range **cache_ranges_hold(struct fth_cache *cache, uint32_t *n);
void cache_range_put(struct fth_cache_range *range);
/* Free a range that is empty, of a cache that is being closed: nobody else is there. */
void cache_range_release(struct fth_cache_range *range);

/* A line that is wanted: where it is, and what for. */
struct cache_part {
	uint64_t *word;
	uint64_t line;
	uint32_t frame; /* of an owner */
	uint32_t turn;	/* of the fetch that is waited for: fth_line_failed() */
	size_t which;	/* in the visitor's list */
};

/* ---- dir.c ---- */

enum cache_found {
	CACHE_READY,  /* in memory; the caller has a reference */
	CACHE_BUSY,   /* being fetched by someone; the caller has a reference, and waits */
	CACHE_OWNED,  /* not there; the caller has a reference and must publish, fail or disown */
	CACHE_ABSENT, /* not there; the caller brings a frame to cache_dir_insert() */
	/* the fetch waited for failed, or too many references; *error; no reference */
	CACHE_FAILED,
};

int cache_dir_init(struct fth_cache *cache, bool compact);
void cache_dir_release(struct fth_cache *cache);
uint64_t cache_dir_bytes(const struct fth_cache *cache);

/* Find part->line and take a reference, or own its fetch. Sets the part's word and turn. */
enum cache_found cache_dir_acquire(struct fth_cache_range *range, struct cache_part *part,
				   int *error);
/* After CACHE_ABSENT, with part->frame: any result but CACHE_ABSENT; only CACHE_OWNED takes the
 * frame. Sets the part's word and turn. */
enum cache_found cache_dir_insert(struct fth_cache_range *range, struct cache_part *part,
				  int *error);
/*
 * After CACHE_BUSY, or by an owner whose fetch has ended: look again. CACHE_FAILED: that fetch has
 * failed. CACHE_ABSENT: it was given up. The reference is gone with both.
 */
enum cache_found cache_dir_look(struct fth_cache_range *range, const struct cache_part *part,
				int *error);
/* The owner gives up, and drops its reference; the frame, if it has one, is free again. error > 0:
 * its waiters get it. 0: they look the line up anew. */
void cache_dir_abandon(struct fth_cache_range *range, uint64_t *word, uint32_t frame, int error);
/* The word of a line that seems to be in memory, without a reference; NULL if there is none. */
uint64_t *cache_dir_peek(struct fth_cache_range *range, uint64_t line);
/* The word of the line in a frame, from its tag; NULL if the range is gone. */
uint64_t *cache_dir_word(struct fth_cache *cache, uint32_t frame, uint64_t tag);
/* Take out what was seen evictable. True: the frame is the caller's, its tag is CACHE_NO_TAG. */
bool cache_dir_evict(struct fth_cache *cache, uint32_t frame, uint64_t *word, uint64_t seen);
/*
 * Compact: the word of a frame whose fetch failed or was given up, and which all waiters have left.
 */
static inline bool cache_left_over(const struct fth_cache *cache, uint64_t word)
{
	return cache->frame_words && !(word & (FTH_LINE_VALID | FTH_LINE_BUSY)) &&
	       !fth_line_count(word);
}
/* Take over a frame whose word was seen so. */
bool cache_dir_reclaim(struct fth_cache *cache, uint32_t frame, uint64_t seen);

/* ---- frame.c ---- */

void cache_frame_put(struct fth_cache *cache, uint32_t frame);
/* A frame for the caller alone, or CACHE_NO_FRAME after looking at all of them a few times;
 * *dirty says whether writing lines back would help. */
uint32_t cache_frame_take(struct fth_cache *cache, bool *dirty);
/* Its holder says which line it will hold. */
void cache_frame_set(struct fth_cache *cache, uint32_t frame, uint64_t tag);

/* ---- policy.c ---- */

int cache_policy_init(struct fth_cache *cache);
/* Evict a line; its frame, or CACHE_NO_FRAME after looking at all of them a few times. */
uint32_t cache_policy_take(struct fth_cache *cache, bool *dirty);

/* The i-th of trial_count frames whose lines are judged next; may be CACHE_NO_FRAME. */
uint32_t cache_policy_next(const struct fth_cache *cache, uint32_t i);

/* ---- loan.c ---- */

/* One request for one or more neighbouring lines of one range. */
struct cache_io {
	struct fth_dev_req req;
	struct fth_cache_range *range;
	struct cache_io *next;
	uint32_t count;
	uint32_t at;		 /* the line that it is being done for, if alone */
	bool alone;		 /* it failed for all at once, and is done line by line */
	struct iovec *iov;	 /* [merge] */
	struct cache_part *part; /* [merge] */
};

struct cache_visit; /* visit.c */

/* A channel with its requests. Borrowed by one thread at a time. */
struct cache_loan {
	struct cache_device *device;
	struct cache_loan *next;      /* in the device's list of all loans */
	struct cache_loan *next_free; /* free or parked */
	struct fth_dev_chan *chan;
	struct cache_io *ios;
	struct cache_io *free_ios;
	struct cache_io *open_io;    /* being filled; not submitted */
	struct fth_dev_req **batch;  /* filled, waiting for one submit */
	uint32_t batched, in_flight; /* requests */
	uint32_t lines;		     /* in requests that have not ended */
	struct cache_visit *visit;   /* whom arrivals are told to; NULL: nobody waits for them */
	uint64_t epoch;		     /* atomic; invariant 4 of loan.c */
	int error;		     /* of its flush, or of the first of its writes that failed */
	bool ahead;		     /* what it fetches are prefetches */
	bool borrowed;		     /* under the device's lock */
};

/* With setup held. The cache_device of a device, for one range more. */
struct cache_device *cache_device_get(struct fth_cache *cache, struct fth_dev *dev);
/* With setup held. The last range closes the device's channels, which are idle. */
void cache_device_put(struct cache_device *device);
/* With setup held. Does one range use it? */
bool cache_device_last(const struct cache_device *device);
/* No loan of any device is borrowed, and nothing is in flight. */
bool cache_devices_idle(struct fth_cache *cache);
/* Wait until this is so for one device. 0, or -ETIMEDOUT by the deadline. */
int cache_device_settle(struct cache_device *device, uint64_t deadline);
/* Flush the device, on a loan. 0, -ETIMEDOUT by the deadline, or the device's error. */
int cache_device_flush(struct cache_device *device, uint64_t deadline);
/* Frames of another slab have come into use: make it known to all devices. */
void cache_devices_map(struct fth_cache *cache);
void cache_devices_release(struct fth_cache *cache);
/* The one after this, the first after NULL; NULL after the last. */
struct cache_device *cache_device_next(const struct fth_cache *cache,
				       const struct cache_device *device);

/* Borrow a loan; with `parked`, one that still has requests in flight will do. */
int cache_loan_borrow(struct cache_device *device, bool parked, struct cache_loan **out);
/* Give it back; what is still in flight is looked after by others. */
void cache_loan_return(struct cache_loan *loan);

/* Could this line be added now? */
bool cache_loan_has_room(const struct cache_loan *loan, const struct fth_cache_range *range,
			 enum fth_dev_op op, uint64_t line);
/* Add a line to the request being filled, or begin another. False: no request is free. */
bool cache_loan_add(struct cache_loan *loan, struct fth_cache_range *range, enum fth_dev_op op,
		    const struct cache_part *part);
/* Submit everything that was added. What the device does not take completes with its error. */
void cache_loan_submit(struct cache_loan *loan);
/*
 * Collect at least min requests, or all there are, until the deadline. 0, -ETIME, or the device's
 * failure to reap. Calls cache_fetch_done() or cache_write_done() for each line. While it waits the
 * caller holds on to nothing that it has looked up without a reference.
 */
int cache_loan_reap(struct cache_loan *loan, uint32_t min, uint64_t deadline);
/* Collect for those who left requests behind, waiting a little. True if something arrived. */
bool cache_loans_help(struct fth_cache *cache, uint64_t wait_ns);
/* Wait until no borrower of a loan looks at what it found before now. 0 or -ETIMEDOUT. */
int cache_loans_quiesce(struct fth_cache *cache, uint64_t deadline);

/* ---- miss.c, write_back.c ---- */

/* A loan's read, or write, of one line has ended. */
void cache_fetch_done(struct cache_loan *loan, struct fth_cache_range *range,
		      const struct cache_part *part, int result);
void cache_write_done(struct cache_loan *loan, struct fth_cache_range *range,
		      const struct cache_part *part, int result);

/* 0, -ERANGE or -EROFS. */
int cache_check_line(const struct fth_cache_range *range, uint64_t line, enum fth_cache_mode mode);

/* A deadline; FTH_CACHE_TIMEOUT stands for the cache's timeout from now. */
static inline uint64_t cache_deadline(const struct fth_cache *cache, uint64_t deadline)
{
	return deadline == FTH_CACHE_TIMEOUT ? fth_deadline_ns(cache->timeout_ns) : deadline;
}

/* Publish a line. `extra`: DIRTY if it was overwritten, AHEAD if it was prefetched. */
void cache_line_arrived(struct fth_cache_range *range, const struct cache_part *part,
			uint64_t extra);
/*
 * cache->dirty is never less than the number of DIRTY words: it is raised before DIRTY is set and
 * lowered after it was cleared. relaxed is enough: setting DIRTY is a release, clearing an acquire.
 */
static inline void cache_dirty_raise(struct fth_cache *cache)
{
	fth_add_relaxed_dev32(&cache->dirty, 1);
}
static inline void cache_dirty_lower(struct fth_cache *cache)
{
	fth_add_relaxed_dev32(&cache->dirty, (uint32_t)-1);
}
/* Drop a reference after changing the line; may wait as the next one does. */
void cache_unref_changed(struct fth_cache *cache, uint64_t *word);
/* A line has become DIRTY, and is counted: have some written, and wait if there are too many. */
void cache_line_dirtied(struct fth_cache *cache);

#define CACHE_HELP_NS 100000u /* how long a waiting thread collects for others at a time */

/* A pause in a wait for what another thread does: spin, yield, then sleep. True: it is over. */
bool cache_pause_expired(struct fth_backoff *backoff, uint64_t deadline);

/* Wait for a line being fetched; the reference is gone unless it is CACHE_READY. */
enum cache_found cache_wait_for(struct fth_cache_range *range, const struct cache_part *part,
				uint64_t deadline, int *error);
/*
 * After CACHE_OWNED or CACHE_ABSENT: get a frame, and in a compact cache the line's place. `loan`
 * may have requests in flight to wait for. deadline 0: the cache's timeout from now.
 */
enum cache_found cache_prepare(struct fth_cache_range *range, enum cache_found found,
			       struct cache_loan *loan, uint64_t deadline, struct cache_part *part,
			       int *error);

/* One line to write: its write-back is owned. */
struct cache_dirty {
	struct fth_cache_range *range;
	struct cache_part part;
};
/* Own the write-back of a dirty line; false if it is not dirty or someone is writing it. */
bool cache_write_own(struct fth_cache *cache, uint64_t *word, struct cache_dirty *out);
/* Write them, in order of place, neighbours together. Returns the first error. */
int cache_write_lines(struct fth_cache *cache, struct cache_dirty *lines, size_t n);
/* Own the write-backs of up to max lines the hand will come to next. */
size_t cache_collect_ahead(struct fth_cache *cache, struct cache_dirty *lines, size_t max);

/* ---- visit.c: what the end of a fetch tells a visit ---- */

/* The line is in memory and referenced: show it to the visitor, and let go. */
void cache_visit_deliver(struct cache_visit *v, uint64_t *word, uint32_t frame, size_t which);
/* Keeps the first error. */
void cache_visit_note(struct cache_visit *v, int rc);
/* Deliver lines of others that have arrived; true if one was let go. */
bool cache_visit_settle_ready(struct cache_visit *v);

/* ---- flush.c ---- */

/*
 * Write back, or discard, and drop all lines of a range. -EBUSY if some are pinned, -ETIMEDOUT if
 * requests for some have not ended by the deadline, or the error of a write-back.
 */
int cache_empty_range(struct fth_cache_range *range, bool discard, uint64_t deadline);

/* ---- worker.c ---- */

int cache_worker_start(struct fth_cache *cache);
void cache_worker_stop(struct fth_cache *cache);
/* Ask for clean frames. */
void cache_worker_kick(struct fth_cache *cache);
/* Wait until a batch was written, the dirty share is within its bound, or the deadline. */
void cache_worker_wait(struct fth_cache *cache, uint64_t deadline);

#endif
