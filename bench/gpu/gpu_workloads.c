/* SPDX-License-Identifier: BSD-2-Clause */
/* The benchmarks of GPU threads: what each is called, takes, and compares with. */
#include "gpu_driver.h"

#include "fathom/base/error.h"
#include "fathom/dev/delay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define K ((uint64_t)1 << 10)
#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

#define OPTION(name, kind, field, ...)                                        \
	{                                                                     \
		name, kind, offsetof(struct gpu_settings, field), __VA_ARGS__ \
	}
/* name, field, default, with --smallest (0: the default), least, most, help */
#define U64(name, field, ...)	OPTION(name, FTH_CLI_U64, field, __VA_ARGS__)
#define SIZE(name, field, ...)	OPTION(name, FTH_CLI_SIZE, field, __VA_ARGS__)
#define TEXT(name, field, help) OPTION(name, FTH_CLI_STRING, field, 0, 0, 0, 0, help)
#define FLAG(name, field, help) OPTION(name, FTH_CLI_FLAG, field, 0, 0, 0, 0, help)
#define ROUNDS			U64("rounds", rounds, 3, 1, 1, GPU_ROUNDS_MAX, "medians are of")
#define MEDIUM(bytes, smallest) SIZE("medium", medium, bytes, smallest, M, 64 * G, "of host memory")
#define CACHE(bytes)		SIZE("memory", cache, bytes, 2 * M, M, 64 * G, "bytes of GPU memory")
#define LINE(bytes)		SIZE("line", line, bytes, 0, 512, 8192, "bytes of a line")
#define QUEUES(n, smallest)	U64("queues", queues, n, smallest, 1, 1024, "queue pairs")
#define BLOCKS(n)		U64("blocks", blocks, n, 4, 0, 1056, "of the kernels; 0: two for each processor")
#define AHEAD(n, smallest) \
	U64("ahead", ahead, n, smallest, 1, 32, "lines that a warp brings in at once")
#define THREADS U64("threads", threads, 16, 2, 1, 256, "of the CPU, to make the data")

#ifdef FTH_BENCH_CUDA
#define RUN(function) .run = (function)
#else
#define RUN(function) .run = NULL
#endif

/* 0 (also for an option that was not given), or -EINVAL with a text that names the option. */
static int check_power(const char *option, uint64_t n)
{
	if (!(n & (n - 1)))
		return 0;
	return fth_fail(EINVAL, "--%s %llu: expected a power of two", option,
			(unsigned long long)n);
}

/* ---- gpublock ---- */

#define BLOCK_THREADS "32,256,1024,4096,32768,131072"
#define BLOCK_QUEUES  "1,16,128"
#define SWEEP_THREADS "1024,2048,4096,8192,16384,32768,65536,131072,262144"
#define SWEEP_QUEUES  "1,2,4,8,16,32,64,128"

static const struct gpu_option block_options[] = {
	TEXT("threads", thread_text, "how many, a list; default " BLOCK_THREADS),
	TEXT("queues", queue_text, "a list of numbers of queue pairs; default " BLOCK_QUEUES),
	MEDIUM(16 * G, 64 * M),
	SIZE("data", data, 4 * G, 32 * M, M, 64 * G, "of GPU memory"),
	U64("entries", entries, 1024, 0, 64, 1024, "of the rings"),
	U64("ssds", ssds, 1, 0, 1, 16, "that share the queue pairs and the medium"),
	TEXT("model", model, "of the SSDs; default: as fast as it goes"),
	U64("warps", warps, 0, 0, 0, 16, "of the controller per queue pair; 0: its choice"),
	U64("batch", batch, 0, 0, 0, 32, "commands they take at once; 0: their choice"),
	FLAG("ordered", ordered, "follow reads by a second command"),
	FLAG("thread", each_thread, "also each thread for itself"),
	U64("ms", ms, 0, 10, 0, 10000, "a run lasts at most; 0: 100, or 40 with --sweep"),
	ROUNDS,
	FLAG("sweep", sweep, "512-byte reads at many points, a line of JSON for each, for figures"),
	{0},
};

static int parse_list(const char *name, const char *text, uint32_t max, struct gpu_list *list)
{
	list->n = 0;
	while (list->n < GPU_LIST_MAX) {
		char *end;
		unsigned long n = strtoul(text, &end, 10);

		if (end == text || n == 0 || n > max)
			return fth_fail(EINVAL, "--%s: expected numbers from 1 to %u", name, max);
		list->values[list->n++] = (uint32_t)n;
		if (*end == '\0')
			return 0;
		if (*end != ',')
			return fth_fail(EINVAL,
					"--%s %s: expected a list of numbers, such as 1,2,4", name,
					text);
		text = end + 1;
	}
	return fth_fail(EINVAL, "--%s: more than %d numbers", name, GPU_LIST_MAX);
}

static void choose_lists(struct gpu_settings *s)
{
	if (!s->thread_text)
		s->thread_text = s->smallest ? "32,4096" : s->sweep ? SWEEP_THREADS : BLOCK_THREADS;
	if (!s->queue_text)
		s->queue_text = s->smallest ? "1,16" : s->sweep ? SWEEP_QUEUES : BLOCK_QUEUES;
	if (s->ms == 0)
		s->ms = s->sweep ? 40 : 100;
}

static int check_block(struct gpu_settings *s)
{
	int rc;

	choose_lists(s);
	rc = parse_list("threads", s->thread_text, 262144, &s->thread_list);
	if (rc == 0)
		rc = parse_list("queues", s->queue_text, 1024, &s->queue_list);
	if (rc < 0)
		return rc;
	for (unsigned i = 0; i < s->thread_list.n; i++)
		if (s->thread_list.values[i] % 32 ||
		    (s->thread_list.values[i] > 128 && s->thread_list.values[i] % 128))
			return fth_fail(
				EINVAL,
				"--threads: expected multiples of 32, above 128 multiples of 128");
	if (check_power("medium", s->medium) < 0 || check_power("entries", s->entries) < 0 ||
	    check_power("ssds", s->ssds) < 0)
		return -EINVAL;
	for (unsigned i = 0; i < s->queue_list.n; i++)
		if (s->queue_list.values[i] % s->ssds)
			return fth_fail(EINVAL,
					"--queues: expected a multiple of the number of SSDs");
	if (s->model && !fth_dev_model(s->model))
		return fth_fail(EINVAL, "--model: unknown model \"%s\"; see fathom dev models",
				s->model);
	return 0;
}

/* ---- gpucache ---- */

static const struct gpu_option cache_options[] = {
	MEDIUM(16 * G, 64 * M),
	SIZE("hot", hot, 8 * G, 16 * M, M, 64 * G, "bytes that are all hot"),
	SIZE("cold", cold, 2 * G, 8 * M, M, 64 * G, "of the cache that is too small"),
	QUEUES(128, 16),
	U64("threads", threads, 131072, 4096, 256, M, "that miss"),
	ROUNDS,
	{0},
};

static int check_cache(struct gpu_settings *s)
{
	if (check_power("medium", s->medium) < 0 || check_power("hot", s->hot) < 0)
		return -EINVAL;
	if (s->hot > s->medium || s->cold > s->medium / 4)
		return fth_fail(EINVAL, "--medium is too small for the other sizes");
	if (s->threads % 256)
		return fth_fail(EINVAL, "--threads: expected a multiple of 256");
	return 0;
}

/* ---- gpufile ---- */

#define CPU_THREADS_MOST  8 /* by default; half of the processors, the others have work as well */
#define QUEUES_PER_THREAD 4
#define THREADS_PER_QUEUE 256
#define SEED_MAX	  65535 /* 24 bits are for seeds and runs that write */

static const struct gpu_option file_options[] = {
	TEXT("flash", device, "URI; default: a file of our own, removed afterwards"),
	FLAG("force", force, "overwrite the device"),
	TEXT("dir", folder, "where the file is; default TMPDIR or /tmp"),
	TEXT("options", file_options, "of the device, as in its URI"),
	SIZE("size", size, G, 16 * M, M, G << 10, "of the device, at most"),
	SIZE("memory", cache, 0, 2 * M, 0, 64 * G, "bytes of GPU memory; 0: an eighth of the size"),
	U64("queues", queues, 0, 2, 0, 1024, "queue pairs; 0: four for each CPU thread"),
	U64("entries", entries, 256, 64, 64, 4096, "of their rings"),
	U64("cpu-threads", cpu_threads, 0, 2, 0, 64,
	    "that serve them, or are the peer; 0: half of the processors, 8 at most"),
	U64("threads", threads, 0, 512, 0, 1u << 18, "of the GPU; 0: 256 for each queue pair"),
	AHEAD(16, 8),
	U64("depth", depth, 256, 32, 1, 4096,
	    "requests each CPU thread of the peer has on the device; ours have 256"),
	U64("batch", batch, 1024, 64, 32, 65536,
	    "blocks of the peer's copies; tiles are as many of 4 KiB"),
	U64("ms", ms, 500, 0, 1, 60000, "random blocks are used for, at most"),
	U64("seed", seed, 1, 0, 0, SEED_MAX, "of the data"),
	ROUNDS,
	{0},
};

static int check_file(struct gpu_settings *s)
{
	long half = sysconf(_SC_NPROCESSORS_ONLN) / 2;

	if (s->cpu_threads == 0)
		s->cpu_threads = half < 2		   ? 1
				 : half < CPU_THREADS_MOST ? (uint64_t)half
							   : CPU_THREADS_MOST;
	if (s->queues == 0)
		s->queues = QUEUES_PER_THREAD * s->cpu_threads;
	if (s->threads == 0)
		s->threads = THREADS_PER_QUEUE * s->queues;
	if (check_power("size", s->size) < 0 || check_power("entries", s->entries) < 0)
		return -EINVAL;
	if (s->threads % 256)
		return fth_fail(EINVAL, "--threads: expected a multiple of 256");
	if (s->device && (s->folder || s->file_options))
		return fth_fail(EINVAL, "--dir and --options apply only without a device");
	if (s->device && !s->force && strncmp(s->device, "mem:", 4) != 0)
		return fth_fail(EINVAL, "%s would be overwritten; use --force to allow it",
				s->device);
	return 0;
}

/* ---- gpugraph ---- */

static const struct gpu_option graph_options[] = {
	U64("scale", scale, 27, 14, 8, 30, "2^N vertices"),
	U64("degree", degree, 16, 0, 1, 64, "edges per vertex, in both directions"),
	SIZE("line", line, 0, 0, 512, 8192, "bytes of a line; default: what suits each"),
	QUEUES(128, 16),
	U64("warps", warps, 0, 0, 0, 16, "of the controller for each; default: as fits"),
	U64("share", share, 4, 0, 1, 1024, "the cache has one Nth of the edges"),
	TEXT("only", only, "bfs_push, bfs, cc, pagerank or sssp"),
	U64("iterations", iterations, 3, 0, 1, 100, "of PageRank"),
	ROUNDS,
	FLAG("unweighted", unweighted, "no shortest paths: half the memory"),
	{0},
};

static int check_graph(struct gpu_settings *s)
{
	static const char *const names[] = {"bfs_push", "bfs", "cc", "pagerank", "sssp"};
	bool found = !s->only;

	for (unsigned i = 0; !found && i < sizeof(names) / sizeof(names[0]); i++)
		found = strcmp(s->only, names[i]) == 0;
	if (!found)
		return fth_fail(EINVAL, "--only: unknown algorithm %s", s->only);
	if (s->only && s->unweighted && strcmp(s->only, "sssp") == 0)
		return fth_fail(EINVAL, "--only sssp requires weights");
	return check_power("line", s->line);
}

/* ---- gpupattern, gputaxi, gpuvector ---- */

static const struct gpu_option pattern_options[] = {
	MEDIUM(8 * G, 16 * M),
	SIZE("hot", hot, G, M, M, 64 * G, "bytes that are all hot"),
	SIZE("stride", stride, 8 * K, 0, 8, M, "bytes"),
	SIZE("cold-accesses", cold_accesses, 4 * M, 64 * K, 1, G << 10, "elements read"),
	SIZE("hot-accesses", hot_accesses, 256 * M, 256 * K, 1, G << 10, "likewise"),
	CACHE(2 * G),
	LINE(4096),
	QUEUES(128, 8),
	BLOCKS(528),
	AHEAD(1, 2),
	ROUNDS,
	THREADS,
	{0},
};

static int check_pattern(struct gpu_settings *s)
{
	if (check_power("medium", s->medium) < 0 || check_power("hot", s->hot) < 0 ||
	    check_power("stride", s->stride) < 0)
		return -EINVAL;
	if (s->hot > s->cache || s->hot > s->medium || s->stride > s->hot)
		return fth_fail(
			EINVAL,
			"--hot must be at least --stride and at most --memory and --medium");
	return 0;
}

/* ---- gpupm ---- */

#define PM_THREADS    "65536,262144,1048576"
#define PM_SIZES      "16,32,64,128"
#define PM_PARTITIONS "1024,8192,65536,262144"

#define PM_PARTITIONS_MAX 5

static const struct gpu_option pm_options[] = {
	TEXT("threads", thread_text, "that log, a list; default " PM_THREADS),
	TEXT("sizes", size_text, "bytes of entries, a list; default " PM_SIZES),
	TEXT("partitions", partition_text,
	     "of the conventional log, a list; default " PM_PARTITIONS),
	SIZE("data", data, 256 * M, M, M, 16 * G, "payload that a run logs"),
	TEXT("kind", device, "shm, or process: memory of the process; default: shm if it fits"),
	TEXT("only", only, "one part: log"),
	U64("cpu-threads", cpu_threads, 16, 2, 1, 256, "of the CPU, that check entries"),
	ROUNDS,
	{0},
};

static int check_pm(struct gpu_settings *s)
{
	static const char *const defaults[2][3] = {{PM_THREADS, PM_SIZES, PM_PARTITIONS},
						   {"4096", "16,64", "64,1024"}};
	const char *const *d = defaults[s->smallest];
	int rc = parse_list("threads", s->thread_text ? s->thread_text : d[0], 1u << 24,
			    &s->thread_list);

	if (rc == 0)
		rc = parse_list("sizes", s->size_text ? s->size_text : d[1], 128, &s->size_list);
	if (rc == 0)
		rc = parse_list("partitions", s->partition_text ? s->partition_text : d[2],
				1u << 24, &s->partition_list);
	if (rc < 0)
		return rc;
	if (s->partition_list.n > PM_PARTITIONS_MAX)
		return fth_fail(EINVAL, "--partitions: at most %d numbers", PM_PARTITIONS_MAX);
	for (unsigned i = 0; i < s->thread_list.n; i++)
		if (s->thread_list.values[i] % 256)
			return fth_fail(EINVAL, "--threads: expected multiples of 256");
	return 0;
}

/* Few queue pairs: the controller has some processors for itself, and fences elsewhere are not held
 * up by what it has under way. */
static const struct gpu_option taxi_options[] = {
	SIZE("rows", rows, 256000000, 200000, 1000, 2 * G, "trips"),
	SIZE("scan-memory", scan_cache, G, 2 * M, M, 64 * G,
	     "as --memory, for the column that is scanned"),
	SIZE("scan-line", scan_line, 4096, 0, 512, 8192, "as --line, likewise"),
	SIZE("tile", tile, 4 * M, 32 * K, 4096, 64 * M, "rows that the peer moves at once"),
	U64("seed", seed, 1, 0, 0, UINT64_MAX / 2, "of the trips"),
	CACHE(512 * M),
	LINE(512),
	QUEUES(32, 8),
	BLOCKS(0),
	AHEAD(32, 2),
	ROUNDS,
	THREADS,
	{0},
};

/* A small cache: what is dirty at the end is written when nothing is read any more. */
static const struct gpu_option vector_options[] = {
	SIZE("vector", vector, 4 * G, 8 * M, M, 32 * G, "bytes of each vector"),
	SIZE("tile", tile, 32 * M, M, 8192, G, "bytes that the peer moves at once"),
	CACHE(256 * M),
	LINE(4096),
	QUEUES(128, 8),
	BLOCKS(0),
	AHEAD(4, 2),
	ROUNDS,
	THREADS,
	{0},
};

static int check_vector(struct gpu_settings *s)
{
	if (s->vector % 8192 || s->tile % 8192)
		return fth_fail(EINVAL, "--vector and --tile must be multiples of 8192");
	return 0;
}

/* ---- all ---- */

const struct gpu_workload fth_bench_gpu[GPU_WORKLOADS] = {
	[GPU_BLOCK] =
		{.command = {"gpublock", "GPU threads and storage: ours, one lock, the limit",
			     gpu_bench},
		 .text = "GPU threads read and write random blocks of host memory through NVMe\n"
			 "queue pairs: ours, and one lock around a queue pair. The limit is the\n"
			 "same blocks moved with no queue.",
		 .unit = "commands/s",
		 .peer = "lock",
		 .options = block_options,
		 .check = check_block,
		 RUN(gpublock_run)},
	[GPU_CACHE] = {.command = {"gpucache", "arrays through a cache in GPU memory, hot and cold",
				   gpu_bench},
		       .text = "Arrays through a cache in GPU memory: hot lines against plain GPU\n"
			       "memory, cold ones against random blocks copied with no cache.",
		       .unit = "lines/s",
		       .peer = "random blocks copied with no cache",
		       .options = cache_options,
		       .check = check_cache,
		       RUN(gpucache_run)},
	[GPU_FILE] =
		{.command = {"gpufile", "a file used by GPU threads, served by CPU threads",
			     gpu_bench},
		 .text = "GPU threads that use a file, or any device, by way of CPU threads that\n"
			 "serve it: random blocks read, written and read back, and an array "
			 "larger\n"
			 "than its cache. Against as many CPU threads that read the same data and\n"
			 "have it copied to the GPU; they must know beforehand what the GPU "
			 "needs.\n"
			 "All that is read is checked on the GPU.",
		 .unit = "bytes/s, sequential through the cache",
		 .peer = "CPU threads that know what to read, and the copy engine, in turns",
		 .options = file_options,
		 .check = check_file,
		 RUN(gpufile_run)},
	[GPU_GRAPH] =
		{.command = {"gpugraph", "graphs on a GPU, edges through its cache or by zero copy",
			     gpu_bench},
		 .text = "Graphs whose edges are in host memory, worked on by a GPU: through a\n"
			 "cache in GPU memory that holds a part of them, against the same by zero\n"
			 "copy. The ratio is the worst of bfs_push and cc on both graphs;\n"
			 "bfs_against_push is our search in either direction against push by zero\n"
			 "copy, which is what EMOGI does.",
		 .unit = "runs/s",
		 .peer = "the same algorithm by zero copy from pinned host memory",
		 .options = graph_options,
		 .check = check_graph,
		 RUN(gpugraph_run)},
	[GPU_PATTERN] =
		{.command = {"gpupattern", "elements read on a GPU in patterns, cold and hot",
			     gpu_bench},
		 .text = "Elements read by GPU threads one after the other, with a stride,\n"
			 "anywhere, and by Zipf's law; cold and hot, through a cache in GPU\n"
			 "memory, against reading host memory directly. All that is read is\n"
			 "checked.",
		 .unit = "elements/s, zipf, hot",
		 .peer = "zero copy from pinned host memory",
		 .options = pattern_options,
		 .check = check_pattern,
		 RUN(gpupattern_run)},
	[GPU_PM] =
		{.command = {"gpupm", "persistence from inside kernels: logs", gpu_bench},
		 .text = "Threads of a kernel that log into persistent memory of the host: the\n"
			 "hierarchical coalesced log, with one check word for each entry and one\n"
			 "fence for each insertion, against plain coalesced stores (raw), against\n"
			 "conventional logging as GPM has it, with locks and a persistent end of\n"
			 "each partition (tail), and against our conventional log, which does\n"
			 "without that end (conv); both at their best number of partitions. The\n"
			 "host reads and checks all entries after each run.",
		 .unit = "bytes/s of payload, at the worst ratio",
		 .peer = "conventional logging as GPM has it, at its best number of partitions",
		 .options = pm_options,
		 .check = check_pm,
		 RUN(gpupm_run)},
	[GPU_TAXI] =
		{.command = {"gputaxi",
			     "queries on a GPU that select few trips, against moving whole columns",
			     gpu_bench},
		 .text = "Queries over taxi trips on a GPU: a scan of the distances, and up to\n"
			 "five more columns for the 0.47 % or 0.03 % of trips that are long\n"
			 "enough, with nothing in the cache; against moving whole columns to the\n"
			 "GPU. All answers are checked.",
		 .unit = "trips/s of Q5 at 0.03 %",
		 .peer = "whole columns moved by the copy engine, tiled",
		 .options = taxi_options,
		 RUN(gputaxi_run)},
	[GPU_VECTOR] =
		{.command = {"gpuvector",
			     "vectorAdd, sum and prefix sum on a GPU, against tiles copied ahead",
			     gpu_bench},
		 .text = "vectorAdd, a sum and a prefix sum on a GPU over vectors larger than the\n"
			 "cache, against tiles that are copied ahead (and CUB on them), and\n"
			 "against the same kernels straight on host memory. All results are\n"
			 "checked.",
		 .unit = "bytes/s of vectorAdd, in and out",
		 .peer = "tiles moved by the copy engine, three at a time",
		 .options = vector_options,
		 .check = check_vector,
		 RUN(gpuvector_run)},
};
