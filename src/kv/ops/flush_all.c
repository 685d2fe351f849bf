/* SPDX-License-Identifier: BSD-2-Clause */
/* flush_all, and which items are dead because of it or because they have expired. */
#include "kv/kv_internal.h"

/*
 * flush_cas, flush_before and flush_when each hold the last flush_all of their kind: now, past,
 * future.
 */
bool kv_dead(const struct fth_kv *kv, const struct kv_record *record)
{
	uint32_t now = kv_now(), when = fth_load_relaxed_dev32(&kv->flush_when);

	if (record->expires && record->expires <= now)
		return true;
	/* relaxed: a client that has the reply to a flush_all has synchronised with us */
	return record->cas <= fth_load_relaxed_dev64(&kv->flush_cas) ||
	       record->stored < fth_load_relaxed_dev32(&kv->flush_before) ||
	       (when && now >= when && record->stored < when);
}

/* What a flush_all makes of those before it; flush_lock is held. */
static void merge_flush(const struct fth_kv *kv, uint32_t when, struct kv_record *record)
{
	uint32_t now = kv_now(), set = kv->flush_when;

	record->type = KV_FLUSH;
	record->cas = kv->flush_cas;
	record->stored = kv->flush_before;
	if (set && set <= now && record->stored < set)
		record->stored = set; /* its time has come: it stays in force */
	if (when > now)
		record->expires = when;
	else
		record->cas = fth_load_relaxed_dev64(&kv->cas);
}

void kv_flush_set(struct fth_kv *kv, const struct kv_record *record)
{
	fth_store_relaxed_dev64(&kv->flush_cas, record->cas);
	fth_store_relaxed_dev32(&kv->flush_before, record->stored);
	fth_store_relaxed_dev32(&kv->flush_when, record->expires);
}

int kv_flush_all(struct fth_kv *kv, uint32_t when, uint64_t *position)
{
	struct kv_record record = {0};
	struct kv_room room;
	int rc = 0;

	/* Their order in the log is the order in which they take effect. */
	pthread_mutex_lock(&kv->flush_lock);
	merge_flush(kv, when, &record);
	if (kv_persistent(kv))
		rc = kv_log_reserve_flush(kv, &record, &room);
	if (rc == 0) {
		if (kv_persistent(kv)) {
			kv_log_fill(kv, &room, &record);
			*position = room.position + kv_round(kv_record_bytes(&record));
		}
		kv_flush_set(kv, &record);
	}
	pthread_mutex_unlock(&kv->flush_lock);
	return rc;
}
