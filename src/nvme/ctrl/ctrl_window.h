/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The windows of the software controller.
 *
 *	ctrl_window.c	registers, the CMB, making and freeing
 *	pmr.c		the persistent memory region: what survives
 */
#ifndef FTH_SRC_NVME_CTRL_WINDOW_H
#define FTH_SRC_NVME_CTRL_WINDOW_H

#include "nvme/ctrl.h"
#include "fathom/detail/nvme/spec.h"

#include <pthread.h>

/* The persistent memory region; its invariants are in ctrl/pmr.c. */
struct ctrl_pmr {
	uint64_t size; /* 0: there is none */
	uint64_t step; /* what is compared and written as a whole: a line, or a block of dev */
	char *memory;  /* what the host loads from and stores into, at any time */
	struct fth_dev *dev;

	pthread_mutex_t lock; /* guards what follows */
	char *durable;
	bool enabled;
	bool unflushed; /* dev was written and not flushed since */
	uint8_t error;	/* PMRSTS.ERR */
	uint8_t health; /* PMRSTS.HSTS */
};

struct ctrl_window {
	struct ctrl_pmr pmr;
	char *cmb;
	uint64_t cmb_size;
	uint64_t cmb_garbage;
	uint32_t cmbmsc[2]; /* words, atomic: only stored and shown */
};

/* ctrl/ctrl_window.c. Zeroed memory becomes a window; close accepts one that open has failed on. */
int fth_ctrl_window_open(struct ctrl_window *window, const struct fth_nvme_ctrl_options *opts);
void fth_ctrl_window_close(struct ctrl_window *window);
uint64_t fth_ctrl_window_cap(const struct ctrl_window *window);
/* Whether a register, at a multiple of 4, is one of ours; and access to it. Any thread. */
bool fth_ctrl_window_has(uint32_t offset);
uint32_t fth_ctrl_window_read(struct ctrl_window *window, uint32_t offset);
void fth_ctrl_window_write(struct ctrl_window *window, uint32_t offset, uint32_t value);
/* The controller was reset. */
void fth_ctrl_window_reset(struct ctrl_window *window);

/* ctrl/pmr.c. Any thread; they wait for the device that keeps the region. */
int fth_ctrl_pmr_open(struct ctrl_pmr *pmr, const struct fth_nvme_ctrl_options *opts);
void fth_ctrl_pmr_close(struct ctrl_pmr *pmr);
void fth_ctrl_pmr_enable(struct ctrl_pmr *pmr, bool enable);
bool fth_ctrl_pmr_enabled(struct ctrl_pmr *pmr);
uint32_t fth_ctrl_pmr_barrier(struct ctrl_pmr *pmr, uint64_t offset, uint64_t len,
			      uint64_t deadline);
/* A barrier for all of it, if it is enabled. False if stores may be lost. */
bool fth_ctrl_pmr_shutdown(struct ctrl_pmr *pmr);

/* Page-aligned zeroed memory, or NULL; length > 0. */
void *fth_ctrl_window_memory(uint64_t size);

#endif
