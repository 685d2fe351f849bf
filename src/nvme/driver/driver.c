/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host driver: from a controller in any state to I/O queue pairs, and back.
 *
 * Siblings: registers.c has the registers, dma.c the memory; driver_identify.c reads identify data;
 * dev_nvme.c makes a device of the queue pairs; soft.c is the transport to the software controller,
 * ctrl*.c that controller; vfio*.c is the transport to a real drive.
 *
 * Invariants
 * 1. While the controller is enabled it may touch the rings and every mapped page. It is
 *    disabled, and seen not ready, before any of them is freed or a wait on it is cancelled.
 * 2. failed is set and cleared under the lock. While it is set every queue pair is cancelled.
 */
#include "driver_internal.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADMIN_SHIFT   5
#define QUEUES_MAX    16
#define ADMIN_MIN_NS  1000000000 /* admin commands may take longer than reads and writes */
#define ADMIN_LOOK_NS 20000000	 /* how often a wait looks whether the controller is well */

/* ---- capabilities ---- */

/* How many I/O queue pairs have their doorbells where we may write. */
static uint32_t doorbells_for(struct fth_nvme *nvme)
{
	size_t pair = 2 * (size_t)fth_nvme_cap_stride(nvme->cap);
	size_t pairs = nvme->transport->doorbell_bytes / pair;

	if (nvme->transport->doorbell_bytes == 0)
		return UINT32_MAX;
	return pairs > 1 ? (uint32_t)pairs - 1 : 0;
}

static int check_capabilities(struct fth_nvme *nvme)
{
	uint64_t cap = nvme->transport->ops->read64(nvme->transport, FTH_NVME_REG_CAP);

	if (cap == UINT64_MAX)
		return fth_fail(ENODEV,
				"the controller does not respond: it was removed or has failed");
	if (!(cap & FTH_NVME_CAP_CSS_NVM))
		return fth_fail(EOPNOTSUPP, "the controller has no NVM command set");
	if (fth_nvme_cap_page_min(cap) > 0)
		return fth_fail(EOPNOTSUPP, "the controller does not support pages of 4 KiB");
	nvme->cap = cap;
	if (doorbells_for(nvme) == 0)
		return fth_fail(EOPNOTSUPP, "BAR 0 ends before the doorbells of a queue pair");
	nvme->ready_timeout_ns = ((uint64_t)fth_nvme_cap_timeout(cap) + 1) * 500000000u;
	while (nvme->shift > FTH_NVME_SHIFT_MIN &&
	       fth_ring_mask(nvme->shift) > fth_nvme_cap_mqes(cap))
		nvme->shift--;
	return 0;
}

/* ---- queues ---- */

static void queue_release(struct fth_nvme *nvme, struct nvme_queue *queue)
{
	fth_nvme_dma_free(nvme, &queue->sq);
	fth_nvme_dma_free(nvme, &queue->cq);
	free(queue->memory);
	memset(queue, 0, sizeof(*queue));
}

static uint32_t *doorbell(struct fth_nvme *nvme, uint32_t qid, bool completion)
{
	uint32_t stride = fth_nvme_cap_stride(nvme->cap);
	uint32_t offset = fth_nvme_doorbell_offset(qid, completion, stride);

	return (uint32_t *)(void *)(nvme->transport->doorbells + offset - FTH_NVME_REG_DOORBELL);
}

/* The host's side of a queue pair; the controller does not know it yet. */
static int queue_init(struct fth_nvme *nvme, struct nvme_queue *queue, uint32_t qid, uint32_t shift)
{
	struct fth_nvme_qp_setup setup = {.sq_shift = shift, .cq_shift = shift, .qid = qid};
	size_t memory = fth_nvme_qp_memory(shift, fth_ring_mask(shift));
	int rc;

	queue->memory = aligned_alloc(64, (memory + 63) / 64 * 64);
	rc = queue->memory ? 0 : -ENOMEM;
	if (rc == 0)
		rc = fth_nvme_dma_alloc(nvme, sizeof(struct fth_nvme_sqe) << shift, &queue->sq);
	if (rc == 0)
		rc = fth_nvme_dma_alloc(nvme, sizeof(struct fth_nvme_cqe) << shift, &queue->cq);
	if (rc < 0) {
		queue_release(nvme, queue);
		return rc;
	}
	setup.sq = queue->sq.ptr;
	setup.cq = queue->cq.ptr;
	setup.memory = queue->memory;
	setup.sq_doorbell = doorbell(nvme, qid, false);
	setup.cq_doorbell = doorbell(nvme, qid, true);
	return fth_nvme_qp_init(&queue->qp, &setup);
}

/* ---- admin commands ---- */

/* *left: the command was given up, and the controller may still touch its memory. */
static int admin_exec(struct fth_nvme *nvme, const struct fth_nvme_sqe *command, uint32_t *result,
		      bool *left)
{
	struct fth_nvme_qp *qp = &nvme->admin.qp;
	uint64_t timeout = nvme->timeout_ns > ADMIN_MIN_NS ? nvme->timeout_ns : ADMIN_MIN_NS;
	uint64_t deadline = fth_deadline_ns(timeout), look;
	struct fth_nvme_done done = {0, 0};
	int id = fth_nvme_qp_take_wait(qp, 0, deadline), ill = 0, rc;

	*left = false;
	if (id < 0)
		return id;
	fth_nvme_qp_put(qp, (uint32_t)id, command);
	fth_nvme_qp_ring(qp);
	do {
		look = fth_deadline_ns(ADMIN_LOOK_NS);
		rc = fth_nvme_qp_wait(qp, (uint32_t)id, look < deadline ? look : deadline, &done);
		if (rc == -ETIME)
			ill = nvme_health(nvme);
	} while (rc == -ETIME && ill == 0 && fth_now_ns() < deadline);
	if (rc == -ETIME)
		rc = fth_nvme_qp_abandon(qp, (uint32_t)id, &done);
	*left = rc < 0;
	if (result)
		*result = done.result;
	if (rc == -ETIME && ill < 0)
		return ill;
	return rc < 0 ? rc : fth_nvme_status_errno(done.status);
}

int fth_nvme_admin(struct fth_nvme *nvme, const struct fth_nvme_sqe *command, uint32_t *result)
{
	bool left;
	int rc = admin_exec(nvme, command, result, &left);

	if (left)
		fth_nvme_fail(nvme, rc == -ETIME ? ETIMEDOUT : -rc);
	return rc;
}

static int identify(struct fth_nvme *nvme, uint32_t cns, uint32_t nsid, struct fth_nvme_dma *page)
{
	struct fth_nvme_sqe command = {
		.opcode = FTH_NVME_IDENTIFY, .nsid = nsid, .prp1 = page->iova, .cdw10 = cns};

	return fth_nvme_admin(nvme, &command, NULL);
}

static int identify_all(struct fth_nvme *nvme)
{
	struct fth_nvme_dma ctrl = {0}, ns = {0};
	int rc;

	rc = fth_nvme_dma_alloc(nvme, FTH_NVME_IDENTIFY_SIZE, &ctrl);
	if (rc == 0)
		rc = fth_nvme_dma_alloc(nvme, FTH_NVME_IDENTIFY_SIZE, &ns);
	if (rc == 0)
		rc = identify(nvme, FTH_NVME_CNS_CONTROLLER, 0, &ctrl);
	if (rc == 0)
		rc = identify(nvme, FTH_NVME_CNS_NAMESPACE, nvme->nsid, &ns);
	if (rc == 0)
		rc = fth_nvme_parse_identify(ctrl.ptr, ns.ptr, &nvme->info);
	nvme->info.nsid = nvme->nsid;
	fth_nvme_dma_free(nvme, &ctrl);
	fth_nvme_dma_free(nvme, &ns);
	return rc;
}

/* How many I/O queue pairs the controller grants, of those wanted. */
static int negotiate_queues(struct fth_nvme *nvme)
{
	uint32_t ask = nvme->wanted - 1, granted;
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_SET_FEATURES,
				       .cdw10 = FTH_NVME_FEAT_QUEUES,
				       .cdw11 = ask << 16 | ask};
	bool left;
	int rc = admin_exec(nvme, &command, &granted, &left);

	if (rc < 0)
		return rc;
	if ((granted & 0xffff) < ask)
		ask = granted & 0xffff;
	if (granted >> 16 < ask)
		ask = granted >> 16;
	if (doorbells_for(nvme) < ask + 1)
		ask = doorbells_for(nvme) - 1;
	return (int)ask + 1;
}

/* The first vector is the admin queue's, unless there is no other. */
uint32_t nvme_vector(const struct fth_nvme *nvme, uint32_t qid)
{
	uint32_t vectors = nvme->transport->vectors;

	return vectors > 1 ? 1 + (qid - 1) % (vectors - 1) : 0;
}

/* Tell the controller about a queue pair: its completion queue first, it is named by the other. */
static int queue_create(struct fth_nvme *nvme, struct nvme_queue *queue)
{
	uint32_t qid = queue->qp.qid;
	uint32_t size = fth_ring_mask(nvme->shift) << FTH_NVME_CREATE_SIZE_SHIFT | qid;
	struct fth_nvme_sqe cq = {.opcode = FTH_NVME_CREATE_CQ,
				  .prp1 = queue->cq.iova,
				  .cdw10 = size,
				  .cdw11 = FTH_NVME_CREATE_CONTIGUOUS};
	struct fth_nvme_sqe sq = {.opcode = FTH_NVME_CREATE_SQ,
				  .prp1 = queue->sq.iova,
				  .cdw10 = size,
				  .cdw11 = qid << FTH_NVME_CREATE_SQ_CQID_SHIFT |
					   FTH_NVME_CREATE_CONTIGUOUS};
	bool left;
	int rc;

	if (nvme->transport->vectors)
		cq.cdw11 |= FTH_NVME_CREATE_CQ_INTERRUPT |
			    nvme_vector(nvme, qid) << FTH_NVME_CREATE_CQ_VECTOR_SHIFT;
	rc = admin_exec(nvme, &cq, NULL, &left);
	return rc < 0 ? rc : admin_exec(nvme, &sq, NULL, &left);
}

/* ---- opening and closing ---- */

static int make_queues(struct fth_nvme *nvme)
{
	int granted = negotiate_queues(nvme), rc = 0;
	size_t bytes;

	if (granted < 0)
		return granted;
	bytes = (size_t)granted * ((sizeof(struct nvme_queue) + 63) / 64 * 64);
	nvme->queues = aligned_alloc(64, bytes);
	if (!nvme->queues)
		return -ENOMEM;
	memset(nvme->queues, 0, bytes);
	nvme->info.ids = fth_nvme_qp_ids_max(nvme->shift, nvme->shift);
	for (int i = 0; rc == 0 && i < granted; i++) {
		rc = queue_init(nvme, &nvme->queues[i], (uint32_t)i + 1, nvme->shift);
		if (rc == 0) {
			nvme->info.queues++;
			rc = queue_create(nvme, &nvme->queues[i]);
		}
	}
	return rc;
}

static int bring_up(struct fth_nvme *nvme)
{
	int rc = check_capabilities(nvme);

	if (rc == 0)
		rc = nvme_disable(nvme);
	if (rc == 0)
		rc = queue_init(nvme, &nvme->admin, 0, ADMIN_SHIFT);
	if (rc == 0)
		rc = nvme_enable(nvme);
	if (rc == 0)
		rc = identify_all(nvme);
	if (rc == 0)
		rc = make_queues(nvme);
	return rc;
}

static void release(struct fth_nvme *nvme)
{
	for (uint32_t i = 0; i < nvme->info.queues; i++)
		queue_release(nvme, &nvme->queues[i]);
	free(nvme->queues);
	queue_release(nvme, &nvme->admin);
	pthread_mutex_destroy(&nvme->lock);
	free(nvme);
}

static int check_opts(const struct fth_nvme_options *opts)
{
	int rc = fth_options_check("nvme", opts->size, sizeof(*opts));

	if (rc < 0)
		return rc;
	if (opts->nsid == 0 || opts->nsid == FTH_NVME_NSID_ALL)
		return fth_fail(EINVAL, "namespace %u is not a valid namespace id", opts->nsid);
	if (opts->entries < 2 || opts->entries > 65536 || opts->entries & (opts->entries - 1))
		return fth_fail(EINVAL, "entries %u is not a power of two from 2 to 65536",
				opts->entries);
	if (opts->timeout_ns == 0)
		return fth_fail(EINVAL, "timeout_ms is 0");
	return 0;
}

static uint32_t default_queues(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus > QUEUES_MAX ? QUEUES_MAX : (uint32_t)cpus;
}

int fth_nvme_open(struct fth_nvme_transport *transport, const struct fth_nvme_options *opts,
		  struct fth_nvme **out)
{
	static const struct fth_nvme_options defaults = FTH_NVME_OPTIONS_INIT;
	struct fth_nvme *nvme;
	int rc;

	*out = NULL;
	opts = opts ? opts : &defaults;
	rc = check_opts(opts);
	if (rc < 0)
		return rc;
	/* The queue pairs inside keep cache lines apart. */
	nvme = aligned_alloc(64, (sizeof(*nvme) + 63) / 64 * 64);
	if (!nvme)
		return -ENOMEM;
	memset(nvme, 0, sizeof(*nvme));
	pthread_mutex_init(&nvme->lock, NULL);
	nvme->transport = transport;
	nvme->timeout_ns = opts->timeout_ns;
	nvme->nsid = opts->nsid;
	nvme->shift = (uint32_t)__builtin_ctz(opts->entries);
	nvme->wanted = opts->queues ? opts->queues : default_queues();
	rc = bring_up(nvme);
	if (rc < 0) {
		/* Only a disabled controller lets its memory be freed (invariant 1). */
		if (!fth_load_relaxed_dev32(&nvme->failed))
			(void)nvme_disable(nvme);
		release(nvme);
		return rc;
	}
	*out = nvme;
	return 0;
}

void fth_nvme_close(struct fth_nvme *nvme)
{
	struct fth_nvme_transport *transport;

	if (!nvme)
		return;
	transport = nvme->transport;
	if (!nvme->failed) {
		(void)nvme_shut_down(nvme);
		(void)nvme_disable(nvme);
	}
	release(nvme);
	transport->ops->close(transport);
}

const struct fth_nvme_info *fth_nvme_info(const struct fth_nvme *nvme)
{
	return &nvme->info;
}

struct fth_nvme_qp *fth_nvme_qp(struct fth_nvme *nvme, unsigned i)
{
	return i < nvme->info.queues ? &nvme->queues[i].qp : NULL;
}

uint32_t *nvme_issuing(struct fth_nvme *nvme, unsigned i)
{
	return &nvme->queues[i].issuing;
}

/* ---- failing and coming back ---- */

static void fail_locked(struct fth_nvme *nvme, int err)
{
	if (nvme->failed)
		return;
	/* Cancel ends waits, and with them the buffers' protection: disable first. */
	(void)nvme_disable(nvme);
	for (uint32_t i = 0; i < nvme->info.queues; i++)
		fth_nvme_qp_cancel(&nvme->queues[i].qp, (uint32_t)err);
	fth_nvme_qp_cancel(&nvme->admin.qp, (uint32_t)err);
	fth_store_release_dev32(&nvme->failed, (uint32_t)err);
}

void fth_nvme_fail(struct fth_nvme *nvme, int err)
{
	pthread_mutex_lock(&nvme->lock);
	fail_locked(nvme, err);
	pthread_mutex_unlock(&nvme->lock);
}

void fth_nvme_watch(struct fth_nvme *nvme)
{
	int rc;

	/* Held by one who looks, fails or recovers: all that we could do. */
	if (pthread_mutex_trylock(&nvme->lock) != 0)
		return;
	rc = nvme->failed ? 0 : nvme_health(nvme);
	if (rc < 0)
		fail_locked(nvme, -rc);
	pthread_mutex_unlock(&nvme->lock);
}

static int reset_queues(struct fth_nvme *nvme)
{
	int rc = 0;

	/* A queue pair that has been reset already is reset again: it is still cancelled. */
	for (uint32_t i = 0; rc == 0 && i < nvme->info.queues; i++) {
		/*
		 * A read-modify-write: either it sees a thread that submits, or that thread's own
		 * increment comes later, reads this one, and so finds the queue pair failed.
		 */
		if (fth_add_acqrel_dev32(&nvme->queues[i].issuing, 0))
			return -EBUSY;
		rc = fth_nvme_qp_reset(&nvme->queues[i].qp);
	}
	return rc < 0 ? rc : fth_nvme_qp_reset(&nvme->admin.qp);
}

static int recover_locked(struct fth_nvme *nvme)
{
	int rc = reset_queues(nvme);

	if (rc < 0)
		return rc;
	rc = nvme_disable(nvme);
	if (rc < 0)
		return rc;
	fth_nvme_qp_resume(&nvme->admin.qp);
	rc = nvme_enable(nvme);
	if (rc == 0) {
		rc = negotiate_queues(nvme);
		rc = rc < 0 ? rc : rc < (int)nvme->info.queues ? -EIO : 0;
	}
	for (uint32_t i = 0; rc == 0 && i < nvme->info.queues; i++)
		rc = queue_create(nvme, &nvme->queues[i]);
	if (rc < 0) {
		(void)nvme_disable(nvme);
		fth_nvme_qp_cancel(&nvme->admin.qp, (uint32_t)-rc);
		return rc;
	}
	fth_store_release_dev32(&nvme->failed, 0);
	for (uint32_t i = 0; i < nvme->info.queues; i++)
		fth_nvme_qp_resume(&nvme->queues[i].qp);
	return 0;
}

int fth_nvme_recover(struct fth_nvme *nvme)
{
	int rc = 0;

	pthread_mutex_lock(&nvme->lock);
	if (nvme->failed == ENODEV)
		rc = fth_fail(ENODEV,
			      "the controller does not respond: it was removed or has failed");
	else if (nvme->failed)
		rc = recover_locked(nvme);
	/* It left meanwhile: it will not be looked for again. */
	if (rc == -ENODEV)
		fth_store_release_dev32(&nvme->failed, ENODEV);
	pthread_mutex_unlock(&nvme->lock);
	return rc;
}
