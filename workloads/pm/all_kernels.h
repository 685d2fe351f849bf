/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef FTH_WORKLOADS_PM_ALL_KERNELS_H
#define FTH_WORKLOADS_PM_ALL_KERNELS_H

#include "workloads/pm/bfs_kernels.h"
#include "workloads/pm/cfd_kernels.h"
#include "workloads/pm/db_kernels.h"
#include "workloads/pm/kernels.h"
#include "workloads/pm/kvs_kernels.h"
#include "workloads/pm/prefix_kernels.h"

#endif
