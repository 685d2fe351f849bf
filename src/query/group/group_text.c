/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Texts that states keep. A text that a smaller or larger one replaces stays in the arena until
 * such dead texts take more than all others; then these are copied, and the arena is released. So
 * texts take at most about twice their bytes, in whatever order the values come.
 */
#include "query/group/group_internal.h"

#include <errno.h>

/* Dead bytes that are not worth a copy. */
#define DEAD_MIN (64u << 10)

static bool keeps_text(const struct group_state *s)
{
	return s->kind == GROUP_MIN_TEXT || s->kind == GROUP_MAX_TEXT || s->kind == GROUP_ANY_TEXT;
}

static size_t live_bytes(const struct group_states *g)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < g->count; i++) {
		const struct fth_str *texts = g->states[i].values;

		for (uint32_t k = 0; k < g->started && keeps_text(&g->states[i]); k++)
			if (texts[k].data)
				bytes += texts[k].len + 1;
	}
	return bytes;
}

static void move_texts(struct group_states *g, char *to)
{
	for (unsigned i = 0; i < g->count; i++) {
		struct fth_str *texts = g->states[i].values;

		for (uint32_t k = 0; k < g->started && keeps_text(&g->states[i]); k++) {
			if (!texts[k].data)
				continue;
			memcpy(to, texts[k].data, texts[k].len);
			texts[k].data = to;
			to += texts[k].len + 1;
		}
	}
}

/* Without the memory for a copy everything stays where it is until as much has died again. */
static void compact_texts(struct group_states *g)
{
	size_t live = live_bytes(g);
	struct fth_arena fresh;
	char *to;

	fth_arena_init(&fresh, g->mem, g->text.chunk_size);
	to = fth_arena_alloc(&fresh, live + 1, 1);
	g->dead_text = 0;
	g->live_text = live;
	if (!to)
		return;
	move_texts(g, to);
	fth_arena_release(&g->text);
	g->text = fresh;
}

int group_keep_text(struct group_states *g, struct fth_str *to, struct fth_str s)
{
	char *copy;

	/* Every group is visited: that must not be more work than the texts were. */
	if (g->dead_text > g->live_text + g->started + DEAD_MIN)
		compact_texts(g);
	copy = fth_arena_alloc(&g->text, s.len + 1, 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s.data, s.len);
	if (to->data) {
		g->dead_text += to->len + 1;
		g->live_text -= to->len + 1;
	}
	g->live_text += s.len + 1;
	*to = (struct fth_str){copy, s.len, 0};
	return 0;
}

void group_forget_texts(struct group_states *g)
{
	fth_arena_reset(&g->text);
	g->dead_text = g->live_text = 0;
}
