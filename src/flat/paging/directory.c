/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which pages are in the SSD-cache: sets of up to 16 slots, as in the paper (3.4), replaced by
 * re-reference interval prediction (SRRIP of Jaleel et al., ISCA 2010): a page comes in with a long
 * interval, an access makes it short, and a page with a distant one goes.
 */
#include "flat/flat_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

int directory_open(struct flat_directory *directory, uint64_t slots, uint64_t page,
		   uint8_t *borrowed)
{
	void *frames = borrowed;

	directory->ways = slots < FLAT_WAYS ? (uint32_t)slots : FLAT_WAYS;
	directory->sets = slots / directory->ways;
	directory->slots = malloc(directory->sets * directory->ways * sizeof(*directory->slots));
	directory->locks = calloc(directory->sets, sizeof(*directory->locks));
	if (!directory->slots || !directory->locks)
		return fth_fail(ENOMEM, "flat: no memory for a directory of %llu SSD-Cache slots",
				(unsigned long long)slots);
	for (uint64_t i = 0; i < directory->sets * directory->ways; i++)
		directory->slots[i] = (struct flat_slot){.page = FLAT_NONE};
	if (!borrowed)
		frames = mmap(NULL, directory->sets * directory->ways * page,
			      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (frames == MAP_FAILED)
		return fth_fail(ENOMEM,
				"flat: no memory for an SSD-Cache of %llu pages of %llu bytes",
				(unsigned long long)slots, (unsigned long long)page);
	directory->frames = frames;
	directory->page = page;
	directory->borrowed = borrowed;
	if (borrowed)
		return 0;
	/* requests in flight use them: a child gets no copy, and the parent no new page */
	(void)madvise(frames, directory->sets * directory->ways * page, MADV_DONTFORK);
	return 0;
}

void directory_close(struct flat_directory *directory)
{
	if (directory->frames && !directory->borrowed)
		munmap(directory->frames, directory->sets * directory->ways * directory->page);
	free(directory->slots);
	free(directory->locks);
}

static uint64_t set_of(const struct flat_directory *directory, uint64_t page)
{
	return fth_mix64(page) % directory->sets;
}

struct flat_slot *directory_find(struct flat_directory *directory, uint64_t page)
{
	uint64_t set = set_of(directory, page);
	struct flat_slot *slots = directory->slots + set * directory->ways, *found = NULL;

	futex_lock(&directory->locks[set]);
	for (uint32_t way = 0; way < directory->ways && !found; way++)
		if (slots[way].page == page)
			found = &slots[way];
	futex_unlock(&directory->locks[set]);
	return found;
}

/* The lock of the set that a slot is in. */
static uint32_t *lock_of(struct flat_directory *directory, const struct flat_slot *slot)
{
	return &directory->locks[(uint64_t)(slot - directory->slots) / directory->ways];
}

uint32_t directory_touch(struct flat_directory *directory, struct flat_slot *slot)
{
	uint32_t count;

	futex_lock(lock_of(directory, slot));
	slot->rrpv = 0;
	count = ++slot->count;
	__atomic_fetch_add(&directory->counts, 1, __ATOMIC_RELAXED);
	futex_unlock(lock_of(directory, slot));
	return count;
}

/* A page takes its count along when it leaves, whether it is evicted, promoted or discarded. */
static void drop_count(struct flat_directory *directory, const struct flat_slot *slot)
{
	__atomic_fetch_sub(&directory->counts, slot->count, __ATOMIC_RELAXED);
}

static void fill(struct flat_slot *slot, uint64_t page)
{
	*slot = (struct flat_slot){.page = page, .rrpv = FLAT_RRPV_MAX - 1};
}

/*
 * Which page goes first, as a number: the one with the longest interval. A clean page goes before
 * one with an interval that is one step longer, which would have to be written first.
 */
static uint32_t rank_of(const struct fth_flat *flat, const struct flat_slot *slot)
{
	bool clean = !(word_get(&flat->words[slot->page]) & WORD_DIRTY);

	return 2 * slot->rrpv + (clean ? 3 : 0);
}
#define RANK_MAX (2 * FLAT_RRPV_MAX + 3)

/* Age the set as SRRIP does: add to every RRPV what the victim lacked to FLAT_RRPV_MAX. */
static void age_set(const struct flat_directory *directory, struct flat_slot *slots, uint32_t steps)
{
	for (uint32_t way = 0; way < directory->ways; way++)
		slots[way].rrpv = slots[way].rrpv + steps < FLAT_RRPV_MAX ? slots[way].rrpv + steps
									  : FLAT_RRPV_MAX;
}

/* The slot of a page to evict, which is now locked; NULL if all are in use. */
static struct flat_slot *choose_victim(struct fth_flat *flat, struct flat_slot *slots)
{
	uint32_t ranks[FLAT_WAYS];

	for (uint32_t way = 0; way < flat->directory.ways; way++)
		ranks[way] = rank_of(flat, &slots[way]);
	for (uint32_t rank = RANK_MAX + 1; rank-- > 0;)
		for (uint32_t way = 0; way < flat->directory.ways; way++) {
			uint32_t *word = &flat->words[slots[way].page];

			if (ranks[way] != rank || !word_try_lock(word))
				continue;
			if (word_state(word) == WORD_CACHED) {
				age_set(&flat->directory, slots, FLAT_RRPV_MAX - slots[way].rrpv);
				return &slots[way];
			}
			word_unlock(word); /* it is on its way in, or up */
		}
	return NULL;
}

struct flat_slot *directory_enter(struct fth_flat *flat, uint64_t page, uint64_t *victim)
{
	struct flat_directory *directory = &flat->directory;
	uint64_t set = set_of(directory, page);
	struct flat_slot *slots = directory->slots + set * directory->ways, *slot = NULL;

	*victim = FLAT_NONE;
	futex_lock(&directory->locks[set]);
	for (uint32_t way = 0; way < directory->ways && !slot; way++)
		if (slots[way].page == FLAT_NONE)
			slot = &slots[way];
	if (slot) {
		fill(slot, page);
		__atomic_fetch_add(&directory->used, 1, __ATOMIC_RELAXED);
	} else {
		slot = choose_victim(flat, slots);
		if (slot)
			*victim = slot->page;
	}
	futex_unlock(&directory->locks[set]);
	return slot;
}

void directory_replace(struct flat_directory *directory, struct flat_slot *slot, uint64_t page)
{
	futex_lock(lock_of(directory, slot));
	drop_count(directory, slot);
	fill(slot, page);
	futex_unlock(lock_of(directory, slot));
}

void directory_remove(struct flat_directory *directory, struct flat_slot *slot)
{
	futex_lock(lock_of(directory, slot));
	drop_count(directory, slot);
	slot->page = FLAT_NONE;
	__atomic_fetch_sub(&directory->used, 1, __ATOMIC_RELAXED);
	futex_unlock(lock_of(directory, slot));
}

/* Those of one set; under its lock. */
static unsigned find_dirty_in(struct fth_flat *flat, struct flat_slot *slots,
			      struct flat_slot **dirty, unsigned n)
{
	unsigned found = 0;

	for (uint32_t way = 0; way < flat->directory.ways && found < n; way++) {
		uint32_t *word;

		if (slots[way].page == FLAT_NONE || slots[way].rrpv + 1 < FLAT_RRPV_MAX)
			continue;
		word = &flat->words[slots[way].page];
		if (!(word_get(word) & WORD_DIRTY) || !word_try_lock(word))
			continue;
		if (word_state(word) == WORD_CACHED && (word_get(word) & WORD_DIRTY))
			dirty[found++] = &slots[way];
		else
			word_unlock(word);
	}
	return found;
}

unsigned directory_find_dirty(struct fth_flat *flat, uint64_t *hand, struct flat_slot **dirty,
			      unsigned n)
{
	struct flat_directory *directory = &flat->directory;
	unsigned found = 0;

	for (uint64_t seen = 0; seen < directory->sets && found < n; seen++) {
		uint64_t set = *hand % directory->sets;

		futex_lock(&directory->locks[set]);
		found += find_dirty_in(flat, directory->slots + set * directory->ways,
				       dirty + found, n - found);
		futex_unlock(&directory->locks[set]);
		*hand = set + 1;
	}
	return found;
}
