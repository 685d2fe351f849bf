/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taxi queries on a GPU: the answers are those of the CPU's module over the same table, through
 * caches that are much smaller than it, and over plain memory in parts. Skipped (77) without a GPU.
 */
#include "../gpu/gpu_fixture.h"

#include "fathom/apps/gpu_taxi.h"

#include <errno.h>
#include <string.h>

#define ROWS  300007u
#define PARTS 3u

struct bed {
	struct fth_dev *dev; /* the same table for the CPU */
	struct fth_taxi_table table;
	struct fth_gpu_work *work;
	struct fth_gpu_drive *drive;
	struct fth_gpu_taxi taxi;
};

static void make_table(struct bed *bed)
{
	struct fth_taxi_generator generator;
	struct fth_taxi_writer *writer;
	struct fth_taxi_trip trip;

	OK(fth_dev_open("mem:16M", &bed->dev));
	OK(fth_taxi_writer_open(bed->dev, ROWS, &writer));
	fth_taxi_generator_init(&generator, ROWS, 1);
	for (uint64_t i = 0; i < ROWS; i++) {
		fth_taxi_generate(&generator, &trip);
		OK(fth_taxi_writer_add(writer, &trip));
	}
	OK(fth_taxi_writer_finish(writer, &bed->table));
	fth_taxi_writer_free(writer);
}

static struct bed bed_open(uint32_t scan_line, uint32_t line)
{
	struct fth_gpu_drive_opts drive = FTH_GPU_DRIVE_OPTS_INIT;
	struct fth_gpu_taxi_opts taxi = FTH_GPU_TAXI_OPTS_INIT;
	struct fth_gpu_work_opts work = FTH_GPU_WORK_OPTS_INIT;
	uint64_t piece = 1u << 20;
	struct bed bed = {};

	make_table(&bed);
	work.blocks = 2;
	work.ahead = 4;
	OK(fth_gpu_work_open(&work, &bed.work));
	drive.bytes = 16u << 20;
	drive.queues = 4;
	OK(fth_gpu_drive_open(&drive, &bed.drive));
	for (uint64_t at = 0; at < drive.bytes; at += piece)
		OK(fth_dev_read(bed.dev, (char *)fth_gpu_drive_medium(bed.drive, 0) + at, piece,
				at));
	taxi.scan_bytes = 1u << 20;
	taxi.bytes = 1u << 20;
	taxi.scan_line = scan_line;
	taxi.line = line;
	OK(fth_gpu_taxi_open(bed.drive, &bed.table, &taxi, &bed.taxi));
	return bed;
}

static void bed_close(struct bed *bed)
{
	OK(fth_gpu_taxi_close(&bed->taxi));
	OK(fth_gpu_drive_close(bed->drive));
	OK(fth_gpu_work_close(bed->work));
	fth_dev_close(bed->dev);
}

static void check_answer(struct bed *bed, const struct fth_taxi_query *query,
			 const struct fth_taxi_answer *found)
{
	struct fth_taxi_answer expected;

	OK(fth_taxi_run(bed->dev, &bed->table, query, NULL, &expected));
	if (!fth_taxi_same_answer(&expected, found))
		fprintf(stderr, "Q%u at %g: %llu trips, not %llu\n", query->query, query->miles,
			(unsigned long long)found->trips, (unsigned long long)expected.trips);
	MUST(fth_taxi_same_answer(&expected, found));
	MUST(found->bytes_useful == expected.bytes_useful);
}

static void check_cached(struct bed *bed, unsigned q, double miles)
{
	struct fth_taxi_query query = {q, miles};
	struct fth_taxi_answer found;
	uint64_t before, after, requests;

	OK(fth_gpu_taxi_empty(&bed->taxi));
	OK(fth_gpu_taxi_read(&bed->taxi, &before, &requests));
	OK(fth_gpu_taxi_begin(bed->work));
	OK(fth_gpu_taxi_launch(bed->work, &bed->taxi.part, &query, 0, NULL));
	OK(fth_gpu_taxi_end(bed->work, &bed->table, &query, &found));
	OK(fth_gpu_taxi_read(&bed->taxi, &after, &requests));
	check_answer(bed, &query, &found);
	/* The scan reads its column; where few trips are long, little else is read. */
	MUST(after - before >= (uint64_t)ROWS * 8);
	if (miles == FTH_TAXI_VERY_LONG)
		MUST(after - before <=
		     (uint64_t)ROWS * 12 + (uint64_t)q * fth_taxi_very_long_trips(ROWS) *
						   bed->taxi.part.values.line);
}

/* The table as plain memory, by parts of rows, as one who moves columns sees it. */
static void check_parts(struct bed *bed, unsigned q, double miles)
{
	struct fth_gpu_taxi_part part = bed->taxi.part;
	char *mapped = (char *)fth_gpu_drive_mapped(bed->drive, 0);
	double *distances = (double *)(mapped + fth_taxi_offset(&bed->table, FTH_TAXI_DISTANCE));
	double *values = (double *)(mapped + fth_taxi_offset(&bed->table, FTH_TAXI_TOTAL));
	struct fth_taxi_query query = {q, miles};
	struct fth_taxi_answer found;
	uint64_t each = 100010; /* an even number, for the alignment */

	OK(fth_gpu_taxi_begin(bed->work));
	for (unsigned p = 0; p < PARTS; p++) {
		uint64_t first = p * each, n = p + 1 < PARTS ? each : ROWS - first;

		part.miles = fth_gpu_source_plain(distances + first, n, 8, 4096);
		part.values = fth_gpu_source_plain(values + first, 4 * part.stride + n, 8, 512);
		OK(fth_gpu_taxi_launch(bed->work, &part, &query, p % 2, NULL));
	}
	OK(fth_gpu_taxi_end(bed->work, &bed->table, &query, &found));
	check_answer(bed, &query, &found);
}

static void check_lines(uint32_t scan_line, uint32_t line)
{
	static const double bounds[] = {FTH_TAXI_LONG, FTH_TAXI_VERY_LONG, 1000, 0};
	struct bed bed = bed_open(scan_line, line);

	for (unsigned b = 0; b < 4; b++)
		for (unsigned q = 0; q < FTH_TAXI_QUERIES; q++) {
			check_cached(&bed, q, bounds[b]);
			check_parts(&bed, q, bounds[b]);
		}
	printf("lines of %u and %u: Q0 to Q5 as on the CPU\n", scan_line, line);
	bed_close(&bed);
}

static void check_failures(void)
{
	struct bed bed = bed_open(4096, 512);
	struct fth_taxi_query query = {5, FTH_TAXI_LONG}, none = {6, 1};
	struct fth_taxi_answer found;

	MUST(fth_gpu_taxi_launch(bed.work, &bed.taxi.part, &none, 0, NULL) == -EINVAL);
	MUST(fth_gpu_taxi_launch(bed.work, &bed.taxi.part, &query, FTH_GPU_TAXI_SLOTS, NULL) ==
	     -EINVAL);
	OK(fth_gpu_drive_stop(bed.drive));
	OK(fth_gpu_taxi_begin(bed.work));
	OK(fth_gpu_taxi_launch(bed.work, &bed.taxi.part, &query, 0, NULL));
	MUST(fth_gpu_taxi_end(bed.work, &bed.table, &query, &found) < 0);
	OK(fth_gpu_drive_start(bed.drive));
	check_cached(&bed, 5, FTH_TAXI_LONG);
	bed_close(&bed);
	printf("a stopped drive: told as an error, and usable after it\n");
}

int main(void)
{
	skip_without_gpu();
	check_lines(4096, 512);
	check_lines(8192, 4096);
	check_failures();
	return 0;
}
