/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs the checks, and what they all use. */
#include "dev/testkit/conformance_checks.h"

#define BUFFER_ALIGN 4096

static const struct {
	const char *name;
	int (*check)(struct fth_conf *conf);
} checks[] = {
	{"info", fth_conf_info},
	{"sizes", fth_conf_sizes},
	{"pieces", fth_conf_pieces},
	{"refusals", fth_conf_refusals},
	{"flush", fth_conf_flush},
	{"zero", fth_conf_zero},
	{"discard", fth_conf_discard},
	{"blocking calls", fth_conf_blocking},
	{"statistics", fth_conf_statistics},
	{"mapped memory", fth_conf_mapped},
	{"batches", fth_conf_batches},
	{"depth", fth_conf_depth},
	{"deadlines", fth_conf_deadlines},
	{"closing", fth_conf_closing},
	{"waiting", fth_conf_waiting},
	{"random operations", fth_conf_random},
	{"threads", fth_conf_threads},
	{"blocking calls of threads", fth_conf_blocking_threads},
};

uint64_t fth_conf_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void *fth_conf_alloc(const struct fth_conf *conf, uint64_t length)
{
	size_t align = conf->info->align > BUFFER_ALIGN ? conf->info->align : BUFFER_ALIGN;
	void *buf;

	if (posix_memalign(&buf, align, length) != 0)
		return NULL;
	memset(buf, 0x5a, length);
	return buf;
}

void fth_conf_fill(void *buf, uint64_t length, uint64_t tag)
{
	struct fth_rng rng = {tag};
	char *at = buf;

	while (length > 0) {
		uint64_t word = fth_rng_next(&rng), n = fth_conf_min(length, sizeof(word));

		memcpy(at, &word, n);
		at += n;
		length -= n;
	}
}

int fth_conf_same(const void *want, const void *got, uint64_t length, uint64_t offset)
{
	const unsigned char *w = want, *g = got;
	uint64_t i = 0;

	if (memcmp(want, got, length) == 0)
		return 0;
	while (w[i] == g[i])
		i++;
	return FTH_BROKE("byte %llu of the device is %02x, expected %02x (%llu bytes at %llu)",
			 (unsigned long long)(offset + i), g[i], w[i], (unsigned long long)length,
			 (unsigned long long)offset);
}

int fth_conf_one(struct fth_dev_chan *chan, struct fth_dev_req *req)
{
	struct fth_dev_req *done = NULL;
	int rc;

	req->result = 1; /* no result of an operation */
	rc = fth_dev_submit(chan, &req, 1);
	if (rc < 0)
		return rc;
	FTH_EXPECT(rc == 1);
	FTH_CHECK(rc = fth_dev_reap(chan, &done, 1, 1, FTH_NEVER));
	FTH_EXPECT(rc == 1 && done == req);
	FTH_EXPECT(req->result <= 0);
	if (req->result < 0)
		return fth_fail(-req->result, "%s of %llu bytes at %llu: %s",
				fth_dev_op_name(req->op), (unsigned long long)req->length,
				(unsigned long long)req->offset, strerror(-req->result));
	return 0;
}

int fth_conf_do(struct fth_dev_chan *chan, enum fth_dev_op op, void *buf, uint64_t length,
		uint64_t offset)
{
	struct fth_dev_req req;

	fth_dev_req_init(&req, op, buf, length, offset);
	return fth_conf_one(chan, &req);
}

bool fth_conf_stopped(const struct fth_conf *conf)
{
	return conf->options.stopped && conf->options.stopped();
}

int fth_conf_background(const struct fth_conf *conf, uint64_t tag)
{
	fth_conf_fill(conf->written, conf->region, tag);
	return fth_dev_write(conf->dev, conf->written, conf->region, 0, FTH_DEV_TIMEOUT);
}

int fth_conf_verify(const struct fth_conf *conf)
{
	memset(conf->got, 0x77, conf->region);
	FTH_CHECK(fth_dev_read(conf->dev, conf->got, conf->region, 0, FTH_DEV_TIMEOUT));
	return fth_conf_same(conf->written, conf->got, conf->region, 0);
}

static int run_checks(struct fth_conf *conf)
{
	for (unsigned i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		int rc = fth_conf_stopped(conf) ? -EINTR : checks[i].check(conf);

		if (rc < 0)
			return fth_fail_in(rc, checks[i].name);
	}
	return 0;
}

static int run(struct fth_conf *conf)
{
	int rc = -ENOMEM;

	conf->info = fth_dev_info(conf->dev);
	if (conf->info->block == 0)
		return FTH_BROKE("info: blocks of 0 bytes");
	conf->region = fth_conf_min(conf->info->size, conf->options.bytes);
	conf->region -= conf->region % conf->info->block;
	if (conf->region / conf->info->block < 64)
		return fth_fail(EINVAL, "info: %llu blocks, the check needs at least 64",
				(unsigned long long)(conf->region / conf->info->block));
	conf->written = fth_conf_alloc(conf, conf->region);
	conf->got = fth_conf_alloc(conf, conf->region);
	if (conf->written && conf->got)
		rc = run_checks(conf);
	free(conf->written);
	free(conf->got);
	return rc;
}

int fth_dev_conformance(const char *uri, const struct fth_conformance_options *options)
{
	struct fth_conf conf = {.options = FTH_CONFORMANCE_DEFAULTS};
	int rc;

	if (options)
		conf.options = *options;
	rc = fth_dev_open(uri, &conf.dev);
	if (rc < 0)
		return fth_fail_in(rc, "open");
	rc = run(&conf);
	fth_dev_close(conf.dev);
	return rc;
}
