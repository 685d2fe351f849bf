/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of taxi trips on a device: the header, the writer and the check.
 *
 * Siblings: taxi/generate.c and taxi/csv.c make trips, taxi/query.c answers queries through a
 * cache, taxi/whole_columns.c by reading whole columns, taxi/answer.c holds what both share.
 *
 * 1. The header is block 0 of 4096 bytes; column c begins at HEADER_AREA + c * stride. Both are
 *    multiples of the longest line, so that a line never spans two columns.
 * 2. The header is zeroed, durably, before the first column is touched, and written after all of
 *    them are durable: a header that verifies has its columns.
 * 3. A column's sum is that of the checksums of its pieces of PIECE bytes, the last one shorter,
 *    each seeded with column and position: swapped pieces do not verify.
 */
#include "workloads/taxi/taxi.h"

#include "fathom/base/checksum.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC	    "FTHTAXI\n"
#define VERSION	    1u
#define HEADER_AREA FTH_CACHE_LINE_MAX
#define PIECE	    (1u << 20)
#define PIECE_ROWS  (PIECE / sizeof(double))
#define ROWS_MAX    ((uint64_t)1 << 48)
#define HEADER_SEED 0x7461786968656164u

/* Little-endian, as all machines are that this runs on. */
struct header {
	char magic[8];
	uint32_t version;
	uint32_t columns;
	uint64_t rows;
	uint64_t stride;
	uint64_t sums[FTH_TAXI_COLUMNS];
	uint8_t zero[4096 - 88];
	uint64_t checksum; /* of all before it */
};
_Static_assert(sizeof(struct header) == 4096, "the header is one block of any device");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "media are little-endian");

static const char *const column_names[FTH_TAXI_COLUMNS] = {
	"distance", "total", "surcharges", "hail fee", "tolls", "taxes",
};

const char *fth_taxi_column_name(enum fth_taxi_column column)
{
	return (unsigned)column < FTH_TAXI_COLUMNS ? column_names[column] : "unknown";
}

static uint64_t stride_of(uint64_t rows)
{
	uint64_t unit = FTH_CACHE_LINE_MAX;

	return (rows * sizeof(double) + unit - 1) / unit * unit;
}

uint64_t fth_taxi_offset(const struct fth_taxi_table *table, enum fth_taxi_column column)
{
	return HEADER_AREA + (uint64_t)column * table->stride;
}

uint64_t fth_taxi_size(uint64_t rows)
{
	return HEADER_AREA + FTH_TAXI_COLUMNS * stride_of(rows);
}

static uint64_t header_checksum(const struct header *header)
{
	return fth_checksum(header, offsetof(struct header, checksum), HEADER_SEED);
}

/* ---- opening ---- */

static int check_header(const struct header *header, uint64_t device_size)
{
	if (memcmp(header->magic, MAGIC, sizeof(header->magic)) != 0)
		return fth_fail(EINVAL, "the device does not contain a table of taxi trips");
	if (header->checksum != header_checksum(header))
		return fth_fail(EINVAL, "the header of the table is damaged");
	if (header->version != VERSION)
		return fth_fail(EINVAL, "the table has version %u, expected %u", header->version,
				VERSION);
	if (header->columns != FTH_TAXI_COLUMNS || header->rows > ROWS_MAX ||
	    header->stride % FTH_CACHE_LINE_MAX || header->stride < stride_of(header->rows))
		return fth_fail(EINVAL, "the header of the table is inconsistent");
	if (header->stride > (UINT64_MAX - HEADER_AREA) / FTH_TAXI_COLUMNS ||
	    HEADER_AREA + FTH_TAXI_COLUMNS * header->stride > device_size)
		return fth_fail(EINVAL, "the table of %llu rows is larger than the device",
				(unsigned long long)header->rows);
	return 0;
}

static int check_device(struct fth_dev *dev)
{
	const struct fth_dev_info *info = fth_dev_info(dev);

	if (sizeof(struct header) % info->block)
		return fth_fail(EINVAL, "blocks of %u bytes are too large for a table",
				info->block);
	return 0;
}

static void fill_table(const struct header *header, struct fth_taxi_table *out)
{
	out->rows = header->rows;
	out->stride = header->stride;
	memcpy(out->sums, header->sums, sizeof(out->sums));
}

int fth_taxi_open(struct fth_dev *dev, struct fth_taxi_table *out)
{
	uint64_t size = fth_dev_info(dev)->size;
	struct header header;
	int rc = check_device(dev);

	if (rc == 0 && size < sizeof(header))
		rc = fth_fail(EINVAL, "the device does not contain a table of taxi trips");
	if (rc == 0)
		rc = fth_dev_read(dev, &header, sizeof(header), 0, FTH_DEV_TIMEOUT);
	if (rc == 0)
		rc = check_header(&header, size);
	if (rc == 0)
		fill_table(&header, out);
	return rc;
}

/* ---- checking ---- */

static uint64_t piece_checksum(const void *piece, size_t bytes, unsigned column, uint64_t first_row)
{
	return fth_checksum(piece, bytes, (first_row << 3) + column);
}

/* Whole device blocks that hold so many bytes. */
static uint64_t blocks_of(struct fth_dev *dev, uint64_t bytes)
{
	uint64_t block = fth_dev_info(dev)->block;

	return (bytes + block - 1) / block * block;
}

static int sum_column(struct fth_dev *dev, const struct fth_taxi_table *table, unsigned column,
		      void *piece, bool (*stopped)(void), uint64_t *sum)
{
	int rc = 0;

	*sum = 0;
	for (uint64_t row = 0; row < table->rows && rc == 0; row += PIECE_ROWS) {
		uint64_t rows = table->rows - row < PIECE_ROWS ? table->rows - row : PIECE_ROWS;
		uint64_t bytes = rows * sizeof(double);

		if (stopped && stopped())
			return -EINTR;
		rc = fth_dev_read(dev, piece, blocks_of(dev, bytes),
				  fth_taxi_offset(table, column) + row * sizeof(double),
				  FTH_DEV_TIMEOUT);
		*sum += piece_checksum(piece, bytes, column, row);
	}
	return rc;
}

int fth_taxi_check(struct fth_dev *dev, const struct fth_taxi_table *table, bool (*stopped)(void))
{
	void *piece = fth_dev_buf_alloc(dev, PIECE);
	int rc = piece ? 0 : -ENOMEM;

	for (unsigned column = 0; column < FTH_TAXI_COLUMNS && rc == 0; column++) {
		uint64_t sum;

		rc = sum_column(dev, table, column, piece, stopped, &sum);
		if (rc == 0 && sum != table->sums[column])
			rc = fth_fail(EILSEQ, "column %s differs from what was written",
				      fth_taxi_column_name(column));
	}
	fth_dev_buf_free(dev, piece, PIECE);
	return rc;
}

/* ---- writing ---- */

struct fth_taxi_writer {
	struct fth_dev *dev;
	struct fth_taxi_table table;
	uint64_t capacity;
	uint64_t written; /* rows on the device; table.rows counts those in the buffers too */
	double *pieces;	  /* PIECE_ROWS of each column */
};

static double *piece_of(struct fth_taxi_writer *writer, unsigned column)
{
	return writer->pieces + column * PIECE_ROWS;
}

static int write_header(struct fth_dev *dev, const struct header *header)
{
	int rc = fth_dev_write(dev, header, sizeof(*header), 0, FTH_DEV_TIMEOUT);

	return rc < 0 ? rc : fth_dev_flush(dev, FTH_DEV_TIMEOUT);
}

static int start(struct fth_taxi_writer *writer)
{
	static const struct header none;
	uint64_t size = fth_dev_info(writer->dev)->size;
	int rc = check_device(writer->dev);

	if (rc < 0)
		return rc;
	if (writer->capacity > ROWS_MAX || fth_taxi_size(writer->capacity) > size)
		return fth_fail(ENOSPC, "%llu rows need a device of %llu bytes; this one has %llu",
				(unsigned long long)writer->capacity,
				(unsigned long long)fth_taxi_size(writer->capacity),
				(unsigned long long)size);
	writer->table.stride = stride_of(writer->capacity);
	writer->pieces = fth_dev_buf_alloc(writer->dev, FTH_TAXI_COLUMNS * (size_t)PIECE);
	return writer->pieces ? write_header(writer->dev, &none) : -ENOMEM;
}

int fth_taxi_writer_open(struct fth_dev *dev, uint64_t capacity, struct fth_taxi_writer **out)
{
	struct fth_taxi_writer *writer = calloc(1, sizeof(*writer));
	int rc;

	*out = NULL;
	if (!writer)
		return -ENOMEM;
	writer->dev = dev;
	writer->capacity = capacity;
	rc = start(writer);
	if (rc < 0) {
		fth_taxi_writer_free(writer);
		return rc;
	}
	*out = writer;
	return 0;
}

void fth_taxi_writer_free(struct fth_taxi_writer *writer)
{
	if (!writer)
		return;
	fth_dev_buf_free(writer->dev, writer->pieces, FTH_TAXI_COLUMNS * (size_t)PIECE);
	free(writer);
}

/* Write the buffered rows of all columns, and count them into the sums. */
static int write_pieces(struct fth_taxi_writer *writer)
{
	uint64_t first = writer->written, bytes = (writer->table.rows - first) * sizeof(double);
	int rc = 0;

	for (unsigned c = 0; c < FTH_TAXI_COLUMNS && bytes && rc == 0; c++) {
		double *piece = piece_of(writer, c);
		uint64_t whole = blocks_of(writer->dev, bytes);

		memset((char *)piece + bytes, 0, whole - bytes);
		writer->table.sums[c] += piece_checksum(piece, bytes, c, first);
		rc = fth_dev_write(writer->dev, piece, whole,
				   fth_taxi_offset(&writer->table, c) + first * sizeof(double),
				   FTH_DEV_TIMEOUT);
	}
	writer->written = writer->table.rows;
	return rc;
}

int fth_taxi_writer_add(struct fth_taxi_writer *writer, const struct fth_taxi_trip *trip)
{
	uint64_t at = writer->table.rows - writer->written;

	if (writer->table.rows == writer->capacity)
		return fth_fail(ENOSPC, "more rows than the capacity of %llu",
				(unsigned long long)writer->capacity);
	for (unsigned c = 0; c < FTH_TAXI_COLUMNS; c++)
		piece_of(writer, c)[at] = trip->column[c];
	writer->table.rows++;
	return at + 1 == PIECE_ROWS ? write_pieces(writer) : 0;
}

int fth_taxi_writer_finish(struct fth_taxi_writer *writer, struct fth_taxi_table *out)
{
	struct header header = {
		.magic = MAGIC,
		.version = VERSION,
		.columns = FTH_TAXI_COLUMNS,
		.stride = writer->table.stride,
	};
	int rc = write_pieces(writer);

	if (rc == 0)
		rc = fth_dev_flush(writer->dev, FTH_DEV_TIMEOUT);
	if (rc < 0)
		return rc;
	header.rows = writer->table.rows;
	memcpy(header.sums, writer->table.sums, sizeof(header.sums));
	header.checksum = header_checksum(&header);
	rc = write_header(writer->dev, &header);
	if (rc == 0 && out)
		*out = writer->table;
	return rc;
}
