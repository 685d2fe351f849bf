/* SPDX-License-Identifier: BSD-2-Clause */
#include "gapbs.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16

extern char **environ;

/* ---- the graph ---- */

/* A byte that says whether it is directed, the numbers of edges and vertices, offsets, neighbours. */
static bool write_graph(FILE *out, const struct fth_graph_memory *memory)
{
	const uint8_t directed = !memory->undirected;

	return fwrite(&directed, 1, 1, out) == 1 && fwrite(&memory->edges, 8, 1, out) == 1 &&
	       fwrite(&memory->vertices, 8, 1, out) == 1 &&
	       fwrite(memory->offsets, 8, memory->vertices + 1, out) == memory->vertices + 1 &&
	       fwrite(memory->neighbours, 4, memory->edges, out) == memory->edges;
}

int gapbs_open(struct gapbs *gapbs, const char *directory, const struct fth_graph_memory *memory,
	       unsigned threads)
{
	FILE *out;
	bool good;

	*gapbs = (struct gapbs){.folder = getenv("FTH_GAPBS"), .threads = threads};
	if (!gapbs->folder)
		return 0;
	snprintf(gapbs->graph, sizeof(gapbs->graph), "%s/fathom-graph-%ld.sg", directory,
		 (long)getpid());
	out = fopen(gapbs->graph, "wbx");
	if (!out)
		return fth_fail(errno, "cannot create %s", gapbs->graph);
	good = write_graph(out, memory);
	good = fclose(out) == 0 && good;
	return good ? 0 : fth_fail(EIO, "cannot write %s", gapbs->graph);
}

void gapbs_close(struct gapbs *gapbs)
{
	if (gapbs->graph[0])
		unlink(gapbs->graph);
}

/* ---- running ---- */

/* Start argv with its standard output in a pipe: the end to read from, or a negative errno. */
static int start(char *const *argv, pid_t *pid)
{
	posix_spawn_file_actions_t actions;
	int pipes[2], rc;

	if (pipe(pipes) < 0)
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, pipes[0]);
	rc = posix_spawn(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	if (rc == 0)
		return pipes[0];
	close(pipes[0]);
	return fth_fail(rc, "cannot start %s", argv[0]);
}

/* "Trial Time: SECONDS" for each trial: how many there were, or -EPROTO. */
static int read_times(FILE *in, unsigned trials, double *seconds)
{
	char line[512];
	unsigned n = 0;
	int rc = 0;

	while (fgets(line, sizeof(line), in)) {
		if (n < trials && sscanf(line, "Trial Time: %lf", &seconds[n]) == 1)
			n++;
		if (strncmp(line, "Verification:", 13) == 0 && !strstr(line, "PASS"))
			rc = fth_fail(EPROTO, "GAPBS reports a wrong result of its own");
	}
	return rc < 0 ? rc : (int)n;
}

static int finish(pid_t pid, const char *program, int times, unsigned trials)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (times < 0)
		return times;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return fth_fail(EPROTO, "%s failed", program);
	if ((unsigned)times != trials)
		return fth_fail(EPROTO, "%s printed the times of %d trials, expected %u", program,
				times, trials);
	return 0;
}

int gapbs_run(const struct gapbs *gapbs, const char *program, unsigned trials,
	      const char *const *arguments, double *seconds)
{
	char path[4200], count[16], threads[16];
	const char *argv[ARGUMENTS_MAX + 6] = {path, "-f", gapbs->graph, "-n", count};
	size_t used = 5;
	FILE *in;
	pid_t pid;
	int fd, times;

	snprintf(path, sizeof(path), "%s/%s", gapbs->folder, program);
	snprintf(count, sizeof(count), "%u", trials);
	snprintf(threads, sizeof(threads), "%u", gapbs->threads);
	setenv("OMP_NUM_THREADS", threads, 1);
	setenv("OMP_PROC_BIND", "true", 0); /* it is faster so */
	while (*arguments && used < ARGUMENTS_MAX)
		argv[used++] = *arguments++;
	fd = start((char *const *)(uintptr_t)argv, &pid);
	if (fd < 0)
		return fd;
	in = fdopen(fd, "r");
	times = in ? read_times(in, trials, seconds) : -ENOMEM;
	if (in)
		fclose(in);
	else
		close(fd);
	return finish(pid, program, times, trials);
}
