/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the kernel's answers become results: short transfers, calls to try again, ways to zero,
 * failed flushes. The kernel is played by the test, since a real one gives such answers rarely.
 */
#include "fth_test.h"

#include "dev/file/dev_file.h"

#include <errno.h>
#include <linux/falloc.h>
#include <string.h>

static char bytes[4 * 4096];
static struct dev_file file;
static struct chan_ring ring;
static struct chan_file *const chan = &ring.file;
static struct io_uring_sqe sqe;

static int fresh(void **state)
{
	(void)state;
	memset(&file, 0, sizeof(file));
	memset(&ring, 0, sizeof(ring));
	file.dev.info.block = 1;
	file.zeroes = bytes;
	chan->chan.dev = &file.dev;
	chan->fd = 7;
	return 0;
}

static void begin(struct fth_dev_req *req)
{
	memset(&sqe, 0xff, sizeof(sqe));
	req->result = 1;
	req->scratch[0] = 0;
	chan_ring_prepare(&ring, &sqe, req);
	assert_ptr_equal((void *)(uintptr_t)sqe.user_data, req);
	assert_int_equal(sqe.fd, 7);
}

static void goes_on(struct fth_dev_req *req, int answer)
{
	assert_false(dev_file_req_answer(&file, req, answer));
	chan_ring_prepare(&ring, &sqe, req);
}

static void ends(struct fth_dev_req *req, int answer, int result)
{
	assert_true(dev_file_req_answer(&file, req, answer));
	assert_int_equal(req->result, result);
}

static void entry_is(int opcode, const void *addr, unsigned len, uint64_t offset)
{
	assert_int_equal(sqe.opcode, opcode);
	assert_ptr_equal((void *)(uintptr_t)sqe.addr, addr);
	assert_int_equal(sqe.len, len);
	assert_int_equal(sqe.off, offset);
}

static void a_short_read_is_continued(void **state)
{
	struct fth_dev_req req;

	(void)state;
	fth_dev_req_init(&req, FTH_DEV_READ, bytes, 4096, 8192);
	begin(&req);
	entry_is(IORING_OP_READ, bytes, 4096, 8192);
	goes_on(&req, 1000);
	entry_is(IORING_OP_READ, bytes + 1000, 3096, 9192);
	goes_on(&req, 3000);
	entry_is(IORING_OP_READ, bytes + 4000, 96, 12192);
	ends(&req, 96, 0);
}

static void a_short_vector_goes_on_piece_by_piece(void **state)
{
	struct iovec pieces[3] = {{bytes, 512}, {bytes + 4096, 1024}, {bytes + 8192, 512}};
	struct fth_dev_req req;

	(void)state;
	fth_dev_req_init(&req, FTH_DEV_WRITE, bytes, 2048, 0);
	req.iov = pieces;
	req.iov_count = 3;
	begin(&req);
	entry_is(IORING_OP_WRITEV, pieces, 3, 0);
	goes_on(&req, 512); /* the boundary between two pieces */
	entry_is(IORING_OP_WRITE, bytes + 4096, 1024, 512);
	goes_on(&req, 24); /* inside one */
	entry_is(IORING_OP_WRITE, bytes + 4096 + 24, 1000, 536);
	goes_on(&req, 1000);
	entry_is(IORING_OP_WRITE, bytes + 8192, 512, 1536);
	ends(&req, 512, 0);
}

static void the_end_of_the_file_is_an_error(void **state)
{
	struct fth_dev_req req;

	(void)state;
	fth_dev_req_init(&req, FTH_DEV_READ, bytes, 4096, 0);
	begin(&req);
	goes_on(&req, 100);
	ends(&req, 0, -EIO);

	/* Direct I/O can not go on inside a block. */
	file.direct = true;
	file.dev.info.block = 512;
	begin(&req);
	goes_on(&req, 1024);
	ends(&req, 100, -EIO);
}

static void the_kernel_may_ask_for_another_attempt(void **state)
{
	static const int again[] = {-EAGAIN, -EINTR, -ECANCELED};
	struct fth_dev_req req;

	(void)state;
	for (int op = 0; op < FTH_DEV_OP_COUNT; op++) {
		for (unsigned i = 0; i < 3; i++) {
			fth_dev_req_init(&req, (enum fth_dev_op)op, bytes, 4096, 0);
			begin(&req);
			goes_on(&req, again[i]);
			ends(&req, -ENOSPC, -ENOSPC);
		}
		file.flush_error = 0;
	}
	fth_dev_req_init(&req, FTH_DEV_READ, bytes, 4096, 0);
	begin(&req);
	goes_on(&req, 512);
	goes_on(&req, -EAGAIN); /* what was done stays done */
	entry_is(IORING_OP_READ, bytes + 512, 3584, 512);
}

static void zeroing_falls_back_and_remembers(void **state)
{
	struct fth_dev_req one, two;
	uint64_t length = FILE_ZEROES_BYTES + 4096;

	(void)state;
	fth_dev_req_init(&one, FTH_DEV_ZERO, NULL, length, 0);
	fth_dev_req_init(&two, FTH_DEV_ZERO, NULL, 4096, 0);
	begin(&one);
	assert_int_equal(sqe.opcode, IORING_OP_FALLOCATE);
	assert_int_equal(sqe.len, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
	begin(&two);
	goes_on(&one, -EOPNOTSUPP);
	assert_int_equal(sqe.len, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
	goes_on(&two, -EOPNOTSUPP); /* the same discovery twice is one step */
	assert_int_equal(sqe.opcode, IORING_OP_FALLOCATE);
	ends(&two, 0, 0);

	goes_on(&one, -EOPNOTSUPP);
	entry_is(IORING_OP_WRITE, bytes, FILE_ZEROES_BYTES, 0);
	goes_on(&one, FILE_ZEROES_BYTES);
	entry_is(IORING_OP_WRITE, bytes, 4096, FILE_ZEROES_BYTES);
	ends(&one, 4096, 0);
	begin(&two);
	assert_int_equal(sqe.opcode, IORING_OP_WRITE);
	ends(&two, -EIO, -EIO);
}

static void a_block_device_is_not_punched_to_zero_it(void **state)
{
	struct fth_dev_req req;

	(void)state;
	file.is_block_device = true;
	fth_dev_req_init(&req, FTH_DEV_ZERO, NULL, 4096, 0);
	begin(&req);
	goes_on(&req, -EOPNOTSUPP);
	assert_int_equal(sqe.opcode, IORING_OP_WRITE);
}

static void a_discard_is_a_hint(void **state)
{
	struct fth_dev_req req;

	(void)state;
	fth_dev_req_init(&req, FTH_DEV_DISCARD, NULL, 4096, 0);
	begin(&req);
	ends(&req, -EOPNOTSUPP, 0);
	begin(&req);
	ends(&req, -EIO, -EIO);
}

static void a_failed_flush_is_never_forgotten(void **state)
{
	struct fth_dev_req req;

	(void)state;
	fth_dev_req_init(&req, FTH_DEV_FLUSH, NULL, 0, 0);
	assert_int_equal(dev_file_req_refusal(&file, &req), 0);
	begin(&req);
	assert_int_equal(sqe.opcode, IORING_OP_FSYNC);
	assert_int_equal(sqe.fsync_flags, IORING_FSYNC_DATASYNC);
	ends(&req, -EIO, -EIO);
	assert_int_equal(dev_file_req_refusal(&file, &req), -EIO);
	begin(&req); /* one that was in flight already */
	ends(&req, -ENOSPC, -ENOSPC);
	assert_int_equal(dev_file_req_refusal(&file, &req), -EIO);
}

static void flushes_share_the_work(void **state)
{
	struct fth_dev_req reqs[5];

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		fth_dev_req_init(&reqs[i], FTH_DEV_FLUSH, NULL, 0, 0);
	assert_true(chan_file_flush_begin(chan, &reqs[0]));
	for (unsigned i = 1; i < 4; i++)
		assert_false(chan_file_flush_begin(chan, &reqs[i]));
	chan_file_flush_end(chan, 0);
	assert_ptr_equal(file_list_pop(&chan->again), &reqs[1]); /* goes for 2 and 3 as well */
	assert_null(file_list_pop(&chan->again));
	assert_null(file_list_pop(&chan->done)); /* the first result says nothing about them */
	assert_int_equal(chan->flush.parked, 2);
	assert_false(chan_file_flush_begin(chan, &reqs[4])); /* too late to ride */

	file.flush_error = EIO;
	chan_file_flush_end(chan, -EIO);
	for (unsigned i = 2; i < 5; i++) {
		assert_ptr_equal(file_list_pop(&chan->done), &reqs[i]);
		assert_int_equal(reqs[i].result, -EIO);
	}
	assert_null(file_list_pop(&chan->again));
	assert_int_equal(chan->flush.parked, 0);
	assert_false(chan->flush.active);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_short_read_is_continued),
		TEST(a_short_vector_goes_on_piece_by_piece),
		TEST(the_end_of_the_file_is_an_error),
		TEST(the_kernel_may_ask_for_another_attempt),
		TEST(zeroing_falls_back_and_remembers),
		TEST(a_block_device_is_not_punched_to_zero_it),
		TEST(a_discard_is_a_hint),
		TEST(a_failed_flush_is_never_forgotten),
		TEST(flushes_share_the_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
