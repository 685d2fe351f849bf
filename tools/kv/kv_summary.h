/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What matters of a server's figures, for `fathom kv stat` and `top`: since the server started (or
 * its statistics were reset), or between two answers. A figure that the server does not have is
 * NAN; names of memcached with extstore are understood.
 */
#ifndef FTH_TOOLS_KV_SUMMARY_H
#define FTH_TOOLS_KV_SUMMARY_H

#include "json.h"
#include "kv_stats_view.h"

#define FTH_KV_COMMANDS 5u /* get, set, delete, incr, touch */

struct fth_kv_latency {
	const char *command;
	double count;
	double mean_ns, p50_ns, p99_ns, p999_ns; /* bounds of buckets that are powers of two */
};

struct fth_kv_summary {
	double seconds; /* of the interval, or of uptime */

	/* In the interval. */
	double gets, hits, misses, sets, deletes;
	double hits_memory, hits_flash; /* of all commands */
	double flash_gets;		/* of `hits`, those that were read from flash */
	double flash_reads, flash_read_bytes, flash_write_bytes, log_bytes, rewritten_bytes;
	double bytes_read, bytes_written;
	double evictions, dropped, rejected, over_budget;
	double read_errors, write_errors, bad_items;
	double accepted, refused;

	/* Now. */
	double connections, connections_max, threads;
	double items, memory_items, memory_bytes, memory_max, index_bytes, resident;
	double flash_bytes, flash_used, flash_depth;

	/* From these. */
	double hit_rate, flash_share; /* of gets; of hits, those from flash */
	double reads_per_hit;	      /* flash reads for each hit from flash */
	double write_amplification;
	double depth; /* commands under way, on average over the interval (Little's law) */
	struct fth_kv_latency latency[FTH_KV_COMMANDS];
};

/*
 * `before` and its histogram may be NULL: since the start. `histogram` is the answer to stats
 * latency; NULL or empty: percentiles are those that `now` has, since the start.
 */
void fth_kv_summarize(const struct fth_kv_figures *before, const struct fth_kv_figures *now,
		      const struct fth_kv_figures *before_histogram,
		      const struct fth_kv_figures *histogram, struct fth_kv_summary *out);

/* Members of an open object; those that are not known are left out. */
void fth_kv_summary_json(struct fth_json *j, const struct fth_kv_summary *s);

/* "1.2 ms", or "-" if it is not known. */
#define FTH_KV_TEXT_MAX 32
const char *fth_kv_time_text(char buf[FTH_KV_TEXT_MAX], double ns);
const char *fth_kv_bytes_text(char buf[FTH_KV_TEXT_MAX], double bytes);
const char *fth_kv_count_text(char buf[FTH_KV_TEXT_MAX], double count); /* "1.25 M" */
const char *fth_kv_percent_text(char buf[FTH_KV_TEXT_MAX], double share);

#endif
