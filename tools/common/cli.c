/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Talking and stopping. Siblings: options.c reads options, dispatch.c finds commands, json.c
 * writes JSON, cmd_*.c are the commands.
 */
#include "complete.h"

#include "dev/lock.h"

#include "fathom/base/error.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS	  UINT64_C(1000000000)
#define PROGRESS_AFTER_NS SECOND_NS
#define PROGRESS_EVERY_NS (SECOND_NS / 5)

static bool json;
static uint32_t stopped; /* written by the signal handler, read by any thread */

#define STOP_SIGNALS 3u
#define ALL_SIGNALS  (STOP_SIGNALS + 2)
static const int caught[ALL_SIGNALS] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
static struct sigaction originals[ALL_SIGNALS];

static struct {
	bool running, shown;
	uint64_t started, drawn;
} progress;

bool fth_cli_json(void)
{
	return json;
}

bool fth_cli_stopped(void)
{
	/* relaxed: the flag orders nothing, it only has to be seen some time */
	return fth_load_relaxed_dev32(&stopped) != 0;
}

/*
 * Commands put the name of what they work on before the text of an error, and the library often has
 * it there already: "a: a: No such file". Returns the message from its second name on, or all of
 * it.
 */
static const char *without_repetition(const char *message)
{
	const char *name = strncmp(message, "file:", 5) == 0 ? message + 5 : message;
	const char *end = strstr(name, ": ");
	size_t length;

	if (!end || end == name)
		return message;
	length = (size_t)(end - name);
	if (strncmp(end + 2, "file:", 5) == 0 && strncmp(end + 7, name, length) == 0 &&
	    end[7 + length] == ':')
		return end + 2;
	return strncmp(end + 2, name, length) == 0 && end[2 + length] == ':' ? end + 2 : message;
}

void fth_cli_error(const char *format, ...)
{
	char *message = NULL;
	va_list args;

	fth_cli_progress_end();
	va_start(args, format);
	if (vasprintf(&message, format, args) < 0)
		message = NULL;
	va_end(args);
	fprintf(stderr, "%sfathom:%s %s\n", fth_cli_style(stderr, FTH_CLI_RED),
		fth_cli_style(stderr, FTH_CLI_PLAIN),
		message ? without_repetition(message) : "out of memory");
	free(message);
}

const char *fth_cli_bytes(char buf[FTH_CLI_BYTES_MAX], uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	unsigned unit = 0;

	while (value >= 1024 && unit < 6) {
		value /= 1024;
		unit++;
	}
	snprintf(buf, FTH_CLI_BYTES_MAX, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
	return buf;
}

const char *fth_cli_size(char buf[FTH_CLI_BYTES_MAX], uint64_t bytes)
{
	static const char units[] = "KMGTP";
	char unit[2] = "";

	for (unsigned i = 0; units[i] && bytes && bytes % 1024 == 0; i++) {
		bytes /= 1024;
		unit[0] = units[i];
	}
	snprintf(buf, FTH_CLI_BYTES_MAX, "%llu%s", (unsigned long long)bytes, unit);
	return buf;
}

int fth_cli_take_over(const char *uri, bool force)
{
	int lock, rc;

	if (!force) {
		fth_cli_error("%s would be overwritten; use --force to allow it", uri);
		return FTH_EXIT_USAGE;
	}
	rc = fth_dev_lock_uri(uri, true, &lock);
	if (rc == 0 || rc == -ENOENT) /* it may be created */
		return FTH_CLI_GO_ON;
	fth_cli_error("%s", fth_error_text(rc));
	return FTH_EXIT_FAILED;
}

/* ---- colours ---- */

static bool wants_styles(FILE *stream)
{
	const char *refusal = getenv("NO_COLOR"), *terminal = getenv("TERM");

	if (refusal && *refusal)
		return false;
	return terminal && *terminal && strcmp(terminal, "dumb") != 0 && isatty(fileno(stream));
}

const char *fth_cli_style(FILE *stream, enum fth_cli_style style)
{
	static const char *const codes[] = {"\033[0m", "\033[1m", "\033[1;31m"};

	return wants_styles(stream) ? codes[style] : "";
}

/* ---- progress ---- */

static void draw(const char *what, uint64_t done, uint64_t total, uint64_t elapsed)
{
	fprintf(stderr, "\r\033[K%s: ", what);
	if (total > 0 && done > 0 && done <= total) {
		double share = (double)done / (double)total;

		fprintf(stderr, "%3.0f %%, %.0f s left", 100 * share,
			(double)elapsed / SECOND_NS * (1 - share) / share);
	} else {
		fprintf(stderr, "%llu", (unsigned long long)done);
	}
	fflush(stderr);
}

void fth_cli_progress(const char *what, uint64_t done, uint64_t total)
{
	uint64_t now = fth_now_ns();

	if (!progress.running) {
		progress.running = true;
		progress.started = now;
	}
	if (now - progress.started < PROGRESS_AFTER_NS || !isatty(STDERR_FILENO))
		return;
	if (progress.shown && now - progress.drawn < PROGRESS_EVERY_NS)
		return;
	draw(what, done, total, now - progress.started);
	progress.shown = true;
	progress.drawn = now;
}

void fth_cli_progress_end(void)
{
	if (progress.shown)
		fputs("\r\033[K", stderr);
	memset(&progress, 0, sizeof(progress));
}

/* ---- start ---- */

static void on_stop(int signal)
{
	(void)signal;
	fth_store_relaxed_dev32(&stopped, 1);
}

/*
 * A descriptor that was closed before the program began would be given to the first device that is
 * opened, and messages would be written over its contents. It becomes one that exists and fails:
 * /dev/null, open in the direction that standard input and output do not use.
 */
static void open_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		/* open() gives the lowest free number: fd, as those below it are open. */
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", mode) != fd)
			_exit(FTH_EXIT_FAILED);
	}
}

static void catch_signals(void)
{
	/* SA_RESETHAND: who asks a second time means it. */
	struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESETHAND | SA_RESTART};

	sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < STOP_SIGNALS; i++)
		sigaction(caught[i], &action, &originals[i]);
	/*
	 * A reader that went away, or a file that may not grow, is an error of the write, so that
	 * files can be removed.
	 */
	action.sa_handler = SIG_IGN;
	action.sa_flags = 0;
	for (unsigned i = STOP_SIGNALS; i < ALL_SIGNALS; i++)
		sigaction(caught[i], &action, &originals[i]);
}

void fth_cli_restore_signals(void)
{
	for (unsigned i = 0; i < ALL_SIGNALS; i++)
		sigaction(caught[i], &originals[i], NULL);
}

int fth_cli_start(int argc, char **argv)
{
	int kept = 0;
	bool options = true;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			options = false;
		if (options && i > 0 && strcmp(argv[i], "--json") == 0)
			json = true;
		else
			argv[kept++] = argv[i];
	}
	argv[kept] = NULL;
	fth_complete_start(&kept, argv);
	open_standard_streams();
	catch_signals();
	return kept;
}

int fth_cli_finish(int status)
{
	fth_cli_progress_end();
	/* A full disk or a closed pipe must not look like success. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == FTH_EXIT_OK) {
		fth_cli_error("cannot write to standard output: %s", strerror(errno));
		status = FTH_EXIT_FAILED;
	}
	return status;
}
