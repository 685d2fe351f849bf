/* SPDX-License-Identifier: BSD-2-Clause */
/* Options and endings that `fathom bench gputaxi`, `gpuvector` and `gpupattern` share. */
#ifndef FTH_BENCH_GPUSTREAM_CLI_H
#define FTH_BENCH_GPUSTREAM_CLI_H

#include "gpustream.h"

#include "cli.h"
#include "json.h"

#include "fathom/base/error.h"

#include <errno.h>

/* As the command line has them. */
struct gpustream_numbers {
	uint64_t cache, line, queues, blocks, ahead, rounds, threads;
	bool smallest;
};

#define GPUSTREAM_OPTIONS(n)                                                                       \
	{"cache", FTH_CLI_SIZE, &(n)->cache, 1u << 20, 64ull << 30, "bytes of GPU memory"},        \
		{"line", FTH_CLI_SIZE, &(n)->line, 512, 8192, "bytes of a line"},                  \
		{"queues", FTH_CLI_U64, &(n)->queues, 1, 1024, "queue pairs"},                     \
		{"blocks", FTH_CLI_U64, &(n)->blocks,                                              \
		 0,	   1056,	"of the kernels; 0: two for each processor"},              \
		{"ahead", FTH_CLI_U64, &(n)->ahead, 1, 32, "lines that a warp brings in at once"}, \
		{"rounds", FTH_CLI_U64, &(n)->rounds, 1, GPUSTREAM_ROUNDS_MAX, "medians are of"},  \
		{"threads", FTH_CLI_U64, &(n)->threads, 1, 256, "of the CPU, to make the data"},   \
	{                                                                                          \
		"smallest", FTH_CLI_FLAG, &(n)->smallest, 0, 0, "a second's worth, for tests"      \
	}

static inline struct gpustream_setup gpustream_settle(const struct gpustream_numbers *n)
{
	struct gpustream_setup s = {
		.cache = n->smallest ? 2u << 20 : n->cache,
		.line = (uint32_t)n->line,
		.queues = n->smallest ? 8 : (uint32_t)n->queues,
		.blocks = n->smallest ? 4 : (uint32_t)n->blocks,
		.ahead = n->smallest ? 2 : (uint32_t)n->ahead,
		.rounds = n->smallest ? 1 : (unsigned)n->rounds,
		.threads = n->smallest ? 2 : (unsigned)n->threads,
		.stopped = fth_cli_stopped,
	};

	return s;
}

static inline void gpustream_json(struct fth_json *j, const struct gpustream_setup *s,
				  const char *gpu)
{
	fth_json_string(j, "gpu", gpu);
	fth_json_u64(j, "cache", s->cache);
	fth_json_u64(j, "line", s->line);
	fth_json_u64(j, "queues", s->queues);
	fth_json_u64(j, "blocks", s->blocks);
	fth_json_u64(j, "ahead", s->ahead);
	fth_json_u64(j, "rounds", s->rounds);
}

#endif
