/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between the catalog in memory and the bytes on the media.
 *
 * The reader believes nothing: a checksum only says that the bytes are those that somebody wrote.
 * What it lets through can be used without another look:
 *
 * 1. Names are names, no two are the same, and they are in order.
 * 2. Each object has room for its size, and a good replica of every byte.
 * 3. Each extent lies inside the data area of a device of the volume, and no two share a byte.
 * 4. No two objects have the same id, and the next one to be given is none of them.
 */
#include "vol/catalog/catalog.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CATALOG_SEED UINT64_C(0x636174616c6f6776)
#define DIGEST_SEED  UINT64_C(0x646967657374766f)
#define ROWS_MAX     ((uint64_t)1 << 54)

void vol_fault(struct vol_judge *judge, enum fth_vol_finding_kind kind, const char *format, ...)
{
	char text[sizeof(judge->first)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (judge->faults++ == 0)
		memcpy(judge->first, text, sizeof(text));
	if (judge->report)
		judge->report(judge->user, kind, text);
}

/* ---- writing ---- */

static size_t padded(size_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

static uint64_t record_bytes(const struct vol_entry *entry)
{
	return sizeof(struct vol_record) +
	       (uint64_t)entry->segments * (1 + vol_strands(entry)) * sizeof(uint64_t) +
	       padded(strlen(entry->name));
}

uint64_t vol_catalog_bytes(const struct vol_catalog *cat)
{
	uint64_t bytes = sizeof(struct vol_catalog_head);

	for (unsigned i = 0; i < cat->count; i++)
		bytes += record_bytes(cat->entries[i]);
	return bytes;
}

static char *write_record(const struct vol_entry *entry, char *to)
{
	size_t name_bytes = strlen(entry->name), strands = vol_strands(entry);
	struct vol_record record = {
		.bytes = (uint32_t)record_bytes(entry),
		.name_bytes = (uint16_t)name_bytes,
		.width = (uint8_t)entry->width,
		.replicas = (uint8_t)entry->replicas,
		.id = entry->id,
		.size = entry->size,
		.stale = entry->stale,
		.unit = entry->unit,
		.segments = entry->segments,
		.first = (uint8_t)entry->first,
		.flags = (uint8_t)entry->flags,
	};
	char *end = to + record.bytes;

	memset(to, 0, record.bytes);
	memcpy(to, &record, sizeof(record));
	to += sizeof(record);
	for (unsigned i = 0; i < entry->segments; i++) {
		memcpy(to, &entry->rows[i], sizeof(uint64_t));
		to += sizeof(uint64_t);
		memcpy(to, entry->at + i * strands, strands * sizeof(uint64_t));
		to += strands * sizeof(uint64_t);
	}
	memcpy(to, entry->name, name_bytes);
	return end;
}

void vol_catalog_write(const struct vol_catalog *cat, const struct vol_space *space, char *buf)
{
	struct vol_catalog_head head = {
		.version = VOL_VERSION,
		.objects = cat->count,
		.sequence = cat->sequence,
		.bytes = vol_catalog_bytes(cat),
		.previous = cat->previous,
		.behind = cat->behind,
		.next_id = cat->next_id,
	};
	char *to = buf + sizeof(head);

	memcpy(head.magic, VOL_CATALOG_MAGIC, sizeof(head.magic));
	memcpy(head.uuid, space->uuid, sizeof(head.uuid));
	memcpy(buf, &head, sizeof(head));
	for (unsigned i = 0; i < cat->count; i++)
		to = write_record(cat->entries[i], to);
}

/* The checksum field lies in the middle of the bytes: the two parts are chained. */
static uint64_t sum(const char *buf, uint64_t bytes, uint64_t seed)
{
	struct vol_catalog_head head;

	memcpy(&head, buf, sizeof(head));
	head.checksum = 0;
	return fth_checksum(buf + sizeof(head), bytes - sizeof(head),
			    fth_checksum(&head, sizeof(head), seed));
}

uint64_t vol_catalog_digest(const char *buf, uint64_t bytes)
{
	return sum(buf, bytes, DIGEST_SEED);
}

uint64_t vol_catalog_checksum(const char *buf, uint64_t bytes, unsigned device, unsigned slot)
{
	return sum(buf, bytes, CATALOG_SEED + fth_mix64(device * VOL_SLOTS + slot + 1));
}

/* ---- reading ---- */

struct reader {
	const struct vol_space *space;
	struct vol_judge *judge;
	struct vol_catalog *cat;
	const char *at;
	uint64_t left;
};

static bool power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* What is needed to know how long a record is. Without it nothing behind it can be found. */
static bool shape_holds(struct reader *r, const struct vol_record *record, unsigned number)
{
	uint64_t segment = (1 + (uint64_t)record->width * record->replicas) * sizeof(uint64_t);

	if (record->width == 0 || record->width > r->space->count || record->replicas == 0 ||
	    record->replicas > r->space->count) {
		vol_fault(r->judge, FTH_VOL_F_OBJECT,
			  "object %u: %u columns of %u replicas on %u devices", number,
			  record->width, record->replicas, r->space->count);
		return false;
	}
	if (record->bytes > r->left || record->segments > r->left / segment ||
	    record->bytes !=
		    sizeof(*record) + record->segments * segment + padded(record->name_bytes)) {
		vol_fault(r->judge, FTH_VOL_F_CATALOG,
			  "object %u: a record of %u bytes for %u segments and a name of %u",
			  number, record->bytes, record->segments, record->name_bytes);
		return false;
	}
	return true;
}

static void judge_name(struct reader *r, const struct vol_record *record, const char *name,
		       struct vol_entry *entry, unsigned number)
{
	const char *before = r->cat->count ? r->cat->entries[r->cat->count - 1]->name : "";

	if (memchr(name, 0, record->name_bytes) || vol_name_check(name, record->name_bytes) < 0) {
		vol_fault(r->judge, FTH_VOL_F_NAME, "object %u has no valid name", number);
		memcpy(entry->name, before, strlen(before) + 1); /* so that the next is judged */
		return;
	}
	memcpy(entry->name, name, record->name_bytes);
	if (r->cat->count && strcmp(before, entry->name) == 0)
		vol_fault(r->judge, FTH_VOL_F_NAME, "there are two objects \"%s\"", entry->name);
	else if (r->cat->count && strcmp(before, entry->name) > 0)
		vol_fault(r->judge, FTH_VOL_F_NAME, "\"%s\" is out of order", entry->name);
}

static void judge_object(struct reader *r, const struct vol_entry *entry)
{
	uint64_t all = r->space->count == 64 ? UINT64_MAX : ((uint64_t)1 << r->space->count) - 1;

	if (!power_of_two(entry->unit) || entry->unit < r->space->block ||
	    entry->unit > FTH_VOL_UNIT_MAX)
		vol_fault(r->judge, FTH_VOL_F_OBJECT, "\"%s\": a stripe unit of %u bytes",
			  entry->name, entry->unit);
	if (entry->first >= r->space->count)
		vol_fault(r->judge, FTH_VOL_F_OBJECT, "\"%s\" begins on device %u of %u",
			  entry->name, entry->first, r->space->count);
	if (entry->flags & ~VOL_OBJECT_UNSYNCED)
		vol_fault(r->judge, FTH_VOL_F_OBJECT, "\"%s\": unknown flags 0x%x", entry->name,
			  entry->flags);
	if (entry->id == 0 || entry->id >= r->cat->next_id)
		vol_fault(r->judge, FTH_VOL_F_OBJECT, "\"%s\": id %llu, the next one is %llu",
			  entry->name, (unsigned long long)entry->id,
			  (unsigned long long)r->cat->next_id);
	if (entry->stale & ~all || !vol_entry_survives(entry, entry->stale, r->space->count))
		vol_fault(r->judge, FTH_VOL_F_OBJECT, "\"%s\" has no good replica (stale 0x%llx)",
			  entry->name, (unsigned long long)entry->stale);
}

static void judge_extent(struct reader *r, const struct vol_entry *entry, unsigned segment,
			 unsigned strand)
{
	unsigned device = vol_strand_device(entry, strand, r->space->count);
	uint64_t start = r->space->device[device].start, end = r->space->device[device].end;
	uint64_t at = entry->at[(size_t)segment * vol_strands(entry) + strand];
	uint64_t bytes = vol_rows_bytes(entry, entry->rows[segment]);

	if (at % VOL_GRAIN || at < start || at > end || bytes > end - at)
		vol_fault(r->judge, FTH_VOL_F_EXTENT,
			  "\"%s\": %llu bytes at %llu of device %u, whose data is %llu to %llu",
			  entry->name, (unsigned long long)bytes, (unsigned long long)at, device,
			  (unsigned long long)start, (unsigned long long)end);
}

static void judge_segments(struct reader *r, const struct vol_entry *entry)
{
	uint64_t held = 0;

	for (unsigned i = 0; i < entry->segments; i++) {
		if (entry->rows[i] == 0 || entry->rows[i] > ROWS_MAX / entry->unit ||
		    held > ROWS_MAX) {
			vol_fault(r->judge, FTH_VOL_F_EXTENT, "\"%s\": a segment of %llu rows",
				  entry->name, (unsigned long long)entry->rows[i]);
			return;
		}
		held += entry->rows[i];
		for (unsigned s = 0; s < vol_strands(entry); s++)
			judge_extent(r, entry, i, s);
	}
	if (vol_rows_needed(entry, entry->size) > held)
		vol_fault(r->judge, FTH_VOL_F_OBJECT, "\"%s\": %llu bytes in %llu rows of %u",
			  entry->name, (unsigned long long)entry->size, (unsigned long long)held,
			  entry->unit * entry->width);
}

/* One record, into the catalog. 0, 1 when nothing behind it can be read, or -ENOMEM. */
static int read_record(struct reader *r, unsigned number)
{
	struct vol_record record;
	struct vol_entry *entry;
	const char *from;

	if (r->left < sizeof(record)) {
		vol_fault(r->judge, FTH_VOL_F_CATALOG, "the catalog ends within object %u", number);
		return 1;
	}
	memcpy(&record, r->at, sizeof(record));
	if (!shape_holds(r, &record, number))
		return 1;
	entry = vol_entry_new(record.width, record.replicas, record.segments);
	if (!entry)
		return -ENOMEM;
	entry->id = record.id;
	entry->size = record.size;
	entry->stale = record.stale;
	entry->unit = record.unit;
	entry->first = record.first;
	entry->flags = record.flags;
	from = r->at + sizeof(record);
	for (unsigned i = 0; i < record.segments; i++) {
		size_t bytes = vol_strands(entry) * sizeof(uint64_t);

		memcpy(&entry->rows[i], from, sizeof(uint64_t));
		memcpy(entry->at + (size_t)i * vol_strands(entry), from + sizeof(uint64_t), bytes);
		from += sizeof(uint64_t) + bytes;
	}
	judge_name(r, &record, from, entry, number);
	r->cat->entries[r->cat->count++] = entry;
	judge_object(r, entry);
	if (power_of_two(entry->unit) && entry->unit <= FTH_VOL_UNIT_MAX &&
	    entry->first < r->space->count)
		judge_segments(r, entry);
	r->at += record.bytes;
	r->left -= record.bytes;
	return 0;
}

/* ---- what two objects must not share ---- */

struct extent {
	unsigned device;
	uint64_t start, end;
	const struct vol_entry *entry;
};

static int by_place(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static int judge_overlaps(struct reader *r)
{
	size_t total = 0, n = 0;
	struct extent *list;

	for (unsigned i = 0; i < r->cat->count; i++)
		total += (size_t)r->cat->entries[i]->segments * vol_strands(r->cat->entries[i]);
	list = calloc(total + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (unsigned i = 0; i < r->cat->count; i++) {
		const struct vol_entry *e = r->cat->entries[i];

		for (size_t k = 0; k < (size_t)e->segments * vol_strands(e); k++) {
			unsigned strand = (unsigned)(k % vol_strands(e));
			uint64_t bytes = vol_rows_bytes(e, e->rows[k / vol_strands(e)]);

			list[n++] = (struct extent){vol_strand_device(e, strand, r->space->count),
						    e->at[k], e->at[k] + bytes, e};
		}
	}
	qsort(list, n, sizeof(*list), by_place);
	for (size_t i = 1; i < n; i++)
		if (list[i].device == list[i - 1].device && list[i].start < list[i - 1].end)
			vol_fault(r->judge, FTH_VOL_F_OVERLAP,
				  "\"%s\" and \"%s\" share bytes at %llu of device %u",
				  list[i - 1].entry->name, list[i].entry->name,
				  (unsigned long long)list[i].start, list[i].device);
	free(list);
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int judge_ids(struct reader *r)
{
	uint64_t *ids = calloc(r->cat->count + 1, sizeof(*ids));

	if (!ids)
		return -ENOMEM;
	for (unsigned i = 0; i < r->cat->count; i++)
		ids[i] = r->cat->entries[i]->id;
	qsort(ids, r->cat->count, sizeof(*ids), by_number);
	for (unsigned i = 1; i < r->cat->count; i++)
		if (ids[i] == ids[i - 1])
			vol_fault(r->judge, FTH_VOL_F_OBJECT, "two objects have the id %llu",
				  (unsigned long long)ids[i]);
	free(ids);
	return 0;
}

static int read_all(struct reader *r, const struct vol_catalog_head *head)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < head->objects; i++)
		rc = read_record(r, i);
	if (rc == 0 && r->left > 0)
		vol_fault(r->judge, FTH_VOL_F_CATALOG, "%llu bytes behind the last object",
			  (unsigned long long)r->left);
	if (rc >= 0)
		rc = judge_ids(r);
	/* Overlaps are looked for among extents that can be, so that sums do not overflow. */
	if (rc == 0 && r->judge->faults == 0)
		rc = judge_overlaps(r);
	return rc;
}

int vol_catalog_parse(const char *buf, uint64_t bytes, const struct vol_space *space,
		      struct vol_judge *judge, struct vol_catalog *out)
{
	struct vol_catalog_head head;
	struct reader r = {.space = space, .judge = judge, .cat = out};
	unsigned before = judge->faults;
	int rc;

	memcpy(&head, buf, sizeof(head));
	*out = (struct vol_catalog){.sequence = head.sequence,
				    .previous = head.previous,
				    .behind = head.behind,
				    .next_id = head.next_id,
				    .digest = vol_catalog_digest(buf, bytes)};
	r.at = buf + sizeof(head);
	r.left = bytes - sizeof(head);
	if (head.sequence == 0 || head.sequence >> 63 || head.next_id == 0 || head.next_id >> 63)
		vol_fault(judge, FTH_VOL_F_CATALOG, "update %llu, next id %llu",
			  (unsigned long long)head.sequence, (unsigned long long)head.next_id);
	if (head.objects > r.left / sizeof(struct vol_record)) {
		vol_fault(judge, FTH_VOL_F_CATALOG, "%u objects in %llu bytes", head.objects,
			  (unsigned long long)bytes);
		return fth_fail(EBADMSG, "%s", judge->first);
	}
	out->entries = calloc(head.objects + 1, sizeof(*out->entries));
	rc = out->entries ? read_all(&r, &head) : -ENOMEM;
	if (rc == 0 && judge->faults == before)
		return 0;
	vol_catalog_release(out);
	return rc < 0 ? rc : fth_fail(EBADMSG, "%s", judge->first);
}
