/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taxi queries on a GPU: the answers are those of the CPU's module over the same table, through
 * caches that are much smaller than it, and over plain memory in parts. Skipped (77) without a GPU.
 */
#include "gpu/drive/medium_fixture.h"

#include "workloads/taxi/gpu.h"

#include <errno.h>

#define BYTES (16u << 20) /* of the drive */
#define PARTS 3u

static uint64_t rows = 300007;

struct bed {
	struct fth_dev *dev; /* the same table for the CPU */
	struct fth_taxi_table table;
	struct fth_gpu_work *work;
	struct bed_medium medium;
	struct fth_gpu_taxi taxi;
};

static void make_table(struct bed *bed)
{
	struct fth_taxi_generator generator;
	struct fth_taxi_writer *writer;
	struct fth_taxi_trip trip;
	char uri[32];

	snprintf(uri, sizeof(uri), "mem:%u", BYTES);
	OK(fth_dev_open(uri, &bed->dev));
	OK(fth_taxi_writer_open(bed->dev, rows, &writer));
	fth_taxi_generator_init(&generator, rows, 1);
	for (uint64_t i = 0; i < rows; i++) {
		fth_taxi_generate(&generator, &trip);
		OK(fth_taxi_writer_add(writer, &trip));
	}
	OK(fth_taxi_writer_finish(writer, &bed->table));
	fth_taxi_writer_free(writer);
}

static struct bed bed_open(uint32_t scan_line, uint32_t line)
{
	struct fth_gpu_drive_options drive = FTH_GPU_DRIVE_OPTIONS_INIT;
	struct fth_gpu_taxi_options taxi = FTH_GPU_TAXI_OPTIONS_INIT;
	struct fth_gpu_work_options work = FTH_GPU_WORK_OPTIONS_INIT;
	struct bed bed = {};

	make_table(&bed);
	work.blocks = bed_asked.small ? 1 : 2;
	work.ahead = bed_asked.small ? 2 : 4;
	OK(fth_gpu_work_open(&work, &bed.work));
	drive.bytes = BYTES;
	drive.queues = 4;
	bed.medium = bed_medium_open(&drive);
	OK(fth_dev_read(bed.dev, bed_medium_at(&bed.medium, 0), BYTES, 0, FTH_DEV_TIMEOUT));
	bed_medium_push(&bed.medium);
	taxi.scan_bytes = bed_asked.small ? 256u << 10 : 1u << 20;
	taxi.bytes = bed_asked.small ? 512u << 10 : 1u << 20;
	taxi.scan_line = scan_line;
	taxi.line = line;
	OK(fth_gpu_taxi_open(bed.medium.drive, &bed.table, &taxi, &bed.taxi));
	return bed;
}

static void bed_close(struct bed *bed)
{
	OK(fth_gpu_taxi_close(&bed->taxi));
	bed_medium_close(&bed->medium);
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
	MUST(after - before >= rows * 8);
	if (miles == FTH_TAXI_VERY_LONG)
		MUST(after - before <= rows * 12 + (uint64_t)q * fth_taxi_very_long_trips(rows) *
							   bed->taxi.part.values.line);
}

/* The table as plain memory, by parts of rows, as one who moves columns sees it. */
static void check_parts(struct bed *bed, unsigned q, double miles)
{
	struct fth_gpu_taxi_part part = bed->taxi.part;
	char *mapped = bed_medium_mapped(&bed->medium);
	double *distances = (double *)(mapped + fth_taxi_offset(&bed->table, FTH_TAXI_DISTANCE));
	double *values = (double *)(mapped + fth_taxi_offset(&bed->table, FTH_TAXI_TOTAL));
	struct fth_taxi_query query = {q, miles};
	struct fth_taxi_answer found;
	uint64_t each = (rows / PARTS + 8) / 2 * 2; /* even, for the alignment */

	OK(fth_gpu_taxi_begin(bed->work));
	for (unsigned p = 0; p < PARTS; p++) {
		uint64_t first = p * each, n = p + 1 < PARTS ? each : rows - first;

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

static void check_stopped(struct bed *bed)
{
	struct fth_taxi_query query = {5, FTH_TAXI_LONG};
	struct fth_taxi_answer found;

	OK(fth_gpu_drive_stop(bed->medium.drive));
	OK(fth_gpu_taxi_begin(bed->work));
	OK(fth_gpu_taxi_launch(bed->work, &bed->taxi.part, &query, 0, NULL));
	MUST(fth_gpu_taxi_end(bed->work, &bed->table, &query, &found) < 0);
	OK(fth_gpu_drive_start(bed->medium.drive));
	check_cached(bed, 5, FTH_TAXI_LONG);
	printf("a stopped drive: told as an error, and usable after it\n");
}

static void check_failures(void)
{
	struct bed bed = bed_open(4096, 512);
	struct fth_taxi_query query = {5, FTH_TAXI_LONG}, none = {6, 1};

	MUST(fth_gpu_taxi_launch(bed.work, &bed.taxi.part, &none, 0, NULL) == -EINVAL);
	MUST(fth_gpu_taxi_launch(bed.work, &bed.taxi.part, &query, FTH_GPU_TAXI_SLOTS, NULL) ==
	     -EINVAL);
	if (!bed_asked.no_failure)
		check_stopped(&bed);
	bed_close(&bed);
}

int main(int argc, char **argv)
{
	skip_without_gpu();
	bed_take_arguments(argc, argv);
	if (bed_asked.small)
		rows = 60011;
	check_lines(4096, 512);
	check_lines(8192, 4096);
	check_failures();
	return 0;
}
