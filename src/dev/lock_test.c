/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks on the files of devices: who is kept out, and until when. */
#include "dev/file/dev_file_fixture.h"

#include "dev/lock.h"

#include <signal.h>
#include <sys/wait.h>

#define FILE_BYTES (1u << 20)

static char uri[600];

static int set_up(void **state)
{
	if (make_places(state) < 0)
		return -1;
	make_file(0, FILE_BYTES);
	snprintf(uri, sizeof(uri), "file:%s", path_in(0, "a"));
	return 0;
}

static void a_lock_keeps_others_out(void **state)
{
	int first, second, third;

	(void)state;
	assert_ok(fth_dev_lock_uri(uri, true, &first));
	assert_int_equal(fth_dev_lock_uri(uri, true, &second), -EBUSY);
	assert_int_equal(second, -1);
	assert_int_equal(fth_dev_lock_uri(uri, false, &second), -EBUSY);
	fth_dev_unlock(first);
	assert_ok(fth_dev_lock_uri(uri, false, &first));
	assert_ok(fth_dev_lock_uri(uri, false, &second));
	assert_int_equal(fth_dev_lock_uri(uri, true, &third), -EBUSY);
	fth_dev_unlock(first);
	fth_dev_unlock(second);
	assert_ok(fth_dev_lock_uri(uri, true, &first));
	fth_dev_unlock(first);
	fth_dev_unlock(-1);
	assert_ok(fth_dev_lock_uri("mem:1M", true, &first));
	assert_int_equal(first, -1);
}

/* The device, or NULL where there is no io_uring. */
static struct fth_dev *open_ring(const char *options)
{
	char text[700];
	struct fth_dev *dev;
	int rc;

	snprintf(text, sizeof(text), "%s?engine=uring%s", uri, options);
	rc = fth_dev_open(text, &dev);
	if (rc == -ENOSYS || rc == -EPERM || rc == -ENOMEM)
		return NULL;
	assert_ok(rc);
	return dev;
}

/*
 * As after a kill: the descriptor of the lock is closed, and requests of a ring may be under way.
 */
static void a_ring_keeps_the_lock(void **state)
{
	static const char *const options[] = {"", "&fixed=off"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fth_dev *dev = open_ring(options[i]);
		struct fth_dev_chan *chan;
		int first, second;

		if (!dev)
			skip();
		assert_ok(fth_dev_lock_uri(uri, true, &first));
		assert_ok(fth_dev_chan_open(dev, 8, &chan));
		fth_dev_unlock(first);
		assert_int_equal(fth_dev_lock_uri(uri, true, &second), -EBUSY);
		fth_dev_chan_close(chan);
		assert_ok(fth_dev_lock_uri(uri, true, &second));
		/* One that is opened now belongs to the new lock. */
		assert_ok(fth_dev_chan_open(dev, 8, &chan));
		fth_dev_chan_close(chan);
		fth_dev_unlock(second);
		fth_dev_close(dev);
	}
}

/* Lock, open a channel, tell, write until the end. */
static void write_for_ever(int tell)
{
	static _Alignas(4096) uint8_t block[4096];
	struct fth_dev *dev = open_ring("");
	struct fth_dev_chan *chan;
	int fd;

	if (!dev || fth_dev_lock_uri(uri, true, &fd) < 0 || fth_dev_chan_open(dev, 8, &chan) < 0)
		_exit(1);
	for (uint64_t i = 0;; i++) {
		struct fth_dev_req req, *done = &req;

		fth_dev_req_init(&req, FTH_DEV_WRITE, block, sizeof(block),
				 i * sizeof(block) % FILE_BYTES);
		if (fth_dev_submit(chan, &done, 1) != 1)
			_exit(1);
		if (i == 0 && write(tell, "", 1) != 1)
			_exit(1);
		if (fth_dev_reap(chan, &done, 1, 1, FTH_NEVER) != 1)
			_exit(1);
	}
}

static void a_killed_process_leaves_no_lock(void **state)
{
	struct fth_dev *dev = open_ring("");

	(void)state;
	if (!dev)
		skip();
	fth_dev_close(dev);
	for (unsigned i = 0; i < 5; i++) {
		int tell[2], fd, status;
		uint64_t deadline;
		char byte;
		pid_t child;

		assert_ok(pipe(tell));
		child = fork();
		assert_true(child >= 0);
		if (child == 0)
			write_for_ever(tell[1]);
		close(tell[1]);
		assert_int_equal(read(tell[0], &byte, 1), 1);
		close(tell[0]);
		assert_ok(kill(child, SIGKILL));
		assert_int_equal(waitpid(child, &status, 0), child);
		deadline = fth_deadline_ns(20000000000u);
		while (fth_dev_lock_uri(uri, true, &fd) == -EBUSY)
			assert_true(fth_now_ns() < deadline);
		assert_true(fd >= 0);
		fth_dev_unlock(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lock_keeps_others_out),
		cmocka_unit_test(a_ring_keeps_the_lock),
		cmocka_unit_test(a_killed_process_leaves_no_lock),
	};

	return cmocka_run_group_tests(tests, set_up, remove_places);
}
