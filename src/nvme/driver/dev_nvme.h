/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device on top of the driver. A request becomes one or more commands: as much of it as one
 * command can carry goes directly from and to the caller's memory if that memory is mapped and
 * PRPs can name it, else through a bounce chunk. Commands of one channel all go to one queue
 * pair, which channels of other threads may share.
 *
 *	dev_nvme.c		the device and its channels: submit, reap; the invariants
 *	dev_nvme_share.c	a queue pair that channels share: delivery, failure, timeouts
 *	dev_nvme_wake.c		the descriptor of a channel, for poll and epoll
 *	dev_nvme_window.c	the byte-addressable windows
 *	dev_nvme_cmd.c		one command: memory, PRPs, bounce, opcode
 */
#ifndef FTH_NVME_DEV_NVME_H
#define FTH_NVME_DEV_NVME_H

#include "driver_internal.h"

#include "fathom/dev/driver.h"

#define NVME_REGIONS_MAX  256
#define NVME_BOUNCE_CHUNK 65536u
#define NVME_BOUNCE_MAX	  32u /* chunks per channel */
#define NVME_NO_CHUNK	  UINT32_MAX

/* Memory the caller has mapped. */
struct nvme_region {
	char *addr;
	size_t len;
	uint64_t iova;
};

struct chan_nvme;

/* A command: made, in flight, or arrived. It belongs to its channel's pool. */
struct nvme_command {
	struct chan_nvme *chan;
	struct nvme_command *next; /* in the pool, or among those that arrived */
	struct fth_dev_req *req;
	uint32_t id;
	uint32_t chunk;	   /* bounce chunk or NVME_NO_CHUNK */
	uint64_t position; /* of this command's data in the request */
	uint64_t bytes;
	int result; /* set by the thread that delivers it */
};

/* How far a request is; lives in its scratch. */
struct nvme_progress {
	uint64_t issued; /* bytes that commands were made for */
	uint32_t outstanding;
	int32_t error;
};
_Static_assert(sizeof(struct nvme_progress) == sizeof(((struct fth_dev_req *)0)->scratch),
	       "progress fits the scratch");

/* What is out under one command id. */
struct nvme_flight {
	struct nvme_command *command; /* valid while issued_ns is not 0 */
	uint64_t issued_ns;	      /* atomic; 0: no command of a channel */
};

/* The part of a queue pair that belongs to the device. */
struct nvme_share {
	struct fth_nvme_qp *qp;
	uint32_t *issuing;	     /* of the queue: see struct nvme_queue */
	struct fth_nvme_dma lists;   /* a PRP list page per command id */
	struct nvme_flight *flights; /* per command id */
	uint32_t channels;	     /* that use it */
	uint32_t vector;	     /* its interrupt */
	/* Guarded by the reap lock. */
	struct chan_nvme *watchers; /* channels with a descriptor */
	bool told;		    /* they were woken for the failure of the queue pair */
};

struct dev_nvme {
	struct fth_dev dev;
	struct fth_nvme *nvme;
	struct nvme_share *shares; /* per queue pair */
	uint32_t next_share;	   /* channels go round-robin */
	uint32_t generation;	   /* of the regions; channels look whether their copy is old */
	pthread_mutex_t region_lock;
	unsigned region_count;
	struct nvme_region regions[NVME_REGIONS_MAX];
};

struct nvme_list { /* first in, first out */
	struct fth_dev_req **ring;
	unsigned head, count, capacity;
};

/* The descriptor of a channel; dev_nvme_wake.c. */
struct nvme_wake {
	int epoll; /* what the user polls: the three below; -1: nobody has asked */
	int event; /* an eventfd: something was delivered, or is in `done` */
	int timer;
	int vector;		/* the queue's interrupt, the transport's; -1: there is none */
	bool watched;		/* in share->watchers; written under the reap lock */
	bool listening;		/* vector is in the epoll set */
	bool ticking;		/* timer is armed */
	uint32_t signalled;	/* atomic: event was written and not yet read */
	uint32_t starving;	/* atomic: a request waits for a command id of other channels */
	struct chan_nvme *next; /* of share->watchers */
};

struct chan_nvme {
	struct fth_dev_chan chan;
	struct dev_nvme *owner;
	struct nvme_share *share;
	uint32_t hint;		  /* the command id we had last */
	unsigned busy;		  /* requests that submit took and reap did not hand back */
	struct nvme_list pending; /* not all of it made into commands yet */
	struct nvme_list done;
	struct nvme_command *commands; /* the pool: as many as there are ids */
	struct nvme_command *free;
	struct nvme_command *mine; /* arrived, reaped by this channel itself */
	unsigned turns;		   /* looks at the queue so far */
	uint64_t next_check;	   /* of timeouts, and whether the controller is well */
	struct nvme_wake wake;

	/* A list of arrived commands, last first: pushed to by any thread that reaps the share. */
	FTH_NVME_ALIGNED uint64_t arrived;

	uint32_t generation; /* of our copy of the regions */
	unsigned region_count;
	unsigned region_hit; /* where the last look-up ended */
	struct nvme_region *regions;

	struct fth_nvme_dma
		bounce; /* allocated by the first request that needs it, or by nvme_bounce_open() */
	unsigned free_chunks;
	uint32_t chunks[NVME_BOUNCE_MAX]; /* a stack of free ones */
};

static inline struct nvme_progress *nvme_progress(struct fth_dev_req *req)
{
	return (struct nvme_progress *)(void *)req->scratch;
}

/* ---- dev_nvme_share.c ---- */

/*
 * Deliver every completion that has arrived to its channel; `self` is the calling one, or NULL.
 * With `wait`, also when another thread is reaping: whatever arrived before the call is delivered
 * when it returns.
 */
void nvme_share_drain(struct nvme_share *share, struct chan_nvme *self, bool wait);

/* If the queue pair has failed, deliver its failure as the result of every command that is out. */
void nvme_share_sweep(struct nvme_share *share);

/* True if a command on this share, of any channel, has had its time. */
bool nvme_share_overdue(const struct nvme_share *share, uint64_t timeout_ns);

/* The controller failed: disable it and end all that is in flight, on every share. */
void nvme_dev_fail(struct dev_nvme *dev, int err);

/* Bring it back. 0, -EBUSY while others are about to end, or why it does not come up. */
int nvme_dev_recover(struct dev_nvme *dev);

/* ---- dev_nvme_wake.c ---- */

/* An id was given back: channels that sleep and wait for one shall try. reap_lock is held. */
void nvme_wake_starving(struct nvme_share *share);

/* There was no id: be signalled when there may be one. Try once more after this. */
void nvme_wake_starve(struct chan_nvme *chan);

/* Make the channel's descriptor readable, if it has one. reap_lock is held, or it is our own. */
void nvme_wake_signal(struct chan_nvme *chan);

/* The channel has something in flight now: see to it that it will be woken. */
void nvme_wake_arm(struct chan_nvme *chan);

/* Take back every wake-up, and do what they ask for. Look for completions afterwards. */
void nvme_wake_clear(struct chan_nvme *chan);

/* The interrupt was read away: reap every queue that it is for. */
void nvme_wake_drain_vector(struct chan_nvme *chan);

int nvme_wake_open(struct chan_nvme *chan); /* the descriptor, or an error */
void nvme_wake_close(struct chan_nvme *chan);

/* ---- dev_nvme.c ---- */

/* A command that has had its time takes the controller down, and so does its illness. */
void nvme_check_time(struct chan_nvme *chan);

/* ---- dev_nvme_window.c ---- */

int nvme_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
		     struct fth_dev_window **out);

/* ---- dev_nvme_cmd.c ---- */

/*
 * Make the next command of a request: *command has its id and request set, the rest of it and
 * *sqe are filled. 0, -EAGAIN when it needs a bounce chunk and none is free, or -ENOMEM.
 */
int nvme_command_build(struct chan_nvme *chan, struct nvme_command *command,
		       struct fth_nvme_sqe *sqe);

/* The command has ended: hand bounced data to the caller if it went well, free the chunk. */
void nvme_command_end(struct chan_nvme *chan, const struct nvme_command *command, bool good);

/* Allocate the bounce chunks, unless there are. 0 or a negative errno. */
int nvme_bounce_open(struct chan_nvme *chan);

/* Bytes of a request that commands must cover. */
uint64_t nvme_request_bytes(const struct fth_dev_req *req);

#endif
