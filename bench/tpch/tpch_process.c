/* SPDX-License-Identifier: BSD-2-Clause */
#include "tpch_process.h"

#include "cli.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS	   100 /* between two looks at whether to stop */
#define NO_PROGRAM 127
#define NOT_HERE   77

/* ---- figures ---- */

static double seconds_of(const struct rusage *used)
{
	return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
	       (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) / 1e6;
}

static void count_io(struct tpch_figures *out)
{
	FILE *io = fopen("/proc/self/io", "re");
	unsigned long long n;
	char line[80];

	while (io && fgets(line, sizeof(line), io)) {
		if (sscanf(line, "read_bytes: %llu", &n) == 1)
			out->read = n;
		else if (sscanf(line, "write_bytes: %llu", &n) == 1)
			out->written = n;
	}
	if (io)
		fclose(io);
}

void tpch_figures_now(struct tpch_figures *out)
{
	struct rusage used;

	*out = (struct tpch_figures){0};
	getrusage(RUSAGE_SELF, &used);
	count_io(out);
	out->cpu = seconds_of(&used);
	out->rss = (uint64_t)used.ru_maxrss << 10;
	out->wall = (double)fth_now_ns() / 1e9;
}

void tpch_figures_since(struct tpch_figures *out, const struct tpch_figures *from)
{
	tpch_figures_now(out);
	out->cpu -= from->cpu;
	out->wall -= from->wall;
	out->read -= from->read;
	out->written -= from->written;
}

/* ---- waiting ---- */

/* Wait until the child ends; kill it when the user stops the benchmark. */
static int await_child(pid_t child, int *status, struct rusage *used)
{
	int fd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	bool killed = false;

	while (fd >= 0 && poll(&ready, 1, LOOK_MS) <= 0)
		if (!killed && fth_cli_stopped()) {
			kill(child, SIGKILL);
			killed = true;
		}
	if (fd >= 0)
		close(fd);
	while (wait4(child, status, 0, used) < 0)
		if (errno != EINTR)
			return -errno;
	return killed ? fth_fail(EINTR, "stopped") : 0;
}

static int start_child(pid_t *out)
{
	pid_t parent = getpid();

	fflush(NULL); /* or both would print what is buffered */
	*out = fork();
	if (*out < 0)
		return fth_fail(errno, "cannot start a process: %s", strerror(errno));
	if (*out == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) /* it died before the call above */
			_exit(1);
	}
	return 0;
}

/* ---- a function ---- */

/* What both processes see. The result follows it. */
struct shared {
	int rc;
	bool finished;
	char error[FTH_ERROR_TEXT_MAX];
	_Alignas(64) char result[];
};

static void be_child(int (*fn)(void *, void *), void *context, struct shared *shared)
{
	fth_error_clear();
	shared->rc = fn(context, shared->result);
	if (shared->rc < 0)
		snprintf(shared->error, sizeof(shared->error), "%s", fth_error_text(shared->rc));
	shared->finished = true;
	_exit(0);
}

static int outcome_of(const struct shared *shared, int status)
{
	if (WIFSIGNALED(status))
		return fth_fail(ECHILD, "the process was killed by signal %d", WTERMSIG(status));
	if (!shared->finished)
		return fth_fail(ECHILD, "the process exited early");
	return shared->rc < 0 ? fth_fail(-shared->rc, "%s", shared->error) : 0;
}

int tpch_in_child(int (*fn)(void *context, void *result), void *context, void *result, size_t size)
{
	size_t bytes = sizeof(struct shared) + size;
	struct shared *shared =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct rusage used;
	int status = 0, rc;
	pid_t child = -1;

	if (shared == MAP_FAILED)
		return -ENOMEM;
	rc = start_child(&child);
	if (child == 0)
		be_child(fn, context, shared);
	if (rc == 0)
		rc = await_child(child, &status, &used);
	if (rc == 0)
		rc = outcome_of(shared, status);
	memcpy(result, shared->result, size);
	munmap(shared, bytes);
	return rc;
}

/* ---- a program ---- */

static void become(char *const argv[], const char *output, int errors)
{
	int in = open("/dev/null", O_RDONLY);
	int out = open(output ? output : "/dev/null", O_WRONLY | O_CREAT | O_TRUNC, 0666);

	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);
	execvp(argv[0], argv);
	_exit(NO_PROGRAM);
}

/* The last line of what a program complained, without its end. */
static void last_line(int fd, char *text, size_t size)
{
	char *end;
	off_t length = lseek(fd, 0, SEEK_END);
	off_t from = length > (off_t)size - 1 ? length - (off_t)size + 1 : 0;
	ssize_t n = pread(fd, text, size - 1, from);

	text[n < 0 ? 0 : n] = '\0';
	while ((end = strrchr(text, '\n')) != NULL && end[1] == '\0')
		*end = '\0';
	if (end)
		memmove(text, end + 1, strlen(end + 1) + 1);
}

static int exit_of(const char *program, int status, int errors)
{
	char text[FTH_ERROR_TEXT_MAX - 64];

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	last_line(errors, text, sizeof(text));
	if (WIFSIGNALED(status))
		return fth_fail(ECHILD, "%s was killed by signal %d", program, WTERMSIG(status));
	if (WEXITSTATUS(status) == NO_PROGRAM)
		return fth_fail(ENOENT, "%s is not installed", program);
	return fth_fail(WEXITSTATUS(status) == NOT_HERE ? ENOTSUP : ECHILD, "%s", text);
}

int tpch_run_program(char *const argv[], const char *output, struct tpch_figures *took)
{
	uint64_t begin = fth_now_ns();
	int errors = memfd_create("errors", MFD_CLOEXEC), status = 0, rc;
	struct rusage used = {0};
	pid_t child = -1;

	if (errors < 0)
		return -errno;
	rc = start_child(&child);
	if (child == 0)
		become(argv, output, errors);
	if (rc == 0)
		rc = await_child(child, &status, &used);
	if (rc == 0)
		rc = exit_of(argv[0], status, errors);
	close(errors);
	if (took)
		*took = (struct tpch_figures){.cpu = seconds_of(&used),
					      .wall = (double)(fth_now_ns() - begin) / 1e9,
					      .rss = (uint64_t)used.ru_maxrss << 10};
	return rc;
}
