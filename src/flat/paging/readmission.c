/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a page stays in DRAM. Accesses to DRAM are not observed, so the ring knows only which
 * page is the oldest. What is observed is that a page returns soon after its eviction: from the
 * SSD-cache, or from flash within two generations. Eviction then skips the page when it is the
 * oldest: once at first, and 2n + 1 times instead of n whenever the SSD-cache still had it. The
 * count of a page that returns later is reset. This is a generalised CLOCK (A. Smith, 1978) whose
 * reference counts come from returning pages.
 *
 * A generation is as many pages as DRAM has places. All fields of a page are under its lock.
 */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <sys/mman.h>

#define LAPS_MAX    15u
#define REMEMBERED  2u	 /* generations */
#define GENERATIONS 127u /* numbers of them, from 1 on, used again and again */

int readmission_open(struct fth_flat *flat)
{
	void *at = mmap(NULL, flat->pages * sizeof(*flat->readmissions), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return fth_fail(ENOMEM, "flat: no memory for the history of %llu pages",
				(unsigned long long)flat->pages);
	flat->readmissions = at;
	return 0;
}

void readmission_close(struct fth_flat *flat)
{
	if (flat->readmissions)
		munmap(flat->readmissions, flat->pages * sizeof(*flat->readmissions));
}

static uint64_t generation(const struct fth_flat *flat)
{
	uint64_t limit = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED);

	return __atomic_load_n(&flat->entered, __ATOMIC_RELAXED) / (limit ? limit : 1);
}

static bool is_remembered(const struct fth_flat *flat, const struct flat_readmission *stay)
{
	uint64_t now = generation(flat) % GENERATIONS + 1;

	return stay->left_at != 0 &&
	       (now + GENERATIONS - stay->left_at) % GENERATIONS <= REMEMBERED;
}

void readmission_enter(struct fth_flat *flat, uint64_t page)
{
	struct flat_readmission *stay = &flat->readmissions[page];
	unsigned laps = stay->laps;

	__atomic_fetch_add(&flat->entered, 1, __ATOMIC_RELAXED);
	if (!is_remembered(flat, stay))
		laps = 0;
	else {
		__atomic_fetch_add(&flat->returned, 1, __ATOMIC_RELAXED);
		if (!stay->gone || laps == 0)
			laps = 2 * laps + 1;
	}
	stay->gone = 0;
	stay->laps = laps < LAPS_MAX ? laps : LAPS_MAX;
	stay->laps_left = stay->laps;
}

bool readmission_skip(struct fth_flat *flat, uint64_t page)
{
	struct flat_readmission *stay = &flat->readmissions[page];

	if (stay->laps_left == 0)
		return false;
	stay->laps_left--;
	return true;
}

void readmission_left(struct fth_flat *flat, uint64_t page)
{
	flat->readmissions[page].left_at = (generation(flat) % GENERATIONS + 1) & 0x7f;
}

void readmission_gone(struct fth_flat *flat, uint64_t page)
{
	flat->readmissions[page].gone = 1;
}
