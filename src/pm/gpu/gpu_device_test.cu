/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent memory on a GPU: logs that one processor writes and the other reads, persistence of
 * shared and of drained memory, and memory that cannot be registered. Skipped (77) without a GPU.
 */
#include "cuda_fixture.h"
#include "fathom/pm/gpu.h"
#include "must_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCKS	 24u
#define PER	 96u /* threads of a block: three warps */
#define THREADS	 (BLOCKS * PER)
#define ENTRIES	 3u
#define MEMORY	 (16u << 20)
#define CONV_AT	 (8u << 20)
#define CONV	 40u
#define CONV_MAX (64u << 10)

struct entry {
	uint32_t thread, number, words[14];
};

FTH_HD struct entry entry_of(uint32_t thread, uint32_t number)
{
	struct entry e;

	e.thread = thread;
	e.number = number;
	for (uint32_t k = 0; k < 14; k++)
		e.words[k] = (thread * 31 + number) * (k + 1);
	return e;
}

FTH_HD bool is_entry(const struct entry *e, uint32_t thread, uint32_t number)
{
	struct entry expected = entry_of(thread, number);

	for (uint32_t k = 0; k < 14; k++)
		if (e->words[k] != expected.words[k])
			return false;
	return e->thread == thread && e->number == number;
}

static const struct fth_pm_log_shape shape = {BLOCKS, PER, sizeof(struct entry), ENTRIES};

/* What kernels found wrong; the last one's error. */
struct outcome {
	unsigned failed;
	int rc;
};

static struct outcome *outcome; /* in memory that both reach */

__device__ static void tell(struct outcome *o, bool well, int rc)
{
	if (!well) {
		atomicAdd(&o->failed, 1u);
		o->rc = rc;
	}
}

static void finish(const char *what)
{
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	if (outcome->failed) {
		fprintf(stderr, "%s: %u failed, the last with %d\n", what, outcome->failed,
			outcome->rc);
		exit(1);
	}
}

/* ---- memory ---- */

static struct fth_pm *map_pm(const char *name, uint64_t bytes)
{
	struct fth_pm_options options = {};
	struct fth_pm *pm;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	OK(fth_pm_map(name, bytes, &options, &pm));
	return pm;
}

/* ---- logs ---- */

__global__ static void insert_all(struct fth_pm_log_view hcl, struct fth_pm_log_view conv,
				  struct outcome *o)
{
	uint32_t thread = fth_pm_log_thread(&hcl, blockIdx.x, threadIdx.x);

	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct entry e = entry_of(thread, i);
		int rc = fth_pm_log_insert_hd(&hcl, thread, &e, sizeof(e));

		tell(o, rc == 0, rc);
		/* Lanes of a warp want the same locks. */
		rc = fth_pm_log_insert_hd(&conv, thread % 16 + blockIdx.x, &e, sizeof(e));
		tell(o, rc == 0, rc);
	}
	struct entry more = entry_of(thread, 0);
	int rc = fth_pm_log_insert_hd(&hcl, thread, &more, sizeof(more));

	tell(o, rc == -ENOSPC, rc);
	rc = threadIdx.x % 2 ? fth_pm_log_remove_hd(&hcl, thread) : 0;
	tell(o, rc == 0, rc);
}

static void check_hcl(struct fth_pm_log *log)
{
	struct fth_pm_log_info info;

	fth_pm_log_info(log, &info);
	MUST(info.entries == THREADS * ENTRIES - THREADS / 2);
	for (uint32_t t = 0; t < THREADS; t++) {
		uint64_t cursor = 0;
		struct entry e;

		MUST(fth_pm_log_count(log, t) == ENTRIES - t % 2);
		for (uint32_t i = 0; i < ENTRIES - t % 2; i++) {
			MUST(fth_pm_log_read(log, t, &cursor, &e, sizeof(e)) == sizeof(e));
			MUST(is_entry(&e, t, i));
		}
	}
}

static void check_conv(struct fth_pm_log *log)
{
	uint32_t *next = (uint32_t *)calloc(THREADS, sizeof(*next)), found = 0;

	for (uint32_t part = 0; part < CONV; part++) {
		uint64_t cursor = 0;
		struct entry e;

		while (fth_pm_log_read(log, part, &cursor, &e, sizeof(e)) == sizeof(e)) {
			MUST(e.thread < THREADS && e.thread % 16 + e.thread / PER == part);
			MUST(e.number == next[e.thread] && is_entry(&e, e.thread, e.number));
			next[e.thread]++;
			found++;
		}
	}
	MUST(found == THREADS * ENTRIES);
	free(next);
}

/* The GPU writes, the host reads. */
static void gpu_to_host(const char *name)
{
	struct fth_pm *pm = map_pm(name, MEMORY);
	struct fth_gpu_pm_log *gpu_hcl, *gpu_conv;
	struct fth_pm_log *hcl, *conv;
	struct fth_gpu_pm *gpu;

	OK(fth_pm_log_create_hcl(pm, 0, &shape, &hcl));
	OK(fth_pm_log_create_conv(pm, CONV_AT, CONV, CONV_MAX, &conv));
	OK(fth_gpu_pm_register(pm, &gpu));
	OK(fth_gpu_pm_log_open(gpu, 0, &gpu_hcl));
	OK(fth_gpu_pm_log_open(gpu, CONV_AT, &gpu_conv));
	insert_all<<<BLOCKS, PER>>>(fth_gpu_pm_log_view(gpu_hcl), fth_gpu_pm_log_view(gpu_conv),
				    outcome);
	finish("inserting");
	OK(fth_pm_log_rescan(hcl));
	check_hcl(hcl);
	OK(fth_gpu_pm_log_close(gpu_hcl));
	OK(fth_gpu_pm_log_close(gpu_conv));
	OK(fth_gpu_pm_unregister(gpu));
	fth_pm_log_close(hcl);
	fth_pm_log_close(conv);
	printf("%s: %llu rounds, %llu pages\n", name,
	       (unsigned long long)fth_pm_stat(pm, FTH_PM_STAT_ROUNDS),
	       (unsigned long long)fth_pm_stat(pm, FTH_PM_STAT_PAGES));
	OK(fth_pm_unmap(pm));

	pm = map_pm(name, 0);
	OK(fth_pm_log_open(pm, 0, &hcl));
	OK(fth_pm_log_open(pm, CONV_AT, &conv));
	check_hcl(hcl);
	check_conv(conv);
	fth_pm_log_close(hcl);
	fth_pm_log_close(conv);
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
	printf("%s: written by the GPU, read by the host\n", name);
}

__global__ static void read_and_remove(struct fth_pm_log_view log, struct outcome *o)
{
	uint32_t thread = fth_pm_log_thread(&log, blockIdx.x, threadIdx.x);
	uint32_t count = fth_pm_log_count_hd(&log, thread);

	tell(o, count == thread % (ENTRIES + 1), (int)count);
	while (count > 0) {
		struct entry e;
		int rc = fth_pm_hcl_read(&log, thread, --count, &e, sizeof(e));

		tell(o, rc == 0 && is_entry(&e, thread, count), rc);
		rc = fth_pm_hcl_remove(&log, thread);
		tell(o, rc == 0, rc);
	}
}

__global__ static void read_partitions(struct fth_pm_log_view log, struct outcome *o)
{
	uint32_t part = blockIdx.x * blockDim.x + threadIdx.x, n = 0;
	uint64_t cursor = 0;
	struct entry e;

	if (part >= log.parts)
		return;
	while (fth_pm_conv_read(&log, part, &cursor, &e, sizeof(e)) == sizeof(e))
		tell(o, is_entry(&e, part, n++), (int)part);
	tell(o, n == part % 5, (int)n);
}

/* The host writes, the GPU reads; then it removes, or clears. */
static void host_to_gpu(const char *name)
{
	struct fth_pm *pm = map_pm(name, MEMORY);
	struct fth_gpu_pm_log *gpu_hcl, *gpu_conv;
	struct fth_pm_log_info info;
	struct fth_pm_log *hcl, *conv;
	struct fth_gpu_pm *gpu;

	OK(fth_pm_log_create_hcl(pm, 0, &shape, &hcl));
	OK(fth_pm_log_create_conv(pm, CONV_AT, CONV, CONV_MAX, &conv));
	OK(fth_gpu_pm_register(pm, &gpu));
	for (int again = 0; again < 2; again++) {
		for (uint32_t t = 0; t < THREADS; t++)
			for (uint32_t i = 0; i < t % (ENTRIES + 1); i++) {
				struct entry e = entry_of(t, i);

				OK(fth_pm_log_insert(hcl, t, &e, sizeof(e)));
			}
		for (uint32_t part = 0; part < CONV; part++)
			for (uint32_t i = 0; i < part % 5; i++) {
				struct entry e = entry_of(part, i);

				OK(fth_pm_log_insert(conv, part, &e, sizeof(e)));
			}
		OK(fth_gpu_pm_log_open(gpu, 0, &gpu_hcl));
		OK(fth_gpu_pm_log_open(gpu, CONV_AT, &gpu_conv));
		if (again) {
			OK(fth_gpu_pm_log_clear(gpu_hcl));
		} else {
			read_and_remove<<<BLOCKS, PER>>>(fth_gpu_pm_log_view(gpu_hcl), outcome);
			finish("reading");
		}
		read_partitions<<<1, 64>>>(fth_gpu_pm_log_view(gpu_conv), outcome);
		finish("reading partitions");
		OK(fth_gpu_pm_log_clear(gpu_conv));
		OK(fth_gpu_pm_log_close(gpu_hcl));
		OK(fth_gpu_pm_log_close(gpu_conv));
		OK(fth_pm_log_rescan(hcl));
		OK(fth_pm_log_rescan(conv));
		fth_pm_log_info(hcl, &info);
		MUST(info.entries == 0);
		fth_pm_log_info(conv, &info);
		MUST(info.entries == 0);
	}
	/* Damage: kernels that look for entries find it. */
	for (uint32_t i = 0; i < 2; i++) {
		struct entry e = entry_of(77, i);

		OK(fth_pm_log_insert(hcl, 77, &e, sizeof(e)));
	}
	struct fth_pm_log_view view = fth_pm_log_view(hcl);

	*fth_pm_hcl_slot(&view, 77, 0) ^= 1;
	MUST(fth_gpu_pm_log_open(gpu, 0, &gpu_hcl) == -EBADMSG);
	printf("%s\n", fth_error_text(-EBADMSG));
	MUST(fth_gpu_pm_log_open(gpu, 4096, &gpu_hcl) == -EBADMSG);
	fth_pm_log_close(hcl);
	fth_pm_log_close(conv);
	OK(fth_gpu_pm_unregister(gpu));
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
	printf("%s: written by the host, read by the GPU\n", name);
}

/* ---- memory itself ---- */

__global__ static void count_up(struct fth_pm_view pm, struct outcome *o)
{
	uint64_t at = (uint64_t)(blockIdx.x * blockDim.x + threadIdx.x) * 1000;
	uint64_t *word = (uint64_t *)(pm.base + at / 8 * 8);
	int rc;

	/* Some lanes alone, some together. */
	if (threadIdx.x % 3 == 0)
		__nanosleep(1000 * threadIdx.x);
	fth_pm_put64(&pm, word, *word + at + 1);
	rc = fth_pm_persist_range(&pm, word, sizeof(*word));
	tell(o, rc == 0, rc);
}

static void test_persist(const char *name)
{
	struct fth_gpu_pm *gpu;
	struct fth_pm *pm;

	for (uint64_t round = 1; round <= 3; round++) {
		pm = map_pm(name, round == 1 ? MEMORY : 0);
		OK(fth_gpu_pm_register(pm, &gpu));
		count_up<<<BLOCKS, PER>>>(fth_gpu_pm_view(gpu), outcome);
		finish("persisting");
		OK(fth_gpu_pm_unregister(gpu));
		OK(fth_pm_unmap(pm));
		pm = map_pm(name, 0);
		for (uint64_t t = 0; t < THREADS; t++)
			MUST(*(uint64_t *)((char *)fth_pm_base(pm) + t * 1000 / 8 * 8) ==
			     round * (t * 1000 + 1));
		OK(fth_pm_unmap(pm));
	}
	OK(fth_pm_remove(name));
	printf("%s: what the GPU persisted is there\n", name);
}

/* ---- checkpoints ---- */

#define CP_BYTES (1000003u)

__global__ static void fill_buffer(uint8_t *buffer, uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes;
	     i += (uint64_t)gridDim.x * blockDim.x)
		buffer[i] = (uint8_t)((i + seed) * 0x9e3779b1u >> 13);
}

static void check_buffer(const uint8_t *device, uint64_t bytes, uint32_t seed)
{
	uint8_t *host = (uint8_t *)malloc(bytes);

	CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
	for (uint64_t i = 0; i < bytes; i++)
		MUST(host[i] == (uint8_t)((uint32_t)(i + seed) * 0x9e3779b1u >> 13));
	free(host);
}

/*
 * Two buffers of the GPU: saved, changed a little, saved, spoilt, restored; and restored by the
 * CPU.
 */
static void test_checkpoint(const char *name)
{
	struct fth_pm_checkpoint_shape area = {1, 2, 2u << 20};
	struct fth_pm *pm = map_pm(name, MEMORY);
	struct fth_pm_checkpoint *cp;
	struct fth_gpu_pm *gpu;
	uint8_t *a, *b, *host = (uint8_t *)malloc(CP_BYTES), host_b[100];
	uint64_t written;

	CHECK(cudaMalloc((void **)&a, CP_BYTES));
	CHECK(cudaMalloc((void **)&b, 100));
	fill_buffer<<<16, 128>>>(a, CP_BYTES, 1);
	fill_buffer<<<1, 128>>>(b, 100, 2);
	OK(fth_pm_checkpoint_create(pm, 0, &area, &cp));
	OK(fth_pm_checkpoint_register(cp, 0, a, CP_BYTES));
	OK(fth_pm_checkpoint_register(cp, 0, b, 100));
	MUST(fth_gpu_pm_checkpoint_save(cp, 0, 0, NULL) == -EINVAL); /* not registered */
	OK(fth_gpu_pm_register(pm, &gpu));
	MUST(fth_gpu_pm_checkpoint_restore(cp, 0, NULL) == -ENODATA);
	OK(fth_gpu_pm_checkpoint_save(cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL, NULL));
	OK(fth_gpu_pm_checkpoint_save(cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL, NULL));
	written = fth_pm_checkpoint_written(cp);
	MUST(written == 2 * (CP_BYTES / 4096 + 2) * 4096);
	fill_buffer<<<1, 128>>>(b, 100, 3);
	OK(fth_gpu_pm_checkpoint_save(cp, 0, FTH_PM_CHECKPOINT_INCREMENTAL, NULL));
	MUST(fth_pm_checkpoint_written(cp) == written + 4096);
	OK(fth_pm_checkpoint_verify(cp, 0));
	CHECK(cudaMemset(a, 0, CP_BYTES));
	CHECK(cudaMemset(b, 0, 100));
	OK(fth_gpu_pm_checkpoint_restore(cp, 0, NULL));
	check_buffer(a, CP_BYTES, 1);
	check_buffer(b, 100, 3);
	/* Damage is found, and the buffers stay as they are. */
	const void *data;

	MUST(fth_pm_checkpoint_data(cp, 0, &data) > 0);
	((uint8_t *)data)[70000] ^= 16;
	fill_buffer<<<1, 128>>>(b, 100, 4);
	MUST(fth_gpu_pm_checkpoint_restore(cp, 0, NULL) == -EBADMSG);
	check_buffer(b, 100, 4);
	((uint8_t *)data)[70000] ^= 16;
	OK(fth_gpu_pm_unregister(gpu));
	fth_pm_checkpoint_close(cp);
	OK(fth_pm_unmap(pm));

	pm = map_pm(name, 0);
	OK(fth_pm_checkpoint_open(pm, 0, &cp));
	OK(fth_pm_checkpoint_register(cp, 0, host, CP_BYTES));
	OK(fth_pm_checkpoint_register(cp, 0, host_b, 100));
	MUST(fth_pm_checkpoint_version(cp, 0) == 3);
	OK(fth_pm_checkpoint_restore(cp, 0));
	CHECK(cudaMemcpy(a, host, CP_BYTES, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b, host_b, 100, cudaMemcpyHostToDevice));
	check_buffer(a, CP_BYTES, 1);
	check_buffer(b, 100, 3);
	fth_pm_checkpoint_close(cp);
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	free(host);
	printf("%s: checkpoints of GPU memory\n", name);
}

/* What cannot be registered says why. */
static void test_refused(void)
{
	char name[128];
	struct fth_pm_options options = {};
	struct fth_gpu_pm *gpu, *again;
	struct fth_pm *pm;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	snprintf(name, sizeof(name), "shm:fathom_twice_%d", (int)getpid());
	pm = map_pm(name, 1u << 20);
	OK(fth_gpu_pm_register(pm, &gpu));
	MUST(fth_gpu_pm_register(pm, &again) < 0 && !again);
	printf("registered twice: %s\n", fth_error_text(-EBUSY));
	OK(fth_gpu_pm_unregister(gpu));
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
	snprintf(name, sizeof(name), "pmem:/tmp/fathom_pmem_%d?force=1", (int)getpid());
	if (fth_pm_map(name, 1u << 20, &options, &pm) < 0) {
		printf("no pmem here: %s\n", fth_error_text(-ENOTSUP));
		return;
	}
	if (fth_gpu_pm_register(pm, &gpu) < 0)
		printf("a file: %s\n", fth_error_text(-EOPNOTSUPP));
	else
		OK(fth_gpu_pm_unregister(gpu));
	OK(fth_pm_unmap(pm));
	OK(fth_pm_remove(name));
}

int main(int argc, char **argv)
{
	bool failures = argc < 2 || strcmp(argv[argc - 1], "--no-failure") != 0;
	char shm[64], file[128];

	skip_without_gpu();
	CHECK(cudaMallocManaged((void **)&outcome, sizeof(*outcome)));
	memset(outcome, 0, sizeof(*outcome));
	snprintf(shm, sizeof(shm), "shm:fathom_gpu_%d", (int)getpid());
	snprintf(file, sizeof(file), "file:/tmp/fathom_gpu_%d?direct=off", (int)getpid());
	gpu_to_host(shm);
	host_to_gpu(shm);
	test_persist(shm);
	test_persist(file);
	test_checkpoint(shm);
	test_checkpoint(file);
	gpu_to_host(file);
	host_to_gpu(file);
	if (failures)
		test_refused(); /* compute-sanitizer reports what CUDA refuses */
	CHECK(cudaFree(outcome));
	return 0;
}
