/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power losses. A cache runs on a device that loses its power at a random operation; what was
 * written and not flushed survives, vanishes or is torn. The cache is opened again on what is left,
 * and each key must have the value of its last acknowledged change, or of one that was under way
 * then; never anything else. With write-back it may have that of an earlier change, but of none
 * that was followed by one acknowledged more than the window before the last. The same must hold if
 * a checkpoint or one of the superblocks is damaged then. With an index that has too little room a
 * key may be gone at any time, but never have an older value. FTH_LONG_TESTS=1 runs many more.
 */
#include "fathom/kv.h"

#include "fathom/base/rng.h"
#include "fathom/dev/crash.h"
#include "fathom/hd/wait.h"

#include "fth_test.h"
#include "kv/test/spoil_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS	  60u
#define VALUE_MAX 3000u
#define RENEW	  16u  /* losses after which all keys are written anew */
#define CHANGES	  256u /* of a key between two losses */
#define WINDOW_MS 2u   /* of write-back */

/* A version that a key has had. 0 stands for "not there". */
struct change {
	uint32_t version;
	uint64_t when; /* it was acknowledged; UINT64_MAX: it failed or was cut off */
};

/* Since the last power loss, and before them what was found then. */
struct key {
	unsigned count;
	struct change changes[CHANGES];
};

struct run {
	struct fth_rng rng;
	struct fth_dev *dev;
	struct fth_kv *kv;
	struct fth_kv_worker *worker;
	enum fth_kv_persistence persistence;
	bool damage; /* after each loss */
	uint64_t items;
	bool tight; /* the index has not room for all: items may be gone */
	struct key keys[KEYS];
	uint64_t last; /* when the last change began that was acknowledged */
	uint32_t version;
	uint64_t losses, unclean, replayed, rebuilt;
	uint64_t lost; /* changes after the one that was found, those cut off included */
};

static void fill_value(unsigned i, uint32_t version, uint32_t length, uint8_t *value)
{
	struct fth_rng rng = {(uint64_t)i << 32 | version};

	for (uint32_t at = 0; at < length; at++)
		value[at] = (uint8_t)fth_rng_next(&rng);
}

static uint32_t length_of(unsigned i, uint32_t version)
{
	struct fth_rng rng = {(uint64_t)version << 20 | i};

	return (uint32_t)fth_rng_below(&rng, VALUE_MAX);
}

static int do_op(struct run *r, struct fth_kv_op *op, unsigned i)
{
	char key[16];
	int rc;

	op->key_length = (uint32_t)snprintf(key, sizeof(key), "k%u", i);
	op->key = key;
	rc = fth_kv_do(r->worker, op, fth_deadline_ns(20000000000u));
	assert_int_not_equal(rc, -ETIMEDOUT);
	return rc;
}

/* The version of a key, after its value was compared. */
static uint32_t version_now(struct run *r, unsigned i)
{
	struct fth_kv_op op = {.verb = FTH_KV_GET};
	uint8_t value[VALUE_MAX];
	int rc = do_op(r, &op, i);

	assert_true(rc == 0 || rc == -ENOENT);
	if (rc < 0)
		return 0;
	assert_int_equal(op.length, length_of(i, op.item_flags));
	fill_value(i, op.item_flags, op.length, value);
	assert_memory_equal(op.data, value, op.length);
	fth_kv_release(r->worker, &op);
	return op.item_flags;
}

/* The change whose effect must have survived: none of those before it may be found. */
static unsigned first_allowed(const struct run *r, const struct key *k)
{
	uint64_t window = r->persistence == FTH_KV_WRITE_BACK ? WINDOW_MS * UINT64_C(1000000) : 0;
	unsigned first = 0;

	for (unsigned n = 1; n < k->count; n++)
		if (k->changes[n].when <= r->last && r->last - k->changes[n].when >= window)
			first = n;
		else if (k->changes[n].when != UINT64_MAX && !window)
			first = n;
	return first;
}

/*
 * The index has dropped the item, or it was deleted: nobody knows. The log may have it still, with
 * the value that it had to have or with that of a later change, until one is acknowledged again.
 */
static void forget_older(struct key *k, unsigned first)
{
	memmove(k->changes, k->changes + first, (k->count - first) * sizeof(*k->changes));
	k->count -= first;
	k->changes[0].when = 0;
	for (unsigned n = 1; n < k->count; n++)
		k->changes[n].when = UINT64_MAX;
}

/* What a key has after a loss must be allowed; from then on it has that. */
static void check(struct run *r, unsigned i)
{
	struct key *k = &r->keys[i];
	uint32_t version = version_now(r, i);
	unsigned first = first_allowed(r, k), n = k->count;

	while (n > first && k->changes[n - 1].version != version)
		n--;
	if (n == first && !(r->tight && version == 0))
		fail_msg("key %u has version %u; allowed are %u (change %u of %u) and later ones",
			 i, version, k->changes[first].version, first, k->count);
	if (r->tight && version == 0) {
		forget_older(k, first);
		return;
	}
	r->lost += k->count - n;
	k->changes[0] = (struct change){version, 0};
	k->count = 1;
}

/* Store a new version, or delete. False: the power has gone. */
static bool change(struct run *r, unsigned i)
{
	bool remove = fth_rng_below(&r->rng, 5) == 0, good;
	uint32_t version = remove ? 0 : ++r->version;
	uint8_t value[VALUE_MAX];
	struct fth_kv_op op = {
		.verb = remove ? FTH_KV_DELETE : FTH_KV_SET, .value = value, .flags = version};
	uint64_t begin = fth_now_ns();
	struct key *k = &r->keys[i];
	int rc;

	assert_true(k->count < CHANGES);
	if (!remove) {
		op.value_length = length_of(i, version);
		fill_value(i, version, op.value_length, value);
	}
	rc = do_op(r, &op, i);
	good = rc == 0 || (remove && rc == -ENOENT);
	if (rc == 0)
		r->last = begin;
	/* Where the index drops items, that a key is gone says nothing of it: the delete counts. */
	if (rc != -ENOENT || r->tight)
		k->changes[k->count++] = (struct change){version, good ? fth_now_ns() : UINT64_MAX};
	fth_kv_release(r->worker, &op);
	return good;
}

static int open_kv(struct run *r)
{
	struct fth_kv_options o = FTH_KV_OPTIONS_INIT;
	struct fth_kv_recovery recovery;
	int rc;

	o.memory = 512 << 10;
	o.value_max = 4096;
	o.chunk = 65536;
	o.buffers = 3;
	o.items = r->tight && fth_rng_below(&r->rng, 4) == 0 ? 2 * KEYS : r->items;
	o.persistence = r->persistence;
	o.window_ms = WINDOW_MS;
	rc = fth_kv_open_dev(&o, r->dev, &r->kv);
	if (rc < 0)
		return rc;
	fth_kv_recovery(r->kv, &recovery);
	r->unclean += recovery.found && !recovery.clean;
	r->replayed += recovery.chunks_read;
	r->rebuilt += recovery.index_damaged;
	assert_int_equal(recovery.damaged_chunks, 0);
	assert_ok(fth_kv_worker_open(r->kv, &r->worker));
	return 0;
}

/* Of a key that has had few changes. */
static bool change_any(struct run *r)
{
	unsigned i = (unsigned)fth_rng_below(&r->rng, KEYS);

	while (r->keys[i].count == CHANGES)
		i = (i + 1) % KEYS;
	return change(r, i);
}

/* Flip a byte of an area of the index or of both, or of a superblock if the other one is good. */
static void spoil(struct run *r)
{
	struct kv_super super;
	uint64_t at, what = fth_rng_below(&r->rng, 8);
	unsigned good = find_super(r->dev, &super, &at);

	for (unsigned older = 0; older < 2; older++)
		if (what == older || what == 2)
			flip(r->dev, index_area(&super, older) +
					     (fth_rng_below(&r->rng, 2) ? 4096 + 64 : 40));
	if (what >= 3 && what <= 4 && good == 2)
		flip(r->dev, (what == 3 ? at : KV_SUPER_AGAIN - at) + 80);
}

/* Run until the power goes, then come back. */
static void one_loss(struct run *r)
{
	uint64_t at = 1 + fth_rng_below(&r->rng, 60), seed = fth_rng_next(&r->rng);
	int rc;

	assert_ok(fth_dev_crash_at(r->dev, at, seed));
	rc = open_kv(r); /* may be where it goes */
	if (rc == 0) {
		bool good = true;

		for (unsigned i = 0; i < 600 && good; i++)
			if (fth_rng_below(&r->rng, 30) == 0)
				good = fth_kv_checkpoint(r->kv, fth_deadline_ns(5000000000u)) == 0;
			else
				good = change_any(r);
		fth_kv_worker_close(r->worker);
		(void)fth_kv_close(r->kv);
	}
	if (fth_dev_crash_powered(r->dev))
		assert_ok(fth_dev_crash_power_loss(r->dev, seed));
	assert_ok(fth_dev_crash_restart(r->dev));
	assert_ok(fth_dev_crash_at(r->dev, 0, 0));
	r->losses++;
	if (r->damage)
		spoil(r);
	assert_ok(open_kv(r));
	for (unsigned i = 0; i < KEYS; i++)
		check(r, i);
	/* The log is a ring: what is not written again goes some time. */
	for (unsigned i = 0; i < KEYS && r->losses % RENEW == 0; i++)
		assert_true(change(r, i));
	fth_kv_worker_close(r->worker);
	/* Closed in good order: all of it is durable. */
	assert_ok(fth_kv_close(r->kv));
	for (unsigned i = 0; i < KEYS; i++) {
		struct key *k = &r->keys[i];

		if (r->tight && k->changes[k->count - 1].when == UINT64_MAX)
			continue;
		k->changes[0] = k->changes[k->count - 1];
		k->count = 1;
	}
}

static void lose_often(enum fth_kv_persistence persistence, bool damage, bool tight)
{
	struct run *r = calloc(1, sizeof(*r));
	unsigned rounds = getenv("FTH_LONG_TESTS") ? 10000 : 150;

	assert_non_null(r);
	r->rng.state = 11;
	r->persistence = persistence;
	r->damage = damage;
	r->tight = tight;
	r->items = tight ? KEYS / 4 : 2 * KEYS;
	for (unsigned i = 0; i < KEYS; i++)
		r->keys[i].count = 1;
	/* Long enough that nothing is reclaimed that was written a few losses ago. */
	assert_ok(fth_dev_open("crash(mem:64M)", &r->dev));
	for (unsigned i = 0; i < rounds; i++)
		one_loss(r);
	print_message("%llu losses, %llu times found unclean, %llu chunks replayed, version %u, "
		      "%llu changes lost, %llu times an index rebuilt\n",
		      (unsigned long long)r->losses, (unsigned long long)r->unclean,
		      (unsigned long long)r->replayed, r->version, (unsigned long long)r->lost,
		      (unsigned long long)r->rebuilt);
	assert_int_equal(r->rebuilt > 0, damage);
	fth_dev_close(r->dev);
	free(r);
}

static void what_was_acknowledged_survives(void **state)
{
	(void)state;
	lose_often(FTH_KV_WRITE_THROUGH, false, false);
}

static void write_back_loses_a_window_at_most(void **state)
{
	(void)state;
	lose_often(FTH_KV_WRITE_BACK, false, false);
}

static void damage_to_the_index_loses_nothing_more(void **state)
{
	(void)state;
	lose_often(FTH_KV_WRITE_THROUGH, true, false);
	lose_often(FTH_KV_WRITE_BACK, true, false);
}

static void a_full_index_brings_back_no_old_value(void **state)
{
	(void)state;
	lose_often(FTH_KV_WRITE_THROUGH, false, true);
	lose_often(FTH_KV_WRITE_BACK, false, true);
	lose_often(FTH_KV_WRITE_THROUGH, true, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_acknowledged_survives),
		cmocka_unit_test(write_back_loses_a_window_at_most),
		cmocka_unit_test(damage_to_the_index_loses_nothing_more),
		cmocka_unit_test(a_full_index_brings_back_no_old_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
