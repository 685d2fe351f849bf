/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every workload on a GPU, in a process that ends in the middle: a kernel, or the host between two
 * kernels, is stopped at a fence of choice (FTH_PM_STOP), or the process is killed. The next
 * process recovers, at times to be stopped again, and the last one finishes. Its result is that of
 * a run without interruption. In shared memory, where all stores survive, and in drained memory,
 * where those survive that were drained. This file and the sources that it runs are compiled with
 * FTH_PM_STOP. Skipped (77) without a GPU.
 *
 * workloads_pm_crash_device_test [--rounds N] [--seed N] [--only WORKLOAD]
 */
#include "workloads/pm/machine.h"
#include "workloads/pm/work.h"
#include "cuda_fixture.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"
#include "must_fixture.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOPPED 3		    /* exit status: stopped at a fence */
#define NEVER	(UINT64_C(1) << 62) /* a fence that is not reached: fences are counted */

extern char **environ;

struct outcome {
	int status; /* of the process; -1: a signal ended it */
	unsigned long long digest, fences;
	uint64_t run_ns;
};

/* ---- the child ---- */

static struct fth_pm *map_pm(const struct fth_pmw_workload *workload,
			     const struct fth_pmw_options *options, const char *name)
{
	struct fth_pm_options how = FTH_PM_OPTIONS_INIT;
	struct fth_pm *pm;

	how.flags = FTH_PM_CREATE;
	OK(fth_pm_map(name, fth_pmw_bytes(workload, options), &how, &pm));
	return pm;
}

static int child(const char *name, const char *memory, uint64_t stop)
{
	const struct fth_pmw_workload *workload = fth_pmw_find(name);
	struct fth_pmw_options options = FTH_PMW_OPTIONS_INIT;
	struct fth_pmw_result result;
	int rc;

	skip_without_gpu();
	MUST(cudaFree(NULL) == cudaSuccess); /* CUDA starts */
	options.pm = map_pm(workload, &options, memory);
	options.machine = pmw_machine_gpu;
	options.stop_fences = stop;
	printf("run\n");
	fflush(stdout);
	rc = fth_pmw_run(workload, &options, &result);
	if (rc < 0) {
		fprintf(stderr, "  %s: %s\n", name, fth_error_text(rc));
		_exit(rc == -EILSEQ || rc == -EINVAL || rc == -EBADMSG ? 1 : STOPPED);
	}
	printf("%llx %llu\n", (unsigned long long)result.digest,
	       (unsigned long long)fth_pm_view(options.pm).control->fences);
	OK(fth_pm_unmap(options.pm));
	return 0;
}

/* ---- the parent ---- */

static pid_t start(const char *name, const char *memory, uint64_t stop, FILE **out)
{
	char self[] = "/proc/self/exe", word[] = "--child", workload[32], where[160], number[24];
	char *argv[] = {self, word, workload, where, number, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2];
	pid_t pid;

	snprintf(workload, sizeof(workload), "%s", name);
	snprintf(where, sizeof(where), "%s", memory);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)stop);
	MUST(pipe(ends) == 0);
	MUST(posix_spawn_file_actions_init(&actions) == 0);
	MUST(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO) == 0);
	MUST(posix_spawn_file_actions_addclose(&actions, ends[0]) == 0);
	MUST(posix_spawn(&pid, self, &actions, NULL, argv, environ) == 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	*out = fdopen(ends[0], "r");
	MUST(*out);
	return pid;
}

static void pause_for(uint64_t ns)
{
	struct timespec wait = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	nanosleep(&wait, NULL);
}

/*
 * A run that is stopped at a fence (0: not), or killed so many nanoseconds after it began (0: not).
 */
static struct outcome run_child(const char *name, const char *memory, uint64_t stop,
				uint64_t kill_ns)
{
	struct outcome outcome = {};
	uint64_t begin = 0;
	char line[128];
	int status;
	FILE *out;
	pid_t pid = start(name, memory, stop, &out);

	while (fgets(line, sizeof(line), out)) {
		if (strcmp(line, "run\n") == 0) {
			begin = fth_now_ns();
			if (kill_ns) {
				pause_for(kill_ns);
				kill(pid, SIGKILL);
			}
		}
		(void)sscanf(line, "%llx %llu", &outcome.digest, &outcome.fences);
	}
	outcome.run_ns = fth_now_ns() - begin;
	fclose(out);
	MUST(waitpid(pid, &status, 0) == pid);
	outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return outcome;
}

/* Which workload ended how. */
struct tally {
	unsigned stopped, killed, finished, twice;
};

static void count_end(struct tally *tally, const struct outcome *outcome, bool killed)
{
	MUST(outcome->status == 0 || outcome->status == STOPPED || outcome->status == -1);
	tally->finished += outcome->status == 0;
	tally->stopped += outcome->status != 0 && !killed;
	tally->killed += outcome->status != 0 && killed;
}

static void must_finish(const char *name, const char *memory, unsigned long long digest)
{
	struct outcome last = run_child(name, memory, 0, 0);

	if (last.status != 0 || last.digest != digest)
		fprintf(stderr, "%s in %s: status %d, digest %llx, not %llx\n", name, memory,
			last.status, last.digest, digest);
	MUST(last.status == 0 && last.digest == digest);
}

static void interrupt(const char *name, const char *memory, uint64_t rounds, struct fth_rng *rng)
{
	struct outcome whole, first, second;
	struct tally tally = {};

	(void)fth_pm_remove(memory);
	whole = run_child(name, memory, NEVER, 0);
	if (whole.status == SKIPPED) {
		printf("skipped: no GPU here\n");
		exit(SKIPPED);
	}
	MUST(whole.status == 0 && whole.fences > 2);
	for (uint64_t r = 0; r < rounds; r++) {
		bool killed = r % 4 == 3;

		(void)fth_pm_remove(memory);
		first = run_child(name, memory, killed ? 0 : 1 + fth_rng_below(rng, whole.fences),
				  killed ? 1 + fth_rng_below(rng, whole.run_ns) : 0);
		count_end(&tally, &first, killed);
		if (r % 2 == 1) {
			second = run_child(name, memory, 1 + fth_rng_below(rng, whole.fences / 2),
					   0);
			count_end(&tally, &second, false);
			tally.twice += first.status != 0 && second.status != 0;
		}
		must_finish(name, memory, whole.digest);
	}
	OK(fth_pm_remove(memory));
	printf("%-8s %-4.4s: %8llu fences; stopped %u, killed %u, both twice %u, finished before "
	       "%u; the "
	       "result is right\n",
	       name, memory, whole.fences, tally.stopped, tally.killed, tally.twice,
	       tally.finished);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *only = NULL;
	struct fth_rng rng = {1};
	uint64_t rounds = 4;
	char shm[64], file[128];

	if (argc == 5 && strcmp(argv[1], "--child") == 0)
		return child(argv[2], argv[3], strtoull(argv[4], NULL, 10));
	for (int i = 1; i + 1 < argc; i += 2) {
		if (strcmp(argv[i], "--rounds") == 0)
			rounds = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
			rng.state = strtoull(argv[i + 1], NULL, 10);
		else if (strcmp(argv[i], "--only") == 0)
			only = argv[i + 1];
	}
	snprintf(shm, sizeof(shm), "shm:fathom_work_crash_%d", (int)getpid());
	snprintf(file, sizeof(file), "file:/tmp/fathom_work_crash_%d", (int)getpid());
	for (const struct fth_pmw_workload *w = fth_pmw_next(NULL); w; w = fth_pmw_next(w)) {
		if (only && strcmp(only, fth_pmw_name(w)) != 0)
			continue;
		interrupt(fth_pmw_name(w), shm, rounds, &rng);
		interrupt(fth_pmw_name(w), file, rounds, &rng);
	}
	return 0;
}
