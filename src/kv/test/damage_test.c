/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damage to a log that a crash has cut off. A cache with write-through runs until the power goes.
 * Then a bit of its log is flipped, a block is zeroed or cannot be read any more, anywhere before
 * the end of what the log vouches for; the checkpoints may be damaged, too. Whatever a key has then
 * is its last acknowledged value, or nothing: an older value or a deleted item never comes back,
 * not after another crash either. A loss is reported. FTH_LONG_TESTS=1 runs many more.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/base/error.h"
#include "fathom/dev/crash.h"
#include "fathom/dev/fault.h"
#include "fathom/kv/image.h"

#include "kv/kv_internal.h"

#include <unistd.h>

#define SIZE   (6u << 20)
#define KEYS   150u
#define BATCH  6u /* changes at once, which share commits */
#define URI    "crash(mem:6M)"
#define ROUNDS 200u
#define LONG   3000u

#ifdef __SANITIZE_THREAD__
#define SHORT (ROUNDS / 6)
#else
#define SHORT ROUNDS
#endif

struct round {
	struct fth_rng rng;
	struct fth_kv_options options;
	struct box box;
	uint32_t latest[KEYS]; /* version that was acknowledged; 0: deleted */
	uint32_t version;
	uint64_t unreadable; /* block of the device; 0: none */
};

static uint64_t below(struct round *r, uint64_t n)
{
	return fth_rng_below(&r->rng, n);
}

/* ---- a life ---- */

struct change {
	struct fth_kv_op op;
	char key[16];
	uint8_t value[KV_VALUE_MAX];
	unsigned i;
};

static void submit_change(struct round *r, struct change *c, unsigned i)
{
	bool remove = below(r, 4) == 0;
	int rc;

	c->i = i;
	c->op = (struct fth_kv_op){.verb = remove ? FTH_KV_DELETE : FTH_KV_SET, .key = c->key};
	c->op.key_length = (uint32_t)snprintf(c->key, sizeof(c->key), "k%u", i);
	if (!remove) {
		c->op.flags = ++r->version;
		c->op.value = c->value;
		c->op.value_length = value_length(i, c->op.flags);
		fill_value(i, c->op.flags, c->op.value_length, c->value);
	}
	rc = fth_kv_submit(r->box.worker, &c->op);
	assert_true(rc >= 0);
}

/* A few changes of different keys. */
static void change_some(struct round *r)
{
	static struct change changes[BATCH];
	unsigned count = 1 + (unsigned)below(r, BATCH), first = (unsigned)below(r, KEYS);
	struct fth_kv_op *done;

	for (unsigned n = 0; n < count; n++)
		submit_change(r, &changes[n], (first + n * 7) % KEYS);
	while (fth_kv_reap(r->box.worker, &done, 1, 1, KV_SECONDS(20)) == 1)
		;
	for (unsigned n = 0; n < count; n++) {
		const struct fth_kv_op *op = &changes[n].op;

		assert_true(op->result == 0 ||
			    (op->verb == FTH_KV_DELETE && op->result == -ENOENT));
		r->latest[changes[n].i] = op->verb == FTH_KV_SET ? op->flags : 0;
		fth_kv_release(r->box.worker, &changes[n].op);
	}
}

static uint64_t vouched(struct round *r, bool *all)
{
	struct kv_log *log = &r->box.kv->log;
	uint64_t marked;

	pthread_mutex_lock(&log->lock);
	marked = log->marked;
	*all = marked >= log->durable;
	pthread_mutex_unlock(&log->lock);
	return marked;
}

/*
 * Some changes, then the power goes. Returns the position up to which the log vouches for itself.
 */
static uint64_t live(struct round *r, struct fth_dev *dev, unsigned batches, bool idle)
{
	uint64_t marked;
	bool all;

	for (unsigned n = 0; n < batches; n++) {
		change_some(r);
		if (below(r, 100) == 0)
			assert_ok(fth_kv_checkpoint(r->box.kv, KV_SECONDS(20)));
	}
	while (marked = vouched(r, &all), idle && !all)
		usleep(1000);
	assert_ok(fth_dev_crash_power_loss(dev, fth_rng_next(&r->rng)));
	fth_kv_worker_close(r->box.worker);
	(void)fth_kv_close(r->box.kv);
	assert_ok(fth_dev_crash_restart(dev));
	return marked;
}

/* ---- damage ---- */

static void copy_device(struct fth_dev *from, struct fth_dev *to)
{
	uint8_t *image = malloc(SIZE);

	assert_non_null(image);
	assert_ok(fth_dev_read(from, image, SIZE, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_write(to, image, SIZE, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_flush(to, FTH_DEV_TIMEOUT));
	free(image);
}

static void flip_bit(struct fth_dev *dev, uint64_t at, unsigned bit)
{
	uint8_t block[512];

	assert_ok(fth_dev_read(dev, block, sizeof(block), at / 512 * 512, FTH_DEV_TIMEOUT));
	block[at % 512] ^= (uint8_t)(1u << bit);
	assert_ok(fth_dev_write(dev, block, sizeof(block), at / 512 * 512, FTH_DEV_TIMEOUT));
}

static void damage(struct round *r, struct fth_dev *dev, uint64_t end)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct kv_super super;
	uint64_t at, ring, back;
	bool index = below(r, 4) == 0;

	assert_true(find_super(dev, &super, &at) > 0);
	ring = super.chunks * super.chunk;
	back = below(r, 2) ? 4 * super.chunk : ring;
	if (back > end)
		back = end;
	at = super.log_at + (end - 1 - below(r, back)) % ring;
	for (unsigned older = 0; index && older < 2; older++)
		if (below(r, 3))
			flip(dev, index_area(&super, older) + (below(r, 2) ? 40 : 4096 + 700));
	switch (below(r, 3)) {
	case 0:
		flip_bit(dev, at, (unsigned)below(r, 8));
		break;
	case 1:
		assert_ok(fth_dev_zero(dev, 512, at / 512 * 512, FTH_DEV_TIMEOUT));
		break;
	default:
		plan.kinds = 1u << FTH_DEV_READ;
		plan.every = 1;
		plan.from = r->unreadable = at / 512 * 512;
		plan.to = plan.from + 512;
		assert_ok(fth_dev_fault_set(dev, &plan));
	}
}

/* ---- what is left ---- */

static int check_image(struct fth_dev *dev)
{
	struct fth_kv_image_visit visit = FTH_KV_IMAGE_VISIT_INIT;
	struct fth_kv_image *image;
	int found;

	assert_ok(fth_kv_image_open_dev(dev, &image));
	found = fth_kv_image_walk(image, &visit, NULL);
	assert_true(found >= 0);
	fth_kv_image_close(image);
	return found;
}

/* How many items are lost. */
static unsigned check_keys(struct round *r, const char *when, uint64_t seed)
{
	unsigned lost = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		uint32_t got = box_get(&r->box, i);

		if (got && got != r->latest[i])
			fail_msg("%s, seed %llu: key %u has version %u, acknowledged is %u", when,
				 (unsigned long long)seed, i, got, r->latest[i]);
		lost += got != r->latest[i];
	}
	return lost;
}

static bool is_counted(const struct round *r)
{
	struct fth_kv_recovery recovery;

	fth_kv_recovery(r->box.kv, &recovery);
	return recovery.damaged_chunks || recovery.bad_items || recovery.unreadable ||
	       box_stat(&r->box, FTH_KV_STAT_BAD_ITEMS) ||
	       box_stat(&r->box, FTH_KV_STAT_READ_ERRORS);
}

/* What is lost now stays lost. */
static void take_stock(struct round *r)
{
	for (unsigned i = 0; i < KEYS; i++)
		r->latest[i] = box_get(&r->box, i);
}

static unsigned one_round(uint64_t seed)
{
	struct fth_dev *dev = open_dev(URI), *copy = open_dev("fault(mem:6M)");
	struct round r = {.rng = {seed}, .options = small_options()};
	struct kv_super super;
	unsigned lost;
	uint64_t end, at;
	int found;

	r.options.persistence = FTH_KV_WRITE_THROUGH;
	r.options.items = 400;
	box_open(&r.box, &r.options, dev);
	end = live(&r, dev, 2 + (unsigned)below(&r, seed % 3 ? 100 : 400), seed % 2);
	copy_device(dev, copy);
	damage(&r, copy, end);
	found = check_image(copy);
	box_open(&r.box, &r.options, copy);
	lost = check_keys(&r, "after damage", seed);
	/* Of a ring that is more than half full, the crash may have taken the oldest chunks. */
	if (lost && end < r.box.kv->ring / 2) {
		assert_true(found > 0);
		assert_true(is_counted(&r));
	}
	/* Another life, after which the index is rebuilt from all of the log. */
	take_stock(&r);
	assert_ok(fth_dev_fault_disarm(copy));
	if (r.unreadable)
		assert_ok(fth_dev_zero(copy, 512, r.unreadable, FTH_DEV_TIMEOUT));
	assert_ok(box_close(&r.box));
	copy_device(copy, dev);
	box_open(&r.box, &r.options, dev);
	(void)live(&r, dev, 1 + (unsigned)below(&r, 20), false);
	(void)find_super(dev, &super, &at);
	for (unsigned older = 0; older < 2; older++)
		flip(dev, index_area(&super, older) + 4096 + 700);
	box_open(&r.box, &r.options, dev);
	(void)check_keys(&r, "after another crash", seed);
	assert_ok(box_close(&r.box));
	fth_dev_close(copy);
	fth_dev_close(dev);
	return lost;
}

static void damage_brings_back_nothing_old(void **state)
{
	uint64_t rounds = getenv("FTH_LONG_TESTS") ? LONG : SHORT, harmful = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= rounds; seed++)
		harmful += one_round(seed) > 0;
	print_message("%llu of %llu damages lost items\n", (unsigned long long)harmful,
		      (unsigned long long)rounds);
	assert_true(harmful > rounds / 10 && harmful < rounds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damage_brings_back_nothing_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
