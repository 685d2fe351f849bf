/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers on flash through a cache, and the library is that of the headers. C, and as use.cpp C++.
 */
#include <fathom.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef FTH_ARRAY(uint64_t) numbers;

static int squares(numbers data)
{
	uint64_t value = 0;
	int rc = 0;

	for (uint64_t i = 0; i < 1000 && rc == 0; i++)
		rc = fth_set(data, i, i * i);
	if (rc == 0)
		rc = fth_get(data, 999, &value);
	printf("999 * 999 = %" PRIu64 "\n", value);
	return rc < 0 ? rc : value != 999 * 999;
}

int main(void)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache *cache = NULL;
	numbers data;
	int rc, end;

	if (strcmp(fth_version(), FTH_VERSION_STRING) != 0)
		return 1;
	options.memory = 1 << 20;
	rc = fth_cache_open(&options, &cache);
	if (rc == 0)
		rc = fth_open(&data, cache, "softnvme(mem:16M)", NULL);
	if (rc == 0) {
		rc = squares(data);
		end = fth_array_close(data.base);
		rc = rc != 0 ? rc : end;
	}
	fth_cache_close(cache);
	if (rc != 0)
		fprintf(stderr, "use: %s\n", fth_error_text(rc));
	return rc != 0;
}
