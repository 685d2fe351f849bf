/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All kernels of the persistent workloads, by number: what machine_cpu.c and machine.cu make their
 * tables of.
 */
#ifndef FTH_WORKLOADS_PM_KERNELS_H
#define FTH_WORKLOADS_PM_KERNELS_H

/* K(number, function, parameters) */
#define PMW_KERNELS(K)                                  \
	K(KVS_LOAD, pmw_kvs_load, pmw_kvs)              \
	K(KVS_BATCH, pmw_kvs_batch, pmw_kvs)            \
	K(KVS_PLACE, pmw_kvs_place, pmw_kvs)            \
	K(KVS_ORDER, pmw_kvs_order, pmw_kvs)            \
	K(KVS_STORE, pmw_kvs_store, pmw_kvs)            \
	K(KVS_END, pmw_kvs_end, pmw_kvs)                \
	K(KVS_UNDO, pmw_kvs_undo, pmw_kvs)              \
	K(DB_LOAD, pmw_db_load, pmw_db)                 \
	K(DB_INSERT, pmw_db_insert, pmw_db)             \
	K(DB_UPDATE, pmw_db_update, pmw_db)             \
	K(DB_UNDO, pmw_db_undo_update, pmw_db)          \
	K(CFD_MESH, pmw_cfd_mesh, pmw_cfd)              \
	K(CFD_FILL, pmw_cfd_fill, pmw_cfd)              \
	K(CFD_BEGIN, pmw_cfd_begin, pmw_cfd)            \
	K(CFD_FLUX, pmw_cfd_flux, pmw_cfd)              \
	K(CFD_ADVANCE, pmw_cfd_advance, pmw_cfd)        \
	K(BFS_MAP, pmw_bfs_map, pmw_bfs)                \
	K(BFS_FORGET, pmw_bfs_forget, pmw_bfs)          \
	K(BFS_REMEMBER, pmw_bfs_remember, pmw_bfs)      \
	K(BFS_LEVEL, pmw_bfs_level, pmw_bfs)            \
	K(PREFIX_FILL, pmw_prefix_fill, pmw_prefix)     \
	K(PREFIX_WITHIN, pmw_prefix_within, pmw_prefix) \
	K(PREFIX_BEFORE, pmw_prefix_before, pmw_prefix) \
	K(PREFIX_ADD, pmw_prefix_add, pmw_prefix)

enum pmw_kernel {
#define PMW_NUMBER(number, function, parameters) PMW_##number,
	PMW_KERNELS(PMW_NUMBER)
#undef PMW_NUMBER
		PMW_KERNEL_COUNT
};

#endif
