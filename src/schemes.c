/* SPDX-License-Identifier: BSD-2-Clause */
/* Which device schemes this library has: the one file that knows all layers. */
#include "dev/schemes.h"

const struct fth_dev_scheme *const fth_dev_builtin_schemes[] = {
	&fth_dev_scheme_mem,   &fth_dev_scheme_file,  &fth_dev_scheme_fault,
	&fth_dev_scheme_delay, &fth_dev_scheme_crash, &fth_nvme_scheme_soft,
	&fth_nvme_scheme_vfio, &fth_vol_scheme,	      NULL,
};
