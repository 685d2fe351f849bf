/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench policy` is made of: traces of lines, and ways to choose which line goes when
 * another one needs its frame. Nothing is read or moved; only hits are counted.
 *
 * The clock family is built from what the cache has at hand, and nothing else: a HOT bit per line
 * that any reader sets, a few bits per frame, a hand that goes round the frames, and a stamp in the
 * word of a line that is not in the cache. LRU, S3-FIFO, DRRIP in sets and
 * OPT are there to compare with.
 */
#ifndef FTH_BENCH_POLICY_H
#define FTH_BENCH_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- traces ---- */

struct fth_policy_trace {
	uint32_t *lines; /* which line each access is to */
	size_t n, room;
	uint32_t universe; /* lines are below this */
	uint32_t frames;   /* the cache that the trace is meant for */
	int error;	   /* -ENOMEM once an append failed */
};

struct fth_policy_scale {
	uint32_t frames; /* of the synthetic traces */
	size_t accesses; /* of the synthetic traces, about */
	unsigned graph;	 /* 2^graph vertices */
	uint64_t seed;
};

struct fth_policy_workload {
	const char *name;
	const char *text;
	/* Append the accesses; `kind` is for makers that make several. */
	void (*make)(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
		     double kind);
	double kind;
};

extern const struct fth_policy_workload fth_policy_workloads[]; /* name NULL ends it */
extern const unsigned fth_policy_workload_count;

void fth_policy_trace_add(struct fth_policy_trace *trace, uint64_t line);
void fth_policy_trace_free(struct fth_policy_trace *trace);

/* The graph traces have a file of their own. */
void fth_policy_make_bfs(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			 double kind);
void fth_policy_make_pagerank(struct fth_policy_trace *trace, const struct fth_policy_scale *scale,
			      double kind);

/* ---- policies ---- */

struct fth_policy {
	const char *name;
	const char *text;
	/* Hits over the whole trace, from an empty cache. -ENOMEM, or -EINVAL: the cache is too
	 * small. */
	int64_t (*run)(const struct fth_policy *policy, const struct fth_policy_trace *trace);
	const void *rules; /* for run */
};

extern const struct fth_policy fth_policies[]; /* name NULL ends it */
extern const unsigned fth_policy_count;
const struct fth_policy *fth_policy_find(const char *name); /* or NULL */

int64_t fth_policy_run_clock(const struct fth_policy *policy, const struct fth_policy_trace *trace);
int64_t fth_policy_run_lru(const struct fth_policy *policy, const struct fth_policy_trace *trace);
int64_t fth_policy_run_s3fifo(const struct fth_policy *policy,
			      const struct fth_policy_trace *trace);
int64_t fth_policy_run_sets(const struct fth_policy *policy, const struct fth_policy_trace *trace);
int64_t fth_policy_run_opt(const struct fth_policy *policy, const struct fth_policy_trace *trace);

#endif
