/* SPDX-License-Identifier: BSD-2-Clause */
/* What alternating runs of two sides measured. */
#ifndef FTH_BENCH_ROUNDS_H
#define FTH_BENCH_ROUNDS_H

#include "json.h"
#include "median.h"

/* Zero-initialise. */
struct fth_rounds {
	double ours[FTH_ROUNDS_MAX], peer[FTH_ROUNDS_MAX]; /* larger is better */
	unsigned n;
};

/* A round of both sides; those beyond FTH_ROUNDS_MAX are left out. */
void fth_rounds_add(struct fth_rounds *rounds, double ours, double peer);

/* Medians; 0 without rounds. */
double fth_rounds_ours(const struct fth_rounds *rounds);
double fth_rounds_peer(const struct fth_rounds *rounds);
/* The medians' ratio. */
double fth_rounds_ratio(const struct fth_rounds *rounds);

/* Members of an open object: the medians and their ratio, and every run. */
void fth_rounds_members(struct fth_json *j, const struct fth_rounds *rounds);

/* An object of them. */
void fth_rounds_json(struct fth_json *j, const char *key, const struct fth_rounds *rounds);

#endif
