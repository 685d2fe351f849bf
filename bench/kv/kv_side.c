/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_side.h"

#include "cli.h"
#include "kv_load.h"
#include "common/scratch.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_NS      30000000000u
#define STOP_NS	      30000000000u
#define DROP_MS	      100
#define EXT_PAGE      (64u << 20) /* of extstore */
#define EXT_PAGES_MIN 8u
#define EXT_ITEM_MAX  512u /* extstore's default of the smallest item that goes to flash */
#define HASHPOWER_MIN 16u
#define ARGUMENTS_MAX 32
#define NO_PROGRAM    127

static void nap(unsigned ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&ts, NULL);
}

/* ---- processes ---- */

/* `out` is its standard output, or -1: its own goes nowhere. */
static void become(char *const argv[], int out)
{
	int nowhere = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(nowhere, STDIN_FILENO);
	dup2(out >= 0 ? out : nowhere, STDOUT_FILENO);
	if (out < 0)
		dup2(nowhere, STDERR_FILENO);
	execvp(argv[0], argv);
	_exit(NO_PROGRAM);
}

static int launch(struct fth_kv_side *side, char *const argv[], int out)
{
	pid_t pid = fork();

	if (pid == 0)
		become(argv, out);
	if (pid < 0)
		return -errno;
	side->pid = pid;
	return 0;
}

/* It has ended before it was ready: why? */
static int early_end(struct fth_kv_side *side, const char *program, int status)
{
	side->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PROGRAM)
		return fth_fail(ENOENT, "%s cannot be executed", program);
	return fth_fail(EIO, "%s exited with status %d before it was ready", program,
			WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

static int check_alive(struct fth_kv_side *side, const char *program)
{
	int status;

	return waitpid(side->pid, &status, WNOHANG) == side->pid ? early_end(side, program, status)
								 : 0;
}

/* ---- ours ---- */

/* The port is in the line of JSON that it prints when it is ready. */
static int read_port(struct fth_kv_side *side, const char *program, int fd)
{
	uint64_t deadline = fth_deadline_ns(START_NS);
	char line[4096] = "";
	size_t used = 0;
	const char *port;

	while (!strchr(line, '\n') && used + 1 < sizeof(line)) {
		struct pollfd waiting = {.fd = fd, .events = POLLIN};
		ssize_t n = poll(&waiting, 1, 100) > 0
				    ? read(fd, line + used, sizeof(line) - 1 - used)
				    : 0;
		int rc = check_alive(side, program);

		if (rc < 0)
			return rc;
		if (fth_cli_stopped())
			return -EINTR;
		if (fth_now_ns() > deadline)
			return fth_fail(ETIMEDOUT, "%s did not start in 30 s", program);
		used += n > 0 ? (size_t)n : 0;
		line[used] = '\0';
	}
	port = strstr(line, "\"port\":");
	if (!port)
		return fth_fail(EINVAL, "%s kv serve did not report its port", program);
	snprintf(side->address, sizeof(side->address), "127.0.0.1:%ld", strtol(port + 7, NULL, 10));
	return 0;
}

static int make_file(const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), rc;

	if (fd < 0)
		return fth_fail(errno, "%s: %s", path, strerror(errno));
	rc = posix_fallocate(fd, 0, (off_t)bytes);
	close(fd);
	return rc ? fth_fail(rc, "%s: %s", path, strerror(rc)) : 0;
}

static int start_ours(struct fth_kv_side *side, const struct fth_kv_side_plan *plan)
{
	char flash[8192] = "none", memory[32], items[32], threads[16], program[4096];
	char *argv[] = {program,	 "kv",	     "serve",	"--json",    "--listen",
			"127.0.0.1:0",	 "--memory", memory,	"--items",   items,
			"--flash",	 flash,	     "--force", "--workers", threads,
			"--connections", "4096",     NULL};
	int ends[2], rc;

	snprintf(program, sizeof(program), "%s", plan->program);
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)plan->memory);
	snprintf(items, sizeof(items), "%llu", (unsigned long long)plan->items);
	snprintf(threads, sizeof(threads), "%u", plan->threads);
	if (plan->flash) {
		rc = make_file(side->path, plan->flash);
		if (rc < 0)
			return rc;
		snprintf(flash, sizeof(flash), "file:%s", side->path);
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	rc = launch(side, argv, ends[1]);
	close(ends[1]);
	if (rc == 0)
		rc = read_port(side, plan->program, ends[0]);
	close(ends[0]);
	return rc;
}

/* ---- the peer ---- */

static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -EADDRNOTAVAIL;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		port = ntohs(address.sin_port);
	close(fd);
	return port;
}

/*
 * ext_item_age=0: everything goes to flash at once, or it loses items while flash is free. The hash
 * table has its final size from the beginning. ext_item_size: small items go to flash as well.
 */
static void peer_options(const struct fth_kv_side_plan *plan, const char *path, char *buf,
			 size_t len)
{
	unsigned power = HASHPOWER_MIN;
	uint64_t pages = (plan->flash + EXT_PAGE - 1) / EXT_PAGE;
	uint64_t item = plan->value_bytes / 2 < EXT_ITEM_MAX ? plan->value_bytes / 2 : EXT_ITEM_MAX;

	while (power < 31 && (UINT64_C(1) << power) < plan->items)
		power++;
	if (pages < EXT_PAGES_MIN)
		pages = EXT_PAGES_MIN;
	if (!plan->flash)
		snprintf(buf, len, "hashpower=%u", power);
	else
		snprintf(buf, len,
			 "hashpower=%u,ext_path=%s:%lluM,ext_threads=8,ext_item_age=0,"
			 "ext_item_size=%llu",
			 power, path, (unsigned long long)(pages * (EXT_PAGE >> 20)),
			 (unsigned long long)item);
}

static int wait_peer(struct fth_kv_side *side, const char *program)
{
	uint64_t deadline = fth_deadline_ns(START_NS), pid;

	while (fth_kv_load_stat(side->address, "", "pid", &pid) < 0) {
		int rc = check_alive(side, program);

		if (rc < 0)
			return rc;
		if (fth_cli_stopped())
			return -EINTR;
		if (fth_now_ns() > deadline)
			return fth_fail(ETIMEDOUT, "%s did not start in 30 s", program);
		nap(20);
	}
	return pid == (uint64_t)side->pid ? 0
					  : fth_fail(EADDRINUSE, "another server took the port");
}

static void *drop_main(void *context)
{
	struct fth_kv_side *side = context;
	int fd = open(side->path, O_RDONLY | O_CLOEXEC);

	/* relaxed: it only has to be seen some time */
	while (fd >= 0 && !__atomic_load_n(&side->stop, __ATOMIC_RELAXED)) {
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		nap(DROP_MS);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static int start_peer(struct fth_kv_side *side, const struct fth_kv_side_plan *plan)
{
	char program[4096], port_text[16], memory[32], threads[16], options[8192];
	char *argv[] = {program, "-l", "127.0.0.1", "-p", port_text, "-U",
			"0",	 "-m", memory,	    "-t", threads,   "-c",
			"4096",	 "-u", "root",	    "-o", options,   NULL};
	int port = free_port(), rc;

	if (port < 0)
		return port;
	if (getuid() != 0) { /* -u is for root only */
		argv[13] = "-o";
		argv[14] = options;
		argv[15] = NULL;
	}
	snprintf(program, sizeof(program), "%s", plan->program);
	snprintf(port_text, sizeof(port_text), "%d", port);
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)(plan->memory >> 20));
	snprintf(threads, sizeof(threads), "%u", plan->threads);
	peer_options(plan, side->path, options, sizeof(options));
	snprintf(side->address, sizeof(side->address), "127.0.0.1:%d", port);
	rc = launch(side, argv, -1);
	if (rc == 0)
		rc = wait_peer(side, plan->program);
	if (rc == 0 && plan->flash)
		side->drops = pthread_create(&side->dropper, NULL, drop_main, side) == 0;
	return rc;
}

int fth_kv_peer_version(const char *program, char *buf, size_t len)
{
	char command[4096 + 16];
	FILE *pipe;
	bool good;

	snprintf(command, sizeof(command), "%s -V 2>/dev/null", program);
	pipe = popen(command, "re");
	if (!pipe)
		return -errno;
	good = fgets(buf, (int)len, pipe) != NULL;
	if (pclose(pipe) != 0 || !good)
		return -ENOENT;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

/* ---- both ---- */

int fth_kv_side_start(struct fth_kv_side *side, const struct fth_kv_side_plan *plan)
{
	int rc;

	*side = (struct fth_kv_side){0};
	if (plan->flash)
		snprintf(side->path, sizeof(side->path), "%s/fathom-bench-%ld-kv-%s",
			 fth_scratch_folder(plan->folder), (long)getpid(),
			 plan->peer ? "peer" : "ours");
	rc = plan->peer ? start_peer(side, plan) : start_ours(side, plan);
	if (rc < 0)
		fth_kv_side_stop(side);
	return rc;
}

void fth_kv_side_stop(struct fth_kv_side *side)
{
	uint64_t deadline = fth_deadline_ns(STOP_NS);

	if (side->drops) {
		__atomic_store_n(&side->stop, 1, __ATOMIC_RELAXED);
		pthread_join(side->dropper, NULL);
		side->drops = false;
	}
	if (side->pid > 0) {
		kill(side->pid, SIGTERM);
		while (waitpid(side->pid, NULL, WNOHANG) == 0) {
			if (fth_now_ns() > deadline)
				kill(side->pid, SIGKILL);
			nap(10);
		}
	}
	side->pid = 0;
	if (side->path[0])
		unlink(side->path);
	side->path[0] = '\0';
}

/* ---- counters ---- */

static int read_file(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, len - 1);
	close(fd);
	if (n < 0)
		return -EIO;
	buf[n] = '\0';
	return 0;
}

static uint64_t number_after(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* utime and stime are the 12th and 13th words behind the name, which ends with the last ')'. */
static double cpu_seconds(const char *stat)
{
	const char *at = strrchr(stat, ')');
	unsigned long long user = 0, system = 0;

	if (!at || sscanf(at + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &user,
			  &system) != 2)
		return 0;
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Requests that the device of the file has read so far. */
static bool count_device(const char *path, uint64_t *reads)
{
	char name[64], text[512];
	struct stat info;

	if (!path[0] || stat(path, &info) < 0)
		return false;
	snprintf(name, sizeof(name), "/sys/dev/block/%u:%u/stat", major(info.st_dev),
		 minor(info.st_dev));
	if (read_file(name, text, sizeof(text)) < 0)
		return false;
	*reads = strtoull(text, NULL, 10);
	return true;
}

int fth_kv_side_counts(const struct fth_kv_side *side, struct fth_kv_usage_counts *out)
{
	char name[64], text[4096];
	int rc;

	memset(out, 0, sizeof(*out));
	snprintf(name, sizeof(name), "/proc/%ld/stat", (long)side->pid);
	rc = read_file(name, text, sizeof(text));
	if (rc < 0)
		return rc;
	out->cpu_s = cpu_seconds(text);
	snprintf(name, sizeof(name), "/proc/%ld/status", (long)side->pid);
	if (read_file(name, text, sizeof(text)) == 0)
		out->rss = number_after(text, "VmRSS:") << 10;
	snprintf(name, sizeof(name), "/proc/%ld/io", (long)side->pid);
	if (read_file(name, text, sizeof(text)) == 0) {
		out->read_bytes = number_after(text, "\nread_bytes:");
		out->write_bytes = number_after(text, "\nwrite_bytes:");
	}
	out->has_device = count_device(side->path, &out->device_reads);
	return 0;
}

void fth_kv_side_settle(const struct fth_kv_side *side, unsigned ms)
{
	struct fth_kv_usage_counts now;
	uint64_t before = UINT64_MAX;

	for (unsigned i = 0; i < 60 && !fth_cli_stopped(); i++) {
		if (fth_kv_side_counts(side, &now) < 0 || now.write_bytes == before)
			return;
		before = now.write_bytes;
		nap(ms);
	}
}
