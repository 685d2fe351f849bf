/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flat_run_program TOPIC: an ordinary program that knows nothing of Fathom, for flat_run_test.py.
 * It uses memory in ways that are hard for whoever moves that memory about: system calls on pages
 * that were not used for long, signals, threads, children. It prints "ok" if all was as it should
 * be.
 */
#include "flat_run_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static void *volatile wild = (void *)16; /* a pointer to nothing */

/* ---- system calls ---- */

static void calls_on_files(void)
{
	char name[] = "flat_run_XXXXXX", *path;
	int fd = mkstemp(name);
	size_t n = 100000;
	uint8_t *from = cold(n), *to = cold(n), *same;
	struct stat *st = cold(sizeof(*st));
	struct iovec *vector;
	struct utsname *uts = cold(sizeof(*uts));

	CHECK(fd >= 0);
	path = cold_copy(name, sizeof(name));
	CHECK(write(fd, from, n) == (ssize_t)n);
	CHECK(pread(fd, to, n, 0) == (ssize_t)n);
	CHECK(memcmp(from, to, n) == 0 && is_filled(from, n));
	to = cold(n);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 && syscall(SYS_read, fd, to, n) == (long)n);
	CHECK(memcmp(from, to, n) == 0);
	same = cold(n);
	CHECK(syscall(SYS_pwrite64, fd, same, n, (long)n) == (long)n);
	CHECK(stat(path, st) == 0 && st->st_size == (off_t)(2 * n));
	CHECK(syscall(SYS_stat, path, (st = cold(sizeof(*st)))) == 0 && st->st_size);
	CHECK(fstat(fd, (st = cold(sizeof(*st)))) == 0 && S_ISREG(st->st_mode));
	vector = cold(4 * sizeof(*vector));
	for (int i = 0; i < 4; i++)
		vector[i] = (struct iovec){cold(n / 4), n / 4};
	CHECK(preadv(fd, vector, 4, 0) == (ssize_t)(n / 4 * 4));
	for (int i = 0; i < 4; i++)
		CHECK(memcmp(vector[i].iov_base, from + (size_t)i * (n / 4), n / 4) == 0);
	for (int i = 0; i < 4; i++)
		vector[i].iov_base = cold(n / 4);
	CHECK(lseek(fd, 0, SEEK_SET) == 0 &&
	      syscall(SYS_writev, fd, vector, 4) == (long)(n / 4 * 4));
	CHECK(pread(fd, (to = cold(n)), n, 0) == (ssize_t)n);
	for (int i = 0; i < 4; i++)
		CHECK(memcmp(to + (size_t)i * (n / 4), vector[i].iov_base, n / 4) == 0);
	CHECK(syscall(SYS_uname, uts) == 0 && strcmp(uts->sysname, "Linux") == 0);
	CHECK(unlink(path) == 0);
	close(fd);
}

/* More at once than may be in memory. */
static void calls_on_large_buffers(void)
{
	char name[] = "flat_run_XXXXXX";
	int fd = mkstemp(name);
	size_t n = 20 * MIB;
	uint8_t *to;
	FILE *file;

	CHECK(fd >= 0 && unlink(name) == 0);
	CHECK(write(fd, heap, n) == (ssize_t)n);
	to = malloc(n);
	CHECK(to && pread(fd, to, n, 0) == (ssize_t)n);
	CHECK(memcmp(heap, to, n) == 0);
	memset(to, 0, n);
	file = fdopen(fd, "r+");
	CHECK(file && fseek(file, 0, SEEK_SET) == 0);
	CHECK(fread(to, 1, n, file) == n && memcmp(heap, to, n) == 0);
	CHECK(fread(to, 1, 1, file) == 0 && feof(file));
	fclose(file);
	free(to);
}

static void calls_on_sockets(void)
{
	int pair[2], datagrams[2];
	size_t n = 30000;
	uint8_t *from = cold(n), *to = cold(n);
	struct msghdr *m = cold(sizeof(*m));
	struct iovec *vector = cold(sizeof(*vector));
	struct mmsghdr *many = cold(2 * sizeof(*many));
	struct pollfd *fds = cold(sizeof(*fds));
	struct epoll_event *events = cold(4 * sizeof(*events)), event = {.events = EPOLLIN};
	struct timeval *wait_for = cold(sizeof(*wait_for));
	socklen_t *length = cold(sizeof(*length));
	int epoll = epoll_create1(0), *value = cold(sizeof(*value));
	fd_set *set = cold(sizeof(*set));

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagrams) == 0);
	CHECK(send(pair[0], from, n, 0) == (ssize_t)n);
	*fds = (struct pollfd){.fd = pair[1], .events = POLLIN};
	CHECK(poll(fds, 1, 1000) == 1 && fds->revents == POLLIN);
	event.data.u64 = 77;
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[1], memcpy(cold(64), &event, sizeof(event))) ==
	      0);
	CHECK(epoll_wait(epoll, events, 4, 1000) == 1 && events->data.u64 == 77);
	FD_ZERO(set);
	FD_SET(pair[1], set);
	*wait_for = (struct timeval){.tv_sec = 1};
	CHECK(select(pair[1] + 1, set, NULL, NULL, wait_for) == 1 && FD_ISSET(pair[1], set));
	CHECK(recv(pair[1], to, n, MSG_WAITALL) == (ssize_t)n && memcmp(from, to, n) == 0);
	*vector = (struct iovec){cold(n), n};
	*m = (struct msghdr){.msg_iov = vector, .msg_iovlen = 1};
	CHECK(sendmsg(datagrams[0], m, 0) == (ssize_t)n);
	from = vector->iov_base;
	vector->iov_base = cold(n);
	CHECK(recvmsg(datagrams[1], m, 0) == (ssize_t)n);
	CHECK(memcmp(from, vector->iov_base, n) == 0);
	for (int i = 0; i < 2; i++) {
		struct iovec *one = cold(sizeof(*one));

		*one = (struct iovec){cold(100), 100};
		many[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = one, .msg_iovlen = 1}};
	}
	CHECK(sendmmsg(datagrams[0], many, 2, 0) == 2 && many[1].msg_len == 100);
	CHECK(recvmmsg(datagrams[1], many, 2, 0, NULL) == 2 && many[0].msg_len == 100);
	*length = sizeof(*value);
	CHECK(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, value, length) == 0);
	CHECK(*value == SOCK_STREAM && *length == sizeof(*value));
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(datagrams[i]);
	}
	close(epoll);
}

static void other_calls(void)
{
	size_t n = 3 * MIB;
	uint8_t *random = cold(n);
	size_t zeroes = 0;
	struct timespec *nap = cold(sizeof(*nap));
	struct rusage *usage = cold(sizeof(*usage));
	char *folder = cold(PATH_MAX), *there = cold(PATH_MAX);
	int *word = cold(sizeof(*word));

	for (size_t i = 0; i < n; i += 256 * 1024)
		CHECK(getrandom(random + i, 256 * 1024, 0) == 256 * 1024);
	for (size_t i = 0; i < n; i++)
		zeroes += random[i] == 0;
	CHECK(zeroes > n / 512 && zeroes < n / 128);
	*nap = (struct timespec){.tv_nsec = 1000};
	CHECK(nanosleep(nap, NULL) == 0);
	CHECK(clock_gettime(CLOCK_MONOTONIC, (nap = cold(sizeof(*nap)))) == 0 && nap->tv_sec > 0);
	CHECK(getrusage(RUSAGE_SELF, usage) == 0 && usage->ru_maxrss > 0);
	CHECK(getcwd(folder, PATH_MAX) && folder[0] == '/');
	CHECK(readlink("/proc/self/exe", there, PATH_MAX) > 0 && there[0] == '/');
	*word = 5;
	CHECK(syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
	CHECK(syscall(SYS_futex, cold(4), FUTEX_WAIT, 12345, NULL, NULL, 0) == -1 &&
	      errno == EAGAIN);
	/* wrong pointers are still the caller's fault, and nothing else */
	CHECK(write(1, wild, 10) == -1 && errno == EFAULT);
	CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 16, NULL, 8) == -1 && errno == EFAULT);
	CHECK(syscall(SYS_rt_sigaction, SIGUSR1, 16, NULL, 8) == -1 && errno == EFAULT);
	CHECK(readv(0, wild, 2) == -1 && errno == EFAULT);
	CHECK(syscall(9999) == -1 && errno == ENOSYS);
}

static void calls(void)
{
	start();
	calls_on_files();
	calls_on_sockets();
	other_calls();
	calls_on_large_buffers();
}

/* ---- allocation ---- */

static void allocation(void)
{
	uint8_t *a = malloc(2 * MIB), *b, *c;
	void *aligned;

	for (size_t i = 0; i < 2 * MIB; i++)
		a[i] = (uint8_t)(i / 5);
	CHECK(malloc_usable_size(a) >= 2 * MIB);
	a = realloc(a, 20 * MIB); /* larger */
	for (size_t i = 0; i < 2 * MIB; i++)
		CHECK(a[i] == (uint8_t)(i / 5));
	a[20 * MIB - 1] = 9;
	a = realloc(a, 1000); /* small, so in another place */
	for (size_t i = 0; i < 1000; i++)
		CHECK(a[i] == (uint8_t)(i / 5));
	a = realloc(a, 3 * MIB); /* and back */
	for (size_t i = 0; i < 1000; i++)
		CHECK(a[i] == (uint8_t)(i / 5));
	b = calloc(3, MIB);
	for (size_t i = 0; i < 3 * MIB; i++) {
		CHECK(b[i] == 0);
		b[i] = 1;
	}
	free(b);
	b = calloc(3, MIB); /* the same pages, perhaps */
	for (size_t i = 0; i < 3 * MIB; i++)
		CHECK(b[i] == 0);
	free(b);
	for (size_t align = 16; align <= 4 * MIB; align *= 4) {
		CHECK(posix_memalign(&aligned, align, 2 * MIB) == 0);
		CHECK((uintptr_t)aligned % align == 0);
		memset(aligned, 3, 2 * MIB);
		free(aligned);
		aligned = aligned_alloc(align, 4 * MIB);
		CHECK(aligned && (uintptr_t)aligned % align == 0);
		free(aligned);
	}
	errno = 0;
	CHECK(!malloc((size_t)1 << 60) && errno == ENOMEM);
	c = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(c != MAP_FAILED);
	memset(c, 7, 8 * MIB);
	CHECK(madvise(c, 4 * MIB, MADV_DONTNEED) == 0);
	for (size_t i = 0; i < 8 * MIB; i += 511)
		CHECK(c[i] == (i < 4 * MIB ? 0 : 7));
	CHECK(munmap(c, 2 * MIB) == 0);	      /* the front */
	CHECK(munmap(c + 4 * MIB, MIB) == 0); /* the middle */
	CHECK(c[5 * MIB] == 7 && c[2 * MIB] == 0);
	CHECK(munmap(c + 2 * MIB, 6 * MIB) == 0);
	c = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(c, 5, 2 * MIB);
	c = mremap(c, 2 * MIB, 9 * MIB, MREMAP_MAYMOVE);
	CHECK(c != MAP_FAILED);
	for (size_t i = 0; i < 9 * MIB; i += 511)
		CHECK(c[i] == (i < 2 * MIB ? 5 : 0));
	CHECK(munmap(c, 9 * MIB) == 0);
	free(a);
}

/* ---- threads ---- */

#define THREADS 6

static pthread_mutex_t *mutex;
static pthread_cond_t *condition;
static uint64_t *shared_count;
static int pipes[2];

static void *work(void *argument)
{
	size_t me = (size_t)(uintptr_t)argument;
	uint8_t *mine = malloc(4 * MIB);

	for (unsigned round = 0; round < 3; round++) {
		for (size_t i = 0; i < 4 * MIB; i += 61)
			mine[i] = (uint8_t)(i + me + round);
		for (size_t i = 0; i < 4 * MIB; i += 61)
			CHECK(mine[i] == (uint8_t)(i + me + round));
		CHECK(write(pipes[1], mine + me * PAGE, 100) == 100);
		CHECK(syscall(SYS_read, pipes[0], mine + (me + 50) * PAGE, 100) == 100);
		pthread_mutex_lock(mutex);
		++*shared_count;
		pthread_cond_broadcast(condition);
		while (*shared_count < (round + 1) * THREADS)
			pthread_cond_wait(condition, mutex);
		pthread_mutex_unlock(mutex);
	}
	free(mine);
	return (void *)(me + 1);
}

static void *sleep_in_read(void *buffer)
{
	(void)!read(pipes[0], buffer, 100);
	return NULL;
}

static void threads(void)
{
	pthread_t ids[THREADS];
	void *result;

	start();
	CHECK(pipe(pipes) == 0);
	/* a mutex, a condition and a counter on cold pages */
	mutex = cold(PAGE);
	condition = cold(PAGE);
	shared_count = cold(PAGE);
	pthread_mutex_init(mutex, NULL);
	pthread_cond_init(condition, NULL);
	*shared_count = 0;
	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&ids[i], NULL, work, (void *)i) == 0);
	for (size_t i = 0; i < THREADS; i++) {
		CHECK(pthread_join(ids[i], &result) == 0);
		CHECK(result == (void *)(i + 1));
	}
	CHECK(*shared_count == 3 * THREADS);
	/*
	 * a thread that waits in a system call can be cancelled, whether its buffer is cold or not
	 */
	for (int i = 0; i < 2; i++) {
		CHECK(pthread_create(&ids[0], NULL, sleep_in_read, i ? cold(100) : malloc(100)) ==
		      0);
		usleep(20000);
		CHECK(pthread_cancel(ids[0]) == 0);
		CHECK(pthread_join(ids[0], &result) == 0 && result == PTHREAD_CANCELED);
	}
}

/* ---- signals ---- */

static sigjmp_buf jump;
static volatile sig_atomic_t seen, seen_on_stack;
static volatile uintptr_t seen_address;
static uint8_t *alternative;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uint8_t here;

	(void)context;
	seen = sig;
	seen_address = (uintptr_t)info->si_addr;
	seen_on_stack = (uintptr_t)&here - (uintptr_t)alternative < 256 * 1024;
	/* a handler can use cold memory and make calls on it */
	CHECK(is_filled(cold(10), 10));
	CHECK(syscall(SYS_getcwd, cold(PATH_MAX), PATH_MAX) > 0);
	siglongjmp(jump, 1);
}

static void on_usr1(int sig)
{
	CHECK(is_filled(cold(10), 10));
	CHECK(getcwd(cold(PATH_MAX), PATH_MAX));
	seen = sig;
}

static void on_usr2(int sig)
{
	seen = sig;
	siglongjmp(jump, 2);
}

static void expect_fault(int sig, volatile uint8_t *at)
{
	seen = 0;
	if (sigsetjmp(jump, 1) == 0) {
		*at = 1;
		CHECK(!"an access went through");
	}
	CHECK(seen == sig && seen_address == (uintptr_t)at);
}

static void signals_for_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK},
			 old;
	char name[] = "flat_run_XXXXXX";
	int fd = mkstemp(name);
	uint8_t *file, *none;

	CHECK(fd >= 0 && unlink(name) == 0);
	file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* behind the end */
	none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	alternative = malloc(256 * 1024);
	CHECK(sigaltstack(&(stack_t){.ss_sp = alternative, .ss_size = 256 * 1024}, NULL) == 0);
	CHECK(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_handler == SIG_DFL);
	CHECK(sigaction(SIGBUS, &action, NULL) == 0);
	CHECK(sigaction(SIGBUS, NULL, &old) == 0 && old.sa_sigaction == on_fault);
	for (int i = 0; i < 3; i++) {
		expect_fault(SIGSEGV, none);
		CHECK(seen_on_stack);
		expect_fault(SIGBUS, file);
		CHECK(is_filled(cold(100), 100));
	}
	action.sa_handler = SIG_DFL;
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
}

/* Blocked by the program, they are still raised for memory that was moved away. */
static void signals_that_are_blocked(void)
{
	sigset_t all, before, now;

	sigfillset(&all);
	CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
	CHECK(is_filled(cold(MIB), MIB));
	CHECK(getcwd(cold(PATH_MAX), PATH_MAX));
	CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0);
	CHECK(sigismember(&now, SIGBUS) && sigismember(&now, SIGUSR1) && sigismember(&now, SIGSYS));
	CHECK(sigprocmask(SIG_SETMASK, &before, &now) == 0 && sigismember(&now, SIGSEGV));
	CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && !sigismember(&now, SIGBUS));
}

static void alarm_in(long us)
{
	struct itimerval timer = {.it_value = {.tv_usec = us}};

	CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* Calls that block, on cold memory, interrupted by a handler. */
static void signals_during_calls(void)
{
	struct sigaction action = {.sa_handler = on_usr1};
	sigset_t all_but;
	int ends[2];

	CHECK(pipe(ends) == 0);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	alarm_in(20000);
	CHECK(read(ends[0], cold(100), 100) == -1 && errno == EINTR && seen == SIGALRM);
	alarm_in(20000);
	CHECK(syscall(SYS_read, ends[0], cold(100), 100) == -1 && errno == EINTR);
	alarm_in(20000);
	CHECK(syscall(SYS_poll, cold(100), 0, 10000) == -1 && errno == EINTR);
	sigfillset(&all_but);
	sigdelset(&all_but, SIGALRM);
	seen = 0;
	alarm_in(20000);
	CHECK(sigsuspend(&all_but) == -1 && errno == EINTR && seen == SIGALRM);
	/* the handler leaves the call; its buffer is not held for ever */
	action.sa_handler = on_usr2;
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	for (int i = 0; i < 70; i++) { /* more often than a page can be held */
		static uint8_t *buffer;

		buffer = buffer ? buffer : cold(100);
		if (sigsetjmp(jump, 1) == 0) {
			alarm_in(2000);
			(void)!(i % 2 ? read(ends[0], buffer, 100)
				      : syscall(SYS_read, ends[0], buffer, 100));
			CHECK(!"it came back");
		}
	}
}

static void signals(void)
{
	start();
	signals_for_faults();
	signals_that_are_blocked();
	signals_during_calls();
	CHECK(is_filled(heap + next_page * PAGE, SIZE - 16 * MIB - next_page * PAGE));
}

/* ---- children ---- */

static void expect_exit(pid_t pid, int status)
{
	int is;

	CHECK(pid > 0 && waitpid(pid, &is, 0) == pid);
	CHECK(WIFEXITED(is) && WEXITSTATUS(is) == status);
}

extern char **environ;

static void children(void)
{
	char exit3[] = "exit 3", shell[] = "sh", option[] = "-c";
	char *argv[] = {shell, option, exit3, NULL}, **cold_argv;
	pid_t pid;

	start();
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		execl("/bin/sh", "sh", "-c", "exit 4", (char *)NULL);
	expect_exit(pid, 4);
	/* without exec: what is not in the region is there, and large memory can be had */
	pid = fork();
	if (pid == 0) {
		uint8_t *new = malloc(4 * MIB);

		memset(new, 1, 4 * MIB);
		free(new);
		free(heap); /* of the parent: no effect */
		_exit(new ? 5 : 1);
	}
	expect_exit(pid, 5);
	pid = vfork();
	if (pid == 0) {
		execv("/bin/sh", argv);
		_exit(1);
	}
	expect_exit(pid, 3);
	/* arguments on cold pages */
	cold_argv = cold(PAGE);
	cold_argv[0] = shell;
	cold_argv[1] = strcpy(cold(10), option);
	cold_argv[2] = strcpy(cold(10), exit3);
	cold_argv[3] = NULL;
	pid = vfork();
	if (pid == 0) {
		execve(strcpy(cold(10), "/bin/sh"), cold_argv, environ);
		_exit(1);
	}
	expect_exit(pid, 3);
	CHECK(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) == 0);
	expect_exit(pid, 3);
	CHECK(WEXITSTATUS(system("exit 6")) == 6);
	CHECK(is_filled(heap + next_page * PAGE, SIZE - 16 * MIB - next_page * PAGE));
}

/* A child uses memory of its parent that it does not have. */
static void child_access(void)
{
	int status;
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0)
		_exit(is_filled(heap, 100) ? 0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("child: %s\n", WIFSIGNALED(status)	 ? "stopped"
			      : WEXITSTATUS(status) == 0 ? "data as of the fork"
							 : "wrong data");
	CHECK(is_filled(heap, SIZE));
}

/* ---- memory with another use ---- */

static void other_uses(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	char name[] = "flat_run_XXXXXX";
	uint8_t *at, *pages, *copy;
	int fd = mkstemp(name);

	start();
	CHECK(fd >= 0 && unlink(name) == 0 && write(fd, "in the file", 12) == 12);
	CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
	pages = (uint8_t *)(((uintptr_t)heap + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	at = pages + 100 * PAGE;
	next_page = 4096;
	CHECK(mprotect(at, 4 * PAGE, PROT_READ) == 0);
	CHECK(is_filled(at, 4 * PAGE)); /* contents stay */
	expect_fault(SIGSEGV, at + PAGE);
	CHECK(mprotect(at, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
	fill(at, 4 * PAGE);
	CHECK(mlock(at + 8 * PAGE, PAGE) == 0 || errno == EPERM || errno == ENOMEM);
	CHECK(is_filled(at + 8 * PAGE, PAGE));
	CHECK(mmap(at + 16 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
	      at + 16 * PAGE);
	CHECK(strcmp((char *)at + 16 * PAGE, "in the file") == 0);
	CHECK(is_filled(at + 17 * PAGE, 4 * MIB));
	/* a call whose buffer is partly such memory */
	CHECK(pwrite(fd, at - 2 * PAGE, 6 * PAGE, 0) == 6 * PAGE);
	copy = cold(6 * PAGE);
	CHECK(pread(fd, copy, 6 * PAGE, 0) == 6 * PAGE);
	CHECK(memcmp(copy, at - 2 * PAGE, 6 * PAGE) == 0);
	CHECK(is_filled(at - 2 * PAGE, 6 * PAGE));
	free(heap);
	heap = malloc(SIZE); /* and after that it is memory as any other */
	fill(heap, SIZE);
	CHECK(is_filled(heap, SIZE));
}

/* ---- endings ---- */

static void closes_everything(void)
{
	start();
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	CHECK(close_range(3, ~0u, 0) == 0);
	CHECK(is_filled(heap, SIZE));
}

static void waits_for_a_signal(void)
{
	start();
	printf("ready\n");
	fflush(stdout);
	for (;;)
		CHECK(is_filled(heap, SIZE));
}

static void ends_by_signal(void)
{
	start();
	raise(SIGTERM);
}

static void ends_by_wild_pointer(void)
{
	start();
	*(volatile uint8_t *)wild = 1;
}

static void exits_42(void)
{
	start();
	_exit(42);
}

static const struct {
	const char *name;
	void (*run)(void);
} topics[] = {
	{"calls", calls},	    {"allocation", allocation},	    {"threads", threads},
	{"signals", signals},	    {"children", children},	    {"child-access", child_access},
	{"other-uses", other_uses}, {"closes", closes_everything},  {"waits", waits_for_a_signal},
	{"raise", ends_by_signal},  {"wild", ends_by_wild_pointer}, {"exit", exits_42},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(topics) / sizeof(topics[0]); i++)
		if (strcmp(argv[1], topics[i].name) == 0) {
			topics[i].run();
			printf("ok\n");
			return 0;
		}
	fprintf(stderr, "usage: flat_run_program TOPIC\n");
	return 2;
}
