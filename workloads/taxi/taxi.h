/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taxi trips as columns on flash, and the queries of BaM over them.
 *
 * A query scans one column, the distance of each trip, and looks at up to five more columns for
 * the few trips that are long enough: 0.47 % of them at 20 miles, 0.03 % at 30. Which values
 * are needed depends on the data, so a system that cannot fetch single values must read whole
 * columns (Z. Qureshi et al., ASPLOS 2023, section 5.3; dissertation, 2022, section 9.1.2).
 *
 * A table is one device (a file, a volume's object): a header and six sections of 8-byte doubles.
 * fth_taxi_writer makes one, out of fth_taxi_generate() or of the CSV files that the city of New
 * York publishes (fth_taxi_csv).
 */
#ifndef FTH_WORKLOADS_TAXI_H
#define FTH_WORKLOADS_TAXI_H

#include "fathom/base/decls.h"
#include "fathom/cache.h"

FTH_BEGIN_DECLS

/* The columns, and which of the published ones each is. Those not named in a file are 0. */
enum fth_taxi_column {
	FTH_TAXI_DISTANCE,   /* miles: trip_distance */
	FTH_TAXI_TOTAL,	     /* dollars, as all below: total_amount */
	FTH_TAXI_SURCHARGES, /* extra (or surcharge) + improvement_surcharge + congestion_surcharge
				+ cbd_congestion_fee + airport_fee */
	FTH_TAXI_HAIL_FEE,   /* ehail_fee */
	FTH_TAXI_TOLLS,	     /* tolls_amount */
	FTH_TAXI_TAXES,	     /* mta_tax */
	FTH_TAXI_COLUMNS
};

struct fth_taxi_trip {
	double column[FTH_TAXI_COLUMNS];
};

/* The name of a column, such as "distance". Any thread. */
const char *fth_taxi_column_name(enum fth_taxi_column column);

/* ---- tables ---- */

/* The header of a table. */
struct fth_taxi_table {
	uint64_t rows;
	uint64_t stride;		 /* bytes from one column to the next */
	uint64_t sums[FTH_TAXI_COLUMNS]; /* over the checksums of each column's pieces */
};

/* The offset of a column on the device; a multiple of the largest line size. */
uint64_t fth_taxi_offset(const struct fth_taxi_table *table, enum fth_taxi_column column);

/* The size in bytes of a table of `rows` rows. */
uint64_t fth_taxi_size(uint64_t rows);

/*
 * Read and check the header. Blocks. Returns 0; -EINVAL with an error text if there is no table, it
 * is damaged or larger than the device; or the device's error.
 */
int fth_taxi_open(struct fth_dev *dev, struct fth_taxi_table *out);

/*
 * Read all columns and compare them with their checksums. Blocks. Returns 0; -EILSEQ with the first
 * column that differs in the error text; -EINTR once `stopped`, which may be NULL, returns true.
 */
int fth_taxi_check(struct fth_dev *dev, const struct fth_taxi_table *table, bool (*stopped)(void));

/*
 * Writes a table from its first row to its last. Until fth_taxi_writer_finish() has returned 0, the
 * device has no table, not even the previous one; from then on the table is durable. One thread at
 * a time.
 */
struct fth_taxi_writer;

/* `capacity`: the most rows that will be added. -ENOSPC if they do not fit. */
int fth_taxi_writer_open(struct fth_dev *dev, uint64_t capacity, struct fth_taxi_writer **out);
/*
 * Append a trip. May block on the device. Returns 0, -ENOSPC beyond the capacity, or the device's
 * error.
 */
int fth_taxi_writer_add(struct fth_taxi_writer *writer, const struct fth_taxi_trip *trip);
/*
 * Write the remaining rows and the header, and flush the device: the table is durable. Blocks.
 * Returns as add.
 */
int fth_taxi_writer_finish(struct fth_taxi_writer *writer, struct fth_taxi_table *out);
/* Free the writer. Without a finish the device has no table. Accepts NULL. */
void fth_taxi_writer_free(struct fth_taxi_writer *writer);

/* ---- trips to fill one with ---- */

/*
 * Synthetic trips: of `rows`, exactly the paper's share (rounded) is at least 20 and at least 30
 * miles long, spread evenly at random; the rest is plausible. The same seed gives the same trips.
 */
struct fth_taxi_generator {
	uint64_t state;
	uint64_t left, left_long, left_very_long; /* rows still to come; of them >= 20, >= 30 */
};

#define FTH_TAXI_LONG	   20.0 /* miles */
#define FTH_TAXI_VERY_LONG 30.0

/*
 * The number of trips of at least FTH_TAXI_LONG and FTH_TAXI_VERY_LONG miles among `rows`: rows *
 * 0.0047 and rows * 0.0003, rounded.
 */
uint64_t fth_taxi_long_trips(uint64_t rows);
uint64_t fth_taxi_very_long_trips(uint64_t rows);

/* Start a generator of `rows` trips. Cannot fail. */
void fth_taxi_generator_init(struct fth_taxi_generator *generator, uint64_t rows, uint64_t seed);
/* The next trip; call it at most `rows` times. */
void fth_taxi_generate(struct fth_taxi_generator *generator, struct fth_taxi_trip *out);

/*
 * A parser of the published CSV files: a header line with the names of columns, in any order, case
 * and quoting; then one trip per line. Older and newer column names are accepted. trip_distance and
 * total_amount are required. An empty value, or one missing in a short line, is 0 and is counted.
 */
struct fth_taxi_csv;

struct fth_taxi_csv_options {
	/* skip and count lines with a value that is not a number, instead of failing */
	bool lenient;
};

struct fth_taxi_csv_counts {
	uint64_t lines;			  /* of the file, so far */
	uint64_t trips;			  /* passed to fn */
	uint64_t empty;			  /* missing values */
	uint64_t short_lines, long_lines; /* with fewer or more fields than the first line */
	uint64_t skipped;		  /* lines skipped, if lenient */
	unsigned absent;		  /* bit mask of the columns that the file does not have */
};

/* Called for each trip; a negative result ends the parse. */
typedef int (*fth_taxi_trip_fn)(void *context, const struct fth_taxi_trip *trip);

/* options may be NULL. One parser per file, one thread at a time. */
int fth_taxi_csv_open(const struct fth_taxi_csv_options *options, fth_taxi_trip_fn fn,
		      void *context, struct fth_taxi_csv **out);
/* The next bytes of the file, cut anywhere. -EINVAL with a text that has the line's number, or fn's
 * error; after an error the parser can only be closed. */
int fth_taxi_csv_feed(struct fth_taxi_csv *csv, const char *text, size_t length);
/* End of the file; the last line need not end with a newline. Returns 0; -EINVAL if the file ends
 * inside quotes or has no header line; or the error of fn. */
int fth_taxi_csv_finish(struct fth_taxi_csv *csv);
/* The counts so far. */
void fth_taxi_csv_counts(const struct fth_taxi_csv *csv, struct fth_taxi_csv_counts *out);
/* Free the parser. Accepts NULL. */
void fth_taxi_csv_close(struct fth_taxi_csv *csv);

/* ---- queries ---- */

#define FTH_TAXI_QUERIES 6

/*
 * Query q looks, for each trip of at least `miles`, at the columns 1 to q, in the order of
 * enum fth_taxi_column. Q0 only scans; Q1 asks for the cost of a mile; Q5 for what the driver makes
 * of it, after surcharges, hail fee, tolls and taxes.
 */
struct fth_taxi_query {
	unsigned query; /* 0 to 5 */
	double miles;
};

struct fth_taxi_answer {
	uint64_t trips;		       /* that were long enough */
	double sums[FTH_TAXI_COLUMNS]; /* of the columns looked at, over these trips */
	double dollars_per_mile; /* total less the columns behind it, over miles; 0 for Q0 or no
				  * trip
				  */
	/* What it took. */
	uint64_t bytes_useful; /* the distances, and 8 for each value looked at */
	uint64_t bytes_read;   /* from the device */
	uint64_t requests;
	uint64_t hits, misses; /* of lines, both caches together */
	uint64_t ns;
};

/* 0 in any field means its default. */
struct fth_taxi_options {
	unsigned threads; /* default 1 */
	uint64_t memory;  /* bytes for both caches; default 32 MiB */
	/*
	 * Lines. The scan wants long ones; what it selects is spread thinly, so that short ones
	 * leave more unread. Defaults: 64 KiB, and 512 bytes or the device's block.
	 */
	uint32_t scan_line, line;
	/*
	 * How many bytes of one long read take the device as long as one more request: its rate
	 * over its requests a second. Where selected trips lie denser than that, all between them
	 * is read. Default 4096; 1 reads the least.
	 */
	uint64_t request_cost;
	enum fth_cache_policy policy; /* of the second cache; nothing comes twice in the first */
	bool (*stopped)(void);	      /* ends it with -EINTR; NULL: never */
};

/*
 * Answer a query through two caches made for it. Sums are rounded once per thread and may differ
 * in the last digits from those of another number of threads. 0 or a negative errno.
 */
int fth_taxi_run(struct fth_dev *dev, const struct fth_taxi_table *table,
		 const struct fth_taxi_query *query, const struct fth_taxi_options *options,
		 struct fth_taxi_answer *out);

/*
 * The same answer by reading every column it needs from one end to the other, as a system does
 * that moves columns before it looks at them: large reads, several in flight, no cache. For
 * comparison and as a check. Looks at options->threads and, for its buffers, options->memory.
 */
int fth_taxi_run_whole(struct fth_dev *dev, const struct fth_taxi_table *table,
		       const struct fth_taxi_query *query, const struct fth_taxi_options *options,
		       struct fth_taxi_answer *out);

/* Returns true if two answers are equal: trips exactly, sums within rounding errors. */
bool fth_taxi_same_answer(const struct fth_taxi_answer *a, const struct fth_taxi_answer *b);

FTH_END_DECLS
#endif
