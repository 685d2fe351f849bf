/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair on a GPU: thousands of threads ask, one thread of another block plays the
 * controller, and every answer must be the one to the question asked. Compiled wherever nvcc is;
 * skipped (77) where there is no GPU to run on.
 */
#include "cuda_fixture.h"
#include "fathom/base/rng.h"
#include "fathom/detail/nvme/queue.h"

#define PATIENCE 10000000000ull /* ns: a hang ends as a failure, not as a dead GPU */
#define HELD_MAX 1024

struct run {
	struct fth_nvme_qp qp;
	uint32_t doorbells[2];
	uint32_t finished; /* clients */
	uint32_t wrong;
	uint32_t failed;
	int last_error;
};

__device__ static uint32_t answer_to(uint32_t question)
{
	return (uint32_t)fth_mix64(question);
}

__global__ static void prepare(struct run *run, struct fth_nvme_qp_setup setup)
{
	setup.sq_doorbell = &run->doorbells[0];
	setup.cq_doorbell = &run->doorbells[1];
	run->failed = fth_nvme_qp_init(&run->qp, &setup) != 0;
}

/* Fetch all there is, then answer newest first; never post into a full ring. */
__device__ static void controller(struct run *run, uint32_t clients)
{
	static __device__ uint32_t held[HELD_MAX][2];
	struct fth_nvme_qp *qp = &run->qp;
	uint32_t head = 0, tail = 0, n = 0, shift = qp->sq_shift;

	while (fth_load_acquire_dev32(&run->finished) < clients) {
		uint32_t rung = fth_load_acquire_sys32(&run->doorbells[0]);

		while (fth_ring_position(head, shift) != rung && n < HELD_MAX) {
			const struct fth_nvme_sqe *entry = &qp->sq[fth_ring_position(head, shift)];

			held[n][0] = entry->cid;
			held[n++][1] = entry->cdw10;
			head++;
		}
		while (n > 0 && fth_ring_position(tail + 1, shift) !=
					fth_load_acquire_sys32(&run->doorbells[1])) {
			struct fth_nvme_cqe *entry = &qp->cq[fth_ring_position(tail, shift)];

			n--;
			entry->result = answer_to(held[n][1]);
			entry->queue = fth_ring_position(head, shift);
			fth_store_release_sys32(&entry->info,
						fth_nvme_cqe_info((uint16_t)held[n][0],
								  fth_ring_phase(tail, shift), 0));
			tail++;
		}
	}
}

__device__ static void client(struct run *run, uint32_t me, uint32_t rounds)
{
	uint64_t deadline = fth_deadline_ns(PATIENCE);

	for (uint32_t i = 0; i < rounds; i++) {
		struct fth_nvme_sqe command = {};
		struct fth_nvme_done done = {0, 0};
		int rc;

		command.opcode = FTH_NVME_READ;
		command.cdw10 = me * rounds + i;
		rc = fth_nvme_qp_exec(&run->qp, &command, 32 * me, deadline, &done, NULL);
		if (rc < 0) {
			fth_add_relaxed_dev32(&run->failed, 1);
			run->last_error = rc;
			break;
		}
		if (done.result != answer_to(command.cdw10))
			fth_add_relaxed_dev32(&run->wrong, 1);
	}
	fth_add_acqrel_dev32(&run->finished, 1);
}

__global__ static void play(struct run *run, uint32_t rounds)
{
	uint32_t clients = (gridDim.x - 1) * blockDim.x;

	if (blockIdx.x > 0)
		client(run, (blockIdx.x - 1) * blockDim.x + threadIdx.x, rounds);
	else if (threadIdx.x == 0)
		controller(run, clients);
}

static int run_one(uint32_t shift, uint32_t blocks, uint32_t threads, uint32_t rounds)
{
	struct fth_nvme_qp_setup setup = {};
	struct run *run, result;
	size_t memory = fth_nvme_qp_memory(shift, fth_ring_mask(shift));

	CHECK(cudaMalloc(&run, sizeof(*run)));
	CHECK(cudaMemset(run, 0, sizeof(*run)));
	CHECK(cudaMalloc(&setup.sq, sizeof(struct fth_nvme_sqe) << shift));
	CHECK(cudaMalloc(&setup.cq, sizeof(struct fth_nvme_cqe) << shift));
	CHECK(cudaMalloc(&setup.memory, memory));
	setup.sq_shift = setup.cq_shift = shift;
	prepare<<<1, 1>>>(run, setup);
	CHECK(cudaGetLastError());
	play<<<blocks + 1, threads>>>(run, rounds);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpy(&result, run, sizeof(result), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(setup.memory));
	CHECK(cudaFree(setup.cq));
	CHECK(cudaFree(setup.sq));
	CHECK(cudaFree(run));
	printf("ring %5u, %6u threads, %4u rounds: %u wrong, %u failed (%d), %.1f commands per "
	       "submission doorbell\n",
	       1u << shift, blocks * threads, rounds, result.wrong, result.failed,
	       result.last_error, (double)result.qp.ticket / (double)result.qp.sq_doorbell_writes);
	return result.wrong || result.failed;
}

int main(void)
{
	static const struct {
		uint32_t shift, blocks, threads, rounds;
	} cases[] = {
		{1, 1, 1, 100},	   {1, 1, 64, 20},    {2, 2, 96, 20},	 {5, 8, 128, 50},
		{10, 1, 32, 1000}, {10, 16, 256, 50}, {10, 64, 512, 10},
	};
	int bad = 0;

	skip_without_gpu();
	for (const auto &c : cases)
		bad += run_one(c.shift, c.blocks, c.threads, c.rounds);
	return bad != 0;
}
