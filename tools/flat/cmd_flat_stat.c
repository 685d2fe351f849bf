/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom flat stat: the figures of programs that `fathom flat run` has started. A program has its
 * figures in memory without a file name; it is found among the program's descriptors in /proc.
 */
#include "commands.h"
#include "flat_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Returns 0 if process `pid` is one, with its figures. */
static int read_figures(int pid, int fd, struct run_shared *out)
{
	char path[64];
	ssize_t n;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return -errno;
	n = pread(file, out, sizeof(*out), 0);
	close(file);
	/* the launcher has it too: that is not the program */
	return n == (ssize_t)sizeof(*out) && out->magic == RUN_MAGIC && out->pid == pid ? 0
											: -ENOENT;
}

static int find_figures(int pid, struct run_shared *out)
{
	static const char wanted[] = "/memfd:" RUN_MEMFD;
	char path[64], link[PATH_MAX];
	struct dirent *entry;
	int rc = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (rc < 0 && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (n >= (ssize_t)sizeof(wanted) - 1 &&
		    memcmp(link, wanted, sizeof(wanted) - 1) == 0)
			rc = read_figures(pid, atoi(entry->d_name), out);
	}
	closedir(dir);
	return rc;
}

static void show(const struct run_shared *figures)
{
	if (fth_cli_json())
		fth_flat_report_json(stdout, figures);
	else
		fth_flat_report(stdout, figures);
}

static int show_all(void)
{
	struct run_shared figures;
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	unsigned n = 0;

	while (dir && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0 && find_figures(atoi(entry->d_name), &figures) == 0) {
			show(&figures);
			n++;
		}
	if (dir)
		closedir(dir);
	if (n == 0)
		fth_cli_error("flat stat: no program started by `fathom flat run` is running");
	return n ? FTH_EXIT_OK : FTH_EXIT_FAILED;
}

static int run(int argc, char **argv)
{
	const struct fth_cli_usage usage = {
		.synopsis = "flat stat [PID...]",
		.text = "Figures of programs that `fathom flat run` has started and that are still "
			"running:\n"
			"all of them, or those named. With --json a line for each.",
		.max_args = INT_MAX,
	};
	struct run_shared figures;
	int rc, status;
	char **args;

	status = fth_cli_parse(&usage, argc, argv, &args);
	if (status != FTH_CLI_GO_ON)
		return status;
	if (!args[0])
		return show_all();
	status = FTH_EXIT_OK;
	for (; args[0]; args++) {
		char *end;
		long pid = strtol(args[0], &end, 10);

		if (*end || pid <= 0 || pid > INT_MAX) {
			fth_cli_error("flat stat: %s is not a process ID", args[0]);
			return FTH_EXIT_USAGE;
		}
		rc = find_figures((int)pid, &figures);
		if (rc == 0) {
			show(&figures);
			continue;
		}
		fth_cli_error("flat stat: process %ld: %s", pid,
			      rc == -ENOENT && kill((pid_t)pid, 0) == 0
				      ? "it was not started by `fathom flat run`"
				      : strerror(rc == -ENOENT ? ESRCH : -rc));
		status = FTH_EXIT_FAILED;
	}
	return status;
}

const struct fth_command fth_cmd_flat_stat = {
	.name = "stat",
	.summary = "print statistics of running `flat run` programs",
	.run = run,
};
