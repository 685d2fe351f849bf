/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom bench policy` is made of: traces of lines, and ways to choose which line goes when
 * another one needs its frame. Nothing is read or moved; only hits are counted.
 *
 * Six policies and eight traces are what is left of fifteen and seventeen: those that the decision in
 * doc/decisions.md rests on. The clocks are built from what the cache has at hand: a HOT bit per line
 * that any reader sets, a bit per frame, and a hand that goes round the frames. S3-FIFO, DRRIP in sets
 * and OPT are there to compare with.
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
	unsigned graph;	 /* 2^graph vertices of the trace of a search */
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

/* ---- policies ---- */

struct fth_policy {
	const char *name;
	const char *text;
	/* Hits over the whole trace, from an empty cache. -ENOMEM, or -EINVAL: the cache is too
	 * small. */
	int64_t (*run)(const struct fth_policy *policy, const struct fth_policy_trace *trace);
	bool use_hot; /* clocks: a line that was used since the hand came by stays */
	bool trial;   /* and new lines are on trial */
};

extern const struct fth_policy fth_policies[]; /* name NULL ends it */
extern const unsigned fth_policy_count;
const struct fth_policy *fth_policy_find(const char *name); /* or NULL */

int64_t fth_policy_run_clock(const struct fth_policy *policy, const struct fth_policy_trace *trace);
int64_t fth_policy_run_s3fifo(const struct fth_policy *policy,
			      const struct fth_policy_trace *trace);
int64_t fth_policy_run_sets(const struct fth_policy *policy, const struct fth_policy_trace *trace);
int64_t fth_policy_run_opt(const struct fth_policy *policy, const struct fth_policy_trace *trace);

#endif
