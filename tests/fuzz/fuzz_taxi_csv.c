/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CSV files of taxi trips: any bytes are parsed or refused with a reason, and the same whether they
 * come at once or one by one, leniently or not. Seeds: a file each.
 */
#include "workloads/taxi/taxi.h"
#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include "fuzz_input.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	int rc;
	uint64_t trips;
	uint64_t sum; /* of all values, by their bits */
	struct fth_taxi_csv_counts counts;
};

static int take(void *context, const struct fth_taxi_trip *trip)
{
	struct outcome *outcome = context;

	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		require(!isnan(trip->column[c]), "a value is a number");
	outcome->trips++;
	outcome->sum = fth_checksum(trip, sizeof(*trip), outcome->sum);
	return 0;
}

static struct outcome parse(const uint8_t *data, size_t size, size_t piece, bool lenient)
{
	struct fth_taxi_csv_options options = {.lenient = lenient};
	struct outcome outcome = {0};
	struct fth_taxi_csv *csv;

	if (fth_taxi_csv_open(&options, take, &outcome, &csv) < 0)
		return outcome;
	for (size_t at = 0; at < size && outcome.rc == 0; at += piece)
		outcome.rc = fth_taxi_csv_feed(csv, (const char *)data + at,
					       size - at < piece ? size - at : piece);
	if (outcome.rc == 0)
		outcome.rc = fth_taxi_csv_finish(csv);
	if (outcome.rc < 0)
		require(fth_error_text(outcome.rc)[0] != '\0', "a reason is given");
	fth_taxi_csv_counts(csv, &outcome.counts);
	fth_taxi_csv_close(csv);
	require(outcome.trips == outcome.counts.trips, "every trip is counted");
	return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct outcome whole = parse(data, size, size + 1, false);
	struct outcome cut = parse(data, size, 1, false);
	struct outcome lenient = parse(data, size, 7, true);

	(void)input;
	(void)input_left;
	require(whole.rc == cut.rc && whole.sum == cut.sum, "cutting changes nothing");
	require(whole.trips == cut.trips, "cutting changes no count");
	require(lenient.trips >= whole.trips, "being lenient loses no trip");
	if (whole.rc == 0)
		require(lenient.rc == 0 && lenient.sum == whole.sum && lenient.counts.skipped == 0,
			"being lenient changes nothing where there is no mistake");
	return 0;
}
