/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How to implement a device. Users of devices need fathom/dev.h only.
 *
 * A device's struct begins with struct fth_dev, a channel's with struct fth_dev_chan. The functions
 * of dev.h validate all arguments and requests before they call the operations below, count the
 * requests in flight and keep the statistics. So operations see only valid requests, and never more
 * than the channel's depth.
 */
#ifndef FATHOM_DEV_DRIVER_H
#define FATHOM_DEV_DRIVER_H

#include "fathom/base/decls.h"
#include "fathom/base/stats.h"
#include "fathom/base/uri.h"
#include "fathom/dev.h"
#include "fathom/dev/window.h"

#include <pthread.h>

FTH_BEGIN_DECLS

struct fth_dev_ops {
	/* Free the device. All channels are closed. */
	void (*close)(struct fth_dev *dev);

	/* Allocate a channel; the caller sets its common part. Called from any thread. */
	int (*chan_open)(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out);

	/* Free a channel. No request is in flight. */
	void (*chan_close)(struct fth_dev_chan *chan);

	/*
	 * Accept the first k of n requests and return k, or an error if k is 0. reap returns each
	 * accepted request exactly once. An I/O error is the result of a request, not of submit.
	 * Do not wait here for requests that the caller may hold unreaped.
	 */
	int (*submit)(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n);

	/*
	 * Return up to max completed requests with their result set. Wait until min of them (never
	 * more than are in flight) have completed or the deadline has passed. Return the number,
	 * which is 0 after a timeout.
	 */
	int (*reap)(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max,
		    unsigned min, uint64_t deadline);

	/*
	 * See fth_dev_chan_fd(). Create the descriptor at the first call, return the same one
	 * later, close it in chan_close. Once it exists, reap is also called with no request in
	 * flight, so that it can clear a spurious wake-up.
	 */
	int (*chan_fd)(struct fth_dev_chan *chan);

	/* Optional; see fth_dev_chan_prepare(). */
	int (*chan_prepare)(struct fth_dev_chan *chan);

	/* Optional; see fth_dev_map(). Called under the device's lock. */
	int (*map)(struct fth_dev *dev, void *addr, size_t len);
	int (*unmap)(struct fth_dev *dev, void *addr, size_t len);

	/*
	 * Optional, for a device whose flushes fail once one has failed: let them succeed again.
	 * The caller counts all that was written since the last good flush as lost. Called from any
	 * thread.
	 */
	void (*flush_forgive)(struct fth_dev *dev);

	/*
	 * Optional: allocate and open a window; see fth_dev_window_open(). Fill info, ops and text;
	 * the caller fills dev, and checks the guarantee. `kind` is a valid one. -EOPNOTSUPP for a
	 * kind that the device does not have.
	 */
	int (*window_open)(struct fth_dev *dev, enum fth_dev_window_kind kind,
			   struct fth_dev_window **out);
};

/*
 * A window begins with struct fth_dev_window. Ranges are checked before these are called, and
 * lengths are not 0. The store of a READ_ONLY window is not called.
 */
struct fth_dev_window_ops {
	/* Release the window and its memory. */
	void (*close)(struct fth_dev_window *window);

	/* Optional, both: without them info.base is ordinary memory. */
	void (*load)(const struct fth_dev_window *window, uint64_t offset, void *to,
		     uint64_t length);
	void (*store)(struct fth_dev_window *window, uint64_t offset, const void *from,
		      uint64_t length);

	/* Optional: without it persist has nothing to do. `deadline` is a time, or FTH_NEVER. */
	int (*persist)(struct fth_dev_window *window, uint64_t offset, uint64_t length,
		       uint64_t deadline);

	/* Optional: without it the window is always usable. */
	int (*check)(const struct fth_dev_window *window);
};

#define FTH_DEV_WINDOW_TEXT 1024

struct fth_dev_window {
	const struct fth_dev_window_ops *ops;
	struct fth_dev *dev;
	struct fth_dev_window_info info;
	char text[FTH_DEV_WINDOW_TEXT];
};

struct fth_dev {
	const struct fth_dev_ops *ops; /* set by the implementation, as is info */
	struct fth_dev_info info;

	/* The common part, owned by dev.c. */
	char *uri;
	struct fth_stats *stats;
	pthread_mutex_t lock;		   /* held around map and unmap */
	struct fth_dev_blocking *blocking; /* the channels of the blocking calls */
};

struct fth_dev_chan {
	struct fth_dev *dev;
	unsigned depth;
	unsigned in_flight;
	bool has_fd; /* fth_dev_chan_fd() was called */
};

/* How a scheme makes a device. */
struct fth_dev_scheme {
	const char *name;
	bool wrapper; /* NAME(URI) rather than NAME:PATH */
	bool list;    /* a wrapper of any number of devices: it opens uri->inner itself */
	/*
	 * Create the device: set ops and info, zero the common part. Take the options and call
	 * fth_uri_finish() before any side effect. uri->path is set for a leaf. For a wrapper
	 * `inner` is open, and the new device owns it if this succeeds; it is NULL for a list. If
	 * uri->readonly is set, open without write permission, where that exists, and fail writes
	 * with -EROFS; a list passes it on to its devices.
	 */
	int (*open)(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out);
};

/*
 * Complete a device that was created without fth_dev_open(): ops and info are set, the common part
 * is zero. fth_dev_uri() will return a copy of `uri`. Returns 0, or -ENOMEM; the device is closed
 * then.
 */
int fth_dev_adopt(struct fth_dev *dev, const char *uri);

/*
 * Register a scheme, which must stay valid until the process ends. Thread-safe. Returns 0; -EEXIST
 * if the name is taken; -ENOSPC if 32 schemes are registered.
 */
int fth_dev_scheme_register(const struct fth_dev_scheme *scheme);

/* Copy the data of a request from its iovecs to contiguous memory, and back. */
void fth_dev_req_gather(const struct fth_dev_req *req, void *to);
void fth_dev_req_scatter(const struct fth_dev_req *req, const void *from);

FTH_END_DECLS
#endif
