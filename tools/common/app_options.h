/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands that run a workload through a cache share: options, and what it took. */
#ifndef FTH_TOOLS_APP_OPTIONS_H
#define FTH_TOOLS_APP_OPTIONS_H

#include "cli.h"
#include "json.h"

#include "fathom/cache.h"

/* Set the defaults, then name the fields in a table of options with FTH_APP_OPTIONS. */
struct fth_app_options {
	uint64_t cache; /* bytes */
	uint64_t line;	/* bytes; 0: the command's default */
	const char *policy;
	uint64_t threads;
	uint64_t seed;
};

#define FTH_APP_DEFAULTS                                   \
	{                                                  \
		.cache = 64 << 20, .threads = 1, .seed = 1 \
	}

#define FTH_APP_POLICIES "replacement policy: default, fifo, clock, trial"

#define FTH_APP_OPTIONS(app)                                                               \
	FTH_CLI_WAS("cache", "memory"), {"memory", FTH_CLI_SIZE,      &(app)->cache,       \
					 65536,	   (uint64_t)1 << 44, "memory for lines"}, \
		{"line",                                                                   \
		 FTH_CLI_SIZE,                                                             \
		 &(app)->line,                                                             \
		 FTH_CACHE_LINE_MIN,                                                       \
		 FTH_CACHE_LINE_MAX,                                                       \
		 "bytes of a line, a power of two; 0: chosen for the program"},            \
		{"policy", FTH_CLI_STRING, &(app)->policy, 0, 0, FTH_APP_POLICIES},        \
		{"threads", FTH_CLI_U64, &(app)->threads, 1, 256, "threads"},              \
	{                                                                                  \
		"seed", FTH_CLI_U64, &(app)->seed, 0, UINT64_MAX, "of all random choices"  \
	}

/* A cache as the options say; `line` is the default. 0 or a negative errno. */
int fth_app_open_cache(const struct fth_app_options *app, uint32_t line, struct fth_cache **out);

/* The policy that was named. 0 or -EINVAL. */
int fth_app_policy(const struct fth_app_options *app, enum fth_cache_policy *out);

/* What the cache did, for people or as members of an open object. */
void fth_app_print_cache(const struct fth_cache *cache);
void fth_app_json_cache(struct fth_json *j, const struct fth_cache *cache);

/* Say what failed and return the exit status: 130 when it was stopped. */
int fth_app_exit(const char *what, int rc);

/* The same, but 77 when it failed because it is impossible here. */
int fth_app_exit_or_skip(const char *what, int rc, bool impossible);

#endif
