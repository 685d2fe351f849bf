/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * When does a page move to DRAM?
 *
 * PAPER is Algorithm 1 of FlatFlash with its constants: counters of pages are in the SSD-cache and
 * lost with the slot; the threshold falls while most accesses lead to promotions, and rises while
 * few do. NetAggCnt is directory.counts: the sum for the pages that are in the SSD-cache now. A
 * page that is promoted is no longer one of them.
 *
 * COUNTERS keeps the count of a page in its word, so that it survives eviction; counts are halved
 * in every epoch, of as many accesses as EPOCH_FACTOR times the pages of the budget. A page moves
 * when its count reaches the threshold. The threshold follows the benefit, which is measured: some
 * pages that reach it stay, as samples, until a page that moved at the same time would have left
 * DRAM again. The accesses that they got meanwhile are what moving them would have saved. If that
 * is less than moving costs, the threshold rises; and also if most pages that move had left DRAM
 * soon before, since they take the places of one another, whatever each would save. If no page
 * reached it in an epoch, it falls. Pages that are used one after the other (stream.c) move at
 * once, and so does every page while places in DRAM are free: nothing has to leave for it.
 */
#include "flat/flat_internal.h"

#include <string.h>

#define PAPER_LOW	0.25
#define PAPER_HIGH	0.75
#define PAPER_THRESHOLD 7u
#define PAPER_EPOCH	10000u

#define EPOCH_FACTOR	   4u
#define COUNTERS_THRESHOLD 3u
#define COUNTERS_MAX	   64u
#define THRASHING_MAX	   8u  /* the threshold does not rise above that because pages return */
#define FREE_SHARE	   32u /* of DRAM, and */
#define FREE_FEW	   4u  /* places: not free, but about to be used */
#define SAMPLE_EVERY	   8u  /* of pages that reach the threshold */
#define SAMPLE_ENOUGH	   4u  /* times the accesses that pay for a move: no need to see more */
#define SAMPLES_PER_STEP   4u  /* ended, before the threshold changes by one */

/*
 * What a move to DRAM and back costs, and what an access to the SSD-cache costs, where no model
 * says so.
 */
#define MOVE_NS	  6000u
#define ACCESS_NS 2200u

void policy_open(struct fth_flat *flat)
{
	flat->policy.threshold =
		flat->options.policy == FTH_FLAT_PAPER ? PAPER_THRESHOLD : COUNTERS_THRESHOLD;
	for (unsigned i = 0; i < FLAT_SAMPLES; i++)
		flat->policy.samples[i].page = FLAT_NONE;
}

static bool paper_wants(struct fth_flat *flat, struct flat_slot *slot)
{
	struct flat_policy *p = &flat->policy;
	uint32_t count = directory_touch(&flat->directory, slot);
	double ratio;
	bool promote;

	futex_lock(&p->lock);
	p->accesses++;
	promote = count == p->threshold;
	if (promote)
		p->promoted += count;
	ratio = (double)p->promoted / (double)p->accesses;
	if (ratio <= PAPER_LOW) {
		if (p->threshold < PAPER_THRESHOLD)
			p->threshold++;
	} else if (ratio >= PAPER_HIGH) {
		if (p->threshold > 1 && promote)
			p->threshold--;
	}
	/*
	 * Equal, as in the paper: pages of a large SSD-cache have more accesses than an epoch, and
	 * each access would end one.
	 */
	if (p->accesses == PAPER_EPOCH) {
		p->accesses = __atomic_load_n(&flat->directory.counts, __ATOMIC_RELAXED);
		p->promoted = 0;
		p->threshold = PAPER_THRESHOLD;
	}
	futex_unlock(&p->lock);
	return promote;
}

static uint32_t count_access(struct fth_flat *flat, uint64_t page)
{
	struct flat_policy *p = &flat->policy;
	uint32_t *word = &flat->words[page], old = word_get(word);
	uint32_t epoch = __atomic_load_n(&p->epoch, __ATOMIC_RELAXED) & 0xff;
	uint32_t age = (epoch - (old >> WORD_EPOCH_SHIFT)) & 0xff;
	uint32_t count = (old & WORD_COUNT) >> WORD_COUNT_SHIFT;
	uint64_t length = EPOCH_FACTOR * __atomic_load_n(&flat->budget, __ATOMIC_RELAXED);

	count = age < 8 ? count >> age : 0;
	count = count < 255 ? count + 1 : count;
	word_set(word, WORD_COUNT | WORD_EPOCH,
		 count << WORD_COUNT_SHIFT | epoch << WORD_EPOCH_SHIFT);
	if (__atomic_add_fetch(&p->epoch_accesses, 1, __ATOMIC_RELAXED) % length == 0)
		__atomic_fetch_add(&p->epoch, 1, __ATOMIC_RELAXED);
	return count;
}

/* ---- samples; under the lock of the policy ---- */

/* Accesses that pay for a move. */
static uint32_t break_even(const struct fth_flat *flat)
{
	const struct flat_latency_model *model = &flat->model;
	uint32_t cold = model->load_ns > ACCESS_NS ? model->load_ns : ACCESS_NS;

	return (model->promote_ns + model->map_ns + MOVE_NS + cold - 1) / cold;
}

/*
 * Most pages that came to DRAM since the last step had left it soon before: they take the places of
 * one another.
 */
static bool is_thrashing(struct fth_flat *flat)
{
	struct flat_policy *p = &flat->policy;
	uint64_t entered = __atomic_load_n(&flat->entered, __ATOMIC_RELAXED),
		 returned = __atomic_load_n(&flat->returned, __ATOMIC_RELAXED);
	bool most = 2 * (returned - p->returned) > entered - p->entered;

	p->entered = entered;
	p->returned = returned;
	return most;
}

static void end_sample(struct fth_flat *flat, struct flat_sample *sample)
{
	struct flat_policy *p = &flat->policy;

	sample->page = FLAT_NONE;
	p->ended++;
	p->saved += sample->count;
	if (p->ended < SAMPLES_PER_STEP)
		return;
	if (is_thrashing(flat) && p->threshold < THRASHING_MAX)
		p->threshold++;
	else if (p->saved < p->ended * break_even(flat))
		p->threshold += p->threshold < COUNTERS_MAX;
	else if (p->saved > 2 * p->ended * break_even(flat))
		p->threshold -= p->threshold > 1;
	p->ended = p->saved = 0;
}

/* Once in an epoch: a threshold that no page reaches is too high. */
static void check_epoch(struct flat_policy *p)
{
	uint32_t epoch = __atomic_load_n(&p->epoch, __ATOMIC_RELAXED);

	if (epoch == p->epoch_seen)
		return;
	p->epoch_seen = epoch;
	if (p->reached == p->reached_seen)
		p->threshold -= p->threshold > 1;
	p->reached_seen = p->reached;
}

/* One sample is looked at with every access: has its time passed? */
static void check_sample(struct fth_flat *flat)
{
	struct flat_policy *p = &flat->policy;
	struct flat_sample *sample = &p->samples[p->next++ % FLAT_SAMPLES];
	uint64_t stay = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED);

	if (sample->page != FLAT_NONE &&
	    (p->moves - sample->moves >= stay || p->counted - sample->counted >= 64 * stay))
		end_sample(flat, sample);
}

static struct flat_sample *find_sample(struct fth_flat *flat, uint64_t page)
{
	for (unsigned i = 0; i < FLAT_SAMPLES; i++)
		if (flat->policy.samples[i].page == page)
			return &flat->policy.samples[i];
	return NULL;
}

/* A page that reached the threshold: true if it moves, false if it stays as a sample. */
static bool move_or_sample(struct fth_flat *flat, uint64_t page)
{
	struct flat_policy *p = &flat->policy;
	struct flat_sample *empty =
		++p->reached % SAMPLE_EVERY ? NULL : find_sample(flat, FLAT_NONE);

	if (!empty) {
		p->moves++;
		return true;
	}
	*empty = (struct flat_sample){.page = page, .moves = p->moves, .counted = p->counted};
	return false;
}

/* More places than the few that are free because several pages leave at a time. */
static bool dram_is_free(const struct fth_flat *flat)
{
	uint64_t limit = __atomic_load_n(&flat->ring.limit, __ATOMIC_RELAXED);

	return __atomic_load_n(&flat->ring.taken, __ATOMIC_RELAXED) + limit / FREE_SHARE +
		       FREE_FEW <
	       limit;
}

static enum policy_wish counters_want(struct fth_flat *flat, uint64_t page, struct flat_slot *slot,
				      bool miss, struct stream_ahead *ahead)
{
	struct flat_policy *p = &flat->policy;
	uint32_t count = count_access(flat, page);
	bool stream;
	enum policy_wish wish = POLICY_STAY;
	struct flat_sample *sample;

	(void)directory_touch(&flat->directory, slot);
	futex_lock(&p->lock);
	p->counted++;
	check_epoch(p);
	check_sample(flat);
	stream = stream_note(flat, page, miss, ahead);
	sample = find_sample(flat, page);
	if (sample && ++sample->count >= SAMPLE_ENOUGH * break_even(flat)) {
		end_sample(flat, sample); /* it has shown what it can */
		p->moves++;
		wish = POLICY_UP;
	} else if (sample)
		wish = POLICY_STAY;
	else if (stream)
		wish = POLICY_UP_STREAMING;
	else if (dram_is_free(flat))
		wish = POLICY_FILL;
	else if (count >= p->threshold && move_or_sample(flat, page))
		wish = POLICY_UP;
	futex_unlock(&p->lock);
	return wish;
}

enum policy_wish policy_wants(struct fth_flat *flat, uint64_t page, struct flat_slot *slot,
			      bool miss, struct stream_ahead *ahead)
{
	ahead->pages = 0;
	switch (flat->options.policy) {
	case FTH_FLAT_ALWAYS:
		return POLICY_UP;
	case FTH_FLAT_NEVER:
		(void)directory_touch(&flat->directory, slot);
		return POLICY_STAY;
	case FTH_FLAT_PAPER:
		return paper_wants(flat, slot) ? POLICY_UP : POLICY_STAY;
	default:
		return counters_want(flat, page, slot, miss, ahead);
	}
}
