/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Items in memory: slots in size classes, a page of slots at a time.
 *
 * Invariants
 * 1. A slot is free (KV_FREE), held by the thread that took it, or linked: named by one index
 *    entry. Only under the lock of its key's buckets is it linked or unlinked.
 * 2. A record in a slot does not change while the slot is linked, nor while somebody holds it: a
 *    change of an item makes a new slot.
 * 3. Looking for a victim reads the tags of slots that others may be freeing, but only while
 *    the page can not go to another class, where the same bytes mean something else. Only the entry
 *    that is found under the lock, and names this very slot, decides; without it the slot is not
 *    looked at again.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT_MIN  96u
#define PAGE_MIN  65536u
#define PAGE_MAX  (1u << 20)
#define DRAWS	  16u /* slots that one look for a victim goes through */
#define CANDIDATE 4u  /* linked slots of which the oldest goes */
#define LOOKS	  256u

static struct kv_class *class_of(struct fth_kv *kv, uint64_t record_bytes)
{
	uint64_t bytes = offsetof(struct kv_slot, record) + record_bytes;
	struct kv_slots *slots = &kv->slots;

	for (unsigned c = 0; c < slots->classes; c++)
		if (bytes <= slots->class[c].bytes)
			return &slots->class[c];
	return NULL;
}

static struct kv_slot *slot_of_page(const struct kv_slots *slots, const struct kv_class *class,
				    uint32_t page, uint32_t i)
{
	return (struct kv_slot *)(void *)(slots->arena + (uint64_t)page * slots->page +
					  (uint64_t)i * class->bytes);
}

static uint32_t page_of(const struct kv_slots *slots, const struct kv_slot *slot)
{
	return (uint32_t)((uint64_t)((const uint8_t *)slot - slots->arena) / slots->page);
}

uint64_t kv_slot_place(const struct fth_kv *kv, const struct kv_slot *slot)
{
	return (uint64_t)((const uint8_t *)slot - kv->slots.arena) / KV_UNIT;
}

struct kv_slot *kv_slot_at(const struct fth_kv *kv, uint64_t place)
{
	return (struct kv_slot *)(void *)(kv->slots.arena + place * KV_UNIT);
}

/* ---- references ---- */

static void slot_free(struct fth_kv *kv, struct kv_slot *slot)
{
	uint32_t page = page_of(&kv->slots, slot);
	struct kv_class *class = &kv->slots.class[kv->slots.owner[page]];

	fth_add_relaxed_dev64(&kv->slots.items, UINT64_MAX);
	pthread_mutex_lock(&class->lock);
	fth_store_relaxed_dev32(&slot->refs, KV_FREE);
	if (!kv->slots.emptying[page]) {
		slot->next = class->free;
		class->free = slot;
	}
	pthread_mutex_unlock(&class->lock);
}

void kv_slot_ref(struct kv_slot *slot)
{
	/* relaxed: the bucket's lock, or an earlier reference, keeps it there */
	fth_add_relaxed_dev32(&slot->refs, 1);
}

static void drop(struct fth_kv *kv, struct kv_slot *slot, uint32_t what)
{
	/* acqrel: what all who held it did comes before it is free */
	if (fth_add_acqrel_dev32(&slot->refs, (uint32_t)-what) == what)
		slot_free(kv, slot);
}

void kv_slot_unref(struct fth_kv *kv, struct kv_slot *slot)
{
	drop(kv, slot, 1);
}

void kv_slot_unlink(struct fth_kv *kv, struct kv_slot *slot)
{
	drop(kv, slot, KV_LINKED);
}

/* ---- taking ---- */

/* A page that no class has yet. Under the class's lock. */
static bool add_page(struct kv_slots *slots, struct kv_class *class)
{
	uint32_t page;

	pthread_mutex_lock(&slots->lock);
	page = slots->pages_used;
	if (page < slots->pages)
		__atomic_store_n(&slots->pages_used, page + 1,
				 __ATOMIC_RELAXED); /* read by usage */
	pthread_mutex_unlock(&slots->lock);
	if (page == slots->pages)
		return false;
	class->pages[class->page_count++] = page;
	slots->owner[page] = (uint8_t)(class - slots->class);
	for (uint32_t i = class->per_page; i-- > 0;) {
		struct kv_slot *slot = slot_of_page(slots, class, page, i);

		fth_store_relaxed_dev32(&slot->refs, KV_FREE);
		slot->next = class->free;
		class->free = slot;
	}
	return true;
}

struct kv_slot *kv_slot_try(struct fth_kv *kv, uint64_t record_bytes)
{
	struct kv_class *class = class_of(kv, record_bytes);
	struct kv_slot *slot = NULL;

	if (!class)
		return NULL;
	pthread_mutex_lock(&class->lock);
	if (class->free || add_page(&kv->slots, class)) {
		slot = class->free;
		class->free = slot->next;
		fth_store_relaxed_dev32(&slot->refs, 1);
	}
	pthread_mutex_unlock(&class->lock);
	if (slot)
		fth_add_relaxed_dev64(&kv->slots.items, 1);
	return slot;
}

/* ---- victims ---- */

/* Is an item that has no place in the log worth one? The same answer each time it is asked. */
static bool admitted(const struct fth_kv *kv, const struct kv_slot *slot, const struct kv_entry *e)
{
	if (kv_persistent(kv) || kv->options.admit == 100 || e->traits & KV_HOT_MASK)
		return true;
	return fth_mix64(slot->record.cas) % 100 < kv->options.admit;
}

static int put_into_log(struct fth_kv *kv, struct kv_slot *slot)
{
	uint64_t bytes = kv_record_bytes(&slot->record);
	struct kv_room room;
	int rc = kv_log_reserve(kv, bytes, &room);

	if (rc < 0)
		return rc;
	kv_log_fill(kv, &room, &slot->record);
	if (slot->position != KV_NOWHERE)
		kv_count(kv, FTH_KV_STAT_REWRITTEN_BYTES, kv_round(bytes));
	slot->position = room.position;
	return 0;
}

/*
 * See to it that an item that leaves memory has a place in the log. Its buckets are locked. 0: it
 * has. 1: it gets none, and is forgotten. -EAGAIN: wait for the log.
 */
static int find_place(struct fth_kv *kv, struct kv_slot *slot, const struct kv_entry *e)
{
	int rc;

	if (!kv->dev || kv_dead(kv, &slot->record))
		return 1;
	if (slot->position != KV_NOWHERE && kv_position_valid(kv, slot->position))
		return 0;
	if (!admitted(kv, slot, e)) {
		kv_count(kv, FTH_KV_STAT_REJECTED, 1);
		return 1;
	}
	rc = put_into_log(kv, slot);
	if (rc == 0 || rc == -EAGAIN)
		return rc;
	kv_count(kv, rc == -EDQUOT ? FTH_KV_STAT_OVER_BUDGET : FTH_KV_STAT_DROPPED, 1);
	return 1;
}

/* A slot that is linked, and the key it had when it was looked at. */
struct victim {
	struct kv_slot *slot; /* NULL: none */
	uint64_t tag;
};

/* Invariant 3: its page stays with its class meanwhile. */
static struct victim look_at(struct kv_slot *slot)
{
	return (struct victim){slot, fth_load_relaxed_dev64(&slot->tag)};
}

/* 0: it is out of memory. 1: it was not to be had. -EAGAIN: wait for the log. */
static int evict_slot(struct fth_kv *kv, const struct victim *victim)
{
	struct kv_slot *slot = victim->slot;
	struct kv_key_id id;
	struct kv_entry *e;
	int rc;

	kv_key_id_of(kv, victim->tag, &id);
	kv_lock(kv, &id);
	e = kv_find_slot(kv, &id, slot);
	/* acquire: nobody reads it any more */
	if (!e || fth_load_acquire_dev32(&slot->refs) != KV_LINKED) {
		kv_unlock(kv, &id);
		return 1;
	}
	rc = find_place(kv, slot, e);
	if (rc == 0)
		kv_entry_set(
			e,
			kv_entry_extent(slot->position / KV_UNIT, kv_record_bytes(&slot->record)),
			(e->traits & ~KV_KIND_MASK) | KV_FLASH);
	else if (rc == 1) {
		kv_entry_clear(kv, e);
		kv_count(kv, FTH_KV_STAT_LOST, !kv_dead(kv, &slot->record));
	}
	if (rc >= 0)
		kv_slot_unlink(kv, slot);
	kv_unlock(kv, &id);
	if (rc >= 0)
		kv_count(kv, FTH_KV_STAT_EVICTED, 1);
	return rc < 0 ? rc : 0;
}

/* Any slot of a class that has pages. */
static struct kv_slot *draw_slot(const struct fth_kv *kv, struct kv_class *class)
{
	uint64_t dice = fth_rng_next(&class->random);
	uint32_t page = class->pages[(dice >> 32) % class->page_count];

	return slot_of_page(&kv->slots, class, page, (uint32_t)dice % class->per_page);
}

/* The oldest of a few linked slots of a class. They are drawn together, to be fetched together. */
static struct victim draw_victim(struct fth_kv *kv, struct kv_class *class)
{
	struct kv_slot *oldest = NULL, *drawn[CANDIDATE];
	struct victim victim = {0};
	unsigned seen = 0;

	pthread_mutex_lock(&class->lock);
	for (unsigned draws = 0; class->page_count && draws < DRAWS && seen < CANDIDATE;
	     draws += CANDIDATE) {
		for (unsigned i = 0; i < CANDIDATE; i++) {
			drawn[i] = draw_slot(kv, class);
			__builtin_prefetch(drawn[i]);
		}
		for (unsigned i = 0; i < CANDIDATE && seen < CANDIDATE; i++) {
			if (fth_load_relaxed_dev32(&drawn[i]->refs) != KV_LINKED)
				continue;
			seen++;
			if (!oldest || fth_load_relaxed_dev32(&drawn[i]->used) <
					       fth_load_relaxed_dev32(&oldest->used))
				oldest = drawn[i];
		}
	}
	if (oldest)
		victim = look_at(oldest);
	pthread_mutex_unlock(&class->lock);
	return victim;
}

/* ---- pages from one class to another ---- */

/* The class that has most pages; of several each in turn, since a page of one may be in use. */
static struct kv_class *richest(struct kv_slots *slots, const struct kv_class *but)
{
	struct kv_class *rich = NULL;
	uint32_t most = 0, first = slots->turn++;

	for (unsigned c = 0; c < slots->classes; c++) {
		struct kv_class *class = &slots->class[(first + c) % slots->classes];
		uint32_t pages;

		pthread_mutex_lock(&class->lock);
		pages = class->page_count;
		pthread_mutex_unlock(&class->lock);
		if (class != but && pages > most) {
			most = pages;
			rich = class;
		}
	}
	return rich;
}

/* Take a page's free slots out of the list; from here on what is freed there stays out of it. */
static uint32_t start_emptying(struct kv_slots *slots, struct kv_class *class)
{
	struct kv_slot **link;
	uint32_t page;

	pthread_mutex_lock(&class->lock);
	page = class->pages[fth_rng_below(&class->random, class->page_count)];
	slots->emptying[page] = 1;
	for (link = &class->free; *link;)
		if (page_of(slots, *link) == page)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	pthread_mutex_unlock(&class->lock);
	return page;
}

static bool all_free(const struct kv_slots *slots, const struct kv_class *class, uint32_t page)
{
	for (uint32_t i = 0; i < class->per_page; i++)
		if (fth_load_relaxed_dev32(&slot_of_page(slots, class, page, i)->refs) != KV_FREE)
			return false;
	return true;
}

/* Give the page to the other class, or if slots of it are in use back to its own. */
static bool end_emptying(struct kv_slots *slots, struct kv_class *class, uint32_t page,
			 struct kv_class *to)
{
	bool empty;

	pthread_mutex_lock(&class->lock);
	empty = all_free(slots, class, page);
	for (uint32_t i = 0; empty && i < class->page_count; i++)
		if (class->pages[i] == page)
			class->pages[i] = class->pages[--class->page_count];
	for (uint32_t i = 0; !empty && i < class->per_page; i++) {
		struct kv_slot *slot = slot_of_page(slots, class, page, i);

		if (fth_load_relaxed_dev32(&slot->refs) == KV_FREE) {
			slot->next = class->free;
			class->free = slot;
		}
	}
	slots->emptying[page] = 0;
	pthread_mutex_unlock(&class->lock);
	if (!empty)
		return false;
	pthread_mutex_lock(&to->lock);
	to->pages[to->page_count++] = page;
	slots->owner[page] = (uint8_t)(to - slots->class);
	for (uint32_t i = 0; i < to->per_page; i++) {
		struct kv_slot *slot = slot_of_page(slots, to, page, i);

		fth_store_relaxed_dev32(&slot->refs, KV_FREE);
		slot->next = to->free;
		to->free = slot;
	}
	pthread_mutex_unlock(&to->lock);
	return true;
}

/* A class without a page takes one from the class that has most. */
static int steal_page(struct fth_kv *kv, struct kv_class *to)
{
	struct kv_slots *slots = &kv->slots;
	struct kv_class *from;
	uint32_t page;
	int rc = -ENOMEM;

	pthread_mutex_lock(&slots->steal);
	from = richest(slots, to);
	if (from) {
		page = start_emptying(slots, from);
		rc = 0;
		for (uint32_t i = 0; i < from->per_page && rc >= 0; i++) {
			struct kv_slot *slot = slot_of_page(slots, from, page, i);
			struct victim victim = look_at(slot);

			if (fth_load_relaxed_dev32(&slot->refs) == KV_LINKED)
				rc = evict_slot(kv, &victim);
		}
		if (!end_emptying(slots, from, page, to) && rc >= 0)
			rc = -ENOMEM;
	}
	pthread_mutex_unlock(&slots->steal);
	return rc < 0 ? rc : 0;
}

int kv_slots_evict(struct fth_kv *kv, uint64_t record_bytes)
{
	struct kv_class *class = class_of(kv, record_bytes);
	struct fth_backoff backoff = {0};
	int rc;

	if (!class)
		return -EMSGSIZE;
	/*
	 * Slots are held for moments, by readers longer: with little memory it takes a few looks.
	 */
	do {
		struct victim victim = draw_victim(kv, class);

		rc = victim.slot ? evict_slot(kv, &victim) : steal_page(kv, class);
		fth_backoff_pause(&backoff);
	} while ((rc == 1 || rc == -ENOMEM) && backoff.spins < LOOKS);
	return rc == 1 ? -ENOMEM : rc;
}

/* ---- life ---- */

static int make_classes(struct fth_kv *kv, uint64_t slot_max)
{
	struct kv_slots *slots = &kv->slots;
	uint64_t bytes = SLOT_MIN;

	for (;;) {
		struct kv_class *class = &slots->class[slots->classes++];

		if (bytes > slot_max || slots->classes == KV_CLASSES_MAX)
			bytes = slot_max;
		pthread_mutex_init(&class->lock, NULL);
		class->bytes = (uint32_t)bytes;
		class->per_page = slots->page / class->bytes;
		class->random.state = slots->classes;
		class->pages = calloc(slots->pages, sizeof(*class->pages));
		if (!class->pages)
			return -ENOMEM;
		if (bytes == slot_max)
			return 0;
		bytes = kv_round(bytes + bytes / 4);
	}
}

int kv_slots_init(struct fth_kv *kv)
{
	struct kv_slots *slots = &kv->slots;
	uint64_t slot_max =
		kv_round(sizeof(struct kv_slot) + FTH_KV_KEY_MAX + (uint64_t)kv->options.value_max);

	/* Small pages for little memory: each class that is used has one at least. */
	for (slots->page = PAGE_MIN;
	     slots->page < PAGE_MAX && slots->page < kv->options.memory / 256;)
		slots->page *= 2;
	if (slots->page < slot_max)
		slots->page = (uint32_t)((slot_max + 4095) / 4096 * 4096);
	slots->pages = (uint32_t)(kv->options.memory / slots->page);
	if (slots->pages < 3)
		return fth_fail(EINVAL, "memory is %llu bytes; values of up to %u bytes need %llu",
				(unsigned long long)kv->options.memory, kv->options.value_max,
				(unsigned long long)slots->page * 3);
	slots->bytes = (uint64_t)slots->pages * slots->page;
	slots->arena = mmap(NULL, slots->bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (slots->arena == MAP_FAILED) {
		slots->arena = NULL;
		return fth_fail(ENOMEM, "no memory for %llu bytes of items",
				(unsigned long long)slots->bytes);
	}
	(void)madvise(slots->arena, slots->bytes, MADV_HUGEPAGE);
	pthread_mutex_init(&slots->lock, NULL);
	pthread_mutex_init(&slots->steal, NULL);
	slots->emptying = calloc(slots->pages, 1);
	slots->owner = calloc(slots->pages, 1);
	return slots->emptying && slots->owner ? make_classes(kv, slot_max) : -ENOMEM;
}

void kv_slots_release(struct fth_kv *kv)
{
	struct kv_slots *slots = &kv->slots;

	for (unsigned c = 0; c < slots->classes; c++) {
		pthread_mutex_destroy(&slots->class[c].lock);
		free(slots->class[c].pages);
	}
	free(slots->emptying);
	free(slots->owner);
	if (slots->arena) {
		munmap(slots->arena, slots->bytes);
		pthread_mutex_destroy(&slots->lock);
		pthread_mutex_destroy(&slots->steal);
	}
}
