/* SPDX-License-Identifier: BSD-2-Clause */
#include "model_fixture.h"

#include <stdio.h>
#include <stdlib.h>

struct fth_dev *model_medium(struct fth_dev *dev)
{
	while (fth_dev_inner(dev))
		dev = fth_dev_inner(dev);
	return dev;
}

void model_fill(struct fth_dev *dev)
{
	uint64_t bytes = fth_dev_info(dev)->size, *all = malloc(bytes);

	assert_non_null(all);
	for (uint64_t i = 0; i < bytes / 8; i++)
		all[i] = model_value(i, 0);
	assert_ok(fth_dev_write(model_medium(dev), all, bytes, 0, FTH_DEV_TIMEOUT));
	free(all);
}

struct fth_dev *model_open_dev(const char *format, ...)
{
	struct fth_dev *dev;
	char uri[256];
	va_list args;

	va_start(args, format);
	vsnprintf(uri, sizeof(uri), format, args);
	va_end(args);
	assert_ok(fth_dev_open(uri, &dev));
	model_fill(dev);
	return dev;
}

struct fth_cache_range *model_open_cache(struct fth_dev *dev, struct fth_cache_options *options,
					 uint32_t frames)
{
	struct fth_cache_range *range;
	struct fth_cache *cache;

	options->memory = (uint64_t)frames * options->line;
	assert_ok(fth_cache_open(options, &cache));
	assert_ok(fth_cache_add(cache, dev, 0, FTH_CACHE_TO_END, 0, &range));
	return range;
}

#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize_thread, noinline))
#endif
uint64_t
model_load(const uint8_t *data, uint64_t index)
{
	return __atomic_load_n((const uint64_t *)(const void *)data + index, __ATOMIC_ACQUIRE);
}

#ifdef __SANITIZE_THREAD__
__attribute__((no_sanitize_thread, noinline))
#endif
void
model_store(uint8_t *data, uint64_t index, uint64_t value)
{
	__atomic_store_n((uint64_t *)(void *)data + index, value, __ATOMIC_RELEASE);
}

int model_get(struct fth_cache_range *range, uint64_t element, uint64_t *value)
{
	uint64_t per_line = fth_cache_line_size(fth_cache_of(range)) / 8;
	struct fth_cache_pin pin;
	int rc = fth_cache_pin(range, element / per_line, FTH_CACHE_READ, fth_deadline_ns(PATIENCE),
			       &pin);

	if (rc < 0)
		return rc;
	*value = model_load(pin.data, element % per_line);
	fth_cache_unpin(&pin, false);
	return 0;
}

int model_set(struct fth_cache_range *range, uint64_t element, uint64_t value)
{
	uint64_t per_line = fth_cache_line_size(fth_cache_of(range)) / 8;
	struct fth_cache_pin pin;
	int rc = fth_cache_pin(range, element / per_line, FTH_CACHE_WRITE,
			       fth_deadline_ns(PATIENCE), &pin);

	if (rc < 0)
		return rc;
	model_store(pin.data, element % per_line, value);
	fth_cache_unpin(&pin, true);
	return 0;
}

uint64_t model_on_medium(struct fth_dev *dev, uint64_t element)
{
	uint64_t words[512 / 8];

	assert_ok(fth_dev_read(model_medium(dev), words, sizeof(words), element * 8 / 512 * 512,
			       FTH_DEV_TIMEOUT));
	return words[element % (512 / 8)];
}
