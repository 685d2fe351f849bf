/* SPDX-License-Identifier: BSD-2-Clause */
#include "graph_file.h"

#include "cli.h"
#include "common/scratch.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool graph_file_name(struct graph_file *file)
{
	file->directory = fth_scratch_folder(file->directory);
	if (!file->path) {
		snprintf(file->own_path, sizeof(file->own_path), "%s/fathom-graph-%ld.data",
			 file->directory, (long)getpid());
		file->path = file->own_path;
	}
	if (strpbrk(file->path, "%?&()")) {
		fth_cli_error("%s: the path must not contain %%, ?, &, ( or )", file->path);
		return false;
	}
	snprintf(file->uri, sizeof(file->uri), "file:%s", file->path);
	return true;
}

static int tell(void *context, const char *what, uint64_t done, uint64_t total)
{
	(void)context;
	fth_cli_progress(what, done, total);
	return fth_cli_stopped() ? -EINTR : 0;
}

/* Where the graph is built: closed by make_graph(). */
struct target {
	struct graph_file *file;
	struct fth_dev *dev;
};

static int open_target(void *context, uint64_t bytes, struct fth_dev **out)
{
	struct target *target = context;
	char uri[sizeof(target->file->uri) + 64];
	int rc;

	snprintf(uri, sizeof(uri), "%s?create=on&size=%llu", target->file->uri,
		 (unsigned long long)bytes);
	rc = fth_dev_open(uri, &target->dev);
	target->file->made = rc == 0;
	*out = target->dev;
	return rc;
}

static int make_graph(struct graph_file *file)
{
	const struct fth_graph_generate what = {
		.kind = FTH_GRAPH_KRONECKER,
		.scale = (unsigned)file->scale,
		.degree = (unsigned)file->degree,
		.seed = file->seed,
	};
	struct target target = {.file = file};
	const struct fth_graph_build build = {.memory = (uint64_t)1 << 30,
					      .directory = file->directory,
					      .open = open_target,
					      .context = &target};
	const struct fth_graph_job job = {.threads = (unsigned)file->threads, .progress = tell};
	int rc = fth_graph_generate(&what, &build, &job, &file->info);

	fth_cli_progress_end();
	fth_dev_close(target.dev);
	if (rc == 0 && truncate(file->path, (off_t)file->info.bytes) < 0)
		rc = fth_fail(errno, "cannot truncate the file");
	return rc;
}

static int read_graph(struct graph_file *file)
{
	struct fth_dev *dev;
	int rc = fth_dev_open(file->uri, &dev);

	if (rc < 0)
		return rc;
	rc = fth_graph_read_info(dev, &file->info);
	fth_dev_close(dev);
	if (rc == 0 && !file->info.undirected)
		rc = fth_fail(EINVAL, "the graph must be undirected");
	return rc;
}

int graph_file_open(struct graph_file *file)
{
	return access(file->path, F_OK) == 0 ? read_graph(file) : make_graph(file);
}

void graph_file_remove(struct graph_file *file, bool failed)
{
	if (file->made && (failed || file->path == file->own_path))
		unlink(file->path);
}

/* In a cache that is closed again before any fork. */
int graph_file_sources(const struct graph_file *file, uint64_t count, uint32_t *out)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	struct fth_graph *graph = NULL;
	struct fth_cache *cache;
	int rc = fth_cache_open(&options, &cache), end;

	if (rc < 0)
		return rc;
	rc = fth_graph_open(cache, file->uri, NULL, &graph);
	for (uint64_t i = 0; i < count && rc == 0; i++)
		rc = fth_graph_pick(graph, file->seed + i, &out[i]);
	end = fth_graph_close(graph);
	rc = rc < 0 ? rc : end;
	end = fth_cache_finish(&cache);
	return rc < 0 ? rc : end;
}
