/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything in layer base: errors, checksums, descriptors, random numbers, statistics, device
 * URIs, the version.
 */
#ifndef FATHOM_BASE_H
#define FATHOM_BASE_H

#include "fathom/base/checksum.h"
#include "fathom/base/decls.h"
#include "fathom/base/error.h"
#include "fathom/base/fd.h"
#include "fathom/base/rng.h"
#include "fathom/base/stats.h"
#include "fathom/base/uri.h"
#include "fathom/base/version.h"

#endif
