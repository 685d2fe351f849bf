/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache against a plain array, under threads, with so few frames that everybody is in
 * everybody's way. FTH_CACHE_MODEL_OPS=N runs N operations per thread instead of a few thousand.
 *
 * Who owns what: of four lines one is private, the others are shared.
 *	shared	element e belongs to thread e % (threads + 1), which alone changes it and knows its
 *		generation; those of the number `threads` are never changed
 *	private	all elements belong to one thread, which overwrites the line whole
 * All threads read all elements and check at least that they are in their place.
 */
#include "model_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS	  4
#define VISIT_MAX 12
#define HELD_MAX  2
#define CANCEL	  (-ECANCELED)

struct setup {
	uint32_t line, frames;
	enum fth_cache_policy policy;
	bool compact;
	const char *uri; /* with %llu for the size */
	double faults;	 /* rate */
};

struct model {
	const struct setup *setup;
	struct fth_dev *dev;
	struct fth_cache *cache;
	struct fth_cache_range *range;
	uint64_t lines, elements, per_line;
	uint32_t *generations; /* by element; its owner's */
	uint64_t ops;
};

struct thread {
	struct model *m;
	unsigned number;
	struct fth_rng rng;
	pthread_t id;
	char failure[160];
	/* Of the visit that is running. */
	const uint64_t *lines;
	unsigned called[VISIT_MAX];
	unsigned cancel_at; /* the call that asks for the end; 0 none */
	bool write;
	struct fth_cache_pin held[HELD_MAX];
	unsigned held_count;
};

#define CHECK(t, condition, ...)                                                   \
	do {                                                                       \
		if (!(condition) && !(t)->failure[0])                              \
			snprintf((t)->failure, sizeof((t)->failure), __VA_ARGS__); \
	} while (0)

/* ---- who owns what ---- */

static bool is_private(uint64_t line)
{
	return line % 4 == 3;
}

static unsigned owner_of(const struct model *m, uint64_t element)
{
	uint64_t line = element / m->per_line;

	return is_private(line) ? (unsigned)(line / 4 % THREADS)
				: (unsigned)(element % (THREADS + 1));
}

static uint64_t elements_of(const struct model *m, uint64_t line)
{
	uint64_t left = m->elements - line * m->per_line;

	return left < m->per_line ? left : m->per_line;
}

static uint64_t some_line(struct thread *t)
{
	return fth_rng_below(&t->rng, t->m->lines);
}

/* A line that this thread overwrites whole. */
static uint64_t own_line(struct thread *t)
{
	uint64_t stride = 4 * THREADS, all = t->m->lines / stride;

	return fth_rng_below(&t->rng, all) * stride + 4 * t->number + 3;
}

/* ---- checks ---- */

static void check_element(struct thread *t, const uint8_t *data, uint64_t element)
{
	uint64_t value = model_load(data, element % t->m->per_line);
	unsigned owner = owner_of(t->m, element);

	CHECK(t, model_in_place(value, element), "element %llu is %llx, another's",
	      (unsigned long long)element, (unsigned long long)value);
	if (owner == t->number || owner == THREADS)
		CHECK(t, value == model_value(element, t->m->generations[element]),
		      "element %llu of thread %u is %llx, not generation %u",
		      (unsigned long long)element, owner, (unsigned long long)value,
		      t->m->generations[element]);
}

/* Some elements of a line; every one would take long in large lines. */
static void check_line(struct thread *t, const uint8_t *data, uint64_t line)
{
	uint64_t n = elements_of(t->m, line), step = 1 + n / 16;

	for (uint64_t i = fth_rng_below(&t->rng, step); i < n; i += step)
		check_element(t, data, line * t->m->per_line + i);
}

/* With faults an error of the device may come of anything; nothing else ever. */
static bool went_well(struct thread *t, int rc, const char *what)
{
	if (rc == 0)
		return true;
	CHECK(t, rc == -EIO && t->m->setup->faults > 0, "%s: %d, %s", what, rc, fth_error_text(rc));
	return false;
}

/* ---- changes ---- */

static void change_own(struct thread *t, uint8_t *data, uint64_t line)
{
	uint64_t first = line * t->m->per_line, n = elements_of(t->m, line);
	uint64_t at = fth_rng_below(&t->rng, n);

	for (uint64_t i = at; i < n && i < at + THREADS + 1; i++) {
		if (owner_of(t->m, first + i) != t->number)
			continue;
		check_element(t, data, first + i);
		model_store(data, i, model_value(first + i, ++t->m->generations[first + i]));
	}
}

static void overwrite(struct thread *t, uint8_t *data, uint64_t line)
{
	uint64_t first = line * t->m->per_line, n = elements_of(t->m, line);

	for (uint64_t i = 0; i < n; i++)
		model_store(data, i, model_value(first + i, ++t->m->generations[first + i]));
}

/* ---- operations ---- */

static bool pin(struct thread *t, uint64_t line, enum fth_cache_mode mode,
		struct fth_cache_pin *out)
{
	int rc = fth_cache_pin(t->m->range, line, mode, fth_deadline_ns(PATIENCE), out);

	return went_well(t, rc, "pin");
}

static void do_read(struct thread *t)
{
	struct fth_cache_pin p;
	uint64_t line = some_line(t);

	if (!pin(t, line, FTH_CACHE_READ, &p))
		return;
	check_line(t, p.data, line);
	fth_cache_unpin(&p, false);
}

static void do_write(struct thread *t)
{
	struct fth_cache_pin p;
	uint64_t line = some_line(t);
	bool change = fth_rng_below(&t->rng, 8) > 0;

	if (!pin(t, line, FTH_CACHE_WRITE, &p))
		return;
	check_line(t, p.data, line);
	if (change)
		change_own(t, p.data, line);
	fth_cache_unpin(&p, change);
}

static void do_overwrite(struct thread *t)
{
	struct fth_cache_pin p;
	uint64_t line = own_line(t);
	bool change = fth_rng_below(&t->rng, 4) > 0;

	if (!pin(t, line, FTH_CACHE_OVERWRITE, &p))
		return;
	if (p.fresh && !change)
		memset(p.data, 0xee, elements_of(t->m, line) * 8); /* nobody may see it */
	if (change)
		overwrite(t, p.data, line);
	fth_cache_unpin(&p, change);
}

/* Keep a line for a while, or let go of one, where there are frames to spare. */
static void do_hold(struct thread *t)
{
	if (t->m->setup->frames < 4 * THREADS)
		return;
	if (t->held_count == HELD_MAX) {
		struct fth_cache_pin *p = &t->held[--t->held_count];

		check_line(t, p->data, p->line);
		fth_cache_unpin(p, false);
	} else if (pin(t, some_line(t), FTH_CACHE_READ, &t->held[t->held_count])) {
		t->held_count++;
	}
}

static int visited(void *context, size_t which, uint8_t *data)
{
	struct thread *t = context;
	uint64_t line = t->lines[which];

	t->called[which]++;
	if (t->cancel_at && --t->cancel_at == 0)
		return CANCEL;
	check_line(t, data, line);
	if (t->write)
		change_own(t, data, line);
	return 0;
}

static int visited_whole(void *context, size_t which, uint8_t *data)
{
	struct thread *t = context;

	t->called[which]++;
	if (t->cancel_at && --t->cancel_at == 0)
		return CANCEL;
	overwrite(t, data, t->lines[which]);
	return 0;
}

static void visit(struct thread *t, enum fth_cache_mode mode, const uint64_t *lines, unsigned n,
		  fth_cache_visit_fn fn)
{
	bool cancel = fth_rng_below(&t->rng, 8) == 0;
	int rc;

	memset(t->called, 0, sizeof(t->called));
	t->lines = lines;
	t->write = mode == FTH_CACHE_WRITE;
	t->cancel_at = cancel ? 1 + (unsigned)fth_rng_below(&t->rng, n) : 0;
	rc = fth_cache_visit(t->m->range, mode, lines, n, fn, t);
	for (unsigned i = 0; i < n; i++) {
		CHECK(t, t->called[i] <= 1, "line %u of a visit was visited twice", i);
		CHECK(t, rc < 0 || t->called[i] == 1, "line %u of a visit was left out", i);
	}
	if (!cancel || rc != CANCEL)
		went_well(t, rc, "visit");
}

static void do_visit(struct thread *t)
{
	uint64_t lines[VISIT_MAX];
	unsigned n = 1 + (unsigned)fth_rng_below(&t->rng, VISIT_MAX);
	bool run = fth_rng_below(&t->rng, 2), write = fth_rng_below(&t->rng, 2);

	lines[0] = some_line(t);
	for (unsigned i = 1; i < n; i++)
		lines[i] = run ? (lines[i - 1] + 1) % t->m->lines : some_line(t);
	visit(t, write ? FTH_CACHE_WRITE : FTH_CACHE_READ, lines, n, visited);
}

static void do_visit_whole(struct thread *t)
{
	uint64_t lines[VISIT_MAX];
	unsigned n = 1 + (unsigned)fth_rng_below(&t->rng, VISIT_MAX);

	for (unsigned i = 0; i < n; i++)
		lines[i] = own_line(t);
	visit(t, FTH_CACHE_OVERWRITE, lines, n, visited_whole);
}

/* What a flush that succeeded covers is on the medium: the thread's own elements, exactly. */
static void check_flushed(struct thread *t, uint64_t line)
{
	uint64_t first = line * t->m->per_line, n = elements_of(t->m, line);

#ifdef __SANITIZE_THREAD__
	return; /* others' write-backs of the line race with the look at the medium */
#endif
	for (uint64_t i = 0; i < n; i++) {
		if (owner_of(t->m, first + i) != t->number || fth_rng_below(&t->rng, 8))
			continue;
		CHECK(t,
		      model_on_medium(t->m->dev, first + i) ==
			      model_value(first + i, t->m->generations[first + i]),
		      "element %llu is not on the medium after a flush",
		      (unsigned long long)(first + i));
	}
}

static void do_flush(struct thread *t)
{
	uint64_t line = some_line(t), n = 1 + fth_rng_below(&t->rng, 6);

	if (fth_rng_below(&t->rng, 8) == 0) {
		if (went_well(t, fth_cache_flush_all(t->m->cache), "flush_all"))
			check_flushed(t, some_line(t));
	} else if (went_well(t, fth_cache_flush(t->m->range, line, n), "flush")) {
		check_flushed(t, line);
	}
}

static void do_evict(struct thread *t)
{
	went_well(t, fth_cache_evict(t->m->range, some_line(t), 1 + fth_rng_below(&t->rng, 6)),
		  "evict");
}

static void do_prefetch(struct thread *t)
{
	uint64_t n = 1 + fth_rng_below(&t->rng, 8);

	CHECK(t, fth_cache_prefetch(t->m->range, some_line(t), n) <= n, "more than was asked for");
}

static void (*const operations[])(struct thread *) = {
	do_read,  do_read,  do_read, do_write,	     do_write, do_write, do_overwrite, do_overwrite,
	do_visit, do_visit, do_hold, do_visit_whole, do_flush, do_evict, do_prefetch,
};

static void *work(void *arg)
{
	struct thread *t = arg;
	size_t kinds = sizeof(operations) / sizeof(operations[0]);

	for (uint64_t i = 0; i < t->m->ops && !t->failure[0]; i++)
		operations[fth_rng_below(&t->rng, kinds)](t);
	while (t->held_count)
		fth_cache_unpin(&t->held[--t->held_count], false);
	return NULL;
}

/* ---- runs ---- */

static void set_faults(struct model *m, double rate)
{
	struct fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;

	if (rate == 0)
		return;
	plan.rate = rate;
	plan.seed = m->setup->line + m->setup->frames;
	plan.mode = m->setup->frames % 2 ? FTH_DEV_FAULT_FAIL : FTH_DEV_FAULT_TORN;
	assert_ok(fth_dev_fault_set(m->dev, &plan));
}

static void model_up(struct model *m, const struct setup *setup, uint64_t ops)
{
	struct fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	uint64_t lines = setup->frames * 4 > 64 ? setup->frames * 4 : 64;

	*m = (struct model){.setup = setup, .lines = lines, .ops = ops};
	/* The last line is a short one. */
	m->dev = model_open_dev(setup->uri, (unsigned long long)(lines * setup->line -
								 (setup->line > 512 ? 512 : 0)));
	options.line = setup->line;
	options.policy = setup->policy;
	options.compact = setup->compact;
	options.depth = 8;
	options.timeout_ns = PATIENCE;
	m->range = model_open_cache(m->dev, &options, setup->frames);
	m->cache = fth_cache_of(m->range);
	m->per_line = setup->line / 8;
	m->elements = fth_cache_bytes(m->range) / 8;
	m->generations = calloc(m->elements, sizeof(*m->generations));
	assert_non_null(m->generations);
	assert_int_equal(fth_cache_lines(m->range), lines);
}

static void check_all(struct model *m)
{
	struct fth_cache_footprint footprint;
	uint64_t *all = malloc(m->elements * 8);

	assert_non_null(all);
	assert_ok(fth_cache_flush_all(m->cache));
	fth_cache_footprint(m->cache, &footprint);
	assert_int_equal(footprint.dirty, 0);
	assert_ok(fth_dev_read(model_medium(m->dev), all, m->elements * 8, 0, FTH_DEV_TIMEOUT));
	for (uint64_t i = 0; i < m->elements; i++)
		if (all[i] != model_value(i, m->generations[i]))
			fail_msg("element %llu is %llx on the medium, not generation %u",
				 (unsigned long long)i, (unsigned long long)all[i],
				 m->generations[i]);
	free(all);
}

static void run(const struct setup *setup, uint64_t ops, uint64_t seed)
{
	struct thread threads[THREADS];
	struct model m;

	model_up(&m, setup, ops);
	set_faults(&m, setup->faults);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){.m = &m, .number = i, .rng = {seed * THREADS + i}};
		assert_int_equal(pthread_create(&threads[i].id, NULL, work, &threads[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i].id, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		if (threads[i].failure[0])
			fail_msg("line %u, %u frames, %s%s, %s: %s", setup->line, setup->frames,
				 fth_cache_policy_name(setup->policy),
				 setup->compact ? ", compact" : "", setup->uri, threads[i].failure);
	if (setup->faults > 0)
		assert_ok(fth_dev_fault_disarm(m.dev));
	check_all(&m);
	assert_ok(fth_cache_close(m.cache));
	fth_dev_close(m.dev);
	free(m.generations);
}

static uint64_t operations_or(uint64_t ops)
{
	const char *text = getenv("FTH_CACHE_MODEL_OPS");

	return text ? strtoull(text, NULL, 10) : ops;
}

#define PLAIN "mem:%llu"
#define FAULT "fault(mem:%llu)"
#define SLOW  "delay(mem:%llu)?read_us=60&write_us=60"

static const uint32_t line_sizes[] = {512, 4096, 65536, 1024};
static const uint32_t frame_counts[] = {4, 7, 16, 64, 5};

static void every_policy_and_both_directories_agree_with_the_model(void **state)
{
	unsigned n = 0;

	(void)state;
	for (unsigned policy = 0; policy < FTH_CACHE_POLICY_COUNT; policy++) {
		for (unsigned compact = 0; compact < 2; compact++, n++) {
			struct setup setup = {line_sizes[n % 4],
					      frame_counts[n % 5],
					      (enum fth_cache_policy)policy,
					      compact,
					      PLAIN,
					      0};

			run(&setup, operations_or(1000), n);
		}
	}
}

static void failing_devices_lose_nothing(void **state)
{
	unsigned n = 0;

	(void)state;
	for (unsigned policy = 0; policy < FTH_CACHE_POLICY_COUNT; policy++) {
		for (unsigned compact = 0; compact < 2; compact++, n++) {
			struct setup setup = {line_sizes[(n + 1) % 4],
					      frame_counts[(n + 2) % 5],
					      (enum fth_cache_policy)policy,
					      compact,
					      FAULT,
					      n % 3 ? 0.05 : 0.3};

			run(&setup, operations_or(700), 100 + n);
		}
	}
}

/* Requests that take a while: fetches are waited for, merged, and left behind by prefetches. */
static void slow_devices_agree_with_the_model(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 4; n++) {
		struct setup setup = {
			line_sizes[n], frame_counts[n], FTH_CACHE_DEFAULT, n % 2, SLOW, 0};

		run(&setup, operations_or(250), 200 + n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_policy_and_both_directories_agree_with_the_model),
		cmocka_unit_test(failing_devices_lose_nothing),
		cmocka_unit_test(slow_devices_agree_with_the_model),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
