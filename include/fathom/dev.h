/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Block devices, opened by URI and used asynchronously.
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
 * All threads share a device. A channel is a queue of requests to it: use each channel from one
 * thread at a time. Requests complete in any order, on one channel and between channels. To order
 * two requests, wait for the first before you submit the second.
 *
 * A write is *written* when it completed with 0. It is *durable* when a flush that was submitted
 * after that completed with 0; with FTH_DEV_FUA it is durable when it is written. The contents of a
 * discarded range are undefined until it is written again. A zeroed range reads as zeroes.
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
	FTH_DEV_FLUSH,	 /* of the whole device; offset and length are ignored */
	FTH_DEV_DISCARD, /* a hint: returns 0 even if the medium does not support it */
	FTH_DEV_ZERO,
	FTH_DEV_OP_COUNT
};

/* What flushed data survives; each level includes those after it. */
enum fth_dev_keeps {
	FTH_DEV_KEEPS_POWER,  /* a power loss, as far as the medium keeps its promise */
	FTH_DEV_KEEPS_EXIT,   /* the end of the process: a file in memory */
	FTH_DEV_KEEPS_NOTHING /* memory of this process */
};

struct fth_dev_info {
	uint64_t size;	     /* bytes; a multiple of block */
	uint32_t block;	     /* offsets, lengths and every iov_len are multiples of it */
	uint32_t align;	     /* every iov_base is a multiple of it; a power of two */
	uint32_t max_iov;    /* iovecs per request */
	uint64_t max_length; /* bytes per read or write; a multiple of block */
	bool has_fua;	     /* supports writes with FTH_DEV_FUA */
	/*
	 * How requests reach the medium, for display; NULL if unknown. "uring" or "threads" for
	 * file:, "memory" for mem:, "nvme" for drives. A wrapper has the engine of the device
	 * inside; a volume has that of its devices, or "mixed".
	 */
	const char *engine;
	enum fth_dev_keeps keeps; /* a wrapper has that of the device inside */
};

/* Flag of a write, if the device has_fua: the write is durable when it completes with 0. */
#define FTH_DEV_FUA 1u

/*
 * One request. The caller owns the request and its buffers. It must not touch either between the
 * submit that accepts the request and the reap that returns it.
 */
struct fth_dev_req {
	enum fth_dev_op op;
	int result; /* set by reap: 0 or a negative errno. Never a partial transfer. */
	uint64_t offset;
	uint64_t length;	 /* for reads and writes also the sum of all iov_len */
	const struct iovec *iov; /* reads and writes only */
	unsigned iov_count;
	unsigned flags;	     /* FTH_DEV_FUA or 0 */
	void *user;	     /* for the caller; not interpreted */
	struct iovec single; /* storage of fth_dev_req_init() for its one iovec */
	uint64_t scratch[2]; /* used by the device while the request is in flight */
};

/* ---- opening ---- */

/*
 * Open a device by its URI (the grammar is in fathom/base/uri.h). Schemes of this layer:
 *
 *	mem:SIZE[?block=512]		memory of this process; close discards it
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
 *	tail=on|off		direct I/O also for a file that ends inside a block: the device
 *				ends at the next multiple of 4096, the bytes behind the end of the
 *				file read as zeroes, and writes to them have no effect. Requests that
 *				reach there block inside submit. Default off
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
 *				auto (the default) does so for files in memory (tmpfs). With on also
 *				flushes; submit then waits for the medium without a deadline.
 *	window=auto|map		the byte-addressable window (fathom/dev/window.h): auto (the
 *				default) offers one on DAX file systems only, map offers one on
 *				any file, through the page cache
 *
 * A mounted block device can be opened with readonly=on only. After a flush of file: has failed,
 * all later flushes fail too, until the device is closed and opened again: data written since the
 * last good flush may be lost.
 *
 *	fault(URI) delay(URI) crash(URI)	wrappers: fathom/dev/fault.h, delay.h, crash.h
 *
 * model=NAME on any URI emulates the latency and rate of a real drive (fathom/dev/delay.h). Higher
 * layers add schemes. Close the device with fth_dev_close(). Thread-safe. May block. Returns 0 or a
 * negative errno; after an error *out is NULL, and fth_error_text() explains it.
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
 * Close a device. Close all its channels before; no call on it may be in progress. Close does not
 * flush. It waits up to 30 seconds for requests that blocking calls left behind with -ETIMEDOUT. If
 * one of them is in flight even then, close leaks the device with its memory and descriptors, since
 * the medium may still write to that memory. Accepts NULL.
 */
void fth_dev_close(struct fth_dev *dev);

/* Size, block size and limits; constant while the device is open. Any thread. */
const struct fth_dev_info *fth_dev_info(const struct fth_dev *dev);

/* The URI that the device was opened with. Owned by the device. */
const char *fth_dev_uri(const struct fth_dev *dev);

/* ---- buffers ---- */

/*
 * Register memory with the device, so that requests need not pin it (io_uring) or copy it (NVMe).
 * Requests from other memory work too, only slower. addr and len are multiples of 4096. Unmap only
 * while no request uses the range. Thread-safe. Returns 0; -ENOSPC if the device's table is full;
 * -EINVAL if the range is unaligned, or unknown to unmap.
 */
int fth_dev_map(struct fth_dev *dev, void *addr, size_t len);
int fth_dev_unmap(struct fth_dev *dev, void *addr, size_t len);

/* Allocate page-aligned memory for I/O, zeroed and mapped. Returns NULL if out of memory. */
void *fth_dev_buf_alloc(struct fth_dev *dev, size_t len);
void fth_dev_buf_free(struct fth_dev *dev, void *buf, size_t len);

/* ---- asynchronous use ---- */

/*
 * Open a channel for up to `depth` requests in flight, 1 to 65535. Thread-safe. Returns 0 or a
 * negative errno, and *out is NULL then.
 */
int fth_dev_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out);

/*
 * Close a channel. Waits for the requests in flight and drops their results; the caller may free
 * them when this returns. There is no deadline, because the device may use the buffers until then:
 * where that can take too long, reap with a deadline first. Accepts NULL.
 */
void fth_dev_chan_close(struct fth_dev_chan *chan);

/* The device of a channel, and the number of its requests in flight. Call them from the channel's
 * thread. */
struct fth_dev *fth_dev_chan_dev(const struct fth_dev_chan *chan);
unsigned fth_dev_chan_in_flight(const struct fth_dev_chan *chan);

/* Initialise a request with one buffer. buf is ignored for flush, discard and zero. */
void fth_dev_req_init(struct fth_dev_req *req, enum fth_dev_op op, void *buf, uint64_t length,
		      uint64_t offset);

/*
 * Submit n requests, with as few system calls or doorbells as the device allows. Does not wait for
 * completions. Returns the number of requests accepted, always the first ones; it is less than n if
 * the channel's depth is reached or the next request is invalid. Returns an error only if the first
 * request was not accepted: -EAGAIN (depth reached), -EINVAL (misaligned or malformed), -ERANGE
 * (beyond the end), or an error of the device. Requests that were not accepted have no effect.
 */
int fth_dev_submit(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n);

/*
 * Collect up to max completed requests. Waits until min of them have completed (or all, if fewer
 * are in flight) or the deadline has passed. The deadline is a time of fth_now_ns(): 0 does not
 * wait, FTH_NEVER waits without limit. Returns the number of requests in done; -ETIME if min > 0
 * and none completed by the deadline. Requests that were not collected stay in flight.
 */
int fth_dev_reap(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max, unsigned min,
		 uint64_t deadline);

/*
 * Return a descriptor for poll() and epoll (level-triggered). It is readable when
 * fth_dev_reap(deadline 0) would return a request, or has work to do that leads to one. Spurious
 * wake-ups are possible, but no busy loop: after a reap with deadline 0 returned fewer than max,
 * the descriptor is not readable until something happens. Do not read from it. With io_uring
 * inside, epoll_wait() often returns EINTR when a request completes: wait again, or reap first. The
 * first call creates the descriptor; channels without one pay nothing. The channel owns it and
 * closes it in fth_dev_chan_close(). Call this from the channel's thread. Returns the descriptor,
 * at least 3, or a negative errno: -EMFILE, -ENFILE or -ENOMEM.
 */
int fth_dev_chan_fd(struct fth_dev_chan *chan);

/*
 * Allocate now the memory that requests of the channel may need. fth_dev_submit() and
 * fth_dev_reap() do not call malloc() then, so that they can be used while the calling thread is
 * interrupted inside malloc(). Call it from the channel's thread. Returns 0 or -ENOMEM.
 */
int fth_dev_chan_prepare(struct fth_dev_chan *chan);

/* ---- blocking use, where speed does not matter ---- */

/* As the deadline of a blocking call: FTH_DEV_TIMEOUT_NS from now. */
#define FTH_DEV_TIMEOUT	   0u
#define FTH_DEV_TIMEOUT_NS 30000000000u

/*
 * Execute one operation and wait for it, at most until `deadline`, a time of fth_now_ns().
 * FTH_DEV_TIMEOUT means 30 seconds from now, FTH_NEVER no deadline. The length is any multiple of
 * block; buf may have any alignment, and is not used after the call has returned, even if it timed
 * out. Any thread; calls do not wait for each other, with two exceptions: at most 32 are in
 * progress on a device, and a call waits for a write, zero or discard of a blocking call that timed
 * out and is still in flight on the same blocks. Returns 0 or a negative errno: -ETIMEDOUT if the
 * deadline passed, -EINVAL and -ERANGE as fth_dev_submit(), or the error of the device. After an
 * error any part of a write may have been done; after -ETIMEDOUT it may also be done later.
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

/* A count of completed requests since the device was opened. Any thread. */
uint64_t fth_dev_stat(const struct fth_dev *dev, enum fth_dev_stat which);
const char *fth_dev_stat_name(enum fth_dev_stat which);

/* "read", "write" and so on. Static. */
const char *fth_dev_op_name(enum fth_dev_op op);

FTH_END_DECLS
#endif
