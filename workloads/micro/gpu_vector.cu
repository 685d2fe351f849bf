/* SPDX-License-Identifier: BSD-2-Clause */
/* vectorAdd and the sum of an array, on a GPU. */
#include "gpu_work_internal.h"

#include <errno.h>

/* ---- vectorAdd ---- */

/* Lines of a by one half of the warp and of b by the other. */
FTH_GPU int bring_two(const fth_gpu_array<double> &a, const fth_gpu_array<double> &b,
		      uint64_t first, uint32_t n)
{
	uint32_t lane = fth_warp_lane(), mine = lane % 16;
	uint64_t line = first + (mine < n ? mine : n - 1);
	struct fth_gpu_value value;

	__syncwarp();
	value = FTH_GPU_FAR_(fth_gpu_access_)(a.cache, lane < 16 ? a.range : b.range,
					      line << a.line_shift, FTH_GPU_OP_PREFETCH, 0, 0, 0);
	return chunk_worst(value.rc);
}

FTH_GPU int bring_two(const fth_gpu_direct<double> &, const fth_gpu_direct<double> &, uint64_t,
		      uint32_t)
{
	return 0;
}

/* Two doubles per lane at a time; the last line of an array may have an odd one. */
template <class A>
FTH_GPU void add_elements(const A &a, double *to, const double *x, const double *y, uint32_t n)
{
#pragma unroll 4
	for (uint32_t k = 2 * fth_warp_lane(); k < n; k += 64) {
		double2 p = lines_load(a, (const double2 *)x + k / 2);
		double2 q = lines_load(a, (const double2 *)y + k / 2);

		p = make_double2(p.x + q.x, p.y + q.y);
		if (k + 1 < n)
			((double2 *)to)[k / 2] = p;
		else
			to[k] = p.x;
	}
}

/* Fill a line of c that is held. */
template <class A>
FTH_GPU int fill_line(const A &a, const A &b, uint64_t line, double *to, uint32_t n)
{
	struct fth_gpu_look at_x = fth_gpu_look_open(), at_y = fth_gpu_look_open();
	int rc = 0;
	const double *x = fth_gpu_look_line(a, &at_x, line, &rc);
	const double *y = x ? fth_gpu_look_line(b, &at_y, line, &rc) : NULL;

	while (y) {
		add_elements(a, to, x, y, n);
		if (fth_gpu_look_good(a, at_x) && fth_gpu_look_good(b, at_y))
			break;
		x = fth_gpu_look_hold(a, &at_x, &rc);
		y = x ? fth_gpu_look_hold(b, &at_y, &rc) : NULL;
	}
	fth_gpu_look_close(a, &at_x);
	fth_gpu_look_close(b, &at_y);
	return rc;
}

template <class A> FTH_GPU int add_line(const A &a, const A &b, const A &c, uint64_t line)
{
	uint32_t n = elements_of(c, line);
	struct fth_gpu_pin to = lines_pin_out(c, line, n);
	int rc = to.rc;

	if (rc < 0)
		return rc;
	rc = fill_line(a, b, line, (double *)to.data, n);
	/* Of one that was not overwritten whole some may be changed. */
	lines_unpin(c, line, to, rc == 0 || !to.fresh);
	return rc;
}

template <class A>
FTH_GPU int add_lines(const A &a, const A &b, const A &c, uint64_t first, uint32_t n)
{
	struct fth_gpu_claim claim = fth_gpu_claim_lines(c, first, n);
	uint32_t done = 0;
	int rc = 0;

	while (done < n && rc == 0) {
		double *to = fth_gpu_claim_data(c, claim, done);

		rc = to ? fill_line(a, b, first + done, to, 1u << (c.line_shift - 3))
			: add_line(a, b, c, first + done);
		done += rc == 0;
	}
	fth_gpu_claim_give(c, first, claim, done);
	return rc;
}

template <class A>
static __global__ void __launch_bounds__(256, 6)
	add_kernel(A a, A b, A c, uint32_t ahead, struct work_state *state)
{
	uint64_t lines = lines_of(a), first;
	int rc = 0;

	while (rc == 0 && (first = chunk_take(state) * ahead) < lines) {
		uint32_t n = lines - first < ahead ? (uint32_t)(lines - first) : ahead;

		rc = bring_two(a, b, first, n);
		if (rc == 0)
			rc = add_lines(a, b, c, first, n);
	}
	/* What is dirty now goes out while other warps are still adding. */
	if (rc == 0)
		rc = chunk_worst(lines_flush(c));
	chunk_tell(state, rc);
}

int fth_gpu_vector_add(struct fth_gpu_work *work, const struct fth_gpu_source *a,
		       const struct fth_gpu_source *b, const struct fth_gpu_source *c)
{
	uint32_t ahead = work->opts.ahead < 16 ? work->opts.ahead : 16;
	fth_gpu_array<double> x, y, to;
	int rc = work_check_source(a);

	if (rc == 0)
		rc = work_check_source(b);
	if (rc == 0)
		rc = work_check_target(c, a);
	if (rc == 0)
		rc = work_check_target(c, b);
	if (rc == 0 && (a->count != b->count || a->count != c->count || a->line != b->line ||
			a->line != c->line || !a->plain != !b->plain || !a->plain != !c->plain ||
			a->array.cache != b->array.cache))
		rc = fth_fail(EINVAL, "the vectors differ in length or element size");
	if (rc == 0)
		rc = work_cached(a, &x);
	if (rc == 0)
		rc = work_cached(b, &y);
	if (rc == 0)
		rc = work_cached(c, &to);
	if (rc == 0)
		rc = work_begin(work);
	if (rc < 0)
		return rc;
	if (a->plain)
		add_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			work_plain<double>(a), work_plain<double>(b), work_plain<double>(c), ahead,
			work->state);
	else
		add_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			x, y, to, ahead, work->state);
	return work_end(work, "adding vectors", NULL);
}

/* ---- the sum ---- */

template <class A>
static __global__ void __launch_bounds__(256, 6)
	reduce_kernel(A a, uint32_t ahead, struct work_state *state)
{
	uint64_t lines = lines_of(a), first, sum = 0;
	int rc = 0;

	while (rc == 0 && (first = chunk_take(state) * ahead) < lines) {
		uint32_t n = lines - first < ahead ? (uint32_t)(lines - first) : ahead;

		rc = chunk_bring(a, first, n);
		for (uint32_t k = 0; k < n && rc == 0; k++)
			rc = sum_line(a, first + k, &sum);
	}
	sum = chunk_sum(sum);
	if (fth_warp_lane() == 0)
		atomicAdd(&state->sum, sum);
	chunk_tell(state, rc);
}

int fth_gpu_reduce(struct fth_gpu_work *work, const struct fth_gpu_source *a, uint64_t *sum)
{
	fth_gpu_array<uint64_t> cached;
	int rc = work_check_source(a);

	if (rc == 0)
		rc = work_cached(a, &cached);
	if (rc == 0)
		rc = work_begin(work);
	if (rc < 0)
		return rc;
	if (a->plain)
		reduce_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			work_plain<uint64_t>(a), work->opts.ahead, work->state);
	else
		reduce_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, work->stream>>>(
			cached, work->opts.ahead, work->state);
	return work_end(work, "adding up", sum);
}

const void *work_add_kernel(void)
{
	return (const void *)add_kernel<fth_gpu_array<double>>;
}

const void *work_reduce_kernel(void)
{
	return (const void *)reduce_kernel<fth_gpu_array<uint64_t>>;
}
