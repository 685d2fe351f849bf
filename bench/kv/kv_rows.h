/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of `fathom bench kv`, the pairs of servers that they run on, and what is measured.
 *
 *	bench_kv.c	options and report
 *	kv_rows.c	the table of rows; one run of a row on one server
 *	kv_rig.c	a pair of servers that hold the same items
 *	kv_side.c	one server
 */
#ifndef FTH_BENCH_KV_ROWS_H
#define FTH_BENCH_KV_ROWS_H

#include "kv_load.h"
#include "kv_side.h"
#include "common/rounds.h"

/* What both servers of a row hold, and where. */
enum kv_rig_kind {
	KV_RIG_COLD,  /* on flash; ours with little memory */
	KV_RIG_EQUAL, /* the same; ours with so much memory that it has the peer's RSS */
	KV_RIG_DRAM,  /* in memory, without flash */
	KV_RIG_SMALL, /* many items of 100 bytes on flash */
	KV_RIG_WEAR,  /* on flash, to be overwritten */
	KV_RIG_HUGE,  /* as SMALL, still more of them; ours alone */
	KV_RIGS
};

enum kv_metric {
	KV_RATE,       /* keys in a second */
	KV_CPU,	       /* us of the server's processor for a key */
	KV_P50,	       /* us */
	KV_P99,	       /* us */
	KV_P999,       /* us */
	KV_RSS,	       /* bytes */
	KV_READS,      /* requests of the device for a get */
	KV_READ_BYTES, /* that the server caused to be read, for a get */
	KV_HITS,       /* share of the gets */
	KV_METRICS
};
extern const char *const kv_metric_names[KV_METRICS];

struct kv_row {
	const char *name;
	const char *what;
	enum kv_rig_kind rig;
	unsigned connections;
	unsigned batch;
	double sets; /* share */
	double zipf;
	bool asked; /* runs only if it is named */
};
#define KV_ROWS_MAX 16
extern const struct kv_row kv_rows[]; /* ended by one without name */

struct kv_measured {
	struct fth_rounds metric[KV_METRICS];
	uint64_t wrong[2]; /* ours, the peer's: wrong and stale values */
	bool ours_only;
	/* Rows that measure more than a load. [0] ours, [1] the peer's. */
	double index_per_item; /* bytes, ours; 0: not measured */
	double rss_per_item[2];
	double amplification[2]; /* bytes written for a byte of items that was set */
	double kept[2];		 /* share of the keys after that */
};

struct kv_config {
	const char *fathom, *memcached, *folder;
	bool has_peer;
	uint64_t items, value;
	uint64_t small_items, huge_items;
	uint64_t memory;      /* of ours on flash */
	uint64_t peer_memory; /* 0: by the items */
	uint64_t threads;     /* of a server */
	uint64_t client_threads;
	uint64_t pace; /* items in a second while the peer is filled */
	uint64_t rounds;
	unsigned settle_ms; /* a server that writes nothing for so long is at rest */
	double seconds;
};

/* Two servers with the same items. Zero-initialise. */
struct kv_rig {
	const struct kv_config *config;
	enum kv_rig_kind kind;
	struct fth_kv_side side[2]; /* ours, the peer */
	struct fth_kv_data data[2];
	uint64_t memory; /* of ours */
};

/* Start both and fill them. 0 or a negative errno with a text. */
int kv_rig_open(struct kv_rig *rig, const struct kv_config *config, enum kv_rig_kind kind);
bool kv_rig_has(const struct kv_rig *rig, unsigned side);
void kv_rig_close(struct kv_rig *rig);

/* Alternating runs of a row. */
int kv_row_measure(struct kv_rig *rig, const struct kv_row *row, struct kv_measured *out);

#endif
