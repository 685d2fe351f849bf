/* SPDX-License-Identifier: BSD-2-Clause */
#include "pm_peers.h"

#include "fathom/base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* A table of names and where their addresses go. */
struct symbol {
	const char *name;
	void *to;
};

/* The library stays loaded. libpmem reads the variable when it is loaded. */
static int load(const char *library, const char *package, const struct symbol *symbols)
{
	void *handle;

	setenv("PMEM_IS_PMEM_FORCE", "1", 1);
	handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return fth_fail(ENOTSUP, "cannot load %s (package %s): %s", library, package,
				dlerror());
	for (; symbols->name; symbols++) {
		*(void **)symbols->to = dlsym(handle, symbols->name);
		if (!*(void **)symbols->to)
			return fth_fail(ENOTSUP, "%s has no %s", library, symbols->name);
	}
	return 0;
}

int pm_peer_log_load(struct pm_peer_log *log)
{
	const struct symbol symbols[] = {
		{"pmemlog_create", &log->create},  {"pmemlog_close", &log->close},
		{"pmemlog_append", &log->append},  {"pmemlog_walk", &log->walk},
		{"pmemlog_errormsg", &log->error}, {NULL, NULL}};

	return load("libpmemlog.so.1", "libpmemlog1", symbols);
}

int pm_peer_obj_load(struct pm_peer_obj *obj)
{
	const struct symbol symbols[] = {
		{"pmemobj_create", &obj->create},    {"pmemobj_close", &obj->close},
		{"pmemobj_root", &obj->root},	     {"pmemobj_direct", &obj->direct},
		{"pmemobj_tx_begin", &obj->begin},   {"pmemobj_tx_add_range_direct", &obj->add},
		{"pmemobj_tx_commit", &obj->commit}, {"pmemobj_tx_end", &obj->end},
		{"pmemobj_errormsg", &obj->error},   {NULL, NULL}};

	return load("libpmemobj.so.1", "libpmemobj1", symbols);
}
