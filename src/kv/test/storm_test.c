/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All that can go wrong, together: an index that is too small, areas for it that are too small, a
 * device that fails and works again or loses what it has not flushed, crashes and damage. Whatever
 * a key has then is its last acknowledged value, that of a change that failed after it, or nothing.
 * FTH_LONG_TESTS=1 runs many more.
 */
#include "kv/test/kv_fixture.h"
#include "kv/test/spoil_fixture.h"

#include "fathom/dev/fault.h"
#include "fathom/dev/wrap.h"

#include "kv/kv_internal.h"

#include <pthread.h>
#include <unistd.h>

#define KIND(op) (1u << (op))
#define SHORTS	 70000u /* short items: more than the smallest area has room for */

static struct fth_kv_options durable(enum fth_kv_persistence persistence)
{
	struct fth_kv_options o = small_options();

	o.persistence = persistence;
	o.window_ms = 1;
	o.items = 0;
	return o;
}

static void arm(struct fth_dev *dev, uint32_t kinds)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	plan.kinds = kinds;
	plan.every = 1;
	assert_ok(fth_dev_fault_set(dev, &plan));
}

static bool log_failed(struct box *box)
{
	struct fth_kv_usage usage;

	fth_kv_usage(box->kv, &usage);
	return usage.log_failed;
}

static void wait_for_log(struct box *box)
{
	for (unsigned n = 0; n < 60000 && log_failed(box); n++)
		usleep(1000);
	assert_false(log_failed(box));
}

/* A cache whose areas for the index have the smallest size, and any number of items. */
static void format_small_areas(struct fth_dev *dev)
{
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct box box;

	o.items = 100;
	o.format = true;
	box_open(&box, &o, dev);
	assert_ok(box_close(&box));
}

static void set_shorts(struct box *box, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		assert_ok(box_text(box, FTH_KV_SET, i, "short"));
}

static unsigned count_shorts(struct box *box, unsigned from, unsigned to)
{
	unsigned found = 0;

	for (unsigned i = from; i < to; i++) {
		struct fth_kv_op op = {.verb = FTH_KV_GET};

		found += box_do(box, &op, i) == 0;
		fth_kv_release(box->worker, &op);
	}
	return found;
}

/* ---- a log that goes on, with areas that are too small ---- */

/*
 * Only the oldest items go that an area has no room for; those of refused changes do not come back.
 */
static void check_going_on_with_small_areas(uint32_t kind, bool crash)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:32M))");
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct fth_kv_recovery recovery;
	struct box box;

	format_small_areas(dev);
	box_open(&box, &o, dev);
	set_shorts(&box, 0, SHORTS);
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	arm(dev, KIND(kind));
	while (box_text(&box, FTH_KV_SET, 0, "short") == 0)
		; /* write-back notices it late */
	for (unsigned i = SHORTS - 100; i < SHORTS; i++)
		assert_int_equal(box_delete(&box, i), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_ok(box_text(&box, FTH_KV_SET, SHORTS, "short"));
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	if (crash)
		lose_power_and_close(&box, fth_dev_inner(dev), 1);
	else
		assert_ok(box_close(&box));
	box_open(&box, &o, dev);
	fth_kv_recovery(box.kv, &recovery);
	assert_int_equal(recovery.damaged_chunks, 0);
	assert_int_equal(count_shorts(&box, SHORTS - 100, SHORTS), 0);
	assert_int_equal(count_shorts(&box, SHORTS - 50000, SHORTS - 100), 49900);
	assert_int_equal(count_shorts(&box, SHORTS, SHORTS + 1), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void a_log_goes_on_with_areas_that_are_too_small(void **state)
{
	(void)state;
	for (unsigned crash = 0; crash < 2; crash++) {
		check_going_on_with_small_areas(FTH_DEV_WRITE, crash);
		check_going_on_with_small_areas(FTH_DEV_FLUSH, crash);
	}
}

/*
 * A refused change has removed the item, and a delete finds nothing: it must be in the log all the
 * same.
 */
static void a_delete_after_a_failure_stays(void **state)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:16M))"), *crash = fth_dev_inner(dev);
	struct fth_kv_options o = durable(FTH_KV_WRITE_THROUGH);
	struct kv_super super;
	struct box box;
	uint64_t at;

	(void)state;
	box_open(&box, &o, dev);
	assert_ok(box_set(&box, 1, 1));
	assert_ok(fth_kv_checkpoint(box.kv, KV_SECONDS(20)));
	arm(dev, KIND(FTH_DEV_WRITE));
	assert_int_equal(box_set(&box, 2, 1), -EIO);
	assert_int_equal(box_set(&box, 1, 2), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_int_equal(box_delete(&box, 1), -ENOENT);
	lose_power_and_close(&box, crash, 1);
	assert_int_equal(find_super(crash, &super, &at), 2);
	flip(crash, index_area(&super, 0) + 40);
	box_open(&box, &o, dev);
	assert_int_equal(box_get(&box, 1), 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* That nothing is there is no success while the log may still have it. */
static void a_delete_that_finds_nothing_is_refused_too(void **state)
{
	struct fth_kv_options o = durable(FTH_KV_WRITE_THROUGH);

	(void)state;
	for (unsigned flush = 0; flush < 2; flush++) {
		struct fth_dev *dev = open_dev("fault(crash(mem:16M))");
		struct box box;

		box_open(&box, &o, dev);
		assert_ok(box_set(&box, 1, 1));
		arm(dev, KIND(flush ? FTH_DEV_FLUSH : FTH_DEV_WRITE));
		if (!flush)
			assert_int_equal(box_set(&box, 2, 1), -EIO);
		/* The first is refused, or is in the log and does not become durable. */
		for (unsigned n = 0; n < 3; n++)
			assert_int_equal(box_delete(&box, 1), -EIO);
		assert_int_equal(box_get(&box, 1), 0);
		assert_ok(fth_dev_fault_disarm(dev));
		wait_for_log(&box);
		assert_int_equal(box_delete(&box, 1), -ENOENT);
		lose_power_and_close(&box, fth_dev_inner(dev), 1);
		box_open(&box, &o, dev);
		assert_int_equal(box_get(&box, 1), 0);
		assert_ok(box_close(&box));
		fth_dev_close(dev);
	}
}

/* ---- a log that goes on, beside an index that grows ---- */

#define LOST	5000u
#define THREADS 3u
#define OF_EACH 20000u

struct grower {
	struct box box;
	unsigned first;
};

static void *grow(void *context)
{
	struct grower *g = context;

	for (unsigned i = g->first; i < g->first + OF_EACH;) {
		int rc = box_text(&g->box, FTH_KV_SET, i, "short");

		assert_true(rc == 0 || rc == -EIO); /* until the log goes on */
		i += rc == 0;
	}
	return NULL;
}

static unsigned count_without_place(struct fth_kv *kv)
{
	unsigned count = 0;

	for (uint32_t b = 0; b < kv_bucket_count(kv); b++) {
		kv_lock_two(kv, b, b);
		for (unsigned w = 0; w < KV_WAYS; w++) {
			const struct kv_entry *e = &kv->buckets[b].way[w];

			if (kv_kind(e) == KV_MEMORY)
				count += kv_slot_at(kv, kv_place(e))->position == KV_NOWHERE;
		}
		kv_unlock_two(kv, b, b);
	}
	return count;
}

/* Entries move while items whose places a failed flush has cost get new ones: none is left out. */
static void check_places(void)
{
	struct fth_dev *dev = open_dev("fault(crash(mem:64M))");
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct grower growers[THREADS];
	pthread_t threads[THREADS];
	unsigned left = 1;
	struct box box;

	o.memory = 64 << 20; /* nothing leaves it */
	o.window_ms = 60000; /* nothing is committed until the checkpoint */
	box_open(&box, &o, dev);
	set_shorts(&box, 0, LOST);
	arm(dev, KIND(FTH_DEV_FLUSH));
	assert_int_equal(fth_kv_checkpoint(box.kv, KV_SECONDS(20)), -EIO);
	for (unsigned t = 0; t < THREADS; t++) {
		growers[t] = (struct grower){{.kv = box.kv}, 1000000 * (t + 1)};
		assert_ok(fth_kv_worker_open(box.kv, &growers[t].box.worker));
		assert_int_equal(pthread_create(&threads[t], NULL, grow, &growers[t]), 0);
	}
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	for (unsigned t = 0; t < THREADS; t++) {
		assert_int_equal(pthread_join(threads[t], NULL), 0);
		fth_kv_worker_close(growers[t].box.worker);
	}
	for (unsigned n = 0; n < 3000 && left; n++) {
		left = count_without_place(box.kv);
		if (left)
			usleep(1000);
	}
	assert_int_equal(left, 0);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

static void items_get_places_beside_an_index_that_grows(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 4; n++)
		check_places();
}

#define FEW 200u /* more than the buffers hold */

/* A cache is closed before all of them have new places: they get them first. */
static void items_get_places_before_a_close(void **state)
{
	struct fth_dev *dev = open_dev("fault(delay(mem:16M)?write_us=20000)");
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct box box;

	(void)state;
	o.memory = 16 << 20;
	o.window_ms = UINT32_MAX; /* closing does not wait for its end */
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < FEW; i++)
		assert_ok(box_set(&box, i, 1));
	arm(dev, KIND(FTH_DEV_FLUSH));
	assert_int_equal(fth_kv_checkpoint(box.kv, KV_SECONDS(20)), -EIO);
	assert_ok(fth_dev_fault_disarm(dev));
	wait_for_log(&box);
	assert_ok(box_close(&box));
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < FEW; i++)
		assert_int_equal(box_get(&box, i), 1);
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

/* ---- all of it, at random ---- */

#define SIZE   (16u << 20)
#define KEYS   80u
#define BATCH  8u
#define FAILED 64u /* changes of a key since the last one that was acknowledged */
#define ROUNDS 1u  /* of each thread: most of the time they wait for a log to go on */
#define LONG   100u
#define STORMS 8u

struct model {
	uint32_t acked; /* version; 0: it was deleted, or never there */
	unsigned failed;
	uint32_t maybe[FAILED]; /* versions of changes that failed since */
};

struct change {
	struct fth_kv_op op;
	char key[16];
	uint8_t value[KV_VALUE_MAX];
	unsigned i;
};

struct storm {
	struct fth_rng rng;
	uint64_t seed;
	struct fth_dev *dev, *crash;
	struct fth_kv_options options;
	struct box box;
	struct model keys[KEYS];
	uint32_t version;
	unsigned filler;
	struct change changes[BATCH];
	uint64_t vouched; /* position: what is before it may be damaged */
};

static uint64_t below(struct storm *s, uint64_t n)
{
	return fth_rng_below(&s->rng, n);
}

static void submit_change(struct storm *s, struct change *c, unsigned i)
{
	bool remove = below(s, 3) == 0;

	c->i = i;
	c->op = (struct fth_kv_op){.verb = remove ? FTH_KV_DELETE : FTH_KV_SET, .key = c->key};
	c->op.key_length = (uint32_t)snprintf(c->key, sizeof(c->key), "k%u", i);
	if (!remove) {
		c->op.flags = ++s->version;
		c->op.value = c->value;
		c->op.value_length = value_length(i, c->op.flags);
		fill_value(i, c->op.flags, c->op.value_length, c->value);
	}
	assert_true(fth_kv_submit(s->box.worker, &c->op) >= 0);
}

static void note_change(struct storm *s, const struct change *c)
{
	struct model *m = &s->keys[c->i];
	uint32_t version = c->op.verb == FTH_KV_SET ? c->op.flags : 0;
	int rc = c->op.result;

	if (rc == 0 || (rc == -ENOENT && version == 0)) {
		m->acked = version;
		m->failed = 0;
		return;
	}
	if (rc != -EIO && rc != -ENODEV)
		fail_msg("seed %llu: a change ended with %d", (unsigned long long)s->seed, rc);
	if (version)
		m->maybe[m->failed++] = version;
}

/* Changes of different keys at once. */
static void change_some(struct storm *s)
{
	unsigned count = 1 + (unsigned)below(s, BATCH), first = (unsigned)below(s, KEYS), n = 0;
	struct fth_kv_op *done;

	for (unsigned k = 0; k < count; k++)
		if (s->keys[(first + k * 7) % KEYS].failed < FAILED)
			submit_change(s, &s->changes[n++], (first + k * 7) % KEYS);
	while (fth_kv_reap(s->box.worker, &done, 1, 1, KV_SECONDS(30)) == 1)
		;
	while (n-- > 0) {
		note_change(s, &s->changes[n]);
		fth_kv_release(s->box.worker, &s->changes[n].op);
	}
}

static void check_key(struct storm *s, unsigned i, const char *when)
{
	const struct model *m = &s->keys[i];
	uint32_t got = box_get(&s->box, i);
	bool good = got == 0 || got == m->acked;

	for (unsigned n = 0; n < m->failed; n++)
		good |= got == m->maybe[n];
	if (!good)
		fail_msg("seed %llu, %s: key %u has version %u, acknowledged is %u",
			 (unsigned long long)s->seed, when, i, got, m->acked);
}

static void check_keys(struct storm *s, const char *when)
{
	for (unsigned i = 0; i < KEYS; i++)
		check_key(s, i, when);
}

/* Other items, so that the index and the log have something to do. */
static void fill(struct storm *s, unsigned count)
{
	while (count-- > 0) {
		int rc = box_text(&s->box, FTH_KV_SET, 1000 + s->filler++ % 200000, "short");

		assert_true(rc == 0 || rc == -EIO);
	}
}

/* The device fails for a while, or loses all that it has not flushed. */
static void fail_for_a_while(struct storm *s)
{
	static const uint32_t kinds[] = {KIND(FTH_DEV_WRITE), KIND(FTH_DEV_FLUSH),
					 KIND(FTH_DEV_WRITE) | KIND(FTH_DEV_FLUSH)};
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	bool cycle = below(s, 4) == 0;

	plan.kinds = kinds[below(s, 3)];
	plan.rate = below(s, 2) ? 1 : 0.4;
	plan.seed = fth_rng_next(&s->rng);
	plan.mode = (enum fth_dev_fault_mode)below(s, FTH_DEV_FAULT_TIMEOUT);
	if (cycle)
		assert_ok(fth_dev_crash_power_loss(s->crash, plan.seed));
	else
		assert_ok(fth_dev_fault_set(s->dev, &plan));
	for (unsigned n = 4 + (unsigned)below(s, 8); n > 0; n--)
		change_some(s);
	if (below(s, 3) == 0)
		fill(s, 50);
	if (!cycle)
		check_keys(s, "while the device fails");
	else
		assert_ok(fth_dev_crash_restart(s->crash));
	assert_ok(fth_dev_fault_disarm(s->dev));
	if (below(s, 3))
		wait_for_log(&s->box);
}

static void act(struct storm *s)
{
	switch (below(s, 12)) {
	case 0:
		fail_for_a_while(s);
		break;
	case 1:
		(void)fth_kv_checkpoint(s->box.kv, KV_SECONDS(20));
		break;
	case 2:
		if (!log_failed(&s->box))
			fill(s, (unsigned)below(s, 100));
		break;
	case 3:
		check_keys(s, "in between");
		break;
	default:
		change_some(s);
	}
}

/* What the log vouches for by itself: a commit has followed the last restart. */
static uint64_t vouched(struct storm *s)
{
	struct kv_log *log = &s->box.kv->log;
	uint64_t position = 0;

	if (log_failed(&s->box))
		return 0;
	change_some(s);
	change_some(s);
	pthread_mutex_lock(&log->lock);
	if (!log->error)
		position = log->marked < log->durable ? log->marked : log->durable;
	pthread_mutex_unlock(&log->lock);
	return position;
}

static void end_life(struct storm *s)
{
	s->vouched = vouched(s);
	if (below(s, 2)) {
		lose_power_and_close(&s->box, s->crash, fth_rng_next(&s->rng));
		return;
	}
	fth_kv_worker_close(s->box.worker);
	(void)fth_kv_close(s->box.kv);
}

static void damage(struct storm *s)
{
	uint64_t at, ring, back, what = below(s, 6);
	struct kv_super super;
	unsigned good = find_super(s->crash, &super, &at);

	if (what == 0)
		flip(s->crash,
		     index_area(&super, (unsigned)below(s, 2)) + (below(s, 2) ? 40 : 4096 + 700));
	for (unsigned older = 0; what == 1 && older < 2; older++)
		flip(s->crash, index_area(&super, older) + 4096 + 700);
	if (what == 2 && good == 2)
		flip(s->crash, (below(s, 2) ? at : KV_SUPER_AGAIN - at) + 80);
	if ((what != 1 && what != 3) || s->vouched == 0)
		return;
	ring = super.chunks * super.chunk;
	back = below(s, 2) ? 4 * super.chunk : ring;
	if (back > s->vouched)
		back = s->vouched;
	at = super.log_at + (s->vouched - 1 - below(s, back)) % ring;
	if (below(s, 2))
		flip(s->crash, at);
	else
		assert_ok(fth_dev_zero(s->crash, 512, at / 512 * 512, FTH_DEV_TIMEOUT));
}

static void open_again(struct storm *s)
{
	static const uint64_t items[] = {20, 400, 61000, 0};

	s->options.items = items[below(s, 4)];
	s->options.readmit = below(s, 3) ? 0 : 30;
	s->options.checkpoint_ms = (uint32_t)below(s, 3) * 2;
	s->options.memory = below(s, 2) ? 512 << 10 : 4 << 20;
	box_open(&s->box, &s->options, s->dev);
}

static void one_storm(uint64_t seed, const uint8_t *image)
{
	struct storm *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->rng.state = s->seed = seed;
	s->dev = open_dev("fault(crash(mem:16M))");
	s->crash = fth_dev_inner(s->dev);
	if (seed % 2) {
		assert_ok(fth_dev_write(s->dev, image, SIZE, 0, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_flush(s->dev, FTH_DEV_TIMEOUT));
	}
	s->options = durable(FTH_KV_WRITE_THROUGH);
	for (unsigned life = 0; life < 5; life++) {
		open_again(s);
		check_keys(s, "after opening");
		for (unsigned n = (unsigned)below(s, 60); n > 0; n--)
			act(s);
		end_life(s);
		damage(s);
	}
	open_again(s);
	check_keys(s, "at the end");
	assert_ok(box_close(&s->box));
	fth_dev_close(s->dev);
	free(s);
}

struct series {
	uint64_t first, end; /* seeds */
	const uint8_t *image;
};

static void *storms(void *context)
{
	struct series *series = context;

	for (uint64_t seed = series->first; seed < series->end; seed++)
		one_storm(seed, series->image);
	return NULL;
}

static void whatever_happens_no_old_value_comes_back(void **state)
{
	uint64_t rounds = getenv("FTH_LONG_TESTS") ? LONG : ROUNDS;
	struct fth_kv_options o = durable(FTH_KV_WRITE_BACK);
	struct fth_dev *dev = open_dev("mem:16M");
	struct series series[STORMS];
	pthread_t threads[STORMS];
	uint8_t *image = malloc(SIZE);
	struct box box;

	(void)state;
	assert_non_null(image);
	format_small_areas(dev);
	box_open(&box, &o, dev);
	set_shorts(&box, 1000, 1000 + SHORTS);
	assert_ok(box_close(&box));
	assert_ok(fth_dev_read(dev, image, SIZE, 0, FTH_DEV_TIMEOUT));
	for (unsigned t = 0; t < STORMS; t++) {
		series[t] = (struct series){1 + t * rounds, 1 + (t + 1) * rounds, image};
		assert_int_equal(pthread_create(&threads[t], NULL, storms, &series[t]), 0);
	}
	for (unsigned t = 0; t < STORMS; t++)
		assert_int_equal(pthread_join(threads[t], NULL), 0);
	free(image);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_goes_on_with_areas_that_are_too_small),
		cmocka_unit_test(a_delete_after_a_failure_stays),
		cmocka_unit_test(a_delete_that_finds_nothing_is_refused_too),
		cmocka_unit_test(items_get_places_beside_an_index_that_grows),
		cmocka_unit_test(items_get_places_before_a_close),
		cmocka_unit_test(whatever_happens_no_old_value_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
