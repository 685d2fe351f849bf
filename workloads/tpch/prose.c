/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Invariants:
 *
 *  1. A word with the space after it has at most 15 characters, so that it is one copy of 16 bytes;
 *     what it writes beyond its length is overwritten by the next word.
 *  2. A sentence is shorter than SENTENCE_MAX, and so is the way from any place in the text back to
 *     where the sentence there begins: `back` fits in a byte.
 *  3. Sentences are written at their end with a space, which belongs to them. The text is thus a
 *     sequence of sentences, each a function of the seed that it starts with.
 */
#include "prose.h"

#include "random.h"
#include "words.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS_MAX  512u
#define WORDS_MAX    48u
#define SENTENCE_MAX 256u
#define FIRST_SEED   933588178u
#define MARKS	     (TPCH_PROSE_LENGTH / TPCH_PROSE_SPACING)

struct word {
	char text[15];
	uint8_t length;
};

/* A list of words, by the number that was drawn. */
struct vocabulary {
	unsigned total; /* of the weights */
	struct word words[WORDS_MAX];
	uint8_t number[WEIGHTS_MAX];
};

#define FORMS_MAX 5

/* Masks are 0 or all ones: an optional word is written in any case, and counts or not. */
struct noun_form {
	const struct vocabulary *first; /* adverbs, or adjectives with a comma */
	uint32_t first_mask, adjective_mask;
};

struct verb_form {
	bool auxiliary;
	uint32_t adverb_mask;
};

struct sentence_form {
	bool preposition;     /* and noun phrase, before the verb */
	bool object;	      /* a noun phrase behind the verb */
	uint32_t object_mask; /* of its preposition */
};

/* The sentence at a multiple of the spacing. Packed, so that all of them fit in a larger cache. */
struct __attribute__((packed)) mark {
	uint32_t seed;
	uint8_t back; /* how far before that place it begins */
};

struct tpch_prose {
	struct vocabulary adjectives, adjectives_comma, adverbs, auxiliaries, nouns, prepositions,
		terminators, verbs;
	struct vocabulary sentences, noun_phrases, verb_phrases; /* the forms that are drawn */
	struct sentence_form sentence_forms[FORMS_MAX];
	struct noun_form noun_forms[FORMS_MAX];
	struct verb_form verb_forms[FORMS_MAX];
	struct mark marks[MARKS];
};

/* ---- words and forms ---- */

static void vocabulary_init(struct vocabulary *v, const struct tpch_weighted *list, const char *end)
{
	for (unsigned i = 0; list[i].weight; i++) {
		size_t length = strlen(list[i].text), more = strlen(end);

		assert(i < WORDS_MAX && v->total + list[i].weight <= WEIGHTS_MAX);
		assert(length + more <= sizeof(v->words[i].text));
		memcpy(v->words[i].text, list[i].text, length);
		memcpy(v->words[i].text + length, end, more);
		v->words[i].length = (uint8_t)(length + more);
		memset(v->number + v->total, (int)i, list[i].weight);
		v->total += list[i].weight;
	}
}

static void init_words(struct tpch_prose *p)
{
	vocabulary_init(&p->sentences, tpch_sentences, "");
	vocabulary_init(&p->noun_phrases, tpch_noun_phrases, "");
	vocabulary_init(&p->verb_phrases, tpch_verb_phrases, "");
	vocabulary_init(&p->adjectives, tpch_adjectives, " ");
	vocabulary_init(&p->adjectives_comma, tpch_adjectives, ", ");
	vocabulary_init(&p->adverbs, tpch_adverbs, " ");
	vocabulary_init(&p->auxiliaries, tpch_auxiliaries, " ");
	vocabulary_init(&p->nouns, tpch_nouns, " ");
	vocabulary_init(&p->prepositions, tpch_prepositions, " ");
	vocabulary_init(&p->terminators, tpch_terminators, " ");
	vocabulary_init(&p->verbs, tpch_verbs, " ");
}

static uint32_t mask(bool wanted)
{
	return wanted ? UINT32_MAX : 0;
}

/* What words.h says in letters. */
static void init_forms(struct tpch_prose *p)
{
	for (unsigned i = 0; tpch_sentences[i].weight; i++) {
		const char *object = strchr(tpch_sentences[i].text, 'V') + 1;

		p->sentence_forms[i].preposition = tpch_sentences[i].text[1] == 'P';
		p->sentence_forms[i].object = *object != 'T';
		p->sentence_forms[i].object_mask = mask(*object == 'P');
	}
	for (unsigned i = 0; tpch_noun_phrases[i].weight; i++) {
		size_t letters = strlen(tpch_noun_phrases[i].text);
		bool adverb = tpch_noun_phrases[i].text[0] == 'D';

		p->noun_forms[i].first = adverb ? &p->adverbs : &p->adjectives_comma;
		p->noun_forms[i].first_mask = mask(letters > 2);
		p->noun_forms[i].adjective_mask = mask(letters > 1);
	}
	for (unsigned i = 0; tpch_verb_phrases[i].weight; i++) {
		p->verb_forms[i].auxiliary = tpch_verb_phrases[i].text[0] == 'X';
		p->verb_forms[i].adverb_mask = mask(strchr(tpch_verb_phrases[i].text, 'D'));
	}
}

TPCH_PRIVATE static inline unsigned draw_number(const struct vocabulary *v, uint32_t *seed)
{
	return v->number[tpch_draw(seed, 0, (int)v->total - 1)];
}

TPCH_PRIVATE static inline char *put_word(const struct vocabulary *v, uint32_t *seed, char *out)
{
	const struct word *word = &v->words[draw_number(v, seed)];

	memcpy(out, word, sizeof(*word));
	return out + word->length;
}

/* Nothing happens if the mask is 0. Branches here would be mispredicted as often as not. */
TPCH_PRIVATE static inline char *put_optional(const struct vocabulary *v, uint32_t wanted,
					      uint32_t *seed, char *out)
{
	uint32_t next = *seed;
	char *end = put_word(v, &next, out);

	*seed ^= (*seed ^ next) & wanted;
	return out + ((uint32_t)(end - out) & wanted);
}

/* ---- sentences ---- */

TPCH_PRIVATE static inline char *put_noun_phrase(const struct tpch_prose *p, uint32_t *seed,
						 char *out)
{
	const struct noun_form *form = &p->noun_forms[draw_number(&p->noun_phrases, seed)];

	out = put_optional(form->first, form->first_mask, seed, out);
	out = put_optional(&p->adjectives, form->adjective_mask, seed, out);
	return put_word(&p->nouns, seed, out);
}

TPCH_PRIVATE static inline char *put_verb_phrase(const struct tpch_prose *p, uint32_t *seed,
						 char *out)
{
	const struct verb_form *form = &p->verb_forms[draw_number(&p->verb_phrases, seed)];

	if (form->auxiliary)
		out = put_word(&p->auxiliaries, seed, out);
	out = put_word(&p->verbs, seed, out);
	return put_optional(&p->adverbs, form->adverb_mask, seed, out);
}

TPCH_PRIVATE static inline char *put_preposition(const struct tpch_prose *p, uint32_t wanted,
						 uint32_t *seed, char *out)
{
	out = put_optional(&p->prepositions, wanted, seed, out);
	memcpy(out, "the ", 4);
	return out + (4 & wanted);
}

/* Write a sentence, and up to 15 characters beyond it; returns its end. */
TPCH_PRIVATE static char *put_sentence(const struct tpch_prose *p, uint32_t *at, char *out)
{
	uint32_t seed = *at;
	const struct sentence_form *form = &p->sentence_forms[draw_number(&p->sentences, &seed)];

	out = put_noun_phrase(p, &seed, out);
	if (form->preposition) {
		out = put_preposition(p, UINT32_MAX, &seed, out);
		out = put_noun_phrase(p, &seed, out);
	}
	out = put_verb_phrase(p, &seed, out);
	if (form->object) {
		out = put_preposition(p, form->object_mask, &seed, out);
		out = put_noun_phrase(p, &seed, out);
	}
	/* In place of the last space. */
	out = put_word(&p->terminators, &seed, out - 1);
	*at = seed;
	return out;
}

TPCH_PRIVATE static void find_marks(struct tpch_prose *p)
{
	char sentence[SENTENCE_MAX];
	uint32_t seed = FIRST_SEED, at = 0, mark = 0;

	while (mark < MARKS) {
		uint32_t start = seed,
			 end = at + (uint32_t)(put_sentence(p, &seed, sentence) - sentence);

		for (; mark < MARKS && mark * TPCH_PROSE_SPACING < end; mark++) {
			p->marks[mark].seed = start;
			p->marks[mark].back = (uint8_t)(mark * TPCH_PROSE_SPACING - at);
		}
		at = end;
	}
}

/* ---- the interface ---- */

int tpch_prose_new(struct tpch_prose **out)
{
	struct tpch_prose *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	init_words(p);
	init_forms(p);
	find_marks(p);
	*out = p;
	return 0;
}

void tpch_prose_free(struct tpch_prose *prose)
{
	free(prose);
}

void tpch_prose_copy(const struct tpch_prose *p, uint32_t offset, uint32_t length, char *out)
{
	char text[2 * SENTENCE_MAX + TPCH_PROSE_SPACING + TPCH_COMMENT_MAX], *end = text;
	const struct mark *mark = &p->marks[offset / TPCH_PROSE_SPACING];
	uint32_t skip = offset % TPCH_PROSE_SPACING + mark->back;
	uint32_t seed = mark->seed;

	while (end < text + skip + length)
		end = put_sentence(p, &seed, end);
	memcpy(out, text + skip, length);
}
