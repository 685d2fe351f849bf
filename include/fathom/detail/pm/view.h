/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent memory as code on the CPU or on a GPU sees it. What the library stores into persistent
 * memory goes through fth_pm_put*(); flush says which bytes have to persist, fence waits for them:
 *
 *	mode	CPU: flush / fence			GPU: flush / fence
 *	FENCE	- / stores are made			- / system-scope fence
 *	FLUSH	write cache lines back / sfence		- / system-scope fence
 *	WRITE_BACK mark pages / write and flush		mark pages / fence, wait for that
 *	WINDOW	persist of the window / -		not available
 *	NONE	- / -					- / -
 *
 * What may be lost before the fence: of each aligned word of 8 bytes any value since its last fence
 * survives, independent of other words. Code must not rely on more: a processor with persistent
 * memory keeps the order inside a line, but a GPU and write-back do not.
 *
 * Drained memory, invariants of the control block and the marks:
 *
 *	1. A page whose bytes were flushed and are not durable has its mark set, or belongs to the
 *	   round that is under way. `coarse` has a mark for each 512 pages and is set after the
 *	   page's.
 *	2. A round: begun is incremented; marks are taken (exchanged with 0) and their pages
 *	   copied and written; the device is flushed; done becomes begun.
 *	3. A thread that sets marks and then reads `begun` = b is served when done > b, for the
 *	   round b + 1 takes marks after b + 1 was stored. Between the stores of marks and the
 *	   load there is a full barrier: the load must not be made before them.
 *	4. A GPU stores `wanted` after it read `begun`. The server clears it before a round
 *	   begins; so a round begins after every store of it.
 *
 * CPU and GPU never do a read-modify-write on the same word: over PCIe these are not atomic.
 *
 * With FTH_PM_TRACE defined, stores, flushes and fences of the CPU go to a recorder
 * (src/pm/explore/trace.h), from which the crash explorer makes all states that a crash could
 * leave. With FTH_PM_STOP (or FTH_PM_TRACE) defined, the process or the kernel is stopped at a
 * fence of choice: control->stop_after.
 */
#ifndef FATHOM_DETAIL_PM_VIEW_H
#define FATHOM_DETAIL_PM_VIEW_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "fathom/base/decls.h"
#include "fathom/hd/atomic.h"
#include "fathom/hd/wait.h"

#define FTH_PM_LINE	    64u	  /* bytes that the processor writes back at once */
#define FTH_PM_PAGE	    4096u /* bytes that write-back writes at once */
#define FTH_PM_COARSE_SHIFT 9u	  /* pages of a coarse mark: 512 */

enum fth_pm_mode {
	FTH_PM_MODE_FENCE,
	FTH_PM_MODE_FLUSH,
	FTH_PM_MODE_WRITE_BACK,
	FTH_PM_MODE_WINDOW,
	FTH_PM_MODE_NONE /* memory that is not persistent, used like it */
};

/* How lines are written back, best first. */
enum fth_pm_line {
	FTH_PM_LINE_CLWB,
	FTH_PM_LINE_CLFLUSHOPT,
	FTH_PM_LINE_CLFLUSH,
	FTH_PM_LINE_NONE /* the caches are durable (eADR) */
};

/* In memory that a GPU can reach. Each group of fields has one writer and its own line. */
struct fth_pm_control {
	/* Written by the thread that runs the round. */
	uint64_t begun;
	uint64_t done;
	uint64_t error; /* a positive errno, for good; a thread that timed out stores ETIMEDOUT */
	uint64_t pad0[5];
	/* By a GPU. */
	uint64_t wanted;
	uint64_t pad1[7];
	/* For tests: fences so far, and the one to stop at (0: none). */
	uint64_t fences;
	uint64_t stop_after;
	uint64_t pad2[6];
};

struct fth_pm_view {
	uint8_t *base; /* the first byte after the header, at this processor's address */
	uint64_t size;
	struct fth_pm_control *control;
	uint8_t *marks;	 /* WRITE_BACK: a byte for each page; page 0 is the header */
	uint8_t *coarse; /* WRITE_BACK: a byte for each 512 pages */
	uint32_t mode;	 /* of enum fth_pm_mode */
	uint32_t line;	 /* of enum fth_pm_line */
	uint64_t timeout_ns;
	void *host; /* for the CPU: struct fth_pm; for a GPU: struct fth_pm_mirror, in its memory */
};

/* FTH_WARP_ON_HOST: a test plays the threads of a GPU. */
#if defined(__CUDA_ARCH__) || defined(FTH_WARP_ON_HOST)
#define FTH_PM_ON_GPU_
#endif
#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)
#include "fathom/detail/pm/device.h"
#endif

FTH_BEGIN_DECLS

/*
 * The CPU's fence of memory behind a device, which waits until flushed bytes are durable; and the
 * flush of a window, whose error the next fence returns.
 */
int fth_pm_fence_device(const struct fth_pm_view *view);
void fth_pm_flush_window(const struct fth_pm_view *view, const void *p, uint64_t length);

#ifdef FTH_PM_TRACE
/* The recorder. `to` was stored; the range was flushed; a fence comes next. */
void fth_pm_trace_store(const struct fth_pm_view *view, const void *to, uint64_t length);
void fth_pm_trace_flush(const struct fth_pm_view *view, const void *p, uint64_t length);
void fth_pm_trace_fence(const struct fth_pm_view *view);
#endif

FTH_END_DECLS

#if defined(FTH_PM_TRACE) && !defined(__CUDA_ARCH__)
#define FTH_PM_STORED_(v, to, length) fth_pm_trace_store((v), (to), (length))
#else
#define FTH_PM_STORED_(v, to, length) (void)(v)
#endif

/* ---- stores ---- */

/* One aligned store. */
FTH_HD void fth_pm_put32(const struct fth_pm_view *v, uint32_t *to, uint32_t value)
{
#ifdef __CUDA_ARCH__
	*(volatile uint32_t *)to = value;
#else
	fth_store_relaxed_sys32(to, value);
#endif
	FTH_PM_STORED_(v, to, sizeof(*to));
}

FTH_HD void fth_pm_put64(const struct fth_pm_view *v, uint64_t *to, uint64_t value)
{
#ifdef __CUDA_ARCH__
	*(volatile uint64_t *)to = value;
#else
	fth_store_relaxed_sys64(to, value);
#endif
	FTH_PM_STORED_(v, to, sizeof(*to));
}

/* Copy in aligned stores of up to 8 bytes, as device memory needs it. */
FTH_HD void fth_pm_put_words_(uint8_t *to, const uint8_t *from, uint64_t length)
{
	while (length > 0) {
		uint64_t value;
		uint32_t half;

		if ((uintptr_t)to % 8 == 0 && length >= 8) {
			memcpy(&value, from, 8);
			*(volatile uint64_t *)(void *)to = value;
			to += 8, from += 8, length -= 8;
		} else if ((uintptr_t)to % 4 == 0 && length >= 4) {
			memcpy(&half, from, 4);
			*(volatile uint32_t *)(void *)to = half;
			to += 4, from += 4, length -= 4;
		} else {
			*(volatile uint8_t *)to = *from;
			to += 1, from += 1, length -= 1;
		}
	}
}

/* Copy. Words of 8 bytes that are aligned at `to` are each stored as a whole. */
FTH_HD void fth_pm_put(const struct fth_pm_view *v, void *to, const void *from, uint64_t length)
{
#ifdef __CUDA_ARCH__
	fth_pm_put_words_((uint8_t *)to, (const uint8_t *)from, length);
#else
	if (v->mode == FTH_PM_MODE_WINDOW)
		fth_pm_put_words_((uint8_t *)to, (const uint8_t *)from, length);
	else
		memcpy(to, from, length); /* its stores are not narrower than aligned words */
#endif
	FTH_PM_STORED_(v, to, length);
}

/* ---- flush and fence ---- */

#if !defined(__CUDA_ARCH__)
FTH_HD void fth_pm_flush_lines_(uint32_t line, const void *p, uint64_t length)
{
	uintptr_t at = (uintptr_t)p & ~(uintptr_t)(FTH_PM_LINE - 1), end = (uintptr_t)p + length;

#if defined(__x86_64__)
	if (line == FTH_PM_LINE_CLWB)
		for (; at < end; at += FTH_PM_LINE)
			__asm__ volatile("clwb %0" : "+m"(*(volatile char *)at));
	else if (line == FTH_PM_LINE_CLFLUSHOPT)
		for (; at < end; at += FTH_PM_LINE)
			__asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)at));
	else if (line == FTH_PM_LINE_CLFLUSH)
		for (; at < end; at += FTH_PM_LINE)
			__asm__ volatile("clflush %0" : "+m"(*(volatile char *)at));
#elif defined(__aarch64__)
	if (line == FTH_PM_LINE_CLWB) /* to the point of persistence */
		for (; at < end; at += FTH_PM_LINE)
			__asm__ volatile("sys #3, c7, c12, #1, %0" ::"r"(at) : "memory");
	else if (line != FTH_PM_LINE_NONE)
		for (; at < end; at += FTH_PM_LINE)
			__asm__ volatile("dc cvac, %0" ::"r"(at) : "memory");
#else
#error "say how this processor writes back a line of its caches"
#endif
}

FTH_HD void fth_pm_store_fence_(uint32_t mode)
{
#if defined(__x86_64__)
	if (mode == FTH_PM_MODE_FLUSH)
		__asm__ volatile("sfence" ::: "memory"); /* lines have left the caches */
	else
		__asm__ volatile("" ::: "memory"); /* stores are made, in their order */
#else
	(void)mode;
	__asm__ volatile("dsb sy" ::: "memory");
#endif
}
#endif

FTH_HD void fth_pm_mark_(const struct fth_pm_view *v, const void *p, uint64_t length)
{
	uint64_t at = (uint64_t)((const uint8_t *)p - v->base) + FTH_PM_PAGE;
	uint64_t from = at / FTH_PM_PAGE, to = (at + length - 1) / FTH_PM_PAGE;
	uint64_t coarse_to = to >> FTH_PM_COARSE_SHIFT;

#ifdef FTH_PM_ON_GPU_
	__threadfence_system(); /* data before marks, page marks before coarse ones */
	for (uint64_t page = from; page <= to; page++)
		*(volatile uint8_t *)&v->marks[page] = 1;
	__threadfence_system();
	for (uint64_t c = from >> FTH_PM_COARSE_SHIFT; c <= coarse_to; c++)
		*(volatile uint8_t *)&v->coarse[c] = 1;
#else
	/* release: the round that takes the mark sees the data. */
	for (uint64_t page = from; page <= to; page++)
		__atomic_store_n(&v->marks[page], 1, __ATOMIC_RELEASE);
	for (uint64_t c = from >> FTH_PM_COARSE_SHIFT; c <= coarse_to; c++)
		__atomic_store_n(&v->coarse[c], 1, __ATOMIC_RELEASE);
#endif
}

/* These bytes are to be persistent after the next fence of this thread. */
FTH_HD void fth_pm_flush_range(const struct fth_pm_view *v, const void *p, uint64_t length)
{
	if (length == 0)
		return;
#if defined(FTH_PM_TRACE) && !defined(__CUDA_ARCH__)
	fth_pm_trace_flush(v, p, length);
#endif
	if (v->mode == FTH_PM_MODE_WRITE_BACK)
		fth_pm_mark_(v, p, length);
#ifndef __CUDA_ARCH__
	else if (v->mode == FTH_PM_MODE_FLUSH)
		fth_pm_flush_lines_(v->line, p, length);
	else if (v->mode == FTH_PM_MODE_WINDOW)
		fth_pm_flush_window(v, p, length);
#endif
}

#if defined(FTH_PM_STOP) || defined(FTH_PM_TRACE)
/* Before the fence: what it would persist is lost. */
FTH_HD void fth_pm_stop_(const struct fth_pm_view *v)
{
	uint64_t stop = fth_load_relaxed_sys64(&v->control->stop_after);

	if (stop != 0 && fth_add_relaxed_sys64(&v->control->fences, 1) + 1 >= stop) {
#ifdef __CUDA_ARCH__
		__trap();
#else
		__builtin_trap();
#endif
	}
}
#endif

/* What this thread has flushed is persistent when this returns 0. */
FTH_HD int fth_pm_fence(const struct fth_pm_view *v)
{
	if (v->mode == FTH_PM_MODE_NONE)
		return 0;
#if defined(FTH_PM_STOP) || defined(FTH_PM_TRACE)
	fth_pm_stop_(v);
#endif
#ifdef FTH_PM_ON_GPU_
	if (v->mode == FTH_PM_MODE_WRITE_BACK)
		return fth_pm_gpu_fence_(v);
	__threadfence_system();
	return 0;
#else
#ifdef FTH_PM_TRACE
	fth_pm_trace_fence(v);
#endif
	if (v->mode == FTH_PM_MODE_FENCE || v->mode == FTH_PM_MODE_FLUSH) {
		fth_pm_store_fence_(v->mode);
		return 0;
	}
	return fth_pm_fence_device(v);
#endif
}

FTH_HD int fth_pm_persist_range(const struct fth_pm_view *v, const void *p, uint64_t length)
{
	fth_pm_flush_range(v, p, length);
	return fth_pm_fence(v);
}

#endif
