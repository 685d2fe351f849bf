/* SPDX-License-Identifier: BSD-2-Clause */
/* Labels: who a device is. */
#ifndef FTH_VOL_LABEL_H
#define FTH_VOL_LABEL_H

#include "fathom/dev.h"

#include "vol/catalog/media.h"

#include <stdbool.h>

enum vol_found { VOL_NOTHING, VOL_DAMAGED, VOL_OTHER_VERSION, VOL_FOUND };

/* Both copies of a device's label. */
struct vol_labels {
	enum vol_found state[2];
	struct vol_label copy[2];
	char why[2][96]; /* what is wrong with each that is not VOL_FOUND */
};

/* Read both copies. Only an error to read both is an error. */
int vol_labels_read(struct fth_dev *dev, struct vol_labels *labels);

/* The one to use, or NULL. */
const struct vol_label *vol_labels_best(const struct vol_labels *labels);

/* The two say the same, but for which copy they are. */
bool vol_labels_agree(const struct vol_labels *labels);

/* 0, or why a device with these labels can not be used: one of the errors of fth_vol_open(). */
int vol_labels_usable(const struct vol_labels *labels, struct fth_dev *dev);

/* Write copy 0 or 1; not flushed. */
int vol_label_write(struct fth_dev *dev, const struct vol_label *label, unsigned copy);

/* Where a copy lies on a device that uses `size` bytes. */
uint64_t vol_label_offset(uint64_t size, unsigned copy);

uint64_t vol_label_checksum(const struct vol_label *label);

#endif
