/* SPDX-License-Identifier: BSD-2-Clause */
/* What file: opens, what it refuses, and what it says of itself. */
#include "dev/file/dev_file_fixture.h"
#include "dev/file/no_uring_fixture.h"

#include <sys/resource.h>
#include <sys/wait.h>

static void refuse(const char *options, int expected, const char *words)
{
	struct fth_dev *dev;
	int rc = open_a(0, options, &dev);

	if (rc != expected)
		fail_msg("\"%s\" gave %d (%s), not %d", options, rc, fth_error_text(rc), expected);
	assert_null(dev);
	if (!strstr(fth_error_text(rc), words))
		fail_msg("\"%s\" said \"%s\", not \"%s\"", options, fth_error_text(rc), words);
}

static void bad_options_are_refused(void **state)
{
	struct fth_dev *dev;

	(void)state;
	make_file(0, 8192);
	refuse("?size=x", -EINVAL, "size");
	refuse("?size=0", -EINVAL, "size");
	refuse("?block=3", -EINVAL, "power of two");
	refuse("?block=0", -EINVAL, "block");
	refuse("?block=128K", -EINVAL, "block");
	refuse("?size=8200&block=4096", -EINVAL, "whole blocks");
	refuse("?direct=maybe", -EINVAL, "direct");
	refuse("?create=on", -EINVAL, "size=");
	refuse("?create=on&size=8192&readonly=on", -EINVAL, "mutually exclusive");
	refuse("?fixed=2", -EINVAL, "fixed");
	refuse("?threads=0", -EINVAL, "threads");
	refuse("?threads=65", -EINVAL, "threads");
	engine = "epoll";
	refuse("", -EINVAL, "engine=epoll");
	engine = "auto";
	refuse("?creat=on", -EINVAL, "creat");
	assert_int_equal(fth_dev_open("file:", &dev), -EINVAL);
	assert_int_equal(fth_dev_open("file(mem:1M)", &dev), -EINVAL);
}

static void only_files_and_block_devices_are_opened(void **state)
{
	struct fth_dev *dev;

	(void)state;
	assert_int_equal(fth_dev_open("file:/", &dev), -EISDIR);
	assert_non_null(strstr(fth_error_text(-EISDIR), "directory"));
	assert_int_equal(fth_dev_open("file:/dev/zero", &dev), -EINVAL);

	unlink(path_in(0, "a"));
	assert_int_equal(mkfifo(path_in(0, "a"), 0600), 0);
	refuse("", -EINVAL, "neither");
	refuse("?create=on&size=4096", -EINVAL, "neither");
	unlink(path_in(0, "a"));
	refuse("", -ENOENT, "No such file");
	make_file(0, 0);
	refuse("", -EINVAL, "empty");
}

static void a_file_is_created_once(void **state)
{
	struct fth_dev *dev;
	struct stat st;

	(void)state;
	unlink(path_in(0, "a"));
	assert_ok(open_a(0, "?create=on&size=64M", &dev));
	assert_int_equal(fth_dev_info(dev)->size, 64 << 20);
	fth_dev_close(dev);
	assert_int_equal(stat(path_in(0, "a"), &st), 0);
	assert_int_equal(st.st_size, 64 << 20);
	assert_true(st.st_blocks * 512 < 1 << 20); /* sparse */

	assert_ok(open_a(0, "?create=on&size=64M", &dev)); /* as it is already */
	fth_dev_close(dev);
	refuse("?create=on&size=32M", -EINVAL, "67108864 bytes");
	refuse("?size=32M", -EINVAL, "67108864 bytes");
	assert_int_equal(stat(path_in(0, "a"), &st), 0);
	assert_int_equal(st.st_size, 64 << 20);
}

static void a_failed_creation_leaves_nothing(void **state)
{
	struct fth_dev *dev;
	char uri[512];

	(void)state;
	unlink(path_in(0, "a"));
	refuse("?create=on&size=1000&direct=on", -EINVAL, "direct");
	assert_int_equal(access(path_in(0, "a"), F_OK), -1);
	refuse("?create=on&size=8000000T", -EFBIG, "large");
	assert_int_equal(access(path_in(0, "a"), F_OK), -1);
	snprintf(uri, sizeof(uri), "file:%s/no/a?create=on&size=4096", places[0]);
	assert_int_equal(fth_dev_open(uri, &dev), -ENOENT);
}

static void check_info(unsigned place, const char *options, bool must_be_buffered)
{
	const struct fth_dev_info *info;
	struct fth_dev *dev;

	assert_ok(open_a(place, options, &dev));
	info = fth_dev_info(dev);
	assert_true(info->block > 0 && info->size % info->block == 0);
	assert_true(info->align > 0 && (info->align & (info->align - 1)) == 0);
	assert_true(info->max_length > 0 && info->max_length % info->block == 0);
	assert_int_equal(info->max_iov, 1024);
	if (must_be_buffered) {
		assert_false(((struct dev_file *)dev)->direct);
		assert_int_equal(info->align, 1);
	}
	fth_dev_close(dev);
}

static void block_and_alignment_follow_the_medium(void **state)
{
	(void)state;
	for (unsigned i = 0; i < place_count; i++) {
		make_file(i, 64 << 10);
		check_info(i, "", false);
		check_info(i, "?block=4096", false);
		check_info(i, "?direct=off", true);
		check_info(i, "?block=1", true); /* finer than direct I/O can be */
		make_file(i, 5000);
		check_info(i, "", true);
		check_info(i, "?block=8", true);
	}
	refuse("?block=512", -EINVAL, "whole blocks");
	refuse("?direct=on", -EINVAL, "direct=on");
}

static void readonly_refuses_what_would_change_the_file(void **state)
{
	static const enum fth_dev_op changes[] = {FTH_DEV_WRITE, FTH_DEV_ZERO, FTH_DEV_DISCARD};
	struct fth_dev *dev;
	char *buf;

	(void)state;
	make_file(0, 8192);
	chmod(path_in(0, "a"), 0400);
	assert_ok(open_a(0, "?readonly=on", &dev));
	buf = fth_dev_buf_alloc(dev, 4096);
	for (unsigned i = 0; i < 3; i++) {
		struct fth_dev_chan *chan;
		struct fth_dev_req req, *r = &req, *done = NULL;

		assert_ok(fth_dev_chan_open(dev, 1, &chan));
		fth_dev_req_init(&req, changes[i], buf, 4096, 0);
		assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
		assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
		assert_ptr_equal(done, &req);
		assert_int_equal(req.result, -EROFS);
		fth_dev_chan_close(chan);
	}
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 3);
	assert_ok(fth_dev_read(dev, buf, 4096, 4096, FTH_DEV_TIMEOUT));
	assert_true(all_are(buf, 4096, 0xee));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	fth_dev_buf_free(dev, buf, 4096);
	fth_dev_close(dev);
}

/* ---- without permission to write ---- */

static void may_only_read(unsigned place)
{
	chmod(places[place], 0755);
	chmod(path_in(place, "a"), 0444);
}

/* Root may write everywhere, so be somebody else for a moment. */
static int open_as_nobody(const char *uri, unsigned flags, struct fth_dev **dev)
{
	int rc;

	if (geteuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	rc = fth_dev_open_flags(uri, flags, dev);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	return rc;
}

static void the_error_says_that_write_permission_is_missing(void **state)
{
	struct fth_dev *dev;
	char uri[1024];

	(void)state;
	make_file(0, 8192);
	may_only_read(0);
	snprintf(uri, sizeof(uri), "file:%s", path_in(0, "a"));
	assert_int_equal(open_as_nobody(uri, 0, &dev), -EACCES);
	assert_non_null(strstr(fth_error_text(-EACCES), "no permission to write"));
	assert_non_null(strstr(fth_error_text(-EACCES), "readonly=on"));
	chmod(path_in(0, "a"), 0);
	assert_int_equal(open_as_nobody(uri, 0, &dev), -EACCES);
	assert_null(strstr(fth_error_text(-EACCES), "readonly=on"));
	chmod(path_in(0, "a"), 0600);
}

/*
 * In a child, which must not be root, whose memory is not limited; nor a user that other tests
 * become.
 */
static int use_many_rings(struct fth_dev *dev)
{
	const struct rlimit limit = {1 << 20, 1 << 20};
	struct fth_dev_chan *chan;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0 || (getuid() == 0 && setuid(65533) < 0))
		return 1;
	for (unsigned i = 0; i < 500; i++) {
		if (fth_dev_chan_open(dev, 1024, &chan) < 0)
			return 2;
		fth_dev_chan_close(chan);
	}
	return 0;
}

/* One ring at a time, in memory for a few: the kernel is late to return that of closed ones. */
static void rings_wait_for_memory_of_closed_ones(void **state)
{
	struct fth_dev *dev;
	char uri[1024];
	int status;
	pid_t child;

	(void)state;
	make_file(0, 8192);
	snprintf(uri, sizeof(uri), "file:%s?engine=uring", path_in(0, "a"));
	if (fth_dev_open(uri, &dev) < 0)
		skip();
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(use_many_rings(dev));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	fth_dev_close(dev);
}

static void write_is_refused(struct fth_dev *dev)
{
	char *buf = fth_dev_buf_alloc(dev, 4096);

	assert_int_equal(fth_dev_write(dev, buf, 4096, 0, FTH_DEV_TIMEOUT), -EROFS);
	assert_int_equal(fth_dev_zero(dev, 4096, 0, FTH_DEV_TIMEOUT), -EROFS);
	assert_ok(fth_dev_read(dev, buf, 4096, 0, FTH_DEV_TIMEOUT));
	fth_dev_buf_free(dev, buf, 4096);
}

static void the_flag_reaches_files_inside(void **state)
{
	static const char *const formats[] = {
		"file:%s",
		"file:%s?readonly=off",
		"file:%s?create=on&size=4M",
		"fault(file:%s)",
		"delay(fault(file:%s))?read_us=1",
		"file:%s?model=p5800x",
		"vol(file:%s)?object=x",
		"vol(fault(file:%s))?object=x&create=64K&format=on",
	};
	struct fth_dev *dev;
	char uri[1024];

	(void)state;
	make_file(0, 4 << 20);
	snprintf(uri, sizeof(uri), "vol(file:%s)?object=x&create=64K&format=on", path_in(0, "a"));
	assert_ok(fth_dev_open(uri, &dev));
	fth_dev_close(dev);
	may_only_read(0);
	for (unsigned i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		snprintf(uri, sizeof(uri), formats[i], path_in(0, "a"));
		assert_int_equal(open_as_nobody(uri, 0, &dev), -EACCES);
		assert_ok(open_as_nobody(uri, FTH_DEV_READONLY, &dev));
		write_is_refused(dev);
		fth_dev_close(dev);
	}
	assert_int_equal(fth_dev_open_flags("mem:4M", 2, &dev), -EINVAL);
	chmod(path_in(0, "a"), 0600);
}

static void the_flag_makes_nothing(void **state)
{
	struct fth_dev *dev;
	char uri[1024];

	(void)state;
	snprintf(uri, sizeof(uri), "file:%s?create=on&size=4M", path_in(0, "b"));
	assert_int_equal(fth_dev_open_flags(uri, FTH_DEV_READONLY, &dev), -ENOENT);
	assert_int_equal(access(path_in(0, "b"), F_OK), -1);
	make_file(0, 4 << 20);
	snprintf(uri, sizeof(uri), "vol(file:%s)?object=x&create=64K&format=on", path_in(0, "a"));
	assert_int_equal(fth_dev_open_flags(uri, FTH_DEV_READONLY, &dev), -EMEDIUMTYPE);
}

static int status_of(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In a process of its own: auto takes the other engine, uring fails and says why. */
static int open_without_io_uring(int err, const char *words)
{
	struct fth_dev *dev;
	int rc;

	if (!forbid_io_uring(err))
		return 77;
	engine = "uring";
	rc = open_a(0, "", &dev);
	if (rc != -err || !strstr(fth_error_text(rc), words))
		return 1;
	engine = "auto";
	rc = open_a(0, "", &dev);
	if (rc < 0 || strcmp(fth_dev_info(dev)->engine, "threads") != 0)
		return 2;
	fth_dev_close(dev);
	return 0;
}

static void without_io_uring(int err, const char *words)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(open_without_io_uring(err, words));
	status = status_of(child);
	if (status == 77)
		skip();
	assert_int_equal(status, 0);
}

static void without_io_uring_threads_are_used(void **state)
{
	(void)state;
	make_file(0, 8192);
	without_io_uring(ENOSYS, "does not support io_uring");
	without_io_uring(EPERM, "disabled");
	without_io_uring(ENOMEM, "RLIMIT_MEMLOCK");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(only_files_and_block_devices_are_opened),
		cmocka_unit_test(a_file_is_created_once),
		cmocka_unit_test(a_failed_creation_leaves_nothing),
		cmocka_unit_test(block_and_alignment_follow_the_medium),
		cmocka_unit_test(readonly_refuses_what_would_change_the_file),
		cmocka_unit_test(the_error_says_that_write_permission_is_missing),
		cmocka_unit_test(rings_wait_for_memory_of_closed_ones),
		cmocka_unit_test(the_flag_reaches_files_inside),
		cmocka_unit_test(the_flag_makes_nothing),
		cmocka_unit_test(without_io_uring_threads_are_used),
	};
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
