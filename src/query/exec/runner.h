/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A runner is one thread's execution of one task.
 *
 * Batches pass through frames: a frame has the vectors of the assigned slots and the remaining
 * rows. The source fills frame 0. A step whose output rows differ from its input rows (a look-up
 * with several matches, the groups of a RUNS step) fills the next frame from the current one and
 * runs the following steps on that; a step that only removes rows or adds slots works in its frame.
 *
 * Invariants:
 *  - A slot's vector is valid in one frame until that frame's next batch.
 *  - Columns of a table are decoded when the first step needs them: `needed` requests them, in
 *    frame 0 only. Columns that later frames need are decoded before they are filled.
 *  - Only slots that a later step or the reducer uses are carried into the next frame.
 */
#ifndef FTH_QUERY_RUNNER_H
#define FTH_QUERY_RUNNER_H

#include <errno.h>
#include <pthread.h>

#include "query/join/index_build.h"
#include "query/exec/decode.h"
#include "query/exec/exec.h"
#include "query/group/grouper.h"
#include "query/exec/scan.h"
#include "query/spill/sorter.h"
#include "query/vec/prog/prog.h"

struct result {
	struct rows *rows;	    /* OUTPUT */
	struct group_store *groups; /* GROUP */
	struct sorted *sorted;	    /* SORT */
	struct index *index;	    /* SET, MAP, MULTIMAP */
	bool done;
};

struct exec {
	const struct exec_options *options;
	struct fth_qmem *mem;
	struct scratch scratch;
	unsigned threads;	   /* of a task */
	struct group_store *store; /* of the task that runs */
	struct fth_arena arena;	   /* of small things that live as long as the query */
	struct task *
		tasks; /* the set's, and behind them those that were split off: see join_passes.c */
	unsigned task_count, task_room;
	unsigned last;		    /* the task that gives the result */
	struct result *results;	    /* by task */
	struct task_slot **columns; /* by task: of the rows of its result */
	struct exec_stats *stats;
	uint64_t structures; /* bytes that all structures together may take */
	enum exec_thrift thrift;
	const uint32_t *origin; /* by task: of the set that the caller gave; NULL: the same */
	bool *large;	  /* by task of that set: its structure did not fit at some time; or NULL */
	unsigned runs;	  /* of tasks, so far */
	bool hold;	  /* the last task's rows are kept until it is done */
	bool tight;	  /* memory is short, so hold them */
	bool streams;	  /* there is no room to hold them: the client gets them at once */
	unsigned squeeze; /* the share of groups and sorts is divided by 2^squeeze */
	uint64_t *limits; /* by task: bytes of its structure, if it had to be made smaller; or 0 */
	/* By task: the numbers of keys in a part that fitted at the second attempt; or 0. */
	uint64_t *spans;
	int (*emit)(void *user, const struct fth_vec *columns, const struct fth_sel *selected);
	void *user;
	pthread_mutex_t emit_lock; /* one thread emits at a time */
	bool emitted;		   /* rows; under that lock while threads run */
	atomic_bool stop;	   /* another thread failed, or the query is canceled */
};

/*
 * The rows that a LIMIT without an order wants: any so many. All threads of the task count what
 * they have.
 */
struct row_limit {
	uint64_t wanted;
	_Atomic uint64_t taken;
};
#define RUNNER_ENOUGH \
	(-EALREADY) /* which nothing else returns: the rows that the task wants are there */

struct frame {
	struct fth_vec *vecs; /* by slot */
	bool *have;
	struct fth_sel sel;
};

struct step_state {
	struct fth_prog *prog;
	struct fth_prog_run *run;
	struct frame *next; /* of steps that fill one */
	/* look-ups */
	const struct index *index; /* of a nested task: changes with each row group */
	struct index_scratch *scratch;
	struct fth_vec **keys;
	struct index_matches *found;
	bool one_match;	     /* the structure has at most one row for a key */
	uint16_t *pair_rows; /* rows of the frame and their matches, for the next frame */
	uint32_t *pair_matches;
	unsigned pairs;
	uint64_t *matched; /* rows that had a match that counts */
	uint32_t *counts;  /* SINGLE: matches of each row */
	void **values;	   /* by slot: of carried slots and payload */
	uint64_t **nulls;
	struct runner *nested;
	struct fetcher *fetcher;
	struct waiting *waiting; /* batch_rows.c; or NULL */
	/* RUNS */
	struct grouper_spec grouping;
	struct task_slot *key_slots;
	struct grouper *grouper;
	struct group_store *groups_left; /* of a RUNS step: groups that did not fit */
	bool *carried; /* by slot: a later step, the reducer or the look-up's condition uses it */
};

struct runner {
	struct exec *exec;
	const struct task *task;
	unsigned number;
	struct fth_qmem *mem;
	struct frame frame;
	struct step_state *steps;
	struct fth_arena arena; /* small things of the runner's life */
	/* source */
	struct scan_spec scan;
	struct scan_reader *reader;
	struct decoder **decoders; /* by column of the source */
	unsigned *positions;	   /* of columns of the source among those of the reader */
	bool late_used;	      /* a column that is read late was decoded in this row group ... */
	unsigned late_streak; /* ... and in so many before it, without a gap */
	struct scan_group *group;
	uint32_t from, to; /* rows of the group in frame 0 */
	int64_t *row_numbers;
	int64_t range_lo, range_hi;  /* of a nested task: keys of the parent's row group */
	unsigned key_source;	     /* of a nested task: which source column is the key */
	struct sieve *sieve;	     /* key_filter.c; or NULL */
	const struct sieve *keys_of; /* of a nested task: the keys that are wanted; NULL: all */
	int64_t *nested_keys;	     /* of a batch */
	/* reducer */
	struct rows *rows; /* shared */
	struct build
		*build; /* of SET, MAP and MULTIMAP; shared, or this thread's if it is nested */
	struct rows_writer *writer;
	struct build_writer *builder;
	struct grouper_spec grouping;
	struct task_slot *key_slots, *column_slots;
	struct grouper *grouper;
	struct sorter *sorter;
	struct row_limit *limit; /* shared; NULL: the task wants all rows */
	struct fth_vec **columns;
	struct fth_vec *emitted; /* of the last task: the same, side by side */
	struct exec_stats stats;
	uint64_t slept_bytes, slept_chunks; /* read before the source was closed for a while */
};

/* The rows go to `rows` or `build`, or, with none, to the client or the grouper. */
int runner_open(struct exec *exec, unsigned number, struct rows *rows, struct build *build,
		struct runner **out);
void runner_close(struct runner *r); /* accepts NULL */
/*
 * Give back the memory of the source until runner_wake(), which also finds the present structures.
 */
void runner_sleep(struct runner *r);
int runner_wake(struct runner *r);

/* Run the task on the row groups that `next` gives, until it gives UINT32_MAX. */
int runner_table(struct runner *r, uint32_t (*next)(void *user), void *user);
/* Run the task on a batch of rows of an earlier result. */
int runner_block(struct runner *r, const struct fth_vec *columns, unsigned n);
/* Run the task on rows of constants. */
int runner_values(struct runner *r);

/*
 * -ECANCELED if another thread failed or the query is canceled, RUNNER_ENOUGH if the task has its
 * rows.
 */
int runner_stopped(const struct runner *r);
/* Whether the task wants only so many rows, of which any do. */
bool runner_limited(const struct task *t);
/* Readers and decoders of the source. */
int runner_open_source(struct runner *r);
/* Decode a column of the source for the present batch. */
int runner_decode(struct runner *r, unsigned column);

/* ---- key_filter.c: the keys of a row group that are looked up in nested structures ---- */

/* After steps and source are open. Returns 0 or -ENOMEM. */
int sieve_open(struct runner *r);
void sieve_close(struct runner *r);
bool sieve_wanted(const struct runner *r);
/*
 * For a row group: begin; all its batches; end, which returns false if the group has to run
 * without.
 */
void sieve_begin(struct runner *r);
int sieve_batch(struct runner *r);
bool sieve_end(struct runner *r);
/* The rows that are left; the steps from the first nested look-up on, and the reducer, for them. */
unsigned sieve_count(const struct runner *r);
int sieve_run(struct runner *r);
/* The keys that a nested task is asked for; NULL: not known. */
const struct sieve *sieve_for(const struct runner *r, const struct task *nested);
/* In a nested task: remove rows whose keys are not wanted. */
int sieve_keys(struct runner *r);

/* ---- batch_rows.c: rows that wait until there are many to fetch ---- */

/* After everything else is open. Without the memory for it no row waits. Returns 0 or -ENOMEM. */
int wait_open(struct runner *r);
/* The memory that waiting rows of a task take, at most. */
size_t wait_bytes(const struct task *t);
void wait_close(struct runner *r);
/* Let the rows of a frame wait in front of a step. Returns 1 if they do. */
int wait_rows(struct runner *r, struct frame *f, unsigned at);
/* The source has ended: those that wait go on. */
int wait_end(struct runner *r);

/* The vector of a slot in a frame, decoded if need be. */
int runner_need(struct runner *r, struct frame *f, unsigned slot);
/* Whether a slot is in the frame, or can be decoded. */
bool runner_has(const struct runner *r, const struct frame *f, unsigned slot);
/* Steps from `at` on, and the reducer. */
int runner_steps(struct runner *r, struct frame *f, unsigned at);
/* Steps before `end`, all of which work in the frame. */
int runner_steps_until(struct runner *r, struct frame *f, unsigned end);
int runner_lookup(struct runner *r, struct frame *f, unsigned at);
/* Emit the groups of RUNS steps: the row group is done. */
int runner_flush(struct runner *r);

/* The slots that make the rows of a result's store: keys first for structures. */
unsigned result_columns(const struct task *t, unsigned *slots);
/* The structure that a task builds; columns has room for 256. */
struct index_spec result_index(const struct task *t, struct task_slot *columns);

#endif
