/* SPDX-License-Identifier: BSD-2-Clause */
/* The controller with workers of its own, and hosts on several threads. */
#include "fth_test.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS	 4u
#define ENTRIES	 16u
#define REGION	 64u /* blocks that belong to one host */
#define BLOCK	 512u
#define COMMANDS 3000u
#define WAIT_NS	 200000000000ull

static void write_then_read(struct host *host, uint16_t qid, char *page, uint64_t block)
{
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_WRITE, block, 8, host_iova(host, page), 0);

	memset(page, (int)block, HOST_PAGE);
	assert_int_equal(host_run(host, qid, &sqe, NULL), FTH_NVME_SUCCESS);
	memset(page, 0xee, HOST_PAGE);
	sqe = host_rw(FTH_NVME_READ, block, 8, host_iova(host, page), 0);
	assert_int_equal(host_run(host, qid, &sqe, NULL), FTH_NVME_SUCCESS);
	for (unsigned i = 0; i < HOST_PAGE; i++)
		assert_int_equal((uint8_t)page[i], (uint8_t)block);
}

static void one_host_reads_what_it_wrote(void **state)
{
	struct fth_nvme_sqe flush = {.opcode = FTH_NVME_FLUSH, .nsid = 1};
	struct fth_dev *dev;
	struct host host;
	char *page;

	(void)state;
	assert_ok(fth_dev_open("mem:1M", &dev));
	host_open(&host, dev, NULL);
	host_enable(&host, 16);
	assert_int_equal(host_create_cq(&host, 1, 16), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 16), FTH_NVME_SUCCESS);
	page = host_pages(&host, 1);
	for (uint64_t i = 0; i < 50; i++)
		write_then_read(&host, 1, page, i * 8);
	assert_int_equal(host_run(&host, 1, &flush, NULL), FTH_NVME_SUCCESS);
	host_down(&host);
}

/* ---- several hosts ---- */

struct crew {
	struct host *host;
	uint16_t qid;
	char *pages; /* one per entry of the ring */
	uint64_t first;
	uint32_t bad; /* completions that were not as they should be */
};

struct slot {
	bool busy;
	uint8_t opcode;
	uint32_t block;
	uint32_t generation; /* of what it writes, or of what it must read */
};

static void stamp(char *page, uint32_t block, uint32_t generation)
{
	for (unsigned i = 0; i < BLOCK / 8; i++)
		((uint64_t *)page)[i] = (uint64_t)block << 32 | generation;
}

static bool stamped(const char *page, uint32_t block, uint32_t generation)
{
	for (unsigned i = 0; i < BLOCK / 8; i++)
		if (((const uint64_t *)page)[i] != ((uint64_t)block << 32 | generation))
			return false;
	return true;
}

/* Start a command on a block that no other one in flight uses. */
static void start(struct crew *crew, struct slot *slots, uint32_t *generations, uint16_t cid,
		  struct fth_rng *rng)
{
	struct slot *slot = &slots[cid];
	char *page = crew->pages + (size_t)cid * HOST_PAGE;
	struct fth_nvme_sqe sqe;

	do {
		slot->block = (uint32_t)fth_rng_below(rng, REGION / ENTRIES) * ENTRIES + cid;
	} while (slot->block >= REGION);
	slot->busy = true;
	slot->opcode = fth_rng_below(rng, 2) ? FTH_NVME_WRITE : FTH_NVME_READ;
	if (slot->opcode == FTH_NVME_WRITE) {
		slot->generation = ++generations[slot->block];
		stamp(page, slot->block, slot->generation);
	} else {
		slot->generation = generations[slot->block];
		memset(page, 0xee, BLOCK);
	}
	sqe = host_rw(slot->opcode, crew->first + slot->block, 1, host_iova(crew->host, page), 0);
	sqe.cid = cid;
	host_push(crew->host, crew->qid, &sqe);
}

/* Take one completion; false when there is none. No assertions: this is not the main thread. */
static bool finish(struct crew *crew, struct slot *slots)
{
	struct host_cq *cq = &crew->host->cq[crew->qid];
	struct fth_nvme_cqe *cqe = &cq->ring[cq->head];
	uint32_t info = fth_load_acquire_sys32(&cqe->info);
	uint16_t cid = fth_nvme_cqe_cid(info);
	struct slot *slot;

	if (fth_nvme_cqe_phase(info) != cq->phase)
		return false;
	if (++cq->head == cq->size) {
		cq->head = 0;
		cq->phase ^= 1;
	}
	if (cid >= ENTRIES || !slots[cid].busy || fth_nvme_cqe_status(info)) {
		crew->bad++;
		return true;
	}
	slot = &slots[cid];
	slot->busy = false;
	if (slot->opcode == FTH_NVME_READ && slot->generation &&
	    !stamped(crew->pages + (size_t)cid * HOST_PAGE, slot->block, slot->generation))
		crew->bad++;
	return true;
}

static void *work(void *arg)
{
	struct crew *crew = arg;
	struct slot slots[ENTRIES] = {0};
	uint32_t generations[REGION] = {0}, sent = 0, done = 0;
	struct fth_rng rng = {.state = crew->qid};
	uint64_t deadline = fth_deadline_ns(WAIT_NS);
	struct fth_backoff backoff = {0};

	while (done < COMMANDS && !crew->bad) {
		uint32_t before = done;

		for (uint16_t cid = 0; cid < ENTRIES - 1 && sent < COMMANDS; cid++) {
			if (slots[cid].busy)
				continue;
			start(crew, slots, generations, cid, &rng);
			sent++;
		}
		host_ring(crew->host, crew->qid);
		while (finish(crew, slots))
			done++;
		host_consume(crew->host, crew->qid);
		if (done != before)
			backoff = (struct fth_backoff){0};
		else if (fth_backoff_expired(&backoff, deadline))
			crew->bad++;
	}
	return NULL;
}

static void open_threaded(struct host *host, uint32_t threads)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_dev *dev;

	opts.threads = threads;
	opts.depth = 32;
	assert_ok(fth_dev_open("mem:1M", &dev));
	host_open(host, dev, &opts);
	host_enable(host, 16);
}

static void run_crews(struct host *host)
{
	struct crew crews[HOSTS];
	pthread_t threads[HOSTS];

	for (uint16_t i = 0; i < HOSTS; i++) {
		crews[i] = (struct crew){.host = host,
					 .qid = (uint16_t)(i + 1),
					 .pages = host_pages(host, ENTRIES),
					 .first = i * REGION};
		assert_int_equal(host_create_cq(host, crews[i].qid, ENTRIES), FTH_NVME_SUCCESS);
		assert_int_equal(host_create_sq(host, crews[i].qid, crews[i].qid, ENTRIES),
				 FTH_NVME_SUCCESS);
	}
	for (unsigned i = 0; i < HOSTS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &crews[i]), 0);
	for (unsigned i = 0; i < HOSTS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(crews[i].bad, 0);
	}
}

static void four_hosts_and_one_worker(void **state)
{
	struct host host;

	(void)state;
	open_threaded(&host, 1);
	run_crews(&host);
	host_down(&host);
}

static void four_hosts_and_three_workers(void **state)
{
	struct host host;

	(void)state;
	open_threaded(&host, 3);
	run_crews(&host);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_READS) +
				 fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_WRITES),
			 HOSTS * COMMANDS);
	host_down(&host);
}

/* Queues come and go, memory is granted and revoked, while others work. */
static void *disturb(void *arg)
{
	struct host *host = arg;
	char *memory = NULL;

	if (posix_memalign((void **)&memory, HOST_PAGE, HOST_PAGE) != 0)
		return "memory";
	for (unsigned i = 0; i < 200; i++) {
		if (fth_nvme_ctrl_grant(host->ctrl, memory, HOST_PAGE, 0x10000) != 0 ||
		    fth_nvme_ctrl_revoke(host->ctrl, 0x10000, HOST_PAGE) != 0) {
			free(memory);
			return "grant";
		}
		fth_nvme_ctrl_step(host->ctrl);
		sched_yield();
	}
	free(memory);
	return NULL;
}

static void the_world_changes_under_load(void **state)
{
	pthread_t thread;
	struct host host;
	void *failure;

	(void)state;
	open_threaded(&host, 2);
	assert_int_equal(pthread_create(&thread, NULL, disturb, &host), 0);
	run_crews(&host);
	for (unsigned i = 0; i < 20; i++) {
		uint32_t mark = host.next_page;

		assert_int_equal(host_create_cq(&host, 7, 4), FTH_NVME_SUCCESS);
		assert_int_equal(host_create_sq(&host, 7, 7, 4), FTH_NVME_SUCCESS);
		assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 7), FTH_NVME_SUCCESS);
		assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 7), FTH_NVME_SUCCESS);
		host.next_page = mark;
	}
	pthread_join(thread, &failure);
	assert_null(failure);
	host_down(&host);
}

static void wait_for_csts(struct host *host, uint32_t mask, uint32_t value)
{
	uint64_t deadline = fth_deadline_ns(WAIT_NS);
	struct fth_backoff backoff = {0};

	while ((fth_nvme_ctrl_read32(host->ctrl, FTH_NVME_REG_CSTS) & mask) != value)
		assert_false(fth_backoff_expired(&backoff, deadline));
}

static void a_reset_under_load_leaves_memory_alone(void **state)
{
	struct host host;
	char *pages;

	(void)state;
	open_threaded(&host, 2);
	for (unsigned turn = 0; turn < 10; turn++) {
		struct fth_nvme_sqe sqe;

		if (turn > 0)
			host_enable(&host, 16);
		assert_int_equal(host_create_cq(&host, 1, 64), FTH_NVME_SUCCESS);
		assert_int_equal(host_create_sq(&host, 1, 1, 64), FTH_NVME_SUCCESS);
		pages = host_pages(&host, 63);
		sqe = host_rw(FTH_NVME_READ, 0, 8, host_iova(&host, pages), 0);
		for (sqe.cid = 0; sqe.cid < 63; sqe.cid++, sqe.prp1 += HOST_PAGE)
			host_push(&host, 1, &sqe);
		host_ring(&host, 1);
		fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC, 0);
		wait_for_csts(&host, FTH_NVME_CSTS_READY, 0);
		memset(pages, 0x55, 63 * HOST_PAGE); /* a race, were it still being written */
		memset(host.cq[1].ring, 0, 64 * sizeof(struct fth_nvme_cqe));
		sched_yield();
		for (unsigned i = 0; i < 63 * HOST_PAGE; i++)
			assert_int_equal(pages[i], 0x55);
		host.next_page = 0;
	}
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC, 1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	wait_for_csts(&host, FTH_NVME_CSTS_SHUTDOWN_MASK, 2u << FTH_NVME_CSTS_SHUTDOWN_SHIFT);
	host_down(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_reads_what_it_wrote),
		cmocka_unit_test(four_hosts_and_one_worker),
		cmocka_unit_test(four_hosts_and_three_workers),
		cmocka_unit_test(the_world_changes_under_load),
		cmocka_unit_test(a_reset_under_load_leaves_memory_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
