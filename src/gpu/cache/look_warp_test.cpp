/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines that are looked at without a reference (fathom/gpu/look.h), on CPU threads: what a look
 * calls good is the line's, a line that was replaced meanwhile is noticed, and no reference stays.
 */
#include "cache_warp_fixture.h"

#include "fathom/gpu/look.h"

/* ---- many warps, few frames ---- */

/* Element k of a line, as this lane found it; every lane has one. */
static uint64_t look_at_element(struct client *me, struct fth_gpu_look *look, uint64_t line,
				uint32_t k)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	int rc = 0;
	const uint64_t *data = fth_gpu_look_line(a, look, line, &rc);
	uint64_t v = 0;

	while (data) {
		v = fth_gpu_look_load(data + k);
		/* Other warps replace the line meanwhile, now and then. */
		__nanosleep(k % 2);
		if (fth_gpu_look_good(a, *look))
			break;
		data = fth_gpu_look_hold(a, look, &rc);
	}
	note(me->bed, rc, data != NULL);
	return v;
}

static void look_around(struct client *me, uint32_t lane)
{
	struct fth_gpu_look look = fth_gpu_look_open();
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_rng rng = {me->number}; /* the same in all lanes */
	uint32_t each = me->bed->shape->line / 8;

	for (uint32_t r = 0; r < me->bed->shape->rounds; r++) {
		uint64_t line = fth_rng_below(&rng, LINES);

		for (uint32_t k = lane; k < each; k += 32)
			note(me->bed, 0,
			     look_at_element(me, &look, line, k) == value_of(line * each + k));
	}
	fth_gpu_look_close(a, &look);
}

static void test_looks(void **state)
{
	static const struct shape shapes[] = {
		{3, 512, 3, 1, 40, false},  {16, 512, 2, 1, 60, false}, {2, 512, 2, 1, 20, false},
		{9, 1024, 3, 2, 20, false}, {64, 512, 2, 1, 60, false},
	};

	(void)state;
	for (const struct shape &s : shapes) {
		struct bed *bed = make_bed(&s);

		run_clients(bed, look_around);
		all_well(bed);
		assert_int_equal(count_of(bed, FTH_GPU_WRITE_BACKS), 0);
		release_bed(bed);
	}
}

/* ---- one warp, step by step ---- */

static uint32_t references(const fth_gpu_array<uint64_t> &a, uint64_t line)
{
	return fth_line_count(fth_load_relaxed_dev64(&a.words[line]));
}

static bool is_line(const uint64_t *data, uint64_t line, uint32_t lane)
{
	return data && fth_gpu_look_load(data + lane) == value_of(line * 64 + lane);
}

/* Bring in other lines until all frames have held one. */
static void replace_all(struct client *me)
{
	for (uint64_t line = 20; line < 20 + 4 * me->bed->shape->frames; line++)
		note(me->bed,
		     fth_gpu_access_(me->bed->cache, 0, line * 512, FTH_GPU_OP_GET, 8, 0, 0).rc,
		     true);
}

/* What is not there is held; what is there is not, and does not become hot. */
static void look_twice(struct client *me, uint32_t lane)
{
	struct fth_gpu_look look = fth_gpu_look_open();
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	const uint64_t *data;
	int rc = 0;

	fth_gpu_look_close(a, &look);
	data = fth_gpu_look_line(a, &look, 5, &rc);
	note(me->bed, rc, is_line(data, 5, lane) && references(a, 5) == 1);
	note(me->bed, 0, fth_gpu_look_good(a, look));
	__syncwarp();
	fth_gpu_look_close(a, &look);
	__syncwarp();
	data = fth_gpu_look_line(a, &look, 5, &rc);
	note(me->bed, rc, is_line(data, 5, lane) && references(a, 5) == 0);
	note(me->bed, 0, fth_gpu_look_line(a, &look, 5, &rc) == data);
	note(me->bed, 0, fth_gpu_look_good(a, look));
	note(me->bed, 0, !(fth_load_relaxed_dev64(&a.words[5]) & FTH_LINE_HOT));
	fth_gpu_look_close(a, &look);
}

/* A line that was replaced, and has perhaps come back: noticed, and held the second time. */
static void look_at_replaced(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);

	for (uint32_t back = 0; back < 2; back++) {
		struct fth_gpu_look look = fth_gpu_look_open();
		const uint64_t *data;
		int rc = 0;

		fth_gpu_access_(me->bed->cache, 0, 5 * 512, FTH_GPU_OP_PREFETCH, 0, 0, 0);
		data = fth_gpu_look_line(a, &look, 5, &rc);
		note(me->bed, rc, is_line(data, 5, lane) && fth_gpu_look_good(a, look));
		replace_all(me);
		if (back)
			fth_gpu_access_(me->bed->cache, 0, 5 * 512, FTH_GPU_OP_PREFETCH, 0, 0, 0);
		note(me->bed, 0, !fth_gpu_look_good(a, look));
		data = fth_gpu_look_hold(a, &look, &rc);
		note(me->bed, rc, is_line(data, 5, lane) && references(a, 5) == 1);
		__syncwarp();
		note(me->bed, 0, fth_gpu_look_hold(a, &look, &rc) == data && references(a, 5) == 1);
		replace_all(me);
		note(me->bed, 0, fth_gpu_look_good(a, look) && is_line(data, 5, lane));
		__syncwarp();
		/* Another line: the held one is let go. */
		data = fth_gpu_look_line(a, &look, 6, &rc);
		__syncwarp();
		note(me->bed, rc, is_line(data, 6, lane) && references(a, 5) == 0);
		fth_gpu_look_close(a, &look);
		__syncwarp();
	}
}

static void test_step_by_step(void **state)
{
	static const struct shape s = {3, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, look_twice);
	all_well(bed);
	run_clients(bed, look_at_replaced);
	all_well(bed);
	release_bed(bed);
}

/* ---- errors ---- */

static void look_outside(struct client *me, uint32_t lane)
{
	struct fth_gpu_look look = fth_gpu_look_open();
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	/* Numbers whose bytes run over: of these, some are within the array then. */
	static const uint64_t outside[] = {UINT64_MAX, (uint64_t)1 << 55, ((uint64_t)1 << 62) + 3};
	int rc = 0;

	for (uint64_t line : outside) {
		rc = 0;
		note(me->bed, 0, !fth_gpu_look_line(a, &look, line, &rc) && rc == -ERANGE);
	}
	rc = 0;
	note(me->bed, 0, is_line(fth_gpu_look_line(a, &look, 3, &rc), 3, lane) && rc == 0);
	note(me->bed, 0, !fth_gpu_look_line(a, &look, LINES, &rc) && rc == -ERANGE);
	__syncwarp();
	note(me->bed, 0, references(a, 3) == 0);
	__syncwarp();
	if (lane == 0)
		fth_nvme_qp_cancel(&me->bed->qps[0], ESHUTDOWN);
	__syncwarp();
	note(me->bed, 0, !fth_gpu_look_line(a, &look, 4, &rc) && rc == -ESHUTDOWN);
	/* What is there can still be looked at. */
	note(me->bed, 0, is_line(fth_gpu_look_line(a, &look, 3, &rc), 3, lane));
	fth_gpu_look_close(a, &look);
}

static void test_errors(void **state)
{
	static const struct shape s = {3, 512, 1, 1, 0, false};
	struct bed *bed = make_bed(&s);

	(void)state;
	run_clients(bed, look_outside);
	all_well(bed);
	release_bed(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_step_by_step),
		cmocka_unit_test(test_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
