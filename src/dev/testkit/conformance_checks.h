/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the conformance suite share. */
#ifndef FTH_DEV_CONFORMANCE_CHECKS_H
#define FTH_DEV_CONFORMANCE_CHECKS_H

#include "dev/testkit/dev_conformance.h"

#include "fathom/base/error.h"
#include "fathom/base/rng.h"
#include "fathom/hd/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fth_conf {
	struct fth_dev *dev;
	const struct fth_dev_info *info;
	struct fth_conformance_options options;
	uint64_t region;     /* bytes of the device that are used: whole blocks */
	char *written, *got; /* a buffer of `region` bytes each, aligned for the device */
};

/* A broken promise. */
#define FTH_BROKE(...) fth_fail(EPROTO, __VA_ARGS__)
/* Return an error to the caller of the check. */
#define FTH_CHECK(call)             \
	do {                        \
		int rc_ = (call);   \
		if (rc_ < 0)        \
			return rc_; \
	} while (0)
#define FTH_EXPECT(condition)                                                             \
	do {                                                                              \
		if (!(condition))                                                         \
			return FTH_BROKE("%s, line %d: not true: %s", __func__, __LINE__, \
					 #condition);                                     \
	} while (0)

/* Memory aligned for the device's requests; free() ends it. */
void *fth_conf_alloc(const struct fth_conf *conf, uint64_t length);
/* Fill with bytes that depend on tag alone. */
void fth_conf_fill(void *buf, uint64_t length, uint64_t tag);
/* -EPROTO with the first difference, when there is one; offset is where on the device. */
int fth_conf_same(const void *want, const void *got, uint64_t length, uint64_t offset);
uint64_t fth_conf_min(uint64_t a, uint64_t b);

/* One request on a channel that has nothing in flight: submit, wait, its result. */
int fth_conf_one(struct fth_dev_chan *chan, struct fth_dev_req *req);
/* The same with a single buffer. */
int fth_conf_do(struct fth_dev_chan *chan, enum fth_dev_op op, void *buf, uint64_t length,
		uint64_t offset);
/* Whether the caller of the suite wants it to end. */
bool fth_conf_stopped(const struct fth_conf *conf);
/* Write a pattern over the whole region, and keep it in conf->written. */
int fth_conf_background(const struct fth_conf *conf, uint64_t tag);
/* Whether the whole region holds what conf->written does. */
int fth_conf_verify(const struct fth_conf *conf);

/* Random operations on [base, base + length) against a copy in memory; any thread. */
int fth_conf_model(const struct fth_conf *conf, uint64_t base, uint64_t length, unsigned operations,
		   uint64_t seed);

/* ---- the checks ---- */

int fth_conf_info(struct fth_conf *conf);
int fth_conf_sizes(struct fth_conf *conf);
int fth_conf_pieces(struct fth_conf *conf);
int fth_conf_refusals(struct fth_conf *conf);
int fth_conf_flush(struct fth_conf *conf);
int fth_conf_zero(struct fth_conf *conf);
int fth_conf_discard(struct fth_conf *conf);
int fth_conf_blocking(struct fth_conf *conf);
int fth_conf_statistics(struct fth_conf *conf);
int fth_conf_mapped(struct fth_conf *conf);

int fth_conf_batches(struct fth_conf *conf);
int fth_conf_depth(struct fth_conf *conf);
int fth_conf_deadlines(struct fth_conf *conf);
int fth_conf_closing(struct fth_conf *conf);
int fth_conf_waiting(struct fth_conf *conf);
int fth_conf_threads(struct fth_conf *conf);
int fth_conf_blocking_threads(struct fth_conf *conf);

int fth_conf_random(struct fth_conf *conf);

#endif
