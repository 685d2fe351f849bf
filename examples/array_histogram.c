/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * array_histogram URI [BYTES]: how often each byte value occurs on a device, which may be much
 * larger than the BYTES of memory it is looked at through (default 1 MiB).
 *
 *	cc array_histogram.c $(pkg-config --cflags --libs fathom) -o array_histogram
 *	./array_histogram file:/data/disk.img 16777216
 *
 * Shows a cursor that walks over an array, line by line; and gather, which looks at many places
 * at once: it samples the data beforehand, so that the two can be compared.
 */
#include <fathom/array.h>
#include <fathom/base.h>
#include <fathom/base/rng.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define VALUES	256
#define SAMPLES 4096

typedef FTH_ARRAY(uint8_t) bytes;

/* The histogram of a few elements anywhere, all of them on their way at once. */
static int sample(bytes data, uint64_t counts[VALUES])
{
	uint64_t indices[SAMPLES], n = fth_array_count(data.base);
	struct fth_rng rng = {1};
	uint8_t values[SAMPLES];
	int rc;

	for (unsigned i = 0; i < SAMPLES; i++)
		indices[i] = fth_rng_below(&rng, n);
	rc = fth_gather(data, indices, SAMPLES, values);
	for (unsigned i = 0; i < SAMPLES && rc == 0; i++)
		counts[values[i]]++;
	return rc;
}

/* The histogram of all elements. */
static int count_all(bytes data, uint64_t counts[VALUES])
{
	uint64_t n, i = 0, end = fth_array_count(data.base);
	FTH_CURSOR(uint8_t) cursor;
	int rc = 0;

	fth_start(&cursor, data, FTH_CACHE_READ);
	while (i < end && rc == 0) {
		/* What is left of the line that element i is in. */
		const uint8_t *at = fth_at_span(&cursor, i, &n, &rc);

		for (uint64_t k = 0; k < n; k++)
			counts[at[k]]++;
		i += n;
	}
	fth_cursor_close(&cursor.base);
	return rc;
}

static void print(const uint64_t counts[VALUES], const uint64_t sampled[VALUES], uint64_t n)
{
	printf("%5s %12s %8s %8s\n", "value", "count", "share", "sampled");
	for (unsigned v = 0; v < VALUES; v++)
		if (counts[v])
			printf("%5u %12llu %7.3f%% %7.3f%%\n", v, (unsigned long long)counts[v],
			       100.0 * (double)counts[v] / (double)n,
			       100.0 * (double)sampled[v] / SAMPLES);
}

static int histogram(struct fth_cache *cache, const char *uri)
{
	const struct fth_array_options readonly = {.size = sizeof(struct fth_array_options),
						   .readonly = true};
	uint64_t counts[VALUES] = {0}, sampled[VALUES] = {0};
	bytes data;
	int rc = fth_open(&data, cache, uri, &readonly), end;

	if (rc < 0)
		return rc;
	rc = sample(data, sampled);
	if (rc == 0)
		rc = count_all(data, counts);
	if (rc == 0)
		print(counts, sampled, fth_array_count(data.base));
	end = fth_array_finish(&data.base);
	return rc < 0 ? rc : end;
}

int main(int argc, char **argv)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_cache *cache = NULL;
	int rc = 0, end;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: array_histogram URI [BYTES]\n");
		return 2;
	}
	options.memory = 1 << 20;
	if (argc == 3)
		rc = fth_parse_size(argv[2], &options.memory);
	if (rc == 0)
		rc = fth_cache_open(&options, &cache);
	if (rc == 0)
		rc = histogram(cache, argv[1]);
	end = fth_cache_finish(&cache);
	rc = rc < 0 ? rc : end;
	if (rc < 0)
		fprintf(stderr, "array_histogram: %s\n", fth_error_text(rc));
	return rc < 0 ? 1 : 0;
}
