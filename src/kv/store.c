/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Items in memory: slots in size classes, a page of slots at a time.
 *
 * Invariants
 * 1. A slot is free (KV_FREE), held by the thread that took it, or linked: named by one index entry.
 *    Only under the lock of its key's buckets is it linked or unlinked.
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
	struct kv_store *store = &kv->store;

	for (unsigned c = 0; c < store->classes; c++)
		if (bytes <= store->class[c].bytes)
			return &store->class[c];
	return NULL;
}

static struct kv_slot *slot_of_page(const struct kv_store *store, const struct kv_class *class,
				    uint32_t page, uint32_t i)
{
	return (struct kv_slot *)(void *)(store->arena + (uint64_t)page * store->page +
					  (uint64_t)i * class->bytes);
}

static uint32_t page_of(const struct kv_store *store, const struct kv_slot *slot)
{
	return (uint32_t)((uint64_t)((const uint8_t *)slot - store->arena) / store->page);
}

uint64_t kv_slot_place(const struct fth_kv *kv, const struct kv_slot *slot)
{
	return (uint64_t)((const uint8_t *)slot - kv->store.arena) / KV_UNIT;
}

struct kv_slot *kv_slot_at(const struct fth_kv *kv, uint64_t place)
{
	return (struct kv_slot *)(void *)(kv->store.arena + place * KV_UNIT);
}

/* ---- references ---- */

static void slot_free(struct fth_kv *kv, struct kv_slot *slot)
{
	uint32_t page = page_of(&kv->store, slot);
	struct kv_class *class = &kv->store.class[kv->store.owner[page]];

	fth_add_relaxed_dev64(&kv->store.items, UINT64_MAX);
	pthread_mutex_lock(&class->lock);
	fth_store_relaxed_dev32(&slot->refs, KV_FREE);
	if (!kv->store.draining[page]) {
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
static bool add_page(struct kv_store *store, struct kv_class *class)
{
	uint32_t page;

	pthread_mutex_lock(&store->lock);
	page = store->pages_used;
	if (page < store->pages)
		__atomic_store_n(&store->pages_used, page + 1,
				 __ATOMIC_RELAXED); /* read by usage */
	pthread_mutex_unlock(&store->lock);
	if (page == store->pages)
		return false;
	class->pages[class->page_count++] = page;
	store->owner[page] = (uint8_t)(class - store->class);
	for (uint32_t i = class->per_page; i-- > 0;) {
		struct kv_slot *slot = slot_of_page(store, class, page, i);

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
	if (class->free || add_page(&kv->store, class)) {
		slot = class->free;
		class->free = slot->next;
		fth_store_relaxed_dev32(&slot->refs, 1);
	}
	pthread_mutex_unlock(&class->lock);
	if (slot)
		fth_add_relaxed_dev64(&kv->store.items, 1);
	return slot;
}

/* ---- victims ---- */

/* Is an item that has no place in the log worth one? The same answer each time it is asked. */
static bool admitted(const struct fth_kv *kv, const struct kv_slot *slot, const struct kv_entry *e)
{
	if (kv_persistent(kv) || kv->options.admit == 100 || e->what & KV_HOT_MASK)
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
	struct kv_name name;
	struct kv_entry *e;
	int rc;

	kv_name_of(kv, victim->tag, &name);
	kv_lock(kv, &name);
	e = kv_find_slot(kv, &name, slot);
	/* acquire: nobody reads it any more */
	if (!e || fth_load_acquire_dev32(&slot->refs) != KV_LINKED) {
		kv_unlock(kv, &name);
		return 1;
	}
	rc = find_place(kv, slot, e);
	if (rc == 0)
		kv_entry_set(e, kv_where(slot->position / KV_UNIT, kv_record_bytes(&slot->record)),
			     (e->what & ~KV_KIND_MASK) | KV_FLASH);
	else if (rc == 1) {
		kv_entry_clear(kv, e);
		kv_count(kv, FTH_KV_STAT_LOST, !kv_dead(kv, &slot->record));
	}
	if (rc >= 0)
		kv_slot_unlink(kv, slot);
	kv_unlock(kv, &name);
	if (rc >= 0)
		kv_count(kv, FTH_KV_STAT_EVICTED, 1);
	return rc < 0 ? rc : 0;
}

/* Any slot of a class that has pages. */
static struct kv_slot *draw_slot(const struct fth_kv *kv, struct kv_class *class)
{
	uint64_t dice = fth_rng_next(&class->random);
	uint32_t page = class->pages[(dice >> 32) % class->page_count];

	return slot_of_page(&kv->store, class, page, (uint32_t)dice % class->per_page);
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
static struct kv_class *richest(struct kv_store *store, const struct kv_class *but)
{
	struct kv_class *rich = NULL;
	uint32_t most = 0, first = store->turn++;

	for (unsigned c = 0; c < store->classes; c++) {
		struct kv_class *class = &store->class[(first + c) % store->classes];
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
static uint32_t start_draining(struct kv_store *store, struct kv_class *class)
{
	struct kv_slot **link;
	uint32_t page;

	pthread_mutex_lock(&class->lock);
	page = class->pages[fth_rng_below(&class->random, class->page_count)];
	store->draining[page] = 1;
	for (link = &class->free; *link;)
		if (page_of(store, *link) == page)
			*link = (*link)->next;
		else
			link = &(*link)->next;
	pthread_mutex_unlock(&class->lock);
	return page;
}

static bool all_free(const struct kv_store *store, const struct kv_class *class, uint32_t page)
{
	for (uint32_t i = 0; i < class->per_page; i++)
		if (fth_load_relaxed_dev32(&slot_of_page(store, class, page, i)->refs) != KV_FREE)
			return false;
	return true;
}

/* Give the page to the other class, or if slots of it are in use back to its own. */
static bool end_draining(struct kv_store *store, struct kv_class *class, uint32_t page,
			 struct kv_class *to)
{
	bool empty;

	pthread_mutex_lock(&class->lock);
	empty = all_free(store, class, page);
	for (uint32_t i = 0; empty && i < class->page_count; i++)
		if (class->pages[i] == page)
			class->pages[i] = class->pages[--class->page_count];
	for (uint32_t i = 0; !empty && i < class->per_page; i++) {
		struct kv_slot *slot = slot_of_page(store, class, page, i);

		if (fth_load_relaxed_dev32(&slot->refs) == KV_FREE) {
			slot->next = class->free;
			class->free = slot;
		}
	}
	store->draining[page] = 0;
	pthread_mutex_unlock(&class->lock);
	if (!empty)
		return false;
	pthread_mutex_lock(&to->lock);
	to->pages[to->page_count++] = page;
	store->owner[page] = (uint8_t)(to - store->class);
	for (uint32_t i = 0; i < to->per_page; i++) {
		struct kv_slot *slot = slot_of_page(store, to, page, i);

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
	struct kv_store *store = &kv->store;
	struct kv_class *from;
	uint32_t page;
	int rc = -ENOMEM;

	pthread_mutex_lock(&store->steal);
	from = richest(store, to);
	if (from) {
		page = start_draining(store, from);
		rc = 0;
		for (uint32_t i = 0; i < from->per_page && rc >= 0; i++) {
			struct kv_slot *slot = slot_of_page(store, from, page, i);
			struct victim victim = look_at(slot);

			if (fth_load_relaxed_dev32(&slot->refs) == KV_LINKED)
				rc = evict_slot(kv, &victim);
		}
		if (!end_draining(store, from, page, to) && rc >= 0)
			rc = -ENOMEM;
	}
	pthread_mutex_unlock(&store->steal);
	return rc < 0 ? rc : 0;
}

int kv_store_evict(struct fth_kv *kv, uint64_t record_bytes)
{
	struct kv_class *class = class_of(kv, record_bytes);
	struct fth_backoff backoff = {0};
	int rc;

	if (!class)
		return -EMSGSIZE;
	/* Slots are held for moments, by readers longer: with little memory it takes a few looks. */
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
	struct kv_store *store = &kv->store;
	uint64_t bytes = SLOT_MIN;

	for (;;) {
		struct kv_class *class = &store->class[store->classes++];

		if (bytes > slot_max || store->classes == KV_CLASSES_MAX)
			bytes = slot_max;
		pthread_mutex_init(&class->lock, NULL);
		class->bytes = (uint32_t)bytes;
		class->per_page = store->page / class->bytes;
		class->random.state = store->classes;
		class->pages = calloc(store->pages, sizeof(*class->pages));
		if (!class->pages)
			return -ENOMEM;
		if (bytes == slot_max)
			return 0;
		bytes = kv_round(bytes + bytes / 4);
	}
}

int kv_store_init(struct fth_kv *kv)
{
	struct kv_store *store = &kv->store;
	uint64_t slot_max =
		kv_round(sizeof(struct kv_slot) + FTH_KV_KEY_MAX + (uint64_t)kv->options.value_max);

	/* Small pages for little memory: each class that is used has one at least. */
	for (store->page = PAGE_MIN;
	     store->page < PAGE_MAX && store->page < kv->options.memory / 256;)
		store->page *= 2;
	if (store->page < slot_max)
		store->page = (uint32_t)((slot_max + 4095) / 4096 * 4096);
	store->pages = (uint32_t)(kv->options.memory / store->page);
	if (store->pages < 3)
		return fth_fail(EINVAL, "memory is %llu bytes; values of up to %u bytes need %llu",
				(unsigned long long)kv->options.memory, kv->options.value_max,
				(unsigned long long)store->page * 3);
	store->bytes = (uint64_t)store->pages * store->page;
	store->arena = mmap(NULL, store->bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (store->arena == MAP_FAILED) {
		store->arena = NULL;
		return fth_fail(ENOMEM, "no memory for %llu bytes of items",
				(unsigned long long)store->bytes);
	}
	(void)madvise(store->arena, store->bytes, MADV_HUGEPAGE);
	pthread_mutex_init(&store->lock, NULL);
	pthread_mutex_init(&store->steal, NULL);
	store->draining = calloc(store->pages, 1);
	store->owner = calloc(store->pages, 1);
	return store->draining && store->owner ? make_classes(kv, slot_max) : -ENOMEM;
}

void kv_store_release(struct fth_kv *kv)
{
	struct kv_store *store = &kv->store;

	for (unsigned c = 0; c < store->classes; c++) {
		pthread_mutex_destroy(&store->class[c].lock);
		free(store->class[c].pages);
	}
	free(store->draining);
	free(store->owner);
	if (store->arena) {
		munmap(store->arena, store->bytes);
		pthread_mutex_destroy(&store->lock);
		pthread_mutex_destroy(&store->steal);
	}
}
