/* SPDX-License-Identifier: BSD-2-Clause */
#include "fathom/base/checksum.h"

/* Compiled in: no library to find at run time. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t fth_checksum(const void *data, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, len, seed);
}
