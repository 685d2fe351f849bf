/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is on the media. README.md draws it. All numbers are little-endian; what is reserved is
 * zero. A checksum is the last field of its structure, computed with the field itself as zero, and
 * seeded with what it is and where it lies, so that a copy in the wrong place does not verify.
 */
#ifndef FTH_VOL_MEDIA_H
#define FTH_VOL_MEDIA_H

#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the structures below are used as they lie on the media: little-endian"
#endif

#define VOL_VERSION	 2u    /* 1 had no quorum */
#define VOL_AREA	 4096u /* bytes set aside for a copy of the label */
#define VOL_GRAIN	 4096u /* extents begin at, and take up, whole grains */
#define VOL_BLOCK_MIN	 512u
#define VOL_BLOCK_MAX	 4096u
#define VOL_SLOTS	 2u
#define VOL_SLOT_MIN	 (16u << 10)
#define VOL_SLOT_MAX	 (1u << 30)
#define VOL_UNIT_DEFAULT (64u << 10)

#define VOL_LABEL_MAGIC	  "FTHVOLUM"
#define VOL_CATALOG_MAGIC "FTHCATLG"

/* In the first bytes of the device, and again in its last grain. Never changes once written. */
struct vol_label {
	char magic[8];
	uint32_t version;
	uint32_t bytes; /* of this structure */
	uint8_t uuid[16];
	uint32_t index, count; /* which device of how many */
	uint64_t size;	       /* bytes of the device that the volume uses */
	uint32_t block;
	uint32_t unit, replicas; /* defaults of new objects */
	uint32_t copy;		 /* 0 at the start, 1 at the end */
	uint64_t slot_bytes;	 /* of one catalog slot; they lie behind label copy 0 */
	uint64_t data_start, data_end;
	uint32_t quorum; /* devices that hold an update before it is acknowledged */
	uint8_t reserved[412];
	uint64_t checksum; /* at the same place in every version, as are magic and version */
};
_Static_assert(sizeof(struct vol_label) == 512, "label");

/* Begins a catalog slot; `objects` records follow. */
struct vol_catalog_head {
	char magic[8];
	uint32_t version;
	uint32_t objects;
	uint8_t uuid[16];
	uint64_t sequence;
	uint64_t bytes;	   /* of this and all records */
	uint64_t previous; /* the digest of the catalog that this one replaced */
	uint64_t behind;   /* bit i: when it was written, device i did not hold that one */
	uint64_t next_id;
	uint64_t reserved[6];
	uint64_t checksum; /* over all `bytes` */
};
_Static_assert(sizeof(struct vol_catalog_head) == 128, "catalog head");

#define VOL_OBJECT_UNSYNCED 1u

/*
 * One object. Behind it, for each segment, its rows and then the offset of each of its width *
 * replicas strands, all 64 bits; then the name, filled up with zeroes to whole 8 bytes. Records are
 * in the order of their names.
 */
struct vol_record {
	uint32_t bytes; /* with all that follows it */
	uint16_t name_bytes;
	uint8_t width, replicas;
	uint64_t id;
	uint64_t size;
	uint64_t stale; /* bit i: what device i holds of it is out of date */
	uint32_t unit;
	uint32_t segments;
	uint8_t first; /* column 0, replica 0 is on this device */
	uint8_t flags; /* VOL_OBJECT_ */
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct vol_record) == 48, "record");

#endif
