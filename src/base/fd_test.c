/* SPDX-License-Identifier: BSD-2-Clause */
#include "fth_test.h"

#include "fathom/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a process without stdin, stdout and stderr, for a while ---- */

static int saved[FTH_FD_MIN];

static void close_low(void)
{
	for (int i = 0; i < FTH_FD_MIN; i++) {
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
		close(i);
	}
}

/* Puts them back and says which of them were open meanwhile, as bits. */
static unsigned restore_low(void)
{
	unsigned open_ones = 0;

	for (int i = 0; i < FTH_FD_MIN; i++) {
		if (fcntl(i, F_GETFD) >= 0)
			open_ones |= 1u << i;
		close(i);
		if (saved[i] >= 0) {
			dup2(saved[i], i);
			close(saved[i]);
		}
	}
	return open_ones;
}

/* ---- one thread ---- */

static void a_low_descriptor_moves_up(void **state)
{
	int low, high;

	(void)state;
	close_low();
	low = eventfd(0, EFD_CLOEXEC);
	high = fth_fd_high(low);
	assert_int_equal(restore_low(), 0);
	assert_int_equal(low, 0);
	assert_in_range(high, FTH_FD_MIN, 1000);
	assert_true(fcntl(high, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(fth_fd_high(high), high);
	close(high);
}

static void errors_pass_through(void **state)
{
	(void)state;
	errno = EMFILE;
	assert_int_equal(fth_fd_high(-1), -EMFILE);
	assert_int_equal(fth_fd_open("/nowhere/at/all", O_RDONLY, 0), -ENOENT);
	assert_int_equal(errno, ENOENT);
}

static void files_open_above_and_leave_nothing_below(void **state)
{
	static const unsigned closed[] = {7, 1, 2, 4, 5, 0};

	(void)state;
	for (unsigned i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
		unsigned open_ones;
		int fd;

		close_low();
		for (int low = 0; low < FTH_FD_MIN; low++)
			if (!(closed[i] & (1u << low)))
				dup2(saved[low], low);
		fd = fth_fd_open("/dev/null", O_RDWR | O_CLOEXEC, 0);
		open_ones = restore_low();
		assert_int_equal(open_ones, 7 & ~closed[i]);
		assert_in_range(fd, FTH_FD_MIN, 1000);
		close(fd);
	}
}

static void reserved_descriptors_refuse_all_data(void **state)
{
	char byte = 'x';
	ssize_t wrote[FTH_FD_MIN], got[FTH_FD_MIN];
	int errors[FTH_FD_MIN];

	(void)state;
	close_low();
	fth_fd_reserve();
	fth_fd_reserve();
	fth_fd_release();
	for (int i = 0; i < FTH_FD_MIN; i++) {
		wrote[i] = write(i, &byte, 1);
		errors[i] = errno;
		got[i] = read(i, &byte, 1);
	}
	fth_fd_release();
	assert_int_equal(restore_low(), 0);
	for (int i = 0; i < FTH_FD_MIN; i++) {
		assert_int_equal(wrote[i], -1);
		assert_int_equal(errors[i], EBADF);
		assert_int_equal(got[i], -1);
	}
}

/* A file that the program itself made its stdout meanwhile is not closed. */
static void what_the_program_put_there_stays(void **state)
{
	unsigned open_ones;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)state;
	close_low();
	fth_fd_reserve();
	dup2(null, 1);
	fth_fd_release();
	open_ones = restore_low();
	close(null);
	assert_int_equal(open_ones, 2);
}

/* ---- many threads ---- */

#define OPENERS 3
#define ROUNDS	2000

static atomic_bool stop;
static char path[] = "/tmp/fathom-fd-test-XXXXXX";

/*
 * What a program does that has not noticed that its stdout is closed. Not write(), for which
 * ThreadSanitizer reports the race for the descriptor that is the point of this test.
 */
static void *print_all_the_time(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop))
		for (int i = 0; i < FTH_FD_MIN; i++)
			(void)!syscall(SYS_write, i, "output", 6);
	return NULL;
}

static void *open_all_the_time(void *arg)
{
	unsigned *low = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		int fd = fth_fd_open(path, O_RDWR | O_CLOEXEC, 0);

		*low += fd < FTH_FD_MIN;
		if (fd >= 0)
			close(fd);
	}
	return NULL;
}

static void nobody_can_print_into_a_file_that_is_being_opened(void **state)
{
	pthread_t printer, openers[OPENERS];
	unsigned low[OPENERS] = {0}, open_ones;
	int fd = mkostemp(path, O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	close_low();
	pthread_create(&printer, NULL, print_all_the_time, NULL);
	for (unsigned i = 0; i < OPENERS; i++)
		pthread_create(&openers[i], NULL, open_all_the_time, &low[i]);
	for (unsigned i = 0; i < OPENERS; i++)
		pthread_join(openers[i], NULL);
	atomic_store(&stop, true);
	pthread_join(printer, NULL);
	open_ones = restore_low();
	unlink(path);
	assert_int_equal(open_ones, 0);
	for (unsigned i = 0; i < OPENERS; i++)
		assert_int_equal(low[i], 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	close(fd);
}

/* ---- fork ---- */

/* A thread that opens something during fork() does not go on in the child. */
static void a_child_keeps_nothing_reserved(void **state)
{
	unsigned open_ones;
	int status = -1;
	pid_t child;

	(void)state;
	close_low();
	fth_fd_reserve();
	child = fork();
	if (child == 0) {
		fth_fd_reserve();
		fth_fd_release();
		_exit(fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0 ? 0
											      : 1);
	}
	(void)waitpid(child, &status, 0);
	open_ones = fcntl(0, F_GETFD) >= 0;
	fth_fd_release();
	open_ones += restore_low();
	assert_int_equal(status, 0);
	assert_int_equal(open_ones, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_low_descriptor_moves_up),
		cmocka_unit_test(errors_pass_through),
		cmocka_unit_test(files_open_above_and_leave_nothing_below),
		cmocka_unit_test(reserved_descriptors_refuse_all_data),
		cmocka_unit_test(what_the_program_put_there_stays),
		cmocka_unit_test(nobody_can_print_into_a_file_that_is_being_opened),
		cmocka_unit_test(a_child_keeps_nothing_reserved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
