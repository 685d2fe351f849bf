/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of a program that has far more of it than it may have in DRAM; for the programs of
 * flat_run_test.py.
 */
#ifndef FATHOM_TESTS_FLAT_RUN_MEMORY_H
#define FATHOM_TESTS_FLAT_RUN_MEMORY_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB  (1u << 20)
#define SIZE (48u * MIB)
#define PAGE 4096u

#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
				errno);                                                           \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

/*
 * Far more than the memory that it may have. Each page is used once, so that it is not in memory
 * when it is.
 */
static uint8_t *heap;
static size_t next_page;

static inline uint8_t expected(size_t at)
{
	return (uint8_t)(at * 7 + at / PAGE);
}

static inline void fill(uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		at[i] = expected((size_t)(at - heap) + i);
}

static inline int is_filled(const uint8_t *at, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != expected((size_t)(at - heap) + i))
			return 0;
	return 1;
}

static inline void start(void)
{
	heap = malloc(SIZE);
	CHECK(heap);
	fill(heap, SIZE);
}

/* Pages that were not used since they were filled. */
static inline void *cold(size_t bytes)
{
	size_t pages = (bytes + PAGE - 1) / PAGE;
	void *at = heap + next_page * PAGE;

	next_page += pages;
	CHECK(next_page * PAGE <= SIZE - 16 * MIB); /* the last were used last */
	return at;
}

static inline void *cold_copy(const void *from, size_t bytes)
{
	uint8_t *at = cold(bytes);

	memcpy(at, from, bytes);
	/* some other pages, until it is out again */
	for (size_t i = 0; i < 16 * MIB; i += PAGE)
		heap[SIZE - 16 * MIB + i]++;
	return at;
}

#endif
