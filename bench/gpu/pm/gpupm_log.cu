/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Logging by all threads of a kernel: HCL with one check word per entry and one fence per
 * insertion; the conventional log, at several numbers of partitions, of which the best counts; and
 * plain coalesced stores of as many bytes without any fence, which is the limit of the bus. The
 * host reads all entries after each run.
 */
#include "gpupm.h"
#include "gpupm_kernels.h"

#include "base/team.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The last two are each as many ways as there are numbers of partitions. */
enum way { RAW4, RAW16, HCL, CONV };

struct gpupm_log {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	struct gpupm_memory memory;
	uint32_t *failed; /* GPU memory: insertions */
	uint32_t *locks;  /* GPU memory, of `tail` */
	/* of the case */
	uint32_t bytes, threads, entries; /* payload of an entry; entries of a thread */
	uint32_t stamp; /* of the run: what it stores differs from what was there */
	/* of the check */
	struct fth_pm_log_view view;
	uint8_t *seen; /* conventional: entries of each thread that were found */
	bool conventional;
	bool raw16;
};

static uint32_t partition_bytes(const struct gpupm_log *b, uint32_t partitions)
{
	uint64_t each = ((uint64_t)b->threads + partitions - 1) / partitions * b->entries;

	return (uint32_t)((FTH_PM_CONV_FIRST + each * (FTH_PM_CONV_WORD + b->bytes) + 127) / 128 *
			  128);
}

static struct fth_pm_log_shape shape_of(const struct gpupm_log *b)
{
	struct fth_pm_log_shape shape = {b->threads / GPUPM_BLOCK, GPUPM_BLOCK, b->bytes,
					 b->entries};

	return shape;
}

static void set_case(struct gpupm_log *b, uint32_t bytes, uint32_t threads)
{
	uint64_t entries = b->s->data / ((uint64_t)bytes * threads);

	b->bytes = bytes;
	b->threads = threads;
	b->entries = entries == 0 ? 1 : (uint32_t)entries;
}

static bool is_tail(const struct gpupm_log *b, unsigned way)
{
	return way >= CONV + b->s->partition_list.n;
}

/* Partitions for this way, 0 if there are more than threads. */
static uint32_t partitions_of(const struct gpupm_log *b, unsigned way)
{
	uint32_t n = b->s->partition_list.values[(way - CONV) % b->s->partition_list.n];

	return n <= b->threads ? n : 0;
}

/* The ends of partitions of `tail`, in whole pages; the entries follow. */
static uint64_t ends_bytes(uint32_t partitions)
{
	return ((uint64_t)partitions * 8 + 4095) / 4096 * 4096;
}

/* Bytes of memory for the largest case. */
static uint64_t bytes_needed(struct gpupm_log *b)
{
	uint64_t most = 0, bytes;

	for (unsigned i = 0; i < b->s->size_list.n; i++)
		for (unsigned t = 0; t < b->s->thread_list.n; t++) {
			struct fth_pm_log_shape shape;

			set_case(b, b->s->size_list.values[i], b->s->thread_list.values[t]);
			shape = shape_of(b);
			bytes = fth_pm_log_hcl_bytes(&shape);
			most = bytes > most ? bytes : most;
			for (unsigned p = 0; p < b->s->partition_list.n; p++) {
				uint32_t n = partitions_of(b, CONV + p);

				bytes = n ? fth_pm_log_conv_bytes(n, partition_bytes(b, n)) +
							ends_bytes(n)
					  : 0;
				most = bytes > most ? bytes : most;
			}
		}
	return most;
}

/* ---- checks, by CPU threads ---- */

template <uint32_t BYTES>
static bool same_entry(const void *found, struct gpupm_entry<BYTES> expected)
{
	return memcmp(found, &expected, BYTES) == 0;
}

template <uint32_t BYTES> static int check_hcl(struct gpupm_log *b, uint64_t first, uint64_t end)
{
	for (uint64_t t = first; t < end; t++) {
		struct gpupm_entry<BYTES> e;

		if (fth_pm_hcl_scan(&b->view, (uint32_t)t) < 0 || b->view.counts[t] != b->entries)
			return fth_fail(EILSEQ, "thread %llu has %u entries of %u",
					(unsigned long long)t, b->view.counts[t], b->entries);
		for (uint32_t i = 0; i < b->entries; i++)
			if (fth_pm_hcl_read(&b->view, (uint32_t)t, i, &e, BYTES) < 0 ||
			    !same_entry(&e, gpupm_make<BYTES>((uint32_t)t, i, b->stamp)))
				return fth_fail(EILSEQ, "entry %u of thread %llu is wrong", i,
						(unsigned long long)t);
	}
	return 0;
}

/* Entries of one thread are in one partition, in their order. */
template <uint32_t BYTES> static int check_conv(struct gpupm_log *b, uint64_t first, uint64_t end)
{
	for (uint64_t part = first; part < end; part++) {
		struct gpupm_entry<BYTES> e;
		uint64_t cursor = 0;
		uint32_t found = 0;

		if (fth_pm_conv_scan(&b->view, (uint32_t)part) < 0)
			return fth_fail(EILSEQ, "partition %llu is damaged",
					(unsigned long long)part);
		while (fth_pm_conv_read(&b->view, (uint32_t)part, &cursor, &e, BYTES) == BYTES) {
			if (e.words[0] >= b->threads || e.words[0] % b->view.parts != part ||
			    !same_entry(&e,
					gpupm_make_named<BYTES>(e.words[0], e.words[1], b->stamp)))
				return fth_fail(EILSEQ, "an entry of partition %llu is wrong",
						(unsigned long long)part);
			if ((uint8_t)e.words[1] != b->seen[e.words[0]]++)
				return fth_fail(EILSEQ, "entries of thread %u are not in order",
						e.words[0]);
			found++;
		}
		if (found !=
		    (b->threads / b->view.parts + (part < b->threads % b->view.parts)) * b->entries)
			return fth_fail(EILSEQ, "partition %llu has a wrong number of entries, %u",
					(unsigned long long)part, found);
	}
	return 0;
}

template <uint32_t BYTES> static int check_tail(struct gpupm_log *b, uint64_t first, uint64_t end)
{
	for (uint64_t part = first; part < end; part++) {
		uint64_t threads = b->threads / b->view.parts + (part < b->threads % b->view.parts);
		const uint8_t *data = b->view.data + part * b->view.partition_bytes;
		struct gpupm_entry<BYTES> e;

		if (((const uint64_t *)fth_pm_base(b->memory.pm))[part] !=
		    threads * b->entries * BYTES)
			return fth_fail(EILSEQ, "partition %llu has a wrong end",
					(unsigned long long)part);
		for (uint64_t i = 0; i < threads * b->entries; i++) {
			memcpy(&e, data + i * BYTES, BYTES);
			if (e.words[0] >= b->threads || e.words[0] % b->view.parts != part ||
			    !same_entry(&e, gpupm_make_named<BYTES>(e.words[0], e.words[1],
								    b->stamp)) ||
			    (uint8_t)e.words[1] != b->seen[e.words[0]]++)
				return fth_fail(EILSEQ, "an entry of partition %llu is wrong",
						(unsigned long long)part);
		}
	}
	return 0;
}

template <uint32_t BYTES> static int check_raw(struct gpupm_log *b, uint64_t first, uint64_t end)
{
	const uint32_t *base = (const uint32_t *)fth_pm_base(b->memory.pm);
	uint32_t width = b->raw16 ? 4 : 1; /* words of a chunk */

	for (uint64_t t = first; t < end; t++)
		for (uint32_t i = 0; i < b->entries; i++)
			for (uint32_t k = 0; k < BYTES / 4; k++) {
				uint64_t chunk = gpupm_raw_at((uint32_t)t, i, k / width, b->entries,
							      BYTES / 4 / width);

				if (base[chunk * width + k % width] !=
				    gpupm_word((uint32_t)t, i, k, b->stamp))
					return fth_fail(EILSEQ, "the data of thread %llu is wrong",
							(unsigned long long)t);
			}
	return 0;
}

template <uint32_t BYTES, int (*check)(struct gpupm_log *b, uint64_t first, uint64_t end)>
static int check_part(void *context, unsigned thread)
{
	struct gpupm_log *b = (struct gpupm_log *)context;
	uint64_t first, end;

	fth_team_part(b->conventional ? b->view.parts : b->threads, 32, (unsigned)b->s->cpu_threads,
		      thread, &first, &end);
	return check(b, first, end);
}

/* ---- runs ---- */

static int begin_run(struct gpupm_log *b)
{
	int rc = 0;

	b->stamp++;
	TRY(rc, cudaMemsetAsync(b->failed, 0, sizeof(*b->failed), b->setup->stream));
	TRY(rc, cudaStreamSynchronize(b->setup->stream));
	TRY(rc, cudaEventRecord(b->setup->begin, b->setup->stream));
	return rc;
}

/* Bytes of payload a second. */
static int end_run(struct gpupm_log *b, double *rate)
{
	double seconds = 0;
	int rc = 0;

	TRY(rc, cudaGetLastError());
	DO(rc, gpu_setup_elapsed(b->setup, &seconds));
	*rate = (double)b->bytes * b->threads * b->entries / seconds;
	return rc;
}

static int count_failed(struct gpupm_log *b)
{
	uint32_t failed = 0;
	int rc = 0;

	TRY(rc, cudaMemcpy(&failed, b->failed, sizeof(failed), cudaMemcpyDeviceToHost));
	if (rc == 0 && failed)
		rc = fth_fail(EILSEQ, "%u insertions failed", failed);
	return rc;
}

template <uint32_t BYTES> static int run_raw(struct gpupm_log *b, enum way way, double *rate)
{
	void *base = fth_gpu_pm_view(b->memory.gpu).base;
	uint32_t blocks = b->threads / GPUPM_BLOCK;
	int rc = begin_run(b);

	if (rc < 0)
		return rc;
	if (way == RAW4)
		gpupm_raw4<BYTES><<<blocks, GPUPM_BLOCK, 0, b->setup->stream>>>(
			(uint32_t *)base, b->entries, b->stamp);
	else
		gpupm_raw16<BYTES><<<blocks, GPUPM_BLOCK, 0, b->setup->stream>>>(
			(uint4 *)base, b->entries, b->stamp);
	rc = end_run(b, rate);
	b->conventional = false;
	b->raw16 = way == RAW16;
	DO(rc, fth_team_run((unsigned)b->s->cpu_threads, check_part<BYTES, check_raw<BYTES>>, b));
	return rc;
}

template <uint32_t BYTES> static int run_tail(struct gpupm_log *b, unsigned way, double *rate)
{
	uint32_t partitions = partitions_of(b, way), blocks = b->threads / GPUPM_BLOCK;
	struct fth_pm_view view = fth_gpu_pm_view(b->memory.gpu);
	struct gpupm_tail_log log = {};
	int rc;

	*rate = 0;
	if (partitions == 0)
		return 0;
	log.ends = (uint64_t *)view.base;
	log.data = view.base + ends_bytes(partitions);
	log.locks = b->locks;
	log.partitions = partitions;
	log.partition_bytes = partition_bytes(b, partitions);
	memset(fth_pm_base(b->memory.pm), 0, (size_t)partitions * 8);
	rc = begin_run(b);
	if (rc < 0)
		return rc;
	gpupm_tail<BYTES><<<blocks, GPUPM_BLOCK, 0, b->setup->stream>>>(log, b->entries, b->stamp);
	rc = end_run(b, rate);
	memset(b->seen, 0, b->threads);
	memset(&b->view, 0, sizeof(b->view));
	b->view.parts = partitions;
	b->view.partition_bytes = log.partition_bytes;
	b->view.data = (uint8_t *)fth_pm_base(b->memory.pm) + ends_bytes(partitions);
	b->conventional = true;
	DO(rc, fth_team_run((unsigned)b->s->cpu_threads, check_part<BYTES, check_tail<BYTES>>, b));
	return rc;
}

/* Insert all entries, measured; the log is open on the GPU. */
template <uint32_t BYTES>
static int run_open(struct gpupm_log *b, struct fth_gpu_pm_log *on_gpu, double *rate)
{
	struct fth_pm_log_view view = fth_gpu_pm_log_view(on_gpu);
	uint32_t blocks = b->threads / GPUPM_BLOCK;
	int rc = begin_run(b);

	if (rc < 0)
		return rc;
	if (view.kind == FTH_PM_LOG_HCL)
		gpupm_hcl<BYTES><<<blocks, GPUPM_BLOCK, 0, b->setup->stream>>>(view, b->entries,
									       b->stamp, b->failed);
	else
		gpupm_conv<BYTES><<<blocks, GPUPM_BLOCK, 0, b->setup->stream>>>(
			view, b->entries, b->stamp, b->failed);
	rc = end_run(b, rate);
	DO(rc, count_failed(b));
	return rc;
}

/* A new log in place of the last one; `log` is the host's reader of it. */
template <uint32_t BYTES>
static int run_created(struct gpupm_log *b, struct fth_pm_log *log, double *rate)
{
	struct fth_gpu_pm_log *on_gpu = NULL;
	int rc = fth_gpu_pm_log_open(b->memory.gpu, 0, &on_gpu), closed;

	DO(rc, run_open<BYTES>(b, on_gpu, rate));
	closed = fth_gpu_pm_log_close(on_gpu);
	rc = rc < 0 ? rc : closed;
	if (rc < 0)
		return rc;
	b->view = fth_pm_log_view(log);
	b->conventional = b->view.kind == FTH_PM_LOG_CONV;
	if (!b->conventional)
		return fth_team_run((unsigned)b->s->cpu_threads,
				    check_part<BYTES, check_hcl<BYTES>>, b);
	memset(b->seen, 0, b->threads);
	return fth_team_run((unsigned)b->s->cpu_threads, check_part<BYTES, check_conv<BYTES>>, b);
}

template <uint32_t BYTES> static int run_log(struct gpupm_log *b, unsigned way, double *rate)
{
	struct fth_pm_log_shape shape = shape_of(b);
	uint32_t partitions = way == HCL ? 0 : partitions_of(b, way);
	struct fth_pm_log *log = NULL;
	int rc;

	*rate = 0;
	if (way != HCL && partitions == 0)
		return 0;
	if (way == HCL)
		rc = fth_pm_log_create_hcl(b->memory.pm, 0, &shape, &log);
	else
		rc = fth_pm_log_create_conv(b->memory.pm, 0, partitions,
					    partition_bytes(b, partitions), &log);
	DO(rc, run_created<BYTES>(b, log, rate));
	fth_pm_log_close(log);
	return rc;
}

template <uint32_t BYTES> static int run_way(struct gpupm_log *b, unsigned way, double *rate)
{
	if (way < HCL)
		return run_raw<BYTES>(b, (enum way)way, rate);
	return is_tail(b, way) ? run_tail<BYTES>(b, way, rate) : run_log<BYTES>(b, way, rate);
}

static int run_bytes(struct gpupm_log *b, unsigned way, double *rate)
{
	switch (b->bytes) {
	case 16:
		return run_way<16>(b, way, rate);
	case 32:
		return run_way<32>(b, way, rate);
	case 64:
		return run_way<64>(b, way, rate);
	case 128:
		return run_way<128>(b, way, rate);
	default:
		return fth_fail(EINVAL, "--sizes: %u is not 16, 32, 64 or 128", b->bytes);
	}
}

/* ---- cases ---- */

struct verdict {
	struct gpupm_worst of_raw; /* HCL to raw stores, entries of 64 bytes and more */
	struct gpupm_worst of_tail, of_conv;
};

/* The best of the ways from `first` on, one for each number of partitions. */
static unsigned best_way(const struct gpupm_log *b, const double *rates, unsigned first)
{
	unsigned best = first;

	for (unsigned way = first; way < first + b->s->partition_list.n; way++)
		if (rates[way] > rates[best])
			best = way;
	return best;
}

static void tell_case(struct gpupm_log *b, struct gpu_report *report, const double *rates,
		      struct verdict *verdict)
{
	double raw = rates[RAW4] > rates[RAW16] ? rates[RAW4] : rates[RAW16];
	unsigned conv = best_way(b, rates, CONV);
	unsigned tail = best_way(b, rates, CONV + b->s->partition_list.n);

	gpu_case(report);
	gpu_text(report, "part", "log");
	gpu_count(report, "bytes", b->bytes);
	gpu_count(report, "threads", b->threads);
	gpu_count(report, "entries", b->entries);
	gpu_number(report, "raw_gb_s", raw * 1e-9);
	gpu_number(report, "hcl_gb_s", rates[HCL] * 1e-9);
	gpu_number(report, "hcl_m_s", rates[HCL] / b->bytes * 1e-6);
	gpu_number(report, "tail_gb_s", rates[tail] * 1e-9);
	gpu_count(report, "tail_parts", partitions_of(b, tail));
	gpu_number(report, "conv_gb_s", rates[conv] * 1e-9);
	gpu_count(report, "conv_parts", partitions_of(b, conv));
	gpu_number(report, "of_raw", rates[HCL] / raw);
	gpu_number(report, "of_tail", rates[HCL] / rates[tail]);
	gpu_number(report, "of_conv", rates[HCL] / rates[conv]);
	gpu_case_end(report);
	gpupm_note(&verdict->of_tail, rates[HCL], rates[tail]);
	gpupm_note(&verdict->of_conv, rates[HCL], rates[conv]);
	if (b->bytes >= 64)
		gpupm_note(&verdict->of_raw, rates[HCL], raw);
}

static int run_case(struct gpupm_log *b, struct gpu_report *report, struct verdict *verdict)
{
	double rates[GPU_WAYS_MAX] = {};
	int rc = gpu_rounds(
		b->s, CONV + 2 * b->s->partition_list.n, rates,
		[&](unsigned way, unsigned, double *rate) { return run_bytes(b, way, rate); });

	if (rc == 0)
		tell_case(b, report, rates, verdict);
	return rc;
}

static int run_cases(struct gpupm_log *b, struct gpu_report *report, struct verdict *verdict)
{
	const struct gpu_settings *s = b->s;
	uint32_t partitions = 0;
	int rc = gpu_setup_alloc(b->setup, &b->failed, 1);

	for (unsigned p = 0; p < s->partition_list.n; p++)
		partitions = s->partition_list.values[p] > partitions ? s->partition_list.values[p]
								      : partitions;
	DO(rc, gpu_setup_alloc(b->setup, &b->locks, partitions));
	TRY(rc, cudaMemset(b->locks, 0, partitions * sizeof(*b->locks)));
	DO(rc, gpupm_map(&b->memory, s, b->setup, bytes_needed(b)));
	for (unsigned i = 0; rc == 0 && i < s->size_list.n; i++)
		for (unsigned t = 0; rc == 0 && t < s->thread_list.n; t++) {
			set_case(b, s->size_list.values[i], s->thread_list.values[t]);
			rc = run_case(b, report, verdict);
		}
	return rc;
}

int gpupm_log_part(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report,
		   struct gpupm_worst *worst)
{
	struct gpupm_log b = {};
	struct verdict verdict = {};
	struct fth_gpu_kept kept;
	uint32_t most = 0;
	int rc, closed;

	b.s = s;
	b.setup = setup;
	for (unsigned t = 0; t < s->thread_list.n; t++)
		most = s->thread_list.values[t] > most ? s->thread_list.values[t] : most;
	b.seen = (uint8_t *)calloc(most, 1);
	rc = b.seen ? run_cases(&b, report, &verdict) : -ENOMEM;
	kept = fth_gpu_keep(rc);
	if (rc == 0) {
		gpu_text(report, "memory", b.memory.name[0] ? "shm" : "process");
		gpu_number(report, "log_of_tail", verdict.of_tail.ours / verdict.of_tail.peer);
		gpu_number(report, "log_of_conv", verdict.of_conv.ours / verdict.of_conv.peer);
		if (verdict.of_raw.peer > 0)
			gpu_number(report, "log_of_raw", verdict.of_raw.ours / verdict.of_raw.peer);
		gpupm_note(worst, verdict.of_tail.ours, verdict.of_tail.peer);
	}
	closed = gpupm_unmap(&b.memory);
	free(b.seen);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}
