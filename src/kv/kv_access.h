/* SPDX-License-Identifier: BSD-2-Clause */
/* What the server needs of the engine beside fathom/kv.h. */
#ifndef FTH_KV_ACCESS_H
#define FTH_KV_ACCESS_H

#include "fathom/kv.h"

/* Seconds since 1970; they do not jump when the system's clock is set. */
uint32_t kv_now(void);

/* The options in force: defaults are replaced by the values that the cache has. */
const struct fth_kv_options *kv_options(const struct fth_kv *kv);

/* An item in memory. */
struct kv_memory_item {
	const uint8_t *key;
	uint32_t key_length, value_length;
	uint32_t expires; /* seconds since 1970; 0: never */
};

/*
 * Visit live items in memory until `visit` returns false or `slots` slots were looked at. Items
 * that other threads move meanwhile may be missing or visited twice. -ENOMEM: none was visited.
 */
int kv_visit_memory(struct fth_kv *kv, uint64_t slots,
		    bool (*visit)(void *context, const struct kv_memory_item *item), void *context);

#endif
