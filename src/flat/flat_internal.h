/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A region, and the files that implement it:
 *
 * region/: the region and what it stands on
 *	region.c	opening, closing, options, statistics
 *	registry.c	the regions of this process
 *	map.c		the addresses that the program sees
 *	page_io.c	pages from and to the device
 *	device_window.c	the window of the device: log and SSD-cache in it
 *	fork.c		children of fork() that have the region too
 *	fork_barrier.c	no thread uses pages while the process forks
 * paging/: where a page is, and when it moves
 *	page_word.h	state and lock of a page; futex_lock.c: that lock, and all others
 *	directory.c	which pages are in the SSD-cache, and which is evicted next (RRIP)
 *	ring.c		which pages are in DRAM, oldest first
 *	readmission.c	which of the oldest stay longer
 *	move.c		transitions of a page between states
 *	evict_batch.c	eviction of many pages from DRAM
 *	policy.c	when a page moves to DRAM
 *	stream.c	which pages are used one after the other
 *	mover.c		the background thread
 *	latency_model.h	latencies of another machine, for benchmarks
 * access/: what programs ask for
 *	fault.c		an access to a page that is not mapped; fault_signals.c: its signals
 *	load_store.c	load, store, gather and scatter
 *	advise.c	advice, holds
 *	discard.c	pages whose contents are no longer needed
 *	donate.c	pages whose addresses are given to other mappings
 * durable/: what survives
 *	sync.c		durability of everything
 *	persist.c	durability byte by byte
 *	persist_log.c	the log that it uses, with log_medium.c, log_replay.c; recover.c replays it
 *			at open
 * emul/: instructions on memory at another address
 * preload/: unmodified programs (`fathom flat run`)
 *
 * Invariants, for pages that are not locked:
 *  1. FLASH: no memory. CACHED: a slot in the directory, whose frame holds the page. DRAM: a place
 *     in the ring; the page is mapped for the program, write-protected unless DIRTY.
 *  2. A page differs from the device only if it is DIRTY, or FRESH: then it is zero unless it is
 *     DIRTY too.
 *  3. Pages in the directory <= directory.slots, ring.taken <= ring.limit; their sum is the budget.
 *  4. Locks are taken in this order: pages, ascending; then a set of the directory, the ring or the
 *     policy. The latter are held for a few instructions, never while a thread waits for a page or
 *     for I/O.
 */
#ifndef FATHOM_SRC_FLAT_FLAT_INTERNAL_H
#define FATHOM_SRC_FLAT_FLAT_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "flat/region/fork.h"
#include "flat/region/map.h"
#include "flat/paging/latency_model.h"
#include "flat/paging/page_word.h"

#include "fathom/base/stats.h"
#include "fathom/flat.h"

#define FLAT_WAYS     16u
#define FLAT_CHANNELS 16u
#define FLAT_DEPTH    64u
#define FLAT_NONE     UINT64_MAX
#define FLAT_TIMEOUT  30000000000u
#define FLAT_GROUP    512u /* pages that have a bit for sync */

/* A slot of the SSD-cache. */
struct flat_slot {
	uint64_t page;	/* FLAT_NONE: empty */
	uint32_t count; /* accesses since it came in, for Algorithm 1 */
	uint32_t rrpv;	/* re-reference prediction: 0 soon, FLAT_RRPV_MAX distant */
};
#define FLAT_RRPV_MAX 3u

struct flat_directory {
	struct flat_slot *slots; /* sets of `ways` */
	uint32_t *locks;	 /* one word a set */
	uint64_t sets;
	uint32_t ways;
	uint64_t used;	 /* slots; atomic */
	uint64_t counts; /* the sum of the counts of the pages in it; atomic */
	uint8_t *frames; /* one a slot */
	uint64_t page;	 /* bytes of a frame */
	bool borrowed;	 /* the frames are the window's */
};

struct flat_queue {
	uint64_t *pages; /* some may have left DRAM since they were entered */
	uint64_t room, head, used;
};

struct flat_ring {
	struct flat_queue staying, streaming; /* streaming: used one after the other */
	uint64_t limit;			      /* places; atomic */
	uint64_t taken; /* places of pages in DRAM, or on their way there; atomic */
	uint32_t lock;
};

/* See readmission.c. */
struct flat_readmission {
	uint8_t left_at : 7; /* generation in which it left DRAM; 0: never */
	uint8_t gone : 1;    /* it left the SSD-cache, too */
	uint8_t laps : 4, laps_left : 4;
};

struct flat_channel {
	struct fth_dev_chan *chan;
	uint32_t lock;
	bool polls;
	bool lost;     /* a request timed out on it: left alone until close */
	uint32_t slow; /* waits that do not poll, since a request took long; under lock */
	struct fth_dev_req reqs[FLAT_DEPTH];
};

/*
 * Memory for pages that are read and go to DRAM without a slot of the SSD-cache, one for each
 * channel.
 */
struct flat_read_buffers {
	uint8_t *memory;
	uint32_t locks[FLAT_CHANNELS];
};

/* A page that could have moved to DRAM and did not. */
struct flat_sample {
	uint64_t page;		 /* FLAT_NONE: none */
	uint64_t moves, counted; /* of the policy, when it began */
	uint64_t count;		 /* accesses since */
};
#define FLAT_SAMPLES 16u

struct flat_policy {
	uint32_t lock; /* of all but epoch and epoch_accesses, which are atomic */
	uint32_t threshold;
	/* Algorithm 1 */
	uint64_t accesses, promoted;
	/* counters */
	uint64_t epoch_accesses;
	uint32_t epoch;
	struct flat_sample samples[FLAT_SAMPLES];
	uint64_t next;		    /* sample to look at */
	uint64_t reached, moves;    /* pages that reached the threshold, and moved */
	uint64_t counted;	    /* accesses */
	uint64_t ended, saved;	    /* samples, and their accesses, since the threshold changed */
	uint64_t entered, returned; /* of the region, at that time */
	uint64_t reached_seen;	    /* at the end of the last epoch, */
	uint32_t epoch_seen;	    /* and its number */
};

struct flat_log;

/* See stream.c. */
struct flat_stream {
	uint64_t next; /* the page that continues it; FLAT_NONE: no stream */
	uint64_t end;  /* the last page that is read ahead, or was used */
	uint64_t at;   /* stream_misses when it was used */
	uint32_t run;  /* pages in a row */
	uint32_t window;
};

/* Pages [first, end) that are used in one way or the other. */
struct flat_habit {
	uint64_t first, end;
	bool sequential; /* else random */
};
#define FLAT_HABITS 16u

/* What the thread of a region is asked to do. */
struct flat_request {
	enum { REQUEST_UP, REQUEST_AHEAD, REQUEST_CLEAN, REQUEST_ROOM } kind;
	uint64_t first, pages;
};
#define FLAT_REQUESTS  64u
#define FLAT_AHEAD_MAX 32u

struct flat_mover {
	pthread_t thread;
	bool running;	  /* set before the region is used */
	bool stop;	  /* atomic, as the next four */
	uint32_t asleep;  /* and a futex */
	bool cleaning;	  /* a request of that kind is on its way */
	bool rooming;	  /* likewise */
	uint64_t dirtied; /* pages of the SSD-cache */
	/* a read timed out and may still change the buffer: nothing is done any more; atomic */
	bool lost;
	uint32_t lock; /* of the requests */
	struct flat_request requests[FLAT_REQUESTS];
	uint64_t head, used;
	/*
	 * The page that is MOVING: parts stored to since its copy began. Under the lock of that
	 * page.
	 */
	uint64_t stored;
	uint64_t hand;	      /* the set of the directory to clean next */
	uint32_t buffer_lock; /* of those read ahead; tried, never waited for */
	uint8_t *buffer;      /* FLAT_AHEAD_MAX pages that are read ahead, and one that is MOVING */
};

struct fth_flat {
	struct flat_map map;
	struct fth_dev *dev;
	bool owns_dev; /* closes it */
	struct fth_flat_options options;
	struct flat_latency_model model;
	uint64_t pages, size; /* of the region; size is what the program sees */
	uint32_t *words;
	uint64_t *dirty_groups; /* bits, see sync.c; atomic */
	uint32_t sync_lock;
	struct flat_directory directory;
	struct flat_ring ring;
	struct flat_readmission *readmissions; /* of each page */
	uint64_t entered;		       /* pages that came to DRAM to stay; atomic */
	uint64_t returned;		       /* those of them that had left soon before; atomic */
	struct flat_channel channels[FLAT_CHANNELS];
	struct flat_read_buffers read_buffers;
	struct flat_policy policy;
	struct flat_stream *streams;
	uint64_t stream_misses;
	struct flat_habit habits[FLAT_HABITS]; /* under the lock of the policy */
	uint64_t habit_count;		       /* ever told; the latest are kept */
	struct flat_mover mover;
	struct fth_stats *stats;
	uint64_t budget;	       /* pages; atomic */
	uint64_t held;		       /* pages with holds; atomic */
	struct fth_dev_window *window; /* or NULL */
	uint64_t window_log;	       /* bytes of the log at its beginning */
	uint64_t window_slots; /* of the SSD-cache in it; 0: the SSD-cache is memory of the host */
	struct flat_log *log;  /* or NULL; in the window if there is one */
	uint64_t marked_first, marked_end; /* pages; marked ones are between them; atomic */
	/* a write timed out and may still happen: no page is written any more; atomic */
	int failed;
	uint32_t owner;		/* the process that may use it, as registry.c counts them */
	struct flat_fork *fork; /* or NULL: children cannot use the region */
};

static inline void flat_count(struct fth_flat *flat, enum fth_flat_stat which)
{
	fth_stats_add(flat->stats, which, 1);
}

/* ---- page_io.c ---- */
int io_open(struct fth_flat *flat);
void io_close(struct fth_flat *flat);
/* One page between memory and the device; its lock is held. Blocks. */
int io_read(struct fth_flat *flat, uint64_t page, void *to);
int io_write(struct fth_flat *flat, uint64_t page, const void *from);
/*
 * No program waits for this thread: it writes few pages at a time, so that reads of others do not
 * queue behind them.
 */
void io_be_patient(void);
/*
 * Memory for a page that nobody else uses; NULL: all of it is in use. Given back unless a read into
 * it timed out.
 */
uint8_t *io_take_buffer(struct fth_flat *flat);
void io_give_buffer(struct fth_flat *flat, const uint8_t *buffer);
/*
 * Many pages at once, all locked; page i is at memory[i]. results[i] is set for each. Returns 0, or
 * the first error. A page whose read timed out becomes BROKEN.
 */
int io_many(struct fth_flat *flat, enum fth_dev_op op, const uint64_t *pages, void *const *memory,
	    unsigned n, int *results, uint64_t deadline);

/* ---- device_window.c ---- */
/* Open the window and decide what it is used for. Sets window, window_log, window_slots. */
int window_open(struct fth_flat *flat);
void window_close(struct fth_flat *flat);
/* Frames of the SSD-cache in the window. */
uint8_t *window_frames(const struct fth_flat *flat);

/* ---- persist.c ---- */
/*
 * Open the log, if there is to be one, and bring the changes in it into place. Before the region is
 * used.
 */
int persist_open(struct fth_flat *flat);
void persist_close(struct fth_flat *flat);
uint64_t persist_stat(const struct fth_flat *flat, enum fth_flat_stat which);

/* ---- recover.c ---- */
/*
 * A log of `size` bytes at `at` of the window or the device, formatted if it is none. Its changes
 * are in place afterwards.
 */
int recover_open(struct fth_flat *flat, bool window, uint64_t at, uint64_t size,
		 struct flat_log **out);
/* -EBUSY if the region, opened without a log, ends with one that has changes. */
int recover_guard(struct fth_flat *flat);
int recover_has_records(struct flat_log *log, bool *has);

/* ---- load_store.c ---- */
/* Returns 0, -ERANGE or, for a store, -EROFS. */
int flat_check_bytes(const struct fth_flat *flat, const void *at, uint64_t length, bool store);

/* ---- sync.c ---- */
/* A page has become DIRTY; its lock is held, and no store to it has been made yet. */
void sync_note_dirty(struct fth_flat *flat, uint64_t page);
/* Write pages of [first, end) that are DIRTY and have all `bits`, in ascending order. */
int sync_pages(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits,
	       uint64_t deadline);
/*
 * All that are DIRTY and have `bits`, then flush; with a log: it is empty then, but for records of
 * this time.
 */
int sync_all(struct fth_flat *flat, uint64_t first, uint64_t end, uint32_t bits, uint64_t deadline);

/* ---- directory.c: slots of the SSD-cache ---- */
/* `frames`: memory for them, or NULL. */
int directory_open(struct flat_directory *directory, uint64_t slots, uint64_t page,
		   uint8_t *frames);
void directory_close(struct flat_directory *directory);
/*
 * The slot of a page, or NULL. Only a thread that holds the lock of a page gives it a slot or takes
 * it away: the slot found under that lock remains the page's until the lock is released.
 */
struct flat_slot *directory_find(struct flat_directory *directory, uint64_t page);
static inline uint8_t *directory_frame(const struct flat_directory *directory,
				       const struct flat_slot *slot)
{
	return directory->frames + (uint64_t)(slot - directory->slots) * directory->page;
}
/* Note an access to the page of a slot; returns how many there were since it came in. */
uint32_t directory_touch(struct flat_directory *directory, struct flat_slot *slot);
/*
 * Enter a page. Returns its slot, and *victim is FLAT_NONE, if one was empty. Otherwise nothing was
 * entered: *victim is a page to evict, which is CACHED and now locked, the result its slot, which
 * directory_replace() gives to the new page. NULL: all pages of the set are locked.
 */
struct flat_slot *directory_enter(struct fth_flat *flat, uint64_t page, uint64_t *victim);
void directory_replace(struct flat_directory *directory, struct flat_slot *slot, uint64_t page);
/*
 * Slots of up to n pages that are CACHED and DIRTY and likely to go soon, now locked, from the sets
 * behind *hand on, which is set. Returns how many, in any order.
 */
unsigned directory_find_dirty(struct fth_flat *flat, uint64_t *hand, struct flat_slot **dirty,
			      unsigned n);
/* Empty a slot, whose page is locked. */
void directory_remove(struct flat_directory *directory, struct flat_slot *slot);

/* ---- ring.c ---- */
int ring_open(struct flat_ring *ring, uint64_t limit);
void ring_close(struct flat_ring *ring);
/* Take a place for one more page; false if all are taken. */
bool ring_reserve(struct flat_ring *ring);
void ring_unreserve(struct flat_ring *ring);
/* Enter a page that has a place. */
void ring_push(struct fth_flat *flat, uint64_t page, bool streaming);
/*
 * The page to go next, no longer in the ring; FLAT_NONE if there is none. It keeps its place. It
 * may have left DRAM since. *streaming: it was one of those used one after the other.
 */
uint64_t ring_pop(struct fth_flat *flat, bool *streaming);
/* Returns 0 or -ENOMEM. More pages than that may be in DRAM afterwards. */
int ring_set_limit(struct flat_ring *ring, uint64_t limit);

/* ---- readmission.c: a page that is locked ---- */
int readmission_open(struct fth_flat *flat);
void readmission_close(struct fth_flat *flat);
/* It comes to DRAM, and not as one of those used one after the other. */
void readmission_enter(struct fth_flat *flat, uint64_t page);
/* It is the oldest: true if it stays once more. */
bool readmission_skip(struct fth_flat *flat, uint64_t page);
/* It leaves DRAM because others need its place. */
void readmission_left(struct fth_flat *flat, uint64_t page);
/* It goes to flash. */
void readmission_gone(struct fth_flat *flat, uint64_t page);

/* ---- move.c: a page that is locked ---- */
/* Where its bytes are; it is CACHED or DRAM. */
uint8_t *move_find(struct fth_flat *flat, uint64_t page);
/* It is about to be changed there. */
int move_allow_store(struct fth_flat *flat, uint64_t page);
/* Stores of the program to a page in DRAM fault from now on, and wait for its lock. */
int move_stop_stores(struct fth_flat *flat, uint64_t page);
/* Evict `old`, which is CACHED, locked and clean; its slot belongs to `page` then. */
void move_give_slot(struct fth_flat *flat, uint64_t old, struct flat_slot *slot, uint64_t page);
/* FLASH to CACHED. Sets *slot. Returns 0, or the error of the device. */
int move_in(struct fth_flat *flat, uint64_t page, struct flat_slot **slot);
/*
 * The same in two steps, for many pages at once: a slot for the page; then, after reading it, its
 * state. Without a free slot -EBUSY at once or, with `wait`, after FLAT_TIMEOUT.
 */
int move_find_slot(struct fth_flat *flat, uint64_t page, bool wait, struct flat_slot **slot);
void move_in_end(struct fth_flat *flat, uint64_t page, struct flat_slot *slot, int result);
/*
 * CACHED to DRAM; the slot is empty then. -EBUSY if no place in DRAM can be made. streaming: as one
 * of those used one after the other.
 */
int move_up(struct fth_flat *flat, uint64_t page, struct flat_slot *slot, bool store,
	    bool streaming);
/*
 * A page that is CACHED moves to DRAM if the policy wants it, and *slot is NULL then: in the
 * background, since it can be used where it is meanwhile; or at once if DRAM is not full or, with
 * stream_now, if it was read for a stream, which uses all of it now. miss: it was just read.
 */
int move_as_wanted(struct fth_flat *flat, uint64_t page, struct flat_slot **slot, bool miss,
		   bool store, bool stream_now);
/*
 * A copy of the page goes to DRAM, where it has a place; from CACHED, or from FLASH if slot is
 * NULL.
 */
int move_up_from(struct fth_flat *flat, uint64_t page, struct flat_slot *slot, const void *copy,
		 bool streaming);
/* FLASH and FRESH to DRAM, without the SSD-cache: there is nothing to read. -EBUSY as move_up(). */
int move_fresh(struct fth_flat *flat, uint64_t page, bool store);
/*
 * FLASH to DRAM, without a slot of the SSD-cache unless there is no other memory for it. -EBUSY as
 * move_up().
 */
int move_straight(struct fth_flat *flat, uint64_t page, bool store);
/* CACHED or DRAM to FLASH. */
int move_out(struct fth_flat *flat, uint64_t page);

/* ---- evict_batch.c ---- */
/*
 * Free up to n places in DRAM, at least one: the oldest pages go to the SSD-cache, or to flash if
 * they were streaming and are clean. Returns 0, -EBUSY or the error of the device.
 */
#define FLAT_DOWN_MAX 32u
int move_oldest_down(struct fth_flat *flat, unsigned n);
/* One page, which goes to flash. */
int move_oldest_out(struct fth_flat *flat);

/* ---- discard.c ---- */
/*
 * The contents of pages [first, end) are not needed any more: they become FRESH, and their memory
 * is released. What the device holds there is undefined until they are written again.
 */
void discard_pages(struct fth_flat *flat, uint64_t first, uint64_t end);

/* ---- donate.c ---- */
/*
 * Pages [first, end), some hundreds at most, become ordinary memory, with their contents if `keep`:
 * `memory`, which is zero and as long as they are, moves to their addresses. The caller may map or
 * protect what it likes there. Returns 0, or a negative errno: then the pages are what they were,
 * and memory is where it was. -EBUSY: a page was held for long. -ETIMEDOUT: a read may still arrive
 * in memory.
 */
int donate_pages(struct fth_flat *flat, uint64_t first, uint64_t end, bool keep, uint8_t *memory);
/* They are pages of the region again, and zero. */
int donate_end(struct fth_flat *flat, uint64_t first, uint64_t end);

/* ---- stream.c ---- */
struct stream_ahead {
	uint64_t first, pages; /* none: pages is 0 */
	bool now;	       /* the program waits for a page of the stream: read them with it */
};
int stream_open(struct fth_flat *flat);
void stream_close(struct fth_flat *flat);
/*
 * An access to a page that is CACHED; miss: it was on flash. Does it continue a stream? *ahead:
 * what to read now.
 */
bool stream_note(struct fth_flat *flat, uint64_t page, bool miss, struct stream_ahead *ahead);
void stream_advise(struct fth_flat *flat, uint64_t first, uint64_t end, bool sequential);
/* Of pages that are read ahead, the one that is not mapped. */
uint64_t stream_tripwire(uint64_t first, uint64_t pages);

/* ---- mover.c ---- */
int mover_open(struct fth_flat *flat);
void mover_stop(struct fth_flat *flat);
void mover_close(struct fth_flat *flat); /* after it was stopped, and all requests have ended */
/* Advice on its memory, for a fork; and what it is in the child, which has no such thread. */
void mover_let_inherit(struct fth_flat *flat, int advice);
void mover_forked(struct fth_flat *flat);
/*
 * Move a page up that is CACHED and locked, in the background. Returns false, without a request to
 * the mover, if the page cannot be moved.
 */
bool mover_ask_up(struct fth_flat *flat, uint64_t page);
/* Read pages ahead, in the background or now. Pages before them may be locked. */
void mover_ahead(struct fth_flat *flat, const struct stream_ahead *ahead);
/* A page of the SSD-cache had to be written before its slot could be used. */
void mover_ask_clean(struct fth_flat *flat);
/*
 * A page of the SSD-cache is DIRTY now: it is written in the background, with others, before its
 * slot is needed.
 */
void mover_note_dirty(struct fth_flat *flat);
/* A place of DRAM was taken. If few are left, old pages leave in the background. */
void mover_keep_room(struct fth_flat *flat);
/* Bytes of a page that is locked and not in DRAM are about to be stored to. */
void mover_note_store(struct fth_flat *flat, uint64_t offset, uint64_t length);

/* ---- policy.c ---- */
void policy_open(struct fth_flat *flat);
/*
 * An access to a page that is CACHED, in this slot, and locked; miss: it was on flash. Should it
 * move to DRAM? *ahead: pages to read ahead.
 */
enum policy_wish { POLICY_STAY, POLICY_UP, POLICY_UP_STREAMING, POLICY_FILL };
enum policy_wish policy_wants(struct fth_flat *flat, uint64_t page, struct flat_slot *slot,
			      bool miss, struct stream_ahead *ahead);

/* ---- registry.c: the regions of this process; a child of fork() begins without any ---- */
/* The region of an address, or NULL. */
struct fth_flat *registry_find(uintptr_t address);
/*
 * Faults in the region are handled from now on, and it belongs to this process. Returns 0 or a
 * negative errno.
 */
int registry_add(struct fth_flat *flat);
void registry_remove(struct fth_flat *flat);
/*
 * Reserve the addresses of the parent's regions, in a child that has no region yet. Called after
 * fork(), and before the first region for children that are made by a system call.
 */
void registry_forked(void);
/* Is a region of an ancestor of this process there? */
bool registry_is_parents(uintptr_t address);
/* Returns 0, or -EPERM if the region is the parent's. */
int registry_check_owner(const struct fth_flat *flat);
int registry_refuse(void); /* that error */

/* ---- fault.c ---- */
/*
 * As fth_flat_fault(): 1 if the program goes on, 0 if the signal is not of a region, or the error
 * of the device.
 */
int fault_try(int sig, siginfo_t *info, void *context);
/* Before the handlers are installed: can instructions be executed on other addresses? */
void fault_prepare(void);

/* ---- fault_signals.c ---- */
/* Install the handlers, once. Called by one thread at a time. Returns 0 or a negative errno. */
int fault_install(void);
/* Was it sent by the program, or another? Then it is no fault. */
bool fault_was_sent(const siginfo_t *info);
/* True if this thread has locks of pages: it is sent again when it has none. */
bool fault_defer(const siginfo_t *info);
void fault_send_again(const siginfo_t *info); /* to this thread */
/* This thread takes locks of pages in between, with its signals blocked (page_word.h, 3). */
void fault_enter(void);
void fault_leave(void);
/* Block signals, and fault_enter(). */
void fault_block_signals(sigset_t *before);
void fault_restore_signals(const sigset_t *before);

/* ---- fork_barrier.c ---- */
/*
 * Once fork_barrier_use() was called, threads that use pages are counted. fork_barrier_close()
 * waits until there are none, and others wait in fork_barrier_enter() until fork_barrier_open();
 * false if the deadline passes first.
 */
void fork_barrier_use(void);
bool fork_barrier_close(uint64_t deadline);
void fork_barrier_open(void);
void fork_barrier_forked(void); /* in a child that was made while it was closed; it still is */
bool fork_barrier_enter(void);	/* false: it is not used, and the thread is not counted */
void fork_barrier_exit(void);

#endif
