/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SIGBUS and SIGSEGV that are sent, and are no faults: they reach the program, and no lock is held
 * then.
 */
#include "fth_test.h"

#include "fathom/flat.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE  (4u << 20)
#define PAGE  4096u
#define SENDS 200

static uint8_t *region;
static int got;
static pthread_t target;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code <= 0 && sig == SIGSEGV) {
		/* any page, also one that the thread was just moving */
		for (size_t i = 0; i < SIZE; i += 64 * PAGE)
			((volatile uint8_t *)region)[i]++;
		__atomic_fetch_add(&got, 1, __ATOMIC_RELEASE);
	}
}

static struct fth_flat *open_region(void)
{
	struct fth_flat *flat;

	assert_int_equal(fth_flat_open("mem:4M", 512u << 10, NULL, &flat), 0);
	region = fth_flat_base(flat);
	return flat;
}

static void *send_them(void *raw)
{
	for (int i = 0; i < SENDS; i++) {
		if (pthread_kill(target, SIGSEGV) != 0)
			abort();
		while (__atomic_load_n(&got, __ATOMIC_ACQUIRE) == i)
			usleep(10);
	}
	return raw;
}

/* The handler is there before the first region is, as in a program that opens one late. */
static int handled(void)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	struct fth_flat *flat;
	pthread_t sender;

	sigaction(SIGSEGV, &action, NULL);
	flat = open_region();
	target = pthread_self();
	pthread_create(&sender, NULL, send_them, NULL);
	for (size_t at = 1; __atomic_load_n(&got, __ATOMIC_ACQUIRE) < SENDS; at += 37 * PAGE)
		((volatile uint8_t *)region)[at % SIZE]++;
	pthread_join(sender, NULL);
	fth_flat_discard(flat);
	return got == SENDS ? 0 : 1;
}

static int ignored(void)
{
	struct fth_flat *flat;

	signal(SIGSEGV, SIG_IGN);
	flat = open_region();
	for (int i = 0; i < 3; i++)
		raise(SIGSEGV);
	memset(region, 1, SIZE);
	fth_flat_discard(flat);
	return 0;
}

static sigjmp_buf back;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static void *send_usr1(void *raw)
{
	for (int i = 0; i < SENDS; i++) {
		pthread_kill(target, SIGUSR1);
		usleep(200);
	}
	__atomic_store_n(&got, 1, __ATOMIC_RELEASE);
	return raw;
}

/*
 * A handler that leaves a call of the library: it has run where no lock was held, and what is sent
 * later arrives.
 */
static int after_jumps(void)
{
	struct fth_flat *flat;
	pthread_t sender;
	uint8_t byte;

	signal(SIGSEGV, SIG_DFL);
	signal(SIGUSR1, jump);
	flat = open_region();
	target = pthread_self();
	if (sigsetjmp(back, 1) == 0)
		pthread_create(&sender, NULL, send_usr1, NULL);
	while (!__atomic_load_n(&got, __ATOMIC_ACQUIRE))
		(void)fth_flat_load(flat, region, &byte, 1);
	raise(SIGSEGV);
	return 0;
}

static int by_default(void)
{
	signal(SIGBUS, SIG_DFL);
	(void)open_region();
	kill(getpid(), SIGBUS);
	memset(region, 1, SIZE);
	return 0;
}

/* In a process of its own: the handlers of a process are set once. */
static int run_alone(int (*what)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(what());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int is_possible(void)
{
	struct fth_flat *flat;

	return fth_flat_open("mem:4M", 512u << 10, NULL, &flat) == -ENOTSUP;
}

static void test_handled(void **state)
{
	(void)state;
	assert_int_equal(run_alone(handled), 0);
}

static void test_ignored(void **state)
{
	(void)state;
	assert_int_equal(run_alone(ignored), 0);
}

static void test_by_default(void **state)
{
	int status = run_alone(by_default);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void test_after_jumps(void **state)
{
	int status = run_alone(after_jumps);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handled),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_by_default),
		cmocka_unit_test(test_after_jumps),
	};

	if (run_alone(is_possible) != 0) {
		printf("skipped: no userfaultfd()\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
