/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines that are claimed to be overwritten, many at once (fathom/gpu/claim.h), on CPU threads: what
 * was given is there and is written, what was not is as it was, and nothing stays claimed.
 */
#include "cache_warp_fixture.h"

#include "fathom/gpu/claim.h"
#include "fathom/detail/gpu/pins.h"

static uint32_t claimed; /* lines, by all warps of a test */
static uint32_t go_on;	 /* one warp has done what another waits for */

/* Every frame is free, or holds the line that says so. */
static void check_frames(const struct bed *bed)
{
	for (uint32_t f = 0; f < bed->cache->frames; f++) {
		uint64_t tag = bed->cache->tags[f];
		const uint64_t *word = fth_gpu_tag_word_(bed->cache, tag);

		if (word)
			assert_true(fth_line_ready(*word) && fth_line_frame(*word) == f);
		else
			assert_int_equal(fth_gpu_tag_array_(tag), FTH_GPU_TAG_FREE);
	}
}

static void fill(const struct bed *bed, uint64_t *data, uint64_t line, uint32_t lane)
{
	uint32_t each = bed->shape->line / 8;

	for (uint32_t k = lane; k < each; k += 32)
		data[k] = ~value_of(line * each + k);
}

static void count_claim(struct fth_gpu_claim claim)
{
	if (claim.frame != FTH_GPU_NO_FRAME)
		fth_add_relaxed_dev32(&claimed, 1);
}

/* Is element k of a line, seen through the cache, what it was (or what fill() makes of it)? */
static void look_at(struct client *me, uint64_t line, uint32_t k, bool changed)
{
	uint64_t i = line * (me->bed->shape->line / 8) + k;
	struct fth_gpu_value v =
		fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_GET, 8, 0, 0);

	note(me->bed, v.rc, v.bits == (changed ? ~value_of(i) : value_of(i)));
}

/* ---- many warps, few frames ---- */

static void pin_and_fill(struct client *me, uint64_t line, uint32_t lane)
{
	struct fth_gpu_pin pin = fth_gpu_pin_(me->bed->cache, ~0u, 0, line, FTH_GPU_OVERWRITE);

	note(me->bed, pin.rc, true);
	if (pin.rc < 0)
		return;
	fill(me->bed, (uint64_t *)pin.data, line, lane);
	fth_gpu_unpin_(me->bed->cache, ~0u, 0, line, pin, true);
}

/* Lines [first, first + n): those that can be claimed, and then the others. */
static void overwrite(struct client *me, uint64_t first, uint32_t n, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim = fth_gpu_claim_lines(a, first, n);
	uint32_t left = 0;

	count_claim(claim);
	for (uint32_t k = 0; k < n; k++) {
		uint64_t *data = fth_gpu_claim_data(a, claim, k);

		if (data)
			fill(me->bed, data, first + k, lane);
		else
			left |= 1u << k;
	}
	fth_gpu_claim_give(a, first, claim, n);
	for (uint32_t k = 0; k < n; k++)
		if (left >> k & 1)
			pin_and_fill(me, first + k, lane);
}

/* With next to no frames everything takes long: fewer lines then. */
static uint32_t lines_of(const struct shape *s)
{
	return s->frames < 4 ? 12 : LINES;
}

static void overwrite_all(struct client *me, uint32_t lane)
{
	uint32_t lines = lines_of(me->bed->shape), each = me->bed->shape->rounds, number = 0;

	for (uint32_t first = 0; first < lines; first += each, number++)
		if (number % me->bed->shape->clients == me->number)
			overwrite(me, first, lines - first < each ? lines - first : each, lane);
}

/* Some of the lines are there, as they were. */
static void read_some(struct client *me, uint32_t lane)
{
	look_at(me, (me->number * 32 + lane) % lines_of(me->bed->shape), lane, false);
}

static void read_changed(struct client *me, uint32_t lane)
{
	look_at(me, (me->number * 32 + lane) % lines_of(me->bed->shape), lane, true);
}

static void test_overwrites(void **state)
{
	/* rounds: lines that a warp claims at once */
	static const struct shape shapes[] = {
		{16, 512, 2, 1, 5, false}, {3, 512, 3, 1, 7, false},   {1, 512, 2, 1, 3, false},
		{9, 1024, 3, 2, 4, false}, {12, 4096, 2, 1, 8, false}, {64, 512, 2, 1, 32, false},
	};

	(void)state;
	for (uint32_t i = 0; i < 2 * sizeof(shapes) / sizeof(*shapes); i++) {
		const struct shape *s = &shapes[i / 2];
		struct bed *bed = make_bed(s);

		claimed = 0;
		if (i % 2)
			run_clients(bed, read_some);
		run_clients(bed, overwrite_all);
		all_well(bed);
		check_frames(bed);
		assert_true(claimed > 0 || (i % 2 && s->frames == LINES));
		/* What is overwritten is not read. */
		if (i % 2 == 0)
			assert_int_equal(count_of(bed, FTH_GPU_READS), 0);
		run_clients(bed, read_changed);
		run_clients(bed, flush);
		all_well(bed);
		check_frames(bed);
		for (uint64_t e = 0; e < bed->elements; e++)
			assert_int_equal(*on_medium(bed, e, 0), e < lines_of(s) * s->line / 8
									? ~value_of(e)
									: value_of(e));
		release_bed(bed);
	}
}

/* ---- one warp ---- */

/* All eight are claimed, and nobody sees them; of four, given without having been filled, nothing
 * is left. */
static void fill_half(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim = fth_gpu_claim_lines(a, 8, 8);
	uint64_t word = fth_load_relaxed_dev64(&a.words[8 + lane % 8]);

	note(me->bed, 0, (claim.frame != FTH_GPU_NO_FRAME) == (lane < 8));
	note(me->bed, 0, (word & FTH_LINE_BUSY) && fth_line_count(word) == 1);
	__syncwarp();
	for (uint32_t k = 0; k < 6; k++)
		fill(me->bed, fth_gpu_claim_data(a, claim, k), 8 + k, lane);
	fth_gpu_claim_give(a, 8, claim, 4);
	__syncwarp();
	word = fth_load_relaxed_dev64(&a.words[8 + lane % 8]);
	if (lane % 8 < 4)
		note(me->bed, 0, fth_line_ready(word) && (word & FTH_LINE_DIRTY));
	else
		note(me->bed, 0, word == 0);
	__syncwarp();
	look_at(me, 8 + lane % 8, lane, lane % 8 < 4);
}

static void test_half(void **state)
{
	static const struct shape s = {8, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, fill_half);
	run_clients(bed, flush);
	all_well(bed);
	check_frames(bed);
	for (uint64_t e = 0; e < bed->elements; e++)
		assert_int_equal(*on_medium(bed, e, 0),
				 e / 64 >= 8 && e / 64 < 12 ? ~value_of(e) : value_of(e));
	release_bed(bed);
}

/* Lines that are there, or not in the array to their end, are not claimed. */
static void claim_what_can_not(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim;

	look_at(me, 1, lane, false);
	a.count = 3 * 64 + 5;
	claim = fth_gpu_claim_lines(a, 0, 5);
	note(me->bed, 0, (claim.frame != FTH_GPU_NO_FRAME) == (lane == 0 || lane == 2));
	note(me->bed, 0, fth_gpu_claim_data(a, claim, 3) == NULL);
	fth_gpu_claim_give(a, 0, claim, 0);
	note(me->bed, 0, fth_gpu_claim_lines(a, 0, 0).frame == FTH_GPU_NO_FRAME);
	look_at(me, lane % 5, lane, false);
}

static void test_what_can_not(void **state)
{
	static const struct shape s = {8, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, claim_what_can_not);
	all_well(bed);
	check_frames(bed);
	release_bed(bed);
}

/* ---- errors: nothing is claimed, and who pins is told ---- */

static int pin_error(struct client *me, uint64_t line)
{
	return fth_gpu_pin_(me->bed->cache, ~0u, 0, line, FTH_GPU_OVERWRITE).rc;
}

static void claim_outside(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim;

	/* A handle that says more than the cache knows of. */
	a.count += 8 * 64;
	claim = fth_gpu_claim_lines(a, LINES - 2, 6);
	note(me->bed, 0, (claim.frame != FTH_GPU_NO_FRAME) == (lane < 2));
	fth_gpu_claim_give(a, LINES - 2, claim, 0);
	note(me->bed, 0, pin_error(me, LINES) == -ERANGE);
}

static void claim_read_only(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim = fth_gpu_claim_lines(a, 0, 6);

	note(me->bed, 0, claim.frame == FTH_GPU_NO_FRAME);
	note(me->bed, 0, fth_load_relaxed_dev64(&a.words[lane]) == 0);
	__syncwarp();
	note(me->bed, 0, pin_error(me, 0) == -EROFS);
}

static void test_refused(void **state)
{
	static const struct shape s = {8, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, claim_outside);
	all_well(bed);
	bed->cache->ranges[0].readonly = 1;
	run_clients(bed, claim_read_only);
	all_well(bed);
	check_frames(bed);
	assert_int_equal(count_of(bed, FTH_GPU_WRITE_BACKS), 0);
	release_bed(bed);
}

/* All frames are held; then they are not, and two of four lines get one. */
static void claim_without_frames(struct client *me, uint32_t lane)
{
	struct fth_gpu_cache_state *cache = me->bed->cache;
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim;
	struct fth_gpu_pin pins[2];

	for (uint32_t k = 0; k < 2; k++) {
		pins[k] = fth_gpu_pin_(cache, ~0u, 0, k, FTH_GPU_READ);
		note(me->bed, pins[k].rc, true);
	}
	claim = fth_gpu_claim_lines(a, 4, 4);
	note(me->bed, 0, claim.frame == FTH_GPU_NO_FRAME);
	note(me->bed, 0, fth_load_relaxed_dev64(&a.words[4 + lane % 4]) == 0);
	__syncwarp();
	note(me->bed, 0, pin_error(me, 4) == -ENOBUFS);
	for (uint32_t k = 0; k < 2; k++)
		fth_gpu_unpin_(cache, ~0u, 0, k, pins[k], false);
	claim = fth_gpu_claim_lines(a, 4, 4);
	count_claim(claim);
	fth_gpu_claim_give(a, 4, claim, 0);
}

static void test_no_frame(void **state)
{
	static const struct shape s = {2, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	claimed = 0;
	bed->cache->timeout_ns = 2000000000;
	run_clients(bed, claim_without_frames);
	all_well(bed);
	check_frames(bed);
	assert_int_equal(claimed, 2);
	assert_int_equal(bed->cache->failure.error, -ENOBUFS);
	release_bed(bed);
}

/* ---- others wait for a claimed line ---- */

static void claim_slowly(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_claim claim = fth_gpu_claim_lines(a, 0, 3);

	fth_store_release_dev32(&go_on, 1);
	for (uint32_t k = 0; k < 100; k++)
		__nanosleep(1);
	for (uint32_t k = 0; k < 3; k++)
		fill(me->bed, fth_gpu_claim_data(a, claim, k), k, lane);
	fth_gpu_claim_give(a, 0, claim, 3);
}

static void read_what_is_claimed(struct client *me, uint32_t lane)
{
	uint64_t deadline = fth_deadline_ns(me->bed->cache->timeout_ns);

	while (!fth_load_acquire_dev32(&go_on) && fth_now_ns() < deadline)
		__nanosleep(1);
	__syncwarp();
	look_at(me, lane % 3, lane, true);
}

static void test_waits(void **state)
{
	static const struct shape s = {8, 512, 2, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	go_on = 0;
	run_clients(bed, [](struct client *me, uint32_t lane) {
		if (me->number == 0)
			claim_slowly(me, lane);
		else
			read_what_is_claimed(me, lane);
	});
	all_well(bed);
	check_frames(bed);
	assert_int_equal(count_of(bed, FTH_GPU_READS), 0);
	release_bed(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overwrites),   cmocka_unit_test(test_half),
		cmocka_unit_test(test_what_can_not), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_frame),     cmocka_unit_test(test_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
