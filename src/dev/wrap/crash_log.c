/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants
 * 1. A sector is in the index if and only if a record touches it; it names the newest that does.
 * 2. Records are brought inside so that of two that overlap the older one goes first. Hence what
 *    a read finds does not change when a record moves from here to the device inside.
 */
#include "dev/wrap/crash_log.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <string.h>

#define DATA_ALIGN   4096
#define PLACES_FIRST 1024
#define TORN_CHUNK   ((uint64_t)1 << 20)

static const char zero_sector[FTH_CRASH_SECTOR];

/* ---- the index ---- */

static uint64_t home_of(const struct fth_crash_log *log, uint64_t sector)
{
	return fth_mix64(sector) & (log->place_count - 1);
}

/* Where the sector is, or the free place where it would go. */
static uint64_t seek(const struct fth_crash_log *log, uint64_t sector)
{
	uint64_t mask = log->place_count - 1, i = home_of(log, sector);

	while (log->places[i].record && log->places[i].sector != sector)
		i = (i + 1) & mask;
	return i;
}

static void place_remove(struct fth_crash_log *log, uint64_t i)
{
	uint64_t mask = log->place_count - 1;

	log->used--;
	/* Those behind move up unless their home lies behind the gap on the way to them. */
	for (uint64_t j = (i + 1) & mask; log->places[j].record; j = (j + 1) & mask) {
		uint64_t home = home_of(log, log->places[j].sector);

		if (((j - home) & mask) < ((j - i) & mask))
			continue;
		log->places[i] = log->places[j];
		i = j;
	}
	log->places[i].record = NULL;
}

static size_t index_bytes(const struct fth_crash_log *log)
{
	return log->place_count * sizeof(log->places[0]);
}

/* Room for n more sectors, so that adding them can not fail half-way. */
static int reserve(struct fth_crash_log *log, uint64_t n)
{
	struct fth_crash_log bigger = *log;

	if (bigger.place_count == 0)
		bigger.place_count = PLACES_FIRST;
	while (bigger.place_count < 2 * (log->used + n))
		bigger.place_count *= 2;
	if (bigger.place_count == log->place_count)
		return 0;
	bigger.places = fth_dev_memory_take(&log->memory, index_bytes(&bigger));
	if (!bigger.places)
		return -ENOMEM;
	memset(bigger.places, 0, index_bytes(&bigger));
	for (uint64_t i = 0; i < log->place_count; i++)
		if (log->places[i].record)
			bigger.places[seek(&bigger, log->places[i].sector)] = log->places[i];
	fth_dev_memory_give(&log->memory, log->places, index_bytes(log));
	log->places = bigger.places;
	log->place_count = bigger.place_count;
	return 0;
}

static uint64_t first_sector(const struct fth_crash_record *record)
{
	return record->offset / FTH_CRASH_SECTOR;
}

static uint64_t sectors(const struct fth_crash_record *record)
{
	return record->length / FTH_CRASH_SECTOR;
}

static void index_record(struct fth_crash_log *log, struct fth_crash_record *record)
{
	for (uint64_t n = 0; n < sectors(record); n++) {
		uint64_t sector = first_sector(record) + n, i = seek(log, sector);

		if (!log->places[i].record)
			log->used++;
		log->places[i] = (struct fth_crash_place){.sector = sector, .record = record};
	}
}

static void unindex_record(struct fth_crash_log *log, const struct fth_crash_record *record)
{
	for (uint64_t n = 0; n < sectors(record); n++) {
		uint64_t i = seek(log, first_sector(record) + n);

		if (log->places[i].record == record)
			place_remove(log, i);
	}
}

const char *fth_crash_log_find(const struct fth_crash_log *log, uint64_t sector)
{
	const struct fth_crash_record *record;

	if (log->used == 0)
		return NULL;
	record = log->places[seek(log, sector)].record;
	if (!record)
		return NULL;
	if (record->op != FTH_DEV_WRITE)
		return zero_sector;
	return record->data + (sector - first_sector(record)) * FTH_CRASH_SECTOR;
}

/* ---- the list ---- */

static uint64_t cost(enum fth_dev_op op, uint64_t length)
{
	/* A sector has two places of 16 bytes in the index: 1/16 of its size. */
	return sizeof(struct fth_crash_record) + (op == FTH_DEV_WRITE ? length : 0) + length / 16;
}

/* Data is aligned as a device may need it. */
static size_t data_bytes(uint64_t length)
{
	return length < DATA_ALIGN ? DATA_ALIGN : length;
}

uint64_t fth_crash_log_cost(const struct fth_dev_req *req)
{
	return cost(req->op, req->length);
}

static void record_free(struct fth_crash_log *log, struct fth_crash_record *record)
{
	fth_dev_memory_give(&log->memory, record->data, data_bytes(record->length));
	fth_dev_memory_give(&log->memory, record, sizeof(*record));
}

static struct fth_crash_record *record_new(struct fth_crash_log *log, const struct fth_dev_req *req)
{
	struct fth_crash_record *record = fth_dev_memory_take(&log->memory, sizeof(*record));

	if (!record)
		return NULL;
	*record = (struct fth_crash_record){
		.op = req->op, .offset = req->offset, .length = req->length};
	if (req->op != FTH_DEV_WRITE)
		return record;
	record->data = fth_dev_memory_take(&log->memory, data_bytes(req->length));
	if (!record->data) {
		record_free(log, record);
		return NULL;
	}
	fth_dev_req_gather(req, record->data);
	return record;
}

int fth_crash_log_add(struct fth_crash_log *log, const struct fth_dev_req *req,
		      struct fth_crash_record **owner)
{
	struct fth_crash_record *record;
	int rc = reserve(log, req->length / FTH_CRASH_SECTOR);

	if (rc < 0)
		return rc;
	record = record_new(log, req);
	if (!record)
		return -ENOMEM;
	record->in_flight = owner;
	*owner = record;
	record->older = log->newest;
	if (log->newest)
		log->newest->newer = record;
	else
		log->oldest = record;
	log->newest = record;
	log->count++;
	log->bytes += cost(record->op, record->length);
	index_record(log, record);
	return 0;
}

void fth_crash_log_complete(struct fth_crash_record *record)
{
	*record->in_flight = NULL;
	record->in_flight = NULL;
}

static void forget(struct fth_crash_log *log, struct fth_crash_record *record)
{
	unindex_record(log, record);
	if (record->older)
		record->older->newer = record->newer;
	else
		log->oldest = record->newer;
	if (record->newer)
		record->newer->older = record->older;
	else
		log->newest = record->older;
	log->count--;
	log->bytes -= cost(record->op, record->length);
	if (record->in_flight)
		*record->in_flight = NULL;
	record_free(log, record);
}

void fth_crash_log_release(struct fth_crash_log *log)
{
	while (log->oldest)
		forget(log, log->oldest);
	fth_dev_memory_give(&log->memory, log->places, index_bytes(log));
	fth_dev_memory_release(&log->memory);
	memset(log, 0, sizeof(*log));
}

/* ---- bringing operations inside ---- */

static int apply(const struct fth_crash_record *record, const struct fth_crash_inside *inside)
{
	switch (record->op) {
	case FTH_DEV_WRITE:
		return fth_dev_write(inside->dev, record->data, record->length, record->offset,
				     inside->deadline);
	case FTH_DEV_ZERO:
		return fth_dev_zero(inside->dev, record->length, record->offset, inside->deadline);
	default:
		return fth_dev_discard(inside->dev, record->length, record->offset,
				       inside->deadline);
	}
}

int fth_crash_log_write_back_oldest(struct fth_crash_log *log,
				    const struct fth_crash_inside *inside)
{
	int rc = apply(log->oldest, inside);

	if (rc == 0)
		forget(log, log->oldest);
	return rc;
}

static bool overlaps_older(const struct fth_crash_log *log, const struct fth_crash_record *record)
{
	for (const struct fth_crash_record *r = log->oldest; r != record; r = r->newer)
		if (r->offset < record->offset + record->length &&
		    record->offset < r->offset + r->length)
			return true;
	return false;
}

int fth_crash_log_write_back_one(struct fth_crash_log *log, const struct fth_crash_inside *inside,
				 struct fth_crash_record *record)
{
	int rc = 0;

	if (overlaps_older(log, record))
		while (rc == 0 && log->oldest != record)
			rc = fth_crash_log_write_back_oldest(log, inside);
	if (rc == 0)
		rc = apply(record, inside);
	if (rc == 0)
		forget(log, record);
	return rc;
}

int fth_crash_log_write_back(struct fth_crash_log *log, const struct fth_crash_inside *inside,
			     bool completed_only)
{
	struct fth_crash_record *record = log->oldest, *next;
	int rc = 0;

	for (; record && rc == 0; record = next) {
		next = record->newer;
		/* Only those that are skipped here are still in the list as older ones. */
		if (!completed_only || !record->in_flight)
			rc = fth_crash_log_write_back_one(log, inside, record);
	}
	return rc;
}

/* ---- power loss ---- */

/*
 * Patch a random choice of the record's sectors into `chunk`, which holds `length` bytes of the
 * medium from `from` bytes into the record. Returns how many.
 */
static uint64_t tear_chunk(const struct fth_crash_record *record, uint64_t from, uint64_t length,
			   char *chunk, struct fth_rng *rng)
{
	uint64_t kept = 0;

	for (uint64_t at = 0; at < length; at += FTH_CRASH_SECTOR) {
		if (fth_rng_next(rng) & 1)
			continue;
		memcpy(chunk + at, record->data ? record->data + from + at : zero_sector,
		       FTH_CRASH_SECTOR);
		kept++;
	}
	return kept;
}

static int tear(struct fth_crash_log *log, const struct fth_crash_record *record,
		const struct fth_crash_inside *inside, struct fth_rng *rng, uint64_t *kept)
{
	uint64_t step = record->length < TORN_CHUNK ? record->length : TORN_CHUNK;
	void *chunk = fth_dev_memory_take(&log->memory, data_bytes(step));
	int rc = 0;

	*kept = 0;
	if (!chunk)
		return -ENOMEM;
	for (uint64_t from = 0; rc == 0 && from < record->length; from += step) {
		uint64_t n = record->length - from < step ? record->length - from : step;

		/* A block of the medium may be larger than a sector: hence read and write. */
		rc = fth_dev_read(inside->dev, chunk, n, record->offset + from, inside->deadline);
		if (rc < 0)
			break;
		*kept += tear_chunk(record, from, n, chunk, rng);
		rc = fth_dev_write(inside->dev, chunk, n, record->offset + from, inside->deadline);
	}
	fth_dev_memory_give(&log->memory, chunk, data_bytes(step));
	return rc;
}

/* One of three with equal chances: all of it, nothing of it, or some of its sectors. */
static int strike(struct fth_crash_log *log, const struct fth_crash_record *record,
		  const struct fth_crash_inside *inside, struct fth_rng *rng,
		  struct fth_crash_toll *toll)
{
	uint64_t chance = fth_rng_below(rng, 3), kept = 0;
	int rc = 0;

	if (chance == 0) {
		kept = sectors(record);
		rc = apply(record, inside);
	} else if (chance == 1) {
		rc = tear(log, record, inside, rng, &kept);
	}
	if (kept == 0)
		toll->vanished++;
	else if (kept == sectors(record))
		toll->survived++;
	else
		toll->torn++;
	return rc;
}

static struct fth_crash_record **shuffled(struct fth_crash_log *log, struct fth_rng *rng)
{
	struct fth_crash_record **list =
		fth_dev_memory_take(&log->memory, log->count * sizeof(list[0]));
	uint64_t n = 0;

	if (!list)
		return NULL;
	for (struct fth_crash_record *r = log->oldest; r; r = r->newer) {
		uint64_t at = fth_rng_below(rng, ++n);

		list[n - 1] = list[at];
		list[at] = r;
	}
	return list;
}

int fth_crash_log_power_loss(struct fth_crash_log *log, const struct fth_crash_inside *inside,
			     uint64_t seed, struct fth_crash_toll *toll)
{
	struct fth_rng rng = {fth_mix64(seed)};
	struct fth_crash_record **list = NULL;
	int rc = 0;

	if (log->count > 0) {
		list = shuffled(log, &rng);
		if (!list)
			rc = -ENOMEM;
	}
	for (uint64_t i = 0; rc == 0 && i < log->count; i++)
		rc = strike(log, list[i], inside, &rng, toll);
	fth_dev_memory_give(&log->memory, list, log->count * sizeof(list[0]));
	fth_crash_log_release(log);
	/* What survived is on the medium: it must not be lost to a crash device further inside. */
	return rc < 0 ? rc : fth_dev_flush(inside->dev, inside->deadline);
}
