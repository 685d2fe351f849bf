/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole lines, held by all lanes of a mask, for fathom/gpu/array.h. Device code only. */
#ifndef FATHOM_GPU_PINS_H
#define FATHOM_GPU_PINS_H

#include "fathom/detail/gpu/lines.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

enum fth_gpu_mode {
	FTH_GPU_READ,
	FTH_GPU_WRITE,
	FTH_GPU_OVERWRITE /* every byte will be set: nothing is read */
};

/* A line held by lanes that work together; the same in all of them. In registers: 16 bytes. */
struct fth_gpu_pin {
	uint8_t *data;
	uint32_t fresh; /* 0, or 1 + its version: nobody sees the line before it is let go */
	int rc;		/* negative: nothing is held */
};

/* In place of a line's number: none. (Not UINT64_MAX: kernels come to that by counting down.) */
#define FTH_GPU_NO_LINE ((uint64_t)1 << 63)

/* log2 of an element's bytes. */
template <typename T> FTH_GPU constexpr uint32_t fth_gpu_shift_(void)
{
	uint32_t shift = 0;

	while (((size_t)1 << shift) < sizeof(T))
		shift++;
	return shift;
}

/* A parameter that takes no part in the choice of T: its argument converts, or does not compile. */
template <typename T> struct fth_gpu_same_ {
	typedef T type;
};

/*
 * Is a line in the array, which is not empty? The line may be any number: its first byte may not be
 * one of 64 bits.
 */
template <typename T> FTH_GPU bool fth_gpu_has_line_(const fth_gpu_array<T> &a, uint64_t line)
{
	return line <= (a.count - 1) >> (a.line_shift - fth_gpu_shift_<T>());
}

/* Where byte `byte` of an array is, if its line is where the word says. */
template <typename T>
FTH_GPU uint8_t *fth_gpu_place_(const fth_gpu_array<T> &a, uint64_t word, uint64_t byte)
{
	uint32_t offset = (uint32_t)byte & ((1u << a.line_shift) - 1);

	return a.data + ((uint64_t)fth_line_frame(word) << a.line_shift) + offset;
}

/* One lane drops a reference under which nothing was changed. */
FTH_GPU void fth_gpu_end_read_(uint64_t *word)
{
	/* release: what was read was read before the frame may be another line's. */
	fth_add_release_dev64(word, (uint64_t)0 - FTH_LINE_ONE);
}

/* Own or hold the line, as its word is now. */
FTH_GPU void fth_gpu_try_pin_(struct fth_gpu_want *want, bool hot)
{
	uint64_t now = fth_load_relaxed_dev64(want->word), seen;

	if (!fth_line_ready(now)) {
		want->rc = -fth_gpu_wait_for_(want, now);
		want->owner = want->rc == 0 && fth_gpu_own_(want->word, now);
		return;
	}
	/* acquire: the line's data is read after this. */
	now = fth_line_ref(want->word, 1);
	if (!fth_line_ready(now)) {
		/* relaxed: nothing was done under it. */
		fth_add_relaxed_dev64(want->word, (uint64_t)0 - FTH_LINE_ONE);
		return;
	}
	seen = now + FTH_LINE_ONE;
	if (hot && !(now & FTH_LINE_HOT))
		fth_cas_relaxed_dev64(want->word, &seen, seen | FTH_LINE_HOT);
	want->frame = fth_line_frame(now);
	want->arrived = true;
}

/* The leader of a pin ran out of time. */
FTH_GPU void fth_gpu_expire_pin_(struct fth_gpu_cache_state *cache, struct fth_gpu_want *want)
{
	if (want->owner)
		fth_gpu_give_up_frame_(cache, want);
	else
		fth_gpu_note_(cache, -ETIMEDOUT, 0, want->array, want->line, false);
	want->rc = want->rc ? want->rc : -ETIMEDOUT;
}

/* Until the leader holds the line, or has failed to. */
FTH_GPU void fth_gpu_pin_wait_(struct fth_gpu_cache_state *cache, uint32_t mask, bool leads,
			       struct fth_gpu_want *want)
{
	uint64_t deadline = fth_deadline_ns(cache->timeout_ns);
	uint32_t ns = FTH_NVME_PAUSE_FIRST;

	for (;;) {
		/* Not once its time is over: it would hold what nobody lets go. */
		if (leads && !want->owner && want->rc == 0)
			fth_gpu_try_pin_(want, !want->blank);
		__syncwarp(mask);
		if (__any_sync(mask, want->owner))
			fth_gpu_fetch_round_(cache, mask, want);
		if (__any_sync(mask, want->arrived || want->rc < 0))
			return;
		fth_nvme_warp_pause_(&ns);
		if (leads && fth_now_ns() >= deadline)
			fth_gpu_expire_pin_(cache, want);
	}
}

/* The same line in all lanes of mask, who all call. */
FTH_GPU_CALL struct fth_gpu_pin fth_gpu_pin_(struct fth_gpu_cache_state *cache, uint32_t mask,
					     uint32_t array, uint64_t line, enum fth_gpu_mode mode)
{
	int leader = __ffs((int)mask) - 1;
	bool leads = (int)fth_warp_lane() == leader;
	struct fth_gpu_pin pin = {NULL, 0, 0};
	struct fth_gpu_want want = {};

	want.word = &cache->ranges[array].words[line];
	want.line = line;
	want.array = array;
	want.frame = FTH_GPU_NO_FRAME;
	want.blank = mode == FTH_GPU_OVERWRITE;
	if (line >= cache->ranges[array].lines)
		pin.rc = -ERANGE;
	else if (mode != FTH_GPU_READ && cache->ranges[array].readonly)
		pin.rc = -EROFS;
	if (pin.rc < 0)
		return pin;
	fth_gpu_pin_wait_(cache, mask, leads, &want);
	if (want.owner && want.arrived && want.blank)
		pin.fresh = 1 + want.version;
	else if (want.owner && want.arrived)
		fth_gpu_publish_(&want, 0, true);
	fth_gpu_count_(cache, mask, want.rc < 0, FTH_GPU_ERRORS);
	__syncwarp(mask);
	pin.data = fth_gpu_frame_(cache, __shfl_sync(mask, want.frame, leader));
	pin.fresh = __shfl_sync(mask, pin.fresh, leader);
	pin.rc = __shfl_sync(mask, want.rc, leader);
	return pin;
}

/*
 * Let go, all lanes of mask together. `changed` is the same in all of them. A line that was to be
 * overwritten, and was not, is as it was before.
 */
FTH_GPU_CALL void fth_gpu_unpin_(struct fth_gpu_cache_state *cache, uint32_t mask, uint32_t array,
				 uint64_t line, struct fth_gpu_pin pin, bool changed)
{
	struct fth_gpu_want want = {};

	__syncwarp(mask);
	if ((int)fth_warp_lane() != __ffs((int)mask) - 1)
		return;
	want.word = &cache->ranges[array].words[line];
	want.frame = (uint32_t)((uint64_t)(pin.data - cache->data) >> cache->line_shift);
	want.version = pin.fresh - 1;
	if (changed)
		fth_gpu_dirties_(cache);
	if (pin.fresh && changed)
		fth_gpu_publish_(&want, FTH_LINE_DIRTY, false);
	else if (pin.fresh)
		fth_gpu_disown_(cache, &want);
	else if (changed)
		fth_line_unref_dirty(want.word);
	else
		fth_gpu_end_read_(want.word);
}

#endif
#endif
