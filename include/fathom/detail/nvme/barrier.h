/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ordering between memory that a controller reads or writes and its registers.
 *
 * The acquire and release of threads order memory between processors. A controller is no
 * processor: it observes memory as a bus master, and its registers are device memory. Whether a
 * release store to device memory comes after earlier stores to ordinary memory, as the controller
 * sees them, depends on the processor:
 *
 *	x86-64	yes. Stores are seen in program order, a store to uncached memory included, and it
 *		drains write-combining buffers first (Intel SDM 3A, 11.3 and 8.2). Only the
 *		compiler must be stopped. Streaming stores are not covered: whoever makes them (the
 *		C library's memcpy does) ends with sfence.
 *	arm64	no. stlr orders for observers in the inner shareable domain; a bus master may be in
 *		the outer one, and the two stores go different ways. It takes a dmb of that domain,
 *		as Linux has in writel() and dma_rmb().
 *	GPU	st.release.sys is defined for all of the system, registers included.
 *
 * The software controller is threads of this process and needs less; it pays on arm64 only.
 */
#ifndef FATHOM_NVME_BARRIER_H
#define FATHOM_NVME_BARRIER_H

#include "fathom/hd/atomic.h"

/*
 * Write a register or doorbell. Stops it from reaching the controller before any earlier load or
 * store of this thread: entries that it announces are whole, entries that it gives back were read.
 */
FTH_HD void fth_nvme_mmio_write32(uint32_t *at, uint32_t value)
{
#if defined(__aarch64__) && !defined(__CUDA_ARCH__)
	__asm__ volatile("dmb osh" ::: "memory");
	fth_store_relaxed_sys32(at, value);
#else
	fth_store_release_sys32(at, value);
#endif
}

/*
 * Read a register, or a word of memory that the controller writes. Stops later loads and stores of
 * this thread from being made before it: what the word announces is read after it.
 */
FTH_HD uint32_t fth_nvme_mmio_read32(const uint32_t *at)
{
#if defined(__aarch64__) && !defined(__CUDA_ARCH__)
	uint32_t value = fth_load_relaxed_sys32(at);

	__asm__ volatile("dmb oshld" ::: "memory");
	return value;
#else
	return fth_load_acquire_sys32(at);
#endif
}

#endif
