/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host for the tests of the controller, as plain as can be: one arena of memory granted whole,
 * rings in it, commands written one by one, completions taken by phase. It checks each completion
 * for form, and drives a controller without workers by stepping it.
 */
#ifndef FTH_SRC_NVME_CTRL_FIXTURE_H
#define FTH_SRC_NVME_CTRL_FIXTURE_H

#include "nvme/ctrl.h"
#include "fathom/detail/nvme/spec.h"

#define HOST_ARENA_PAGES 1024u
#define HOST_IOVA	 0x100000000ull /* bus address of the arena: not a pointer by accident */
#define HOST_PAGE	 4096u
#define HOST_QUEUES	 8u
#define HOST_STEPS	 10000u /* a command that takes more is lost */

struct host_sq {
	struct fth_nvme_sqe *ring;
	uint32_t size, tail;
	uint32_t head; /* as the completions tell it */
	uint16_t cq;
};

struct host_cq {
	struct fth_nvme_cqe *ring;
	uint32_t size, head, phase;
};

struct host {
	struct fth_dev *dev;
	struct fth_nvme_ctrl *ctrl;
	char *arena;
	uint32_t next_page; /* of the arena, for host_pages() */
	uint32_t *doorbells;
	struct host_sq sq[HOST_QUEUES];
	struct host_cq cq[HOST_QUEUES];
	uint16_t next_cid;
	bool threads; /* the controller has workers: wait instead of stepping */
};

/* Make the controller over dev and grant the arena. The registers are not touched. */
void host_open(struct host *host, struct fth_dev *dev, const struct fth_nvme_ctrl_options *opts);
void host_close(struct host *host);

/* Enable, with admin queues of `entries`; fails the test if RDY does not come. */
void host_enable(struct host *host, uint32_t entries);
/* All of it: a mem: device by URI, options for step mode, enable, I/O queue pair 1. */
void host_up(struct host *host, const char *uri, uint32_t entries);
void host_down(struct host *host); /* the same backwards, the device too */

/* n fresh pages of the arena, zeroed, contiguous in memory and on the bus. */
void *host_pages(struct host *host, uint32_t n);
uint64_t host_iova(const struct host *host, const void *p);

/* Let the controller do what it has to. */
void host_settle(struct host *host);

void host_ring(struct host *host, uint16_t qid); /* submission doorbell */
void host_push(struct host *host, uint16_t qid, const struct fth_nvme_sqe *sqe); /* no doorbell */
bool host_poll(struct host *host, uint16_t cqid, struct fth_nvme_cqe *out);
void host_consume(struct host *host, uint16_t cqid); /* completion doorbell */
/* Wait for the next completion on cqid; fails the test when none comes. */
struct fth_nvme_cqe host_wait(struct host *host, uint16_t cqid);

/* Submit on queue qid, wait, check that it is the answer; returns type and code of the status. */
uint16_t host_run(struct host *host, uint16_t qid, struct fth_nvme_sqe *sqe, uint32_t *result);

/* Create I/O queues, returning the status. */
uint16_t host_create_cq(struct host *host, uint16_t id, uint32_t entries);
uint16_t host_create_sq(struct host *host, uint16_t id, uint16_t cq, uint32_t entries);
uint16_t host_delete(struct host *host, enum fth_nvme_admin_opcode opcode, uint16_t id);

struct fth_nvme_sqe host_rw(uint8_t opcode, uint64_t first, uint32_t blocks, uint64_t prp1,
			    uint64_t prp2);

#endif
