/* SPDX-License-Identifier: BSD-2-Clause */
/* Registered buffers: used when mapped, forgotten when unmapped, never needed. */
#include "dev/file/dev_file_fixture.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define FILE_BYTES (1u << 20)
#define UNIT	   4096u

static struct fth_dev *dev;
static struct fth_dev_chan *chan;

static int set_up(void **state)
{
	(void)state;
	make_file(0, FILE_BYTES);
	assert_ok(open_a(0, "", &dev));
	assert_ok(fth_dev_chan_open(dev, 8, &chan));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
	return 0;
}

static int move(enum fth_dev_op op, void *buf, size_t len, uint64_t offset)
{
	struct fth_dev_req req, *r = &req, *done = NULL;

	fth_dev_req_init(&req, op, buf, len, offset);
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	return req.result;
}

static int slot_of(void *buf, size_t len)
{
	struct chan_ring *c = (struct chan_ring *)chan;

	chan_ring_map_sync(c);
	return chan_ring_map_slot(c, buf, len);
}

static bool kernel_has_slots(void)
{
	return ((struct chan_ring *)chan)->has_buffer_slots;
}

static char *pages(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void mapped_memory_is_registered_on_first_use(void **state)
{
	char *buf = pages(4 * UNIT);

	(void)state;
	if (!kernel_has_slots())
		skip();
	assert_int_equal(slot_of(buf, UNIT), -1);
	assert_ok(fth_dev_map(dev, buf, 2 * UNIT));
	assert_false(((struct chan_ring *)chan)->map.slots[0].usable);
	assert_int_equal(slot_of(buf, 2 * UNIT), 0);
	assert_int_equal(slot_of(buf + 512, 2 * UNIT - 512), 0);
	assert_int_equal(slot_of(buf + UNIT, 2 * UNIT), -1); /* half of it is not mapped */
	assert_int_equal(slot_of(buf + 2 * UNIT, UNIT), -1);
	assert_int_equal(slot_of(buf - UNIT, UNIT), -1);

	/* From all of it, part of it, and across its end. */
	fill_random(buf, 4 * UNIT, 1);
	assert_int_equal(move(FTH_DEV_WRITE, buf, 4 * UNIT, 0), 0);
	assert_int_equal(move(FTH_DEV_READ, buf, 2 * UNIT, 2 * UNIT), 0);
	assert_memory_equal(buf, buf + 2 * UNIT, 2 * UNIT);
	assert_ok(fth_dev_unmap(dev, buf, 2 * UNIT));
	assert_int_equal(slot_of(buf, UNIT), -1);
	munmap(buf, 4 * UNIT);
}

static void unmapping_takes_what_was_mapped(void **state)
{
	char *buf = pages(4 * UNIT);

	(void)state;
	assert_ok(fth_dev_map(dev, buf, 2 * UNIT));
	assert_int_equal(fth_dev_unmap(dev, buf, UNIT), -EINVAL);
	assert_int_equal(fth_dev_unmap(dev, buf + UNIT, UNIT), -EINVAL);
	assert_int_equal(fth_dev_unmap(dev, buf + 2 * UNIT, 2 * UNIT), -EINVAL);
	assert_int_equal(fth_dev_map(dev, buf + 1, UNIT), -EINVAL);
	assert_ok(fth_dev_map(dev, buf, 2 * UNIT)); /* twice is possible, and undone twice */
	assert_ok(fth_dev_unmap(dev, buf, 2 * UNIT));
	assert_ok(fth_dev_unmap(dev, buf, 2 * UNIT));
	assert_int_equal(fth_dev_unmap(dev, buf, 2 * UNIT), -EINVAL);
	munmap(buf, 4 * UNIT);
}

/*
 * The same address with other pages behind it: a stale registration would read into, and write
 * from, the old ones.
 */
static void the_same_address_may_be_mapped_again(void **state)
{
	char *buf = pages(UNIT), want[UNIT];

	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		bool mapped = round != 3; /* and once without being mapped */

		if (mapped)
			assert_ok(fth_dev_map(dev, buf, UNIT));
		fill_random(want, UNIT, round);
		memcpy(buf, want, UNIT);
		assert_int_equal(move(FTH_DEV_WRITE, buf, UNIT, round * UNIT), 0);
		memset(buf, 0, UNIT);
		assert_int_equal(move(FTH_DEV_READ, buf, UNIT, round * UNIT), 0);
		assert_memory_equal(buf, want, UNIT);
		if (mapped)
			assert_ok(fth_dev_unmap(dev, buf, UNIT));
		assert_int_equal(munmap(buf, UNIT), 0);
		assert_ptr_equal(mmap(buf, UNIT, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 buf);
	}
	munmap(buf, UNIT);
}

static void the_table_fills_and_empties(void **state)
{
	char *buf = pages((FILE_REGIONS + 1) * 2 * UNIT);

	(void)state;
	/* Every second page, so that no two regions touch. */
	for (unsigned i = 0; i < FILE_REGIONS; i++)
		assert_ok(fth_dev_map(dev, buf + i * 2 * UNIT, UNIT));
	assert_int_equal(fth_dev_map(dev, buf + FILE_REGIONS * 2 * UNIT, UNIT), -ENOSPC);
	for (unsigned i = 0; i < FILE_REGIONS; i += 5) {
		char *page = buf + i * 2 * UNIT;

		memset(page, (int)i, UNIT);
		assert_int_equal(move(FTH_DEV_WRITE, page, UNIT, i % 256 * UNIT), 0);
		memset(page, 0, UNIT);
		assert_int_equal(move(FTH_DEV_READ, page, UNIT, i % 256 * UNIT), 0);
		assert_true(all_are(page, UNIT, (unsigned char)i));
		if (kernel_has_slots())
			assert_true(slot_of(page, UNIT) >= 0);
		assert_int_equal(slot_of(page + UNIT, UNIT), -1);
	}
	for (unsigned i = 0; i < FILE_REGIONS; i++)
		assert_ok(fth_dev_unmap(dev, buf + i * 2 * UNIT, UNIT));
	assert_int_equal(slot_of(buf, UNIT), -1);
	munmap(buf, (FILE_REGIONS + 1) * 2 * UNIT);
}

static void memory_beyond_a_gibibyte_is_split(void **state)
{
	size_t len = 2 * FILE_REGION_BYTES + UNIT;
	char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct dev_file *file = (struct dev_file *)dev;

	(void)state;
	if (buf == MAP_FAILED)
		skip();
	assert_ok(fth_dev_map(dev, buf, len));
	assert_int_equal(file->regions[2].base, buf + 2 * FILE_REGION_BYTES);
	assert_int_equal(file->regions[2].len, UNIT);
	/* Only the last page is used, so that the test does not pin gigabytes. */
	assert_int_equal(move(FTH_DEV_READ, buf + len - UNIT, UNIT, 0), 0);
	assert_true(all_are(buf + len - UNIT, UNIT, 0xee));
	assert_int_equal(fth_dev_unmap(dev, buf + FILE_REGION_BYTES, len), -EINVAL);
	assert_ok(fth_dev_unmap(dev, buf, len));
	for (unsigned i = 0; i < FILE_REGIONS; i++)
		assert_int_equal(file->regions[i].id, 0);
	munmap(buf, len);
}

/* In a child: the account has room for a ring, but not for a megabyte of pinned memory. */
static int work_without_memlock(void)
{
	struct rlimit small = {256 << 10, 256 << 10};
	char *buf = pages(FILE_BYTES);

	if (setrlimit(RLIMIT_MEMLOCK, &small) < 0 || (getuid() == 0 && setuid(65534) < 0))
		return 77;
	if (fth_dev_chan_open(dev, 8, &chan) < 0 || fth_dev_map(dev, buf, FILE_BYTES) < 0)
		return 1;
	if (move(FTH_DEV_READ, buf, FILE_BYTES, 0) != 0 || !all_are(buf, FILE_BYTES, 0xee))
		return 2;
	return slot_of(buf, FILE_BYTES) == -1 ? 0 : 3;
}

static void memory_that_can_not_be_pinned_works_too(void **state)
{
	pid_t child;
	int status;

	(void)state;
	fth_dev_chan_close(chan);
	chan = NULL;
	child = fork();
	if (child == 0)
		_exit(work_without_memlock());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mapped_memory_is_registered_on_first_use),
		TEST(unmapping_takes_what_was_mapped),
		TEST(the_same_address_may_be_mapped_again),
		TEST(the_table_fills_and_empties),
		TEST(memory_beyond_a_gibibyte_is_split),
		TEST(memory_that_can_not_be_pinned_works_too),
	};
	if (!use_engine(&dev_file_uring))
		return 77;
	return cmocka_run_group_tests(tests, make_places, remove_places);
}
