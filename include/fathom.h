/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fathom: flash, used as memory. This header includes those that most programs need: devices
 * (fathom/dev.h), volumes (fathom/vol.h), the cache (fathom/cache.h), arrays (fathom/array.h),
 * errors, statistics, URIs and the version (fathom/base.h). Programs for GPUs include fathom/gpu.h
 * and fathom/gpu/array.h as well.
 */
#ifndef FATHOM_H
#define FATHOM_H

#include "fathom/array.h"
#include "fathom/base.h"
#include "fathom/cache.h"
#include "fathom/dev.h"
#include "fathom/vol.h"

#endif
