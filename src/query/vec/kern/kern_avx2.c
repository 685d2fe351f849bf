/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernels for processors with AVX2 and BMI2; compiled with these switched on. */
#if defined(__x86_64__)
#define KERN_SET  fth_kern_avx2
#define KERN_NAME "avx2"
#include "query/vec/kern/kern_body.h"
#endif
