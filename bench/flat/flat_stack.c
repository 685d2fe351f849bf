/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's block path: page faults in a file that is mapped with MADV_RANDOM and not in memory,
 * one page each, and the write-back of pages that were changed. CPU time is counted, not the time
 * that the disk takes.
 */
#include "flat_rows.h"
#include "common/scratch.h"

#include "common/cgroup.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE	  4096u
#define FILE_SIZE (64u << 20)
#define FAULTS	  4000u

static uint64_t cpu_ns(void)
{
	struct timespec at;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* Touch pages at random; CPU time of each. */
static uint64_t touch(volatile uint8_t *bytes, uint64_t seed, uint64_t faults, bool store)
{
	struct fth_rng rng = {seed};
	uint64_t start = cpu_ns();

	for (uint64_t i = 0; i < faults; i++) {
		volatile uint8_t *at = bytes + fth_rng_below(&rng, FILE_SIZE / PAGE) * PAGE;

		if (store)
			*at = 1;
		else
			(void)*at;
	}
	return (cpu_ns() - start) / faults;
}

static int measure_mapping(struct flat_bench *b, const char *path, volatile uint8_t *bytes)
{
	uint64_t faults = b->smallest ? FAULTS / 20 : FAULTS, cold, warm, start;
	int rc = 0;

	/* pages that are mapped stay in memory */
	if (madvise((void *)bytes, FILE_SIZE, MADV_DONTNEED) < 0)
		rc = fth_fail(errno, "madvise: %s", strerror(errno));
	if (rc == 0)
		rc = fth_cgroup_drop_pages(path);
	if (rc < 0)
		return rc;
	cold = touch(bytes, b->seed, faults, false);
	/* the same pages again, in memory but not mapped */
	if (madvise((void *)bytes, FILE_SIZE, MADV_DONTNEED) < 0)
		return fth_fail(errno, "madvise: %s", strerror(errno));
	warm = touch(bytes, b->seed, faults, false);
	b->stack_read_ns = cold > warm ? cold - warm : 0;
	(void)touch(bytes, b->seed, faults, true);
	start = cpu_ns();
	if (msync((void *)bytes, FILE_SIZE, MS_SYNC) < 0)
		return fth_fail(errno, "msync: %s", strerror(errno));
	b->stack_write_ns = (cpu_ns() - start) / faults;
	return 0;
}

int flat_stack_measure(struct flat_bench *b)
{
	struct fth_scratch scratch;
	void *bytes;
	int rc, fd;

	if (fth_scratch_in_memory(fth_scratch_folder(b->folder)))
		return fth_fail(ENOTSUP, "%s is on tmpfs: the kernel would not use its block layer",
				fth_scratch_folder(b->folder));
	rc = fth_scratch_open(&scratch, b->folder, "stack", FILE_SIZE, b->options);
	if (rc < 0)
		return rc;
	fd = open(scratch.path, O_RDWR | O_CLOEXEC);
	bytes = fd < 0 ? MAP_FAILED
		       : mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED) {
		rc = fth_fail(errno, "%s: %s", scratch.path, strerror(errno));
	} else {
		/* blocks that were never written are not read */
		memset(bytes, 1, FILE_SIZE);
		(void)madvise(bytes, FILE_SIZE, MADV_RANDOM);
		rc = measure_mapping(b, scratch.path, bytes);
		munmap(bytes, FILE_SIZE);
	}
	if (fd >= 0)
		close(fd);
	fth_scratch_remove(&scratch);
	return rc;
}
