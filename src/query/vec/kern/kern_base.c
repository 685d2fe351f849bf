/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernels for any processor. */
#define KERN_SET  fth_kern_base
#define KERN_NAME "base"
#include "query/vec/kern/kern_body.h"
