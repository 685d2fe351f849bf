/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A plain array beside the cache, for tests: what the cache should hold, element by element.
 *
 * An element is 8 bytes: its own number in the upper bits and a generation below, so that whoever
 * reads it can tell whether it is in its place, and its owner whether it is the newest.
 */
#ifndef FTH_CACHE_MODEL_FIXTURE_H
#define FTH_CACHE_MODEL_FIXTURE_H

#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/cache.h"
#include "fathom/dev/crash.h"
#include "fathom/dev/fault.h"
#include "fathom/dev/wrap.h"
#include "fathom/hd/wait.h"

#include <stdbool.h>

#define GENERATION_BITS 24

static inline uint64_t model_value(uint64_t element, uint64_t generation)
{
	return element << GENERATION_BITS | generation;
}

static inline bool model_in_place(uint64_t value, uint64_t element)
{
	return value >> GENERATION_BITS == element;
}

/* A second, deadlines that should not pass are this far away. */
#define SECOND	 ((uint64_t)1000000000)
#define PATIENCE (200 * SECOND)

/* Every element of the device, generation 0. Goes to the device as it is: disarm faults before. */
void model_fill(struct fth_dev *dev);

struct fth_dev *model_open_dev(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A cache of so many frames with one range over the whole device. */
struct fth_cache_range *model_open_cache(struct fth_dev *dev, struct fth_cache_options *options,
					 uint32_t frames);

/*
 * An element in a pinned line. A write-back may be reading the line, and a fetch that failed may
 * have been filling it: these races are part of the interface, and the thread sanitizer need not
 * tell of them.
 */
uint64_t model_load(const uint8_t *data, uint64_t index);
void model_store(uint8_t *data, uint64_t index, uint64_t value);

/* Element i through a pin. */
int model_get(struct fth_cache_range *range, uint64_t element, uint64_t *value);
int model_set(struct fth_cache_range *range, uint64_t element, uint64_t value);

/* Element i on the medium, past all wrappers. */
uint64_t model_on_medium(struct fth_dev *dev, uint64_t element);

/* The innermost device of a stack. */
struct fth_dev *model_medium(struct fth_dev *dev);

#endif
