/* SPDX-License-Identifier: BSD-2-Clause */
#include "demo.h"

#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAME_WIDTH 35
#define BAR_WIDTH  24
#define TEXT_MAX   1024

/* A number as people read it: three digits or so. */
static const char *number_text(char *buf, size_t room, double value)
{
	if (value >= 1e6)
		snprintf(buf, room, "%.1f M", value / 1e6);
	else if (value >= 1e4)
		snprintf(buf, room, "%.0f K", value / 1e3);
	else if (value >= 100)
		snprintf(buf, room, "%.0f", value);
	else
		snprintf(buf, room, "%.*f", value >= 10 ? 1 : 2, value);
	return buf;
}

static double largest(const struct demo_row *rows, unsigned count)
{
	double most = 0;

	for (unsigned i = 0; i < count; i++)
		most = rows[i].value > most ? rows[i].value : most;
	return most;
}

static void print_row(const struct demo_row *row, double most)
{
	char bar[BAR_WIDTH + 1] = "", number[32] = "-";
	size_t length = most > 0 ? (size_t)(row->value / most * BAR_WIDTH + 0.5) : 0;

	if (row->value > 0 && length == 0)
		length = 1;
	memset(bar, '#', length);
	bar[length] = '\0';
	if (row->value > 0)
		number_text(number, sizeof(number), row->value);
	printf("  %s%-*s %9s  %s%s\n", row->ours ? fth_cli_style(stdout, FTH_CLI_BOLD) : "",
	       NAME_WIDTH, row->name, number, row->note ? row->note : bar,
	       row->ours ? fth_cli_style(stdout, FTH_CLI_PLAIN) : "");
}

void demo_begin(struct demo *demo, const char *key, const char *title, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	demo->scene++;
	fth_cli_progress_end();
	if (demo->json) {
		fth_json_object(demo->json, key);
		fth_json_string(demo->json, "title", title);
		fth_json_array(demo->json, "rows");
		return;
	}
	printf("\n%s%u. %s%s\n\n%s\n", fth_cli_style(stdout, FTH_CLI_BOLD), demo->scene, title,
	       fth_cli_style(stdout, FTH_CLI_PLAIN), text);
	fflush(stdout);
}

static const char *unit_name(enum demo_unit unit)
{
	static const char *const names[] = {
		[DEMO_PER_SECOND] = "1/s", [DEMO_SECONDS] = "s", [DEMO_MICROSECONDS] = "us"};

	return names[unit];
}

static void bars_json(struct demo *demo, const char *what, enum demo_unit unit,
		      const struct demo_row *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		fth_json_object(demo->json, NULL);
		fth_json_string(demo->json, "name", rows[i].name);
		fth_json_string(demo->json, "what", what);
		fth_json_string(demo->json, "unit", unit_name(unit));
		fth_json_double(demo->json, "value", rows[i].value);
		fth_json_bool(demo->json, "ours", rows[i].ours);
		fth_json_string(demo->json, "note", rows[i].note);
		fth_json_end(demo->json);
	}
}

void demo_bars(struct demo *demo, const char *what, enum demo_unit unit,
	       const struct demo_row *rows, unsigned count)
{
	bool is_rate = unit == DEMO_PER_SECOND;
	char head[64];

	fth_cli_progress_end();
	if (demo->json) {
		bars_json(demo, what, unit, rows, count);
		return;
	}
	if (is_rate)
		snprintf(head, sizeof(head), "%s/s", what);
	else
		snprintf(head, sizeof(head), unit == DEMO_SECONDS ? "seconds" : "us");
	printf("\n  %-*s %9s  %s\n", NAME_WIDTH, is_rate ? "" : what, head,
	       is_rate ? "(longer is better)" : "(shorter is better)");
	for (unsigned i = 0; i < count; i++)
		print_row(&rows[i], largest(rows, count));
	fflush(stdout);
}

void demo_say(struct demo *demo, const char *format, ...)
{
	va_list args;

	if (demo->json)
		return;
	fth_cli_progress_end();
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

void demo_end(struct demo *demo, uint64_t checked, const char *what, uint64_t wrong)
{
	fth_cli_progress_end();
	if (demo->json) {
		fth_json_end(demo->json);
		fth_json_u64(demo->json, "checked", checked);
		fth_json_u64(demo->json, "wrong", wrong);
		fth_json_end(demo->json);
		return;
	}
	if (wrong)
		printf("\n  %s%llu of %llu %s WRONG%s\n", fth_cli_style(stdout, FTH_CLI_RED),
		       (unsigned long long)wrong, (unsigned long long)checked, what,
		       fth_cli_style(stdout, FTH_CLI_PLAIN));
	else
		printf("\n  %llu %s checked, all right.\n", (unsigned long long)checked, what);
	fflush(stdout);
}
