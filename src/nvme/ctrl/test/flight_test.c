/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands in flight on a device that takes its time: reset, deletion, abort, revoke. */
#include "fth_test.h"

#include "nvme/ctrl/test/held_fixture.h"
#include "nvme/ctrl/test/ctrl_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH	    16u
#define POISON	    0xa5
#define READY(host) (fth_nvme_ctrl_read32((host)->ctrl, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_READY)

static struct host host;
static char *pages;

static int setup(void **state)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	struct fth_dev *dev;

	(void)state;
	held_setup();
	opts.threads = 0;
	opts.depth = DEPTH;
	assert_ok(fth_dev_open("held:1M?max=4096", &dev));
	host_open(&host, dev, &opts);
	host_enable(&host, 32);
	assert_int_equal(host_create_cq(&host, 1, 64), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 64), FTH_NVME_SUCCESS);
	pages = host_pages(&host, 16);
	memset(pages, POISON, 16 * HOST_PAGE);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	host_down(&host);
	return 0;
}

static void push_read(uint16_t cid, uint32_t page, uint32_t blocks)
{
	uint64_t at = host_iova(&host, pages + page * HOST_PAGE);
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_READ, 0, blocks, at, at + HOST_PAGE);

	sqe.cid = cid;
	host_push(&host, 1, &sqe);
}

static void start_reads(uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		push_read(i, i % 16, 8);
	host_ring(&host, 1);
	host_settle(&host);
}

static uint16_t status_of(struct fth_nvme_cqe cqe)
{
	return fth_nvme_cqe_status(cqe.info) & FTH_NVME_STATUS_CODE_MASK;
}

static void a_reset_waits_for_the_device(void **state)
{
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	start_reads(4);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC, 0);
	host_settle(&host);
	assert_true(READY(&host)); /* the device may still write to our pages */
	held.let_go = 3;
	host_settle(&host);
	assert_true(READY(&host));
	held.let_go = 1;
	host_settle(&host);
	assert_false(READY(&host));
	assert_false(host_poll(&host, 1, &cqe)); /* they were dropped */
	memset(pages, POISON, 16 * HOST_PAGE);
	held.hold = false;
	host_settle(&host);
	for (unsigned i = 0; i < 16 * HOST_PAGE; i++)
		assert_int_equal((uint8_t)pages[i], POISON);
	host_enable(&host, 16);
	assert_int_equal(host_create_cq(&host, 1, 4), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&host, 1, 1, 4), FTH_NVME_SUCCESS);
	push_read(0, 0, 8); /* the ids of the dropped ones are free */
	host_ring(&host, 1);
	assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_SUCCESS);
}

static void a_quick_enable_after_a_reset_waits_too(void **state)
{
	uint32_t cc = fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_CC);

	(void)state;
	held.hold = true;
	start_reads(2);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC, 0);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC, cc);
	host_settle(&host);
	held.hold = false;
	host_settle(&host);
	assert_true(READY(&host));
	host.sq[0].tail = 0; /* the rings begin again */
	host.cq[0] = (struct host_cq){.ring = host.cq[0].ring, .size = 32, .phase = 1};
	memset(host.cq[0].ring, 0, 32 * sizeof(struct fth_nvme_cqe));
	assert_int_equal(host_create_cq(&host, 1, 4), FTH_NVME_SUCCESS);
}

static void a_deletion_waits_for_commands_in_flight(void **state)
{
	struct fth_nvme_sqe delete = {.opcode = FTH_NVME_DELETE_SQ, .cdw10 = 1, .cid = 500};
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	start_reads(DEPTH + 4); /* four are still in the ring */
	host_push(&host, 0, &delete);
	host_ring(&host, 0);
	host_settle(&host);
	assert_false(host_poll(&host, 0, &cqe));
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1),
			 FTH_NVME_QUEUE_DELETION_INVALID);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_SQ, 1), FTH_NVME_QID_INVALID);
	held.let_go = DEPTH;
	host_settle(&host);
	for (unsigned i = 0; i < DEPTH; i++) /* all there before the answer */
		assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_SUCCESS);
	assert_false(host_poll(&host, 1, &cqe));
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 500);
	assert_int_equal(status_of(cqe), FTH_NVME_SUCCESS);
	assert_int_equal(host_delete(&host, FTH_NVME_DELETE_CQ, 1), FTH_NVME_SUCCESS);
}

static void a_stuck_device_does_not_stop_the_admin_queue(void **state)
{
	struct fth_nvme_sqe get = {.opcode = FTH_NVME_GET_FEATURES, .cdw10 = FTH_NVME_FEAT_POWER};

	(void)state;
	held.hold = true;
	start_reads(DEPTH);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(host_run(&host, 0, &get, NULL), FTH_NVME_SUCCESS);
}

static void commands_complete_out_of_order(void **state)
{
	struct fth_nvme_sqe bad = host_rw(0x7f, 0, 1, 0, 0);
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	push_read(1, 0, 8);
	bad.cid = 2;
	host_push(&host, 1, &bad);
	host_ring(&host, 1);
	cqe = host_wait(&host, 1);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 2);
	assert_int_equal(status_of(cqe), FTH_NVME_INVALID_OPCODE);
	held.hold = false;
	cqe = host_wait(&host, 1);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 1);
	assert_int_equal(status_of(cqe), FTH_NVME_SUCCESS);
}

static void a_command_id_in_flight_conflicts(void **state)
{
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	push_read(7, 0, 8);
	push_read(7, 1, 8);
	push_read(7, 2, 8);
	host_ring(&host, 1);
	for (unsigned i = 0; i < 2; i++) {
		cqe = host_wait(&host, 1);
		assert_int_equal(fth_nvme_cqe_cid(cqe.info), 7);
		assert_int_equal(status_of(cqe), FTH_NVME_CID_CONFLICT);
	}
	held.hold = false;
	assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_SUCCESS);
	push_read(7, 0, 8);
	host_ring(&host, 1);
	assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_SUCCESS);
}

/* ---- revoke ---- */

static void memory_in_use_can_not_be_revoked(void **state)
{
	const uint64_t other = 0x900000000ull;
	struct fth_nvme_sqe sqe = host_rw(FTH_NVME_READ, 0, 8, other, 0);
	char *mine = NULL;

	(void)state;
	assert_int_equal(posix_memalign((void **)&mine, HOST_PAGE, HOST_PAGE), 0);
	assert_ok(fth_nvme_ctrl_grant(host.ctrl, mine, HOST_PAGE, other));
	assert_int_equal(fth_nvme_ctrl_revoke(host.ctrl, HOST_IOVA, HOST_ARENA_PAGES * HOST_PAGE),
			 -EBUSY); /* queues */
	held.hold = true;
	host_push(&host, 1, &sqe);
	host_ring(&host, 1);
	host_settle(&host);
	assert_int_equal(fth_nvme_ctrl_revoke(host.ctrl, other, HOST_PAGE), -EBUSY);
	held.hold = false;
	assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_SUCCESS);
	assert_ok(fth_nvme_ctrl_revoke(host.ctrl, other, HOST_PAGE));
	free(mine);
	assert_int_equal(host_run(&host, 1, &sqe, NULL), FTH_NVME_DATA_TRANSFER_ERROR);
}

/* ---- abort ---- */

static struct fth_nvme_sqe abort_of(uint16_t target, uint16_t cid)
{
	return (struct fth_nvme_sqe){
		.opcode = FTH_NVME_ABORT, .cid = cid, .cdw10 = 1 | (uint32_t)target << 16};
}

static void a_command_still_in_its_ring_is_aborted(void **state)
{
	struct fth_nvme_sqe abort = abort_of(DEPTH + 1, 900);
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	start_reads(DEPTH + 3);
	host_push(&host, 0, &abort);
	host_ring(&host, 0);
	host_settle(&host);
	assert_false(host_poll(&host, 0, &cqe));
	held.hold = false;
	for (uint16_t i = 0; i < DEPTH + 3; i++) {
		cqe = host_wait(&host, 1);
		assert_int_equal(status_of(cqe), fth_nvme_cqe_cid(cqe.info) == DEPTH + 1
							 ? FTH_NVME_ABORT_REQUESTED
							 : FTH_NVME_SUCCESS);
	}
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 900);
	assert_int_equal(cqe.result, 0);
}

static void aborts_have_a_limit(void **state)
{
	struct fth_nvme_sqe abort;
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	start_reads(DEPTH + 6);
	for (uint16_t i = 0; i < 4; i++) {
		abort = abort_of((uint16_t)(DEPTH + i), (uint16_t)(900 + i));
		host_push(&host, 0, &abort);
	}
	host_ring(&host, 0);
	host_settle(&host);
	assert_false(host_poll(&host, 0, &cqe));
	abort = abort_of(DEPTH + 4, 0);
	assert_int_equal(host_run(&host, 0, &abort, NULL), FTH_NVME_ABORT_LIMIT);
	held.hold = false;
	for (uint16_t i = 0; i < 4; i++)
		assert_int_equal(host_wait(&host, 0).result, 0);
	for (uint16_t i = 0; i < DEPTH + 6; i++)
		host_wait(&host, 1);
}

static void a_deleted_queue_ends_its_aborts(void **state)
{
	struct fth_nvme_sqe abort = abort_of(DEPTH, 900);
	struct fth_nvme_sqe delete = {.opcode = FTH_NVME_DELETE_SQ, .cdw10 = 1, .cid = 901};
	struct fth_nvme_cqe cqe;

	(void)state;
	held.hold = true;
	start_reads(DEPTH + 1);
	host_push(&host, 0, &abort);
	host_push(&host, 0, &delete);
	host_ring(&host, 0);
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 900);
	assert_int_equal(cqe.result, 1); /* not aborted */
	held.hold = false;
	cqe = host_wait(&host, 0);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 901);
}

static void a_long_command_stops_between_two_requests(void **state)
{
	struct fth_nvme_sqe abort = abort_of(3, 900);
	uint32_t result;

	(void)state;
	held.hold = true;
	push_read(3, 0, 16); /* two requests of 4 KiB, one after the other */
	host_ring(&host, 1);
	host_settle(&host);
	assert_int_equal(held.seen, 1);
	assert_int_equal(host_run(&host, 0, &abort, &result), FTH_NVME_SUCCESS);
	assert_int_equal(result, 1); /* no promise */
	held.hold = false;
	assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_ABORT_REQUESTED);
	assert_int_equal(held.seen, 1);
}

/* A second host on the same device, with rings of 64 entries; the device holds what it gets. */
static void open_wide(struct host *wide)
{
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;

	opts.threads = 0;
	opts.depth = 32;
	host_open(wide, host.dev, &opts);
	host_enable(wide, 8);
	assert_int_equal(host_create_cq(wide, 1, 64), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(wide, 1, 1, 64), FTH_NVME_SUCCESS);
	held.hold = true;
	held.seen = 0;
}

/* More comparisons than bounce buffers, were they more than the depth; and one that waits. */
static void a_waiting_command_is_aborted(void **state)
{
	struct fth_nvme_sqe sqe, abort = abort_of(16, 900);
	struct fth_nvme_cqe cqe;
	struct host wide;
	uint32_t result;

	(void)state;
	open_wide(&wide);
	sqe = host_rw(FTH_NVME_COMPARE, 0, 8, host_iova(&wide, host_pages(&wide, 1)), 0);
	for (sqe.cid = 0; sqe.cid < 20; sqe.cid++)
		host_push(&wide, 1, &sqe);
	host_ring(&wide, 1);
	host_settle(&wide);
	assert_int_equal(held.seen, 16); /* bounce buffers */
	assert_int_equal(host_run(&wide, 0, &abort, &result), FTH_NVME_SUCCESS);
	assert_int_equal(result, 0);
	cqe = host_wait(&wide, 1);
	assert_int_equal(fth_nvme_cqe_cid(cqe.info), 16);
	assert_int_equal(status_of(cqe), FTH_NVME_ABORT_REQUESTED);
	held.hold = false;
	for (unsigned i = 0; i < 19; i++)
		assert_int_equal(status_of(host_wait(&wide, 1)), FTH_NVME_SUCCESS);
	host_close(&wide);
}

/* ---- waiting for the device ---- */

/* A reset while some commands wait for a bounce buffer, and then a free with some on the device. */
static void a_reset_drops_waiting_commands(void **state)
{
	struct fth_nvme_sqe sqe;
	struct host wide;

	(void)state;
	open_wide(&wide);
	sqe = host_rw(FTH_NVME_COMPARE, 0, 8, host_iova(&wide, host_pages(&wide, 1)), 0);
	for (sqe.cid = 0; sqe.cid < 40; sqe.cid++)
		host_push(&wide, 1, &sqe);
	host_ring(&wide, 1);
	host_settle(&wide);
	fth_nvme_ctrl_write32(wide.ctrl, FTH_NVME_REG_CC, 0);
	held.let_go = 15; /* of 16 */
	host_settle(&wide);
	assert_true(READY(&wide));
	held.let_go = 1;
	host_settle(&wide);
	assert_false(READY(&wide)); /* those that waited need not be waited for */
	host_enable(&wide, 8);
	assert_int_equal(host_create_cq(&wide, 1, 64), FTH_NVME_SUCCESS);
	assert_int_equal(host_create_sq(&wide, 1, 1, 64), FTH_NVME_SUCCESS);
	host_push(&wide, 1, &sqe);
	host_ring(&wide, 1);
	host_settle(&wide);
	host_close(&wide);
}

static void a_device_that_has_no_room_is_asked_again(void **state)
{
	struct fth_nvme_cqe cqe;

	(void)state;
	held.refuse = EAGAIN;
	start_reads(3);
	assert_false(host_poll(&host, 1, &cqe));
	held.refuse = 0;
	for (uint16_t i = 0; i < 3; i++)
		assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_SUCCESS);
	held.refuse = EAGAIN;
	start_reads(3);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC, 0);
	assert_false(READY(&host)); /* they never reached the device */
}

static void a_device_that_refuses_fails_the_command(void **state)
{
	(void)state;
	held.refuse = ENODEV;
	start_reads(3);
	for (uint16_t i = 0; i < 3; i++)
		assert_int_equal(status_of(host_wait(&host, 1)), FTH_NVME_INTERNAL_ERROR);
	fth_nvme_ctrl_write32(host.ctrl, FTH_NVME_REG_CC,
			      fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_CC) |
				      1u << FTH_NVME_CC_SHUTDOWN_SHIFT);
	host_settle(&host);
	assert_true(fth_nvme_ctrl_read32(host.ctrl, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_FATAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_reset_waits_for_the_device),
		TEST(a_quick_enable_after_a_reset_waits_too),
		TEST(a_deletion_waits_for_commands_in_flight),
		TEST(a_stuck_device_does_not_stop_the_admin_queue),
		TEST(commands_complete_out_of_order),
		TEST(a_command_id_in_flight_conflicts),
		TEST(memory_in_use_can_not_be_revoked),
		TEST(a_command_still_in_its_ring_is_aborted),
		TEST(aborts_have_a_limit),
		TEST(a_deleted_queue_ends_its_aborts),
		TEST(a_long_command_stops_between_two_requests),
		TEST(a_waiting_command_is_aborted),
		TEST(a_reset_drops_waiting_commands),
		TEST(a_device_that_has_no_room_is_asked_again),
		TEST(a_device_that_refuses_fails_the_command),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
