/* SPDX-License-Identifier: BSD-2-Clause */
/* The public part of layer hd: code shared by CPU and GPU, header-only, in the intersection of C11,
 * C++17 and CUDA C++. */
#ifndef FATHOM_HD_H
#define FATHOM_HD_H

#include "fathom/hd/atomic.h"
#include "fathom/hd/wait.h"

#endif
