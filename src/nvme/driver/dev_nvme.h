/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device on top of the driver. A request becomes one or more commands: as much of it as one
 * command can carry goes directly from and to the caller's memory if that memory is mapped and
 * PRPs can name it, else through a bounce chunk. Commands of one channel all go to one queue
 * pair, which channels of other threads may share.
 *
 *	dev_nvme.c	the device and its channels: submit, reap, timeouts
 *	dev_nvme_cmd.c	one command: memory, PRPs, bounce, opcode
 */
#ifndef FTH_NVME_DEV_NVME_H
#define FTH_NVME_DEV_NVME_H

#include "internal.h"

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

/* A command in flight. */
struct nvme_command {
	uint32_t id;
	uint32_t chunk; /* bounce chunk or NVME_NO_CHUNK */
	struct fth_dev_req *req;
	uint64_t position; /* of this command's data in the request */
	uint64_t bytes;
	uint64_t issued_ns;
};

/* How far a request is; lives in its scratch. */
struct nvme_progress {
	uint64_t issued; /* bytes that commands were made for */
	uint32_t outstanding;
	int32_t error;
};
_Static_assert(sizeof(struct nvme_progress) == sizeof(((struct fth_dev_req *)0)->scratch),
	       "progress fits the scratch");

/* The part of a queue pair that belongs to the device. */
struct nvme_lane {
	struct fth_nvme_qp *qp;
	struct fth_nvme_dma lists; /* a PRP list page per command id */
	uint32_t channels;	   /* that use it */
};

struct dev_nvme {
	struct fth_dev dev;
	struct fth_nvme *nvme;
	struct nvme_lane *lanes; /* per queue pair */
	uint32_t next_lane;	 /* channels go round-robin */
	uint32_t generation;	 /* of the regions; channels look whether their copy is old */
	pthread_mutex_t region_lock;
	unsigned region_count;
	struct nvme_region regions[NVME_REGIONS_MAX];
};

struct nvme_list { /* first in, first out */
	struct fth_dev_req **ring;
	unsigned head, count, capacity;
};

struct chan_nvme {
	struct fth_dev_chan chan;
	struct dev_nvme *owner;
	struct nvme_lane *lane;
	uint32_t hint;		  /* the command id we had last */
	struct nvme_list pending; /* not all of it made into commands yet */
	struct nvme_list done;
	struct nvme_command *active; /* the commands we have out; room for all ids */
	unsigned active_count;
	unsigned turns;	     /* looks at the queue so far */
	uint64_t next_check; /* of timeouts, and whether the controller is well */

	uint32_t generation; /* of our copy of the regions */
	unsigned region_count;
	unsigned region_hit; /* where the last look-up ended */
	struct nvme_region *regions;

	struct fth_nvme_dma bounce; /* allocated by the first request that needs it */
	unsigned free_chunks;
	uint32_t chunks[NVME_BOUNCE_MAX]; /* a stack of free ones */
};

static inline struct nvme_progress *nvme_progress(struct fth_dev_req *req)
{
	return (struct nvme_progress *)(void *)req->scratch;
}

/*
 * Make the next command of a request: *command has its id and request set, the rest of it and
 * *sqe are filled. 0, -EAGAIN when it needs a bounce chunk and none is free, or -ENOMEM.
 */
int nvme_command_build(struct chan_nvme *chan, struct nvme_command *command,
		       struct fth_nvme_sqe *sqe);

/* The command has ended: hand bounced data to the caller if it went well, free the chunk. */
void nvme_command_end(struct chan_nvme *chan, const struct nvme_command *command, bool good);

/* Bytes of a request that commands must cover. */
uint64_t nvme_request_bytes(const struct fth_dev_req *req);

#endif
