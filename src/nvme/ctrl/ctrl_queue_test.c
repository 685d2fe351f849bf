/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings: wrap-around, phases, full completion queues, shared ones, bad doorbells. */
#include "fth_test.h"

#include "nvme/ctrl/test/ctrl_fixture.h"

#include "fathom/base/rng.h"

#include <string.h>

#define FLUSH(id) ((struct fth_nvme_sqe){.opcode = FTH_NVME_FLUSH, .nsid = 1, .cid = (id)})

static struct host host;

static void open_bare(void)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_dev *dev;

	opts.threads = 0;
	assert_ok(fth_dev_open("mem:64K", &dev));
	host_open(&host, dev, &opts);
	host_enable(&host, 8);
}

static void push_flush(uint16_t qid, uint16_t cid)
{
	struct fth_nvme_sqe sqe = FLUSH(cid);

	host_push(&host, qid, &sqe);
}

static uint32_t room(uint16_t qid)
{
	const struct host_sq *sq = &host.sq[qid];

	return sq->size - 1 - (sq->tail + sq->size - sq->head) % sq->size;
}

/*
 * Random bursts through rings of these sizes: every command is answered exactly once, and in
 * order of submission, since the medium completes at once.
 */
static void turn_rings(uint32_t sq_size, uint32_t cq_size, uint32_t commands)
{
	struct fth_rng rng = {.state = sq_size * 1000 + cq_size};
	uint32_t sent = 0, answered = 0;
	struct fth_nvme_cqe cqe;

	open_bare();
	assert_int_equal(host_create_cq(&host, 1, cq_size), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, sq_size), FTH_NVME_SUCCESS);
	while (answered < commands) {
		uint64_t burst = fth_rng_below(&rng, sq_size) + 1;

		for (; burst > 0 && sent < commands && room(1) > 0; burst--)
			push_flush(1, (uint16_t)sent++);
		host_ring(&host, 1);
		if (fth_rng_below(&rng, 4))
			host_settle(&host);
		else
			fth_nvme_ctrl_step(host.ctrl);
		for (burst = fth_rng_below(&rng, 2 * cq_size); burst > 0; burst--) {
			if (!host_poll(&host, 1, &cqe))
				break;
			assert_int_equal(fth_nvme_cqe_cid(cqe.info), (uint16_t)answered++);
			assert_int_equal(fth_nvme_cqe_status(cqe.info), FTH_NVME_SUCCESS);
		}
		host_consume(&host, 1);
	}
	host_settle(&host);
	assert_false(host_poll(&host, 1, &cqe));
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_FLUSHES), commands);
	assert_int_equal(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_BAD_DOORBELLS), 0);
	host_down(&host);
}

static void rings_of_all_sizes_turn_many_times(void **state)
{
	(void)state;
	for (uint32_t size = 2; size <= 64; size++)
		turn_rings(size, size, 10 * size);
	turn_rings(2, 64, 300);
	turn_rings(64, 2, 300);
	turn_rings(17, 5, 300);
	turn_rings(5, 17, 300);
}

static void a_full_completion_queue_holds_back(void **state)
{
	struct fth_nvme_cqe cqe;

	(void)state;
	open_bare();
	assert_int_equal(host_create_cq(&host, 1, 4), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 16), FTH_NVME_SUCCESS);
	for (uint16_t i = 0; i < 10; i++)
		push_flush(1, i);
	host_ring(&host, 1);
	host_settle(&host);
	for (uint16_t i = 0; i < 3; i++) { /* a ring of 4 holds 3 */
		assert_true(host_poll(&host, 1, &cqe));
		assert_int_equal(fth_nvme_cqe_cid(cqe.info), i);
	}
	host_settle(&host);
	assert_false(host_poll(&host, 1, &cqe));
	for (uint16_t i = 3; i < 10; i++) {
		host_consume(&host, 1);
		host_settle(&host);
		assert_true(host_poll(&host, 1, &cqe));
		assert_int_equal(fth_nvme_cqe_cid(cqe.info), i);
	}
	host_down(&host);
}

/* One host that does not consume must not stop another one, nor the admin queue. */
static void a_full_completion_queue_is_its_own_affair(void **state)
{
	struct fth_nvme_sqe flush = FLUSH(0);

	(void)state;
	open_bare();
	assert_int_equal(host_create_cq(&host, 1, 2), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 512), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_cq(&host, 2, 4), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 2, 2, 4), FTH_NVME_SUCCESS);
	for (uint16_t i = 0; i < 511; i++)
		push_flush(1, i);
	host_ring(&host, 1);
	host_settle(&host);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(host_run(&host, 2, &flush, NULL), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_cq(&host, 3, 4), FTH_NVME_SUCCESS);
	host_down(&host);
}

static void queues_share_a_completion_queue(void **state)
{
	uint32_t next[4] = {0}, sent[4] = {0}, answered = 0;
	struct fth_rng rng = {.state = 3};
	struct fth_nvme_cqe cqe;

	(void)state;
	open_bare();
	assert_int_equal(host_create_cq(&host, 1, 5), FTH_NVME_SUCCESS);
	for (uint16_t q = 1; q <= 3; q++)
		assert_int_equal(host_create_sq(&host, q, 1, 2 + q * 3), FTH_NVME_SUCCESS);
	while (answered < 2000) {
		uint16_t q = (uint16_t)(1 + fth_rng_below(&rng, 3));

		while (room(q) > 0 && fth_rng_below(&rng, 3))
			push_flush(q, (uint16_t)sent[q]++);
		host_ring(&host, q);
		fth_nvme_ctrl_step(host.ctrl);
		while (fth_rng_below(&rng, 4) && host_poll(&host, 1, &cqe)) {
			q = (uint16_t)(cqe.queue >> 16);
			assert_int_equal(fth_nvme_cqe_cid(cqe.info), (uint16_t)next[q]++);
			answered++;
		}
		host_consume(&host, 1);
	}
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1),
			 FTH_NVME_QUEUE_DELETION_INVALID);
	host_down(&host);
}

static void bad_completion_heads_are_ignored(void **state)
{
	static const uint32_t bad[] = {3, 4, 100, 0xffffffff, 0x80000000};
	struct fth_nvme_cqe cqe;
	unsigned seen = 0;

	(void)state;
	open_bare();
	assert_int_equal(host_create_cq(&host, 1, 4), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 16), FTH_NVME_SUCCESS);
	push_flush(1, 0);
	push_flush(1, 1);
	host_ring(&host, 1);
	host_settle(&host); /* two posted: heads 0, 1 and 2 can be */
	for (uint16_t i = 2; i < 9; i++)
		push_flush(1, i);
	for (unsigned i = 0; i < 5; i++) {
		fth_store_release_sys32(&host.doorbells[3], bad[i]);
		host_ring(&host, 1);
		host_settle(&host);
	}
	while (host_poll(&host, 1, &cqe))
		assert_int_equal(fth_nvme_cqe_cid(cqe.info), seen++);
	assert_int_equal(seen, 3); /* no more than the ring holds */
	assert_true(fth_nvme_ctrl_stat(host.ctrl, FTH_NVME_CTRL_STAT_BAD_DOORBELLS) >= 5);
	for (; seen < 9; seen++) { /* and with a good one it goes on */
		host_consume(&host, 1);
		host_settle(&host);
		assert_true(host_poll(&host, 1, &cqe));
		assert_int_equal(fth_nvme_cqe_cid(cqe.info), seen);
	}
	host_down(&host);
}

/* A tail that runs past the head is a legal value: old entries are taken again, and no harm. */
static void any_tail_is_survived(void **state)
{
	struct fth_rng rng = {.state = 11};
	struct fth_nvme_cqe cqe;

	(void)state;
	open_bare();
	assert_int_equal(host_create_cq(&host, 1, 64), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 16), FTH_NVME_SUCCESS);
	for (uint16_t i = 0; i < 16; i++)
		push_flush(1, i);
	for (unsigned i = 0; i < 5000; i++) {
		fth_store_release_sys32(&host.doorbells[2],
					fth_rng_below(&rng, 8) ? (uint32_t)fth_rng_below(&rng, 20)
							       : (uint32_t)fth_rng_next(&rng));
		fth_nvme_ctrl_step(host.ctrl);
		while (host_poll(&host, 1, &cqe))
			assert_int_equal(fth_nvme_cqe_status(cqe.info), FTH_NVME_SUCCESS);
		host_consume(&host, 1);
	}
	host_down(&host);
}

static void a_full_admin_queue_holds_back_too(void **state)
{
	struct fth_nvme_sqe get = {.opcode = FTH_NVME_GET_FEATURES, .cdw10 = FTH_NVME_FEAT_POWER};
	struct fth_nvme_sqe event = {.opcode = FTH_NVME_ASYNC_EVENT, .cid = 100};
	struct fth_nvme_cqe cqe;

	(void)state;
	open_bare(); /* 8 entries */
	host_push(&host, 0, &event);
	for (get.cid = 0; get.cid < 6; get.cid++)
		host_push(&host, 0, &get);
	host_ring(&host, 0);
	host_settle(&host);
	host.sq[0].head = 7;
	for (; get.cid < 9; get.cid++)
		host_push(&host, 0, &get);
	host_ring(&host, 0);
	fth_store_release_sys32(&host.doorbells[2 * 9], 1); /* an event, with no room for it */
	for (unsigned i = 0; i < 50; i++)
		fth_nvme_ctrl_step(host.ctrl);
	for (unsigned i = 0; i < 10; i++) {
		cqe = host_wait(&host, 0);
		assert_int_equal(fth_nvme_cqe_status(cqe.info), FTH_NVME_SUCCESS);
	}
	host_settle(&host);
	assert_false(host_poll(&host, 0, &cqe));
	host_down(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rings_of_all_sizes_turn_many_times),
		cmocka_unit_test(a_full_completion_queue_holds_back),
		cmocka_unit_test(a_full_completion_queue_is_its_own_affair),
		cmocka_unit_test(queues_share_a_completion_queue),
		cmocka_unit_test(bad_completion_heads_are_ignored),
		cmocka_unit_test(any_tail_is_survived),
		cmocka_unit_test(a_full_admin_queue_holds_back_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
