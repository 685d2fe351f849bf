/* SPDX-License-Identifier: BSD-2-Clause */
#include "kv_rows.h"

#include "cli.h"

#include "fathom/base/error.h"

#include <errno.h>

#define FILL_BATCH	16u
#define SMALL_VALUE	100u
#define OVERHEAD	96u  /* bytes of flash for an item beside its value, at most */
#define PEER_ITEM	134u /* bytes of memory for an item on flash: 256 MB for 2 M */
#define PEER_DRAM_ITEM	400u /* the same beside its value, where it is in memory */
#define PEER_MEMORY_MIN (64u << 20)
#define OURS_MEMORY_MIN (8u << 20)
#define OURS_BASE	(26u << 20) /* RSS beside index and items: program, buffers of log and reads */
#define OURS_INDEX_ITEM 17u

static uint64_t rig_items(const struct kv_config *config, enum kv_rig_kind kind)
{
	if (kind == KV_RIG_SMALL)
		return config->small_items;
	return kind == KV_RIG_HUGE ? config->huge_items : config->items;
}

static uint64_t rig_value(const struct kv_config *config, enum kv_rig_kind kind)
{
	return kind == KV_RIG_SMALL || kind == KV_RIG_HUGE ? SMALL_VALUE : config->value;
}

static uint64_t peer_memory(const struct kv_rig *rig, uint64_t items, uint64_t value)
{
	uint64_t bytes = items * (rig->kind == KV_RIG_DRAM ? value + PEER_DRAM_ITEM : PEER_ITEM);

	if (rig->config->peer_memory && rig->kind != KV_RIG_DRAM)
		return rig->config->peer_memory;
	return bytes > PEER_MEMORY_MIN ? bytes : PEER_MEMORY_MIN;
}

/* The peer runs already where its RSS is the measure. */
static uint64_t ours_memory(const struct kv_rig *rig, uint64_t items, uint64_t value)
{
	struct fth_kv_usage_counts peer;
	uint64_t other = OURS_BASE + items * OURS_INDEX_ITEM;

	if (rig->kind == KV_RIG_DRAM)
		return items * (value + PEER_DRAM_ITEM) + OURS_MEMORY_MIN;
	if (rig->kind != KV_RIG_EQUAL || !kv_rig_has(rig, 1) ||
	    fth_kv_side_counts(&rig->side[1], &peer) < 0)
		return rig->config->memory;
	return peer.rss > other + OURS_MEMORY_MIN ? peer.rss - other : OURS_MEMORY_MIN;
}

static int fill(struct kv_rig *rig, unsigned side)
{
	struct fth_kv_load load = FTH_KV_LOAD_INIT;
	struct fth_kv_load_result result;
	int rc;

	load.server = rig->side[side].address;
	load.data = &rig->data[side];
	load.mode = FTH_KV_LOAD_FILL;
	load.batch = FILL_BATCH;
	load.rate = side == 1 && rig->side[side].path[0] ? rig->config->pace : 0;
	load.label = side ? "filling the peer" : "filling ours";
	rc = fth_kv_load_run(&load, &result);
	if (rc == 0 && fth_cli_stopped())
		return -EINTR;
	if (rc == 0 && result.stored != rig->data[side].items && side == 0)
		return fth_fail(EIO, "ours stored %llu of %llu items: %s",
				(unsigned long long)result.stored,
				(unsigned long long)rig->data[side].items, result.answer);
	if (rc == 0)
		fth_kv_side_settle(&rig->side[side], rig->config->settle_ms);
	return rc;
}

static int open_side(struct kv_rig *rig, unsigned side)
{
	const struct kv_config *config = rig->config;
	uint64_t items = rig_items(config, rig->kind), value = rig_value(config, rig->kind);
	struct fth_kv_side_plan plan = {
		.peer = side == 1,
		.program = side ? config->memcached : config->fathom,
		.folder = config->folder,
		.items = items,
		.value_bytes = value,
		.threads = (unsigned)config->threads,
		.flash =
			rig->kind == KV_RIG_DRAM ? 0 : 2 * items * (value + OVERHEAD) + (64u << 20),
	};
	int rc;

	plan.memory = side ? peer_memory(rig, items, value) : ours_memory(rig, items, value);
	if (!side)
		rig->memory = plan.memory;
	rc = fth_kv_data_init(&rig->data[side], items, (uint32_t)value);
	if (rc == 0)
		rc = fth_kv_side_start(&rig->side[side], &plan);
	return rc == 0 ? fill(rig, side) : rc;
}

bool kv_rig_has(const struct kv_rig *rig, unsigned side)
{
	return rig->side[side].pid > 0;
}

int kv_rig_open(struct kv_rig *rig, const struct kv_config *config, enum kv_rig_kind kind)
{
	int rc = 0;

	*rig = (struct kv_rig){.config = config, .kind = kind};
	if (config->has_peer && kind != KV_RIG_HUGE)
		rc = open_side(rig, 1);
	if (rc == 0)
		rc = open_side(rig, 0);
	if (rc < 0)
		kv_rig_close(rig);
	return rc;
}

void kv_rig_close(struct kv_rig *rig)
{
	for (unsigned side = 0; side < 2; side++) {
		fth_kv_side_stop(&rig->side[side]);
		fth_kv_data_release(&rig->data[side]);
	}
}
