/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue pair of include/fathom/nvme/queue.h: threads that submit, poll, wait, give up, cancel
 * and reset, against a controller that completes in any order. README.md says how to run it.
 *
 * One step does one access to shared memory, or several that nobody can see apart (README.md tells
 * which and why). Loops that spin in C are written as conditions that block, so that a thread that
 * would spin for ever shows as an invalid end state.
 *
 * Every thread may stop after any number of commands. So one search covers every number of
 * commands, hence of wraps, and a command that never ends is still a deadlock, because all other
 * threads may have left.
 *
 * What is checked
 *  1. No deadlock: no command waits for ever, whoever else is there or has left.
 *  2. A command id has one life at a time: idle, held, submitted, fetched, posted, ended, idle.
 *     This excludes lost and doubled completions and the reuse of a live id.
 *  3. A submission entry is not overwritten before the controller has fetched it, and not fetched
 *     before it is written, or twice.
 *  4. The doorbell only moves forward, and never past an entry that is not marked.
 *  5. The completion ring is not overrun, and nothing in it is read twice.
 *  6. In the end every id and every lock is free and all heads and tails agree.
 *  7. Nothing from before a reset is seen after it.
 *
 * Sizes     S         entries of either ring
 *           C         command ids, at most S - 1, because a ring of S holds S - 1
 *           THREADS
 *           TURNS     virtual counters are kept modulo TURNS * S
 * Switches  TIMEOUTS  so many waits may give up (few: where every wait may, none hangs)
 *           RESET     one more process cancels and resets the queue pair, any number of times
 *           BROKEN_*  one mistake each, which check.sh requires to be found
 */
#ifndef S
#define S 4
#endif
#ifndef THREADS
#define THREADS 3
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif

#define Q S
#if defined(BROKEN_CIDS)
#define C S			/* S entries at once: tail == head, and the ring looks empty */
#elif !defined(C)
#define C (S - 1)
#endif
#define ALL ((1 << C) - 1)
#define BIT(i) (1 << (i))
#define NONE 255

/*
 * Tickets, heads and tails count on for ever (uint32_t in C). Two turns are enough here: they keep
 * the phase, and tell any two counters apart that are less than two turns apart.
 */
#define V (TURNS * S)
#define ADD(v, n) (((v) + (n)) % V)
#define DIST(from, to) (((to) + V - (from)) % V)
#define PHASE(v) (1 - ((v) / Q) % 2)

/* The state of a slot, as in C. */
#define FREE 0
#define WAITING 1
#define DONE 2
#define ABANDONED 3

/* The life of a command id: for the checks only, the algorithm does not look at it. */
#define IDLE 0
#define HELD 1
#define SUBMITTED 2
#define FETCHED 3
#define POSTED 4
#define ENDED 5

/*
 * The ring lock counts calls in C. Of the count matters only whether it is zero, and whether it
 * has changed since its holder looked; so three values stand for it.
 */
#define UNLOCKED 0
#define LOCKED_SEEN 1
#define LOCKED_CHANGED 2

byte free = ALL;			/* bitmap of command ids */
byte slot[C] = FREE;
byte life[C] = IDLE;

byte sq_ticket, sq_head, sq_tail;	/* virtual */
byte sq_cid[S] = NONE;			/* NONE again once fetched, so that a stale fetch shows */
byte mark[S] = NONE;
byte ring_lock = UNLOCKED;
byte sq_doorbell;			/* virtual for the checks; the controller sees it modulo S */

byte cq_cid[Q] = NONE;			/* NONE again once read, so that a second read shows */
byte cq_sqhd[Q];
bit cq_phase[Q];
byte cq_head;				/* virtual */
bool cq_lock;
byte cq_doorbell;			/* modulo Q */

bool failed;
bool enable = true, ready = true;	/* CC.EN and CSTS.RDY */

byte timeouts = TIMEOUTS;
byte left;				/* threads that have stopped */
byte idle = BIT(THREADS) - 1;		/* threads that have no command and are not polling */
#ifdef RESET
bool resetter_left;
#else
#define resetter_left true
#endif

/*
 * Idle threads are alike, and so are free command ids. So it is enough to let one idle thread take
 * one free id: any other choice leads to the same states under other names.
 */
#define FIRST_IDLE ((idle & (BIT(_pid) - 1)) == 0)

inline one_of(cid, set)
{
	if
	:: (set) & BIT(_pid) -> cid = _pid
	:: else ->
		cid = C - 1;
		do
		:: (set) & BIT(cid) -> break
		:: else -> cid--
		od
	fi
}

inline any_of(cid, set)
{
	if
	:: (set) & BIT(0) -> cid = 0
	:: (set) & BIT(1) -> cid = 1
	:: (set) & BIT(2) -> cid = 2
	:: (set) & BIT(3) -> cid = 3
	fi
}

#ifdef BROKEN_PHASE
#define IS_NEW (true)
#else
#define IS_NEW (cq_phase[cq_head % Q] == PHASE(cq_head))
#endif

#ifdef BROKEN_MARK_BIT
#define IS_MARKED(t) (mark[(t) % S] != NONE)
#else
#define IS_MARKED(t) (mark[(t) % S] == (t))
#endif

/* The bit goes back last: with it the id and its slot belong to the next taker. */
inline give_back(cid)
{
	assert(!(free & BIT(cid)));
	free = free | BIT(cid);
	life[cid] = IDLE
}

/* Who leaves a command behind keeps its id out of use until the completion comes, or a reset. */
#ifdef BROKEN_CID_EARLY
#define LEAVE_LATE(cid) slot[cid] = FREE; give_back(cid)
#else
#define LEAVE_LATE(cid) slot[cid] = ABANDONED
#endif
#ifdef BROKEN_CANCEL_FREE
#define LEAVE_FAILED(cid) slot[cid] = FREE; give_back(cid)
#else
#define LEAVE_FAILED(cid) slot[cid] = ABANDONED
#endif

/* fth_nvme_qp_put: ticket, entry, mark. */
inline put()
{
	d_step {
		slot[c] = WAITING;
		t = sq_ticket;
		sq_ticket = ADD(sq_ticket, 1);
#ifndef BROKEN_CIDS
		/* Fewer ids than entries: the wait for this one is over before it begins. */
		assert(DIST(sq_head, t) < S - 1);
#endif
	}
	d_step {
		assert(sq_cid[t % S] == NONE);
		sq_cid[t % S] = c;
		life[c] = SUBMITTED;
		mark[t % S] = t;
		t = 0
	}
}

/*
 * fth_nvme_qp_ring: whoever finds the lock free moves the tail for all that are ready, and looks
 * again if somebody came in the meantime (the compare-and-swap to zero fails).
 */
inline ring()
{
	if
	:: d_step { ring_lock != UNLOCKED -> ring_lock = LOCKED_CHANGED }
	:: d_step { ring_lock == UNLOCKED -> ring_lock = LOCKED_CHANGED };
		do
		:: atomic { ring_lock == LOCKED_CHANGED -> ring_lock = LOCKED_SEEN; t = sq_tail };
			do
			:: d_step { IS_MARKED(t) -> assert(t != sq_ticket); t = ADD(t, 1) }
			:: !IS_MARKED(t) && t != sq_tail -> move_tail(); break
			:: atomic { !IS_MARKED(t) && t == sq_tail -> t = 0; break }
			od
		:: atomic { ring_lock == LOCKED_SEEN -> ring_lock = UNLOCKED; break }
#ifdef BROKEN_UNLOCK
		:: atomic { ring_lock == LOCKED_CHANGED -> ring_lock = UNLOCKED; break }
#endif
		od
	fi
}

inline move_tail()
{
	d_step {
		assert(DIST(sq_doorbell, t) < S || C == S);
		sq_tail = t;
		sq_doorbell = t;
		t = 0
	}
}

/* fth_nvme_qp_poll, with the lock: reap what is there, then one doorbell. */
inline reap()
{
	do
	:: d_step { IS_NEW ->
		t = cq_cid[cq_head % Q];
		assert(t != NONE);
		cq_cid[cq_head % Q] = NONE;
		/* The first ticket from the head on that lies where the controller says. */
		sq_head = ADD(sq_head, (cq_sqhd[cq_head % Q] + S - sq_head % S) % S);
		cq_sqhd[cq_head % Q] = 0;
		cq_head = ADD(cq_head, 1);

		assert(slot[t] == WAITING || slot[t] == ABANDONED);
		assert(life[t] == POSTED);
		life[t] = ENDED;
		if
		:: slot[t] == WAITING -> slot[t] = DONE
		:: else -> slot[t] = FREE; give_back(t)
		fi;
		t = 0
	   }
	:: !IS_NEW -> break
	od;
	atomic {
		cq_doorbell = cq_head % Q;
		cq_lock = false;
		idle = idle | ((c == NONE && !closing) << _pid)
	}
}

inline check_end()
{
	d_step {
		assert(ring_lock == UNLOCKED && !cq_lock);
		assert(sq_head == sq_ticket && sq_tail == sq_ticket && sq_doorbell == sq_ticket);
		assert(cq_head % Q == cq_doorbell)
	}
}

active [THREADS] proctype thread()
{
	byte c = NONE;			/* the command id held */
	byte t;				/* scratch; zero when not in use, to have fewer states */
	bool closing;			/* the last one: it sees that all is free */

	do
	/* fth_nvme_qp_take: a free id, in one atomic step. There is no other gate. */
	:: atomic { c == NONE && !closing && free && FIRST_IDLE ->
		idle = idle & ~BIT(_pid);
		one_of(c, free);
		free = free & ~BIT(c);
		assert(slot[c] == FREE && life[c] == IDLE);
		life[c] = HELD
	   };
#if defined(RESET) && !defined(BROKEN_RECHECK)
		if
		:: atomic { failed -> give_back(c); c = NONE; idle = idle | BIT(_pid) }
		:: !failed -> put(); ring()
		fi
#else
		put();
		ring()
#endif

	/* fth_nvme_qp_wait */
#ifdef BROKEN_GIVE_BACK
	:: d_step { c != NONE && slot[c] == DONE && !(free & BIT(c)) -> give_back(c) };
		d_step {
		slot[c] = FREE;
#else
	:: d_step { c != NONE && slot[c] == DONE ->
		slot[c] = FREE;
		give_back(c);
#endif
		c = NONE;
		idle = idle | BIT(_pid)
	   }

	/* fth_nvme_qp_abandon: by a deadline, or because the queue pair has failed. */
	:: atomic { c != NONE && slot[c] == WAITING && (timeouts || failed) ->
		if
		:: failed -> LEAVE_FAILED(c)
		:: !failed -> LEAVE_LATE(c); timeouts--
		fi;
		c = NONE;
		idle = idle | BIT(_pid)
	   }

	/* fth_nvme_qp_poll: also by those who found no free id. */
	:: d_step { !cq_lock && !failed && IS_NEW && (c != NONE || closing || FIRST_IDLE) ->
		cq_lock = true;
		idle = idle & ~BIT(_pid)
	   };
		reap()

	/* Enough. The last one waits for the ids that others abandoned. */
	:: atomic { c == NONE && !closing && FIRST_IDLE ->
		idle = idle & ~BIT(_pid);
		left++;
		if
		:: left < THREADS -> break
		:: else -> closing = true
		fi
	   }
	:: closing && free == ALL && resetter_left -> check_end(); break
	od
}

active proctype controller()
{
	byte head, tail;		/* virtual: the next entry to fetch, the next place to post */
	byte out;			/* bitmap of ids being worked on */
	byte cid;

end:	do
	:: d_step { ready && head % S != sq_doorbell % S ->
		cid = sq_cid[head % S];
		assert(cid != NONE);
		sq_cid[head % S] = NONE;
		assert(life[cid] == SUBMITTED && !(out & BIT(cid)));
		life[cid] = FETCHED;
		out = out | BIT(cid);
		head = ADD(head, 1);
		cid = 0
	   }
	:: atomic { ready && out && (tail + 1) % Q != cq_doorbell ->
		any_of(cid, out);
		out = out & ~BIT(cid);
		assert(life[cid] == FETCHED);
		life[cid] = POSTED;
		assert(cq_cid[tail % Q] == NONE);
		cq_cid[tail % Q] = cid;
		cq_sqhd[tail % Q] = head % S;
		cq_phase[tail % Q] = PHASE(tail);
		tail = ADD(tail, 1);
		cid = 0
	   }
#ifdef RESET
	:: d_step { ready && !enable -> ready = false; head = 0; tail = 0; out = 0 }
	:: d_step { !ready && enable -> ready = true }
#endif
	od
}

#ifdef RESET
active proctype resetter()
{
	byte i;

	do
	/* fth_nvme_qp_cancel */
	:: failed = true;

		/* fth_nvme_qp_reset: first nobody may touch the rings any more. */
		enable = false;
#ifndef BROKEN_RESET_STOP
		!ready;
#endif
		do
		:: d_step { i < C && ((free & BIT(i)) || slot[i] == ABANDONED) -> i++ }
		:: d_step { i == C -> i = 0 }; break
		od;
		atomic { !cq_lock -> cq_lock = true };
		assert(ring_lock == UNLOCKED);

		/* Then they begin anew. */
		d_step {
			sq_ticket = 0; sq_head = 0; sq_tail = 0; sq_doorbell = 0;
			do
			:: i < S -> mark[i] = NONE; sq_cid[i] = NONE; i++
			:: else -> break
			od;
			i = 0
		}
		d_step {
			cq_head = 0; cq_doorbell = 0;
			do
			:: i < Q ->
#ifndef BROKEN_RESET_CQ
				cq_phase[i] = 0;
				cq_cid[i] = NONE;
				cq_sqhd[i] = 0;
#endif
				i++
			:: else -> break
			od;
			i = 0
		}
		do
		:: d_step { i < C && slot[i] == ABANDONED -> slot[i] = FREE };
			d_step { give_back(i); i++ }
		:: d_step { i < C && slot[i] != ABANDONED -> i++ }
		:: d_step { i == C -> i = 0 }; break
		od;
		enable = true;
		ready;
		cq_lock = false;
		failed = false
	:: resetter_left = true; break
	od
}
#endif
