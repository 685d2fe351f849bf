/* SPDX-License-Identifier: BSD-2-Clause */
/* The window of crash(URI); dev_crash.c decides when what happens. */
#include "dev/wrap/crash_window.h"

#include "dev/mmio.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

static char *memory_of(const struct fth_dev_window *window)
{
	return window->info.base;
}

void fth_crash_window_load(const struct fth_dev_window *window, uint64_t offset, void *to,
			   uint64_t length)
{
	mmio_copy_from(to, memory_of(window) + offset, length);
}

void fth_crash_window_store(struct fth_dev_window *window, uint64_t offset, const void *from,
			    uint64_t length)
{
	mmio_copy_to(memory_of(window) + offset, from, length);
}

/*
 * What a power loss would find in a line. Other threads may be storing into it: a cut does not wait
 * for them, and any mixture of old and new words may be what remains. So this read races on
 * purpose, and ThreadSanitizer does not look at it.
 */
__attribute__((no_sanitize("thread"), noinline)) static void read_line(char *to, const char *from,
								       uint64_t length)
{
	uint64_t at = 0;

	for (; at + 8 <= length; at += 8) {
		uint64_t word = *(const volatile uint64_t *)(from + at);

		__builtin_memcpy(to + at, &word, 8);
	}
	for (; at < length; at++)
		to[at] = *(const volatile char *)(from + at);
}

/* The line at `at`, or what there is of it, in front and inside. True when they differ. */
static bool line_differs(const struct fth_crash_window *window, uint64_t at, char *line,
			 uint64_t *length)
{
	uint64_t left = window->window.info.size - at;
	char inside[FTH_CRASH_LINE];

	*length = left < FTH_CRASH_LINE ? left : FTH_CRASH_LINE;
	read_line(line, memory_of(&window->window) + at, *length);
	(void)fth_dev_window_load(window->inner, at, inside, *length);
	return memcmp(line, inside, *length) != 0;
}

int fth_crash_window_keep(struct fth_crash_window *window, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, n;
	char line[FTH_CRASH_LINE];
	int rc = 0;

	for (uint64_t at = offset - offset % FTH_CRASH_LINE; rc == 0 && at < end;
	     at += FTH_CRASH_LINE)
		if (line_differs(window, at, line, &n))
			rc = fth_dev_window_store(window->inner, at, line, n);
	return rc;
}

int fth_crash_window_power_loss(struct fth_crash_window *window, uint64_t seed, uint64_t deadline)
{
	struct fth_rng rng = {seed};
	char line[FTH_CRASH_LINE];
	uint64_t n;
	int rc = 0;

	window->lost = true;
	for (uint64_t at = 0; rc == 0 && at < window->window.info.size; at += FTH_CRASH_LINE)
		if (line_differs(window, at, line, &n) && fth_rng_below(&rng, 2))
			rc = fth_dev_window_store(window->inner, at, line, n);
	if (rc == 0)
		rc = fth_dev_window_persist(window->inner, 0, window->window.info.size, deadline);
	return rc;
}

/* ---- making and ending ---- */

/* Copy what is inside; pages of zeroes stay unallocated. */
static void fill(struct fth_crash_window *window)
{
	static const char zeroes[PAGE];
	uint64_t size = window->window.info.size;
	char page[PAGE];

	for (uint64_t at = 0; at < size; at += PAGE) {
		uint64_t n = size - at < PAGE ? size - at : PAGE;

		(void)fth_dev_window_load(window->inner, at, page, n);
		if (memcmp(page, zeroes, n) != 0)
			memcpy(memory_of(&window->window) + at, page, n);
	}
}

int fth_crash_window_open(struct fth_dev *inner, enum fth_dev_window_kind kind,
			  struct fth_crash_window **out)
{
	struct fth_crash_window *window = calloc(1, sizeof(*window));
	struct fth_dev_window_info *info;
	int rc;

	if (!window)
		return -ENOMEM;
	rc = fth_dev_window_open(inner, kind, FTH_DEV_WINDOW_VOLATILE, &window->inner);
	if (rc < 0) {
		free(window);
		return rc;
	}
	info = &window->window.info;
	*info = *fth_dev_window_info(window->inner);
	info->flags = (info->flags & ~(uint32_t)FTH_DEV_WINDOW_IO_MEMORY) | FTH_DEV_WINDOW_EMULATED;
	info->base = mmap(NULL, info->size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (info->base == MAP_FAILED) {
		info->base = NULL;
		fth_crash_window_free(window);
		return -ENOMEM;
	}
	snprintf(
		window->window.text, sizeof(window->window.text),
		"%.900s A simulated power loss takes what was not persisted, by lines of %u bytes.",
		fth_dev_window_text(window->inner), FTH_CRASH_LINE);
	fill(window);
	*out = window;
	return 0;
}

void fth_crash_window_free(struct fth_crash_window *window)
{
	if (window->window.info.base)
		munmap(window->window.info.base, window->window.info.size);
	fth_dev_window_close(window->inner);
	free(window);
}
