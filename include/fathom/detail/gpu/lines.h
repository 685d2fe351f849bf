/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of a cache in GPU memory: what happens when a kernel's access finds its line missing, or
 * needs a reference. Device code only; kernels use fathom/gpu/array.h.
 *
 * Lanes of a warp that call together and want the same line are a group (BaM 7.2.1). Its leader
 * acts on the word for all of them: one reference, one fetch. All fetches of a warp are under way
 * together.
 *
 * A group that finds its line being fetched by another warp looks again, without a reference, until
 * the line is there. So a wait keeps no frame from anybody, and ends by the cache's timeout. If the
 * fetch fails, the groups that waited for it get its error (fathom/detail/hd/line.h); a group that
 * comes later starts another fetch. A lane performs its access as soon as its line is there, before
 * it waits for anything else; an owner even before it publishes the line: so each fetch brings its
 * own warp on, however small the cache.
 */
#ifndef FATHOM_GPU_LINES_H
#define FATHOM_GPU_LINES_H

#include "fathom/detail/gpu/element.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

/* A line that a lane wants. */
struct fth_gpu_want {
	uint64_t *word;
	uint64_t line;
	uint32_t array;
	uint32_t frame; /* of an owner, once it has one; else FTH_GPU_NO_FRAME */
	uint32_t version;
	uint32_t turn; /* of another warp's fetch that this lane waits for, plus 1; 0: of none */
	bool owner;    /* of the fetch */
	bool blank;    /* no need to read it: the owner sets every byte */
	bool arrived;  /* the owner's frame holds it */
	int rc;	       /* negative: the fetch failed, and this lane owns nothing */
};

/*
 * Try to own the fetch of a line whose word was `seen`, with a reference. acquire: what its last
 * owner did to the line is over.
 */
FTH_GPU bool fth_gpu_own_(uint64_t *word, uint64_t seen)
{
	return !(seen & (FTH_LINE_VALID | FTH_LINE_BUSY)) &&
	       fth_cas_acquire_dev64(word, &seen, seen + FTH_LINE_BUSY + FTH_LINE_ONE);
}

/*
 * Wait for a fetch whose word is `now`, which is not VALID. Returns the errno of a fetch that has
 * failed since this wait began, or 0. Without a reference: the line may have come and gone since,
 * which leaves a turn of 0 and no errno.
 */
FTH_GPU int fth_gpu_wait_for_(struct fth_gpu_want *want, uint64_t now)
{
	uint32_t turn = 1 + fth_line_turn(now);

	if (want->turn && want->turn != turn && fth_line_error(now))
		return fth_line_error(now);
	want->turn = now & FTH_LINE_BUSY ? turn : 0;
	return 0;
}

/*
 * As fth_line_end_fetch_(), and `drop` 1 drops the owner's reference as well, in the same addition.
 * release, for the same reason.
 */
FTH_GPU void fth_gpu_end_fetch_(const struct fth_gpu_want *want, uint64_t bits, uint32_t drop)
{
	/* relaxed: nobody else changes these bits while BUSY. */
	uint64_t old =
		fth_load_relaxed_dev64(want->word) & (FTH_LINE_FRAME_MASK | FTH_LINE_VERSION_MASK);

	fth_add_release_dev64(want->word, bits - old - FTH_LINE_BUSY - drop * FTH_LINE_ONE);
}

/* The owner lets everyone in; it keeps its reference, or drops it at once. */
FTH_GPU void fth_gpu_publish_(const struct fth_gpu_want *want, uint64_t extra, bool keep)
{
	uint64_t version = (uint64_t)want->version << FTH_LINE_VERSION_SHIFT;

	fth_gpu_end_fetch_(want,
			   FTH_LINE_VALID | extra | (uint64_t)want->frame << FTH_LINE_FRAME_SHIFT |
				   (version & FTH_LINE_VERSION_MASK),
			   !keep);
}

/* The fetch failed: as fth_line_fail(), for the groups that wait for it. */
FTH_GPU void fth_gpu_fail_(const struct fth_gpu_want *want, int error)
{
	uint64_t turn = fth_line_turn(fth_load_relaxed_dev64(want->word)) + 1;

	fth_gpu_end_fetch_(want,
			   (uint64_t)error << FTH_LINE_FRAME_SHIFT |
				   (turn << FTH_LINE_VERSION_SHIFT & FTH_LINE_VERSION_MASK),
			   1);
}

/* The owner steps back: the line is as it was before, and its frame, if there is one, is free. */
FTH_GPU void fth_gpu_disown_(struct fth_gpu_cache_state *cache, const struct fth_gpu_want *want)
{
	if (want->frame != FTH_GPU_NO_FRAME)
		fth_gpu_free_frame_(cache, want->frame, want->version);
	fth_add_release_dev64(want->word, (uint64_t)0 - FTH_LINE_BUSY - FTH_LINE_ONE);
}

/*
 * The owner's read failed, with a negative errno. `lost`: a transfer may still come to the frame,
 * which is not used again.
 */
FTH_GPU void fth_gpu_give_up_(struct fth_gpu_cache_state *cache, struct fth_gpu_want *want,
			      int error, uint32_t status, bool lost)
{
	fth_gpu_note_(cache, error, status, want->array, want->line, false);
	if (!lost)
		fth_gpu_free_frame_(cache, want->frame, want->version);
	fth_gpu_fail_(want, -error);
	want->frame = FTH_GPU_NO_FRAME;
	want->owner = false;
	want->rc = error;
}

/* The owner's time is over, and it has no frame. Other warps may have more luck. */
FTH_GPU void fth_gpu_give_up_frame_(struct fth_gpu_cache_state *cache, struct fth_gpu_want *want)
{
	fth_gpu_note_(cache, -ENOBUFS, 0, want->array, want->line, false);
	fth_gpu_disown_(cache, want);
	want->frame = FTH_GPU_NO_FRAME;
	want->owner = false;
	want->rc = -ENOBUFS;
}

/*
 * One round of all lanes: frames for owners that have none, then their reads, and the write-backs
 * that this brought up. An owner's line has arrived then, or it gave up, or has no frame yet.
 */
FTH_GPU_CALL void fth_gpu_fetch_round_(struct fth_gpu_cache_state *cache, uint32_t mask,
				       struct fth_gpu_want *want)
{
	struct fth_gpu_move read = fth_gpu_move_none_(), write = fth_gpu_move_none_();
	bool need = want->owner && want->frame == FTH_GPU_NO_FRAME, reads, writes, evicted = false;

	if (__any_sync(mask, need))
		fth_gpu_take_frames_(cache, mask, need, &want->frame, &want->version, &write);
	if (want->owner && !want->arrived && want->frame != FTH_GPU_NO_FRAME) {
		fth_store_relaxed_dev64(&cache->tags[want->frame],
					fth_gpu_tag_(want->array, want->version, want->line));
		want->arrived = want->blank;
		if (!want->blank)
			fth_gpu_move_set_(&read, FTH_NVME_READ, want->array, want->line,
					  want->frame);
	}
	reads = read.want;
	writes = write.want;
	fth_gpu_move_both_(cache, mask, &read, &write);
	if (writes)
		evicted = fth_gpu_after_write_(cache, &write, want->owner && !reads, &want->frame,
					       &want->version);
	if (reads && read.rc < 0)
		fth_gpu_give_up_(cache, want, read.rc, read.status, read.lost);
	else if (reads)
		want->arrived = true;
	__syncwarp(mask);
	fth_gpu_count_(cache, mask, evicted, FTH_GPU_EVICTIONS);
	fth_gpu_count_(cache, mask, reads && read.rc == 0, FTH_GPU_READS);
	fth_gpu_count_(cache, mask, writes && write.rc == 0, FTH_GPU_WRITE_BACKS);
	fth_gpu_count_(cache, mask, want->owner && want->arrived, FTH_GPU_MISSES);
	fth_gpu_count_(cache, mask, read.lost, FTH_GPU_LOST_FRAMES);
	fth_gpu_count_(cache, mask, write.lost, FTH_GPU_LOST_FRAMES);
}

/* ---- accesses, lane by lane ---- */

/* One access. */
struct fth_gpu_access {
	enum fth_gpu_op op;
	uint32_t size;
	uint32_t offset; /* in its line */
	uint64_t value, expected;
	uint64_t result;
	bool done;
};

FTH_GPU void fth_gpu_act_(const struct fth_gpu_cache_state *cache, struct fth_gpu_access *access,
			  uint32_t frame)
{
	access->result = fth_gpu_do_(access->op, fth_gpu_frame_(cache, frame) + access->offset,
				     access->size, access->value, access->expected);
	access->done = true;
}

/* Read a line that is there, without a reference; `now` is its word. */
FTH_GPU void fth_gpu_read_there_(const struct fth_gpu_cache_state *cache,
				 struct fth_gpu_access *access, uint64_t *word, uint64_t now,
				 bool leads)
{
	uint64_t seen = now;

	if (leads && !(now & FTH_LINE_HOT))
		/* Only if nothing changed: the bit must not come to a line that is not there. */
		fth_cas_relaxed_dev64(word, &seen, now | FTH_LINE_HOT);
	fth_gpu_act_(cache, access, fth_line_frame(now));
	/* Stops the second look at the word from being taken before the data is read. */
	fth_gpu_fence_();
	access->done = fth_line_same_place(now, fth_load_relaxed_dev64(word));
}

/* Change a line that is there, all lanes of the group under one reference. */
FTH_GPU void fth_gpu_change_there_(struct fth_gpu_cache_state *cache, uint32_t group,
				   struct fth_gpu_access *access, uint64_t *word, bool leads)
{
	int leader = __ffs((int)group) - 1;
	uint64_t now = 0;

	if (leads)
		now = fth_line_ref(word, 1);
	/* A shuffle orders nothing: the barrier puts all lanes' accesses after the acquire. */
	__syncwarp(group);
	now = __shfl_sync(group, now, leader);
	if (fth_line_ready(now))
		fth_gpu_act_(cache, access, fth_line_frame(now));
	__syncwarp(group);
	if (!leads)
		return;
	if (!fth_line_ready(now)) {
		/* relaxed: nothing was done under it. */
		fth_add_relaxed_dev64(word, (uint64_t)0 - FTH_LINE_ONE);
	} else if (fth_line_unref_dirty(word)) {
		fth_gpu_dirties_(cache);
	}
}

/* The owner of a group's fetch has brought it to an end: everyone does what it came for. */
FTH_GPU void fth_gpu_arrive_(struct fth_gpu_cache_state *cache, uint32_t group,
			     struct fth_gpu_want *want, struct fth_gpu_access *access)
{
	int leader = __ffs((int)group) - 1;
	bool arrived = __shfl_sync(group, want->arrived, leader);
	uint32_t frame = __shfl_sync(group, want->frame, leader);
	int rc = __shfl_sync(group, want->rc, leader);

	if (arrived)
		fth_gpu_act_(cache, access, frame);
	if (rc < 0) {
		want->rc = rc;
		access->done = true;
	}
	__syncwarp(group);
	if (!want->owner || !arrived)
		return;
	fth_gpu_publish_(want, access->op >= FTH_GPU_OP_SET ? FTH_LINE_DIRTY : 0, false);
	if (access->op >= FTH_GPU_OP_SET)
		fth_gpu_dirties_(cache);
	want->owner = false;
}

/* One look of a group at its line. True: another warp fetches it. */
FTH_GPU bool fth_gpu_look_at_line_(struct fth_gpu_cache_state *cache, uint32_t group,
				   struct fth_gpu_want *want, struct fth_gpu_access *access)
{
	int leader = __ffs((int)group) - 1;
	bool leads = (int)fth_warp_lane() == leader;
	/* acquire: the line's data is read after this. */
	uint64_t now = leads ? fth_load_acquire_dev64(want->word) : 0;

	/* A shuffle orders nothing: the barrier puts all lanes' accesses after the acquire. */
	__syncwarp(group);
	now = __shfl_sync(group, now, leader);
	if (!fth_line_ready(now)) {
		int error = fth_gpu_wait_for_(want, now);

		if (error) {
			want->rc = -error;
			access->done = true;
			return false;
		}
		if (leads)
			want->owner = fth_gpu_own_(want->word, now);
		access->done = access->op == FTH_GPU_OP_PREFETCH && (now & FTH_LINE_BUSY);
		return (now & FTH_LINE_BUSY) != 0;
	}
	if (access->op == FTH_GPU_OP_PREFETCH)
		access->done = true;
	else if (access->op == FTH_GPU_OP_GET)
		fth_gpu_read_there_(cache, access, want->word, now, leads);
	else
		fth_gpu_change_there_(cache, group, access, want->word, leads);
	return false;
}

/* The time of a group is over: without a frame for the line, or with one that another fetches. */
FTH_GPU void fth_gpu_expire_(struct fth_gpu_cache_state *cache, uint32_t group,
			     struct fth_gpu_want *want, struct fth_gpu_access *access)
{
	bool owned = __any_sync(group, want->owner);

	if (want->owner)
		fth_gpu_give_up_frame_(cache, want);
	else if (!owned)
		fth_gpu_note_(cache, -ETIMEDOUT, 0, want->array, want->line, false);
	want->rc = owned ? -ENOBUFS : -ETIMEDOUT;
	access->done = true;
}

/* All lanes of mask, until each has had its access: all of them read, or all change. */
FTH_GPU void fth_gpu_access_all_(struct fth_gpu_cache_state *cache, uint32_t mask,
				 struct fth_gpu_want *want, struct fth_gpu_access *access)
{
	uint32_t peers = __match_any_sync(mask, (uint64_t)want->array << 48 | want->line);
	uint32_t ns = FTH_NVME_PAUSE_FIRST, left, lane = fth_warp_lane();
	uint64_t deadline = fth_deadline_ns(cache->timeout_ns);
	bool merged = false;

	while ((left = __ballot_sync(mask, !access->done)) != 0) {
		uint32_t group = peers & left;
		bool fetching;

		if (!access->done && !__any_sync(group, want->owner) &&
		    fth_gpu_look_at_line_(cache, group, want, access))
			merged = merged || (int)lane == __ffs((int)group) - 1;
		__syncwarp(mask);
		fetching = __any_sync(mask, want->owner);
		/* Of a group that read without a reference some may be through, and others not. */
		group = peers & __ballot_sync(mask, !access->done);
		if (fetching) {
			fth_gpu_fetch_round_(cache, mask, want);
			if (!access->done)
				fth_gpu_arrive_(cache, group, want, access);
			__syncwarp(mask);
		}
		if (__ballot_sync(mask, !access->done) != left)
			continue;
		fth_nvme_warp_pause_(&ns);
		/* One lane's clock decides, so that the lanes agree. */
		if (__any_sync(mask, fth_now_ns() >= deadline) && !access->done)
			fth_gpu_expire_(cache, group, want, access);
	}
	fth_gpu_count_(cache, mask, merged, FTH_GPU_MERGED);
	fth_gpu_count_(cache, mask, want->rc < 0, FTH_GPU_ERRORS);
}

/*
 * What the inlined part of an access cannot do: one element of `size` bytes at `byte` of an array.
 * Lanes that call it at the same time, wherever in the kernel they come from, work together if they
 * all read, or all change, arrays of one cache.
 */
FTH_GPU_CALL struct fth_gpu_value fth_gpu_access_(struct fth_gpu_cache_state *cache, uint32_t array,
						  uint64_t byte, enum fth_gpu_op op, uint32_t size,
						  uint64_t value, uint64_t expected)
{
	struct fth_gpu_range *range = &cache->ranges[array];
	/* The state of a cache is aligned: the lowest bit of its address is free. */
	uint32_t mask = fth_warp_together((uint64_t)cache | (op >= FTH_GPU_OP_SET));
	struct fth_gpu_access access = {};
	struct fth_gpu_want want = {};
	struct fth_gpu_value out;

	want.line = byte >> cache->line_shift;
	want.word = &range->words[want.line];
	want.array = array;
	want.frame = FTH_GPU_NO_FRAME;
	access.op = op;
	access.size = size;
	access.offset = (uint32_t)byte & ((1u << cache->line_shift) - 1);
	access.value = value;
	access.expected = expected;
	if (want.line >= range->lines || (range->readonly && op >= FTH_GPU_OP_SET)) {
		access.done = true;
		want.rc = want.line >= range->lines ? -ERANGE : -EROFS;
	}
	fth_gpu_access_all_(cache, mask, &want, &access);
	out.bits = access.result;
	out.rc = want.rc;
	return out;
}

#endif
#endif
