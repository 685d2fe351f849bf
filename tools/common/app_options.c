/* SPDX-License-Identifier: BSD-2-Clause */
#include "app_options.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>

int fth_app_policy(const struct fth_app_options *app, enum fth_cache_policy *out)
{
	*out = FTH_CACHE_DEFAULT;
	return app->policy ? fth_cache_policy_parse(app->policy, out) : 0;
}

int fth_app_open_cache(const struct fth_app_options *app, uint32_t line, struct fth_cache **out)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	int rc = fth_app_policy(app, &options.policy);

	if (rc < 0)
		return rc;
	options.memory = app->cache;
	options.line = app->line ? (uint32_t)app->line : line;
	return fth_cache_open(&options, out);
}

static double share(uint64_t part, uint64_t rest)
{
	return part + rest ? (double)part / (double)(part + rest) : 0;
}

static double over(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

void fth_app_print_cache(const struct fth_cache *cache)
{
	uint64_t hits = fth_cache_stat(cache, FTH_CACHE_HITS);
	uint64_t misses = fth_cache_stat(cache, FTH_CACHE_MISSES);
	uint64_t read = fth_cache_stat(cache, FTH_CACHE_BYTES_READ);
	uint64_t written = fth_cache_stat(cache, FTH_CACHE_BYTES_WRITTEN);
	uint64_t wanted = fth_cache_stat(cache, FTH_CACHE_BYTES_WANTED);
	char a[FTH_CLI_BYTES_MAX], b[FTH_CLI_BYTES_MAX];

	printf("hits           %.2f %% (%llu of %llu)\n", 100 * share(hits, misses),
	       (unsigned long long)hits, (unsigned long long)(hits + misses));
	printf("read           %s in %llu requests\n", fth_cli_bytes(a, read),
	       (unsigned long long)fth_cache_stat(cache, FTH_CACHE_READ_REQUESTS));
	printf("written        %s in %llu requests\n", fth_cli_bytes(b, written),
	       (unsigned long long)fth_cache_stat(cache, FTH_CACHE_WRITE_REQUESTS));
	printf("amplification  %.3f bytes read per byte requested\n", over(read, wanted));
}

void fth_app_json_cache(struct fth_json *j, const struct fth_cache *cache)
{
	uint64_t read = fth_cache_stat(cache, FTH_CACHE_BYTES_READ);
	uint64_t wanted = fth_cache_stat(cache, FTH_CACHE_BYTES_WANTED);

	fth_json_u64(j, "line", fth_cache_line_size(cache));
	fth_json_object(j, "cache");
	for (unsigned i = 0; i < FTH_CACHE_STAT_COUNT; i++)
		fth_json_u64(j, fth_cache_stat_name(i), fth_cache_stat(cache, i));
	fth_json_end(j);
	fth_json_double(j, "amplification", over(read, wanted));
}

int fth_app_exit(const char *what, int rc)
{
	if (fth_cli_stopped() || rc == -EINTR)
		return FTH_EXIT_INTERRUPTED;
	if (rc == 0)
		return FTH_EXIT_OK;
	fth_cli_error("%s: %s", what, fth_error_text(rc));
	return FTH_EXIT_FAILED;
}

int fth_app_exit_or_skip(const char *what, int rc, bool impossible)
{
	int status = fth_app_exit(what, rc);

	return status == FTH_EXIT_FAILED && impossible ? FTH_EXIT_IMPOSSIBLE : status;
}
