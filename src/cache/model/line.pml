/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The word of a cache line, include/fathom/detail/hd/line.h, as the full cache of this folder uses it.
 *
 * Line 0 has two elements: thread 0 sets the first, thread 1 the second, and each flushes what it
 * set. A third thread reads line 1, so that lines are replaced; a fourth looks at line 0 without a
 * reference; a fifth writes dirty lines back. Fetches and writes may fail, FAILURES times in all.
 *
 * Checked
 * 1. Whoever has a reference on a line that was VALID finds that line's data in the frame, until it
 *    lets go. A look without a reference finds it, or finds out.
 * 2. A frame has one user: the line that names it, or the thread that took it.
 * 3. What was set before a flush is on the medium after it.
 * 4. At most one write of a line is in flight, and none while it is fetched.
 * 5. Nobody waits for ever: no state without a next step but the last one.
 * 6. A thread that gets the error of a fetch has waited for a fetch that failed.
 *
 * Sizes     FRAMES     1 or 2
 *           SETS       by each of the first two threads
 *           LOOKS      without a reference
 *           FAILURES
 * Switches  BROKEN_DIRTY_FIRST   DIRTY is set before the bytes are changed
 *           BROKEN_EVICT_COUNT   eviction does not look at the count
 *           BROKEN_EVICT_DIRTY   eviction does not look at DIRTY
 *           BROKEN_NO_VERSION    a look without a reference compares the frame alone
 *           BROKEN_TWO_WRITES    a write-back does not look at WRITING
 *           BROKEN_FLUSH_CLEAN   a flush takes a line for clean that is being written
 *           BROKEN_STICKY_ERROR  a thread that finds an error takes it for its own
 */
#ifndef FRAMES
#define FRAMES 1
#endif
#ifndef SETS
#define SETS 2
#endif
#ifndef LOOKS
#define LOOKS 1
#endif
#ifndef FAILURES
#define FAILURES 1
#endif

#define LINES 2
#define NONE  255

/* ---- the words ---- */

bool valid[LINES], busy[LINES], dirty[LINES], writing[LINES];
byte count[LINES];
byte turn[LINES];		/* failed fetches; shares its bits with the version */
byte frame[LINES] = NONE;
byte version[LINES];

/* ---- frames and the medium ---- */

byte user[FRAMES] = NONE;	/* the line that names it; LINES: a thread has it; NONE: free */
byte frame_version[FRAMES];
byte held[FRAMES] = NONE;	/* whose data is in it */
byte first[FRAMES], second[FRAMES];	/* the data: values of the two elements */

byte medium_first[LINES], medium_second[LINES];
byte in_flight[LINES];		/* writes of the line */

byte failures = FAILURES;
byte left;			/* threads that are through, of the first four */

/* ---- references ---- */

/* fth_line_unref() */
inline unref(l)
{
	atomic { assert(count[l] > 0); count[l]-- }
}

#ifdef BROKEN_EVICT_COUNT
#define UNUSED(l) (true)
#else
#define UNUSED(l) (count[l] == 0)
#endif
#ifdef BROKEN_EVICT_DIRTY
#define CLEAN(l) (!writing[l])
#else
#define CLEAN(l) (!dirty[l] && !writing[l])
#endif
#define EVICTABLE(l) (valid[l] && CLEAN(l) && UNUSED(l))

/* fth_line_evict(): one swap of the whole word. */
inline evict(l)
{
	f = frame[l];
	valid[l] = false;
	dirty[l] = false;
	frame[l] = NONE;
	version[l] = 0;
	user[f] = LINES
}

/* A frame for the thread alone: a free one, or one whose line goes. */
inline take_frame()
{
	atomic {
		if
		:: user[0] == NONE -> f = 0; user[0] = LINES
#if FRAMES > 1
		:: user[1] == NONE -> f = 1; user[1] = LINES
#endif
		:: EVICTABLE(0) -> evict(0)
		:: EVICTABLE(1) -> evict(1)
		fi;
		frame_version[f]++
	}
}

/* ---- fetching ---- */

inline publish(l)
{
	atomic {
		assert(busy[l] && !valid[l] && user[f] == LINES);
		busy[l] = false;
		valid[l] = true;
		turn[l] = 0;
		frame[l] = f;
		version[l] = frame_version[f];
		user[f] = l
	}
}

/* fth_line_fail(), or fth_line_disown() by an owner that does not know. */
inline give_up(l)
{
	atomic { assert(user[f] == LINES); user[f] = NONE; f = NONE };
	if
	:: atomic { assert(busy[l]); busy[l] = false; turn[l]++ }
	:: atomic { assert(busy[l]); busy[l] = false }
	fi
}

/* The owner of a miss: while the bytes arrive the frame holds neither line. */
inline fetch(l)
{
	take_frame();
	held[f] = NONE;
	if
	:: atomic {
		assert(in_flight[l] == 0);
		held[f] = l;
		first[f] = medium_first[l];
		second[f] = medium_second[l]
	   };
		publish(l)
	:: atomic { failures > 0 -> failures-- };
		give_up(l)
	fi
}

#ifdef BROKEN_STICKY_ERROR
#define FREE_TO_FETCH(l) (!valid[l] && !busy[l] && turn[l] == 0)
#else
#define FREE_TO_FETCH(l) (!valid[l] && !busy[l])
#endif

/*
 * A reference on a line that is there; fetched, or waited for, or tried again after a failure. A
 * thread that gets an error has waited for a fetch that failed: the turn is not that of its coming.
 */
inline acquire(l)
{
	f = NONE;
	do
	:: f == NONE ->
		atomic { count[l]++; t = turn[l] };
		if
		:: atomic { valid[l] -> f = frame[l] }
		:: atomic { FREE_TO_FETCH(l) -> busy[l] = true };
			fetch(l);
			if
			:: f == NONE -> unref(l)
			:: else -> skip
			fi
		:: atomic { busy[l] -> t = turn[l] };
			if
			:: atomic { valid[l] -> f = frame[l] }
			:: atomic { !valid[l] && turn[l] != t -> skip };	/* failed */
				unref(l)
			:: atomic { !valid[l] && !busy[l] && turn[l] == t -> skip }; /* disowned */
				unref(l)
			fi
#ifdef BROKEN_STICKY_ERROR
		:: atomic { !valid[l] && !busy[l] && turn[l] > 0 -> assert(turn[l] != t) };
			unref(l)
#endif
		fi
	:: else -> break
	od;
	t = 0;
	/* Invariant 1, from here to unref. */
	assert(valid[l] && frame[l] == f && held[f] == l)
}

/* ---- writing back ---- */

#ifdef BROKEN_TWO_WRITES
#define MAY_WRITE(l) (valid[l] && dirty[l])
#else
#define MAY_WRITE(l) (valid[l] && dirty[l] && !writing[l])
#endif

/* fth_line_start_write() */
inline own_write(l)
{
	dirty[l] = false;
	writing[l] = true;
	count[l]++
}

/* The bytes leave at one moment and arrive at a later one; then fth_line_end_write(). */
inline write_back(l)
{
	atomic {
		f = frame[l];
		assert(held[f] == l);
		in_flight[l]++;
		a = first[f];
		b = second[f]
	};
	if
	:: atomic { medium_first[l] = a; medium_second[l] = b; in_flight[l]-- };
		atomic { writing[l] = false; count[l]-- }
	:: atomic { failures > 0 -> failures--; in_flight[l]-- };
		atomic { writing[l] = false; dirty[l] = true; count[l]-- }
	fi;
	atomic { a = 0; b = 0; f = NONE }
}

#ifdef BROKEN_FLUSH_CLEAN
#define WRITTEN(l) (!valid[l] || !dirty[l])
#else
#define WRITTEN(l) (!valid[l] || (!dirty[l] && !writing[l]))
#endif

inline flush(l)
{
	do
	:: atomic { MAY_WRITE(l) -> own_write(l) };
		write_back(l)
	:: WRITTEN(l) -> break
	od
}

/* ---- threads ---- */

/* Set one element of line 0, again and again, and flush it. */
active [2] proctype setter()
{
	byte f = NONE, a, b, t;
	byte value = 0;

	do
	:: value < SETS ->
		value++;
		acquire(0);
#ifdef BROKEN_DIRTY_FIRST
		dirty[0] = true;
#endif
		atomic {
			assert(valid[0] && frame[0] == f && held[f] == 0);
			if
			:: _pid == 0 -> first[f] = value
			:: else -> second[f] = value
			fi
		};
#ifdef BROKEN_DIRTY_FIRST
		count[0]--;
#else
		atomic { dirty[0] = true; count[0]-- };		/* fth_line_unref_dirty() */
#endif
		f = NONE;
		flush(0);
		assert((_pid == 0 -> medium_first[0] : medium_second[0]) >= value)
	:: else -> break
	od;
	left++
}

/* Another line wants the frame. */
active proctype reader()
{
	byte f = NONE, t;

	acquire(1);
	assert(valid[1] && frame[1] == f && held[f] == 1);
	unref(1);
	left++
}

#ifdef BROKEN_NO_VERSION
#define SAME_PLACE (valid[0] && frame[0] == f)
#else
#define SAME_PLACE (valid[0] && frame[0] == f && version[0] == v)
#endif

/* A look at line 0 without a reference: word, data, word. */
active proctype looker()
{
	byte f, v, seen, n = 0;

	do
	:: n < LOOKS ->
		n++;
		if
		:: atomic { valid[0] -> f = frame[0]; v = version[0] };
			seen = held[f];
			atomic {
				if
				:: SAME_PLACE -> assert(seen == 0)
				:: else -> skip
				fi
			}
		:: !valid[0] -> skip
		fi
	:: else -> break
	od;
	left++
}

active proctype worker()
{
	byte f = NONE, a, b;

end:	do
	:: atomic { MAY_WRITE(0) -> own_write(0) };
		write_back(0)
	:: left == 4 -> break
	od;
	/* All is over: the words say so. */
	assert(count[0] == 0 && count[1] == 0 && !busy[0] && !busy[1] && !writing[0])
}
