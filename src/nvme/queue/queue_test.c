/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pair, one step at a time, against a controller played by hand. */
#include "queue_fixture.h"

#include <errno.h>

static uint32_t submit(struct fake *f, uint32_t tag)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_READ, .nsid = 1, .cdw10 = tag};
	uint32_t id = fth_nvme_qp_take(&f->qp, tag);

	assert_int_not_equal(id, FTH_NVME_NO_ID);
	fth_nvme_qp_put(&f->qp, id, &command);
	fth_nvme_qp_ring(&f->qp);
	return id;
}

static void assert_done(struct fake *f, uint32_t id, uint16_t status, uint32_t result)
{
	struct fth_nvme_done done;

	assert_int_equal(fth_nvme_qp_wait(&f->qp, id, fth_deadline_ns(1000000000), &done), 0);
	assert_int_equal(done.status, status);
	assert_int_equal(done.result, result);
}

static uint32_t free_ids(struct fake *f)
{
	uint32_t n = 0;

	for (uint32_t w = 0; w < (f->qp.ids + 31) / 32; w++)
		n += (uint32_t)__builtin_popcount(f->qp.free_ids[w].bits);
	return n;
}

static void a_command_travels_whole(void **state)
{
	struct fake f;
	const struct fth_nvme_sqe *seen;
	uint32_t id;

	(void)state;
	fake_open(&f, 3, 0);
	assert_null(fake_fetch(&f));
	id = submit(&f, 77);
	seen = fake_fetch(&f);
	assert_non_null(seen);
	assert_int_equal(seen->cid, id);
	assert_int_equal(seen->cdw10, 77);
	fake_post(&f, seen->cid, FTH_NVME_LBA_RANGE, 5);
	assert_done(&f, id, FTH_NVME_LBA_RANGE, 5);
	assert_int_equal(free_ids(&f), 7);
	assert_int_equal(f.cq_doorbell, 1);
	fake_close(&f);
}

/* Out of order, through many wraps of every ring size and of the 32-bit ticket. */
static void rings_wrap(void **state)
{
	(void)state;
	for (uint32_t shift = 1; shift <= 5; shift++) {
		struct fake f;
		uint32_t ids[32], size = fth_ring_size(shift), cids[32];

		fake_open(&f, shift, 0);
		/* Begin shortly before the wrap, as if 2^32 - 2 * size commands had passed. */
		f.sq_head = f.qp.ticket = f.qp.tail = f.qp.sq_head = 0u - 2 * size;
		f.cq_tail = f.qp.cq_head = 0u - 2 * size;
		for (uint32_t i = 0; i < size; i++)
			f.qp.mark[i] = i - 3 * size;
		for (uint32_t round = 0; round < 50; round++) {
			uint32_t n = 1 + round % (size - 1);

			for (uint32_t i = 0; i < n; i++)
				ids[i] = submit(&f, round * 100 + i);
			for (uint32_t i = 0; i < n; i++) {
				const struct fth_nvme_sqe *seen = fake_fetch(&f);

				assert_non_null(seen);
				assert_int_equal(seen->cdw10, round * 100 + i);
				cids[i] = seen->cid;
			}
			assert_null(fake_fetch(&f));
			for (uint32_t i = n; i-- > 0;) {
				assert_false(fake_cq_full(&f));
				fake_post(&f, (uint16_t)cids[i], 0, round + i);
			}
			for (uint32_t i = 0; i < n; i++)
				assert_done(&f, ids[i], 0, round + i);
		}
		assert_int_equal(free_ids(&f), size - 1);
		fake_close(&f);
	}
}

static void a_ring_of_n_holds_n_less_one(void **state)
{
	struct fth_nvme_qp_setup setup = {.sq_shift = 2, .cq_shift = 2, .ids = 4};
	struct fth_nvme_qp qp;
	struct fake f;

	(void)state;
	assert_int_equal(fth_nvme_qp_init(&qp, &setup), -EINVAL);
	setup = (struct fth_nvme_qp_setup){.sq_shift = 17, .cq_shift = 2};
	assert_int_equal(fth_nvme_qp_init(&qp, &setup), -EINVAL);
	fake_open(&f, 2, 0);
	for (uint32_t i = 0; i < 3; i++)
		submit(&f, i);
	assert_int_equal(fth_nvme_qp_take(&f.qp, 0), FTH_NVME_NO_ID);
	assert_int_equal(fth_nvme_qp_take_wait(&f.qp, 0, fth_deadline_ns(1000)), -ETIME);
	assert_int_equal(f.sq_doorbell, 3);
	fake_close(&f);
}

static void one_ring_serves_a_batch(void **state)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_READ};
	struct fake f;

	(void)state;
	fake_open(&f, 6, 0);
	for (uint32_t i = 0; i < 40; i++)
		fth_nvme_qp_put(&f.qp, fth_nvme_qp_take(&f.qp, i), &command);
	assert_int_equal(f.sq_doorbell, 0);
	fth_nvme_qp_ring(&f.qp);
	assert_int_equal(f.sq_doorbell, 40);
	assert_int_equal(f.qp.sq_doorbell_writes, 1);
	fake_close(&f);
}

static void a_late_answer_is_dropped_and_its_buffer_kept(void **state)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_READ};
	struct fth_nvme_done done;
	struct fth_nvme_ref ref;
	const struct fth_nvme_sqe *seen;
	struct fake f;
	uint32_t other;
	uint16_t late;

	(void)state;
	fake_open(&f, 2, 0);
	assert_int_equal(fth_nvme_qp_exec(&f.qp, &command, 0, fth_deadline_ns(1000), &done, &ref),
			 -ETIME);
	seen = fake_fetch(&f);
	assert_non_null(seen);
	late = seen->cid;
	assert_int_equal(late, ref.id);
	assert_false(fth_nvme_qp_settled(&f.qp, ref));
	/* the queue goes on with the ids that are left */
	for (uint32_t i = 0; i < 20; i++) {
		other = submit(&f, i);
		assert_int_not_equal(other, late);
		seen = fake_fetch(&f);
		fake_post(&f, seen->cid, 0, i);
		assert_done(&f, other, 0, i);
	}
	assert_false(fth_nvme_qp_settled(&f.qp, ref));
	assert_int_equal(free_ids(&f), 2);
	fake_post(&f, late, 0, 0);
	assert_int_equal(fth_nvme_qp_poll(&f.qp), 1);
	assert_true(fth_nvme_qp_settled(&f.qp, ref));
	assert_int_equal(free_ids(&f), 3);
	fake_close(&f);
}

static void abandoning_a_done_command_returns_its_result(void **state)
{
	struct fth_nvme_done done;
	struct fake f;
	uint32_t id;

	(void)state;
	fake_open(&f, 2, 0);
	id = submit(&f, 1);
	fake_post(&f, fake_fetch(&f)->cid, 0, 9);
	fth_nvme_qp_poll(&f.qp);
	assert_int_equal(fth_nvme_qp_abandon(&f.qp, id, &done), 0);
	assert_int_equal(done.result, 9);
	assert_int_equal(free_ids(&f), 3);
	fake_close(&f);
}

static void cancel_ends_waits_and_reset_makes_new(void **state)
{
	struct fth_nvme_done done;
	struct fake f;
	uint32_t id[2], left;

	(void)state;
	fake_open(&f, 3, 0);
	assert_int_equal(fth_nvme_qp_reset(&f.qp), -EINVAL); /* nothing has failed */
	for (uint32_t round = 0; round < 5; round++) {
		id[0] = submit(&f, 0);
		id[1] = submit(&f, 1);
		left = submit(&f, 2);
		assert_int_equal(fth_nvme_qp_abandon(&f.qp, left, &done), -ETIME);
		fake_post(&f, fake_fetch(&f)->cid, 0, 4);
		fth_nvme_qp_poll(&f.qp);
		fth_nvme_qp_cancel(&f.qp, ECANCELED);
		fth_nvme_qp_cancel(&f.qp, EIO); /* the first error stays */
		assert_int_equal(fth_nvme_qp_take(&f.qp, 0), FTH_NVME_NO_ID);
		assert_int_equal(fth_nvme_qp_take_wait(&f.qp, 0, FTH_NEVER), -ECANCELED);
		assert_int_equal(fth_nvme_qp_reset(&f.qp), -EBUSY);
		assert_int_equal(fth_nvme_qp_wait(&f.qp, id[0], FTH_NEVER, &done), 0);
		assert_int_equal(done.result, 4);
		assert_int_equal(fth_nvme_qp_reset(&f.qp), -EBUSY);
		assert_int_equal(fth_nvme_qp_wait(&f.qp, id[1], FTH_NEVER, &done), -ECANCELED);
		fake_disable(&f);
		assert_int_equal(fth_nvme_qp_reset(&f.qp), 0);
		assert_int_equal(fth_nvme_qp_take(&f.qp, 0), FTH_NVME_NO_ID);
		fth_nvme_qp_resume(&f.qp);
		assert_int_equal(free_ids(&f), 7);
		id[0] = submit(&f, 3);
		fake_post(&f, fake_fetch(&f)->cid, 0, 6);
		assert_done(&f, id[0], 0, 6);
	}
	fake_close(&f);
}

/* Each lie must fail the queue pair with EPROTO, and give nobody a wrong answer. */
static void a_lying_controller_is_caught(void **state)
{
	(void)state;
	for (unsigned lie = 0; lie < 7; lie++) {
		struct fth_nvme_done done;
		struct fake f;
		uint32_t id, other;

		fake_open(&f, 2, 0);
		id = submit(&f, 0);
		other = submit(&f, 1);
		fake_fetch(&f);
		fake_fetch(&f);
		if (lie == 0)
			fake_post(&f, 3, 0, 0); /* no such id */
		if (lie == 1)
			fake_post(&f, 2, 0, 0); /* not in flight */
		if (lie == 2)
			fake_post_head(&f, (uint16_t)id, 0, 0, 3); /* head beyond the tail */
		if (lie == 3)
			fake_post_head(&f, (uint16_t)other, 0, 0, 1); /* not past its command */
		if (lie == 4) {
			fake_post(&f, (uint16_t)other, 0, 0); /* twice */
			fake_post(&f, (uint16_t)other, 0, 0);
		}
		if (lie == 5) {
			fake_post(&f, (uint16_t)id, 0, 0);
			f.cq[0].queue ^= 1u << 16; /* another submission queue */
		}
		if (lie == 6) {
			fake_post(&f, (uint16_t)id, 0, 0);
			f.cq[0].queue |= 1u << 2; /* a head outside the ring */
		}
		assert_int_equal(fth_nvme_qp_wait(&f.qp, id, FTH_NEVER, &done), -EPROTO);
		assert_int_equal(fth_nvme_qp_failed(&f.qp), -EPROTO);
		fake_close(&f);
	}
}

static void status_becomes_errno_in_one_place(void **state)
{
	(void)state;
	assert_int_equal(fth_nvme_status_errno(FTH_NVME_SUCCESS), 0);
	assert_int_equal(fth_nvme_status_errno(FTH_NVME_LBA_RANGE), -ERANGE);
	assert_int_equal(fth_nvme_status_errno(FTH_NVME_LBA_RANGE | FTH_NVME_STATUS_DO_NOT_RETRY),
			 -ERANGE);
	for (uint32_t status = 1; status <= FTH_NVME_STATUS_CODE_MASK; status++)
		assert_true(fth_nvme_status_errno(status) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_travels_whole),
		cmocka_unit_test(rings_wrap),
		cmocka_unit_test(a_ring_of_n_holds_n_less_one),
		cmocka_unit_test(one_ring_serves_a_batch),
		cmocka_unit_test(a_late_answer_is_dropped_and_its_buffer_kept),
		cmocka_unit_test(abandoning_a_done_command_returns_its_result),
		cmocka_unit_test(cancel_ends_waits_and_reset_makes_new),
		cmocka_unit_test(a_lying_controller_is_caught),
		cmocka_unit_test(status_becomes_errno_in_one_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
