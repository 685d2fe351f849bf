/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looking at lines without a reference, for whole warps that read what is there once and go on:
 *
 *	struct fth_gpu_look look = fth_gpu_look_open();
 *	const uint8_t *data = fth_gpu_look_line(a, &look, line, &rc);
 *
 *	while (data) {
 *		v = data[...];
 *		if (fth_gpu_look_good(a, look, v))
 *			break;
 *		data = fth_gpu_look_hold(a, &look, &rc);
 *	}
 *	...						(data is NULL: failed, with rc)
 *	fth_gpu_look_close(a, &look);
 *
 * A cursor's reference is two atomics with fences, and those wait for whatever else the processor
 * has under way; a look is loads only. Its bytes may become another line's while they are read:
 * nothing may come of them before fth_gpu_look_good(). A line that was replaced is then held, so
 * that the second try is the last.
 *
 * All 32 lanes call, with the same line. Lines that are only looked at do not become hot.
 */
#ifndef FATHOM_GPU_LOOK_H
#define FATHOM_GPU_LOOK_H

#include "fathom/detail/gpu/pins.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

struct fth_gpu_look {
	uint64_t line; /* FTH_GPU_NO_LINE: none */
	uint64_t word; /* as it was found; 0: a reference is held */
	uint8_t *data;
};

FTH_GPU struct fth_gpu_look fth_gpu_look_open(void)
{
	struct fth_gpu_look look = {FTH_GPU_NO_LINE, 0, NULL};

	return look;
}

FTH_GPU void fth_gpu_look_close(const struct fth_gpu_array &a, struct fth_gpu_look *look)
{
	if (look->line == FTH_GPU_NO_LINE)
		return;
	if (!look->word) {
		/* All lanes have read. */
		__syncwarp();
		if (fth_warp_lane() == 0)
			fth_gpu_end_read_(&a.words[look->line]);
	}
	look->line = FTH_GPU_NO_LINE;
}

/* A line by a reference, and brought in if it is not there. NULL with *rc set. */
FTH_GPU const uint8_t *fth_gpu_look_hold_(const struct fth_gpu_array &a, struct fth_gpu_look *look,
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
	return look->data;
}

/* The bytes of a line; NULL with *rc set. Good until the next call, or the end of the look. */
FTH_GPU const uint8_t *fth_gpu_look_line(const struct fth_gpu_array &a, struct fth_gpu_look *look,
					 uint64_t line, int *rc)
{
	uint64_t word;

	if (look->line == line)
		return look->data;
	fth_gpu_look_close(a, look);
	if (!fth_gpu_has_line_(a, line)) {
		*rc = -ERANGE;
		return NULL;
	}
	__syncwarp();
	/* acquire: stops the data from being read before the word. */
	word = __shfl_sync(~0u, fth_load_acquire_dev64(&a.words[line]), 0);
	if (!fth_line_ready(word))
		return fth_gpu_look_hold_(a, look, line, rc);
	look->line = line;
	look->word = word;
	look->data = fth_gpu_place_(a, word, 0);
	return look->data;
}

/*
 * Were the bytes the line's all the time? `made` is what this lane has made of all that it has
 * read: the second look at the word hangs on it, and so is not taken before the bytes are there.
 * (The one value that would show that it was waited for counts as replaced.)
 */
FTH_GPU bool fth_gpu_look_good(const struct fth_gpu_array &a, const struct fth_gpu_look &look,
			       uint64_t made)
{
	if (!look.word)
		return true;
	if (__any_sync(~0u, made == UINT64_MAX))
		return false;
	return __all_sync(
		~0u, fth_line_same_place(look.word, fth_load_relaxed_dev64(&a.words[look.line])));
}

/*
 * After fth_gpu_look_good() said no, of this look or of one that goes with it: the line once more,
 * with a reference. One that is held already stays so.
 */
FTH_GPU const uint8_t *fth_gpu_look_hold(const struct fth_gpu_array &a, struct fth_gpu_look *look,
					 int *rc)
{
	uint64_t line = look->line;

	if (!look->word)
		return look->data;
	look->line = FTH_GPU_NO_LINE;
	return fth_gpu_look_hold_(a, look, line, rc);
}

#endif
#endif
