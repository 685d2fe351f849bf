/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading lines without a reference, for whole warps that read a line once and go on:
 *
 *	struct fth_gpu_look look = fth_gpu_look_open();
 *	const uint64_t *data = fth_gpu_look_line(a, &look, line, &rc);
 *
 *	while (data) {
 *		v = fth_gpu_look_load(data + k);
 *		if (fth_gpu_look_good(a, look))
 *			break;
 *		data = fth_gpu_look_hold(a, &look, &rc);
 *	}
 *	...						(data is NULL: failed, with rc)
 *	fth_gpu_look_close(a, &look);
 *
 * A cursor takes a reference with two atomics and their fences, which wait for everything that the
 * multiprocessor has in flight; a look consists of loads. The bytes may become those of another
 * line while they are read: do not act on them before fth_gpu_look_good() returned true. If it
 * returned false, fth_gpu_look_hold() takes a reference, so that the second try is the last.
 *
 * All 32 lanes call, with the same line. Looks do not mark a line as hot.
 *
 * Order. Every load of the line's bytes is a fth_gpu_look_load(), an acquire load: PTX promises
 * that loads after it, here the second look at the word, are not performed before it. A plain load
 * and a branch on its value promise nothing.
 */
#ifndef FATHOM_GPU_LOOK_H
#define FATHOM_GPU_LOOK_H

#include "fathom/detail/gpu/pins.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

struct fth_gpu_look {
	uint64_t line; /* FTH_GPU_NO_LINE: none */
	uint64_t word; /* the line's word when it was found; 0: a reference is held */
	uint8_t *data;
};

/* A new look, at no line. */
FTH_GPU struct fth_gpu_look fth_gpu_look_open(void)
{
	struct fth_gpu_look look = {FTH_GPU_NO_LINE, 0, NULL};

	return look;
}

/* End the look, and drop its reference if it holds one. */
template <typename T>
FTH_GPU void fth_gpu_look_close(const fth_gpu_array<T> &a, struct fth_gpu_look *look)
{
	if (look->line == FTH_GPU_NO_LINE)
		return;
	if (!look->word) {
		/* The loads of all lanes precede the release by lane 0. */
		__syncwarp();
		if (fth_warp_lane() == 0)
			fth_gpu_end_read_(&a.words[look->line]);
	}
	look->line = FTH_GPU_NO_LINE;
}

/* Take a reference to a line, and fetch the line if it is missing. NULL with *rc set. */
template <typename T>
FTH_GPU const T *fth_gpu_look_hold_(const fth_gpu_array<T> &a, struct fth_gpu_look *look,
				    uint64_t line, int *rc)
{
	struct fth_gpu_pin pin =
		FTH_GPU_FAR_(fth_gpu_pin_)(a.cache, ~0u, a.range, line, FTH_GPU_READ);

	*rc = pin.rc;
	if (pin.rc < 0)
		return NULL;
	look->line = line;
	look->word = 0;
	look->data = pin.data;
	return (const T *)look->data;
}

/*
 * The elements of a line, for fth_gpu_look_load(); NULL with *rc set. Valid until the next call
 * with another line, or the end of the look.
 */
template <typename T>
FTH_GPU const T *fth_gpu_look_line(const fth_gpu_array<T> &a, struct fth_gpu_look *look,
				   uint64_t line, int *rc)
{
	uint64_t word;

	if (look->line == line)
		return (const T *)look->data;
	fth_gpu_look_close(a, look);
	if (!fth_gpu_has_line_(a, line)) {
		*rc = -ERANGE;
		return NULL;
	}
	/* acquire: stops the data from being read before the word. One access for all lanes. */
	word = fth_load_acquire_dev64(&a.words[line]);
	/*
	 * The lanes go on with what lane 0 has loaded, and a shuffle orders no memory accesses: the
	 * barrier puts the loads of all lanes after the acquire of lane 0.
	 */
	__syncwarp();
	word = __shfl_sync(~0u, word, 0);
	if (!fth_line_ready(word))
		return fth_gpu_look_hold_(a, look, line, rc);
	look->line = line;
	look->word = word;
	look->data = fth_gpu_place_(a, word, 0);
	return (const T *)look->data;
}

/*
 * Load 1, 2, 4, 8 or 16 bytes of a line: an element, or several by a vector type (CUDA's ulonglong2
 * at an even element, for instance). `at` is a multiple of their size.
 */
template <typename V> FTH_GPU V fth_gpu_look_load(const V *at)
{
	/* acquire: stops the second look at the word from being taken before this load. */
	return fth_gpu_load_acquire_(at);
}

/* Did the line stay in its place while its bytes were loaded? The same in all lanes. */
template <typename T>
FTH_GPU bool fth_gpu_look_good(const fth_gpu_array<T> &a, const struct fth_gpu_look &look)
{
	if (!look.word)
		return true;
	/* relaxed: the loads of this lane are before it, see fth_gpu_look_load(). */
	return __all_sync(
		~0u, fth_line_same_place(look.word, fth_load_relaxed_dev64(&a.words[look.line])));
}

/*
 * After fth_gpu_look_good() returned false, for this look or for one that is used with it: the line
 * again, with a reference. A line that is held already stays so.
 */
template <typename T>
FTH_GPU const T *fth_gpu_look_hold(const fth_gpu_array<T> &a, struct fth_gpu_look *look, int *rc)
{
	uint64_t line = look->line;

	if (!look->word)
		return (const T *)look->data;
	look->line = FTH_GPU_NO_LINE;
	return fth_gpu_look_hold_(a, look, line, rc);
}

#endif
#endif
