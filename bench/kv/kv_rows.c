/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_rows.h"

#include "cli.h"

#include "fathom/base/error.h"

#include <errno.h>

#define WEAR_ROUNDS 2u /* times that as many items are overwritten as there are */
#define SWEEP_BATCH 16u
#define TIMEOUT_NS  UINT64_C(30000000000) /* a machine may be slow */

const char *const kv_metric_names[KV_METRICS] = {
	"keys_per_second", "cpu_us",	 "p50_us", "p99_us", "p999_us", "rss",
	"device_reads",	   "read_bytes", "hits",
};

const struct kv_row kv_rows[] = {
	{"cold", "get, 32 connections", KV_RIG_COLD, 32, 1, 0, 0, false},
	{"cold200", "get, 200 connections", KV_RIG_COLD, 200, 1, 0, 0, false},
	{"multiget", "get of 10 keys, 32 connections", KV_RIG_COLD, 32, 10, 0, 0, false},
	{"mixed", "95 % get, 5 % set, 32 connections", KV_RIG_COLD, 32, 1, 0.05, 0, false},
	{"set", "set, 32 connections", KV_RIG_COLD, 32, 1, 1, 0, false},
	{"zipf", "get, zipf 0.99, equal RSS", KV_RIG_EQUAL, 32, 1, 0, 0.99, false},
	{"dram", "get, all items in memory", KV_RIG_DRAM, 32, 1, 0, 0, false},
	{"small", "get, items of 100 bytes; memory for an item", KV_RIG_SMALL, 32, 1, 0, 0, false},
	{"wear", "overwriting at random; write amplification", KV_RIG_WEAR, 32, 1, 1, 0, false},
	{"huge", "get, still more items of 100 bytes; ours alone", KV_RIG_HUGE, 32, 1, 0, 0, true},
	{0},
};

/* ---- a run on one server ---- */

static double over(double a, uint64_t b)
{
	return b ? a / (double)b : 0;
}

static void take_metrics(const struct fth_kv_load_result *r, const struct fth_kv_usage_counts *from,
			 const struct fth_kv_usage_counts *to, double metric[KV_METRICS])
{
	uint64_t keys = r->gets + r->sets;

	metric[KV_RATE] = over((double)keys * 1e9, r->ns);
	metric[KV_CPU] = over((to->cpu_s - from->cpu_s) * 1e6, keys);
	metric[KV_P50] = (double)fth_latency_quantile(&r->latency, 0.5) / 1e3;
	metric[KV_P99] = (double)fth_latency_quantile(&r->latency, 0.99) / 1e3;
	metric[KV_P999] = (double)fth_latency_quantile(&r->latency, 0.999) / 1e3;
	metric[KV_RSS] = (double)to->rss;
	metric[KV_READS] = over((double)(to->device_reads - from->device_reads), r->gets);
	metric[KV_READ_BYTES] = over((double)(to->read_bytes - from->read_bytes), r->gets);
	metric[KV_HITS] = over((double)r->hits, r->gets);
}

static int judge(const struct kv_rig *rig, unsigned side, const struct fth_kv_load_result *r)
{
	if (fth_cli_stopped())
		return -EINTR;
	/* Wrong values of the peer are counted and reported; they do not end the run. */
	if (side == 0 && (r->wrong || r->stale))
		return fth_fail(EILSEQ, "%s gave %llu wrong and %llu stale values",
				side ? rig->config->memcached : "ours",
				(unsigned long long)r->wrong, (unsigned long long)r->stale);
	if (r->timeouts || r->broken)
		return fth_fail(EIO, "%s: %llu requests timed out, %llu connections broke: %s",
				side ? rig->config->memcached : "ours",
				(unsigned long long)r->timeouts, (unsigned long long)r->broken,
				r->answer);
	return 0;
}

static int run_load(struct kv_rig *rig, unsigned side, struct fth_kv_load *load,
		    struct fth_kv_load_result *result, struct kv_measured *out,
		    double metric[KV_METRICS])
{
	struct fth_kv_usage_counts from, to;
	int rc = fth_kv_side_counts(&rig->side[side], &from);

	load->server = rig->side[side].address;
	load->data = &rig->data[side];
	load->timeout_ns = TIMEOUT_NS;
	if (rc == 0)
		rc = fth_kv_load_run(load, result);
	if (rc == 0)
		out->wrong[side] += result->wrong + result->stale;
	if (rc == 0)
		rc = judge(rig, side, result);
	if (rc == 0)
		rc = fth_kv_side_counts(&rig->side[side], &to);
	if (rc == 0 && metric)
		take_metrics(result, &from, &to, metric);
	return rc;
}

static struct fth_kv_load row_load(const struct kv_rig *rig, const struct kv_row *row,
				   uint64_t seed)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;

	load.connections = row->connections;
	load.threads = (unsigned)rig->config->client_threads;
	load.batch = row->batch;
	load.set_share = row->sets;
	load.zipf = row->zipf;
	load.seconds = rig->config->seconds;
	load.seed = seed;
	load.label = row->name;
	return load;
}

/* ---- rows that measure more ---- */

static int measure_memory(struct kv_rig *rig, struct kv_measured *out)
{
	uint64_t items = rig->data[0].items, index;
	struct fth_kv_usage_counts counts;
	int rc = fth_kv_load_stat(rig->side[0].address, "", "index_bytes", &index);

	for (unsigned side = 0; side < 2 && rc == 0; side++) {
		if (!kv_rig_has(rig, side))
			continue;
		rc = fth_kv_side_counts(&rig->side[side], &counts);
		out->rss_per_item[side] =
			((double)counts.rss - (side ? 0 : (double)rig->memory)) / (double)items;
	}
	out->index_per_item = (double)index / (double)items;
	return rc;
}

/* Overwrite at random; then look which keys are left. */
static int measure_wear(struct kv_rig *rig, unsigned side, struct kv_measured *out)
{
	uint64_t items = rig->data[side].items, bytes;
	struct fth_kv_load load = FTH_KV_LOAD_INIT;
	struct fth_kv_usage_counts from, to;
	struct fth_kv_load_result result;
	int rc = fth_kv_side_counts(&rig->side[side], &from);

	load.set_share = 1;
	load.seconds = 1e6;
	load.keys = WEAR_ROUNDS * items;
	load.rate = rig->config->pace;
	load.label = side ? "overwriting the peer" : "overwriting ours";
	if (rc == 0)
		rc = run_load(rig, side, &load, &result, out, NULL);
	if (rc < 0)
		return rc;
	bytes = result.stored * (FTH_KV_LOAD_KEY + rig->data[side].value_bytes);
	fth_kv_side_settle(&rig->side[side], rig->config->settle_ms);
	rc = fth_kv_side_counts(&rig->side[side], &to);
	out->amplification[side] = over((double)(to.write_bytes - from.write_bytes), bytes);
	load = (struct fth_kv_load)FTH_KV_LOAD_INIT;
	load.mode = FTH_KV_LOAD_SWEEP;
	load.batch = SWEEP_BATCH;
	load.label = side ? "looking through the peer" : "looking through ours";
	if (rc == 0)
		rc = run_load(rig, side, &load, &result, out, NULL);
	out->kept[side] = over((double)result.hits, result.gets);
	return rc;
}

/* ---- a row ---- */

static int measure_round(struct kv_rig *rig, const struct kv_row *row, uint64_t seed,
			 struct kv_measured *out)
{
	double metric[2][KV_METRICS] = {{0}};
	int rc = 0;

	for (unsigned side = 0; side < 2 && rc == 0; side++) {
		struct fth_kv_load load = row_load(rig, row, seed);
		struct fth_kv_load_result result;

		if (!kv_rig_has(rig, side))
			continue;
		rc = run_load(rig, side, &load, &result, out, metric[side]);
		if (rc == 0 && row->sets > 0)
			fth_kv_side_settle(&rig->side[side], rig->config->settle_ms);
	}
	for (unsigned m = 0; m < KV_METRICS && rc == 0; m++)
		fth_rounds_add(&out->metric[m], metric[0][m], metric[1][m]);
	return rc;
}

int kv_row_measure(struct kv_rig *rig, const struct kv_row *row, struct kv_measured *out)
{
	int rc = 0;

	out->ours_only = !kv_rig_has(rig, 1);
	if (row->rig == KV_RIG_WEAR) {
		rc = measure_wear(rig, 0, out);
		return rc == 0 && kv_rig_has(rig, 1) ? measure_wear(rig, 1, out) : rc;
	}
	for (uint64_t i = 0; i < rig->config->rounds && rc == 0; i++)
		rc = measure_round(rig, row, 1 + i, out);
	if (rc == 0 && (row->rig == KV_RIG_SMALL || row->rig == KV_RIG_HUGE))
		rc = measure_memory(rig, out);
	return rc;
}
