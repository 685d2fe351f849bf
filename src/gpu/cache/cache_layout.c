/* SPDX-License-Identifier: BSD-2-Clause */
#include "cache_layout.h"
#include "base/options.h"

#include "fathom/base/error.h"

#include <errno.h>

int fth_gpu_layout_check_line(const struct fth_gpu_view *drive, uint32_t line)
{
	if (line < FTH_GPU_LINE_MIN || line > FTH_GPU_LINE_MAX || (line & (line - 1)))
		return fth_fail(EINVAL,
				"gpu cache: line size %u is not a power of two from %u to %u", line,
				FTH_GPU_LINE_MIN, FTH_GPU_LINE_MAX);
	if (line < 1u << drive->block_shift)
		return fth_fail(EINVAL,
				"gpu cache: line size %u is smaller than the drive's blocks, %u",
				line, 1u << drive->block_shift);
	if (drive->bounce && line > drive->bounce_slot)
		return fth_fail(EINVAL,
				"gpu cache: line size %u is greater than the drive's slot, %u",
				line, drive->bounce_slot);
	return 0;
}

void fth_gpu_layout_set_lines(struct fth_gpu_cache_state *state, const struct fth_gpu_view *drive,
			      uint32_t line)
{
	state->drive = *drive;
	state->line_shift = (uint32_t)__builtin_ctz(line);
	state->blocks_per_line = line >> drive->block_shift;
}

/* SSDs that an array is striped over. */
static uint64_t stripes(const struct fth_gpu_cache_state *state,
			const struct fth_gpu_array_options *o)
{
	return o->replicated ? 1 : state->drive.ssds;
}

/*
 * To the end of the drive, within a line or not. Of stripes, whole lines: what is behind them on
 * one SSD is not followed by the next one's.
 */
uint64_t fth_gpu_layout_room(const struct fth_gpu_cache_state *state,
			     const struct fth_gpu_array_options *o)
{
	uint64_t each = state->drive.blocks << state->drive.block_shift, n = stripes(state, o);
	uint64_t from = o->offset / n, left = from < each ? each - from : 0;

	return n > 1 ? (left >> state->line_shift << state->line_shift) * n : left;
}

int fth_gpu_layout_check_array(const struct fth_gpu_cache_state *state, size_t element,
			       const struct fth_gpu_array_options *o)
{
	uint64_t ssds = stripes(state, o), room;
	uint64_t unit = ssds > 1 ? ssds << state->line_shift : 1ull << state->drive.block_shift;
	int rc = fth_options_check("gpu array", o->size, sizeof(*o));

	if (rc < 0)
		return rc;
	if (element == 0 || (element & (element - 1)) || element > 1ull << state->line_shift)
		return fth_fail(EINVAL,
				"gpu array: element size %zu is not a power of two from 1 to %llu, "
				"the line size",
				element, 1ull << state->line_shift);
	if (o->replicated && !o->readonly)
		return fth_fail(EINVAL, "gpu array: replicated requires readonly");
	if (o->offset % unit)
		return fth_fail(EINVAL, "gpu array: offset %llu is not a multiple of %llu",
				(unsigned long long)o->offset, (unsigned long long)unit);
	room = fth_gpu_layout_room(state, o);
	if (room < element || o->count > room / element)
		return fth_fail(ERANGE,
				"gpu array: %llu elements of %zu bytes do not fit: the drive has "
				"room for %llu",
				(unsigned long long)o->count, element,
				(unsigned long long)(room / element));
	return 0;
}

uint64_t fth_gpu_layout_first_block(const struct fth_gpu_cache_state *state,
				    const struct fth_gpu_array_options *o)
{
	return o->offset / stripes(state, o) >> state->drive.block_shift;
}

int fth_gpu_array_check(const struct fth_gpu_array_base *array, size_t element)
{
	size_t has = (size_t)1 << array->element_shift;

	return has == element ? 0
			      : fth_fail(EINVAL,
					 "gpu array: element size %zu, but the array has elements "
					 "of %zu bytes",
					 element, has);
}
