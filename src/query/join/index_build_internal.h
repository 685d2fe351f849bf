/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The builder, shared by taking rows in (index_build.c) and making the structure (index_finish.c).
 */
#ifndef FTH_QUERY_INDEX_BUILD_INTERNAL_H
#define FTH_QUERY_INDEX_BUILD_INTERNAL_H

#include <stdatomic.h>

#include "query/join/index_build.h"
#include "query/join/index_internal.h"

#define BUILD_TEXT_BITS	   32u		/* of a string's number in a chunk, if nothing is known */
#define BUILD_STRINGS_MAX  4096u	/* that a map whose records stay where they are may have */
#define BUILD_HASH_BYTES   16u		/* of a key in a hash table, about */
#define BUILD_SMALL_BITMAP (256u << 10) /* is not worth saving ... */
#define BUILD_CACHE_BITMAP (1u << 20) /* ... nor is this, of what is built once for a whole query */

struct chunk {
	struct chunk *next;
	unsigned n;
	uint64_t *numbers;
	char *records;
};

struct build {
	struct fth_qmem *mem; /* of the builder itself */
	struct fth_qmem *own; /* of chunks and the index: at most spec.room */
	struct index *index;
	struct pack pack; /* of records in chunks */
	struct pack_field *fields;
	unsigned columns;
	uint64_t strings;    /* there are at most so many; UINT64_MAX: not known */
	unsigned chunk_rows; /* rows of a chunk */
	bool at_once;	     /* a set whose bits are set as rows come */
	bool in_place;	     /* a map whose records are written where they stay */
	bool ranked;	     /* likewise, after a first run over the rows ... */
	bool counting;	     /* ... which this is: see rank_map.c */
	pthread_mutex_t lock;
	struct build_writer *writers; /* under lock */
	struct chunk *chunks;	      /* of writers that are closed; under lock */
	_Atomic uint64_t to;
	_Atomic uint64_t bytes;
	atomic_bool any, nulls; /* a row was appended; one with a null key */
	/* finishing */
	_Atomic(struct chunk *) next; /* to be visited */
	uint64_t least, most;	      /* of the numbers */
	bool without_filter;	      /* of a hash table: there was no memory for all of it */
};

/* Whether a bitmap of so many bytes is better than a hash table of so many rows. */
bool build_prefers_bitmap(const struct build *b, uint64_t bytes, double rows);
/* The bytes of a bitmap over the numbers [lo, hi], with ranks; UINT64_MAX: impossible. */
uint64_t build_bitmap_bytes(const struct build *b, uint64_t lo, uint64_t hi);
int build_init_bitmap(struct build *b, uint64_t lo, uint64_t hi);
/* Hold a smaller range than up to `seen`, unless that was done already. Returns 0 or -ENOMEM. */
int build_narrow(struct build *b, uint64_t seen);
/*
 * rank_map.c. Whether a map of the numbers [from, last] is made by rank, if chunks of its rows take
 * so many bytes; the room that it needs; begin to make it: -ENOMEM leaves the build as it was.
 */
bool rank_chosen(const struct build *b, uint64_t from, uint64_t last, double rows, double chunks);
double rank_need(const struct build *b, double rows);
int rank_open(struct build *b, uint64_t last);
/* Drop the rows of a list of chunks whose number is above `to`. */
struct chunk *build_compact(struct build *b, struct chunk *list, uint64_t to);
void build_free_chunks(struct build *b, struct chunk *c);

#endif
