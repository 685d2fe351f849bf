/* SPDX-License-Identifier: BSD-2-Clause */
/* Many threads on one file: device, each with a channel of its own. */
#include "dev/file/dev_file_fixture.h"

#include <pthread.h>

#define THREADS	 4u
#define UNIT	 4096u
#define UNITS	 32u /* of each thread */
#define DEPTH	 8u
#define ROUNDS	 40u
#define FILE_LEN ((size_t)THREADS * UNITS * UNIT)

struct worker {
	struct fth_dev *dev;
	unsigned index;
	unsigned errors;
	pthread_t thread;
};

/* Move DEPTH units, those beginning at `first`, in one batch. */
static unsigned move_batch(struct fth_dev_chan *chan, enum fth_dev_op op, char *buf, uint64_t first)
{
	struct fth_dev_req reqs[DEPTH], *list[DEPTH], *done[DEPTH];
	unsigned errors = 0;

	for (unsigned i = 0; i < DEPTH; i++) {
		fth_dev_req_init(&reqs[i], op, buf + i * UNIT, UNIT, (first + i) * UNIT);
		list[i] = &reqs[i];
	}
	errors += fth_dev_submit(chan, list, DEPTH) != (int)DEPTH;
	errors += fth_dev_reap(chan, done, DEPTH, DEPTH, FTH_NEVER) != (int)DEPTH;
	for (unsigned i = 0; i < DEPTH; i++)
		errors += reqs[i].result != 0;
	return errors;
}

static unsigned one_round(struct worker *w, struct fth_dev_chan *chan, char *buf, unsigned round)
{
	uint64_t first = w->index * UNITS + round % (UNITS / DEPTH) * DEPTH;
	unsigned errors;

	for (unsigned i = 0; i < DEPTH; i++)
		fill_random(buf + i * UNIT, UNIT, (first + i) * ROUNDS + round);
	errors = move_batch(chan, FTH_DEV_WRITE, buf, first);
	memset(buf, 0, DEPTH * UNIT);
	errors += move_batch(chan, FTH_DEV_READ, buf, first);
	for (unsigned i = 0; i < DEPTH; i++) {
		char want[UNIT];

		fill_random(want, UNIT, (first + i) * ROUNDS + round);
		errors += memcmp(buf + i * UNIT, want, UNIT) != 0;
	}
	return errors;
}

/* Buffers come and go, so that all channels keep following the table. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct fth_dev_chan *chan;

	if (fth_dev_chan_open(w->dev, DEPTH, &chan) < 0) {
		w->errors++;
		return NULL;
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		char *buf = fth_dev_buf_alloc(w->dev, DEPTH * UNIT);

		w->errors += buf ? one_round(w, chan, buf, round) : 1;
		if (round % 10 == 0)
			w->errors += fth_dev_flush(w->dev, FTH_DEV_TIMEOUT) != 0;
		fth_dev_buf_free(w->dev, buf, DEPTH * UNIT);
	}
	fth_dev_chan_close(chan);
	return NULL;
}

static void threads_do_not_disturb_each_other(void **state)
{
	struct worker workers[THREADS] = {0};

	(void)state;
	for (unsigned place = 0; place < place_count; place++) {
		struct fth_dev *dev;

		make_file(place, FILE_LEN);
		assert_ok(open_a(place, "", &dev));
		for (unsigned i = 0; i < THREADS; i++) {
			workers[i] = (struct worker){.dev = dev, .index = i};
			assert_int_equal(
				pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++) {
			pthread_join(workers[i].thread, NULL);
			assert_int_equal(workers[i].errors, 0);
		}
		assert_int_equal(fth_dev_stat(dev, FTH_DEV_STAT_READS), THREADS * ROUNDS * DEPTH);
		fth_dev_close(dev);
	}
}

struct handover {
	struct fth_dev_chan *chan;
	struct fth_dev_req reqs[DEPTH];
	int taken;
};

static void *submit_and_leave(void *arg)
{
	struct handover *h = arg;
	struct fth_dev_req *list[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++)
		list[i] = &h->reqs[i];
	h->taken = fth_dev_submit(h->chan, list, DEPTH);
	return NULL;
}

/* The kernel drops what an ending thread had queued; the channel must not. */
static void hand_over(struct fth_dev *dev)
{
	char *buf = fth_dev_buf_alloc(dev, DEPTH * UNIT);
	struct fth_dev_req *done[DEPTH];
	struct handover h = {0};

	assert_ok(fth_dev_chan_open(dev, DEPTH, &h.chan));
	for (unsigned round = 0; round < 20; round++) {
		pthread_t thread;

		memset(buf, 0, DEPTH * UNIT);
		for (unsigned i = 0; i < DEPTH; i++)
			fth_dev_req_init(&h.reqs[i], i == 5 ? FTH_DEV_FLUSH : FTH_DEV_READ,
					 buf + i * UNIT, UNIT, i * UNIT);
		assert_int_equal(pthread_create(&thread, NULL, submit_and_leave, &h), 0);
		pthread_join(thread, NULL);
		assert_int_equal(h.taken, DEPTH);
		assert_int_equal(fth_dev_reap(h.chan, done, DEPTH, DEPTH, FTH_NEVER), DEPTH);
		for (unsigned i = 0; i < DEPTH; i++) {
			assert_int_equal(h.reqs[i].result, 0);
			assert_true(all_are(buf + i * UNIT, UNIT, i == 5 ? 0 : 0xee));
		}
	}
	fth_dev_chan_close(h.chan);
	fth_dev_buf_free(dev, buf, DEPTH * UNIT);
}

static void a_channel_moves_between_threads_with_requests_in_flight(void **state)
{
	(void)state;
	for (unsigned place = 0; place < place_count; place++) {
		struct fth_dev *dev;

		make_file(place, FILE_LEN);
		assert_ok(open_a(place, "", &dev));
		hand_over(dev);
		fth_dev_close(dev);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_do_not_disturb_each_other),
		cmocka_unit_test(a_channel_moves_between_threads_with_requests_in_flight),
	};
	return run_with_each_engine(tests);
}
