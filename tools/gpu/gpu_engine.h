/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `fathom gpu` needs of CUDA. gpu_engine.cu where there is CUDA, gpu_engine_none.c where not.
 * Functions return 0 or a negative errno with a text; -EOPNOTSUPP when there is no GPU or no CUDA
 * in this build.
 */
#ifndef FTH_TOOLS_GPU_ENGINE_H
#define FTH_TOOLS_GPU_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

struct fth_dev;

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is there ---- */

#define GPU_ENGINE_DEVICES_MAX 16

struct gpu_engine_device {
	char name[256];
	char pci[32]; /* domain:bus:device.function */
	int major, minor;
	uint64_t memory, free_memory; /* bytes */
	unsigned processors, threads; /* threads: of all processors at once */
	bool code;		      /* this build has kernels for it */
	bool maps_host;		      /* kernels reach pinned host memory */
	bool gpudirect;		      /* other devices can be let into its memory */
};

/* How many there are; that many are filled in. */
int gpu_engine_devices(struct gpu_engine_device devices[GPU_ENGINE_DEVICES_MAX]);

/* ---- a kernel that reads everything ---- */

#define GPU_READER_LINE 4096u /* bytes of a line, where nothing else is asked for */

struct gpu_reader_setup {
	const char *uri;
	uint64_t cache;	 /* bytes */
	uint32_t line;	 /* bytes; 0: GPU_READER_LINE, or a block of the drive if that is larger */
	uint32_t queues; /* 0: as fits */
	unsigned device;
	bool random; /* lines in random order */
};

struct gpu_reader_stats {
	uint64_t misses, merged, reads, bytes_read, evictions, errors;
	uint64_t metadata;		 /* bytes of GPU memory beside the lines' */
	uint64_t commands, sq_doorbells; /* of the drive */
};

struct gpu_reader;

int gpu_reader_open(const struct gpu_reader_setup *setup, struct gpu_reader **reader);
const char *gpu_reader_gpu(const struct gpu_reader *reader);
uint64_t gpu_reader_lines(const struct gpu_reader *reader);

/* Bytes of a line, and of a block of the drive. */
uint32_t gpu_reader_line(const struct gpu_reader *reader);
uint32_t gpu_reader_block(const struct gpu_reader *reader);

/* Read the next n lines of the order and add them to *sum (gpu_read.h). */
int gpu_reader_run(struct gpu_reader *reader, uint64_t n, uint64_t *sum);

int gpu_reader_stats(struct gpu_reader *reader, struct gpu_reader_stats *stats);

/* The device under the drive, for the CPU to read as well; NULL if it has none. */
struct fth_dev *gpu_reader_dev(const struct gpu_reader *reader);

/*
 * The sum of a medium that only the drive has (gpu:...), read without its queues, some of it at a
 * time: adds what follows *at bytes, and moves *at on. 1 when there is more, 0 when not.
 */
int gpu_reader_medium(struct gpu_reader *reader, uint64_t *at, uint64_t *sum);

/* After `rc`, which is returned, with its text, if it is an error; else the first one of closing.
 */
int gpu_reader_close(struct gpu_reader *reader, int rc);

#ifdef __cplusplus
}
#endif
#endif
