/* SPDX-License-Identifier: BSD-2-Clause */
/* `fathom gpu` in a tool that was built without CUDA: nothing can be opened, so nothing be used. */
#include "gpu_engine.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <stddef.h>

static int none(void)
{
	return fth_fail(EOPNOTSUPP, "built without CUDA");
}

int gpu_engine_devices(struct gpu_engine_device devices[GPU_ENGINE_DEVICES_MAX])
{
	(void)devices;
	return none();
}

int gpu_reader_open(const struct gpu_reader_setup *setup, struct gpu_reader **reader)
{
	(void)setup;
	(void)reader;
	return none();
}

const char *gpu_reader_gpu(const struct gpu_reader *reader)
{
	(void)reader;
	return "none";
}

uint64_t gpu_reader_lines(const struct gpu_reader *reader)
{
	(void)reader;
	return 0;
}

uint32_t gpu_reader_line(const struct gpu_reader *reader)
{
	(void)reader;
	return 0;
}

uint32_t gpu_reader_block(const struct gpu_reader *reader)
{
	(void)reader;
	return 0;
}

int gpu_reader_run(struct gpu_reader *reader, uint64_t n, uint64_t *sum)
{
	(void)reader;
	(void)n;
	(void)sum;
	return none();
}

int gpu_reader_stats(struct gpu_reader *reader, struct gpu_reader_stats *stats)
{
	(void)reader;
	(void)stats;
	return none();
}

struct fth_dev *gpu_reader_dev(const struct gpu_reader *reader)
{
	(void)reader;
	return NULL;
}

int gpu_reader_medium(struct gpu_reader *reader, uint64_t *at, uint64_t *sum)
{
	(void)reader;
	(void)at;
	(void)sum;
	return none();
}

int gpu_reader_close(struct gpu_reader *reader, int rc)
{
	(void)reader;
	return rc;
}
