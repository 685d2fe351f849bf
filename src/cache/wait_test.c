/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for lines and for frames: who is told what, and that each wait ends. */
#include "model_fixture.h"

#include <string.h>

static struct fth_cache_options options_of(uint32_t line, bool compact)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = line;
	options.compact = compact;
	options.timeout_ns = PATIENCE;
	return options;
}

/* Open a device and a cache over it. */
static struct fth_cache_range *open_both(const char *uri, struct fth_cache_options options,
					 uint32_t frames)
{
	return model_open_cache(model_open_dev("%s", uri), &options, frames);
}

static void close_both(struct fth_cache_range *range)
{
	struct fth_dev *dev = fth_cache_dev(range);

	assert_ok(fth_cache_close(fth_cache_of(range)));
	fth_dev_close(dev);
}

static int count_call(void *context, size_t which, uint8_t *data)
{
	unsigned *calls = context;

	(void)data;
	calls[which]++;
	return 0;
}

/* A visit holds references on lines it waits for; those must not be the last frames. */
static void a_visit_does_not_wait_for_its_own_lines(void **state)
{
	uint64_t lines[24];
	unsigned calls[24];

	(void)state;
	for (unsigned compact = 0; compact < 2; compact++) {
		struct fth_cache_options options = options_of(512, compact);
		struct fth_cache_range *range;

		options.timeout_ns = SECOND;
		range = open_both("mem:64K", options, 4);
		memset(calls, 0, sizeof(calls));
		for (unsigned i = 0; i < 24; i++)
			lines[i] = i / 2 * 3; /* each twice, no neighbours */
		assert_ok(fth_cache_visit(range, FTH_CACHE_READ, lines, 24, count_call, calls));
		for (unsigned i = 0; i < 24; i++)
			assert_int_equal(calls[i], 1);
		close_both(range);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_visit_does_not_wait_for_its_own_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
