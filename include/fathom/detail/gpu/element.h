/* SPDX-License-Identifier: BSD-2-Clause */
/* What a lane does to an element of a line that is there, for fathom/detail/gpu/lines.h. */
#ifndef FATHOM_GPU_ELEMENT_H
#define FATHOM_GPU_ELEMENT_H

#include "fathom/detail/gpu/frames.h"

#include <string.h>

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

enum fth_gpu_op {
	FTH_GPU_OP_PREFETCH, /* see that the line is there, or on its way */
	FTH_GPU_OP_GET,
	FTH_GPU_OP_SET,
	FTH_GPU_OP_ADD, /* this and all after: atomic, 4 or 8 bytes */
	FTH_GPU_OP_XOR,
	FTH_GPU_OP_MIN,
	FTH_GPU_OP_CAS
};

struct fth_gpu_value {
	uint64_t bits; /* the element; before the change, if there was one */
	int rc;
};

#ifdef FTH_WARP_ON_HOST
#define FTH_GPU_LOAD_(type, at, order) __atomic_load_n((const type *)(at), __ATOMIC_##order)
#define FTH_GPU_STORE_(type, at, bits) \
	__atomic_store_n((type *)(at), (type)(bits), __ATOMIC_RELAXED)
#else
#define FTH_GPU_ORDER_RELAXED_	       cuda::memory_order_relaxed
#define FTH_GPU_ORDER_ACQUIRE_	       cuda::memory_order_acquire
#define FTH_GPU_REF_(type, at)	       cuda::atomic_ref<type, cuda::thread_scope_device>(*(type *)(at))
/* Relaxed or acquire, but never from a stale line of L1. */
#define FTH_GPU_LOAD_(type, at, order) FTH_GPU_REF_(type, at).load(FTH_GPU_ORDER_##order##_)
#define FTH_GPU_STORE_(type, at, bits) \
	FTH_GPU_REF_(type, at).store((type)(bits), cuda::memory_order_relaxed)
#endif

/* Keeps loads before it before loads after it. */
FTH_GPU void fth_gpu_fence_(void)
{
#ifdef FTH_WARP_ON_HOST
	__threadfence();
#else
	cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
#endif
}

/* ---- loads of a known size ---- */

template <uint32_t size> struct fth_gpu_bits_;
template <> struct fth_gpu_bits_<1> {
	typedef uint8_t type;
};
template <> struct fth_gpu_bits_<2> {
	typedef uint16_t type;
};
template <> struct fth_gpu_bits_<4> {
	typedef uint32_t type;
};
template <> struct fth_gpu_bits_<8> {
	typedef uint64_t type;
};

/* Two words of 64 bits, in one access on a GPU. The orders are those of each word. */
struct fth_gpu_pair_ {
	uint64_t low, high;
};

FTH_GPU struct fth_gpu_pair_ fth_gpu_load_pair_acquire_(const void *at)
{
	struct fth_gpu_pair_ v;

#ifdef FTH_WARP_ON_HOST
	v.low = __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
	v.high = __atomic_load_n((const uint64_t *)at + 1, __ATOMIC_ACQUIRE);
#else
	asm volatile("ld.acquire.gpu.v2.u64 {%0, %1}, [%2];"
		     : "=l"(v.low), "=l"(v.high)
		     : "l"(at)
		     : "memory");
#endif
	return v;
}

/* 1, 2, 4, 8 or 16 bytes of a line. acquire: stops loads after it from being performed before. */
template <typename V> FTH_GPU V fth_gpu_load_acquire_(const V *at)
{
	V value;

	if constexpr (sizeof(V) == 16) {
		struct fth_gpu_pair_ both = fth_gpu_load_pair_acquire_(at);

		memcpy(&value, &both, sizeof(V));
	} else {
		typedef typename fth_gpu_bits_<sizeof(V)>::type bits;
		bits whole = FTH_GPU_LOAD_(bits, at, ACQUIRE);

		memcpy(&value, &whole, sizeof(V));
	}
	return value;
}

/* ---- elements whose size is known when it runs ---- */

FTH_GPU uint64_t fth_gpu_load_(const void *at, uint32_t size)
{
	switch (size) {
	case 1:
		return FTH_GPU_LOAD_(uint8_t, at, RELAXED);
	case 2:
		return FTH_GPU_LOAD_(uint16_t, at, RELAXED);
	case 4:
		return FTH_GPU_LOAD_(uint32_t, at, RELAXED);
	default:
		return FTH_GPU_LOAD_(uint64_t, at, RELAXED);
	}
}

FTH_GPU void fth_gpu_store_(void *at, uint32_t size, uint64_t bits)
{
	switch (size) {
	case 1:
		FTH_GPU_STORE_(uint8_t, at, bits);
		break;
	case 2:
		FTH_GPU_STORE_(uint16_t, at, bits);
		break;
	case 4:
		FTH_GPU_STORE_(uint32_t, at, bits);
		break;
	default:
		FTH_GPU_STORE_(uint64_t, at, bits);
	}
}

/* CUDA's atomics are relaxed; the word's acquire and release around them order the rest. */
template <typename T> FTH_GPU T fth_gpu_atomic_op_(enum fth_gpu_op op, T *at, T value, T expected)
{
	switch (op) {
	case FTH_GPU_OP_ADD:
		return atomicAdd(at, value);
	case FTH_GPU_OP_XOR:
		return atomicXor(at, value);
	case FTH_GPU_OP_MIN:
		return atomicMin(at, value);
	default:
		return atomicCAS(at, expected, value);
	}
}

FTH_GPU uint64_t fth_gpu_do_(enum fth_gpu_op op, uint8_t *at, uint32_t size, uint64_t value,
			     uint64_t expected)
{
	if (op == FTH_GPU_OP_PREFETCH)
		return 0;
	if (op == FTH_GPU_OP_GET)
		return fth_gpu_load_(at, size);
	if (op == FTH_GPU_OP_SET) {
		fth_gpu_store_(at, size, value);
		return 0;
	}
	if (size == 4)
		return fth_gpu_atomic_op_(op, (unsigned *)at, (unsigned)value, (unsigned)expected);
	return fth_gpu_atomic_op_(op, (unsigned long long *)at, (unsigned long long)value,
				  (unsigned long long)expected);
}

#endif
#endif
