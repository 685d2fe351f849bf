/* SPDX-License-Identifier: BSD-2-Clause */
/* S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), to compare with.
 */
#include "policy.h"

#include <errno.h>
#include <stdlib.h>

/* A ring of lines with room for all frames. */
struct fifo {
	uint32_t *lines;
	uint32_t room, head, n;
};

enum place { OUT, SMALL, MAIN };

struct s3 {
	struct fifo small, main;
	uint8_t *place, *uses; /* per line; uses are at most 3 */
	uint32_t *gone;	       /* when it left the small queue unused, counted by such; 0 never */
	uint32_t left, frames;
};

static void fifo_push(struct fifo *f, uint32_t line)
{
	f->lines[(f->head + f->n++) % f->room] = line;
}

static uint32_t fifo_pop(struct fifo *f)
{
	uint32_t line = f->lines[f->head];

	f->head = (f->head + 1) % f->room;
	f->n--;
	return line;
}

static void s3_evict_main(struct s3 *s)
{
	for (;;) {
		uint32_t line = fifo_pop(&s->main);

		if (!s->uses[line]) {
			s->place[line] = OUT;
			return;
		}
		s->uses[line]--;
		fifo_push(&s->main, line);
	}
}

/* Lines used more than once move on to the main queue; the first other one goes. */
static bool s3_evict_small(struct s3 *s)
{
	while (s->small.n) {
		uint32_t line = fifo_pop(&s->small);

		if (s->uses[line] <= 1) {
			s->place[line] = OUT;
			s->gone[line] = ++s->left;
			return true;
		}
		if (s->main.n >= s->frames - s->frames / 10)
			s3_evict_main(s);
		s->uses[line] = 0;
		s->place[line] = MAIN;
		fifo_push(&s->main, line);
	}
	return false;
}

static void s3_make_room(struct s3 *s)
{
	if (s->small.n + s->main.n < s->frames)
		return;
	if (s->small.n * 10 >= s->frames && s3_evict_small(s))
		return;
	if (s->small.n + s->main.n >= s->frames)
		s3_evict_main(s);
}

/* The ghost queue holds as many lines as the main queue may. */
static bool s3_is_ghost(const struct s3 *s, uint32_t line)
{
	return s->gone[line] && s->left - s->gone[line] < s->frames - s->frames / 10;
}

static void s3_insert(struct s3 *s, uint32_t line)
{
	bool ghost = s3_is_ghost(s, line);

	s3_make_room(s);
	s->uses[line] = 0;
	s->gone[line] = 0;
	s->place[line] = ghost ? MAIN : SMALL;
	fifo_push(ghost ? &s->main : &s->small, line);
}

static int64_t s3_count_hits(struct s3 *s, const struct fth_policy_trace *trace)
{
	int64_t hits = 0;

	for (size_t i = 0; i < trace->n; i++) {
		uint32_t line = trace->lines[i];

		if (s->place[line] == OUT) {
			s3_insert(s, line);
			continue;
		}
		hits++;
		if (s->uses[line] < 3)
			s->uses[line]++;
	}
	return hits;
}

int64_t fth_policy_run_s3fifo(const struct fth_policy *policy, const struct fth_policy_trace *trace)
{
	struct s3 s = {.frames = trace->frames};
	int64_t hits = -ENOMEM;

	(void)policy;
	s.small.room = s.main.room = trace->frames + 1;
	s.small.lines = malloc(s.small.room * sizeof(*s.small.lines));
	s.main.lines = malloc(s.main.room * sizeof(*s.main.lines));
	s.place = calloc(trace->universe + 1, 1);
	s.uses = calloc(trace->universe + 1, 1);
	s.gone = calloc((size_t)trace->universe + 1, sizeof(*s.gone));
	if (s.small.lines && s.main.lines && s.place && s.uses && s.gone)
		hits = s3_count_hits(&s, trace);
	free(s.small.lines);
	free(s.main.lines);
	free(s.place);
	free(s.uses);
	free(s.gone);
	return hits;
}
