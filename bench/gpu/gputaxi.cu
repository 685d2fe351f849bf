/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `fathom bench gputaxi`: the queries Q0 to Q5 over taxi trips in pinned host memory, each answered
 * four ways: through caches; with whole columns moved to the GPU; with whole columns that the CPU
 * copies into pinned memory first, as one does who reads them from files; and straight from host
 * memory.
 */
#include "gpu_setup.h"

#include "base/team.h"
#include "workloads/taxi/gpu.h"

#include <string.h>

#define QUERIES 6
#define BOUNDS	2

static const double bounds[BOUNDS] = {FTH_TAXI_LONG, FTH_TAXI_VERY_LONG};

struct gputaxi {
	const struct gpu_settings *s;
	struct gpu_setup *setup;
	struct fth_taxi_table table;
	struct fth_gpu_taxi taxi;
	char *tiles[GPU_TILES];
	char *bounce[GPU_TILES];	       /* pinned, as large as a tile */
	struct fth_taxi_answer *known[BOUNDS]; /* by thread of the CPU: Q5 of its rows */
	/* What the team is copying. */
	uint64_t first, rows;
	char *to;
	unsigned columns;
};

/* ---- the table ---- */

static double *column_of(struct gputaxi *b, unsigned column)
{
	return (double *)(b->setup->medium.host +
			  fth_taxi_offset(&b->table, (enum fth_taxi_column)column));
}

static void count_trip(struct gputaxi *b, unsigned thread, const struct fth_taxi_trip *trip)
{
	for (unsigned i = 0; i < BOUNDS; i++) {
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

	fth_team_part(b->table.rows, 1, (unsigned)b->s->threads, thread, &first, &end);
	fth_taxi_generator_init(&generator, end - first, b->s->seed + thread);
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
	int rc = 0;

	for (unsigned i = 0; i < BOUNDS; i++) {
		DO(rc, gpu_setup_alloc_host(b->setup, &b->known[i], b->s->threads));
		if (rc == 0)
			memset(b->known[i], 0, b->s->threads * sizeof(*b->known[i]));
	}
	return rc < 0 ? rc : fth_team_run((unsigned)b->s->threads, make_rows, b);
}

/* What the generators know of a query's answer. */
static struct fth_taxi_answer expected(const struct gputaxi *b, unsigned bound, unsigned query)
{
	struct fth_taxi_answer sum = {};

	for (unsigned t = 0; t < (unsigned)b->s->threads; t++) {
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
	int rc = fth_gpu_taxi_launch(b->setup->work, &b->taxi.part, query, 0, NULL);

	return rc < 0 ? rc : fth_gpu_taxi_end(b->setup->work, &b->table, query, answer);
}

static int by_zero_copy(struct gputaxi *b, const struct fth_taxi_query *query,
			struct fth_taxi_answer *answer)
{
	struct fth_gpu_taxi_part part = b->taxi.part;
	char *at = b->setup->medium.mapped;
	int rc;

	part.miles = fth_gpu_source_plain(at + fth_taxi_offset(&b->table, FTH_TAXI_DISTANCE),
					  b->table.rows, 8, (uint32_t)b->s->scan_line);
	part.values = fth_gpu_source_plain(at + fth_taxi_offset(&b->table, FTH_TAXI_TOTAL),
					   b->taxi.part.values.count, 8, (uint32_t)b->s->line);
	rc = fth_gpu_taxi_launch(b->setup->work, &part, query, 0, NULL);
	return rc < 0 ? rc : fth_gpu_taxi_end(b->setup->work, &b->table, query, answer);
}

/* Query a tile whose columns lie one after the other in GPU memory. */
static int query_tile(struct gputaxi *b, const struct fth_taxi_query *query, unsigned t,
		      uint64_t rows)
{
	double *tile = (double *)b->tiles[t];
	struct fth_gpu_taxi_part part = {};

	part.stride = b->s->tile;
	part.miles = fth_gpu_source_plain(tile, rows, 8, 4096);
	part.values = fth_gpu_source_plain(tile + part.stride,
					   (FTH_TAXI_COLUMNS - 2) * part.stride + rows, 8, 512);
	return fth_gpu_taxi_launch(b->setup->work, &part, query, t, b->setup->streams[t]);
}

static int copy_rows(void *context, unsigned thread)
{
	struct gputaxi *b = (struct gputaxi *)context;
	uint64_t first, end;

	fth_team_part(b->rows, 512, (unsigned)b->s->threads, thread, &first, &end);
	for (unsigned c = 0; c < b->columns; c++)
		memcpy(b->to + (c * b->s->tile + first) * 8, column_of(b, c) + b->first + first,
		       (end - first) * 8);
	return 0;
}

/* The rows of a tile into its pinned memory, once what was there before is on the GPU. */
static int fill_bounce(struct gputaxi *b, unsigned t, uint64_t first, uint64_t rows,
		       unsigned columns)
{
	int rc = fth_gpu_check(cudaEventSynchronize(b->setup->events[t]), "waiting for a tile");

	b->first = first;
	b->rows = rows;
	b->columns = columns;
	b->to = b->bounce[t];
	return rc < 0 ? rc : fth_team_run((unsigned)b->s->threads, copy_rows, b);
}

/* Copies of tiles and queries on them overlap on several streams. */
static int move_columns(struct gputaxi *b, const struct fth_taxi_query *query, bool staged)
{
	uint64_t first = 0;
	int rc = 0;

	for (unsigned t = 0; rc == 0 && first < b->table.rows;
	     first += b->s->tile, t = (t + 1) % GPU_TILES) {
		uint64_t left = b->table.rows - first;
		uint64_t rows = left < b->s->tile ? left : b->s->tile;
		cudaStream_t s = b->setup->streams[t];

		if (staged)
			rc = fill_bounce(b, t, first, rows, query->query + 1);
		for (unsigned c = 0; c <= query->query; c++) {
			size_t at = c * b->s->tile * 8;
			const void *from = staged ? (void *)(b->bounce[t] + at)
						  : (void *)(column_of(b, c) + first);

			TRY(rc, cudaMemcpyAsync(b->tiles[t] + at, from, rows * 8,
						cudaMemcpyHostToDevice, s));
		}
		TRY(rc, cudaEventRecord(b->setup->events[t], s));
		if (rc == 0)
			rc = query_tile(b, query, t, rows);
	}
	return rc < 0 ? rc : gpu_setup_finish(b->setup);
}

static int by_whole_columns(struct gputaxi *b, const struct fth_taxi_query *query,
			    struct fth_taxi_answer *answer)
{
	int rc = move_columns(b, query, false);

	return rc < 0 ? rc : fth_gpu_taxi_end(b->setup->work, &b->table, query, answer);
}

static int by_staged_columns(struct gputaxi *b, const struct fth_taxi_query *query,
			     struct fth_taxi_answer *answer)
{
	int rc = move_columns(b, query, true);

	return rc < 0 ? rc : fth_gpu_taxi_end(b->setup->work, &b->table, query, answer);
}

/* ---- measuring ---- */

static int check_answer(const struct gputaxi *b, unsigned bound, unsigned q,
			const struct fth_taxi_answer *answer)
{
	struct fth_taxi_answer known = expected(b, bound, q);

	/* The generators' sums are plain ones: trips exactly, sums within their rounding. */
	if (known.trips != answer->trips)
		return fth_fail(EILSEQ, "Q%u found %llu trips, expected %llu", q,
				(unsigned long long)answer->trips, (unsigned long long)known.trips);
	for (unsigned c = 0; c <= q; c++)
		if (!(answer->sums[c] >= known.sums[c] * (1 - 1e-10) &&
		      answer->sums[c] <= known.sums[c] * (1 + 1e-10)))
			return fth_fail(EILSEQ,
					"Q%u: the sum of column %u is %.17g, expected %.17g", q, c,
					answer->sums[c], known.sums[c]);
	return 0;
}

static int measure(struct gputaxi *b, way *how, unsigned bound, unsigned q, double *seconds,
		   struct fth_taxi_answer *answer)
{
	struct fth_taxi_query query = {q, bounds[bound]};
	int rc = fth_gpu_taxi_begin(b->setup->work);

	DO(rc, gpu_timed([&] { return how(b, &query, answer); }, seconds));
	return rc < 0 ? rc : check_answer(b, bound, q, answer);
}

/* Ways, in the order of their seconds. */
enum { OURS, WHOLE, ZERO_COPY, STAGED, WAYS };

struct cell {
	struct fth_taxi_answer answer;
	double seconds[WAYS];	  /* staged: 0, not run */
	uint64_t bytes, requests; /* that ours has read */
};

static int run_cell(struct gputaxi *b, unsigned bound, unsigned q, struct cell *cell)
{
	uint64_t bytes = 0, requests = 0;
	struct fth_taxi_answer other;
	int rc = gpu_rounds(b->s, 2, cell->seconds, [&](unsigned way, unsigned, double *value) {
		int rc = 0;

		if (way == OURS) {
			DO(rc, fth_gpu_taxi_empty(&b->taxi));
			DO(rc, fth_gpu_taxi_read(&b->taxi, &bytes, &requests));
			DO(rc, measure(b, through_caches, bound, q, value, &cell->answer));
			DO(rc, fth_gpu_taxi_read(&b->taxi, &cell->bytes, &cell->requests));
			return rc;
		}
		DO(rc, measure(b, by_whole_columns, bound, q, value, &other));
		if (rc == 0 && !fth_taxi_same_answer(&cell->answer, &other))
			rc = fth_fail(EILSEQ,
				      "Q%u: the caches and whole columns give different answers",
				      q);
		return rc;
	});

	DO(rc, measure(b, by_zero_copy, bound, q, &cell->seconds[ZERO_COPY], &other));
	if (q == QUERIES - 1)
		DO(rc, measure(b, by_staged_columns, bound, q, &cell->seconds[STAGED], &other));
	cell->bytes -= bytes;
	cell->requests -= requests;
	return rc;
}

/*
 * How many times faster it could be if both moved their bytes at the same rate, and with the rates
 * that the bus gave: loads by the GPU's threads are slower than its copy engine. Of the same
 * bounds, Q0 by zero copy says the one, Q0 by whole columns the other: `scan`.
 */
static void tell(const struct gputaxi *b, struct gpu_report *report, unsigned bound, unsigned q,
		 const struct cell *c, const struct cell *scan)
{
	uint64_t whole = (q + 1) * b->table.rows * 8;
	double by_bytes = (double)whole / (double)c->bytes;
	double useful = (double)c->answer.bytes_useful;

	gpu_case(report);
	gpu_count(report, "query", q);
	gpu_number(report, "miles", bounds[bound]);
	gpu_number(report, "ours_s", c->seconds[OURS]);
	gpu_number(report, "whole_s", c->seconds[WHOLE]);
	gpu_number(report, "staged_s", c->seconds[STAGED]);
	gpu_number(report, "zero_copy_s", c->seconds[ZERO_COPY]);
	gpu_number(report, "ratio", c->seconds[WHOLE] / c->seconds[OURS]);
	gpu_number(report, "bound_by_bytes", by_bytes);
	gpu_number(report, "bound_by_link",
		   by_bytes * scan->seconds[WHOLE] / scan->seconds[ZERO_COPY]);
	gpu_number(report, "amplification", (double)c->bytes / useful);
	gpu_number(report, "peer_amplification", (double)whole / useful);
	gpu_count(report, "trips", c->answer.trips);
	gpu_number(report, "dollars_per_mile", c->answer.dollars_per_mile);
	gpu_count(report, "bytes_useful", c->answer.bytes_useful);
	gpu_count(report, "bytes_read", c->bytes);
	gpu_count(report, "requests", c->requests);
	gpu_count(report, "peer_bytes_read", whole);
	gpu_case_end(report);
	/* The last is what sums it up. */
	gpu_sum(report, (double)b->table.rows / c->seconds[OURS],
		(double)b->table.rows / c->seconds[WHOLE]);
}

/* ---- all of it ---- */

static int open_all(struct gputaxi *b)
{
	struct fth_gpu_taxi_options opts = FTH_GPU_TAXI_OPTIONS_INIT;
	size_t tile = FTH_TAXI_COLUMNS * b->s->tile * 8;
	int rc = gpu_setup_map(b->setup, fth_taxi_size(b->s->rows));

	DO(rc, make_table(b));
	for (unsigned t = 0; t < GPU_TILES; t++) {
		DO(rc, gpu_setup_alloc_host(b->setup, &b->bounce[t], tile));
		DO(rc, gpu_setup_alloc(b->setup, &b->tiles[t], tile));
	}
	DO(rc, gpu_setup_pin(b->setup));
	DO(rc, gpu_setup_work(b->setup, b->s));
	DO(rc, gpu_setup_drive(b->setup, b->s->queues, 0));
	opts.scan_bytes = b->s->scan_cache;
	opts.scan_line = (uint32_t)b->s->scan_line;
	opts.bytes = b->s->cache;
	opts.line = (uint32_t)b->s->line;
	return rc < 0 ? rc : fth_gpu_taxi_open(b->setup->drive, &b->table, &opts, &b->taxi);
}

static int measure_all(struct gputaxi *b, struct gpu_report *report)
{
	int rc = 0;

	for (unsigned bound = 0; bound < BOUNDS; bound++) {
		struct cell cells[QUERIES] = {};

		for (unsigned q = 0; rc == 0 && q < QUERIES; q++) {
			rc = run_cell(b, bound, q, &cells[q]);
			if (rc == 0)
				tell(b, report, bound, q, &cells[q], &cells[0]);
		}
	}
	gpu_count(report, "registers", (uint64_t)fth_gpu_work_registers(FTH_GPU_WORK_TAXI));
	return rc;
}

int gputaxi_run(const struct gpu_settings *s, struct gpu_setup *setup, struct gpu_report *report)
{
	struct gputaxi b = {};
	struct fth_gpu_kept kept;
	int rc, closed;

	b.s = s;
	b.setup = setup;
	b.table.rows = s->rows;
	b.table.stride = (fth_taxi_size(s->rows) - fth_taxi_offset(&b.table, FTH_TAXI_DISTANCE)) /
			 FTH_TAXI_COLUMNS;
	rc = open_all(&b);
	DO(rc, measure_all(&b, report));
	kept = fth_gpu_keep(rc);
	closed = fth_gpu_taxi_close(&b.taxi);
	return kept.rc < 0 ? fth_gpu_tell(&kept) : closed;
}
