/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables in a volume: batches, snapshots, leftovers, and devices that fail. */
#include "table/test/table_fixture.h"

#include "fathom/vol.h"

#define ROWS 4000u

struct volume {
	char path[64], uri[128], db_name[512];
	struct fth_table_db *db;
};

static void volume_make(struct volume *v)
{
	const char *uris[] = {v->uri};

	snprintf(v->path, sizeof(v->path), "/tmp/fathom-table-vol-XXXXXX");
	assert_non_null(mkdtemp(v->path));
	snprintf(v->uri, sizeof(v->uri), "file:%s/disk?create=on&size=16M", v->path);
	assert_ok(fth_vol_format_uris(uris, 1, NULL));
	snprintf(v->uri, sizeof(v->uri), "file:%s/disk", v->path);
}

static int volume_try_open(struct volume *v, const char *before, const char *after)
{
	snprintf(v->db_name, sizeof(v->db_name), "vol(%s%s%s)", before, v->uri, after);
	return fth_table_db_open(v->db_name, 0, &v->db);
}

static void volume_open(struct volume *v)
{
	assert_ok(volume_try_open(v, "", ""));
}

static void volume_remove(struct volume *v)
{
	fth_table_db_close(v->db);
	nftw(v->path, fixture_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_table(struct volume *v)
{
	struct fth_table_schema schema;

	assert_ok(fth_table_schema_parse(&schema, "a bigint not null, b bigint"));
	assert_ok(fth_table_create(v->db, "t", &schema));
	assert_int_equal(fth_table_create(v->db, "T", &schema), -EEXIST);
	fth_table_schema_release(&schema);
}

static int append(struct fth_table_db *db, int64_t first, bool commit)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	static int64_t values[2][ROWS];
	const struct fth_table_vector vectors[] = {{.values = values[0]}, {.values = values[1]}};
	struct fth_table_writer *writer;
	int rc;

	for (uint32_t i = 0; i < ROWS; i++) {
		values[0][i] = first + i;
		values[1][i] = (int64_t)((first + i) * 0x9e3779b97f4a7c15u >> 20);
	}
	options.group_rows = 1000;
	options.threads = 2;
	rc = fth_table_writer_open(db, "t", &options, &writer);
	if (rc < 0)
		return rc;
	rc = fth_table_writer_append(writer, vectors, ROWS);
	if (rc == 0 && commit)
		rc = fth_table_writer_commit(writer);
	fth_table_writer_close(writer);
	return rc;
}

/* Rows of the table, all of which are right. */
static uint64_t rows_of(struct fth_table_db *db)
{
	struct fth_table *table;
	uint64_t rows;

	assert_ok(fth_table_open(db, "t", NULL, &table));
	rows = fth_table_rows(table);
	assert_int_equal(fth_table_check(table, fixture_say, NULL, NULL), 0);
	if (rows) {
		assert_int_equal(fth_table_facts(table, 0)->flags & FTH_TABLE_DENSE,
				 FTH_TABLE_DENSE);
		assert_int_equal(fth_table_facts(table, 0)->max, rows - 1);
	}
	fth_table_close(table);
	return rows;
}

static uint64_t objects_of(const struct volume *v)
{
	const char *uris[] = {v->uri};
	struct fth_vol_info info;
	struct fth_vol *vol;

	assert_ok(fth_vol_open_uris(uris, 1, FTH_VOL_READONLY, &vol));
	fth_vol_info(vol, &info);
	fth_vol_close(vol);
	return info.objects;
}

static void batches_and_snapshots(void **state)
{
	struct fth_table *old;
	struct volume v;

	(void)state;
	volume_make(&v);
	volume_open(&v);
	make_table(&v);
	assert_int_equal(rows_of(v.db), 0);
	assert_ok(append(v.db, 0, true));
	assert_ok(fth_table_open(v.db, "t", NULL, &old));
	assert_ok(append(v.db, ROWS, true));
	assert_ok(append(v.db, 2 * ROWS, false));
	assert_int_equal(rows_of(v.db), 2 * ROWS);
	assert_int_equal(fth_table_rows(old), ROWS);
	assert_ok(fth_table_remove(v.db, "t"));
	assert_int_equal(fth_table_check(old, fixture_say, NULL, NULL), 0);
	fth_table_close(old);
	fth_table_db_close(v.db);
	/* The file that the snapshot had open is left, and goes now. */
	assert_int_equal(objects_of(&v), 1);
	volume_open(&v);
	make_table(&v);
	assert_ok(append(v.db, 0, true));
	fth_table_db_close(v.db);
	assert_int_equal(objects_of(&v), 2);
	volume_open(&v);
	assert_int_equal(rows_of(v.db), ROWS);
	volume_remove(&v);
}

/* The nth write or flush of the device fails, for all n, until a batch passes clean. */
static void fail_everywhere(const char *kind)
{
	struct volume v;
	uint64_t rows = 0, now;
	int rc, n = 1;

	volume_make(&v);
	volume_open(&v);
	make_table(&v);
	fth_table_db_close(v.db);
	do {
		char after[64];

		snprintf(after, sizeof(after), ")?kind=%s&nth=%d", kind, n++);
		rc = volume_try_open(&v, "fault(", after);
		if (rc == 0)
			rc = append(v.db, (int64_t)rows, true);
		fth_table_db_close(v.db);
		volume_open(&v);
		now = rows_of(v.db);
		fth_table_db_close(v.db);
		assert_true(now == rows || now == rows + ROWS);
		assert_true(rc < 0 || now == rows + ROWS);
		rows = now;
	} while (rc < 0 && n < 100);
	assert_int_equal(rc, 0);
	volume_open(&v);
	volume_remove(&v);
}

static void devices_that_fail(void **state)
{
	(void)state;
	fail_everywhere("write");
	fail_everywhere("flush");
}

static void a_full_volume_is_an_error(void **state)
{
	struct volume v;
	uint64_t rows = 0;
	int rc;

	(void)state;
	volume_make(&v);
	volume_open(&v);
	make_table(&v);
	while ((rc = append(v.db, (int64_t)rows, true)) == 0)
		rows += ROWS;
	assert_int_equal(rc, -ENOSPC);
	assert_true(rows > 10 * ROWS);
	assert_int_equal(rows_of(v.db), rows);
	volume_remove(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batches_and_snapshots),
		cmocka_unit_test(devices_that_fail),
		cmocka_unit_test(a_full_volume_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
