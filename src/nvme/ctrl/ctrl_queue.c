/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller's side of the rings.
 *
 * Invariants
 * 1. A command is fetched only after a slot of its completion queue was reserved for it, so a
 *    completion always has room: used + reserved <= size - 1. A full completion queue holds back
 *    the commands, not the completions, and never those of other queues.
 * 2. An entry is copied from the ring before the head moves past it, and is never read again.
 * 3. A completion's `info`, with the phase bit, is stored last.
 * 4. A doorbell value is used only if a host that keeps the rules could have written it: inside
 *    the ring, and a completion head not beyond what was posted. Any other is ignored, and told
 *    once by an asynchronous event.
 */
#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NO_VALUE UINT64_MAX /* no doorbell value is this */

bool fth_ctrl_try_lock(uint32_t *lock)
{
	uint32_t expected = 0;

	if (fth_load_relaxed_dev32(lock))
		return false;
	/* acquire: what the last holder wrote is seen; pairs with fth_ctrl_unlock(). */
	return fth_cas_acqrel_dev32(lock, &expected, 1);
}

void fth_ctrl_unlock(uint32_t *lock)
{
	fth_store_release_dev32(lock, 0); /* our writes do not move below it */
}

/* ---- life ---- */

static uint32_t *doorbell(struct fth_nvme_ctrl *ctrl, uint32_t id, bool completion)
{
	return &ctrl->doorbells[2 * id + completion];
}

void fth_ctrl_sq_open(struct fth_nvme_ctrl *ctrl, uint16_t id, struct ctrl_cq *cq, uint32_t size,
		      const void *ring)
{
	struct ctrl_sq *sq = &ctrl->sqs[id];
	uint64_t *cids = sq->cids;

	*sq = (struct ctrl_sq){
		.bad_tail = NO_VALUE,
		.state = CTRL_SQ_LIVE,
		.id = id,
		.size = size,
		.cq = cq,
		.ring = ring,
		.doorbell = doorbell(ctrl, id, false),
		.cids = cids,
	};
	cq->sq_count++;
	fth_store_relaxed_sys32(sq->doorbell, 0);
}

void fth_ctrl_sq_close(struct ctrl_sq *sq)
{
	if (sq->state == CTRL_SQ_NONE)
		return;
	sq->cq->sq_count--;
	sq->state = CTRL_SQ_NONE;
	sq->ring = NULL;
	if (sq->cids)
		memset(sq->cids, 0, CTRL_CID_WORDS * sizeof(*sq->cids));
	fth_store_relaxed_sys32(sq->doorbell, 0);
}

void fth_ctrl_cq_open(struct fth_nvme_ctrl *ctrl, uint16_t id, uint32_t size, uint32_t vector,
		      void *ring)
{
	struct ctrl_cq *cq = &ctrl->cqs[id];

	*cq = (struct ctrl_cq){
		.phase = 1,
		.bad_head = NO_VALUE,
		.exists = true,
		.size = size,
		.vector = vector,
		.ring = ring,
		.doorbell = doorbell(ctrl, id, true),
	};
	fth_store_relaxed_sys32(cq->doorbell, 0);
}

void fth_ctrl_cq_close(struct ctrl_cq *cq)
{
	if (!cq->exists)
		return;
	cq->exists = false;
	cq->ring = NULL;
	fth_store_relaxed_sys32(cq->doorbell, 0);
}

/* ---- doorbells ---- */

void fth_ctrl_doorbell_event(struct fth_nvme_ctrl *ctrl, enum fth_nvme_event_error kind)
{
	fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_BAD_DOORBELLS, 1);
	fth_or_acqrel_dev32(&ctrl->events, 1u << kind);
	fth_ctrl_attention(ctrl);
}

/*
 * Doorbells of queues that are not there were rung: take the values out and tell it. world is
 * held, so no queue appears meanwhile.
 */
unsigned fth_ctrl_doorbells_stray(struct fth_nvme_ctrl *ctrl)
{
	unsigned found = 0;

	for (uint32_t id = 0; id <= ctrl->io_queues; id++) {
		uint32_t *pair = doorbell(ctrl, id, false);

		if (ctrl->sqs[id].state == CTRL_SQ_NONE && fth_load_relaxed_sys32(&pair[0]))
			found += fth_xchg_acqrel_sys32(&pair[0], 0) != 0;
		if (!ctrl->cqs[id].exists && fth_load_relaxed_sys32(&pair[1]))
			found += fth_xchg_acqrel_sys32(&pair[1], 0) != 0;
	}
	if (found)
		fth_ctrl_doorbell_event(ctrl, FTH_NVME_EVENT_DOORBELL_REGISTER);
	return found;
}

/* ---- submission queues ---- */

/* A look without the lock: there may be something to fetch. */
bool fth_ctrl_sq_rung(const struct ctrl_sq *sq)
{
	uint32_t tail = fth_load_relaxed_sys32(sq->doorbell);

	return tail != fth_load_relaxed_dev32(&sq->head) &&
	       tail != fth_load_relaxed_dev64(&sq->bad_tail);
}

/* How many entries wait. The queue's lock is held. */
uint32_t fth_ctrl_sq_pending(struct fth_nvme_ctrl *ctrl, struct ctrl_sq *sq)
{
	/* acquire: the entries are read after the doorbell that announces them. */
	uint32_t tail = fth_load_acquire_sys32(sq->doorbell);

	if (tail != sq->last_tail) {
		sq->last_tail = tail;
		fth_stats_add(ctrl->stats, FTH_NVME_CTRL_STAT_DOORBELLS, 1);
	}
	if (tail >= sq->size) {
		if (tail != sq->bad_tail)
			fth_ctrl_doorbell_event(ctrl, FTH_NVME_EVENT_DOORBELL_VALUE);
		fth_store_relaxed_dev64(&sq->bad_tail, tail);
		return 0;
	}
	if (sq->bad_tail != NO_VALUE)
		fth_store_relaxed_dev64(&sq->bad_tail, NO_VALUE);
	return tail >= sq->head ? tail - sq->head : tail + sq->size - sq->head;
}

uint32_t fth_ctrl_sq_after(const struct ctrl_sq *sq, uint32_t position)
{
	return position + 1 == sq->size ? 0 : position + 1;
}

void fth_ctrl_sq_copy(const struct ctrl_sq *sq, uint32_t position, struct fth_nvme_sqe *to)
{
	memcpy(to, &sq->ring[position], sizeof(*to));
}

/* ---- completion queues ---- */

void fth_ctrl_cq_lock(struct ctrl_cq *cq)
{
	struct fth_backoff backoff = {0};

	/* Ends: a holder only posts to or reserves in this ring, and waits for nothing. */
	while (!fth_ctrl_try_lock(&cq->lock))
		fth_backoff_pause(&backoff);
}

/* Take the host's head into account. The lock is held. */
static void read_head(struct fth_nvme_ctrl *ctrl, struct ctrl_cq *cq)
{
	/* acquire: the host has read the entries it gives back before we write them again. */
	uint32_t head = fth_load_acquire_sys32(cq->doorbell);
	uint32_t consumed;

	if (head == cq->head || head == cq->bad_head)
		return;
	consumed = head >= cq->head ? head - cq->head : head + cq->size - cq->head;
	if (head >= cq->size || consumed > cq->used) {
		cq->bad_head = head;
		fth_ctrl_doorbell_event(ctrl, FTH_NVME_EVENT_DOORBELL_VALUE);
		return;
	}
	cq->bad_head = NO_VALUE;
	cq->head = head;
	cq->used -= consumed;
}

/* Reserve up to `wanted` slots; says how many there were. */
uint32_t fth_ctrl_cq_reserve(struct fth_nvme_ctrl *ctrl, struct ctrl_cq *cq, uint32_t wanted)
{
	uint32_t room;

	fth_ctrl_cq_lock(cq);
	read_head(ctrl, cq);
	room = cq->size - 1 - cq->used - cq->reserved;
	if (wanted > room)
		wanted = room;
	cq->reserved += wanted;
	fth_ctrl_unlock(&cq->lock);
	return wanted;
}

/* Post into a reserved slot. The lock is held. */
void fth_ctrl_cq_post(struct ctrl_cq *cq, const struct ctrl_sq *sq, uint16_t cid, uint16_t status,
		      uint32_t result)
{
	struct fth_nvme_cqe *cqe = &cq->ring[cq->tail];
	/*
	 * acquire: the entries up to this head were copied, by whichever worker, before the host
	 * can learn that their slots are its own again. Under the lock, so that the heads which
	 * the host sees never go back.
	 */
	uint32_t head = fth_load_acquire_dev32(&sq->head);

	cqe->result = result;
	cqe->reserved = 0;
	cqe->queue = head | (uint32_t)sq->id << 16;
	/* release: the rest of the entry, and the data it tells of, are there before the phase. */
	fth_store_release_sys32(&cqe->info,
				fth_nvme_cqe_info(cid, cq->phase, fth_ctrl_status_field(status)));
	if (++cq->tail == cq->size) {
		cq->tail = 0;
		cq->phase ^= 1;
	}
	cq->reserved--;
	cq->used++;
}

/* ---- interrupts ---- */

int fth_nvme_ctrl_set_vector(struct fth_nvme_ctrl *ctrl, unsigned vector, int fd)
{
	if (vector > ctrl->io_queues)
		return fth_fail(EINVAL,
				"interrupt vector %u is out of range: the controller has %u",
				vector, ctrl->io_queues + 1);
	/* Exclusive: a completion that was posted without the interrupt is there for a look. */
	pthread_rwlock_wrlock(&ctrl->world);
	ctrl->vector_fds[vector] = fd;
	pthread_rwlock_unlock(&ctrl->world);
	return 0;
}

unsigned fth_nvme_ctrl_vectors(const struct fth_nvme_ctrl *ctrl)
{
	return ctrl->io_queues + 1;
}

void fth_ctrl_interrupt(const struct fth_nvme_ctrl *ctrl, const struct ctrl_cq *cq)
{
	int fd = cq->vector == CTRL_NO_VECTOR ? -1 : ctrl->vector_fds[cq->vector];
	const uint64_t one = 1;

	/* It fails only when the counter is full, and then an interrupt waits to be read. */
	if (fd >= 0)
		(void)!write(fd, &one, sizeof(one));
}
