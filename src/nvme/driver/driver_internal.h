/* SPDX-License-Identifier: BSD-2-Clause */
/* What driver.c shares with dev_nvme.c, window.c and soft.c. */
#ifndef FTH_NVME_DRIVER_INTERNAL_H
#define FTH_NVME_DRIVER_INTERNAL_H

#include "nvme/driver.h"

#include <pthread.h>

/* A queue pair and the memory it is made of. */
struct nvme_queue {
	struct fth_nvme_qp qp;
	struct fth_nvme_dma sq, cq;
	void *memory;
	/*
	 * Atomic: threads that are between take and ring. Completions are delivered for other
	 * threads, so an id can be free again while the thread that had it is still in ring: that
	 * no id is held does not tell a reset that nobody touches the submission ring, this does.
	 */
	uint32_t issuing;
};

struct fth_nvme {
	struct fth_nvme_transport *transport;
	struct fth_nvme_info info;
	uint64_t cap;
	uint64_t ready_timeout_ns; /* CAP.TO */
	uint64_t timeout_ns;
	uint32_t nsid;
	uint32_t shift;	 /* log2 of entries per I/O ring */
	uint32_t wanted; /* I/O queue pairs */

	pthread_mutex_t lock; /* guards bring-up, failure and recovery */
	uint32_t failed;      /* the errno; read without the lock */
	uint32_t windows;     /* atomic: bit per enum fth_nvme_window_kind that is open */
	struct nvme_queue admin;
	struct nvme_queue *queues; /* info.queues of them; cache-line aligned */
};

/* ---- registers.c: all wait no longer than CAP.TO allows; -ENODEV when the controller is gone ----
 */

/* Make the controller let go of all memory. One that does not is reset, if its transport can. */
int nvme_disable(struct fth_nvme *nvme);

/* Enable a disabled one with the admin queue pair, which has been made. */
int nvme_enable(struct fth_nvme *nvme);

/* Have it write back what it caches, before it is disabled. */
int nvme_shut_down(struct fth_nvme *nvme);

/* 0 while an enabled controller is there and well; -ENODEV, or -EIO when it needs a reset. */
int nvme_health(struct fth_nvme *nvme);

/* ---- driver.c ---- */

/* Its counter of threads that submit; see struct nvme_queue. */
uint32_t *nvme_issuing(struct fth_nvme *nvme, unsigned i);

/* The interrupt vector that says that queue pair `qid` has completions. */
uint32_t nvme_vector(const struct fth_nvme *nvme, uint32_t qid);

#endif
