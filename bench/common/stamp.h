/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks that know where they belong, so that a benchmark can tell right data from wrong without
 * paying for a checksum on every block.
 *
 * A block is FTH_STAMP_BLOCK bytes. Each sector of it begins with the block's address, its
 * generation and the number of its body, and all the rest follows from that number. A buffer is
 * filled with a body once; writing it somewhere only renews the stamps.
 */
#ifndef FTH_BENCH_STAMP_H
#define FTH_BENCH_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#define FTH_STAMP_BLOCK	  4096
#define FTH_STAMP_SECTOR  512
#define FTH_STAMP_SECTORS (FTH_STAMP_BLOCK / FTH_STAMP_SECTOR)

struct fth_stamp {
	uint64_t address;
	uint32_t generation;
	uint32_t body;
};

/* Fill a whole block, body and stamps. buf is aligned to 8 bytes, here and below. */
void fth_stamp_fill(void *buf, const struct fth_stamp *stamp);

/* Renew the stamps of a block that holds stamp->body already. */
void fth_stamp_renew(void *buf, const struct fth_stamp *stamp);

/* Make sure that a block that nobody writes to afterwards does not pass a check. */
void fth_stamp_spoil(void *buf);

/* Do the first and the last sector carry this address and generation? */
bool fth_stamp_ends_match(const void *buf, uint64_t address, uint32_t generation);

/* Is every byte of the block as it was made for this address and generation? */
bool fth_stamp_matches(const void *buf, uint64_t address, uint32_t generation);

#endif
