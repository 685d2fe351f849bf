/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of the file: device; nothing here is for its users.
 *
 * Siblings: dev_file.c ties them together, dev_file_open.c makes the device from its URI,
 * dev_file_ring.c is a channel and its io_uring, dev_file_req.c turns requests into entries of
 * the ring and its answers into results, dev_file_inline.c does without the ring where that is
 * faster, dev_file_flush.c lets flushes share the work, dev_file_map.c keeps registered buffers.
 *
 * Invariants
 * 1. A request is in exactly one place: an entry of the ring (the kernel's, or queued for it),
 *    the channel's `again` list, its `done` list, or one of its two lists of flushes. Only its
 *    channel's thread moves it.
 * 2. scratch[0] is how many bytes of the request are done. scratch[1] links it while it is in a
 *    list, and in the ring it is the enum file_zero_way a FTH_DEV_ZERO is tried in.
 * 3. The kernel answers each entry once, so a ring with room for `depth` answers never overflows.
 * 4. A channel uses slot s of its registered buffers only while regions[s].id of the device is
 *    the id it registered there. Ids are never used twice, so memory that was unmapped, and
 *    mapped again at the same address, is not taken for what it was before.
 * 5. Once a flush has failed, all later ones fail with the same error: the kernel reports a lost
 *    write-back once and then forgets it, so a second fdatasync that returns 0 means nothing.
 */
#ifndef FTH_DEV_FILE_H
#define FTH_DEV_FILE_H

#include "fathom/dev/driver.h"

#include <liburing.h>

#define FILE_REGIONS	  256		       /* registered buffers per channel */
#define FILE_REGION_BYTES ((size_t)1 << 30)    /* what the kernel takes as one buffer */
#define FILE_LENGTH_MAX	  ((uint64_t)1 << 30)  /* bytes per request */
#define FILE_IOV_MAX	  1024		       /* pieces per request: the kernel's UIO_MAXIOV */
#define FILE_INLINE_MAX	  ((uint64_t)64 << 10) /* bytes copied while submitting */
#define FILE_WORKERS_MAX  16		       /* requests that workers are given meanwhile */
#define FILE_ZEROES_BYTES ((size_t)1 << 20)    /* zeroes written by one write */

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

struct dev_file {
	struct fth_dev dev;
	int fd;
	int open_flags;
	bool is_block_device;
	bool readonly;
	bool direct;
	bool fixed;	      /* register file and buffers */
	uint64_t inline_max;  /* transfers up to so many bytes are done in submit; 0: none */
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

struct chan_file {
	struct fth_dev_chan chan;
	struct io_uring ring;
	int fd;			/* the channel's own, or the device's */
	bool has_file_slot;	/* the file is number 0 of the ring's registered files */
	bool has_buffer_slots;	/* there is a table of registered buffers */
	struct file_list again; /* to be given to the kernel, for the first time or once more */
	struct file_list done;	/* result set, waiting for reap */
	unsigned with_kernel;	/* requests that an answer is awaited for */
	struct chan_flush flush;
	struct chan_map map;
};

static inline struct dev_file *chan_file_dev(const struct chan_file *chan)
{
	return (struct dev_file *)chan->chan.dev;
}

extern const struct fth_dev_ops dev_file_ops;

/* ---- dev_file_open.c ---- */

int dev_file_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out);

/* ---- dev_file_ring.c ---- */

/* 0 when this kernel's io_uring does; else an error with a text that says what is missing. */
int dev_file_ring_probe(void);

int dev_file_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out);
void dev_file_chan_close(struct fth_dev_chan *chan);
int dev_file_submit(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n);
int dev_file_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max, unsigned min,
		  uint64_t deadline);

/* ---- dev_file_req.c ---- */

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

/*
 * Look at a request before the kernel sees it. 0 when it may go there; else its result is known
 * already: the negative errno.
 */
int dev_file_req_refusal(const struct dev_file *file, const struct fth_dev_req *req);

/* The memory of a transfer's next piece, from where it stands to the piece's end. */
struct iovec dev_file_req_rest(const struct fth_dev_req *req);

/* Write what is left to do of the request into an entry of the ring. */
void dev_file_req_prepare(struct chan_file *chan, struct io_uring_sqe *sqe,
			  struct fth_dev_req *req);

/*
 * Look at the kernel's answer to a request's entry. True when it is complete and its result set;
 * false when more is to be done: prepare it once more.
 */
bool dev_file_req_answer(struct dev_file *file, struct fth_dev_req *req, int answer);

/* ---- dev_file_inline.c ---- */

bool dev_file_lives_in_memory(int fd);

/* Do a transfer now, if it is one for that. True when it is complete and its result set. */
bool chan_file_inline(struct chan_file *chan, struct fth_dev_req *req);

/* ---- dev_file_flush.c ---- */

/* True when this flush is to go to the kernel; false when it was put to those that wait. */
bool chan_file_flush_begin(struct chan_file *chan, struct fth_dev_req *req);

/* The flush that was with the kernel has its result: pass it on, and begin the next one. */
void chan_file_flush_end(struct chan_file *chan, int result);

/* ---- dev_file_map.c ---- */

int dev_file_map(struct fth_dev *dev, void *addr, size_t len);
int dev_file_unmap(struct fth_dev *dev, void *addr, size_t len);

/* Make the ring's table of buffers, where the kernel has such a thing. */
void chan_file_map_init(struct chan_file *chan);

/* Take over the device's regions when they have changed. Before any lookup of a batch. */
void chan_file_map_sync(struct chan_file *chan);

/* The slot of the registered buffer that holds all of [base, base + len), or -1. */
int chan_file_map_slot(struct chan_file *chan, const void *base, size_t len);

#endif
