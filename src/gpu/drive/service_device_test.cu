/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernels on drives that CPU threads serve: a file that is larger than the cache is read and
 * written, and both sides find what the other wrote; what is refused and what fails is told with
 * its status; a device that holds commands holds nobody else. Skipped (77) without a GPU, after
 * what can be tested there.
 */
#include "gpu/cache/cache_fixture.h"

#include <string.h>
#include <unistd.h>

#define BYTES (2u << 20)

static uint32_t blocks = 32;   /* of the kernels; fewer with --small, */
static uint64_t bytes = BYTES; /* and less of a file */

/* ---- names ---- */

static int open_error(const char *uri)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_drive *drive = NULL;
	int rc = fth_gpu_drive_open_uri(uri, &opts, &drive);

	MUST(rc < 0 && !drive);
	return rc;
}

/* Before a GPU is needed. */
static void test_names(void)
{
	MUST(open_error("gpu:") == -EINVAL);
	MUST(open_error("gpu:disk?bytes=1M") == -EINVAL);
	MUST(open_error("gpu:host?byte=1M") == -EINVAL);
	MUST(open_error("gpu:host?bytes=1M&ssds=17") == -EINVAL);
	MUST(open_error("gpu:host?bytes=1M&model=none-such") == -EINVAL);
	MUST(strstr(fth_error_text(-EINVAL), "none-such"));
	MUST(open_error("gpu:host?bytes=1000") == -EINVAL);
	MUST(open_error("file:/nowhere/at/all") == -ENOENT);
	MUST(open_error("gpu:host?bytes=1M&block=256") == -EINVAL);
	MUST(open_error("gpu:host?bytes=1M&block=16K") == -EINVAL);
	MUST(open_error("gpu:host?bytes=1M&block=1000") == -EINVAL);
	MUST(strstr(fth_error_text(-EINVAL), "power of two"));
	MUST(open_error("gpu:host?bytes=20K&block=8192") == -EINVAL);
	MUST(strstr(fth_error_text(-EINVAL), "multiple of its blocks of 8192"));
	MUST(open_error("mem:1M?block=16384") == -EOPNOTSUPP);
	MUST(strstr(fth_error_text(-EOPNOTSUPP), "larger than 8192"));
	MUST(open_error("no-such:thing") == -EINVAL);
	printf("names: what is wrong is told\n");
}

static void test_gpu_names(void)
{
	struct fth_gpu_drive *drive;

	OK(fth_gpu_drive_open_uri("gpu:host?bytes=1M&ssds=2&queues=4&entries=64", NULL, &drive));
	MUST(fth_gpu_drive_view(drive).queues == 4 && fth_gpu_drive_view(drive).ssds == 2);
	MUST(fth_gpu_drive_medium(drive, 1) && !fth_gpu_drive_dev(drive));
	MUST(!fth_gpu_drive_view(drive).bounce);
	MUST(fth_gpu_drive_view(drive).block_shift == 9);
	OK(fth_gpu_drive_close(drive));
	OK(fth_gpu_drive_open_uri("gpu:hbm?bytes=1M&block=4K&queues=2&entries=64", NULL, &drive));
	MUST(fth_gpu_drive_view(drive).block_shift == 12);
	MUST(fth_gpu_drive_view(drive).blocks == 256);
	OK(fth_gpu_drive_close(drive));
	OK(fth_gpu_drive_open_uri("gpu:none?bytes=1M&queues=2&entries=64", NULL, &drive));
	MUST(!fth_gpu_drive_medium(drive, 0));
	OK(fth_gpu_drive_close(drive));
	printf("names: gpu: opens drives on GPU blocks\n");
}

/* ---- blocks ---- */

struct job {
	struct fth_gpu_view view;
	char *memory; /* 4 KiB for each thread */
	struct report *report;
	uint64_t patience;
	uint32_t blocks;
};

__global__ static void write_and_read(struct job job)
{
	uint32_t thread = bed_thread(), each = 1u << (job.view.block_shift - 3);
	uint32_t words = job.blocks * each;
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint64_t *mine = (uint64_t *)(job.memory + thread * 4096ull);
	struct fth_gpu_io io = {};

	io.opcode = FTH_NVME_WRITE;
	io.blocks = job.blocks;
	io.memory = mine;
	io.first = thread * job.blocks;
	for (uint32_t i = 0; i < words; i++)
		mine[i] = fixture_word(0, io.first + i / each, i % each);
	bed_tell(job.report,
		 fth_gpu_io(&job.view, thread / 32 % job.view.queues, &warp, true, &io, thread / 32,
			    fth_deadline_ns(job.patience)),
		 true);
	for (uint32_t i = 0; i < words; i++)
		mine[i] = 0;
	io.opcode = FTH_NVME_READ;
	bed_tell(job.report,
		 fth_gpu_io(&job.view, (thread / 32 + 1) % job.view.queues, &warp, thread % 3, &io,
			    thread / 32, fth_deadline_ns(job.patience)),
		 true);
	for (uint32_t i = 0; i < words; i++)
		bed_tell(job.report, 0,
			 mine[i] ==
				 (thread % 3 ? fixture_word(0, io.first + i / each, i % each) : 0));
}

/* ---- a drive for such kernels ---- */

struct fixture {
	struct fth_gpu_drive *drive;
	cudaStream_t stream;
	struct job job;
	uint32_t threads;
};

static struct fixture open_fixture(const char *uri, uint32_t timeout_ms)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fixture f = {};

	opts.queues = 3;
	opts.entries = 64;
	opts.slot = 4096;
	opts.timeout_ms = timeout_ms;
	f.threads = 64;
	OK(fth_gpu_drive_open_uri(uri, &opts, &f.drive));
	/* Allocating is no matter while this drive runs. */
	CHECK(cudaStreamCreateWithFlags(&f.stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc((void **)&f.job.memory, f.threads * 4096));
	CHECK(cudaMalloc((void **)&f.job.report, sizeof(*f.job.report)));
	f.job.view = fth_gpu_drive_view(f.drive);
	f.job.patience = PATIENCE_NS;
	f.job.blocks = 1;
	MUST(f.job.view.bounce && f.job.view.bounce_slot == 4096 && f.job.view.queues == 3);
	MUST(!fth_gpu_drive_medium(f.drive, 0) && !fth_gpu_drive_mapped(f.drive, 0));
	return f;
}

static struct report run(struct fixture *f, void (*kernel)(struct job))
{
	struct report report;

	CHECK(cudaMemsetAsync(f->job.report, 0, sizeof(report), f->stream));
	kernel<<<f->threads / 64, 64, 0, f->stream>>>(f->job);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpyAsync(&report, f->job.report, sizeof(report), cudaMemcpyDeviceToHost,
			      f->stream));
	CHECK(cudaStreamSynchronize(f->stream));
	return report;
}

static void close_fixture(struct fixture *f)
{
	OK(fth_gpu_drive_close(f->drive));
	CHECK(cudaFree(f->job.memory));
	CHECK(cudaFree(f->job.report));
	CHECK(cudaStreamDestroy(f->stream));
}

/* n blocks for each thread, as many bytes as there are for it at most. */
static void write_blocks(struct fixture *f, uint32_t n)
{
	uint32_t block = 1u << f->job.view.block_shift;
	uint64_t words[FTH_GPU_BLOCK_MAX / 8];
	struct report report;

	f->job.blocks = n;
	report = run(f, write_and_read);
	BED_ALL_WELL(report);
	for (uint64_t b = 0; b < f->threads * n; b++) {
		OK(fth_dev_read(fth_gpu_drive_dev(f->drive), words, block, b * block,
				FTH_DEV_TIMEOUT));
		for (uint32_t i = 0; i < block / 8; i++)
			MUST(words[i] == fixture_word(0, b, i));
	}
}

static void test_blocks(const char *uri, uint32_t block)
{
	struct fixture f = open_fixture(uri, 10000);
	uint32_t most = 4096 / block, sum = most > 1 ? most + 1 : 1;
	struct fth_gpu_drive_stats stats;
	struct report report;

	MUST(1u << f.job.view.block_shift == block && f.job.view.blocks == BYTES / block);
	write_blocks(&f, 1);
	if (most > 1)
		write_blocks(&f, most);
	OK(fth_gpu_drive_stats(f.drive, &stats));
	MUST(stats.commands == (most > 1 ? 2u : 1u) * (64 + 42) && stats.errors == 0);
	MUST(stats.blocks_written == 64 * sum && stats.blocks_read == 42 * sum);
	MUST(stats.sq_doorbells > 0 && stats.cq_doorbells > 0);
	/* Stopped, told so; started, and all is well with new queue pairs. */
	f.job.blocks = most > 1 ? 2 : 1;
	OK(fth_gpu_drive_stop(f.drive));
	report = run(&f, write_and_read);
	MUST(report.failed >= 64 && report.rc == -ESHUTDOWN);
	OK(fth_gpu_drive_start(f.drive));
	report = run(&f, write_and_read);
	BED_ALL_WELL(report);
	close_fixture(&f);
	printf("blocks of %u bytes: written, read, and found on the device\n", block);
}

/* ---- refused ---- */

__global__ static void ask_wrongly(struct job job)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint64_t deadline = fth_deadline_ns(job.patience), thread = bed_thread();
	struct fth_nvme_sqe command = {};
	struct fth_nvme_done done;
	struct fth_gpu_io io = {};
	int rc;

	io.opcode = FTH_NVME_READ;
	io.blocks = 1;
	io.memory = job.memory + thread * 4096;
	io.first = job.view.blocks - (thread % 2 == 0);
	rc = fth_gpu_io(&job.view, 0, &warp, true, &io, 0, deadline);
	bed_tell(job.report, 0, rc == (thread % 2 ? -ERANGE : 0));
	io.blocks = (4096u >> job.view.block_shift) + 1;
	rc = fth_gpu_io(&job.view, 0, &warp, true, &io, 0, deadline);
	bed_tell(job.report, 0, rc == -EINVAL);
	/* GPU memory, which CPU threads must not be made to touch. */
	command.opcode = FTH_NVME_READ;
	command.nsid = 1;
	command.prp1 = (uint64_t)io.memory;
	rc = fth_nvme_warp_exec(&job.view.qps[1], &warp, true, &command, 0, deadline, &done, NULL);
	bed_tell(job.report, 0, rc == -EFAULT);
}

static void test_refused(const char *uri)
{
	struct fixture f = open_fixture(uri, 10000);
	struct fth_gpu_drive_stats stats;
	struct report report = run(&f, ask_wrongly);

	BED_ALL_WELL(report);
	OK(fth_gpu_drive_stats(f.drive, &stats));
	MUST(stats.errors == 32 + 64);
	close_fixture(&f);
	printf("refused: other blocks and other memory, %s\n", uri);
}

/* ---- a device that holds commands ---- */

__global__ static void read_one(struct job job)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(~0u);
	uint64_t thread = bed_thread();
	struct fth_gpu_io io = {};
	int rc;

	io.opcode = FTH_NVME_READ;
	io.blocks = 1;
	io.memory = job.memory + thread * 4096;
	io.first = thread;
	rc = fth_gpu_io(&job.view, 2, &warp, true, &io, (uint32_t)thread / 32,
			fth_deadline_ns(job.patience));
	bed_tell(job.report, rc, true);
}

static void test_stuck(void)
{
	/* Less than the device holds them; tools are slow, and get more. */
	uint32_t timeout_ms = bed_asked.small ? 10000 : 500;
	struct fixture f =
		open_fixture("fault(mem:2M)?nth=1&every=1&mode=timeout&hold_ms=1000", timeout_ms);
	struct report report;
	int rc;

	f.job.patience = 20000000;
	report = run(&f, read_one);
	MUST(report.failed == 64 && report.rc == -ETIME);
	/* Told in time, each time; and in the end all is released. */
	do
		rc = fth_gpu_drive_stop(f.drive);
	while (rc == -ETIME);
	MUST(rc == 0);
	close_fixture(&f);
	printf("stuck: kernels and close came to an end\n");
}

/* ---- a file through the cache ---- */

__global__ static void __launch_bounds__(256, 6)
	change_file(fth_gpu_array<uint64_t> a, struct report *report)
{
	for (uint64_t i = bed_thread(); i < a.count; i += (uint64_t)gridDim.x * blockDim.x) {
		uint64_t v = 0;
		int rc = fth_gpu_get(a, i, &v);

		bed_tell(report, rc, v == bed_value(i));
		if (i % 3 == 0)
			bed_tell(report, fth_gpu_set(a, i, ~v), true);
	}
}

static void check_file(const char *path)
{
	uint64_t *words = (uint64_t *)malloc(bytes);
	FILE *file = fopen(path, "rb");

	MUST(words && file && fread(words, 1, bytes, file) == bytes);
	for (uint64_t i = 0; i < bytes / 8; i++)
		MUST(words[i] == (i % 3 ? bed_value(i) : ~bed_value(i)));
	fclose(file);
	free(words);
}

static void make_file(const char *path)
{
	FILE *file = fopen(path, "wb");

	MUST(file != NULL);
	for (uint64_t i = 0; i < bytes / 8; i++) {
		uint64_t v = bed_value(i);

		MUST(fwrite(&v, 8, 1, file) == 1);
	}
	MUST(fclose(file) == 0);
}

static void use_file(struct fth_gpu_drive *drive)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_drive_stats stats;
	struct report report, *told;
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint64_t> a;

	opts.bytes = bytes / 8;
	OK(fth_gpu_cache_open(drive, &opts, &cache));
	OK(fth_gpu_array_open(cache, NULL, &a));
	MUST(a.count == bytes / 8);
	CHECK(cudaMalloc((void **)&told, sizeof(*told)));
	CHECK(cudaMemset(told, 0, sizeof(*told)));
	change_file<<<blocks, 256>>>(a, told);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize()); /* no kernel of the drive is in its way */
	CHECK(cudaMemcpy(&report, told, sizeof(report), cudaMemcpyDeviceToHost));
	BED_ALL_WELL(report);
	OK(fth_gpu_cache_flush(cache));
	OK(fth_gpu_drive_stats(drive, &stats));
	MUST(stats.flushes > 0);
	MUST(stats.blocks_read >= bytes >> fth_gpu_drive_view(drive).block_shift);
	/* Of the device as well, so that what was written lasts. */
	MUST(fth_dev_stat(fth_gpu_drive_dev(drive), FTH_DEV_STAT_FLUSHES) > 0);
	OK(fth_gpu_cache_close(cache));
	CHECK(cudaFree(told));
}

/* Its blocks by `options`, for some file systems have large ones without a cache. */
static void test_file(const char *options, uint32_t block)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	char path[] = "/tmp/fathom_service_XXXXXX", uri[96];
	struct fth_gpu_drive *drive;
	int fd = mkstemp(path), rc;

	MUST(fd >= 0);
	close(fd);
	make_file(path);
	opts.queues = 4;
	opts.entries = 128;
	snprintf(uri, sizeof(uri), "file:%s?%s", path, options);
	rc = fth_gpu_drive_open_uri(uri, &opts, &drive);
	if (rc == -ENOSYS || rc == -EPERM) {
		printf("file: not tried, %s\n", fth_error_text(rc));
	} else {
		OK(rc);
		MUST(1u << fth_gpu_drive_view(drive).block_shift == block);
		use_file(drive);
		OK(fth_gpu_drive_close(drive));
		check_file(path);
		printf("file: eight times the cache, read and changed in place, by blocks of %u\n",
		       block);
	}
	unlink(path);
}

/* ---- a cache on blocks of 4096 bytes ---- */

static int cache_error(struct fth_gpu_drive *drive, uint32_t line)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_cache *cache = NULL;
	int rc;

	opts.bytes = 1u << 20;
	opts.line = line;
	rc = fth_gpu_cache_open(drive, &opts, &cache);
	MUST(rc < 0 && !cache);
	return rc;
}

/* Lines and offsets that a block does not fit into are refused, and others are not. */
static void test_lines(void)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_cache_options cache_opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *cache;
	fth_gpu_array<uint64_t> a;

	OK(fth_gpu_drive_open_uri("mem:2M?block=4096", &opts, &drive));
	MUST(cache_error(drive, 512) == -EINVAL);
	MUST(strstr(fth_error_text(-EINVAL), "smaller than the drive's blocks, 4096"));
	MUST(cache_error(drive, 2048) == -EINVAL);
	cache_opts.bytes = 1u << 20;
	cache_opts.line = 8192;
	OK(fth_gpu_cache_open(drive, &cache_opts, &cache));
	array.offset = 512;
	MUST(fth_gpu_array_open(cache, &array, &a) == -EINVAL);
	MUST(strstr(fth_error_text(-EINVAL), "multiple of 4096"));
	array.offset = 4096;
	array.count = 4096;
	OK(fth_gpu_array_open(cache, &array, &a));
	OK(fth_gpu_cache_close(cache));
	OK(fth_gpu_drive_close(drive));
	printf("lines: none smaller than a block\n");
}

/* ---- faults under the cache ---- */

__global__ static void read_lines(fth_gpu_array<uint64_t> a, uint64_t bad, struct report *report)
{
	uint64_t line = bed_thread() / 32 + bad - 1, i = line * 512 + threadIdx.x % 32, v = 0;
	int rc = fth_gpu_get(a, i, &v);

	bed_tell(report, 0, line == bad ? rc == -ENODATA : rc == 0 && v == bed_value(i));
}

static void test_faults(void)
{
	static const char uri[] = "fault(mem:2M)?kind=read&from=28672&to=32768&every=1";
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_cache_options cache_opts = FTH_GPU_CACHE_OPTIONS_INIT;
	uint64_t *words = (uint64_t *)malloc(BYTES);
	struct fth_gpu_failure failure;
	struct fth_gpu_drive *drive;
	struct fth_gpu_cache *cache;
	struct report report, *told;
	fth_gpu_array<uint64_t> a;

	opts.queues = 2;
	OK(fth_gpu_drive_open_uri(uri, &opts, &drive));
	for (uint64_t i = 0; i < BYTES / 8; i++)
		words[i] = bed_value(i);
	OK(fth_dev_write(fth_gpu_drive_dev(drive), words, BYTES, 0, FTH_DEV_TIMEOUT));
	cache_opts.bytes = 1u << 20;
	OK(fth_gpu_cache_open(drive, &cache_opts, &cache));
	OK(fth_gpu_array_open(cache, NULL, &a));
	CHECK(cudaMalloc((void **)&told, sizeof(*told)));
	CHECK(cudaMemset(told, 0, sizeof(*told)));
	read_lines<<<1, 96>>>(a, 7, told);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&report, told, sizeof(report), cudaMemcpyDeviceToHost));
	BED_ALL_WELL(report);
	MUST(fth_gpu_cache_failure(cache, &failure) == 1);
	MUST(failure.line == 7 && failure.error == -ENODATA && !failure.write);
	MUST(fth_nvme_status_errno(failure.status) == -ENODATA);
	OK(fth_gpu_cache_close(cache));
	OK(fth_gpu_drive_close(drive));
	CHECK(cudaFree(told));
	free(words);
	printf("faults: line and status came to the kernel and to the host\n");
}

int main(int argc, char **argv)
{
	test_names();
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	if (bed_asked.small) {
		blocks = 2;
		bytes = BYTES / 8;
	}
	test_blocks("mem:2M", 512);
	test_blocks("mem:2M?block=4096", 4096);
	test_refused("mem:2M");
	test_refused("mem:2M?block=4096");
	test_lines();
	test_faults();
	test_file("direct=off", 512);
	test_file("block=4096", 4096);
	test_stuck();
	if (!bed_asked.small) /* a kernel that does not end is not for tools */
		test_gpu_names();
	return 0;
}
