/* SPDX-License-Identifier: BSD-2-Clause */
/* The two caches through which a GPU sees a table of taxi trips. */
#include "workloads/taxi/gpu.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <string.h>

static int open_column(struct fth_gpu_drive *drive, uint64_t bytes, uint32_t line,
		       uint32_t timeout_ms, const struct fth_gpu_array_options *array,
		       struct fth_gpu_cache **cache, struct fth_gpu_source *out)
{
	struct fth_gpu_cache_options opts = FTH_GPU_CACHE_OPTIONS_INIT;
	struct fth_gpu_array_base a;
	int rc;

	opts.bytes = bytes;
	opts.line = line;
	opts.timeout_ms = timeout_ms;
	rc = fth_gpu_cache_open(drive, &opts, cache);
	if (rc == 0)
		rc = fth_gpu_cache_array(*cache, sizeof(double), array, &a);
	if (rc == 0)
		*out = fth_gpu_source_cached(&a);
	return rc;
}

int fth_gpu_taxi_open(struct fth_gpu_drive *drive, const struct fth_taxi_table *table,
		      const struct fth_gpu_taxi_options *opts, struct fth_gpu_taxi *out)
{
	struct fth_gpu_array_options miles = FTH_GPU_ARRAY_OPTIONS_INIT,
				     values = FTH_GPU_ARRAY_OPTIONS_INIT;
	int rc;

	memset(out, 0, sizeof(*out));
	if (table->rows == 0)
		return fth_fail(EINVAL, "the table has no rows");
	miles.offset = fth_taxi_offset(table, FTH_TAXI_DISTANCE);
	miles.count = table->rows;
	miles.readonly = true;
	values.offset = fth_taxi_offset(table, FTH_TAXI_TOTAL);
	values.count = (FTH_TAXI_COLUMNS - 2) * (table->stride / sizeof(double)) + table->rows;
	values.readonly = true;
	out->part.stride = table->stride / sizeof(double);
	rc = open_column(drive, opts->scan_bytes, opts->scan_line, opts->timeout_ms, &miles,
			 &out->scan_cache, &out->part.miles);
	if (rc == 0)
		rc = open_column(drive, opts->bytes, opts->line, opts->timeout_ms, &values,
				 &out->cache, &out->part.values);
	if (rc < 0)
		(void)fth_gpu_taxi_close(out);
	return rc;
}

int fth_gpu_taxi_close(struct fth_gpu_taxi *taxi)
{
	int rc = fth_gpu_cache_close(taxi->scan_cache), next = fth_gpu_cache_close(taxi->cache);

	memset(taxi, 0, sizeof(*taxi));
	return rc < 0 ? rc : next;
}

int fth_gpu_taxi_empty(struct fth_gpu_taxi *taxi)
{
	int rc = fth_gpu_cache_empty(taxi->scan_cache);

	return rc < 0 ? rc : fth_gpu_cache_empty(taxi->cache);
}

int fth_gpu_taxi_read(struct fth_gpu_taxi *taxi, uint64_t *bytes, uint64_t *requests)
{
	struct fth_gpu_cache *caches[2] = {taxi->scan_cache, taxi->cache};

	*bytes = *requests = 0;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_gpu_cache_stats stats;
		int rc = fth_gpu_cache_stats(caches[i], &stats);

		if (rc < 0)
			return rc;
		*bytes += stats.bytes_read;
		*requests += stats.count[FTH_GPU_READS];
	}
	return 0;
}
