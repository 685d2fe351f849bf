/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom kv top: a live view of a server. This file asks the server and makes lines of text;
 * kv_screen.c shows them on a terminal, by ncurses. Without a terminal, or with --once, lines go to
 * standard output, and with --json one object for each interval.
 */
#include "cmd_kv.h"
#include "kv_screen.h"
#include "kv_summary.h"

#include "fathom/base/error.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX  32u
#define LINE_BYTES 160u
#define BAR_WIDTH  20

struct top {
	struct fth_kv_link link;
	double interval_s;
	uint64_t count; /* of intervals to show; 0: until the user stops it */
	bool once;
	struct fth_kv_figures figures[2], histograms[2];
	unsigned now; /* index of the newest; the other one is the one before it */
	bool valid;   /* both are of the same server */
	int error;
	char error_text[FTH_ERROR_TEXT_MAX];
	struct fth_kv_summary summary;
	char lines[LINES_MAX][LINE_BYTES];
	unsigned line_count;
};

/* ---- asking ---- */

static bool same_server(const struct fth_kv_figures *a, const struct fth_kv_figures *b)
{
	const char *pid = fth_kv_figure(a, "pid"), *other = fth_kv_figure(b, "pid");

	return pid && other && strcmp(pid, other) == 0;
}

/* The next answer. A server that went away leaves an error, and is tried again next time. */
static void refresh(struct top *top)
{
	unsigned before = top->now, now = !before;
	int rc = fth_kv_link_stats(&top->link, "", &top->figures[now]);

	if (rc == 0)
		rc = fth_kv_link_stats(&top->link, "latency", &top->histograms[now]);
	if (rc == -EOPNOTSUPP) /* memcached */
		rc = 0;
	top->error = rc;
	if (rc < 0) {
		snprintf(top->error_text, sizeof(top->error_text), "%s", fth_error_text(rc));
		top->valid = false;
		fth_kv_figures_release(&top->figures[before]);
		return;
	}
	top->valid = same_server(&top->figures[before], &top->figures[now]);
	fth_kv_summarize(top->valid ? &top->figures[before] : NULL, &top->figures[now],
			 top->valid ? &top->histograms[before] : NULL, &top->histograms[now],
			 &top->summary);
	top->now = now;
}

/* ---- lines ---- */

__attribute__((format(printf, 2, 3))) static void add_line(struct top *top, const char *format, ...)
{
	va_list args;

	if (top->line_count == LINES_MAX)
		return;
	va_start(args, format);
	vsnprintf(top->lines[top->line_count++], LINE_BYTES, format, args);
	va_end(args);
}

static const char *rate_text(char buf[FTH_KV_TEXT_MAX], const struct fth_kv_summary *s,
			     double count)
{
	return fth_kv_count_text(buf, s->seconds > 0 ? count / s->seconds : NAN);
}

static const char *byte_rate_text(char buf[FTH_KV_TEXT_MAX], const struct fth_kv_summary *s,
				  double bytes)
{
	return fth_kv_bytes_text(buf, s->seconds > 0 ? bytes / s->seconds : NAN);
}

static const char *bar(char buf[BAR_WIDTH + 3], double share)
{
	int full = isnan(share) ? 0 : (int)(share * BAR_WIDTH + 0.5);

	full = full > BAR_WIDTH ? BAR_WIDTH : full < 0 ? 0 : full;
	buf[0] = '[';
	for (int i = 0; i < BAR_WIDTH; i++)
		buf[i + 1] = i < full ? '#' : ' ';
	buf[BAR_WIDTH + 1] = ']';
	buf[BAR_WIDTH + 2] = 0;
	return buf;
}

static void add_head(struct top *top)
{
	const char *version = fth_kv_figure(&top->figures[top->now], "version");
	uint64_t up = fth_kv_figure_or_0(&top->figures[top->now], "uptime");
	char when[32];
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%H:%M:%S", &tm);
	add_line(top, "%s  %s  up %llu:%02llu:%02llu  %s", top->link.server,
		 version ? version : "?", (unsigned long long)up / 3600,
		 (unsigned long long)up / 60 % 60, (unsigned long long)up % 60, when);
	add_line(top, "%s", "");
}

static void add_commands(struct top *top)
{
	const struct fth_kv_summary *s = &top->summary;
	char a[FTH_KV_TEXT_MAX], b[FTH_KV_TEXT_MAX], c[FTH_KV_TEXT_MAX], box[BAR_WIDTH + 3];

	add_line(top, "per second    gets %-9s sets %-9s deletes %-9s", rate_text(a, s, s->gets),
		 rate_text(b, s, s->sets), rate_text(c, s, s->deletes));
	add_line(top, "hit rate      %s %s", bar(box, s->hit_rate),
		 fth_kv_percent_text(a, s->hit_rate));
	add_line(top, "from flash    %s %s of the hits", bar(box, s->flash_share),
		 fth_kv_percent_text(a, s->flash_share));
	if (!isnan(s->depth))
		add_line(top, "queue depth   %.2f commands under way, %s reads of flash", s->depth,
			 fth_kv_count_text(a, s->flash_depth));
	else
		add_line(top, "queue depth   -");
	add_line(top, "%s", "");
	add_line(top, "latency       %-10s %-10s %-10s %-10s", "mean", "p50", "p99", "p99.9");
}

static void add_latency(struct top *top)
{
	for (unsigned i = 0; i < FTH_KV_COMMANDS; i++) {
		const struct fth_kv_latency *l = &top->summary.latency[i];
		char a[FTH_KV_TEXT_MAX], b[FTH_KV_TEXT_MAX], c[FTH_KV_TEXT_MAX], d[FTH_KV_TEXT_MAX];

		if (i >= 2 && !(l->count > 0)) /* gets and sets always have their line */
			continue;
		add_line(top, "  %-11s %-10s %-10s %-10s %-10s", l->command,
			 fth_kv_time_text(a, l->mean_ns), fth_kv_time_text(b, l->p50_ns),
			 fth_kv_time_text(c, l->p99_ns), fth_kv_time_text(d, l->p999_ns));
	}
	add_line(top, "%s", "");
}

static void add_flash(struct top *top)
{
	const struct fth_kv_summary *s = &top->summary;
	char a[FTH_KV_TEXT_MAX], b[FTH_KV_TEXT_MAX], box[BAR_WIDTH + 3];

	if (!(s->flash_bytes > 0)) {
		add_line(top, "flash         none");
		return;
	}
	add_line(top, "flash reads   %s/s, %s/s", rate_text(a, s, s->flash_reads),
		 byte_rate_text(b, s, s->flash_read_bytes));
	if (!isnan(s->reads_per_hit))
		add_line(top, "              %.2f for each hit from flash", s->reads_per_hit);
	if (isnan(s->write_amplification))
		snprintf(b, sizeof(b), "-");
	else
		snprintf(b, sizeof(b), "%.2f", s->write_amplification);
	add_line(top, "flash writes  %s/s, write amplification %s",
		 byte_rate_text(a, s, s->flash_write_bytes), b);
	add_line(top, "flash used    %s %s of %s", bar(box, s->flash_used / s->flash_bytes),
		 fth_kv_bytes_text(a, s->flash_used), fth_kv_bytes_text(b, s->flash_bytes));
}

static void add_memory(struct top *top)
{
	const struct fth_kv_summary *s = &top->summary;
	char a[FTH_KV_TEXT_MAX], b[FTH_KV_TEXT_MAX], c[FTH_KV_TEXT_MAX], box[BAR_WIDTH + 3];

	add_line(top, "memory used   %s %s of %s", bar(box, s->memory_bytes / s->memory_max),
		 fth_kv_bytes_text(a, s->memory_bytes), fth_kv_bytes_text(b, s->memory_max));
	add_line(top, "              index %s, process %s", fth_kv_bytes_text(a, s->index_bytes),
		 fth_kv_bytes_text(b, s->resident));
	add_line(top, "items         %s, %s in memory", fth_kv_count_text(a, s->items),
		 fth_kv_count_text(b, s->memory_items));
	add_line(top, "connections   %s of %s, %s new/s", fth_kv_count_text(a, s->connections),
		 fth_kv_count_text(b, s->connections_max), rate_text(c, s, s->accepted));
	add_line(top, "network       %s/s in, %s/s out", byte_rate_text(a, s, s->bytes_read),
		 byte_rate_text(b, s, s->bytes_written));
	if (s->read_errors + s->write_errors + s->bad_items > 0)
		add_line(top, "FLASH ERRORS  %.0f reads, %.0f writes, %.0f bad items",
			 s->read_errors, s->write_errors, s->bad_items);
}

static void make_lines(struct top *top)
{
	top->line_count = 0;
	if (top->error < 0) {
		add_line(top, "%s", top->link.server);
		add_line(top, "%s", "");
		add_line(top, "%s", top->error_text);
		add_line(top, "trying again every %.1f s", top->interval_s);
		return;
	}
	add_head(top);
	add_commands(top);
	add_latency(top);
	add_flash(top);
	add_memory(top);
	if (!top->valid)
		add_line(top, "(figures since the server started)");
}

/* ---- without a screen ---- */

static void print_plain(struct top *top)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		for (unsigned i = 0; i < top->line_count; i++)
			printf("%s\n", top->lines[i]);
		putchar('\n');
		fflush(stdout);
		return;
	}
	fth_json_begin(&j, stdout);
	fth_json_string(&j, "server", top->link.server);
	fth_json_u64(&j, "time", (uint64_t)time(NULL));
	if (top->error < 0) {
		fth_json_string(&j, "error", top->error_text);
	} else {
		fth_json_bool(&j, "since_start", !top->valid);
		fth_kv_summary_json(&j, &top->summary);
	}
	fth_json_finish(&j);
}

/* True: go on. */
static bool nap(double seconds)
{
	uint64_t until = fth_deadline_ns((uint64_t)(seconds * 1e9));
	struct timespec slice = {.tv_nsec = 20000000};

	while (fth_now_ns() < until && !fth_cli_stopped())
		nanosleep(&slice, NULL);
	return !fth_cli_stopped();
}

static int run_plain(struct top *top)
{
	refresh(top);
	/* One interval, unless the server is not there at all. */
	for (uint64_t i = 0; top->error == 0 || (!top->once && i > 0); i++) {
		if (!nap(top->interval_s))
			return FTH_EXIT_INTERRUPTED;
		refresh(top);
		make_lines(top);
		if (top->error == 0 || !top->once)
			print_plain(top);
		if (ferror(stdout))
			return FTH_EXIT_FAILED;
		if (top->once || (top->count && i + 1 == top->count))
			break;
	}
	if (top->error == 0)
		return FTH_EXIT_OK;
	if (fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	fth_cli_error("%s", top->error_text);
	return FTH_EXIT_FAILED;
}

/* ---- on a screen ---- */

static void show(struct top *top, struct fth_kv_screen *screen)
{
	const char *lines[LINES_MAX];

	make_lines(top);
	for (unsigned i = 0; i < top->line_count; i++)
		lines[i] = top->lines[i];
	fth_kv_screen_draw(screen, lines, top->line_count, "q quits, + and - change the interval");
}

static int run_screen(struct top *top)
{
	struct fth_kv_screen *screen;
	int rc = fth_kv_screen_open(&screen), key = 0;

	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		return rc == -EOPNOTSUPP ? FTH_EXIT_IMPOSSIBLE : FTH_EXIT_FAILED;
	}
	for (uint64_t i = 0; key != 'q' && !fth_cli_stopped();) {
		uint64_t until = fth_deadline_ns((uint64_t)(top->interval_s * 1e9));

		refresh(top);
		show(top, screen);
		if (top->count && ++i > top->count)
			break;
		while (key != 'q' && fth_now_ns() < until && !fth_cli_stopped()) {
			key = fth_kv_screen_key(screen, 50);
			if (key == '+' && top->interval_s < 60)
				top->interval_s *= 2;
			if (key == '-' && top->interval_s > 0.2)
				top->interval_s /= 2;
			if (key == FTH_KV_SCREEN_RESIZED || key == '+' || key == '-')
				show(top, screen);
		}
	}
	fth_kv_screen_close(screen);
	return key == 'q' || !fth_cli_stopped() ? FTH_EXIT_OK : FTH_EXIT_INTERRUPTED;
}

static int run(int argc, char **argv)
{
	struct top top = {
		.link = {.server = FTH_KV_SERVER_DEFAULT, .wire.fd = -1, .timeout_ns = 2000000000},
		.interval_s = 1};
	const struct fth_cli_option options[] = {
		{"server", FTH_CLI_STRING, &top.link.server, 0, 0,
		 "HOST:PORT or unix:PATH; default " FTH_KV_SERVER_DEFAULT},
		{"interval", FTH_CLI_DOUBLE, &top.interval_s, 0, 0, "seconds, 0.1 to 3600"},
		{"count", FTH_CLI_U64, &top.count, 0, 0, "so many intervals; 0: until stopped"},
		{"once", FTH_CLI_FLAG, &top.once, 0, 0, "one interval, to standard output"},
		{"auth", FTH_CLI_STRING, &top.link.auth_file, 0, 0,
		 "file whose first line is user:password"},
		{"tls", FTH_CLI_FLAG, &top.link.tls.on, 0, 0,
		 "speak TLS; verify the server by the certificates of the system"},
		{"tls-ca", FTH_CLI_STRING, &top.link.tls.ca, 0, 0,
		 "PEM file to verify it by instead; implies --tls"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv top [--server WHERE] [options]",
		.text = "Show what a running `fathom kv serve` or memcached does, again and again: "
			"hit\n"
			"rate, latency, queue depth, reads and writes of flash, memory, "
			"connections, of\n"
			"each interval. q quits. With --once, --json or without a terminal it "
			"writes\n"
			"text or lines of JSON instead.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	if (!(top.interval_s >= 0.1 && top.interval_s <= 3600)) {
		fth_cli_error("--interval %g: expected 0.1 to 3600", top.interval_s);
		return FTH_EXIT_USAGE;
	}
	rc = fth_kv_tls_open(&top.link.tls);
	if (rc == 0 && top.link.tls.context) /* a certificate that does not verify ends it now */
		rc = fth_kv_link_open(&top.link);
	if (rc < 0) {
		fth_cli_error("%s", fth_error_text(rc));
		fth_kv_tls_close(&top.link.tls);
		return FTH_EXIT_FAILED;
	}
	if (top.once || fth_cli_json() || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
		status = run_plain(&top);
	else
		status = run_screen(&top);
	fth_kv_link_close(&top.link);
	fth_kv_tls_close(&top.link.tls);
	for (unsigned i = 0; i < 2; i++) {
		fth_kv_figures_release(&top.figures[i]);
		fth_kv_figures_release(&top.histograms[i]);
	}
	return status;
}

const struct fth_command fth_cmd_kv_top = {
	.name = "top",
	.summary = "show what a running server does, live",
	.run = run,
};
