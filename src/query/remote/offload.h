/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Task sets between host and storage daemon. After S. Xu, *Computing Big-Data Applications Near
 * Flash*, dissertation, MIT, 2021, section 8.5: everything is offloaded; a task that the daemon
 * suspends, and those behind it, are taken over by the host, which gets the results of the tasks
 * before. What cannot be offloaded any more reads columns over the wire.
 */
#ifndef FTH_QUERY_OFFLOAD_H
#define FTH_QUERY_OFFLOAD_H

#include "query/remote/remote.h"

#define OFFLOAD_TEXT 320

/* Where tasks ran, and why the daemon suspended some. */
struct offload_report {
	bool *at_storage;	 /* by task: where it ran; memory of the caller */
	uint64_t sent, received; /* bytes over the wire, of all queries of the remote meanwhile */
	/* Read from devices by tasks at the daemon; reading columns would have sent these bytes. */
	uint64_t storage_bytes;
	unsigned suspensions;	   /* how often the daemon suspended a task */
	char reason[OFFLOAD_TEXT]; /* of the last one */
};

/* As exec_run(), with tasks at the daemon as far as it goes. */
int offload_run(struct remote *r, const struct task_set *set, const struct exec_options *options,
		int (*emit)(void *user, const struct fth_vec *columns,
			    const struct fth_sel *selected),
		void *user, struct exec_stats *stats, struct offload_report *report);

#endif
