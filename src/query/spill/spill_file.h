/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Spill files: streams of records on a scratch device, for what does not fit into memory. A stream
 * is written once, in blocks with a checksum each, read any number of times, and dropped; its
 * blocks are free then and discarded on the device. Records may be longer than a block.
 *
 *	spill_file_open_folder(mem, "/var/tmp", limit, &spill);
 *	spill_stream_open(spill, &stream);
 *	spill_stream_append(stream, record, size);
 *	spill_stream_finish(stream);
 *	spill_reader_open(stream, &reader);
 *	while ((rc = spill_reader_next(reader, &record, &size)) > 0) ...
 *
 * The scratch file has no name once it is open: its space is released when the process ends,
 * however it ends. A spill is shared by threads; a stream and a reader belong to one thread at a
 * time. All calls may block.
 */
#ifndef FTH_QUERY_SPILL_FILE_H
#define FTH_QUERY_SPILL_FILE_H

#include <stdatomic.h>

#include "query/mem/qmem.h"

#include "fathom/dev.h"

/* Bytes of a block: a power of two, 128 KiB unless memory is short. */
#define FTH_SPILL_BLOCK	    (128u << 10)
#define FTH_SPILL_BLOCK_MIN (8u << 10)
/* The largest record. */
#define FTH_SPILL_RECORD (1u << 30)

struct spill_file;
struct spill_stream;
struct spill_reader;

/*
 * On a device, all of it from now on; the caller closes it after the spill. On a folder: a file of
 * at most `limit` bytes that is removed at once, with blocks whose size suits the memory that is
 * available, at most 2^19 of them. Returns 0 or a negative errno.
 */
int spill_file_open(struct fth_qmem *mem, struct fth_dev *dev, uint32_t block,
		    struct spill_file **out);
int spill_file_open_folder(struct fth_qmem *mem, const char *folder, uint64_t limit,
			   struct spill_file **out);
/* The size of blocks that suits the memory that is available. */
uint32_t spill_file_block_for(struct fth_qmem *mem);
/* All streams must be dropped before. Accepts NULL. */
void spill_file_close(struct spill_file *spill);
/*
 * Reads and writes of blocks return -ECANCELED once one of these flags is true; either may be NULL.
 * Call it before the first stream is opened.
 */
void spill_file_cancel_by(struct spill_file *spill, const atomic_bool *const flags[2]);
/* Blocks in use now, and bytes ever written. */
uint64_t spill_file_blocks(struct spill_file *spill);
uint64_t spill_file_written(struct spill_file *spill);

/* Bytes of a block, and the account that buffers come from. */
uint32_t spill_file_block(const struct spill_file *spill);
struct fth_qmem *spill_file_mem(const struct spill_file *spill);

/* The memory of a reader. */
uint64_t spill_reader_bound(const struct spill_file *spill);

int spill_stream_open(struct spill_file *spill, struct spill_stream **out);
/*
 * Returns 0; -ENOSPC if the device or the limit is full, -EMSGSIZE for a record that is too long,
 * -ECANCELED, or the error of the device. After an error the stream can only be dropped.
 */
int spill_stream_append(struct spill_stream *s, const void *record, uint32_t size);
/* Write what is left and give back the buffer. Nothing can be appended any more. */
int spill_stream_finish(struct spill_stream *s);
/* Give back its blocks. Accepts NULL. */
void spill_stream_drop(struct spill_stream *s);

/* Read a finished stream from its start. Close readers before the stream is dropped. */
int spill_reader_open(struct spill_stream *s, struct spill_reader **out);
/*
 * Returns 1 and a record, valid until the next call; 0 at the end; -EILSEQ if a block is not as it
 * was written; -ECANCELED; or the error of the device.
 */
int spill_reader_next(struct spill_reader *r, const void **record, uint32_t *size);
void spill_reader_close(struct spill_reader *r);

#endif
