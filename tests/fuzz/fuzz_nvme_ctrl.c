/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hostile host for the software controller. The input is a program of small operations on
 * registers, doorbells, rings and memory:
 *
 *	first byte	bit 0: polite, see below; bits 1 and 2: one of four devices, of which one
 *			has large blocks and one holds requests back; bit 3: no transfer limit;
 *			bit 4: a device keeps the persistent memory region
 *	then operations: a byte modulo OP_COUNT, and its operands
 *
 * What must hold, whatever the program:
 *	- nothing outside granted memory is read or written: it lies between pages without access,
 *	  and memory that was revoked keeps its canary;
 *	- the controller's invariants (fth_ctrl_check());
 *	- every step ends;
 *	- what a good barrier covered is in the persistent memory region after a power loss.
 * A polite host puts its rings where no transfer goes and writes them by the rules. Then also:
 *	- every completion is well-formed and answers a command that was sent and not yet answered.
 *
 * The seeds are made by seeds.py beside this file.
 */
#include "fuzz_input.h"

#include "nvme/ctrl/ctrl_internal.h"
#include "nvme/ctrl/test/held_fixture.h"

#include "fathom/hd/wait.h"
#include "fathom/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAGE	   4096u
#define DATA_PAGES 8u
#define RING_PAGES 8u /* two for each queue */
#define DATA_IOVA  0x10000ull
#define RING_IOVA  0x40000ull
#define LOAN_IOVA  0x80000ull /* granted and revoked on the way */
#define QUEUES	   4u	      /* with the admin queue */
#define RING_SIZE  8u
#define CANARY	   0xc5
#define STEPS_MAX  64u
#define CC_GOOD	   0x00460001u

enum op {
	OP_REGISTER,
	OP_BRING_UP,
	OP_CREATE_PAIR,
	OP_COMMAND,
	OP_RAW_COMMAND,
	OP_DOORBELL,
	OP_POKE,
	OP_STEP,
	OP_CONSUME,
	OP_LEND,
	OP_REVOKE,
	OP_RESET,
	OP_HOLD,
	OP_WINDOW,
	OP_COUNT
};

struct ring {
	uint32_t sq_tail, cq_head, phase;
	bool live;
	uint8_t sent[256]; /* commands in flight by id; ids of a polite host are a byte */
};

/* The memory of the host, made once: each part between pages that nobody may touch. */
static char *data_memory, *ring_memory, *loan_memory;

static struct fth_dev *dev, *pmr_dev;
static struct fth_nvme_ctrl *ctrl;
static struct ring rings[QUEUES];
static bool polite, large_blocks, lent;

static void check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "%s\n", fth_error_text(rc));
		abort();
	}
}

/* ---- memory ---- */

static char *fenced(size_t pages)
{
	char *memory =
		mmap(NULL, (pages + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED, "there is memory");
	require(mprotect(memory + PAGE, pages * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
	return memory + PAGE;
}

static char *sq_ring(uint32_t qid)
{
	return ring_memory + 2 * qid * PAGE;
}

static char *cq_ring(uint32_t qid)
{
	return ring_memory + (2 * qid + 1) * PAGE;
}

static uint64_t ring_iova(const char *at)
{
	return RING_IOVA + (uint64_t)(at - ring_memory);
}

/* An address for a transfer: granted data mostly, and all kinds of others for the rude. */
static uint64_t address(void)
{
	uint8_t kind = byte();
	uint32_t offset = byte() | (uint32_t)byte() << 8;
	uint64_t page = kind % DATA_PAGES;

	if (polite || kind < 0x80)
		return DATA_IOVA + page * PAGE + offset % PAGE;
	if (kind < 0xa0)
		return RING_IOVA + page * PAGE + offset % PAGE;
	if (kind < 0xc0)
		return LOAN_IOVA + offset % PAGE;
	if (kind < 0xe0)
		return DATA_IOVA + (DATA_PAGES - 1) * PAGE + offset; /* over the end */
	return (uint64_t)word() << 32 | word();
}

/* ---- operations ---- */

static void op_register(void)
{
	static const uint32_t offsets[] = {0x00, 0x08, 0x0c, 0x10, 0x14,  0x1c,	 0x20,	 0x24,
					   0x28, 0x2c, 0x30, 0x34, 0x38,  0xe00, 0x1000, 0x1ffc,
					   0x3c, 0x50, 0x54, 0x58, 0xe04, 0xe08, 0xe14,	 0xe18};
	uint32_t offset = offsets[byte() % (sizeof(offsets) / sizeof(offsets[0]))];
	uint32_t value = word();

	if (!polite)
		fth_nvme_ctrl_write32(ctrl, offset, value);
	(void)fth_nvme_ctrl_read64(ctrl, offset);
}

static void forget_rings(void)
{
	memset(rings, 0, sizeof(rings));
}

static void op_bring_up(void)
{
	if ((fth_nvme_ctrl_read32(ctrl, FTH_NVME_REG_CC) & FTH_NVME_CC_ENABLE) ||
	    (fth_nvme_ctrl_read32(ctrl, FTH_NVME_REG_CSTS) & FTH_NVME_CSTS_READY))
		return;
	forget_rings();
	memset(ring_memory, 0, RING_PAGES * PAGE);
	fth_nvme_ctrl_write32(ctrl, FTH_NVME_REG_AQA, (RING_SIZE - 1) | (RING_SIZE - 1) << 16);
	fth_nvme_ctrl_write64(ctrl, FTH_NVME_REG_ASQ, ring_iova(sq_ring(0)));
	fth_nvme_ctrl_write64(ctrl, FTH_NVME_REG_ACQ, ring_iova(cq_ring(0)));
	fth_nvme_ctrl_write32(ctrl, FTH_NVME_REG_CC, CC_GOOD);
	rings[0] = (struct ring){.phase = 1, .live = true};
}

static void ring_doorbell(uint32_t qid, bool completion, uint32_t value)
{
	uint32_t *doorbells = fth_nvme_ctrl_doorbells(ctrl);

	fth_store_release_sys32(&doorbells[2 * qid + completion], value);
}

static void push(uint32_t qid, const struct fth_nvme_sqe *sqe)
{
	struct ring *ring = &rings[qid];

	memcpy(sq_ring(qid) + ring->sq_tail * sizeof(*sqe), sqe, sizeof(*sqe));
	ring->sq_tail = (ring->sq_tail + 1) % RING_SIZE;
	ring_doorbell(qid, false, ring->sq_tail);
}

/* A polite host sends one only if there is certainly room, and with an id that is free. */
static bool may_send(uint32_t qid, struct fth_nvme_sqe *sqe)
{
	struct ring *ring = &rings[qid];
	unsigned busy = 0;

	if (!polite)
		return true;
	for (unsigned id = 0; id < 256; id++)
		busy += ring->sent[id];
	sqe->cid &= 0xff;
	if (!ring->live || busy >= RING_SIZE - 1 || ring->sent[sqe->cid])
		return false;
	ring->sent[sqe->cid] = 1;
	return true;
}

static void op_create_pair(void)
{
	uint32_t qid = 1 + byte() % (QUEUES - 1);
	struct fth_nvme_sqe sqe = {.opcode = FTH_NVME_CREATE_CQ, .cid = byte()};

	if (polite && rings[qid].live)
		return;
	sqe.prp1 = ring_iova(cq_ring(qid));
	sqe.cdw10 = qid | (RING_SIZE - 1) << 16;
	sqe.cdw11 = 1;
	if (!may_send(0, &sqe))
		return;
	push(0, &sqe);
	sqe.opcode = FTH_NVME_CREATE_SQ;
	sqe.cid = (uint16_t)(sqe.cid + 1);
	sqe.prp1 = ring_iova(sq_ring(qid));
	sqe.cdw11 = 1 | qid << 16;
	if (!may_send(0, &sqe))
		return;
	push(0, &sqe);
	rings[qid] = (struct ring){.phase = 1, .live = true};
}

/* The admin commands that would move a polite host's rings, or never answer, are not for it. */
static bool unsettling(const struct fth_nvme_sqe *sqe)
{
	return sqe->opcode == FTH_NVME_CREATE_CQ || sqe->opcode == FTH_NVME_CREATE_SQ ||
	       sqe->opcode == FTH_NVME_DELETE_CQ || sqe->opcode == FTH_NVME_DELETE_SQ;
}

/* A polite host's transfers need no PRP list, which could lead anywhere. */
static void shorten(uint32_t qid, struct fth_nvme_sqe *sqe)
{
	if (qid == 0 && sqe->opcode == FTH_NVME_GET_LOG_PAGE)
		sqe->cdw10 &= 0x00ffffff;
	else if (qid > 0)
		sqe->cdw12 &= large_blocks ? 0xffff0000 : 0xffff0007;
}

static void op_command(void)
{
	uint32_t qid = byte() % QUEUES;
	struct fth_nvme_sqe sqe = {.opcode = byte() % 16, .cid = byte()};

	sqe.nsid = byte() % 4 == 3 ? 0xffffffff : 1;
	sqe.prp1 = address();
	sqe.prp2 = address();
	sqe.cdw10 = word();
	sqe.cdw11 = byte();
	sqe.cdw12 = byte() | (uint32_t)byte() << 24;
	if (!rings[qid].live || (polite && qid == 0 && unsettling(&sqe)))
		return;
	if (polite)
		shorten(qid, &sqe);
	if (may_send(qid, &sqe))
		push(qid, &sqe);
}

static void op_raw_command(void)
{
	uint32_t qid = byte() % QUEUES;
	uint8_t bytes[sizeof(struct fth_nvme_sqe)];
	struct fth_nvme_sqe sqe;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = byte();
	memcpy(&sqe, bytes, sizeof(sqe));
	if (!polite)
		push(qid, &sqe);
}

static void op_doorbell(void)
{
	uint8_t which = byte(), value = byte();

	if (!polite)
		ring_doorbell(which / 2 % QUEUES, which & 1,
			      value == 0xff ? word() : value % (RING_SIZE + 2));
}

static void op_poke(void)
{
	uint64_t page = byte(), offset = (byte() | (uint32_t)byte() << 8) % PAGE;
	uint8_t length = byte() % 64;
	char *at = page & 0x80 && !polite ? ring_memory + page % RING_PAGES * PAGE
					  : data_memory + page % DATA_PAGES * PAGE;

	for (unsigned i = 0; i < length && offset + i < PAGE; i++)
		at[offset + i] = (char)byte();
}

static void op_step(void)
{
	unsigned steps = 1 + byte() % 8;

	while (steps-- > 0)
		fth_nvme_ctrl_step(ctrl);
}

static void check_completion(uint32_t qid, const struct fth_nvme_cqe *cqe)
{
	uint32_t info = cqe->info;

	if (!polite)
		return;
	require(cqe->queue >> 16 == qid, "a completion comes on its own queue");
	require(fth_nvme_cqe_sq_head(cqe->queue) < RING_SIZE, "a head inside the ring");
	require(cqe->reserved == 0, "reserved is zero");
	require(fth_nvme_cqe_cid(info) < 256 && rings[qid].sent[fth_nvme_cqe_cid(info)],
		"a completion answers a command");
	rings[qid].sent[fth_nvme_cqe_cid(info)] = 0;
}

static void op_consume(void)
{
	uint32_t qid = byte() % QUEUES;
	struct ring *ring = &rings[qid];

	for (unsigned n = 0; ring->live && n < RING_SIZE; n++) {
		struct fth_nvme_cqe cqe;

		memcpy(&cqe, cq_ring(qid) + ring->cq_head * sizeof(cqe), sizeof(cqe));
		if (fth_nvme_cqe_phase(cqe.info) != ring->phase)
			break;
		check_completion(qid, &cqe);
		if (++ring->cq_head == RING_SIZE) {
			ring->cq_head = 0;
			ring->phase ^= 1;
		}
	}
	ring_doorbell(qid, true, ring->cq_head);
}

static void op_lend(void)
{
	if (!lent)
		check(fth_nvme_ctrl_grant(ctrl, loan_memory, PAGE, LOAN_IOVA));
	lent = true;
}

static void op_revoke(void)
{
	if (!lent || fth_nvme_ctrl_revoke(ctrl, LOAN_IOVA, PAGE) < 0)
		return;
	lent = false;
	memset(loan_memory, CANARY, PAGE);
}

static void op_reset(void)
{
	fth_nvme_ctrl_write32(ctrl, FTH_NVME_REG_CC, (uint32_t)(byte() & 1) << 14);
	for (unsigned i = 0; i < STEPS_MAX && fth_nvme_ctrl_step(ctrl); i++)
		;
	forget_rings();
}

/* What the device that holds back does with its requests from now on. */
static void op_hold(void)
{
	uint8_t how = byte();

	held.hold = how & 1;
	held.let_go = how >> 1 & 7;
	held.fail = how & 0x80 ? 5 : 0;
}

/* Store into the region, with a barrier or without, and lose power. */
static void op_window(void)
{
	uint64_t size, offset = (byte() | (uint32_t)byte() << 8) % PAGE;
	char *pmr = fth_nvme_ctrl_bar(ctrl, FTH_NVME_CTRL_PMR_BAR, &size);
	uint8_t value = byte(), how = byte();
	uint32_t status = FTH_NVME_PMRSTS_NRDY;

	pmr[offset] = (char)value;
	if (how & 1)
		status = fth_nvme_ctrl_pmr_barrier(ctrl, offset, how, FTH_NEVER);
	if (how & 2)
		status = fth_nvme_ctrl_read32(ctrl, FTH_NVME_REG_PMRSTS);
	if (how & 4)
		pmr[(offset + PAGE / 2) % PAGE] ^= 1; /* another line, which may be lost */
	if ((how & 8) && fth_nvme_ctrl_pmr_power_loss(ctrl, how) < 0)
		return;
	fth_nvme_ctrl_write32(ctrl, FTH_NVME_REG_PMRCTL, FTH_NVME_PMRCTL_EN);
	require(status != 0 || pmr[offset] == (char)value, "a barrier keeps what was stored");
}

static void run_op(enum op op)
{
	static void (*const ops[OP_COUNT])(void) = {
		[OP_REGISTER] = op_register,
		[OP_BRING_UP] = op_bring_up,
		[OP_CREATE_PAIR] = op_create_pair,
		[OP_COMMAND] = op_command,
		[OP_RAW_COMMAND] = op_raw_command,
		[OP_DOORBELL] = op_doorbell,
		[OP_POKE] = op_poke,
		[OP_STEP] = op_step,
		[OP_CONSUME] = op_consume,
		[OP_LEND] = op_lend,
		[OP_REVOKE] = op_revoke,
		[OP_RESET] = op_reset,
		[OP_HOLD] = op_hold,
		[OP_WINDOW] = op_window,
	};

	ops[op]();
	if (!lent)
		for (unsigned i = 0; i < PAGE; i += 64)
			require((uint8_t)loan_memory[i] == CANARY, "revoked memory is left alone");
	check(fth_ctrl_check(ctrl));
}

/* ---- one input ---- */

static void open_all(uint8_t mode)
{
	static const char *const devices[4] = {"mem:64K", "mem:64K?block=4096",
					       "held:64K?align=512&max=4096", "held:64K"};
	struct fth_nvme_ctrl_options opts = FTH_NVME_CTRL_OPTIONS_INIT;
	unsigned device = mode >> 1 & 3;

	if (!data_memory) {
		data_memory = fenced(DATA_PAGES);
		ring_memory = fenced(RING_PAGES);
		loan_memory = fenced(1);
	}
	memset(data_memory, 0, DATA_PAGES * PAGE);
	memset(ring_memory, 0, RING_PAGES * PAGE);
	memset(loan_memory, CANARY, PAGE);
	forget_rings();
	lent = false;
	polite = mode & 1;
	large_blocks = device == 1;
	held_setup();
	opts.threads = 0;
	opts.depth = 8;
	opts.io_queues = QUEUES - 1;
	opts.queue_entries = 64;
	opts.mdts = mode & 8 ? 0 : 3;
	opts.pmr_size = PAGE;
	opts.cmb_size = PAGE;
	opts.cmb_garbage = 1;
	pmr_dev = NULL;
	if (mode & 16)
		check(fth_dev_open("mem:4K?block=512", &pmr_dev));
	opts.pmr_dev = pmr_dev;
	check(fth_dev_open(devices[device], &dev));
	check(fth_nvme_ctrl_new(dev, &opts, &ctrl));
	check(fth_nvme_ctrl_grant(ctrl, data_memory, DATA_PAGES * PAGE, DATA_IOVA));
	check(fth_nvme_ctrl_grant(ctrl, ring_memory, RING_PAGES * PAGE, RING_IOVA));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	input = bytes;
	input_left = size;
	open_all(byte());
	while (input_left > 0)
		run_op(byte() % OP_COUNT);
	held.hold = false;
	for (unsigned i = 0; i < STEPS_MAX; i++)
		fth_nvme_ctrl_step(ctrl);
	check(fth_ctrl_check(ctrl));
	fth_nvme_ctrl_free(ctrl);
	fth_dev_close(dev);
	fth_dev_close(pmr_dev);
	return 0;
}
