/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `stats cachedump CLASS LIMIT`: keys of items in memory, for memcdump and the like. As memcached's it lists a part of
 * the items: those that are only on flash have no key in memory, and the answer is bounded.
 */
#include "kv/server/server.h"

#include "kv/kv_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#define DUMP_BYTES (2u << 20)
#define DUMP_SLOTS (1u << 20) /* slots that are looked at, so that a worker is not kept for long */

/* A slot, and the key that it had when it was looked at: slots.c, invariant 3. */
struct seen {
	struct kv_slot *slot;
	uint64_t tag;
};

struct dump {
	struct fth_kv *kv;
	struct bytes *out;
	uint64_t left; /* items */
	uint64_t slots;
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

/* Keys that a line cannot hold are left out, as memcached does. */
static bool is_plain(const uint8_t *key, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (key[i] <= ' ' || key[i] == 0x7f)
			return false;
	return true;
}

static void dump_slot(struct dump *d, const struct seen *seen)
{
	uint8_t key[FTH_KV_KEY_MAX];
	struct kv_record head;
	struct kv_name name;
	bool found;

	kv_name_of(d->kv, seen->tag, &name);
	kv_lock(d->kv, &name);
	found = kv_find_slot(d->kv, &name, seen->slot) != NULL;
	if (found) {
		head = seen->slot->record;
		memcpy(key, kv_record_key(&seen->slot->record), head.key_length);
	}
	kv_unlock(d->kv, &name);
	if (!found || kv_dead(d->kv, &head) || !is_plain(key, head.key_length))
		return;
	bytes_printf(d->out, "ITEM %.*s [%" PRIu32 " b; %" PRIu32 " s]\r\n", (int)head.key_length,
		     (const char *)key, head.value_length, head.expires);
	d->left--;
}

static void dump_class(struct dump *d, struct kv_class *class, struct seen *seen)
{
	size_t n;

	for (uint32_t page = 0; d->slots < DUMP_SLOTS; page++) {
		n = look_at_page(&d->kv->slots, class, page, seen);
		if (n == SIZE_MAX)
			return;
		d->slots += class->per_page;
		for (size_t i = 0; i < n; i++) {
			if (!d->left || bytes_count(d->out) > DUMP_BYTES)
				return;
			dump_slot(d, &seen[i]);
		}
	}
}

static uint32_t most_per_page(const struct kv_slots *slots)
{
	uint32_t most = 0;

	for (unsigned c = 0; c < slots->classes; c++)
		if (slots->class[c].per_page > most)
			most = slots->class[c].per_page;
	return most;
}

const char *cachedump(struct fth_kv *kv, struct kvp_text arguments, struct bytes *out)
{
	struct kvp_text number = kvp_word(&arguments), limit = kvp_word(&arguments);
	struct dump d = {.kv = kv, .out = out};
	struct seen *seen;
	uint64_t class;

	if (!limit.length)
		return "CLIENT_ERROR bad command line\r\n";
	if (!kvp_u64(number, &class) || !kvp_u64(limit, &d.left))
		return "CLIENT_ERROR bad command line format\r\n";
	if (class != 1) /* all items are in the first: stats items */
		return "END\r\n";
	if (!d.left)
		d.left = UINT64_MAX;
	seen = calloc(most_per_page(&kv->slots), sizeof(*seen));
	if (!seen) {
		out->failed = true;
		return "";
	}
	for (unsigned c = 0; c < kv->slots.classes; c++)
		dump_class(&d, &kv->slots.class[c], seen);
	free(seen);
	return "END\r\n";
}
