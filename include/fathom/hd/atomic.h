/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic accessors for code that runs on CPU threads and on GPU threads.
 *
 * C11's _Atomic does not compile under nvcc, so shared structures hold plain uint32_t and
 * uint64_t fields and every access goes through a function whose name says three things:
 *
 *	fth_<operation>_<order>_<scope><bits>
 *
 *	order	relaxed | acquire | release | acqrel
 *	scope	blk: threads of one block of a GPU kernel; all CPU threads
 *		dev: threads of one processor (all CPU threads, or all threads of one GPU)
 *		sys: all threads of CPU and GPU, and other devices
 *
 * On the host all scopes compile to the same instruction; on the GPU they do not. There a release
 * waits for the processor's outstanding stores, 12 to 23 thousand cycles while a link is busy: use
 * the weakest order and the narrowest scope that suffice. Read-modify-write operations return the
 * previous value. They continue a release sequence: an acquire load of the value that one of them
 * stored synchronizes with the release before it, whatever the order of the operation itself.
 *
 * There are no fences here, on purpose: ThreadSanitizer cannot see through them. An ordering
 * that matters is attached to the access that needs it.
 */
#ifndef FATHOM_HD_ATOMIC_H
#define FATHOM_HD_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda/atomic>
#define FTH_HD static __host__ __device__ __forceinline__
#else
#define FTH_HD static inline
#endif

#ifdef __CUDA_ARCH__
#define FTH_SCOPE_blk			 cuda::thread_scope_block
#define FTH_SCOPE_dev			 cuda::thread_scope_device
#define FTH_SCOPE_sys			 cuda::thread_scope_system
#define FTH_REF_(type, scope, p)	 cuda::atomic_ref<type, FTH_SCOPE_##scope>(*const_cast<type *>(p))
#define FTH_LOAD_(type, scope, p, order) FTH_REF_(type, scope, p).load(cuda::memory_order_##order)
#define FTH_STORE_(type, scope, p, v, order) \
	FTH_REF_(type, scope, p).store((v), cuda::memory_order_##order)
#define FTH_RMW_add_(type, scope, p, v, order) \
	FTH_REF_(type, scope, p).fetch_add((v), cuda::memory_order_##order)
#define FTH_RMW_or_(type, scope, p, v, order) \
	FTH_REF_(type, scope, p).fetch_or((v), cuda::memory_order_##order)
#define FTH_RMW_and_(type, scope, p, v, order) \
	FTH_REF_(type, scope, p).fetch_and((v), cuda::memory_order_##order)
#define FTH_RMW_xchg_(type, scope, p, v, order) \
	FTH_REF_(type, scope, p).exchange((v), cuda::memory_order_##order)
#define FTH_CAS_(type, scope, p, expected, desired, order, failed)                           \
	FTH_REF_(type, scope, p)                                                             \
		.compare_exchange_strong(*(expected), (desired), cuda::memory_order_##order, \
					 cuda::memory_order_##failed)
#else
#define FTH_ORDER_relaxed			__ATOMIC_RELAXED
#define FTH_ORDER_acquire			__ATOMIC_ACQUIRE
#define FTH_ORDER_release			__ATOMIC_RELEASE
#define FTH_ORDER_acq_rel			__ATOMIC_ACQ_REL
#define FTH_LOAD_(type, scope, p, order)	__atomic_load_n((p), FTH_ORDER_##order)
#define FTH_STORE_(type, scope, p, v, order)	__atomic_store_n((p), (v), FTH_ORDER_##order)
#define FTH_RMW_add_(type, scope, p, v, order)	__atomic_fetch_add((p), (v), FTH_ORDER_##order)
#define FTH_RMW_or_(type, scope, p, v, order)	__atomic_fetch_or((p), (v), FTH_ORDER_##order)
#define FTH_RMW_and_(type, scope, p, v, order)	__atomic_fetch_and((p), (v), FTH_ORDER_##order)
#define FTH_RMW_xchg_(type, scope, p, v, order) __atomic_exchange_n((p), (v), FTH_ORDER_##order)
#define FTH_CAS_(type, scope, p, expected, desired, order, failed)                        \
	__atomic_compare_exchange_n((p), (expected), (desired), false, FTH_ORDER_##order, \
				    FTH_ORDER_##failed)
#endif

#define FTH_ATOMIC_RMW_(type, bits, scope, op, name, order)            \
	FTH_HD type fth_##op##_##name##_##scope##bits(type *p, type v) \
	{                                                              \
		return FTH_RMW_##op##_(type, scope, p, v, order);      \
	}

#define FTH_ATOMIC_CAS_(type, bits, scope, name, order, failed)                           \
	FTH_HD bool fth_cas_##name##_##scope##bits(type *p, type *expected, type desired) \
	{                                                                                 \
		return FTH_CAS_(type, scope, p, expected, desired, order, failed);        \
	}

#define FTH_ATOMIC_DEFINE_(type, bits, scope)                                                 \
	FTH_HD type fth_load_relaxed_##scope##bits(const type *p)                             \
	{                                                                                     \
		return FTH_LOAD_(type, scope, p, relaxed);                                    \
	}                                                                                     \
	FTH_HD type fth_load_acquire_##scope##bits(const type *p)                             \
	{                                                                                     \
		return FTH_LOAD_(type, scope, p, acquire);                                    \
	}                                                                                     \
	FTH_HD void fth_store_relaxed_##scope##bits(type *p, type v)                          \
	{                                                                                     \
		FTH_STORE_(type, scope, p, v, relaxed);                                       \
	}                                                                                     \
	FTH_HD void fth_store_release_##scope##bits(type *p, type v)                          \
	{                                                                                     \
		FTH_STORE_(type, scope, p, v, release);                                       \
	}                                                                                     \
	FTH_ATOMIC_RMW_(type, bits, scope, add, relaxed, relaxed)                             \
	FTH_ATOMIC_RMW_(type, bits, scope, add, acquire, acquire)                             \
	FTH_ATOMIC_RMW_(type, bits, scope, add, release, release)                             \
	FTH_ATOMIC_RMW_(type, bits, scope, add, acqrel, acq_rel)                              \
	FTH_ATOMIC_RMW_(type, bits, scope, or, relaxed, relaxed)                              \
	FTH_ATOMIC_RMW_(type, bits, scope, or, release, release)                              \
	FTH_ATOMIC_RMW_(type, bits, scope, or, acqrel, acq_rel)                               \
	FTH_ATOMIC_RMW_(type, bits, scope, and, relaxed, relaxed)                             \
	FTH_ATOMIC_RMW_(type, bits, scope, and, acquire, acquire)                             \
	FTH_ATOMIC_RMW_(type, bits, scope, and, acqrel, acq_rel)                              \
	FTH_ATOMIC_RMW_(type, bits, scope, xchg, acquire, acquire)                            \
	FTH_ATOMIC_RMW_(type, bits, scope, xchg, acqrel, acq_rel)                             \
	/* Returns true if *p was *expected and is now desired; else sets *expected to *p. */ \
	FTH_ATOMIC_CAS_(type, bits, scope, relaxed, relaxed, relaxed)                         \
	FTH_ATOMIC_CAS_(type, bits, scope, acquire, acquire, acquire)                         \
	FTH_ATOMIC_CAS_(type, bits, scope, release, release, relaxed)                         \
	FTH_ATOMIC_CAS_(type, bits, scope, acqrel, acq_rel, acquire)

FTH_ATOMIC_DEFINE_(uint32_t, 32, blk)
FTH_ATOMIC_DEFINE_(uint32_t, 32, dev)
FTH_ATOMIC_DEFINE_(uint32_t, 32, sys)
FTH_ATOMIC_DEFINE_(uint64_t, 64, blk)
FTH_ATOMIC_DEFINE_(uint64_t, 64, dev)
FTH_ATOMIC_DEFINE_(uint64_t, 64, sys)

#endif
