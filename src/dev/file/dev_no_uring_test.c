/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library in a container: io_uring is forbidden by a seccomp filter, and files, volumes and
 * arrays work all the same, without an option that says so.
 */
#include "dev/file/dev_file_fixture.h"

#include "dev/testkit/dev_conformance.h"
#include "dev/file/no_uring_fixture.h"
#include "fathom/array.h"
#include "fathom/vol.h"

#include <sys/wait.h>

#define FILE_BYTES (4u << 20)
#define ELEMENTS   (256u << 10)

static void files_conform(void **state)
{
	static const char *const formats[] = {
		"file:%s",
		"file:%s?direct=off",
		"crash(fault(delay(file:%s)))",
	};
	struct fth_conformance_options options = FTH_CONFORMANCE_DEFAULTS;

	(void)state;
	options.operations = 800;
	options.bytes = 256 << 10;
	for (unsigned place = 0; place < place_count; place++) {
		for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
			char uri[1024];

			make_file(place, FILE_BYTES);
			snprintf(uri, sizeof(uri), formats[i], path_in(place, "a"));
			assert_ok(fth_dev_conformance(uri, &options));
		}
	}
}

static void a_volume_on_files_conforms(void **state)
{
	struct fth_conformance_options options = FTH_CONFORMANCE_DEFAULTS;
	char uri[1024];

	(void)state;
	options.operations = 800;
	options.bytes = 256 << 10;
	make_file(0, FILE_BYTES);
	snprintf(uri, sizeof(uri), "vol(file:%s)?object=x&create=1M&format=on", path_in(0, "a"));
	assert_ok(fth_dev_conformance(uri, &options));
}

/* Larger than its cache, so that lines come and go. */
static void an_array_on_a_file_keeps_its_data(void **state)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	uint32_t *values = malloc(ELEMENTS * sizeof(*values));
	struct fth_array *array;
	struct fth_cache *cache;
	char uri[1024];

	(void)state;
	assert_non_null(values);
	make_file(0, FILE_BYTES);
	snprintf(uri, sizeof(uri), "file:%s", path_in(0, "a"));
	options.memory = 256 << 10;
	assert_ok(fth_cache_open(&options, &cache));
	assert_ok(fth_array_open(cache, uri, sizeof(*values), NULL, &array));
	for (uint32_t i = 0; i < ELEMENTS; i++)
		values[i] = i * 2654435761u;
	assert_ok(fth_array_write(array, 0, ELEMENTS, values));
	assert_ok(fth_array_flush(array, 0, FTH_ARRAY_ALL));
	memset(values, 0, ELEMENTS * sizeof(*values));
	assert_ok(fth_array_read(array, 0, ELEMENTS, values));
	for (uint32_t i = 0; i < ELEMENTS; i++)
		assert_int_equal(values[i], i * 2654435761u);
	assert_ok(fth_array_close(array));
	fth_cache_close(cache);
	free(values);
}

static void threads_are_in_use(void **state)
{
	struct fth_dev *dev;

	(void)state;
	make_file(0, FILE_BYTES);
	assert_ok(open_a(0, "", &dev));
	assert_string_equal(fth_dev_info(dev)->engine, "threads");
	fth_dev_close(dev);
}

static int in_a_container(const char *name, int err)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_are_in_use),
		cmocka_unit_test(files_conform),
		cmocka_unit_test(a_volume_on_files_conforms),
		cmocka_unit_test(an_array_on_a_file_keeps_its_data),
	};

	if (!forbid_io_uring(err)) {
		printf("seccomp filters are not available here\n");
		return 77;
	}
	return cmocka_run_group_tests_name(name, tests, make_places, remove_places);
}

/* A process of its own, since a filter can not be taken away. */
static int run_container(const char *name, int err)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		status = in_a_container(name, err);
		fflush(NULL);
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status);
}

int main(void)
{
	int forbidden = run_container("io_uring_setup fails with EPERM", EPERM);
	int unknown = run_container("io_uring_setup fails with ENOSYS", ENOSYS);

	return forbidden ? forbidden : unknown;
}
