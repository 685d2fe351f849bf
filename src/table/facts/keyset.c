/* SPDX-License-Identifier: BSD-2-Clause */
#include "table/facts/keyset.h"

#include "fathom/base/rng.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BITS  15u /* log2 of keys per page */
#define PAGE_WORDS ((1u << PAGE_BITS) / 64)

struct keyset_page {
	int64_t number; /* key >> PAGE_BITS */
	uint64_t bits[PAGE_WORDS];
};

struct keyset {
	size_t memory, used, *spare;
	uint32_t slots, pages; /* slots: a power of two */
	bool full;
	struct keyset_page *recent;
	struct keyset_page **slot;
};

struct keyset *keyset_new(size_t memory, size_t *spare)
{
	struct keyset *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->memory = memory;
	set->spare = spare;
	set->slots = 64;
	set->slot = calloc(set->slots, sizeof(*set->slot));
	if (!set->slot) {
		free(set);
		return NULL;
	}
	return set;
}

void keyset_free(struct keyset *set)
{
	if (!set)
		return;
	for (uint32_t i = 0; i < set->slots; i++)
		free(set->slot[i]);
	free(set->slot);
	*set->spare += set->memory;
	free(set);
}

static struct keyset_page **find_slot(struct keyset_page **slot, uint32_t slots, int64_t number)
{
	uint32_t i = (uint32_t)fth_mix64((uint64_t)number) & (slots - 1);

	while (slot[i] && slot[i]->number != number)
		i = (i + 1) & (slots - 1);
	return &slot[i];
}

static bool grow_slots(struct keyset *set)
{
	uint32_t slots = set->slots * 2;
	struct keyset_page **slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return false;
	for (uint32_t i = 0; i < set->slots; i++)
		if (set->slot[i])
			*find_slot(slot, slots, set->slot[i]->number) = set->slot[i];
	free(set->slot);
	set->slot = slot;
	set->slots = slots;
	return true;
}

static bool has_room(struct keyset *set)
{
	size_t wanted = set->used + sizeof(struct keyset_page);

	if (wanted > set->memory && wanted - set->memory <= *set->spare) {
		*set->spare -= wanted - set->memory;
		set->memory = wanted;
	}
	return wanted <= set->memory;
}

/* The page of a number; NULL if there is no memory for it. */
static struct keyset_page *find_page(struct keyset *set, int64_t number)
{
	struct keyset_page **slot = find_slot(set->slot, set->slots, number);

	if (*slot)
		return *slot;
	if (!has_room(set) || (set->pages * 2 >= set->slots && !grow_slots(set)))
		return NULL;
	slot = find_slot(set->slot, set->slots, number);
	*slot = calloc(1, sizeof(**slot));
	if (!*slot)
		return NULL;
	(*slot)->number = number;
	set->pages++;
	set->used += sizeof(**slot);
	return *slot;
}

int keyset_add(struct keyset *set, int64_t key)
{
	int64_t number = key >> PAGE_BITS;
	uint32_t bit = (uint32_t)key & ((1u << PAGE_BITS) - 1);
	uint64_t mask = (uint64_t)1 << bit % 64;
	int fresh;

	if (set->full)
		return -1;
	if (!set->recent || set->recent->number != number)
		set->recent = find_page(set, number);
	if (!set->recent) {
		set->full = true;
		return -1;
	}
	fresh = !(set->recent->bits[bit / 64] & mask);
	set->recent->bits[bit / 64] |= mask;
	return fresh;
}
