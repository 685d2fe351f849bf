/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power loss: what a flush that returned 0 covered is there, everything else is old or new or
 * something in between that was really set, and nothing that was not set has changed.
 *
 * One element of each block is set, generation after generation. So after a crash the block may
 * hold any generation from the last durable one to the newest. FTH_CACHE_CRASH_POINTS=N runs N
 * crash points for each setup.
 */
#include "model_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK	   512
#define PER_BLOCK  (BLOCK / 8)
#define BLOCKS_MAX 512
#define STEPS_MAX  80

struct setup {
	uint32_t line, frames, lines;
	bool compact;
	const char *uri;
};

struct run {
	const struct setup *setup;
	struct fth_dev *dev;
	struct fth_cache_range *range;
	struct fth_rng rng;
	uint32_t blocks, per_line; /* blocks */
	uint32_t durable[BLOCKS_MAX], newest[BLOCKS_MAX];
	bool dark; /* an operation failed: the power is gone */
};

/* The element of a block that is set; where it is differs from block to block. */
static uint64_t element_of(uint64_t block)
{
	return block * PER_BLOCK + fth_mix64(block) % PER_BLOCK;
}

/* ---- operations ---- */

/* Every operation may find the power gone; no other error may come. */
static bool powered(struct run *r, int rc)
{
	if (rc < 0) {
		assert_int_equal(rc, -ENODEV);
		assert_false(fth_dev_crash_powered(r->dev));
		r->dark = true;
	}
	return rc == 0;
}

/* Dirty lines cannot be written any more: closing reports it, and what is left is discarded. */
static void close_dark(struct run *r)
{
	struct fth_cache *cache = fth_cache_of(r->range);

	if (!powered(r, fth_cache_close(cache)))
		assert_ok(fth_cache_discard(cache));
}

static uint64_t some_line(struct run *r)
{
	return fth_rng_below(&r->rng, r->setup->lines);
}

static void set_block(struct run *r, uint8_t *data, uint32_t block)
{
	uint64_t element = element_of(block);

	model_store(data, element % (r->per_line * PER_BLOCK),
		    model_value(element, ++r->newest[block]));
}

static int set_some(void *context, size_t which, uint8_t *data)
{
	struct run *r = context;
	uint64_t line = which;

	set_block(r, data, (uint32_t)(line * r->per_line + fth_rng_below(&r->rng, r->per_line)));
	return 0;
}

static void do_set(struct run *r)
{
	uint64_t line = some_line(r);
	struct fth_cache_pin pin;

	if (!powered(r, fth_cache_pin(r->range, line, FTH_CACHE_WRITE, fth_deadline_ns(PATIENCE),
				      &pin)))
		return;
	set_some(r, line, pin.data);
	fth_cache_unpin(&pin, true);
}

static void do_overwrite(struct run *r)
{
	uint64_t line = some_line(r), first = line * r->per_line * PER_BLOCK;
	struct fth_cache_pin pin;

	if (!powered(r, fth_cache_pin(r->range, line, FTH_CACHE_OVERWRITE,
				      fth_deadline_ns(PATIENCE), &pin)))
		return;
	for (uint64_t i = 0; pin.fresh && i < r->per_line * PER_BLOCK; i++)
		model_store(pin.data, i, model_value(first + i, 0));
	for (uint32_t b = 0; b < r->per_line; b++)
		set_block(r, pin.data, (uint32_t)line * r->per_line + b);
	fth_cache_unpin(&pin, true);
}

/* Lines by their number: `which` is the line. */
static void do_visit(struct run *r)
{
	static uint64_t all[BLOCKS_MAX];
	int rc;

	for (uint64_t i = 0; i < r->setup->lines; i++)
		all[i] = i;
	rc = fth_cache_visit(r->range, FTH_CACHE_WRITE, all,
			     1 + fth_rng_below(&r->rng, r->setup->lines), set_some, r);
	powered(r, rc);
}

/*
 * Let the power go at one of the next writes or flushes of the device, ours or the worker's. Only
 * around operations that need no frame: others would wait for one until their deadline, since
 * write-back is tried again and again.
 */
static void arm(struct run *r)
{
	if (fth_rng_below(&r->rng, 3) == 0)
		assert_ok(fth_dev_crash_at(r->dev, 1 + fth_rng_below(&r->rng, 12),
					   fth_rng_next(&r->rng)));
}

static void disarm(struct run *r)
{
	if (fth_dev_crash_powered(r->dev))
		assert_ok(fth_dev_crash_at(r->dev, 0, 0));
	else
		r->dark = true;
}

static void do_flush(struct run *r)
{
	uint64_t first = some_line(r), n = 1 + fth_rng_below(&r->rng, r->setup->lines);
	bool all = fth_rng_below(&r->rng, 3) == 0;
	int rc;

	if (all) {
		first = 0;
		n = r->setup->lines;
	}
	arm(r);
	rc = all ? fth_cache_flush_all(fth_cache_of(r->range))
		 : fth_cache_flush(r->range, first, n);
	disarm(r);
	if (!powered(r, rc))
		return;
	for (uint64_t b = first * r->per_line; b < (first + n) * r->per_line && b < r->blocks; b++)
		r->durable[b] = r->newest[b];
}

static void do_evict(struct run *r)
{
	int rc;

	arm(r);
	rc = fth_cache_evict(r->range, some_line(r), 1 + fth_rng_below(&r->rng, 4));
	disarm(r);
	powered(r, rc);
}

static void do_read(struct run *r)
{
	uint32_t block = (uint32_t)fth_rng_below(&r->rng, r->blocks);
	uint64_t value = 0;

	if (powered(r, model_get(r->range, element_of(block), &value)))
		assert_int_equal(value, model_value(element_of(block), r->newest[block]));
}

static void (*const operations[])(struct run *) = {
	do_set,	      do_set,	do_set,	  do_set,   do_set,  do_set,
	do_overwrite, do_visit, do_flush, do_evict, do_read, do_read,
};

/* ---- crash points ---- */

/* What is on the medium is what may be; from now on it is what must be. */
static void check_survivors(struct run *r)
{
	static uint64_t medium[BLOCKS_MAX * PER_BLOCK];

	assert_ok(fth_dev_read(r->dev, medium, (uint64_t)r->blocks * BLOCK, 0, FTH_DEV_TIMEOUT));
	for (uint64_t i = 0; i < (uint64_t)r->blocks * PER_BLOCK; i++) {
		uint64_t block = i / PER_BLOCK;
		uint64_t generation = medium[i] - model_value(i, 0);

		if (i != element_of(block)) {
			assert_int_equal(generation, 0);
			continue;
		}
		if (generation < r->durable[block] || generation > r->newest[block])
			fail_msg("block %llu: generation %llu survived, of %u to %u",
				 (unsigned long long)block, (unsigned long long)generation,
				 r->durable[block], r->newest[block]);
		r->durable[block] = r->newest[block] = (uint32_t)generation;
	}
}

static void open_cache(struct run *r)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;

	options.line = r->setup->line;
	options.compact = r->setup->compact;
	options.depth = 4;
	options.timeout_ns = PATIENCE;
	r->range = model_open_cache(r->dev, &options, r->setup->frames);
	r->dark = false;
}

static void crash_once(struct run *r, uint64_t seed)
{
	size_t kinds = sizeof(operations) / sizeof(operations[0]);

	open_cache(r);
	for (uint64_t steps = fth_rng_below(&r->rng, STEPS_MAX); steps && !r->dark; steps--)
		operations[fth_rng_below(&r->rng, kinds)](r);
	if (fth_dev_crash_powered(r->dev))
		assert_ok(fth_dev_crash_power_loss(r->dev, seed));
	close_dark(r);
	assert_ok(fth_dev_crash_restart(r->dev));
	check_survivors(r);
}

static uint64_t points_or(uint64_t points)
{
	const char *text = getenv("FTH_CACHE_CRASH_POINTS");

	return text ? strtoull(text, NULL, 10) : points;
}

static const struct setup setups[] = {
	{512, 4, 24, false, "crash(mem:%llu)"},		  {512, 8, 24, true, "crash(mem:%llu)"},
	{4096, 4, 12, false, "crash(mem:%llu)"},	  {4096, 16, 12, true, "crash(mem:%llu)"},
	{16384, 6, 8, false, "crash(mem:%llu)?limit=8K"},
};
#define SETUPS (sizeof(setups) / sizeof(setups[0]))

static void run_up(struct run *r, const struct setup *setup, uint64_t seed)
{
	uint64_t bytes = (uint64_t)setup->line * setup->lines;

	*r = (struct run){.setup = setup, .rng = {seed}};
	r->per_line = setup->line / BLOCK;
	r->blocks = r->per_line * setup->lines;
	assert_true(r->blocks <= BLOCKS_MAX);
	r->dev = model_open_dev(setup->uri, (unsigned long long)bytes);
}

static void no_crash_point_breaks_a_promise(void **state)
{
	(void)state;
	for (unsigned s = 0; s < SETUPS; s++) {
		struct fth_dev_crash_counts counts;
		static struct run r;
		uint64_t points = points_or(1100);

		run_up(&r, &setups[s], s);
		for (uint64_t point = 0; point < points; point++)
			crash_once(&r, point);
		assert_ok(fth_dev_crash_counts(r.dev, &counts));
		assert_int_equal(counts.crashes, points);
		/* Or nothing was at stake. */
		assert_true(counts.vanished + counts.torn > points / 4);
		fth_dev_close(r.dev);
	}
}

/* What is closed is flushed. */
static void a_clean_close_is_durable(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		static struct run r;

		run_up(&r, &setups[seed % SETUPS], seed);
		open_cache(&r);
		for (unsigned i = 0; i < 20; i++)
			do_set(&r);
		assert_ok(fth_cache_close(fth_cache_of(r.range)));
		memcpy(r.durable, r.newest, sizeof(r.durable));
		assert_ok(fth_dev_crash_power_loss(r.dev, seed));
		assert_ok(fth_dev_crash_restart(r.dev));
		check_survivors(&r);
		fth_dev_close(r.dev);
	}
}

/* ---- threads ---- */

#define THREADS 4

struct writer {
	struct run *run;
	unsigned number;
	pthread_t thread;
	int rc;
};

/* Set a block. Without power this ends by its deadline at the latest. */
static int set_in_time(struct run *r, uint32_t block)
{
	struct fth_cache_pin pin;
	int rc;

	do
		rc = fth_cache_pin(r->range, block / r->per_line, FTH_CACHE_WRITE,
				   fth_deadline_ns(SECOND / 10), &pin);
	while ((rc == -ETIMEDOUT || rc == -ENOBUFS) && fth_dev_crash_powered(r->dev));
	if (rc < 0)
		return rc;
	set_block(r, pin.data, block);
	fth_cache_unpin(&pin, true);
	return 0;
}

/* Each thread has every THREADS-th block, sets it and now and then flushes its line. */
static void *write_until_dark(void *arg)
{
	struct writer *w = arg;
	struct run *r = w->run;
	struct fth_rng rng = {w->number};

	while (w->rc == 0) {
		uint32_t slots = r->blocks / THREADS;
		uint32_t block = (uint32_t)fth_rng_below(&rng, slots) * THREADS + w->number;

		w->rc = set_in_time(r, block);
		if (w->rc < 0 || fth_rng_below(&rng, 4))
			continue;
		w->rc = fth_cache_flush(r->range, block / r->per_line, 1);
		if (w->rc == 0)
			r->durable[block] = r->newest[block];
	}
	return NULL;
}

static void every_thread_keeps_what_it_flushed(void **state)
{
	static struct run r;

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct writer writers[THREADS];

		run_up(&r, &setups[round % SETUPS], round);
		open_cache(&r);
		assert_ok(fth_dev_crash_at(r.dev, 20 + 13 * round, round));
		for (unsigned i = 0; i < THREADS; i++) {
			writers[i] = (struct writer){.run = &r, .number = i};
			assert_int_equal(pthread_create(&writers[i].thread, NULL, write_until_dark,
							&writers[i]),
					 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(writers[i].thread, NULL);
		for (unsigned i = 0; i < THREADS; i++)
			assert_true(writers[i].rc < 0);
		assert_false(fth_dev_crash_powered(r.dev));
		close_dark(&r);
		assert_ok(fth_dev_crash_restart(r.dev));
		check_survivors(&r);
		fth_dev_close(r.dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_crash_point_breaks_a_promise),
		cmocka_unit_test(a_clean_close_is_durable),
		cmocka_unit_test(every_thread_keeps_what_it_flushed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
