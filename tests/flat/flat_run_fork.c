/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * flat_run_fork TOPIC [MIB]: children of fork() under `fathom flat run`, or without it. Each child
 * has the memory as of the fork: it checks every word of it, while its parent changes all of it.
 * Prints "ok".
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB	   ((size_t)1 << 20)
#define PAGE	   4096
#define CHILD_EXIT 7

#define CHECK(condition)                                                                    \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "%s:%d: %s (%d)\n", __FILE__, __LINE__, #condition, \
				errno);                                                     \
			_exit(1);                                                           \
		}                                                                           \
	} while (0)

static uint64_t *heap;
static size_t words = 12 * MIB / sizeof(uint64_t);

/* What a word has in a round. One in five pages never changes. */
static uint64_t value(size_t i, uint64_t round)
{
	if (i * sizeof(uint64_t) / PAGE % 5 == 0)
		round = 0;
	return (i * 0x9e3779b97f4a7c15u) ^ (round << 56 | round);
}

static void fill(uint64_t round)
{
	for (size_t i = 0; i < words; i += i % 64 == 0 ? 1 : 21)
		heap[i] = value(i, round);
}

static bool has(uint64_t round)
{
	for (size_t i = 0; i < words; i += i % 64 == 0 ? 1 : 21)
		if (heap[i] != value(i, round)) {
			fprintf(stderr, "word %zu of page %zu is %llx, not %llx of round %llu\n", i,
				i / (PAGE / 8), (unsigned long long)heap[i],
				(unsigned long long)value(i, round), (unsigned long long)round);
			return false;
		}
	return true;
}

static void start(void)
{
	heap = malloc(words * sizeof(*heap));
	CHECK(heap);
	fill(0);
	fill(1);
}

static void expect_child(pid_t pid)
{
	int status;

	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != CHILD_EXIT) {
		fprintf(stderr, "child: status %x\n", (unsigned)status);
		_exit(1);
	}
}

/* The parent changes all while the child reads all. */
static void reads(void)
{
	start();
	for (uint64_t round = 1; round < 4; round++) {
		pid_t pid = fork();

		if (pid == 0) {
			CHECK(has(round));
			CHECK(has(round));
			_exit(CHILD_EXIT);
		}
		fill(round + 1);
		CHECK(has(round + 1));
		expect_child(pid);
		CHECK(has(round + 1));
	}
}

/* Both change all. */
static void stores(void)
{
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0) {
		CHECK(has(1));
		for (uint64_t round = 10; round < 13; round++) {
			fill(round);
			CHECK(has(round));
		}
		_exit(CHILD_EXIT);
	}
	for (uint64_t round = 2; round < 5; round++) {
		fill(round);
		CHECK(has(round));
	}
	expect_child(pid);
	CHECK(has(4));
}

/* Several at a time, each of another moment. */
static void several(void)
{
	pid_t pids[6];

	start();
	for (unsigned i = 0; i < 6; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			CHECK(has(i + 1));
			fill(20 + i);
			CHECK(has(20 + i));
			_exit(CHILD_EXIT);
		}
		fill(i + 2);
	}
	for (unsigned i = 0; i < 6; i++)
		expect_child(pids[i]);
	CHECK(has(7));
}

static void grandchild(void)
{
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0) {
		pid_t inner;

		fill(30);
		inner = fork();
		if (inner == 0) {
			CHECK(has(30));
			fill(40);
			CHECK(has(40));
			_exit(CHILD_EXIT);
		}
		fill(31);
		expect_child(inner);
		CHECK(has(31));
		_exit(CHILD_EXIT);
	}
	fill(2);
	expect_child(pid);
	CHECK(has(2));
}

/*
 * The parent ends first; the grandchild too. What is left says so through a pipe that the caller of
 * this program reads.
 */
static void orphan(void)
{
	pid_t pid;
	int ready[2];
	char c;

	start();
	CHECK(pipe(ready) == 0);
	pid = fork();
	if (pid == 0) {
		close(ready[1]);
		CHECK(read(ready[0], &c, 1) == 0); /* the parent has ended */
		CHECK(has(1));
		fill(50);
		pid = fork();
		if (pid == 0) {
			CHECK(has(50));
			fill(51);
			CHECK(has(51));
			printf("orphan: right\n");
			fflush(stdout);
			_exit(0);
		}
		_exit(0);
	}
	CHECK(pid > 0);
	fill(2);
}

/* Allocations of parent and child do not meet; what was freed can be had again. */
static void allocates(void)
{
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0) {
		uint8_t *more = malloc(6 * MIB), *again;

		CHECK(more);
		memset(more, 5, 6 * MIB);
		CHECK(has(1));
		for (size_t i = 0; i < 6 * MIB; i += 997)
			CHECK(more[i] == 5);
		free(heap);
		again = calloc(1, 12 * MIB);
		CHECK(again);
		for (size_t i = 0; i < 12 * MIB; i += 997)
			CHECK(again[i] == 0);
		memset(again, 6, 12 * MIB);
		CHECK(again[12 * MIB - 1] == 6 && more[6 * MIB - 1] == 5);
		_exit(CHILD_EXIT);
	}
	uint8_t *mine = malloc(6 * MIB);

	memset(mine, 9, 6 * MIB);
	free(mine);
	mine = calloc(1, 6 * MIB);
	CHECK(mine[3 * MIB] == 0);
	memset(mine, 8, 6 * MIB);
	expect_child(pid);
	CHECK(has(1) && mine[6 * MIB - 1] == 8);
}

/* Memory that has left the region, and system calls on cold pages, in the child. */
static void uses(void)
{
	uint8_t *at;
	pid_t pid;
	int ends[2];

	start();
	at = (uint8_t *)(((uintptr_t)heap + 6 * MIB) & ~(uintptr_t)(PAGE - 1));
	CHECK(mprotect(at, 64 * PAGE, PROT_READ) == 0);
	CHECK(pipe(ends) == 0);
	pid = fork();
	if (pid == 0) {
		uint8_t *other = (uint8_t *)(((uintptr_t)heap + 4 * MIB) & ~(uintptr_t)(PAGE - 1));

		CHECK(has(1));
		CHECK(write(ends[1], (uint8_t *)heap + 9 * MIB, 30000) == 30000);
		CHECK(mprotect(other, 64 * PAGE, PROT_READ) == 0);
		CHECK(has(1));
		CHECK(mprotect(other, 64 * PAGE, PROT_READ | PROT_WRITE) == 0);
		CHECK(mprotect(at, 64 * PAGE, PROT_READ | PROT_WRITE) == 0);
		fill(2);
		CHECK(has(2));
		_exit(CHILD_EXIT);
	}
	CHECK(read(ends[0], (uint8_t *)heap + 2 * MIB, 30000) > 0);
	expect_child(pid);
	CHECK(WEXITSTATUS(system("exit 6")) == 6);
	pid = fork();
	if (pid == 0)
		execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
	expect_child(pid);
}

/* Threads move pages all the time. */
static bool stop;

static void *stir(void *raw)
{
	uint64_t state = (uintptr_t)raw + 1, seen = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		size_t i;

		state = state * 6364136223846793005u + 1442695040888963407u;
		i = (state >> 20) % words;
		i -= i % (PAGE / 8);
		seen += __atomic_load_n(&heap[i], __ATOMIC_RELAXED);
		__atomic_fetch_add(&heap[i + 100 + (uintptr_t)raw], 1, __ATOMIC_RELAXED);
	}
	return (void *)(uintptr_t)(seen | 1);
}

static uint64_t sum_of(unsigned thread)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < words; i += PAGE / 8)
		sum += __atomic_load_n(&heap[i + 100 + thread], __ATOMIC_RELAXED);
	return sum;
}

static void threads(void)
{
	pthread_t list[2];

	heap = calloc(words, sizeof(*heap));
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(pthread_create(&list[i], NULL, stir, (void *)i) == 0);
	for (unsigned round = 0; round < 4; round++) {
		pid_t pid = fork();

		if (pid == 0) {
			/* nothing changes here, so that two sums are the same */
			for (unsigned i = 0; i < 2; i++)
				CHECK(sum_of(i) == sum_of(i));
			_exit(CHILD_EXIT);
		}
		expect_child(pid);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_join(list[i], NULL) == 0);
}

/* Children that are killed: their blocks are used again. */
static void kills(void)
{
	start();
	for (uint64_t round = 1; round < 8; round++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			for (uint64_t other = 60;; other++)
				fill(other);
		}
		fill(round + 1);
		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
		CHECK(has(round + 1));
	}
}

/*
 * The process becomes another program, with a region of its own, while its child has the old one.
 */
static void becomes(char **argv)
{
	char name[] = "reads";
	pid_t pid;

	start();
	pid = fork();
	if (pid == 0) {
		for (unsigned i = 0; i < 4; i++)
			CHECK(has(1));
		fill(2);
		CHECK(has(2));
		printf("child: right\n");
		fflush(stdout);
		_exit(0);
	}
	argv[1] = name;
	execv(argv[0], argv);
}

/* The child waits while the parent needs all of the disk. */
static void full(void)
{
	int go[2], status;
	pid_t pid;
	char c = 0;

	words = 9 * MIB / sizeof(uint64_t);
	start();
	CHECK(pipe(go) == 0);
	pid = fork();
	if (pid == 0) {
		CHECK(read(go[0], &c, 1) == 1);
		_exit(has(1) ? CHILD_EXIT : 1);
	}
	for (uint64_t round = 2; round < 5; round++) {
		fill(round);
		CHECK(has(round));
	}
	CHECK(write(go[1], &c, 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("child: %s\n", WIFSIGNALED(status)		  ? "stopped"
			      : WEXITSTATUS(status) == CHILD_EXIT ? "as of the fork"
								  : "wrong data");
	CHECK(has(4));
}

/*
 * Two instructions whose copies have the same place in the table of emul/copy.c, one used by the
 * parent and the other by the child: each executes its own.
 */
static unsigned copy_slot(const uint8_t *at)
{
	return (unsigned)(((uintptr_t)at * 0x9e3779b97f4a7c15u) >> 40) & 16383;
}

static void code(void)
{
	static const uint8_t load[] = {0x48, 0x8b, 0x07, 0xc3};	     /* mov (%rdi), %rax; ret */
	static const uint8_t add[] = {0x48, 0x83, 0x07, 0x05, 0xc3}; /* addq $5, (%rdi); ret */
	uint8_t *at = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		*other = at + 64;
	uint64_t (*get)(uint64_t *), seen;
	void (*change)(uint64_t *);
	int there[2], back[2];
	pid_t pid;
	char c = 0;

	CHECK(at != MAP_FAILED && pipe(there) == 0 && pipe(back) == 0);
	while (copy_slot(other) != copy_slot(at) && other < at + 4 * MIB - 64)
		other += 16;
	CHECK(copy_slot(other) == copy_slot(at));
	memcpy(at, load, sizeof(load));
	memcpy(other, add, sizeof(add));
	get = (uint64_t(*)(uint64_t *))(void *)at;
	change = (void (*)(uint64_t *))(void *)other;
	start();
	seen = heap[2048];
	pid = fork();
	if (pid == 0) {
		uint64_t before = heap[1024];

		CHECK(read(there[0], &c, 1) == 1);
		change(&heap[1024]);
		CHECK(write(back[1], &c, 1) == 1);
		_exit(heap[1024] == before + 5 ? CHILD_EXIT : 1);
	}
	CHECK(get(&heap[2048]) == seen);
	CHECK(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
	CHECK(get(&heap[2048]) == seen && heap[2048] == seen);
	expect_child(pid);
}

/* fork() is no point where a thread is cancelled. */
static void *fork_cancelled(void *raw)
{
	pthread_cancel(pthread_self());
	*(pid_t *)raw = fork();
	if (*(pid_t *)raw == 0)
		_exit(has(1) ? CHILD_EXIT : 1);
	pthread_testcancel();
	return NULL;
}

static void cancelled(void)
{
	pthread_t thread;
	pid_t pid = -1;

	start();
	CHECK(pthread_create(&thread, NULL, fork_cancelled, &pid) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	expect_child(pid);
	fill(2);
	CHECK(has(2));
}

/* All descriptors that a process may have are in use; and a child that shares the table of them. */
static void descriptors(void)
{
	struct rlimit limit;
	pid_t pid;

	start();
	pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		_exit(CHILD_EXIT);
	expect_child(pid);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 1024;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	for (uint64_t round = 1; round < 4; round++) {
		pid = fork();
		if (pid == 0)
			_exit(has(round) ? CHILD_EXIT : 1);
		fill(round + 1);
		expect_child(pid);
	}
}

/* A limit below the numbers of all descriptors that are open. */
static void limit(void)
{
	struct rlimit limit;
	pid_t pid;

	start();
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = 64;
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	for (uint64_t round = 1; round < 4; round++) {
		pid = fork();
		if (pid == 0)
			_exit(has(round) && getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
					      limit.rlim_cur == 64
				      ? CHILD_EXIT
				      : 1);
		CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64);
		fill(round + 1);
		expect_child(pid);
	}
}

/* The same, and it cannot be raised: a child without its memory is stopped with a message. */
static void hard_limit(void)
{
	struct rlimit limit = {.rlim_cur = 64, .rlim_max = 64};
	int status;
	pid_t pid;

	start();
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	pid = fork();
	if (pid == 0)
		_exit(has(1) ? CHILD_EXIT : 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	printf("child: %s\n", WIFSIGNALED(status) ? "stopped" : "as of the fork");
	CHECK(has(1));
}

/* What the program told the kernel about its children. */
static void wiped(void)
{
	size_t first, end;
	pid_t pid;

	start();
	first = (PAGE - (uintptr_t)heap % PAGE) % PAGE / 8 + 4 * MIB / 8;
	end = first + 4 * MIB / 8;
	CHECK(madvise(heap + first, 4 * MIB, MADV_WIPEONFORK) == 0);
	pid = fork();
	if (pid == 0) {
		for (size_t i = first; i < end; i++)
			CHECK(heap[i] == 0);
		CHECK(heap[64] == value(64, 1));
		_exit(CHILD_EXIT);
	}
	expect_child(pid);
	CHECK(has(1));
	/* and that it told it otherwise */
	CHECK(madvise(heap + first, 2 * MIB, MADV_KEEPONFORK) == 0);
	CHECK(madvise(heap + first + 2 * MIB / 8, 2 * MIB, MADV_DONTFORK) == 0);
	CHECK(madvise(heap + first, 7 * MIB, MADV_DOFORK) == 0);
	CHECK(madvise(heap + first, 7 * MIB, MADV_KEEPONFORK) == 0);
	pid = fork();
	if (pid == 0)
		_exit(has(1) ? CHILD_EXIT : 1);
	expect_child(pid);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} topics[] = {
		{"reads", reads},
		{"stores", stores},
		{"several", several},
		{"grandchild", grandchild},
		{"orphan", orphan},
		{"uses", uses},
		{"threads", threads},
		{"kills", kills},
		{"allocates", allocates},
		{"full", full},
		{"code", code},
		{"cancelled", cancelled},
		{"descriptors", descriptors},
		{"limit", limit},
		{"hard-limit", hard_limit},
		{"wiped", wiped},
	};

	if (argc == 3)
		words = (size_t)atoi(argv[2]) * MIB / sizeof(uint64_t);
	for (unsigned i = 0; argc >= 2 && i < sizeof(topics) / sizeof(topics[0]); i++)
		if (strcmp(argv[1], topics[i].name) == 0) {
			topics[i].run();
			printf("ok\n");
			return 0;
		}
	if (argc == 2 && strcmp(argv[1], "becomes") == 0)
		becomes(argv);
	return 2;
}
