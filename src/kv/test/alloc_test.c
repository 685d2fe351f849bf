/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that runs out: the Nth allocation fails, for N = 1, 2, ... until all goes well. A cache is
 * opened whole or not at all, and an operation that lacks memory is a miss or fails; nothing is
 * lost, which the build with the address sanitizer sees.
 */
#include "kv/test/kv_fixture.h"

#include "fathom/hd/atomic.h"

#include <sys/mman.h>

static uint32_t countdown; /* 0: none fails. Atomic: the writer allocates as well. */

static bool fails(void)
{
	uint32_t now = fth_load_relaxed_dev32(&countdown);

	while (now > 0)
		if (fth_cas_acqrel_dev32(&countdown, &now, now - 1))
			return now == 1;
	return false;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
int __real_posix_memalign(void **out, size_t align, size_t size);
void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __wrap_posix_memalign(void **out, size_t align, size_t size);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

int __wrap_posix_memalign(void **out, size_t align, size_t size)
{
	return fails() ? ENOMEM : __real_posix_memalign(out, align, size);
}

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : __real_mmap(addr, len, prot, flags, fd, offset);
}

static bool short_of_memory; /* of one thread: only the one that grows the index asks for it */

int __real_mprotect(void *addr, size_t len, int prot);
int __wrap_mprotect(void *addr, size_t len, int prot);

int __wrap_mprotect(void *addr, size_t len, int prot)
{
	if (!short_of_memory && !fails())
		return __real_mprotect(addr, len, prot);
	errno = ENOMEM;
	return -1;
}

static void fail_nth(uint32_t n)
{
	fth_store_release_dev32(&countdown, n);
}

static void opening_without_memory(void **state)
{
	struct fth_kv_options o = small_options();
	struct fth_dev *dev;

	(void)state;
	assert_ok(fth_dev_open("mem:16M", &dev));
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++) {
		struct box box;
		int rc;

		o.persistence = p;
		o.format = p == FTH_KV_VOLATILE;
		for (uint32_t n = 1;; n++) {
			fail_nth(n);
			rc = box_try(&box, &o, dev);
			if (fth_load_acquire_dev32(&countdown) > 0)
				break;
			fail_nth(0);
			assert_true(rc == 0 || rc == -ENOMEM);
			if (rc == 0) { /* it did without */
				for (unsigned i = 0; i < 50; i++)
					assert_ok(box_set(&box, i, i + 1));
				assert_ok(box_close(&box));
			}
			assert_true(n < 1000);
		}
		fail_nth(0);
		assert_ok(rc);
		for (unsigned i = 0; i < 50; i++)
			assert_ok(box_set(&box, i, i + 1));
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

static void operations_without_memory(void **state)
{
	struct fth_kv_options o = small_options();
	struct fth_dev *dev;
	struct box box;

	(void)state;
	assert_ok(fth_dev_open("mem:64M", &dev));
	o.persistence = FTH_KV_WRITE_BACK;
	box_open(&box, &o, dev);
	for (unsigned i = 0; i < 50; i++)
		assert_ok(box_set(&box, i, i + 1));
	push_out(&box);
	for (uint32_t n = 1; n < 40; n++) {
		int rc;

		fail_nth(n);
		for (unsigned i = 0; i < 50; i++) {
			uint32_t got = box_get(&box, i);

			assert_true(got == 0 || got == i + 1);
		}
		rc = fth_kv_checkpoint(box.kv, KV_SECONDS(20));
		assert_true(rc == 0 || rc == -ENOMEM);
		fail_nth(0);
		for (unsigned i = 0; i < 50; i++)
			assert_int_equal(box_get(&box, i), i + 1);
	}
	assert_ok(box_close(&box));
	fth_dev_close(dev);
}

#define READY 100000u /* entries for which there is memory from the beginning, at least */

static unsigned stored_of(struct box *box, unsigned from, unsigned to)
{
	unsigned found = 0;

	for (unsigned i = from; i < to; i++) {
		struct fth_kv_op op = {.verb = FTH_KV_GET};

		found += box_do(box, &op, i) == 0;
		fth_kv_release(box->worker, &op);
	}
	return found;
}

/*
 * An index that cannot grow makes room by dropping the oldest items; it grows when there is memory.
 */
static void an_index_without_memory(void **state)
{
	struct fth_kv_options o = small_options();
	struct fth_dev *dev;
	struct box box;

	(void)state;
	assert_ok(fth_dev_open("mem:64M", &dev));
	o.items = 0;
	for (unsigned p = FTH_KV_VOLATILE; p <= FTH_KV_WRITE_BACK; p++) {
		o.persistence = p;
		o.format = true;
		box_open(&box, &o, dev);
		short_of_memory = true;
		for (unsigned i = 0; i < 3 * READY; i++)
			assert_ok(box_text(&box, FTH_KV_SET, i, "short"));
		assert_true(box_stat(&box, FTH_KV_STAT_INDEX_RECLAIMED) > 0);
		assert_int_equal(stored_of(&box, 2 * READY + READY / 4, 3 * READY), 3 * READY / 4);
		short_of_memory = false;
		for (unsigned i = 3 * READY; i < 6 * READY; i++)
			assert_ok(box_text(&box, FTH_KV_SET, i, "short"));
		assert_int_equal(stored_of(&box, 3 * READY, 6 * READY), 3 * READY);
		assert_ok(box_close(&box));
	}
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opening_without_memory),
		cmocka_unit_test(operations_without_memory),
		cmocka_unit_test(an_index_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
