/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What tests are asked for, and a drive to go with it. With --service the drive is a device, mem:,
 * that CPU threads serve: no kernel of it is on the GPU, and tools that serialise kernels work.
 * Else it is on GPU blocks.
 */
#ifndef FTH_GPU_MEDIUM_FIXTURE_H
#define FTH_GPU_MEDIUM_FIXTURE_H

#include "gpu/gpu_fixture.h"

#include <string.h>

/* What the command line asked for. */
struct bed_arguments {
	bool small;	 /* fewer threads, less data */
	bool service;	 /* the drive is served by CPU threads */
	bool no_failure; /* nothing that costs us the GPU, or a drive */
};

static struct bed_arguments bed_asked;

static inline void bed_take_arguments(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		bed_asked.small = bed_asked.small || strcmp(argv[i], "--small") == 0;
		bed_asked.service = bed_asked.service || strcmp(argv[i], "--service") == 0;
		bed_asked.no_failure = bed_asked.no_failure || strcmp(argv[i], "--no-failure") == 0;
	}
}

/* A drive, and what host and kernels see of its medium: itself, or of a device a pinned copy. */
struct bed_medium {
	struct fth_gpu_drive *drive;
	uint64_t bytes; /* of an SSD */
	char *copy;	/* NULL: the medium itself is seen */
};

/* opts->bytes each, by opts->block; one SSD with --service, and of a model the latency of reads. */
static inline struct bed_medium bed_medium_open(struct fth_gpu_drive_options *opts)
{
	struct bed_medium medium = {NULL, opts->bytes, NULL};
	unsigned long long bytes = opts->bytes, us = 0;
	unsigned block = opts->block ? opts->block : FTH_GPU_BLOCK_MIN;
	char uri[96];

	if (!bed_asked.service) {
		OK(fth_gpu_drive_open(opts, &medium.drive));
		return medium;
	}
	if (opts->model)
		us = opts->model->read.latency_ns / 1000;
	opts->model = NULL;
	opts->block = 0; /* the device's */
	snprintf(uri, sizeof(uri),
		 us ? "delay(mem:%llu?block=%u)?read_us=%llu" : "mem:%llu?block=%u", bytes, block,
		 us);
	OK(fth_gpu_drive_open_uri(uri, opts, &medium.drive));
	/* Registered and not allocated by CUDA: it outlives a GPU that has failed. */
	medium.copy = (char *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	MUST(medium.copy != NULL);
	memset(medium.copy, 0, bytes);
	CHECK(cudaHostRegister(medium.copy, bytes, cudaHostRegisterMapped));
	return medium;
}

static inline void bed_medium_close(struct bed_medium *medium)
{
	OK(fth_gpu_drive_close(medium->drive));
	if (medium->copy)
		CHECK(cudaHostUnregister(medium->copy));
	free(medium->copy);
}

/* As the host sees it. */
static inline char *bed_medium_at(const struct bed_medium *medium, uint32_t ssd)
{
	return medium->copy ? medium->copy : (char *)fth_gpu_drive_medium(medium->drive, ssd);
}

/* SSD 0 as kernels see it, who then bypass the drive. */
static inline char *bed_medium_mapped(const struct bed_medium *medium)
{
	void *mapped = NULL;

	if (!medium->copy)
		return (char *)fth_gpu_drive_mapped(medium->drive, 0);
	CHECK(cudaHostGetDevicePointer(&mapped, medium->copy, 0));
	return (char *)mapped;
}

/* What was changed in the copy is there for the drive; */
static inline void bed_medium_push(const struct bed_medium *medium)
{
	if (medium->copy)
		OK(fth_dev_write(fth_gpu_drive_dev(medium->drive), medium->copy, medium->bytes, 0,
				 FTH_DEV_TIMEOUT));
}

/* and what the drive has changed is seen. */
static inline void bed_medium_pull(const struct bed_medium *medium)
{
	if (medium->copy)
		OK(fth_dev_read(fth_gpu_drive_dev(medium->drive), medium->copy, medium->bytes, 0,
				FTH_DEV_TIMEOUT));
}

#endif
