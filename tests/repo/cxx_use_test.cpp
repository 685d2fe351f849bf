// SPDX-License-Identifier: BSD-2-Clause
//
// Public headers used from C++: every macro and every inline function of theirs, called and checked.
// Built as C++17 with -Wall -Wextra -Werror -pedantic. scripts/check-headers.sh only includes them.
#include "fathom.h"
#include "fathom/graph/gpu.h"
#include "fathom/graph.h"
#include "fathom/array.h"
#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/cache.h"
#include "fathom/dev/crash.h"
#include "fathom/dev/delay.h"
#include "fathom/dev/driver.h"
#include "fathom/dev/fault.h"
#include "fathom/dev/window.h"
#include "fathom/dev/wrap.h"
#include "fathom/detail/hd/line.h"
#include "fathom/detail/hd/ring.h"
#include "fathom/hd.h"
#include "fathom/vol.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static void check_at(bool good, const char *what, int line)
{
	if (good)
		return;
	std::fprintf(stderr, "cxx_use_test: line %d: %s\n", line, what);
	std::exit(1);
}

#define CHECK(condition) check_at((condition), #condition, __LINE__)
#define OK(call)	 CHECK((call) == 0)

struct point {
	int x, y;
};
enum class color : unsigned char { red, green };

typedef FTH_ARRAY(uint64_t) u64_array;
typedef FTH_ARRAY(uint32_t) u32_array;
typedef FTH_ARRAY(point) point_array;
typedef FTH_ARRAY(double) double_array;
typedef FTH_ARRAY(color) color_array;

static fth_cache *open_cache(bool compact)
{
	fth_cache_options options = FTH_CACHE_OPTIONS_INIT;
	fth_cache *cache = nullptr;

	options.memory = 1 << 20;
	options.compact = compact;
	OK(fth_cache_open(&options, &cache));
	return cache;
}

// ---- arrays ----

static void use_typed(fth_cache *cache)
{
	u64_array a, same;
	uint64_t v = 0, three[3] = {7, 8, 9}, out[3];
	const uint64_t at[3] = {5, 1000, 2};
	int small = 4;

	OK(fth_open(&a, cache, "mem:1M", nullptr));
	OK(fth_wrap(&same, a.base));
	u32_array other;
	CHECK(fth_wrap(&other, a.base) == -EINVAL);
	CHECK(fth_count(a) == (1 << 20) / 8 && fth_count(same) == fth_count(a));
	OK(fth_set(a, 12, v + 1));
	OK(fth_set(a, 13, small)); // an int is converted, as an assignment would
	OK(fth_set(a, 14, {15}));
	OK(fth_get(a, 12, &v));
	CHECK(v == 1);
	for (int i = 0; i < 3; i++) // hot, the last times
		OK(fth_get(a, 13, &v));
	CHECK(v == 4);
	OK(fth_get(a, 14, &v));
	CHECK(v == 15);
	CHECK(fth_get(a, fth_count(a), &v) == -ERANGE);
	OK(fth_write(a, 100, 3, three));
	OK(fth_read(a, 100, 3, out));
	CHECK(out[0] == 7 && out[2] == 9);
	OK(fth_fill(a, 200, 50, 3));
	OK(fth_get(a, 249, &v));
	CHECK(v == 3);
	OK(fth_scatter(a, at, 3, three));
	OK(fth_gather(a, at, 3, out));
	CHECK(out[0] == 7 && out[1] == 8 && out[2] == 9);
	OK(fth_array_get(a.base, 1000, &v, sizeof(v)));
	CHECK(v == 8);
	uint32_t wrong = 0;
	CHECK(fth_array_get(a.base, 1000, &wrong, sizeof(wrong)) == -EINVAL);
	OK(fth_array_flush(a.base, 0, FTH_ARRAY_ALL));
	OK(fth_array_close(a.base));
}

static void use_structs(fth_cache *cache)
{
	point_array points;
	double_array numbers;
	color_array colors;
	point p = {0, 0};
	double d = 0;
	color c = color::red;

	OK(fth_open(&points, cache, "mem:64K", nullptr));
	OK(fth_set(points, 3, 1, 2));
	OK(fth_get(points, 3, &p));
	CHECK(p.x == 1 && p.y == 2);
	OK(fth_set(points, 4, point{3, 4}));
	OK(fth_set(points, 5, {5, 6}));
	p.x = 9;
	OK(fth_set(points, 6, p));
	OK(fth_get(points, 5, &p));
	CHECK(p.x == 5 && p.y == 6);
	OK(fth_get(points, 6, &p));
	CHECK(p.x == 9 && p.y == 2);
	OK(fth_fill(points, 10, 5, 7, 8));
	OK(fth_fill(points, 15, 5, p));
	OK(fth_get(points, 14, &p));
	CHECK(p.x == 7 && p.y == 8);
	OK(fth_array_close(points.base));

	OK(fth_open(&numbers, cache, "mem:64K", nullptr));
	OK(fth_set(numbers, 3, 1));
	OK(fth_fill(numbers, 4, 2, 2.5f));
	OK(fth_get(numbers, 5, &d));
	CHECK(d == 2.5);
	OK(fth_array_finish(&numbers.base));
	CHECK(!numbers.base);

	OK(fth_open(&colors, cache, "mem:64K", nullptr));
	OK(fth_set(colors, 3, color::green));
	OK(fth_get(colors, 3, &c));
	CHECK(c == color::green);
	OK(fth_array_discard(colors.base));
}

static int add_piece(void *context, size_t which, uint64_t first, const void *elements, uint64_t n)
{
	(void)which;
	(void)first;
	for (uint64_t i = 0; i < n; i++)
		*static_cast<uint64_t *>(context) += static_cast<const uint64_t *>(elements)[i];
	return 0;
}

static void use_cursors(fth_cache *cache)
{
	FTH_CURSOR(uint64_t) c = {};
	FTH_CURSOR(point) pc = {};
	u64_array a;
	point_array points;
	fth_span span = {0, 1000};
	uint64_t v = 0, n = 0, sum = 0;
	point p = {0, 0};
	int error = 0;

	OK(fth_open(&a, cache, "mem:64K", nullptr));
	fth_start(&c, a, FTH_CACHE_WRITE);
	for (uint64_t i = 0; i < 1000; i++)
		OK(fth_cursor_set(&c, i, i));
	OK(fth_cursor_set(&c, 5, 55));
	OK(fth_cursor_set(&c, 6, {66}));
	OK(fth_cursor_get(&c, 5, &v));
	CHECK(v == 55);
	uint64_t *at = fth_at(&c, 6, &error);
	CHECK(at && *at == 66);
	at = fth_at_span(&c, 7, &n, &error);
	CHECK(at && n > 1 && at[1] == 8);
	CHECK(!fth_at(&c, fth_count(a), &error) && error == -ERANGE);
	OK(fth_cursor_load(&c.base, 5, &v, sizeof(v)));
	OK(fth_cursor_store(&c.base, 5, &v, sizeof(v)));
	CHECK(fth_cursor_at(&c.base, 5, sizeof(v), &error));
	CHECK(fth_cursor_span(&c.base, 5, sizeof(v), &n, &error));
	fth_cursor_close(&c.base);
	OK(fth_array_walk(a.base, &span, 1, add_piece, &sum));
	CHECK(sum == 999 * 1000 / 2 + 50 + 60);
	OK(fth_array_close(a.base));

	OK(fth_open(&points, cache, "mem:64K", nullptr));
	fth_start(&pc, points, FTH_CACHE_WRITE);
	OK(fth_cursor_set(&pc, 1, 10, 11));
	OK(fth_cursor_set(&pc, 2, point{20, 21}));
	OK(fth_cursor_get(&pc, 1, &p));
	CHECK(p.x == 10 && p.y == 11);
	fth_cursor_close(&pc.base);
	OK(fth_array_close(points.base));
}

// ---- hd, base ----

static void use_hd()
{
	uint64_t word = 0, seen;
	uint32_t turn;
	fth_backoff backoff = {};
	fth_rng rng = {1};

	fth_line_ref(&word, 2);
	turn = fth_line_turn(fth_line_try_own(&word));
	fth_line_fail(&word, EIO);
	CHECK(fth_line_failed(word, turn) && fth_line_error(word) == EIO);
	fth_line_try_own(&word);
	fth_line_disown(&word);
	fth_line_try_own(&word);
	fth_line_publish(&word, 5, 1, 0);
	CHECK(fth_line_ready(word) && fth_line_frame(word) == 5 && fth_line_count(word) == 2);
	fth_line_use(&word, word);
	seen = word;
	CHECK(!fth_line_unref_still_dirty(&word) && fth_line_unref_dirty(&word));
	CHECK(fth_line_same_place(seen, word) && !fth_line_evictable(word));
	CHECK(fth_line_start_write(&word) && !fth_line_end_write(&word, true));
	fth_line_ref(&word, 1);
	CHECK(fth_line_unref_dirty(&word) && fth_line_start_write(&word));
	fth_line_end_write(&word, true);
	fth_line_unref(&word, 1);
	CHECK(fth_line_evict(&word, word) && word == 0);
	fth_line_evicted();

	CHECK(fth_ring_size(3) == 8 && fth_ring_mask(3) == 7 && fth_ring_position(9, 3) == 1);
	CHECK(fth_ring_turn(9, 3) == 1 && fth_ring_phase(9, 3) != fth_ring_phase(1, 3));
	CHECK(fth_ring_used(3, 5) == 2 && fth_ring_advance_to(9, 3, 3) == 11);
	CHECK(fth_ring_before(1, 2));

	CHECK(fth_deadline_ns(FTH_NEVER) == FTH_NEVER && fth_now_ns() > 0);
	fth_cpu_relax();
	fth_backoff_pause(&backoff);
	CHECK(!fth_backoff_expired(&backoff, FTH_NEVER));

	CHECK(fth_mix64(1) != fth_mix64(2) && fth_rng_next(&rng) && fth_rng_below(&rng, 5) < 5);
	CHECK(fth_rng_unit(&rng) < 1);
}

static void use_atomics()
{
	uint32_t a = 5, was = 4;
	uint64_t b = 5, was64 = 5;

	CHECK(fth_load_relaxed_dev32(&a) == 5 && fth_load_acquire_sys64(&b) == 5);
	fth_store_release_sys32(&a, 6);
	CHECK(fth_add_acqrel_dev32(&a, 1) == 6 && fth_or_acqrel_dev64(&b, 8) == 5);
	CHECK(fth_and_acqrel_dev64(&b, 5) == 13 && fth_xchg_acqrel_dev32(&a, 4) == 7);
	CHECK(fth_cas_acqrel_dev32(&a, &was, 9) && a == 9);
	CHECK(fth_cas_release_dev64(&b, &was64, 1) && b == 1);
}

static void use_stats()
{
	fth_stats *stats = fth_stats_new(3);

	CHECK(stats);
	fth_stats_add(stats, 1, 5);
	fth_stats_count(fth_stats_counter(stats, 1), 2);
	fth_stats_tally(0, stats, fth_stats_counter(stats, 1));
	CHECK(fth_stats_read(stats, 1) == 8);
	fth_stats_free(stats);
}

static void use_options()
{
	fth_vol_format_options format = FTH_VOL_FORMAT_OPTIONS_INIT;
	fth_vol_object_options object = FTH_VOL_OBJECT_OPTIONS_INIT;

	CHECK(format.size == sizeof(format) && object.size == sizeof(object));

	fth_array_options array = FTH_ARRAY_OPTIONS_INIT;
	fth_graph_options graph = FTH_GRAPH_OPTIONS_INIT;
	fth_graph_pagerank_options ranks = FTH_GRAPH_PAGERANK_OPTIONS_INIT;
	fth_gpu_drive_options drive = FTH_GPU_DRIVE_OPTIONS_INIT;
	fth_gpu_cache_options gpu_cache = FTH_GPU_CACHE_OPTIONS_INIT;
	fth_gpu_array_options gpu_array = FTH_GPU_ARRAY_OPTIONS_INIT;
	fth_gpu_graph_bfs_options bfs = FTH_GPU_GRAPH_BFS_OPTIONS_INIT;

	CHECK(array.size == sizeof(array) && graph.size == sizeof(graph));
	CHECK(ranks.size == sizeof(ranks));
	CHECK(drive.size == sizeof(drive) && gpu_cache.size == sizeof(gpu_cache));
	CHECK(gpu_array.size == sizeof(gpu_array) && bfs.size == sizeof(bfs));
}

// A stack of wrappers, with a plan of faults; and the version.
static void use_devices()
{
	fth_dev_fault_plan plan = FTH_DEV_FAULT_PLAN_INIT;
	struct fth_dev_fault_counts counts; // a function has that name too
	fth_dev *dev = nullptr;
	char block[512] = {};

	OK(fth_dev_open("crash(fault(mem:1M))", &dev));
	plan.nth = 1;
	plan.kinds = FTH_DEV_FAULT_ALL_KINDS;
	OK(fth_dev_fault_set(fth_dev_inner(dev), &plan));
	CHECK(fth_dev_read(dev, block, sizeof(block), 0, FTH_DEV_TIMEOUT) == -EIO);
	OK(fth_dev_read(dev, block, sizeof(block), 0, fth_deadline_ns(1000000000)));
	OK(fth_dev_fault_counts(fth_dev_inner(dev), &counts));
	CHECK(counts.injected == 1);
	fth_dev_close(dev);
	CHECK(std::strcmp(fth_version(), FTH_VERSION_STRING) == 0);
	CHECK(FTH_VERSION_MAJOR >= 0 && FTH_VERSION_MINOR >= 0 && FTH_VERSION_PATCH >= 0);
}

int main()
{
	for (int compact = 0; compact < 2; compact++) {
		fth_cache *cache = open_cache(compact != 0);

		use_typed(cache);
		use_structs(cache);
		use_cursors(cache);
		OK(fth_cache_finish(&cache));
		CHECK(!cache);
	}
	use_hd();
	use_atomics();
	use_stats();
	use_options();
	use_devices();
	std::puts("cxx_use_test: passed");
	return 0;
}
