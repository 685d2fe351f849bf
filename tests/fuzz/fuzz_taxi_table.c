/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header of a table of taxi trips: whatever it says, it is refused with a reason, or the table
 * can be read to its end. The input is laid over a good header by exclusive or, byte by byte; if
 * its first bit is set the checksum is put right again. Seeds: written by hand.
 */
#include "workloads/taxi/taxi.h"
#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include "fuzz_input.h"

#include <string.h>

#define HEADER	    4096u
#define CHECKSUM_AT (HEADER - 8)
#define SEED	    0x7461786968656164u /* of the header's checksum */
#define ROWS	    1000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fth_dev *dev;
static uint8_t good[HEADER];

static void set_checksum(uint8_t *header)
{
	uint64_t sum = fth_checksum(header, CHECKSUM_AT, SEED);

	memcpy(header + CHECKSUM_AT, &sum, sizeof(sum));
}

static void make_table(void)
{
	struct fth_taxi_generator generator;
	struct fth_taxi_writer *writer;
	struct fth_taxi_trip trip;
	uint8_t copy[HEADER];

	require(fth_dev_open("mem:1M", &dev) == 0, "a device");
	require(fth_taxi_writer_open(dev, ROWS, &writer) == 0, "a writer");
	fth_taxi_generator_init(&generator, ROWS, 1);
	for (unsigned i = 0; i < ROWS; i++) {
		fth_taxi_generate(&generator, &trip);
		require(fth_taxi_writer_add(writer, &trip) == 0, "a row");
	}
	require(fth_taxi_writer_finish(writer, NULL) == 0, "a table");
	fth_taxi_writer_free(writer);
	require(fth_dev_read(dev, good, HEADER, 0, FTH_DEV_TIMEOUT) == 0, "its header");
	memcpy(copy, good, HEADER);
	set_checksum(copy);
	require(memcmp(copy, good, HEADER) == 0, "this knows how the checksum is made");
}

static void use_table(const struct fth_taxi_table *table)
{
	struct fth_taxi_options least = {.memory = 1};
	struct fth_taxi_query query = {5, 0};
	struct fth_taxi_answer answer;
	int rc = fth_taxi_check(dev, table, NULL);

	require(rc == 0 || rc == -84 /* EILSEQ */, "the columns are right, or found wrong");
	require(fth_taxi_run_whole(dev, table, &query, &least, &answer) == 0, "it can be read");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fth_taxi_table table;
	uint8_t header[HEADER];
	int rc;

	(void)input_left;
	if (!dev)
		make_table();
	memcpy(header, good, HEADER);
	for (size_t i = 1; i < size && i <= HEADER; i++)
		header[i - 1] ^= data[i];
	if (size && (data[0] & 1))
		set_checksum(header);
	require(fth_dev_write(dev, header, HEADER, 0, FTH_DEV_TIMEOUT) == 0, "it is written");
	rc = fth_taxi_open(dev, &table);
	if (rc == 0)
		use_table(&table);
	else
		require(fth_error_text(rc)[0] != '\0', "a reason is given");
	return 0;
}
