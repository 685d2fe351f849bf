/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bus addresses behind an IOMMU are ours to hand out, inside the ranges it allows.
 *
 * Invariants
 * 1. free[] is sorted; ranges in it neither overlap nor touch, unless they came as two.
 * 2. capacity >= ranges added + allocations alive + 1, since n allocations leave at most n more
 *    gaps: so giving back never needs memory, and can not fail.
 *
 * Not thread-safe: the owner has a lock.
 */
#ifndef FTH_NVME_VFIO_IOVA_H
#define FTH_NVME_VFIO_IOVA_H

#include <stdbool.h>
#include <stdint.h>

struct iova_range {
	uint64_t start, last; /* last is inside */
};

struct iova_space { /* zeroed: empty, and may be released */
	struct iova_range *free;
	unsigned count, capacity;
	unsigned added, alive;
};

void iova_release(struct iova_space *space);

/* Allow a range beside those already there, all beyond its predecessors. 0, -EINVAL, -ENOMEM. */
int iova_add(struct iova_space *space, uint64_t start, uint64_t last);

/* The lowest len bytes at a multiple of align (a power of two). 0, -ENOSPC or -ENOMEM. */
int iova_alloc(struct iova_space *space, uint64_t len, uint64_t align, uint64_t *start);

/* Give back what alloc returned, whole. */
void iova_free(struct iova_space *space, uint64_t start, uint64_t len);

#endif
