/* SPDX-License-Identifier: BSD-2-Clause */
/* Data through file:, on each kind of filesystem here, past the page cache and through it. */
#include "dev/file/dev_file_fixture.h"

#define FILE_BYTES (1u << 20)
#define UNIT	   4096u

static const char *const ways[] = {
	"", "?direct=off", "?fixed=off", "?direct=off&block=512", "?inline=off", "?inline=on",
};

/* Run a test on a fresh file in each place and way. */
static void on_each(void (*body)(struct fth_dev *dev))
{
	for (unsigned i = 0; i < place_count; i++) {
		for (unsigned j = 0; j < sizeof(ways) / sizeof(ways[0]); j++) {
			struct fth_dev *dev;

			make_file(i, FILE_BYTES);
			assert_ok(open_a(i, ways[j], &dev));
			body(dev);
			fth_dev_close(dev);
		}
	}
}

static int run_one(struct fth_dev_chan *chan, struct fth_dev_req *req)
{
	struct fth_dev_req *done = NULL;

	assert_int_equal(fth_dev_submit(chan, &req, 1), 1);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, FTH_NEVER), 1);
	assert_ptr_equal(done, req);
	return req->result;
}

/* ---- data ---- */

static void keep_data(struct fth_dev *dev)
{
	char *out = fth_dev_buf_alloc(dev, FILE_BYTES), *in = fth_dev_buf_alloc(dev, FILE_BYTES);

	fill_random(out, FILE_BYTES, 1);
	assert_ok(fth_dev_write(dev, out, FILE_BYTES, 0, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_flush(dev, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, in, FILE_BYTES, 0, FTH_DEV_TIMEOUT));
	assert_memory_equal(in, out, FILE_BYTES);
	/* Memory that is neither mapped nor aligned. */
	assert_ok(fth_dev_read(dev, in + 1, 3 * UNIT, UNIT, FTH_DEV_TIMEOUT));
	assert_memory_equal(in + 1, out + UNIT, 3 * UNIT);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_BYTES_WRITTEN), FILE_BYTES);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_BYTES_READ), FILE_BYTES + 3 * UNIT);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_FLUSHES), 1);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 0);
	fth_dev_buf_free(dev, in, FILE_BYTES);
	fth_dev_buf_free(dev, out, FILE_BYTES);
}

static void what_is_written_is_read_back(void **state)
{
	(void)state;
	on_each(keep_data);
}

static void any_size_works_byte_by_byte(void **state)
{
	static const size_t sizes[] = {1, 511, 4097, 100003};
	static char out[100003], in[100003];

	(void)state;
	fill_random(out, sizeof(out), 2);
	for (unsigned i = 0; i < place_count * 4; i++) {
		size_t size = sizes[i % 4];
		struct fth_dev *dev;

		make_file(i / 4, size);
		assert_ok(open_a(i / 4, "", &dev));
		assert_int_equal(fth_dev_info(dev)->block, 1);
		assert_ok(fth_dev_write(dev, out, size, 0, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_read(dev, in, size, 0, FTH_DEV_TIMEOUT));
		assert_memory_equal(in, out, size);
		assert_ok(fth_dev_zero(dev, size / 2 + 1, size / 3, FTH_DEV_TIMEOUT));
		assert_ok(fth_dev_read(dev, in, size, 0, FTH_DEV_TIMEOUT));
		assert_true(all_are(in + size / 3, size / 2 + 1, 0));
		assert_memory_equal(in, out, size / 3);
		assert_int_equal(fth_dev_read(dev, in, 1, size, FTH_DEV_TIMEOUT), -ERANGE);
		fth_dev_close(dev);
	}
}

/* A write that is durable when it completes, of one piece and of two. */
static void write_through(struct fth_dev *dev)
{
	char *out = fth_dev_buf_alloc(dev, 2 * UNIT), *in = fth_dev_buf_alloc(dev, 2 * UNIT);
	struct iovec pieces[] = {{out + UNIT, UNIT}, {out, UNIT}};
	struct fth_dev_chan *chan;
	struct fth_dev_req req;

	assert_true(fth_dev_info(dev)->has_fua);
	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	fill_random(out, 2 * UNIT, 5);
	fth_dev_req_init(&req, FTH_DEV_WRITE, out, 2 * UNIT, UNIT);
	req.flags = FTH_DEV_FUA;
	assert_int_equal(run_one(chan, &req), 0);
	assert_ok(fth_dev_read(dev, in, 2 * UNIT, UNIT, FTH_DEV_TIMEOUT));
	assert_memory_equal(in, out, 2 * UNIT);
	fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, 2 * UNIT, 0);
	req.iov = pieces;
	req.iov_count = 2;
	req.flags = FTH_DEV_FUA;
	assert_int_equal(run_one(chan, &req), 0);
	assert_ok(fth_dev_read(dev, in, 2 * UNIT, 0, FTH_DEV_TIMEOUT));
	assert_memory_equal(in, out + UNIT, UNIT);
	assert_memory_equal(in + UNIT, out, UNIT);
	fth_dev_chan_close(chan);
	fth_dev_buf_free(dev, out, 2 * UNIT);
	fth_dev_buf_free(dev, in, 2 * UNIT);
}

static void durable_writes_need_no_flush(void **state)
{
	(void)state;
	on_each(write_through);
}

#define PIECES 37u

/* PIECES pieces of one unit, in a scrambled order of memory. */
static void cut(struct iovec *pieces, char *buf)
{
	for (unsigned i = 0; i < PIECES; i++)
		pieces[i] = (struct iovec){buf + (i * 11 % PIECES) * UNIT, UNIT};
}

static void move_vectors(struct fth_dev *dev)
{
	char *out = fth_dev_buf_alloc(dev, PIECES * UNIT),
	     *in = fth_dev_buf_alloc(dev, PIECES * UNIT);
	struct iovec pieces[PIECES];
	struct fth_dev_chan *chan;
	struct fth_dev_req req;

	assert_ok(fth_dev_chan_open(dev, 1, &chan));
	fill_random(out, PIECES * UNIT, 3);
	cut(pieces, out);
	fth_dev_req_init(&req, FTH_DEV_WRITE, NULL, PIECES * UNIT, 2 * UNIT);
	req.iov = pieces;
	req.iov_count = PIECES;
	assert_int_equal(run_one(chan, &req), 0);
	assert_ok(fth_dev_read(dev, in, PIECES * UNIT, 2 * UNIT, FTH_DEV_TIMEOUT));
	for (unsigned i = 0; i < PIECES; i++)
		assert_memory_equal(in + i * UNIT, pieces[i].iov_base, UNIT);

	cut(pieces, in);
	req.op = FTH_DEV_READ;
	assert_int_equal(run_one(chan, &req), 0);
	assert_memory_equal(in, out, PIECES * UNIT);
	fth_dev_chan_close(chan);
	fth_dev_buf_free(dev, in, PIECES * UNIT);
	fth_dev_buf_free(dev, out, PIECES * UNIT);
}

static void vectors_scatter_and_gather(void **state)
{
	(void)state;
	on_each(move_vectors);
}

static void zero_and_discard(struct fth_dev *dev)
{
	char *buf = fth_dev_buf_alloc(dev, FILE_BYTES);

	assert_ok(fth_dev_zero(dev, 5 * UNIT, 3 * UNIT, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, buf, 10 * UNIT, 0, FTH_DEV_TIMEOUT));
	assert_true(all_are(buf, 3 * UNIT, 0xee));
	assert_true(all_are(buf + 3 * UNIT, 5 * UNIT, 0));
	assert_true(all_are(buf + 8 * UNIT, 2 * UNIT, 0xee));

	assert_ok(fth_dev_discard(dev, FILE_BYTES / 2, FILE_BYTES / 2, FTH_DEV_TIMEOUT));
	assert_ok(fth_dev_read(dev, buf, FILE_BYTES, 0,
			       FTH_DEV_TIMEOUT)); /* anything there, but readable */
	assert_true(all_are(buf + 8 * UNIT, FILE_BYTES / 2 - 8 * UNIT, 0xee));

	assert_ok(fth_dev_zero(dev, FILE_BYTES, 0, FTH_DEV_TIMEOUT)); /* the file keeps its size */
	assert_ok(fth_dev_read(dev, buf, FILE_BYTES, 0, FTH_DEV_TIMEOUT));
	assert_true(all_are(buf, FILE_BYTES, 0));
	fth_dev_buf_free(dev, buf, FILE_BYTES);
}

static void zeroed_reads_as_zeroes_and_discarded_as_anything(void **state)
{
	(void)state;
	on_each(zero_and_discard);
}

static void zero_by_writing(struct fth_dev *dev)
{
	((struct dev_file *)dev)->zero_way = FILE_ZERO_WRITE;
	zero_and_discard(dev);
}

static void zeroes_can_be_written(void **state)
{
	(void)state;
	on_each(zero_by_writing);
}

/* ---- depth, batches and waiting ---- */

static void fill_depth(struct fth_dev *dev, unsigned depth)
{
	struct fth_dev_req *reqs = calloc(depth, sizeof(*reqs));
	struct fth_dev_req **list = calloc(depth, sizeof(*list)),
			   **done = calloc(depth, sizeof(*done));
	char *buf = fth_dev_buf_alloc(dev, (size_t)depth * UNIT);
	struct fth_dev_chan *chan;
	unsigned n = 0;

	assert_ok(fth_dev_chan_open(dev, depth, &chan));
	for (unsigned i = 0; i < depth; i++) {
		fth_dev_req_init(&reqs[i], FTH_DEV_READ, buf + (size_t)i * UNIT, UNIT,
				 (uint64_t)i * UNIT % FILE_BYTES);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, depth), depth);
	assert_int_equal(fth_dev_submit(chan, list, 1), -EAGAIN);
	while (n < depth) {
		unsigned want = depth - n < 7 ? depth - n : 7;
		int got = fth_dev_reap(chan, done, depth, want, FTH_NEVER);

		assert_in_range(got, want, depth - n);
		for (int i = 0; i < got; i++) {
			assert_int_equal(done[i]->result, 0);
			assert_int_equal(done[i]->user, NULL);
			done[i]->user = done[i]; /* comes back once */
		}
		n += (unsigned)got;
	}
	assert_true(all_are(buf, (size_t)depth * UNIT, 0xee));
	assert_int_equal(fth_dev_chan_in_flight(chan), 0);
	fth_dev_chan_close(chan);
	fth_dev_buf_free(dev, buf, (size_t)depth * UNIT);
	free(done);
	free(list);
	free(reqs);
}

static void fill_small_depths(struct fth_dev *dev)
{
	static const unsigned depths[] = {1, 2, 3, 16, 100, 256};

	for (unsigned i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		fill_depth(dev, depths[i]);
}

static void every_depth_is_reached(void **state)
{
	(void)state;
	on_each(fill_small_depths);
}

static void a_batch_may_be_larger_than_the_ring(void **state)
{
	struct fth_dev *dev;

	(void)state;
	make_file(0, FILE_BYTES);
	assert_ok(open_a(0, "?direct=off", &dev));
	fill_depth(dev, 4100);
	fth_dev_close(dev);
}

static void poll_for_it(struct fth_dev *dev)
{
	char *buf = fth_dev_buf_alloc(dev, UNIT);
	struct fth_dev_req req, *r = &req, *done = NULL;
	struct fth_dev_chan *chan;
	int n;

	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	for (unsigned min = 0; min <= 1; min++) {
		fth_dev_req_init(&req, FTH_DEV_READ, buf, UNIT, 0);
		assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
		/* Ends: a poll gives the kernel its chance to complete. */
		while ((n = fth_dev_reap(chan, &done, 1, min, 0)) == (min ? -ETIME : 0))
			;
		assert_int_equal(n, 1);
		assert_int_equal(done->result, 0);
	}
	fth_dev_req_init(&req, FTH_DEV_READ, buf, UNIT, 0);
	assert_int_equal(fth_dev_submit(chan, &r, 1), 1);
	while ((n = fth_dev_reap(chan, &done, 1, 1, fth_deadline_ns(1000))) == -ETIME)
		;
	assert_int_equal(n, 1);
	fth_dev_chan_close(chan);
	fth_dev_buf_free(dev, buf, UNIT);
}

static void completions_can_be_polled_for(void **state)
{
	(void)state;
	on_each(poll_for_it);
}

static void a_wait_ends_at_its_deadline(void **state)
{
	uint64_t deadline = fth_deadline_ns(3000000);
	struct fth_dev_chan *chan;
	struct fth_dev_req *done;
	struct fth_dev *dev;

	(void)state;
	make_file(0, FILE_BYTES);
	assert_ok(open_a(0, "", &dev));
	assert_ok(fth_dev_chan_open(dev, 4, &chan));
	chan->in_flight = 1; /* as if there were one that never completes */
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, deadline), -ETIME);
	assert_true(fth_now_ns() >= deadline);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, deadline), -ETIME);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 1, 0), -ETIME);
	assert_int_equal(fth_dev_reap(chan, &done, 1, 0, FTH_NEVER), 0);
	chan->in_flight = 0;
	fth_dev_chan_close(chan);
	fth_dev_close(dev);
}

static void flush_much(struct fth_dev *dev)
{
	struct fth_dev_req reqs[24], *list[24], *done[24];
	char *buf = fth_dev_buf_alloc(dev, UNIT);
	struct fth_dev_chan *chan;

	assert_ok(fth_dev_chan_open(dev, 24, &chan));
	for (unsigned i = 0; i < 24; i++) {
		enum fth_dev_op op = i % 3 ? FTH_DEV_FLUSH : FTH_DEV_WRITE;

		fth_dev_req_init(&reqs[i], op, buf, UNIT, i * UNIT);
		list[i] = &reqs[i];
	}
	assert_int_equal(fth_dev_submit(chan, list, 24), 24);
	assert_int_equal(fth_dev_reap(chan, done, 24, 24, FTH_NEVER), 24);
	for (unsigned i = 0; i < 24; i++)
		assert_int_equal(done[i]->result, 0);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_FLUSHES), 16);
	assert_int_equal(fth_dev_submit(chan, list, 24), 24); /* and closing waits for them */
	fth_dev_chan_close(chan);
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_FLUSHES), 32);
	fth_dev_buf_free(dev, buf, UNIT);
}

static void many_flushes_may_be_in_flight(void **state)
{
	(void)state;
	on_each(flush_much);
}

/* ---- a file that shrinks ---- */

static void cut_off(struct fth_dev *dev)
{
	const char *path = fth_dev_uri(dev) + strlen("file:");
	char *name = strndup(path, strcspn(path, "?")), *buf = fth_dev_buf_alloc(dev, 4 * UNIT);

	assert_int_equal(truncate(name, 2 * UNIT + 100), 0);
	assert_int_equal(fth_dev_read(dev, buf, UNIT, 8 * UNIT, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(fth_dev_read(dev, buf, 4 * UNIT, 0, FTH_DEV_TIMEOUT), -EIO);
	assert_int_equal(fth_dev_read(dev, buf, UNIT, 2 * UNIT, FTH_DEV_TIMEOUT), -EIO);
	assert_ok(fth_dev_read(dev, buf, 2 * UNIT, 0, FTH_DEV_TIMEOUT));
	assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_ERRORS), 3);
	fth_dev_buf_free(dev, buf, 4 * UNIT);
	free(name);
}

static void reading_what_was_cut_off_is_an_error(void **state)
{
	(void)state;
	on_each(cut_off);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(any_size_works_byte_by_byte),
		cmocka_unit_test(durable_writes_need_no_flush),
		cmocka_unit_test(vectors_scatter_and_gather),
		cmocka_unit_test(zeroed_reads_as_zeroes_and_discarded_as_anything),
		cmocka_unit_test(zeroes_can_be_written),
		cmocka_unit_test(every_depth_is_reached),
		cmocka_unit_test(a_batch_may_be_larger_than_the_ring),
		cmocka_unit_test(completions_can_be_polled_for),
		cmocka_unit_test(a_wait_ends_at_its_deadline),
		cmocka_unit_test(many_flushes_may_be_in_flight),
		cmocka_unit_test(reading_what_was_cut_off_is_an_error),
	};
	return run_with_each_engine(tests);
}
