/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_child.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/kv/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_NS UINT64_C(10000000000)

/* ---- ours ---- */

/* In the child: serve until the parent closes its end of the pipe. Never returns. */
static void serve(int out, int in, uint64_t memory, unsigned workers)
{
	struct fth_kv_server_options options = FTH_KV_SERVER_OPTIONS_INIT;
	struct fth_kv_options kv_options = FTH_KV_OPTIONS_INIT;
	const char *where = "127.0.0.1:0";
	struct fth_kv_server *server;
	struct fth_kv *kv;
	unsigned port = 0;
	char byte;

	kv_options.memory = memory;
	options.listen = &where;
	options.listen_count = 1;
	options.workers = workers;
	if (fth_kv_open(&kv_options, &kv) == 0 && fth_kv_server_start(kv, &options, &server) == 0)
		port = fth_kv_server_port(server);
	if (write(out, &port, sizeof(port)) != sizeof(port) || port == 0)
		_exit(1);
	while (read(in, &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

int kv_child_fathom(struct kv_child *child, uint64_t memory, unsigned workers)
{
	int up[2], down[2];
	ssize_t n;

	*child = (struct kv_child){.pipe = -1};
	if (pipe2(up, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(down, O_CLOEXEC) < 0) {
		close(up[0]);
		close(up[1]);
		return -EMFILE;
	}
	fflush(NULL);
	child->pid = fork();
	if (child->pid == 0) {
		close(up[0]);
		close(down[1]);
		serve(up[1], down[0], memory, workers);
	}
	close(up[1]);
	close(down[0]);
	child->pipe = down[1];
	n = child->pid > 0 ? read(up[0], &child->port, sizeof(child->port)) : -1;
	close(up[0]);
	if (n == sizeof(child->port) && child->port)
		return 0;
	kv_child_stop(child);
	return fth_fail(EIO, "the server did not start");
}

/* ---- memcached ---- */

static int dial(unsigned port)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	rc = connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

static unsigned free_port(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &length) < 0)
		at.sin_port = 0;
	close(fd);
	return ntohs(at.sin_port);
}

/* In the child. */
static void become_memcached(unsigned port, uint64_t memory, unsigned workers)
{
	char port_text[16], memory_text[24], threads[16];
	char *argv[] = {"memcached", "-l", "127.0.0.1", "-U", "0",    "-p", port_text, "-m",
			memory_text, "-t", threads,	"-c", "4096", NULL, NULL,      NULL};

	if (geteuid() == 0) {
		argv[13] = "-u";
		argv[14] = "root";
	}
	snprintf(port_text, sizeof(port_text), "%u", port);
	snprintf(memory_text, sizeof(memory_text), "%llu", (unsigned long long)(memory >> 20));
	snprintf(threads, sizeof(threads), "%u", workers);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	execvp(argv[0], argv);
	_exit(127);
}

int kv_child_memcached(struct kv_child *child, uint64_t memory, unsigned workers)
{
	uint64_t deadline = fth_deadline_ns(READY_NS);
	struct timespec pause = {.tv_nsec = 10000000};
	int status;

	*child = (struct kv_child){.pipe = -1, .port = free_port()};
	child->pid = fork();
	if (child->pid == 0)
		become_memcached(child->port, memory, workers);
	while (child->pid > 0 && fth_now_ns() < deadline) {
		if (dial(child->port) == 0)
			return 0;
		if (waitpid(child->pid, &status, WNOHANG) == child->pid) {
			child->pid = 0;
			return WIFEXITED(status) && WEXITSTATUS(status) == 127
				       ? fth_fail(ENOENT, "memcached is not installed")
				       : fth_fail(EIO, "memcached exited at once");
		}
		nanosleep(&pause, NULL);
	}
	kv_child_stop(child);
	return fth_fail(ETIMEDOUT, "memcached did not start");
}

void kv_child_stop(struct kv_child *child)
{
	if (child->pid <= 0)
		return;
	if (child->pipe >= 0)
		close(child->pipe);
	kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		;
	*child = (struct kv_child){0};
}
