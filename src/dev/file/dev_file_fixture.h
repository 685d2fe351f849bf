/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the file: device share: directories to work in, and files there. */
#ifndef FTH_DEV_FILE_FIXTURE_H
#define FTH_DEV_FILE_FIXTURE_H

#include "fth_test.h"

#include "dev/file/dev_file.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES_MAX 2

/* The temporary directory, and shared memory where there is some: two unlike filesystems. */
static char places[PLACES_MAX][256];
static unsigned place_count;

static inline void add_place(const char *parent)
{
	char *place = places[place_count];

	snprintf(place, sizeof(places[0]), "%s/fathom-test-XXXXXX", parent);
	if (mkdtemp(place))
		place_count++;
}

static inline int make_places(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	add_place(tmp && *tmp ? tmp : "/tmp");
	add_place("/dev/shm");
	return place_count > 0 ? 0 : -1;
}

static inline const char *path_in(unsigned place, const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", places[place], name);
	return path;
}

static inline int remove_places(void **state)
{
	(void)state;
	while (place_count > 0) {
		place_count--;
		unlink(path_in(place_count, "a"));
		if (rmdir(places[place_count]) < 0)
			return -1;
	}
	return 0;
}

/* A new file "a" of that size, no longer sparse. */
static inline void make_file(unsigned place, size_t size)
{
	char *bytes = malloc(size ? size : 1);
	int fd;

	unlink(path_in(place, "a")); /* the test before may have made it read-only */
	fd = open(path_in(place, "a"), O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_non_null(bytes);
	memset(bytes, 0xee, size);
	assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
	close(fd);
	free(bytes);
}

/* What open_a() asks for. */
static const char *engine = "auto";

/* options begin with ? unless there are none */
static inline int open_a(unsigned place, const char *options, struct fth_dev **dev)
{
	char uri[1024];

	snprintf(uri, sizeof(uri), "file:%s?engine=%s%s%s", path_in(place, "a"), engine,
		 *options ? "&" : "", *options ? options + 1 : "");
	return fth_dev_open(uri, dev);
}

/* Make it the engine of open_a(). False, and why, when it does not work here. */
static inline bool use_engine(const struct file_engine *wanted)
{
	int rc = wanted->probe();

	engine = wanted->name;
	if (rc < 0)
		print_message("engine=%s: %s\n", engine, fth_error_text(rc));
	return rc == 0;
}

/* Run a group of tests with each engine; returns how many failed. */
#define run_with_each_engine(tests)                                                                \
	((use_engine(&dev_file_uring)                                                              \
		  ? cmocka_run_group_tests_name("engine=uring", tests, make_places, remove_places) \
		  : 0) +                                                                           \
	 (use_engine(&dev_file_threads) ? cmocka_run_group_tests_name("engine=threads", tests,     \
								      make_places, remove_places)  \
					: 0))

static inline void fill_random(void *buf, size_t len, uint64_t seed)
{
	struct fth_rng rng = {seed};

	for (size_t i = 0; i < len; i++)
		((unsigned char *)buf)[i] = (unsigned char)fth_rng_next(&rng);
}

static inline bool all_are(const void *buf, size_t len, unsigned char value)
{
	for (size_t i = 0; i < len; i++)
		if (((const unsigned char *)buf)[i] != value)
			return false;
	return true;
}

#endif
