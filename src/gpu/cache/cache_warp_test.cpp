/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache for GPU memory, on CPU threads (warp_fixture.h): warps read, set and add to elements of
 * data much larger than the cache, and what comes out must be what the same without a cache gives.
 * Runs where there is no GPU.
 */
#include "cache_warp_fixture.h"

#include "fathom/detail/gpu/runs.h"

/* ---- reading ---- */

static void read_randomly(struct client *me, uint32_t lane)
{
	struct fth_rng rng = {me->number * 32 + lane};

	for (uint32_t k = 0; k < me->bed->shape->rounds; k++) {
		uint64_t i = fth_rng_below(&rng, me->bed->elements);
		struct fth_gpu_value v = fth_gpu_access_(
			me->bed->cache, 0, i * 8, k % 5 == 4 ? FTH_GPU_OP_PREFETCH : FTH_GPU_OP_GET,
			8, 0, 0);

		note(me->bed, v.rc, v.bits == (k % 5 == 4 ? 0 : value_of(i)));
	}
}

static void read_in_order(struct client *me, uint32_t lane)
{
	for (uint64_t i = lane; i < me->bed->elements; i += 32) {
		struct fth_gpu_value v =
			fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_GET, 8, 0, 0);

		note(me->bed, v.rc, v.bits == value_of(i));
	}
}

static void test_reads(void **state)
{
	static const struct shape shapes[] = {
		{16, 512, 2, 1, 10, false}, {3, 512, 3, 1, 4, false},  {1, 512, 2, 1, 2, false},
		{10, 4096, 2, 1, 5, false}, {12, 8192, 2, 1, 5, false}, {9, 1024, 3, 2, 5, false},
		{9, 1024, 3, 2, 5, true},   {64, 512, 3, 1, 10, false},
		/* lines of one block of 4096 bytes, of two, and of one of 8192 */
		{9, 4096, 2, 2, 4, false, 12}, {9, 8192, 2, 1, 4, false, 12},
		{9, 8192, 2, 2, 4, true, 13},
	};

	(void)state;
	for (const struct shape &s : shapes) {
		struct bed *bed = make_bed(&s);

		run_clients(bed, read_randomly);
		all_well(bed);
		if (s.frames > 3 && s.line == 512)
			run_clients(bed, read_in_order);
		all_well(bed);
		assert_int_equal(count_of(bed, FTH_GPU_MISSES), count_of(bed, FTH_GPU_READS));
		assert_int_equal(count_of(bed, FTH_GPU_WRITE_BACKS), 0);
		if (s.frames == LINES)
			assert_true(count_of(bed, FTH_GPU_READS) <= LINES);
		release_bed(bed);
	}
}

/* Three groups of each warp come apart from each other, at different times. */
static void read_in_groups(struct client *me, uint32_t lane)
{
	uint32_t mask = 0;

	for (uint32_t l = lane % 3; l < 32; l += 3)
		mask |= 1u << l;
	fixture_go_apart(mask);
	read_randomly(me, lane);
}

static void test_groups(void **state)
{
	static const struct shape shapes[] = {{16, 512, 2, 1, 10, false}, {3, 512, 2, 1, 4, false}};

	(void)state;
	for (const struct shape &s : shapes) {
		struct bed *bed = make_bed(&s);

		run_clients(bed, read_in_groups);
		all_well(bed);
		release_bed(bed);
	}
}

/* ---- changing ---- */

static void add_randomly(struct client *me, uint32_t lane)
{
	struct fth_rng rng = {me->number * 32 + lane};

	for (uint32_t k = 0; k < me->bed->shape->rounds; k++) {
		uint64_t i = fth_rng_below(&rng, me->bed->elements) & ~(uint64_t)1;
		struct fth_gpu_value v =
			fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_ADD, 8, 1, 0);

		note(me->bed, v.rc, true);
		/* Odd elements are not changed, whatever becomes of their neighbours. */
		v = fth_gpu_access_(me->bed->cache, 0, (i + 1) * 8, FTH_GPU_OP_GET, 8, 0, 0);
		note(me->bed, v.rc, v.bits == value_of(i + 1));
	}
}

/* Lanes that call together come from different places: of one line, some get and others change. */
static void change_and_get(struct client *me, uint32_t lane)
{
	struct fth_rng rng = {me->number};

	for (uint32_t k = 0; k < me->bed->shape->rounds * 4; k++) {
		bool changes = (lane + k) % 3 == 0;
		uint64_t i = fth_rng_below(&rng, me->bed->elements) / 64 * 64 + lane * 2;
		struct fth_gpu_value v;

		if (changes)
			v = fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_ADD, 8, 1, 0);
		else
			v = fth_gpu_access_(me->bed->cache, 0, (i + 1) * 8, FTH_GPU_OP_GET, 8, 0,
					    0);
		note(me->bed, v.rc, changes || v.bits == value_of(i + 1));
	}
}

static uint64_t added_on_medium(const struct bed *bed)
{
	uint64_t added = 0;

	for (uint64_t i = 0; i < bed->elements; i++)
		added += *on_medium(bed, i, 0) - value_of(i);
	return added;
}

static void test_mixed(void **state)
{
	static const struct shape shapes[] = {
		{16, 512, 2, 1, 6, false},
		{2, 512, 3, 1, 4, false},
		{64, 1024, 3, 2, 6, false},
	};

	(void)state;
	for (const struct shape &s : shapes) {
		struct bed *bed = make_bed(&s);
		uint64_t changing = 0;

		for (uint32_t k = 0; k < s.rounds * 4; k++)
			for (uint32_t lane = 0; lane < 32; lane++)
				changing += (lane + k) % 3 == 0;
		run_clients(bed, change_and_get);
		all_well(bed);
		run_clients(bed, flush);
		all_well(bed);
		assert_int_equal(added_on_medium(bed), changing * s.clients);
		release_bed(bed);
	}
}

static void test_adds(void **state)
{
	static const struct shape shapes[] = {
		{16, 512, 2, 1, 6, false},
		{3, 512, 3, 1, 3, false},
		{8, 1024, 3, 2, 5, false},
		{64, 512, 3, 1, 6, false},
		{8, 4096, 2, 2, 4, false, 12},
		{8, 8192, 2, 1, 4, false, 12},
	};

	(void)state;
	for (const struct shape &s : shapes) {
		struct bed *bed = make_bed(&s);

		run_clients(bed, add_randomly);
		all_well(bed);
		run_clients(bed, flush);
		all_well(bed);
		assert_int_equal(added_on_medium(bed), s.clients * 32 * s.rounds);
		assert_true(count_of(bed, FTH_GPU_WRITE_BACKS) > 0);
		release_bed(bed);
	}
}

/* Whole lines, by pins: read, changed, and overwritten without being read. */
static void pin_lines(struct client *me, uint32_t lane)
{
	struct bed *bed = me->bed;
	uint32_t each = bed->shape->line / 8;

	for (uint32_t line = me->number; line < LINES; line += bed->shape->clients) {
		enum fth_gpu_mode mode = (enum fth_gpu_mode)(line % 3);
		struct fth_gpu_pin pin = fth_gpu_pin_(bed->cache, ~0u, 0, line, mode);
		uint64_t *data = (uint64_t *)pin.data;

		note(bed, pin.rc, true);
		for (uint32_t k = lane; pin.rc == 0 && k < each; k += 32) {
			if (mode != FTH_GPU_OVERWRITE)
				note(bed, 0, data[k] == value_of(line * each + k));
			if (mode != FTH_GPU_READ)
				data[k] = ~value_of(line * each + k);
		}
		if (pin.rc == 0)
			fth_gpu_unpin_(bed->cache, ~0u, 0, line, pin, mode != FTH_GPU_READ);
	}
}

static void test_pins(void **state)
{
	static const struct shape s = {9, 1024, 3, 2, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, pin_lines);
	run_clients(bed, flush);
	all_well(bed);
	for (uint64_t i = 0; i < bed->elements; i++)
		assert_int_equal(*on_medium(bed, i, 0),
				 i / 128 % 3 ? ~value_of(i) : value_of(i));
	assert_true(count_of(bed, FTH_GPU_READS) < count_of(bed, FTH_GPU_MISSES));
	release_bed(bed);
}

/* A line that is pinned to be overwritten, and let go without. */
static void pin_in_vain(struct client *me, uint32_t lane)
{
	struct bed *bed = me->bed;
	struct fth_gpu_value v;

	for (uint64_t line = 0; line < 8; line++) {
		struct fth_gpu_pin pin = fth_gpu_pin_(bed->cache, ~0u, 0, line, FTH_GPU_OVERWRITE);

		note(bed, pin.rc, pin.fresh != 0);
		((uint64_t *)pin.data)[lane] = lane;
		fth_gpu_unpin_(bed->cache, ~0u, 0, line, pin, false);
	}
	v = fth_gpu_access_(bed->cache, 0, (5 * 64 + lane) * 8, FTH_GPU_OP_GET, 8, 0, 0);
	note(bed, v.rc, v.bits == value_of(5 * 64 + lane));
}

static void test_pinned_in_vain(void **state)
{
	static const struct shape s = {2, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, pin_in_vain);
	all_well(bed);
	run_clients(bed, flush);
	all_well(bed);
	assert_int_equal(count_of(bed, FTH_GPU_WRITE_BACKS), 0);
	assert_int_equal(count_of(bed, FTH_GPU_EVICTIONS), 0);
	for (uint64_t i = 0; i < bed->elements; i++)
		assert_int_equal(*on_medium(bed, i, 0), value_of(i));
	release_bed(bed);
}

/* Runs that begin and end anywhere. */
static void copy_runs(struct client *me, uint32_t lane)
{
	static thread_local uint64_t memory[701];
	uint64_t first = 100 + 1777 * me->number, n = 701;
	int rc;

	if (lane == 0)
		memset(memory, 0, sizeof(memory));
	__syncwarp();
	rc = fth_gpu_run_(me->bed->cache, 0, first * 8, n * 8, (uint8_t *)memory, false, 0, 1);
	__syncwarp();
	note(me->bed, rc, true);
	for (uint64_t k = lane; k < n; k += 32) {
		note(me->bed, 0, memory[k] == value_of(first + k));
		memory[k] = ~memory[k];
	}
	__syncwarp();
	for (uint32_t step = 0; step < 2; step++)
		note(me->bed,
		     fth_gpu_run_(me->bed->cache, 0, first * 8, n * 8, (uint8_t *)memory, true,
				  step, 2),
		     true);
}

static void test_runs(void **state)
{
	static const struct shape s = {11, 1024, 3, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, copy_runs);
	run_clients(bed, flush);
	all_well(bed);
	for (uint64_t i = 0; i < bed->elements; i++) {
		bool changed = i >= 100 && i < 100 + 3 * 1777 && (i - 100) % 1777 < 701;

		assert_int_equal(*on_medium(bed, i, 0), changed ? ~value_of(i) : value_of(i));
	}
	release_bed(bed);
}

/* ---- the end of the drive ---- */

#define SHIFTED 3u /* blocks of 512 bytes by which the array begins later */

static void add_to_all(struct client *me, uint32_t lane)
{
	uint64_t end = me->bed->elements - SHIFTED * 64;

	for (uint64_t i = me->number * 32 + lane; i < (end + 31) / 32 * 32; i += 64) {
		struct fth_gpu_value v = fth_gpu_access_(
			me->bed->cache, 0, (i < end ? i : end - 1) * 8,
			i < end ? FTH_GPU_OP_ADD : FTH_GPU_OP_PREFETCH, 8, 1, 0);

		note(me->bed, v.rc, i >= end || v.bits == value_of(i + SHIFTED * 64));
	}
}

/* An array that does not begin at a line of the drive, and goes to its end. */
static void test_last_line(void **state)
{
	static const struct shape shapes[] = {{9, 4096, 2, 1, 0, false}, {1, 2048, 2, 1, 0, false}};

	(void)state;
	for (const struct shape &s : shapes) {
		struct bed *bed = make_bed(&s);

		bed->cache->ranges[0].first_block = SHIFTED;
		run_clients(bed, add_to_all);
		all_well(bed);
		run_clients(bed, flush);
		all_well(bed);
		for (uint64_t i = 0; i < bed->elements; i++)
			assert_int_equal(*on_medium(bed, i, 0),
					 value_of(i) + (i >= SHIFTED * 64));
		release_bed(bed);
	}
}

/* ---- errors ---- */

static void read_beyond(struct client *me, uint32_t lane)
{
	/* Lines 32 and up are beyond the end of the SSD. */
	struct fth_gpu_value v =
		fth_gpu_access_(me->bed->cache, 0, lane * 2 * 512, FTH_GPU_OP_GET, 8, 0, 0);

	if (v.rc != (lane >= 16 ? -ERANGE : 0))
		note(me->bed, 0, false);
	v = fth_gpu_access_(me->bed->cache, 0, LINES * 512, FTH_GPU_OP_GET, 8, 0, 0);
	note(me->bed, 0, v.rc == -ERANGE);
}

static void test_errors(void **state)
{
	static const struct shape s = {8, 512, 2, 1, 0, false};
	struct bed *bed = make_bed(&s);
	struct fth_gpu_failure *failure = &bed->cache->failure;

	(void)state;
	bed->cache->ranges[0].first_block = 32;
	run_clients(bed, read_beyond);
	all_well(bed);
	assert_int_equal(failure->error, -ERANGE);
	assert_true(failure->taken && failure->line >= 32);
	assert_int_equal(fth_nvme_status_errno(failure->status), -ERANGE);
	release_bed(bed);
}

/* A cache whose frames are all held: -ENOBUFS, and a queue pair that has failed: that. */
static void read_without_frames(struct client *me, uint32_t lane)
{
	struct fth_gpu_cache_state *cache = me->bed->cache;
	struct fth_gpu_pin pins[2];
	struct fth_gpu_value v;

	for (uint32_t k = 0; k < 2; k++) {
		pins[k] = fth_gpu_pin_(cache, ~0u, 0, k, FTH_GPU_READ);
		note(me->bed, pins[k].rc, true);
	}
	v = fth_gpu_access_(cache, 0, 512 * 7, FTH_GPU_OP_GET, 8, 0, 0);
	note(me->bed, 0, v.rc == -ENOBUFS);
	note(me->bed, 0, fth_gpu_pin_(cache, ~0u, 0, 7, FTH_GPU_READ).rc == -ENOBUFS);
	for (uint32_t k = 0; k < 2; k++)
		fth_gpu_unpin_(cache, ~0u, 0, k, pins[k], false);
	v = fth_gpu_access_(cache, 0, 512 * 7, FTH_GPU_OP_GET, 8, 0, 0);
	note(me->bed, v.rc, v.bits == value_of(64 * 7));
	if (lane == 0)
		fth_nvme_qp_cancel(&me->bed->qps[0], ESHUTDOWN);
	__syncwarp();
	v = fth_gpu_access_(cache, 0, 512 * (20 + lane), FTH_GPU_OP_GET, 8, 0, 0);
	note(me->bed, 0, v.rc == -ESHUTDOWN);
}

static void test_no_frame(void **state)
{
	static const struct shape s = {2, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	bed->cache->timeout_ns = 2000000000;
	run_clients(bed, read_without_frames);
	all_well(bed);
	assert_int_equal(bed->cache->failure.error, -ENOBUFS);
	release_bed(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),  cmocka_unit_test(test_groups), cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_adds),
		cmocka_unit_test(test_pins), cmocka_unit_test(test_runs), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_pinned_in_vain), cmocka_unit_test(test_no_frame),
		cmocka_unit_test(test_last_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
