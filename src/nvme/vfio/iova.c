/* SPDX-License-Identifier: BSD-2-Clause */
/* Bus addresses, first fit. vfio/iova.h has the invariants. */
#include "iova.h"

#include "fathom/base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void iova_release(struct iova_space *space)
{
	free(space->free);
	memset(space, 0, sizeof(*space));
}

/* Room for one more range or allocation (invariant 2). */
static int reserve(struct iova_space *space)
{
	unsigned need = space->added + space->alive + 2, capacity = need + need / 2;
	struct iova_range *bigger;

	if (need <= space->capacity)
		return 0;
	bigger = realloc(space->free, capacity * sizeof(bigger[0]));
	if (!bigger)
		return -ENOMEM;
	space->free = bigger;
	space->capacity = capacity;
	return 0;
}

static void insert(struct iova_space *space, unsigned at, struct iova_range range)
{
	assert(space->count < space->capacity);
	memmove(&space->free[at + 1], &space->free[at],
		(space->count - at) * sizeof(space->free[0]));
	space->free[at] = range;
	space->count++;
}

static void remove_at(struct iova_space *space, unsigned at)
{
	space->count--;
	memmove(&space->free[at], &space->free[at + 1],
		(space->count - at) * sizeof(space->free[0]));
}

int iova_add(struct iova_space *space, uint64_t start, uint64_t last)
{
	int rc;

	if (last < start || (space->count && start <= space->free[space->count - 1].last))
		return fth_fail(EINVAL, "the IOMMU's address ranges are not sorted");
	rc = reserve(space);
	if (rc < 0)
		return rc;
	insert(space, space->count, (struct iova_range){start, last});
	space->added++;
	return 0;
}

/* Where len bytes fit in a range; false if they do not. Careful near 2^64. */
static bool fits(const struct iova_range *range, uint64_t len, uint64_t align, uint64_t *start)
{
	uint64_t skip = -range->start & (align - 1);

	if (skip > range->last - range->start || len - 1 > range->last - range->start - skip)
		return false;
	*start = range->start + skip;
	return true;
}

/* Take [start, last] out of the free range that holds it. */
static void carve(struct iova_space *space, unsigned at, uint64_t start, uint64_t last)
{
	struct iova_range *range = &space->free[at], whole = *range;

	if (start == whole.start && last == whole.last) {
		remove_at(space, at);
	} else if (start == whole.start) {
		range->start = last + 1;
	} else if (last == whole.last) {
		range->last = start - 1;
	} else {
		range->last = start - 1;
		insert(space, at + 1, (struct iova_range){last + 1, whole.last});
	}
}

int iova_alloc(struct iova_space *space, uint64_t len, uint64_t align, uint64_t *start)
{
	int rc = reserve(space);

	if (rc < 0)
		return rc;
	for (unsigned i = 0; len > 0 && i < space->count; i++) {
		if (!fits(&space->free[i], len, align, start))
			continue;
		carve(space, i, *start, *start + (len - 1));
		space->alive++;
		return 0;
	}
	return fth_fail(ENOSPC, "no IOMMU address range is free for %llu bytes",
			(unsigned long long)len);
}

void iova_free(struct iova_space *space, uint64_t start, uint64_t len)
{
	struct iova_range range = {start, start + (len - 1)};
	unsigned at = 0;

	while (at < space->count && space->free[at].start < start)
		at++;
	assert(at == space->count || range.last < space->free[at].start);
	assert(at == 0 || space->free[at - 1].last < start);
	space->alive--;
	if (at < space->count && space->free[at].start == range.last + 1) {
		range.last = space->free[at].last;
		remove_at(space, at);
	}
	if (at > 0 && space->free[at - 1].last + 1 == range.start)
		space->free[at - 1].last = range.last;
	else
		insert(space, at, range);
}
