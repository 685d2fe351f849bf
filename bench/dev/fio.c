/* SPDX-License-Identifier: BSD-2-Clause */
#include "fio.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX (1u << 20)
#define NO_PROGRAM 127 /* the exit status of a child that found nothing to execute */

/* ---- running a program ---- */

static void become(char *const argv[], int out)
{
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execvp(argv[0], argv);
	_exit(NO_PROGRAM);
}

/* Read until the end; what does not fit is dropped. */
static void read_all(int fd, char *buf, size_t len)
{
	char rest[4096];
	size_t used = 0;
	ssize_t n = 1;

	while (n > 0 || (n < 0 && errno == EINTR)) {
		bool full = used + 1 >= len;

		n = full ? read(fd, rest, sizeof(rest)) : read(fd, buf + used, len - 1 - used);
		if (n > 0 && !full)
			used += (size_t)n;
	}
	buf[used] = '\0';
}

/* Run it, collect what it prints. The exit status, or a negative errno. */
static int run_program(char *const argv[], char *buf, size_t len)
{
	int ends[2], status;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child == 0)
		become(argv, ends[1]);
	close(ends[1]);
	if (child > 0)
		read_all(ends[0], buf, len);
	close(ends[0]);
	if (child < 0)
		return -EAGAIN;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

int fth_fio_version(char *buf, size_t len)
{
	char *argv[] = {"fio", "--version", NULL};

	if (run_program(argv, buf, len) != 0)
		return -ENOENT;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

/* ---- fio's output ---- */

/* Behind `"key" :`, at the value; NULL when there is no such key. */
static const char *find_value(const char *json, const char *key)
{
	size_t len = strlen(key);

	while ((json = strchr(json, '"'))) {
		const char *end = json + 1 + len;

		if (strncmp(json + 1, key, len) == 0 && *end == '"') {
			end += 1 + strspn(end + 1, " \t\n");
			if (*end == ':')
				return end + 1 + strspn(end + 1, " \t\n");
		}
		json++;
	}
	return NULL;
}

int fth_fio_parse(const char *json, bool write, double *iops)
{
	/* Only the job's own results are objects called read or write; options are strings. */
	const char *at = find_value(json, "jobs");
	char *end;

	at = at ? find_value(at, write ? "write" : "read") : NULL;
	at = at && *at == '{' ? find_value(at, "iops") : NULL;
	if (!at)
		return -EINVAL;
	*iops = strtod(at, &end);
	return end != at && *iops > 0 ? 0 : -EINVAL;
}

/* ---- a job ---- */

/* fio takes several files with colons between them, and backslashes to mean a real one. */
static void escape_path(char *to, size_t len, const char *path)
{
	size_t n = 0;

	for (; *path && n + 3 < len; path++) {
		if (*path == ':' || *path == '\\')
			to[n++] = '\\';
		to[n++] = *path;
	}
	to[n] = '\0';
}

static int execute(const struct fth_fio *job, char *output)
{
	char filename[4096 + 16] = "--filename=", offset[48], size[48], depth[32], runtime[32];
	char submit[48], collect[48];
	char *argv[] = {
		"fio",
		"--name=peer",
		filename,
		offset,
		size,
		job->write ? "--rw=randwrite" : "--rw=randread",
		"--bs=4k",
		depth,
		submit,
		collect,
		"--time_based",
		runtime,
		"--ioengine=io_uring",
		job->direct ? "--direct=1" : "--direct=0",
		"--registerfiles=1",
		"--fixedbufs=1",
		"--norandommap",
		"--randrepeat=0",
		"--gtod_reduce=1", /* it need not measure latencies, as we do not */
		"--fallocate=none",
		"--output-format=json",
		NULL,
	};
	size_t used = strlen(filename);

	escape_path(filename + used, sizeof(filename) - used, job->path);
	snprintf(offset, sizeof(offset), "--offset=%llu", (unsigned long long)job->offset);
	snprintf(size, sizeof(size), "--size=%llu", (unsigned long long)job->size);
	snprintf(depth, sizeof(depth), "--iodepth=%u", job->depth);
	snprintf(submit, sizeof(submit), "--iodepth_batch=%u", job->batch);
	snprintf(collect, sizeof(collect), "--iodepth_batch_complete_max=%u", job->batch);
	snprintf(runtime, sizeof(runtime), "--runtime=%ums", job->milliseconds);
	return run_program(argv, output, OUTPUT_MAX);
}

int fth_fio_run(const struct fth_fio *job, double *iops)
{
	char *output = malloc(OUTPUT_MAX);
	int rc;

	if (!output)
		return -ENOMEM;
	rc = execute(job, output);
	if (rc > 0)
		rc = fth_fail(EIO, "fio exited with status %d: %.200s", rc, output);
	else if (rc == 0 && fth_fio_parse(output, job->write, iops) < 0)
		rc = fth_fail(EINVAL, "no result in fio's output: %.200s", output);
	free(output);
	return rc;
}
