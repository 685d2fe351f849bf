/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair for warps and the controller for GPU blocks, on CPU threads (warp_fixture.h):
 * warps write and read blocks, and every word is checked. Runs where there is no GPU.
 */
#include "warp_fixture.h"

#include "gpu/drive/ctrl_work.h"
#include "fathom/base/rng.h"
#include "fathom/gpu/io.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

extern "C" {
#include <cmocka.h>
}

#define CLIENTS_MAX 4
#define CTRL_MAX    3
#define PATIENCE    300000000000ull
#define BYTES	    (4u << 20)

struct shape {
	uint32_t shift, ids, clients, ctrl_warps, batch, rounds, blocks, lanes, offset;
	bool late, ordered, mixed;
	uint32_t block_shift = 9;
};

struct bed {
	const struct shape *shape;
	struct fth_gpu_view view;
	struct fth_gpu_order order;
	struct fth_nvme_qp qp;
	struct fth_gpu_ctrl ctrl;
	struct fth_gpu_ctrl_queue queue;
	struct fth_gpu_ctrl_ssd ssd;
	struct fth_gpu_ctrl_control control;
	struct fth_gpu_ctrl_count counts[CTRL_MAX];
	uint32_t late[CTRL_MAX];
	struct shared shared;
	uint32_t doorbells[64];
	void *rings[3];
	char *medium, *memory;
	uint32_t errors, wrong, next_ctrl;
	int last;
};

struct client {
	struct bed *bed;
	uint32_t number;
	pthread_t thread;
};

static uint64_t word_of(uint64_t block, uint32_t i)
{
	return fth_mix64(block) + i;
}

/* Words of a block. */
static uint32_t words_of(const struct shape *s)
{
	return 1u << (s->block_shift - 3);
}

/* ---- the controller ---- */

static void ctrl_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct worker w = {};

	w.ctrl = &me->bed->ctrl;
	w.queue = me->bed->queue;
	w.ssd = &me->bed->ssd;
	w.shared = &me->bed->shared;
	w.lane = lane;
	w.number = me->number;
	work(&w);
}

static void *ctrl_thread(void *arg)
{
	fixture_run_warp(ctrl_lane, arg);
	return NULL;
}

/* ---- clients ---- */

static void note(struct bed *bed, int rc, uint32_t wrong)
{
	fth_add_relaxed_dev32(&bed->wrong, wrong);
	if (rc == 0)
		return;
	fth_add_relaxed_dev32(&bed->errors, 1);
	bed->last = rc;
}

static int transfer(struct client *me, const struct fth_nvme_warp *warp, uint8_t opcode,
		    uint64_t first, void *memory, bool want)
{
	struct fth_gpu_io io = {};

	io.opcode = opcode;
	io.first = first;
	io.blocks = me->bed->shape->blocks;
	io.memory = memory;
	return fth_gpu_io(&me->bed->view, 0, warp, want, &io, me->number,
			  fth_deadline_ns(PATIENCE));
}

static uint32_t mismatches(const uint64_t *words, uint64_t first, uint32_t n, uint32_t each)
{
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < n; i++)
		wrong += __atomic_load_n(&words[i], __ATOMIC_RELAXED) !=
			 word_of(first + i / each, i % each);
	return wrong;
}

/* The first block that a thread uses in a round, and whether it does. */
static uint64_t first_of(const struct shape *s, uint32_t thread, uint32_t round)
{
	return ((uint64_t)round * s->clients * 32 + thread) * s->blocks;
}

static bool wants(const struct shape *s, uint64_t first)
{
	return !s->mixed || fth_mix64(first) % 3;
}

static void client_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	const struct shape *s = me->bed->shape;
	uint32_t thread = me->number * 32 + lane, each = words_of(s), n = s->blocks * each;
	uint64_t *words = (uint64_t *)(me->bed->memory + thread * 8192 + s->offset);
	struct fth_nvme_warp warp;

	if (!(s->lanes & 1u << lane))
		return;
	warp = fth_nvme_warp_of(s->lanes);
	for (uint32_t round = 0; round < s->rounds; round++) {
		uint64_t first = first_of(s, thread, round);
		/* sometimes only some lanes have something to do */
		bool want = wants(s, first);

		for (uint32_t i = 0; i < n; i++)
			words[i] = word_of(first + i / each, i % each);
		note(me->bed, transfer(me, &warp, FTH_NVME_WRITE, first, words, want), 0);
		if (s->late) /* so that the data has arrived: writes have no rule */
			note(me->bed, transfer(me, &warp, FTH_NVME_FLUSH, 0, words, want), 0);
		memset(words, 0, n * 8);
		note(me->bed, transfer(me, &warp, FTH_NVME_READ, first, words, want), 0);
		if (want)
			note(me->bed, 0, mismatches(words, first, n, each));
	}
}

static void *client_thread(void *arg)
{
	fixture_run_warp(client_lane, arg);
	return NULL;
}

/* ---- the test bed ---- */

static void make_bed(struct bed *bed, const struct shape *s)
{
	struct fth_nvme_qp_setup setup = {};
	uint32_t ids = s->ids ? s->ids : fth_nvme_qp_ids_max(s->shift, s->shift);
	size_t size = (size_t)1 << s->shift;

	memset(bed, 0, sizeof(*bed));
	bed->shape = s;
	bed->rings[0] = setup.sq = aligned_alloc(4096, (64 * size + 4095) / 4096 * 4096);
	bed->rings[1] = setup.cq = aligned_alloc(4096, (16 * size + 4095) / 4096 * 4096);
	bed->rings[2] = setup.memory =
		aligned_alloc(64, (fth_nvme_qp_memory(s->shift, ids) + 63) / 64 * 64);
	memset(setup.cq, 0, 16 * size);
	setup.sq_doorbell = &bed->doorbells[0];
	setup.cq_doorbell = &bed->doorbells[32];
	setup.sq_shift = setup.cq_shift = s->shift;
	setup.ids = ids;
	setup.qid = 7;
	assert_int_equal(fth_nvme_qp_init(&bed->qp, &setup), 0);
	bed->medium = (char *)calloc(BYTES, 1);
	bed->memory = (char *)aligned_alloc(4096, CLIENTS_MAX * 32 * 8192);
	bed->queue = {bed->qp.sq, bed->qp.cq,	   setup.sq_doorbell, setup.cq_doorbell,
		      s->shift,	  s->shift, 7, 0};
	bed->ssd.medium = bed->medium;
	bed->ssd.blocks = BYTES >> s->block_shift;
	bed->ctrl.queues = &bed->queue;
	bed->ctrl.ssds = &bed->ssd;
	bed->ctrl.control = &bed->control;
	bed->ctrl.counts = bed->counts;
	bed->ctrl.late = s->late ? bed->late : NULL;
	bed->ctrl.queue_count = 1;
	bed->ctrl.warps = s->ctrl_warps;
	bed->ctrl.batch = s->batch;
	bed->ctrl.block_shift = s->block_shift;
	bed->view.qps = &bed->qp;
	bed->view.order = s->ordered ? &bed->order : NULL;
	bed->view.blocks = bed->ssd.blocks;
	bed->view.block_shift = s->block_shift;
	bed->view.queues = bed->view.ssds = 1;
}

static void release_bed(struct bed *bed)
{
	for (uint32_t i = 0; i < 3; i++)
		free(bed->rings[i]);
	free(bed->medium);
	free(bed->memory);
}

/* Run it: all clients to their end, then stop the controller. */
static void run_bed(struct bed *bed)
{
	struct client clients[CLIENTS_MAX], ctrls[CTRL_MAX];
	const struct shape *s = bed->shape;

	for (uint32_t i = 0; i < s->ctrl_warps; i++) {
		ctrls[i] = {bed, i, 0};
		assert_int_equal(pthread_create(&ctrls[i].thread, NULL, ctrl_thread, &ctrls[i]), 0);
	}
	for (uint32_t i = 0; i < s->clients; i++) {
		clients[i] = {bed, i, 0};
		assert_int_equal(
			pthread_create(&clients[i].thread, NULL, client_thread, &clients[i]), 0);
	}
	for (uint32_t i = 0; i < s->clients; i++)
		pthread_join(clients[i].thread, NULL);
	fth_store_release_dev32(&bed->control.stop, 1);
	for (uint32_t i = 0; i < s->ctrl_warps; i++)
		pthread_join(ctrls[i].thread, NULL);
}

/* Afterwards nothing is left over: all ids free, all heads and tails agree. */
static void check_end(struct bed *bed)
{
	struct fth_nvme_qp *qp = &bed->qp;
	uint64_t commands = 0;
	uint32_t ids = 0;

	for (uint32_t i = 0; i < bed->shape->ctrl_warps; i++)
		commands += bed->counts[i].commands;
	for (uint32_t w = 0; w < (qp->ids + 31) / 32; w++)
		ids += (uint32_t)__builtin_popcount(qp->free_ids[w].bits);
	assert_int_equal(ids, qp->ids);
	assert_int_equal(qp->ticket, commands);
	assert_int_equal(qp->tail, commands);
	assert_int_equal(qp->sq_head, commands);
	assert_int_equal(qp->cq_head, commands);
	assert_int_equal(qp->ring_lock + qp->reap_lock + qp->failed + qp->waiters, 0);
}

/* Blocks that were written are on the medium where they belong, and were counted as such. */
static void check_medium(const struct bed *bed)
{
	const struct shape *s = bed->shape;
	uint32_t each = words_of(s);
	uint64_t blocks = 0, read = 0, written = 0;

	for (uint32_t t = 0; t < s->rounds * s->clients * 32; t++) {
		uint64_t first = first_of(s, t % (s->clients * 32), t / (s->clients * 32));
		const uint64_t *words = (const uint64_t *)bed->medium + first * each;

		if (!(s->lanes & 1u << t % 32) || !wants(s, first)) {
			assert_int_equal(words[0], 0);
			continue;
		}
		assert_int_equal(mismatches(words, first, s->blocks * each, each), 0);
		blocks += s->blocks;
	}
	for (uint32_t i = 0; i < s->ctrl_warps; i++) {
		read += bed->counts[i].blocks_read;
		written += bed->counts[i].blocks_written;
	}
	assert_int_equal(read, blocks);
	assert_int_equal(written, blocks);
}

static void try_shape(const struct shape *s)
{
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));

	make_bed(bed, s);
	run_bed(bed);
	assert_int_equal(bed->errors, 0);
	assert_int_equal(bed->wrong, 0);
	check_end(bed);
	check_medium(bed);
	release_bed(bed);
	free(bed);
}

static void test_shapes(void **state)
{
	static const struct shape shapes[] = {
		/* shift ids clients ctrl batch rounds blocks lanes offset */
		{6, 0, 1, 1, 16, 4, 1, ~0u, 0, false, false, false},
		{1, 0, 2, 1, 4, 2, 1, ~0u, 0, false, false, false},
		{4, 0, 3, 2, 5, 3, 1, ~0u, 0, false, false, true},
		{6, 32, 3, 3, 8, 4, 1, ~0u, 0, false, false, false},
		{7, 0, 3, 2, 32, 3, 3, 0xaaaaaaaau, 3072, false, false, true},
		{5, 0, 2, 2, 32, 3, 8, 0x80300f01u, 1040, false, false, true},
		{3, 0, 2, 1, 32, 3, 1, 0x00000400u, 0, false, false, false},
		{10, 992, 4, 2, 16, 3, 2, ~0u, 512, false, false, true},
		/* larger blocks: of a page, across two, of two, and two of half a page */
		{6, 0, 2, 2, 8, 3, 1, ~0u, 0, false, false, true, 12},
		{4, 0, 2, 1, 5, 2, 1, 0x80300f01u, 1040, false, false, false, 12},
		{5, 0, 2, 2, 32, 2, 1, ~0u, 0, false, false, true, 13},
		{6, 32, 3, 2, 8, 3, 2, 0xaaaaaaaau, 2048, false, false, true, 11},
	};

	(void)state;
	for (const struct shape &s : shapes)
		try_shape(&s);
}

static void test_late_data(void **state)
{
	static const struct shape ordered = {6, 32, 3, 2, 8, 4, 1, ~0u, 0, true, true, false};

	(void)state;
	try_shape(&ordered);
}

/* ---- errors ---- */

static void error_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	/* The last blocks that there are, and one further. */
	uint64_t first = me->bed->view.blocks - me->bed->shape->blocks + lane % 2;
	void *memory = me->bed->memory + lane * 8192;
	int rc = transfer(me, &warp, FTH_NVME_READ, first, memory, true);

	if (rc != (lane % 2 ? -ERANGE : 0))
		note(me->bed, rc < 0 ? rc : -1, 0);
}

static void try_errors(const struct shape *s)
{
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));
	struct client me = {bed, 0, 0}, ctrl = {bed, 0, 0};

	make_bed(bed, s);
	assert_int_equal(pthread_create(&ctrl.thread, NULL, ctrl_thread, &ctrl), 0);
	fixture_run_warp(error_lane, &me);
	fth_store_release_dev32(&bed->control.stop, 1);
	pthread_join(ctrl.thread, NULL);
	assert_int_equal(bed->errors, 0);
	assert_int_equal(bed->counts[0].errors, 16);
	assert_int_equal(bed->counts[0].blocks_read, 16 * s->blocks);
	check_end(bed);
	release_bed(bed);
	free(bed);
}

static void test_status_per_lane(void **state)
{
	static const struct shape shapes[] = {
		{6, 0, 0, 1, 16, 1, 1, ~0u, 0, false, false, false},
		{6, 0, 0, 1, 16, 1, 8, ~0u, 0, false, false, false},
		{6, 0, 0, 1, 16, 1, 1, ~0u, 0, false, false, false, 12},
		{6, 0, 0, 1, 16, 1, 2, ~0u, 0, false, false, false, 12},
		{6, 0, 0, 1, 16, 1, 1, ~0u, 0, false, false, false, 13},
	};

	(void)state;
	for (const struct shape &s : shapes)
		try_errors(&s);
}

/* Transfers that one command can not say: none is sent, and the others are. */
static void unfit_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint32_t two_pages = 8192u >> me->bed->view.block_shift;
	struct fth_gpu_io io = {};
	int rc;

	io.opcode = lane % 8 < 4 ? FTH_NVME_READ : FTH_NVME_WRITE;
	io.blocks = lane % 4 == 1 ? 0 : lane % 4 == 2 ? two_pages + 1 : two_pages;
	io.memory = me->bed->memory + lane * 8192 + (lane % 4 == 3 ? 8 : 0);
	rc = fth_gpu_io(&me->bed->view, 0, &warp, true, &io, 0, fth_deadline_ns(PATIENCE));
	if (rc != (lane % 4 ? -EINVAL : 0))
		note(me->bed, rc < 0 ? rc : -1, 0);
	/* Two pages from the middle of one: three. */
	io.memory = me->bed->memory + lane * 8192 + 512;
	io.blocks = two_pages;
	rc = fth_gpu_io(&me->bed->view, 0, &warp, lane < 31, &io, 0, fth_deadline_ns(PATIENCE));
	if (rc != (lane < 31 ? -EINVAL : 0))
		note(me->bed, rc < 0 ? rc : -1, 0);
}

static void try_unfit(uint32_t block_shift)
{
	const struct shape s = {6, 0, 0, 1, 16, 1, 1, ~0u, 0, false, false, false, block_shift};
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));
	struct client me = {bed, 0, 0}, ctrl = {bed, 0, 0};

	make_bed(bed, &s);
	assert_int_equal(pthread_create(&ctrl.thread, NULL, ctrl_thread, &ctrl), 0);
	fixture_run_warp(unfit_lane, &me);
	fth_store_release_dev32(&bed->control.stop, 1);
	pthread_join(ctrl.thread, NULL);
	assert_int_equal(bed->errors, 0);
	assert_int_equal(bed->counts[0].commands, 8);
	assert_int_equal(bed->counts[0].errors, 0);
	check_end(bed);
	release_bed(bed);
	free(bed);
}

static void test_unfit(void **state)
{
	(void)state;
	for (uint32_t shift = 9; shift <= 13; shift += 2)
		try_unfit(shift);
}

/* The longest transfer is one of bytes: 32 pages, by a list, and no block more. */
static void long_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint32_t most = (FTH_GPU_TRANSFER_MAX << FTH_GPU_PIECE_SHIFT) >> me->bed->view.block_shift;
	uint64_t *list = (uint64_t *)me->bed->memory;
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done;
	int rc;

	command.opcode = FTH_NVME_READ;
	command.nsid = 1;
	command.prp1 = (uint64_t)me->bed->memory + 4096;
	command.prp2 = (uint64_t)list;
	command.cdw12 = most - 1 + lane;
	for (uint32_t i = 0; lane == 0 && i < 31; i++)
		list[i] = command.prp1 + (i + 1) * 4096;
	__syncwarp();
	rc = fth_nvme_warp_exec(&me->bed->qp, &warp, lane < 2, &command, 0,
				fth_deadline_ns(PATIENCE), &done, NULL);
	if (lane < 2 && rc != (lane ? -EINVAL : 0))
		note(me->bed, rc < 0 ? rc : -1, 0);
}

static void try_longest(uint32_t block_shift)
{
	const struct shape s = {6, 0, 0, 1, 16, 1, 1, ~0u, 0, false, false, false, block_shift};
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));
	struct client me = {bed, 0, 0}, ctrl = {bed, 0, 0};
	uint32_t bytes = FTH_GPU_TRANSFER_MAX << FTH_GPU_PIECE_SHIFT;

	make_bed(bed, &s);
	for (uint32_t i = 0; i < bytes / 8; i++)
		((uint64_t *)bed->medium)[i] = word_of(i, 0);
	assert_int_equal(pthread_create(&ctrl.thread, NULL, ctrl_thread, &ctrl), 0);
	fixture_run_warp(long_lane, &me);
	fth_store_release_dev32(&bed->control.stop, 1);
	pthread_join(ctrl.thread, NULL);
	assert_int_equal(bed->errors, 0);
	assert_memory_equal(bed->memory + 4096, bed->medium, bytes);
	assert_int_equal(bed->counts[0].blocks_read, bytes >> block_shift);
	release_bed(bed);
	free(bed);
}

static void test_longest(void **state)
{
	(void)state;
	for (uint32_t shift = 9; shift <= 13; shift += 2)
		try_longest(shift);
}

/* Nobody answers: -ETIME, and once the queue pair has failed, that. */
static void timeout_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done;
	/* The earliest deadline counts, even if other lanes have none. */
	int rc = fth_nvme_warp_exec(&me->bed->qp, &warp, true, &command, 0,
				    lane == 5 ? fth_deadline_ns(20000000) : FTH_NEVER, &done, NULL);

	if (rc != -ETIME)
		note(me->bed, rc, 1);
	/* All ids are abandoned by now. */
	rc = fth_nvme_warp_exec(&me->bed->qp, &warp, true, &command, 0, fth_deadline_ns(20000000),
				&done, NULL);
	if (rc != -ETIME)
		note(me->bed, rc, 1);
	if (lane == 0)
		fth_nvme_qp_cancel(&me->bed->qp, ESHUTDOWN);
	__syncwarp();
	rc = fth_nvme_warp_exec(&me->bed->qp, &warp, true, &command, 0, fth_deadline_ns(PATIENCE),
				&done, NULL);
	if (rc != -ESHUTDOWN)
		note(me->bed, rc, 1);
}

static void test_nobody_answers(void **state)
{
	static const struct shape s = {4, 0, 0, 0, 16, 1, 1, ~0u, 0, false, false, false};
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));
	struct client me = {bed, 0, 0};

	(void)state;
	make_bed(bed, &s);
	fixture_run_warp(timeout_lane, &me);
	assert_int_equal(bed->errors + bed->wrong, 0);
	assert_int_equal(bed->qp.waiters, 0);
	assert_int_equal(fth_nvme_qp_reset(&bed->qp), 0); /* all ids can be had back */
	release_bed(bed);
	free(bed);
}

/* A controller that answers what was not asked fails the queue pair, as queue.h says. */
static void liar_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	struct fth_nvme_qp *qp = &me->bed->qp;
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done = {0, 0};
	uint32_t id = fth_nvme_warp_take(qp, &warp, lane < 3, 0);

	fth_nvme_warp_put(qp, &warp, id, &command);
	fth_nvme_warp_ring(qp, &warp);
	if (lane == 0) {
		for (uint32_t i = 0; i < 3; i++) {
			qp->cq[i].queue = (i == 2 ? 2u : i + 1) | 7u << 16;
			qp->cq[i].info = fth_nvme_cqe_info((uint16_t)(i == 1 ? 0 : i), 1, 0);
		}
		/* Entry 0 is right, entry 1 answers id 0 again. */
	}
	__syncwarp();
	int rc = fth_nvme_warp_wait(qp, &warp, id, fth_deadline_ns(PATIENCE), &done);

	if (lane < 3 && rc != (lane == 0 ? 0 : -EPROTO))
		note(me->bed, rc, 1);
}

static void test_liar(void **state)
{
	static const struct shape s = {6, 0, 0, 0, 16, 1, 1, ~0u, 0, false, false, false};
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));
	struct client me = {bed, 0, 0};

	(void)state;
	make_bed(bed, &s);
	fixture_run_warp(liar_lane, &me);
	assert_int_equal(bed->errors + bed->wrong, 0);
	assert_int_equal(fth_nvme_qp_failed(&bed->qp), -EPROTO);
	release_bed(bed);
	free(bed);
}

/* ---- stopping ---- */

/* Commands that nobody waits for, of a model that would hold them for seconds. */
static void leave_lane(void *arg, uint32_t lane)
{
	struct client *me = (struct client *)arg;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	struct fth_nvme_sqe command = {};
	uint32_t id = fth_nvme_warp_take(&me->bed->qp, &warp, true, 0);

	command.opcode = FTH_NVME_READ;
	command.nsid = 1;
	command.prp1 = (uint64_t)(me->bed->memory + lane * 8192);
	fth_nvme_warp_put(&me->bed->qp, &warp, id, &command);
	fth_nvme_warp_ring(&me->bed->qp, &warp);
}

/* Half the lanes are a nap ahead: what happens while the warp sleeps comes between two lanes. */
static void *uneven_ctrl_thread(void *arg)
{
	fixture_run_warp(
		[](void *arg, uint32_t lane) {
			if (lane < 16)
				__nanosleep(1);
			ctrl_lane(arg, lane);
		},
		arg);
	return NULL;
}

/* A controller that holds completions back is stopped: all its lanes see it, or none does. */
static void test_stop_while_held(void **state)
{
	static const struct shape s = {6, 0, 0, 1, 32, 1, 1, ~0u, 0, false, false, false};
	struct bed *bed = (struct bed *)aligned_alloc(64, sizeof(*bed));
	struct timespec nap = {0, 0};

	(void)state;
	for (uint32_t k = 0; k < 20; k++) {
		struct client me = {bed, 0, 0}, ctrl = {bed, 0, 0};

		make_bed(bed, &s);
		bed->ctrl.modelled = 1;
		bed->ssd.read.latency_ns = PATIENCE;
		fixture_run_warp(leave_lane, &me);
		assert_int_equal(pthread_create(&ctrl.thread, NULL, uneven_ctrl_thread, &ctrl), 0);
		nap.tv_nsec = 2000000 + k * 3000;
		nanosleep(&nap, NULL);
		fth_store_release_dev32(&bed->control.stop, 1);
		pthread_join(ctrl.thread, NULL);
		assert_int_equal(bed->counts[0].commands, 32);
		assert_int_equal(bed->qp.cq[0].info, 0);
		release_bed(bed);
	}
	free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),	    cmocka_unit_test(test_late_data),
		cmocka_unit_test(test_status_per_lane), cmocka_unit_test(test_nobody_answers),
		cmocka_unit_test(test_liar),	    cmocka_unit_test(test_longest),
		cmocka_unit_test(test_stop_while_held), cmocka_unit_test(test_unfit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
