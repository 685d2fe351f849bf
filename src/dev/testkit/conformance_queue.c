/* SPDX-License-Identifier: BSD-2-Clause */
/* Conformance: many requests in flight, many channels, many threads. */
#include "dev/testkit/conformance_checks.h"

#include <pthread.h>
#include <stdio.h>

#define BATCH	    48
#define THREADS_MAX 16

/* ---- batches ---- */

/* Lives until its channel is closed: a check that ends early leaves requests in flight. */
struct batch {
	struct fth_dev_req reqs[BATCH];
	struct fth_dev_req *list[BATCH];
	bool back[BATCH];
};

/* From one block in a buffer to the next, so that all are aligned. */
static uint64_t batch_stride(const struct fth_conf *conf)
{
	uint64_t align = conf->info->align;

	return (conf->info->block + align - 1) / align * align;
}

/* One request per block, each with its own part of buf. */
static void batch_init(const struct fth_conf *conf, struct batch *b, enum fth_dev_op op, char *buf)
{
	uint64_t block = conf->info->block, stride = batch_stride(conf);

	memset(b, 0, sizeof(*b));
	for (unsigned i = 0; i < BATCH; i++) {
		fth_dev_req_init(&b->reqs[i], op, buf + i * stride, block, i * block);
		b->reqs[i].user = &b->back[i];
		b->list[i] = &b->reqs[i];
	}
}

/* Note what came back: each once, done, and of this batch. */
static int note(struct batch *b, struct fth_dev_req *const *done, int n)
{
	for (int i = 0; i < n; i++) {
		ptrdiff_t at = done[i] - b->reqs;

		FTH_EXPECT(at >= 0 && at < BATCH && done[i] == &b->reqs[at]);
		FTH_EXPECT(!b->back[at]);
		FTH_EXPECT(done[i]->user == &b->back[at]);
		b->back[at] = true;
		if (done[i]->result < 0)
			return fth_fail(-done[i]->result, "request %td of a batch failed", at);
	}
	return 0;
}

static int reap_batch(struct fth_dev_chan *chan, struct batch *b, unsigned max, unsigned min)
{
	unsigned left = BATCH;

	while (left > 0) {
		struct fth_dev_req *done[BATCH];
		int n = fth_dev_reap(chan, done, max, min, FTH_NEVER);

		FTH_CHECK(n);
		FTH_EXPECT((unsigned)n <= max && (unsigned)n <= left);
		FTH_EXPECT((unsigned)n >= fth_conf_min(min, left));
		FTH_CHECK(note(b, done, n));
		left -= (unsigned)n;
		FTH_EXPECT(fth_dev_chan_in_flight(chan) == left);
	}
	return 0;
}

static int run_batch(struct fth_dev_chan *chan, struct batch *b, const unsigned *max_min)
{
	int n = fth_dev_submit(chan, b->list, BATCH);

	FTH_CHECK(n);
	FTH_EXPECT(n == BATCH && fth_dev_chan_in_flight(chan) == BATCH);
	return reap_batch(chan, b, max_min[0], max_min[1]);
}

static int batches_on(const struct fth_conf *conf, struct fth_dev_chan *chan, struct batch *b,
		      char *buf, uint64_t length)
{
	static const unsigned ways[][2] = {{BATCH, BATCH}, {BATCH, 1}, {1, 1}, {7, 3}, {16, 0}};
	uint64_t stride = length / BATCH;

	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		fth_conf_fill(buf, length, 100 + i);
		for (unsigned at = 0; at < BATCH; at++)
			memcpy(conf->written + at * conf->info->block, buf + at * stride,
			       conf->info->block);
		batch_init(conf, b, FTH_DEV_WRITE, buf);
		FTH_CHECK(run_batch(chan, b, ways[i]));
		memset(buf, 0, length);
		batch_init(conf, b, FTH_DEV_READ, buf);
		FTH_CHECK(run_batch(chan, b, ways[i]));
		for (unsigned at = 0; at < BATCH; at++)
			FTH_CHECK(fth_conf_same(conf->written + at * conf->info->block,
						buf + at * stride, conf->info->block,
						at * conf->info->block));
	}
	return 0;
}

int fth_conf_batches(struct fth_conf *conf)
{
	uint64_t length = BATCH * batch_stride(conf);
	char *buf = fth_conf_alloc(conf, length);
	struct batch *b = malloc(sizeof(*b));
	struct fth_dev_chan *chan;
	int rc = buf && b ? fth_conf_background(conf, 110) : -ENOMEM;

	if (rc == 0)
		rc = fth_dev_chan_open(conf->dev, BATCH, &chan);
	if (rc == 0) {
		rc = batches_on(conf, chan, b, buf, length);
		fth_dev_chan_close(chan);
	}
	free(b);
	free(buf);
	return rc < 0 ? rc : fth_conf_verify(conf);
}

/* ---- depth ---- */

static int depth_on(struct fth_dev_chan *chan, struct batch *b, unsigned depth)
{
	struct fth_dev_req *done[BATCH];
	unsigned left = depth;

	FTH_EXPECT(fth_dev_chan_in_flight(chan) == 0);
	FTH_EXPECT(fth_dev_submit(chan, b->list, 0) == 0);
	FTH_EXPECT(fth_dev_submit(chan, b->list, depth + 3) == (int)depth);
	FTH_EXPECT(fth_dev_chan_in_flight(chan) == depth);
	FTH_EXPECT(fth_dev_submit(chan, b->list + depth, 1) == -EAGAIN);
	FTH_EXPECT(fth_dev_reap(chan, done, 1, 1, FTH_NEVER) == 1);
	FTH_CHECK(note(b, done, 1));
	/* There is room for one again, and only for one. */
	FTH_EXPECT(fth_dev_submit(chan, b->list + depth, 2) == 1);
	FTH_EXPECT(fth_dev_submit(chan, b->list + depth + 1, 1) == -EAGAIN);
	while (left > 0) {
		int n = fth_dev_reap(chan, done, BATCH, left, FTH_NEVER);

		FTH_EXPECT(n == (int)left);
		FTH_CHECK(note(b, done, n));
		left -= (unsigned)n;
	}
	FTH_EXPECT(fth_dev_chan_in_flight(chan) == 0);
	/* A batch ends before its first bad request. */
	b->reqs[2].length = 0;
	FTH_EXPECT(fth_dev_submit(chan, b->list, 4) == (int)fth_conf_min(depth, 2));
	FTH_EXPECT(fth_dev_reap(chan, done, BATCH, BATCH, FTH_NEVER) ==
		   (int)fth_conf_min(depth, 2));
	return 0;
}

int fth_conf_depth(struct fth_conf *conf)
{
	static const unsigned depths[] = {1, 2, 5, 32};
	struct fth_dev_chan *chan;
	struct batch *b = malloc(sizeof(*b));
	char *buf = fth_conf_alloc(conf, BATCH * batch_stride(conf));
	int rc = b && buf ? 0 : -ENOMEM;

	for (unsigned i = 0; rc == 0 && i < sizeof(depths) / sizeof(depths[0]); i++) {
		batch_init(conf, b, FTH_DEV_READ, buf);
		rc = fth_dev_chan_open(conf->dev, depths[i], &chan);
		if (rc < 0)
			break;
		rc = depth_on(chan, b, depths[i]);
		fth_dev_chan_close(chan);
	}
	free(buf);
	free(b);
	return rc;
}

/* ---- deadlines ---- */

static int deadlines_on(const struct fth_conf *conf, struct fth_dev_chan *chan,
			struct fth_dev_req *req)
{
	struct fth_dev_req *done[2];
	int rc;

	FTH_EXPECT(fth_dev_reap(chan, done, 2, 1, FTH_NEVER) == 0); /* nothing to wait for */
	FTH_EXPECT(fth_dev_reap(chan, done, 1, 2, FTH_NEVER) == -EINVAL);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t deadline = i % 2 ? 1 : fth_deadline_ns(i * 10000);

		fth_dev_req_init(req, FTH_DEV_WRITE, conf->written, conf->info->block, 0);
		FTH_EXPECT(fth_dev_submit(chan, &req, 1) == 1);
		rc = fth_dev_reap(chan, done, 2, i % 3 ? 1 : 0, i % 3 ? deadline : 0);
		/* It may be done or not; either way it comes back once. */
		if (rc == 0 || rc == -ETIME) {
			FTH_EXPECT(rc == 0 ? i % 3 == 0 : i % 3 != 0);
			FTH_EXPECT(rc == 0 || fth_now_ns() >= deadline);
			FTH_EXPECT(fth_dev_chan_in_flight(chan) == 1);
			rc = fth_dev_reap(chan, done, 2, 2, FTH_NEVER);
		}
		FTH_EXPECT(rc == 1 && done[0] == req && req->result == 0);
		FTH_EXPECT(fth_dev_chan_in_flight(chan) == 0);
	}
	return 0;
}

int fth_conf_deadlines(struct fth_conf *conf)
{
	struct fth_dev_chan *chan;
	struct fth_dev_req req;
	int rc;

	FTH_CHECK(fth_dev_chan_open(conf->dev, 4, &chan));
	rc = deadlines_on(conf, chan, &req);
	fth_dev_chan_close(chan);
	return rc;
}

/* ---- closing with requests in flight ---- */

int fth_conf_closing(struct fth_conf *conf)
{
	uint64_t errors = fth_dev_stat(conf->dev, FTH_DEV_STAT_ERRORS);
	struct fth_dev_chan *chan, *other;
	struct batch *b = malloc(sizeof(*b));
	int n = -1, rc;

	if (!b)
		return -ENOMEM;
	rc = fth_conf_background(conf, 120);
	if (rc == 0)
		rc = fth_dev_chan_open(conf->dev, BATCH, &chan);
	if (rc < 0) {
		free(b);
		return rc;
	}
	rc = fth_dev_chan_open(conf->dev, 1, &other); /* stays usable */
	batch_init(conf, b, FTH_DEV_WRITE, conf->got);
	fth_conf_fill(conf->got, conf->info->block, 121);
	for (unsigned i = 0; i < BATCH; i++) {
		b->reqs[i].single.iov_base = conf->got;
		memcpy(conf->written + i * conf->info->block, conf->got, conf->info->block);
	}
	if (rc == 0)
		n = fth_dev_submit(chan, b->list, BATCH);
	fth_dev_chan_close(chan);
	/* They were waited for: the requests may go, and what they wrote is there. */
	memset(b, 0xee, sizeof(*b));
	free(b);
	FTH_CHECK(rc);
	rc = fth_conf_do(other, FTH_DEV_FLUSH, NULL, 0, 0);
	fth_dev_chan_close(other);
	fth_dev_chan_close(NULL);
	FTH_CHECK(rc);
	FTH_EXPECT(n == BATCH);
	FTH_EXPECT(fth_dev_stat(conf->dev, FTH_DEV_STAT_ERRORS) == errors);
	return fth_conf_verify(conf);
}

/* ---- threads ---- */

struct worker {
	const struct fth_conf *conf;
	uint64_t base, length;
	unsigned number;
	int rc;
	char text[FTH_ERROR_TEXT_MAX]; /* the thread's own error text dies with it */
	pthread_t thread;
};

static void *model_worker(void *arg)
{
	struct worker *w = arg;

	w->rc = fth_conf_model(w->conf, w->base, w->length, w->conf->options.operations / 4,
			       w->conf->options.seed + w->number);
	if (w->rc < 0)
		snprintf(w->text, sizeof(w->text), "%s", fth_error_text(w->rc));
	return NULL;
}

static int blocking_rounds(const struct worker *w, char *buf)
{
	uint64_t block = w->conf->info->block, n = fth_conf_min(w->length, 4 * block);

	for (unsigned round = 0; round < 30; round++) {
		uint64_t at = w->base + round % (w->length / n) * n;

		fth_conf_fill(buf, n, at + round);
		FTH_CHECK(fth_dev_write(w->conf->dev, buf, n, at, FTH_DEV_TIMEOUT));
		memset(buf + n, 0, n);
		if (round % 10 == 0)
			FTH_CHECK(fth_dev_flush(w->conf->dev, FTH_DEV_TIMEOUT));
		FTH_CHECK(fth_dev_read(w->conf->dev, buf + n, n, at, FTH_DEV_TIMEOUT));
		FTH_CHECK(fth_conf_same(buf, buf + n, n, at));
	}
	return 0;
}

static void *blocking_worker(void *arg)
{
	struct worker *w = arg;
	char *buf = malloc(8 * (uint64_t)w->conf->info->block);

	w->rc = buf ? blocking_rounds(w, buf) : -ENOMEM;
	free(buf);
	if (w->rc < 0)
		snprintf(w->text, sizeof(w->text), "%s", fth_error_text(w->rc));
	return NULL;
}

/* Every thread on a part of the region of its own. */
static int run_threads(const struct fth_conf *conf, void *(*body)(void *))
{
	unsigned n = (unsigned)fth_conf_min(conf->options.threads, THREADS_MAX), started = 0;
	uint64_t part = conf->region / conf->info->block / (n ? n : 1) * conf->info->block;
	struct worker workers[THREADS_MAX];
	int rc = 0;

	for (; started < n; started++) {
		struct worker *w = &workers[started];

		*w = (struct worker){
			.conf = conf, .base = started * part, .length = part, .number = started};
		if (pthread_create(&w->thread, NULL, body, w) != 0)
			break;
	}
	if (started < n)
		rc = fth_fail(EAGAIN, "thread %u could not be started", started);
	for (unsigned i = 0; i < started; i++) {
		pthread_join(workers[i].thread, NULL);
		if (rc == 0 && workers[i].rc < 0)
			rc = fth_fail(-workers[i].rc, "thread %u: %.*s", i, FTH_ERROR_TEXT_MAX - 64,
				      workers[i].text);
	}
	return rc;
}

int fth_conf_threads(struct fth_conf *conf)
{
	return run_threads(conf, model_worker);
}

int fth_conf_blocking_threads(struct fth_conf *conf)
{
	return run_threads(conf, blocking_worker);
}
