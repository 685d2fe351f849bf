/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpufile`: GPU threads that use a file, or any other device, which threads of the
 * CPU serve: random blocks, and an array through a cache. Against a program whose CPU threads, as
 * many, read the same data and copy it to the GPU, for which they must know beforehand what it
 * needs.
 *
 * This is the drive, our side of every case, and both in turn. gpufile_kernels.h has our kernels,
 * gpufile_peer.cu the other side, gpufile_host.c what both do on the CPU.
 *
 * Idle threads of a service sleep, so it stays as it is while the peer runs. No kernel of a service
 * drive is in the way of anything: GPU memory may be taken and freed at any time.
 */
#include "gpufile_internal.h"
#include "gpufile_kernels.h"

extern "C" {
#include "common/scratch.h"
}

#include <string.h>

#define PER_BLOCK    256u
#define CACHE_SHARE  8
#define RANDOM_SHARE 4
#define REQUEST	     (128u << 10)

/* Writing comes last: what was written is not put back. */
enum { READ_512, READ_4096, SEQUENTIAL, RANDOM, WRITE_READ, CASES };

/* One run of each side. Commands a second; bytes a second of cases with a cache. */
struct round {
	double ours, peer;
	uint64_t commands; /* that were served; lines read from the device, with a cache */
};

/* ---- the device ---- */

static uint64_t power_of_two_below(uint64_t n)
{
	while (n & (n - 1))
		n &= n - 1;
	return n;
}

static int open_drive(struct gpufile *b, const char *uri)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_view view;
	uint64_t bytes;
	int rc;

	opts.queues = (uint32_t)b->s->queues;
	opts.entries = (uint32_t)b->s->entries;
	opts.threads = (uint32_t)b->s->cpu_threads;
	opts.slot = GPUFILE_LINE;
	rc = fth_gpu_drive_open_uri(uri, &opts, &b->setup->drive);
	if (rc < 0)
		return rc;
	b->dev = fth_gpu_drive_dev(b->setup->drive);
	if (!b->dev)
		return fth_fail(EINVAL, "%s is not served by CPU threads", uri);
	view = fth_gpu_drive_view(b->setup->drive);
	bytes = view.blocks << view.block_shift;
	b->size = power_of_two_below(bytes < b->s->size ? bytes : b->s->size);
	bytes = fth_dev_info(b->dev)->max_length;
	b->request = (uint32_t)power_of_two_below(bytes < REQUEST ? bytes : REQUEST);
	b->cache_bytes = b->s->cache ? b->s->cache : b->size / CACHE_SHARE;
	return 0;
}

static int check_sizes(const struct gpufile *b)
{
	uint64_t lines = b->size / GPUFILE_LINE, held = b->cache_bytes / GPUFILE_LINE;
	uint64_t wanted = 2ull * ((uint32_t)b->s->threads / 32) * (uint32_t)b->s->ahead;

	if (lines < (uint32_t)b->s->threads)
		return fth_fail(EINVAL, "%u threads are too many for %llu blocks of %u bytes",
				(uint32_t)b->s->threads, (unsigned long long)lines, GPUFILE_LINE);
	if (held > lines / 2)
		return fth_fail(EINVAL, "the cache is more than half of the %llu bytes used",
				(unsigned long long)b->size);
	if (held < wanted)
		return fth_fail(EINVAL, "a cache of %llu lines is too small: %llu lines are needed",
				(unsigned long long)held, (unsigned long long)wanted);
	if (b->request < GPUFILE_LINE)
		return fth_fail(EINVAL, "the device does not support requests of %u bytes",
				GPUFILE_LINE);
	return 0;
}

static int open_array(struct gpufile *b)
{
	struct fth_gpu_array_options array = FTH_GPU_ARRAY_OPTIONS_INIT;
	int rc = gpu_setup_cache(b->setup, b->cache_bytes, GPUFILE_LINE, &b->cache);

	array.count = b->size / 8;
	array.readonly = true;
	return rc < 0 ? rc : fth_gpu_array_open(b->cache, &array, &b->array);
}

static struct gpufile_order order_of(const struct gpufile *b, uint32_t bytes, bool random)
{
	struct gpufile_order order = {};

	order.first = random ? b->next : 0;
	order.mask = b->size / bytes - 1;
	while (gpufile_bytes(&order) < bytes)
		order.shift++;
	order.stamp = (uint32_t)b->s->seed;
	order.random = random;
	return order;
}

/* All that needs no device: where there is no GPU no file is made. */
static int open_memory(struct gpufile *b)
{
	uint64_t data = 2ull * GPUFILE_LINE * b->s->threads;
	int rc = gpu_setup_map(b->setup, b->s->cpu_threads * GPUFILE_BUFFERS * gpufile_tile(b));

	DO(rc, gpu_setup_pin(b->setup));
	DO(rc, gpu_setup_alloc(b->setup, &b->report, 1));
	DO(rc, gpu_setup_alloc(b->setup, &b->data, data));
	TRY(rc, cudaMemsetAsync(b->data, 0xa5, data, b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	DO(rc, gpufile_peer_open(b));
	return rc;
}

static bool is_stopped(void)
{
	return gpu_stopped() < 0;
}

static void tell_filling(uint64_t done, uint64_t total)
{
	gpu_progress("filling", done, total);
}

static int open_device(struct gpufile *b, const char *uri)
{
	const struct gpufile_watch watch = {is_stopped, tell_filling};
	struct gpufile_order all;
	int rc = open_drive(b, uri);

	DO(rc, check_sizes(b));
	if (rc < 0)
		return rc;
	all = order_of(b, b->request, false);
	rc = gpufile_fill(b->dev, &all, (unsigned)b->s->cpu_threads, &watch);
	DO(rc, gpufile_peer_start(b));
	DO(rc, open_array(b));
	return rc;
}

/* ---- a run, by either side ---- */

static int clear_report(struct gpufile *b)
{
	int rc = gpu_stopped();

	TRY(rc, cudaMemsetAsync(b->report, 0, sizeof(*b->report), b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	return rc;
}

/* What the kernels told. */
static int judge(struct gpufile *b, struct gpufile_report *told)
{
	int rc = 0;

	TRY(rc, cudaMemcpyAsync(told, b->report, sizeof(*told), cudaMemcpyDeviceToHost,
				b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	if (rc == 0 && told->work.failed)
		rc = fth_fail(-told->work.rc, "%llu warps failed, one with %s", told->work.failed,
			      strerror(-told->work.rc));
	if (rc == 0 && told->wrong)
		rc = fth_fail(EILSEQ, "%llu GPU threads read wrong data", told->wrong);
	return rc;
}

static int run_peer(struct gpufile *b, const struct gpufile_order *order, uint64_t n, bool write,
		    double *seconds)
{
	struct gpufile_report told;
	int rc = clear_report(b);

	DO(rc, gpu_timed([&] { return gpufile_peer_run(b, order, n, write); }, seconds));
	return rc < 0 ? rc : judge(b, &told);
}

/* ---- random blocks ---- */

static int launch_blocks(struct gpufile *b, const struct gpufile_order *order, bool write,
			 double *seconds)
{
	uint32_t blocks = (uint32_t)b->s->threads / PER_BLOCK;
	struct gpufile_job job = {};
	int rc = clear_report(b);

	if (rc < 0)
		return rc;
	job.view = fth_gpu_drive_view(b->setup->drive);
	job.order = *order;
	job.data = b->data;
	job.report = b->report;
	job.limit_ns = b->s->ms * 1000000ull;
	job.threads = (uint32_t)b->s->threads;
	/* No block twice in a run: nobody else writes what is read back. */
	job.rounds = (uint32_t)((order->mask + 1) / job.threads);
	return gpu_timed(
		[&] {
			int rc = 0;

			if (write)
				gpufile_blocks<true>
					<<<blocks, PER_BLOCK, 0, b->setup->stream>>>(job);
			else
				gpufile_blocks<false>
					<<<blocks, PER_BLOCK, 0, b->setup->stream>>>(job);
			TRY(rc, cudaGetLastError());
			TRY(rc, cudaStreamSynchronize(b->setup->stream));
			return rc;
		},
		seconds);
}

/* How many pieces were moved; the service must have seen as many commands. */
static int run_blocks(struct gpufile *b, const struct gpufile_order *order, bool write,
		      uint64_t *pieces, double *seconds)
{
	struct fth_gpu_drive_stats before, after;
	struct gpufile_report told;
	uint64_t commands;
	int rc = fth_gpu_drive_stats(b->setup->drive, &before);

	if (rc == 0)
		rc = launch_blocks(b, order, write, seconds);
	if (rc == 0)
		rc = judge(b, &told);
	if (rc == 0)
		rc = fth_gpu_drive_stats(b->setup->drive, &after);
	if (rc < 0)
		return rc;
	*pieces = told.rounds * 32;
	commands = *pieces * (write ? 2 : 1);
	if (after.commands - before.commands != commands)
		return fth_fail(EIO, "%llu commands were issued, %llu served",
				(unsigned long long)commands,
				(unsigned long long)(after.commands - before.commands));
	return 0;
}

static int compare_blocks(struct gpufile *b, uint32_t bytes, bool write, struct round *round)
{
	struct gpufile_order order = order_of(b, bytes, true);
	double ours = 0, peer = 0;
	uint64_t pieces = 0;
	int rc;

	order.stamp += write ? ++b->writes : 0;
	rc = run_blocks(b, &order, write, &pieces, &ours);
	b->next += pieces;
	if (rc < 0)
		return rc;
	order = order_of(b, bytes, true);
	order.stamp += write ? ++b->writes : 0;
	rc = run_peer(b, &order, pieces, write, &peer);
	b->next += pieces;
	if (rc < 0)
		return rc;
	round->commands = pieces * (write ? 2 : 1);
	round->ours = (double)round->commands / ours;
	round->peer = (double)round->commands / peer;
	return 0;
}

/* ---- lines through the cache ---- */

static int launch_lines(struct gpufile *b, const struct gpufile_order *order, uint64_t n,
			double *seconds)
{
	uint32_t blocks = (uint32_t)b->s->threads / PER_BLOCK, ahead = (uint32_t)b->s->ahead;
	struct gpufile_report told;
	int rc = clear_report(b);

	DO(rc, gpu_timed(
		       [&] {
			       int rc = 0;

			       gpufile_lines<<<blocks, PER_BLOCK, 0, b->setup->stream>>>(
				       b->array, *order, n, ahead, b->report);
			       TRY(rc, cudaGetLastError());
			       TRY(rc, cudaStreamSynchronize(b->setup->stream));
			       return rc;
		       },
		       seconds));
	return rc < 0 ? rc : judge(b, &told);
}

/* n lines, none of which is there before; how many were read, some of them twice perhaps. */
static int run_lines(struct gpufile *b, const struct gpufile_order *order, uint64_t n,
		     uint64_t *reads, double *seconds)
{
	struct fth_gpu_cache_stats before, after;
	int rc = fth_gpu_cache_empty(b->cache);

	if (rc == 0)
		rc = fth_gpu_cache_stats(b->cache, &before);
	if (rc == 0)
		rc = launch_lines(b, order, n, seconds);
	if (rc == 0)
		rc = fth_gpu_cache_stats(b->cache, &after);
	if (rc < 0)
		return rc;
	*reads = after.count[FTH_GPU_READS] - before.count[FTH_GPU_READS];
	if (*reads < n)
		return fth_fail(EIO, "%llu of %llu lines were read", (unsigned long long)*reads,
				(unsigned long long)n);
	return 0;
}

static int compare_lines(struct gpufile *b, bool random, struct round *round)
{
	struct gpufile_order order = order_of(b, GPUFILE_LINE, random);
	uint64_t n = b->size / GPUFILE_LINE / (random ? RANDOM_SHARE : 1), pieces = n;
	double ours = 0, peer = 0, bytes = (double)n * GPUFILE_LINE;
	int rc = run_lines(b, &order, n, &round->commands, &ours);

	if (rc < 0)
		return rc;
	b->next += n;
	order = order_of(b, random ? GPUFILE_LINE : b->request, random);
	if (!random)
		pieces = b->size / b->request;
	rc = run_peer(b, &order, pieces, false, &peer);
	b->next += n;
	if (rc < 0)
		return rc;
	round->ours = bytes / ours;
	round->peer = bytes / peer;
	return 0;
}

/* ---- all of it ---- */

static int run_case(struct gpufile *b, int what, struct round *round)
{
	if (what == SEQUENTIAL || what == RANDOM)
		return compare_lines(b, what == RANDOM, round);
	return compare_blocks(b, what == READ_512 ? 512 : 4096, what == WRITE_READ, round);
}

static int measure_case(struct gpufile *b, int what, struct gpu_report *report)
{
	static const char *const names[CASES] = {"read_512", "read_4096", "sequential", "random",
						 "write_read_4096"};
	struct round round = {};
	double rates[2];
	/* Both sides run in way 0. */
	int rc = gpu_rounds(b->s, 2, rates, [&](unsigned way, unsigned r, double *value) {
		int rc = 0;

		gpu_progress(names[what], r, b->s->rounds);
		if (way == 0)
			rc = run_case(b, what, &round);
		*value = way == 0 ? round.ours : round.peer;
		return rc;
	});

	if (rc < 0)
		return rc;
	gpu_case(report);
	gpu_text(report, "case", names[what]);
	gpu_number(report, "ours", rates[0]);
	gpu_number(report, "peer", rates[1]);
	gpu_number(report, "ratio", rates[0] / rates[1]);
	gpu_count(report, "commands", round.commands);
	gpu_case_end(report);
	if (what == SEQUENTIAL)
		gpu_sum(report, rates[0], rates[1]);
	return 0;
}

static int measure_all(struct gpufile *b, const char *uri, struct gpu_report *report)
{
	struct fth_gpu_view view;
	int rc = open_device(b, uri);

	if (rc < 0)
		return rc;
	view = fth_gpu_drive_view(b->setup->drive);
	for (int what = 0; rc == 0 && what < CASES; what++)
		/* Some devices have no blocks of 512 bytes. */
		if (what != READ_512 || view.block_shift == 9)
			rc = measure_case(b, what, report);
	gpu_text(report, "device", uri);
	gpu_count(report, "size", b->size);
	gpu_count(report, "block", 1u << view.block_shift);
	gpu_count(report, "queues", view.queues);
	gpu_count(report, "cache", b->cache_bytes);
	gpu_count(report, "line", GPUFILE_LINE);
	gpu_count(report, "peer_tile", gpufile_tile(b));
	gpu_count(report, "peer_request", b->request);
	return rc;
}

int gpufile_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct fth_scratch scratch = {};
	struct gpufile b = {};
	struct fth_gpu_kept kept;
	int rc, closed;

	b.s = s;
	b.setup = setup;
	rc = open_memory(&b);
	if (!s->device)
		DO(rc, fth_scratch_open(&scratch, s->folder, "gpufile", s->size, s->file_options));
	/* The drive opens it for itself. */
	fth_scratch_shut(&scratch);
	DO(rc, measure_all(&b, s->device ? s->device : scratch.uri, report));
	kept = fth_gpu_keep(rc);
	gpufile_peer_close(&b);
	closed = gpu_setup_close_drive(setup);
	fth_scratch_remove(&scratch);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}
