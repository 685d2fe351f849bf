/* SPDX-License-Identifier: BSD-2-Clause */
/* Visiting the items in memory, beside threads that use the cache. */
#include "kv/kv_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A slot, and the tag that it had when it was looked at: slots.c, invariant 3. */
struct seen {
	struct kv_slot *slot;
	uint64_t tag;
};

/* The linked slots of a page of a class. SIZE_MAX: it has no such page. */
static size_t look_at_page(const struct kv_slots *slots, struct kv_class *class, uint32_t i,
			   struct seen *seen)
{
	size_t n = 0;
	uint8_t *page;

	pthread_mutex_lock(&class->lock);
	if (i >= class->page_count) {
		pthread_mutex_unlock(&class->lock);
		return SIZE_MAX;
	}
	page = slots->arena + (uint64_t) class->pages[i] * slots->page;
	for (uint32_t s = 0; s < class->per_page; s++) {
		struct kv_slot *slot =
			(struct kv_slot *)(void *)(page + (uint64_t)s * class->bytes);

		if (fth_load_relaxed_dev32(&slot->refs) & KV_LINKED)
			seen[n++] = (struct seen){slot, fth_load_relaxed_dev64(&slot->tag)};
	}
	pthread_mutex_unlock(&class->lock);
	return n;
}

/* Copy the head and the key of the item in a slot. False: it is gone or dead. */
static bool copy_item(struct fth_kv *kv, const struct seen *seen, struct kv_record *head,
		      uint8_t *key)
{
	struct kv_key_id id;
	bool found;

	kv_key_id_of(kv, seen->tag, &id);
	kv_lock(kv, &id);
	found = kv_find_slot(kv, &id, seen->slot) != NULL;
	if (found) {
		*head = seen->slot->record;
		memcpy(key, kv_record_key(&seen->slot->record), head->key_length);
	}
	kv_unlock(kv, &id);
	return found && !kv_dead(kv, head);
}

static uint32_t most_per_page(const struct kv_slots *slots)
{
	uint32_t most = 0;

	for (unsigned c = 0; c < slots->classes; c++)
		if (slots->class[c].per_page > most)
			most = slots->class[c].per_page;
	return most;
}

int kv_visit_memory(struct fth_kv *kv, uint64_t slots,
		    bool (*visit)(void *context, const struct kv_memory_item *item), void *context)
{
	struct seen *seen = calloc(most_per_page(&kv->slots), sizeof(*seen));
	uint8_t key[FTH_KV_KEY_MAX];
	struct kv_record head;
	uint64_t looked = 0;
	bool more = true;
	size_t n;

	if (!seen)
		return -ENOMEM;
	for (unsigned c = 0; c < kv->slots.classes && more; c++) {
		struct kv_class *class = &kv->slots.class[c];

		for (uint32_t page = 0; more && looked < slots; page++) {
			n = look_at_page(&kv->slots, class, page, seen);
			if (n == SIZE_MAX)
				break;
			looked += class->per_page;
			for (size_t i = 0; i < n && more; i++)
				if (copy_item(kv, &seen[i], &head, key))
					more = visit(context,
						     &(struct kv_memory_item){key, head.key_length,
									      head.value_length,
									      head.expires});
		}
	}
	free(seen);
	return 0;
}
