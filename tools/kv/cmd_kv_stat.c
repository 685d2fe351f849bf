/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom kv stat: the figures of a running server. */
#include "cmd_kv.h"
#include "kv_summary.h"

#include "fathom/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

struct stat_job {
	struct fth_kv_link link;
	bool all;
	struct fth_kv_figures figures, histogram;
};

/* ---- everything ---- */

static bool is_number(const char *text)
{
	if (*text < '0' || *text > '9' || (text[0] == '0' && text[1] && text[1] != '.'))
		return false;
	while (*text >= '0' && *text <= '9')
		text++;
	return *text == 0;
}

static void print_all(const struct fth_kv_figures *figures)
{
	struct fth_json j;

	if (!fth_cli_json()) {
		for (unsigned i = 0; i < figures->count; i++)
			printf("%-32s %s\n", figures->list[i].name, figures->list[i].value);
		return;
	}
	fth_json_begin(&j, stdout);
	for (unsigned i = 0; i < figures->count; i++) {
		const struct fth_kv_figure *f = &figures->list[i];

		if (is_number(f->value))
			fth_json_digits(&j, f->name, f->value);
		else
			fth_json_string(&j, f->name, f->value);
	}
	fth_json_finish(&j);
}

/* ---- what matters ---- */

static void print_time(uint64_t seconds)
{
	if (seconds >= 86400)
		printf("%llu d %llu h", (unsigned long long)seconds / 86400,
		       (unsigned long long)seconds / 3600 % 24);
	else if (seconds >= 3600)
		printf("%llu h %llu min", (unsigned long long)seconds / 3600,
		       (unsigned long long)seconds / 60 % 60);
	else
		printf("%llu min %llu s", (unsigned long long)seconds / 60,
		       (unsigned long long)seconds % 60);
}

static void print_head(const struct stat_job *job)
{
	const char *version = fth_kv_figure(&job->figures, "version");
	const char *pid = fth_kv_figure(&job->figures, "pid");

	printf("%s: %s, ", job->link.server, version ? version : "unknown version");
	if (pid)
		printf("process %s, ", pid);
	printf("up ");
	print_time(fth_kv_figure_or_0(&job->figures, "uptime"));
	putchar('\n');
}

static void print_usage(const struct fth_kv_summary *s)
{
	char a[FTH_KV_TEXT_MAX], b[FTH_KV_TEXT_MAX];

	printf("  %-14s%s", "items", fth_kv_count_text(a, s->items));
	if (!isnan(s->memory_items))
		printf(", %s of them in memory", fth_kv_count_text(a, s->memory_items));
	printf("\n  %-14s%s of %s", "memory", fth_kv_bytes_text(a, s->memory_bytes),
	       fth_kv_bytes_text(b, s->memory_max));
	if (!isnan(s->index_bytes))
		printf(", index %s", fth_kv_bytes_text(a, s->index_bytes));
	if (!isnan(s->resident))
		printf(", process %s", fth_kv_bytes_text(a, s->resident));
	if (s->flash_bytes > 0)
		printf("\n  %-14s%s of %s", "flash", fth_kv_bytes_text(a, s->flash_used),
		       fth_kv_bytes_text(b, s->flash_bytes));
	printf("\n  %-14s%s of %s", "connections", fth_kv_count_text(a, s->connections),
	       fth_kv_count_text(b, s->connections_max));
	printf(", %s since the start", fth_kv_count_text(a, s->accepted));
	if (s->refused > 0)
		printf(", %s refused", fth_kv_count_text(a, s->refused));
	putchar('\n');
}

static void print_commands(const struct fth_kv_summary *s)
{
	char a[FTH_KV_TEXT_MAX], b[FTH_KV_TEXT_MAX];
	const char *label = "latency";

	printf("  %-14s%s, hit rate %s", "gets", fth_kv_count_text(a, s->gets),
	       fth_kv_percent_text(b, s->hit_rate));
	if (!isnan(s->flash_share))
		printf(", %s of the hits from flash", fth_kv_percent_text(a, s->flash_share));
	printf("\n  %-14s%s\n", "sets", fth_kv_count_text(a, s->sets));
	printf("  %-14s%s\n", "deletes", fth_kv_count_text(a, s->deletes));
	for (unsigned i = 0; i < FTH_KV_COMMANDS; i++) {
		const struct fth_kv_latency *l = &s->latency[i];

		if (isnan(l->p50_ns))
			continue;
		printf("  %-14s%s: half below %s", label, l->command,
		       fth_kv_time_text(a, l->p50_ns));
		label = "";
		printf(", 99 %% below %s", fth_kv_time_text(a, l->p99_ns));
		if (!isnan(l->p999_ns))
			printf(", 99.9 %% below %s", fth_kv_time_text(a, l->p999_ns));
		putchar('\n');
	}
}

static void print_flash(const struct fth_kv_summary *s)
{
	char a[FTH_KV_TEXT_MAX];

	if (!(s->flash_bytes > 0))
		return;
	printf("  %-14s%s", "flash reads", fth_kv_count_text(a, s->flash_reads));
	printf(", %s", fth_kv_bytes_text(a, s->flash_read_bytes));
	if (!isnan(s->reads_per_hit))
		printf(", %.2f for each hit from flash", s->reads_per_hit);
	printf("\n  %-14s%s", "flash writes", fth_kv_bytes_text(a, s->flash_write_bytes));
	if (!isnan(s->write_amplification))
		printf(", write amplification %.2f", s->write_amplification);
	putchar('\n');
}

static void print_trouble(const struct fth_kv_summary *s)
{
	const struct {
		const char *what;
		double count;
	} list[] = {
		{"items evicted", s->evictions},
		{"items dropped because flash failed", s->dropped},
		{"items not admitted to flash", s->rejected},
		{"items beyond the write budget", s->over_budget},
		{"reads of flash failed", s->read_errors},
		{"writes of flash failed", s->write_errors},
		{"items on flash were bad", s->bad_items},
	};
	char a[FTH_KV_TEXT_MAX];

	for (unsigned i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (list[i].count > 0)
			printf("  %-14s%s\n", fth_kv_count_text(a, list[i].count), list[i].what);
}

static void print_summary(const struct stat_job *job)
{
	struct fth_kv_summary s;
	struct fth_json j;
	const char *version = fth_kv_figure(&job->figures, "version");

	fth_kv_summarize(NULL, &job->figures, NULL, &job->histogram, &s);
	if (fth_cli_json()) {
		fth_json_begin(&j, stdout);
		fth_json_string(&j, "server", job->link.server);
		fth_json_string(&j, "version", version);
		fth_kv_summary_json(&j, &s);
		fth_json_finish(&j);
		return;
	}
	print_head(job);
	print_usage(&s);
	print_commands(&s);
	print_flash(&s);
	print_trouble(&s);
}

static int run(int argc, char **argv)
{
	struct stat_job job = {.link = {.server = FTH_KV_SERVER_DEFAULT, .wire.fd = -1}};
	uint64_t timeout_ms = 5000;
	const struct fth_cli_option options[] = {
		{"server", FTH_CLI_STRING, &job.link.server, 0, 0,
		 "HOST:PORT or unix:PATH; default " FTH_KV_SERVER_DEFAULT},
		{"all", FTH_CLI_FLAG, &job.all, 0, 0, "all figures, as the server names them"},
		{"auth", FTH_CLI_STRING, &job.link.auth_file, 0, 0,
		 "file whose first line is user:password"},
		{"tls", FTH_CLI_FLAG, &job.link.tls.on, 0, 0,
		 "speak TLS; verify the server by the certificates of the system"},
		{"tls-ca", FTH_CLI_STRING, &job.link.tls.ca, 0, 0,
		 "PEM file to verify it by instead; implies --tls"},
		{"timeout-ms", FTH_CLI_U64, &timeout_ms, 1, 3600000, "to wait for the server"},
		{0},
	};
	const struct fth_cli_usage usage = {
		.synopsis = "kv stat [--server WHERE] [options]",
		.text = "Print the figures of a running `fathom kv serve` or memcached: items, "
			"memory,\n"
			"hit rate, latency, reads and writes of flash, since it started or since "
			"its\n"
			"statistics were reset.",
		.options = options,
	};
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), rc;

	if (status != FTH_CLI_GO_ON)
		return status;
	job.link.timeout_ns = timeout_ms * 1000000;
	rc = fth_kv_tls_open(&job.link.tls);
	if (rc == 0)
		rc = fth_kv_link_stats(&job.link, "", &job.figures);
	if (rc == 0 && !job.all)
		rc = fth_kv_link_stats(&job.link, "latency", &job.histogram);
	if (rc == -EOPNOTSUPP) /* memcached */
		rc = 0;
	if (rc == 0 && job.all)
		print_all(&job.figures);
	else if (rc == 0)
		print_summary(&job);
	fth_kv_link_close(&job.link);
	fth_kv_tls_close(&job.link.tls);
	fth_kv_figures_release(&job.figures);
	fth_kv_figures_release(&job.histogram);
	if (rc < 0 && fth_cli_stopped())
		return FTH_EXIT_INTERRUPTED;
	if (rc < 0)
		fth_cli_error("%s", fth_error_text(rc));
	return rc < 0 ? FTH_EXIT_FAILED : FTH_EXIT_OK;
}

const struct fth_command fth_cmd_kv_stat = {
	.name = "stat",
	.summary = "print the figures of a running server",
	.run = run,
};
