/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gpublock`: GPU threads read and write random blocks through NVMe queue pairs in GPU
 * memory; a software controller on the same GPU moves them from and to host memory. Beside it, in
 * the same run: the same blocks moved with no queue, which is the limit, and one lock around a
 * queue pair, which is the peer. gpublock_kernels.h has the kernels.
 */
#include "gpublock_kernels.h"
#include "gpu_setup.h"

#include "fathom/dev/delay.h"

#include <algorithm>
#include <stdlib.h>
#include <string.h>
#include <vector>

#define THREADS_MAX 262144u
#define PER_BLOCK   128u
#define FILL_BLOCKS 1056u
#define QUEUES_MAX  1024u

#define LOCK_THREADS_MAX 4096u /* with more one lock nearly stops: 0.06 M/s at 32768 */
#define LOCK_SHARE_MAX	 512u  /* threads for each of several locks */
#define RATIO_THREADS	 4096

enum design {
	WARP,	/* ours: queue_warp.h */
	THREAD, /* ours, each thread for itself: queue.h */
	LOCK,	/* one lock around everything */
	DESIGNS
};

struct point {
	enum design design;
	uint32_t queues;
	uint32_t threads;
	uint32_t block; /* bytes: 512 or 4096 */
	bool write;
	bool nothing; /* a controller that moves no data */
};

struct result {
	double rate; /* commands a second */
	uint64_t commands;
	double per_doorbell; /* commands per write of the submission doorbell */
	double per_batch;    /* commands that the controller took at once */
	uint64_t second_commands;
};

struct gpublock {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	struct gpublock_job job; /* what all runs share */
	unsigned long long *wrong;
	uint64_t next; /* command: fresh blocks for every run */
	uint32_t stamps;
	double raw[2][2]; /* 512 or 4096 bytes, read or write: with no queue */
	struct {
		struct point what;
		double rate; /* 0: not measured */
	} best[DESIGNS];     /* reads of 512 bytes, one queue pair, about RATIO_THREADS */
};

/* ---- memory ---- */

static void set_block(struct gpublock *b, uint32_t block, bool write)
{
	b->job.block = block;
	b->job.mask = b->s->medium / b->s->ssds / block - 1;
	b->job.view.ssds = (uint32_t)b->s->ssds;
	b->job.write = write;
}

/* Stamp the whole medium, over PCIe. */
static int fill_medium(struct gpublock *b)
{
	int rc = 0;

	set_block(b, 512, false);
	b->job.first = 0;
	b->job.stamp = 0;
	gpublock_fill<<<FILL_BLOCKS, 256, 0, b->setup->stream>>>(
		b->job, (b->job.mask + 1) * b->s->ssds, true);
	TRY(rc, cudaGetLastError());
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	return rc;
}

static int open_all(struct gpublock *b)
{
	struct gpublock_job *job = &b->job;
	int rc = gpu_setup_map(b->setup, b->s->medium);

	DO(rc, gpu_setup_pin(b->setup));
	job->medium = b->setup->medium.mapped;
	DO(rc, gpu_setup_alloc(b->setup, &job->data, b->s->data));
	DO(rc, gpu_setup_alloc(b->setup, &job->done, THREADS_MAX));
	DO(rc, gpu_setup_alloc(b->setup, &job->failed, 2));
	DO(rc, gpu_setup_alloc(b->setup, &job->locks, QUEUES_MAX));
	DO(rc, gpu_setup_alloc(b->setup, &b->wrong, 1));
	return rc < 0 ? rc : fill_medium(b);
}

/* ---- before and after a run of n commands ---- */

/* Spoil the place that data goes to; for writes, fill the place that it comes from. */
static int prepare(struct gpublock *b, uint64_t n)
{
	struct gpublock_job *job = &b->job;
	int rc = 0;

	job->first = b->next;
	job->stamp = job->write ? ++b->stamps : 0;
	b->next += n;
	TRY(rc, cudaMemsetAsync(job->failed, 0, 2 * sizeof(uint32_t), b->setup->stream));
	TRY(rc, cudaMemsetAsync(b->wrong, 0, sizeof(*b->wrong), b->setup->stream));
	if (!job->write) {
		TRY(rc, cudaMemsetAsync(job->data, 0xa5, n * job->block, b->setup->stream));
	} else {
		gpublock_fill<<<FILL_BLOCKS, 256, 0, b->setup->stream>>>(*job, n, false);
		TRY(rc, cudaGetLastError());
	}
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	return rc;
}

/* Look at every byte that was moved; put the medium back as it was. */
static int verify(struct gpublock *b, uint64_t n)
{
	struct gpublock_job restore = b->job;
	unsigned long long wrong = 0;
	int rc = 0;

	gpublock_check<<<FILL_BLOCKS, 256, 0, b->setup->stream>>>(b->job, n, b->job.write,
								  b->wrong);
	TRY(rc, cudaGetLastError());
	if (b->job.write) {
		restore.stamp = 0;
		gpublock_fill<<<FILL_BLOCKS, 256, 0, b->setup->stream>>>(restore, n, true);
		TRY(rc, cudaGetLastError());
	}
	TRY(rc, cudaMemcpyAsync(&wrong, b->wrong, sizeof(wrong), cudaMemcpyDeviceToHost,
				b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	if (rc == 0 && wrong)
		rc = fth_fail(EILSEQ, "%llu 16-byte words of %llu blocks are wrong", wrong,
			      (unsigned long long)n);
	return rc;
}

/* ---- the limit ---- */

static void launch_copy(struct gpublock *b, unsigned way, uint64_t n)
{
	unsigned processors = (unsigned)b->setup->gpu.multiProcessorCount;

	switch (way) {
	case 0:
		gpublock_copy<1><<<8 * processors, 256, 0, b->setup->stream>>>(b->job, n);
		break;
	case 1:
		gpublock_copy<8><<<2 * processors, 256, 0, b->setup->stream>>>(b->job, n);
		break;
	case 2:
		gpublock_copy<4><<<4 * processors, 256, 0, b->setup->stream>>>(b->job, n);
		break;
	default:
		gpublock_copy<8><<<8 * processors, 256, 0, b->setup->stream>>>(b->job, n);
	}
}

static int measure_raw(struct gpublock *b, uint32_t block, bool write, double *rate)
{
	uint64_t n = b->s->data / block / 8 * 8;
	uint32_t *done = b->job.done;
	int rc = 0;

	*rate = 0;
	set_block(b, block, write);
	b->job.done = NULL; /* all is */
	for (unsigned way = 0; rc == 0 && way < 4; way++) {
		double seconds = 0;

		rc = prepare(b, n);
		TRY(rc, cudaEventRecord(b->setup->begin, b->setup->stream));
		if (rc < 0)
			break;
		launch_copy(b, way, n);
		TRY(rc, cudaGetLastError());
		if (rc == 0)
			rc = gpu_setup_elapsed(b->setup, &seconds);
		if (rc == 0)
			rc = verify(b, n);
		if (rc == 0 && (double)n / seconds > *rate)
			*rate = (double)n / seconds;
	}
	b->job.done = done;
	return rc;
}

/* ---- a run ---- */

static int open_drive(struct gpublock *b, const struct point *p)
{
	struct fth_gpu_drive_options opts = FTH_GPU_DRIVE_OPTIONS_INIT;

	opts.medium = p->nothing ? FTH_GPU_MEDIUM_NONE : FTH_GPU_MEDIUM_HOST;
	opts.ssds = (uint32_t)b->s->ssds;
	opts.bytes = b->s->medium / opts.ssds;
	opts.memory = b->setup->medium.host;
	opts.queues = p->queues;
	opts.entries = (uint32_t)b->s->entries;
	opts.warps = (uint32_t)b->s->warps;
	opts.batch = (uint32_t)b->s->batch;
	opts.model = b->s->model ? fth_dev_model(b->s->model) : NULL;
	opts.ordered = b->s->ordered;
	return fth_gpu_drive_open(&opts, &b->setup->drive);
}

static int launch(struct gpublock *b, const struct point *p)
{
	uint32_t per_block = p->threads < PER_BLOCK ? p->threads : PER_BLOCK;
	uint32_t blocks = p->threads / per_block;
	int rc = 0;

	if (p->design == LOCK)
		gpublock_init_locks<<<p->queues, 1, 0, b->setup->stream>>>(b->job);
	TRY(rc, cudaEventRecord(b->setup->begin, b->setup->stream));
	if (p->design == WARP)
		gpublock_warp<<<blocks, per_block, 0, b->setup->stream>>>(b->job);
	else if (p->design == THREAD)
		gpublock_thread<<<blocks, per_block, 0, b->setup->stream>>>(b->job);
	else
		gpublock_one_lock<<<blocks, per_block, 0, b->setup->stream>>>(b->job);
	TRY(rc, cudaGetLastError());
	return rc;
}

/* What the threads have done, and whether any of it failed. */
static int collect(struct gpublock *b, const struct point *p, uint64_t *commands)
{
	uint32_t *done = (uint32_t *)malloc(p->threads * sizeof(*done)), failed[2] = {0, 0};
	int rc = done ? 0 : -ENOMEM;

	TRY(rc, cudaMemcpyAsync(done, b->job.done, p->threads * sizeof(*done),
				cudaMemcpyDeviceToHost, b->setup->stream));
	TRY(rc, cudaMemcpyAsync(failed, b->job.failed, sizeof(failed), cudaMemcpyDeviceToHost,
				b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	*commands = 0;
	for (uint32_t i = 0; rc == 0 && i < p->threads; i++)
		*commands += done[i];
	free(done);
	if (rc == 0 && failed[0])
		rc = fth_fail((int)failed[1], "%u threads failed, the last with %s", failed[0],
			      strerror((int)failed[1]));
	return rc;
}

static int run_on(struct gpublock *b, const struct point *p, struct fth_gpu_drive *drive,
		  struct result *result)
{
	uint64_t n = (uint64_t)b->job.rounds * p->threads;
	struct fth_gpu_drive_stats stats;
	double seconds = 0;
	int rc = prepare(b, n);

	b->job.view = fth_gpu_drive_view(drive);
	if (rc == 0)
		rc = launch(b, p);
	if (rc == 0)
		rc = gpu_setup_elapsed(b->setup, &seconds);
	if (rc == 0)
		rc = collect(b, p, &result->commands);
	if (rc == 0 && !p->nothing)
		rc = verify(b, n);
	if (rc == 0)
		rc = fth_gpu_drive_stop(drive);
	if (rc == 0)
		rc = fth_gpu_drive_stats(drive, &stats);
	if (rc < 0)
		return rc;
	if (stats.commands != result->commands + stats.second_commands || stats.errors)
		return fth_fail(EIO, "%llu commands were issued, %llu served, %llu failed",
				(unsigned long long)result->commands,
				(unsigned long long)stats.commands,
				(unsigned long long)stats.errors);
	result->rate = (double)result->commands / seconds;
	result->per_doorbell = (double)stats.commands / (double)stats.sq_doorbells;
	result->per_batch = (double)stats.commands / (double)stats.batches;
	result->second_commands = stats.second_commands;
	return 0;
}

static int run_point(struct gpublock *b, const struct point *p, struct result *result)
{
	uint64_t room = b->s->data / p->block / p->threads;
	struct fth_gpu_kept kept;
	int rc, closed;

	set_block(b, p->block, p->write);
	b->job.threads = p->threads;
	b->job.rounds = room > 4096 ? 4096 : (uint32_t)room;
	b->job.limit_ns = b->s->ms * 1000000ull;
	if (room == 0 || p->threads > THREADS_MAX || p->threads % 32 || p->queues > QUEUES_MAX)
		return fth_fail(EINVAL, "%u threads are too many for the amount of data",
				p->threads);
	rc = open_drive(b, p);
	if (rc < 0)
		return rc;
	kept = fth_gpu_keep(run_on(b, p, b->setup->drive, result));
	closed = gpu_setup_close_drive(b->setup);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}

/* ---- points ---- */

static double limit_of(const struct gpublock *b, const struct point *p)
{
	return b->raw[p->block == 4096][p->write];
}

static void tell(const struct gpublock *b, struct gpu_report *report, const struct point *p,
		 const struct result *result)
{
	static const char *const names[DESIGNS] = {"warp", "thread", "lock"};

	gpu_case(report);
	gpu_text(report, "design", names[p->design]);
	gpu_count(report, "block", p->block);
	gpu_text(report, "kind", p->nothing ? "none" : p->write ? "write" : "read");
	gpu_count(report, "queues", p->queues);
	gpu_count(report, "threads", p->threads);
	gpu_number(report, "rate", result->rate);
	if (!p->nothing) {
		gpu_number(report, "limit", limit_of(b, p));
		gpu_number(report, "of_limit", result->rate / limit_of(b, p));
	}
	gpu_count(report, "commands", result->commands);
	gpu_number(report, "per_doorbell", result->per_doorbell);
	gpu_number(report, "per_batch", result->per_batch);
	gpu_count(report, "second_commands", result->second_commands);
	gpu_case_end(report);
}

/* Keep the rate that the ratio is made of. */
static void keep_best(struct gpublock *b, const struct point *p, double rate)
{
	auto *best = &b->best[p->design];
	int far = abs((int)p->threads - RATIO_THREADS);

	if (p->block != 512 || p->write || p->nothing ||
	    (best->rate > 0 && (p->queues > best->what.queues ||
				far >= abs((int)best->what.threads - RATIO_THREADS))))
		return;
	best->what = *p;
	best->rate = rate;
}

/* The run of the median rate. */
static int measure_point(struct gpublock *b, struct gpu_report *report, const struct point *p)
{
	std::vector<struct result> results(b->s->rounds);
	double median;
	int rc = gpu_rounds(b->s, 1, &median, [&](unsigned, unsigned round, double *rate) {
		int rc = run_point(b, p, &results[round]);

		*rate = results[round].rate;
		return rc;
	});

	if (rc < 0)
		return rc;
	std::sort(results.begin(), results.end(),
		  [](const struct result &x, const struct result &y) { return x.rate < y.rate; });
	tell(b, report, p, &results[b->s->rounds / 2]);
	keep_best(b, p, results[b->s->rounds / 2].rate);
	return 0;
}

/* One kind of command over all threads and queue pairs. */
static int measure_grid(struct gpublock *b, struct gpu_report *report, struct point what,
			const struct gpu_list &queues, const struct gpu_list &threads)
{
	int rc = 0;

	for (unsigned i = 0; i < queues.n * threads.n && rc == 0; i++) {
		what.queues = queues.values[i / threads.n];
		what.threads = threads.values[i % threads.n];
		/* no queue pair without a warp, and as many warps for each SSD */
		if ((what.queues > 1 && what.threads / 32 < what.queues) ||
		    what.threads / 32 % b->s->ssds)
			continue;
		rc = measure_point(b, report, &what);
	}
	return rc;
}

/* One lock around each of so many queue pairs, as long as all have few threads. */
static int measure_locks(struct gpublock *b, struct gpu_report *report, uint32_t queues,
			 uint32_t most)
{
	struct gpu_list one = {1, {queues}}, few = b->s->thread_list;
	struct point what = {LOCK, 0, 0, 512, false, false};

	while (few.n > 1 && few.values[few.n - 1] / queues > most)
		few.n--;
	return measure_grid(b, report, what, one, few);
}

/* Designs other than ours. */
static int measure_peers(struct gpublock *b, struct gpu_report *report)
{
	const struct gpu_list &queues = b->s->queue_list;
	struct point what = {THREAD, 0, 0, 512, false, false};
	int rc = measure_locks(b, report, queues.values[0], LOCK_THREADS_MAX / queues.values[0]);

	if (b->s->each_thread)
		DO(rc, measure_grid(b, report, what, queues, b->s->thread_list));
	if (b->s->sweep && queues.n > 1)
		DO(rc, measure_locks(b, report, queues.values[queues.n - 1], LOCK_SHARE_MAX));
	return rc;
}

static int measure_limits(struct gpublock *b, struct gpu_report *report)
{
	static const char *const names[4] = {"limit_read_512", "limit_write_512", "limit_read_4096",
					     "limit_write_4096"};
	int rc = 0;

	for (int i = 0; rc == 0 && i < (b->s->sweep ? 1 : 4); i++) {
		rc = measure_raw(b, i / 2 ? 4096 : 512, i % 2, &b->raw[i / 2][i % 2]);
		gpu_number(report, names[i], b->raw[i / 2][i % 2]);
	}
	return rc;
}

/*
 * Reads and writes of both sizes and commands that move nothing, or for figures small reads alone.
 */
static int measure_ours(struct gpublock *b, struct gpu_report *report)
{
	int kinds = b->s->sweep ? 1 : 5, rc = 0;

	for (int i = 0; rc == 0 && i < kinds; i++) {
		struct point what = {WARP, 0, 0, i / 2 == 1 ? 4096u : 512u, i % 2 == 1, i == 4};

		rc = measure_grid(b, report, what, b->s->queue_list, b->s->thread_list);
	}
	return rc;
}

int gpublock_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gpublock b = {};
	int rc;

	b.s = s;
	b.setup = setup;
	rc = open_all(&b);
	DO(rc, measure_limits(&b, report));
	DO(rc, measure_ours(&b, report));
	DO(rc, measure_peers(&b, report));
	if (rc < 0)
		return rc;
	gpu_number(report, "pin_seconds", setup->medium.seconds);
	gpu_count(report, "ratio_at_threads", b.best[WARP].what.threads);
	gpu_count(report, "ratio_at_queues", b.best[WARP].what.queues);
	gpu_sum(report, b.best[WARP].rate, b.best[LOCK].rate);
	return 0;
}

int gpublock_limits(uint64_t medium, uint64_t data, double rates[2])
{
	struct gpu_settings s = {};
	struct gpu_setup setup = {};
	struct gpublock b = {};
	struct fth_gpu_kept kept;
	int rc = gpu_setup_open(&setup), closed;

	s.medium = medium;
	s.data = data;
	s.ssds = 1;
	b.s = &s;
	b.setup = &setup;
	DO(rc, open_all(&b));
	DO(rc, measure_raw(&b, 512, false, &rates[0]));
	DO(rc, measure_raw(&b, 4096, false, &rates[1]));
	kept = fth_gpu_keep(rc);
	closed = gpu_setup_close(&setup);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}
