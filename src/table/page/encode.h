/* SPDX-License-Identifier: BSD-2-Clause */
/* Encoding the columns of a group into chunks. */
#ifndef TABLE_ENCODE_H
#define TABLE_ENCODE_H

#include "table/page/dict.h"
#include "table/format.h"
#include "table/write/row_group.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. A failed allocation stays: image_ok() at the end. */
struct image {
	unsigned char *bytes;
	size_t length, room;
	bool failed;
};

/* Add n bytes, zeroed, at a multiple of `align` of the image; NULL if there is no memory. */
unsigned char *image_add(struct image *image, size_t n, size_t align);

/* The dictionary of a column while a table is written. */
struct shared_dict {
	pthread_rwlock_t lock;
	bool on; /* does not change once groups are encoded */
	struct dict dict;
};

/* What a thread needs to encode. */
struct encoder {
	struct image image; /* of the group */
	int64_t *numbers;   /* as many as a group has rows, each */
	int64_t *lengths;
	struct dict local;
	uint32_t *order;      /* codes of the local dictionary, sorted */
	void *lz4;	      /* state */
	unsigned compression; /* 0: none */
	uint8_t sketch[SKETCH_REGISTERS];
};

/* compression: 0 none, 1 fast, more LZ4 HC. -ENOMEM. */
int encoder_init(struct encoder *e, unsigned compression, uint32_t rows);
void encoder_release(struct encoder *e);

/* What is learned about a column of a group. */
struct chunk_notes {
	uint32_t max_length;
	uint64_t string_bytes;
	int64_t min, max;
};

/*
 * Encode a column at the end of the image, at a multiple of CHUNK_ALIGN. chunk->offset is where,
 * from the beginning of the image. Adds the values to e->sketch. Returns 0 or -ENOMEM.
 */
int encode_column(struct encoder *e, struct group_column *column, uint32_t rows,
		  struct shared_dict *dict, struct fth_table_chunk *chunk,
		  struct chunk_notes *notes);

/* Its parts: encode_text.c has the second. */
int encode_ints(struct encoder *e, struct group_column *column, int64_t *values, uint32_t rows,
		struct fth_table_chunk *chunk);
int encode_strings(struct encoder *e, struct group_column *column, uint32_t rows,
		   struct shared_dict *dict, struct fth_table_chunk *chunk,
		   struct chunk_notes *notes);

/* Begin a chunk: header and nulls. Finish it: the head is what was added since. */
size_t chunk_begin(struct encoder *e, const struct group_column *column, uint32_t rows,
		   enum fth_table_encoding encoding, struct fth_table_chunk *chunk);
void chunk_finish(struct encoder *e, size_t start, uint32_t count, struct fth_table_chunk *chunk);

/* Set the checksum of a chunk's head, once its place is known. */
void chunk_seal(unsigned char *head, const struct fth_table_chunk *chunk, uint64_t table_id,
		uint32_t column);

#endif
