/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index on the device, written while the cache is in use.
 *
 * Buckets are copied one after the other, each under its lock, so the copy is not a snapshot of one moment.
 * It is correct for these reasons:
 *
 * 1. replay_from is where the log ended before the first bucket was copied. A change whose record
 *    lies before it was made under the lock of its buckets, and is in the copy; all others are
 *    replayed.
 * 2. An entry that moves from a bucket that is not copied yet to one that is would be missed: it is
 *    recorded in a list, and looked up in both of its buckets when these are written. Entries that are found
 *    are written after the buckets. One that moves the other way is copied twice; reading drops
 *    the second copy.
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
#define PIECE_BUCKETS (KV_PIECE_BYTES / sizeof(struct kv_bucket))
#define PIECE_MOVED   (KV_PIECE_BYTES / sizeof(struct kv_moved))

static uint64_t pieces(uint64_t count, uint64_t per_piece)
{
	return (count + per_piece - 1) / per_piece;
}

/* How many entries there is room for that have moved meanwhile. */
static uint64_t moved_max(uint64_t buckets)
{
	return pieces(buckets, PIECE_MOVED) * PIECE_MOVED;
}

uint64_t kv_checkpoint_bytes(uint64_t buckets)
{
	return sizeof(struct kv_index_header) +
	       (pieces(buckets, PIECE_BUCKETS) + pieces(moved_max(buckets), PIECE_MOVED)) *
		       (KV_PIECE_BYTES + KV_SUM_BYTES);
}

void kv_checkpoint_moved(struct fth_kv *kv, const struct kv_entry *e, uint32_t from, uint32_t to)
{
	/* relaxed: it moves under the lock of the bucket that it passes, and we hold both */
	uint32_t next = fth_load_relaxed_dev32(&kv->ckpt_next);

	if (to >= next || from < next)
		return;
	pthread_mutex_lock(&kv->moved_lock);
	if (kv->moved_count < kv->moved_room)
		kv->moved[kv->moved_count] = (struct kv_moved){e->where, e->what, to, 0};
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

/* As the log knows it. Under the lock of its bucket. */
static struct kv_entry on_media(const struct fth_kv *kv, const struct kv_entry *e)
{
	struct kv_entry out = *e;

	if (kv_kind(e) == KV_MEMORY) {
		const struct kv_slot *slot = kv_slot_at(kv, kv_place(e));

		if (slot->position == KV_NOWHERE || !kv_position_valid(kv, slot->position))
			return (struct kv_entry){0, 0};
		out.where = kv_where(slot->position / KV_UNIT, kv_record_bytes(&slot->record));
		out.what = (e->what & ~KV_KIND_MASK) | KV_FLASH;
	}
	return out;
}

/* The cache is being closed, which writes its own. */
static bool canceled(const struct fth_kv *kv)
{
	return fth_load_relaxed_dev32(&kv->ckpt_cancel);
}

static int write_buckets(struct area *area)
{
	struct fth_kv *kv = area->kv;
	int rc = 0;

	for (uint32_t b = 0; b < kv->bucket_count && rc == 0; b++) {
		struct kv_bucket *to = (struct kv_bucket *)(void *)area->buf + b % PIECE_BUCKETS;

		if (b % PIECE_BUCKETS == 0) {
			if (canceled(kv))
				return -ECANCELED;
			memset(area->buf, 0, KV_PIECE_BYTES);
		}
		kv_lock_two(kv, b, b);
		for (unsigned w = 0; w < KV_WAYS; w++)
			to->way[w] = on_media(kv, &kv->buckets[b].way[w]);
		fth_store_relaxed_dev32(&kv->ckpt_next, b + 1);
		kv_unlock_two(kv, b, b);
		if (b % PIECE_BUCKETS == PIECE_BUCKETS - 1 || b + 1 == kv->bucket_count)
			rc = piece_write(area);
	}
	return rc;
}

/* Where entries that have moved go, a piece at a time. */
struct moved_out {
	struct area *area;
	uint64_t count;
};

static int too_many_moved(uint64_t count)
{
	return fth_fail(EAGAIN, "%llu entries moved while the index was being written",
			(unsigned long long)count);
}

static int put_moved(struct moved_out *out, const struct kv_moved *moved)
{
	struct kv_moved *to = (struct kv_moved *)(void *)out->area->buf + out->count % PIECE_MOVED;

	if (out->count == moved_max(out->area->kv->bucket_count))
		return too_many_moved(out->count);
	if (out->count % PIECE_MOVED == 0)
		memset(out->area->buf, 0, KV_PIECE_BYTES);
	*to = *moved;
	return ++out->count % PIECE_MOVED == 0 ? piece_write(out->area) : 0;
}

/* What both buckets have now under the name of an entry that has moved: it may have moved again. */
static int write_moved_to(struct moved_out *out, const struct kv_moved *m)
{
	struct fth_kv *kv = out->area->kv;
	uint32_t b[2] = {(uint32_t)m->bucket, kv_other_bucket(kv, (uint32_t)m->bucket, m->what)};
	struct kv_moved found[2 * KV_WAYS];
	unsigned n = 0;
	int rc = 0;

	kv_lock_two(kv, b[0], b[1]);
	for (unsigned i = 0; i < (b[0] == b[1] ? 1 : 2) * KV_WAYS; i++) {
		const struct kv_entry *e = &kv->buckets[b[i / KV_WAYS]].way[i % KV_WAYS];
		struct kv_entry out_entry = on_media(kv, e);

		if (((e->what ^ m->what) & KV_NAME_MASK) == 0 && kv_kind(&out_entry) == KV_FLASH)
			found[n++] = (struct kv_moved){out_entry.where, out_entry.what,
						       b[i / KV_WAYS], 0};
	}
	kv_unlock_two(kv, b[0], b[1]);
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = put_moved(out, &found[i]);
	return rc;
}

static int write_moved(struct area *area, uint64_t *count)
{
	struct moved_out out = {.area = area};
	struct fth_kv *kv = area->kv;
	size_t listed;
	int rc = 0;

	/* All buckets are copied: nothing is added any more by those who see that. */
	pthread_mutex_lock(&kv->moved_lock);
	listed = kv->moved_count;
	pthread_mutex_unlock(&kv->moved_lock);
	if (listed > kv->moved_room)
		return too_many_moved(listed);
	for (size_t i = 0; i < listed && rc == 0; i++)
		rc = write_moved_to(&out, &kv->moved[i]);
	if (rc == 0 && out.count % PIECE_MOVED != 0)
		rc = piece_write(area);
	*count = out.count;
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
		.buckets = kv->bucket_count,
		.replay_from = fth_load_relaxed_dev64(&kv->log.head),
		.clean = clean,
	};
	struct area area;
	int rc = area_open(&area, kv, which, h.number, deadline);

	if (rc == 0)
		rc = write_buckets(&area);
	if (rc == 0)
		rc = write_moved(&area, &h.moved);
	if (rc == 0)
		rc = wait_committed(kv, deadline);
	if (rc == 0) {
		pthread_mutex_lock(&kv->log.lock);
		h.next = kv->log.next;
		h.tail = fth_load_relaxed_dev64(&kv->log.tail);
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
	size_t room = moved_max(kv->bucket_count) / KV_WAYS;
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

static int read_header(struct fth_kv *kv, uint64_t which, uint64_t number,
		       struct kv_index_header *h)
{
	int rc = fth_dev_read(kv->dev, h, sizeof(*h),
			      kv->super.index_at + which * kv->super.index_bytes, FTH_DEV_TIMEOUT);

	if (rc < 0)
		return rc;
	if (h->checksum !=
		    fth_checksum(h, offsetof(struct kv_index_header, checksum), KV_INDEX_SEED) ||
	    h->magic != KV_INDEX_MAGIC || h->id != kv->super.id || h->number != number ||
	    h->buckets != kv->bucket_count || h->moved > moved_max(h->buckets) ||
	    h->replay_from > KV_POSITION_MAX || h->ends > KV_POSITION_MAX ||
	    h->tail > KV_POSITION_MAX || h->next > KV_POSITION_MAX / kv->super.chunk)
		return fth_fail(EBADMSG, "the header of the index on the device is damaged");
	return 0;
}

static int read_buckets(struct area *area)
{
	struct fth_kv *kv = area->kv;
	int rc = 0;

	for (uint64_t b = 0; b < kv->bucket_count && rc == 0; b += PIECE_BUCKETS) {
		uint64_t n =
			kv->bucket_count - b < PIECE_BUCKETS ? kv->bucket_count - b : PIECE_BUCKETS;

		rc = piece_read(area);
		if (rc == 0)
			memcpy(&kv->buckets[b], area->buf, n * sizeof(struct kv_bucket));
	}
	return rc;
}

static bool has_entry(const struct fth_kv *kv, uint32_t bucket, const struct kv_entry *e)
{
	for (unsigned w = 0; w < KV_WAYS; w++) {
		const struct kv_entry *other = &kv->buckets[bucket].way[w];

		if (other != e && kv_kind(other) == KV_FLASH && other->where == e->where &&
		    ((other->what ^ e->what) & KV_NAME_MASK) == 0)
			return true;
	}
	return false;
}

static bool put_entry(struct fth_kv *kv, uint32_t bucket, const struct kv_entry *e)
{
	for (unsigned w = 0; w < KV_WAYS; w++)
		if (kv_kind(&kv->buckets[bucket].way[w]) == KV_EMPTY) {
			kv->buckets[bucket].way[w] = *e;
			return true;
		}
	return false;
}

/*
 * The copies of the buckets are of different moments: there may be no room where it was, or none at
 * all, because an entry that had to go first is in the copy still. Then that one is a change that is
 * replayed, and this one goes where there is room.
 */
static void add_moved(struct fth_kv *kv, uint32_t bucket, const struct kv_entry *e)
{
	uint32_t other = kv_other_bucket(kv, bucket, e->what);
	struct kv_name name = {.bucket = {bucket, other}, .what = e->what & KV_NAME_MASK};

	if (has_entry(kv, bucket, e) || has_entry(kv, other, e))
		return;
	while (!put_entry(kv, bucket, e) && !put_entry(kv, other, e))
		if (!kv_make_room(kv, &name))
			return;
}

static int read_moved(struct area *area, uint64_t count)
{
	struct fth_kv *kv = area->kv;
	int rc = 0;

	for (uint64_t i = 0; i < count && rc == 0; i++) {
		const struct kv_moved *m =
			(const struct kv_moved *)(void *)area->buf + i % PIECE_MOVED;
		struct kv_entry e;

		if (i % PIECE_MOVED == 0)
			rc = piece_read(area);
		if (rc < 0)
			break;
		e = (struct kv_entry){m->where, m->what};
		if (kv_kind(&e) != KV_FLASH || m->bucket >= kv->bucket_count)
			continue;
		add_moved(kv, (uint32_t)m->bucket, &e);
	}
	return rc;
}

/* A record is within its chunk. */
static bool fits(const struct fth_kv *kv, const struct kv_entry *e)
{
	uint64_t at = kv_place(e) * KV_UNIT % kv->super.chunk;

	return at >= sizeof(struct kv_chunk_header) && kv_length(e) > sizeof(struct kv_record) &&
	       kv_length(e) <= kv->super.chunk - at;
}

/* What was copied from both of its buckets stays in one; what is no entry of a log goes. */
static void tidy(struct fth_kv *kv)
{
	for (uint32_t b = 0; b < kv->bucket_count; b++)
		for (unsigned w = 0; w < KV_WAYS; w++) {
			struct kv_entry *e = &kv->buckets[b].way[w];
			uint32_t other = kv_other_bucket(kv, b, e->what);

			if (kv_kind(e) == KV_EMPTY)
				continue;
			if (kv_kind(e) != KV_FLASH || !fits(kv, e) || has_entry(kv, b, e) ||
			    (other != b && has_entry(kv, other, e)))
				*e = (struct kv_entry){0, 0};
			else
				kv->items++;
		}
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
	rc = area_open(&area, kv, which, number, 0);
	if (rc == 0)
		rc = read_buckets(&area);
	if (rc == 0)
		rc = read_moved(&area, header->moved);
	free(area.buf);
	if (rc < 0)
		return rc;
	tidy(kv);
	return 0;
}
