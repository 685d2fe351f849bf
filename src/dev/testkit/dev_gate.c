/* SPDX-License-Identifier: BSD-2-Clause */
#include "dev/testkit/dev_gate.h"

#include "dev/wake.h"

#include "fathom/hd/wait.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_NS 200000000000u

struct dev_gate {
	struct fth_dev dev;
	char *bytes;
	pthread_mutex_t lock; /* guards all below, and bytes */
	pthread_cond_t changed;
	bool open;
	struct chan_gate *chans; /* all of them */
	unsigned limit, refuse;
	int error; /* of the next reap */
	struct fth_gate_counts counts;
};

struct chan_gate {
	struct fth_dev_chan chan;
	struct chan_gate *next;
	struct fth_wake wake; /* under the lock: whoever opens the gate sets it too */
	unsigned count;
	struct fth_dev_req *reqs[];
};

static bool gate_wait_locked(struct dev_gate *gate, uint64_t until)
{
	struct timespec ts = {.tv_sec = (time_t)(until / 1000000000u),
			      .tv_nsec = (long)(until % 1000000000u)};

	if (until == FTH_NEVER)
		return pthread_cond_wait(&gate->changed, &gate->lock) == 0;
	return pthread_cond_timedwait(&gate->changed, &gate->lock, &ts) == 0;
}

/* ---- the device ---- */

/* Its descriptor is readable while there is something to reap. Under the lock. */
static void gate_wake(const struct dev_gate *gate, struct chan_gate *chan)
{
	fth_wake_set(&chan->wake, chan->count > 0 && gate->open);
}

static int gate_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	struct dev_gate *gate = (struct dev_gate *)dev;
	struct chan_gate *chan = calloc(1, sizeof(*chan) + depth * sizeof(chan->reqs[0]));
	bool room;

	if (!chan)
		return -ENOMEM;
	pthread_mutex_lock(&gate->lock);
	room = gate->counts.channels < gate->limit;
	if (room && ++gate->counts.channels > gate->counts.channels_max)
		gate->counts.channels_max = gate->counts.channels;
	if (room) {
		chan->wake = (struct fth_wake)FTH_WAKE_NONE;
		chan->next = gate->chans;
		gate->chans = chan;
	}
	pthread_mutex_unlock(&gate->lock);
	if (!room) {
		free(chan);
		return -EMFILE;
	}
	*out = &chan->chan;
	return 0;
}

static void gate_chan_close(struct fth_dev_chan *chan)
{
	struct dev_gate *gate = (struct dev_gate *)chan->dev;

	pthread_mutex_lock(&gate->lock);
	gate->counts.channels--;
	for (struct chan_gate **link = &gate->chans; *link; link = &(*link)->next)
		if (&(*link)->chan == chan) {
			*link = (*link)->next;
			break;
		}
	pthread_mutex_unlock(&gate->lock);
	fth_wake_close(&((struct chan_gate *)chan)->wake);
	free(chan);
}

static int gate_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct dev_gate *gate = (struct dev_gate *)base->dev;
	struct chan_gate *chan = (struct chan_gate *)base;
	int rc = (int)n;

	pthread_mutex_lock(&gate->lock);
	if (gate->refuse > 0) {
		gate->refuse--;
		rc = -EAGAIN;
	}
	for (int i = 0; i < rc; i++) {
		chan->reqs[chan->count++] = reqs[i];
		gate->counts.submitted++;
		gate->counts.in_flight++;
		if (reqs[i]->length > gate->counts.longest)
			gate->counts.longest = reqs[i]->length;
	}
	gate_wake(gate, chan);
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
	return rc;
}

static void execute(struct dev_gate *gate, struct fth_dev_req *req)
{
	char *at = gate->bytes + req->offset;

	if (req->op == FTH_DEV_READ)
		fth_dev_req_scatter(req, at);
	else if (req->op == FTH_DEV_WRITE)
		fth_dev_req_gather(req, at);
	else if (req->op == FTH_DEV_ZERO)
		memset(at, 0, req->length);
	req->result = 0;
}

static int gate_reap(struct fth_dev_chan *base, struct fth_dev_req **done, unsigned max,
		     unsigned min, uint64_t deadline)
{
	struct dev_gate *gate = (struct dev_gate *)base->dev;
	struct chan_gate *chan = (struct chan_gate *)base;
	unsigned n = 0;
	int rc;

	pthread_mutex_lock(&gate->lock);
	while (!gate->open && min > 0 && fth_now_ns() < deadline)
		(void)gate_wait_locked(gate, deadline);
	rc = gate->error;
	gate->error = 0;
	while (rc == 0 && gate->open && n < max && chan->count > 0) {
		done[n] = chan->reqs[--chan->count];
		execute(gate, done[n++]);
	}
	gate->counts.in_flight -= n;
	gate_wake(gate, chan);
	pthread_mutex_unlock(&gate->lock);
	return rc < 0 ? rc : (int)n;
}

static int gate_chan_fd(struct fth_dev_chan *base)
{
	struct dev_gate *gate = (struct dev_gate *)base->dev;
	struct chan_gate *chan = (struct chan_gate *)base;
	int fd;

	pthread_mutex_lock(&gate->lock);
	fd = fth_wake_open(&chan->wake);
	gate_wake(gate, chan);
	pthread_mutex_unlock(&gate->lock);
	return fd;
}

static void gate_close(struct fth_dev *dev)
{
	struct dev_gate *gate = (struct dev_gate *)dev;

	pthread_cond_destroy(&gate->changed);
	pthread_mutex_destroy(&gate->lock);
	free(gate->bytes);
	free(gate);
}

static const struct fth_dev_ops gate_ops = {
	.close = gate_close,
	.chan_open = gate_chan_open,
	.chan_close = gate_chan_close,
	.submit = gate_submit,
	.reap = gate_reap,
	.chan_fd = gate_chan_fd,
};

static int gate_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct dev_gate *gate;
	pthread_condattr_t attr;
	uint64_t size;

	(void)inner;
	if (fth_parse_size(uri->path, &size) < 0)
		return -EINVAL;
	gate = calloc(1, sizeof(*gate));
	if (gate)
		gate->bytes = calloc(1, size);
	if (!gate || !gate->bytes) {
		free(gate);
		return -ENOMEM;
	}
	pthread_mutex_init(&gate->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&gate->changed, &attr);
	pthread_condattr_destroy(&attr);
	gate->open = true;
	gate->limit = UINT_MAX;
	gate->dev.ops = &gate_ops;
	gate->dev.info = (struct fth_dev_info){
		.size = size, .block = 512, .align = 1, .max_iov = 16, .max_length = 16u << 20};
	*out = &gate->dev;
	return 0;
}

const struct fth_dev_scheme fth_dev_scheme_gate = {.name = "gate", .open = gate_open};

/* ---- control ---- */

void fth_gate_set(struct fth_dev *dev, bool open)
{
	struct dev_gate *gate = (struct dev_gate *)dev;

	pthread_mutex_lock(&gate->lock);
	gate->open = open;
	for (struct chan_gate *chan = gate->chans; chan; chan = chan->next)
		gate_wake(gate, chan);
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->lock);
}

void fth_gate_counts(struct fth_dev *dev, struct fth_gate_counts *counts)
{
	struct dev_gate *gate = (struct dev_gate *)dev;

	pthread_mutex_lock(&gate->lock);
	*counts = gate->counts;
	pthread_mutex_unlock(&gate->lock);
}

bool fth_gate_wait(struct fth_dev *dev, unsigned n)
{
	struct dev_gate *gate = (struct dev_gate *)dev;
	uint64_t until = fth_deadline_ns(WAIT_NS);
	bool there;

	pthread_mutex_lock(&gate->lock);
	while (gate->counts.in_flight < n && gate_wait_locked(gate, until))
		;
	there = gate->counts.in_flight >= n;
	pthread_mutex_unlock(&gate->lock);
	return there;
}

void fth_gate_limit(struct fth_dev *dev, unsigned n)
{
	struct dev_gate *gate = (struct dev_gate *)dev;

	pthread_mutex_lock(&gate->lock);
	gate->limit = n;
	pthread_mutex_unlock(&gate->lock);
}

void fth_gate_break(struct fth_dev *dev, int error)
{
	struct dev_gate *gate = (struct dev_gate *)dev;

	pthread_mutex_lock(&gate->lock);
	gate->error = error;
	pthread_mutex_unlock(&gate->lock);
}

void fth_gate_refuse(struct fth_dev *dev, unsigned n)
{
	struct dev_gate *gate = (struct dev_gate *)dev;

	pthread_mutex_lock(&gate->lock);
	gate->refuse = n;
	pthread_mutex_unlock(&gate->lock);
}
