/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * table_scan DB FROM TO: store a million measurements in a table, and add up those of the days FROM
 * to TO.
 *
 *	cc table_scan.c $(pkg-config --cflags --libs fathom) -o table_scan
 *	./table_scan /data/db 100 107
 *
 * DB is a directory, or a volume as 'vol(URI,...)'. Shows how rows are appended as columns, and
 * that a scan reads only the groups of rows whose smallest and largest value say that they may have
 * something for it.
 */
#include <fathom/base.h>
#include <fathom/table.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS  1000000u
#define BATCH 10000u
#define A_DAY 1000u /* measurements */
#define DAY   0u    /* columns */
#define VALUE 1u

/* ---- storing ---- */

static int append(struct fth_table_writer *writer)
{
	static int64_t days[BATCH], values[BATCH];
	const struct fth_table_vector columns[] = {{.values = days}, {.values = values}};
	int rc = 0;

	for (uint32_t row = 0; row < ROWS && rc == 0; row += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++) {
			days[i] = (row + i) / A_DAY;
			values[i] = (row + i) % 977;
		}
		rc = fth_table_writer_append(writer, columns, BATCH);
	}
	return rc;
}

/* All rows become visible with the commit, or none. */
static int store(struct fth_table_db *db)
{
	struct fth_table_schema schema;
	struct fth_table_writer *writer;
	int rc = fth_table_schema_parse(&schema, "day int not null, value bigint not null");

	if (rc < 0)
		return rc;
	rc = fth_table_create(db, "measurements", &schema);
	fth_table_schema_release(&schema);
	if (rc == -EEXIST)
		return 0; /* from an earlier run */
	if (rc == 0)
		rc = fth_table_writer_open(db, "measurements", NULL, &writer);
	if (rc < 0)
		return rc;
	rc = append(writer);
	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	fth_table_writer_close(writer);
	return rc;
}

/* ---- scanning ---- */

struct scan {
	int64_t from, to, sum;
	uint32_t groups; /* that were read */
};

static int read_column(struct fth_table *table, uint32_t column, uint32_t group, int64_t *values)
{
	uint32_t rows = fth_table_group(table, group)->rows;
	struct fth_table_page page;
	void *image;
	int rc = fth_table_page_read(&page, table, column, group, &image);

	if (rc < 0)
		return rc;
	rc = fth_table_page_ints(&page, 0, rows, values, sizeof(*values));
	fth_table_page_free(table, column, group, image);
	return rc;
}

static int scan_group(struct fth_table *table, uint32_t group, struct scan *scan)
{
	static int64_t days[FTH_TABLE_GROUP_ROWS], values[FTH_TABLE_GROUP_ROWS];
	const struct fth_table_chunk *chunk = fth_table_chunk(table, DAY, group);
	int rc;

	if (chunk->max < scan->from || chunk->min > scan->to)
		return 0;
	scan->groups++;
	rc = read_column(table, DAY, group, days);
	if (rc == 0)
		rc = read_column(table, VALUE, group, values);
	for (uint32_t i = 0; rc == 0 && i < fth_table_group(table, group)->rows; i++)
		if (days[i] >= scan->from && days[i] <= scan->to)
			scan->sum += values[i];
	return rc;
}

static int add_up(struct fth_table_db *db, struct scan *scan)
{
	struct fth_table *table;
	int rc = fth_table_open(db, "measurements", NULL, &table);

	if (rc < 0)
		return rc;
	for (uint32_t group = 0; group < fth_table_groups(table) && rc == 0; group++)
		rc = scan_group(table, group, scan);
	if (rc == 0)
		printf("sum %" PRId64 "; %u of %u groups were read; days are sorted: %s\n",
		       scan->sum, scan->groups, fth_table_groups(table),
		       fth_table_facts(table, DAY)->flags & FTH_TABLE_SORTED ? "yes" : "no");
	fth_table_close(table);
	return rc;
}

int main(int argc, char **argv)
{
	struct scan scan = {0};
	struct fth_table_db *db;
	int rc;

	if (argc != 4) {
		fprintf(stderr, "usage: table_scan DB FROM TO\n");
		return 2;
	}
	scan.from = strtol(argv[2], NULL, 10);
	scan.to = strtol(argv[3], NULL, 10);
	rc = fth_table_db_open(argv[1], FTH_TABLE_DB_CREATE, &db);
	if (rc == 0) {
		rc = store(db);
		if (rc == 0)
			rc = add_up(db, &scan);
	}
	if (rc < 0)
		fprintf(stderr, "table_scan: %s\n", fth_error_text(rc));
	fth_table_db_close(db);
	return rc < 0 ? 1 : 0;
}
