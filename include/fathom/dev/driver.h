/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For those who implement a device. Users need fathom/dev.h only.
 *
 * A device is a struct that begins with struct fth_dev, a channel one that begins with struct
 * fth_dev_chan. The functions of dev.h check every request and every argument before they call
 * the operations below, count what is in flight and keep the statistics, so that an operation
 * sees only well-formed requests inside the device and never more than the channel's depth.
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
	/* Release the device and its memory. No channel is open. */
	void (*close)(struct fth_dev *dev);

	/* Allocate a channel; the caller fills in its common part. Any thread. */
	int (*chan_open)(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out);

	/* Release a channel; nothing is in flight any more. */
	void (*chan_close)(struct fth_dev_chan *chan);

	/*
	 * Take the first k of n requests and return k, or an error if not even one. Taking means
	 * that reap will hand it back. An I/O error is no reason not to take: it is a result.
	 */
	int (*submit)(struct fth_dev_chan *chan, struct fth_dev_req *const *reqs, unsigned n);

	/*
	 * Hand back up to max requests with their result set. Wait until min (at most what is in
	 * flight) are there or the deadline has passed, and return how many, 0 included.
	 */
	int (*reap)(struct fth_dev_chan *chan, struct fth_dev_req **done, unsigned max,
		    unsigned min, uint64_t deadline);

	/*
	 * See fth_dev_chan_fd(). Make the descriptor at the first call, return the same one later,
	 * close it in chan_close. Once it exists, reap is also called with nothing in flight, so
	 * that it can clear a wake-up that came without need.
	 */
	int (*chan_fd)(struct fth_dev_chan *chan);

	/* Optional; see fth_dev_map(). Called under the device's lock. */
	int (*map)(struct fth_dev *dev, void *addr, size_t len);
	int (*unmap)(struct fth_dev *dev, void *addr, size_t len);

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

	/* The common part, kept by dev.c. */
	char *uri;
	struct fth_stats *stats;
	pthread_mutex_t lock;		   /* held around map and unmap */
	struct fth_dev_blocking *blocking; /* the channels of the blocking calls */
};

struct fth_dev_chan {
	struct fth_dev *dev;
	unsigned depth;
	unsigned in_flight;
	bool has_fd; /* fth_dev_chan_fd() has given one out */
};

/* How a scheme makes a device. */
struct fth_dev_scheme {
	const char *name;
	bool wrapper; /* NAME(URI) rather than NAME:PATH */
	bool list;    /* a wrapper of any number of devices: it opens uri->inner itself */
	/*
	 * Make the device: ops and info set, the common part zeroed. For a leaf uri->path is set;
	 * for a wrapper `inner` is open, and belongs to the new device if this succeeds (NULL
	 * for a list). Takes its options and calls fth_uri_finish() before it touches anything.
	 * If uri->readonly is set the device is opened without permission to write, where there
	 * is such a thing, and writes to it fail with -EROFS; a list passes it on to its devices.
	 */
	int (*open)(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out);
};

/*
 * Complete a device that was made without fth_dev_open(): ops and info set, the common part
 * zeroed. `uri` is what fth_dev_uri() will say. On failure the device is closed.
 */
int fth_dev_adopt(struct fth_dev *dev, const char *uri);

/* Add a scheme of your own; it must outlive its use. -EEXIST if the name is taken. */
int fth_dev_scheme_register(const struct fth_dev_scheme *scheme);

/* Copy between a request's pieces and flat memory. */
void fth_dev_req_gather(const struct fth_dev_req *req, void *to);
void fth_dev_req_scatter(const struct fth_dev_req *req, const void *from);

FTH_END_DECLS
#endif
