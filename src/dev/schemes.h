/* SPDX-License-Identifier: BSD-2-Clause */
/* The schemes compiled into the library, each defined beside its device. */
#ifndef DEV_SCHEMES_H
#define DEV_SCHEMES_H

#include "fathom/dev/driver.h"

/*
 * All of them, ended by NULL. Defined by the one file that knows all layers (src/schemes.c), so
 * that fth_dev_open() finds them without this layer calling upward and without constructors,
 * which static linking drops.
 */
extern const struct fth_dev_scheme *const fth_dev_builtin_schemes[];

extern const struct fth_dev_scheme fth_dev_scheme_mem;
extern const struct fth_dev_scheme fth_dev_scheme_file;
extern const struct fth_dev_scheme fth_dev_scheme_fault;
extern const struct fth_dev_scheme fth_dev_scheme_delay;
extern const struct fth_dev_scheme fth_dev_scheme_crash;
extern const struct fth_dev_scheme fth_nvme_scheme_soft;
extern const struct fth_dev_scheme fth_nvme_scheme_vfio;
extern const struct fth_dev_scheme fth_vol_scheme;

/*
 * What ?model=NAME on any URI stands for: a delay device around inner, for fth_dev_open() to
 * complete like one that a scheme made. Returns -EINVAL for an unknown model; inner stays the
 * caller's unless this succeeds.
 */
int fth_dev_delay_wrap(struct fth_dev *inner, const char *model, struct fth_dev **out);

#endif
