/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A wrapper that gives any device the latency and rate of a slower one, and the published figures
 * of real drives.
 *
 *	delay(URI)?OPTIONS
 *
 *	model=NAME			the figures of a drive, see fth_dev_models()
 *	read_us=T write_us=T flush_us=T	latency; default the model's, else 0. May be fractional
 *	read_iops=N write_iops=N	maximum rate of requests up to 4 KiB; larger ones count by
 *					their bytes. 0: no limit
 *	jitter=J			adds a random share in [0, J) to each latency
 *	tail_p=P tail_us=T		adds T to a latency with probability P
 *	seed=S				seed of the random numbers
 *
 * The option model=NAME works on every other URI too: file:/data/a?model=p5800x is
 * delay(file:/data/a)?model=p5800x.
 *
 * A request completes when the device inside has completed it and its delay has passed. The delay
 * begins at submission and is the wait for its turn, if a rate is set, plus the latency. Reads and
 * writes have separate rates, shared by all channels. Discards and zeroes have the latency of a
 * write and no rate limit; a flush has its own latency. reap sleeps, and spins for the last 50 us.
 *
 * On a busy machine, or if the device inside is slower than the model, requests take longer than
 * the figures say, but never less.
 */
#ifndef FATHOM_DEV_DELAY_H
#define FATHOM_DEV_DELAY_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

/* Speed of one kind of request; 0: no latency, no limit. */
struct fth_dev_speed {
	uint64_t latency_ns; /* of a single request on an idle device */
	uint64_t iops_512;   /* requests of 512 bytes a second, */
	uint64_t iops_4k;    /* and of 4096 bytes */
};

struct fth_dev_model {
	const char *name;
	const char *drive;
	const char *source; /* publication of the figures */
	struct fth_dev_speed read, write;
	uint64_t flush_ns;
};

/* All models; the last entry has the name NULL. */
const struct fth_dev_model *fth_dev_models(void);

/* The model of this name, or NULL. */
const struct fth_dev_model *fth_dev_model(const char *name);

/*
 * The time that one request of `length` bytes uses up of the rate, in units of 1/16 ns. Linear
 * between the two figures from 512 to 4096 bytes; shorter requests count as 512 bytes, longer ones
 * in proportion to their length. 0 without a limit.
 */
uint64_t fth_dev_speed_cost(const struct fth_dev_speed *speed, uint64_t length);
#define FTH_DEV_COST_PER_NS 16u

/* ---- byte-addressable windows ---- */

/*
 * Costs of loads and stores in the window of a byte-addressable SSD, and of moving a page out of
 * it. This is data for emulations of such windows, not a device.
 */
struct fth_dev_window_model {
	const char *name;
	const char *source;
	uint32_t line_bytes; /* maximum of one load or store */
	uint32_t page_bytes;
	uint64_t line_read_ns;
	uint64_t line_write_ns; /* posted: until the store is in the write buffer */
	uint64_t promote_page_ns;
	uint64_t pte_update_ns; /* page table entry and TLB, after a page has moved */
	uint64_t table_walk_ns; /* to find where a page is */
};

/* The window of a drive by name ("flatflash"), or NULL. */
const struct fth_dev_window_model *fth_dev_window_model(const char *name);

FTH_END_DECLS
#endif
