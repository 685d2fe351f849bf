/* SPDX-License-Identifier: BSD-2-Clause */
/* Creating and opening write-ahead logs. wal_internal.h has the layout and the invariants. */
#include "pm/areas/wal_internal.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MAX ((uint64_t)16 << 30)

uint64_t fth_pm_wal_bytes(uint64_t capacity)
{
	if (capacity == 0 || capacity % FTH_PM_PAGE || capacity > CAPACITY_MAX)
		return 0;
	return WAL_DATA + capacity;
}

uint64_t pm_wal_header_sum(const struct wal_header *header)
{
	uint64_t words[sizeof(*header) / 8], sum = WAL_MAGIC;

	memcpy(words, header, sizeof(*header));
	for (unsigned i = 0; i < offsetof(struct wal_header, check) / 8; i++)
		sum = fth_mix64(sum + words[i]) + i;
	return sum;
}

/* 0 is never a sum: memory that is zeroed holds no record. */
uint64_t pm_wal_record_sum(const struct fth_pm_wal *wal, const struct wal_record *record)
{
	return fth_mix64(fth_mix64(wal->salt + record->head) ^ record->session) | 1;
}

static int check_range(const struct fth_pm_view *pm, uint64_t offset, uint64_t bytes)
{
	if (offset % FTH_PM_PAGE)
		return fth_fail(EINVAL, "wal: offset %llu is not a multiple of %u",
				(unsigned long long)offset, FTH_PM_PAGE);
	if (offset > pm->size || bytes > pm->size - offset)
		return fth_fail(ERANGE,
				"wal: %llu bytes at offset %llu exceed the memory of %llu bytes",
				(unsigned long long)bytes, (unsigned long long)offset,
				(unsigned long long)pm->size);
	return 0;
}

/* ---- creating ---- */

/* The magic number is stored last: a crash before leaves no log. */
int pm_wal_make(const struct fth_pm_view *pm, uint64_t offset, uint64_t capacity, uint64_t salt)
{
	struct wal_header header = {.magic = WAL_MAGIC,
				    .version = WAL_VERSION,
				    .bytes = fth_pm_wal_bytes(capacity),
				    .capacity = capacity,
				    .salt = salt ? salt : pm_area_salt()};
	struct wal_record records[2] = {{.head = capacity}, {0}};
	const struct fth_pm_wal wal = {.salt = header.salt};
	uint8_t *area = pm->base + offset;
	int rc = pm_area_put_magic(pm, offset, PM_AREA_CREATING);

	if (rc < 0)
		return rc;
	header.check = pm_wal_header_sum(&header);
	records[0].check = pm_wal_record_sum(&wal, &records[0]);
	fth_pm_put(pm, area + 8, &header.version, sizeof(header) - 8);
	fth_pm_put(pm, area + WAL_RECORD, &records[0], sizeof(records[0]));
	fth_pm_put(pm, area + 2 * WAL_RECORD, &records[1], sizeof(records[1]));
	rc = fth_pm_persist_range(pm, area, 3 * WAL_RECORD);
	return rc < 0 ? rc : pm_area_put_magic(pm, offset, WAL_MAGIC);
}

int fth_pm_wal_create(struct fth_pm *pm, uint64_t offset, uint64_t capacity,
		      struct fth_pm_wal **out)
{
	uint64_t bytes = fth_pm_wal_bytes(capacity);
	int rc;

	*out = NULL;
	if (bytes == 0)
		return fth_fail(EINVAL,
				"wal: capacity %llu is not a multiple of %u from %u to %llu",
				(unsigned long long)capacity, FTH_PM_PAGE, FTH_PM_PAGE,
				(unsigned long long)CAPACITY_MAX);
	if (pm->readonly)
		return fth_fail(EROFS, "wal: %s is mapped read-only", fth_pm_name(pm));
	rc = check_range(&pm->view, offset, bytes);
	if (rc == 0)
		rc = pm_process_check(pm);
	if (rc == 0)
		rc = pm_wal_make(&pm->view, offset, capacity, 0);
	return rc < 0 ? rc : fth_pm_wal_open(pm, offset, out);
}

/* ---- opening ---- */

static int read_header(const struct fth_pm_view *pm, uint64_t offset, struct wal_header *h)
{
	int rc = check_range(pm, offset, WAL_DATA);

	if (rc < 0)
		return rc;
	memcpy(h, pm->base + offset, sizeof(*h));
	if (h->magic != WAL_MAGIC)
		return pm_area_missing(pm, offset, sizeof(*h), "wal: no write-ahead log");
	if (h->version != WAL_VERSION)
		return fth_fail(EBADMSG, "wal: version %u, expected %u", h->version, WAL_VERSION);
	if (h->check != pm_wal_header_sum(h) || h->bytes != fth_pm_wal_bytes(h->capacity) ||
	    h->bytes == 0)
		return fth_fail(EBADMSG, "wal: the header at offset %llu is damaged",
				(unsigned long long)offset);
	if (h->bytes > pm->size - offset)
		return fth_fail(EBADMSG,
				"wal: %llu bytes at offset %llu exceed the memory of %llu bytes",
				(unsigned long long)h->bytes, (unsigned long long)offset,
				(unsigned long long)pm->size);
	return 0;
}

static int read_records(struct fth_pm_wal *wal)
{
	bool found = false;

	for (unsigned slot = 0; slot < 2; slot++) {
		struct wal_record r;

		memcpy(&r, wal->area + WAL_RECORD * (1 + slot), sizeof(r));
		if (r.check != pm_wal_record_sum(wal, &r) || r.head < wal->capacity || r.head % 8 ||
		    r.head > UINT64_MAX / 2 || r.session > WAL_SESSION_MAX)
			continue;
		if (found &&
		    (r.head < wal->head || (r.head == wal->head && r.session < wal->session)))
			continue;
		found = true;
		wal->head = r.head;
		wal->session = (uint32_t)r.session;
		wal->slot = slot;
	}
	return found ? 0 : fth_fail(EBADMSG, "wal: both records of the oldest entry are damaged");
}

/* A whole entry is at `position`, and ends before `end`. */
static bool find_entry(const struct fth_pm_wal *wal, uint64_t position, uint64_t end,
		       struct wal_entry *entry)
{
	return position < end && pm_wal_entry(wal, position, entry) &&
	       entry->space <= end - position && entry->session <= wal->session &&
	       pm_wal_payload(wal, position, entry, NULL);
}

/* Invariant 5: an entry behind the tail shows that there was one at the tail. */
static bool is_damaged(const struct fth_pm_wal *wal)
{
	const uint64_t *ring = (const uint64_t *)(const void *)(wal->area + WAL_DATA);
	uint64_t end = wal->head + wal->capacity, at = wal->tail % wal->capacity / 8;
	struct wal_entry entry;

	for (uint64_t position = wal->tail + 8; position < end; position += 8) {
		at = at + 1 == wal->capacity / 8 ? 0 : at + 1;
		if (ring[at] == 0) /* no entry, and most of a log that is not full */
			continue;
		if (find_entry(wal, position, end, &entry) && entry.proven > wal->tail)
			return true;
	}
	return false;
}

/* Find the entries. Returns 0, or -EBADMSG; *proven is how far they are certainly persistent. */
static int scan_entries(struct fth_pm_wal *wal, uint64_t *proven)
{
	uint64_t end = wal->head + wal->capacity;
	struct wal_entry entry;
	uint32_t session = 0;

	*proven = wal->tail = wal->head;
	while (find_entry(wal, wal->tail, end, &entry) && entry.session >= session) {
		session = entry.session;
		if (entry.proven > *proven)
			*proven = entry.proven;
		wal->tail += entry.space;
		wal->entries++;
	}
	wal->durable = wal->tail;
	if (is_damaged(wal))
		return fth_fail(EBADMSG, "wal: entry %llu is damaged, but a newer entry is intact",
				(unsigned long long)wal->tail);
	return 0;
}

/* Invariants 3 and 4, by one fence. */
static int begin_session(struct fth_pm_wal *wal, uint64_t proven)
{
	int rc;

	if (wal->session == WAL_SESSION_MAX)
		return fth_fail(EOVERFLOW, "wal: it was opened for writing %u times",
				WAL_SESSION_MAX);
	if (proven < wal->tail)
		pm_wal_flush(wal, proven, wal->tail);
	rc = pm_wal_put_record(wal, wal->head, wal->session + 1);
	if (rc == 0)
		wal->session++;
	return rc;
}

int pm_wal_open_view(const struct fth_pm_view *pm, uint64_t offset, bool begin,
		     struct fth_pm_wal **out)
{
	struct fth_pm_wal *wal;
	struct wal_header header;
	int rc = read_header(pm, offset, &header);
	uint64_t proven;

	*out = NULL;
	if (rc < 0)
		return rc;
	wal = calloc(1, sizeof(*wal));
	if (!wal)
		return -ENOMEM;
	pthread_mutex_init(&wal->lock, NULL);
	pthread_mutex_init(&wal->trimming, NULL);
	wal->pm = *pm;
	wal->area = pm->base + offset;
	wal->capacity = header.capacity;
	wal->salt = header.salt;
	wal->deferred = pm->mode == FTH_PM_MODE_WRITE_BACK;
	rc = read_records(wal);
	if (rc == 0)
		rc = scan_entries(wal, &proven);
	if (rc == 0 && begin)
		rc = begin_session(wal, proven);
	if (rc < 0) {
		fth_pm_wal_close(wal);
		return rc;
	}
	*out = wal;
	return 0;
}

int fth_pm_wal_open(struct fth_pm *pm, uint64_t offset, struct fth_pm_wal **out)
{
	int rc = pm_process_check(pm);

	*out = NULL;
	if (rc == 0)
		rc = pm_wal_open_view(&pm->view, offset, !pm->readonly, out);
	if (rc == 0)
		(*out)->owner = pm;
	return rc;
}

int fth_pm_wal_open_or_create(struct fth_pm *pm, uint64_t offset, uint64_t capacity,
			      struct fth_pm_wal **out)
{
	struct wal_header header;
	int rc = read_header(&pm->view, offset, &header);

	*out = NULL;
	if (rc == -ENOENT)
		return fth_pm_wal_create(pm, offset, capacity, out);
	if (rc == 0 && header.capacity != capacity)
		return fth_fail(EINVAL, "wal: the log at offset %llu has a capacity of %llu",
				(unsigned long long)offset, (unsigned long long)header.capacity);
	return rc < 0 ? rc : fth_pm_wal_open(pm, offset, out);
}

void fth_pm_wal_close(struct fth_pm_wal *wal)
{
	if (!wal)
		return;
	pthread_mutex_destroy(&wal->lock);
	pthread_mutex_destroy(&wal->trimming);
	free(wal);
}
