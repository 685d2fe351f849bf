/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The window of file: the file, mapped. There are two ways, which differ in what persist does:
 *
 *	DAX	mmap with MAP_SYNC, which only file systems on persistent memory accept. Loads and
 *		stores reach the medium; what is missing is in the caches of the processor, and
 *		persist writes these lines back. The file system's own data is kept up to date by
 *		page faults: that is what MAP_SYNC means.
 *	map	with window=map: shared pages of the page cache. Persist is a flush of the device,
 *		fdatasync, which writes back dirty pages, stored to through any mapping.
 */
#include "dev/file/dev_file.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#define LINE 64u

/* ---- caches ---- */

#if defined(__x86_64__)

__attribute__((target("clwb"))) static void line_clwb(char *at)
{
	_mm_clwb(at);
}

__attribute__((target("clflushopt"))) static void line_clflushopt(char *at)
{
	_mm_clflushopt(at);
}

static void line_clflush(char *at)
{
	_mm_clflush(at);
}

/* The instruction that keeps the line in the cache, or evicts it in parallel, or one by one. */
static void (*choose_line(void))(char *)
{
	unsigned a, b = 0, c, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		b = 0;
	if (b & bit_CLWB)
		return line_clwb;
	return b & bit_CLFLUSHOPT ? line_clflushopt : line_clflush;
}

/* Stops persist from returning before the lines have left the caches. */
static void drain(void)
{
	_mm_sfence();
}

#elif defined(__aarch64__)

/* To the point of persistence, where the processor knows one; else to that of coherence. */
static void line_cvap(char *at)
{
	__asm__ volatile("sys #3, c7, c12, #1, %0" ::"r"(at) : "memory"); /* dc cvap */
}

static void line_cvac(char *at)
{
	__asm__ volatile("dc cvac, %0" ::"r"(at) : "memory");
}

static void (*choose_line(void))(char *)
{
	return getauxval(AT_HWCAP) & HWCAP_DCPOP ? line_cvap : line_cvac;
}

static void drain(void)
{
	__asm__ volatile("dsb sy" ::: "memory");
}

#else
#error "say how this processor writes back a line of its caches"
#endif

void dev_file_write_back(void *addr, uint64_t length)
{
	void (*write_back)(char *) = choose_line();
	char *end = (char *)addr + length;

	for (char *at = (char *)addr - (uintptr_t)addr % LINE; at < end; at += LINE)
		write_back(at);
	drain();
}

/* ---- the window ---- */

static void window_close(struct fth_dev_window *window)
{
	munmap(window->info.base, window->info.size);
	free(window);
}

static int persist_dax(struct fth_dev_window *window, uint64_t offset, uint64_t length,
		       uint64_t deadline)
{
	(void)deadline; /* it waits for memory only */
	dev_file_write_back((char *)window->info.base + offset, length);
	return 0;
}

/* All of the file: the kernel has no call for a part of it that ends at a deadline. */
static int persist_map(struct fth_dev_window *window, uint64_t offset, uint64_t length,
		       uint64_t deadline)
{
	(void)offset;
	(void)length;
	return fth_dev_flush(window->dev, deadline);
}

static const struct fth_dev_window_ops dax_ops = {.close = window_close, .persist = persist_dax};
static const struct fth_dev_window_ops map_ops = {.close = window_close, .persist = persist_map};

/* A store into a hole of a full file system is a signal, SIGBUS: have all blocks allocated. */
static int allocate(const struct dev_file *file)
{
	if (file->readonly || file->is_block_device ||
	    fallocate(file->fd, 0, 0, (off_t)file->dev.info.size) == 0 || errno == EOPNOTSUPP)
		return 0;
	return fth_fail(errno, "cannot allocate all blocks of the file for its window: %s",
			strerror(errno));
}

static void *map_file(const struct dev_file *file, int flags)
{
	int protection = file->readonly ? PROT_READ : PROT_READ | PROT_WRITE;
	void *base = mmap(NULL, file->dev.info.size, protection, flags, file->fd, 0);

	return base == MAP_FAILED ? NULL : base;
}

static int map_window(struct dev_file *file, struct fth_dev_window *window)
{
	bool in_memory = dev_file_lives_in_memory(file->fd);

	window->info.base = map_file(file, MAP_SHARED_VALIDATE | MAP_SYNC);
	if (window->info.base) {
		window->ops = &dax_ops;
		window->info.guarantee = FTH_DEV_WINDOW_POWER;
		snprintf(window->text, sizeof(window->text),
			 "File on persistent memory (DAX): persisted data survives a power loss.");
		return 0;
	}
	if (!file->window_map)
		return fth_fail(EOPNOTSUPP, "the file is not on a DAX file system; window=map maps "
					    "it through the page cache");
	window->info.base = map_file(file, MAP_SHARED);
	if (!window->info.base)
		return fth_fail(errno, "cannot map the file: %s", strerror(errno));
	window->ops = &map_ops;
	window->info.guarantee = in_memory ? FTH_DEV_WINDOW_EXIT : FTH_DEV_WINDOW_POWER;
	snprintf(window->text, sizeof(window->text),
		 "File mapped through the page cache: stores survive the end of the process, and "
		 "data persisted by fdatasync %s.",
		 in_memory ? "does not survive more than that, as the file system is in memory"
			   : "survives a power loss");
	return 0;
}

int dev_file_window_open(struct fth_dev *dev, enum fth_dev_window_kind kind,
			 struct fth_dev_window **out)
{
	struct dev_file *file = (struct dev_file *)dev;
	struct fth_dev_window *window;
	int rc;

	if (kind != FTH_DEV_WINDOW_ANY && kind != FTH_DEV_WINDOW_FILE)
		return fth_fail(EOPNOTSUPP, "file: has no window of kind %s",
				fth_dev_window_kind_name(kind));
	window = calloc(1, sizeof(*window));
	if (!window)
		return -ENOMEM;
	window->info.kind = FTH_DEV_WINDOW_FILE;
	window->info.size = dev->info.size;
	window->info.flags = file->readonly ? FTH_DEV_WINDOW_READ_ONLY : 0;
	rc = map_window(file, window);
	if (rc == 0) {
		rc = allocate(file);
		if (rc < 0)
			munmap(window->info.base, window->info.size);
	}
	if (rc < 0) {
		free(window);
		return rc;
	}
	*out = window;
	return 0;
}
