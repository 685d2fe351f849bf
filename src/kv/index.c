/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index: buckets of four entries of 16 bytes. A key has two buckets and is in one of them.
 *
 * Invariants
 * 1. Entries change under the locks of both of the key's buckets. So a key that is moved from one of
 *    its buckets to the other is seen in exactly one of them by whoever holds both locks.
 * 2. The other bucket of an entry follows from its bucket and its name (tag and key length) alone:
 *    entries are moved without reading their keys.
 * 3. A lock is held for moments: no I/O; under it log.lock, the lock of a size class and moved_lock
 *    are taken, no others.
 * 4. Entries are stored and loaded whole words at a time, since kv_make_room() looks for a way
 *    without locks. What it finds is a hint: each step is checked again under locks.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HASH_SEED 0x66617468u
#define NODES	  512

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * When the system's clock is set back, what has expired would come back, after a client was told that it is
 * gone. So it is looked at once, and from then on the steady clock counts.
 */
uint32_t kv_now(void)
{
	static uint64_t origin; /* atomic: when the steady clock was 0, since 1970 */
	uint64_t steady = clock_ns(CLOCK_MONOTONIC_COARSE);
	uint64_t began = __atomic_load_n(&origin, __ATOMIC_RELAXED);

	if (began == 0) {
		uint64_t mine = clock_ns(CLOCK_REALTIME_COARSE) - steady;

		/* relaxed: nothing else is published by it; the first thread's counts for all */
		if (__atomic_compare_exchange_n(&origin, &began, mine, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			began = mine;
	}
	return (uint32_t)((steady + began) / 1000000000u);
}

/* ---- names ---- */

uint32_t kv_other_bucket(const struct fth_kv *kv, uint32_t bucket, uint64_t what)
{
	/* Its own inverse: other(other(b)) = m - (m - b), modulo the number of buckets. */
	uint32_t m = (uint32_t)(fth_mix64(what >> 20) % kv->bucket_count);

	return m >= bucket ? m - bucket : m + kv->bucket_count - bucket;
}

void kv_name(const struct fth_kv *kv, const void *key, uint32_t key_length, struct kv_name *out)
{
	uint64_t hash = fth_checksum(key, key_length, HASH_SEED);

	kv_name_of(kv, hash, (hash & UINT64_C(0xfffffffff)) << 28 | (uint64_t)key_length << 20,
		   out);
}

void kv_name_of(const struct fth_kv *kv, uint64_t hash, uint64_t what, struct kv_name *out)
{
	out->hash = hash;
	out->what = what;
	out->bucket[0] = (uint32_t)((hash >> 32) * kv->bucket_count >> 32);
	out->bucket[1] = kv_other_bucket(kv, out->bucket[0], out->what);
}

/* ---- locks ---- */

static void lock_one(uint32_t *lock)
{
	struct fth_backoff backoff = {0};
	uint32_t open = 0;

	/* acquire: what the last holder did to its buckets is seen. */
	while (!fth_cas_acqrel_dev32(lock, &open, 1)) {
		open = 0;
		fth_backoff_pause(&backoff);
	}
}

void kv_lock_two(struct fth_kv *kv, uint32_t a, uint32_t b)
{
	uint32_t i = a % KV_LOCKS, j = b % KV_LOCKS;

	lock_one(&kv->locks[i < j ? i : j]);
	if (i != j)
		lock_one(&kv->locks[i < j ? j : i]);
}

void kv_unlock_two(struct fth_kv *kv, uint32_t a, uint32_t b)
{
	uint32_t i = a % KV_LOCKS, j = b % KV_LOCKS;

	/* release: what was done to the buckets comes before. */
	fth_store_release_dev32(&kv->locks[i], 0);
	if (i != j)
		fth_store_release_dev32(&kv->locks[j], 0);
}

void kv_lock(struct fth_kv *kv, const struct kv_name *name)
{
	kv_lock_two(kv, name->bucket[0], name->bucket[1]);
}

void kv_unlock(struct fth_kv *kv, const struct kv_name *name)
{
	kv_unlock_two(kv, name->bucket[0], name->bucket[1]);
}

/* ---- entries ---- */

/* relaxed: see invariants 1 and 4 */
static struct kv_entry load_entry(const struct kv_entry *e)
{
	return (struct kv_entry){fth_load_relaxed_dev64(&e->where),
				 fth_load_relaxed_dev64(&e->what)};
}

void kv_entry_set(struct kv_entry *e, uint64_t where, uint64_t what)
{
	fth_store_relaxed_dev64(&e->where, where);
	fth_store_relaxed_dev64(&e->what, what);
}

void kv_entry_clear(struct fth_kv *kv, struct kv_entry *e)
{
	if (kv_kind(e) != KV_EMPTY)
		fth_add_relaxed_dev64(&kv->items, UINT64_MAX);
	kv_entry_set(e, 0, 0);
}

static uint64_t tick(void)
{
	return (uint64_t)(kv_now() / KV_TICK & 0xffff) << KV_TIME_SHIFT;
}

uint64_t kv_what(const struct kv_name *name, enum kv_kind kind, unsigned hot)
{
	return name->what | tick() | (uint64_t)hot << KV_HOT_SHIFT | kind;
}

uint64_t kv_where(uint64_t place, uint64_t bytes)
{
	return (place & KV_PLACE_MASK) << KV_LENGTH_BITS | kv_round(bytes) / KV_UNIT;
}

void kv_entry_used(struct kv_entry *e)
{
	uint64_t hot = (e->what & KV_HOT_MASK) >> KV_HOT_SHIFT;
	uint64_t what = (e->what & ~(KV_HOT_MASK | KV_TIME_MASK)) | tick() |
			(hot < 3 ? hot + 1 : 3) << KV_HOT_SHIFT;

	if (what != e->what)
		fth_store_relaxed_dev64(&e->what, what);
}

bool kv_stale(const struct fth_kv *kv, const struct kv_entry *e)
{
	return kv_kind(e) == KV_FLASH && !kv_position_valid(kv, kv_position(kv, kv_place(e)));
}

static bool is_free(const struct fth_kv *kv, const struct kv_entry *e)
{
	return kv_kind(e) == KV_EMPTY || kv_stale(kv, e);
}

static struct kv_entry *find(struct fth_kv *kv, const struct kv_name *name, enum kv_kind kind,
			     uint64_t place)
{
	for (unsigned b = 0; b < 2; b++)
		for (unsigned w = 0; w < KV_WAYS; w++) {
			struct kv_entry *e = &kv->buckets[name->bucket[b]].way[w];

			if (kv_kind(e) == kind && kv_place(e) == place &&
			    (e->what & KV_NAME_MASK) == name->what)
				return e;
		}
	return NULL;
}

struct kv_entry *kv_find_slot(struct fth_kv *kv, const struct kv_name *name,
			      const struct kv_slot *slot)
{
	return find(kv, name, KV_MEMORY, kv_slot_place(kv, slot));
}

struct kv_entry *kv_find_place(struct fth_kv *kv, const struct kv_name *name, uint64_t place)
{
	return find(kv, name, KV_FLASH, place & KV_PLACE_MASK);
}

static struct kv_entry *free_way(struct fth_kv *kv, uint32_t bucket)
{
	for (unsigned w = 0; w < KV_WAYS; w++) {
		struct kv_entry *e = &kv->buckets[bucket].way[w];

		if (!is_free(kv, e))
			continue;
		kv_entry_clear(kv, e);
		return e;
	}
	return NULL;
}

struct kv_entry *kv_find_free(struct fth_kv *kv, const struct kv_name *name)
{
	struct kv_entry *e = free_way(kv, name->bucket[0]);

	return e ? e : free_way(kv, name->bucket[1]);
}

struct kv_entry *kv_find_oldest(struct fth_kv *kv, const struct kv_name *name)
{
	uint64_t now = tick() >> KV_TIME_SHIFT, most = 0;
	struct kv_entry *oldest = &kv->buckets[name->bucket[0]].way[0];

	for (unsigned b = 0; b < 2; b++)
		for (unsigned w = 0; w < KV_WAYS; w++) {
			struct kv_entry *e = &kv->buckets[name->bucket[b]].way[w];
			uint64_t used = (e->what & KV_TIME_MASK) >> KV_TIME_SHIFT;
			uint64_t age = ((now - used) & 0xffff) + 1;

			if (kv_kind(e) == KV_FLASH)
				age += 0x10000;
			if (age > most) {
				most = age;
				oldest = e;
			}
		}
	return oldest;
}

/* ---- making room ---- */

struct node {
	uint32_t bucket;
	int16_t parent;
	uint8_t way; /* of the parent's bucket: that entry can come here */
};

static bool has_room(const struct fth_kv *kv, uint32_t bucket)
{
	for (unsigned w = 0; w < KV_WAYS; w++) {
		struct kv_entry e = load_entry(&kv->buckets[bucket].way[w]);

		if (is_free(kv, &e))
			return true;
	}
	return false;
}

/* The node of the nearest bucket with room; -1 if there is none near. */
static int search(const struct fth_kv *kv, struct node *nodes, unsigned count)
{
	for (unsigned at = 0; at < count; at++) {
		for (unsigned w = 0; w < KV_WAYS && count < NODES; w++) {
			struct kv_entry e = load_entry(&kv->buckets[nodes[at].bucket].way[w]);
			uint32_t other = kv_other_bucket(kv, nodes[at].bucket, e.what);

			nodes[count] = (struct node){other, (int16_t)at, (uint8_t)w};
			if (has_room(kv, other))
				return (int)count;
			count++;
		}
	}
	return -1;
}

static bool move_entry(struct fth_kv *kv, uint32_t from, unsigned way, uint32_t to)
{
	struct kv_entry *e = &kv->buckets[from].way[way], *free_entry;
	bool moved = false;

	kv_lock_two(kv, from, to);
	if (kv_kind(e) != KV_EMPTY && kv_other_bucket(kv, from, e->what) == to && from != to &&
	    (free_entry = free_way(kv, to))) {
		kv_checkpoint_moved(kv, e, from, to);
		kv_entry_set(free_entry, e->where, e->what);
		kv_entry_set(e, 0, 0);
		moved = true;
	}
	kv_unlock_two(kv, from, to);
	return moved;
}

bool kv_make_room(struct fth_kv *kv, const struct kv_name *name)
{
	struct node nodes[NODES];
	uint64_t kicks = 0;
	int at;

	pthread_mutex_lock(&kv->kick_lock);
	nodes[0] = (struct node){name->bucket[0], -1, 0};
	nodes[1] = (struct node){name->bucket[1], -1, 0};
	at = search(kv, nodes, 2);
	/* From the free end back: each move frees the way that the one before it goes to. */
	for (; at >= 2; at = nodes[at].parent) {
		if (!move_entry(kv, nodes[nodes[at].parent].bucket, nodes[at].way,
				nodes[at].bucket))
			break; /* somebody was faster: the caller looks again */
		kicks++;
	}
	pthread_mutex_unlock(&kv->kick_lock);
	kv_count(kv, FTH_KV_STAT_KICKS, kicks);
	return at >= 0;
}

void kv_sweep(struct fth_kv *kv, uint64_t buckets)
{
	for (; buckets > 0; buckets--) {
		uint32_t b = (uint32_t)kv->sweep_at;

		kv_lock_two(kv, b, b);
		for (unsigned w = 0; w < KV_WAYS; w++)
			if (kv_stale(kv, &kv->buckets[b].way[w]))
				kv_entry_clear(kv, &kv->buckets[b].way[w]);
		kv_unlock_two(kv, b, b);
		kv->sweep_at = b + 1 == kv->bucket_count ? 0 : b + 1;
	}
}

/* ---- life ---- */

uint64_t kv_index_buckets(uint64_t items)
{
	/* Two choices of four ways fill to 95 % and more before there is no way to make room. */
	return items / KV_WAYS + items / (20 * KV_WAYS) + 2;
}

int kv_index_init(struct fth_kv *kv, uint64_t buckets)
{
	if (buckets == 0 || buckets > KV_BUCKETS_MAX)
		return fth_fail(EINVAL, "an index of %llu items is too large; the maximum is %llu",
				(unsigned long long)buckets * KV_WAYS,
				(unsigned long long)KV_BUCKETS_MAX * KV_WAYS);
	kv->bucket_count = (uint32_t)buckets;
	kv->bucket_bytes = (size_t)buckets * sizeof(struct kv_bucket);
	kv->buckets = mmap(NULL, kv->bucket_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (kv->buckets == MAP_FAILED) {
		kv->buckets = NULL;
		return fth_fail(ENOMEM, "no memory for an index of %llu items",
				(unsigned long long)buckets * KV_WAYS);
	}
	(void)madvise(kv->buckets, kv->bucket_bytes, MADV_HUGEPAGE);
	kv->locks = calloc(KV_LOCKS, sizeof(*kv->locks));
	return kv->locks ? 0 : -ENOMEM;
}

void kv_index_clear(struct fth_kv *kv)
{
	memset(kv->buckets, 0, kv->bucket_bytes);
	kv->items = 0;
}

void kv_index_release(struct fth_kv *kv)
{
	if (kv->buckets)
		munmap(kv->buckets, kv->bucket_bytes);
	kv->buckets = NULL;
	free(kv->locks);
	kv->locks = NULL;
}
