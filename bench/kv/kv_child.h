/* SPDX-License-Identifier: BSD-2-Clause */
/* A key-value server in a process of its own, ours or memcached, all in memory. */
#ifndef FTH_BENCH_KV_CHILD_H
#define FTH_BENCH_KV_CHILD_H

#include <stdint.h>
#include <sys/types.h>

struct kv_child {
	pid_t pid; /* 0: none */
	int pipe;  /* its life line: the child ends when this end is closed */
	unsigned port;
};

/* Start one on a free port of 127.0.0.1. Call it before other threads are started. */
int kv_child_fathom(struct kv_child *child, uint64_t memory, unsigned workers);
/* -ENOENT: memcached is not installed. */
int kv_child_memcached(struct kv_child *child, uint64_t memory, unsigned workers);
/* Accepts a zeroed one. */
void kv_child_stop(struct kv_child *child);

#endif
