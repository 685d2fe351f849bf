/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices: things that hold blocks, opened by name and used asynchronously.
 *
 *	struct fth_dev *dev;
 *	struct fth_dev_chan *chan;
 *	struct fth_dev_req req, *r = &req, *done;
 *
 *	fth_dev_open("file:/data/a", &dev);
 *	fth_dev_chan_open(dev, 128, &chan);
 *	fth_dev_req_init(&req, FTH_DEV_READ, buf, 4096, offset);
 *	fth_dev_submit(chan, &r, 1);
 *	fth_dev_reap(chan, &done, 1, 1, FTH_NEVER);
 *	if (done->result < 0) ...
 *
 * A device is shared by all threads. A channel is a thread's own way into it: use each channel
 * from one thread at a time. Requests on one channel, and on different ones, complete in any
 * order; whoever needs an order waits for one before submitting the other.
 *
 * Words: a write is *written* when it completed with 0, and *durable* when a flush that was
 * submitted after that completed with 0 (or at once, with FTH_DEV_FUA). A discarded range reads
 * as anything until it is written again; a zeroed one reads as zeroes.
 */
#ifndef FATHOM_DEV_H
#define FATHOM_DEV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

struct fth_dev;
struct fth_dev_chan;

enum fth_dev_op {
	FTH_DEV_READ,
	FTH_DEV_WRITE,
	FTH_DEV_FLUSH,	 /* offset and length are not looked at: it flushes the device */
	FTH_DEV_DISCARD, /* a hint: 0 also where the medium can not forget */
	FTH_DEV_ZERO,
	FTH_DEV_OP_COUNT
};

struct fth_dev_info {
	uint64_t size;	     /* bytes; a multiple of block */
	uint32_t block;	     /* offsets, lengths and every iov_len are multiples of it */
	uint32_t align;	     /* every iov_base is a multiple of it; a power of two */
	uint32_t max_iov;    /* pieces per request */
	uint64_t max_length; /* bytes per request; a multiple of block */
	bool has_fua;	     /* takes writes with FTH_DEV_FUA */
	/*
	 * How requests reach the medium, for people to read; NULL if the device does not say. file:
	 * has "uring" or "threads", mem: "memory", drives "nvme". A wrapper has that of the device
	 * inside, a volume that of its devices, or "mixed".
	 */
	const char *engine;
};

/* For a write on a device that has_fua: it is durable when it completes with 0, without a flush. */
#define FTH_DEV_FUA 1u

/*
 * One request. The caller owns it, and its buffers, and leaves both alone from a submit that
 * took it until reap hands it back.
 */
struct fth_dev_req {
	enum fth_dev_op op;
	int result; /* set by reap: 0 or a negative errno. All of it was done, or it failed. */
	uint64_t offset;
	uint64_t length;	 /* for reads and writes also the sum of all iov_len */
	const struct iovec *iov; /* reads and writes only */
	unsigned iov_count;
	unsigned flags;	     /* FTH_DEV_FUA or 0 */
	void *user;	     /* the caller's; never looked at */
	struct iovec single; /* where fth_dev_req_init() keeps its one piece */
	uint64_t scratch[2]; /* the device's while the request is in flight */
};

/* ---- opening ---- */

/*
 * Open a device by its URI (fathom/base/uri.h has the grammar). Schemes built in here:
 *
 *	mem:SIZE[?block=512]		memory of this process; gone when closed
 *	file:PATH[?options]		a regular file or a block device
 *
 * The options of file: are
 *
 *	size=SIZE		the expected size; a file of another size is refused
 *	create=on|off		if the file does not exist, create it, sparse and of size=; default
 *				off
 *	readonly=on|off		open for reading only: writes, zeroes and discards fail with
 *				-EROFS; default off
 *	direct=auto|on|off	direct I/O, which bypasses the page cache: auto (the default) uses
 *				it where it works, on fails where it does not. It needs whole
 *				blocks, of 512 to 4096 bytes as a rule.
 *	block=SIZE		block size, a power of two; default the smallest that the medium
 *				allows, which is 1 for a regular file without direct I/O
 *	engine=auto|uring|threads	uring uses io_uring, threads uses blocking system calls
 *				in threads of the device. auto (the default) uses io_uring, or
 *				threads where the kernel, a sysctl, a container's seccomp filter
 *				or a limit does not allow io_uring. Both keep the same promises;
 *				threads are slower.
 *	threads=N		the most threads of the device with engine=threads, 1 to 64;
 *				default 16. They are started on demand.
 *	fixed=on|off		register the file and mapped buffers with io_uring, for speed;
 *				default on. No effect with engine=threads.
 *	inline=auto|on|off	do transfers of up to 64 KiB inside submit where that is faster;
 *				auto (the default) does so for files in memory (tmpfs)
 *
 * A mounted block device can be opened with readonly=on only. After a flush of file: has failed,
 * all later flushes fail too, until the device is closed and opened again: data written since the
 * last good flush may be lost.
 *
 *	fault(URI) delay(URI) crash(URI)	wrappers: fathom/dev/fault.h, delay.h, crash.h
 *
 * Any URI may add model=NAME to have the latency and rate of a real drive (fathom/dev/delay.h).
 * Higher layers add schemes of their own. Thread-safe. May block. On failure *out is NULL and the
 * error text says what is wrong.
 */
int fth_dev_open(const char *uri, struct fth_dev **out);

/*
 * As fth_dev_open(), with flags. FTH_DEV_READONLY opens every file: and vol(...) in the URI, also
 * inside wrappers, as with readonly=on: permission to read the files is enough. create= and
 * format= have no effect, so that a missing file gives -ENOENT. mem: and NVMe devices ignore the
 * flag. Returns -EINVAL for unknown flags.
 */
#define FTH_DEV_READONLY 1u
int fth_dev_open_flags(const char *uri, unsigned flags, struct fth_dev **out);

/*
 * Close a device. All its channels must be closed before, and no call may be in progress. Nothing
 * is flushed implicitly. Requests of blocking calls that ended with -ETIMEDOUT are waited for, 30
 * seconds at most. If one is in flight even then, the device stays open until the process ends,
 * with its memory and descriptors: the medium may still write there. Accepts NULL.
 */
void fth_dev_close(struct fth_dev *dev);

const struct fth_dev_info *fth_dev_info(const struct fth_dev *dev);

/* The URI the device was opened with. */
const char *fth_dev_uri(const struct fth_dev *dev);

/* ---- buffers ---- */

/*
 * Make memory known to the device, so that requests from it need no pinning (io_uring) or can be
 * done at all without a copy (NVMe). Only a matter of speed: memory that is not mapped works
 * too. addr and len are multiples of 4096. Map before the requests that profit; unmap only while
 * none of them is in flight. -ENOSPC when the device's table is full, -EINVAL for an unaligned
 * or unknown range. Thread-safe.
 */
int fth_dev_map(struct fth_dev *dev, void *addr, size_t len);
int fth_dev_unmap(struct fth_dev *dev, void *addr, size_t len);

/* Page-aligned memory for I/O, zeroed and mapped. NULL when memory is short. */
void *fth_dev_buf_alloc(struct fth_dev *dev, size_t len);
void fth_dev_buf_free(struct fth_dev *dev, void *buf, size_t len);

/* ---- asynchronous use ---- */

/* Open a channel for up to `depth` requests in flight, 1 to 65535. Thread-safe. */
int fth_dev_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out);

/*
 * Close a channel. Requests still in flight are waited for and forgotten; the caller may free
 * them once this returns. Accepts NULL.
 */
void fth_dev_chan_close(struct fth_dev_chan *chan);

struct fth_dev *fth_dev_chan_dev(const struct fth_dev_chan *chan);
unsigned fth_dev_chan_in_flight(const struct fth_dev_chan *chan);

/* Fill a request that has one buffer (or none: buf is NULL for flush, discard and zero). */
void fth_dev_req_init(struct fth_dev_req *req, enum fth_dev_op op, void *buf, uint64_t length,
		      uint64_t offset);

/*
 * Submit n requests, in as few system calls or doorbells as the device allows. Returns how many
 * were taken, always the first ones: fewer than n when the channel's depth is reached or the
 * next request is bad. Negative only if the very first was not taken: -EAGAIN (depth reached),
 * -EINVAL (misaligned or malformed), -ERANGE (beyond the end), or the device's failure. A
 * request that was not taken has not reached the medium. Does not wait for completions.
 */
int fth_dev_submit(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n);

/*
 * Collect completed requests, up to max, waiting until at least min are there (fewer if fewer
 * are in flight) or the deadline passes (fth_now_ns() clock; 0 does not wait, FTH_NEVER has no
 * end). Returns how many; -ETIME when the deadline passed and none had completed while min > 0.
 * A request that was not collected stays in flight.
 */
int fth_dev_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max, unsigned min,
		 uint64_t deadline);

/*
 * A descriptor for poll() and epoll (level-triggered) that becomes readable when
 * fth_dev_reap(deadline 0) would return a request, or has work to do that leads to one. It may be
 * readable without need, but not for long: after a reap with deadline 0 returned fewer than max
 * it is not readable until something happens. Do not read from it. With io_uring inside,
 * epoll_wait() often returns EINTR when a request completes: wait again, or reap first. The
 * channel owns the descriptor, makes it at the first call, and closes it with itself. Never 0, 1
 * or 2. From the channel's thread.
 * Returns the descriptor or a negative errno: -EOPNOTSUPP when the device has none, -EMFILE and
 * -ENOMEM when it could not be made.
 */
int fth_dev_chan_fd(struct fth_dev_chan *chan);

/* ---- blocking use, for code where speed does not matter ---- */

/* As the deadline of a blocking call: FTH_DEV_TIMEOUT_NS from now. */
#define FTH_DEV_TIMEOUT	   0u
#define FTH_DEV_TIMEOUT_NS 30000000000u

/*
 * Do one operation and wait for it, until `deadline` (fth_now_ns() clock) at the latest.
 * FTH_DEV_TIMEOUT is a deadline of 30 seconds from now, FTH_NEVER none at all. The length is any
 * multiple of block, and buf has any alignment. When the call returns, buf is the caller's again,
 * even after -ETIMEDOUT. Any thread. Returns 0 or a negative errno: -ETIMEDOUT when the deadline
 * passed, -EINVAL and -ERANGE as fth_dev_submit(), else the error of the device. After an error
 * any part of a write may have happened, and after -ETIMEDOUT it may still happen later.
 */
int fth_dev_read(struct fth_dev *dev, void *buf, uint64_t length, uint64_t offset,
		 uint64_t deadline);
int fth_dev_write(struct fth_dev *dev, const void *buf, uint64_t length, uint64_t offset,
		  uint64_t deadline);
int fth_dev_flush(struct fth_dev *dev, uint64_t deadline);
int fth_dev_discard(struct fth_dev *dev, uint64_t length, uint64_t offset, uint64_t deadline);
int fth_dev_zero(struct fth_dev *dev, uint64_t length, uint64_t offset, uint64_t deadline);

/* ---- statistics ---- */

enum fth_dev_stat {
	FTH_DEV_STAT_READS, /* requests, by kind, in the order of enum fth_dev_op */
	FTH_DEV_STAT_WRITES,
	FTH_DEV_STAT_FLUSHES,
	FTH_DEV_STAT_DISCARDS,
	FTH_DEV_STAT_ZEROES,
	FTH_DEV_STAT_BYTES_READ,
	FTH_DEV_STAT_BYTES_WRITTEN,
	FTH_DEV_STAT_ERRORS, /* requests that completed with an error, of any kind */
	FTH_DEV_STAT_COUNT
};

/* What has completed on this device since it was opened. Any thread. */
uint64_t fth_dev_stat(const struct fth_dev *dev, enum fth_dev_stat which);
const char *fth_dev_stat_name(enum fth_dev_stat which);

const char *fth_dev_op_name(enum fth_dev_op op);

FTH_END_DECLS
#endif
