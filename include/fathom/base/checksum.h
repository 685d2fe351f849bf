/* SPDX-License-Identifier: BSD-2-Clause */
/* Checksums of data at rest: XXH3, 64 bits. Fast, well spread, not cryptographic. */
#ifndef FATHOM_BASE_CHECKSUM_H
#define FATHOM_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "fathom/base/decls.h"

FTH_BEGIN_DECLS

/*
 * The checksum of len bytes. Give each kind of structure its own seed (and mix in the address it
 * lives at), so that a valid block in the wrong place does not verify.
 */
uint64_t fth_checksum(const void *data, size_t len, uint64_t seed);

FTH_END_DECLS
#endif
