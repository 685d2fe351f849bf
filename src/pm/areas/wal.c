/* SPDX-License-Identifier: BSD-2-Clause */
/* Write-ahead logs: append, wait, read, trim. wal_internal.h has the layout and the invariants. */
#include "pm/areas/wal_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

#define HEADER FTH_PM_WAL_ENTRY

static uint64_t space_of(uint32_t bytes)
{
	return HEADER + ((uint64_t)bytes + 7) / 8 * 8;
}

/* ---- words of the ring ---- */

struct place {
	uint64_t *first, *end, *at;
};

static struct place place_of(const struct fth_pm_wal *wal, uint64_t position)
{
	uint64_t *first = (uint64_t *)(void *)(wal->area + WAL_DATA);

	return (struct place){first, first + wal->capacity / 8,
			      first + position % wal->capacity / 8};
}

static uint64_t *next_word(struct place *place)
{
	uint64_t *word = place->at++;

	if (place->at == place->end)
		place->at = place->first;
	return word;
}

/* ---- checks ---- */

static uint64_t header_sum(const struct fth_pm_wal *wal, uint64_t position, uint64_t word)
{
	return fth_mix64(fth_mix64(wal->salt ^ position) + word);
}

static uint64_t add_word(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
	return sum ^ sum >> 32;
}

static uint32_t payload_check(uint64_t sum)
{
	return (uint32_t)(fth_mix64(sum) >> 32);
}

/* ---- distances: a power of two of words, rounded up, so that nothing is claimed in excess ---- */

static unsigned distance_code(uint64_t bytes)
{
	uint64_t words = bytes / 8;

	return words < 2 ? (unsigned)words : 65u - (unsigned)__builtin_clzll(words - 1);
}

static uint64_t distance_of(unsigned code)
{
	return code == 0 ? 0 : (uint64_t)8 << (code - 1);
}

/* ---- entries ---- */

bool pm_wal_entry(const struct fth_pm_wal *wal, uint64_t position, struct wal_entry *entry)
{
	struct place place = place_of(wal, position);
	uint64_t word = fth_load_relaxed_sys64(next_word(&place));
	uint64_t checks = fth_load_relaxed_sys64(next_word(&place)), distance;

	if (word == 0) /* of no session */
		return false;
	entry->bytes = word & WAL_LENGTH_MAX;
	entry->space = space_of(entry->bytes);
	entry->session = (uint32_t)(word >> (WAL_LENGTH_BITS + WAL_DISTANCE_BITS));
	distance = distance_of(word >> WAL_LENGTH_BITS & ((1u << WAL_DISTANCE_BITS) - 1));
	entry->proven = distance < position ? position - distance : 0;
	entry->sum = header_sum(wal, position, word);
	entry->check = (uint32_t)(checks >> 32);
	return (uint32_t)entry->sum == (uint32_t)checks && entry->space <= wal->capacity;
}

bool pm_wal_payload(const struct fth_pm_wal *wal, uint64_t position, const struct wal_entry *entry,
		    void *out)
{
	struct place place = place_of(wal, position + HEADER);
	uint64_t sum = entry->sum;

	for (uint32_t at = 0; at < entry->bytes; at += 8) {
		uint64_t word = fth_load_relaxed_sys64(next_word(&place));

		sum = add_word(sum, word);
		if (out)
			memcpy((char *)out + at, &word,
			       entry->bytes - at < 8 ? entry->bytes - at : 8);
	}
	return payload_check(sum) == entry->check;
}

void pm_wal_flush(const struct fth_pm_wal *wal, uint64_t from, uint64_t to)
{
	uint64_t at = from % wal->capacity, left = wal->capacity - at, bytes = to - from;
	const uint8_t *ring = wal->area + WAL_DATA;

	fth_pm_flush_range(&wal->pm, ring + at, bytes < left ? bytes : left);
	if (bytes > left)
		fth_pm_flush_range(&wal->pm, ring, bytes - left);
}

static void store_entry(struct fth_pm_wal *wal, const void *data, uint32_t bytes)
{
	uint64_t distance = distance_code(wal->tail - fth_load_relaxed_sys64(&wal->durable));
	uint64_t word = bytes | distance << WAL_LENGTH_BITS |
			(uint64_t)wal->session << (WAL_LENGTH_BITS + WAL_DISTANCE_BITS);
	struct place header = place_of(wal, wal->tail);
	struct place place = place_of(wal, wal->tail + HEADER);
	uint64_t first = header_sum(wal, wal->tail, word), sum = first, payload;

	for (uint32_t at = 0; at < bytes; at += 8) {
		payload = 0;
		memcpy(&payload, (const char *)data + at, bytes - at < 8 ? bytes - at : 8);
		fth_pm_put64(&wal->pm, next_word(&place), payload);
		sum = add_word(sum, payload);
	}
	fth_pm_put64(&wal->pm, next_word(&header), word);
	fth_pm_put64(&wal->pm, next_word(&header),
		     (uint64_t)payload_check(sum) << 32 | (uint32_t)first);
	pm_wal_flush(wal, wal->tail, wal->tail + space_of(bytes));
}

/* ---- appending ---- */

static int check_writable(const struct fth_pm_wal *wal)
{
	uint64_t error = fth_load_acquire_sys64(&wal->pm.control->error);

	if (wal->owner && wal->owner->readonly)
		return fth_fail(EROFS, "wal: the memory is mapped read-only");
	if (error)
		return fth_fail((int)error, "wal: an earlier persist failed: %s",
				strerror((int)error));
	return wal->owner ? pm_process_check(wal->owner) : 0;
}

/* release: a thread that reads entries below `durable` sees their stores. */
static void raise_durable(struct fth_pm_wal *wal, uint64_t to)
{
	uint64_t old = fth_load_relaxed_sys64(&wal->durable);

	while (old < to && !fth_cas_acqrel_sys64(&wal->durable, &old, to))
		;
}

/* With the lock held. */
static int append_entry(struct fth_pm_wal *wal, const void *data, uint32_t bytes)
{
	uint64_t end = wal->tail + space_of(bytes);
	int rc = 0;

	if (end - wal->head > wal->capacity)
		return -ENOSPC;
	store_entry(wal, data, bytes);
	if (!wal->deferred)
		rc = fth_pm_fence(&wal->pm);
	if (rc < 0)
		return rc;
	wal->entries++;
	/* release: a thread that waits for this entry sees that its pages are marked. */
	fth_store_release_sys64(&wal->tail, end);
	if (!wal->deferred)
		raise_durable(wal, end);
	return 0;
}

int fth_pm_wal_append(struct fth_pm_wal *wal, const void *data, uint32_t bytes, uint64_t *number)
{
	int rc = check_writable(wal);
	uint64_t at;

	if (rc < 0)
		return rc;
	if (bytes > WAL_LENGTH_MAX || space_of(bytes) > wal->capacity)
		return fth_fail(EINVAL, "wal: an entry of %u bytes in a log of %llu bytes", bytes,
				(unsigned long long)wal->capacity);
	pthread_mutex_lock(&wal->lock);
	at = wal->tail;
	rc = append_entry(wal, data, bytes);
	pthread_mutex_unlock(&wal->lock);
	if (rc == 0 && number)
		*number = at;
	return rc == -ENOSPC ? fth_fail(ENOSPC, "wal: the log of %llu bytes is full",
					(unsigned long long)wal->capacity)
			     : rc;
}

int fth_pm_wal_wait(struct fth_pm_wal *wal, uint64_t number)
{
	uint64_t tail;
	int rc;

	/* acquire: what the thread that raised it did before. */
	if (fth_load_acquire_sys64(&wal->durable) > number)
		return 0;
	rc = check_writable(wal);
	if (rc < 0)
		return rc;
	/* acquire: the entries before the tail are stored, and their pages marked. */
	tail = fth_load_acquire_sys64(&wal->tail);
	if (number >= tail)
		return fth_fail(EINVAL, "wal: no entry %llu, the next one is %llu",
				(unsigned long long)number, (unsigned long long)tail);
	rc = fth_pm_fence(&wal->pm);
	if (rc == 0)
		raise_durable(wal, tail);
	return rc;
}

/* ---- reading ---- */

/* In a child of fork() the lock may be held by a thread that does not exist there. */
static bool has_lock(const struct fth_pm_wal *wal)
{
	return !wal->owner || !pm_process_is_other(wal->owner);
}

void fth_pm_wal_info(struct fth_pm_wal *wal, struct fth_pm_wal_info *info)
{
	bool locked = has_lock(wal);

	if (locked)
		pthread_mutex_lock(&wal->lock);
	*info = (struct fth_pm_wal_info){
		.bytes = WAL_DATA + wal->capacity,
		.capacity = wal->capacity,
		.used = wal->tail - wal->head,
		.entries = wal->entries,
		.oldest = wal->head,
		.durable = fth_load_relaxed_sys64(&wal->durable),
		.next = wal->tail,
	};
	if (locked)
		pthread_mutex_unlock(&wal->lock);
}

/* The entry at `position` does not match. Was it overwritten, after a trim? */
static int why_not(struct fth_pm_wal *wal, uint64_t position)
{
	struct fth_pm_wal_info info;

	/* By the lock: an append that overwrites the entry has seen the head behind it. */
	fth_pm_wal_info(wal, &info);
	if (position < info.oldest)
		return fth_fail(ESTALE, "wal: entry %llu was trimmed",
				(unsigned long long)position);
	return fth_fail(EBADMSG, "wal: entry %llu is damaged, or is none",
			(unsigned long long)position);
}

int64_t fth_pm_wal_read(struct fth_pm_wal *wal, uint64_t *cursor, void *out, uint32_t capacity)
{
	/* acquire: the entries below it are stored. */
	uint64_t durable = fth_load_acquire_sys64(&wal->durable);
	uint64_t head = fth_load_relaxed_sys64(&wal->head), position = *cursor ? *cursor : head;
	struct wal_entry entry;

	if (position >= durable)
		return -ENOENT;
	if (position < head || position % 8 || !pm_wal_entry(wal, position, &entry) ||
	    entry.space > durable - position)
		return why_not(wal, position);
	if (entry.bytes > capacity)
		return -EMSGSIZE;
	if (!pm_wal_payload(wal, position, &entry, out))
		return why_not(wal, position);
	*cursor = position + entry.space;
	return entry.bytes;
}

/* ---- trimming ---- */

int pm_wal_put_record(struct fth_pm_wal *wal, uint64_t head, uint32_t session)
{
	struct wal_record record = {.head = head, .session = session};
	unsigned slot = 1 - wal->slot;
	uint8_t *to = wal->area + WAL_RECORD * (1 + slot);
	int rc;

	record.check = pm_wal_record_sum(wal, &record);
	fth_pm_put(&wal->pm, to, &record, sizeof(record));
	rc = fth_pm_persist_range(&wal->pm, to, sizeof(record));
	if (rc == 0)
		wal->slot = slot;
	return rc;
}

/* The entries from the head to `number`. */
static int64_t count_entries(const struct fth_pm_wal *wal, uint64_t number)
{
	uint64_t position = wal->head;
	int64_t count = 0;

	for (struct wal_entry entry; position < number; position += entry.space, count++)
		if (!pm_wal_entry(wal, position, &entry))
			return fth_fail(EBADMSG, "wal: entry %llu is damaged",
					(unsigned long long)position);
	if (position > number)
		return fth_fail(EINVAL, "wal: %llu is not the number of an entry",
				(unsigned long long)number);
	return count;
}

/* With `trimming` held. */
static int trim_entries(struct fth_pm_wal *wal, uint64_t number)
{
	uint64_t tail = fth_load_acquire_sys64(&wal->tail);
	int64_t count;
	int rc;

	if (number > tail)
		return fth_fail(EINVAL, "wal: no entry %llu, the next one is %llu",
				(unsigned long long)number, (unsigned long long)tail);
	count = number <= wal->head ? 0 : count_entries(wal, number);
	if (count <= 0)
		return (int)count;
	rc = pm_wal_put_record(wal, number, wal->session);
	if (rc < 0)
		return rc;
	/* The fence of the record covers all entries that were stored before. */
	raise_durable(wal, tail);
	pthread_mutex_lock(&wal->lock);
	fth_store_relaxed_sys64(&wal->head, number);
	wal->entries -= (uint64_t)count;
	pthread_mutex_unlock(&wal->lock);
	return 0;
}

int fth_pm_wal_trim(struct fth_pm_wal *wal, uint64_t number)
{
	int rc = check_writable(wal);

	if (rc < 0)
		return rc;
	pthread_mutex_lock(&wal->trimming);
	rc = trim_entries(wal, number);
	pthread_mutex_unlock(&wal->trimming);
	return rc;
}
