/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_summary.h"

#include "cli.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- figures by name ---- */

#define FIELD(name) offsetof(struct fth_kv_summary, name)

/* Where each figure comes from: our name, else memcached's. */
struct source {
	const char *json;
	size_t field;
	const char *name, *other;
};

static const struct source counters[] = {
	{"gets", FIELD(gets), "cmd_get", NULL},
	{"hits", FIELD(hits), "get_hits", NULL},
	{"misses", FIELD(misses), "get_misses", NULL},
	{"sets", FIELD(sets), "cmd_set", NULL},
	{"deletes", FIELD(deletes), "delete_hits", NULL},
	{"hits_memory", FIELD(hits_memory), "kv_hits_memory", NULL},
	{"hits_flash", FIELD(hits_flash), "kv_hits_flash", "get_extstore"},
	{NULL, FIELD(flash_gets), "get_extstore", NULL},
	{"flash_reads", FIELD(flash_reads), "kv_flash_reads", "extstore_objects_read"},
	{"flash_read_bytes", FIELD(flash_read_bytes), "kv_flash_read_bytes", "extstore_bytes_read"},
	{"flash_write_bytes", FIELD(flash_write_bytes), "kv_chunk_bytes", "extstore_bytes_written"},
	{NULL, FIELD(log_bytes), "kv_log_bytes", NULL},
	{NULL, FIELD(rewritten_bytes), "kv_rewritten_bytes", NULL},
	{"bytes_received", FIELD(bytes_read), "bytes_read", NULL},
	{"bytes_sent", FIELD(bytes_written), "bytes_written", NULL},
	{"evictions", FIELD(evictions), "evictions", NULL},
	{"dropped", FIELD(dropped), "kv_dropped", NULL},
	{"rejected", FIELD(rejected), "kv_rejected", NULL},
	{"over_budget", FIELD(over_budget), "kv_over_budget", NULL},
	{"flash_read_errors", FIELD(read_errors), "kv_read_errors", NULL},
	{"flash_write_errors", FIELD(write_errors), "kv_write_errors", NULL},
	{"bad_items", FIELD(bad_items), "kv_bad_items", "badcrc_from_extstore"},
	{"connections_accepted", FIELD(accepted), "total_connections", NULL},
	{"connections_refused", FIELD(refused), "rejected_connections", NULL},
};

static const struct source gauges[] = {
	{"connections", FIELD(connections), "curr_connections", NULL},
	{"connections_max", FIELD(connections_max), "max_connections", NULL},
	{"threads", FIELD(threads), "threads", NULL},
	{"items", FIELD(items), "curr_items", NULL},
	{"memory_items", FIELD(memory_items), "memory_items", NULL},
	{"memory_bytes", FIELD(memory_bytes), "bytes", NULL},
	{"memory_max", FIELD(memory_max), "limit_maxbytes", NULL},
	{"index_bytes", FIELD(index_bytes), "index_bytes", NULL},
	{"resident_bytes", FIELD(resident), "resident_bytes", NULL},
	{"flash_bytes", FIELD(flash_bytes), "flash_bytes", "extstore_limit_maxbytes"},
	{"flash_used", FIELD(flash_used), "flash_used", "extstore_bytes_used"},
	{"flash_queue_depth", FIELD(flash_depth), "flash_reads_in_flight", "extstore_io_queue"},
};

static const struct source derived[] = {
	{"hit_rate", FIELD(hit_rate), NULL, NULL},
	{"flash_share_of_hits", FIELD(flash_share), NULL, NULL},
	{"flash_reads_per_flash_hit", FIELD(reads_per_hit), NULL, NULL},
	{"write_amplification", FIELD(write_amplification), NULL, NULL},
	{"queue_depth", FIELD(depth), NULL, NULL},
};

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *const commands[FTH_KV_COMMANDS] = {"get", "set", "delete", "incr", "touch"};

static double *field(struct fth_kv_summary *s, const struct source *from)
{
	return (double *)(void *)((char *)s + from->field);
}

static double gauge(const struct fth_kv_figures *now, const struct source *from)
{
	uint64_t value;

	if (!fth_kv_figure_u64(now, from->name, &value) &&
	    (!from->other || !fth_kv_figure_u64(now, from->other, &value)))
		return NAN;
	return (double)value;
}

/* A counter that went back has begun again: the server is another one, or was reset. */
static double since(double before, double now)
{
	return isnan(before) || before > now ? now : now - before;
}

static double ratio(double part, double whole)
{
	return whole > 0 ? part / whole : NAN;
}

/* ---- latency ---- */

/* Bucket i counts what took less than 2^i ns. */
#define BUCKETS 64u
struct histogram {
	double buckets[BUCKETS];
	double sum_ns, count;
};

static void take_buckets(const struct fth_kv_figures *figures, const char *command,
			 struct histogram *out)
{
	size_t length = strlen(command);

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; figures && i < figures->count; i++) {
		const char *name = figures->list[i].name;
		double value = (double)strtoull(figures->list[i].value, NULL, 10);
		uint64_t bound;

		if (strncmp(name, command, length) != 0 || name[length] != ':')
			continue;
		bound = strtoull(name + length + 1, NULL, 10);
		if (strcmp(name + length + 1, "sum_ns") == 0)
			out->sum_ns = value;
		else if (bound > 0)
			out->buckets[63 - __builtin_clzll(bound)] = value;
	}
}

static double percentile(const struct histogram *h, double share)
{
	double seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += h->buckets[i];
		if (h->count > 0 && seen >= share * h->count)
			return (double)(UINT64_C(1) << i);
	}
	return NAN;
}

static void from_histogram(const struct histogram *before, const struct histogram *now,
			   struct fth_kv_latency *out)
{
	struct histogram h = *now;

	h.sum_ns = since(before->sum_ns, now->sum_ns);
	for (unsigned i = 0; i < BUCKETS; i++) {
		h.buckets[i] = since(before->buckets[i], now->buckets[i]);
		h.count += h.buckets[i];
	}
	out->count = h.count;
	out->mean_ns = ratio(h.sum_ns, h.count);
	out->p50_ns = percentile(&h, 0.5);
	out->p99_ns = percentile(&h, 0.99);
	out->p999_ns = percentile(&h, 0.999);
}

static void from_figures(const struct fth_kv_figures *now, struct fth_kv_latency *out)
{
	char p50[64], p99[64];
	uint64_t value;

	snprintf(p50, sizeof(p50), "latency_%s_p50_ns", out->command);
	snprintf(p99, sizeof(p99), "latency_%s_p99_ns", out->command);
	out->count = out->mean_ns = out->p999_ns = NAN;
	out->p50_ns = fth_kv_figure_u64(now, p50, &value) && value ? (double)value : NAN;
	out->p99_ns = fth_kv_figure_u64(now, p99, &value) && value ? (double)value : NAN;
}

static void summarize_latency(const struct fth_kv_figures *now,
			      const struct fth_kv_figures *before_histogram,
			      const struct fth_kv_figures *histogram, struct fth_kv_summary *out)
{
	bool has = histogram && histogram->count;
	double busy = 0;

	for (unsigned i = 0; i < FTH_KV_COMMANDS; i++) {
		struct fth_kv_latency *l = &out->latency[i];
		struct histogram old, new;

		l->command = commands[i];
		if (!has) {
			from_figures(now, l);
			continue;
		}
		take_buckets(before_histogram, commands[i], &old);
		take_buckets(histogram, commands[i], &new);
		from_histogram(&old, &new, l);
		busy += l->count > 0 ? l->mean_ns * l->count : 0;
	}
	out->depth = has ? ratio(busy / 1e9, out->seconds) : NAN;
}

void fth_kv_summarize(const struct fth_kv_figures *before, const struct fth_kv_figures *now,
		      const struct fth_kv_figures *before_histogram,
		      const struct fth_kv_figures *histogram, struct fth_kv_summary *out)
{
	memset(out, 0, sizeof(*out));
	out->seconds = before ? (double)(now->taken_ns - before->taken_ns) / 1e9
			      : (double)fth_kv_figure_or_0(now, "uptime");
	for (unsigned i = 0; i < COUNT(counters); i++) {
		double value = gauge(now, &counters[i]);

		*field(out, &counters[i]) =
			before ? since(gauge(before, &counters[i]), value) : value;
	}
	for (unsigned i = 0; i < COUNT(gauges); i++)
		*field(out, &gauges[i]) = gauge(now, &gauges[i]);
	out->hit_rate = ratio(out->hits, out->gets);
	out->flash_share = ratio(out->flash_gets, out->hits);
	out->reads_per_hit = ratio(out->flash_reads, out->hits_flash);
	out->write_amplification =
		ratio(out->flash_write_bytes, out->log_bytes - out->rewritten_bytes);
	summarize_latency(now, before_histogram, histogram, out);
}

/* ---- telling ---- */

static void put_known(struct fth_json *j, const struct source *table, size_t count,
		      const struct fth_kv_summary *s, bool whole)
{
	for (size_t i = 0; i < count; i++) {
		double value = *field((struct fth_kv_summary *)s, &table[i]);

		if (!table[i].json || isnan(value))
			continue;
		if (whole)
			fth_json_u64(j, table[i].json, (uint64_t)value);
		else
			fth_json_double(j, table[i].json, value);
	}
}

static void put_time(struct fth_json *j, const char *name, double ns)
{
	if (!isnan(ns))
		fth_json_double(j, name, ns / 1e3);
}

void fth_kv_summary_json(struct fth_json *j, const struct fth_kv_summary *s)
{
	fth_json_double(j, "seconds", s->seconds);
	put_known(j, counters, COUNT(counters), s, true);
	put_known(j, gauges, COUNT(gauges), s, true);
	put_known(j, derived, COUNT(derived), s, false);
	fth_json_object(j, "latency_us");
	for (unsigned i = 0; i < FTH_KV_COMMANDS; i++) {
		const struct fth_kv_latency *l = &s->latency[i];

		if (isnan(l->p50_ns))
			continue;
		fth_json_object(j, l->command);
		put_time(j, "mean", l->mean_ns);
		put_time(j, "p50", l->p50_ns);
		put_time(j, "p99", l->p99_ns);
		put_time(j, "p999", l->p999_ns);
		fth_json_end(j);
	}
	fth_json_end(j);
}

const char *fth_kv_time_text(char buf[FTH_KV_TEXT_MAX], double ns)
{
	if (isnan(ns))
		snprintf(buf, FTH_KV_TEXT_MAX, "-");
	else if (ns < 1e6)
		snprintf(buf, FTH_KV_TEXT_MAX, ns < 1e4 ? "%.1f us" : "%.0f us", ns / 1e3);
	else if (ns < 1e9)
		snprintf(buf, FTH_KV_TEXT_MAX, ns < 1e7 ? "%.1f ms" : "%.0f ms", ns / 1e6);
	else
		snprintf(buf, FTH_KV_TEXT_MAX, "%.1f s", ns / 1e9);
	return buf;
}

const char *fth_kv_bytes_text(char buf[FTH_KV_TEXT_MAX], double bytes)
{
	char text[FTH_CLI_BYTES_MAX];

	snprintf(buf, FTH_KV_TEXT_MAX, "%s",
		 isnan(bytes) ? "-" : fth_cli_bytes(text, (uint64_t)bytes));
	return buf;
}

const char *fth_kv_count_text(char buf[FTH_KV_TEXT_MAX], double count)
{
	if (isnan(count))
		snprintf(buf, FTH_KV_TEXT_MAX, "-");
	else if (count < 1e5)
		snprintf(buf, FTH_KV_TEXT_MAX, "%.0f", count);
	else if (count < 1e9)
		snprintf(buf, FTH_KV_TEXT_MAX, count < 1e6 ? "%.1f k" : "%.2f M",
			 count / (count < 1e6 ? 1e3 : 1e6));
	else
		snprintf(buf, FTH_KV_TEXT_MAX, "%.2f G", count / 1e9);
	return buf;
}

const char *fth_kv_percent_text(char buf[FTH_KV_TEXT_MAX], double share)
{
	if (isnan(share))
		snprintf(buf, FTH_KV_TEXT_MAX, "-");
	else
		snprintf(buf, FTH_KV_TEXT_MAX, "%.1f %%", 100 * share);
	return buf;
}
