/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copying from and to device memory. A PCIe function may refuse, split or repeat accesses that are
 * not aligned or wider than 8 bytes, and memcpy() may use any; so every access here is aligned and
 * of natural width, is made exactly once, and stays inside the range.
 *
 * The accesses are volatile, so that none is left out, even if its value is not used, and relaxed
 * atomics, so that none is split, and threads may race on what is, in a software controller, plain
 * memory.
 */
#ifndef FTH_SRC_DEV_MMIO_H
#define FTH_SRC_DEV_MMIO_H

#include <stdint.h>
#include <string.h>

/* The widest access that is aligned at `at` and does not go beyond `left` bytes; left > 0. */
static inline unsigned mmio_width(const void *at, uint64_t left)
{
	unsigned width = 8;

	while ((uintptr_t)at % width || width > left)
		width /= 2;
	return width;
}

static inline uint64_t mmio_load(const void *at, unsigned width)
{
	switch (width) {
	case 1:
		return __atomic_load_n((const volatile uint8_t *)at, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const volatile uint16_t *)at, __ATOMIC_RELAXED);
	case 4:
		return __atomic_load_n((const volatile uint32_t *)at, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const volatile uint64_t *)at, __ATOMIC_RELAXED);
	}
}

static inline void mmio_store(void *at, unsigned width, uint64_t value)
{
	switch (width) {
	case 1:
		__atomic_store_n((volatile uint8_t *)at, (uint8_t)value, __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n((volatile uint16_t *)at, (uint16_t)value, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((volatile uint32_t *)at, (uint32_t)value, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((volatile uint64_t *)at, value, __ATOMIC_RELAXED);
		break;
	}
}

static inline void mmio_copy_from(char *to, const char *from, uint64_t length)
{
	while (length > 0) {
		unsigned width = mmio_width(from, length);
		uint64_t value = mmio_load(from, width);

		memcpy(to, &value, width); /* little-endian: the low bytes come first */
		to += width;
		from += width;
		length -= width;
	}
}

static inline void mmio_copy_to(char *to, const char *from, uint64_t length)
{
	while (length > 0) {
		unsigned width = mmio_width(to, length);
		uint64_t value = 0;

		memcpy(&value, from, width);
		mmio_store(to, width, value);
		to += width;
		from += width;
		length -= width;
	}
}

/*
 * No load behind it is made before all stores ahead of it have left the processor, those that
 * wait in write-combining buffers included, and all loads ahead of it have been answered. That is
 * more than a fence between threads does.
 */
static inline void mmio_fence(void)
{
#if defined(__x86_64__)
	__asm__ volatile("mfence" ::: "memory");
#elif defined(__aarch64__)
	__asm__ volatile("dsb sy" ::: "memory");
#else
#error "say how this processor drains its stores to device memory"
#endif
}

#endif
