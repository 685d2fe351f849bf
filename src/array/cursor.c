/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pointers into lines: pins, and cursors that move their one pin along.
 *
 * A cursor that steps from a line to the next is taken to go on: it asks for the lines ahead, in
 * steps of half its reach, so that a request for several lines is made rather than one for each,
 * and the first half is being used while the second is on its way.
 */
#include "internal.h"

#define REACH_BYTES (512u << 10) /* how far ahead of itself a cursor prefetches */
#define REACH_MIN   4		 /* lines */
#define REACH_MAX   64
#define REACH_SHARE 8 /* at most one of so many frames */

#define TOUCH_BYTES 1024u
#define TOUCH_STEP  64u /* a line of the processor's cache */

int fth_array_pin(struct fth_array *array, uint64_t i, enum fth_cache_mode mode,
		  struct fth_array_pin *out)
{
	uint64_t line;
	int rc;

	*out = (struct fth_array_pin){0};
	if (i >= array->count)
		return fth_array_out_of_range(array, i);
	line = fth_array_line_of(array, i);
	mode = fth_array_line_mode(array, line, mode);
	rc = fth_array_pin_line(array, line, mode, &out->pin);
	if (rc < 0)
		return rc;
	out->data = out->pin.data;
	out->first = fth_array_line_first(array, line);
	out->count = fth_array_line_end(array, line) - out->first;
	fth_cache_wanted(array->cache, out->count << array->shift);
	return 0;
}

void fth_array_unpin(struct fth_array_pin *pin, bool changed)
{
	if (!pin->data)
		return;
	fth_cache_unpin(&pin->pin, changed);
	pin->data = NULL;
	pin->count = 0;
}

/* ---- cursors ---- */

static uint64_t reach_of(const struct fth_array *array)
{
	uint64_t reach = REACH_BYTES >> array->view.line_shift;
	struct fth_cache_footprint footprint;

	fth_cache_footprint(array->cache, &footprint);
	reach = reach > REACH_MAX ? REACH_MAX : reach < REACH_MIN ? REACH_MIN : reach;
	return reach < footprint.frames / REACH_SHARE ? reach : footprint.frames / REACH_SHARE;
}

void fth_cursor_open(struct fth_cursor *cursor, struct fth_array *array, enum fth_cache_mode mode)
{
	*cursor = (struct fth_cursor){.array = array, .mode = mode, .reach = reach_of(array)};
}

static void let_go(struct fth_cursor *cursor)
{
	if (cursor->count == 0)
		return;
	if (cursor->mode == FTH_CACHE_READ)
		fth_line_unref(cursor->pin.word, 1);
	else
		fth_cache_unpin(&cursor->pin, cursor->changed);
	cursor->count = 0;
	cursor->changed = false;
}

void fth_cursor_close(struct fth_cursor *cursor)
{
	let_go(cursor);
}

int fth_cursor_refuse(void)
{
	return fth_fail(EROFS, "array: the cursor was opened for reading only");
}

/* The cursor has stepped onto `line` from the one before it. */
static void look_ahead(struct fth_cursor *cursor, uint64_t line)
{
	uint64_t lines = fth_array_line_of(cursor->array, cursor->array->count - 1) + 1, to;

	if (cursor->ahead <= line)
		cursor->ahead = line + 1;
	to = line + cursor->reach;
	to = to < lines ? to : lines;
	if (cursor->ahead >= to || (to - cursor->ahead < cursor->reach / 2 && to < lines))
		return;
	fth_cache_prefetch(cursor->array->range, cursor->ahead, to - cursor->ahead);
	cursor->ahead = to;
}

/*
 * Ask the processor for the beginning of the next line, if that is in memory: where a line ends its
 * own looking ahead ends too, and the pins in between let it wait for all that it has begun.
 */
static void touch_next(const struct fth_array *array, uint64_t line)
{
	uint64_t word;
	const uint8_t *frame;

	if (!array->words || (line + 1) << array->view.line_shift >= array->view.bytes)
		return;
	/* relaxed: no data is looked at, and asking for the wrong bytes does no harm. */
	word = fth_load_relaxed_dev64(&array->words[line + 1]);
	if (!fth_line_ready(word))
		return;
	frame = fth_array_frame(array, word);
	for (unsigned at = 0; at < TOUCH_BYTES; at += TOUCH_STEP)
		__builtin_prefetch(frame + at);
}

/*
 * Pin a line that is hot, to read, without a call into the cache: what a cursor over lines in
 * memory does most. False: it is not hot, and nothing was done.
 */
static bool pin_hot(struct fth_array *array, uint64_t line, struct fth_cache_pin *pin)
{
	uint64_t *word, now;

	if (!array->words)
		return false;
	word = &array->words[line];
	/* acquire: the data is read after this. */
	now = fth_line_ref(word, 1);
	if (!(now & FTH_LINE_HOT) || fth_line_count(now) >= FTH_LINE_COUNT_LIMIT) {
		fth_line_unref(word, 1);
		return false;
	}
	*pin = (struct fth_cache_pin){
		.data = fth_array_frame(array, now),
		.word = word,
		.range = array->range,
		.line = line,
		.mode = FTH_CACHE_READ,
	};
	fth_stats_add(array->view.stats, FTH_CACHE_HITS, 1);
	return true;
}

static int pin_line(struct fth_cursor *cursor, uint64_t line)
{
	struct fth_array *array = cursor->array;
	enum fth_cache_mode mode;

	if (cursor->mode == FTH_CACHE_READ && pin_hot(array, line, &cursor->pin))
		return 0;
	mode = fth_array_line_mode(array, line, cursor->mode);
	return fth_array_pin_line(array, line, mode, &cursor->pin);
}

int fth_cursor_move(struct fth_cursor *cursor, uint64_t i, size_t size)
{
	struct fth_array *array = cursor->array;
	uint64_t line, before = cursor->pin.line;
	bool steps = cursor->count > 0 && i >> array->per_line == before + 1;
	int rc;

	let_go(cursor);
	rc = fth_array_check_size(array, size);
	if (rc < 0)
		return rc;
	if (i >= array->count)
		return fth_array_out_of_range(array, i);
	line = fth_array_line_of(array, i);
	if (steps && cursor->mode != FTH_CACHE_OVERWRITE)
		look_ahead(cursor, line);
	rc = pin_line(cursor, line);
	if (rc < 0)
		return rc;
	cursor->data = cursor->pin.data;
	cursor->first = fth_array_line_first(array, line);
	cursor->count = fth_array_line_end(array, line) - cursor->first;
	cursor->changed = cursor->mode != FTH_CACHE_READ;
	if (steps)
		touch_next(array, line);
	fth_cache_wanted(array->cache, cursor->count << array->shift);
	return 0;
}
