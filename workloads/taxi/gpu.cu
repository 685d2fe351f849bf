/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taxi queries on a GPU. A warp scans a chunk of lines of the distances and writes down which rows
 * are long enough; then its lanes read the other columns of these rows, as many at once as there
 * are lanes: lane l has column l % q, always the same one, so that one sum per lane is enough.
 */
#include "workloads/micro/gpu_work_internal.h"
#include "answer.h"

#include "workloads/taxi/gpu.h"

#include <errno.h>
#include <string.h>

#define WARPS (FTH_GPU_WORK_THREADS / 32)
#define FOUND 256u /* rows that a warp writes down at most, before it looks at them */

struct taxi_job {
	uint64_t stride; /* elements from one column to the next */
	double miles;
	uint32_t columns; /* that are looked at */
	uint32_t ahead;
};

/* What a lane has added up. */
struct taxi_lane {
	double miles, value;
	uint32_t trips; /* the same in all lanes */
};

/* ---- looking at the rows that were found ---- */

template <class V>
FTH_GPU int look_at(const V &values, const struct taxi_job &job, uint64_t first,
		    const uint32_t *found, uint32_t n, struct taxi_lane *sums)
{
	uint32_t lane = fth_warp_lane(), each, row, column;
	int rc = 0;

	__syncwarp();
	sums->trips += n;
	if (job.columns == 0)
		return 0;
	each = 32 / job.columns;
	row = lane / job.columns;
	column = lane % job.columns;
	for (uint32_t at = 0; at < n && rc == 0; at += each) {
		bool mine = row < each && at + row < n;
		double value = 0;

		/* Lanes without a row of their own read what the first one reads. */
		rc = chunk_worst(lines_get(values,
					   (mine ? column * job.stride : 0) + first +
						   found[mine ? at + row : at],
					   &value));
		sums->value += mine ? value : 0;
	}
	__syncwarp();
	return rc;
}

/* ---- scanning ---- */

/* A bit for each of this lane's rows of a line that is long enough, two rows of every 64. */
template <class M>
FTH_GPU uint32_t find_rows(const M &from, const double *data, uint32_t rows, double bound,
			   double *miles)
{
	uint32_t lane = fth_warp_lane(), found = 0;
	double sum = 0;

#pragma unroll 4
	for (uint32_t k = 0; 64 * k < rows; k++) {
		uint32_t at = 64 * k + 2 * lane;
		double2 v = at < rows ? lines_load(from, (const double2 *)data + at / 2)
				      : make_double2(0, 0);
		bool low = at < rows && v.x >= bound, high = at + 1 < rows && v.y >= bound;

		found |= (uint32_t)low << 2 * k | (uint32_t)high << (2 * k + 1);
		sum += (low ? v.x : 0) + (high ? v.y : 0);
	}
	*miles = sum;
	return found;
}

template <class M>
FTH_GPU int scan_line(const M &miles, uint64_t line, double bound, uint32_t *found, double *sum)
{
	struct fth_gpu_look look = fth_gpu_look_open();
	int rc = 0;
	const double *data = fth_gpu_look_line(miles, &look, line, &rc);

	while (data) {
		double mine;

		*found = find_rows(miles, data, elements_of(miles, line), bound, &mine);
		if (fth_gpu_look_good(miles, look)) {
			fth_gpu_look_close(miles, &look);
			*sum += mine;
			return 0;
		}
		data = fth_gpu_look_hold(miles, &look, &rc);
	}
	return rc;
}

/* Write down one row of each lane that has one; their numbers count from the chunk's first. */
FTH_GPU uint32_t note_rows(uint32_t *rows, uint32_t n, uint32_t first, uint32_t *found)
{
	uint32_t lane = fth_warp_lane(), bit = (uint32_t)__ffs((int)*found) - 1;
	uint32_t lanes = __ballot_sync(ALL, *found != 0);

	if (*found) {
		rows[n + (uint32_t)__popc(lanes & ((1u << lane) - 1))] =
			first + 64 * (bit / 2) + 2 * lane + bit % 2;
		*found &= *found - 1;
	}
	return n + (uint32_t)__popc(lanes);
}

template <class M, class V>
FTH_GPU int scan_chunk_of(const M &miles, const V &values, const struct taxi_job &job,
			  uint64_t line, uint32_t lines, uint32_t *rows, struct taxi_lane *sums)
{
	uint32_t shift = miles.line_shift - 3, n = 0;
	int rc = chunk_bring(miles, line, lines);

	for (uint32_t k = 0; k < lines && rc == 0; k++) {
		uint32_t found = 0;

		rc = scan_line(miles, line + k, job.miles, &found, &sums->miles);
		while (rc == 0 && __any_sync(ALL, found)) {
			n = note_rows(rows, n, k << shift, &found);
			if (n <= FOUND - 32)
				continue;
			rc = look_at(values, job, line << shift, rows, n, sums);
			n = 0;
		}
	}
	return rc < 0 ? rc : look_at(values, job, line << shift, rows, n, sums);
}

/* ---- the kernel ---- */

FTH_GPU double warp_sum(double value)
{
	for (int step = 16; step; step /= 2)
		value += __shfl_xor_sync(ALL, value, step);
	return value;
}

FTH_GPU void add_up(const struct taxi_job &job, const struct taxi_lane &sums,
		    struct taxi_part_sum *to)
{
	uint32_t lane = fth_warp_lane();
	double miles = warp_sum(sums.miles);

	if (lane == 0) {
		to->trips += sums.trips;
		to->columns[0] += miles;
	}
	for (uint32_t c = 0; c < job.columns; c++) {
		double column = warp_sum(lane % job.columns == c ? sums.value : 0);

		if (lane == 0)
			to->columns[1 + c] += column;
	}
}

template <class M, class V>
static __global__ void __launch_bounds__(256, 6)
	taxi_kernel(M miles, V values, struct taxi_job job, struct taxi_part_sum *sums,
		    struct work_state *state)
{
	__shared__ uint32_t rows[WARPS][FOUND];
	uint32_t *found = rows[threadIdx.x / 32];
	uint64_t lines = lines_of(miles), first;
	struct taxi_lane mine = {0, 0, 0};
	int rc = 0;

	while (rc == 0 && (first = chunk_take(state) * job.ahead) < lines) {
		uint64_t left = lines - first;

		rc = scan_chunk_of(miles, values, job, first,
				   left < job.ahead ? (uint32_t)left : job.ahead, found, &mine);
	}
	add_up(job, mine, &sums[fth_gpu_warp_()]);
	chunk_tell(state, rc);
}

const void *work_taxi_kernel(void)
{
	return (const void *)taxi_kernel<fth_gpu_array<double>, fth_gpu_array<double>>;
}

/* ---- launching ---- */

static struct work_state *state_of(struct fth_gpu_work *work, unsigned slot)
{
	/* A counter of chunks for each slot: kernels of two may run at the same time. */
	return work->taxi_states + slot;
}

int fth_gpu_taxi_begin(struct fth_gpu_work *work)
{
	size_t bytes = (size_t)FTH_GPU_TAXI_SLOTS * work->warps * sizeof(*work->sums);
	int rc =
		fth_gpu_check(cudaMemsetAsync(work->sums, 0, bytes, work->stream), "clearing sums");

	memset(work->taxi_warps, 0, sizeof(work->taxi_warps));
	if (rc == 0)
		rc = fth_gpu_check(cudaMemsetAsync(work->taxi_states, 0,
						   FTH_GPU_TAXI_SLOTS * sizeof(struct work_state),
						   work->stream),
				   "clearing the state");
	return rc < 0 ? rc : fth_gpu_check(cudaStreamSynchronize(work->stream), "clearing sums");
}

static int check_part(const struct fth_gpu_taxi_part *part, const struct fth_taxi_query *query)
{
	int rc = taxi_query_check(query);

	if (rc == 0)
		rc = work_check_source(&part->miles);
	if (rc < 0 || query->query == 0)
		return rc;
	rc = work_check_source(&part->values);
	if (rc == 0 && (!part->miles.plain != !part->values.plain ||
			part->values.count < (query->query - 1) * part->stride + part->miles.count))
		rc = fth_fail(EINVAL, "the columns differ in length");
	return rc;
}

int fth_gpu_taxi_launch(struct fth_gpu_work *work, const struct fth_gpu_taxi_part *part,
			const struct fth_taxi_query *query, unsigned slot,
			struct CUstream_st *stream)
{
	struct taxi_job job = {part->stride, query->miles, query->query, work->opts.ahead};
	struct taxi_part_sum *sums = work->sums + (size_t)slot * work->warps;
	struct work_state *state = state_of(work, slot);
	cudaStream_t on = stream ? stream : work->stream;
	fth_gpu_array<double> miles, values;
	int rc = check_part(part, query);

	if (rc == 0 && slot >= FTH_GPU_TAXI_SLOTS)
		rc = fth_fail(EINVAL, "the slot must be 0 to %u", FTH_GPU_TAXI_SLOTS - 1);
	if (rc == 0)
		rc = work_cached(&part->miles, &miles);
	/* Without columns there is no second array: the kernel does not touch it. */
	values = miles;
	if (rc == 0 && query->query > 0)
		rc = work_cached(&part->values, &values);
	if (rc == 0)
		rc = fth_gpu_check(cudaMemsetAsync(&state->next, 0, sizeof(state->next), on),
				   "clearing the count of chunks");
	if (rc < 0)
		return rc;
	if (work->taxi_warps[slot] < work->opts.blocks * WARPS)
		work->taxi_warps[slot] = work->opts.blocks * WARPS;
	if (part->miles.plain)
		taxi_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, on>>>(
			work_plain<double>(&part->miles), work_plain<double>(&part->values), job,
			sums, state);
	else
		taxi_kernel<<<work->opts.blocks, FTH_GPU_WORK_THREADS, 0, on>>>(miles, values, job,
										sums, state);
	return fth_gpu_check(cudaGetLastError(), "launching a query");
}

/* ---- the answer ---- */

static int find_failure(struct fth_gpu_work *work)
{
	struct work_state *states = (struct work_state *)work->stage;
	int rc = fth_gpu_check(cudaMemcpyAsync(states, work->taxi_states,
					       FTH_GPU_TAXI_SLOTS * sizeof(*states),
					       cudaMemcpyDeviceToHost, work->stream),
			       "a query");

	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(work->stream), "a query");
	for (unsigned i = 0; rc == 0 && i < FTH_GPU_TAXI_SLOTS; i++)
		if (states[i].failed)
			rc = fth_fail(-states[i].rc, "a query: %llu warps failed, one with %d",
				      states[i].failed, states[i].rc);
	return rc;
}

/* Add what the warps of a slot came to. */
static int add_slot(struct fth_gpu_work *work, unsigned slot, struct taxi_tally *tally)
{
	struct taxi_part_sum *sums = (struct taxi_part_sum *)work->stage;
	size_t n = work->taxi_warps[slot];
	int rc = fth_gpu_check(cudaMemcpyAsync(sums, work->sums + (size_t)slot * work->warps,
					       n * sizeof(*sums), cudaMemcpyDeviceToHost,
					       work->stream),
			       "reading the answer");

	if (rc == 0)
		rc = fth_gpu_check(cudaStreamSynchronize(work->stream), "reading the answer");
	for (size_t i = 0; rc == 0 && i < n; i++) {
		tally->trips += sums[i].trips;
		for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
			taxi_sum_add(&tally->columns[c], sums[i].columns[c]);
	}
	return rc;
}

int fth_gpu_taxi_end(struct fth_gpu_work *work, const struct fth_taxi_table *table,
		     const struct fth_taxi_query *query, struct fth_taxi_answer *out)
{
	struct taxi_tally tally = {};
	int rc = find_failure(work);

	memset(out, 0, sizeof(*out));
	for (unsigned slot = 0; rc == 0 && slot < FTH_GPU_TAXI_SLOTS; slot++)
		if (work->taxi_warps[slot])
			rc = add_slot(work, slot, &tally);
	if (rc == 0)
		taxi_answer_set(out, query, table, &tally);
	return rc;
}
