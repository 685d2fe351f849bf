/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernels for processors with AVX-512 (BW, DQ, VL, VBMI, VBMI2); compiled with these switched
 * on.
 */
#if defined(__x86_64__)
#define KERN_SET  fth_kern_avx512
#define KERN_NAME "avx512"
#include "query/vec/kern/kern_body.h"
#endif
