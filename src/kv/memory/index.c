/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index: buckets of four entries of 16 bytes. A key has two buckets and is in one of them.
 *
 * It begins small and grows by one bucket at a time (linear hashing: W. Litwin, VLDB 1980): bucket
 * n is made by splitting bucket n - 2^k, where 2^k is the largest power of two that is not above n.
 * Nothing else moves, nobody waits, and address space for all buckets is reserved when the cache is
 * opened.
 *
 * Invariants
 * 1. Entries change under the locks of both of the key's buckets. So a key that is moved from one
 *    of its buckets to the other is in exactly one of them for a thread that holds both locks. An
 *    entry that nobody can use any more, since it is stale or has expired, is cleared under the
 *    lock of its bucket.
 * 2. Both buckets of an entry follow from its tag and the number of buckets alone: entries are
 *    moved without reading their keys.
 * 3. The buckets of a key change only when one of them is split, under its lock: who holds the
 *    locks of both and has found them with the number of buckets of then or later holds the right
 *    ones.
 * 4. A lock is held for moments: no I/O; under it log.lock, the lock of a size class and moved_lock
 *    are taken, no others.
 * 5. Entries are stored and loaded whole words at a time, since kv_make_room() looks for a way
 *    without locks. What it finds is a hint: each step is checked again under locks.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define HASH_SEED    0x66617468u
#define NODES	     64 /* buckets that one search for room looks at */
#define CROWDED	     6	/* a search that looked at more of them lets the index grow */
#define SPLITS	     64 /* buckets to add when a search found nothing */
#define BUCKETS_MIN  256u
#define READY_STEP   32768u /* buckets that get memory at once, or an eighth of the index if more */
#define EXPIRY_S     2048u  /* seconds of a unit of expiry */
#define EXPIRY_UNITS 255u   /* units have numbers modulo this; */
#define EXPIRY_AHEAD 100u   /* units ahead that are distinguished from */
#define EXPIRY_PAST  128u   /* units that have passed */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * When the system's clock is set back, what has expired would come back, after a client was told
 * that it is gone. So it is looked at once, and from then on the steady clock counts.
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

/* ---- ids of keys ---- */

/* Linear hashing: as many low bits as give a bucket that is there. */
static uint32_t bucket_of(uint32_t hash, uint32_t count)
{
	uint32_t mask = UINT32_MAX >> __builtin_clz(count), bucket = hash & mask;

	return bucket < count ? bucket : bucket & mask >> 1;
}

static void find_buckets(uint64_t traits, uint32_t count, uint32_t *out)
{
	uint64_t tag = traits >> KV_TAG_SHIFT;

	out[0] = bucket_of((uint32_t)tag, count);
	out[1] = bucket_of((uint32_t)(fth_mix64(tag) >> 32), count);
}

uint32_t kv_other_bucket(const struct fth_kv *kv, uint32_t bucket, uint64_t traits)
{
	uint32_t both[2];

	find_buckets(traits, kv_bucket_count(kv), both);
	if (both[0] == bucket)
		return both[1];
	return both[1] == bucket ? both[0] : bucket;
}

void kv_key_id_of(const struct fth_kv *kv, uint64_t tag, struct kv_key_id *out)
{
	out->tag = tag;
	find_buckets(tag, kv_bucket_count(kv), out->bucket);
}

void kv_key_id(const struct fth_kv *kv, const void *key, uint32_t key_length, struct kv_key_id *out)
{
	kv_key_id_of(kv, fth_checksum(key, key_length, HASH_SEED) << KV_TAG_SHIFT, out);
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

void kv_lock(struct fth_kv *kv, struct kv_key_id *id)
{
	for (;;) {
		uint32_t a = id->bucket[0], b = id->bucket[1];

		kv_lock_two(kv, a, b);
		kv_key_id_of(kv, id->tag, id);
		if (id->bucket[0] == a && id->bucket[1] == b)
			return;
		kv_unlock_two(kv, a, b); /* one of them was split meanwhile */
	}
}

void kv_unlock(struct fth_kv *kv, const struct kv_key_id *id)
{
	kv_unlock_two(kv, id->bucket[0], id->bucket[1]);
}

/* ---- entries ---- */

/* relaxed: see invariants 1 and 4 */
static struct kv_entry load_entry(const struct kv_entry *e)
{
	return (struct kv_entry){fth_load_relaxed_dev64(&e->extent),
				 fth_load_relaxed_dev64(&e->traits)};
}

void kv_entry_set(struct kv_entry *e, uint64_t extent, uint64_t traits)
{
	fth_store_relaxed_dev64(&e->extent, extent);
	fth_store_relaxed_dev64(&e->traits, traits);
}

void kv_entry_clear(struct fth_kv *kv, struct kv_entry *e)
{
	if (kv_kind(e) != KV_EMPTY)
		fth_add_relaxed_dev64(&kv->items, UINT64_MAX);
	kv_entry_set(e, 0, 0);
}

static uint64_t tick(void)
{
	return (uint64_t)(kv_now() / KV_TICK) << KV_TIME_SHIFT & KV_TIME_MASK;
}

/* The unit in which a record is dead for sure, plus one; 0: never, or too far ahead to say. */
static uint64_t expiry_of(uint32_t expires)
{
	uint32_t seconds = kv_now(), now = seconds / EXPIRY_S;
	uint32_t unit = expires <= seconds ? now - 1 : expires / EXPIRY_S + 1;

	if (!expires || (expires > seconds && unit - now > EXPIRY_AHEAD))
		return 0;
	return unit % EXPIRY_UNITS + 1;
}

static bool has_expired(const struct kv_entry *e)
{
	uint32_t expiry = (uint32_t)((e->traits & KV_EXPIRY_MASK) >> KV_EXPIRY_SHIFT), now;

	if (!expiry)
		return false;
	now = kv_now() / EXPIRY_S % EXPIRY_UNITS;
	return (now + EXPIRY_UNITS - (expiry - 1)) % EXPIRY_UNITS < EXPIRY_PAST;
}

uint64_t kv_entry_traits(const struct kv_key_id *id, enum kv_kind kind, unsigned hot,
			 uint32_t expires)
{
	return id->tag | expiry_of(expires) << KV_EXPIRY_SHIFT | tick() |
	       (uint64_t)hot << KV_HOT_SHIFT | kind;
}

uint64_t kv_entry_extent(uint64_t place, uint64_t bytes)
{
	return (place & KV_PLACE_MASK) << KV_LENGTH_BITS | kv_round(bytes) / KV_UNIT;
}

void kv_entry_used(struct kv_entry *e)
{
	uint64_t hot = (e->traits & KV_HOT_MASK) >> KV_HOT_SHIFT;
	uint64_t traits = (e->traits & ~(KV_HOT_MASK | KV_TIME_MASK)) | tick() |
			  (hot < 3 ? hot + 1 : 3) << KV_HOT_SHIFT;

	if (traits != e->traits)
		fth_store_relaxed_dev64(&e->traits, traits);
}

bool kv_stale(const struct fth_kv *kv, const struct kv_entry *e)
{
	return kv_kind(e) == KV_FLASH && !kv_position_valid(kv, kv_position(kv, kv_place(e)));
}

static bool is_free(const struct fth_kv *kv, const struct kv_entry *e)
{
	return kv_kind(e) == KV_EMPTY || has_expired(e) || kv_stale(kv, e);
}

/* An entry that has an item, or had one. */
static void drop_entry(struct fth_kv *kv, struct kv_entry *e)
{
	if (kv_kind(e) == KV_EMPTY)
		return;
	if (!has_expired(e))
		kv_count(kv, FTH_KV_STAT_LOST, 1);
	if (kv_kind(e) == KV_MEMORY)
		kv_slot_unlink(kv, kv_slot_at(kv, kv_place(e)));
	kv_entry_clear(kv, e);
}

static struct kv_entry *find(struct fth_kv *kv, const struct kv_key_id *id, enum kv_kind kind,
			     uint64_t place)
{
	for (unsigned b = 0; b < 2; b++)
		for (unsigned w = 0; w < KV_WAYS; w++) {
			struct kv_entry *e = &kv->buckets[id->bucket[b]].way[w];

			if (kv_kind(e) == kind && kv_place(e) == place &&
			    (e->traits & KV_TAG_MASK) == id->tag && !kv_stale(kv, e))
				return e;
		}
	return NULL;
}

struct kv_entry *kv_find_slot(struct fth_kv *kv, const struct kv_key_id *id,
			      const struct kv_slot *slot)
{
	return find(kv, id, KV_MEMORY, kv_slot_place(kv, slot));
}

struct kv_entry *kv_find_place(struct fth_kv *kv, const struct kv_key_id *id, uint64_t place)
{
	return find(kv, id, KV_FLASH, place & KV_PLACE_MASK);
}

static struct kv_entry *free_way(struct fth_kv *kv, uint32_t bucket)
{
	for (unsigned w = 0; w < KV_WAYS; w++) {
		struct kv_entry *e = &kv->buckets[bucket].way[w];

		if (!is_free(kv, e))
			continue;
		drop_entry(kv, e);
		return e;
	}
	return NULL;
}

struct kv_entry *kv_find_free(struct fth_kv *kv, const struct kv_key_id *id)
{
	struct kv_entry *e = free_way(kv, id->bucket[0]);

	return e ? e : free_way(kv, id->bucket[1]);
}

/*
 * Those on flash before those in memory, and each in the order in which they were stored or used.
 */
static bool is_older(const struct fth_kv *kv, const struct kv_entry *a, const struct kv_entry *b)
{
	const struct kv_slot *x, *y;
	uint32_t x_used, y_used;

	if (kv_kind(a) != kv_kind(b))
		return kv_kind(a) == KV_FLASH;
	if (kv_kind(a) == KV_FLASH)
		return kv_position(kv, kv_place(a)) < kv_position(kv, kv_place(b));
	x = kv_slot_at(kv, kv_place(a));
	y = kv_slot_at(kv, kv_place(b));
	x_used = fth_load_relaxed_dev32(&x->used);
	y_used = fth_load_relaxed_dev32(&y->used);
	return x_used != y_used ? x_used < y_used : x->record.cas < y->record.cas;
}

struct kv_entry *kv_drop_oldest(struct fth_kv *kv, const struct kv_key_id *id)
{
	struct kv_entry *oldest = &kv->buckets[id->bucket[0]].way[0];

	for (unsigned i = 1; i < 2 * KV_WAYS; i++) {
		struct kv_entry *e = &kv->buckets[id->bucket[i / KV_WAYS]].way[i % KV_WAYS];

		if (is_older(kv, e, oldest))
			oldest = e;
	}
	fth_store_relaxed_dev32(&kv->index_dropped, 1);
	drop_entry(kv, oldest);
	kv_count(kv, FTH_KV_STAT_INDEX_DROPPED, 1);
	return oldest;
}

/* ---- growing ---- */

/*
 * Two choices of four ways fill to 80 % at least before there is no way to make room: buckets that
 * are not split yet get twice as many keys as the others.
 */
static uint64_t buckets_for(uint64_t items)
{
	return items / KV_WAYS + items / (4 * KV_WAYS) + 2;
}

/* Memory for one more bucket, and more of them at once. */
static bool bucket_is_ready(struct fth_kv *kv, uint32_t bucket)
{
	uint32_t ready = kv->bucket_ready, left = kv->bucket_limit - ready;
	uint32_t more = ready / 8 > READY_STEP ? ready / 8 : READY_STEP;

	if (bucket < ready)
		return true;
	if (kv->bucket_short)
		return false;
	if (more > left)
		more = left;
	/* From the beginning, which is on a page; what is ready already stays so. */
	kv->bucket_short = mprotect(kv->buckets, ((size_t)ready + more) * sizeof(*kv->buckets),
				    PROT_READ | PROT_WRITE) != 0;
	if (!kv->bucket_short)
		kv->bucket_ready = ready + more;
	return !kv->bucket_short;
}

static bool can_grow(struct fth_kv *kv)
{
	return kv->bucket_count < kv->bucket_limit && bucket_is_ready(kv, kv->bucket_count);
}

/* Add a bucket. kick_lock is held. */
static bool split_bucket(struct fth_kv *kv)
{
	uint32_t to = kv->bucket_count, from = to - (1u << (31 - __builtin_clz(to)));
	struct kv_bucket *old = &kv->buckets[from], *new = &kv->buckets[to];

	if (!can_grow(kv))
		return false;
	kv_lock_two(kv, from, to);
	/* release: its memory is there; see invariant 3 for the rest */
	fth_store_release_dev32(&kv->bucket_count, to + 1);
	for (unsigned w = 0; w < KV_WAYS; w++) {
		struct kv_entry *e = &old->way[w];
		uint32_t both[2];

		find_buckets(e->traits, to + 1, both);
		if (kv_kind(e) == KV_EMPTY || both[0] == from || both[1] == from)
			continue;
		kv_entry_set(&new->way[w], e->extent, e->traits);
		kv_entry_set(e, 0, 0);
	}
	kv_unlock_two(kv, from, to);
	return true;
}

static bool split_buckets(struct fth_kv *kv, unsigned count)
{
	bool grown = false;

	while (count-- > 0 && split_bucket(kv))
		grown = true;
	return grown;
}

void kv_index_expect(struct fth_kv *kv, uint64_t items)
{
	uint64_t want = buckets_for(items);

	while (kv->bucket_count < want && can_grow(kv))
		kv->bucket_count = want < kv->bucket_ready ? (uint32_t)want : kv->bucket_ready;
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
			uint32_t other = kv_other_bucket(kv, nodes[at].bucket, e.traits);

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
	if (kv_kind(e) != KV_EMPTY && kv_other_bucket(kv, from, e->traits) == to && from != to &&
	    (free_entry = free_way(kv, to))) {
		kv_checkpoint_moved(kv, e, from, to);
		kv_entry_set(free_entry, e->extent, e->traits);
		kv_entry_set(e, 0, 0);
		moved = true;
	}
	kv_unlock_two(kv, from, to);
	return moved;
}

bool kv_make_room(struct fth_kv *kv, struct kv_key_id *id)
{
	struct node nodes[NODES];
	bool grown = false;
	uint64_t kicks = 0;
	int at;

	pthread_mutex_lock(&kv->kick_lock);
	kv_key_id_of(kv, id->tag, id);
	nodes[0] = (struct node){id->bucket[0], -1, 0};
	nodes[1] = (struct node){id->bucket[1], -1, 0};
	at = search(kv, nodes, 2);
	if (at < 0 || at > CROWDED)
		grown = split_buckets(kv, at < 0 ? SPLITS : 1);
	/* From the free end back: each move frees the way that the one before it goes to. */
	for (; at >= 2; at = nodes[at].parent) {
		if (!move_entry(kv, nodes[nodes[at].parent].bucket, nodes[at].way,
				nodes[at].bucket))
			break; /* somebody was faster: the caller looks again */
		kicks++;
	}
	kv_key_id_of(kv, id->tag, id);
	if (at < 0 && !grown)
		kv->bucket_short = false; /* there may be memory again the next time */
	pthread_mutex_unlock(&kv->kick_lock);
	kv_count(kv, FTH_KV_STAT_KICKS, kicks);
	return grown || at >= 0;
}

struct kv_entry *kv_take_entry(struct fth_kv *kv, struct kv_key_id *id)
{
	unsigned given_up = 0;
	struct kv_entry *e;

	while (!(e = kv_find_free(kv, id)))
		if (!kv_make_room(kv, id) && (given_up++ == KV_GIVE_UP_MAX || !kv_log_give_up(kv)))
			return kv_drop_oldest(kv, id);
	return e;
}

void kv_sweep(struct fth_kv *kv, uint64_t buckets)
{
	for (; buckets > 0; buckets--) {
		uint32_t b = (uint32_t)kv->sweep_at;

		kv_lock_two(kv, b, b);
		for (unsigned w = 0; w < KV_WAYS; w++)
			if (is_free(kv, &kv->buckets[b].way[w]))
				drop_entry(kv, &kv->buckets[b].way[w]);
		kv_unlock_two(kv, b, b);
		kv->sweep_at = b + 1 == kv_bucket_count(kv) ? 0 : b + 1;
	}
}

/* ---- life ---- */

/* Half of the machine's memory, and a sixteenth of the address space if that is limited. */
static uint64_t index_bytes_max(void)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / 16 < bytes)
		bytes = limit.rlim_cur / 16;
	return bytes;
}

/* As many buckets as the smallest items that fill flash and memory can need, within this limit. */
static uint64_t default_buckets(const struct fth_kv *kv)
{
	uint64_t flash = kv->dev ? fth_dev_info(kv->dev)->size : 0;
	uint64_t buckets = buckets_for(flash / kv_round(sizeof(struct kv_record) + 1) +
				       kv->options.memory / sizeof(struct kv_slot));
	uint64_t most = index_bytes_max() / sizeof(struct kv_bucket);

	if (most > KV_BUCKETS_MAX)
		most = KV_BUCKETS_MAX;
	if (most < BUCKETS_MIN)
		most = BUCKETS_MIN;
	return buckets < most ? buckets : most;
}

int kv_index_init(struct fth_kv *kv, uint64_t items)
{
	uint64_t buckets = items ? buckets_for(items) : default_buckets(kv);
	size_t bytes = (size_t)buckets * sizeof(*kv->buckets);

	if (items > KV_ITEMS_MAX)
		return fth_fail(EINVAL, "an index of %llu items is too large; the maximum is %llu",
				(unsigned long long)items, (unsigned long long)KV_ITEMS_MAX);
	kv->buckets =
		mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (kv->buckets == MAP_FAILED) {
		kv->buckets = NULL;
		return fth_fail(ENOMEM, "no address space for an index of %llu items",
				(unsigned long long)buckets * KV_WAYS);
	}
	kv->bucket_limit = (uint32_t)buckets;
	(void)madvise(kv->buckets, bytes, MADV_HUGEPAGE);
	kv->locks = calloc(KV_LOCKS, sizeof(*kv->locks));
	if (!kv->locks)
		return -ENOMEM;
	if (!bucket_is_ready(kv, 0))
		return fth_fail(ENOMEM, "no memory for an index");
	kv->bucket_count = kv->bucket_limit < BUCKETS_MIN ? kv->bucket_limit : BUCKETS_MIN;
	return 0;
}

void kv_index_clear(struct fth_kv *kv)
{
	memset(kv->buckets, 0, (size_t)kv->bucket_count * sizeof(*kv->buckets));
	kv->items = 0;
	kv->log.given_up = 0; /* for entries that are gone now */
}

void kv_index_release(struct fth_kv *kv)
{
	if (kv->buckets)
		munmap(kv->buckets, (size_t)kv->bucket_limit * sizeof(*kv->buckets));
	kv->buckets = NULL;
	free(kv->locks);
	kv->locks = NULL;
}
