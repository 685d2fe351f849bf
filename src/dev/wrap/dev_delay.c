/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * delay(URI): makes a device as slow as a model or the options say (delay_models.c has the
 * models). A request goes inside at once; when it is due is settled at that moment, and it is
 * held from its completion until then.
 *
 * The rate is a clock of its own per kind: `next_free` is the time at which all requests so far
 * have had their turn. A new one starts there, or now if that is later, and moves it by its cost.
 */
#include "dev/wrap/dev_wrap.h"
#include "dev/schemes.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/dev/delay.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LATENCY_MAX_US 3.6e9 /* an hour */
#define IOPS_MAX       1000000000u
#define JITTER_MAX     1000.0

struct settings {
	struct fth_dev_speed read, write;
	uint64_t flush_ns;
	double jitter, tail_p;
	uint64_t tail_ns;
	uint64_t seed;
};

struct dev_delay {
	struct fth_wrap_dev wrap;
	struct settings settings;
	uint64_t drawn;	    /* random numbers so far */
	uint64_t read_free; /* next_free, in FTH_DEV_COST_PER_NS: 36 years until it wraps */
	uint64_t write_free;
};

/* ---- when a request is due ---- */

/* Take a turn of `cost` and return when it starts, in ns. */
static uint64_t take_turn(uint64_t *next_free, uint64_t cost, uint64_t now)
{
	uint64_t at = now * FTH_DEV_COST_PER_NS;
	uint64_t old, start;

	if (cost == 0)
		return now;
	old = fth_load_relaxed_dev64(next_free);
	/* The clock orders only itself: what acqrel stops beyond that is not needed. */
	do
		start = old > at ? old : at;
	while (!fth_cas_acqrel_dev64(next_free, &old, start + cost));
	return (start + FTH_DEV_COST_PER_NS - 1) / FTH_DEV_COST_PER_NS;
}

static uint64_t lengthened(struct dev_delay *delay, uint64_t latency)
{
	const struct settings *s = &delay->settings;
	struct fth_rng rng;

	if (s->jitter == 0 && s->tail_p == 0)
		return latency;
	/* relaxed: a number of its own for each request is all that is asked for. */
	rng.state = fth_mix64(s->seed) ^ fth_mix64(fth_add_relaxed_dev64(&delay->drawn, 1));
	latency += (uint64_t)((double)latency * s->jitter * fth_rng_unit(&rng));
	if (fth_rng_unit(&rng) < s->tail_p)
		latency += s->tail_ns;
	return latency;
}

static uint64_t due_time(struct dev_delay *delay, const struct fth_dev_req *req, uint64_t now)
{
	const struct settings *s = &delay->settings;
	uint64_t start = now, latency = s->write.latency_ns;

	switch (req->op) {
	case FTH_DEV_READ:
		start = take_turn(&delay->read_free, fth_dev_speed_cost(&s->read, req->length),
				  now);
		latency = s->read.latency_ns;
		break;
	case FTH_DEV_WRITE:
		start = take_turn(&delay->write_free, fth_dev_speed_cost(&s->write, req->length),
				  now);
		break;
	case FTH_DEV_FLUSH:
		latency = s->flush_ns;
		break;
	case FTH_DEV_DISCARD:
	case FTH_DEV_ZERO:
	case FTH_DEV_OP_COUNT:
		break;
	}
	return start + lengthened(delay, latency);
}

/* ---- the device ---- */

static void delay_inner_done(struct fth_wrap_chan *chan, struct fth_dev_req *req)
{
	uint64_t due = FTH_WRAP_NOW;

	(void)fth_wrap_untag(chan, req, &due);
	fth_wrap_hold(chan, req, due);
}

static int delay_submit(struct fth_dev_chan *base, struct fth_dev_req *const *reqs, unsigned n)
{
	struct fth_wrap_chan *chan = (struct fth_wrap_chan *)base;
	uint64_t now = fth_now_ns();

	for (unsigned i = 0; i < n; i++)
		fth_wrap_tag(chan, reqs[i], due_time((struct dev_delay *)base->dev, reqs[i], now));
	fth_wrap_pass(chan, reqs, n);
	return (int)n;
}

static int delay_chan_open(struct fth_dev *dev, unsigned depth, struct fth_dev_chan **out)
{
	return fth_wrap_chan_new(dev, depth, delay_inner_done, out);
}

static void delay_close(struct fth_dev *dev)
{
	fth_dev_close(((struct fth_wrap_dev *)dev)->inner);
	free(dev);
}

static const struct fth_dev_ops delay_ops = {
	.close = delay_close,
	.chan_open = delay_chan_open,
	.chan_close = fth_wrap_chan_close,
	.submit = delay_submit,
	.reap = fth_wrap_reap,
	.chan_fd = fth_wrap_chan_fd,
	.chan_prepare = fth_wrap_chan_prepare,
	.map = fth_wrap_map,
	.unmap = fth_wrap_unmap,
	.window_open = fth_wrap_window_open,
};

static int delay_new(const struct settings *settings, struct fth_dev *inner, struct fth_dev **out)
{
	struct dev_delay *delay = calloc(1, sizeof(*delay));

	if (!delay)
		return -ENOMEM;
	delay->settings = *settings;
	delay->wrap.inner = inner;
	delay->wrap.dev.ops = &delay_ops;
	delay->wrap.dev.info = *fth_dev_info(inner);
	*out = &delay->wrap.dev;
	return 0;
}

/* ---- settings ---- */

static int from_model(const char *name, struct settings *s)
{
	const struct fth_dev_model *model = fth_dev_model(name);

	if (!model)
		return fth_fail(EINVAL, "unknown device model \"%s\"", name);
	s->read = model->read;
	s->write = model->write;
	s->flush_ns = model->flush_ns;
	return 0;
}

static int take_us(struct fth_uri *uri, const char *key, uint64_t *ns)
{
	double us;
	int rc = fth_uri_take_double(uri, key, 0, LATENCY_MAX_US, &us);

	if (rc > 0)
		*ns = (uint64_t)(us * 1000 + 0.5);
	return rc;
}

static int take_iops(struct fth_uri *uri, const char *key, struct fth_dev_speed *speed)
{
	int rc = fth_uri_take_u64(uri, key, 0, IOPS_MAX, &speed->iops_4k);

	if (rc > 0)
		speed->iops_512 = speed->iops_4k;
	return rc;
}

static int parse_settings(struct fth_uri *uri, struct settings *s)
{
	const char *model;
	int rc = 0;

	if (fth_uri_take_string(uri, "model", &model))
		rc = from_model(model, s);
	if (rc < 0 || (rc = take_us(uri, "read_us", &s->read.latency_ns)) < 0 ||
	    (rc = take_us(uri, "write_us", &s->write.latency_ns)) < 0 ||
	    (rc = take_us(uri, "flush_us", &s->flush_ns)) < 0 ||
	    (rc = take_iops(uri, "read_iops", &s->read)) < 0 ||
	    (rc = take_iops(uri, "write_iops", &s->write)) < 0 ||
	    (rc = fth_uri_take_double(uri, "jitter", 0, JITTER_MAX, &s->jitter)) < 0 ||
	    (rc = fth_uri_take_double(uri, "tail_p", 0, 1, &s->tail_p)) < 0 ||
	    (rc = take_us(uri, "tail_us", &s->tail_ns)) < 0 ||
	    (rc = fth_uri_take_u64(uri, "seed", 0, UINT64_MAX, &s->seed)) < 0)
		return rc;
	return fth_uri_finish(uri);
}

static int delay_open(struct fth_uri *uri, struct fth_dev *inner, struct fth_dev **out)
{
	struct settings settings = {0};
	int rc = parse_settings(uri, &settings);

	return rc < 0 ? rc : delay_new(&settings, inner, out);
}

int fth_dev_delay_wrap(struct fth_dev *inner, const char *model, struct fth_dev **out)
{
	struct settings settings = {0};
	int rc = from_model(model, &settings);

	return rc < 0 ? rc : delay_new(&settings, inner, out);
}

const struct fth_dev_scheme fth_dev_scheme_delay = {
	.name = "delay", .wrapper = true, .open = delay_open};
