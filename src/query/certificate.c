/* SPDX-License-Identifier: BSD-2-Clause */
#include "query/certificate.h"

#include <inttypes.h>

bool certificate_kept(const struct certificate *c, unsigned task)
{
	const struct task_estimate *e = &c->set->tasks[task].estimate;
	const struct exec_stats *s = &c->stats[task];

	return s->bytes <= e->bytes && s->memory <= e->memory;
}

static const char *source_name(const struct task *t)
{
	return t->source.kind == TASK_TABLE    ? fth_table_name(t->source.table)
	       : t->source.kind == TASK_VALUES ? "values"
					       : "rows";
}

/* Steps that read columns at the rows that are left. */
static unsigned fetches(const struct task *t)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->step_count; i++)
		n += t->steps[i].kind == TASK_FETCH;
	return n;
}

/* UINT64_MAX is a figure that 64 bits do not hold. */
static uint64_t whole(double x)
{
	return x < 0 ? 0 : x < 1e18 ? (uint64_t)(x + 0.5) : UINT64_MAX;
}

#define FIGURE_TEXT 24

/* The figure, or `none` if there is none; returns to. */
static const char *figure(uint64_t x, const char *none, char to[FIGURE_TEXT])
{
	if (x == UINT64_MAX)
		snprintf(to, FIGURE_TEXT, "%s", none);
	else
		snprintf(to, FIGURE_TEXT, "%" PRIu64, x);
	return to;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

struct totals {
	uint64_t bytes, memory, spill;
};

static struct totals sum_up(const struct certificate *c)
{
	struct totals t = {0};

	for (unsigned i = 0; i < c->set->task_count; i++) {
		const struct task_estimate *e = &c->set->tasks[i].estimate;

		t.bytes = add(t.bytes, e->bytes);
		t.spill = add(t.spill, e->spill);
		t.memory = e->memory > t.memory ? e->memory : t.memory;
	}
	return t;
}

static bool all_kept(const struct certificate *c)
{
	for (unsigned i = 0; i < c->set->task_count; i++)
		if (!certificate_kept(c, i))
			return false;
	return c->memory <= c->budget;
}

static uint64_t bytes_read(const struct certificate *c)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < c->set->task_count; i++)
		bytes += c->stats[i].bytes;
	return bytes;
}

/* ---- text ---- */

#define NO_BOUND "no bound"

static void show_promises(FILE *out, const struct certificate *c)
{
	char rows_in[FIGURE_TEXT], rows_out[FIGURE_TEXT], bytes[FIGURE_TEXT], memory[FIGURE_TEXT],
		spill[FIGURE_TEXT];
	struct totals all = sum_up(c);

	fprintf(out, "%-20s %12s %12s %14s %14s %12s\n", "certificate", "rows in", "rows out",
		"bytes at most", "memory at most", "spill");
	for (unsigned i = 0; i < c->set->task_count; i++) {
		const struct task *t = &c->set->tasks[i];
		const struct task_estimate *e = &t->estimate;

		fprintf(out, "%4u %-15.15s %12s %12s %14s %14s %12s", i, source_name(t),
			figure(whole(e->source_rows), NO_BOUND, rows_in),
			figure(whole(e->rows), NO_BOUND, rows_out),
			figure(e->bytes, NO_BOUND, bytes), figure(e->memory, NO_BOUND, memory),
			figure(e->spill, NO_BOUND, spill));
		if (e->passes == UINT32_MAX)
			fputs("  in any number of passes", out);
		else if (e->passes > 1)
			fprintf(out, "  in at most %u passes", e->passes);
		putc('\n', out);
	}
	fprintf(out, "%-20s %12s %12s %14s %14s %12s\n", "total", "", "",
		figure(all.bytes, NO_BOUND, bytes), figure(all.memory, NO_BOUND, memory),
		figure(all.spill, NO_BOUND, spill));
	fprintf(out, "budget: %" PRIu64 " bytes; needs at least %" PRIu64 "\n", c->budget,
		c->least);
}

/* Figures of a query that was run again are sums over all runs. */
static void show_thrift(FILE *out, const struct certificate *c)
{
	if (c->thrift == EXEC_CUT)
		fputs("run again: rows were spilled between joins whose parts do not fit into "
		      "memory\n",
		      out);
	if (c->thrift == EXEC_FRUGAL)
		fputs("run again: memory was short, rows were spilled in front of each join, one "
		      "thread\n",
		      out);
}

static void show_facts(FILE *out, const struct certificate *c)
{
	fprintf(out, "%-20s %12s %12s %10s %10s %14s %14s %12s %9s %9s  %s\n", "measured",
		"rows in", "rows out", "chunks", "skipped", "bytes", "memory", "spill", "CPU ms",
		"wall ms", "promise");
	for (unsigned i = 0; i < c->set->task_count; i++) {
		const struct task *t = &c->set->tasks[i];
		const struct exec_stats *s = &c->stats[i];

		fprintf(out,
			"%4u %-15.15s %12" PRIu64 " %12" PRIu64 " %10" PRIu64 " %10" PRIu64
			" %14" PRIu64 " %14" PRIu64 " %12" PRIu64 " %9.3f %9.3f  %s\n",
			i, source_name(t), s->source_rows, s->rows, s->chunks, s->chunks_skipped,
			s->bytes, s->memory, s->spilled, (double)s->cpu_ns / 1e6,
			(double)s->wall_ns / 1e6, certificate_kept(c, i) ? "kept" : "BROKEN");
	}
	show_thrift(out, c);
	fprintf(out,
		"result: %" PRIu64 " rows; read: %" PRIu64 " bytes; memory: at most %" PRIu64
		" bytes; promises: %s\n",
		c->rows, bytes_read(c), c->memory, all_kept(c) ? "kept" : "BROKEN");
}

void certificate_text(FILE *out, const struct certificate *c)
{
	show_promises(out, c);
	if (c->stats)
		show_facts(out, c);
}

/* ---- JSON ---- */

static void json_task(FILE *out, const struct certificate *c, unsigned i)
{
	const struct task *t = &c->set->tasks[i];
	const struct task_estimate *e = &t->estimate;
	char rows_in[FIGURE_TEXT], rows_out[FIGURE_TEXT], bytes[FIGURE_TEXT], memory[FIGURE_TEXT],
		spill[FIGURE_TEXT], passes[FIGURE_TEXT];

	fprintf(out,
		"{\"task\":%u,\"source\":\"%s\",\"nested\":%s,\"fetches\":%u,\"rows_in\":%s,"
		"\"rows_out\":%s,\"bytes\":%s,\"memory\":%s,\"spill\":%s,\"passes\":%s",
		i, source_name(t), t->nested ? "true" : "false", fetches(t),
		figure(whole(e->source_rows), "null", rows_in),
		figure(whole(e->rows), "null", rows_out), figure(e->bytes, "null", bytes),
		figure(e->memory, "null", memory), figure(e->spill, "null", spill),
		figure(e->passes == UINT32_MAX ? UINT64_MAX : e->passes, "null", passes));
	if (c->stats) {
		const struct exec_stats *s = &c->stats[i];

		fprintf(out,
			",\"actual\":{\"rows_in\":%" PRIu64 ",\"rows_out\":%" PRIu64
			",\"chunks\":%" PRIu64 ",\"chunks_skipped\":%" PRIu64 ",\"bytes\":%" PRIu64
			",\"memory\":%" PRIu64 ",\"spill\":%" PRIu64
			",\"cpu_s\":%.6f,\"wall_s\":%.6f,\"kept\":%s}",
			s->source_rows, s->rows, s->chunks, s->chunks_skipped, s->bytes, s->memory,
			s->spilled, (double)s->cpu_ns / 1e9, (double)s->wall_ns / 1e9,
			certificate_kept(c, i) ? "true" : "false");
	}
	putc('}', out);
}

void certificate_json(FILE *out, const struct certificate *c)
{
	char bytes[FIGURE_TEXT], memory[FIGURE_TEXT], spill[FIGURE_TEXT];
	struct totals all = sum_up(c);

	fprintf(out,
		"{\"budget\":%" PRIu64 ",\"least\":%" PRIu64
		",\"bytes\":%s,\"memory\":%s,\"spill\":%s,\"tasks\":[",
		c->budget, c->least, figure(all.bytes, "null", bytes),
		figure(all.memory, "null", memory), figure(all.spill, "null", spill));
	for (unsigned i = 0; i < c->set->task_count; i++) {
		fputs(i == 0 ? "" : ",", out);
		json_task(out, c, i);
	}
	putc(']', out);
	if (c->stats)
		fprintf(out,
			",\"actual\":{\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64
			",\"memory\":%" PRIu64 ",\"run\":\"%s\",\"kept\":%s}",
			c->rows, bytes_read(c), c->memory,
			c->thrift == EXEC_PLAIN ? "plain"
			: c->thrift == EXEC_CUT ? "cut"
						: "frugal",
			all_kept(c) ? "true" : "false");
	fputs("}\n", out);
}
