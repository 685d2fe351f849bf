/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of tables share: a database in a new directory, tables, and rows. */
#ifndef TABLE_FIXTURE_H
#define TABLE_FIXTURE_H

#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/table.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct table_fixture {
	char path[64];
	struct fth_table_db *db;
};

static inline void fixture_open(struct table_fixture *f)
{
	snprintf(f->path, sizeof(f->path), "/tmp/fathom-table-XXXXXX");
	assert_non_null(mkdtemp(f->path));
	assert_ok(fth_table_db_open(f->path, 0, &f->db));
}

static inline int fixture_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline void fixture_close(struct table_fixture *f)
{
	fth_table_db_close(f->db);
	nftw(f->path, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void fixture_create(struct table_fixture *f, const char *name, const char *columns)
{
	struct fth_table_schema schema;

	assert_ok(fth_table_schema_parse(&schema, columns));
	assert_ok(fth_table_create(f->db, name, &schema));
	fth_table_schema_release(&schema);
}

/* A table with the rows of a CSV text. */
static inline void fixture_fill(struct table_fixture *f, const char *name, const char *columns,
				const char *text)
{
	struct fth_table_text csv = FTH_TABLE_TEXT_CSV;
	struct fth_table_writer *w;
	char path[128];
	const char *paths[] = {path};
	FILE *file;

	snprintf(path, sizeof(path), "%s.csv", f->path);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	fixture_create(f, name, columns);
	assert_ok(fth_table_writer_open(f->db, name, NULL, &w));
	assert_ok(fth_table_load(w, paths, 1, &csv, NULL, NULL));
	assert_ok(fth_table_writer_commit(w));
	fth_table_writer_close(w);
	unlink(path);
}

static inline int fixture_say(const char *text, void *user)
{
	(void)user;
	print_error("%s\n", text);
	return 0;
}

/* Append one batch of integers to a table of one integer column. */
static inline void fixture_append_ints(struct table_fixture *f, const char *name,
				       const int64_t *values, const uint8_t *nulls, uint32_t rows,
				       const struct fth_table_write_options *options)
{
	const struct fth_table_vector vector = {.values = values, .nulls = nulls};
	struct fth_table_writer *writer;

	assert_ok(fth_table_writer_open(f->db, name, options, &writer));
	assert_ok(fth_table_writer_append(writer, &vector, rows));
	assert_ok(fth_table_writer_commit(writer));
	fth_table_writer_close(writer);
}

#endif
