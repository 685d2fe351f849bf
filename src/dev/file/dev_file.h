/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internals of the file: device, shared by its source files only.
 *
 * An engine hands requests to the kernel and brings back the answers. There are two: io_uring, and
 * a few threads with plain system calls where io_uring is not available.
 *
 *	dev_file.c		closes the device, chooses the engine
 *	dev_file_open.c		makes the device from its URI
 *	dev_file_chan.c		the part of a channel that both engines share
 *	dev_file_req.c		what an answer of the kernel means for a request
 *	dev_file_call.c		a request as a system call
 *	dev_file_tail.c		requests at the end of a file that ends inside a block
 *	dev_file_flush.c	flushes share fdatasync calls
 *	dev_file_ring.c		engine "uring": a channel and its io_uring
 *	dev_file_map.c		registered buffers of the rings
 *	dev_file_pool.c		engine "threads": the threads and their channels
 *	dev_file_window.c	the byte-addressable window: the mapped file
 *
 * Invariants
 * 1. A request is in exactly one place: with the engine (an entry of the ring, a queue of the
 *    pool or one of its threads), the channel's `again` list, its `done` list, or one of its two
 *    lists of flushes. Only the channel's thread moves it from one to another, except between
 *    the queues and threads of a pool.
 * 2. scratch[0] is how many bytes of the request are done. scratch[1] links it while it is in a
 *    list; while the kernel has it, it is the enum file_zero_way that a FTH_DEV_ZERO is tried in.
 * 3. The kernel answers each entry once, so a ring with room for `depth` answers never overflows.
 * 4. A channel uses slot s of its registered buffers only while regions[s].id of the device is
 *    the id it registered there. Ids are never used twice, so memory that was unmapped, and
 *    mapped again at the same address, is not taken for what it was before.
 * 5. Once a flush has failed, all later ones fail with the same error, until the writer has
 *    taken the loss into account (forgive.h): the kernel reports a lost write-back once and then
 *    forgets it, so a second fdatasync that returns 0 means nothing.
 */
#ifndef FTH_DEV_FILE_H
#define FTH_DEV_FILE_H

#include "dev/wake.h"
#include "fathom/dev/driver.h"

#include <liburing.h>

#define FILE_REGIONS	     256		  /* registered buffers per channel */
#define FILE_REGION_BYTES    ((size_t)1 << 30)	  /* what the kernel takes as one buffer */
#define FILE_LENGTH_MAX	     ((uint64_t)1 << 30)  /* bytes per request */
#define FILE_IOV_MAX	     1024		  /* pieces per request: the kernel's UIO_MAXIOV */
#define FILE_INLINE_MAX	     ((uint64_t)64 << 10) /* bytes copied while submitting */
#define FILE_WORKERS_MAX     16			  /* requests that the engine is given meanwhile */
#define FILE_THREADS_MAX     64			  /* of engine=threads */
#define FILE_THREADS_DEFAULT 16
#define FILE_ZEROES_BYTES    ((size_t)1 << 20) /* zeroes written by one write */

/* How a range is zeroed: the first that the medium can do. */
enum file_zero_way {
	FILE_ZERO_RANGE, /* fallocate(ZERO_RANGE): keeps the blocks */
	FILE_ZERO_PUNCH, /* fallocate(PUNCH_HOLE), on regular files: a hole reads as zeroes */
	FILE_ZERO_WRITE, /* writes */
};

/* A piece of mapped memory; its place in the table is its slot in every ring. */
struct file_region {
	uintptr_t base;
	size_t len;
	size_t map_len; /* of the fth_dev_map() this is a piece of */
	bool first;	/* the piece at its beginning */
	uint64_t id;	/* one for each fth_dev_map(); 0: the slot is free */
};

struct dev_file;
struct file_pool;

/* How requests reach the kernel. */
struct file_engine {
	const char *name; /* as the option engine= has it */
	/* Can it be used here? 0, or a negative errno with a text that says what is missing. */
	int (*probe)(void);
	/* Optional: what the engine needs for a device whose file is open, and its release. */
	int (*open)(struct dev_file *file);
	void (*close)(struct dev_file *file);
	struct fth_dev_ops ops;
};

extern const struct file_engine dev_file_uring, dev_file_threads;

struct dev_file {
	struct fth_dev dev;
	const struct file_engine *engine;
	struct file_pool *pool; /* of engine threads */
	unsigned threads;	/* at most so many in the pool */
	int fd;
	int open_flags;
	int tail_fd; /* with tail=on: the file without direct I/O, if it ends inside a block; or -1 */
	uint64_t end; /* of the file then */
	bool is_block_device;
	bool readonly;
	bool direct;
	bool fixed;	      /* register file and buffers */
	bool window_map;      /* the window may be pages of the page cache */
	uint64_t inline_max;  /* transfers up to so many bytes are done in submit; 0: none */
	bool inline_flush;    /* and flushes */
	uint32_t try_cached;  /* atomic; try to read from the page cache in submit */
	uint32_t zero_way;    /* atomic; only grows */
	uint32_t flush_error; /* atomic; errno of the first flush that failed, or 0 */
	void *zeroes;	      /* FILE_ZEROES_BYTES, read-only */

	pthread_mutex_t map_lock; /* guards regions and next_id */
	uint64_t map_generation;  /* atomic; grows with every change of regions */
	uint64_t next_id;
	struct file_region regions[FILE_REGIONS];
};

/* Requests in a row, linked through scratch[1]; the first in is the first out. */
struct file_list {
	struct fth_dev_req *first, *last;
};

/* A channel's view of the device's regions, sorted by address. */
struct chan_region {
	uintptr_t base;
	size_t len;
	uint64_t id;
	unsigned slot;
};

struct chan_map {
	uint64_t generation; /* of the device's regions when they were copied */
	unsigned count;
	unsigned last_hit;
	struct chan_region regions[FILE_REGIONS];
	struct {
		uint64_t id; /* of the region last registered here; 0: none */
		bool usable; /* the kernel took it */
	} slots[FILE_REGIONS];
};

/* Flushes of a channel that are not with the kernel themselves. */
struct chan_flush {
	bool active;		  /* one is */
	struct file_list riders;  /* get its result */
	struct file_list waiting; /* came later */
	unsigned parked;	  /* how many are in the two lists */
};

/* A channel: the part that does not depend on the engine. */
struct chan_file {
	struct fth_dev_chan chan;
	int fd;			/* the channel's own, or the device's */
	struct file_list again; /* to be given to the engine, for the first time or once more */
	struct file_list done;	/* result set, waiting for reap */
	unsigned with_kernel;	/* requests that an answer is awaited for, those in `again` too */
	bool batch;		/* the requests that are being submitted are several */
	struct chan_flush flush;
};

/* A channel of engine uring. */
struct chan_ring {
	struct chan_file file;
	struct io_uring ring;
	bool has_files;	       /* there is a table of registered files: the file, its lock */
	bool has_file_slot;    /* the file is number 0 of the ring's registered files */
	bool has_buffer_slots; /* there is a table of registered buffers */
	int wait_fd;	       /* of fth_dev_chan_fd(): an epoll set of ring and more; or -1 */
	struct fth_wake more;  /* set while reap has something to do that the ring does not know */
	struct chan_map map;
};

static inline struct dev_file *chan_file_dev(const struct chan_file *chan)
{
	return (struct dev_file *)chan->chan.dev;
}

/* ---- dev_file.c ---- */

/* The engine of this name, or for "auto" the best that works here. */
int dev_file_choose_engine(const char *name, const struct file_engine **out);

void dev_file_close(struct fth_dev *dev);
void dev_file_flush_forgive(struct fth_dev *dev);

/* ---- dev_file_open.c ---- */

int dev_file_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out);

/* ---- dev_file_chan.c ---- */

bool dev_file_lives_in_memory(int fd);

static inline void file_list_push(struct file_list *list, struct fth_dev_req *req)
{
	req->scratch[1] = 0;
	if (list->first)
		list->last->scratch[1] = (uint64_t)(uintptr_t)req;
	else
		list->first = req;
	list->last = req;
}

static inline struct fth_dev_req *file_list_pop(struct file_list *list)
{
	struct fth_dev_req *req = list->first;

	if (req)
		list->first = (struct fth_dev_req *)(uintptr_t)req->scratch[1];
	return req;
}

void chan_file_init(struct chan_file *chan, struct dev_file *file);
void chan_file_release(struct chan_file *chan);

/* Begin a new request. True when the engine is to have it: its answer is awaited from now on. */
bool chan_file_begin(struct chan_file *chan, struct fth_dev_req *req);

/* The engine is done with a request, whose result is set. May put flushes into `again`. */
void chan_file_end(struct chan_file *chan, struct fth_dev_req *req);

/* Hand back up to max requests of the `done` list. */
unsigned chan_file_take_done(struct chan_file *chan, struct fth_dev_req **done, unsigned max);

/* ---- dev_file_req.c ---- */

/*
 * Look at a request before the kernel sees it. 0 when it may go there; else its result is known
 * already: the negative errno.
 */
int dev_file_req_refusal(const struct dev_file *file, const struct fth_dev_req *req);

/* The memory of a transfer's next piece, from where it stands to the piece's end. */
struct iovec dev_file_req_rest(const struct fth_dev_req *req);

/*
 * Look at the kernel's answer to one attempt at a request. True when it is complete and its result
 * set; false when more is to be done: try once more.
 */
bool dev_file_req_answer(struct dev_file *file, struct fth_dev_req *req, int answer);

/* ---- dev_file_call.c ---- */

/* One attempt at what is left of the request, with a blocking system call. Returns its answer. */
int dev_file_call(struct dev_file *file, int fd, struct fth_dev_req *req);

/* The same, for reads and writes only. */
int dev_file_call_transfer(int fd, const struct fth_dev_req *req);

/* Read without waiting, as much as the page cache has; -EAGAIN if that is nothing. */
int dev_file_call_cached(int fd, const struct fth_dev_req *req);

/* ---- dev_file_tail.c ---- */

/* The file ends at byte `end`, inside the device's last block. */
int dev_file_tail_open(struct dev_file *file, uint64_t end);

/* Do a request that reaches behind the file's end. True when its result is set. */
bool chan_file_tail(struct chan_file *chan, struct fth_dev_req *req);

/* ---- dev_file_flush.c ---- */

/* True when this flush is to go to the kernel; false when it was put to those that wait. */
bool chan_file_flush_begin(struct chan_file *chan, struct fth_dev_req *req);

/* The flush that was with the kernel has its result: pass it on, and begin the next one. */
void chan_file_flush_end(struct chan_file *chan, int result);

/* ---- dev_file_ring.c ---- */

/* Write what is left to do of the request into an entry of the ring. */
void chan_ring_prepare(struct chan_ring *chan, struct io_uring_sqe *sqe, struct fth_dev_req *req);

/* ---- dev_file_window.c ---- */

int dev_file_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			 struct fth_dev_window **out);

/* Write the lines of the caches that hold [addr, addr + length) back to memory. */
void dev_file_write_back(void *addr, uint64_t length);

/* ---- dev_file_map.c ---- */

int dev_file_map(struct fth_dev *dev, void *addr, size_t len);
int dev_file_unmap(struct fth_dev *dev, void *addr, size_t len);

/* Make the ring's table of buffers, where the kernel has such a thing. */
void chan_ring_map_init(struct chan_ring *chan);

/* Take over the device's regions when they have changed. Before any lookup of a batch. */
void chan_ring_map_sync(struct chan_ring *chan);

/* The slot of the registered buffer that holds all of [base, base + len), or -1. */
int chan_ring_map_slot(struct chan_ring *chan, const void *base, size_t len);

#endif
