/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FTH_APPS_PM_ALL_KERNELS_H
#define FTH_APPS_PM_ALL_KERNELS_H

#include "apps/pm/bfs_kernels.h"
#include "apps/pm/cfd_kernels.h"
#include "apps/pm/db_kernels.h"
#include "apps/pm/dnn_kernels.h"
#include "apps/pm/hotspot_kernels.h"
#include "apps/pm/kernels.h"
#include "apps/pm/kvs_kernels.h"
#include "apps/pm/options_kernels.h"
#include "apps/pm/prefix_kernels.h"
#include "apps/pm/srad_kernels.h"

#endif
