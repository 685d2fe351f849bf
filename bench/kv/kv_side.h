/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two servers of `fathom bench kv`: ours (`fathom kv serve`) and memcached, with extstore or without,
 * each as a process of its own, and what the kernel counts of it.
 */
#ifndef FTH_BENCH_KV_SIDE_H
#define FTH_BENCH_KV_SIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fth_kv_side_plan {
	bool peer;
	const char *program; /* fathom or memcached */
	const char *folder;  /* for the file; not used without flash */
	uint64_t items, value_bytes;
	uint64_t memory; /* bytes for items, --memory or -m */
	uint64_t flash;	 /* bytes of the file; 0: items are in memory only */
	unsigned threads;
};

/* Zero-initialise. */
struct fth_kv_side {
	pid_t pid; /* 0: it does not run */
	char address[64];
	char path[4096]; /* of the file; empty without flash */
	/* The peer reads through the page cache: a thread keeps its file out of there. */
	pthread_t dropper;
	bool drops;
	uint32_t stop; /* atomic */
};

/* Counters of a process and of the device that its file is on. */
struct fth_kv_usage_counts {
	double cpu_s;	      /* user and system, of all its threads */
	uint64_t rss;	      /* bytes */
	uint64_t read_bytes;  /* that it caused to be read from storage */
	uint64_t write_bytes; /* the same, written */
	bool has_device;
	uint64_t device_reads; /* requests, of everybody on this device */
};

/* Start it and wait until it answers. 0, -ENOENT if the program is not there, or another error. */
int fth_kv_side_start(struct fth_kv_side *side, const struct fth_kv_side_plan *plan);

int fth_kv_side_counts(const struct fth_kv_side *side, struct fth_kv_usage_counts *out);

/* Wait until it has written nothing for `ms` milliseconds, 60 times as long at most. */
void fth_kv_side_settle(const struct fth_kv_side *side, unsigned ms);

/* End it and remove its file. Accepts a zeroed one. */
void fth_kv_side_stop(struct fth_kv_side *side);

/* The version of memcached, "memcached 1.6.18"; -ENOENT when it is not installed. */
int fth_kv_peer_version(const char *program, char *buf, size_t len);

#endif
