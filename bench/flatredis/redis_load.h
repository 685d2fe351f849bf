/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads like YCSB's (Cooper et al., SoCC 2010) for a redis-server, over a Unix socket. Every value
 * that is read is checked: it is one that was written to this key, and not older than the last
 * write that had ended.
 */
#ifndef FTH_BENCH_REDIS_LOAD_H
#define FTH_BENCH_REDIS_LOAD_H

#include "latency.h"

#include <stdbool.h>
#include <stdint.h>

enum redis_workload {
	REDIS_B, /* 95 % reads, 5 % updates, zipf */
	REDIS_D, /* 95 % reads, 5 % inserts, the latest are read most */
	REDIS_WORKLOADS
};

struct redis_plan {
	const char *socket;
	uint64_t records; /* loaded */
	uint32_t value;	  /* bytes, at least 32 */
	uint64_t ops;
	unsigned clients; /* threads, a connection each */
	uint64_t seed;
	bool (*stopped)(void); /* may be NULL */
};

struct redis_result {
	double ops_per_s;
	uint64_t p50_ns, p99_ns, p999_ns;
};

struct redis_data;

/* What was written; room for the inserts of `ops` more. NULL without memory. */
struct redis_data *redis_data_new(const struct redis_plan *plan);
void redis_data_free(struct redis_data *data);

/* Write all records. */
int redis_fill(const struct redis_plan *plan, struct redis_data *data);
int redis_run(const struct redis_plan *plan, struct redis_data *data, enum redis_workload workload,
	      struct redis_result *result);

#endif
