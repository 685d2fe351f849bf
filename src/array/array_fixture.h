/* SPDX-License-Identifier: BSD-2-Clause */
/* An array on a small cache and a device that can be told to fail, beside a plain copy of it. */
#ifndef FTH_ARRAY_FIXTURE_H
#define FTH_ARRAY_FIXTURE_H

#include "fth_test.h"

#include "fathom/array.h"
#include "fathom/base/rng.h"
#include "fathom/dev/fault.h"

struct array_shape {
	uint32_t line;	 /* bytes */
	uint32_t frames; /* how many lines fit */
	bool compact;
	size_t element;
	uint64_t count;
	uint64_t offset; /* of the array on its device */
};

struct array_fixture {
	struct array_shape shape;
	struct fth_dev *dev; /* fault(mem:...) */
	struct fth_cache *cache;
	struct fth_array *array;
	uint8_t *model; /* what the array should hold */
	uint64_t bytes;
};

/* The device begins with bytes that depend on their place. */
void array_fixture_open(struct array_fixture *f, const struct array_shape *shape);
/* Closes everything without error, and compares what is on the device with the model. */
void array_fixture_close(struct array_fixture *f);
/* The same without the last flush: for devices that were made to fail. */
void array_fixture_drop(struct array_fixture *f);

/* Fail the nth request of these kinds from now on, and all later ones if so; 0: none. */
void array_fixture_fail(struct array_fixture *f, uint32_t kinds, uint64_t nth, bool all_later);
uint64_t array_fixture_failed(struct array_fixture *f);

/* Bytes of any length that follow from `from`. */
void array_fixture_bytes(void *to, size_t n, uint64_t from);

static inline void *array_fixture_model(struct array_fixture *f, uint64_t i)
{
	return f->model + i * f->shape.element;
}

/* The array's elements are the model's, asked one by one. */
void array_fixture_compare(struct array_fixture *f);

#endif
