/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GPU threads write and read blocks of drives of all shapes; every word is checked, on the GPU
 * and, where the medium is the host's memory, by the host. Skipped (77) without a GPU.
 */
#include "gpu/gpu_fixture.h"

#include "fathom/dev/delay.h"

#include <string.h>

struct shape {
	const char *name;
	enum fth_gpu_medium medium;
	uint32_t ssds, queues, entries, warps, batch;
	uint32_t threads; /* a multiple of 32 */
	uint32_t blocks;  /* per command */
	uint32_t offset;  /* of buffers in their pages */
	uint32_t lanes;	  /* which of each warp take part */
	uint32_t rounds;
	const char *model;
	uint32_t block = 512;
};

static const struct shape shapes[] = {
	{"one thread", FTH_GPU_MEDIUM_DEVICE, 1, 1, 64, 1, 0, 32, 1, 0, 1, 20, NULL},
	{"smallest ring", FTH_GPU_MEDIUM_DEVICE, 1, 1, 2, 1, 0, 64, 1, 0, ~0u, 4, NULL},
	{"small ring", FTH_GPU_MEDIUM_DEVICE, 1, 1, 8, 2, 0, 256, 1, 0, ~0u, 4, NULL},
	{"one warp", FTH_GPU_MEDIUM_HOST, 1, 1, 1024, 1, 0, 32, 1, 0, ~0u, 50, NULL},
	{"odd lanes", FTH_GPU_MEDIUM_HOST, 1, 2, 64, 2, 5, 512, 1, 0, 0xaaaaaaaau, 6, NULL},
	{"seven lanes", FTH_GPU_MEDIUM_DEVICE, 1, 1, 16, 4, 3, 512, 1, 0, 0x80300f00u, 6, NULL},
	{"one queue pair", FTH_GPU_MEDIUM_HOST, 1, 1, 1024, 0, 0, 4096, 1, 0, ~0u, 4, NULL},
	{"many", FTH_GPU_MEDIUM_HOST, 1, 128, 1024, 0, 0, 16384, 1, 0, ~0u, 4, NULL},
	{"pages", FTH_GPU_MEDIUM_HOST, 1, 16, 1024, 0, 0, 4096, 8, 0, ~0u, 2, NULL},
	{"two pages", FTH_GPU_MEDIUM_DEVICE, 1, 4, 128, 0, 0, 1024, 8, 1040, ~0u, 2, NULL},
	{"three blocks", FTH_GPU_MEDIUM_HOST, 1, 4, 128, 0, 0, 1024, 3, 3072, ~0u, 3, NULL},
	{"sixteen SSDs", FTH_GPU_MEDIUM_HOST, 16, 32, 256, 0, 0, 4096, 1, 0, ~0u, 2, NULL},
	{"a model", FTH_GPU_MEDIUM_HOST, 4, 8, 256, 0, 0, 1024, 1, 0, ~0u, 2, "p5800x"},
	{"4 KiB blocks", FTH_GPU_MEDIUM_HOST, 1, 4, 256, 0, 0, 1024, 1, 0, ~0u, 2, NULL, 4096},
	{"4 KiB, 2 pages", FTH_GPU_MEDIUM_DEVICE, 2, 4, 64, 0, 0, 512, 1, 1040, ~0u, 2, NULL, 4096},
	{"8 KiB, a model", FTH_GPU_MEDIUM_HOST, 1, 2, 64, 0, 0, 256, 1, 0, 0xaaaaaaaau, 2, "p5800x",
	 8192},
	{"2 KiB blocks", FTH_GPU_MEDIUM_HOST, 2, 4, 64, 0, 0, 512, 2, 0, ~0u, 2, NULL, 2048},
};

struct result {
	uint32_t errors, wrong;
	int last;
};

struct job {
	struct fth_gpu_view view;
	char *memory;
	size_t stride; /* from one thread's buffer to the next */
	uint32_t blocks, offset, lanes, rounds;
	struct result *result;
};

__device__ static char *buffer_of(const struct job *job, uint32_t thread)
{
	return job->memory + thread * job->stride + job->offset;
}

/* A block of its own for each thread and round, scattered: the factor is a prime above n's. */
__device__ static uint64_t block_of(const struct job *job, uint32_t thread, uint32_t round)
{
	uint64_t n = (uint64_t)gridDim.x * blockDim.x * job->rounds;

	return ((uint64_t)round * gridDim.x * blockDim.x + thread) * 1000003u % n * job->blocks;
}

__device__ static void note(const struct job *job, int rc, uint32_t wrong)
{
	if (rc < 0) {
		atomicAdd(&job->result->errors, 1);
		job->result->last = rc;
	}
	if (wrong)
		atomicAdd(&job->result->wrong, wrong);
}

/* Words of a block. */
__device__ static uint32_t words_of(const struct job *job)
{
	return 1u << (job->view.block_shift - 3);
}

__device__ static void stamp(const struct job *job, uint64_t *words, uint32_t ssd, uint64_t first)
{
	uint32_t each = words_of(job);

	for (uint32_t i = 0; i < job->blocks * each; i++)
		words[i] = fixture_word(ssd, first + i / each, i % each);
}

__device__ static uint32_t mismatches(const struct job *job, const uint64_t *words, uint32_t ssd,
				      uint64_t first)
{
	uint32_t wrong = 0, each = words_of(job);

	for (uint32_t i = 0; i < job->blocks * each; i++)
		wrong += words[i] != fixture_word(ssd, first + i / each, i % each);
	return wrong;
}

/* Each thread that takes part writes its blocks, or reads them into a spoilt buffer. */
__global__ static void transfer(struct job job, uint8_t opcode)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x,
		 queue = thread / 32 % job.view.queues;
	uint64_t *words = (uint64_t *)buffer_of(&job, thread);
	uint32_t ssd = queue % job.view.ssds;
	struct fth_nvme_warp warp;
	struct fth_gpu_io io = {};

	if (!(job.lanes & 1u << threadIdx.x % 32))
		return;
	warp = fth_nvme_warp_of(job.lanes);
	io.opcode = opcode;
	io.blocks = job.blocks;
	io.memory = words;
	for (uint32_t round = 0; round < job.rounds; round++) {
		int rc;

		io.first = block_of(&job, thread, round);
		if (opcode == FTH_NVME_WRITE)
			stamp(&job, words, ssd, io.first);
		else
			for (uint32_t i = 0; i < job.blocks * words_of(&job); i++)
				words[i] = ~fixture_word(ssd, io.first, i);
		__syncwarp(job.lanes);
		rc = fth_gpu_io(&job.view, queue, &warp, true, &io, thread / 32,
				fth_deadline_ns(PATIENCE_NS));
		note(&job, rc, 0);
		if (opcode == FTH_NVME_READ)
			note(&job, 0, mismatches(&job, words, ssd, io.first));
	}
}

__global__ static void flush(struct job job)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	struct fth_gpu_io io = {};
	int rc;

	io.opcode = FTH_NVME_FLUSH;
	io.blocks = 1;
	for (uint32_t q = 0; q < job.view.queues; q++) {
		rc = fth_gpu_io(&job.view, q, &warp, threadIdx.x == 0, &io, 0,
				fth_deadline_ns(PATIENCE_NS));
		note(&job, rc, 0);
	}
}

/* What the host sees: each block is untouched or as its writer left it, and enough are not. */
static uint32_t host_check(const struct shape *s, const struct fth_gpu_drive *drive, uint64_t bytes)
{
	uint64_t stamped = 0, wrong = 0;
	uint32_t each = s->block / 8;

	for (uint32_t ssd = 0; ssd < s->ssds; ssd++) {
		const uint64_t *words = (const uint64_t *)fth_gpu_drive_medium(drive, ssd);

		for (uint64_t b = 0; b < bytes / s->block; b++) {
			bool touched = words[b * each] != 0;

			for (uint32_t i = 0; touched && i < each; i++)
				wrong += words[b * each + i] != fixture_word(ssd, b, i);
			stamped += touched;
		}
	}
	MUST(stamped == (uint64_t)s->threads / 32 * (uint32_t)__builtin_popcount(s->lanes) *
				s->rounds * s->blocks);
	return (uint32_t)wrong;
}

static void finish(cudaStream_t stream)
{
	CHECK(cudaGetLastError());
	CHECK(cudaStreamSynchronize(stream));
}

static struct job make_job(const struct shape *s)
{
	struct job job = {};

	job.stride = (s->offset + s->blocks * s->block + 4095) / 4096 * 4096;
	job.blocks = s->blocks;
	job.offset = s->offset;
	job.lanes = s->lanes;
	job.rounds = s->rounds;
	CHECK(cudaMalloc((void **)&job.memory, job.stride * s->threads));
	CHECK(cudaMalloc((void **)&job.result, sizeof(*job.result)));
	CHECK(cudaMemset(job.result, 0, sizeof(*job.result)));
	return job;
}

static struct fth_gpu_drive *open_drive(const struct shape *s, uint64_t bytes)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_drive *drive;

	opts.medium = s->medium;
	opts.ssds = s->ssds;
	opts.queues = s->queues;
	opts.entries = s->entries;
	opts.warps = s->warps;
	opts.batch = s->batch;
	opts.bytes = bytes;
	opts.block = s->block;
	opts.model = s->model ? fth_dev_model(s->model) : NULL;
	OK(fth_gpu_drive_open(&opts, &drive));
	return drive;
}

static int run_shape(const struct shape *s)
{
	uint64_t bytes = (uint64_t)s->threads * s->rounds * s->blocks * s->block;
	uint32_t per_block = s->threads < 128 ? 32 : 128;
	struct fth_gpu_drive_stats stats;
	struct fth_gpu_drive *drive;
	struct job job = make_job(s);
	struct result result;
	cudaStream_t stream;
	uint32_t host_wrong = 0;

	bytes = (bytes + 4095) / 4096 * 4096;
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	drive = open_drive(s, bytes);
	job.view = fth_gpu_drive_view(drive);
	transfer<<<s->threads / per_block, per_block, 0, stream>>>(job, FTH_NVME_WRITE);
	finish(stream);
	transfer<<<s->threads / per_block, per_block, 0, stream>>>(job, FTH_NVME_READ);
	finish(stream);
	flush<<<1, 32, 0, stream>>>(job);
	finish(stream);
	if (s->medium == FTH_GPU_MEDIUM_HOST)
		host_wrong = host_check(s, drive, bytes);
	OK(fth_gpu_drive_stop(drive));
	OK(fth_gpu_drive_stats(drive, &stats));
	CHECK(cudaMemcpy(&result, job.result, sizeof(result), cudaMemcpyDeviceToHost));
	OK(fth_gpu_drive_close(drive));
	CHECK(cudaFree(job.result));
	CHECK(cudaFree(job.memory));
	CHECK(cudaStreamDestroy(stream));
	printf("%-15s %8llu commands in %7llu batches, %u errors (%d), %u + %u wrong words\n",
	       s->name, (unsigned long long)stats.commands, (unsigned long long)stats.batches,
	       result.errors, result.last, result.wrong, host_wrong);
	MUST(stats.blocks_read == stats.blocks_written && stats.errors == 0);
	MUST(stats.flushes == s->queues);
	return result.errors || result.wrong || host_wrong;
}

/* --small: leave out what takes too long under a checker. */
int main(int argc, char **argv)
{
	bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
	int bad = 0;

	skip_without_gpu();
	for (const struct shape &s : shapes)
		if (!small || s.threads <= 1024)
			bad += run_shape(&s);
	return bad != 0;
}
