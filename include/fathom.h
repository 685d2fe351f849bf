/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fathom: data larger than memory, on flash. This header includes those of the five ways in, arrays
 * (fathom/array.h), plain pointers (fathom/flat.h), persistent memory (fathom/pm.h), a key-value
 * cache (fathom/kv.h) and SQL (fathom/query.h), and what they need: devices (fathom/dev.h), volumes
 * (fathom/vol.h), the cache (fathom/cache.h), errors, statistics, URIs and the version
 * (fathom/base.h). Each way in has more headers in its folder, fathom/pm/log.h for instance.
 * Programs for GPUs include fathom/gpu.h and fathom/gpu/array.h as well.
 */
#ifndef FATHOM_H
#define FATHOM_H

#include "fathom/array.h"
#include "fathom/base.h"
#include "fathom/cache.h"
#include "fathom/dev.h"
#include "fathom/flat.h"
#include "fathom/kv.h"
#include "fathom/pm.h"
#include "fathom/query.h"
#include "fathom/vol.h"

#endif
