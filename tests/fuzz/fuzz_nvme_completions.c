/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile controller for the queue pair. The input is a program of operations of one thread that
 * uses a queue pair, and of the controller that answers it, rightly or not:
 *
 *	first byte	2:0 and 5:3: log2 of the ring sizes, 1 to 4 each
 *	second byte	how many command ids; 0: as many as the rings allow
 *	then operations: a byte modulo OP_COUNT, and its operands
 *
 * Beside the queue pair runs a model, written from the specification: which completions are legal,
 * and what each makes of the command ids. After every step
 *	- each id is in the state that the model says: free, waiting, done or abandoned; it was
 *	  freed as often as the model freed it, so never twice;
 *	- tickets, heads, tail and doorbells are the model's;
 *	- a completed command has the status and the result that were posted for it;
 *	- the queue pair has failed with EPROTO exactly if the controller broke the protocol.
 * And every step ends.
 */
#include "fuzz_input.h"

#include "fathom/detail/nvme/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SHIFT_MAX 4u
#define SIZE_MAX_ 16u /* entries of a ring */
#define QID	  3u
#define STEPS_MAX 4096u

enum op {
	OP_PUT,	     /* take an id and put a command */
	OP_RING,     /* tell the controller */
	OP_ANSWER,   /* the controller completes a command as it should */
	OP_LIE,	     /* it posts any id, head and status, with the right phase */
	OP_SCRIBBLE, /* it writes anything anywhere in its ring */
	OP_POLL,
	OP_TRY,
	OP_WAIT,
	OP_ABANDON,
	OP_CANCEL,
	OP_RESET,
	OP_COUNT
};

struct command {
	enum fth_nvme_slot_state state;
	uint32_t ticket, result, frees;
	uint16_t status;
};

/* What must be so, by the specification. */
static struct {
	struct command commands[SIZE_MAX_];
	uint32_t ticket, tail, sq_head, cq_head;
	int failed;
} model;

static struct fth_nvme_qp qp;
static uint32_t sq_doorbell, cq_doorbell;
static uint32_t posted; /* the controller's own tail of the completion ring */

/* ---- the model ---- */

static void model_free(uint32_t id)
{
	model.commands[id].state = FTH_NVME_SLOT_FREE;
	model.commands[id].frees++;
}

/*
 * Is this completion one that a controller may send? It answers a command that it was told of and
 * has not answered yet, on our submission queue, and its head has passed that command but not the
 * tail.
 */
static bool is_legal(const struct fth_nvme_cqe *entry)
{
	uint32_t id = entry->info & 0xffff, head = entry->queue & 0xffff, passed;
	const struct command *command = &model.commands[id % SIZE_MAX_];

	if (id >= qp.ids || entry->queue >> 16 != QID || head >= 1u << qp.sq_shift)
		return false;
	if (command->state != FTH_NVME_SLOT_WAITING && command->state != FTH_NVME_SLOT_ABANDONED)
		return false;
	/* how many commands it has fetched since the last head */
	passed = (head - model.sq_head) & ((1u << qp.sq_shift) - 1);
	if (passed > model.tail - model.sq_head)
		return false;
	return command->ticket < model.sq_head + passed;
}

/* Take in what is new in the completion ring, as a poll must. How many entries. */
static uint32_t model_drain(void)
{
	uint32_t n = 0;

	while (!model.failed) {
		uint32_t turn = model.cq_head >> qp.cq_shift;
		const struct fth_nvme_cqe *entry =
			&qp.cq[model.cq_head & ((1u << qp.cq_shift) - 1)];
		struct command *command = &model.commands[entry->info % SIZE_MAX_];

		if ((entry->info >> 16 & 1) == (turn & 1))
			break; /* written on the turn before, or never */
		model.cq_head++;
		n++;
		if (!is_legal(entry)) {
			model.failed = EPROTO;
			break;
		}
		model.sq_head +=
			((entry->queue & 0xffff) - model.sq_head) & ((1u << qp.sq_shift) - 1);
		command->result = entry->result;
		command->status = (uint16_t)(entry->info >> 17);
		if (command->state == FTH_NVME_SLOT_ABANDONED)
			model_free(entry->info & 0xffff);
		else
			command->state = FTH_NVME_SLOT_DONE;
	}
	return n;
}

/* ---- agreement ---- */

static void check_id(uint32_t id)
{
	const struct command *command = &model.commands[id];
	const struct fth_nvme_slot *slot = &qp.slots[id];
	bool is_free = qp.free_ids[id / 32].bits >> (id % 32) & 1;

	require(is_free == (command->state == FTH_NVME_SLOT_FREE),
		"an id is free if nobody has it");
	require((slot->word & 0xff) == command->state, "a command is in its state");
	require(slot->generation == command->frees, "an id is freed once per use");
	if (command->state == FTH_NVME_SLOT_DONE)
		require(slot->word >> 16 == command->status && slot->result == command->result,
			"the right command is done");
}

static void check_all(void)
{
	for (uint32_t id = 0; id < qp.ids; id++)
		check_id(id);
	require(qp.ids % 32 == 0 || qp.free_ids[qp.ids / 32].bits >> (qp.ids % 32) == 0,
		"no id is free that is none");
	require(qp.ticket == model.ticket && qp.tail == model.tail, "tickets and tail agree");
	require(qp.sq_head == model.sq_head && qp.cq_head == model.cq_head, "the heads agree");
	require(qp.ticket - qp.sq_head < 1u << qp.sq_shift, "the ring is not overrun");
	require(sq_doorbell == (qp.tail & ((1u << qp.sq_shift) - 1)),
		"the doorbell holds the tail");
	require(cq_doorbell == (qp.cq_head & ((1u << qp.cq_shift) - 1)), "and the other the head");
	require(fth_nvme_qp_failed(&qp) == -model.failed, "it has failed if it must");
	require(qp.ring_lock == 0 && qp.reap_lock == 0, "no lock is held");
}

static void check_done(uint32_t id, const struct fth_nvme_done *done)
{
	require(model.commands[id].state == FTH_NVME_SLOT_DONE, "what is done was answered");
	require(done->status == model.commands[id].status &&
			done->result == model.commands[id].result,
		"the answer is the one that was given");
	model_free(id);
}

/* ---- the user ---- */

/* A command of ours that is out, the nth from `start`; or none. */
static bool choose(uint32_t *id)
{
	uint32_t start = byte();

	for (uint32_t i = 0; i < qp.ids; i++) {
		*id = (start + i) % qp.ids;
		if (model.commands[*id].state == FTH_NVME_SLOT_WAITING ||
		    model.commands[*id].state == FTH_NVME_SLOT_DONE)
			return true;
	}
	return false;
}

/* On a failed queue pair an id may be taken and given back at once: that counts as a use. */
static void check_refused(uint32_t held)
{
	uint32_t freed = 0;

	for (uint32_t i = 0; i < qp.ids; i++) {
		if (model.commands[i].state != FTH_NVME_SLOT_FREE)
			continue;
		freed += qp.slots[i].generation - model.commands[i].frees;
		model.commands[i].frees = qp.slots[i].generation;
	}
	require(freed == (held < qp.ids ? 1 : 0), "an id that is given back is freed once");
}

static void op_put(void)
{
	struct fth_nvme_sqe command = {.opcode = FTH_NVME_READ, .cid = 0xffff};
	uint32_t id = fth_nvme_qp_take(&qp, byte()), held = 0;
	const struct fth_nvme_sqe *entry;

	for (uint32_t i = 0; i < qp.ids; i++)
		held += model.commands[i].state != FTH_NVME_SLOT_FREE;
	require((id == FTH_NVME_NO_ID) == (held == qp.ids || model.failed),
		"an id is had if one is free");
	if (id == FTH_NVME_NO_ID) {
		check_refused(held);
		return;
	}
	require(id < qp.ids && model.commands[id].state == FTH_NVME_SLOT_FREE, "the id was free");
	entry = &qp.sq[model.ticket & ((1u << qp.sq_shift) - 1)];
	fth_nvme_qp_put(&qp, id, &command);
	require(entry->cid == id && entry->opcode == FTH_NVME_READ, "the entry is at its place");
	model.commands[id].state = FTH_NVME_SLOT_WAITING;
	model.commands[id].ticket = model.ticket++;
}

static void op_ring(void)
{
	fth_nvme_qp_ring(&qp);
	model.tail = model.ticket;
}

static void op_poll(void)
{
	uint32_t n = model_drain();

	require(fth_nvme_qp_poll(&qp) == n, "a poll takes what is new");
}

static void op_try(void)
{
	struct fth_nvme_done done = {0, 0};
	uint32_t id;

	if (!choose(&id))
		return;
	if (fth_nvme_qp_try(&qp, id, &done))
		check_done(id, &done);
	else
		require(model.commands[id].state == FTH_NVME_SLOT_WAITING, "what waits waits");
}

/* What giving up must do; the same as what a wait on a failed queue pair does. */
static void check_left(uint32_t id, int rc, int error, const struct fth_nvme_done *done)
{
	if (rc == 0) {
		check_done(id, done);
		return;
	}
	require(rc == error, "an error is the one that is due");
	require(model.commands[id].state == FTH_NVME_SLOT_WAITING, "only what waits is left");
	model.commands[id].state = FTH_NVME_SLOT_ABANDONED;
}

static void op_wait(void)
{
	struct fth_nvme_done done = {0, 0};
	uint32_t id;
	int rc;

	if (!choose(&id))
		return;
	while (model.commands[id].state == FTH_NVME_SLOT_WAITING && model_drain() > 0)
		;
	rc = fth_nvme_qp_wait(&qp, id, 0, &done);
	if (rc == -ETIME)
		require(model.commands[id].state == FTH_NVME_SLOT_WAITING && !model.failed,
			"a wait ends early only for an answer or a failure");
	else
		check_left(id, rc, -model.failed, &done);
}

static void op_abandon(void)
{
	struct fth_nvme_done done = {0, 0};
	uint32_t id;

	if (choose(&id))
		check_left(id, fth_nvme_qp_abandon(&qp, id, &done), -ETIME, &done);
}

static void op_cancel(void)
{
	fth_nvme_qp_cancel(&qp, ECANCELED);
	if (!model.failed)
		model.failed = ECANCELED;
}

/* The queue is deleted and made anew; with bit 0 our commands are collected before. */
static void op_reset(void)
{
	bool collect = byte() & 1;
	struct fth_nvme_done done;
	uint32_t id, held = 0;
	int rc;

	for (id = 0; id < qp.ids; id++) {
		if (model.commands[id].state != FTH_NVME_SLOT_WAITING &&
		    model.commands[id].state != FTH_NVME_SLOT_DONE)
			continue;
		if (collect && model.failed)
			check_left(id, fth_nvme_qp_collect(&qp, id, &done), -model.failed, &done);
		else
			held++;
	}
	rc = fth_nvme_qp_reset(&qp);
	require(rc == (!model.failed ? -EINVAL : held ? -EBUSY : 0), "a reset waits for users");
	if (rc < 0)
		return;
	for (id = 0; id < qp.ids; id++)
		if (model.commands[id].state == FTH_NVME_SLOT_ABANDONED)
			model_free(id);
	model.ticket = model.tail = model.sq_head = model.cq_head = 0;
	posted = sq_doorbell = cq_doorbell = 0;
	model.failed = 0;
	fth_nvme_qp_resume(&qp);
}

/* ---- the controller ---- */

static void post(uint32_t id, uint32_t queue, uint32_t status, uint32_t result)
{
	struct fth_nvme_cqe *entry = &qp.cq[posted & ((1u << qp.cq_shift) - 1)];
	uint32_t phase = ~posted >> qp.cq_shift & 1;

	entry->result = result;
	entry->queue = queue;
	entry->info = (id & 0xffff) | phase << 16 | status << 17;
	posted++;
}

/* Complete one of the commands that we were told of; all of those are fetched. */
static void op_answer(void)
{
	uint32_t start = byte(), status = byte();

	for (uint32_t i = 0; i < qp.ids; i++) {
		uint32_t id = (start + i) % qp.ids;
		const struct command *command = &model.commands[id];

		if ((command->state != FTH_NVME_SLOT_WAITING &&
		     command->state != FTH_NVME_SLOT_ABANDONED) ||
		    command->ticket >= model.tail)
			continue;
		post(id, QID << 16 | (model.tail & ((1u << qp.sq_shift) - 1)), status, ~id);
		return;
	}
}

static void op_lie(void)
{
	uint32_t id = byte(), head = byte(), status = byte(), odd = byte();
	uint32_t qid = odd & 1 ? word() & 0xffff : QID;

	post(odd & 2 ? id << 8 : id, qid << 16 | (odd & 4 ? head << 8 : head), status, word());
}

static void op_scribble(void)
{
	struct fth_nvme_cqe *entry = &qp.cq[byte() & ((1u << qp.cq_shift) - 1)];

	entry->result = word();
	entry->reserved = word();
	entry->queue = word();
	entry->info = word();
}

/* ---- one program ---- */

static void (*const ops[OP_COUNT])(void) = {
	[OP_PUT] = op_put,	 [OP_RING] = op_ring,	      [OP_ANSWER] = op_answer,
	[OP_LIE] = op_lie,	 [OP_SCRIBBLE] = op_scribble, [OP_POLL] = op_poll,
	[OP_TRY] = op_try,	 [OP_WAIT] = op_wait,	      [OP_ABANDON] = op_abandon,
	[OP_CANCEL] = op_cancel, [OP_RESET] = op_reset,
};

/* Memory of exactly the size that is needed, so that a sanitizer sees a step beyond it. */
static void *memory(size_t align, size_t size)
{
	void *ptr = NULL;

	require(posix_memalign(&ptr, align, size) == 0, "there is memory");
	memset(ptr, 0, size);
	return ptr;
}

static void set_up(struct fth_nvme_qp_setup *setup)
{
	uint8_t shifts = byte(), ids = byte();

	memset(&model, 0, sizeof(model));
	memset(setup, 0, sizeof(*setup));
	posted = sq_doorbell = cq_doorbell = 0;
	setup->sq_shift = 1 + (shifts & 7) % SHIFT_MAX;
	setup->cq_shift = 1 + (shifts >> 3 & 7) % SHIFT_MAX;
	setup->ids = fth_nvme_qp_ids_max(setup->sq_shift, setup->cq_shift);
	if (ids)
		setup->ids = 1 + ids % setup->ids;
	setup->qid = QID;
	setup->sq = memory(4096, sizeof(struct fth_nvme_sqe) << setup->sq_shift);
	setup->cq = memory(4096, sizeof(struct fth_nvme_cqe) << setup->cq_shift);
	setup->memory = memory(64, fth_nvme_qp_memory(setup->sq_shift, setup->ids));
	setup->sq_doorbell = &sq_doorbell;
	setup->cq_doorbell = &cq_doorbell;
	require(fth_nvme_qp_init(&qp, setup) == 0, "a queue pair is made");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_nvme_qp_setup setup;

	input = data;
	input_left = size;
	set_up(&setup);
	check_all();
	for (unsigned step = 0; input_left && step < STEPS_MAX; step++) {
		ops[byte() % OP_COUNT]();
		check_all();
	}
	free(setup.sq);
	free(setup.cq);
	free(setup.memory);
	return 0;
}
