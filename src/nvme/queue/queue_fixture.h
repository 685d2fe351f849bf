/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of the queue pair: both rings in plain memory and a controller played by hand, one
 * step at a time, which can also be told to lie.
 */
#ifndef FTH_NVME_QUEUE_FIXTURE_H
#define FTH_NVME_QUEUE_FIXTURE_H

#include "fth_test.h"

#include "fathom/detail/nvme/queue.h"

#include <stdlib.h>
#include <string.h>

struct fake {
	struct fth_nvme_qp qp;
	struct fth_nvme_sqe *sq;
	struct fth_nvme_cqe *cq;
	void *memory;
	uint32_t sq_doorbell, cq_doorbell;
	uint32_t sq_head, cq_tail; /* the controller's own, as tickets */
};

static inline void fake_open(struct fake *f, uint32_t shift, uint32_t ids)
{
	struct fth_nvme_qp_setup setup = {
		.sq_shift = shift, .cq_shift = shift, .ids = ids, .qid = 1};

	memset(f, 0, sizeof(*f));
	f->sq = aligned_alloc(4096, 65536 * sizeof(*f->sq));
	f->cq = aligned_alloc(4096, 65536 * sizeof(*f->cq));
	f->memory = aligned_alloc(64, (fth_nvme_qp_memory(shift, 65535) + 63) / 64 * 64);
	setup.sq = f->sq;
	setup.cq = f->cq;
	setup.memory = f->memory;
	setup.sq_doorbell = &f->sq_doorbell;
	setup.cq_doorbell = &f->cq_doorbell;
	assert_int_equal(fth_nvme_qp_init(&f->qp, &setup), 0);
}

static inline void fake_close(struct fake *f)
{
	free(f->sq);
	free(f->cq);
	free(f->memory);
}

/* The next submitted command, or NULL. */
static inline const struct fth_nvme_sqe *fake_fetch(struct fake *f)
{
	uint32_t position = fth_ring_position(f->sq_head, f->qp.sq_shift);

	if (position == fth_load_acquire_sys32(&f->sq_doorbell))
		return NULL;
	f->sq_head++;
	return &f->sq[position];
}

static inline bool fake_cq_full(struct fake *f)
{
	return fth_ring_position(f->cq_tail + 1, f->qp.cq_shift) ==
	       fth_load_acquire_sys32(&f->cq_doorbell);
}

static inline void fake_post_head(struct fake *f, uint16_t cid, uint16_t status, uint32_t result,
				  uint32_t sq_head)
{
	struct fth_nvme_cqe *entry = &f->cq[fth_ring_position(f->cq_tail, f->qp.cq_shift)];
	uint32_t phase = fth_ring_phase(f->cq_tail, f->qp.cq_shift);

	f->cq_tail++;
	entry->result = result;
	entry->queue = f->qp.qid << 16 | fth_ring_position(sq_head, f->qp.sq_shift);
	fth_store_release_sys32(&entry->info, fth_nvme_cqe_info(cid, phase, status));
}

static inline void fake_post(struct fake *f, uint16_t cid, uint16_t status, uint32_t result)
{
	fake_post_head(f, cid, status, result, f->sq_head);
}

/* Forget everything, as a deleted queue or a disabled controller does. */
static inline void fake_disable(struct fake *f)
{
	f->sq_head = f->cq_tail = 0;
	f->sq_doorbell = f->cq_doorbell = 0;
}

#endif
