/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `stats cachedump CLASS LIMIT`: keys of items in memory, for memcdump and the like. As memcached's
 * it lists a part of the items: those that are only on flash have no key in memory, and the answer
 * is bounded.
 */
#include "kv/server/server.h"

#include "kv/kv_access.h"

#include <inttypes.h>

#define DUMP_BYTES (2u << 20)
#define DUMP_SLOTS (1u << 20) /* slots that are looked at, so that a worker is not kept for long */

struct dump {
	struct bytes *out;
	uint64_t left; /* items */
};

/* Keys that a line cannot hold are left out, as memcached does. */
static bool is_plain(const uint8_t *key, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (key[i] <= ' ' || key[i] == 0x7f)
			return false;
	return true;
}

static bool dump_item(void *context, const struct kv_memory_item *item)
{
	struct dump *d = context;

	if (is_plain(item->key, item->key_length)) {
		bytes_printf(d->out, "ITEM %.*s [%" PRIu32 " b; %" PRIu32 " s]\r\n",
			     (int)item->key_length, (const char *)item->key, item->value_length,
			     item->expires);
		d->left--;
	}
	return d->left && bytes_count(d->out) <= DUMP_BYTES;
}

const char *cachedump(struct fth_kv *kv, struct kvp_text arguments, struct bytes *out)
{
	struct kvp_text number = kvp_word(&arguments), limit = kvp_word(&arguments);
	struct dump d = {.out = out};
	uint64_t class;

	if (!limit.length)
		return "CLIENT_ERROR bad command line\r\n";
	if (!kvp_u64(number, &class) || !kvp_u64(limit, &d.left))
		return "CLIENT_ERROR bad command line format\r\n";
	if (class != 1) /* all items are in the first: stats items */
		return "END\r\n";
	if (!d.left)
		d.left = UINT64_MAX;
	if (kv_visit_memory(kv, DUMP_SLOTS, dump_item, &d) < 0) {
		out->failed = true;
		return "";
	}
	return "END\r\n";
}
