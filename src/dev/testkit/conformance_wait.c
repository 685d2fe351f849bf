/* SPDX-License-Identifier: BSD-2-Clause */
/* Conformance: channels driven by their descriptor alone. */
#include "dev/testkit/conformance_checks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH	    48
#define ROUNDS	    4 /* how often each request of the refilled batch is used */
#define LOWEST_FD   3
#define QUIET_TRIES 100
#define WAIT_MS	    10000
/*
 * A wake-up that brings no request is allowed, since a layer may have work of its own to do; a
 * descriptor that stays readable is not. More than this many, and more than one each 20 us on
 * average, is a busy loop: on a machine without any load it comes to millions a second.
 */
#define SPURIOUS_MAX	  300
#define SPURIOUS_EVERY_NS 20000

/* A channel, its requests in flight, and how the test waits for them. */
struct waiter {
	const struct fth_conf *conf;
	struct fth_dev_chan *chan;
	int fd;
	int set; /* an epoll set with fd in it, to wait for in place of fd; or -1 */
	uint64_t started;
	uint64_t spurious;
	char *buf; /* a block for each request, stride bytes apart */
	uint64_t stride;
	unsigned used[BATCH]; /* how often each request has come back */
	struct fth_dev_req reqs[BATCH];
};

/* ---- waiting ---- */

/* Whether the descriptor is readable within ms. */
static int readable(const struct waiter *w, int ms)
{
	struct pollfd p = {.fd = w->fd, .events = POLLIN};
	struct epoll_event event;
	int n;

	do
		n = w->set >= 0 ? epoll_wait(w->set, &event, 1, ms) : poll(&p, 1, ms);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fth_fail(errno, "poll: %s", strerror(errno));
	if (n > 0 && w->set < 0 && !(p.revents & POLLIN))
		return FTH_BROKE("the descriptor has events 0x%x, expected POLLIN", p.revents);
	return n;
}

static int sleep_for_more(const struct waiter *w)
{
	unsigned ms = w->conf->options.wait_ms ? w->conf->options.wait_ms : WAIT_MS;
	int n = readable(w, (int)ms);

	if (n == 0)
		return FTH_BROKE("the descriptor was not readable within %u ms with %u requests in "
				 "flight",
				 ms, fth_dev_chan_in_flight(w->chan));
	return n < 0 ? n : 0;
}

/* Nothing is in flight: the descriptor becomes unreadable, and stays so. */
static int expect_quiet(const struct waiter *w)
{
	struct fth_dev_req *done;
	unsigned quiet = 0;

	FTH_EXPECT(fth_dev_chan_in_flight(w->chan) == 0);
	for (unsigned i = 0; i < QUIET_TRIES && quiet < 3; i++) {
		int n = readable(w, 0);

		FTH_CHECK(n);
		quiet = n == 0 ? quiet + 1 : 0;
		FTH_EXPECT(fth_dev_reap(w->chan, &done, 1, 0, 0) == 0);
	}
	if (quiet < 3)
		return FTH_BROKE("the descriptor stays readable with nothing in flight");
	return 0;
}

static int check_spurious(struct waiter *w)
{
	uint64_t allowed = SPURIOUS_MAX + (fth_now_ns() - w->started) / SPURIOUS_EVERY_NS;

	if (++w->spurious > allowed)
		return FTH_BROKE("the descriptor was readable %llu times without a request to reap",
				 (unsigned long long)w->spurious);
	return 0;
}

/* ---- a batch, driven by the descriptor ---- */

static void fill_batch(struct waiter *w, enum fth_dev_op op)
{
	uint64_t block = w->conf->info->block;

	memset(w->used, 0, sizeof(w->used));
	w->started = fth_now_ns();
	w->spurious = 0;
	for (unsigned i = 0; i < BATCH; i++) {
		char *buf = w->buf + i * w->stride;

		/* Writes write what is there. */
		memcpy(buf, w->conf->written + i * block, block);
		fth_dev_req_init(&w->reqs[i], op, buf, block, i * block);
	}
}

static int submit_batch(struct waiter *w)
{
	struct fth_dev_req *list[BATCH];
	int n;

	for (unsigned i = 0; i < BATCH; i++)
		list[i] = &w->reqs[i];
	n = fth_dev_submit(w->chan, list, BATCH);
	FTH_CHECK(n);
	FTH_EXPECT(n == BATCH);
	return 0;
}

/* Note what came back, and submit it again until each was used `rounds` times. */
static int take_back(struct waiter *w, struct fth_dev_req *const *done, int n, unsigned rounds)
{
	for (int i = 0; i < n; i++) {
		ptrdiff_t at = done[i] - w->reqs;

		FTH_EXPECT(at >= 0 && at < BATCH && done[i] == &w->reqs[at]);
		if (done[i]->result < 0)
			return fth_fail(-done[i]->result, "%s failed",
					fth_dev_op_name(done[i]->op));
		FTH_EXPECT(++w->used[at] <= rounds);
		if (w->used[at] < rounds)
			FTH_EXPECT(fth_dev_submit(w->chan, &done[i], 1) == 1);
	}
	return 0;
}

/* Sleep for the descriptor, reap without waiting until there is nothing more, sleep again. */
static int drive(struct waiter *w, unsigned max, unsigned rounds)
{
	struct fth_dev_req *done[BATCH];

	while (fth_dev_chan_in_flight(w->chan) > 0) {
		bool any = false;
		int n;

		FTH_CHECK(sleep_for_more(w));
		do {
			n = fth_dev_reap(w->chan, done, max, 0, 0);
			FTH_CHECK(n);
			any = any || n > 0;
			FTH_CHECK(take_back(w, done, n, rounds));
		} while (n == (int)max);
		if (!any)
			FTH_CHECK(check_spurious(w));
	}
	for (unsigned i = 0; i < BATCH; i++)
		FTH_EXPECT(w->used[i] == rounds);
	return expect_quiet(w);
}

/* One request per wake-up: with more to reap, the descriptor has to stay readable. */
static int drive_singly(struct waiter *w)
{
	struct fth_dev_req *done;

	while (fth_dev_chan_in_flight(w->chan) > 0) {
		int n;

		FTH_CHECK(sleep_for_more(w));
		n = fth_dev_reap(w->chan, &done, 1, 0, 0);
		FTH_CHECK(n);
		FTH_CHECK(n > 0 ? take_back(w, &done, n, 1) : check_spurious(w));
	}
	return expect_quiet(w);
}

static int drive_in_every_way(struct waiter *w, enum fth_dev_op op)
{
	static const unsigned most[] = {BATCH, 7};

	for (unsigned i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
		fill_batch(w, op);
		FTH_CHECK(submit_batch(w));
		FTH_CHECK(drive(w, most[i], 1));
	}
	fill_batch(w, op);
	FTH_CHECK(submit_batch(w));
	FTH_CHECK(drive_singly(w));
	fill_batch(w, op);
	FTH_CHECK(submit_batch(w));
	return drive(w, BATCH, ROUNDS);
}

/* ---- the checks ---- */

static int check_descriptor(struct waiter *w)
{
	int flags;

	w->fd = fth_dev_chan_fd(w->chan);
	FTH_CHECK(w->fd);
	FTH_EXPECT(w->fd >= LOWEST_FD);
	FTH_EXPECT(fth_dev_chan_fd(w->chan) == w->fd);
	flags = fcntl(w->fd, F_GETFD);
	FTH_EXPECT(flags >= 0 && flags & FD_CLOEXEC);
	return 0;
}

/* One that waits in reap now and then leaves the descriptor as it should be. */
static int mix_with_reap(struct waiter *w)
{
	struct fth_dev_req *done[BATCH];
	int n;

	fill_batch(w, FTH_DEV_READ);
	FTH_CHECK(submit_batch(w));
	n = fth_dev_reap(w->chan, done, BATCH, BATCH / 2, FTH_NEVER);
	FTH_CHECK(n);
	FTH_CHECK(take_back(w, done, n, 1));
	FTH_CHECK(drive(w, BATCH, 1));
	fill_batch(w, FTH_DEV_READ);
	FTH_CHECK(submit_batch(w));
	n = fth_dev_reap(w->chan, done, BATCH, BATCH, FTH_NEVER);
	FTH_CHECK(n);
	FTH_CHECK(take_back(w, done, n, 1));
	return expect_quiet(w);
}

static int waiting_on(struct waiter *w)
{
	static const enum fth_dev_op ops[] = {FTH_DEV_WRITE, FTH_DEV_READ, FTH_DEV_FLUSH};

	FTH_CHECK(check_descriptor(w));
	FTH_CHECK(expect_quiet(w));
	for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		FTH_CHECK(drive_in_every_way(w, ops[i]));
	return mix_with_reap(w);
}

/* With requests in flight already, and through an epoll set of the caller's. */
static int waiting_late(struct waiter *w)
{
	struct epoll_event event = {.events = EPOLLIN};
	int rc;

	fill_batch(w, FTH_DEV_READ);
	FTH_CHECK(submit_batch(w));
	FTH_CHECK(check_descriptor(w));
	w->set = epoll_create1(EPOLL_CLOEXEC);
	if (w->set < 0 || epoll_ctl(w->set, EPOLL_CTL_ADD, w->fd, &event) < 0)
		rc = fth_fail(errno, "epoll: %s", strerror(errno));
	else
		rc = drive(w, BATCH, 1);
	if (rc == 0)
		rc = drive_in_every_way(w, FTH_DEV_READ);
	if (w->set >= 0)
		close(w->set);
	w->set = -1;
	return rc;
}

/* A channel is closed with its descriptor while requests are in flight. */
static int waiting_to_the_end(struct waiter *w)
{
	FTH_CHECK(check_descriptor(w));
	fill_batch(w, FTH_DEV_READ);
	return submit_batch(w);
}

int fth_conf_waiting(struct fth_conf *conf)
{
	static int (*const parts[])(struct waiter *) = {waiting_on, waiting_late,
							waiting_to_the_end};
	uint64_t align = conf->info->align;
	uint64_t stride = (conf->info->block + align - 1) / align * align;
	struct waiter *w = calloc(1, sizeof(*w));
	char *buf = fth_conf_alloc(conf, BATCH * stride);
	int rc = w && buf ? fth_conf_background(conf, 120) : -ENOMEM;

	for (unsigned i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
		*w = (struct waiter){
			.conf = conf, .fd = -1, .set = -1, .buf = buf, .stride = stride};
		rc = fth_dev_chan_open(conf->dev, BATCH, &w->chan);
		if (rc < 0)
			break;
		rc = parts[i](w);
		fth_dev_chan_close(w->chan);
	}
	free(buf);
	free(w);
	return rc < 0 ? rc : fth_conf_verify(conf);
}
