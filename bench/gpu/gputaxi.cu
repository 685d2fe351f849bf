/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of `fathom bench gputaxi`: a table in pinned host memory, and each query answered four
 * ways: through caches; with whole columns moved to the GPU; with whole columns that the CPU copies
 * into pinned memory first, as one does who reads them from files; and straight from host memory.
 */
#include "gpustage.h"
#include "median.h"

#include "apps/team.h"
#include "apps/taxi/gpu.h"
#include "fathom/hd/wait.h"

#include <stdlib.h>
#include <string.h>

static const double bounds[GPUTAXI_BOUNDS] = {FTH_TAXI_LONG, FTH_TAXI_VERY_LONG};

struct gputaxi {
	const struct gputaxi_setup *setup;
	struct gpustage stage;
	struct fth_taxi_table table;
	struct fth_gpu_taxi taxi;
	char *bounce[GPUSTAGE_TILES];		       /* pinned, as large as a tile */
	struct fth_taxi_answer *known[GPUTAXI_BOUNDS]; /* by thread of the CPU: Q5 of its rows */
	/* What the team is copying. */
	uint64_t first, rows;
	char *to;
	unsigned columns;
};

/* ---- the table ---- */

static double *column_of(struct gputaxi *b, unsigned column)
{
	return (double *)(b->stage.medium.host +
			  fth_taxi_offset(&b->table, (enum fth_taxi_column)column));
}

static void count_trip(struct gputaxi *b, unsigned thread, const struct fth_taxi_trip *trip)
{
	for (unsigned i = 0; i < GPUTAXI_BOUNDS; i++) {
		struct fth_taxi_answer *known = &b->known[i][thread];

		if (trip->column[FTH_TAXI_DISTANCE] < bounds[i])
			continue;
		known->trips++;
		for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
			known->sums[c] += trip->column[c];
	}
}

/* A thread's rows, with a generator of their own: each part has its share of long trips. */
static int make_rows(void *context, unsigned thread)
{
	struct gputaxi *b = (struct gputaxi *)context;
	struct fth_taxi_generator generator;
	struct fth_taxi_trip trip;
	uint64_t first, end;

	fth_team_part(b->table.rows, 1, b->setup->base.threads, thread, &first, &end);
	fth_taxi_generator_init(&generator, end - first, b->setup->seed + thread);
	for (uint64_t row = first; row < end; row++) {
		fth_taxi_generate(&generator, &trip);
		count_trip(b, thread, &trip);
		for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
			column_of(b, c)[row] = trip.column[c];
	}
	return 0;
}

static int make_table(struct gputaxi *b)
{
	for (unsigned i = 0; i < GPUTAXI_BOUNDS; i++) {
		b->known[i] = (struct fth_taxi_answer *)calloc(b->setup->base.threads,
							       sizeof(*b->known[i]));
		if (!b->known[i])
			return -ENOMEM;
	}
	return fth_team_run(b->setup->base.threads, make_rows, b);
}

/* What the generators know of a query's answer. */
static struct fth_taxi_answer expected(const struct gputaxi *b, unsigned bound, unsigned query)
{
	struct fth_taxi_answer sum = {};

	for (unsigned t = 0; t < b->setup->base.threads; t++) {
		sum.trips += b->known[bound][t].trips;
		for (unsigned c = 0; c <= query; c++)
			sum.sums[c] += b->known[bound][t].sums[c];
	}
	return sum;
}

/* ---- four ways ---- */

typedef int way(struct gputaxi *b, const struct fth_taxi_query *query,
		struct fth_taxi_answer *answer);

static int through_caches(struct gputaxi *b, const struct fth_taxi_query *query,
			  struct fth_taxi_answer *answer)
{
	int rc = fth_gpu_taxi_launch(b->stage.work, &b->taxi.part, query, 0, NULL);

	return rc < 0 ? rc : fth_gpu_taxi_end(b->stage.work, &b->table, query, answer);
}

static int by_zero_copy(struct gputaxi *b, const struct fth_taxi_query *query,
			struct fth_taxi_answer *answer)
{
	struct fth_gpu_taxi_part part = b->taxi.part;
	char *at = b->stage.medium.mapped;
	int rc;

	part.miles = fth_gpu_source_plain(at + fth_taxi_offset(&b->table, FTH_TAXI_DISTANCE),
					  b->table.rows, 8, b->setup->scan_line);
	part.values = fth_gpu_source_plain(at + fth_taxi_offset(&b->table, FTH_TAXI_TOTAL),
					   b->taxi.part.values.count, 8, b->setup->base.line);
	rc = fth_gpu_taxi_launch(b->stage.work, &part, query, 0, NULL);
	return rc < 0 ? rc : fth_gpu_taxi_end(b->stage.work, &b->table, query, answer);
}

/* Query a tile whose columns lie one after the other in GPU memory. */
static int query_tile(struct gputaxi *b, const struct fth_taxi_query *query, unsigned t,
		      uint64_t rows)
{
	double *tile = (double *)b->stage.tiles[t];
	struct fth_gpu_taxi_part part = {};

	part.stride = b->setup->tile;
	part.miles = fth_gpu_source_plain(tile, rows, 8, 4096);
	part.values = fth_gpu_source_plain(tile + part.stride,
					   (FTH_TAXI_COLUMNS - 2) * part.stride + rows, 8, 512);
	return fth_gpu_taxi_launch(b->stage.work, &part, query, t, b->stage.streams[t]);
}

static int copy_rows(void *context, unsigned thread)
{
	struct gputaxi *b = (struct gputaxi *)context;
	uint64_t first, end;

	fth_team_part(b->rows, 512, b->setup->base.threads, thread, &first, &end);
	for (unsigned c = 0; c < b->columns; c++)
		memcpy(b->to + (c * b->setup->tile + first) * 8, column_of(b, c) + b->first + first,
		       (end - first) * 8);
	return 0;
}

/* The rows of a tile into its pinned memory, once what was there before is on the GPU. */
static int fill_bounce(struct gputaxi *b, unsigned t, uint64_t first, uint64_t rows,
		       unsigned columns)
{
	int rc = fth_gpu_check(cudaEventSynchronize(b->stage.events[t]), "waiting for a tile");

	b->first = first;
	b->rows = rows;
	b->columns = columns;
	b->to = b->bounce[t];
	return rc < 0 ? rc : fth_team_run(b->setup->base.threads, copy_rows, b);
}

/* Copies of tiles and queries on them overlap on several streams. */
static int move_columns(struct gputaxi *b, const struct fth_taxi_query *query, bool staged)
{
	uint64_t first = 0;
	int rc = 0;

	for (unsigned t = 0; rc == 0 && first < b->table.rows;
	     first += b->setup->tile, t = (t + 1) % GPUSTAGE_TILES) {
		uint64_t left = b->table.rows - first;
		uint64_t rows = left < b->setup->tile ? left : b->setup->tile;
		cudaStream_t s = b->stage.streams[t];

		if (staged)
			rc = fill_bounce(b, t, first, rows, query->query + 1);
		for (unsigned c = 0; c <= query->query; c++) {
			size_t at = c * b->setup->tile * 8;
			const void *from = staged ? (void *)(b->bounce[t] + at)
						  : (void *)(column_of(b, c) + first);

			TRY(rc, cudaMemcpyAsync(b->stage.tiles[t] + at, from, rows * 8,
						cudaMemcpyHostToDevice, s));
		}
		TRY(rc, cudaEventRecord(b->stage.events[t], s));
		if (rc == 0)
			rc = query_tile(b, query, t, rows);
	}
	return rc < 0 ? rc : gpustage_finish(&b->stage);
}

static int by_whole_columns(struct gputaxi *b, const struct fth_taxi_query *query,
			    struct fth_taxi_answer *answer)
{
	int rc = move_columns(b, query, false);

	return rc < 0 ? rc : fth_gpu_taxi_end(b->stage.work, &b->table, query, answer);
}

static int by_staged_columns(struct gputaxi *b, const struct fth_taxi_query *query,
			     struct fth_taxi_answer *answer)
{
	int rc = move_columns(b, query, true);

	return rc < 0 ? rc : fth_gpu_taxi_end(b->stage.work, &b->table, query, answer);
}

/* ---- measuring ---- */

static int measure(struct gputaxi *b, way *how, unsigned bound, unsigned q, double *seconds,
		   struct fth_taxi_answer *answer)
{
	struct fth_taxi_answer known = expected(b, bound, q);
	struct fth_taxi_query query = {q, bounds[bound]};
	uint64_t begin;
	int rc = fth_gpu_taxi_begin(b->stage.work);

	if (rc == 0)
		rc = gpustage_stopped(&b->stage);
	if (rc < 0)
		return rc;
	begin = fth_now_ns();
	rc = how(b, &query, answer);
	*seconds = (double)(fth_now_ns() - begin) * 1e-9;
	/* The generators' sums are plain ones: trips exactly, sums within their rounding. */
	if (rc == 0 && known.trips != answer->trips)
		rc = fth_fail(EILSEQ, "Q%u found %llu trips, not %llu", q,
			      (unsigned long long)answer->trips, (unsigned long long)known.trips);
	for (unsigned c = 0; rc == 0 && c <= q; c++)
		if (!(answer->sums[c] >= known.sums[c] * (1 - 1e-10) &&
		      answer->sums[c] <= known.sums[c] * (1 + 1e-10)))
			rc = fth_fail(EILSEQ, "Q%u: a sum of column %u is %.17g, not %.17g", q, c,
				      answer->sums[c], known.sums[c]);
	return rc;
}

static int measure_cell(struct gputaxi *b, unsigned bound, unsigned q, struct gputaxi_cell *cell)
{
	double ours[GPUSTREAM_ROUNDS_MAX], whole[GPUSTREAM_ROUNDS_MAX];
	uint64_t bytes = 0, requests = 0, bytes_after = 0, requests_after = 0;
	struct fth_taxi_answer answer, other;
	int rc = 0;

	for (unsigned r = 0; rc == 0 && r < b->setup->base.rounds; r++) {
		rc = fth_gpu_taxi_empty(&b->taxi);
		if (rc == 0)
			rc = fth_gpu_taxi_read(&b->taxi, &bytes, &requests);
		if (rc == 0)
			rc = measure(b, through_caches, bound, q, &ours[r], &answer);
		if (rc == 0)
			rc = fth_gpu_taxi_read(&b->taxi, &bytes_after, &requests_after);
		if (rc == 0)
			rc = measure(b, by_whole_columns, bound, q, &whole[r], &other);
		if (rc == 0 && !fth_taxi_same_answer(&answer, &other))
			rc = fth_fail(EILSEQ, "Q%u has two answers", q);
	}
	if (rc == 0)
		rc = measure(b, by_zero_copy, bound, q, &cell->zero_copy, &other);
	if (rc == 0 && q == GPUTAXI_QUERIES - 1)
		rc = measure(b, by_staged_columns, bound, q, &cell->staged, &other);
	if (rc < 0)
		return rc;
	cell->query = q;
	cell->miles = bounds[bound];
	cell->trips = answer.trips;
	cell->dollars_per_mile = answer.dollars_per_mile;
	cell->ours = fth_median(ours, b->setup->base.rounds);
	cell->whole = fth_median(whole, b->setup->base.rounds);
	cell->bytes_useful = answer.bytes_useful;
	cell->bytes_read = bytes_after - bytes;
	cell->requests = requests_after - requests;
	cell->bytes_whole = (q + 1) * b->table.rows * 8;
	return 0;
}

/* ---- all of it ---- */

static int open_all(struct gputaxi *b)
{
	struct fth_gpu_taxi_opts opts = FTH_GPU_TAXI_OPTS_INIT;
	size_t tile = FTH_TAXI_COLUMNS * b->setup->tile * 8;
	int rc = make_table(b);

	for (unsigned t = 0; t < GPUSTAGE_TILES; t++)
		TRY(rc, cudaMallocHost((void **)&b->bounce[t], tile));
	if (rc == 0)
		rc = gpustage_start(&b->stage, tile);
	opts.scan_bytes = b->setup->scan_cache;
	opts.scan_line = b->setup->scan_line;
	opts.bytes = b->setup->base.cache;
	opts.line = b->setup->base.line;
	return rc < 0 ? rc : fth_gpu_taxi_open(b->stage.drive, &b->table, &opts, &b->taxi);
}

static void close_all(struct gputaxi *b)
{
	(void)fth_gpu_taxi_close(&b->taxi);
	gpustage_close(&b->stage);
	for (unsigned t = 0; t < GPUSTAGE_TILES; t++)
		(void)cudaFreeHost(b->bounce[t]);
	for (unsigned i = 0; i < GPUTAXI_BOUNDS; i++)
		free(b->known[i]);
}

int gputaxi_run(const struct gputaxi_setup *setup, struct gputaxi_result *result)
{
	struct gputaxi b = {};
	int rc;

	memset(result, 0, sizeof(*result));
	b.setup = setup;
	b.table.rows = setup->rows;
	b.table.stride =
		(fth_taxi_size(setup->rows) - fth_taxi_offset(&b.table, FTH_TAXI_DISTANCE)) /
		FTH_TAXI_COLUMNS;
	rc = gpustage_open(&setup->base, fth_taxi_size(setup->rows), result->gpu, &b.stage);
	if (rc < 0)
		return rc;
	rc = open_all(&b);
	for (unsigned i = 0; rc == 0 && i < GPUTAXI_CELLS; i++)
		rc = measure_cell(&b, i / GPUTAXI_QUERIES, i % GPUTAXI_QUERIES, &result->cells[i]);
	result->registers = fth_gpu_work_registers(FTH_GPU_WORK_TAXI);
	close_all(&b);
	return rc;
}
