/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernels that log, and end in the middle: by a fence at which they are stopped (FTH_PM_STOP), or
 * because their process is killed. The parent, which does not use CUDA, then reads the log: of each
 * thread it finds the entries from the first on, whole, and no fewer than the persists of the
 * thread that returned 0. Threads count these in shared memory, which survives. Last, a process
 * that goes on from there finishes the work. In shared memory, and in drained memory: there only
 * the file survives. Skipped (77) without a GPU.
 *
 * pm_gpu_crash_device_test [--rounds N] [--seed N]
 */
#define FTH_PM_STOP
#include "cuda_fixture.h"
#include "fathom/base/rng.h"
#include "fathom/pm/gpu.h"
#include "must_fixture.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS	32u
#define PER	128u
#define THREADS (BLOCKS * PER)
#define ENTRIES 200u
#define MEMORY	(64u << 20)
#define ACKS	(THREADS * sizeof(uint32_t)) /* bytes: entries of each thread that were inserted */
#define STOPPED 3			     /* exit status: the kernel was stopped */

extern char **environ;

struct entry {
	uint32_t thread, number, words[14];
};

static const struct fth_pm_log_shape shape = {BLOCKS, PER, sizeof(struct entry), ENTRIES};

FTH_HD void make_entry(struct entry *e, uint32_t thread, uint32_t number)
{
	e->thread = thread;
	e->number = number;
	for (uint32_t k = 0; k < 14; k++)
		e->words[k] = (thread * 31 + number) ^ k * 0x9e3779b1u;
}

static char acks_name[64];

static struct fth_pm *map_pm(const char *name, uint64_t bytes)
{
	struct fth_pm_options options = {};
	struct fth_pm *pm;

	options.size = sizeof(options);
	options.flags = FTH_PM_CREATE;
	OK(fth_pm_map(name, bytes, &options, &pm));
	return pm;
}

/* ---- the child ---- */

/* Each thread goes on from what it has. A few lanes are behind the others. */
__global__ static void log_on(struct fth_pm_log_view log, volatile uint32_t *acks)
{
	uint32_t thread = fth_pm_log_thread(&log, blockIdx.x, threadIdx.x);

	for (uint32_t i = fth_pm_log_count_hd(&log, thread); i < ENTRIES; i++) {
		struct entry e;

		make_entry(&e, thread, i);
		if (thread % 7 == i % 7)
			__nanosleep(2000);
		if (fth_pm_hcl_insert(&log, thread, &e, sizeof(e)) < 0)
			return;
		acks[thread] = i + 1;
	}
}

/* Log until all is there, or the kernel is stopped at fence number `stop`. */
static int child(const char *name, uint64_t stop)
{
	struct fth_gpu_pm *gpu, *gpu_acks;
	struct fth_gpu_pm_log *log;
	struct fth_pm *pm, *acks;
	cudaError_t err;

	skip_without_gpu();
	pm = map_pm(name, MEMORY);
	acks = map_pm(acks_name, ACKS);
	OK(fth_gpu_pm_register(pm, &gpu));
	OK(fth_gpu_pm_register(acks, &gpu_acks));
	OK(fth_gpu_pm_log_open(gpu, 0, &log));
	fth_pm_view(pm).control->fences = 0;
	fth_pm_view(pm).control->stop_after = stop;
	if (write(STDOUT_FILENO, "g", 1) != 1)
		return 1;
	log_on<<<BLOCKS, PER>>>(fth_gpu_pm_log_view(log), (volatile uint32_t *)fth_gpu_pm_address(
								  gpu_acks, fth_pm_base(acks)));
	err = cudaDeviceSynchronize();
	if (err != cudaSuccess)
		_exit(STOPPED); /* CUDA is of no use to this process any more */
	OK(fth_gpu_pm_log_close(log));
	OK(fth_gpu_pm_unregister(gpu_acks));
	OK(fth_gpu_pm_unregister(gpu));
	OK(fth_pm_unmap(acks));
	OK(fth_pm_unmap(pm));
	return 0;
}

/* ---- the parent ---- */

static void make_log(const char *name)
{
	struct fth_pm *pm = map_pm(name, MEMORY), *acks = map_pm(acks_name, ACKS);
	struct fth_pm_log *log;

	memset(fth_pm_base(acks), 0, ACKS);
	OK(fth_pm_log_create_hcl(pm, 0, &shape, &log));
	fth_pm_log_close(log);
	OK(fth_pm_unmap(acks));
	OK(fth_pm_unmap(pm));
}

/* All entries that are there, and that there must be. Returns their number. */
static uint64_t check_log(const char *name)
{
	struct fth_pm *pm = map_pm(name, MEMORY), *told = map_pm(acks_name, ACKS);
	const uint32_t *acks = (const uint32_t *)fth_pm_base(told);
	struct fth_pm_log *log;
	uint64_t entries = 0;

	OK(fth_pm_log_open(pm, 0, &log));
	for (uint32_t t = 0; t < THREADS; t++) {
		uint32_t count = fth_pm_log_count(log, t);
		struct entry found, expected;
		uint64_t cursor = 0;

		/* The last acknowledgement may be lost, and the entry after it may be whole. */
		MUST(count >= acks[t] && count <= acks[t] + 2);
		for (uint32_t i = 0; i < count; i++) {
			MUST(fth_pm_log_read(log, t, &cursor, &found, sizeof(found)) ==
			     sizeof(found));
			make_entry(&expected, t, i);
			MUST(memcmp(&found, &expected, sizeof(found)) == 0);
		}
		entries += count;
	}
	fth_pm_log_close(log);
	OK(fth_pm_unmap(told));
	OK(fth_pm_unmap(pm));
	return entries;
}

/* Start the child; its standard output is a pipe, in which a byte says that the kernel starts. */
static pid_t start(const char *name, uint64_t stop, int *out)
{
	char number[24], path[] = "/proc/self/exe", word[] = "--child", memory[96], told[64];
	char *argv[] = {path, word, memory, number, told, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2];
	pid_t pid;

	snprintf(number, sizeof(number), "%llu", (unsigned long long)stop);
	snprintf(memory, sizeof(memory), "%s", name);
	snprintf(told, sizeof(told), "%s", acks_name);
	MUST(pipe(ends) == 0);
	MUST(posix_spawn_file_actions_init(&actions) == 0);
	MUST(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0);
	MUST(posix_spawn_file_actions_addclose(&actions, ends[0]) == 0);
	MUST(posix_spawn(&pid, path, &actions, NULL, argv, environ) == 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	*out = ends[0];
	return pid;
}

/* Its exit status, or -1 if it was killed. */
static int end(pid_t pid, int out)
{
	int status;

	close(out);
	MUST(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_to_end(const char *name, uint64_t stop)
{
	int out, status;
	pid_t pid = start(name, stop, &out);
	char byte;

	/* "skipped" comes here as well. */
	while (read(out, &byte, 1) == 1)
		;
	status = end(pid, out);
	if (status == SKIPPED) {
		OK(fth_pm_remove(name));
		OK(fth_pm_remove(acks_name));
		printf("skipped: no GPU here\n");
		exit(SKIPPED);
	}
	return status;
}

/* Stopped at a fence; then on to the end. */
static void test_stop(const char *name, uint64_t stop)
{
	uint64_t entries;

	make_log(name);
	MUST(run_to_end(name, stop) == STOPPED);
	entries = check_log(name);
	MUST(entries < (uint64_t)THREADS * ENTRIES);
	printf("stopped at fence %llu: %llu entries\n", (unsigned long long)stop,
	       (unsigned long long)entries);
}

/* Killed some time after its kernel was started. Returns whether it was before the end. */
static bool test_kill(const char *name, long microseconds)
{
	struct timespec wait = {microseconds / 1000000, microseconds % 1000000 * 1000};
	int out, status;
	pid_t pid;
	char byte;

	make_log(name);
	pid = start(name, 0, &out);
	MUST(read(out, &byte, 1) == 1);
	nanosleep(&wait, NULL);
	kill(pid, SIGKILL);
	status = end(pid, out);
	printf("killed after %ld us (%d): %llu entries\n", microseconds, status,
	       (unsigned long long)check_log(name));
	return status < 0;
}

static void test_finish(const char *name)
{
	MUST(run_to_end(name, 0) == 0);
	MUST(check_log(name) == (uint64_t)THREADS * ENTRIES);
}

/* The time of a whole run, in microseconds, from the start of the kernel. */
static long measure(const char *name)
{
	struct timespec from, to;
	int out;
	pid_t pid;
	char byte;

	make_log(name);
	pid = start(name, 0, &out);
	MUST(read(out, &byte, 1) == 1);
	clock_gettime(CLOCK_MONOTONIC, &from);
	MUST(read(out, &byte, 1) == 0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	MUST(end(pid, out) == 0);
	return (to.tv_sec - from.tv_sec) * 1000000 + (to.tv_nsec - from.tv_nsec) / 1000;
}

static void test_memory(const char *name, uint64_t rounds, struct fth_rng *rng)
{
	unsigned killed = 0;
	long whole;

	make_log(name);
	test_finish(name);
	whole = measure(name);
	printf("%s: a whole run takes %ld us\n", name, whole);
	for (uint64_t r = 0; r < rounds; r++) {
		test_stop(name, r == 0 ? 1 : fth_rng_below(rng, THREADS * ENTRIES / 2) + 2);
		test_finish(name);
		killed += test_kill(name, (long)fth_rng_below(rng, (uint64_t)whole));
		test_finish(name);
	}
	printf("%s: %u of %llu were killed before they ended\n", name, killed,
	       (unsigned long long)rounds);
	OK(fth_pm_remove(name));
	OK(fth_pm_remove(acks_name));
}

int main(int argc, char **argv)
{
	struct fth_rng rng = {1};
	uint64_t rounds = 6;
	char name[64];

	if (argc == 5 && strcmp(argv[1], "--child") == 0) {
		snprintf(acks_name, sizeof(acks_name), "%s", argv[4]);
		return child(argv[2], strtoull(argv[3], NULL, 10));
	}
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--rounds") == 0)
			rounds = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
			rng.state = strtoull(argv[i + 1], NULL, 10);
	}
	snprintf(acks_name, sizeof(acks_name), "shm:fathom_crash_acks_%d", (int)getpid());
	snprintf(name, sizeof(name), "shm:fathom_crash_%d", (int)getpid());
	test_memory(name, rounds, &rng);
	snprintf(name, sizeof(name), "file:/tmp/fathom_crash_%d", (int)getpid());
	test_memory(name, rounds, &rng);
	return 0;
}
