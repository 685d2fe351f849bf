/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index on the device, written while the cache is in use.
 *
 * Buckets are copied one after the other, each under its lock, so the copy is not a snapshot of one
 * moment. It is correct for these reasons:
 *
 * 1. replay_from is not above where the log ended before the first bucket was copied. A change
 *    whose record lies before it was made under the lock of its buckets, and is in the copy; all
 *    others are replayed. It is below if the area has not enough room for all entries: those of the
 *    newest chunks are left to the log.
 * 2. An entry that moves from a bucket that is not copied yet to one that is would be missed: its
 *    tag is recorded in a list, and looked up in both of its buckets when these are written.
 *    Entries that are found are written after the buckets. One that moves the other way is copied
 *    twice; reading drops the second copy. A bucket that is split while the index is copied moves
 *    entries to the end, which is not copied yet.
 * 3. The header is written after all that the copy points to is durable (a commit), and the
 *    superblock after the header. Two areas alternate, so the last one stays valid until then. If
 *    a write of the superblock fails, it is unknown which area it names: then it is written
 *    again before anything else.
 * 4. Items in memory are written with the place of their record in the log.
 */
#include "kv/kv_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COMMIT_NS     30000000000u /* to wait for a commit where the caller has no deadline */
#define PIECE_ENTRIES (KV_PIECE_BYTES / sizeof(struct kv_entry))
#define MOVED_PART    16u /* of the room of an area, one in so many is kept for entries that move */
#define CANCEL_EVERY  4096u /* buckets */

uint64_t kv_checkpoint_bytes(uint64_t items)
{
	uint64_t entries = items + items / (MOVED_PART - 1) + MOVED_PART;

	return sizeof(struct kv_index_header) +
	       (entries + PIECE_ENTRIES - 1) / PIECE_ENTRIES * (KV_PIECE_BYTES + KV_SUM_BYTES);
}

/* Entries that an area has room for. */
static uint64_t area_room(const struct fth_kv *kv)
{
	return (kv->super.index_bytes - sizeof(struct kv_index_header)) /
	       (KV_PIECE_BYTES + KV_SUM_BYTES) * PIECE_ENTRIES;
}

/* Of these, so many are for entries that move meanwhile. */
static uint64_t moved_room(const struct fth_kv *kv)
{
	return area_room(kv) / MOVED_PART;
}

void kv_checkpoint_moved(struct fth_kv *kv, const struct kv_entry *e, uint32_t from, uint32_t to)
{
	/* relaxed: it moves under the lock of the bucket that it passes, and we hold both */
	uint32_t next = fth_load_relaxed_dev32(&kv->ckpt_next);

	if (to >= next || from < next)
		return;
	pthread_mutex_lock(&kv->moved_lock);
	if (kv->moved_count < kv->moved_room)
		kv->moved[kv->moved_count] = e->traits & KV_TAG_MASK;
	kv->moved_count++; /* beyond the room: the attempt fails */
	pthread_mutex_unlock(&kv->moved_lock);
}

/* ---- writing ---- */

/* Where a piece goes, or comes from. */
struct area {
	struct fth_kv *kv;
	uint64_t at; /* on the device */
	uint64_t number;
	uint8_t *buf; /* a piece and its sum */
	uint64_t deadline;
};

static int area_open(struct area *area, struct fth_kv *kv, uint64_t which, uint64_t number,
		     uint64_t deadline)
{
	*area = (struct area){.kv = kv, .number = number, .deadline = deadline};
	area->at =
		kv->super.index_at + which * kv->super.index_bytes + sizeof(struct kv_index_header);
	return posix_memalign((void **)&area->buf, 4096, KV_PIECE_BYTES + KV_SUM_BYTES) == 0
		       ? 0
		       : -ENOMEM;
}

static uint64_t piece_sum(const struct area *area)
{
	return fth_checksum(area->buf, KV_PIECE_BYTES,
			    KV_INDEX_SEED ^ area->kv->super.id ^ area->number ^ area->at);
}

static int piece_write(struct area *area)
{
	uint64_t sum = piece_sum(area);
	int rc;

	memset(area->buf + KV_PIECE_BYTES, 0, KV_SUM_BYTES);
	memcpy(area->buf + KV_PIECE_BYTES, &sum, sizeof(sum));
	rc = fth_dev_write(area->kv->dev, area->buf, KV_PIECE_BYTES + KV_SUM_BYTES, area->at,
			   area->deadline);
	area->at += KV_PIECE_BYTES + KV_SUM_BYTES;
	return rc;
}

static int piece_read(struct area *area)
{
	uint64_t sum;
	int rc = fth_dev_read(area->kv->dev, area->buf, KV_PIECE_BYTES + KV_SUM_BYTES, area->at,
			      FTH_DEV_TIMEOUT);

	if (rc < 0)
		return rc;
	memcpy(&sum, area->buf + KV_PIECE_BYTES, sizeof(sum));
	if (sum != piece_sum(area))
		return fth_fail(EBADMSG, "the index on the device is damaged at %llu",
				(unsigned long long)area->at);
	area->at += KV_PIECE_BYTES + KV_SUM_BYTES;
	return 0;
}

/* As the log knows it; empty if it has nothing before `limit`. Under the lock of its bucket. */
static struct kv_entry on_media(const struct fth_kv *kv, const struct kv_entry *e, uint64_t limit)
{
	struct kv_entry out = *e;
	uint64_t position = kv_position(kv, kv_place(e));

	if (kv_kind(e) == KV_MEMORY) {
		const struct kv_slot *slot = kv_slot_at(kv, kv_place(e));

		position = slot->position;
		out.extent = kv_entry_extent(position / KV_UNIT, kv_record_bytes(&slot->record));
		out.traits = (e->traits & ~KV_KIND_MASK) | KV_FLASH;
	}
	if (kv_kind(e) == KV_EMPTY || position == KV_NOWHERE || position >= limit ||
	    !kv_position_valid(kv, position))
		return (struct kv_entry){0, 0};
	return out;
}

/* Entries of one bucket that go to the device. */
static unsigned copy_bucket(struct fth_kv *kv, uint32_t b, uint64_t limit, struct kv_entry *out)
{
	unsigned n = 0;

	for (unsigned w = 0; w < KV_WAYS; w++) {
		out[n] = on_media(kv, &kv->buckets[b].way[w], limit);
		n += kv_kind(&out[n]) != KV_EMPTY;
	}
	return n;
}

/* The cache is being closed, which writes its own. */
static bool canceled(const struct fth_kv *kv)
{
	return fth_load_relaxed_dev32(&kv->ckpt_cancel);
}

/* Where entries go, a piece at a time. */
struct entries_out {
	struct area *area;
	uint64_t limit; /* those from this position on are in the log */
	uint64_t count;
};

static int too_many_moved(uint64_t count)
{
	return fth_fail(EAGAIN, "%llu entries moved while the index was being written",
			(unsigned long long)count);
}

static int put_entries(struct entries_out *out, const struct kv_entry *e, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++) {
		struct kv_entry *to =
			(struct kv_entry *)(void *)out->area->buf + out->count % PIECE_ENTRIES;

		if (out->count == area_room(out->area->kv))
			return too_many_moved(out->count);
		if (out->count % PIECE_ENTRIES == 0)
			memset(out->area->buf, 0, KV_PIECE_BYTES);
		*to = e[i];
		if (++out->count % PIECE_ENTRIES == 0)
			rc = piece_write(out->area);
	}
	return rc;
}

/* So many entries fit into an area, whatever moves while they are written. */
static uint64_t fitting_entries(const struct fth_kv *kv)
{
	return area_room(kv) - moved_room(kv);
}

/* How many entries each chunk from `tail` up to `head` has; NULL: no memory. */
static uint64_t *count_entries(struct fth_kv *kv, uint64_t tail, uint64_t head)
{
	uint64_t chunk = kv->super.chunk, first = tail / chunk;
	uint64_t *counts = calloc(head / chunk - first + 1, sizeof(*counts));
	struct kv_entry e[KV_WAYS];

	for (uint32_t b = 0; counts && b < kv_bucket_count(kv); b++) {
		unsigned n;

		kv_lock_two(kv, b, b);
		n = copy_bucket(kv, b, head, e);
		kv_unlock_two(kv, b, b);
		while (n-- > 0)
			counts[kv_position(kv, kv_place(&e[n])) / chunk - first]++;
	}
	return counts;
}

/*
 * Where replay has to begin: where the log ends now, or farther back, with a chunk, if entries of
 * all that is before do not fit. Entries go from older chunks to the newest meanwhile, not the
 * other way.
 */
static int choose_limit(struct fth_kv *kv, uint64_t head, uint64_t tail, uint64_t *limit)
{
	uint64_t chunk = kv->super.chunk, room = fitting_entries(kv), sum = 0;
	uint64_t first = tail / chunk, last = head / chunk;
	uint64_t *counts;

	*limit = head;
	if (fth_load_relaxed_dev64(&kv->items) <= room)
		return 0;
	counts = count_entries(kv, tail, head);
	if (!counts)
		return -ENOMEM;
	for (uint64_t n = first; n <= last; n++) {
		sum += counts[n - first];
		if (sum > room) {
			*limit = n * chunk;
			break;
		}
	}
	free(counts);
	return 0;
}

int kv_checkpoint_make_fit(struct fth_kv *kv)
{
	uint64_t chunk = kv->super.chunk, room = fitting_entries(kv), sum = 0;
	uint64_t head, tail, first, n;
	uint64_t *counts;

	if (fth_load_relaxed_dev64(&kv->items) <= room)
		return 0;
	pthread_mutex_lock(&kv->log.lock);
	head = fth_load_relaxed_dev64(&kv->log.head);
	tail = fth_load_relaxed_dev64(&kv->log.tail);
	pthread_mutex_unlock(&kv->log.lock);
	counts = count_entries(kv, tail, head);
	if (!counts)
		return -ENOMEM;
	first = tail / chunk;
	for (n = head / chunk + 1; n > first && sum + counts[n - 1 - first] <= room; n--)
		sum += counts[n - 1 - first];
	free(counts);
	while (fth_load_relaxed_dev64(&kv->log.tail) < n * chunk && kv_log_give_up(kv))
		;
	return 0;
}

static int write_buckets(struct entries_out *out)
{
	struct fth_kv *kv = out->area->kv;
	int rc = 0;

	for (uint32_t b = 0; b < kv_bucket_count(kv) && rc == 0; b++) {
		struct kv_entry e[KV_WAYS];
		unsigned n;

		if (b % CANCEL_EVERY == 0 && canceled(kv))
			return -ECANCELED;
		kv_lock_two(kv, b, b);
		n = copy_bucket(kv, b, out->limit, e);
		fth_store_relaxed_dev32(&kv->ckpt_next, b + 1);
		kv_unlock_two(kv, b, b);
		rc = put_entries(out, e, n);
	}
	return rc;
}

/* What both buckets have now under the tag of an entry that has moved: it may have moved again. */
static int write_moved_to(struct entries_out *out, uint64_t tag)
{
	struct kv_entry found[2 * KV_WAYS], e[2 * KV_WAYS];
	struct fth_kv *kv = out->area->kv;
	struct kv_key_id id;
	unsigned n, same = 0;

	kv_key_id_of(kv, tag, &id);
	kv_lock(kv, &id);
	n = copy_bucket(kv, id.bucket[0], out->limit, found);
	if (id.bucket[0] != id.bucket[1])
		n += copy_bucket(kv, id.bucket[1], out->limit, found + n);
	kv_unlock(kv, &id);
	for (unsigned i = 0; i < n; i++)
		if ((found[i].traits & KV_TAG_MASK) == tag)
			e[same++] = found[i];
	return put_entries(out, e, same);
}

static int write_moved(struct entries_out *out)
{
	struct fth_kv *kv = out->area->kv;
	size_t listed;
	int rc = 0;

	/* All buckets are copied: nothing is added any more that matters. */
	pthread_mutex_lock(&kv->moved_lock);
	listed = kv->moved_count;
	pthread_mutex_unlock(&kv->moved_lock);
	if (listed > kv->moved_room)
		return too_many_moved(listed);
	for (size_t i = 0; i < listed && rc == 0; i++)
		rc = write_moved_to(out, kv->moved[i]);
	if (rc == 0 && out->count % PIECE_ENTRIES != 0)
		rc = piece_write(out->area);
	return rc;
}

/* All that is in the log now is durable when this returns 0. */
static int wait_committed(struct fth_kv *kv, uint64_t deadline)
{
	struct timespec nap = {.tv_nsec = 200000};
	uint64_t head;

	if (!kv->writer_runs)
		return 0; /* its last act was a commit */
	pthread_mutex_lock(&kv->log.lock);
	head = fth_load_relaxed_dev64(&kv->log.head);
	kv->commit_due = 1;
	kv_writer_kick(kv);
	pthread_mutex_unlock(&kv->log.lock);
	if (deadline == FTH_DEV_TIMEOUT)
		deadline = fth_deadline_ns(COMMIT_NS);
	while (fth_load_acquire_dev64(&kv->log.committed) < head) {
		int error = __atomic_load_n(&kv->log.error, __ATOMIC_RELAXED);

		if (error)
			return fth_fail(-error, "the log has failed");
		if (canceled(kv))
			return -ECANCELED;
		if (fth_now_ns() >= deadline)
			return fth_fail(ETIMEDOUT,
					"timed out waiting for the log to become durable");
		nanosleep(&nap, NULL);
	}
	return 0;
}

static int write_header(struct fth_kv *kv, uint64_t which, struct kv_index_header *h,
			uint64_t deadline)
{
	int rc;

	h->checksum = fth_checksum(h, offsetof(struct kv_index_header, checksum), KV_INDEX_SEED);
	rc = fth_dev_write(kv->dev, h, sizeof(*h),
			   kv->super.index_at + which * kv->super.index_bytes, deadline);
	return rc < 0 ? rc : fth_dev_flush(kv->dev, deadline);
}

static int write_all(struct fth_kv *kv, bool clean, uint64_t which, uint64_t deadline)
{
	struct kv_index_header h = {
		.magic = KV_INDEX_MAGIC,
		.id = kv->super.id,
		.number = kv->super.index_number + 1,
	};
	uint32_t restarts = __atomic_load_n(&kv->log.restarts, __ATOMIC_RELAXED);
	struct area area;
	struct entries_out out = {.area = &area};
	uint64_t tail;
	int rc = area_open(&area, kv, which, h.number, deadline);

	pthread_mutex_lock(&kv->log.lock);
	h.head = fth_load_relaxed_dev64(&kv->log.head);
	tail = fth_load_relaxed_dev64(&kv->log.tail);
	pthread_mutex_unlock(&kv->log.lock);
	if (rc == 0)
		rc = choose_limit(kv, h.head, tail, &out.limit);
	if (rc == 0)
		rc = write_buckets(&out);
	if (rc == 0)
		rc = write_moved(&out);
	if (rc == 0)
		rc = wait_committed(kv, deadline);
	if (rc == 0 && restarts != __atomic_load_n(&kv->log.restarts, __ATOMIC_RELAXED))
		rc = fth_fail(EIO, "the log has failed while the index was being written");
	if (rc == 0) {
		h.entries = out.count;
		h.replay_from = out.limit;
		h.clean = clean;
		pthread_mutex_lock(&kv->log.lock);
		/* under the lock, as tail: chunks that are given up count as dropped */
		h.dropped = fth_load_relaxed_dev32(&kv->index_dropped);
		h.next = kv->log.next;
		h.tail = fth_load_relaxed_dev64(&kv->log.tail);
		h.durable = kv->log.durable;
		h.ends = kv->log.open ? kv->log.open->number * kv->super.chunk + kv->log.open->end
				      : kv->log.end;
		pthread_mutex_unlock(&kv->log.lock);
		h.cas = fth_load_relaxed_dev64(&kv->cas);
		pthread_mutex_lock(&kv->flush_lock);
		h.flush_cas = kv->flush_cas;
		h.flush_before = kv->flush_before;
		h.flush_when = kv->flush_when;
		pthread_mutex_unlock(&kv->flush_lock);
		rc = write_header(kv, which, &h, deadline);
	}
	free(area.buf);
	return rc;
}

static int write_locked(struct fth_kv *kv, bool clean, uint64_t deadline)
{
	size_t room = moved_room(kv) / KV_WAYS;
	uint64_t which;
	int rc = 0;

	if (kv->super_doubtful)
		rc = kv_super_write(kv, deadline);
	if (rc < 0)
		return rc;
	kv->super_doubtful = false;
	which = kv->super.index_number ? !kv->super.index_which : 0;
	pthread_mutex_lock(&kv->moved_lock);
	kv->moved = malloc(room * sizeof(*kv->moved));
	kv->moved_room = kv->moved ? room : 0;
	kv->moved_count = 0;
	pthread_mutex_unlock(&kv->moved_lock);
	if (!kv->moved)
		rc = -ENOMEM;
	if (rc == 0)
		rc = write_all(kv, clean, which, deadline);
	fth_store_relaxed_dev32(&kv->ckpt_next, 0);
	if (rc == 0) {
		kv->super.index_which = which;
		kv->super.index_number++;
		rc = kv_super_write(kv, deadline);
		kv->super_doubtful = rc < 0;
	}
	pthread_mutex_lock(&kv->moved_lock);
	free(kv->moved);
	kv->moved = NULL;
	kv->moved_room = 0;
	pthread_mutex_unlock(&kv->moved_lock);
	return rc;
}

int kv_checkpoint_write(struct fth_kv *kv, bool clean, uint64_t deadline)
{
	int rc;

	pthread_mutex_lock(&kv->ckpt_lock);
	rc = write_locked(kv, clean, deadline);
	pthread_mutex_unlock(&kv->ckpt_lock);
	if (rc == 0)
		kv_count(kv, FTH_KV_STAT_CHECKPOINTS, 1);
	else if (rc != -ECANCELED)
		kv_count(kv, FTH_KV_STAT_CHECKPOINT_ERRORS, 1);
	return rc;
}

/* ---- reading ---- */

static bool header_good(const struct fth_kv *kv, const struct kv_index_header *h)
{
	return h->checksum ==
		       fth_checksum(h, offsetof(struct kv_index_header, checksum), KV_INDEX_SEED) &&
	       h->magic == KV_INDEX_MAGIC && h->id == kv->super.id && h->durable <= KV_POSITION_MAX;
}

void kv_checkpoint_watermark(struct fth_kv *kv, struct kv_watermark *mark)
{
	struct kv_index_header h;

	for (uint64_t which = 0; which < 2; which++)
		if (fth_dev_read(kv->dev, &h, sizeof(h),
				 kv->super.index_at + which * kv->super.index_bytes,
				 FTH_DEV_TIMEOUT) == 0 &&
		    header_good(kv, &h) && h.durable > mark->position)
			mark->position = h.durable;
}

static int read_header(struct fth_kv *kv, uint64_t which, uint64_t number,
		       struct kv_index_header *h)
{
	int rc = fth_dev_read(kv->dev, h, sizeof(*h),
			      kv->super.index_at + which * kv->super.index_bytes, FTH_DEV_TIMEOUT);

	if (rc < 0)
		return rc;
	if (!header_good(kv, h) || h->number != number || h->entries > area_room(kv) ||
	    h->replay_from > KV_POSITION_MAX || h->ends > KV_POSITION_MAX ||
	    h->tail > KV_POSITION_MAX || h->head > KV_POSITION_MAX ||
	    h->next > KV_POSITION_MAX / kv->super.chunk)
		return fth_fail(EBADMSG, "the header of the index on the device is damaged");
	return 0;
}

static bool has_entry(const struct fth_kv *kv, uint32_t bucket, const struct kv_entry *e)
{
	for (unsigned w = 0; w < KV_WAYS; w++) {
		const struct kv_entry *other = &kv->buckets[bucket].way[w];

		if (other != e && kv_kind(other) == KV_FLASH && other->extent == e->extent &&
		    ((other->traits ^ e->traits) & KV_TAG_MASK) == 0)
			return true;
	}
	return false;
}

/* A record is within its chunk. */
static bool fits(const struct fth_kv *kv, const struct kv_entry *e)
{
	uint64_t at = kv_place(e) * KV_UNIT % kv->super.chunk;

	return at >= sizeof(struct kv_chunk_header) && kv_length(e) > sizeof(struct kv_record) &&
	       kv_length(e) <= kv->super.chunk - at;
}

static void add_entry(struct fth_kv *kv, const struct kv_entry *e)
{
	struct kv_entry *to;
	struct kv_key_id id;

	kv_key_id_of(kv, e->traits & KV_TAG_MASK, &id);
	/* What is not valid is gone; what was copied from both of its buckets is there already. */
	if (kv_kind(e) != KV_FLASH || !fits(kv, e) || kv_stale(kv, e) ||
	    has_entry(kv, id.bucket[0], e) || has_entry(kv, id.bucket[1], e))
		return;
	to = kv_take_entry(kv, &id);
	/* Making room may have given up the chunk of this very entry. */
	if (kv_stale(kv, e))
		return;
	kv_entry_set(to, e->extent, e->traits);
	kv->items++;
}

static int read_entries(struct area *area, uint64_t count)
{
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		if (i % PIECE_ENTRIES == 0)
			rc = piece_read(area);
		if (rc == 0)
			add_entry(area->kv, (const struct kv_entry *)(const void *)area->buf +
						    i % PIECE_ENTRIES);
	}
	return rc;
}

int kv_checkpoint_read(struct fth_kv *kv, uint64_t which, uint64_t number,
		       struct kv_index_header *header)
{
	struct area area = {0};
	int rc = read_header(kv, which, number, header);

	if (rc < 0)
		return rc;
	/* Positions in the index are below this; those that are not are replayed. */
	kv->log.head = header->replay_from;
	kv->log.tail = kv_log_tail(kv, header->replay_from / kv->super.chunk + 1);
	if (kv->log.tail < header->tail)
		kv->log.tail = header->tail;
	kv_index_expect(kv, header->entries);
	rc = area_open(&area, kv, which, number, 0);
	if (rc == 0)
		rc = read_entries(&area, header->entries);
	free(area.buf);
	return rc;
}
