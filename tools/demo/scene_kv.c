/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scene: a cache server. `fathom kv serve` and, where it is installed, memcached with extstore get the same memory, the same items,
 * more than fit it, and the same load. The load generator of `fathom kv bench` verifies every value. And a part of the last
 * scene: a server that is killed, and has all that it acknowledged when it is started again.
 */
#include "demo.h"

#include "cli.h"
#include "kv_load.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PEER_MEMORY    "64" /* MiB: what memcached needs for slabs of all sizes; it uses less */
#define OUR_MEMORY     "8M" /* for items, which makes both servers equally large */
#define VALUE_BYTES    1024u
#define ITEMS	       196608u
#define KILL_ITEMS     16384u
#define FILL_BATCH     16u
#define PEER_RATE      60000u /* sets per second; with more, extstore loses items */
#define READ_SECONDS   2.0
#define START_NS       UINT64_C(30000000000)
#define SETTLE_NS      1000000000
#define DROP_NS	       50000000
#define SMALLEST_ITEMS 2000u

struct server {
	pid_t pid;
	char address[32];
	char path[DEMO_PATH_MAX + 16];
	double recovered, recovery_s; /* what it said about its start */
	struct fth_kv_data data;
	/* a thread that keeps its file out of the page cache, which is memory as well */
	pthread_t dropper;
	bool has_dropper;
	int stop; /* atomic */
};

static void nap(long ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	nanosleep(&ts, NULL);
}

/* ---- Fathom ---- */

/* The number behind "name": in a line of JSON that the server has printed. */
static double number_in(const char *line, const char *name)
{
	char wanted[64];
	const char *at;

	snprintf(wanted, sizeof(wanted), "\"%s\":", name);
	at = strstr(line, wanted);
	return at ? strtod(at + strlen(wanted), NULL) : 0;
}

/* One line when it serves; none if it could not, and then it has said why. */
static int read_line(struct server *server, int fd)
{
	char line[1024] = "";
	FILE *in = fdopen(fd, "r");
	bool good;

	if (!in) {
		close(fd);
		return -ENOMEM;
	}
	good = fgets(line, sizeof(line), in) && number_in(line, "port") > 0;
	fclose(in);
	if (!good)
		return fth_cli_stopped() ? -EINTR : fth_fail(EIO, "the server did not start");
	snprintf(server->address, sizeof(server->address), "127.0.0.1:%.0f",
		 number_in(line, "port"));
	server->recovered = number_in(line, "items");
	server->recovery_s = number_in(line, "recovery_seconds");
	return 0;
}

static int start_fathom(struct server *server, const char *memory, const char *size,
			const char *persist)
{
	char uri[3 * DEMO_PATH_MAX], flash[sizeof(uri) + 32];
	char *argv[] = {"/proc/self/exe", "--json",	 "kv",	      "serve",	   "--memory",
			(char *)memory,	  "--flash",	 flash,	      "--persist", (char *)persist,
			"--listen",	  "127.0.0.1:0", "--workers", "1",	   NULL};
	int pipes[2], rc = demo_uri(server->path, uri, sizeof(uri));

	if (rc < 0)
		return rc;
	snprintf(flash, sizeof(flash), "%s?create=on&size=%s", uri, size);
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return fth_fail(errno, "pipe: %s", strerror(errno));
	server->pid = demo_start(argv, pipes[1]);
	close(pipes[1]);
	if (server->pid < 0) {
		close(pipes[0]);
		return (int)server->pid;
	}
	return read_line(server, pipes[0]);
}

/* ---- memcached ---- */

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

static void *drop_pages(void *context)
{
	struct server *server = context;
	int fd = open(server->path, O_RDONLY | O_CLOEXEC);

	/* relaxed: it only has to be seen some time */
	while (fd >= 0 && !__atomic_load_n(&server->stop, __ATOMIC_RELAXED)) {
		(void)fdatasync(fd); /* pages that are not written yet stay */
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		nap(DROP_NS);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

static int wait_for_memcached(struct server *server)
{
	uint64_t deadline = fth_deadline_ns(START_NS), value;

	while (fth_kv_load_stat(server->address, "", "pid", &value) < 0) {
		if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
			server->pid = 0;
			return fth_fail(ENOTSUP, "memcached did not start");
		}
		if (fth_cli_stopped())
			return -EINTR;
		if (fth_now_ns() > deadline)
			return fth_fail(ENOTSUP, "memcached did not start");
		nap(20000000);
	}
	return 0;
}

static int start_memcached(struct server *server)
{
	char port[16], options[DEMO_PATH_MAX + 128];
	char *argv[] = {"memcached", "-l", "127.0.0.1", "-U", "0",     "-p", port, "-m",
			PEER_MEMORY, "-t", "1",		"-o", options, NULL, NULL, NULL};
	int rc;

	if (geteuid() == 0) {
		argv[13] = "-u";
		argv[14] = "root";
	}
	snprintf(port, sizeof(port), "%u", free_port());
	snprintf(options, sizeof(options),
		 "hashpower=18,ext_path=%s:512M,ext_threads=8,ext_item_age=0", server->path);
	snprintf(server->address, sizeof(server->address), "127.0.0.1:%s", port);
	server->pid = demo_start(argv, -1);
	if (server->pid < 0)
		return (int)server->pid;
	rc = wait_for_memcached(server);
	/* It has created its file by now. */
	if (rc == 0)
		server->has_dropper =
			pthread_create(&server->dropper, NULL, drop_pages, server) == 0;
	return rc;
}

static void stop_server(struct server *server)
{
	__atomic_store_n(&server->stop, 1, __ATOMIC_RELAXED);
	if (server->has_dropper)
		pthread_join(server->dropper, NULL);
	demo_kill(&server->pid);
	fth_kv_data_release(&server->data);
	unlink(server->path);
}

/* Resident memory of a process, in MiB. */
static double resident(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kib = strtod(line + 6, NULL);
	if (file)
		fclose(file);
	return kib / 1024;
}

/* Processor time of a process since it began, in seconds. */
static double processor_time(pid_t pid)
{
	char path[64], line[1024] = "";
	unsigned long user = 0, system = 0;
	const char *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (file) {
		if (!fgets(line, sizeof(line), file))
			line[0] = '\0';
		fclose(file);
	}
	at = strrchr(line, ')'); /* its name may have spaces */
	if (at)
		(void)sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			     &system);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* ---- load ---- */

static int run_load(struct server *server, struct fth_kv_load *load,
		    struct fth_kv_load_result *result)
{
	int rc;

	load->server = server->address;
	load->data = &server->data;
	rc = fth_kv_load_run(load, result);
	return rc == 0 && fth_cli_stopped() ? -EINTR : rc;
}

static int fill(struct server *server, uint64_t items, uint64_t rate)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;
	struct fth_kv_load_result result;
	int rc = fth_kv_data_init(&server->data, items, VALUE_BYTES);

	load.mode = FTH_KV_LOAD_FILL;
	load.batch = FILL_BATCH;
	load.rate = rate;
	load.label = "storing items";
	if (rc == 0)
		rc = run_load(server, &load, &result);
	if (rc == 0 && result.stored != items)
		rc = fth_fail(EIO, "%llu of %llu items were not stored: %s",
			      (unsigned long long)(items - result.stored),
			      (unsigned long long)items, result.answer);
	return rc;
}

/* What one side reached. */
struct reads {
	double rate, cpu_us, rss; /* processor time per get; MiB */
	uint64_t gets, wrong, missing;
};

static int measure(struct demo *demo, struct server *server, struct reads *out)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;
	struct fth_kv_load_result result;
	double begin;
	int rc;

	if (!demo->smallest)
		nap(SETTLE_NS); /* what it still has to write */
	load.seconds = demo->smallest ? 0.2 : READ_SECONDS;
	load.label = "reading items";
	load.seed = demo->seed;
	begin = processor_time(server->pid);
	rc = run_load(server, &load, &result);
	if (rc < 0)
		return rc;
	out->rate = (double)result.gets * 1e9 / (double)result.ns;
	out->rss = resident(server->pid);
	out->gets = result.gets;
	out->wrong = result.wrong;
	if (result.gets > 0)
		out->cpu_us = (processor_time(server->pid) - begin) * 1e6 / (double)result.gets;
	out->missing = result.gets - result.hits;
	return 0;
}

static int run_side(struct demo *demo, const char *folder, bool peer, struct reads *out)
{
	uint64_t items = demo->smallest ? SMALLEST_ITEMS : ITEMS;
	struct server server = {0};
	int rc;

	snprintf(server.path, sizeof(server.path), "%s/%s", folder, peer ? "extstore" : "flash");
	rc = peer ? start_memcached(&server) : start_fathom(&server, OUR_MEMORY, "512M", "off");
	if (rc == 0)
		rc = fill(&server, items, peer && !demo->smallest ? PEER_RATE : 0);
	if (rc == 0)
		rc = measure(demo, &server, out);
	stop_server(&server);
	return rc;
}

/* `missing`: why memcached has no figures; NULL if it has. */
static void show_sides(struct demo *demo, const struct reads *ours, const struct reads *peer,
		       const char *missing)
{
	char our_name[64], peer_name[64];
	struct demo_row rows[] = {
		{.name = our_name, .value = ours->rate, .ours = true},
		{.name = peer_name, .value = peer->rate, .note = missing},
	};

	snprintf(our_name, sizeof(our_name), "fathom kv serve, %.0f MiB resident", ours->rss);
	snprintf(peer_name, sizeof(peer_name), "memcached with extstore");
	if (!missing)
		snprintf(peer_name, sizeof(peer_name), "memcached, extstore, %.0f MiB", peer->rss);
	demo_bars(demo, "gets", DEMO_PER_SECOND, rows, 2);
	if (missing)
		return;
	rows[0].value = ours->cpu_us;
	rows[1].value = peer->cpu_us;
	demo_bars(demo, "processor time per get", DEMO_MICROSECONDS, rows, 2);
}

static int run_sides(struct demo *demo, const char *folder)
{
	struct reads ours = {0}, peer = {0};
	const char *missing = NULL;
	int rc;

	demo_begin(demo, "kv", "A cache server on flash, for any memcached client",
		   "   %u items of 1 KiB, most of them in a file. One server thread,\n"
		   "   32 connections, random keys.",
		   ITEMS);
	rc = run_side(demo, folder, false, &ours);
	if (!demo_has_program("memcached")) {
		missing = "missing: apt install memcached";
	} else if (rc == 0) {
		rc = run_side(demo, folder, true, &peer);
		missing = rc == -ENOTSUP ? "did not start" : NULL;
		rc = rc == -ENOTSUP ? 0 : rc;
	}
	if (rc == 0)
		show_sides(demo, &ours, &peer, missing);
	if (rc == 0 && ours.missing + peer.missing > 0)
		demo_say(demo, "\n   Gets of items that were gone: %llu, memcached %llu.",
			 (unsigned long long)ours.missing, (unsigned long long)peer.missing);
	demo_end(demo, ours.gets + peer.gets, "values", ours.wrong + peer.wrong);
	return rc < 0 ? rc : ours.wrong > 0;
}

int demo_scene_kv(struct demo *demo)
{
	char folder[DEMO_PATH_MAX];
	int rc = demo_make_folder(folder);

	if (rc < 0)
		return rc;
	rc = run_sides(demo, folder);
	demo_remove_folder(folder);
	return rc;
}

/* ---- a server that is killed ---- */

static int read_back(struct server *server, struct demo_restart *out)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;
	struct fth_kv_load_result result;
	int rc;

	load.mode = FTH_KV_LOAD_SWEEP;
	rc = run_load(server, &load, &result);
	out->found = result.hits;
	out->wrong = result.wrong + result.stale;
	return rc;
}

int demo_kill_server(struct demo *demo, struct demo_restart *out)
{
	char folder[DEMO_PATH_MAX];
	struct server server = {0};
	int rc = demo_make_folder(folder);

	if (rc < 0)
		return rc;
	out->items = demo->smallest ? SMALLEST_ITEMS : KILL_ITEMS;
	snprintf(server.path, sizeof(server.path), "%s/flash", folder);
	rc = start_fathom(&server, "8M", "64M", "write-through");
	if (rc == 0)
		rc = fill(&server, out->items, 0);
	demo_kill(&server.pid);
	if (rc == 0)
		rc = start_fathom(&server, "8M", "64M", "write-through");
	out->seconds = server.recovery_s;
	if (rc == 0)
		rc = read_back(&server, out);
	stop_server(&server);
	demo_remove_folder(folder);
	return rc;
}
