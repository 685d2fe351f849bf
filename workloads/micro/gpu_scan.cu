/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A prefix sum on a GPU, in one pass over the array: chunks are dealt out in their order, and each
 * looks back at those before it.
 *
 * 1. The sum and the prefix of a chunk are written before `told` says so, once, by the warp that
 * took the chunk. A chunk that failed says that instead.
 * 2. A warp that waits for a chunk holds no line, and the chunk was taken, so its warp is running:
 * it comes to its sum without waiting for any other chunk. So nobody waits in a circle.
 */
#include "gpu_work_internal.h"

#include "fathom/hd/wait.h"

#include <errno.h>

enum scan_told { TOLD_NOTHING, TOLD_SUM, TOLD_PREFIX, TOLD_FAILURE };

struct scan_job {
	struct scan_chunk *chunks;
	uint64_t timeout_ns;
	uint32_t ahead;
};

/* ---- looking back ---- */

FTH_GPU void tell_sum(struct scan_chunk *chunk, uint64_t sum)
{
	if (fth_warp_lane())
		return;
	chunk->sum = sum;
	/* release: stops this from being seen before the sum. */
	fth_store_release_dev32(&chunk->told, TOLD_SUM);
}

FTH_GPU void tell_prefix(struct scan_chunk *chunk, uint64_t prefix, int rc)
{
	if (fth_warp_lane())
		return;
	chunk->prefix = prefix;
	/* release: stops this from being seen before the prefix. */
	fth_store_release_dev32(&chunk->told, rc < 0 ? TOLD_FAILURE : TOLD_PREFIX);
}

/* What up to 32 chunks before `chunk` tell, one per lane, the nearest by lane 0. */
FTH_GPU uint32_t wait_for_told(const struct scan_chunk *at, bool exists, uint64_t deadline)
{
	uint32_t told = exists ? TOLD_NOTHING : TOLD_PREFIX, ns = FTH_NVME_PAUSE_FIRST;

	for (;;) {
		/* acquire: stops sum and prefix from being read before. */
		if (told == TOLD_NOTHING)
			told = fth_load_acquire_dev32(&at->told);
		if (__all_sync(ALL, told != TOLD_NOTHING))
			return told;
		fth_nvme_warp_pause_(&ns);
		if (__any_sync(ALL, fth_now_ns() >= deadline))
			return TOLD_FAILURE;
	}
}

/* The sum of all before a chunk, the same in all lanes. */
FTH_GPU int look_back(const struct scan_job &job, uint64_t chunk, uint64_t *prefix)
{
	uint64_t deadline = fth_deadline_ns(job.timeout_ns), sum = 0;

	while (chunk > 0) {
		uint32_t lane = fth_warp_lane(), told, ends;
		bool exists = lane < chunk;
		const struct scan_chunk *at = &job.chunks[exists ? chunk - 1 - lane : 0];
		uint64_t mine = 0;

		told = wait_for_told(at, exists, deadline);
		if (__any_sync(ALL, told == TOLD_FAILURE))
			return -EIO;
		/* Before the first chunk there is a prefix of 0. */
		ends = __ballot_sync(ALL, told == TOLD_PREFIX);
		if (exists && (!ends || lane <= (uint32_t)__ffs((int)ends) - 1))
			mine = told == TOLD_PREFIX ? at->prefix : at->sum;
		sum += chunk_sum(mine);
		chunk = ends ? 0 : chunk - 32;
	}
	*prefix = sum;
	return 0;
}

/* ---- lines ---- */

template <class A> FTH_GPU int sum_lines(const A &from, uint64_t first, uint32_t n, uint64_t *sum)
{
	uint64_t mine = 0;
	int rc = 0;

	for (uint32_t k = 0; k < n && rc == 0; k++)
		rc = sum_line(from, first + k, &mine);
	*sum = chunk_sum(mine);
	return rc;
}

/* Of 32 lanes' values, those up to this lane's. */
FTH_GPU uint64_t sum_up_to(uint64_t value)
{
	uint32_t lane = fth_warp_lane();

	for (uint32_t step = 1; step < 32; step *= 2) {
		uint64_t other = __shfl_up_sync(ALL, value, step);

		value += lane >= step ? other : 0;
	}
	return value;
}

template <class A>
FTH_GPU uint64_t scan_elements(const A &a, uint64_t *to, const uint64_t *from, uint32_t n,
			       uint64_t carry)
{
	uint32_t lane = fth_warp_lane();

	for (uint32_t at = 0; at < n; at += 64) {
		uint32_t e = at + 2 * lane;
		ulonglong2 v = e < n ? lines_load(a, (const ulonglong2 *)(from + e))
				     : make_ulonglong2(0, 0);
		uint64_t upto;

		v.y = e + 1 < n ? v.y : 0;
		upto = carry + sum_up_to(v.x + v.y);
		if (e + 1 < n)
			*(ulonglong2 *)(to + e) = make_ulonglong2(upto - v.y, upto);
		else if (e < n)
			to[e] = upto;
		carry = __shfl_sync(ALL, upto, 31);
	}
	return carry;
}

/* Write a line of `to` at `out`. */
template <class A>
FTH_GPU int scan_into(const A &from, uint64_t line, uint64_t *out, uint32_t n, uint64_t *carry)
{
	struct fth_gpu_look look = fth_gpu_look_open();
	int rc = 0;
	const uint64_t *in = fth_gpu_look_line(from, &look, line, &rc);

	while (in) {
		uint64_t end = scan_elements(from, out, in, n, *carry);

		if (fth_gpu_look_good(from, look)) {
			fth_gpu_look_close(from, &look);
			*carry = end;
			return 0;
		}
		in = fth_gpu_look_hold(from, &look, &rc);
	}
	return rc;
}

template <class A> FTH_GPU int scan_line(const A &from, const A &to, uint64_t line, uint64_t *carry)
{
	uint32_t n = elements_of(to, line);
	struct fth_gpu_pin out = lines_pin_out(to, line, n);
	int rc = out.rc;

	if (rc < 0)
		return rc;
	rc = scan_into(from, line, (uint64_t *)out.data, n, carry);
	/* Of one that was not overwritten whole some may be changed. */
	lines_unpin(to, line, out, rc == 0 || !out.fresh);
	return rc;
}

template <class A>
FTH_GPU int scan_lines(const A &from, const A &to, uint64_t first, uint32_t n, uint64_t carry)
{
	struct fth_gpu_claim claim = fth_gpu_claim_lines(to, first, n);
	uint32_t done = 0;
	int rc = 0;

	while (done < n && rc == 0) {
		uint64_t *out = fth_gpu_claim_data(to, claim, done);

		rc = out ? scan_into(from, first + done, out, 1u << (to.line_shift - 3), &carry)
			 : scan_line(from, to, first + done, &carry);
		done += rc == 0;
	}
	fth_gpu_claim_give(to, first, claim, done);
	return rc;
}

/* ---- chunks ---- */

template <class A>
FTH_GPU int scan_chunk_of(const A &from, const A &to, const struct scan_job &job, uint64_t chunk,
			  uint32_t n)
{
	uint64_t first = chunk * job.ahead, sum = 0, prefix = 0;
	int rc = chunk_bring(from, first, n);

	if (rc == 0)
		rc = sum_lines(from, first, n, &sum);
	if (rc == 0) {
		tell_sum(&job.chunks[chunk], sum);
		rc = look_back(job, chunk, &prefix);
	}
	tell_prefix(&job.chunks[chunk], prefix + sum, rc);
	return rc < 0 ? rc : scan_lines(from, to, first, n, prefix);
}

template <class A>
static __global__ void __launch_bounds__(256, 6)
	scan_kernel(A from, A to, struct scan_job job, struct work_state *state)
{
	uint64_t lines = lines_of(from), chunk;
	int rc = 0;

	while (rc == 0 && (chunk = chunk_take(state)) * job.ahead < lines) {
		uint64_t left = lines - chunk * job.ahead;

		rc = scan_chunk_of(from, to, job, chunk,
				   left < job.ahead ? (uint32_t)left : job.ahead);
	}
	if (rc == 0)
		rc = chunk_worst(lines_flush(to));
	chunk_tell(state, rc);
}

int fth_gpu_scan(struct fth_gpu_work *work, const struct fth_gpu_source *from,
		 const struct fth_gpu_source *to)
{
	struct scan_job job = {work->chunks, work->opts.timeout_ms * 1000000ull, work->opts.ahead};
	fth_gpu_array<uint64_t> in, out;
	int rc = work_check_source(from);
	uint64_t chunks = rc < 0 ? 0 : (from->count * 8 / from->line + job.ahead) / job.ahead;

	if (rc == 0)
		rc = work_check_target(to, from);
	if (rc == 0 &&
	    (from->count != to->count || from->line != to->line || !from->plain != !to->plain))
		rc = fth_fail(EINVAL, "the arrays differ in length or element size");
	if (rc == 0 && chunks > work->opts.chunks)
		rc = fth_fail(ENOSPC, "%llu chunks, the limit is opts.chunks, %llu",
			      (unsigned long long)chunks, (unsigned long long)work->opts.chunks);
	if (rc == 0)
		rc = work_cached(from, &in);
	if (rc == 0)
		rc = work_cached(to, &out);
	if (rc == 0)
		rc = work_begin(work);
	if (rc == 0)
		rc = fth_gpu_check(cudaMemsetAsync(work->chunks, 0, chunks * sizeof(*work->chunks),
						   work->stream),
				   "clearing chunks");
	if (rc < 0)
		return rc;
	if (from->plain)
		scan_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			work_plain<uint64_t>(from), work_plain<uint64_t>(to), job, work->state);
	else
		scan_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			in, out, job, work->state);
	return work_end(work, "a prefix sum", NULL);
}

const void *work_scan_kernel(void)
{
	return (const void *)scan_kernel<fth_gpu_array<uint64_t>>;
}
