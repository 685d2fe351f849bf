/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Failed fetches of a cache for GPU memory, on CPU threads: the warps that waited for a fetch get
 * its error, and a warp that comes later starts another fetch.
 */
#include "cache_warp_fixture.h"

#include "fathom/gpu/array.h"

#define LINE 5u

/* The test is the owner of a line's fetch, which comes to no end by itself. */
static struct fth_gpu_want own_line(struct bed *bed, uint64_t line)
{
	struct fth_gpu_want want = {};

	want.word = &bed->cache->ranges[0].words[line];
	want.line = line;
	want.frame = FTH_GPU_NO_FRAME;
	assert_true(fth_gpu_own_(want.word, fth_load_relaxed_dev64(want.word)));
	return want;
}

static uint64_t commands(const struct bed *bed)
{
	return bed->cache->drive.qps[0].ticket;
}

static struct bed *open_bed(const struct shape *s)
{
	struct bed *bed = make_bed(s);

	fixture_napped = 0;
	return bed;
}

static void expect(struct bed *bed, uint32_t errors, int last)
{
	assert_int_equal(bed->errors, errors);
	assert_int_equal(bed->wrong, 0);
	if (errors)
		assert_int_equal(bed->last, last);
	bed->errors = 0;
	check_words(bed);
}

/* ---- those who wait ---- */

static void get(struct client *me, uint32_t lane)
{
	uint64_t i = LINE * 64 + lane;
	struct fth_gpu_value v =
		fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_GET, 8, 0, 0);

	note(me->bed, v.rc, v.bits == value_of(i));
}

/* By whole lines, for reading, and for writing. */
static void pin(struct client *me, uint32_t lane)
{
	enum fth_gpu_mode mode = me->number % 2 ? FTH_GPU_READ : FTH_GPU_WRITE;
	struct fth_gpu_pin pin = fth_gpu_pin_(me->bed->cache, ~0u, 0, LINE, mode);

	note(me->bed, pin.rc, pin.rc < 0 || ((uint64_t *)pin.data)[lane] == value_of(LINE * 64 + lane));
	__syncwarp();
	if (pin.rc == 0)
		fth_gpu_unpin_(me->bed->cache, ~0u, 0, LINE, pin, false);
}

static void set(struct client *me, uint32_t lane)
{
	uint64_t i = LINE * 64 + lane;

	note(me->bed,
	     fth_gpu_access_(me->bed->cache, 0, i * 8, FTH_GPU_OP_SET, 8, value_of(i), 0).rc, true);
}

/* When all clients wait for a line, its fetch fails. */
struct failing {
	struct bed *bed;
	struct fth_gpu_want want;
	int error;
};

static void *fail_when_all_wait(void *arg)
{
	struct failing *f = (struct failing *)arg;
	uint32_t all = (1u << f->bed->shape->clients) - 1;
	struct timespec nap = {0, 100000};

	while (__atomic_load_n(&fixture_napped, __ATOMIC_ACQUIRE) != all)
		nanosleep(&nap, NULL);
	fth_gpu_fail_(&f->want, f->error);
	return NULL;
}

static void run_failing(struct bed *bed, void (*body)(struct client *me, uint32_t lane), int error)
{
	struct failing f = {bed, own_line(bed, LINE), error};
	pthread_t thread;

	fixture_napped = 0;
	assert_int_equal(pthread_create(&thread, NULL, fail_when_all_wait, &f), 0);
	run_clients(bed, body);
	pthread_join(thread, NULL);
}

static void test_waiters(void **)
{
	static const struct shape s = {4, 512, 3, 1, 0, false};
	void (*bodies[])(struct client *me, uint32_t lane) = {get, pin, set};

	for (auto body : bodies) {
		struct bed *bed = open_bed(&s);

		/* All that waited are told, and the drive is not asked by any of them. */
		run_failing(bed, body, EIO);
		expect(bed, 3 * 32, -EIO);
		assert_int_equal(commands(bed), 0);
		/* A second failure is told to those who waited for it, with its own error. */
		run_failing(bed, body, ENODATA);
		expect(bed, 3 * 32, -ENODATA);
		assert_int_equal(commands(bed), 0);
		/* Who comes later asks the drive, once, and finds the line well. */
		run_clients(bed, body);
		expect(bed, 0, 0);
		assert_int_equal(commands(bed), 1);
		assert_true(fth_line_ready(bed->cache->ranges[0].words[LINE]));
		release_bed(bed);
	}
}

/* The owner steps back without having tried: who waits goes on by itself. */
static void *disown_when_all_wait(void *arg)
{
	struct failing *f = (struct failing *)arg;
	struct timespec nap = {0, 100000};

	while (!__atomic_load_n(&fixture_napped, __ATOMIC_ACQUIRE))
		nanosleep(&nap, NULL);
	fth_gpu_disown_(f->bed->cache, &f->want);
	return NULL;
}

static void test_stepping_back(void **)
{
	static const struct shape s = {4, 512, 2, 1, 0, false};
	struct bed *bed = open_bed(&s);
	struct failing f = {bed, own_line(bed, LINE), 0};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, disown_when_all_wait, &f), 0);
	run_clients(bed, get);
	pthread_join(thread, NULL);
	expect(bed, 0, 0);
	assert_int_equal(commands(bed), 1);
	release_bed(bed);
}

/* ---- lines that failed before ---- */

/* A turn is a number of eight bits, and counts on. */
static void test_many_failures(void **)
{
	static const struct shape s = {4, 512, 1, 1, 0, false};
	struct bed *bed = open_bed(&s);

	for (uint32_t n = 0; n < 600; n++) {
		struct fth_gpu_want want = own_line(bed, LINE);

		assert_int_equal(fth_line_turn(*want.word), n % 256);
		fth_gpu_fail_(&want, 1 + n % 100);
		assert_int_equal(fth_line_error(*want.word), 1 + n % 100);
		assert_int_equal(fth_line_count(*want.word), 0);
	}
	run_clients(bed, get);
	expect(bed, 0, 0);
	release_bed(bed);
}

/* A line that failed and is overwritten: its word holds what the new frame says, and no more. */
static void overwrite(struct client *me, uint32_t lane)
{
	fth_gpu_array<uint64_t> a = array_of(me->bed);
	struct fth_gpu_cursor cursor = fth_gpu_cursor_open();
	int rc = 0;
	uint64_t *data = fth_gpu_cursor_line(a, &cursor, LINE, FTH_GPU_OVERWRITE, &rc);

	note(me->bed, rc, data != NULL);
	for (uint32_t k = lane; data && k < 64; k += 32)
		data[k] = ~value_of(LINE * 64 + k);
	fth_gpu_cursor_close(a, &cursor, FTH_GPU_OVERWRITE);
}

static void test_overwriting(void **)
{
	static const struct shape s = {4, 512, 1, 1, 0, false};
	struct bed *bed = open_bed(&s);
	struct fth_gpu_want want = own_line(bed, LINE);

	fth_gpu_fail_(&want, EIO);
	run_clients(bed, overwrite);
	run_clients(bed, flush);
	all_well(bed);
	for (uint32_t k = 0; k < 64; k++)
		assert_int_equal(*on_medium(bed, LINE * 64 + k, 0), ~value_of(LINE * 64 + k));
	release_bed(bed);
}

/* A drive that fails: each warp is told once, and nothing is left behind. */
static void get_outside(struct client *me, uint32_t lane)
{
	struct fth_gpu_value v = fth_gpu_access_(me->bed->cache, 0, ((LINES - 1) * 64 + lane) * 8,
						 FTH_GPU_OP_GET, 8, 0, 0);

	note(me->bed, v.rc, false);
}

static void test_drive(void **)
{
	static const struct shape s = {4, 512, 3, 1, 0, false};
	struct bed *bed = open_bed(&s);

	bed->sides[0].ssd.blocks = LINES - 1;
	run_clients(bed, get_outside);
	assert_true(commands(bed) >= 1 && commands(bed) <= 3);
	expect(bed, 3 * 32, -ERANGE);
	assert_int_equal(bed->cache->failure.error, -ERANGE);
	/* It has its frame again, and the block. */
	bed->sides[0].ssd.blocks = LINES;
	run_clients(bed, get);
	expect(bed, 0, 0);
	release_bed(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_waiters),	      cmocka_unit_test(test_stepping_back),
		cmocka_unit_test(test_many_failures), cmocka_unit_test(test_overwriting),
		cmocka_unit_test(test_drive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
