/* SPDX-License-Identifier: BSD-2-Clause */
/* The catalog in memory, and between memory and the form it has on the media. */
#ifndef FTH_VOL_CATALOG_H
#define FTH_VOL_CATALOG_H

#include "fathom/vol.h"

#include "vol/catalog/media.h"

/*
 * An object. Never changed once it is in a catalog: updates put a changed copy in its place.
 *
 * Bytes are cut into stripe units. Unit u lies in column u % width, row u / width. Each column is
 * kept `replicas` times; such a copy of a column is a strand, number column * replicas + replica,
 * and lies on device (first + column + replica) % devices. A segment is a run of rows: each strand
 * has that many rows of it, one behind the other.
 */
struct vol_entry {
	char name[FTH_VOL_NAME_MAX + 1];
	uint64_t id, size, stale;
	uint32_t unit, width, replicas, first, flags;
	uint32_t segments;
	uint64_t *rows; /* [segment] */
	uint64_t *at;	/* [segment * strands + strand] */
};

struct vol_catalog {
	struct vol_entry **entries; /* in the order of their names; owned */
	unsigned count;
	uint64_t sequence, previous, behind, next_id;
	uint64_t digest; /* of what is on the media, wherever it lies */
};

/* What a catalog is checked against: the labels, in order. */
struct vol_space {
	uint8_t uuid[16];
	unsigned count;
	uint32_t block;
	uint64_t slot_bytes;
	struct {
		uint64_t start, end; /* of the data */
	} device[FTH_VOL_DEVICES_MAX];
};

/* Keeps the first fault, and tells of all to whoever wants to know. Zero-initialise. */
struct vol_judge {
	void (*report)(void *user, enum fth_vol_finding_kind kind, const char *text); /* or NULL */
	void *user;
	unsigned faults;
	char first[256];
};
void vol_fault(struct vol_judge *judge, enum fth_vol_finding_kind kind, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* ---- entries ---- */

struct vol_entry *vol_entry_new(uint32_t width, uint32_t replicas, uint32_t segments);
struct vol_entry *vol_entry_clone(const struct vol_entry *entry);
void vol_entry_free(struct vol_entry *entry);
/* Add one segment of no rows; what strand s of it has for an offset is *(return + s). */
uint64_t *vol_entry_add_segment(struct vol_entry *entry);

static inline unsigned vol_strands(const struct vol_entry *entry)
{
	return entry->width * entry->replicas;
}

static inline unsigned vol_strand_device(const struct vol_entry *entry, unsigned strand,
					 unsigned devices)
{
	return (entry->first + strand / entry->replicas + strand % entry->replicas) % devices;
}

/* Whole grains that `rows` rows of one strand take up. */
static inline uint64_t vol_rows_bytes(const struct vol_entry *entry, uint64_t rows)
{
	return (rows * entry->unit + VOL_GRAIN - 1) / VOL_GRAIN * VOL_GRAIN;
}

/* Rows that an object of `size` bytes needs. */
uint64_t vol_rows_needed(const struct vol_entry *entry, uint64_t size);
uint64_t vol_rows_held(const struct vol_entry *entry);

/* With the devices in `gone` out of date or missing, is there a good replica of every column? */
bool vol_entry_survives(const struct vol_entry *entry, uint64_t gone, unsigned devices);

/* 0 or -EINVAL with a text. */
int vol_name_check(const char *name, size_t bytes);

/* ---- the catalog ---- */

/* The entry called name, or NULL; *at is where it is or would be. */
struct vol_entry *vol_catalog_find(const struct vol_catalog *cat, const char *name, unsigned *at);

/*
 * A changed catalog: without `drop` (or NULL) and with `add` (or NULL). It shares the other entries
 * with cat: of the two one must be given to vol_catalog_forget(), which leaves entries alone.
 */
int vol_catalog_change(const struct vol_catalog *cat, const struct vol_entry *drop,
		       struct vol_entry *add, struct vol_catalog *out);
void vol_catalog_forget(struct vol_catalog *cat);
void vol_catalog_release(struct vol_catalog *cat);

/* ---- on the media ---- */

uint64_t vol_catalog_bytes(const struct vol_catalog *cat);

/* Fill buf, vol_catalog_bytes() long and a multiple of 8, except for the checksum. */
void vol_catalog_write(const struct vol_catalog *cat, const struct vol_space *space, char *buf);

/* What identifies its contents, wherever it lies. buf: without a checksum. */
uint64_t vol_catalog_digest(const char *buf, uint64_t bytes);
uint64_t vol_catalog_checksum(const char *buf, uint64_t bytes, unsigned device, unsigned slot);

/*
 * From bytes whose checksum holds. 0 and a catalog whose every entry can be used; or an error:
 * -EBADMSG with the first fault as its text. The judge hears of all of them.
 */
int vol_catalog_parse(const char *buf, uint64_t bytes, const struct vol_space *space,
		      struct vol_judge *judge, struct vol_catalog *out);

#endif
