/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Conformance: random operations, at a random depth and in random batches, against a copy in
 * memory. No two in flight touch the same blocks, since nothing is promised about those; hence
 * the copy says what each read must return.
 */
#include "dev/testkit/conformance_checks.h"

#define SLOTS	   32
#define SLOT_BYTES 65536u
#define PIECES_MAX 5
#define REAP_MAX   8

struct slot {
	struct fth_dev_req req;
	struct iovec iov[PIECES_MAX];
	char *buf;
	bool busy;
};

struct model {
	const struct fth_conf *conf;
	struct fth_dev_chan *chan;
	struct fth_rng rng;
	uint64_t base, length, blocks, slot_bytes;
	unsigned depth, in_flight;
	char *copy; /* what the device holds in [base, base + length) */
	char *any;  /* per block: discarded, so that it may hold anything */
	struct slot slots[SLOTS];
};

/* ---- making requests ---- */

static bool is_free(const struct model *m, uint64_t offset, uint64_t length)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		const struct slot *s = &m->slots[i];

		if (s->busy && s->req.op != FTH_DEV_FLUSH &&
		    offset < s->req.offset + s->req.length && s->req.offset < offset + length)
			return false;
	}
	return true;
}

static enum fth_dev_op random_op(struct model *m)
{
	uint64_t dice = fth_rng_below(&m->rng, 100);

	return dice < 45   ? FTH_DEV_READ
	       : dice < 85 ? FTH_DEV_WRITE
	       : dice < 91 ? FTH_DEV_ZERO
	       : dice < 94 ? FTH_DEV_DISCARD
			   : FTH_DEV_FLUSH;
}

/* Cut the slot's buffer into pieces at block boundaries that suit the alignment as well. */
static void cut(struct model *m, struct slot *s)
{
	uint64_t unit = m->conf->info->block, left = s->req.length;
	unsigned most = (unsigned)fth_conf_min(PIECES_MAX, m->conf->info->max_iov);
	char *at = s->buf;

	while (unit % m->conf->info->align)
		unit *= 2;
	s->req.iov = s->iov;
	s->req.iov_count = 0;
	while (left > 0) {
		uint64_t units = left / unit, n = left;

		if (s->req.iov_count + 1 < most && units > 1)
			n = unit * (1 + fth_rng_below(&m->rng, units - 1));
		s->iov[s->req.iov_count++] = (struct iovec){.iov_base = at, .iov_len = n};
		at += n;
		left -= n;
	}
}

/* Fill a free slot with a random request; false when its blocks are in use. */
static bool prepare(struct model *m, struct slot *s)
{
	uint64_t block = m->conf->info->block,
		 most = fth_conf_min(m->slot_bytes / block, m->blocks);
	/* Mostly small, sometimes as large as can be. */
	uint64_t n = 1 + fth_rng_below(&m->rng, fth_rng_below(&m->rng, 8) ? (most + 7) / 8 : most);
	uint64_t offset = m->base + fth_rng_below(&m->rng, m->blocks - n + 1) * block;
	enum fth_dev_op op = random_op(m);

	if (op != FTH_DEV_FLUSH && !is_free(m, offset, n * block))
		return false;
	fth_dev_req_init(&s->req, op, s->buf, n * block, offset);
	s->req.user = s;
	if (op == FTH_DEV_WRITE)
		fth_conf_fill(s->buf, n * block, fth_rng_next(&m->rng));
	if (op == FTH_DEV_READ)
		memset(s->buf, 0x99, n * block);
	if (op == FTH_DEV_READ || op == FTH_DEV_WRITE)
		cut(m, s);
	s->busy = true;
	return true;
}

static int submit_some(struct model *m, unsigned *budget)
{
	struct fth_dev_req *list[SLOTS];
	unsigned room = m->depth - m->in_flight, n = 0;
	unsigned want = 1 + (unsigned)fth_rng_below(&m->rng, room);
	int rc;

	for (unsigned i = 0; i < SLOTS && n<want && * budget> 0; i++) {
		if (m->slots[i].busy || !prepare(m, &m->slots[i]))
			continue;
		list[n++] = &m->slots[i].req;
		(*budget)--;
	}
	if (n == 0)
		return 0;
	rc = fth_dev_submit(m->chan, list, n);
	FTH_CHECK(rc);
	FTH_EXPECT((unsigned)rc == n);
	m->in_flight += n;
	return 0;
}

/* ---- checking results ---- */

static int check_read(const struct model *m, const struct slot *s)
{
	uint64_t block = m->conf->info->block, at = s->req.offset - m->base;

	for (uint64_t i = 0; i < s->req.length; i += block)
		if (!m->any[(at + i) / block])
			FTH_CHECK(fth_conf_same(m->copy + at + i, s->buf + i, block,
						s->req.offset + i));
	return 0;
}

static int finish(struct model *m, struct slot *s)
{
	uint64_t block = m->conf->info->block, at = s->req.offset - m->base;
	int rc = 0;

	FTH_EXPECT(s >= m->slots && s < m->slots + SLOTS && s->busy);
	if (s->req.result < 0)
		return fth_fail(-s->req.result, "%s of %llu bytes at %llu failed",
				fth_dev_op_name(s->req.op), (unsigned long long)s->req.length,
				(unsigned long long)s->req.offset);
	switch (s->req.op) {
	case FTH_DEV_READ:
		rc = check_read(m, s);
		break;
	case FTH_DEV_WRITE:
		memcpy(m->copy + at, s->buf, s->req.length);
		memset(m->any + at / block, 0, s->req.length / block);
		break;
	case FTH_DEV_ZERO:
		memset(m->copy + at, 0, s->req.length);
		memset(m->any + at / block, 0, s->req.length / block);
		break;
	case FTH_DEV_DISCARD:
		memset(m->any + at / block, 1, s->req.length / block);
		break;
	default:
		break;
	}
	s->busy = false;
	m->in_flight--;
	return rc;
}

static int reap_some(struct model *m, unsigned min)
{
	struct fth_dev_req *done[REAP_MAX];
	int n = fth_dev_reap(m->chan, done, REAP_MAX, min, FTH_NEVER);

	FTH_CHECK(n);
	FTH_EXPECT(n >= (int)min);
	for (int i = 0; i < n; i++)
		FTH_CHECK(finish(m, done[i]->user));
	return 0;
}

/* ---- the run ---- */

static int run(struct model *m, unsigned operations)
{
	while (operations > 0) {
		if (fth_conf_stopped(m->conf))
			return -EINTR;
		/* A new depth now and then, once what is in flight has gone below it. */
		if (fth_rng_below(&m->rng, 50) == 0)
			m->depth = 1 + (unsigned)fth_rng_below(&m->rng, SLOTS);
		if (m->in_flight < m->depth)
			FTH_CHECK(submit_some(m, &operations));
		FTH_EXPECT(fth_dev_chan_in_flight(m->chan) == m->in_flight);
		if (m->in_flight > 0)
			FTH_CHECK(reap_some(m, (unsigned)fth_rng_below(&m->rng, 2)));
		while (m->in_flight >= m->depth)
			FTH_CHECK(reap_some(m, 1));
	}
	while (m->in_flight > 0)
		FTH_CHECK(reap_some(m, 1));
	return 0;
}

/* Both begin with the same contents. What is there may be discarded, and not stay as it reads. */
static int write_all(const struct model *m)
{
	fth_conf_fill(m->copy, m->length, m->rng.state);
	return fth_dev_write(m->conf->dev, m->copy, m->length, m->base, FTH_DEV_TIMEOUT);
}

static int compare_all(const struct model *m)
{
	uint64_t block = m->conf->info->block;
	char *all = fth_conf_alloc(m->conf, m->length);
	int rc = all ? fth_dev_read(m->conf->dev, all, m->length, m->base, FTH_DEV_TIMEOUT)
		     : -ENOMEM;

	for (uint64_t i = 0; rc == 0 && i < m->blocks; i++)
		if (!m->any[i])
			rc = fth_conf_same(m->copy + i * block, all + i * block, block,
					   m->base + i * block);
	free(all);
	return rc;
}

static int allocate(struct model *m)
{
	m->copy = fth_conf_alloc(m->conf, m->length);
	m->any = calloc(m->blocks, 1);
	for (unsigned i = 0; i < SLOTS; i++)
		m->slots[i].buf = fth_conf_alloc(m->conf, m->slot_bytes);
	for (unsigned i = 0; i < SLOTS; i++)
		if (!m->slots[i].buf)
			return -ENOMEM;
	return m->copy && m->any ? 0 : -ENOMEM;
}

static void release(struct model *m)
{
	for (unsigned i = 0; i < SLOTS; i++)
		free(m->slots[i].buf);
	free(m->copy);
	free(m->any);
	free(m);
}

int fth_conf_model(const struct fth_conf *conf, uint64_t base, uint64_t length, unsigned operations,
		   uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));
	uint64_t block = conf->info->block;
	int rc;

	if (!m)
		return -ENOMEM;
	m->conf = conf;
	m->rng.state = seed;
	m->base = base;
	m->length = length;
	m->blocks = length / block;
	m->slot_bytes = fth_conf_min(SLOT_BYTES > 4 * block ? SLOT_BYTES : 4 * block,
				     conf->info->max_length);
	m->depth = SLOTS;
	rc = allocate(m);
	if (rc == 0)
		rc = write_all(m);
	if (rc == 0)
		rc = fth_dev_chan_open(conf->dev, SLOTS, &m->chan);
	if (rc == 0)
		rc = run(m, operations);
	fth_dev_chan_close(m->chan);
	if (rc == 0)
		rc = compare_all(m);
	release(m);
	return rc;
}

int fth_conf_random(struct fth_conf *conf)
{
	return fth_conf_model(conf, 0, conf->region, conf->options.operations, conf->options.seed);
}
