/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fathom: data larger than memory, on flash. This header includes those of the five ways in, arrays
 * (fathom/array.h), plain pointers (fathom/flat.h), persistent memory (fathom/pm.h), a key-value
 * cache (fathom/kv.h) and SQL (fathom/query.h), and what they need: devices (fathom/dev.h), volumes
 * (fathom/vol.h), the cache (fathom/cache.h), errors, statistics, URIs and the version
 * (fathom/base.h). Of persistent memory it includes all: fathom/pm/log.h, fathom/pm/wal.h,
 * fathom/pm/tx.h, fathom/pm/checkpoint.h and fathom/pm/area.h. The other ways in have more headers
 * in their folders, fathom/kv/client.h for instance. Programs for GPUs include fathom/gpu.h and
 * fathom/gpu/array.h as well, and fathom/pm/gpu.h.
 */
#ifndef FATHOM_H
#define FATHOM_H

#include "fathom/array.h"
#include "fathom/base.h"
#include "fathom/cache.h"
#include "fathom/dev.h"
#include "fathom/flat.h"
#include "fathom/kv.h"
#include "fathom/pg.h"
#include "fathom/pm.h"
#include "fathom/pm/area.h"
#include "fathom/pm/checkpoint.h"
#include "fathom/pm/log.h"
#include "fathom/pm/tx.h"
#include "fathom/pm/wal.h"
#include "fathom/query.h"
#include "fathom/vol.h"

#endif
