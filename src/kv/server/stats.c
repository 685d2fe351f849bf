/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures of the server, and the command `stats`, with memcached's names where there is one.
 *
 * Each worker counts for itself, without locks; who asks adds up. `stats reset` keeps a copy of all
 * counters, which later answers take away. What Prometheus gets is never reset, as it expects.
 */
#include "kv/server/server.h"

#include "fathom/hd/wait.h"

#include "kv/kv_access.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

const char *const kvs_kind_names[KIND_NUMBER] = {"get", "set", "delete", "incr", "touch", "other"};

/* ---- counting ---- */

static enum kvs_kind kind_of(enum kvp_command command)
{
	switch (command) {
	case KVP_GET:
	case KVP_META_GET:
		return KIND_GET;
	case KVP_STORE:
	case KVP_META_SET:
		return KIND_SET;
	case KVP_DELETE:
	case KVP_META_DELETE:
		return KIND_DELETE;
	case KVP_COUNT:
	case KVP_META_COUNT:
		return KIND_COUNT;
	case KVP_TOUCH:
		return KIND_TOUCH;
	default:
		return KIND_OTHER;
	}
}

static void count_cas(struct kvs_counts *counts, int result)
{
	if (result == 0)
		kvs_add(&counts->cas_hits, 1);
	else if (result == -EBUSY)
		kvs_add(&counts->cas_badval, 1);
	else if (result == -ENOENT)
		kvs_add(&counts->cas_misses, 1);
}

/* A task is about to be answered. */
void stats_latency(struct kvs_worker *worker, const struct task *task)
{
	struct kvs_counts *counts = &worker->counts;
	enum kvs_kind kind = kind_of(task->line.command);
	uint64_t ns = worker->now > task->started_ns ? worker->now - task->started_ns : 0;
	unsigned bucket = ns ? 64 - (unsigned)__builtin_clzll(ns) : 0;

	if (task->simple)
		return;
	if (bucket >= LATENCY_BUCKETS)
		bucket = LATENCY_BUCKETS - 1;
	kvs_add(&counts->latency[kind][bucket], 1);
	kvs_add(&counts->latency_ns[kind], ns);
	if (task->op.result == 0)
		kvs_add(&counts->hits[kind], 1);
	if (task->op.result == 0 && kind == KIND_GET && task->op.from_flash)
		kvs_add(&counts->flash_gets, 1);
	if (task->op.result == -ENOENT)
		kvs_add(&counts->misses[kind], 1);
	if (task->line.has_cas)
		count_cas(counts, task->op.result);
}

#define WORDS (sizeof(struct kvs_counts) / sizeof(uint64_t))
_Static_assert(sizeof(struct kvs_counts) % sizeof(uint64_t) == 0, "nothing but counters");

void stats_sum(const struct fth_kv_server *server, struct kvs_counts *out)
{
	uint64_t *to = (uint64_t *)out;

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < server->workers_count; i++) {
		const uint64_t *from = (const uint64_t *)&server->workers[i].counts;

		for (size_t word = 0; word < WORDS; word++)
			to[word] += __atomic_load_n(&from[word], __ATOMIC_RELAXED);
	}
}

/* Counters since the last reset, taken at once. */
struct since {
	struct kvs_counts counts;
	uint64_t refused;
	uint64_t kv[FTH_KV_STAT_COUNT];
};

static void since_reset(struct fth_kv_server *server, struct since *out)
{
	uint64_t *to = (uint64_t *)&out->counts;
	const uint64_t *base = (const uint64_t *)&server->base;

	stats_sum(server, &out->counts);
	pthread_mutex_lock(&server->reset_lock);
	for (size_t word = 0; word < WORDS; word++)
		to[word] -= base[word] < to[word] ? base[word] : to[word];
	out->refused = __atomic_load_n(&server->refused, __ATOMIC_RELAXED) - server->base_refused;
	for (unsigned i = 0; i < FTH_KV_STAT_COUNT; i++)
		out->kv[i] = fth_kv_stat(server->kv, i) - server->base_kv[i];
	pthread_mutex_unlock(&server->reset_lock);
}

static void reset(struct fth_kv_server *server)
{
	struct kvs_counts sum;

	stats_sum(server, &sum);
	pthread_mutex_lock(&server->reset_lock);
	server->base = sum;
	server->base_refused = __atomic_load_n(&server->refused, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < FTH_KV_STAT_COUNT; i++)
		server->base_kv[i] = fth_kv_stat(server->kv, i);
	pthread_mutex_unlock(&server->reset_lock);
}

uint64_t stats_resident(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*s %llu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- answers ---- */

static void put(struct bytes *out, const char *name, uint64_t value)
{
	bytes_printf(out, "STAT %s %" PRIu64 "\r\n", name, value);
}

static void put_process(struct fth_kv_server *server, struct bytes *out)
{
	struct rusage self;

	getrusage(RUSAGE_SELF, &self);
	put(out, "pid", (uint64_t)getpid());
	put(out, "uptime", (fth_now_ns() - server->started_ns) / 1000000000u);
	put(out, "time", kv_now());
	bytes_printf(out, "STAT version %s\r\n", KVS_VERSION);
	put(out, "pointer_size", 8 * sizeof(void *));
	bytes_printf(out, "STAT rusage_user %ld.%06ld\r\n", (long)self.ru_utime.tv_sec,
		     (long)self.ru_utime.tv_usec);
	bytes_printf(out, "STAT rusage_system %ld.%06ld\r\n", (long)self.ru_stime.tv_sec,
		     (long)self.ru_stime.tv_usec);
}

static void put_commands(const struct since *s, struct bytes *out)
{
	const struct kvs_counts *c = &s->counts;

	put(out, "cmd_get", c->hits[KIND_GET] + c->misses[KIND_GET]);
	put(out, "cmd_set", c->commands[KVP_STORE] + c->commands[KVP_META_SET]);
	put(out, "cmd_flush", c->commands[KVP_FLUSH_ALL]);
	put(out, "cmd_touch", c->commands[KVP_TOUCH]);
	put(out, "cmd_meta",
	    c->commands[KVP_META_GET] + c->commands[KVP_META_SET] + c->commands[KVP_META_DELETE] +
		    c->commands[KVP_META_COUNT] + c->commands[KVP_META_NOOP] +
		    c->commands[KVP_META_DEBUG]);
	put(out, "get_hits", c->hits[KIND_GET]);
	put(out, "get_misses", c->misses[KIND_GET]);
	put(out, "get_expired", s->kv[FTH_KV_STAT_EXPIRED]);
	put(out, "get_extstore", c->flash_gets);
	put(out, "delete_misses", c->misses[KIND_DELETE]);
	put(out, "delete_hits", c->hits[KIND_DELETE]);
	put(out, "incr_misses", c->misses[KIND_COUNT]); /* decrements are counted with these */
	put(out, "incr_hits", c->hits[KIND_COUNT]);
	put(out, "cas_misses", c->cas_misses);
	put(out, "cas_hits", c->cas_hits);
	put(out, "cas_badval", c->cas_badval);
	put(out, "touch_hits", c->hits[KIND_TOUCH]);
	put(out, "touch_misses", c->misses[KIND_TOUCH]);
	put(out, "auth_errors", c->closed_auth);
}

static void put_recovery(const struct fth_kv *kv, struct bytes *out)
{
	struct fth_kv_recovery recovery;

	fth_kv_recovery(kv, &recovery);
	put(out, "recovery_damaged_chunks", recovery.damaged_chunks);
	put(out, "recovery_bad_items", recovery.bad_items);
	put(out, "recovery_unreadable", recovery.unreadable);
}

static void put_usage(struct fth_kv_server *server, const struct since *s, struct bytes *out)
{
	struct fth_kv_usage usage;

	fth_kv_usage(server->kv, &usage);
	put(out, "limit_maxbytes", kv_options(server->kv)->memory);
	put(out, "threads", server->workers_count);
	put(out, "bytes", usage.memory_bytes);
	put(out, "curr_items", usage.items);
	put(out, "total_items", s->kv[FTH_KV_STAT_SETS]);
	put(out, "evictions", s->kv[FTH_KV_STAT_LOST]);
	put(out, "index_bytes", usage.index_bytes);
	put(out, "index_items", usage.index_items);
	put(out, "memory_items", usage.memory_items);
	put(out, "flash_bytes", usage.flash_bytes);
	put(out, "flash_used", usage.flash_used);
	put(out, "flash_reads_in_flight", usage.flash_reading);
	put(out, "log_failed", usage.log_failed);
	put(out, "resident_bytes", stats_resident());
}

/* The upper bound of the bucket below which so many per mille are. */
static uint64_t percentile(const uint64_t *buckets, unsigned per_mille)
{
	uint64_t all = 0, seen = 0;

	for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
		all += buckets[i];
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		seen += buckets[i];
		if (all && seen * 1000 >= all * per_mille)
			return UINT64_C(1) << i;
	}
	return 0;
}

static void put_latency(const struct since *s, struct bytes *out)
{
	for (unsigned kind = 0; kind < KIND_OTHER; kind++) {
		const uint64_t *buckets = s->counts.latency[kind];

		bytes_printf(out, "STAT latency_%s_p50_ns %" PRIu64 "\r\n", kvs_kind_names[kind],
			     percentile(buckets, 500));
		bytes_printf(out, "STAT latency_%s_p99_ns %" PRIu64 "\r\n", kvs_kind_names[kind],
			     percentile(buckets, 990));
	}
}

/*
 * The histogram: how many commands took less than so many nanoseconds, and at least half of that.
 */
static void latency(struct fth_kv_server *server, struct bytes *out)
{
	struct since s;

	since_reset(server, &s);
	for (unsigned kind = 0; kind < KIND_OTHER; kind++) {
		for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
			if (s.counts.latency[kind][i])
				bytes_printf(out, "STAT %s:%" PRIu64 " %" PRIu64 "\r\n",
					     kvs_kind_names[kind], UINT64_C(1) << i,
					     s.counts.latency[kind][i]);
		bytes_printf(out, "STAT %s:sum_ns %" PRIu64 "\r\n", kvs_kind_names[kind],
			     s.counts.latency_ns[kind]);
	}
}

static void general(struct fth_kv_server *server, struct bytes *out)
{
	struct since s;

	since_reset(server, &s);
	put_process(server, out);
	put(out, "max_connections", server->connections_max);
	put(out, "curr_connections", __atomic_load_n(&server->connections, __ATOMIC_RELAXED));
	put(out, "total_connections", s.counts.accepted);
	put(out, "rejected_connections", s.refused);
	put(out, "idle_kicks", s.counts.closed_idle);
	put(out, "slow_kicks", s.counts.closed_slow);
	put_commands(&s, out);
	put(out, "event_rounds", s.counts.rounds);
	put(out, "bytes_read", s.counts.bytes_read);
	put(out, "bytes_written", s.counts.bytes_written);
	put_usage(server, &s, out);
	put_recovery(server->kv, out);
	for (unsigned i = 0; i < FTH_KV_STAT_COUNT; i++)
		bytes_printf(out, "STAT kv_%s %" PRIu64 "\r\n", fth_kv_stat_name(i), s.kv[i]);
	put_latency(&s, out);
}

static void settings(struct fth_kv_server *server, struct bytes *out)
{
	static const char *const persistence[] = {"volatile", "write-back", "write-through"};
	const struct fth_kv_options *o = kv_options(server->kv);

	put(out, "maxbytes", o->memory);
	put(out, "maxconns", server->connections_max);
	put(out, "tcpport", server->listen.port);
	put(out, "num_threads", server->workers_count);
	put(out, "item_size_max", o->value_max);
	put(out, "chunk", o->chunk);
	put(out, "buffers", o->buffers);
	put(out, "readmit", o->readmit);
	put(out, "window_ms", o->window_ms);
	bytes_printf(out, "STAT persistence %s\r\n", persistence[o->persistence]);
	put(out, "idle_timeout", server->idle_ns / 1000000000u);
	bytes_printf(out, "STAT auth_enabled_ascii %s\r\n",
		     access_has_users(server->access) ? "yes" : "no");
	bytes_printf(out, "STAT ssl_enabled %s\r\n", access_has_tls(server->access) ? "yes" : "no");
	bytes_printf(out, "STAT binding_protocol ascii\r\n");
	bytes_printf(out, "STAT cas_enabled yes\r\nSTAT flush_enabled yes\r\n");
}

/* Tools for memcached expect slab classes: all items are in the first. */
static void items(struct fth_kv_server *server, struct bytes *out)
{
	struct fth_kv_usage usage;

	fth_kv_usage(server->kv, &usage);
	if (!usage.items)
		return;
	put(out, "items:1:number", usage.items);
	put(out, "items:1:number_hot", usage.memory_items);
	put(out, "items:1:number_cold",
	    usage.items > usage.memory_items ? usage.items - usage.memory_items : 0);
	put(out, "items:1:evicted", fth_kv_stat(server->kv, FTH_KV_STAT_LOST));
}

static void slabs(struct fth_kv_server *server, struct bytes *out)
{
	struct fth_kv_usage usage;

	fth_kv_usage(server->kv, &usage);
	put(out, "1:used_chunks", usage.memory_items);
	put(out, "1:mem_requested", usage.memory_bytes);
	put(out, "active_slabs", 1);
	put(out, "total_malloced", usage.memory_bytes);
}

/* By worker: the list of a worker's connections belongs to its thread. */
static void conns(struct fth_kv_server *server, struct bytes *out)
{
	for (unsigned i = 0; i < server->workers_count; i++) {
		const struct kvs_worker *w = &server->workers[i];

		bytes_printf(out, "STAT %u:connections %u\r\n", i,
			     __atomic_load_n(&w->conn_count, __ATOMIC_RELAXED));
		bytes_printf(out, "STAT %u:accepted %" PRIu64 "\r\n", i,
			     __atomic_load_n(&w->counts.accepted, __ATOMIC_RELAXED));
	}
}

void stats_answer(struct fth_kv_server *server, struct kvp_text what, struct bytes *out)
{
	struct kvp_text word = kvp_word(&what);

	if (word.length == 0) {
		general(server, out);
	} else if (kvp_is(word, "settings")) {
		settings(server, out);
	} else if (kvp_is(word, "items")) {
		items(server, out);
	} else if (kvp_is(word, "latency")) {
		latency(server, out);
	} else if (kvp_is(word, "slabs")) {
		slabs(server, out);
	} else if (kvp_is(word, "sizes")) {
		bytes_printf(out, "STAT sizes_status disabled\r\n");
	} else if (kvp_is(word, "conns")) {
		conns(server, out);
	} else if (kvp_is(word, "cachedump")) {
		bytes_printf(out, "%s", cachedump(server->kv, what, out));
		return;
	} else if (kvp_is(word, "reset")) {
		reset(server);
		bytes_printf(out, "RESET\r\n");
		return;
	} else {
		bytes_printf(out, "ERROR\r\n");
		return;
	}
	bytes_printf(out, "END\r\n");
}
