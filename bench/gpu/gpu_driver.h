/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Benchmarks of GPU threads. Each is a row of the table in workloads.c: a name, options, and a
 * function in a .cu file that measures. driver.c does the rest for all of them: it reads the
 * options, prints cases as they come, and ends with the line of JSON. setup.h has what the
 * functions share.
 */
#ifndef FTH_BENCH_GPU_DRIVER_H
#define FTH_BENCH_GPU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __cplusplus
#include "cli.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define GPU_ROUNDS_MAX 9
#define GPU_LIST_MAX   16

/* A list of numbers, as in --threads 32,256. */
struct gpu_list {
	unsigned n;
	uint32_t values[GPU_LIST_MAX];
};

/* What the command line says. A workload uses the fields that its options name. */
struct gpu_settings {
	/* bytes */
	uint64_t medium; /* of pinned host memory, which a drive is made of */
	uint64_t data;	 /* of GPU memory that random blocks are moved to */
	uint64_t hot, cold, cache, line, scan_cache, scan_line, vector, size, stride;
	/* drives */
	uint64_t queues, entries, ssds, warps, batch, ms;
	bool ordered;
	const char *model, *device, *folder, *file_options;
	bool force;
	/* kernels and CPU threads */
	uint64_t blocks, ahead, threads, cpu_threads, depth;
	struct gpu_list thread_list, queue_list, size_list, partition_list;
	const char *thread_text, *queue_text, *size_text, *partition_text;
	/* workloads */
	uint64_t tile, rows, seed, cold_accesses, hot_accesses, scale, degree, share, iterations;
	bool unweighted, each_thread, sweep;
	const char *only;
	/* all of them */
	uint64_t rounds;
	bool smallest;
};

/* ---- what a workload tells ---- */

struct gpu_report;

/*
 * Open a case, and close it: it is printed then, as a row of a table or as a line of JSON
 * (--sweep).
 */
void gpu_case(struct gpu_report *report);
void gpu_case_end(struct gpu_report *report);

/*
 * A value of the open case, or of the whole run if none is open. Keys are constants, texts are
 * copied. There is room for GPU_VALUES_MAX; what is more is left out.
 */
#define GPU_VALUES_MAX 8192
void gpu_number(struct gpu_report *report, const char *key, double value);
void gpu_count(struct gpu_report *report, const char *key, uint64_t value);
void gpu_text(struct gpu_report *report, const char *key, const char *value);

/* What sums it up, in the workload's unit; larger is better. */
void gpu_sum(struct gpu_report *report, double ours, double peer);

/* -EINTR if the user wants it to end, or 0. */
int gpu_stopped(void);

void gpu_progress(const char *what, uint64_t done, uint64_t total);

/* ---- workloads ---- */

struct gpu_setup;

/* Measure and check; 0, -EILSEQ for wrong data, -EINTR, or another error with a text. */
typedef int gpu_run_function(const struct gpu_settings *s, struct gpu_setup *setup,
			     struct gpu_report *report);

/* In .cu files, so only where CUDA is. */
gpu_run_function gpublock_run, gpucache_run, gpufile_run, gpugraph_run, gpupattern_run, gpupm_run,
	gputaxi_run, gpuvector_run;

/*
 * Find a GPU, call `run`, and take down what it has left open. -EOPNOTSUPP where there is no GPU.
 */
int gpu_run(gpu_run_function *run, const struct gpu_settings *s, struct gpu_report *report);

/* Name the GPU in the report. */
void gpu_name(struct gpu_report *report, const char *name);

#ifndef __cplusplus
struct gpu_option {
	const char *name;
	enum fth_cli_kind kind;
	size_t field;		  /* offset in struct gpu_settings */
	uint64_t value, smallest; /* the default; with --smallest, 0: as it is */
	uint64_t min, max;
	const char *help;
};

struct gpu_workload {
	struct fth_command command;
	const char *text;	 /* for --help */
	const char *unit, *peer; /* of the result, and with whom it compares */
	const struct gpu_option *options;
	int (*check)(struct gpu_settings *s); /* what ranges do not say; may be NULL */
	gpu_run_function *run;		      /* NULL: built without CUDA */
};

enum {
	GPU_BLOCK,
	GPU_CACHE,
	GPU_FILE,
	GPU_GRAPH,
	GPU_PATTERN,
	GPU_PM,
	GPU_TAXI,
	GPU_VECTOR,
	GPU_WORKLOADS
};

extern const struct gpu_workload fth_bench_gpu[GPU_WORKLOADS];

/* Run of every workload's command: argv[0] is its name. */
int gpu_bench(int argc, char **argv);
#endif

#ifdef __cplusplus
}
#endif
#endif
