/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GPU workloads over arrays through a cache that is smaller than they are, and over plain
 * memory: what they tell and write is what the CPU's modules and plain loops come to. Skipped (77)
 * without a GPU.
 */
#include "gpu/drive/medium_fixture.h"

#include "workloads/micro/gpu_work.h"
#include "workloads/micro/vectoradd.h"

#include <errno.h>

#define ODD  5 /* elements less than fit: the last line is not whole */
#define PAST 0x5ad5ad5ad5ad5ad5ull

static uint64_t vector = 4u << 20; /* bytes between the beginnings of two arrays */

struct bed {
	struct fth_gpu_work *work;
	struct bed_medium medium;
	struct fth_gpu_cache *cache;
	struct fth_gpu_array_base a[3];
	uint64_t *seen[3]; /* what the host sees of them */
	uint64_t n;	   /* elements of each */
	uint32_t line;
};

static struct bed bed_open(uint32_t line)
{
	struct fth_gpu_drive_options drive = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_cache_options cache = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	struct fth_gpu_work_options work = FTH_GPU_WORK_OPTIONS_INIT;
	struct bed bed = {};

	bed.n = vector / 8 - ODD;
	bed.line = line;
	work.blocks = bed_asked.small ? 1 : 2;
	work.ahead = bed_asked.small ? 2 : 4;
	work.chunks = vector / line;
	OK(fth_gpu_work_open(&work, &bed.work));
	drive.bytes = 3 * vector;
	drive.queues = 4;
	bed.medium = bed_medium_open(&drive);
	cache.bytes = vector / 2;
	cache.line = line;
	OK(fth_gpu_cache_open(bed.medium.drive, &cache, &bed.cache));
	for (unsigned i = 0; i < 3; i++) {
		array.offset = i * vector;
		array.count = bed.n;
		array.readonly = i < 2;
		OK(fth_gpu_cache_array(bed.cache, 8, &array, &bed.a[i]));
		bed.seen[i] = (uint64_t *)bed_medium_at(&bed.medium, 0) + i * (vector / 8);
		for (uint64_t e = 0; e < vector / 8; e++)
			bed.seen[i][e] = i == 2 ? PAST : fth_mix64(e + 1 + i);
	}
	bed_medium_push(&bed.medium);
	return bed;
}

static void bed_close(struct bed *bed)
{
	OK(fth_gpu_cache_close(bed->cache));
	bed_medium_close(&bed->medium);
	OK(fth_gpu_work_close(bed->work));
}

/* Array i, through the cache or as zero copy. */
static struct fth_gpu_source source_of(const struct bed *bed, unsigned i, bool plain)
{
	char *mapped = bed_medium_mapped(&bed->medium) + i * vector;

	return plain ? fth_gpu_source_plain(mapped, bed->n, 8, bed->line)
		     : fth_gpu_source_cached(&bed->a[i]);
}

/* What kernels have written is seen: zero copy needs nothing for that. */
static void finish_writes(struct bed *bed, bool plain)
{
	OK(fth_gpu_cache_flush(bed->cache));
	if (!plain)
		bed_medium_pull(&bed->medium);
}

/* Nothing behind the end of the array that is written was touched; then forget what was written. */
static void check_past_and_reset(struct bed *bed)
{
	for (uint64_t e = bed->n; e < vector / 8; e++)
		MUST(bed->seen[2][e] == PAST);
	OK(fth_gpu_cache_empty(bed->cache));
	for (uint64_t e = 0; e < bed->n; e++)
		bed->seen[2][e] = PAST;
	bed_medium_push(&bed->medium);
}

static void check_add(struct bed *bed, bool plain)
{
	struct fth_gpu_source a = source_of(bed, 0, plain), b = source_of(bed, 1, plain);
	struct fth_gpu_source c = source_of(bed, 2, plain);
	struct fth_gpu_cache_stats before, after;

	for (unsigned i = 0; i < 2; i++)
		for (uint64_t e = 0; e < bed->n; e++)
			((double *)bed->seen[i])[e] = fth_vectoradd_value(7, i, e);
	bed_medium_push(&bed->medium);
	OK(fth_gpu_cache_empty(bed->cache));
	OK(fth_gpu_cache_stats(bed->cache, &before));
	OK(fth_gpu_vector_add(bed->work, &a, &b, &c));
	finish_writes(bed, plain);
	OK(fth_gpu_cache_stats(bed->cache, &after));
	for (uint64_t e = 0; e < bed->n; e++)
		MUST(((double *)bed->seen[2])[e] ==
		     fth_vectoradd_value(7, 0, e) + fth_vectoradd_value(7, 1, e));
	/* All of c is written; of it the last line alone, which is not overwritten whole, is read.
	 */
	if (!plain) {
		uint64_t reads = after.count[FTH_GPU_READS] - before.count[FTH_GPU_READS];
		uint64_t writes =
			after.count[FTH_GPU_WRITE_BACKS] - before.count[FTH_GPU_WRITE_BACKS];

		MUST(reads > 2 * (vector / bed->line) && reads < 3 * (vector / bed->line));
		MUST(writes >= vector / bed->line);
	}
	check_past_and_reset(bed);
}

static void check_reduce(struct bed *bed, bool plain)
{
	struct fth_gpu_source a = source_of(bed, 0, plain);
	uint64_t expected = 0, sum = 0;

	for (uint64_t e = 0; e < bed->n; e++)
		expected += bed->seen[0][e];
	OK(fth_gpu_reduce(bed->work, &a, &sum));
	MUST(sum == expected);
}

static void check_scan(struct bed *bed, bool plain)
{
	struct fth_gpu_source from = source_of(bed, 1, plain), to = source_of(bed, 2, plain);
	uint64_t sum = 0;

	OK(fth_gpu_scan(bed->work, &from, &to));
	finish_writes(bed, plain);
	for (uint64_t e = 0; e < bed->n; e++) {
		sum += bed->seen[1][e];
		MUST(bed->seen[2][e] == sum);
	}
	check_past_and_reset(bed);
}

static void check_pattern(struct bed *bed, enum fth_gpu_pattern pattern, bool plain)
{
	struct fth_gpu_accesses accesses = {pattern, bed_asked.small ? 5003u : 100003u, vector / 16,
					    512, 3};
	struct fth_gpu_source a = source_of(bed, 0, plain);
	uint64_t expected = 0, sum = 0;

	for (uint64_t j = 0; j < accesses.n; j++) {
		uint64_t i = fth_gpu_access_index(&accesses, j);

		MUST(i < accesses.count);
		expected += bed->seen[0][i] ^ j;
	}
	OK(fth_gpu_access_run(bed->work, &a, &accesses, &sum));
	MUST(sum == expected);
}

static void check_all(uint32_t line)
{
	struct bed bed = bed_open(line);

	for (unsigned plain = 0; plain < 2; plain++) {
		check_reduce(&bed, plain);
		check_scan(&bed, plain);
		for (int p = 0; p < FTH_GPU_PATTERNS; p++)
			check_pattern(&bed, (enum fth_gpu_pattern)p, plain);
		check_add(&bed, plain);
	}
	bed_close(&bed);
	printf("lines of %u: sum, prefix sum, patterns and vectorAdd are right\n", line);
}

/* A drive that was stopped: every workload comes back with an error, also those that look back. */
static void check_failure(void)
{
	struct bed bed = bed_open(4096);
	struct fth_gpu_source a = source_of(&bed, 0, false), b = source_of(&bed, 1, false);
	struct fth_gpu_source c = source_of(&bed, 2, false);
	uint64_t sum;

	OK(fth_gpu_drive_stop(bed.medium.drive));
	MUST(fth_gpu_reduce(bed.work, &a, &sum) < 0);
	MUST(fth_gpu_scan(bed.work, &a, &c) < 0);
	MUST(fth_gpu_vector_add(bed.work, &a, &b, &c) < 0);
	OK(fth_gpu_drive_start(bed.medium.drive));
	check_reduce(&bed, false);
	bed_close(&bed);
	printf("a stopped drive: told as an error, and usable after it\n");
}

static void check_arguments(void)
{
	struct fth_gpu_work_options opts = FTH_GPU_WORK_OPTIONS_INIT;
	struct bed bed = bed_open(4096);
	struct fth_gpu_source a = source_of(&bed, 0, false), b = source_of(&bed, 1, true);
	struct fth_gpu_source c = source_of(&bed, 2, false);
	struct fth_gpu_accesses none = {FTH_GPU_STRIDED, 1, 100, 7, 0};
	struct fth_gpu_work *work;
	uint64_t sum;

	opts.ahead = 33;
	MUST(fth_gpu_work_open(&opts, &work) == -EINVAL);
	MUST(fth_gpu_vector_add(bed.work, &a, &a, &b) == -EINVAL);
	MUST(fth_gpu_scan(bed.work, &a, &b) == -EINVAL);
	/* In place through a cache, and elements that are not told of all alike. */
	MUST(fth_gpu_scan(bed.work, &a, &a) == -EINVAL);
	MUST(fth_gpu_vector_add(bed.work, &c, &a, &a) == -EINVAL);
	c.element = 4;
	MUST(fth_gpu_vector_add(bed.work, &a, &a, &c) == -EINVAL);
	MUST(fth_gpu_vector_add(bed.work, &a, &c, &a) == -EINVAL);
	MUST(fth_gpu_scan(bed.work, &a, &c) == -EINVAL);
	MUST(fth_gpu_access_run(bed.work, &a, &none, &sum) == -EINVAL);
	OK(fth_gpu_work_tune(bed.work, 0, 1));
	b.line = 512;
	b.element = 4;
	MUST(fth_gpu_reduce(bed.work, &b, &sum) == -EINVAL);
	b.element = 8;
	MUST(fth_gpu_scan(bed.work, &b, &b) == -ENOSPC);
	for (int k = 0; k < FTH_GPU_WORK_KERNELS; k++) {
		int registers = fth_gpu_work_registers((enum fth_gpu_work_kernel)k);

		printf("%s: %d registers\n", fth_gpu_work_kernel_name((enum fth_gpu_work_kernel)k),
		       registers);
		MUST(registers > 0 && registers <= 40);
	}
	bed_close(&bed);
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	if (bed_asked.small)
		vector = 2u << 20;
	check_all(512);
	check_all(4096);
	check_all(8192);
	check_arguments();
	if (!bed_asked.no_failure)
		check_failure();
	return 0;
}
