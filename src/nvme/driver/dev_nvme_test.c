/* SPDX-License-Identifier: BSD-2-Clause */
/* The device on the driver on the software controller: data, splits, bounce, errors, reset. */
#include "fth_test.h"

#include "fathom/base/rng.h"
#include "fathom/dev/driver.h"
#include "fathom/hd/wait.h"
#include "nvme/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (8u << 20)

static void fill(char *buf, size_t len, uint64_t seed)
{
	struct fth_rng rng = {seed};

	for (size_t i = 0; i < len; i++)
		buf[i] = (char)fth_rng_next(&rng);
}

static int run_one(struct fth_dev_chan *chan, struct fth_dev_req *req)
{
	struct fth_dev_req *done;

	assert_int_equal(fth_dev_submit(chan, &req, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, fth_deadline_ns(20000000000u)), 1);
	assert_ptr_equal(done, req);
	return req->result;
}

/* Every start in a page, lengths around pages, lists and the transfer limit, mapped or not. */
static void data_arrives_whole_from_any_memory(void **state)
{
	static const uint32_t lengths[] = {512,	  1024,	    3584,    4096,    4608,    8192,
					   12800, 1u << 20, 1049088, 2097152, 3u << 20};
	static const uint32_t starts[] = {0, 4, 512, 2048, 4092, 1, 3};
	struct fth_dev_chan *chan;
	struct fth_dev_req req;
	struct fth_dev *dev;
	char *mapped, *plain, *expect;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:8M)?queues=1&depth=16", &dev));
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	mapped = fth_dev_buf_alloc(dev, (4u << 20));
	plain = malloc(4u << 20);
	expect = malloc(4u << 20);
	for (unsigned l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		for (unsigned s = 0; s < sizeof(starts) / sizeof(starts[0]); s++) {
			char *buf = (l + s) % 3 ? mapped + starts[s] : plain + starts[s];
			uint64_t offset = 512 * (uint64_t)(l * 31 + s);

			fill(expect, lengths[l], l * 100 + s);
			memcpy(buf, expect, lengths[l]);
			fth_dev_req_init(&req, FTH_DEV_WRITE, buf, lengths[l], offset);
			assert_int_equal(run_one(chan, &req), 0);
			memset(buf, 0, lengths[l]);
			fth_dev_req_init(&req, FTH_DEV_READ, buf, lengths[l], offset);
			assert_int_equal(run_one(chan, &req), 0);
			assert_memory_equal(buf, expect, lengths[l]);
		}
	}
	free(plain);
	free(expect);
	fth_dev_buf_free(dev, mapped, 4u << 20);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* Pieces that PRPs can join, pieces they can not, and pieces in and out of mapped memory. */
static void pieces_of_every_shape(void **state)
{
	struct fth_rng rng = {7};
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	char *mapped, *plain, *expect;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:8M)?queues=1&depth=8&mdts=3", &dev));
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	mapped = fth_dev_buf_alloc(dev, 1u << 20);
	plain = malloc(1u << 20);
	expect = malloc(1u << 20);
	for (unsigned round = 0; round < 300; round++) {
		struct iovec pieces[32];
		struct fth_dev_req req;
		unsigned n = 1 + (unsigned)fth_rng_below(&rng, 32);
		uint64_t total = 0, at = fth_rng_below(&rng, 8) * 512;

		for (unsigned i = 0; i < n; i++) {
			size_t len = 512 * (1 + fth_rng_below(&rng, 16));

			if (fth_rng_below(&rng, 3) == 0)
				at = (at + 4095) / 4096 * 4096;
			pieces[i].iov_base = (fth_rng_below(&rng, 4) ? mapped : plain) + at;
			pieces[i].iov_len = len;
			at += len + (fth_rng_below(&rng, 2) ? 0 : 512);
			fill(pieces[i].iov_base, len, round * 64 + i);
			memcpy(expect + total, pieces[i].iov_base, len);
			total += len;
		}
		fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, total, 1024);
		req.iov = pieces;
		req.iov_count = n;
		assert_int_equal(run_one(chan, &req), 0);
		for (unsigned i = 0; i < n; i++)
			memset(pieces[i].iov_base, 0, pieces[i].iov_len);
		req.op = FTH_DEV_READ;
		assert_int_equal(run_one(chan, &req), 0);
		total = 0;
		for (unsigned i = 0; i < n; i++) {
			assert_memory_equal(pieces[i].iov_base, expect + total, pieces[i].iov_len);
			total += pieces[i].iov_len;
		}
	}
	free(plain);
	free(expect);
	fth_dev_buf_free(dev, mapped, 1u << 20);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

/* A block that begins in mapped memory and ends outside: no command carries half of it. */
static void blocks_across_the_end_of_mapped_memory(void **state)
{
	struct fth_dev_chan *chan;
	struct fth_dev_req req;
	struct fth_dev *dev;
	char *expect = malloc(65536);
	void *memory = NULL;

	(void)state;
	assert_int_equal(posix_memalign(&memory, 4096, 65536), 0);
	assert_ok(fth_dev_open("softnvme(mem:8M)?queues=1&lba=4096", &dev));
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	assert_ok(fth_dev_map(dev, memory, 16384));
	for (unsigned start = 512; start < 16384; start += 1536) {
		char *buf = (char *)memory + start;

		fill(expect, 32768, start);
		memcpy(buf, expect, 32768);
		fth_dev_req_init(&req, FTH_DEV_WRITE, buf, 32768, 65536);
		assert_int_equal(run_one(chan, &req), 0);
		memset(buf, 0, 32768);
		fth_dev_req_init(&req, FTH_DEV_READ, buf, 32768, 65536);
		assert_int_equal(run_one(chan, &req), 0);
		assert_memory_equal(buf, expect, 32768);
	}
	fth_dev_chan_close(chan);
	assert_ok(fth_dev_unmap(dev, memory, 16384));
	fth_dev_close(dev);
	free(memory);
	free(expect);
}

/* More requests than command ids: what does not fit waits in the channel. */
static void depth_beyond_the_ring(void **state)
{
	enum { N = 200 };
	static struct fth_dev_req reqs[N];
	struct fth_dev_req *list[N], *done[N];
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	char *buf;

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:8M)?queues=1&depth=2", &dev));
	assert_ok(fth_dev_chan_open(dev, N, &chan));
	buf = fth_dev_buf_alloc(dev, N * 512);
	for (unsigned i = 0; i < N; i++) {
		memset(buf + i * 512, (int)i, 512);
		fth_dev_req_init(&reqs[i], FTH_DEV_WRITE, buf + i * 512, 512, i * 512);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, N), N);
	assert_int_equal(fth_dev_reap(chan, done, N, N, FTH_NEVER), N);
	memset(buf, 0xff, N * 512);
	assert_ok(fth_dev_read(dev, buf, N * 512, 0, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < N; i++)
		assert_int_equal((unsigned char)buf[i * 512 + 511], i);
	fth_dev_buf_free(dev, buf, N * 512);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void flush_discard_and_zero(void **state)
{
	struct fth_dev *dev;
	char buf[4096];

	(void)state;
	assert_ok(fth_dev_open("softnvme(mem:8M)", &dev));
	memset(buf, 1, sizeof(buf));
	for (unsigned i = 0; i < 4; i++)
		assert_ok(fth_dev_write(dev, buf, sizeof(buf), i * 4096, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_zero(dev, 4096, 4096, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_discard(dev, 4096, 8192, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_zero(dev, SIZE - 16384, 16384, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, buf, 4096, 4096, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(buf[i], 0);
	assert_ok(fth_dev_read(dev, buf, 4096, 12288, FTH_DEV_TIMEOUT));
	assert_int_equal(buf[4095], 1);
	assert_int_equal(fth_dev_read(dev, buf, 4096, SIZE, FTH_DEV_TIMEOUT), -ERANGE);
	fth_dev_close(dev);
}

/* A medium that fails flushes tells that the forced write brought one. */
static void a_forced_write_is_durable_without_a_flush(void **state)
{
	struct fth_dev_req req, *r = &req;
	struct fth_dev_chan *chan;
	struct fth_dev *dev;
	char buf[4096];

	(void)state;
	assert_ok(fth_dev_open("softnvme(fault(mem:8M)?kind=flush&every=1)", &dev));
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	memset(buf, 7, sizeof(buf));
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, sizeof(buf), 0);
	assert_int_equal(run_one(chan, &req), 0);
	/* The flush that it brings fails, and so it was not durable. */
	req.flags = FTH_DEV_FUA;
	assert_int_equal(run_one(chan, &req), -EIO);
	req.flags = 2;
	assert_int_equal(fth_dev_submit(chan, &r, 1), -EINVAL);
	fth_dev_req_init(&req, FTH_DEV_READ, buf, sizeof(buf), 0);
	req.flags = FTH_DEV_FUA;
	assert_int_equal(fth_dev_submit(chan, &r, 1), -EINVAL);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);

	/* A device without it refuses it. */
	assert_ok(fth_dev_open("crash(softnvme(mem:8M))?fua=off", &dev));
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	fth_dev_req_init(&req, FTH_DEV_WRITE, buf, sizeof(buf), 0);
	req.flags = FTH_DEV_FUA;
	assert_int_equal(fth_dev_submit(chan, &r, 1), -EOPNOTSUPP);
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void bad_options_are_refused(void **state)
{
	static const char *const bad[] = {
		"softnvme(mem:1M)?depth=3", "softnvme(mem:1M)?depth=1",
		"softnvme(mem:1M)?lba=700", "softnvme(mem:1M)?queues=0",
		"softnvme(mem:1M)?nope=1",  "softnvme:mem",
		"softnvme(nosuch:1)",	    "softnvme(mem:1M?block=4K)?lba=512",
	};
	struct fth_dev *dev;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (fth_dev_open(bad[i], &dev) != -EINVAL)
			fail_msg("\"%s\" was opened", bad[i]);
}

static void the_driver_of_a_device(void **state)
{
	struct fth_dev *dev;

	(void)state;
	assert_null(fth_nvme_of_dev(NULL));
	assert_ok(fth_dev_open("mem:1M", &dev));
	assert_null(fth_nvme_of_dev(dev));
	fth_dev_close(dev);
	assert_ok(fth_dev_open("softnvme(mem:1M)?queues=3", &dev));
	assert_non_null(fth_nvme_of_dev(dev));
	assert_int_equal(fth_nvme_info(fth_nvme_of_dev(dev))->queues, 3);
	fth_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_arrives_whole_from_any_memory),
		cmocka_unit_test(pieces_of_every_shape),
		cmocka_unit_test(blocks_across_the_end_of_mapped_memory),
		cmocka_unit_test(depth_beyond_the_ring),
		cmocka_unit_test(flush_discard_and_zero),
		cmocka_unit_test(a_forced_write_is_durable_without_a_flush),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(the_driver_of_a_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
