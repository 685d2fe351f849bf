/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include "nvme/ctrl/ctrl_internal.h"

#include "fathom/hd/wait.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_NS 200000000000ull /* for controllers with workers; only a hang takes this long */

void host_open(struct host *host, struct fth_dev *dev, const struct fth_nvme_ctrl_options *opts)
{
	void *arena = NULL;

	memset(host, 0, sizeof(*host));
	host->dev = dev;
	host->threads = opts ? opts->threads > 0 : true;
	assert_ok(fth_nvme_ctrl_new(dev, opts, &host->ctrl));
	assert_int_equal(posix_memalign(&arena, HOST_PAGE, HOST_ARENA_PAGES * HOST_PAGE), 0);
	memset(arena, 0, HOST_ARENA_PAGES * HOST_PAGE);
	host->arena = arena;
	assert_ok(fth_nvme_ctrl_grant(host->ctrl, arena, HOST_ARENA_PAGES * HOST_PAGE, HOST_IOVA));
	host->doorbells = fth_nvme_ctrl_doorbells(host->ctrl);
}

void host_close(struct host *host)
{
	assert_ok(fth_ctrl_check(host->ctrl));
	fth_nvme_ctrl_free(host->ctrl);
	free(host->arena);
}

void *host_pages(struct host *host, uint32_t n)
{
	char *pages = host->arena + (size_t)host->next_page * HOST_PAGE;

	assert_true(host->next_page + n <= HOST_ARENA_PAGES);
	host->next_page += n;
	memset(pages, 0, (size_t)n * HOST_PAGE);
	return pages;
}

uint64_t host_iova(const struct host *host, const void *p)
{
	return HOST_IOVA + (uint64_t)((const char *)p - host->arena);
}

static uint32_t pages_for(size_t bytes)
{
	return (uint32_t)((bytes + HOST_PAGE - 1) / HOST_PAGE);
}

static void open_sq(struct host *host, uint16_t id, uint16_t cq, uint32_t entries)
{
	struct fth_nvme_sqe *ring = host_pages(host, pages_for(entries * sizeof(*ring)));

	host->sq[id] = (struct host_sq){.ring = ring, .size = entries, .cq = cq};
}

static void open_cq(struct host *host, uint16_t id, uint32_t entries)
{
	struct fth_nvme_cqe *ring = host_pages(host, pages_for(entries * sizeof(*ring)));

	host->cq[id] = (struct host_cq){.ring = ring, .size = entries, .phase = 1};
}

void host_enable(struct host *host, uint32_t entries)
{
	open_sq(host, 0, 0, entries);
	open_cq(host, 0, entries);
	fth_nvme_ctrl_write32(host->ctrl, FTH_NVME_REG_AQA,
			      (entries - 1) | (entries - 1) << FTH_NVME_AQA_ACQS_SHIFT);
	fth_nvme_ctrl_write64(host->ctrl, FTH_NVME_REG_ASQ, host_iova(host, host->sq[0].ring));
	fth_nvme_ctrl_write64(host->ctrl, FTH_NVME_REG_ACQ, host_iova(host, host->cq[0].ring));
	fth_nvme_ctrl_write32(host->ctrl, FTH_NVME_REG_CC,
			      FTH_NVME_CC_ENABLE | 6u << FTH_NVME_CC_SQES_SHIFT |
				      4u << FTH_NVME_CC_CQES_SHIFT);
	assert_int_equal(fth_nvme_ctrl_read32(host->ctrl, FTH_NVME_REG_CSTS), FTH_NVME_CSTS_READY);
}

void host_up(struct host *host, const char *uri, uint32_t entries)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_dev *dev;

	opts.threads = 0;
	assert_ok(fth_dev_open(uri, &dev));
	host_open(host, dev, &opts);
	host_enable(host, 32);
	assert_int_equal(host_create_cq(host, 1, entries), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(host, 1, 1, entries), FTH_NVME_SUCCESS);
}

void host_down(struct host *host)
{
	host_close(host);
	fth_dev_close(host->dev);
}

void host_settle(struct host *host)
{
	unsigned steps = 0;

	while (fth_nvme_ctrl_step(host->ctrl) > 0)
		assert_true(++steps < HOST_STEPS);
	assert_ok(fth_ctrl_check(host->ctrl));
}

/* ---- rings ---- */

void host_push(struct host *host, uint16_t qid, const struct fth_nvme_sqe *sqe)
{
	struct host_sq *sq = &host->sq[qid];

	sq->ring[sq->tail] = *sqe;
	sq->tail = (sq->tail + 1) % sq->size;
}

void host_ring(struct host *host, uint16_t qid)
{
	fth_store_release_sys32(&host->doorbells[2 * qid], host->sq[qid].tail);
}

void host_consume(struct host *host, uint16_t cqid)
{
	fth_store_release_sys32(&host->doorbells[2 * cqid + 1], host->cq[cqid].head);
}

bool host_poll(struct host *host, uint16_t cqid, struct fth_nvme_cqe *out)
{
	struct host_cq *cq = &host->cq[cqid];
	struct fth_nvme_cqe *cqe = &cq->ring[cq->head];
	uint32_t info = fth_load_acquire_sys32(&cqe->info);
	uint16_t sqid;

	if (fth_nvme_cqe_phase(info) != cq->phase)
		return false;
	*out = *cqe;
	out->info = info;
	sqid = (uint16_t)(out->queue >> 16);
	assert_true(sqid < HOST_QUEUES);
	assert_int_equal(host->sq[sqid].cq, cqid);
	assert_true(fth_nvme_cqe_sq_head(out->queue) < host->sq[sqid].size);
	assert_int_equal(out->reserved, 0);
	host->sq[sqid].head = fth_nvme_cqe_sq_head(out->queue);
	if (++cq->head == cq->size) {
		cq->head = 0;
		cq->phase ^= 1;
	}
	return true;
}

struct fth_nvme_cqe host_wait(struct host *host, uint16_t cqid)
{
	uint64_t deadline = fth_deadline_ns(WAIT_NS);
	struct fth_backoff backoff = {0};
	struct fth_nvme_cqe cqe = {0};
	unsigned steps = 0;

	while (!host_poll(host, cqid, &cqe)) {
		if (host->threads)
			assert_false(fth_backoff_expired(&backoff, deadline));
		else if (fth_nvme_ctrl_step(host->ctrl) == 0)
			assert_true(++steps < HOST_STEPS);
	}
	host_consume(host, cqid);
	return cqe;
}

uint16_t host_run(struct host *host, uint16_t qid, struct fth_nvme_sqe *sqe, uint32_t *result)
{
	struct fth_nvme_cqe cqe;

	sqe->cid = host->next_cid++;
	host_push(host, qid, sqe);
	host_ring(host, qid);
	cqe = host_wait(host, host->sq[qid].cq);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), sqe->cid);
	assert_int_equal(cqe.queue >> 16, qid);
	if (result)
		*result = cqe.result;
	return fth_nvme_cqe_status(cqe.info) & FTH_NVME_STATUS_CODE_MASK;
}

/* ---- commands ---- */

uint16_t host_create_cq(struct host *host, uint16_t id, uint32_t entries)
{
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_CREATE_CQ};

	open_cq(host, id, entries);
	sqe.prp1 = host_iova(host, host->cq[id].ring);
	sqe.cdw10 = id | (entries - 1) << FTH_NVME_CREATE_SIZE_SHIFT;
	sqe.cdw11 = FTH_NVME_CREATE_CONTIGUOUS;
	return host_run(host, 0, &sqe, NULL);
}

uint16_t host_create_sq(struct host *host, uint16_t id, uint16_t cq, uint32_t entries)
{
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_CREATE_SQ};

	open_sq(host, id, cq, entries);
	sqe.prp1 = host_iova(host, host->sq[id].ring);
	sqe.cdw10 = id | (entries - 1) << FTH_NVME_CREATE_SIZE_SHIFT;
	sqe.cdw11 = FTH_NVME_CREATE_CONTIGUOUS | (uint32_t)cq << FTH_NVME_CREATE_SQ_CQID_SHIFT;
	return host_run(host, 0, &sqe, NULL);
}

uint16_t host_delete(struct host *host, enum fth_nvme_admin_opcode opcode, uint16_t id)
{
	struct fth_nvme_sqe sqe = {.opcode = (uint8_t)opcode, .cdw10 = id};

	return host_run(host, 0, &sqe, NULL);
}

struct fth_nvme_sqe host_rw(uint8_t opcode, uint64_t first, uint32_t blocks, uint64_t prp1,
			    uint64_t prp2)
{
	return (struct fth_nvme_sqe){
		.opcode = opcode,
		.nsid = 1,
		.prp1 = prp1,
		.prp2 = prp2,
		.cdw10 = (uint32_t)first,
		.cdw11 = (uint32_t)(first >> 32),
		.cdw12 = blocks - 1,
	};
}
