/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bytes with a durable copy, for programs that make small changes durable: a region of plain
 * pointers (fathom/flat.h), whose changes are made durable byte by byte; or its twin, a copy of a
 * device in memory, whose changes are made durable by writing whole blocks of 4096 bytes and a
 * flush. The names (names.h) run on either, so that the two ways can be compared.
 */
#ifndef FTH_WORKLOADS_DURABLE_H
#define FTH_WORKLOADS_DURABLE_H

#include <stdint.h>

#include "fathom/base/decls.h"
#include "fathom/dev.h"
#include "fathom/flat.h"

FTH_BEGIN_DECLS

struct fth_durable;

#define FTH_DURABLE_BLOCK 4096u

/*
 * All of a region, which is marked as persistent. The caller closes the region afterwards. Returns
 * 0, -EROFS or -ENOMEM.
 */
int fth_durable_open_flat(struct fth_flat *flat, struct fth_durable **out);

/*
 * A device of at most 1 GiB, read into memory; its blocks are at most 4096 bytes. The caller closes
 * it afterwards. Returns 0, -EINVAL, -ENOMEM or the error of the device.
 */
int fth_durable_open_blocks(struct fth_dev *dev, struct fth_durable **out);

/* Close without making stores durable. Accepts NULL. */
void fth_durable_close(struct fth_durable *durable);

/* The size in bytes. Any thread. */
uint64_t fth_durable_size(const struct fth_durable *durable);

/*
 * Copy from and to it. Any thread; does not wait for I/O where the bytes are in memory. Return 0,
 * -ERANGE or the error of the device.
 */
int fth_durable_load(struct fth_durable *durable, uint64_t at, void *to, uint64_t length);
int fth_durable_store(struct fth_durable *durable, uint64_t at, const void *from, uint64_t length);

/*
 * Make the stores to [at, at + length) durable. Other stores to the same blocks may become durable
 * too. Any thread. Blocks. Returns 0, -ERANGE, or the error of the device.
 */
int fth_durable_persist(struct fth_durable *durable, uint64_t at, uint64_t length);

/* Bytes passed to fth_durable_persist(). Any thread. */
uint64_t fth_durable_asked(const struct fth_durable *durable);

FTH_END_DECLS
#endif
