/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * DRRIP as it was published for processor caches (Jaleel et al., ISCA 2010), to compare with: sets
 * of 16 frames, a line belongs to one set; a few sets always insert like SRRIP, a few like BRRIP,
 * and the others like those that miss less.
 */
#include "policy.h"

#include "fathom/base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAYS	    16
#define MAX	    3
#define BIMODAL_ONE 32
#define LEADERS_OF  32 /* sets: one for each side */
#define DUEL_LIMIT  512
#define NONE	    UINT32_MAX

struct way {
	uint32_t line;
	uint8_t distance;
};

struct sets {
	struct way *ways;
	uint32_t n; /* sets */
	int duel;
	struct fth_rng rng;
};

static struct way *find(struct way *set, uint32_t line)
{
	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].line == line)
			return &set[i];
	return NULL;
}

/* The first at the largest distance; all grow older until there is one. */
static struct way *victim(struct way *set)
{
	for (;;) {
		for (unsigned i = 0; i < WAYS; i++)
			if (set[i].distance >= MAX)
				return &set[i];
		for (unsigned i = 0; i < WAYS; i++)
			set[i].distance++;
	}
}

static void miss(struct sets *s, uint32_t at, uint32_t line)
{
	uint32_t part = at % LEADERS_OF;
	struct way *way = victim(s->ways + (size_t)at * WAYS);
	bool bimodal = part == 0 ? false : part == 1 ? true : s->duel > 0;

	if (part == 0 && s->duel < DUEL_LIMIT)
		s->duel++;
	if (part == 1 && s->duel > -DUEL_LIMIT)
		s->duel--;
	way->line = line;
	way->distance = bimodal && fth_rng_below(&s->rng, BIMODAL_ONE) ? MAX : MAX - 1;
}

int64_t fth_policy_run_sets(const struct fth_policy *policy, const struct fth_policy_trace *trace)
{
	struct sets s = {.n = trace->frames / WAYS};
	int64_t hits = 0;

	(void)policy;
	if (s.n < 2 * LEADERS_OF)
		return -EINVAL;
	s.ways = malloc((size_t)s.n * WAYS * sizeof(*s.ways));
	if (!s.ways)
		return -ENOMEM;
	for (size_t i = 0; i < (size_t)s.n * WAYS; i++)
		s.ways[i] = (struct way){NONE, MAX};
	for (size_t i = 0; i < trace->n; i++) {
		uint32_t line = trace->lines[i], at = (uint32_t)(fth_mix64(line) % s.n);
		struct way *way = find(s.ways + (size_t)at * WAYS, line);

		if (!way) {
			miss(&s, at, line);
			continue;
		}
		hits++;
		way->distance = 0;
	}
	free(s.ways);
	return hits;
}
