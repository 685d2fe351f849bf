/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * taxi_fare URI [MILES]: what do drivers make of a mile on long trips? Makes up a table of trips
 * that fills the device, and asks it.
 *
 *	cc taxi_fare.c $(pkg-config --cflags --libs fathom) -o taxi_fare
 *	./taxi_fare 'file:/data/trips?create=on&size=1G' 30
 *
 * Shows a query over data that need not fit into memory: of all that is on the device it reads one
 * column, and of five others little more than the values it needs.
 */
#include <fathom/apps/taxi.h>
#include <fathom/base.h>

#include <stdio.h>
#include <stdlib.h>

/* As many trips as fit: a header, and six columns of 8 bytes in units of the longest line. */
static uint64_t rows_for(uint64_t size)
{
	uint64_t rows = size / (8 * FTH_TAXI_COLUMNS);

	while (rows && fth_taxi_size(rows) > size)
		rows -= rows < 8192 ? rows : 8192;
	return rows;
}

static int make_table(struct fth_dev *dev, struct fth_taxi_table *table)
{
	uint64_t rows = rows_for(fth_dev_info(dev)->size);
	struct fth_taxi_generator generator;
	struct fth_taxi_writer *writer;
	int rc = fth_taxi_writer_open(dev, rows, &writer);

	fth_taxi_generator_init(&generator, rows, 1);
	for (uint64_t i = 0; i < rows && rc == 0; i++) {
		struct fth_taxi_trip trip;

		fth_taxi_generate(&generator, &trip);
		rc = fth_taxi_writer_add(writer, &trip);
	}
	/* From here on the table is durable; before, there was none. */
	if (rc == 0)
		rc = fth_taxi_writer_finish(writer, table);
	fth_taxi_writer_free(writer);
	return rc;
}

static int ask(struct fth_dev *dev, const struct fth_taxi_table *table, double miles)
{
	struct fth_taxi_options options = {
		.size = sizeof(struct fth_taxi_options), .threads = 2, .memory = 16 << 20};
	struct fth_taxi_query query = {.query = 5, .miles = miles};
	struct fth_taxi_answer answer;
	int rc = fth_taxi_run(dev, table, &query, &options, &answer);

	if (rc < 0)
		return rc;
	printf("%llu of %llu trips are at least %g miles: $%.2f a mile for the driver\n",
	       (unsigned long long)answer.trips, (unsigned long long)table->rows, miles,
	       answer.dollars_per_mile);
	printf("read %llu bytes where %llu were needed, of %llu\n",
	       (unsigned long long)answer.bytes_read, (unsigned long long)answer.bytes_useful,
	       (unsigned long long)(8 * FTH_TAXI_COLUMNS * table->rows));
	return 0;
}

int main(int argc, char **argv)
{
	struct fth_taxi_table table;
	struct fth_dev *dev = NULL;
	int rc;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: taxi_fare URI [MILES]\n");
		return 2;
	}
	rc = fth_dev_open(argv[1], &dev);
	if (rc == 0)
		rc = make_table(dev, &table);
	if (rc == 0)
		rc = ask(dev, &table, argc > 2 ? atof(argv[2]) : FTH_TAXI_VERY_LONG);
	if (rc < 0)
		fprintf(stderr, "taxi_fare: %s\n", fth_error_text(rc));
	fth_dev_close(dev);
	return rc < 0 ? 1 : 0;
}
