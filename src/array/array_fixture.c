/* SPDX-License-Identifier: BSD-2-Clause */
#include "array_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512

void array_fixture_bytes(void *to, size_t n, uint64_t from)
{
	struct fth_rng rng = {from};

	for (size_t at = 0; at < n; at += 8) {
		uint64_t value = fth_rng_next(&rng);

		memcpy((uint8_t *)to + at, &value, n - at < 8 ? n - at : 8);
	}
}

static void fill_device(struct array_fixture *f, uint64_t size)
{
	uint8_t *all = malloc(size);

	assert_non_null(all);
	array_fixture_bytes(all, size, size);
	assert_ok(fth_dev_write(f->dev, all, size, 0, FTH_DEV_TIMEOUT));
	memcpy(f->model, all + f->shape.offset, f->bytes);
	free(all);
}

void array_fixture_open(struct array_fixture *f, const struct array_shape *shape)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_array_options place = {.size = sizeof(struct fth_array_options),
					  .offset = shape->offset,
					  .count = shape->count};
	uint64_t size;
	char uri[64];

	*f = (struct array_fixture){.shape = *shape, .bytes = shape->count * shape->element};
	/* A block follows that is nobody's. */
	size = shape->offset + (f->bytes + BLOCK - 1) / BLOCK * BLOCK + BLOCK;
	snprintf(uri, sizeof(uri), "fault(mem:%llu)", (unsigned long long)size);
	assert_ok(fth_dev_open(uri, &f->dev));
	f->model = malloc(f->bytes);
	assert_non_null(f->model);
	fill_device(f, size);
	options.line = shape->line;
	options.memory = (uint64_t)shape->frames * shape->line;
	options.compact = shape->compact;
	assert_ok(fth_cache_open(&options, &f->cache));
	assert_ok(fth_array_open_dev(f->cache, f->dev, shape->element, &place, &f->array));
}

void array_fixture_drop(struct array_fixture *f)
{
	assert_ok(fth_array_discard(f->array));
	assert_ok(fth_cache_discard(f->cache));
	fth_dev_close(f->dev);
	free(f->model);
}

void array_fixture_close(struct array_fixture *f)
{
	uint64_t size = fth_dev_info(f->dev)->size;
	uint8_t *all = malloc(size), *before = malloc(size);

	assert_non_null(all);
	assert_non_null(before);
	assert_ok(fth_array_close(f->array));
	assert_ok(fth_cache_close(f->cache));
	assert_ok(fth_dev_read(f->dev, all, size, 0, FTH_DEV_TIMEOUT));
	array_fixture_bytes(before, size, size);
	/* The array has changed its own bytes, and no other. */
	memcpy(before + f->shape.offset, f->model, f->bytes);
	assert_memory_equal(all, before, size);
	fth_dev_close(f->dev);
	free(f->model);
	free(before);
	free(all);
}

void array_fixture_fail(struct array_fixture *f, uint32_t kinds, uint64_t nth, bool all_later)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.nth = nth;
	plan.every = all_later ? 1 : 0;
	assert_ok(fth_dev_fault_set(f->dev, &plan));
}

uint64_t array_fixture_failed(struct array_fixture *f)
{
	struct fth_dev_fault_counts counts;

	assert_ok(fth_dev_fault_counts(f->dev, &counts));
	return counts.injected;
}

void array_fixture_compare(struct array_fixture *f)
{
	uint8_t *element = malloc(f->shape.element);

	assert_non_null(element);
	for (uint64_t i = 0; i < f->shape.count; i++) {
		assert_ok(fth_array_get(f->array, i, element, f->shape.element));
		if (memcmp(element, array_fixture_model(f, i), f->shape.element) != 0)
			fail_msg("element %llu is wrong", (unsigned long long)i);
	}
	free(element);
}
