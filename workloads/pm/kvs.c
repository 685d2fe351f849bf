/* SPDX-License-Identifier: BSD-2-Clause */
/* gpKVS: items is operations of a batch, a step is a batch. */
#include "workloads/pm/kvs_kernels.h"

#include "workloads/pm/job.h"
#include "workloads/pm/transaction.h"
#include "fathom/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct kvs {
	struct pmw_kvs p;
	struct pmw_area pairs;
	uint64_t ways;
};

/*
 * The paper's store has 16 sets for each operation of a batch; a small one is so small that sets
 * overflow.
 */
static uint64_t sets_of(uint64_t items)
{
	return items >= 1u << 15 ? items * 16 : items / 2 + 1;
}

static uint64_t keys_of(uint64_t sets)
{
	uint64_t keys = 1;

	while (keys < sets * 4)
		keys *= 2;
	return keys;
}

static uint64_t kvs_bytes(uint64_t items, uint64_t steps)
{
	(void)steps;
	return sets_of(items) * PMW_KVS_WAYS * sizeof(struct pmw_kvs_pair) + PMW_ALIGN +
	       pmw_transaction_bytes(items, sizeof(struct pmw_kvs_undo));
}

static int kvs_check(uint64_t items)
{
	return items >= 1 && items <= 1u << 27
		       ? 0
		       : fth_fail(EINVAL, "items (operations per batch) must be 1 to 2^27");
}

static int undo_batch(struct pmw_job *job, const struct pmw_undo *undo)
{
	struct kvs *w = job->own;

	w->p.undo = *undo;
	return pmw_launch(job, PMW_KVS_UNDO, &w->p, pmw_groups(job->items, PMW_WARP));
}

static int kvs_memory(struct pmw_job *job, struct kvs *w)
{
	int rc = pmw_area(job, w->ways * sizeof(struct pmw_kvs_pair), &w->pairs);

	if (rc == 0)
		rc = pmw_take(job, w->ways * sizeof(struct pmw_kvs_pair), &w->p.copy);
	if (rc == 0)
		rc = pmw_take(job, w->ways * sizeof(uint32_t), &w->p.stamps);
	if (rc == 0)
		rc = pmw_take(job, job->items * sizeof(uint64_t), &w->p.values);
	if (rc == 0)
		rc = pmw_take(job, sizeof(uint64_t), &w->p.dropped);
	return rc;
}

/* For the order in which pairs are written. */
static int order_memory(struct pmw_job *job, struct kvs *w)
{
	int rc = pmw_take(job, job->items * sizeof(uint64_t), &w->p.chosen);

	if (rc == 0)
		rc = pmw_take(job, PMW_KVS_RANGES * sizeof(uint32_t), &w->p.counts);
	if (rc == 0)
		rc = pmw_take(job, PMW_KVS_RANGES * sizeof(uint32_t), &w->p.starts);
	if (rc == 0)
		rc = pmw_take(job, job->items * sizeof(uint32_t), &w->p.order);
	if (rc == 0)
		rc = pmw_take(job, sizeof(uint32_t), &w->p.ordered);
	while ((w->ways - 1) >> w->p.range_shift >= PMW_KVS_RANGES)
		w->p.range_shift++;
	return rc;
}

static int kvs_open_as(struct pmw_job *job, uint32_t set_percent)
{
	struct kvs *w = job->own;
	int rc;

	w->p.sets = sets_of(job->items);
	w->p.keys = keys_of(w->p.sets);
	w->p.operations = job->items;
	w->p.seed = job->options->seed;
	w->p.set_percent = set_percent;
	w->p.view = job->view;
	w->ways = w->p.sets * PMW_KVS_WAYS;
	rc = kvs_memory(job, w);
	if (rc == 0)
		rc = order_memory(job, w);
	w->p.pairs = (struct pmw_kvs_pair *)(void *)w->pairs.kernel;
	if (rc == 0)
		rc = pmw_transaction_open(job, job->items, sizeof(struct pmw_kvs_undo), undo_batch);
	return rc ? rc : pmw_launch(job, PMW_KVS_LOAD, &w->p, pmw_groups(w->ways, PMW_WARP));
}

static int kvs_open(struct pmw_job *job)
{
	return kvs_open_as(job, 100);
}

static int kvs_mixed_open(struct pmw_job *job)
{
	return kvs_open_as(job, 5);
}

static int run_batch(struct pmw_job *job, struct kvs *w)
{
	uint64_t items = pmw_groups(job->items, PMW_KVS_ITEM);
	int rc = pmw_launch(job, PMW_KVS_BATCH, &w->p, items);

	if (rc == 0)
		rc = pmw_launch(job, PMW_KVS_PLACE, &w->p, pmw_groups(PMW_KVS_RANGES, PMW_WARP));
	if (rc == 0)
		rc = pmw_launch(job, PMW_KVS_ORDER, &w->p, items);
	if (rc == 0)
		rc = pmw_launch(job, PMW_KVS_STORE, &w->p, items);
	return rc ? rc : pmw_launch(job, PMW_KVS_END, &w->p, 1);
}

static int kvs_step(struct pmw_job *job, uint64_t step)
{
	struct kvs *w = job->own;
	uint64_t sets = job->items / 100 * w->p.set_percent +
			(job->items % 100 < w->p.set_percent ? job->items % 100 : w->p.set_percent);
	int rc = pmw_transaction_begin(job, step, &w->p.undo);

	w->p.batch = (uint32_t)step + 1;
	if (rc == 0)
		rc = run_batch(job, w);
	if (rc == 0)
		rc = pmw_persist_area(
			job, &w->pairs, 0, w->pairs.bytes,
			sets * (sizeof(struct pmw_kvs_pair) + sizeof(struct pmw_kvs_undo) + 4));
	return rc ? rc : pmw_transaction_commit(job, step);
}

/* ---- checking ---- */

/* What a replay of all batches says of each key and set. */
struct replay {
	uint32_t *last;	  /* the batch that set each key last; 0: none did */
	uint32_t *counts; /* different keys of each set */
};

static int replay_all(struct pmw_job *job, struct replay *replay)
{
	struct kvs *w = job->own;

	replay->last = calloc(w->p.keys, sizeof(*replay->last));
	replay->counts = calloc(w->p.sets, sizeof(*replay->counts));
	if (!replay->last || !replay->counts)
		return fth_fail(ENOMEM, "no memory to check the result");
	for (uint64_t batch = 1; batch <= job->steps; batch++)
		for (uint64_t i = 0; i < job->items; i++) {
			uint64_t key;

			if (i % 100 >= w->p.set_percent)
				continue;
			key = pmw_kvs_key(&w->p, batch, i);
			if (!replay->last[key - 1])
				replay->counts[pmw_kvs_set_of(&w->p, key)]++;
			replay->last[key - 1] = (uint32_t)batch;
		}
	return 0;
}

/* A set holds as many pairs as it has keys, up to 8, and each with its last value. */
static int check_set(struct pmw_job *job, const struct replay *replay, uint64_t set,
		     const struct pmw_kvs_pair *pairs)
{
	struct kvs *w = job->own;
	uint32_t used = 0,
		 expected = replay->counts[set] < PMW_KVS_WAYS ? replay->counts[set] : PMW_KVS_WAYS;

	for (uint32_t way = 0; way < PMW_KVS_WAYS; way++) {
		uint64_t key = pairs[way].key;

		if (key == 0)
			continue;
		used++;
		if (key > w->p.keys || pmw_kvs_set_of(&w->p, key) != set ||
		    pairs[way].value != pmw_kvs_value(key, replay->last[key - 1]))
			return fth_fail(EILSEQ, "kvs: set %llu has key %llu with value %llx",
					(unsigned long long)set, (unsigned long long)key,
					(unsigned long long)pairs[way].value);
		if (replay->counts[set] <= PMW_KVS_WAYS)
			job->result->digest += fth_mix64(key ^ fth_mix64(pairs[way].value));
	}
	if (used != expected)
		return fth_fail(EILSEQ, "kvs: set %llu has %u pairs, expected %u",
				(unsigned long long)set, used, expected);
	return 0;
}

static int check_sets(struct pmw_job *job, const struct replay *replay)
{
	enum { SETS = 4096 };
	struct kvs *w = job->own;
	struct pmw_kvs_pair *pairs = malloc(SETS * PMW_KVS_WAYS * sizeof(*pairs));
	int rc = pairs ? 0 : fth_fail(ENOMEM, "no memory to check the result");

	for (uint64_t first = 0; rc == 0 && first < w->p.sets; first += SETS) {
		uint64_t count = w->p.sets - first < SETS ? w->p.sets - first : SETS;

		rc = pmw_download(job, pairs, w->p.pairs + first * PMW_KVS_WAYS,
				  count * PMW_KVS_WAYS * sizeof(*pairs));
		for (uint64_t set = 0; rc == 0 && set < count; set++)
			rc = check_set(job, replay, first + set, pairs + set * PMW_KVS_WAYS);
	}
	free(pairs);
	return rc;
}

/* What the last batch's GETs found: nothing, or a value that a batch gave this key. */
static int check_gets(struct pmw_job *job)
{
	struct kvs *w = job->own;
	uint64_t *values = malloc(job->items * sizeof(*values));
	int rc = values ? pmw_download(job, values, w->p.values, job->items * sizeof(*values))
			: fth_fail(ENOMEM, "no memory to check the result");

	for (uint64_t i = 0; rc == 0 && i < job->items; i++) {
		uint64_t key = pmw_kvs_key(&w->p, job->steps / 2, i),
			 batch = values[i] ^ fth_mix64(key) << 20;

		if (i % 100 >= w->p.set_percent && values[i] && (batch == 0 || batch > job->steps))
			rc = fth_fail(EILSEQ, "kvs: get of key %llu found %llx",
				      (unsigned long long)key, (unsigned long long)values[i]);
	}
	free(values);
	return rc;
}

static int kvs_finish(struct pmw_job *job)
{
	struct replay replay = {NULL, NULL};
	int rc = replay_all(job, &replay);

	if (rc == 0)
		rc = check_sets(job, &replay);
	if (rc == 0 && job->result->resumed < job->steps)
		rc = check_gets(job);
	free(replay.last);
	free(replay.counts);
	return rc;
}

const struct fth_pmw_workload pmw_kvs_workload = {
	.name = "kvs",
	.kind = FTH_PMW_TRANSACTIONAL,
	.items = 2000,
	.steps = 10,
	.paper_items = 2 << 20,
	.paper_steps = 25,
	.own = sizeof(struct kvs),
	.bytes = kvs_bytes,
	.check = kvs_check,
	.open = kvs_open,
	.done = pmw_transaction_done,
	.step = kvs_step,
	.finish = kvs_finish,
};

const struct fth_pmw_workload pmw_kvs_mixed_workload = {
	.name = "kvs95",
	.kind = FTH_PMW_TRANSACTIONAL,
	.items = 20000,
	.steps = 10,
	.paper_items = 2 << 20,
	.paper_steps = 100,
	.own = sizeof(struct kvs),
	.bytes = kvs_bytes,
	.check = kvs_check,
	.open = kvs_mixed_open,
	.done = pmw_transaction_done,
	.step = kvs_step,
	.finish = kvs_finish,
};
