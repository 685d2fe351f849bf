/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * BaM's queue pair as chapter 5 of its author's dissertation describes it: each waiter searches the
 * completion ring itself. Kept here because bench/ compares with it, and because the two races
 * that the dissertation tells of show that this kind of model finds such mistakes.
 *
 * The style and the checks are those of queue.pml. Sections of the dissertation are in brackets.
 *
 * Sizes     S             entries of either ring
 *           THREADS
 *           C             command ids
 *           TURNS         virtual counters are kept modulo TURNS * S
 *           COMMANDS      so many in all; without it each thread stops when it likes
 * Switches  FIX_53_ID     an id is unlocked only after the CQ head has moved past its completion
 *           FIX_53_LOCK   a lock for each position of the CQ, held until the head has moved past
 *           FIX_53        both [5.3]
 *           FIX_54        turn counters count twice a turn: submitted, and consumed [5.4]
 */
#ifndef S
#define S 4
#endif
#ifndef THREADS
#define THREADS 3
#endif
#ifndef C
#define C 2
#endif
#ifndef TURNS
#define TURNS 4
#endif
#ifdef FIX_53
#define FIX_53_ID
#define FIX_53_LOCK
#endif

#define Q S
#define ALL (BIT(C) - 1)
#define BIT(i) (1 << (i))
#define NONE 255

#define V (TURNS * S)
#define ADD(v, n) (((v) + (n)) % V)
#define DIST(from, to) (((to) + V - (from)) % V)
#define PHASE(v) (1 - ((v) / Q) % 2)

#ifdef FIX_54
#define STEPS 2				/* increments of a turn counter in one turn */
#else
#define STEPS 1
#endif
#define TURN(v) (STEPS * ((v) / S))
#define NEXT_TURN(pos) turn[pos] = (turn[pos] + 1) % (STEPS * TURNS)

/* The life of a command id: for the checks only. */
#define IDLE 0
#define HELD 1
#define SUBMITTED 2
#define FETCHED 3
#define POSTED 4
#define ENDED 5

byte free = ALL;			/* bitmap of command ids that are not locked */
byte life[C] = IDLE;

byte sq_ticket, sq_head, sq_tail;	/* virtual */
byte sq_cid[S] = NONE;			/* NONE again once fetched */
byte turn[S];
bool tail_mark[S];
bool tail_lock;
byte sq_doorbell;			/* modulo S */

byte cq_cid[Q] = NONE;			/* NONE again once the head has moved past */
byte cq_sqhd[Q];
bit cq_phase[Q];
byte cq_head;				/* virtual */
bool head_mark[Q];
bool head_lock;
bool pos_lock[Q];
byte cq_doorbell;			/* modulo Q */

#ifdef COMMANDS
byte todo = COMMANDS;
#define MORE (todo > 0)
#define COUNT todo--
#define ENOUGH (todo == 0)
#else
#define MORE (true)
#define COUNT skip
#define ENOUGH (true)
#endif

byte left;				/* threads that have stopped */
byte idle = BIT(THREADS) - 1;		/* threads that have no command */

/* Idle threads are alike, and so are free ids: it is enough to try one of each. */
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
	:: (set) & BIT(4) -> cid = 4
	fi
}

inline unlock_id(cid)
{
	assert(life[cid] == ENDED);
	life[cid] = IDLE;
	free = free | BIT(cid)
}

/* A tail or head stops at a full ring [5.1], or at the first position without a mark. */
#define TAIL_MOVES(v) (tail_mark[(v) % S] && ((v) + 1) % S != sq_head % S)
#define HEAD_MOVES(v) (head_mark[(v) % Q])

/* With the lock: move the tail as far as it goes, then ring [5.1, figure 5.2]. */
inline move_tail()
{
	do
	:: d_step { TAIL_MOVES(t) -> tail_mark[t % S] = false; t = ADD(t, 1) }
	:: !TAIL_MOVES(t) -> break
	od;
	atomic { sq_doorbell = t % S; sq_tail = t; t = 0; tail_lock = false }
}

/* Take a ticket, await the turn, write the entry, see to it that the tail moves past it. */
inline enqueue()
{
	d_step { p = sq_ticket; sq_ticket = ADD(sq_ticket, 1) };
	d_step { turn[p % S] == TURN(p) -> p = p % S };
	d_step {
		assert(sq_cid[p] == NONE && !tail_mark[p]);
		sq_cid[p] = c;
		life[c] = SUBMITTED;
		tail_mark[p] = true
	}
	do
#ifdef FIX_54
	:: !tail_mark[p] -> atomic { NEXT_TURN(p); p = 0; break }
#else
	:: atomic { !tail_mark[p] -> p = 0; break }
#endif
	:: atomic { tail_mark[p] && !tail_lock && TAIL_MOVES(sq_tail) ->
		tail_lock = true;
		t = sq_tail
	   };
		move_tail()
	od
}

#define VALID(v) (cq_phase[(v) % Q] == PHASE((v) % V))
#define IS_MINE(v) (cq_cid[(v) % Q] == c)

inline found(i)
{
	p = ADD(cq_head, i);
	assert(life[c] == POSTED);
	life[c] = ENDED
}

/*
 * Search from the head to the first entry that is not valid, at most Q - 1 [5.3]. In one step:
 * who reads the head first and sleeps before it reads the entry is not modelled.
 */
inline search()
{
	if
	:: atomic { VALID(cq_head) && IS_MINE(cq_head) -> found(0) }
#if Q > 2
	:: atomic { VALID(cq_head) && VALID(cq_head + 1) && IS_MINE(cq_head + 1) -> found(1) }
#endif
#if Q > 3
	:: atomic { VALID(cq_head) && VALID(cq_head + 1) && VALID(cq_head + 2) &&
		IS_MINE(cq_head + 2) -> found(2) }
#endif
	fi
}

#define LAST_SQHD (cq_sqhd[(t + Q - 1) % Q])

/*
 * With the lock: move the CQ head over all that are marked, and with it the SQ head to where the
 * last of these completions says the controller is [5.2, 5.4].
 */
inline move_head()
{
	do
	:: d_step { HEAD_MOVES(t) -> head_mark[t % Q] = false; t = ADD(t, 1) }
	:: !HEAD_MOVES(t) -> break
	od;
	do
	:: d_step { sq_head % S != LAST_SQHD -> NEXT_TURN(sq_head % S); sq_head = ADD(sq_head, 1) }
	:: sq_head % S == LAST_SQHD -> break
	od;
	atomic {
		do
		:: cq_head != t -> cq_cid[cq_head % Q] = NONE; cq_head = ADD(cq_head, 1)
		:: else -> break
		od;
		cq_doorbell = cq_head % Q;
		t = 0;
		head_lock = false
	}
}

#define PASSED(v) (DIST(v, cq_head) > 0 && DIST(v, cq_head) <= Q)

/* The completion at virtual position p is ours: mark it, and see to it that the head moves past. */
inline dequeue()
{
#ifdef FIX_53_LOCK
	atomic { !pos_lock[p % Q] -> pos_lock[p % Q] = true; head_mark[p % Q] = true };
#else
	head_mark[p % Q] = true;
#endif
	do
	:: atomic { !head_mark[p % Q] && PASSED(p) -> pos_lock[p % Q] = false; break }
	:: atomic { head_mark[p % Q] && PASSED(p) ->
		/* The contradiction of [5.3]: marked, though the head is past it. */
		assert(false) }
	:: atomic { head_mark[p % Q] && !head_lock && HEAD_MOVES(cq_head) ->
		head_lock = true;
		t = cq_head
	   };
		move_head()
	od
}

active [THREADS] proctype thread()
{
	byte c = NONE;			/* the command id held */
	byte p, t;			/* a position; scratch */

	do
	:: atomic { free && FIRST_IDLE && MORE ->
		COUNT;
		idle = idle & ~BIT(_pid);
		one_of(c, free);
		free = free & ~BIT(c);
		assert(life[c] == IDLE);
		life[c] = HELD
	   };
		enqueue();
		search();
#ifndef FIX_53_ID
		unlock_id(c);
#endif
		dequeue();
		atomic {
#ifdef FIX_53_ID
			unlock_id(c);
#endif
			c = NONE;
			p = 0;
			idle = idle | BIT(_pid)
		}
	:: atomic { FIRST_IDLE && ENOUGH -> idle = idle & ~BIT(_pid); left++; break }
	od;

	/* In the end everything is free, and all heads and tails are where they belong. */
	atomic {
		left == THREADS;
		assert(free == ALL && !tail_lock && !head_lock);
		assert(sq_head == sq_ticket && sq_tail == sq_ticket)
	}
}

active proctype controller()
{
	byte head, tail;		/* head modulo S, tail virtual */
	byte out;			/* bitmap of ids being worked on */
	byte cid;

end:	do
	:: d_step { head != sq_doorbell ->
		cid = sq_cid[head];
		assert(cid != NONE);
		sq_cid[head] = NONE;
		assert(life[cid] == SUBMITTED && !(out & BIT(cid)));
		life[cid] = FETCHED;
		out = out | BIT(cid);
		head = (head + 1) % S;
		cid = 0
	   }
	:: atomic { out && (tail + 1) % Q != cq_doorbell ->
		any_of(cid, out);
		out = out & ~BIT(cid);
		assert(life[cid] == FETCHED);
		life[cid] = POSTED;
		assert(cq_cid[tail % Q] == NONE);
		cq_cid[tail % Q] = cid;
		cq_sqhd[tail % Q] = head;
		cq_phase[tail % Q] = PHASE(tail);
		tail = ADD(tail, 1);
		cid = 0
	   }
	od
}
