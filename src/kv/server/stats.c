/* SPDX-License-Identifier: BSD-2-Clause */
/* The command `stats`, with memcached's names where there is one. */
#include "kv/server/server.h"

#include "fathom/hd/wait.h"
#include "fathom/base/version.h"

#include "kv/kv_internal.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

static void put(struct bytes *out, const char *name, uint64_t value)
{
	bytes_printf(out, "STAT %s %" PRIu64 "\r\n", name, value);
}

static uint64_t commands(const struct fth_kv_server *server, enum kvp_command command)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < server->workers_count; i++)
		n += __atomic_load_n(&server->workers[i].commands[command], __ATOMIC_RELAXED);
	return n;
}

static void general(struct fth_kv_server *server, struct bytes *out)
{
	struct fth_kv_server_counts counts;
	struct fth_kv_usage usage;
	struct rusage self;
	uint64_t memory = fth_kv_stat(server->kv, FTH_KV_STAT_HITS_MEMORY);
	uint64_t flash = fth_kv_stat(server->kv, FTH_KV_STAT_HITS_FLASH);

	fth_kv_server_counts(server, &counts);
	fth_kv_usage(server->kv, &usage);
	getrusage(RUSAGE_SELF, &self);
	put(out, "pid", (uint64_t)getpid());
	put(out, "uptime", (fth_now_ns() - server->started_ns) / 1000000000u);
	put(out, "time", kv_now());
	bytes_printf(out, "STAT version fathom-%s\r\n", FTH_VERSION_STRING);
	put(out, "pointer_size", 8 * sizeof(void *));
	bytes_printf(out, "STAT rusage_user %ld.%06ld\r\n", (long)self.ru_utime.tv_sec,
		     (long)self.ru_utime.tv_usec);
	bytes_printf(out, "STAT rusage_system %ld.%06ld\r\n", (long)self.ru_stime.tv_sec,
		     (long)self.ru_stime.tv_usec);
	put(out, "max_connections", server->connections_max);
	put(out, "curr_connections", counts.connections);
	put(out, "total_connections", counts.accepted);
	put(out, "rejected_connections", counts.refused);
	put(out, "cmd_get", fth_kv_stat(server->kv, FTH_KV_STAT_GETS));
	put(out, "cmd_set", commands(server, KVP_STORE) + commands(server, KVP_META_SET));
	put(out, "cmd_flush", commands(server, KVP_FLUSH_ALL));
	put(out, "cmd_touch", commands(server, KVP_TOUCH));
	put(out, "get_hits", memory + flash);
	put(out, "get_misses", fth_kv_stat(server->kv, FTH_KV_STAT_MISSES));
	put(out, "get_expired", fth_kv_stat(server->kv, FTH_KV_STAT_EXPIRED));
	put(out, "get_extstore", flash);
	put(out, "bytes_read", counts.bytes_read);
	put(out, "bytes_written", counts.bytes_written);
	put(out, "limit_maxbytes", server->kv->options.memory);
	put(out, "threads", server->workers_count);
	put(out, "bytes", usage.memory_bytes);
	put(out, "curr_items", usage.items);
	put(out, "total_items", fth_kv_stat(server->kv, FTH_KV_STAT_SETS));
	put(out, "evictions", fth_kv_stat(server->kv, FTH_KV_STAT_INDEX_DROPPED));
	put(out, "index_bytes", usage.index_bytes);
	put(out, "index_items", usage.index_items);
	put(out, "memory_items", usage.memory_items);
	put(out, "flash_bytes", usage.flash_bytes);
	put(out, "flash_used", usage.flash_used);
	for (unsigned i = 0; i < FTH_KV_STAT_COUNT; i++)
		bytes_printf(out, "STAT kv_%s %" PRIu64 "\r\n", fth_kv_stat_name(i),
			     fth_kv_stat(server->kv, i));
}

static void settings(struct fth_kv_server *server, struct bytes *out)
{
	static const char *const persistence[] = {"volatile", "write-back", "write-through"};
	const struct fth_kv_options *o = &server->kv->options;

	put(out, "maxbytes", o->memory);
	put(out, "maxconns", server->connections_max);
	put(out, "tcpport", server->port);
	put(out, "num_threads", server->workers_count);
	put(out, "item_size_max", o->value_max);
	put(out, "chunk", o->chunk);
	put(out, "buffers", o->buffers);
	put(out, "readmit", o->readmit);
	put(out, "window_ms", o->window_ms);
	bytes_printf(out, "STAT persistence %s\r\n", persistence[o->persistence]);
	put(out, "idle_timeout", server->idle_ns / 1000000000u);
}

void stats_answer(struct fth_kv_server *server, struct kvp_text what, struct bytes *out)
{
	struct kvp_text word = kvp_word(&what);

	if (word.length == 0)
		general(server, out);
	else if (kvp_is(word, "settings"))
		settings(server, out);
	else if (kvp_is(word, "reset")) {
		bytes_printf(out, "RESET\r\n");
		return;
	} else if (!kvp_is(word, "items") && !kvp_is(word, "slabs") && !kvp_is(word, "sizes") &&
		   !kvp_is(word, "conns")) {
		bytes_printf(out, "ERROR\r\n");
		return;
	}
	bytes_printf(out, "END\r\n");
}
