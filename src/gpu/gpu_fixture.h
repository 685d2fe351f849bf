/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of GPU drives share: checks that end the test, and stamped blocks. */
#ifndef FTH_GPU_FIXTURE_H
#define FTH_GPU_FIXTURE_H

#include "cuda_fixture.h"
#include "fathom/base/rng.h"
#include "fathom/gpu/io.h"
#include "must_fixture.h"

#define PATIENCE_NS 20000000000ull /* a hang ends as a failure, not as a dead GPU */

/* Word i of a block: every word differs, tells where it belongs, and is not 0. */
FTH_HD uint64_t fixture_word(uint32_t ssd, uint64_t block, uint32_t i)
{
	return fth_mix64(((uint64_t)ssd << 48 ^ block) + 1) + i;
}

#endif
