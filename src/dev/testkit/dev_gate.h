/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device for tests that does not answer while its gate is closed: gate:SIZE, memory in blocks of
 * 512 bytes. Register fth_dev_scheme_gate to use it. A request is executed when it is handed back,
 * so that a write that was submitted through a closed gate reaches the medium when it is opened.
 * Descriptors of channels follow submit and reap only, not the gate.
 */
#ifndef FTH_DEV_GATE_H
#define FTH_DEV_GATE_H

#include "fathom/dev/driver.h"

extern const struct fth_dev_scheme fth_dev_scheme_gate;

struct fth_gate_counts {
	unsigned submitted; /* requests since the device was opened */
	unsigned in_flight;
	unsigned channels;     /* open now */
	unsigned channels_max; /* open at the same time */
	uint64_t longest;      /* request, in bytes */
};

/* All below: any thread. The gate of a new device is open. */
void fth_gate_set(struct fth_dev *dev, bool open);
void fth_gate_counts(struct fth_dev *dev, struct fth_gate_counts *counts);
/* Wait until n requests are in flight, at most 200 seconds; whether they are. */
bool fth_gate_wait(struct fth_dev *dev, unsigned n);
/* From now on at most n channels are open at the same time; another one is -EMFILE. */
void fth_gate_limit(struct fth_dev *dev, unsigned n);
/* The next n submits fail with -EAGAIN. */
void fth_gate_refuse(struct fth_dev *dev, unsigned n);
/* The next reap fails with this error. */
void fth_gate_break(struct fth_dev *dev, int error);

#endif
