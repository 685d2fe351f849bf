/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libpmemlog and libpmemobj (PMDK 1.12), loaded when they are needed. With PMEM_IS_PMEM_FORCE they
 * write the processor's caches back on any file, as pmem:PATH?force=1 does.
 */
#ifndef FTH_BENCH_PM_PEERS_H
#define FTH_BENCH_PM_PEERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pm_peer_log {
	void *(*create)(const char *path, size_t size, mode_t mode);
	void (*close)(void *log);
	int (*append)(void *log, const void *data, size_t bytes);
	void (*walk)(void *log, size_t chunk, int (*found)(const void *data, size_t n, void *arg),
		     void *arg);
	const char *(*error)(void);
};

struct pm_peer_oid {
	uint64_t pool, offset;
};

struct pm_peer_obj {
	void *(*create)(const char *path, const char *layout, size_t size, mode_t mode);
	void (*close)(void *pool);
	struct pm_peer_oid (*root)(void *pool, size_t size);
	void *(*direct)(struct pm_peer_oid oid);
	int (*begin)(void *pool, void *env, ...);
	int (*add)(const void *ptr, size_t bytes);
	void (*commit)(void);
	int (*end)(void);
	const char *(*error)(void);
};

/* Load them. 0, or -ENOTSUP with a text. */
int pm_peer_log_load(struct pm_peer_log *log);
int pm_peer_obj_load(struct pm_peer_obj *obj);

#endif
