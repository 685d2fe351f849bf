/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device with the latency and the rate of a slower one, around any other device; and the
 * published figures of real drives to give it.
 *
 *	delay(URI)?OPTIONS
 *
 *	model=NAME			the figures of a drive, see fth_dev_models()
 *	read_us=T write_us=T flush_us=T	latency; the model's, else 0. Fractions are allowed
 *	read_iops=N write_iops=N	rate of requests up to 4 KiB; larger ones take as much of it
 *					as their bytes do. 0: no cap
 *	jitter=J			each latency is longer by a random share in [0, J)
 *	tail_p=P tail_us=T		with probability P it is longer by T on top
 *	seed=S				of the random numbers
 *
 * Any other URI may say ?model=NAME as well: file:/data/a?model=p5800x is
 * delay(file:/data/a)?model=p5800x.
 *
 * A request comes back when the device inside has done it and, counted from its submission, its
 * turn in the rate and then its latency have passed. Reads and writes each have their own rate,
 * shared by all channels. Discards and zeroes have the latency of a write and no rate; a flush
 * has its own latency. The wait is that of reap: it sleeps, and spins for the last 50 us.
 *
 * A busy machine, or a device inside that is slower than the model, makes a request later than
 * the figures say. Nothing makes it earlier.
 */
#ifndef FATHOM_DEV_DELAY_H
#define FATHOM_DEV_DELAY_H

#include "fathom/base/decls.h"
#include "fathom/dev.h"

FTH_BEGIN_DECLS

/* How fast one kind of request is; 0: at once, without a cap. */
struct fth_dev_speed {
	uint64_t latency_ns; /* of a single request, nothing else going on */
	uint64_t iops_512;   /* requests of 512 bytes a second, */
	uint64_t iops_4k;    /* and of 4096 bytes */
};

struct fth_dev_model {
	const char *name;
	const char *drive;
	const char *source; /* where the figures are published */
	struct fth_dev_speed read, write;
	uint64_t flush_ns;
};

/* All models, ended by one whose name is NULL. */
const struct fth_dev_model *fth_dev_models(void);

/* One model, or NULL. */
const struct fth_dev_model *fth_dev_model(const char *name);

/*
 * How much of a second one request of `length` bytes takes from the rate, in units of 1/16 ns:
 * between 512 and 4096 bytes on the straight line between the two figures, below that as 512
 * bytes, above as many times 4096 bytes as it is long. 0 without a cap.
 */
uint64_t fth_dev_speed_cost(const struct fth_dev_speed *speed, uint64_t length);
#define FTH_DEV_COST_PER_NS 16u

/* ---- byte-addressable windows ---- */

/*
 * What loads and stores into the window of a byte-addressable SSD cost, and moving a page out of
 * it. Not a device: data for whoever emulates such a window.
 */
struct fth_dev_window_model {
	const char *name;
	const char *source;
	uint32_t line_bytes; /* what one load or store moves at most */
	uint32_t page_bytes;
	uint64_t line_read_ns;
	uint64_t line_write_ns; /* posted: done when it is in the write buffer */
	uint64_t promote_page_ns;
	uint64_t pte_update_ns; /* page table entry and TLB, after a page has moved */
	uint64_t table_walk_ns; /* to find where a page is */
};

/* The window of a drive by name ("flatflash"), or NULL. */
const struct fth_dev_window_model *fth_dev_window_model(const char *name);

FTH_END_DECLS
#endif
