/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes wrong with GPU drives comes back as the right error, in time, and leaves the drive
 * usable: commands that make no sense, a controller that is too slow or gone, data that comes
 * after its completion, a kernel that fails. Skipped (77) without a GPU.
 */
#include "gpu/gpu_fixture.h"

#include <string.h>

#define BYTES	(1u << 20)
#define BLOCKS	(BYTES / 512)
#define THREADS 256u

struct fixture {
	struct fth_gpu_drive *drive;
	struct fth_gpu_view view;
	cudaStream_t stream;
	char *memory; /* a page for each thread */
	int *rcs;     /* per thread */
	int host_rcs[THREADS];
};

static struct fixture set_up(const struct fth_gpu_drive_options *opts)
{
	struct fixture f = {};

	CHECK(cudaStreamCreateWithFlags(&f.stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&f.memory, THREADS * 4096));
	CHECK(cudaMalloc((void **)&f.rcs, sizeof(f.host_rcs)));
	CHECK(cudaMemset(f.memory, 0, THREADS * 4096));
	OK(fth_gpu_drive_open(opts, &f.drive));
	f.view = fth_gpu_drive_view(f.drive);
	return f;
}

static void tear_down(struct fixture *f)
{
	OK(fth_gpu_drive_close(f->drive));
	CHECK(cudaFree(f->memory));
	CHECK(cudaFree(f->rcs));
	CHECK(cudaStreamDestroy(f->stream));
}

static struct fth_gpu_drive_options small(void)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	opts.bytes = BYTES;
	opts.entries = 64;
	opts.queues = 2;
	return opts;
}

static void collect(struct fixture *f)
{
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpyAsync(f->host_rcs, f->rcs, sizeof(f->host_rcs), cudaMemcpyDeviceToHost,
			      f->stream));
	CHECK(cudaStreamSynchronize(f->stream));
}

/* ---- commands ---- */

__global__ static void one_each(struct fth_gpu_view view, char *memory, int *rcs,
				struct fth_nvme_sqe command, uint64_t patience)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
	struct fth_nvme_warp warp = fth_nvme_warp_of(blockDim.x == 1 ? 1 : ~0u);
	struct fth_nvme_done done;

	command.prp1 += (uint64_t)memory + thread * 4096;
	if (command.cdw10 == 0)
		command.cdw10 = thread;
	rcs[thread] =
		fth_nvme_warp_exec(&view.qps[thread / 32 % view.queues], &warp, true, &command,
				   thread / 32, fth_deadline_ns(patience), &done, NULL);
}

static int all_the_same(const struct fixture *f)
{
	for (uint32_t i = 1; i < THREADS; i++)
		MUST(f->host_rcs[i] == f->host_rcs[0]);
	return f->host_rcs[0];
}

static int run_one(struct fixture *f, struct fth_nvme_sqe command, uint64_t patience)
{
	one_each<<<THREADS / 64, 64, 0, f->stream>>>(f->view, f->memory, f->rcs, command, patience);
	collect(f);
	return all_the_same(f);
}

static struct fth_nvme_sqe a_read(void)
{
	struct fth_nvme_sqe command = {};

	command.opcode = FTH_NVME_READ;
	command.nsid = 1;
	return command;
}

static void test_status(void)
{
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_drive_stats stats;
	struct fixture f = set_up(&opts);
	struct fth_nvme_sqe c = a_read();

	c.cdw10 = BLOCKS;
	MUST(run_one(&f, c, PATIENCE_NS) == -ERANGE);
	c.cdw10 = BLOCKS - 1;
	MUST(run_one(&f, c, PATIENCE_NS) == 0);
	c.cdw12 = 1;
	MUST(run_one(&f, c, PATIENCE_NS) == -ERANGE);
	c.cdw11 = 0xffffffff;
	MUST(run_one(&f, c, PATIENCE_NS) == -ERANGE);
	c = a_read();
	c.opcode = 0x77;
	MUST(run_one(&f, c, PATIENCE_NS) == -EOPNOTSUPP);
	c = a_read();
	c.nsid = 2;
	MUST(run_one(&f, c, PATIENCE_NS) == -ENODEV);
	c = a_read();
	c.prp1 = 8;
	MUST(run_one(&f, c, PATIENCE_NS) == -EINVAL);
	c = a_read();
	c.cdw12 = FTH_NVME_RW_BLOCKS_MASK;
	MUST(run_one(&f, c, PATIENCE_NS) == -ERANGE);
	c = a_read();
	MUST(run_one(&f, c, PATIENCE_NS) == 0);
	OK(fth_gpu_drive_stop(f.drive));
	OK(fth_gpu_drive_stats(f.drive, &stats));
	MUST(stats.errors == 7 * THREADS && stats.commands == 9 * THREADS);
	tear_down(&f);
	printf("status: every wrong command was refused\n");
}

/* Seventeen pages by a list; the buffer is its own pages in another order. */
static void test_list(void)
{
	struct fth_gpu_drive_options opts = small();
	struct fixture f;
	struct fth_nvme_sqe c = a_read();
	uint64_t list[16], *device_list, *words;
	char *pages = (char *)malloc(17 * 4096);

	CHECK(cudaMalloc((void **)&device_list, 4096));
	f = set_up(&opts);
	words = (uint64_t *)fth_gpu_drive_medium(f.drive, 0);
	for (uint32_t i = 0; i < BYTES / 8; i++)
		words[i] = fixture_word(0, i / 64, i % 64);
	for (uint32_t i = 0; i < 16; i++)
		list[i] = (uint64_t)f.memory + (16 - i) * 4096;
	CHECK(cudaMemcpyAsync(device_list, list, sizeof(list), cudaMemcpyHostToDevice, f.stream));
	c.prp2 = (uint64_t)device_list;
	c.cdw10 = 8;
	c.cdw12 = 17 * 8 - 1;
	one_each<<<1, 1, 0, f.stream>>>(f.view, f.memory, f.rcs, c, PATIENCE_NS);
	collect(&f);
	MUST(f.host_rcs[0] == 0);
	CHECK(cudaMemcpyAsync(pages, f.memory, 17 * 4096, cudaMemcpyDeviceToHost, f.stream));
	CHECK(cudaStreamSynchronize(f.stream));
	for (uint32_t p = 0; p < 17; p++) {
		uint32_t place = p == 0 ? 0 : 17 - p;

		for (uint32_t i = 0; i < 512; i++)
			MUST(((uint64_t *)pages)[place * 512 + i] ==
			     fixture_word(0, 8 + p * 8 + i / 64, i % 64));
	}
	tear_down(&f);
	CHECK(cudaFree(device_list));
	free(pages);
	printf("list: pages arrived where the list says\n");
}

/* ---- a controller that is slow, and one that is gone ---- */

static void test_deadline(void)
{
	static const struct fth_dev_model slow = {"slow",    "", "", {3000000000u, 0, 0},
						  {0, 0, 0}, 0};
	struct fth_gpu_drive_options opts = small();
	struct fixture f;

	opts.model = &slow;
	f = set_up(&opts);
	MUST(run_one(&f, a_read(), 20000000) == -ETIME);
	OK(fth_gpu_drive_stop(f.drive));
	MUST(run_one(&f, a_read(), PATIENCE_NS) == -ESHUTDOWN);
	tear_down(&f);
	printf("deadline: a slow controller ended in -ETIME, a stopped one in -ESHUTDOWN\n");
}

static void test_restart(void)
{
	struct fth_gpu_drive_options opts = small();
	struct fixture f = set_up(&opts);

	for (int i = 0; i < 3; i++) {
		MUST(run_one(&f, a_read(), PATIENCE_NS) == 0);
		OK(fth_gpu_drive_stop(f.drive));
		MUST(run_one(&f, a_read(), PATIENCE_NS) == -ESHUTDOWN);
		OK(fth_gpu_drive_start(f.drive));
	}
	tear_down(&f);
	printf("restart: a stopped drive starts again\n");
}

/* Waits that are under way when the drive is stopped end at once. */
static void test_stop_while_waiting(void)
{
	static const struct fth_dev_model slow = {"slow",    "", "", {3000000000u, 0, 0},
						  {0, 0, 0}, 0};
	struct fth_gpu_drive_options opts = small();
	struct fixture f;

	opts.model = &slow;
	f = set_up(&opts);
	one_each<<<THREADS / 64, 64, 0, f.stream>>>(f.view, f.memory, f.rcs, a_read(), PATIENCE_NS);
	OK(fth_gpu_drive_stop(f.drive));
	collect(&f);
	MUST(all_the_same(&f) == -ESHUTDOWN);
	tear_down(&f);
	printf("stop: those who waited were told\n");
}

/* ---- data that comes after its completion ---- */

__global__ static void read_and_check(struct fth_gpu_view view, char *memory, int *rcs,
				      uint32_t round)
{
	uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x, wrong = 0;
	uint64_t *words = (uint64_t *)(memory + thread * 4096);
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	struct fth_gpu_io io = {};
	int rc;

	io.opcode = FTH_NVME_READ;
	io.first = (thread * 7 + round * 64) % BLOCKS;
	io.blocks = 1;
	io.memory = words;
	rc = fth_gpu_io(&view, thread / 32 % view.queues, &warp, true, &io, thread / 32,
			fth_deadline_ns(PATIENCE_NS));
	for (uint32_t i = 0; i < 64; i++)
		wrong += fth_load_relaxed_dev64(&words[i]) != fixture_word(0, io.first, i);
	rcs[thread] = rc < 0 ? rc : (int)wrong;
}

static uint64_t wrong_words(bool ordered, uint64_t *second)
{
	struct fth_gpu_drive_options opts = small();
	struct fth_gpu_drive_stats stats;
	uint64_t wrong = 0, *words;
	struct fixture f;

	opts.late_data = true;
	opts.ordered = ordered;
	f = set_up(&opts);
	words = (uint64_t *)fth_gpu_drive_medium(f.drive, 0);
	for (uint32_t i = 0; i < BYTES / 8; i++)
		words[i] = fixture_word(0, i / 64, i % 64);
	for (uint32_t round = 0; round < 10; round++) {
		read_and_check<<<THREADS / 64, 64, 0, f.stream>>>(f.view, f.memory, f.rcs, round);
		collect(&f);
		for (uint32_t i = 0; i < THREADS; i++) {
			MUST(f.host_rcs[i] >= 0);
			wrong += (uint64_t)f.host_rcs[i];
		}
	}
	OK(fth_gpu_drive_stop(f.drive));
	OK(fth_gpu_drive_stats(f.drive, &stats));
	*second = stats.second_commands;
	tear_down(&f);
	return wrong;
}

static void test_order(void)
{
	uint64_t second, wrong = wrong_words(false, &second);

	printf("order: without the rule %llu words were stale,", (unsigned long long)wrong);
	MUST(wrong > 0 && second == 0);
	wrong = wrong_words(true, &second);
	printf(" with it %llu, at %llu second commands for %u\n", (unsigned long long)wrong,
	       (unsigned long long)second, THREADS * 10);
	MUST(wrong == 0 && second > 0 && second <= THREADS * 10 / 32);
}

/* ---- a kernel that fails ---- */

__global__ static void fail(void)
{
	__trap();
}

/* Last: the GPU is lost to this process afterwards; the host's memory is not. */
static void test_failed_kernel(void)
{
	struct fth_gpu_drive_options opts = small();
	struct fixture f = set_up(&opts);
	char *medium = (char *)fth_gpu_drive_medium(f.drive, 0);

	memset(medium, 0x5a, BYTES);
	fail<<<1, 1, 0, f.stream>>>();
	MUST(cudaStreamSynchronize(f.stream) != cudaSuccess);
	MUST(fth_gpu_drive_stop(f.drive) == -EIO);
	for (uint32_t i = 0; i < BYTES; i++)
		MUST(medium[i] == 0x5a);
	MUST(fth_gpu_drive_close(f.drive) == -EIO);
	printf("failure: a failed kernel is told, and the medium is whole\n");
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	test_status();
	test_list();
	test_deadline();
	test_restart();
	test_stop_while_waiting();
	test_order();
	if (argc < 2 || strcmp(argv[1], "--no-failure") != 0)
		test_failed_kernel();
	return 0;
}
