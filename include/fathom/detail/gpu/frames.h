/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames and transfers of a cache in GPU memory, for fathom/detail/gpu/lines.h. Device code only.
 *
 * The tag of a frame says whose it is:
 *
 *	63..56   55..45   44..0
 *	array    version  line		or FREE, CLAIMED in place of the array
 *
 * Invariants, beyond rules 1 to 5 of fathom/detail/hd/line.h
 *  6. A frame that is FREE belongs to whoever swaps that for CLAIMED; one whose line is in the
 *     cache, to whoever takes that line out of its word. Its tag and bytes are that warp's until it
 *     publishes the word of the frame's next line, or makes it FREE.
 *  7. A tag is a hint: only a word that is VALID and names the frame proves that its line is there.
 *     The version comes from the word for the same reason.
 *  8. A warp that owns a write-back sends it before it looks for anything else, and sends nothing
 *     while it waits for command ids that others hold: no ids are held while it waits for more. So
 *     nobody waits in a circle.
 *  9. A frame whose transfer was sent and not answered, for want of time or because the queue pair
 *     failed, is never used again: the drive may still come to it. For a write the line stays where
 *     it is, by a reference that nobody drops. A drive that reaches slots of host memory only
 *     (fathom/detail/gpu/bounce.h) would not come to the frame, and is treated alike.
 * 10. A write that was left behind in such a slot may still happen, with what the line was then. So
 *     the line is not written again: it stays WRITING, and flushes fail, until the cache is closed.
 *     After a failure of the queue pair there is nothing to fear: who starts the drive again has
 *     ended its commands.
 */
#ifndef FATHOM_GPU_FRAMES_H
#define FATHOM_GPU_FRAMES_H

#include "fathom/gpu/cache.h"
#include "fathom/gpu/io.h"

#if defined(__CUDACC__) || defined(FTH_WARP_ON_HOST)

#ifdef FTH_WARP_ON_HOST
#define FTH_GPU		       static inline
#define FTH_GPU_CALL	       static inline
#define FTH_GPU_FAR_(function) function
#else
#define FTH_GPU		       static __device__ __forceinline__
/* The way of a miss: called, so that its registers are not those of every kernel. */
#define FTH_GPU_CALL	       static inline __device__ __noinline__

/*
 * How a kernel gets there: by a pointer that the compiler cannot see through. It would otherwise
 * give all of the kernel's registers to the called function, and keep what the kernel needs in
 * memory, hit or miss. By the convention for unknown functions the called one saves registers.
 */
template <typename F, F function> FTH_GPU F fth_gpu_far_(void)
{
	static __device__ F pointer = function;

	return *(F volatile *)&pointer;
}
#define FTH_GPU_FAR_(function) (fth_gpu_far_<decltype(&function), &function>())

/* Which thread of its block this is, in the order that warps are made in; and how many it has. */
FTH_GPU uint32_t fth_gpu_thread_(void)
{
	return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

FTH_GPU uint32_t fth_gpu_threads_(void)
{
	return blockDim.x * blockDim.y * blockDim.z;
}

/*
 * A number that other warps do not have, and the same in all lanes of a warp: its queue pair comes
 * from it. Blocks may be of several rows, and a warp of parts of two.
 */
FTH_GPU uint32_t fth_gpu_warp_(void)
{
	uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);

	return block * ((fth_gpu_threads_() + 31) / 32) + fth_gpu_thread_() / 32;
}
#endif

#define FTH_GPU_NO_FRAME      UINT32_MAX
#define FTH_GPU_TAG_ARRAY     56
#define FTH_GPU_TAG_VERSION   45
#define FTH_GPU_TAG_LINE_MASK (((uint64_t)1 << FTH_GPU_TAG_VERSION) - 1)
#define FTH_GPU_TAG_FREE      0xffu
#define FTH_GPU_TAG_CLAIMED   0xfeu
#define FTH_GPU_LOOKS	      32u /* of the hand, for each lane, before others get their turn */

FTH_GPU uint64_t fth_gpu_tag_(uint32_t array, uint32_t version, uint64_t line)
{
	version &= (1u << FTH_LINE_VERSION_BITS) - 1;
	return (uint64_t)array << FTH_GPU_TAG_ARRAY | (uint64_t)version << FTH_GPU_TAG_VERSION |
	       line;
}

FTH_GPU uint32_t fth_gpu_tag_array_(uint64_t tag)
{
	return (uint32_t)(tag >> FTH_GPU_TAG_ARRAY);
}

FTH_GPU uint32_t fth_gpu_version_(uint64_t word)
{
	return (uint32_t)((word & FTH_LINE_VERSION_MASK) >> FTH_LINE_VERSION_SHIFT);
}

FTH_GPU uint8_t *fth_gpu_frame_(const struct fth_gpu_cache_state *cache, uint32_t frame)
{
	return cache->data + ((uint64_t)frame << cache->line_shift);
}

/* One add for all lanes of mask that say yes. */
FTH_GPU void fth_gpu_count_(struct fth_gpu_cache_state *cache, uint32_t mask, bool yes,
			    enum fth_gpu_stat which)
{
	uint32_t lanes = __ballot_sync(mask, yes);

	if (lanes && fth_warp_lane() == (uint32_t)__ffs((int)lanes) - 1)
		fth_add_relaxed_dev64(&cache->stats[fth_gpu_warp_() % FTH_GPU_STAT_SHARDS][which],
				      (uint64_t)__popc(lanes));
}

/* A line is or will be dirty: from now on the hand looks for such lines ahead. */
FTH_GPU void fth_gpu_dirties_(struct fth_gpu_cache_state *cache)
{
	if (!fth_load_relaxed_dev32(&cache->dirtied))
		fth_store_relaxed_dev32(&cache->dirtied, 1);
}

FTH_GPU void fth_gpu_note_(struct fth_gpu_cache_state *cache, int error, uint32_t status,
			   uint32_t array, uint64_t line, bool write)
{
	struct fth_gpu_failure *failure = &cache->failure;

	if (fth_xchg_acqrel_dev32(&failure->taken, 1))
		return;
	failure->error = error;
	failure->status = status;
	failure->array = array;
	failure->line = line;
	failure->write = write;
}

/* ---- transfers ---- */

/* One between a frame and its line; every lane has one of its own. */
struct fth_gpu_move {
	bool want; /* it is to be done, or under way */
	uint8_t opcode;
	uint32_t id; /* of the command that is under way, or FTH_NVME_NO_ID */
	uint32_t array;
	uint32_t frame;
	uint32_t ssd;
	uint64_t line;
	int rc; /* once it is done */
	uint32_t status;
	bool lost; /* it was sent and never answered: the drive may still come to its frame */
};

FTH_GPU struct fth_gpu_move fth_gpu_move_none_(void)
{
	struct fth_gpu_move move = {};

	move.id = FTH_NVME_NO_ID;
	return move;
}

FTH_GPU void fth_gpu_move_set_(struct fth_gpu_move *move, uint8_t opcode, uint32_t array,
			       uint64_t line, uint32_t frame)
{
	move->want = true;
	move->opcode = opcode;
	move->array = array;
	move->line = line;
	move->frame = frame;
	move->rc = 0;
	move->status = 0;
}

/* Where its line is: the SSD into move->ssd, the block there returned. */
FTH_GPU uint64_t fth_gpu_move_block_(const struct fth_gpu_cache_state *cache,
				     struct fth_gpu_move *move)
{
	const struct fth_gpu_range *range = &cache->ranges[move->array];
	uint32_t ssds = cache->drive.ssds;
	uint64_t line = move->line;

	move->ssd = 0;
	if (ssds > 1) {
		move->ssd = (range->replicated ? fth_gpu_warp_() : (uint32_t)(line % ssds)) % ssds;
		line = range->replicated ? line : line / ssds;
	}
	return range->first_block + line * cache->blocks_per_line;
}

/* The blocks of a line that begins there: fewer where the drive ends within an array's last one. */
FTH_GPU uint32_t fth_gpu_move_blocks_(const struct fth_gpu_cache_state *cache, uint64_t first)
{
	uint64_t left = cache->drive.blocks - first;

	/* All of one that begins at the end or beyond: the drive will say what is wrong. */
	return left - 1 < cache->blocks_per_line - 1 ? (uint32_t)left : cache->blocks_per_line;
}

FTH_GPU struct fth_nvme_qp *fth_gpu_move_queue_(const struct fth_gpu_cache_state *cache,
						uint32_t ssd)
{
	uint32_t ssds = cache->drive.ssds, each = cache->drive.queues / ssds;

	return &cache->drive.qps[fth_gpu_warp_() % each * ssds + ssd];
}

/*
 * Send what is wanted and not under way, SSD by SSD. Lanes that get no command id keep theirs for
 * the next call; `patient` waits for at least one, and nothing else must be under way then.
 */
FTH_GPU_CALL void fth_gpu_move_send_(struct fth_gpu_cache_state *cache, uint32_t mask,
				     struct fth_gpu_move *move, bool patient, uint64_t deadline)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(mask);
	struct fth_nvme_sqe command = {};
	uint32_t todo = __ballot_sync(mask, move->want && move->id == FTH_NVME_NO_ID), bytes = 0;

	if (move->want) {
		struct fth_gpu_io io = {};

		io.first = fth_gpu_move_block_(cache, move);
		io.blocks = fth_gpu_move_blocks_(cache, io.first);
		io.opcode = move->opcode;
		io.memory = fth_gpu_frame_(cache, move->frame);
		bytes = io.blocks << cache->drive.block_shift;
		command = fth_gpu_io_command_(&io, bytes);
	}
	while (todo) {
		uint32_t ssd = __shfl_sync(mask, move->ssd, __ffs((int)todo) - 1);
		bool mine = (todo >> warp.lane & 1) && move->ssd == ssd;
		struct fth_nvme_qp *qp = fth_gpu_move_queue_(cache, ssd);
		uint32_t id = FTH_NVME_NO_ID;
		int rc = 0;

		if (patient)
			rc = fth_nvme_warp_take_wait(qp, &warp, mine, fth_gpu_warp_(), deadline,
						     &id);
		else
			id = fth_nvme_warp_take(qp, &warp, mine, fth_gpu_warp_());
		patient = false;
		if (__any_sync(mask, id != FTH_NVME_NO_ID)) {
			if (cache->drive.bounce)
				fth_gpu_bounce_out_(&cache->drive, qp, &warp, id,
						    fth_gpu_frame_(cache, move->frame), bytes,
						    &command);
			fth_nvme_warp_put(qp, &warp, id, &command);
			fth_nvme_warp_ring(qp, &warp);
		}
		if (mine) {
			move->id = id;
			move->rc = rc;
			move->want = rc == 0;
		}
		todo &= ~__ballot_sync(mask, mine);
	}
}

/* Wait for all that is under way, SSD by SSD. */
FTH_GPU_CALL void fth_gpu_move_wait_(struct fth_gpu_cache_state *cache, uint32_t mask,
				     struct fth_gpu_move *move, uint64_t deadline)
{
	struct fth_nvme_warp warp = fth_nvme_warp_of(mask);
	uint32_t todo = __ballot_sync(mask, move->id != FTH_NVME_NO_ID);

	while (todo) {
		uint32_t ssd = __shfl_sync(mask, move->ssd, __ffs((int)todo) - 1);
		bool mine = (todo >> warp.lane & 1) && move->ssd == ssd;
		struct fth_nvme_qp *qp = fth_gpu_move_queue_(cache, ssd);
		struct fth_nvme_done done = {0, 0};
		uint32_t id = mine ? move->id : FTH_NVME_NO_ID;
		int rc = fth_nvme_warp_wait_keep(qp, &warp, id, deadline, &done);

		if (cache->drive.bounce)
			fth_gpu_bounce_in_(&cache->drive, qp, &warp, id,
					   mine && rc == 0 && move->opcode == FTH_NVME_READ &&
						   fth_nvme_status_errno(done.status) == 0,
					   fth_gpu_frame_(cache, move->frame),
					   1u << cache->line_shift);
		fth_nvme_warp_release(qp, &warp, rc < 0 ? FTH_NVME_NO_ID : id);
		if (mine) {
			move->rc = rc < 0 ? rc : fth_nvme_status_errno(done.status);
			move->status = rc < 0 ? 0 : done.status;
			move->lost = rc < 0;
			move->id = FTH_NVME_NO_ID;
			move->want = false;
		}
		if (cache->drive.order && __any_sync(mask, mine && move->opcode == FTH_NVME_READ)) {
			rc = fth_gpu_order_wait_(&cache->drive, qp, &warp, fth_gpu_warp_(),
						 deadline);
			if (mine && move->rc == 0) {
				move->rc = rc;
				move->lost = rc < 0;
			}
		}
		todo &= ~__ballot_sync(mask, mine);
	}
}

/* Both, for one read and one write of each lane, all of them under way together. */
FTH_GPU_CALL void fth_gpu_move_both_(struct fth_gpu_cache_state *cache, uint32_t mask,
				     struct fth_gpu_move *read, struct fth_gpu_move *write)
{
	uint64_t deadline = fth_deadline_ns(cache->timeout_ns);

	while (__any_sync(mask, read->want || write->want)) {
		bool reads = __any_sync(mask, read->want), writes = __any_sync(mask, write->want);

		if (reads)
			fth_gpu_move_send_(cache, mask, read, true, deadline);
		if (writes)
			fth_gpu_move_send_(cache, mask, write, !reads, deadline);
		if (reads)
			fth_gpu_move_wait_(cache, mask, read, deadline);
		if (writes)
			fth_gpu_move_wait_(cache, mask, write, deadline);
	}
}

/* ---- frames ---- */

/* The word of the line that a tag names; NULL if it names none. */
FTH_GPU uint64_t *fth_gpu_tag_word_(const struct fth_gpu_cache_state *cache, uint64_t tag)
{
	uint32_t array = fth_gpu_tag_array_(tag);

	return array < FTH_GPU_ARRAYS_MAX ? &cache->ranges[array].words[tag & FTH_GPU_TAG_LINE_MASK]
					  : NULL;
}

/* Own the write-back of a line, if it is dirty and this lane has none yet. */
FTH_GPU bool fth_gpu_start_write_(uint64_t tag, uint64_t *word, struct fth_gpu_move *write)
{
	if (write->want || !fth_line_start_write(word))
		return false;
	/* The line may have moved before we held it: what its word says now stays true. */
	fth_gpu_move_set_(write, FTH_NVME_WRITE, fth_gpu_tag_array_(tag),
			  tag & FTH_GPU_TAG_LINE_MASK,
			  fth_line_frame(fth_load_relaxed_dev64(word)));
	return true;
}

/* The hand is at frame f: true if it is ours now, with *version. A dirty line goes to *write. */
FTH_GPU bool fth_gpu_look_(struct fth_gpu_cache_state *cache, uint32_t f, uint32_t *version,
			   struct fth_gpu_move *write)
{
	uint64_t tag = fth_load_relaxed_dev64(&cache->tags[f]), now;
	uint64_t *word = fth_gpu_tag_word_(cache, tag);

	if (!word) {
		*version = (uint32_t)(tag >> FTH_GPU_TAG_VERSION) + 1;
		/* acquire: what its last user did to the frame is over. */
		return fth_gpu_tag_array_(tag) == FTH_GPU_TAG_FREE &&
		       fth_cas_acquire_dev64(&cache->tags[f], &tag,
					     fth_gpu_tag_(FTH_GPU_TAG_CLAIMED, 0, 0));
	}
	now = fth_load_relaxed_dev64(word);
	if (!fth_line_ready(now) || fth_line_frame(now) != f || fth_line_count(now))
		return false;
	if (now & FTH_LINE_HOT) {
		/* A line that was replaced meanwhile loses a bit that it has yet to earn. */
		fth_and_relaxed_dev64(word, ~FTH_LINE_HOT);
		return false;
	}
	if (now & FTH_LINE_DIRTY) {
		fth_gpu_start_write_(tag, word, write);
		return false;
	}
	*version = fth_gpu_version_(now) + 1;
	return fth_line_evictable(now) && fth_line_evict(word, now);
}

/* Write what the hand will come to, so that it is clean by then. */
FTH_GPU void fth_gpu_look_ahead_(struct fth_gpu_cache_state *cache, uint32_t f,
				 struct fth_gpu_move *write)
{
	uint64_t tag = fth_load_relaxed_dev64(&cache->tags[f]), now;
	uint64_t *word = fth_gpu_tag_word_(cache, tag);

	if (!word || write->want)
		return;
	now = fth_load_relaxed_dev64(word);
	if ((now & (FTH_LINE_VALID | FTH_LINE_DIRTY | FTH_LINE_WRITING | FTH_LINE_HOT)) ==
		    (FTH_LINE_VALID | FTH_LINE_DIRTY) &&
	    !fth_line_count(now))
		fth_gpu_start_write_(tag, word, write);
}

/*
 * Look for a frame for each lane that needs one; places are dealt out by one add for all. Ends
 * after a number of looks: some lanes may have got none.
 */
FTH_GPU_CALL void fth_gpu_take_frames_(struct fth_gpu_cache_state *cache, uint32_t mask, bool need,
				       uint32_t *frame, uint32_t *version,
				       struct fth_gpu_move *write)
{
	bool dirty = fth_load_relaxed_dev32(&cache->dirtied), evicted = false;
	uint32_t lane = fth_warp_lane(), leader = (uint32_t)__ffs((int)mask) - 1, needing;

	for (uint32_t looks = 0;
	     looks < FTH_GPU_LOOKS && (needing = __ballot_sync(mask, need)) != 0; looks++) {
		uint64_t place = 0;
		uint32_t f;

		/* relaxed: it only deals out places to look at. */
		if (lane == leader)
			place = fth_add_relaxed_dev64(&cache->hand, (uint64_t)__popc(needing));
		place = __shfl_sync(mask, place, (int)leader);
		if (!need)
			continue;
		place += (uint64_t)__popc(needing & ((1u << lane) - 1));
		f = (uint32_t)(place % cache->frames);
		if (fth_gpu_look_(cache, f, version, write)) {
			evicted = fth_gpu_tag_array_(fth_load_relaxed_dev64(&cache->tags[f])) <
				  FTH_GPU_ARRAYS_MAX;
			*frame = f;
			need = false;
		}
		if (dirty)
			fth_gpu_look_ahead_(
				cache, (uint32_t)((place + cache->ahead) % cache->frames), write);
	}
	fth_gpu_count_(cache, mask, evicted, FTH_GPU_EVICTIONS);
}

/* After a write-back. Its frame becomes the lane's if that has none and the line is clean. */
FTH_GPU bool fth_gpu_after_write_(struct fth_gpu_cache_state *cache,
				  const struct fth_gpu_move *write, bool need, uint32_t *frame,
				  uint32_t *version)
{
	uint64_t *word = &cache->ranges[write->array].words[write->line], now;

	if (write->rc < 0)
		fth_gpu_note_(cache, write->rc, write->status, write->array, write->line, true);
	if (write->lost && write->rc == -ETIME && cache->drive.bounce)
		return false; /* invariant 10 */
	if (write->lost)
		fth_line_ref(word, 1); /* for good (invariant 9) */
	fth_line_end_write(word, write->rc == 0);
	now = fth_load_relaxed_dev64(word);
	if (!need || *frame != FTH_GPU_NO_FRAME || !fth_line_evictable(now) || now & FTH_LINE_HOT ||
	    !fth_line_evict(word, now))
		return false;
	*frame = fth_line_frame(now);
	*version = fth_gpu_version_(now) + 1;
	return true;
}

/* Give a frame back that holds nothing. */
FTH_GPU void fth_gpu_free_frame_(struct fth_gpu_cache_state *cache, uint32_t frame,
				 uint32_t version)
{
	/* release: we have done with the frame before it is anyone's. */
	fth_store_release_dev64(&cache->tags[frame], fth_gpu_tag_(FTH_GPU_TAG_FREE, version, 0));
}

#endif
#endif
