/* SPDX-License-Identifier: BSD-2-Clause */
/* Storage that fails, readers beside writers, damaged bytes, and processes that are killed. */
#include "table/place/place_dir.h"
#include "table/test/table_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ROWS 5000u

static const char columns[] = "a bigint not null, b varchar(20)";

/* Append ROWS rows that begin with `first`, in groups of 500; returns the error of any step. */
static int append(struct fth_table_db *db, int64_t first)
{
	struct fth_table_write_options options = FTH_TABLE_WRITE_OPTIONS_INIT;
	static int64_t values[ROWS];
	static uint32_t offsets[ROWS + 1];
	static char bytes[ROWS * 10];
	const struct fth_table_vector vectors[] = {{.values = values},
						   {.offsets = offsets, .bytes = bytes}};
	struct fth_table_writer *writer;
	int rc;

	for (uint32_t i = 0; i < ROWS; i++) {
		values[i] = first + i;
		offsets[i + 1] =
			offsets[i] + (uint32_t)sprintf(bytes + offsets[i], "%u", i * 7 % 9999);
	}
	options.group_rows = 500;
	options.threads = 2;
	rc = fth_table_writer_open(db, "t", &options, &writer);
	if (rc < 0)
		return rc;
	rc = fth_table_writer_append(writer, vectors, ROWS);
	if (rc == 0)
		rc = fth_table_writer_commit(writer);
	fth_table_writer_close(writer);
	return rc;
}

static uint64_t rows_of(struct table_fixture *f)
{
	struct fth_table *table;
	uint64_t rows;

	assert_ok(fth_table_open(f->db, "t", NULL, &table));
	rows = fth_table_rows(table);
	assert_int_equal(fth_table_check(table, fixture_say, NULL, NULL), 0);
	fth_table_close(table);
	return rows;
}

static uint64_t data_size(const struct table_fixture *f)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/t/data", f->path);
	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_size;
}

/* Fail the nth change of the directory, for all n, until a batch passes clean. */
static void fail_everywhere(int err)
{
	struct table_fixture f;
	uint64_t rows = 0;
	int n = 1, rc, left;

	fixture_open(&f);
	fixture_create(&f, "t", columns);
	do {
		uint64_t size = data_size(&f), now;

		place_dir_fail(n, err);
		rc = append(f.db, (int64_t)rows);
		left = place_dir_fail_left();
		place_dir_fail(0, 0);
		assert_true(rc == 0 || rc == -err || rc == -EUCLEAN);
		now = rows_of(&f);
		assert_int_equal(now, rows + (rc == 0 || rc == -EUCLEAN ? ROWS : 0));
		if (now == rows)
			assert_int_equal(data_size(&f), size);
		rows = now;
		n++;
	} while (left == 0);
	assert_int_equal(rc, 0);
	assert_true(n > 10);
	fixture_close(&f);
}

static void a_batch_that_fails_leaves_nothing(void **state)
{
	(void)state;
	fail_everywhere(EIO);
	fail_everywhere(ENOSPC);
}

static void create_and_remove_fail_clean(void **state)
{
	struct fth_table_schema schema;
	struct table_fixture f;
	int n = 1, rc;

	(void)state;
	fixture_open(&f);
	assert_ok(fth_table_schema_parse(&schema, columns));
	do {
		struct fth_table *table;

		place_dir_fail(n++, EIO);
		rc = fth_table_create(f.db, "t", &schema);
		place_dir_fail(0, 0);
		if (fth_table_open(f.db, "t", NULL, &table) == 0) {
			fth_table_close(table);
			/* In place, but perhaps not durable. */
			assert_ok(fth_table_remove(f.db, "t"));
		} else {
			assert_true(rc < 0);
		}
	} while (rc < 0);
	assert_ok(fth_table_create(f.db, "t", &schema));
	place_dir_fail(1, EIO);
	assert_int_equal(fth_table_remove(f.db, "t"), -EIO);
	assert_int_equal(rows_of(&f), 0);
	assert_ok(fth_table_remove(f.db, "t"));
	assert_int_equal(fth_table_remove(f.db, "t"), -ENOENT);
	fth_table_schema_release(&schema);
	fixture_close(&f);
}

static void snapshots_do_not_change(void **state)
{
	struct fth_table *old, *gone;
	struct fth_table_writer *writer;
	struct table_fixture f;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "T", columns);
	assert_ok(append(f.db, 0));
	assert_ok(fth_table_open(f.db, "t", NULL, &old));
	assert_ok(fth_table_writer_open(f.db, "t", NULL, &writer));
	assert_int_equal(append(f.db, 0), -EBUSY);
	assert_int_equal(fth_table_remove(f.db, "t"), -EBUSY);
	fth_table_writer_close(writer);
	assert_ok(append(f.db, 1));
	assert_int_equal(fth_table_rows(old), ROWS);
	assert_int_equal(fth_table_check(old, fixture_say, NULL, NULL), 0);
	assert_ok(fth_table_open(f.db, "t", NULL, &gone));
	assert_int_equal(fth_table_rows(gone), 2 * ROWS);
	assert_ok(fth_table_remove(f.db, "t"));
	assert_int_equal(fth_table_check(gone, fixture_say, NULL, NULL), 0);
	fth_table_close(old);
	fth_table_close(gone);
	fixture_close(&f);
}

static int count_bad(const char *text, void *user)
{
	assert_non_null(strstr(text, "table t, column "));
	assert_non_null(strstr(text, "group "));
	(*(unsigned *)user)++;
	return 0;
}

/* Change one byte at a time: rows are as they were, or the error names table, column and group. */
static void damaged_pages_are_noticed(void **state)
{
	struct fth_rng rng = {3};
	struct table_fixture f;
	unsigned noticed = 0;
	char path[128];
	int fd;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "t", columns);
	assert_ok(append(f.db, 0));
	snprintf(path, sizeof(path), "%s/t/data", f.path);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	for (unsigned i = 0; i < 60; i++) {
		off_t at = (off_t)(4096 + fth_rng_below(&rng, data_size(&f) - 4096));
		struct fth_table *table;
		unsigned char byte, bad;
		unsigned findings = 0;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		bad = byte ^ (unsigned char)(1 + fth_rng_below(&rng, 255));
		assert_int_equal(pwrite(fd, &bad, 1, at), 1);
		assert_ok(fth_table_open(f.db, "t", NULL, &table));
		assert_ok(fth_table_check(table, count_bad, NULL, &findings));
		noticed += findings;
		fth_table_close(table);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
	assert_true(noticed > 10);
	assert_int_equal(rows_of(&f), ROWS);
	fixture_close(&f);
}

static void damaged_manifests_are_noticed(void **state)
{
	struct table_fixture f;
	char path[128];
	struct stat st;
	int fd;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "t", columns);
	assert_ok(append(f.db, 0));
	snprintf(path, sizeof(path), "%s/t/manifest", f.path);
	fd = open(path, O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t at = 0; at < st.st_size; at += 13) {
		struct fth_table *table;
		unsigned char byte, bad;

		assert_int_equal(pread(fd, &byte, 1, at), 1);
		bad = byte ^ 0x10;
		assert_int_equal(pwrite(fd, &bad, 1, at), 1);
		assert_int_equal(fth_table_open(f.db, "t", NULL, &table), -EBADMSG);
		assert_null(table);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	}
	close(fd);
	assert_int_equal(rows_of(&f), ROWS);
	fixture_close(&f);
}

/* A child appends batch after batch and is killed. */
static void killed_writers_leave_whole_batches(void **state)
{
	unsigned rounds = getenv("FTH_LONG_TESTS") ? 500 : 12;
	struct fth_rng rng = {11};
	struct table_fixture f;
	uint64_t rows = 0;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "t", columns);
	for (unsigned i = 0; i < rounds; i++) {
		uint64_t now;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			for (int64_t batch = (int64_t)(rows / ROWS);; batch++)
				if (append(f.db, batch * ROWS) < 0)
					_exit(1);
		}
		usleep((useconds_t)fth_rng_below(&rng, 30000));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		now = rows_of(&f);
		assert_int_equal(now % ROWS, 0);
		assert_true(now >= rows);
		rows = now;
	}
	/* What the killed ones left is cut off by the next writer. */
	assert_ok(append(f.db, (int64_t)rows));
	assert_int_equal(rows_of(&f), rows + ROWS);
	{
		struct fth_table *table;

		assert_ok(fth_table_open(f.db, "t", NULL, &table));
		assert_int_equal(data_size(&f), fth_table_bytes(table));
		assert_int_equal(fth_table_facts(table, 0)->flags & FTH_TABLE_DENSE,
				 FTH_TABLE_DENSE);
		fth_table_close(table);
	}
	fixture_close(&f);
}

static void *limited_alloc(void *user, size_t bytes)
{
	unsigned *left = user;

	return *left && --*left ? malloc(bytes) : NULL;
}

static void plain_release(void *user, void *memory, size_t bytes)
{
	(void)user;
	(void)bytes;
	free(memory);
}

static void memory_comes_from_the_hooks(void **state)
{
	struct fth_table *table = NULL;
	struct table_fixture f;
	unsigned n = 0, left;
	int rc;

	(void)state;
	fixture_open(&f);
	fixture_create(&f, "t", columns);
	assert_ok(append(f.db, 0));
	do {
		const struct fth_table_memory memory = {limited_alloc, plain_release, &left};

		left = ++n;
		rc = fth_table_open(f.db, "t", &memory, &table);
		assert_true(rc == 0 || rc == -ENOMEM);
	} while (rc < 0);
	assert_true(n > 5);
	fth_table_close(table);
	fixture_close(&f);
}

/* An allocator that knows what is allocated. */
struct ledger {
	size_t bytes;
	unsigned allocs, releases;
};

static void *ledger_alloc(void *user, size_t bytes)
{
	struct ledger *ledger = user;

	ledger->bytes += bytes;
	ledger->allocs++;
	return malloc(bytes);
}

static void ledger_release(void *user, void *memory, size_t bytes)
{
	struct ledger *ledger = user;

	assert_true(bytes <= ledger->bytes);
	ledger->bytes -= bytes;
	ledger->releases++;
	free(memory);
}

/* A snapshot returns every byte that it charged, with the length that was charged. */
static void memory_is_given_back(void **state)
{
	struct ledger ledger = {0};
	const struct fth_table_memory memory = {ledger_alloc, ledger_release, &ledger};
	struct fth_table_page page;
	struct table_fixture f;
	struct fth_table *table;
	unsigned releases;
	size_t open;
	void *image;

	(void)state;
	fixture_open(&f);
	fixture_fill(&f, "t", "a int, b text", "1,one\n2,two\n,\n");
	assert_ok(fth_table_open(f.db, "t", &memory, &table));
	open = ledger.bytes;
	for (uint32_t c = 0; c < 2; c++) {
		assert_ok(fth_table_page_read(&page, table, c, 0, &image));
		assert_true(ledger.bytes > open);
		fth_table_page_free(table, c, 0, image);
		assert_int_equal(ledger.bytes, open);
	}
	/* Nothing was read, and nothing is released. */
	releases = ledger.releases;
	fth_table_page_free(table, 0, 0, NULL);
	assert_int_equal(ledger.releases, releases);
	fth_table_close(table);
	assert_int_equal(ledger.bytes, 0);
	assert_int_equal(ledger.allocs, ledger.releases);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_that_fails_leaves_nothing),
		cmocka_unit_test(create_and_remove_fail_clean),
		cmocka_unit_test(snapshots_do_not_change),
		cmocka_unit_test(damaged_pages_are_noticed),
		cmocka_unit_test(damaged_manifests_are_noticed),
		cmocka_unit_test(killed_writers_leave_whole_batches),
		cmocka_unit_test(memory_comes_from_the_hooks),
		cmocka_unit_test(memory_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
