/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cache on a device:
 *
 *	0		superblock, and again at SUPER_AGAIN
 *	index_at	two areas for the index, written in turn
 *	log_at		chunks, a ring
 *
 * The log is addressed by positions that only grow: position p is byte p % (chunks * chunk) of the
 * ring, in the chunk with number p / chunk. Chunk number n lies where n - chunks did, which is gone
 * when n is opened. A chunk begins with a header; records follow, each at a multiple of KV_UNIT. A
 * record that is all there is known by its checksum, which is seeded with its position and with a
 * number of the cache's own: an old one in the same place does not verify.
 *
 * Headers of chunks, pads and the header of the index say how far the log was durable when they
 * were written, so that damage can be distinguished from the end of a log that a crash has cut off.
 *
 * Numbers are little-endian.
 */
#ifndef FTH_KV_FORMAT_H
#define FTH_KV_FORMAT_H

#include "fathom/base/checksum.h"

#include <stddef.h>
#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the medium is little-endian");

#define KV_SUPER_MAGIC "FTHKVC02" /* the last two digits are the version of the layout */
#define KV_SUPER_BYTES 4096u
#define KV_SUPER_AGAIN 65536u
#define KV_HEAD_BYTES  131072u /* before the index */
#define KV_CHUNK_MAGIC 0x4b4e5548434b5646u
#define KV_INDEX_MAGIC 0x5845444e494b5646u
#define KV_UNIT	       16u /* records begin at multiples of it */
/* An entry of the index has 48 bits of a position: enough for two rounds, to tell old from new. */
#define KV_RING_MAX	(UINT64_C(1) << 46)
#define KV_POSITION_MAX (UINT64_MAX / 4) /* far beyond what a device can take */

#define KV_SUPER_SEED 0x6b7673757065u
#define KV_CHUNK_SEED 0x6b766368756eu
#define KV_INDEX_SEED 0x6b76696e6478u

struct kv_super {
	uint8_t magic[8];
	uint64_t id; /* random; in every checksum */
	uint64_t chunk;
	uint64_t chunks;
	uint64_t index_items; /* entries that an area for the index has room for */
	uint64_t index_at;
	uint64_t index_bytes; /* of each of the two areas */
	uint64_t log_at;
	uint64_t persistent;   /* 0: nothing is to be found in it */
	uint64_t index_which;  /* area of the newest index: 0 or 1 */
	uint64_t index_number; /* 0: there is none */
	uint64_t sequence;     /* of the superblock; the higher one of the two counts */
	uint64_t flight;       /* chunks that may not have been durable when it ended */
	uint8_t zero[KV_SUPER_BYTES - 112];
	uint64_t checksum;
};
_Static_assert(sizeof(struct kv_super) == KV_SUPER_BYTES, "the medium's layout");

struct kv_chunk_header {
	uint64_t magic;
	uint64_t id;
	uint64_t number;
	uint64_t before;  /* position where the log ends before this chunk; 0: it is the first */
	uint64_t durable; /* position: all before it was durable when the chunk was opened */
	uint64_t checksum;
};
_Static_assert(sizeof(struct kv_chunk_header) == 48 && 48 % KV_UNIT == 0, "the medium's layout");

/*
 * An index on the device: this header, then pieces. A piece is KV_PIECE_BYTES of struct kv_entry,
 * in no order, and a block of KV_SUM_BYTES that begins with the checksum of the data. An entry says
 * by itself where it belongs in an index of any size. All of them lie before replay_from: if an
 * area has not enough room for all entries, replay_from is farther back, and the log has the
 * others.
 */
#define KV_PIECE_BYTES (1u << 20)
#define KV_SUM_BYTES   4096u

struct kv_index_header {
	uint64_t magic;
	uint64_t id;
	uint64_t number; /* as in the superblock that names it */
	uint64_t entries;
	uint64_t dropped;     /* the index has dropped items that the log still has */
	uint64_t replay_from; /* position: what the log says from there on is not in here */
	uint64_t next;	      /* number of the next chunk, if it was closed in good order */
	uint64_t clean;
	uint64_t cas;
	uint64_t flush_cas;
	uint64_t flush_before;
	uint64_t flush_when;
	uint64_t ends;	  /* position behind the last record of the log */
	uint64_t tail;	  /* the oldest position that may be read */
	uint64_t head;	  /* position where the log ended before the first entry was copied */
	uint64_t durable; /* position: all before it was durable */
	uint8_t zero[4096 - 136];
	uint64_t checksum;
};
_Static_assert(sizeof(struct kv_index_header) == 4096, "the medium's layout");

enum kv_type {
	KV_ITEM = 1,  /* key and value */
	KV_GONE = 2,  /* key: it was deleted */
	KV_FLUSH = 3, /* no key: items with numbers up to `cas` are gone, and those stored before
			 `stored`; and those stored before `expires` when that time has come */
	KV_PAD = 4, /* value_length bytes that mean nothing. `cas` is a position: all before it was
			 durable when the pad was written */
};

/* A record of the log, and an item in memory. Key and value follow. */
struct kv_record {
	uint32_t checksum; /* of all behind it */
	uint32_t value_length;
	uint8_t type;
	uint8_t key_length;
	uint16_t state; /* enum fth_kv_item_state */
	uint32_t flags;
	uint32_t expires;
	uint32_t stored; /* seconds since 1970 */
	uint64_t cas;
};
_Static_assert(sizeof(struct kv_record) == 32, "the medium's layout");

static inline uint64_t kv_record_bytes(const struct kv_record *r)
{
	return sizeof(*r) + r->key_length + (uint64_t)r->value_length;
}

static inline uint64_t kv_round(uint64_t bytes)
{
	return (bytes + KV_UNIT - 1) / KV_UNIT * KV_UNIT;
}

static inline const uint8_t *kv_record_key(const struct kv_record *r)
{
	return (const uint8_t *)(r + 1);
}

static inline const uint8_t *kv_record_value(const struct kv_record *r)
{
	return (const uint8_t *)(r + 1) + r->key_length;
}

static inline uint32_t kv_record_sum(const struct kv_record *r, uint64_t id, uint64_t position)
{
	/* The padding of a KV_PAD is not read. */
	uint64_t bytes = r->type == KV_PAD ? sizeof(*r) : kv_record_bytes(r);

	return (uint32_t)fth_checksum((const uint8_t *)r + sizeof(r->checksum),
				      bytes - sizeof(r->checksum), id ^ position);
}

#endif
