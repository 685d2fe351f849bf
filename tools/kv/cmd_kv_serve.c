/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom kv serve: a key-value cache on flash for clients of memcached. */
#include "cmd_kv.h"
#include "daemon.h"
#include "json.h"
#include "kv_flash.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"
#include "fathom/kv/server.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SCRATCH_BYTES ((uint64_t)1 << 30)
#define STOP_NS	      5000000000u
#define OTHER_FILES   256u /* descriptors that are no connections: of threads, devices, the log */

#define ERROR_NS 1000000000u /* at most one line about the flash in this time */

struct serve {
	struct fth_kv_options kv;
	struct fth_kv_server_options server;
	const char *listen, *persist, *log, *on_failure;
	bool exits; /* when the log fails */
	struct fth_daemon_sockets sockets;
	enum fth_log_format log_format;
	uint64_t value_max, chunk, buffers, window_ms, readmit, admit, workers, connections, idle;
	uint64_t checkpoint_s;
	uint64_t wait, wait_by; /* seconds; ns */
	bool waits;		/* said so */
	struct fth_cli_list flash;
	char *volume;	    /* URI of the object that several devices hold */
	char scratch[4096]; /* path of the file that was made because none was named */
	char scratch_uri[8192];
};

/* ---- the log ---- */

static void log_event(const struct serve *s, const char *event, const char *text)
{
	fth_daemon_log(s->log_format, event, text);
}

/* What the user must know even without a log. */
static void tell(const struct serve *s, const char *event, const char *text)
{
	if (s->log_format == FTH_LOG_OFF)
		fth_cli_error("%s", text);
	else
		log_event(s, event, text);
}

static const char *stopped_by(const struct fth_kv_recovery *r)
{
	if (r->index_damaged)
		return "damage to the index";
	return r->clean ? "a clean stop" : "a crash";
}

static void log_recovery(const struct serve *s, const struct fth_kv *kv)
{
	struct fth_kv_recovery r;
	char text[256];

	fth_kv_recovery(kv, &r);
	if (!r.found)
		return;
	snprintf(text, sizeof(text),
		 "found %llu items after %s in %.3f s; %llu chunks read, %llu bad items, %llu "
		 "damaged chunks, %llu failed reads%s%s",
		 (unsigned long long)r.items, stopped_by(&r), (double)r.elapsed_ns / 1e9,
		 (unsigned long long)r.chunks_read, (unsigned long long)r.bad_items,
		 (unsigned long long)r.damaged_chunks, (unsigned long long)r.unreadable,
		 r.index_damaged ? "; the index was damaged and is rebuilt from the log" : "",
		 r.went_round ? "; the log went round since the last checkpoint" : "");
	log_event(s, "recovery", text);
}

/* What went wrong on the flash since the last look, at most once per second. */
static void log_flash_errors(const struct serve *s, const struct fth_kv *kv)
{
	static const enum fth_kv_stat which[] = {FTH_KV_STAT_READ_ERRORS, FTH_KV_STAT_WRITE_ERRORS,
						 FTH_KV_STAT_BAD_ITEMS,
						 FTH_KV_STAT_CHECKPOINT_ERRORS};
	static uint64_t seen[4], last;
	uint64_t now = fth_now_ns(), more[4], sum = 0;
	char text[160];

	if (now - last < ERROR_NS)
		return;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t n = fth_kv_stat(kv, which[i]);

		more[i] = n - seen[i];
		seen[i] = n;
		sum += more[i];
	}
	if (!sum)
		return;
	last = now;
	snprintf(text, sizeof(text),
		 "%llu reads failed, %llu writes failed, %llu items were bad, %llu checkpoints "
		 "failed",
		 (unsigned long long)more[0], (unsigned long long)more[1],
		 (unsigned long long)more[2], (unsigned long long)more[3]);
	log_event(s, "flash-error", text);
}

/* One line when the log fails, one when it works again. True: the server is to end. */
static bool watch_log(const struct serve *s, const struct fth_kv *kv)
{
	static uint64_t failures, restarts;
	uint64_t failed = fth_kv_stat(kv, FTH_KV_STAT_LOG_FAILURES);
	uint64_t works = fth_kv_stat(kv, FTH_KV_STAT_LOG_RESTARTS);

	if (failed != failures)
		tell(s, "log-failed",
		     s->exits ? "the log cannot be written: the server ends"
			      : "the log cannot be written: changes are refused until the device "
				"works again");
	if (works != restarts)
		tell(s, "log-works", "the log can be written again: changes are accepted");
	failures = failed;
	restarts = works;
	return s->exits && failed;
}

/* ---- options ---- */

static bool find_persistence(const char *name, enum fth_kv_persistence *out)
{
	static const char *const names[] = {"off", "write-back", "write-through"};

	for (unsigned i = 0; i < 3; i++)
		if (strcmp(name, names[i]) == 0) {
			*out = (enum fth_kv_persistence)i;
			return true;
		}
	fth_cli_error("--persist %s: expected off, write-back or write-through", name);
	return false;
}

static bool find_on_failure(struct serve *s)
{
	s->exits = strcmp(s->on_failure, "exit") == 0;
	if (s->exits || strcmp(s->on_failure, "wait") == 0)
		return true;
	fth_cli_error("--on-failure %s: expected wait or exit", s->on_failure);
	return false;
}

static bool fits_together(const struct serve *s)
{
	/* The next server has another scratch file. */
	if (s->kv.persistence != FTH_KV_VOLATILE && s->flash.count == 0)
		fth_cli_error(
			"--persist %s requires --flash: items are kept on a device with a name",
			s->persist);
	else if (!s->server.tls_certificate != !s->server.tls_key)
		fth_cli_error("--tls-cert and --tls-key must be given together");
	else
		return true;
	return false;
}

static bool find_sockets(struct serve *s)
{
	if (!fth_daemon_sockets(s->listen, &s->sockets))
		return false;
	s->server.listen_count = s->sockets.count;
	s->server.listen = s->sockets.count ? s->sockets.where : NULL;
	return true;
}

static int make_scratch(struct serve *s)
{
	const char *folder = getenv("TMPDIR");
	int fd;

	snprintf(s->scratch, sizeof(s->scratch), "%s/fathom-kv-XXXXXX", folder ? folder : "/tmp");
	fd = mkstemp(s->scratch);
	if (fd < 0)
		return fth_fail(errno, "%s: %s", s->scratch, strerror(errno));
	if (ftruncate(fd, (off_t)SCRATCH_BYTES) < 0) {
		int err = errno;

		close(fd);
		unlink(s->scratch);
		return fth_fail(err, "%s: %s", s->scratch, strerror(err));
	}
	close(fd);
	snprintf(s->scratch_uri, sizeof(s->scratch_uri), "file:%s", s->scratch);
	s->kv.flash = s->scratch_uri;
	return 0;
}

/* The device of the cache: none, the one that was named, several as a volume, or a scratch file. */
static int find_flash(struct serve *s)
{
	int rc = 0;

	for (unsigned i = 0; s->flash.count > 1 && i < s->flash.count; i++)
		if (strcmp(s->flash.items[i], "none") == 0)
			return fth_fail(EINVAL,
					"--flash none cannot be combined with other devices");
	if (s->flash.count == 0)
		return make_scratch(s);
	free(s->volume); /* of a try before */
	s->volume = NULL;
	if (s->flash.count > 1)
		rc = kv_flash_join(&s->flash, s->kv.format, &s->volume);
	s->kv.flash = s->volume ? s->volume : s->flash.items[0];
	if (strcmp(s->kv.flash, "none") == 0)
		s->kv.flash = NULL;
	return rc;
}

static const char *flash_name(const struct serve *s)
{
	return *s->scratch ? "scratch file" : s->kv.flash;
}

static const char *first_address(const struct serve *s)
{
	return s->server.listen_count ? s->server.listen[0] : "127.0.0.1:11211";
}

/* HOST:0, or a socket that was handed over. */
static bool port_is_chosen(const struct serve *s)
{
	const char *address = first_address(s), *colon = strrchr(address, ':');

	return (colon && strcmp(colon, ":0") == 0) || strncmp(address, "fd:", 3) == 0;
}

static void report(const struct serve *s, const struct fth_kv *kv,
		   const struct fth_kv_server *server)
{
	unsigned port = fth_kv_server_port(server);
	struct fth_kv_recovery recovery;
	char memory[FTH_CLI_BYTES_MAX];

	fth_kv_recovery(kv, &recovery);
	if (fth_cli_json()) {
		struct fth_json j;

		fth_json_begin(&j, stdout);
		fth_json_u64(&j, "port", port);
		fth_json_u64(&j, "metrics_port", fth_kv_server_metrics_port(server));
		fth_json_u64(&j, "pid", (uint64_t)getpid());
		fth_json_string(&j, "flash", flash_name(s));
		fth_json_bool(&j, "recovered", recovery.found);
		fth_json_bool(&j, "clean", recovery.clean);
		fth_json_u64(&j, "items", recovery.items);
		fth_json_bool(&j, "index_damaged", recovery.index_damaged);
		fth_json_double(&j, "recovery_seconds", (double)recovery.elapsed_ns / 1e9);
		fth_json_finish(&j);
	} else {
		printf("listening on %s", first_address(s));
		if (port_is_chosen(s))
			printf(", port %u", port);
		printf("; %s of memory, flash %s\n",
		       fth_cli_bytes(memory, s->kv.memory ? s->kv.memory : 64u << 20),
		       s->kv.flash ? flash_name(s) : "none");
		if (recovery.found)
			printf("found %llu items after %s, in %.2f s (%llu chunks of the log "
			       "read)\n",
			       (unsigned long long)recovery.items, stopped_by(&recovery),
			       (double)recovery.elapsed_ns / 1e9,
			       (unsigned long long)recovery.chunks_read);
		if (s->kv.flash && !*s->scratch && s->kv.persistence == FTH_KV_VOLATILE)
			printf("--persist is off: the next start discards all items, also those on "
			       "flash\n");
	}
	fflush(stdout);
}

/* ---- reading files again ---- */

static volatile sig_atomic_t reload_wanted;

static void on_reload(int signal)
{
	(void)signal;
	reload_wanted = 1;
}

/* As daemons have it: SIGHUP does not end the server. */
static void catch_reload(void)
{
	struct sigaction action = {.sa_handler = on_reload};

	sigaction(SIGHUP, &action, NULL);
}

static void reload(const struct serve *s, struct fth_kv_server *server)
{
	char text[FTH_ERROR_TEXT_MAX + 64];
	int rc;

	reload_wanted = 0;
	rc = fth_kv_server_reload(server);
	if (rc == 0) {
		log_event(s, "reload", "certificate and passwords were read again");
		return;
	}
	snprintf(text, sizeof(text), "%s; certificate and passwords stay as they were",
		 fth_error_text(rc));
	tell(s, "reload-failed", text);
}

static void run_until_stopped(const struct serve *s, const struct fth_kv *kv,
			      struct fth_kv_server *server)
{
	struct timespec nap = {.tv_nsec = 50000000};

	while (!fth_cli_stopped() && !watch_log(s, kv)) {
		nanosleep(&nap, NULL);
		log_flash_errors(s, kv);
		if (reload_wanted)
			reload(s, server);
	}
}

/* Each connection is a descriptor; the usual limit of 1024 is a soft one. */
static void raise_limit(const struct serve *s)
{
	uint64_t connections = s->connections ? s->connections : 1024;
	rlim_t want = (rlim_t)connections + OTHER_FILES;
	struct rlimit limit;
	char text[256];

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
		return;
	limit.rlim_cur = want < limit.rlim_max ? want : limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max >= want)
		return;
	snprintf(
		text, sizeof(text),
		"RLIMIT_NOFILE is %llu, too low for --connections %llu and %u other files: further "
		"clients will wait",
		(unsigned long long)limit.rlim_max, (unsigned long long)connections, OTHER_FILES);
	tell(s, "limit", text);
}

/* ---- starting ---- */

/*
 * The device or the port is in use, maybe by a server that was killed and whose memory the system
 * is still freeing, while a supervisor starts the next one: is it to be tried again?
 */
static bool wait_for_other(struct serve *s, int rc)
{
	const struct timespec nap = {.tv_nsec = 50000000};
	char text[FTH_ERROR_TEXT_MAX + 64];

	if ((rc != -EBUSY && rc != -EADDRINUSE) || fth_cli_stopped() || fth_now_ns() >= s->wait_by)
		return false;
	if (!s->waits) {
		snprintf(text, sizeof(text), "%s; waiting for up to %llu s", fth_error_text(rc),
			 (unsigned long long)s->wait);
		tell(s, "wait", text);
	}
	s->waits = true;
	nanosleep(&nap, NULL);
	return true;
}

static int open_cache(struct serve *s, struct fth_kv **kv)
{
	int rc = find_flash(s);

	if (rc == 0)
		rc = fth_kv_open(&s->kv, kv);
	/* The cache has it open: now nothing is left of it even after a kill. */
	if (*s->scratch)
		unlink(s->scratch);
	return rc;
}

static int serve(struct serve *s)
{
	struct fth_kv_server *server;
	struct fth_kv *kv;
	bool failed = false;
	int rc;

	s->wait_by = fth_deadline_ns(s->wait * 1000000000u);
	do
		rc = open_cache(s, &kv);
	while (wait_for_other(s, rc));
	if (rc < 0)
		return rc;
	do
		rc = fth_kv_server_start(kv, &s->server, &server);
	while (wait_for_other(s, rc));
	if (rc == 0) {
		log_recovery(s, kv);
		log_event(s, "start", first_address(s));
		report(s, kv, server);
		run_until_stopped(s, kv, server);
		failed = watch_log(s, kv);
		log_event(s, "stop", "connections are closed, then the index is written");
		fth_kv_server_stop(server, fth_deadline_ns(STOP_NS));
	}
	if (rc < 0)
		(void)fth_kv_close(kv);
	else
		rc = fth_kv_close(kv);
	if (failed)
		rc = fth_fail(EIO, "the log on %s could not be written", flash_name(s));
	log_event(s, rc < 0 ? "failed" : "stopped", rc < 0 ? fth_error_text(rc) : "");
	return rc;
}

/* FTH_CLI_GO_ON, or how to exit. */
static int parse_options(struct serve *s, int argc, char **argv)
{
	const struct fth_cli_option options[] = {
		{"memory", FTH_CLI_SIZE, &s->kv.memory, 0, 0, "bytes for items in memory; 0: 64M"},
		{"flash", FTH_CLI_LIST, &s->flash, 0, 0,
		 "URI of the device; repeat it to stripe over several devices; none: memory only;"
		 " default a scratch file of 1G"},
		{"listen", FTH_CLI_STRING, &s->listen, 0, 0,
		 "HOST:PORT, unix:PATH or fd:N, separated by commas; default"
		 " the sockets of systemd, or 127.0.0.1:11211"},
		{"metrics", FTH_CLI_STRING, &s->server.metrics, 0, 0,
		 "HOST:PORT for GET /metrics (Prometheus)"},
		{"log", FTH_CLI_STRING, &s->log, 0, 0,
		 "events on standard error: off, text or json"},
		{"auth", FTH_CLI_STRING, &s->server.auth_file, 0, 0,
		 "file of user:password lines; clients have to give one"},
		{"tls-cert", FTH_CLI_STRING, &s->server.tls_certificate, 0, 0,
		 "PEM file: speak TLS, with this certificate"},
		{"tls-key", FTH_CLI_STRING, &s->server.tls_key, 0, 0, "PEM file: its key"},
		{"workers", FTH_CLI_U64, &s->workers, 0, 256, "threads; 0: half of the CPUs"},
		{"connections", FTH_CLI_U64, &s->connections, 0, 1000000, "at most; 0: 1024"},
		{"idle", FTH_CLI_U64, &s->idle, 0, UINT32_MAX,
		 "close a connection after so many seconds without traffic; 0: never"},
		{"items", FTH_CLI_SIZE, &s->kv.items, 0, 0,
		 "limit of the index, which grows; 0: as flash and memory need, half of RAM at "
		 "most"},
		{"value-max", FTH_CLI_SIZE, &s->value_max, 0, FTH_KV_VALUE_MAX,
		 "largest value in bytes; 0: 1M"},
		{"chunk", FTH_CLI_SIZE, &s->chunk, 0, 1 << 30,
		 "bytes of the log written at once; 0: by value-max"},
		{"buffers", FTH_CLI_U64, &s->buffers, 0, 1024, "chunks in memory; 0: 8"},
		{"persist", FTH_CLI_STRING, &s->persist, 0, 0,
		 "off: a restart discards all items; write-back or write-through keep them"},
		{"window-ms", FTH_CLI_U64, &s->window_ms, 0, 3600000,
		 "milliseconds of changes that write-back may lose in a crash; 0: 100"},
		{"on-failure", FTH_CLI_STRING, &s->on_failure, 0, 0,
		 "when the log cannot be written: wait for the device, refusing changes, or exit"},
		{"checkpoint", FTH_CLI_U64, &s->checkpoint_s, 0, UINT32_MAX / 1000,
		 "seconds between checkpoints of the index; 0: only at shutdown"},
		{"readmit", FTH_CLI_U64, &s->readmit, 0, 90,
		 "percent of a reclaimed chunk that may be rewritten to keep its hot items"},
		{"admit", FTH_CLI_U64, &s->admit, 0, 100,
		 "percent of evicted items, never read in memory, that go to flash; 0: all"},
		{"daily", FTH_CLI_SIZE, &s->kv.daily_bytes, 0, 0,
		 "write budget: bytes of items written to flash per day; 0: no limit"},
		{"wait", FTH_CLI_U64, &s->wait, 0, 3600,
		 "seconds to wait for a device or port that another process still uses"},
		FTH_CLI_FORCE(&s->kv.format, "create a new cache; discards what the device holds"),
		FTH_CLI_WAS("format", "force"),
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv serve [options]",
		.text = "Serve a key-value cache to clients of memcached (text protocol) until a\n"
			"signal comes. New and hot items are in memory, the rest is on flash.",
		.options = options,
	};
	char **args;

	return fth_cli_parse(&usage, argc, argv, &args);
}

/*
 * The options as the cache and the server want them. False: they do not fit together, and the user
 * knows.
 */
static bool take_options(struct serve *s)
{
	if (!find_persistence(s->persist, &s->kv.persistence) || !find_on_failure(s) ||
	    !fth_daemon_log_format(s->log, &s->log_format) || !fits_together(s) || !find_sockets(s))
		return false;
	s->kv.value_max = (uint32_t)s->value_max;
	s->kv.chunk = (uint32_t)s->chunk;
	s->kv.buffers = (uint32_t)s->buffers;
	s->kv.window_ms = (uint32_t)s->window_ms;
	if (s->kv.persistence != FTH_KV_VOLATILE)
		s->kv.checkpoint_ms = (uint32_t)s->checkpoint_s * 1000;
	s->kv.readmit = (uint32_t)s->readmit;
	s->kv.admit = (uint32_t)s->admit;
	s->server.workers = (unsigned)s->workers;
	s->server.connections = (unsigned)s->connections;
	s->server.idle_s = (uint32_t)s->idle;
	return true;
}

static void prepare_process(const struct serve *s)
{
	catch_reload();
	raise_limit(s);
	/*
	 * Long values go back to the system when they are freed, so that memory is what is in use.
	 */
	(void)mallopt(M_MMAP_THRESHOLD, 256 << 10);
	signal(SIGXFSZ, SIG_IGN); /* a file that cannot grow is an error, and is reported */
}

static int run_serve(int argc, char **argv)
{
	struct serve s = {.kv = FTH_KV_OPTIONS_INIT,
			  .server = FTH_KV_SERVER_OPTIONS_INIT,
			  .persist = "off",
			  .log = "off",
			  .on_failure = "wait",
			  .checkpoint_s = 60,
			  .wait = 10};
	int status = parse_options(&s, argc, argv), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!take_options(&s))
		return FTH_EXIT_USAGE;
	prepare_process(&s);
	rc = serve(&s);
	fth_daemon_sockets_free(&s.sockets);
	free(s.volume);
	if (rc < 0 && s.waits && fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	if (rc < 0)
		fth_cli_error("%s", fth_error_text(rc));
	return rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_kv_serve = {
	.name = "serve",
	.summary = "serve a cache to clients of memcached",
	.run = run_serve,
};
