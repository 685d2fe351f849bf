/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller for GPU blocks and its clients in one kernel that ends by itself, so that tools
 * which serialise kernels can watch both. The first blocks serve a queue pair each; the others
 * write, flush and read blocks, ask for what is wrong, and the last of them to end stops the
 * controller. Every word is checked, on the GPU and on the medium. Skipped (77) without a GPU.
 *
 * It ends: a client gives up at its first wait that takes too long, and the controller ends with
 * the last client. All blocks are on the GPU at once, or the launch fails.
 */
#include "ctrl_work.h"
#include "medium_fixture.h"

#define THREADS	   128u /* of a block; the controller has at most as many */
#define QUEUES_MAX 2u
#define WARPS_MAX  (QUEUES_MAX * THREADS / 32)
#define STRIDE	   8192u /* from one thread's buffer to the next */
#define LATE_NS	   20000u
#define KINDS	   6u /* of commands that clients try at the end; the last one is right */

struct shape {
	const char *name;
	bool host; /* where the medium is */
	uint32_t queues, shift, warps, batch;
	uint32_t clients; /* blocks */
	uint32_t blocks;  /* per command */
	uint32_t offset;  /* of buffers in their pages */
	uint32_t rounds;
	bool mixed; /* only some lanes have something to do */
	bool late, model;
	uint32_t block_shift = 9;
};

static const struct shape shapes[] = {
	{"ring of 2", false, 1, 1, 1, 4, 1, 1, 0, 2, false, false, false},
	{"ring of 2, host", true, 1, 1, 3, 1, 2, 1, 0, 2, true, false, false},
	{"ring of 8", false, 1, 3, 2, 5, 2, 1, 0, 4, true, false, false},
	{"ring of 8, host", true, 2, 3, 4, 8, 4, 2, 512, 4, false, false, false},
	{"ring of 64", false, 2, 6, 4, 16, 4, 3, 3072, 4, true, false, false},
	{"ring of 64, host", true, 2, 6, 3, 32, 4, 8, 1040, 4, false, false, false},
	{"late data", false, 2, 6, 2, 8, 4, 1, 0, 4, false, true, false},
	{"a model", true, 1, 6, 2, 8, 2, 1, 0, 4, true, false, true},
	{"blocks of 4096", false, 2, 6, 3, 8, 4, 1, 0, 2, true, false, false, 12},
	{"of 2048, host", true, 2, 6, 3, 16, 2, 2, 2048, 2, false, false, true, 11},
};

/* What clients, controller and host share. */
struct room {
	struct fth_nvme_qp qps[QUEUES_MAX];
	struct fth_gpu_ctrl_queue queues[QUEUES_MAX];
	struct fth_gpu_ctrl_ssd ssd;
	struct fth_gpu_ctrl_control control;
	struct fth_gpu_ctrl_count counts[WARPS_MAX];
	struct fth_gpu_order order;
	uint32_t late[WARPS_MAX];
	uint32_t doorbells[QUEUES_MAX][2][32]; /* each on a line of its own */
	uint32_t ended;			       /* blocks of clients */
	uint32_t errors, wrong;
	int last;
};

struct job {
	struct shape shape;
	struct fth_gpu_ctrl ctrl;
	struct fth_gpu_view view;
	struct room *room;
	char *memory; /* buffers of clients */
};

/* The first block that a client uses in a round, and whether it does. */
FTH_HD uint64_t first_of(const struct shape *s, uint32_t thread, uint32_t round)
{
	return ((uint64_t)round * s->clients * THREADS + thread) * s->blocks;
}

/* Words of a block. */
FTH_HD uint32_t words_of(const struct shape *s)
{
	return 1u << (s->block_shift - 3);
}

FTH_HD bool wants(const struct shape *s, uint64_t first)
{
	return !s->mixed || fth_mix64(first) % 3;
}

/* ---- clients ---- */

struct client {
	uint32_t thread, queue;
	uint64_t *words;
	struct fth_nvme_warp warp;
};

/* A transfer for each lane that wants it. False: a lane failed. */
__device__ static bool transfer(const struct job *job, const struct client *me, uint8_t opcode,
				uint64_t first, bool want)
{
	struct fth_gpu_io io = {};
	int rc;

	io.opcode = opcode;
	io.first = first;
	io.blocks = job->shape.blocks;
	io.memory = me->words;
	__syncwarp();
	rc = fth_gpu_io(&job->view, me->queue, &me->warp, want, &io, me->thread / 32,
			fth_deadline_ns(PATIENCE_NS));
	if (rc < 0) {
		atomicAdd(&job->room->errors, 1);
		job->room->last = rc;
	}
	return !__any_sync(ALL_LANES, rc < 0);
}

/* False: a lane failed. */
__device__ static bool write_and_read(const struct job *job, const struct client *me,
				      uint32_t round)
{
	uint64_t first = first_of(&job->shape, me->thread, round);
	bool want = wants(&job->shape, first);
	uint32_t each = words_of(&job->shape), n = job->shape.blocks * each, wrong = 0;

	for (uint32_t i = 0; i < n; i++)
		me->words[i] = fixture_word(0, first + i / each, i % each);
	/* The flush is also what data that comes late is waited for with. */
	if (!transfer(job, me, FTH_NVME_WRITE, first, want) ||
	    !transfer(job, me, FTH_NVME_FLUSH, 0, want))
		return false;
	for (uint32_t i = 0; i < n; i++)
		me->words[i] = ~me->words[i];
	if (!transfer(job, me, FTH_NVME_READ, first, want))
		return false;
	for (uint32_t i = 0; want && i < n; i++)
		wrong += me->words[i] != fixture_word(0, first + i / each, i % each);
	atomicAdd(&job->room->wrong, wrong);
	return true;
}

/* Make of a read a command of this kind; returns the status that it is to end with. */
__device__ static uint32_t make_kind(uint32_t kind, uint64_t blocks, struct fth_nvme_sqe *c)
{
	switch (kind) {
	case 0:
		c->cdw10 = (uint32_t)blocks;
		return FTH_NVME_LBA_RANGE;
	case 1:
		c->cdw10 = (uint32_t)blocks - 1;
		c->cdw12 = 1;
		return FTH_NVME_LBA_RANGE;
	case 2:
		c->opcode = 0x77;
		return FTH_NVME_INVALID_OPCODE;
	case 3:
		c->nsid = 2;
		return FTH_NVME_INVALID_NAMESPACE;
	case 4:
		c->prp1 += 8;
		return FTH_NVME_PRP_OFFSET_INVALID;
	default:
		return FTH_NVME_SUCCESS;
	}
}

__device__ static void try_kinds(const struct job *job, const struct client *me)
{
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done = {0, 0};
	uint32_t status;
	int rc;

	command.opcode = FTH_NVME_READ;
	command.nsid = 1;
	command.prp1 = (uint64_t)me->words;
	status = make_kind(me->thread % 32 % KINDS, job->view.blocks, &command);
	if (status != FTH_NVME_SUCCESS)
		status |= FTH_NVME_STATUS_DO_NOT_RETRY;
	rc = fth_nvme_warp_exec(&job->room->qps[me->queue], &me->warp, true, &command,
				me->thread / 32, fth_deadline_ns(PATIENCE_NS), &done, NULL);
	if (done.status != status || rc != fth_nvme_status_errno((uint16_t)status)) {
		atomicAdd(&job->room->errors, 1);
		job->room->last = rc;
	}
}

__device__ static void be_client(const struct job *job, uint32_t block)
{
	bool well = true;
	struct client me;

	me.thread = block * THREADS + threadIdx.x;
	me.queue = me.thread / 32 % job->view.queues;
	me.words = (uint64_t *)(job->memory + (size_t)me.thread * STRIDE + job->shape.offset);
	me.warp = fth_nvme_warp_of(ALL_LANES);
	for (uint32_t round = 0; well && round < job->shape.rounds; round++)
		well = write_and_read(job, &me, round);
	if (well)
		try_kinds(job, &me);
	/* All warps of the block have their answers; and all blocks, when the last one counts. */
	__syncthreads();
	if (threadIdx.x == 0 &&
	    fth_add_acqrel_dev32(&job->room->ended, 1) + 1 == job->shape.clients)
		fth_store_release_dev32(&job->room->control.stop, 1);
}

__global__ static void __launch_bounds__(THREADS, 1) run(struct job job)
{
	if (blockIdx.x < job.shape.queues)
		serve_queue(&job.ctrl, blockIdx.x);
	else
		be_client(&job, blockIdx.x - job.shape.queues);
}

/* ---- the host's side ---- */

/* Zeroed, for host and GPU, which use it in turn. */
static void *managed(size_t bytes)
{
	void *at = NULL;

	CHECK(cudaMallocManaged(&at, bytes));
	memset(at, 0, bytes);
	return at;
}

static void make_queue(struct job *job, uint32_t q)
{
	struct fth_gpu_ctrl_queue *seen = &job->room->queues[q];
	uint32_t shift = job->shape.shift, ids = fth_nvme_qp_ids_max(shift, shift);
	struct fth_nvme_qp_setup setup = {};

	setup.sq = managed(sizeof(struct fth_nvme_sqe) << shift);
	setup.cq = managed(sizeof(struct fth_nvme_cqe) << shift);
	setup.memory = managed(fth_nvme_qp_memory(shift, ids));
	setup.sq_doorbell = job->room->doorbells[q][0];
	setup.cq_doorbell = job->room->doorbells[q][1];
	setup.sq_shift = setup.cq_shift = shift;
	setup.ids = ids;
	setup.qid = q + 1;
	OK(fth_nvme_qp_init(&job->room->qps[q], &setup));
	*seen = {(const struct fth_nvme_sqe *)setup.sq,
		 (struct fth_nvme_cqe *)setup.cq,
		 setup.sq_doorbell,
		 setup.cq_doorbell,
		 shift,
		 shift,
		 q + 1,
		 0};
}

static size_t medium_bytes(const struct shape *s)
{
	return (size_t)s->clients * THREADS * s->rounds * s->blocks << s->block_shift;
}

static char *make_medium(const struct shape *s)
{
	void *medium = NULL;

	if (s->host) {
		CHECK(cudaMallocHost(&medium, medium_bytes(s)));
		memset(medium, 0, medium_bytes(s));
	} else {
		CHECK(cudaMalloc(&medium, medium_bytes(s)));
		CHECK(cudaMemset(medium, 0, medium_bytes(s)));
	}
	return (char *)medium;
}

static void set_model(struct fth_gpu_ctrl_ssd *ssd)
{
	ssd->read = {2000, 16 * 100, 16 * 400};
	ssd->write = {3000, 16 * 100, 16 * 400};
	ssd->flush_ns = 1000;
}

static struct job make_job(const struct shape *s)
{
	struct job job = {};

	job.shape = *s;
	job.room = (struct room *)managed(sizeof(*job.room));
	CHECK(cudaMalloc((void **)&job.memory, (size_t)s->clients * THREADS * STRIDE));
	for (uint32_t q = 0; q < s->queues; q++)
		make_queue(&job, q);
	job.room->ssd.medium = make_medium(s);
	job.room->ssd.blocks = medium_bytes(s) >> s->block_shift;
	if (s->model)
		set_model(&job.room->ssd);
	job.ctrl = {job.room->queues,
		    &job.room->ssd,
		    &job.room->control,
		    job.room->counts,
		    s->late ? job.room->late : NULL,
		    s->queues,
		    s->warps,
		    s->batch,
		    s->block_shift,
		    s->host,
		    s->model,
		    LATE_NS};
	job.view.qps = job.room->qps;
	job.view.order = s->late ? &job.room->order : NULL;
	job.view.blocks = job.room->ssd.blocks;
	job.view.queues = s->queues;
	job.view.ssds = 1;
	job.view.block_shift = s->block_shift;
	return job;
}

static void release_job(struct job *job)
{
	for (uint32_t q = 0; q < job->shape.queues; q++) {
		CHECK(cudaFree(job->room->qps[q].sq));
		CHECK(cudaFree(job->room->qps[q].cq));
		CHECK(cudaFree(job->room->qps[q].free_ids)); /* the memory begins there */
	}
	if (job->shape.host)
		CHECK(cudaFreeHost(job->room->ssd.medium));
	else
		CHECK(cudaFree(job->room->ssd.medium));
	CHECK(cudaFree(job->memory));
	CHECK(cudaFree(job->room));
}

/* Afterwards nothing is left over: all ids are free, all heads and tails agree. */
static uint64_t check_queue(const struct job *job, uint32_t q)
{
	const struct fth_nvme_qp *qp = &job->room->qps[q];
	uint32_t ids = 0, warps = job->shape.warps;
	uint64_t commands = 0;

	for (uint32_t i = 0; i < warps; i++)
		commands += job->room->counts[q * warps + i].commands;
	for (uint32_t w = 0; w < (qp->ids + 31) / 32; w++)
		ids += (uint32_t)__builtin_popcount(qp->free_ids[w].bits);
	MUST(ids == qp->ids && commands > 0);
	MUST(qp->ticket == commands && qp->tail == commands);
	MUST(qp->sq_head == commands && qp->cq_head == commands);
	MUST(qp->ring_lock + qp->reap_lock + qp->failed + qp->waiters == 0);
	return commands;
}

/* The words of a transfer as they are to be on the medium. How many are not. */
static uint64_t check_words(const struct shape *s, const uint64_t *words, uint64_t first)
{
	bool touched = wants(s, first);
	uint32_t each = words_of(s);
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < s->blocks * each; i++)
		wrong += words[first * each + i] !=
			 (touched ? fixture_word(0, first + i / each, i % each) : 0);
	return wrong;
}

/* Returns how many transfers were wanted. */
static uint64_t check_medium(const struct job *job)
{
	const struct shape *s = &job->shape;
	uint64_t *words = (uint64_t *)malloc(medium_bytes(s)), wanted = 0;

	MUST(words != NULL);
	CHECK(cudaMemcpy(words, job->room->ssd.medium, medium_bytes(s), cudaMemcpyDefault));
	for (uint32_t round = 0; round < s->rounds; round++)
		for (uint32_t thread = 0; thread < s->clients * THREADS; thread++) {
			uint64_t first = first_of(s, thread, round);

			MUST(check_words(s, words, first) == 0);
			wanted += wants(s, first);
		}
	free(words);
	return wanted;
}

static void check_counts(const struct job *job, uint64_t wanted)
{
	const struct shape *s = &job->shape;
	uint64_t warps = s->clients * THREADS / 32, right = warps * (32 / KINDS);
	struct fth_gpu_ctrl_count sum = {};

	for (uint32_t i = 0; i < s->queues * s->warps; i++) {
		sum.blocks_read += job->room->counts[i].blocks_read;
		sum.blocks_written += job->room->counts[i].blocks_written;
		sum.flushes += job->room->counts[i].flushes;
		sum.errors += job->room->counts[i].errors;
	}
	MUST(sum.blocks_written == wanted * s->blocks);
	MUST(sum.blocks_read == wanted * s->blocks + right);
	MUST(sum.flushes == wanted + job->room->order.commands);
	MUST(sum.errors == warps * 32 - right);
	MUST(!s->late || job->room->order.commands > 0);
}

static void run_shape(const struct shape *s)
{
	struct job job = make_job(s);
	void *arguments[] = {&job};
	uint64_t commands = 0;

	/* Cooperative: all blocks at once, or none. */
	CHECK(cudaLaunchCooperativeKernel((const void *)run, dim3(s->queues + s->clients),
					  dim3(THREADS), arguments, 0, 0));
	CHECK(cudaDeviceSynchronize());
	if (job.room->errors || job.room->wrong)
		fprintf(stderr, "%s: %u errors, one is %d; %u words are wrong\n", s->name,
			job.room->errors, job.room->last, job.room->wrong);
	MUST(job.room->errors == 0 && job.room->wrong == 0 && job.room->control.broken == 0);
	MUST(job.room->control.up == s->queues * s->warps);
	for (uint32_t q = 0; q < s->queues; q++)
		commands += check_queue(&job, q);
	check_counts(&job, check_medium(&job));
	printf("%-16s %6llu commands\n", s->name, (unsigned long long)commands);
	release_job(&job);
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	for (struct shape s : shapes) {
		if (bed_asked.small) {
			s.clients = s.clients < 2 ? s.clients : 2;
			s.rounds = 1;
		}
		run_shape(&s);
	}
	return 0;
}
